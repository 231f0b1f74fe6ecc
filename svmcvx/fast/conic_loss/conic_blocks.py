r"""The conic relaxation on rows in blocks: the continuation of :mod:`svmcvx.fast.conic_loss.continuation`, every sum one pass.

The solution for a sample of the rows, in memory, is so close that a few Newton steps over all rows are left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.fast.conic_loss import loss_passes as passes
from svmcvx.fast.conic_loss.continuation import Continuation, ContinuationSettings
from svmcvx.fast.conic_loss.low_rank_newton import LowRankNewtonSettings, LowRankRelaxation
from svmcvx.fast.core.monitor import Monitor
from svmcvx.feature_space.blocks import BlockSettings, BlockSpace, spaces
from svmcvx.formulations.conic_loss.conic_blocks import ConicInBlocks
from svmcvx.formulations.conic_loss.primal import stationary_multipliers, weighted_gram
from svmcvx.row_blocks.shards import Parts, Pieces, reads_rows

__all__ = ["BlockContinuation", "BlockRelaxation"]

Floats: TypeAlias = NDArray[np.float64]


class BlockRelaxation(LowRankRelaxation):
    """F of all blocks; systems are formed.

    Parameters
    ----------
    space : BlockSpace
    sample : LowRankRelaxation
        That of a sample of the rows, with weights that stand for all; it tells how long new columns are to be.
    settings : LowRankNewtonSettings
    """

    def __init__(self, space: BlockSpace, sample: LowRankRelaxation, settings: LowRankNewtonSettings) -> None:
        self.space, self.sample, self.settings = space, sample, settings
        self.largest_system = math.inf
        self.U, self.lam, self.ridge = sample.U, sample.lam, sample.ridge
        self.steps, self.damping = 0, settings.first_damping

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
        return float(np.sum(U**2)) + float(self._sum(_loss, U, self.lam, ridge))

    def indicator_sum(self) -> float:
        """Return Σ s z at the point, the ridge included."""
        return float(self._sum(_loss, self.U, 1.0, self.ridge))

    def derivatives(self) -> tuple[float, Floats, Floats]:
        """Return F, its gradient and its matrix of second derivatives."""
        loss, gradient, H = self._sum(_derivatives, self.U, self.lam, self.ridge)
        r, k = self.U.shape
        H = np.asarray(H)
        for a in range(k):
            place = slice(a * r, (a + 1) * r)
            H[place, place][np.diag_indices(r)] += 2.0
        return float(np.sum(self.U**2)) + float(loss), 2.0 * self.U + np.asarray(gradient), H

    def _hessian(self, bend: Floats) -> Floats:
        """The matrix of second derivatives, which is what :meth:`derivatives` gives."""
        return bend

    def _majoriser(self) -> Floats:
        """That of the sample, which stands for all rows."""
        return self.sample._majoriser()

    def alpha_sum(self) -> float:
        """Return Σα at the point."""
        return float(self._sum(_alphas, self.U, self.lam, self.ridge))

    def leading(self) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of Σ γ x x' in ascending order, and their vectors."""
        M = self._sum(_curvature, self.U, self.lam, self.ridge)
        r = self.rank
        return sl.eigh(M, subset_by_index=[r - min(self.settings.added_columns, r), r - 1], check_finite=False)  # type: ignore[no-any-return]

    def _length(self, q: Floats) -> float:
        """The best length of a column for the sample."""
        self.sample.U, self.sample.ridge = self.U, self.ridge
        return self.sample._length(q)


class BlockContinuation(Continuation):
    """Stages on all blocks, from the solution for a sample, for a given λ."""

    def __init__(
        self, statement: ConicInBlocks, problem: BlockRelaxation, *, monitor: Monitor, settings: ContinuationSettings
    ) -> None:
        self.statement, self.problem, self.monitor, self.settings = statement, problem, monitor, settings  # type: ignore[assignment]
        self.allowance, self.fixed_lam, self.hard_margin = math.inf, True, False
        self.best_dual, self.best_point, self.ends = {}, None, []

    def bounds(self, *, early: bool = False) -> tuple[float, float]:
        """Return (lower, upper) of the point, and keep the dual and the primal point if they are the best so far."""
        problem = self.problem
        upper = problem.value(problem.U) + problem.ridge * problem.rank
        dual = self.statement.repair({"U": problem.U, "ridge": np.array(problem.ridge)})
        lower = self.statement.evaluate_dual(dual).below
        if not self.best_dual or lower > self.monitor.lower:
            self.best_dual = dual
        if upper <= self.monitor.upper:
            self.best_point = (problem.U, problem.ridge)
        return lower, upper

    def points(self) -> list[tuple[Floats, Floats]]:
        """Return (w, V) of the best point with and without its ridge, the better one first."""
        problem = self.problem
        U, ridge = (problem.U, problem.ridge) if self.best_point is None else self.best_point
        w, V = U[:, 0], U[:, 1:]
        if not ridge > 0:
            return [(w, V)]
        with_ridge = (w, np.hstack([V, math.sqrt(ridge) * np.eye(problem.rank)]))
        if problem.value(U, 0.0) <= problem.value(U, ridge) + ridge * problem.rank:
            return [(w, V), with_ridge]
        return [with_ridge]


def _scored(pieces: Pieces, parts: Parts, settings: BlockSettings, U: Floats) -> Any:
    """Yield rows, their scores, and what is kept of them."""
    for space, rows in zip(spaces(pieces, parts, settings), parts["rows"], strict=True):
        if rows.y.size:
            yield space.X, np.ascontiguousarray(space.X @ U), rows


@reads_rows
def _loss(pieces: Pieces, parts: Parts, settings: BlockSettings, U: Floats, lam: float, ridge: float) -> float:
    return sum(
        float(passes.total_loss(S, rows.y, lam * rows.weight, ridge * rows.norms**2))
        for _, S, rows in _scored(pieces, parts, settings, U)
    )


@reads_rows
def _derivatives(
    pieces: Pieces, parts: Parts, settings: BlockSettings, U: Floats, lam: float, ridge: float
) -> tuple[float, Floats, Floats]:
    """Return loss, gradient and second derivatives of the losses of a shard."""
    r, k = U.shape
    total, gradient, H = 0.0, np.zeros((r, k)), np.zeros((r * k, r * k))
    for X, S, rows in _scored(pieces, parts, settings, U):
        slope, bend = np.empty_like(S), np.empty((S.shape[0], k * (k + 1) // 2))
        total += float(passes.loss_derivatives(S, rows.y, lam * rows.weight, ridge * rows.norms**2, slope, bend))
        gradient += X.T @ slope
        for position, (a, b) in enumerate(zip(*np.triu_indices(k), strict=True)):
            block = weighted_gram(X, bend[:, position])
            H[a * r : (a + 1) * r, b * r : (b + 1) * r] += block
            if a != b:
                H[b * r : (b + 1) * r, a * r : (a + 1) * r] += block
    return total, gradient, H


def _stationary(S: Floats, rows: Any, lam: float, ridge: float) -> tuple[Floats, Floats]:
    variance = np.sum(S[:, 1:] ** 2, axis=1) + ridge * rows.norms**2
    return stationary_multipliers(rows.y * S[:, 0], variance, lam * rows.weight)


@reads_rows
def _alphas(pieces: Pieces, parts: Parts, settings: BlockSettings, U: Floats, lam: float, ridge: float) -> float:
    return sum(float(_stationary(S, rows, lam, ridge)[1].sum()) for _, S, rows in _scored(pieces, parts, settings, U))


@reads_rows
def _curvature(pieces: Pieces, parts: Parts, settings: BlockSettings, U: Floats, lam: float, ridge: float) -> Floats:
    M = np.zeros((U.shape[0], U.shape[0]))
    for X, S, rows in _scored(pieces, parts, settings, U):
        M += weighted_gram(X, _stationary(S, rows, lam, ridge)[0])
    return M
