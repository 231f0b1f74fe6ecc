"""Numbers whose sum is exactly 0: the multipliers of a variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.exactly import LARGEST_BITS, SUM_BITS

__all__ = [
    "CentringPlan",
    "TauSums",
    "centred",
    "centring_plan",
    "exact_sum",
    "tau_sums",
    "tau_units",
    "without_rest",
]

Floats: TypeAlias = NDArray[np.float64]


class TauSums(NamedTuple):
    """Sum and largest size of some numbers, and how many they are."""

    total: float
    largest: float
    size: int


class CentringPlan(NamedTuple):
    """The centre in shares, and the grid 2^exponent."""

    total: float
    exponent: int


def tau_sums(tau: Floats) -> TauSums:
    """Return what :func:`centring_plan` needs of some numbers."""
    return TauSums(math.fsum(tau.tolist()), float(np.abs(tau).max(initial=0.0)), tau.size)


def centring_plan(blocks: Sequence[TauSums]) -> CentringPlan | None:
    """Return how the numbers of all blocks are centred; None where only zeros are left."""
    total = math.fsum(block.total for block in blocks)
    # A share is at most 1.
    largest = max(block.largest for block in blocks) + abs(total)
    if not (0.0 < largest < math.inf):
        return None
    bits = min(
        LARGEST_BITS, SUM_BITS - max(1, int(sum(block.size for block in blocks)).bit_length())
    )
    return CentringPlan(total, max(math.frexp(largest)[1] - bits, -1074))


def tau_units(tau: Floats, share: Floats, plan: CentringPlan) -> NDArray[np.int64]:
    """Return numbers less their part of the sum, as whole numbers of the grid."""
    return np.rint(np.ldexp(tau - share * plan.total, -plan.exponent)).astype(np.int64)


def without_rest(
    units: NDArray[np.int64], share: Floats, each: int, rest: int
) -> NDArray[np.int64]:
    """Return units less `each`, and less one more for the `rest` largest shares."""
    units = units - each
    if rest:
        units[np.argpartition(-share, rest - 1)[:rest]] -= 1
    return units


def centred(tau: Floats, share: Floats) -> Floats:
    """Return numbers near `tau` less their sum, in these shares, whose sum is exactly 0; those that
    have it as they are.

    They are rounded to a grid of powers of two, and the rest of the sum is subtracted from the
    largest shares in steps of the grid.
    """
    total = exact_sum(tau) if np.isfinite(tau).all() else 0.0
    if total == 0.0:
        return tau
    plan = None if math.isinf(total) else centring_plan([tau_sums(tau)])
    if plan is None:
        return np.zeros(tau.size)
    units = tau_units(tau, share, plan)
    each, rest = divmod(int(units.sum()), tau.size)
    return np.ldexp(without_rest(units, share, each, rest).astype(np.float64), plan.exponent)


def exact_sum(values: Floats) -> float:
    """The sum, rounded once: 0 only if it is; infinite where it is too large for that."""
    try:
        return math.fsum(values.tolist())
    except OverflowError:
        return math.inf
