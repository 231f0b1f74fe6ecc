r"""Continuation for the conic relaxation: a ridge that shrinks from stage to stage, columns added
as needed, λ for a given κ.

Each stage minimises :math:`F_\epsilon` of :mod:`svmcvx.fast.conic_loss.low_rank_newton` for a ridge
ε that is chosen from an absolute gap, the goal of the stage, and ends with certified bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls

from svmcvx.certificate import Dual, relative_gap
from svmcvx.fast.conic_loss.low_rank_newton import LowRankRelaxation, Solve
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear.problem import estimated_rounding
from svmcvx.formulations.conic_loss.primal import objective, relaxed_indicator, weighted_gram
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.heuristics.least_norm import least_norm
from svmcvx.solution import Status

__all__ = ["LIFT", "NEARLY_ONE", "Continuation", "is_hard_margin", "leading_directions"]

Floats: TypeAlias = NDArray[np.float64]

# Margins below this are too small for the point to be a multiple of the hard-margin solution.
KEPT_MARGIN = 0.5
# Relative width at which a bracket of λ counts as closed: Σ s z is discontinuous there.
CLOSED = 1e-10
# If the error of the cardinality row is more than this share of the previous one, Newton's method
# for λ ends.
SLOW = 0.5
# Largest number of directions of the covariance of a warm start that are used, and their least
# share of the eigenvalues.
MOST_KEPT, KEPT_SHARE = 8, 1e-3
# Margins within NEAR of 1 have their multipliers recomputed, if there are at most MOST_NEAR for
# each column and at most REFINED columns.
NEAR, MOST_NEAR, REFINED = 1e-4, 4, 1000
# Margins between NEARLY_ONE and 1 are raised to 1 + LIFT in a tight relaxation; rounds that
# complete the set of such rows.
NEARLY_ONE, LIFT, COMPLETIONS = 0.99, 1e-13, 5
# λ of a hard margin beyond this would overflow with the squares of slacks.
LARGEST_LAM = 1e100
# Steps of the bisection that makes a point satisfy the cardinality row, and its largest factor.
BISECTIONS, LARGEST_FACTOR = 60, 1e200
# Steps of the bisection after the time limit, and the relative excess of the factor.
LATE_BISECTIONS, EXCESS = 30, 1e-8
# The first ridge adds this to the squared slacks, on average.
FIRST_RIDGE = 0.3
# Share of the goal that the ridge may cost.
RIDGE_SHARE = 0.4
# Factor of the goal from stage to stage.
GOAL_FALL = 0.01
# The goal of the last stage, in units of the tolerance.
FINAL_SHARE = 0.5
# Relative goal at which the stages end if the tolerance has not been reached.
LOWEST_GOAL = 1e-13
# Relative goal with which a warm start begins and a sample of the observations ends.
WARM_GOAL = 1e-3
# Shares of the goal for Newton's method, for eigenvalues above 1, and for the cardinality row.
NEWTON_SHARE = 1e-3
EIGENVALUE_SHARE = 0.1
ROW_SHARE = 0.05
# Rounds of descent, new columns and new λ in one stage.
ROUNDS = 300
# Largest change of log λ in one step, and the largest for which the change of the point is
# predicted.
LARGEST_CHANGE = 2.0
PREDICTED_CHANGE = 0.3
# Stages whose goal is within this factor of the last goal compute a lower bound.
EARLY_FACTOR = 30.0
# Columns up to which earlier ones do so too where the margins may already be those of the optimum,
# or λ is not given.
CHEAP_SPECTRUM = 100
# Distances from 1 of the largest eigenvalue among which multipliers are scaled after a time limit.
INSIDE = np.geomspace(1e-6, 1.0, 25)
TINY = float(np.finfo(float).tiny)


def is_hard_margin(statement: ConicLoss) -> bool:
    """Whether the cardinality row reduces the problem to the hard margin: κ = 0, or rows of zeros
    use up its right side.
    """
    lost = float(statement.weight[statement.squared_row_norms == 0].sum())
    return bool(lost >= statement.allowance * (1.0 - estimated_rounding(statement.weight.size)))


class MinimumAtLam(NamedTuple):
    """A minimum for some λ, and its Σ s z."""

    U: Floats
    indicator_sum: float


class Continuation:
    """Stages of descent, each followed by bounds."""

    rate, cut = 0.0, False
    factor = best_factor = 1.0

    def __init__(
        self, statement: ConicLoss, problem: LowRankRelaxation, *, monitor: Monitor
    ) -> None:
        self.statement, self.problem, self.monitor = statement, problem, monitor
        self.allowance = statement.allowance
        self.fixed_lam = statement.kappa is None
        self.hard_margin = is_hard_margin(statement)
        self.best_dual: Dual = {}
        self.best_point: tuple[Floats, float] | None = None
        self.ends: list[Floats] = []

    def size(self) -> float:
        """The objective at the present point, 1 if it is 0; relative goals are multiples of it."""
        problem = self.problem
        spread = float(np.vdot(problem.U, problem.U))
        return (spread + problem.lam * problem.indicator_sum() if self.fixed_lam else spread) or 1.0

    def first_goal(self) -> float:
        """Absolute gap of the first stage, whose ridge is large enough for smooth losses."""
        problem = self.problem
        mean = float(np.mean(problem.squared_norms)) or 1.0
        goal = FIRST_RIDGE * problem.rank / (mean * RIDGE_SHARE)
        return min(goal, problem.lam * float(problem.weight.sum())) if self.fixed_lam else goal

    def run(self, goal: float) -> Status:
        """Run stages until the certified gap is at most the tolerance, a limit is reached, or the
        goal is at its lowest.
        """
        while True:
            self.stage(goal)
            last = FINAL_SHARE * self.monitor.tol * self.size()
            hurried = self.out_of_time() and self.problem.rank <= CHEAP_SPECTRUM
            lower, upper = self.bounds(early=goal > EARLY_FACTOR * last, hurried=hurried)
            status = self.monitor.report(self.problem.steps, lower, upper)
            if status is None and self.cut:
                status = self.monitor.late
            if status is not None:
                return status
            goal = max(GOAL_FALL * goal, last) if goal > last else GOAL_FALL * goal
            if not goal > LOWEST_GOAL * self.size():
                return Status.INACCURATE

    def prepare(self, goal: float, share: float = WARM_GOAL) -> None:
        """Run stages without bounds down to a share of the objective: by default to that of a warm
        start, as for a sample of the observations.
        """
        while not self._stopped():
            self.stage(goal)
            end = share * self.size()
            if goal <= end:
                return
            goal = max(GOAL_FALL * goal, end)

    def out_of_time(self) -> bool:
        """Whether the time limit has passed, or left no time for another Newton step."""
        return self.cut or self.monitor.out_of_time()

    def _stopped(self) -> bool:
        return self.out_of_time() or self.problem.steps >= self.monitor.max_iter

    def _before_each_step(self) -> Callable[[], bool]:
        """Return the function that a descent calls before each Newton step: whether the step would
        end after the time limit.
        """
        monitor, began = self.monitor, math.nan

        def too_late() -> bool:
            nonlocal began
            if monitor.deadline.end < math.inf:
                work = self.problem.y.size * float(self.problem.U.size) ** 2
                now = monitor.seconds
                self.rate = self.rate if math.isnan(began) else (now - began) / work
                began = now
                self.cut = self.cut or monitor.deadline.remaining < self.rate * work
            return self.out_of_time()

        return too_late

    def stage(self, goal: float) -> Solve | None:
        """Solve the problem with the ridge that belongs to an absolute gap of `goal`; return the
        solver of the last Newton system, if λ is given.
        """
        problem, self.ends = self.problem, []
        start = problem.U
        problem.ridge = RIDGE_SHARE * goal / problem.rank
        low, high = 0.0, math.inf
        sides: dict[bool, MinimumAtLam] = {}
        error = math.inf
        for _ in range(ROUNDS):
            problem.trim()
            descent = problem.descend(
                NEWTON_SHARE * goal, self.monitor.max_iter, self._before_each_step()
            )
            if self._stopped():
                self.ends = [start] if self.out_of_time() else []
                return None
            beyond = EIGENVALUE_SHARE * goal / max(self.size(), 0.5 * problem.alpha_sum())
            if self.hard_margin:
                top = float(problem.leading()[0][-1])
                if top <= 1.0 and self._lowest() > KEPT_MARGIN:
                    return None
                if problem.lam > LARGEST_LAM:
                    return None
                # At the hard margin α does not depend on λ, so that γ = α²/(4λ) decreases with λ.
                problem.lam *= 2.0 * max(top, 1.0)
                continue
            if problem.grow(beyond):
                continue
            if self.fixed_lam:
                return descent.solve
            here = MinimumAtLam(problem.U, problem.indicator_sum())
            if problem.lam * abs(here.indicator_sum - self.allowance) <= ROW_SHARE * goal:
                return None
            over = here.indicator_sum > self.allowance
            rival = sides.pop(not over, None)
            behind = math.inf if rival is None else problem.value(rival.U) - problem.value(here.U)
            if rival is not None and behind < -ROW_SHARE * goal:
                # Descent has not ended at the minimum for this λ; the other end of the bracket may
                # be wrong too.
                problem.U = rival.U
                low, high = (low, math.inf) if not over else (0.0, high)
                continue
            sides |= {over: here} if rival is None else {over: here, not over: rival}
            low, high = (problem.lam, high) if over else (low, problem.lam)
            if rival is not None:
                share = (self.allowance - here.indicator_sum) / (
                    rival.indicator_sum - here.indicator_sum
                )
                if share * behind <= ROW_SHARE * goal or high <= low * (1.0 + CLOSED):
                    # Both are minima for this λ, at which Σ s z is discontinuous.
                    self.ends = [here.U, rival.U]
                    problem.U = _between(here.U, rival.U, share)
                    return None
            previous, error = error, abs(here.indicator_sum / self.allowance - 1.0)
            self._change_lam(
                here, rival if error > SLOW * previous else None, low, high, descent.solve
            )
        return None

    def _lowest(self) -> float:
        """The lowest margin of a row that is not zero, at most 1."""
        return float(self.problem.margins()[0][self.problem.squared_norms > 0].min(initial=1.0))

    def _change_lam(
        self,
        here: MinimumAtLam,
        rival: MinimumAtLam | None,
        low: float,
        high: float,
        solve: Solve | None,
    ) -> None:
        """Move λ towards the root of Σ s z = allowance, by Newton's method in logarithms inside the
        bracket.
        """
        problem, missed = self.problem, here.indicator_sum
        over = missed > self.allowance
        change, rate = problem.sensitivity(solve)
        wanted = math.log(self.allowance / missed) if missed > 0 else -math.inf
        step = wanted * missed / rate if rate < 0 and missed > 0 else math.inf
        limit = LARGEST_CHANGE if over else -LARGEST_CHANGE
        step = limit if not 0 < step / limit < 1 else step
        new = problem.lam * math.exp(step)
        if rival is not None:
            new = (problem.penalty(rival.U) - problem.penalty(here.U)) / (
                missed - rival.indicator_sum
            )
        if not low < new < high:
            new = (
                math.sqrt(low * high)
                if low > 0 and high < math.inf
                else problem.lam * math.exp(limit)
            )
        self._move_lam(new, change)

    def follow(self, lam: float, solve: Solve | None) -> None:
        """Move to another given λ, with a prediction of the point by the solver of the last Newton
        system.
        """
        self._move_lam(lam, self.problem.sensitivity(solve)[0])

    def _move_lam(self, new: float, change: Floats) -> None:
        """Set λ, and move along the derivative by log λ where that is better than to stay."""
        problem = self.problem
        step, problem.lam = math.log(new / problem.lam), new
        if abs(step) <= PREDICTED_CHANGE and np.isfinite(change).all():
            predicted = problem.U + step * change
            if problem.value(predicted) < problem.value(problem.U):
                problem.U = predicted

    def move_to_best(self) -> None:
        """Move to the point of the lowest upper bound, with a dual point even if no stage has
        computed one.
        """
        self.best_dual = self.best_dual or self._dual_point(*self.problem.multipliers())
        if self.best_point is not None:
            self.problem.U, self.problem.ridge = self.best_point

    @contextmanager
    def _moved(self, U: Floats, ridge: float) -> Iterator[None]:
        """Replace the point and the ridge inside the block."""
        problem = self.problem
        here = problem.U, problem.ridge
        problem.U, problem.ridge = U, ridge
        try:
            yield
        finally:
            problem.U, problem.ridge = here

    def _hurried(self) -> Dual:
        """Return a dual point after the time limit: of the present point or, in the middle of a
        descent, of the start of the stage.
        """
        found: list[tuple[float, Dual]] = []
        for U in [self.problem.U, *(U for U in self.ends if U is not self.problem.U)]:
            with self._moved(U, self.problem.ridge):
                gamma, alpha = self.problem.multipliers()
            values, vectors = np.linalg.eigh(weighted_gram(self.problem.L, gamma))
            if self.fixed_lam:
                top = float(values[-1])
                found.append(
                    (-top, {"gamma": gamma * min(1.0, (1.0 - INSIDE[0]) / max(top, TINY))})
                )
            else:
                found.append(self._best_multiple(gamma, alpha, values, vectors))
        return max(found, key=lambda candidate: candidate[0])[1]

    def _best_multiple(
        self, gamma: Floats, alpha: Floats, values: Floats, vectors: Floats
    ) -> tuple[float, Dual]:
        """Return the best lower bound, approximately, of multiples of stationary γ and α, and the
        dual point.
        """
        problem = self.problem
        pull, curve = (
            vectors.T @ np.asarray(problem.L.T @ (problem.y * part)) for part in (alpha, gamma)
        )
        charge = problem.lam * self.allowance
        best = 0.0, 1.0, 1.0
        for inside in INSIDE:
            scale = min(1.0, 1.0 / max(float(values[-1]) * (1.0 + inside), TINY))
            weights = 1.0 / (1.0 - scale * values)
            # The bound is a concave quadratic function of the second factor.
            slope = float(alpha.sum()) + scale * float(pull @ (weights * curve))
            bend = 0.5 * float(pull @ (weights * pull)) + 2.0 * charge / scale
            share = slope / max(bend, TINY)
            least = scale * float(gamma.sum()) + scale**2 * float(curve @ (weights * curve))
            best = max(best, (0.5 * share * slope - least, scale, share))
        bound, scale, share = best
        dual = self._dual_point(scale * gamma, share * alpha)
        return bound, {**dual, "lam": dual["lam"] * (share**2 / scale)}

    def _at(self, U: Floats) -> tuple[Floats, Floats]:
        """Return γ and α of another point."""
        with self._moved(U, self.problem.ridge):
            return self.problem.multipliers()

    def _refined_at(self, U: Floats) -> tuple[Floats, Floats] | None:
        """Return the refined γ and α of another point without a ridge."""
        with self._moved(U, 0.0):
            return self._refined()

    def _refined(self) -> tuple[Floats, Floats] | None:
        """Return γ and α of the point; for margins near 1 by non-negative least squares on the
        stationarity condition.
        """
        problem = self.problem
        gamma, alpha = problem.multipliers()
        u, _ = problem.margins()
        near = np.flatnonzero(np.abs(u - 1.0) <= NEAR)
        if near.size == 0 or near.size > MOST_NEAR * problem.rank or problem.rank > REFINED:
            return None
        gamma[near] = alpha[near] = 0.0
        target = 2.0 * problem.U[:, 0] - np.asarray(
            problem.L.T @ (problem.y * (alpha - 2.0 * gamma * (1.0 - u)))
        )
        try:
            alpha[near], _ = nnls(self._signed(near).T, target)
        except RuntimeError:  # too many iterations
            return None
        gamma[near] = alpha[near] ** 2 / (4.0 * problem.lam * problem.weight[near])
        return gamma, alpha

    def _signed(self, rows: NDArray[np.intp]) -> Floats:
        """Return some rows of L times their labels, dense."""
        L = self.problem.L[rows]
        return np.asarray((L.toarray() if sp.issparse(L) else L) * self.problem.y[rows, None])

    def _tight(self) -> Floats | None:
        """Return the point of least norm whose margins are 1 where the present ones are nearly 1;
        None with a covariance.
        """
        problem = self.problem
        if not self.fixed_lam or problem.U.shape[1] > 1 or problem.rank > REFINED:
            return None
        u, _ = problem.margins()
        satisfied = u > NEARLY_ONE
        rows = np.flatnonzero(satisfied & (u < 2.0 - NEARLY_ONE))
        for _ in range(COMPLETIONS):
            if rows.size > MOST_NEAR * REFINED:
                return None
            scale = math.sqrt(float(np.mean(problem.squared_norms[rows]))) if rows.size else 1.0
            found = least_norm(self._signed(rows) / scale, None)
            if found is None:
                return None
            w = found.w / scale
            u = problem.y * np.asarray(problem.L @ w)
            missing = np.setdiff1d(np.flatnonzero(satisfied & (u < 1.0 - NEAR)), rows)
            if missing.size == 0:
                return w[:, None] * ((1.0 + LIFT) / float(u[satisfied].min(initial=1.0)))
            rows = np.union1d(rows, missing)
        return None

    def _dual_point(self, gamma: Floats, alpha: Floats) -> Dual:
        point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
        return point if self.fixed_lam else {**point, "lam": np.array(self.problem.lam)}

    def bounds(self, *, early: bool = False, hurried: bool = False) -> tuple[float, float]:
        """Return (lower, upper) of the point, and keep the dual and the primal point if they are
        the best so far.
        """
        dual: Dual = {}
        upper, lower = self._upper(), -math.inf
        point, tight = (self.problem.U, self.problem.ridge), self._tight()
        if tight is not None:
            with self._moved(tight, 0.0):
                attained = self._upper()
            if attained < upper:
                upper, point = attained, (tight, 0.0)
        sources: list[Callable[[], tuple[Floats, Floats] | None]] = []
        if hurried:
            dual = self.statement.repair(self._hurried())
            lower = self.statement.evaluate_dual(dual).lower_end
        elif not early or (
            self.problem.rank <= CHEAP_SPECTRUM and (tight is not None or not self.fixed_lam)
        ):
            sources = [
                self.problem.multipliers,
                self._refined,
                *(partial(self._at, U) for U in self.ends),
            ]
            sources += [] if tight is None else [partial(self._refined_at, tight)]
        for source in sources:
            found = source()
            if found is None:
                continue
            repaired = self.statement.repair(self._dual_point(*found))
            value = self.statement.evaluate_dual(repaired).lower_end
            if value > lower or not dual:
                dual, lower = repaired, value
            if relative_gap(lower, upper) <= self.monitor.tol:
                break
        if dual and (not self.best_dual or lower > self.monitor.lower):
            self.best_dual = dual
        if upper <= self.monitor.upper:
            self.best_point, self.best_factor = point, self.factor
        return lower, upper

    def _upper(self) -> float:
        """Return the objective with the ridge in the covariance, which is enlarged until it
        satisfies a cardinality row.
        """
        problem = self.problem
        u, v = problem.margins()
        norm = float(np.sum(problem.U[:, 0] ** 2))
        spread = float(np.sum(problem.U[:, 1:] ** 2)) + problem.ridge * problem.rank
        if self.fixed_lam:
            return float(objective(norm, spread, u, v, lam=problem.lam, weight=problem.weight))
        if self.hard_margin:
            lowest = self._lowest()
            return norm / lowest**2 if lowest > KEPT_MARGIN else math.inf

        def within_allowance(factor: float) -> bool:
            return float(problem.weight @ relaxed_indicator(u, factor * v)) <= self.allowance

        low, high = 1.0, 1.0
        while not within_allowance(high):
            low, high = high, 4.0 * high * high
            if high > LARGEST_FACTOR:
                return math.inf
        steps = LATE_BISECTIONS if self.out_of_time() else BISECTIONS
        for _ in range(steps if high > 1.0 else 0):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if within_allowance(middle) else (middle, high)
        self.factor = high * (1.0 + EXCESS)
        return norm + high * spread


def _between(one: Floats, other: Floats, share: float) -> Floats:
    """Return the convex combination, in (w, W), of two points; `share` is the second one's."""
    share = min(max(share, 0.0), 1.0)
    return np.column_stack(
        [
            (1.0 - share) * one[:, 0] + share * other[:, 0],
            math.sqrt(1.0 - share) * one[:, 1:],
            math.sqrt(share) * other[:, 1:],
            math.sqrt(share * (1.0 - share)) * (one[:, 0] - other[:, 0]),
        ]
    )


def leading_directions(V: Floats) -> Floats:
    """Return the leading directions of a covariance factor, without those that a ridge has added."""
    if V.shape[1] == 0:
        return V
    basis, sizes, _ = np.linalg.svd(V, full_matrices=False)
    leading = np.flatnonzero(sizes[:MOST_KEPT] ** 2 > KEPT_SHARE * sizes[0] ** 2)
    return np.asarray(basis[:, leading] * sizes[leading])
