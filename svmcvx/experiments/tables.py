"""Tables of rows: as a notebook shows them, and for a document in LaTeX."""

from __future__ import annotations

import math
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
from svmcvx.experiments.fit import INTERVALS
from svmcvx.experiments.statistics import Friedman
from svmcvx.system.files import atomic_write

# Rows of the beginning of a longer table that are shown.
MOST_ROWS: Final = 60
# Decimals of scores, significant digits of other numbers, and of the ends of an interval, whose
# difference is a separate column.
DECIMALS, DIGITS, END_DIGITS = 4, 6, 10
# Mark of the scores of a model that predicts one class only on some split.
ONE_CLASS_MARK: Final = "†"
# Scores of which there are two ends of an interval, in place of which one column is shown.
EXACT: Final = (*INTERVALS, *(f"{name}_tied" for name in INTERVALS), "mean_test_score")


# Intervals


def interval_text(lower: Any, upper: Any, decimals: int = DECIMALS, missing: str = "") -> str:
    """Return one number if both ends agree, otherwise both ends, rounded outward."""
    if any(_is_empty(end) for end in (lower, upper)):
        return missing
    low, high = outward(lower, upper, decimals)
    return f"{low:.{decimals}f}" if lower == upper else f"[{low:.{decimals}f}, {high:.{decimals}f}]"


def outward(lower: float, upper: float, decimals: int) -> tuple[float, float]:
    """Return both ends with a number of decimals, rounded outward; a number that both are is
    rounded to the nearest.
    """
    if lower == upper:
        return round(lower, decimals), round(upper, decimals)
    unit = 10.0**decimals
    # A product that rounding puts above or below a whole number is that number.
    return math.floor(lower * unit + 1e-6) / unit, math.ceil(upper * unit - 1e-6) / unit


def with_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one column of text, such as ``exact_accuracy``, instead of the two ends
    of each interval of every optimal machine.
    """
    shown = pd.DataFrame(frame)
    names = [str(name) for name in shown.columns]
    stems = [name.removesuffix("_lower") for name in names if name.endswith("_lower")]
    for stem in stems:
        # Tables of the papers have ends that are no scores, and are shown with all their digits.
        whole = stem.endswith(("_exact", "_range"))
        pair = [f"{stem}_lower", f"{stem}_upper"]
        if (whole or stem in EXACT) and pair[1] in names:
            text = _as_they_are if whole else interval_text
            texts = [text(*row) or None for row in shown[pair].itertuples(index=False)]
            heading = stem if whole else f"exact_{stem}"
            if stem.endswith("_tied"):
                heading = f"tied_{stem.removesuffix('_tied')}"
            place = int(np.flatnonzero(shown.columns == pair[0])[0])
            shown = shown.drop(columns=pair)
            shown.insert(place, heading, texts)
    return shown


def _as_they_are(lower: Any, upper: Any) -> str:
    """Return one number if both ends agree, otherwise both, with all their digits."""
    if any(_is_empty(end) for end in (lower, upper)):
        return ""
    return f"{lower:g}" if lower == upper else f"[{lower:g}, {upper:g}]"


def _is_empty(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, str) and not value)
        or (isinstance(value, (float, np.floating)) and math.isnan(value))
    )


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
    cells = [_texts(shown, name) for name in names]
    left = [
        k for k, name in enumerate(names) if any(isinstance(v, (str, dict)) for v in shown[name])
    ]
    header = [str(name) for name in names]
    rows: list[list[str]] = [list(row) for row in zip(*cells, strict=True)]
    if not isinstance(shown.index, pd.RangeIndex):
        header = [str(shown.index.name or ""), *header]
        rows = [[str(label), *row] for label, row in zip(shown.index, rows, strict=True)]
        left = [0, *(place + 1 for place in left)]
    more = len(table) - len(shown)
    below = html_fields([("", f"{more} more rows; .to_html() writes all")]) if more else ""
    return html_block(title, html_table(header, rows, left=left, bold=bold), below)


def _texts(table: pd.DataFrame, name: Any) -> list[str]:
    """Return the cells of a column: all digits of ends, one of a gap, marks for certified."""
    values = list(table[name])
    if name in ("lower", "upper") and {"lower", "upper"} <= set(table.columns):
        ends = zip(table["lower"], table["upper"], strict=True)
        return [_end(*pair, ("lower", "upper").index(name)) for pair in ends]
    if name == "certified":
        return [MISSING if _is_empty(value) else check_mark(value) for value in values]
    if name == "gap":
        unknown = [_is_empty(value) or np.isinf(value) for value in values]
        return [MISSING if no else f"{v:.1e}" for v, no in zip(values, unknown, strict=True)]
    if name in ("seconds", "tuning_seconds"):
        return [number(value, 3) for value in values]
    if name == "n_support":
        return [
            number(value) if _is_empty(value) else f"{value:.1f}".removesuffix(".0")
            for value in values
        ]
    known = np.array([v for v in values if isinstance(v, float) and not math.isnan(v)])
    share = (
        not str(name).startswith("param_")
        and known.size > 0
        and bool((np.abs(known) <= 1.0).all() and (np.abs(known) >= 0.1**DECIMALS).any())
    )
    return [
        settings(value)
        if isinstance(value, dict)
        else f"{value:.{DECIMALS}f}"
        if share and isinstance(value, float) and not math.isnan(value)
        else number(value, DIGITS)
        for value in values
    ]


def _end(lower: Any, upper: Any, which: int) -> str:
    known = [None if _is_empty(bound) else float(bound) for bound in (lower, upper)]
    if known[1] is None:
        return number(known[which])
    return interval(known[0], known[1], END_DIGITS)[which]


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
    return "".join(SPECIAL.get(character, character) for character in text)


# Formats of columns of gaps, of counts with means, and of seconds; other columns have `digits`
# decimals if they are scores, and two significant digits more otherwise.
FORMS: Final = {"gap": ".1e", "n_support": "count", "seconds": ".2f"}
SCORES: Final = ("train_", "_accuracy", "_score", "undecided")
# Columns of a comparison in a document, between which its metrics stand, and headings that are not
# their names.
IN_A_PAPER: Final = ("model", "upper", "gap"), ("exact_accuracy", "n_support", "seconds")
HEADINGS: Final = {"upper": "objective", "lower": "lower bound", "n_support": "support vectors"}


def latex_frame(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, digits: int = DECIMALS
) -> str:
    """Return a table of one row a line for a document."""
    check_whole(digits, "digits", 0)
    shown = with_intervals(frame)
    compared = {"model", "upper", "train_accuracy"} <= set(frame.columns)
    metrics = _metrics(frame) if compared else []
    names = _chosen(shown, frame, columns, metrics if compared else None)
    text = [
        not np.issubdtype(np.asarray(shown[name].dropna().tolist()).dtype, np.number)
        for name in names
    ]
    forms = [
        FORMS.get(name)
        or (f".{digits}f" if name in metrics or _is_score(name) else f".{digits + 2}g")
        for name in names
    ]
    heads = [HEADINGS.get(name, name.replace("_", " ")) for name in names]
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


def _is_score(name: str) -> bool:
    return name in INTERVALS or name.startswith(SCORES) or name.endswith(SCORES)


def _metrics(frame: pd.DataFrame) -> list[str]:
    """Return the columns of metrics of a comparison, which stand behind the training accuracy."""
    names = [str(name) for name in frame.columns]
    behind = names[names.index("train_accuracy") + 1 : names.index("n_support")]
    return [name for name in behind if not name.endswith(("_lower", "_upper", "undecided"))]


def _chosen(
    shown: pd.DataFrame,
    frame: pd.DataFrame,
    columns: Sequence[str] | None,
    metrics: Sequence[str] | None,
) -> list[str]:
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
    if metrics is None:
        return there
    return [name for name in (*IN_A_PAPER[0], *metrics, *IN_A_PAPER[1]) if name in there]


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return "--"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        if np.isinf(value):
            return r"$\infty$" if value > 0 else r"$-\infty$"
        if form == "count":
            return f"${value:.1f}".removesuffix(".0") + "$"
        mantissa, e, exponent = format(float(value), form).partition("e")
        return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if e else f"${mantissa}$"
    if isinstance(value, (int, np.integer)):
        return f"${value}$"
    return escaped(str(value))


def latex_table(study: Any, metric: str, digits: int) -> str:
    """Return mean and standard deviation by data set and model, with mean ranks."""
    mean, sd, ranks = study.mean(metric), study.sd(metric), study.ranks(metric).mean(axis=0)
    bold, one_class = study.leaders(metric, digits), study.one_class()
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(study.models)}}}",
        r"\toprule",
        " & ".join([escaped(metric), *map(escaped, study.models)]) + r" \\",
        r"\midrule",
    ]
    for dataset in mean.index:
        cells = []
        for name in study.models:
            value, spread = mean.loc[dataset, name], sd.loc[dataset, name]
            text = "--" if np.isnan(value) else f"{value:.{digits}f}"
            text += "" if np.isnan(value) or np.isnan(spread) else rf" \pm {spread:.{digits}f}"
            text = rf"\mathbf{{{text}}}" if bold.loc[dataset, name] else text
            text += r"^{\dagger}" if one_class.loc[dataset, name] else ""
            cells.append(f"${text}$".replace("$--$", "--"))
        lines.append(" & ".join([escaped(str(dataset)), *cells]) + r" \\")
    lines += [
        r"\midrule",
        " & ".join(["mean rank", *("--" if np.isnan(r) else f"{r:.2f}" for r in ranks)]) + r" \\",
    ]
    width = len(study.models) + 1
    if one_class.to_numpy().any():
        lines.append(
            rf"\multicolumn{{{width}}}{{l}}{{$^{{\dagger}}$ predicts one class only on some"
            r" split} \\"
        )
    if metric in study.with_exact():
        exact = study.exact(metric)
        heading = (
            rf"\multicolumn{{{width}}}{{l}}{{of every optimal machine, mean of the intervals}}"
        )
        lines += [r"\midrule", heading + r" \\"]
        lines += [
            " & ".join(
                [escaped(str(name)), *(f"${cell}$" if cell else "--" for cell in exact.loc[name])]
            )
            + r" \\"
            for name in exact.index
        ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


# Length of the axis of a diagram, height of a line of labels, and distance of two bars, in
# centimetres.
AXIS, LINE, BAR = 10.0, 0.5, 0.18


def latex_diagram(names: Sequence[str], test: Friedman) -> str:
    """Return the diagram of mean ranks for a document with the package tikz; bars join models
    within the critical difference [Demsar].
    """
    order = np.argsort(test.ranks, kind="stable")
    ranks = test.ranks[order]
    joined = _groups(ranks, test.critical_difference)

    def place(rank: float) -> str:
        return f"{AXIS * (rank - 1.0) / (test.models - 1.0):.3f}"

    top, right = f"{2 * LINE:.2f}", f"{AXIS:.2f}"
    wide = place(1.0 + min(test.critical_difference, test.models - 1.0))
    lines = [
        r"\begin{tikzpicture}",
        rf"\draw (0, 0) -- ({right}, 0);",
        *(
            rf"\draw ({place(k)}, 0.1) -- ({place(k)}, 0) node[above=4pt] {{{k}}};"
            for k in range(1, test.models + 1)
        ),
        (
            rf"\draw[|-|] (0, {top}) -- node[above] {{critical difference"
            rf" {test.critical_difference:.2f}}} ({wide}, {top});"
        ),
    ]
    for k, (first, last) in enumerate(joined):
        height = f"{-BAR * (k + 1):.2f}"
        ends = place(ranks[first] - 0.02), place(ranks[last] + 0.02)
        lines.append(rf"\draw[line width=2pt] ({ends[0]}, {height}) -- ({ends[1]}, {height});")
    left = (test.models + 1) // 2
    for k, (rank, name) in enumerate(
        zip(ranks, np.asarray(names, dtype=object)[order], strict=True)
    ):
        depth = k if k < left else test.models - 1 - k
        height = f"{-BAR * (len(joined) + 1) - LINE * (depth + 0.5):.2f}"
        end, side = ("-0.3", "left") if k < left else (f"{AXIS + 0.3:.2f}", "right")
        lines.append(
            rf"\draw ({place(rank)}, 0) -- ({place(rank)}, {height}) -- ({end}, {height})"
            rf" node[{side}] {{{escaped(str(name))} ({rank:.2f})}};"
        )
    return "\n".join([*lines, r"\end{tikzpicture}", ""])


def _groups(ranks: Any, distance: float) -> list[tuple[int, int]]:
    """Return first and last place of each longest run of sorted ranks that are not farther apart
    than a distance.
    """
    ends = [int(np.searchsorted(ranks, rank + distance, side="right")) - 1 for rank in ranks]
    runs = [(first, last) for first, last in enumerate(ends) if last > first]
    return [
        run for run in runs if not any(other[0] < run[0] and other[1] >= run[1] for other in runs)
    ]
