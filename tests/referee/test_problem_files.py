"""Problems in files: what another program reads has the optimum that is proved."""

import cvxpy as cp
import numpy as np
import pytest

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


def by_highs(path):
    """The optimum of a file by HiGHS."""
    highs = pytest.importorskip("highspy").Highs()
    highs.silent()
    highs.readModel(str(path))
    highs.run()
    return highs.getObjectiveValue()


def by_scip(path):
    model = pytest.importorskip("pyscipopt").Model()
    model.hideOutput()
    model.readProblem(str(path))
    assert model.getNBinVars() == 6
    model.optimize()
    return model.getObjVal()


@pytest.mark.parametrize(("k", "name"), list(enumerate(LINEAR | COUNTING)))
def test_what_another_program_reads_has_the_proved_optimum(k, name, tmp_path):
    path, problem = tmp_path / ("x.mps", "x.lp")[k % 2], (LINEAR | COUNTING)[name]()
    write_problem(problem, path)
    found, value = sx.solve(problem).certificate, (by_scip if name in COUNTING else by_highs)(path)
    # What a solver of another program may be off.
    slack = 1e-5 * max(1.0, abs(found.upper))
    assert found.lower - slack <= value <= found.upper + slack


def test_columns_have_the_names_of_the_variables_whatever_was_built_before(tmp_path):
    for name in ("first", "second"):
        write_problem(sx.zero_one_mio(X, y, lam=2.5), tmp_path / f"{name}.lp")
    text = (tmp_path / "first.lp").read_text()
    assert text == (tmp_path / "second.lp").read_text()
    assert {f"z_{i}" for i in range(10)} | {"w_0", "w_1", "w_2"} <= set(text.split())
    write_problem(sx.weston_watkins(X, CLASSES), tmp_path / "W.lp")
    assert {"W_0_0", "W_1_0", "W_0_1"} <= set((tmp_path / "W.lp").read_text().split())


def test_added_constraints_and_present_parameters_are_written(tmp_path):
    problem = sx.psvm_primal(X, y, C=0.7, p=2)
    more = problem.with_constraints([problem.var_dict["w"][0] == 0.0])
    expected = more.solve(solver="CLARABEL")
    assert expected > problem.solve(solver="CLARABEL") + 1e-2
    write_problem(more, tmp_path / "x.mps")
    assert by_highs(tmp_path / "x.mps") == pytest.approx(expected, rel=1e-5)
    problem.C.value = 0.1
    write_problem(problem, tmp_path / "y.mps")
    again = sx.psvm_primal(X, y, C=0.1, p=2).solve(solver="CLARABEL")
    assert by_highs(tmp_path / "y.mps") == pytest.approx(again, rel=1e-5)


def unset():
    problem = sx.psvm_primal(X, y, C=0.7, p=1)
    problem.C.value = None
    return problem


x = cp.Variable()


@pytest.mark.parametrize(
    ("problem", "name", "words"),
    [
        (LINEAR["odm_primal"](), "x.txt", "the end is the format"),
        (sx.psvm_primal(X, y, C=0.7, p=1.5), "x.mps", "the problem has cones"),
        (sx.multinomial_lr(X, CLASSES), "x.lp", "the problem has cones"),
        (unset(), "x.lp", "no value: C"),
        (cp.Problem(cp.Minimize(cp.sqrt(x)), [x >= 0]), "x.lp", "not convex"),
        (cp.Problem(cp.Minimize(cp.Variable(integer=True)), []), "x.lp", "integer variables"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(problem, name, words, tmp_path):
    with pytest.raises(sx.SvmcvxError, match=words):
        write_problem(problem, tmp_path / name)
    assert not list(tmp_path.iterdir())
