"""The problem that a proof is about: raw data, weights, hyper-parameters, and the points of the
proof as plain arrays.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.format import Proof, fingerprint
from svmcvx.proofs.intervals import Floats, Rows


class ProofRejected(Exception):
    """A point of the proof does not prove anything; the message says what fails."""


def other_data(why: str) -> ProofRejected:
    return ProofRejected(f"the data are not those of the proof: {why}")


class End(NamedTuple):
    """One end of the interval: the doubles around it, and what fails."""

    low: float = -math.inf
    high: float = math.inf
    why: str = ""


def matrix_of(X: Any, name: str) -> Any:
    """Return a matrix of finite doubles, dense or by rows."""
    try:
        matrix: Any = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biufO":
            raise TypeError
        matrix = matrix.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a real matrix in memory, one observation a row") from None
    if sp.issparse(matrix):
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not np.isfinite(matrix.data if sp.issparse(matrix) else matrix).all():
        raise DataError(f"{name} contains NaN or infinity")
    return matrix


def dense(part: Any) -> Floats:
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def codes_of(labels: NDArray[Any], classes: tuple[Any, ...]) -> Rows:
    """Return the positions of labels among the classes, all of which have some."""
    known = {label: code for code, label in enumerate(classes)}
    try:
        codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    except TypeError:
        raise DataError("y must hold one label a row, a number or a string") from None
    for row in np.flatnonzero(codes < 0)[:1]:
        label = labels.tolist()[row]
        raise other_data(f"the label of row {row}, {label!r}, is not among its labels")
    present = set(codes.tolist())
    for code, label in enumerate(classes):
        if code not in present:
            raise other_data(f"no row has its label {label!r}")
    return codes


def given_by_the_model(proof: Proof) -> str:
    """Return the name of the multipliers that the model of a linear machine has to give, if any."""
    names = {"odm": "theta", "psvm": "alpha", "penalised psvm": "alpha"}
    smooth = proof.statement.hyperparameters.get("p", 2.0) > 1
    if proof.dual or proof.lower is None or "coef" not in proof.model or not smooth:
        return ""
    return names.get(proof.statement.formulation, "")


def decoded(proof: Proof) -> Proof:
    """Return a proof with numbers for the codes 0 (none), 1 (the bound), and 2 (between)."""
    if "code" not in proof.dual:
        return proof
    (code, between), weight = (proof.dual[k] for k in ("code", "between")), proof.statement.weighted
    if (code > 2).any() or int((code == 2).sum()) != between.size:
        raise ProofRejected(
            "dual.code holds bytes from 0 to 2, with an entry of dual.between for each 2"
        )
    if code[weight == 0].any():
        raise ProofRejected("a row of weight zero has a multiplier")
    # At most C times the weight.
    caps = np.nextafter(proof.statement.hyperparameters["C"] * weight, -np.inf)
    alpha = np.where(code == 1, np.maximum(caps, 0.0), 0.0)
    alpha[code == 2] = between
    return replace(proof, dual={"alpha": alpha})


def bias_of(proof: Proof) -> float:
    bias = float(proof.model["intercept"])
    if proof.statement.intercept == "none" and bias != 0:
        raise ProofRejected(f"the model has the intercept {bias!r}, the formulation has none")
    return bias


class Problem:
    """A proof bound to data, with the codes of their labels; rows of positive weight take part."""

    def __init__(self, proof: Proof, X: Any, codes: Rows) -> None:
        self.proof, self.X, self.codes = decoded(proof), X, codes
        self.statement = statement = proof.statement
        self.formulation, self.kernel = statement.formulation, statement.kernel
        self.penalised, self.free = (statement.intercept == name for name in ("penalised", "free"))
        self.linear_model = "coef" in proof.model
        self.index: Rows = np.flatnonzero(statement.weighted > 0)
        self.n, self.weight = int(self.index.size), statement.weighted[self.index]
        self.signs = np.where(codes[self.index] == 1, 1.0, -1.0)
        if name := given_by_the_model(proof):
            self.proof = replace(self.proof, dual={name: self._given_by_the_model()})

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.X, self.codes, coded=True)

    @cached_property
    def used(self) -> Rows:
        """The rows whose kernel entries matter: rows of positive weight and the model's rows."""
        used = self.statement.weighted > 0
        if "support" in self.proof.model:
            used[self.support] = True
        if "V_coef" in self.proof.model:
            used |= (self.proof.model["V_coef"] != 0).any(axis=1)
        return np.flatnonzero(used)

    @cached_property
    def support(self) -> Rows:
        support, rows = self.proof.model["support"], self.codes.size
        if support.size and not (support.min() >= 0 and support.max() < rows):
            raise ProofRejected(
                f"the support of the model must be rows of the data, from 0 to {rows - 1}"
            )
        if np.unique(support).size < support.size:
            raise ProofRejected("the support of the model names a row twice")
        return np.asarray(support, dtype=np.intp)

    def has(self, name: str) -> bool:
        return name in self.statement.hyperparameters

    def number(self, name: str) -> float:
        return float(self.statement.hyperparameters[name])

    def dual(self, name: str) -> Floats:
        """Return an entry of the dual point for the rows that take part."""
        return np.asarray(self.proof.dual[name][self.index])

    def _given_by_the_model(self) -> Floats:
        """Return multipliers by the margins; all that are within their bounds are valid."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.X[self.index] @ self.proof.model["coef"] + bias_of(self.proof)
            u = self.signs * scores
            if self.formulation == "odm":
                C1, C2, D = self.statement.hyperparameters.values()
                slopes = C1 * np.maximum(1.0 - D - u, 0.0) - C2 * np.maximum(u - 1.0 - D, 0.0)
                part = 2.0 * self.weight / self.weight.sum() * slopes
            else:
                C, p = self.number("C"), self.number("p")
                part = C * self.weight * p * np.maximum(1.0 - u, 0.0) ** (p - 1.0)
            part = np.where(np.isfinite(part), part, 0.0)
            sums = [float(part[self.signs == sign].sum()) for sign in (-1.0, 1.0)]
            if self.free and min(sums) > 0:
                part *= np.where(self.signs > 0, min(sums) / sums[1], min(sums) / sums[0])
        values = np.zeros(self.codes.size)
        values[self.index] = part
        return values
