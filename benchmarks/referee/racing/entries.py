"""Entries that are ready: solvers of other packages, as their documentation says they are called,
and ours.

Each solves what it was made for and refuses the rest. Programs behind cvxpy get the problem in the
primal form (with a kernel in the dual form), translated before the clock starts, and their point is
judged exactly as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np

from benchmarks.referee.racing.entry import DOUBLING, TOLERANCES, Entry
from benchmarks.referee.racing.tasks import Task

__all__ = ["READY", "entries", "version_of"]

# Iterations at which solvers that are asked for a tolerance give up: as good as none.
MANY: Final = 100_000_000
# Seconds that a mixed-integer program is given, one after the other.
SECONDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def version_of(package: str) -> str:
    """Return the version of a package; empty where it is not installed."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return ""


def _installed(package: str) -> bool:
    return bool(version_of(package))


def _only(
    package: str, *, intercept: str, exponents: tuple[float, ...], kernel: tuple[str, ...] = ()
) -> Callable[[Task], str]:
    """Return what refuses tasks that are no pSVM of this kind."""
    name = "psvm" if intercept == "free" else "penalised psvm"

    def refuses(task: Task) -> str:
        if package and not _installed(package):
            return f"{package} is not installed"
        if (
            task.formulation != name
            or task.hyperparameters["p"] not in exponents
            or task.intercept != intercept
        ):
            numbers = " or ".join(f"{p:g}" for p in exponents)
            return f"solves the pSVM with p = {numbers} and the intercept {intercept}"
        if task.kernel is not None and task.kernel["name"] not in kernel:
            return f"has no kernel {task.kernel['name']}"
        return ""

    return refuses


def _libsvm(task: Task, tol: float) -> Any:
    from sklearn.svm import SVC

    return _svc(SVC, task, tol)


def _intelex(task: Task, tol: float) -> Any:
    from sklearnex.svm import SVC

    return _svc(SVC, task, tol)


def _svc(SVC: Any, task: Task, tol: float) -> Any:
    kernel = (
        {"kernel": "linear"}
        if task.kernel is None
        else {"kernel": "rbf", "gamma": task.kernel["gamma"]}
    )
    fitted = SVC(C=task.hyperparameters["C"], tol=tol, cache_size=500, **kernel).fit(
        task.X, task.signs
    )
    if task.kernel is None:
        return np.array(fitted.coef_), np.array(fitted.intercept_)
    return {
        "dual_coef": np.array(fitted.dual_coef_),
        "intercept": np.array(fitted.intercept_),
        "vectors": np.array(fitted.support_vectors_),
    }


def _liblinear(task: Task, tol: float) -> Any:
    from sklearn.svm import LinearSVC

    loss = "hinge" if task.hyperparameters["p"] == 1.0 else "squared_hinge"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the referee tells how accurate it is
        fitted = LinearSVC(
            C=task.hyperparameters["C"], loss=loss, tol=tol, max_iter=MANY, random_state=0
        ).fit(task.X, task.signs)
    return fitted.coef_, fitted.intercept_


def _sgd(task: Task, epochs: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    alpha = 1.0 / (task.hyperparameters["C"] * task.signs.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SGDClassifier(
            loss="hinge", alpha=alpha, max_iter=epochs, tol=None, average=epochs > 1, random_state=0
        ).fit(task.X, task.signs)
    return fitted.coef_, fitted.intercept_


def _with_constant(task: Task) -> Any:
    return np.column_stack([task.X, np.ones(task.signs.size)])


def _rehline(task: Task, tol: float) -> Any:
    from rehline import plqERM_Ridge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = plqERM_Ridge(
            {"name": "svm"}, C=task.hyperparameters["C"], tol=tol, max_iter=10_000_000
        )
        fitted.fit(X=_with_constant(task), y=task.signs)
    return np.array(fitted.coef_[:-1]), float(fitted.coef_[-1])


def _skglm(task: Task, tol: float) -> Any:
    from skglm import LinearSVC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LinearSVC(
            C=task.hyperparameters["C"], tol=tol, fit_intercept=False, max_iter=10_000
        ).fit(_with_constant(task), task.signs)
    coef = np.ravel(fitted.coef_)
    return coef[:-1], float(coef[-1])


def _ours(task: Task, tol: float) -> Any:
    return task.problem.solve(task.X, task.y, tol=tol).model


def _translated(solver: str) -> Callable[[Task], Any]:
    def prepare(task: Task) -> Any:
        problem = task.problem.build(task.X, task.y, primal=task.kernel is None)
        problem.get_problem_data(solver)
        return problem

    return prepare


def _by_cvxpy(
    solver: str, options: Callable[[Any], Mapping[str, Any]]
) -> Callable[[Any, Any], Any]:
    def solve(problem: Any, budget: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Neither a start nor settings of the call before, whose budget was smaller.
            problem.solve(solver=solver, warm_start=False, **options(budget))
        try:
            own = problem.model_at_variables()
        except Exception:  # a problem in multipliers, from which the model is computed
            own = None
        return problem.recover().models[0] if own is None else own

    return solve


def _convex(package: str) -> Callable[[Task], str]:
    def refuses(task: Task) -> str:
        if not _installed(package):
            return f"{package} is not installed"
        return "solves convex problems" if task.formulation in ("zero_one", "ramp", "l0") else ""

    return refuses


def _quadratic(package: str) -> Callable[[Task], str]:
    def refuses(task: Task) -> str:
        if not _installed(package):
            return f"{package} is not installed"
        p = task.hyperparameters.get("p")
        is_quadratic = task.formulation in ("odm", "odml", "hard_margin") or (
            task.formulation in ("psvm", "penalised psvm") and p in (1.0, 2.0)
        )
        return "" if is_quadratic else "solves quadratic programs"

    return refuses


def _mixed(package: str) -> Callable[[Task], str]:
    def refuses(task: Task) -> str:
        if not _installed(package):
            return f"{package} is not installed"
        return (
            ""
            if task.formulation in ("zero_one", "ramp", "l0")
            else "is raced on mixed-integer programs"
        )

    return refuses


def _general(
    solver: str,
    options: Callable[[Any], Mapping[str, Any]],
    refuses: Any,
    package: str,
    budgets: Any = TOLERANCES,
) -> Entry:
    return Entry(_by_cvxpy(solver, options), budgets, _translated(solver), refuses, package)


READY: Final[Mapping[str, Entry]] = {
    "svmcvx": Entry(_ours, TOLERANCES),
    "libsvm": Entry(
        _libsvm,
        TOLERANCES,
        refuses=_only("", intercept="free", exponents=(1.0,), kernel=("rbf",)),
        package="scikit-learn",
    ),
    "scikit-learn-intelex": Entry(
        _intelex,
        TOLERANCES,
        refuses=_only("scikit-learn-intelex", intercept="free", exponents=(1.0,), kernel=("rbf",)),
        package="scikit-learn-intelex",
    ),
    "liblinear": Entry(
        _liblinear,
        TOLERANCES,
        refuses=_only("", intercept="penalised", exponents=(1.0, 2.0)),
        package="scikit-learn",
    ),
    "sgd": Entry(
        _sgd,
        DOUBLING,
        refuses=_only("", intercept="free", exponents=(1.0,)),
        package="scikit-learn",
    ),
    "rehline": Entry(
        _rehline,
        TOLERANCES,
        refuses=_only("rehline", intercept="penalised", exponents=(1.0,)),
        package="rehline",
    ),
    "skglm": Entry(
        _skglm,
        TOLERANCES,
        refuses=_only("skglm", intercept="penalised", exponents=(1.0,)),
        package="skglm",
    ),
    "clarabel": _general(
        "CLARABEL",
        lambda tol: {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol},
        _convex("clarabel"),
        "clarabel",
    ),
    "scs": _general(
        "SCS",
        lambda tol: {"eps_abs": tol, "eps_rel": tol, "max_iters": MANY},
        _convex("scs"),
        "scs",
    ),
    "osqp": _general(
        "OSQP",
        lambda tol: {"eps_abs": tol, "eps_rel": tol, "max_iter": MANY},
        _quadratic("osqp"),
        "osqp",
    ),
    "piqp": _general(
        "PIQP", lambda tol: {"eps_abs": tol, "eps_rel": tol}, _quadratic("piqp"), "piqp"
    ),
    "proxqp": _general(
        "PROXQP",
        lambda tol: {"eps_abs": tol, "eps_rel": tol, "max_iter": 1_000_000},
        _quadratic("proxsuite"),
        "proxsuite",
    ),
    "qoco": _general(
        "QOCO", lambda tol: {"abstol": tol, "reltol": tol}, _quadratic("qoco"), "qoco"
    ),
    "highs": _general("HIGHS", lambda _: {}, _quadratic("highspy"), "highspy", ("default",)),
    "scip": _general(
        "SCIP",
        lambda seconds: {"scip_params": {"limits/time": seconds}},
        _mixed("pyscipopt"),
        "pyscipopt",
        SECONDS,
    ),
}


def entries(*, installed: bool = True) -> tuple[str, ...]:
    """Return the names of the entries that are ready.

    Parameters
    ----------
    installed : bool
        Those alone whose packages are installed; the extra ``race`` has them all.
    """
    return tuple(
        name
        for name, entry in READY.items()
        if not installed or not entry.package or _installed(entry.package)
    )
