r"""The ADMM of the l0-norm hinge SVM of [LinYaoLiu], on a Gram matrix or on a factor of it.

With the slack :math:`u = 1 - \mathrm{diag}(y)(Kc + b)`, its multiplier λ and the penalty σ, one
iteration is

.. math::
    z &= 1 - \mathrm{diag}(y)(Kc + b) - \lambda/\sigma, \qquad \Gamma = \{i : 0 < z_i \le \sqrt{2Cs_i/\sigma}\},\\
    u &= z \text{ with } u_\Gamma = 0,\\
    (I + \sigma K)\,c &= -\sigma\,\mathrm{diag}(y)(u - 1 + yb + \lambda/\sigma) =: r,\\
    b &= y'(1 - u - \mathrm{diag}(y)Kc - \lambda/\sigma)/n,\\
    \lambda_\Gamma &= \lambda_\Gamma + \iota\sigma(u - 1 + \mathrm{diag}(y)(Kc + b))_\Gamma, \qquad \lambda_i = 0 \text{ elsewhere.}

As :math:`\sigma Kc = r - c`, an iteration takes one product: with :math:`(I + \sigma K)^{-1}`, or
twice with an n × r matrix P where :math:`K = FF'` and :math:`P = F\,\mathrm{chol}(I + \sigma
F'F)^{-\prime}`, for then :math:`Kc = PP'r`.

It stops when the residuals of proximal stationarity at the step 1/σ are small:

.. math:: \max\Big\{\frac{\|c + \mathrm{diag}(y)\lambda\|}{1 + \|c\|},\; \frac{|y'\lambda|}{1 + \|\lambda\|},\;
    \frac{\|u - 1 + \mathrm{diag}(y)(Kc + b)\|}{\sqrt n},\;
    \frac{\|u - \mathrm{prox}(u - \lambda/\sigma)\|}{1 + \|u\|}\Big\} < \mathrm{tol}.

**Source.** [LinYaoLiu], Algorithm 4.1 and eq. (5.3); the residuals are normed differently here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.fast.core.pivoted_cholesky import PartialFactor
from svmcvx.fast.indicator.l0_admm_passes import iterate

__all__ = ["Iterate", "PenalisedSystem", "admm", "low_rank"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Iterations between two looks at the clock.
CHUNK = 50
# Share of the trace of the Gram matrix that a factor may leave out.
LEFT_OUT = 1e-12


class PenalisedSystem(NamedTuple):
    """The system of one σ: the matrix P' of shape (r, n), or the inverse of I + σK."""

    thin: bool
    matrix: Floats
    sigma: float

    @classmethod
    def of(
        cls, sigma: float, *, K: Floats | None = None, F: Floats | None = None
    ) -> PenalisedSystem:
        """Return the system of a Gram matrix or of a factor of it."""
        if F is not None:
            small = sigma * (F.T @ F)
            small[np.diag_indices(F.shape[1])] += 1.0
            triangle = sl.cholesky(small, lower=True, check_finite=False)
            P = sl.solve_triangular(triangle, F.T, lower=True, check_finite=False)
            return cls(True, np.ascontiguousarray(P), sigma)
        assert K is not None  # noqa: S101
        system = sigma * K
        system[np.diag_indices(K.shape[0])] += 1.0
        factor, _ = sl.lapack.dpotrf(system, lower=1, overwrite_a=1)
        inverse, _ = sl.lapack.dpotri(factor, lower=1, overwrite_c=1)
        lower = np.tril(inverse)
        return cls(False, np.ascontiguousarray(lower + np.tril(lower, -1).T), sigma)


class Iterate(NamedTuple):
    """The last and the best iterate of the ADMM."""

    c: Floats
    scores: Floats
    b: float
    u: Floats
    iterations: int
    residual: float
    kept: Bools


def low_rank(
    diagonal: Floats, column: Callable[[int], Floats], rank: int, left_out: float = LEFT_OUT
) -> Floats | None:
    """Return a factor F with FF' near K by Cholesky with pivots, or None if `rank` columns are not
    enough.
    """
    # The trace alone decides, however small the largest entry has become.
    partial = PartialFactor(column, diagonal, negligible=0.0)
    partial.grow(rank, lambda: partial.missing <= min(left_out, LEFT_OUT))
    return partial.factor if partial.missing <= left_out else None


def admm(
    system: PenalisedSystem,
    y: Floats,
    price: Floats,
    *,
    iota: float,
    tol: float,
    max_iter: int,
    stop: Callable[[], bool],
) -> Iterate:
    """Run the ADMM from c = 0, b = 0, λ = 0."""
    n = y.size
    c, f, u, lam, r = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    number, kept = np.array([0.0, math.inf, math.inf]), np.zeros(n, dtype=np.bool_)
    upper_bound = np.sqrt(2.0 * price / system.sigma)
    turned = np.ascontiguousarray(system.matrix.T)
    z, inner = np.empty(n), np.empty(turned.shape[1])
    done = 0
    while done < max_iter:
        steps = min(CHUNK, max_iter - done)
        taken = iterate(
            system.thin,
            system.matrix,
            turned,
            y,
            upper_bound,
            system.sigma,
            iota,
            tol,
            price,
            steps,
            c,
            f,
            u,
            lam,
            r,
            z,
            inner,
            number,
            kept,
        )
        done += taken
        if taken < steps or number[1] < tol or stop():
            break
    return Iterate(c, f, float(number[0]), u, done, float(number[1]), kept)
