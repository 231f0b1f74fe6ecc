r"""Models of the conic relaxation with their second moment, and their recovery from an approximate
solution.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual
from svmcvx.certificate.bounded import Bounded, exact, signed, square, total
from svmcvx.certificate.exactly import nearest_sum
from svmcvx.certificate.rows import Rows
from svmcvx.feature_space import FeatureSpace, KernelSpace
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.conic_loss.geometry import geometry_of
from svmcvx.formulations.conic_loss.primal import (
    low_rank_gradient,
    polish,
    polish_to_cardinality,
    relaxed_indicator,
    worst_indicator,
)
from svmcvx.heuristics.rounding import ON_MARGIN, round_relaxation
from svmcvx.kernels import row_norms
from svmcvx.model import BinaryModel, KernelModel, LinearModel, frozen
from svmcvx.system.deadline import current

__all__ = [
    "RelaxedKernelModel",
    "RelaxedLinearModel",
    "SecondMoment",
    "coordinates_of",
    "covariance_factor",
    "covariance_multiple",
    "enlarged_covariances",
    "moment_of",
    "recover",
    "relaxed_model",
    "rounded_point",
    "within",
]

Floats: TypeAlias = NDArray[np.float64]

# Eigenvalues of a covariance below this share of the largest are taken to be rounding errors.
COVARIANCE_RANK = 1e-14
# Share of the largest eigenvalue of a covariance within which two are equal.
SAME_EIGENVALUE = 1e-14
# Relative distances from the cardinality row that are tried in turn.
SAFE = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)
# What a variance is multiplied by while a covariance is enlarged, so that the variances of the
# enlarged one, which are rounded anew, are larger.
LOWERED = 1.0 - 2.0**-47
# Range and steps of the bisection for the enlargement of a covariance, and its steps after a time
# limit.
LARGEST_ENLARGEMENT, ENLARGEMENT_STEPS, LATE_STEPS = 1e12, 80, 30


@dataclass(frozen=True, eq=False)
class SecondMoment:
    r"""Mean and covariance of the random hyperplane that solves the relaxation, in the columns of
    ``space.factor``.

    Where the factor is not the data themselves (kernels, and more columns than rows) `V` is what it
    was found as, and the point that the certificate evaluates has the covariance
    :math:`\Phi'BB'\Phi + \varepsilon I` in feature space.
    """

    w: Floats
    V: Floats
    z: Floats
    rounded: BinaryModel | None = None
    coefficients: Floats | None = None
    ridge: float = 0.0

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
        """Eigenvalues of W in descending order, without those that are zero because of the rank of
        (w V).
        """
        return np.asarray(np.linalg.svd(np.column_stack([self.w, self.V]), compute_uv=False)) ** 2


@dataclass(frozen=True, eq=False)
class RelaxedLinearModel(LinearModel):
    """A :class:`~svmcvx.LinearModel` with the second moment of the relaxation.

    It predicts like the linear model of the mean, which is what :meth:`save` stores.
    """

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the linear model of the mean; see :meth:`svmcvx.Model.save`."""
        LinearModel(
            coef=self.coef, intercept=self.intercept, classes=self.classes, support=self.support
        ).save(path)


@dataclass(frozen=True, eq=False)
class RelaxedKernelModel(KernelModel):
    """A :class:`~svmcvx.KernelModel` with the second moment of the relaxation.

    It predicts like the kernel model of the mean, which is what :meth:`save` stores.
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


def relaxed_model(
    space: FeatureSpace, w: Floats, V: Floats, rounded: BinaryModel | None = None
) -> BinaryModel:
    """Return the model of mean `w` and covariance ``VV'``, both in the columns of ``space.factor``."""
    data, L = space.data, space.factor
    u = data.y * np.asarray(L @ w)
    z = np.full(data.rows, math.nan)
    columns, ridge = _without_ridge(V)
    variance = np.sum(np.asarray(L @ columns) ** 2, axis=1)
    z[data.index] = relaxed_indicator(
        u, variance + ridge * row_norms(L) ** 2 if ridge else variance
    )
    plain = space.model_from_factor(w, support=u <= 1.0 + ON_MARGIN)
    B, ridge = _in_feature_space(space, V)
    moment = SecondMoment(w=w, V=V, z=z, rounded=rounded, coefficients=B, ridge=ridge)
    return (RelaxedLinearModel if isinstance(plain, LinearModel) else RelaxedKernelModel)(
        **vars(plain), moment=moment
    )


def _without_ridge(V: Floats) -> tuple[Floats, float]:
    """Return V without a multiple of the identity in its last columns, and the square of that, 0 if
    there is none.
    """
    r = V.shape[0]
    if V.shape[1] >= r:
        tail = V[:, V.shape[1] - r :]
        if tail[0, 0] != 0 and np.array_equal(tail, tail[0, 0] * np.eye(r)):
            return V[:, : V.shape[1] - r], float(tail[0, 0]) ** 2
    return V, 0.0


def _in_feature_space(space: FeatureSpace, V: Floats) -> tuple[Floats | None, float]:
    r"""Return B and ε with :math:`\Phi'BB'\Phi + \varepsilon I` near the covariance; None where V
    is in the columns of the data.
    """
    if space.blockwise or (space.is_linear and space.X.shape[1] == V.shape[0]):
        return None, 0.0
    L, ridge = space.factor, 0.0
    n, r = L.shape
    if V.shape[1] >= r == n:
        # A multiple of the identity needs no coefficients, which are large where K is nearly
        # singular.
        V, ridge = _without_ridge(V)
        if ridge == 0.0:
            values, vectors = sl.eigh(V @ V.T)
            ridge = max(float(values[0]), 0.0)
            significant = values - ridge > SAME_EIGENVALUE * float(values[-1])
            V = vectors[:, significant] * np.sqrt(values[significant] - ridge)
    if V.shape[1] == 0:
        return np.zeros((n, 0)), ridge
    if r == n and isinstance(space, KernelSpace) and space.factorisation.method == "cholesky":
        return (
            np.asarray(sl.solve_triangular(L, V, lower=True, trans="T", check_finite=False)),
            ridge,
        )
    B, *_ = sl.lstsq(L.T, V, check_finite=False)
    return np.asarray(B), ridge


def coordinates_of(F: Any, w: Floats) -> tuple[Bounded, Bounded]:
    """Return the scores Fw and ‖w‖²."""
    return Rows(F).product(w), total(square(exact(w)))


def within(weight: Floats, z: Floats, allowance: float) -> bool:
    """Whether Σ s z ≤ allowance, exactly so for whole z, certainly so for others."""
    terms = np.where((z == 0.0) | (z == 1.0), weight * z, (exact(weight) * z).upper)
    # The sign of a sum that is rounded once is exact.
    return nearest_sum([*terms.tolist(), -allowance], math.inf) <= 0.0


def covariance_factor(w: Floats, W: Floats) -> Floats:
    """Return V with ``VV' = W - ww'``, without the eigenvalues that are rounding errors."""
    values, vectors = sl.eigh(0.5 * (W + W.T) - np.outer(w, w))
    significant = values > COVARIANCE_RANK * max(float(values[-1]), float(w @ w))
    return np.asarray(vectors[:, significant] * np.sqrt(values[significant]))


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
    """Return models and dual points; see
    :meth:`svmcvx.formulations.conic_loss.statement.ConicLoss.recover`.
    """
    y, weight, L = space.data.y, space.data.weight, space.factor
    rows = sp.csr_array(sp.diags_array(y) @ L) if sp.issparse(L) else y[:, None] * L
    height = lam if lam is not None else multiplier
    points = [(w, V)]
    if lam is not None:
        points.insert(0, polish(w, V, rows, lam * weight))
    elif height is not None and height > 0:
        height, *polished = polish_to_cardinality(
            w, V, rows, weight, lam=height, allowance=allowance
        )
        points.insert(0, (polished[0], polished[1]))
    w, V = points[0]
    u, v = y * np.asarray(L @ w), np.sum(np.asarray(L @ V) ** 2, axis=1)
    best, value = round_relaxation(
        space,
        w,
        relaxed_indicator(u, v),
        lam=lam,
        k=allowance if lam is None else None,
        stop=current().passed,
    )
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
            *_, gamma, alpha = low_rank_gradient(w, V, rows, height * weight)
            point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
            found.append(point if lam is not None else {**point, "lam": np.array(height)})
    return RecoveredPoints(models, [*found[:1], *duals, *found[1:]])


def rounded_point(space: FeatureSpace, w: Floats) -> tuple[Floats, BinaryModel]:
    """Scale a point so that margins of at least 1 remain so by the model's own arithmetic; return
    it and its model.
    """
    y = space.data.y
    satisfied = y * np.asarray(space.factor @ w) >= 1.0
    for _ in range(2):
        model = space.model_from_factor(w, support=satisfied)
        f = model.scores(space.data.X)
        reached = (y * f.value - 2.0 * f.error)[satisfied]
        if reached.size and reached.min() > 0:
            w = w * max(1.0, (1.0 + EPS) / float(reached.min()))
    return w, space.model_from_factor(w, support=satisfied)


class _CardinalityRow:
    """Σ s z − allowance for a mean w and enlarged covariances, with margins and variances at their
    worst ends.
    """

    def __init__(self, space: FeatureSpace, w: Floats, V: Floats, allowance: float) -> None:
        self.space, self.w, self.V, self.allowance = space, w, V, allowance
        self.geometry, self.weight = geometry_of(space), space.data.weight
        self.norms, self.V_norm = self.geometry.norms**2, float(np.sum(V**2))
        scores = [space.scores(space.model_from_factor(w))]
        if space.blockwise:
            scores.append(coordinates_of(space.factor, w)[0])
        self.u = functools.reduce(np.minimum, [signed(space.data.y, f).lower for f in scores])
        self.v = self.variances(V)

    def variances(self, V: Floats) -> Floats:
        """Return lower bounds of the variances of a covariance, those that the statement finds."""
        B, ridge = _in_feature_space(self.space, V)
        point = SecondMoment(w=self.w, V=V, z=np.zeros(0), coefficients=B, ridge=ridge)
        return self.geometry.spread(point)[0] if V.shape[1] else np.zeros(self.u.size)

    def excess(self, v: Floats, share: float) -> float:
        """Return the excess for variances `v`, with the right side lowered by a share."""
        z = worst_indicator(self.u, v * LOWERED)
        return math.fsum(
            [*(exact(self.weight) * z).upper.tolist(), -self.allowance * (1.0 - share)]
        )

    def _estimated_excess(self, c: float) -> float:
        """Return the excess approximately for the covariance (1 + c)VV'."""
        return float(self.weight @ relaxed_indicator(self.u, self.v * (1.0 + c))) - self.allowance

    def holds(self, V: Floats) -> bool:
        """Whether a covariance satisfies the row."""
        return within(self.weight, worst_indicator(self.u, self.variances(V)), self.allowance)

    def multiple(self, *, late: bool = False) -> Floats | None:
        """Return the smallest multiple of V, by at least 1, that satisfies the row; None if there
        is none.

        If it is late, one that is larger by a small factor is found first, without bounds of the
        rounding errors.
        """
        if within(self.weight, worst_indicator(self.u, self.v), self.allowance):
            return self.V
        if late:
            c = _smallest_feasible(self._estimated_excess, steps=LATE_STEPS)
            if c is not None and self.holds(larger := self.V * math.sqrt(1.0 + c)):
                return larger
        for share in SAFE:
            c = _smallest_feasible(lambda c, share=share: self.excess(self.v * (1.0 + c), share))  # type: ignore[misc]
            if c is None:
                return None
            larger = self.V * math.sqrt(1.0 + c)
            if self.holds(larger):
                return larger
        return None

    def with_ridge(self) -> Floats | None:
        """Return V with the smallest multiple of I that satisfies the row; None if there is none."""
        unit = (
            self.V_norm
            if self.V_norm > 0
            else 1.0 / max(float(self.norms.max()), np.finfo(float).tiny)
        )
        for share in SAFE:
            ridge = _smallest_feasible(
                lambda c, share=share: self.excess(
                    self.v + c * unit * self.norms * (1.0 - 1e-12), share
                )  # type: ignore[misc]
            )
            if ridge is None:
                return None
            larger = np.hstack([self.V, math.sqrt(ridge * unit) * np.eye(self.w.size)])
            if self.holds(larger):
                return larger
        return None


def covariance_multiple(
    space: FeatureSpace, w: Floats, V: Floats, allowance: float
) -> Floats | None:
    """Return the smallest multiple of V, by at least 1, with Σ s z ≤ allowance; None if there is
    none.
    """
    return _CardinalityRow(space, w, V, allowance).multiple()


def enlarged_covariances(
    space: FeatureSpace, w: Floats, V: Floats, allowance: float, *, late: bool = False
) -> list[Floats]:
    """Return V enlarged until Σ s z ≤ allowance: once by a factor, once by a multiple of I, where
    that is possible.

    The second takes an eigendecomposition with a kernel; where it is late it is only tried if there
    is no first.
    """
    row = _CardinalityRow(space, w, V, allowance)
    found = row.multiple(late=late)
    if found is not None and (late or current().passed()):
        return [found]
    return [spread for spread in (found, row.with_ridge()) if spread is not None]


def _smallest_feasible(
    excess: Callable[[float], float], steps: int = ENLARGEMENT_STEPS
) -> float | None:
    """Return the smallest c ≥ 0 with ``excess(c) <= 0``, by bisection in log c; None if the range
    has none.

    `excess` decreases.
    """
    if excess(0.0) <= 0:
        return 0.0
    low, high = math.log(EPS), math.log(LARGEST_ENLARGEMENT)
    if excess(math.exp(low)) <= 0:
        return math.exp(low)
    if excess(math.exp(high)) > 0:
        return None
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            # No number is between them.
            break
        low, high = (middle, high) if excess(math.exp(middle)) > 0 else (low, middle)
    return math.exp(high)
