"""Values of M as users pass them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace

__all__ = ["check_total_price", "explicit_M"]

Floats: TypeAlias = NDArray[np.float64]


def check_total_price(price: float, weight: Floats, name: str) -> None:
    """Raise a :class:`DataError` unless four times the price of all observations is a number, with
    room for squares of its root.
    """
    with np.errstate(over="ignore"):
        total = 4.0 * price * float(weight.sum())
    if not total <= 1e300:
        raise DataError(
            f"{name} times the sum of the weights is {total / 4.0:.3g}, where arithmetic overflows;"
            f" make {name} smaller"
        )


def explicit_M(M: Any, space: FeatureSpace, *, optional: bool) -> Floats | None:
    """Return the user's values of M, one for each observation of positive weight; None for "auto"
    (and for None where that is allowed).
    """
    if (isinstance(M, str) and M == "auto") or (M is None and optional):
        return None
    data = space.data
    if isinstance(M, str) or M is None or np.ndim(M) == 0:
        words = "'auto', a positive number or one an observation"
        if isinstance(M, str) or M is None:
            raise DataError(f"M must be {words}, got {M!r}")
        return np.full(data.n, check_number(M, "M", low=0, open_low=True))
    values = np.asarray(M)
    if values.dtype.kind not in "iuf" or values.shape not in ((data.rows,), (data.n,)):
        raise DataError(
            f"M must hold one number an observation: expected shape ({data.rows},), got"
            f" {values.shape}"
        )
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError(
            "M must be finite and non-negative; use M='auto' for values that are valid by"
            " construction"
        )
    return values[data.index] if values.shape == (data.rows,) else values
