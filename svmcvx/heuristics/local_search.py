"""Local search over the sets of observations that a point drops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.heuristics.least_norm import LeastNorm
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, SignedRows, never, violated

__all__ = ["local_search"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
# Objective of a point with a squared norm and a weight of dropped observations; infinite where it
# is not feasible.
ObjectiveValue: TypeAlias = Callable[[float, float], float]

# Hard-margin problems solved from one start: largest and smallest number, and the number as a
# multiple of 1 / size.
MOST_REFITS, FEWEST_REFITS, WORK = 600, 20, 4e8


def local_search(
    geometry: SignedRows,
    objective_value: ObjectiveValue,
    *,
    loss_bound: Callable[[float], float],
    scores: Iterable[Floats],
    points: Iterable[tuple[Floats, float]] = (),
    stop: Callable[[], bool] = never,
) -> Incumbent | None:
    """Return a point with few violated margins and a small norm, or None if none was found."""
    n, r = geometry.G.shape
    constants = [(np.zeros(r), b) for b in ((0.0, 1.0, -1.0) if geometry.free else (0.0,))]
    searches = [_Search(geometry, objective_value, [point], stop) for point in points]
    for score in scores:
        search = _Search(geometry, objective_value, constants, stop)
        searches.append(search)
        order = np.argsort(score, kind="stable")
        for count in range(n):
            kept = np.ones(n, dtype=bool)
            kept[order[:count]] = False
            if loss_bound(float(geometry.weight[~kept].sum())) >= search.value or search.exhausted:
                break
            search.refit(kept)
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
    ) -> None:
        self.geometry, self.objective_value, self.stop = geometry, objective_value, stop
        n, r = geometry.G.shape
        self.best: Incumbent | None = None
        self.value = math.inf
        self.refits = int(min(max(WORK / (n * max(r, 1) ** 2), FEWEST_REFITS), MOST_REFITS))
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
