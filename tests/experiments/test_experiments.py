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
from svmcvx.experiments.store import Store
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
            (found,) = sx.compare([model], X, y, test_size=0.0, tol=tol)["certified"]
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
    table = sx.compare(MODELS, X, Y, test_size=0)
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
        ({"test_size": 1.0}, "test_size must be"),
        ({"test_size": 0.999}, "without observations"),
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
