"""The containers that arrays are passed in: copies of them, and what of them cannot be read as an
array.
"""

from __future__ import annotations

import zlib
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
    """Return a copy of an array, a sparse matrix, a frame or a tensor; anything else as it is."""
    if sp.issparse(value) or hasattr(value, "to_numpy") or hasattr(value, "__array__"):
        for name in ("copy", "clone"):
            if hasattr(value, name):
                return getattr(value, name)()
    return value


# Numbers of a block of which sums are taken: a prime, so that rows that are exchanged have other
# places in their blocks.
BLOCK = 4093


def digest(values: Any) -> int:
    """Return the CRC-32 of an array or a sparse matrix: of its shape, its type, and its entries in
    their order.
    """
    parts = _parts(values)
    crc = zlib.crc32(f"{values.shape}".encode())
    for part in parts:
        if part.dtype.hasobject:
            crc = zlib.crc32(repr(part.tolist()).encode(), crc)
            continue
        # Numbers longer than double precision have bytes without a meaning.
        array = np.ascontiguousarray(part, dtype=np.float64 if part.dtype.char == "g" else None)
        crc = zlib.crc32(array.view(np.uint8).data, zlib.crc32(array.dtype.str.encode(), crc))
    return crc


def sums_of(values: Any) -> int:
    """Return a number by which an array or a sparse matrix is recognised within a call, in a
    fraction of the time of :func:`digest`.
    """
    parts = _parts(values)
    if any(part.dtype.hasobject or part.dtype.char == "g" for part in parts):
        return digest(values)
    crc = zlib.crc32(f"{values.shape}".encode())
    for part in parts:
        entries = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        whole = entries.size // (8 * BLOCK) * (8 * BLOCK)
        words = entries[:whole].view(np.uint64).reshape(-1, BLOCK)
        for piece in (words.sum(axis=0), words.sum(axis=1), entries[whole:]):
            crc = zlib.crc32(piece.data, crc)
    return crc


def _parts(values: Any) -> tuple[Any, ...]:
    """Return the arrays that hold the entries."""
    if sp.issparse(values):
        rows = sp.csr_array(values)
        return rows.data, rows.indices, rows.indptr
    return (np.asarray(values),)
