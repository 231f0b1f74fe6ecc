"""The quantities of the relaxation behind a solution: γ, the relaxed indicators, the spectrum of W."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import check
from svmcvx.errors import DataError
from svmcvx.formulations.conic_loss.recovery import moment_of
from svmcvx.formulations.conic_loss.sdp import ConicSDP
from svmcvx.solution import Solution

__all__ = ["ConicRelaxation", "relaxation"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConicRelaxation:
    """Mean, second moment, indicators and multipliers of a solution of the relaxation."""

    w: Floats
    W: Floats
    spectrum: Floats
    z: Floats
    gamma: Floats
    lam: float
    zero_one: tuple[float, float]


def relaxation(answer: Solution | ConicSDP) -> ConicRelaxation:
    """Return γ, the relaxed z and the spectrum of W of a solution, or at the present values of a
    solved problem.
    """
    if isinstance(answer, ConicSDP):
        candidates = answer.recover()
        if not candidates.models:
            raise DataError("the problem has no values yet; call its solve() or svmcvx.solve first")
        statement = answer.formulation
        checked = check(statement, candidates.models, candidates.duals)
        model, dual, certificate = (
            checked.model,
            statement.export_dual(checked.dual),
            checked.certificate,
        )
        lam = statement.lam
    else:
        model, dual, certificate = answer.model, answer.dual, answer.certificate
        lam = answer.hyperparameters.get("lam")
    moment = moment_of(model)
    if moment is None:
        raise DataError(
            "relaxation takes a solution of the conic relaxation, got one of"
            f" {getattr(answer, 'formulation', answer)!r} without a second moment"
        )
    if lam is None:
        lam = float(np.asarray(dual.get("lam", math.nan)).item())
    interval = (
        certificate.residuals.get("zero_one_lower", -math.inf),
        certificate.residuals["zero_one_upper"],
    )
    return ConicRelaxation(
        w=moment.w,
        W=moment.W,
        spectrum=moment.spectrum,
        z=moment.z,
        gamma=dual.get("gamma", np.zeros(0)),
        lam=float(lam),
        zero_one=interval,
    )
