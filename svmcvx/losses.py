"""Losses of the signed margin ``u = y f(x)``."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["hinge_power", "hinge_power_conjugate", "slack"]

Floats: TypeAlias = NDArray[np.float64]


def slack(u: Floats) -> Floats:
    r"""Return :math:`\xi = (1-u)_+`."""
    return np.maximum(1.0 - u, 0.0)


def hinge_power(u: Floats, p: float) -> Floats:
    r"""Return the p-norm hinge loss :math:`(1-u)_+^p`, p ≥ 1."""
    return slack(u) ** p


def hinge_power_conjugate(alpha: Floats, c: Floats | float, p: float) -> Floats:
    r"""Return :math:`\sup_{\xi\ge0}\,\alpha\xi - c\,\xi^p` for :math:`\alpha\ge0`, :math:`c>0`.

    For p > 1 it is :math:`c(p-1)(\alpha/(cp))^{\gamma}` with :math:`\gamma = p/(p-1)`, in the form that neither under-
    nor overflows as p → 1; for p = 1 the indicator of :math:`\alpha \le c` (0 or infinity).
    """
    if p == 1:
        return np.where(alpha <= c, 0.0, np.inf)
    with np.errstate(over="ignore"):
        return c * (p - 1.0) * (alpha / (c * p)) ** (p / (p - 1.0))
