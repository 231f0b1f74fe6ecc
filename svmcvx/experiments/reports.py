"""One HTML file with all results of a study, or with other tables, and its figures (extra
``study``).
"""

from __future__ import annotations

import io
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import psutil

import svmcvx
from svmcvx.display import CELL
from svmcvx.errors import missing_extra
from svmcvx.experiments.tables import ONE_CLASS_MARK, SummaryTable, table_html, written
from svmcvx.plot.style import class_colours, drawing_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: Final = """
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem; color: #1d2733; line-height: 1.5;
  font-family: system-ui, sans-serif; }
h1, dd, .warning { overflow-wrap: anywhere; }
h2 { margin-top: 2.6rem; padding-top: .6rem; border-top: 1px solid #d9dee4; }
p { max-width: 46rem; }
.note, figcaption, dt { color: #5b6775; font-size: .9rem; }
.warning { border-left: 4px solid #a5402a; padding: .3rem .8rem; }
figure { overflow-x: auto; margin: .4rem 0 1rem; }
table { font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid #d9dee4; }
figure svg { width: 100%; min-width: 38rem; max-width: 56rem; height: auto; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .1rem 1rem; }
dd { margin: 0; }
"""

SCORES: Final = (
    "Mean ± standard deviation over the splits; marked are the best of a row and those that the"
    " corrected t-test does not distinguish from it at 0.05. A dash: a task failed or is missing."
    f" {ONE_CLASS_MARK}: predicts one class only on some split. Ranks (1 is the best) over the data"
    " sets with scores of every model."
)
OVER_SETS: Final = (
    "Signed-rank test on the mean scores of the data sets (from six on; ranks of zeros are split);"
    " holm: adjusted for the number of pairs. median: of the differences, first less second, with"
    " its interval at 95 % by order statistics."
)
ON_A_SET: Final = (
    "Over the splits of each data set, by the corrected resampled t-test, which allows for training"
    " parts that overlap. low, high: the interval of the mean difference at 95 %; corrected_holm:"
    " adjusted for the number of rows."
)


def check_report() -> None:
    """Raise if a report cannot be made here, before anything is computed."""
    for module in ("matplotlib", "scikit_posthocs"):
        if find_spec(module) is None:
            raise missing_extra(module, "study")


def report(
    path: Path,
    study: Any,
    comparisons: Mapping[str, pd.DataFrame],
    title: str | None = None,
    figures: Sequence[tuple[str, str]] = (),
) -> None:
    check_report()
    heading = escape(title or ("Study" if study is not None else "Comparison"))
    body = [f"<h1>{heading}</h1>"]
    if study is not None:
        body += _sections(study)
    if comparisons:
        body += ["<h2>Tables</h2>", *(_figure(*one) for one in figures)]
        named = {"" if name == title else name: table for name, table in comparisons.items()}
        body += [_of_comparison(name, table) for name, table in named.items()]
    body += ["<h2>How it was made</h2>", *_facts(study)]
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )
    written(page, path)


def _facts(study: Any) -> Iterator[str]:
    groups: dict[str, Mapping[str, str]] = {}
    if study is not None:
        groups = {"Models": study.model_lines, "Tuned over": study.grids}
        groups["Protocol"] = study.protocol
    groups["Versions"] = versions() if study is None else study.versions
    groups["Computer"] = computer()
    for name, facts in groups.items():
        if facts:
            lines = "".join(
                f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items()
            )
            yield f"<h3>{name}</h3><dl>{lines}</dl>"


def _sections(study: Any) -> Iterator[str]:
    certified, solves = study.solves()
    share = "no model gives certificates"
    if solves:
        share = f"{100 * certified / solves:.1f} % of {solves} solves certified"
    yield (
        f"<p>{study._size()}, {len(study.failures())} of them failed; {share};"
        f" {study.frame['seconds'].sum():.1f} s of work.</p>"
    )
    warned = [] if study.complete else ["Not complete: tasks are missing, and means over them."]
    warned += [f"{name} is left out: {why}" for name, why in study.left_out.items()]
    yield from (f'<p class="warning">{escape(text)}</p>' for text in warned)
    yield "<h2>Scores</h2>"
    note = " ".join((SCORES, *study.notes()))
    for metric in study.metrics:
        yield _table(metric, note, study.table(metric), study.leaders(metric))
        note = ""  # said once
    if len(study.models) > 1 < len(study.datasets):
        yield "<h2>Over the data sets</h2>"
        for metric in study.metrics:
            yield from _over_sets(study, metric)
    if len(study.models) > 1:
        yield "<h2>On each data set</h2>\n<details><summary>Show</summary>"
        yield from (_table(metric, ON_A_SET, study.paired(metric)) for metric in study.metrics)
        yield "</details>"
    yield "<h2>Certificates and time</h2>"
    note = "Final fits and those of the tuning; of models of scikit-learn the final fits."
    yield _table("Share of certified solves", note, study.certified())
    for metric in study.with_exact():
        note = (
            "Mean over the splits of the intervals of the scores of every optimal machine with the"
            " chosen hyper-parameters: one number where both ends meet."
        )
        yield _table(f"{metric} of the optimal machines", note, study.exact(metric))
    if study.with_exact():
        note = "Mean share of the test rows whose label is not proved."
        undecided = study._by_set(study.frame["undecided"], "mean")
        yield _table("Share of undecided test rows", note, undecided)
    seconds = study._by_set(study.frame["seconds"], "mean")
    yield _table("Seconds of a task", "Mean over the splits, with the tuning.", seconds)
    yield "<h2>Data sets</h2>"
    note = "Content: svmcvx.datasets.content_digest of what was loaded."
    yield _table("Data", note, study.datasets)
    if len(study.failures()):
        yield _table("Failed tasks", "", study.failures())
    yield "<h2>All tasks</h2>\n<details><summary>Show</summary>"
    yield _table("Tasks", "", study.frame)
    yield "</details>"


def _over_sets(study: Any, metric: str) -> Iterator[str]:
    note, test = OVER_SETS, study.friedman(metric)
    if test is not None:
        note += (
            f" Friedman over {test.blocks} data sets: chi² = {test.chi2:.3f} (p ="
            f" {test.chi2_p:.4f}), Iman and Davenport's F = {test.F:.3f} (p = {test.F_p:.4f});"
            f" critical difference of mean ranks at {test.alpha:g}: {test.critical_difference:.3f}."
        )
        if test.F_p >= test.alpha:
            note += " It finds no difference: the diagram shows ranks, not differences."
        figure: Any = critical_difference_diagram(study, metric).figure
        caption = f"{metric}: mean ranks; a bar joins models that Nemenyi's test does not separate."
        yield _figure(svg(figure, f"critical difference diagram of {metric}"), caption)
    yield _table(metric, note, study.overall(metric))


def _of_comparison(name: str, table: pd.DataFrame) -> str:
    """Return a table with its note; of one that prints its main columns these, and its notes."""
    if isinstance(table, SummaryTable) and table._is_summary:
        return _table(name, ". ".join(table.notes()), table.shown())
    return _table(name, table.attrs.get("note", ""), table)


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(title: str, note: str, frame: pd.DataFrame, best: pd.DataFrame | None = None) -> str:
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    # The page has the style of cells.
    table = table_html(frame, bold=best, most=len(frame)).replace(CELL, "")
    return f"<h3>{escape(title)}</h3>{said}{table}" if title else f"{said}{table}"


# Figures


def critical_difference_diagram(
    study: Any, metric: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw mean ranks over data sets; bars join models that Nemenyi's test ties [Demsar]."""
    check_report()
    import scikit_posthocs as posthocs

    ranks = study.ranks(metric)
    p_values: pd.DataFrame = posthocs.posthoc_nemenyi_friedman(-study.mean(metric).dropna())
    if ax is None:
        ax = drawing_axes(None)
        figure: Any = ax.figure
        figure.set_size_inches(9.0, 1.2 + 0.22 * len(study.models))
    posthocs.critical_difference_diagram(
        ranks.mean(axis=0),
        p_values.set_axis(ranks.columns, axis=0).set_axis(ranks.columns, axis=1),
        ax=ax,
        label_props={"fontsize": 9},
        crossbar_props={"linewidth": 2.5},
        color_palette=dict(zip(study.models, class_colours(len(study.models)), strict=True)),
    )
    return ax


def svg(figure: Figure, what: str) -> str:
    """Return a figure as SVG for a page, and close it."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    stream = io.StringIO()
    # Identifiers of different pictures in one page must differ; equal pictures give equal text.
    with mpl.rc_context({"svg.hashsalt": what}):
        plain: Any = {"Date": None, "Creator": None}
        figure.savefig(stream, format="svg", metadata=plain, bbox_inches="tight")
    plt.close(figure)
    text = stream.getvalue()
    return text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{what}"', 1)


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the numerical packages."""
    found = {"svmcvx": svmcvx.__version__, "Python": sys.version.split()[0]}
    names = "cvxpy clarabel scs numpy scipy numba scikit-learn joblib pandas"
    for name in names.split():
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def computer() -> dict[str, str]:
    """Describe this computer, without its name."""
    processor = platform.processor() or platform.machine()
    if (facts := Path("/proc/cpuinfo")).exists():
        names = [line for line in facts.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor,
        "cores": f"{psutil.cpu_count(logical=False) or '?'} ({os.cpu_count()} logical)",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
    }
