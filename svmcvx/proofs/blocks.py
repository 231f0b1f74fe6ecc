r"""Rows in blocks: both ends of the interval as sums over the blocks, in one pass, in intervals of
doubles.

Linear psvm (any intercept) and ODM. Where the proof has no dual point, it is that of the model: for
p > 1 :math:`\alpha_i = C s_i p\,(1-u_i)_+^{p-1}`, and for ODM :math:`\theta_i = 2c_i(C_1(1-D-u_i)_+
- C_2(u_i-1-D)_+)`. Any multipliers within their bounds are valid, so that the rounding of these
does not matter. Those of p = 1 are a byte a row. With a free intercept each class is scaled until
y'α = 0; sums, conjugates and expansions are stored by class, so that one pass suffices.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.families.margin import band_gains, band_losses, hinge_conjugates, hinge_losses
from svmcvx.proofs.format import SAMPLE, Proof, fingerprint_of
from svmcvx.proofs.intervals import Interval, products
from svmcvx.proofs.problem import AT_BOUND, BETWEEN, ProofRejected, multipliers_of

Floats: TypeAlias = NDArray[np.float64]

FORMULATIONS: Final = ("psvm", "penalised psvm", "odm")
ONE: Final = Interval.exactly(1.0)


class Block(NamedTuple):
    """Rows, labels, and weights where they come with the rows."""

    X: Any
    labels: NDArray[Any]
    weight: Floats | None


def is_in_blocks(X: Any) -> bool:
    """Whether data are a sequence of functions that load blocks of rows."""
    return hasattr(X, "loaders")


def _blocks(X: Any, y: Any) -> Iterator[Block]:
    """Load one block after the other."""
    given = None if y is None or hasattr(y, "blocks") else np.asarray(y).ravel()
    start = 0
    for number, load in enumerate(X.loaders):
        piece = load()
        piece = piece if isinstance(piece, tuple) else (piece,)
        rows: Any = piece[0]
        try:
            rows = (
                sp.csr_array(rows, dtype=np.float64)
                if sp.issparse(rows)
                else np.asarray(rows).astype(np.float64)
            )
        except (TypeError, ValueError):
            raise DataError(
                f"block {number} must be a real matrix, one observation a row"
            ) from None
        if rows.ndim != 2 or not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
            raise DataError(f"block {number} is no matrix of finite numbers")
        m = rows.shape[0]
        labels = (
            given[start : start + m] if given is not None else piece[1] if len(piece) > 1 else None
        )
        if labels is None or np.asarray(labels).ravel().size != m:
            raise DataError(
                f"block {number} has {m} rows but not as many labels; pass y, one label a row"
            )
        weight = (
            None if len(piece) < 3 or piece[2] is None else np.asarray(piece[2], dtype=np.float64)
        )
        yield Block(rows, np.asarray(labels).ravel(), weight)
        start += m


@dataclass
class _Fingerprint:
    """The short name of data whose blocks come one after the other."""

    rows: int

    def __post_init__(self) -> None:
        self.step, self.seen, self.labels = max(1, self.rows // SAMPLE), 0, 0
        self.sample: list[Any] = []

    def add(self, X: Any, codes: NDArray[np.intp]) -> None:
        chosen = np.arange(-self.seen % self.step, X.shape[0], self.step)
        self.sample += [sp.csr_array(X[chosen])] if chosen.size else []
        self.labels = zlib.crc32(codes.astype(np.int64).tobytes(), self.labels)
        self.seen += X.shape[0]

    def name(self, columns: int) -> str:
        part = sp.csr_array(sp.vstack(self.sample)) if self.sample else sp.csr_array((0, columns))
        return f"{fingerprint_of(self.rows, columns, part):08x}-{self.labels:08x}"


class Described(NamedTuple):
    """What a statement says of data in blocks: their name, and the weights that come with the rows,
    if not each is 1.
    """

    fingerprint: str
    weight: Floats | None


def described(X: Any, y: Any, rows: int, classes: tuple[Any, ...]) -> Described:
    """Return name and weights of data in blocks, from one pass over them."""
    name, weights, columns = _Fingerprint(rows), [], 0
    try:
        for block in _blocks(X, y):
            columns = block.X.shape[1]
            name.add(block.X, _codes(block.labels, classes, name.seen))
            weights.append(np.ones(block.X.shape[0]) if block.weight is None else block.weight)
    except ProofRejected as refusal:
        raise DataError(str(refusal)) from None
    if name.seen != rows:
        raise DataError(
            f"X has {name.seen} rows, the solution is of {rows}; pass the data that were solved for"
        )
    whole = np.concatenate(weights)
    return Described(name.name(columns), None if (whole == 1.0).all() else whole)


def _codes(labels: NDArray[Any], classes: tuple[Any, ...], start: int) -> NDArray[np.intp]:
    known = {label: code for code, label in enumerate(classes)}
    codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise ProofRejected(
            f"the data are not those of the proof: the label of row {start + row},"
            f" {labels.tolist()[row]!r}, is not among its labels"
        )
    return codes


class Enclosures(NamedTuple):
    """Objective at the model, dual objective where the proof has a dual point or needs none, and
    the name of the data.
    """

    upper: tuple[float, float]
    lower: tuple[float, float] | None
    fingerprint: str


class _Multipliers:
    """The dual point, block by block: of the file, or that of the model."""

    def __init__(self, proof: Proof) -> None:
        self.dual, self.statement, self.between = proof.dual, proof.statement, 0
        self.C, self.p = (
            proof.statement.hyperparameters.get(name, math.nan) for name in ("C", "p")
        )
        derived = proof.statement.formulation == "odm" or self.p > 1
        self.exist = bool(self.dual) or (derived and proof.lower is not None)

    def alpha(
        self, start: int, weighted: NDArray[np.bool_], u: Floats, caps: Interval, weight: Floats
    ) -> Interval:
        """The multipliers of psvm for the rows of a block that take part."""
        if not self.dual:
            return Interval.exactly(multipliers_of(self.statement, u, weight, 1.0))
        if "code" in self.dual:
            code = self.dual["code"][start : start + weighted.size]
            listed = int((code == BETWEEN).sum())
            if (code > BETWEEN).any():
                raise ProofRejected(f"a byte of dual.code is above {BETWEEN}")
            values = np.zeros(weighted.size)
            part = self.dual["between"][self.between : self.between + listed]
            if part.size < listed:
                raise ProofRejected("dual.between has fewer entries than dual.code names")
            values[code == BETWEEN], self.between = part, self.between + listed
            if code[~weighted].any():
                raise ProofRejected("a row of weight zero has a multiplier")
            value, code = values[weighted], code[weighted]
            value = np.where(code == AT_BOUND, caps.low, value)
        else:
            value = np.asarray(self.dual["alpha"][start : start + weighted.size][weighted])
        if not (value >= 0).all():
            row = int(np.flatnonzero(~(value >= 0))[0])
            raise ProofRejected(
                f"a multiplier is {float(value[row])!r}, below 0 or no number, in the block that"
                f" begins at row {start}"
            )
        if self.p == 1:
            if (value > caps.high * (1 + 2.0**-40)).any():
                raise ProofRejected(
                    f"a multiplier is above its bound in the block that begins at row {start}"
                )
            return Interval(np.minimum(value, caps.low), np.minimum(value, caps.high))
        return Interval.exactly(value)

    def require_end(self) -> None:
        if "between" in self.dual and self.between != self.dual["between"].size:
            raise ProofRejected("dual.between has more entries than dual.code names")


def enclosures(proof: Proof, X: Any, y: Any) -> Enclosures:
    """Return what follows from a proof and data in blocks."""
    statement = proof.statement
    if (
        statement.formulation not in FORMULATIONS
        or statement.kernel is not None
        or "coef" not in proof.model
    ):
        raise DataError(
            f"rows in blocks are checked for linear {', '.join(FORMULATIONS)}; load the data to"
            f" check {statement.formulation}"
        )
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        return _enclosures(proof, X, y)


def _enclosures(proof: Proof, X: Any, y: Any) -> Enclosures:
    statement, model = proof.statement, proof.model
    w, b = Interval.exactly(model["coef"]), float(model["intercept"])
    if statement.intercept == "none" and b != 0:
        raise ProofRejected(f"the model has the intercept {b!r}, the formulation has none")
    multipliers, name = _Multipliers(proof), _Fingerprint(statement.rows)
    odm = statement.formulation == "odm"
    ends = _ODM(statement) if odm else _PSVM(statement)
    present = np.zeros(len(statement.classes), dtype=bool)
    for block in _blocks(X, y):
        start, (m, d) = name.seen, block.X.shape
        if d != statement.columns or start + m > statement.rows:
            raise ProofRejected(
                f"the data are not those of the proof: they have {start + m} rows or more and"
                f" {d} columns, the proof is about {statement.rows} and {statement.columns}"
            )
        codes = _codes(block.labels, statement.classes, start)
        name.add(block.X, codes)
        present[codes] = True
        weight = np.ones(m) if statement.weight is None else statement.weight[start : start + m]
        weighted = weight > 0
        rows, weight, signs = (
            block.X[weighted],
            weight[weighted],
            np.where(codes[weighted] == 1, 1.0, -1.0),
        )
        u = (products(rows, 0.0, w) + Interval.exactly(b)) * Interval.exactly(signs)
        ends.add(multipliers, start, weighted, rows, signs, u, weight)
    multipliers.require_end()
    if name.seen != statement.rows or not present.all():
        raise ProofRejected(
            f"the data are not those of the proof: they have {name.seen} rows, the proof is about"
            f" {statement.rows} with labels {', '.join(map(repr, statement.classes))}"
        )
    half = Interval.exactly(0.5)
    norm = (w * w).sum()
    if statement.intercept == "penalised":
        norm = norm + Interval.exactly(b) * Interval.exactly(b)
    upper = (half * norm + ends.losses).ends
    lower = ends.dual_value(statement.intercept).ends if multipliers.exist else None
    return Enclosures(upper, lower, name.name(statement.columns))


def _expansion(rows: Any, v: Interval) -> Interval:
    return products(sp.csr_array(rows.T) if sp.issparse(rows) else rows.T, 0.0, v)


class _PSVM:
    """Sums of psvm by class: multipliers, conjugates, expansions; and the losses of all rows."""

    def __init__(self, statement: Any) -> None:
        self.C, self.p = statement.hyperparameters["C"], statement.hyperparameters["p"]
        zero = Interval.exactly(0.0)
        self.losses, columns = zero, Interval.exactly(np.zeros(statement.columns))
        self.sums, self.conjugates, self.expansions = [zero, zero], [zero, zero], [columns, columns]

    def add(
        self,
        multipliers: _Multipliers,
        start: int,
        weighted: NDArray[np.bool_],
        rows: Any,
        signs: Floats,
        u: Interval,
        weight: Floats,
    ) -> None:
        C, s = Interval.exactly(self.C), Interval.exactly(weight)
        caps = C * s
        self.losses = self.losses + hinge_losses(u, caps, self.p)
        if not multipliers.exist:
            return
        alpha = multipliers.alpha(start, weighted, u.middle, caps, weight)
        for k, sign in enumerate((-1.0, 1.0)):
            of_class = signs == sign
            part = alpha[of_class]
            self.sums[k] = self.sums[k] + part.sum()
            self.expansions[k] = self.expansions[k] + _expansion(rows[of_class], part)
            if self.p > 1:
                used, cap = part.nonzero, caps[of_class]
                conjugates = hinge_conjugates(part[used], cap[used], self.p).sum()
                self.conjugates[k] = self.conjugates[k] + conjugates

    def dual_value(self, intercept: str) -> Interval:
        """D at the multipliers, scaled by class where they have to be balanced."""
        factors = [ONE, ONE]
        if intercept == "free":
            least = min(float(part.low) for part in self.sums)
            if not least > 0:
                return Interval.exactly(0.0)
            factors = [Interval.exactly(least).over(part) for part in self.sums]
            factors = [Interval(part.low, np.minimum(part.high, 1.0)) for part in factors]
        negative, positive = (
            factor * part for factor, part in zip(factors, self.sums, strict=True)
        )
        v = factors[1] * self.expansions[1] - factors[0] * self.expansions[0]
        value, norm = negative + positive, (v * v).sum().nonneg()
        if intercept == "penalised":
            shift = positive - negative
            norm = norm + (shift * shift).nonneg()
        if self.p > 1:
            p = Interval.exactly(self.p)
            gamma = p.over(p - ONE)
            for factor, part in zip(factors, self.conjugates, strict=True):
                value = value - factor.power(gamma) * part
        return value - Interval.exactly(0.5) * norm


class _ODM:
    """Sums of ODM over the rows."""

    def __init__(self, statement: Any) -> None:
        self.statement = statement
        C1, C2, D = (statement.hyperparameters[name] for name in ("C1", "C2", "D"))
        self.band = C1, C2, D
        weights = Interval.exactly(float(statement.rows))
        self.total = (
            weights if statement.weight is None else Interval.exactly(statement.weight).sum()
        )
        zero = Interval.exactly(0.0)
        self.losses = self.minus_conjugate = self.shift = zero
        self.expansion = Interval.exactly(np.zeros(statement.columns))

    def add(
        self,
        multipliers: _Multipliers,
        start: int,
        weighted: NDArray[np.bool_],
        rows: Any,
        signs: Floats,
        u: Interval,
        weight: Floats,
    ) -> None:
        shares = Interval.exactly(weight).over(self.total)
        self.losses = self.losses + band_losses(u, shares, self.band)
        if not multipliers.exist:
            return
        if multipliers.dual:
            value = np.asarray(multipliers.dual["theta"][start : start + weighted.size][weighted])
        else:
            whole = float(self.total.middle)
            value = multipliers_of(self.statement, u.middle, weight, whole)
        theta = Interval.exactly(value)
        terms = band_gains(theta, shares, self.band)
        signed = theta * Interval.exactly(signs)
        self.minus_conjugate, self.shift = (
            self.minus_conjugate + terms.sum(),
            self.shift + signed.sum(),
        )
        self.expansion = self.expansion + _expansion(rows, signed)

    def dual_value(self, intercept: str) -> Interval:
        """D at the multipliers."""
        norm = (self.expansion * self.expansion).sum().nonneg()
        if intercept == "penalised":
            norm = norm + (self.shift * self.shift).nonneg()
        return self.minus_conjugate - Interval.exactly(0.5) * norm
