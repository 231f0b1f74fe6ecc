"""The table of a study for a document in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svmcvx.experiments.studies.statistics import Friedman
from svmcvx.experiments.studies.tables import StudyTables
from svmcvx.experiments.tables import escaped

__all__ = ["latex_diagram", "latex_table"]

# Length of the axis of a diagram, height of a line of labels, and distance of two bars, in
# centimetres.
AXIS, LINE, BAR = 10.0, 0.5, 0.18


def latex_table(study: StudyTables, metric: str, digits: int) -> str:
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
    for number, (first, last) in enumerate(joined):
        height = f"{-BAR * (number + 1):.2f}"
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
