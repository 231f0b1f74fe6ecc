r"""Rows in feature space as the guarantees need them: scores of a centre m, and distances from
affine combinations of training rows.

With :math:`m = \tfrac12(\hat w + w_\alpha)`, the mean of a model and of what a dual point expands
to, everything rests on

.. math:: \langle m, \varphi(x)\rangle \quad\text{and}\quad \|\varphi(x) - \textstyle\sum_i c_i\varphi(x_i)\|^2,

each with bounds on its rounding. Where an intercept is free Σc = 1, so that the rows may be shifted
by any point, the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.core.bounded import (
    Bounded,
    exact,
    positive_part,
    quietly,
    roundings,
    sqrt,
    square,
    total,
)
from svmcvx.core.rows import UNDERFLOW, Ball, Rows, inner_error, row_norms_above, sums_above
from svmcvx.data import Features
from svmcvx.feature_space import KernelSpace, LinearSpace, with_constant
from svmcvx.kernels import Kernel, Linear, Polynomial
from svmcvx.kernels.entry_error import power_above
from svmcvx.model import KernelModel, LinearModel

__all__ = ["KernelPoints", "LinearPoints", "Points", "Solver", "Tested", "halved"]

Floats: TypeAlias = NDArray[np.float64]
Chosen: TypeAlias = NDArray[np.intp]

# Vectors of a linear system, at most; with few columns, and how many these are.
LARGEST_SYSTEM = 1000
MOST_ROWS, FEW_COLUMNS = 50_000, 200
# Added to the diagonal of a system, relative to its largest entry, until it can be factored.
RIDGES = (1e-14, 1e-11, 1e-8, 1e-4)


class Solver(Protocol):
    """Solves a system."""

    def __call__(self, right: Floats) -> Floats:
        """Return the solutions for right sides of shape (r, m)."""


class FactoredSystem(NamedTuple):
    """A system by its Cholesky factor."""

    triangle: Floats

    def __call__(self, right: Floats) -> Floats:
        """Return the solutions."""
        return np.asarray(sl.cho_solve((self.triangle, True), right, check_finite=False))


class WideSystem(NamedTuple):
    r"""The system of D + XX' by the identity of Woodbury, :math:`D^{-1} - D^{-1}X(I +
    X'D^{-1}X)^{-1}X'D^{-1}`, and the factor of its inner matrix.
    """

    X: Floats
    D: Floats
    triangle: Floats

    def __call__(self, right: Floats) -> Floats:
        """Return the solutions."""
        part = right / self.D
        inner = sl.cho_solve((self.triangle, True), self.X.T @ part, check_finite=False)
        return np.asarray(part - (self.X @ inner) / self.D)


class Tested(ABC):
    """Some rows, prepared."""

    @abstractmethod
    def some(self, chosen: Chosen) -> Tested:
        """Return some of them."""

    @property
    @abstractmethod
    def scores(self) -> Bounded:
        """<m, φ(x)>, shape (m,)."""

    @abstractmethod
    def products(self, rows: Chosen) -> Floats:
        """Return about the inner products with training rows, shape (m, r); no claim rests on them."""

    @abstractmethod
    def squared_lengths(self) -> Floats:
        """Return about ‖φ(x)‖², shape (m,); no claim rests on it."""

    @abstractmethod
    def squared_distances(self, rows: Chosen, c: Floats) -> Floats:
        """Return numbers that are at least ‖φ(x) − Σcφ(x_i)‖²; `c` has shape (r, m), one column a
        row here.
        """


class Points(ABC):
    """Training rows with a centre."""

    @abstractmethod
    def separation_below(self) -> float:
        """At most ‖ŵ − w_α‖², not negative."""

    def distance_below(self, other: Self) -> float:
        """At most the squared distance of the centres of two machines on the same data, not
        negative.
        """
        return 0.0

    @abstractmethod
    def tested(self, T: Features) -> Tested:
        """Prepare validated rows."""

    @abstractmethod
    def training_scores(self, rows: Chosen) -> Bounded:
        """Return the scores of the centre on training rows."""

    @abstractmethod
    def gram(self, rows: Chosen) -> Floats:
        """Return about the inner products of training rows; no claim rests on them."""

    @abstractmethod
    def squared_lengths(self) -> Floats:
        """Return about the squared norms of the training rows; no claim rests on them."""

    @property
    def row_limits(self) -> tuple[int, ...]:
        """Vectors of a linear system, at most: of the first, and of those that follow for rows that
        it leaves open.
        """
        return (LARGEST_SYSTEM,)

    def solver(self, rows: Chosen, added: Floats) -> Solver | None:
        """Return what solves systems with the inner products of some training rows plus a diagonal;
        None where that is singular.
        """
        K = self.gram(rows)
        scale = float(np.abs(K.diagonal()).max(initial=0.0)) or 1.0
        for ridge in RIDGES:
            try:
                triangle = sl.cholesky(K + np.diag(added + ridge * scale), lower=True)
            except (sl.LinAlgError, ValueError):
                continue
            return FactoredSystem(triangle)
        return None

    def bend(self, squares: Floats, step: Floats) -> Floats:
        """Return numbers that are at least what the regulariser adds to the bracket, divided by the
        step: a quarter of ‖h‖².
        """
        return 0.25 * squares

    def longest_step(self, squares: Floats) -> Floats:
        """Return up to which step :meth:`bend` says something."""
        return np.full(squares.shape, np.inf)


def _halved(x: Bounded) -> Bounded:
    return x * 0.5


@dataclass(frozen=True, eq=False)
class LinearPoints(Points):
    """The rows themselves."""

    rows: Rows
    shift: Floats
    constant: bool
    centre: Ball
    separation: Bounded
    scale: Bounded = field(default_factory=lambda: exact(1.0))

    @classmethod
    def of_space(
        cls, space: LinearSpace, model: LinearModel, v: Floats | Bounded, moved: float = 0.0
    ) -> LinearPoints:
        """Return those of a machine of two classes."""
        constant = space.intercept == "penalised"
        w = np.append(model.coef, model.intercept) if constant else model.coef
        one, other = Ball(w, moved), space.expansion(v)
        return cls(
            space.rows, space.centre, constant, halved(one + other), (one - other).squared_norm()
        )

    def separation_below(self) -> float:
        """The lower end of :attr:`separation`."""
        return max(self.separation.lower_end, 0.0)

    def distance_below(self, other: Self) -> float:
        """The lower end of the squared norm of the difference."""
        return max(((self.centre - other.centre).squared_norm() * self.scale).lower_end, 0.0)

    def tested(self, T: Features) -> LinearTested:
        """Shift the rows like those of the training data; sparse ones are kept sparse with sparse
        training data only.
        """
        if sp.issparse(T) and not sp.issparse(self.rows.X):
            T = T.toarray()
        elif sp.issparse(self.rows.X) and not sp.issparse(T):
            T = sp.csr_array(T)
        shifted = bool(self.shift.any())
        if shifted:
            T = T - self.shift
        elif self.constant:
            T = with_constant(T)
        return LinearTested(self, Rows(T, shifted=shifted))

    def training_scores(self, rows: Chosen) -> Bounded:
        """Scores of the shifted rows."""
        return self.some(rows) @ self.centre

    def some(self, rows: Chosen) -> Rows:
        """Return some of the training rows."""
        own = self.rows
        return Rows(own.X[rows], own.norms[rows], shifted=own.shifted)

    def gram(self, rows: Chosen) -> Floats:
        """Inner products of the shifted rows."""
        X = self.rows.X[rows]
        found = X @ X.T
        return np.asarray(
            self.scale.value * np.asarray(found.toarray() if sp.issparse(found) else found)
        )

    def squared_lengths(self) -> Floats:
        """Squared norms of the shifted rows."""
        return np.asarray(self.rows.norms**2 * self.scale.value)

    @property
    def row_limits(self) -> tuple[int, ...]:
        """More where there are few columns: the system is then solved in these."""
        return (
            (LARGEST_SYSTEM,) if self.rows.X.shape[1] > FEW_COLUMNS else (LARGEST_SYSTEM, MOST_ROWS)
        )

    def solver(self, rows: Chosen, added: Floats) -> Solver | None:
        """Of many rows in as many unknowns as there are columns."""
        if rows.size <= LARGEST_SYSTEM:
            return super().solver(rows, added)
        X = self.rows.X[rows]
        X = (X.toarray() if sp.issparse(X) else X) * np.sqrt(self.scale.value)
        D = (added + RIDGES[0] * (float(self.squared_lengths()[rows].max()) or 1.0))[:, None]
        inner = np.eye(X.shape[1]) + X.T @ (X / D)
        try:
            triangle = sl.cholesky(inner, lower=True)
        except (sl.LinAlgError, ValueError):
            return None

        return WideSystem(X, D, triangle)


def halved(w: Ball) -> Ball:
    """Return half of a point, which is exact but for underflow."""
    return Ball(0.5 * w.value, 0.5 * w.distance + UNDERFLOW)


@dataclass(frozen=True, eq=False)
class LinearTested(Tested):
    """Shifted rows."""

    points: LinearPoints
    rows: Rows

    def some(self, chosen: Chosen) -> LinearTested:
        """Their shifted rows."""
        return LinearTested(
            self.points,
            Rows(self.rows.X[chosen], self.rows.norms[chosen], shifted=self.rows.shifted),
        )

    @cached_property
    def scores(self) -> Bounded:
        """Scores of the shifted rows."""
        return self.rows @ self.points.centre

    def products(self, rows: Chosen) -> Floats:
        """Inner products of the shifted rows."""
        found = self.rows.X @ self.points.rows.X[rows].T
        return np.asarray(
            self.points.scale.value * np.asarray(found.toarray() if sp.issparse(found) else found)
        )

    def squared_lengths(self) -> Floats:
        """Squared norms of the shifted rows."""
        return np.asarray(self.rows.norms**2 * self.points.scale.value)

    @quietly
    def squared_distances(self, rows: Chosen, c: Floats) -> Floats:
        """Norms of the differences, which are computed as vectors: a small one keeps its digits."""
        training = self.points.some(rows)
        X, T = training.X, self.rows.X
        combined = c.T @ X if not sp.issparse(X) else (X.T @ c).T
        difference = np.asarray((T.toarray() if sp.issparse(T) else T) - combined)
        # A coordinate of a sum of r products, of rows of which each coordinate was rounded once,
        # less another such coordinate.
        sizes = exact(sums_above(np.abs(c).T @ training.norms, rows.size))
        off = inner_error(rows.size + 2, sizes.value) + roundings(3) * (self.rows.norms + sizes)
        off = off + UNDERFLOW * np.sqrt(difference.shape[1]) * (rows.size + 1.0)
        length = (row_norms_above(difference) + off).upper
        found = square(exact(np.nan_to_num(length, nan=np.inf)))
        return np.asarray((found * self.points.scale).upper)


@dataclass(frozen=True, eq=False)
class KernelPoints(Points):
    """Rows through a kernel."""

    space: KernelSpace
    model: KernelModel
    v: Floats | Bounded
    moved: float = 0.0

    @property
    def kernel(self) -> Kernel:
        """With its parameters as numbers."""
        return self.space.resolved

    @property
    def _constant(self) -> bool:
        return self.space.intercept == "penalised"

    @cached_property
    def _expanded(self) -> KernelModel:
        """The model of the known coefficients of w_α."""
        return self.space.model(exact(self.v).value)

    @cached_property
    def distance(self) -> float:
        """Bound on the distance of the mean from the mean of the two models, without their
        rounding: half of what each may be moved.
        """
        off = 0.5 * self.moved
        v = exact(self.v)
        if not v.is_exact:
            errors = exact(np.broadcast_to(v.error, v.shape))
            off = (exact(off) + total(errors * self.space.lengths) * 0.5).upper_end
        if self._constant:
            # The intercept of a model is the sum of its coefficients, rounded.
            off = (exact(off) + exact(self._sum_off)).upper_end
        return off

    @cached_property
    def _sum_off(self) -> float:
        return float(abs(exact(self._expanded.intercept) - total(exact(exact(self.v).value))).upper)

    def _mean(self, X: Features) -> Bounded:
        """Scores of the mean of the two models."""
        one = self.model.scores(X)
        if self._same:
            return one
        return _halved(one + self._expanded.scores(X))

    @cached_property
    def _same(self) -> bool:
        """Whether both models are the same expansion."""
        one, other = self.model, self._expanded
        same = np.array_equal(one.support, other.support) and np.array_equal(
            one.dual_coef, other.dual_coef
        )
        return same and one.intercept == other.intercept and self._expands

    @cached_property
    def _expands(self) -> bool:
        """Whether the support vectors of the model are rows of the data."""
        data, vectors = self.space.data, self.model.vectors
        places = np.searchsorted(data.index, self.model.support)
        if (
            vectors is None
            or (places >= data.n).any()
            or not np.array_equal(data.index[places], self.model.support)
        ):
            return False
        rows = data.X[places]
        if rows.shape != vectors.shape or sp.issparse(rows) != sp.issparse(vectors):
            return False
        return bool(
            (rows != vectors).nnz == 0 if sp.issparse(rows) else np.array_equal(rows, vectors)
        )

    @cached_property
    def separation(self) -> Bounded:
        """‖ŵ − w_α‖²; between 0 and infinity for a model that does not expand over the data."""
        if self._same and exact(self.v).is_exact:
            found, apart = exact(0.0), exact(0.0)
        elif not self._expands:
            return Bounded(0.0, np.inf)
        else:
            full = np.zeros(self.space.data.n)
            full[np.searchsorted(self.space.data.index, self.model.support)] = self.model.dual_coef
            difference = exact(full) - exact(self.v)
            free = replace(self.space, intercept="free") if self._constant else self.space
            found = positive_part(free.squared_norm_of(difference))
            apart = (
                exact(self.model.intercept) - total(exact(self.v)) if self._constant else exact(0.0)
            )
        found = found + square(apart)
        if self.moved:
            off = exact(self.moved)
            found = found.widened((2.0 * off * sqrt(found) + square(off)).upper_end)
        return found

    def separation_below(self) -> float:
        """The lower end of :attr:`separation`."""
        return max(self.separation.lower_end, 0.0)

    def distance_below(self, other: Self) -> float:
        """The lower end of the squared norm of the difference, where both expand over the data."""
        if not (self._expands and other._expands) or self._constant or self.moved or other.moved:
            return 0.0
        difference = _halved(self._coefficients - other._coefficients)
        return max(self.space.squared_norm_of(difference).lower_end, 0.0)

    @property
    def _coefficients(self) -> Bounded:
        """Twice those of the centre."""
        full = np.zeros(self.space.data.n)
        full[np.searchsorted(self.space.data.index, self.model.support)] = self.model.dual_coef
        return exact(full) + exact(self.v)

    def tested(self, T: Features) -> KernelTested:
        """As they are."""
        return KernelTested(self, T)

    def scores(self, X: Features) -> Bounded:
        """Scores of the centre."""
        found = self._mean(X)
        if self.distance:
            found = Bounded(
                found.value, (exact(found.error) + exact(self.distance) * self.lengths(X)).upper
            )
        return found

    def training_scores(self, rows: Chosen) -> Bounded:
        """Scores of the centre."""
        return self.scores(self.space.data.X[rows])

    def lengths(self, X: Features) -> Bounded:
        """Numbers that are at least ‖φ(x)‖, a constant feature included."""
        squares = exact(self.diagonal_above(X))
        return exact(sqrt(squares + 1.0 if self._constant else squares).upper)

    def diagonal_above(self, X: Features) -> Floats:
        """Numbers that are at least k(x, x): a power of a sum of terms that are not negative, or 1."""
        diagonal = np.abs(np.asarray(self.kernel.diagonal(X), dtype=np.float64))
        if not isinstance(self.kernel, (Linear, Polynomial)):
            return diagonal
        degree = int(self.kernel.degree) if isinstance(self.kernel, Polynomial) else 1
        return power_above(diagonal, degree, int(X.shape[1]))

    def gram(self, rows: Chosen) -> Floats:
        """The kernel matrix."""
        return self.space.block(rows, rows)

    def squared_lengths(self) -> Floats:
        """k(x, x)."""
        return self.space.diagonal()


@dataclass(frozen=True, eq=False)
class KernelTested(Tested):
    """Rows, and their kernel with training rows."""

    points: KernelPoints
    X: Features

    def some(self, chosen: Chosen) -> KernelTested:
        """Their rows."""
        return KernelTested(self.points, self.X[chosen])

    @cached_property
    def scores(self) -> Bounded:
        """Scores of the centre."""
        return self.points.scores(self.X)

    def products(self, rows: Chosen) -> Floats:
        """The kernel."""
        found: Floats = np.asarray(self.points.kernel(self.X, self.points.space.data.X[rows]))
        return np.asarray(found + 1.0) if self.points._constant else found

    def squared_lengths(self) -> Floats:
        """k(x, x)."""
        found = np.asarray(self.points.kernel.diagonal(self.X), dtype=np.float64)
        return np.asarray(found + 1.0) if self.points._constant else found

    @quietly
    def squared_distances(self, rows: Chosen, c: Floats) -> Floats:
        """k(x, x) − 2c'k + c'Kc with the errors of the entries and of the sums."""
        points, C = self.points, c.T
        sizes, r = np.abs(C), int(rows.size)
        own = exact(points.diagonal_above(self.X))
        if not r:
            found = own
        else:
            X = points.space.data.X[rows]
            k, k_error = points.kernel.bounded_block(self.X, X)
            K, K_error = points.kernel.bounded_block(X, X)
            cross_error = exact(inner_error(r, _sums(sizes * np.abs(k)))) + _sums(
                sizes * k_error.matrix(k)
            )
            cross = Bounded(np.einsum("ij,ij->i", C, k), cross_error.upper)
            inside = (np.abs(K) @ sizes.T).T
            square_error = exact(inner_error(2 * r + 4, _sums(sizes * inside)))
            square_error = square_error + _sums(sizes * (K_error.matrix(K) @ sizes.T).T)
            squares = Bounded(np.einsum("ij,ij->i", C @ K, C), square_error.upper)
            found = own - 2.0 * cross + squares
        if points._constant:
            ones = exact(np.ones(C.shape[0]))
            summed = (
                Bounded(C.sum(axis=1), inner_error(r + 2, _sums(sizes)))
                if r
                else exact(np.zeros(C.shape[0]))
            )
            found = found + square(ones - summed)
        above: Floats = np.maximum(np.asarray(found.upper), 0.0)
        return above


def _sums(values: Floats) -> Floats:
    """Return numbers that are at least the sums of rows of products of up to three numbers that are
    not negative.
    """
    return np.asarray(sums_above(values.sum(axis=1), 2 * values.shape[1] + 8))
