import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.experiments import parse_models
from svmcvx.experiments.comparison import COLUMNS, Comparison
from svmcvx.experiments.intervals import exact_scores, interval_text, with_intervals
from svmcvx.experiments.store import Store
from svmcvx.experiments.studies.latex import latex_frame
from tests.conftest import make_data

X, Y = make_data(n=60)
MODELS = {
    "hinge": sx.PSVMClassifier(),
    "squared": sx.PSVMClassifier(p=2.0),
    "rbf": sx.PSVMClassifier(p=1.5, kernel="rbf"),
}


def test_compare_tabulates_certificates():
    table = sx.compare(MODELS, X, Y, seed=3)
    assert isinstance(table, pd.DataFrame)
    assert tuple(table.columns) == COLUMNS
    assert table["model"].tolist() == list(MODELS)
    assert table["certified"].all()
    assert (table["dual_bound"] <= table["primal"]).all()
    assert ((table["test_accuracy"] >= 0) & (table["test_accuracy"] <= 1)).all()
    again = sx.compare(MODELS, X, Y, seed=3)
    assert again["primal"].tolist() == table["primal"].tolist()
    assert again["test_accuracy"].tolist() == table["test_accuracy"].tolist()


def test_machines_of_several_pairs_are_certified_if_all_of_them_are():
    X, y = load_iris(return_X_y=True)
    model = sx.PSVMClassifier(p=1.0, kernel="rbf", tol=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gaps = sorted(certificate.gap for certificate in clone(model).fit(X, y).certificates_.values())
        assert gaps[0] < gaps[-1]
        for tol, all_of_them in ((gaps[0], False), (gaps[-1], True)):
            (found,) = sx.compare([model], X, y, split=0.0, scale="none", tol=tol)["certified"]
            assert found == all_of_them


def test_models_are_named_by_what_they_are():
    table = sx.compare([sx.PSVMClassifier(), sx.PSVMClassifier(p=2.0), sx.PSVMClassifier()], X, Y)
    assert table["model"].tolist() == ["PSVMClassifier()", "PSVMClassifier(p=2.0)", "PSVMClassifier() #2"]


def test_other_estimators_and_pipelines_stand_beside_ours():
    table = sx.compare([("svc", SVC()), ("pipe", make_pipeline(StandardScaler(), sx.PSVMClassifier()))], X, Y)
    assert table["certified"].tolist() == [False, True]
    assert table.loc[0, "note"] == "no certificate"
    assert pd.isna(table.loc[0, "dual_bound"])


def test_a_model_that_fails_is_a_row_with_the_reason():
    table = sx.compare({"bad": sx.PSVMClassifier(C=-1.0), "good": sx.PSVMClassifier()}, X, Y)
    assert table["status"].tolist()[0] == "failed"
    assert "C must be" in table.loc[0, "note"]
    assert table["certified"].tolist() == [False, True]


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_scaling_is_fitted_on_the_training_part(scale):
    comparison = Comparison(MODELS, X * 100, Y, scale=scale)
    if scale == "standard":
        assert np.allclose(comparison.X_train.mean(axis=0), 0)
        assert not np.allclose(comparison.X_test.mean(axis=0), 0)
    else:
        assert comparison.X_train.min() == 0
        assert comparison.X_train.max() == pytest.approx(1)


def test_everything_can_be_used_for_training():
    table = sx.compare(MODELS, X, Y, split=0, scale="none")
    assert table["test_accuracy"].isna().all()
    direct = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=1.0))
    assert table.loc[0, "primal"] == pytest.approx(direct.certificate.upper)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"models": []}, "models is empty"),
        ({"models": [sx.PSVMClassifier]}, "pass instances"),
        ({"models": ["psvm"]}, "pass instances"),
        ({"scale": "log"}, "scale must be one of"),
        ({"split": 1.0}, "split must be"),
        ({"split": 0.999}, "without observations"),
        ({"tol": 0}, "tol must be"),
        ({"y": [1]}, "1 labels but X has"),
    ],
)
def test_bad_arguments(keywords, message):
    with pytest.raises(sx.DataError, match=message):
        sx.compare(**{"models": MODELS, "X": X, "y": Y, **keywords})


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path, monkeypatch):
    store = tmp_path / "rows.sqlite"

    def interrupt(row):
        if row["model"] == "squared":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sx.compare(MODELS, X, Y, store=store, callback=interrupt)
    assert len(Store(store)) == 2
    fits = []
    genuine = sx.PSVMClassifier.fit
    monkeypatch.setattr(
        sx.PSVMClassifier, "fit", lambda self, *a, **k: (fits.append(self.p), genuine(self, *a, **k))[1]
    )
    table = sx.compare(MODELS, X, Y, store=store)
    assert fits == [1.5]
    assert table["certified"].all()
    assert table["model"].tolist() == list(MODELS)
    sx.compare(MODELS, X, Y, store=store)
    assert fits == [1.5]
    sx.compare(MODELS, X, Y, store=store, seed=1)
    assert len(fits) == 4, "another split is another result"


def test_models_can_be_written_as_text():
    named = parse_models("psvm:p=1,psvm:p=1.5,C=10,psvm:kernel=rbf:p=2,psvm", C=3.0, kernel=None, nonsense=1)
    assert [name for name, _ in named] == ["psvm(p=1)", "psvm(p=1.5, C=10)", "psvm(kernel=rbf, p=2)", "psvm"]
    assert [model.C for _, model in named] == [3.0, 10, 3.0, 3.0]
    assert named[2][1].kernel == "rbf"
    assert math.isinf(parse_models("psvm:C=inf")[0][1].C), "the hard margin"


def test_a_class_of_one_observation_is_named():
    with pytest.raises(sx.DataError, match="3 classes, of which 1 have a single observation, such as 7"):
        sx.compare(MODELS, np.arange(9.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1, 7])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("svm", "known are .*psvm"),
        ("psvm:q=1", "no setting 'q'"),
        ("psvm:p", "key=value"),
        ("p=1", "begin with one of"),
        ("psvm,,psvm", "empty entry"),
        ("", "empty entry"),
    ],
)
def test_models_that_cannot_be_read(text, message):
    with pytest.raises(sx.DataError, match=message):
        parse_models(text)


def test_a_model_may_be_spelt_as_its_solver_is():
    assert [type(model).__name__ for _, model in parse_models("zero_one:lam=2")] == ["ZeroOneSVMClassifier"]


def test_what_every_optimal_machine_scores_stands_in_the_table():
    models = {
        "hinge": sx.PSVMClassifier(),
        "loose": sx.PSVMClassifier(kernel="rbf", tol=0.1),
        "pipe": make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0)),
        "conic": sx.ConicSVMClassifier(),
        "svc": SVC(),
    }
    comparison = Comparison(models, X, Y, guarantee=True, refit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(comparison.run())
    table = comparison.frame().set_index("model")
    for name in ("hinge", "loose"):
        fitted = comparison.fitted[name]
        fitted.guarantee(comparison.X_train, comparison.y_train)
        interval = fitted.score_interval(comparison.X_test, comparison.y_test)
        # What the gap of the loose fit leaves open is decided by a smaller one.
        assert interval.is_number == (name == "hinge")
        assert table.loc[name, "accuracy_lower"] == table.loc[name, "accuracy_upper"]
        assert table.loc[name, "accuracy_lower"] in interval
        assert table.loc[name, "undecided"] == 0.0
    assert table.loc["loose", "gap"] > 1e-6
    assert (
        table.loc["pipe", "accuracy_lower"] <= table.loc["pipe", "test_accuracy"] <= table.loc["pipe", "accuracy_upper"]
    )
    assert table.loc[["conic", "svc"], ["accuracy_lower", "undecided"]].isna().all(axis=None)
    assert "no guarantee: there are no guarantees of conic" in table.loc["conic", "note"]
    shown = with_intervals(table.assign(accuracy_upper=table["accuracy_upper"] + 0.1 * (table.index == "loose")))
    assert shown.loc["loose", "exact_accuracy"].startswith("[")
    assert shown.loc["hinge", "exact_accuracy"] == f"{table.loc['hinge', 'accuracy_lower']:.4f}"
    assert "exact_accuracy" in table._repr_html_()
    assert "exact accuracy" in latex_frame(table)
    assert sx.compare(models, X, Y)[["accuracy_lower", "undecided"]].isna().all(axis=None)
    with pytest.raises(sx.DataError, match="split=0"):
        sx.compare(models, X, Y, split=0.0, guarantee=True)


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.5, 0.5), "0.5000"),
        ((0.12341, 0.12349), "[0.1234, 0.1235]"),
        ((0.3, 0.7), "[0.3000, 0.7000]"),
        ((None, 1.0), ""),
    ],
)
def test_ends_are_rounded_outward(ends, text):
    assert interval_text(*ends) == text


def test_searches_of_labels_end_with_the_limit_of_the_estimator():
    rows = np.r_[0:12]
    model = sx.ZeroOneSVMClassifier(solver="fast").fit(X[rows], Y[rows])
    found = exact_scores(model, X[rows], Y[rows], X[12:20], Y[12:20])
    assert found.intervals["accuracy"].lower <= model.score(X[12:20], Y[12:20]) <= found.intervals["accuracy"].upper
    model.time_limit = 1e-9
    assert exact_scores(model, X[rows], Y[rows], X[12:20], Y[12:20]).undecided == 1.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_limit_leaves_open_stays_an_interval(monkeypatch):
    model = sx.PSVMClassifier(kernel="rbf", tol=0.1).fit(X[:40], Y[:40])
    gap = model.certificate_.gap
    model.time_limit = 1e-9
    found = exact_scores(model, X[:40], Y[:40], X[40:], Y[40:])
    assert model.guarantee(X[:40], Y[:40]).accuracy(X[40:], Y[40:]) == found.intervals["accuracy"]
    assert found.undecided > 0.0
    assert model.certificate_.gap == gap

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("svmcvx.guarantees.refinement._solved_on", interrupted)
    model.time_limit = None
    with pytest.raises(KeyboardInterrupt):
        exact_scores(model, X[:40], Y[:40], X[40:], Y[40:])


def test_rows_with_and_without_intervals_are_different_rows_of_a_store(tmp_path):
    counts = []
    for guarantee in (False, True, False, True):
        comparison = Comparison(MODELS, X, Y, store=tmp_path / "s.sqlite", guarantee=guarantee)
        list(comparison.run())
        counts.append(comparison.reused)
        assert comparison.frame()["undecided"].notna().all() == guarantee
    assert counts == [0, 0, 3, 3]
