"""Statements on score differences bound to data, the base of all multi-class formulations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import (
    Bounded,
    by_rows,
    correctly_rounded,
    exact,
    parts_of,
    row_maxima,
    row_sums,
    sqrt,
    square,
    stacked,
    sum_of_squares,
    total,
)
from svmcvx.certificate.exactly import dot_exactly, grid_exponent, nearest_sum
from svmcvx.certificate.rows import Ball, Rows
from svmcvx.data import Features, MulticlassData
from svmcvx.errors import DataError
from svmcvx.formulations.base import (
    SHRINKS,
    Formulation,
    RecoveredPoints,
    dual_entry,
    full_entry,
    latest,
    usable,
)
from svmcvx.formulations.multiclass.losses import LONGEST_MOVE, Domain, ScoreLoss, cut_off
from svmcvx.formulations.optimal_intercepts import ClassSlacks, SumOfBounded
from svmcvx.model import MulticlassModel
from svmcvx.solution import DataFacts, Evidence
from svmcvx.system import memory

R = TypeVar("R", Floats, Bounded)


class Gradient(NamedTuple):
    """G = X'B and g_b = B'1."""

    W: Ball
    b: Ball


@dataclass(frozen=True, eq=False)
class ScoreSpace:
    """Data of several classes with their scores; dense ones are centred for a free intercept."""

    data: MulticlassData
    intercept: str
    rotations: bool = True

    @cached_property
    def centre(self) -> Floats:
        """The mean that was subtracted from the columns."""
        if self.intercept == "free" and not sp.issparse(self.data.X):
            return np.asarray(self.data.X.mean(axis=0))
        return np.zeros(self.data.X.shape[1])

    @cached_property
    def X(self) -> Features:
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
    def class_weights(self) -> Floats:
        """The sums of the weights of each class."""
        data = self.data
        return np.bincount(data.codes, weights=data.weight, minlength=data.c).astype(np.float64)

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
        # Squares of the distances from the mean are those from the origin less that of the mean:
        # a shift that leaves less than a quarter of the root mean square is worth its cost.
        squares = float(rows.norms @ rows.norms) / rows.norms.size
        if float(np.linalg.norm(mean)) ** 2 < (1.0 - 1.0 / 16.0) * squares:
            return rows, self.centre
        return Rows(self.X - mean, shifted=True), mean

    def differences(self, S: R) -> R:
        """Return the differences f of scores of shape (n, c)."""
        rows = np.arange(self.data.n)
        others = (
            S.take(self._places) if isinstance(S, np.ndarray) else S[rows[:, None], self.others]
        )
        found: R = S[rows, self.data.codes][:, None] - others
        return found

    def model_differences(self, model: MulticlassModel) -> Bounded:
        """Return f on the data as passed; a large offset goes into the biases without rounding."""
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

    def coefficients(self, alpha: R) -> R:
        """Return B, the coefficients of the scores in Σ αf; only own classes have rounded ones."""
        at, own = (np.arange(self.data.n), self.data.codes), row_sums(alpha)
        found = self.expand(-parts_of(alpha)[0])
        found[at] = parts_of(own)[0]
        if isinstance(alpha, np.ndarray):
            return found
        error = np.zeros_like(found)
        error[at] = own.error
        return Bounded(found, error)

    def balance(self, alpha: Floats) -> Floats:
        """Return g_b = B'1."""
        return np.asarray(np.ones(self.data.n) @ self.coefficients(alpha))

    def surplus(self, units: Floats) -> NDArray[np.int64]:
        """Return B'1 of multipliers that are whole numbers."""
        whole = self.expand(units).astype(np.int64)
        found: NDArray[np.int64] = -whole.sum(axis=0)
        np.add.at(found, self.data.codes, whole.sum(axis=1))
        return found

    @latest
    def bounded_balance(self, alpha: Floats) -> Bounded:
        """Return g_b = B'1; its value is 0 if and only if it is exactly 0."""
        exponent = grid_exponent(float(np.abs(alpha).max(initial=0.0)), alpha.size)
        units = np.ldexp(alpha, -exponent)
        if np.array_equal(units, np.floor(units)):
            sums = np.ldexp(self.surplus(units).astype(np.float64), exponent)
            return stacked(correctly_rounded(float(x)) for x in sums)
        full, codes = self.expand(alpha), self.data.codes
        columns = [np.r_[alpha[codes == k].ravel(), -full[:, k]] for k in range(self.data.c)]
        found = [total(exact(column)) for column in columns]
        # Rounding may leave open whether a sum is 0.
        return stacked(
            correctly_rounded(nearest_sum(column)) if abs(x.value) <= x.error else x
            for x, column in zip(found, columns, strict=True)
        )

    def imbalance(self, alpha: Floats) -> float:
        """Return the largest entry of g_b in absolute value: 0 if and only if it is."""
        largest = float(np.abs(self.bounded_balance(alpha).value).max())
        return largest if math.isfinite(largest) else math.inf

    @latest
    def gradient(self, alpha: Floats) -> Gradient:
        """Return G and g_b, of non-negative multipliers, for the data as they were passed."""
        rows, shift = self._shifted
        b = self.bounded_balance(alpha)
        W = rows.combined(self.coefficients(exact(alpha)))
        if shift.any() and (b.value.any() or np.any(b.error)):
            W = W + Ball.around(exact(shift[:, None]) * b[None, :])
        return Gradient(W, Ball.around(b))

    def moved_to_balance(self, alpha: Floats, domain: Domain, target: Floats) -> Floats:
        """Return multipliers inside their domain with B'1 equal to `target`, or near it.

        A multiplier moves by its distance from its bounds times the difference of two potentials,
        one per class, which solve a least-squares problem. Multipliers at a bound stay there; where
        all others belong to differences f = 1, the dual objective changes to second order only.
        """
        s, codes = self.data.weight[:, None], self.data.codes
        a, members = alpha / s, np.eye(self.data.c)[codes]
        for _ in range(30):
            missing = target - self.balance(s * a)
            # The rest is rounding.
            if np.abs(missing).max() <= 1e-15 * float(np.abs(s * a).sum()):
                break
            mobile, share = domain.mobility(a)
            flows = members.T @ self.expand(s * mobile)
            flows = flows + flows.T
            B = self.coefficients(mobile)
            response = np.diag(flows.sum(axis=0)) - flows - B.T @ (s * share[:, None] * B)
            if not (np.isfinite(response).all() and np.isfinite(missing).all()):
                break
            potential = np.linalg.lstsq(response, missing, rcond=1e-13)[0]
            z = potential[codes][:, None] - potential[self.others]
            longest = max(float(np.abs(z).max()), LONGEST_MOVE)
            moved = a + domain.move(a, z * (LONGEST_MOVE / longest))
            if domain.k > 2:
                moved = domain.project(moved, np.ones(len(a)))
            moved = np.clip(moved, 0.0, domain.largest)
            if np.abs(target - self.balance(s * moved)).max() >= np.abs(missing).max():
                break
            a = moved
        return domain.project(s * a, self.data.weight)

    def balanced(self, alpha: Floats, domain: Domain) -> Floats:
        """Return multipliers inside their domain with B'1 = 0, both exactly.

        All multipliers of an observation of class k together that grow by m change B'1 by
        :math:`m(ce_k - 1)`. Such growth removes the imbalance that :meth:`moved_to_balance` leaves,
        of all observations of a class in equal shares, and what rounding leaves of it, of those
        with the most room, on a grid of which the others are multiples of c.
        """
        s, codes, c = self.data.weight, self.data.codes, self.data.c
        alpha = domain.project(alpha, s)
        if not self.imbalance(alpha):
            return alpha
        alpha = self.moved_to_balance(alpha, domain, np.zeros(c))
        left = self.balance(alpha)
        added = (left.max() - left) / (c * self.class_weights)
        alpha = (alpha + (s * added[codes])[:, None]) / (1.0 + added.max() / domain.uniform(c))
        for shrink in SHRINKS:
            inside = domain.project((1.0 - shrink) * alpha, s)
            exponent = grid_exponent(float(inside.max(initial=0.0)), inside.size)
            units = cut_off(np.floor(np.ldexp(inside, -exponent) / c), domain.k)
            surplus = self.surplus(units)
            room = domain.room(c * units, np.floor(np.ldexp(s, -exponent)))
            # Sums of growths stay far below the integers of 64 bits.
            growth = self._growth(np.minimum(room, 2.0**36), surplus.max() - surplus)
            if growth is not None:
                return np.ldexp(c * units + growth[:, None], exponent)
        return np.zeros_like(alpha)

    def _growth(self, room: Floats, wanted: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return growths of given sums per class, of the largest rooms; None if too small."""
        growth = np.zeros(self.data.n, dtype=np.int64)
        for k in range(self.data.c):
            rows = np.flatnonzero(self.data.codes == k)
            rows = rows[np.argsort(-room[rows], kind="stable")]
            taken = np.minimum(np.cumsum(room[rows].astype(np.int64)), wanted[k])
            if taken[-1] < wanted[k]:
                return None
            growth[rows] = np.diff(taken, prepend=0)
        return growth

    def expand(self, alpha: Floats) -> Floats:
        """Return multipliers of shape (n, c − 1) in shape (n, c), zero for the own class."""
        full = np.zeros((self.data.n, self.data.c))
        full.ravel()[self._places] = alpha
        return full

    def compress(self, alpha: Any, name: str) -> Floats:
        """Return α of shape (n, c), or with rows of weight zero, in shape (n, c − 1)."""
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
        """Return the model with biases that belong to :attr:`X`."""
        return MulticlassModel(
            coef=W,
            intercept=b - self.centre @ W,
            classes=self.data.classes,
            support=self.data.index[support],
        )


@dataclass(frozen=True, eq=False)
class MulticlassStatement(Formulation):
    """A statement with one linear score per class and a loss of score differences."""

    scores: ScoreSpace
    loss: ScoreLoss

    @property
    def weight(self) -> Floats:
        return self.scores.data.weight

    @property
    def data_facts(self) -> DataFacts:
        return DataFacts.of(self.scores.data)

    def evidence(self, model: MulticlassModel | None = None) -> Evidence | None:
        data = self.scores.data
        return Evidence(self.scores.intercept, full_entry(self.weight, data), data.fingerprint)

    @latest
    def losses(self, model: MulticlassModel) -> Bounded:
        """Return the weighted sum of losses at a model, from its scores on the raw data."""
        found: Bounded = by_rows(
            lambda f, s: total(s * self.loss.value(f)),
            self.scores.model_differences(model),
            self.weight,
        )
        return found

    def multipliers(self, dual: Dual) -> Floats:
        """Return α of a dual point, shape (n, c − 1)."""
        return self.scores.compress(dual_entry(dual, "alpha", self.name), self.name)

    def zero_dual(self) -> Dual:
        return {"alpha": np.zeros((self.scores.data.n, self.scores.data.c))}

    def trivial(self) -> tuple[list[MulticlassModel], list[Dual]]:
        return [self.constant_model()], [self.zero_dual()]

    @property
    def sums_to_zero(self) -> bool:
        """Whether the weights of the classes sum to zero at the optimum."""
        return True

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        """Return the model of the solver's point, and dual points near its multipliers."""
        weights = self.solved_weights(variables)
        points = RecoveredPoints([], [])
        if weights is None:
            return points
        flow = multipliers.get("pairs")
        flow = self.scores.unreduced(-np.asarray(flow)) if usable(flow) else None
        W, b = weights
        if self.sums_to_zero:
            # A common shift of the columns changes no difference, and norms are least without one.
            W, b = W - W.mean(axis=1, keepdims=True), b - b.mean()
        points.models.extend(self.models(W, b))
        for alpha in self.solved_multipliers(multipliers["margin"], W, b):
            points.duals.extend(self.dual_points(W, b, alpha, flow))
        return points

    def models(self, W: Floats, b: Floats, dual: Dual | None = None) -> list[MulticlassModel]:
        """Return models of weights and biases, those preferred first."""
        return [self.model(W, b)]

    def dual_points(
        self, W: Floats, b: Floats, alpha: Floats, flow: Floats | None = None
    ) -> list[Dual]:
        """Return dual points near given multipliers that fit weights close to the optimum."""
        return [{"alpha": self.scores.expand(alpha)}]

    def projected(self, alpha: Floats) -> Floats:
        """Return multipliers exactly inside the domain of the loss."""
        return self.loss.domain.project(np.nan_to_num(alpha, nan=0.0), self.weight)

    def domain_violation(self, alpha: Floats) -> float:
        """Return the violation of the domain of the loss; ``inf`` where an entry is not finite."""
        if not np.isfinite(alpha).all():
            return np.inf
        return self.loss.domain.violation(alpha, self.weight)

    def minus_conjugate(self, alpha: Floats) -> Bounded:
        r"""Return the losses' part of the dual objective, :math:`\sum_i s_i g(\alpha_i/s_i)`."""
        found: Bounded = by_rows(
            lambda a, s: total(self.loss.conjugate(a, s)), exact(alpha), self.weight
        )
        return found

    @cached_property
    def _constant(self) -> tuple[float, Floats]:
        """Objective and biases of the best of a few models with W = 0."""
        c, sums = self.scores.data.c, self.scores.class_weights
        choices = [np.zeros(c)]
        if self.scores.intercept != "none":
            ranks = np.argsort(np.argsort(sums, kind="stable")).astype(np.float64)
            choices += [np.log(sums / sums.max()), np.eye(c)[sums.argmax()], ranks]
        choices = [b - b.mean() for b in choices]
        others = np.arange(c - 1) + (np.arange(c - 1) >= np.arange(c)[:, None])
        values = [
            float(sums @ self.loss.value(b[:, None] - b[others])) + self.bias_penalty(b)
            for b in choices
        ]
        least = int(np.argmin(values))
        return values[least], choices[least]

    def constant_model(self) -> MulticlassModel:
        """Return the best of a few models with W = 0."""
        data = self.scores.data
        return MulticlassModel(
            coef=np.zeros((data.X.shape[1], data.c)),
            intercept=self._constant[1],
            classes=data.classes,
            support=data.index[:1],
        )

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        """Whether :meth:`constant_model` and zero multipliers, whose bound is 0, are no better."""
        return lower >= 0.0 and upper < self._constant[0] * (1.0 - 1e-9)

    def bias_penalty(self, b: Floats) -> float:
        """Return the penalty of the biases in the objective."""
        return 0.0

    def export_dual(self, dual: Dual) -> Dual:
        data = self.scores.data
        full = np.zeros((data.rows, data.c))
        full[data.index] = self.scores.expand(self.multipliers(dual))
        return {**dual, "alpha": full}

    def solved_weights(self, variables: Mapping[str, Any]) -> tuple[Floats, Floats] | None:
        """Return W in terms of the features and b; None where a solver has left none."""
        W, b = variables["W"], variables.get("b", np.zeros(1))
        if not (usable(W) and usable(b)):
            return None
        return self.scores.unreduced(np.asarray(W)), np.broadcast_to(
            np.asarray(b), (self.scores.data.c,)
        )

    def model_of(self, variables: Mapping[str, Any]) -> MulticlassModel | None:
        weights = self.solved_weights(variables)
        return None if weights is None else self.model(*weights)

    def solved_multipliers(self, values: Any, W: Floats, b: Floats) -> list[Floats]:
        """Return candidates for α, shape (n, c − 1)."""
        candidates = [np.asarray(values)] if usable(values) else []
        if self.loss.smooth:
            candidates.append(self.weight[:, None] * self.loss.multipliers(self.differences(W, b)))
        return candidates

    def differences(self, W: Floats, b: Floats) -> Floats:
        """Return f for biases that belong to ``scores.X``."""
        return self.scores.differences(self.scores.X @ W + b)

    def slacks(self, W: Floats, domain: SumOfBounded) -> ClassSlacks:
        """Return the slacks of weights without biases."""
        gamma = 1.0 - self.differences(W, np.zeros(self.scores.data.c))
        return ClassSlacks(gamma, self.scores.data.codes, self.scores.others, self.weight, domain)

    def model(self, W: Floats, b: Floats) -> MulticlassModel:
        """Return the model with biases that belong to ``scores.X``."""
        return self.scores.model(W, b, self.loss.support(self.differences(W, b)))


def pair_differences(c: int) -> Floats:
    """Return P of shape (c, c(c − 1)/2): the columns of WP are the differences w_k − w_l, k < l."""
    first, second = np.triu_indices(c, 1)
    P = np.zeros((c, first.size))
    P[first, np.arange(first.size)] = 1.0
    P[second, np.arange(first.size)] = -1.0
    return P


def pairwise(W: R) -> R:
    """Return the differences w_k − w_l, k < l."""
    first, second = np.triu_indices(W.shape[1], 1)
    found: R = W[:, first] - W[:, second]
    return found


def lengths(V: R, norm: int) -> R:
    """Return the norm of each column: Euclidean, or the sum of absolute values for ``norm=1``."""
    found: R = sqrt(row_sums(square(V.T))) if norm == 2 else row_sums(abs(V.T))
    return found


def dual_lengths(S: R, norm: int) -> R:
    """Return the dual norm per column: Euclidean, or the largest absolute value for ``norm=1``."""
    found: R = lengths(S, norm) if norm == 2 else row_maxima(abs(S.T))
    return found


@dataclass(frozen=True, eq=False)
class PairwiseStatement(MulticlassStatement):
    """A statement with norms of pairwise differences, whose dual points have flows."""

    p: float
    norm: int

    @cached_property
    def P(self) -> Floats:
        return pair_differences(self.scores.data.c)

    def flow(self, dual: Dual) -> Floats | None:
        """Return S of a dual point, None if it has none."""
        return self.required_flow(dual) if "flow" in dual else None

    def zero_dual(self) -> Dual:
        return {
            **super().zero_dual(),
            "flow": np.zeros((self.scores.data.X.shape[1], self.P.shape[1])),
        }

    def required_flow(self, dual: Dual) -> Floats:
        """Return S of a dual point that has to have one."""
        if "flow" not in dual:
            raise DataError(
                f"the dual point of {self.name} needs the entry 'flow'; repair() makes one from"
                " alpha"
            )
        S = np.asarray(dual["flow"], dtype=np.float64)
        shape = (self.scores.data.X.shape[1], self.P.shape[1])
        if S.shape != shape:
            raise DataError(
                f"flow of {self.name} must have one column a pair of classes: expected shape"
                f" {shape}, got {S.shape}"
            )
        return S

    def rest(self, gradient: Gradient, S: Floats) -> Ball:
        """Return R = G − div S."""
        return gradient.W - Ball.around(exact(S) @ self.P.T)

    def least_flow(self, divergence: Floats) -> Floats:
        """Return the flows of least squares with a divergence whose columns sum to zero."""
        return np.asarray(divergence @ self.P / self.P.shape[0])

    def power_flow(self, W: Floats, lam: float, p: float) -> Floats:
        r"""Return a subgradient of :math:`\lambda\sum\|w_k-w_l\|^p` in the differences."""
        V = W @ self.P
        size = lengths(V, self.norm)
        if self.norm == 1:
            return np.asarray(lam * p * size ** (p - 1.0) * np.sign(V))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, lam * p * size ** (p - 1.0) * (V / size), 0.0)


class Regulariser(Enum):
    r"""A regulariser Ω of W at λ = 1.

    - squares: :math:`\sum_k\|w_k\|^2`;
    - pairs: :math:`\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2`;
    - absolute: :math:`\sum_{jk}|W_{jk}|`.
    """

    SQUARES = "squares"
    PAIRS = "pairs"
    ABSOLUTE = "absolute"

    def at(self, W: Any) -> Any:
        """Return Ω(W), of plain or of bounded weights."""
        if self is Regulariser.ABSOLUTE:
            return total(abs(W))
        squares = sum_of_squares(W)
        if self is Regulariser.SQUARES:
            return squares
        return 0.5 * total(square(pairwise(W))) + 0.5 * squares

    def curvature(self, c: int) -> float | None:
        """Return κ where Ω(W) = κ‖W‖² for columns that sum to zero, else None."""
        return {Regulariser.SQUARES: 1.0, Regulariser.PAIRS: (c + 1) / 2}.get(self)
