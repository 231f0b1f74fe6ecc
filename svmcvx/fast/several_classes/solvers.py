"""Specialised solvers of M3SVM and of the classical multi-class machines; the statements are in
:mod:`svmcvx.formulations.multiclass.machines`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_choice
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    checked_settings,
    limited,
    monitored,
    solved_from,
)
from svmcvx.fast.several_classes.interior import WORK, interior_steps
from svmcvx.fast.several_classes.newton import (
    LARGEST_DIRECT,
    AugmentedNewton,
    ClassicalNewtonSettings,
    Continuation,
    M3SVMBounds,
    ScoreBounds,
    Start,
    start_from,
)
from svmcvx.fast.several_classes.penalties import ClassicalSystem, M3SVMSystem, PairPowers
from svmcvx.fast.several_classes.systems import ScoreSystemSettings
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.multiclass.losses import HingeSum
from svmcvx.formulations.multiclass.machines import bound_classical, bound_m3svm
from svmcvx.solution import Solution, Status


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


Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "newton", "augmented")
STEPS = 500
# Multiplications of a Newton step from which on the augmented Lagrangian method is tried first, and
# the share of them that its steps may take to be worth while: it needs more of them, which are
# cheap where few multipliers lie between their bounds.
WORTH_WHILE, CHEAP = 5e7, 0.4


@dataclass(frozen=True)
class M3SVMSettings:
    """Parameters of the algorithms of :func:`m3svm`.

    Attributes
    ----------
    largest_direct : int
        Unknowns up to which a Newton matrix may be factored.
    augmented : ClassicalNewtonSettings
        Of the augmented Lagrangian method.
    systems : ScoreSystemSettings
        Of its linear systems.
    interior_work : float
        Multiplications of an interior-point step up to which ``method="auto"`` takes these steps
        first.
    """

    largest_direct: int = LARGEST_DIRECT
    augmented: ClassicalNewtonSettings = field(
        default_factory=lambda: ClassicalNewtonSettings(
            first_stiffness=1.0, warm_stiffness=1.0, forcing=0.2, cg_limit=60
        )
    )
    systems: ScoreSystemSettings = field(default_factory=ScoreSystemSettings)
    interior_work: float = WORK


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
    max_iter: int | None = None,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
    settings: M3SVMSettings | None = None,
) -> Solution:
    r"""Solve M3SVM to a certified relative gap.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Standardised features. Sparse data stay sparse.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam, p, eps, loss, delta
        As for :func:`svmcvx.m3svm`.
    max_iter : int, optional
        Newton steps, 500 by default.
    warm_start : Solution, optional
        An earlier solution of the same data with multipliers ``alpha``, for any hyper-parameters
        and loss.
    method : "auto", "newton" or "augmented"
        ``"newton"`` is Newton's method with decreasing smoothing. ``"augmented"`` is the augmented
        Lagrangian method of :mod:`svmcvx.fast.several_classes.newton` for the hinge with
        p ≥ 2, whose steps need a system with a row for each multiplier strictly between its bounds;
        if it stagnates, Newton's method continues. ``"auto"`` tries it first where factoring the
        Newton matrix is most of much work, and stays with it if its own systems are small after a
        few steps, or if the Newton matrix would have too many rows. For the hinge with p ≥ 2 and
        few unknowns, without a warm start, ``"auto"`` begins with the interior-point steps of
        :mod:`svmcvx.fast.several_classes.interior`.

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
    Norms are Euclidean; for sums of absolute values (``norm=1``) pass :func:`svmcvx.m3svm` to
    :func:`svmcvx.solve`.

    Source: [NieHaoWang], problem (14). Method: [ChanGolubMulet] and
    [AndersenChristiansenConnOverton], whose primal-dual linearisation of a smoothed norm is used
    for the hinge (an absolute value) and for p < 2; [Mehrotra].

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.fast.m3svm(X, y, lam=0.1, p=4.0).certificate.is_certified(1e-6)
    True
    """
    check_choice(method, "method", METHODS)
    statement = bound_m3svm(
        X, y, lam=lam, p=p, eps=eps, loss=loss, norm=2, delta=delta, sample_weight=sample_weight
    )
    settings = checked_settings(settings, M3SVMSettings)
    max_iter = STEPS if max_iter is None else max_iter
    smooth = isinstance(statement.loss, HingeSum) and p >= 2
    if method == "augmented" and not smooth:
        raise DataError(
            'method="augmented" needs loss="hinge" and p of at least 2; use method="auto"'
        )
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        system = M3SVMSystem(statement, settings.systems)
        cheap = math.inf if method == "augmented" else 0.0
        if method == "auto" and smooth:
            cheap = _cheap_steps(system, settings)
        start = start_from(system, statement, warm_start)

        def solve(start: Start | None) -> Found:
            bounds = M3SVMBounds(system)
            U, alpha = (np.zeros(system.shape), None) if start is None else start
            chosen, status, steps, options = "newton", Status.INACCURATE, 0, {}
            if start is None and method == "auto" and smooth:
                tried = interior_steps(
                    system, PairPowers(system), bounds, monitor, settings.interior_work
                )
                if tried is not None:
                    chosen, (status, steps, U, alpha) = "interior", tried
            if status is Status.INACCURATE and cheap > 0:
                chosen = "augmented" if chosen == "newton" else f"{chosen}+augmented"
                augmented = AugmentedNewton(
                    system,
                    PairPowers(system),
                    bounds,
                    monitor,
                    U,
                    alpha,
                    settings=settings.augmented,
                    cheap=cheap,
                )
                status, more = augmented.run()
                steps += more
                options = {"linear_systems": ", ".join(sorted(augmented.kinds)) or "none"}
                U, alpha = bounds.U, augmented.alpha
            if status is Status.INACCURATE:
                continuation = Continuation(
                    system, bounds, monitor, U, alpha, largest_direct=settings.largest_direct
                )
                status, more = continuation.run()
                steps += more
                options = {
                    "linear_systems": "direct" if continuation.direct else "conjugate gradients"
                }
                chosen = "newton" if chosen == "newton" else f"{chosen}+newton"
            points = RecoveredPoints([statement.model(*system.weights(bounds.U))], [bounds.dual])
            return points, status, {"method": chosen, "iterations": steps, **options}

        return solved_from(
            statement,
            monitor,
            solve,
            start,
            solver=lambda options: f"fast.m3svm/{options['method']}",
        )


def _cheap_steps(system: M3SVMSystem, settings: M3SVMSettings) -> float:
    """Return the multiplications that the augmented Lagrangian method may take if it is tried
    first; 0 if it is not.
    """
    if system.unknowns > settings.largest_direct:
        return math.inf
    r, c = system.shape
    forming, factoring = system.scores.data.n * (c - 1.0) * r**2, system.unknowns**3 / 3.0
    step = forming + factoring
    return CHEAP * step if factoring >= forming and step >= WORTH_WHILE else 0.0
