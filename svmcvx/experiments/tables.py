"""Tables of rows as text: for notebooks and reports, and for documents in LaTeX."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from svmcvx import display
from svmcvx.data import check_choice, check_whole
from svmcvx.experiments.fit import INTERVALS
from svmcvx.system.files import atomic_write

# Number of decimals of scores.
DECIMALS: Final = 4
# Mark of the scores of a model that predicts one class only on some split.
ONE_CLASS_MARK: Final = "†"
# Scores with two ends of an interval, which are shown in one column.
EXACT: Final = (*INTERVALS, "mean_test_score")
P_VALUES: Final = ("corrected_t", "corrected_holm", "wilcoxon", "holm")
# Columns of a comparison in a document, and headings that are not their names.
COMPARED: Final = ("model", "params", "upper", "gap", "exact_accuracy", "n_support", "seconds")
HEADINGS: Final = {"n_support": "support vectors", "params": "parameters"}


# Cells


def is_empty(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN or an empty text."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def interval_text(lower: Any, upper: Any, decimals: int | None = DECIMALS) -> str:
    """Return one number if both ends agree, otherwise both ends, rounded outward; None: as is."""
    if is_empty(lower) or is_empty(upper):
        return ""
    ends = (lower, upper) if decimals is None else outward(lower, upper, decimals)
    low, high = (format(end, "g" if decimals is None else f".{decimals}f") for end in ends)
    return low if lower == upper else f"[{low}, {high}]"


def outward(lower: float, upper: float, decimals: int) -> tuple[float, float]:
    """Return both ends with a number of decimals, rounded outward; equal ones to the nearest."""
    if lower == upper:
        return round(lower, decimals), round(upper, decimals)
    unit = 10.0**decimals
    # A product that rounding puts above or below a whole number is that number.
    return math.floor(lower * unit + 1e-6) / unit, math.ceil(upper * unit - 1e-6) / unit


def with_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a column of text, as ``exact_accuracy``, per interval of two columns."""
    shown = pd.DataFrame(frame)
    for low in [name for name in frame if str(name).endswith("_lower")]:
        stem = str(low).removesuffix("_lower")
        pair = [low, f"{stem}_upper"]
        # Tables of the papers have ends that are no scores, and are shown with all their digits.
        whole = stem.endswith(("_exact", "_range"))
        if not (whole or stem in EXACT) or pair[1] not in shown:
            continue
        heading = stem if whole else f"exact_{stem}"
        ends = shown[pair].astype(float).itertuples(index=False, name=None)
        texts = [interval_text(a, b, None if whole else DECIMALS) for a, b in ends]
        place = [*shown].index(low)
        shown = shown.drop(columns=pair)
        shown.insert(place, heading, [text or None for text in texts])
    return shown


def texts(table: pd.DataFrame, decimals: int = DECIMALS, digits: int | None = None) -> pd.DataFrame:
    """Return the cells as text, without empty columns; `digits` are those of interval ends."""
    shown = with_intervals(table)
    shown = shown[[name for name in shown if not shown[name].map(is_empty).all()]]
    cells = {
        name: [display.MISSING if is_empty(value) else form(value) for value in shown[name]]
        for name, form in ((name, _form(str(name), shown[name], decimals)) for name in shown)
    }
    if digits is None and {"lower", "upper"} <= {*shown}:
        ends = [
            (None if is_empty(low) else float(low), math.nan if is_empty(high) else float(high))
            for low, high in zip(shown["lower"], shown["upper"], strict=True)
        ]
        for k, name in enumerate(("lower", "upper")):
            cells[name] = [display.interval(*pair, 10)[k] for pair in ends]
    return pd.DataFrame(cells, index=shown.index)


def _form(name: str, column: pd.Series, decimals: int) -> Callable[[Any], str]:
    """Return the function that writes the cells of a column."""
    if name == "certified":
        return display.check_mark
    if name == "gap":
        return lambda value: display.MISSING if math.isinf(value) else f"{value:.1e}"
    if name == "n_support":
        return lambda value: f"{value:.1f}".removesuffix(".0")
    if name.endswith("seconds"):
        return lambda value: display.number(value, 3)
    if name in P_VALUES:
        return lambda value: "< 0.0001" if value < 1e-4 else f"{value:.4f}"
    known = np.array([v for v in column if isinstance(v, float) and not math.isnan(v)])
    share = (
        not name.startswith(("param_", "lower", "upper"))
        and known.size > 0
        and bool((np.abs(known) <= 1.0).all() and (np.abs(known) >= 0.1**DECIMALS).any())
    )

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return display.settings(value)
        if isinstance(value, list):
            return ", ".join(map(text, value))
        if isinstance(value, float) and share:
            return f"{value:.{decimals}f}"
        return display.number(value, decimals + 2)

    return text


# HTML


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
        digits: int = DECIMALS,
    ) -> str:
        """Return the table for a document with booktabs, written to `path` if that is given."""
        return written(latex_frame(self, columns, digits), path)


class SummaryTable(CertifiedTable):
    """A table that is printed as its main columns with notes; parts of it are plain tables, and so
    is one without a needed column.
    """

    _needed: ClassVar[frozenset[str]] = frozenset()

    @property
    def _is_summary(self) -> bool:
        """Whether the columns are there that the printed form needs."""
        return self._needed <= {*self}

    def shown(self) -> pd.DataFrame:
        """Return the columns that are printed."""
        return pd.DataFrame(self)

    def notes(self) -> list[str]:
        """Return the lines below them."""
        return []

    def to_latex(self, buf: Any = None, **how: Any) -> Any:
        """Return :meth:`latex`; with arguments of pandas its table of all columns."""
        return super().to_latex(buf, **how) if how or not self._is_summary else self.latex(buf)

    def __repr__(self) -> str:
        if not self._is_summary:
            return super().__repr__()
        shown = texts(self.shown()).replace({"✓": "yes", "✗": "no"})
        left = sum(name in ("model", "params") for name in shown)
        lines = display.aligned([*map(str, shown)], shown.to_numpy().tolist(), left)
        return "\n".join([*lines, *self.notes()])

    def _repr_html_(self) -> str:
        if not self._is_summary:
            return super()._repr_html_()
        return table_html(self.shown(), notes=self.notes())


def written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Return a text, and write it to a file unless the path is None, whole or not at all."""
    if path is not None:
        with atomic_write(path) as stream:
            stream.write(text.encode())
    return text


def table_html(
    table: pd.DataFrame,
    *,
    bold: pd.DataFrame | None = None,
    most: int = 60,
    notes: Sequence[str] = (),
) -> str:
    """Return the first rows of a table as HTML; `bold` says which cells are bold."""
    head = table.head(most)
    shown = texts(head)
    bold = pd.DataFrame() if bold is None else bold
    bold = bold.reindex(index=shown.index, columns=shown.columns, fill_value=False)
    words = [name for name in shown if name not in head or is_words(head[name])]
    if not isinstance(table.index, pd.RangeIndex):
        shown = shown.reset_index(names=[table.index.name or ""])
        words.append(shown.columns[0])
        bold.insert(0, words[-1], False)
    left = [k for k, name in enumerate(shown) if name in words]
    more = len(table) - len(shown)
    notes = [*([f"{more} more rows; .to_html() writes all"] if more else []), *notes]
    below = display.html_fields([("", note) for note in notes]) if notes else ""
    cells = {(i, j) for i, j in np.argwhere(bold.to_numpy(dtype=bool)).tolist()}
    body = display.html_table([*map(str, shown)], shown.to_numpy().tolist(), left, cells)
    return display.html_block("", body, below)


def is_words(column: pd.Series) -> bool:
    return any(isinstance(value, (str, Mapping, list)) for value in column)


# LaTeX

SPECIAL: Final = str.maketrans(
    {character: f"\\{character}" for character in "{}&%$#_"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}"}
)


def escaped(text: str) -> str:
    """Return a text with the special characters of LaTeX escaped."""
    return text.translate(SPECIAL)


def latex_cell(text: str, *, bold: bool = False) -> str:
    """Return a cell for LaTeX, where numbers, intervals and means with deviations are formulas."""
    if text in (display.MISSING, ""):
        return "--"
    if text in ("✓", "✗"):
        return "yes" if text == "✓" else "no"
    body, mark, _ = text.partition(f" {ONE_CLASS_MARK}")
    if not re.fullmatch(r"[-+\d.,e\[\] ±]*\d\]?|-?inf", body):
        return escaped(text)
    body = re.sub(r"e([-+]\d+)", lambda found: rf" \times 10^{{{int(found[1])}}}", body)
    body = body.replace("±", r"\pm").replace("inf", r"\infty")
    dagger = r"^{\dagger}" if mark else ""
    return rf"$\mathbf{{{body}}}{dagger}$" if bold else f"${body}{dagger}$"


def latex_rows(table: pd.DataFrame, bold: pd.DataFrame | None = None) -> list[list[str]]:
    """Return the index and the cells of a table of text as cells for LaTeX."""
    cells = table.map(latex_cell)
    cells = cells if bold is None else cells.mask(bold, table.map(latex_cell, bold=True))
    return [[escaped(str(name)), *row] for name, *row in cells.itertuples()]


def booktabs(header: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> str:
    """Return a table of cells that are LaTeX already; a row of one cell is a line of its own."""
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(header) + r" \\"]
    lines += [r"\midrule", *(" & ".join(row) + r" \\" if len(row) > 1 else row[0] for row in rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def latex_frame(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, digits: int = DECIMALS
) -> str:
    """Return a table of one row a line; of a comparison the columns that a paper shows."""
    check_whole(digits, "digits", 0)
    shown = texts(frame, digits, digits + 2)
    names = [str(name) for name in shown]
    if columns is not None:
        known = [*map(str, with_intervals(frame)), *map(str, frame)]
        names = [name for name in columns if check_choice(name, "columns", known) in names]
    elif {"model", "upper", "train_accuracy", "n_support"} <= {*frame}:
        whole = [*map(str, frame)]
        scores = whole[whole.index("train_accuracy") + 1 : whole.index("n_support")]
        names = [name for name in names if name in {*COMPARED, *scores} - {"undecided"}]
    left = [name not in frame or is_words(frame[name]) for name in names]
    return booktabs(
        [escaped(HEADINGS.get(name, name.replace("_", " "))) for name in names],
        [[latex_cell(cell) for cell in row] for row in shown[names].to_numpy().tolist()],
        "".join("l" if text else "r" for text in left),
    )
