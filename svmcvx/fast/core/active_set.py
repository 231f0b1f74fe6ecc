r"""Hard-margin machines by a dual active-set method that can also drop observations again: its state.

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 \quad\text{s.t.}\quad u_i = y_i(\langle w, \varphi(x_i)\rangle + b) \ge 1,\; i \in T.

The state is the machine of a set S of tight observations: :math:`u_i = 1` and :math:`\alpha_i = y_i v_i > 0` on S, 0 elsewhere.
The methods are those of :mod:`svmcvx.fast.core.active_set_passes`. ``solve`` adds the observation of T that is violated most to
S, by raising its multiplier until it is tight, while S stays tight; a multiplier that falls to 0 on the way leaves S. The dual
value :math:`\tfrac12\sum\alpha_i` increases, and is at every stop a lower bound of the optimum for T. If the multiplier can be
raised without limit, the convex hulls of the classes intersect. ``drop`` is the inverse of ``add``: it lowers the multiplier of
one observation to 0.

======== ==================================================== =========
symbol   meaning                                              shape
======== ==================================================== =========
K        Gram matrix of the working set                       (n, n)
S        tight observations, the first ``tight[0]`` entries   (cap,)
L        Cholesky factor of K_SS + ρ                          (cap, cap)
v, u     coefficients α_i y_i; signed margins                 (n,), (n,)
number   b, ρ                                                 (2,)
======== ==================================================== =========
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_SUPPORT", "State", "new_state"]

Floats: TypeAlias = NDArray[np.float64]

# Tight observations, at most: the factor of their Gram matrix is dense.
LARGEST_SUPPORT = 2500


class State(NamedTuple):
    """The machine of a set of tight observations; see the table above."""

    K: Floats
    y: Floats
    S: NDArray[np.int64]
    tight: NDArray[np.int64]
    inside: NDArray[np.bool_]
    L: Floats
    v: Floats
    u: Floats
    number: Floats


def new_state(K: Floats, y: Floats, extent: float, largest_support: int = LARGEST_SUPPORT) -> State:
    """Return the state without tight observations.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    y : ndarray of shape (n,)
    extent : float
        Largest diagonal entry of the whole Gram matrix, of which K may be a part.
    largest_support : int
        Tight observations, at most.
    """
    n = y.size
    cap = min(n, largest_support)
    return State(
        K,
        y,
        np.zeros(cap, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(n, dtype=np.bool_),
        np.empty((cap, cap)),
        np.zeros(n),
        np.zeros(n),
        np.array([0.0, extent if extent > 0 else 1.0]),
    )
