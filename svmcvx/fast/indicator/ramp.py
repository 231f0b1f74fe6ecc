r"""The SVM with ramp loss to proved optimality, by branch and bound.

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+), \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

The statement is that of :mod:`svmcvx.formulations.indicator.ramp`. An observation is kept (u ≥ −1,
with the hinge loss) or dropped (u ≤ −1, with a loss of 2);
:mod:`svmcvx.fast.indicator.search.branch_and_bound` decides. The argument by vertices on which the
sweep of the 0-1 loss rests fails here, since the loss is linear between the two. The upper bound is
checked like any other; the lower bound is proved by the search: kind ``"enumeration"``,
``residuals["search_bound"]``. A proof holds the tree, and the second checker computes its bounds
again (:mod:`svmcvx.proofs.search_tree`).

**When to use what.** Where :func:`svmcvx.ramp_mio` with a mixed-integer solver ends too, this
search is quicker. Its cost grows with the number of observations that the optimum drops, and with
the number of columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import SolverBound
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
from svmcvx.fast.core.thread_pool import shares
from svmcvx.fast.indicator.search.branch_and_bound import BranchAndBound, BranchSettings
from svmcvx.fast.indicator.search.exchange import RampExchange
from svmcvx.fast.indicator.search.search_state import RampSearch, factor_in_time
from svmcvx.fast.indicator.search.starts import ramp_starts
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.indicator.l0 import L0, l0_statement
from svmcvx.formulations.indicator.pool import incumbent_margins
from svmcvx.formulations.indicator.ramp import Ramp, ramp_pool
from svmcvx.kernels import KernelLike
from svmcvx.solution import Solution, Status
from svmcvx.system.cancellation import uninterruptible
from svmcvx.system.deadline import OutOfTime

__all__ = ["ramp"]

Floats: TypeAlias = NDArray[np.float64]


@limited
def ramp(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    indefinite: str = "error",
    seed: int = 0,
    settings: BranchSettings | None = None,
) -> Solution:
    r"""Solve the SVM with ramp loss to proved optimality, by branch and bound.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)

    Parameters
    ----------
    C : float
        Weight of the losses, positive; 1 by default.
    kernel : Kernel, str, callable or None
        None for the linear formulation. The columns are those of a factor of the Gram matrix.
    time_limit : float, optional
        Seconds; then the best point is returned with the lower bound that is proved so far, as
        after Ctrl-C.
    max_iter : int
        Rounds of the search.
    seed : int
        Accepted like that of the other solvers; the search draws nothing.

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

    Notes
    -----
    Source: the formulation of [Brooks], in the scaling of [CepedaGomezHan], § 2. The search is
    derived in :mod:`svmcvx.fast.indicator.search.big_m_passes`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> certificate = sx.fast.ramp(X, y, C=1.0).certificate
    >>> certificate.kind, certificate.is_certified(1e-6)
    ('enumeration', True)
    """
    settings = checked_settings(settings, BranchSettings)
    counting = l0_statement(
        X, y, C=C, kernel=kernel, sample_weight=sample_weight, indefinite=indefinite
    )
    statement = Ramp(space=counting.space, C=counting.C, kind="enumeration")
    warm_start = earlier_solution(warm_start, statement)
    earlier = incumbent_margins(warm_start, counting)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        run = _RampRun(statement, monitor, settings)
        found, status, options = solve_interruptible(monitor, run.all, counting, earlier)
        return conclude(
            run.statement,
            found,
            monitor,
            status,
            solver="fast.ramp/branch",
            warm_start_used=warm_start is not None,
            options=options,
            search_bound=run.bound,
            proof=run.proof,
        )


class _RampRun:
    """The search, and its proved bound."""

    def __init__(self, statement: Ramp, monitor: Monitor, settings: BranchSettings) -> None:
        self.statement, self.monitor, self.settings = statement, monitor, settings
        self.bound: SolverBound | None = None
        self.proof: dict[str, NDArray[Any]] = {}

    def all(
        self, counting: L0, earlier: Floats | None
    ) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
        """Search until the end or a limit, from constant scores and from the margins of an earlier
        solution.
        """
        factor_in_time(counting, self.monitor)
        search = RampSearch(
            replace(
                self.statement,
                pool=ramp_pool(counting, earlier, heuristics=False, deadline=self.monitor.deadline),
            ),
            self.monitor,
        )
        exchange = RampExchange(search)
        tree = BranchAndBound(search, self.settings, exchange)
        try:
            exchange.begin(ramp_starts(search))
            with shares() as share:
                status = tree.run(share) or Status.NUMERICAL
        except OutOfTime:
            status = self.monitor.late
        best = search.best
        assert best is not None  # noqa: S101 - constant scores are feasible
        self.statement = replace(self.statement, pool=(best,))
        with uninterruptible():
            self.bound, self.proof, models = (
                search.bound,
                tree.proof,
                self.statement.incumbent_models(),
            )
        return RecoveredPoints(models, []), status, {"method": "branch", "nodes": tree.nodes}
