r"""Newton's method for the conic relaxation in low rank, with a ridge under the covariance.

.. math:: F_\epsilon(U) = \|w\|^2 + \|V\|_F^2 + \lambda\sum_i s_i z_i(u_i, \|V'x_i\|^2 + \epsilon\|x_i\|^2), \qquad U = (w\; V),

is the relaxation restricted to covariances of at least :math:`\epsilon I`, but for the constant :math:`\epsilon r`. It is smooth
for any V, also for one of no columns, and any stationary point with :math:`\lambda_{\max}(\sum_i\gamma_i x_i x_i') \le 1` is its
global minimum; its γ and α are then feasible for the relaxation itself and enclose its optimum to :math:`\epsilon r`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from svmcvx.certificate import EPS
from svmcvx.fast.conic_loss.loss_passes import respond, total
from svmcvx.formulations.conic_loss.primal import multipliers, weighted_gram
from svmcvx.kernels import row_norms

__all__ = ["SYSTEMS", "LowRank"]

Floats: TypeAlias = NDArray[np.float64]

SYSTEMS = ("auto", "direct", "conjugate")
# Unknowns up to which Newton's systems are formed and factored; beyond, conjugate gradients.
DIRECT = 1500
# Columns up to which all eigenvalues are computed where only the leading ones are wanted.
DENSE_SPECTRUM = 300
# Regularisation of Newton's systems, in units of a majoriser: its least value, where it starts, and how often it is raised.
LEAST, START, RAISES = 1e-13, 1e-3, 60
# Up to this regularisation the decrease that a model promises tells how far away the minimum is.
TRUSTED = 1e-2
# Steps of conjugate gradients in one of Newton's, and their relative accuracy at best.
CONJUGATE_STEPS, CONJUGATE_ACCURACY = 250, 1e-2
# Columns that are added at once, and Newton's steps for the length of one, to this accuracy.
ADDED, LENGTH_STEPS, LENGTH_ACCURACY = 2, 30, 1e-3
# Columns of V with less than this share of the ridge are dropped.
DROPPED = 1e-2


class LowRank:
    """F with its derivatives, and the point it is at.

    Parameters
    ----------
    L : ndarray or csr_array of shape (n, r)
    y : ndarray of shape (n,)
        Labels ±1.
    weight : ndarray of shape (n,)
    lam : float
        Weight of the losses.
    U : ndarray of shape (r, 1 + k)
        Where to start: w and the columns of V.
    system : "auto", "direct" or "conjugate"
        How Newton's systems are solved.
    """

    def __init__(self, L: Any, y: Floats, weight: Floats, *, lam: float, U: Floats, system: str = "auto") -> None:
        self.L, self.y, self.weight = L, y, weight
        self.largest_system = {"auto": DIRECT, "direct": math.inf, "conjugate": 0}[system]
        self.squared_norms = row_norms(L) ** 2
        self.U, self.lam, self.ridge = U, lam, 0.0
        self.steps, self.damping = 0, START
        # Solves the system of Newton's last step.
        self._solve: Callable[[Floats], Floats | None] | None = None
        self._gram: Floats | None = None

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
        return multipliers(*self.margins(), self.lam * self.weight)

    def value(self, U: Floats) -> float:
        """Return F at a point."""
        loss = total(self.scores(U), self.y, self.lam * self.weight, self.ridge * self.squared_norms)
        return float(np.sum(U**2)) + float(loss)

    def missed(self) -> float:
        """Return Σ s z at the point, ridge included."""
        return float(total(self.scores(), self.y, self.weight, self.ridge * self.squared_norms))

    def _derivatives(self) -> tuple[float, Floats, Floats]:
        """Return F, its gradient and the second derivatives by the scores."""
        S = self.scores()
        k = S.shape[1]
        slope, bend = np.empty_like(S), np.empty((S.shape[0], k * (k + 1) // 2))
        loss = respond(S, self.y, self.lam * self.weight, self.ridge * self.squared_norms, slope, bend)
        return float(np.sum(self.U**2)) + loss, 2.0 * self.U + np.asarray(self.L.T @ slope), bend

    def _majoriser(self) -> Floats:
        """2 (I + λ Σ s x x'), or its diagonal where systems are large: what Newton's systems are regularised with."""
        if self._gram is None:
            if self.rank <= self.largest_system // 2:
                self._gram = weighted_gram(self.L, self.weight)
            elif sp.issparse(self.L):
                self._gram = np.asarray(self.L.multiply(self.L).T @ self.weight)
            else:
                self._gram = np.einsum("ij,ij,i->j", self.L, self.L, self.weight)
        unit = np.eye(self.rank) if self._gram.ndim == 2 else np.ones(self.rank)
        return np.asarray(2.0 * (unit + self.lam * self._gram))

    def _hessian(self, bend: Floats) -> Floats:
        """The matrix of second derivatives; unknowns are ordered column by column of U."""
        r, k = self.U.shape
        H = np.empty((r * k, r * k))
        for position, (a, b) in enumerate(zip(*np.triu_indices(k), strict=True)):
            block = weighted_gram(self.L, bend[:, position])
            if a == b:
                block[np.diag_indices(r)] += 2.0
            H[a * r : (a + 1) * r, b * r : (b + 1) * r] = block
            H[b * r : (b + 1) * r, a * r : (a + 1) * r] = block
        return H

    def _product(self, bend: Floats) -> Callable[[Floats], Floats]:
        """Products with the matrix of second derivatives, for matrices of the shape of U."""
        k = self.U.shape[1]
        index = np.zeros((k, k), dtype=np.intp)
        index[np.triu_indices(k)] = np.arange(bend.shape[1])
        index = np.maximum(index, index.T)

        def product(D: Floats) -> Floats:
            S = np.asarray(self.L @ D)
            out = np.stack([np.einsum("ib,ib->i", bend[:, index[a]], S) for a in range(k)], axis=1)
            return np.asarray(2.0 * D + self.L.T @ out)

        return product

    def descend(self, goal: float, steps: int, stopped: Callable[[], bool]) -> bool:
        """Take regularised Newton steps until one promises less than `goal`; tell whether it came to that.

        At most `steps` in all since the start. The last one is taken too, since it costs no more.
        """
        direct, self._solve = self.U.size <= self.largest_system, None
        majoriser = self._majoriser()
        value, gradient, bend = self._derivatives()
        while self.steps < steps and not stopped():
            self.steps += 1
            H = self._hessian(bend) if direct else None
            accepted = None
            for _ in range(RAISES):
                if H is not None:
                    step, promised = self._direct_step(H, gradient, majoriser)
                else:
                    step, promised = self._conjugate_step(bend, gradient, majoriser)
                if step is None:
                    self.damping = max(4.0 * self.damping, LEAST)
                    continue
                new = self.value(self.U + step)
                near = goal if self.damping <= TRUSTED else TRUSTED * goal
                if promised <= max(near, EPS * abs(value)):
                    if new <= value + EPS * abs(value):
                        self.U = self.U + step
                    return True
                ratio = (value - new) / promised
                if ratio > 0.9:
                    self.damping *= 0.01
                elif ratio > 0.5:
                    self.damping *= 0.2
                elif not ratio >= 0.2:
                    self.damping *= 4.0
                self.damping = max(self.damping, LEAST)
                if ratio > 1e-3:
                    accepted = step
                    break
            if accepted is None:
                return False
            self.U = self.U + accepted
            value, gradient, bend = self._derivatives()
        return False

    def _direct_step(self, H: Floats, gradient: Floats, majoriser: Floats) -> tuple[Floats | None, float]:
        """Return Newton's step and what it promises, None if the regularised matrix is not definite."""
        r, k = self.U.shape
        system = H.copy()
        damper = majoriser if majoriser.ndim == 2 else np.diag(majoriser)
        for a in range(k):
            system[a * r : (a + 1) * r, a * r : (a + 1) * r] += self.damping * damper
        try:
            factor = sl.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            return None, 0.0

        def solve(right: Floats) -> Floats:
            return np.asarray(sl.cho_solve(factor, right.T.ravel(), check_finite=False).reshape(k, r).T)

        self._solve = solve
        step = -solve(gradient)
        image = (H @ step.T.ravel()).reshape(k, r).T
        return step, -float(np.sum(gradient * step)) - 0.5 * float(np.sum(step * image))

    def _conjugate_step(self, bend: Floats, gradient: Floats, majoriser: Floats) -> tuple[Floats | None, float]:
        """The same by truncated conjugate gradients, preconditioned by the diagonal of the majoriser."""
        apply, diagonal = self._product(bend), (np.diag(majoriser) if majoriser.ndim == 2 else majoriser)[:, None]

        def solve(right: Floats, accuracy: float = 1e-6) -> Floats | None:
            x, residual = np.zeros_like(right), right.copy()
            scaled = residual / diagonal
            direction, size = scaled, float(np.sum(residual * scaled))
            first = size
            for count in range(CONJUGATE_STEPS):
                if not size > accuracy**2 * first:
                    break
                image = apply(direction) + self.damping * diagonal * direction
                bending = float(np.sum(direction * image))
                if not bending > 0:
                    return None if count == 0 else x
                length = size / bending
                x, residual = x + length * direction, residual - length * image
                scaled = residual / diagonal
                size, previous = float(np.sum(residual * scaled)), size
                direction = scaled + (size / previous) * direction
            return x

        self._solve = solve
        step = solve(-gradient, min(CONJUGATE_ACCURACY, math.sqrt(float(np.sum(gradient**2 / diagonal)))))
        if step is None:
            return None, 0.0
        return step, -float(np.sum(gradient * step)) - 0.5 * float(np.sum(step * apply(step)))

    def sensitivity(self) -> tuple[Floats, float]:
        """Return how U and Σ s z change with log λ, at a stationary point; by the system that was solved last."""
        slope = self._derivatives()[1] - 2.0 * self.U
        change = None if self._solve is None else self._solve(-slope)
        return (np.zeros_like(slope), 0.0) if change is None else (change, float(np.sum(slope * change)) / self.lam)

    def leading(self) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of Σ γ_i x_i x_i', the largest last, and their vectors."""
        gamma, _ = self.multipliers()
        r = self.rank
        wanted = min(ADDED, r)
        if r <= DENSE_SPECTRUM:
            values, vectors = sl.eigh(
                weighted_gram(self.L, gamma), subset_by_index=[r - wanted, r - 1], check_finite=False
            )
            return values, vectors
        operator = LinearOperator(
            (r, r), matvec=lambda q: np.asarray(self.L.T @ (gamma * np.asarray(self.L @ q.ravel()))), dtype=np.float64
        )
        start = self.U[:, -1] if self.U[:, -1].any() else np.ones(r)
        try:
            values, vectors = eigsh(operator, k=wanted, which="LA", v0=start, tol=1e-10)
        except ArpackNoConvergence as found:
            values, vectors = found.eigenvalues, found.eigenvectors
        order = np.argsort(values)
        return values[order], vectors[:, order]

    def grow(self, beyond: float) -> bool:
        """Add the eigenvectors of eigenvalues above 1 + `beyond` as columns, at their best lengths; tell if there were any."""
        values, vectors = self.leading()
        grown = False
        for value, vector in zip(values[::-1], vectors.T[::-1], strict=True):
            length = self._length(vector) if value > 1.0 + beyond else 0.0
            if length > 0:
                self.U = np.column_stack([self.U, math.sqrt(length) * vector])
                grown = True
        return grown

    def _length(self, q: Floats) -> float:
        """Minimise F over τ ≥ 0 for the covariance VV' + τqq': convex, and Newton's method approaches from the left."""
        u, v = self.margins()
        square = np.maximum(1.0 - u, 0.0) ** 2
        inside = square > 0
        t, a = (v + square)[inside], np.asarray(self.L @ q)[inside] ** 2
        height = self.lam * self.weight[inside] * square[inside] * a
        tau = 0.0
        for _ in range(LENGTH_STEPS):
            bound = t + tau * a
            pull = float(np.sum(height / bound**2)) - 1.0
            if tau > 0 and not pull > LENGTH_ACCURACY:
                break
            tau += max(pull, 0.0) / (2.0 * float(np.sum(height * a / bound**3)) + np.finfo(float).tiny)
        return tau if math.isfinite(tau) else 0.0

    def trim(self) -> None:
        """Drop what V has below the ridge, and with it columns that repeat each other."""
        V = self.U[:, 1:]
        if V.shape[1] == 0:
            return
        basis, sizes, _ = sl.svd(V, full_matrices=False, check_finite=False)
        kept = sizes**2 > DROPPED * self.ridge
        if not kept.all():
            self.U = np.column_stack([self.U[:, 0], basis[:, kept] * sizes[kept]])
