"""What solvers race on, and the referee of what they return."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.referee.library import Index, Instance, Problem, find, get
from benchmarks.referee.library.data_sets import data_digest
from benchmarks.referee.library.instances import instance_id
from benchmarks.referee.library.looking_up import stated_problem
from svmcvx.certificate import SolverBound, check, relative_gap
from svmcvx.data import check_features, check_labels
from svmcvx.errors import DataError, NotCertified, SvmcvxError
from svmcvx.estimators.given_models import as_model, require_kernel

__all__ = ["Referee", "Task", "library_ends", "tasks_of"]

Floats: TypeAlias = NDArray[np.float64]

# The gap of the reference, which is searched for before the race.
REFERENCE: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Task:
    """A problem on data, as a solver gets it.

    Attributes
    ----------
    name : str
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        The labels.
    signs : ndarray of shape (n,)
        −1 for the class that sorts first, +1 for the last; zeros where there are more than two.
    problem : Problem
        The formulation, its hyper-parameters, the kernel and what is done with the intercept.
    """

    name: str
    X: Any
    y: NDArray[Any]
    signs: Floats
    problem: Problem

    @classmethod
    def of(cls, name: str, X: Any, y: Any, problem: Problem) -> Task:
        """Return the task of a problem on data."""
        features = check_features(X)
        codes, classes = check_labels(y, features.shape[0])
        signs = np.where(codes > 0, 1.0, -1.0) if classes.size == 2 else np.zeros(codes.size)
        return cls(name, features, classes[codes], signs, problem)

    @property
    def formulation(self) -> str:
        """The name of the formulation, as proofs call it."""
        return self.problem.formulation

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """The numbers of the formulation, as ``C`` and ``p``."""
        return self.problem.hyperparameters

    @property
    def kernel(self) -> Mapping[str, Any] | None:
        """Name and parameters of the kernel; None for the linear machine."""
        return self.problem.kernel

    @property
    def intercept(self) -> str:
        """What the formulation does with the intercept: ``"free"``, ``"penalised"`` or ``"none"``."""
        return self.problem.intercept

    def __repr__(self) -> str:
        return f"Task({self.name!r}: {self.problem}, {self.X.shape[0]} × {self.X.shape[1]})"


def tasks_of(problem: Any, data_dir: str | os.PathLike[str] | None) -> list[Task]:
    """Return the tasks of :func:`benchmarks.referee.racing.race`'s first argument."""
    if isinstance(problem, Task):
        return [problem]
    if isinstance(problem, Instance):
        data, stated = get(problem.id, data_dir=data_dir)
        return [Task.of(str(problem), data.X, data.y, stated)]
    if isinstance(problem, str):
        return tasks_of(find(problem), data_dir)
    if isinstance(problem, Mapping):
        named = [(name, tasks_of(one, data_dir)) for name, one in problem.items()]
        return [
            Task(str(name), one.X, one.y, one.signs, one.problem)
            for name, ones in named
            for one in ones
        ]
    if (
        isinstance(problem, tuple)
        and len(problem) == 3
        and not isinstance(problem[0], (str, Instance, Task))
    ):
        X, y, stated = problem
        features = check_features(X)
        check_labels(y, features.shape[0])
        found = stated_problem(features, y, stated, {})
        return [Task.of(str(found), features, y, found)]
    if isinstance(problem, Sequence) and problem:
        return [task for one in problem for task in tasks_of(one, data_dir)]
    raise DataError(
        "problem must be an instance of the library or its number, (X, y, problem), a task,"
        f" several of these, or a mapping of names to them, got {type(problem).__name__}"
    )


class Referee:
    """The one who knows the optimum of a task: it has an interval around the optimum, and evaluates
    models.

    Parameters
    ----------
    task : Task
    index : path-like, optional
        The library's index, whose lower bound counts where it is larger.

    Attributes
    ----------
    lower, upper : float
        The interval.

    Raises
    ------
    DataError
        If there is no lower bound.
    """

    def __init__(self, task: Task, index: str | os.PathLike[str] | None = None) -> None:
        self._task = task
        problem = task.problem
        solution = problem.solve(task.X, task.y, tol=REFERENCE)
        statement = problem.build(task.X, task.y).formulation
        self._formulation = statement
        self._statement: Any = statement
        self._duals = [solution.dual] if solution.dual else []
        lower = solution.certificate.lower
        self._bound = None
        if statement.kind != "convex" and lower is not None:
            self._bound = SolverBound(lower, 0.0)
        known = library_ends(task, index)
        lowers = [end for end in (lower, *known) if end is not None]
        if not lowers or not math.isfinite(max(lowers)):
            raise DataError(
                f"{task.name} has no lower bound, so that no gap can be told; take another problem"
            )
        self.lower, self.upper = max(lowers), solution.certificate.upper

    def objective(self, model: Any) -> float:
        """Return the objective at a model in any form, an upper bound of it; infinite where the
        model cannot be used.
        """
        task = self._task
        try:
            found = as_model(
                model, task.X, np.unique(task.y), None, task.problem.arguments().get("kernel")
            )
            require_kernel(found, self._formulation)
            one = check(
                self._statement, [found], self._duals, solver_bound=self._bound, own_models=False
            )
        except (SvmcvxError, NotCertified, ValueError, TypeError, AttributeError):
            return math.inf
        return one.certificate.upper

    def gap_of(self, objective: float) -> float:
        """Return the relative gap of an objective and the lower bound."""
        return max(relative_gap(self.lower, objective), 0.0)


def library_ends(task: Task, index: str | os.PathLike[str] | None) -> list[float | None]:
    """Return the lower ends that the library's index has of a task, proved and stated; empty where
    it has none.
    """
    found, number = Index(index), instance_id(data_digest(task.X, task.y), task.problem)
    return [found[number].lower, found[number].stated] if number in found else []
