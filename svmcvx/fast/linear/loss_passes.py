r"""The losses of linear machines: all that the Newton methods of :mod:`svmcvx.fast.linear.newton`
ask of a loss.

A loss :math:`\ell(z)` of :math:`z = 1 - y(f + b)`, times the weight c of the observation, is seen
through its multiplier :math:`\alpha`, the derivative at z of a smooth function e. For smooth losses
:math:`e = \ell`. For others e is the augmented Lagrangian around a centre a,

.. math:: e(z) = \max_\alpha\; \alpha z - \ell^*(\alpha) - \frac{(\alpha - a)^2}{2\sigma c},

the Moreau envelope of the loss, shifted. A :class:`LinearLoss` says which loss it is; the functions
below tell what it is:

* :func:`prox_one`: the multiplier, its derivative in z, e and the loss;
* :func:`clipped`: the same in short where the multiplier is a clipped linear function of z;
* :func:`conjugate_one`: :math:`\ell^*(\alpha)`;
* :func:`flat_one`: the interval of z on which the multiplier is constant.

A new loss is a kind, its case in each of these functions, and a function that makes its record.

**The envelope for 1 < p < 2.** The multiplier is :math:`c\,p\,r` with the root r of :math:`p r +
\sigma r^{1/(p-1)} = a/c + \sigma z`, a convex increasing function: Newton's method from above
cannot overshoot.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import NamedTuple

from svmcvx.system.compilation import compiled

__all__ = [
    "HINGE",
    "LinearLoss",
    "band",
    "clipped",
    "conjugate_one",
    "flat_one",
    "hinge_power",
    "prox_one",
]

# Kinds of loss: c ξ^p for p ≥ 2; the envelopes for p = 1 and 1 < p < 2; the band of ODM.
POWER, HINGE, ENVELOPE, BAND = 0, 1, 2, 3

ROOT_STEPS = 60
ROOT_TOLERANCE = 4e-16


class LinearLoss(NamedTuple):
    """A loss with its parameters, those of other kinds at their defaults."""

    kind: int
    p: float = 2.0
    C1: float = 1.0
    C2: float = 1.0
    D: float = 0.0

    @property
    def smooth(self) -> bool:
        """Whether the loss itself has a derivative that Newton's method can use."""
        return self.kind in (POWER, BAND)

    @property
    def domain(self) -> tuple[float, float]:
        """Between what the multipliers lie, relative to the weights."""
        return -math.inf if self.kind == BAND else 0.0, 1.0 if self.kind == HINGE else math.inf

    @property
    def quadratic_conjugate(self) -> tuple[float, float, float]:
        r"""D, A and B of a conjugate :math:`D|\alpha| + (A\alpha_+^2 + B\alpha_-^2)/2c` of the
        hinge and of the band.
        """
        return (self.D, 0.5 / self.C1, 0.5 / self.C2) if self.kind == BAND else (0.0, 0.0, 0.0)


def hinge_power(p: float) -> LinearLoss:
    r"""Return the hinge to the power p ≥ 1, :math:`z_+^p`."""
    return LinearLoss(HINGE if p == 1 else ENVELOPE if p < 2 else POWER, p=float(p))


def band(C1: float, C2: float, D: float) -> LinearLoss:
    r"""Return the loss of ODM, :math:`C_1 (z - D)_+^2 + C_2 (-z - D)_+^2`."""
    return LinearLoss(BAND, C1=float(C1), C2=float(C2), D=float(D))


@compiled(inner=True, nogil=True, error_model="numpy")
def _root(nu, sigma, p):
    """Return the root r ≥ 0 of p r + σ r^(1/(p−1)) = ν > 0."""
    power = 1.0 / (p - 1.0)
    # Each term alone bounds the root from above.
    r = min(nu / p, (nu / sigma) ** (p - 1.0))
    for _ in range(ROOT_STEPS):
        t = sigma * r ** (power - 1.0)
        step = (r * (p + t) - nu) / (p + power * t)
        r -= step
        if step <= ROOT_TOLERANCE * r:
            break
    return max(r, 0.0)


@compiled(inner=True, nogil=True, error_model="numpy")
def clipped(loss, sigma):
    r"""Return the slope s and the upper bound t, relative to the weight, of a multiplier
    :math:`\mathrm{clip}(a + c s z, 0, c t)`.
    """
    if loss.kind == HINGE:
        return sigma, 1.0
    if loss.kind == POWER and loss.p == 2.0:
        return 2.0, math.inf
    return 0.0, 0.0


@compiled(inner=True, nogil=True, error_model="numpy")
def prox_one(loss, z, a, c, sigma):
    """Return multiplier, slope, value of the smooth function and loss of one observation, where
    they are not clipped linear.
    """
    p = loss.p
    if loss.kind == POWER:
        if z <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        lower = c * z ** (p - 2.0)
        value = lower * z * z
        return p * lower * z, p * (p - 1.0) * lower, value, value
    if loss.kind == ENVELOPE:
        true = c * z**p if z > 0.0 else 0.0
        share = a / c
        nu = share + sigma * z
        if nu <= 0.0:
            return 0.0, 0.0, -0.5 * c * share * share / sigma, true
        r = _root(nu, sigma, p)
        power = 1.0 / (p - 1.0)
        t = r ** (power - 1.0)
        beta = p * r
        slope = c * p * sigma / (p + sigma * power * t)
        value = c * (beta * z - (p - 1.0) * t * r * r - 0.5 * (beta - share) ** 2 / sigma)
        return c * beta, slope, value, true
    # NaN is on no side, and stays what it is.
    if -loss.D <= z <= loss.D:
        return 0.0, 0.0, 0.0, 0.0
    if z < -loss.D:
        value = c * loss.C2 * (z + loss.D) ** 2
        return 2.0 * c * loss.C2 * (z + loss.D), 2.0 * c * loss.C2, value, value
    value = c * loss.C1 * (z - loss.D) ** 2
    return 2.0 * c * loss.C1 * (z - loss.D), 2.0 * c * loss.C1, value, value


@compiled(inner=True, nogil=True, error_model="numpy")
def conjugate_one(loss, alpha, c):
    """Return ℓ*(α) of one observation with a multiplier in its domain."""
    if loss.kind == HINGE:
        return 0.0
    if loss.kind == BAND:
        return loss.D * abs(alpha) + alpha**2 / (4.0 * c * (loss.C1 if alpha > 0.0 else loss.C2))
    if alpha <= 0.0:
        return 0.0
    ratio = alpha / (c * loss.p)
    return (
        c
        * (loss.p - 1.0)
        * (ratio * ratio if loss.p == 2.0 else ratio ** (loss.p / (loss.p - 1.0)))
    )


@compiled(inner=True, nogil=True, error_model="numpy")
def flat_one(loss, z, a, c, sigma):
    """Return the ends of the interval around z without a slope, of one observation that has none at
    z.
    """
    if loss.kind == BAND:
        return -loss.D, loss.D
    if loss.kind == POWER:
        return -math.inf, 0.0
    low = -a / (c * sigma)
    # The multiplier of the hinge is at its upper bound beyond 1/σ.
    return (low + 1.0 / sigma, math.inf) if loss.kind == HINGE and z > low else (-math.inf, low)
