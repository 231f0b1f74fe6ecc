r"""The hard-margin SVM on rows in blocks.

The objective of a model needs the smallest margin of all blocks. The multipliers are 0 outside a
working set of rows, which are in memory: the dual objective is that of the working set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded
from svmcvx.data import Features
from svmcvx.feature_space.blocks import BlockSettings, spaces
from svmcvx.formulations.blocks import InBlocks, Make
from svmcvx.formulations.margin.hard_margin import ATTEMPTS, HardMargin, separated
from svmcvx.model import LinearModel
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows

__all__ = ["HardMarginInBlocks", "Violated", "look_at_margins"]

Floats: TypeAlias = NDArray[np.float64]


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
        """½‖w‖²/m² with m the smallest margin of all blocks; infinite if one is below 1 by more
        than rounding.
        """
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
        """Balance the multipliers of the working set."""
        return self._multipliers().repair(dual)

    def dual_violation(self, dual: Dual) -> float:
        """That of the multipliers of the working set; the others are 0."""
        return self._multipliers().dual_violation(dual)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """The dual objective of the working set, with zero multipliers of all other rows."""
        return self._multipliers().evaluate_dual(dual)

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """No model, and zero multipliers."""
        return [], self._multipliers().trivial()[1]

    def explain(self, status: str) -> str:
        """As for data in memory."""
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
