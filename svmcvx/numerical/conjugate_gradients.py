r"""Preconditioned conjugate gradients for :math:`Hx = g` with a positive definite H that is known
by its products.

It is on a floor below the formulations because a statement's own repair of a dual point uses it as
well as the solvers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Conjugate", "conjugate_gradients"]

Floats: TypeAlias = NDArray[np.float64]


class Conjugate(NamedTuple):
    """What the method ended with."""

    x: Floats
    products: int
    definite: bool


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    right: Floats,
    precondition: Callable[[Floats], Floats],
    *,
    accuracy: float,
    limit: int,
    stop: Callable[[], bool] = lambda: False,
    follow: Callable[[float, Floats], None] | None = None,
) -> Conjugate:
    """Solve until the residual, in the norm of the preconditioner, is `accuracy` times that of the
    start x = 0.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    better = precondition(residual)
    direction = better.copy()
    size = float(np.vdot(residual, better))
    target = accuracy**2 * size
    for count in range(limit):
        if not size > target or stop():
            return Conjugate(x, count, True)
        image = product(direction)
        bend = float(np.vdot(direction, image))
        if not bend > 0:
            return Conjugate(x, count + 1, False)
        length = size / bend
        x += length * direction
        if follow is not None:
            follow(length, direction)
        residual -= length * image
        better = precondition(residual)
        size, before = float(np.vdot(residual, better)), size
        direction *= size / before
        direction += better
    return Conjugate(x, limit, True)
