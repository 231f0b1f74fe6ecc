r"""The conic relaxation on rows in blocks.

A dual point is named by the stationary point (w, V), the ridge ε and the λ that its multipliers follow from, and by the factor with
which γ is scaled until :math:`\lambda_{\max}(\sum_i\gamma_i x_i x_i') < 1` is proved. The multipliers themselves stay with the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.feature_space import LinearSpace
from svmcvx.feature_space.blocks import BlockSettings, spaces
from svmcvx.formulations.blocks import InBlocks, Make
from svmcvx.formulations.conic_loss.dual import INTERIORS, NEGLIGIBLE
from svmcvx.formulations.conic_loss.geometry import (
    Multipliers,
    RowGeometry,
    RowSums,
    bounded_spectrum,
    minimum_from,
    row_sums,
    weighted_gram_above,
)
from svmcvx.formulations.conic_loss.primal import relaxed_indicator, stationary_multipliers, worst_indicator
from svmcvx.formulations.conic_loss.recovery import RelaxedLinearModel, SecondMoment, moment_of, penalty_above
from svmcvx.model import LinearModel
from svmcvx.rounding import U, down, inner_error, norm_above, sum_above, sum_below
from svmcvx.row_blocks.shards import Parts, Pieces, reads_rows

__all__ = ["ConicInBlocks", "MultiplierSums"]

Floats: TypeAlias = NDArray[np.float64]

# Excesses over 1 of the factors of a covariance that are tried to satisfy the cardinality row: their range, their number in a pass, and
# passes; what is left of the row for rounding.
LEAST_EXCESS, LARGEST_EXCESS, EXCESSES, REFINEMENTS, ROOM = 1e-12, 1e6, 33, 3, 1e-13
# Parts of the states.
GAMMA, ALPHA = "gamma", "alpha"


class MultiplierSums(NamedTuple):
    """What a pass that sets multipliers tells of all rows.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Σ γ x x'.
    values, vectors : ndarray
        Its eigenvalues and vectors, approximately.
    top : float
        Proved to be at least its largest eigenvalue.
    alpha, gamma : float
        Sums of the multipliers.
    along, back : ndarray of shape (d,)
        Σ α y x and Σ γ y x.
    """

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

    Dual points hold ``"U"``, of shape (d, 1 + k), ``"ridge"``, in the cardinality form ``"lam"``, and once they are repaired ``"scale"``.

    Parameters
    ----------
    lam : float or None
        Weight of the losses.
    kappa : float or None
        Share of the observations that may have a margin below 1; one of the two is None.
    """

    lam: float | None = None
    kappa: float | None = None
    _known: tuple[Floats, float, float, MultiplierSums] | None = field(default=None, repr=False)

    @property
    def allowance(self) -> float:
        """κ Σ s, infinite where there is no cardinality row."""
        return math.inf if self.kappa is None else self.kappa * self.space.total_weight

    def lam_of(self, dual: Dual) -> float:
        """λ, in the cardinality form that of the dual point."""
        return self.lam if self.lam is not None else float(dual["lam"])

    def evaluate(self, model: LinearModel) -> Evaluation:
        """P at a model and its covariance, every term at its worst end."""
        nothing, moment = self.space.nothing(), moment_of(model)
        norm, trace = penalty_above(nothing, model), 0.0
        value = float(nothing.squared_norm(model).value)
        if moment is not None and moment.V.size:
            value += float(np.sum(moment.V**2))
            trace = sum_above(np.einsum("ij,ij->j", moment.V, moment.V) * (1.0 + (moment.V.shape[0] + 4) * U))
        if not model.coef.any() and model.intercept == 0.0 and not trace:
            if self.lam is None:
                return Evaluation(math.inf, 0.0)
            total = self.space.total_weight
            return Evaluation.at_most(self.lam * total, self.lam * total * (1.0 + 8.0 * U)).parted(
                0.0, self.lam * total
            )
        V = np.zeros((self.space.d, 0)) if moment is None else moment.V
        if self.lam is None:
            holds = self._missed(model, V, np.ones(1))[0] <= self.allowance
            return Evaluation.at_most(value, sum_above([norm, trace])) if holds else Evaluation(math.inf, 0.0)
        found = self._each(_losses, model.without_support(), V, self.lam)
        high = sum_above([norm, trace, *(above for _, above in found)])
        lost = sum(part for part, _ in found)
        return Evaluation.at_most(value + lost, high).parted(value, lost)

    def _missed(self, model: LinearModel, V: Floats, factors: Floats) -> Floats:
        """Return numbers that are at least Σ s z for the covariance VV' times each factor."""
        found = self._each(_missed, model.without_support(), V, factors)
        return np.array([sum_above([part[k] for part in found]) for k in range(factors.size)])

    def enlarged(self, w: Floats, V: Floats) -> Floats | None:
        """Return V times nearly the smallest factor, by at least 1, for which Σ s z ≤ κ Σ s certainly; None if none was found."""
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
        """Return the model of mean `w` and covariance ``VV'``; indicators and support stay with the blocks."""
        plain = self.space.model(w, 0.0, np.zeros(0, dtype=np.intp))
        return RelaxedLinearModel(**vars(plain), moment=SecondMoment(w=w, V=V, z=np.zeros(0)))

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """Return w = 0, and γ = α = 0 with the bound 0."""
        zero = np.zeros((self.space.d, 1))
        dual: Dual = {"U": zero, "ridge": np.zeros(()), "lam": np.zeros(()), "scale": np.zeros(())}
        return [self.model(zero[:, 0], zero[:, :0])], [dual]

    def sums(self, dual: Dual) -> MultiplierSums:
        """Set the multipliers of a point in the states, unless they are there, and return their sums."""
        point, ridge, lam = np.asarray(dual["U"]), float(dual["ridge"]), self.lam_of(dual)
        if self._known is not None and self._known[1:3] == (ridge, lam) and np.array_equal(self._known[0], point):
            return self._known[3]
        found = self.space.shards.change(_multipliers, None, self.space.compared, point, ridge, lam)
        M, error = _added_matrices([part[0] for part in found], [part[1] for part in found])
        values, vectors, top = bounded_spectrum(M, error)
        alpha, gamma, along, back = (sum(part[k] for part in found) for k in (2, 3, 4, 5))
        sums = MultiplierSums(M, values, vectors, top, alpha, gamma, np.asarray(along), np.asarray(back))
        self._known = point, ridge, lam, sums
        return sums

    def _top(self, sums: MultiplierSums, scale: float) -> float:
        """A number that is proved to be at least the largest eigenvalue for the scaled γ, whose rounding is included."""
        return scale * sums.top * (1.0 + 16 * U)

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
            lowest = max(1.0 - self._top(sums, scale), U)
            least = -0.25 * float(projected @ (projected / np.maximum(1.0 - scale * sums.values, lowest)))
            value = math.sqrt(scale) * sums.alpha - scale * sums.gamma + least + self._constant(dual)
            if value > best_value:
                best, best_value = scale, value
        return best, best_value

    def _constant(self, dual: Dual) -> float:
        """−λκΣs in the cardinality form."""
        return 0.0 if self.kappa is None else -self.lam_of(dual) * self.allowance

    def dual_violation(self, dual: Dual) -> float:
        """Return what is missing of a proof that γ is feasible; 0 only if it is proved."""
        scale = float(dual.get("scale", np.ones(())))
        if scale == 0.0:
            return 0.0
        top = self._top(self.sums(dual), scale)
        return 0.0 if top < 1.0 else max(top - 1.0, U)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible point, from the rows themselves."""
        scale = float(dual["scale"])
        if scale == 0.0:
            return Evaluation(0.0, 0.0)
        sums = self.sums(dual)
        mu = down(1.0 - self._top(sums, scale))
        if not mu > 0:
            return Evaluation(-math.inf, 0.0)

        def inverse(c: Floats) -> Floats:
            values = np.maximum(1.0 - scale * sums.values, max(1.0 - self._top(sums, scale), U))
            return np.asarray(sums.vectors @ ((sums.vectors.T @ c) / values))

        w = 0.5 * inverse(math.sqrt(scale) * sums.along - 2.0 * scale * sums.back)
        best = Evaluation(-math.inf, 0.0)
        for _ in range(2):
            found = self._each(_row_sums, w, scale, self.lam_of(dual))
            least, gradient = minimum_from(w, [part[2] for part in found], mu)
            gains, below = sum(part[0] for part in found), sum_below([part[1] for part in found])
            constant = self._constant(dual)
            lowest = sum_below([below, least.below, constant * (1.0 + 4.0 * U)])
            bound = Evaluation.at_least(gains + least.value + constant, lowest)
            if bound.below > best.below:
                best = bound
            if not math.isfinite(bound.below) or least.gradient**2 / (4.0 * mu) <= 1e-9 * abs(bound.value):
                break
            w = w - 0.5 * inverse(gradient)
        return best

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """The lower end is one of the 0-1 problem as well."""
        return {"zero_one_lower": self.evaluate_dual(dual).below} if dual and float(dual["scale"]) > 0 else {}


@reads_rows
def _losses(
    pieces: Pieces, parts: Parts, make: Make, settings: BlockSettings, model: LinearModel, V: Floats, lam: float
) -> list[tuple[float, float]]:
    """Return λ Σ s z of each block, and a number that is at least that."""
    found = []
    for space in spaces(pieces, parts, settings):
        if not space.data.n:
            continue
        u, variance = _worst_scores(space, model, V)
        weight = space.data.weight
        z = worst_indicator(u, variance)
        missed = sum_above(weight * z * (1.0 + 4 * U)) if z.any() else 0.0
        found.append((lam * float(weight @ relaxed_indicator(u, variance)), lam * missed * (1.0 + 4 * U)))
    return found


@reads_rows
def _missed(
    pieces: Pieces, parts: Parts, make: Make, settings: BlockSettings, model: LinearModel, V: Floats, factors: Floats
) -> list[list[float]]:
    """Return, for each block, numbers that are at least Σ s z for the covariance VV' times each factor."""
    found = []
    for space in spaces(pieces, parts, settings):
        if not space.data.n:
            continue
        u, variance = _worst_scores(space, model, V)
        weight = space.data.weight
        each = [worst_indicator(u, variance * factor * (1.0 - 2.0 * U)) for factor in factors.tolist()]
        found.append([sum_above(weight * z * (1.0 + 4 * U)) if z.any() else 0.0 for z in each])
    return found


def _worst_scores(space: LinearSpace, model: LinearModel, V: Floats) -> tuple[Floats, Floats]:
    """Return margins and variances that those of the rows are at least."""
    f = space.scores(model)
    variance = np.zeros(space.data.n)
    if V.shape[1]:
        variance, _ = RowGeometry(space.X).spread(SecondMoment(w=V[:, 0], V=V, z=np.zeros(0)))
    return space.data.y * f.value - f.error, variance


@reads_rows
def _multipliers(
    pieces: Pieces, parts: Parts, settings: BlockSettings, point: Floats, ridge: float, lam: float
) -> tuple[Parts, tuple[Floats, float, float, float, Floats, Floats]]:
    """Set γ and α of a stationary point; return Σ γ x x' of a shard with its error, and the sums of the multipliers."""
    gammas, alphas = [], []
    d = point.shape[0]
    M, error, sum_alpha, sum_gamma, along, back = np.zeros((d, d)), 0.0, 0.0, 0.0, np.zeros(d), np.zeros(d)
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
        own, lost = weighted_gram_above(part, gamma[chosen], rows.norms[chosen])
        M, error = _added_matrices([M, own], [error, lost])
        signed = y[chosen]
        sum_alpha, sum_gamma = sum_alpha + float(alpha.sum()), sum_gamma + float(gamma.sum())
        along += part.T @ (signed * alpha[chosen])
        back += part.T @ (signed * gamma[chosen])
    return {GAMMA: gammas, ALPHA: alphas}, (M, error, sum_alpha, sum_gamma, along, back)


def _added_matrices(matrices: Sequence[Floats], errors: Sequence[float]) -> tuple[Floats, float]:
    """Return the sum of matrices and a bound on the norm of its error, from bounds on the norms of theirs."""
    M = matrices[0].copy()
    for part in matrices[1:]:
        M += part
    # Adding rounds each entry; the Frobenius norm bounds the other one.
    added = inner_error(len(matrices), sum(norm_above(part.ravel()) for part in matrices))
    return M, (sum(errors) + float(added)) * (1.0 + 8.0 * len(matrices) * U)


@reads_rows
def _row_sums(
    pieces: Pieces, parts: Parts, make: Make, settings: BlockSettings, w: Floats, scale: float, lam: float
) -> list[tuple[float, float, RowSums]]:
    """Return, for each block, Σ (α − γ − h*) and a number that it is at least, and the sums for the bound of ψ."""
    found = []
    for space, rows, gamma, alpha in zip(
        spaces(pieces, parts, settings), parts["rows"], parts[GAMMA], parts[ALPHA], strict=True
    ):
        statement = make(space=space)
        gamma = gamma * scale
        alpha = statement.capped(alpha * math.sqrt(scale), gamma, lam)
        chosen = np.flatnonzero(gamma > 0)
        X = space.X if chosen.size == gamma.size else space.X[chosen]
        m = Multipliers(gamma[chosen], alpha[chosen], rows.y[chosen], scale)
        gains = statement.gains_of(gamma, alpha, lam)
        found.append((gains.value, gains.below, row_sums(X, rows.norms[chosen], w, m.a, m)))
    return found
