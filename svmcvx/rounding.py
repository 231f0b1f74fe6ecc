"""Names of :mod:`svmcvx.core` under which statements that bound their own rounding know them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import ELEMENTARY, ULPS, U, down, sum_above, sum_below, up
from svmcvx.core.definite import largest_eigenvalue_above, smallest_eigenvalue_below
from svmcvx.core.exactly import (
    LARGEST_BITS,
    SMALLEST,
    SUM_BITS,
    BalancePlan,
    ClassSums,
    balance_plan,
    balanced,
    class_sums,
    clipped,
    dot_exactly,
    grid_imbalance,
    grid_units,
    imbalance,
    nearest_sum,
    product_below,
    take_units,
    unit_sums,
)
from svmcvx.core.rows import PART, UNDERFLOW, Rows, inner_error, norm_above, row_norms_above

__all__ = [
    "ELEMENTARY",
    "LARGEST_BITS",
    "PART",
    "SMALLEST",
    "SUM_BITS",
    "ULPS",
    "UNDERFLOW",
    "BalancePlan",
    "ClassSums",
    "U",
    "balance_plan",
    "balanced",
    "class_sums",
    "clipped",
    "dot_exactly",
    "down",
    "grid_imbalance",
    "grid_units",
    "imbalance",
    "inner_error",
    "largest_eigenvalue_above",
    "nearest_sum",
    "norm_above",
    "product_below",
    "row_norms_above",
    "smallest_eigenvalue_below",
    "sum_above",
    "sum_below",
    "take_units",
    "unit_sums",
    "up",
    "weighted_rows",
]

Floats: TypeAlias = NDArray[np.float64]


def weighted_rows(X: Any, v: Floats, norms: Floats) -> tuple[Floats, float]:
    r"""Return :math:`X'v` and a bound on the norm of its error, from numbers that are at least the norms of the rows."""
    found = Rows(X, norms).combined(v)
    return found.value, found.distance
