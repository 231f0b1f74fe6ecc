"""The search for a solution of the conic relaxation: shrinking ridges, columns as they are needed, λ for a given κ."""

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

from svmcvx.certificate import Dual, accumulated_rounding
from svmcvx.fast.conic_loss.low_rank_newton import LowRank
from svmcvx.fast.core.monitor import Monitor
from svmcvx.formulations.conic_loss.primal import objective, relaxed_indicator
from svmcvx.formulations.conic_loss.sdp import ConicLoss
from svmcvx.heuristics.rounding import least_norm
from svmcvx.solution import Status

__all__ = ["LIFT", "NEARLY_ONE", "WARM_GOAL", "Search", "is_hard", "stripped"]

Floats: TypeAlias = NDArray[np.float64]

# The ridge starts where it adds this to the squared slacks, and takes this share of the gap that a stage aims at.
FIRST_RIDGE, RIDGE_SHARE = 0.3, 0.4
# From stage to stage the goal falls by this factor, to this share of the tolerance, and no lower than this.
FALL, FINAL_SHARE, LOWEST_GOAL = 0.01, 0.5, 1e-13
# A warm start begins with this relative goal, a sample of the observations ends with it.
WARM_GOAL = 1e-3
# Shares of the goal for Newton's steps, for eigenvalues above 1, and for the cardinality row.
NEWTON_SHARE, EIGENVALUE_SHARE, ROW_SHARE = 1e-3, 0.1, 0.05
# Rounds of descent, new columns and new λ in a stage; the largest change of log λ, and the largest that is predicted.
ROUNDS, LARGEST_CHANGE, PREDICTED_CHANGE = 100, 2.0, 0.3
# A hyperplane with lower margins is not that of the hard margin but for a factor.
KEPT_MARGIN = 0.5
# Relative width at which a bracket of λ is closed: the sum of the indicators jumps there.
CLOSED = 1e-10
# An error of the row that is more than this share of the one before shows that Newton's method does not find λ.
SLOW = 0.5
# Of an earlier covariance these many columns are kept at most, and none smaller than this share of the largest.
MOST_KEPT, KEPT_SHARE = 8, 1e-3
# Distance from 1 of margins whose multipliers are refined, if these are at most so many for each column, of so many.
NEAR, MOST_NEAR, REFINED = 1e-4, 4, 1000
# Margins from here to 1 are lifted to 1 in a tight relaxation, and this much beyond; rounds that complete its rows.
NEARLY_ONE, LIFT, COMPLETIONS = 0.99, 1e-13, 5
# Columns up to which each stage has a lower bound; beyond, only those whose goal is within this factor of the last.
CHEAP_SPECTRUM, EARLY = 500, 30.0
# Steps of the bisection that makes a point satisfy the cardinality row.
BISECTIONS = 60


def is_hard(statement: ConicLoss) -> bool:
    """Whether the cardinality row leaves nothing but the hard margin: κ = 0, or what it allows is lost on rows of zeros."""
    lost = float(statement.weight[statement.squared_row_norms == 0].sum())
    return lost >= statement.allowance * (1.0 - accumulated_rounding(statement.weight.size))


class End(NamedTuple):
    """A minimum for some λ, and its Σ s z."""

    U: Floats
    missed: float


class Search:
    """Stages of descent that end in bounds.

    Parameters
    ----------
    statement : ConicLoss
    problem : LowRank
        At the point to start from; its rows are those of the statement, or a sample of them.
    monitor : Monitor
    """

    def __init__(self, statement: ConicLoss, problem: LowRank, *, monitor: Monitor) -> None:
        self.statement, self.problem, self.monitor = statement, problem, monitor
        self.allowance = statement.allowance
        self.fixed = statement.kappa is None
        # Without covariance and with whatever λ makes that optimal.
        self.hard = is_hard(statement)
        self.best_dual: Dual = {}
        # Solutions for one λ with sums on either side of the allowance, where the sum jumps.
        self.ends: list[Floats] = []
        # U and the ridge of the lowest upper bound.
        self.best_point: tuple[Floats, float] | None = None

    def size(self) -> float:
        """What a relative gap is relative to: the objective at the present point, at least 1."""
        problem = self.problem
        spread = float(np.sum(problem.U**2))
        return max(1.0, spread + problem.lam * problem.missed() if self.fixed else spread)

    def first_goal(self) -> float:
        """An absolute gap to begin with, whose ridge makes the losses smooth."""
        problem = self.problem
        mean = float(np.mean(problem.squared_norms)) or 1.0
        goal = FIRST_RIDGE * problem.rank / (mean * RIDGE_SHARE)
        return min(goal, problem.lam * float(problem.weight.sum())) if self.fixed else goal

    def run(self, goal: float) -> Status:
        """Stages until the certified gap is small enough, the limits are reached, or no stage helps any more."""
        while True:
            self.stage(goal)
            last = FINAL_SHARE * self.monitor.tol * self.size()
            lower, upper = self.bounds(early=goal > EARLY * last)
            status = self.monitor.report(self.problem.steps, lower, upper)
            if status is not None:
                return status
            goal = max(FALL * goal, last) if goal > last else FALL * goal
            if not goal > LOWEST_GOAL * self.size():
                return Status.INACCURATE

    def prepare(self, goal: float) -> None:
        """Stages without bounds down to a moderate goal, as for a sample of the observations."""
        while not self._stopped():
            self.stage(goal)
            end = WARM_GOAL * self.size()
            if goal <= end:
                return
            goal = max(FALL * goal, end)

    def _stopped(self) -> bool:
        return self.monitor.out_of_time or self.problem.steps >= self.monitor.max_iter

    def stage(self, goal: float) -> None:
        """Solve the problem with the ridge that belongs to an absolute gap of `goal`."""
        problem, self.ends = self.problem, []
        problem.ridge = RIDGE_SHARE * goal / problem.rank
        low, high = 0.0, math.inf
        ends: dict[bool, End] = {}
        error = math.inf
        for _ in range(ROUNDS):
            problem.trim()
            problem.descend(NEWTON_SHARE * goal, self.monitor.max_iter, lambda: self.monitor.out_of_time)
            if self._stopped():
                return
            alpha = problem.multipliers()[1]
            beyond = EIGENVALUE_SHARE * goal / max(self.size(), 0.5 * float(alpha.sum()))
            if self.hard:
                top = float(problem.leading()[0][-1])
                if top <= 1.0 and self._lowest() > KEPT_MARGIN:
                    return
                # γ = α²/(4λ) falls as λ rises while α stays.
                problem.lam *= 2.0 * max(top, 1.0)
                continue
            if problem.grow(beyond):
                continue
            if self.fixed:
                return
            here = End(problem.U, problem.missed())
            if problem.lam * abs(here.missed - self.allowance) <= ROW_SHARE * goal:
                return
            over = here.missed > self.allowance
            rival = ends.pop(not over, None)
            behind = math.inf if rival is None else problem.value(rival.U) - problem.value(here.U)
            if rival is not None and behind < -ROW_SHARE * goal:
                # Descent has ended beside the minimum, and the bracket may rest on such a point.
                problem.U = rival.U
                low, high = (low, math.inf) if not over else (0.0, high)
                continue
            ends |= {over: here} if rival is None else {over: here, not over: rival}
            low, high = (problem.lam, high) if over else (low, problem.lam)
            if rival is not None:
                share = (self.allowance - here.missed) / (rival.missed - here.missed)
                if share * behind <= ROW_SHARE * goal or high <= low * (1.0 + CLOSED):
                    # Both are minima for this λ, where the sum jumps.
                    self.ends = [here.U, rival.U]
                    problem.U = _between(here.U, rival.U, share)
                    return
            previous, error = error, abs(here.missed / self.allowance - 1.0)
            self._change_lam(here, rival if error > SLOW * previous else None, low, high)

    def _lowest(self) -> float:
        """The lowest margin of a row that is not zero, at most 1."""
        return float(self.problem.margins()[0][self.problem.squared_norms > 0].min(initial=1.0))

    def _change_lam(self, here: End, rival: End | None, low: float, high: float) -> None:
        """Move λ towards the root of Σ s z = allowance, by Newton's method in logarithms inside the bracket.

        With a rival on the other side it is moved to where the two points cost the same.
        """
        problem, missed = self.problem, here.missed
        over = missed > self.allowance
        change, rate = problem.sensitivity()
        wanted = math.log(self.allowance / missed) if missed > 0 else -math.inf
        step = wanted * missed / rate if rate < 0 and missed > 0 else math.inf
        limit = LARGEST_CHANGE if over else -LARGEST_CHANGE
        step = limit if not 0 < step / limit < 1 else step
        new = problem.lam * math.exp(step)
        if rival is not None:
            new = float(np.sum(rival.U**2) - np.sum(here.U**2)) / (missed - rival.missed)
        if not low < new < high:
            new = math.sqrt(low * high) if low > 0 and high < math.inf else problem.lam * math.exp(limit)
        step = math.log(new / problem.lam)
        if abs(step) <= PREDICTED_CHANGE and np.isfinite(change).all():
            predicted = problem.U + step * change
            before = problem.U
            problem.lam = new
            if problem.value(predicted) < problem.value(before):
                problem.U = predicted
        problem.lam = new

    def dual(self) -> Dual:
        """γ and α of the point, and λ in the cardinality form."""
        return self._point(*self.problem.multipliers())

    @contextmanager
    def _moved(self, U: Floats, ridge: float) -> Iterator[None]:
        """Be at another point for a while."""
        problem = self.problem
        here = problem.U, problem.ridge
        problem.U, problem.ridge = U, ridge
        try:
            yield
        finally:
            problem.U, problem.ridge = here

    def _at(self, U: Floats) -> tuple[Floats, Floats]:
        """γ and α of another point."""
        with self._moved(U, self.problem.ridge):
            return self.problem.multipliers()

    def _refined_at(self, U: Floats) -> tuple[Floats, Floats] | None:
        """Refined γ and α of another point without a ridge."""
        with self._moved(U, 0.0):
            return self._refined()

    def _refined(self) -> tuple[Floats, Floats] | None:
        r"""γ and α of the point, those of margins that are nearly 1 from the condition of stationarity.

        Where λ is large, :math:`\alpha = 2\lambda(1-u)/t` has lost the digits of 1 − u. None where this does not apply.
        """
        problem = self.problem
        gamma, alpha = problem.multipliers()
        u, _ = problem.margins()
        near = np.flatnonzero(np.abs(u - 1.0) <= NEAR)
        if near.size == 0 or near.size > MOST_NEAR * problem.rank or problem.rank > REFINED:
            return None
        gamma[near] = alpha[near] = 0.0
        pull = 2.0 * problem.U[:, 0] - np.asarray(problem.L.T @ (problem.y * (alpha - 2.0 * gamma * (1.0 - u))))
        try:
            alpha[near], _ = nnls(self._signed(near).T, pull)
        except RuntimeError:  # too many iterations
            return None
        gamma[near] = alpha[near] ** 2 / (4.0 * problem.lam * problem.weight[near])
        return gamma, alpha

    def _signed(self, rows: NDArray[np.intp]) -> Floats:
        """Some rows of L times their labels, dense."""
        L = self.problem.L[rows]
        return np.asarray((L.toarray() if sp.issparse(L) else L) * self.problem.y[rows, None])

    def _tight(self) -> Floats | None:
        """The hyperplane of least norm that keeps what the point nearly keeps, if the point has no covariance.

        Where λ is large and the relaxation is tight, Newton's method ends with margins that are not quite 1.
        """
        problem = self.problem
        if not self.fixed or problem.U.shape[1] > 1 or problem.rank > REFINED:
            return None
        u, _ = problem.margins()
        kept = u > NEARLY_ONE
        rows = np.flatnonzero(kept & (u < 2.0 - NEARLY_ONE))
        for _ in range(COMPLETIONS):
            if rows.size > MOST_NEAR * REFINED:
                return None
            scale = math.sqrt(float(np.mean(problem.squared_norms[rows]))) if rows.size else 1.0
            w = least_norm(self._signed(rows) / scale)
            if w is None:
                return None
            w = w / scale
            u = problem.y * np.asarray(problem.L @ w)
            missing = np.setdiff1d(np.flatnonzero(kept & (u < 1.0 - NEAR)), rows)
            if missing.size == 0:
                return w[:, None] * ((1.0 + LIFT) / float(u[kept].min(initial=1.0)))
            rows = np.union1d(rows, missing)
        return None

    def _point(self, gamma: Floats, alpha: Floats) -> Dual:
        point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
        return point if self.fixed else {**point, "lam": np.array(self.problem.lam)}

    def bounds(self, *, early: bool = False) -> tuple[float, float]:
        """Return (lower, upper) of the point, and remember what improves on the bounds so far.

        The lower one takes all eigenvalues of a matrix of the order of the columns, twice; where these are many, it is left
        out of `early` stages.
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
        if not early or self.problem.rank <= CHEAP_SPECTRUM:
            sources = [self.problem.multipliers, self._refined, *(partial(self._at, U) for U in self.ends)]
            sources += [] if tight is None else [partial(self._refined_at, tight)]
        for source in sources:
            found = source()
            if found is None:
                continue
            repaired = self.statement.repair(self._point(*found))
            value = self.statement.evaluate_dual(repaired).below
            if value > lower or not dual:
                dual, lower = repaired, value
            if upper - lower <= self.monitor.tol * max(1.0, abs(upper)):
                break
        if dual and (not self.best_dual or lower > self.monitor.lower):
            self.best_dual = dual
        if upper <= self.monitor.upper:
            self.best_point = point
        return lower, upper

    def _upper(self) -> float:
        """Objective with the ridge as part of the covariance; in the cardinality form with a covariance that is large enough."""
        problem = self.problem
        u, v = problem.margins()
        norm = float(np.sum(problem.U[:, 0] ** 2))
        spread = float(np.sum(problem.U[:, 1:] ** 2)) + problem.ridge * problem.rank
        if self.fixed:
            return objective(norm, spread, u, v, lam=problem.lam, weight=problem.weight)
        if self.hard:
            lowest = self._lowest()
            return norm / lowest**2 if lowest > KEPT_MARGIN else math.inf

        def kept(factor: float) -> bool:
            return float(problem.weight @ relaxed_indicator(u, factor * v)) <= self.allowance

        low, high = 1.0, 1.0
        while not kept(high):
            low, high = high, 4.0 * high * high
            if high > 1e200:
                return math.inf
        for _ in range(BISECTIONS if high > 1.0 else 0):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if kept(middle) else (middle, high)
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


def stripped(V: Floats) -> Floats:
    """Return the leading directions of a covariance factor, without a ridge that is part of it."""
    if V.shape[1] == 0:
        return V
    basis, sizes, _ = np.linalg.svd(V, full_matrices=False)
    kept = np.flatnonzero(sizes[:MOST_KEPT] ** 2 > KEPT_SHARE * sizes[0] ** 2)
    return np.asarray(basis[:, kept] * sizes[kept])
