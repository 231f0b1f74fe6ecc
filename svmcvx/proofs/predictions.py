r"""Scores of every optimal machine on test rows, from the two ends of the optimum, in ball
arithmetic.

``docs/proof_format.md``, section Scores, proves the bound: with multipliers β = a + sηd for a sign
s, a step η > 0 and directions :math:`d_i = y_ic_i` of coefficients of sum 1 where the intercept is
free (any otherwise), :math:`m = \tfrac12(\hat w + w_a)` and :math:`h = \varphi(t) - \sum
c_i\varphi(x_i)`, every optimal machine has

.. math:: s f^*(t) \ge \frac{D(a) + g(\beta) - g(a) + \tfrac14\|w_a - \hat w\|^2 - U}{\eta}
    - \tfrac14\eta\|h\|^2 + s\langle m, h\rangle.

Any coefficients are valid, so that they are found in doubles.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import scipy.linalg
from flint import arb

from svmcvx.proofs import margin
from svmcvx.proofs.balls import Balls, Fractions, as_matrix, below, fractions
from svmcvx.proofs.intervals import BLOCK, Floats, Rows
from svmcvx.proofs.problem import Problem, bias_of, dense
from svmcvx.proofs.space import Space

# Rows of one linear system, at most.
LARGEST: Final = 400


class Tested(NamedTuple):
    """A block of test rows: the rows themselves, scores of the centre, and squared lengths."""

    rows: Floats
    scores: Balls
    squares: Balls


class Machine:
    """Bounds on the optimal machines of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.signs, self.space = problem, problem.signs, Space(problem, Balls)
        upper, multipliers = margin.POINTS[problem.formulation]
        self.point = multipliers(self.space)
        apart = self._place()
        self.base = margin.lower_end(self.space) - upper(self.space) + apart * 0.25
        # Not 0, by which bounds would be divided.
        self.squared_radius = max(-below(self.base.ball), 2.0**-200)
        self.gains = self.point.gain(np.arange(problem.n), self.point.values)
        sizes, highest = self.point.values.middle, self.point.highest
        self.down = np.full(sizes.size, np.inf) if self.point.signed else sizes
        self.up = np.full(sizes.size, np.inf) if highest is None else highest.middle - sizes

    def _place(self) -> Balls:
        """Find the mean of the model and the dual point; return their squared distance."""
        problem, space, v = self.problem, self.space, self.point.coefficients
        model, divisor = problem.proof.model, Balls.exactly(1.0)
        if problem.formulation == "hard_margin":
            divisor = margin.shrink(space)
        given = Balls.exactly(model["coef" if problem.linear_model else "dual_coef"])
        if space.kernel is None:
            if not problem.linear_model:
                given = Balls.times(dense(problem.X[problem.support]).T, given)
            own = Balls.times(dense(space.rows).T, v)
        else:
            self.rows = np.union1d(problem.index, problem.support)
            given, own = (
                values.scatter(self.rows.size, np.searchsorted(self.rows, rows))
                for values, rows in ((given, problem.support), (v, problem.index))
            )
        given = given / divisor
        self.weights, difference = (given + own) * 0.5, given - own
        if space.kernel is None:
            self.scores = Balls.times(space.rows, self.weights)
            apart = (difference * difference).sum()
        else:
            self.scores = space.expansion(self.rows, self.weights).scores
            apart = space.expansion(self.rows, difference).norm
        bias, shift = Balls.exactly(bias_of(problem.proof)) / divisor, v.sum()
        self.constant = Balls.exactly(0.0)
        if problem.penalised:
            self.constant = (bias + shift) * 0.5
            apart = apart + (bias - shift) * (bias - shift)
        self.scores = self.scores + self.constant
        return apart.nonneg()

    def kernel(self, A: Floats, B: Floats) -> Balls:
        """Return inner products in feature space, a constant feature included."""
        entries = Balls.kernel(self.space.kernel, A, B).entries()
        found: Balls = Balls(np.reshape(entries, (len(A), len(B)))) + float(self.problem.penalised)
        return found

    def squares(self, rows: Floats) -> Balls:
        """Return squared lengths in feature space."""
        return Balls([self.kernel(row, row).ball for row in rows[:, None, :]])

    def tested(self, T: Floats) -> Tested:
        matrix: Any = T
        if self.space.kernel is not None:
            matrix = Balls.kernel(self.space.kernel, T, dense(self.problem.X[self.rows]))
        scores = Balls.times(matrix, self.weights) + self.constant
        return Tested(T, scores, self.squares(T))

    def data(self, chosen: Rows) -> Floats:
        return dense(self.problem.X[self.problem.index[chosen]])

    def ends(self, T: Tested, chosen: Rows, C: Balls, inner: Balls, side: float) -> Floats:
        """Return lower bounds of side × score by coefficients of chosen rows, one row per score."""
        point, centre = self.point, T.scores - (C * self.scores[chosen]).sum(axis=1)
        squares = T.squares - (C * inner).sum(axis=1) * 2.0
        if chosen.size:
            X = self.data(chosen)
            products = (as_matrix(C) * as_matrix(self.kernel(X, X))).entries()
            squares = squares + (C * np.reshape(products, C.values.shape)).sum(axis=1)
        step = self._steps(chosen, C.middle * self.signs[chosen] * side, squares.middle)
        t, i = np.nonzero(C.nonzero)
        rows = chosen[i]
        beta = point.values[rows] + C[t, i] * (side * self.signs[rows] * step[t])
        inside = point.signed | np.asarray(beta.values >= 0, dtype=bool)
        if point.highest is not None:
            inside &= np.asarray(beta.values <= point.highest[rows].values, dtype=bool)
        gained = np.full(C.values.shape, arb(0), dtype=object)
        change = (point.gain(rows, beta) - self.gains[rows]).values
        gained[t, i] = np.where(inside, change, arb("-inf"))
        eta = Balls.exactly(np.where(step > 0.0, step, 1.0))
        bound = (self.base + Balls(gained).sum(axis=1)) / eta - eta * squares * 0.25
        found = np.array([below(end) for end in (bound + centre * side).entries])
        return np.asarray(np.where(step > 0.0, found, -np.inf))

    def _steps(self, chosen: Rows, d: Floats, squares: Floats) -> Floats:
        room = np.where(d > 0, self.up[chosen], self.down[chosen])
        with np.errstate(all="ignore"):
            bend = 0.25 * np.maximum(squares, 0.0) + 0.5 * (d * d) @ self.point.bends[chosen]
            most = np.where(d == 0, np.inf, room / np.abs(d)).min(axis=1, initial=np.inf)
            wanted = np.where(bend > 0, np.sqrt(self.squared_radius / bend), np.inf)
        # Rounding adds less to a step than the share that is taken from it.
        return np.asarray(np.minimum(np.minimum(wanted, most * (1.0 - 2.0**-30)), 2.0**500))

    def with_room(self) -> tuple[Rows, Floats]:
        """Return the best rows with room in both directions, and their regularisation."""
        room = np.minimum(self.up, self.down)
        rows = np.flatnonzero((room > 0) & np.isfinite(self.point.bends))
        with np.errstate(over="ignore", divide="ignore"):
            added = 2.0 * self.point.bends[rows] + self.squared_radius / room[rows] ** 2
        rows, added = rows[np.isfinite(added)], added[np.isfinite(added)]
        best = np.sort(np.argsort(added, kind="stable")[:LARGEST])
        return rows[best], added[best]

    def promising(self, T: Tested, inner: Balls, side: float) -> Rows:
        """Return the single row with the coefficient 1 that promises most for each test row."""
        own, point = self.squares(self.data(np.arange(self.problem.n))).middle, self.point
        bend = 0.25 * np.maximum(T.squares.middle[:, None] - 2.0 * inner.middle + own, 0.0)
        bend += 0.5 * point.bends
        targets = self.signs * point.slopes - self.scores.middle
        room = np.where(side * self.signs > 0, self.up, self.down)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.minimum(np.sqrt(self.squared_radius / bend), room)
            promise = side * targets - self.squared_radius / step - step * bend
        promise = np.nan_to_num(np.where(room > 0, promise, -np.inf), nan=-np.inf)
        return np.asarray(np.argmax(promise, axis=1))


def score_ends(problem: Problem, T: Any) -> tuple[Floats, Floats]:
    """Return both ends of the score of every optimal machine, infinite where nothing is proved."""
    machine, m = Machine(problem), int(T.shape[0])
    chosen, added = machine.with_room()
    X, none = machine.data(chosen), np.zeros(0, dtype=np.intp)
    found = {side: np.full(m, -np.inf) for side in (1.0, -1.0)}
    width = max(1, BLOCK // max(problem.n, int(T.shape[1])))
    for start in range(0, m, width):
        part = np.arange(start, min(start + width, m))
        tested = machine.tested(dense(T[part]))
        choices: list[tuple[Rows, Any, Balls]] = []
        if chosen.size:
            inner = machine.kernel(tested.rows, X)
            C = _coefficients(machine.kernel(X, X), inner, added, balanced=problem.free)
            choices += [] if C is None else [(chosen, C, inner)]
        if not problem.free:
            choices.append((none, np.zeros((part.size, 0)), Balls(np.zeros((part.size, 0)))))
        for side, best in found.items():
            for rows, C, inner in choices:
                ends = machine.ends(tested, rows, Balls.exactly(C), inner, side)
                best[part] = np.maximum(best[part], ends)
        undecided = np.flatnonzero(~((found[1.0][part] > 0) | (-found[-1.0][part] <= 0)))
        if not (problem.free and undecided.size):
            continue
        tested = Tested(tested.rows[undecided], tested.scores[undecided], tested.squares[undecided])
        part = part[undecided]
        inner = machine.kernel(tested.rows, machine.data(np.arange(problem.n)))
        for side, best in found.items():
            row = machine.promising(tested, inner, side)
            rows, C = np.unique(row), (row[:, None] == np.unique(row)).astype(np.float64)
            ends = machine.ends(tested, rows, Balls.exactly(C), inner[:, rows], side)
            best[part] = np.maximum(best[part], ends)
    return found[1.0], -found[-1.0]


def _coefficients(gram: Balls, inner: Balls, added: Floats, *, balanced: bool) -> Fractions | None:
    """Return coefficients that make h short, of sum 1 if balanced; None for a singular system."""
    if balanced:
        # Where Σc = 1 the rows may be seen from their mean.
        r = float(gram.values.shape[0])
        means = gram.sum(axis=0) / r
        inner = inner - means - (inner.sum(axis=1) / r)[:, None] + means.sum() / r
        gram = gram - means - means[:, None] + means.sum() / r
    system, right = gram.middle, inner.middle.T
    scale = float(np.abs(np.diag(system)).max()) or 1.0
    # Added to the diagonal, relatively to the largest entry, until it can be factored.
    for ridge in (1e-14, 1e-11, 1e-8, 1e-4):
        try:
            factor = scipy.linalg.cho_factor(system + np.diag(added + ridge * scale), lower=True)
        except (scipy.linalg.LinAlgError, ValueError):
            continue
        c = scipy.linalg.cho_solve(factor, right)
        if balanced:
            ones = scipy.linalg.cho_solve(factor, np.ones((system.shape[0], 1)))
            c = c + ones * ((1.0 - c.sum(axis=0)) / ones.sum())
        if np.isfinite(c).all():
            found = fractions(c.T)
            if balanced:
                found[:, np.argmin(added)] += 1 - found.sum(axis=1)
            return found
    return None
