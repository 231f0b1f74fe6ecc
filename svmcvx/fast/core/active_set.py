r"""Hard-margin problems solved by a dual active-set method.

.. math::
    \min_{w, b}\; \tfrac12\|w\|^2
    \quad\text{s.t.}\quad u_i = y_i(\langle w, \varphi(x_i)\rangle + b) \ge 1.

The state is the restricted solution of a set S of tight observations: :math:`u_i = 1` and
:math:`\alpha_i = y_i v_i > 0` on S, 0 elsewhere. :func:`solve` adds the most violated observation
to S: its multiplier is raised until it is tight, while S stays tight; a multiplier that falls
to 0 on the way leaves S. The dual value :math:`\tfrac12\sum\alpha_i` increases, and is at every
stop a lower bound of the optimum. If the multiplier can be raised without limit, the convex
hulls of the classes intersect. The steps are those of :mod:`svmcvx.fast.core.active_set_passes`.

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

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.fast.core.active_set_passes import EMPTY, INSEPARABLE, SOLVED, TOUCHING, solve_active
from svmcvx.feature_space import FeatureSpace
from svmcvx.numerical import bordered_solution

# Tight observations, at most: the factor of their Gram matrix is dense.
LARGEST_SUPPORT = 2500


class State(NamedTuple):
    """The restricted solution of a set of tight observations; see the table above."""

    K: Floats
    y: Floats
    S: NDArray[np.int64]
    tight: NDArray[np.int64]
    inside: Bools
    L: Floats
    v: Floats
    u: Floats
    number: Floats


def new_state(K: Floats, y: Floats, extent: float, largest_support: int = LARGEST_SUPPORT) -> State:
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


def reset(s: State) -> None:
    s.v[:] = s.u[:] = 0.0
    s.inside[:] = False
    s.tight[0], s.number[0] = 0, 0.0


def extended(s: State, old: State) -> None:
    """Copy the tight set and multipliers of `old`, of the first observations, to the empty `s`."""
    m = int(old.tight[0])
    if m == 0:
        return
    members = old.S[:m]
    s.number[:], s.tight[0], s.S[:m] = old.number, m, members
    s.inside[members], s.v[members] = True, old.v[members]
    s.L[:m, :m] = old.L[:m, :m]
    s.u[:] = s.y * (s.v[members] @ s.K[members] + s.number[0])


def solve(s: State, most: int) -> tuple[int, int]:
    """Go on to the solution from the present state.

    Return ``SOLVED``, ``INSEPARABLE``, ``OVER`` (so near that rounding hides which), ``MORE``
    (`most` observations were added; the next call continues) or ``FULL`` (too many tight ones), and
    the observation that cannot be added, −1 if there is none.
    """
    cap, polished = s.S.size, False
    buffers = (*(np.empty(cap) for _ in range(3)), np.empty(s.y.size))
    while True:
        if s.tight[0] == 0:
            code, q = _first_pair(s)
            if code != EMPTY:
                return code, q
        code, q, steps = solve_active(s, buffers, most, polished)
        if code != EMPTY:
            return code, q
        reset(s)
        most, polished = most - steps, True


@np.errstate(over="ignore", invalid="ignore")
def _first_pair(s: State) -> tuple[int, int]:
    """Start from two near observations of different classes."""
    reset(s)
    y, K = s.y, s.K
    diagonal = K.diagonal()
    i, j = 0, -1
    for _ in range(2):
        others = np.flatnonzero(y != y[i])
        if not others.size:
            s.number[0] = y[0]
            s.u[:] = 1.0
            return SOLVED, -1
        distance = diagonal[i] + diagonal[others] - 2.0 * K[i, others]
        i, j = int(others[distance.argmin()]), i
    square = float(K[i, i] + K[j, j] - 2.0 * K[i, j])
    if not square > TOUCHING * (abs(K[i, i]) + abs(K[j, j])):
        return INSEPARABLE, i
    rho = s.number[1]
    root = math.sqrt(K[i, i] + rho)
    below = (K[i, j] + rho) / root
    pivot = float(K[j, j] + rho - below * below)
    if not pivot > 0.0:
        return INSEPARABLE, i
    s.L[0, 0], s.L[1, 0], s.L[1, 1] = root, below, math.sqrt(pivot)
    s.S[:2], s.tight[0] = (i, j), 2
    s.inside[[i, j]] = True
    s.v[i], s.v[j] = 2.0 * y[i] / square, 2.0 * y[j] / square
    f = s.v[i] * K[i] + s.v[j] * K[j]
    s.number[0] = y[i] - f[i]
    s.u[:] = y * (f + s.number[0])
    return EMPTY, -1


@np.errstate(over="ignore", invalid="ignore")
def ray(s: State, q: int) -> Floats:
    """Return a direction in which the dual is unbounded, after ``INSEPARABLE`` because of q."""
    K, y, m = s.K, s.y, int(s.tight[0])
    weight = np.zeros(y.size)
    weight[q] = 1.0
    if m == 0:
        others = np.flatnonzero(y != y[q])
        if others.size:
            weight[others[(K.diagonal()[others] - 2.0 * K[q, others]).argmin()]] = 1.0
        return weight
    members = s.S[:m]

    def solve(right: Floats) -> Floats:
        return np.asarray(sl.cho_solve((s.L[:m, :m], True), right, check_finite=False))

    combination, _ = bordered_solution(solve, np.ones(m), K[q, members] + s.number[1], 1.0)
    weight[members] = np.maximum(-y[members] * y[q] * combination, 0.0)
    return weight


Indices: TypeAlias = NDArray[np.intp]


class GrowingWorkingSet:
    """Some observations, their Gram matrix, and the state of the active-set method on them."""

    def __init__(
        self, space: FeatureSpace, members: Indices, largest_support: int = LARGEST_SUPPORT
    ) -> None:
        self.largest_support = largest_support
        self.space, self.members = space, np.asarray(members, dtype=np.intp)
        K = space.block(self.members, self.members)
        self.extent = float(np.abs(space.diagonal()).max())
        self.state = self._new_state((K + K.T) / 2, space.data.y[self.members])

    def _new_state(self, K: Floats, y: Floats) -> State:
        return new_state(K, y, self.extent, self.largest_support)

    @property
    def n(self) -> int:
        return int(self.members.size)

    def coefficients(self) -> Floats:
        v = np.zeros(self.space.data.n)
        v[self.members] = self.state.v
        return v

    def grow(self, fresh: Indices) -> None:
        old = self.state
        across, block = self.space.block(fresh, self.members), self.space.block(fresh, fresh)
        K = np.ascontiguousarray(np.block([[old.K, across.T], [across, (block + block.T) / 2]]))
        self.members = np.append(self.members, fresh)
        self.state = self._new_state(K, self.space.data.y[self.members])
        extended(self.state, old)

    def shrink(self, kept: NDArray[np.bool_]) -> None:
        """Reduce the set to some of its members, among them all tight ones."""
        old = self.state
        place = np.cumsum(kept) - 1
        chosen = np.flatnonzero(kept)
        self.members = self.members[chosen]
        K = np.ascontiguousarray(old.K[np.ix_(chosen, chosen)])
        self.state = self._new_state(K, old.y[chosen])
        old.S[: old.tight[0]] = place[old.S[: old.tight[0]]]
        extended(self.state, old._replace(v=old.v[chosen]))
