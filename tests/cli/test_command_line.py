"""The command line: what all commands share, select, certify, and that its page tells the truth."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, LinearSVC

import svmcvx as sx
from svmcvx import cli, datasets
from svmcvx.cli import completion, screen
from svmcvx.cli.application import ExitCode, app
from svmcvx.experiments.specifications import parse_models

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
COMMANDS = typer.main.get_command(app).commands


def test_help_and_typos_are_answered_without_what_computes(tmp_path):
    code = """
import sys
from svmcvx import cli
typos = [
    ["--help"], ["compare", "--help"], ["explain"], ["compare", "moons", "--modles", "psvm"], ["compare", "t.csv"],
    ["compare", "moons", "--models", "pvsm"], ["compare", "moons", "--kernel", "gauss"], ["select", "moons", "--grid", "C"],
    ["certify", "m.skops", "moons"],
]
codes = [int(cli.run(words)) for words in typos]
heavy = {"numpy", "scipy", "pandas", "sklearn", "cvxpy", "numba", "matplotlib", "joblib"}
sys.stdout = sys.__stdout__
print("codes", codes, "loaded", sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "codes [0, 0, 2, 2, 2, 2, 2, 2, 2] loaded []"


# Tables


@given(
    names=st.lists(st.text("abc=,( )", min_size=1, max_size=40), min_size=1, max_size=4),
    columns=st.lists(
        st.tuples(st.integers(1, 14), st.integers(0, 4), st.booleans()), min_size=1, max_size=9
    ),
    width=st.integers(24, 130),
)
def test_a_table_fits_any_width_with_whole_numbers_and_its_first_column(names, columns, width):
    numbers = [str(10**length - 1 - k) for k, (length, _, _) in enumerate(columns)]
    shown = [screen.Column("name", [f"<{name}>" for name in names], text=True)]
    for k, (_, rank, text) in enumerate(columns):
        shown.append(
            screen.Column(
                f"h{k}", [numbers[k]] * len(names), rank=rank, text=text and len(numbers[k]) < 9
            )
        )
    printed = io.StringIO()
    console = Console(file=printed, width=width)
    screen.show(console, None, shown, elsewhere="elsewhere")
    text = printed.getvalue()
    lines = text.splitlines()
    note = next((line for line in lines if line.startswith("no room for")), "no room for : ")
    left_out = note.removeprefix("no room for ").partition(":")[0].split(", ")
    records = lines[0].startswith("<")
    for line in lines:
        assert records or line == note or cell_len(line) <= width
    assert text.count("<") == text.count(">") == len(names)
    for k, (number, column) in enumerate(zip(numbers, shown[1:], strict=True)):
        if f"h{k}" in left_out:
            assert column.rank > 0
        else:
            found = [word for line in lines if line != note for word in line.split()]
            assert found.count(number) == len(names) * sum(
                other == number and f"h{j}" not in left_out for j, other in enumerate(numbers)
            )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_comparison_names_its_models_at_every_width(run, width):
    code, out, _ = run("compare blobs --models psvm:p=1.5,C=10,odm", width=width)
    assert code == 0
    found = sx.compare(
        parse_models("psvm:p=1.5,C=10,odm"),
        *(lambda d: (d.X, d.y))(datasets.load("blobs")),
        scale="standard",
    )
    for row in found.itertuples():
        assert row.model in " ".join(out.split())
        assert f"{row.upper:.10g}" in out.split()
        assert f"{row.gap:.1e}" in out.split()


# What goes to files


def test_several_classes_have_a_certificate_for_each_pair(run):
    code, out, _ = run("compare wine --models psvm:p=2,m3svm:p=2:lam=0.01 --json t.json")
    assert code == 0
    content = json.loads(Path("t.json").read_text())
    pairs, single = content["rows"]
    assert [record["classes"] for record in pairs["certificates"]] == [
        ["class_0", "class_1"],
        ["class_0", "class_2"],
        ["class_1", "class_2"],
    ]
    worst = max(pairs["certificates"], key=lambda record: record["gap"])
    assert [pairs[name] for name in ("lower", "upper", "gap")] == [
        *(worst["lower"], worst["upper"], worst["gap"])
    ]
    assert "psvm(p=2): interval of the largest gap of 3 binary machines" in " ".join(out.split())
    (record,) = single["certificates"]
    assert (record["upper"], record["lower"]) == (single["upper"], single["lower"])
    assert len(record["classes"]) == 3


def test_the_json_tells_what_it_was_computed_from(run):
    previous = os.umask(0o022)
    try:
        code, _, _ = run("compare iris --models psvm:p=2 --split 0.2 --seed 4 --json t.json")
    finally:
        os.umask(previous)
    assert code == 0
    content = json.loads(Path("t.json").read_text())
    data = datasets.load("iris")
    assert content["schema"] == 1
    assert content["versions"]["svmcvx"] == sx.__version__
    assert content["data"]["sha256"] == datasets.content_digest(data.X, data.y)
    assert content["data"]["classes"] == {"setosa": 50, "versicolor": 50, "virginica": 50}
    assert content["split"] == {"training": 120, "test": 30, "test_size": 0.2, "seed": 4}
    if os.name == "posix":
        assert Path("t.json").stat().st_mode & 0o777 == 0o644


def test_a_table_goes_to_files_or_to_the_standard_output(run):
    compared = "compare blobs --models psvm:p=1,psvm:p=2"
    files = "--csv t.csv --latex t.tex --html t.html --json -"
    code, out, _ = run(f"{compared} --quiet {files}")
    assert code == 0
    rows = json.loads(out)["rows"]
    table = pd.read_csv("t.csv")
    assert table["upper"].tolist() == [row["upper"] for row in rows]
    latex = Path("t.tex").read_text()
    assert latex.startswith(r"\begin{tabular}")
    assert f"${rows[1]['upper']:.6g}$" in latex
    assert {"psvm(p=2)", "lower"} <= set(re.split(r"[<>]", Path("t.html").read_text()))
    code, out, err = run(f"{compared} --quiet")
    assert (code, out, err) == (0, "", "")
    code, out, _ = run(f"{compared} --csv -")
    assert pd.read_csv(io.StringIO(out))["model"].tolist() == ["psvm(p=1)", "psvm(p=2)"]


def test_lists_go_to_files_too(run):
    code, out, _ = run("doctor --json -")
    content = json.loads(out)
    assert (code, content["command"], content["complete"]) == (0, "doctor", True)
    assert run("doctor --csv t.csv --quiet")[:2] == (0, "")
    assert len(pd.read_csv("t.csv")) == len(content["rows"]) > 0


def test_an_absent_licence_is_told_by_doctor_alone(run, monkeypatch):
    from svmcvx.solve import policy

    why = "License cannot be located."
    monkeypatch.setattr(policy, "licence_problem", lambda name: why if name == "MOSEK" else None)
    monkeypatch.setattr(policy, "installed", lambda card: card.name in ("MOSEK", "CLARABEL"))
    code, out, _ = run("compare blobs --models conic --solver auto --split 0.8 --json t.json")
    assert code == 0
    assert why not in out
    assert why not in Path("t.json").read_text()
    assert why in run("doctor")[1]


def test_what_was_reused_is_told(run):
    arguments = ("--store", "rows.sqlite", "--json", "t.json")
    run("compare blobs --models psvm:p=1", *arguments)
    first = json.loads(Path("t.json").read_text())
    code, out, _ = run("compare blobs --models psvm:p=1,psvm:p=2", *arguments)
    second = json.loads(Path("t.json").read_text())
    assert code == 0
    assert "1 model taken from the file of --store" in out
    assert (first["reused"], second["reused"]) == (0, 1)
    assert second["rows"][0] == first["rows"][0]


def test_strict_asks_for_certificates(run):
    assert run("compare blobs --models psvm:p=2 --strict")[0] == 0
    arguments = "compare blobs --models psvm:p=2 --tol 1e-40 --solver fast"
    assert run(arguments)[0] == 0
    assert run(arguments, "--strict")[0] == 1


def test_warnings_about_a_table_are_lines(run):
    table = pd.DataFrame(
        {
            "id": range(40),
            "colour": ["red", "blue"] * 20,
            "x": np.sin(range(40)),
            "y": [0, 0, 1, 1] * 10,
        }
    )
    table.to_csv("t.csv", index=False)
    code, _, err = run("compare t.csv --target y --models psvm:p=2")
    assert code == 2
    assert (
        err
        == "svmcvx: t.csv: the column 'id' seems to number or name the rows; leave it out by --drop"
        " id, or use it as features by --keep id\n"
    )
    code, _, err = run("compare t.csv --target y --models psvm:p=2 --keep id")
    assert (code, err) == (
        0,
        "svmcvx: t.csv: columns of text are one-hot encoded: colour (2 values)\n",
    )
    code, _, err = run("compare t.csv --target y --models psvm:p=2 --drop id --drop colour")
    assert (code, err) == (0, "")
    code, _, err = run("compare", "t.csv")
    assert code == 2
    assert (
        err
        == "svmcvx: --target must name the column of the labels in t.csv; it has id, colour, x, y\n"
    )


def test_missing_text_is_governed_by_missing(run):
    table = pd.DataFrame(
        {"colour": ["red", "blue", "?", "red"] * 10, "x": np.sin(range(40)), "y": [0, 0, 1, 1] * 10}
    )
    table.to_csv("t.csv", index=False)
    arguments = "compare t.csv --target y --models psvm:p=2"
    code, _, err = run(arguments)
    assert code == 2
    assert (
        "t has 20 missing values, in colour_blue, colour_red; pass --missing drop or --missing"
        " median" in err
    )
    assert "30 × 3" in run(arguments, "--missing", "drop")[1]
    code, out, _ = run(arguments, "--missing", "median")
    assert code == 0
    assert "40 × 3" in out


def test_metrics_columns_and_digits_of_a_comparison(run):
    chosen = "--metrics balanced_accuracy --columns model,balanced_accuracy,upper --digits 2"
    code, out, _ = run(f"compare blobs --models psvm:p=2,odm {chosen}")
    assert code == 0
    assert "balanced_accuracy" in out.replace("\n", "")
    assert "odm: linear, penalised intercept, losses averaged" in out
    code, out, _ = run(f"compare blobs --models psvm:p=2,odm {chosen}", "--latex", "-")
    assert code == 0
    assert out.splitlines()[2] == r"model & balanced accuracy & objective \\"
    assert re.match(r"psvm\(p=2\) & \$[01]\.\d\d\$ & \$\d+\.\d+\$ ", out.splitlines()[4])
    code, _, err = run("compare blobs --models psvm:p=2 --metrics acuracy")
    assert code == 2
    assert "must hold names of scores of scikit-learn" in err


# select


def test_select_finds_what_the_function_finds(run):
    data = datasets.load("wine")
    found = sx.select(
        make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0)),
        {"psvmclassifier__C": [0.01, 0.1, 1.0]},
        data.X,
        data.y,
        cv=3,
    )
    grid = ("--grid", "C=log:0.01:1:3", "--cv", "3")
    code, out, _ = run(
        "select wine --model psvm:p=2.0", *grid, "--json", "s.json", "--store", "r.sqlite"
    )
    assert code == 0
    content = json.loads(Path("s.json").read_text())
    assert content["settings"]["grid"] == {"C": pytest.approx([0.01, 0.1, 1.0])}
    assert [row["mean_test_score"] for row in content["rows"]] == pytest.approx(
        found["mean_test_score"].tolist()
    )
    best = content["best"]["params"]["C"]
    assert best == pytest.approx(found.best_params_["psvmclassifier__C"])
    assert f"best: C={best:.6g}, score {found.best_score_:.4f}" in out
    assert all(record["certified"] for record in content["best"]["certificates"])
    assert len(content["best"]["certificates"]) == 3
    code, out, _ = run(
        "select wine --model psvm:p=2.0", *grid, "--store", "r.sqlite", "--time-limit", "1e-9"
    )
    assert code == 0
    assert "9 fits taken from the file of --store" in out


def test_select_proves_the_best_of_a_range(run):
    arguments = "select moons --model psvm:p=2 --certified C=0.01:10 --eps 0.1 --cv 2"
    code, out, _ = run(arguments, "--json", "s.json", "--store", "r.sqlite")
    assert code == 0
    data = datasets.load("moons")
    machine = make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0))
    found = sx.certified_select(machine, data.X, data.y, C=(0.01, 10.0), cv=2, eps=0.1)
    content = json.loads(Path("s.json").read_text())
    assert content["complete"]
    assert (content["best"]["params"], content["best"]["errors"], content["least"]) == (
        found.best_params,
        found.errors,
        found.least,
    )
    assert f"no value in the range has fewer than {found.least}" in out
    code, out, _ = run(arguments, "--store", "r.sqlite")
    assert (code, "cuts taken from the file of --store" in out) == (0, True)
    code, _, err = run(arguments, "--time-limit", "1e-9")
    assert code == 3
    assert "the proof is not complete" in err


def test_select_that_has_no_time_says_so(run):
    code, _, err = run("select wine --grid C=1,2 --time-limit 1e-9")
    assert code == 3
    assert "the time limit passed: the table is not complete; pass --store FILE" in err


@pytest.mark.skipif(
    find_spec("distributed") is None, reason="needs the extra dask: pip install 'svmcvx[dask]'"
)
def test_a_dask_scheduler_by_its_address(run, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tcp",
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        remote = ("--backend", cluster.scheduler_address, "--store", "r.sqlite")
        code, there, _ = run("compare blobs --models psvm:p=1,odm", *remote, "--csv", "-")
        assert code == 0
        assert run("select blobs --grid C=1,2 --cv 2", *remote)[0] == 0
    here = run("compare blobs --models psvm:p=1,odm --csv -")[1]
    tables = [pd.read_csv(io.StringIO(text)).drop(columns="seconds") for text in (there, here)]
    pd.testing.assert_frame_equal(*tables, check_exact=False, rtol=1e-9)
    again = run("select blobs --grid C=1,2 --cv 2 --store r.sqlite")
    assert "4 fits taken" in again[1]


# certify

SKOPS = pytest.mark.skipif(
    find_spec("skops") is None, reason="needs the extra skops: pip install 'svmcvx[skops]'"
)
CANCER = load_breast_cancer()
X, Y = CANCER.data, CANCER.target_names[CANCER.target]


def intervals(path):
    return [
        (row["classes"], row["lower"], row["upper"])
        for row in json.loads(Path(path).read_text())["rows"]
    ]


@SKOPS
def test_a_pipeline_of_scikit_learn_is_certified(run):
    import skops.io

    pipeline = make_pipeline(StandardScaler(), SVC(C=3.0)).fit(
        pd.DataFrame(X, columns=list(CANCER.feature_names)), Y
    )
    skops.io.dump(pipeline, "m.skops")
    code, _, err = run("certify m.skops breast_cancer --json c.json")
    assert (code, err) == (0, "")
    own = sx.certify(
        pipeline[-1],
        pipeline[:-1].transform(pd.DataFrame(X, columns=list(CANCER.feature_names))),
        Y,
    )
    assert intervals("c.json") == [(["benign", "malignant"], own.lower, own.upper)]
    assert run("certify m.skops breast_cancer --strict --tol 1e-12")[0] == 1
    skops.io.dump(SVC().fit(scale(X), Y), "m.skops")
    assert run("certify m.skops breast_cancer --scale standard")[0] == 0
    code, _, err = run("certify m.skops breast_cancer")
    assert code == 2
    assert "say how by --scale" in err


@SKOPS
@pytest.mark.parametrize(
    ("model", "names"),
    [
        (LinearSVC(dual=False), [["class_0", "rest"], ["class_1", "rest"], ["class_2", "rest"]]),
        (SVC(), [["class_0", "class_1"], ["class_0", "class_2"], ["class_1", "class_2"]]),
        (LogisticRegression(), [["class_0", "class_1", "class_2"]]),
    ],
)
def test_models_of_several_classes_are_certified(run, model, names):
    import skops.io

    wine = load_wine()
    skops.io.dump(
        make_pipeline(StandardScaler(), model).fit(wine.data, wine.target_names[wine.target]),
        "m.skops",
    )
    code, out, _ = run("certify m.skops wine --json c.json")
    assert code == 0
    found = intervals("c.json")
    assert [classes for classes, _, _ in found] == names
    for _, lower, upper in found:
        assert lower <= upper
        assert f"{upper:.10g}" in out.split()


@SKOPS
def test_what_could_run_code_is_not_read(run):
    import joblib
    import skops.io

    fitted = SVC().fit(scale(X), Y)
    joblib.dump(fitted, "m.joblib")
    Path("m.skops").write_bytes(Path("m.joblib").read_bytes())
    for name in ("m.joblib", "m.skops"):
        code, _, err = run("certify", name, "breast_cancer")
        assert code == 2
        assert f"{name} is a pickle" in err
        assert "skops.io.dump(joblib.load(" in err
    skops.io.dump(GridSearchCV(SVC(), {"C": [1.0]}, cv=2).fit(scale(X), Y), "search.skops")
    code, _, err = run("certify search.skops breast_cancer")
    assert code == 2
    assert "could run code of their own" in err
    Path("noise.skops").write_text("noise")
    code, _, err = run("certify noise.skops breast_cancer")
    assert code == 2
    assert "cannot be read as a .skops file" in err


@pytest.mark.parametrize(
    ("model", "problem", "keys"),
    [
        ("libsvm_rbf", "psvm:C=2", ["-1, 1"]),
        ("liblinear_three", "psvm:C=2,p=2", ["1, rest", "2, rest", "3, rest"]),
    ],
)
def test_model_files_of_libsvm_and_liblinear_are_certified(run, model, problem, keys):
    folder = Path(__file__).parent.parent / "estimators" / "model_files"
    file, table = str(folder / f"{model}.model"), str(folder / "data.csv")
    target, other = ("three", "two") if model.endswith("three") else ("two", "three")
    code, _, _ = run(
        "certify",
        file,
        table,
        "--as",
        problem,
        "--target",
        target,
        "--drop",
        other,
        "--json",
        "x.json",
    )
    assert code == 0
    rows = json.loads(Path("x.json").read_text())["rows"]
    assert [", ".join(row["classes"]) for row in rows] == keys
    assert max(row["gap"] for row in rows) < 1e-6
    code, _, err = run("certify", file, "moons")
    assert code == 2
    assert "pass --as PROBLEM" in err


@pytest.mark.parametrize("kind", ["npz", "csv", "own"])
@pytest.mark.parametrize("factor", [1.0, -20.0])
def test_coefficients_are_certified_as_an_answer_to_a_problem(run, kind, factor):
    Z = StandardScaler().fit_transform(X)
    solution = sx.fast.psvm(Z, Y, C=0.5, p=2.0, tol=1e-4)
    w, b = factor * solution.model.coef, solution.model.intercept
    if kind == "npz":
        np.savez("m.npz", w=w, b=b)
    elif kind == "csv":
        table = pd.DataFrame({"name": [*CANCER.feature_names, "intercept"], "weight": [*w, b]})
        table.sample(frac=1.0, random_state=0).to_csv("m.csv", index=False)
    else:
        sx.LinearModel(
            coef=w, intercept=b, classes=solution.model.classes, support=np.zeros(0, int)
        ).save("m.npz")
    name = "m.csv" if kind == "csv" else "m.npz"
    arguments = "breast_cancer --scale standard --as psvm:p=2.0,C=0.5 --json c.json"
    code, _, _ = run(f"certify {name} {arguments}")
    assert code == 0
    ((classes, lower, upper),) = intervals("c.json")
    assert classes == ["benign", "malignant"]
    losses = np.maximum(1.0 - np.where(Y == "malignant", 1.0, -1.0) * (Z @ w + b), 0.0) ** 2
    assert upper == pytest.approx(0.5 * w @ w + 0.5 * losses.sum(), rel=1e-9)
    assert lower == pytest.approx(solution.certificate.upper, rel=1e-3)
    assert lower <= solution.certificate.upper


def test_coefficients_that_do_not_fit_are_refused(run):
    np.savez("short.npz", w=np.ones(5), b=0.0)
    np.savez("bare.npz", w=np.ones(30))
    np.savez("other.npz", v=np.ones(5))
    np.savez("odd.npz", w=np.full(30, np.nan), b=0.0)
    pd.DataFrame({"name": ["a"], "weight": ["b"]}).to_csv("text.csv", index=False)
    for arguments, message in (
        (("short.npz", "--as", "psvm"), "needs (1, 30)"),
        (("other.npz", "--as", "psvm"), "coef (or w) and intercept (or b) are needed"),
        (("odd.npz", "--as", "psvm"), "not finite"),
        (("text.csv", "--as", "psvm"), "a line (name,coefficient) for each column of the data"),
        (("bare.npz", "--as", "psvm"), "has no intercept, but the problem has one"),
        (("short.npz",), "pass --as PROBLEM"),
        (("short.npz", "--as", "psvm,odm"), "--as must be one problem"),
    ):
        code, _, err = run("certify", arguments[0], "breast_cancer", *arguments[1:])
        assert (code, message in err) == (2, True), err
    # One intercept of several that is no number.
    np.savez("several.npz", w=np.ones((3, 4)), b=np.array([0.0, np.nan, 0.0]))
    code, _, err = run("certify several.npz iris --as multiclass")
    assert (code, "not finite" in err) == (2, True), err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["name,weight", "a,1.5", "b,-2", "intercept,0.25"], ""),
        (["intercept,0.25", "b,-2", "a,1.5"], ""),
        (["a,1.5", "b,-2", "bias,0.25"], ""),
        (['"","x"', '"(Intercept)",0.25', '"a",1.5', '"b",-2'], ""),
        (["a;1,5", "b;-2,0", "intercept;0,25"], ""),
        (["a\t1.5", "b\t-2", "intercept\t0.25"], ""),
        (["a,1.5", "b,-2"], "has no intercept, but the problem has one; add it"),
        (["x1,1.5", "x2,-2", "intercept,0.25"], "differ in a, b, x1, x2"),
        (["a,1.5", "b,-2", "c,1", "intercept,0.25"], "differ in c"),
        (["a,1.5", "b,-2,3", "intercept,0.25"], "'b,-2,3' is not a name and a number"),
        (["a,1.5", "a,-2", "intercept,0.25"], "names a feature twice"),
    ],
)
def test_files_of_coefficients_in_every_dialect(run, lines, message):
    """Each gives the objective at its coefficients and its intercept, or is refused."""
    Path("m.csv").write_text("\n".join(lines))
    x = np.random.default_rng(0).standard_normal((40, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(y=np.where(x[:, 0] > 0, "v", "u"))
    table.to_csv("t.csv", index=False)
    arguments = "t.csv --target y --as psvm:p=1 --json c.json"
    code, _, err = run(f"certify m.csv {arguments}")
    if message:
        assert (code, message in err) == (2, True), err
        return
    assert code == 0, err
    scores = x @ [1.5, -2.0] + 0.25
    losses = np.maximum(1.0 - np.where(table["y"] == "v", 1.0, -1.0) * scores, 0.0)
    assert intervals("c.json")[0][2] == pytest.approx(0.5 * 6.25 + losses.sum(), rel=1e-12)


def test_a_problem_without_an_intercept_needs_none(run):
    np.savez("m.npz", w=np.ones(2))
    for problem in ("psvm:intercept=none", "odm:intercept=none"):
        assert run("certify m.npz moons --as", problem)[0] == 0


STRANGE = ["[/red]a", "[bold]b", "[link=http://x]c[/link]", '=HYPERLINK("http://x","d")', "@e"]


def test_text_of_data_is_neither_markup_nor_a_formula(run):
    """Labels with brackets, in each command that prints them, and at a width with lists."""
    rng = np.random.default_rng(0)
    y = np.repeat(STRANGE, 12)
    x = rng.standard_normal((60, 2)) + np.unique(y, return_inverse=True)[1][:, None]
    np.savez("d.npz", X=x, y=y)
    np.savez("m.npz", coef=np.ones((5, 2)), intercept=np.zeros(5))
    problem = "multiclass:loss=crammer_singer"
    for width in (120, 24):
        code, out, err = run("certify m.npz d.npz --as", problem, width=width)
        assert code == 0, err
        assert all(label in "".join(out.split()) for label in STRANGE), out
    assert run("certify m.npz d.npz --as", problem, "--csv", "c.csv", "-q")[0] == 0
    assert pd.read_csv("c.csv")["classes"][0].startswith("'=HYPERLINK(")
    arguments = "select d.npz --grid C=1,2 --cv 2 --model psvm:p=2"
    code, out, _ = run(arguments)
    assert code == 0
    assert "([/red]a, [bold]b)" in out
    code, out, _ = run("compare d.npz --models psvm:p=2 --proofs proofs")
    assert code == 0
    refused = run("select d.npz --grid C=1 --scoring [/red]")[2]
    assert "no score '[/red]'" in refused


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("=1+1", False),
        ("@SUM(1)", False),
        ("-2+3+cmd|' /C calc'!A0", False),
        ("+cmd(1)", False),
        ("-1, 1", True),
        ("-1, rest", True),
        ("+1.5e-3", True),
        ("plain", True),
        (-1.5, True),
    ],
)
def test_a_cell_of_a_file_is_no_formula(text, safe):
    assert screen.safe_cell(text) == (text if safe else f"'{text}")


@pytest.mark.skipif(find_spec("highspy") is None, reason="needs the extra mip")
def test_the_standard_output_is_json_with_any_solver(tmp_path):
    arguments = ["compare", "blobs", "--models", "psvm:p=1", "--solver", "highs", "--json", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "svmcvx", *arguments], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["rows"][0]["solver"].lower() == "highs"


def test_a_test_file_of_libsvm_has_the_columns_of_the_training_file(run):
    Path("a.t").write_text("".join(f"{1 - 2 * (k % 2)} 1:{k % 7} 2:{k % 3}\n" for k in range(40)))
    code, _, _ = run("compare a.t --n-features 5 --models psvm:p=2 --json t.json")
    assert code == 0
    assert json.loads(Path("t.json").read_text())["data"]["features"] == 5
    assert run("compare moons --n-features 5")[0] == 2


def test_only_support_vectors_that_are_missing_are_laid_to_the_scale(run):
    skops = pytest.importorskip("skops.io")
    for fitted, advised in ((SVC().fit(X, Y), True), (SVC().fit(X[:, :5], Y), False)):
        skops.dump(fitted, "m.skops")
        code, _, err = run("certify m.skops breast_cancer --scale standard")
        assert code == 2
        assert ("say how by --scale" in err) == advised, err


# Completion


def complete(monkeypatch, capsys, *words):
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_SVMCVX_COMPLETE", "complete_bash")
    assert cli.run([]) == 0
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("co",), ["compare", "compile"]),
        (("compare", "moo"), ["moons"]),
        (("compare", "moons", "--models", "od"), ["odm", "odml"]),
        # As bash splits psvm:p=1,od and --kernel=l.
        (("compare", "moons", "--models", "psvm", ":", "p", "=", "1,od"), ["1,odm", "1,odml"]),
        (("compare", "moons", "--models", "psvm", ":", ""), ["C=", "p="]),
        (("compare", "moons", "--kernel", "=", "l"), ["linear", "laplacian"]),
        (("select", "moons", "--grid", "lam"), ["lam=", "lam1=", "lam2="]),
        (("compare", "ionos"), ["ionosphere"]),
        (("compare", "da"), ["data.csv"]),
    ],
)
def test_words_are_completed(monkeypatch, capsys, tmp_path, words, found):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").touch()
    assert sorted(complete(monkeypatch, capsys, "svmcvx", *words)) == sorted(found)


def test_completed_models_are_models():
    for name in completion.MODELS:
        parse_models(name)


# The page


def options_of(command):
    return {
        opt
        for param in COMMANDS[command].params
        for opt in param.opts
        if opt.startswith("-") and opt != "--help"
    }


def test_the_page_names_every_option_and_no_other():
    text = PAGE.read_text()
    named = set(
        re.findall(
            r"(?<![\w-])--?[a-zA-Z][\w-]*", re.sub(r"```python.*?```", "", text, flags=re.DOTALL)
        )
    )
    general = {"--help", "--install-completion", "--show-completion", "-m", "-c", "-1"}
    known = set().union(*map(options_of, COMMANDS))
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
    # What ``certify`` takes as its model is a file.
    for name in ("models", "as_") if command == "certify" else ("models", "model", "as_"):
        if isinstance(text := context.params.get(name), str):
            assert parse_models(text)


def test_the_pages_schema_is_that_of_the_files(run):
    text = PAGE.read_text()
    run("compare blobs --models psvm:p=2 --json t.json")
    content = json.loads(Path("t.json").read_text())
    for name in [
        *content,
        *content["data"],
        *content["rows"][0],
        *content["rows"][0]["certificates"][0],
    ]:
        assert f"`{name}`" in text


def test_exit_codes_are_those_of_the_page():
    written = {
        int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), flags=re.MULTILINE)
    }
    assert written == set(ExitCode)


def test_ctrl_c_before_a_command_has_begun_its_work_is_told(run, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("svmcvx.cli.commands.load", pressed)
    assert run("compare", "moons") == (130, "", "svmcvx: interrupted\n")
