r"""Rows in blocks of linear psvm (any intercept) and ODM: both ends of the interval as sums over
the blocks, in one pass, in intervals of doubles.

Where the proof has no dual point, it is that of the model; any multipliers within their bounds are
valid, so that their rounding does not matter. With a free intercept each class is scaled until
y'α = 0: sums, conjugates and expansions are stored by class, so that one pass suffices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs import margin
from svmcvx.proofs.format import Fingerprint, Proof
from svmcvx.proofs.intervals import Floats, Interval, Rows
from svmcvx.proofs.problem import (
    End,
    ProofRejected,
    bias_of,
    codes_of,
    decoded,
    given_by_the_model,
    matrix_of,
    multipliers_of,
    other_data,
    require_all,
)

FORMULATIONS: Final = ("psvm", "penalised psvm", "odm")


def _blocks(X: Any, y: Any) -> Iterator[tuple[Any, NDArray[Any], Any]]:
    """Load rows, labels, and weights where they come with the rows, one block after the other."""
    given = None if y is None or hasattr(y, "blocks") else np.asarray(y).ravel()
    start = 0
    for number, load in enumerate(X.loaders):
        piece = load()
        piece = piece if isinstance(piece, tuple) else (piece,)
        rows, labels, weight, *_ = (*piece, None, None)
        rows = matrix_of(rows, f"block {number}")
        if given is not None:
            labels = given[start : start + rows.shape[0]]
        if labels is None or np.size(labels) != rows.shape[0]:
            raise DataError(
                f"block {number} has {rows.shape[0]} rows but not as many labels; pass y, one"
                " label a row"
            )
        yield rows, np.asarray(labels).ravel(), weight
        start += rows.shape[0]


def described(X: Any, y: Any, rows: int, classes: tuple[Any, ...]) -> tuple[str, Floats | None]:
    """Return the name of data in blocks, and the weights of the rows unless all are 1."""
    name, weights = Fingerprint(rows), []
    try:
        for part, labels, weight in _blocks(X, y):
            name.add(part, codes_of(labels, classes, name.seen))
            weights.append(np.ones(part.shape[0]) if weight is None else np.asarray(weight, float))
    except ProofRejected as refusal:
        raise DataError(str(refusal)) from None
    if name.seen != rows:
        raise DataError(
            f"X has {name.seen} rows, the solution is of {rows}; pass the data that were solved for"
        )
    whole = np.concatenate(weights)
    return str(name), None if (whole == 1.0).all() else whole


def enclosures(proof: Proof, X: Any, y: Any) -> tuple[End, End | None, str]:
    """Return the upper end, the lower one where the proof has a dual point, and the data's name."""
    statement = proof.statement
    if statement.formulation not in FORMULATIONS or "coef" not in proof.model:
        raise DataError(
            f"rows in blocks are checked for linear {', '.join(FORMULATIONS)}; load the data to"
            f" check {statement.formulation}"
        )
    name, present = Fingerprint(statement.rows), set()
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        sums = _Sums(decoded(proof))
        for part, labels, _ in _blocks(X, y):
            start, (m, d) = name.seen, part.shape
            if d != statement.columns or start + m > statement.rows:
                raise other_data(
                    f"they have {start + m} rows or more and {d} columns, the proof is about"
                    f" {statement.rows} and {statement.columns}"
                )
            codes = codes_of(labels, statement.classes, start)
            name.add(part, codes)
            present.update(np.unique(codes).tolist())
            used = np.flatnonzero(statement.weighted[start : start + m] > 0)
            sums.add(part[used], start + used, np.where(codes[used] == 1, 1.0, -1.0))
        if name.seen != statement.rows:
            raise other_data(f"they have {name.seen} rows, the proof is about {statement.rows}")
        require_all(present, statement.classes)
        lower = End(*sums.dual_value().ends) if sums.name else None
        return End(*sums.objective().ends), lower, str(name)


class _Sums:
    """Losses of all rows; and by class the multipliers or gains, conjugates, and expansions."""

    def __init__(self, proof: Proof) -> None:
        self.proof, self.statement = proof, proof.statement
        self.w, self.bias = Interval.exactly(proof.model["coef"]), bias_of(proof)
        self.numbers = self.statement.hyperparameters
        self.name = given_by_the_model(proof) or next(iter(proof.dual), "")
        self.p, self.penalised = self.numbers.get("p"), self.statement.intercept == "penalised"
        weight, self.total = self.statement.weight, Interval.exactly(float(self.statement.rows))
        if self.p is None and weight is not None:
            self.total = Interval.exactly(weight).sum()
        zero, columns = Interval.exactly(0.0), Interval.exactly(np.zeros(self.statement.columns))
        self.losses = zero
        self.gains, self.conjugates, self.shifts = [zero] * 2, [zero] * 2, [zero] * 2
        self.expansions = [columns] * 2

    def add(self, X: Any, places: Rows, signs: Floats) -> None:
        weight, u = self.statement.weighted[places], (Interval.times(X, self.w) + self.bias) * signs
        if self.p is None:
            height = Interval.exactly(weight) / self.total
            losses = margin.band_losses(u, height, self.numbers)
        else:
            height = Interval.exactly(weight) * self.numbers["C"]
            losses = margin.hinge_losses(u, height, self.p)
        self.losses = self.losses + losses
        if not self.name:
            return
        if self.name in self.proof.dual:
            given = self.proof.dual[self.name][places]
        else:
            given = multipliers_of(self.statement, u.middle, weight, float(self.total.middle))
        value = Interval.exactly(given)
        if self.p is not None:
            value = margin.boxed(given, places, height if self.p == 1 else None, Interval)
        for k, sign in enumerate((-1.0, 1.0)):
            used = (signs == sign) & value.nonzero
            part, cap, rows = value[used], height[used], X[used]
            gain = part if self.p is not None else margin.band_gains(part, cap, self.numbers)
            columns = sp.csr_array(rows.T) if sp.issparse(rows) else rows.T
            self.gains[k] = self.gains[k] + gain.sum()
            self.shifts[k] = self.shifts[k] + part.sum()
            self.expansions[k] = self.expansions[k] + Interval.times(columns, part)
            if self.p is not None and self.p > 1:
                conjugates = margin.hinge_conjugates(part, cap, self.p).sum()
                self.conjugates[k] = self.conjugates[k] + conjugates

    def objective(self) -> Interval:
        norm = (self.w * self.w).sum()
        if self.penalised:
            norm = norm + Interval.exactly(self.bias) * self.bias
        return norm * 0.5 + self.losses

    def dual_value(self) -> Interval:
        """Return D at the multipliers, scaled by class where they have to be balanced."""
        factors = [Interval.exactly(1.0)] * 2
        if self.statement.intercept == "free":
            factors = [*margin.balancing(*self.shifts)]
        v = factors[1] * self.expansions[1] - factors[0] * self.expansions[0]
        norm = (v * v).sum().nonneg()
        if self.penalised:
            shift = self.shifts[1] - self.shifts[0]
            norm = norm + (shift * shift).nonneg()
        value = norm * -0.5
        for factor, gain, conjugate in zip(factors, self.gains, self.conjugates, strict=True):
            value = value + factor * gain
            if self.p is not None and self.p > 1:
                p = Interval.exactly(self.p)
                value = value - factor.power(p / (p - 1.0)) * conjugate
        return value
