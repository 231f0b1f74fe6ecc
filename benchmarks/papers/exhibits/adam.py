"""Adam for M3SVM, as in [NieHaoWang]: full batches on the smoothed loss.

:func:`svmcvx.fast.m3svm` certifies gaps that 500 epochs do not come near to
(``benchmarks/m3svm.py``). Source: [KingmaBa]; [NieHaoWang], problem (14).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_number
from svmcvx.fast.core.monitor import Callback, Found, Monitor, limited, monitored, solved_from
from svmcvx.fast.several_classes.m3svm_newton import M3SVMBounds
from svmcvx.fast.several_classes.points import Start, start_from
from svmcvx.fast.several_classes.systems.m3svm_systems import M3SVMSystem, PairNorms
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.multiclass.losses import HingeSum, ScoreLoss, SmoothedHingeSum
from svmcvx.formulations.multiclass.m3svm import bound_m3svm
from svmcvx.solution import Solution, Status

__all__ = ["EPOCHS", "m3svm_by_adam"]

Floats: TypeAlias = NDArray[np.float64]

EPOCHS = 500
# The defaults of [KingmaBa].
MOMENTUM, SCALE, TINY = 0.9, 0.999, 1e-8
# Epochs between two lower bounds.
BOUND_EVERY = 100


@limited
def m3svm_by_adam(
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
    learning_rate: float = 1e-2,
) -> Solution:
    """Run the method of [NieHaoWang] for M3SVM, in full batches."""
    learning_rate = check_number(learning_rate, "learning_rate", low=0, open_low=True)
    statement = bound_m3svm(
        X, y, lam=lam, p=p, eps=eps, loss=loss, norm=2, delta=delta, sample_weight=sample_weight
    )
    epochs = EPOCHS if max_iter is None else max_iter
    with monitored(tol=tol, max_iter=epochs, verbose=verbose, callback=callback) as monitor:
        system = M3SVMSystem(statement)

        def solve(start: Start | None) -> Found:
            bounds = M3SVMBounds(system)
            U = np.zeros(system.shape) if start is None else start[0]
            status, done = _descend(
                system, bounds, monitor, U, learning_rate=learning_rate, delta=delta
            )
            points = RecoveredPoints([statement.model(*system.weights(bounds.U))], [bounds.dual])
            return (
                points,
                status,
                {"method": "adam", "iterations": done, "learning_rate": learning_rate},
            )

        start = start_from(system, statement, warm_start)
        return solved_from(
            statement, monitor, solve, start, solver=lambda options: "papers.m3svm/adam"
        )


def _descend(
    system: M3SVMSystem,
    bounds: M3SVMBounds,
    monitor: Monitor,
    U: Floats,
    *,
    learning_rate: float,
    delta: float,
) -> tuple[Status, int]:
    """Run Adam from U until the monitor says stop; an iteration is an epoch over all observations."""
    statement, scores, s = system.statement, system.scores, system.weight
    loss: ScoreLoss = (
        SmoothedHingeSum(delta) if isinstance(statement.loss, HingeSum) else statement.loss
    )
    nu = 0.0 if statement.p >= 2 else delta
    first, second = np.zeros_like(U), np.zeros_like(U)
    epoch = 0
    while True:
        f = scores.differences(np.asarray(system.Z @ U))
        norms = PairNorms(system, U, nu, None)
        bounds.update_model(U, system.objective_value(U, float(s[:, 0] @ statement.loss.value(f))))
        multipliers = s * loss.multipliers(f)
        if epoch % BOUND_EVERY == 0:
            bounds.update_dual(U, [multipliers], None)
        status = bounds.report(monitor, epoch)
        if status is not None:
            bounds.update_dual(U, [multipliers], None)
            return status, epoch
        gradient = system.gradient(multipliers, norms.gradient)
        epoch += 1
        first += (1.0 - MOMENTUM) * (gradient - first)
        second += (1.0 - SCALE) * (gradient**2 - second)
        step = first / (1.0 - MOMENTUM**epoch) / (np.sqrt(second / (1.0 - SCALE**epoch)) + TINY)
        U = U - learning_rate * (step - step.mean(axis=1, keepdims=True))
