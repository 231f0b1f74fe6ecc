"""The command line: every command, what all of them share, and that its page is true."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, LinearSVC

import svmcvx as sx
from svmcvx import datasets
from svmcvx.cli import screen
from svmcvx.cli.application import ExitCode, app
from svmcvx.display import interval
from svmcvx.experiments.specifications import MODELS, parse_models
from svmcvx.experiments.store import Store
from svmcvx.fast.search.state import SearchSettings
from svmcvx.proofs import write_proof

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
COMMANDS = typer.main.get_command(app).commands
CANCER = load_breast_cancer()
X, Y = CANCER.data, CANCER.target_names[CANCER.target]


def content(path="t.json"):
    return json.loads(Path(path).read_text())


def intervals(path="t.json"):
    return [(row["classes"], row["lower"], row["upper"]) for row in content(path)["rows"]]


def test_help_and_misspelled_options_are_answered_without_what_computes(tmp_path):
    code = """
import sys
from svmcvx import cli
words = [["--help"], ["compare", "--help"], ["explain"], ["compare", "moons", "--modles", "psvm"]]
codes = [int(cli.run(one)) for one in words]
heavy = {"numpy", "scipy", "pandas", "sklearn", "cvxpy", "numba", "matplotlib", "joblib"}
print("codes", codes, "loaded", sorted(heavy & set(sys.modules)))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "codes [0, 0, 2, 2] loaded []"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compare nothing", "neither --data-dir nor SVMCVX_DATA is set; pass a path or --data-dir"),
        ("compare nothing.csv", "the file nothing.csv does not exist"),
        ("compare moons --models svm", "a name in models must be one of 'psvm'"),
        ("compare moons --kernel gauss", "'gauss' is not one of 'none', 'linear'"),
        ("compare moons --C -1", "--C must be a finite number in (0, inf)"),
        ("compare moons --gamma x", "--gamma must be"),
        ("compare moons --time-limit -1", "--time-limit must be"),
        ("compare moons --json - --csv -", "only one of --json, --csv and --latex"),
        ("compare moons --plot no/such/folder/p.png", "cannot be written"),
        ("compare moons --plot picture.xyz", "must be a .png, .pdf or .svg file"),
        ("compare moons --solver ecosolve", "--solver must be"),
        ("compare moons --nonsense", "No such option"),
        ("compare", "Missing argument"),
        ("select moons", "--grid must name values"),
        ("select moons --grid C", "cannot read 'C'"),
        ("select moons --grid C=1, --grid p=1", "cannot read 'C=1,'"),
        ("select moons --grid q=1,2", "'q'"),
        ("select moons --grid C=1 --model psvm,odm", "--model must be one model"),
        ("select moons --grid C=1 --scoring [/red]", "no score '[/red]'"),
        ("certify nothing.skops moons", "the file nothing.skops does not exist"),
    ],
)
def test_bad_arguments_end_in_one_line_and_exit_code_two(run, line, message):
    code, out, err = run(line)
    assert message in " ".join((out + err).split())
    assert "Traceback" not in out + err
    assert code == 2
    assert len(err.strip().splitlines()) == 1


# compare


@pytest.mark.parametrize("width", [70, 120])
def test_compare_prints_the_numbers_of_the_function(run, width):
    code, out, _ = run("compare blobs --models psvm:p=1.5,odm --metrics roc_auc", width=width)
    assert code == 0
    data = datasets.load("blobs")
    found = sx.compare(parse_models("psvm:p=1.5,odm"), data.X, data.y, metrics="roc_auc")
    for row in found.itertuples():
        for text in (*interval(row.lower, row.upper, 10), f"{row.gap:.1e}", f"{row.roc_auc:.4f}"):
            assert text in out.split()
    assert width == 70 or max(map(len, out.splitlines()[:6])) <= width


def test_a_baseline_is_tuned_beside_the_package_s_models(run):
    line = "compare blobs --models psvm,svc --kernel rbf --tune C=0.1,1 --cv 3 --seed 1"
    code, out, _ = run(f"{line} --json t.json")
    assert code == 0
    data = datasets.load("blobs")
    models = {"psvm": sx.PSVMClassifier(kernel="rbf"), "svc": SVC(random_state=0)}
    found = sx.compare(models, data, tune={"C": [0.1, 1.0]}, cv=3, seed=1)
    for row, own in zip(content()["rows"], found.itertuples(), strict=True):
        assert (row["params"], row["upper"]) == (own.params, own.upper)
        assert f"C={own.params['C']:g}" in out.split()
    code, out, _ = run("select blobs --model svc --grid C=0.1,1 --json t.json")
    assert (code, content()["best"]["certificates"]) == (0, [])


def test_the_demo_writes_a_picture_and_json(run, tmp_path):
    line = "compare moons --models psvm:p=1.5 --kernel rbf --C 2 --plot p.png --json t.json"
    assert run(line)[0] == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert content()["settings"]["C"] == 2.0
    (row,) = content()["rows"]
    assert row["certified"]
    assert row["lower"] <= row["upper"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "t.json"]


def test_every_formulation_is_on_the_command_line(run):
    names = sorted(set(MODELS) - {"zero-one", "ramp", "l0"})
    code, out, _ = run("compare blobs --models", ",".join(names), "--split", "0.6", "--strict")
    assert code == 0
    assert out.count("yes") == len(names)


def test_several_classes_have_a_certificate_for_each_pair_and_the_data_a_digest(run):
    line = "compare iris --models psvm:p=2,m3svm:p=2:lam=0.01 --seed 4 --json t.json --plot p.png"
    code, out, _ = run(line)
    assert code == 0
    pairs, single = content()["rows"]
    names = [record["classes"] for record in pairs["certificates"]]
    assert names == [list(pair) for pair in combinations(["setosa", "versicolor", "virginica"], 2)]
    for end in ("lower", "upper"):
        assert pairs[end] == pytest.approx(sum(one[end] for one in pairs["certificates"]), 1e-14)
    assert "psvm(p=2): interval of the sum of 3 binary problems" in " ".join(out.split())
    assert len(single["certificates"][0]["classes"]) == 3
    # A confusion matrix of each model, beside each other, at 150 dots an inch.
    assert int.from_bytes(Path("p.png").read_bytes()[16:20], "big") == 2 * 5.2 * 150
    data = datasets.load("iris")
    assert content()["data"]["sha256"] == datasets.content_digest(data.X, data.y)
    assert content()["data"]["classes"] == {"setosa": 50, "versicolor": 50, "virginica": 50}
    assert content()["split"] == {"training": 105, "test": 45}


def test_a_table_goes_to_files_or_to_the_standard_output(run):
    compared = "compare blobs --models psvm:p=1,psvm:p=2"
    code, out, _ = run(f"{compared} --csv t.csv --latex t.tex --html t.html --json -")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert pd.read_csv("t.csv")["upper"].tolist() == [row["upper"] for row in rows]
    assert f"${rows[1]['upper']:.6g}$" in Path("t.tex").read_text()
    report = re.split(r"[<>]", Path("t.html").read_text())
    assert {"psvm(p=2)", "lower"} <= set(report)
    assert "psvm(p=1), psvm(p=2): linear, free intercept, losses summed" in report
    assert run(f"{compared} --quiet") == (0, "", "")
    code, out, _ = run(f"{compared} --csv -")
    assert pd.read_csv(io.StringIO(out))["model"].tolist() == ["psvm(p=1)", "psvm(p=2)"]


def test_failures_and_missing_certificates_are_in_the_exit_code(run):
    code, out, _ = run("compare moons --models psvm:C=-1,psvm")
    assert code == 1
    assert "psvm(C=-1): C must be" in out
    line = "compare blobs --models psvm:p=2 --tol 1e-40 --solver fast"
    assert [run(line)[0], run(f"{line} --strict")[0]] == [0, 1]


def test_warnings_about_a_table_are_lines(run):
    columns = {"id": range(40), "day": ["2024-01-31"] * 40}
    columns |= {
        "colour": ["red", "blue", "?", "red"] * 10,
        "x": np.sin(range(40)),
        "y": [0, 0, 1, 1] * 10,
    }
    pd.DataFrame(columns).to_csv("t.csv", index=False)
    line = "compare t.csv --models psvm:p=2"
    assert "--target must name the column of the labels in t.csv; it has id," in run(line)[2]
    code, _, err = run(f"{line} --target y")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "load it without them, by --drop id,day, make numbers" in err
    assert "by --keep id,day" in err
    line += " --drop day"
    code, _, err = run(f"{line} --target y --drop id")
    assert code == 2
    assert "20 values are missing, in columns colour_blue, colour_red" in err
    assert "--missing drop" in err
    code, out, err = run(f"{line} --target y --drop id --missing drop")
    assert (code, err.splitlines()[0]) == (
        *(0, "svmcvx: t.csv: columns of text are one-hot encoded: colour (2 values, 10 missing)"),
    )
    assert "30 × 3" in out
    assert "40 × 3" in run(f"{line} --target y --drop id --missing median")[1]
    assert "40 × 1" in run(f"{line} --target y --drop id,colour")[1]


def test_a_limit_of_everything_names_the_models_that_had_no_time(run):
    code, out, _ = run("compare wine --models psvm:p=1,psvm:p=2 --time-limit 1e-9 --json t.json")
    assert code == 3
    assert "no time for this model" in " ".join(out.split())
    assert not content()["complete"]
    assert [row["upper"] for row in content()["rows"]] == [None, None]


def test_ctrl_c_before_a_command_has_begun_its_work(run, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("svmcvx.cli.commands.load", pressed)
    assert run("compare", "moons") == (130, "", "svmcvx: interrupted\n")


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_finished(tmp_path):
    models = "psvm:p=2," + ",".join(f"psvm:p={1.3 + 0.01 * i:.2f}" for i in range(60))
    line = "compare breast_cancer --kernel rbf --solver clarabel --store rows.sqlite --json t.json"
    command = [sys.executable, "-m", "svmcvx", *line.split(), "--models", models]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes, cwd=tmp_path)
    # Long: only so that a defect does not wait for ever.
    deadline = time.monotonic() + 600
    rows = Store(tmp_path / "rows.sqlite")
    # The first of two stored rows has been taken up.
    while len(rows) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "psvm(p=2)" in out
    written = content(tmp_path / "t.json")
    assert not written["complete"]
    assert written["rows"][0]["certified"]
    assert len(rows) - 1 <= len(written["rows"]) <= len(rows)


# select


def test_select_finds_what_the_function_finds(run):
    data = datasets.load("wine")
    machine = make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0))
    found = sx.select(machine, {"psvmclassifier__C": [0.01, 0.1, 1.0]}, data.X, data.y, cv=3)
    line = "select wine --model psvm:p=2.0 --grid C=log:0.01:1:3 --cv 3 --store r.sqlite"
    code, out, _ = run(f"{line} --json t.json")
    assert code == 0
    scores = [row["mean_test_score"] for row in content()["rows"]]
    assert scores == pytest.approx(found["mean_test_score"].tolist())
    best = content()["best"]["params"]["C"]
    assert best == pytest.approx(found.best_params_["psvmclassifier__C"])
    assert f"best: C={best:.6g}, score {found.best_score_:.4f}" in out
    assert [one["certified"] for one in content()["best"]["certificates"]] == [True] * 3
    code, out, _ = run(f"{line} --time-limit 1e-9")
    assert (code, "9 rows taken from the file of --store" in out) == (0, True)
    code, _, err = run("select wine --grid C=1,2 --time-limit 1e-9")
    assert code == 3
    assert "the time limit passed after 0 of 10 fits: the result holds these; pass --store" in err


# certify


def test_a_pipeline_of_scikit_learn_is_certified(run):
    skops = pytest.importorskip("skops.io")
    frame = pd.DataFrame(X, columns=list(CANCER.feature_names))
    pipeline = make_pipeline(StandardScaler(), SVC(C=3.0)).fit(frame, Y)
    skops.dump(pipeline, "m.skops")
    code, _, err = run("certify m.skops breast_cancer --json t.json")
    assert (code, err) == (0, "")
    own = sx.certify(pipeline, frame, Y)
    assert intervals() == [(["benign", "malignant"], own.lower, own.upper)]
    assert run("certify m.skops breast_cancer --strict --tol 1e-12")[0] == 1
    skops.dump(SVC().fit(scale(X), Y), "m.skops")
    assert run("certify m.skops breast_cancer --scale standard")[0] == 0
    assert run("certify m.skops breast_cancer")[0] == 2


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (LinearSVC(dual=False), [["class_0", "rest"], ["class_1", "rest"], ["class_2", "rest"]]),
        (SVC(), [["class_0", "class_1"], ["class_0", "class_2"], ["class_1", "class_2"]]),
        (LogisticRegression(), [["class_0", "class_1", "class_2"]]),
    ],
)
def test_models_of_several_classes_are_certified(run, model, names):
    skops = pytest.importorskip("skops.io")
    wine = load_wine()
    fitted = make_pipeline(StandardScaler(), model).fit(wine.data, wine.target_names[wine.target])
    skops.dump(fitted, "m.skops")
    code, out, _ = run("certify m.skops wine --json t.json")
    assert code == 0
    every = ["class_0", "class_1", "class_2"]
    assert [classes for classes, _, _ in intervals()] == [*names, *([every] * (len(names) > 1))]
    for _, *ends in intervals():
        assert ends[0] <= ends[1]
        assert set(interval(*ends, 10)) <= set(out.split())


def test_files_that_could_run_code_are_not_read(run):
    import joblib

    skops = pytest.importorskip("skops.io")
    joblib.dump(SVC().fit(scale(X), Y), "m.joblib")
    skops.dump(GridSearchCV(SVC(), {"C": [1.0]}, cv=2).fit(scale(X), Y), "search.skops")
    for name, message in (
        ("m.joblib", "Pickles and joblib files can run any code"),
        ("search.skops", "could run code of their own"),
    ):
        code, _, err = run("certify", name, "breast_cancer")
        assert (code, message in err) == (2, True), err


def test_model_files_of_liblinear_are_certified(run):
    folder = Path(__file__).parent.parent / "estimators" / "model_files"
    line = f"certify {folder / 'liblinear_three.model'} {folder / 'data.csv'}"
    assert run(f"{line} --as psvm:C=2,p=2 --json t.json --target three --drop two")[0] == 0
    names = [[name, "rest"] for name in "123"]
    assert [classes for classes, _, _ in intervals()] == [*names, ["1", "2", "3"]]
    assert max(row["gap"] for row in content()["rows"]) < 1e-6


@pytest.mark.parametrize("own", [False, True])
def test_coefficients_are_certified_as_an_answer_to_a_problem(run, own):
    Z = StandardScaler().fit_transform(X)
    solution = sx.fast.psvm(Z, Y, C=0.5, p=2.0, tol=1e-4)
    w, b = -20.0 * solution.model.coef, solution.model.intercept
    if own:
        replace(solution.model, coef=w).save("m.npz")
    else:
        np.savez("m.npz", coef=w, intercept=b)
    line = "certify m.npz breast_cancer --scale standard --as psvm:p=2.0,C=0.5 --json t.json"
    assert run(line)[0] == 0
    ((classes, lower, upper),) = intervals()
    assert classes == ["benign", "malignant"]
    losses = np.maximum(1.0 - np.where(Y == "malignant", 1.0, -1.0) * (Z @ w + b), 0.0) ** 2
    assert upper == pytest.approx(0.5 * w @ w + 0.5 * losses.sum(), rel=1e-9)
    assert lower == pytest.approx(solution.certificate.upper, rel=1e-3)
    assert lower <= solution.certificate.upper


def test_coefficients_that_do_not_fit_are_refused(run):
    np.savez("short.npz", coef=np.ones(5), intercept=0.0)
    np.savez("other.npz", v=np.ones(5))
    np.savez("odd.npz", coef=np.full(30, np.nan), intercept=0.0)
    for line, message in (
        ("short.npz breast_cancer --as psvm", "need (1, 30)"),
        ("other.npz breast_cancer --as psvm", "must have coef or dual_coef"),
        ("odd.npz breast_cancer --as psvm", "must be finite"),
        ("short.npz breast_cancer", "pass --as PROBLEM"),
        ("short.npz breast_cancer --as psvm,odm", "--as must be one model"),
    ):
        code, _, err = run(f"certify {line}")
        assert (code, message in err) == (2, True), err


# verify, compile, doctor


def test_the_proof_of_a_pair_is_checked_against_the_data_of_all_classes(run):
    assert run("compare iris --models psvm:p=2 --proofs proofs --quiet")[0] == 0
    code, out, _ = run("verify proofs/psvm_p=2.setosa-virginica.npz proofs/training.npz")
    assert code == 0
    problem, proved, verdict = out.splitlines()[:3]
    assert problem.startswith(
        "the problem: psvm with C = 1.0, p = 2.0; no kernel; intercept free; "
    )
    assert proved.startswith("proved: lower ")
    assert verdict == "the proof holds"
    assert run("verify proofs/psvm_p=2.setosa-virginica.npz wine")[0] == 2


def test_scores_of_test_rows_are_checked(run):
    Z, y = sx.synthetic.outlier_data(30, 2, sigma=0.5, seed=4)
    np.savez("train.npz", X=Z[:20], y=y[:20])
    np.savez("test.npz", X=Z[20:], y=y[20:])
    solution = sx.fast.psvm(Z[:20], y[:20], C=1.0)
    sx.guarantee(solution, Z[:20], y[:20]).save_proof("proof.npz", Z[20:])
    code, out, _ = run("verify proof.npz train.npz --test test.npz")
    assert code == 0
    assert "proved: scores of every optimal machine on 10 test rows, 0 undecided; digest " in out
    code, out, _ = run("verify proof.npz train.npz --test train.npz")
    assert (code, "the test rows are not those of the proof" in out) == (1, True)


def test_a_claim_that_was_not_checked_does_not_hold(run):
    Z, y = sx.synthetic.outlier_data(20, 2, sigma=0.5, seed=4)
    np.savez("data.npz", X=Z, y=y)
    solution = sx.fast.zero_one(Z, y, lam=1.0, settings=SearchSettings(record=0.0))
    solution.save_proof("proof.npz")
    code, out, _ = run("verify proof.npz data.npz")
    assert (code, "that a search states is not part of the proof" in out) == (0, True)
    claimed = replace(solution.proof(), lower=solution.certificate.lower, stated=None)
    write_proof("proof.npz", claimed)
    code, out, _ = run("verify proof.npz data.npz")
    assert (code, "the proof does not hold: " in out) == (1, True)


def test_compile_leaves_nothing_to_compile(run):
    from svmcvx.cli.commands import GROUPS
    from svmcvx.fast.compile_ahead import _calls

    assert set(GROUPS) == set(_calls())
    assert run("compile")[0] == 0
    code, out, _ = run("compile --json -")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert len(rows) > 10
    assert {(row["functions"], row["compiling"]) for row in rows} == {(0, 0.0)}


def test_a_compiled_function_that_fails_first_works_later_and_an_inner_one_runs_its_source():
    from svmcvx.system.compilation import compiled

    @compiled(inner=True)
    def halved(x):
        return 0.5 * x

    @compiled()
    def checked(x):
        if x < 0.0:
            raise ValueError("negative")
        return halved(x)

    with pytest.raises(ValueError, match="negative"):
        checked(-1.0)
    assert [checked(3.0), checked(np.float64(4.0)), halved(3.0)] == [1.5, 2.0, 1.5]


def test_an_absent_licence_is_named_by_doctor_alone(run, monkeypatch):
    from svmcvx.solve import policy

    why = "License cannot be located."
    monkeypatch.setattr(policy, "licence_problem", lambda name: why if name == "MOSEK" else None)
    monkeypatch.setattr(policy, "installed", lambda card: card.name in ("MOSEK", "CLARABEL"))
    code, out, _ = run("compare blobs --models conic --split 0.8 --json t.json")
    assert code == 0
    assert why not in out + Path("t.json").read_text()
    code, out, _ = run("doctor --csv t.csv")
    assert why in out
    solvers = {"MOSEK", "CLARABEL", "SCS", "SCIP", "HIGHS", "GUROBI"}
    assert solvers <= set(pd.read_csv("t.csv")["name"])


# Text of data

STRANGE = ["[/red]a", "[bold]b", "[link=http://x]c[/link]", '=HYPERLINK("http://x","d")', "@e"]


def test_text_of_data_is_neither_markup_nor_a_formula(run):
    """Labels with brackets, in each command that prints them, and at a narrow width."""
    rng = np.random.default_rng(0)
    y = np.repeat(STRANGE, 12)
    x = rng.standard_normal((60, 2)) + np.unique(y, return_inverse=True)[1][:, None]
    np.savez("d.npz", X=x, y=y)
    np.savez("m.npz", coef=np.ones((5, 2)), intercept=np.zeros(5))
    problem = "multiclass:loss=crammer_singer"
    for width in (200, 40):
        code, out, err = run("certify m.npz d.npz --as", problem, width=width)
        assert code == 0, err
        assert width == 40 or all(label in out for label in STRANGE), out
    assert run("certify m.npz d.npz --as", problem, "--csv", "c.csv", "-q")[0] == 0
    assert pd.read_csv("c.csv")["classes"][0].startswith("'=HYPERLINK(")
    code, out, _ = run("select d.npz --grid C=1,2 --cv 2 --model psvm:p=2")
    assert (code, "[/red]a, [bold]b" in out) == (0, True)
    assert run("compare d.npz --models psvm:p=2 --proofs proofs")[0] == 0


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        *(("=1+1", False), ("@SUM(1)", False), ("-2+3+cmd|' /C calc'!A0", False)),
        *(("-1, rest", True), ("+1.5e-3", True), ("plain", True), (-1.5, True)),
    ],
)
def test_a_cell_of_a_file_is_no_formula(text, safe):
    assert screen.safe_cell(text) == (text if safe else f"'{text}")


# The page


def test_the_page_names_every_option_and_no_other():
    text = re.sub(r"```python.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    general = {"--help", "--install-completion", "--show-completion", "-m", "-c"}
    opts = {opt for one in COMMANDS.values() for param in one.params for opt in param.opts}
    known = {opt for opt in opts if opt.startswith("-")} - {"--help"}
    assert named - known - general == set()
    assert known - named == set()
    assert set(COMMANDS) == set(re.findall(r"\| `svmcvx (\w+)", text))


def examples():
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return [line.partition(" | ")[0] for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("line", examples())
def test_the_examples_of_the_page_can_be_read(line):
    program, command, *words = shlex.split(line)
    assert program == "svmcvx"
    context = COMMANDS[command].make_context(command, words)
    # The model of ``certify`` is a file.
    for name in ("models", "as_") if command == "certify" else ("models", "model", "as_"):
        if isinstance(text := context.params.get(name), str):
            assert parse_models(text)


def test_the_pages_schema_and_exit_codes_are_those_of_the_program(run):
    text = PAGE.read_text()
    run("compare blobs --models psvm:p=2 --json t.json")
    (row,) = content()["rows"]
    for name in [*content(), *content()["data"], *row, *row["certificates"][0]]:
        assert f"`{name}`" in text
    written = re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)
    assert set(map(int, written)) == set(ExitCode)
    assert run("--version")[1].startswith("svmcvx 0.")
    if os.name == "posix":
        Path("plain").touch()
        assert Path("t.json").stat().st_mode == Path("plain").stat().st_mode
