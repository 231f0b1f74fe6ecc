r"""The pSVM on rows in blocks: the interval of optimal biases at p = 1, found from sums over the
blocks.

Both sums of :mod:`svmcvx.formulations.optimal_intercepts` change monotonically with b, one up and
one down, so that each end of the interval is the least b at which a condition on them holds. A pass
over the breaks :math:`y_i - f_i` of all blocks decides it at thousands of b: a few passes find the
ends to rounding. The rows themselves are read once, for the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.feature_space.blocks import BlockSettings, spaces
from svmcvx.formulations.blocks import InBlocks
from svmcvx.formulations.optimal_intercepts import equal_share
from svmcvx.model import LinearModel
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows
from svmcvx.solution import OptimalIntercepts

__all__ = ["PSVMInBlocks"]

Floats: TypeAlias = NDArray[np.float64]

BREAKS = "breaks"
# Values of b that a pass looks at, for each end.
PLACES = 4096


class _Known(NamedTuple):
    """A model whose interval of intercepts has been found."""

    coef: Floats
    intercepts: OptimalIntercepts


@dataclass(eq=False)
class PSVMInBlocks(InBlocks):
    """The statement of the pSVM on rows in blocks."""

    _known: _Known | None = field(default=None, repr=False)

    def best_bias(self, w: Floats, b: float) -> float:
        """For p = 1 the middle of the biases that are optimal with `w`."""
        if self.whole.p > 1 or self.space.intercept != "free":
            return b
        lower, upper = self._hinge_intercepts(w)
        shift = float(self.space.centre @ w)
        self._known = _Known(w, OptimalIntercepts(lower - shift, upper - shift))
        return (lower + upper) / 2

    def optimal_intercepts(self, model: LinearModel) -> OptimalIntercepts | None:
        """As found for the weights of the model; None where a limit left no time for it."""
        if self.whole.p > 1 or self.space.intercept != "free":
            found: OptimalIntercepts | None = self.whole.optimal_intercepts(model)
            return found
        if self._known is None or not np.array_equal(self._known.coef, model.coef):
            return None
        return self._known.intercepts

    def _hinge_intercepts(self, w: Floats) -> tuple[float, float]:
        """Return the ends of the interval, for rows with the centre subtracted."""
        shards, share = self.space.shards, equal_share(self.space.n)
        ranges = shards.change(_set_breaks, None, self.space.compared, w)
        first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
        rounding = 4.0 * math.ulp(max(1.0, abs(first), abs(last)))
        # The conditions hold at the second number of each pair, and not at the first.
        ends = [(first - rounding, last)] * 2
        while max(high - low for low, high in ends) > rounding:
            places = np.unique([np.linspace(low, high, PLACES + 1) for low, high in ends])
            sums = sum(shards.read(_sums_at, None, places), start=np.zeros((2, places.size + 1)))
            rising, falling = np.cumsum(sums[0])[:-1], np.cumsum(sums[1][::-1])[::-1][1:]
            holds = (rising >= falling * (1.0 - share), rising > falling * (1.0 + share))
            for k, held in enumerate(holds):
                place = max(int(np.argmax(held)), 1)
                ends[k] = float(places[place - 1]), float(places[place])
        return ends[0][1], ends[1][1]


@reads_rows
def _set_breaks(
    pieces: ShardBlocks, parts: ShardState, settings: BlockSettings, w: Floats
) -> tuple[ShardState, tuple[float, float]]:
    """Keep the breaks of all rows; return the least and the largest."""
    found = [space.data.y - np.asarray(space.X @ w) for space in spaces(pieces, parts, settings)]
    low = min((float(breaks.min()) for breaks in found if breaks.size), default=math.inf)
    high = max((float(breaks.max()) for breaks in found if breaks.size), default=-math.inf)
    return {BREAKS: found}, (low, high)


def _sums_at(pieces: ShardBlocks, parts: ShardState, places: Floats) -> Floats:
    """Return the weights of both classes, negative first, whose breaks lie between each two
    neighbours of sorted numbers.
    """
    total = np.zeros((2, places.size + 1))
    for breaks, rows in zip(parts[BREAKS], parts["rows"], strict=True):
        where = np.searchsorted(places, breaks, side="left")
        for k, members in enumerate((rows.y < 0, rows.y > 0)):
            total[k] += np.bincount(
                where[members], weights=rows.weight[members], minlength=places.size + 1
            )
    return total
