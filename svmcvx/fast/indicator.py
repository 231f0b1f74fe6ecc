r"""SVMs with losses that count, by exact searches: the 0-1 loss, the ramp loss, the l0-norm hinge.

The statements are those of :mod:`svmcvx.formulations.indicator`. Observations are kept or dropped
by branch and bound (:mod:`svmcvx.fast.search.tree`), or, for losses that are counted and a few
columns, cells of directions are cut (:mod:`svmcvx.fast.search.directions`), from points that a
local search over sets of kept observations finds (:mod:`svmcvx.fast.search.exchange`). On problems
on which these do not end soon a linear program over sets of rows of which no point keeps all joins
them (:mod:`svmcvx.fast.search.covering`), and branch and bound on blocks of the observations
(:mod:`svmcvx.fast.search.partition`). The upper bound is checked like any other; the lower
bound is proved by the search: kind ``"enumeration"``, ``residuals["search_bound"]``. A proof holds
the tree, the cells or the sets, and the second checker computes its bounds again
(:mod:`svmcvx.proofs.search_tree`).

Work is counted, in rows times columns of the nodes, so that the number of nodes and the proof
follow from the data and the settings; only a limit, which cuts the search short, depends on the
clock. The work of branch and bound grows with the number of observations that the optimum drops
and with the number of columns, that of directions steeply with the number of columns.
Where a search does not end, the interval is valid but wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import Dual, SolverBound
from svmcvx.data import check_choice, check_seed
from svmcvx.errors import DataError, DataTypeError, SolverFailed
from svmcvx.fast.conic_loss.conic import minimised_relaxation
from svmcvx.fast.core.active_set import GrowingWorkingSet, solve
from svmcvx.fast.core.active_set_passes import MORE, SOLVED
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    checked_settings,
    conclude,
    earlier_solution,
    limited,
    monitored,
    solve_interruptible,
)
from svmcvx.fast.core.rows import PartialFactor
from svmcvx.fast.search.covering import Covering
from svmcvx.fast.search.directions import Directions, column_count
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.partition import MOST, Partition
from svmcvx.fast.search.state import (
    CountingSearch,
    RampSearch,
    SearchSettings,
    SearchState,
    work_of_directions,
)
from svmcvx.fast.search.tree import BranchAndBound, RoundSearch
from svmcvx.formulations.base import RecoveredPoints, bound_space
from svmcvx.formulations.conic_loss.models import relaxed_indicator
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.formulations.indicator.statement import (
    IndicatorStatement,
    Ramp,
    l0_statement,
    zero_one_statement,
)
from svmcvx.formulations.signed_rows import ON_MARGIN, Incumbent, SignedRows, soft_margin_scores
from svmcvx.kernels import KernelLike
from svmcvx.losses import ramp as ramp_loss
from svmcvx.losses import zero_one as zero_one_loss
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import OutOfTime, interruptible, uninterruptible
from svmcvx.system.threads import available_threads

METHODS = ("auto", "directions", "tree", "partition")
L0_METHODS = ("auto", "local", "search", *METHODS[1:])
# Work of the local search of l0(method="local"); observations that become tight between two checks
# of the deadline.
LOCAL_WORK, STEPS = 2e9, 100
# How much longer each turn of a search is than the last one, and than that of a search that has
# proved less.
LAG = 4.0
# Number of turns within which a search that can end must reach the best bound to have whole ones.
SOON = 2.0
# Work of a turn from which on bounds for problems without an end in sight are looked for.
LONG = 1e9
# Prices of the squared norm of a soft-margin machine's multiples, in units of a row's price.
PRICES = 0.03, 0.1, 0.3, 1.0
# Cap of the objective for the search of a first feasible point, in units of the longest row.
OBJECTIVE_CAP = 1e26


@limited
def zero_one(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    k: float | None = None,
    kernel: KernelLike = None,
    intercept: bool | str = True,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
    indefinite: str = "error",
    seed: int = 0,
    settings: SearchSettings | None = None,
) -> Solution:
    r"""Solve the SVM with the exact 0-1 loss to proved optimality, by an exact search.

    .. math:: \min_w\; \|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1] \quad\text{or}\quad
        \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\,1[u_i < 1] \le k

    Source: [CepedaGomezHan] states the problem; the search is derived in
    :mod:`svmcvx.fast.search.node_passes`.

    Parameters
    ----------
    lam : float
        Price of a margin below 1, positive. Exactly one of `lam`, `k`.
    k : float
        Largest weight of observations with a margin below 1 (their number, without weights).
    max_iter : int
        Rounds of the search.
    method : "auto", "directions", "tree" or "partition"
        "tree" decides for one observation after the other, by branch and bound. "directions" cuts
        cells of directions of w, which needs two columns or more; it is the quicker one for up to
        some six columns, among hundreds of observations and more. "auto" runs both in turn with up
        to ``settings.columns`` columns (10) that are not nearly dependent, and else the tree; with
        `lam`, bounds by sets of rows ("covering") and by blocks ("partition") join them where they
        do not end soon. ``attempts[-1].options`` names the one that has proved most. "partition"
        bounds by blocks alone, those of one partition a round, and rarely ends with the optimum.
    seed : int
        Of the sample that precedes the conic relaxation of more than 20 000 observations; the
        search draws nothing.

    Returns
    -------
    Solution
        Its certificate is of kind ``"enumeration"``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.
    SolverFailed
        If dropping weight `k` does not make the classes separable, or no point that does was found
        within the limits.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> certificate = sx.fast.zero_one(X, y, lam=1.0).certificate
    >>> certificate.kind, certificate.is_certified(1e-6)
    ('enumeration', True)
    """
    check_choice(method, "method", METHODS)
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    statement = zero_one_statement(space, lam, k, "zero_one")
    rng, settings = check_seed(seed), checked_settings(settings, SearchSettings)
    statement = replace(statement, form="enumeration", kind="enumeration")
    earlier = earlier_margins(earlier_solution(warm_start, statement), statement, same=True)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        run = _ZeroOneRun(statement, monitor, settings, earlier)
        run.rng, run.method = rng, method
        return run.solution()


@limited
def ramp(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    indefinite: str = "error",
    seed: int = 0,
    settings: SearchSettings | None = None,
) -> Solution:
    r"""Solve the SVM with ramp loss to proved optimality, by branch and bound.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)

    Source: the formulation of [Brooks], in the scaling of [CepedaGomezHan], § 2. The search is
    derived in :mod:`svmcvx.fast.search.node_passes`.

    Parameters
    ----------
    C : float
        Weight of the losses, positive; 1 by default.
    max_iter : int
        Rounds of the search.

    Returns
    -------
    Solution
        Its certificate is of kind ``"enumeration"``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> certificate = sx.fast.ramp(X, y, C=1.0).certificate
    >>> certificate.kind, certificate.is_certified(1e-6)
    ('enumeration', True)
    """
    settings = checked_settings(settings, SearchSettings)
    space = bound_space(X, y, kernel, "free", sample_weight, indefinite, own="free")
    statement = Ramp(space, C=l0_statement(space, C).C, kind="enumeration")
    earlier = earlier_margins(earlier_solution(warm_start, statement), statement)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        return _RampRun(statement, monitor, settings, earlier).solution()


@limited
def l0(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
    indefinite: str = "error",
    seed: int = 0,
    settings: SearchSettings | None = None,
) -> Solution:
    r"""Find the global minimum of the SVM with l0-norm hinge, or a local one with an interval.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1],
        \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b)

    Source: [LinYaoLiu] states the problem and characterises its local minima. Their ADMM is
    :func:`benchmarks.papers.exhibits.l0_by_admm`.

    Parameters
    ----------
    C : float
        Price of a margin below 1, positive; 1 by default.
    tol : float
        Of a search the certified relative gap at which to stop. Of a local minimum the residual of
        proximal stationarity, as the checker computes it (``residuals["stationarity"]``), above
        which the status is "inaccurate".
    max_iter : int
        Rounds of the search.
    warm_start : Solution, optional
        An earlier solution on the same data, of any formulation with two classes: a start for the
        incumbent. A solution of other data is refused.
    method : "auto", "local", "search", "directions", "tree" or "partition"
        "search" proves the optimum, until the end or a limit, by "directions" or "tree", between
        which it chooses as "auto" of :func:`zero_one`; "partition" is that of :func:`zero_one`.
        "local" ends at a local minimum, the hard-margin machine of the set that a local search has
        found; the lower end is 0, since no objective is negative. "auto", the default, searches
        among up to ``settings.searched_rows`` observations (60), up to
        ``settings.searched_entries`` entries of a linear machine (500), and where few columns
        promise an end within a work of ``settings.easy`` (100 000 observations of 2 columns, 500 of
        5), for that work, and is "local" for more.

    Returns
    -------
    Solution
        After a search the certificate is of kind "enumeration". Else it is of kind "local", with
        ``residuals["stationarity"]`` and its parts.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> certificate = sx.fast.l0(X, y, C=1.0).certificate
    >>> certificate.kind, certificate.is_certified(1e-6)
    ('enumeration', True)
    >>> certificate = sx.fast.l0(X, y, C=1.0, method="local").certificate
    >>> certificate.kind, certificate.lower, certificate.residuals["stationarity"] <= 1e-6
    ('local', 0.0, True)
    """
    check_choice(method, "method", L0_METHODS)
    settings = checked_settings(settings, SearchSettings)
    rule: dict[str, Any] = {"own": "free", "keep_gram": False}
    space = bound_space(X, y, kernel, "free", sample_weight, indefinite, **rule)
    statement = l0_statement(space, C)
    earlier = earlier_margins(earlier_solution(warm_start, statement), statement)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        if method not in ("auto", "local") or (method == "auto" and settings.ends_soon(statement)):
            run = _L0Run(replace(statement, kind="enumeration"), monitor, settings, earlier)
            run.most = settings.easy if method == "auto" else math.inf
            run.method = method if method in METHODS else "auto"
            return run.solution()
        found = _LocalL0Run(statement, monitor, settings, earlier).solution()
    residual = found.certificate.residuals.get("stationarity", math.inf)
    if found.status is Status.STATIONARY and not residual <= tol:
        found = replace(found, status=Status.INACCURATE)
    return found


class _Run:
    """A search from its starting points to its end, and the record for the answer."""

    name: str
    search: Any
    method: str = "auto"

    def __init__(
        self, statement: Any, monitor: Monitor, settings: SearchSettings, earlier: Floats | None
    ) -> None:
        self.statement, self.monitor, self.settings = statement, monitor, settings
        # Margins of an earlier solution.
        self.earlier = earlier
        # Multipliers of a relaxation, if there are any; without them the lower end is 0.
        self.dual: Dual = {}
        self.bound: SolverBound | None = None
        self.proof: dict[str, NDArray[Any]] = {}
        # Searches that prove the optimum in turn, and the work of the next turn.
        self.searches: list[RoundSearch] = []
        self.turn = settings.turn
        # Bounds that join where the first searches do not end soon.
        self.later: list[RoundSearch] = []

    def solution(self) -> Solution:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found, status, options = solve_interruptible(self.monitor, self.run)
        return conclude(
            self.statement,
            found,
            self.monitor,
            status,
            solver=f"fast.{self.name}/{self.way}",
            warm_start_used=self.earlier is not None,
            options=options,
            search_bound=self.bound,
            proof=self.proof,
        )

    def run(self) -> Found:
        """Return the models of the best point, and why the search ended."""
        self.prepare()
        try:
            with (
                interruptible(self.monitor.deadline),
                ThreadPoolExecutor(available_threads()) as pool,
            ):
                status = self.until_the_end(pool)
        except OutOfTime:
            status = self.monitor.late
        best = self.search.best
        self.statement = self.pooled(() if best is None else (best,))
        with uninterruptible():
            models = [] if best is None else self.models()
            self.bound = self.search.bound
            self.proof = self.searched.proof if self.searches else {}
        options = {"method": self.way, "nodes": sum(search.nodes for search in self.searches)}
        return RecoveredPoints(models, [self.dual, {}]), status, options

    @property
    def searched(self) -> RoundSearch:
        """The search that has proved the most."""
        return max(self.searches, key=lambda search: search.proved)

    @property
    def way(self) -> str:
        return self.searched.way if self.searches else "branch"

    def prepare(self) -> None:
        began = clock.now()
        _ = self.statement.geometry
        # Preparing a search and certifying its point take about as long as a factor.
        self.monitor.reserve(1.5 * (clock.now() - began))
        if self.monitor.out_of_time():
            raise OutOfTime
        self.search = self.begin()

    def pooled(self, pool: tuple[Incumbent, ...]) -> Any:
        """Return the statement with feasible points; both share the signed rows."""
        found = replace(self.statement, pool=pool)
        vars(found)["geometry"] = self.statement.geometry
        return found

    def constants(self, biases: tuple[float, ...], loss: Any) -> tuple[Incumbent, ...]:
        geometry = self.statement.geometry
        w = np.zeros(geometry.G.shape[1])
        return tuple(geometry.incumbent(w, b, loss) for b in biases)

    def begin(self) -> SearchState:
        raise NotImplementedError

    def until_the_end(self, pool: Executor) -> Status:
        raise NotImplementedError

    def models(self) -> list[Any]:
        best = self.search.best
        return list(self.statement.recovered_models(~best.dropped, best.w, best.b))

    def choose(self, exchange: Exchange) -> None:
        """Choose the searches, the one that is to begin first."""
        search, settings, self.turn = self.search, self.settings, self.settings.turn
        takes = Directions.takes(search)
        if self.method == "directions" and not takes:
            raise DataError(
                "method='directions' takes data that differ in two columns or more, of comparable"
                " sizes, and whose optimum keeps observations of both classes; leave method out"
            )
        shared, self.searches = (search, settings, exchange), []
        if self.method == "partition":
            if not Partition.takes(search):
                raise DataError(
                    "method='partition' takes linear machines with a price of losses, two"
                    f" observations of each class, and at most {MOST} in all; leave method out"
                )
            self.searches = [Partition(*shared)]
            return
        if self.method != "directions":
            search.price_of_budget(float(self.dual["lam"]) if self.dual else None)
            self.searches = [BranchAndBound(*shared)]
        columns = column_count(search, settings.columns) if takes else 0
        if self.method == "directions" or (self.method == "auto" and columns):
            expected = work_of_directions(search.first.size, columns)
            # Cells are no proof with a kernel.
            ends_soon = expected <= LAG * settings.easy and search.statement.space.factor_is_data
            self.searches.insert(0 if ends_soon else 1, Directions(*shared))
            self.turn = max(self.turn, expected) if ends_soon else self.turn
        if self.method == "auto":
            self.later = [kind(*shared) for kind in (Covering, Partition) if kind.takes(search)]

    def in_turn(self, pool: Executor, most: float = math.inf) -> Status | None:
        """Run the searches in turn until the first one ends, or each has done a work of `most`.

        The search that has proved the most has whole turns, and so has one that can end and will
        soon have proved as much at the rate of its last turn.
        """
        running, gained = list(self.searches), dict[RoundSearch, float]()
        while True:
            for search in tuple(running):
                turn = min(self.turn, most) if self.later or len(running) > 1 else most
                # A search that never ends rarely overtakes the best bound.
                lag = LAG if search.ends else LAG * LAG
                proved = search.proved
                behind = max(other.proved for other in running) - proved
                if behind <= (SOON * gained.get(search, 0.0) if search.ends else 0.0):
                    lag = 1.0
                status = search.run(pool, turn / lag)
                gained[search] = search.proved - proved
                left = math.isfinite(min(search.open_bound, search.unresolved))
                if status is Status.NUMERICAL and left and len(running) > 1:
                    running.remove(search)
                elif status is not None:
                    idle = status is Status.NUMERICAL and not search.ends
                    return Status.ITERATION_LIMIT if idle else status
            if self.turn >= most or (len(running) == 1 and running[0].work >= most):
                return None
            self.turn *= LAG
            if self.turn >= LONG:
                running += self.later
                self.searches += self.later
                self.later = []
            running.sort(key=lambda search: (not search.ends, -search.proved))


class _RampRun(_Run):
    name = "ramp"
    search: RampSearch

    def begin(self) -> RampSearch:
        return RampSearch(self.pooled(self.constants((1.0, -1.0), ramp_loss)), self.monitor)

    def until_the_end(self, pool: Executor) -> Status:
        search = self.search
        sets = [np.zeros(self.statement.y.size, dtype=bool)]
        if self.earlier is not None:
            sets.append(self.earlier < -1.0)
        given_up = ((u < 0.0)[search.copies] for u in _soft_margins(search))
        for dropped in chain(sets, given_up):
            search.descend(dropped)
        self.searches = [BranchAndBound(search, self.settings)]
        return self.in_turn(pool) or Status.NUMERICAL

    def models(self) -> list[Any]:
        return list(self.statement.incumbent_models())


class _CountingRun(_Run):
    search: CountingSearch

    def begin(self) -> CountingSearch:
        biases = (1.0, -1.0) if self.statement.geometry.free else (0.0,)
        return CountingSearch(self.pooled(self.constants(biases, zero_one_loss)), self.monitor)

    def exchange(self, limit: float | None = None) -> Exchange:
        sets = [np.ones(self.search.first.size, dtype=bool)]
        if self.earlier is not None:
            rows = self.earlier[self.search.first]
            sets = [rows >= 1.0 - ON_MARGIN, rows >= 0.0, *sets]
        exchange = Exchange(self.search, self.settings)
        exchange.begin(chain(sets, counting_starts(self.search)), limit)
        return exchange


class _L0Run(_CountingRun):
    """The l0-norm hinge within a budget of work."""

    name = "l0"
    most = math.inf

    def until_the_end(self, pool: Executor) -> Status:
        self.choose(self.exchange())
        status = self.in_turn(pool, self.most)
        left = any(math.isfinite(search.open_bound) for search in self.searches)
        return status or (Status.ITERATION_LIMIT if left else Status.NUMERICAL)


class _LocalL0Run(_L0Run):
    """A local minimum of the l0-norm hinge, on a factor of low rank where observations are many."""

    way = "local"

    def run(self) -> Found:
        """Return the hard-margin machine of the best set that the local search finds."""
        statement, settings, space = self.statement, self.settings, self.statement.space
        low_rank = space.data.n > settings.whole and not (space.is_linear and space.factor_is_data)
        if low_rank:
            # Points in the span of the pivots have these margins in the whole space.
            factor = PartialFactor(space)
            factor.grow(settings.rank, self.monitor.out_of_time)
            G = statement.y[:, None] * factor.factor
            vars(statement)["geometry"] = SignedRows(G, statement.y, space.data.weight, True)
        self.prepare()
        self.exchange(LOCAL_WORK)
        best = self.search.best
        assert best is not None  # noqa: S101 - constant scores are feasible
        found = self._machine(~best.dropped, best.u) if best.w.any() else None
        late = self.monitor.out_of_time()
        if found is not None:
            points = statement.restricted_points(*found, ~best.dropped)
        elif best.w.any() and not low_rank:
            points = RecoveredPoints([statement.model_at(best.w, best.b)], [{}])
        else:
            models, _ = statement.trivial()
            points = RecoveredPoints(models, [{"mu": np.zeros(space.data.n)}])
        return points, self.monitor.late if late else Status.OPTIMAL, {"method": "local"}

    def _machine(self, kept: Bools, u: Floats) -> tuple[Floats, float] | None:
        """Return a set's hard-margin machine with margins of about u; None on a timeout."""
        space, settings, y = self.statement.space, self.settings, self.statement.y
        members = np.flatnonzero(kept)
        near = np.argsort(np.abs(u[members] - 1.0), kind="stable")[: settings.whole]
        work = GrowingWorkingSet(space, np.sort(members[near]))
        while True:
            code = MORE
            while code == MORE and not self.monitor.out_of_time():
                code, _ = solve(work.state, STEPS)
            if code != SOLVED:
                return None
            v, b = work.coefficients(), float(work.state.number[0])
            u = y * (space.point(v).scores.value + b)
            outside = np.array(kept)
            outside[work.members] = False
            short = np.flatnonzero(outside & (u < 1.0 - ON_MARGIN * max(1.0, abs(b))))
            if not short.size:
                return v * y, b
            work.grow(short[np.argsort(u[short], kind="stable")[: settings.joining]])


class _ZeroOneRun(_CountingRun):
    """The 0-1 loss, with the conic relaxation for what does not end soon."""

    name = "zero_one"
    rng: np.random.Generator

    def until_the_end(self, pool: Executor) -> Status:
        search, exchange = self.search, self.exchange()
        relaxed = search.best is None
        if relaxed:
            # Without a feasible point no M is known.
            self._relax(exchange)
        if search.best is None:
            status = self._first_point(pool, exchange)
            if status is not None:
                return status
        self.choose(exchange)
        if not (relaxed or self.method == "partition"):
            status = self.in_turn(pool, self.settings.easy)
            if status is not None:
                return status
            self._relax(exchange)
            status = search.report(max(searched.open_bound for searched in self.searches))
            if status is not None:
                return status
        return self.in_turn(pool) or Status.NUMERICAL

    def _relax(self, exchange: Exchange) -> None:
        """Look for better points near that of the conic relaxation; keep its dual point."""
        search = self.search
        dual, sets = relaxation(search, self.rng)
        exchange.begin(sets)
        if dual:
            self.dual = search.statement.repair(dual)
            bound = search.statement.evaluate_dual(self.dual).lower_end
            search.proved = max(search.proved, bound * search.unit)

    def _first_point(self, pool: Executor, exchange: Exchange) -> Status | None:
        """Find a feasible point or prove there is none; None for one that may not be the best."""
        search = self.search
        if search.statement.is_inseparable:
            return Status.INFEASIBLE
        exchange.find_feasible()
        if search.best is not None:
            return None
        if search.decide_feasibility() is False:
            return search.report(math.inf)
        search.objective_cap = OBJECTIVE_CAP
        self.choose(exchange)
        status = self.in_turn(pool)
        found, search.objective_cap = search.best is not None, math.inf
        if found:
            # Points below the value of the first one, too, may have been excluded.
            return status if status is Status.OPTIMAL else None
        return search.report(search.proved) or Status.NUMERICAL


# Share of the time left that soft margins may take, and the relaxation.
TIME_SHARE = 0.3


def earlier_margins(
    warm_start: Solution | None, statement: IndicatorStatement, *, same: bool = False
) -> Floats | None:
    """Return the margins of an earlier solution's model, of the same data if these must be."""
    if warm_start is None:
        return None
    model, data = warm_start.model, statement.space.data
    if not isinstance(model, BinaryModel):
        raise DataTypeError(
            f"warm_start must be a Solution with a model of two classes, got {type(model).__name__}"
        )
    if same or not statement.space.is_linear:
        weight = None if warm_start.evidence is None else warm_start.evidence.weight
        sizes = [len(values) for values in warm_start.dual.values() if np.ndim(values) > 0]
        for size in sizes if weight is None else [weight.size, *sizes]:
            if size != data.rows:
                raise DataError(
                    f"warm_start must be a Solution of the same data: it is of {size}"
                    f" observations, these are {data.rows}"
                )
    return np.asarray(statement.y * model.scores(data.X).value)


def _soft_margins(search: SearchState) -> Iterator[Floats]:
    """Yield the margins of the distinct rows at soft-margin machines."""
    stop = search.monitor.deadline.share(TIME_SHARE).passed
    for cost in (0.1, 10.0):
        if not stop():
            yield soft_margin_scores(search.statement.geometry, cost, stop)[search.first]


def counting_starts(search: CountingSearch) -> Iterator[Bools]:
    """Yield sets kept by multiples of soft-margin machines."""
    for u in _soft_margins(search):
        order = np.argsort(-u, kind="stable")
        dropped = np.append(np.cumsum(search.weight[order][::-1])[::-1][1:], 0.0)
        # The norm of the multiple that keeps the first few rows, in units of the machine's own.
        value = np.where(u[order] > 0, np.maximum(u[order], 1e-100) ** -2.0, 1e200)
        value[dropped > search.k] = math.inf
        for cut in np.unique([np.argmin(price * value + dropped) for price in PRICES]):
            kept = np.zeros(u.size, dtype=bool)
            kept[order[: cut + 1]] = True
            yield kept


def relaxation(search: CountingSearch, rng: np.random.Generator) -> tuple[Dual, list[Bools]]:
    """Return the conic relaxation's dual point and kept sets of rows, nothing on failure."""
    statement, monitor = search.statement, search.monitor
    total, G = float(statement.weight.sum()), statement.geometry.G
    kappa = None if statement.k is None else statement.k / total
    if G.size > 1e7 or (kappa is not None and not 0.0 < kappa <= 0.5):
        return {}, []
    relaxed = ConicLoss(space=statement.space, lam=statement.lam, kappa=kappa, improve_alpha=False)
    part = Monitor(1e-5, 5000, deadline=monitor.deadline.share(TIME_SHARE))
    try:
        found = minimised_relaxation(relaxed, part, rng)
    except SolverFailed:
        return {}, []
    U, ridge = found.problem.U, found.problem.ridge
    variance = np.sum((G @ U[:, 1:]) ** 2, axis=1) + ridge * np.sum(G**2, axis=1)
    u = G @ U[:, 0]
    z, u = relaxed_indicator(u, variance)[search.first], u[search.first]
    sets = [z <= 0.25, z <= 0.5, z <= 0.75, u >= 0.0, u >= 0.5]
    lam = found.best_dual["lam"] if statement.lam is None else np.array(statement.lam)
    return {"gamma": found.best_dual["gamma"], "lam": lam}, sets
