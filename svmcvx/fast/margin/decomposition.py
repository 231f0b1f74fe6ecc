r"""pSMO by decomposition: pair steps on a working set whose kernel rows are fetched as one block.

The outer loop chooses the observations that violate optimality most, takes their rows from a bounded cache, lets
:mod:`svmcvx.fast.margin.smo` ascend in their multipliers, and adds what has changed to the scores :math:`f = Kv` of all
observations in float64. Every so often the bounds D(α) and P(w, b) of the point are compared; when they promise the gap
asked for, the scores are evaluated anew from the raw data in float64, which is what counts. Rows in float32 therefore
cost no accuracy: the loop goes on from exact scores, as in iterative refinement.

**No shrinking.** An observation outside the working sets costs one number of each update, a row of the kernel only when
it violates; rows are kept whole, so that nothing has to be reconstructed before a bound is computed. These updates and the
search for violators took a quarter of the time for n = 12 000, p = 1, C = 100, with 72% of the multipliers at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import EPS
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.row_cache import GramRows, Rows
from svmcvx.fast.margin.low_rank_newton import LowRank
from svmcvx.fast.margin.smo import add_rows, ascend, ascend_at_random, submatrix
from svmcvx.formulations.margin.hard_margin import HardMargin
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.solution import Status

__all__ = ["Bounds", "Decomposition", "settled", "working_set_size"]

Floats: TypeAlias = NDArray[np.float64]
# Lower and upper bound of the optimum from multipliers and their scores; None: the dual is unbounded.
Bounds: TypeAlias = Callable[[Floats, Floats], tuple[float, float] | None]

WORKING_SET = 512
# Up to this many observations all are in the working set.
WHOLE = 1000
# Pair steps in one round, for each observation of the working set.
STEPS = 40
# The violation inside the working set is brought down to this share of that of all observations.
INNER = 0.1
# The bounds are compared when the violation has fallen to this share, or after so many rounds.
FALL, PATIENCE = 0.6, 12
# Share of the tolerance at which maintained scores are trusted to be worth an exact evaluation.
TRUST, LEAST_TRUST = 0.9, 0.1
# A violation of so many roundings of the scores is none.
FLOOR = 16
# Give up after so many comparisons of the bounds without progress.
STALLED = 40
# Comparisons after which small problems try to end by solving the support equations.
CROSSOVERS = frozenset((10, 30, 100, 300, 1000))
CROSSOVER_SIZE = 1000


def working_set_size(n: int) -> int:
    """Return how many observations a round takes."""
    return n if n <= WHOLE else WORKING_SET


def settled(statement: PSVM | HardMargin, alpha: Floats) -> Floats:
    """Return feasible multipliers that another repair leaves as they are, as far as rounding allows."""
    for _ in range(10):
        repaired = statement.alpha(statement.repair({"alpha": alpha}))
        if np.array_equal(repaired, alpha):
            break
        alpha = repaired
    return alpha


@dataclass
class Decomposition:
    """The state of the outer loop.

    Parameters
    ----------
    statement : PSVM or HardMargin
    rows : Rows
    bounds : callable
    c, r, upper_bound
        See :mod:`svmcvx.fast.margin.smo`.
    size : int
        Working set.
    selection : "second-order" or "random"
    seed : int
        Of the first working set, and of the random rule.
    alpha : ndarray of shape (n,)
        Feasible start.
    rescale : callable, optional
        Returns the best multiple of a point, from multipliers, scores and labels.
    shortcut : LowRank, optional
        Tried once, when it says that pair steps have taken long enough.
    """

    statement: PSVM | HardMargin
    rows: Rows
    bounds: Bounds
    c: Floats
    r: float
    upper_bound: Floats
    size: int
    selection: str
    seed: int
    alpha: Floats
    rescale: Callable[[Floats, Floats, Floats], float] | None = None
    shortcut: LowRank | None = None

    def __post_init__(self) -> None:
        self.y = self.statement.y
        self.random = np.random.default_rng(self.seed)
        self.rounds = self.pair_steps = 0
        self.work = 0.0
        self._fresh = np.zeros(0, dtype=np.intp)
        self._lowest, self._lowest_alpha = math.inf, self.alpha
        self.exact_scores()

    @property
    def options(self) -> dict[str, Any]:
        """What was settled on and what it took, for the record."""
        store = self.rows.store
        return {
            "selection": self.selection,
            "working_set": self.size,
            "cache_mb": store.nbytes / 2**20,
            "storage": str(store.dtype),
            "pair_steps": self.pair_steps,
        }

    def points(self) -> list[Floats]:
        """Return the last multipliers, and those of the lowest objective, which need not fall monotonically."""
        last, lowest = (settled(self.statement, alpha) for alpha in (self.alpha, self._lowest_alpha))
        return [last] if np.array_equal(last, lowest) else [lowest, last]

    def exact_scores(self) -> None:
        """Make the multipliers exactly feasible and evaluate their scores from the raw data."""
        self.alpha = settled(self.statement, self.alpha)
        self.f = np.array(self.statement.space.product(self.alpha * self.y).scores)
        self.updated = False

    def derivative(self) -> Floats:
        """Return g, the derivative of the dual along the v_i."""
        if self.r == 0:
            return np.asarray(self.y - self.f)
        return np.asarray(self.y * (1.0 - (self.alpha / self.c) ** self.r) - self.f)

    def run(self, monitor: Monitor) -> Status:
        """Ascend until the monitor stops it, the dual proves unbounded, or rounding leaves nothing to gain."""
        trust, compared, idle = TRUST, 0, 0
        best_gap, best_lower = math.inf, -math.inf
        last_violation, last_round = math.inf, 0
        while True:
            if self.rescale is not None:
                factor = self.rescale(self.alpha, self.f, self.y)
                self.alpha, self.f = self.alpha * factor, self.f * factor
            g = self.derivative()
            up, low = self._candidates(g)
            violation = float(up.max() - low.min())
            floor = FLOOR * EPS * max(1.0, float(np.abs(self.f).max()))
            if (
                violation <= max(FALL * last_violation, floor)
                or self.rounds - last_round >= PATIENCE
                or self.size == self.y.size
                or monitor.out_of_time
                or self.rounds >= monitor.max_iter
            ):
                last_violation, last_round, compared = violation, self.rounds, compared + 1
                found = self.bounds(self.alpha, self.f)
                exhausted = violation <= floor or idle > STALLED
                if self.updated and (found is None or gap_of(*found) <= trust * monitor.tol or exhausted):
                    # Scores updated in the precision of the rows prove nothing; and others may leave more to gain.
                    self.exact_scores()
                    found = self.bounds(self.alpha, self.f)
                    trust, exhausted, idle = max(0.5 * trust, LEAST_TRUST), False, 0
                elif found is not None and compared in CROSSOVERS and self.y.size <= CROSSOVER_SIZE:
                    found = self._crossover(found)
                if found is not None and self.shortcut is not None and self.shortcut.due(self.work):
                    found = self._better(found, self.shortcut.solve(self.alpha, monitor))
                if found is None:
                    return Status.UNBOUNDED
                if found[1] <= self._lowest:
                    self._lowest, self._lowest_alpha = found[1], self.alpha.copy()
                status = monitor.report(self.rounds, *self._padded(*found))
                if status is not None:
                    return status
                if exhausted:
                    return Status.INACCURATE
                gap = gap_of(*found)
                progress = gap < 0.99 * best_gap or found[0] > best_lower + 1e-7 * max(1.0, abs(best_lower))
                best_gap, best_lower = min(best_gap, gap), max(best_lower, found[0])
                idle = 0 if progress else idle + 1
                if not self.updated:
                    g = self.derivative()
                    up, low = self._candidates(g)
            self._round(g, up, low, max(INNER * violation, 0.25 * floor))

    def _candidates(self, g: Floats) -> tuple[Floats, Floats]:
        """Return g where v may be raised (−∞ elsewhere), and where it may be lowered (∞ elsewhere)."""
        raisable = np.where(self.y > 0, self.alpha < self.upper_bound, self.alpha > 0)
        lowerable = np.where(self.y < 0, self.alpha < self.upper_bound, self.alpha > 0)
        return np.where(raisable, g, -math.inf), np.where(lowerable, g, math.inf)

    def _padded(self, lower: float, upper: float) -> tuple[float, float]:
        """Widen bounds from scores that were updated in the precision of the rows."""
        if not self.updated:
            return lower, upper
        pad = float(np.finfo(self.rows.store.dtype).eps) * (abs(lower) + abs(upper))
        return lower - pad, upper + pad

    def _crossover(self, found: tuple[float, float]) -> tuple[float, float]:
        """Go over to the solution of the support equations if that is better."""
        return self._better(
            found, [self.statement.alpha(dual) for dual in self.statement.recover(self.alpha).duals[:1]]
        )

    def _better(self, found: tuple[float, float], others: list[Floats]) -> tuple[float, float]:
        """Go over to the best of other multipliers if their gap is smaller; return the bounds of what is kept."""
        for other in others:
            alpha = settled(self.statement, other)
            f = self.statement.space.product(alpha * self.y).scores
            bounds = self.bounds(alpha, f)
            if bounds is None:
                continue
            if bounds[1] < self._lowest:
                self._lowest, self._lowest_alpha = bounds[1], alpha
            if gap_of(*bounds) < gap_of(*found):
                self.alpha, self.f, self.updated, found = alpha, np.array(f), False, bounds
        return found

    def _working_set(self, up: Floats, low: Floats) -> NDArray[np.intp]:
        """Return what violates most, beside what was fresh in the round before."""
        n = self.y.size
        if self.size >= n:
            return np.arange(n)
        if self.selection == "random":
            return np.sort(self.random.choice(n, self.size, replace=False)).astype(np.intp)
        kept = self._fresh if self._fresh.size <= self.size // 2 else self._fresh[: self.size // 2]
        many = max(1, (self.size - kept.size) // 2)
        up, low = up.copy(), low.copy()
        if self.size > 3:
            up[kept], low[kept] = -math.inf, math.inf
        else:
            kept = kept[:0]
        if not self.rounds:  # all multipliers may be equal: do not depend on the order of the data
            order = self.random.permutation(n)
            first = order[np.argsort(-up[order], kind="stable")[:many]]
            last = order[np.argsort(low[order], kind="stable")[:many]]
        else:
            first, last = np.argpartition(-up, many - 1)[:many], np.argpartition(low, many - 1)[:many]
        fresh = np.union1d(first[np.isfinite(up[first])], last[np.isfinite(low[last])])
        self._fresh = fresh
        return np.union1d(fresh, kept).astype(np.intp)

    def _round(self, g: Floats, up: Floats, low: Floats, tol: float) -> None:
        """Ascend in one working set."""
        chosen = self._working_set(up, low)
        slots = self.rows.fetch(chosen)
        store = self.rows.store
        if not isinstance(self.rows, GramRows):
            Q = submatrix(store, slots, chosen)
        else:  # symmetric, and of all observations already there
            Q = store if chosen.size == store.shape[0] else store[np.ix_(slots, chosen)]
        alpha, y = self.alpha[chosen], self.y[chosen]
        c, upper_bound = self.c[chosen], self.upper_bound[chosen]
        steps = STEPS * chosen.size
        if self.selection == "random":
            seed = int(self.random.integers(2**31))
            taken = ascend_at_random(Q, g[chosen], alpha, y, c, upper_bound, self.r, tol, steps, seed)
        else:
            taken = ascend(Q, g[chosen], alpha, y, c, upper_bound, self.r, tol, steps)
        add_rows(self.f, store, slots, y * (alpha - self.alpha[chosen]))
        self.alpha[chosen] = alpha
        self.updated = True
        self.rounds += 1
        self.pair_steps += taken
        self.work += float(taken) * chosen.size


def gap_of(lower: float, upper: float) -> float:
    """Return the relative gap of two bounds; infinite where one is unknown."""
    gap = (upper - lower) / max(1.0, abs(upper)) if math.isfinite(upper) else math.inf
    return gap if gap == gap else math.inf
