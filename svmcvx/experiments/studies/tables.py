"""The rows of a study, and the tables and tests made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from svmcvx.data import check_number
from svmcvx.errors import DataError
from svmcvx.experiments.fits import ONE_CLASS
from svmcvx.experiments.intervals import INTERVALS, interval_text
from svmcvx.experiments.running import FAILED, Row
from svmcvx.experiments.studies import statistics
from svmcvx.experiments.studies.environment import versions
from svmcvx.experiments.studies.protocol import Protocol
from svmcvx.experiments.studies.statistics import Friedman
from svmcvx.experiments.studies.tasks import FIELDS, FOREIGN
from svmcvx.experiments.tables import CertifiedTable

__all__ = ["StudyTables"]

# Columns of `Study.paired`, without the adjusted p-value.
PAIRED = [
    "dataset",
    "first",
    "second",
    "splits",
    "difference",
    "low",
    "high",
    "median",
    "win",
    "detectable",
    "t",
    "corrected_t",
    "wilcoxon",
    "mcnemar",
    "reason",
]
# Columns of `Study.overall`, without the adjusted p-value.
OVERALL = [
    "first",
    "second",
    "wins",
    "losses",
    "ties",
    "win",
    "median",
    "low",
    "high",
    "wilcoxon",
    "reason",
]
# Reasons why there is no signed-rank test.
FEW, EQUAL = "fewer than six differences have no signed-rank test", "all differences are zero"
# Mark of the scores of a model that predicts one class only on some split.
ONE_CLASS_MARK = "†"


def certificates_requested(rows: pd.DataFrame) -> pd.Series[int]:
    """Return of how many fits of each task certificates were asked for: the final one, and those of
    the tuning that no batch solved.
    """
    return rows["tuning_fits"] - rows["tuning_batched"] + 1


class StudyTables:
    """Rows of a study with its tables and tests; :class:`svmcvx.experiments.Study` adds files and
    reports.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        protocol: Protocol,
        models: Mapping[str, str],
        grids: Mapping[str, str],
        datasets: Sequence[Mapping[str, Any]],
        left_out: Mapping[str, str],
        complete: bool,
        reused: int = 0,
        conventions: Mapping[str, str] | None = None,
    ) -> None:
        self.metrics = protocol.metrics
        self.protocol = protocol.described()
        self._guarantee = protocol.guarantee
        self.model_lines, self.grids = dict(models), dict(grids)
        self.models = tuple(models)
        self.conventions = {name: said for name, said in (conventions or {}).items() if said}
        self.datasets = pd.DataFrame(list(datasets))
        self.left_out = dict(left_out)
        self.complete, self.reused = complete, reused
        self.versions = versions()
        self.frame = self._framed(rows)
        self._right = pd.Series([row.get("right") for row in rows], dtype=object)

    def _framed(self, rows: Sequence[Row]) -> pd.DataFrame:
        place = FIELDS.index("scores")
        last = FIELDS.index("intervals") + 1
        suffixes = {False: (), True: ("",), "tuning": ("", "_tied")}[self._guarantee]
        known = [
            f"{name}{suffix}" for name in self.metrics if name in INTERVALS for suffix in suffixes
        ]
        ends = [f"{name}_{end}" for name in known for end in ("lower", "upper")]
        # Columns of results that were not requested would be empty.
        asked = {"undecided": bool(self._guarantee), "tied": self._guarantee == "tuning"}
        fields = [name for name in FIELDS[last:-1] if asked.get(name, True)]
        columns = (*FIELDS[:place], *self.metrics, *ends, *fields)
        flat = [{**row, **(row["scores"] or {}), **(row.get("intervals") or {})} for row in rows]
        frame = CertifiedTable(
            [{name: row.get(name) for name in columns} for row in flat], columns=list(columns)
        )
        numbers = [
            *self.metrics,
            *ends,
            *(["undecided"] if asked["undecided"] else []),
            "lower",
            "upper",
            "gap",
            "n_support",
            "tuning_seconds",
            "seconds",
        ]
        return frame.astype(dict.fromkeys(numbers, float))

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        return (
            f"{type(self).__name__}({len(self.models)} models, {len(self.datasets)} data sets,"
            f" {len(self.frame)} tasks{state})"
        )

    # Tables

    def _metric(self, metric: str | None) -> str:
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise DataError(f"metric must be one of {', '.join(self.metrics)}, got {metric!r}")
        return metric

    def _by_set(self, column: pd.Series) -> Any:
        return column.groupby([self.frame["dataset"], self.frame["model"]], sort=False)

    def _ordered(self, values: pd.Series) -> pd.DataFrame:
        names = list(self.datasets["dataset"])
        table = values.unstack("model").reindex(  # noqa: PD010 - nothing to aggregate
            index=names, columns=list(self.models)
        )
        table.index.name, table.columns.name = "dataset", None
        return table

    def mean(self, metric: str | None = None) -> pd.DataFrame:
        """Return mean scores, a row a data set and a column a model; NaN if a task failed or is
        missing.
        """
        return self._ordered(
            self._by_set(self.frame[self._metric(metric)]).agg(lambda x: x.mean(skipna=False))
        ).where(self._whole())

    def sd(self, metric: str | None = None) -> pd.DataFrame:
        """Return the standard deviations of the scores over the splits, with one degree of freedom
        less than splits.
        """
        column = self.frame[self._metric(metric)]
        return self._ordered(self._by_set(column).agg(lambda x: x.std(ddof=1, skipna=False))).where(
            self._whole()
        )

    def _whole(self) -> pd.DataFrame:
        """Return where all tasks are there: means of different splits cannot be compared."""
        counts = self._ordered(self._by_set(self.frame["status"]).size()).fillna(0)
        most = self.frame.groupby("dataset")[["repeat", "fold"]].apply(
            lambda part: len(part.drop_duplicates())
        )
        return counts.ge(most.reindex(counts.index).fillna(1), axis=0)

    def table(self, metric: str | None = None, digits: int = 3) -> pd.DataFrame:
        """Return mean ± standard deviation as text, with a last row of mean ranks; † marks models
        that predict one class only on some split.
        """
        mean, sd, marked = self.mean(metric), self.sd(metric), self.one_class()
        cells = {
            name: [
                _mean_sd(m, s, digits) + (f" {ONE_CLASS_MARK}" if mark else "")
                for m, s, mark in zip(mean[name], sd[name], marked[name], strict=True)
            ]
            for name in self.models
        }
        table = pd.DataFrame(cells, index=mean.index)
        table.loc["mean rank"] = [
            "—" if np.isnan(rank) else f"{rank:.2f}" for rank in self.ranks(metric).mean(axis=0)
        ]
        return table

    def ranks(self, metric: str | None = None) -> pd.DataFrame:
        """Return the rank of each model on each data set, 1 the best; of data sets on which all
        models have a score.
        """
        mean = self.mean(metric).dropna()
        return pd.DataFrame(statistics.ranks_by_block(mean), index=mean.index, columns=mean.columns)

    def exact(self, metric: str | None = None) -> pd.DataFrame:
        """Return the mean over the splits of the intervals of the scores of every optimal machine,
        as text.
        """
        name = self._metric(metric)
        if not self._guarantee:
            raise DataError(
                "this study was not asked what every optimal machine scores; pass guarantee=True to"
                " study"
            )
        if name not in INTERVALS:
            raise DataError(f"there are intervals of {', '.join(INTERVALS)}, not of {name}")
        means = [
            self._ordered(
                self._by_set(self.frame[f"{name}_{end}"]).agg(lambda x: x.mean(skipna=False))
            ).where(self._whole())
            for end in ("lower", "upper")
        ]
        cells = {
            model: [
                interval_text(*pair) for pair in zip(*(mean[model] for mean in means), strict=True)
            ]
            for model in self.models
        }
        return pd.DataFrame(cells, index=means[0].index)

    def with_exact(self) -> list[str]:
        """Return the metrics for which some task has an interval of every optimal machine."""
        known = [name for name in self.metrics if name in INTERVALS] if self._guarantee else []
        return [name for name in known if self.frame[f"{name}_lower"].notna().any()]

    def undecided(self) -> pd.DataFrame:
        """Return the mean share of test rows whose label is not proved, by data set and model."""
        return self._ordered(
            self._by_set(self.frame["undecided"]).agg(lambda x: x.mean(skipna=False))
        )

    def without_exact(self) -> dict[str, str]:
        """Return why tasks have no intervals, by the model."""
        notes = self.frame[self.frame["note"].fillna("").str.contains("no guarantee|no interval")]
        return {
            str(model): "; ".join(part.unique())
            for model, part in notes.groupby("model", sort=False)["note"]
        }

    def _certifying(self) -> pd.DataFrame:
        """Return the rows of the models that give certificates, as far as any of them has been
        fitted.
        """
        fitted = self.frame[self.frame["status"] == FOREIGN]
        without = fitted.loc[fitted["certified"].isna(), "model"].unique()
        return self._with_own_tuning(self.frame[~self.frame["model"].isin(without)])

    @staticmethod
    def _with_own_tuning(rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows with the fits of the tuning that could have a certificate: those of other
        packages' models have none.
        """
        own = rows["status"] != FOREIGN
        return rows.assign(
            tuning_fits=rows["tuning_fits"].where(own, 0),
            tuning_certified=rows["tuning_certified"].where(own, 0),
        )

    def certified(self) -> pd.DataFrame:
        """Return the share of certified solves, of the final fits and those of the tuning together,
        by data set and model.
        """
        rows = self._certifying()
        by_set = [rows["dataset"], rows["model"]]
        solved = (rows["tuning_certified"] + rows["certified"].astype(int)).groupby(by_set).sum()
        return self._ordered(solved / certificates_requested(rows).groupby(by_set).sum())

    def contents(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "complete": self.complete,
            "data": self.datasets.to_dict("records"),
            "protocol": self.protocol,
            "models": self.model_lines,
            "grids": self.grids,
            "left_out": self.left_out,
            "reused": self.reused,
            "rows": self.frame.to_dict("records"),
        }

    def data_facts(self) -> list[dict[str, Any]]:
        """Return size, split and digest of each data set."""
        facts: list[Any] = self.datasets.to_dict("records")
        return facts

    def solves(self) -> tuple[int, int]:
        """Return how many solves are certified, and of how many certificates were asked for, of the
        models that give them.
        """
        rows = self._certifying()
        return (
            int((rows["tuning_certified"] + rows["certified"].astype(int)).sum()),
            int(certificates_requested(rows).sum()),
        )

    def seconds(self) -> pd.DataFrame:
        """Return mean seconds of a task, with its tuning, by data set and model."""
        return self._ordered(self._by_set(self.frame["seconds"]).mean())

    def one_class(self) -> pd.DataFrame:
        """Return whether a model predicts one class only on some split, by data set and model."""
        notes = self.frame["note"].fillna("").str.contains(ONE_CLASS, regex=False)
        return self._ordered(self._by_set(notes).any()).eq(True)  # missing tasks predict nothing

    def leaders(self, metric: str | None = None, digits: int = 3) -> pd.DataFrame:
        """Return which scores are the best of their data set, as printed, or not told from it by
        the corrected t-test at 0.05.
        """
        name = self._metric(metric)
        mean = self.mean(name)
        best = mean.round(digits).eq(mean.round(digits).max(axis=1), axis=0)
        paired = self.paired(name)
        rows = paired[paired["corrected_t"] >= statistics.LEVEL]
        pairs = zip(rows["dataset"], rows["first"], rows["second"], strict=True)
        tied = {(dataset, frozenset(pair)) for dataset, *pair in pairs}
        for dataset in mean.index[mean.notna().any(axis=1)]:
            leader = mean.loc[dataset].idxmax()
            best.loc[dataset] |= np.array(
                [(dataset, frozenset((model, leader))) in tied for model in mean.columns]
            )
        return best

    def single_class(self) -> dict[str, int]:
        """Return the numbers of tasks whose model predicts one class only for its test part, by
        model.
        """
        notes = self.frame["note"].fillna("").str.contains(ONE_CLASS, regex=False)
        return {
            str(name): int(count)
            for name, count in self.frame.loc[notes, "model"].value_counts(sort=False).items()
        }

    def notes(self) -> list[str]:
        """Return what a reader of the tables has to know: the conventions of the models, and those
        that predict one class only.
        """
        by_words: dict[str, list[str]] = {}
        for name, said in self.conventions.items():
            by_words.setdefault(said, []).append(name)
        found = [f"{', '.join(names)}: {said}." for said, names in by_words.items()]
        tasks = self.frame["model"].value_counts()
        found += [
            f"{name} predicts one class only in {count} of {tasks[name]} tasks."
            for name, count in self.single_class().items()
        ]
        return found

    def failures(self) -> pd.DataFrame:
        """Return the rows of the tasks that failed."""
        return self.frame.loc[
            self.frame["status"] == FAILED, ["dataset", "model", "repeat", "fold", "note"]
        ]

    # Tests

    def _differences(self, metric: str) -> Iterator[tuple[str, str, str, Any, float]]:
        """Yield data set, two models, the differences of their scores by split, and test rows for
        one training row.
        """
        for dataset in self.datasets["dataset"]:
            part = self.frame[self.frame["dataset"] == dataset]
            scores = part.pivot_table(metric, ["repeat", "fold"], "model", dropna=False).reindex(
                columns=list(self.models)
            )
            ratio = float((part["n_test"] / part["n_train"]).mean()) if len(part) else 0.0
            for first, second in combinations(self.models, 2):
                yield (
                    dataset,
                    first,
                    second,
                    (scores[first] - scores[second]).dropna().to_numpy(),
                    ratio,
                )

    def paired(self, metric: str | None = None) -> pd.DataFrame:
        """Compare every pair of models on every data set, over its splits."""
        rows, name = [], self._metric(metric)
        for dataset, first, second, difference, ratio in self._differences(name):
            size = statistics.effect(difference, ratio)
            single = name == "accuracy" and difference.size == 1
            reason = size.reason or (FEW if difference.size < statistics.LEAST_RANKED else "")
            rows.append(
                {
                    "dataset": dataset,
                    "first": first,
                    "second": second,
                    "splits": difference.size,
                    "difference": size.mean,
                    "low": size.low,
                    "high": size.high,
                    "median": size.median,
                    "win": size.win,
                    "detectable": size.detectable,
                    "t": statistics.paired_t(difference),
                    "corrected_t": statistics.corrected_t(difference, ratio),
                    "wilcoxon": statistics.wilcoxon(difference),
                    "mcnemar": self._mcnemar(dataset, first, second) if single else np.nan,
                    "reason": reason,
                }
            )
        table = pd.DataFrame(rows, columns=PAIRED)
        table.insert(
            PAIRED.index("corrected_t") + 1, "corrected_holm", statistics.holm(table["corrected_t"])
        )
        return table

    def _mcnemar(self, dataset: str, first: str, second: str) -> float:
        """Return the p-value of McNemar's test on the rows of the one split of a data set; NaN if
        they are not known.
        """
        part = self.frame[self.frame["dataset"] == dataset]
        known = [
            self._right[part.index[part["model"] == name]].dropna() for name in (first, second)
        ]
        if any(right.size != 1 for right in known):
            return np.nan
        hits = [
            np.unpackbits(np.frombuffer(bytes.fromhex(right.iloc[0]), dtype=np.uint8))
            for right in known
        ]
        return statistics.mcnemar(np.ones(hits[0].size), *hits)

    def overall(self, metric: str | None = None, control: str | None = None) -> pd.DataFrame:
        """Compare every pair of models over the data sets, by the signed-rank test on mean scores."""
        mean = self.mean(metric)
        if control is not None and control not in self.models:
            raise DataError(f"control must be one of {', '.join(self.models)}, got {control!r}")
        pairs = (
            combinations(self.models, 2)
            if control is None
            else ((m, control) for m in self.models if m != control)
        )
        rows = []
        for first, second in pairs:
            # Equal scores may have means that differ by rounding.
            difference = (mean[first] - mean[second]).dropna().to_numpy().round(12)
            size = statistics.effect(difference, 0.0)
            low, high = statistics.median_interval(difference)
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "wins": int((difference > 0).sum()),
                    "losses": int((difference < 0).sum()),
                    "ties": int((difference == 0).sum()),
                    "win": size.win,
                    "median": size.median,
                    "low": low,
                    "high": high,
                    "wilcoxon": statistics.wilcoxon(difference),
                    "reason": (
                        FEW
                        if difference.size < statistics.LEAST_RANKED
                        else ""
                        if difference.any()
                        else EQUAL
                    ),
                }
            )
        table = pd.DataFrame(rows, columns=OVERALL)
        table.insert(OVERALL.index("wilcoxon") + 1, "holm", statistics.holm(table["wilcoxon"]))
        return table

    def bayes(self, rope: float = 0.01, metric: str | None = None) -> pd.DataFrame:
        """Return the probabilities that models differ by more than a region of practical
        equivalence [Benavoli].
        """
        name = self._metric(metric)
        check_number(rope, "rope", low=0)
        rows: list[dict[str, Any]] = []
        for dataset, first, second, difference, ratio in self._differences(name):
            found = statistics.correlated_t(difference, ratio, rope)
            reason = statistics.effect(difference, ratio).reason
            rows.append(_posterior_row(dataset, first, second, found, reason))
        mean = self.mean(name)
        for first, second in combinations(self.models, 2):
            difference = (mean[first] - mean[second]).dropna().to_numpy()
            found = statistics.bayesian_signed_rank(difference, rope)
            reason = (
                "" if difference.size > 1 else "fewer than two data sets on which both have a score"
            )
            rows.append(_posterior_row("(all)", first, second, found, reason))
        return pd.DataFrame(
            rows, columns=["dataset", "first", "second", "p_first", "p_equal", "p_second", "reason"]
        )

    def friedman(self, metric: str | None = None, alpha: float = 0.05) -> Friedman | None:
        """Return Friedman's test over the data sets; None for fewer than three models or two data
        sets.
        """
        check_number(alpha, "alpha", low=0, high=1, open_low=True, open_high=True)
        return statistics.friedman(self.mean(metric), alpha)

    def ranked(self, metric: str | None = None) -> Friedman:
        """Return Friedman's test for the diagram of mean ranks."""
        test = self.friedman(metric)
        if test is None:
            raise DataError(
                "a critical-difference diagram needs three models and two data sets with all their"
                " scores"
            )
        return test

    def _batched(self) -> str:
        """Return the part of a sentence on the fits of the tuning without certificates, if there
        are any.
        """
        count = int(self.frame["tuning_batched"].sum())
        return (
            f", and {count} more, which served to choose hyper-parameters, to the solvers'"
            " tolerance"
            if count
            else ""
        )

    def methods(self) -> str:
        """Return a paragraph on data, protocol and tests for a publication, with citations in
        brackets.
        """
        certified, solves = self.solves()
        protocol = "; ".join(f"{name}: {value}" for name, value in self.protocol.items())
        single = (self.frame.groupby(["dataset", "model"]).size() == 1).all()
        test = (
            "McNemar's exact test on the rows of the one test part"
            if single
            else (
                "the corrected resampled t-test, which allows for overlapping training parts"
                " [Nadeau]"
            )
        )
        return (
            f"{len(self.models)} models were compared on {len(self.datasets)} data sets"
            f" ({protocol}). Of {solves} training problems {certified} were solved to a certified"
            f" duality gap{self._batched()}. On each data set, differences were tested by {test},"
            " and over the data sets by Wilcoxon's signed-rank test with Holm's adjustment, the"
            " ranks of zero differences split, and by Friedman's test with Nemenyi's critical"
            " difference [Demsar]. Probabilities of practical equivalence are those of the"
            " Bayesian correlated t-test and signed-rank test [Benavoli]. Computed with svmcvx"
            f" {self.versions['svmcvx']}."
        )


def _mean_sd(mean: float, sd: float, digits: int) -> str:
    if np.isnan(mean):
        return "—"
    return f"{mean:.{digits}f}" if np.isnan(sd) else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def _posterior_row(
    dataset: str, first: str, second: str, found: statistics.Posterior, reason: str
) -> dict[str, Any]:
    probabilities = {"p_first": found.first, "p_equal": found.equal, "p_second": found.second}
    return {"dataset": dataset, "first": first, "second": second, **probabilities, "reason": reason}
