r"""The certificate: an interval around the true optimum, created only by the checker.

The checker :func:`check` asks a formulation (its *statement*, bound to data) for four things, all
computed in plain numpy, or for many problems at once in compiled passes, from the raw data: the
objective at a model, a repaired dual point, how far that point still is from dual feasibility, and
the dual objective at it. Weak duality does the rest:

.. math:: \text{dual objective} \;\le\; \text{optimum} \;\le\; \text{objective},

for points from any solver, at any tolerance. Nothing is taken from a solver's report, with one
exception that the certificate shows: a mixed-integer problem has no dual point, and its lower bound
may be the one that a solver states to have proved (kind ``"mixed-integer"``,
``residuals["solver_bound"]``), or that our own search has proved by exhaustion (kind
``"enumeration"``, ``residuals["search_bound"]``).

Both ends are moved outwards by bounds on the rounding errors of their own evaluation
(:mod:`svmcvx.certificate.bounded`): they hold for every input, under the assumptions stated there.
 The width that this adds is in ``residuals["rounding"]``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, up

Kind = Literal["convex", "mixed-integer", "enumeration", "local"]
Dual = Mapping[str, NDArray[np.float64]]
M_contra = TypeVar("M_contra", contravariant=True)


class Evaluation(Bounded):
    """An objective with a bound on its error, and its terms where a statement names them."""

    __slots__ = ("terms",)

    def __init__(
        self, value: float, error: float = 0.0, terms: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(value, error)
        self.terms = terms or {}

    @classmethod
    def of(cls, *, regulariser: Bounded, losses: Bounded) -> Evaluation:
        """Return the sum of two terms, which remembers them."""
        found = regulariser + losses
        terms = {"regulariser": float(regulariser.value), "losses": float(losses.value)}
        return cls(found.value, found.error, terms)

    @classmethod
    def at_most(cls, high: float, *, regulariser: float, losses: float) -> Evaluation:
        """Return the sum of two terms, exactly at most `high`, without a lower bound."""
        value = regulariser + losses
        error = up(max(high - value, 0.0)) if high != value else 0.0
        return cls(value, error, {"regulariser": regulariser, "losses": losses})


class SolverBound(NamedTuple):
    """A lower bound stated by a mixed-integer solver, and the effect of its tolerances."""

    value: float
    allowance: float


# What a statement has by default.
OPTIONAL = ("dominates_trivial_bounds", "repair_improves", "residuals", "trivial")


class Statement(ABC):
    """What the checker needs to know of a formulation bound to data."""

    # Whether a repair may improve a dual point that is feasible.
    repair_improves: ClassVar[bool] = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in {name for name in vars(cls) if name[0] != "_"} - {*OPTIONAL}:
            for meant in get_close_matches(name, OPTIONAL, 1, cutoff=0.85):
                raise TypeError(f"{cls.__name__}.{name} is no part of a statement; name it {meant}")

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What a certificate of this formulation proves."""

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers that are shown with the certificate (clipped mass of the kernel, …)."""
        return {}

    @abstractmethod
    def evaluate(self, model: Any) -> Bounded:
        """Objective at a model, an :class:`Evaluation` with terms if known; ∞ if infeasible."""

    @abstractmethod
    def repair(self, dual: Dual) -> Dual:
        """Return a dual point nearby that is exactly feasible."""

    @abstractmethod
    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of a dual constraint beyond rounding; 0 for a feasible point."""

    @abstractmethod
    def evaluate_dual(self, dual: Dual) -> Bounded:
        """Dual objective at a feasible dual point, with its rounding."""

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """Return models and dual points that are known without a solver; none by default."""
        return [], []

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        """Whether bounds are known to be better than those of the trivial points."""
        return False

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """Return numbers for the certificate of a model and its dual point; none by default."""
        return {}


class PartsEvaluation(NamedTuple):
    """What a :class:`PartsStatement` says of a point, one number a problem."""

    regulariser: Bounded
    losses: Bounded
    dual: Bounded
    violation: NDArray[np.float64]


class PartsStatement(Protocol[M_contra]):
    """Many convex problems evaluated together; a point has a model and a dual point of each."""

    def evaluate(self, point: M_contra) -> PartsEvaluation:
        """Terms of the objectives, dual objectives, and violations of the dual points."""
