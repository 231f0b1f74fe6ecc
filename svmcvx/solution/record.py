"""What a solution remembers: why a solver stopped, what was tried, seconds, the data, and what a
proof needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import BinaryData, MulticlassData
from svmcvx.display import listed, quantity
from svmcvx.kernels import Kernel, Linear
from svmcvx.model import frozen
from svmcvx.proofs.statement import Statement

__all__ = [
    "OF_THE_SOLUTION",
    "Attempt",
    "DataFacts",
    "Evidence",
    "OptimalIntercepts",
    "Status",
    "Timings",
    "Undecided",
]

Floats: TypeAlias = NDArray[np.float64]

# Hyper-parameters on which the optimum does not depend, or for which a statement has separate
# fields.
OF_THE_SOLUTION: Final = ("kernel", "intercept", "form")


class Status(StrEnum):
    """How a solve ended: of a solution by its certificate, of an attempt as its solver says."""

    OPTIMAL = "optimal"
    INACCURATE = "inaccurate"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    NUMERICAL = "numerical"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    LICENCE = "licence"
    UNAVAILABLE = "unavailable"
    ERROR = "error"


@dataclass(frozen=True)
class Attempt:
    """One solver tried on one problem.

    Attributes
    ----------
    solver : str
        Name of the solver, such as ``"CLARABEL"``.
    status : Status
    reason : str
        Why the attempt was not enough; empty for the one that was accepted.
    seconds : float
        Wall clock of the attempt, compilation included.
    gap : float
        Certified relative gap of its point (``inf`` without a point).
    options : dict
        The options that the solver was given, in its own spelling.
    warm_start_used : bool
        Whether the solver could use the earlier solution that was offered.
    iterations : int or None
        In the solver's own unit (a mixed-integer solver's are nodes); None if it does not tell.
    """

    solver: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    gap: float = math.inf
    options: Mapping[str, Any] = field(default_factory=dict)
    warm_start_used: bool = False
    iterations: int | None = None


@dataclass(frozen=True)
class Timings:
    """Seconds of building, compiling (or loading compiled code), solving and certifying."""

    build: float = 0.0
    compile: float = 0.0
    solve: float = 0.0
    certify: float = 0.0

    @property
    def total(self) -> float:
        """Sum of the four."""
        return self.build + self.compile + self.solve + self.certify


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """Data that a proof needs in addition to a model, a dual point and the hyper-parameters."""

    intercept: str
    weight: Floats | None
    fingerprint: str
    given: Mapping[str, Floats] = field(default_factory=dict)
    spread: Mapping[str, Floats] = field(default_factory=dict)
    tree: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weight is not None:
            object.__setattr__(self, "weight", frozen(self.weight))
        for name in ("given", "spread", "tree"):
            object.__setattr__(
                self, name, {key: frozen(values) for key, values in getattr(self, name).items()}
            )

    def __repr__(self) -> str:
        more = "".join(
            f", {listed(arrays)}" for arrays in (self.given, self.spread, self.tree) if arrays
        )
        rows = (
            "rows in blocks" if self.weight is None else quantity(self.weight.size, "observation")
        )
        return f"Evidence({self.intercept} intercept, {rows}, {self.fingerprint}{more})"

    def statement(
        self,
        formulation: str,
        hyperparameters: Mapping[str, Any],
        kernel: Kernel | None,
        facts: DataFacts,
    ) -> Statement:
        """Return the problem as a proof states it."""
        described = None if kernel is None or isinstance(kernel, Linear) else kernel.to_dict()
        return Statement(
            formulation=formulation,
            hyperparameters={
                name: value
                for name, value in hyperparameters.items()
                if name not in OF_THE_SOLUTION
            },
            kernel=described,
            intercept=self.intercept,
            rows=facts.n,
            columns=facts.d,
            classes=facts.classes,
            fingerprint=self.fingerprint,
            weight=None if self.weight is None or (self.weight == 1.0).all() else self.weight,
            **self.given,
        )


@dataclass(frozen=True)
class DataFacts:
    """A record of the data for which a problem was solved."""

    n: int
    d: int
    classes: tuple[Any, ...]
    counts: tuple[int, ...] | None = None
    weighted: bool = False
    fingerprint: str = ""
    precomputed: bool = False

    @classmethod
    def of(cls, data: BinaryData | MulticlassData, *, precomputed: bool = False) -> Self:
        """Return the facts of validated data."""
        codes = data.codes if isinstance(data, MulticlassData) else (data.y > 0).astype(np.intp)
        return cls(
            n=data.rows,
            d=int(data.X.shape[1]),
            classes=tuple(data.classes.tolist()),
            counts=tuple(np.bincount(codes, minlength=len(data.classes)).tolist()),
            weighted=data.n < data.rows or bool((data.weight != 1.0).any()),
            fingerprint=data.fingerprint,
            precomputed=precomputed,
        )

    @property
    def size(self) -> tuple[int, int]:
        """Observations and features."""
        return self.n, self.d

    def differ_from(self, other: DataFacts) -> bool:
        """Whether these are other data of the same sizes and classes; the labels alone decide for
        Gram matrices.
        """
        alike = self.size == other.size and self.classes == other.classes
        if not (alike and self.fingerprint and other.fingerprint):
            return False
        if self.precomputed and other.precomputed:
            return self.fingerprint.rpartition("-")[2] != other.fingerprint.rpartition("-")[2]
        return self.fingerprint != other.fingerprint

    def __str__(self) -> str:
        return f"{self.n} × {self.d}" + (f", {self.fingerprint}" if self.fingerprint else "")


class OptimalIntercepts(NamedTuple):
    """The free intercepts that are optimal together with the weights of a model."""

    lower: float | Floats
    upper: float | Floats

    @property
    def unique(self) -> bool:
        """Whether one intercept alone is optimal."""
        return bool(np.all(self.lower == self.upper))


class Undecided(NamedTuple):
    """How many rows are left whose label is not that of every optimal machine for certain."""

    by_gap: int
    by_formulation: int
    rows: int

    @property
    def share(self) -> float:
        """Share of the rows that are not decided."""
        return (self.by_gap + self.by_formulation) / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        left = self.by_gap + self.by_formulation
        return (
            f"{left} of {self.rows} rows undecided ({self.by_gap} by the gap,"
            f" {self.by_formulation} by the formulation)"
        )
