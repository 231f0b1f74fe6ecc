r"""The penalties of the classical machines as functions of U, with what Newton's method needs of
them.

The sum of absolute values is the limit of :math:`\lambda\sum r`, :math:`r = \sqrt{w^2+\nu^2}`, as ν
→ 0, with multipliers :math:`s\,r = \lambda w`. As for M3SVM
(:mod:`svmcvx.fast.several_classes.newton`) Newton's method for this equation in s and w has

.. math:: ds = \frac{\lambda - s\,w/r}{r}\,dw

and converges in a few steps also for tiny ν. Source: [ChanGolubMulet].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.fast.several_classes.systems import (
    PairPenalty,
    Penalty,
    ScoreSystem,
    ScoreSystemSettings,
    centred,
)
from svmcvx.formulations.multiclass.machines import M3SVM, ClassicalStatement, objective_value
from svmcvx.formulations.multiclass.statement import ScoreSpace, lengths

Floats: TypeAlias = NDArray[np.float64]

TINY = float(np.finfo(np.float64).tiny)


class PenaltyInverse(Protocol):
    """The inverse of the second derivatives of a penalty, in the weights and the biases of the
    features as they are.
    """

    bias: float
    centred: bool

    def apply(self, G: Floats) -> Floats:
        """Return the inverse times a matrix of the shape of the weights."""

    def gram(self, X: Features, position: NDArray[np.intp], Q: Floats) -> Floats:
        r"""Return the products :math:`\langle x_v q_v', A^{-1}(x_u q_u')\rangle`, with the rows
        ``X[position]`` and `Q`.
        """


def products(X: Features, position: NDArray[np.intp]) -> Floats:
    """Return the inner products of the rows ``X[position]``."""
    gram = X @ X.T
    return np.asarray((gram.toarray() if sp.issparse(gram) else gram)[np.ix_(position, position)])


class WeightPenalty(ABC):
    """A penalty of the first rows of U, the weights; the other rows are the biases."""

    smooth: bool

    @abstractmethod
    def value(self, U: Floats) -> float:
        """Return Ω."""

    @abstractmethod
    def gradient(self, U: Floats) -> Floats:
        """Return the gradient, of the smoothed penalty where Ω is not smooth."""

    @abstractmethod
    def slope(self, U: Floats, D: Floats) -> Callable[[float], float]:
        """Return the derivative of what has this gradient along ``U + length * D``, as a function
        of the length.
        """

    @abstractmethod
    def gap(self, U: Floats, gradient: Floats, losses: float) -> tuple[float, float]:
        """Return the parts of the duality gap from the gradient of the whole problem and from
        smoothing.
        """

    @abstractmethod
    def curvature(self, U: Floats, gradient: Floats, damping: float) -> Penalty:
        """Return the second derivatives, with a damping of the biases."""


class Squares:
    """Second derivatives of squared norms, with a damping of the biases."""

    def __init__(self, weights: Floats, c: int) -> None:
        self.weights, self.c = weights, c

    def edge(self, m: int) -> Floats:
        """The same diagonal matrix for all pairs."""
        return np.diag(self.weights / self.c)

    def block(self, k: int) -> Floats:
        """The same diagonal matrix for all classes."""
        return np.diag(self.weights * ((self.c - 1) / self.c))

    def diagonal(self, k: int) -> Floats:
        """The same for all classes."""
        return np.asarray(self.weights * ((self.c - 1) / self.c))

    def product(self, D: Floats) -> Floats:
        """Multiples of the rows."""
        return np.asarray(self.weights[:, None] * D)


class SmoothPenalty(WeightPenalty):
    """A penalty with second derivatives that can be inverted."""

    smooth = True

    @abstractmethod
    def unit(self, squares: float, weight: float) -> float:
        """Return a stiffness σ of envelopes that moves the scores of observations with this mean
        squared norm and weight.
        """

    @abstractmethod
    def inverse(self, U: Floats) -> PenaltyInverse | None:
        """Return the inverse of the second derivatives; None if they vanish."""

    @abstractmethod
    def powers(self, c: int) -> tuple[float, float, float]:
        r"""Return λ, p and ε with which it is :math:`\lambda\sum_{k<l}\|w_k - w_l\|^p +
        \varepsilon(\|W\|^2 + \|b\|^2)` for c classes, on rows of sum 0.
        """

    def shortened(self, alpha: Floats, scores: ScoreSpace) -> Floats:
        """Return the multipliers, of a hinge, times the share of at most 1 whose bound is best; as
        they are where that is not known.
        """
        return alpha

    @abstractmethod
    def curvature(self, U: Floats, gradient: Floats, damping: float) -> PairPenalty:
        """Return the second derivatives, with a damping of the biases."""


class SquaresInverse:
    """The inverse of a multiple ρ of the identity."""

    bias, centred = 0.0, True

    def __init__(self, rho: float) -> None:
        self.rho = rho

    def apply(self, G: Floats) -> Floats:
        """Divide."""
        return G / self.rho

    def gram(self, X: Features, position: NDArray[np.intp], Q: Floats) -> Floats:
        """Products of both factors."""
        matrix = products(X, position)
        matrix *= Q @ Q.T
        matrix /= self.rho
        return matrix


class SquaredWeights(SmoothPenalty):
    r"""The penalty :math:`\tfrac\rho2\|W\|^2`."""

    def __init__(self, rho: float, columns: int) -> None:
        self.rho, self.columns = rho, columns

    def unit(self, squares: float, weight: float) -> float:
        return min(self.rho / max(squares, TINY), weight)

    def powers(self, c: int) -> tuple[float, float, float]:
        return self.rho / (2.0 * c), 2.0, 0.0

    def inverse(self, U: Floats) -> SquaresInverse:
        return SquaresInverse(self.rho)

    def shortened(self, alpha: Floats, scores: ScoreSpace) -> Floats:
        squares = float((scores.gradient(alpha).W.value ** 2).sum())
        return alpha * min(1.0, self.rho * float(alpha.sum()) / max(squares, TINY))

    def value(self, U: Floats) -> float:
        return 0.5 * self.rho * float((U[: self.columns] ** 2).sum())

    def gradient(self, U: Floats) -> Floats:
        gradient = np.zeros_like(U)
        gradient[: self.columns] = self.rho * U[: self.columns]
        return gradient

    def slope(self, U: Floats, D: Floats) -> Callable[[float], float]:
        W, D = U[: self.columns], D[: self.columns]
        start, rise = self.rho * float((W * D).sum()), self.rho * float((D**2).sum())
        return lambda length: start + length * rise

    def gap(self, U: Floats, gradient: Floats, losses: float) -> tuple[float, float]:
        W, b = gradient[: self.columns], gradient[self.columns :]
        return 0.5 * float((W**2).sum()) / self.rho + float(np.abs(b).sum()), 0.0

    def curvature(self, U: Floats, gradient: Floats, damping: float) -> Squares:
        weights = np.full(U.shape[0], damping)
        weights[: self.columns] = self.rho
        return Squares(weights, U.shape[1])


class EntrySquares:
    """Second derivatives of a sum over entries, with a damping of common shifts."""

    def __init__(self, entries: Floats, shift: float) -> None:
        self.entries, self.shift = entries, shift

    def block(self, k: int) -> Floats:
        """Diagonal."""
        return np.diag(self.diagonal(k))

    def diagonal(self, k: int) -> Floats:
        """Of one class."""
        return np.asarray(self.entries[:, k] + self.shift / self.entries.shape[1])

    def product(self, D: Floats) -> Floats:
        """Entry by entry, and the means of the rows."""
        return np.asarray(self.entries * D + self.shift * D.mean(axis=1, keepdims=True))


class AbsoluteWeights(WeightPenalty):
    r"""The penalty :math:`\lambda\sum_{jk}|W_{jk}|`, smoothed."""

    smooth = False

    def __init__(self, lam: float, columns: int) -> None:
        self.lam, self.columns = lam, columns
        self.nu = 1.0
        self.flow: Floats | None = None

    def value(self, U: Floats) -> float:
        return self.lam * float(np.abs(U[: self.columns]).sum())

    def multipliers(self, U: Floats) -> Floats:
        """Return the derivatives of the smoothed penalty."""
        W = U[: self.columns]
        return np.asarray(self.lam * (W / np.hypot(W, self.nu)))

    def gradient(self, U: Floats) -> Floats:
        gradient = np.zeros_like(U)
        gradient[: self.columns] = self.multipliers(U)
        return gradient

    def slope(self, U: Floats, D: Floats) -> Callable[[float], float]:
        return lambda length: float((self.multipliers(U + length * D) * D[: self.columns]).sum())

    def gap(self, U: Floats, gradient: Floats, losses: float) -> tuple[float, float]:
        W, s = U[: self.columns], self.multipliers(U)
        missing = gradient[: self.columns]
        excess = float(np.abs(s - missing).max()) / self.lam - 1.0
        part = abs(float((missing * W).sum())) + float(np.abs(gradient[self.columns :]).sum())
        return part + max(excess, 0.0) * losses, self.smoothing_error(U)

    def smoothing_error(self, U: Floats) -> float:
        """Return the duality gap due to the multipliers of the smoothed penalty."""
        W = np.abs(U[: self.columns])
        root = np.hypot(W, self.nu)
        # λ|w|(1 − |w|/r), without cancellation.
        return self.lam * float((W * (self.nu / root) * (self.nu / (root + W))).sum())

    def _second(self, U: Floats) -> Floats:
        W = U[: self.columns]
        root = np.hypot(W, self.nu)
        s = self.lam * W / root if self.flow is None else self.flow
        return np.asarray(np.maximum(self.lam - s * (W / root), 0.0) / root)

    def curvature(self, U: Floats, gradient: Floats, damping: float) -> EntrySquares:
        entries = np.full(U.shape, damping)
        entries[: self.columns] = self._second(U)
        common = float(np.abs(gradient.mean(axis=1)).max())
        length = max(float(np.abs(U[: self.columns]).max()), self.nu)
        return EntrySquares(entries, common / max(length, TINY))

    def move(self, U: Floats, D: Floats, length: float, boundary_share: float) -> None:
        """Take the multipliers along with a step from U; they keep a share of their distance from
        the bounds.
        """
        exact = self.multipliers(U)
        own = exact if self.flow is None else self.flow
        full = exact + self._second(U) * D[: self.columns]
        room = (1.0 - boundary_share) * (self.lam - np.abs(own))
        moved = own + min(length, 1.0) * (full - own)
        self.flow = np.clip(moved, -np.abs(own) - room, np.abs(own) + room)


class PairNorms:
    r"""The regulariser at a point, its norms smoothed to :math:`r = \sqrt{\|v\|^2+\nu^2}`, and its
    second derivatives.
    """

    def __init__(self, system: M3SVMSystem, U: Floats, nu: float, flow: Floats | None) -> None:
        statement, self.system = system.statement, system
        lam, p, eps = statement.lam, statement.p, statement.eps
        self.V = U[:-1] @ system.P
        self.r = np.hypot(lengths(self.V, 2), nu)
        b = system.q @ U
        with np.errstate(over="ignore"):
            self.stiffness = lam * p * self.r ** (p - 2.0)
        self.flow = self.stiffness * self.V
        self.gradient = 2.0 * eps * np.outer(system.q, b)
        self.gradient[:-1] += self.flow @ system.P.T + 2.0 * eps * U[:-1]
        self.scaled_flow = self.V
        if flow is not None and p < 2:
            scaled = flow / self.stiffness
            self.scaled_flow = scaled * (self.r / np.maximum(lengths(scaled, 2), self.r))
        self.radial = np.divide(
            p - 2.0, 2.0 * self.r**2, out=np.zeros_like(self.r), where=self.r > 0
        )

    @property
    def _share(self) -> float:
        """Weight of the squares in one pair."""
        return float(2.0 * self.system.statement.eps / self.system.P.shape[0])

    def edge(self, m: int) -> Floats:
        """Return the matrix of second derivatives of the pair m, with its share of the squares."""
        q, share = self.system.q, self._share
        matrix = share * np.outer(q, q)
        outer = np.outer(self.scaled_flow[:, m], self.V[:, m])
        matrix[:-1, :-1] += (self.stiffness[m] * self.radial[m]) * (outer + outer.T)
        matrix[np.diag_indices(q.size - 1)] += self.stiffness[m] + share
        return np.asarray(matrix)

    def apply(self, dV: Floats) -> Floats:
        """Return the change of the flows with the differences."""
        along = self.scaled_flow * (self.V * dV).sum(axis=0) + self.V * (self.scaled_flow * dV).sum(
            axis=0
        )
        return np.asarray(self.stiffness * (dV + self.radial * along))

    def product(self, D: Floats) -> Floats:
        """Return the change of the gradient with U."""
        P, q, eps = self.system.P, self.system.q, self.system.statement.eps
        image = 2.0 * eps * np.outer(q, q @ D)
        image[:-1] += self.apply(D[:-1] @ P) @ P.T + 2.0 * eps * D[:-1]
        return np.asarray(image)

    def _pairs_of(self, k: int) -> list[int]:
        return [m for m, pair in enumerate(self.system.pairs) if k in pair]

    def block(self, k: int) -> Floats:
        """Return the sum of the matrices of all pairs with class k."""
        return np.asarray(sum(self.edge(m) for m in self._pairs_of(k)))

    def diagonal(self, k: int) -> Floats:
        """Return the diagonal of :meth:`block`."""
        q, pairs = self.system.q, self._pairs_of(k)
        diagonal = len(pairs) * self._share * q**2
        along = 2.0 * self.radial * self.scaled_flow * self.V
        diagonal[:-1] += (self.stiffness * (1.0 + along))[:, pairs].sum(axis=1) + len(
            pairs
        ) * self._share
        return np.asarray(diagonal)


class M3SVMSystem(ScoreSystem):
    """Data, gradients and Newton systems of M3SVM with Euclidean norms, in the unknowns U."""

    def __init__(self, statement: M3SVM, settings: ScoreSystemSettings | None = None) -> None:
        super().__init__(statement.scores, settings)
        self.statement = statement
        self.P = statement.P

    def point(self, W: Floats, b: Floats) -> Floats:
        return centred(super().point(W, b))

    def objective_value(self, U: Floats, loss: float) -> float:
        """Return P at U from the sum of its losses."""
        b = self.q @ U
        squares = float((U[:-1] ** 2).sum() + (b**2).sum())
        lam, p, eps = self.statement.lam, self.statement.p, self.statement.eps
        with np.errstate(over="ignore"):
            return float(
                objective_value(loss, lengths(U[:-1] @ self.P, 2), squares, lam=lam, p=p, eps=eps)
            )

    def full_flow(self, flow: Floats) -> Floats:
        """Return flows in terms of the features."""
        return flow if sp.issparse(self.Z) else np.asarray(self.scores.unreduced(flow))


# Shorter differences than this share of the longest count as so long in the second derivatives,
# which vanish with them.
SHORTEST = 1e-3


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
        return self.system.objective_value(U, 0.0)

    def gradient(self, U: Floats) -> Floats:
        return self._norms(U).gradient

    def slope(self, U: Floats, D: Floats) -> Callable[[float], float]:
        return lambda length: float((self.gradient(U + length * D) * D).sum())

    def unit(self, squares: float, weight: float) -> float:
        return weight / max(squares, TINY)

    def powers(self, c: int) -> tuple[float, float, float]:
        statement = self.system.statement
        return float(statement.lam), float(statement.p), float(statement.eps)

    def inverse(self, U: Floats) -> PairInverse | None:
        W = U[:-1]
        return (
            PairInverse(self.system, W)
            if self.system.statement.p == 2 or (W @ self.system.P).any()
            else None
        )

    def gap(self, U: Floats, gradient: Floats, losses: float) -> tuple[float, float]:
        W, b = gradient[:-1], gradient[-1]
        inverse = self.inverse(U)
        part = np.inf if inverse is None else 0.5 * float((W * inverse.apply(W)).sum())
        return part + float(np.abs(b).sum()), 0.0

    def curvature(self, U: Floats, gradient: Floats, damping: float) -> DampedNorms:
        return DampedNorms(self._norms(U), damping, self.system.P.shape[0])


class ClassicalSystem(ScoreSystem):
    """Data and penalty of a classical machine."""

    dense_share = 1 / 3

    def __init__(
        self, statement: ClassicalStatement, settings: ScoreSystemSettings | None = None
    ) -> None:
        super().__init__(statement.scores, settings)
        self.statement = statement
        kappa = statement.regulariser.curvature(statement.scores.data.c)
        self.penalty: SquaredWeights | AbsoluteWeights
        if kappa is None:
            self.penalty = AbsoluteWeights(statement.lam, self.columns)
        else:
            self.penalty = SquaredWeights(2.0 * statement.lam * kappa, self.columns)

    def normalised(self, A: Floats) -> Floats:
        return centred(A) if self.penalty.smooth else A
