"""Linear systems with one more row and column, as an intercept or the balance of multipliers adds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["bordered_solution"]

Floats: TypeAlias = NDArray[np.float64]


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
    r"""Solve a system by the Schur complement of its matrix A without the border.

    .. math:: \begin{pmatrix} A & h \\ h' & c \end{pmatrix} \begin{pmatrix} x \\ t \end{pmatrix}
        = \begin{pmatrix} r \\ s \end{pmatrix}

    Parameters
    ----------
    solve : callable
        Returns :math:`A^{-1}B` for B of shape (m, 2); A is positive definite.
    border, right : ndarray of shape (m,)
        h and r.
    last : float
        s.
    corner : float, default=0.0
        c: zero, or so large that the whole matrix is positive semidefinite.
    damping : float, default=0.0
        Share of c that is added to it, so that the system is regular to rounding.

    Returns
    -------
    x : ndarray of shape (m,)
    t : float
        Not finite where c and h are zero.
    """
    x, across = solve(np.stack([right, border], axis=1)).T
    pivot = corner - float(border @ across)
    if corner > 0:
        pivot = max(pivot, 0.0) + damping * corner
    t = float(np.divide(last - float(border @ x), pivot))
    return x - t * across, t
