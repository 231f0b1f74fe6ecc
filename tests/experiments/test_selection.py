import pickle
import re
import signal
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.metrics import balanced_accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.experiments import Selection
from svmcvx.experiments.selection import PATH_PARAMETERS, paths_of
from svmcvx.experiments.store import Store, progress_bar
from svmcvx.kernels.gram import GramCache
from tests.conftest import make_data

X, Y = make_data(n=90)
VALUES = [0.01, 0.1, 1.0, 10.0]
FAST = {"solver": "fast", "tol": 1e-7}
COLUMNS = [
    "mean_test_score",
    "std_test_score",
    "rank_test_score",
    "split0_test_score",
    "split2_test_score",
]


def assert_same_answers(table, other, tol=1e-6):
    """Same scores; intervals that meet."""
    for column in COLUMNS:
        assert table[column].tolist() == pytest.approx(other[column].tolist(), nan_ok=True), column
    for k in (0, 2):
        lower = np.maximum(table[f"split{k}_lower"], other[f"split{k}_lower"])
        upper = np.minimum(table[f"split{k}_upper"], other[f"split{k}_upper"])
        assert (lower <= upper + tol * np.abs(upper)).all()


def seeing_the_pipeline(model, X, y):
    assert isinstance(model, Pipeline)
    return balanced_accuracy_score(y, model.predict(X))


SCALED = make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0, **FAST))
STEPS = Pipeline([("scale", StandardScaler()), ("pca", PCA()), ("svm", sx.PSVMClassifier(**FAST))])
NAMES, POINTS = (
    np.repeat(["a", "b", "c"], 30),
    X + 2.0 * np.eye(3, X.shape[1])[np.repeat([0, 1, 2], 30)],
)
WEIGHT = np.linspace(0.5, 2.0, len(Y))
# An estimator, a grid, and what else is passed to both searches.
SEARCHES = {
    "psvm": (sx.PSVMClassifier(p=1.5, kernel="poly", coef0=1.0, **FAST), {"C": VALUES}, {}),
    "odml": (sx.ODMLClassifier(kernel="rbf", **FAST), {"lam1": [0.01, 0.1, 1.0]}, {}),
    "a list of grids": (
        sx.PSVMClassifier(**FAST),
        [{"C": [0.1, 1.0], "kernel": ["rbf"], "gamma": [0.1, 1.0]}, {"C": [1.0], "p": [2.0]}],
        {},
    ),
    "settings of steps": (
        STEPS,
        {
            "scale": [StandardScaler(), MinMaxScaler(), "passthrough"],
            "pca__n_components": [1, 2],
            "svm__C": [0.1, 1.0],
        },
        {},
    ),
    "other estimators": (
        STEPS,
        {"svm": [sx.PSVMClassifier(p=2.0, **FAST), SVC()], "svm__C": [0.1, 1.0]},
        {},
    ),
    "no estimator of ours": (SVC(), {"C": VALUES}, {}),
    **{
        f"scored by {number}": (SCALED, {"psvmclassifier__C": VALUES}, {"scoring": scoring})
        for number, scoring in enumerate(
            ("roc_auc", make_scorer(balanced_accuracy_score), seeing_the_pipeline)
        )
    },
    "groups": (
        sx.PSVMClassifier(**FAST),
        {"C": [0.1, 1.0]},
        {"cv": GroupKFold(3), "groups": np.arange(Y.size) % 5},
    ),
    "several classes": (
        sx.PSVMClassifier(p=2.0, kernel="rbf", **FAST),
        {"C": VALUES},
        {"X": POINTS, "y": NAMES},
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_result_is_that_of_grid_search(name):
    model, grid, more = SEARCHES[name]
    asked = {"X": X, "y": Y, "cv": 3, **more}
    table = sx.select(model, grid, **asked, tol=1e-5)
    fitted = {key: asked.pop(key) for key in ("X", "y", "groups") if key in asked}
    search = GridSearchCV(model, grid, **asked).fit(**fitted)
    for column in COLUMNS:
        assert table[column].tolist() == pytest.approx(search.cv_results_[column].tolist()), column
    assert table["params"].tolist() == search.cv_results_["params"]
    assert table.best_params_ == search.best_params_
    assert table.best_index_ == search.best_index_
    assert table.best_score_ == pytest.approx(search.best_score_)
    assert (
        table.best_estimator_.predict(fitted["X"]).tolist() == search.predict(fitted["X"]).tolist()
    )
    ours = np.array([not isinstance(params.get("svm", model), SVC) for params in table["params"]])
    # Those of scikit-learn stop at their own tolerance, 1e-3, and have their interval, too.
    assert table["certified"][ours].all()
    assert (table["gap"] < 2e-3).all()
    assert (table["warm_starts"][~ours] == 0).all()
    assert table["gap"][ours].max() <= 1e-7 or not ours.any()


def test_a_model_and_data_may_be_names():
    data = sx.datasets.load("iris")
    whole = sx.select(sx.PSVMClassifier(p=2.0), {"C": [0.1, 1.0]}, data.X, data.y, cv=3)
    for given in ("iris", data):
        found = sx.select("psvm:p=2", {"C": [0.1, 1.0]}, given, cv=3)
        assert found.drop(columns="seconds").equals(whole.drop(columns="seconds"))


def test_models_of_scikit_learn_have_their_intervals_with_weights():
    table = sx.select(
        SVC(tol=1e-9), {"C": [0.3, 0.5]}, X, Y, cv=2, sample_weight=WEIGHT, refit=False
    )
    assert table["certified"].tolist() == [True, True]
    for k, (train, _) in enumerate(StratifiedKFold(2).split(X, Y)):
        own = SVC(C=0.5, tol=1e-9).fit(X[train], Y[train], sample_weight=WEIGHT[train])
        found = sx.certify(own, X[train], Y[train], sample_weight=WEIGHT[train])
        assert (table[f"split{k}_lower"][1], table[f"split{k}_upper"][1]) == (
            *(found.lower, found.upper),
        )


def test_a_model_whose_problem_is_not_known_is_not_called_uncertified():
    table = sx.select(GaussianNB(), {"var_smoothing": [1e-9, 1e-6]}, X, Y, cv=2)
    assert table["certified"].tolist() == [None, None]
    assert "answers no problem that svmcvx knows" in table["note"][0]


def test_intervals_hold_the_optimum_of_each_fold():
    table = sx.select(sx.PSVMClassifier(p=1.5, kernel="rbf", **FAST), {"C": VALUES}, X, Y, cv=3)
    for k, (train, _) in enumerate(StratifiedKFold(3).split(X, Y)):
        for i, C in enumerate(VALUES[1:3], start=1):
            problem = sx.psvm_dual(X[train], Y[train], C=C, p=1.5, kernel="rbf")
            optimum = sx.solve(problem).certificate
            assert table[f"split{k}_lower"][i] <= optimum.upper
            assert table[f"split{k}_upper"][i] >= optimum.lower


def test_all_but_the_first_of_a_path_start_warm():
    table = sx.select(
        sx.PSVMClassifier(p=2.0, **FAST), {"C": VALUES[::-1]}, X, Y, cv=3, refit=False
    )
    assert table["param_C"].tolist() == VALUES[::-1]
    assert table["warm_starts"].tolist() == [3, 3, 3, 0]
    assert table.best_estimator_ is None
    assert (table["seconds"] > 0).all()


def test_columns_are_pinned_parts_are_plain_frames_and_the_whole_is_picklable():
    table = sx.select(sx.PSVMClassifier(**FAST), {"C": [0.1, 1.0], "p": [1.0]}, X, Y, cv=2)
    assert isinstance(table, Selection)
    scores = "split0_test_score split1_test_score mean_test_score std_test_score rank_test_score"
    bounds = "split0_lower split0_upper split1_lower split1_upper gap certified"
    facts = "n_support solver status warm_starts seconds note"
    expected = f"param_C param_p params {scores} {bounds} {facts}"
    assert list(table.columns) == expected.split()
    assert table["params"].tolist() == [{"C": 0.1, "p": 1.0}, {"C": 1.0, "p": 1.0}]
    assert table.complete
    assert (table["status"] == "optimal").all()
    assert table["solver"].str.startswith("fast.psvm/").all()
    assert not isinstance(table[["param_C", "certified"]], Selection)
    again = pickle.loads(pickle.dumps(table))  # noqa: S301
    assert again.best_params_ == table.best_params_
    assert again.best_estimator_.predict(X).tolist() == table.best_estimator_.predict(X).tolist()


# Paths


def test_settings_are_ordered_into_paths():
    candidates = [{"C": C, "p": p} for C in (10.0, 0.1, 1.0) for p in (1.0, 2.0)]
    paths = paths_of(sx.PSVMClassifier(), candidates)
    assert [path.parameter for path in paths] == ["C", "C"]
    assert [[s["C"] for s in path.settings] for path in paths] == [[0.1, 1.0, 10.0]] * 2
    assert [path.positions for path in paths] == [(2, 4, 0), (3, 5, 1)]
    longer = [{"C": C, "p": p} for C in (0.1, 1.0) for p in (1.0, 1.5, 2.0)]
    assert {path.parameter for path in paths_of(sx.PSVMClassifier(), longer)} == {"p"}
    square = [{"C": C, "p": p} for C in (0.1, 1.0) for p in (1.0, 1.5)]
    assert {path.parameter for path in paths_of(sx.PSVMClassifier(), square)} == {"C"}
    assert PATH_PARAMETERS.index("C") < PATH_PARAMETERS.index("p")


def test_only_numbers_of_the_final_estimator_make_a_path():
    pipeline = make_pipeline(PCA(), sx.PSVMClassifier())
    for model, candidates in (
        (pipeline, [{"pca__n_components": 1}, {"pca__n_components": 2}]),
        (sx.PSVMClassifier(), [{"C": 1.0}, {"C": "big"}]),
    ):
        assert [path.parameter for path in paths_of(model, candidates)] == [None, None]
    (path,) = paths_of(pipeline, [{"psvmclassifier__C": 2.0}, {"psvmclassifier__C": 1.0}])
    assert (path.parameter, path.positions) == ("psvmclassifier__C", (1, 0))


class CountingScaler(StandardScaler):
    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


class Doubling(sx.PSVMClassifier):
    """Fits twice the C that it is given."""

    def fit(self, X, y, sample_weight=None):
        self.solution_ = sx.PSVMClassifier(C=2.0 * self.C).fit(X, y).solution_
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self


def test_a_subclass_is_fitted_by_its_own_fit():
    own = sx.select(Doubling(), {"C": [0.5, 1.0]}, X, Y, cv=2, refit=False)
    plain = sx.select(sx.PSVMClassifier(), {"C": [1.0, 2.0]}, X, Y, cv=2, refit=False)
    assert own["split0_upper"].tolist() == pytest.approx(plain["split0_upper"].tolist())


def test_transformers_are_fitted_once_for_each_path_and_fold():
    CountingScaler.fits = 0
    model = make_pipeline(CountingScaler(), sx.PSVMClassifier(**FAST))
    sx.select(model, {"psvmclassifier__C": VALUES}, 10 * X + 3, Y, cv=3, refit=False)
    assert CountingScaler.fits == 3


# Data and arguments


def test_data_of_all_kinds():
    names = np.where(np.asarray(Y) == np.unique(Y)[0], "no", "yes")
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = sx.PSVMClassifier(p=2.0, **FAST)
    expected = sx.select(model, {"C": VALUES}, X, Y, cv=3)
    for data, labels in [
        (X.tolist(), names.tolist()),
        (sp.csr_matrix(X), names),
        (sp.coo_array(X), names),
        (frame, pd.Series(names)),
    ]:
        table = sx.select(model, {"C": VALUES}, data, labels, cv=3)
        assert_same_answers(table, expected)
    assert list(table.best_estimator_.feature_names_in_) == list(frame)


def test_sample_weights_reach_the_final_estimator():
    weight = np.random.default_rng(0).integers(0, 4, Y.size).astype(float)
    grid = {"psvmclassifier__C": VALUES}
    table = sx.select(SCALED, grid, X, Y, cv=3, sample_weight=weight)
    search = GridSearchCV(SCALED, grid, cv=3).fit(X, Y, psvmclassifier__sample_weight=weight)
    scores = search.cv_results_["mean_test_score"].tolist()
    assert table["mean_test_score"].tolist() == pytest.approx(scores)
    difference = table.best_estimator_.decision_function(X) - search.decision_function(X)
    assert np.abs(difference).max() < 1e-3
    plain = sx.select(SCALED, grid, X, Y, cv=3)
    assert plain["split0_upper"].tolist() != pytest.approx(table["split0_upper"].tolist())


def test_folds_are_those_asked_for():
    model, grid = sx.PSVMClassifier(**FAST), {"C": [0.1, 1.0]}
    shuffled = sx.select(model, grid, X, Y, cv=3, seed=7)
    splitter = sx.select(model, grid, X, Y, cv=StratifiedKFold(3, shuffle=True, random_state=7))
    assert_same_answers(shuffled, splitter)
    pairs = list(KFold(4).split(X))
    table = sx.select(model, grid, X, Y, cv=pairs)
    assert {"split3_test_score", "split3_lower"} <= set(table)


def test_a_setting_that_fails_has_the_reason_and_no_score():
    table = sx.select(sx.PSVMClassifier(**FAST), {"C": [-1.0, 1.0]}, X, Y, cv=3)
    assert pd.isna(table["mean_test_score"][0])
    assert "C must be" in table["note"][0]
    assert table["rank_test_score"].tolist() == [2, 1]
    assert table.best_params_ == {"C": 1.0}
    assert table["certified"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"estimator": sx.PSVMClassifier}, "estimator must be one estimator"),
        ({"grid": {"Q": [1.0]}}, "grid cannot be used: PSVMClassifier has no parameter 'Q'"),
        ({"grid": {"C": 1.0}}, "grid cannot be used"),
        ({"grid": {"c": [1.0]}, "estimator": SCALED}, "no parameter 'c'"),
        ({"estimator": "psvm,odm"}, "estimator must be one estimator .* 'psvm,odm'"),
        ({"y": None}, "data must be the name of a data set, a Dataset, or"),
        ({"grid": []}, "grid is empty"),
        ({"grid": [{"C": [1.0]}, {"C": [1.0], "nonsense": [2.0]}]}, "grid cannot be used"),
        ({"grid": {"C": [-1.0]}}, "every setting of the grid fails in some fold: C must be"),
        ({"cv": 1}, "cv cannot be used"),
        ({"cv": 1000}, "cv cannot be used"),
        ({"scoring": "nonsense"}, "scoring cannot be used"),
        ({"scoring": ["accuracy", "f1"]}, "scoring must be one score"),
        ({"tol": 0}, "tol must be"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"sample_weight": [1.0]}, "sample_weight must hold one number"),
        ({"y": Y[:-1]}, "X and y cannot be used"),
    ],
)
def test_unusable_arguments_are_named(keywords, message):
    given = {"estimator": sx.PSVMClassifier(**FAST), "grid": {"C": [1.0]}, "X": X, "y": Y, "cv": 3}
    with pytest.raises(sx.DataError, match=message):
        sx.select(**given | keywords)


# Stopping and going on


def kept(file):
    return len(Store(file))


def test_a_store_spares_finished_fits(tmp_path, monkeypatch):
    model, grid = sx.PSVMClassifier(p=2.0, **FAST), {"C": VALUES}
    first = sx.select(model, grid, X, Y, cv=3, store=tmp_path / "new" / "fits")
    assert kept(tmp_path / "new" / "fits") == 12
    monkeypatch.setattr(sx.PSVMClassifier, "_fit", lambda *_: pytest.fail("fitted again"))
    again = sx.select(model, grid, X, Y, cv=3, store=tmp_path / "new" / "fits", refit=False)
    pd.testing.assert_frame_equal(pd.DataFrame(again), pd.DataFrame(first))


def test_a_store_is_for_the_same_work_only(tmp_path):
    def added(**more):
        before = kept(tmp_path / "s.sqlite")
        asked = {"estimator": sx.PSVMClassifier(p=2.0, **FAST), "grid": {"C": [0.1, 1.0]}, "X": X}
        asked |= {"y": Y, "cv": 2, "store": tmp_path / "s.sqlite", "refit": False}
        sx.select(**asked | more)
        return kept(tmp_path / "s.sqlite") - before

    assert (added(), added()) == (4, 0)
    assert added(grid={"C": [0.1, 1.0, 10.0]}) == 2  # only what is new
    for other in (
        {"estimator": sx.PSVMClassifier(p=1.5, **FAST)},
        {"X": 2 * X},
        {"y": np.where(np.arange(Y.size) < 2, Y[::-1], Y)},
        {"guarantee": True},
        {"cv": StratifiedKFold(2, shuffle=True, random_state=0)},
        {"scoring": "balanced_accuracy"},
        {"sample_weight": np.arange(1.0, Y.size + 1)},
    ):
        assert added(**other) == 4, other


def interrupting(monkeypatch, after):
    original, calls = sx.PSVMClassifier._fit, []

    def fit(self, *arguments):
        calls.append(None)
        if len(calls) > after:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(sx.PSVMClassifier, "_fit", fit)


def test_ctrl_c_gives_what_is_finished(monkeypatch, tmp_path):
    model, grid = sx.PSVMClassifier(p=2.0, **FAST), {"C": VALUES}
    whole = sx.select(model, grid, X, Y, cv=3)
    with monkeypatch.context() as patched:
        interrupting(patched, 6)
        with pytest.warns(UserWarning, match="interrupted after 6 of 12 fits"):
            part = sx.select(model, grid, X, Y, cv=3, store=tmp_path / "s.sqlite")
    assert not part.complete
    assert part.best_estimator_ is None
    assert part["split0_test_score"].tolist() == whole["split0_test_score"].tolist()
    assert part["split1_test_score"].isna().tolist() == [False, False, True, True]
    assert part["mean_test_score"].isna().all()
    assert not part["certified"].any()
    assert kept(tmp_path / "s.sqlite") == 6
    assert_same_answers(sx.select(model, grid, X, Y, cv=3, store=tmp_path / "s.sqlite"), whole)


def test_ctrl_c_keeps_what_other_threads_have_finished(monkeypatch, tmp_path):
    model, grid = sx.PSVMClassifier(p=2.0, **FAST), {"C": VALUES}
    with monkeypatch.context() as patched, joblib.parallel_config(backend="threading"):
        interrupting(patched, 5)
        with pytest.warns(UserWarning, match="interrupted after"):
            part = sx.select(model, grid, X, Y, cv=3, n_jobs=2, store=tmp_path / "s.sqlite")
    assert not part.complete
    assert 1 <= kept(tmp_path / "s.sqlite") <= 5
    # Threads cannot be ended; what they still write does no harm.
    assert_same_answers(
        sx.select(model, grid, X, Y, cv=3, store=tmp_path / "s.sqlite"),
        sx.select(model, grid, X, Y, cv=3),
    )


def test_a_fit_that_ctrl_c_ended_early_is_not_a_finished_one(monkeypatch):
    original = sx.PSVMClassifier._fit

    def fit(self, data, warm=None, cache=None):
        if self.C == 1.0:
            signal.raise_signal(signal.SIGINT)
        return original(self, data, warm)

    monkeypatch.setattr(sx.PSVMClassifier, "_fit", fit)
    with pytest.warns(
        UserWarning, match=r"interrupted after 2 of 12 fits.*pass store='rows.sqlite'"
    ):
        table = sx.select(sx.PSVMClassifier(**FAST), {"C": VALUES}, X, Y, cv=3)
    assert table["split0_test_score"].isna().tolist() == [False, False, True, True]


def test_progress_is_shown(capsys):
    sx.select(sx.PSVMClassifier(**FAST), {"C": [0.1, 1.0]}, X, Y, cv=2, progress=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "rich.console", None)
        with pytest.raises(
            sx.SolverUnavailable, match=r"rich is not installed; run: pip install 'svmcvx\[cli\]'"
        ):
            sx.select(sx.PSVMClassifier(**FAST), {"C": [0.1]}, X, Y, cv=2, progress=True)
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_terminal_progress_is_lines(capsys, monkeypatch):
    monkeypatch.setattr("svmcvx.experiments.store.LINE_SECONDS", 1e-3)
    lines = ""
    with progress_bar(True, "fits", 7) as advance:
        advance()
        while lines.count("\n") < 2:
            lines += capsys.readouterr().err
    assert re.fullmatch(r"([01] of 7 fits in 0 min\n)+", lines)
    assert "1 of 7 fits" in lines


def test_a_search_prints_its_best_settings():
    table = sx.select(sx.PSVMClassifier(**FAST), {"C": [1e-9, 0.1, 1.0]}, X, Y, cv=2)
    header, *lines = repr(table).splitlines()
    shown = "param_C mean_test_score std_test_score gap certified n_support seconds"
    assert header.split() == shown.split()
    ranked = table.sort_values("rank_test_score", kind="stable")
    firsts = [f"{C:.6g}" for C in ranked["param_C"]]
    assert [line.split()[0] for line in lines] == firsts
    assert "<td" in table._repr_html_()
    many = sx.select(sx.PSVMClassifier(**FAST), {"C": np.geomspace(0.1, 1, 30)}, X, Y, cv=2)
    assert repr(many).splitlines()[26:] == ["the best 25 of 30 settings"]


# Backends


MODEL, GRID = (
    sx.PSVMClassifier(p=1.5, kernel="rbf", **FAST),
    {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]},
)


@pytest.fixture(scope="module")
def alone():
    return sx.select(MODEL, GRID, X, Y, cv=3)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_result_does_not_depend_on_the_backend(backend, alone, tmp_path):
    with joblib.parallel_config(backend=backend):
        table = sx.select(MODEL, GRID, X, Y, cv=3, n_jobs=2, store=tmp_path / "s.sqlite")
    for column in [*COLUMNS, "split0_lower", "split2_upper", "gap", "warm_starts"]:
        assert table[column].tolist() == alone[column].tolist(), column
    assert kept(tmp_path / "s.sqlite") == 18
    # Pairs of classes, by the same workers.
    with joblib.parallel_config(backend=backend):
        one, two = (
            sx.PSVMClassifier(kernel="rbf", p=1.5, n_jobs=n).fit(POINTS, NAMES) for n in (1, 2)
        )
    assert np.allclose(one.decision_function(X), two.decision_function(X), rtol=1e-9, atol=1e-9)


# Gram matrices


def test_gram_matrices_are_evaluated_once(monkeypatch):
    original, calls = sx.RBF.block, []
    monkeypatch.setattr(
        sx.RBF, "block", lambda self, A, B: calls.append((A.shape, B.shape)) or original(self, A, B)
    )
    grid = {"C": VALUES, "p": [1.0, 2.0]}
    sx.select(sx.PSVMClassifier(kernel="rbf", **FAST), grid, X, Y, cv=3, refit=False)
    assert calls.count(((60, X.shape[1]), (60, X.shape[1]))) == 3


def test_a_kept_matrix_is_of_its_rows_and_kernel_only():
    cache, made, changed = GramCache(), [], 3.0 * X

    def ask(k, data):
        entry = cache.gram(k, data, lambda: made.append(None) or k(data))
        assert np.array_equal(entry.matrix, k(data))

    for data in (X, X.copy(), X[::-1].copy(), X[:-1], sp.csr_array(X), sp.csr_array(X), changed):
        ask(sx.RBF(0.5), data)
    changed /= 2.0
    ask(sx.RBF(0.5), changed)
    assert len(made) == 6
    ask(sx.RBF(0.25), X)
    assert len(made) == 7


def test_a_matrix_without_room_is_not_kept(monkeypatch):
    room = 40.0 * X.shape[0] ** 2
    monkeypatch.setattr("svmcvx.system.memory.available", lambda: room)
    assert GramCache(share=0.1).gram(sx.RBF(0.5), X, lambda: pytest.fail("no room")) is None
    cache = GramCache(share=0.5)
    first = cache.gram(sx.RBF(0.5), X, lambda: sx.RBF(0.5)(X))
    assert cache.gram(sx.RBF(0.5), X, lambda: pytest.fail("kept")) is first
    second = cache.gram(sx.RBF(1.0), X, lambda: sx.RBF(1.0)(X))
    assert second is not None
    # The older one has made room.
    assert cache.gram(sx.RBF(0.5), X, lambda: sx.RBF(0.5)(X)) is not first


def test_what_every_optimal_machine_scores_on_the_folds():
    model = sx.PSVMClassifier(p=2.0, kernel="rbf", **FAST)
    for scoring in (None, "roc_auc"):
        table = sx.select(
            model, {"C": VALUES}, X, Y, cv=3, scoring=scoring, guarantee=True, refit=False
        )
        assert (table["mean_test_score_lower"] <= table["mean_test_score"] + 1e-12).all()
        assert (table["mean_test_score"] <= table["mean_test_score_upper"] + 1e-12).all()
        assert table.loc[table.best_index_, "may_be_best"]
    with pytest.raises(sx.DataError, match="scoring with guarantee must be one of"):
        sx.select(model, {"C": VALUES}, X, Y, scoring="f1", guarantee=True)
    refused = sx.select(
        sx.ConicSVMClassifier(**FAST), {"lam": [0.1, 1.0]}, X, Y, cv=2, guarantee=True, refit=False
    )
    assert refused["mean_test_score_lower"].isna().all()
    assert refused["may_be_best"].all()
    assert refused["note"].str.contains("no guarantees of conic").all()
