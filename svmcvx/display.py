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
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import numpy as np

Fields: TypeAlias = "Sequence[tuple[str, str]]"

MISSING: Final = "–"
# Characters of a line of a summary.
WIDTH: Final = 78

_RULE: Final = "1px solid rgba(128,128,128,0.45)"
_PLAIN: Final = "background:none;color:inherit;"
# The style of every cell, which a page with a style of its own leaves out.
CELL: Final = f"{_PLAIN}padding:0.2em 0.7em;vertical-align:top;text-align:left;font-weight:normal;"
_TABLE: Final = (
    f"{_PLAIN}border-collapse:collapse;border:none;border-top:{_RULE};border-bottom:{_RULE};"
    "margin:0 0 0.5em 0;"
)


class ShortRepr:
    """A base class of dataclasses that inherit ``__repr__`` instead of a generated one."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # A dataclass does not replace one that the class itself defines.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]


# Numbers


def number(value: Any, digits: int = 6) -> str:
    """Return a number with significant digits, another value as its text, a dash if missing."""
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


def interval(lower: float | None, upper: float, most: int = 17) -> tuple[str, str]:
    """Return both ends with one digit more than shows that they differ, from 7 to `most`."""
    digits = 7
    if lower is not None and lower != upper and math.isfinite(lower) and math.isfinite(upper):
        # Numbers that differ by a rounding at one length may be the same text at the next.
        while digits < most and any(
            f"{lower:.{k}g}" == f"{upper:.{k}g}" for k in (digits - 1, digits)
        ):
            digits += 1
    return number(lower, digits), number(upper, digits)


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where it is not one."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def listed(values: Iterable[Any], most: int = 6) -> str:
    """Return values with commas between, the first few and the last of many."""
    texts = [str(value) for value in values]
    return ", ".join(texts if len(texts) <= most else [*texts[: most - 1], "…", texts[-1]])


def settings(values: Mapping[str, Any]) -> str:
    """Return ``name=value`` for each entry, with numbers of few digits."""
    return ", ".join(f"{name}={rounded(number(value))}" for name, value in values.items())


def rounded(text: str) -> str:
    """Return a text such as ``RBF(gamma=0.033333333333333326)`` with numbers of six digits."""
    return re.sub(r"\d+\.\d{6,}(?:e[+-]?\d+)?", lambda found: f"{float(found[0]):.6g}", text)


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


def columns(left: Fields, right: Fields) -> list[str]:
    """Return two lists of labels and values side by side, values at the right edge of each."""
    half = (WIDTH - 3) // 2
    rows = zip_longest(_half(left, half), _half(right, WIDTH - 3 - half), fillvalue="")
    return [f"{first:<{half}}   {second}".rstrip() for first, second in rows]


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
    """Return the lines of a table: the first `left` columns aligned left, the others right."""
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


def html_block(title: str, *parts: str) -> str:
    """Return parts under a title."""
    head = f'<div style="font-weight:bold;margin:0 0 0.3em 0.1em;">{html.escape(title)}</div>'
    head = head if title else ""
    style = f"{_PLAIN}margin:0.4em 0;overflow-x:auto;"
    return f'<div class="svmcvx" style="{style}">{head}{"".join(parts)}</div>'


def html_fields(fields: Fields) -> str:
    """Return labels and values as a table of two columns."""
    rows = (
        _html_row([_html_cell("th", label, "opacity:0.75;"), _html_cell("td", value)])
        for label, value in fields
    )
    return f'<table style="{_TABLE}"><tbody>{"".join(rows)}</tbody></table>'


def html_table(
    header: Sequence[str], rows: Any, left: Container[int], bold: Container[tuple[int, int]]
) -> str:
    """Return a table with the columns `left` aligned left, the others right; some cells bold."""
    sides = ["" if j in left else "text-align:right;" for j in range(len(header))]
    heads = zip(header, sides, strict=True)
    head = _html_row([_html_cell("th", name, f"{side}font-weight:bold;") for name, side in heads])
    body = []
    for place, row in enumerate(rows):
        cells = [
            _html_cell("td", value, side + "font-weight:bold;" * ((place, j) in bold))
            for j, (value, side) in enumerate(zip(row, sides, strict=True))
        ]
        body.append(_html_row(cells))
    return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{"".join(body)}</tbody></table>'


def _html_row(cells: Sequence[str]) -> str:
    return f'<tr style="background:none;">{"".join(cells)}</tr>'


def _html_cell(tag: str, value: Any, style: str = "") -> str:
    """Return a cell; long texts are wrapped, numbers and names are not."""
    wrap = "min-width:14em;max-width:28em;" if len(str(value)) > 40 else "white-space:nowrap;"
    return f'<{tag} style="{CELL}{wrap}{style}">{html.escape(str(value))}</{tag}>'
