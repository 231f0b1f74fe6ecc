"""Figures of the ODM paper [ZhangZhou]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from benchmarks.papers.drawings import drawing_panels
from benchmarks.papers.odm import READINGS, SOURCES, SPLIT, available_sets, models
from benchmarks.papers.result import Reproduction
from svmcvx.datasets import Dataset, load
from svmcvx.plot import margin_distribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = ("svm", "odml", "odm")
# The sets that are drawn, as far as they are in the table: the first few of these, else of any.
PREFERRED, MOST = ("sonar", "vehicle", "wdbc"), 3


def margins(found: Reproduction) -> Figure | None:
    """Draw cumulative margins on the training half of the first split, a column a data set, a row a
    reading of the paper.
    """
    readings = {name: suffix for name, suffix in READINGS.items() if name in found.frame}
    rows = found.frame[found.frame["method"] == "odm"].dropna(subset=list(readings))
    there = list(rows["dataset"])
    sets = ([name for name in PREFERRED if name in there] or there)[:MOST]
    if not sets or found.run is None:
        return None
    figure, panels = drawing_panels(len(readings), len(sets), size=(3.6, 2.8), sharey=True)
    for name, column in zip(sets, panels.T, strict=True):
        source = SOURCES.get(name, name)
        one = available_sets([source], found.run)[0][source]
        data = (
            one if isinstance(one, Dataset) else load(one, found.run.options["data_dir"])
        ).without_missing()
        for (reading, suffix), ax in zip(readings.items(), column, strict=True):
            fitted, X, y = _fitted(found, source, data, suffix)
            margin_distribution(fitted, X, y, ax=ax, title=f"{name}, {reading.replace('_', ' ')}")
            ax.set_xlabel("margin ÷ median of its size")
    for ax in panels[:, 1:].flat:
        ax.set_ylabel("")
    return figure


def _fitted(
    found: Reproduction, source: str, data: Dataset, suffix: str
) -> tuple[dict[str, Any], Any, Any]:
    """Return the machines on the training half of the first split at the hyper-parameters that were
    chosen, and this half as they see it.
    """
    kernel = found.name == "odm-table3"
    frame = found.study.frame
    first: Any = frame[(frame["dataset"] == source) & (frame["repeat"] == 0)].set_index("model")
    ((train, _),) = SPLIT.parts(data.y, 0)
    fitted, X = {}, None
    for machine in MACHINES:
        name = f"{machine}{suffix}"
        model = clone(models(kernel=kernel)[name])
        # With a kernel it scales by itself.
        pipe = model if kernel else make_pipeline(MinMaxScaler(), model)
        pipe[-1].set_params(**first.loc[name, "params"])
        pipe.fit(data.X[train], data.y[train])
        fitted[machine], X = pipe[-1], pipe[:-1].transform(data.X[train])
    return fitted, X, np.asarray(data.y)[train]
