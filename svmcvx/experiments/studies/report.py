"""One HTML file with all results of a study, or with tables of comparisons (extra ``study``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from svmcvx.errors import missing_extra
from svmcvx.experiments.intervals import with_intervals
from svmcvx.experiments.studies.environment import computer, versions
from svmcvx.experiments.studies.tables import ONE_CLASS_MARK, StudyTables
from svmcvx.system.files import atomic_write

__all__ = ["check_report", "report"]

TEMPLATE = Path(__file__).with_name("report.html")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, its sort key, and its style."""

    text: str
    value: float | str | None = None
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    foot: Sequence[Sequence[Cell]] = ()


def check_report() -> None:
    """Raise if a report cannot be made here; to be asked before anything is computed."""
    for module in ("jinja2", "matplotlib", "scikit_posthocs"):
        if find_spec(module) is None:
            raise missing_extra(module, "study")


def report(
    path: Path,
    study: StudyTables | None,
    comparisons: Mapping[str, pd.DataFrame],
    title: str | None = None,
    figures: Sequence[tuple[str, str]] = (),
) -> None:
    """Write the page, whole or not at all."""
    check_report()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(TEMPLATE.name).render(
        title=title or ("Study" if study is not None else "Comparison"),
        summary="" if study is None else _summary(study),
        warnings=[] if study is None else _warnings(study),
        sections=[
            *([] if study is None else _sections(study)),
            *_comparisons(comparisons, figures),
        ],
        facts=_facts(study),
    )
    with atomic_write(path) as stream:
        stream.write(page.encode())


def _number(value: Any, form: str = ".3f", kind: str = "") -> Cell:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell("—", None, kind)
    return Cell(format(value, form), float(value), kind)


def _text(value: Any) -> Cell:
    text = "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)
    return Cell(text, text)


def _p(value: float, *, adjusted: bool = False) -> Cell:
    """Return a p-value; small ones by their order only, and marked if they are adjusted for the
    number of tests.
    """
    if math.isnan(value):
        return Cell("—")
    return Cell(
        "< 0.0001" if value < 1e-4 else f"{value:.4f}",
        value,
        "low" if adjusted and value < 0.05 else "",
    )


def _summary(study: StudyTables) -> str:
    frame = study.frame
    certified, solves = study.solves()
    share = (
        f"{100 * certified / solves:.1f} % of {solves} solves certified"
        if solves
        else "no model gives certificates"
    )
    return (
        f"{len(study.models)} models, {len(study.datasets)} data sets, {len(frame)} tasks, "
        f"{len(study.failures())} of them failed; {share}; {frame['seconds'].sum():.1f} s of work."
    )


def _warnings(study: StudyTables) -> list[str]:
    found = (
        []
        if study.complete
        else ["Not complete: tasks are missing, and means of which a part is missing are left out."]
    )
    return [*found, *(f"{name} is left out: {why}" for name, why in study.left_out.items())]


def _facts(study: StudyTables | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the information that is needed to repeat the study."""
    groups = []
    if study is not None:
        groups += [
            ("Models", list(study.model_lines.items())),
            ("Tuned over", list(study.grids.items())),
            ("Protocol", list(study.protocol.items())),
        ]
    groups += [
        ("Versions", list((versions() if study is None else study.versions).items())),
        ("Computer (of the report)", list(computer().items())),
    ]
    return [(name, facts) for name, facts in groups if facts]


def _sections(study: StudyTables) -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = [
        {
            "title": "Scores",
            "tables": [_scores(study, metric) for metric in study.metrics],
            "figures": _score_figures(study),
        }
    ]
    if len(study.models) > 1:
        sections.append({"title": "Over the data sets", **_over_sets(study)})
        paired = [_paired(study, metric) for metric in study.metrics]
        sections.append(
            {"title": "On each data set", "tables": paired, "figures": [], "folded": True}
        )
    share = _grid(
        study,
        "Share of certified solves",
        "Final fits and those of the tuning; of models of scikit-learn the final fits. A dash: the"
        " problem of the model is not known.",
        study.certified(),
        ".3f",
    )
    seconds = _grid(
        study, "Seconds of a task", "Mean over the splits, with the tuning.", study.seconds(), ".3g"
    )
    sections.append(
        {
            "title": "Certificates and time",
            "tables": [share, *_exact(study), seconds],
            "figures": [],
        }
    )
    sections.append({"title": "Data sets", "tables": [_sets(study)], "figures": []})
    failures = study.failures()
    if len(failures):
        sections.append(
            {
                "title": "What failed",
                "tables": [_plain("Failed tasks", "", failures)],
                "figures": [],
            }
        )
    sections.append(
        {
            "title": "All tasks",
            "tables": [_plain("Tasks", "", study.frame)],
            "figures": [],
            "folded": True,
        }
    )
    return sections


def _scores(study: StudyTables, metric: str) -> Table:
    mean, sd, ranks = study.mean(metric), study.sd(metric), study.ranks(metric)
    best, one_class = study.leaders(metric), study.one_class()
    rows = []
    for dataset in mean.index:
        cells = [_text(dataset)]
        for name in study.models:
            value, spread = float(mean.loc[dataset, name]), float(sd.loc[dataset, name])
            text = (
                "—"
                if math.isnan(value)
                else f"{value:.3f}" + ("" if math.isnan(spread) else f" ± {spread:.3f}")
            )
            text += f" {ONE_CLASS_MARK}" if one_class.loc[dataset, name] else ""
            kind = "best" if best.loc[dataset, name] else ""
            cells.append(Cell(text, None if math.isnan(value) else value, kind))
        rows.append(cells)
    foot = [Cell("mean rank"), *(_number(float(rank), ".2f") for rank in ranks.mean(axis=0))]
    note = (
        "Mean ± standard deviation over the splits; marked are the best of a row and those that"
        f" the corrected t-test does not tell from it at 0.05. {ONE_CLASS_MARK}: predicts one class"
        " only on some split."
    )
    if mean.isna().to_numpy().any():
        note += " A dash: one of the tasks failed or is missing."
    note += (
        f" Ranks (1 is the best) over the {len(ranks)} data sets on which every model has a score."
    )
    note = " ".join((note, *study.notes()))
    return Table(metric, note, ["data set", *study.models], rows, [foot])


def _exact(study: StudyTables) -> list[Table]:
    """Return the tables of the scores of every optimal machine, if there are any."""
    tables = []
    for metric in study.with_exact():
        exact = study.exact(metric)
        rows = [
            [_text(name), *(_text(cell or "—") for cell in exact.loc[name])] for name in exact.index
        ]
        note = (
            "Mean over the splits of the intervals of what every optimal machine with the chosen"
            " hyper-parameters scores: one number where both ends meet. A dash: no guarantee, for"
            " the reason among the notes of the tasks."
        )
        tables.append(
            Table(f"{metric} of the optimal machines", note, ["data set", *study.models], rows)
        )
    if tables:
        note = (
            "Mean share of the test rows whose label is not that of every optimal machine for"
            " certain."
        )
        tables.append(_grid(study, "Share of undecided test rows", note, study.undecided(), ".4f"))
    return tables


def _score_figures(study: StudyTables) -> list[tuple[str, str]]:
    from svmcvx.experiments.studies.figures import scores_by_set, svg

    caption = f"{study.metrics[0]} of every split; a bar at the mean."
    return [(svg(scores_by_set(study), "scores of every split"), caption)]


def _over_sets(study: StudyTables) -> dict[str, Any]:
    from svmcvx.experiments.studies.figures import critical_difference_diagram, svg

    tables, figures = [], []
    for metric in study.metrics:
        overall = study.overall(metric)
        rows = [
            [
                _text(r.first),
                _text(r.second),
                *(_number(n, "d") for n in (r.wins, r.ties, r.losses)),
                _number(r.win, ".2f"),
                *(_number(value, "+.4f") for value in (r.median, r.low, r.high)),
                _p(r.wilcoxon),
                _p(r.holm, adjusted=True),
                _text(r.reason),
            ]
            for r in _records(overall)
        ]
        note = (
            "Signed-rank test on the mean scores of the data sets (from six data sets on; ranks of"
            " zeros are split); Holm: adjusted for the number of pairs. Median: of the differences,"
            " first less second, with its interval at 95 % by order statistics; share: of the data"
            " sets on which the first is better, ties counted half."
        )
        test = study.friedman(metric)
        if test is not None:
            note += (
                f" Friedman over {test.blocks} data sets: chi² = {test.chi2:.3f} (p ="
                f" {test.chi2_p:.4f}), Iman and Davenport's F = {test.F:.3f} (p = {test.F_p:.4f});"
                f" critical difference of mean ranks at {test.alpha:g}:"
                f" {test.critical_difference:.3f}."
            )
            if test.F_p >= test.alpha:
                note += (
                    " Friedman's test finds no difference between the models: the diagram shows"
                    " ranks, not differences."
                )
            figure: Any = critical_difference_diagram(study, metric).figure
            caption = (
                f"{metric}: mean ranks; models joined by a bar are not told apart by Nemenyi's test"
                " at 0.05."
            )
            figures.append((svg(figure, f"critical difference diagram of {metric}"), caption))
        heads = [
            "first",
            "second",
            "wins",
            "ties",
            "losses",
            "share",
            "median",
            "low",
            "high",
            "Wilcoxon p",
            "Holm",
            "reason",
        ]
        tables.append(Table(metric, note, heads, rows))
        tables.append(_bayes(study, metric))
    return {"tables": tables, "figures": figures, "figures_first": True}


# Half the width of the region of practical equivalence in a report: one percent of a score.
ROPE = 0.01


def _bayes(study: StudyTables, metric: str) -> Table:
    rows = [
        [
            _text(r.dataset),
            _text(r.first),
            _text(r.second),
            *(_number(p) for p in (r.p_first, r.p_equal, r.p_second)),
            _text(r.reason),
        ]
        for r in _records(study.bayes(ROPE, metric))
    ]
    note = (
        f"Probability that the first model is better by more than {ROPE:g}, that the two are"
        " practically equal, and that the second is better: correlated t-test on each data set,"
        " signed-rank test over all of them."
    )
    heads = [
        "data set",
        "first",
        "second",
        "first better",
        "practically equal",
        "second better",
        "reason",
    ]
    return Table(f"{metric}, Bayesian comparison", note, heads, rows)


def _paired(study: StudyTables, metric: str) -> Table:
    rows = [
        [
            _text(r.dataset),
            _text(r.first),
            _text(r.second),
            _number(r.splits, "d"),
            *(_number(value, "+.4f") for value in (r.difference, r.low, r.high, r.median)),
            _number(r.win, ".2f"),
            _number(r.detectable, ".4f"),
            _p(r.t),
            _p(r.corrected_t),
            _p(r.corrected_holm, adjusted=True),
            _p(r.wilcoxon),
            _p(r.mcnemar),
            _text(r.reason),
        ]
        for r in _records(study.paired(metric))
    ]
    note = (
        "Over the splits of each data set. The corrected test allows for training parts that"
        " overlap; the plain t-test and the signed-rank test do not, and find too much. The"
        " interval of the mean difference is that of the corrected test at 95 %; wins counts ties"
        " half; detectable: the smallest difference that the corrected test finds with a"
        " probability of 0.8. Holm: corrected p-values adjusted for the number of rows; the others"
        " are not adjusted. McNemar: on the rows of a single split. A dash: there is no such"
        " number, for the reason in the last column, or below six splits."
    )
    heads = [
        "data set",
        "first",
        "second",
        "splits",
        "difference",
        "low",
        "high",
        "median",
        "wins",
        "detectable",
        "t",
    ]
    return Table(
        metric, note, [*heads, "corrected t", "Holm", "Wilcoxon", "McNemar", "reason"], rows
    )


def _grid(study: StudyTables, title: str, note: str, values: pd.DataFrame, form: str) -> Table:
    rows = [
        [_text(name), *(_number(float(v), form) for v in values.loc[name])] for name in values.index
    ]
    return Table(title, note, ["data set", *study.models], rows)


def _sets(study: StudyTables) -> Table:
    rows = [
        [
            _text(r.dataset),
            *(_number(n, "d") for n in (r.rows, r.features, r.classes)),
            _text(r.split),
            Cell(r.content, r.content, "digest"),
        ]
        for r in _records(study.datasets)
    ]
    heads = ["data set", "rows", "columns", "classes", "split", "SHA-256 of the content"]
    return Table("Data", "Content: svmcvx.datasets.content_digest of what was loaded.", heads, rows)


def _records(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the rows, whose fields have the names of the columns."""
    return frame.itertuples(index=False)


def _comparisons(
    comparisons: Mapping[str, pd.DataFrame], figures: Sequence[tuple[str, str]]
) -> Iterable[dict[str, Any]]:
    if comparisons:
        note = (
            "One split. The interval [dual_bound, primal] holds the optimum of the training"
            " problem."
        )
        # A table may have its own note.
        notes = {
            name: frame.attrs.get("note", note if "dual_bound" in frame else "")
            for name, frame in comparisons.items()
        }
        tables = [_plain(name, notes[name], frame) for name, frame in comparisons.items()]
        yield {"title": "Tables", "tables": tables, "figures": figures, "figures_first": True}


def _plain(title: str, note: str, frame: pd.DataFrame) -> Table:
    """Return a data frame as it is, intervals in one cell; empty columns are omitted."""
    frame = with_intervals(frame)
    columns = [name for name in frame.columns if not frame[name].isna().all()]
    rows = [[_any(value) for value in row] for row in frame[columns].itertuples(index=False)]
    return Table(title, note, columns, rows)


def _any(value: Any) -> Cell:
    if isinstance(value, (bool, np.bool_)):
        return Cell("yes" if value else "no", float(value), "" if value else "no")
    if isinstance(value, (float, np.floating)):
        return _number(float(value), ".6g")
    if isinstance(value, (int, np.integer)):
        return _number(int(value), "d")
    if isinstance(value, list):
        return _text(" or ".join(_any(part).text for part in value))
    if isinstance(value, Mapping):
        return _text(
            ", ".join(
                f"{key}={part:g}" if isinstance(part, float) else f"{key}={part}"
                for key, part in value.items()
            )
        )
    return _text(value)
