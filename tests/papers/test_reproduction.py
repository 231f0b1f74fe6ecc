"""Tables of the papers: printed numbers, protocols, differences."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

import svmcvx as sx
from benchmarks.papers import (
    published,
    published_names,
    reproduce,
    reproducible,
    write_figures,
    write_report,
)
from benchmarks.papers.__main__ import main
from benchmarks.papers.figures import _FIGURES, check_figures, figure_names
from benchmarks.papers.psvm import EXPONENTS, AsReleased, mcnemar_cells, predictions_on_the_split
from benchmarks.papers.result import accuracy_noise
from campaigns.rerun_results import (
    PARTS,
    RESULTS,
    TRIALS_OF,
    record_faults,
    sizes,
    trial_means_faults,
)
from svmcvx import datasets
from svmcvx.datasets import paper_tables
from svmcvx.datasets.files import write_npz
from svmcvx.experiments import mcnemar
from tests.conftest import make_data


def test_the_status_page_has_the_sizes_of_the_stored_tables():
    assert sizes() in (RESULTS / "status.md").read_text()


def test_printed_tables_are_there():
    names = published_names()
    assert len(names) == 16
    for name in names:
        assert len(published(name)), name
    table = published("psvm_table1")
    assert len(table) == 45
    assert set(table["p"]) == set(EXPONENTS)
    printed = table[(table["dataset"] == "Ionosphere") & (table["p"] == 1.5)].iloc[0]
    assert (printed["acc_pct"], printed["C_best"], printed["nsv_pct"]) == (97.17, 0.1, 94.3)
    with pytest.raises(sx.DataError, match="name must be one of"):
        published("no_table")
    assert {name.split("-")[0] for name in reproducible()} <= {
        table.split()[0] for table in paper_tables()
    }


def test_the_released_machine_by_hand():
    X, y = make_data(n=40, overlap=1.5)
    for p in (1.0, 1.5, 3.0):
        C = np.inf if p == 1 else 2.0
        machine = AsReleased(p=p, C=C, solver="fast").fit(X, y)
        # exp(−‖x − x'‖ / √(2σ²)), 2σ² = d Var[X].
        K = np.exp(-np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2) / (X.shape[1] * X.var())))
        # The machine of that kernel, from the general solver.
        built = (
            sx.hard_margin_dual(K, y, kernel="precomputed")
            if p == 1
            else sx.psvm_dual(K, y, C=2.0, p=p, kernel="precomputed")
        )
        solution = sx.solve(built)
        assert machine.certificate_.is_certified(1e-6)
        assert machine.certificate_.upper == pytest.approx(solution.certificate.upper, rel=1e-5)
        v = np.zeros(40)
        v[solution.model.support] = solution.model.dual_coef
        support = np.abs(v) > 1e-5
        bias = np.mean(y[support] - np.sign(K[support] @ v))
        np.testing.assert_allclose(machine.decision_function(X), K @ v + bias, atol=2e-3)
        assert (
            machine.predict(X).tolist()
            == np.where(machine.decision_function(X) > 0, 1, -1).tolist()
        )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The one set of the quick table that scikit-learn brings along; the others cannot be had."""
    data = datasets.load("breast_cancer")
    write_npz(tmp_path / "wdbc.npz", data.X, np.where(data.y == "malignant", "M", "B"))
    monkeypatch.setenv("SVMCVX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr("svmcvx.datasets.loading.find_spec", lambda name: None)
    return tmp_path


@pytest.mark.slow
def test_the_printed_accuracies_of_cancer_come_out_as_released(folder, monkeypatch):
    monkeypatch.setattr("benchmarks.papers.psvm.QUICK_EXPONENTS", (1.50,))
    found = reproduce("psvm-table1", quick=True, data_dir=folder, store=folder / "s.sqlite")
    assert set(found.study.left_out) == {"Heart", "Ionosphere"}
    frame = found.frame.set_index(["dataset", "p"])
    cancer = frame.loc["Cancer"]
    assert cancer["as_released"].tolist() == [97.66] == cancer["published"].tolist()
    assert cancer["as_released_C"].tolist() == [5.0] == cancer["published_C"].tolist()
    assert (cancer["as_released_difference"] == 0).all()
    assert cancer["as_written_within_noise"].all()
    assert cancer["as_released_certified"].tolist() == ["26/26"]
    # What every optimal machine scores, and with which C that may be the best.
    row = cancer.iloc[0]
    assert row["as_written_exact_lower"] <= row["as_written"] <= row["as_written_exact_upper"]
    assert row["as_written_range_lower"] <= row["as_written_exact_lower"]
    assert row["as_written_exact_upper"] <= row["as_written_range_upper"]
    assert f"{row['as_written_C']:g}" in row["as_written_ties"].split(" or ")
    assert "as_released_exact_lower" not in frame
    assert any("more than one C may be the best in" in note for note in found.notes)
    assert frame.loc["Heart", "as_released"].isna().all()
    assert "not on this machine" in frame.loc[("Heart", 1.5), "as_released_note"]
    found.to_csv(folder / "table.csv")
    assert (folder / "table.csv").read_text().count("\n") == 4
    (file,) = write_figures(found, folder / "figures" / "new")
    assert file.name == "psvm-table1-exponents.svg"
    assert write_figures(found, folder / "figures") != [file]
    drawn, again = file.read_text(), (folder / "figures" / file.name).read_text()
    assert drawn.startswith("<svg")
    assert drawn == again, "the same table, the same picture"
    write_report(found, folder / "table.html")
    for text in (drawn, page := (folder / "table.html").read_text()):
        assert "Accuracy and share of support vectors" in text
    assert found.notes[0] in page
    lacking = found.frame.assign(as_written=np.nan)
    assert write_figures(replace(found, frame=lacking), folder) == []
    # The paper scales all rows before it splits.
    X = scale(datasets.load("breast_cancer").X)
    row = found.study.frame.iloc[0]
    assert (row["n_train"], row["n_test"], X.shape[0]) == (398, 171, 569)


def test_exponents_are_compared_with_p_1_on_the_rows_of_the_split(folder):
    X, y = make_data(n=60, overlap=1.5)
    write_npz(folder / "heart-statlog.npz", X, np.where(y > 0, "a", "b"))
    models = {p: sx.PSVMClassifier(p=p, kernel="rbf", tol=1e-8) for p in (1.0, 3.0)}
    with pytest.warns(UserWarning, match="is not the set"):
        truth, labels = predictions_on_the_split(models, "Heart", folder)
    train, test = train_test_split(np.arange(60), test_size=0.3, random_state=42)
    A = scale(X)
    for p, model in models.items():
        alone = model.fit(A[train], y[train]).predict(A[test]) == y[test]
        assert np.array_equal(alone, labels[p] == truth)
    assert mcnemar_cells(np.ones(4), np.array([1, 1, 1, 0]), np.array([0, 0, 1, 1])) == (
        "2 : 1",
        1.0,
    )


def write_glass(folder):
    X, _ = make_data(n=90, overlap=1.5)
    labels = np.repeat([1, 2, 3], 30)
    np.savez(folder / "glass.npz", X=X + 2.0 * labels[:, None], y=labels)
    return datasets.Dataset("glass", X + 2.0 * labels[:, None], labels)


def test_multi_class_machines_at_the_printed_costs(folder):
    with pytest.raises(sx.DataError, match=r"no data set of the table is available: .*glass"):
        reproduce("psvm-table3", quick=True, data_dir=folder)
    data = write_glass(folder)
    with pytest.warns(UserWarning, match="is not the set glass of the papers"):
        found = reproduce("psvm-table3", quick=True, data_dir=folder)
    rows = found.frame.set_index(["dataset", "p"])
    line = rows.loc[("Glass", 1.5)]
    assert rows.loc[("Glass", 2.0), ["C", "published"]].tolist() == [4.5, 76.7]
    assert line["as_written_certified"] == "1/1"
    train, test = train_test_split(np.arange(90), test_size=0.2, random_state=42)
    fit, T, truth = (data.X[train], data.y[train]), data.X[test], data.y[test]
    alone, usual = (
        sx.PSVMClassifier(p=p, C=C).fit(*fit)
        for p, C in ((1.5, 1.0), (1, line["as_written_svm_C"]))
    )
    for column, model in (("as_written", alone), ("as_written_svm", usual)):
        assert line[column] == round(100 * model.score(T, truth), 2)
    assert line["as_written_exact_lower"] == line["as_written"]
    p = mcnemar(truth, alone.predict(T), usual.predict(T))
    np.testing.assert_allclose(line["as_written_mcnemar"], p, rtol=1e-2)
    assert rows.loc["Vehicle", "as_written"].isna().all()
    assert "not on this machine" in rows.loc[("Vehicle", 2.0), "as_written_note"]
    assert set(found.study.left_out) == {"Vehicle", "Dermatology"}


def test_a_record_says_what_its_table_was_computed_with(folder, tmp_path):
    write_glass(folder)
    with pytest.warns(UserWarning, match="is not the set glass"):
        found = reproduce("psvm-table3", quick=True, sets=["Glass"], data_dir=folder)
    found.to_csv(tmp_path / "t.csv")
    found.to_record(tmp_path / "t.json")
    record = json.loads((tmp_path / "t.json").read_text())
    assert record["options"] == {"quick": True, "sets": ["Glass"]}
    of_table = ["psvm-table3", len(found.frame), True]
    assert [record[name] for name in ("table", "rows", "complete")] == of_table
    assert record["sha256_of_csv"] == hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest()
    assert record["versions"]["svmcvx"] == sx.__version__
    assert [one["dataset"] for one in record["data"]] == ["Glass"]
    assert (record["certified"], record["solves"]) == found.study.solves()


def test_rows_of_every_stored_table_are_computed_again():
    assert {path.stem.replace("_", "-") for path in RESULTS.glob("*.csv")} == set(PARTS) | set(
        TRIALS_OF
    )


def test_every_stored_record_is_that_of_its_table():
    for path in sorted(RESULTS.glob("*.json")):
        assert record_faults(path) == []


@pytest.mark.parametrize("name", TRIALS_OF)
def test_the_stored_means_are_those_of_the_stored_trials(name):
    assert trial_means_faults(name) == []


def test_noise_is_two_standard_errors():
    assert accuracy_noise(90.0, 95.0, 100) == pytest.approx(200 * np.sqrt(0.09 / 100))
    assert accuracy_noise(100.0, 80.0, 50) == pytest.approx(200 * np.sqrt(0.16 / 50)), (
        "the larger of the two"
    )
    assert accuracy_noise(100.0, 100.0, 50) == 0.0


def test_figures_that_cannot_be_drawn_are_refused_before_anything_is_computed(
    tmp_path, monkeypatch
):
    check_figures("psvm-table1", tmp_path)
    with pytest.raises(sx.DataError, match="no figure goes with psvm-table3"):
        check_figures("psvm-table3", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(sx.DataError, match="cannot be made"):
        check_figures("psvm-table1", tmp_path / "file")
    monkeypatch.setattr("benchmarks.papers.figures.find_spec", lambda name: None)
    with pytest.raises(sx.SolverUnavailable, match="svmcvx\\[plot\\]"):
        check_figures("psvm-table1", tmp_path)


def test_every_registered_figure_has_its_function():
    for table in reproducible():
        for name in figure_names(table):
            assert callable(_FIGURES[table][name].load())
    assert set(_FIGURES) <= set(reproducible())


def test_the_command_lists_tables(capsys):
    assert main([]) == 0
    assert "psvm-table1: pSVM, Table 1" in capsys.readouterr().out
    assert main(["--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["table"] == "psvm-table1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no-table"], "table must be one of"),
        (["odm-table2", "--every", "3", "--set", "nowhere"], "got nowhere"),
        (["psvm-table1", "--json", "no/folder/t.json"], "cannot be written"),
    ],
)
def test_the_command_refuses_what_cannot_be_computed(words, why, capsys):
    assert main(words) == 2
    assert why in capsys.readouterr().err
