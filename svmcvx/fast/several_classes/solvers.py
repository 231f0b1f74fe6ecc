"""Specialised solvers of M3SVM and of the classical multi-class machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    checked_settings,
    limited,
    monitored,
    solved_from,
)
from svmcvx.fast.several_classes.interior import interior_steps
from svmcvx.fast.several_classes.newton import (
    AugmentedNewton,
    MulticlassSettings,
    ScoreBounds,
    Start,
    penalty_of,
    start_from,
)
from svmcvx.fast.several_classes.systems import ScoreSystem, centred
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.multiclass.machines import bound_classical, bound_m3svm
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.solution import Solution, Status


@limited
def multiclass(
    X: Any,
    y: Any,
    *,
    lam: float = 1.0,
    loss: str = "weston_watkins",
    k: int = 2,
    intercept: bool | str = True,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    settings: MulticlassSettings | None = None,
) -> Solution:
    r"""Solve one of the classical multi-class machines to a certified relative gap.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\,\Omega(W)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Sparse data stay sparse unless a third of their entries is not zero.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam, loss, k, intercept
        As for :func:`svmcvx.multiclass`.
    max_iter : int
        Steps, 1000 by default.
    warm_start : Solution, optional
        An earlier solution of the same data with multipliers ``alpha``, for any hyper-parameters
        and loss.

    Returns
    -------
    Solution
        The method is deterministic: the same arguments give the same numbers.

    Notes
    -----
    Source: [NieHaoWang], related work; see :mod:`svmcvx.formulations.multiclass.machines`.
    Methods: for hinges on few observations of few columns [Mehrotra], see
    :mod:`svmcvx.fast.several_classes.interior`; else [LiSunToh], see
    :mod:`svmcvx.fast.several_classes.newton`, which also goes on where interior-point
    steps gain nothing more. A warm start is for the latter.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sx.fast.multiclass(X, y, lam=0.1, loss="crammer_singer").certificate.is_certified(1e-6)
    True
    """
    statement = bound_classical(
        X, y, lam=lam, loss=loss, k=k, intercept=intercept, sample_weight=sample_weight
    )
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    return _solved("fast.multiclass", statement, warm_start, settings, **limits)


@limited
def m3svm(
    X: Any,
    y: Any,
    *,
    lam: float = 0.001,
    p: float = 4.0,
    eps: float = 1e-6,
    loss: str = "hinge",
    delta: float = 1e-2,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 500,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    settings: MulticlassSettings | None = None,
) -> Solution:
    r"""Solve M3SVM to a certified relative gap.

    .. math::
        \min\; \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p
        + \varepsilon(\|W\|_F^2 + \|b\|^2)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Standardised features. Sparse data stay sparse unless a third of their entries is not zero.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam, p, eps, loss, delta
        As for :func:`svmcvx.m3svm`.
    max_iter : int
        Steps, 500 by default.
    warm_start : Solution, optional
        An earlier solution of the same data with multipliers ``alpha``, for any hyper-parameters
        and loss.

    Returns
    -------
    Solution
        The method is deterministic: the same arguments give the same numbers.

    Notes
    -----
    Norms are Euclidean; for sums of absolute values (``norm=1``) pass :func:`svmcvx.m3svm` to
    :func:`svmcvx.solve`.

    Source: [NieHaoWang], problem (14). Methods: as for :func:`multiclass`, with smoothed norms for
    p < 2 [ChanGolubMulet], [AndersenChristiansenConnOverton].

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.fast.m3svm(X, y, lam=0.1, p=4.0).certificate.is_certified(1e-6)
    True
    """
    statement = bound_m3svm(
        X, y, lam=lam, p=p, eps=eps, loss=loss, norm=2, delta=delta, sample_weight=sample_weight
    )
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    return _solved("fast.m3svm", statement, warm_start, settings, **limits)


def _solved(
    name: str,
    statement: MulticlassStatement,
    warm_start: Solution | None,
    settings: MulticlassSettings | None,
    **limits: Any,
) -> Solution:
    """Solve by interior-point steps where they are cheap, by Newton's method otherwise."""
    chosen = checked_settings(settings, MulticlassSettings)
    with monitored(**limits) as monitor:
        system = ScoreSystem(statement.scores)
        start = start_from(system, statement, warm_start)

        def solve(start: Start | None) -> Found:
            bounds, penalty = ScoreBounds(system, statement), penalty_of(statement, system)
            methods, steps, status = [], 0, Status.INACCURATE
            U, alpha = np.zeros(system.shape), None
            options: dict[str, Any] = {}
            if start is not None:
                U, alpha = start
                U = centred(U) if penalty.at(U).shift_invariant else U
            else:
                tried = interior_steps(system, penalty, bounds, monitor, chosen.interior_work)
                if tried is not None:
                    methods.append("interior")
                    (status, steps, alpha), U = tried, bounds.U
            if status is Status.INACCURATE:
                methods.append("newton")
                method = AugmentedNewton(system, penalty, bounds, monitor, U, alpha)
                status, more = method.run()
                steps += more
                options["linear_systems"] = ", ".join(sorted(method.kinds)) or "none"
            options |= {"method": "+".join(methods), "iterations": steps}
            models = statement.models(*system.weights(bounds.U), bounds.dual)
            return RecoveredPoints(models, [bounds.dual]), status, options

        return solved_from(
            statement, monitor, solve, start, solver=lambda options: f"{name}/{options['method']}"
        )
