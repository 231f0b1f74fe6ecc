r"""Feature spaces: what a formulation needs of a kernel on given training data.

A point of feature space is written :math:`w = \sum_i v_i \varphi(x_i)`. A space turns the coefficients `v` into
scores :math:`Kv`, into :math:`\|w\|^2 = v'Kv` and into a model, and gives the builders a factor `L` with
:math:`K = LL'`. Linear spaces never form `K`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx import memory
from svmcvx.certificate import accumulated_rounding
from svmcvx.data import BinaryData, Features
from svmcvx.errors import DataError
from svmcvx.gram_cache import CachedKernel, GramCache, KeptGram
from svmcvx.gram_factor import GramFactor, gram_factor
from svmcvx.kernel_columns import KernelColumns, is_definite
from svmcvx.kernels import RBF, Exponential, Kernel, KernelLike, Laplacian, Precomputed, as_kernel, row_norms
from svmcvx.model import BinaryModel, KernelModel, LinearModel

__all__ = [
    "FeatureSpace",
    "KernelSpace",
    "LinearSpace",
    "Product",
    "RowBlock",
    "feature_space",
    "with_constant",
]

Floats: TypeAlias = NDArray[np.float64]

# A Gram matrix, its factor and their copies while a factor is computed.
GRAM_BYTES = 8 * 4
# Entries of one kernel block where no Gram matrix is kept: small enough to stay in a processor's cache.
BLOCK_ENTRIES = 2**19


class Product(NamedTuple):
    """Scores `Kv`, the squared norm `v'Kv`, and estimates of the rounding errors of both."""

    scores: Floats
    squared_norm: float
    scores_rounding: Floats
    squared_norm_rounding: float


class RowBlock(Protocol):
    """Evaluates rows of a Gram matrix: ``block(rows, out=None)``, written to `out` if that is given."""

    def __call__(self, rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the rows."""


class FeatureSpace(ABC):
    """Training data seen through a kernel.

    Attributes
    ----------
    data : BinaryData
    intercept : "free", "penalised" or "none"
        What the formulation does with the bias: leave it free (scores of a space are then without it), penalise it as
        the coefficient of a constant feature (scores and norms include it), or have none.
    """

    data: BinaryData
    intercept: str

    @property
    @abstractmethod
    def factor(self) -> Features:
        """A matrix `L` of shape (n, r) with ``L L' = K``, r ≤ n."""

    @abstractmethod
    def product(self, v: Floats) -> Product:
        """Evaluate the point with coefficients `v`."""

    @abstractmethod
    def model(self, v: Floats, bias: float = 0.0) -> BinaryModel:
        """Return the model of the point with coefficients `v`, and with `bias` if the intercept is free."""

    @abstractmethod
    def model_from_factor(self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None) -> BinaryModel:
        """Return the model of the point with coordinates `w` in the columns of :attr:`factor`.

        `support` tells which observations a linear model rests on; all by default.
        """

    def squared_norm(self, model: BinaryModel) -> tuple[float, float]:
        r"""Return what the formulation penalises of a model, :math:`\|w\|^2`, and an estimate of its rounding error.

        It includes the square of a penalised intercept.
        """
        value, rounding = model.squared_norm(self.data)
        if self.intercept == "penalised":
            value += model.intercept**2
            rounding += accumulated_rounding(1) * model.intercept**2
        return value, rounding

    def scores(self, model: BinaryModel) -> tuple[Floats, Floats]:
        """Return the scores of a model on the training data and estimates of their rounding errors."""
        return model.scores(self.data.X)

    @property
    @abstractmethod
    def facts(self) -> dict[str, float]:
        """Numbers that belong beside a certificate."""

    @property
    @abstractmethod
    def kernel(self) -> Kernel | None:
        """The kernel with its parameters as numbers; None for a linear space."""

    @property
    def is_linear(self) -> bool:
        """Whether the features are the columns of the data, :attr:`X`."""
        return self.kernel is None

    @property
    @abstractmethod
    def X(self) -> Features:
        """The data of a linear space as the formulation sees them, shape (n, d)."""

    @property
    @abstractmethod
    def centre(self) -> Floats:
        """What was subtracted from the columns of :attr:`X`."""

    @property
    @abstractmethod
    def blockwise(self) -> bool:
        """Whether there is a kernel and no Gram matrix is kept: products are evaluated block by block."""

    @property
    @abstractmethod
    def stored_gram(self) -> Floats | None:
        """The Gram matrix where there is one in memory, to be read only; None otherwise."""

    @abstractmethod
    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return the Gram matrix between some observations and others."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """Return the squared norms of the observations in feature space, shape (n,)."""

    @abstractmethod
    def row_block(self, dtype: DTypeLike) -> RowBlock:
        """Return a function that evaluates rows of the Gram matrix in this precision."""


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

    @cached_property
    def centre(self) -> Floats:
        """What was subtracted from the columns."""
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
        return row_norms(self.X)

    @cached_property
    def factor(self) -> Features:
        """The data, or a square factor of `XX'` when there are more columns than rows."""
        n, d = self.X.shape
        if d <= n:
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
            (triangle,) = sl.qr(rows, mode="r", check_finite=False, overwrite_a=True)
            triangle = triangle[:n]
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
        return np.asarray(self._row_norms**2, dtype=np.float64)

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
        """Evaluate ``w = X'v`` and its scores ``Xw``."""
        n, d = self.X.shape
        w = np.asarray(self.X.T @ v)
        # Cauchy-Schwarz in place of |X|'|v| and |X||w|: no copy of the data.
        size = float(np.linalg.norm(w))
        w_rounding = accumulated_rounding(n) * float(np.linalg.norm(self._row_norms)) * float(np.linalg.norm(v))
        scores_rounding = self._row_norms * (w_rounding + accumulated_rounding(d) * size)
        norm_rounding = 2 * size * w_rounding + w_rounding**2 + accumulated_rounding(d) * size**2
        return Product(np.asarray(self.X @ w), size**2, scores_rounding, norm_rounding)

    def model(self, v: Floats, bias: float = 0.0) -> LinearModel:
        """Return ``w = X'v`` with the intercept moved to the data as they were passed."""
        return self._model(np.asarray(self.X.T @ v), bias, v != 0)

    def model_from_factor(self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None) -> LinearModel:
        """Return the model of `w`, given in the columns of the data or of their square factor."""
        n, d = self.X.shape
        if d > n:
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


@dataclass(frozen=True, eq=False)
class KernelSpace(FeatureSpace):
    """A reproducing kernel space, through the Gram matrix of the training data.

    Parameters
    ----------
    data : BinaryData
        For a precomputed kernel ``data.X`` holds the rows of the Gram matrix that are kept, all its columns.
    resolved : Kernel
        With its parameters as numbers.
    intercept : "free", "penalised" or "none"
        A penalised intercept adds the constant 1 to the kernel.
    indefinite : "error" or "clip"
        See :func:`svmcvx.kernels.gram_factor`.
    keep_gram : bool
        Keep the Gram matrix and test that it is positive semidefinite (default). Otherwise, for kernels that are so
        on any data (:func:`~svmcvx.kernel_columns.is_definite`), products are evaluated block by block and nothing
        quadratic is stored.
    cache : GramCache, optional
        Keeps the matrix beyond this space.
    """

    data: BinaryData
    resolved: Kernel
    intercept: str
    indefinite: str = "error"
    keep_gram: bool = True
    cache: GramCache | None = None

    def __post_init__(self) -> None:
        if not self.keep_gram and not is_definite(self.resolved):
            object.__setattr__(self, "keep_gram", True)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel."""
        return self.resolved

    @property
    def X(self) -> Features:
        """Refuse: a kernel's features have no columns."""
        raise TypeError("a space with a kernel has no data matrix; use its factor, blocks or products")

    @property
    def centre(self) -> Floats:
        """Refuse, like :attr:`X`."""
        return np.asarray(self.X)

    @property
    def blockwise(self) -> bool:
        """Whether no Gram matrix is kept."""
        return not self.keep_gram

    @property
    def stored_gram(self) -> Floats | None:
        """The Gram matrix of this space or, without what an intercept adds, of its cache; None where there is none."""
        if self.keep_gram:
            return self.gram
        return None if self.kept is None else self.kept.matrix

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return entries of the Gram matrix, a penalised intercept included."""
        if self.keep_gram:
            return np.asarray(self.gram[np.ix_(rows, columns)])
        entries = np.asarray(self.columns(columns)(rows), dtype=np.float64)
        return entries + 1.0 if self.intercept == "penalised" else entries

    def diagonal(self) -> Floats:
        """Return k(x, x), a penalised intercept included."""
        if self.keep_gram:
            return np.array(np.diagonal(self.gram))
        entries = np.array(self.resolved.diagonal(self.data.X), dtype=np.float64)
        return entries + 1.0 if self.intercept == "penalised" else entries

    def row_block(self, dtype: DTypeLike) -> RowBlock:
        """Return a function that takes rows of the Gram matrix, or evaluates them, a penalised intercept included."""
        evaluate: RowBlock = self.columns(dtype=dtype) if self.blockwise else lambda rows, out=None: self.gram[rows]
        if self.intercept != "penalised" and self.blockwise:
            return evaluate

        def block(rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
            found = evaluate(rows) + (1.0 if self.blockwise else 0.0)
            if out is None:
                return found
            out[...] = found
            return out

        return block

    @cached_property
    def _given_gram(self) -> Floats:
        n = self.data.n
        memory.require(
            GRAM_BYTES * float(n) ** 2,
            f"the {n} × {n} kernel matrix and its factor",
            "use fewer observations, the linear formulation, or a first-order solver that keeps no kernel matrix",
        )
        if isinstance(self.resolved, Precomputed):
            columns = self.data.X[:, self.data.index]
            K = columns.toarray() if sp.issparse(columns) else np.array(columns)
        else:
            K = self._evaluated() if self.kept is None else self.kept.matrix
        if self.intercept == "penalised":
            # In place, unless the matrix is others' too.
            K = np.add(K, 1.0, out=K if self.kept is None else None)
        return K

    def _evaluated(self) -> Floats:
        return np.asarray(self.resolved(self.data.X), dtype=np.float64)

    @cached_property
    def kept(self) -> KeptGram | None:
        """The matrix of the kernel itself that the cache keeps."""
        if self.cache is None or isinstance(self.resolved, Precomputed):
            return None
        return self.cache.gram(self.resolved, self.data.X, self._evaluated)

    @cached_property
    def factorisation(self) -> GramFactor:
        """The factor of the Gram matrix with its rank and what was clipped."""
        if self.kept is None:
            return gram_factor(self._given_gram, indefinite=self.indefinite)
        constant = self.intercept == "penalised"
        return self.kept.factor(self._given_gram, constant=constant, indefinite=self.indefinite)

    @property
    def factor(self) -> Features:
        """`L` with ``L L' = K``."""
        return self.factorisation.L

    @cached_property
    def gram(self) -> Floats:
        """The Gram matrix; its positive part if an indefinite kernel was clipped."""
        if self.factorisation.projector is None:
            return self._given_gram
        return self.factorisation.L @ self.factorisation.L.T

    @property
    def facts(self) -> dict[str, float]:
        """Rank of the factor and the share of the spectrum that was clipped, if more than rounding was."""
        if not self.keep_gram:
            return {}
        found = self.factorisation
        return {"rank": float(found.rank)} | (
            {"clipped_mass": found.clipped_mass} if found.projector is not None else {}
        )

    def product(self, v: Floats) -> Product:
        """Evaluate ``Kv`` and ``v'Kv``."""
        if not self.keep_gram:
            # A checker asks for the same point several times: as a model, as its norm and as a dual point.
            if not np.array_equal(self._latest.get("v", ()), v):
                self._latest.update(v=v.copy(), product=self._blockwise(v))
            product: Product = self._latest["product"]
            return product
        scores = self.gram @ v
        magnitude = np.abs(self.gram) @ np.abs(v)
        return self._product(v, scores, magnitude)

    def _product(self, v: Floats, scores: Floats, magnitude: Floats) -> Product:
        relative = accumulated_rounding(self.data.n)
        return Product(
            scores, max(float(v @ scores), 0.0), relative * magnitude, relative * float(np.abs(v) @ magnitude)
        )

    @cached_property
    def _latest(self) -> dict[str, Any]:
        """The coefficients that were evaluated last, and what came of them."""
        return {}

    def columns(self, columns: NDArray[np.intp] | None = None, dtype: DTypeLike = np.float64) -> KernelColumns:
        """Return columns of the kernel matrix to be evaluated in blocks; an intercept and clipping are left out."""
        return KernelColumns(self.resolved, self.data, columns, dtype)

    def _blockwise(self, v: Floats) -> Product:
        """Evaluate a point from the columns of its support, block by block."""
        n = self.data.n
        support = np.flatnonzero(v)
        both = np.zeros((n, 2))
        positive = isinstance(self.resolved, (RBF, Exponential, Laplacian))
        if support.size and positive and self.kept is not None:
            both[:, 0], both[:, 1] = self.kept.matrix @ v, self.kept.matrix @ np.abs(v)
        elif support.size:
            columns = self.columns(support)
            pair = np.stack([v[support], np.abs(v[support])], axis=1)
            rows = max(1, BLOCK_ENTRIES // support.size)
            for start in range(0, n, rows):
                block = columns(slice(start, start + rows))
                if positive:
                    both[start : start + rows] = block @ pair
                else:
                    both[start : start + rows, 0] = block @ pair[:, 0]
                    both[start : start + rows, 1] = np.abs(block) @ pair[:, 1]
        if self.intercept == "penalised":
            both += (v.sum(), np.abs(v).sum())
        if not np.isfinite(both).all():
            raise DataError("the Gram matrix contains NaN or infinity; scale the data or use a smaller gamma or degree")
        return self._product(v, both[:, 0], both[:, 1])

    def _expansion_of(self, model: BinaryModel) -> Floats | None:
        """Return v of a model that expands over these observations; None for any other."""
        if self.keep_gram or not isinstance(model, KernelModel) or self.intercept == "penalised":
            return None
        if model.kernel != self.resolved or model.vectors is None:
            return None
        places = np.searchsorted(self.data.index, model.support)
        if (places >= self.data.n).any() or not np.array_equal(self.data.index[places], model.support):
            return None
        rows, vectors = self.data.X[places], model.vectors
        same = (
            rows.shape == vectors.shape
            and sp.issparse(rows) == sp.issparse(vectors)
            and ((rows != vectors).nnz == 0 if sp.issparse(rows) else np.array_equal(rows, vectors))
        )
        if not same:
            return None
        v = np.zeros(self.data.n)
        v[places] = model.dual_coef
        return v

    def scores(self, model: BinaryModel) -> tuple[Floats, Floats]:
        """Return the scores of a model on the training data; by :meth:`product` where it expands over them."""
        v = self._expansion_of(model)
        if v is None:
            return super().scores(model)
        point = self.product(v)
        rounding = point.scores_rounding + accumulated_rounding(self.data.n) * abs(model.intercept)
        return point.scores + model.intercept, rounding

    def squared_norm(self, model: BinaryModel) -> tuple[float, float]:
        """Return what the formulation penalises of a model and an estimate of its rounding error."""
        v = self._expansion_of(model)
        if v is None:
            return super().squared_norm(model)
        point = self.product(v)
        return point.squared_norm, point.squared_norm_rounding

    def _coefficients(self, v: Floats) -> Floats:
        """Coefficients that give with the kernel itself the scores that `v` gives with its positive part."""
        if not self.keep_gram:
            return v
        basis = self.factorisation.projector
        return v if basis is None else basis @ (basis.T @ v)

    def model(self, v: Floats, bias: float = 0.0) -> KernelModel:
        """Return the expansion over the support vectors, the observations with a non-zero coefficient."""
        v = self._coefficients(v)
        support = np.flatnonzero(v)
        if support.size == 0:
            support = np.array([0], dtype=np.intp)
        precomputed = isinstance(self.resolved, Precomputed)
        return KernelModel(
            kernel=self.resolved,
            vectors=None if precomputed else self.data.X[support],
            dual_coef=v[support],
            intercept=float(v.sum()) if self.intercept == "penalised" else bias,
            classes=self.data.classes,
            support=self.data.index[support],
            n_features=int(self.data.X.shape[1]),
        )

    def model_from_factor(self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None) -> KernelModel:
        """Return the model of ``f = Lw + b``; its coefficients solve ``L'v = w``."""
        v, *_ = sl.lstsq(self.factor.T, w, check_finite=False)
        return self.model(np.asarray(v), bias)


def _dense(matrix: Any) -> NDArray[Any]:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def with_constant(X: Features) -> Features:
    """Return the data with a constant column 1 appended."""
    ones = np.ones((X.shape[0], 1))
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])


def feature_space(
    data: BinaryData,
    kernel: KernelLike,
    *,
    intercept: str,
    indefinite: str = "error",
    keep_gram: bool = True,
    **parameters: Any,
) -> FeatureSpace:
    """Return the space of a kernel on training data.

    Parameters
    ----------
    data : BinaryData
    kernel : Kernel, str, callable or None
        None for the linear formulation, which forms no Gram matrix.
    intercept : "free", "penalised" or "none"
        What the formulation does with the bias.
    indefinite : "error" or "clip"
        What to do with an indefinite kernel.
    keep_gram : bool
        See :class:`KernelSpace`.
    **parameters
        ``gamma``, ``degree``, ``coef0`` of a kernel given by name.

    Raises
    ------
    DataError
        If a precomputed kernel matrix is not square.
    """
    chosen = as_kernel(kernel, **parameters)
    if chosen is None:
        return LinearSpace(data, intercept)
    cache = chosen.cache if isinstance(chosen, CachedKernel) else None
    chosen = chosen.kernel if isinstance(chosen, CachedKernel) else chosen
    if isinstance(chosen, Precomputed) and data.X.shape[1] != data.rows:
        raise DataError(
            "a precomputed kernel takes as X the square matrix k(x_i, x_j) of all training observations, "
            f"got {data.rows} rows and {data.X.shape[1]} columns"
        )
    return KernelSpace(data, chosen.resolve(data.X, data.weight), intercept, indefinite, keep_gram, cache)
