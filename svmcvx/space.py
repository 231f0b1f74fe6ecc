r"""Feature spaces: what a formulation needs of a kernel on given training data.

A point of feature space is written :math:`w = \sum_i v_i \varphi(x_i)`. A space turns the coefficients `v` into
scores :math:`Kv`, into :math:`\|w\|^2 = v'Kv` and into a model, and gives the builders a factor `L` with
:math:`K = LL'`. Linear spaces never form `K`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx import memory
from svmcvx.certificate import accumulated_rounding
from svmcvx.data import BinaryData, Features
from svmcvx.errors import DataError
from svmcvx.kernels import GramFactor, Kernel, KernelLike, Precomputed, as_kernel, gram_factor, row_norms
from svmcvx.model import BinaryModel, KernelModel, LinearModel

__all__ = ["FeatureSpace", "KernelSpace", "LinearSpace", "Product", "feature_space", "with_constant"]

Floats: TypeAlias = NDArray[np.float64]

# A Gram matrix, its factor and their copies while a factor is computed.
GRAM_BYTES = 8 * 4


class Product(NamedTuple):
    """Scores `Kv`, the squared norm `v'Kv`, and estimates of the rounding errors of both."""

    scores: Floats
    squared_norm: float
    scores_rounding: Floats
    squared_norm_rounding: float


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

    @property
    @abstractmethod
    def facts(self) -> dict[str, float]:
        """Numbers that belong beside a certificate."""

    @property
    @abstractmethod
    def kernel(self) -> Kernel | None:
        """The kernel with its parameters as numbers; None for a linear space."""


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
        memory.require(
            8.0 * (n * d + n * n), f"the factor of {n} × {d} data", "select features or use fewer observations"
        )
        dense = self.X.toarray() if sp.issparse(self.X) else self.X
        (triangle,) = sl.qr(dense.T, mode="r", check_finite=False)
        return np.ascontiguousarray(triangle[:n].T)

    @property
    def facts(self) -> dict[str, float]:
        """Nothing to report."""
        return {}

    @property
    def kernel(self) -> Kernel | None:
        """None: linear."""
        return None

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
    """

    data: BinaryData
    resolved: Kernel
    intercept: str
    indefinite: str = "error"

    @property
    def kernel(self) -> Kernel | None:
        """The kernel."""
        return self.resolved

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
            K = np.asarray(self.resolved(self.data.X), dtype=np.float64)
        if self.intercept == "penalised":
            K += 1.0
        return K

    @cached_property
    def factorisation(self) -> GramFactor:
        """The factor of the Gram matrix with its rank and what was clipped."""
        return gram_factor(self._given_gram, indefinite=self.indefinite)

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
        found = self.factorisation
        return {"rank": float(found.rank)} | (
            {"clipped_mass": found.clipped_mass} if found.projector is not None else {}
        )

    def product(self, v: Floats) -> Product:
        """Evaluate ``Kv`` and ``v'Kv``."""
        relative = accumulated_rounding(self.data.n)
        scores = self.gram @ v
        magnitude = np.abs(self.gram) @ np.abs(v)
        return Product(
            scores, max(float(v @ scores), 0.0), relative * magnitude, relative * float(np.abs(v) @ magnitude)
        )

    def _coefficients(self, v: Floats) -> Floats:
        """Coefficients that give with the kernel itself the scores that `v` gives with its positive part."""
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


def with_constant(X: Features) -> Features:
    """Return the data with a constant column 1 appended."""
    ones = np.ones((X.shape[0], 1))
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])


def feature_space(
    data: BinaryData, kernel: KernelLike, *, intercept: str, indefinite: str = "error", **parameters: Any
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
    if isinstance(chosen, Precomputed) and data.X.shape[1] != data.rows:
        raise DataError(
            "a precomputed kernel takes as X the square matrix k(x_i, x_j) of all training observations, "
            f"got {data.rows} rows and {data.X.shape[1]} columns"
        )
    return KernelSpace(data, chosen.resolve(data.X, data.weight), intercept, indefinite)
