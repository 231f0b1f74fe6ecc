"""Models of two classes: linear, and expansions over support vectors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, exact, positive_part, square, total
from svmcvx.certificate.rows import UNDERFLOW, Ball, Rows, inner_error
from svmcvx.data import BinaryData, Features, check_features
from svmcvx.display import html_block, html_table, number, quantity, rounded
from svmcvx.errors import DataError
from svmcvx.kernels import CallableKernel, Kernel, Precomputed, kernel_from_dict
from svmcvx.kernels.columns import TILE_ENTRIES, KernelColumns
from svmcvx.model.base import Model, frozen

__all__ = ["BinaryModel", "KernelModel", "LinearModel", "constant_scores", "is_constant"]

Floats: TypeAlias = NDArray[np.float64]

# Entries of one block of a matrix between new and training observations, or of what a function
# returns: 128 MiB.
BLOCK_ENTRIES = 2**24
# Coefficients that HTML shows.
SHOWN = 10


class BinaryModel(Model):
    """A model of two classes with one score an observation."""

    intercept: float

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``classes[1]`` where the score is positive, else ``classes[0]``."""
        labels: NDArray[Any] = self.classes[(self.decision_function(X) > 0).astype(np.intp)]
        return labels

    @abstractmethod
    def squared_norm(self, data: BinaryData) -> Bounded:
        r"""Return :math:`\|w\|^2` in feature space."""

    @abstractmethod
    def scores(self, X: Features) -> Bounded:
        """Return the scores of validated rows with bounds on their rounding errors."""


@dataclass(frozen=True, eq=False)
class LinearModel(BinaryModel):
    """The linear score ``x'w + b``.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The normal `w`.
    intercept : float
        The bias `b`.
    classes : ndarray of shape (2,)
    support : ndarray of int
        Rows of the training data with a non-zero multiplier.
    """

    coef: Floats
    intercept: float
    classes: NDArray[Any]
    support: NDArray[np.intp]

    def __post_init__(self) -> None:
        for name in ("coef", "classes", "support"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "intercept", float(self.intercept))

    def _described(self) -> dict[str, str]:
        return {
            "Input": quantity(self.coef.size, "feature"),
            "Bias": f"intercept {self.intercept:.6g}",
            **super()._described(),
        }

    def _html_tables(self) -> list[str]:
        largest = np.argsort(-np.abs(self.coef), kind="stable")[:SHOWN]
        rows = [[int(j), number(self.coef[j])] for j in largest]
        title = "Coefficients" if self.coef.size <= SHOWN else f"The {SHOWN} largest coefficients"
        return [html_block(title, html_table(["feature", "w"], rows))]

    def without_support(self) -> Self:
        """Return the model without the rows it rests on, of which there may be millions."""
        return replace(self, support=np.zeros(0, dtype=np.intp))

    def squared_norm(self, data: BinaryData) -> Bounded:
        r"""Return :math:`\|w\|^2`."""
        return total(square(exact(self.coef)))

    def decision_function(self, X: Any) -> Floats:
        """Return ``X w + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m,)
        """
        X = check_features(X, n_features=self.coef.size)
        return np.asarray(X @ self.coef) + self.intercept

    def scores(self, X: Features) -> Bounded:
        """Return the scores with bounds on their rounding errors, which are 0 where w = 0."""
        if X.shape[1] != self.coef.size:
            X = check_features(X, n_features=self.coef.size)
        if is_constant(self):
            return constant_scores(self, X.shape[0])
        return Rows(X) @ Ball(self.coef) + self.intercept

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"intercept": self.intercept}, {"coef": self.coef}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(
            coef=arrays["coef"],
            intercept=scalars["intercept"],
            classes=arrays["classes"],
            support=arrays["support"],
        )


@dataclass(frozen=True, eq=False)
class KernelModel(BinaryModel):
    r"""The score :math:`\sum_j v_j k(x, x_j) + b`.

    Attributes
    ----------
    kernel : Kernel
        With its parameters as numbers.
    vectors : ndarray or csr_array of shape (s, d), or None
        The support vectors :math:`x_j`; None for a precomputed kernel.
    dual_coef : ndarray of shape (s,)
        The signed multipliers :math:`v_j = \alpha_j y_j`.
    intercept : float
    classes : ndarray of shape (2,)
    support : ndarray of int, shape (s,)
        Rows of the training data that the support vectors are.
    n_features : int
        Columns that new data must have: d, or the number of training observations for a precomputed
        kernel.
    """

    kernel: Kernel
    vectors: Features | None
    dual_coef: Floats
    intercept: float
    classes: NDArray[Any]
    support: NDArray[np.intp]
    n_features: int

    def __post_init__(self) -> None:
        for name in ("dual_coef", "classes", "support"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "intercept", float(self.intercept))
        if self.vectors is not None:
            copied = self.vectors.copy() if sp.issparse(self.vectors) else frozen(self.vectors)
            object.__setattr__(self, "vectors", copied)
        elif not isinstance(self.kernel, Precomputed):
            raise DataError(
                "vectors is None, which only a precomputed kernel allows; pass the support vectors"
            )

    def _described(self) -> dict[str, str]:
        width = "Gram matrix of" if self.vectors is None else ""
        return {
            "Kernel": rounded(str(self.kernel)),
            "Input": (
                f"{width} {quantity(self.n_features, 'observation' if width else 'feature')}".strip()
            ),
            "Bias": f"intercept {self.intercept:.6g}",
            **super()._described(),
        }

    def squared_norm(self, data: BinaryData) -> Bounded:
        r"""Return :math:`\|w\|^2 = v'Kv`."""
        if is_constant(self):
            return exact(0.0)
        rows = (
            data.X[np.searchsorted(data.index, self.support)]
            if self.vectors is None
            else self.vectors
        )
        return positive_part(total(exact(self.dual_coef) * self._combine(rows)))

    def decision_function(self, X: Any) -> Floats:
        """Return the scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            For a precomputed kernel the matrix ``k(x_i, x_j)`` of shape (m, n) between the new
            observations and *all* training observations.

        Returns
        -------
        ndarray of shape (m,)
        """
        X = check_features(X, n_features=self.n_features)
        return np.asarray(self._combine(X, errors=False).value + self.intercept)

    def scores(self, X: Features) -> Bounded:
        """Return the scores with bounds on their rounding errors, which are 0 where w = 0."""
        return (
            constant_scores(self, X.shape[0])
            if is_constant(self)
            else self._combine(X) + self.intercept
        )

    def _combine(self, X: Features, *, errors: bool = True) -> Bounded:
        """Return K v, if asked for with bounds on its errors, with K between `X` and the support
        vectors, block by block.
        """
        v = self.dual_coef
        if self.vectors is not None and not isinstance(self.kernel, CallableKernel):
            columns = KernelColumns(self.kernel, X, self.vectors, tile_entries=TILE_ENTRIES)
            if not errors:
                sums = np.zeros(X.shape[0])
                columns.add_product(sums, v)
                return exact(sums)
            found = columns.product(v)
            return Bounded(found.scores, inner_error(v.size + 2, found.magnitude) + found.entries)
        size = np.abs(v)
        sums, bounds = np.zeros(X.shape[0]), np.zeros(X.shape[0])
        rows = max(1, BLOCK_ENTRIES // max(1, v.size))
        for start in range(0, X.shape[0], rows):
            # The values of such a kernel are exact by definition.
            part = slice(start, start + rows)
            block: Any = (
                X[part][:, self.support]
                if self.vectors is None
                else self.kernel(X[part], self.vectors)
            )
            sums[part] = block @ v
            if errors:
                magnitude = np.asarray(abs(block) @ size)
                bounds[part] = inner_error(v.size + 2, magnitude) + UNDERFLOW
        return Bounded(sums, bounds)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        scalars = {
            "intercept": self.intercept,
            "kernel": self.kernel.to_dict(),
            "n_features": int(self.n_features),
            "vectors": (
                "none" if self.vectors is None else "csr" if sp.issparse(self.vectors) else "dense"
            ),
        }
        arrays: dict[str, NDArray[Any]] = {"dual_coef": self.dual_coef}
        if self.vectors is None:
            return scalars, arrays
        if sp.issparse(self.vectors):
            return scalars, arrays | {
                name: getattr(self.vectors, name) for name in ("data", "indices", "indptr")
            }
        return scalars, arrays | {"vectors": np.asarray(self.vectors)}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        vectors: Features | None = None
        if scalars["vectors"] == "csr":
            shape = (arrays["indptr"].size - 1, scalars["n_features"])
            vectors = sp.csr_array(
                (arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape
            )
        elif scalars["vectors"] == "dense":
            vectors = arrays["vectors"]
        return cls(
            kernel=kernel_from_dict(scalars["kernel"]),
            vectors=vectors,
            dual_coef=arrays["dual_coef"],
            intercept=scalars["intercept"],
            classes=arrays["classes"],
            support=arrays["support"],
            n_features=scalars["n_features"],
        )


def is_constant(model: BinaryModel) -> bool:
    """Whether all coefficients are exactly 0, so that every score is the intercept."""
    if isinstance(model, LinearModel):
        return not model.coef.any()
    return isinstance(model, KernelModel) and not model.dual_coef.any()


def constant_scores(model: BinaryModel, n: int) -> Bounded:
    """Return the scores of a constant model: nothing is rounded, no kernel evaluated, and no pass
    over data made.
    """
    return exact(np.full(n, model.intercept))
