"""Hard-margin machines of many observations through the Gram matrix of few: a working set that grows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.core.active_set_factor import State, extended, new_state
from svmcvx.feature_space import FeatureSpace, KernelSpace, LinearSpace
from svmcvx.kernels import row_norms

__all__ = ["WorkingSet", "extent", "gram_block"]

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]


def gram_block(space: FeatureSpace, rows: Indices, columns: Indices) -> Floats:
    """Return the block of the Gram matrix of some observations with others, as the space's products see it."""
    if isinstance(space, LinearSpace):
        block: Any = space.X[rows] @ space.X[columns].T
        return np.asarray(block.toarray() if sp.issparse(block) else block)
    if isinstance(space, KernelSpace) and not space.keep_gram:
        return np.asarray(space.columns(columns)(rows), dtype=np.float64)
    assert isinstance(space, KernelSpace)  # noqa: S101 - there are no other spaces
    return np.asarray(space.gram[np.ix_(rows, columns)])


def extent(space: FeatureSpace) -> float:
    """Largest squared norm of an observation in feature space."""
    if isinstance(space, LinearSpace):
        return float(row_norms(space.X).max()) ** 2
    return float(np.abs(space.kernel.diagonal(space.data.X)).max()) if space.kernel else 0.0


class WorkingSet:
    """Some observations, their Gram matrix, and the state of the active-set method on them.

    Parameters
    ----------
    space : FeatureSpace
        With a free intercept.
    members : ndarray of int
        Observations to begin with.
    """

    def __init__(self, space: FeatureSpace, members: Indices) -> None:
        self.space, self.members = space, np.asarray(members, dtype=np.intp)
        K = gram_block(space, self.members, self.members)
        self.extent = extent(space)
        self.state: State = new_state((K + K.T) / 2, space.data.y[self.members], self.extent)

    @property
    def n(self) -> int:
        """Number of members."""
        return int(self.members.size)

    @property
    def support(self) -> Indices:
        """Tight observations, by their numbers in the working set."""
        return np.asarray(self.state.S[: self.state.tight[0]], dtype=np.intp)

    def coefficients(self) -> Floats:
        """Return v for all observations."""
        v = np.zeros(self.space.data.n)
        v[self.members] = self.state.v
        return v

    def grow(self, fresh: Indices) -> None:
        """Take in observations, behind those that are in."""
        old, size = self.state, self.n
        K = np.empty((size + fresh.size, size + fresh.size))
        K[:size, :size] = old.K
        K[size:, :size] = gram_block(self.space, fresh, self.members)
        K[:size, size:] = K[size:, :size].T
        block = gram_block(self.space, fresh, fresh)
        K[size:, size:] = (block + block.T) / 2
        self.members = np.append(self.members, fresh)
        self.state = new_state(K, self.space.data.y[self.members], self.extent)
        extended(self.state, old)

    def shrink(self, kept: NDArray[np.bool_]) -> None:
        """Let members go that are not tight."""
        old = self.state
        place = np.cumsum(kept) - 1
        chosen = np.flatnonzero(kept)
        self.members = self.members[chosen]
        self.state = new_state(np.ascontiguousarray(old.K[np.ix_(chosen, chosen)]), old.y[chosen], self.extent)
        old.S[: old.tight[0]] = place[old.S[: old.tight[0]]]
        moved = old._replace(v=old.v[chosen])
        extended(self.state, moved)
