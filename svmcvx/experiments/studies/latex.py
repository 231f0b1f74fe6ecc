"""The table of a study for a document in LaTeX."""

from __future__ import annotations

import numpy as np

from svmcvx.experiments.studies.tables import StudyTables
from svmcvx.experiments.tables import escaped

__all__ = ["latex_table"]


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
