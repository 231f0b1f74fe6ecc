"""Problems in files: what another program reads has the optimum that is proved."""

from collections import Counter

import clarabel
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from benchmarks.referee.problem_files import write_problem

rng = np.random.default_rng(5)
X = rng.standard_normal((10, 2))
y = np.where(X[:, 0] + 0.4 * rng.standard_normal(10) > 0, 1, -1)
CLASSES = np.arange(10) % 3
RBF = sx.RBF(0.5)

LINEAR = {
    "psvm_primal p=1": lambda: sx.psvm_primal(X, y, C=0.7, p=1),
    "psvm_dual p=2": lambda: sx.psvm_dual(X, y, C=0.7, p=2, kernel=RBF),
    "hard_margin_dual": lambda: sx.hard_margin_dual(X, y, kernel=RBF),
    "odm_primal": lambda: sx.odm_primal(X, y),
    "odml_dual": lambda: sx.odml_dual(X, y),
    "weston_watkins": lambda: sx.weston_watkins(X, CLASSES),
}
COUNTING = {
    "zero_one_mio": lambda: sx.zero_one_mio(X[:6], y[:6], lam=1.0),
    "ramp_mio": lambda: sx.ramp_mio(X[:6], y[:6], C=1.0),
    "l0_mio": lambda: sx.l0_mio(X[:6], y[:6], C=1.0),
}
CONIC = {
    "psvm_primal": lambda: sx.psvm_primal(X, y, C=0.7, p=1.5),
    "psvm_dual": lambda: sx.psvm_dual(X, y, C=0.7, p=3, kernel=RBF),
    "conic_sdp": lambda: sx.conic_sdp(X, y, lam=1.0),
    "conic_sdp of the paper": lambda: sx.conic_sdp(X[:5], y[:5], lam=1.0, form="paper"),
    "m3svm": lambda: sx.m3svm(X, CLASSES, lam=0.1, p=4),
    "multinomial_lr": lambda: sx.multinomial_lr(X, CLASSES),
}
CERTIFIED = {}


def interval(name, build):
    """The proved interval around the optimum, widened by what a solver of another program may be
    off.
    """
    if name not in CERTIFIED:
        CERTIFIED[name] = sx.solve(build()).certificate
    certificate = CERTIFIED[name]
    slack = 1e-5 * max(1.0, abs(certificate.upper))
    return certificate.lower - slack, certificate.upper + slack


def holds(name, build, value):
    low, high = interval(name, build)
    return low <= value <= high


def read_cbf(path):
    """The problem of a file in conic benchmark format, by a reader of its own."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    sections, at = {}, 0
    while at < len(lines):
        keyword, head = lines[at], lines[at + 1]
        if keyword in ("VER", "OBJSENSE", "OBJBCOORD"):
            sections[keyword], at = head, at + 2
            continue
        chunks = int(head.split()[1]) if keyword in ("VAR", "CON") else int(head.split()[0])
        rows = chunks if keyword != "POWCONES" else chunks + int(head.split()[1])
        sections[keyword], at = (
            [line.split() for line in lines[at + 2 : at + 2 + rows]],
            at + 2 + rows,
        )
        sections[f"{keyword} head"] = head.split()
    assert sections["VER"] == "3"
    m = int(sections["VAR head"][0])
    whole = {int(column) for (column,) in sections.get("INT", [])}
    x = (
        cp.Variable(m)
        if not whole
        else cp.hstack([cp.Variable(integer=j in whole) for j in range(m)])
    )
    cost = np.zeros(m)
    for column, value in sections.get("OBJACOORD", []):
        cost[int(column)] = float(value)
    k = int(sections["CON head"][0]) if "CON" in sections else 0
    A, b = np.zeros((k, m)), np.zeros(k)
    for row, column, value in sections.get("ACOORD", []):
        A[int(row), int(column)] = float(value)
    for row, value in sections.get("BCOORD", []):
        b[int(row)] = float(value)
    constraints, first, powers = [], 0, sections.get("POWCONES", [])
    for name, size in sections.get("CON", []):
        s = A[first : first + int(size)] @ x + b[first : first + int(size)]
        first += int(size)
        if name == "L=":
            constraints.append(s == 0)
        elif name == "L+":
            constraints.append(s >= 0)
        elif name == "Q":
            constraints.append(cp.SOC(s[0], s[1:]))
        elif name == "EXP":
            constraints.append(cp.ExpCone(s[2], s[1], s[0]))
        else:
            a, c = (float(powers[3 * int(name[1 : name.index(":")]) + i][0]) for i in (1, 2))
            constraints.append(cp.PowCone3D(s[0], s[1], s[2], a / (a + c)))
    for index, (side,) in enumerate(sections.get("PSDCON", [])):
        size = int(side)
        total = np.zeros((size, size))
        for matrix, i, j, value in sections.get("DCOORD", []):
            if int(matrix) == index:
                total[int(i), int(j)] = total[int(j), int(i)] = float(value)
        for column in range(m):
            part = np.zeros((size, size))
            for matrix, of, i, j, value in sections.get("HCOORD", []):
                if (int(matrix), int(of)) == (index, column):
                    part[int(i), int(j)] = part[int(j), int(i)] = float(value)
            total = total + x[column] * part
        constraints.append(total >> 0)
    objective = cost @ x + float(sections.get("OBJBCOORD", 0.0))
    return cp.Problem(
        cp.Maximize(objective) if sections["OBJSENSE"] == "MAX" else cp.Minimize(objective),
        constraints,
    )


@pytest.mark.parametrize("name", [*LINEAR, *COUNTING, *CONIC])
def test_a_file_in_conic_benchmark_format_has_the_proved_optimum(name, tmp_path):
    build = {**LINEAR, **COUNTING, **CONIC}[name]
    write_problem(build(), tmp_path / "x.cbf")
    found = read_cbf(tmp_path / "x.cbf")
    assert holds(name, build, found.solve(solver="SCIP" if name in COUNTING else "CLARABEL"))


def by_clarabel(file):
    """The optimum of arrays in cone form, by Clarabel itself."""

    def matrix(name):
        shape = (len(file["b"]) if name == "A" else len(file["q"]), len(file["q"]))
        return sp.csc_matrix(
            (file[f"{name}_data"], file[f"{name}_indices"], file[f"{name}_indptr"]), shape
        )

    make = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second-order": clarabel.SecondOrderConeT,
    }
    cones = []
    for kind, rows, exponent in zip(
        file["cone_kinds"], file["cone_rows"], file["cone_exponents"], strict=True
    ):
        if kind == "power":
            cones.append(clarabel.PowerConeT(float(exponent)))
        elif kind == "exponential":
            cones.append(clarabel.ExponentialConeT())
        elif kind == "semidefinite":
            cones.append(clarabel.PSDTriangleConeT(int((np.sqrt(8 * rows + 1) - 1) / 2)))
        else:
            cones.append(make[str(kind)](int(rows)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solved = clarabel.DefaultSolver(
        sp.triu(matrix("P"), format="csc"), file["q"], matrix("A"), file["b"], cones, settings
    ).solve()
    value = solved.obj_val + float(file["d"])
    return -value if file["maximise"] else value


@pytest.mark.parametrize("name", [*LINEAR, *CONIC])
def test_arrays_have_the_proved_optimum_and_state_what_they_are(name, tmp_path):
    build = {**LINEAR, **CONIC}[name]
    write_problem(build(), tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        assert holds(name, build, by_clarabel(file))
        assert file["maximise"] == name.split()[0].endswith("dual")
        assert "b - Ax in K" in str(file["README"])
        assert not len(file["integer"])


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize("name", LINEAR)
def test_files_of_linear_constraints_have_the_proved_optimum(name, suffix, tmp_path):
    highspy = pytest.importorskip("highspy")
    write_problem(LINEAR[name](), tmp_path / f"x{suffix}")
    highs = highspy.Highs()
    highs.silent()
    highs.readModel(str(tmp_path / f"x{suffix}"))
    highs.run()
    assert holds(name, LINEAR[name], highs.getObjectiveValue())


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize("name", COUNTING)
def test_files_of_mixed_integer_forms_have_the_proved_optimum(name, suffix, tmp_path):
    pyscipopt = pytest.importorskip("pyscipopt")
    write_problem(COUNTING[name](), tmp_path / f"x{suffix}")
    model = pyscipopt.Model()
    model.hideOutput()
    model.readProblem(str(tmp_path / f"x{suffix}"))
    assert model.getNBinVars() == 6
    model.optimize()
    assert holds(name, COUNTING[name], model.getObjVal())


def test_columns_have_the_names_of_the_variables_whatever_was_built_before(tmp_path):
    for name in ("first", "second"):
        write_problem(sx.zero_one_mio(X, y, lam=2.5), tmp_path / f"{name}.npz")
        write_problem(sx.zero_one_mio(X, y, lam=2.5), tmp_path / f"{name}.cbf")
    assert (tmp_path / "first.cbf").read_bytes() == (tmp_path / "second.cbf").read_bytes()
    assert "# lam = 2.5\n" in (tmp_path / "first.cbf").read_text()
    with np.load(tmp_path / "first.npz") as file:
        names = file["names"].tolist()
        assert [names[column] for column in file["integer"]] == [f"z_{i}" for i in range(10)]
        assert Counter(name.partition("_")[0] for name in names)["w"] == 3
    write_problem(sx.weston_watkins(X, CLASSES), tmp_path / "W.npz")
    with np.load(tmp_path / "W.npz") as file:
        names = file["names"].tolist()
        first = names.index("W_0_0")
        assert names[first : first + 3] == ["W_0_0", "W_1_0", "W_0_1"]


def test_added_constraints_are_written(tmp_path):
    problem = sx.psvm_primal(X, y, C=0.7, p=2)
    more = problem.with_constraints([problem.var_dict["w"][0] == 0.0])
    expected = more.solve(solver="CLARABEL")
    assert expected > problem.solve(solver="CLARABEL") + 1e-2
    write_problem(more, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        assert by_clarabel(file) == pytest.approx(expected, rel=1e-6)


def test_a_parameter_has_the_value_of_now(tmp_path):
    problem = sx.psvm_primal(X, y, C=0.7, p=1)
    problem.C.value = 0.1
    write_problem(problem, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        assert by_clarabel(file) == pytest.approx(
            sx.psvm_primal(X, y, C=0.1, p=1).solve(solver="CLARABEL"), rel=1e-6
        )


def unset():
    problem = sx.psvm_primal(X, y, C=0.7, p=1)
    problem.C.value = None
    return problem


x = cp.Variable()


@pytest.mark.parametrize(
    ("problem", "name", "words"),
    [
        (LINEAR["odm_primal"](), "x.txt", "the end of the name is the format"),
        (CONIC["psvm_primal"](), "x.mps", r"power cones; write a \.cbf file"),
        (CONIC["multinomial_lr"](), "x.lp", r"exponential cones; write a \.cbf file"),
        (unset(), "x.cbf", "no value: C"),
        (cp.Problem(cp.Minimize(cp.sqrt(x)), [x >= 0]), "x.cbf", "not convex"),
        (cp.Problem(cp.Minimize(cp.Variable(integer=True)), []), "x.npz", "integer variables"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(problem, name, words, tmp_path):
    with pytest.raises(sx.SvmcvxError, match=words):
        write_problem(problem, tmp_path / name)
    assert not list(tmp_path.iterdir())
