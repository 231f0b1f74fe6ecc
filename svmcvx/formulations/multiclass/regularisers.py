"""Regularisers of the weights of the classical multi-class machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from svmcvx.certificate.bounded import square, total
from svmcvx.formulations.multiclass.pairwise import pair_differences, pairwise

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["AbsoluteSum", "PairwiseNorms", "Regulariser", "SquaredNorms"]


class Regulariser(ABC):
    """A regulariser of W with its conjugate on matrices whose columns sum to zero."""

    rotations: ClassVar[bool] = True

    @abstractmethod
    def value(self, W: Any) -> Any:
        """Return Ω(W) for λ = 1, of plain or of bounded weights."""

    @abstractmethod
    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """State Ω(W) for λ = 1 in cvxpy."""

    def curvature(self, c: int) -> float | None:
        """Return κ where Ω(W) = κ‖W‖² for λ = 1 and columns that sum to zero, None for another
        regulariser.
        """
        return None


class SquaredNorms(Regulariser):
    r""":math:`\sum_k\|w_k\|^2`."""

    def value(self, W: Any) -> Any:
        """Σ‖w_k‖²."""
        return total(square(W))

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ‖w_k‖²."""
        import cvxpy as cp

        return cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """1."""
        return 1.0


class PairwiseNorms(Regulariser):
    r""":math:`\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2`."""

    def value(self, W: Any) -> Any:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        return 0.5 * total(square(pairwise(W))) + 0.5 * total(square(W))

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        import cvxpy as cp

        return 0.5 * cp.sum_squares(W @ pair_differences(n_classes)) + 0.5 * cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """(c + 1)/2."""
        return (c + 1) / 2


class AbsoluteSum(Regulariser):
    r""":math:`\sum_{jk}|W_{jk}|`."""

    rotations = False

    def value(self, W: Any) -> Any:
        """Σ|W|."""
        return total(abs(W))

    def cvxpy_statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ|W|."""
        import cvxpy as cp

        return cp.sum(cp.abs(W))
