r"""Sets of rows that no point of a small norm keeps, checked in fractions.

``docs/proof_format.md``, section Sets, has the formula. A point that keeps the rows of multipliers
α has a squared norm of at least :math:`(\sum\alpha)^2/\|\sum\alpha g\|^2`; any other drops one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from svmcvx.proofs.problem import Problem, ProofRejected

# Squared norms, in units of the longest row, below which the reciprocal could overflow.
LEAST: Final = 2.0**-900


def supports_of(
    tree: Mapping[str, Any], rows: Any, *, free: bool
) -> Iterator[tuple[dict[int, Fraction], float]]:
    """Yield the multipliers of each support, and the least squared norm of points that keep it."""
    ends = np.concatenate([[0], np.cumsum(tree["support_count"], dtype=np.int64)])
    members, values = tree["support_row"].astype(np.int64), tree["support_alpha"]
    if (np.diff(ends) < 1).any() or ends[-1] != members.size:
        raise ProofRejected("the counts of the supports do not fit their number")
    inside = not members.size or (members.min() >= 0 and members.max() < rows.signs.size)
    if not (inside and (values > 0).all()):
        raise ProofRejected("a support names a row that the data do not have, or no multiplier")
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        beta: dict[int, Fraction] = {}
        for row, value in zip(members[begin:end].tolist(), values[begin:end].tolist(), strict=True):
            beta[row] = beta.get(row, Fraction(0)) + Fraction(value)
        balance = sum((x * int(rows.signs[row]) for row, x in beta.items()), Fraction(0))
        # An intercept of any size has no price where Σ yβ vanishes.
        square = 0.0
        if not free or balance == 0:
            square, _ = rows.least_square(beta, sum(beta.values(), Fraction(0)))
        yield beta, square


def sets_bound(problem: Problem, rows: Any) -> float:
    """Return the lower end that the sets of a proof prove."""
    tree, half = problem.proof.tree, 1.0 if problem.formulation == "zero_one" else 0.5
    if problem.statement.kernel is not None or problem.has("k") or problem.formulation == "ramp":
        raise ProofRejected("sets are about linear machines and losses that are counted at a price")
    price = Fraction(problem.number("C" if problem.free else "lam")) / Fraction(half)
    norm, whole = Fraction(0), Fraction(0)
    loads = [Fraction(0)] * rows.weight.size
    paid = [Fraction(value) for value in tree["paid"].tolist()]
    for each, (beta, square) in zip(paid, supports_of(tree, rows, free=problem.free), strict=True):
        if not (each > 0 and square > LEAST):
            raise ProofRejected("a set has no price, or points of about norm zero keep it")
        norm += each * Fraction(rows.unit) * Fraction(math.nextafter(1.0 / square, math.inf))
        for row in beta:
            loads[row] += each
        whole += each
    limits = (Fraction(weight) * price for weight in rows.weight.tolist())
    most = max(norm, *(load / limit for load, limit in zip(loads, limits, strict=True)))
    found = float(min(whole / most, Fraction(2) ** 1000)) if most else 0.0
    return half * max(math.nextafter(found, -math.inf), 0.0)
