"""The result of a study: rows, tables, tests, and their files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from svmcvx.data import check_choice, check_number
from svmcvx.display import MISSING, aligned, check_mark, html_block, html_fields, quantity
from svmcvx.errors import DataError
from svmcvx.experiments import statistics, tables
from svmcvx.experiments.fit import FOREIGN, INTERVALS, ONE_CLASS, ends_of
from svmcvx.experiments.reports import critical_difference_diagram, report, versions
from svmcvx.experiments.statistics import Friedman
from svmcvx.experiments.store import FAILED, Row

# The columns before those of the metrics and of their intervals, and behind them.
FIRST = ("dataset", "model", "repeat", "fold", "status", "n_train", "n_test")
LAST = (
    *("undecided", "params", "lower", "upper", "gap", "certified", "tuning_fits"),
    *("tuning_certified", "n_support", "solver", "tuning_seconds", "seconds", "proof", "note"),
)
# Columns of `Study.paired` and `Study.overall`.
PAIRED = [
    *("dataset", "first", "second", "splits", "difference", "low", "high", "corrected_t"),
    *("corrected_holm", "reason"),
]
OVERALL = [
    *("first", "second", "wins", "losses", "ties", "median", "low", "high", "wilcoxon", "holm"),
    "reason",
]


class Study:
    """The result of :func:`svmcvx.study`.

    Attributes
    ----------
    frame : DataFrame
        A row a task: ``dataset``, ``model``, ``repeat``, ``fold``, ``status`` (``"failed"`` where
        it failed), ``n_train``, ``n_test``, a column a metric; with `guarantee`
        ``accuracy_lower``, ``accuracy_upper`` (interval of every optimal machine; so for each
        metric of which there are intervals) and ``undecided``; ``params`` (chosen), ``lower`` and
        ``upper`` (checked interval around the optimum of the final fit; of several binary problems
        that of their sum), ``gap``, ``certified``, ``tuning_fits``, ``tuning_certified``,
        ``n_support``, ``solver``, ``tuning_seconds``, ``seconds`` (of the fit and its tuning),
        ``proof`` (folder), ``note``.
    models : tuple of str
    datasets : DataFrame
        Size, split and content digest of each data set.
    left_out : dict
        Why data sets could not be used.
    metrics : tuple of str
        Tables show the first one, unless another is named.
    protocol : dict of str
    complete : bool
        Whether all tasks are there.
    reused : int
        Tasks that were found in the store.
    versions : dict of str
        Versions of this package and of the numerical packages.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        protocol: Any,
        models: Mapping[str, str],
        grids: Mapping[str, str],
        datasets: Sequence[Mapping[str, Any]],
        left_out: Mapping[str, str],
        complete: bool,
        reused: int,
        conventions: Mapping[str, str],
    ) -> None:
        self.metrics = protocol.metrics
        self.protocol = protocol.described()
        self._guarantee = protocol.guarantee
        self.model_lines, self.grids = dict(models), dict(grids)
        self.models = tuple(models)
        self.conventions = {name: said for name, said in conventions.items() if said}
        self.datasets = pd.DataFrame(list(datasets))
        self.left_out = dict(left_out)
        self.complete, self.reused = complete, reused
        self.versions = versions()
        ends = ends_of(self.metrics if self._guarantee else ())
        last = LAST if self._guarantee else LAST[1:]
        columns = [*FIRST, *self.metrics, *ends, *last]
        numbers = [*self.metrics, *ends, "lower", "upper", "gap", "n_support", "undecided"]
        numbers = [c for c in (*numbers, "tuning_seconds", "seconds") if c in columns]
        self.frame = tables.CertifiedTable(
            [{name: row.get(name) for name in columns} for row in rows], columns=columns
        ).astype(dict.fromkeys(numbers, float))

    def _size(self) -> str:
        """Return the numbers of models, data sets and tasks in words."""
        sizes = (len(self.models), len(self.datasets), len(self.frame))
        return ", ".join(map(quantity, sizes, ("model", "data set", "task")))

    def _heading(self) -> str:
        state = "" if self.complete else ", not complete"
        return f"{type(self).__name__}({self._size()}{state})"

    def __repr__(self) -> str:
        table = self.table()
        rows = table.reset_index().to_numpy().tolist()
        lines = aligned([self.metrics[0], *map(str, table)], rows)
        return "\n".join([self._heading(), *lines, *self.notes()])

    def _repr_html_(self) -> str:
        certified, solves = self.solves()
        failed = len(self.failures())
        fields = [
            ("Scores", f"{self.metrics[0]}, mean ± standard deviation over the splits"),
            ("Certified", f"{check_mark(certified == solves)} {certified} of {solves} solves"),
            *([("Failed", f"{failed} tasks")] if failed else []),
            *([("Models", " ".join(self.notes()))] if self.notes() else []),
            *([("Left out", f"{name}: {why}") for name, why in self.left_out.items()]),
        ]
        return html_block(self._heading(), html_fields(fields), tables.table_html(self.table()))

    # Tables

    def _metric(self, metric: str | None) -> str:
        return check_choice(self.metrics[0] if metric is None else metric, "metric", self.metrics)

    def _by_set(self, column: pd.Series, how: Any, rows: Any = None) -> pd.DataFrame:
        """Aggregate a column by data set and model, in their orders."""
        rows = self.frame if rows is None else rows
        values = column.groupby([rows["dataset"], rows["model"]], sort=False).agg(how)
        table: pd.DataFrame = values.unstack("model").reindex(  # noqa: PD010 - nothing to aggregate
            index=list(self.datasets["dataset"]), columns=list(self.models)
        )
        return table.rename_axis(index="dataset", columns=None)

    def _scores(self, column: str, how: str) -> pd.DataFrame:
        """Aggregate scores where all are there: means of different splits do not compare."""
        counts = self._by_set(self.frame[column], "count").fillna(0)
        splits = self.frame[["dataset", "repeat", "fold"]].drop_duplicates()["dataset"]
        most = splits.value_counts().reindex(counts.index).fillna(1)
        return self._by_set(self.frame[column], how).where(counts.ge(most, axis=0))

    def mean(self, metric: str | None = None) -> pd.DataFrame:
        """Return mean scores by data set and model; NaN where a task failed or is missing."""
        return self._scores(self._metric(metric), "mean")

    def sd(self, metric: str | None = None) -> pd.DataFrame:
        """Return standard deviations over the splits, with one degree of freedom less."""
        return self._scores(self._metric(metric), "std")

    def table(self, metric: str | None = None, digits: int = 3) -> pd.DataFrame:
        """Return mean ± standard deviation as text, and mean ranks; † marks one class only."""
        mean, sd = self.mean(metric), self.sd(metric)
        marked = self._by_set(self._of_one_class(), "any").eq(True)
        cells = mean.map(lambda value: MISSING if np.isnan(value) else f"{value:.{digits}f}")
        cells += sd.map(lambda value: "" if np.isnan(value) else f" ± {value:.{digits}f}")
        cells += marked.map(lambda mark: f" {tables.ONE_CLASS_MARK}" if mark else "")
        if len(ranks := self.ranks(metric)) > 1:
            cells.loc["mean rank"] = [f"{rank:.2f}" for rank in ranks.mean()]
        return cells

    def ranks(self, metric: str | None = None) -> pd.DataFrame:
        """Return the ranks, 1 the best, on the data sets on which all models have a score."""
        mean = self.mean(metric).dropna()
        ranks = stats.rankdata(-mean.to_numpy(), axis=1)
        return pd.DataFrame(ranks, index=mean.index, columns=mean.columns)

    def exact(self, metric: str | None = None) -> pd.DataFrame:
        """Return mean intervals of the scores of every optimal machine, as text."""
        name = self._metric(metric)
        if not self._guarantee:
            raise DataError(
                "this study has no scores of every optimal machine; pass guarantee=True to study"
            )
        check_choice(name, "metric with intervals", tuple(INTERVALS))
        low, high = (self._scores(f"{name}_{end}", "mean") for end in ("lower", "upper"))
        return low.combine(
            high, lambda a, b: pd.Series(map(tables.interval_text, a, b), index=a.index)
        )

    def with_exact(self) -> list[str]:
        """Return the metrics for which some task has an interval of every optimal machine."""
        known = [name for name in self.metrics if name in INTERVALS] if self._guarantee else []
        return [name for name in known if self.frame[f"{name}_lower"].notna().any()]

    def _solves(self) -> tuple[pd.DataFrame, pd.Series[int], pd.Series[int]]:
        """Return the tasks with certificates, and the numbers of certified and of all solves."""
        fitted = self.frame[self.frame["status"] == FOREIGN]
        without = fitted.loc[fitted["certified"].isna(), "model"].unique()
        rows = self.frame[~self.frame["model"].isin(without)]
        own = rows["status"] != FOREIGN
        certified = rows["tuning_certified"].where(own, 0) + rows["certified"].astype(int)
        return rows, certified, rows["tuning_fits"].where(own, 0) + 1

    def certified(self) -> pd.DataFrame:
        """Return the share of certified solves, the tuning included, by data set and model."""
        rows, certified, solves = self._solves()
        return self._by_set(certified, "sum", rows) / self._by_set(solves, "sum", rows)

    def solves(self) -> tuple[int, int]:
        """Return how many solves are certified, and how many there are with a certificate."""
        _, certified, solves = self._solves()
        return int(certified.sum()), int(solves.sum())

    def _of_one_class(self) -> Any:
        return self.frame["note"].fillna("").str.contains(ONE_CLASS, regex=False)

    def leaders(self, metric: str | None = None, digits: int = 3) -> pd.DataFrame:
        """Return which scores are best, as printed, or not told from it by the corrected t-test."""
        mean = self.mean(metric).round(digits)
        best = mean.eq(mean.max(axis=1), axis=0)
        paired = self.paired(metric)
        leader = self.mean(metric).dropna(how="all").idxmax(axis=1)
        for row in paired[paired["corrected_t"] >= statistics.LEVEL].itertuples():
            if leader.get(row.dataset) in (row.first, row.second):
                best.loc[row.dataset, [row.first, row.second]] = True
        return best

    def notes(self) -> list[str]:
        """Return what a reader of the tables has to know of the models."""
        by_words: dict[str, list[str]] = {}
        for name, said in self.conventions.items():
            by_words.setdefault(said, []).append(name)
        found = [f"{', '.join(names)}: {said}." for said, names in by_words.items()]
        for model, flags in self._of_one_class().groupby(self.frame["model"], sort=False):
            if flags.any():
                tasks = f"{flags.sum()} of {flags.size} tasks"
                found.append(f"{model} predicts one class only in {tasks}.")
        rows, certified, solves = self._solves()
        for model, count in solves.groupby(rows["model"], sort=False).sum().items():
            if (own := certified[rows["model"] == model].sum()) < count:
                found.append(f"{model}: {own} of {count} solves certified.")
        notes = self.frame[self.frame["note"].fillna("").str.contains("no guarantee|no interval")]
        reasons = notes.groupby("model", sort=False)["note"].unique()
        return [*found, *(f"{name}: {'; '.join(texts)}." for name, texts in reasons.items())]

    def failures(self) -> pd.DataFrame:
        """Return the rows of the tasks that failed."""
        columns = ["dataset", "model", "repeat", "fold", "note"]
        return self.frame.loc[self.frame["status"] == FAILED, columns]

    # Tests

    def paired(self, metric: str | None = None) -> pd.DataFrame:
        """Compare every pair of models on every data set, over its splits."""
        rows, name = [], self._metric(metric)
        for dataset in self.datasets["dataset"]:
            part = self.frame[self.frame["dataset"] == dataset]
            scores = part.pivot_table(name, ["repeat", "fold"], "model", dropna=False)
            scores = scores.reindex(columns=list(self.models))
            # Test rows per training row.
            ratio = float((part["n_test"] / part["n_train"]).mean()) if len(part) else 0.0
            for first, second in combinations(self.models, 2):
                difference = (scores[first] - scores[second]).dropna().to_numpy()
                found = statistics.corrected_t(difference, ratio)
                row: Row = {"dataset": dataset, "first": first, "second": second}
                row |= {"splits": difference.size, "difference": found.mean}
                rows.append(row | {"corrected_t": found.p} | found._asdict())
        table = pd.DataFrame(rows, columns=PAIRED)
        table["corrected_holm"] = statistics.holm(table["corrected_t"])
        return table

    def overall(self, metric: str | None = None, control: str | None = None) -> pd.DataFrame:
        """Compare every pair of models over the data sets, by the signed-rank test of means."""
        mean = self.mean(metric)
        pairs = list(combinations(self.models, 2))
        if control is not None:
            check_choice(control, "control", self.models)
            pairs = [(name, control) for name in self.models if name != control]
        rows = []
        for first, second in pairs:
            # Equal scores may have means that differ by rounding.
            difference = (mean[first] - mean[second]).dropna().to_numpy().round(12)
            row: Row = {"first": first, "second": second}
            for name, sign in (("wins", 1), ("losses", -1), ("ties", 0)):
                row[name] = int((np.sign(difference) == sign).sum())
            row["median"] = float(np.median(difference)) if difference.size else np.nan
            row["low"], row["high"] = statistics.median_interval(difference)
            row["wilcoxon"] = statistics.wilcoxon(difference)
            row["reason"] = "" if difference.any() else "all differences are zero"
            rows.append(row)
        table = pd.DataFrame(rows, columns=OVERALL)
        table["holm"] = statistics.holm(table["wilcoxon"])
        return table

    def friedman(self, metric: str | None = None, alpha: float = 0.05) -> Friedman | None:
        """Return Friedman's test; None for fewer than three models or two data sets."""
        check_number(alpha, "alpha", "(0, 1)")
        return statistics.friedman(self.mean(metric), alpha)

    # Files

    def latex(
        self,
        path: str | os.PathLike[str] | None = None,
        metric: str | Sequence[str] | None = None,
        digits: int = 3,
    ) -> str:
        """Return the table of a metric, or of several in turn, as LaTeX; `path` gets it too.

        Bold are the best of a row, and those without a significant difference from it in the
        corrected t-test at 0.05; a dagger marks models that predict one class only on some split.
        """
        names = [self._metric(metric)] if metric is None or isinstance(metric, str) else metric
        rows: list[list[str]] = []
        marked, whole = False, rf"\multicolumn{{{len(self.models) + 1}}}{{l}}{{%s}} \\"
        for name in names:
            table, bold = self.table(name, digits), self.leaders(name, digits)
            block = tables.latex_rows(table, bold.reindex(table.index, fill_value=False))
            if len(table) > len(self.datasets):
                block.insert(-1, [r"\midrule"])
            if name in self.with_exact():
                said = "of every optimal machine, mean of the intervals"
                block.append([r"\midrule " + whole % said])
                block += tables.latex_rows(self.exact(name))
            if rows:
                block.insert(0, [r"\midrule " + whole % tables.escaped(name)])
            marked |= bool(table.map(lambda cell: tables.ONE_CLASS_MARK in cell).any(axis=None))
            rows += block
        if marked:
            rows.append([whole % r"$^{\dagger}$ predicts one class only on some split"])
        header = [tables.escaped(one) for one in (names[0], *self.models)]
        return tables.written(tables.booktabs(header, rows, "l" + "c" * len(self.models)), path)

    def diagram(self, path: str | os.PathLike[str], metric: str | None = None) -> None:
        """Write the diagram of mean ranks [Demsar] (``.pdf``, ``.svg``, ``.png``; extra ``study``).

        Raises
        ------
        DataError
            If there are fewer than three models or two data sets with all scores.
        """
        if self.friedman(metric) is None:
            raise DataError(
                "a critical-difference diagram needs three models and two data sets with all their"
                " scores"
            )
        figure: Any = critical_difference_diagram(self, metric).figure
        figure.savefig(path, bbox_inches="tight")

    def report(
        self,
        path: str | os.PathLike[str],
        comparisons: Mapping[str, pd.DataFrame] | None = None,
        title: str | None = None,
        figures: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Write a self-contained HTML file with all results (extra ``study``).

        Parameters
        ----------
        path : path-like
            Of the file.
        comparisons : mapping of str to DataFrame, optional
            Tables of :func:`svmcvx.compare`, or others, that the report is to hold too, by their
            titles.
        title : str, optional
            Heading of the report.
        figures : sequence of (str, str)
            SVG and caption of figures for these tables.
        """
        report(Path(path), self, comparisons or {}, title, figures)
