"""The problem that a proof is about, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.tables import check_arrays, checked_statement

__all__ = ["Statement", "Weights", "exactly"]

Floats: TypeAlias = NDArray[np.float64]

# The fields that are arrays.
ARRAYS: Final = ("weight", "gamma", "M")
# Labels that are shown.
SHOWN: Final = 5


class Weights(NamedTuple):
    """How many weights of the observations differ from 1, and the ends of all of them."""

    differing: int
    lowest: float
    highest: float


@dataclass(frozen=True, eq=False, repr=False)
class Statement:
    """A problem: everything that its optimum depends on except the data, and a digest of the data."""

    formulation: str
    hyperparameters: Mapping[str, Any]
    kernel: Mapping[str, Any] | None
    intercept: str
    rows: int
    columns: int
    classes: tuple[Any, ...]
    fingerprint: str
    weight: Floats | None = None
    gamma: Floats | None = None
    M: Floats | None = None

    def __post_init__(self) -> None:
        plain = checked_statement(
            {
                one.name: _plain(getattr(self, one.name))
                for one in fields(self)
                if one.name not in ARRAYS
            }
        )
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        given = {name: getattr(self, name) for name in ARRAYS}
        given = {
            name: exactly(f"statement.{name}", values, "<f8")
            for name, values in given.items()
            if values is not None
        }
        check_arrays(
            plain,
            None,
            {f"statement.{name}": values.shape for name, values in given.items()},
            ("statement",),
        )
        for name, values in given.items():
            if name != "M" and (values < 0).any():
                raise DataError(f"the array statement.{name} of a proof must not be negative")
            object.__setattr__(self, name, values)
        if self.weight is not None and not self.weight.any():
            raise DataError("some weight of a proof must be positive")

    @property
    def arrays(self) -> dict[str, Floats]:
        """The arrays that there are, by their names."""
        return {name: getattr(self, name) for name in ARRAYS if getattr(self, name) is not None}

    @property
    def plain(self) -> dict[str, Any]:
        """All the rest, as plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ARRAYS}

    @property
    def weights(self) -> Weights:
        """How many weights differ from 1, and between what all of them are."""
        if self.weight is None:
            return Weights(0, 1.0, 1.0)
        return Weights(
            int(np.count_nonzero(self.weight != 1.0)),
            float(self.weight.min()),
            float(self.weight.max()),
        )

    def difference(self, expected: Statement) -> str:
        """Return what differs from the statement that is expected, in words; empty if nothing does."""
        for name, value in expected.plain.items():
            mine = getattr(self, name)
            if (
                isinstance(value, Mapping)
                and isinstance(mine, Mapping)
                and value.keys() == mine.keys()
            ):
                key = next((key for key in value if value[key] != mine[key]), None)
                if key is not None:
                    what = key if name == "hyperparameters" else f"{key} of the {name}"
                    return f"{what} is {mine[key]!r} where {value[key]!r} is expected"
            elif value != mine:
                return f"{name} is {mine!r} where {value!r} is expected"
        for name in ARRAYS:
            mine, other = (
                one.weighted if name == "weight" else getattr(one, name) for one in (self, expected)
            )
            if (mine is None) != (other is None) or (mine is not None and (mine != other).any()):
                row = (
                    None if mine is None or other is None else int(np.flatnonzero(mine != other)[0])
                )
                where = (
                    ""
                    if row is None
                    else f", first in row {row}: {float(mine[row])!r} for {float(other[row])!r}"
                )
                return f"{name} is another than the one that is expected{where}"
        return ""

    @property
    def weighted(self) -> Floats:
        """The weights of all rows."""
        return np.ones(self.rows) if self.weight is None else self.weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and not self.difference(other)

    def __hash__(self) -> int:
        return hash((self.formulation, self.fingerprint))

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} = {value}" for name, value in self.hyperparameters.items())
        if self.kernel is None:
            kernel = "no kernel"
        else:
            parameters = ", ".join(
                f"{name} = {value}" for name, value in self.kernel.items() if name != "name"
            )
            kernel = f"kernel {self.kernel['name']}{f' ({parameters})' if parameters else ''}"
        shown = [repr(label) for label in self.classes[:SHOWN]]
        more = f" and {len(self.classes) - SHOWN} more" if len(self.classes) > SHOWN else ""
        parts = [
            f"{self.formulation}{f' with {numbers}' if numbers else ''}",
            kernel,
            f"intercept {self.intercept}",
            f"{self.rows} rows and {self.columns} columns",
            f"classes {', '.join(shown)}{more}",
            _words(self.weights, self.rows),
        ]
        for name, values in self.arrays.items():
            if name != "weight":
                parts.append(
                    f"{name} given, between {float(values.min())} and {float(values.max())}"
                )
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"Statement({self})"


def _words(weights: Weights, rows: int) -> str:
    if not weights.differing:
        return "all weights 1"
    return (
        f"weights: {weights.differing} of {rows} differ from 1, between {weights.lowest} and"
        f" {weights.highest}"
    )


def _plain(value: Any) -> Any:
    """Numpy's scalars and arrays as Python's."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def exactly(name: str, values: ArrayLike, dtype: str) -> NDArray[Any]:
    """Return values as a read-only array of a dtype, each of them unchanged."""
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        raise DataError(f"the array {name} of a proof is not numeric") from None
    if given.dtype.kind not in "biuf":
        raise DataError(f"the array {name} of a proof is not numeric")
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.array(
            given, dtype=dtype, order="C", copy=True if given.flags.writeable else None
        )
        if given.dtype.str != dtype:
            same = (found == given) | ~np.isfinite(given)
            if found.dtype.kind != given.dtype.kind:
                same &= (given >= -(2**53)) & (given <= 2**53)
            if not same.all():
                raise DataError(
                    f"the array {name} of a proof holds numbers that are not of the dtype {dtype}"
                )
    if not np.isfinite(found).all():
        raise DataError(
            f"the array {name} of a proof is not finite: see its entry"
            f" {int(np.argmin(np.isfinite(found)))}"
        )
    found.flags.writeable = False
    return found
