import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

import numpy as np
import pandas as pd
import pytest

import svmcvx
from svmcvx.experiments.specifications import MODELS
from svmcvx.experiments.store import Store
from svmcvx.fast.indicator.search.state import SearchSettings
from svmcvx.proofs import write_proof


def test_compare_prints_a_table_with_certificates(run, tmp_path):
    code, out, _ = run("compare blobs --models psvm:p=1,psvm:p=2 --guarantee --latex t.tex")
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("psvm")]
    # The accuracy of every optimal machine, one number, stands beside that of the model.
    assert [row[6] == row[7] for row in rows] == [True, True]
    assert "exact accuracy" in (tmp_path / "t.tex").read_text()
    assert [row[0] for row in rows] == ["psvm(p=1)", "psvm(p=2)"]
    for row in rows:
        bound, primal, gap, certified = float(row[2]), float(row[3]), float(row[4]), row[5]
        assert bound <= primal
        assert gap < 1e-6
        assert certified == "yes"


@pytest.mark.parametrize("dataset", ["moons", "breast_cancer"])
def test_plot_and_json_are_written(run, tmp_path, dataset):
    words = f"compare {dataset} --models psvm:p=1.5 --kernel rbf --C 2 --plot p.png --json t.json"
    assert run(*words.split())[0] == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["complete"]
    assert content["settings"]["C"] == 2.0
    (row,) = content["rows"]
    assert row["certified"]
    assert row["lower"] <= row["upper"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "t.json"]


def test_several_classes_are_compared_and_drawn_whatever_a_model_takes(run, tmp_path):
    code, out, _ = run("compare iris --models m3svm:p=2:lam=0.01,psvm,odm --plot p.png")
    assert code == 0
    assert out.count("yes") == 3
    assert (tmp_path / "p.png").exists()


def test_every_formulation_is_on_the_command_line(run):
    names = sorted(set(MODELS) - {"zero-one", "ramp", "l0"})
    code, out, _ = run("compare blobs --models", ",".join(names), "--split", "0.6")
    assert code == 0
    assert out.count("yes") == len(names)


def test_files_of_every_kind(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((40, 3)), columns=list("abc"))
    frame["label"] = np.where(frame["a"] + frame["b"] > 0, "up", "down")
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    np.savez("t.npz", X=frame[["a", "b", "c"]], y=frame["label"].to_numpy(dtype=str))
    tables = [
        run("compare t.csv --target label"),
        run("compare t.parquet --target label"),
        run("compare", "t.npz"),
    ]
    assert all(code == 0 for code, _, _ in tables)
    primals = {
        tuple(line.split()[2] for line in out.splitlines() if line.strip().startswith("psvm"))
        for _, out, _ in tables
    }
    assert len(primals) == 1


def test_missing_values(run, tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 2))
    X[3, 0] = np.nan
    np.savez("holes.npz", X=X, y=np.arange(30) % 2)
    code, _, err = run("compare", "holes.npz")
    assert code == 2
    assert "holes has 1 missing value; pass --missing" in err
    pd.DataFrame(X, columns=["left", "right"]).assign(label=np.arange(30) % 2).to_csv(
        "holes.csv", index=False
    )
    assert "holes has 1 missing value, in left; pass" in run("compare holes.csv --target label")[2]
    assert run("compare holes.npz --missing drop")[0] == 0
    assert run("compare holes.npz --missing median")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "nothing"), "no data set is called 'nothing'"),
        (("compare", "moons", "--models", "svm"), "known are"),
        (("compare", "moons", "--kernel", "gauss"), "'gauss' is not one of 'none', 'linear'"),
        (("compare", "moons", "--C", "-1"), "--C must be a finite number in (0, inf)"),
        (("compare", "moons", "--C", "x"), "Invalid value"),
        (("compare", "moons", "--C", "0"), "--C must be"),
        (("compare", "moons", "--gamma", "x"), "--gamma must be"),
        (("compare", "moons", "--seed", "-1"), "--seed must be"),
        (("compare", "moons", "--models", "psvm:p=1,p=2"), "sets p of psvm twice"),
        (("compare", "moons", "--models", "psvm:q=1"), "psvm has no setting 'q'; it has C,"),
        (
            ("compare", "moons", "--models", "p=1"),
            "--models names no model before the setting 'p=1'",
        ),
        (("compare", "moons", "--fit-time-limit", "-1"), "--fit-time-limit must be"),
        (
            ("select", "moons", "--grid", "C=1", "--scoring", "accurate"),
            "no score 'accurate'; write for example 'accuracy'",
        ),
        (
            ("compare", "moons", "--models", "psvm", "odm"),
            "(odm); the values of one option are separated by commas",
        ),
        (("study", "nothing.toml"), "the file nothing.toml does not exist"),
        (("compare", "nothing.csv"), "the file nothing.csv does not exist"),
        (
            ("compare", "nothing"),
            "neither --data-dir nor SVMCVX_DATA is set; pass a path or --data-dir",
        ),
        (("compare", "moons", "--backend", "x"), "--backend must be one of joblib's"),
        (
            ("compare", "moons", "--json", "-", "--csv", "-"),
            "only one of --json, --csv and --latex",
        ),
        (("select", "moons"), "either --grid C=0.1,1,10, or --certified C=0.01:100"),
        (("select", "moons", "--grid", "C=1", "--certified", "C=1:2"), "either --grid"),
        (("select", "moons", "--certified", "C=1"), "NAME=LOW:HIGH"),
        (
            ("select", "moons", "--certified", "C=1:2", "--scoring", "accuracy"),
            "leave out --scoring",
        ),
        (("select", "moons", "--grid", "C"), "of the form NAME=VALUES, as in C=0.1,1,10"),
        (("select", "moons", "--grid", "C=1,", "--grid", "p=1"), "an empty value"),
        (("select", "moons", "--grid", "C=1", "--grid", "C=2"), "--grid names C twice"),
        (("select", "moons", "--grid", "C=log:1:2"), "cannot read the range 'C=log:1:2'"),
        (("select", "moons", "--grid", "q=1,2"), "which psvm does not have; there are C,"),
        (
            ("select", "moons", "--grid", "C=1,2", "--model", "psvm,odm"),
            "--model must be one model",
        ),
        (("certify", "nothing.skops", "moons"), "the file nothing.skops does not exist"),
        (("compare", "moons", "--scale", "log"), "'log' is not one of"),
        (("compare", "moons", "--missing", "guess"), "'guess' is not one of"),
        (("compare", "moons", "--split", "1.0"), "--split must be"),
        (("compare", "moons", "--plot", "no/such/folder/p.png"), "cannot be written"),
        (("compare", "moons", "--plot", "picture.xyz"), "no known type"),
        (("compare", "moons", "--solver", "ecosolve"), "solver must be"),
        (("compare", "moons", "--nonsense"), "No such option"),
        (("compare",), "Missing argument"),
        (("explain",), "No such command"),
    ],
)
def test_bad_arguments_end_in_one_line_and_exit_code_two(run, arguments, message):
    code, out, err = run(*arguments)
    combined = " ".join((out + err).split())
    assert message in combined
    assert "Traceback" not in combined
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_a_model_that_fails_is_told_and_the_others_are_compared(run):
    code, out, _ = run("compare moons --models psvm:C=-1,psvm")
    assert code == 1
    assert "psvm(C=-1): C must be" in out
    assert "yes" in out


def test_doctor_knows_every_solver(run):
    code, out, _ = run("doctor")
    assert code == 0
    for name in ("MOSEK", "CLARABEL", "SCS", "SCIP", "HIGHS", "GUROBI"):
        assert name in out


def test_compile_leaves_nothing_to_compile(run):
    assert run("compile", "--functions")[0] == 0
    code, out, _ = run("compile")
    assert code == 0
    rows = [
        line.split()
        for line in out.splitlines()
        if line.startswith((" zero_one", " l0", " psvm", " hard"))
    ]
    assert len(rows) > 10
    for row in rows:
        assert row[-1] == "0"
        assert float(row[-3]) == 0.0


def test_every_group_of_first_calls_is_compiled_ahead():
    from svmcvx.cli.commands import GROUPS
    from svmcvx.fast.compile_ahead import _calls

    assert set(GROUPS) == set(_calls())
    assert len(GROUPS) == len(set(GROUPS))


def test_a_pass_that_fails_first_works_later():
    from svmcvx.system.compilation import compiled

    @compiled()
    def halved(x):
        if x < 0.0:
            raise ValueError("negative")
        return 0.5 * x

    with pytest.raises(ValueError, match="negative"):
        halved(-1.0)
    assert [halved(3.0), halved(3.0), halved(np.float64(4.0))] == [1.5, 1.5, 2.0]


def test_an_inner_pass_called_from_python_runs_its_source():
    from svmcvx.system.compilation import compiled

    @compiled(inner=True)
    def inner(x):
        return 2.0 * x

    @compiled()
    def outer(x):
        return inner(x) + 1.0

    assert inner(3.0) == 6.0
    assert outer(3.0) == 7.0


def test_a_limit_of_everything_names_the_models_that_had_no_time(run):
    code, out, _ = run("compare wine --models psvm:p=1,psvm:p=2 --time-limit 1e-9 --json t.json")
    assert code == 3
    assert "no time for this model" in " ".join(out.split())
    content = json.loads(Path("t.json").read_text())
    assert not content["complete"]
    assert [row["upper"] for row in content["rows"]] == [None, None]
    assert run("compare wine --time-limit -1")[0] == 2


def test_version_and_help(run):
    assert run("--version")[1].startswith("svmcvx 0.")
    code, out, _ = run("compare", "--help")
    assert code == 0
    assert "--models" in out


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_finished(tmp_path):
    models = "psvm:p=2," + ",".join(f"psvm:p={1.3 + 0.01 * i:.2f}" for i in range(60))
    command = [
        sys.executable,
        "-m",
        "svmcvx",
        "compare",
        "breast_cancer",
        "--kernel",
        "rbf",
        "--solver",
        "clarabel",
    ]
    files = ["--store", str(tmp_path / "rows.sqlite"), "--json", str(tmp_path / "t.json")]
    process = Popen(
        [*command, "--models", models, *files],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )
    # Long: only so that a defect does not wait for ever.
    deadline = time.monotonic() + 600
    rows = Store(tmp_path / "rows.sqlite")
    while not len(rows) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "psvm(p=2)" in out
    content = json.loads((tmp_path / "t.json").read_text())
    assert not content["complete"]
    assert content["rows"][0]["certified"]
    assert len(rows) == len(content["rows"])


STUDY = """
repeats = 2
cv = 2
datasets = ["blobs", "moons"]
[models]
hinge = { model = "psvm", tune = { C = [0.1, 1.0] } }
squared = { model = "psvm", p = 2.0 }
ridge = "sklearn.linear_model.RidgeClassifier"
"""


def test_a_study_is_run_from_its_file(run, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    files = "--html r.html --csv r.csv --latex r.tex"
    code, out, _ = run(f"study study.toml --store s.sqlite --guarantee {files}")
    assert code == 0
    assert "accuracy of every optimal machine" in " ".join(out.split())
    rows = {line.split()[0]: line.split() for line in reversed(out.splitlines()) if line.strip()}
    table = pd.read_csv(tmp_path / "r.csv")
    mean = table[(table["dataset"] == "blobs") & (table["model"] == "hinge")]["accuracy"].mean()
    assert rows["blobs"][1].startswith(f"{mean:.3f}±")
    assert "24 of 24 solves certified" in " ".join(out.split())
    assert "<title>study</title>" in (tmp_path / "r.html").read_text()
    assert (tmp_path / "r.tex").read_text().startswith("\\begin{tabular}")
    assert len(Store(tmp_path / "s.sqlite")) == 12
    (tmp_path / "study.toml").write_text(
        STUDY.replace('"moons"', '"hhar"').replace("p = 2.0", "C = -1.0")
    )
    code, out, _ = run("study study.toml --store s.sqlite")
    assert code == 1
    assert "hhar is left out: hhar (UCI HAR, smartphones) cannot be had" in out
    assert "2 failed: C must be" in out
    assert not (tmp_path / "study.sqlite").exists()
    assert run("study", "study.toml")[0] == 1
    assert len(Store(tmp_path / "study.sqlite")) == 6, "the store of a study stands beside its file"
    assert run("study", "absent.toml")[0] == 2
    assert run("study study.toml --csv no/such/folder.csv")[0] == 2


def test_the_proof_of_a_pair_is_checked_against_the_data_of_all_classes(run):
    assert run("compare iris --models psvm:p=2 --proofs proofs --quiet")[0] == 0
    code, out, _ = run("verify proofs/psvm_p=2.setosa-virginica.npz proofs/training.npz")
    assert code == 0
    first, second, third = out.splitlines()[:3]
    assert first.startswith("the problem: psvm with C = 1.0, p = 2.0; no kernel; intercept free; ")
    assert first.endswith("columns; classes 'setosa', 'virginica'; all weights 1")
    assert second.startswith("proved: lower ")
    assert third == "the proof holds"
    assert run("verify proofs/psvm_p=2.setosa-virginica.npz wine")[0] == 2


def test_scores_of_test_rows_are_checked(run):
    X, y = svmcvx.synthetic.outlier_data(30, 2, sigma=0.5, seed=4)
    np.savez("train.npz", X=X[:20], y=y[:20])
    np.savez("test.npz", X=X[20:], y=y[20:])
    solution = svmcvx.fast.psvm(X[:20], y[:20], C=1.0)
    svmcvx.guarantee(solution, X[:20], y[:20]).save_proof("proof.npz", X[20:])
    code, out, _ = run("verify proof.npz train.npz --test test.npz")
    assert code == 0
    assert "proved: scores of every optimal machine on 10 test rows, 0 undecided; digest " in out
    for arguments, why in (
        ((), "pass them as test"),
        (("--test", "train.npz"), "the test rows are not those of the proof"),
    ):
        code, out, _ = run("verify proof.npz train.npz", *arguments)
        assert code == 1
        assert why in out


def test_a_claim_that_was_not_checked_does_not_hold(run):
    X, y = svmcvx.synthetic.outlier_data(20, 2, sigma=0.5, seed=4)
    np.savez("data.npz", X=X, y=y)
    solution = svmcvx.fast.zero_one(X, y, lam=1.0, settings=SearchSettings(record=0.0))
    solution.save_proof("proof.npz")
    code, out, _ = run("verify proof.npz data.npz")
    assert code == 0
    assert "that a search states is not part of the proof" in out
    assert "upper" in out
    write_proof(
        "proof.npz", replace(solution.proof(), lower=solution.certificate.lower, stated=None)
    )
    code, out, _ = run("verify proof.npz data.npz")
    assert code == 1
    assert "the proof does not hold: " in out
