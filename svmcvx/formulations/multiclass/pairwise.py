r"""Differences of the weights of two classes, and what the dual problems of their norms share.

P has one column a pair k < l in lexicographic order; the columns of WP are :math:`w_k - w_l`. A
dual point has *flows* :math:`S_{kl}` from class k to class l, the multipliers of these differences,
whose divergence :math:`(\operatorname{div}S)_k = \sum_{l>k}S_{kl} - \sum_{l<k}S_{lk}` is SP'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import Bounded, exact, row_maxima, row_sums, sqrt, square
from svmcvx.certificate.rows import Ball
from svmcvx.errors import DataError
from svmcvx.formulations.multiclass.score_space import Gradient
from svmcvx.formulations.multiclass.statement import MulticlassStatement

__all__ = ["PairwiseStatement", "dual_lengths", "lengths", "pair_differences", "pairwise"]

Floats: TypeAlias = NDArray[np.float64]
R = TypeVar("R", Floats, Bounded)


def pair_differences(c: int) -> Floats:
    """Return P of shape (c, c(c − 1)/2): the columns of WP are the differences w_k − w_l, k < l."""
    first, second = np.triu_indices(c, 1)
    P = np.zeros((c, first.size))
    P[first, np.arange(first.size)] = 1.0
    P[second, np.arange(first.size)] = -1.0
    return P


def pairwise(W: R) -> R:
    """Return the differences w_k − w_l, k < l."""
    first, second = np.triu_indices(W.shape[1], 1)
    found: R = W[:, first] - W[:, second]
    return found


def lengths(V: R, norm: int) -> R:
    """Return the norm of each column: Euclidean, or the sum of absolute values for ``norm=1``."""
    found: R = sqrt(row_sums(square(V.T))) if norm == 2 else row_sums(abs(V.T))
    return found


def dual_lengths(S: R, norm: int) -> R:
    """Return the dual norm of each column: Euclidean, or the largest absolute value for ``norm=1``."""
    found: R = lengths(S, norm) if norm == 2 else row_maxima(abs(S.T))
    return found


@dataclass(frozen=True, eq=False)
class PairwiseStatement(MulticlassStatement):
    """What the statements with norms of pairwise differences share: dual points with flows between
    the classes.
    """

    p: float
    norm: int

    @cached_property
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
                f"flow of {self.name} must have one column a pair of classes: expected shape"
                f" {shape}, got {S.shape}"
            )
        return S

    def zero_dual(self) -> Dual:
        """Return multipliers and flows of zeros."""
        return {
            **super().zero_dual(),
            "flow": np.zeros((self.scores.data.X.shape[1], self.P.shape[1])),
        }

    def required_flow(self, dual: Dual) -> Floats:
        """Return S of a dual point that has to have one."""
        S = self.flow(dual)
        if S is None:
            raise DataError(
                f"the dual point of {self.name} needs the entry 'flow'; repair() makes one from"
                " alpha"
            )
        return S

    def residual(self, gradient: Gradient, S: Floats) -> Ball:
        """Return R = G − div S."""
        return gradient.W - Ball.around(exact(S) @ self.P.T)

    def least_flow(self, divergence: Floats) -> Floats:
        """Return the flows of least squares with the divergence D, of shape (d, c) with columns
        that sum to zero.
        """
        return np.asarray(divergence @ self.P / self.P.shape[0])

    def power_flow(self, W: Floats, lam: float, p: float) -> Floats:
        r"""Return a subgradient of :math:`\lambda\sum\|w_k-w_l\|^p` in the differences."""
        V = W @ self.P
        size = lengths(V, self.norm)
        if self.norm == 1:
            return np.asarray(lam * p * size ** (p - 1.0) * np.sign(V))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, lam * p * size ** (p - 1.0) * (V / size), 0.0)
