"""One HTML file with all results of a study, or with other tables, and its figures (extra
``study``).
"""

from __future__ import annotations

import io
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import psutil

import svmcvx
from svmcvx.errors import missing_extra
from svmcvx.experiments.tables import ONE_CLASS_MARK, with_intervals
from svmcvx.plot.style import class_colours, drawing_axes
from svmcvx.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Half the width of the region of practical equivalence: one percent of a score.
ROPE: Final = 0.01

STYLE: Final = """
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem; color: #1d2733; line-height: 1.5;
  font-family: system-ui, sans-serif; }
h1, dd, .warning { overflow-wrap: anywhere; }
h2 { margin-top: 2.6rem; padding-top: .6rem; border-top: 1px solid #d9dee4; }
p { max-width: 46rem; }
.note, figcaption, dt { color: #5b6775; font-size: .9rem; }
.warning { border-left: 4px solid #a5402a; padding: .3rem .8rem; }
.wide, figure { overflow-x: auto; margin: .4rem 0 1rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #d9dee4; }
td { white-space: nowrap; max-width: 30rem; }
th:first-child, td:first-child, .words { text-align: left; white-space: normal; }
.best { font-weight: 700; background: #e9f0f8; }
figure svg { width: 100%; min-width: 38rem; max-width: 56rem; height: auto; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .1rem 1rem; }
dd { margin: 0; }
"""


def check_report() -> None:
    """Raise if a report cannot be made here, before anything is computed."""
    for module in ("jinja2", "matplotlib", "scikit_posthocs"):
        if find_spec(module) is None:
            raise missing_extra(module, "study")


def report(
    path: Path,
    study: Any,
    comparisons: Mapping[str, pd.DataFrame],
    title: str | None = None,
    figures: Sequence[tuple[str, str]] = (),
) -> None:
    """Write the page, whole or not at all."""
    check_report()
    heading = escape(title or ("Study" if study is not None else "Comparison"))
    body = [f"<h1>{heading}</h1>"]
    if study is not None:
        body += [f"<p>{escape(_summary(study))}</p>", *_warnings(study), *_sections(study)]
    if comparisons:
        body += ["<h2>Tables</h2>", *(_figure(*one) for one in figures)]
        # A table may have its own note.
        body += [_table(name, t.attrs.get("note", ""), t) for name, t in comparisons.items()]
    body += ["<h2>How it was made</h2>", *_facts(study)]
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )
    with atomic_write(path) as stream:
        stream.write(page.encode())


def _summary(study: Any) -> str:
    certified, solves = study.solves()
    share = "no model gives certificates"
    if solves:
        share = f"{100 * certified / solves:.1f} % of {solves} solves certified"
    return (
        f"{len(study.models)} models, {len(study.datasets)} data sets, {len(study.frame)} tasks,"
        f" {len(study.failures())} of them failed; {share};"
        f" {study.frame['seconds'].sum():.1f} s of work."
    )


def _warnings(study: Any) -> Iterator[str]:
    found = [f"{name} is left out: {why}" for name, why in study.left_out.items()]
    if not study.complete:
        found.insert(0, "Not complete: tasks are missing; means of which a part is missing, too.")
    return (f'<p class="warning">{escape(text)}</p>' for text in found)


def _facts(study: Any) -> Iterator[str]:
    groups: dict[str, Mapping[str, str]] = {}
    if study is not None:
        groups = {"Models": study.model_lines, "Tuned over": study.grids}
        groups["Protocol"] = study.protocol
    groups["Versions"] = versions() if study is None else study.versions
    groups["Computer (of the report)"] = computer()
    for name, facts in groups.items():
        if facts:
            lines = "".join(
                f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items()
            )
            yield f"<h3>{name}</h3><dl>{lines}</dl>"


def _sections(study: Any) -> Iterator[str]:
    yield "<h2>Scores</h2>"
    for metric in study.metrics:
        note = (
            "Mean ± standard deviation over the splits; marked are the best of a row and those that"
            " the corrected t-test does not tell from it at 0.05. A dash: a task failed or is"
            f" missing. {ONE_CLASS_MARK}: predicts one class only on some split. Ranks (1 is the"
            f" best) over the {len(study.ranks(metric))} data sets with scores of every model."
        )
        table = _by_set(study.table(metric))
        best = _by_set(study.leaders(metric)).reindex(index=table.index)
        yield _table(metric, " ".join((note, *study.notes())), table, best=best.eq(True))
    caption = f"{study.metrics[0]} of every split; a bar at the mean."
    yield _figure(svg(scores_by_set(study), "scores of every split"), caption)
    if len(study.models) > 1:
        yield "<h2>Over the data sets</h2>"
        for metric in study.metrics:
            yield from _over_sets(study, metric)
        yield "<h2>On each data set</h2>\n<details><summary>Show</summary>"
        note = (
            "Over the splits of each data set. The corrected test allows for training parts that"
            " overlap; the plain t-test and the signed-rank test do not, and find too much. low,"
            " high: the interval of the mean difference at 95 %; win counts ties half; detectable:"
            " the smallest difference that the corrected test finds with a probability of 0.8;"
            " corrected_holm: adjusted for the number of rows; mcnemar: on the rows of a single"
            " split."
        )
        yield from (_table(metric, note, study.paired(metric)) for metric in study.metrics)
        yield "</details>"
    yield "<h2>Certificates and time</h2>"
    note = "Final fits and those of the tuning; of models of scikit-learn the final fits."
    yield _table("Share of certified solves", note, _by_set(study.certified()))
    for metric in study.with_exact():
        note = (
            "Mean over the splits of the intervals of the scores of every optimal machine with the"
            " chosen hyper-parameters: one number where both ends meet."
        )
        yield _table(f"{metric} of the optimal machines", note, _by_set(study.exact(metric)))
    if study.with_exact():
        note = "Mean share of the test rows whose label is not proved."
        yield _table("Share of undecided test rows", note, _by_set(study.undecided()))
    note = "Mean over the splits, with the tuning."
    yield _table("Seconds of a task", note, _by_set(study.seconds()))
    yield "<h2>Data sets</h2>"
    note = "Content: svmcvx.datasets.content_digest of what was loaded."
    yield _table("Data", note, study.datasets)
    if len(study.failures()):
        yield _table("Failed tasks", "", study.failures())
    yield "<h2>All tasks</h2>\n<details><summary>Show</summary>"
    yield _table("Tasks", "", study.frame)
    yield "</details>"


def _over_sets(study: Any, metric: str) -> Iterator[str]:
    note = (
        "Signed-rank test on the mean scores of the data sets (from six on; ranks of zeros are"
        " split); holm: adjusted for the number of pairs. median: of the differences, first"
        " less second, with its interval at 95 % by order statistics; win: share of the data sets"
        " on which the first is better, ties counted half."
    )
    test = study.friedman(metric)
    if test is not None:
        note += (
            f" Friedman over {test.blocks} data sets: chi² = {test.chi2:.3f} (p ="
            f" {test.chi2_p:.4f}), Iman and Davenport's F = {test.F:.3f} (p = {test.F_p:.4f});"
            f" critical difference of mean ranks at {test.alpha:g}: {test.critical_difference:.3f}."
        )
        if test.F_p >= test.alpha:
            note += " It finds no difference: the diagram shows ranks, not differences."
        figure: Any = critical_difference_diagram(study, metric).figure
        caption = (
            f"{metric}: mean ranks; models joined by a bar are not told apart by Nemenyi's test at"
            " 0.05."
        )
        yield _figure(svg(figure, f"critical difference diagram of {metric}"), caption)
    yield _table(metric, note, study.overall(metric))
    note = (
        f"Probability that the first model is better by more than {ROPE:g}, that the two are"
        " practically equal, and that the second is better: correlated t-test on each data set,"
        " signed-rank test over all of them."
    )
    yield _table(f"{metric}, Bayesian comparison", note, study.bayes(ROPE, metric))


def _by_set(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename_axis(index="data set").reset_index()


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(title: str, note: str, frame: pd.DataFrame, best: pd.DataFrame | None = None) -> str:
    """Return a data frame with intervals in one cell and without empty columns, as HTML."""
    shown = with_intervals(frame)
    shown = shown[[name for name in shown.columns if not shown[name].isna().all()]]
    words = shown.map(lambda value: "words" if isinstance(value, str) else "")
    classes = words if best is None else words.where(~best[shown.columns], "best")
    cells = pd.DataFrame({name: shown[name].map(_form(str(name))) for name in shown.columns})
    styler = cells.style.format(escape="html").format_index(escape="html", axis=1)
    html = styler.hide(axis="index").set_td_classes(classes).to_html(table_uuid=escape(title))
    # The page has the style.
    html = html[html.index("<table") :]
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<h3>{escape(title)}</h3>{said}<div class="wide">{html}</div>'


def _form(column: str) -> Callable[[Any], str]:
    """Return the function that writes a cell of a column."""
    p_values = ("t", "corrected_t", "corrected_holm", "wilcoxon", "holm", "mcnemar")
    form = ".4f" if column in p_values else ".6g"

    def text(value: Any) -> str:
        if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
            return "—"
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else "no"
        if isinstance(value, (float, np.floating)):
            return "< 0.0001" if column in p_values and value < 1e-4 else format(value, form)
        if isinstance(value, list):
            return " or ".join(map(text, value))
        if isinstance(value, Mapping):
            return ", ".join(f"{key}={text(part)}" for key, part in value.items())
        return str(value)

    return text


# Figures

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
    study: Any, metric: str | None = None, ax: Axes | None = None
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


def scores_by_set(study: Any) -> Figure:
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


# The computer

PACKAGES = (
    "cvxpy",
    "clarabel",
    "scs",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "joblib",
    "pandas",
)


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the numerical packages."""
    found = {"svmcvx": svmcvx.__version__, "Python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of the sources, with "+" if they were changed since; None if they are not
    in a repository, or git is not there.
    """
    folder = Path(svmcvx.__file__).parents[1]
    git = shutil.which("git")
    if git is None or not (folder / ".git").exists():
        return None
    try:
        head, changed = (
            subprocess.run(  # noqa: S603 - no shell, and words of our own
                [git, "-C", str(folder), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "svmcvx"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def computer() -> dict[str, str]:
    """Describe this computer, without its name."""
    memory = psutil.virtual_memory().total / 2**30
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": f"{psutil.cpu_count(logical=False) or '?'} ({os.cpu_count()} logical)",
        "memory": f"{memory:.0f} GiB",
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
