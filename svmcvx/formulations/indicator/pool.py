r"""Feasible points to start from, and the conic relaxation that proposes some of them.

The relaxation (:mod:`svmcvx.formulations.conic_loss.problems`) is minimised in its low-rank form
:math:`P(w, V)` (:mod:`svmcvx.formulations.conic_loss.models`) by L-BFGS. P jumps where V vanishes;
a ridge, that is the fixed columns :math:`\sqrt\rho I` next to V, makes it smooth, and decreases
from stage to stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from svmcvx.arrays import Floats
from svmcvx.errors import DataTypeError
from svmcvx.formulations.conic_loss.models import low_rank_gradient, minimised, relaxed_indicator
from svmcvx.formulations.indicator.statement import L0, CountingStatement
from svmcvx.formulations.signed_rows import (
    ON_MARGIN,
    Incumbent,
    SignedRows,
    elastic_filter,
    local_search,
    never,
    ramp_descent,
    soft_margin_scores,
)
from svmcvx.losses import ramp, zero_one
from svmcvx.model import BinaryModel
from svmcvx.system.deadline import current, interruptible

# Observations and columns up to which the relaxation is minimised: its work grows with their
# product, and with the square of the columns.
RELAXATION_ROWS, RELAXATION_COLUMNS = 200, 50


class RelaxedPoint(NamedTuple):
    """Normal, indicators, multipliers γ (not made feasible) and λ of the conic relaxation."""

    w: Floats
    z: Floats
    gamma: Floats
    lam: float


def relaxed_point(
    geometry: SignedRows, *, lam: float | None, k: float | None, stop: Callable[[], bool] = never
) -> RelaxedPoint | None:
    r"""Minimise the conic relaxation of the 0-1 problem without bias; None if it is too large, and
    where all or nothing may be dropped.

    .. math:: \min_{w, V}\; \|w\|^2 + \|V\|_F^2
        + \lambda\sum_i s_i \frac{(1-u_i)_+^2}{\|V'g_i\|^2 + (1-u_i)_+^2},

    or with :math:`s'z \le k` for the fractions :math:`z_i` in place of the penalty, whose
    multiplier is then λ. Where `stop` says so, the point is the last one.
    """
    G, weight = geometry.G, geometry.weight
    n, r = G.shape
    if n > RELAXATION_ROWS or r > RELAXATION_COLUMNS:
        return None
    if k is not None and not 0 < k < float(weight.sum()):
        return None
    # In units in which the rows have length 1 on average: λ is multiplied by the square of the
    # unit, γ too.
    mean = float(np.mean(np.einsum("ij,ij->i", G, G))) or 1.0
    H = G / math.sqrt(mean)
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            point = (
                _minimise(H, weight, lam * mean, stop)
                if lam is not None
                else _balanced(H, weight, float(k or 0), stop)
            )
    except np.linalg.LinAlgError:
        # Prices beyond the range of floating point: there are other heuristics.
        return None
    return RelaxedPoint(point.w / math.sqrt(mean), point.z, point.gamma / mean, point.lam / mean)


def _balanced(G: Floats, weight: Floats, k: float, stop: Callable[[], bool]) -> RelaxedPoint:
    """Minimise P for the λ at which Σ s z = k."""
    tried: list[tuple[float, RelaxedPoint]] = []

    def excess(logarithm: float) -> float:
        # From the first ridge each time: a point whose covariance has vanished cannot regain it.
        point = _minimise(G, weight, math.exp(logarithm), stop)
        tried.append((math.log(max(float(weight @ point.z) / k, 1e-9)), point))
        return tried[-1][0]

    begin = math.log(4.0 / k)
    end, first = begin, excess(begin)
    # The sum falls as λ rises.
    while tried[-1][0] * first > 0 and abs(end - begin) < 30.0 and not stop():
        begin, end = end, end + math.copysign(1.5, first)
        excess(end)
    if tried[-1][0] * first < 0 and not stop():
        brentq(excess, begin, end, xtol=1e-6, maxiter=30, disp=False)
    return min(tried, key=lambda item: abs(item[0]))[1]


def _minimise(G: Floats, weight: Floats, lam: float, stop: Callable[[], bool]) -> RelaxedPoint:
    """Minimise P for one λ and rows of mean squared length 1 by L-BFGS with shrinking ridges."""
    r, height = G.shape[1], lam * weight
    # P is at most this at w = 0; the accuracy of L-BFGS is absolute for values below 1.
    unit = min(1.0, float(height.sum())) or 1.0
    # Solutions have one or two columns as a rule.
    directions = np.linalg.svd(G, full_matrices=False)[2][:10].T
    w, V, fixed = np.zeros(r), directions / math.sqrt(directions.shape[1]), np.eye(r)
    options = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 0.0, "maxcor": 20}
    for ridge in (0.3, 3e-3, 3e-5, 3e-7):
        fixed = math.sqrt(ridge) * np.eye(r)
        w, V = minimised(w, V, G, height, options, fixed=fixed, unit=unit, stop=stop)
    gamma = low_rank_gradient(w, np.hstack([V, fixed]), G, height)[3]
    return RelaxedPoint(w, relaxed_indicator(G @ w, np.sum((G @ V) ** 2, axis=1)), gamma, lam)


def counting_pool(
    statement: CountingStatement, earlier: Floats | None, *, lam: float | None, k: float | None
) -> tuple[tuple[Incumbent, ...], RelaxedPoint | None]:
    """Return points of all heuristics and of the relaxation, if minimised; `lam` or `k` is None."""
    deadline = current()
    began = deadline.seconds
    geometry = statement.geometry
    # Writing the program takes about as long as the factor.
    deadline = deadline.earlier(deadline.seconds - began)
    stop = deadline.passed
    relaxed = geometry
    if geometry.free:
        # For a score only: the free bias as the coefficient of a large constant feature.
        size = 10.0 * max(1.0, float(np.sqrt(np.mean(geometry.G**2))))
        relaxed = replace(
            geometry, G=np.hstack([geometry.G, size * geometry.y[:, None]]), free=False
        )
    with interruptible(deadline):
        relaxation = relaxed_point(relaxed, lam=lam, k=k, stop=stop)
        scores = [] if earlier is None else [np.where(earlier < 1.0 - ON_MARGIN, earlier, np.inf)]
        scores += [soft_margin_scores(geometry, 1.0, stop), elastic_filter(geometry, stop)]
        if relaxation is not None:
            scores += [-relaxation.z, relaxed.G @ relaxation.w]
        best = local_search(geometry, statement.objective_value, scores=scores, stop=stop)
    zeros = np.zeros(geometry.G.shape[1])
    biases = (0.0, 1.0, -1.0) if geometry.free else (0.0,)
    constants = [geometry.incumbent(zeros, b, zero_one) for b in biases]
    return tuple(([] if best is None else [best]) + constants), relaxation


def incumbent_margins(incumbent: Any, statement: CountingStatement) -> Floats | None:
    """Return the margins of a user's incumbent, a model or a solution; None for None."""
    if incumbent is None:
        return None
    model = getattr(incumbent, "model", incumbent)
    if not isinstance(model, BinaryModel):
        raise DataTypeError(
            "incumbent must be a model of two classes or a Solution, got"
            f" {type(incumbent).__name__}"
        )
    return np.asarray(statement.y * model.scores(statement.space.data.X).value)


def ramp_pool(counting: L0, earlier: Floats | None) -> tuple[Incumbent, ...]:
    """Return constant scores, hinge machines without what these give up, and the counting pool."""
    geometry, deadline = counting.geometry, current()
    starts, _ = counting_pool(counting, earlier, lam=2 * counting.C, k=None)
    sets = [np.zeros(counting.y.size, dtype=bool), starts[0].u < -1.0]
    if earlier is not None:
        sets.append(earlier < -1.0)
    points = [(point.w, point.b) for point in starts]
    points += [(np.zeros(geometry.G.shape[1]), b) for b in (1.0, -1.0)]
    with interruptible(deadline):
        points += [ramp_descent(geometry, counting.C, dropped, deadline.passed) for dropped in sets]
    return tuple(geometry.incumbent(w, b, ramp) for w, b in points)
