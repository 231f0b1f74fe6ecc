r"""Arrays of Newton's method with one number a row of a linear problem, and sums over the rows.

Scores f = Xw, multipliers α with their slopes, the centre a of the augmented Lagrangian: arrays
with one number a row. The method sees them through sums alone, so that the rows may lie in one
array (:class:`Margins`) or in blocks that are never together in memory
(:mod:`svmcvx.fast.linear.blocks`, where every block has such an object): sums of blocks add up.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.linear import margin_passes as passes
from svmcvx.fast.linear.problem import LinearProblem, RowSums

__all__ = ["Margins", "NormalMatrix", "Observed", "flat_middle"]

Floats: TypeAlias = NDArray[np.float64]

# Entries of one block of dense rows.
BLOCK_ENTRIES = 2**22
# Columns up to which a compiled loop forms the system of dense data sooner than a copy of the rows
# and a matrix product.
NARROW = 24


class NormalMatrix(NamedTuple):
    """Sums of a Newton system in the coordinates of w."""

    H: Floats
    border: Floats
    total: float


class Observed(NamedTuple):
    """Result of :meth:`Margins.prox_step`: sums, and the expansion X'(y(α − τ)) of the multipliers."""

    sums: RowSums
    expansion: Floats


class Margins:
    """Scores and multipliers of the rows of a problem."""

    # Whether all rows are in memory, so that systems of the order of their number can be formed.
    whole = True

    def __init__(self, problem: LinearProblem, alpha: Floats | None = None) -> None:
        self.problem = problem
        n = problem.n
        low, high = problem.loss.domain
        self.centre = (
            np.zeros(n) if alpha is None else np.clip(alpha, low * problem.c, high * problem.c)
        )
        self.alpha, self.slope = np.zeros(n), np.zeros(n)
        self.best_alpha = self.expansion = self.alpha
        self.f = self.df = self.alpha
        # The mean margin with which the multipliers were set, and the multipliers of the variance
        # of the best lower bound.
        self.mean_margin = 0.0
        self.best_tau = self.alpha

    def centre_expansion(self) -> Floats:
        """Return X'(ya) of the centre a."""
        return np.asarray(self.problem.X.T @ (self.problem.y * self.centre))

    def set_point(self, w: Floats) -> None:
        """Set the scores to Xw."""
        self.f = np.asarray(self.problem.X @ w)

    def project(self, dw: Floats) -> None:
        """Set the change of the scores along a step."""
        self.df = np.asarray(self.problem.X @ dw)

    def take_step(self, t: float) -> None:
        """Move the scores along the step."""
        self.f = self.f + t * self.df

    def update_prox_center(self) -> None:
        """Make the multipliers the centre."""
        self.centre = self.alpha.copy()

    def keep(self) -> None:
        """Store the multipliers as those of the best lower bound."""
        self.best_alpha = self.alpha.copy()
        if self.problem.variance > 0:
            self.best_tau = self._deviations(self.f, self.mean_margin)

    def keep_expansion(self) -> None:
        """Store the multipliers as those of the best expansion."""
        self.expansion = self.alpha.copy()

    def mean(self, scores: str) -> float:
        """Return the mean margin of the scores ``"f"`` or of their change ``"df"``."""
        m = self.problem
        return float(m.shares @ (m.y * getattr(self, scores)))

    def _deviations(self, scores: Floats, mean: float) -> Floats:
        """Return the multipliers τ of the variance at scores with this mean margin."""
        m = self.problem
        return np.asarray(2.0 * m.variance * m.shares * (m.y * scores - mean))

    def balance(self, b: float, sigma: float) -> tuple[float, float, float]:
        """Return Σyα, Σ of the slopes, and Σ|α| at a bias."""
        m = self.problem
        found = passes.slope_of_bias(m.loss, self.f, m.y, b, self.centre, m.c, sigma)
        return float(found[0]), float(found[1]), float(found[2])

    def flat_ends(self, b: float, sigma: float) -> tuple[float, float]:
        """Return the moves of the bias to the ends of the interval without slopes."""
        m = self.problem
        left, right = passes.flat_ends(m.loss, self.f, m.y, b, self.centre, m.c, sigma)
        return float(left), float(right)

    def prox_step(self, b: float, sigma: float, mean: float) -> Observed:
        """Set multipliers and slopes; return the sums over the rows. `mean` is the mean of the
        margins, for their variance.
        """
        m = self.problem
        sums = passes.prox_sums(
            m.loss, self.f, m.y, b, self.centre, m.c, sigma, m.norms, self.alpha, self.slope
        )
        conjugate = float(passes.conjugate(m.loss, self.alpha, m.c))
        variance, v = 0.0, self.alpha
        if m.variance > 0:
            self.mean_margin = mean
            tau = self._deviations(self.f, mean)
            # Half of τ'u, because the variance is quadratic.
            variance, v = 0.5 * float(tau @ (m.y * self.f)), self.alpha - tau
        response = RowSums(*map(float, (*sums, conjugate, variance)))
        return Observed(response, np.asarray(m.X.T @ (m.y * v)))

    def loss_of(self, w: Floats, b: float) -> float:
        """Return the sum of the losses at another point."""
        return self.problem.loss_at(np.asarray(self.problem.X @ w), b, self.centre)

    def along(self, t: float, b: float, db: float, sigma: float) -> float:
        """Return the derivative of Σe in t at scores f + t df and bias b + t db."""
        m = self.problem
        return float(passes.along(m.loss, self.f, self.df, t, m.y, b, db, self.centre, m.c, sigma))

    def variance_along(self, mean: float) -> tuple[float, float]:
        """Return τ'f and τ'df for the multipliers τ of the step's variance, whose mean margin is
        `mean`.
        """
        tau = self._deviations(self.df, mean) * self.problem.y
        return float(tau @ self.f), float(tau @ self.df)

    @property
    def _second(self) -> Floats:
        """Second derivatives of the losses, with the second moment of the margins."""
        m = self.problem
        return self.slope + 2.0 * m.variance * m.shares if m.variance > 0 else self.slope

    def curved(self) -> int:
        """Return the number of rows with a second derivative."""
        return int(np.count_nonzero(self._second))

    def mean_gradient(self) -> Floats:
        """Return the gradient of the mean margin."""
        m = self.problem
        return np.asarray(m.X.T @ (m.y * m.shares))

    def normal_matrix(self) -> NormalMatrix:
        """Return the sums of the system in the coordinates of w."""
        X, second = self.problem.X, self._second
        d = X.shape[1]
        H, border = np.zeros((d, d)), np.zeros(d)
        if sp.issparse(X):
            passes.gram_rows(X.data, X.indices, X.indptr, second, H, border)
        elif d <= NARROW:
            passes.gram_narrow(X, second, H, border)
        else:
            rows = np.flatnonzero(second)
            block = max(1, BLOCK_ENTRIES // d)
            for first in range(0, rows.size, block):
                part = rows[first : first + block]
                scaled = X[part]
                border += scaled.T @ second[part]
                scaled *= np.sqrt(second[part])[:, None]
                H += scaled.T @ scaled
        return NormalMatrix(H, border, float(second.sum()))

    def observations(self) -> tuple[Any, Floats]:
        """Return the rows with a second derivative, and these."""
        second = self._second
        rows = np.flatnonzero(second)
        return self.problem.X[rows], second[rows]

    def diagonal(self) -> tuple[Floats, float]:
        """Return the diagonal of X'SX, and the sum of the second derivatives."""
        X, second = self.problem.X, self._second
        n, d = X.shape
        diagonal = np.zeros(d)
        if sp.issparse(X):
            passes.squared_columns(X.data, X.indices, X.indptr, second, diagonal)
        else:
            block = max(1, BLOCK_ENTRIES // d)
            for first in range(0, n, block):
                diagonal += second[first : first + block] @ X[first : first + block] ** 2
        return diagonal, float(second.sum())

    def curvature_product(self, direction: Floats, db: float, mean: float) -> tuple[Floats, float]:
        """Return X'S(X direction + db) and the sum of the middle factor; with a variance, of which
        `mean` is the step's mean margin.
        """
        X, m = self.problem.X, self.problem
        out = np.zeros(direction.size)
        if m.variance > 0:
            scores = np.asarray(X @ direction)
            return (
                np.asarray(X.T @ (self.slope * scores + m.y * self._deviations(scores, mean))),
                0.0,
            )
        if sp.issparse(X):
            moved = passes.curvature_product(
                X.data, X.indices, X.indptr, self.slope, direction, db, out
            )
            return out, float(moved)
        middle = self.slope * (X @ direction + db)
        return np.asarray(X.T @ middle), float(middle.sum())


def flat_middle(left: float, right: float) -> float:
    """Return the move of the bias to the middle of the interval without slopes; 0 if it is
    unbounded.
    """
    return 0.5 * (left + right) if math.isfinite(left) and math.isfinite(right) else 0.0
