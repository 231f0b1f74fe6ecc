"""pSVM and hard margin on rows in blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded
from svmcvx.data import Features
from svmcvx.feature_space.blocks import BlockSettings, spaces
from svmcvx.formulations.blocks import InBlocks, Make
from svmcvx.formulations.margin import ATTEMPTS, HardMargin, separated
from svmcvx.formulations.optimal_intercepts import equal_share
from svmcvx.model import LinearModel
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows
from svmcvx.solution import OptimalIntercepts

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


class Violated(NamedTuple):
    """The smallest margins of a model over all blocks."""

    positive: float
    negative: float
    X: Features
    y: Floats
    u: Floats


@dataclass(eq=False)
class HardMarginInBlocks(InBlocks):
    """The statement of the hard margin on rows in blocks."""

    working: HardMargin | None = None

    def evaluate(self, model: LinearModel) -> Evaluation:
        found = self._each(_lowest, model)
        lowest = min(part[0] for part in found)
        value: Evaluation = self.whole.value_at(model, lowest, any(part[1] for part in found))
        return value

    def separating(self, model: LinearModel) -> LinearModel:
        """Return the multiple of a model whose margins are at least 1 after rounding; the model
        itself if there is none.
        """
        found = model
        for _ in range(ATTEMPTS):
            if math.isfinite(self.evaluate(found).upper_end):
                break
            seen = look_at_margins(self, found, 1)
            wider = separated(found, seen.positive, seen.negative, self.space.centre)
            if wider is None:
                break
            found = cast(LinearModel, wider)
        return found

    def _multipliers(self) -> HardMargin:
        assert self.working is not None  # noqa: S101 - the solver has set it
        return self.working

    def repair(self, dual: Dual) -> Dual:
        return self._multipliers().repair(dual)

    def dual_violation(self, dual: Dual) -> float:
        return self._multipliers().dual_violation(dual)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        return self._multipliers().evaluate_dual(dual)

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        return [], self._multipliers().trivial()[1]

    def explain(self, status: str) -> str:
        return self._multipliers().explain(status)


def look_at_margins(statement: InBlocks, model: LinearModel, most: int) -> Violated:
    """Return the smallest margins of all blocks, and the rows of at most `most` of them that are
    below 1.
    """
    shards = statement.space.shards
    found: list[Violated] = shards.read(
        _violated, None, statement.make, statement.space.compared, model, most
    )
    X = [part.X for part in found if part.y.size]
    y, u = (np.concatenate([getattr(part, name) for part in found]) for name in ("y", "u"))
    rows = _stacked(X) if X else np.zeros((0, statement.space.centre.size))
    chosen = np.argsort(u, kind="stable")[:most]
    return Violated(
        min(part.positive for part in found),
        min(part.negative for part in found),
        rows[chosen],
        y[chosen],
        u[chosen],
    )


def _stacked(parts: list[Features]) -> Features:
    return sp.csr_array(sp.vstack(parts)) if sp.issparse(parts[0]) else np.vstack(parts)


@reads_rows
def _lowest(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, model: LinearModel
) -> list[tuple[float, bool]]:
    return [
        make(space=space).lowest_margin(model)
        for space in spaces(pieces, parts, settings)
        if space.data.n
    ]


@reads_rows
def _violated(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    model: LinearModel,
    most: int,
) -> Violated:
    positive = negative = math.inf
    X, ys, us = [], [np.zeros(0)], [np.zeros(0)]
    for space in spaces(pieces, parts, settings):
        if not space.data.n:
            continue
        y = space.data.y
        margins = make(space=space).margins_of(model)
        # A little more than the bound, since the scores of the next model are rounded anew.
        u, low = margins.value, margins.value - 1.1 * margins.error
        positive = min(positive, float(low[y > 0].min(initial=math.inf)))
        negative = min(negative, float(low[y < 0].min(initial=math.inf)))
        below = np.flatnonzero(u < 1.0)
        if below.size:
            worst = below[np.argsort(u[below], kind="stable")[:most]]
            extreme = space.data.X[worst]
            X.append(extreme.toarray() if sp.issparse(extreme) and settings.dense else extreme)
            ys.append(y[worst])
            us.append(u[worst])
    y, u = np.concatenate(ys), np.concatenate(us)
    chosen = np.argsort(u, kind="stable")[:most]
    rows = _stacked(X)[chosen] if X else np.zeros((0, settings.centre.size))
    return Violated(positive, negative, rows, y[chosen], u[chosen])
