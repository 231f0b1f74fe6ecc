r"""What a search on a factor of the Gram matrix proves about the kernel as it is.

Mixed-integer programs and enumerations are stated with the rows :math:`L_i` of a factor. Small
eigenvalues of K are missing in L, and K and L have rounding errors.

**Directions that are missing.** Let :math:`E' = K + \tau I - LL' \succeq 0` and :math:`e = \max_i
E'_{ii}`. In a larger space :math:`\varphi_i = (L_i, r_i)` with :math:`\|r_i\|^2 = E'_{ii}`, where
the τ adds directions that an optimal w does not use. Its parts are :math:`(w_1, w_2)`; with
:math:`t = \|w_2\|` the margins of :math:`(w_1, b)` in the rows of L are lower by :math:`\sqrt e\,t`
at most. With the price h of a squared norm (1 or ½) and V the optimum with L,

* counting losses: :math:`(w_1, b)/(1 - \sqrt e\,t)` keeps what w keeps, so that the optimum is at
  least :math:`\min_t\,(1-\sqrt e\,t)^2 V + h t^2 = V/(1 + eV/h)`;
* ramp loss: it grows by :math:`C\sum_i s_i\sqrt{e_i}\,t` at most, so that the optimum is at least
  :math:`V - \tfrac12(C\sum_i s_i\sqrt{e_i})^2`. With the same multiple as above, 1 − u grows by the
  factor :math:`1/(1 - \sqrt e\,t)` at most, and so do its positive part and the loss: :math:`V/(1 +
  2eV)` is a bound, too. It is the better one where C is large.

**Shifted rows.** Rows from which the mean was subtracted have an error of :math:`q_i = u\|x_i\|`,
which lowers margins by :math:`q_i\|w\|`. As the optimum V' is at least :math:`h\|w\|^2`, it is at
least :math:`V/(1 + q\sqrt{V/h})^2`; with the ramp loss :math:`V' + C\sum_i s_iq_i\,\sqrt{2V'} \ge
V`, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, exact, positive_part, roundings, sqrt, square, total
from svmcvx.certificate.exactly import SMALLEST
from svmcvx.certificate.rows import (
    LARGEST_GROWTH,
    backward_error,
    inner_error,
    row_norms_above,
    smallest_eigenvalue_below,
    sums_above,
)
from svmcvx.feature_space import FeatureSpace, KernelSpace
from svmcvx.kernels.bounded_gram import BoundedGram
from svmcvx.system.cancellation import interruptible, run_with_deadline
from svmcvx.system.deadline import OutOfTime

__all__ = ["FactorError"]

Floats: TypeAlias = NDArray[np.float64]

# Observations up to which the smallest eigenvalue of E is computed; of more it is bounded by a row
# sum.
EIGENVALUE_ROWS = 1500


@dataclass(frozen=True)
class FactorError:
    """Bounds on what the factor leaves out."""

    missing: Floats
    shift: Floats

    @classmethod
    def of(cls, space: FeatureSpace) -> Self:
        """Return that of a feature space."""
        n, zeros = space.data.n, np.zeros(space.data.n)
        if not space.is_linear:
            entries = _row_errors(space)
            L, diagonal = np.asarray(space.factor), space.diagonal_above()
            try:
                with interruptible():
                    return cls(
                        _missing(space.block(np.arange(n), np.arange(n)), L, entries, diagonal),
                        zeros,
                    )
            except OutOfTime:
                triangular = (
                    isinstance(space, KernelSpace) and space.factorisation.method == "cholesky"
                )
                return cls(
                    _missing_at_most(L, entries, diagonal) if triangular else np.full(n, math.inf),
                    zeros,
                )
        shift = roundings(1) * row_norms_above(space.X) if space.centre.any() else zeros
        if space.factor_is_data:
            return cls(zeros, shift)
        X, norms = space.X, exact(row_norms_above(space.X))
        product = X @ X.T
        # Each entry is an inner product, and the mean of two.
        entries = inner_error(X.shape[1] + 4, (norms * total(norms)).upper)
        dense = product.toarray() if sp.issparse(product) else product
        return cls(
            _missing(
                (dense + dense.T) / 2, np.asarray(space.factor), entries, space.diagonal_above()
            ),
            shift,
        )

    def counting(self, value: float, half: float) -> float:
        """Return the lower bound with counted or ramp losses and the price `half` of a squared
        norm.
        """
        if not 0.0 < value < math.inf:
            return value
        missing, shift = float(self.missing.max(initial=0.0)), float(self.shift.max(initial=0.0))
        bound = exact(value)
        if missing > 0.0:
            bound = bound / (1.0 + missing * bound / half) if math.isfinite(missing) else exact(0.0)
        if shift > 0.0:
            bound = bound / square(1.0 + shift * sqrt(bound / half))
        return max(bound.lower_end, 0.0)

    def ramp(self, value: float, price: Bounded) -> float:
        """Return the lower bound with ramp losses of these prices, or of one price for all."""
        if not 0.0 < value < math.inf:
            return value
        bound, scaled = exact(value), self.counting(value, 0.5)
        if self.missing.any():
            bound = exact(
                (bound - 0.5 * square(total(price * sqrt(exact(self.missing))))).lower_end
            )
        if not bound.value > 0.0:
            return scaled
        if self.shift.any():
            A = sqrt(exact(2.0)) * total(price * self.shift)
            bound = square(2.0 * bound / (A + sqrt(square(A) + 4.0 * bound)))
        return max(bound.lower_end, scaled)


def _row_errors(space: FeatureSpace) -> Floats:
    """Return bounds on the row sums of the errors of a Gram matrix."""
    if isinstance(space, KernelSpace) and space.keep_gram:
        return BoundedGram(space.gram, space.gram_error).row_errors
    # The bound on the error of K1 contains them.
    return np.asarray(space.point(np.ones(space.data.n)).scores.error)


def _missing(K: Floats, L: Floats, entries: Floats, diagonal: Floats) -> Floats:
    r"""Return bounds on :math:`E'_{ii}`, given bounds on the row sums of the errors of a symmetric
    K, and on its exact diagonal.
    """
    E = K - run_with_deadline(np.matmul, L, L.T)
    E = (E + E.T) / 2
    if not np.isfinite(E).all():
        return np.full(K.shape[0], math.inf)
    # The product, the difference and the mean of two round.
    rounded = inner_error(L.shape[1] + 1, _row_sums_of_product(np.abs(L)))
    whole, sizes = (sums_above(np.abs(A).sum(axis=1), A.shape[0]) for A in (K, E))
    errors = (roundings(4) * (exact(whole) + sizes) + rounded + entries).upper
    below = -float(sizes.max())
    if 0 < K.shape[0] <= EIGENVALUE_ROWS and below < 0.0:
        below = max(
            below, smallest_eigenvalue_below(E, float(run_with_deadline(np.linalg.eigvalsh, E)[0]))
        )
    return _diagonal_of_rest(L, diagonal, max(-below, 0.0) + exact(float(errors.max())))


def _diagonal_of_rest(L: Floats, diagonal: Floats, tau: Bounded) -> Floats:
    """Return numbers that are at least the diagonal of K + τI − LL'."""
    lengths = np.asarray(np.einsum("ij,ij->i", L, L))
    rest = exact(diagonal) - Bounded(lengths, inner_error(L.shape[1], lengths))
    return np.asarray((positive_part(rest) + tau).upper)


def _row_sums_of_product(size: Floats) -> Floats:
    """Return numbers that are at least the row sums of ``size size'`` of a matrix without negative
    entries.
    """
    n, r = size.shape
    return np.asarray(sums_above(size @ sums_above(size.sum(axis=0), n), r))


def _missing_at_most(L: Floats, entries: Floats, diagonal: Floats) -> Floats:
    r"""Return bounds on :math:`E'_{ii}` in much less time than :func:`_missing`, for a factor by
    Cholesky's method.

    :math:`|K - LL'| \le \gamma_{n+1}|L||L|'` for the matrix that was factored (Higham, Accuracy and
    Stability of Numerical Algorithms, theorem 10.3), whose rows sum to a bound on its norm.
    """
    n = L.shape[0]
    if roundings(n + 4) > LARGEST_GROWTH:
        return np.full(n, math.inf)
    errors = (
        backward_error(n + 4) * _row_sums_of_product(np.abs(L)) + entries + n * SMALLEST
    ).upper
    return _diagonal_of_rest(L, diagonal, exact(float(errors.max())))
