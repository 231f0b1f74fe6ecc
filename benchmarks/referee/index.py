"""The index of the library: claims about optima, each with the digest of the proof that it follows
from.

The file is plain text (CSV), one line per claim. An instance may have two: one proof with the
largest lower bound, another with the smallest upper one.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

import svmcvx as sx
from benchmarks.referee.instances import DIGITS

INDEX = Path(__file__).with_name("index.csv")
# Digits of an end, which is rounded outwards: the proof of another machine has another last digit.
ROUNDED = 13
# Digits of the digest of a proof that are kept.
PROOF_DIGITS = 32
# Relative gaps of the tolerance classes.
CLASSES = {"1e-9": 1e-9, "1e-6": 1e-6, "1e-3": 1e-3}


@dataclass(frozen=True)
class Claim:
    """What one proof says of an instance: ends that were proved, rounded outwards; `stated` is a
    lower end that a search states and no proof has.
    """

    id: str
    data_set: str
    problem: str
    lower: float | None
    upper: float
    stated: float | None
    kind: str
    who: str
    version: str
    date: str
    proof: str


COLUMNS = tuple(one.name for one in fields(Claim))


def relative_gap(lower: float | None, upper: float) -> float:
    """Return the width relative to the larger end; infinite without a lower end."""
    size = 0.0 if lower is None else max(abs(lower), abs(upper))
    return float("inf") if lower is None else (upper - lower) / size if size else 0.0


@dataclass(frozen=True)
class Bounds:
    """What the library knows of the optimum of an instance: the largest lower and the smallest
    upper bound that were proved, the largest one that a search states, and the claims.
    """

    id: str
    data_set: str
    problem: str
    lower: float | None
    upper: float
    stated: float | None
    claims: tuple[Claim, ...]

    @property
    def gap(self) -> float:
        """Relative width of the interval that is proved."""
        return relative_gap(self.lower, self.upper)

    @property
    def tolerance(self) -> str:
        """The smallest of the classes that the interval is in, ``"open"`` if it is in none."""
        return next((name for name, size in CLASSES.items() if self.gap <= size), "open")

    @property
    def status(self) -> str:
        """``"proved"``; ``"stated"`` where a search has ended without a proof that the second
        checker reads; or ``"open"``.
        """
        if self.gap <= CLASSES["1e-3"]:
            return "proved"
        return "stated" if relative_gap(self.stated, self.upper) <= CLASSES["1e-3"] else "open"

    def contains(self, value: float, *, tol: float = 0.0) -> bool:
        """Return whether a value may be the optimum, up to a tolerance relative to its size."""
        room = tol * abs(value)
        return value <= self.upper + room and (self.lower is None or value >= self.lower - room)

    def __str__(self) -> str:
        lower = "no lower bound" if self.lower is None else f"{self.lower!r}"
        interval = f"[{lower}, {self.upper!r}]"
        return f"{self.problem} on {self.data_set}: {interval}, {self.status} ({self.tolerance})"


def rounded_down(value: float) -> float:
    """Return a number of few digits that is not above."""
    return float(Context(prec=ROUNDED, rounding=ROUND_FLOOR).create_decimal(Decimal(value)))


def rounded_up(value: float) -> float:
    """Return a number of few digits that is not below."""
    return float(Context(prec=ROUNDED, rounding=ROUND_CEILING).create_decimal(Decimal(value)))


class Index:
    """The claims by the numbers of their instances; a file that does not exist is an empty
    index.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = INDEX if path is None else Path(path)
        self._claims: dict[str, list[Claim]] = {}
        if self.path.exists():
            self._read()
        elif not self.path.parent.is_dir():
            raise sx.DataError(f"index must be a file in an existing folder, got {self.path}")

    def _read(self) -> None:
        try:
            with self.path.open(newline="", encoding="utf-8") as stream:
                rows = csv.DictReader(stream)
                if tuple(rows.fieldnames or ()) != COLUMNS:
                    raise sx.DataError(
                        f"{self.path} is no index: its first line is not {','.join(COLUMNS)}"
                    )
                for number, row in enumerate(rows, 2):
                    claim = self._claim(row, number)
                    self._claims.setdefault(claim.id, []).append(claim)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise sx.DataError(f"index {self.path} cannot be read ({error})") from None

    def _claim(self, row: Mapping[str, Any], number: int) -> Claim:
        try:
            if None in row or any(value is None for value in row.values()):
                raise ValueError("it has another number of columns")
            if len(row["id"]) != DIGITS or set(row["id"]) - set("0123456789abcdef"):
                raise ValueError(f"{row['id']!r} is no number of an instance")
            ends = {name: float(row[name]) if row[name] else None for name in ("lower", "stated")}
            return Claim(**{**row, **ends, "upper": float(row["upper"])})
        except ValueError as error:
            raise sx.DataError(f"line {number} of {self.path} is no claim: {error}") from None

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Bounds]:
        for number in self._claims:
            yield self[number]

    def __contains__(self, number: str) -> bool:
        return number in self._claims

    def __getitem__(self, number: str) -> Bounds:
        claims = self._claims[number]
        return Bounds(
            id=number,
            data_set=claims[0].data_set,
            problem=claims[0].problem,
            lower=max((one.lower for one in claims if one.lower is not None), default=None),
            upper=min(one.upper for one in claims),
            stated=max((one.stated for one in claims if one.stated is not None), default=None),
            claims=tuple(claims),
        )

    def get(self, number: str) -> Bounds | None:
        """Return what is known of an instance; None if nothing is."""
        return self[number] if number in self._claims else None

    def merge(self, claim: Claim) -> bool:
        """Take in a claim that was checked if it narrows what is known; return whether it does.

        Claims that then have neither the largest lower nor the smallest upper bound are dropped. A
        contradiction is an error, and changes nothing: a proof or the checker is wrong.
        """
        if claim.id not in self._claims:
            self._claims[claim.id] = [claim]
            return True
        known = self[claim.id]
        for lower, upper in ((claim.lower, known.upper), (known.lower, claim.upper)):
            if lower is not None and lower > upper:
                raise sx.DataError(
                    f"the claim and what is known of {known.problem} on {known.data_set} contradict"
                    f" each other: at least {lower!r}, at most {upper!r}; please report this as a"
                    " defect"
                )
        higher = claim.lower is not None and (known.lower is None or claim.lower > known.lower)
        if not (higher or claim.upper < known.upper):
            return False
        claims = [*known.claims, claim]
        lower = max((one.lower for one in claims if one.lower is not None), default=None)
        upper = min(one.upper for one in claims)
        with_lower = [one for one in claims if one.lower == lower]
        with_upper = [one for one in claims if one.upper == upper]
        both = [one for one in with_lower if one.upper == upper]
        self._claims[claim.id] = both[:1] or [with_upper[0], with_lower[0]]
        return True

    def write(self) -> None:
        """Write the file, as a whole or not at all, in the order of the data sets and problems."""
        claims = sorted(
            (claim for claims in self._claims.values() for claim in claims),
            key=lambda one: (one.data_set, one.problem, one.upper),
        )
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            with draft.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(COLUMNS)
                for claim in claims:
                    values = (getattr(claim, name) for name in COLUMNS)
                    writer.writerow(
                        "" if one is None else repr(one) if isinstance(one, float) else one
                        for one in values
                    )
            draft.replace(self.path)
        except OSError as error:
            raise sx.DataError(f"index {self.path} cannot be written ({error})") from None
