r"""Local search over the sets of observations that a point drops, for problems with counted losses.

For a given set of observations that are kept (margin at least 1) the best point is the one of least
norm. Sets come from scores: observations with low scores are dropped first. The rounding of the
conic relaxation [CepedaGomezHan] is such a search, from the scores and the indicators of its point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.heuristics.machines import soft_margin_scores
from svmcvx.heuristics.signed_rows import (
    ON_MARGIN,
    Incumbent,
    LeastNorm,
    SignedRows,
    never,
    violated,
)
from svmcvx.kernels import row_norms

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
# Objective of a point with a squared norm and a weight of dropped observations; infinite where it
# is not feasible.
ObjectiveValue: TypeAlias = Callable[[float, float], float]

# Hard-margin problems solved from one start: largest and smallest number, and the number as a
# multiple of 1 / size.
MOST_REFITS, FEWEST_REFITS, WORK = 600, 20, 4e8
# Largest number of those of a rounding, from each score.
ROUNDING_REFITS = 180
# Number of prefixes of an order that are tried before those around the best one.
KEPT_SIZES = 40
# Weight of the squared hinge whose scores a rounding tries besides those of the relaxation.
SOFT = 100.0


def local_search(
    geometry: SignedRows,
    objective_value: ObjectiveValue,
    *,
    loss_bound: Callable[[float], float],
    scores: Iterable[Floats],
    stop: Callable[[], bool] = never,
    most: int = MOST_REFITS,
) -> Incumbent | None:
    """Return a point with few violated margins and a small norm, or None if none was found."""
    r = geometry.G.shape[1]
    constants = [(np.zeros(r), b) for b in ((0.0, 1.0, -1.0) if geometry.free else (0.0,))]
    searches = []
    for score in scores:
        search = _Search(geometry, objective_value, constants, stop, most)
        searches.append(search)
        search.drop_in_order(np.argsort(score, kind="stable"), loss_bound)
    for search in searches:
        while search.improve():
            pass
    found = [search.best for search in searches if search.best is not None]
    return min(found, key=lambda point: objective_value(point.norm, point.loss), default=None)


class _Search:
    """The best point so far, and the number of refits left."""

    def __init__(
        self,
        geometry: SignedRows,
        objective_value: ObjectiveValue,
        points: Iterable[tuple[Floats, float]],
        stop: Callable[[], bool],
        most: int,
    ) -> None:
        self.geometry, self.objective_value, self.stop = geometry, objective_value, stop
        n, r = geometry.G.shape
        self.best: Incumbent | None = None
        self.value = math.inf
        self.refits = int(min(max(WORK / (n * max(r, 1) ** 2), FEWEST_REFITS), most))
        self.seen: set[bytes] = set()
        for w, b in points:
            self.update_incumbent(w, b)

    @property
    def exhausted(self) -> bool:
        return self.refits <= 0 or self.stop()

    def update_incumbent(self, w: Floats, b: float) -> Incumbent:
        point = self.geometry.incumbent(w, b, violated)
        value = self.objective_value(point.norm, point.loss)
        if value < self.value - ON_MARGIN * abs(value) or (
            self.best is None and math.isfinite(value)
        ):
            self.best, self.value = point, value
        return point

    def refit(self, kept: Bools) -> tuple[Incumbent, LeastNorm] | None:
        key = np.packbits(kept).tobytes()
        if self.exhausted or key in self.seen:
            return None
        self.seen.add(key)
        self.refits -= 1
        found = self.geometry.refit(kept)
        return None if found is None else (self.update_incumbent(found.w, found.b), found)

    def drop_in_order(self, order: NDArray[np.intp], loss_bound: Callable[[float], float]) -> None:
        """Drop the first observations of an order: a grid of numbers, and those around the best."""
        lost = np.concatenate([[0.0], np.cumsum(self.geometry.weight[order])[:-1]]).tolist()
        most = next((i for i, loss in enumerate(lost) if loss_bound(loss) >= self.value), len(lost))
        step = max(1, -(-most // KEPT_SIZES))
        best = most - 1

        def drop(counts: range) -> None:
            nonlocal best
            for count in counts:
                before = self.value
                if 0 <= count < most and loss_bound(lost[count]) < before:
                    kept = np.ones(order.size, dtype=bool)
                    kept[order[:count]] = False
                    self.refit(kept)
                    best = count if self.value < before else best

        drop(range(most - 1, -1, -step))
        drop(range(best - step + 1, best + step))

    def improve(self) -> bool:
        """Try all moves from the best point; return whether one improved it."""
        if self.best is None or self.exhausted:
            return False
        before = self.value
        kept = ~self.best.dropped
        for smaller in self._drop_each(kept):
            if self.value < before or self.exhausted:
                return self.value < before
            self._drop_each(smaller)
        if self.value < before:
            return True
        for j in np.flatnonzero(~kept):
            if self.exhausted:
                break
            taken_back = kept.copy()
            taken_back[j] = True
            self.refit(taken_back)
            self._drop_each(taken_back)
            if self.value < before:
                return True
        return self.value < before

    def _drop_each(self, kept: Bools) -> list[Bools]:
        """Drop each support vector of the restricted solution of a set (each observation, if the
        set is inseparable); return the sets.
        """
        if self.exhausted:
            return []
        found = self.geometry.refit(kept)
        self.refits -= 1
        sets = []
        for i in np.flatnonzero(kept if found is None else found.alpha > 0):
            smaller = kept.copy()
            smaller[i] = False
            if self.exhausted:
                break
            self.refit(smaller)
            sets.append(smaller)
        return sets


def round_relaxation(
    space: FeatureSpace,
    w: Floats,
    z: Floats,
    *,
    lam: float | None = None,
    k: float | None = None,
    stop: Callable[[], bool] = never,
) -> tuple[Floats, float]:
    """Round a solution of the relaxation to one of the 0-1 problem; return the point, in the columns
    of the factor, and its objective, infinite if no point within the budget was found.
    """
    if (lam is None) == (k is None):
        raise DataError(
            "round_relaxation takes exactly one of lam and k; pass lam for the penalised form,"
            " else k"
        )
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    geometry = SignedRows(space.data.y[:, None] * L, space.data.y, space.data.weight, False)

    def objective(norm: float, missed: float) -> float:
        if lam is not None:
            return norm + lam * missed
        return norm if missed <= (k or 0.0) * (1.0 + _sum_error(z.size)) else math.inf

    u = geometry.G @ np.asarray(w, dtype=np.float64)
    by_indicators = np.empty(u.size)
    by_indicators[np.lexsort((u, -z))] = np.arange(u.size)
    found = local_search(
        geometry,
        objective,
        loss_bound=lambda missed: objective(0.0, missed),
        scores=[by_indicators, u, soft_margin_scores(geometry, SOFT, stop)],
        stop=stop,
        most=ROUNDING_REFITS,
    )
    if found is None:
        return np.zeros(L.shape[1]), math.inf
    # Margins of 1 exceed 1 by more than the rounding error of the products.
    longest = float(row_norms(geometry.G).max(initial=0.0))
    size = longest * float(np.linalg.norm(found.w))
    point = found.w * (1.0 + 4.0 * _sum_error(found.w.size) * max(1.0, size))
    missed = math.fsum(geometry.weight[geometry.G @ point < 1.0].tolist())
    return point, objective(float(point @ point), missed)


def _sum_error(terms: int) -> float:
    """Typical relative error of a sum of products; the checker uses larger, proved bounds."""
    return EPS * (4.0 + math.sqrt(terms))
