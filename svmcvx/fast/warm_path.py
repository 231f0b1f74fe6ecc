"""Paths over a hyper-parameter: each solution starts from the one before."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from svmcvx.catalogue import CATALOGUE
from svmcvx.data import check_number, check_time_limit
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import owned_data
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import time_limited

__all__ = ["PATHS", "path"]

# The specialised solvers that have paths, by formulation.
PATHS = {entry.name: entry.fast for entry in CATALOGUE.values() if entry.fast and entry.fast.path}


def path(
    formulation: str,
    X: Any,
    y: Any,
    *,
    time_limit: float | None = None,
    callback: Callable[[Solution], bool | None] | None = None,
    **keywords: Any,
) -> list[Solution]:
    """Solve for values of one hyper-parameter in turn, each warm-started from the one before.

    Parameters
    ----------
    formulation : "psvm", "odm", "odml", "conic", "m3svm", "multiclass", "l0" or "zero_one"
        The specialised solver to call. :mod:`svmcvx.catalogue` lists the hyper-parameters that may
        vary: (C, p), (C1, C2, D), (C, lam1, lam2), (lam, kappa), (lam, p, eps), (lam), (C) and
        (lam, k).
    X, y : of the same types
        As for that solver.
    time_limit : float, optional
        Seconds for the whole path.
    callback : callable, optional
        Called with each :class:`~svmcvx.Solution` as soon as it is found; returning True ends the
        path.
    **keywords
        Arguments of the solver; exactly one of its hyper-parameters is a sequence, as in ``C=[0.1,
        1, 10]``. It is followed in the order given: neighbours that are close, and small values of
        C first, are quickest.

    Returns
    -------
    list of Solution
        One for each value. A path that was ended by Ctrl-C, the time limit or the callback returns
        those it has; an interrupted solution has the status of the limit, and the interval that was
        proved so far.

    Raises
    ------
    DataError
        If the formulation is unknown, or not exactly one hyper-parameter is a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import svmcvx as sx
    >>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), [0, 0, 1, 1]
    >>> [s.certificate.is_certified(1e-6) for s in sx.fast.path("psvm", X, y, C=[0.1, 1.0], p=2)]
    [True, True]
    """
    if not isinstance(formulation, str) or formulation not in PATHS:
        raise DataError(
            f"formulation must be one of {', '.join(map(repr, PATHS))}, got {formulation!r}"
        )
    names = PATHS[formulation].path
    varied = [
        name
        for name in names
        if isinstance(keywords.get(name), Iterable) and not isinstance(keywords[name], str)
    ]
    if len(varied) != 1:
        raise DataError(
            f"a path varies exactly one of {', '.join(names)}: pass that one as a sequence, as in"
            f" {names[0]}=[0.1, 1, 10]; got {', '.join(varied) or 'none'}"
        )
    solver, name = PATHS[formulation].load(), varied[0]
    unknown = [key for key in keywords if key not in inspect.signature(solver).parameters]
    if unknown:
        raise DataError(f"fast.{formulation} has no argument {', '.join(map(repr, unknown))}")
    values = [check_number(value, name) for value in keywords.pop(name)]
    if not values:
        raise DataError(f"{name} is an empty sequence; pass at least one value")
    solutions: list[Solution] = []
    warm = keywords.pop("warm_start", None)
    with time_limited(check_time_limit(time_limit)) as deadline, owned_data(X, y) as (own, labels):
        for value in values:
            if solutions and deadline.passed():
                break
            warm = solver(own, labels, **{**keywords, name: value, "warm_start": warm})
            solutions.append(warm)
            if (callback is not None and callback(warm)) or warm.status in (
                Status.INTERRUPTED,
                Status.TIME_LIMIT,
            ):
                break
    return solutions
