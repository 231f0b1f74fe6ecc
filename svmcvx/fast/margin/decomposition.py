r"""pSMO by decomposition: pair steps on a working set, whose kernel rows are then added to the
scores together.

The outer loop chooses the observations that violate optimality most, runs
:mod:`svmcvx.fast.margin.smo_passes` in their multipliers on their Gram matrix, and adds the change
to the scores :math:`f = Kv` of all observations, with rows from a bounded cache or computed for the
purpose (:mod:`svmcvx.fast.core.rows`). From time to time the bounds D(α) and P(w, b) of the
point are compared; when they indicate the wanted gap, the scores are evaluated again from the raw
data in float64, and bounds are computed from these. Rows in float32 therefore cost no accuracy: the
loop continues from exact scores, as in iterative refinement.

**No shrinking.** An observation outside the working sets costs one number of each update, and a row
of the kernel only when it violates optimality; whole rows are stored, so that nothing must be
reconstructed before a bound is computed. These updates and the search for violators take a quarter
of the time for n = 12 000, p = 1, C = 100, with 72% of the multipliers at zero.

**Shortcuts.** Another method may replace pair steps that take long: :class:`SupportNewton` from an
earlier solution, :class:`LowRankNewton` otherwise. Of its multipliers and the present ones, the
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
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.rows import CachedRows, GramRows, ProductSeconds, Rows
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import KernelNewton, LinearProblem
from svmcvx.fast.margin.smo_passes import ascend, ascend_alone
from svmcvx.formulations.margin import PSVM, HardMargin
from svmcvx.numerical import bordered_solution
from svmcvx.solution import Status
from svmcvx.system import clock
from svmcvx.system.memory import columns_in

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
        (:mod:`svmcvx.fast.core.rows`).
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
        # Gaps of that point and of the last one, and whether both are certified.
        self._gaps, self._both = (math.inf, math.inf), True
        if self.scores is not None:
            self.f, self.updated = self.scores, True
            return
        self.exact_scores()

    @cached_property
    def random(self) -> np.random.Generator:
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


# Shares of the mean of the diagonal that are added to it where the system is singular. They slow
# down convergence but do not change its limit, since the residual is exact.
RIDGES = (1e-13, 1e-10, 1e-7)
# A multiplier this close to its upper bound, relative to the bound, counts as being at it.
AT_BOUND = 1e-6
# Newton steps, at most.
NEWTON_STEPS = 15
# Consecutive steps that do not halve the gap, after which the method ends.
IDLE_STEPS = 6
# Number of observations up to which the method is used: beyond, a system costs too much.
LARGEST_SAMPLE = 5000
# If no step reduced the gap, the method is tried again when pair steps have cost this many times as
# much.
RETRY_FACTOR = 4.0
# Cost of a Newton step, counted in multiplications of pair steps: FACTORISATION_WORK times the cube
# of the number of free multipliers, PRODUCT_WORK times n² (products with the Gram matrix, where
# many are free), and STEP_WORK. Factorisations run about 40 times as fast as pair steps, products
# 20 times.
FACTORISATION_WORK = 1.0 / 120.0
PRODUCT_WORK = 3.0 / 20.0
STEP_WORK = 7e4


@dataclass
class SupportNewton:
    r"""Newton's method on the optimality conditions of the support vectors, from an earlier solution.

    .. math:: (Kv)_i + b + y_i\,\xi_i(\alpha_i) = y_i \quad (i \in F), \qquad \sum_i v_i = 0,

    where F has the multipliers inside their bounds, which is almost known from a nearby C. Each step
    solves the linearised equations by a Cholesky factor, clips the multipliers, and updates F:
    clipped observations leave it, those whose margin is on the wrong side join it. It is used with
    the whole Gram matrix in memory and p ≤ 2, once pair steps have cost as much as the Newton steps
    are expected to; for p > 2 the slack has an infinite derivative at α = 0.
    """

    statement: PSVM
    K: Floats
    bounds: BoundsOf
    expected_steps: float

    def __post_init__(self) -> None:
        self.useful_steps = 0
        # Cost of pair steps before which the method is not tried again.
        self.next_work = 0.0
        shape = self.statement.y.shape
        self.upper_bound = np.broadcast_to(
            np.asarray(self.statement.upper_bound(), dtype=np.float64), shape
        )

    @staticmethod
    def applies(p: float, n: int) -> bool:
        """Whether the method is of use for an exponent and a number of observations whose Gram
        matrix is in memory.
        """
        return p <= 2 and n <= LARGEST_SAMPLE

    def due(self, work: float, alpha: Floats) -> bool:
        """Whether pair steps that have cost `work` multiplications and led to `alpha` should be
        replaced by Newton steps.
        """
        if self.allowance(work, alpha) > 0:
            return False
        self.next_work = RETRY_FACTOR * max(work, self._cost_of_step(alpha))
        return True

    def last_resort(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return nothing: if these steps are due, they have been taken."""
        return []

    def allowance(self, work: float, alpha: Floats) -> float:
        """Return the multiplications of pair steps after which Newton steps from `alpha` would be
        due.
        """
        return max(self.next_work, self.expected_steps * self._cost_of_step(alpha)) - work

    def _cost_of_step(self, alpha: Floats) -> float:
        """Return the cost of a Newton step, in multiplications of pair steps."""
        free = int(((alpha > 0) & (alpha < self.upper_bound * (1.0 - AT_BOUND))).sum())
        return FACTORISATION_WORK * free**3 + PRODUCT_WORK * alpha.size**2 + STEP_WORK

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return the multipliers of the smallest gap on the way from feasible ones; none if no step
        reduces it.
        """
        statement, K, upper_bound = self.statement, self.K, self.upper_bound
        y, p = statement.y, statement.p
        c = statement.C * p * statement.weight
        r = 0.0 if p == 1 else 1.0 / (p - 1.0)
        alpha = np.where(alpha >= upper_bound * (1.0 - AT_BOUND), upper_bound, alpha)
        free = (alpha > 0) & (alpha < upper_bound)
        f = K @ (alpha * y)
        best, smallest = alpha, self._gap(alpha, f)
        useful, idle = 0, 0
        for step in range(1, NEWTON_STEPS + 1):
            rows = np.flatnonzero(free)
            if rows.size < 2 or monitor.out_of_time():
                break
            # For p ≤ 2, r is at least 1, and the derivative of the slack is finite at α = 0.
            with np.errstate(over="ignore"):
                xi = (alpha[rows] / c[rows]) ** r if r > 0 else np.zeros(rows.size)
                slope = r / c[rows] * (alpha[rows] / c[rows]) ** (r - 1.0) if r > 0 else xi
            of_free = K.take(rows, axis=0)
            residual = y[rows] * (1.0 - xi) - f[rows]
            found = _newton_step(
                of_free.take(rows, axis=1), slope, residual, float((alpha * y).sum())
            )
            if found is None:
                break
            change, b = found
            moved = alpha.copy()
            moved[rows] += y[rows] * change
            clipped = (moved <= 0.0) | (moved >= upper_bound)
            moved = np.clip(moved, 0.0, upper_bound)
            # Margins of the solution of the equations, before clipping, decide which observations
            # join F.
            solved, clipped_too = (
                np.stack([change, (moved[rows] - alpha[rows]) * y[rows]]) @ of_free
            )
            u = y * (f + solved + b)
            f = f + clipped_too
            point = statement.feasible(moved)
            gap = self._gap(point, f)
            if gap < smallest:
                idle = 0 if gap < 0.5 * smallest else idle + 1
                best, smallest, useful = point, gap, step
            else:
                idle += 1
            if smallest <= monitor.tol or idle >= IDLE_STEPS or not math.isfinite(b):
                break
            alpha = moved
            free = (
                (free & ~clipped)
                | ((alpha <= 0.0) & (u < 1.0))
                | ((alpha >= upper_bound) & (u > 1.0))
            )
        if not useful:
            return []
        self.useful_steps = useful
        return [best]

    def _gap(self, alpha: Floats, f: Floats) -> float:
        found = self.bounds(alpha, f)
        return math.inf if found is None else relative_gap(*found)


def _newton_step(
    system: Floats, slope: Floats, residual: Floats, imbalance: float
) -> tuple[Floats, float] | None:
    """Return the change of the v_i and the bias, from the residual of the equations and Σv; None if
    the system is singular.
    """
    diagonal = system.diagonal() + slope
    ones = np.ones(residual.size)
    scale = float(diagonal.mean())
    for ridge in RIDGES:
        np.fill_diagonal(system, diagonal + ridge * scale)
        factor, failed = sl.lapack.dpotrf(system.T, lower=True, clean=False)
        if failed:
            continue

        def solve(right: Floats, factor: Floats = factor) -> Floats:
            return np.asarray(sl.lapack.dpotrs(factor, right, lower=True)[0])

        change, b = bordered_solution(solve, ones, residual, -imbalance)
        if np.isfinite(change).all() and math.isfinite(b):
            return change, b
    return None


# Rank up to which the factor is used.
LARGEST_RANK = 1500


@dataclass(frozen=True)
class LowRankSettings:
    """Parameters of Newton's method on a factor of low rank.

    Parameters
    ----------
    probe : int
        Columns of the factor from which its rank is predicted.
    work_of_column : float
        Multiplications of pair steps that a column of the factor costs at least.
    worth : float
        Multiplications of pair steps in the time of one multiplication of Newton's method.
    """

    probe: int = 48
    work_of_column: float = 2e5
    worth: float = 0.2


@dataclass
class LowRankNewton:
    r"""Newton's method on a factor of low rank, :math:`K \approx LL'`, in place of pair steps that
    take long.

    On few features a smooth kernel matrix has a small numerical rank, and the number of Newton steps
    hardly depends on C or p. Once pair steps have cost as many multiplications as `probe` columns of
    the factor, these are computed, and the decay of the residual predicts the rank; the factor is
    completed when pair steps have cost `worth` times :math:`n r^2`, and at least `work_of_column` for
    each column, once in a run. Its multipliers replace those of the pair steps if their gap on exact
    scores is smaller.
    """

    statement: PSVM
    cache_size: float
    settings: LowRankSettings = field(default_factory=LowRankSettings)

    def __post_init__(self) -> None:
        n = self.statement.y.size
        room = columns_in(self.cache_size, n)
        # A factor with room for little more than the probe is not worth it.
        room = room if room >= 2 * self.settings.probe else 0
        self.largest = min(LARGEST_RANK, n if n <= 1000 else n // 2, room)
        self.threshold = self.settings.probe**2 * float(n)
        self.rank = 0
        self.newton: KernelNewton | None = None

    def due(self, work: float, alpha: Floats) -> bool:
        """Whether pair steps that have cost `work` multiplications should be replaced by this
        method.
        """
        if work < self.threshold:
            return False
        space, settings = self.statement.space, self.settings
        if self.newton is None:
            if space.is_linear or self.largest < 1:
                self.threshold = math.inf
                return False
            self.newton = KernelNewton(space, self._on_factor)
            self.newton.factor.grow(min(settings.probe, self.largest))
            rank, n = self.newton.factor.predicted_rank, alpha.size
            cost = max(settings.work_of_column, settings.worth * n * rank) * rank
            self.threshold = cost if rank <= self.largest else math.inf
        return work >= self.threshold

    def allowance(self, work: float, alpha: Floats) -> float:
        """Return infinity: rounds need no limit, since they cost much less than a factor."""
        return math.inf

    def last_resort(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers that Newton's method found on a factor of any rank that there is room
        for; none the second time.
        """
        if self.rank or self.statement.space.is_linear or self.largest < 1:
            return []
        self.newton = (
            KernelNewton(self.statement.space, self._on_factor)
            if self.newton is None
            else self.newton
        )
        return self.solve(alpha, monitor)

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers that Newton's method found; none if the rank is too large or time is
        up.
        """
        self.threshold = math.inf
        if self.newton is None or not self.newton.grow(self.largest, monitor):
            return []
        self.rank = self.newton.rank
        # A smooth loss starts at w = 0: for p > 2, Newton's method takes many steps from large
        # slacks.
        point = self.newton.solve(monitor, alpha=alpha, keep=False)
        self.newton = None
        return [point.alpha, point.expansion]

    def _on_factor(self, rows: Floats) -> LinearProblem:
        """Return the pSVM on the rows, which are centred where the intercept is free."""
        s, free = self.statement, self.statement.space.intercept == "free"
        rows = np.ascontiguousarray(rows - rows.mean(axis=0) if free else rows)
        c = s.C * s.space.data.weight
        return LinearProblem(rows, s.y, c, hinge_power(s.p), bias=free, kernel_expansion=True)
