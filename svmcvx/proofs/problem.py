"""The problem that a proof is about: raw data, weights, hyper-parameters, and the points of the proof as plain arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.format import Proof

__all__ = ["Problem", "Refused"]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]

KERNELS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "rbf": ("gamma",),
    "exponential": ("gamma",),
    "laplacian": ("gamma",),
    "polynomial": ("degree", "gamma", "coef0"),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}


class Refused(Exception):
    """A point of the proof does not prove anything; the message says what fails."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A proof bound to data.

    Attributes
    ----------
    proof : Proof
    X : ndarray or csr_array of shape (rows, d)
    codes : ndarray of int, shape (rows,)
        Positions of the labels in the sorted labels.
    """

    proof: Proof
    X: Any
    codes: Rows

    @classmethod
    def of(cls, proof: Proof, X: Any, y: Any) -> Problem:
        """Bind a proof to data, or refuse data that it cannot be about.

        Raises
        ------
        DataError
            If the data are no matrix of finite numbers with a label a row.
        Refused
            If shapes or labels are not those of the proof.
        """
        try:
            matrix: Any = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X)
        except (TypeError, ValueError):
            raise DataError("X must be a real matrix, one observation a row") from None
        if matrix.ndim != 2 or matrix.dtype.kind not in "biufO":
            raise DataError("X must be a real matrix, one observation a row")
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError("X must be a real matrix, one observation a row") from None
        if sp.issparse(matrix):
            matrix.sum_duplicates()
        labels = np.asarray(y).ravel()
        if labels.size != matrix.shape[0]:
            raise DataError(f"y has {labels.size} labels but X has {matrix.shape[0]} rows")
        if not np.isfinite(matrix.data if sp.issparse(matrix) else matrix).all():
            raise DataError("X contains NaN or infinity")
        if labels.size != proof.weight.size:
            raise Refused(
                f"the data are not those of the proof: they have {labels.size} rows, the proof is about {proof.weight.size}"
            )
        known = {label: code for code, label in enumerate(proof.classes.tolist())}
        codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.intp)
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise Refused(
                f"the data are not those of the proof: the label of row {row}, {labels[row]}, is not among its labels"
            )
        if not (np.isfinite(proof.weight).all() and (proof.weight >= 0).all() and (proof.weight > 0).any()):
            raise Refused("the weights of the proof must be finite and not negative, and some positive")
        return cls(proof, matrix, codes)

    @cached_property
    def index(self) -> Rows:
        """The rows that take part: those of positive weight."""
        return np.flatnonzero(self.proof.weight > 0)

    @property
    def n(self) -> int:
        """Their number."""
        return int(self.index.size)

    @property
    def weight(self) -> Floats:
        """Their weights."""
        return np.asarray(self.proof.weight[self.index])

    @property
    def signs(self) -> Floats:
        """Their labels as ±1."""
        if self.proof.classes.size != 2:
            raise Refused(f"the formulation has two classes, the proof {self.proof.classes.size}")
        return np.where(self.codes[self.index] == 1, 1.0, -1.0)

    @property
    def penalised(self) -> bool:
        """Whether a constant feature is penalised with the rest."""
        return self.proof.intercept == "penalised"

    @cached_property
    def kernel(self) -> dict[str, Any] | None:
        """Name and numbers of the kernel; None where the machine is linear."""
        kernel = self.proof.kernel
        if kernel is None:
            return None
        name = kernel.get("name")
        if name not in KERNELS:
            raise DataError(f"the proof has the kernel {name!r}; those that can be checked are {', '.join(KERNELS)}")
        for parameter in KERNELS[name]:
            value = kernel.get(parameter)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise DataError(f"the parameter {parameter} of the kernel {name} must be a number, got {value!r}")
        if name == "polynomial" and (kernel["degree"] < 1 or kernel["degree"] != int(kernel["degree"])):
            raise DataError(f"the degree of a polynomial kernel is a whole number, got {kernel['degree']!r}")
        if name == "precomputed" and self.X.shape[0] != self.X.shape[1]:
            raise Refused(f"a precomputed kernel is a square matrix, the data have the shape {self.X.shape}")
        return None if name == "linear" else dict(kernel)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a hyper-parameter."""
        value = self.proof.hyperparameters.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise DataError(f"the proof of {self.proof.formulation} needs the number {name!r}, got {value!r}")
        return float(value)

    def positive(self, name: str) -> float:
        """Return a hyper-parameter that has to be positive."""
        value = self.number(name)
        if not 0 < value < math.inf:
            raise Refused(f"{name} must be positive, it is {value!r}")
        return value

    def nonnegative(self, name: str) -> float:
        """Return a hyper-parameter that must not be negative."""
        value = self.number(name)
        if not 0 <= value < math.inf:
            raise Refused(f"{name} must not be negative, it is {value!r}")
        return value

    def has_dual(self, *names: str) -> bool:
        """Whether the proof has these entries of a dual point."""
        return all(name in self.proof.dual for name in names)

    def dual(self, name: str, columns: int | None = None) -> Floats:
        """Return an entry of the dual point for the rows that take part."""
        return self._entry(self.proof.dual, name, columns)

    def besides(self, name: str) -> Floats:
        """Return an entry of `extra` for the rows that take part."""
        return self._entry(self.proof.extra, name, None)

    def _entry(self, arrays: Any, name: str, columns: int | None) -> Floats:
        if name not in arrays:
            raise Refused(f"the proof has no entry {name!r}")
        values = np.asarray(arrays[name], dtype=np.float64)
        shape = (self.proof.weight.size,) if columns is None else (self.proof.weight.size, columns)
        if values.shape != shape:
            raise Refused(f"the entry {name!r} has the shape {values.shape} where {shape} is needed")
        values = values[self.index]
        if not np.isfinite(values).all():
            row = int(self.index[np.flatnonzero(~np.isfinite(values.reshape(self.n, -1)).all(axis=1))[0]])
            raise Refused(f"the entry {name!r} of row {row} is not finite")
        return values

    def model(self, name: str) -> Floats:
        """Return a finite array of the model."""
        if name not in self.proof.model:
            raise Refused(f"the model has no entry {name!r}")
        values = np.asarray(self.proof.model[name], dtype=np.float64)
        if not np.isfinite(values).all():
            raise Refused(f"the entry {name!r} of the model is not finite")
        return values

    @property
    def linear_model(self) -> bool:
        """Whether the model is a vector of coefficients."""
        return "coef" in self.proof.model

    @cached_property
    def coef(self) -> Floats:
        """The normal of a linear model."""
        if self.kernel is not None:
            raise Refused("a machine with a kernel needs a model with dual coefficients")
        coef = self.model("coef")
        if coef.shape != (self.X.shape[1],):
            raise Refused(f"the model has {coef.size} coefficients, the data have {self.X.shape[1]} columns")
        return coef

    @cached_property
    def support(self) -> Rows:
        """The rows of the data that a model with dual coefficients rests on."""
        support, v = np.asarray(self.model("support")), self.model("dual_coef")
        rows = self.codes.size
        if support.ndim != 1 or v.shape != support.shape or not np.isin(support, np.arange(rows)).all():
            raise Refused(f"the support of the model must be rows of the data, from 0 to {rows - 1}, one a coefficient")
        if np.unique(support).size < support.size:
            raise Refused("the support of the model names a row twice")
        return support.astype(np.intp)

    @property
    def bias(self) -> float:
        """The intercept of a model of two classes."""
        bias = self.model("intercept")
        if bias.size != 1:
            raise Refused("the model of two classes needs one intercept")
        if self.proof.intercept == "none" and bias.item() != 0:
            raise Refused(f"the model has the intercept {bias.item()!r}, the formulation has none")
        return float(bias.item())
