r"""The regulariser of M3SVM with p ≥ 2 as a smooth penalty, and the inverse of its second
derivatives.

In the weights these are, with :math:`p_m = e_k - e_l` and :math:`v_m = Wp_m` for the pair m = kl,

.. math:: A(D) = D\Big(\sum_m a_m p_m p_m' + 2\varepsilon I\Big) + \sum_m (p - 2)\,a_m\, \langle \hat v_m p_m', D\rangle\, \hat v_m p_m',
          \qquad a_m = \lambda p\,\|v_m\|^{p-2},\quad \hat v_m = v_m/\|v_m\|:

a matrix of the order of the classes for each feature, and a term of the rank of the pairs, which
the formula of Sherman, Morrison and Woodbury inverts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.fast.several_classes.systems.m3svm_systems import M3SVMSystem, PairNorms
from svmcvx.fast.several_classes.systems.penalties import SmoothPenalty, products
from svmcvx.formulations.multiclass.pairwise import lengths

__all__ = ["PairInverse", "PairPowers"]

Floats: TypeAlias = NDArray[np.float64]

# Shorter differences than this share of the longest count as so long in the second derivatives,
# which vanish with them.
SHORTEST = 1e-3
TINY = float(np.finfo(np.float64).tiny)


class PairInverse:
    """The inverse of the second derivatives of :class:`PairPowers` in the weights."""

    centred = False

    def __init__(self, system: M3SVMSystem, W: Floats) -> None:
        statement, self.P = system.statement, system.P
        lam, p, eps = statement.lam, statement.p, statement.eps
        V = W @ self.P
        size = lengths(V, 2)
        size = np.maximum(size, SHORTEST * float(size.max()))
        a = lam * p * size ** (p - 2.0)
        self.bias = 2.0 * eps
        self.classes = sl.inv((self.P * a) @ self.P.T + 2.0 * eps * np.eye(self.P.shape[0]))
        self.pairs = self.classes @ self.P
        self.directions = V / size
        self.triangle: Floats | None = None
        if p > 2:
            small = (self.directions.T @ self.directions) * (self.P.T @ self.pairs)
            small[np.diag_indices_from(small)] += 1.0 / ((p - 2.0) * a)
            self.triangle = sl.cholesky(small, lower=True)

    def apply(self, G: Floats) -> Floats:
        """By the formula."""
        found = np.asarray(G @ self.classes)
        if self.triangle is None:
            return found
        along = (self.directions * (found @ self.P)).sum(axis=0)
        return np.asarray(
            found - (self.directions * sl.cho_solve((self.triangle, True), along)) @ self.pairs.T
        )

    def gram(self, X: Features, position: NDArray[np.intp], Q: Floats) -> Floats:
        """Products of both factors, less those of what the pairs add."""
        matrix = products(X, position)
        matrix *= Q @ self.classes @ Q.T
        if self.triangle is not None:
            along = np.asarray(X @ self.directions)[position] * (Q @ self.pairs)
            half = sl.solve_triangular(self.triangle, along.T, lower=True)
            matrix -= half.T @ half
        return matrix


class DampedNorms:
    """Second derivatives of the regulariser with a damping of the biases."""

    def __init__(self, norms: PairNorms, damping: float, pairs: int) -> None:
        self.norms, self.damping, self.pairs = norms, damping, pairs

    def edge(self, m: int) -> Floats:
        """That of the pair, with its share of the damping."""
        matrix = self.norms.edge(m)
        matrix[-1, -1] += self.damping / self.pairs
        return matrix

    def block(self, k: int) -> Floats:
        """That of the class, damped."""
        matrix = self.norms.block(k)
        matrix[-1, -1] += self.damping
        return matrix

    def diagonal(self, k: int) -> Floats:
        """That of the class, damped."""
        diagonal = self.norms.diagonal(k)
        diagonal[-1] += self.damping
        return diagonal

    def product(self, D: Floats) -> Floats:
        """The change of the gradient with U."""
        image = self.norms.product(D)
        image[-1] += self.damping * D[-1]
        return image


class PairPowers(SmoothPenalty):
    r"""The penalty :math:`\lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2)`, p ≥
    2.
    """

    def __init__(self, system: M3SVMSystem) -> None:
        self.system = system

    def _norms(self, U: Floats) -> PairNorms:
        return PairNorms(self.system, U, 0.0, None)

    def value(self, U: Floats) -> float:
        """The regulariser."""
        return self.system.objective_value(U, 0.0)

    def gradient(self, U: Floats) -> Floats:
        """That of the norms."""
        return self._norms(U).gradient

    def slope(self, U: Floats, D: Floats) -> Callable[[float], float]:
        """By the gradient."""
        return lambda length: float((self.gradient(U + length * D) * D).sum())

    def unit(self, squares: float, weight: float) -> float:
        """The stiffness that moves a score by one."""
        return weight / max(squares, TINY)

    def powers(self, c: int) -> tuple[float, float, float]:
        """Those of the statement."""
        statement = self.system.statement
        return float(statement.lam), float(statement.p), float(statement.eps)

    def inverse(self, U: Floats) -> PairInverse | None:
        """That of the weights."""
        W = U[:-1]
        return (
            PairInverse(self.system, W)
            if self.system.statement.p == 2 or (W @ self.system.P).any()
            else None
        )

    def gap(self, U: Floats, gradient: Floats, losses: float) -> tuple[float, float]:
        """Half the square of the gradient in the metric of the inverse, and nothing."""
        W, b = gradient[:-1], gradient[-1]
        inverse = self.inverse(U)
        part = np.inf if inverse is None else 0.5 * float((W * inverse.apply(W)).sum())
        return part + float(np.abs(b).sum()), 0.0

    def curvature(self, U: Floats, gradient: Floats, damping: float) -> DampedNorms:
        """Those of the norms."""
        return DampedNorms(self._norms(U), damping, self.system.P.shape[0])
