"""Losses of the signed margin ``u = y f(x)``, elementwise.

Those that are annotated with ``Any`` take plain numbers and arrays, and bounded ones
(:mod:`svmcvx.certificate.bounded`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, minimum, positive_part, sqrt, square, where


def slack(u: Any) -> Any:
    r"""Return :math:`\xi = (1-u)_+`."""
    return positive_part(1.0 - u)


def hinge_power(u: Any, p: Any) -> Any:
    r"""Return the p-norm hinge loss :math:`(1-u)_+^p`, p ≥ 1."""
    return slack(u) ** p


def hinge_power_conjugate(alpha: Any, c: Any, p: Any) -> Any:
    r"""Return :math:`\sup_{\xi\ge0}\,\alpha\xi - c\,\xi^p` for :math:`\alpha\ge0`, :math:`c>0`."""
    if p == 1:
        return np.where(alpha <= c, 0.0, np.inf)
    if p == 2:
        return square(alpha) / (4.0 * c)
    with np.errstate(over="ignore"):
        return c * (p - 1.0) * (alpha / (c * p)) ** (p / (p - 1.0))


def ramp(u: Any) -> Any:
    r"""Return the ramp loss :math:`\min(2, (1-u)_+)`: 1 at u = 0, constant 2 below u = −1."""
    return minimum(2.0, slack(u))


def zero_one(u: Floats) -> Floats:
    """Return 1 where u < 1, inside the margin or misclassified, else 0."""
    return np.where(u < 1, 1.0, 0.0)


def variance_multipliers(u: Floats, lam1: float, share: Floats) -> Floats:
    r"""Return the derivative :math:`\tau_i` of :math:`\lambda_1\sum_i c_i(u_i-\bar u)^2`."""
    derivative = 2.0 * lam1 * share * (u - float(share @ u))
    return np.asarray(derivative - share * float(derivative.sum()))


def conic_loss(u: Any, gamma: Any, lam: Any) -> Any:
    r"""Return the conic loss, the best convexifiable minorant of :math:`\lambda 1[u<1]`."""
    height = sqrt(lam)
    slope = sqrt(gamma) * slack(u)
    # λ − (√λ − √γξ)², without its cancellation.
    below = minimum(slope, height)
    bounded = isinstance(slope, Bounded)
    flat = slope.lower >= height.upper if bounded else np.asarray(slope >= height)
    return where(flat, lam, below * (2.0 * height - below))
