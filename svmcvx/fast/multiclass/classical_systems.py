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
from svmcvx.fast.multiclass.score_systems import ScoreSystem, ScoreSystemSettings, centred
from svmcvx.formulations.multiclass.baselines import ClassicalStatement

__all__ = ["ClassicalSystem", "Squares"]

Floats: TypeAlias = NDArray[np.float64]


class Squares:
    """Second derivatives of squared norms, with a damping of the biases.

    Parameters
    ----------
    system : ClassicalSystem
    damping : float
    """

    def __init__(self, system: ClassicalSystem, damping: float) -> None:
        self.weights = np.full(system.shape[0], system.rho)
        self.weights[system.columns :] = damping
        self.share = self.weights / system.shape[1]

    def edge(self, m: int) -> Floats:
        """The same diagonal matrix for all pairs."""
        return np.diag(self.share)

    def diagonal(self, m: int) -> Floats:
        """The same for all pairs."""
        return self.share

    def product(self, D: Floats) -> Floats:
        """Multiples of the rows."""
        return self.weights[:, None] * D


class ClassicalSystem(ScoreSystem):
    """Data, gradients and Newton systems of a classical machine with squared norms.

    Parameters
    ----------
    statement : ClassicalStatement
    settings : ScoreSystemSettings, optional
        The defaults if None.
    """

    def __init__(self, statement: ClassicalStatement, settings: ScoreSystemSettings | None = None) -> None:
        super().__init__(statement.scores, settings)
        self.statement = statement
        curvature = statement.regulariser.curvature(statement.scores.data.c)
        self.rho = 2.0 * statement.lam * (1.0 if curvature is None else curvature)

    def penalty_value(self, U: Floats) -> float:
        """Return Ω at weights that sum to zero."""
        return 0.5 * self.rho * float((U[: self.columns] ** 2).sum())

    def gradient(self, alpha: Floats, U: Floats) -> Floats:
        """Return the gradient of losses with multipliers `alpha` and of Ω."""
        gradient = -np.asarray(self.Z.T @ self.scores.coefficients(alpha))
        gradient[: self.columns] += self.rho * U[: self.columns]
        return gradient

    def observation_step(self, gradient: Floats, curvature: FaceCurvature, damping: float) -> Floats | None:
        """Return the Newton step by a system with a row a vector of the faces, None where that fails."""
        owner, Q = curvature.faces
        step = np.zeros(self.shape)
        d = self.columns
        step[:d] = -gradient[:d] / self.rho
        if not owner.size:
            step[d:] = -gradient[d:] / damping if damping > 0 else 0.0
            return centred(step)
        members, position = np.unique(owner, return_inverse=True)
        X = self.Z[members][:, :d]
        products = X @ X.T
        gram = np.asarray(products.toarray() if sp.issparse(products) else products)
        matrix = gram[np.ix_(position, position)]
        matrix *= Q @ Q.T
        matrix /= self.rho
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
        step[:d] -= np.asarray(X.T @ weighted) / self.rho
        return centred(step) if np.isfinite(step).all() else None
