"""Fast solvers of M3SVM; the statement is :mod:`svmcvx.formulations.multiclass.m3svm`."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Callback, conclude, earlier_solution, monitored
from svmcvx.fast.multiclass.m3svm_adam import EPOCHS, adam
from svmcvx.fast.multiclass.m3svm_newton import Bounds, Continuation
from svmcvx.fast.multiclass.m3svm_systems import Machine
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.multiclass.m3svm import bound_m3svm
from svmcvx.model import MulticlassModel
from svmcvx.solution import Solution

__all__ = ["METHODS", "m3svm"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "newton", "adam")
STEPS = 500


def m3svm(
    X: Any,
    y: Any,
    *,
    lam: float,
    p: float,
    eps: float = 1e-6,
    loss: str = "hinge",
    delta: float = 1e-2,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int | None = None,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
    learning_rate: float = 1e-2,
) -> Solution:
    r"""Solve M3SVM to a certified relative gap.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Standardised features. Sparse data stay sparse.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam, p, eps, loss, delta, sample_weight
        As for :func:`svmcvx.m3svm`.
    tol : float
        Relative gap at which to stop, in (0, 1).
    time_limit : float, optional
        Seconds; the best point so far is returned with its interval, as after Ctrl-C.
    max_iter : int, optional
        Newton steps, 500 by default; epochs of Adam, 500 by default as in the paper.
    verbose : bool
        Print a line an iteration.
    callback : callable, optional
        Called with a :class:`~svmcvx.fast.core.monitor.Progress` every iteration; returning True stops.
    warm_start : Solution, optional
        An earlier solution of the same data, for any hyper-parameters and loss.
    method : "auto", "newton" or "adam"
        ``"auto"`` is Newton's method on ever less smoothing. ``"adam"`` is the paper's, in full batches; for the hinge its
        gradients are those of the smoothed loss with `delta`, while the bounds are those of the hinge.
    learning_rate : float
        Of Adam, positive; 0.01 by default.

    Returns
    -------
    Solution
        With nothing random: the same arguments give the same numbers.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If a factor of data with more columns than rows would not fit into memory.

    Notes
    -----
    Norms are Euclidean; for sums of absolute values (``norm=1``) pass :func:`svmcvx.m3svm` to :func:`svmcvx.solve`.

    Source: M3SVM paper, problem (14); spec m3svm.md. Method: Chan, Golub and Mulet (1999) and Andersen, Christiansen, Conn and
    Overton (2000), whose primal-dual linearisation of a smoothed norm is used for the hinge (an absolute value) and for p < 2.
    """
    started = time.perf_counter()
    check_choice(method, "method", METHODS)
    learning_rate = check_number(learning_rate, "learning_rate", low=0, open_low=True)
    statement = bound_m3svm(X, y, lam=lam, p=p, eps=eps, loss=loss, norm=2, delta=delta, sample_weight=sample_weight)
    if max_iter is None:
        max_iter = EPOCHS if method == "adam" else STEPS
    with monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        machine = Machine(statement)
        build_seconds = time.perf_counter() - started
        U, alpha = _start(machine, warm_start)
        bounds = Bounds(machine)
        if method == "adam":
            chosen = "adam"
            start = np.zeros(machine.shape) if U is None else U
            status, steps = adam(machine, bounds, monitor, start, learning_rate=learning_rate, delta=delta)
            options: dict[str, Any] = {"learning_rate": learning_rate}
        else:
            chosen = "newton"
            continuation = Continuation(machine, bounds, monitor, np.zeros(machine.shape) if U is None else U, alpha)
            status, steps = continuation.run()
            options = {"linear_systems": "direct" if continuation.direct else "conjugate gradients"}
        W, b = machine.weights(bounds.U)
        scores = machine.scores
        support = statement.loss.support(scores.differences(scores.X @ W + b))
        return conclude(
            statement,
            RecoveredPoints([scores.model(W, b, support)], [bounds.dual]),
            monitor,
            status,
            solver=f"fast.m3svm/{chosen}",
            build_seconds=build_seconds,
            warm_start_used=U is not None,
            options={"method": chosen, "iterations": steps, **options},
        )


def _start(machine: Machine, warm: Any) -> tuple[Floats | None, Floats | None]:
    """Return (U, α) of an earlier solution, as far as it has them."""
    warm = earlier_solution(warm)
    if warm is None:
        return None, None
    statement, data = machine.statement, machine.scores.data
    model = warm.model
    if not isinstance(model, MulticlassModel) or not np.array_equal(model.classes, data.classes):
        raise DataError("warm_start must be a Solution of the same data, got one of other classes")
    if model.coef.shape != (data.X.shape[1], data.c) or not (usable(model.coef) and usable(model.intercept)):
        raise DataError(
            f"warm_start must be a Solution of the same data, got weights of shape {model.coef.shape} "
            f"for {data.X.shape[1]} features and {data.c} classes"
        )
    alpha = statement.projected(statement.multipliers(warm.dual)) if "alpha" in warm.dual else None
    return machine.point(model.coef, model.intercept), alpha
