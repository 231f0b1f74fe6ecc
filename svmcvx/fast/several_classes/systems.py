r"""Newton systems of losses of score differences with a penalty of the weights.

With centred data :math:`Z = [X - 1m',\, 1]` and :math:`U = [W;\, b + m'W]` the scores are
:math:`ZU`; without biases Z = X and U = W. A loss of score differences has second derivatives
between pairs of classes only: its Newton matrix is the Laplacian of a graph whose vertices are the
classes and whose edge kl has the matrix :math:`\sum_i h_{ikl}\, z_i z_i'`. The norms of pairs of
weights, and :math:`\|U\|^2 = \tfrac1c\sum_{k<l}\|u_k - u_l\|^2` on rows that sum to zero, are of
the same kind; then the last class is eliminated, and the matrix has (c − 1)(d + 1) rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import TINY, row_sums
from svmcvx.data import Features
from svmcvx.formulations.multiclass.statement import ScoreSpace
from svmcvx.numerical import conjugate_gradients

if TYPE_CHECKING:
    from svmcvx.fast.several_classes.penalties import PairInverse, PairTerms

Rows: TypeAlias = NDArray[np.intp]

# Columns up to which the preconditioner has a block for each class, and not a diagonal.
LARGEST_BLOCK = 1500


class SeparateCurvature:
    """Second derivatives h, shape (n, c − 1), of a sum of losses of one difference each."""

    def __init__(self, scores: ScoreSpace, h: Floats) -> None:
        self.scores, self.h, self.codes = scores, h, scores.data.codes
        self.vertices = np.abs(scores.coefficients(h))

    def edge(self, k: int, j: int) -> Floats:
        towards = np.where(self.codes == k, self.vertices[:, j], self.vertices[:, k])
        return np.where((self.codes == k) | (self.codes == j), towards, 0.0)

    def vertex(self, k: int) -> Floats:
        return self.vertices[:, k]

    def product(self, S: Floats) -> Floats:
        return self.scores.coefficients(self.h * self.scores.differences(S))


class SoftmaxCurvature:
    """Second derivatives of the softmax: diag(p) − pp' for each observation, times its weight."""

    def __init__(self, scores: ScoreSpace, a: Floats) -> None:
        self.weight, self.share = scores.data.weight, scores.expand(a)
        self.share[np.arange(a.shape[0]), scores.data.codes] = np.maximum(1.0 - a.sum(axis=1), 0.0)

    def edge(self, k: int, j: int) -> Floats:
        return np.asarray(self.weight * self.share[:, k] * self.share[:, j])

    def vertex(self, k: int) -> Floats:
        return np.asarray(self.weight * self.share[:, k] * (1.0 - self.share[:, k]))

    def product(self, S: Floats) -> Floats:
        centred_scores = S - row_sums(self.share * S)[:, None]
        return np.asarray(self.weight[:, None] * self.share * centred_scores)


class FaceCurvature:
    """σ times the projectors onto faces: orthonormal `rows` of the observations `owner`."""

    def __init__(self, n: int, sigma: float, owner: Rows, rows: Floats) -> None:
        self.n, self.sigma, self.owner, self.rows = n, sigma, owner, rows

    @cached_property
    def _members(self) -> sp.csr_array:
        """The matrix that sums the rows of each observation."""
        places = self.owner, np.arange(self.owner.size)
        return sp.csr_array((np.ones(self.owner.size), places), shape=(self.n, self.owner.size))

    def edge(self, k: int, j: int) -> Floats:
        products = self.rows[:, k] * self.rows[:, j]
        return np.asarray(-self.sigma * np.bincount(self.owner, products, self.n))

    def vertex(self, k: int) -> Floats:
        return -self.edge(k, k)

    def product(self, S: Floats) -> Floats:
        along = row_sums(self.rows * S[self.owner])
        return np.asarray(self._members @ (self.sigma * along[:, None] * self.rows))


# Second derivatives of the losses in the scores, a Laplacian for each observation: weights of the
# observations in each pair of classes and in each class, and products.
Curvature: TypeAlias = SeparateCurvature | SoftmaxCurvature | FaceCurvature


class ScoreSystem:
    """Data and Newton systems of losses of score differences in the unknowns U."""

    def __init__(self, scores: ScoreSpace) -> None:
        self.scores = scores
        X = scores.X
        # Data that stay sparse are neither centred nor replaced by a square factor.
        self.sparse = bool(sp.issparse(X)) and 3 * X.nnz < math.prod(X.shape)
        if not self.sparse:
            X = scores.factor
            X = X.toarray() if sp.issparse(X) else X
        n, self.columns = X.shape
        self.biased = scores.intercept != "none"
        self.q = np.zeros(self.columns + self.biased)
        self.Z: Features = X
        if self.biased:
            self.q[:-1] = 0.0 if self.sparse else -X.mean(axis=0)
            self.q[-1] = 1.0
            ones = np.ones((n, 1))
            stack = sp.hstack if self.sparse else np.hstack
            self.Z = stack([X if self.sparse else X + self.q[:-1], ones])
        if self.sparse:
            self.Z = sp.csr_array(self.Z)
        self.weight = scores.data.weight[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.Z.shape[1], self.scores.data.c

    @property
    def unknowns(self) -> int:
        return self.shape[0] * (self.shape[1] - 1)

    def weights(self, U: Floats) -> tuple[Floats, Floats]:
        """Return W, in terms of the features, and b."""
        W = U[: self.columns]
        b = self.q @ U if self.biased else np.zeros(U.shape[1])
        return W if self.sparse else self.scores.unreduced(W), b

    def point(self, W: Floats, b: Floats) -> Floats:
        """Return U of W, in terms of the features, and b."""
        W = W if self.sparse else self.scores.reduced(W)
        return np.vstack([W, b - self.q[:-1] @ W]) if self.biased else W

    def gradient(self, alpha: Floats, penalty: Floats) -> Floats:
        """Return the whole gradient from multipliers `alpha` and a gradient `penalty`."""
        return np.asarray(penalty - self.Z.T @ self.scores.coefficients(alpha))

    def _gram(self, h: Floats) -> Floats:
        """Return Σ h zz'; most weights of an edge may be zero."""
        rows = np.flatnonzero(h)
        Z, h = self.Z[rows], h[rows]
        if self.sparse:
            return np.asarray((Z.T @ sp.diags_array(h) @ Z).toarray())
        if (h < 0).any():
            return np.asarray(Z.T @ (h[:, None] * Z))
        Z *= np.sqrt(h)[:, None]
        return np.asarray(Z.T @ Z)

    def product(self, D: Floats, curvature: Curvature, penalty: PairTerms) -> Floats:
        """Return the Newton matrix times D; the biases are damped."""
        image = penalty.product(D) + self.Z.T @ curvature.product(np.asarray(self.Z @ D))
        image[self.columns :] += penalty.damping * centred(D[self.columns :])
        return np.asarray(image)

    def direct_step(self, gradient: Floats, curvature: Curvature, penalty: PairTerms) -> Floats:
        r, c = self.shape
        m = c - 1 if penalty.shift_invariant else c
        matrix = np.empty((m * r, m * r), order="F")
        # blocks[j, :, k, :] is the block of classes k and j, which is symmetric.
        blocks = matrix.T.reshape(m, r, m, r)
        diagonals = np.zeros((c, r, r))
        for k in range(c):
            diagonals[k].ravel()[:: r + 1] += penalty.own(k)
            for j in range(k + 1, c):
                edge = penalty.edge(k, j) + self._gram(curvature.edge(k, j))
                edge[self.columns :, self.columns :] += penalty.damping / c
                diagonals[[k, j]] += edge
                if j < m:
                    blocks[j, :, k, :] = blocks[k, :, j, :] = -edge
        for k in range(m):
            blocks[k, :, k, :] = diagonals[k]
        solve = cholesky_solver(matrix)
        step = np.zeros((r, c))
        if solve is None:
            return step
        # Refinement takes the ridge back where the matrix is nearly singular.
        for _ in range(1 if penalty.shift_invariant else 4):
            residual = -gradient - (self.product(step, curvature, penalty) if _ else 0.0)
            step[:, :m] += solve(residual[:, :m].T.ravel()).reshape(m, r).T
        return centred(step) if penalty.shift_invariant else step

    def observation_step(
        self, gradient: Floats, faces: FaceCurvature, inverse: PairInverse, damping: float
    ) -> Floats | None:
        """Factorise with one row per vector of the faces; return the step, None on failure."""
        owner, Q = faces.owner, faces.rows
        d, c = self.columns, self.shape[1]
        # Minus the means of the features where the penalty is one of the biases of raw features.
        offset = self.q[:d] if inverse.bias else np.zeros(d)
        bias = damping + inverse.bias
        g = gradient[:d] - np.outer(offset, gradient[d]) if offset.any() else gradient[:d]
        step = np.zeros(self.shape)
        step[:d] = -inverse.apply(g)
        members, position = np.unique(owner, return_inverse=True)
        X = self.Z[members][:, :d]
        if offset.any():
            X = X - offset
        matrix = inverse.gram(X, position, Q)
        matrix[np.diag_indices_from(matrix)] += 1.0 / max(faces.sigma, TINY)
        right = (Q * np.asarray(X @ step[:d])[position]).sum(axis=1)
        try:
            factor = sl.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            return None
        solved = sl.cho_solve(factor, np.column_stack([right, Q]), check_finite=False)
        nu = solved[:, 0]
        if self.biased:
            # Q'T Q is singular along common shifts, and if no vector joins two groups.
            schur = Q.T @ solved[:, 1:]
            schur[np.diag_indices(c)] += bias
            common = (np.trace(schur) or 1.0) / c**2
            missing = -gradient[d] - Q.T @ nu
            if not np.isfinite(schur).all():
                return None
            step[d], *_ = np.linalg.lstsq(schur + common, missing, rcond=1e-14)
            nu = nu + solved[:, 1:] @ step[d]
        weighted = np.zeros((members.size, c))
        np.add.at(weighted, position, nu[:, None] * Q)
        step[:d] -= inverse.apply(np.asarray(X.T @ weighted))
        if self.biased:
            step[d] -= offset @ step[:d]
        return centred(step) if np.isfinite(step).all() else None

    def iterative_step(
        self,
        gradient: Floats,
        curvature: Curvature,
        penalty: PairTerms,
        *,
        forcing: float = 0.1,
        limit: int = 400,
        stop: Callable[[], bool] = lambda: False,
    ) -> Floats:
        """Return the step by at most `limit` conjugate gradients to an accuracy of `forcing`,
        preconditioned by class blocks or, where columns are many, by a diagonal.
        """
        normalised = centred if penalty.shift_invariant else np.asarray
        solve = self._preconditioner(curvature, penalty)
        found = conjugate_gradients(
            lambda D: normalised(self.product(D, curvature, penalty)),
            -normalised(gradient),
            lambda residual: normalised(solve(residual)),
            accuracy=forcing,
            limit=limit,
            stop=stop,
        )
        return found.x

    def _preconditioner(
        self, curvature: Curvature, penalty: PairTerms
    ) -> Callable[[Floats], Floats]:
        r, c = self.shape
        # Entries of all blocks together up to which it has them.
        if r > LARGEST_BLOCK or c * r**2 > 5e7:
            squared = self.Z.power(2) if self.sparse else self.Z**2
            diagonal = np.empty((r, c))
            for k in range(c):
                diagonal[:, k] = squared.T @ curvature.vertex(k) + penalty.diagonal(k)
            diagonal[self.columns :] += penalty.damping
            return lambda residual: residual / diagonal
        if isinstance(curvature, SoftmaxCurvature) and penalty.shift_invariant:
            # One block for all classes: their mean.
            block = self._gram(np.mean([curvature.vertex(k) for k in range(c)], axis=0))
            block[np.diag_indices(r)] += np.mean([penalty.diagonal(k) for k in range(c)], axis=0)
            return cholesky_solver(np.asfortranarray(block)) or np.asarray
        solvers = []
        for k in range(c):
            block = self._gram(curvature.vertex(k))
            block.ravel()[:: r + 1] += penalty.own(k)
            block += sum(penalty.edge(*sorted((k, j))) for j in range(c) if j != k)
            block[self.columns :, self.columns :] += penalty.damping
            solve = cholesky_solver(np.asfortranarray(block))
            if solve is None:
                return np.asarray
            solvers.append(solve)
        return lambda residual: np.stack(
            [solve(column) for solve, column in zip(solvers, residual.T, strict=True)], axis=1
        )


def centred(A: Floats) -> Floats:
    return np.asarray(A - (row_sums(A) / A.shape[1])[:, None])


def cholesky_solver(matrix: Floats) -> Callable[[Floats], Floats] | None:
    """Return the solver of a semidefinite matrix, overwritten, with a growing ridge; else None."""
    diagonal, ridge = matrix.diagonal().copy(), 1e-13
    while ridge < 1.0 and np.isfinite(diagonal).all():
        matrix[np.diag_indices_from(matrix)] = diagonal * (1.0 + ridge)
        try:
            factor = sl.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            # The failed factorisation has not changed the upper triangle.
            upper = np.triu(matrix, 1)
            matrix = np.asfortranarray(upper + upper.T)
            ridge *= 1e3
        else:
            return lambda right: np.asarray(sl.cho_solve(factor, right, check_finite=False))
    return None
