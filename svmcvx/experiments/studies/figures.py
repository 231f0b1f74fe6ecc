"""Pictures of a study (extra ``study``)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from svmcvx.errors import missing_extra
from svmcvx.experiments.studies.tables import StudyTables
from svmcvx.plot.style import class_colours, drawing_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["critical_difference_diagram", "nemenyi", "scores_by_set", "svg"]

# Width of a picture in inches, width for one data set, and the largest number of data sets in a
# row.
WIDTH, PART, MOST = 9.0, 2.3, 4


def _posthocs() -> Any:
    try:
        import scikit_posthocs
    except ImportError:
        raise missing_extra("scikit_posthocs", "study") from None
    return scikit_posthocs


def nemenyi(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the p-values of Nemenyi's test for every pair of models, by scikit-posthocs."""
    found: pd.DataFrame = _posthocs().posthoc_nemenyi_friedman(-scores.to_numpy())
    found.index = found.columns = scores.columns
    return found


def critical_difference_diagram(
    study: StudyTables, metric: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw mean ranks over data sets; models without a significant difference in Nemenyi's test are
    joined [Demsar].
    """
    study.ranked(metric)
    ranks = study.ranks(metric)
    posthocs = _posthocs()
    if ax is None:
        ax = drawing_axes(None)
        figure: Any = ax.figure
        figure.set_size_inches(WIDTH, 1.2 + 0.22 * len(study.models))
    posthocs.critical_difference_diagram(
        ranks.mean(axis=0),
        nemenyi(study.mean(metric).dropna()),
        ax=ax,
        label_props={"fontsize": 9},
        crossbar_props={"linewidth": 2.5},
        color_palette=dict(zip(study.models, class_colours(len(study.models)), strict=True)),
    )
    return ax


def scores_by_set(study: StudyTables) -> Figure:
    """Draw the scores of all splits by the first metric, one part a data set, a line with its
    points a model; a mark at the mean.
    """
    axes = drawing_axes(None)
    figure: Any = axes.figure
    axes.remove()
    name = study.metrics[0]
    sets = list(study.datasets["dataset"])
    columns = min(MOST, len(sets))
    rows = -(-len(sets) // columns)
    figure.set_size_inches(WIDTH, rows * (0.7 + 0.24 * len(study.models)) + 0.3)
    parts = figure.subplots(rows, columns, squeeze=False, sharey=True)
    colours = class_colours(len(study.models))
    places = np.arange(len(study.models))[::-1]
    for dataset, ax in zip(sets, parts.flat, strict=False):
        part = study.frame[study.frame["dataset"] == dataset]
        for model, place, colour in zip(study.models, places, colours, strict=True):
            values = part.loc[part["model"] == model, name].dropna().to_numpy()
            ax.plot(
                values, np.full(values.size, place), "o", color=colour, alpha=0.35, markersize=4
            )
            if values.size:
                ax.plot(
                    [values.mean()], [place], "|", color=colour, markersize=13, markeredgewidth=2
                )
        ax.set_title(dataset, fontsize=9)
        ax.tick_params(labelsize=8)
        ax.set_ylim(-0.7, len(study.models) - 0.3)
        ax.grid(axis="x", alpha=0.3)
        ax.locator_params(axis="x", nbins=4)
    for ax in parts.flat[len(sets) :]:
        ax.set_axis_off()
    for row in parts:
        row[0].set_yticks(places, study.models, fontsize=8)
    return figure  # type: ignore[no-any-return]


def svg(figure: Figure, what: str) -> str:
    """Return a figure as SVG for a page, and close it."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    stream = io.StringIO()
    # Identifiers of different pictures in one page must differ; equal pictures give equal text.
    with mpl.rc_context({"svg.hashsalt": what}):
        figure.savefig(
            stream, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight"
        )
    plt.close(figure)
    text = stream.getvalue()
    return text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{what}"', 1)
