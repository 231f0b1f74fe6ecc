r"""Losses that count or drop observations: 0-1 loss, ramp loss, l0-norm hinge.

Upper ends at the model: :math:`\|w\|^2 + \lambda\sum s_i1[u_i<1]`, or :math:`\|w\|^2` if
:math:`\sum s_i1[u_i<1] \le k`; :math:`\tfrac12\|w\|^2 + C\sum s_i\min(2, (1-u_i)_+)`;
:math:`\tfrac12\|w\|^2 + C\sum s_i1[u_i<1]`. A margin that is not certainly at least 1 is dropped,
unless it costs less to divide the model by the smallest kept margin. If the statement has ``M``,
the problem includes the constraints :math:`u_i \ge 1 - M_i`.

Lower end: that of the conic relaxation, for the 0-1 loss with a dual point. Trees of searches are
gone through by :mod:`svmcvx.proofs.search_tree`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb

from svmcvx.proofs.balls import Ball, as_fraction, balls, fractions, nonneg, total
from svmcvx.proofs.families.conic_loss import conic_bound, multiplier, scalings
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.space import Space

__all__ = ["FAMILY"]


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
    "zero_one": (_zero_one_upper, _zero_one_lower),
    "ramp": (_ramp_upper, None),
    "l0": (_l0_upper, None),
}
