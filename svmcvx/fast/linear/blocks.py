"""Newton's method for linear machines whose rows lie in blocks.

The method is that of :mod:`svmcvx.fast.linear.newton`. Scores and multipliers of each block are
stored in memory (:class:`~svmcvx.fast.linear.newton.Margins`); the method needs sums over the
blocks only. Three passes a step read the rows: for the gradient, for the system and for the scores
along the step. The search for the bias and along a line reads scores only.

A sample of the rows, in memory, is solved first: its solution is so close that a few steps over all
rows suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial, partialmethod
from typing import Any, NamedTuple

import numpy as np

from svmcvx.arrays import Floats
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Found, Monitor, solve
from svmcvx.fast.linear.loss_passes import LinearLoss
from svmcvx.fast.linear.newton import (
    LinearNewtonSettings,
    LinearProblem,
    LinearTerms,
    Margins,
    minimise,
)
from svmcvx.feature_space.blocks import BlockSettings, BlockSpace, spaces
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.model import LinearModel
from svmcvx.row_blocks import ShardBlocks, ShardState, reads_rows
from svmcvx.solution import Solution, Status

MARGINS = "margins"
# Operations that read the rows themselves.
OF_ROWS = {"set_point", "project", "prox_step", "mean_gradient", "normal_matrix", "diagonal"}
OF_ROWS |= {"curvature_product", "loss_of"}
# Ends after which no further pass is made for the bias.
STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED)


class BlockCall(NamedTuple):
    """A method of the margins of every block, after changes that no pass has made yet."""

    settings: BlockSettings
    pending: tuple[tuple[str, tuple[Any, ...]], ...]
    name: str
    arguments: tuple[Any, ...]
    keep: bool


@dataclass(frozen=True)
class BlockLoss:
    """The losses of a linear machine, without its rows."""

    loss: LinearLoss
    cost: float
    terms: dict[str, Any] = field(default_factory=dict)
    whole_weight: float = 0.0

    def of(self, X: Any, y: Floats, weight: Floats, norms: Floats | None = None) -> LinearProblem:
        share = weight / self.whole_weight if self.whole_weight else None
        return LinearProblem(
            X, y, self.cost * weight, self.loss, norms=norms, share=share, **self.terms
        )


class BlockMargins(Margins):
    """The margins of all blocks, with the methods of :class:`Margins`."""

    whole = False

    def __init__(self, space: BlockSpace, loss: BlockLoss) -> None:
        self.space, self.loss = space, loss
        # Changes that no pass has made yet.
        self.pending: list[tuple[str, tuple[Any, ...]]] = []
        self.begun = False
        self.best_alpha = self.expansion = np.zeros(0)

    def sum_over_blocks(self, name: str, *arguments: Any, keep: bool = False) -> Any:
        shards, keep = self.space.shards, keep or bool(self.pending)
        call = BlockCall(self.space.settings, tuple(self.pending), name, arguments, keep)
        operation = _on_rows if name in OF_ROWS else _on_margins
        found = (shards.change if keep else shards.read)(operation, None, call)
        self.pending = []
        return _added(found, extreme=name == "flat_ends")

    def set_point(self, w: Floats) -> None:
        if not self.begun:
            self.space.shards.change(_begin, None, self.space.settings, self.loss, w)
            self.begun = True
        else:
            self.sum_over_blocks("set_point", w, keep=True)

    def delay(self, name: str, *arguments: Any) -> None:
        """Change every block with the next pass."""
        self.pending.append((name, arguments))

    _summed: Any = partial(partialmethod, sum_over_blocks)
    _delayed: Any = partial(partialmethod, delay)
    project, prox_step = _summed("project", keep=True), _summed("prox_step", keep=True)
    take_step, update_prox_center, keep = map(_delayed, ("take_step", "update_prox_center", "keep"))
    mean, balance, flat_ends, along, variance_along, curved = map(
        _summed, ("mean", "balance", "flat_ends", "along", "variance_along", "curved")
    )
    mean_gradient, normal_matrix, diagonal, curvature_product = map(
        _summed, ("mean_gradient", "normal_matrix", "diagonal", "curvature_product")
    )

    def finish(self) -> tuple[Floats, Floats]:
        """Empty the states; return the best lower bound's multipliers, and the variance's."""
        found = self.space.shards.change(_finish, None, tuple(self.pending) if self.begun else ())
        self.pending = []
        alpha, tau = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return alpha, tau


def solve_in_blocks(
    statement: Any,
    space: BlockSpace,
    loss: BlockLoss,
    limits: Mapping[str, Any],
    *,
    entry: str = "alpha",
    solver: str,
    warm_start: Solution | None,
    settings: LinearNewtonSettings | None = None,
) -> Solution:
    """Solve and certify a statement on rows in blocks, with multipliers called `entry`."""
    start = None if warm_start is None else _earlier_point(space, warm_start.model)
    terms = LinearTerms(
        space.data.n,
        space.d,
        loss.loss,
        largest_norm=space.largest_norm,
        stiffness=loss.cost * space.stiffness,
        entries=space.entries,
        **loss.terms,
    )

    def run(monitor: Monitor, start: tuple[Floats, float] | None) -> Found:
        # A sample of at most half of the rows gives a start; its optimum is hardly nearer to that
        # of all rows than 1e-4.
        if start is None and space.data.n >= 2 * space.sample.y.size:
            rows = space.sample_space()
            problem = loss.of(rows.X, space.sample.y, space.sample.weight)
            inner = monitor.within(max(1e-4, monitor.tol), 200)
            point, _ = minimise(problem, inner, settings=settings)
            start = point.w, point.b
        margins = BlockMargins(space, loss)
        w, b = start or (None, 0.0)
        # A start near the optimum needs no cautious first penalty.
        sigma = None if start is None or terms.smooth else 30.0
        space.shards.deadline = monitor.deadline
        try:
            point, status = minimise(
                terms, monitor, w=w, b=b, sigma=sigma, settings=settings, margins=margins
            )
        finally:
            space.shards.deadline = None
        alpha, tau = margins.finish()
        if status is Status.INACCURATE:
            # The certificate may not notice a change: w = 0 is evaluated without the rows.
            space.require_same()
        options = {"method": "newton", "steps": point.steps, "blocks": sum(space.shards.blocks)}
        b = point.b
        if statement.hyperparameters.get("p") == 1 and status not in STOPPED:
            # The optimal intercepts of the hinge are an interval, whose middle is taken.
            scores = space.scores(space.model_from_factor(point.w))
            b = statement.exact_intercept(scores.value)
        model = space.model_from_factor(point.w, b, alpha != 0)
        dual = {entry: alpha} | ({"tau": tau} if "variance" in loss.terms else {})
        return RecoveredPoints([model], [dual]), status, options

    with space.watched():
        return solve(statement, run, start, limits, name=solver)


def _earlier_point(space: BlockSpace, model: object) -> tuple[Floats, float]:
    d = space.centre.size
    if (
        not isinstance(model, LinearModel)
        or model.coef.shape != (d,)
        or not np.isfinite(model.coef).all()
    ):
        raise DataError(
            f"warm_start must be a Solution with a linear model of {d} features for rows in blocks"
        )
    if space.intercept == "penalised":
        return np.append(model.coef, model.intercept), 0.0
    return np.array(model.coef), model.intercept + float(space.centre @ model.coef)


@reads_rows
def _begin(
    pieces: ShardBlocks, parts: ShardState, settings: BlockSettings, loss: BlockLoss, w: Floats
) -> tuple[ShardState, None]:
    """Make the margins of every block, with the scores of w."""
    found = []
    for space, rows in zip(spaces(pieces, parts, settings), parts["rows"], strict=True):
        margins = Margins(loss.of(space.X, rows.y, rows.weight, rows.norms))
        margins.set_point(w)
        margins.problem = margins.problem.with_rows(None)
        found.append(margins)
    return {MARGINS: found}, None


@reads_rows
def _on_rows(pieces: ShardBlocks, parts: ShardState, call: BlockCall) -> Any:
    """Call a method that reads the rows, block by block."""
    found, values = [], []
    for space, before in zip(spaces(pieces, parts, call.settings), parts[MARGINS], strict=True):
        margins = _changed(before, call.pending, fresh=call.name == "prox_step")
        margins.problem = margins.problem.with_rows(space.X)
        values.append(getattr(margins, call.name)(*call.arguments))
        margins.problem = margins.problem.with_rows(None)
        found.append(margins)
    value = _added(values)
    return ({MARGINS: found}, value) if call.keep else value


def _on_margins(pieces: ShardBlocks, parts: ShardState, call: BlockCall) -> Any:
    """Call a method that needs no rows."""
    found = [_changed(before, call.pending) for before in parts[MARGINS]]
    values = [getattr(margins, call.name)(*call.arguments) for margins in found]
    value = _added(values, extreme=call.name == "flat_ends")
    return ({MARGINS: found}, value) if call.keep else value


def _changed(
    before: Margins, pending: Sequence[tuple[str, tuple[Any, ...]]], *, fresh: bool = False
) -> Margins:
    """Return a copy with pending changes; if `fresh`, with new arrays for multipliers."""
    margins = copy(before)
    for name, arguments in pending:
        getattr(margins, name)(*arguments)
    if fresh:
        margins.alpha, margins.slope = np.empty_like(before.alpha), np.empty_like(before.slope)
    return margins


def _finish(
    pieces: ShardBlocks, parts: ShardState, pending: tuple[tuple[str, tuple[Any, ...]], ...]
) -> tuple[ShardState, tuple[Floats, Floats]]:
    margins = [_changed(before, pending) for before in parts.get(MARGINS, [])]
    if not margins:
        zeros = np.zeros(sum(rows.y.size for rows in parts["rows"]))
        return {}, (zeros, zeros)
    alpha, tau = ([getattr(m, name) for m in margins] for name in ("best_alpha", "best_tau"))
    return {MARGINS: []}, (np.concatenate(alpha), np.concatenate(tau))


def _added(values: Sequence[Any], *, extreme: bool = False) -> Any:
    """Add up sums of blocks, entry by entry; of the ends of intervals take the innermost."""
    first = values[0]
    if extreme:
        return max(value[0] for value in values), min(value[1] for value in values)
    if first is None:
        return None
    if isinstance(first, tuple):
        entries = [_added(entry) for entry in zip(*values, strict=True)]
        return type(first)(*entries) if hasattr(first, "_fields") else tuple(entries)
    if isinstance(first, np.ndarray):
        total = first.copy()
        for value in values[1:]:
            total += value
        return total
    return sum(values[1:], start=first)
