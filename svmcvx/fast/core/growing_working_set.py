"""A working set that grows, for hard-margin machines of many observations that need the Gram matrix
of few.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.active_set import LARGEST_SUPPORT, State, extended, new_state
from svmcvx.feature_space import FeatureSpace

__all__ = ["GrowingWorkingSet"]

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]


class GrowingWorkingSet:
    """Some observations, their Gram matrix, and the state of the active-set method on them."""

    def __init__(
        self, space: FeatureSpace, members: Indices, largest_support: int = LARGEST_SUPPORT
    ) -> None:
        self.largest_support = largest_support
        self.space, self.members = space, np.asarray(members, dtype=np.intp)
        K = space.block(self.members, self.members)
        self.extent = float(np.abs(space.diagonal()).max())
        self.state = self._new_state((K + K.T) / 2, space.data.y[self.members])

    def _new_state(self, K: Floats, y: Floats) -> State:
        return new_state(K, y, self.extent, self.largest_support)

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
        """Append observations to the working set."""
        old, size = self.state, self.n
        K = np.empty((size + fresh.size, size + fresh.size))
        K[:size, :size] = old.K
        K[size:, :size] = self.space.block(fresh, self.members)
        K[:size, size:] = K[size:, :size].T
        block = self.space.block(fresh, fresh)
        K[size:, size:] = (block + block.T) / 2
        self.members = np.append(self.members, fresh)
        self.state = self._new_state(K, self.space.data.y[self.members])
        extended(self.state, old)

    def shrink(self, kept: NDArray[np.bool_]) -> None:
        """Reduce the set to some of its members, among them all tight ones."""
        old = self.state
        place = np.cumsum(kept) - 1
        chosen = np.flatnonzero(kept)
        self.members = self.members[chosen]
        self.state = self._new_state(
            np.ascontiguousarray(old.K[np.ix_(chosen, chosen)]), old.y[chosen]
        )
        old.S[: old.tight[0]] = place[old.S[: old.tight[0]]]
        moved = old._replace(v=old.v[chosen])
        extended(self.state, moved)
