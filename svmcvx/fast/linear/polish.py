r"""The exact optimum of a linear machine with p = 1, once it is known which multipliers lie inside
their bounds.

Multipliers at 0 and c are fixed, and the others F are corrected so that they solve the optimality
conditions

.. math:: X_Fw + b = y_F, \qquad w = X'(y\alpha), \qquad y'\alpha = 0,

as many equations as there are features and one more, unless rows are equal. Late in the augmented
Lagrangian method F no longer changes, while the multipliers converge by a constant factor: here
they are the optimal ones to rounding. The bounds of the result are computed as for any other point.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.linear.loss_passes import HINGE
from svmcvx.fast.linear.margins import Margins
from svmcvx.fast.linear.problem import LinearTerms, RowSums
from svmcvx.numerical import semidefinite_solution

__all__ = ["Polish", "Polished"]

Floats: TypeAlias = NDArray[np.float64]

# Free multipliers, at most, and as a multiple of the number of equations: more than that many only
# where rows are equal. The system takes the cube of their number.
MOST, MULTIPLE = 1000, 4
# Multipliers may leave their bounds by this share of them, as rounding makes them do.
OUTSIDE = 1e-8


class Polished(NamedTuple):
    """A point (w, b), its multipliers with w = w(α), and sums over the observations."""

    w: Floats
    b: float
    alpha: Floats
    response: RowSums


class Polish:
    """Solutions of the optimality conditions on the way of Newton's method."""

    def __init__(self, rows: Margins) -> None:
        self.rows = rows
        self.before = self.tried = np.zeros(0, dtype=np.intp)

    @staticmethod
    def applies(terms: LinearTerms, rows: Margins) -> bool:
        """Whether the conditions are linear and the rows in memory."""
        plain = terms.linear_term is None and not terms.variance and not terms.kernel_expansion
        return rows.whole and terms.loss.kind == HINGE and plain

    def __call__(self, end_of_round: bool) -> Polished | None:
        """Return the solution for the multipliers that are free now, if they were before as well,
        or are few and a round has ended.
        """
        free = np.flatnonzero(self.rows.slope)
        before, self.before = self.before, free
        equations = self.rows.problem.d + 1
        if not 0 < free.size <= min(MULTIPLE * equations, MOST) or np.array_equal(free, self.tried):
            return None
        if not (end_of_round and free.size <= equations) and not np.array_equal(free, before):
            return None
        self.tried = free
        return self._solved(free)

    def _solved(self, free: NDArray[np.intp]) -> Polished | None:
        m, c = self.rows.problem, self.rows.problem.c
        v = np.where(self.rows.alpha >= c, c, 0.0)
        v[free] = self.rows.alpha[free]
        v *= m.y
        Z = m.X[free]
        system = Z @ Z.T
        found = semidefinite_solution(
            system.toarray() if sp.issparse(system) else system,
            m.y[free] - Z @ (m.X.T @ v),
            np.ones(free.size) if m.bias else None,
            -float(v.sum()),
        )
        if found is None:
            return None
        inside, b = (v[free] + found[0]) * m.y[free], found[1]
        room = OUTSIDE * c[free]
        if not ((inside >= -room) & (inside <= c[free] + room)).all():
            return None
        v[free] = np.clip(inside, 0.0, c[free]) * m.y[free]
        alpha = v * m.y
        w = np.asarray(m.X.T @ v)
        return Polished(w, b, alpha, m.sums_of(alpha, self.rows.loss_of(w, b)))
