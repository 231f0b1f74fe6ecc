"""Tables of rows: as a notebook shows them, with all digits of whole numbers and a mark for
certified rows, and for a document in LaTeX.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from svmcvx.data import check_whole
from svmcvx.display import (
    MISSING,
    check_mark,
    html_block,
    html_fields,
    html_table,
    interval,
    number,
    settings,
)
from svmcvx.errors import DataError, did_you_mean
from svmcvx.experiments.intervals import with_intervals
from svmcvx.system.files import atomic_write

__all__ = ["CertifiedTable", "escaped", "latex_frame", "table_html"]

# Largest number of rows that are shown; of a longer table, number of its first rows.
MOST_ROWS: Final = 60
# Columns with the two ends of an interval, shown with enough digits to distinguish them.
ENDS: Final = (("dual_bound", "primal"), ("lower", "upper"))
GAPS: Final = ("gap", "worst_gap")
MARKS: Final = ("certified",)
COUNTS: Final = ("n_support",)
SECONDS: Final = ("seconds", "tuning_seconds")
# Number of decimals of shares, and of significant digits of other numbers.
DECIMALS, DIGITS = 4, 6
# Digits of the ends of an interval, whose difference is a separate column.
END_DIGITS: Final = 10


class CertifiedTable(pd.DataFrame):
    """A DataFrame whose HTML has all digits of whole numbers, and ✓ or ✗ for certified or not."""

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return CertifiedTable

    def _repr_html_(self) -> str:
        return table_html(self)

    def latex(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        digits: int = 4,
    ) -> str:
        """Return the table for a document with the package booktabs; write it to `path` if that is
        given.
        """
        text = latex_frame(self, columns, digits)
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(text.encode())
        return text


def table_html(table: pd.DataFrame, title: str = "", *, bold: Sequence[int] = ()) -> str:
    """Return a table as HTML; empty columns are omitted."""
    shown = with_intervals(table).head(MOST_ROWS)
    names = [name for name in shown.columns if not shown[name].map(_is_empty).all()]
    cells = {name: _texts(shown, name) for name in names}
    left = [
        place
        for place, name in enumerate(names)
        if any(isinstance(value, (str, dict)) for value in shown[name])
    ]
    header = [str(name) for name in names]
    rows: list[list[str]] = [list(row) for row in zip(*cells.values(), strict=True)]
    if not isinstance(shown.index, pd.RangeIndex):
        header = [str(shown.index.name or ""), *header]
        rows = [[str(label), *row] for label, row in zip(shown.index, rows, strict=True)]
        left = [0, *(place + 1 for place in left)]
    more = len(table) - len(shown)
    below = html_fields([("", f"{more} more rows; .to_html() writes all")]) if more else ""
    return html_block(title, html_table(header, rows, left=left, bold=bold), below)


def _is_empty(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, str) and not value)
        or (isinstance(value, float) and np.isnan(value))
    )


def _texts(table: pd.DataFrame, name: Any) -> list[str]:
    values = list(table[name])
    for pair in ENDS:
        if name in pair and set(pair) <= set(table.columns):
            ends = zip(table[pair[0]], table[pair[1]], strict=True)
            return [_end(lower, upper, pair.index(name)) for lower, upper in ends]
    if name in MARKS:
        return [MISSING if _is_empty(value) else check_mark(value) for value in values]
    if name in GAPS:
        return [
            MISSING if _is_empty(value) or np.isinf(value) else f"{value:.1e}" for value in values
        ]
    if name in SECONDS:
        return [number(value, 3) for value in values]
    if name in COUNTS:
        return [
            number(value) if _is_empty(value) else f"{value:.1f}".removesuffix(".0")
            for value in values
        ]
    if str(name).startswith("param_"):
        return [number(value, DIGITS) for value in values]
    known = np.array(
        [value for value in values if isinstance(value, float) and not np.isnan(value)]
    )
    share = known.size > 0 and bool(
        (np.abs(known) <= 1.0).all() and (np.abs(known) >= 0.1**DECIMALS).any()
    )
    return [_text(value, share) for value in values]


def _end(lower: Any, upper: Any, which: int) -> str:
    known = [None if _is_empty(bound) else float(bound) for bound in (lower, upper)]
    return (
        number(known[which])
        if known[1] is None
        else interval(known[0], known[1], END_DIGITS)[which]
    )


def _text(value: Any, share: bool) -> str:
    if isinstance(value, dict):
        return settings(value)
    if share and isinstance(value, float) and not np.isnan(value):
        return f"{value:.{DECIMALS}f}"
    return number(value, DIGITS)


# LaTeX

SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def escaped(text: str) -> str:
    """Return text as LaTeX prints it."""
    return "".join(SPECIAL.get(character, character) for character in text)


# Means of whole numbers.
COUNT: Final = "count"
# Columns of numbers of support vectors, of gaps and of seconds; those of scores begin or end with
# one of these words.
FORMS: Final = {"gap": ".1e", "worst_gap": ".1e", "n_support": COUNT, "seconds": ".2f"}
SCORES: Final = ("train_", "test_", "_accuracy", "_score", "undecided")
# Headings in a document, where the name of the column is none.
HEADINGS: Final = {
    "primal": "objective",
    "dual_bound": "lower bound",
    "n_support": "support vectors",
    "test_accuracy": "accuracy",
}
# Columns of a comparison in a document, as far as they are there and not empty; scores of other
# metrics follow the accuracy.
IN_A_PAPER: Final = (
    "model",
    "primal",
    "gap",
    "test_accuracy",
    "exact_accuracy",
    "n_support",
    "seconds",
)


def latex_frame(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, digits: int = DECIMALS
) -> str:
    """Return a table of one row a line for a document."""
    check_whole(digits, "digits", 0)
    shown = with_intervals(frame)
    names = _chosen(shown, frame, columns)
    text = [
        not np.issubdtype(np.asarray(shown[name].dropna().tolist()).dtype, np.number)
        for name in names
    ]
    forms = [_form(str(name), digits) for name in names]
    heads = [
        HEADINGS.get(str(name), str(name).removeprefix("test_").replace("_", " ")) for name in names
    ]
    lines = [
        rf"\begin{{tabular}}{{{''.join('l' if one else 'r' for one in text)}}}",
        r"\toprule",
        " & ".join(map(escaped, heads)) + r" \\",
        r"\midrule",
        *(
            " & ".join(map(_cell, row, forms)) + r" \\"
            for row in shown[names].itertuples(index=False)
        ),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _chosen(shown: pd.DataFrame, frame: pd.DataFrame, columns: Sequence[str] | None) -> list[str]:
    """Return the columns of a table in a document."""
    there = [str(name) for name in shown.columns if not shown[name].isna().all()]
    if columns is not None:
        known = [*map(str, shown.columns), *map(str, frame.columns)]
        strange = [name for name in columns if name not in known]
        if strange:
            raise DataError(
                "columns must be among those of the table, got"
                f" {strange[0]!r}{did_you_mean(strange[0], known)}; it has"
                f" {', '.join(map(str, shown.columns))}"
            )
        # The two ends of an interval are one column.
        return [name for name in columns if name in there]
    if not {"model", "primal", "dual_bound"} <= set(map(str, frame.columns)):
        return there
    others = [name for name in there if name.startswith("test_") and name != "test_accuracy"]
    place = IN_A_PAPER.index("exact_accuracy")
    return [name for name in (*IN_A_PAPER[:place], *others, *IN_A_PAPER[place:]) if name in there]


def _form(name: str, digits: int) -> str:
    if name in FORMS:
        return FORMS[name]
    score = name.startswith(SCORES) or name.endswith(SCORES)
    return f".{digits}f" if score else f".{digits + 2}g"


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return "--"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        if np.isinf(value):
            return r"$\infty$" if value > 0 else r"$-\infty$"
        if form == COUNT:
            return f"${value:.1f}".removesuffix(".0") + "$"
        mantissa, e, exponent = format(float(value), form).partition("e")
        return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if e else f"${mantissa}$"
    if isinstance(value, (int, np.integer)):
        return f"${value}$"
    return escaped(str(value))
