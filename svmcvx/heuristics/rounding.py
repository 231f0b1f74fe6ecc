r"""Rounding of the conic relaxation: a good solution of the 0-1 problem from a solution of the
semidefinite program.

.. math:: \min_w\; \|w\|^2 + \lambda \sum_i s_i\, 1[u_i < 1], \qquad\text{or}\qquad
    \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\, 1[u_i < 1] \le k.

For a given set of observations that are kept (margin at least 1) the best point is the one of least
norm (:mod:`svmcvx.heuristics.least_norm`). The heuristics differ in the sets that they try.

Source of the problem and of its relaxation: [CepedaGomezHan].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.heuristics.least_norm import least_norm
from svmcvx.heuristics.signed_rows import never
from svmcvx.heuristics.soft_margin import squared_hinge
from svmcvx.kernels import row_norms

__all__ = ["ON_MARGIN", "round_relaxation"]

Floats: TypeAlias = NDArray[np.float64]

# Number of prefixes of one ordering that are refitted, largest number of sweeps, and of exchanges
# in one sweep.
KEPT_SIZES = 40
ROUNDING_SWEEPS = 10
EXCHANGES = 100
# Steps in which the observations with the lowest margins are dropped, and the weight of the squared
# hinge that ranks them.
PEELINGS = 100
PEELING_WEIGHT = 100.0
# Distance above 1 up to which a margin counts as equal to 1.
ON_MARGIN = 1e-7


@dataclass
class _RoundingSearch:
    """Search for a good solution of the 0-1 problem."""

    A: Floats
    s: Floats
    lam: float | None
    k: float
    scale: float
    w: Floats
    value: float
    stop: Callable[[], bool] = never

    def missed_weight(self, u: Floats) -> float:
        """Weight of the observations with a margin below 1."""
        return math.fsum(self.s[u < 1.0].tolist())

    def objective_values(self, norm: Any, missed: Any) -> Any:
        """Objective of points of squared norm `norm` with observations of weight `missed` below the
        margin.
        """
        if self.lam is not None:
            return norm + self.lam * missed
        return np.where(missed <= self.k * (1.0 + _sum_error(self.s.size)), norm, np.inf)

    def update_incumbent(self, w: Floats) -> None:
        """Set the incumbent to `w` if its objective is smaller."""
        missed = self.missed_weight(self.A @ w)
        if self.lam is None and missed > self.k:
            return
        norm = float(w @ w) / self.scale**2
        value = float(self.objective_values(norm, missed))
        if value < self.value:
            self.w, self.value = w, value

    def stretch(self, w: Floats) -> None:
        """Update the incumbent with the best positive multiple of a direction, which makes one of
        the margins equal to 1.
        """
        u = self.A @ w
        positive = u[u > 0]
        if positive.size == 0:
            return
        order = np.sort(positive)[::-1]
        weight = self.s[u > 0][np.argsort(-positive, kind="stable")]
        missed = float(self.s.sum()) - np.cumsum(weight)
        with np.errstate(divide="ignore", over="ignore"):
            norm = (float(np.linalg.norm(w)) / self.scale / order) ** 2
        values = self.objective_values(norm, missed)
        best = int(np.argmin(values))
        if math.isfinite(values[best]):
            self.update_incumbent(_scaled_up(self.A, w / order[best]))

    def refit(self, kept: NDArray[np.intp]) -> bool:
        """Update the incumbent with the least-norm point whose margins are at least 1 on these
        observations; False if there is none.
        """
        found = None if self.stop() else least_norm(self.A[kept], None)
        if found is None:
            return False
        self.update_incumbent(_scaled_up(self.A, found.w))
        return True

    def peel(self) -> None:
        """Drop the lowest margins of an SVM with squared hinge, a few at a time, and update the
        incumbent with each point.
        """
        kept = np.arange(self.A.shape[0])
        chunk = max(1, kept.size // PEELINGS)
        price, w = np.ones(self.A.shape[1]), np.zeros(self.A.shape[1])
        while kept.size > chunk and not self.stop():
            s = self.s[kept]
            u, _, w = squared_hinge(self.A[kept], price, s / s.max(), PEELING_WEIGHT, w, self.stop)
            self.stretch(w)
            order = np.argsort(u, kind="stable")
            left = np.sort(kept[order[chunk:]])
            over = self.lam is None and float(self.s.sum() - self.s[left].sum()) > self.k
            if (over or u[order[0]] > 0) and (self.refit(kept) or over):
                break
            kept = left

    def exchange(self) -> None:
        """Drop an observation on the margin, add one below it, or exchange two, as long as the
        incumbent improves.
        """
        for _ in range(ROUNDING_SWEEPS):
            before = self.value
            u = self.A @ self.w
            kept, missed = np.flatnonzero(u >= 1.0), np.flatnonzero(u < 1.0)
            tight = kept[u[kept] <= 1.0 + ON_MARGIN]
            near = missed[np.argsort(-u[missed], kind="stable")]
            neighbours = itertools.chain(
                (kept[kept != row] for row in tight),
                (np.append(kept, row) for row in near),
                (np.append(kept[kept != out], row) for row, out in itertools.product(near, tight)),
            )
            for neighbour in itertools.islice(neighbours, EXCHANGES):
                self.refit(neighbour)
            if not self.value < before or self.stop():
                break


def _sum_error(terms: int) -> float:
    """Typical relative error of a sum of products; the checker uses larger, proved bounds."""
    return EPS * (4.0 + math.sqrt(terms))


def _scaled_up(A: Floats, w: Floats) -> Floats:
    """Scale a point up so that margins of 1 exceed 1 by more than the rounding error of the
    products ``A @ w``.
    """
    size = max(1.0, float(np.linalg.norm(w)))
    return w * (1.0 + 4.0 * _sum_error(w.size) * float(row_norms(A).max()) * size)


def round_relaxation(
    space: FeatureSpace,
    w: Floats,
    z: Floats,
    *,
    lam: float | None = None,
    k: float | None = None,
    stop: Callable[[], bool] = never,
) -> tuple[Floats, float]:
    """Round a solution of the relaxation to one of the 0-1 problem."""
    if (lam is None) == (k is None):
        raise DataError(
            "round_relaxation takes exactly one of lam and k; pass lam for the penalised form,"
            " else k"
        )
    data = space.data
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    norms = row_norms(L)
    scale = float(np.sqrt(np.mean(norms**2))) or 1.0
    A = L * (data.y / scale)[:, None]
    start = np.zeros(L.shape[1])
    search = _RoundingSearch(
        A, data.weight, lam, math.inf if k is None else k, scale, start, math.inf, stop
    )
    search.update_incumbent(start)
    direction = np.asarray(w, dtype=np.float64) * scale
    search.stretch(direction)
    u = A @ direction
    for order in (np.lexsort((-u, z)), np.argsort(-u, kind="stable")):
        _refit_prefixes(search, order)
    search.peel()
    for _ in range(ROUNDING_SWEEPS):
        before = search.value
        search.stretch(search.w)
        _refit_prefixes(search, np.argsort(-(A @ search.w), kind="stable"))
        if not search.value < before:
            break
    search.exchange()
    return search.w / scale, search.value


def _refit_prefixes(search: _RoundingSearch, order: NDArray[np.intp]) -> None:
    """Refit prefixes of an ordering: the smallest with missed weight ≤ k, or a grid of sizes,
    refined around the best.
    """
    n = order.size
    total = np.cumsum(search.s[order])
    if search.lam is None:
        smallest = int(np.searchsorted(total, (total[-1] - search.k) * (1.0 - EPS * n))) + 1
        search.refit(order[: min(max(smallest, 1), n)])
        return
    sizes = np.unique(np.linspace(1, n, min(n, KEPT_SIZES)).round().astype(int))
    best_size, best_value = 0, search.value
    for size in sizes:
        if not search.refit(order[:size]):
            break
        if search.value < best_value:
            best_size, best_value = int(size), search.value
    if best_size:
        # All sizes between the neighbours of the best one on the grid.
        step = max(1, n // KEPT_SIZES)
        for size in range(max(1, best_size - step + 1), min(n, best_size + step)):
            if size not in sizes and not search.refit(order[:size]):
                break
