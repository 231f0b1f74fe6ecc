"""What all multi-class formulations share: a statement on score differences bound to data, and its
cvxpy problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import Bounded, by_rows, exact, total
from svmcvx.errors import DataError
from svmcvx.formulations.base import Formulation, full_entry, usable
from svmcvx.formulations.multiclass.losses import ScoreLoss
from svmcvx.formulations.multiclass.score_space import ScoreSpace
from svmcvx.model import MulticlassModel
from svmcvx.solution import DataFacts, Evidence
from svmcvx.system import memory

__all__ = ["MulticlassStatement", "require_problem_memory"]

Floats: TypeAlias = NDArray[np.float64]

# Bytes that compiling and solving need for each non-zero of the differences as functions of (W, b).
CONIC_BYTES = 140.0


@dataclass(frozen=True, eq=False)
class MulticlassStatement(Formulation):
    """What the statements of all multi-class formulations share: one linear score a class, a loss
    of score differences.
    """

    scores: ScoreSpace
    loss: ScoreLoss

    @property
    def weight(self) -> Floats:
        """Weights of the losses, of the observations of positive weight."""
        return self.scores.data.weight

    @property
    def facts(self) -> Mapping[str, float]:
        """None: there is no kernel."""
        return {}

    @property
    def data_facts(self) -> DataFacts:
        """Sizes, classes and the short name of the data."""
        return DataFacts.of(self.scores.data)

    def evidence(self, model: MulticlassModel | None = None) -> Evidence | None:
        """Return intercept, weights and the name of the data."""
        data = self.scores.data
        return Evidence(self.scores.intercept, full_entry(self.weight, data), data.fingerprint)

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
        if "alpha" not in dual:
            raise DataError(
                f"the dual point of {self.name} needs the entry 'alpha', got"
                f" {', '.join(dual) or 'nothing'}"
            )
        return self.scores.compress(dual["alpha"], self.name)

    def zero_dual(self) -> Dual:
        """Return the dual point of zeros."""
        return {"alpha": np.zeros((self.scores.data.n, self.scores.data.c))}

    def projected(self, alpha: Floats) -> Floats:
        """Return multipliers exactly inside the domain of the loss."""
        return self.loss.project(np.nan_to_num(alpha, nan=0.0), self.weight)

    def domain_violation(self, alpha: Floats) -> float:
        """Largest violation of the domain of the loss, 0 only if there is none; ``inf`` for
        multipliers that are not numbers.
        """
        if not np.isfinite(alpha).all():
            return np.inf
        return self.loss.domain_violation(alpha, self.weight)

    def minus_conjugate(self, alpha: Floats) -> Bounded:
        r"""Return what the losses contribute to the dual objective, :math:`\sum_i s_i
        g(\alpha_i/s_i)`.
        """
        found: Bounded = by_rows(
            lambda a, s: total(self.loss.conjugate(a, s)), exact(alpha), self.weight
        )
        return found

    @cached_property
    def class_weights(self) -> Floats:
        """Sum of the weights of each class."""
        data = self.scores.data
        return np.asarray(
            np.bincount(data.codes, weights=data.weight, minlength=data.c), dtype=np.float64
        )

    @cached_property
    def _constant(self) -> tuple[float, Floats]:
        """Objective of W = 0 with the best of a few biases, rounded, and these: equal ones, the
        logarithms of the weights of the classes, and biases that prefer the heaviest class or
        follow the order of the weights.
        """
        data, sums = self.scores.data, self.class_weights
        choices = [np.zeros(data.c)]
        if self.scores.intercept != "none":
            order = np.empty(data.c)
            order[np.argsort(sums, kind="stable")] = np.arange(data.c)
            logarithms = np.log(sums / sums.max())
            choices += [
                logarithms - logarithms.mean(),
                np.eye(data.c)[sums.argmax()] - 1.0 / data.c,
            ]
            choices.append(order - order.mean())
        representatives = np.arange(data.c)
        others = representatives[:-1] + (representatives[:-1] >= representatives[:, None])

        def value(b: Floats) -> float:
            return float(sums @ self.loss.value(b[:, None] - b[others])) + self.bias_penalty(b)

        values = [value(b) for b in choices]
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
        """Whether :meth:`constant_model` and multipliers of zero, whose bound is 0, are no better."""
        return lower >= 0.0 and upper < self._constant[0] * (1.0 - 1e-9)

    def bias_penalty(self, b: Floats) -> float:
        """Return what the formulation adds to its objective for biases."""
        return 0.0

    def export_dual(self, dual: Dual) -> Dual:
        """α with a row of zeros for each observation of weight zero; everything else as it is."""
        data = self.scores.data
        full = np.zeros((data.rows, data.c))
        full[data.index] = self.scores.expand(self.multipliers(dual))
        return {**dual, "alpha": full}

    def solved_weights(self, variables: Mapping[str, Any]) -> tuple[Floats, Floats] | None:
        """Return W in terms of the features and b from the values of the variables, None where a
        solver has left none.
        """
        W, b = variables["W"], variables.get("b", np.zeros(1))
        if not (usable(W) and usable(b)):
            return None
        return self.scores.unreduced(np.asarray(W)), np.broadcast_to(
            np.asarray(b), (self.scores.data.c,)
        )

    def solved_multipliers(self, values: Any, W: Floats, b: Floats) -> list[Floats]:
        """Return candidates for α, shape (n, c − 1)."""
        candidates = [np.asarray(values)] if usable(values) else []
        if self.loss.smooth:
            candidates.append(self.weight[:, None] * self.loss.multipliers(self.differences(W, b)))
        return candidates

    def differences(self, W: Floats, b: Floats) -> Floats:
        """Return the score differences of weights in terms of the features and of biases that
        belong to ``scores.X``.
        """
        return self.scores.differences(self.scores.X @ W + b)

    def model(self, W: Floats, b: Floats) -> MulticlassModel:
        """Return the model of weights in terms of the features and of biases that belong to
        ``scores.X``.
        """
        return self.scores.model(W, b, self.loss.support(self.differences(W, b)))


def require_problem_memory(scores: ScoreSpace, what: str) -> None:
    """Raise a :class:`~svmcvx.errors.BuildError` unless the differences, as functions of (W, b),
    would fit into memory.
    """
    n, d = scores.factor.shape
    entries = 2.0 * n * (scores.data.c - 1) * d
    memory.require(
        CONIC_BYTES * entries,
        f"the {what} with {n} × {d} data and {scores.data.c} classes",
        "use fewer observations or features, or a specialised solver of svmcvx.fast",
    )
