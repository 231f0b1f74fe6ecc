r"""ODM: the optimal margin distribution machine, and what it shares with its predecessor ODML.

**Primal**, :math:`C_1, C_2 > 0`, :math:`0 \le D < 1`, with shares :math:`c_i = s_i / m` of the
weights :math:`s_i` (1 by default) and their sum :math:`m = \sum_i s_i`, so that an observation of
weight k counts as k copies of it:

.. math::
    \min_w\; P(w) = \tfrac12\|w\|^2 + \sum_i c_i \big(C_1 (1 - D - u_i)_+^2 + C_2 (u_i - 1 - D)_+^2\big), \qquad
    u_i = y_i \langle w, \varphi(x_i)\rangle.

**Dual**, unconstrained in the signed multipliers :math:`\theta = \zeta - \beta`:

.. math::
    \max_\theta\; G(\theta) = \sum_i \theta_i - D \sum_i |\theta_i| - \tfrac12 v'Kv
      - \sum_i \frac{(\theta_i)_+^2}{4 C_1 c_i} - \sum_i \frac{(\theta_i)_-^2}{4 C_2 c_i}, \qquad v_i = \theta_i y_i.

The dual of [ZhangZhou] has :math:`\zeta, \beta \ge 0`, twice as many variables; at its optimum
:math:`\zeta_i \beta_i = 0`, so both have the same value. At the optimum

.. math:: \theta_i = 2 C_1 c_i (1 - D - u_i)_+ - 2 C_2 c_i (u_i - 1 - D)_+, \qquad w = \sum_i v_i \varphi(x_i),

and for *every* w the first formula gives a dual point with :math:`P(w) - G(\theta) = \tfrac12\|w -
\sum_i v_i\varphi(x_i)\|^2`.

============== ================================================ =========
symbol         meaning                                          shape
============== ================================================ =========
X, y           data, labels ±1                                  (n, d), (n,)
K              Gram matrix                                      (n, n)
L              factor of it, or the data                        (n, r)
c              shares of the weights, 1/n without weights       (n,)
theta          signed multipliers                               (n,)
w              normal in the columns of L                       (r,)
u              margins                                          (n,)
============== ================================================ =========

**Scaling.** Losses are averaged, so multiplying all weights by a number changes nothing. At D = 0
and :math:`C_1 = C_2 = C` this is ridge regression on the labels, scikit-learn's ``Ridge(alpha=m /
(2 * C), fit_intercept=False)``. There is no intercept; ``intercept=True`` appends a constant
feature, whose coefficient is penalised with the others.

**Source.** [ZhangZhou], Optimal Margin Distribution Machine, eqs. (7), (15)-(19), (22). Eq. (15)
there ends in :math:`-\xi` where :math:`-\epsilon` is meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import (
    Bounded,
    by_rows,
    exact,
    positive_part,
    square,
    total,
    weighted_total,
    where,
)
from svmcvx.data import binary_data, check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace, feature_space, penalised_or_none
from svmcvx.formulations.base import BinaryStatement, LinearDual, RecoveredPoints
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel
from svmcvx.system.deadline import current

__all__ = [
    "ODM",
    "ODMStatement",
    "bound_odm",
    "check_band",
    "dual_objective",
    "margin_space",
    "multipliers",
    "objective",
    "solve_positive",
]

Floats: TypeAlias = NDArray[np.float64]

# Newton steps of the polishing, and unknowns of one of its systems, at most.
ROUNDS = 40
LARGEST_SYSTEM = 4000
# Smallest share of an observation in the sum of weights.
LEAST_SHARE = 2.0**-300


def objective(squared_norm: Any, u: Any, *, C1: Any, C2: Any, D: Any, share: Any = None) -> Any:
    r"""Return :math:`P = \tfrac12\|w\|^2 + \sum_i c_i (C_1 (1-D-u_i)_+^2 + C_2 (u_i-1-D)_+^2)`;
    :math:`c_i = 1/n` by default.

    Of plain or of bounded numbers, like :func:`dual_objective`.
    """
    short, long = _deviations(u, D)
    return 0.5 * squared_norm + weighted_total(
        _share(share, u), C1 * square(short) + C2 * square(long)
    )


def dual_objective(
    theta: Any, squared_norm: Any, *, C1: Any, C2: Any, D: Any, share: Any = None
) -> Any:
    r"""Return :math:`G(\theta)`, with :math:`v'Kv` passed as `squared_norm`."""
    conjugate = theta * (theta / (4.0 * where(theta > 0, C1, C2) * _share(share, theta)))
    return total(theta - D * abs(theta) - conjugate) - 0.5 * squared_norm


def multipliers(
    u: Floats, *, C1: float, C2: float, D: float, share: Floats | float | None = None
) -> Floats:
    r"""Return :math:`\theta_i = 2 C_1 c_i (1-D-u_i)_+ - 2 C_2 c_i (u_i-1-D)_+`, minus the
    derivative of the losses.
    """
    short, long = _deviations(u, D)
    return np.asarray(2.0 * _share(share, u) * (C1 * short - C2 * long))


def _deviations(u: Any, D: Any) -> tuple[Any, Any]:
    return positive_part(1.0 - D - u), positive_part(u - (1.0 + D))


def _share(share: Any, like: Any) -> Any:
    return 1.0 / like.size if share is None else share


@dataclass(frozen=True, eq=False)
class ODMStatement(BinaryStatement):
    """What the statements of the ODM family share: no free intercept, and averaged losses."""

    @cached_property
    def share(self) -> Floats:
        """Shares of the weights, of sum 1, rounded."""
        return self.weight / self.space.data.total_weight

    @cached_property
    def bounded_share(self) -> Bounded:
        """The shares with their errors; a number where all are equal."""
        data = self.space.data
        if data.whole_weight is None and (self.weight == self.weight[0]).all():
            return exact(1.0) / float(data.n)
        return exact(self.weight) / data.bounded_weight

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The kernel, and whether a constant feature was appended."""
        return {**super().hyperparameters, "intercept": self.space.intercept == "penalised"}


@dataclass(frozen=True, eq=False)
class ODM(ODMStatement):
    """The statement of the ODM bound to data."""

    name: ClassVar[str] = "odm"
    C1: float
    C2: float
    D: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C1, C2, D, the kernel and the intercept."""
        return {"C1": self.C1, "C2": self.C2, "D": self.D, **super().hyperparameters}

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        return Evaluation.of(regulariser=0.5 * self.penalty(model), losses=self.losses(model))

    @property
    def _parameters(self) -> dict[str, Bounded]:
        return {"C1": exact(self.C1), "C2": exact(self.C2), "D": exact(self.D)}

    def losses(self, model: BinaryModel) -> Bounded:
        """The averaged losses."""
        found: Bounded = by_rows(
            lambda u, c: objective(0.0, u, share=c, **self._parameters),
            self.margins_of(model),
            self.bounded_share,
        )
        return found

    def margins_at(self, w: Floats) -> Floats:
        """Return the margins of a normal in the columns of the factor."""
        return np.asarray(self.y * (self.space.factor @ w))

    def multipliers(self, u: Floats) -> Floats:
        """Return the dual point of margins, optimal if they are."""
        return multipliers(u, C1=self.C1, C2=self.C2, D=self.D, share=self.share)

    def repair(self, dual: Dual) -> Dual:
        """Return θ as it is: every point is feasible."""
        return {"theta": self.entry(dual, "theta")}

    def dual_violation(self, dual: Dual) -> float:
        """0 for every θ that is made of numbers."""
        return 0.0 if np.isfinite(self.entry(dual, "theta")).all() else math.inf

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """G at any θ."""
        return (
            self.minus_conjugate(dual)
            - 0.5 * self.space.point(self.coefficients(dual)).squared_norm
        )

    def coefficients(self, dual: Dual) -> Floats:
        """Return v of w = Σ v φ(x)."""
        return self.entry(dual, "theta") * self.y

    @classmethod
    def expansion_multipliers(cls, dual: Dual) -> Floats | None:
        """Return θ."""
        return dual.get("theta")

    def minus_conjugate(self, dual: Dual) -> Bounded:
        """Σθ − DΣ|θ| less the conjugates of the losses; multipliers of zero have none."""
        theta, c = self.entry(dual, "theta"), self.bounded_share
        support = np.flatnonzero(theta)
        if support.size < theta.size:
            theta, c = theta[support], c if c.shape == () else c[support]
        found: Bounded = by_rows(
            lambda t, c: dual_objective(t, 0.0, share=c, **self._parameters), exact(theta), c
        )
        return found

    def linear_dual(self) -> LinearDual:
        """Return the dual side with an added linear term."""
        return LinearDual(self)

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """Return w = 0 and θ = 0: P is at most :math:`C_1(1-D)^2`, and not negative."""
        return [self.space.model(np.zeros(self.y.size))], [{"theta": np.zeros(self.y.size)}]

    def recover(self, theta: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return the models of (approximate) multipliers, and multipliers.

        The first candidate, if there is one, solves the optimality conditions to rounding. The
        multipliers of the margins that the approximate ones give, and zero, are further candidates
        for the bound.
        """
        u = (
            self.y * self.space.point(theta * self.y).scores.value
            if w is None
            else self.margins_at(w)
        )
        points = [theta]
        polished = self._polish(u)
        if polished is not None:
            points, w = [polished[0], theta], polished[1]
        models: list[BinaryModel] = [self.space.model(point * self.y) for point in points]
        if w is not None:
            models.append(self.space.model_from_factor(w, support=points[0] != 0))
        return RecoveredPoints(
            models, [{"theta": point} for point in (*points, self.multipliers(u), np.zeros(u.size))]
        )

    def _polish(self, u: Floats) -> tuple[Floats, Floats | None] | None:
        r"""Run Newton's method on P from the margins `u`; None if it fails.

        Return θ of the minimiser, and w where that was solved for. P is piecewise quadratic, so the
        method ends when the pieces stop changing. While it is known which margins are too short or
        too long, the set A, the conditions are linear: :math:`\theta_A = S (t - u_A)` with the
        stiffness :math:`S = \mathrm{diag}(2 C c)` and the ends t of the band. They are solved for
        θ_A, or for w where that is the smaller system: :math:`(S^{-1} + Q_{AA}) \theta_A = t` or
        :math:`(I + Z_A' S Z_A) w = Z_A' S t`, where :math:`Z = YL`, :math:`Q = ZZ'`.
        """
        L, c = self.space.factor, self.share
        theta: Floats = np.zeros(u.size)
        w: Floats | None = None
        for _ in range(ROUNDS):
            short, long = u < 1.0 - self.D, u > 1.0 + self.D
            rows = np.flatnonzero(short | long)
            if min(rows.size, L.shape[1]) > LARGEST_SYSTEM or current().passed():
                return None
            stiffness = 2.0 * c[rows] * np.where(short[rows], self.C1, self.C2)
            end = np.where(short[rows], 1.0 - self.D, 1.0 + self.D)
            part = self.y[rows, None] * (L[rows].toarray() if sp.issparse(L) else L[rows])
            theta, w = np.zeros(u.size), None
            try:
                if rows.size <= L.shape[1]:
                    system = part @ part.T
                    system[np.diag_indices(rows.size)] += 1.0 / stiffness
                    theta[rows] = solve_positive(system, end)
                    u = self.y * np.asarray(L @ (part.T @ theta[rows]))
                else:
                    # As a least-squares problem, by an orthogonal factor: squaring Z would lose its
                    # digits.
                    root = np.sqrt(stiffness)
                    stacked = np.vstack([root[:, None] * part, np.eye(L.shape[1])])
                    orthogonal, upper = sl.qr(stacked, mode="economic", overwrite_a=True)
                    w = sl.solve_triangular(upper, orthogonal[: rows.size].T @ (root * end))
                    u = self.margins_at(w)
                    theta[rows] = stiffness * (end - u[rows])
            except (ValueError, sl.LinAlgError):
                return None
            if np.array_equal(short, u < 1.0 - self.D) and np.array_equal(long, u > 1.0 + self.D):
                break
        return theta, w


def solve_positive(system: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive definite system, which is overwritten."""
    return np.asarray(sl.cho_solve(sl.cho_factor(system, lower=True, overwrite_a=True), right))


def margin_space(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike,
    intercept: bool | str,
    sample_weight: Any,
    indefinite: str,
    largest_gram: float = math.inf,
) -> FeatureSpace:
    """Return the space of validated data, with a constant feature appended if `intercept`.

    No Gram matrix is stored for more than `largest_gram` observations if the kernel is positive
    semidefinite on any data.
    """
    rule = penalised_or_none(intercept)
    data = binary_data(X, y, sample_weight)
    smallest = float(data.weight.min()) / data.total_weight
    if not smallest >= LEAST_SHARE:
        raise DataError(
            f"sample_weight gives an observation the share {smallest:.3g} of the sum of weights,"
            f" below {LEAST_SHARE:.3g}, where losses underflow; leave it out by a weight of zero"
        )
    return feature_space(
        data, kernel, intercept=rule, indefinite=indefinite, keep_gram=data.n <= largest_gram
    )


def check_band(C1: float, C2: float, D: float) -> tuple[float, float, float]:
    """Return C1, C2 and D as numbers, or raise a :class:`~svmcvx.errors.DataError`."""
    return (
        check_number(C1, "C1", low=0, open_low=True),
        check_number(C2, "C2", low=0, open_low=True),
        check_number(
            D,
            "D",
            low=0,
            high=1,
            open_high=True,
            why="a band of half-width 1 would make w = 0 optimal",
        ),
    )


def bound_odm(
    X: Any,
    y: Any,
    C1: float,
    C2: float,
    D: float,
    kernel: KernelLike,
    intercept: bool | str,
    sample_weight: Any,
    indefinite: str,
    largest_gram: float = math.inf,
) -> ODM:
    """Return the statement bound to validated data and hyper-parameters; raises as
    :func:`odm_primal`.

    `largest_gram` is that of :func:`margin_space`.
    """
    C1, C2, D = check_band(C1, C2, D)
    space = margin_space(
        X,
        y,
        kernel=kernel,
        intercept=intercept,
        sample_weight=sample_weight,
        indefinite=indefinite,
        largest_gram=largest_gram,
    )
    return ODM(space=space, C1=C1, C2=C2, D=D)
