"""The containers that arrays are passed in: copies of them, and what of them cannot be read as an
array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError


def as_array(value: Any, name: str) -> NDArray[Any]:
    """Return a dense container as an array; the data type does not change."""
    if np.ma.is_masked(value):
        raise DataError(
            f"{name} is a masked array with {np.count_nonzero(np.ma.getmask(value))} masked"
            " entries, whose values would count; drop these observations, or impute values with"
            f" {name}.filled(...)"
        )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"{name} cannot be read as an array ({error}); pass an array, with rows of equal length"
        ) from None
    if array.ndim == 0 and array.dtype == object and hasattr(value, "collect"):
        raise DataError(
            f"{name} is a {type(value).__name__}, which holds no rows yet; pass {name}.collect()"
        )
    return array


def owned(value: Any) -> Any:
    """Return a copy of an array, a sparse matrix, a data frame or a tensor; anything else as it is."""
    if sp.issparse(value) or hasattr(value, "to_numpy") or hasattr(value, "__array__"):
        for name in ("copy", "clone"):
            if hasattr(value, name):
                return getattr(value, name)()
    return value
