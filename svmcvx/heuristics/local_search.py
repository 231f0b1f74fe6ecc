r"""Local search over the sets of observations that a point drops, for problems with counted losses.

For a given set of observations that are kept (margin at least 1) the best point is the one of least
norm. Sets come from scores: observations with low scores are dropped first. The rounding of the
conic relaxation [CepedaGomezHan] is such a search, from the scores and the indicators of its point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.heuristics.machines import soft_margin_scores
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, SignedRows, never, violated
from svmcvx.kernels import row_norms
from svmcvx.numerical import estimated_rounding

# Objective of a point with a squared norm and a weight of dropped observations; infinite where it
# is not feasible.
ObjectiveValue: TypeAlias = Callable[[float, float], float]


def local_search(
    geometry: SignedRows,
    objective_value: ObjectiveValue,
    *,
    scores: Iterable[Floats],
    stop: Callable[[], bool] = never,
    refits: int = 600,
) -> Incumbent | None:
    """Return a point of few violated margins and small norm, by some refits per score, or None."""
    n, r = geometry.G.shape
    refits = int(min(max(4e8 / (n * max(r, 1) ** 2), 20), refits))
    searches = []
    for score in scores:
        searches.append(_Search(geometry, objective_value, stop, refits))
        searches[-1].drop_in_order(np.argsort(score, kind="stable"))
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
        stop: Callable[[], bool],
        refits: int,
    ) -> None:
        self.geometry, self.objective_value = geometry, objective_value
        self.stop, self.refits = stop, refits
        self.best: Incumbent | None = None
        self.value = math.inf
        self.supports: dict[bytes, Bools] = {}
        for b in (0.0, 1.0, -1.0) if geometry.free else (0.0,):
            self.update_incumbent(np.zeros(geometry.G.shape[1]), b)

    @property
    def exhausted(self) -> bool:
        return self.refits <= 0 or self.stop()

    def update_incumbent(self, w: Floats, b: float) -> None:
        point = self.geometry.incumbent(w, b, violated)
        value = self.objective_value(point.norm, point.loss)
        if value < self.value * (1.0 - ON_MARGIN):
            self.best, self.value = point, value

    def refit(self, kept: Bools) -> Bools:
        """Try the point of least norm that keeps a set; return its support, all if inseparable."""
        key = np.packbits(kept).tobytes()
        if key in self.supports or self.exhausted:
            return self.supports.get(key, np.zeros_like(kept))
        self.refits -= 1
        found = self.geometry.refit(kept)
        if found is not None:
            self.update_incumbent(found.w, found.b)
        self.supports[key] = kept if found is None else found.alpha > 0
        return self.supports[key]

    def drop_in_order(self, order: NDArray[np.intp]) -> None:
        """Drop the first observations of an order: 40 numbers, and those around the best."""
        lost = np.concatenate([[0.0], np.cumsum(self.geometry.weight[order])[:-1]]).tolist()
        most = sum(self.objective_value(0.0, loss) < self.value for loss in lost)
        step, best = max(1, -(-most // 40)), most - 1
        for around in (False, True):
            first = range(best - step + 1, best + step) if around else range(best, -1, -step)
            for count in first:
                before = self.value
                if 0 <= count < most and self.objective_value(0.0, lost[count]) < before:
                    kept = np.ones(order.size, dtype=bool)
                    kept[order[:count]] = False
                    self.refit(kept)
                    best = count if self.value < before else best

    def improve(self) -> bool:
        """Try all moves from the best point; return whether one improved it."""
        if self.best is None:
            return False
        before, kept = self.value, ~self.best.dropped
        for tried in self._moves(kept):
            if self.value < before or self.exhausted:
                break
            self._drop_each(tried)
        return self.value < before

    def _moves(self, kept: Bools) -> Iterator[Bools]:
        """Yield sets with one observation less, or one more."""
        yield from self._drop_each(kept)
        for j in np.flatnonzero(~kept):
            yield kept | (np.arange(kept.size) == j)

    def _drop_each(self, kept: Bools) -> list[Bools]:
        """Drop each support vector of a set (each observation if inseparable); return the sets."""
        sets = [kept & (np.arange(kept.size) != i) for i in np.flatnonzero(self.refit(kept))]
        for smaller in sets:
            self.refit(smaller)
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
    """Round a solution of the relaxation; return the point in factor columns, and its objective."""
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
        return norm if missed <= (k or 0.0) * (1.0 + estimated_rounding(z.size)) else math.inf

    u = geometry.margins(np.asarray(w, dtype=np.float64), 0.0)
    by_indicators = np.empty(u.size)
    by_indicators[np.lexsort((u, -z))] = np.arange(u.size)
    scores = [by_indicators, u, soft_margin_scores(geometry, 100.0, stop)]
    found = local_search(geometry, objective, scores=scores, stop=stop, refits=180)
    if found is None:
        return np.zeros(L.shape[1]), math.inf
    # Margins of 1 exceed 1 by more than the rounding error of the products.
    longest = float(row_norms(geometry.G).max(initial=0.0))
    size = longest * float(np.linalg.norm(found.w))
    point = found.w * (1.0 + 4.0 * estimated_rounding(found.w.size) * max(1.0, size))
    missed = math.fsum(geometry.weight[geometry.margins(point, 0.0) < 1.0].tolist())
    return point, objective(float(point @ point), missed)
