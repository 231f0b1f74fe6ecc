"""The tables of the ODM and the M3SVM paper, and the other classifiers of the pSVM paper, on small
data.
"""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, scale

import svmcvx as sx
from benchmarks.papers import published, reproduce, write_figures
from benchmarks.papers.m3svm import AdamM3SVMClassifier, released_settings
from benchmarks.papers.odm import USUAL, SummedODMClassifier, SummedODMLClassifier, UnitMeanDistance
from benchmarks.papers.odm_seconds import seconds
from benchmarks.papers.result import every_kth
from svmcvx import datasets
from svmcvx.datasets.files import write_npz
from svmcvx.experiments.studies import Split
from tests.conftest import make_data

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*is not the set:UserWarning")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small data under the names of some sets; the others cannot be had."""
    X, y = make_data(n=60, overlap=1.5)
    write_npz(tmp_path / "haberman.npz", X, y)
    rng = np.random.default_rng(0)
    votes = rng.choice([-1.0, 0.0, 1.0], p=[0.45, 0.1, 0.45], size=(70, 4))
    write_npz(tmp_path / "house-votes.npz", votes, np.where(votes[:, 0] > 0, "a", "b"))
    labels = np.repeat([1, 2, 3], 20)
    write_npz(tmp_path / "glass.npz", X + 1.5 * np.outer(labels, [1.0, -0.5, 0.2]), labels)
    data = datasets.load("breast_cancer")
    write_npz(tmp_path / "wdbc.npz", data.X, np.where(data.y == "malignant", "M", "B"))
    monkeypatch.setenv("SVMCVX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr("svmcvx.datasets.loading.find_spec", lambda name: None)
    return tmp_path


@given(st.integers(1, 40), st.integers(1, 50))
def test_every_kth_value_of_a_grid_keeps_its_middle(size, every):
    values = list(range(size))
    left = every_kth(values, every)
    assert (size - 1) // 2 in left
    assert left == sorted(set(left))
    assert (
        left == values
        if every == 1 or size <= 3
        else {b - a for a, b in itertools.pairwise(left)} <= {every}
    )


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("psvm-table9", {}, r"table must be one of 'psvm-table1', .*'odm-table2'"),
        ("psvm-table3", {"repeats": 3}, "psvm-table3 has no use for repeats"),
        ("conic-table1", {"repeats": 0}, "repeats must be a whole number"),
        ("odm-table2", {"every": 0}, "every must be"),
        ("odm-table2", {"sets": ["nowhere"]}, "sets must be of .*haberman.*; got nowhere"),
    ],
)
def test_arguments_that_a_table_cannot_use_are_refused(table, given, message):
    with pytest.raises(sx.DataError, match=message):
        reproduce(table, **given)


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_losses_that_are_summed(seed):
    X, y = make_data(n=30, overlap=1.5, seed=seed)
    svm = SummedODMLClassifier(C=2.0, lam1=0.0, lam2=0.0, intercept=False, solver="fast").fit(X, y)
    w = svm.coef_[0]
    assert svm.intercept_[0] == 0
    # The SVM without intercept, C not divided by n.
    assert svm.certificate_.upper == pytest.approx(
        0.5 * w @ w + 2.0 * np.maximum(1 - y * (X @ w), 0).sum(), rel=1e-9
    )
    odm = SummedODMClassifier(C1=0.5, C2=0.25, D=0.1, intercept=False, solver="fast").fit(X, y)
    assert odm.certificate_.upper == pytest.approx(
        sx.fast.odm(X, y, C1=15.0, C2=7.5, D=0.1).certificate.upper, rel=1e-5
    )


def test_widths_are_in_units_of_the_mean_distance():
    X, _ = make_data(n=30)
    unit = UnitMeanDistance().fit(X)
    assert pdist(unit.transform(2.0 * X)).mean() == pytest.approx(2.0)
    assert UnitMeanDistance().fit(np.ones((3, 2))).mean_distance_ == 1.0


@pytest.mark.slow
def test_linear_machines_over_random_halves(folder):
    found = reproduce(
        "odm-table2",
        sets=["haberman", "vote", "house", "sonar", "balloons"],
        repeats=2,
        every=60,
        data_dir=folder,
    )
    rows = found.frame.set_index(["dataset", "method"])
    X, y = (datasets.load("haberman", folder).X, datasets.load("haberman", folder).y)
    scores = {USUAL: [], "lda": []}
    for seed in (0, 1):
        train, test = train_test_split(np.arange(60), test_size=0.5, random_state=seed)
        scaler = MinMaxScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[test])
        usual = "dataset == 'haberman' and model == @USUAL and repeat == @seed"
        params = found.study.frame.query(usual)["params"].iloc[0]
        scores[USUAL].append(sx.PSVMClassifier(**params).fit(A, y[train]).score(B, y[test]))
        scores["lda"].append(LinearDiscriminantAnalysis().fit(A, y[train]).score(B, y[test]))
    for method, own in scores.items():
        line = rows.loc[("haberman", method)]
        assert line["as_written"] == round(np.mean(own), 3)
        # So few splits have the printed spread.
        assert line["as_written_sd"] == round(np.std(own, ddof=1), 3)
        assert line["as_written_noise"] == round(
            2 * line["published_sd"] * np.sqrt(1 / 30 + 1 / 2), 3
        )
    assert rows.loc[("haberman", "odm"), "published_against_svm"] == "tie"
    assert rows.loc[("haberman", "odm"), "as_written_certified"] == "2/2"
    # Of a tuning the chosen settings and their neighbours have certificates.
    certified, solves = map(int, rows.loc[("haberman", "odml"), "as_summed_certified"].split("/"))
    assert certified == solves > 2
    assert rows.loc[("haberman", "lda"), "as_written_certified"] == ""
    # The mean of what every optimal machine scores is one number or contains the mean of the
    # models, but for the last decimal.
    for what in ("as_written", "as_summed"):
        ours = rows.loc["haberman"].drop(["lda", USUAL] if what == "as_summed" else "lda")
        assert (ours[f"{what}_exact_lower"] <= ours[what] + 1e-9).all()
        assert (ours[what] <= ours[f"{what}_exact_upper"] + 1e-9).all()
    assert np.isnan(rows.loc[("haberman", "lda"), "as_written_exact_lower"])
    # The tests are those of the study.
    pair = "dataset == 'haberman' and first == 'svm' and second == 'odm'"
    tests = found.study.paired().query(pair).iloc[0]
    line = rows.loc[("haberman", "odm")]
    for name in ("t", "corrected_t"):
        assert line[f"as_written_{name}"] == pytest.approx(tests[name], rel=5e-3)
    opposite = {"": "difference", "_low": "high", "_high": "low", "_median": "median"}
    for end, name in opposite.items():
        assert line[f"as_written_less_svm{end}"] == pytest.approx(-tests[name], abs=5.1e-5)
    assert line["as_written_less_svm_win"] == pytest.approx(1 - tests["win"])
    # Sets are counted once in the test over all of them; two have no such test.
    (said,) = (
        note for note in found.notes if note.startswith("odm less svm over 2 different sets")
    )
    assert "no p-value" in said
    # Two printed sets that are the same observations, of which those with an unknown vote are left
    # out.
    assert rows.loc[("vote", "odm"), "as_written"] == rows.loc[("house", "odm"), "as_written"]
    complete = (datasets.load("house-votes", folder).X != 0).all(axis=1).sum()
    assert (
        found.study.datasets.set_index("dataset").loc["house-votes, complete rows", "rows"]
        == complete
    )
    assert rows.loc["balloons", "as_written"].isna().all()
    assert rows.loc[("balloons", "odm"), "as_summed_note"].startswith("not at hand")
    assert "not on this machine" in rows.loc[("sonar", "odm"), "as_written_note"]
    assert any(
        "odm against svm, better/tie/worse" in note and "on the same 2 sets 1/1/0" in note
        for note in found.notes
    )
    (picture,) = write_figures(found, folder)
    assert picture.name == "odm-table2-margins.svg"
    assert "as summed" in picture.read_text()


def test_machines_with_a_kernel_and_large_sets(folder):
    found = reproduce("odm-table3", sets=["haberman"], repeats=1, every=60, data_dir=folder)
    assert list(found.frame["method"]) == ["svm", USUAL, "odml", "odm"]
    tuned = found.study.frame.set_index("model").loc["odm", "params"]
    assert tuned["gamma"] in (8.0, 0.5, 1 / 32)
    assert found.study.solves()[0] == found.study.solves()[1]
    assert len(write_figures(found, folder)) == 1
    with pytest.raises(sx.DataError, match=r"no data set can be used: ijcnn1"):
        reproduce("odm-table4", sets=["ijcnn1"], data_dir=folder)


def test_machines_for_several_classes(folder):
    found = reproduce("m3svm-table1", sets=["Glass", "HHAR"], repeats=2, every=10, data_dir=folder)
    rows = found.frame.set_index(["dataset", "method"])
    assert rows.loc["HHAR", "as_written"].isna().all()
    assert "UCI HAR" in rows.loc[("HHAR", "topk"), "as_written_note"]
    data = datasets.load("glass", folder)
    X, y = scale(data.X), data.y
    scores = []
    for seed in (42, 43):
        train, test = train_test_split(np.arange(60), test_size=0.2, random_state=seed)
        model = sx.M3SVMClassifier(lam=np.linspace(1e-4, 0.1, 10)[4], p=4.0).fit(X[train], y[train])
        scores.append(model.score(X[test], y[test]))
    line = rows.loc[("Glass", "m3svm")]
    assert line["as_written"] == round(np.mean(scores), 3)
    assert line["as_written_first_split"] == round(scores[0], 3)
    variance = line["published"] * (1 - line["published"]) / 12 + np.var(scores, ddof=1) / 2
    assert line["as_written_noise"] == round(2 * np.sqrt(variance), 3)
    assert set(rows.loc["Glass"].drop("m3svm")["as_written_against_m3svm"]) <= {
        "better",
        "tie",
        "worse",
    }
    assert line["as_released_certified"] == "2/2"
    assert line["as_written_exact_lower"] <= line["as_written"] <= line["as_written_exact_upper"]
    assert line["as_released_exact_lower"] <= line["as_released"] <= line["as_released_exact_upper"]
    # There are no guarantees of sums of absolute values.
    assert np.isnan(rows.loc[("Glass", "smlr"), "as_written_exact_lower"])
    pictures = write_figures(found, folder)
    assert [one.name for one in pictures] == ["m3svm-table1-convergence.svg"]


def test_ten_runs_of_five_folds(folder):
    found = reproduce(
        "m3svm-table1-folds", sets=["Glass", "HHAR"], repeats=2, every=5, data_dir=folder
    )
    rows = found.frame.set_index(["dataset", "method"])
    assert rows.loc["HHAR", "as_written"].isna().all()
    data = datasets.load("glass", folder)
    X, y = scale(data.X), data.y
    shares = {lam: [] for lam in np.linspace(1e-4, 0.1, 10)[[4, 9]]}
    for lam, own in shares.items():
        for seed in (42, 43):
            right = 0
            for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
                model = sx.M3SVMClassifier(lam=lam, p=4.0).fit(X[train], y[train])
                right += (model.predict(X[test]) == y[test]).sum()
            own.append(right / 60)
    best = max(shares.values(), key=np.mean)
    line = rows.loc[("Glass", "m3svm")]
    assert line["as_written"] == round(np.mean(best), 4)
    assert line["as_written_sd"] == round(np.std(best, ddof=1), 4)
    assert line["as_written_exact_lower"] <= line["as_written"] <= line["as_written_exact_upper"]
    # The others are compared with it over the ten folds, the hinge as released with the softmax.
    other = rows.loc[("Glass", "ovr")]
    assert (
        other["as_written_less_m3svm_low"]
        <= other["as_written_less_m3svm"]
        <= other["as_written_less_m3svm_high"]
    )
    hinge, softmax = (
        rows.loc[("Glass", "m3svm, hinge, as released")],
        rows.loc[("Glass", "m3svm, as released")],
    )
    assert hinge["settings"] == softmax["settings"]
    assert np.isfinite(hinge["as_written_less_softmax"])
    assert found.study.solves()[0] == found.study.solves()[1]


def test_the_released_objective_in_the_scale_of_this_package(folder):
    data = datasets.load("glass", folder)
    settings = released_settings("Glass", data)
    train, _ = train_test_split(np.arange(60), test_size=0.2, random_state=42)
    X, y = scale(data.X)[train], data.y[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        adam = AdamM3SVMClassifier(**settings, learning_rate=0.01).fit(X, y)
    for model in (sx.M3SVMClassifier(**settings).fit(X, y), adam):
        scores = model.decision_function(X)
        entropy = np.log(
            np.exp(scores - scores[np.arange(48), np.searchsorted([1, 2, 3], y)][:, None]).sum(
                axis=1
            )
        )
        W = model.model_.coef
        pairs = sum(np.linalg.norm(W[:, k] - W[:, j]) ** 4 for k in range(3) for j in range(3))
        # The mean over observations times classes, and λ / n times the sum over ordered pairs.
        released = entropy.sum() / (48 * 3) + 1e-4 / 60 * pairs
        small = 1e-6 * ((W**2).sum() + (model.model_.intercept**2).sum())
        assert model.certificate_.upper == pytest.approx(48 * 3 * released + small, rel=1e-9)
    assert adam.certificate_.upper >= sx.M3SVMClassifier(**settings).fit(X, y).certificate_.lower


def test_exponents(folder):
    found = reproduce("m3svm-figure3", sets=["Glass"], repeats=1, every=25, data_dir=folder)
    assert found.frame["p"].tolist() == list(range(1, 9))
    assert found.frame["as_written"].between(0, 1).all()
    assert found.frame.loc[found.frame["p"] == 4, "as_written_against_p4"].isna().all()
    (picture,) = write_figures(found, folder)
    assert "exponent p" in picture.read_text()


def test_weights_of_the_margins(folder):
    found = reproduce("m3svm-figure4", quick=True, sets=["Glass"], repeats=1, data_dir=folder)
    assert found.frame["lam"].tolist() == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    data = datasets.load("glass", folder)
    train, test = train_test_split(np.arange(60), test_size=0.2, random_state=42)
    X = scale(data.X)
    model = sx.M3SVMClassifier(lam=1e-3, p=4.0).fit(X[train], data.y[train])
    row = found.frame.set_index("lam").loc[1e-3]
    assert row["as_written"] == round(model.score(X[test], data.y[test]), 3)
    assert np.isnan(row["as_written_against_lam0.001_t"])
    (picture,) = write_figures(found, folder)
    assert picture.name == "m3svm-figure4-weights.svg"


def test_seconds_beside_liblinear(folder):
    X, y = make_data(n=300, overlap=1.5)
    write_npz(folder / "cod-rna.npz", X, y)
    with pytest.warns(UserWarning, match="is not the set cod-rna"):
        found = reproduce("odm-figure2", quick=True, repeats=2, data_dir=folder)
    rows = found.frame.set_index("method")
    assert rows["repetitions"].tolist() == [2] * 5
    assert rows.loc["svm, LIBLINEAR", "as_written_over_liblinear"] == 1
    assert (rows.loc[["svm", "odml", "odm"], "as_written_gap"] <= 1e-3).all(), "certified"
    assert rows["as_written_accuracy"].between(0.5, 1).all()
    ((train, test),) = Split(0.5, stratify=False).parts(y, 0)
    scaled = MaxAbsScaler().fit(X[train])
    first = seconds(X, y, dataset="cod-rna", method="odm", repeat=0)
    model = sx.ODMClassifier(C1=32.0, C2=32.0, D=0.2, intercept=False).fit(
        scaled.transform(X[train]), y[train]
    )
    assert first["accuracy"] == model.score(scaled.transform(X[test]), y[test])


def test_shares_of_the_training_part(folder):
    X, y = make_data(n=200, overlap=1.5)
    write_npz(folder / "wine-quality.npz", X, y)
    with pytest.warns(UserWarning, match="is not the set wine-quality"):
        found = reproduce("psvm-figure2", quick=True, data_dir=folder)
    assert found.frame["as_written_certified"].tolist() == ["1/1"] * 6
    rows = found.frame.set_index(["p", "train_size"])
    assert rows.loc[(2.0, 0.6), "C"] == 0.5
    ((train, test),) = Split(0.9, stratify=False).parts(y, 42)
    train = train[:12]
    model = sx.PSVMClassifier(p=2.0, C=0.5, kernel="rbf").fit(scale(X)[train], y[train])
    assert rows.loc[(2.0, 0.6), "as_written"] == round(
        100 * model.score(scale(X)[test], y[test]), 2
    )
    assert (rows["as_written_exact_lower"] <= rows["as_written"]).all()
    assert (rows["as_written"] <= rows["as_written_exact_upper"]).all()
    (picture,) = write_figures(found, folder)
    assert picture.name == "psvm-figure2-training.svg"


def test_the_other_classifiers_beside_the_psvm(folder):
    found = reproduce("psvm-table1-baselines", sets=["Cancer"], repeats=1, data_dir=folder)
    rows = found.frame.set_index("method")
    for method in ("svm", "naive_bayes", "knn", "lda"):
        assert rows.loc[method, "as_written_difference"] == 0
    assert rows["as_written_within_noise"].dropna().all()
    assert rows["as_written_exact_lower"].notna().sum() == 2
    assert rows.loc["svm", "as_written_exact_lower"] == rows.loc["svm", "as_written"]
    assert np.isnan(rows.loc["svm, released kernel", "published"])
    assert rows.loc["svm, released kernel", "as_written"] > 95
    assert rows["best_psvm_published"].unique().tolist() == [97.66]
    for method in ("svm", "knn"):
        # 97.66 per cent of 171 rows are 167; who is right alone makes the difference of the
        # accuracies.
        line = rows.loc[method]
        ahead, behind = map(int, line["best_psvm_against"].split(" : "))
        assert ahead - behind == pytest.approx(1.71 * (97.66 - line["as_written"]), abs=0.02)
        assert 0 < line["best_psvm_mcnemar"] <= 1 or ahead == behind == 0
    # The released machine has the printed accuracy, and the SVM with the released kernel is right
    # on one row more.
    ahead, behind = map(
        int, rows.loc["svm, released kernel", "best_psvm_released_against"].split(" : ")
    )
    assert behind - ahead == 1


def test_the_marks_of_the_paper_add_up_to_its_counts():
    marks = published("odm_against_svm")
    for table, method, counts in (
        (2, "odm", (24, 8, 0)),
        (3, "odml", (15, 17, 0)),
        (4, "odml", (6, 3, 1)),
    ):
        column = marks.loc[marks["table"] == table, method]
        assert tuple((column == outcome).sum() for outcome in ("better", "tie", "worse")) == counts
