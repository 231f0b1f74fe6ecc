r"""pSMO by decomposition: pair steps on a working set, whose kernel rows are then added to the
scores together.

The outer loop chooses the observations that violate optimality most, runs
:mod:`svmcvx.fast.margin.smo_passes` in their multipliers on their Gram matrix, and adds the change
to the scores :math:`f = Kv` of all observations, with rows from a bounded cache or computed for the
purpose (:mod:`svmcvx.fast.core.row_cache`). From time to time the bounds D(α) and P(w, b) of the
point are compared; when they indicate the wanted gap, the scores are evaluated again from the raw
data in float64, and bounds are computed from these. Rows in float32 therefore cost no accuracy: the
loop continues from exact scores, as in iterative refinement.

**No shrinking.** An observation outside the working sets costs one number of each update, and a row
of the kernel only when it violates optimality; whole rows are stored, so that nothing must be
reconstructed before a bound is computed. These updates and the search for violators take a quarter
of the time for n = 12 000, p = 1, C = 100, with 72% of the multipliers at zero.

**Shortcuts.** Another method may replace pair steps that take long:
:mod:`svmcvx.fast.margin.support_newton` from an earlier solution,
:mod:`svmcvx.fast.margin.low_rank_newton` otherwise. Of its multipliers and the present ones, the
point with the smaller gap is used.

**Source.** [Sun], Algorithm 1 (pSMO), with larger working sets and second-order selection of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.row_cache import CachedRows, GramRows, ProductSeconds, Rows
from svmcvx.fast.margin.smo_passes import ascend, ascend_alone
from svmcvx.formulations.margin import PSVM, HardMargin
from svmcvx.solution import Status
from svmcvx.system import clock

__all__ = ["Decomposition", "DecompositionSettings", "Shortcut"]

Floats: TypeAlias = NDArray[np.float64]
# Lower and upper bound of the optimum from multipliers and their scores; None if the dual is
# unbounded.
BoundsOf: TypeAlias = Callable[[Floats, Floats], tuple[float, float] | None]

# Time reserved for exact scores and the next round, in units of the estimate.
RESERVED = 1.1
# Violations above which bounds would be too wide to stop: in units of the tolerance for p = 1; in
# units of its square root for p > 1, where the gap falls with the square of the violation.
FAR, FAR_SMOOTH = 100.0, 3.0
# Imbalance of the classes that counts as rounding, in machine epsilons of the sum of the
# multipliers.
ROUNDINGS = 64.0
# Share of all observations in a working set if rows are computed when they are used.
TILED_SHARE = 0.02
# Shares of the violation of all observations down to which that inside the working set is brought:
# small where its rows are at hand, larger where each change costs a row.
INNER_SHARE = 0.1
TILED_INNER_SHARE = 0.3
# The same if the working set has all observations, times the square root of the tolerance: a round
# then ends with bounds, which cost more than its last steps.
INNER_SHARE_WHOLE = 0.5
# The bounds are compared when the violation has fallen to this share, or after PATIENCE rounds.
FALL = 0.6
PATIENCE = 12
# Share of the tolerance at which bounds from updated scores lead to an exact evaluation. It starts
# at TRUST and is halved each time, down to LEAST_TRUST.
TRUST = 0.9
LEAST_TRUST = 0.1
# A violation below this many roundings of the scores counts as zero.
FLOOR_ROUNDINGS = 16.0
# Comparisons of the bounds without progress after which the solver ends.
STALLED_COMPARISONS = 40
# Comparisons in which the gap has to fall by a tenth; otherwise the solver changes the method, or
# ends.
HOPELESS_COMPARISONS = 300
# Numbers of comparisons at which problems try to end by solving the support equations.
CROSSOVERS = frozenset((10, 30, 100, 300, 1000))
# Number of observations up to which they always try; above, if one system costs at most so many
# times the multiplications of the pair steps so far.
CROSSOVER_SIZE, CROSSOVER_WORK = 1000, 20.0


@dataclass(frozen=True)
class DecompositionSettings:
    """Parameters of the decomposition.

    Parameters
    ----------
    working_set : int
        Observations in a working set if all used kernel rows are stored
        (:mod:`svmcvx.fast.core.row_cache`).
    tiled_least, tiled_most : int
        Bounds on their number.
    whole : int
        Number of observations up to which all of them are in the working set.
    steps : int
        Pair steps in one round, for each observation of the working set.
    ascent : type, optional
        A subclass of :class:`Decomposition` with another rule for working sets and pairs.
    final : float
        Violation, in units of the tolerance, at which every round except the first ends: small
        where steps cost next to nothing.
    """

    working_set: int = 512
    tiled_least: int = 1024
    tiled_most: int = 4096
    whole: int = 1000
    steps: int = 40
    final: float = math.inf
    ascent: type[Decomposition] | None = None

    def working_set_size(self, n: int) -> int:
        """Return how many of n observations a round takes."""
        return n if n <= self.whole else self.working_set

    def tiled_working_set_size(self, n: int) -> int:
        """Return the size of a working set if rows are computed when they are used."""
        return (
            n
            if n <= self.whole
            else min(n, max(self.tiled_least, min(int(TILED_SHARE * n), self.tiled_most)))
        )


class Shortcut(Protocol):
    """A method that may replace pair steps that take long."""

    def due(self, work: float, alpha: Floats) -> bool:
        """Whether pair steps that have cost `work` multiplications and led to `alpha` should be
        replaced now.
        """

    def allowance(self, work: float, alpha: Floats) -> float:
        """Return the multiplications of pair steps that the next round may cost before :meth:`due`
        is called again.
        """

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return other multipliers, from those of the pair steps."""

    def last_resort(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return other multipliers if the pair steps stagnate."""


@dataclass
class Decomposition:
    """The state of the outer loop."""

    statement: PSVM | HardMargin
    rows: Rows
    bounds: BoundsOf
    c: Floats
    r: float
    upper_bound: Floats
    size: int
    seed: int
    alpha: Floats
    scores: Floats | None = None
    rescale: Callable[[Floats, Floats, Floats], float] | None = None
    shortcut: Shortcut | None = None
    settings: DecompositionSettings = field(default_factory=DecompositionSettings)
    # The rule by which pairs are chosen, and whether a shortcut may replace them.
    selection: ClassVar[str] = "second-order"
    takes_shortcuts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.y = self.statement.y
        self.balanced = self.statement.space.intercept == "free"
        self.rounds = self.pair_steps = 0
        self.work = 0.0
        # Of the products that are left, if there is a time limit; the seconds of the latest round,
        # and how many support vectors it added.
        self._products: ProductSeconds | None = None
        self._round_seconds, self._joined = 0.0, self.size
        self._fresh = np.zeros(0, dtype=np.intp)
        self._lowest, self._lowest_alpha = math.inf, self.alpha
        # The exactly feasible multipliers to which the scores belong, and the nearby multipliers
        # with which the loop continues.
        self._exact: Floats | None = None
        self._exact_of: Floats | None = None
        if self.scores is not None:
            self.f, self.updated = self.scores, True
            return
        # Gaps of that point and of the last one, and whether both are certified.
        self._gaps, self._both = (math.inf, math.inf), True
        self.exact_scores()

    @cached_property
    def random(self) -> np.random.Generator:
        """The generator of the seed."""
        return np.random.default_rng(self.seed)

    @property
    def options(self) -> dict[str, Any]:
        """The methods used and their work, for the record."""
        return {
            "selection": self.selection,
            "working_set": self.size,
            "cache_mb": self.rows.nbytes / 2**20,
            "storage": str(self.rows.dtype),
            "pair_steps": self.pair_steps,
        }

    def points(self) -> list[Floats]:
        """Return the last multipliers, and those of the lowest objective, which need not fall
        monotonically.
        """
        last = self._exact
        if last is None or self.updated or self._exact_of is not self.alpha:
            last = self.statement.feasible(self.alpha)
        if np.array_equal(self.alpha, self._lowest_alpha):
            return [last]
        lowest = self.statement.feasible(self._lowest_alpha)
        if np.array_equal(last, lowest):
            return [last]
        if not self._both:
            return [last if self._gaps[1] <= self._gaps[0] else lowest]
        return [lowest, last]

    def raw_points(self) -> list[Floats]:
        """Return the same without the repair, whose balance rounds multipliers that are tiny against
        others.
        """
        return [self._lowest_alpha, self.alpha]

    def exact_scores(self) -> None:
        """Evaluate the scores from the raw data, at the exactly feasible multipliers nearby."""
        self.updated, self._exact, self._exact_of = False, None, None
        if not self.alpha.any():
            self.f = np.zeros(self.y.size)
            return
        feasible = self.statement.feasible(self.alpha)
        off, size = abs(float(self.alpha @ self.y)), float(np.abs(self.alpha).sum())
        inside = (self.alpha >= 0).all() and (self.alpha <= self.upper_bound).all()
        if not (inside and (off <= 2.0 * ROUNDINGS * math.ulp(size) or not self.balanced)):
            self.alpha = feasible
        self._exact, self._exact_of = feasible, self.alpha
        started = clock.now()
        self.f = np.array(self.statement.space.point(feasible * self.y).scores.value)
        if self._products is not None:
            self._products.took(
                clock.now() - started, float(np.count_nonzero(feasible)) * self.y.size
            )

    def derivative(self) -> Floats:
        """Return g, the derivative of the dual along the v_i."""
        if self.r == 0:
            return np.asarray(self.y - self.f)
        return np.asarray(self.y * (1.0 - (self.alpha / self.c) ** self.r) - self.f)

    def run(self, monitor: Monitor) -> Status:
        """Ascend until the monitor says stop, the dual is found unbounded, or the violation is down
        to rounding.
        """
        settings = self.settings
        trust, compared, idle = TRUST, 0, 0
        cold, whole = not self.alpha.any(), self.size == self.y.size
        far = FAR * monitor.tol if self.r == 0 else FAR_SMOOTH * math.sqrt(monitor.tol)
        best_gap, best_lower = math.inf, -math.inf
        last_violation, last_round = math.inf, 0
        # The last gap that was a tenth below an earlier one, and the comparison at which it was
        # reached.
        goal, reached = math.inf, 0
        while True:
            if self.rescale is not None:
                factor = self.rescale(self.alpha, self.f, self.y)
                self.alpha, self.f = self.alpha * factor, self.f * factor
            g = self.derivative()
            up, low = self._candidates(g)
            violation = float(up.max() - low.min())
            if not self.balanced:
                violation = max(float(up.max()), -float(low.min()), 0.0)
            floor = 2.0 * FLOOR_ROUNDINGS * math.ulp(max(1.0, float(np.abs(self.f).max())))
            early = (
                whole
                and self.rounds < (2 if cold else 1)
                and violation > max(floor, far if cold else 100.0 * far)
            )
            if not (early and self._may_go_on(monitor)) and (
                violation <= max(FALL * last_violation, floor)
                or self.rounds - last_round >= PATIENCE
                or whole
                or not self._may_go_on(monitor)
            ):
                last_violation, last_round, compared = violation, self.rounds, compared + 1
                if self.updated and whole and violation <= monitor.tol:
                    # The bounds of updated scores would lead here.
                    self.exact_scores()
                found = self.bounds(self.alpha, self.f)
                hopeless = compared - reached > HOPELESS_COMPARISONS
                exhausted = violation <= floor or idle > STALLED_COMPARISONS or hopeless
                ends = found is None or exhausted or relative_gap(*found) <= trust * monitor.tol
                if self.updated and (ends or self._closes(found, monitor)):
                    # Scores that were updated in the precision of the rows prove nothing. Exact
                    # scores may also leave more to gain.
                    self.exact_scores()
                    found = self.bounds(self.alpha, self.f)
                    trust, exhausted, idle = max(0.5 * trust, LEAST_TRUST), hopeless, 0
                elif found is not None and compared in CROSSOVERS and self._crossover_pays():
                    found = self._crossover(found)
                if (
                    found is not None
                    and self.shortcut is not None
                    and self.shortcut.due(self.work, self.alpha)
                ):
                    found = self._better(found, self.shortcut.solve(self.alpha, monitor))
                if found is None:
                    return Status.UNBOUNDED
                gap = relative_gap(*found)
                if found[1] <= self._lowest:
                    self._lowest, self._lowest_alpha = found[1], self.alpha.copy()
                    self._gaps = gap, gap
                self._gaps = self._gaps[0], gap
                status = monitor.report(self.rounds, *self._padded(*found), estimated=self.updated)
                if status is not None:
                    needed = status is Status.OPTIMAL and gap > monitor.tol
                    self._both = needed or not (self.rows.tiled or self._out_of_time(monitor))
                    return status
                if exhausted:
                    return self._handed_over(found, monitor)
                if gap < 0.9 * goal:
                    goal, reached = gap, compared
                progress = gap < 0.99 * best_gap or found[0] - best_lower > 1e-7 * abs(found[0])
                best_gap, best_lower = min(best_gap, gap), max(best_lower, found[0])
                idle = 0 if progress else idle + 1
                if not self.updated:
                    g = self.derivative()
                    up, low = self._candidates(g)
            inner = INNER_SHARE
            if self.rows.tiled:
                inner = TILED_INNER_SHARE
            elif whole:
                inner = min(inner, INNER_SHARE_WHOLE * math.sqrt(monitor.tol))
            if self.rounds:
                inner = (
                    min(inner, settings.final * monitor.tol / violation) if violation > 0 else inner
                )
            self._round(g, up, low, max(inner * violation, 0.25 * floor))

    def _handed_over(self, found: tuple[float, float], monitor: Monitor) -> Status:
        """End with what another method makes of the point."""
        if self.shortcut is not None and not monitor.out_of_time():
            found = self._better(found, self.shortcut.last_resort(self.alpha, monitor))
            status = monitor.report(self.rounds, *self._padded(*found), estimated=self.updated)
            if status is not None:
                return status
        return Status.INACCURATE

    def _may_go_on(self, monitor: Monitor) -> bool:
        """Whether neither another method, nor the clock, nor the limit of rounds asks for bounds."""
        return (
            self._allowance() > 0
            and not self._out_of_time(monitor)
            and self.rounds < monitor.max_iter
        )

    def _out_of_time(self, monitor: Monitor) -> bool:
        """Whether there is only time left for the certificate."""
        if math.isfinite(monitor.deadline.end):
            # The certificate goes through the data as well, as their preparation has done.
            monitor.reserve(monitor.build_seconds + self._seconds_to_the_end())
        return monitor.out_of_time()

    def _closes(self, found: tuple[float, float] | None, monitor: Monitor) -> bool:
        """Whether the best bounds from exact scores and those from updated scores have the wanted
        gap.
        """
        if found is None:
            return False
        return (
            relative_gap(max(monitor.valid[0], found[0]), min(monitor.valid[1], found[1]))
            <= monitor.tol
        )

    def _seconds_to_the_end(self) -> float:
        """Return how long another round and the exact scores of the points after it will take."""
        n = float(self.y.size)
        if self._products is None:
            self._products = ProductSeconds(self.statement.space)
            self._products.after(0.0)
        support = min(float(np.count_nonzero(self.alpha) + self._joined), n)
        return RESERVED * (self._round_seconds + self._products.of(support * n))

    def _allowance(self) -> float:
        """Return the multiplications of pair steps until the shortcut may be due."""
        return math.inf if self.shortcut is None else self.shortcut.allowance(self.work, self.alpha)

    def _candidates(self, g: Floats) -> tuple[Floats, Floats]:
        """Return g where v may be raised (−∞ elsewhere), and where it may be lowered (∞ elsewhere)."""
        raisable = np.where(self.y > 0, self.alpha < self.upper_bound, self.alpha > 0)
        lowerable = np.where(self.y < 0, self.alpha < self.upper_bound, self.alpha > 0)
        return np.where(raisable, g, -math.inf), np.where(lowerable, g, math.inf)

    def _padded(self, lower: float, upper: float) -> tuple[float, float]:
        """Widen bounds from scores that were updated in the precision of the rows."""
        if not self.updated:
            return lower, upper
        pad = float(np.finfo(self.rows.dtype).eps) * (abs(lower) + abs(upper))
        return lower - pad, upper + pad

    def _crossover_pays(self) -> bool:
        """Whether the support equations cost little beside the pair steps so far."""
        free = np.count_nonzero((self.alpha > 0) & (self.alpha < self.upper_bound))
        return self.y.size <= CROSSOVER_SIZE or float(free) ** 3 <= CROSSOVER_WORK * self.work

    def _crossover(self, found: tuple[float, float]) -> tuple[float, float]:
        """Replace the point by the solution of the support equations if its gap is smaller."""
        return self._better(
            found,
            [self.statement.alpha(dual) for dual in self.statement.recover(self.alpha).duals[:1]],
        )

    def _better(self, found: tuple[float, float], others: list[Floats]) -> tuple[float, float]:
        """Replace the point by the best of other multipliers if its gap is smaller; return the
        bounds of the chosen point.
        """
        for other in others:
            alpha = self.statement.feasible(other)
            f = self.statement.space.point(alpha * self.y).scores.value
            bounds = self.bounds(alpha, f)
            if bounds is None:
                continue
            if bounds[1] < self._lowest:
                self._lowest, self._lowest_alpha = bounds[1], alpha
            if relative_gap(*bounds) < relative_gap(*found):
                self.alpha, self.f, self.updated, found = alpha, np.array(f), False, bounds
        return found

    def _working_set(self, up: Floats, low: Floats) -> NDArray[np.intp]:
        """Return the observations that violate most, with those that joined in the round before."""
        n = self.y.size
        if self.size >= n:
            return np.arange(n)
        previous = (
            self._fresh if self._fresh.size <= self.size // 2 else self._fresh[: self.size // 2]
        )
        many = max(1, (self.size - previous.size) // 2)
        up, low = up.copy(), low.copy()
        if self.size > 3:
            up[previous], low[previous] = -math.inf, math.inf
        else:
            previous = previous[:0]
        # all multipliers may be equal: choose at random, not by the order of the data
        if not self.rounds:
            order = self.random.permutation(n)
            first = order[np.argsort(-up[order], kind="stable")[:many]]
            last = order[np.argsort(low[order], kind="stable")[:many]]
        else:
            first, last = (
                np.argpartition(-up, many - 1)[:many],
                np.argpartition(low, many - 1)[:many],
            )
        fresh = np.union1d(first[np.isfinite(up[first])], last[np.isfinite(low[last])])
        self._fresh = fresh
        return np.union1d(fresh, previous).astype(np.intp)

    def _round(self, g: Floats, up: Floats, low: Floats, tol: float) -> None:
        """Ascend in one working set."""
        started = clock.now()
        chosen = self._working_set(up, low)
        Q = self.rows.square(chosen)
        if (
            isinstance(self.rows, CachedRows)
            and chosen.size == self.y.size
            and self.rows.dtype == Q.dtype
        ):
            # Later rounds have all observations as well.
            self.rows = GramRows(Q)
        alpha, y = self.alpha[chosen], self.y[chosen]
        c, upper_bound = self.c[chosen], self.upper_bound[chosen]
        steps = self.settings.steps * chosen.size
        steps = int(min(steps, 1.0 + max(self._allowance(), 0.0) / chosen.size))
        taken = self._ascend(Q, g[chosen], alpha, y, c, upper_bound, tol, steps)
        self.rows.add(self.f, chosen, y * (alpha - self.alpha[chosen]))
        self._joined = max(
            int(np.count_nonzero(alpha)) - int(np.count_nonzero(self.alpha[chosen])), 0
        )
        self.alpha[chosen] = alpha
        self.updated = True
        self.rounds += 1
        self.pair_steps += taken
        self.work += float(taken) * chosen.size
        self._round_seconds = clock.now() - started
        if self._products is not None:
            self._products.after(float(chosen.size) * self.y.size)

    def _ascend(
        self,
        Q: Floats,
        g: Floats,
        alpha: Floats,
        y: Floats,
        c: Floats,
        upper_bound: Floats,
        tol: float,
        steps: int,
    ) -> int:
        """Ascend inside a working set, update `g` and `alpha`, and return the steps taken."""
        steps_of = ascend if self.balanced else ascend_alone
        return int(steps_of(Q, g, alpha, y, c, upper_bound, self.r, tol, steps))
