"""Adam for M3SVM, as in [NieHaoWang]: full batches on the smoothed loss.

It is there for comparison; :mod:`svmcvx.fast.multiclass.m3svm_newton` is faster. Source: [KingmaBa]; [NieHaoWang], problem (14).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.multiclass.m3svm_newton import M3SVMBounds
from svmcvx.fast.multiclass.systems.m3svm_systems import M3SVMSystem, PairNorms
from svmcvx.formulations.multiclass.losses import HingeSum, ScoreLoss, SmoothedHingeSum
from svmcvx.solution import Status

__all__ = ["EPOCHS", "adam"]

Floats: TypeAlias = NDArray[np.float64]

EPOCHS = 500
# The defaults of [KingmaBa].
MOMENTUM, SCALE, TINY = 0.9, 0.999, 1e-8
# Epochs between two lower bounds.
BOUND_EVERY = 100


def adam(
    system: M3SVMSystem, bounds: M3SVMBounds, monitor: Monitor, U: Floats, *, learning_rate: float, delta: float
) -> tuple[Status, int]:
    """Run Adam from U until the monitor says stop; an iteration is an epoch over all observations."""
    statement, scores, s = system.statement, system.scores, system.weight
    loss: ScoreLoss = SmoothedHingeSum(delta) if isinstance(statement.loss, HingeSum) else statement.loss
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
