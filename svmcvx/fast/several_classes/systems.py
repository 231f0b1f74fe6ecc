r"""Newton systems of losses of score differences with a penalty of the weights.

With centred data :math:`Z = [X - 1m',\, 1]` and :math:`U = [W;\, b + m'W]` the scores are
:math:`ZU`; without biases Z = X and U = W. A loss of score differences has second derivatives
between pairs of classes only, and on matrices whose rows sum to zero so have the penalties,
:math:`\|U\|^2 = \tfrac1c\sum_{k<l}\|u_k - u_l\|^2`. The Newton matrix therefore is the Laplacian of
a graph whose vertices are the classes and whose edge kl has the matrix

.. math:: M_{kl} = \sum_i h_{ikl}\, z_i z_i' + \text{the second derivatives of the penalty}.

For a sum of losses of single differences :math:`h_{ikl} = 0` unless observation i belongs to k or
l: forming all edges takes :math:`n(c-1)d^2` operations, not :math:`nc^2d^2/2`. With the last class
eliminated the matrix has (c − 1)(d + 1) rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate.bounded import row_sums
from svmcvx.data import Features
from svmcvx.formulations.multiclass.statement import ScoreSpace
from svmcvx.numerical import conjugate_gradients

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]

TINY = float(np.finfo(np.float64).tiny)
# Relative ridge with which a matrix that is singular to rounding is factorised; a thousandfold at
# each failure.
RIDGE = 1e-13
# Share of the trace of the second derivatives of softmax that conjugate gradients leave out at
# first, if the others are at most FEW of all observations; and the relative residual with all
# observations above which they continue with all.
FEW, LARGEST_RESIDUAL = 0.5, 0.5
# Products of conjugate gradients in a step up to which its preconditioner serves in the next one as
# well, and up to which it does there.
SERVES_UP_TO = 30


@dataclass(frozen=True)
class ScoreSystemSettings:
    """Parameters of the Newton systems: how they are formed and solved.

    Attributes
    ----------
    negligible : float
        Observations are left out of an edge if together they add at most this share of its
        regulariser and, to the biases, of what the other edges add.
    largest_block : int
        Columns up to which the preconditioner has a block for each class, and not a diagonal.
    """

    negligible: float = 1e-2
    largest_block: int = 1500


class Penalty(Protocol):
    """Second derivatives of the penalty."""

    def block(self, k: int) -> Floats:
        """Return the matrix of second derivatives in the column of class k."""

    def diagonal(self, k: int) -> Floats:
        """Return the diagonal of :meth:`block`."""

    def product(self, D: Floats) -> Floats:
        """Return the change of the gradient with U."""


class PairPenalty(Penalty, Protocol):
    """Second derivatives between pairs of classes, on matrices U whose rows sum to zero."""

    def edge(self, m: int) -> Floats:
        """Return the matrix of the pair m, as a new array."""


class Curvature(Protocol):
    """Second derivatives of the losses in the differences f."""

    def edge(self, k: int, j: int) -> list[tuple[Rows, Floats]]:
        """Return the observations of each part of the edge kj, and their weights."""

    def leave_out(self, k: int, j: int, part: int, rows: NDArray[np.bool_]) -> None:
        """Set the weight of some observations in a part of the edge kj to zero."""

    def apply(self, df: Floats) -> Floats:
        """Return H df: minus the change of the multipliers with f."""

    def vertex(self, k: int) -> Floats:
        """Return the weight of each observation in the diagonal block of class k."""


class SeparateCurvature:
    """Second derivatives of a sum of losses of one difference each."""

    def __init__(self, scores: ScoreSpace, members: list[Rows], h: Floats) -> None:
        self.scores, self.members, self.h = scores, members, h

    def _ends(self, k: int, j: int) -> list[tuple[Rows, int]]:
        return [(self.members[a], b - (b > a)) for a, b in ((k, j), (j, k))]

    def edge(self, k: int, j: int) -> list[tuple[Rows, Floats]]:
        """The observations of k towards j, and those of j towards k."""
        return [(rows, self.h[rows, column]) for rows, column in self._ends(k, j)]

    def leave_out(self, k: int, j: int, part: int, rows: NDArray[np.bool_]) -> None:
        """Set h to zero, so that :meth:`apply` is the product with the matrix that was factorised."""
        members, column = self._ends(k, j)[part]
        self.h[members[rows], column] = 0.0

    def apply(self, df: Floats) -> Floats:
        """H df."""
        return self.h * df

    def vertex(self, k: int) -> Floats:
        """The sum of h for observations of k, the entry of k for others."""
        weights = self.scores.expand(self.h)[:, k]
        weights[self.members[k]] = self.h[self.members[k]].sum(axis=1)
        return weights


class JointCurvature:
    """Second derivatives of the softmax: diag(a) − aa' for each observation, times its weight."""

    def __init__(self, scores: ScoreSpace, a: Floats) -> None:
        self.scores, self.a = scores, a
        self.weight = scores.data.weight
        self.share = scores.expand(a)
        self.share[np.arange(a.shape[0]), scores.data.codes] = np.maximum(1.0 - a.sum(axis=1), 0.0)

    def edge(self, k: int, j: int) -> list[tuple[Rows, Floats]]:
        """All observations, with the product of their probabilities."""
        return [(np.arange(self.weight.size), self.weight * self.share[:, k] * self.share[:, j])]

    def leave_out(self, k: int, j: int, part: int, rows: NDArray[np.bool_]) -> None:
        """Do nothing: the multipliers of this loss need not fit the matrix that was factorised."""

    def apply(self, df: Floats) -> Floats:
        """(diag(a) − aa') df."""
        moved = self.a * df
        return np.asarray(
            self.weight[:, None] * (moved - self.a * moved.sum(axis=1, keepdims=True))
        )

    def vertex(self, k: int) -> Floats:
        """The variance of the indicator of k."""
        return np.asarray(self.weight * self.share[:, k] * (1.0 - self.share[:, k]))

    def mean(self) -> Floats:
        """Return the weight of each observation in the mean over the c − 1 directions in which
        scores differ.
        """
        return np.asarray(self.weight * (1.0 - (self.share**2).sum(axis=1)) / self.a.shape[1])

    def heaviest(self, squares: Floats) -> Rows:
        """Return the observations, with these squared norms, that have nearly all of the trace."""
        trace = self.weight * (1.0 - (self.share**2).sum(axis=1)) * squares
        order = np.argsort(trace, kind="stable")
        return np.sort(order[np.searchsorted(np.cumsum(trace[order]), 3e-3 * trace.sum()) :])

    def product(self, Z: Features, rows: Rows | slice = slice(None)) -> Callable[[Floats], Floats]:
        """Return D ↦ Z'H(ZD) for some observations, whose rows of the data are Z; in scores, where
        H is diag(p) − pp'.
        """
        share = self.share[rows]
        weighted = self.weight[rows][:, None] * share

        def multiply(D: Floats) -> Floats:
            moved = np.asarray(Z @ D)
            moved -= row_sums(share * moved)[:, None]
            moved *= weighted
            return np.asarray(Z.T @ moved)

        return multiply


@dataclass
class Preconditioner:
    """The preconditioner of the last steps, and the products that the last of them took with it."""

    solve: Callable[[Floats], Floats] | None = None
    products: int = 0


class ScoreSystem:
    """Data and Newton systems of losses of score differences in the unknowns U."""

    dense_share: ClassVar[float] = math.inf

    def __init__(self, scores: ScoreSpace, settings: ScoreSystemSettings | None = None) -> None:
        self.scores = scores
        self.settings = settings or ScoreSystemSettings()
        data = self.scores.data
        # Data that stay sparse are neither centred nor replaced by a square factor.
        X = self.scores.X
        sparse = bool(sp.issparse(X)) and X.nnz < self.dense_share * math.prod(X.shape)
        if not sparse:
            X = self.scores.factor
            X = X.toarray() if sp.issparse(X) else X
        n, self.columns = X.shape
        self.biased = scores.intercept != "none"
        self.q = np.zeros(self.columns + self.biased)
        if self.biased:
            self.q[:-1] = 0.0 if sparse else -X.mean(axis=0)
            self.q[-1] = 1.0
        self.Z: Features = X
        if sparse:
            if self.biased:
                self.Z = sp.csr_array(sp.hstack([X, np.ones((n, 1))]))
            self.squares = np.asarray(self.Z.multiply(self.Z).sum(axis=1)).ravel()
        else:
            if self.biased:
                self.Z = np.hstack([X + self.q[:-1], np.ones((n, 1))])
            self.squares = np.einsum("ij,ij->i", self.Z, self.Z)
        self.weight = data.weight[:, None]
        self.members = [np.flatnonzero(data.codes == k) for k in range(data.c)]
        self.pairs = list(zip(*(side.tolist() for side in np.triu_indices(data.c, 1)), strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of U."""
        return self.Z.shape[1], self.scores.data.c

    @property
    def unknowns(self) -> int:
        """Rows of the Newton matrix."""
        return self.shape[0] * (self.shape[1] - 1)

    def weights(self, U: Floats) -> tuple[Floats, Floats]:
        """Return W, in terms of the features, and b."""
        W = U[: self.columns]
        return W if sp.issparse(self.Z) else self.scores.unreduced(W), self.q @ U

    def point(self, W: Floats, b: Floats) -> Floats:
        """Return U of W, in terms of the features, and b."""
        W = W if sp.issparse(self.Z) else self.scores.reduced(W)
        return np.vstack([W, b - self.q[:-1] @ W]) if self.biased else W

    def gradient(self, alpha: Floats, penalty: Floats) -> Floats:
        """Return the gradient of losses with multipliers `alpha` and of a penalty with the gradient
        `penalty`.
        """
        return np.asarray(penalty - self.Z.T @ self.scores.coefficients(alpha))

    def direct_step(
        self, gradient: Floats, curvature: Curvature, penalty: PairPenalty, *, complete: bool
    ) -> Floats:
        """Return the Newton step by a Cholesky factorisation; negligible observations are omitted
        unless `complete`.
        """
        r, c = self.shape
        matrix = np.empty((self.unknowns, self.unknowns), order="F")
        # blocks[j, :, k, :] is the block of classes k and j, which is symmetric.
        blocks = matrix.T.reshape(c - 1, r, c - 1, r)
        vertices = np.zeros((c, r, r))
        # The biases have almost no regulariser: their entries are compared with those of the other
        # observations.
        level = np.array([float(curvature.vertex(k).sum()) for k in range(c)]) / c
        for m, (k, j) in enumerate(self.pairs):
            edge = penalty.edge(m)
            least = self.settings.negligible * float(edge.diagonal()[: self.columns].min())
            for part, (rows, h) in enumerate(curvature.edge(k, j)):
                negligible = np.abs(h) * self.squares[rows] * rows.size <= least
                negligible &= np.abs(h) * rows.size <= self.settings.negligible * min(
                    level[k], level[j]
                )
                negligible &= not complete
                curvature.leave_out(k, j, part, negligible)
                used = ~negligible
                if used.any():
                    edge += self._gram(rows[used], h[used])
            vertices[k] += edge
            vertices[j] += edge
            if j < c - 1:
                blocks[j, :, k, :] = -edge
                blocks[k, :, j, :] = -edge
        for k in range(c - 1):
            blocks[k, :, k, :] = vertices[k]
        factor = _cholesky(matrix, RIDGE)
        step = np.zeros((r, c))
        if factor is None:
            return step
        step[:, :-1] = (
            sl.cho_solve(factor, -gradient[:, :-1].T.ravel(), check_finite=False)
            .reshape(c - 1, r)
            .T
        )
        return centred(step)

    def entry_step(
        self, gradient: Floats, curvature: JointCurvature, entries: Floats, shift: float
    ) -> Floats:
        """Return the Newton step of the softmax with a penalty of single entries and of common
        shifts, by a Cholesky factorisation.
        """
        r, c = self.shape
        matrix = np.empty((r * c, r * c), order="F")
        blocks = matrix.T.reshape(c, r, c, r)
        for k in range(c):
            for j in range(k, c):
                rows, h = np.arange(self.squares.size), curvature.vertex(k)
                if j > k:
                    ((rows, h),) = curvature.edge(k, j)
                block = self._gram(rows, h if j == k else -h)
                block[np.diag_indices(r)] += shift / c + (entries[:, k] if j == k else 0.0)
                blocks[k, :, j, :] = blocks[j, :, k, :] = block
        factor = _cholesky(matrix, RIDGE)
        if factor is None:
            return np.zeros((r, c))

        def solve(residual: Floats) -> Floats:
            found = sl.cho_solve(factor, residual.T.ravel(), check_finite=False)
            return np.asarray(found.reshape(c, r).T)

        product = curvature.product(self.Z)
        step = solve(-gradient)
        # Refinement removes the ridge.
        for _ in range(3):
            image = product(step) + entries * step + shift * step.mean(axis=1, keepdims=True)
            step = step - solve(gradient + image)
        return step

    def _gram(self, rows: Rows, h: Floats) -> Floats:
        Z = self.Z[rows]
        if sp.issparse(Z):
            return np.asarray((Z.T @ sp.diags_array(h) @ Z).toarray())
        if (h < 0).any():
            return np.asarray(Z.T @ (h[:, None] * Z))
        Z *= np.sqrt(h)[:, None]
        return np.asarray(Z.T @ Z)

    def normalised(self, A: Floats) -> Floats:
        """Return the matrix with rows that sum to zero, as at the optimum; unchanged if this is not
        required.
        """
        return centred(A)

    def iterative_step(
        self,
        gradient: Floats,
        curvature: Curvature,
        penalty: Penalty,
        *,
        forcing: float,
        limit: int,
        stop: Callable[[], bool] = lambda: False,
        kept: Preconditioner | None = None,
        shared: Floats | None = None,
    ) -> Floats:
        """Return the Newton step by conjugate gradients with a block, or a diagonal, for each class
        as preconditioner.
        """
        right = -self.normalised(gradient)
        products = [self._loss_product(curvature)]
        if isinstance(curvature, JointCurvature):
            rows = curvature.heaviest(self.squares)
            if rows.size <= FEW * self.squares.size:
                products.insert(0, curvature.product(self.Z[rows], rows))
        images = [lambda D, of=of: self.normalised(of(D) + penalty.product(D)) for of in products]
        if kept is not None and kept.solve is not None and kept.products <= 8:
            step, kept.products = _step(
                images, right, kept.solve, forcing, min(limit, SERVES_UP_TO), stop
            )
            if kept.products < SERVES_UP_TO:
                return step
        solve = self._preconditioner(curvature, penalty, shared)
        step, taken = _step(images, right, solve, forcing, limit, stop)
        if kept is not None:
            kept.solve, kept.products = solve, taken
        return step

    def _sampled(self, weight: Floats) -> tuple[Rows, Floats]:
        """Return the observations of more than average weight and a sample of the others,
        reweighted to the same total.
        """
        heavy = weight > weight.mean()
        rest = np.flatnonzero(~heavy)
        # Observations for each column from which a block is estimated, in addition to those of more
        # than average weight.
        sample = rest[:: max(1, weight.size // (4 * self.shape[0]))]
        scale = float(weight[rest].sum()) / max(float(weight[sample].sum()), TINY)
        return np.append(np.flatnonzero(heavy), sample), np.append(
            weight[heavy], scale * weight[sample]
        )

    def _loss_product(self, curvature: Curvature) -> Callable[[Floats], Floats]:
        """Return D ↦ the change of the gradient of the losses with U."""
        if isinstance(curvature, JointCurvature):
            return curvature.product(self.Z)

        def multiply(D: Floats) -> Floats:
            df = self.scores.differences(np.asarray(self.Z @ D))
            return np.asarray(self.Z.T @ self.scores.coefficients(curvature.apply(df)))

        return multiply

    def _preconditioner(
        self, curvature: Curvature, penalty: Penalty, shared: Floats | None
    ) -> Callable[[Floats], Floats]:
        r, c = self.shape
        # Entries of all blocks together up to which it has them.
        if r > self.settings.largest_block or c * r**2 > 5e7:
            squared = self.Z.power(2) if sp.issparse(self.Z) else self.Z**2
            diagonal = np.empty((r, c))
            for k in range(c):
                diagonal[:, k] = squared.T @ curvature.vertex(k) + penalty.diagonal(k)
            return lambda residual: self.normalised(residual / diagonal)
        if shared is not None and isinstance(curvature, JointCurvature):
            rows = curvature.heaviest(self.squares)
            block = self._gram(rows, curvature.mean()[rows])
            block[np.diag_indices(r)] += shared
            factor = _cholesky(np.asfortranarray(block), RIDGE)
            if factor is None:
                return self.normalised
            return lambda residual: self.normalised(
                sl.cho_solve(factor, residual, check_finite=False)
            )
        blocks = np.empty((c, r, r))
        for k in range(c):
            blocks[k] = self._gram(*self._sampled(curvature.vertex(k))) + penalty.block(k)
        factors = []
        for block in blocks:
            factor = _cholesky(np.asfortranarray(block), RIDGE)
            if factor is None:
                return self.normalised
            factors.append(factor)

        def solve(residual: Floats) -> Floats:
            return self.normalised(
                np.stack(
                    [
                        sl.cho_solve(f, residual[:, k], check_finite=False)
                        for k, f in enumerate(factors)
                    ],
                    axis=1,
                )
            )

        return solve


def _step(
    images: Sequence[Callable[[Floats], Floats]],
    right: Floats,
    solve: Callable[[Floats], Floats],
    forcing: float,
    limit: int,
    stop: Callable[[], bool],
) -> tuple[Floats, int]:
    """Return the step of a system by conjugate gradients, and the products that it took."""
    step = conjugate_gradients(images[0], right, solve, accuracy=forcing, limit=limit, stop=stop)
    if len(images) == 1:
        return step.x, step.products
    residual = right - images[-1](step.x)
    size, start = (float(np.vdot(side, solve(side))) for side in (residual, right))
    if not size > LARGEST_RESIDUAL**2 * start:
        return step.x, step.products
    more = conjugate_gradients(
        images[-1],
        residual,
        solve,
        accuracy=forcing * math.sqrt(start / size),
        limit=limit,
        stop=stop,
    )
    return step.x + more.x, step.products + more.products


def centred(A: Floats) -> Floats:
    """Return the matrix with rows that sum to zero."""
    return np.asarray(A - (row_sums(A) / A.shape[1])[:, None])


def _cholesky(matrix: Floats, ridge: float) -> tuple[Floats, bool] | None:
    """Return the Cholesky factor of a matrix, which is overwritten, with a relative ridge; None if
    it has none.
    """
    diagonal = matrix.diagonal().copy()
    if not np.isfinite(diagonal).all():
        return None
    while ridge < 1.0:
        matrix[np.diag_indices_from(matrix)] = diagonal * (1.0 + ridge)
        try:
            triangle, lower = sl.cho_factor(
                matrix, lower=True, overwrite_a=True, check_finite=False
            )
        except sl.LinAlgError:
            # The failed factorisation has not changed the upper triangle.
            upper = np.triu(matrix, 1)
            matrix = np.asfortranarray(upper + upper.T)
            ridge *= 1e3
        else:
            return triangle, lower
    return None
