"""Solution: a model, its certificate, and how it was found."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Certificate
from svmcvx.model import Model, frozen

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attempt", "Solution", "Status", "Timings"]

Floats: TypeAlias = NDArray[np.float64]


class Status(StrEnum):
    """Why a solver stopped, in its own opinion; the certificate is the other, independent fact."""

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
    """Seconds spent in building, compiling, solving and certifying."""

    build: float = 0.0
    compile: float = 0.0
    solve: float = 0.0
    certify: float = 0.0

    @property
    def total(self) -> float:
        """Sum of the four."""
        return self.build + self.compile + self.solve + self.certify


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The answer to a problem, whichever solver it came from. Immutable and picklable.

    Attributes
    ----------
    model : Model
        Predicts; see :class:`svmcvx.Model`.
    certificate : Certificate
        The checked interval around the true optimum.
    status : Status
        Why the solver stopped.
    solver : str
        The solver whose point was kept.
    attempts : tuple of Attempt
        Every solver that was tried, in order.
    timings : Timings
        Seconds for ``build``, ``compile``, ``solve`` and ``certify``.
    dual : dict of ndarray
        The dual point behind the lower bound, repaired to exact feasibility; indexed like the training data.
    trace : ndarray of shape (k, 3)
        Rows (seconds, lower, upper), NaN for a bound that was not known yet.
    formulation : str
        Name of the formulation.
    hyperparameters : dict
        The values that the problem was solved for.
    details : dict of ndarray
        Arrays that belong beside the answer, such as the per-observation ``"M"`` of a mixed-integer formulation;
        indexed like the training data.
    """

    model: Model
    certificate: Certificate
    status: Status
    solver: str
    attempts: tuple[Attempt, ...]
    timings: Timings
    dual: Mapping[str, Floats]
    trace: Floats
    formulation: str
    hyperparameters: Mapping[str, Any]
    details: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("dual", "details"):
            arrays = {key: frozen(values) for key, values in getattr(self, name).items()}
            object.__setattr__(self, name, arrays)
        object.__setattr__(self, "trace", frozen(np.reshape(np.asarray(self.trace, dtype=np.float64), (-1, 3))))
        object.__setattr__(self, "hyperparameters", dict(self.hyperparameters))
        object.__setattr__(self, "attempts", tuple(self.attempts))

    @property
    def warm_start_used(self) -> bool:
        """Whether the solver whose point was kept used the earlier solution that was offered."""
        return any(attempt.warm_start_used for attempt in self.attempts if attempt.solver == self.solver)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a flat dictionary of plain values."""
        return {
            "formulation": self.formulation,
            **self.hyperparameters,
            "solver": self.solver,
            "status": str(self.status),
            "lower": self.certificate.lower,
            "upper": self.certificate.upper,
            "gap": self.certificate.gap,
            "kind": self.certificate.kind,
            "n_support": self.model.n_support,
            "seconds": self.timings.total,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`to_dict` as a data frame of one row."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])

    def __repr__(self) -> str:
        hyper = ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.hyperparameters.items()
        )
        tried = (
            ""
            if len(self.attempts) < 2
            else f" after {', '.join(a.solver for a in self.attempts if a.solver != self.solver)}"
        )
        return (
            f"Solution({self.formulation}({hyper}) by {self.solver}{tried}: {self.status}, "
            f"{self.certificate!r}, {self.model.n_support} support vectors, {self.timings.total:.3g} s)"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(str(k))}</th><td>{html.escape(str(v))}</td></tr>" for k, v in self.to_dict().items()
        )
        tried = "".join(
            f"<li>{html.escape(a.solver)}: {html.escape(str(a.status))}{html.escape(' — ' + a.reason if a.reason else '')}</li>"
            for a in self.attempts
        )
        return f"<table>{rows}</table><ul>{tried}</ul>"
