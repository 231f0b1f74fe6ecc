"""Pair steps with partners drawn at random, compiled: the rule of [Sun], Algorithm 1."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.margin.smo_passes import move, slack_of
from svmcvx.system.compilation import compiled

__all__ = ["ascend_at_random"]

Floats: TypeAlias = NDArray[np.float64]


@compiled(allocates=True)
def ascend_at_random(
    Q: Floats,
    g: Floats,
    alpha: Floats,
    y: Floats,
    c: Floats,
    upper_bound: Floats,
    r: float,
    tol: float,
    steps: int,
    seed: int,
) -> int:
    """The rule of [Sun]: cycle through the observations and draw the partner of each at random. See
    :func:`svmcvx.fast.margin.smo_passes.ascend`.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba supports its own global generator only
    q = y.size
    xi = np.empty(q)
    for k in range(q):
        xi[k] = slack_of(alpha[k], c[k], r)
    for step in range(steps):
        i = step % q
        j = np.random.randint(0, q)  # noqa: NPY002
        if g[i] < g[j]:
            i, j = j, i
        if g[i] - g[j] <= tol:
            continue
        up = (y[i] > 0.0 and alpha[i] < upper_bound[i]) or (y[i] < 0.0 and alpha[i] > 0.0)
        low = (y[j] < 0.0 and alpha[j] < upper_bound[j]) or (y[j] > 0.0 and alpha[j] > 0.0)
        if not (up and low):
            continue
        move(i, j, Q, r, g, alpha, xi, y, c, upper_bound)
    return steps
