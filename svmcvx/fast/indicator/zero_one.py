r"""The SVM with the exact 0-1 loss, by exhaustion.

.. math:: \min_w\; \|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1] \qquad\text{or}\qquad
    \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\,1[u_i < 1] \le k.

The statement is that of :mod:`svmcvx.formulations.indicator.zero_one`. The upper bound is checked
like any other. The lower bound comes from the conic relaxation, and is computed by the checker, or
from the search: kind ``"enumeration"``, ``residuals["search_bound"]``. A proof by branch and bound
holds the tree, and the second checker computes its bounds again (:mod:`svmcvx.proofs.search_tree`).

============ ================================================================================== ====================================
method       searches                                                                           cost
============ ================================================================================== ====================================
``"branch"`` rows kept or dropped (:mod:`svmcvx.fast.indicator.search.branch_and_bound`)        as
many nodes as the bounds leave open ``"sweep"``  all vertices
(:mod:`svmcvx.fast.indicator.search.sweep_passes`)                    :math:`\sum_{m<r}\binom nm`
lines ============
==================================================================================
====================================

**"auto"** takes branch and bound as long as its tree can become a proof. If the tree is larger than
the record allows, and its work exceeds that of the sweep, the sweep takes over. What does not end
soon gets better starting points and the conic relaxation on the way. Work is counted, in nodes and
in crossings of lines, so that the method, the number of nodes and the proof follow from the data
and the settings; only a limit, which cuts the search short, depends on the clock.

**When to use what.** The cost of branch and bound grows with the number of observations that the
optimum drops and with the number of columns; that of the sweep with the number of columns r only,
and steeply: it serves two or three columns, many observations and much noise. Where neither ends,
the interval is valid but wide. The alternative :func:`svmcvx.zero_one_mio` with SCIP was slower
wherever both ended (``benchmarks/zero_one.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, SolverBound
from svmcvx.data import binary_data, check_choice, check_number, check_seed
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Monitor,
    checked_settings,
    conclude,
    earlier_solution,
    limited,
    monitored,
    solve_interruptible,
)
from svmcvx.fast.core.thread_pool import Share, shares
from svmcvx.fast.indicator.search.branch_and_bound import BranchAndBound, BranchSettings
from svmcvx.fast.indicator.search.exchange import CountingExchange
from svmcvx.fast.indicator.search.search_state import OBJECTIVE_CAPS, ZeroOneSearch, factor_in_time
from svmcvx.fast.indicator.search.starts import (
    counting_starts,
    earlier_margins,
    simple_starts,
    starts,
)
from svmcvx.fast.indicator.search.sweep import SweepSettings, sweep
from svmcvx.feature_space import feature_space, penalised_or_none
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.indicator.big_m import check_total_price
from svmcvx.formulations.indicator.pool import RELAXATION_ROWS
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.kernels import KernelLike
from svmcvx.solution import Solution, Status
from svmcvx.system.cancellation import interruptible, uninterruptible
from svmcvx.system.deadline import OutOfTime

__all__ = ["ZeroOneSettings", "zero_one"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "sweep", "branch")
# Crossings beyond which the sweep takes hours.
OUT_OF_REACH = 1e12
# Share of a time limit after which the conic relaxation has its turn at the latest.
EASY_SHARE = 0.5


@dataclass(frozen=True)
class ZeroOneSettings:
    """Parameters of the algorithms of :func:`zero_one`.

    Attributes
    ----------
    easy : float
        Work of branch and bound before better starting points and the conic relaxation are looked
        for.
    crossing : float
        Work of the sweep for one line and one observation, in the same unit.
    relaxation_rows : int
        Observations up to which all heuristics of the builders run, with a minimisation of the
        relaxation.
    branch : BranchSettings
    sweep : SweepSettings
    """

    easy: float = 4e9
    crossing: float = 100.0
    relaxation_rows: int = RELAXATION_ROWS
    branch: BranchSettings = field(default_factory=BranchSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)


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
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
    indefinite: str = "error",
    seed: int = 0,
    settings: ZeroOneSettings | None = None,
) -> Solution:
    r"""Solve the SVM with the exact 0-1 loss to proved optimality, by exhaustion.

    .. math:: \min_w\; \|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1] \quad\text{or}\quad
        \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\,1[u_i < 1] \le k

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature; the Gram matrix for a precomputed kernel.
    lam : float
        Price of a margin below 1, positive. Exactly one of `lam`, `k`.
    k : float
        Largest weight of observations with a margin below 1 (their number, without weights).
    kernel : Kernel, str, callable or None
        None for the linear formulation. The columns are those of a factor of the Gram matrix.
    time_limit : float, optional
        Seconds; then the best point is returned with the lower bound that is proved so far, as
        after Ctrl-C.
    max_iter : int
        Rounds of the search.
    warm_start : Solution, optional
        An earlier solution on the same data, for any hyper-parameters: a start for the incumbent. A
        solution of other data is refused.
    method : "auto", "sweep" or "branch"
        See :mod:`svmcvx.fast.zero_one`.
    seed : int
        Of the sample that precedes the conic relaxation of more than 20 000 observations; the
        searches draw nothing.

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

    Notes
    -----
    Source: the optimality conditions of :func:`svmcvx.zero_one_mio`; see
    :mod:`svmcvx.fast.indicator.search.sweep_passes`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> certificate = sx.fast.zero_one(X, y, lam=1.0).certificate
    >>> certificate.kind, certificate.is_certified(1e-6)
    ('enumeration', True)
    """
    if (lam is None) == (k is None):
        raise DataError(
            "zero_one takes exactly one of lam and k; pass lam=1.0 for a penalty, or k for a"
            " cardinality"
        )
    lam = None if lam is None else check_number(lam, "lam", low=0, open_low=True)
    k = None if k is None else check_number(k, "k", low=0)
    check_choice(method, "method", METHODS)
    settings = checked_settings(settings, ZeroOneSettings)
    rng = check_seed(seed)
    data = binary_data(X, y, sample_weight)
    space = feature_space(
        data, kernel, intercept=penalised_or_none(intercept), indefinite=indefinite
    )
    check_total_price(
        lam if lam is not None else 1.0, data.weight, "lam" if lam is not None else "sample_weight"
    )
    statement = ZeroOne(space=space, lam=lam, k=k, form="enumeration", kind="enumeration")

    warm_start = earlier_solution(warm_start, statement)
    earlier = None if warm_start is None else earlier_margins(warm_start, statement)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        run = _ZeroOneRun(statement, monitor, method, settings)
        found, status, options = solve_interruptible(monitor, run.all, earlier, rng)
        return conclude(
            run.statement,
            found,
            monitor,
            status,
            solver=f"fast.zero_one/{run.used}",
            warm_start_used=warm_start is not None,
            options=options,
            search_bound=run.bound,
            proof=run.proof,
        )


def _crossings(n: int, r: int) -> float:
    """Return how many crossings a sweep over n rows in r dimensions counts at most; infinite if
    that takes hours.
    """
    sets = 0
    for size in range(r):
        # Whole numbers that may soon be too large for a double.
        sets += math.comb(n, size)
        if n * sets > OUT_OF_REACH:
            return math.inf
    return float(n * sets)


class _ZeroOneRun:
    """The phases of the search, and the record for the answer."""

    def __init__(
        self, statement: ZeroOne, monitor: Monitor, method: str, settings: ZeroOneSettings
    ) -> None:
        self.statement, self.monitor, self.method, self.settings = (
            statement,
            monitor,
            method,
            settings,
        )
        self.used = "branch"
        self.effort: dict[str, int] = {}
        self.duals: list[Dual] = []
        self.tree: BranchAndBound | None = None
        self.searched = False

    def all(
        self, earlier: Floats | None, rng: np.random.Generator
    ) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
        """Prepare the search from the margins of an earlier solution, run it, and return the models
        of its best point.
        """
        factor_in_time(self.statement, self.monitor)
        self.search = ZeroOneSearch(
            replace(self.statement, pool=simple_starts(self.statement, earlier)), self.monitor
        )
        self.searched = True
        try:
            with interruptible(self.monitor.deadline), shares() as share:
                status = self._until_the_end(share, rng)
        except OutOfTime:
            status = self.monitor.late
        best = self.search.best
        self.statement = replace(self.statement, pool=() if best is None else (best,))
        with uninterruptible():
            models = (
                [] if best is None else self.statement.recovered_models(~best.dropped, best.w, 0.0)
            )
        return RecoveredPoints(models, self.duals), status, {"method": self.used, **self.effort}

    @property
    def bound(self) -> SolverBound | None:
        """What has been proved; None if the search has not begun."""
        return self.search.bound if self.searched else None

    def _until_the_end(self, share: Share, rng: np.random.Generator) -> Status:
        """Search until the end or a limit."""
        search = self.search
        self.exchange = CountingExchange(search)
        self.exchange.begin(counting_starts(search))
        sized = False
        if search.best is None:
            # Without a feasible point no M is known.
            self._relax(rng)
            sized = True
        if search.best is None:
            status = self._first_point(share)
            if status is not None:
                self.effort |= {} if self.tree is None else {"nodes": self.tree.nodes}
                return status
        if self.method == "sweep":
            status = search.report(search.proved)
            return self._sweep(share) if status is None else status
        tree, settings = self._create_tree(), self.settings
        status = None
        if not sized:
            early = search.monitor.deadline.share(EASY_SHARE)
            status = tree.run(share, lambda: tree.work >= settings.easy or early.passed())
            if status is None:
                self._relax(rng)
                status = search.report(tree.open_bound)
        if status is None and self.method == "auto":
            swept = settings.crossing * _crossings(*search.statement.geometry.G.shape)
            status = tree.run(share, lambda: tree.record is None and tree.work >= swept)
            if status is None:
                of_the_tree = search.unresolved_bound
                status = self._sweep(share)
                if status is Status.NUMERICAL:
                    # Some vertices could not be distinguished. The bound of the sweep stays, and
                    # the tree continues with its own open nodes.
                    search.unresolved_bound, self.used, status = of_the_tree, "branch", None
        if status is None:
            status = tree.run(share)
        self.effort["nodes"] = tree.nodes
        return status if status is not None else Status.NUMERICAL

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """Arrays that prove the bounds of the tree; nothing after a sweep."""
        return {} if self.used != "branch" or self.tree is None else self.tree.proof

    def _create_tree(self) -> BranchAndBound:
        """Begin a tree; a proof is made from the last one."""
        self.search.price_of_budget(None if not self.duals else float(self.duals[0]["lam"]))
        self.tree = BranchAndBound(self.search, self.settings.branch, self.exchange)
        return self.tree

    def _sweep(self, share: Share) -> Status:
        self.used = "sweep"
        status, swept = sweep(self.search, share, self.settings.sweep)
        self.effort |= swept
        return status

    def _relax(self, rng: np.random.Generator) -> None:
        """Look for better points by the conic relaxation and a local search; keep its dual point."""
        search = self.search
        pool, relaxation = starts(search, rng, self.settings.relaxation_rows)
        for point in pool:
            search.update_incumbent(point)
        if relaxation is not None:
            dual = search.statement.repair(
                {"gamma": relaxation.gamma, "lam": np.array(relaxation.lam)}
            )
            self.duals = [dual]
            search.proved = max(
                search.proved, search.statement.evaluate_dual(dual).lower_end * search.unit
            )

    def _first_point(self, share: Share) -> Status | None:
        """Find a feasible point, or prove that there is none; None once there is one that may not
        be the best.
        """
        search = self.search
        if search.statement.is_inseparable:
            return Status.INFEASIBLE
        self.exchange.find_feasible()
        if search.best is not None:
            return None
        if search.decide_feasibility() is False:
            return search.report(math.inf)
        status = None
        for search.objective_cap in OBJECTIVE_CAPS:
            if search.best is not None or search.monitor.out_of_time():
                break
            status = self._create_tree().run(share)
            if status not in (Status.NUMERICAL, None):
                break
        found, search.objective_cap = search.best is not None, math.inf
        if found:
            # Whatever is below the value of the first point, too, may have been excluded on the
            # way.
            return status if status is Status.OPTIMAL else None
        return search.report(search.proved) or Status.NUMERICAL
