r"""The conic relaxation of the 0-1 loss, and losses that count or drop observations.

The conic relaxation of the 0-1 loss, and the conic loss of given γ; :math:`x_i` with the
constant feature, if there is one.

Upper end, at a normal w and a spread V: :math:`\|w\|^2 + \|V\|^2 + \lambda\sum s_iz_i` with
:math:`z_i = (1-u_i)_+^2/(\|V'x_i\|^2 + (1-u_i)_+^2)`, or the first two terms if :math:`\sum s_iz_i
\le \kappa\sum s`. V is part of the model: as ``V``, one row a column of the data and the constant,
or as ``V_coef``, one row an observation, for :math:`V = \sum_i\varphi(x_i)a_i'`. Without it z is
the indicator of :math:`u_i < 1`.

Lower end, for γ ≥ 0 with :math:`Q = I - \sum\gamma_ix_ix_i' \succ 0`, which is proved, any α that
is 0 where γ is, and :math:`c = \sum(\alpha_i-2\gamma_i)y_ix_i`:

.. math:: \sum(\alpha_i - \gamma_i) - \sum h_i^*(\alpha_i) - \tfrac14c'Q^{-1}c, \qquad
    h_i^*(\alpha) = \Big(\frac{\alpha_+^2}{4\gamma_i} - \lambda s_i\Big)_+ + \frac{\alpha_-^2}{4\gamma_i},

less :math:`\lambda\kappa\sum s` in the cardinality form, where λ ≥ 0 belongs to the dual point. The
number :math:`\kappa\sum s` is a double: the sum is rounded once, then the product.

Losses that count or drop observations: 0-1 loss, ramp loss, l0-norm hinge.

Upper ends at the model: :math:`\|w\|^2 + \lambda\sum s_i1[u_i<1]`, or :math:`\|w\|^2` if
:math:`\sum s_i1[u_i<1] \le k`; :math:`\tfrac12\|w\|^2 + C\sum s_i\min(2, (1-u_i)_+)`;
:math:`\tfrac12\|w\|^2 + C\sum s_i1[u_i<1]`. A margin that is not certainly at least 1 is dropped,
unless it costs less to divide the model by the smallest kept margin. If the statement has ``M``,
the problem includes the constraints :math:`u_i \ge 1 - M_i`.

Lower end: that of the conic relaxation, for the 0-1 loss with a dual point. Trees of searches are
gone through by :mod:`svmcvx.proofs.search_tree`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from flint import arb, arb_mat

from svmcvx.proofs.balls import (
    Ball,
    Inverse,
    as_fraction,
    balls,
    combination,
    fractions,
    least,
    nonneg,
    product,
    total,
)
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.space import Space, require_norm

# Rows of a matrix of balls, which takes some 700 bytes an entry.
LARGEST = 2048
# Margins that are short of 1 by up to this are brought to 1 by scaling the model, where that is
# cheaper.
SHORTFALLS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)


def scalings(margins: Sequence[Ball]) -> list[tuple[Ball, list[bool]]]:
    """Return numbers of at most 1 by which a model may be divided, and which margins are then
    certainly at least 1.
    """
    found = []
    for shortfall in SHORTFALLS:
        satisfied = [bool(u >= 1 - shortfall) for u in margins]
        found.append(
            (
                least([arb(1), *(u for u, keep in zip(margins, satisfied, strict=True) if keep)]),
                satisfied,
            )
        )
    return found


def allowance(problem: Problem) -> Ball:
    """The weight that may have a margin below 1."""
    return arb(problem.number("kappa") * math.fsum(problem.weight.tolist()))


def _spread(space: Space) -> tuple[Ball, list[Ball]]:
    """‖V‖² and ‖V'x_i‖²."""
    problem, model = space.problem, space.problem.proof.model
    square, deviations = arb(0), [arb(0)] * problem.n
    name = next((name for name in ("V", "V_coef") if name in model), None)
    if name is None:
        return square, deviations
    V = problem.proof.model[name]
    for k in range(V.shape[1]):
        if name == "V_coef":
            used = np.flatnonzero(V[:, k])
            point = space.expansion(used, balls(V[used, k]), constant=problem.penalised)
            scores, norm = point.scores, point.norm
        else:
            column = balls(V[:, k])
            constant = column.pop() if problem.penalised else arb(0)
            scores = [score + constant for score in product(space.rows, column)]
            norm = total(x * x for x in column) + constant * constant
        square += norm
        deviations = [d + score * score for d, score in zip(deviations, scores, strict=True)]
    if name == "V_coef":
        # ε times the identity on the span of the rows, of at most as many dimensions as there are
        # rows.
        ridge = float(problem.proof.model["ridge"].item())
        if ridge < 0:
            raise ProofRejected(f"the ridge of the spread must not be negative, got {ridge:.9g}")
        one = arb(1 if problem.penalised else 0)
        square += arb(ridge) * problem.n
        lengths = [
            space.gram(np.array([row]), np.array([row]))[0, 0] + one
            for row in problem.index.tolist()
        ]
        deviations = [
            d + arb(ridge) * length for d, length in zip(deviations, lengths, strict=True)
        ]
    return square, deviations


def _indicator(u: Ball, v: Ball) -> Ball:
    """Return (1 − u)₊²/(v + (1 − u)₊²) for u and v in their balls."""
    slack, v = nonneg(1 - u), nonneg(v)
    if slack.is_zero():
        return arb(0)
    low, high = slack.lower() ** 2 if slack > 0 else arb(0), slack.upper() ** 2
    most, least_v = v.upper(), v.lower() if v > 0 else arb(0)
    return (low / (most + low) if low > 0 else arb(0)).union(high / (least_v + high))


def _objective(space: Space, square: Ball, z: Sequence[Ball]) -> Ball:
    problem = space.problem
    loss = total(s * x for s, x in zip(balls(problem.weight), z, strict=True))
    if not problem.has("kappa"):
        return square + arb(problem.number("lam")) * loss
    if not loss <= allowance(problem):
        raise ProofRejected(
            f"the weight inside the margin is {float(loss.upper()):.9g} at the model, above the"
            f" {float(allowance(problem)):.9g} allowed"
        )
    return square


def _upper(space: Space) -> Ball:
    square, deviations = _spread(space)
    square += space.model.norm
    if any(v > 0 for v in deviations):
        return _objective(
            space,
            square,
            [_indicator(u, v) for u, v in zip(space.margins, deviations, strict=True)],
        )
    found, refusal = [], ProofRejected("the model proves nothing")
    for divisor, satisfied in scalings(space.margins):
        try:
            found.append(
                _objective(space, square / divisor**2, [arb(int(not keep)) for keep in satisfied])
            )
        except ProofRejected as reason:
            refusal = reason
    if not found:
        raise refusal
    return min(found, key=lambda value: value.upper())


def _lower(space: Space) -> Ball:
    problem = space.problem
    if not problem.has("kappa"):
        return conic_bound(space, arb(problem.number("lam")))
    lam = multiplier(problem)
    return conic_bound(space, lam) - lam * allowance(problem)


def multiplier(problem: Problem) -> Ball:
    """Return λ of the dual point of a cardinality form."""
    lam = float(problem.proof.dual["lam"].item())
    if lam < 0:
        raise ProofRejected(f"the multiplier lam is {lam!r}, it must not be negative")
    return arb(lam)


def conic_bound(space: Space, lam: Ball) -> Ball:
    """Return the dual value at the γ and α of a proof."""
    problem = space.problem
    given = problem.dual("gamma")
    slopes = problem.dual("alpha") if problem.has_dual("alpha") else np.zeros(problem.n)
    for row, g, a in zip(problem.index.tolist(), given.tolist(), slopes.tolist(), strict=True):
        if g < 0:
            raise ProofRejected(f"the gamma of row {row} is {g!r}, below 0")
        if g == 0 and a != 0:
            raise ProofRejected(f"the alpha of row {row} is {a!r} where its gamma is 0")
    used = np.flatnonzero(given)
    if not used.size:
        return arb(0)
    gamma, alpha = balls(given[used]), balls(slopes[used])
    value = total(a - g for a, g in zip(alpha, gamma, strict=True))
    for a, g, s in zip(alpha, gamma, balls(problem.weight[used]), strict=True):
        quarter = a * a / (4 * g)
        value -= nonneg(quarter - lam * s) if a > 0 else quarter
    signs = balls(problem.signs[used])
    coefficients = [(a - 2 * g) * sign for a, g, sign in zip(alpha, gamma, signs, strict=True)]
    return value - _inverse_form(space, used, gamma, coefficients) / 4


def _inverse_form(
    space: Space, used: np.ndarray[tuple[int], np.dtype[np.intp]], gamma: list[Ball], v: list[Ball]
) -> Ball:
    """An upper bound on c'Q⁻¹c for c = Σ v_i x_i, with a proof that Q is positive definite."""
    problem, what = space.problem, "I − Σ γ_i x_i x_i'"
    rows = problem.index[used]
    columns = problem.X.shape[1] + problem.penalised
    if min(columns, used.size) > LARGEST or (space.kernel is not None and used.size > LARGEST):
        raise ProofRejected(
            f"the check needs {what} as a matrix of balls, of at most {LARGEST} rows; it has"
            f" {used.size} rows and {columns} columns"
        )
    if space.kernel is None and columns <= used.size:
        X = problem.X[rows]
        c = combination(X, v) + ([total(v)] if problem.penalised else [])
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        full = np.hstack([dense, np.ones((used.size, 1))]) if problem.penalised else dense
        left = arb_mat(used.size, columns, full.ravel().tolist())
        weighted = arb_mat(
            used.size,
            columns,
            [g * x for g, row in zip(gamma, left.tolist(), strict=True) for x in row],
        )
        identity = arb_mat(
            columns, columns, [int(i == j) for i in range(columns) for j in range(columns)]
        )
        return Inverse(identity - left.transpose() * weighted, what).form(c)
    # Q⁻¹ = I + Φ'D(I − DKD)⁻¹DΦ with D = diag(√γ), and Q is positive definite where I − DKD is.
    size = used.size
    K = space.gram(rows, rows)
    if problem.penalised:
        K = K + arb_mat(size, size, [1] * size**2)
    roots = [g.sqrt() for g in gamma]
    entries = zip(K.entries(), ((i, j) for i in range(size) for j in range(size)), strict=True)
    inner = arb_mat(size, size, [int(i == j) - x * roots[i] * roots[j] for x, (i, j) in entries])
    scores = (K * arb_mat(size, 1, v)).entries()
    norm = total(x * score for x, score in zip(v, scores, strict=True))
    require_norm(norm)
    space.note(rows, v)
    return norm + Inverse(inner, what).form(
        [root * score for root, score in zip(roots, scores, strict=True)]
    )


def _fixed_losses(problem: Problem) -> list[float]:
    gamma = problem.proof.statement.gamma
    assert gamma is not None  # noqa: S101 - the statement has been checked
    return [float(g) for g in gamma[problem.index].tolist()]


def _fixed_upper(space: Space) -> Ball:
    problem = space.problem
    lam, value = arb(problem.number("lam")), space.model.norm
    for gamma, s, u in zip(
        map(arb, _fixed_losses(problem)), balls(problem.weight), space.margins, strict=True
    ):
        height, slack = lam * s, nonneg(1 - u)
        if gamma.is_zero() or slack.is_zero():
            continue
        # λ − (√λ − √γ a)₊² increases in the slack a.
        rest = nonneg(height.sqrt() - gamma.sqrt() * slack)
        value += height - rest * rest
    return value


def _fixed_lower(space: Space) -> Ball:
    problem = space.problem
    for row, g, most in zip(
        problem.index.tolist(), problem.dual("gamma").tolist(), _fixed_losses(problem), strict=True
    ):
        if g > most:
            raise ProofRejected(f"the gamma of row {row} is {g!r}, above its bound {most!r}")
    return conic_bound(space, arb(problem.number("lam")))


def _dropped_weight(problem: Problem, kept: Sequence[bool]) -> Ball:
    """Return the exact total weight of the dropped observations."""
    return sum(
        (s for s, keep in zip(fractions(problem.weight), kept, strict=True) if not keep),
        as_fraction(0.0),
    )


def _within_M(space: Space, divisor: Ball) -> None:
    problem = space.problem
    given = problem.proof.statement.M
    if given is None:
        return
    for row, u, M in zip(
        problem.index.tolist(), space.margins, balls(given[problem.index]), strict=True
    ):
        if not u / divisor >= 1 - M:
            raise ProofRejected(
                f"the margin of row {row} is {float(u.mid()):.9g}, below the 1 − M of the problem"
            )


def _best(space: Space, price: Callable[[Ball, Sequence[bool]], Ball]) -> Ball:
    """The best of the model as it is and divided by margins just below 1; `price` takes ‖w‖² and
    the kept observations.
    """
    found, refusal = [], ProofRejected("the model proves nothing")
    for divisor, kept in scalings(space.margins):
        try:
            _within_M(space, divisor)
            found.append(price(space.model.norm / divisor**2, kept))
        except ProofRejected as reason:
            refusal = reason
    if not found:
        raise refusal
    return min(found, key=lambda value: value.upper())


def _zero_one_upper(space: Space) -> Ball:
    problem = space.problem

    def price(norm: Ball, kept: Sequence[bool]) -> Ball:
        dropped = arb(_dropped_weight(problem, kept))
        if not problem.has("k"):
            return norm + arb(problem.number("lam")) * dropped
        if not dropped <= arb(problem.number("k")):
            raise ProofRejected(
                f"the weight inside the margin is {float(dropped.mid()):.9g} at the model, above k"
                f" = {problem.number('k'):.9g}"
            )
        return norm

    return _best(space, price)


def _zero_one_lower(space: Space) -> Ball:
    problem = space.problem
    if not problem.has("k"):
        return conic_bound(space, arb(problem.number("lam")))
    lam = multiplier(problem)
    return conic_bound(space, lam) - lam * arb(problem.number("k"))


def _l0_upper(space: Space) -> Ball:
    C = arb(space.problem.number("C"))
    return _best(space, lambda norm, kept: norm / 2 + C * arb(_dropped_weight(space.problem, kept)))


def _ramp_upper(space: Space) -> Ball:
    _within_M(space, arb(1))
    C, value = arb(space.problem.number("C")), space.model.norm / 2
    losses = (
        s * (2 - nonneg(2 - nonneg(1 - u)))
        for s, u in zip(balls(space.problem.weight), space.margins, strict=True)
    )
    return value + C * total(losses)


FAMILY = {
    "conic": (_upper, _lower),
    "conic_fixed_gamma": (_fixed_upper, _fixed_lower),
    "zero_one": (_zero_one_upper, _zero_one_lower),
    "ramp": (_ramp_upper, None),
    "l0": (_l0_upper, None),
}
