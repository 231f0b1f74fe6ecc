r"""Scores of several classes: their differences on training data, and what the multipliers of these
sum to.

One linear score a class, :math:`S = XW + 1b'`, of shape (n, c). The differences

.. math:: f_{ik} = S_{iy_i} - S_{ik}, \qquad k \ne y_i,

are kept as a matrix of shape (n, c − 1) whose column j is the j-th class other than :math:`y_i`.
With weights :math:`s_i` and multipliers :math:`\alpha_{ik} = s_i a_{ik}` the conjugates of the
losses (:mod:`svmcvx.formulations.multiclass.losses`) give

.. math::
    \sum_i s_i\,\ell(f_i) \;\ge\; \sum_i s_i\, g(\alpha_i/s_i) - \langle G, W\rangle - g_b'b,
    \qquad G = X'B,\; g_b = B'1,

where :math:`B_{iy_i} = \sum_k \alpha_{ik}` and :math:`B_{ik} = -\alpha_{ik}`, so that the columns
of G sum to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, correctly_rounded, exact, row_sums, stacked
from svmcvx.certificate.exactly import SMALLEST, dot_exactly
from svmcvx.certificate.rows import Ball, Rows
from svmcvx.data import Features, MulticlassData
from svmcvx.errors import DataError
from svmcvx.formulations.multiclass.exact_multipliers import common_units, imbalance, is_balanced
from svmcvx.formulations.multiclass.losses import LONGEST_MOVE, ScoreLoss
from svmcvx.model import MulticlassModel
from svmcvx.system import memory

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Gradient", "ScoreSpace"]

Floats: TypeAlias = NDArray[np.float64]
R = TypeVar("R", Floats, Bounded)
Result = TypeVar("Result")

# Moves of the multipliers, at most, that restore the balance of the intercepts.
BALANCING_PASSES = 30
# Imbalance of the multipliers, relative to their sum, at which these moves end.
BALANCED = 1e-15
# The data are shifted before they are multiplied if that makes them smaller by this factor.
OFFSET = 0.25
# Shares of multipliers with room on all sides that are mixed in until the multipliers can be
# balanced in whole units.
MIXED = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)


class Gradient(NamedTuple):
    """G = X'B and g_b = B'1."""

    W: Ball
    b: Ball


@dataclass(frozen=True, eq=False)
class ScoreSpace:
    """Training data of several classes: scores, their differences, the linear maps of multipliers,
    and models.

    With a free intercept the columns of dense data are centred: this changes the intercept alone,
    and avoids cancellation in data with a large offset.
    """

    data: MulticlassData
    intercept: str
    rotations: bool = True

    @cached_property
    def centre(self) -> Floats:
        """What was subtracted from the columns."""
        if self.intercept == "free" and not sp.issparse(self.data.X):
            return np.asarray(self.data.X.mean(axis=0))
        return np.zeros(self.data.X.shape[1])

    @cached_property
    def X(self) -> Features:
        """The data, centred where the intercept is free and the data are dense."""
        return self.data.X - self.centre if self.centre.any() else self.data.X

    @cached_property
    def _reduction(self) -> tuple[Features, Floats | None]:
        n, d = self.X.shape
        if d <= n or not self.rotations:
            return self.X, None
        memory.require(
            8.0 * (3 * n * d + n * n),
            f"the factor of {n} × {d} data",
            "select features or use fewer observations",
        )
        dense = self.X.toarray() if sp.issparse(self.X) else self.X
        basis, triangle = sl.qr(dense.T, mode="economic", check_finite=False)
        return np.ascontiguousarray(triangle.T), basis

    @property
    def factor(self) -> Features:
        """The data, or L of shape (n, n) with X = LQ' where they have more columns than rows."""
        return self._reduction[0]

    def unreduced(self, W: Floats) -> Floats:
        """Return Q W: what belongs to the columns of :attr:`factor`, in terms of the features."""
        basis = self._reduction[1]
        return W if basis is None else np.asarray(basis @ W)

    def reduced(self, W: Floats) -> Floats:
        """Return Q'W, the inverse of :meth:`unreduced` on the span of the observations."""
        basis = self._reduction[1]
        return W if basis is None else np.asarray(basis.T @ W)

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """The classes other than an observation's own, in order, shape (n, c − 1)."""
        columns = np.arange(self.data.c - 1)
        return np.asarray(columns + (columns >= self.data.codes[:, None]))

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """The entries of the other classes in a matrix of shape (n, c), row after row."""
        return np.asarray(self.others + self.data.c * np.arange(self.data.n)[:, None])

    @cached_property
    def _shifted(self) -> tuple[Rows, Floats]:
        """The rows that products are evaluated from, and what was subtracted from them."""
        rows = Rows(self.X, shifted=bool(self.centre.any()))
        if self.centre.any() or sp.issparse(self.X):
            return rows, self.centre
        mean = np.asarray(self.X.mean(axis=0))
        if not (np.isfinite(mean).all() and float(rows.norms.sum()) < math.inf):
            return rows, self.centre
        # Squares of the distances from the mean are those from the origin less that of the mean.
        if (
            float(np.linalg.norm(mean)) ** 2
            < (1.0 - OFFSET**2) * float(rows.norms @ rows.norms) / rows.norms.size
        ):
            return rows, self.centre
        return Rows(self.X - mean, shifted=True), mean

    @cached_property
    def _latest(self) -> dict[str, Any]:
        return {}

    @property
    def dense_with_constant(self) -> Floats:
        """:attr:`X` as a dense array, with a column of ones for the biases unless there are none."""
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        return X if self.intercept == "none" else np.hstack([X, np.ones((X.shape[0], 1))])

    def differences(self, S: R) -> R:
        """Return the differences f of scores of shape (n, c)."""
        rows = np.arange(self.data.n)
        others = (
            S.take(self._places) if isinstance(S, np.ndarray) else S[rows[:, None], self.others]
        )
        found: R = S[rows, self.data.codes][:, None] - others
        return found

    def model_differences(self, model: MulticlassModel) -> Bounded:
        """Return the differences of a model on the data as they were passed.

        Data with a large offset are shifted, and the biases with them, exactly: they keep the
        digits that the offset would cost.
        """
        rows, shift = self._shifted
        b = exact(model.intercept)
        if shift.any():
            b = stacked(
                correctly_rounded(dot_exactly(shift, w, float(bias)))
                for w, bias in zip(model.coef.T, model.intercept, strict=True)
            )
            if not np.isfinite(b.value).all():
                rows, b = Rows(self.data.X), exact(model.intercept)
        return self.differences(rows @ Ball(model.coef) + b)

    @cached_property
    def difference_matrix(self) -> sp.csr_array:
        """The matrix that takes the columns of S, stacked, to the columns of f, stacked."""
        n, c = self.data.n, self.data.c
        rows = np.arange(n * (c - 1))
        observations = np.tile(np.arange(n), c - 1)
        own = observations + n * self.data.codes[observations]
        other = observations + n * self.others.ravel(order="F")
        ones = np.ones(rows.size)
        return sp.csr_array(
            (np.r_[ones, -ones], (np.r_[rows, rows], np.r_[own, other])), shape=(n * (c - 1), n * c)
        )

    def stated_differences(
        self, W: cp.Variable, b: cp.Variable | None
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the differences f of shape (n, c − 1) as a cvxpy expression, and the constraints
        that go with it.

        With penalised biases, centred data state another problem. Dense data are instead centred by
        a change of variables, :math:`S = (X - 1m')W + 1a'` with :math:`a = b + W'm`, which improves
        the scaling for the solver.
        """
        import cvxpy as cp

        n, c = self.data.n, self.data.c
        factor, constraints = self.factor, []
        if self.intercept == "penalised" and not sp.issparse(factor):
            mean = factor.mean(axis=0)
            a = cp.Variable(c, name="a")
            constraints.append((a == b + W.T @ mean).set_label("shift"))
            factor, b = factor - mean, a
        S = factor @ W
        if b is not None:
            S = S + np.ones((n, 1)) @ cp.reshape(b, (1, c), order="F")
        f = cp.reshape(self.difference_matrix @ cp.vec(S, order="F"), (n, c - 1), order="F")
        return f, constraints

    def coefficients(self, alpha: Floats) -> Floats:
        """Return B, the coefficients of the scores in Σ αf."""
        found = self.expand(-alpha)
        found[np.arange(self.data.n), self.data.codes] = row_sums(alpha)
        return found

    def _bounded_coefficients(self, alpha: Floats) -> Bounded:
        """B, of which the sums for the own classes are rounded."""
        found, own = (
            Bounded(self.expand(-alpha), np.zeros((self.data.n, self.data.c))),
            row_sums(exact(alpha)),
        )
        at = np.arange(self.data.n), self.data.codes
        found.value[at], found.error[at] = own.value, own.error
        return found

    def balance(self, alpha: Floats) -> Floats:
        """Return g_b = B'1."""
        return np.asarray(np.ones(self.data.n) @ self.coefficients(alpha))

    def imbalance(self, alpha: Floats) -> float:
        """Return the largest entry of g_b = B'1 in absolute value: 0 if and only if it is."""
        found, zero = self._remembered("balance", self._bounded_balance, alpha)
        return 0.0 if zero else max(float(np.abs(found.value).max()), SMALLEST)

    def _bounded_balance(self, alpha: Floats) -> tuple[Bounded, bool]:
        """g_b, and whether it is exactly 0."""
        found = imbalance(alpha, self.data.codes, self.data.c)
        return found, is_balanced(alpha, self.data.codes, self.data.c, found)

    def _remembered(self, name: str, evaluate: Callable[[Floats], Result], alpha: Floats) -> Result:
        """Return a value of the multipliers; the last one is remembered: it is asked for when a
        point is repaired, tested and evaluated.
        """
        known = self._latest.get(name)
        if known is None or not np.array_equal(known[0], alpha):
            known = self._latest[name] = (alpha.copy(), evaluate(alpha))
        found: Result = known[1]
        return found

    def gradient(self, alpha: Floats) -> Gradient:
        """Return G and g_b, of non-negative multipliers, for the data as they were passed."""
        return self._remembered("gradient", self._gradient, alpha)

    def _gradient(self, alpha: Floats) -> Gradient:
        rows, shift = self._shifted
        b, _ = self._remembered("balance", self._bounded_balance, alpha)
        W = rows.combined(self._bounded_coefficients(alpha))
        if shift.any() and (b.value.any() or np.any(b.error)):
            W = W + Ball.around(exact(shift[:, None]) * b[None, :])
        return Gradient(W, Ball.around(b))

    def moved_to_balance(self, alpha: Floats, loss: ScoreLoss, target: Floats) -> Floats:
        """Return multipliers inside their domain with B'1 equal to `target`, or as near to it as
        this method gets.

        A multiplier moves by its distance from its bounds times the difference of two potentials,
        one a class, which solve a least-squares problem. Multipliers at a bound stay there; where
        all others belong to differences f = 1, the dual objective changes to second order only.
        """
        s = self.data.weight[:, None]
        c = self.data.c
        a = alpha / s
        potentials = np.eye(c)
        for _ in range(BALANCING_PASSES):
            missing = target - self.balance(s * a)
            if np.abs(missing).max() <= BALANCED * float(np.abs(s * a).sum()):
                break
            responses = [
                self.balance(s * loss.feasible_move(a, self._potential_differences(potentials[k])))
                for k in range(c)
            ]
            if not (np.isfinite(responses).all() and np.isfinite(missing).all()):
                break
            potential, *_ = np.linalg.lstsq(np.stack(responses, axis=1), missing, rcond=1e-13)
            z = self._potential_differences(np.asarray(potential, dtype=np.float64))
            longest = float(np.abs(z).max())
            moved = a + loss.feasible_move(
                a, z * min(1.0, LONGEST_MOVE / longest) if longest > 0 else z
            )
            moved = loss.project_approx(moved)
            if np.abs(target - self.balance(s * moved)).max() >= np.abs(missing).max():
                break
            a = moved
        return loss.project(s * a, self.data.weight)

    def _potential_differences(self, potential: Floats) -> Floats:
        return np.asarray(potential[self.data.codes][:, None] - potential[self.others])

    def balanced(self, alpha: Floats, loss: ScoreLoss) -> Floats:
        """Return multipliers inside their domain with B'1 = 0, both exactly; those that are so
        already as they are.

        The imbalance that :meth:`moved_to_balance` leaves is removed by a convex combination with
        multipliers that are equal for all observations of a class: every imbalance is the opposite
        of that of such a point, so that one step suffices. What rounding leaves of it is removed on
        a grid (:mod:`svmcvx.formulations.multiclass.exact_multipliers`).
        """
        s, codes, c = self.data.weight, self.data.codes, self.data.c
        alpha = loss.project(alpha, s)
        if self._remembered("balance", self._bounded_balance, alpha)[1]:
            return alpha
        if loss.cone:
            # Multiples of multipliers are in the domain: at unit size they mix with uniform ones.
            exponent = int(np.frexp(alpha.max(initial=0.0))[1])
            if exponent:
                return np.ldexp(self.balanced(np.ldexp(alpha, -exponent), loss), exponent)
        alpha = self.moved_to_balance(alpha, loss, np.zeros(c))
        missing = self.balance(alpha)
        uniform = loss.uniform_multiplier(c)
        sums = np.bincount(codes, weights=s, minlength=c)
        capacity = uniform * (c - 1) * sums
        if missing.any():
            wanted = (missing.max() - missing) * (c - 1) / c / capacity
            share = 1.0 / (1.0 + float(wanted.max()))
            alpha = share * (alpha + (uniform * s * wanted[codes])[:, None])
        roomy = np.broadcast_to((uniform * s * (sums.min() / sums)[codes])[:, None], alpha.shape)
        for share in MIXED:
            units, exponent = common_units(
                loss.project(alpha + share * (roomy - alpha) if share else alpha, s)
            )
            found = loss.balanced_units(np.floor(units).astype(np.int64), codes, c)
            if found is not None:
                return np.ldexp(found.astype(np.float64), exponent)
        return np.zeros_like(alpha)

    def expand(self, alpha: Floats) -> Floats:
        """Return multipliers of shape (n, c − 1) as a matrix of shape (n, c) with a zero for the
        own class.
        """
        full = np.zeros((self.data.n, self.data.c))
        full.ravel()[self._places] = alpha
        return full

    def compress(self, alpha: Any, name: str) -> Floats:
        """Return multipliers of shape (n, c), or with rows for observations of weight zero too, in
        shape (n, c − 1).
        """
        given = np.asarray(alpha, dtype=np.float64)
        data = self.data
        if given.shape == (data.rows, data.c):
            given = given[data.index]
        if given.shape != (data.n, data.c):
            raise DataError(
                f"alpha of {name} must have one multiplier an observation and class: expected shape"
                f" ({data.rows}, {data.c}), got {given.shape}"
            )
        return np.asarray(given.ravel()[self._places])

    def model(self, W: Floats, b: Floats, support: NDArray[np.bool_]) -> MulticlassModel:
        """Return the model of weights in terms of the features and of biases that belong to
        :attr:`X`.
        """
        return MulticlassModel(
            coef=W,
            intercept=b - self.centre @ W,
            classes=self.data.classes,
            support=self.data.index[support],
        )
