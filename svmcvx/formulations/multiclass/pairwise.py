r"""Differences of the weights of two classes, and what the dual problems of their norms share.

P has one column a pair k < l in lexicographic order; the columns of WP are :math:`w_k - w_l`. A dual point has *flows*
:math:`S_{kl}` from class k to class l, the multipliers of these differences, whose divergence
:math:`(\operatorname{div}S)_k = \sum_{l>k}S_{kl} - \sum_{l<k}S_{lk}` is SP'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.errors import DataError
from svmcvx.formulations.multiclass.score_space import Gradient
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.rounding import ELEMENTARY, UNDERFLOW, U, norm_above, row_norms_above

__all__ = [
    "PairwiseStatement",
    "dual_lengths",
    "dual_lengths_above",
    "lengths",
    "lengths_above",
    "pair_differences",
    "pairwise",
    "power_above",
]

Floats: TypeAlias = NDArray[np.float64]


def pair_differences(c: int) -> Floats:
    """Return P of shape (c, c(c − 1)/2): the columns of WP are the differences w_k − w_l, k < l."""
    first, second = np.triu_indices(c, 1)
    P = np.zeros((c, first.size))
    P[first, np.arange(first.size)] = 1.0
    P[second, np.arange(first.size)] = -1.0
    return P


def pairwise(W: Floats) -> Floats:
    """Return the differences w_k − w_l, k < l, each rounded once."""
    first, second = np.triu_indices(W.shape[1], 1)
    return np.asarray(W[:, first] - W[:, second])


def power_above(sizes: Floats, p: float) -> Floats:
    """Return numbers that are at least the powers of non-negative numbers."""
    if p == 1:
        return sizes
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray((sizes * sizes if p == 2 else sizes**p) * (1.0 + ELEMENTARY + 4.0 * U) + UNDERFLOW)


def lengths_above(V: Floats, norm: int) -> Floats:
    """Return numbers that are at least the norms of the columns, entries known to a relative 2u."""
    if norm == 1:
        return np.asarray(np.abs(V).sum(axis=0) * (1.0 + (V.shape[0] + 6) * U))
    return np.asarray(row_norms_above(V.T) * (1.0 + 4.0 * U))


def dual_lengths_above(S: Floats, norm: int) -> Floats:
    """Return numbers that are at least the dual norms of the columns; for ``norm=1`` the norms themselves."""
    return row_norms_above(S.T) if norm == 2 else dual_lengths(S, norm)


def lengths(V: Floats, norm: int) -> Floats:
    """Return the norm of each column."""
    return np.asarray(np.linalg.norm(V, ord=norm, axis=0))


def dual_lengths(S: Floats, norm: int) -> Floats:
    """Return the dual norm of each column: Euclidean, or the largest absolute value for ``norm=1``."""
    return np.asarray(np.linalg.norm(S, ord=2 if norm == 2 else np.inf, axis=0))


@dataclass(frozen=True, eq=False)
class PairwiseStatement(MulticlassStatement):
    """What the statements with norms of pairwise differences share: dual points with flows between the classes.

    Parameters
    ----------
    scores : ScoreSpace
    loss : ScoreLoss
    p : float
        Exponent of the norms.
    norm : 2 or 1
        Euclidean norms, or sums of absolute values.
    """

    p: float
    norm: int

    @property
    def P(self) -> Floats:
        """The matrix whose columns take the difference of two classes."""
        return pair_differences(self.scores.data.c)

    def flow(self, dual: Dual) -> Floats | None:
        """Return S of a dual point, None if it has none."""
        if "flow" not in dual:
            return None
        S = np.asarray(dual["flow"], dtype=np.float64)
        shape = (self.scores.data.X.shape[1], self.P.shape[1])
        if S.shape != shape:
            raise DataError(
                f"flow of {self.name} must have one column a pair of classes: expected shape {shape}, got {S.shape}"
            )
        return S

    def zero_dual(self) -> Dual:
        """Return the dual point of zeros."""
        data = self.scores.data
        return {"alpha": np.zeros((data.n, data.c)), "flow": np.zeros((data.X.shape[1], self.P.shape[1]))}

    def required_flow(self, dual: Dual) -> Floats:
        """Return S of a dual point that has to have one."""
        S = self.flow(dual)
        if S is None:
            raise DataError(f"the dual point of {self.name} needs the entry 'flow'; repair() makes one from alpha")
        return S

    def residual(self, gradient: Gradient, S: Floats) -> tuple[Floats, float]:
        """Return R = G − div S, and a number that is at least its Frobenius norm."""
        R = gradient.W - S @ self.P.T
        c = self.P.shape[0]
        # A difference of S over a class is a sum of c − 1 terms.
        lost = (c + 1) * U * norm_above(np.abs(S) @ np.abs(self.P.T)) + 2.0 * U * norm_above(R)
        return R, (norm_above(R) + gradient.W_rounding + lost) * (1.0 + 8.0 * U)

    def least_flow(self, divergence: Floats) -> Floats:
        """Return the flows of least squares with the divergence D, of shape (d, c) with columns that sum to zero."""
        return np.asarray(divergence @ self.P / self.P.shape[0])

    def power_flow(self, W: Floats, lam: float, p: float) -> Floats:
        r"""Return a subgradient of :math:`\lambda\sum\|w_k-w_l\|^p` in the differences."""
        V = W @ self.P
        size = lengths(V, self.norm)
        if self.norm == 1:
            return np.asarray(lam * p * size ** (p - 1.0) * np.sign(V))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, lam * p * size ** (p - 1.0) * (V / size), 0.0)
