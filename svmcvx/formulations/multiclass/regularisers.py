"""Regularisers of the weights of the classical multi-class machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.formulations.multiclass.pairwise import pair_differences

__all__ = ["AbsoluteSum", "PairwiseNorms", "Regulariser", "SquaredNorms"]

Floats: TypeAlias = NDArray[np.float64]


class Regulariser(ABC):
    """A regulariser of W with its conjugate on matrices whose columns sum to zero.

    Attributes
    ----------
    rotations : bool
        Whether it is invariant under rotations of the features.
    """

    rotations: ClassVar[bool] = True

    @abstractmethod
    def value(self, W: Floats) -> float:
        """Return Ω(W) for λ = 1."""

    @abstractmethod
    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """State Ω(W) for λ = 1 in cvxpy."""

    @abstractmethod
    def radius(self, value: float, c: int) -> float:
        """Return a bound on the Frobenius norm of W, columns summing to zero, from a bound on Ω(W) for λ = 1."""

    def curvature(self, c: int) -> float | None:
        """Return κ where Ω(W) = κ‖W‖² for λ = 1 and columns that sum to zero, None for another regulariser."""
        return None


class SquaredNorms(Regulariser):
    r""":math:`\sum_k\|w_k\|^2`."""

    def value(self, W: Floats) -> float:
        """Σ‖w_k‖²."""
        return float((W**2).sum())

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ‖w_k‖²."""
        return cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """1."""
        return 1.0

    def radius(self, value: float, c: int) -> float:
        """‖W‖² is Ω."""
        return float(np.sqrt(value))


class PairwiseNorms(Regulariser):
    r""":math:`\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2`."""

    def value(self, W: Floats) -> float:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        first, second = np.triu_indices(W.shape[1], 1)
        return 0.5 * float(((W[:, first] - W[:, second]) ** 2).sum()) + 0.5 * float((W**2).sum())

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        return 0.5 * cp.sum_squares(W @ pair_differences(n_classes)) + 0.5 * cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """(c + 1)/2."""
        return (c + 1) / 2

    def radius(self, value: float, c: int) -> float:
        """‖W‖² is at most 2Ω."""
        return float(np.sqrt(2.0 * value))


class AbsoluteSum(Regulariser):
    r""":math:`\sum_{jk}|W_{jk}|`."""

    rotations = False

    def value(self, W: Floats) -> float:
        """Σ|W|."""
        return float(np.abs(W).sum())

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ|W|."""
        return cp.sum(cp.abs(W))

    def radius(self, value: float, c: int) -> float:
        """‖W‖ is at most Ω."""
        return value
