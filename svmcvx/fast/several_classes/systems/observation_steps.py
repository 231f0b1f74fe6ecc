r"""Newton steps by a system with a row for each multiplier strictly between its bounds.

With second derivatives A of the penalty in the weights and :math:`\sigma\sum_v (x_v
q_v')\otimes(x_v q_v')` of the losses, x in the coordinates of the features and q in those of the
classes, a step follows from

.. math:: \Big(\tfrac1\sigma I + K\Big)\nu - Q\,db = -\big(x_v' A^{-1}(g)\, q_v\big)_v, \qquad Q'\nu + \beta\,db = -g_b, \qquad
          K_{uv} = \langle x_u q_u', A^{-1}(x_v q_v')\rangle,

with :math:`dW = -A^{-1}(g + \sum_v \nu_v x_v q_v')`: near the optimum there are about as many
vectors as multipliers strictly between their bounds.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.fast.several_classes.systems.envelopes import FaceCurvature
from svmcvx.fast.several_classes.systems.penalties import PenaltyInverse
from svmcvx.fast.several_classes.systems.score_systems import TINY, ScoreSystem, centred

__all__ = ["observation_step"]

Floats: TypeAlias = NDArray[np.float64]


def observation_step(
    system: ScoreSystem,
    gradient: Floats,
    curvature: FaceCurvature,
    inverse: PenaltyInverse,
    damping: float,
) -> Floats | None:
    """Return the Newton step; None where the system cannot be factorised."""
    owner, Q = curvature.faces
    d = system.columns
    # Minus the means of the features where the unknowns are those of centred features and the
    # penalty is not.
    offset = np.zeros(d) if inverse.centred else system.q[:d]
    g = gradient[:d]
    bias = damping + inverse.bias
    if offset.any():
        g = g - np.outer(offset, gradient[d])
    step = np.zeros(system.shape)
    step[:d] = -inverse.apply(g)
    if not owner.size:
        if system.biased:
            step[d] = -gradient[d] / bias if bias > 0 else 0.0
            step[d] -= offset @ step[:d]
        return centred(step)
    members, position = np.unique(owner, return_inverse=True)
    X = system.Z[members][:, :d]
    if offset.any():
        X = X - offset
    matrix = inverse.gram(X, position, Q)
    matrix[np.diag_indices_from(matrix)] += 1.0 / max(curvature.sigma, TINY)
    right = (Q * np.asarray(X @ step[:d])[position]).sum(axis=1)
    try:
        factor = sl.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    except sl.LinAlgError:
        return None
    solved = sl.cho_solve(
        factor, np.column_stack([right, Q]) if system.biased else right, check_finite=False
    )
    if system.biased:
        # Q'T Q is singular along common shifts, and where no vector joins two groups of classes.
        schur = Q.T @ solved[:, 1:]
        c = schur.shape[0]
        schur[np.diag_indices(c)] += bias
        db, *_ = np.linalg.lstsq(
            schur + np.trace(schur) / c**2, -gradient[d] - Q.T @ solved[:, 0], rcond=1e-14
        )
        nu = solved[:, 0] + solved[:, 1:] @ db
        step[d] = db
    else:
        nu = solved
    weighted = np.zeros((members.size, Q.shape[1]))
    np.add.at(weighted, position, nu[:, None] * Q)
    step[:d] -= inverse.apply(np.asarray(X.T @ weighted))
    if system.biased:
        step[d] -= offset @ step[:d]
    return centred(step) if np.isfinite(step).all() else None
