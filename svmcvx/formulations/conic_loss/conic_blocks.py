r"""The conic relaxation on rows in blocks.

A dual point is named by the stationary point (w, V), the ridge ε and the λ that its multipliers
follow from, and by the factor with which γ is scaled until :math:`\lambda_{\max}(\sum_i\gamma_i x_i
x_i') < 1` is proved. The multipliers themselves stay with the blocks.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, signed, square, stacked, total
from svmcvx.certificate.rows import Ball, Rows, spectrum_above
from svmcvx.feature_space import LinearSpace
from svmcvx.feature_space.blocks import BlockSettings, spaces
from svmcvx.formulations.blocks import InBlocks, Make
from svmcvx.formulations.conic_loss.dual import INTERIORS, NEGLIGIBLE, NOTHING, top_of
from svmcvx.formulations.conic_loss.geometry import (
    ConicMultipliers,
    RowGeometry,
    RowTerms,
    minimum_from,
    row_terms,
)
from svmcvx.formulations.conic_loss.primal import (
    stationary_multipliers,
    total_loss,
    worst_indicator,
)
from svmcvx.formulations.conic_loss.recovery import RelaxedLinearModel, SecondMoment, moment_of
from svmcvx.model import LinearModel
from svmcvx.row_blocks.shards import ShardBlocks, ShardState, reads_rows

__all__ = ["ConicInBlocks", "MultiplierSums"]

Floats: TypeAlias = NDArray[np.float64]

# Excesses over 1 of the factors of a covariance that are tried to satisfy the cardinality row:
# their range, their number in a pass, and the number of passes; share of the row that is reserved
# for rounding.
LEAST_EXCESS, LARGEST_EXCESS, EXCESSES, REFINEMENTS, ROOM = 1e-12, 1e6, 33, 3, 1e-13
# The share of a bound below which what the gradient takes from it is not made smaller.
SMALL_SHARE = 1e-9
# Parts of the states.
GAMMA, ALPHA = "gamma", "alpha"


class MultiplierSums(NamedTuple):
    """What a pass that sets multipliers returns for all rows."""

    matrix: Floats
    values: Floats
    vectors: Floats
    top: float
    alpha: float
    gamma: float
    along: Floats
    back: Floats


@dataclass(eq=False)
class ConicInBlocks(InBlocks):
    """The statement of the relaxation on rows in blocks.

    Dual points hold ``"U"``, of shape (d, 1 + k), ``"ridge"``, in the cardinality form ``"lam"``,
    and once they are repaired ``"scale"``.
    """

    lam: float | None = None
    kappa: float | None = None
    _known: tuple[Floats, float, float, MultiplierSums] | None = field(default=None, repr=False)

    @property
    def allowance(self) -> float:
        """κ Σ s, infinite without a cardinality row."""
        return math.inf if self.kappa is None else self.kappa * self.space.total_weight

    def lam_of(self, dual: Dual) -> float:
        """λ, in the cardinality form that of the dual point."""
        return self.lam if self.lam is not None else float(dual["lam"])

    def evaluate(self, model: LinearModel) -> Evaluation:
        """P at a model and its covariance, every term at its worst end."""
        nothing, moment = self.space.empty(), moment_of(model)
        V = np.zeros((self.space.d, 0)) if moment is None else moment.V
        regulariser = nothing.squared_norm(model) + total(square(exact(V)))
        if not model.coef.any() and model.intercept == 0.0 and not V.any():
            if self.lam is None:
                return Evaluation(math.inf, 0.0)
            losses = exact(self.lam) * nothing.data.bounded_weight
            return Evaluation.of(regulariser=regulariser, losses=losses)
        if self.lam is None:
            holds = self._missed(model, V, np.ones(1))[0] <= self.allowance
            return (
                Evaluation.of(regulariser=regulariser, losses=exact(0.0))
                if holds
                else Evaluation(math.inf, 0.0)
            )
        found = self._each(_losses, model.without_support(), V, self.lam)
        high = regulariser + total(stacked([above for _, above in found]))
        value, missed = float(regulariser.value), math.fsum(part for part, _ in found)
        return Evaluation.at_most(high.upper_end, regulariser=value, losses=missed)

    def _missed(self, model: LinearModel, V: Floats, factors: Floats) -> Floats:
        """Return numbers that are at least Σ s z for the covariance VV' times each factor."""
        found = self._each(_missed, model.without_support(), V, factors)
        return np.array(
            [
                total(exact(np.array([part[k] for part in found]))).upper_end
                for k in range(factors.size)
            ]
        )

    def enlarged(self, w: Floats, V: Floats) -> Floats | None:
        """Return V times nearly the smallest factor, by at least 1, for which Σ s z ≤ κ Σ s
        certainly; None if none was found.
        """
        model, allowance = self.model(w, V), self.allowance * (1.0 - ROOM)
        excess = np.concatenate([[0.0], np.geomspace(LEAST_EXCESS, LARGEST_EXCESS, EXCESSES)])
        chosen = 0.0
        for _ in range(REFINEMENTS):
            enough = self._missed(model, V, 1.0 + excess) <= allowance
            if not enough.any():
                return None
            first = int(np.argmax(enough))
            chosen = float(excess[first])
            if first == 0:
                break
            excess = np.geomspace(max(float(excess[first - 1]), LEAST_EXCESS), chosen, EXCESSES)
        return V * math.sqrt(1.0 + chosen)

    def model(self, w: Floats, V: Floats) -> RelaxedLinearModel:
        """Return the model of mean `w` and covariance ``VV'``; indicators and support stay with the
        blocks.
        """
        plain = self.space.model(w, 0.0, np.zeros(0, dtype=np.intp))
        return RelaxedLinearModel(**vars(plain), moment=SecondMoment(w=w, V=V, z=np.zeros(0)))

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """Return w = 0, and γ = α = 0 with the bound 0."""
        zero = np.zeros((self.space.d, 1))
        dual: Dual = {"U": zero, "ridge": np.zeros(()), "lam": np.zeros(()), "scale": np.zeros(())}
        return [self.model(zero[:, 0], zero[:, :0])], [dual]

    def sums(self, dual: Dual) -> MultiplierSums:
        """Set the multipliers of a point in the states, unless they are there, and return their
        sums.
        """
        point, ridge, lam = np.asarray(dual["U"]), float(dual["ridge"]), self.lam_of(dual)
        if (
            self._known is not None
            and self._known[1:3] == (ridge, lam)
            and np.array_equal(self._known[0], point)
        ):
            return self._known[3]
        found = self.space.shards.change(_multipliers, None, self.space.compared, point, ridge, lam)
        M = functools.reduce(operator.add, (part[0] for part in found))
        values, vectors, top = spectrum_above(M.value, M.distance)
        alpha, gamma, along, back = (sum(part[k] for part in found) for k in (1, 2, 3, 4))
        sums = MultiplierSums(
            M.value, values, vectors, top, alpha, gamma, np.asarray(along), np.asarray(back)
        )
        self._known = point, ridge, lam, sums
        return sums

    def _top(self, sums: MultiplierSums, scale: float) -> float:
        """A number that is proved to be at least the largest eigenvalue for the scaled γ, whose
        rounding is included.
        """
        return top_of(sums.top, scale)

    def repair(self, dual: Dual) -> Dual:
        """Scale γ so that it is proved to be feasible, α with the root of the same factor."""
        return dual if "scale" in dual else {**dual, "scale": np.array(self.scaled(dual)[0])}

    def scaled(self, dual: Dual) -> tuple[float, float]:
        """Return the factor of γ for which D is largest, and nearly that value."""
        sums = self.sums(dual)
        best, best_value = 0.0, 0.0
        for interior in INTERIORS:
            scale = min(1.0, 1.0 / (sums.top * (1.0 + interior))) if sums.top > 0 else 1.0
            if not (math.isfinite(scale) and self._top(sums, scale) < 1.0):
                continue
            c = math.sqrt(scale) * sums.along - 2.0 * scale * sums.back
            projected = sums.vectors.T @ c
            lowest = max(1.0 - self._top(sums, scale), EPS)
            least = -0.25 * float(
                projected @ (projected / np.maximum(1.0 - scale * sums.values, lowest))
            )
            value = (
                math.sqrt(scale) * sums.alpha
                - scale * sums.gamma
                + least
                + float(self._constant(dual).value)
            )
            if value > best_value:
                best, best_value = scale, value
        return best, best_value

    def _constant(self, dual: Dual) -> Bounded:
        """−λκΣs in the cardinality form."""
        if self.kappa is None:
            return exact(0.0)
        return -exact(self.lam_of(dual)) * (self.kappa * self.space.empty().data.bounded_weight)

    def dual_violation(self, dual: Dual) -> float:
        """Return the violation that prevents a proof that γ is feasible; 0 only if it is proved."""
        scale = float(dual.get("scale", np.ones(())))
        if scale == 0.0:
            return 0.0
        top = self._top(self.sums(dual), scale)
        return 0.0 if top < 1.0 else max(top - 1.0, EPS)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """D at a feasible point, from the rows themselves."""
        scale = float(dual["scale"])
        if scale == 0.0:
            return exact(0.0)
        sums = self.sums(dual)
        mu = (1.0 - exact(self._top(sums, scale))).lower
        if not mu > 0:
            return NOTHING

        def inverse(c: Floats) -> Floats:
            values = np.maximum(1.0 - scale * sums.values, max(1.0 - self._top(sums, scale), EPS))
            return np.asarray(sums.vectors @ ((sums.vectors.T @ c) / values))

        w = 0.5 * inverse(math.sqrt(scale) * sums.along - 2.0 * scale * sums.back)
        best = NOTHING
        for _ in range(2):
            found = self._each(_row_terms, w, scale, self.lam_of(dual))
            least, gradient = minimum_from(w, [terms for _, terms in found], mu)
            bound = total([value for value, _ in found]) + least.bound + self._constant(dual)
            if bound.lower_end > best.lower_end:
                best = bound
            size = least.gradient.upper_end
            if not math.isfinite(bound.lower_end) or size * size / (4.0 * mu) <= SMALL_SHARE * abs(
                float(bound.value)
            ):
                break
            w = w - 0.5 * inverse(gradient)
        return best

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """The lower end is one of the 0-1 problem as well."""
        return (
            {"zero_one_lower": self.evaluate_dual(dual).lower_end}
            if dual and float(dual["scale"]) > 0
            else {}
        )


@reads_rows
def _losses(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    model: LinearModel,
    V: Floats,
    lam: float,
) -> list[tuple[float, Bounded]]:
    """Return λ Σ s z of each block, and the same with each margin and variance at its worst end."""
    found = []
    for space in spaces(pieces, parts, settings):
        if not space.data.n:
            continue
        u, variance = _worst_scores(space, model, V)
        weight = space.data.weight
        above = total_loss(exact(u), exact(variance), lam=exact(lam), weight=weight)
        found.append((float(total_loss(u, variance, lam=lam, weight=weight)), above))
    return found


@reads_rows
def _missed(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    model: LinearModel,
    V: Floats,
    factors: Floats,
) -> list[list[float]]:
    """Return, for each block, numbers that are at least Σ s z for the covariance VV' times each
    factor.
    """
    found = []
    for space in spaces(pieces, parts, settings):
        if not space.data.n:
            continue
        u, variance = _worst_scores(space, model, V)
        weight = exact(space.data.weight)
        each = [worst_indicator(u, (exact(variance) * factor).lower) for factor in factors.tolist()]
        found.append([total(weight * z).upper_end for z in each])
    return found


def _worst_scores(space: LinearSpace, model: LinearModel, V: Floats) -> tuple[Floats, Floats]:
    """Return margins and variances that those of the rows are at least."""
    low, variance = signed(space.data.y, space.scores(model)).lower, np.zeros(space.data.n)
    if V.shape[1]:
        variance, _ = RowGeometry(space.X).spread(SecondMoment(w=V[:, 0], V=V, z=np.zeros(0)))
    return low, variance


@reads_rows
def _multipliers(
    pieces: ShardBlocks,
    parts: ShardState,
    settings: BlockSettings,
    point: Floats,
    ridge: float,
    lam: float,
) -> tuple[ShardState, tuple[Ball, float, float, Floats, Floats]]:
    """Set γ and α of a stationary point; return Σ γ x x' of a shard, and the sums of the
    multipliers.
    """
    gammas, alphas = [], []
    d = point.shape[0]
    M, sum_alpha, sum_gamma, along, back = (
        Ball(np.zeros((d, d))),
        0.0,
        0.0,
        np.zeros(d),
        np.zeros(d),
    )
    for space, rows in zip(spaces(pieces, parts, settings), parts["rows"], strict=True):
        X, y = space.X, rows.y
        S = np.asarray(X @ point)
        variance = np.sum(S[:, 1:] ** 2, axis=1) + ridge * rows.norms**2
        gamma, alpha = stationary_multipliers(y * S[:, 0], variance, lam * rows.weight)
        gamma = np.where(np.isfinite(gamma) & (gamma >= NEGLIGIBLE), gamma, 0.0)
        alpha = np.where(gamma > 0, alpha, 0.0)
        gammas.append(gamma)
        alphas.append(alpha)
        chosen = np.flatnonzero(gamma > 0)
        part = X if chosen.size == y.size else X[chosen]
        M = M + Rows(part, rows.norms[chosen]).gram(gamma[chosen])
        labels = y[chosen]
        sum_alpha, sum_gamma = sum_alpha + float(alpha.sum()), sum_gamma + float(gamma.sum())
        along += part.T @ (labels * alpha[chosen])
        back += part.T @ (labels * gamma[chosen])
    return {GAMMA: gammas, ALPHA: alphas}, (M, sum_alpha, sum_gamma, along, back)


@reads_rows
def _row_terms(
    pieces: ShardBlocks,
    parts: ShardState,
    make: Make,
    settings: BlockSettings,
    w: Floats,
    scale: float,
    lam: float,
) -> list[tuple[Bounded, RowTerms]]:
    """Return, for each block, Σ (α − γ − h*), and the sums for the bound of ψ."""
    found = []
    for space, rows, gamma, alpha in zip(
        spaces(pieces, parts, settings), parts["rows"], parts[GAMMA], parts[ALPHA], strict=True
    ):
        statement = make(space=space)
        gamma = gamma * scale
        alpha = statement.capped(alpha * math.sqrt(scale), gamma, lam)
        chosen = np.flatnonzero(gamma > 0)
        X = space.X if chosen.size == gamma.size else space.X[chosen]
        m = ConicMultipliers(gamma[chosen], alpha[chosen], rows.y[chosen], scale)
        found.append(
            (
                statement.minus_conjugate_of(gamma, alpha, lam),
                row_terms(Rows(X, rows.norms[chosen]), w, m),
            )
        )
    return found
