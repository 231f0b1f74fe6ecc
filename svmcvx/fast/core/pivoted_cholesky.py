r"""Pivoted Cholesky factorisation of a Gram matrix by columns: :math:`K \approx FF'`, exact in the
rows of the pivots.

Each pivot is the observation with the largest diagonal entry in the residual :math:`K - FF'`. The
residual is positive semidefinite, so that its diagonal, the only part that is stored, bounds it.
FF' is the Nyström approximation on the pivots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace

__all__ = ["ROUNDING", "PartialFactor", "on_pivots", "partial_factor"]

Floats: TypeAlias = NDArray[np.float64]

# Share of the largest diagonal entry below which a residual is rounding error.
ROUNDING = 1e-13


@dataclass
class PartialFactor:
    """A factor that grows column by column."""

    column: Callable[[int], Floats]
    residual: Floats
    negligible: float = ROUNDING
    rows: Floats = field(init=False)
    pivots: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.residual = np.array(self.residual, dtype=np.float64)
        self.rows = np.empty((0, self.residual.size))
        self.scale = float(self.residual.max(initial=0.0))
        self.trace = float(self.residual.sum())

    @property
    def done(self) -> bool:
        """Whether the residual is negligible."""
        return float(self.residual.max(initial=0.0)) <= self.negligible * self.scale

    @property
    def missing(self) -> float:
        """Share of the trace of K that FF' lacks."""
        return float(self.residual.sum()) / self.trace if self.trace > 0 else 0.0

    @property
    def factor(self) -> Floats:
        """F, of shape (n, r); a column of zeros if K is zero."""
        return (
            np.ascontiguousarray(self.rows.T) if self.pivots else np.zeros((self.residual.size, 1))
        )

    def grow(self, rank: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Compute columns until there are `rank`, the residual is negligible, or `stop` returns
        True.
        """
        k = len(self.rows)
        rank = min(rank, self.residual.size)
        if k >= rank or self.done:
            return
        L = np.empty((rank, self.residual.size))
        L[:k] = self.rows
        while k < rank and not self.done and not stop():
            pivot = int(self.residual.argmax())
            row = (self.column(pivot) - L[:k, pivot] @ L[:k]) / math.sqrt(self.residual[pivot])
            # The factor is exact in the rows of earlier pivots: other values than zero are rounding
            # error there.
            row[self.pivots] = 0.0
            self.residual = np.maximum(self.residual - row**2, 0.0)
            self.residual[pivot] = 0.0
            L[k] = row
            self.pivots.append(pivot)
            k += 1
        self.rows = L[:k]

    @property
    def predicted_rank(self) -> float:
        """The rank at which the residual becomes negligible if it continues to fall at its mean
        rate.
        """
        left = float(self.residual.max(initial=0.0)) / self.scale if self.scale > 0 else 0.0
        if left <= self.negligible:
            return float(len(self.rows))
        return (
            len(self.rows) * math.log(self.negligible) / math.log(left) if left < 1.0 else math.inf
        )


def partial_factor(space: FeatureSpace, negligible: float = ROUNDING) -> PartialFactor:
    """Return an empty factor of the Gram matrix of a space, a penalised intercept included; the
    matrix need not be stored.
    """
    rows = space.row_block(np.float64)
    return PartialFactor(
        lambda i: np.asarray(rows(np.array([i]))[0], dtype=np.float64), space.diagonal(), negligible
    )


def on_pivots(F: Floats, pivots: Sequence[int] | NDArray[np.intp], w: Floats) -> Floats:
    """Return coefficients v, zero except for the pivots, whose expansion has the scores Fw: ``K[:,
    pivots]`` is ``F F[pivots]'``.
    """
    v = np.zeros(F.shape[0])
    if len(pivots):
        v[pivots] = sl.solve_triangular(F[pivots], w, lower=True, trans=1, check_finite=False)
    return v
