r"""A statement whose rows lie in blocks: both ends of its certificate are sums over the blocks.

For a linear machine

.. math:: P = \tfrac12\|w\|^2 + \sum_i \ell_i, \qquad D = \sum_i g_i - \tfrac12\Big\|\sum_i v_i x_i\Big\|^2,

and every sum is the sum of what the same statement, bound to one block, gives with its bound on
rounding. The blocks' vectors :math:`\sum v_i x_i` are added with the error of that addition.
Multipliers stay with the blocks; a dual point names the part of the states in which they are.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, Kind
from svmcvx.certificate.bounded import Bounded, exact, roundings, total
from svmcvx.certificate.exactly import (
    BalancePlan,
    ClassSums,
    balance_plan,
    class_sums,
    clipped,
    grid_imbalance,
    grid_units,
    take_units,
    unit_sums,
)
from svmcvx.certificate.rows import Ball
from svmcvx.data import BinaryData
from svmcvx.feature_space import LinearSpace
from svmcvx.feature_space.blocks import BlockSettings, BlockSpace, spaces
from svmcvx.formulations.base import Formulation
from svmcvx.model import LinearModel
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows
from svmcvx.solution import DataFacts, Evidence, OptimalIntercepts

Floats: TypeAlias = NDArray[np.float64]

# Binds the statement to a space: ``make(space=space)``.
Make: TypeAlias = Callable[..., Any]

REPAIRED = "repaired"
# Formulations whose proofs are checked block by block.
PROVED = ("psvm", "penalised psvm", "odm")


def in_states(entry: str, name: str | None) -> Dual:
    """Return the dual point whose multipliers are the part `name` of the states; zero everywhere
    for None.
    """
    return cast(Dual, {entry: name})


@dataclass(eq=False)
class InBlocks(Formulation):
    """A statement of a linear machine with losses over rows in blocks."""

    make: Make
    space: BlockSpace
    entry: str
    balanced: bool
    bounded: bool = False
    kind: Kind = "convex"
    # The plan of the last repair, to which the exact test of y'α = 0 belongs.
    _plan: BalancePlan | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.whole = self.make(space=self.space.empty())
        self.name = self.whole.name  # type: ignore[misc]

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Those of the statement."""
        return dict(self.whole.hyperparameters)

    @property
    def facts(self) -> Mapping[str, float]:
        """Number of blocks, and of passes over all of them so far."""
        shards = self.space.shards
        return {"row_blocks": float(sum(shards.blocks)), "row_passes": float(shards.passes)}

    @property
    def data_facts(self) -> DataFacts:
        """Sizes and classes; rows in blocks have no short name."""
        space = self.space
        weighted = space.n < space.rows or math.fsum(space.weights) != space.n
        return DataFacts(
            space.rows, int(space.centre.size), tuple(space.classes.tolist()), None, weighted
        )

    def evaluate(self, model: LinearModel) -> Evaluation:
        """P at a model: the losses of all blocks and the penalty."""
        if not model.coef.any():
            losses = self._constant_losses(model)
        else:
            losses = total(self._each(_losses, model.without_support()))
        return Evaluation.of(regulariser=0.5 * self.whole.penalty(model), losses=losses)

    def _constant_losses(self, model: LinearModel) -> Bounded:
        """Losses of w = 0: those of one row of each class with the weight of all, a sum of sums
        that is rounded three times.
        """
        space = self.space
        X, y, weight = (
            np.zeros((2, space.centre.size)),
            np.array([-1.0, 1.0]),
            np.array(space.weights),
        )
        data = BinaryData(
            X, y, weight, np.arange(2), space.classes, 2, whole_weight=space.total_weight
        )
        losses: Bounded = self.make(space=LinearSpace(data, space.intercept, space.centre)).losses(
            model
        )
        return losses * Bounded(1.0, roundings(4))

    def repair(self, dual: Dual) -> Dual:
        """Return the multipliers as they are, or clipped to their domain and, if they have to be,
        balanced exactly over all blocks.
        """
        name: Any = dual[self.entry]
        if not (self.balanced or self.bounded) or name is None or name == REPAIRED:
            return dual
        shards = self.space.shards
        sums = [
            ClassSums(*part)
            for listed in shards.change(_clip, None, self.make, self.space.settings, name)
            for part in listed
        ]
        if not self.balanced:
            return in_states(self.entry, REPAIRED)
        self._plan = balance_plan(sums)
        if self._plan is None:
            return in_states(self.entry, None)
        units = shards.change(_to_grid, None, self._plan)
        left = sum(part[0] for part in units) - sum(part[1] for part in units)
        each = [(steps,) for steps in _shared_out(left, units)]
        shards.change(_take, each, self._plan)
        return in_states(self.entry, REPAIRED)

    def dual_violation(self, dual: Dual) -> float:
        """Return the largest violation of a bound and of y'α = 0; 0 only if there is none."""
        name: Any = dual[self.entry]
        if name is None:
            return 0.0
        exponent = None if self._plan is None or name != REPAIRED else self._plan.exponent
        found = self._each(_violation, name, self.balanced or self.bounded, exponent)
        outside = max(part[0] for part in found)
        if not self.balanced:
            return float(outside)
        if any(part[1] is None for part in found):
            # Not on a grid: whether the sum is exactly 0 is not known.
            return (
                math.inf
                if name == REPAIRED
                else max(float(outside), abs(sum(part[2] for part in found)))
            )
        off = sum(part[1] for part in found)
        return max(float(outside), math.ldexp(abs(off), exponent or 0) if off else 0.0)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """Dual objective at a feasible point: sums over all blocks, and the norm of the whole
        expansion.
        """
        name: Any = dual[self.entry]
        if name is None:
            return exact(0.0)
        return added_expansions(self._each(_gains, self.entry, name))

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """The model w = 0 with the statement's bias, and multipliers of zero."""
        bias = (
            self.whole.constant_bias(*self.space.weights[::-1])
            if self.space.intercept == "free"
            else 0.0
        )
        none = np.zeros(0, dtype=np.intp)
        return [self.space.model(np.zeros(self.space.d), bias, none)], [in_states(self.entry, None)]

    def best_bias(self, w: Floats, b: float) -> float:
        """Return the bias that is best with `w`, both in the columns of the space; `b`, which a
        solver has found, by default.
        """
        return b

    def optimal_intercepts(self, model: LinearModel) -> OptimalIntercepts | None:
        """As the statement says of its models."""
        found: OptimalIntercepts | None = self.whole.optimal_intercepts(model)
        return found

    def export_dual(self, dual: Dual) -> Dual:
        """Return a byte a row for multipliers with a bound, and those between: 0, 1 at the bound, 2
        between; nothing of others.

        Others follow from the model, and stay with the blocks.
        """
        if not self.bounded or self.hyperparameters.get("p") != 1:
            return {}
        name: Any = dual[self.entry]
        found = [
            part
            for listed in self.space.shards.change(
                _coded, None, self.make, self.space.settings, name
            )
            for part in listed
        ]
        code, between = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return cast(Dual, {"code": code, "between": between})

    def evidence(self, model: Any = None) -> Evidence | None:
        """Return the intercept: name and weights of the data are read with them when a proof is
        saved.
        """
        return Evidence(self.space.intercept, None, "") if self.name in PROVED else None

    def _each(self, operation: Callable[..., Any], *arguments: Any) -> list[Any]:
        shards = self.space.shards
        found = shards.read(operation, None, self.make, self.space.compared, *arguments)
        return [part for listed in found for part in listed]


def added_expansions(found: Sequence[tuple[Bounded, Ball]]) -> Bounded:
    """Return the dual objective from −Σℓ* and the expansion of each block."""
    w = functools.reduce(operator.add, [expansion for _, expansion in found])
    return total([value for value, _ in found]) - 0.5 * w.squared_norm()


@reads_rows
def _losses(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, model: LinearModel
) -> list[Bounded]:
    return [
        make(space=space).losses(model) for space in spaces(pieces, parts, settings) if space.data.n
    ]


@reads_rows
def _gains(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    entry: str,
    name: str,
) -> list[tuple[Bounded, Ball]]:
    found = []
    for space, alpha in zip(spaces(pieces, parts, settings), parts[name], strict=True):
        if not space.data.n:
            continue
        statement, dual = make(space=space), {entry: alpha}
        found.append(
            (statement.minus_conjugate(dual), space.expansion(statement.coefficients(dual)))
        )
    return found


def without_features(parts: ShardState, make: Make, settings: BlockSettings) -> list[Any]:
    """Return the statements of the blocks without their rows."""
    intercept, centre, _, classes, total, _ = settings
    found = []
    for rows in parts["rows"]:
        m = rows.y.size
        X = np.broadcast_to(0.0, (m, centre.size))
        data = BinaryData(X, rows.y, rows.weight, np.arange(m), classes, m, whole_weight=total)
        found.append(make(space=LinearSpace(data, intercept, centre)))
    return found


def _clip(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, name: str
) -> tuple[ShardState, list[ClassSums]]:
    statements = without_features(parts, make, settings)
    clips = [
        clipped(alpha, s.largest_multiplier())
        for s, alpha in zip(statements, parts[name], strict=True)
    ]
    sums = [class_sums(alpha, rows.y) for alpha, rows in zip(clips, parts["rows"], strict=True)]
    return {REPAIRED: clips}, sums


def _coded(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, name: str | None
) -> tuple[ShardState, list[tuple[NDArray[np.uint8], Floats]]]:
    """Return the bytes of the multipliers of each block, rows of weight zero among them, and those
    between.
    """
    found = []
    multipliers = (
        parts[name] if name is not None else [np.zeros(rows.y.size) for rows in parts["rows"]]
    )
    for statement, alpha, rows in zip(
        without_features(parts, make, settings), multipliers, parts["rows"], strict=True
    ):
        bound = statement.largest_multiplier()
        inside = (alpha > 0) & (alpha < bound)
        code = np.zeros(rows.rows, dtype=np.uint8)
        code[slice(None) if rows.positive is None else rows.positive] = np.where(
            inside, 2, np.where(alpha > 0, 1, 0)
        )
        found.append((code, np.array(alpha[inside])))
    return {}, found


def _to_grid(
    pieces: ShardBlocks, parts: ShardState, plan: BalancePlan
) -> tuple[ShardState, tuple[int, int]]:
    units = [
        grid_units(alpha, rows.y, plan)
        for alpha, rows in zip(parts[REPAIRED], parts["rows"], strict=True)
    ]
    sums = [unit_sums(whole, rows.y) for whole, rows in zip(units, parts["rows"], strict=True)]
    return {REPAIRED: units}, (sum(part[0] for part in sums), sum(part[1] for part in sums))


def _shared_out(left: int, sums: Sequence[tuple[int, int]]) -> list[int]:
    """Return how many of `left` steps each part gives, in their order: of its positive class, where
    `left` is negative of the other.
    """
    shares = []
    for positive, negative in sums:
        steps = min(left, positive) if left > 0 else max(left, -negative)
        shares.append(steps)
        left -= steps
    return shares


def _take(
    pieces: ShardBlocks, parts: ShardState, left: int, plan: BalancePlan
) -> tuple[ShardState, None]:
    """Take whole steps from one class, block by block, and return to numbers."""
    found = []
    rows = parts["rows"]
    sums = [unit_sums(units, block.y) for units, block in zip(parts[REPAIRED], rows, strict=True)]
    for units, block, steps in zip(parts[REPAIRED], rows, _shared_out(left, sums), strict=True):
        if steps:
            units = units.copy()
            take_units(units, block.y, steps)
        found.append(np.ldexp(units.astype(np.float64), plan.exponent))
    return {REPAIRED: found}, None


def _violation(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    name: str,
    bounded: bool,
    exponent: int | None,
) -> list[tuple[float, int | None, float]]:
    """Return, for each block, the largest violation of a bound, y'α in steps of the grid where it
    is one, and rounded.
    """
    found: list[tuple[float, int | None, float]] = []
    for statement, alpha, rows in zip(
        without_features(parts, make, settings), parts[name], parts["rows"], strict=True
    ):
        if not alpha.size:
            continue
        if not bounded:
            found.append((0.0 if np.isfinite(alpha).all() else math.inf, 0, 0.0))
            continue
        outside = statement.outside_box(alpha)
        whole = (
            grid_imbalance(alpha, rows.y, exponent)
            if exponent is not None and math.isfinite(outside)
            else None
        )
        found.append((outside, whole, float(rows.y @ alpha)))
    return found
