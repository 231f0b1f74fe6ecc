"""The pSVM of many pairs of classes, or of each class against the rest: their objectives and dual objectives as arrays, one number a problem.

The formulas are those of :mod:`svmcvx.formulations.margin.psvm`. What is shared is evaluated once: rows of the kernel
matrix, and the products of a class with the normals of all problems that it takes part in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import Bounded, exact, positive_part, segment_totals, signed
from svmcvx.core.exactly import product_below, segment_imbalances
from svmcvx.core.rows import Ball, Rows, added_rows, inner_error, squared_norms
from svmcvx.errors import NotCertified
from svmcvx.formulations.margin.psvm import dual_objective, objective
from svmcvx.kernels import Kernel
from svmcvx.kernels.class_rows import ClassRows, Layout

__all__ = ["PSVMParts", "PartsPoint"]

Floats: TypeAlias = NDArray[np.float64]

# Multiplications up to which the products of all rows with all normals are one product, though a normal needs its own rows alone.
FEW = 500_000


class PartsPoint(NamedTuple):
    """Multipliers of all problems, and a model of each.

    Attributes
    ----------
    alpha : ndarray
        For each problem one multiplier an observation, in the order of the layout.
    bias : ndarray of shape (problems,)
        The intercepts of the models.
    coef : ndarray of shape (problems, d) or None
        Normals of linear models; models with a kernel are expansions with the coefficients α y.
    """

    alpha: Floats
    bias: Floats
    coef: Floats | None


@dataclass(frozen=True, eq=False)
class PSVMParts:
    """The problems bound to their data.

    Parameters
    ----------
    rows : ClassRows
        For a linear machine those of the centred rows.
    layout : Layout
    y : ndarray
        Labels ±1, of all problems one after another.
    weight : ndarray or float
        Weights of the losses alike; the number 1 where all are 1.
    C, p : float
    centre : ndarray of shape (d,)
        What was subtracted from the rows of a linear machine.
    """

    rows: ClassRows
    layout: Layout
    y: Floats
    weight: Floats | float
    C: float
    p: float
    centre: Floats

    @property
    def kernel(self) -> Kernel | None:
        """The kernel; None for linear machines."""
        return self.rows.kernel

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the numbers of each problem begin."""
        return self.layout.offsets[:-1]

    @cached_property
    def cost_below(self) -> Floats:
        """The largest numbers that are at most C s_i."""
        if isinstance(self.weight, float):
            return np.full(self.y.size, self.C)
        return product_below(self.C, self.weight)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.rows.X, shifted=bool(self.centre.any()))

    @cached_property
    def _few(self) -> bool:
        """Whether one product of all rows with all normals costs less than several smaller ones."""
        return self.rows.X.size * self.layout.parts <= FEW

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row and the problem of each number of their arrays."""
        return self.layout.all_rows, self.layout.spread(np.arange(self.layout.parts))

    @cached_property
    def _groups(self) -> list[tuple[Rows, NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]]:
        """Of each group: its rows, on which side of which problems it stands, and where its numbers are in their arrays, shape (problems, rows)."""
        layout, found, whole = self.layout, [], self._rows
        for group, (first, last) in enumerate(pairwise(layout.starts.tolist())):
            side, part = np.nonzero((layout.groups == group).T)
            begins = layout.offsets[part] + side * (layout.sizes[part] - (last - first))
            rows = Rows(whole.X[first:last], whole.norms[first:last], shifted=whole.shifted)
            found.append((rows, side, part, begins[:, None] + np.arange(last - first)))
        return found

    @cached_property
    def _last(self) -> dict[str, tuple[Floats, Any]]:
        return {}

    def _last_or_new(self, name: str, argument: Floats, compute: Callable[[], Any]) -> Any:
        """Return what was computed last under a name, computed anew if its argument was another one."""
        if name not in self._last or not np.array_equal(self._last[name][0], argument):
            self._last[name] = argument.copy(), compute()
        return self._last[name][1]

    def normals(self, alpha: Floats) -> tuple[Floats, Floats]:
        """Return X'v with v = αy of each problem, shape (problems, d), and its distance to the exact one. The last is kept.

        It is that of centred rows, which is the same for a v of sum 0.
        """
        found: tuple[Floats, Floats] = self._last_or_new("normals", alpha, lambda: self._normals(alpha * self.y))
        return found

    def _normals(self, v: Floats) -> tuple[Floats, Floats]:
        count, d = self.layout.parts, self.rows.X.shape[1]
        if self._few:
            table = np.zeros((self.rows.X.shape[0], count))
            table[self._places] = v
            whole, off = self._rows.combined_columns(table)
            return np.ascontiguousarray(whole.T), off
        sides = np.zeros((2, count, d)), np.zeros((2, count))
        for rows, side, part, places in self._groups:
            found, off = rows.combined_columns(v[places].T)
            sides[0][side, part], sides[1][side, part] = found.T, off
        return added_rows(sides[0][0], sides[0][1], sides[1])

    def linear_scores(self, W: Floats) -> Bounded:
        """Return the inner products of the centred rows with the normal of their problem. The last are kept."""
        found: Bounded = self._last_or_new("linear scores", W, lambda: self._linear_scores(W))
        return found

    def _linear_scores(self, W: Floats) -> Bounded:
        if self._few:
            every = self._rows @ Ball(np.ascontiguousarray(W.T))
            return Bounded(every.value[self._places], np.broadcast_to(every.error, every.shape)[self._places])
        value, error = np.empty(self.y.size), np.empty(self.y.size)
        for rows, _, part, places in self._groups:
            found = rows @ Ball(np.ascontiguousarray(W[part].T))
            value[places], error[places] = found.value.T, np.broadcast_to(found.error, found.shape).T
        return Bounded(value, error)

    def scores(self, alpha: Floats) -> Bounded | None:
        """Return Kv with v = αy; None if there was no room for the rows. The last is kept."""
        found: Bounded | None = self._last_or_new(
            "scores", alpha, lambda: self.rows.products(self.layout, alpha * self.y)
        )
        return found

    def kernel_scores(self, alpha: Floats) -> Bounded:
        """Return Kv with v = αy.

        Raises
        ------
        NotCertified
            If there was no room for the rows.
        """
        found = self.scores(alpha)
        if found is None:
            raise NotCertified("there was no room for the rows of the kernel; raise cache_size")
        return found

    def _squared_norm(self, alpha: Floats) -> Bounded:
        """Return v'Kv with v = αy. The last is kept."""

        def compute() -> Bounded:
            found = segment_totals(exact(alpha * self.y) * self.kernel_scores(alpha), self.starts)
            nonnegative: Bounded = positive_part(found)
            return nonnegative

        kept: Bounded = self._last_or_new("squared norm", alpha, compute)
        return kept

    def evaluate(self, point: PartsPoint) -> tuple[Bounded, Bounded]:
        """½‖w‖² and C Σ s (1 − u)₊^p at the models."""
        if point.coef is None:
            squares, f, bias = self._squared_norm(point.alpha), self.kernel_scores(point.alpha), exact(point.bias)
        else:
            W, d = point.coef, point.coef.shape[1]
            squares, f = squared_norms(W, np.zeros(W.shape[0])), self.linear_scores(W)
            moved = Bounded(W @ self.centre, inner_error(d + 1, np.abs(W) @ np.abs(self.centre)))
            bias = moved + point.bias
        u = signed(
            self.y,
            f
            + Bounded(
                *(self.layout.spread(np.broadcast_to(part, point.bias.shape)) for part in (bias.value, bias.error))
            ),
        )
        losses = objective(
            0.0,
            u,
            C=exact(self.C),
            p=exact(self.p),
            weight=self.weight,
            add=partial(segment_totals, starts=self.starts),
        )
        return 0.5 * squares, losses

    def dual_violation(self, point: PartsPoint) -> Floats:
        """Largest of −α, the excess of α over its upper bound, and |y'α|."""
        alpha, starts = point.alpha, self.starts
        outside = np.maximum(-alpha, alpha - self.cost_below if self.p == 1 else -np.inf)
        outside = np.where(np.isfinite(alpha), np.maximum(outside, 0.0), np.inf)
        return np.maximum(np.maximum.reduceat(outside, starts), np.abs(segment_imbalances(alpha, self.y, starts)))

    def evaluate_dual(self, point: PartsPoint) -> Bounded:
        """D at feasible multipliers."""
        linear = point.coef is not None
        squares = squared_norms(*self.normals(point.alpha)) if linear else self._squared_norm(point.alpha)
        found: Bounded = dual_objective(
            exact(point.alpha),
            squares,
            C=exact(self.C),
            p=exact(self.p),
            weight=self.weight,
            add=partial(segment_totals, starts=self.starts),
        )
        return found

    def objective_without_normal(self) -> Floats:
        """Return the smallest objective at w = 0 of each problem, for p = 1 or 2, up to rounding."""
        weight: Any = self.weight
        one, other = (np.add.reduceat(weight * (self.y * sign > 0.0), self.starts) for sign in (1.0, -1.0))
        least: Floats = np.minimum(one, other)
        # At p = 2 the best intercept is the weighted mean of the labels.
        return 2.0 * self.C * least * (1.0 if self.p == 1 else 2.0 * np.maximum(one, other) / (one + other))
