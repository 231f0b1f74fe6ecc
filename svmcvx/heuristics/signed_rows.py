r"""Feasible points of problems with a 0-1, ramp or l0 loss, in signed rows.

With a factor `L` of the Gram matrix the signed rows are :math:`g_i = y_i L_i`, so that :math:`u_i =
g_i'w + y_i b`, with a bias `b` that is free or absent. A point is described by the set of
observations that it drops: the best such point is the hard-margin solution of the other
observations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import EPS
from svmcvx.certificate.rows import row_norms_above
from svmcvx.feature_space import FeatureSpace
from svmcvx.kernels.functions import distances_above
from svmcvx.numerical import MarginOperator, solve_support_equations
from svmcvx.system import memory


class LeastNorm(NamedTuple):
    """The point of least norm with u_i ≥ 1 on some rows: w = Σ α_i g_i, and the bias."""

    w: Floats
    b: float
    alpha: Floats


def least_norm(G: Floats, y: Floats | None) -> LeastNorm | None:
    r"""Return the point of least norm with :math:`g_i'w + y_i b \ge 1`, or None (to rounding)."""
    m, r = G.shape
    if m == 0 or (y is not None and (y == y[0]).all()):
        return LeastNorm(np.zeros(r), 0.0 if m == 0 or y is None else float(y[0]), np.zeros(m))
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G))))
    if scale == 0:
        return None
    H = G / scale
    # A long constant feature stands for a free bias, before polishing.
    bias = np.zeros((0, m)) if y is None else 1e3 * y[None, :]
    try:
        mu, _ = nnls(
            np.vstack([H.T, bias, np.ones((1, m))]), np.append(np.zeros(r + len(bias)), 1.0)
        )
    except RuntimeError:
        return None
    # 1 − Σμ = 1/(1 + ‖w‖²): below rounding the set counts as infeasible.
    rest = 1.0 - float(mu.sum())
    if not rest > 500 * EPS:
        return None
    alpha = mu / rest
    found = _to_margin(H, y, alpha)
    # Polishing takes twice as long as the least squares.
    if y is not None or found is None or float((H[mu > 0.0] @ found.w).max()) > 1.0 + 1e-12:
        polished = _polish(H, y, alpha)
        found = (None if polished is None else _to_margin(H, y, polished)) or found
    return None if found is None else LeastNorm(found.w / scale, found.b, found.alpha / scale**2)


def _to_margin(H: Floats, y: Floats | None, alpha: Floats) -> LeastNorm | None:
    """Scale w = H'α, with the best bias, to a smallest margin of 1."""
    w = H.T @ alpha
    u = H @ w
    if y is None:
        margin, b = float(u.min()), 0.0
    else:
        lowest, highest = float(u[y > 0].min()), float((-u)[y < 0].max())
        margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
    return LeastNorm(w / margin, b / margin, alpha / margin) if margin > 0 else None


def _polish(H: Floats, y: Floats | None, alpha: Floats) -> Floats | None:
    """Solve u = 1 on the support exactly, changing it where signs or margins ask for it."""
    free = alpha > 1e-10 * float(alpha.max())
    signed = MarginOperator(
        lambda alpha: np.asarray(H @ (H.T @ alpha)), lambda rows: H[rows] @ H[rows].T, y
    )
    return solve_support_equations(
        signed,
        np.where(free, alpha, 0.0),
        free=free,
        upper_bound=np.full(alpha.size, np.inf),
        bias=0.0,
        slack=None,
    )


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
        """Return the signed rows of a feature space; raise an error if memory is too small."""
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

    def margins(self, w: Floats, b: float) -> Floats:
        """Return u at (w, b)."""
        return np.asarray(self.G @ w + (self.y * b if self.free else 0.0))

    def incumbent(self, w: Floats, b: float, loss: Callable[[Floats], Floats]) -> Incumbent:
        """Return the point (w, b) with its costs; `loss` maps margins to losses."""
        u = self.margins(w, b)
        return Incumbent(w, b, float(w @ w), u, float(self.weight @ loss(u)))

    def refit(self, kept: Bools) -> LeastNorm | None:
        """Return the hard-margin solution of a set, with multipliers for all observations."""
        found = least_norm(self.G[kept], self.y[kept] if self.free else None)
        if found is None:
            return None
        alpha = np.zeros(kept.size)
        alpha[kept] = found.alpha
        return LeastNorm(found.w, found.b, alpha)


def violated(u: Floats) -> Floats:
    """Return 1 for each observation whose margin is below 1 by more than rounding, else 0."""
    return (u < 1.0 - ON_MARGIN).astype(np.float64)


def never() -> bool:
    """Return False: the `stop` of a heuristic without a limit."""
    return False


# Relative amount by which bounds computed in floating point are enlarged.
WIDENING = 1e-9


def big_m_bound(
    geometry: SignedRows,
    norm_left: Callable[[Floats], Floats],
    *,
    lowest: float,
    all_dropped: float,
) -> Floats:
    """Return valid values of M: for each observation the largest 1 − u at an optimum."""
    M, length = np.zeros(geometry.y.size), row_norms_above(geometry.G)
    for label in np.unique(geometry.y) if geometry.free else (0.0,):
        members = np.flatnonzero(geometry.y == label) if geometry.free else np.arange(M.size)
        apart = distances_above(geometry.G[members], geometry.G[members])
        # An observation comes first among observations at distance 0.
        np.fill_diagonal(apart, -1.0)
        order = np.argsort(apart, axis=1, kind="stable")
        for m, near, distance in zip(members, order, apart, strict=True):
            left = norm_left(np.cumsum(geometry.weight[members[near]]))
            radius = np.sqrt(np.maximum(left[:-1], 0.0))
            depth = lowest + radius * distance[near[1:]]
            if not geometry.free:
                depth = np.minimum(depth, 1.0 + radius * length[m])
            depth = np.where(left[:-1] >= 0, depth, 0.0)
            M[m] = max(float(depth.max(initial=0.0)), all_dropped if left[-1] >= 0 else 0.0)
    return np.where(M > 0, M * (1 + WIDENING) + WIDENING, 0.0)
