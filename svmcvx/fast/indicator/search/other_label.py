r"""Whether a model that predicts another label of a row has an objective of at most a given value,
by branch and bound.

The search is that of the problem with one row more, :math:`g_0 = \sigma M(\varphi(t), 1)` of weight
0 for the label σ = ±1, which is *dropped* from the first node on: :math:`g_0'(w, b) \le 1`, that is
:math:`\sigma f(t) \le 1/M`. With the ramp loss, where what is dropped has :math:`u \le -1` and what
is kept :math:`u \ge -1`, it is :math:`-g_0` that is *kept*. These are more models than those with
:math:`\sigma f(t) \le 0`. There is no incumbent, only a value above which nothing is looked for. If
no node is open, and no leaf unresolved, every model with an objective below that value has
:math:`\sigma f(t) > 1/M`.

**Factors.** With the rows L of a factor of the kernel matrix of all rows and t, a model of
objective P has in the factor's problem, divided by :math:`1 - \varepsilon`, no larger objective
than what :meth:`~svmcvx.formulations.indicator.statement.IndicatorStatement.bound_of_search` allows
for, and a score of t that differs by at most :math:`\varepsilon = (\sqrt e + q)\sqrt{P/h}` before
the division (:mod:`svmcvx.formulations.indicator.factor_error`). M is so small that
:math:`M\varepsilon \le 1/8`. So what is excluded is :math:`\sigma f(t) \le 1/(2M)`.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.thread_pool import Share
from svmcvx.fast.indicator.search.branch_and_bound import BranchAndBound, BranchSettings
from svmcvx.fast.indicator.search.relaxation_passes import DROPPED, KEPT
from svmcvx.fast.indicator.search.search_state import (
    IMPROVEMENT,
    L0Search,
    RampSearch,
    SearchState,
    ZeroOneSearch,
)
from svmcvx.formulations.indicator.statement import IndicatorStatement
from svmcvx.heuristics.signed_rows import Incumbent, SignedRows

__all__ = ["smallest_score"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# The first M, and how much a score that is excluded may be of 1/M; what rounding of a factor may be
# of it.
STEEPEST, EXCLUDED, UNSURE = 2.0**10, 0.5, 0.125
# Values above the objective of the model, relatively, of which one is tried after the other until
# the rounding of a factor leaves the first.
ABOVE: Final = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


class _OtherLabel(SearchState):
    """A search below a value, of models with a small score of one more row."""

    def __init__(self, statement: Any, monitor: Monitor, row: Floats, cap: float) -> None:
        super().__init__(statement, monitor)
        self.best_value = cap * self.unit / (1.0 - 2.0 * IMPROVEMENT)
        self._interval = super().bias_interval(self.cutoff)
        row = (-row if self.cut > 0.0 else row) / self.scale
        self.rows = np.vstack([self.rows, row])
        self.H = np.ascontiguousarray(self.rows[:, :-1]) if self.free else self.rows
        self.weight = np.append(self.weight, 0.0)

    @property
    def root_state(self) -> NDArray[np.int8]:
        """The additional row is dropped, or its negative is kept."""
        state = super().root_state
        state[-1] = KEPT if self.cut > 0.0 else DROPPED
        return state

    @property
    def refines_leaves(self) -> bool:
        """No other arithmetic evaluates a leaf."""
        return True

    def _observations(self) -> None:
        """The signed rows tell which are equal."""

    @property
    def _factor_error(self) -> float:
        """No checker repeats this search."""
        return 0.0

    def bias_interval(self, upper: float) -> tuple[float, float]:
        """Return that of the problem without the additional row."""
        return self._interval

    def update_incumbent(self, point: Incumbent) -> None:
        """No point is looked for."""

    def try_point(self, w: Floats) -> None:
        """No point is looked for."""

    def close_leaf(self, kept: Bools, dropped: Bools, bound: float) -> None:
        """What is not excluded by its bound remains."""
        if bound < self.cutoff:
            self.mark_unresolved(bound)


class _ZeroOneOther(_OtherLabel, ZeroOneSearch):
    """The 0-1 loss."""


class _L0Other(_OtherLabel, L0Search):
    """The l0-norm hinge."""


class _RampOther(_OtherLabel, RampSearch):
    """The ramp loss."""


SEARCHES: Final[dict[str, Any]] = {"zero_one": _ZeroOneOther, "l0": _L0Other, "ramp": _RampOther}


def smallest_score(
    statement: IndicatorStatement,
    upper: float,
    sign: float,
    monitor: Monitor,
    share: Share,
    max_nodes: int,
) -> float:
    """Return a positive number below which no model with an objective of at most `upper` has the
    signed score of a row; 0 if there is none known.
    """
    geometry, half = statement.geometry, float(SEARCHES[statement.name].half)
    cap = next(
        (
            upper * (1.0 + more)
            for more in ABOVE
            if statement.bound_of_search(upper * (1.0 + more)) > upper
        ),
        None,
    )
    steepest = _steepest(statement, upper, half)
    if cap is None or steepest < 1.0 or not _excludes_constants(statement, cap):
        return 0.0
    row = np.append(geometry.G[-1], 1.0) if geometry.free else geometry.G[-1]
    known = SignedRows(geometry.G[:-1], geometry.y[:-1], geometry.weight[:-1], geometry.free)
    settings = {
        name: getattr(statement, name) for name in ("lam", "k", "C") if hasattr(statement, name)
    }
    problem = SimpleNamespace(
        geometry=known, pool=(), bound_of_search=lambda value: value, **settings
    )
    search = SEARCHES[statement.name](problem, monitor, sign * steepest * row, cap)
    if isinstance(search, ZeroOneSearch):
        search.price_of_budget(None)
    tree = BranchAndBound(search, BranchSettings(record=0.0))
    tree.record = None
    tree.run(share, lambda: tree.nodes >= max_nodes or math.isfinite(search.unresolved_bound))
    ended = tree.nodes > 0 and not tree.queue and math.isinf(search.unresolved_bound)
    return EXCLUDED / steepest if ended else 0.0


def _steepest(statement: IndicatorStatement, upper: float, half: float) -> float:
    """The largest M up to :data:`STEEPEST` that a power of two allows with this factor."""
    error = statement.factor_error
    off = (math.sqrt(float(error.missing.max())) + float(error.shift.max())) * math.sqrt(
        upper / half
    )
    if not off < UNSURE / 2.0:
        return 0.0
    return (
        STEEPEST
        if off == 0.0
        else min(STEEPEST, 2.0 ** math.floor(math.log2(UNSURE / (off * (1.0 + 1e-9)))))
    )


def _excludes_constants(statement: IndicatorStatement, cap: float) -> bool:
    """Whether a score that is constant has a larger objective; else the bounds of a free intercept
    do not hold.
    """
    geometry = statement.geometry
    if not geometry.free:
        return True
    losses = 2.0 if statement.name == "ramp" else 1.0
    y, weight = geometry.y[:-1], geometry.weight[:-1]
    least = min(float(weight[y > 0].sum()), float(weight[y < 0].sum()))
    return losses * float(getattr(statement, "C")) * least * (1.0 - 1e-9) > cap  # noqa: B009 - both have it
