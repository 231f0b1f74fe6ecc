r"""The perspective form of the 0-1 loss: its weights γ, its objective and its constraints.

For any γ > 0 with :math:`Q = I - \sum_i\gamma_i g_i g_i' \succeq 0` and z ∈ {0, 1} the objective
:math:`\|w\|^2` of a point that drops the observations with :math:`z_i = 1` is

.. math:: w'Qw + 2\sum_i\gamma_i u_i - \sum_i\gamma_i + \sum_i \gamma_i\Big(\frac{(1-u_i)_+^2}{z_i} + \frac{(1-u_i)_-^2}{1-z_i}\Big).

**Source.** [CepedaGomezHan], eq. (14) of § 3.
"""

from __future__ import annotations

from typing import TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

__all__ = ["feasible_gamma", "perspective_rows"]

Floats: TypeAlias = NDArray[np.float64]

# Share of a uniform γ that is mixed into that of the relaxation, so that none is zero.
UNIFORM_SHARE = 0.05
SMALLEST_SPECTRUM = 1e-6
# By how much γ is scaled below the boundary of its cone.
INTERIOR = 1e-6


def feasible_gamma(G: Floats, gamma: Floats | None) -> Floats:
    r"""Return γ > 0 with :math:`I - \sum_i \gamma_i g_i g_i' \succ 0`: the one passed, scaled, with
    a uniform one mixed in.
    """
    uniform = np.ones(G.shape[0])
    parts = (
        [(uniform, 1.0)]
        if gamma is None
        else [(gamma, 1.0 - UNIFORM_SHARE), (uniform, UNIFORM_SHARE)]
    )
    mixed = np.zeros(G.shape[0])
    for part, share in parts:
        largest = float(np.linalg.eigvalsh((G * part[:, None]).T @ G)[-1])
        mixed += share * part / max(largest, 1.0 if part is gamma else SMALLEST_SPECTRUM)
    return mixed * (1.0 - INTERIOR)


def perspective_rows(
    w: cp.Variable, z: cp.Variable, u: cp.Expression, G: Floats, gamma: Floats
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return ‖w‖² − Σ γ(1−u)² + Σ γ(a²/z + c²/(1−z)) with a − c = 1 − u, and its constraints."""
    n = gamma.size
    a, c = cp.Variable(n, name="shortfall"), cp.Variable(n, name="excess")
    p, q = cp.Variable(n, name="shortfall_cost"), cp.Variable(n, name="excess_cost")
    spectrum, basis = sl.eigh(np.eye(G.shape[1]) - (G * gamma[:, None]).T @ G)
    root = np.sqrt(np.maximum(spectrum, 0.0))[:, None] * basis.T
    convex = cp.sum_squares(root @ w) + 2 * (G.T @ gamma) @ w - float(gamma.sum())
    constraints = [
        (a - c == 1 - u).set_label("split"),
        (a >= 0).set_label("nonnegative_shortfall"),
        (c >= 0).set_label("nonnegative_excess"),
        cp.SOC(p + z, cp.vstack([2 * a, p - z]), axis=0).set_label("shortfall_cone"),
        cp.SOC(q + 1 - z, cp.vstack([2 * c, q - 1 + z]), axis=0).set_label("excess_cone"),
    ]
    return convex + gamma @ (p + q), constraints
