"""Linear systems with one more row and column, as an intercept or the balance of multipliers adds
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

__all__ = ["bordered_solution", "semidefinite_solution"]

Floats: TypeAlias = NDArray[np.float64]

# Share of each diagonal entry of a semidefinite matrix that is added to it. Iterative refinement
# takes back what that changes, until a correction is the share REFINED of the solution, at most so
# many times.
RIDGE, REFINED, REFINEMENTS = 1e-13, 1e-14, 3


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def bordered_solution(
    solve: Callable[[Floats], Floats],
    border: Floats,
    right: Floats,
    last: float,
    *,
    corner: float = 0.0,
    damping: float = 0.0,
) -> tuple[Floats, float]:
    """Solve a system by the Schur complement of its matrix A without the border."""
    x, across = solve(np.stack([right, border], axis=1)).T
    pivot = corner - float(border @ across)
    if corner > 0:
        pivot = max(pivot, 0.0) + damping * corner
    return _eliminated(x, across, border, last, pivot)


def _eliminated(
    x: Floats, across: Floats, border: Floats, last: float, pivot: float
) -> tuple[Floats, float]:
    """Return the solution from those of A for r and for h, and the Schur complement of A."""
    t = float(np.divide(last - float(border @ x), pivot))
    return x - t * across, t


def semidefinite_solution(
    A: Floats, right: Floats, border: Floats | None = None, last: float = 0.0
) -> tuple[Floats, float] | None:
    """Solve the same system for a positive semidefinite A, and c = 0, as for equations of
    observations that may be equal.
    """
    diagonal = A.diagonal()
    # A multiple of hh' that is added to A changes t by its multiple of s alone, and x not at all.
    shift = 0.0 if border is None else float(diagonal.mean())
    system = A.copy() if border is None else A + shift * border * border[:, None]
    system.ravel()[:: right.size + 1] += RIDGE * diagonal
    factor, failed = sl.lapack.dpotrf(system, lower=True, clean=False)
    if failed:
        return None

    def solve(column: Floats) -> Floats:
        return np.asarray(sl.lapack.dpotrs(factor, column, lower=True)[0])

    across = None if border is None else solve(border)
    pivot = 0.0 if border is None or across is None else -float(border @ across)
    x, t, rest = np.zeros(right.size), 0.0, right
    for _ in range(1 + REFINEMENTS):
        part = solve(rest)
        if border is not None and across is not None:
            left = last - float(border @ x)
            part, change = _eliminated(part, across, border, left, pivot)
            t += change + shift * left
        x += part
        if not float(np.abs(part).max()) > REFINED * float(np.abs(x).max()):
            break
        rest = right - A @ x if border is None else right - A @ x - t * border
    return (x, t) if np.isfinite(x).all() else None
