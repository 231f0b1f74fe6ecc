r"""Newton systems of losses of score differences with a penalty of the weights.

With centred data :math:`Z = [X - 1m',\, 1]` and :math:`U = [W;\, b + m'W]` the scores are
:math:`ZU`; without biases Z = X and U = W. A loss of score differences has second derivatives
between pairs of classes only: its Newton matrix is the Laplacian of a graph whose vertices are the
classes and whose edge kl has the matrix :math:`\sum_i h_{ikl}\, z_i z_i'`. The norms of pairs of
weights, and :math:`\|U\|^2 = \tfrac1c\sum_{k<l}\|u_k - u_l\|^2` on rows that sum to zero, are of
the same kind; then the last class is eliminated, and the matrix has (c − 1)(d + 1) rows.

**Norms** that are not smooth, those to a power p < 2 and absolute values, are limits of smoothed
ones, :math:`\lambda r^p`, :math:`r = \sqrt{\|v\|^2+\nu^2}`, as ν → 0, with multipliers (flows) s
that satisfy :math:`s\,r^{2-p} = \lambda p\,v`. Newton's method for this equation in s and v has,
for p = 1,

.. math:: ds = \frac1r\Big(\lambda I - \frac{s\,v'}{r}\Big)\,dv

and, unlike Newton's method for the quotient, converges in a few steps also for tiny ν. Its matrix,
made symmetric, is positive semidefinite while no flow is longer than λ.

Source: [ChanGolubMulet]; [AndersenChristiansenConnOverton].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias, cast

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import TINY, quietly, row_sums
from svmcvx.data import Features
from svmcvx.formulations.multiclass.statement import ScoreSpace, lengths, pair_differences
from svmcvx.losses import hinge_power_conjugate
from svmcvx.numerical import conjugate_gradients

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


class PairPenalty:
    r"""The penalty :math:`\lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2)` with
    :math:`b = q'U`, on rows that sum to zero.

    For p = 2 and ε = 0 it is :math:`\lambda c\|W\|_F^2`. For p < 2 it is smoothed by `nu`, with
    multipliers `flow`.
    """

    nu = 0.0
    flow: Floats | None = None

    def __init__(
        self, c: int, columns: int, q: Floats, *, lam: float, p: float, eps: float
    ) -> None:
        self.columns, self.q = columns, q
        self.lam, self.p, self.eps = lam, p, eps
        self.P = pair_differences(c)
        # How many norms are summed.
        self.count = self.vectors(np.zeros((columns, c))).shape[1]
        self.pairs = {pair: m for m, pair in enumerate(itertools.combinations(range(c), 2))}

    def at(self, U: Floats) -> PairTerms:
        """Return the penalty at a point."""
        return PairTerms(self, U)

    def vectors(self, W: Floats) -> Floats:
        """Return the vectors whose norms are summed, as columns."""
        return np.asarray(W @ self.P)

    def adjoint(self, flow: Floats) -> Floats:
        """Return the gradient in W from that in the vectors."""
        return np.asarray(flow @ self.P.T)

    def start_smoothing(self, width: float, length: float) -> None:
        """Choose ν ≥ 1e-12 with an error of at most `width`; `length` moves scores by 1."""
        if self.p < 2:
            error = width / (self.lam * self.count)
            self.nu = max(min(error ** (1.0 / self.p), length), 1e-12)

    def move(self, U: Floats, D: Floats, length: float) -> None:
        """Change the flow along with a step from U."""
        if self.p < 2:
            terms = self.at(U)
            full = terms.flow + terms.flow_change(self.vectors(D[: self.columns]))
            own = terms.flow if self.flow is None else self.flow
            self.flow = own + min(length, 1.0) * (full - own)


class PairTerms:
    """A penalty at a point U, with the norms r of its vectors V, smoothed, and their flows."""

    # Whether the same vector added to the columns of all classes changes nothing.
    shift_invariant = True
    # Second derivative of the biases that is added.
    damping: float

    @quietly
    def __init__(self, penalty: PairPenalty, U: Floats) -> None:
        self.penalty, self.W = penalty, U[: penalty.columns]
        eps, q, d = penalty.eps, penalty.q, penalty.columns
        # For p = 2 all pairs together are a multiple of the squares.
        self.rho = 2.0 * penalty.lam * U.shape[1] if penalty.p == 2 else 0.0
        self.value = (0.5 * self.rho + eps) * float(np.vdot(self.W, self.W))
        self.gradient = np.zeros_like(U)
        self.gradient[:d] = (self.rho + 2.0 * eps) * self.W
        if not self.rho:
            self.value += penalty.lam * float((self.size**penalty.p).sum())
            self.gradient[:d] += penalty.adjoint(self.flow)
        if eps:
            b = q @ U
            self.value += eps * float(b @ b)
            self.gradient += 2.0 * eps * np.outer(q, b)

    @cached_property
    def V(self) -> Floats:
        return self.penalty.vectors(self.W)

    @cached_property
    def size(self) -> Floats:
        return lengths(self.V, 2)

    @cached_property
    def r(self) -> Floats:
        return np.hypot(self.size, self.penalty.nu)

    @cached_property
    def stiffness(self) -> Floats:
        return np.asarray(self.penalty.lam * self.penalty.p * self.r ** (self.penalty.p - 2.0))

    @property
    def flow(self) -> Floats:
        return self.stiffness * self.V

    def gap(self, gradient: Floats, losses: float) -> tuple[float, float]:
        """Return the duality gap's parts from the whole gradient and from smoothing.

        By Fenchel's and Young's inequality, at the flows and at those without a residual.
        """
        W, b = gradient[: self.penalty.columns], gradient[self.penalty.columns :]
        biases = float(np.abs(b).sum())
        if self.rho:
            return float(np.vdot(W, W)) / (2.0 * self.rho) + biases, 0.0
        smoothing = self._excess(self.flow, losses) if self.penalty.nu else 0.0
        corrected = self.flow - W @ self.penalty.P / self.penalty.P.shape[0]
        part = self._excess(corrected, losses) - smoothing
        return max(part, 0.0) + biases, smoothing

    def _excess(self, flow: Floats, losses: float) -> float:
        r"""Return :math:`\lambda\|v\|^p` and its conjugate at flows, less the inner products."""
        lam, p = self.penalty.lam, self.penalty.p
        size, outside = lengths(flow, 2), 0.0
        if p == 1:
            # Flows that are too long are shortened together with the multipliers.
            outside = max(float(size.max()) / lam - 1.0, 0.0) * losses
            size = np.minimum(size, lam)
        conjugates = hinge_power_conjugate(size, lam, p)
        return outside + float((lam * self.size**p + conjugates - size * self.size).sum())

    def damp(self, gradient: Floats) -> None:
        """Add curvature where there may be none, in proportion to the whole gradient."""
        self.damping = 1e-2 * float(np.abs(gradient[self.penalty.columns :]).max(initial=0.0))

    @cached_property
    def _radial(self) -> Floats:
        exponent, square = self.penalty.p - 2.0, 2.0 * self.r**2
        return np.divide(exponent, square, out=np.zeros_like(square), where=square > 0)

    @cached_property
    def _along(self) -> Floats:
        """Flows over their stiffness, no longer than r."""
        if self.penalty.flow is None:
            return self.V
        scaled = self.penalty.flow / self.stiffness
        return np.asarray(scaled * (self.r / np.maximum(lengths(scaled, 2), self.r)))

    def flow_change(self, dV: Floats) -> Floats:
        """Return the change of the flows with the vectors."""
        along = self._along * (self.V * dV).sum(axis=0) + self.V * (self._along * dV).sum(axis=0)
        return np.asarray(self.stiffness * (dV + self._radial * along))

    def product(self, D: Floats) -> Floats:
        """Return the change of the gradient with U."""
        penalty, dW = self.penalty, D[: self.penalty.columns]
        image = np.zeros_like(D)
        if penalty.eps:
            image += 2.0 * penalty.eps * np.outer(penalty.q, penalty.q @ D)
        image[: penalty.columns] += (self.rho + 2.0 * penalty.eps) * dW
        if not self.rho:
            image[: penalty.columns] += penalty.adjoint(self.flow_change(penalty.vectors(dW)))
        return np.asarray(image)

    def edge(self, k: int, j: int) -> Floats:
        """Return minus the second derivatives in the columns of classes k < j, as a new array."""
        penalty, d, c = self.penalty, self.penalty.columns, self.W.shape[1]
        matrix = np.zeros((penalty.q.size, penalty.q.size))
        if penalty.eps:
            matrix += (2.0 * penalty.eps / c) * np.outer(penalty.q, penalty.q)
        diagonal = (self.rho + 2.0 * penalty.eps) / c
        if not self.rho:
            m = penalty.pairs[k, j]
            outer = np.outer(self._along[:, m], self.V[:, m])
            matrix[:d, :d] += (self.stiffness[m] * self._radial[m]) * (outer + outer.T)
            diagonal += float(self.stiffness[m])
        matrix.ravel()[: d * matrix.shape[0] : matrix.shape[0] + 1] += diagonal
        return matrix

    def own(self, k: int) -> Floats | float:
        """Return the diagonal of what those of class k are more than the sum of its edges."""
        return 0.0

    def diagonal(self, k: int) -> Floats:
        """Return the diagonal of the second derivatives in the column of class k."""
        penalty, c = self.penalty, self.W.shape[1]
        shares = 2.0 * penalty.eps * (c - 1) / c
        diagonal = shares * penalty.q**2
        diagonal[: penalty.columns] += shares + self.rho * (c - 1) / c
        if not self.rho:
            along = self.stiffness * (1.0 + 2.0 * self._radial * self._along * self.V)
            diagonal[: penalty.columns] += along[:, penalty.P[k] != 0].sum(axis=1)
        return np.asarray(diagonal)

    def inverse(self) -> PairInverse | None:
        """Return the inverse of the second derivatives in the weights, None if there is none."""
        smooth = self.penalty.p == 2 or (self.penalty.p > 2 and self.V.any())
        try:
            return PairInverse(self) if smooth else None
        except (ValueError, sl.LinAlgError):  # numbers beyond the range of doubles
            return None


class PairInverse:
    """The inverse by the formula of Sherman, Morrison and Woodbury, on rows that sum to zero."""

    def __init__(self, terms: PairTerms) -> None:
        penalty, self.P = terms.penalty, terms.penalty.P
        c, p = self.P.shape[0], penalty.p
        # The second derivatives vanish with the differences: shorter ones count as so long.
        size = np.ones(self.P.shape[1])
        if p > 2:
            size = np.maximum(terms.size, 1e-3 * float(terms.size.max()))
        a = penalty.lam * p * size ** (p - 2.0)
        # Second derivative in the biases of raw features.
        self.bias = 2.0 * penalty.eps
        laplacian = (self.P * a) @ self.P.T
        # On rows that sum to zero the constant changes nothing.
        self.classes = sl.inv(laplacian + self.bias * np.eye(c) + np.trace(laplacian) / c**2)
        self.pairs = self.classes @ self.P
        self.triangle: Floats | None = None
        if p > 2:
            self.directions = terms.V / size
            small = (self.directions.T @ self.directions) * (self.P.T @ self.pairs)
            small[np.diag_indices_from(small)] += 1.0 / ((p - 2.0) * a)
            self.triangle = sl.cholesky(small, lower=True)

    def apply(self, G: Floats) -> Floats:
        found = np.asarray(G @ self.classes)
        if self.triangle is None:
            return found
        along = (self.directions * (found @ self.P)).sum(axis=0)
        solved = sl.cho_solve((self.triangle, True), along)
        return np.asarray(found - (self.directions * solved) @ self.pairs.T)

    def gram(self, X: Features, position: NDArray[np.intp], Q: Floats) -> Floats:
        r"""Return :math:`\langle x_v q_v', A^{-1}(x_u q_u')\rangle` of the given rows."""
        products = X @ X.T
        dense = products.toarray() if sp.issparse(products) else products
        matrix = np.asarray(dense[np.ix_(position, position)])
        matrix *= Q @ self.classes @ Q.T
        if self.triangle is not None:
            along = np.asarray(X @ self.directions)[position] * (Q @ self.pairs)
            half = sl.solve_triangular(self.triangle, along.T, lower=True)
            matrix -= half.T @ half
        return matrix


class AbsolutePenalty(PairPenalty):
    r"""The penalty :math:`\lambda\sum_{jk}|W_{jk}|`: a norm of each entry, at p = 1 and ε = 0."""

    def at(self, U: Floats) -> PairTerms:
        return AbsoluteTerms(self, U)

    def vectors(self, W: Floats) -> Floats:
        return W.reshape(1, -1)

    def adjoint(self, flow: Floats) -> Floats:
        return flow.reshape(self.columns, -1)

    def move(self, U: Floats, D: Floats, length: float) -> None:
        own = np.abs(self.at(U).flow if self.flow is None else self.flow)
        super().move(U, D, length)
        # At a bound the second derivative is too small for a move: a tenth is left.
        reach = own + 0.9 * (self.lam - own)
        self.flow = np.clip(cast(Floats, self.flow), -reach, reach)


class AbsoluteTerms(PairTerms):
    shift_invariant = False

    def gap(self, gradient: Floats, losses: float) -> tuple[float, float]:
        penalty, size = self.penalty, self.size
        missing, b = gradient[: penalty.columns], gradient[penalty.columns :]
        excess = float(np.abs(penalty.adjoint(self.flow) - missing).max()) / penalty.lam - 1.0
        part = abs(float((missing * self.W).sum())) + float(np.abs(b).sum())
        # λ|w|(1 − |w|/r), without cancellation.
        lost = size * (penalty.nu / self.r) * (penalty.nu / (self.r + size))
        return part + max(excess, 0.0) * losses, penalty.lam * float(lost.sum())

    @cached_property
    def second(self) -> Floats:
        """The second derivatives, linearised in the multipliers too."""
        s = self.flow if self.penalty.flow is None else self.penalty.flow
        return np.asarray(np.maximum(self.penalty.lam - s * (self.V / self.r), 0.0) / self.r)

    def flow_change(self, dV: Floats) -> Floats:
        return self.second * dV

    def damp(self, gradient: Floats) -> None:
        super().damp(gradient)
        common = float(np.abs(gradient.mean(axis=1)).max())
        self.shift = common / max(float(np.abs(self.W).max()), self.penalty.nu, TINY)

    def product(self, D: Floats) -> Floats:
        return np.asarray(super().product(D) + self.shift * D.mean(axis=1, keepdims=True))

    def edge(self, k: int, j: int) -> Floats:
        return np.diag(np.full(self.penalty.q.size, -self.shift / self.W.shape[1]))

    def own(self, k: int) -> Floats:
        own = np.full(self.penalty.q.size, self.shift)
        own[: self.penalty.columns] += self.penalty.adjoint(self.second)[:, k]
        return own

    def diagonal(self, k: int) -> Floats:
        c = self.W.shape[1]
        return np.asarray(self.own(k) - self.shift * (c - 1) / c)
