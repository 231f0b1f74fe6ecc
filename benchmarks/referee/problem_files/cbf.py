"""The conic benchmark format (CBF, version 3), the text format of the library CBLIB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import scipy.sparse as sp

from benchmarks.referee.problem_files.cone_form import Cone, ConeForm

__all__ = ["cbf_lines"]

NAMES = {"zero": "L=", "nonnegative": "L+", "second-order": "Q", "exponential": "EXP"}


def cbf_lines(form: ConeForm, remarks: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file in the conic benchmark format."""
    scalar = [cone for cone in form.cones if cone.kind != "semidefinite"]
    semidefinite = [cone for cone in form.cones if cone.kind == "semidefinite"]
    order, matrices = _places(form.cones)
    yield from (f"# {remark}" for remark in remarks)
    yield from (f"# column {column}: {name}" for column, name in enumerate(form.names))
    yield from ("VER", "3", "")
    exponents = sorted({cone.exponent for cone in scalar if cone.exponent is not None})
    if exponents:
        yield from ("POWCONES", f"{len(exponents)} {2 * len(exponents)}")
        for a in exponents:
            yield from ("2", repr(a), repr(1.0 - a))
        yield ""
    yield from ("OBJSENSE", "MAX" if form.maximise else "MIN", "")
    m = len(form.linear)
    yield from ("VAR", f"{m} 1", f"F {m}", "")
    if len(form.integer):
        yield from ("INT", str(len(form.integer)), *map(str, form.integer), "")
    if semidefinite:
        yield from (
            "PSDCON",
            str(len(semidefinite)),
            *(str(_side(cone)) for cone in semidefinite),
            "",
        )
    if scalar:
        yield from ("CON", f"{sum(cone.rows for cone in scalar)} {len(scalar)}")
        for cone in scalar:
            name = (
                NAMES[cone.kind]
                if cone.exponent is None
                else f"@{exponents.index(cone.exponent)}:POW"
            )
            yield f"{name} {cone.rows}"
        yield ""
    sign = -1.0 if form.maximise else 1.0
    costs = (sign * form.linear).tolist()
    yield from _section(
        "OBJACOORD", [f"{column} {cost!r}" for column, cost in enumerate(costs) if cost]
    )
    if form.constant:
        yield from ("OBJBCOORD", repr(sign * form.constant), "")
    entries = sp.coo_matrix(form.rows)
    triples = sorted(
        zip(entries.row.tolist(), entries.col.tolist(), (-entries.data).tolist(), strict=True)
    )
    constants = [(row, value) for row, value in enumerate(form.right.tolist()) if value]
    yield from _section(
        "ACOORD",
        [f"{order[row]} {column} {value!r}" for row, column, value in triples if row in order],
    )
    yield from _section(
        "BCOORD", [f"{order[row]} {value!r}" for row, value in constants if row in order]
    )
    yield from _section(
        "HCOORD",
        [
            f"{k} {column} {i} {j} {value * unit!r}"
            for row, column, value in triples
            if row in matrices
            for k, i, j, unit in [matrices[row]]
        ],
    )
    yield from _section(
        "DCOORD",
        [
            f"{k} {i} {j} {value * unit!r}"
            for row, value in constants
            if row in matrices
            for k, i, j, unit in [matrices[row]]
        ],
    )


def _section(keyword: str, lines: list[str]) -> Iterator[str]:
    """Yield a section with its number of lines; nothing where it has none."""
    if lines:
        yield from (keyword, str(len(lines)), *lines, "")


def _side(cone: Cone) -> int:
    """Return the number of rows of the matrix of a semidefinite cone."""
    return (math.isqrt(8 * cone.rows + 1) - 1) // 2


def _places(cones: Iterable[Cone]) -> tuple[dict[int, int], dict[int, tuple[int, int, int, float]]]:
    """Return, by row of the form, the row of a scalar constraint, or (matrix, i, j, factor) of an
    entry with i ≥ j.
    """
    order: dict[int, int] = {}
    matrices: dict[int, tuple[int, int, int, float]] = {}
    row = matrix = 0
    for cone in cones:
        if cone.kind == "semidefinite":
            for column in range(_side(cone)):
                for i in range(column + 1):
                    matrices[row] = (matrix, column, i, 1.0 if i == column else math.sqrt(0.5))
                    row += 1
            matrix += 1
            continue
        first = len(order)
        for k in range(cone.rows):
            order[row + k] = first + (cone.rows - 1 - k if cone.kind == "exponential" else k)
        row += cone.rows
    return order, matrices
