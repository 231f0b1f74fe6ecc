"""Tables that a notebook shows with all digits of whole numbers and a mark for certified rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from svmcvx.display import MISSING, check_mark, html_block, html_fields, html_table, interval, number, settings
from svmcvx.experiments.intervals import with_intervals

__all__ = ["CertifiedTable", "table_html"]

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
    """A DataFrame whose HTML has all digits of whole numbers, and ✓ or ✗ for certified or not.

    Parts of it and copies with other columns are of the same type.
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return CertifiedTable

    def _repr_html_(self) -> str:
        return table_html(self)


def table_html(table: pd.DataFrame, title: str = "", *, bold: Sequence[int] = ()) -> str:
    """Return a table as HTML; empty columns are omitted."""
    shown = with_intervals(table).head(MOST_ROWS)
    names = [name for name in shown.columns if not shown[name].map(_is_empty).all()]
    cells = {name: _texts(shown, name) for name in names}
    left = [place for place, name in enumerate(names) if any(isinstance(value, (str, dict)) for value in shown[name])]
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
    return value is None or (isinstance(value, str) and not value) or (isinstance(value, float) and np.isnan(value))


def _texts(table: pd.DataFrame, name: Any) -> list[str]:
    values = list(table[name])
    for pair in ENDS:
        if name in pair and set(pair) <= set(table.columns):
            ends = zip(table[pair[0]], table[pair[1]], strict=True)
            return [_end(lower, upper, pair.index(name)) for lower, upper in ends]
    if name in MARKS:
        return [check_mark(value) for value in values]
    if name in GAPS:
        return [MISSING if _is_empty(value) or np.isinf(value) else f"{value:.1e}" for value in values]
    if name in SECONDS:
        return [number(value, 3) for value in values]
    if name in COUNTS:
        return [number(value) if _is_empty(value) else f"{value:.1f}".removesuffix(".0") for value in values]
    if str(name).startswith("param_"):
        return [number(value, DIGITS) for value in values]
    known = np.array([value for value in values if isinstance(value, float) and not np.isnan(value)])
    share = known.size > 0 and bool((np.abs(known) <= 1.0).all() and (np.abs(known) >= 0.1**DECIMALS).any())
    return [_text(value, share) for value in values]


def _end(lower: Any, upper: Any, which: int) -> str:
    known = [None if _is_empty(bound) else float(bound) for bound in (lower, upper)]
    return number(known[which]) if known[1] is None else interval(known[0], known[1], END_DIGITS)[which]


def _text(value: Any, share: bool) -> str:
    if isinstance(value, dict):
        return settings(value)
    if share and isinstance(value, float) and not np.isnan(value):
        return f"{value:.{DECIMALS}f}"
    return number(value, DIGITS)
