"""The point of least norm with margins of at least 1: the hard-margin problem in signed rows."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from svmcvx.numerical import MarginOperator, solve_support_equations

__all__ = ["FREE_BIAS", "LeastNorm", "least_norm"]

Floats: TypeAlias = NDArray[np.float64]

# 1 − Σμ = 1/(1 + ‖w‖²) in the scaled least-distance problem: below this the set counts as
# infeasible.
INFEASIBLE = 1e-13
# Coefficient of the constant feature that stands for a free bias in the least-distance problem,
# before polishing.
FREE_BIAS = 1e3
POLISHED = 1e-10
# Margins of the support that are above 1 by no more than this need no polishing, which takes twice
# as long as the least squares.
TIGHT = 1e-12


class LeastNorm(NamedTuple):
    r"""The point of least norm with :math:`u_i \ge 1` on some rows: :math:`w = \sum \alpha_i g_i`,
    and the bias.
    """

    w: Floats
    b: float
    alpha: Floats


def least_norm(G: Floats, y: Floats | None) -> LeastNorm | None:
    r"""Return the point of least norm with :math:`g_i'w + y_i b \ge 1`, or None if there is none
    (to rounding).
    """
    m, r = G.shape
    if m == 0 or (y is not None and (y == y[0]).all()):
        return LeastNorm(np.zeros(r), 0.0 if m == 0 or y is None else float(y[0]), np.zeros(m))
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G))))
    if scale == 0:
        return None
    H = G / scale
    bias = np.zeros((0, m)) if y is None else FREE_BIAS * y[None, :]
    try:
        mu, _ = nnls(
            np.vstack([H.T, bias, np.ones((1, m))]), np.append(np.zeros(r + len(bias)), 1.0)
        )
    except RuntimeError:
        return None
    rest = 1.0 - float(mu.sum())
    if not rest > INFEASIBLE:
        return None
    alpha = mu / rest
    found = _to_margin(H, y, alpha)
    if y is not None or found is None or float((H[mu > 0.0] @ found.w).max()) > 1.0 + TIGHT:
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
    """Solve u = 1 on the support exactly, changing the support where signs or margins ask for it."""
    free = alpha > POLISHED * float(alpha.max())
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
