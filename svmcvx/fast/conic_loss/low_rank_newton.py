r"""Newton's method for the conic relaxation in low-rank form, with a ridge added to the covariance.

.. math:: F_\epsilon(U) = \|w\|^2 + \|V\|_F^2 + \lambda\sum_i s_i z_i(u_i, \|V'x_i\|^2 + \epsilon\|x_i\|^2), \qquad U = (w\; V),

is, up to the constant :math:`\epsilon r`, the relaxation restricted to covariances :math:`\succeq
\epsilon I`. It is smooth for any V, also for one without columns, and any stationary point with
:math:`\lambda_{\max}(\sum_i\gamma_i x_i x_i') \le 1` is a global minimum. Its γ and α are then
feasible for the relaxation itself, with a gap of at most :math:`\epsilon r`.

Source: [CepedaGomezHan], Theorem 2, in the low-rank form of Burer and Monteiro.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from svmcvx.fast.conic_loss import loss_passes as passes
from svmcvx.formulations.conic_loss.primal import stationary_multipliers, weighted_gram
from svmcvx.kernels import row_norms
from svmcvx.numerical import conjugate_gradients

__all__ = [
    "SYSTEMS",
    "Descent",
    "LowRankRelaxation",
    "SecondDerivatives",
    "Tilt",
    "second_derivatives",
]

Floats: TypeAlias = NDArray[np.float64]

SYSTEMS = ("auto", "direct", "conjugate")
# Relative accuracy of conjugate gradients for the sensitivity to λ.
SENSITIVITY_ACCURACY = 1e-6
# Returns the solution of a regularised Newton system for a right-hand side of the shape of U, or
# None.
Solve: TypeAlias = Callable[[Floats], Floats | None]
# Entries of a block of products of scores and rows, which stays in the cache of a core.
TILE = 2**18
# Unknowns up to which Newton's systems are formed and factored; beyond, conjugate gradients.
DIRECT_UNKNOWNS = 1500
# Regularisation of Newton's systems, in units of a majoriser of the Hessian: the initial and the
# least value.
FIRST_DAMPING = 1e-3
LEAST_DAMPING = 1e-13
# Trial steps in one iteration.
DAMPING_RAISES = 60
# Regularisation up to which the predicted decrease estimates the distance to the minimum.
TRUSTED_DAMPING = 1e-2
# Products in one Newton step by conjugate gradients.
CONJUGATE_PRODUCTS = 250
# Their relative accuracy; it is higher if the gradient is small.
CONJUGATE_ACCURACY = 1e-2
# Columns of V that are added at once.
ADDED_COLUMNS = 2
# Newton's steps for the length of a new column, and their accuracy.
LENGTH_STEPS = 30
LENGTH_ACCURACY = 1e-3
# Columns of V whose squared norm is below this share of the ridge are dropped.
DROPPED_SHARE = 1e-2
# Columns up to which the leading eigenvalues come from a dense eigensolver; beyond, an iterative
# one.
DENSE_SPECTRUM = 300


class Descent(NamedTuple):
    """How a descent ended."""

    converged: bool
    solve: Solve | None


class LowRankStep(NamedTuple):
    """A step, the decrease that the quadratic model predicts, and the solver of its system."""

    step: Floats
    predicted: float
    solve: Solve


class SecondDerivatives(NamedTuple):
    """Second derivatives of the losses by the scores: ``shift[i] I + rays[i] rays[i]'`` for a row."""

    shift: Floats
    rays: Floats


class Tilt(NamedTuple):
    r"""The linear function :math:`\langle C, W\rangle + c'w` of a point, which is added to the
    objective of a sample.
    """

    matrix: Floats
    vector: Floats


class LowRankRelaxation:
    """F with its derivatives, and the point it is at."""

    tilt: Tilt | None = None

    def __init__(
        self,
        L: Any,
        y: Floats,
        weight: Floats,
        *,
        lam: float,
        U: Floats,
        system: str = "auto",
        dense_spectrum: int = DENSE_SPECTRUM,
    ) -> None:
        self.L, self.y, self.weight = L, y, weight
        self.dense_spectrum = dense_spectrum
        self.largest_system = {"auto": DIRECT_UNKNOWNS, "direct": math.inf, "conjugate": 0}[system]
        self.squared_norms = row_norms(L) ** 2
        self.U, self.lam, self.ridge = U, lam, 0.0
        self.steps, self.damping = 0, FIRST_DAMPING

    @property
    def rank(self) -> int:
        """Columns of L."""
        return int(self.L.shape[1])

    def scores(self, U: Floats | None = None) -> Floats:
        """Return (x'w, x'V) of all rows."""
        return np.ascontiguousarray(self.L @ (self.U if U is None else U))

    def margins(self) -> tuple[Floats, Floats]:
        """Return margins u and variances v, the ridge included."""
        S = self.scores()
        return self.y * S[:, 0], np.sum(S[:, 1:] ** 2, axis=1) + self.ridge * self.squared_norms

    def multipliers(self) -> tuple[Floats, Floats]:
        """Return γ and α of the point."""
        return stationary_multipliers(*self.margins(), self.lam * self.weight)

    def alpha_sum(self) -> float:
        """Return Σα of the point."""
        return float(self.multipliers()[1].sum())

    def value(self, U: Floats, ridge: float | None = None) -> float:
        """Return F at a point, for the present ridge or another one."""
        ridge = self.ridge if ridge is None else ridge
        loss = passes.total_loss(
            self.scores(U), self.y, self.lam * self.weight, ridge * self.squared_norms
        )
        return self.penalty(U) + float(loss)

    def penalty(self, U: Floats) -> float:
        """The part of F that is not a loss."""
        penalty = float(np.vdot(U, self._penalised(U)))
        return penalty if self.tilt is None else penalty + float(self.tilt.vector @ U[:, 0])

    def _penalised(self, D: Floats) -> Floats:
        """(I + C) D."""
        return D if self.tilt is None else D + self.tilt.matrix @ D

    def indicator_sum(self) -> float:
        """Return Σ s z at the point, the ridge included."""
        return float(
            passes.total_loss(self.scores(), self.y, self.weight, self.ridge * self.squared_norms)
        )

    def derivatives(self) -> tuple[float, Floats, Any]:
        """Return F, its gradient and the second derivatives by the scores."""
        height, ridge = self.lam * self.weight, self.ridge * self.squared_norms
        loss, slope, bend = differentiated(self.scores(), self.y, height, ridge)
        return (
            self.penalty(self.U) + loss,
            self._penalty_gradient() + np.asarray(self.L.T @ slope),
            bend,
        )

    def _penalty_gradient(self) -> Floats:
        gradient = 2.0 * self._penalised(self.U)
        if self.tilt is not None:
            gradient[:, 0] += self.tilt.vector
        return gradient

    @cached_property
    def _gram(self) -> Floats:
        """Σ s x x', or its diagonal where systems are large."""
        if self.rank <= self.largest_system // 2:
            return weighted_gram(self.L, self.weight)
        if sp.issparse(self.L):
            return np.asarray(self.L.multiply(self.L).T @ self.weight)
        return np.asarray(np.einsum("ij,ij,i->j", self.L, self.L, self.weight))

    def _majoriser(self) -> Floats:
        """2 (I + λ Σ s x x'), or its diagonal where systems are large; its multiples regularise
        Newton's systems.
        """
        unit = np.eye(self.rank) if self._gram.ndim == 2 else np.ones(self.rank)
        return np.asarray(2.0 * (unit + self.lam * self._gram))

    def _hessian(self, bend: SecondDerivatives) -> Floats:
        """The matrix of second derivatives; unknowns are ordered column by column of U."""
        H = second_derivatives(self.L, bend)
        r, unit = self.rank, 2.0 * self._penalised(np.eye(self.rank))
        for a in range(0, H.shape[0], r):
            H[a : a + r, a : a + r] += unit
        return H

    def _product(self, bend: SecondDerivatives) -> Callable[[Floats], Floats]:
        """Products with the matrix of second derivatives, for matrices of the shape of U."""
        shift, rays = bend

        def product(D: Floats) -> Floats:
            S = np.asarray(self.L @ D)
            out = shift[:, None] * S + np.einsum("ib,ib->i", rays, S)[:, None] * rays
            return np.asarray(2.0 * self._penalised(D) + self.L.T @ out)

        return product

    def descend(self, goal: float, steps: int, stopped: Callable[[], bool]) -> Descent:
        """Take regularised Newton steps until one predicts a decrease of less than `goal`."""
        direct, solve = self.U.size <= self.largest_system, None
        majoriser = self._majoriser()
        value, gradient, bend = self.derivatives()
        while self.steps < steps and not stopped():
            self.steps += 1
            H = self._hessian(bend) if direct else None
            accepted = None
            for _ in range(DAMPING_RAISES):
                found = (
                    self._direct_step(H, gradient, majoriser)
                    if H is not None
                    else self._conjugate_step(bend, gradient, majoriser)
                )
                if found is None:
                    self.damping = max(4.0 * self.damping, LEAST_DAMPING)
                    continue
                step, predicted, solve = found
                new = self.value(self.U + step)
                near = goal if self.damping <= TRUSTED_DAMPING else TRUSTED_DAMPING * goal
                rounding = 2.0 * math.ulp(value)
                if predicted <= max(near, rounding):
                    if new <= value + rounding:
                        self.U = self.U + step
                    return Descent(True, solve)
                ratio = (value - new) / predicted
                if ratio > 0.9:
                    self.damping *= 0.01
                elif ratio > 0.5:
                    self.damping *= 0.2
                elif not ratio >= 0.2:
                    self.damping *= 4.0
                self.damping = max(self.damping, LEAST_DAMPING)
                if ratio > 1e-3:
                    accepted = step
                    break
            if accepted is None:
                return Descent(False, solve)
            self.U = self.U + accepted
            value, gradient, bend = self.derivatives()
        return Descent(False, solve)

    def _direct_step(self, H: Floats, gradient: Floats, majoriser: Floats) -> LowRankStep | None:
        """Return Newton's step by Cholesky's factorisation, None if the regularised matrix is not
        positive definite.
        """
        r, k = self.U.shape
        system = H.copy()
        damper = majoriser if majoriser.ndim == 2 else np.diag(majoriser)
        for a in range(k):
            system[a * r : (a + 1) * r, a * r : (a + 1) * r] += self.damping * damper
        try:
            factor = sl.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            return None

        def solve(right: Floats) -> Floats:
            return np.asarray(
                sl.cho_solve(factor, right.T.ravel(), check_finite=False).reshape(k, r).T
            )

        step = -solve(gradient)
        image = (H @ step.T.ravel()).reshape(k, r).T
        return LowRankStep(
            step, -float(np.sum(gradient * step)) - 0.5 * float(np.sum(step * image)), solve
        )

    def _conjugate_step(
        self, bend: SecondDerivatives, gradient: Floats, majoriser: Floats
    ) -> LowRankStep | None:
        """Return Newton's step by truncated conjugate gradients, preconditioned by the diagonal of
        the majoriser.
        """
        apply, diagonal = (
            self._product(bend),
            (np.diag(majoriser) if majoriser.ndim == 2 else majoriser)[:, None],
        )
        damping = self.damping

        def solve(right: Floats, accuracy: float = SENSITIVITY_ACCURACY) -> Floats | None:
            found = conjugate_gradients(
                lambda direction: apply(direction) + damping * diagonal * direction,
                right,
                lambda residual: residual / diagonal,
                accuracy=accuracy,
                limit=CONJUGATE_PRODUCTS,
            )
            return None if not found.definite and found.products == 1 else found.x

        size = math.sqrt(float(np.sum(gradient**2 / diagonal)))
        step = solve(-gradient, min(CONJUGATE_ACCURACY, size))
        if step is None:
            return None
        predicted = -float(np.sum(gradient * step)) - 0.5 * float(np.sum(step * apply(step)))
        return LowRankStep(step, predicted, solve)

    def sensitivity(self, solve: Solve | None) -> tuple[Floats, float]:
        """Return the derivatives of U and Σ s z by log λ at a stationary point, by the solver of
        its Newton system.
        """
        slope = self.derivatives()[1] - self._penalty_gradient()
        change = None if solve is None else solve(-slope)
        return (
            (np.zeros_like(slope), 0.0)
            if change is None
            else (change, float(np.sum(slope * change)) / self.lam)
        )

    def leading(self) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of Σ γ_i x_i x_i' − C in ascending order, and their
        vectors.
        """
        gamma, _ = self.multipliers()
        r = self.rank
        wanted = min(ADDED_COLUMNS, r)
        if r <= self.dense_spectrum:
            return self._dense_leading(gamma, wanted)
        operator = LinearOperator(
            (r, r), matvec=lambda q: self._curved(gamma, q.ravel()), dtype=np.float64
        )
        start = self.U[:, -1] if self.U[:, -1].any() else np.ones(r)
        try:
            values, vectors = eigsh(operator, k=wanted, which="LA", v0=start, tol=1e-10)
        except ArpackNoConvergence as found:
            values, vectors = found.eigenvalues, found.eigenvectors
        if values.size == 0:
            # Clustered eigenvalues: none was found.
            return self._dense_leading(gamma, wanted)
        order = np.argsort(values)
        return values[order], vectors[:, order]

    def _curved(self, gamma: Floats, q: Floats) -> Floats:
        """(Σ γ_i x_i x_i' − C) q."""
        return np.asarray(self.L.T @ (gamma * np.asarray(self.L @ q))) + (q - self._penalised(q))

    def _dense_leading(self, gamma: Floats, wanted: int) -> tuple[Floats, Floats]:
        r = self.rank
        M = weighted_gram(self.L, gamma)
        M = M if self.tilt is None else M - self.tilt.matrix
        values, vectors = sl.eigh(M, subset_by_index=[r - wanted, r - 1], check_finite=False)
        return values, vectors

    def grow(self, beyond: float) -> bool:
        """Add the eigenvectors of eigenvalues above 1 + `beyond` to V, at their best lengths;
        return whether there were any.
        """
        values, vectors = self.leading()
        grown = False
        for value, vector in zip(values[::-1], vectors.T[::-1], strict=True):
            length = self._length(vector) if value > 1.0 + beyond else 0.0
            if length > 0:
                self.U = np.column_stack([self.U, math.sqrt(length) * vector])
                grown = True
        return grown

    def _length(self, q: Floats) -> float:
        """Minimise F over τ ≥ 0 for the covariance VV' + τqq'. F is convex in τ; Newton's iterates
        increase monotonically.
        """
        sums = self._sums_along(q)
        tau, price = 0.0, float(q @ self._penalised(q))
        for _ in range(LENGTH_STEPS):
            fall, bend = sums(tau)
            pull = fall - price
            if tau > 0 and not pull > LENGTH_ACCURACY:
                break
            tau += max(pull, 0.0) / (2.0 * bend + np.finfo(float).tiny)
        return tau if math.isfinite(tau) else 0.0

    def _sums_along(self, q: Floats) -> Callable[[float], tuple[float, float]]:
        """Return minus the sum of the first derivatives of the losses by τ, and half the sum of the
        second derivatives.
        """
        height = self.lam * self.weight
        return partial(derivatives_along, *self.margins(), np.asarray(self.L @ q) ** 2, height)

    def trim(self) -> None:
        """Replace V by its leading singular vectors, without those whose squared singular value is
        small relative to the ridge.
        """
        V = self.U[:, 1:]
        if V.shape[1] == 0:
            return
        basis, sizes, _ = sl.svd(V, full_matrices=False, check_finite=False)
        significant = sizes**2 > DROPPED_SHARE * self.ridge
        if not significant.all():
            self.U = np.column_stack([self.U[:, 0], basis[:, significant] * sizes[significant]])


def differentiated(
    S: Floats, y: Floats, height: Floats, ridge: Floats
) -> tuple[float, Floats, SecondDerivatives]:
    """Return the sum of the losses, and their first and second derivatives by the scores."""
    slope, bend = np.empty_like(S), SecondDerivatives(np.empty(y.size), np.empty_like(S))
    return float(passes.loss_derivatives(S, y, height, ridge, slope, *bend)), slope, bend


def derivatives_along(
    u: Floats, v: Floats, a: Floats, height: Floats, tau: float
) -> tuple[float, float]:
    """Return minus the sum of the first derivatives of the losses by τ, and half the sum of the
    second derivatives.
    """
    square = np.maximum(1.0 - u, 0.0) ** 2
    inside = square > 0
    bound = (v + square + tau * a)[inside]
    terms = (height * square * a)[inside] / bound**2
    return float(np.sum(terms)), float(np.sum(terms * a[inside] / bound))


def second_derivatives(X: Any, bend: SecondDerivatives) -> Floats:
    """Return the matrix of second derivatives of the losses of rows by U, whose unknowns are
    ordered column by column.
    """
    shift, rays = bend
    r, k = int(X.shape[1]), rays.shape[1]
    H = np.zeros((r * k, r * k), order="F")
    places = [slice(a * r, (a + 1) * r) for a in range(k)]
    if sp.issparse(X) or k == 1:
        for a, b in zip(*np.triu_indices(k), strict=True):
            H[places[a], places[b]] = weighted_gram(X, rays[:, a] * rays[:, b])
    else:
        step = max(1, TILE // (r * k))
        for first in range(0, X.shape[0], step):
            part, q = X[first : first + step], rays[first : first + step]
            products = (q[:, :, None] * part[:, None, :]).reshape(part.shape[0], r * k)
            H = dsyrk(1.0, products.T, beta=1.0, c=H, overwrite_c=True)
    H = np.triu(H) + np.triu(H, 1).T
    own = weighted_gram(X, shift)
    for place in places:
        H[place, place] += own
    return H
