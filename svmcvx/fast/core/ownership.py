"""The data of a call belong to it: what becomes of the caller's array meanwhile changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from svmcvx.containers import as_array, owned
from svmcvx.data import CodedLabels
from svmcvx.digests import sums_of
from svmcvx.errors import DataError
from svmcvx.row_blocks import in_blocks
from svmcvx.system.memory import SMALL_ENTRIES

__all__ = ["owned_data"]


@contextmanager
def owned_data(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield data that nothing else changes: small arrays are copied; others as they are, to be
    compared with themselves at the end.
    """
    if not _read_in_place(X):
        yield X, y
        return
    numbers = _numbers(X)
    if (numbers.nnz if sp.issparse(numbers) else numbers.size) <= SMALL_ENTRIES:
        own = owned(X)
        own = numbers.copy() if own is X else own
        yield own, replace(y, features=own) if isinstance(y, CodedLabels) and y.features is X else y
        return
    before = sums_of(numbers)
    try:
        yield X, y
    except (ArithmeticError, IndexError, ValueError):
        _require_same(X, before)
        raise
    _require_same(X, before)


def _read_in_place(X: Any) -> bool:
    """Whether validation may use the array without a copy; other arrays are copied."""
    if in_blocks(X):
        return False
    if sp.issparse(X):
        return bool(X.format == "csr" and X.dtype == np.float64)
    if isinstance(X, np.ndarray):
        return bool(X.dtype == np.float64 and X.flags.c_contiguous)
    return hasattr(X, "to_numpy") or hasattr(X, "__array__")


def _numbers(X: Any) -> Any:
    return X if sp.issparse(X) else as_array(X, "X")


def _require_same(X: Any, before: int) -> None:
    if sums_of(_numbers(X)) != before:
        raise DataError(
            "X was changed while it was solved, by a callback or another thread: there is no answer"
            " for it; pass a copy"
        )
