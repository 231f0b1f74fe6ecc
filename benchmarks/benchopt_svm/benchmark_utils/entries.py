"""What solvers run on, the referee of their models, and the solvers of other packages, called as
their documentation says, and ours.

Each solves what it was made for and refuses the rest. Programs behind cvxpy get the problem in the
primal form (with a kernel in the dual form), translated before the clock starts, and their point is
judged exactly as it is.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import svmcvx as sx
from benchmarks.referee.index import Index, relative_gap
from benchmarks.referee.instances import Problem, data_digest, instance_id

# Budgets of solvers that are asked for a tolerance; numbers of epochs; seconds of a mixed-integer
# program.
TOLERANCES = tuple(10.0**-k for k in range(1, 13))
DOUBLING = tuple(2**k for k in range(31))
SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Iterations at which solvers that are asked for a tolerance give up: as good as none.
MANY = 100_000_000


@dataclass(frozen=True, eq=False)
class Task:
    """A problem on data, as a solver gets it."""

    X: Any
    y: Any
    problem: Problem

    @cached_property
    def signs(self) -> Any:
        """−1 for the class that sorts first of two, +1 for the last."""
        return np.where(np.unique(self.y, return_inverse=True)[1] > 0, 1.0, -1.0)

    @property
    def C(self) -> float:
        """The weight of the losses."""
        return self.problem.hyperparameters["C"]

    def model(self, returned: Any) -> Any:
        """Return what a solver has returned, ``(coef, intercept)`` or vectors with coefficients, as
        a model of this package.
        """
        if isinstance(returned, sx.Model):
            return returned
        none, classes = np.zeros(0, dtype=np.intp), np.unique(self.y)
        if not isinstance(returned, dict):
            coef, intercept = (np.ravel(part).astype(np.float64) for part in returned)
            return sx.LinearModel(coef, float(intercept[0]), classes, none)
        return sx.KernelModel(
            vectors=np.asarray(returned["vectors"]),
            dual_coef=np.ravel(returned["dual_coef"]).astype(np.float64),
            intercept=float(np.ravel(returned["intercept"])[0]),
            classes=classes,
            support=np.asarray(returned["support"]),
            kernel=self.problem.arguments()["kernel"],
            n_features=self.X.shape[1],
        )


class Referee:
    """An interval around the optimum of a task, found beforehand to 1e-12 or in the library's
    index, and the objectives of models.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        solution = task.problem.solve(task.X, task.y, tol=1e-12)
        self.statement = task.problem.build(task.X, task.y).formulation
        known = Index().get(instance_id(data_digest(task.X, task.y), task.problem))
        ends = [solution.certificate.lower, *((known.lower, known.stated) if known else ())]
        self.lower = max(end for end in ends if end is not None)
        self.upper = solution.certificate.upper

    def objective(self, returned: Any) -> float:
        """Return an upper bound of the objective at a model; infinite where it cannot be used."""
        try:
            model = self.task.model(returned)
            if getattr(model, "kernel", None) != self.task.problem.arguments().get("kernel"):
                return np.inf
            value = self.statement.evaluate(model).upper_end
        except (sx.SvmcvxError, ValueError, TypeError, AttributeError):
            return np.inf
        return value if value == value else np.inf

    def gap_of(self, objective: float) -> float:
        """Return the relative gap of an objective and the lower bound."""
        return max(relative_gap(self.lower, objective), 0.0) if objective < np.inf else np.inf


@dataclass(frozen=True)
class Entry:
    """A solver: ``solve(given, budget)`` returns a model; `prepare` makes what is given from the
    task and is not timed; `refuses` says why it does not solve a problem, empty where it does.
    """

    solve: Callable[[Any, Any], Any]
    package: str
    refuses: Callable[[Task], str]
    budgets: tuple[Any, ...] = TOLERANCES
    prepare: Callable[[Task], Any] = lambda task: task

    @property
    def installed(self) -> bool:
        """Whether its package is installed."""
        try:
            return bool(version(self.package))
        except PackageNotFoundError:
            return False

    def refusal(self, task: Task) -> str:
        """Return why the solver does not solve a problem; empty where it does."""
        return self.refuses(task) if self.installed else f"{self.package} is not installed"


def pairs(intercept: str, *exponents: float, kernels: tuple[Any, ...] = (None,)) -> Any:
    """Return what refuses tasks that are no pSVM of this kind."""
    name = "psvm" if intercept == "free" else "penalised psvm"

    def refuses(task: Task) -> str:
        problem = task.problem
        if problem.formulation != name or problem.hyperparameters["p"] not in exponents:
            return f"solves the pSVM with p of {exponents} and the intercept {intercept}"
        kernel = problem.kernel and problem.kernel["name"]
        return "" if kernel in kernels else f"has no kernel {kernel}"

    return refuses


def _svc(SVC: Any, task: Task, tol: float) -> Any:
    kernel = task.problem.kernel
    chosen = {"kernel": "linear"} if kernel is None else {"kernel": "rbf", "gamma": kernel["gamma"]}
    fitted = SVC(C=task.C, tol=tol, cache_size=500, **chosen).fit(task.X, task.signs)
    if kernel is None:
        return np.array(fitted.coef_), np.array(fitted.intercept_)
    return {
        "dual_coef": np.array(fitted.dual_coef_),
        "intercept": np.array(fitted.intercept_),
        "vectors": np.array(fitted.support_vectors_),
        "support": np.array(fitted.support_),
    }


def libsvm(task: Task, tol: float) -> Any:
    from sklearn.svm import SVC

    return _svc(SVC, task, tol)


def intelex(task: Task, tol: float) -> Any:
    from sklearnex.svm import SVC

    return _svc(SVC, task, tol)


def liblinear(task: Task, tol: float) -> Any:
    from sklearn.svm import LinearSVC

    loss = "hinge" if task.problem.hyperparameters["p"] == 1.0 else "squared_hinge"
    machine = LinearSVC(C=task.C, loss=loss, tol=tol, max_iter=MANY, random_state=0)
    fitted = _quietly(machine.fit, task.X, task.signs)
    return fitted.coef_, fitted.intercept_


def sgd(task: Task, epochs: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    machine = SGDClassifier(
        loss="hinge",
        alpha=1.0 / (task.C * task.signs.size),
        max_iter=epochs,
        tol=None,
        average=epochs > 1,
        random_state=0,
    )
    fitted = _quietly(machine.fit, task.X, task.signs)
    return fitted.coef_, fitted.intercept_


def rehline(task: Task, tol: float) -> Any:
    from rehline import plqERM_Ridge

    machine = plqERM_Ridge({"name": "svm"}, C=task.C, tol=tol, max_iter=10_000_000)
    _quietly(machine.fit, X=_with_constant(task), y=task.signs)
    return np.array(machine.coef_[:-1]), float(machine.coef_[-1])


def skglm(task: Task, tol: float) -> Any:
    from skglm import LinearSVC

    machine = LinearSVC(C=task.C, tol=tol, fit_intercept=False, max_iter=10_000)
    coef = np.ravel(_quietly(machine.fit, _with_constant(task), task.signs).coef_)
    return coef[:-1], float(coef[-1])


def ours(task: Task, tol: float) -> Any:
    return task.problem.solve(task.X, task.y, tol=tol).model


def _with_constant(task: Task) -> Any:
    return np.column_stack([task.X, np.ones(task.signs.size)])


def _quietly(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the referee says how accurate it is
        return call(*args, **keywords)


def convex(task: Task) -> str:
    return "" if mixed(task) else "solves convex problems"


def quadratic(task: Task) -> str:
    problem = task.problem
    linear = problem.formulation in ("odm", "odml", "hard_margin") or (
        problem.formulation in ("psvm", "penalised psvm")
        and problem.hyperparameters["p"] in (1.0, 2.0)
    )
    return "" if linear else "solves quadratic programs"


def mixed(task: Task) -> str:
    searches = task.problem.formulation in ("zero_one", "ramp", "l0")
    return "" if searches else "solves mixed-integer programs"


def general(
    solver: str,
    package: str,
    refuses: Callable[[Task], str],
    options: Callable[[Any], dict[str, Any]],
    budgets: tuple[Any, ...] = TOLERANCES,
) -> Entry:
    """Return a program behind cvxpy, with the options that a budget gives."""

    def prepare(task: Task) -> Any:
        problem = task.problem.build(task.X, task.y, primal=task.problem.kernel is None)
        problem.get_problem_data(solver)
        return problem

    def solve(problem: Any, budget: Any) -> Any:
        # Neither a start nor settings of the call before, whose budget was smaller.
        _quietly(problem.solve, solver=solver, warm_start=False, **options(budget))
        try:
            own = problem.model_at_variables()
        except Exception:  # a problem in multipliers, from which the model is computed
            own = None
        return problem.recover().models[0] if own is None else own

    return Entry(solve, package, refuses, budgets, prepare)


SVC_LIKE = pairs("free", 1.0, kernels=(None, "rbf"))
READY = {
    "svmcvx": Entry(ours, "svmcvx", lambda task: ""),
    "libsvm": Entry(libsvm, "scikit-learn", SVC_LIKE),
    "scikit-learn-intelex": Entry(intelex, "scikit-learn-intelex", SVC_LIKE),
    "liblinear": Entry(liblinear, "scikit-learn", pairs("penalised", 1.0, 2.0)),
    "sgd": Entry(sgd, "scikit-learn", pairs("free", 1.0), DOUBLING),
    "rehline": Entry(rehline, "rehline", pairs("penalised", 1.0)),
    "skglm": Entry(skglm, "skglm", pairs("penalised", 1.0)),
    "clarabel": general(
        "CLARABEL",
        "clarabel",
        convex,
        lambda tol: {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol},
    ),
    "scs": general(
        "SCS", "scs", convex, lambda tol: {"eps_abs": tol, "eps_rel": tol, "max_iters": MANY}
    ),
    "osqp": general(
        "OSQP", "osqp", quadratic, lambda tol: {"eps_abs": tol, "eps_rel": tol, "max_iter": MANY}
    ),
    "piqp": general("PIQP", "piqp", quadratic, lambda tol: {"eps_abs": tol, "eps_rel": tol}),
    "proxqp": general(
        "PROXQP",
        "proxsuite",
        quadratic,
        lambda tol: {"eps_abs": tol, "eps_rel": tol, "max_iter": 1_000_000},
    ),
    "qoco": general("QOCO", "qoco", quadratic, lambda tol: {"abstol": tol, "reltol": tol}),
    "highs": general("HIGHS", "highspy", quadratic, lambda _: {}, ("default",)),
    "scip": general(
        "SCIP",
        "pyscipopt",
        mixed,
        lambda seconds: {"scip_params": {"limits/time": seconds}},
        SECONDS,
    ),
}


def entries() -> list[str]:
    """Return the names of the entries whose packages are installed; the extra ``bench`` has all."""
    return [name for name, entry in READY.items() if entry.installed]
