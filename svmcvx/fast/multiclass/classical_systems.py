r"""Newton systems of the classical machines with squared norms, see :mod:`svmcvx.fast.multiclass.score_systems`.

With :math:`\Omega(W) = \tfrac\rho2\|W\|^2` and second derivatives :math:`\sigma\sum_v (q_v\otimes z_v)(q_v\otimes z_v)'` of the losses, q in the
coordinates of the classes, a step follows also from a system with one row a vector v,

.. math:: \Big(\tfrac1\sigma I + \tfrac1\rho K\Big)\nu - Q\,db = -\tfrac1\rho\big(q_v'(g'x_v)\big)_v, \qquad Q'\nu = -g_b, \qquad
          K = QQ' \circ XX',

with :math:`dW = -(g + \sum_v \nu_v x_v q_v')/\rho`: near the optimum there are about as many vectors as multipliers strictly between
their bounds.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.multiclass.envelopes import FaceCurvature
from svmcvx.fast.multiclass.penalties import AbsoluteWeights, SquaredWeights
from svmcvx.fast.multiclass.score_systems import ScoreSystem, ScoreSystemSettings, centred
from svmcvx.formulations.multiclass.baselines import ClassicalStatement

__all__ = ["ClassicalSystem"]

Floats: TypeAlias = NDArray[np.float64]


class ClassicalSystem(ScoreSystem):
    """Data, gradients and Newton systems of a classical machine.

    Parameters
    ----------
    statement : ClassicalStatement
    settings : ScoreSystemSettings, optional
        The defaults if None.
    """

    dense_share = 1 / 3

    def __init__(self, statement: ClassicalStatement, settings: ScoreSystemSettings | None = None) -> None:
        super().__init__(statement.scores, settings)
        self.statement = statement
        kappa = statement.regulariser.curvature(statement.scores.data.c)
        self.penalty: SquaredWeights | AbsoluteWeights
        if kappa is None:
            self.penalty = AbsoluteWeights(statement.lam, self.columns)
        else:
            self.penalty = SquaredWeights(2.0 * statement.lam * kappa, self.columns)

    def normalised(self, A: Floats) -> Floats:
        """Return the matrix with rows that sum to zero where the penalty is one of squares."""
        return centred(A) if self.penalty.smooth else A

    def gradient(self, alpha: Floats, U: Floats) -> Floats:
        """Return the gradient of losses with multipliers `alpha` and of the penalty."""
        return np.asarray(self.penalty.gradient(U) - self.Z.T @ self.scores.coefficients(alpha))

    def observation_step(self, gradient: Floats, curvature: FaceCurvature, rho: float, damping: float) -> Floats | None:
        """Return the Newton step for squares by a system with a row a vector of the faces, None where that fails."""
        owner, Q = curvature.faces
        step = np.zeros(self.shape)
        d = self.columns
        step[:d] = -gradient[:d] / rho
        if not owner.size:
            step[d:] = -gradient[d:] / damping if damping > 0 else 0.0
            return centred(step)
        members, position = np.unique(owner, return_inverse=True)
        X = self.Z[members][:, :d]
        products = X @ X.T
        gram = np.asarray(products.toarray() if sp.issparse(products) else products)
        matrix = gram[np.ix_(position, position)]
        matrix *= Q @ Q.T
        matrix /= rho
        matrix[np.diag_indices_from(matrix)] += 1.0 / curvature.sigma
        right = (Q * np.asarray(X @ step[:d])[position]).sum(axis=1)
        try:
            factor = sl.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            return None
        solved = sl.cho_solve(factor, np.column_stack([right, Q]) if self.biased else right, check_finite=False)
        if self.biased:
            # Q'T Q is singular along common shifts, and where no vector joins two groups of classes.
            schur = Q.T @ solved[:, 1:]
            c = schur.shape[0]
            schur[np.diag_indices(c)] += damping
            db, *_ = np.linalg.lstsq(schur + np.trace(schur) / c**2, -gradient[d] - Q.T @ solved[:, 0], rcond=1e-14)
            nu = solved[:, 0] + solved[:, 1:] @ db
            step[d] = db
        else:
            nu = solved
        weighted = np.zeros((members.size, Q.shape[1]))
        np.add.at(weighted, position, nu[:, None] * Q)
        step[:d] -= np.asarray(X.T @ weighted) / rho
        return centred(step) if np.isfinite(step).all() else None
