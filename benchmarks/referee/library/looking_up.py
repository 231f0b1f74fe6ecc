"""What the library knows of a problem on given data, without solving anything."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.referee.library.data_sets import DataSet, data_digest, make_data_set
from benchmarks.referee.library.index import Bounds, Index
from benchmarks.referee.library.instances import (
    SEARCHES,
    Instance,
    Problem,
    instance_id,
    problem_of,
)
from benchmarks.referee.library.listing import PARTS, listed
from svmcvx.data import check_choice, check_features, check_labels
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.given_models import problem_named, unsolved
from svmcvx.proofs import Statement

__all__ = ["find", "get", "instances", "lookup", "stated_problem"]


def instances(
    part: str = "core",
    *,
    kind: str = "all",
    hard: bool = False,
    index: str | os.PathLike[str] | None = None,
) -> list[Instance]:
    """Return the instances of the library.

    Parameters
    ----------
    part : "core", "extended", "open" or "all"
        The core is on data that come with scikit-learn or are generated; the extended part on data
        sets of the papers; the open part are those of both whose interval is wider than 1e-3, or
        has no lower end that was proved.
    kind : "all", "convex" or "search"
        Convex problems; 0-1, ramp and l0, whose optimum is the end of a search.
    hard : bool
        Those alone that are hard: the instances whose proved interval is wider than 1e-9.
    index : path-like, optional
        The index; that of the package by default.

    Raises
    ------
    DataError
        If there is no such part or kind, or the index cannot be read.

    Examples
    --------
    >>> from benchmarks.referee import library
    >>> len(library.instances("core")) > 2000
    True
    """
    if part not in (*PARTS, "open", "all"):
        raise DataError(f"part must be 'core', 'extended', 'open' or 'all', got {part!r}")
    found = [
        one for name in (PARTS if part in ("open", "all") else (part,)) for one in listed(name)
    ]
    if check_choice(kind, "kind", ("all", "convex", "search")) != "all":
        found = [
            one for one in found if (one.problem.formulation in SEARCHES) == (kind == "search")
        ]
    if part != "open" and not hard:
        return found
    known = Index(index)
    if part == "open":
        found = [one for one in found if one.id in known and known[one.id].tolerance == "open"]
    return (
        [one for one in found if one.id in known and known[one.id].tolerance != "1e-9"]
        if hard
        else found
    )


def find(number: str) -> Instance:
    """Return the instance of a number, or of its first digits if no other begins with them.

    Raises
    ------
    DataError
        If there is none, or there are several.
    """
    wanted = str(number).lower()
    found = [one for part in PARTS for one in listed(part) if wanted and one.id.startswith(wanted)]
    if len(found) != 1:
        raise DataError(
            f"{'no instance' if not found else f'{len(found)} instances'} of the library begins"
            f" with {number!r}; benchmarks.referee.library.instances() has all, 'python -m benchmarks.referee list' shows"
            " them"
        )
    return found[0]


def get(number: str, *, data_dir: str | os.PathLike[str] | None = None) -> tuple[DataSet, Problem]:
    """Return the data and the problem of an instance.

    Parameters
    ----------
    number : str
        The instance's number, or its first digits.
    data_dir : path-like, optional
        Folder of the data sets of the papers.

    Returns
    -------
    data : DataSet
    problem : Problem
        ``problem.build(data.X, data.y)`` is the problem for a solver of cvxpy,
        ``problem.solve(data.X, data.y, tol=1e-9)`` solves it.

    Raises
    ------
    DataError
        If there is no such instance, or its data cannot be had or are not those that the package
        records.
    """
    instance = find(number)
    return make_data_set(instance.data_set, data_dir), instance.problem


def lookup(
    X: Any,
    y: Any,
    problem: Any = "psvm",
    *,
    index: str | os.PathLike[str] | None = None,
    **hyperparameters: Any,
) -> Bounds | None:
    """Return what the library knows of the optimum of a problem on data, or None. Nothing is
    solved.

    Tests of other packages can take it as the true value: every end follows from a proof that the
    second checker has confirmed.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
        The names of the classes and the signs of labels make no difference.
    problem : str, estimator, problem, Statement or Problem
        The name of a formulation, such as ``"psvm"`` or ``"crammer_singer"``, or an estimator of
        this package with the hyper-parameters; a problem of a builder; the statement of a proof; or
        that of an instance.
    index : path-like, optional
        The index; that of the package by default.
    **hyperparameters
        Of the named problem, as in ``C=1.0, p=2.0, kernel="rbf", gamma=0.125``.

    Returns
    -------
    Bounds or None

    Raises
    ------
    DataError
        If the data or the problem cannot be used.

    Examples
    --------
    >>> from benchmarks.referee import library
    >>> data, _ = library.get(library.instances()[0].id)
    >>> known = library.lookup(data.X, data.y, "psvm", C=1.0, p=1.0)
    >>> known.tolerance, round(known.upper, 6)
    ('1e-9', 26.525455)
    >>> library.lookup(data.X, data.y, "psvm", C=1.234) is None
    True
    """
    features = check_features(X)
    codes, _ = check_labels(y, features.shape[0])
    stated = stated_problem(features, y, problem, hyperparameters)
    known = Index(index)
    number = instance_id(data_digest(features, codes), stated)
    return known.get(number)


def stated_problem(X: Any, y: Any, problem: Any, hyperparameters: dict[str, Any]) -> Problem:
    """Return the problem of :func:`lookup`, in whatever form it was given."""
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, Statement):
        return problem_of(problem)
    if not isinstance(problem, (str, CertifiedClassifier)):
        state = getattr(problem, "proof_statement", None)
        if not callable(state):
            raise DataError(
                "problem must be the name of a formulation, an estimator of this package, a"
                f" problem or a statement, got {type(problem).__name__}"
            )
        return problem_of(state())
    return problem_of(unsolved(problem_named(problem, hyperparameters), X, y).proof_statement())
