r"""Rows in blocks: both ends of the interval as sums over the blocks, in one pass, in intervals of
doubles.

Linear psvm (any intercept) and ODM. Where the proof has no dual point, it is that of the model: for
p > 1 :math:`\alpha_i = C s_i p\,(1-u_i)_+^{p-1}`, and for ODM :math:`\theta_i = 2c_i(C_1(1-D-u_i)_+
- C_2(u_i-1-D)_+)`. Any multipliers within their bounds are valid, so that the rounding of these
does not matter. With a free intercept each class is scaled until y'α = 0; sums, conjugates and
expansions are stored by class, so that one pass suffices.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.families import margin
from svmcvx.proofs.format import SAMPLE, Proof, fingerprint_of
from svmcvx.proofs.intervals import Floats, Interval
from svmcvx.proofs.problem import (
    ProofRejected,
    bias_of,
    codes_of,
    decoded,
    given_by_the_model,
    matrix_of,
    multipliers_of,
    require_all,
)

FORMULATIONS: Final = ("psvm", "penalised psvm", "odm")


def is_in_blocks(X: Any) -> bool:
    """Return whether data are a sequence of functions that load blocks of rows."""
    return hasattr(X, "loaders")


def _blocks(X: Any, y: Any) -> Iterator[tuple[Any, NDArray[Any], Floats | None]]:
    """Load rows, labels, and weights where they come with the rows, one block after the other."""
    given = None if y is None or hasattr(y, "blocks") else np.asarray(y).ravel()
    start = 0
    for number, load in enumerate(X.loaders):
        piece = load()
        piece = (*piece, None, None) if isinstance(piece, tuple) else (piece, None, None)
        rows = matrix_of(piece[0], f"block {number}")
        labels = piece[1] if given is None else given[start : start + rows.shape[0]]
        if labels is None or np.asarray(labels).size != rows.shape[0]:
            raise DataError(
                f"block {number} has {rows.shape[0]} rows but not as many labels; pass y, one"
                " label a row"
            )
        weight = None if piece[2] is None else np.asarray(piece[2], dtype=np.float64)
        yield rows, np.asarray(labels).ravel(), weight
        start += rows.shape[0]


class _Fingerprint:
    """The short name of data whose blocks come one after the other."""

    def __init__(self, rows: int) -> None:
        self.rows, self.step, self.seen, self.labels = rows, max(1, rows // SAMPLE), 0, 0
        self.sample: list[Any] = []

    def add(self, X: Any, codes: NDArray[np.intp]) -> None:
        self.sample.append(
            sp.csr_array(X[np.arange(-self.seen % self.step, X.shape[0], self.step)])
        )
        self.labels = zlib.crc32(codes.astype(np.int64).tobytes(), self.labels)
        self.seen += X.shape[0]

    def name(self) -> str:
        part = sp.csr_array(sp.vstack(self.sample))
        return f"{fingerprint_of(self.rows, part.shape[1], part):08x}-{self.labels:08x}"


def described(X: Any, y: Any, rows: int, classes: tuple[Any, ...]) -> tuple[str, Floats | None]:
    """Return the name of data in blocks, and the weights of the rows unless all are 1."""
    name, weights = _Fingerprint(rows), []
    try:
        for part, labels, weight in _blocks(X, y):
            name.add(part, codes_of(labels, classes, name.seen))
            weights.append(np.ones(part.shape[0]) if weight is None else weight)
    except ProofRejected as refusal:
        raise DataError(str(refusal)) from None
    if name.seen != rows:
        raise DataError(
            f"X has {name.seen} rows, the solution is of {rows}; pass the data that were solved for"
        )
    whole = np.concatenate(weights)
    return name.name(), None if (whole == 1.0).all() else whole


class Enclosures(NamedTuple):
    """Objective at the model, dual objective where the proof has one, and the name of the data."""

    upper: tuple[float, float]
    lower: tuple[float, float] | None
    fingerprint: str


def enclosures(proof: Proof, X: Any, y: Any) -> Enclosures:
    statement = proof.statement
    linear = statement.kernel is None and "coef" in proof.model
    if statement.formulation not in FORMULATIONS or not linear:
        raise DataError(
            f"rows in blocks are checked for linear {', '.join(FORMULATIONS)}; load the data to"
            f" check {statement.formulation}"
        )
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        return _enclosures(decoded(proof), X, y)


def _enclosures(proof: Proof, X: Any, y: Any) -> Enclosures:
    statement, name = proof.statement, _Fingerprint(proof.statement.rows)
    w, b, sums = Interval.exactly(proof.model["coef"]), bias_of(proof), _Sums(proof)
    present: set[int] = set()
    for part, labels, _ in _blocks(X, y):
        start, (m, d) = name.seen, part.shape
        if d != statement.columns or start + m > statement.rows:
            raise ProofRejected(
                f"the data are not those of the proof: they have {start + m} rows or more and"
                f" {d} columns, the proof is about {statement.rows} and {statement.columns}"
            )
        codes = codes_of(labels, statement.classes, start)
        name.add(part, codes)
        present.update(np.unique(codes).tolist())
        used = np.flatnonzero(statement.weighted[start : start + m] > 0)
        rows, signs = part[used], np.where(codes[used] == 1, 1.0, -1.0)
        sums.add(rows, start + used, signs, (Interval.times(rows, w) + b) * signs)
    if name.seen != statement.rows:
        raise ProofRejected(
            f"the data are not those of the proof: they have {name.seen} rows, the proof is about"
            f" {statement.rows}"
        )
    require_all(present, statement.classes)
    norm = (w * w).sum()
    if statement.intercept == "penalised":
        norm = norm + Interval.exactly(b) * b
    lower = sums.dual_value().ends if sums.name else None
    return Enclosures((norm * 0.5 + sums.losses).ends, lower, name.name())


class _Sums:
    """Losses of all rows; and by class the multipliers or gains, conjugates, and expansions."""

    def __init__(self, proof: Proof) -> None:
        self.proof, self.statement = proof, proof.statement
        self.numbers = self.statement.hyperparameters
        self.name = given_by_the_model(proof) or next(iter(proof.dual), "")
        self.odm, self.p = self.statement.formulation == "odm", self.numbers.get("p", 1.0)
        weight, self.total = self.statement.weight, Interval.exactly(float(self.statement.rows))
        if self.odm and weight is not None:
            self.total = Interval.exactly(weight).sum()
        zero, columns = Interval.exactly(0.0), Interval.exactly(np.zeros(self.statement.columns))
        self.losses = zero
        self.gains, self.conjugates, self.shifts = [zero] * 2, [zero] * 2, [zero] * 2
        self.expansions = [columns] * 2

    def add(self, rows: Any, places: NDArray[np.intp], signs: Floats, u: Interval) -> None:
        weight, band = self.statement.weighted[places], None
        if self.odm:
            band, height = margin.band_of(self.numbers), Interval.exactly(weight) / self.total
            self.losses = self.losses + margin.band_losses(u, height, band)
        else:
            height = Interval.exactly(weight) * self.numbers["C"]
            self.losses = self.losses + margin.hinge_losses(u, height, self.p)
        if not self.name:
            return
        if self.name in self.proof.dual:
            given = self.proof.dual[self.name][places]
        else:
            given = multipliers_of(self.statement, u.middle, weight, float(self.total.middle))
        value = Interval.exactly(given)
        if not self.odm:
            value = margin.boxed(given, places, height if self.p == 1 else None, Interval)
        for k, sign in enumerate((-1.0, 1.0)):
            used = (signs == sign) & value.nonzero
            part, cap, X = value[used], height[used], rows[used]
            gain = part if band is None else margin.band_gains(part, cap, band)
            columns = sp.csr_array(X.T) if sp.issparse(X) else X.T
            self.gains[k] = self.gains[k] + gain.sum()
            self.shifts[k] = self.shifts[k] + part.sum()
            self.expansions[k] = self.expansions[k] + Interval.times(columns, part)
            if self.p > 1:
                conjugates = margin.hinge_conjugates(part, cap, self.p).sum()
                self.conjugates[k] = self.conjugates[k] + conjugates

    def dual_value(self) -> Interval:
        """Return D at the multipliers, scaled by class where they have to be balanced."""
        one = Interval.exactly(1.0)
        free = self.statement.intercept == "free"
        factors = margin.balancing(*self.shifts) if free else (one, one)
        negative, positive = (
            factor * part for factor, part in zip(factors, self.expansions, strict=True)
        )
        v = positive - negative
        norm = (v * v).sum().nonneg()
        if self.statement.intercept == "penalised":
            shift = self.shifts[1] - self.shifts[0]
            norm = norm + (shift * shift).nonneg()
        value = norm * -0.5
        for factor, gain, conjugate in zip(factors, self.gains, self.conjugates, strict=True):
            value = value + factor * gain
            if self.p > 1:
                p = Interval.exactly(self.p)
                value = value - factor.power(p / (p - 1.0)) * conjugate
        return value
