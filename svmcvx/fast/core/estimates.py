"""What a solver expects of rounding, to stop in time; no bound of a certificate rests on it."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["estimated_rounding"]

EPS = float(np.finfo(np.float64).eps)


def estimated_rounding(terms: int) -> float:
    """Return the relative error to be expected of a sum of `terms` products: (4 + √terms) machine epsilons."""
    return EPS * (4.0 + math.sqrt(terms))
