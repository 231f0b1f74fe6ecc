"""The tables of the ODM paper [ZhangZhou]."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from benchmarks.papers.published import published
from benchmarks.papers.result import (
    EXACT,
    TESTED,
    Reproduction,
    Run,
    every_kth,
    mean_exact,
    mean_noise,
    over_splits,
    significant,
    words,
)
from svmcvx import ODMClassifier, ODMLClassifier, PSVMClassifier
from svmcvx.data import Features
from svmcvx.datasets import Dataset, known_sets, load
from svmcvx.errors import SvmcvxError
from svmcvx.experiments import Split, Study, study
from svmcvx.experiments.statistics import wilcoxon

Floats: TypeAlias = NDArray[np.float64]

SPLIT = Split(0.5, stratify=False)
# These are printed with 232 observations, as many as the votes have complete rows.
VOTES = "house-votes, complete rows"
# The sets, by how the tables print them. Other sets have the same names.
SOURCES = {
    "austra": "australian",
    "breast": "breast-cancer-ljubljana",
    "credit-g": "german",
    "heart": "heart-statlog",
    "heart-c": "heart-cleveland",
    "liverDisorders": "liver-disorders",
    "isolet": "isolet-binary",
    "colic.ORIG": "colic-orig",
    # 435 observations, the number that is printed, are those of saab and bus alone.
    "vehicle": "vehicle:2-3",
    "adult-a": "a9a",
    "mini-boo-ne": "miniboone",
}
SOURCES |= dict.fromkeys(("house", "vote"), VOTES)
# A part that takes little time: small sets, a coarser grid of hyper-parameters, few splits.
QUICK_SETS = ("hepatitis", "planning", "parkinsons", "sonar", "heart-statlog", "haberman")
QUICK_LARGE = ("cod-rna",)
QUICK_REPEATS, QUICK_EVERY = 5, 5
# The spread of fewer splits than this is too uncertain to judge by.
FEW = 5

COSTS = [10.0, 50.0, 100.0]
SMALL = [2.0**k for k in range(-8, -1)]
LARGE = [2.0**k for k in range(11)]
BANDS = np.linspace(0.0, 0.5, 6).tolist()
WIDTHS = [2.0**k for k in range(-2, 3)]

# The SVM of other packages, with its free intercept and the sum of its losses; that of the paper's
# Eq. (2) has no intercept and averages them.
USUAL = "svm, usual"
# The paired t-test is the paper's.
TESTS = {"_against_svm": ("_t", False), "_corrected": ("_corrected_t", True)}
TESTS_OF_USUAL = {
    "_against_usual": ("_usual_t", False),
    "_usual_corrected": ("_usual_corrected_t", True),
}

# The readings of the paper, and what the names of the models of a study end in by them.
READINGS = {"as_written": "", "as_summed": ", summed"}
SHOWN = words(
    "dataset method published published_sd published_against_svm as_written as_written_exact "
    "as_written_difference as_written_within_noise as_written_against_svm "
    "as_written_against_usual as_summed as_summed_exact as_summed_difference "
    "as_summed_within_noise as_summed_against_svm"
)


class SummedODMClassifier(ODMClassifier):
    """ODM with the sum of its losses in place of their mean: C1 and C2 times the number of
    observations.
    """

    def _request(self, data: Any) -> Any:
        n = len(data.labels)
        return _changed(super()._request(data), C1=self.C1 * n, C2=self.C2 * n)


class SummedODMLClassifier(ODMLClassifier):
    """ODML with the sum of its hinge losses in place of their mean. Without its two terms it is the
    SVM without intercept.
    """

    def _request(self, data: Any) -> Any:
        return _changed(super()._request(data), C=self.C * len(data.labels))


def _changed(request: Any, **settings: float) -> Any:
    return replace(request, settings={**request.settings, **settings})


class UnitMeanDistance(TransformerMixin, BaseEstimator):
    """Divides all features by the mean distance between two rows of the training part, the unit of
    the paper's kernel widths.
    """

    mean_distance_: float

    def fit(self, X: Features, y: Any = None) -> UnitMeanDistance:
        """Take the mean over all pairs of rows; 1 if all rows are equal."""
        self.mean_distance_ = float(pdist(X).mean()) or 1.0
        return self

    def transform(self, X: Features) -> Any:
        """Return the features in this unit."""
        return X / self.mean_distance_


def dense(X: Any) -> Any:
    """Return an array of what may be a sparse matrix."""
    return X.toarray() if issparse(X) else X


class _Table(NamedTuple):
    """What differs from table to table."""

    number: int
    kernel: bool
    published: str
    repeats: int
    quick_sets: tuple[str, ...]
    # Seconds for a fit.
    limit: float | None = None

    @property
    def title(self) -> str:
        kind = (
            "linear, large sets"
            if self.number == 4
            else "Gaussian kernel"
            if self.kernel
            else "linear"
        )
        return f"ODM, Table {self.number} ({kind})"


def table2(run: Run) -> Reproduction:
    """Compute Table 2: linear machines on the regular sets."""
    return _computed(_Table(2, False, "odm_table2_linear", 30, QUICK_SETS), run)


def table3(run: Run) -> Reproduction:
    """Compute Table 3: machines with a Gaussian kernel on the regular sets."""
    return _computed(_Table(3, True, "odm_table3_rbf", 30, QUICK_SETS), run)


def table4(run: Run) -> Reproduction:
    """Compute Table 4: linear machines on the large sets."""
    return _computed(_Table(4, False, "odm_table4_large", 10, QUICK_LARGE, 120.0), run)


def _computed(table: _Table, run: Run) -> Reproduction:
    printed: Any = published(table.published).set_index("dataset")
    names = run.chosen(table.quick_sets if run.quick and run.sets is None else printed.index)
    repeats = run.repetitions(table.repeats, QUICK_REPEATS)
    every = run.every or (QUICK_EVERY if run.quick else 1)
    machines, grids = (
        models(kernel=table.kernel, limit=table.limit),
        _grids(every, kernel=table.kernel),
    )
    tune = {name: grid for name, grid in grids.items() if max(map(len, grid.values())) > 1}
    for name in grids.keys() - tune.keys():
        machines[name].set_params(**{key: value for key, (value,) in grids[name].items()})
    # Several printed sets are the same observations.
    sources = {name: SOURCES.get(name, name) for name in names}
    loaded, left_out = available_sets(sources.values(), run)
    found = study(
        machines,
        loaded,
        repeats=repeats,
        split=SPLIT,
        tune=tune,
        cv=5,
        scale="minmax",
        missing="drop",
        guarantee=True,
        **run.options,
    )
    found.left_out |= left_out
    for source in found.left_out:
        if (record := known_sets().get(source)) is not None and record.unavailable:
            found.left_out[source] = record.unavailable
    marks: Any = published("odm_against_svm")
    marks = marks[marks["table"] == table.number].set_index("dataset")
    methods = (
        ("svm", USUAL, "odml", "odm") if table.kernel else ("svm", USUAL, "lda", "odml", "odm")
    )
    frame = pd.DataFrame(
        [
            _row(found, name, sources[name], method, table, printed, marks)
            for name in names
            for method in methods
        ]
    )
    # Sets that are the same observations count once.
    once = frame[frame["as_written"].notna()].assign(
        source=lambda rows: rows["dataset"].map(sources)
    )
    once = once.drop_duplicates(["source", "method"])
    notes = (
        (
            f"Mean accuracy and its standard deviation over {repeats} random halves (the paper:"
            f" {table.repeats}), not stratified; hyper-parameters by 5-fold cross-validation on the"
            " training half, which also scales the columns to [0, 1]; rows with missing values are"
            " dropped, as the printed numbers of observations say."
        ),
        f"Grids: {'; '.join(f'{name}: {_sizes(grids[name])}' for name in ('svm', 'odml', 'odm'))}"
        + ("" if every == 1 else f" (one value of {every}; a single one is not tuned)")
        + ("." if table.limit is None else f"; {table.limit:g} seconds for a fit."),
        "As written: no machine has an intercept, and losses are averaged, as in the paper's Eq."
        f" (2) of the SVM and those of ODML and ODM. {USUAL}: that of other packages, with a free"
        " intercept and summed losses, beside the printed SVM. "
        + (
            "The kernel is exp(−‖x − x'‖² / (2 width²)). LDA with a kernel is not computed."
            if table.kernel
            else (
                "Summed: no machine has an intercept, and losses are summed. lda is scikit-learn's."
            )
        ),
        (
            "Noise: two standard errors of the difference of two means over independent splits of"
            f" the same data; fewer than {FEW} splits have the printed spread."
        ),
        EXACT,
        (
            "Against svm: significant at 95 % by the paired t-test, as in the paper; corrected: by"
            " the corrected resampled t-test."
        ),
        TESTED,
        *(
            sentence
            for method in ("odml", "odm")
            for sentence in (_tally(once, method), _over_sets(once, method))
        ),
    )
    return Reproduction(f"odm-table{table.number}", table.title, frame, SHOWN, notes, found)


def models(*, kernel: bool, limit: float | None = None) -> dict[str, Any]:
    """Return the machines of the tables, by method and reading; with a kernel those of the first
    reading alone.
    """
    if kernel:
        machines = {
            "svm": ODMLClassifier(C=1.0, lam1=0.0, lam2=0.0, intercept=False),
            USUAL: PSVMClassifier(),
            "odml": ODMLClassifier(C=1.0, intercept=False),
            "odm": ODMClassifier(C1=1.0, C2=1.0, intercept=False),
        }
        return {
            name: Pipeline(
                [
                    ("scale", MinMaxScaler()),
                    ("distance", UnitMeanDistance()),
                    ("model", machine.set_params(kernel="rbf", solver="fast")),
                ]
            )
            for name, machine in machines.items()
        }
    shared: dict[str, Any] = {"solver": "fast", "time_limit": limit}
    # As the paper states them.
    without: dict[str, Any] = {"intercept": False, **shared}
    return {
        "svm": ODMLClassifier(C=1.0, lam1=0.0, lam2=0.0, **without),
        USUAL: PSVMClassifier(**shared),
        "lda": Pipeline(
            [
                ("dense", FunctionTransformer(dense)),
                ("scale", MinMaxScaler()),
                ("model", LinearDiscriminantAnalysis()),
            ]
        ),
        "odml": ODMLClassifier(C=1.0, **without),
        "odm": ODMClassifier(C1=1.0, C2=1.0, **without),
        "svm, summed": SummedODMLClassifier(C=1.0, lam1=0.0, lam2=0.0, **without),
        "odml, summed": SummedODMLClassifier(C=1.0, **without),
        "odm, summed": SummedODMClassifier(C1=1.0, C2=1.0, **without),
    }


def _grids(every: int, *, kernel: bool) -> dict[str, dict[str, list[float]]]:
    """Return the grids of the paper, every_kth, by model."""
    small, large = every_kth(SMALL, every), every_kth(LARGE, every)
    grids: dict[str, dict[str, list[float]]] = {
        "svm": {"C": COSTS},
        "odml": {"C": COSTS, "lam1": small, "lam2": small},
        "odm": {"C1": large, "C2": large, "D": every_kth(BANDS, every)},
    }
    if not kernel:
        return {
            f"{name}{reading}": grid
            for name, grid in grids.items()
            for reading in READINGS.values()
        } | {USUAL: {"C": COSTS}}
    # exp(−‖x − x'‖² / (2 width²)); one width alone would be no choice.
    gammas = [1.0 / (2.0 * width**2) for width in every_kth(WIDTHS, min(every, 2))]
    return {
        name: {f"model__{key}": values for key, values in {**grid, "gamma": gammas}.items()}
        for name, grid in {**grids, USUAL: {"C": COSTS}}.items()
    }


def _sizes(grid: Mapping[str, list[float]]) -> str:
    return " × ".join(
        f"{len(values)} {name.removeprefix('model__')}" for name, values in grid.items()
    )


def available_sets(sources: Iterable[str], run: Run) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the data sets by their names, and why others are not available."""
    found: dict[str, Any] = {source: source for source in sources}
    if VOTES not in found:
        return found, {}
    try:
        votes = load("house-votes", run.options.get("data_dir"))
    except (SvmcvxError, OSError) as error:
        del found[VOTES]
        return found, {VOTES: " ".join(str(error).split())}
    whole = (np.asarray(votes.X) != 0).all(axis=1)
    return found | {VOTES: Dataset(VOTES, votes.X[whole], votes.y[whole])}, {}


def _row(
    found: Study, dataset: str, source: str, method: str, table: _Table, printed: Any, marks: Any
) -> dict[str, Any]:
    """Return a printed number and ours."""
    column = method.removesuffix(", usual")
    mean, sd = (float(printed.loc[dataset, f"{column}_{part}"]) for part in ("mean", "std"))
    row = {"dataset": dataset, "method": method, "published": mean, "published_sd": sd}
    row["published_against_svm"] = "" if column == "svm" else marks.loc[dataset, method]
    frame = found.frame[found.frame["dataset"] == source]
    for what, suffix in READINGS.items():
        if f"{method}{suffix}" not in found.models:
            continue
        part = frame[frame["model"] == f"{method}{suffix}"].sort_values("repeat")
        scores = part["accuracy"].to_numpy(dtype=np.float64)
        if not scores.size or np.isnan(scores).any():
            notes = ", ".join(sorted({note for note in part["note"] if note}))
            row |= {what: math.nan, f"{what}_note": notes or found.left_out.get(source, "missing")}
            continue
        values = _compared(part, scores, mean, sd, table.repeats)
        if method != "svm":
            values |= over_splits(part, frame[frame["model"] == f"svm{suffix}"], "svm", TESTS)
        if method in ("odml", "odm") and not suffix:
            values |= over_splits(part, frame[frame["model"] == USUAL], "usual", TESTS_OF_USUAL)
        row |= {f"{what}{name}": value for name, value in values.items()}
    return row


def _compared(
    part: pd.DataFrame, scores: Floats, mean: float, sd: float, repeats: int
) -> dict[str, Any]:
    ours, spread = float(scores.mean()), float(scores.std(ddof=1)) if scores.size > 1 else math.nan
    noise = mean_noise(sd, repeats, spread if scores.size >= FEW else sd, scores.size)
    without = part["certified"].isna().any()
    certified = (
        0 if without else int((part["tuning_certified"] + part["certified"].astype(int)).sum())
    )
    return {
        "": round(ours, 3),
        "_sd": round(spread, 3),
        "_difference": round(ours - mean, 3) + 0.0,
        "_noise": round(noise, 3),
        "_within_noise": math.nan if math.isnan(noise) else bool(abs(ours - mean) <= noise),
        "_splits": scores.size,
        "_certified": "" if without else f"{certified}/{int((part['tuning_fits'] + 1).sum())}",
        "_seconds": round(float(part["seconds"].sum()), 2),
        **mean_exact("", part),
    }


def _tally(frame: pd.DataFrame, method: str) -> str:
    """Say on how many sets a method is better than the SVM, no different, or worse."""
    part = frame[frame["method"] == method]

    def counts(column: str) -> str:
        values = list(part[column]) if column in part else []
        return "/".join(str(values.count(outcome)) for outcome in ("better", "tie", "worse"))

    ours = "; ".join(
        f"{said} {counts(plain)} by the paired t-test, {counts(corrected)} by the corrected one"
        for said, plain, corrected in (
            ("as written", "as_written_against_svm", "as_written_corrected"),
            (f"against {USUAL}", "as_written_against_usual", "as_written_usual_corrected"),
            ("summed", "as_summed_against_svm", "as_summed_corrected"),
        )
        if plain in part
    )
    return (
        f"{method} against svm, better/tie/worse: {ours}; the paper on the same {len(part)} sets"
        f" {counts('published_against_svm')}."
    )


def _over_sets(frame: pd.DataFrame, method: str) -> str:
    """Say whether a method is better than the SVM over the data sets."""
    once = frame.set_index(["source", "method"])
    printed = once["published"].unstack("method")  # noqa: PD010 - nothing to aggregate
    ours: Any = once.xs(method, level="method")

    def test(difference: Any) -> str:
        # Differences of numbers with three digits are equal where they look so.
        known = difference.dropna().to_numpy(dtype=np.float64).round(6)
        above, below = int((known > 0).sum()), int((known < 0).sum())
        p_value = wilcoxon(known)
        said = "no p-value" if math.isnan(p_value) else f"p = {significant(p_value):g}"
        return f"mean {known.mean():+.4f}, {above} sets above and {below} below, {said}"

    found = {"printed": test(printed[method] - printed["svm"])}
    for what, column in (
        ("as written", "as_written_less_svm"),
        (f"against {USUAL}", "as_written_less_usual"),
        ("summed", "as_summed_less_svm"),
    ):
        if column in ours:
            found[what] = test(ours[column])
    return (
        f"{method} less svm over {once.index.get_level_values('source').nunique()} different sets,"
        " Wilcoxon's signed-rank test on the means: "
        + "; ".join(f"{what}: {said}" for what, said in found.items())
        + "."
    )
