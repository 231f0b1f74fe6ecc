"""The global minimum of the SVM with l0-norm hinge, by branch and bound with a free intercept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import SolverBound
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.thread_pool import shares
from svmcvx.fast.indicator.search.branch_and_bound import BranchAndBound, BranchSettings
from svmcvx.fast.indicator.search.exchange import CountingExchange
from svmcvx.fast.indicator.search.search_state import L0Search, factor_in_time
from svmcvx.fast.indicator.search.starts import counting_starts
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.indicator.l0 import L0
from svmcvx.losses import zero_one
from svmcvx.solution import Status
from svmcvx.system.cancellation import uninterruptible
from svmcvx.system.deadline import OutOfTime

__all__ = ["GlobalSearch"]

Bools: TypeAlias = NDArray[np.bool_]


class GlobalSearch:
    """The search, its proved bound, and the arrays that prove it."""

    def __init__(self, statement: L0, monitor: Monitor, settings: BranchSettings) -> None:
        self.statement = replace(statement, kind="enumeration")
        self.monitor, self.settings = monitor, settings
        self.bound: SolverBound | None = None
        self.proof: dict[str, NDArray[Any]] = {}

    def run(self, propose: Callable[[], Bools]) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
        """Search until the end or a limit, from constant scores, soft margins, and a set of
        observations that is proposed.
        """
        geometry = self.statement.geometry
        factor_in_time(self.statement, self.monitor)
        constants = tuple(
            geometry.incumbent(np.zeros(geometry.G.shape[1]), b, zero_one) for b in (1.0, -1.0)
        )
        search = L0Search(replace(self.statement, pool=constants), self.monitor)
        options: dict[str, Any] = {"method": "search"}
        try:
            search.try_set(propose()[search.first])
            exchange = CountingExchange(search)
            exchange.begin(counting_starts(search))
            tree = BranchAndBound(search, self.settings, exchange)
            with shares() as share:
                status = tree.run(share) or Status.NUMERICAL
            options["nodes"], self.proof = tree.nodes, tree.proof
        except OutOfTime:
            status = self.monitor.late
        best = search.best
        assert best is not None  # noqa: S101 - constant scores are feasible
        self.statement = replace(self.statement, pool=(best,))
        with uninterruptible():
            self.bound = search.bound
            models = self.statement.recovered_models(~best.dropped, best.w, best.b)
        return RecoveredPoints(models, []), status, options
