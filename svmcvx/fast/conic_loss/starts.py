"""Starting points of the continuation of the conic relaxation: an earlier solution, the hard
margin, or w = 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.conic_loss.continuation import Continuation, is_hard_margin, leading_directions
from svmcvx.fast.conic_loss.low_rank_newton import LowRankRelaxation
from svmcvx.fast.core.monitor import Monitor
from svmcvx.formulations.conic_loss.recovery import moment_of
from svmcvx.formulations.conic_loss.statement import ConicLoss, hard_margin_point
from svmcvx.heuristics.least_norm import least_norm
from svmcvx.model import LinearModel
from svmcvx.solution import Attempt, Solution, Status

__all__ = ["ConicStart", "begin", "start_from"]

Floats: TypeAlias = NDArray[np.float64]

# With κ the first λ makes λ Σ s z this many times the squared norm of a point with margin 1 on an
# average row; κ counts as at least FEWEST here.
FIRST_LAM, FEWEST = 4.0, 1e-3
# Relative excess of the weight lost on rows of zeros over the allowance that is taken to be
# rounding.
FULL = 1.0 + 1e-12


class ConicStart(NamedTuple):
    """A starting point (w, V), and λ if it is known."""

    U: Floats
    lam: float | None


def start_from(statement: ConicLoss, warm: Solution) -> ConicStart:
    """Return the point of an earlier solution, or raise a :class:`DataError` if it does not fit."""
    space, moment, model = statement.space, moment_of(warm.model), warm.model
    r = statement.factor.shape[1]
    if moment is not None:
        if moment.z.size != space.data.rows:
            raise DataError(
                "warm_start must be a Solution of the same data: it has"
                f" {moment.z.size} observations, these are {space.data.rows}"
            )
        kernel = warm.hyperparameters.get("kernel")
        if kernel != statement.kernel_name:
            raise DataError(
                f"warm_start must be a Solution with the same kernel: it has {kernel}, this is"
                f" {statement.kernel_name}"
            )
        if moment.w.size != r:
            raise DataError(
                "warm_start must be a Solution with the same columns, intercept and nystrom: it"
                f" has {moment.w.size} coordinates, these are {r}"
            )
        U = np.column_stack([moment.w, leading_directions(moment.V)])
    else:
        d = int(space.data.X.shape[1])
        if not (space.is_linear and isinstance(model, LinearModel) and model.coef.shape == (d,)):
            wanted = (
                f"a linear model of {d} features"
                if space.is_linear
                else "the second moment of the conic relaxation"
            )
            raise DataError(
                f"warm_start must be a Solution with {wanted}, got one of {warm.formulation!r} with"
                f" {model!r}"
            )
        w = np.append(model.coef, model.intercept) if space.intercept == "penalised" else model.coef
        if not np.isfinite(w).all():
            raise DataError("warm_start must be a Solution whose model has finite coefficients")
        if w.size != r:
            # The factor is not the data themselves: the coordinates with the same scores.
            w, *_ = sl.lstsq(statement.factor, model.scores(space.data.X).value)
        U = w[:, None]
    known = warm.dual.get("lam", warm.hyperparameters.get("lam"))
    lam = math.nan if known is None else float(known)
    return ConicStart(U, lam if 0 < lam < math.inf else None)


def _hard_margin(statement: ConicLoss) -> Floats:
    """Return the point of least norm with margins of at least 1 on all rows except rows of zeros,
    whose margin is always 0.
    """
    norms = statement.squared_row_norms
    rows = norms > 0
    L, y = statement.factor[rows], statement.y[rows]
    scale = math.sqrt(float(np.mean(norms[rows]))) if rows.any() else 1.0
    A = (L.toarray() if sp.issparse(L) else L) * (y / scale)[:, None]
    if statement.kappa == 0:
        return (
            hard_margin_point(A if rows.all() else np.vstack([A, np.zeros((1, A.shape[1]))]))
            / scale
        )
    found = (
        least_norm(A, None)
        if float(statement.weight[~rows].sum()) <= FULL * statement.allowance
        else None
    )
    if found is None:
        reason = statement.explain("infeasible")
        raise SolverFailed(
            f"fast.conic: {reason}", [Attempt("fast.conic/newton", Status.INFEASIBLE, reason)]
        )
    return found.w / scale


def begin(
    statement: ConicLoss,
    monitor: Monitor,
    start: ConicStart | None,
    method: str,
    dense_spectrum: int,
) -> Continuation:
    """Return the continuation at the hard margin if the problem reduces to it, otherwise at
    `start`, or at w = 0.
    """
    data, L = statement.space.data, statement.factor
    mean = float(np.mean(statement.squared_row_norms)) or 1.0
    hard_margin = is_hard_margin(statement)
    U, lam = np.zeros((L.shape[1], 1)), statement.lam
    if hard_margin:
        U = _hard_margin(statement)[:, None]
    elif start is not None:
        U, lam = start.U, start.lam if lam is None else lam
    if lam is None:
        total = float(data.weight.sum())
        lam = FIRST_LAM / (mean * max(statement.allowance, FEWEST * total))
        if hard_margin:
            # Any single margin below 1 has to cost more than the whole squared norm of the hard
            # margin.
            lam = max(lam, FIRST_LAM * float(np.vdot(U, U)) / float(data.weight.min()))
    problem = LowRankRelaxation(
        L, data.y, data.weight, lam=lam, U=U, system=method, dense_spectrum=dense_spectrum
    )
    return Continuation(statement, problem, monitor=monitor)
