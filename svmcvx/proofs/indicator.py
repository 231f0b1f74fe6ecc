r"""The conic relaxation of the 0-1 loss, and losses that count or drop observations, in balls;
``docs/proof_format.md`` has their objectives and dual values.

A margin that is not certainly at least 1 counts, unless it costs less to divide the model by the
smallest margin that is kept. Without a spread V of a conic model z is the indicator of
:math:`u_i < 1`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from flint import arb, fmpq

from svmcvx.proofs.balls import Balls, as_matrix, fractions, inverse_form
from svmcvx.proofs.intervals import Bools, Rows
from svmcvx.proofs.problem import Problem, ProofRejected, dense
from svmcvx.proofs.space import Space

Balled: TypeAlias = Space[Balls]

# Rows of a matrix of balls, which takes some 700 bytes an entry.
LARGEST = 2048
# Margins that are short of 1 by up to this are brought to 1 by scaling the model, where that is
# cheaper.
SHORTFALLS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)


def best(space: Balled, price: Callable[[Balls, Bools], Balls]) -> Balls:
    """Return the best price of the model as it is and divided by margins just below 1."""
    found, refusal = [], ProofRejected("the model proves nothing")
    for shortfall in SHORTFALLS:
        kept = np.asarray(space.u.values >= 1 - arb(shortfall), dtype=np.bool_)
        divisor = Balls([arb(1), *space.u[kept].entries]).least()
        try:
            found.append(price(divisor, kept))
        except ProofRejected as reason:
            refusal = reason
    if not found:
        raise refusal
    return min(found, key=lambda value: value.ends[1])


# The conic relaxation.


def _allowance(problem: Problem) -> Balls:
    """The weight that may have a margin below 1, times which the multiplier is paid."""
    if problem.has("k"):
        return Balls.exactly(problem.number("k"))
    # A double: the sum is rounded once, then the product.
    return Balls.exactly(problem.number("kappa") * math.fsum(problem.weight.tolist()))


def _spread(space: Balled) -> tuple[Balls, Balls]:
    """‖V‖² and ‖V'x_i‖²."""
    problem, model, index = space.problem, space.problem.proof.model, space.problem.index
    square, deviations = Balls(arb(0)), Balls.exactly(np.zeros(problem.n))
    for column in model.get("V", np.zeros((0, 0))).T:
        v = Balls.exactly(column)
        scores = Balls.times(space.rows, v[: problem.X.shape[1]])
        scores = scores + v[-1] if problem.penalised else scores
        square, deviations = square + (v * v).sum(), deviations + scores * scores
    if "V_coef" not in model:
        return square, deviations
    for column in model["V_coef"].T:
        used, constant = np.flatnonzero(column), problem.penalised
        found = space.expansion(used, Balls.exactly(column[used]), constant=constant)
        square, deviations = square + found.norm, deviations + found.scores * found.scores
    # ε times the identity on the span of the rows, of at most as many dimensions as there are rows.
    ridge = float(model["ridge"].item())
    if ridge < 0:
        raise ProofRejected(f"the ridge of the spread must not be negative, got {ridge:.9g}")
    lengths = Balls([space.gram(row, row)[0, 0] for row in index[:, None]])
    lengths = lengths + float(problem.penalised)
    return square + ridge * arb(problem.n), deviations + lengths * ridge


def _inside(u: Balls, v: Balls) -> Balls:
    """Return (1 − u)₊²/(v + (1 − u)₊²), which decreases in u and in v."""

    def share(slack: Any, v: Any) -> Any:
        return slack**2 / (v + slack**2) if slack > 0 else arb(0)

    pairs = zip((1.0 - u).nonneg().entries, v.nonneg().entries, strict=True)
    ends = (
        share(s.lower(), w.upper()).union(share(s.upper(), w.lower().max(arb(0)))) for s, w in pairs
    )
    return Balls(list(ends))


def _conic_upper(space: Balled) -> Balls:
    problem, (square, deviations) = space.problem, _spread(space)
    square = square + space.model.norm

    def objective(square: Balls, z: Balls) -> Balls:
        loss = (z * problem.weight).sum()
        if not problem.has("kappa"):
            return square + loss * problem.number("lam")
        allowed = _allowance(problem)
        if not loss.ball <= allowed.ball:
            raise ProofRejected(
                f"the weight inside the margin is {loss.ends[1]:.9g} at the model, above the"
                f" {float(allowed.middle):.9g} allowed"
            )
        return square

    def counted(divisor: Balls, kept: Bools) -> Balls:
        return objective(square / (divisor * divisor), Balls.exactly(1.0 - kept))

    if deviations.above(0).any():
        return objective(square, _inside(space.u, deviations))
    return best(space, counted)


def conic_lower(space: Balled) -> Balls:
    """Return the dual value at the γ and α of a proof, less λ times what is allowed."""
    problem = space.problem
    if problem.has("lam"):
        return _conic_bound(space, problem.number("lam"))
    lam = float(problem.proof.dual["lam"].item())
    if lam < 0:
        raise ProofRejected(f"the multiplier lam is {lam!r}, it must not be negative")
    return _conic_bound(space, lam) - _allowance(problem) * lam


def _conic_bound(space: Balled, lam: float) -> Balls:
    problem, given = space.problem, space.problem.dual("gamma")
    slopes = problem.dual("alpha") if "alpha" in problem.proof.dual else np.zeros(problem.n)
    for i in np.flatnonzero(given < 0)[:1]:
        raise ProofRejected(f"the gamma of row {problem.index[i]} is {float(given[i])!r}, below 0")
    for i in np.flatnonzero((given == 0) & (slopes != 0))[:1]:
        raise ProofRejected(
            f"the alpha of row {problem.index[i]} is {float(slopes[i])!r} where its gamma is 0"
        )
    used = np.flatnonzero(given)
    if not used.size:
        return Balls(arb(0))
    gamma, alpha = Balls.exactly(given[used]), Balls.exactly(slopes[used])
    quarter = alpha * alpha / (gamma * 4.0)
    heights = Balls.exactly(problem.weight[used]) * lam
    losses = alpha.by_sign((quarter - heights).nonneg(), quarter)
    v = (alpha - gamma * 2.0) * problem.signs[used]
    return (alpha - gamma - losses).sum() - _inverse_form(space, used, gamma, v) * 0.25


def _inverse_form(space: Balled, used: Rows, gamma: Balls, v: Balls) -> Balls:
    """An upper bound on c'Q⁻¹c for c = Σ v_i x_i, with a proof that Q is positive definite."""
    problem, what = space.problem, "I − Σ γ_i x_i x_i'"
    rows, size = problem.index[used], used.size
    columns = problem.X.shape[1] + problem.penalised
    if min(columns, size) > LARGEST or (space.kernel is not None and size > LARGEST):
        raise ProofRejected(
            f"the check needs {what} as a matrix of balls, of at most {LARGEST} rows; it has"
            f" {size} rows and {columns} columns"
        )
    if space.kernel is None and columns <= size:
        X = dense(problem.X[rows])
        X = np.hstack([X, np.ones((size, 1))]) if problem.penalised else X
        Q = as_matrix(np.eye(columns)) - as_matrix(X).transpose() * as_matrix(gamma[:, None] * X)
        return inverse_form(Q, Balls.times(X.T, v), what)
    # Q⁻¹ = I + Φ'D(I − DKD)⁻¹DΦ with D = diag(√γ), and Q is positive definite where I − DKD is.
    K = space.gram(rows, rows)
    K = K + as_matrix(np.ones((size, size))) if problem.penalised else K
    root, scores = gamma.root(), Balls.times(K, v)
    scaled = Balls(np.reshape(K.entries(), (size, size))) * root * root[:, None]
    norm = (v * scores).sum()
    space.require_norm(norm)
    space.note(rows, v)
    return norm + inverse_form(as_matrix(np.eye(size) - scaled), root * scores, what)


def _fixed_upper(space: Balled) -> Balls:
    problem = space.problem
    gamma = Balls.exactly(problem.statement.arrays["gamma"][problem.index])
    heights, slack = Balls.exactly(problem.weight) * problem.number("lam"), (1.0 - space.u).nonneg()
    # λ − (√λ − √γ a)₊² increases in the slack a.
    rest = (heights.root() - gamma.root() * slack).nonneg()
    used = gamma.nonzero & slack.nonzero
    return space.model.norm + (heights - rest * rest)[used].sum()


def _fixed_lower(space: Balled) -> Balls:
    problem, given = space.problem, space.problem.dual("gamma")
    most = problem.statement.arrays["gamma"][problem.index]
    for i in np.flatnonzero(given > most)[:1]:
        raise ProofRejected(
            f"the gamma of row {problem.index[i]} is {float(given[i])!r}, above its bound"
            f" {float(most[i])!r}"
        )
    return conic_lower(space)


# Losses that count or drop observations.


def _require_M(space: Balled, divisor: Balls) -> None:
    problem, given = space.problem, space.problem.statement.M
    if given is None:
        return
    least = 1.0 - Balls.exactly(given[problem.index])
    short = ~np.asarray((space.u / divisor).values >= least.values, dtype=np.bool_)
    for i in np.flatnonzero(short)[:1]:
        raise ProofRejected(
            f"the margin of row {problem.index[i]} is {float(space.u.middle[i]):.9g}, below the"
            " 1 − M of the problem"
        )


def _counted_upper(space: Balled) -> Balls:
    """The objective with a price of the dropped weight, which is exact, or a budget."""
    problem = space.problem

    def priced(divisor: Balls, kept: Bools) -> Balls:
        _require_M(space, divisor)
        dropped = Balls.exactly(sum(fractions(problem.weight[~kept]), fmpq(0)))
        norm = space.model.norm / (divisor * divisor)
        if problem.has("C"):
            return norm * 0.5 + dropped * problem.number("C")
        if problem.has("lam"):
            return norm + dropped * problem.number("lam")
        if not dropped.ball <= arb(problem.number("k")):
            raise ProofRejected(
                f"the weight inside the margin is {float(dropped.middle):.9g} at the model, above"
                f" k = {problem.number('k'):.9g}"
            )
        return norm

    return best(space, priced)


def _ramp_upper(space: Balled) -> Balls:
    _require_M(space, Balls(arb(1)))
    losses = 2.0 - (2.0 - (1.0 - space.u).nonneg()).nonneg()
    total = (losses * space.problem.weight).sum()
    return space.model.norm * 0.5 + total * space.problem.number("C")


FAMILY: dict[str, Any] = {
    "conic": (_conic_upper, conic_lower),
    "conic_fixed_gamma": (_fixed_upper, _fixed_lower),
    "zero_one": (_counted_upper, conic_lower),
    "ramp": (_ramp_upper, None),
    "l0": (_counted_upper, None),
}
