r"""Specialised solvers of the hard-margin SVM: pSMO without a loss for kernels, an active-set
method for linear machines.

**Linear.** The problem on a working set of at most a few thousand observations is solved exactly by
:mod:`svmcvx.fast.core.active_set`; the observations whose margins are violated most join the
working set, and those far from the margin leave it, until none is violated. The optimum on each
working set is a lower bound, and the bounds increase, so that the method ends. Besides the data
only the Gram matrix of the working set is in memory. With more features than observations, or too
many tight observations, pSMO is used instead.

The statement is that of :mod:`svmcvx.formulations.margin`, and so is the certificate.
The multipliers α of a point enter both bounds by their direction only:

.. math::
    \frac{(\sum_i \alpha_i)^2}{2\, v'Kv} \;\le\; \text{optimum} \;\le\; \frac{v'Kv}{2 m^2}, \qquad
    m = \tfrac12\big(\min_{y_i = 1} f_i - \max_{y_i = -1} f_i\big) > 0.

:math:`2\sqrt{v'Kv}/\sum_i \alpha_i` is the distance of two points in the convex hulls of the
classes: when it is down to rounding, the hulls intersect, and the data are not separable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import signed
from svmcvx.data import BinaryData, Features, binary_data, check_choice
from svmcvx.errors import DataError
from svmcvx.fast.core import active_set
from svmcvx.fast.core.active_set import LARGEST_SUPPORT, GrowingWorkingSet, ray
from svmcvx.fast.core.active_set_passes import FULL, INSEPARABLE, MORE, OVER, TOUCHING
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    checked_settings,
    conclude,
    earlier_multipliers,
    limited,
    monitored,
    solve,
)
from svmcvx.fast.core.rows import RowCacheSettings, kernel_rows
from svmcvx.fast.margin.decomposition import BoundsOf, Decomposition, DecompositionSettings
from svmcvx.feature_space import LinearSpace, feature_space
from svmcvx.feature_space.blocks import BlockSettings, BlockSpace, block_space, spaces
from svmcvx.feature_space.linear import DENSE
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin import HardMargin, HardMarginInBlocks, separated
from svmcvx.kernels import KernelLike
from svmcvx.model import LinearModel
from svmcvx.row_blocks import ShardBlocks, ShardState, in_blocks, reads_rows, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import OutOfTime

METHODS = ("auto", "active-set", "smo")


@dataclass(frozen=True)
class ActiveSetSettings:
    """Observations of the first working set, and those that join in a round, at most; size of the
    working set from which those far from the margin leave it; tight observations, at most: with
    more pSMO is used.
    """

    first: int = 400
    joining: int = 200
    largest: int = 3000
    largest_support: int = LARGEST_SUPPORT


@dataclass(frozen=True)
class HardMarginSettings:
    """Parameters of :func:`hard_margin`: of the active-set method, and for pSMO of the cache of
    kernel rows and of the decomposition.
    """

    active_set: ActiveSetSettings = field(default_factory=ActiveSetSettings)
    rows: RowCacheSettings = field(default_factory=RowCacheSettings)
    decomposition: DecompositionSettings = field(default_factory=DecompositionSettings)


@limited
def hard_margin(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    cache_size: float = 500.0,
    float32_cache: bool = True,
    indefinite: str = "error",
    method: str = "auto",
    seed: int = 0,
    settings: HardMarginSettings | None = None,
) -> Solution:
    r"""Solve the hard-margin SVM to a certified relative gap.

    .. math::
        \min_{w, b}\; \tfrac12\|w\|^2
        \quad\text{s.t.}\quad y_i(\langle w, \varphi(x_i)\rangle + b) \ge 1

    Parameters
    ----------
    X, y, max_iter
        As for :func:`svmcvx.fast.psvm`, rows in blocks included; `tol` is the certified relative
        gap.
    cache_size, float32_cache, seed
        As there; they concern pSMO, with or without a kernel.
    sample_weight : array-like of shape (n,), optional
        Observations of weight zero are left out; any other weight is the same as 1.
    method : "auto", "active-set" or "smo"
        ``"active-set"`` is for ``kernel=None`` only. There ``"auto"`` chooses it for at most as
        many features as observations; with more, nearly all observations are tight, and pSMO is
        faster. With ``"auto"`` pSMO also takes over where more than 2 500 observations are tight.

    Raises
    ------
    SolverFailed
        If the classes are not separable in feature space, or no separating model was found within
        the limits. For linear data the attempt's ``options["hull_distance"]`` is the distance of
        two points of the convex hulls that were found equal.
    DataError
        If the data or an argument cannot be used, or `warm_start` is a solution of other data.

    Examples
    --------
    >>> import svmcvx as sx
    >>> solution = sx.fast.hard_margin([[0.0], [1.0], [3.0]], [-1, -1, 1])
    >>> round(float(solution.model.coef[0]), 6)  # from 1 to 3, a margin of 1
    1.0
    """
    check_choice(method, "method", METHODS)
    settings = checked_settings(settings, HardMarginSettings)
    limits: Any = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    if in_blocks(X):
        refuse_in_blocks(
            kernel=kernel is not None, method=method == "smo", warm_start=warm_start is not None
        )
        blocks = block_space(X, y, sample_weight, intercept="free")
        if not blocks.small:
            with monitored(**limits) as monitor, blocks.watched():
                return _by_working_set(blocks, monitor, settings.active_set)
        X, y, sample_weight = blocks.loaded()
    data = binary_data(X, y, sample_weight)
    if kernel is None and sp.issparse(data.X) and data.X.nnz >= DENSE * math.prod(data.X.shape):
        # Dense data are centred: a small margin far from the origin would be lost otherwise.
        data = replace(data, X=data.X.toarray())
    space = feature_space(data, kernel, intercept="free", indefinite=indefinite, keep_gram=False)
    if method == "active-set" and not space.is_linear:
        raise DataError(
            "method='active-set' takes a linear machine; pass kernel=None, or method='auto'"
        )
    statement = HardMargin(space=space)
    warm = earlier_multipliers(warm_start, statement)

    def run(monitor: Monitor, start: Floats | None) -> Found:
        used = "active-set"
        status: Status | None = None
        if method == "active-set" or (
            method == "auto" and space.is_linear and space.X.shape[1] <= data.n
        ):
            status, points, options = _by_active_set(statement, monitor, start, settings.active_set)
            if status is None and method == "active-set":
                status = Status.NUMERICAL
            elif status is None:
                start = points[-1]
        if status is None:
            used = "smo"
            rows = kernel_rows(
                space, cache_size=cache_size, float32=float32_cache, settings=settings.rows
            )
            pairs = Decomposition(
                statement=statement,
                rows=rows,
                bounds=_bounds(statement),
                c=np.ones(data.n),
                r=0.0,
                upper_bound=np.full(data.n, math.inf),
                seed=seed,
                alpha=np.zeros(data.n) if start is None else start,
                rescale=_best_multiple,
                settings=settings.decomposition,
            )
            status, options = pairs.run(monitor), pairs.options
            points = pairs.points(monitor)
        whole = used == "smo" and data.n <= settings.decomposition.whole
        recover = statement.recover if whole else statement.separator
        found = [recover(alpha) for alpha in points]
        candidates = RecoveredPoints(
            [m for each in found for m in each.models], [d for each in found for d in each.duals]
        )
        return candidates, status, {"method": used, **options}

    return solve(statement, run, warm, limits, name="fast.hard_margin/{method}")


def _by_working_set(space: BlockSpace, monitor: Monitor, settings: ActiveSetSettings) -> Solution:
    """Solve on a working set in memory, which rows of all blocks with the least margins join."""
    X, y = space.sample.X, space.sample.y
    part = HardMargin(space.sample_space())
    status: Status | None = None
    best: tuple[float, LinearModel] | None = None
    duals: list[Dual] = []
    options: dict[str, Any] = {"method": "active-set"}
    rounds = 0
    space.shards.deadline = monitor.deadline
    try:
        while status is None:
            data = BinaryData(X, y, np.ones(y.size), np.arange(y.size), space.data.classes, y.size)
            larger = HardMargin(LinearSpace(data, "free", space.centre))
            # A working set is solved to a tenth of the tolerance.
            inner = monitor.within(0.1 * monitor.tol, monitor.max_iter)
            ended, points, more = _by_active_set(larger, inner, None, settings)
            options |= {**more, "rounds": rounds, "working_set": y.size}
            if ended is Status.UNBOUNDED:
                # If some of the rows are not separable, all rows are not.
                status = ended
                break
            solved = larger.separator(points[0])
            if not solved.models:
                status = Status.NUMERICAL
                break
            # The optimum of a larger working set is the larger bound.
            part, duals = larger, [{"alpha": points[0]}]
            lower = part.evaluate_dual(part.repair(duals[0])).lower_end
            model = cast(LinearModel, solved.models[0])
            found = space.shards.read(_violated, None, space.compared, model, settings.joining)
            seen = _joined(found, space.centre.size, settings.joining)
            wider = cast(
                LinearModel | None, separated(model, seen.positive, seen.negative, space.centre)
            )
            upper = math.inf if wider is None else 0.5 * float(wider.coef @ wider.coef)
            if best is None or upper < best[0]:
                best = upper, model if wider is None else wider
            status = monitor.report(rounds, lower, upper)
            rounds += 1
            if status is None and not seen.y.size:
                status = Status.INACCURATE
            X = sp.csr_array(sp.vstack([X, seen.X])) if sp.issparse(X) else np.vstack([X, seen.X])
            y = np.append(y, seen.y)
    except OutOfTime:
        status = monitor.late
    finally:
        space.shards.deadline = None
    statement = HardMarginInBlocks(space, part)
    models = []
    if best is not None and status is not Status.UNBOUNDED:
        models = [statement.separating(best[1]) or best[1]]
    assert status is not None  # noqa: S101 - the loop has ended
    candidates, solver = RecoveredPoints(models, duals), "fast.hard_margin/active-set"
    return conclude(statement, candidates, monitor, status, solver=solver, options=options)


class Violated(NamedTuple):
    """The smallest margins of a model over all blocks, and the rows with those below 1."""

    positive: float
    negative: float
    X: Features
    y: Floats
    u: Floats


def _joined(found: Sequence[Violated], columns: int, most: int) -> Violated:
    """Return the smallest margins of some blocks, and at most `most` of the rows below 1."""
    X = [part.X for part in found if part.y.size]
    y, u = (np.concatenate([getattr(part, name) for part in found]) for name in ("y", "u"))
    chosen = np.argsort(u, kind="stable")[:most]
    rows = np.zeros((0, columns))
    if X:
        rows = sp.csr_array(sp.vstack(X)) if sp.issparse(X[0]) else np.vstack(X)
    low, high = (min(getattr(part, side) for part in found) for side in ("positive", "negative"))
    return Violated(low, high, rows[chosen], y[chosen], u[chosen])


@reads_rows
def _violated(
    pieces: ShardBlocks, parts: ShardState, settings: BlockSettings, model: LinearModel, most: int
) -> Violated:
    nothing = np.zeros(0)
    found = [Violated(math.inf, math.inf, nothing, nothing, nothing)]
    for space in spaces(pieces, parts, settings):
        y = space.data.y
        if not y.size:
            continue
        margins = signed(y, space.scores(model))
        # A little more than the bound, since the scores of the next model are rounded anew.
        u, low = margins.value, margins.value - 1.1 * margins.error
        worst = np.flatnonzero(u < 1.0)
        worst = worst[np.argsort(u[worst], kind="stable")[:most]]
        X = space.data.X[worst]
        found.append(
            Violated(
                float(low[y > 0].min(initial=math.inf)),
                float(low[y < 0].min(initial=math.inf)),
                X.toarray() if sp.issparse(X) and settings.dense else X,
                y[worst],
                u[worst],
            )
        )
    return _joined(found, settings.centre.size, most)


def _by_active_set(
    statement: HardMargin, monitor: Monitor, warm: Floats | None, settings: ActiveSetSettings
) -> tuple[Status | None, list[Floats], dict[str, Any]]:
    """Return the status (None: too many tight rows), the best multipliers, and options."""
    space, y, n = statement.space, statement.y, statement.y.size
    bounds = _bounds(statement)
    work = GrowingWorkingSet(
        space, _first_members(statement, warm, settings.first), settings.largest_support
    )
    lowest, best = math.inf, np.zeros(n)
    alpha, rounds = best, 0
    options: dict[str, Any] = {}
    while True:
        code = MORE
        while code == MORE:
            # So many become tight between two checks of the clock.
            code, last = active_set.solve(work.state, 100)
            if code == MORE and monitor.out_of_time():
                break
        alpha = work.coefficients() * y
        if code == INSEPARABLE:
            alpha = np.zeros(n)
            alpha[work.members] = ray(work.state, last)
        found = space.point(alpha * y)
        f = found.scores.value
        options |= {"rounds": rounds, "working_set": work.n}
        if code == FULL:
            return None, [alpha], options
        known = None if code in (INSEPARABLE, OVER) else bounds(alpha, f)
        if known is None:
            # The multipliers give equal points of the two convex hulls, up to rounding.
            distance = 2 * math.sqrt(found.squared_norm.value) / float(alpha.sum())
            return Status.UNBOUNDED, [], options | {"hull_distance": distance}
        if known[1] <= lowest:
            lowest, best = known[1], alpha
        status = monitor.report(rounds, *known)
        u = y * (f + float(work.state.number[0]))
        u[work.members] = math.inf
        violated = np.flatnonzero(u < 1.0)
        if status is None and not violated.size and code != MORE:
            # Without a violated margin the point is optimal up to rounding, whatever its gap.
            status = Status.INACCURATE
        if status is not None:
            return status, [best] if best is alpha else [best, alpha], options
        if work.n > settings.largest:
            inside = work.state.inside.copy()
            inside[np.argsort(work.state.u)[: settings.largest // 2]] = True
            work.shrink(inside)
        most = min(settings.joining, violated.size)
        if most:
            work.grow(violated[np.argpartition(u[violated], most - 1)[:most]])
        rounds += 1


def _first_members(statement: HardMargin, warm: Floats | None, first: int) -> NDArray[np.intp]:
    """Return `first` rows of the smallest margins, half per class, and an earlier support."""
    y, n = statement.y, statement.y.size
    if n <= 2 * first:
        return np.arange(n)
    direction = y / np.where(y > 0, (y > 0).sum(), (y < 0).sum()) if warm is None else warm * y
    u = y * statement.space.point(direction).scores.value
    chosen = [
        side[np.argpartition(u[side], min(first // 2, side.size) - 1)[: first // 2]]
        for side in (np.flatnonzero(y > 0), np.flatnonzero(y < 0))
    ]
    return np.unique(
        np.concatenate(chosen if warm is None else [*chosen, np.flatnonzero(warm)])
    ).astype(np.intp)


def _bounds(statement: HardMargin) -> BoundsOf:
    """Return the function of the module's bounds, which returns None if the hulls intersect."""
    y = statement.y
    size = float(np.abs(statement.space.diagonal()).max())

    def bounds(alpha: Floats, f: Floats) -> tuple[float, float] | None:
        total, norm = float(alpha.sum()), float((alpha * y) @ f)
        if total == 0:
            return 0.0, math.inf
        # No squares: they may overflow.
        if norm / total / total <= TOUCHING * size:
            return None
        margin = (float(f[y > 0].min()) - float(f[y < 0].max())) / 2
        return total / norm * total / 2, norm / margin / margin / 2 if margin > 0 else math.inf

    return bounds


def _best_multiple(alpha: Floats, f: Floats, y: Floats) -> float:
    """Return the factor that maximises the dual over the multiples of α."""
    total, norm = float(alpha.sum()), float((alpha * y) @ f)
    return total / norm if total > 0 and norm > 0 else 1.0
