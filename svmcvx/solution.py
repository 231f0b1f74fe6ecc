"""What a solution remembers: why a solver stopped, what was tried, seconds, the data, and what a
proof needs.
"""

from __future__ import annotations

import html
import math
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import SEARCHED, Certificate, certificate_of_sum, status_of
from svmcvx.data import BinaryData, MulticlassData
from svmcvx.display import (
    MISSING,
    WIDTH,
    aligned,
    columns,
    interval,
    listed,
    number,
    quantity,
    rounded,
    settings,
    wrapped,
)
from svmcvx.errors import DataError
from svmcvx.kernels import Kernel, Linear
from svmcvx.model import Model, OneVsModel, frozen
from svmcvx.proofs.format import Proof, write_proof
from svmcvx.proofs.statement import Statement, dual_of

# Hyper-parameters on which the optimum does not depend, or for which a statement has separate
# fields.
OF_THE_SOLUTION: Final = ("kernel", "intercept", "form")


class Status(StrEnum):
    """How a solve ended: of a solution by its certificate, of an attempt as its solver says."""

    OPTIMAL = "optimal"
    # A stationary point of a local method, which proves no gap.
    STATIONARY = "stationary"
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

    @property
    def passed_over(self) -> bool:
        """Whether the solver was not called, since it is not installed or not licensed."""
        return self in (Status.LICENCE, Status.UNAVAILABLE)


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

    def __add__(self, other: Timings) -> Timings:
        return Timings(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """Data that a proof needs in addition to a model, a dual point and the hyper-parameters; `rows`
    are the observations of one of several problems, whose model counts those of all.
    """

    intercept: str
    weight: Floats
    fingerprint: str
    given: Mapping[str, Floats] = field(default_factory=dict)
    spread: Mapping[str, Floats] = field(default_factory=dict)
    tree: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rows: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", frozen(self.weight))
        for name in ("given", "spread", "tree"):
            object.__setattr__(
                self, name, {key: frozen(values) for key, values in getattr(self, name).items()}
            )

    def __repr__(self) -> str:
        arrays = {**self.given, **self.spread, **self.tree}
        more = f", {listed(arrays)}" if arrays else ""
        rows = quantity(self.weight.size, "observation")
        return f"Evidence({self.intercept} intercept, {rows}, {self.fingerprint}{more})"

    def statement(
        self,
        formulation: str,
        hyperparameters: Mapping[str, Any],
        kernel: Kernel | None,
        facts: DataFacts,
    ) -> Statement:
        """Return the problem as a proof states it."""
        numbers = hyperparameters.items()
        return Statement(
            formulation=formulation,
            hyperparameters={name: x for name, x in numbers if name not in OF_THE_SOLUTION},
            kernel=None if kernel is None or isinstance(kernel, Linear) else kernel.to_dict(),
            intercept=self.intercept,
            rows=facts.n,
            columns=facts.d,
            classes=facts.classes,
            fingerprint=self.fingerprint,
            weight=None if (self.weight == 1.0).all() else self.weight,
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
        """Whether these are other data of the same sizes and classes."""
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


# Share by which the claims of a proof are wider than the certificate: a checker in doubles that
# sums in other ways has another rounding.
REPEATED: Final = 2.0**-46


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The answer of any solver to a problem. Immutable and picklable.

    Attributes
    ----------
    model : Model
        Predicts; see :class:`svmcvx.Model`.
    certificate : Certificate
        The checked interval around the true optimum.
    status : Status
        Why the solver stopped.
    solver : str
        The solver whose point was chosen.
    attempts : tuple of Attempt
        Every solver that was tried, in order.
    timings : Timings
        Seconds for ``build``, ``compile``, ``solve`` and ``certify``.
    dual : dict of ndarray
        The dual point behind the lower bound, repaired to exact feasibility; indexed like the
        training data.
    trace : ndarray of shape (k, 3)
        Rows (seconds, lower, upper), NaN for a bound that was not known yet.
    formulation : str
        Name of the formulation.
    hyperparameters : dict
        The values that the problem was solved for.
    details : dict of ndarray
        Additional arrays of the answer, such as the per-observation ``"M"`` of a mixed-integer
        formulation; indexed like the training data.
    evidence : Evidence or None
        Further data for :meth:`save_proof`; None if there is no proof.
    data : DataFacts or None
        Sizes, classes and a short name of the data that the problem was solved for.
    terms : dict of float
        ``"regulariser"`` and ``"losses"``, whose sum is the objective at the model; empty where
        they are not known.
    parts : dict of Solution
        Of several binary problems, by their labels; empty for one problem.
    optimal_intercepts : OptimalIntercepts or None
        The intercepts that are optimal with the weights of the model, of which the model has the
        middle; None where no intercept is free (penalised or absent), for several problems, and for
        problems with added constraints.
    solver_reason : str
        Of :func:`svmcvx.solve`: the class of the problem, and why this solver was chosen.
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
    evidence: Evidence | None = None
    data: DataFacts | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[Any, Solution] = field(default_factory=dict)
    optimal_intercepts: OptimalIntercepts | None = None
    solver_reason: str = ""

    def __post_init__(self) -> None:
        for name in ("dual", "details", "trace", "hyperparameters"):
            object.__setattr__(self, name, self._kept(name, getattr(self, name)))

    @staticmethod
    def _kept(name: str, value: Any) -> Any:
        """Return a field with arrays that are read-only and dictionaries that are copies."""
        if name in ("dual", "details"):
            return {key: frozen(values) for key, values in value.items()}
        if name == "trace":
            return frozen(np.reshape(np.asarray(value, dtype=np.float64), (-1, 3)))
        return dict(value) if name == "hyperparameters" else value

    @property
    def warm_start_used(self) -> bool:
        """Whether the solver of the chosen point used the warm start."""
        return any(
            attempt.warm_start_used for attempt in self.attempts if attempt.solver == self.solver
        )

    def save_proof(self, path: str | os.PathLike[str]) -> None:
        """Write what the interval follows from to a file that :func:`svmcvx.verify` checks.

        The file holds the problem (its name and numbers, the kernel with its γ, the weights, a
        short name of the data), the model, the dual point and the ends that are claimed. There is
        no pickle in it. A lower end that a solver or a search states without a proof is stored
        separately; the claim is then about the upper end only.

        Parameters
        ----------
        path : path-like
            By convention ``*.npz``; an existing file is replaced as a whole.

        Raises
        ------
        DataError
            If there is no proof to hand on (added constraints, a kernel given by a function, one
            that was clipped, rows in blocks), or the file cannot be written.
        """
        write_proof(path, self.proof())

    def proof(self) -> Proof:
        """Return what :meth:`save_proof` writes.

        Raises
        ------
        DataError
            If there is no proof to hand on.
        """
        evidence, facts = self._known()
        certificate, residuals = self.certificate, self.certificate.residuals
        if "clipped_mass" in residuals:
            raise DataError(
                "the kernel was indefinite and has been clipped: the interval is about its positive"
                " part, which a proof from the raw data cannot state; use a positive semidefinite"
                " kernel"
            )
        statement, model = self._stated(evidence, facts), alone(self).model
        dual = dual_of(statement.formulation, statement.hyperparameters, self.dual)
        expansion = "dual_coef" if hasattr(model, "kernel") else "coef"
        names = ("support", expansion) if expansion == "dual_coef" else (expansion,)
        lower, by = certificate.lower, SEARCHED.get(certificate.kind)
        if lower == -math.inf:
            lower = None
        # An end that neither a dual point nor a tree proves: that of a search, or of any model, 0.
        unproved = certificate.kind != "convex" and not dual
        if f"{by}_bound" in residuals:
            unproved |= lower == residuals[f"{by}_bound"] - residuals[f"{by}_allowance"]
        unproved = unproved and not evidence.tree
        finite = certificate.upper < math.inf
        return Proof(
            statement=statement,
            model={name: getattr(model, name) for name in (*names, "intercept")}
            | dict(evidence.spread),
            dual=dual,
            lower=None if unproved or lower is None else lower - REPEATED * abs(lower),
            upper=certificate.upper + REPEATED * abs(certificate.upper) if finite else None,
            kind=certificate.kind,
            stated=lower if unproved and by else None,
            tree=evidence.tree,
        )

    def proof_statement(self) -> Statement:
        """Return the problem of a proof of this solution, which :func:`svmcvx.verify` may expect.

        Raises
        ------
        DataError
            If there is no proof to hand on.
        """
        return self._stated(*self._known())

    def _known(self) -> tuple[Evidence, DataFacts]:
        if self.evidence is None or self.data is None:
            raise DataError(
                f"there is no proof of this solution of {self.formulation} to hand on: it is one of"
                " several problems, for rows in blocks, of a problem with added constraints, or of"
                " a formulation outside the package"
            )
        return self.evidence, self.data

    def _stated(self, evidence: Evidence, facts: DataFacts) -> Statement:
        kernel = getattr(self.model, "kernel", None)
        return evidence.statement(self.formulation, self.hyperparameters, kernel, facts)

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

    def summary(self) -> Summary:
        """Return a summary as text of fixed width.

        Formulation, hyper-parameters and data; solver, status and seconds; the certificate with its
        residuals; terms of the objective; each binary problem of several; every solver that was
        tried; notes on what the interval does not say.

        Returns
        -------
        Summary
            A ``str``; ``print(solution.summary())`` shows it.
        """
        return Summary(summary_text(self))

    def __repr__(self) -> str:
        hyper = settings(self.hyperparameters)
        others = dict.fromkeys(
            one.solver
            for one in self.attempts
            if one.solver != self.solver and one.status is not Status.UNAVAILABLE
        )
        tried = f" after {listed(others)}" if others else ""
        return (
            f"Solution({self.formulation}({hyper}) by {self.solver}{tried}: {self.status},"
            f" {self.certificate!r}, {quantity(self.model.n_support, 'support vector')},"
            f" {self.timings.total:.3g} s)"
        )

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


class LazySolution(Solution):
    """A solution with fields that are computed at their first use."""

    @classmethod
    def of(cls, computed: dict[str, Callable[[], Any]], **known: Any) -> LazySolution:
        """Return a solution with known fields, and functions that compute others."""
        made = object.__new__(cls)
        absent = {"details", "terms", "parts", "dual"}.difference(computed)
        made.__dict__.update({name: {} for name in absent}, _computed=computed, **known)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Solution, tuple(getattr(self, field.name) for field in fields(self))


class _Lazy:
    """A field of a lazy solution that is not known yet; what is known hides it."""

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default = name, default

    def __get__(self, solution: LazySolution | None, owner: type[LazySolution]) -> Any:
        if solution is None or self.name not in (computed := vars(solution)["_computed"]):
            return self.default
        found = vars(solution)[self.name] = owner._kept(self.name, computed[self.name]())
        computed.pop(self.name, None)
        return found


for _field in fields(Solution):
    setattr(LazySolution, _field.name, _Lazy(_field.name, getattr(Solution, _field.name, None)))


def alone(part: Solution) -> Solution:
    """Return one of several problems with a model that counts its own observations."""
    model: Any = part.model
    if (evidence := part.evidence) is None or evidence.rows is None:
        return part
    own = replace(model, support=np.searchsorted(evidence.rows, model.support))
    return replace(part, model=own, evidence=replace(evidence, rows=None))


def composite(
    parts: Mapping[Any, Solution], scheme: str, classes: NDArray[Any], tol: float
) -> Solution:
    """Combine the solutions of the binary problems of several classes."""
    each = list(parts.values())
    worst = max(each, key=lambda solution: solution.certificate.gap)
    unfinished = [solution.status for solution in each if solution.status is not Status.OPTIMAL]
    certificate = certificate_of_sum({key: one.certificate for key, one in parts.items()})
    members: Any = tuple(solution.model for solution in each)
    return Solution(
        model=OneVsModel(scheme=scheme, members=members, classes=classes),
        certificate=certificate,
        status=unfinished[0] if unfinished else Status(status_of(certificate, tol, "optimal")),
        solver=worst.solver,
        attempts=tuple(attempt for solution in each for attempt in solution.attempts),
        timings=sum((one.timings for one in each), Timings()),
        dual={},
        trace=np.zeros((0, 3)),
        formulation=worst.formulation,
        hyperparameters={**worst.hyperparameters, "multiclass": scheme},
        parts=dict(parts),
    )


# Binary problems of several that are listed, those with the largest gaps first.
MOST_PARTS: Final = 12


class Summary(str):
    """Text of fixed width, which a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.2">{html.escape(str(self))}</pre>'


def summary_text(solution: Solution) -> str:
    """Return the lines of the summary."""
    title = f"{solution.formulation}: {_verdict(solution.certificate)}"
    lines = [f"{title:^{WIDTH}}".rstrip(), "=" * WIDTH]
    lines += columns(_formulation(solution) + _data(solution), _answer(solution))
    lines += ["-" * WIDTH, *columns(_interval(solution), _residuals(solution.certificate))]
    if solution.parts:
        lines += ["-" * WIDTH, *_parts(solution.parts)]
    if not solution.parts or len(solution.attempts) > len(solution.parts):
        lines += ["-" * WIDTH, *_attempts(solution)]
    lines.append("=" * WIDTH)
    for place, note in enumerate(_notes(solution), 1):
        lines += wrapped(note, WIDTH, f"[{place}] ", "    ")
    return "\n".join(lines)


def _verdict(certificate: Certificate) -> str:
    if certificate.kind == "local":
        return "a local minimum"
    if certificate.lower is None:
        return "no lower bound"
    if not math.isfinite(certificate.gap):
        return "no finite interval"
    return f"optimum known to a relative {certificate.gap:.2g}"


def _formulation(solution: Solution) -> list[tuple[str, str]]:
    return [("Formulation", solution.formulation)] + [
        (name, rounded(number(value))) for name, value in solution.hyperparameters.items()
    ]


def _data(solution: Solution) -> list[tuple[str, str]]:
    facts = _facts(solution)
    if facts is None:
        return [("Classes", listed(solution.model.classes.tolist()))]
    found = [
        ("Observations", number(facts.n) + (", weighted" if facts.weighted else "")),
        ("Features", number(facts.d)),
    ]
    classes: Any = facts.classes
    if facts.counts is not None:
        pairs = zip(facts.classes, facts.counts, strict=True)
        classes = [f"{label} ({count})" for label, count in pairs]
    found.append(("Classes", listed(classes)))
    return [*found, ("Data hash", facts.fingerprint)] if facts.fingerprint else found


def _facts(solution: Solution) -> DataFacts | None:
    """Return the facts of the data; of all pairs of classes together."""
    if solution.data is not None or not solution.parts:
        return solution.data
    labels = solution.model.classes.tolist()
    each = [part.data for part in solution.parts.values() if part.data is not None]
    counts: dict[Any, int] = {}
    for facts in each:
        counts.update(zip(facts.classes, facts.counts or (), strict=False))
    whole = set(combinations(labels, 2)) == solution.parts.keys() and len(each) == len(
        solution.parts
    )
    if not whole or not counts.keys() >= set(labels):
        return None
    known, precomputed = tuple(counts[label] for label in labels), each[0].precomputed
    n, weighted = sum(known), any(facts.weighted for facts in each)
    width = n if precomputed else each[0].d
    return DataFacts(n, width, tuple(labels), known, weighted, precomputed=precomputed)


def _answer(solution: Solution) -> list[tuple[str, str]]:
    clocks, facts = solution.timings, _facts(solution)
    share = f" ({solution.model.n_support / facts.n:.0%})" if facts is not None and facts.n else ""
    found = [
        ("Status", str(solution.status)),
        ("Solver", solution.solver),
        ("Seconds", f"{clocks.total:.3g}"),
        ("build, compile", f"{clocks.build:.3g}, {clocks.compile:.3g}"),
        ("solve, certify", f"{clocks.solve:.3g}, {clocks.certify:.3g}"),
        ("Warm start", "yes" if solution.warm_start_used else "no"),
        ("Model", type(solution.model).__name__),
        ("Support vectors", f"{solution.model.n_support}{share}"),
    ]
    for name, value in solution.terms.items():
        found.append((name.capitalize(), number(value, 7)))
    return found


def _interval(solution: Solution) -> list[tuple[str, str]]:
    certificate = solution.certificate
    lower, upper = interval(certificate.lower, certificate.upper)
    whose = f", sum of {len(solution.parts)}" if solution.parts else ""
    return [
        ("Certificate", certificate.kind + whose),
        ("Upper bound", upper),
        ("Lower bound", lower),
        ("Relative gap", f"{certificate.gap:.2g}" if math.isfinite(certificate.gap) else MISSING),
    ]


def _residuals(certificate: Certificate) -> list[tuple[str, str]]:
    return [
        (name.replace("_", " ").capitalize(), number(value, 3))
        for name, value in certificate.residuals.items()
    ]


def _parts(parts: Mapping[Any, Solution]) -> list[str]:
    """Return the lines of a table of binary problems, the largest gaps first."""
    ordered = sorted(parts.items(), key=lambda item: -item[1].certificate.gap)
    rows = []
    for key, part in ordered[:MOST_PARTS]:
        name = " / ".join(map(str, key)) if isinstance(key, tuple) else f"{key} / rest"
        ends = interval(part.certificate.lower, part.certificate.upper)
        gap, support = f"{part.certificate.gap:.1e}", str(part.model.n_support)
        rows.append([name, *ends, gap, str(part.status), support])
    header = ("classes", "lower", "upper", "gap", "status", "support")
    lines = [f"{quantity(len(parts), 'binary problem')}:", *aligned(header, rows, indent="  ")]
    if left := ordered[MOST_PARTS:]:
        largest = left[0][1].certificate.gap
        lines.append(f"  {len(left)} more, each with a gap of at most {largest:.1e}")
    return lines


def _attempts(solution: Solution) -> list[str]:
    """Return the lines of a table of the solvers that were tried, with the reasons."""
    ran = [one for one in solution.attempts if one.status is not Status.UNAVAILABLE]
    attempts, rows = ran[: 2 * MOST_PARTS], []
    for attempt in attempts:
        seconds = MISSING if attempt.status is Status.LICENCE else f"{attempt.seconds:.3g}"
        gap = f"{attempt.gap:.1e}" if math.isfinite(attempt.gap) else MISSING
        rows.append([attempt.solver, str(attempt.status), seconds, gap, number(attempt.iterations)])
    header = ("solver", "status", "seconds", "gap", "iterations")
    head, *table = aligned(header, rows, left=2, indent="  ")
    reason = f" ({solution.solver_reason})" if solution.solver_reason else ""
    lines = [*wrapped(f"Tried{reason}:", WIDTH, "", "  "), head]
    for row, attempt in zip(table, attempts, strict=True):
        why = wrapped(attempt.reason, WIDTH, "    ", "    ") if attempt.reason else []
        lines += [row, *why]
    left = len(ran) - len(attempts)
    return [*lines, f"  {left} more"] if left else lines


def _note_on_intercepts(solution: Solution) -> list[str]:
    """Say that other intercepts are optimal too, where more than a tolerance is between them."""
    found = solution.optimal_intercepts
    if found is None:
        return []
    lower, upper = np.atleast_1d(found.lower), np.atleast_1d(found.upper)
    longest = int(np.argmax(upper - lower))
    low, high = float(lower[longest]), float(upper[longest])
    # In units of the margin; no tolerance explains a longer interval.
    if not high - low > 1e-3:
        return []
    what = f"from {number(low, 4)} to {number(high, 4)}"
    if lower.size > 1:
        label = solution.model.classes.tolist()[longest]
        return [
            f"Other intercepts are optimal too, that of {label} {what}. The model has the middles"
            " of such intervals."
        ]
    return [
        f"All intercepts {what} are optimal with these weights. The model has the middle, or the"
        " only end."
    ]


def _notes(solution: Solution) -> list[str]:
    """Say what the interval rests on, and what it does not say."""
    parts = solution.certificate.parts
    notes = ["The interval is that of the sum of the binary problems' objectives."] if parts else []
    # Of several problems the notes on the bounds are those of the one with the largest gap.
    certificate = max(parts.values(), key=lambda one: one.gap, default=solution.certificate)
    lower, residuals = certificate.lower, certificate.residuals
    if certificate.kind == "local" or lower is None:
        notes.append(
            "A local method: the upper bound is the objective at the model, and the lower bound is"
            " the trivial one."
        )
    elif lower <= residuals.get("solver_bound", math.nan):
        notes.append(
            "The lower bound is the solver's statement less an allowance for its tolerances; it is"
            " not checked."
        )
    elif lower <= residuals.get("search_bound", math.nan):
        recorded = solution.evidence is not None and solution.evidence.tree
        proof = " save_proof() hands on a record of the search." if recorded else ""
        notes.append(f"The lower bound was proved by enumeration.{proof}")
    else:
        notes.append(
            "Both bounds were computed from the raw data, rounding included: the objective at the"
            " model, and the dual objective at a dual point repaired to exact feasibility."
        )
    if "added_violation" in residuals and lower is not None:
        notes.append(
            "Constraints were added, and both bounds count them."
            if "added" in solution.dual
            else (
                "Constraints were added: the lower bound is that of the problem without them, and"
                " need not be tight."
            )
        )
    notes += _note_on_intercepts(solution)
    if "clipped_mass" in residuals:
        notes.append("The kernel was indefinite: the interval is about its positive part.")
    if solution.status not in (Status.OPTIMAL, Status.STATIONARY, Status.INACCURATE):
        notes.append(
            f"The solver stopped before it was done ({solution.status}); the interval is still"
            " valid."
        )
    return notes


if TYPE_CHECKING:
    import pandas as pd
