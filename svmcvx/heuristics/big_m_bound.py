"""How far below 1 a margin can be at an optimum: valid values of M."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.rows import row_norms_above
from svmcvx.heuristics.signed_rows import SignedRows
from svmcvx.kernels.functions import distances_above
from svmcvx.system.deadline import current

__all__ = ["WIDENING", "big_m_bound"]

Floats: TypeAlias = NDArray[np.float64]

# Relative amount by which bounds computed in floating point are enlarged.
WIDENING = 1e-9
# Entries of one block of the matrix of distances.
BLOCK = 1_000_000


def big_m_bound(
    geometry: SignedRows,
    norm_left: Callable[[Floats], Floats],
    *,
    lowest: float,
    all_dropped: float,
) -> Floats:
    """Return for each observation how far its margin can be below `1` at an optimum: valid values
    of M.
    """
    n = geometry.y.size
    M, length = np.zeros(n), row_norms_above(geometry.G)
    for label in np.unique(geometry.y) if geometry.free else (0.0,):
        members = np.flatnonzero(geometry.y == label) if geometry.free else np.arange(n)
        rows = max(1, BLOCK // members.size)
        for start in range(0, members.size, rows):
            part = members[start : start + rows]
            if current().passed():
                # The nearest one alone, at a distance of at most the sum of the lengths.
                left = norm_left(geometry.weight[part])
                far = length[part] + (float(length[members].max()) if geometry.free else 0.0)
                depth = (lowest if geometry.free else 1.0) + np.sqrt(np.maximum(left, 0.0)) * far
                M[part] = np.where(left >= 0, np.maximum(depth, all_dropped), 0.0)
                continue
            apart = distances_above(geometry.G[part], geometry.G[members])
            # An observation comes first among observations at distance 0.
            apart[np.arange(part.size), start + np.arange(part.size)] = -1.0
            order = np.argsort(apart, axis=1, kind="stable")
            for m, near, distance in zip(part, order, apart, strict=True):
                left = norm_left(np.cumsum(geometry.weight[members[near]]))
                radius = np.sqrt(np.maximum(left[:-1], 0.0))
                depth = lowest + radius * distance[near[1:]]
                if not geometry.free:
                    depth = np.minimum(depth, 1.0 + radius * length[m])
                depth = np.where(left[:-1] >= 0, depth, 0.0)
                M[m] = max(float(depth.max(initial=0.0)), all_dropped if left[-1] >= 0 else 0.0)
    return np.where(M > 0, M * (1 + WIDENING) + WIDENING, 0.0)
