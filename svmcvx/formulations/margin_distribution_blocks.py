r"""ODML on rows in blocks: the variance of the margins ties all blocks together by one number,
their mean.

.. math:: \lambda_1 \sum_i c_i (u_i - \bar u)^2 = \min_m\; \lambda_1 \sum_i c_i (u_i - m)^2,

so that around any m the sums of the blocks give an upper end; the dual point has one more
multiplier :math:`\tau_i` a row, with a sum of exactly 0 over all blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, total
from svmcvx.certificate.rows import Ball
from svmcvx.feature_space.blocks import BlockSettings, BlockSpace, spaces
from svmcvx.formulations.blocks import InBlocks, Make, added_expansions, without_features
from svmcvx.formulations.margin_distribution import (
    CentringPlan,
    TauSums,
    centring_plan,
    tau_sums,
    tau_units,
    without_rest,
)
from svmcvx.model import LinearModel
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows

Floats: TypeAlias = NDArray[np.float64]

# Part of the states with the multipliers of the variance.
TAU = "tau"
CENTRED = "centred tau"
CLIPPED = "clipped"


@dataclass(eq=False)
class ODMLInBlocks(InBlocks):
    """The statement of the soft-margin ODML on rows in blocks."""

    mean: Floats = field(default_factory=lambda: np.zeros(0))
    _steps: CentringPlan | None = field(default=None, repr=False)

    def evaluate(self, model: LinearModel) -> Evaluation:
        if not model.coef.any() and model.intercept == 0.0:
            return Evaluation(self.whole.C, 0.0).with_terms(0.0, self.whole.C)
        w = (
            np.append(model.coef, model.intercept)
            if self.space.intercept == "penalised"
            else model.coef
        )
        found = self._each(_losses_around, model.without_support(), float(self.mean @ w))
        return Evaluation.of(regulariser=0.5 * self.whole.penalty(model), losses=total(found))

    def repair(self, dual: Dual) -> Dual:
        name: Any = dual[self.entry]
        if name is None or name == CLIPPED:
            return dual
        shards = self.space.shards
        sums: list[Any] = shards.change(_clipped, None, self.make, self.space.settings, name)
        self._steps = centring_plan([TauSums(*part) for listed in sums for part in listed])
        if self._steps is None:
            shards.change(_nothing)
            return cast(Dual, {self.entry: CLIPPED, TAU: CENTRED})
        units: list[Any] = shards.change(
            _gridded, None, self.make, self.space.settings, self._steps
        )
        each, rest = divmod(sum(total for total, _ in units), self.space.n)
        shares = []
        for _, rows in units:
            here = min(rest, rows)
            shares.append((here,))
            rest -= here
        shards.change(_subtracted, shares, self.make, self.space.settings, each, self._steps)
        return cast(Dual, {self.entry: CLIPPED, TAU: CENTRED})

    def dual_violation(self, dual: Dual) -> float:
        name: Any = dual[self.entry]
        if name is None:
            return 0.0
        repaired = name == CLIPPED
        exponent = self._steps.exponent if repaired and self._steps is not None else None
        tau = CENTRED if repaired else TAU
        found = self._each(_outside, name, tau, exponent)
        outside = max(part[0] for part in found)
        if exponent is not None:
            off = sum(part[1] for part in found)
            return max(float(outside), math.ldexp(abs(off), exponent) if off else 0.0)
        return max(float(outside), abs(math.fsum(part[2] for part in found)))

    def evaluate_dual(self, dual: Dual) -> Bounded:
        name: Any = dual[self.entry]
        if name is None:
            return exact(0.0)
        return added_expansions(self._each(_gains_with_tau, name))

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        models, duals = super().trivial()
        return models, duals if self.whole.lam2 == 0 else []


def mean_gradient(space: BlockSpace) -> Floats:
    r"""Return :math:`\sum_i c_i y_i x_i` by one pass over the blocks."""
    return np.asarray(sum(space.shards.read(_mean, None, space.settings)))


@reads_rows
def _mean(pieces: ShardBlocks, parts: ShardState, settings: BlockSettings) -> Floats:
    found = [
        np.asarray(space.X.T @ (space.data.y * (space.data.weight / settings.total_weight)))
        for space in spaces(pieces, parts, settings)
    ]
    return np.asarray(sum(found))


@reads_rows
def _losses_around(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    model: LinearModel,
    mean: float,
) -> list[Bounded]:
    statements = [make(space=space) for space in spaces(pieces, parts, settings) if space.data.n]
    return [each.losses_around(each.margins_of(model), each.C, mean) for each in statements]


@reads_rows
def _gains_with_tau(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, name: str
) -> list[tuple[Bounded, Ball]]:
    found = []
    for space, alpha, tau in zip(
        spaces(pieces, parts, settings), parts[name], parts[CENTRED], strict=True
    ):
        if not space.data.n:
            continue
        statement = make(space=space)
        dual = {"alpha": alpha, "tau": tau}
        found.append(
            (statement.minus_conjugate(dual), space.expansion(statement.coefficients(dual)))
        )
    return found


def _clipped(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, name: str
) -> tuple[ShardState, list[TauSums]]:
    boxes = [statement.upper_bound() for statement in without_features(parts, make, settings)]
    alphas = [
        np.clip(np.nan_to_num(alpha), 0.0, top)
        for alpha, top in zip(parts[name], boxes, strict=True)
    ]
    finite = [np.nan_to_num(tau, posinf=0.0, neginf=0.0) for tau in parts[TAU]]
    return {CLIPPED: alphas, CENTRED: finite}, [tau_sums(tau) for tau in finite]


def _nothing(pieces: ShardBlocks, parts: ShardState) -> tuple[ShardState, None]:
    return {CENTRED: [np.zeros(tau.size) for tau in parts[CENTRED]]}, None


def _gridded(
    pieces: ShardBlocks, parts: ShardState, make: Make, settings: BlockSettings, plan: CentringPlan
) -> tuple[ShardState, tuple[int, int]]:
    statements = without_features(parts, make, settings)
    units = [
        tau_units(tau, s.share, plan) for tau, s in zip(parts[CENTRED], statements, strict=True)
    ]
    return {CENTRED: units}, (
        sum(int(part.sum()) for part in units),
        sum(part.size for part in units),
    )


def _subtracted(
    pieces: ShardBlocks,
    parts: ShardState,
    rest: int,
    make: Make,
    settings: BlockSettings,
    each: int,
    plan: CentringPlan,
) -> tuple[ShardState, None]:
    found = []
    for units, statement in zip(
        parts[CENTRED], without_features(parts, make, settings), strict=True
    ):
        here = min(rest, units.size)
        rest -= here
        found.append(
            np.ldexp(
                without_rest(units, statement.share, each, here).astype(np.float64), plan.exponent
            )
        )
    return {CENTRED: found}, None


def _outside(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    name: str,
    tau_name: str,
    exponent: int | None,
) -> list[tuple[float, int, float]]:
    """Return, for each block, the largest violation of the box, and Στ in steps of the grid and
    rounded.
    """
    found: list[tuple[float, int, float]] = []
    for statement, alpha, tau in zip(
        without_features(parts, make, settings), parts[name], parts[tau_name], strict=True
    ):
        if not alpha.size:
            continue
        if not (np.isfinite(alpha).all() and np.isfinite(tau).all()):
            found.append((math.inf, 0, 0.0))
            continue
        outside = max(0.0, float(-alpha.min()), float((alpha - statement.upper_bound()).max()))
        steps = 0 if exponent is None else int(np.ldexp(tau, -exponent).astype(np.int64).sum())
        found.append((outside, steps, math.fsum(tau.tolist())))
    return found
