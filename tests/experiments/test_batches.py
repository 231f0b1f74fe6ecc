"""Searches whose fits are solved in batches, held against searches with certified fits."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import svmcvx as sx
from svmcvx.experiments.batches import fold as batch_fold
from svmcvx.experiments.batches.neighbours import neighbours

COSTS = [0.01, 0.1, 1.0, 10.0, 100.0]
BANDS = {"C1": [1.0, 8.0, 64.0], "C2": [1.0, 8.0, 64.0], "D": [0.0, 0.2, 0.4]}
MEANS = {"C": [1.0, 10.0, 100.0], "lam1": [0.0, 0.1, 2.0], "lam2": [0.0, 0.1, 2.0]}


def data(n=60, d=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    X = rng.standard_normal((n, d))
    X[:, :2] += 1.2 * np.stack([np.cos(codes), np.sin(2 * codes)], axis=1)
    return X, np.array(["ash", "birch", "cedar", "elm"])[codes]


ESTIMATORS = {
    "odm": (sx.ODMClassifier(), BANDS),
    "odm, kernel": (sx.ODMClassifier(kernel="rbf"), {**BANDS, "D": [0.1]}),
    "hinge": (sx.PSVMClassifier(), {"C": COSTS}),
    "hinge, no intercept": (sx.PSVMClassifier(intercept="none"), {"C": COSTS}),
    "mean and variance": (sx.ODMLClassifier(), MEANS),
    "mean and variance, kernel": (sx.ODMLClassifier(kernel="rbf"), {**MEANS, "lam1": [0.5]}),
    "hinge, kernels": (sx.PSVMClassifier(kernel="rbf"), {"C": COSTS, "gamma": ["scale", 0.1, 1.0]}),
    "squared": (sx.PSVMClassifier(p=2.0), {"C": COSTS}),
    "squared, no intercept": (sx.PSVMClassifier(p=2.0, intercept="none"), {"C": COSTS}),
    "balanced": (sx.PSVMClassifier(class_weight="balanced"), {"C": COSTS}),
    "both exponents": (sx.PSVMClassifier(), {"C": COSTS, "p": [1.0, 2.0]}),
}


def scores(table):
    return table[
        [
            name
            for name in table.columns
            if name.startswith("split") and name.endswith("_test_score")
        ]
    ]


# Several classes are pairs for all of them; a machine of each method decides among four.
@pytest.mark.parametrize(
    ("name", "classes"),
    [*((name, 2) for name in ESTIMATORS), *((name, 4) for name in ("odm", "hinge", "balanced"))],
)
def test_the_same_errors_as_certified_fits(name, classes):
    estimator, grid = ESTIMATORS[name]
    X, y = data(60 if classes == 2 else 80, classes=classes)
    chosen = sx.select(estimator, grid, X, y, cv=3, certify="chosen")
    every = sx.select(estimator, grid, X, y, cv=3)
    np.testing.assert_array_equal(scores(chosen), scores(every))
    assert chosen.best_params_ == every.best_params_
    assert list(chosen["params"]) == list(every["params"])
    assert (every["certified"]).all()
    assert "batched" not in every


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("break_ties", [True, False])
def test_ways_to_decide_among_several_classes(multiclass, break_ties):
    X, y = data(80, classes=4, seed=3)
    estimator = sx.PSVMClassifier(multiclass=multiclass, break_ties=break_ties, p=2.0)
    pair = [
        sx.select(estimator, {"C": COSTS}, X, y, cv=3, certify=what) for what in ("chosen", "all")
    ]
    np.testing.assert_array_equal(*map(scores, pair))


def test_the_chosen_setting_and_its_neighbours_have_certificates():
    X, y = data()
    table = sx.select(sx.ODMClassifier(), BANDS, X, y, cv=3, certify="chosen")
    own = {table.best_index_, *neighbours(list(table["params"]), table.best_index_)}
    for place, row in table.iterrows():
        if place in own:
            assert row["certified"]
            assert row["batched"] == 0
    rest = table[table["batched"] > 0]
    assert len(rest) > 0
    assert not rest["certified"].any()
    assert rest["worst_gap"].isna().all()
    assert rest["split0_lower"].isna().all()
    assert set(rest["status"]) == {"uncertified"}
    assert not rest["note"].any()
    assert table.certify == "chosen"
    assert "fits without certificates" in table._repr_html_()
    assert table.best_estimator_.certificate_.is_certified(1e-6)


def test_weights_and_pipelines():
    X, y = data(90)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, 90)
    pipe = make_pipeline(StandardScaler(), SelectKBest(f_classif, k=2), sx.PSVMClassifier(p=2.0))
    grid = {"psvmclassifier__C": COSTS, "selectkbest__k": [1, 2, 3]}
    pair = [
        sx.select(pipe, grid, X, y, cv=3, sample_weight=weight, certify=what)
        for what in ("chosen", "all")
    ]
    np.testing.assert_array_equal(*map(scores, pair))
    assert pair[0]["batched"].sum() > 0


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "roc_auc"])
def test_scores_by_name(scoring):
    X, y = data()
    pair = [
        sx.select(sx.PSVMClassifier(p=2.0), {"C": COSTS}, X, y, cv=3, scoring=scoring, certify=what)
        for what in ("chosen", "all")
    ]
    np.testing.assert_allclose(*map(scores, pair), rtol=1e-12)
    assert pair[0]["batched"].sum() > 0


def test_what_has_no_batch_is_certified_and_says_so():
    X, y = data()
    cases = [
        (sx.ConicSVMClassifier(), {"lam": [1.0, 10.0]}, X, {}, "no batches for ConicSVMClassifier"),
        (sx.PSVMClassifier(p=1.5), {"C": [1.0, 10.0]}, X, {}, "for p = 1 and p = 2"),
        (
            sx.PSVMClassifier(kernel="sigmoid", indefinite="clip"),
            {"C": [1.0, 10.0]},
            X,
            {},
            "semidefinite",
        ),
        (sx.PSVMClassifier(), {"C": [1.0, 10.0]}, sparse.csr_array(X), {}, "sparse"),
        (sx.PSVMClassifier(max_iter=500), {"C": [1.0, 10.0]}, X, {}, "max_iter"),
        (
            sx.PSVMClassifier(),
            {"C": [1.0, 10.0]},
            X,
            {"scoring": lambda e, X, y: e.score(X, y)},
            "function",
        ),
        (sx.PSVMClassifier(), {"C": [1.0, 10.0]}, X, {"guarantee": True}, "guarantee"),
    ]
    for estimator, grid, rows, more, why in cases:
        table = sx.select(estimator, grid, rows, y, cv=3, certify="chosen", **more)
        assert table["certified"].all()
        assert (table["batched"] == 0).all()
        assert table["note"].str.contains(why).all(), (table["note"].tolist(), why)
    others = sx.select(RidgeClassifier(), {"alpha": [0.1, 1.0]}, X, y, cv=3, certify="chosen")
    assert (
        others["note"]
        .str.contains(
            "no certificate: RidgeClassifier answers no problem that svmcvx knows; name one in"
            " certify",
            regex=False,
        )
        .all()
    )


def test_a_setting_out_of_range_fails_as_it_does_by_itself():
    X, y = data()
    pair = [
        sx.select(sx.PSVMClassifier(), {"C": [-1.0, 1.0]}, X, y, cv=3, certify=what)
        for what in ("chosen", "all")
    ]
    assert pair[0]["note"][0] == pair[1]["note"][0] != ""
    assert np.isnan(pair[0]["mean_test_score"][0])
    with pytest.raises(sx.DataError, match="certify must be"):
        sx.select(sx.PSVMClassifier(), {"C": COSTS}, X, y, certify="some")


def test_answers_that_do_not_close_are_certified(monkeypatch):
    X, y = data()
    real = batch_fold.solve

    def poor(machine, numbers, rows):
        found = real(machine, numbers, rows)
        found.gaps[1] = 1e-3
        return found

    monkeypatch.setattr(batch_fold, "solve", poor)
    table = sx.select(
        sx.PSVMClassifier(p=2.0), {"C": [*COSTS, 1e3, 1e4]}, X, y, cv=3, certify="chosen"
    )
    assert (table["batched"] == 0)[1]
    assert table["certified"][1]
    np.testing.assert_array_equal(
        scores(table),
        scores(sx.select(sx.PSVMClassifier(p=2.0), {"C": [*COSTS, 1e3, 1e4]}, X, y, cv=3)),
    )


@pytest.mark.parametrize(
    "change", [lambda X: 1e6 * X, lambda X: X + 1e6, lambda X: 1e-170 * X, np.ones_like]
)
def test_rows_of_any_size(change):
    X, y = data()
    X = change(X)
    for estimator in (sx.PSVMClassifier(), sx.PSVMClassifier(p=2.0)):
        pair = [
            sx.select(estimator, {"C": [1e-8, 1e-3, 1.0, 1e4]}, X, y, cv=3, certify=what)
            for what in ("chosen", "all")
        ]
        np.testing.assert_array_equal(*map(scores, pair))


@pytest.mark.filterwarnings("error")
def test_what_overflows_is_left_to_certified_fits():
    X, y = data()
    with pytest.raises(sx.DataError, match="arithmetic overflows"):
        sx.select(sx.PSVMClassifier(p=2.0), {"C": COSTS}, 1e160 * X, y, cv=3, certify="chosen")


def test_an_interrupted_search_goes_on_with_the_same_answers(tmp_path, monkeypatch):
    X, y = data()
    arguments = {"cv": 3, "certify": "chosen"}
    whole = sx.select(sx.ODMClassifier(), BANDS, X, y, **arguments)
    real, calls = batch_fold.solve, []

    def interrupted(machine, numbers, rows):
        calls.append(len(numbers))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(machine, numbers, rows)

    monkeypatch.setattr(batch_fold, "solve", interrupted)
    with pytest.warns(UserWarning, match="interrupted after 18 of 81"):
        part = sx.select(sx.ODMClassifier(), BANDS, X, y, store=tmp_path / "s.sqlite", **arguments)
    assert calls == [9, 9, 9]
    assert not part.complete
    assert part.best_estimator_ is None
    monkeypatch.setattr(batch_fold, "solve", real)
    rest = sx.select(sx.ODMClassifier(), BANDS, X, y, store=tmp_path / "s.sqlite", **arguments)
    assert rest.complete
    assert rest.reused == 18
    np.testing.assert_array_equal(scores(rest), scores(whole))
    assert rest["n_support"].tolist() == whole["n_support"].tolist()
    again = sx.select(sx.ODMClassifier(), BANDS, X, y, store=tmp_path / "s.sqlite", **arguments)
    assert again.reused >= 81
    # Rows without certificates are none of a search that asks for all.
    every = sx.select(sx.ODMClassifier(), BANDS, X, y, store=tmp_path / "s.sqlite", cv=3)
    assert every["certified"].all()


def test_the_time_limit_ends_between_slices():
    X, y = data()
    with pytest.warns(UserWarning, match="the time limit passed after 0 of 81"):
        table = sx.select(sx.ODMClassifier(), BANDS, X, y, cv=3, certify="chosen", time_limit=1e-9)
    assert not table.complete
    assert table["mean_test_score"].isna().all()


def test_two_processes_give_the_same_table():
    X, y = data()
    one, two = (
        sx.select(
            sx.ODMClassifier(),
            BANDS,
            X,
            y,
            cv=3,
            certify="chosen",
            n_jobs=jobs,
            backend="threading",
        )
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(scores(one), scores(two))
    assert one["batched"].tolist() == two["batched"].tolist()


def test_a_study_certifies_what_it_chooses():
    X, y = data()
    models = {"odm": sx.ODMClassifier(), "without batch": sx.PSVMClassifier(p=1.5)}
    tune = {"odm": BANDS, "without batch": {"C": [1.0, 10.0]}}
    found = sx.study(models, {"trees": (X, y)}, repeats=2, tune=tune, cv=3)
    rows = found.frame.set_index("model")
    assert (rows.loc["odm", "tuning_batched"] > 0).all()
    assert (rows["tuning_certified"] == rows["tuning_fits"] - rows["tuning_batched"]).all()
    assert (rows.loc["without batch", "tuning_batched"] == 0).all()
    asked = int((rows["tuning_fits"] - rows["tuning_batched"] + 1).sum())
    assert found.solves() == (asked, asked)
    assert "to the solvers' tolerance" in found.methods()
    every = sx.study(models, {"trees": (X, y)}, repeats=2, tune=tune, cv=3, certify="all")
    assert (every.frame["tuning_batched"] == 0).all()
    assert every.frame["accuracy"].tolist() == found.frame["accuracy"].tolist()
    assert every.frame["params"].tolist() == found.frame["params"].tolist()


def test_the_command(tmp_path):
    from svmcvx.cli import run

    X, y = data()
    np.savez(tmp_path / "trees.npz", X=X, y=y)
    out = tmp_path / "out.json"
    arguments = [
        "select",
        str(tmp_path / "trees.npz"),
        "--model",
        "odm",
        "--grid",
        "C1=1,8,64",
        "--grid",
        "C2=1,8,64",
    ]
    code = run(
        [*arguments, "--certify", "chosen", "--cv", "3", "--strict", "--json", str(out), "--quiet"]
    )
    assert code == 0
    content = json.loads(out.read_text())
    assert content["settings"]["certify"] == "chosen"
    assert any(row["batched"] for row in content["rows"])


def test_neighbours_of_settings_of_several_kinds():
    grid = [{"C": C, "kernel": kernel} for kernel in ("rbf", None) for C in (1.0, 0.1, 10.0)] + [
        {"p": 2.0}
    ]
    assert sorted(neighbours(grid, 0)) == [1, 2]
    assert neighbours(grid, 4) == [3]
    assert neighbours(grid, 6) == []
