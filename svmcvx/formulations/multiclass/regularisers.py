"""Regularisers of the weights of the classical multi-class machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.formulations.multiclass.pairwise import pair_differences
from svmcvx.rounding import U, norm_above, sum_above

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
    def above(self, W: Floats) -> float:
        """Return a number that is at least Ω(W) for λ = 1."""

    @abstractmethod
    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """State Ω(W) for λ = 1 in cvxpy."""

    def curvature(self, c: int) -> float | None:
        """Return κ where Ω(W) = κ‖W‖² for λ = 1 and columns that sum to zero, None for another regulariser."""
        return None


class SquaredNorms(Regulariser):
    r""":math:`\sum_k\|w_k\|^2`."""

    def value(self, W: Floats) -> float:
        """Σ‖w_k‖²."""
        return float((W**2).sum())

    def above(self, W: Floats) -> float:
        """Σ‖w_k‖²."""
        return norm_above(W) ** 2 * (1.0 + 4.0 * U)

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ‖w_k‖²."""
        return cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """1."""
        return 1.0


class PairwiseNorms(Regulariser):
    r""":math:`\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2`."""

    def value(self, W: Floats) -> float:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        first, second = np.triu_indices(W.shape[1], 1)
        return 0.5 * float(((W[:, first] - W[:, second]) ** 2).sum()) + 0.5 * float((W**2).sum())

    def above(self, W: Floats) -> float:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        first, second = np.triu_indices(W.shape[1], 1)
        differences = norm_above(W[:, first] - W[:, second]) * (1.0 + 2.0 * U)
        return 0.5 * (differences**2 + norm_above(W) ** 2) * (1.0 + 8.0 * U)

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        return 0.5 * cp.sum_squares(W @ pair_differences(n_classes)) + 0.5 * cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """(c + 1)/2."""
        return (c + 1) / 2


class AbsoluteSum(Regulariser):
    r""":math:`\sum_{jk}|W_{jk}|`."""

    rotations = False

    def value(self, W: Floats) -> float:
        """Σ|W|."""
        return float(np.abs(W).sum())

    def above(self, W: Floats) -> float:
        """Σ|W|."""
        return sum_above(np.abs(W).ravel())

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ|W|."""
        return cp.sum(cp.abs(W))
