r"""What a search on a factor of the Gram matrix proves about the kernel as it is.

Mixed-integer programs and enumerations are stated with the rows :math:`L_i` of a factor. Small eigenvalues of K are missing in L,
and K and L have rounding errors.

**Directions that are missing.** Let :math:`E' = K + \tau I - LL' \succeq 0` and :math:`e = \max_i E'_{ii}`. In a larger space
:math:`\varphi_i = (L_i, r_i)` with :math:`\|r_i\|^2 = E'_{ii}`, where the τ adds directions that an optimal w does not use. Its parts
are :math:`(w_1, w_2)`; with :math:`t = \|w_2\|` the margins of :math:`(w_1, b)` in the rows of L are lower by :math:`\sqrt e\,t` at most.
With the price h of a squared norm (1 or ½) and V the optimum with L,

* counting losses: :math:`(w_1, b)/(1 - \sqrt e\,t)` keeps what w keeps, so that the optimum is at least
  :math:`\min_t\,(1-\sqrt e\,t)^2 V + h t^2 = V/(1 + eV/h)`;
* ramp loss: it grows by :math:`C\sum_i s_i\sqrt{e_i}\,t` at most, so that the optimum is at least
  :math:`V - \tfrac12(C\sum_i s_i\sqrt{e_i})^2`.

**Shifted rows.** Rows from which the mean was subtracted have an error of :math:`q_i = u\|x_i\|`, which lowers margins by
:math:`q_i\|w\|`. As the optimum V' is at least :math:`h\|w\|^2`, it is at least :math:`V/(1 + q\sqrt{V/h})^2`; with the ramp loss
:math:`V' + C\sum_i s_iq_i\,\sqrt{2V'} \ge V`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace, KernelSpace
from svmcvx.rounding import SMALLEST, U, inner_error, row_norms_above, smallest_eigenvalue_below, sum_above
from svmcvx.system.abandoned import awaited, may_be_abandoned
from svmcvx.system.deadline import OutOfTime

__all__ = ["FactorError"]

Floats: TypeAlias = NDArray[np.float64]

# Observations up to which the smallest eigenvalue of E is computed; of more it is bounded by a row sum.
EIGENVALUE_ROWS = 1500


@dataclass(frozen=True)
class FactorError:
    """Bounds on what the factor leaves out.

    Attributes
    ----------
    missing : ndarray of shape (n,)
        :math:`E'_{ii}`; 0 where the rows of the factor are the data.
    shift : ndarray of shape (n,)
        :math:`q_i`.
    """

    missing: Floats
    shift: Floats

    @classmethod
    def of(cls, space: FeatureSpace) -> Self:
        """Return that of a feature space."""
        n, zeros = space.data.n, np.zeros(space.data.n)
        if not space.is_linear:
            # The bound on the error of K1 contains the row sums of that of K.
            entries = np.asarray(space.product(np.ones(n)).scores.error)
            L = np.asarray(space.factor)
            try:
                with may_be_abandoned():
                    return cls(_missing(space.block(np.arange(n), np.arange(n)), L, entries), zeros)
            except OutOfTime:
                triangular = isinstance(space, KernelSpace) and space.factorisation.method == "cholesky"
                return cls(_missing_at_most(L, entries) if triangular else np.full(n, math.inf), zeros)
        shift = U * row_norms_above(space.X) * (1.0 + 8 * U) if space.centre.any() else zeros
        if space.factor_is_data:
            return cls(zeros, shift)
        X = space.X
        product = X @ X.T
        norms = row_norms_above(X)
        entries = inner_error(X.shape[1], norms * sum_above(norms)) * (1.0 + 8 * U)
        dense = product.toarray() if sp.issparse(product) else product
        return cls(_missing((dense + dense.T) / 2, np.asarray(space.factor), entries * (1.0 + 4 * U)), shift)

    def counting(self, value: float, half: float) -> float:
        """Return the lower bound with counted losses and the price `half` of a squared norm."""
        if not 0.0 < value < math.inf:
            return value
        missing, shift = float(self.missing.max(initial=0.0)), float(self.shift.max(initial=0.0))
        if missing > 0.0:
            value = value / (1.0 + missing * value / half) * (1.0 - 16 * U) if math.isfinite(missing) else 0.0
        if shift > 0.0:
            value = value / (1.0 + shift * math.sqrt(value / half)) ** 2 * (1.0 - 16 * U)
        return value

    def ramp(self, value: float, price: Floats) -> float:
        """Return the lower bound with ramp losses of these prices."""
        if not 0.0 < value < math.inf:
            return value
        lost = sum_above(price * np.sqrt(self.missing)) * (1.0 + 8 * U) if self.missing.any() else 0.0
        value -= 0.5 * lost * lost * (1.0 + 8 * U)
        if not value > 0.0:
            return 0.0
        if lost > 0.0:
            value *= 1.0 - 4 * U
        if self.shift.any():
            A = math.sqrt(2.0) * sum_above(price * self.shift) * (1.0 + 8 * U)
            value = (2.0 * value / (A + math.sqrt(A * A + 4.0 * value))) ** 2 * (1.0 - 32 * U)
        return value


def _missing(K: Floats, L: Floats, entries: Floats) -> Floats:
    r"""Return bounds on :math:`E'_{ii}`, given bounds on the row sums of the errors of a symmetric K."""
    E = K - awaited(np.matmul, L, L.T)
    E = (E + E.T) / 2
    if not np.isfinite(E).all():
        return np.full(K.shape[0], math.inf)
    size = np.abs(L)
    error = inner_error(L.shape[1] + 1, size @ size.sum(axis=0)) * (1.0 + 8 * U)
    error = error + 4 * U * (np.abs(K).sum(axis=1) + np.abs(E).sum(axis=1)) * (1.0 + 2 * K.shape[0] * U)
    below = -float(np.abs(E).sum(axis=1).max()) * (1.0 + 2 * K.shape[0] * U)
    if 0 < K.shape[0] <= EIGENVALUE_ROWS and below < 0.0:
        below = max(below, smallest_eigenvalue_below(E, float(awaited(np.linalg.eigvalsh, E)[0])))
    tau = max(-below, 0.0) + float((error + entries).max()) * (1.0 + 8 * U)
    return np.asarray((np.maximum(np.diagonal(E), 0.0) + tau) * (1.0 + 8 * U))


def _missing_at_most(L: Floats, entries: Floats) -> Floats:
    r"""Return larger bounds on :math:`E'_{ii}` than :func:`_missing` does, in much less time, for a factor by Cholesky's method.

    :math:`|K - LL'| \le \gamma_{n+1}|L||L|'` for the matrix that was factored (Higham, Accuracy and Stability of Numerical
    Algorithms, theorem 10.3), whose rows sum to a bound on its norm and on its diagonal.
    """
    n, size = L.shape[0], np.abs(L)
    growth = (n + 4) * U
    if growth > 0.01:
        return np.full(n, math.inf)
    sums = growth / (1.0 - growth) * (size @ size.sum(axis=0)) * (1.0 + 8 * n * U) + n * SMALLEST
    tau = float((sums + entries).max()) * (1.0 + 8 * U)
    return np.asarray((sums + tau) * (1.0 + 8 * U))
