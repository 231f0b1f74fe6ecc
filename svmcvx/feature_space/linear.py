"""The feature space of a linear model: the data themselves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import (
    Bounded,
    correctly_rounded,
    exact,
    root_above,
    sqrt,
    square,
    total,
)
from svmcvx.certificate.exactly import dot_exactly
from svmcvx.certificate.rows import Ball, Rows, row_norms_above, row_norms_squared
from svmcvx.data import BinaryData, Features
from svmcvx.kernels import Kernel, row_norms
from svmcvx.kernels.functions import dense, inner
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.numerical import MarginOperator
from svmcvx.system import memory
from svmcvx.system.deadline import run_with_deadline


class Point(NamedTuple):
    """Scores `Kv` and the squared norm `v'Kv` of coefficients `v`, with rounding bounds."""

    v: Floats
    scores: Bounded
    squared_norm: Bounded


def point_of_rows(rows: Rows, v: Floats) -> Point:
    """Return the point of coefficients of rows that are themselves the features."""
    w = rows.combined(v)
    return Point(v, rows @ w, w.squared_norm())


# Evaluates rows of a Gram matrix: ``block(rows, out=None)``, written to `out` if that is given.
RowBlock: TypeAlias = Callable[..., NDArray[Any]]


def row_block_of(evaluate: Callable[[Any], NDArray[Any]]) -> RowBlock:
    """Return the block of a function that evaluates rows."""

    def block(rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        found = evaluate(rows)
        if out is None:
            return found
        out[...] = found
        return out

    return block


class FeatureSpace(ABC):
    """Training data seen through a kernel."""

    data: BinaryData
    intercept: str

    @property
    @abstractmethod
    def factor(self) -> Features:
        """A matrix `L` of shape (n, r) with ``L L' = K``."""

    @property
    def factored(self) -> bool:
        """Whether :attr:`factor` has been computed or takes negligible time."""
        return True

    @property
    def factor_is_data(self) -> bool:
        """Whether :attr:`factor` is the data matrix itself, without rounding."""
        return False

    def point(self, v: Floats) -> Point:
        """Return the point of `v`, evaluated once as a model, as its norm and as a dual point."""
        for known in self._points:
            if np.array_equal(known.v, v):
                return known
        found = self._evaluated_point(v.copy())
        # The two candidates of one answer are stored.
        self._points[:] = [found, *self._points[:1]]
        return found

    @cached_property
    def _points(self) -> list[Point]:
        """The points that were evaluated last, the latest first."""
        return []

    @abstractmethod
    def _evaluated_point(self, v: Floats) -> Point:
        """Evaluate the point with coefficients `v`, which is kept."""

    @abstractmethod
    def scores_of(self, v: Floats) -> Floats:
        """Return `Kv` without bounds on its rounding errors."""

    def margin_operator(self) -> MarginOperator:
        """Return the margins of multipliers, and the Gram matrix of signed observations."""
        y = self.data.y
        return MarginOperator(
            lambda alpha: y * self.scores_of(alpha * y),
            lambda rows: y[rows, None] * self.block(rows, rows) * y[rows],
            y if self.intercept == "free" else None,
        )

    def squared_norm_of(self, v: Bounded) -> Bounded:
        """Return the squared norm of a point whose coefficients are known up to errors δ."""
        _, f, found = self.point(v.value)
        if v.is_exact:
            return found
        off = exact(np.broadcast_to(v.error, v.shape))
        return found.widened(2.0 * total(off * abs(f)) + square(total(off * self.lengths)))

    @cached_property
    def lengths(self) -> Bounded:
        """At least the norms of the observations in feature space."""
        return sqrt(exact(self.diagonal_above()))

    @abstractmethod
    def model(self, v: Floats, bias: float = 0.0) -> BinaryModel:
        """Return the model of the point of `v`, and with `bias` if the intercept is free."""

    @abstractmethod
    def model_from_factor(
        self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None
    ) -> BinaryModel:
        """Return the model of the point with coordinates `w` in the columns of :attr:`factor`."""

    def squared_norm(self, model: BinaryModel) -> Bounded:
        r"""Return the penalty: :math:`\|w\|^2`, and the square of a penalised intercept."""
        found = model.squared_norm(self.data)
        return found + square(exact(model.intercept)) if self.intercept == "penalised" else found

    def scores(self, model: BinaryModel) -> Bounded:
        """Return the scores on the training data, with bounds on their rounding errors."""
        return model.scores(self.data.X)

    @property
    def facts(self) -> dict[str, float]:
        """Numbers that are shown with a certificate."""
        return {}

    @property
    def kernel(self) -> Kernel | None:
        """The kernel with its parameters as numbers; None for a linear space."""
        return None

    @property
    def is_linear(self) -> bool:
        """Whether the features are the columns of the data, :attr:`X`."""
        return self.kernel is None

    @property
    def X(self) -> Features:
        """The data of a linear space as the formulation sees them, shape (n, d)."""
        raise TypeError("a space with a kernel has no data matrix; use its factor or products")

    @property
    def centre(self) -> Floats:
        """The numbers subtracted from the columns of :attr:`X`."""
        raise TypeError("a space with a kernel has no data matrix; use its factor or products")

    @property
    def blockwise(self) -> bool:
        """Whether products are evaluated block by block, without a stored matrix or rows."""
        return False

    @property
    def stored_gram(self) -> Floats | None:
        """The Gram matrix if it is in memory, read-only; None otherwise."""
        return None

    @abstractmethod
    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return the Gram matrix between some observations and others."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """Return the squared norms of the observations in feature space, shape (n,)."""

    @abstractmethod
    def diagonal_above(self) -> Floats:
        """Return tight upper bounds of the squared norms of the observations, shape (n,)."""

    @abstractmethod
    def row_block(self, dtype: DTypeLike) -> RowBlock:
        """Return a function that evaluates rows of the Gram matrix in this precision."""


def with_constant(X: Features) -> Features:
    """Return the data with a constant column 1 appended."""
    n, d = X.shape
    if not sp.issparse(X):
        return np.hstack([X, np.ones((n, 1))])
    indptr = X.indptr + np.arange(n + 1, dtype=X.indptr.dtype)
    data, indices = np.ones(X.nnz + n), np.full(X.nnz + n, d, dtype=X.indices.dtype)
    given = np.ones(data.size, dtype=np.bool_)
    given[indptr[1:] - 1] = False
    data[given], indices[given] = X.data, X.indices
    return sp.csr_array((data, indices, indptr), shape=(n, d + 1))


# Share of non-zero entries from which sparse data with a free intercept are treated as dense: this
# is faster, and they can be centred.
DENSE = 0.3


@dataclass(frozen=True, eq=False)
class LinearSpace(FeatureSpace):
    """The data themselves."""

    data: BinaryData
    intercept: str
    # The centre of all blocks, if the data are one block.
    given_centre: Floats | None = None
    # Upper bounds of the norms of the rows, if known.
    given_norms: Floats | None = None

    @cached_property
    def centre(self) -> Floats:
        if self.given_centre is not None:
            return self.given_centre
        if self.intercept == "free" and not sp.issparse(self.data.X):
            return np.asarray(self.data.X.mean(axis=0))
        return np.zeros(self.data.X.shape[1])

    @cached_property
    def X(self) -> Features:
        if self.intercept == "penalised":
            return with_constant(self.data.X)
        return self.data.X - self.centre if self.centre.any() else self.data.X

    @cached_property
    def squares(self) -> Floats:
        """Squared norms of the rows as they were passed."""
        return np.asarray(row_norms_squared(self.data.X))

    @cached_property
    def norms(self) -> Floats:
        """Upper bounds of the norms of the rows of :attr:`X`."""
        if self.given_norms is not None:
            return self.given_norms
        if self.centre.any():
            return row_norms_above(self.X)
        constant = self.intercept == "penalised"
        return np.asarray(root_above(self.squares + constant, self.data.X.shape[1] + constant))

    @cached_property
    def rows(self) -> Rows:
        """The rows of :attr:`X` with norms; centred rows have a rounding error per coordinate."""
        return Rows(self.X, self.norms, shifted=bool(self.centre.any()))

    @cached_property
    def _feature_rows(self) -> Rows:
        """The rows as they were passed, without a constant column, if they are not centred."""
        return Rows(self.data.X, self.norms) if self.intercept == "penalised" else self.rows

    @property
    def factor_is_data(self) -> bool:
        n, d = self.X.shape
        # So few columns cost nothing, however few the rows.
        return bool(d <= max(n, 10))

    @property
    def factored(self) -> bool:
        return self.factor_is_data or "factor" in self.__dict__

    @cached_property
    def factor(self) -> Features:
        n, d = self.X.shape
        if self.factor_is_data:
            return self.X
        # At most as many columns of sparse data as rows are dense at the same time.
        width = max(n, 1) if sp.issparse(self.X) else d
        memory.require(
            8.0 * (n * min(width + n, d) + n * n),
            f"the factor of {n} × {d} data",
            "select features or use fewer observations",
        )
        columns = self.X.tocsc() if sp.issparse(self.X) else self.X
        triangle = np.zeros((0, n))
        for start in range(0, d, width):
            part = columns[:, start : start + width]
            rows = np.vstack([triangle, dense(part).T])
            found: Any = run_with_deadline(np.linalg.qr, rows, "r")
            triangle = np.asarray(found)
        return np.ascontiguousarray(triangle.T)

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        return inner(self.X[rows], self.X[columns])

    def diagonal(self) -> Floats:
        return np.asarray(row_norms(self.X) ** 2, dtype=np.float64)

    def diagonal_above(self) -> Floats:
        return np.asarray(square(exact(self.norms)).upper)

    def row_block(self, dtype: DTypeLike) -> RowBlock:
        X = self.X.astype(dtype, copy=False)
        return row_block_of(lambda rows: inner(X[rows], X))

    def _evaluated_point(self, v: Floats) -> Point:
        return point_of_rows(self.rows, v)

    def squared_norm_of(self, v: Bounded) -> Bounded:
        # Scores take another product.
        if v.is_exact and not self._points:
            return self.expansion(v).squared_norm()
        return super().squared_norm_of(v)

    def scores_of(self, v: Floats) -> Floats:
        return np.asarray(self.X @ (self.X.T @ v))

    def expansion(self, v: Floats | Bounded) -> Ball:
        """Return ``w = X'v``; see :meth:`point` for the centre."""
        w = self._feature_rows.combined(v)
        if self.intercept != "penalised":
            return w
        # Of the constant column; the norms include it.
        last = total(Bounded(exact(v).value))
        return Ball(np.append(w.value, last.value), w.widened(float(last.error)).distance)

    def scores(self, model: BinaryModel) -> Bounded:
        if (
            not isinstance(model, LinearModel)
            or not model.coef.any()
            or model.coef.size != self.data.X.shape[1]
        ):
            return model.scores(self.data.X)
        if not self.centre.any():
            return self._feature_rows @ Ball(model.coef) + model.intercept
        bias = dot_exactly(self.centre, model.coef, model.intercept)
        return (
            self.rows @ Ball(model.coef) + correctly_rounded(bias)
            if math.isfinite(bias)
            else model.scores(self.data.X)
        )

    def model(self, v: Floats, bias: float = 0.0) -> LinearModel:
        w = self.X.T @ v if v.any() else np.zeros(self.X.shape[1])
        return self._model(np.asarray(w), bias, v != 0)

    def model_from_factor(
        self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None
    ) -> LinearModel:
        if not self.factor_is_data:
            v, *_ = sl.lstsq(self.factor.T, w, check_finite=False)
            w = np.asarray(self.X.T @ v)
        return self._model(
            w, bias, np.ones(self.data.n, dtype=bool) if support is None else support
        )

    def _model(self, w: Floats, bias: float, support: NDArray[np.bool_]) -> LinearModel:
        if self.intercept == "penalised":
            w, bias = w[:-1], float(w[-1])
        return LinearModel(
            coef=w,
            intercept=bias - float(self.centre @ w),
            classes=self.data.classes,
            support=self.data.index[support],
        )
