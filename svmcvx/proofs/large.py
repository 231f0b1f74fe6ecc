r"""Data too large for ball arithmetic: intervals of doubles, for linear and kernel psvm (intercept
free, penalised or none) and ODM.

Assumed of the arithmetic, as nowhere else in this checker: IEEE doubles; a dot product of k terms
is off by at most :math:`k\,2^{-53}` times that of the sizes, in any order of summation; square
roots are rounded correctly; numpy's exp, tanh and power are off by at most 8 units in the last
place. Sums are those of ``math.fsum``, which rounds once. Every other operation is widened by a
unit in the last place on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.arithmetic.intervals import SLACK, TINY, Interval, U, products, rounded_sum
from svmcvx.proofs.definiteness import dense, is_symmetric, precomputed_block, proved_definite
from svmcvx.proofs.problem import Problem, ProofRejected

__all__ = ["Space", "can_check", "lower", "require_check", "upper"]

Floats: TypeAlias = NDArray[np.float64]

ENTRIES: Final = {"psvm": "alpha", "penalised psvm": "alpha", "odm": "theta"}
ROUNDING: Final = 2.0**-40
# Numbers in one block of a kernel, and columns up to which distances come from differences.
BLOCK: Final = 2_000_000
FEW_COLUMNS: Final = 32


class Space:
    """Scores and norms of points of the feature space."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rows = problem.X[problem.index]
        self.symmetric = True
        if problem.kernel is not None and problem.kernel["name"] == "precomputed":
            self.symmetric = is_symmetric(problem)
        self.indefinite, self.influence = proved_definite(problem, self._block), 0.0

    def model(self) -> tuple[Interval, Interval]:
        """Scores with the bias, and the squared norm with that of a penalised bias."""
        problem = self.problem
        if problem.linear_model:
            w = Interval.exactly(problem.proof.model["coef"])
            scores, norm = products(self.rows, 0.0, w), (w * w).sum()
        else:
            scores, norm = self.expansion(
                problem.support, Interval.exactly(problem.proof.model["dual_coef"]), constant=False
            )
        bias = Interval.exactly(problem.bias)
        return scores + bias, norm + bias * bias if problem.penalised else norm

    def expansion(
        self, rows: NDArray[np.intp], v: Interval, *, constant: bool
    ) -> tuple[Interval, Interval]:
        """Scores and squared norm of Σ v_i φ(x_i)."""
        problem = self.problem
        used = (v.low != 0) | (v.high != 0)
        rows, v = rows[used], v[used]
        if problem.kernel is None:
            part = problem.X[rows]
            w = products(sp.csr_array(part.T) if sp.issparse(part) else part.T, 0.0, v)
            scores, norm = products(self.rows, 0.0, w), (w * w).sum()
        else:
            every = np.union1d(problem.index, rows)
            whole = self._kernel_scores(every, rows, v)
            scores = whole[np.searchsorted(every, problem.index)]
            norm = (v * whole[np.searchsorted(every, rows)]).sum()
            self.influence += self.indefinite.influence(
                rows, np.maximum(np.abs(v.low), np.abs(v.high))
            )
        if norm.high < 0:
            raise ProofRejected(
                "the kernel is not positive semidefinite on these data: a squared norm is negative"
            )
        norm = norm.nonneg()
        if constant:
            shift = v.sum()
            scores, norm = scores + shift, norm + (shift * shift).nonneg()
        return scores, norm

    def _kernel_scores(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], v: Interval
    ) -> Interval:
        low, high = np.zeros(rows.size), np.zeros(rows.size)
        for part in _parts(rows.size, max(1, columns.size)) if columns.size else ():
            block, error = self._block(rows[part], columns)
            found = products(block, error, v)
            low[part], high[part] = found.low, found.high
        return Interval(low, high)

    def _block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[Floats, Floats]:
        X, kernel = self.problem.X, self.problem.kernel
        assert kernel is not None  # noqa: S101 - only called with one
        if kernel["name"] == "precomputed":
            return precomputed_block(X, rows, columns, symmetric=self.symmetric)
        return kernel_block(kernel, dense(X[rows]), dense(X[columns]))


def _parts(size: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // width)
    return (slice(start, start + step) for start in range(0, size, step))


def kernel_block(kernel: Mapping[str, Any], A: Floats, B: Floats) -> tuple[Floats, Floats]:
    """Return a block of a kernel and a bound on the error of its entries."""
    name, d = kernel["name"], A.shape[1]
    if name in ("rbf", "exponential", "laplacian"):
        gamma = float(kernel["gamma"])
        distance, error = _distances(A, B, name == "laplacian")
        if name == "exponential":
            root = np.sqrt(distance)
            with np.errstate(divide="ignore", invalid="ignore"):
                error = (
                    np.where(error == 0, 0.0, np.minimum(np.sqrt(error), error / root)) + U * root
                )
            distance = root
        exponent = gamma * distance
        shift = (gamma * error + 2 * U * exponent) * SLACK
        value = np.exp(-exponent)
        return value, (value * (np.expm1(np.minimum(shift, 700.0)) + 16 * U)) * SLACK + np.where(
            shift > 700, 1.0, TINY
        )
    gamma, shift0 = float(kernel["gamma"]), float(kernel["coef0"])
    inner, sizes = A @ B.T, np.abs(A) @ np.abs(B).T
    argument = gamma * inner + shift0
    error = (
        (d + 4) * U * gamma * sizes + 2 * U * abs(shift0) + 2 * U * np.abs(argument)
    ) * SLACK + TINY
    if name == "sigmoid":
        return np.tanh(argument), error + 16 * U
    degree = int(kernel["degree"])
    largest = np.abs(argument) + error
    with np.errstate(over="ignore"):
        return (
            argument**degree,
            (degree * largest ** (degree - 1) * error + 32 * U * largest**degree) * SLACK + TINY,
        )


def _distances(A: Floats, B: Floats, absolute: bool) -> tuple[Floats, Floats]:
    """Squared Euclidean distances, or sums of absolute differences, and bounds on their errors."""
    d = A.shape[1]
    if absolute or d <= FEW_COLUMNS:
        total = np.zeros((A.shape[0], B.shape[0]))
        for a, b in zip(A.T, B.T, strict=True):
            difference = a[:, None] - b[None, :]
            total += np.abs(difference) if absolute else difference * difference
        return total, (d + 4) * U * total * SLACK + TINY * d
    centre = 0.5 * (A.mean(axis=0) + B.mean(axis=0))
    # One subtraction rounds each coordinate by its own last place.
    A, B = A - centre, B - centre
    a, b = (A * A).sum(axis=1), (B * B).sum(axis=1)
    total = np.maximum(a[:, None] + b[None, :] - 2.0 * (A @ B.T), 0.0)
    return total, (4 * (d + 6) * U) * (a[:, None] + b[None, :]) * SLACK + TINY


def can_check(problem: Problem) -> bool:
    """Whether there is a check in doubles."""
    return problem.formulation in ENTRIES


def require_check(problem: Problem) -> None:
    """Refuse a formulation without a check in doubles."""
    if not can_check(problem):
        raise DataError(
            f"there is no check of {problem.formulation!r} in doubles, only of"
            f" {', '.join(ENTRIES)}; use method='balls'"
        )


def _signed(values: Interval, signs: Floats) -> Interval:
    return values * Interval.exactly(signs)


def _shares(problem: Problem) -> Interval:
    return Interval.exactly(problem.weight).over(Interval.exactly(problem.weight).sum())


def _band(problem: Problem) -> tuple[Interval, Interval, float]:
    return (
        Interval.exactly(problem.number("C1")),
        Interval.exactly(problem.number("C2")),
        problem.number("D"),
    )


def _guarded(evaluate: Callable[[Space], Interval]) -> Callable[[Space], tuple[float, float]]:
    def ends(space: Space) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            return evaluate(space).ends

    return ends


@_guarded
def upper(space: Space) -> Interval:
    """Return both ends of the objective at the model."""
    problem = space.problem
    scores, norm = space.model()
    u, half, one = (
        _signed(scores, problem.signs),
        Interval.exactly(0.5) * norm,
        Interval.exactly(1.0),
    )
    if problem.formulation == "odm":
        C1, C2, D = _band(problem)
        width = Interval.exactly(D)
        short, beyond = (one - width - u).nonneg(), (u - one - width).nonneg()
        return half + (_shares(problem) * (C1 * (short * short) + C2 * (beyond * beyond))).sum()
    C, p = Interval.exactly(problem.number("C")), problem.number("p")
    losses = (one - u).nonneg()
    if p != 1:
        losses = losses * losses if p == 2 else losses.power(Interval.exactly(p))
    return half + C * (Interval.exactly(problem.weight) * losses).sum()


@_guarded
def lower(space: Space) -> Interval:
    """Return both ends of the dual objective at the dual point."""
    problem = space.problem
    value, signs = problem.dual(ENTRIES[problem.formulation]), problem.signs
    if problem.formulation == "odm":
        C1, C2, D = _band(problem)
        theta = Interval.exactly(value)
        four = Interval.exactly(4.0) * _shares(problem)
        price = Interval(
            *(np.where(value > 0, a, b) for a, b in ((C1.low, C2.low), (C1.high, C2.high)))
        )
        terms = theta - Interval.exactly(D) * theta.size() - (theta * theta).over(four * price)
        return terms.sum() - Interval.exactly(0.5) * _norm(space, _signed(theta, signs))
    C, p = problem.number("C"), problem.number("p")
    caps = Interval.exactly(C) * Interval.exactly(problem.weight)
    if (value < 0).any():
        row = int(np.flatnonzero(value < 0)[0])
        raise ProofRejected(
            f"the multiplier of row {problem.index[row]} is {value[row]!r}, below 0"
        )
    alpha = Interval.exactly(value)
    if p == 1:
        over = value > caps.high * (1 + ROUNDING)
        if over.any():
            row = int(np.flatnonzero(over)[0])
            raise ProofRejected(
                f"the multiplier of row {problem.index[row]} is {float(value[row])!r}, above its"
                f" bound {float(caps.high[row])!r}"
            )
        alpha = Interval(np.minimum(value, caps.low), np.minimum(value, caps.high))
    if problem.proof.statement.intercept == "free":
        alpha = _balanced(alpha, signs)
    total = alpha.sum()
    if p > 1:
        exponent = Interval.exactly(p).over(Interval.exactly(p) - Interval.exactly(1.0))
        ratio = alpha.over(caps * Interval.exactly(p))
        used = alpha.high > 0
        powers = (caps[used] * ratio[used].power(exponent)).sum()
        total = total - (Interval.exactly(p) - Interval.exactly(1.0)) * powers
    return total - Interval.exactly(0.5) * _norm(space, _signed(alpha, signs))


def _norm(space: Space, v: Interval) -> Interval:
    return space.expansion(space.problem.index, v, constant=space.problem.penalised)[1]


def _balanced(alpha: Interval, signs: Floats) -> Interval:
    """Multipliers whose heavier class is scaled down until both have the same sum."""
    if (alpha.low == alpha.high).all() and float(rounded_sum(alpha.low * signs)) == 0.0:
        # A sum that is rounded once to 0 is 0.
        return alpha
    positive, negative = alpha[signs > 0].sum(), alpha[signs < 0].sum()
    smaller, larger = sorted((positive, negative), key=lambda sums: float(sums.high))
    if float(larger.low - smaller.high) > ROUNDING * float(larger.high):
        raise ProofRejected(
            f"the multipliers do not satisfy y'α = 0: they sum to {float(positive.high)!r} in the"
            f" positive class and to {float(negative.high)!r} in the negative one"
        )
    # Both classes are brought to the least that their sums can be, which neither exceeds.
    least = Interval.exactly(min(float(positive.low), float(negative.low)))
    if float(least.low) <= 0:
        return Interval.exactly(np.zeros(signs.size))
    factors = [least.over(sums) for sums in (positive, negative)]
    factor = Interval(
        *(
            np.where(signs > 0, getattr(factors[0], end), getattr(factors[1], end))
            for end in ("low", "high")
        )
    )
    return alpha * Interval(factor.low, np.minimum(factor.high, 1.0))
