"""Text and HTML that objects show themselves by: numbers with whole digits, tables of fixed width,
tables of HTML.

The HTML needs nothing else (no script, no style sheet) and takes its colours from the page, so that
it reads on a light and on a dark background. All text from data is escaped.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

Fields: TypeAlias = "Sequence[tuple[str, str]]"
Cell: TypeAlias = Any

MISSING: Final = "–"
WIDTH: Final = 78
# Least and largest number of digits of the ends of an interval; the largest distinguishes all
# doubles.
LEAST_DIGITS, MOST_DIGITS = 7, 17
# Characters above which a text is wrapped.
LONG: Final = 40
# Labels that are listed by name.
LISTED: Final = 6

_LONG_NUMBER: Final = re.compile(r"\d+\.\d{6,}(?:e[+-]?\d+)?")
_RULE: Final = "1px solid rgba(128,128,128,0.45)"
_CELL: Final = "padding:0.2em 0.7em;background:none;color:inherit;vertical-align:top;"
_LABEL: Final = "font-weight:normal;opacity:0.75;white-space:nowrap;"
_LEFT, _RIGHT = _CELL + "text-align:left;", _CELL + "text-align:right;white-space:nowrap;"


class ShortRepr:
    """For classes whose dataclasses inherit ``__repr__``, where the generated one would write out
    arrays.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # A dataclass does not replace one that the class itself defines.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]


# Numbers


def number(value: Any, digits: int = 6) -> str:
    """Return a number as text with a number of significant digits, anything else as its text; a
    dash for None and NaN.
    """
    if value is None:
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        # Print −0 as 0.
        return MISSING if math.isnan(value) else f"{float(value) + 0.0:.{digits}g}"
    return str(value)


def interval(lower: float | None, upper: float, most: int = MOST_DIGITS) -> tuple[str, str]:
    """Return both ends with as many digits as show that they differ, and one more; but at most
    `most`.
    """
    if lower is None or not (math.isfinite(lower) and math.isfinite(upper)):
        return number(lower, LEAST_DIGITS), number(upper, LEAST_DIGITS)
    digits = LEAST_DIGITS
    # Numbers that differ by a rounding at one length may be the same text at the next.
    while (
        digits < most
        and lower != upper
        and any(f"{lower:.{k}g}" == f"{upper:.{k}g}" for k in (digits - 1, digits))
    ):
        digits += 1
    return number(lower, digits), number(upper, digits)


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where it is not one."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def listed(values: Iterable[Any], most: int = LISTED) -> str:
    """Return values with commas between, the first few and the last of many."""
    texts = [str(value) for value in values]
    return ", ".join(texts if len(texts) <= most else [*texts[: most - 1], "…", texts[-1]])


def settings(values: Mapping[str, Any]) -> str:
    """Return ``name=value`` for each entry, with numbers of few digits."""
    return ", ".join(f"{name}={rounded(number(value))}" for name, value in values.items())


def rounded(text: str) -> str:
    """Return a text such as ``RBF(gamma=0.033333333333333326)`` with its numbers rounded to six
    digits.
    """
    return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", text)


def check_mark(holds: Any) -> str:
    """Return the mark for certified or not certified."""
    return "✓" if holds else "✗"


# Text


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return the lines of a text; long words are broken, nothing is omitted."""
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )
    return lines or [first.rstrip()]


def columns(left: Fields, right: Fields, width: int = WIDTH) -> list[str]:
    """Return two lists of labels and values side by side, values at the right edge of their half."""
    gap = 3
    half = (width - gap) // 2
    first, second = _half(left, half), _half(right, width - gap - half)
    rows = max(len(first), len(second))
    first += [""] * (rows - len(first))
    second += [""] * (rows - len(second))
    return [f"{a:<{half}}{' ' * gap}{b}".rstrip() for a, b in zip(first, second, strict=True)]


def _half(fields: Fields, width: int) -> list[str]:
    lines: list[str] = []
    for label, value in fields:
        room = width - len(label) - 2
        pieces = wrapped(value, room) if len(value) <= 2 * room else wrapped(value, width - 4)
        if len(value) > 2 * room:
            lines.append(f"{label}:")
        else:
            lines.append(f"{label}: {pieces.pop(0):>{room}}")
        lines += [f"{piece:>{width}}" for piece in pieces]
    return lines


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: str = ""
) -> list[str]:
    """Return the lines of a table: the first `left` columns at the left of theirs, the others at
    the right.
    """
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[j]) for row in table) for j in range(len(header))]
    return [
        indent
        + "  ".join(
            f"{cell:<{width}}" if j < left else f"{cell:>{width}}"
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


# HTML


def _escaped(value: Cell) -> str:
    return html.escape(str(value))


def html_block(title: str, *parts: str) -> str:
    """Return parts under a title."""
    head = f'<div style="font-weight:bold;margin:0 0 0.3em 0.1em;">{_escaped(title)}</div>'
    return (
        '<div class="svmcvx" style="color:inherit;background:none;margin:0.4em 0;overflow-x:auto;">'
        f"{head}{''.join(parts)}</div>"
    )


def html_fields(fields: Fields) -> str:
    """Return labels and values as a table of two columns."""
    rows = "".join(
        '<tr style="background:none;"><th scope="row"'
        f' style="{_LEFT}{_LABEL}">{_escaped(label)}</th><td'
        f' style="{_LEFT}">{_escaped(value)}</td></tr>'
        for label, value in fields
    )
    return f'<table style="{_table()}"><tbody>{rows}</tbody></table>'


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    left: Sequence[int] = (0,),
    bold: Sequence[int] = (),
) -> str:
    """Return a table with the columns `left` at the left, the others, of numbers, at the right;
    rows `bold` stand out.
    """
    # Long texts are wrapped, numbers and names are not.
    lengths = [max((len(str(row[j])) for row in rows), default=0) for j in range(len(header))]
    wraps = [
        "min-width:14em;max-width:28em;" if length > LONG else "white-space:nowrap;"
        for length in lengths
    ]
    sides = [_LEFT + wraps[j] if j in left else _RIGHT for j in range(len(header))]
    head = "".join(
        f'<th scope="col" style="{side}border-bottom:{_RULE};">{_escaped(name)}</th>'
        for name, side in zip(header, sides, strict=True)
    )
    body = []
    for number_, row in enumerate(rows):
        weight = "font-weight:bold;" if number_ in bold else ""
        cells = "".join(
            f'<td style="{side}{weight}">{_escaped(cell)}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        body.append(f'<tr style="background:none;">{cells}</tr>')
    return (
        f'<table style="{_table()}"><thead><tr style="background:none;">{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _table() -> str:
    return (
        f"border-collapse:collapse;border:none;border-top:{_RULE};border-bottom:{_RULE};color:inherit;margin:0"
        " 0 0.5em 0;"
    )
