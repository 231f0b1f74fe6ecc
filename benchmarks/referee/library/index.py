"""The index of the library: claims about optima, each with the digest of the proof that it follows
from.

The file is plain text (CSV), one line a claim. An instance may have two: one proof with the largest
lower bound, another with the smallest upper one.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any, Final

from benchmarks.referee.library.instances import DIGITS
from svmcvx.certificate import relative_gap
from svmcvx.errors import DataError
from svmcvx.system.files import atomic_write

__all__ = [
    "CLASSES",
    "INDEX",
    "PROOF_DIGITS",
    "Bounds",
    "Claim",
    "Index",
    "rounded_down",
    "rounded_up",
]

INDEX: Final = Path(__file__).with_name("index.csv")
# Digits of an end, which is rounded outwards: the proof of another machine has another last digit.
ROUNDED: Final = 13
# Digits of the digest of a proof that are kept.
PROOF_DIGITS: Final = 32
# Relative gaps of the tolerance classes.
CLASSES: Final = (1e-9, 1e-6, 1e-3)
HEXADECIMAL: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Claim:
    """What one proof says of an instance.

    Attributes
    ----------
    id : str
        The number of the instance.
    data_set, problem : str
    lower : float or None
        Proved, rounded down; None where the proof has no lower end.
    upper : float
        Proved, rounded up.
    stated : float or None
        A lower end that a search states and no proof has.
    kind : str
        As in certificates.
    who, version, date : str
        Who found it, with what, and when it was added.
    proof : str
        The first :data:`PROOF_DIGITS` hexadecimal digits of the SHA-256 of the proof.
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


COLUMNS: Final = tuple(one.name for one in fields(Claim))


@dataclass(frozen=True)
class Bounds:
    """What the library knows of the optimum of an instance.

    Attributes
    ----------
    id : str
    data_set, problem : str
    lower : float or None
        The largest lower bound that was proved.
    upper : float
        The smallest upper bound that was proved.
    stated : float or None
        The largest lower bound that a search states and nobody has proved to the second checker.
    claims : tuple of Claim
        What they follow from.
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
        """Relative width of the interval that is proved; infinite without a lower bound."""
        return relative_gap(self.lower, self.upper)

    @property
    def tolerance(self) -> str:
        """The smallest of the classes 1e-9, 1e-6 and 1e-3 that the interval is in, ``"open"`` if it
        is in none.
        """
        return next(
            (f"{one:.0e}".replace("e-0", "e-") for one in CLASSES if self.gap <= one), "open"
        )

    @property
    def status(self) -> str:
        """``"proved"``; ``"stated"`` where a search has ended without a proof that the second
        checker reads; or ``"open"``.
        """
        if self.gap <= CLASSES[-1]:
            return "proved"
        return "stated" if relative_gap(self.stated, self.upper) <= CLASSES[-1] else "open"

    def contains(self, value: float, *, tol: float = 0.0) -> bool:
        """Return whether a value may be the optimum, up to a relative tolerance.

        Parameters
        ----------
        value : float
        tol : float
            Relative to the size of `value`.
        """
        room = tol * abs(value)
        return value <= self.upper + room and (self.lower is None or value >= self.lower - room)

    def __str__(self) -> str:
        lower = "no lower bound" if self.lower is None else f"{self.lower!r}"
        return (
            f"{self.problem} on {self.data_set}: [{lower}, {self.upper!r}],"
            f" {self.status} ({self.tolerance})"
        )


def rounded_down(value: float) -> float:
    """Return a number of few digits that is not above."""
    return _rounded(value, ROUND_FLOOR)


def rounded_up(value: float) -> float:
    """Return a number of few digits that is not below."""
    return _rounded(value, ROUND_CEILING)


def _rounded(value: float, how: str) -> float:
    # The double next to a decimal number that is not above another double is not above it either.
    return float(Context(prec=ROUNDED, rounding=how).create_decimal(Decimal(value)))


class Index:
    """The claims of the library by the numbers of their instances.

    Parameters
    ----------
    path : path-like, optional
        The file; that of the package by default. One that does not exist is an empty index.

    Raises
    ------
    DataError
        If the file is no index.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = INDEX if path is None else Path(path)
        self._claims: dict[str, list[Claim]] = {}
        if self.path.exists():
            self._read()
        elif not self.path.parent.is_dir():
            raise DataError(f"index must be a file in an existing folder, got {self.path}")

    def _read(self) -> None:
        try:
            with self.path.open(newline="", encoding="utf-8") as stream:
                rows = csv.DictReader(stream)
                if tuple(rows.fieldnames or ()) != COLUMNS:
                    raise DataError(
                        f"{self.path} is no index of the library: its first line is not"
                        f" {','.join(COLUMNS)}"
                    )
                for number, row in enumerate(rows, 2):
                    claim = self._claim(row, number)
                    self._claims.setdefault(claim.id, []).append(claim)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"index {self.path} cannot be read ({error})") from None

    def _claim(self, row: Mapping[str, Any], number: int) -> Claim:
        try:
            if None in row or any(value is None for value in row.values()):
                raise ValueError("it has another number of columns")
            if len(row["id"]) != DIGITS or not HEXADECIMAL.issuperset(row["id"]):
                raise ValueError(f"{row['id']!r} is no number of an instance")
            ends = {name: float(row[name]) if row[name] else None for name in ("lower", "stated")}
            return Claim(**{**row, **ends, "upper": float(row["upper"])})
        except ValueError as error:
            raise DataError(f"line {number} of {self.path} is no claim: {error}") from None

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Bounds]:
        for number in self._claims:
            yield self[number]

    def __contains__(self, number: str) -> bool:
        return number in self._claims

    def __getitem__(self, number: str) -> Bounds:
        claims = self._claims[number]
        lowers = [claim.lower for claim in claims if claim.lower is not None]
        stated = [claim.stated for claim in claims if claim.stated is not None]
        return Bounds(
            id=number,
            data_set=claims[0].data_set,
            problem=claims[0].problem,
            lower=max(lowers, default=None),
            upper=min(claim.upper for claim in claims),
            stated=max(stated, default=None),
            claims=tuple(claims),
        )

    def get(self, number: str) -> Bounds | None:
        """Return what is known of an instance; None if nothing is."""
        claims = self._claims.get(number)
        return None if claims is None else self[number]

    def merge(self, claim: Claim) -> bool:
        """Take in a claim that was checked if it narrows what is known; return whether it does.

        Claims that then have neither the largest lower nor the smallest upper bound are dropped.

        Raises
        ------
        DataError
            If the claim and what is known contradict each other: one of the proofs, or the checker,
            is wrong. Nothing is changed.
        """
        if claim.id not in self._claims:
            self._claims[claim.id] = [claim]
            return True
        known = self[claim.id]
        for lower, upper in ((claim.lower, known.upper), (known.lower, claim.upper)):
            if lower is not None and lower > upper:
                raise DataError(
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
        """Write the file, as a whole or not at all, in the order of the data sets and problems.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        claims = sorted(
            (claim for claims in self._claims.values() for claim in claims),
            key=lambda one: (one.data_set, one.problem, one.upper),
        )
        try:
            with atomic_write(self.path) as stream:
                stream.write(_text(claims).encode())
        except OSError as error:
            raise DataError(
                f"index {self.path} cannot be written ({error}); pass a file of your own"
            ) from None


def _text(claims: Iterable[Claim]) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(COLUMNS)
    for claim in claims:
        values = (getattr(claim, name) for name in COLUMNS)
        writer.writerow(
            [
                "" if value is None else repr(value) if isinstance(value, float) else value
                for value in values
            ]
        )
    return lines.getvalue()
