"""The summary of a solution, as text of fixed width and as HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final, NamedTuple, Protocol, Self

import numpy as np

from svmcvx.certificate import Certificate
from svmcvx.display import (
    MISSING,
    WIDTH,
    aligned,
    columns,
    html_block,
    html_fields,
    html_table,
    interval,
    listed,
    number,
    quantity,
    rounded,
    wrapped,
)
from svmcvx.solution.record import Attempt, DataFacts, OptimalIntercepts, Status, Timings, Undecided

__all__ = ["Summary", "summary_html"]

# Binary problems of several that are listed, those with the largest gaps first.
MOST_PARTS: Final = 12
# Length of an interval of intercepts, in units of the margin, that no tolerance explains.
LONG_INTERVAL: Final = 1e-3
ATTEMPTS: Final = ("solver", "status", "seconds", "gap", "iterations")
PARTS: Final = ("classes", "lower", "upper", "gap", "status", "support")


class _Summarised(Protocol):
    """What a summary reads of a solution, whose module imports this one."""

    @property
    def model(self) -> Any: ...

    @property
    def certificate(self) -> Certificate: ...

    @property
    def status(self) -> Status: ...

    @property
    def solver(self) -> str: ...

    @property
    def attempts(self) -> tuple[Attempt, ...]: ...

    @property
    def timings(self) -> Timings: ...

    @property
    def dual(self) -> Mapping[str, Any]: ...

    @property
    def formulation(self) -> str: ...

    @property
    def hyperparameters(self) -> Mapping[str, Any]: ...

    @property
    def evidence(self) -> Any: ...

    @property
    def data(self) -> DataFacts | None: ...

    @property
    def terms(self) -> Mapping[str, float]: ...

    @property
    def parts(self) -> Mapping[Any, Any]: ...

    @property
    def optimal_intercepts(self) -> OptimalIntercepts | None: ...

    @property
    def undecided(self) -> Undecided | None: ...

    @property
    def warm_start_used(self) -> bool: ...


class Summary(str):
    """Text of fixed width that shows itself as it is, and as HTML in a notebook."""

    __slots__ = ("_markup",)
    _markup: str

    @classmethod
    def of(cls, solution: _Summarised) -> Self:
        """Return the summary of a solution."""
        found = cls(summary_text(solution))
        found._markup = summary_html(solution)
        return found

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._markup


class _Table(NamedTuple):
    title: str
    header: tuple[str, ...]
    rows: list[list[str]]
    # A line below each row; empty for none.
    remarks: list[str]
    more: str


def summary_text(solution: _Summarised) -> str:
    """Return the lines of the summary."""
    title = f"{solution.formulation}: {_verdict(solution.certificate)}"
    lines = [f"{title:^{WIDTH}}".rstrip(), "=" * WIDTH]
    lines += columns(_formulation(solution) + _data(solution), _answer(solution))
    lines += ["-" * WIDTH, *columns(_interval(solution), _residuals(solution.certificate))]
    for table in _tables(solution):
        lines += ["-" * WIDTH, f"{table.title}:"]
        head, *rows = aligned(
            table.header, table.rows, left=2 if table.header == ATTEMPTS else 1, indent="  "
        )
        lines.append(head)
        for row, remark in zip(rows, table.remarks, strict=True):
            lines.append(row)
            if remark:
                lines += wrapped(remark, WIDTH, "    ", "    ")
        if table.more:
            lines += wrapped(table.more, WIDTH, "  ", "  ")
    lines.append("=" * WIDTH)
    for place, note in enumerate(_notes(solution), 1):
        lines += wrapped(note, WIDTH, f"[{place}] ", "    ")
    return "\n".join(lines)


def summary_html(solution: _Summarised) -> str:
    """Return the summary as HTML."""
    side = '<div style="display:inline-block;vertical-align:top;margin-right:2em;">{}</div>'
    parts = [
        side.format(html_fields(fields))
        for fields in (
            _formulation(solution) + _data(solution),
            _answer(solution),
            _interval(solution) + _residuals(solution.certificate),
        )
    ]
    for table in _tables(solution):
        rows = [[*row, remark] for row, remark in zip(table.rows, table.remarks, strict=True)]
        left = (0, 1, len(table.header)) if table.header == ATTEMPTS else (0, len(table.header))
        header = [*table.header, "remark"]
        if not any(table.remarks):
            header, rows = header[:-1], [row[:-1] for row in rows]
        below = html_fields([("", table.more)]) if table.more else ""
        parts.append(html_block(table.title, html_table(header, rows, left=left), below))
    notes = _notes(solution)
    if notes:
        parts.append(html_fields([(f"[{place}]", note) for place, note in enumerate(notes, 1)]))
    return html_block(f"{solution.formulation}: {_verdict(solution.certificate)}", *parts)


def _verdict(certificate: Certificate) -> str:
    if certificate.lower is None:
        return "no lower bound"
    if not math.isfinite(certificate.gap):
        return "no finite interval"
    return f"optimum known to a relative {certificate.gap:.2g}"


def _formulation(solution: _Summarised) -> list[tuple[str, str]]:
    return [("Formulation", solution.formulation)] + [
        (name, rounded(number(value))) for name, value in solution.hyperparameters.items()
    ]


def _data(solution: _Summarised) -> list[tuple[str, str]]:
    facts = _facts(solution)
    if facts is None:
        return [("Classes", listed(solution.model.classes.tolist()))]
    found = [
        ("Observations", number(facts.n) + (", weighted" if facts.weighted else "")),
        ("Features", number(facts.d)),
    ]
    if facts.counts is None:
        found.append(("Classes", listed(facts.classes)))
    else:
        counts = (
            f"{label} ({count})" for label, count in zip(facts.classes, facts.counts, strict=True)
        )
        found.append(("Classes", listed(counts)))
    return [*found, ("Data hash", facts.fingerprint)] if facts.fingerprint else found


def _facts(solution: _Summarised) -> DataFacts | None:
    """Return the facts of the data; of all pairs together where each pair of classes has its own."""
    if solution.data is not None or not solution.parts:
        return solution.data
    labels = solution.model.classes.tolist()
    counts: dict[Any, int] = {}
    pairs = set(combinations(labels, 2)) == solution.parts.keys()
    each = [part.data for part in solution.parts.values() if part.data is not None]
    if not pairs or len(each) < len(solution.parts):
        return None
    for facts in each:
        counts.update(zip(facts.classes, facts.counts or (), strict=False))
    known = [counts[label] for label in labels if label in counts]
    if len(known) < len(labels):
        return None
    weighted = any(facts.weighted for facts in each)
    width = sum(known) if each[0].precomputed else each[0].d
    return DataFacts(
        sum(known), width, tuple(labels), tuple(known), weighted, precomputed=each[0].precomputed
    )


def _answer(solution: _Summarised) -> list[tuple[str, str]]:
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


def _interval(solution: _Summarised) -> list[tuple[str, str]]:
    certificate = solution.certificate
    lower, upper = interval(certificate.lower, certificate.upper)
    whose = ", largest gap" if solution.parts else ""
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


def _tables(solution: _Summarised) -> list[_Table]:
    found = []
    if solution.parts:
        found.append(_parts(solution.parts))
    if not solution.parts or len(solution.attempts) > len(solution.parts):
        found.append(_attempts(solution))
    return found


def _parts(parts: Mapping[Any, _Summarised]) -> _Table:
    ordered = sorted(parts.items(), key=lambda item: -item[1].certificate.gap)
    rows = []
    for key, part in ordered[:MOST_PARTS]:
        certificate = part.certificate
        name = " / ".join(map(str, key)) if isinstance(key, tuple) else f"{key} / rest"
        lower, upper = interval(certificate.lower, certificate.upper)
        rows.append(
            [
                name,
                lower,
                upper,
                f"{certificate.gap:.1e}",
                str(part.status),
                str(part.model.n_support),
            ]
        )
    left = ordered[MOST_PARTS:]
    more = (
        f"{len(left)} more, each with a gap of at most {left[0][1].certificate.gap:.1e}"
        if left
        else ""
    )
    return _Table(quantity(len(parts), "binary problem"), PARTS, rows, [""] * len(rows), more)


def _attempts(solution: _Summarised) -> _Table:
    attempts = solution.attempts[: 2 * MOST_PARTS]
    rows, remarks = [], []
    for attempt in attempts:
        unlicensed = attempt.status is Status.LICENCE
        seconds = MISSING if unlicensed else f"{attempt.seconds:.3g}"
        gap = f"{attempt.gap:.1e}" if math.isfinite(attempt.gap) else MISSING
        rows.append([attempt.solver, str(attempt.status), seconds, gap, number(attempt.iterations)])
        remarks.append(attempt.reason)
    left = len(solution.attempts) - len(attempts)
    return _Table("Tried", ATTEMPTS, rows, remarks, f"{left} more" if left else "")


def _note_on_intercepts(solution: _Summarised) -> list[str]:
    """Say that other intercepts are optimal too, where more than a tolerance is between them."""
    found = solution.optimal_intercepts
    if found is None:
        return []
    lower, upper = np.atleast_1d(found.lower), np.atleast_1d(found.upper)
    longest = int(np.argmax(upper - lower))
    if not upper[longest] - lower[longest] > LONG_INTERVAL:
        return []
    what = f"from {number(float(lower[longest]), 4)} to {number(float(upper[longest]), 4)}"
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


def _notes(solution: _Summarised) -> list[str]:
    """Say what the interval rests on, and what it does not say."""
    certificate, residuals = solution.certificate, solution.certificate.residuals
    notes = []
    if solution.parts:
        notes.append(
            "The interval is that of the binary problem with the largest gap, not of a common"
            " objective."
        )
    if certificate.lower is None:
        notes.append(
            "A local method: the upper bound is the objective at the model, nothing bounds the"
            " optimum from below."
        )
    elif "solver_bound" in residuals and certificate.lower <= residuals["solver_bound"]:
        notes.append(
            "The lower bound is the solver's statement less an allowance for its tolerances; it is"
            " not checked."
        )
    elif "search_bound" in residuals and certificate.lower <= residuals["search_bound"]:
        recorded = solution.evidence is not None and solution.evidence.tree
        proof = " save_proof() hands on a record of the search." if recorded else ""
        notes.append(f"The lower bound was proved by enumeration.{proof}")
    else:
        notes.append(
            "Both bounds were computed from the raw data, rounding included: the objective at the"
            " model, and the dual objective at a dual point repaired to exact feasibility."
        )
    if "added_violation" in residuals and certificate.lower is not None:
        notes.append(
            "Constraints were added, and both bounds count them."
            if "added" in solution.dual
            else (
                "Constraints were added: the lower bound is that of the problem without them, and"
                " need not be tight."
            )
        )
    notes += _note_on_intercepts(solution)
    if solution.undecided is not None:
        notes.append(
            f"Labels of every optimal machine, of the rows given to refine: {solution.undecided}."
        )
    if "clipped_mass" in residuals:
        notes.append("The kernel was indefinite: the interval is about its positive part.")
    if solution.status not in (Status.OPTIMAL, Status.INACCURATE):
        notes.append(
            f"The solver stopped before it was done ({solution.status}); the interval is still"
            " valid."
        )
    return notes
