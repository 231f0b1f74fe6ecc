"""The table of a study for a document in LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from svmcvx.experiments.studies.result import Study

__all__ = ["escaped", "latex_table"]

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


def latex_table(study: Study, metric: str, digits: int) -> str:
    """Return mean and standard deviation by data set and model, with mean ranks; the best of a row is bold, as it is printed."""
    mean, sd, ranks = study.mean(metric), study.sd(metric), study.ranks(metric).mean(axis=0)
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(study.models)}}}",
        r"\toprule",
        " & ".join([escaped(metric), *map(escaped, study.models)]) + r" \\",
        r"\midrule",
    ]
    for dataset in mean.index:
        best = np.round(mean.loc[dataset].max(), digits)
        cells = []
        for name in study.models:
            value, spread = mean.loc[dataset, name], sd.loc[dataset, name]
            text = "--" if np.isnan(value) else f"{value:.{digits}f}"
            text += "" if np.isnan(value) or np.isnan(spread) else rf" \pm {spread:.{digits}f}"
            cells.append(
                rf"$\mathbf{{{text}}}$" if np.round(value, digits) == best else f"${text}$".replace("$--$", "--")
            )
        lines.append(" & ".join([escaped(str(dataset)), *cells]) + r" \\")
    lines += [r"\midrule", " & ".join(["mean rank", *("--" if np.isnan(r) else f"{r:.2f}" for r in ranks)]) + r" \\"]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
