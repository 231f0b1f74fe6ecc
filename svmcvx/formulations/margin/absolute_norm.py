r"""The linear SVM with the sum of absolute coefficients and the squared hinge loss.

.. math:: \min_w\; \|w\|_1 + C\sum_i s_i (1-u_i)_+^2, \qquad u_i = y_i\langle w, x_i\rangle.

**Dual.** With :math:`C s (1-u)_+^2 = \max_{\alpha \ge 0} \alpha(1-u) - \alpha^2/(4Cs)`,

.. math:: \max_{\alpha \ge 0}\; \sum_i \alpha_i - \sum_i \frac{\alpha_i^2}{4Cs_i} \quad\text{s.t.}\quad
    \Big|\sum_i \alpha_iy_ix_{ij}\Big| \le 1 \text{ for all } j.

It is the problem of scikit-learn's ``LinearSVC(penalty="l1")``, with the intercept as the
coefficient of a constant feature, whose size is penalised with the rest, or none. The builder is
:func:`svmcvx.formulations.margin.absolute_norm_problems.l1_svm`.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data with the constant feature, labels   (n, d), (n,)
w              coefficients                             (d,)
alpha          multipliers                              (n,)
============== ======================================== =========
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, square, total
from svmcvx.certificate.rows import inner_error
from svmcvx.formulations.base import CLEARLY_ZERO, BinaryStatement, RecoveredPoints
from svmcvx.losses import hinge_power
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.solution import Evidence

__all__ = ["AbsoluteNormSVM"]

Floats: TypeAlias = NDArray[np.float64]

# Steps in which the observations inside the margin are found again.
NEWTON_STEPS = 20
# Times that multipliers are divided until the constraints hold in spite of their rounding.
DIVISIONS = 5


@dataclass(frozen=True, eq=False)
class AbsoluteNormSVM(BinaryStatement):
    """The problem bound to data, in a linear space with a penalised intercept or none."""

    name: ClassVar[str] = "l1_squared_hinge"
    weights_of_columns: ClassVar[bool] = True
    C: float = 1.0

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C and the kernel."""
        return {"C": self.C, **super().hyperparameters}

    def evidence(self, model: Any = None) -> Evidence | None:
        """None: the second checker does not know the formulation."""
        return None

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """The objective."""
        assert isinstance(model, LinearModel)  # noqa: S101 - the formulation has no kernel
        u = self.margins_of(model)
        losses = exact(self.C) * total(self.loss_weight * hinge_power(u, exact(2.0)))
        return Evaluation.of(
            regulariser=total(exact(np.abs(np.append(model.coef, model.intercept)))), losses=losses
        )

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """W = 0, and zero multipliers."""
        return [self.model(np.zeros(self.space.X.shape[1]))], [{"alpha": np.zeros(self.y.size)}]

    def model(self, w: Floats) -> LinearModel:
        """Return the model of coefficients of the columns of the space; it rests on the
        observations with a loss.
        """
        data = self.space.data
        support = (
            data.index[self.y * np.asarray(self.space.X @ w) < 1.0]
            if w.any()
            else np.zeros(0, dtype=np.intp)
        )
        coef, intercept = (
            (w[:-1], float(w[-1])) if self.space.intercept == "penalised" else (w, 0.0)
        )
        return LinearModel(coef=coef, intercept=intercept, classes=data.classes, support=support)

    def multipliers(self, model: LinearModel) -> Floats:
        """Return the slopes of the losses at a model."""
        f = self.space.scores(model).value
        return np.asarray(2.0 * self.C * self.weight * np.maximum(1.0 - self.y * f, 0.0))

    def polished(self, w: Floats) -> Floats | None:
        """Return coefficients near these, with the same signs, at which the smooth part is
        stationary; None if there are none.
        """
        X, y = self.space.X, self.y
        used = np.flatnonzero(w)
        if not used.size:
            return np.zeros(w.size)
        columns = X[:, used].toarray() if sp.issparse(X) else X[:, used]
        signs, now = np.sign(w[used]), w[used].astype(np.float64)
        rows = columns * y[:, None]
        for _ in range(NEWTON_STEPS):
            inside = rows @ now < 1.0
            weighted = 2.0 * self.C * self.weight[inside, None] * rows[inside]
            step, *_ = sl.lstsq(
                rows[inside].T @ weighted, weighted.sum(axis=0) - signs, lapack_driver="gelsy"
            )
            if not np.isfinite(step).all() or (np.sign(step) != signs).any():
                return None
            now = step
            if np.array_equal(rows @ now < 1.0, inside):
                found = np.zeros(w.size)
                found[used] = now
                return found
        return None

    def recover(self, w: Floats, alpha: Floats) -> RecoveredPoints:
        """Return models and multipliers near a solver's point, whose coefficients and multipliers
        are all slightly off zero.

        A coefficient is taken for zero where the side of its constraint is clearly below 1, or is
        so for its size; with the others the smooth part is made stationary.
        """
        slack = 1.0 - np.abs(np.asarray(self.space.X.T @ (self.y * alpha)))
        clearly, by_size = (
            slack > CLEARLY_ZERO,
            np.abs(w) < CLEARLY_ZERO * slack * float(np.abs(w).max(initial=0.0)),
        )
        sparse = [np.where(zero, 0.0, w) for zero in (by_size, clearly)]
        points = [*(self.polished(each) for each in sparse), *sparse, w]
        models = [self.model(each) for each in points if each is not None]
        return RecoveredPoints(
            models, [{"alpha": alpha}, *({"alpha": self.multipliers(model)} for model in models)]
        )

    def _largest(self, alpha: Floats) -> float:
        """A number that is at least the largest side of the constraints."""
        X, terms = self.space.X, alpha.size
        sides = np.abs(np.asarray(X.T @ (self.y * alpha)))
        return float(
            np.max(
                Bounded(sides, inner_error(terms, np.asarray(abs(X).T @ alpha))).upper, initial=0.0
            )
        )

    def repair(self, dual: Dual) -> Dual:
        """Make multipliers non-negative, and scale them to the best multiple that is feasible."""
        alpha = np.maximum(self.entry(dual, "alpha"), 0.0)
        squares = float(np.sum(alpha**2 / self.weight))
        if not (alpha.any() and math.isfinite(squares)):
            return {"alpha": np.zeros(alpha.size)}
        best, largest = 2.0 * self.C * float(alpha.sum()) / squares, self._largest(alpha)
        alpha = alpha * (best if best * largest <= 1.0 else 1.0 / largest)
        for _ in range(DIVISIONS):
            if (largest := self._largest(alpha)) <= 1.0:
                return {"alpha": alpha}
            alpha = np.maximum((exact(alpha) / largest).lower, 0.0)
        return {"alpha": np.zeros(alpha.size)}

    def dual_violation(self, dual: Dual) -> float:
        """Largest excess over the constraints."""
        alpha = self.entry(dual, "alpha")
        if not np.isfinite(alpha).all():
            return math.inf
        return max(float(-alpha.min(initial=0.0)), self._largest(np.maximum(alpha, 0.0)) - 1.0, 0.0)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """The dual objective."""
        alpha = exact(self.entry(dual, "alpha"))
        return total(alpha) - total(square(alpha) / self.loss_weight) / (4.0 * exact(self.C))
