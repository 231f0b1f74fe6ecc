"""Batches of the ODM and of the pSVM at p = 2, whose losses are piecewise quadratic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.grids.quadratic_passes import follow
from svmcvx.fast.grids.rows import Answers, Rows
from svmcvx.formulations import margin as psvm
from svmcvx.formulations import margin_distribution as odm
from svmcvx.system.deadline import current
from svmcvx.system.threads import single_blas_thread

__all__ = ["Band", "SquaredHinge", "solve_bands"]

Floats: TypeAlias = NDArray[np.float64]

# Multiplications between two looks at the clock: about a tenth of a second.
WORK = 2e8
# Newton steps that a setting takes on its way from its neighbour; only for the estimate of the
# work.
EXPECTED_STEPS = 3
# Eigenvalues of a kernel matrix below this share of the largest are left out of its factor. The gap
# is that of the whole matrix.
NEGLIGIBLE = 1e-8


class Band(NamedTuple):
    """A setting of the ODM."""

    C1: float
    C2: float
    D: float

    def numbers(self) -> tuple[float, float, float, float]:
        """Return both ends of the band and the weights below and above it."""
        return 1.0 - self.D, 1.0 + self.D, self.C1, self.C2

    def share(self, weight: Floats) -> Floats:
        """Return the weights of single losses."""
        return np.asarray(weight / weight.sum())

    def ends(self, theta: Floats, u: Floats, norm: float, share: Floats) -> tuple[float, float]:
        """Return the dual and the primal objective."""
        lower = odm.dual_objective(theta, norm, C1=self.C1, C2=self.C2, D=self.D, share=share)
        return float(lower), float(
            odm.objective(norm, u, C1=self.C1, C2=self.C2, D=self.D, share=share)
        )


class SquaredHinge(NamedTuple):
    """A setting of the pSVM at p = 2."""

    C: float

    def numbers(self) -> tuple[float, float, float, float]:
        """Return the same for a band without an upper end."""
        return 1.0, math.inf, self.C, 0.0

    def share(self, weight: Floats) -> Floats:
        """Return the weights of single losses."""
        return weight

    def ends(self, theta: Floats, u: Floats, norm: float, share: Floats) -> tuple[float, float]:
        """Return the dual and the primal objective."""
        lower = psvm.dual_objective(theta, norm, C=self.C, p=2.0, weight=share)
        return float(lower), float(psvm.objective(norm, u, C=self.C, p=2.0, weight=share))


@single_blas_thread()
def solve_bands(rows: Rows, settings: Sequence[Band | SquaredHinge]) -> Answers | None:
    """Solve settings, each from the one before it; None if the deadline passes."""
    L, T = rows.coordinates if rows.kernel is None else (_factor(rows.gram), None)
    ridge = np.ones(L.shape[1])
    if rows.intercept == "free":
        L, ridge = np.column_stack([L, np.ones(len(L))]), np.append(ridge, 0.0)
    Z = np.ascontiguousarray(L * rows.y[:, None])
    (n, d), k = Z.shape, len(settings)
    share = settings[0].share(rows.weight)
    numbers = np.array([setting.numbers() for setting in settings])
    state = np.zeros(n, dtype=np.int8), np.zeros((2, d, d)), np.zeros((2, d)), np.zeros(d)
    points, theta, values, gaps = np.empty((k, d)), np.empty((k, n)), np.empty(k), np.empty(k)
    at_once = max(1, int(WORK / (EXPECTED_STEPS * (d**3 / 6 + 2 * d**2 + 2 * n * d))))
    for first in range(0, k, at_once):
        if current().passed():
            return None
        last = min(first + at_once, k)
        follow(Z, share, ridge, numbers, first, last, *state, points, theta, values, gaps)
    free = points[:, -1] if rows.intercept == "free" else np.zeros(k)
    if T is not None:
        scores = points[:, : T.shape[1]] @ T.T + free[:, None]
    else:
        v = theta * rows.y
        f = v @ rows.gram
        for place, setting in enumerate(settings):
            norm, u = float(v[place] @ f[place]), rows.y * (f[place] + free[place])
            lower, upper = setting.ends(theta[place], u, norm, share)
            values[place] = upper
            gaps[place] = max(gaps[place], (upper - lower) / upper if upper > 0 else math.inf)
        scores = v @ rows.cross.T + free[:, None]
    return Answers(scores, values, gaps, np.count_nonzero(theta, axis=1))


def _factor(K: Floats) -> Floats:
    """Return L with LL' = K up to rounding, in as few columns as that takes."""
    values, vectors = np.linalg.eigh(K)
    kept = values > NEGLIGIBLE * values[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
