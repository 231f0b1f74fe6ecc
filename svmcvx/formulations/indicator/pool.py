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
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from svmcvx.errors import DataTypeError
from svmcvx.formulations.conic_loss.models import low_rank_gradient, relaxed_indicator
from svmcvx.formulations.indicator.statement import L0, CountingStatement
from svmcvx.heuristics.local_search import local_search
from svmcvx.heuristics.machines import elastic_filter, ramp_descent, soft_margin_scores
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, SignedRows, never
from svmcvx.losses import ramp, zero_one
from svmcvx.model import BinaryModel
from svmcvx.system.deadline import Deadline, current, interruptible

Floats: TypeAlias = NDArray[np.float64]

# Sizes up to which the relaxation is minimised.
RELAXATION_ROWS, RELAXATION_COLUMNS = 200, 50
# Columns of V, at most; solutions have one or two as a rule.
COVARIANCE_RANK = 10
# Ridges for rows of mean squared length 1.
RIDGES = (0.3, 3e-3, 3e-5, 3e-7)
# L-BFGS: steps, relative decrease of P at which it ends, and pairs that it remembers.
STEPS, ACCURACY, CORRECTIONS = 1000, 1e-15, 20
# Rounds in which columns are added to V for one ridge, the excess of an eigenvalue over 1 that
# counts, and the squared length of a new column as a share of V's.
NEW_COLUMNS, BEYOND, SMALL = 5, 1e-6, 1e-3
# In the cardinality form: values of λ that are tried, the relative accuracy of the row, and the
# largest change of log λ.
TRIED_LAM, BALANCED, LARGEST_CHANGE = 30, 1e-6, 3.0
# The first λ makes λ Σ s z this many times the squared norm of a margin of 1 on an average row.
FIRST_LAM = 4.0
# Coefficient of the constant feature that stands for a free bias in the relaxation, in units of the
# data.
CONSTANT = 10.0


class RelaxedPoint(NamedTuple):
    """A point of the conic relaxation: normal, relaxed indicators, multipliers γ (not made
    feasible), and λ.
    """

    w: Floats
    z: Floats
    gamma: Floats
    lam: float


def relaxed_point(
    geometry: SignedRows, *, lam: float | None, k: float | None, stop: Callable[[], bool] = never
) -> RelaxedPoint | None:
    r"""Minimise the conic relaxation of the 0-1 problem without bias; None if it is too large, and
    for k = 0.

    .. math:: \min_{w, V}\; \|w\|^2 + \|V\|_F^2 + \lambda\sum_i s_i \frac{(1-u_i)_+^2}{\|V'g_i\|^2 + (1-u_i)_+^2},

    or with :math:`s'z \le k` for the fractions :math:`z_i` in place of the penalty, whose
    multiplier is then λ. Where `stop` says so, the point is the last one.
    """
    G, weight = geometry.G, geometry.weight
    n, r = G.shape
    if n > RELAXATION_ROWS or r > RELAXATION_COLUMNS:
        return None
    # In units in which the rows have length 1 on average: λ is multiplied by the square of the
    # unit, γ too.
    mean = float(np.mean(np.einsum("ij,ij->i", G, G))) or 1.0
    H = G / math.sqrt(mean)
    if k is not None and k >= float(weight.sum()):
        return RelaxedPoint(np.zeros(r), np.ones(n), np.zeros(n), 0.0)
    if k is not None and not k > 0:
        return None
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = (
                _minimise(H, weight, lam * mean, stop)
                if lam is not None
                else _balanced(H, weight, float(k or 0), stop)
            )
    except np.linalg.LinAlgError:
        # Prices beyond the range of floating point: there are other heuristics.
        return None
    return _in_units(found, mean)


def _in_units(point: RelaxedPoint, mean: float) -> RelaxedPoint:
    """Return a point for rows of mean squared length 1 in the units of rows with this one."""
    return RelaxedPoint(point.w / math.sqrt(mean), point.z, point.gamma / mean, point.lam / mean)


def _balanced(G: Floats, weight: Floats, k: float, stop: Callable[[], bool]) -> RelaxedPoint:
    """Minimise P for the λ at which Σ s z = k, found by secants in logarithms inside a bracket."""
    lam, low, high, previous = FIRST_LAM / k, 0.0, math.inf, (math.nan, math.nan)
    best, smallest = None, math.inf
    for _ in range(TRIED_LAM):
        # From the first ridge each time: a point whose covariance has vanished cannot regain it.
        found = _minimise(G, weight, lam, stop)
        total = float(weight @ found.z)
        error = math.log(total / k) if total > 0 else -math.inf
        if best is None or abs(error) <= smallest:
            best, smallest = found, abs(error)
        if abs(error) <= BALANCED or high <= low * (1.0 + BALANCED) or stop():
            break
        low, high = (lam, high) if error > 0 else (low, lam)
        # The sum falls as λ rises, at first about like 1/λ.
        rate = (
            (error - previous[1]) / math.log(lam / previous[0])
            if math.isfinite(previous[1])
            else -1.0
        )
        previous = lam, error
        change = -error / rate if rate < 0 else math.copysign(LARGEST_CHANGE, error)
        new = lam * math.exp(min(max(change, -LARGEST_CHANGE), LARGEST_CHANGE))
        if not low < new < high:
            new = (
                math.sqrt(low * high)
                if low > 0 and high < math.inf
                else (4.0 * lam if error > 0 else lam / 4.0)
            )
        lam = new
    assert best is not None  # noqa: S101 - the first one is taken
    return best


def _minimise(G: Floats, weight: Floats, lam: float, stop: Callable[[], bool]) -> RelaxedPoint:
    """Minimise P for one λ and rows of mean squared length 1; γ is that of the point with the last
    ridge.
    """
    r, height, gamma = G.shape[1], lam * weight, np.zeros(weight.size)
    directions = np.linalg.svd(G, full_matrices=False)[2][:COVARIANCE_RANK].T
    w, V = np.zeros(r), directions / math.sqrt(directions.shape[1])
    for ridge in RIDGES:
        fixed = math.sqrt(ridge) * np.eye(r)
        for _ in range(NEW_COLUMNS):
            w, V = _descend(w, V, G, height, fixed, stop)
            gamma = low_rank_gradient(w, np.hstack([V, fixed]), G, height)[3]
            # A direction of an eigenvalue above 1 that V does not have would lower P.
            values, vectors = np.linalg.eigh((G * gamma[:, None]).T @ G)
            if values[-1] <= 1.0 + BEYOND or stop():
                break
            sizes = np.sum(V**2, axis=0)
            length = math.sqrt(max(ridge, SMALL * float(sizes.sum())))
            V = np.column_stack([V[:, sizes > ridge], length * vectors[:, values > 1.0 + BEYOND]])
    return RelaxedPoint(w, relaxed_indicator(G @ w, np.sum((G @ V) ** 2, axis=1)), gamma, lam)


def _descend(
    w: Floats, V: Floats, G: Floats, height: Floats, fixed: Floats, stop: Callable[[], bool]
) -> tuple[Floats, Floats]:
    """Minimise P over w and V, next to fixed columns."""
    r, columns = V.shape
    # P is at most this at w = 0; the accuracy of L-BFGS is absolute for values below 1.
    unit = min(1.0, float(height.sum())) or 1.0

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        V = np.hstack([point[r:].reshape(r, columns), fixed])
        value, by_w, by_V, *_ = low_rank_gradient(point[:r], V, G, height)
        return value / unit, np.concatenate([by_w, by_V[:, :columns].ravel()]) / unit

    def check_stop(intermediate_result: OptimizeResult) -> None:
        if stop():
            raise StopIteration

    options = {
        "maxiter": STEPS,
        "maxfun": 2 * STEPS,
        "ftol": ACCURACY,
        "gtol": 0.0,
        "maxcor": CORRECTIONS,
    }
    start = np.concatenate([w, V.ravel()])
    end = minimize(
        value_and_gradient, start, jac=True, method="L-BFGS-B", options=options, callback=check_stop
    ).x
    return end[:r], end[r:].reshape(r, columns)


def counting_pool(
    statement: CountingStatement,
    earlier: Floats | None,
    *,
    lam: float | None,
    k: float | None,
    stop: Callable[[], bool] | None = None,
) -> tuple[tuple[Incumbent, ...], RelaxedPoint | None]:
    """Return feasible points from all heuristics, and the point of the conic relaxation if it was
    minimised.

    `lam` and `k` are those of the 0-1 problem with the same losses, one of them None.
    """
    deadline = current()
    began = deadline.seconds
    geometry = statement.geometry
    if geometry.is_wide:
        # Writing the program takes about as long as the factor.
        deadline = deadline.earlier(deadline.seconds - began)
    stop = deadline.passed if stop is None else stop
    relaxed = geometry
    if geometry.free:
        # For a score only: the free bias as the coefficient of a large constant feature.
        size = max(1.0, float(np.sqrt(np.mean(geometry.G**2))))
        relaxed = replace(
            geometry, G=np.hstack([geometry.G, CONSTANT * size * geometry.y[:, None]]), free=False
        )
    with interruptible(deadline):
        relaxation, best = _searched(statement, relaxed, earlier, lam=lam, k=k, stop=stop)
    zeros = np.zeros(geometry.G.shape[1])
    biases = (0.0, 1.0, -1.0) if geometry.free else (0.0,)
    constants = [geometry.incumbent(zeros, b, zero_one) for b in biases]
    return tuple(([] if best is None else [best]) + constants), relaxation


def _searched(
    statement: CountingStatement,
    relaxed: SignedRows,
    earlier: Floats | None,
    *,
    lam: float | None,
    k: float | None,
    stop: Callable[[], bool],
) -> tuple[RelaxedPoint | None, Incumbent | None]:
    """Minimise the relaxation on the rows `relaxed`, and search by all scores; return its point and
    the best one.
    """
    geometry = statement.geometry
    relaxation = relaxed_point(relaxed, lam=lam, k=k, stop=stop)
    scores = [] if earlier is None else [np.where(earlier < 1.0 - ON_MARGIN, earlier, np.inf)]
    scores += [soft_margin_scores(geometry, 1.0, stop), elastic_filter(geometry, stop)]
    if relaxation is not None:
        scores += [-relaxation.z, relaxed.G @ relaxation.w]
    best = local_search(
        geometry,
        statement.objective_value,
        loss_bound=statement.loss_bound,
        scores=scores,
        stop=stop,
    )
    return relaxation, best


def incumbent_margins(incumbent: Any, statement: CountingStatement) -> Floats | None:
    """Return the margins of the model or the solution that a user passes as incumbent; None for
    None.
    """
    if incumbent is None:
        return None
    model = getattr(incumbent, "model", incumbent)
    if not isinstance(model, BinaryModel):
        raise DataTypeError(
            "incumbent must be a model of two classes or a Solution, got"
            f" {type(incumbent).__name__}"
        )
    return np.asarray(statement.y * model.scores(statement.space.data.X).value)


def ramp_pool(
    counting: L0,
    earlier: Floats | None,
    *,
    heuristics: bool = True,
    deadline: Deadline | None = None,
) -> tuple[Incumbent, ...]:
    """Return feasible points: constant scores, hinge machines of what these give up, and those of
    the counting heuristics.
    """
    geometry, sets = counting.geometry, [np.zeros(counting.y.size, dtype=bool)]
    points = [(np.zeros(geometry.G.shape[1]), b) for b in (1.0, -1.0)]
    if earlier is not None:
        sets.append(earlier < -1.0)
    if heuristics:
        starts, _ = counting_pool(counting, earlier, lam=2 * counting.C, k=None)
        points += [(point.w, point.b) for point in starts]
        sets.append(starts[0].u < -1.0)
    deadline = deadline or current()
    with interruptible(deadline):
        points += [ramp_descent(geometry, counting.C, dropped, deadline.passed) for dropped in sets]
    return tuple(geometry.incumbent(w, b, ramp) for w, b in points)
