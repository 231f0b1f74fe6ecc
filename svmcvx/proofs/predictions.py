r"""Scores of every optimal machine on test rows, from the two ends of the optimum, in ball
arithmetic.

With multipliers β = a + sηd for a sign s, a step η > 0 and directions :math:`d_i = y_ic_i` of
coefficients of sum 1 where the intercept is free (any otherwise), :math:`m = \tfrac12(\hat w +
w_a)` and :math:`h = \varphi(t) - \sum c_i\varphi(x_i)`, every optimal machine has

.. math:: s f^*(t) \ge \frac{D(a) + \sum_i(g_i(\beta_i) - g_i(a_i)) + \tfrac14\|w_a - \hat w\|^2 - U}{\eta}
    - \tfrac14\eta\|h\|^2 + s\langle m, h\rangle

if β is within its bounds: weak duality for the objective plus :math:`\eta s f(t)`, and :math:`P^* +
\tfrac12\|w^* - \hat w\|^2 \le U`. U is the objective at the model, D(a) the dual value, and g the
gain of a multiplier. ``docs/proof_format.md`` says which coefficients are tried; any are valid, so
that they are found in doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

from svmcvx.proofs.balls import (
    BLOCK,
    Ball,
    Balls,
    Matrix,
    balls,
    below,
    combination,
    fractions,
    nonneg,
    norm_squared,
    product,
    total,
)
from svmcvx.proofs.families import margin
from svmcvx.proofs.problem import Problem, dense
from svmcvx.proofs.space import Space, kernel_matrix

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]

# Rows of one linear system, at most.
LARGEST: Final = 400
# Added to its diagonal, relatively to the largest entry, until it can be factored.
RIDGES: Final = (1e-14, 1e-11, 1e-8, 1e-4)
# The square of a radius is at least this. What rounding may add to a step is less than the share
# that is taken from it.
LEAST_SQUARE: Final = 2.0**-200
SHRINK: Final = 1.0 - 2.0**-30


class Tested(NamedTuple):
    """A block of test rows: scores of the centre, squared lengths, and the rows themselves."""

    rows: Floats
    scores: list[Ball]
    squares: list[Ball]


class Machine:
    """Bounds on the optimal machines of a problem."""

    def __init__(self, problem: Problem) -> None:
        upper, lower = margin.FAMILY[problem.formulation]
        self.problem, self.space = problem, Space(problem)
        self.point = margin.MULTIPLIERS[problem.formulation](self.space)
        self.signs = problem.signs
        self.balanced = problem.proof.statement.intercept == "free"
        hard = problem.formulation == "hard_margin"
        divisor = margin.shrink(self.space).ball if hard else arb(1)
        apart = self._place(divisor)
        self.base = (lower(self.space) - upper(self.space)).ball + apart / 4
        self.squared_radius = max(-below(self.base), LEAST_SQUARE)
        self.values = self.point.values.entries
        self.gains = [self.gain(i, a) for i, a in enumerate(self.values)]
        sizes = self.point.values.middle
        self.down = np.full(sizes.size, np.inf) if self.point.signed else sizes
        self.up, self.highest = np.full(sizes.size, np.inf), None
        if self.point.highest is not None:
            self.up = self.point.highest.middle - sizes
            self.highest = self.point.highest.entries

    def gain(self, row: int, a: Ball) -> Ball:
        """Return the gain of a multiplier."""
        rows = np.array([row])
        return arb(0) if a.is_zero() else self.point.gain(rows, Balls([a])).entries[0]

    def _place(self, divisor: Ball) -> Ball:
        """Find the mean of the model and the dual point, and return the squared distance between
        these.
        """
        problem, space, v = self.problem, self.space, self.point.coefficients.entries
        model, bias = problem.proof.model, arb(problem.bias) / divisor
        if space.kernel is None:
            one = balls(model["coef"]) if problem.linear_model else None
            one = one or combination(problem.X[problem.support], balls(model["dual_coef"]))
            other = combination(space.rows, v)
            self.weights = [(a / divisor + c) / 2 for a, c in zip(one, other, strict=True)]
            apart = norm_squared(a / divisor - c for a, c in zip(one, other, strict=True))
            scores = product(space.rows, self.weights)
        else:
            self.rows = np.union1d(problem.index, problem.support)
            full = [arb(0)] * self.rows.size
            for place, c in zip(np.searchsorted(self.rows, problem.index).tolist(), v, strict=True):
                full[place] = c
            given = [arb(0)] * self.rows.size
            places = np.searchsorted(self.rows, problem.support).tolist()
            for place, c in zip(places, balls(model["dual_coef"]), strict=True):
                given[place] = c / divisor
            self.weights = [(a + c) / 2 for a, c in zip(given, full, strict=True)]
            difference = [a - c for a, c in zip(given, full, strict=True)]
            apart = space.expansion(self.rows, difference, constant=False).norm
            scores = space.expansion(self.rows, self.weights, constant=False).scores
        self.constant = arb(0)
        if problem.penalised:
            shift = total(v)
            self.constant = (bias + shift) / 2
            apart += (bias - shift) ** 2
        self.scores = [score + self.constant for score in scores]
        return nonneg(apart)

    def kernel(self, A: Floats, B: Floats) -> Matrix:
        """Return inner products in feature space, a constant feature included."""
        found = kernel_matrix(self.space.kernel, A, B)
        if self.problem.penalised:
            found = arb_mat(found.nrows(), found.ncols(), [x + 1 for x in found.entries()])
        return found

    def tested(self, T: Floats) -> Tested:
        """Prepare test rows."""
        if self.space.kernel is None:
            scores = product(T, self.weights)
        else:
            block = kernel_matrix(self.space.kernel, T, dense(self.problem.X[self.rows]))
            scores = (block * arb_mat(len(self.weights), 1, self.weights)).entries()
        squares = [self.kernel(row[None, :], row[None, :])[0, 0] for row in T]
        return Tested(T, [score + self.constant for score in scores], squares)

    def ends(
        self, T: Tested, chosen: Rows, C: list[list[Ball]], inner: Matrix, side: float
    ) -> list[Ball]:
        """Return lower bounds of the scores, or of minus the scores for a side of −1."""
        found = []
        cross = [total(c * inner[t, i] for i, c in enumerate(row)) for t, row in enumerate(C)]
        shifts = [
            total(c * self.scores[i] for c, i in zip(row, chosen.tolist(), strict=True))
            for row in C
        ]
        squares = [
            s - 2 * k + q for s, k, q in zip(T.squares, cross, self._forms(chosen, C), strict=True)
        ]
        for t, row in enumerate(C):
            sizes = np.array([float(c) for c in row])
            step = self._step(chosen, side * sizes, max(float(squares[t]), 0.0))
            if not step > 0.0:
                found.append(arb("-inf"))
                continue
            eta, gained = arb(step), arb(0)
            for i, c in zip(chosen.tolist(), row, strict=True):
                if not c.is_zero():
                    beta = self.values[i] + eta * (c if side * self.signs[i] > 0 else -c)
                    highest = None if self.highest is None else self.highest[i]
                    inside = (self.point.signed or beta >= 0) and (
                        highest is None or beta <= highest
                    )
                    gained += self.gain(i, beta) - self.gains[i] if inside else arb("-inf")
            centre = T.scores[t] - shifts[t]
            bound = (self.base + gained) / eta - eta * squares[t] / 4
            found.append(bound + (centre if side > 0 else -centre))
        return found

    def _forms(self, chosen: Rows, C: list[list[Ball]]) -> list[Ball]:
        """The squared norms of Σ cφ(x)."""
        if not chosen.size:
            return [arb(0)] * len(C)
        rows = dense(self.problem.X[self.problem.index[chosen]])
        matrix = arb_mat(C)
        parts = (matrix * self.kernel(rows, rows)).entries()
        return [
            total(c * x for c, x in zip(row, parts[t * chosen.size :], strict=False))
            for t, row in enumerate(C)
        ]

    def _step(self, chosen: Rows, c: Floats, square: float) -> float:
        """A good step within the bounds."""
        d = self.signs[chosen] * c
        bend = 0.25 * square + 0.5 * float((self.point.bends[chosen] * d * d).sum())
        room = np.where(d > 0, self.up[chosen], self.down[chosen])
        with np.errstate(divide="ignore", invalid="ignore"):
            most = float(np.min(np.where(d == 0, np.inf, room / np.abs(d)), initial=np.inf))
        wanted = math.sqrt(self.squared_radius / bend) if bend > 0 else math.inf
        return min(wanted, most * SHRINK, 2.0**500)

    def with_room(self) -> tuple[Rows, Floats]:
        """Rows whose multipliers can change in both directions, the most suitable ones, and the
        regularisation of their system.
        """
        room = np.minimum(self.up, self.down)
        rows = np.flatnonzero((room > 0) & np.isfinite(self.point.bends))
        with np.errstate(over="ignore", divide="ignore"):
            added = 2.0 * self.point.bends[rows] + self.squared_radius / room[rows] ** 2
        rows, added = rows[np.isfinite(added)], added[np.isfinite(added)]
        best = np.sort(np.argsort(added, kind="stable")[:LARGEST])
        return rows[best], added[best]


def score_ends(problem: Problem, T: Any, precision: int) -> tuple[Floats, Floats]:
    """Return both ends of the score of every optimal machine on test rows, infinite where nothing
    is proved.
    """
    with ctx.workprec(precision):
        machine = Machine(problem)
        chosen, added = machine.with_room()
        m = int(T.shape[0])
        lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
        width = max(1, BLOCK // max(problem.n, int(T.shape[1])))
        for start in range(0, m, width):
            part = slice(start, start + width)
            tested = machine.tested(dense(T[part]))
            lower[part], upper[part] = _both_ends(machine, tested, chosen, added)
    return lower, upper


def _both_ends(machine: Machine, T: Tested, chosen: Rows, added: Floats) -> tuple[Floats, Floats]:
    """The best ends of a block of rows by the system, by no coefficients at all, and by single
    ones.
    """
    m = len(T.scores)
    found = {side: np.full(m, -np.inf) for side in (1.0, -1.0)}

    def take(
        which: Rows, some: Tested, rows: Rows, C: list[list[Ball]], inner: Matrix, side: float
    ) -> None:
        ends = np.array([below(end) for end in machine.ends(some, rows, C, inner, side)])
        found[side][which] = np.maximum(found[side][which], ends)

    every, none = np.arange(m), np.zeros(0, dtype=np.intp)
    if chosen.size:
        rows = dense(machine.problem.X[machine.problem.index[chosen]])
        inner = machine.kernel(T.rows, rows)
        C = _coefficients(machine.kernel(rows, rows), inner, added, balanced=machine.balanced)
        for side in (1.0, -1.0) if C else ():
            take(every, T, chosen, C, inner, side)
    if not machine.balanced:
        for side in (1.0, -1.0):
            take(every, T, none, [[] for _ in range(m)], arb_mat(m, 0), side)
        return found[1.0], -found[-1.0]
    open_rows = np.flatnonzero(~((found[1.0] > 0) | (-found[-1.0] <= 0)))
    if open_rows.size:
        some = Tested(
            T.rows[open_rows], [T.scores[t] for t in open_rows], [T.squares[t] for t in open_rows]
        )
        _take_single(machine, some, lambda *ends: take(open_rows, *ends))
    return found[1.0], -found[-1.0]


def _take_single(machine: Machine, T: Tested, take: Callable[..., None]) -> None:
    """Take in what single rows with the coefficient 1 say, for each test row the one that promises
    most.
    """
    problem, point = machine.problem, machine.point
    inner = machine.kernel(T.rows, dense(problem.X[problem.index]))
    own = np.array(
        [
            float(machine.kernel(row, row)[0, 0])
            for row in dense(problem.X[problem.index])[:, None, :]
        ]
    )
    products = np.array([float(x) for x in inner.entries()]).reshape(len(T.scores), problem.n)
    lengths = np.array([float(x) for x in T.squares])
    bend = 0.25 * np.maximum(lengths[:, None] - 2.0 * products + own, 0.0) + 0.5 * point.bends
    targets = machine.signs * point.slopes - np.array([float(x) for x in machine.scores])
    for side in (1.0, -1.0):
        room = np.where(side * machine.signs > 0, machine.up, machine.down)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.minimum(np.sqrt(machine.squared_radius / bend), room)
            promise = side * targets - machine.squared_radius / step - step * bend
        best = np.argmax(np.nan_to_num(np.where(room > 0, promise, -np.inf), nan=-np.inf), axis=1)
        rows = np.unique(best)
        C = [[arb(int(row == one)) for row in rows] for one in best]
        entries = [[inner[t, int(row)] for row in rows] for t in range(best.size)]
        take(T, rows, C, arb_mat(entries), side)


def _coefficients(
    gram: Matrix, inner: Matrix, added: Floats, *, balanced: bool
) -> list[list[Ball]]:
    """Coefficients that make h short, found in doubles; their sum is exactly 1 if it has to be.
    None if the system is singular.
    """
    r, m = gram.nrows(), inner.nrows()
    K, k = (list(matrix.entries()) for matrix in (gram, inner))
    if balanced:
        # Where Σc = 1 the rows may be seen from their mean.
        means = [total(K[i * r : (i + 1) * r]) / r for i in range(r)]
        mean = total(means) / r
        own = [total(k[t * r : (t + 1) * r]) / r for t in range(m)]
        k = [k[t * r + i] - means[i] - own[t] + mean for t in range(m) for i in range(r)]
        K = [K[i * r + j] - means[i] - means[j] + mean for i in range(r) for j in range(r)]
    system = np.array([float(x) for x in K]).reshape(r, r)
    right = np.array([float(x) for x in k]).reshape(m, r).T
    scale = float(np.abs(np.diag(system)).max()) or 1.0
    for ridge in RIDGES:
        try:
            factor = scipy.linalg.cho_factor(system + np.diag(added + ridge * scale), lower=True)
        except (scipy.linalg.LinAlgError, ValueError):
            continue
        c = scipy.linalg.cho_solve(factor, right)
        if balanced:
            ones = scipy.linalg.cho_solve(factor, np.ones((r, 1)))
            c = c + ones * ((1.0 - c.sum(axis=0)) / ones.sum())
        if not np.isfinite(c).all():
            continue
        found = [fractions(column) for column in c.T]
        if balanced:
            taker = int(np.argmin(added))
            for column in found:
                column[taker] += 1 - sum(column)
        return [[arb(x) for x in column] for column in found]
    return []
