r"""The primal of the conic relaxation in low-rank form: P(w, V), its gradient, and descent from an
approximate solution.

The symbols are those of :mod:`svmcvx.formulations.conic_loss.statement`; `A` holds the signed rows
:math:`y_i x_i`.

Source: [CepedaGomezHan], Theorem 2 and Appendix C, with :math:`W = ww' + VV'`.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from svmcvx.certificate import EPS
from svmcvx.certificate.bounded import Bounded, exact, parts_of, quietly, sqrt, square, total, where
from svmcvx.losses import slack

__all__ = [
    "low_rank_gradient",
    "objective",
    "polish",
    "polish_to_cardinality",
    "relaxed_indicator",
    "stationary_multipliers",
    "total_loss",
    "weighted_gram",
    "worst_indicator",
]

Floats: TypeAlias = NDArray[np.float64]

# Iterations of L-BFGS that polish an interior-point solution; in tests fewer than 50 were needed as
# a rule.
POLISHING_STEPS = 500
# In the cardinality form: values of λ that are tried, the relative accuracy of the row at which to
# stop, and the largest change of log λ in one step.
SECANT_STEPS = 15
ROW_ACCURACY = 1e-9
LARGEST_CHANGE = 2.0
# Directions of the covariance whose eigenvalue is below this share of the largest are dropped
# before polishing.
POLISHED_RANK = 1e-7
# Entries of the block of weighted rows that is formed at once, so that the data are not copied as a
# whole.
BLOCK_ENTRIES = 2**20


@quietly
def relaxed_indicator(u: Any, v: Any) -> Any:
    r"""Return :math:`z = (1-u)_+^2/(v + (1-u)_+^2)`, and 0 where u ≥ 1, of plain arrays, or of
    bounded ones without an error.

    As :math:`1/(1 + v/(1-u)^2)` it neither over- nor underflows.
    """
    m = slack(u)
    missed, spread = parts_of(m)[0] > 0.0, parts_of(v)[0] > 0.0
    if not spread.any():
        return where(missed, exact(1.0) if isinstance(u, Bounded) else 1.0, 0.0)
    inside = 1.0 / (1.0 + square(sqrt(v) / m))
    return where(missed & spread, inside, np.where(missed, 1.0, 0.0))


def worst_indicator(u: Floats, v: Floats) -> Floats:
    """Return numbers that are at least :func:`relaxed_indicator` for every margin from `u` and
    every variance from `v` on.

    The indicator is discontinuous where slack and variance both vanish, so that its error is not
    bounded by a multiple of the errors of its arguments: these are to be lowered by theirs.
    """
    return np.asarray(np.minimum(relaxed_indicator(exact(u), exact(v)).upper, 1.0))


def objective(
    squared_norm: Any, spread: Any, u: Any, v: Any, *, lam: Any, weight: Any = 1.0
) -> Any:
    r"""Return :math:`P = \|w\|^2 + \|V\|_F^2 + \lambda\sum_i s_i z_i`, with the two squared norms
    passed.

    With `spread` and `v` zero it is the 0-1 objective :math:`\|w\|^2 + \lambda\sum_i s_i 1[u_i <
    1]`.
    """
    return squared_norm + spread + total_loss(u, v, lam=lam, weight=weight)


def total_loss(u: Any, v: Any, *, lam: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`\lambda\sum_i s_i z_i`."""
    return lam * total(weight * relaxed_indicator(u, v))


def stationary_multipliers(u: Floats, v: Floats, height: Floats) -> tuple[Floats, Floats]:
    r"""Return the γ and α of a stationary point: :math:`\lambda s_i (1-u_i)_+^2/t_i^2` and
    :math:`2\lambda s_i (1-u_i)_+/t_i`.
    """
    m = slack(u)
    ratio = np.divide(m, v + m**2, out=np.zeros_like(m), where=m > 0)
    return height * ratio**2, 2.0 * height * ratio


def weighted_gram(L: Any, weights: Floats, *, block_entries: int = BLOCK_ENTRIES) -> Floats:
    r"""Return the dense matrix :math:`\sum_i c_i x_i x_i'` of the rows of `L`, block by block and
    without the zero weights.
    """
    n, r = L.shape
    if sp.issparse(L):
        return np.asarray((L.T @ (sp.diags_array(weights) @ L)).toarray())
    found = np.zeros((r, r))
    rows = max(1, block_entries // max(1, r))
    for start in range(0, n, rows):
        block, c = L[start : start + rows], weights[start : start + rows]
        counted = np.flatnonzero(c)
        if 2 * counted.size < c.size:
            block, c = block[counted], c[counted]
        found += block.T @ (c[:, None] * block)
    return found


def low_rank_gradient(
    w: Floats, V: Floats, A: Any, height: Floats
) -> tuple[float, Floats, Floats, Floats, Floats]:
    """Return :math:`P(w, V)`, its gradients by w and V, and the γ and α of a stationary point."""
    u, P = np.asarray(A @ w), np.asarray(A @ V)
    m, v = slack(u), np.sum(P**2, axis=1)
    gamma, alpha = stationary_multipliers(u, v, height)
    value = objective(float(w @ w), float(np.sum(V**2)), u, v, lam=1.0, weight=height)
    # ∂z/∂u = −2mv/t² and ∂z/∂v = −m²/t², in γ and α.
    gradient_w = 2.0 * w - np.asarray(A.T @ (alpha - 2.0 * gamma * m))
    return value, gradient_w, 2.0 * V - 2.0 * np.asarray(A.T @ (gamma[:, None] * P)), gamma, alpha


def polish(w: Floats, V: Floats, A: Any, height: Floats) -> tuple[Floats, Floats]:
    """Minimise P by L-BFGS from a solution of moderate accuracy; P is smooth where every slack or
    its variance is positive.
    """
    sizes = np.sum(V**2, axis=0)
    V = V[:, sizes > POLISHED_RANK * sizes.max(initial=0.0)]
    if V.shape[1] == 0:
        return w, V
    r = w.size

    def stacked(point: Floats) -> tuple[float, Floats]:
        value, by_w, by_V, *_ = low_rank_gradient(point[:r], point[r:].reshape(V.shape), A, height)
        return value, np.concatenate([by_w, by_V.ravel()])

    start = np.concatenate([w, V.ravel()])
    options = {"maxiter": POLISHING_STEPS, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
    end = minimize(stacked, start, jac=True, method="L-BFGS-B", options=options).x
    return end[:r], end[r:].reshape(V.shape)


def polish_to_cardinality(
    w: Floats, V: Floats, A: Any, weight: Floats, *, lam: float, allowance: float
) -> tuple[float, Floats, Floats]:
    """Polish with λ adjusted until Σ s z = allowance: the secant method in log λ, safeguarded by a
    bracket.
    """
    low, high = 0.0, math.inf
    best, best_error = (lam, w, V), math.inf
    previous: tuple[float, float] | None = None
    for _ in range(SECANT_STEPS):
        w, V = polish(w, V, A, lam * weight)
        u, v = np.asarray(A @ w), np.sum(np.asarray(A @ V) ** 2, axis=1)
        missed = float(weight @ relaxed_indicator(u, v))
        if not allowance > 0 or not missed > 0:
            break
        error = math.log(missed / allowance)
        if abs(error) < best_error:
            best, best_error = (lam, w, V), abs(error)
        if abs(error) <= ROW_ACCURACY or V.shape[1] == 0:
            break
        low, high = (lam, high) if error > 0 else (low, lam)
        # The sum decreases with λ; the first step takes it to be proportional to 1/λ.
        rate = (
            -1.0
            if previous is None
            else (error - previous[1]) / (math.log(lam / previous[0]) or EPS)
        )
        previous = (lam, error)
        new = (
            lam * math.exp(min(max(-error / rate, -LARGEST_CHANGE), LARGEST_CHANGE))
            if rate < 0
            else math.nan
        )
        if not low < new < high:
            new = (
                math.sqrt(low * high)
                if low > 0 and high < math.inf
                else (2 * lam if error > 0 else lam / 2)
            )
        lam = new
    return best
