"""The pSVM of many pairs of classes, or of each class against the rest: their objectives and dual
objectives as arrays, one number per problem.

The formulas are those of :mod:`svmcvx.formulations.margin`. What is shared is evaluated
once: rows of the kernel matrix, and the products of a class with the normals of all problems that
it takes part in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import PartsEvaluation
from svmcvx.certificate.bounded import (
    GROW,
    Bounded,
    exact,
    growth,
    positive_part,
    quietly,
    roundings,
    row_sums,
    signed,
    sums_of_parts,
)
from svmcvx.certificate.bounded import square as bounded_square
from svmcvx.certificate.exactly import LARGEST_BITS, SMALLEST, SUM_BITS, imbalance, product_below
from svmcvx.certificate.rows import inner_error, row_norms_above, summed_rows, sums_above
from svmcvx.errors import NotCertified
from svmcvx.formulations.base import latest
from svmcvx.formulations.margin import dual_objective, objective
from svmcvx.kernels.class_rows import ClassRows, Layout


class PartsPoint(NamedTuple):
    """Multipliers and biases of all problems; a model has the normal or the expansion of α y."""

    alpha: Floats
    bias: Floats


@dataclass(frozen=True, eq=False)
class PSVMParts:
    """The problems bound to their data."""

    rows: ClassRows
    layout: Layout
    y: Floats
    weight: Floats | float
    C: float
    p: float
    centre: Floats

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        return self.layout.offsets[:-1]

    @cached_property
    def positives(self) -> NDArray[np.int64]:
        """Number of observations of the positive class of each problem."""
        return np.add.reduceat(self.y > 0.0, self.starts, dtype=np.int64)

    @cached_property
    def cost_below(self) -> Floats:
        """The largest numbers that are at most C s_i."""
        return np.full(self.y.size, product_below(self.C, self.weight))

    @cached_property
    def _few(self) -> bool:
        """Whether one product of all rows with all normals costs less than several smaller ones."""
        return self.rows.X.size * self.layout.parts <= 500_000

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row and the problem of each number."""
        return self.layout.all_rows, np.repeat(np.arange(self.layout.parts), self.layout.sizes)

    @cached_property
    def _groups(self) -> list[tuple[Floats, NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]]:
        """Per group: rows, side and problem of each use, and the places of its numbers."""
        layout, found = self.layout, []
        for group, (first, last) in enumerate(pairwise(layout.starts.tolist())):
            side, part = np.nonzero((layout.groups == group).T)
            begins = layout.offsets[part] + side * (layout.sizes[part] - (last - first))
            found.append(
                (self.rows.X[first:last], side, part, begins[:, None] + np.arange(last - first))
            )
        return found

    @latest
    def normals(self, alpha: Floats) -> tuple[Floats, int]:
        """Return X'αy of the centred rows per problem, and the number of terms of its errors."""
        v, count, d = alpha * self.y, self.layout.parts, self.rows.X.shape[1]
        if self._few:
            table = np.zeros((self.rows.X.shape[0], count))
            table[self._places] = v
            whole, terms = summed_rows(self.rows.X, table)
            return np.ascontiguousarray(whole.T), terms
        sides, most = np.zeros((2, count, d)), 0
        for rows, side, part, places in self._groups:
            found, terms = summed_rows(rows, v[places].T)
            sides[side, part], most = found.T, max(most, terms)
        return sides[0] + sides[1], most + 1

    @latest
    def linear_scores(self, W: Floats) -> Floats:
        """Return the inner products of the centred rows with the normals of their problems."""
        if self._few:
            return np.asarray((self.rows.X @ np.ascontiguousarray(W.T))[self._places])
        value = np.empty(self.y.size)
        for rows, _, part, places in self._groups:
            value[places] = (rows @ np.ascontiguousarray(W[part].T)).T
        return value

    @latest
    def scores(self, alpha: Floats) -> Bounded | None:
        """Return Kv with v = αy; None if there was no room for the rows."""
        return self.rows.products(self.layout, alpha * self.y)

    @quietly
    def evaluate(self, point: PartsPoint) -> PartsEvaluation:
        """Return ½‖w‖², C Σ s (1 − u)₊^p, D, and the violation of the box and of y'α = 0."""
        alpha, sizes = np.ascontiguousarray(point.alpha), self.layout.sizes
        violation, b = self._violations(alpha), cast(Any, point.bias.repeat(sizes))
        summed = partial(
            sums_of_parts, starts=self.starts, sizes=sizes, largest=self.layout.largest
        )
        if self.rows.kernel is not None:
            f = self.scores(alpha)
            if f is None:
                raise NotCertified("there was no room for the rows of the kernel; raise cache_size")
            square = lower_square = positive_part(summed(f * (alpha * self.y)))
        else:
            W, terms = self.normals(alpha)
            d, shifted = W.shape[1], bool(self.centre.any())
            norms = row_norms_above(self.rows.X)[self.layout.all_rows]
            # The normal is computed from the multipliers; its distance from the exact one.
            reach = sums_above(np.add.reduceat(norms * np.abs(alpha), self.starts), alpha.size)
            distance = inner_error(terms + 1 + shifted, reach)
            square = row_sums(bounded_square(exact(W)))
            lengths = row_norms_above(W)
            lower_square = square.widened((2.0 * lengths + distance) * distance)
            # Scores are inner products of rows with the normal as it is.
            relative = (roundings(d + shifted) * growth(d)) * lengths
            f = Bounded(
                self.linear_scores(W), norms * relative.repeat(sizes) * GROW + (d + 4.0) * SMALLEST
            )
            if shifted:
                moved = exact(W) @ self.centre + point.bias
                b = Bounded(moved.value.repeat(sizes), moved.error.repeat(sizes))
        # Both exponents of p = 1 and 2 are exact.
        p: Any = self.p if self.p in (1, 2) else exact(self.p)
        given = {"C": exact(self.C), "p": p, "weight": self.weight, "summed": summed}
        return PartsEvaluation(
            0.5 * square,
            objective(0.0, signed(self.y, f + b), **given),
            dual_objective(exact(alpha), lower_square, **given),
            violation,
        )

    def _violations(self, alpha: Floats) -> Floats:
        """Return the violations of all problems; multipliers on a grid are added as integers."""
        starts, size = self.starts, np.abs(alpha)
        outside = np.maximum(-alpha, alpha - self.cost_below) if self.p == 1 else -alpha
        largest = np.maximum.reduceat(size, starts)
        bits = min(LARGEST_BITS, SUM_BITS - int(self.layout.largest).bit_length())
        # A grid no finer than 2⁻¹⁰⁰⁰, so that units are numbers.
        exponent = np.maximum(np.frexp(largest)[1] - bits, -1000)
        v, unit = self.y * alpha, np.ldexp(1.0, exponent).repeat(self.layout.sizes)
        whole = np.rint(v / unit).astype(np.int64)
        exactly = whole * unit == v
        off = np.ldexp(np.abs(np.add.reduceat(whole, starts)).astype(np.float64), exponent)
        found: Floats = np.maximum(np.maximum.reduceat(outside, starts), off)
        for part in np.flatnonzero(~np.logical_and.reduceat(exactly, starts)).tolist():
            own = self.layout.slices[part]
            if math.isfinite(largest[part]):
                off = abs(imbalance(alpha[own], self.y[own]))
                found[part] = max(float(outside[own].max()), off)
            else:
                found[part] = math.inf
        return found

    def objective_without_normal(self) -> Floats:
        """Return the smallest objective at w = 0 per problem, up to rounding."""
        one: Any = self.positives
        other: Any = self.layout.sizes - one
        if isinstance(self.weight, np.ndarray):
            one, other = (
                np.add.reduceat(self.weight * (self.y * sign > 0.0), self.starts)
                for sign in (1.0, -1.0)
            )
        least, most = np.minimum(one, other), np.maximum(one, other)
        # With the best intercept, slacks are 2t/(1 + t) and 2/(1 + t); t = 0 for p = 1.
        t = (least / most) ** (1.0 / (self.p - 1.0)) if self.p > 1 else np.zeros(one.size)
        found: Floats = self.C * (2.0 / (1.0 + t)) ** self.p * (most * t**self.p + least)
        return found
