"""Specialised solvers of the classical multi-class machines; the statement is
:mod:`svmcvx.formulations.multiclass.baselines`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
from svmcvx.fast.several_classes.classical_newton import AugmentedNewton, ClassicalNewtonSettings
from svmcvx.fast.several_classes.interior import WORK, interior_steps
from svmcvx.fast.several_classes.points import ScoreBounds, Start, start_from
from svmcvx.fast.several_classes.systems.classical_systems import ClassicalSystem
from svmcvx.fast.several_classes.systems.score_systems import ScoreSystemSettings
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.multiclass.baselines import bound_classical
from svmcvx.solution import Solution, Status

__all__ = ["MulticlassSettings", "multiclass"]


@dataclass(frozen=True)
class MulticlassSettings:
    """Parameters of the algorithms of :func:`multiclass`.

    Attributes
    ----------
    newton : ClassicalNewtonSettings
        Of Newton's method.
    systems : ScoreSystemSettings
        Of its linear systems.
    interior_work : float
        Multiplications of an interior-point step up to which these steps are taken first.
    """

    newton: ClassicalNewtonSettings = field(default_factory=ClassicalNewtonSettings)
    systems: ScoreSystemSettings = field(default_factory=ScoreSystemSettings)
    interior_work: float = WORK


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

    Raises
    ------
    DataError
        If the data or an argument cannot be used, or `warm_start` does not fit the data.
    BuildError
        If a factor of data with more columns than rows would not fit into memory.

    Notes
    -----
    Source: [NieHaoWang], related work; see :mod:`svmcvx.formulations.multiclass.baselines`.
    Methods: for hinges on few observations of few columns [Mehrotra], see
    :mod:`svmcvx.fast.several_classes.interior`; else [LiSunToh], see
    :mod:`svmcvx.fast.several_classes.classical_newton`, which also goes on where interior-point
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
    settings = checked_settings(settings, MulticlassSettings)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        system = ClassicalSystem(statement, settings.systems)
        start = start_from(system, statement, warm_start)

        def solve(start: Start | None) -> Found:
            bounds = ScoreBounds(system, statement)
            U, alpha = (
                (np.zeros(system.shape), None)
                if start is None
                else (system.normalised(start.U), start.alpha)
            )
            chosen, steps, status = "newton", 0, Status.INACCURATE
            options: dict[str, Any] = {}
            if start is None:
                tried = interior_steps(
                    system, system.penalty, bounds, monitor, settings.interior_work
                )
                if tried is not None:
                    chosen, (status, steps, U, alpha) = "interior", tried
            if status is Status.INACCURATE:
                method = AugmentedNewton(
                    system, system.penalty, bounds, monitor, U, alpha, settings=settings.newton
                )
                status, more = method.run()
                steps += more
                options = {"linear_systems": ", ".join(sorted(method.kinds)) or "none"}
                chosen = "newton" if chosen == "newton" else f"{chosen}+newton"
            options |= {"method": chosen, "iterations": steps}
            return (
                RecoveredPoints(
                    statement.models(*system.weights(bounds.U), bounds.dual), [bounds.dual]
                ),
                status,
                options,
            )

        return solved_from(
            statement,
            monitor,
            solve,
            start,
            solver=lambda options: f"fast.multiclass/{options['method']}",
        )
