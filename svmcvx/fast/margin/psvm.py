r"""Specialised solvers of the pSVM: pSMO for kernels, coordinate ascent and Newton's method without
a Gram matrix for linear ones.

The statement is that of :mod:`svmcvx.formulations.margin`, and so is the certificate.

**Linear.** Dual coordinate ascent (:mod:`svmcvx.fast.linear.ascent`) or, where it is slow, Newton's
method (:mod:`svmcvx.fast.linear.newton`): for p ≥ 2 on the primal in (w, b), for p < 2 on the
subproblems of the augmented Lagrangian method.

**Without a free intercept** the dual has a box alone, and the steps of pSMO change one multiplier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import EPS, relative_gap
from svmcvx.data import Features, binary_data, check_choice, check_costs, check_number, merged
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    checked_settings,
    earlier_multipliers,
    earlier_solution,
    limited,
    solve,
    start_of,
)
from svmcvx.fast.core.rows import RowCacheSettings, Rows, kernel_rows
from svmcvx.fast.linear.ascent import solve_rows
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import LinearProblem, kernel_for, linear_model
from svmcvx.fast.margin.decomposition import (
    Decomposition,
    DecompositionSettings,
    LowRankNewton,
    LowRankSettings,
)
from svmcvx.fast.margin.smo_passes import near_best_bias
from svmcvx.feature_space import FeatureSpace, LinearSpace, feature_space
from svmcvx.feature_space.blocks import block_space
from svmcvx.feature_space.linear import DENSE
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin import (
    PSVM,
    check_intercept,
    dual_objective,
    kind_of_psvm,
    objective,
)
from svmcvx.kernels import KernelLike
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import LinearModel
from svmcvx.numerical import estimated_rounding
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status

KERNEL_METHODS, LINEAR_METHODS = ("auto", "smo"), ("auto", "newton", "dcd")


@dataclass(frozen=True)
class PSVMSettings:
    """Parameters of :func:`psvm` with a kernel: of its rows and their cache, of pSMO, and of
    Newton's method on a factor of low rank.
    """

    rows: RowCacheSettings = field(default_factory=RowCacheSettings)
    decomposition: DecompositionSettings = field(default_factory=DecompositionSettings)
    low_rank: LowRankSettings = field(default_factory=LowRankSettings)


@limited
def psvm(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    p: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | tuple[Any, Any] | None = None,
    cache_size: float = 500.0,
    float32_cache: bool = True,
    intercept: str = "free",
    indefinite: str = "error",
    method: str = "auto",
    seed: int = 0,
    settings: PSVMSettings | None = None,
) -> Solution:
    r"""Solve the pSVM by a specialised method, to a certified relative gap.

    .. math::
        \min_{w, b}\; \tfrac12\|w\|^2
        + C \sum_i s_i\, (1 - y_i(\langle w, \varphi(x_i)\rangle + b))_+^p

    Source: [Sun], Algorithm 1 (pSMO), with larger working sets and second-order selection. Where
    pair steps take long and the kernel matrix has a small numerical rank (few features), Newton's
    method on a factor of it may replace them, which takes up to `cache_size` megabytes more for a
    time.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        The Gram matrix for a precomputed kernel. Without a kernel the rows may come in blocks, see
        ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
        Two labels of any type.
    C : float
        Weight of the losses, positive; 1 by default.
    p : float
        Exponent of the hinge, any real number of at least 1, the default.
    max_iter : int
        Rounds: working sets with a kernel, without one Newton steps and rounds of up to 20 epochs.
    cache_size : float
        With a kernel: megabytes of stored kernel rows, 500 by default; no other memory grows with
        n². If there is no room for a tenth of the rows, none are stored
        (:mod:`svmcvx.fast.core.rows`).
    float32_cache : bool
        With a kernel: compute rows in single precision when there are more than a few thousand
        observations. Bounds are always computed in double precision.
    intercept : "free", "penalised" or "none"
        A free intercept; the coefficient of a constant feature, which is penalised like the others,
        as in LIBLINEAR; or none.
    indefinite : "error" or "clip"
        With a kernel: what to do if it is indefinite on the data. Kernels that may be (sigmoid,
        callable, precomputed) are tested, which needs the Gram matrix.
    method : str
        With a kernel ``"auto"`` or ``"smo"``; without one ``"auto"``, ``"newton"`` or ``"dcd"``,
        coordinate ascent on the dual. ``"auto"`` takes this as long as the rate at which its gap
        falls promises less work than Newton's method, and then that; it solves ``kernel="linear"``
        on the data themselves, with a linear model, if the scales of the columns are so different
        that inner products lose the small ones, or C is so large that pair steps are slow.
    seed : int
        Of the first working set with a kernel, and of the order of coordinates without. Same seed,
        same result.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.fast.psvm(X, y, C=1.0, p=1.5, kernel="rbf", tol=1e-8)
    >>> solution.status.value, solution.certificate.is_certified(1e-8)
    ('optimal', True)
    """
    C = check_number(C, "C")
    p = check_number(p, "p")
    intercept = check_intercept(intercept)
    settings = checked_settings(settings, PSVMSettings)
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    free = intercept == "free"
    if from_blocks := in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None)
        check_choice(method, "method", LINEAR_METHODS)
        blocks = block_space(X, y, sample_weight, intercept=intercept)
        if not blocks.small:
            return solve_in_blocks(
                kind_of_psvm(intercept)(blocks, C, p),
                blocks,
                BlockLoss(hinge_power(p), C, {"bias": free}),
                limits,
                solver="fast.psvm/newton",
                warm_start=earlier_solution(warm_start),
            )
        X, y, sample_weight = blocks.loaded()
    data = binary_data(X, y, sample_weight)
    check_costs(C, data.weight)
    space = feature_space(
        data,
        kernel_for(data, kernel, cost=C if p < 2 else 0.0) if method == "auto" else kernel,
        intercept=intercept,
        indefinite=indefinite,
        keep_gram=False,
    )
    linear = space.is_linear
    check_choice(method, "method", LINEAR_METHODS if linear else KERNEL_METHODS)
    statement = kind_of_psvm(intercept)(space=space, C=C, p=p)
    # Rows from blocks are started by models of other rows as well.
    given = start_of(warm_start, statement)
    if given is not warm_start and not free:
        raise DataError(
            "warm_start=(coef, intercept) starts the pSVM with a free intercept; pass a Solution of"
            " the same data"
        )
    warm = earlier_multipliers(given, statement, required=not from_blocks and given is warm_start)
    earlier = earlier_solution(given)

    def by_pairs(part: PSVM, monitor: Monitor, start: tuple[Floats, Floats] | None) -> Found:
        rows = kernel_rows(
            part.space, cache_size=cache_size, float32=float32_cache, settings=settings.rows
        )
        low_rank = LowRankNewton(part, cache_size, settings.low_rank)
        return _solve_kernel(part, rows, low_rank, monitor, start, seed, settings.decomposition)

    def run(monitor: Monitor, start: Any) -> Found:
        if linear:
            return _solve_linear(statement, monitor, start, method, seed)
        distinct = merged(data) if space.blockwise and start is None else None
        if distinct is not None:
            some, place, share = distinct
            part = replace(statement, space=replace(cast(Any, space), data=some, cache=None))
            found, *_ = by_pairs(part, monitor.within(0.1 * monitor.tol, monitor.max_iter), None)
            alpha = found.duals[-1]["alpha"]
            start = alpha[place] * share, part.space.point(alpha * part.y).scores.value[place]
        return by_pairs(statement, monitor, start)

    start = None if earlier is None else _start_from(statement, earlier, warm)
    return solve(statement, run, start, limits, name="fast.psvm/{method}")


# Coefficients and intercept to start from, and multipliers where they are known.
LinearStart: TypeAlias = tuple[Floats, float, Floats | None]


def _solve_linear(
    statement: PSVM,
    monitor: Monitor,
    start: LinearStart | None,
    method: str = "auto",
    seed: int = 0,
) -> Found:
    space, p = statement.space, statement.p
    free, constant = space.intercept == "free", space.intercept == "penalised"
    X, centre = _features(space)
    c = statement.C * statement.weight
    norms = None if free else cast(LinearSpace, space).norms
    problem = LinearProblem(
        X, statement.y, c, hinge_power(p), bias=free, constant=constant, norms=norms
    )
    w, b, alpha = start or (None, 0.0, None)
    if w is not None:
        b = b + float(centre @ w) if free else 0.0
    point, status, options = solve_rows(problem, monitor, method, w=w, b=b, alpha=alpha, seed=seed)
    biases = [point.b]
    if free and (p == 1 or (status is not Status.OPTIMAL and not problem.smooth)):
        # For p = 1 the bias of the method is optimal for an envelope, whose interval of optimal
        # biases differs; for 1 < p < 2 it is optimal only approximately.
        exact = statement.exact_intercept(np.asarray(X @ point.w))
        biases = [exact] if p == 1 else [point.b, exact]
    models: list[Any] = [linear_model(space, point.w, b, point.alpha > 0, centre) for b in biases]
    found = RecoveredPoints(models, [{"alpha": point.alpha}])
    size = problem.largest_norm * float(np.linalg.norm(point.w))
    rounding = estimated_rounding(problem.d) * size
    found.models.extend(multiples(statement, found.models[0], rounding, monitor))
    if not free and status is Status.INACCURATE and statement.y.size <= 1000:
        more = statement.recover(point.alpha)
        found = RecoveredPoints([*found.models, *more.models], [*found.duals, *more.duals])
    return found, status, options if problem.smooth else {**options, "sigma": point.sigma}


def _features(space: FeatureSpace) -> tuple[Features, Floats]:
    """Return data, without a constant column, and centre; for a free intercept dense data are
    centred, and sparse ones with many non-zeros made dense.
    """
    X = space.data.X if space.intercept == "penalised" else space.X
    if space.intercept != "free" or not sp.issparse(X) or X.nnz < DENSE * math.prod(X.shape):
        return X, space.centre
    dense = X.toarray()
    centre = np.asarray(dense.mean(axis=0))
    dense -= centre
    return dense, centre


def _start_from(statement: PSVM, earlier: Solution, alpha: Floats | None) -> Any:
    """Return an earlier solution's start: linear, or multipliers with their scores."""
    space, X = statement.space, statement.space.X if statement.space.is_linear else None
    # By how much C has grown.
    C = earlier.hyperparameters.get("C")
    ratio = statement.C / C if isinstance(C, float) and C > 0 else 1.0
    if X is None:
        return None if alpha is None else _adapted(statement, alpha, ratio)
    free = space.intercept == "free"
    if free and isinstance(earlier.model, LinearModel):
        w, bias = np.array(earlier.model.coef), float(earlier.model.intercept)
        if w.shape != (X.shape[1],):
            raise DataError(
                f"warm_start is a solution of data with {w.size} features, these have {X.shape[1]}"
            )
    elif alpha is None:
        if not free:
            return None
        raise DataError(
            "warm_start must be a Solution with a linear model, or with multipliers of the same"
            " data"
        )
    else:
        w = np.asarray(X.T @ (alpha * statement.y))
        bias = statement.exact_intercept(np.asarray(X @ w))
        bias -= float(space.centre @ w) if free else 0.0
    return w, bias, None if alpha is None else alpha * ratio


class _Bounds:
    """The bounds of multipliers by scores, with the last intercept and unscaled objective."""

    def __init__(self, statement: PSVM) -> None:
        self.statement, self.b, self.scores = statement, 0.0, np.zeros(0)
        self.lower, self.upper, self.plain = -math.inf, math.inf, math.inf

    def __call__(self, alpha: Floats, f: Floats) -> tuple[float, float]:
        s = self.statement
        y, p, weight, free = s.y, s.p, s.weight, s.space.intercept == "free"
        norm = max(float((alpha * y) @ f), 0.0)
        # Any bias gives an upper bound; for p > 1 a nearly optimal one is much cheaper.
        if free and p > 1:
            self.b = near_best_bias(f, y, weight, p, self.b)
        elif free:
            self.b = s.exact_intercept(f)
        with np.errstate(over="ignore"):
            self.plain = objective(norm, y * (f + self.b), C=s.C, p=p, weight=weight)
            # A multiple has no losses if the classes are separated.
            low, high = float(f[y > 0].min()), float(f[y < 0].max())
            margin = 0.5 * (low - high) if free else min(low, -high)
            multiple = 0.5 * norm / margin / margin if margin > 0 else math.inf
        self.lower, self.scores = dual_objective(alpha, norm, C=s.C, p=p, weight=weight), f
        self.upper = min(self.plain, multiple)
        return self.lower, self.upper


def _solve_kernel(
    statement: PSVM,
    rows: Rows,
    low_rank: LowRankNewton,
    monitor: Monitor,
    start: tuple[Floats, Floats] | None,
    seed: int,
    settings: DecompositionSettings,
) -> Found:
    y, p, space, bounds = statement.y, statement.p, statement.space, _Bounds(statement)
    pairs = Decomposition(
        statement=statement,
        rows=rows,
        bounds=bounds,
        c=statement.C * p * statement.weight,
        r=0.0 if p == 1 else 1.0 / (p - 1.0),
        upper_bound=np.array(np.broadcast_to(statement.upper_bound(), y.size), dtype=np.float64),
        seed=seed,
        alpha=np.zeros(y.size) if start is None else start[0],
        scores=None if start is None else start[1],
        low_rank=low_rank,
        settings=settings,
    )
    status = pairs.run(monitor)
    options = pairs.options
    if low_rank.rank:
        options["low_rank"] = low_rank.rank
    found = RecoveredPoints([], [])
    for alpha in pairs.points(monitor):
        scored = space.point(alpha * y).scores
        if not np.array_equal(scored.value, bounds.scores):
            bounds(alpha, scored.value)
        bias = statement.exact_intercept(scored.value, near=bounds.b) if p > 1 else bounds.b
        found.models.append(space.model(alpha * y, bias))
        found.duals.append({"alpha": alpha})
        rounding, lower = float(np.max(scored.error)), bounds.lower
        if relative_gap(lower, bounds.upper) <= monitor.tol < relative_gap(lower, bounds.plain):
            # A multiple is the answer.
            rounding = math.inf
        found.models.extend(multiples(statement, found.models[-1], rounding, monitor))
    for alpha in pairs.raw_points() if status is Status.INACCURATE else ():
        bias = statement.exact_intercept(space.point(alpha * y).scores.value)
        found.models.append(space.model(alpha * y, bias))
    return found, status, options


def multiples(statement: PSVM, model: Any, rounding: float, monitor: Monitor) -> list[Any]:
    """Return the best and the centred multiple of a model, which round less at large C."""
    c, y = statement.C * statement.weight, statement.y
    if not float(c.sum()) * rounding > 0.01 * monitor.tol * monitor.upper:
        return []
    margins = statement.margins_of(model)
    # The model that is scaled has roundings of its own.
    u, norm = margins.value - 2.0 * margins.error, 2.0 * float(statement.penalty(model).value)
    found = [(0.0, u)]
    if statement.space.intercept == "free":
        shift = 0.5 * float(u[y < 0].min() - u[y > 0].min())
        found.append((shift, u + y * shift - 4.0 * EPS * (abs(shift) + abs(model.intercept))))
    scaled = []
    for shift, u in found:
        t = best_multiple(u, norm, c, statement.p)
        if t < 0.1:
            # Nearly w = 0.
            continue
        name = "coef" if isinstance(model, LinearModel) else "dual_coef"
        parts = {"intercept": t * (model.intercept + shift), name: t * getattr(model, name)}
        scaled.append(replace(model, **parts))
    return scaled


def best_multiple(u: Floats, norm: float, c: Floats, p: float) -> float:
    r"""Return argmin_t of :math:`\tfrac12t^2\|w\|^2 + \sum_ic_i(1 - tu_i)_+^p`, rounded up."""

    def grows(t: float) -> bool:
        slack = 1.0 - t * u
        lost = slack > 0
        return t * norm >= float((c[lost] * u[lost]) @ (p * slack[lost] ** (p - 1.0)))

    low, high = 0.0, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        while norm > 0 and high < 1e18 and not grows(high):
            low, high = high, 2.0 * high
        while high - low > EPS * high and low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if grows(middle) else (middle, high)
    return high


def _adapted(statement: PSVM, alpha: Floats, ratio: float) -> tuple[Floats, Floats]:
    """Return the best of a few multiples of earlier multipliers, and nearly its scores."""
    alpha = statement.feasible(alpha)
    s, point = statement, statement.space.point(alpha * statement.y)
    norm, total = float(point.squared_norm.value), float(alpha.sum())

    def value(t: float) -> float:
        # The loss's conjugate is homogeneous, and 0 within the box at p = 1.
        found = t * total - conjugate * np.float64(t) ** degree - 0.5 * t * t * norm
        return -math.inf if math.isnan(found) else float(found)

    with np.errstate(over="ignore", invalid="ignore"):
        conjugate, degree = 0.0, 1.0
        longest = total / norm if norm > 0 else 1.0
        if s.p == 1:
            # Rounding may take a multiple above its upper bound; it is clipped there.
            most = 1.0 / float((alpha / s.upper_bound()).max(initial=1e-300))
            multiples = [min(t, most) for t in (1.0, ratio, longest)]
        else:
            conjugate = float(hinge_power_conjugate(alpha, s.C * s.weight, s.p).sum())
            multiples, degree = [0.0, 1.0, ratio, longest], s.p / (s.p - 1.0)
        best = max(multiples, key=value)
    return np.minimum(best * alpha, s.upper_bound()), best * point.scores.value
