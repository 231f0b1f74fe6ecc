"""The feature space of a linear machine: the data themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.data import BinaryData, Features
from svmcvx.feature_space.base import FeatureSpace, Product, RowBlock
from svmcvx.kernels import Kernel, row_norms
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.rounding import U, dot_exactly, inner_error, norm_above, row_norms_above, sum_above, weighted_rows
from svmcvx.system import memory
from svmcvx.system.abandoned import triangle as triangle_of

__all__ = ["DENSE", "LinearSpace", "square_error", "with_constant"]

Floats: TypeAlias = NDArray[np.float64]


def _dense(matrix: Any) -> NDArray[Any]:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def with_constant(X: Features) -> Features:
    """Return the data with a constant column 1 appended."""
    ones = np.ones((X.shape[0], 1))
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])


# Share of entries that are not zero from which sparse data with a free intercept are treated as dense: faster, and it lets them
# be centred.
DENSE = 0.3
# Columns that are kept as they are whatever the number of rows.
FEW_COLUMNS = 10


def square_error(w: Floats, w_error: float) -> float:
    r"""Return a bound on the error of :math:`\|w\|^2` for a w whose own error has at most the norm `w_error`."""
    square = float(w @ w)
    error = (2.0 * norm_above(w) * w_error + w_error * w_error + inner_error(w.size + 2, square)) * (1.0 + 8 * U)
    return float(error)


@dataclass(frozen=True, eq=False)
class LinearSpace(FeatureSpace):
    """The data themselves.

    With a free intercept the columns of dense data are centred: this changes nothing but the intercept, and keeps
    the digits of data with a large offset. With a penalised one a constant column is appended.

    Parameters
    ----------
    data : BinaryData
    intercept : "free", "penalised" or "none"
    """

    data: BinaryData
    intercept: str
    # That of all blocks, where the data are one of them.
    given_centre: Floats | None = None
    # Numbers that are at least the norms of the rows, where they are known.
    given_norms: Floats | None = None

    @cached_property
    def centre(self) -> Floats:
        """What was subtracted from the columns."""
        if self.given_centre is not None:
            return self.given_centre
        if self.intercept == "free" and not sp.issparse(self.data.X):
            return np.asarray(self.data.X.mean(axis=0))
        return np.zeros(self.data.X.shape[1])

    @cached_property
    def X(self) -> Features:
        """The data as the formulation sees them."""
        if self.intercept == "penalised":
            return with_constant(self.data.X)
        return self.data.X - self.centre if self.centre.any() else self.data.X

    @cached_property
    def _row_norms(self) -> Floats:
        """At least the norms of the rows of :attr:`X`."""
        return row_norms_above(self.X) if self.given_norms is None else self.given_norms

    @property
    def factor_is_data(self) -> bool:
        """Whether :attr:`factor` is the data themselves, without any rounding."""
        n, d = self.X.shape
        return bool(d <= max(n, FEW_COLUMNS))

    @property
    def factored(self) -> bool:
        """Whether the factor is known already, or is the data."""
        return self.factor_is_data or "factor" in self.__dict__

    @cached_property
    def factor(self) -> Features:
        """The data, or a square factor of `XX'` when there are more columns than rows, and more than a few."""
        n, d = self.X.shape
        if self.factor_is_data:
            return self.X
        # Of sparse data never more columns than rows are dense at once.
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
            rows = np.vstack([triangle, (part.toarray() if sp.issparse(part) else part).T])
            triangle = triangle_of(rows)
        return np.ascontiguousarray(triangle.T)

    @property
    def facts(self) -> dict[str, float]:
        """Nothing to report."""
        return {}

    @property
    def kernel(self) -> Kernel | None:
        """None: linear."""
        return None

    @property
    def blockwise(self) -> bool:
        """False: there is no kernel."""
        return False

    @property
    def stored_gram(self) -> Floats | None:
        """None: no Gram matrix is formed."""
        return None

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return inner products of observations."""
        return _dense(self.X[rows] @ self.X[columns].T)

    def diagonal(self) -> Floats:
        """Return the squared norms of the observations."""
        return np.asarray(row_norms(self.X) ** 2, dtype=np.float64)

    def diagonal_above(self) -> Floats:
        """Return the squared norms of the observations from above."""
        return self._row_norms**2 * (1.0 + 8.0 * U)

    def row_block(self, dtype: DTypeLike) -> RowBlock:
        """Return a function that multiplies rows with all observations."""
        X = self.X.astype(dtype, copy=False)

        def block(rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
            product = _dense(X[rows] @ X.T)
            if out is None:
                return product
            out[...] = product
            return out

        return block

    def product(self, v: Floats) -> Product:
        """Evaluate ``w = X'v`` and its scores ``Xw``.

        With a free intercept both are those of the data as they were passed less their mean: if the sum of `v` is exactly 0,
        as that of balanced multipliers is, w does not depend on what is subtracted.
        """
        d = int(self.X.shape[1])
        w, w_error = self.expansion(v)
        size = norm_above(w)
        scores = np.asarray(self.X @ w)
        # Cauchy-Schwarz in place of |X||w|: no copy of the data.
        rounding = (self._row_norms * w_error + inner_error(d + 1, self._row_norms * size)) * (1.0 + 8 * U)
        return Product(scores, float(w @ w), rounding, square_error(w, w_error))

    def expansion(self, v: Floats) -> tuple[Floats, float]:
        """Return ``w = X'v`` and a bound on the norm of its error; see :meth:`product` for what is subtracted."""
        w, w_error = weighted_rows(self.X, v, self._row_norms)
        if self.centre.any():
            # Each coordinate of a shifted row has a rounding of its own.
            w_error += 1.01 * U * sum_above(np.abs(v) * self._row_norms)
        return w, w_error

    def scores(self, model: BinaryModel) -> tuple[Floats, Floats]:
        """Return the scores of a model on the training data and bounds on their errors.

        Of dense data the scores are evaluated from shifted rows, with the intercept moved exactly: they keep the digits that a
        large offset of the data would cost.
        """
        if not isinstance(model, LinearModel) or not self.centre.any() or model.coef.size != self.centre.size:
            return super().scores(model)
        bias = dot_exactly(self.centre, model.coef, model.intercept)
        if not math.isfinite(bias):
            return super().scores(model)
        scores = np.asarray(self.X @ model.coef) + bias
        size = norm_above(model.coef)
        rounding = inner_error(int(self.X.shape[1]) + 3, self._row_norms * size)
        return scores, (rounding + 2.0 * U * (np.abs(scores) + abs(bias))) * (1.0 + 8 * U)

    def model(self, v: Floats, bias: float = 0.0) -> LinearModel:
        """Return ``w = X'v`` with the intercept moved to the data as they were passed."""
        return self._model(np.asarray(self.X.T @ v), bias, v != 0)

    def model_from_factor(self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None) -> LinearModel:
        """Return the model of `w`, given in the columns of the data or of their square factor."""
        n = self.X.shape[0]
        if not self.factor_is_data:
            v, *_ = sl.lstsq(self.factor.T, w, check_finite=False)
            w = np.asarray(self.X.T @ v)
        return self._model(w, bias, np.ones(n, dtype=bool) if support is None else support)

    def _model(self, w: Floats, bias: float, support: NDArray[np.bool_]) -> LinearModel:
        if self.intercept == "penalised":
            w, bias = w[:-1], float(w[-1])
        return LinearModel(
            coef=w,
            intercept=bias - float(self.centre @ w),
            classes=self.data.classes,
            support=self.data.index[support],
        )
