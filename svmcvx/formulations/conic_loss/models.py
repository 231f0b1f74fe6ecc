r"""The primal of the conic relaxation in low-rank form, P(w, V) with its gradient, and models with
their second moment, recovered from an approximate solution.

The symbols are those of :mod:`svmcvx.formulations.conic_loss.statement`; `A` holds the signed rows
:math:`y_i x_i`.

Source: [CepedaGomezHan], Theorem 2 and Appendix C, with :math:`W = ww' + VV'`.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.optimize import brentq, minimize

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import EPS
from svmcvx.certificate.bounded import (
    Bounded,
    exact,
    parts_of,
    quietly,
    signed,
    sqrt,
    square,
    total,
    where,
)
from svmcvx.certificate.exactly import nearest_sum
from svmcvx.feature_space import FeatureSpace, KernelSpace
from svmcvx.formulations.base import ON_SUPPORT, SHRINKS
from svmcvx.formulations.conic_loss.geometry import geometry_of
from svmcvx.losses import slack
from svmcvx.model import BinaryModel, KernelModel, LinearModel, frozen
from svmcvx.system.memory import SMALL_ENTRIES


@quietly
def relaxed_indicator(u: Any, v: Any) -> Any:
    """Return :math:`z = (1-u)_+^2/(v + (1-u)_+^2)`, 0 where u ≥ 1, of plain or exact numbers."""
    m = slack(u)
    missed, spread = parts_of(m)[0] > 0.0, parts_of(v)[0] > 0.0
    if not spread.any():
        return where(missed, exact(1.0) if isinstance(u, Bounded) else 1.0, 0.0)
    inside = 1.0 / (1.0 + square(sqrt(v) / m))
    return where(missed & spread, inside, np.where(missed, 1.0, 0.0))


def worst_indicator(u: Floats, v: Floats) -> Floats:
    """Return upper bounds of :func:`relaxed_indicator` for margins ≥ `u` and variances ≥ `v`."""
    return np.asarray(np.minimum(relaxed_indicator(exact(u), exact(v)).upper, 1.0))


def objective(
    squared_norm: Any, spread: Any, u: Any, v: Any, *, lam: Any, weight: Any = 1.0
) -> Any:
    r"""Return :math:`\|w\|^2 + \|V\|_F^2 + \lambda\sum_i s_i z_i`, by the squared norms."""
    return squared_norm + spread + total_loss(u, v, lam=lam, weight=weight)


def total_loss(u: Any, v: Any, *, lam: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`\lambda\sum_i s_i z_i`."""
    return lam * total(weight * relaxed_indicator(u, v))


def stationary_multipliers(u: Floats, v: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Return the stationary γ = h(1 − u)₊²/t² and α = 2h(1 − u)₊/t of heights h = λs."""
    m = slack(u)
    ratio = np.divide(m, v + m**2, out=np.zeros_like(m), where=m > 0)
    return height * ratio**2, 2.0 * height * ratio


def weighted_gram(L: Any, weights: Floats) -> Floats:
    """Return the dense Σ c_i x_i x_i' of the rows of `L`, by blocks, without zero weights."""
    n, r = L.shape
    if sp.issparse(L):
        return np.asarray((L.T @ (sp.diags_array(weights) @ L)).toarray())
    found = np.zeros((r, r))
    rows = max(1, SMALL_ENTRIES // max(1, r))
    for start in range(0, n, rows):
        block, c = L[start : start + rows], weights[start : start + rows]
        counted = np.flatnonzero(c)
        if 2 * counted.size < c.size:
            block, c = block[counted], c[counted]
        found += block.T @ (c[:, None] * block)
    return found


def low_rank_gradient(
    w: Floats, V: Floats, A: Any, height: Floats
) -> tuple[float, Floats, Floats, Floats, Floats]:
    """Return :math:`P(w, V)`, its gradients by w and V, and the γ and α of a stationary point."""
    u, P = np.asarray(A @ w), np.asarray(A @ V)
    m, v = slack(u), np.sum(P**2, axis=1)
    gamma, alpha = stationary_multipliers(u, v, height)
    value = objective(float(w @ w), float(np.sum(V**2)), u, v, lam=1.0, weight=height)
    # ∂z/∂u = −2mv/t² and ∂z/∂v = −m²/t², in γ and α.
    gradient_w = 2.0 * w - np.asarray(A.T @ (alpha - 2.0 * gamma * m))
    return value, gradient_w, 2.0 * V - 2.0 * np.asarray(A.T @ (gamma[:, None] * P)), gamma, alpha


def polish(w: Floats, V: Floats, A: Any, height: Floats) -> tuple[Floats, Floats]:
    """Minimise P by L-BFGS from a moderate solution; P is smooth where slack or variance is > 0."""
    sizes = np.sum(V**2, axis=0)
    V = V[:, sizes > 1e-7 * sizes.max(initial=0.0)]
    if V.shape[1] == 0:
        return w, V

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        columns = point[w.size :].reshape(V.shape)
        value, by_w, by_V, *_ = low_rank_gradient(point[: w.size], columns, A, height)
        return value, np.concatenate([by_w, by_V.ravel()])

    options = {"maxiter": 500, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
    start = np.concatenate([w, V.ravel()])
    end = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x
    return end[: w.size], end[w.size :].reshape(V.shape)


def polish_to_cardinality(
    w: Floats, V: Floats, A: Any, weight: Floats, *, lam: float, allowance: float
) -> tuple[float, Floats, Floats]:
    """Polish with λ by the secant method so that Σ s z = allowance; return λ and its point."""
    best, least = (lam, w, V), math.inf

    def excess(log_lam: float) -> float:
        nonlocal w, V, best, least
        w, V = polish(w, V, A, math.exp(log_lam) * weight)
        missed = float(weight @ relaxed_indicator(A @ w, np.sum(np.asarray(A @ V) ** 2, axis=1)))
        found = math.log(missed / allowance)
        if abs(found) < least:
            best, least = (math.exp(log_lam), w, V), abs(found)
        return found

    # Without a missed observation there is nothing to adjust, nor without a covariance.
    if not V.shape[1]:
        return best
    with suppress(ArithmeticError, ValueError):
        log_lam = math.log(lam)
        # The sum decreases with λ, in a first step as 1/λ.
        error = move = excess(log_lam)
        for _ in range(15):
            log_lam += move
            before, error = error, excess(log_lam)
            if abs(error) <= 1e-9:
                break
            move = min(max(move * error / (before - error), -2.0), 2.0)
    return best


@dataclass(frozen=True, eq=False)
class SecondMoment:
    r"""Mean and covariance of the random hyperplane of the relaxation, in the factor's columns.

    Unless the factor is the data, the certificate evaluates the covariance :math:`\Phi'BB'\Phi` in
    feature space, with B the `coefficients`.
    """

    w: Floats
    V: Floats
    z: Floats
    rounded: BinaryModel | None = None
    coefficients: Floats | None = None

    def __post_init__(self) -> None:
        for name in ("w", "V", "z", "coefficients"):
            if getattr(self, name) is None:
                continue
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def W(self) -> Floats:
        """The second moment, shape (r, r)."""
        return np.outer(self.w, self.w) + self.V @ self.V.T

    @property
    def spectrum(self) -> Floats:
        """Eigenvalues of W in descending order, without zeros from the rank of (w V)."""
        return np.asarray(np.linalg.svd(np.column_stack([self.w, self.V]), compute_uv=False)) ** 2


@dataclass(frozen=True, eq=False)
class RelaxedLinearModel(LinearModel):
    """A :class:`~svmcvx.LinearModel` of the mean, which :meth:`save` stores, with the moment."""

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        LinearModel(*(getattr(self, field.name) for field in fields(LinearModel))).save(path)


@dataclass(frozen=True, eq=False)
class RelaxedKernelModel(KernelModel):
    """A :class:`~svmcvx.KernelModel` of the mean, which :meth:`save` stores, with the moment."""

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        KernelModel(*(getattr(self, field.name) for field in fields(KernelModel))).save(path)


def moment_of(model: Any) -> SecondMoment | None:
    """Return the second moment of a model of the relaxation, None for any other."""
    return model.moment if isinstance(model, (RelaxedLinearModel, RelaxedKernelModel)) else None


def relaxed_model(
    space: FeatureSpace, w: Floats, V: Floats, rounded: BinaryModel | None = None
) -> BinaryModel:
    """Return the model of mean `w` and covariance ``VV'`` in the columns of ``space.factor``."""
    data, L = space.data, space.factor
    u = data.y * np.asarray(L @ w)
    z = np.full(data.rows, math.nan)
    z[data.index] = relaxed_indicator(u, np.sum(np.asarray(L @ V) ** 2, axis=1))
    plain = space.model_from_factor(w, support=u <= 1.0 + ON_SUPPORT)
    moment = SecondMoment(w, V, z, rounded, _in_feature_space(space, V))
    return (RelaxedLinearModel if isinstance(plain, LinearModel) else RelaxedKernelModel)(
        **vars(plain), moment=moment
    )


def _in_feature_space(space: FeatureSpace, V: Floats) -> Floats | None:
    """Return B with Φ'BB'Φ near the covariance; None where V is in the columns of the data."""
    if space.is_linear and space.factor_is_data:
        return None
    L = space.factor
    if V.shape[1] == 0:
        return np.zeros((L.shape[0], 0))
    if isinstance(space, KernelSpace):
        return space.factorisation.expansion(V)
    return np.asarray(sl.lstsq(L.T, V, check_finite=False)[0])


def within(weight: Floats, z: Floats, allowance: float) -> bool:
    """Return whether Σ s z ≤ allowance, exactly so for whole z, certainly so for others."""
    terms = np.where((z == 0.0) | (z == 1.0), weight * z, (exact(weight) * z).upper)
    # The sign of a sum that is rounded once is exact.
    return nearest_sum([*terms.tolist(), -allowance], math.inf) <= 0.0


def covariance_factor(w: Floats, W: Floats) -> Floats:
    """Return V with ``VV' = W - ww'``, without the eigenvalues that are rounding errors."""
    values, vectors = sl.eigh(0.5 * (W + W.T) - np.outer(w, w))
    significant = values > 1e-14 * max(float(values[-1]), float(w @ w))
    return np.asarray(vectors[:, significant] * np.sqrt(values[significant]))


def rounded_point(
    space: FeatureSpace, w: Floats, satisfied: Bools | None = None
) -> tuple[Floats, BinaryModel]:
    """Scale a point to keep margins ≥ 1 as they are certified; return it and its model."""
    y = space.data.y
    satisfied = y * np.asarray(space.factor @ w) >= 1.0 if satisfied is None else satisfied
    for _ in range(2):
        model = space.model_from_factor(w, support=satisfied)
        f = space.scores(model)
        reached = (y * f.value - 2.0 * f.error)[satisfied]
        if reached.size and reached.min() > 0:
            w = w * max(1.0, (1.0 + EPS) / float(reached.min()))
    return w, space.model_from_factor(w, support=satisfied)


def enlarged_covariance(
    space: FeatureSpace, w: Floats, V: Floats, allowance: float
) -> Floats | None:
    """Return the least multiple of V, at least 1, with Σ s z ≤ allowance for certain, or None."""
    weight, geometry = space.data.weight, geometry_of(space)
    u = signed(space.data.y, space.scores(space.model_from_factor(w))).lower

    def variances(V: Floats) -> Floats:
        moment = SecondMoment(w, V, np.zeros(0), coefficients=_in_feature_space(space, V))
        return geometry.spread(moment)[0] if V.shape[1] else np.zeros(u.size)

    v = variances(V)
    if within(weight, worst_indicator(u, v), allowance):
        return V

    def excess(log_factor: float) -> float:
        z = worst_indicator(u, v * (1.0 + math.exp(log_factor)))
        return math.fsum([*(exact(weight) * z).upper.tolist(), -allowance])

    # Of the largest factor that is tried.
    low, high = math.log(EPS), math.log(1e12)
    if excess(high) > 0:
        return None
    factor = math.exp(low if excess(low) <= 0 else brentq(excess, low, high, xtol=1e-13))
    # Variances are rounded too.
    for widening in SHRINKS:
        larger = V * math.sqrt((1.0 + factor) * (1.0 + widening))
        if within(weight, worst_indicator(u, variances(larger)), allowance):
            return larger
    return None
