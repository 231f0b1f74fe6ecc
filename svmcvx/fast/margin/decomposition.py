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
reconstructed before a bound is computed.

**Other methods.** Where pair steps take long, the equations of the support vectors and
:class:`LowRankNewton` propose other multipliers; the point with the smaller gap is used.

**Source.** [Sun], Algorithm 1 (pSMO), with larger working sets and second-order selection of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.rows import CachedRows, GramRows, PartialFactor, Rows, seconds_of_entry
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import LinearProblem, minimise_on_factor
from svmcvx.fast.margin.smo_passes import ascend
from svmcvx.formulations.margin import PSVM, HardMargin
from svmcvx.solution import Status
from svmcvx.system import clock
from svmcvx.system.memory import columns_in

# Lower and upper bound from multipliers and their scores; None if the dual is unbounded.
BoundsOf: TypeAlias = Callable[[Floats, Floats], tuple[float, float] | None]

# Share of the violation of all observations down to which that inside a working set is brought.
INNER_SHARE = 0.1
# Number of observations up to which steps cost next to nothing: for p = 1 a round ends at a
# thousandth of the tolerance.
FEW = 250
# The bounds are compared when the violation has fallen to this share, or after so many rounds; so
# many comparisons without progress end the method.
FALL, PATIENCE, COMPARISONS = 0.6, 12, 100


@dataclass(frozen=True)
class DecompositionSettings:
    """Observations in a working set if all used kernel rows are stored, and if they are computed
    when they are used (a fiftieth of all, if that is more); number of observations up to which all
    of them are in it; pair steps in a round, for each observation of the working set.
    """

    working_set: int = 256
    tiled_working_set: int = 1024
    whole: int = 1000
    steps: int = 40

    def size(self, n: int, *, tiled: bool) -> int:
        """Return how many of n observations a round takes."""
        least = max(self.tiled_working_set, n // 50) if tiled else self.working_set
        return n if n <= self.whole else min(n, least)


@dataclass
class Decomposition:
    statement: PSVM | HardMargin
    rows: Rows
    bounds: BoundsOf
    c: Floats
    r: float
    upper_bound: Floats
    seed: int
    alpha: Floats
    scores: Floats | None = None
    rescale: Callable[[Floats, Floats, Floats], float] | None = None
    low_rank: LowRankNewton | None = None
    settings: DecompositionSettings = field(default_factory=DecompositionSettings)

    def __post_init__(self) -> None:
        self.y = self.statement.y
        self.balanced = self.statement.space.intercept == "free"
        n = self.y.size
        self.size = min(self.settings.size(n, tiled=self.rows.tiled), self.rows.room)
        self.whole = self.size == n
        self.random = np.random.default_rng(self.seed)
        self.rounds = self.pair_steps = self.compared = 0
        self.work = 0.0
        # Seconds of an entry of a product with the kernel matrix, if there is a time limit, and of
        # the latest round; support vectors that it added.
        self._entry_seconds: float | None = None
        self._round_seconds, self._joined = 0.0, self.size
        self._fresh = np.zeros(0, dtype=np.intp)
        # The point of the lowest objective, the gap of the last one, and the share of the tolerance
        # at which bounds of updated scores lead to exact ones.
        self._lowest, self._lowest_alpha, self._lowest_gap = math.inf, self.alpha, math.inf
        self._gap, self._trust = math.inf, 1.0
        # The gap and the lower bound of the last progress, and the comparison that made it.
        self._progress, self._reached = (math.inf, -math.inf), 0
        if self.scores is not None:
            self.f, self.updated = self.scores, True
        else:
            self.exact_scores()

    @property
    def options(self) -> dict[str, Any]:
        return {
            "selection": "second-order",
            "working_set": self.size,
            "cache_mb": self.rows.nbytes / 2**20,
            "storage": str(self.rows.dtype),
            "pair_steps": self.pair_steps,
        }

    def points(self, monitor: Monitor) -> list[Floats]:
        """Return the last multipliers, and those of the lowest objective if the gap is large."""
        last = self.statement.feasible(self.alpha)
        if self._gap <= monitor.tol:
            return [last]
        lowest = self.statement.feasible(self._lowest_alpha)
        if np.array_equal(last, lowest):
            return [last]
        if self.rows.tiled or self._out_of_time(monitor):
            # Each point costs the certificate a product with the kernel matrix.
            return [last if self._gap <= self._lowest_gap else lowest]
        return [lowest, last]

    def raw_points(self) -> list[Floats]:
        """Return the points without the repair, which rounds multipliers that are tiny."""
        return [self._lowest_alpha, self.alpha]

    def exact_scores(self) -> None:
        """Evaluate the scores from the raw data, at the exactly feasible multipliers nearby."""
        self.updated = False
        if not self.alpha.any():
            self.f = np.zeros(self.y.size)
            return
        feasible = self.statement.feasible(self.alpha)
        inside = (self.alpha >= 0).all() and (self.alpha <= self.upper_bound).all()
        # An imbalance of a hundred roundings stays: its repair rounds multipliers that are tiny.
        rounding = 100.0 * math.ulp(float(np.abs(self.alpha).sum()))
        if not (inside and (abs(float(self.alpha @ self.y)) <= rounding or not self.balanced)):
            self.alpha = feasible
        self.f = np.array(self.statement.space.point(feasible * self.y).scores.value)

    def derivative(self) -> Floats:
        """Return g, the derivative of the dual along the v_i."""
        if self.r == 0:
            return np.asarray(self.y - self.f)
        return np.asarray(self.y * (1.0 - (self.alpha / self.c) ** self.r) - self.f)

    def run(self, monitor: Monitor) -> Status:
        """Ascend until a stop, an unbounded dual, or a violation of the size of rounding."""
        last_violation, last_round = math.inf, 0
        cold = not self.alpha.any()
        while True:
            if self.rescale is not None:
                factor = self.rescale(self.alpha, self.f, self.y)
                self.alpha, self.f = self.alpha * factor, self.f * factor
            g = self.derivative()
            up, low = self._candidates(g)
            violation = self._violation(up, low)
            # A violation of so many roundings of the scores counts as zero.
            floor = 32.0 * math.ulp(max(1.0, float(np.abs(self.f).max())))
            fallen = violation <= max(FALL * last_violation, floor)
            due = self.whole or fallen or self.rounds - last_round >= PATIENCE
            begun = self.rounds or not cold
            if (due and begun) or self.rounds >= monitor.max_iter or self._out_of_time(monitor):
                last_violation, last_round = violation, self.rounds
                status = self._compare(violation, floor, monitor)
                if status is not None:
                    return status
                if not self.updated:
                    g = self.derivative()
                    up, low = self._candidates(g)
            inner = INNER_SHARE * violation
            if self.whole:
                # The gap is about the violation for p = 1, and else about its square. The round
                # ends with bounds, which cost more than its last steps.
                share = 1e-3 if self.size <= FEW else 0.5
                inner = min(inner, share * monitor.tol if self.r == 0 else 0.5 * monitor.tol**0.5)
            self._round(g, up, low, max(inner, 0.25 * floor))

    def _compare(self, violation: float, floor: float, monitor: Monitor) -> Status | None:
        """Compare the bounds, of exact scores where the method may end; return why it ends."""
        self.compared += 1
        if self.updated and self.whole and violation <= monitor.tol:
            # The bounds of updated scores would lead here.
            self.exact_scores()
        found = self.bounds(self.alpha, self.f)
        hopeless = self.compared - self._reached > COMPARISONS
        exhausted = violation <= floor or hopeless
        lower, upper = found or (0.0, 0.0)
        best = relative_gap(max(lower, monitor.valid[0]), min(upper, monitor.valid[1]))
        if self.updated and (exhausted or best <= self._trust * monitor.tol):
            # Scores updated in the rows' precision prove nothing; exact ones may leave a gap.
            self.exact_scores()
            found = self.bounds(self.alpha, self.f)
            self._trust, exhausted = 0.5 * self._trust, hopeless
        elif found is not None and self._crossover_pays():
            duals = self.statement.recover(self.alpha).duals[:1]
            found = self._better(found, [self.statement.alpha(dual) for dual in duals])
        if found is not None and self.low_rank is not None and self.low_rank.due(self.work):
            found = self._better(found, self.low_rank.solve(self.alpha, monitor))
        if found is None:
            return Status.UNBOUNDED
        status = self._reported(found, monitor)
        if status is None and exhausted:
            if self.low_rank is not None and not monitor.out_of_time():
                found = self._better(found, self.low_rank.last_resort(self.alpha, monitor))
                status = self._reported(found, monitor)
            return status or Status.INACCURATE
        return status

    def _reported(self, found: tuple[float, float], monitor: Monitor) -> Status | None:
        """Take note of the bounds of the point, and return the monitor's reason to end."""
        lower, upper = found
        self._gap = gap = relative_gap(lower, upper)
        if upper <= self._lowest:
            self._lowest, self._lowest_alpha, self._lowest_gap = upper, self.alpha.copy(), gap
        before, proved = self._progress
        if gap < 0.9 * before or lower - proved > 1e-2 * abs(lower):
            self._progress, self._reached = (min(gap, before), max(lower, proved)), self.compared
        # Scores were updated in the precision of the rows.
        pad = float(np.finfo(self.rows.dtype).eps) * (abs(lower) + abs(upper)) * self.updated
        return monitor.report(self.rounds, lower - pad, upper + pad, estimated=self.updated)

    def _out_of_time(self, monitor: Monitor) -> bool:
        """Whether there is only time left for the certificate."""
        if math.isfinite(monitor.deadline.end):
            if self._entry_seconds is None:
                self._entry_seconds = seconds_of_entry(self.statement.space)
            # The certificate goes through the data as well, as their preparation has done. Another
            # round comes before it, and the exact scores of its point.
            n = self.y.size
            entries = float(min(int(np.count_nonzero(self.alpha)) + self._joined, n)) * n
            product = self._entry_seconds * entries
            monitor.reserve(monitor.build_seconds + 1.1 * (self._round_seconds + product))
        return monitor.out_of_time()

    def _candidates(self, g: Floats) -> tuple[Floats, Floats]:
        """Return g where v may be raised (−∞ elsewhere), and where it may be lowered (else ∞)."""
        raisable = np.where(self.y > 0, self.alpha < self.upper_bound, self.alpha > 0)
        lowerable = np.where(self.y < 0, self.alpha < self.upper_bound, self.alpha > 0)
        return np.where(raisable, g, -math.inf), np.where(lowerable, g, math.inf)

    def _violation(self, up: Floats, low: Floats) -> float:
        top, bottom = float(up.max()), float(low.min())
        return top - bottom if self.balanced else max(top, -bottom, 0.0)

    def _crossover_pays(self) -> bool:
        """Whether to try the support equations: at powers of two of comparisons, if cheap."""
        free = np.count_nonzero((self.alpha > 0) & (self.alpha < self.upper_bound))
        # A system runs about twenty times as fast as pair steps.
        cheap = float(free) ** 3 <= 20.0 * self.work
        return self.compared >= 16 and self.compared.bit_count() == 1 and cheap

    def _better(self, found: tuple[float, float], others: list[Floats]) -> tuple[float, float]:
        """Take the best of other multipliers if its gap is smaller; return the bounds."""
        for other in others:
            alpha = self.statement.feasible(other)
            f = self.statement.space.point(alpha * self.y).scores.value
            bounds = self.bounds(alpha, f)
            if bounds is None:
                continue
            gap = relative_gap(*bounds)
            if bounds[1] < self._lowest:
                self._lowest, self._lowest_alpha, self._lowest_gap = bounds[1], alpha, gap
            if gap < relative_gap(*found):
                self.alpha, self.f, self.updated, found = alpha, np.array(f), False, bounds
        return found

    def _working_set(self, up: Floats, low: Floats) -> NDArray[np.intp]:
        """Return the observations that violate most, with those that joined in the round before."""
        n = self.y.size
        if self.whole:
            return np.arange(n)
        previous = self._fresh[: self.size // 2 if self.size > 3 else 0]
        many = max(1, (self.size - previous.size) // 2)
        up, low = up.copy(), low.copy()
        up[previous], low[previous] = -math.inf, math.inf
        # All multipliers may be equal: the first choice is random, not by the order of the data.
        order = np.arange(n) if self.rounds else self.random.permutation(n)
        first, last = (order[np.argpartition(x[order], many - 1)[:many]] for x in (-up, low))
        self._fresh = np.union1d(first[np.isfinite(up[first])], last[np.isfinite(low[last])])
        return np.union1d(self._fresh, previous).astype(np.intp)

    def _round(self, g: Floats, up: Floats, low: Floats, tol: float) -> None:
        started = clock.now()
        chosen = self._working_set(up, low)
        Q = self.rows.square(chosen)
        if isinstance(self.rows, CachedRows) and self.whole and self.rows.dtype == Q.dtype:
            # Later rounds have all observations as well.
            self.rows = GramRows(Q)
        alpha, y = self.alpha[chosen], self.y[chosen]
        steps = self.settings.steps * chosen.size
        parts = [g[chosen], alpha, y, self.c[chosen], self.upper_bound[chosen]]
        if not self.balanced:
            # An observation without features and loss, whose multiplier may change by any number.
            Q = np.pad(Q, (0, 1))
            last = 0.0, 1e300, 1.0, math.inf, math.inf
            parts = [np.append(part, own) for part, own in zip(parts, last, strict=True)]
        taken = ascend(Q, *parts, self.r, tol, steps)
        alpha = parts[1][: chosen.size]
        self.rows.add(self.f, chosen, y * (alpha - self.alpha[chosen]))
        before = int(np.count_nonzero(self.alpha[chosen]))
        self._joined = max(int(np.count_nonzero(alpha)) - before, 0)
        self.alpha[chosen] = alpha
        self.updated = True
        self.rounds += 1
        self.pair_steps += int(taken)
        self.work += float(taken) * chosen.size
        self._round_seconds = clock.now() - started


@dataclass(frozen=True)
class LowRankSettings:
    """Columns of the factor from which its rank is predicted, and the rank up to which it is used;
    multiplications of pair steps that a column costs at least, and those in the time of one
    multiplication of Newton's method.
    """

    probe: int = 48
    largest: int = 1500
    work_of_column: float = 2e5
    worth: float = 0.2


@dataclass
class LowRankNewton:
    r"""Newton's method on a factor :math:`K \approx LL'` of low rank, in place of slow pair steps.

    Once pair steps have cost as many multiplications as `probe` columns, their residual predicts
    the rank r; once they have cost `worth` times :math:`n r^2`, and `work_of_column` for each
    column, the factor is completed, once in a run.
    """

    statement: PSVM
    cache_size: float
    settings: LowRankSettings = field(default_factory=LowRankSettings)

    def __post_init__(self) -> None:
        n = self.statement.y.size
        room = columns_in(self.cache_size, n)
        # A factor with room for little more than the probe is not worth it.
        useful = room >= 2 * self.settings.probe and not self.statement.space.is_linear
        self.largest = min(self.settings.largest, n if n <= 1000 else n // 2, room) * useful
        self.threshold = self.settings.probe**2 * float(n) if self.largest else math.inf
        self.rank = 0
        self.factor: PartialFactor | None = None

    def due(self, work: float) -> bool:
        """Whether this method should replace pair steps that have cost `work` multiplications."""
        if work >= self.threshold and self.factor is None:
            self.factor = PartialFactor(self.statement.space)
            self.factor.grow(min(self.settings.probe, self.largest))
            rank, n = self.factor.predicted_rank, self.statement.y.size
            cost = max(self.settings.work_of_column, self.settings.worth * n * rank) * rank
            self.threshold = cost if rank <= self.largest else math.inf
        return work >= self.threshold

    def last_resort(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers by Newton's method on a factor of any rank that fits, once."""
        if self.rank or not self.largest:
            return []
        self.factor = self.factor or PartialFactor(self.statement.space)
        return self.solve(alpha, monitor)

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers by Newton's method; none if the rank or the time is too large."""
        self.threshold = math.inf
        if self.factor is None:
            return []
        self.factor.grow(self.largest, monitor.out_of_time)
        if not self.factor.done:
            return []
        self.rank, rows = len(self.factor.pivots), self.factor.factor
        self.factor = None
        # A smooth loss starts at w = 0: for p > 2, large slacks take Newton's method many steps.
        point = minimise_on_factor(self._problem(rows), monitor, alpha)
        return [point.alpha, point.expansion]

    def _problem(self, rows: Floats) -> LinearProblem:
        """Return the pSVM on the rows, which are centred where the intercept is free."""
        s, free = self.statement, self.statement.space.intercept == "free"
        rows = np.ascontiguousarray(rows - rows.mean(axis=0) if free else rows)
        c = s.C * s.space.data.weight
        return LinearProblem(rows, s.y, c, hinge_power(s.p), bias=free, kernel_expansion=True)
