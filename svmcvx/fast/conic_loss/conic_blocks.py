r"""The conic relaxation on rows in blocks: the continuation of
:mod:`svmcvx.fast.conic_loss.continuation`, with one pass for every sum.

The solution for a sample of the rows, in memory, comes first. Rounds follow: one pass gives the
derivatives of all rows by :math:`(w, W)`, a linear function is added to the sample's problem so
that its derivatives agree with them, and it is solved again. The error falls in each round by about
the relative difference between the second derivatives of the sample and those of all rows. If it
does not fall, Newton's method continues with the second derivatives of all rows.

Source: the rounds are the method of Shamir, Srebro and Zhang (DANE, ICML 2014) for one machine that
holds a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import Dual, relative_gap
from svmcvx.fast.conic_loss import loss_passes as passes
from svmcvx.fast.conic_loss.continuation import FINAL_SHARE, GOAL_FALL, WARM_GOAL, Continuation
from svmcvx.fast.conic_loss.low_rank_newton import (
    ADDED_COLUMNS,
    FIRST_DAMPING,
    LowRankRelaxation,
    Tilt,
    derivatives_along,
    differentiated,
    second_derivatives,
)
from svmcvx.fast.core.monitor import Monitor
from svmcvx.feature_space.blocks import BlockSettings, BlockSpace, spaces
from svmcvx.formulations.conic_loss.conic_blocks import ConicInBlocks, MultiplierSums
from svmcvx.formulations.conic_loss.primal import stationary_multipliers, weighted_gram
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows
from svmcvx.solution import Status

__all__ = ["BlockContinuation", "BlockRelaxation"]

Floats: TypeAlias = NDArray[np.float64]

# If this number of rounds does not reduce the gap by this factor, they are the last ones.
PATIENCE, SLOWEST = 2, 0.7
# Relative enlargement of a covariance that satisfies the cardinality row with equality, so that
# rounding cannot violate it.
BEYOND = 1e-9
# The least eigenvalue of the penalty of a sample, 1 without the linear function.
LEAST_PENALTY = 0.2


class BlockRelaxation(LowRankRelaxation):
    """F of all blocks; systems are formed."""

    def __init__(self, space: BlockSpace, start: LowRankRelaxation) -> None:
        self.space = space
        self.largest_system = math.inf
        self.U, self.lam, self.ridge = start.U, start.lam, start.ridge
        self.steps, self.damping = 0, FIRST_DAMPING

    @property
    def rank(self) -> int:
        """Columns."""
        return self.space.d

    def _sum(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        found = self.space.shards.read(operation, None, self.space.settings, *arguments)
        if isinstance(found[0], tuple):
            return tuple(sum(part) for part in zip(*found, strict=True))
        return sum(found)

    def value(self, U: Floats, ridge: float | None = None) -> float:
        """Return F at a point."""
        ridge = self.ridge if ridge is None else ridge
        return float(np.vdot(U, U)) + float(self._sum(_loss, U, self.lam, ridge))

    def indicator_sum(self) -> float:
        """Return Σ s z at the point, the ridge included."""
        return float(self._sum(_loss, self.U, 1.0, self.ridge))

    def derivatives(self) -> tuple[float, Floats, Floats]:
        """Return F, its gradient and the matrix of second derivatives of the losses."""
        loss, gradient, H = self._sum(_derivatives, self.U, self.lam, self.ridge)
        return float(np.vdot(self.U, self.U)) + float(loss), 2.0 * self.U + np.asarray(gradient), H

    def _hessian(self, bend: Floats) -> Floats:  # type: ignore[override]
        """The matrix of second derivatives, from that of the losses."""
        H = np.array(bend)
        H[np.diag_indices(H.shape[0])] += 2.0
        return H

    @cached_property
    def _gram(self) -> Floats:
        """Σ s x x'."""
        return np.asarray(self._sum(_weighted))

    def alpha_sum(self) -> float:
        """Return Σα at the point."""
        return float(self._sum(_alphas, self.U, self.lam, self.ridge))

    def leading(self) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of Σ γ x x' in ascending order, and their vectors."""
        M = self._sum(_curvature, self.U, self.lam, self.ridge)
        r = self.rank
        return sl.eigh(M, subset_by_index=[r - min(ADDED_COLUMNS, r), r - 1], check_finite=False)  # type: ignore[no-any-return]

    def _sums_along(self, q: Floats) -> Callable[[float], tuple[float, float]]:
        """Return the function of τ, each value of which takes a pass."""
        return lambda tau: self._sum(_derivatives_along, self.U, self.lam, self.ridge, q, tau)


class BlockContinuation(Continuation):
    """Stages on all blocks, from the solution for a sample."""

    def __init__(
        self, statement: ConicInBlocks, problem: BlockRelaxation, *, monitor: Monitor
    ) -> None:
        self.statement, self.problem, self.monitor = statement, problem, monitor  # type: ignore[assignment]
        self.allowance, self.fixed_lam, self.hard_margin = (
            statement.allowance,
            statement.kappa is None,
            False,
        )
        self.best_dual, self.best_point, self.ends = {}, None, []

    def _before_each_step(self) -> Callable[[], bool]:
        """Passes over the blocks end at the time limit by themselves."""
        return self.monitor.out_of_time

    def bounds(self, *, early: bool = False, hurried: bool = False) -> tuple[float, float]:
        """Return (lower, upper) of the point, and keep the dual and the primal point if they are
        the best so far.
        """
        dual = self.statement.repair(self._dual())
        lower, upper = self.statement.evaluate_dual(dual).lower_end, self._upper()
        self._keep(dual, lower, upper)
        return lower, upper

    def _dual(self) -> Dual:
        """The dual point of the present point, before it is repaired."""
        problem = self.problem
        point: Dual = {"U": problem.U, "ridge": np.array(problem.ridge)}
        return point if self.fixed_lam else {**point, "lam": np.array(problem.lam)}

    def _keep(self, dual: Dual, lower: float, upper: float) -> None:
        if not self.best_dual or lower > self.monitor.lower:
            self.best_dual = dual
        if upper <= self.monitor.upper:
            self.best_point = (self.problem.U, self.problem.ridge)

    def _upper(self) -> float:
        """Return the objective with the ridge in the covariance, which is enlarged until it
        satisfies a cardinality row.
        """
        problem = self.problem
        if self.fixed_lam:
            return problem.value(problem.U) + problem.ridge * problem.rank
        w, V = problem.U[:, 0], with_ridge(problem.U, problem.ridge)
        larger = cast(ConicInBlocks, self.statement).enlarged(w, V)
        return math.inf if larger is None else float(w @ w) + float(np.sum(larger**2))

    def rounds(self, sampled: Continuation) -> Status | None:
        """Run rounds with the sample until the monitor says stop; None if they are too slow."""
        problem, sample = self.problem, sampled.problem
        gaps, goal = [math.inf] * PATIENCE, WARM_GOAL * sampled.size()
        while True:
            problem.U, problem.ridge, problem.lam = sample.U, sample.ridge, sample.lam
            sums, missed, lower, upper = self._estimated()
            gap = relative_gap(lower, upper)
            # With a cardinality row the upper end needs separate passes.
            known = (
                upper if self.fixed_lam else self._upper() if gap <= self.monitor.tol else math.inf
            )
            self._keep(self._dual(), lower, known)
            status = self.monitor.report(problem.steps, lower, known)
            if status is not None:
                return status
            if gap > SLOWEST * gaps[-PATIENCE] or not tilt(sample, sums):
                return None
            sampled.allowance = self.allowance + sample.indicator_sum() - missed
            # The cardinality row of the sample would be infeasible.
            if not sampled.allowance > 0.0:
                return None
            gaps.append(gap)
            goal = max(GOAL_FALL * goal, FINAL_SHARE * self.monitor.tol * abs(upper))
            sampled.stage(goal)
            problem.steps += 1

    def _estimated(self) -> tuple[MultiplierSums, float, float, float]:
        """Return the sums of the point, Σ s z and estimated bounds, from one pass."""
        problem, statement, dual = self.problem, cast(ConicInBlocks, self.statement), self._dual()
        sums = statement.sums(dual)
        lower = statement.scaled(dual)[1]
        # λ Σ s z is half of Σ α (1 − u).
        losses = 0.5 * (sums.alpha - float(sums.along @ problem.U[:, 0]))
        missed = losses / problem.lam
        spread = float(np.vdot(problem.U, problem.U)) + problem.ridge * problem.rank
        upper = spread + (
            losses if self.fixed_lam else problem.lam * max(missed - self.allowance, 0.0)
        )
        return sums, missed, lower, upper

    def points(self, *, late: bool = False) -> list[tuple[Floats, Floats]]:
        """Return (w, V) of the best points, the preferred one first."""
        problem = self.problem
        U, ridge = (problem.U, problem.ridge) if self.best_point is None else self.best_point
        w, V, ridged = U[:, 0], U[:, 1:], with_ridge(U, ridge)
        if not self.fixed_lam:
            larger = cast(ConicInBlocks, self.statement).enlarged(w, ridged)
            return [] if larger is None else [(w, larger), (w, larger * (1.0 + BEYOND))]
        if not ridge > 0:
            return [(w, V)]
        if not late and problem.value(U, 0.0) <= problem.value(U, ridge) + ridge * problem.rank:
            return [(w, V), (w, ridged)]
        return [(w, ridged)]


def with_ridge(U: Floats, ridge: float) -> Floats:
    """Return the factor of the covariance VV' + εI."""
    return np.hstack([U[:, 1:], math.sqrt(ridge) * np.eye(U.shape[0])]) if ridge > 0 else U[:, 1:]


def tilt(sample: LowRankRelaxation, sums: MultiplierSums) -> bool:
    """Give a sample the derivatives of all rows at its point; return whether its problem is then
    sufficiently convex.
    """
    gamma, alpha = sample.multipliers()
    C = weighted_gram(sample.L, gamma) - sums.matrix
    pull = np.asarray(sample.L.T @ (sample.y * (alpha - 2.0 * gamma)))
    if float(np.linalg.eigvalsh(C)[0]) < LEAST_PENALTY - 1.0:
        return False
    sample.tilt = Tilt(C, pull - (sums.along - 2.0 * sums.back))
    return True


def _scored(pieces: ShardBlocks, parts: ShardState, settings: BlockSettings, U: Floats) -> Any:
    """Yield rows, their scores, and their stored labels and weights."""
    for space, rows in zip(spaces(pieces, parts, settings), parts["rows"], strict=True):
        if rows.y.size:
            yield space.X, np.ascontiguousarray(space.X @ U), rows


@reads_rows
def _loss(
    pieces: ShardBlocks,
    parts: ShardState,
    settings: BlockSettings,
    U: Floats,
    lam: float,
    ridge: float,
) -> float:
    return sum(
        float(passes.total_loss(S, rows.y, lam * rows.weight, ridge * rows.norms**2))
        for _, S, rows in _scored(pieces, parts, settings, U)
    )


@reads_rows
def _derivatives(
    pieces: ShardBlocks,
    parts: ShardState,
    settings: BlockSettings,
    U: Floats,
    lam: float,
    ridge: float,
) -> tuple[float, Floats, Floats]:
    """Return loss, gradient and second derivatives of the losses of a shard."""
    r, k = U.shape
    total, gradient, H = 0.0, np.zeros((r, k)), np.zeros((r * k, r * k))
    for X, S, rows in _scored(pieces, parts, settings, U):
        loss, slope, bend = differentiated(S, rows.y, lam * rows.weight, ridge * rows.norms**2)
        total += loss
        gradient += X.T @ slope
        H += second_derivatives(X, bend)
    return total, gradient, H


def _stationary(S: Floats, rows: Any, lam: float, ridge: float) -> tuple[Floats, Floats]:
    variance = np.sum(S[:, 1:] ** 2, axis=1) + ridge * rows.norms**2
    return stationary_multipliers(rows.y * S[:, 0], variance, lam * rows.weight)


@reads_rows
def _alphas(
    pieces: ShardBlocks,
    parts: ShardState,
    settings: BlockSettings,
    U: Floats,
    lam: float,
    ridge: float,
) -> float:
    return sum(
        float(_stationary(S, rows, lam, ridge)[1].sum())
        for _, S, rows in _scored(pieces, parts, settings, U)
    )


@reads_rows
def _curvature(
    pieces: ShardBlocks,
    parts: ShardState,
    settings: BlockSettings,
    U: Floats,
    lam: float,
    ridge: float,
) -> Floats:
    M = np.zeros((U.shape[0], U.shape[0]))
    for X, S, rows in _scored(pieces, parts, settings, U):
        M += weighted_gram(X, _stationary(S, rows, lam, ridge)[0])
    return M


@reads_rows
def _weighted(pieces: ShardBlocks, parts: ShardState, settings: BlockSettings) -> Floats:
    return np.asarray(
        sum(weighted_gram(space.X, space.data.weight) for space in spaces(pieces, parts, settings)),
        dtype=np.float64,
    )


@reads_rows
def _derivatives_along(
    pieces: ShardBlocks,
    parts: ShardState,
    settings: BlockSettings,
    U: Floats,
    lam: float,
    ridge: float,
    q: Floats,
    tau: float,
) -> tuple[float, float]:
    fall = bend = 0.0
    for X, S, rows in _scored(pieces, parts, settings, U):
        variance = np.sum(S[:, 1:] ** 2, axis=1) + ridge * rows.norms**2
        found = derivatives_along(
            rows.y * S[:, 0], variance, np.asarray(X @ q) ** 2, lam * rows.weight, tau
        )
        fall, bend = fall + found[0], bend + found[1]
    return fall, bend
