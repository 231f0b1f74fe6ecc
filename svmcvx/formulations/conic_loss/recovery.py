r"""Models of the conic relaxation with their second moment, and their recovery from an approximate solution."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, accumulated_rounding
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.conic_loss.primal import low_rank_gradient, polish, polish_to_cardinality, relaxed_indicator
from svmcvx.heuristics.rounding import ON_MARGIN, round_relaxation
from svmcvx.kernels import row_norms
from svmcvx.model import BinaryModel, KernelModel, LinearModel, frozen

__all__ = [
    "RelaxedKernelModel",
    "RelaxedLinearModel",
    "SecondMoment",
    "covariance_factor",
    "covariance_multiple",
    "enlarged_covariances",
    "moment_of",
    "recover",
    "relaxed_model",
    "rounded_point",
]

Floats: TypeAlias = NDArray[np.float64]

# Eigenvalues of a covariance below this share of the largest are taken to be rounding errors.
COVARIANCE_RANK = 1e-14
# Range and steps of the bisection for the enlargement of a covariance.
LARGEST_ENLARGEMENT, ENLARGEMENT_STEPS = 1e12, 80


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """Mean and covariance of the random hyperplane that solves the relaxation, in the columns of ``space.factor``.

    Attributes
    ----------
    w : ndarray of shape (r,)
        Mean; the model predicts with it.
    V : ndarray of shape (r, k)
        Factor of the covariance: ``W = ww' + VV'``, so that ``W - ww'`` is positive semidefinite by construction.
    z : ndarray of shape (rows,)
        Relaxed indicators, indexed like the training data; NaN for observations of weight zero.
    rounded : BinaryModel or None
        The best solution of the 0-1 problem that rounding found.
    """

    w: Floats
    V: Floats
    z: Floats
    rounded: BinaryModel | None = None

    def __post_init__(self) -> None:
        for name in ("w", "V", "z"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def W(self) -> Floats:
        """The second moment, shape (r, r)."""
        return np.outer(self.w, self.w) + self.V @ self.V.T

    @property
    def spectrum(self) -> Floats:
        """Eigenvalues of W in descending order, without those that are zero because of the rank of (w V)."""
        return np.asarray(np.linalg.svd(np.column_stack([self.w, self.V]), compute_uv=False)) ** 2


@dataclass(frozen=True, eq=False)
class RelaxedLinearModel(LinearModel):
    """A :class:`~svmcvx.LinearModel` with the second moment of the relaxation.

    It predicts like the linear model of the mean, which is what :meth:`save` stores.

    Attributes
    ----------
    moment : SecondMoment
    """

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the linear model of the mean; see :meth:`svmcvx.Model.save`."""
        LinearModel(coef=self.coef, intercept=self.intercept, classes=self.classes, support=self.support).save(path)


@dataclass(frozen=True, eq=False)
class RelaxedKernelModel(KernelModel):
    """A :class:`~svmcvx.KernelModel` with the second moment of the relaxation.

    It predicts like the kernel model of the mean, which is what :meth:`save` stores.

    Attributes
    ----------
    moment : SecondMoment
    """

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the kernel model of the mean; see :meth:`svmcvx.Model.save`."""
        KernelModel(
            kernel=self.kernel,
            vectors=self.vectors,
            dual_coef=self.dual_coef,
            intercept=self.intercept,
            classes=self.classes,
            support=self.support,
            n_features=self.n_features,
        ).save(path)


def moment_of(model: Any) -> SecondMoment | None:
    """Return the second moment of a model of the relaxation, None for any other."""
    return model.moment if isinstance(model, (RelaxedLinearModel, RelaxedKernelModel)) else None


def relaxed_model(space: FeatureSpace, w: Floats, V: Floats, rounded: BinaryModel | None = None) -> BinaryModel:
    """Return the model of mean `w` and covariance ``VV'``, both in the columns of ``space.factor``."""
    data, L = space.data, space.factor
    u = data.y * np.asarray(L @ w)
    z = np.full(data.rows, math.nan)
    z[data.index] = relaxed_indicator(u, np.sum(np.asarray(L @ V) ** 2, axis=1))
    plain = space.model_from_factor(w, support=u <= 1.0 + ON_MARGIN)
    moment = SecondMoment(w=w, V=V, z=z, rounded=rounded)
    return (RelaxedLinearModel if isinstance(plain, LinearModel) else RelaxedKernelModel)(**vars(plain), moment=moment)


def covariance_factor(w: Floats, W: Floats) -> Floats:
    """Return V with ``VV' = W - ww'``, without the eigenvalues that are rounding errors."""
    values, vectors = sl.eigh(0.5 * (W + W.T) - np.outer(w, w))
    kept = values > COVARIANCE_RANK * max(float(values[-1]), float(w @ w))
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def recover(
    space: FeatureSpace,
    w: Floats,
    V: Floats,
    duals: Sequence[Dual],
    *,
    lam: float | None,
    allowance: float,
    multiplier: float | None,
) -> RecoveredPoints:
    """Return models and dual points; see :meth:`svmcvx.formulations.conic_loss.statement.ConicLoss.recover`.

    Parameters
    ----------
    space, w, V, duals
        As for that method.
    lam : float or None
        Weight of the losses; None in the cardinality form.
    allowance : float
        In the cardinality form the largest Σ s z.
    multiplier : float or None
        In the cardinality form the multiplier of that row.
    """
    y, weight, L = space.data.y, space.data.weight, space.factor
    signed = sp.csr_array(sp.diags_array(y) @ L) if sp.issparse(L) else y[:, None] * L
    height = lam if lam is not None else multiplier
    points = [(w, V)]
    if lam is not None:
        points.insert(0, polish(w, V, signed, lam * weight))
    elif height is not None and height > 0:
        height, *polished = polish_to_cardinality(w, V, signed, weight, lam=height, allowance=allowance)
        points.insert(0, (polished[0], polished[1]))
    w, V = points[0]
    u, v = y * np.asarray(L @ w), np.sum(np.asarray(L @ V) ** 2, axis=1)
    cap = {"lam": lam} if lam is not None else {"k": allowance}
    best, value = round_relaxation(space, w, relaxed_indicator(u, v), **cap)
    models: list[BinaryModel] = []
    rounded = None
    if math.isfinite(value):
        best, rounded = rounded_point(space, best)
        models.append(relaxed_model(space, best, np.zeros((w.size, 0)), rounded))
    for w, V in points:
        spreads = [V] if lam is not None else enlarged_covariances(space, w, V, allowance)
        models += [relaxed_model(space, w, spread, rounded) for spread in spreads]
    found: list[Dual] = []
    if height is not None:
        for w, V in points:
            *_, gamma, alpha = low_rank_gradient(w, V, signed, height * weight)
            point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
            found.append(point if lam is not None else {**point, "lam": np.array(height)})
    return RecoveredPoints(models, [*found[:1], *duals, *found[1:]])


def rounded_point(space: FeatureSpace, w: Floats) -> tuple[Floats, BinaryModel]:
    """Scale a point so that margins of at least 1 remain so by the model's own arithmetic; return it and its model."""
    y = space.data.y
    kept = y * np.asarray(space.factor @ w) >= 1.0
    for _ in range(2):
        model = space.model_from_factor(w, support=kept)
        f, f_rounding = model.scores(space.data.X)
        reached = (y * f - 2.0 * f_rounding)[kept]
        if reached.size and reached.min() > 0:
            w = w * max(1.0, (1.0 + EPS) / float(reached.min()))
    return w, space.model_from_factor(w, support=kept)


class _CardinalityRow:
    """Σ s z − allowance for a mean w and enlarged covariances, with margins and variances lowered by their rounding."""

    def __init__(self, space: FeatureSpace, w: Floats, V: Floats, allowance: float) -> None:
        data, L = space.data, space.factor
        f, f_rounding = space.model_from_factor(w).scores(data.X)
        self.u, self.weight = data.y * f - f_rounding, data.weight
        self.relative = 2.0 * accumulated_rounding(max(L.shape[1], self.u.size))
        self.goal = allowance * (1.0 - self.relative)
        self.norms, self.v = row_norms(L) ** 2, np.sum(np.asarray(L @ V) ** 2, axis=1)
        self.V_norm = float(np.sum(V**2))

    def excess(self, v: Floats, V_norm: float) -> float:
        """Return the excess for variances `v` of a covariance of trace `V_norm`."""
        deviation = np.sqrt(v) - self.relative * np.sqrt(self.norms * V_norm)
        return float(self.weight @ relaxed_indicator(self.u, np.maximum(deviation, 0.0) ** 2)) - self.goal

    def smallest_factor(self) -> float | None:
        """Return the smallest c for the covariance (1 + c)VV'."""
        return _smallest_feasible(lambda c: self.excess(self.v * (1.0 + c), self.V_norm * (1.0 + c)))


def covariance_multiple(space: FeatureSpace, w: Floats, V: Floats, allowance: float) -> Floats | None:
    """Return the smallest multiple of V, by at least 1, with Σ s z ≤ allowance; None if there is none."""
    c = _CardinalityRow(space, w, V, allowance).smallest_factor()
    return None if c is None else V * math.sqrt(1.0 + c)


def enlarged_covariances(space: FeatureSpace, w: Floats, V: Floats, allowance: float) -> list[Floats]:
    """Return V enlarged until Σ s z ≤ allowance: once by a factor, once by a multiple of I, where that is possible."""
    row = _CardinalityRow(space, w, V, allowance)
    unit = row.V_norm if row.V_norm > 0 else 1.0 / max(float(row.norms.max()), np.finfo(float).tiny)
    factor = row.smallest_factor()
    ridge = _smallest_feasible(lambda c: row.excess(row.v + c * unit * row.norms, row.V_norm + c * unit * w.size))
    spreads = [] if factor is None else [V * math.sqrt(1.0 + factor)]
    if ridge is not None:
        spreads.append(np.hstack([V, math.sqrt(ridge * unit) * np.eye(w.size)]))
    return spreads


def _smallest_feasible(excess: Callable[[float], float]) -> float | None:
    """Return the smallest c ≥ 0 with ``excess(c) <= 0``, by bisection in log c; None if the range has none.

    `excess` decreases.
    """
    if excess(0.0) <= 0:
        return 0.0
    low, high = math.log(EPS), math.log(LARGEST_ENLARGEMENT)
    if excess(math.exp(low)) <= 0:
        return math.exp(low)
    if excess(math.exp(high)) > 0:
        return None
    for _ in range(ENLARGEMENT_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(math.exp(middle)) > 0 else (low, middle)
    return math.exp(high)
