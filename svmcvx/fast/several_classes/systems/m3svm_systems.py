r"""Newton systems of M3SVM, see :mod:`svmcvx.fast.several_classes.systems.score_systems`.

The edge kl of the graph of classes has the matrix

.. math:: M_{kl} = \sum_i h_{ikl}\, z_i z_i' + \lambda p\, r^{p-2}\Big(I + (p-2)\frac{vv'}{r^2}\Big) + \frac{2\varepsilon}{c}(I + qq'),
          \qquad v = w_k - w_l,\; q = [-m;\, 1].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.several_classes.systems.score_systems import (
    ScoreSystem,
    ScoreSystemSettings,
    centred,
)
from svmcvx.formulations.multiclass.m3svm import M3SVM, objective_value
from svmcvx.formulations.multiclass.pairwise import lengths

__all__ = ["M3SVMSystem", "PairNorms"]

Floats: TypeAlias = NDArray[np.float64]


class PairNorms:
    r"""The regulariser at a point, its norms smoothed to :math:`r = \sqrt{\|v\|^2+\nu^2}`, and its
    second derivatives.
    """

    def __init__(self, system: M3SVMSystem, U: Floats, nu: float, flow: Floats | None) -> None:
        statement, self.system = system.statement, system
        lam, p, eps = statement.lam, statement.p, statement.eps
        self.V = U[:-1] @ system.P
        self.r = np.hypot(lengths(self.V, 2), nu)
        b = system.q @ U
        with np.errstate(over="ignore"):
            self.stiffness = lam * p * self.r ** (p - 2.0)
        self.flow = self.stiffness * self.V
        self.gradient = 2.0 * eps * np.outer(system.q, b)
        self.gradient[:-1] += self.flow @ system.P.T + 2.0 * eps * U[:-1]
        self.scaled_flow = self.V
        if flow is not None and p < 2:
            scaled = flow / self.stiffness
            self.scaled_flow = scaled * (self.r / np.maximum(lengths(scaled, 2), self.r))
        self.radial = np.divide(
            p - 2.0, 2.0 * self.r**2, out=np.zeros_like(self.r), where=self.r > 0
        )

    @property
    def _share(self) -> float:
        """Weight of the squares in one pair."""
        return float(2.0 * self.system.statement.eps / self.system.P.shape[0])

    def edge(self, m: int) -> Floats:
        """Return the matrix of second derivatives of the pair m, with its share of the squares."""
        q, share = self.system.q, self._share
        matrix = share * np.outer(q, q)
        outer = np.outer(self.scaled_flow[:, m], self.V[:, m])
        matrix[:-1, :-1] += (self.stiffness[m] * self.radial[m]) * (outer + outer.T)
        matrix[np.diag_indices(q.size - 1)] += self.stiffness[m] + share
        return np.asarray(matrix)

    def apply(self, dV: Floats) -> Floats:
        """Return the change of the flows with the differences."""
        along = self.scaled_flow * (self.V * dV).sum(axis=0) + self.V * (self.scaled_flow * dV).sum(
            axis=0
        )
        return np.asarray(self.stiffness * (dV + self.radial * along))

    def product(self, D: Floats) -> Floats:
        """Return the change of the gradient with U."""
        P, q, eps = self.system.P, self.system.q, self.system.statement.eps
        image = 2.0 * eps * np.outer(q, q @ D)
        image[:-1] += self.apply(D[:-1] @ P) @ P.T + 2.0 * eps * D[:-1]
        return np.asarray(image)

    def _pairs_of(self, k: int) -> list[int]:
        return [m for m, pair in enumerate(self.system.pairs) if k in pair]

    def block(self, k: int) -> Floats:
        """Return the sum of the matrices of all pairs with class k."""
        return np.asarray(sum(self.edge(m) for m in self._pairs_of(k)))

    def diagonal(self, k: int) -> Floats:
        """Return the diagonal of :meth:`block`."""
        q, pairs = self.system.q, self._pairs_of(k)
        diagonal = len(pairs) * self._share * q**2
        along = 2.0 * self.radial * self.scaled_flow * self.V
        diagonal[:-1] += (self.stiffness * (1.0 + along))[:, pairs].sum(axis=1) + len(
            pairs
        ) * self._share
        return np.asarray(diagonal)


class M3SVMSystem(ScoreSystem):
    """Data, gradients and Newton systems of M3SVM with Euclidean norms, in the unknowns U."""

    def __init__(self, statement: M3SVM, settings: ScoreSystemSettings | None = None) -> None:
        super().__init__(statement.scores, settings)
        self.statement = statement
        self.P = statement.P

    def point(self, W: Floats, b: Floats) -> Floats:
        """Return U of W, in terms of the features, and b, with rows that sum to zero."""
        return centred(super().point(W, b))

    def objective_value(self, U: Floats, loss: float) -> float:
        """Return P at U from the sum of its losses."""
        b = self.q @ U
        squares = float((U[:-1] ** 2).sum() + (b**2).sum())
        lam, p, eps = self.statement.lam, self.statement.p, self.statement.eps
        with np.errstate(over="ignore"):
            return float(
                objective_value(loss, lengths(U[:-1] @ self.P, 2), squares, lam=lam, p=p, eps=eps)
            )

    def full_flow(self, flow: Floats) -> Floats:
        """Return flows in terms of the features."""
        return flow if sp.issparse(self.Z) else np.asarray(self.scores.unreduced(flow))
