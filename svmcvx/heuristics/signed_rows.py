r"""Feasible points of problems with a 0-1, ramp or l0 loss, in signed rows.

With a factor `L` of the Gram matrix the signed rows are :math:`g_i = y_i L_i`, so that :math:`u_i =
g_i'w + y_i b`, with a bias `b` that is free or absent. A point is described by the set of
observations that it drops: the best such point is the hard-margin solution of the other
observations (:mod:`svmcvx.heuristics.least_norm`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace
from svmcvx.heuristics.least_norm import LeastNorm, least_norm
from svmcvx.system import memory

__all__ = ["ON_MARGIN", "Incumbent", "SignedRows", "violated"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Columns up to which the time of passes over the rows is negligible.
FEW = 500
# Rounding error of margins after a refit, whose point is scaled so that the smallest margin of the
# set is 1.
ON_MARGIN = 1e-9


class Incumbent(NamedTuple):
    """A feasible point: normal in the columns of the factor, bias, ‖w‖², margins, and losses."""

    w: Floats
    b: float
    norm: float
    u: Floats
    loss: float

    @property
    def dropped(self) -> Bools:
        """Observations with a margin below 1."""
        return self.u < 1.0 - ON_MARGIN


@dataclass(frozen=True)
class SignedRows:
    """Signed rows of the factor, labels, weights, and whether the bias is free."""

    G: Floats
    y: Floats
    weight: Floats
    free: bool

    @classmethod
    def of(cls, space: FeatureSpace) -> SignedRows:
        """Return the signed rows of a feature space; raise an error if they do not fit into memory."""
        L = space.factor
        n, r = L.shape
        memory.require(
            8.0 * (3.0 * n * r + 4.0 * n * n),
            f"a mixed-integer program on {n} observations and {r} columns",
            "use fewer observations; mixed-integer programs of this size are out of reach anyway",
        )
        dense = L.toarray() if sp.issparse(L) else L
        return cls(
            space.data.y[:, None] * dense,
            space.data.y,
            space.data.weight,
            space.intercept == "free",
        )

    @property
    def is_wide(self) -> bool:
        """Whether passes over the rows are so long that time must be reserved for them."""
        return bool(self.G.shape[1] > FEW)

    def incumbent(self, w: Floats, b: float, loss: Callable[[Floats], Floats]) -> Incumbent:
        """Return the point (w, b) with its costs; `loss` maps margins to losses."""
        u = self.G @ w + (self.y * b if self.free else 0.0)
        return Incumbent(w, b, float(w @ w), u, float(self.weight @ loss(u)))

    def refit(self, kept: Bools) -> LeastNorm | None:
        """Return the hard-margin solution of a set of observations, with multipliers for all
        observations.
        """
        found = least_norm(self.G[kept], self.y[kept] if self.free else None)
        if found is None:
            return None
        alpha = np.zeros(kept.size)
        alpha[kept] = found.alpha
        return LeastNorm(found.w, found.b, alpha)


def violated(u: Floats) -> Floats:
    """Return 1 for each observation with a margin below 1 (by more than the rounding of a refit),
    else 0.
    """
    return (u < 1.0 - ON_MARGIN).astype(np.float64)


def never() -> bool:
    """Return False: the `stop` of a heuristic without a limit."""
    return False
