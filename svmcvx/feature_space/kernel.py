"""The feature space of a kernel, through its Gram matrix or block by block."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, exact, positive_part, square, total
from svmcvx.certificate.rows import Rows, inner_error, sums_above
from svmcvx.data import FEW, BinaryData, Features
from svmcvx.errors import DataError
from svmcvx.feature_space.linear import FeatureSpace, Point, RowBlock, point_of_rows, row_block_of
from svmcvx.kernels import CallableKernel, Kernel, Precomputed
from svmcvx.kernels.columns import TILE_ENTRIES, KernelColumns, KernelProduct, product_of
from svmcvx.kernels.factor import GramFactor, gram_factor, is_single, require_symmetric
from svmcvx.kernels.functions import EntryError, dense, inner_error_of, symmetrised
from svmcvx.kernels.gram import CachedGram, GramCache, same_rows
from svmcvx.model import BinaryModel, KernelModel
from svmcvx.system import memory
from svmcvx.system.deadline import OutOfTime, checkpoint, interruptible, run_with_deadline


class _UserGram(NamedTuple):
    """A user's matrix or its mean with the transpose: single precision or not, averaged or not."""

    matrix: Floats
    single: bool
    averaged: bool


@dataclass(frozen=True, eq=False)
class KernelSpace(FeatureSpace):
    """A reproducing kernel space, through the Gram matrix of the training data."""

    data: BinaryData
    resolved: Kernel
    intercept: str
    indefinite: str = "error"
    keep_gram: bool = True
    cache: GramCache | None = None

    def __post_init__(self) -> None:
        if not self.keep_gram and not self.resolved.definite:
            object.__setattr__(self, "keep_gram", True)

    @property
    def kernel(self) -> Kernel | None:
        return self.resolved

    @property
    def blockwise(self) -> bool:
        return not self.keep_gram

    @property
    def stored_gram(self) -> Floats | None:
        if self.keep_gram:
            return self.gram
        return None if self.cached_gram is None else self.cached_gram.matrix

    @property
    def _constant(self) -> float:
        """The constant that a penalised intercept adds to all entries."""
        return 1.0 if self.intercept == "penalised" else 0.0

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        if self.keep_gram:
            return np.asarray(self.gram[np.ix_(rows, columns)])
        return np.asarray(self.columns(columns)(rows), dtype=np.float64) + self._constant

    @property
    def _has_gram(self) -> bool:
        """Whether the matrix is stored; that of a definite kernel once it is evaluated."""
        return self.keep_gram and (self.factored or not self.resolved.definite)

    def diagonal(self) -> Floats:
        if self._has_gram:
            return np.array(np.diagonal(self.gram))
        entries = np.asarray(self.resolved.diagonal(self.data.X), dtype=np.float64)
        return entries + self._constant

    def diagonal_above(self) -> Floats:
        if self.clipped is not None:
            return np.asarray(square(exact(self.clipped.norms)).upper)
        if self._has_gram:
            diagonal = np.abs(self.diagonal())
            return np.asarray(Bounded(diagonal, self.gram_error.of_diagonal(diagonal)).upper)
        entries = exact(self.resolved.diagonal_above(self.data.X))
        return np.asarray((entries + self._constant).upper)

    def row_block(self, dtype: DTypeLike) -> RowBlock:
        if self.keep_gram:
            return row_block_of(lambda rows: self.gram[rows])
        whole = self._all_columns if np.dtype(dtype) == np.float64 else None
        columns = whole or self.columns(dtype=dtype)
        if not self._constant:
            return columns
        return row_block_of(lambda rows: columns(rows) + self._constant)

    @cached_property
    def _given_gram(self) -> Floats:
        n = self.data.n
        memory.require(
            # The matrix, its factor and two copies.
            4 * 8.0 * float(n) ** 2,
            f"the {n} × {n} kernel matrix and its factor",
            "use fewer observations, the linear formulation, or a specialised solver that keeps no"
            " kernel matrix",
        )
        K = self._evaluated() if self.cached_gram is None else self.cached_gram.matrix
        if self._constant:
            if self.indefinite == "error" and not self.resolved.definite:
                # The constant may hide that the kernel is indefinite.
                gram_factor(K, single=self._single)
            K = K + 1.0
        return K

    @cached_property
    def _user_gram(self) -> _UserGram | None:
        """The matrix of a precomputed kernel or of a user's function; its symmetry is tested."""
        X, index = self.data.X, self.data.index
        if isinstance(self.resolved, Precomputed):
            K = dense(X if np.array_equal(index, np.arange(X.shape[1])) else X[:, index])
            single, averaged = is_single(K), not np.array_equal(K, K.T)
            if not averaged:
                return _UserGram(K, single, averaged)
        elif isinstance(self.resolved, CallableKernel):
            K = np.asarray(self.resolved.block(X, X), dtype=np.float64)
            single = averaged = is_single(K)
        else:
            return None
        require_symmetric(K)
        return _UserGram(symmetrised(K), single, averaged)

    @property
    def _single(self) -> bool:
        """Whether a user's matrix or function was rounded to single precision."""
        return self._user_gram is not None and self._user_gram.single

    def _evaluated(self) -> Floats:
        if self._user_gram is not None:
            return self._user_gram.matrix
        return np.asarray(
            run_with_deadline(self.resolved, self.data.X, entries=float(self.data.n) ** 2),
            dtype=np.float64,
        )

    @cached_property
    def cached_gram(self) -> CachedGram | None:
        """The Gram matrix without the intercept's constant, cached, or stored if it is small."""
        if isinstance(self.resolved, Precomputed):
            return None
        if self.cache is not None:
            return self.cache.gram(self.resolved, self.data.X, self._evaluated)
        if self.keep_gram or self.data.n > FEW:
            return None
        # Of a few observations; its entries are those of a symmetric matrix up to their errors.
        matrix, error = self.columns().matrix()
        return CachedGram(self.resolved, self.data.X, matrix, error)

    @cached_property
    def factorisation(self) -> GramFactor:
        """The factor of the Gram matrix with its rank and the clipped share of the spectrum."""
        if self.data.n > FEW:
            checkpoint()
        if self.cached_gram is None:
            return gram_factor(self._given_gram, indefinite=self.indefinite, single=self._single)
        constant = self.intercept == "penalised"
        return self.cached_gram.factor(
            self._given_gram, constant=constant, indefinite=self.indefinite
        )

    @property
    def factored(self) -> bool:
        return "factorisation" in self.__dict__

    @property
    def factor(self) -> Features:
        return self.factorisation.L

    @cached_property
    def clipped(self) -> Rows | None:
        """The rows of the factor of the positive part if an indefinite kernel was clipped: they
        are the features, so that their inner products are the kernel without rounding.
        """
        if not self.keep_gram or self.factorisation.projector is None:
            return None
        return Rows(self.factorisation.L)

    @cached_property
    def gram(self) -> Floats:
        """The Gram matrix; its positive part if an indefinite kernel was clipped."""
        L = self.factorisation.L
        return self._given_gram if self.clipped is None else L @ L.T

    @property
    def facts(self) -> dict[str, float]:
        if not self.keep_gram:
            return {}
        try:
            with nullcontext() if self.factored else interruptible():
                found = self.factorisation
        except OutOfTime:
            return {}
        return {"rank": float(found.rank)} | (
            {} if self.clipped is None else {"clipped_mass": found.clipped_mass}
        )

    def _evaluated_point(self, v: Floats) -> Point:
        if not v.any():
            return Point(v, exact(np.zeros(v.size)), exact(0.0))
        if self.clipped is not None:
            return point_of_rows(self.clipped, v)
        if not self.keep_gram:
            return self._blockwise(v)
        found = product_of(self.gram, self.gram_error, v, np.abs(self.gram))
        # As many terms as the second checker counts, whose bounds in doubles have to prove the same
        # interval.
        error = inner_error(v.size + 2, found.magnitude) + found.entries
        return self._bounded_point(v, Bounded(found.scores, error))

    def scores_of(self, v: Floats) -> Floats:
        return np.asarray(self.gram @ v if self.keep_gram else self.point(v).scores.value)

    @cached_property
    def gram_error(self) -> EntryError:
        """Bound on the error of :attr:`gram` against the kernel of the rows as passed."""
        n = self.data.n
        if self.clipped is not None:
            return inner_error_of(self.factor, self.factor)
        if isinstance(self.resolved, Precomputed):
            error = EntryError.none(n, n)
        elif self.cached_gram is not None:
            error = self.cached_gram.error
        else:
            error = self.resolved.error_of(self.data.X, self.data.X, self._given_gram)
        # Roundings of the mean with the transpose and of the constant of an intercept.
        return error.rounded(4.0)

    def _bounded_point(self, v: Floats, f: Bounded) -> Point:
        """Return the point of coefficients and their scores."""
        support = np.flatnonzero(v)
        return Point(v, f, positive_part(total(exact(v[support]) * f[support])))

    def columns(
        self, columns: NDArray[np.intp] | None = None, dtype: DTypeLike = np.float64
    ) -> KernelColumns:
        """Return columns of the kernel for blocks, without intercept and clipping."""
        X = self.data.X
        chosen = X if columns is None else X[columns]
        return KernelColumns(self.resolved, X, chosen, dtype, self._mean)

    @cached_property
    def _mean(self) -> Floats | None:
        X = self.data.X
        return None if sp.issparse(X) else X.mean(axis=0)

    @cached_property
    def _all_columns(self) -> KernelColumns | None:
        """All columns, prepared once for all points if there are few; None otherwise."""
        few = not sp.issparse(self.data.X) and self.data.X.size <= TILE_ENTRIES
        return self.columns() if few else None

    @cached_property
    def copies(self) -> NDArray[np.intp] | None:
        """The first observation equal to each, label included; None where most are different."""
        found = None if self.keep_gram else self.data.equal_rows
        return None if found is None else found[0][found[1]]

    def _blockwise(self, v: Floats) -> Point:
        """Evaluate a point from the columns of its support, block by block."""
        if self.cached_gram is None and (near := self._near_multiple(v)) is not None:
            return near
        support = np.flatnonzero(v)
        terms, summed = support.size, v
        if self.cached_gram is not None:
            found = self.cached_gram.product(v, lambda: self._cached_product(support, v[support]))
        else:
            if self.copies is not None:
                sums = [np.bincount(self.copies, part, v.size) for part in (v, np.abs(v))]
                # Opposite signs would hide the rounding of their terms.
                summed = np.asarray(sums[0] if np.array_equal(np.abs(sums[0]), sums[1]) else v)
                support = np.flatnonzero(summed)
            whole = self._all_columns
            columns = self.columns(support) if whole is None else whole.some(support)
            found = columns.product(summed[support])
        scores, magnitude = found.scores, found.magnitude
        # The sum of v for an intercept is one of n terms, the others are of the support.
        if self._constant:
            scores += v.sum()
            magnitude += np.abs(v).sum()
            terms += self.data.n
        if not np.isfinite(scores).all():
            raise DataError(
                "the Gram matrix contains NaN or infinity; scale the data or use a smaller gamma or"
                " degree"
            )
        error = inner_error(terms + 2, sums_above(magnitude, terms))
        error += sums_above(found.entries, terms)
        return self._bounded_point(v, Bounded(scores, error))

    def _near_multiple(self, v: Floats) -> Point | None:
        """Return a point, from a known one, that is its multiple but for roundings; else None."""
        if not self.resolved.definite:
            return None
        largest = int(np.argmax(np.abs(v)))
        for known in self._points:
            with np.errstate(all="ignore"):
                t = float(v[largest] / known.v[largest])
                if not (math.isfinite(t) and t != 0.0):
                    continue
                scaled = known.scores * t
                rest = abs(exact(v) - exact(known.v) * t)
                off = (self.lengths * total(rest * self.lengths).upper).upper
            if float(off.max()) <= float(np.max(scaled.error)):
                return self._bounded_point(v, scaled.widened(off))
        return None

    def _cached_product(self, support: NDArray[np.intp], chosen: Floats) -> KernelProduct:
        """Return the product with the cached matrix, block by block."""
        assert self.cached_gram is not None  # noqa: S101 - asked before
        n, whole = self.data.n, self.cached_gram.error.rounded(2.0)
        found = KernelProduct(np.zeros(n), np.zeros(n), np.zeros(n))
        width = max(1, TILE_ENTRIES // max(1, support.size))
        for start in range(0, n if support.size else 0, width):
            part = slice(start, start + width)
            block, error = self.cached_gram.matrix[part][:, support], whole.block(part, support)
            sizes = block if self.resolved.positive else np.abs(block)
            product = product_of(block, error, chosen, sizes)
            for array, values in zip(found, product, strict=True):
                array[part] = values
        return found

    def coefficients_of(self, model: BinaryModel) -> Floats | None:
        """Return v of a model of this kernel whose vectors are observations; None of others."""
        if not isinstance(model, KernelModel) or model.kernel != self.resolved:
            return None
        places = np.searchsorted(self.data.index, model.support)
        if (places >= self.data.n).any() or (self.data.index[places] != model.support).any():
            return None
        if model.vectors is not None and not same_rows(self.data.X[places], model.vectors):
            return None
        v = np.zeros(self.data.n)
        v[places] = model.dual_coef
        return v

    def _point_of(self, model: BinaryModel) -> Point | None:
        """Return the point of a model on observations, unless the Gram matrix is a changed one."""
        if self.clipped is not None:
            return self._clipped_point(model)
        if self._constant or isinstance(self.resolved, CallableKernel):
            return None
        if self._user_gram is not None and self._user_gram.averaged:
            return None
        v = self.coefficients_of(model)
        return None if v is None or not v.any() else self.point(v)

    def _clipped_point(self, model: BinaryModel) -> Point:
        """Return the point of a model's coefficients, with an error that reaches the scores that
        the kernel itself gives; nothing is known of models on other rows.
        """
        if (v := self.coefficients_of(model)) is None:
            nothing = Bounded(np.zeros(self.data.n), math.inf)
            return Point(nothing.value, nothing, Bounded(0.0, math.inf))
        found, intercept = self.point(v), self._constant * (model.intercept - float(v.sum()))
        apart: Any = np.abs(self._given_gram @ v + intercept - found.scores.value)
        reach = float(np.abs(v) @ apart)
        return Point(v, found.scores.widened(apart), found.squared_norm.widened(reach))

    def scores(self, model: BinaryModel) -> Bounded:
        point = self._point_of(model)
        if point is not None:
            return point.scores + (0.0 if self._constant else model.intercept)
        v = None
        if self._user_gram is not None and self._user_gram.averaged:
            v = self.coefficients_of(model)
        if v is None or self._user_gram is None:
            return super().scores(model)
        K = self._user_gram.matrix
        return Bounded(K @ v, inner_error(v.size + 2, np.abs(K) @ np.abs(v))) + model.intercept

    def squared_norm(self, model: BinaryModel) -> Bounded:
        point = self._point_of(model)
        return super().squared_norm(model) if point is None else point.squared_norm

    def model(self, v: Floats, bias: float = 0.0) -> KernelModel:
        # Coefficients that give with the kernel itself the scores that v gives with its positive
        # part.
        basis = self.factorisation.projector if self.keep_gram and v.any() else None
        v = v if basis is None else basis @ (basis.T @ v)
        support = np.flatnonzero(v)
        if support.size == 0:
            support = np.zeros(1, dtype=np.intp)
        return KernelModel(
            kernel=self.resolved,
            vectors=None if isinstance(self.resolved, Precomputed) else self.data.X[support],
            dual_coef=v[support],
            intercept=float(v.sum()) if self._constant else bias,
            classes=self.data.classes,
            support=self.data.index[support],
            n_features=int(self.data.X.shape[1]),
        )

    def model_from_factor(
        self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None
    ) -> KernelModel:
        return self.model(self.factorisation.expansion(w), bias)
