r"""Local search over the set of satisfied observations by the active-set method.

The objective of a set T is :math:`\tfrac12\|w_T\|^2` of its hard-margin machine plus the prices of
the others. A move drops a support vector or takes an observation in; its change of the norm if only
the tight observations mattered is

.. math:: \frac{\alpha_k^2}{2\,(M^{-1})_{kk}} - \mathrm{price}_k \quad\text{and}\quad
    \mathrm{price}_j - \frac{(1-u_j)^2}{2\kappa_j},

with the bordered matrix M of the tight observations and the curvature κ_j along which j would
become tight. Moves are tried in the order of these estimates; a trial ends as soon as its dual
value, a lower bound, shows that it does not improve.

The loops of a machine are compiled (:mod:`svmcvx.fast.core.active_set_passes`); a trial is one
restricted solution.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.fast.core.active_set import State, add_constraint, drop, ray, reset, solve, value
from svmcvx.fast.core.active_set_passes import DEPENDENT, FULL, INSEPARABLE, MORE, OVER, SOLVED

__all__ = ["allocate_like", "descend", "explore", "solve_or_evict"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Trials a move, at most.
TRIALS = 25
# Least relative decrease of the objective that counts as an improvement.
BETTER = 1e-10
# A margin this little below 1 is satisfied.
SATISFIED = 1e-11


def allocate_like(s: State) -> State:
    """Return room for a copy of a state."""
    return State(
        s.K,
        s.y,
        np.zeros_like(s.S),
        np.zeros_like(s.tight),
        np.zeros_like(s.inside),
        np.empty_like(s.L),
        np.zeros_like(s.v),
        np.zeros_like(s.u),
        np.zeros_like(s.number),
    )


def _copy_state(s: State, to: State) -> None:
    """Copy the used parts of the arrays."""
    m = int(s.tight[0])
    to.tight[0], to.S[:m], to.L[:m, :m] = m, s.S[:m], s.L[:m, :m]
    to.inside[:], to.v[:], to.u[:], to.number[:] = s.inside, s.v, s.u, s.number


def _absorb(s: State, kept: Bools) -> None:
    """Add the observations that are satisfied anyway to the set."""
    kept |= s.u >= 1.0 - SATISFIED


def _dropped_price(kept: Bools, price: Floats) -> float:
    """Total price of the dropped observations."""
    return float(price[~kept].sum())


def _leave(s: State, q: int) -> None:
    if s.inside[q]:
        drop(s, q)


def _worths(s: State, forms: Floats, ones: Floats) -> Floats:
    """How much the norm would fall without each member, if only the tight observations mattered."""
    inverse = (forms * forms).sum(axis=0) - (ones @ forms) ** 2 / (ones @ ones)
    v = s.v[s.S[: ones.size]]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(inverse > 0.0, 0.5 * v * v / inverse, -math.inf)


def _inverse(s: State) -> tuple[Floats, Floats]:
    """Return L⁻¹ and L⁻¹1."""
    m = int(s.tight[0])
    forms = sl.solve_triangular(s.L[:m, :m], np.eye(m), lower=True, check_finite=False)
    return forms, forms.sum(axis=1)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _estimates(s: State, kept: Bools, price: Floats, allowed: Bools) -> Floats:
    """What dropping (support vectors) or taking in (others) might improve; −∞ if there is no move."""
    m, rho = int(s.tight[0]), s.number[1]
    gain = np.full(s.y.size, -math.inf)
    if m == 0:
        return gain
    members = s.S[:m]
    forms, ones = _inverse(s)
    gain[members] = np.where(allowed[members], _worths(s, forms, ones) - price[members], -math.inf)
    others = np.flatnonzero(allowed & ~kept)
    x = forms @ (s.K[np.ix_(members, others)] + rho)
    diagonal = s.K.diagonal()[others]
    pivot = diagonal + rho - (x * x).sum(axis=0)
    curvature = pivot + (1.0 - ones @ x) ** 2 / (ones @ ones)
    found = price[others] - 0.5 * (1.0 - s.u[others]) ** 2 / curvature
    gain[others] = np.where(pivot > DEPENDENT * (np.abs(diagonal) + rho), found, -math.inf)
    return np.where(np.isnan(gain), -math.inf, gain)


def _evict(s: State, kept: Bools, price: Floats, q: int) -> None:
    """Drop the member that costs most; if q cannot be added, the observation with the largest share
    in the infeasibility.
    """
    if q < 0:
        members = s.S[: s.tight[0]]
        worst = int(members[(_worths(s, *_inverse(s)) - price[members]).argmax()])
        kept[worst] = False
        drop(s, worst)
        return
    weight = ray(s, kept, q)
    if s.tight[0] == 0:
        kept[q] = False
        return
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(weight > 0.0, weight / price, 0.0)
    worst = int(share.argmax()) if share.max() > share[q] else q
    drop(s, q)
    kept[worst] = False
    _leave(s, worst)


def solve_or_evict(s: State, kept: Bools, price: Floats, limit: float, most: int) -> int:
    """As :func:`svmcvx.fast.core.active_set.solve`, but drop observations until T is separable and
    its value at most `limit`.
    """
    for _ in range(most + 1):
        code, q = solve(s, kept, limit, most)
        if code not in (INSEPARABLE, OVER):
            return code
        _evict(s, kept, price, q)
    return MORE


def _force(s: State, kept: Bools, q: int) -> bool:
    """Move q to the other side, and make the state the restricted solution of the new set; return
    whether this was possible.
    """
    kept[q] = not kept[q]
    if not kept[q]:
        _leave(s, q)
    elif s.tight[0] > 0 and s.u[q] < 1.0 and not add_constraint(s, q):
        kept[q] = False
        return False
    return solve(s, kept, math.inf, 50 * s.y.size)[0] == SOLVED


def descend(
    s: State, spare: State, kept: Bools, price: Floats, allowed: Bools, most: int
) -> tuple[float, int]:
    """Improve the set of a solved state by single moves until no move improves it, or for at most
    `most` trials.
    """
    n = s.y.size
    _absorb(s, kept)
    best = value(s) + _dropped_price(kept, price)
    trials, improved = 0, True
    while improved and trials < most:
        gain = _estimates(s, kept, price, allowed)
        _copy_state(s, spare)
        before = kept.copy()
        improved = False
        for _ in range(TRIALS):
            # The most promising move that has not been tried.
            q = int(gain.argmax())
            if not gain[q] > 0.0:
                break
            gain[q] = -math.inf
            trials += 1
            kept[q] = not kept[q]
            if not kept[q]:
                _leave(s, q)
            code, _ = solve(s, kept, best * (1.0 - BETTER) - _dropped_price(kept, price), 50 * n)
            if code == SOLVED:
                _absorb(s, kept)
                now = value(s) + _dropped_price(kept, price)
                if now < best * (1.0 - BETTER):
                    best, improved = now, True
                    break
            if code in (INSEPARABLE, FULL):
                reset(s)
            _copy_state(spare, s)
            kept[:] = before
    return best, trials


def explore(
    s: State,
    spare: State,
    store: State,
    kept: Bools,
    price: Floats,
    best: float,
    picks: Floats,
    most: int,
) -> float:
    """Move one observation at a time to the other side, descend from there, and return the better
    set.

    Parameters
    ----------
    s : State
        At a local minimum of value `best`.
    spare, store : State
        Room for copies.
    kept : ndarray of bool, shape (n,)
    price : ndarray of shape (n,)
    best : float
    picks : ndarray
        Random numbers in [0, 1) that choose the observations, among those dropped and the support
        vectors.
    most : int
        Trials after each.

    Returns
    -------
    float
        The objective.
    """
    allowed = np.ones(s.y.size, dtype=np.bool_)
    _copy_state(s, store)
    before = kept.copy()
    for pick in picks:
        choice = np.flatnonzero(~kept | s.inside)
        if not choice.size:
            break
        q = int(choice[int(pick * choice.size)])
        now = math.inf
        if _force(s, kept, q):
            allowed[q] = False
            descend(s, spare, kept, price, allowed, most)
            allowed[q] = True
            now, _ = descend(s, spare, kept, price, allowed, most)
        if now < best * (1.0 - BETTER):
            best = now
            _copy_state(s, store)
            before[:] = kept
        else:
            _copy_state(store, s)
            kept[:] = before
    return best
