r"""Guarantees of the conic relaxation: each score by solving its problem again with a small
multiple of the score added.

**Bound.** For every optimal machine, s = ±1 and η > 0, :math:`P^* + \eta s f^*(t) \ge \inf(P + \eta
s f(t))`, so that with a lower bound D of the perturbed problem and :math:`P^* \le U`

.. math:: s f^*(t) \ge (D - U)/\eta.

It needs no modulus of convexity, which the relaxation does not have. The optimum of the perturbed
problem is concave in η, with the set of optimal scores for its slopes at 0: with gap and η both
going to 0, the first faster, the ends go to those of this set.

**Dual value.** For a row of a conic problem, with a = 1 − u and the variance v, every γ ≥ 0 has
:math:`\lambda sz \ge \alpha a - \gamma(a^2 + v) - h^*(\alpha)`. For the row t with the label −s the
added term is :math:`\eta a - \eta \ge \eta a - \gamma(a^2 + v) - \eta`. So the perturbed problem is
at least the dual value of the *unperturbed* problem with one row more, of label −s and multiplier α
= η, less η, if its weight is so large that :math:`h^*(\eta) = 0`. That is evaluated like any dual
value of the relaxation (:mod:`svmcvx.formulations.conic_loss.dual`), with every rounding bounded; γ
of that row is a number that makes no difference.

**Solves.** (γ, α) of the other rows maximise the dual of the perturbed problem, a semidefinite
program in the columns of a factor, for a few η. Any are valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.core.bounded import exact
from svmcvx.data import Features, check_features
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.guarantees.answers import CertifiedScores, Guarantee
from svmcvx.guarantees.binary import space_with_row, training_space
from svmcvx.solution import Solution
from svmcvx.system.deadline import current, time_limited

__all__ = ["ResolvedGuarantee", "resolved_guarantee"]

Floats: TypeAlias = NDArray[np.float64]

# Steps η in units of the root of the gap over the length of the row, until the sign of a score is
# known; and the least gap, relatively, as a perturbed problem is not solved better.
STEPS: Final = (3.0, 30.0, 0.3)
LEAST_GAP: Final = 1e-9
# γ of the additional row, times the square of its length.
SMALL: Final = 1e-11


@dataclass(frozen=True, eq=False, repr=False)
class ResolvedGuarantee(Guarantee):
    """What is known of every optimal machine of the conic relaxation; see :func:`svmcvx.guarantee`."""

    classes: NDArray[Any]
    lower: float
    upper: float
    max_rows: int
    time_limit: float | None
    space: FeatureSpace
    solution: Solution

    def __repr__(self) -> str:
        return (
            f"ResolvedGuarantee(optimum in [{self.lower:.9g}, {self.upper:.9g}],"
            f" {self.max_rows} rows a call)"
        )

    @property
    def radius(self) -> float:
        """Infinite: the objective has no modulus of convexity."""
        return math.inf

    @property
    def _no_proof(self) -> str:
        return "each score of the conic relaxation follows from a problem of its own"

    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the score f*(x) of some rows."""
        rows = check_features(T, name="T", n_features=int(self.space.data.X.shape[1]))
        m = int(rows.shape[0])
        if m > self.max_rows:
            raise DataError(
                f"T has {m} rows, and each takes two solves or more of a semidefinite program; pass"
                f" max_rows={m} to guarantee if that is meant"
            )
        lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
        with time_limited(self.time_limit) as deadline:
            for t in range(m):
                for step in STEPS:
                    if deadline.passed() or lower[t] > 0.0 or upper[t] <= 0.0:
                        break
                    lower[t] = max(lower[t], self._end(rows[t : t + 1], 1.0, step))
                    upper[t] = min(upper[t], -self._end(rows[t : t + 1], -1.0, step))
        possible = np.column_stack([~(lower > 0.0), upper > 0.0])
        return CertifiedScores(lower, upper, possible, self.classes, np.zeros(m, dtype=bool))

    def _end(self, row: Features, sign: float, step: float) -> float:
        """Return a number that is at most sign times the score of a row by every optimal machine."""
        lam = float(self.solution.hyperparameters["lam"])
        gap = max(self.upper - self.lower, LEAST_GAP * abs(self.upper))
        space = space_with_row(self.space, row, -sign, 1.0)
        length = float(np.sqrt(space.diagonal_above()[-1]))
        if not length > 0.0:
            return -math.inf
        eta, gamma = step * math.sqrt(gap) / length, SMALL / length**2
        found = _perturbed_dual(space, lam, eta)
        if found is None:
            return -math.inf
        # With that weight h* of the additional row is 0, also after the repair.
        weight = eta * eta / (gamma * lam)
        statement = ConicLoss(
            space=space_with_row(self.space, row, -sign, weight), lam=lam, improve_alpha=False
        )
        dual = statement.repair(
            {"gamma": np.append(found[0], gamma), "alpha": np.append(found[1], eta)}
        )
        moved = float(dual["alpha"][-1])
        if not moved > 0.0 or moved * moved > 2.0 * float(dual["gamma"][-1]) * lam * weight:
            return -math.inf
        least = exact(statement.evaluate_dual(dual).lower_end)
        return float(((least - exact(moved) - exact(self.upper)) / exact(moved)).lower_end)


def _perturbed_dual(space: FeatureSpace, lam: float, eta: float) -> tuple[Floats, Floats] | None:
    """About the best multipliers γ and α of the rows but the last, where that one has the
    multiplier η; None if they are not found.
    """
    import cvxpy as cp

    factor = space.factor.toarray() if sp.issparse(space.factor) else np.asarray(space.factor)
    rows, y, weight = factor[:-1], space.data.y[:-1], space.data.weight[:-1]
    n, r = rows.shape
    gamma, up, down = (cp.Variable(n, nonneg=True) for _ in range(3))
    squares = cp.Variable((2, n), nonneg=True)
    # α = up − down, and squares are at least the squares of both over 4γ.
    cones = [
        cp.SOC(4.0 * gamma + square, cp.vstack([2.0 * part, 4.0 * gamma - square]), axis=0)
        for part, square in ((up, squares[0]), (down, squares[1]))
    ]
    gradient = (
        rows.T @ cp.multiply(y, up - down - 2.0 * gamma) + eta * space.data.y[-1] * factor[-1]
    )
    outer = np.stack([np.outer(row, row).ravel() for row in rows], axis=1)
    curvature = cp.reshape(np.eye(r).ravel() - outer @ gamma, (r, r), order="C")
    least = cp.matrix_frac(gradient, 0.5 * (curvature + curvature.T)) / 4.0
    loss = cp.sum(cp.pos(squares[0] - lam * weight)) + cp.sum(squares[1])
    problem = cp.Problem(cp.Maximize(cp.sum(up - down - gamma) - loss - least), cones)
    remaining = current().remaining
    limit = {} if math.isinf(remaining) else {"time_limit": max(remaining, 1e-3)}
    try:
        problem.solve(solver=cp.CLARABEL, **limit)
    except cp.error.SolverError:
        return None
    if gamma.value is None:
        return None
    return np.maximum(gamma.value, 0.0), up.value - down.value


def resolved_guarantee(
    solution: Solution, X: Any, y: Any, *, max_rows: int, time_limit: float | None
) -> ResolvedGuarantee:
    """Return the guarantee of a solution of the conic relaxation; see :func:`svmcvx.guarantee`."""
    if solution.hyperparameters.get("lam") is None:
        raise DataError(
            "there are no guarantees of the conic relaxation with kappa; use lam, say that of its"
            " dual point"
        )
    bound, _ = training_space(solution, X, y)
    # The covariance of a model with a kernel is stated with the matrix.
    space = feature_space(
        bound.data, getattr(solution.model, "kernel", None), intercept=bound.intercept
    )
    statement = ConicLoss(space=space, lam=solution.hyperparameters["lam"])
    model: Any = solution.model
    upper = statement.evaluate(model).upper_end
    lower = (
        statement.evaluate_dual(statement.repair(solution.dual)).lower_end if solution.dual else 0.0
    )
    return ResolvedGuarantee(
        space.data.classes, lower, upper, max_rows, time_limit, space, solution
    )
