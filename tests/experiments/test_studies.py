"""Studies: tasks, resuming, failures, tables, files."""

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.datasets import Dataset
from svmcvx.experiments import Split
from svmcvx.experiments.store import Store
from svmcvx.experiments.tables import escaped
from svmcvx.system import clock
from tests.conftest import make_data
from tests.experiments.misbehaving import Broken
from tests.experiments.test_experiments import encoding, raw_table
from tests.system.test_deadline import Ticking

FAST = {"solver": "fast"}
MODELS = {
    "hinge": sx.PSVMClassifier(**FAST),
    "squared": sx.PSVMClassifier(p=2.0, **FAST),
    "ridge": RidgeClassifier(),
}
SETS = {
    name: make_data(seed=k, n=50, overlap=1.5) for k, name in enumerate(("one", "two", "three"))
}
TUNE = {"C": [0.1, 1.0]}
TIMES = ["seconds", "tuning_seconds"]


def same(found, other):
    pd.testing.assert_frame_equal(found.frame.drop(columns=TIMES), other.frame.drop(columns=TIMES))


@pytest.fixture(scope="module")
def study():
    return sx.study(
        MODELS, SETS, repeats=3, tune=TUNE, cv=2, metrics=("accuracy", "balanced_accuracy")
    )


def test_a_study_prints_its_table(study):
    lines = repr(study).splitlines()
    assert lines[0] == "Study(3 models, 3 data sets, 27 tasks)"
    assert lines[1].split() == ["accuracy", *MODELS]
    assert lines[2].split() == ["one", *" ".join(study.table().loc["one"]).split()]
    assert "ridge: no grid: fitted as given." in lines


# What a task does


def test_a_row_is_what_the_steps_by_hand_give(study):
    (X, y), repeat = SETS["two"], 2
    train, test = train_test_split(np.arange(50), test_size=0.3, random_state=repeat, stratify=y)
    scaler = StandardScaler().fit(X[train])
    table = sx.select(
        make_pipeline(StandardScaler(), MODELS["squared"]),
        {"psvmclassifier__C": TUNE["C"]},
        X[train],
        y[train],
        cv=StratifiedKFold(2, shuffle=True, random_state=repeat),
    )
    chosen = table.best_params_["psvmclassifier__C"]
    alone = clone(MODELS["squared"]).set_params(C=chosen).fit(scaler.transform(X[train]), y[train])
    asked = f"dataset == 'two' and model == 'squared' and repeat == {repeat}"
    (row,) = study.frame.query(asked).to_dict("records")
    assert row["params"] == {"C": chosen}
    assert row["accuracy"] == alone.score(scaler.transform(X[test]), y[test])
    counts = ("n_train", "n_test", "tuning_fits", "tuning_certified")
    assert [row[name] for name in counts] == [35, 15, 4, 4]
    assert row["certified"]
    assert row["lower"] <= alone.certificate_.upper
    assert alone.certificate_.lower <= row["upper"]


def test_rows_are_in_order_and_complete(study):
    assert study.complete
    keys = study.frame[["repeat", "dataset", "model"]].to_records(index=False).tolist()
    assert keys == [(r, d, m) for r in range(3) for d in SETS for m in study.models]
    ridge = study.frame[study.frame["model"] == "ridge"]
    assert (ridge["tuning_fits"] == 0).all(), "it has no C"
    assert not ridge["certified"].any()


def test_tables_are_what_pandas_makes_of_the_rows(study):
    scores = study.frame.groupby(["dataset", "model"])["accuracy"].agg(["mean", "std"])
    for found, how in ((study.mean(), "mean"), (study.sd(), "std")):
        for dataset, model in scores.index:
            assert found.loc[dataset, model] == pytest.approx(scores.loc[(dataset, model), how])
    np.testing.assert_array_equal(study.ranks(), stats.rankdata(-study.mean(), axis=1))
    assert study.table().index.tolist() == [*SETS, "mean rank"]
    assert re.fullmatch(r"0\.\d{3} ± 0\.\d{3}", study.table().loc["one", "hinge"])
    assert (study.certified()[["hinge", "squared"]] == 1).all(axis=None)
    assert study.certified()["ridge"].isna().all(), "it gives no certificates"
    assert study.solves() == (90, 90)


def test_tests_are_those_of_scipy(study):
    paired = study.paired("balanced_accuracy")
    assert len(paired) == 9
    for row in paired.to_dict("records"):
        part = study.frame[study.frame["dataset"] == row["dataset"]].set_index(["model", "repeat"])
        pair = (part.loc[row[k], "balanced_accuracy"].to_numpy() for k in ("first", "second"))
        first, second = pair
        assert row["difference"] == pytest.approx((first - second).mean())
        if np.ptp(first - second) > 0:
            t = (first - second).mean() / ((first - second).std(ddof=1) * np.sqrt(1 / 3 + 15 / 35))
            assert row["corrected_t"] == pytest.approx(2 * stats.t.sf(abs(t), 2))
    means, overall = study.mean(), study.overall().set_index(["first", "second"])
    signs = np.sign(means["hinge"] - means["squared"])
    for name, sign in (("wins", 1), ("ties", 0), ("losses", -1)):
        assert overall.loc[("hinge", "squared"), name] == (signs == sign).sum()
    assert study.friedman().blocks == 3
    against = study.overall(control="ridge")[["first", "second"]]
    assert against.to_numpy().tolist() == [["hinge", "ridge"], ["squared", "ridge"]]
    with pytest.raises(sx.DataError, match="control must be one of 'hinge', 'squared', 'ridge'"):
        study.overall(control="forest")
    with pytest.raises(sx.DataError, match="metric must be one of 'accuracy', 'balanced_accuracy'"):
        study.mean("f1")
    paired = study.paired()
    assert (paired["reason"].ne("") == paired["corrected_t"].isna()).all()


def test_the_best_and_what_is_not_told_from_it(study):
    best, paired = study.leaders(), study.paired()
    paired = paired.set_index(["dataset", "first", "second"])["corrected_t"]
    for dataset in SETS:
        mean = study.mean().loc[dataset]
        for model in MODELS:
            leader = mean.idxmax()
            pair = [(dataset, model, leader), (dataset, leader, model)]
            p = next((paired[key] for key in pair if key in paired.index), np.nan)
            near = round(mean[model], 3) == round(mean.max(), 3)
            assert best.loc[dataset, model] == (near or p >= 0.05)


# Protocols


def one(model, data, **keywords):
    return sx.study({"model": model}, {"set": data}, repeats=1, **keywords).frame.iloc[0]


def test_folds_of_a_cross_validation():
    X, y = SETS["one"]
    found = sx.study(
        {"knn": KNeighborsClassifier(3)}, {"one": (X, y)}, repeats=2, split=5, scale="none", seed=7
    )
    expected = [
        KNeighborsClassifier(3).fit(X[train], y[train]).score(X[test], y[test])
        for repeat in range(2)
        for train, test in StratifiedKFold(5, shuffle=True, random_state=7 + repeat).split(X, y)
    ]
    assert found.frame["accuracy"].tolist() == expected
    assert found.frame["fold"].tolist() == [*range(5)] * 2


@pytest.mark.parametrize(
    ("split", "tasks"), [({"one": 4}, [4, 1]), ({"one": 0.5, "default": 3}, [1, 3])]
)
def test_each_set_has_a_split_of_its_own_or_all_have_one(split, tasks):
    sets = {"one": SETS["one"], "two": SETS["one"]}
    found = sx.study({"knn": KNeighborsClassifier(3)}, sets, repeats=1, split=split, scale="none")
    assert found.complete, "two sets of one content have one key"
    assert [(found.frame["dataset"] == name).sum() for name in sets] == tasks


@pytest.mark.parametrize("scale_by", ["training", "all"])
def test_medians_and_scales_are_those_of_the_protocol(scale_by):
    X, y = SETS["one"]
    holes = X.copy()
    holes[::7, 1] = np.nan
    with pytest.raises(
        sx.DataError, match="8 values are missing, in column 1; pass missing='drop'"
    ):
        one(RidgeClassifier(), (holes, y))
    assert one(RidgeClassifier(), (holes, y), missing="drop")["n_train"] == 29
    split = Split(0.3, stratify=False)
    row = one(
        RidgeClassifier(), (holes, y), missing="median", scale_by=scale_by, seed=42, split=split
    )
    train, test = train_test_split(np.arange(50), test_size=0.3, random_state=42)
    rows = train if scale_by == "training" else slice(None)
    filled = np.where(np.isnan(holes), np.nanmedian(holes[rows], axis=0), holes)
    filled = StandardScaler().fit(filled[rows]).transform(filled)
    own = RidgeClassifier().fit(filled[train], y[train])
    assert row["accuracy"] == own.score(filled[test], y[test])


def test_sparse_data_and_labels_of_any_kind():
    X, y = SETS["one"]
    sparse = sp.csr_array(np.where(X > 0.3, X, 0.0))
    names = np.where(y > 0, "yes", "no")
    for scale in ("standard", "minmax"):
        found = sx.study(
            {"hinge": MODELS["hinge"]}, [Dataset("s", sparse, names)], repeats=1, scale=scale
        )
        assert found.frame["certified"].all()
        assert np.isfinite(found.mean().loc["s", "hinge"])


def test_pipelines_see_tables_with_text_and_missing_values_and_leave_proofs(tmp_path):
    frame, y = raw_table()
    models = {
        "squared": encoding(MODELS["squared"]),
        "svc": encoding(SVC(tol=1e-7)),
        "bare": MODELS["hinge"],
    }
    sets, store = {"raw": (frame, y)}, tmp_path / "s.sqlite"
    asked = {"repeats": 2, "tune": TUNE, "cv": 2, "store": store}
    sx.study(models, sets, **asked)
    found = sx.study(models, sets, proofs=tmp_path / "p", **asked)
    by_model = found.frame.set_index(["model", "repeat"])
    for repeat in (0, 1):
        train, test = train_test_split(
            np.arange(80), test_size=0.3, random_state=repeat, stratify=y
        )
        row = by_model.loc["squared", repeat]
        fitted = clone(models["squared"]).set_params(**row["params"])
        fitted.fit(frame.iloc[train], y[train])
        assert row["accuracy"] == fitted.score(frame.iloc[test], y[test])
        assert row["certified"]
        assert by_model.loc["svc", repeat]["status"] == "fitted"
        assert set(row["params"]) == {"psvmclassifier__C"}
        assert "X is not numeric in columns sex, site" in by_model.loc["bare", repeat]["note"]
        # A row that is in the store without a proof is computed again.
        folder = tmp_path / "p" / row["proof"]
        seen = sx.datasets.load(folder / "training.npz")
        assert sx.verify(folder / "squared.npz", seen.X, seen.y).holds
    # The tuning of other packages' models has no certificates to count.
    assert found.certified().loc["raw"].to_dict() == {"squared": 1.0, "svc": 1.0, "bare": 0.0}
    assert found.solves() == (12, 14)
    assert "squared, bare: linear, free intercept, losses summed." in found.notes()
    assert "rbf kernel" in found._repr_html_()
    assert sx.study(models, sets, **asked).reused == 6
    left = sx.study({"bare": models["bare"], "one": models["bare"]}, sets | SETS, repeats=1)
    assert "X is not numeric" in left.left_out["raw"]


def test_models_that_predict_one_class_are_counted():
    rng = np.random.default_rng(1)
    y = np.r_[np.zeros(76, dtype=int), np.ones(4, dtype=int)]
    found = sx.study(
        {"p": sx.PSVMClassifier(C=1e-4)}, {"rare": (rng.normal(size=(80, 3)), y)}, repeats=3
    )
    assert "p predicts one class only in 3 of 3 tasks." in found.notes()
    assert found.table().loc["rare", "p"].endswith(" †")
    assert r"^{\dagger}$" in found.latex()
    assert "predicts one class only on some split" in found.latex()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"models": []}, "models is empty"),
        ({"datasets": [3]}, "data must be the name of a data set, .* got a int"),
        ({"datasets": [pd.DataFrame({"a": [1, 2]})]}, "got a DataFrame; for a data frame"),
        ({"datasets": pd.DataFrame({"a": [1, 2]})}, "got a DataFrame; for a data frame"),
        (
            {"datasets": ["nothing-of-this-name"]},
            "no data set can be used: nothing-of-this-name: no data set is called",
        ),
        ({"datasets": ["iris", "iris"]}, "names 'iris' twice"),
        ({"split": 1.5}, "test_size must be"),
        ({"split": "half"}, "split must be"),
        (
            {"split": {"test": 0.3, "folds": 3}},
            "a data set of split must be one of 'default', 'one', got 'test'",
        ),
        ({"split": 26}, "a class has 25 observations for 26 folds"),
        ({"tune": {"Q": [1.0]}}, "a parameter of tune must be one of .*, got 'Q'"),
        (
            {"tune": {"nobody": {"C": [1.0]}}},
            "a model of tune must be one of 'hinge'.* got 'nobody'",
        ),
        ({"tune": {"nobody": [{"C": [1.0]}, 2.0]}}, "a parameter of tune .* got 'nobody'"),
        ({"tune": [1.0]}, "tune must be a mapping"),
        ({"metrics": "speed"}, "metrics must hold names of scores"),
        ({"scale_by": "test"}, "scale_by must be one of"),
        ({"seed": -1}, "seed must be"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"time_limit": -1}, "time_limit must be"),
    ],
)
def test_unusable_arguments_are_named(keywords, message):
    with pytest.raises(sx.DataError, match=message):
        sx.study(**{"models": MODELS, "datasets": {"one": SETS["one"]}, "repeats": 1, **keywords})


# Failures


def test_what_fails_is_a_row_and_the_others_go_on(tmp_path):
    sets = {"three": SETS["one"], "two": (SETS["one"][0][:, :2], SETS["one"][1])}
    models = {"broken": Broken(), "wrong": sx.PSVMClassifier(C=-1.0), "good": MODELS["hinge"]}
    found = sx.study(models, sets | {"no": "no-such-set"}, repeats=2)
    assert found.complete
    failures = found.failures()
    assert len(failures) == 6
    assert set(failures.loc[failures["model"] == "broken", "note"]) == {
        "RuntimeError: this model fails"
    }
    assert "C must be" in failures.loc[failures["model"] == "wrong", "note"].iloc[0]
    assert found.mean()["broken"].isna().tolist() == [True, False]
    assert found.mean()["good"].notna().all()
    assert found.table().loc["three", "broken"] == "–"
    assert len(found.ranks()) == 0, "no data set has scores of all"
    found.report(tmp_path / "broken.html")
    text = (tmp_path / "broken.html").read_text()
    assert "RuntimeError: this model fails" in text
    assert "no is left out: no data set is called" in text
    models = {"ridge": MODELS["ridge"], "loose": sx.PSVMClassifier(kernel="rbf", tol=0.1)}
    small = sx.study(models, {"one": SETS["one"]}, repeats=1)
    small.report(tmp_path / "small.html")
    text = (tmp_path / "small.html").read_text()
    assert "On each data set" in text
    assert "Over the data sets" not in text
    assert "fewer than" not in text
    assert small.table().index.tolist() == ["one"]
    assert "mean rank" not in small.latex()
    assert "loose: 0 of 1 solves certified." in small.notes()


def test_a_data_set_that_cannot_be_had_is_left_out_with_its_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("SVMCVX_CACHE", str(tmp_path))
    monkeypatch.delenv("SVMCVX_DATA", raising=False)
    lonely = (np.arange(6.0)[:, None], [0, 0, 0, 0, 0, 1])
    sets = {"one": SETS["one"], "hhar": "hhar", "lonely": lonely}
    found = sx.study({"ridge": RidgeClassifier()}, sets, repeats=1)
    assert set(found.left_out) == {"hhar", "lonely"}
    assert "cannot be had" in found.left_out["hhar"]
    assert "split cannot be made" in found.left_out["lonely"]
    assert found.datasets["dataset"].tolist() == ["one"]


@pytest.mark.slow
def test_a_process_that_dies_fails_its_task_only(tmp_path):
    # Each process that starts takes seconds.
    sets = {"three": SETS["one"]}
    models = {"deadly": Broken(deadly=True), "ridge": RidgeClassifier()}
    found = sx.study(models, sets, repeats=1, n_jobs=2, store=tmp_path / "s.sqlite")
    assert found.complete
    assert found.failures()[["dataset", "model"]].to_numpy().tolist() == [["three", "deadly"]]
    assert "its process died" in found.failures()["note"].iloc[0]
    alone = sx.study({"ridge": RidgeClassifier()}, sets, repeats=1)
    assert found.mean()["ridge"].tolist() == alone.mean()["ridge"].tolist()


# Going on


def test_a_store_spares_what_is_finished(tmp_path, study, monkeypatch):
    file = tmp_path / "s.sqlite"
    keywords = {"tune": TUNE, "cv": 2, "metrics": ("accuracy", "balanced_accuracy"), "store": file}
    two = {name: SETS[name] for name in ("one", "two")}
    sx.study(MODELS, two, repeats=2, **keywords)
    assert len(Store(file)) == 12
    found = sx.study(MODELS, SETS, repeats=3, **keywords)
    assert len(Store(file)) == 27
    same(found, study)
    monkeypatch.setattr(
        "svmcvx.experiments.comparison.select", lambda *_: pytest.fail("computed again")
    )
    # Under other names it is the same work.
    renamed = sx.study(
        {"a": MODELS["hinge"], "b": MODELS["squared"]}, {"x": SETS["two"]}, repeats=3, **keywords
    )
    assert (
        renamed.mean().loc["x"].tolist() == study.mean().loc["two", ["hinge", "squared"]].tolist()
    )
    assert len(Store(file)) == 27


def test_another_protocol_is_other_work(tmp_path):
    file = tmp_path / "s.sqlite"
    X, y = SETS["one"]

    def count(data=(X, y), **keywords):
        sx.study({"ridge": RidgeClassifier()}, {"one": data}, repeats=1, store=file, **keywords)
        return len(Store(file))

    counts = [count(), count((X + 1.0, y)), count((X, -y))]
    others = [{"seed": 1}, {"split": 0.5}, {"scale": "none"}, {"scale_by": "all"}]
    others += [{"metrics": "f1"}, {"tune": {"alpha": [1.0]}}]
    counts += [count(**other) for other in others]
    assert counts == list(range(1, len(counts) + 1))
    assert count() == len(counts)


def test_failed_tasks_are_done_again_when_asked_for(tmp_path, monkeypatch):
    file = tmp_path / "s.sqlite"
    models = {"broken": Broken(), "hinge": MODELS["hinge"]}
    assert len(sx.study(models, {"one": SETS["one"]}, repeats=1, store=file).failures()) == 1
    # What is finished is not done again.
    monkeypatch.setattr(sx.PSVMClassifier, "fit", lambda *_, **__: pytest.fail("computed again"))
    genuine = Broken.fit
    monkeypatch.setattr(Broken, "fit", lambda self, X, y: genuine(self.set_params(columns=0), X, y))
    assert len(sx.study(models, {"one": SETS["one"]}, repeats=1, store=file).failures()) == 1
    again = sx.study(models, {"one": SETS["one"]}, repeats=1, store=file, retry_failed=True)
    assert not len(again.failures())
    last = sx.study(models, {"one": SETS["one"]}, repeats=1, store=file)
    assert not len(last.failures())
    assert len(again.frame) == len(last.frame) == 2


def test_ctrl_c_gives_what_is_finished(tmp_path, monkeypatch, study):
    fit, calls = RidgeClassifier.fit, []

    def interrupting(self, X, y):
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return fit(self, X, y)

    metrics = ("accuracy", "balanced_accuracy")
    keywords = {"tune": TUNE, "cv": 2, "metrics": metrics, "store": tmp_path / "s.sqlite"}
    with monkeypatch.context() as patched:
        patched.setattr(RidgeClassifier, "fit", interrupting)
        with pytest.warns(UserWarning, match=r"interrupted after \d+ of 27 tasks"):
            part = sx.study(MODELS, SETS, repeats=3, **keywords)
    assert not part.complete
    assert len(part.frame) == len(Store(tmp_path / "s.sqlite")) < 27
    # A mean is shown where all repeats that the data set has seen are there.
    mean, seen = part.mean(), part.frame.groupby("dataset")["repeat"].nunique()
    for name in MODELS:
        counts = part.frame[part.frame["model"] == name]["dataset"].value_counts()
        for one in mean.index:
            assert np.isnan(mean.loc[one, name]) == (counts.get(one, 0) < seen.get(one, 1))
    same(sx.study(MODELS, SETS, repeats=3, **keywords), study)


def test_ctrl_c_in_the_tuning_is_no_failure(monkeypatch):
    original, calls = sx.PSVMClassifier._fit, []

    def fit(self, *arguments):
        calls.append(None)
        if len(calls) > 7:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(sx.PSVMClassifier, "_fit", fit)
    with pytest.warns(UserWarning, match="interrupted after 1 of 6 tasks: .*pass store='"):
        part = sx.study(
            {"hinge": MODELS["hinge"]}, {"one": SETS["one"]}, repeats=6, tune=TUNE, cv=2
        )
    assert not len(part.failures())


def test_a_time_limit_drops_what_it_cuts_short(tmp_path):
    keywords = {"repeats": 3, "tune": TUNE, "cv": 2, "store": tmp_path / "s.sqlite"}
    models = {"hinge": MODELS["hinge"]}
    with (
        clock.substituted(Ticking(300)),
        pytest.warns(UserWarning, match="the time limit passed after"),
    ):
        part = sx.study(models, SETS, time_limit=60.0, **keywords)
    assert not part.complete
    assert len(part.frame) < 9
    assert not len(part.failures())
    same(sx.study(models, SETS, **keywords), sx.study(models, SETS, repeats=3, tune=TUNE, cv=2))


# Backends


@pytest.mark.skipif(
    find_spec("distributed") is None, reason="needs the extra dask: pip install 'svmcvx[dask]'"
)
def test_the_workers_of_a_dask_cluster(tmp_path):
    from distributed import Client, LocalCluster

    models = {"hinge": MODELS["hinge"], "ridge": RidgeClassifier()}
    # A worker in this process, which need not import everything.
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address=":0",
            local_directory=str(tmp_path / "dask"),
            memory_limit=0,
        ) as cluster,
        Client(cluster),
        joblib.parallel_config("dask"),
    ):
        found = sx.study(models, SETS, repeats=2, store=tmp_path / "s.sqlite")
    same(found, sx.study(models, SETS, repeats=2))
    assert len(Store(tmp_path / "s.sqlite")) == 12


# Files


def test_csv_and_latex(study, tmp_path):
    study.frame.to_csv(tmp_path / "rows.csv", index=False)
    read = pd.read_csv(tmp_path / "rows.csv")
    assert read["accuracy"].tolist() == study.frame["accuracy"].tolist()
    text = study.latex(tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text() == text
    assert text.startswith(
        "\\begin{tabular}{lccc}\n\\toprule\naccuracy & hinge & squared & ridge \\\\\n"
    )
    mean = study.mean().loc["one"]
    (line,) = [line for line in text.splitlines() if line.startswith("one")]
    cells = [cell.strip(" \\") for cell in line.split("&")[1:]]
    for cell, value in zip(cells, mean, strict=True):
        assert f"{value:.3f} \\pm" in cell
        assert ("mathbf" in cell) == (round(value, 3) == round(mean.max(), 3))
    assert escaped("a_b & 50% {x}\\") == r"a\_b \& 50\% \{x\}\textbackslash{}"


def test_the_diagram_of_ranks(study, tmp_path):
    study.diagram(tmp_path / "ranks.pdf")
    assert (tmp_path / "ranks.pdf").read_bytes().startswith(b"%PDF")
    two = sx.study(
        {"hinge": MODELS["hinge"], "ridge": MODELS["ridge"]}, {"one": SETS["one"]}, repeats=1
    )
    with pytest.raises(sx.DataError, match="three models and two data sets"):
        two.diagram(tmp_path / "none.pdf")


def test_the_report_holds_everything_and_needs_nothing(study, tmp_path):
    comparison = sx.compare({"<b>hinge</b>": MODELS["hinge"]}, *SETS["one"])
    study.report(tmp_path / "report.html", {"one & only": comparison}, title="A <study>")
    text = (tmp_path / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!#)|@import", text), "it refers to itself only"
    assert "<title>A &lt;study&gt;</title>" in text
    assert "<b>hinge" not in text, "names are no markup"
    for expected in (
        study.table().loc["one", "hinge"],
        study.datasets["content"][0],
        study.versions["numpy"],
        "PSVMClassifier(p=2.0, solver=&#x27;fast&#x27;)",
        "critical difference of mean ranks",
        "one &amp; only",
        "&lt;b&gt;hinge&lt;/b&gt;",
        "100.0 % of ",
    ):
        assert expected in text
    tables = re.findall(r"<table.*?</table>", text, flags=re.DOTALL)
    assert max(table.count("<tr ") for table in tables) == len(study.frame) + 1
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) == 2
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - our own
        assert "aria-label" in picture
    study.report(tmp_path / "again.html", {"one & only": comparison}, title="A <study>")
    assert (tmp_path / "again.html").read_text() == text, "the same study is the same page"


@pytest.fixture(scope="module")
def guaranteed():
    models = {
        "hinge": sx.PSVMClassifier(**FAST),
        "rbf": sx.PSVMClassifier(kernel="rbf", **FAST),
        "ridge": RidgeClassifier(),
    }
    two = {name: SETS[name] for name in ("one", "two")}
    how = {"tune": {"C": [0.1, 1.0, 10.0]}, "cv": 2, "guarantee": True}
    return sx.study(models, two, repeats=2, metrics=("roc_auc", "accuracy", "f1"), **how)


def test_what_every_optimal_machine_scores_in_a_study(guaranteed, tmp_path):
    frame = guaranteed.frame
    ours, others = frame[frame["model"] != "ridge"], frame[frame["model"] == "ridge"]
    for name in ("accuracy", "roc_auc"):
        assert (ours[f"{name}_lower"] <= ours[name]).all()
        assert (ours[name] <= ours[f"{name}_upper"]).all()
        assert others[f"{name}_lower"].isna().all()
    assert "f1_lower" not in frame
    assert guaranteed.with_exact() == ["roc_auc", "accuracy"]
    exact = guaranteed.exact("accuracy")
    assert exact.loc["one", "hinge"] == f"{guaranteed.mean('accuracy').loc['one', 'hinge']:.4f}"
    assert (exact["ridge"] == "").all()
    text = guaranteed.latex(metric="accuracy")
    assert r"\multicolumn{4}{l}{of every optimal machine" in text
    # Of several metrics one table below the other.
    both = guaranteed.latex(metric=["accuracy", "roc_auc"]).splitlines()
    below = guaranteed.latex(metric="roc_auc").splitlines()[4:-2]
    assert both[:-2] == [
        *text.splitlines()[:-2],
        r"\midrule \multicolumn{4}{l}{roc\_auc} \\",
        *below,
    ]
    with pytest.raises(sx.DataError, match="metric must be one of"):
        guaranteed.latex(metric=["accuracy", "auc"])
    guaranteed.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "accuracy of the optimal machines" in page
    assert "Share of undecided test rows" in page


def test_guarantees_are_asked_for(study):
    assert not [name for name in study.frame if "accuracy_" in name or name == "undecided"]
    with pytest.raises(sx.DataError, match="pass guarantee=True to study"):
        study.exact()
    with pytest.raises(sx.DataError, match="guarantee must be True or False"):
        sx.study(MODELS, SETS, guarantee="tuning")


ENDLESS = """
import sys
import svmcvx as sx
from tests.experiments.misbehaving import Endless
sx.study([Endless(sys.argv[1])], ["blobs"], repeats=1, n_jobs=2)
"""


def is_running(process):
    try:
        os.kill(process, 0)
        # One that has ended, and that nobody has waited for, is a zombie.
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="states of processes are read from /proc"
)
def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stderr=subprocess.DEVNULL
    ) as parent:
        while not list(tmp_path.iterdir()):
            assert parent.poll() is None
            time.sleep(0.1)
        parent.kill()
    (worker,) = (int(path.name) for path in tmp_path.iterdir())
    # It ends, or this test does not.
    while is_running(worker):
        time.sleep(0.1)
