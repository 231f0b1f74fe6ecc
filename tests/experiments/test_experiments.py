import math
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import svmcvx as sx
from svmcvx.display import interval
from svmcvx.errors import DataTypeError
from svmcvx.experiments import parse_models
from svmcvx.experiments.fit import Part, conventions, exact_scores
from svmcvx.experiments.store import Store
from svmcvx.experiments.tables import interval_text, latex_frame, with_intervals
from tests.conftest import make_data

X, Y = make_data(n=60)
MODELS = {
    "hinge": sx.PSVMClassifier(),
    "squared": sx.PSVMClassifier(p=2.0),
    "rbf": sx.PSVMClassifier(p=1.5, kernel="rbf"),
}


FIRST = ["model", "solver", "status", "lower", "upper", "gap", "certified", "train_accuracy"]
LAST = ["n_support", "seconds", "conventions", "note"]


def test_compare_tabulates_certificates():
    table = sx.compare(MODELS, X, Y, seed=3)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == [*FIRST, "accuracy", *LAST]
    assert table["model"].tolist() == list(MODELS)
    assert table["certified"].all()
    assert (table["lower"] <= table["upper"]).all()
    assert ((table["accuracy"] >= 0) & (table["accuracy"] <= 1)).all()
    again = sx.compare(list(MODELS.values()), X, Y, seed=3)
    assert again["upper"].tolist() == table["upper"].tolist()
    assert again["model"].tolist()[:2] == ["PSVMClassifier()", "PSVMClassifier(p=2.0)"]
    whole = sx.compare(MODELS, X, Y, split=0, scale="none")
    assert whole["accuracy"].isna().all()
    direct = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=1.0))
    assert whole.loc[0, "upper"] == pytest.approx(direct.certificate.upper)


def test_models_of_scikit_learn_stand_beside_ours_with_their_intervals():
    models = {
        "svc": SVC(tol=1e-7),
        "loose": SVC(tol=0.1),
        "linear": LinearSVC(),
        "logistic": LogisticRegression(),
        "trees": DecisionTreeClassifier(random_state=0),
        "pipe": make_pipeline(StandardScaler(), SVC(tol=1e-7)),
    }
    table = sx.compare(models, X, Y).set_index("model")
    X_train, _, y_train, _ = train_test_split(X, Y, test_size=0.3, random_state=0, stratify=Y)
    Z = StandardScaler().fit_transform(X_train)
    for name in ("svc", "loose", "linear", "logistic"):
        own = sx.certify(clone(models[name]).fit(Z, y_train), Z, y_train)
        assert (table.loc[name, "lower"], table.loc[name, "upper"]) == (own.lower, own.upper)
    assert table.loc["svc", "certified"]
    assert not table.loc["loose", "certified"]
    # A pipeline scales by itself: the same machine as on scaled columns.
    assert table.loc["pipe", "upper"] == pytest.approx(table.loc["svc", "upper"])
    assert table.loc["trees", "certified"] is None
    assert (
        table.loc["trees", "note"]
        == "no certificate: DecisionTreeClassifier answers no problem that svmcvx knows"
    )
    assert "✗" in table.loc[["loose"]]._repr_html_()
    assert "✗" not in table.loc[["trees"]]._repr_html_()


def test_of_several_binary_problems_the_row_has_the_interval_of_their_sum():
    X3, y3 = load_iris(return_X_y=True)
    model = SVC(kernel="linear", tol=1e-7)
    table = sx.compare({"svc": model}, X3, y3, split=0.0, scale="none")
    own = sx.certify(model.fit(X3, y3), X3, y3)
    assert table.loc[0, ["lower", "upper", "gap"]].tolist() == [own.lower, own.upper, own.gap]
    assert "interval of the sum of 3 binary problems" in table.loc[0, "note"]
    uppers = [one["upper"] for one in table.certificates["svc"]]
    assert uppers == [one.upper for one in own.parts.values()]


def raw_table(n=80):
    """Numbers, text, categories and Booleans, with holes in numbers and text."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n),
            "sex": rng.choice(["male", "female"], n),
            "site": pd.Categorical(rng.choice(["a", "b", "c"], n)),
            "smokes": rng.random(n) < 0.3,
        }
    )
    y = np.where(
        frame["age"] + 5.0 * (frame["sex"] == "male") + rng.normal(0.0, 2.0, n) > 52.0,
        "ill",
        "well",
    )
    frame.loc[3, "age"] = np.nan
    frame.loc[5, "sex"] = None
    return frame, y


def encoding(model):
    """Return a model behind the preparation of such a table that scikit-learn's users write."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    text = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = ColumnTransformer(
        [("numbers", numbers, ["age"]), ("text", text, ["sex", "site", "smokes"])]
    )
    return make_pipeline(columns, model)


def test_pipelines_see_the_table_as_it_is():
    frame, y = raw_table()
    models = {
        "squared": encoding(sx.PSVMClassifier(p=2.0)),
        "svc": encoding(SVC(tol=1e-7)),
        "bare": sx.PSVMClassifier(),
    }
    before = frame.copy()
    with joblib.parallel_config("threading"):
        table = sx.compare(models, frame, y, n_jobs=2).set_index("model")
    pd.testing.assert_frame_equal(frame, before)
    X_train, X_test, y_train, y_test = train_test_split(
        frame, y, test_size=0.3, random_state=0, stratify=y
    )
    for name in ("squared", "svc"):
        fitted = clone(models[name]).fit(X_train, y_train)
        assert table.loc[name, "accuracy"] == fitted.score(X_test, y_test)
        own = sx.certify(fitted, X_train, y_train) if name == "svc" else fitted[-1].certificate_
        assert (table.loc[name, "lower"], table.loc[name, "upper"]) == (own.lower, own.upper)
    assert table.loc["bare", ["status", "certified"]].tolist() == ["failed", False]
    assert "X is not numeric in columns sex, site" in table.loc["bare", "note"]
    with pytest.raises(sx.DataError, match="X is not numeric in columns sex, site"):
        sx.compare([sx.PSVMClassifier()], frame, y)


def test_missing_values_are_the_matter_of_the_models_without_a_pipeline(tmp_path):
    frame, y = raw_table()
    numbers = frame[["age", "smokes"]]
    pipe = make_pipeline(SimpleImputer(), StandardScaler(), sx.PSVMClassifier(p=2.0))
    models = {"pipe": pipe, "bare": sx.PSVMClassifier(p=2.0)}
    refused = sx.compare(models, numbers, y).set_index("model")
    assert refused.loc["pipe", "certified"]
    assert (
        "1 values are missing, in column age; pass missing='drop' or missing='median'"
        in refused.loc["bare", "note"]
    )
    store = tmp_path / "rows.sqlite"
    filled = sx.compare(models, numbers, y, missing="median", store=store).set_index("model")
    assert filled["certified"].all()
    # The mean of the pipeline's imputer is not the median.
    assert filled.loc["pipe", "upper"] == refused.loc["pipe", "upper"]
    sparse = sp.coo_array(numbers.to_numpy(float))
    for given in (numbers, sparse, sparse.tocsc()):
        dropped = sx.compare(models, given, y, missing="drop")
        assert dropped.part.y.size + dropped.part.y_test.size == 79
    again = sx.compare(models, numbers, y, missing="median", store=store)
    assert (again.reused, again.part.X.shape[0]) == (2, 56)
    assert again["seconds"].tolist() == filled["seconds"].tolist()


def test_metrics_are_columns_and_models_that_predict_one_class_are_told():
    rng = np.random.default_rng(1)
    y = np.r_[np.zeros(76, dtype=int), np.ones(4, dtype=int)]
    models = {"p": sx.PSVMClassifier(C=1e-4), "tree": DecisionTreeClassifier(random_state=0)}
    rare = rng.normal(size=(80, 3)) + 9.0 * y[:, None]
    table = sx.compare(
        models, rare, y, metrics=("accuracy", "balanced_accuracy", "roc_auc"), guarantee=True
    )
    metrics = ["accuracy", "balanced_accuracy", "roc_auc"]
    ends = [f"{name}_{end}" for name in metrics for end in ("lower", "upper")]
    assert list(table.columns) == [*FIRST, *metrics, *ends, "undecided", *LAST]
    row = table.loc[0]
    assert (row["accuracy"], row["balanced_accuracy"]) == (23 / 24, 0.5)
    assert "predicts one class only, 0" in row["note"]
    assert row["balanced_accuracy_lower"] <= 0.5 <= row["balanced_accuracy_upper"]
    assert 0.0 <= row["roc_auc"] <= 1.0
    assert "one class" not in table.loc[1, "note"]
    with pytest.raises(sx.DataError, match="metrics must hold names of scores"):
        sx.compare(models, X, Y, metrics="acuracy")
    with pytest.raises(DataTypeError, match="metrics must hold names of scores"):
        sx.compare(models, X, Y, metrics=5)


def test_the_conventions_of_each_row_are_told():
    models = {
        "hinge": sx.PSVMClassifier(),
        "bare": sx.PSVMClassifier(intercept=False, kernel="rbf"),
        "odm": sx.ODMClassifier(),
        "paper": sx.ODMClassifier(intercept=False, kernel=sx.Polynomial(degree=2)),
        "svc": SVC(),
        "linear": make_pipeline(StandardScaler(), LinearSVC(fit_intercept=False)),
        "tree": DecisionTreeClassifier(),
    }
    assert {name: conventions(model) for name, model in models.items()} == {
        "hinge": "linear, free intercept, losses summed",
        "bare": "rbf kernel, no intercept, losses summed",
        "odm": "linear, penalised intercept, losses averaged",
        "paper": "Polynomial kernel, no intercept, losses averaged",
        "svc": "rbf kernel, free intercept, losses summed",
        "linear": "linear, no intercept, losses summed",
        "tree": "",
    }


def test_a_file_and_a_frame_are_taken_with_the_column_of_the_labels(tmp_path):
    frame = pd.DataFrame(X).add_prefix("x").assign(side=Y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    plain = sx.compare("psvm:p=1", X, Y)
    for data in (frame, tmp_path / "t.csv", str(tmp_path / "t.csv")):
        found = sx.compare("psvm:p=1", data, "side")
        assert found["upper"].tolist() == plain["upper"].tolist()
    selected = sx.select("psvm:p=1", {"C": [1.0]}, frame, "side", cv=3)
    assert selected["certified"].all()
    studied = sx.study("psvm:p=1", {"t": (tmp_path / "t.csv", "side")}, repeats=1)
    assert studied.frame["certified"].all()
    with pytest.raises(sx.DataError, match="target must be among the columns of the data frame"):
        sx.compare("psvm", frame, "label")
    with pytest.raises(TypeError, match="name the column of the labels, as y"):
        sx.compare("psvm", frame)


def test_a_table_for_a_document_has_the_columns_and_digits_that_were_asked_for(tmp_path):
    models = {"a_b": sx.PSVMClassifier(), "svc": SVC(), "constant": DummyClassifier()}
    table = sx.compare(models, X, Y, metrics=("balanced_accuracy",))
    text = table.latex(tmp_path / "t.tex")
    assert (tmp_path / "t.tex").read_text() == text
    assert (
        r"model & upper & gap & accuracy & balanced accuracy & support vectors & seconds \\" in text
    )
    # The name that pandas has for it, and its own form.
    assert table.to_latex() == table.to_latex(tmp_path / "t.tex") == text
    assert "train\\_accuracy" in table.to_latex(index=False, escape=True)
    short = table.latex(columns=["model", "accuracy", "lower"], digits=2).splitlines()
    assert short[2] == r"model & accuracy & lower \\"
    accuracy, lower = table.loc[0, "accuracy"], table.loc[0, "lower"]
    assert short[4] == rf"a\_b & ${accuracy:.2f}$ & ${lower:.4g}$ \\"
    assert short[6].endswith(r"& -- \\")  # no certificate
    # A column that holds nothing is left out, such as the support vectors of other models.
    alone = sx.compare({"constant": DummyClassifier()}, X, Y).latex()
    assert r"model & accuracy & seconds \\" in alone
    with pytest.raises(
        sx.DataError, match=r"t\.tex cannot be written \(No such file or directory\)"
    ):
        table.latex(tmp_path / "nowhere" / "t.tex")
    with pytest.raises(sx.DataError, match="got 'test_acuracy'; did you mean 'accuracy'"):
        table.latex(columns=["test_acuracy"])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"models": []}, "models is empty"),
        ({"models": [sx.PSVMClassifier]}, "pass instances"),
        ({"models": ["svm"]}, "a name in models must be one of 'psvm'"),
        ({"models": [5]}, "pass instances"),
        ({"y": None}, "must be the name of a data set, .* got a ndarray"),
        ({"X": pd.DataFrame(X), "y": None}, "got a DataFrame; .* name the column of the labels"),
        ({"X": "nothing", "y": None}, "no data set is called 'nothing'"),
        ({"tune": [1]}, "tune must be a mapping"),
        ({"tune": {"c": [1]}}, "a parameter of tune must be one of"),
        ({"scale": "log"}, "scale must be one of"),
        ({"split": 1.0}, "split must be"),
        ({"split": 0.999}, "the split cannot be made"),
        ({"tol": 0}, "tol must be"),
        ({"y": [1]}, "1 labels but X has"),
        (
            {"X": np.arange(9.0)[:, None], "y": [0, 0, 0, 0, 1, 1, 1, 1, 7]},
            "the split cannot be made .*least populated",
        ),
    ],
)
def test_bad_arguments(keywords, message):
    with pytest.raises(sx.DataError, match=message):
        sx.compare(**{"models": MODELS, "X": X, "y": Y, **keywords})


@pytest.mark.parametrize("name", ["drop", "target"])
def test_arguments_of_the_reader_of_files_are_named(name):
    machine, data = sx.PSVMClassifier(), "iris:versicolor-virginica"
    for call in (
        lambda **one: sx.compare([machine], data, **one),
        lambda **one: sx.select(machine, {"C": [1.0]}, data, **one),
        lambda **one: sx.study([machine], [data], **one),
    ):
        with pytest.raises(sx.SvmcvxError, match=f"{name}'; it belongs to svmcvx.datasets.load"):
            call(**{name: "id"})


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path, monkeypatch):
    store = tmp_path / "rows.sqlite"

    genuine = sx.PSVMClassifier.fit

    def interrupted(self, *arguments):
        if self.p == 1.5:
            raise KeyboardInterrupt
        return genuine(self, *arguments)

    monkeypatch.setattr(sx.PSVMClassifier, "fit", interrupted)
    with pytest.warns(UserWarning, match="interrupted after 2 of 3 models") as warned:
        table = sx.compare(MODELS, X, Y, store=store)
    assert warned[0].filename == __file__
    assert (table["model"].tolist(), table.complete) == (["hinge", "squared"], False)
    assert len(Store(store)) == 2
    fits = []
    monkeypatch.setattr(
        sx.PSVMClassifier,
        "fit",
        lambda self, *a, **k: (fits.append(self.p), genuine(self, *a, **k))[1],
    )
    table = sx.compare(MODELS, X, Y, store=store)
    assert fits == [1.5]
    assert (table.complete, table.reused) == (True, 2)
    assert table["certified"].all()
    assert table["model"].tolist() == list(MODELS)
    sx.compare(MODELS, X, Y, store=store)
    assert fits == [1.5]
    sx.compare(MODELS, X, Y, store=store, seed=1)
    assert len(fits) == 4, "another split is another result"
    sx.compare(MODELS, X, Y, store=store, seed=1, guarantee=True)
    assert len(fits) == 7, "rows with intervals are other rows"


def test_models_can_be_written_as_text():
    named = parse_models(
        "psvm:p=1,psvm:p=1.5,C=10,psvm:kernel=rbf:p=2,psvm", C=3.0, kernel=None, nonsense=1
    )
    assert [name for name, _ in named] == [
        "psvm(p=1)",
        "psvm(p=1.5, C=10)",
        "psvm(kernel=rbf, p=2)",
        "psvm",
    ]
    assert [model.C for _, model in named] == [3.0, 10, 3.0, 3.0]
    assert named[2][1].kernel == "rbf"
    assert math.isinf(parse_models("psvm:C=inf")[0][1].C), "the hard margin"
    assert isinstance(parse_models("zero_one:lam=2")[0][1], sx.ZeroOneSVMClassifier)
    common = {"C": 2.0, "kernel": None, "tol": 1e-9}
    (_, svc), (_, rbf), (_, linear) = parse_models("svc,svc:kernel=rbf,linearsvc:C=5", **common)
    assert (svc.kernel, svc.C, svc.tol) == ("linear", 2.0, SVC().tol)
    assert (rbf.kernel, linear.C, linear.random_state) == ("rbf", 5, 0)
    assert parse_models("svc", kernel="poly")[0][1].kernel == "poly"


def test_models_and_data_may_be_names_and_the_table_prints_its_numbers():
    data = sx.datasets.load("iris")
    table = sx.compare("psvm:p=2,svc", "iris")
    models = {"psvm(p=2)": sx.PSVMClassifier(p=2), "svc": SVC(kernel="linear", random_state=0)}
    for given in (data, (data.X, data.y)):
        other = sx.compare(models, given)
        assert other.drop(columns="seconds").equals(table.drop(columns="seconds"))
    lines = repr(table).splitlines()
    names = ["model", "lower", "upper", "gap", "certified", "accuracy", "n_support", "seconds"]
    assert lines[0].split() == names
    for row, line in zip(table.itertuples(), lines[1:], strict=False):
        lower, upper = interval(row.lower, row.upper, 10)
        cells = [lower, upper, f"{row.gap:.1e}", "yes" if row.certified else "no"]
        assert line.split()[:6] == [row.model, *cells, f"{row.accuracy:.4f}"]
    assert lines[-1] == "psvm(p=2), svc: linear, free intercept, losses summed"
    assert "accuracy" not in repr(table[["model", "gap"]])
    again = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own
    assert (repr(again), again.complete) == (repr(table), True)
    for name in ("linear, free intercept", "n_support"):
        assert name in table._repr_html_()
    del again["note"]
    assert "rows x" in repr(again), "a table without its columns is as any other"


def test_a_tuned_comparison_is_a_search_in_the_training_part():
    grid = {"C": [0.01, 0.1, 1.0]}
    models = {"squared": sx.PSVMClassifier(p=2.0), "svc": SVC(kernel="linear"), "odm": "odm"}
    table = sx.compare(models, X, Y, tune=grid, cv=3, seed=2).set_index("model")
    X_train, X_test, y_train, y_test = train_test_split(
        X, Y, test_size=0.3, random_state=2, stratify=Y
    )
    for name in ("squared", "svc"):
        folds = StratifiedKFold(3, shuffle=True, random_state=2)
        pipe = Pipeline([("scale", StandardScaler()), ("model", models[name])])
        found = GridSearchCV(pipe, {"model__C": grid["C"]}, cv=folds).fit(X_train, y_train)
        assert table.loc[name, "params"] == {"C": found.best_params_["model__C"]}
        assert table.loc[name, "accuracy"] == found.score(X_test, y_test)
        assert table.loc[name, "tuning_fits"] == 9
    assert table.loc["squared", "tuning_certified"] == 9
    assert (table.loc["odm", "params"], table.loc["odm", "tuning_fits"]) == ({}, 0)
    given = table["conventions"].str.endswith(", no grid: fitted as given")
    assert given.tolist() == [False, False, True]
    assert r"parameters \\" in table.reset_index().latex()
    one = sx.compare(models, X, Y, tune={"svc": grid}, cv=3).set_index("model")
    assert one["tuning_fits"].tolist() == [0, 9, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("svm", "a name in models must be one of 'psvm'"),
        ("psvm:q=1", "unexpected keyword argument 'q'"),
        ("psvm:p", "key=value"),
        ("p=1", "begin with one of"),
        ("psvm,,psvm", "empty entry"),
        ("", "empty entry"),
    ],
)
def test_models_that_cannot_be_read(text, message):
    with pytest.raises(sx.DataError, match=message):
        parse_models(text)


def test_what_every_optimal_machine_scores_stands_in_the_table():
    models = {
        "hinge": sx.PSVMClassifier(),
        "loose": sx.PSVMClassifier(kernel="rbf", tol=0.1),
        "pipe": make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0)),
        "conic": sx.ConicSVMClassifier(),
        "svc": SVC(),
    }
    comparison = sx.compare(models, X, Y, guarantee=True, return_estimator=True)
    table, part = comparison.set_index("model"), comparison.part
    for name in ("hinge", "loose"):
        scaler, fitted = comparison.estimators[name]
        fitted.guarantee(scaler.transform(part.X), part.y)
        interval = fitted.score_interval(scaler.transform(part.X_test), part.y_test)
        # What the gap of the loose fit leaves open is decided by a smaller one.
        assert interval.is_number == (name == "hinge")
        assert table.loc[name, "accuracy_lower"] == table.loc[name, "accuracy_upper"]
        assert table.loc[name, "accuracy_lower"] in interval
        assert table.loc[name, "undecided"] == 0.0
    assert table.loc["loose", "gap"] > 1e-6
    assert (
        table.loc["pipe", "accuracy_lower"]
        <= table.loc["pipe", "accuracy"]
        <= table.loc["pipe", "accuracy_upper"]
    )
    assert table.loc[["conic", "svc"], ["accuracy_lower", "undecided"]].isna().all(axis=None)
    assert "no guarantee: there are no guarantees of conic" in table.loc["conic", "note"]
    shown = with_intervals(
        table.assign(accuracy_upper=table["accuracy_upper"] + 0.1 * (table.index == "loose"))
    )
    assert shown.loc["loose", "exact_accuracy"].startswith("[")
    assert shown.loc["hinge", "exact_accuracy"] == f"{table.loc['hinge', 'accuracy_lower']:.4f}"
    assert "exact_accuracy" in table._repr_html_()
    assert "exact accuracy" in latex_frame(table)
    assert not {"accuracy_lower", "undecided"} & {*sx.compare(models, X, Y).columns}
    with pytest.raises(sx.DataError, match="split=0"):
        sx.compare(models, X, Y, split=0.0, guarantee=True)


def test_ends_are_rounded_outward():
    for ends, text in (
        ((0.5, 0.5), "0.5000"),
        ((0.12341, 0.12349), "[0.1234, 0.1235]"),
        ((0.3, 0.7), "[0.3000, 0.7000]"),
        ((None, 1.0), ""),
    ):
        assert interval_text(*ends) == text
    whole = with_intervals(pd.DataFrame({"a_exact_lower": [1.23456], "a_exact_upper": [99.0]}))
    assert whole["a_exact"].tolist() == ["[1.23456, 99]"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_limit_leaves_open_stays_an_interval(monkeypatch):
    model = sx.PSVMClassifier(kernel="rbf", tol=0.1).fit(X[:40], Y[:40])
    gap = model.certificate_.gap
    model.time_limit = 1e-9
    asked = (model, Part(X[:40], Y[:40], X[40:], Y[40:]), ("accuracy",))
    found, _ = exact_scores(*asked)
    assert model.guarantee(X[:40], Y[:40]).accuracy(X[40:], Y[40:]) == sx.guarantees.Interval(
        found["accuracy_lower"], found["accuracy_upper"]
    )
    assert found["undecided"] > 0.0
    assert model.certificate_.gap == gap

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sx.PSVMClassifier, "fit", interrupted)
    model.time_limit = None
    with pytest.raises(KeyboardInterrupt):
        exact_scores(*asked)


def test_a_metric_that_needs_probabilities_is_a_note():
    metric = "neg_log_loss"
    models = {"svm": sx.PSVMClassifier(), "logistic": LogisticRegression()}
    table = sx.compare(models, X, Y, metrics=metric).set_index("model")
    assert np.isnan(table.loc["svm", metric])
    assert f"no {metric}: " in table.loc["svm", "note"]
    assert np.isfinite(table.loc["logistic", metric])
    found = sx.study(models, {"one": (X, Y)}, repeats=2, metrics=("accuracy", metric))
    assert not len(found.failures())
    assert found.mean("accuracy").notna().all(axis=None)
    assert found.mean(metric).isna().to_numpy().tolist() == [[True, False]]
    assert found.frame["note"].str.contains(f"no {metric}: ").tolist() == [True, False] * 2


def test_kernel_matrices_are_split_on_both_sides(tmp_path):
    K = sx.RBF(0.5)(X)
    given, rbf = sx.PSVMClassifier(kernel="precomputed"), sx.PSVMClassifier(kernel="rbf", gamma=0.5)
    models = {"ours": given, "svc": SVC(kernel="precomputed", tol=1e-8)}
    table = sx.compare(models, K, Y, proofs=tmp_path).set_index("model")
    other = sx.compare({"rbf": rbf}, X, Y, scale="none").set_index("model").loc["rbf"]
    for name in models:
        assert table.loc[name, "upper"] == pytest.approx(other["upper"], rel=1e-6)
        assert table.loc[name, "accuracy"] == other["accuracy"]
    seen = sx.datasets.load(tmp_path / "ours" / "training.npz")
    assert sx.verify(tmp_path / "ours" / "ours.npz", seen.X, seen.y).holds
    found = sx.study({"a": given}, {"s": (K, Y)}, repeats=2, tune={"C": [0.1, 1.0]}, cv=2)
    plain = sx.study(
        {"a": rbf}, {"s": (X, Y)}, repeats=2, tune={"C": [0.1, 1.0]}, cv=2, scale="none"
    )
    assert found.frame["accuracy"].tolist() == plain.frame["accuracy"].tolist()
    oblong = sx.compare({"a": given}, X, Y)
    assert "X must be the square kernel matrix" in oblong.loc[0, "note"]
