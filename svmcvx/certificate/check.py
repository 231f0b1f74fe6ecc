"""The checker, which alone makes certificates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.catalogue import TOL
from svmcvx.certificate.bounded import Bounded, exact, quietly, total
from svmcvx.certificate.statement import (
    Dual,
    Evaluation,
    Kind,
    PartsStatement,
    SolverBound,
    Statement,
)
from svmcvx.display import html_block, html_fields, interval, number
from svmcvx.errors import NotCertified
from svmcvx.system.threads import single_blas_thread

M = TypeVar("M")

# Kinds whose lower bound may be one that a search has stated, and who searched: a solver, or our
# own enumeration.
SEARCHED: Final[Mapping[str, str]] = {"mixed-integer": "solver", "enumeration": "search"}
# The kind of a sum is the last of its parts' kinds in this order.
KINDS: Final[tuple[Kind, ...]] = ("convex", "enumeration", "mixed-integer", "local")
# Residuals that a sum has, and how they follow from the parts'.
OF_SUMS: Final[Mapping[str, Any]] = {
    "dual_violation": np.max,
    "rounding": np.sum,
    "clipped_mass": np.max,
}
_MINT: Final = object()
# Relative amount of the optimum by which a preferred candidate may widen an interval.
PREFERENCE_RELATIVE: Final = 1e-9


def relative_gap(lower: float | None, upper: float) -> float:
    """Return (upper − lower)/max(|upper|, |lower|), 0 for two zeros, ∞ without finite bounds."""
    if lower is None or not (math.isfinite(upper) and math.isfinite(lower)):
        return math.inf
    return 0.0 if upper == lower else (upper - lower) / max(abs(upper), abs(lower))


class Certificate:
    """A checked interval around the true optimum of a minimisation problem.

    Certificates are made by this module alone; calling the class raises.

    Attributes
    ----------
    kind : "convex", "mixed-integer", "enumeration" or "local"
        What the interval means: ``"local"`` certificates have no lower bound.
    upper : float
        The formulation's objective at the model returned (``inf`` if the model is infeasible).
    lower : float or None
        A lower bound on the optimum, None if there is none.
    gap : float
        ``(upper - lower) / max(|upper|, |lower|)``; ``inf`` without a lower bound.
    residuals : dict
        ``"dual_violation"`` of the dual point as it was passed in, ``"rounding"`` included in the
        interval, and the formulation's own facts, such as ``"clipped_mass"`` of an indefinite
        kernel. If a mixed-integer solver stated a bound: ``"solver_bound"`` and the
        ``"solver_allowance"`` subtracted from it; unless a dual point proves more, ``lower`` is
        their difference, and not checked. An enumeration's are ``"search_bound"`` and
        ``"search_allowance"``.
    parts : dict of Certificate
        Of the sum over several binary problems: the certificate of each, by its labels. The ends
        are the sums of the parts' ends, rounded outwards. Empty for one problem.
    """

    __slots__ = ("_parts", "_residuals", "kind", "lower", "upper")
    kind: Kind
    lower: float | None
    upper: float
    _residuals: tuple[tuple[str, float], ...]
    _parts: tuple[tuple[Any, Certificate], ...]

    def __init__(
        self,
        *,
        _mint: object = None,
        kind: Kind,
        upper: float,
        lower: float | None,
        residuals: Mapping[str, float],
        parts: Mapping[Any, Certificate] | None = None,
    ) -> None:
        if _mint is not _MINT:
            raise NotCertified(
                "a Certificate is made by svmcvx.certificate.check only, from a statement, models"
                " and dual points"
            )
        lists = {"_residuals": tuple(residuals.items()), "_parts": tuple((parts or {}).items())}
        self.__setstate__({"kind": kind, "upper": upper, "lower": lower, **lists})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Certificate cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Certificate cannot be changed")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, state[name])

    @property
    def gap(self) -> float:
        """Relative width of the interval."""
        return relative_gap(self.lower, self.upper)

    @property
    def residuals(self) -> dict[str, float]:
        """Further numbers (a fresh dictionary)."""
        return dict(self._residuals)

    @property
    def parts(self) -> dict[Any, Certificate]:
        """The certificates of the binary problems of a sum (a fresh dictionary)."""
        return dict(self._parts)

    def is_certified(self, tol: float = TOL) -> bool:
        """Return whether the relative gap is at most `tol`."""
        return self.gap <= tol

    def require(self, tol: float = TOL) -> Certificate:
        """Return this certificate; raise NotCertified if its gap is above `tol`."""
        if not self.is_certified(tol):
            raise NotCertified(
                f"the relative gap {self.gap:.2g} exceeds {tol:.2g}: the optimum lies in"
                f" [{self.lower}, {self.upper}]"
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a plain dictionary."""
        found = {"kind": self.kind, "upper": self.upper, "lower": self.lower, "gap": self.gap}
        return found | self.residuals

    @property
    def _title(self) -> str:
        return f"{self.kind}, sum of {len(self._parts)}" if self._parts else self.kind

    def __repr__(self) -> str:
        if self.lower is None:
            return f"Certificate({self._title}: upper {self.upper:.9g}, no lower bound)"
        return (
            f"Certificate({self._title}: lower {self.lower:.9g}, upper {self.upper:.9g}, gap"
            f" {self.gap:.2g})"
        )

    def _repr_html_(self) -> str:
        lower, upper = interval(self.lower, self.upper)
        fields = [
            ("Lower bound", lower),
            ("Upper bound", upper),
            ("Relative gap", number(self.gap, 2)),
        ]
        fields += [
            (name.replace("_", " ").capitalize(), number(value, 3))
            for name, value in self._residuals
        ]
        return html_block(f"Certificate ({self._title})", html_fields(fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.kind, self.upper, self.lower))


@dataclass(frozen=True)
class Checked(Generic[M]):
    """The checker's choice among the candidates, and the terms of the objective, if known."""

    model: M
    dual: Dual
    certificate: Certificate
    terms: Mapping[str, float] = field(default_factory=dict)


def _evaluated(
    statement: Statement, models: Sequence[M], proved: float
) -> list[tuple[M, Bounded, float]]:
    """Return models with their objectives and upper ends, until none can be preferred."""
    found = []
    for model in models:
        upper = statement.evaluate(model)
        if math.isnan(upper.value):
            continue
        found.append((model, upper, upper.upper_end))
        if relative_gap(proved, upper.upper_end) <= PREFERENCE_RELATIVE:
            break
    return found


def _closed(bound: Bounded, upper: Bounded) -> bool:
    """Return whether rounding is all that is between two bounds, and little of them."""
    apart, rounding = float(upper.value) - float(bound.value), float(upper.error + bound.error)
    gap = relative_gap(bound.lower_end, upper.upper_end)
    return apart <= rounding and gap <= PREFERENCE_RELATIVE


def _bounds(
    statement: Statement, duals: Sequence[Dual], upper: Bounded | None = None, *, repair: bool
) -> tuple[list[tuple[Dual, float, Bounded, float]], float, Dual]:
    """Return usable dual points with numbers, the last violation, and a point without a bound, up
    to the first that is below an `upper` bound by no more than rounding.
    """
    found: list[tuple[Dual, float, Bounded, float]] = []
    violation = math.nan
    best_dual: Dual = {}
    for dual in duals:
        violation = statement.dual_violation(dual)
        improves = repair and (violation != 0 or statement.repair_improves)
        point = statement.repair(dual) if improves else dual
        # The repair is not trusted either: its result is tested like any other point.
        if (violation if point is dual else statement.dual_violation(point)) == 0:
            bound = statement.evaluate_dual(point)
            low = bound.lower_end
            if math.isfinite(low):
                found.append((point, violation, bound, low))
                if upper is not None and _closed(bound, upper):
                    break
            elif statement.kind == "local" and not best_dual:
                best_dual = point
    return found, violation, best_dual


@single_blas_thread()
@quietly
def check(
    statement: Statement,
    models: Sequence[M],
    duals: Sequence[Dual],
    *,
    repair: bool = True,
    solver_bound: SolverBound | None = None,
    own_models: bool = True,
) -> Checked[M]:
    """Mint the certificate of the best of several models with the best of several dual points.

    The model is the first whose objective is as good as the lowest, up to a tenth of the interval
    or 1e-9, also of those that the statement knows (`own_models`). The dual point has the largest
    objective; with `repair` each is made exactly feasible, otherwise one that violates a constraint
    gives no bound. A `solver_bound` is for mixed-integer or enumerated statements. NotCertified is
    raised where no model has an objective, or bounds contradict each other by more than rounding.
    """
    if solver_bound is not None and statement.kind not in SEARCHED:
        raise NotCertified(
            f"a solver's bound proves nothing for a statement of kind {statement.kind!r}; pass a"
            " dual point instead"
        )
    uppers = _evaluated(statement, models[:1], -math.inf)
    upper, high = uppers[0][1:] if uppers else (None, math.inf)
    lowers, violation, best_dual = _bounds(statement, duals, upper, repair=repair)
    known = max((low for *_, low in lowers), default=-math.inf)
    if relative_gap(known, high) > PREFERENCE_RELATIVE:
        uppers += _evaluated(statement, models[1:], known)
    high = min((high for *_, high in uppers), default=math.inf)
    if models and statement.kind != "local" and not statement.dominates_trivial_bounds(high, known):
        known_models, known_duals = statement.trivial()
        uppers += _evaluated(statement, known_models if own_models else [], -math.inf)
        lowers += _bounds(statement, known_duals, repair=repair)[0]
    if not uppers:
        raise NotCertified(
            "no candidate model has an objective value; the data may be out of the range of"
            " floating point"
        )
    best_high = min(high for *_, high in uppers)
    best_low = max((low for *_, low in lowers), default=-math.inf)
    stated, said = -math.inf, {}
    if solver_bound is not None and math.isfinite(solver_bound.value):
        stated, by = solver_bound.value - solver_bound.allowance, SEARCHED[statement.kind]
        said = {f"{by}_bound": solver_bound.value, f"{by}_allowance": solver_bound.allowance}
        if stated > best_high:
            raise NotCertified(
                f"the {by}'s bound {solver_bound.value!r} exceeds the objective {best_high!r} of a"
                f" feasible point by more than its tolerance {solver_bound.allowance:.2g}: it is"
                " wrong"
            )
    # Of the interval that will be returned: what a search has proved counts too.
    width = best_high - max(best_low, stated)
    width = max(width, 0.0) if math.isfinite(width) else 0.0
    # A candidate listed earlier (for example a sparser model) is preferred if it widens the
    # interval by no more than a tenth, or by 1e-9 of the optimum.
    little = PREFERENCE_RELATIVE * abs(best_high) if math.isfinite(best_high) else 0.0
    slack = max(0.1 * width, little)
    model, upper, high = next(entry for entry in uppers if entry[2] <= best_high + slack)
    if relative_gap(max(best_low, stated), best_high) > 0.99:
        # Where rounding is all of an interval in any case, the values themselves are compared.
        plain = min(uppers, key=lambda entry: float(entry[1].value))
        if float(plain[1].value) <= plain[1].error and math.isfinite(plain[2]):
            model, upper, high = plain
    lower: Bounded | None = None
    low: float | None = None
    if lowers:
        best_dual, violation, lower, low = next(entry for entry in lowers if entry[3] == best_low)

    rounding = float(upper.error) + (0.0 if lower is None else float(lower.error))
    if low is not None and low > high:
        raise NotCertified(
            f"the dual bound {low!r} exceeds the objective {high!r} by more than rounding; please"
            " report this as a defect"
        )
    if said:
        low = stated if low is None else max(low, stated)
    residuals = {"dual_violation": violation, "rounding": rounding, **statement.facts}
    residuals |= {**statement.residuals(model, best_dual), **said}
    certificate = Certificate(
        _mint=_MINT, kind=statement.kind, upper=high, lower=low, residuals=residuals
    )
    terms = upper.terms if isinstance(upper, Evaluation) else {}
    return Checked(model=model, dual=best_dual, certificate=certificate, terms=terms)


@dataclass(frozen=True, eq=False)
class CheckedParts:
    """The intervals of many convex problems, whose certificates are made on demand."""

    upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    violation: NDArray[np.float64]
    rounding: NDArray[np.float64]
    regulariser: NDArray[np.float64]
    losses: NDArray[np.float64]

    @cached_property
    def gaps(self) -> list[float]:
        return list(map(relative_gap, self.lower.tolist(), self.upper.tolist()))

    def certificate(self, part: int) -> Certificate:
        lower = float(self.lower[part])
        residuals = {
            "dual_violation": float(self.violation[part]),
            "rounding": float(self.rounding[part]),
        }
        return Certificate(
            _mint=_MINT,
            kind="convex",
            upper=float(self.upper[part]),
            lower=lower if math.isfinite(lower) else None,
            residuals=residuals,
        )


@quietly
def certificate_of_sum(parts: Mapping[Any, Certificate]) -> Certificate:
    """Mint the interval of the sum of several problems, each with its own model."""
    each = list(parts.values())
    lowers = [one.lower for one in each if one.lower is not None]
    residuals = [one.residuals for one in each]
    found = {name: [one[name] for one in residuals if name in one] for name in OF_SUMS}
    return Certificate(
        _mint=_MINT,
        kind=max((one.kind for one in each), key=KINDS.index),
        upper=total(exact(np.array([one.upper for one in each]))).upper_end,
        lower=total(exact(np.array(lowers))).lower_end if len(lowers) == len(each) else None,
        residuals={name: float(OF_SUMS[name](values)) for name, values in found.items() if values},
        parts=parts,
    )


def status_of(certificate: Certificate, tol: float, said: str) -> str:
    """Return "optimal" for a gap of at most `tol`, else the solver's status, never "optimal"."""
    if certificate.is_certified(tol):
        return "optimal"
    if said != "optimal":
        return said
    return "stationary" if certificate.kind == "local" else "inaccurate"


@quietly
def check_parts(statement: PartsStatement[M], point: M) -> CheckedParts:
    """Evaluate the intervals of many problems at a model and an unrepaired dual point each."""
    regulariser, losses, bound, violation = statement.evaluate(point)
    upper = regulariser + losses
    ends = Bounded(
        np.array([upper.value, -bound.value]), np.array([upper.error, bound.error])
    ).upper
    feasible = violation == 0.0
    high, low = ends[0], np.where(feasible, -ends[1], -np.inf)
    if (wrong := np.flatnonzero(low > high)).size:
        raise NotCertified(
            f"the dual bound {low[wrong[0]]!r} exceeds the objective {high[wrong[0]]!r} by more"
            " than rounding; please report this as a defect"
        )
    rounding = upper.error + np.where(feasible, bound.error, 0.0)
    return CheckedParts(high, low, violation, rounding, regulariser.value, losses.value)
