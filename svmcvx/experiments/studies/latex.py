"""Tables for a document in LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from svmcvx.experiments.intervals import with_intervals
from svmcvx.experiments.studies.tables import StudyTables

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["escaped", "latex_frame", "latex_table"]

SPECIAL = {
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


def latex_table(study: StudyTables, metric: str, digits: int) -> str:
    """Return mean and standard deviation by data set and model, with mean ranks.

    Bold are the best of a row as it is printed, and those without a significant difference from it in the corrected t-test at 0.05. Intervals of the
    scores of every
    optimal machine are in the line below, if known.
    """
    mean, sd, ranks = study.mean(metric), study.sd(metric), study.ranks(metric).mean(axis=0)
    tied = _not_told_apart(study, metric)
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(study.models)}}}",
        r"\toprule",
        " & ".join([escaped(metric), *map(escaped, study.models)]) + r" \\",
        r"\midrule",
    ]
    for dataset in mean.index:
        best = np.round(mean.loc[dataset].max(), digits)
        leader = mean.loc[dataset].idxmax() if mean.loc[dataset].notna().any() else None
        cells = []
        for name in study.models:
            value, spread = mean.loc[dataset, name], sd.loc[dataset, name]
            text = "--" if np.isnan(value) else f"{value:.{digits}f}"
            text += "" if np.isnan(value) or np.isnan(spread) else rf" \pm {spread:.{digits}f}"
            bold = np.round(value, digits) == best or (dataset, frozenset((name, leader))) in tied
            cells.append(rf"$\mathbf{{{text}}}$" if bold else f"${text}$".replace("$--$", "--"))
        lines.append(" & ".join([escaped(str(dataset)), *cells]) + r" \\")
    lines += [r"\midrule", " & ".join(["mean rank", *("--" if np.isnan(r) else f"{r:.2f}" for r in ranks)]) + r" \\"]
    if metric in study.with_exact():
        exact = study.exact(metric)
        heading = rf"\multicolumn{{{len(study.models) + 1}}}{{l}}{{of every optimal machine, mean of the intervals}}"
        lines += [r"\midrule", heading + r" \\"]
        lines += [
            " & ".join([escaped(str(name)), *(f"${cell}$" if cell else "--" for cell in exact.loc[name])]) + r" \\"
            for name in exact.index
        ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _not_told_apart(study: StudyTables, metric: str) -> set[tuple[str, frozenset[str]]]:
    """Return the pairs of models, with their data set, without a significant difference in the corrected test at 0.05."""
    paired = study.paired(metric)
    rows = paired[paired["corrected_t"] >= 0.05]
    return {(one, frozenset(pair)) for one, *pair in zip(rows["dataset"], rows["first"], rows["second"], strict=True)}


# Means of whole numbers.
COUNT = "count"
# How numbers are printed in columns of these names; others with nine digits.
FORMS = {
    "gap": ".1e",
    "worst_gap": ".1e",
    "train_accuracy": ".4f",
    "test_accuracy": ".4f",
    "undecided": ".4f",
    "mean_test_score": ".4f",
    "std_test_score": ".4f",
    "n_support": COUNT,
    "seconds": ".2f",
}


def latex_frame(frame: pd.DataFrame) -> str:
    """Return a table of one row a line; empty columns are omitted."""
    frame = with_intervals(frame)
    names = [name for name in frame.columns if not frame[name].isna().all()]
    text = [not np.issubdtype(np.asarray(frame[name].dropna().tolist()).dtype, np.number) for name in names]
    forms = [FORMS.get(str(name), ".9g") for name in names]
    lines = [
        rf"\begin{{tabular}}{{{''.join('l' if one else 'r' for one in text)}}}",
        r"\toprule",
        " & ".join(escaped(str(name).replace("_", " ")) for name in names) + r" \\",
        r"\midrule",
        *(" & ".join(map(_cell, row, forms)) + r" \\" for row in frame[names].itertuples(index=False)),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


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
