"""The formulation outside the package that docs/add_formulation.md shows: run as it stands, and
held against cvxpy alone.
"""

import contextlib
import io
import re
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import svmcvx as sx
from tests.conftest import make_data

PAGE = Path(__file__).parents[2] / "docs" / "add_formulation.md"
BLOCKS = re.findall(
    r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", PAGE.read_text(), flags=re.DOTALL
)
X, Y = make_data(n=50, d=3)


def run(blocks):
    namespace, outputs = {"__name__": "add_formulation"}, []
    for code, _ in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102 - our own documentation
        outputs.append(printed.getvalue())
    return namespace, outputs


@pytest.fixture(scope="module")
def page():
    return run(BLOCKS)


def test_the_page_prints_what_it_says(page):
    _, outputs = page
    assert len(BLOCKS) == 3
    assert outputs == [expected for _, expected in BLOCKS]


def test_the_formulation_takes_some_forty_lines():
    code = [line for line in BLOCKS[0][0].splitlines() if line.strip() and "import" not in line]
    face = BLOCKS[2][0].split("\n\n\n")[0].splitlines()
    assert len(code) + len([line for line in face if line.strip()]) <= 50


def by_cvxpy_alone(K, y, weight, C, tau):
    """The primal in expansion coefficients, written without the package."""
    v = cp.Variable(y.size)
    r = 1 - cp.multiply(y, K @ v)
    value = 0.5 * cp.quad_form(v, cp.psd_wrap(K)) + C * (weight @ cp.maximum(r, -tau * r))
    return cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)])
def test_the_interval_encloses_the_optimum_of_a_program_written_without_the_package(
    page, kernel, tau
):
    weight = np.linspace(0.5, 2.0, Y.size)
    solution = sx.solve(
        page[0]["pinball_svm"](X, Y, C=0.7, tau=tau, kernel=kernel, sample_weight=weight)
    )
    gram = (X @ X.T if kernel is None else kernel(X, X)) + 1.0
    optimum = by_cvxpy_alone(gram, Y.astype(float), weight, 0.7, tau)
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.lower - 1e-5 <= optimum <= solution.certificate.upper + 1e-5


def test_any_multipliers_are_a_bound_and_infeasible_ones_are_none(page):
    statement = page[0]["pinball_svm"](X, Y, C=1.0, tau=0.5).formulation
    model = sx.solve(page[0]["pinball_svm"](X, Y, C=1.0, tau=0.5)).model
    rng = np.random.default_rng(1)
    for _ in range(20):
        dual = {"alpha": 3.0 * rng.standard_normal(Y.size)}
        certificate = statement.certify(model, dual)
        assert certificate.lower <= certificate.upper
        assert statement.certify(model, dual, repair=False).lower is None
    assert statement.certify(model, {"alpha": np.full(Y.size, np.nan)}).lower is None


def test_constraints_are_added_or_refused(page):
    build = page[0]["pinball_svm"]
    problem = build(X, Y, C=1.0, tau=0.5)
    free = sx.solve(problem).certificate
    w = problem.var_dict["w"]
    idle = sx.solve(problem.with_constraints([cp.norm(w) <= 1e3]))
    assert idle.certificate.is_certified(1e-6)
    assert idle.certificate.upper == pytest.approx(free.upper, rel=1e-6)
    small = sx.solve(problem.with_constraints([w[0] <= 0.0])).certificate
    assert small.lower <= free.upper <= small.upper
    assert small.residuals["added_violation"] <= 1e-6
    problem._constraints.append(w[1] <= 0.0)
    with pytest.raises(sx.BuildError, match="changed after it was built"):
        sx.solve(problem)


def test_the_estimator_is_one_of_scikit_learn(page):
    classifier = page[0]["PinballClassifier"]
    assert set(classifier().get_params()) == {"C", "tau", "kernel", "gamma"}
    labels = np.array(["a", "b", "c"])[np.arange(Y.size) % 3]
    data = X + 2.0 * (np.arange(Y.size) % 3)[:, None]
    fitted = classifier(kernel="rbf").fit(data, labels)
    assert len(fitted.certificates_) == 3
    assert fitted.certificate_.is_certified(1e-6)
    assert (fitted.solver_route_, fitted.solver_reason_) == (
        "general",
        "there is no specialised solver for PinballClassifier",
    )
    assert set(fitted.predict(data)) <= set(labels)
    assert not hasattr(classifier(kernel="precomputed"), "solution_")


def test_a_statement_that_does_not_say_what_its_variables_are(page):
    class Mute(page[0]["Pinball"]):
        model_of = sx.Formulation.model_of

    problem = page[0]["pinball_svm"](X, Y, C=1.0, tau=0.5)
    mute = sx.FormulationProblem(
        problem.objective, problem.constraints, Mute(problem.formulation.space, C=1.0, tau=0.5)
    )
    with pytest.raises(sx.BuildError, match="does not say by model_of"):
        mute.with_constraints([problem.var_dict["w"][0] <= 0])
