r"""Bound of the perspective relaxation with some observations kept and others dropped, compiled.

With γ ≥ 0 on the free observations F and :math:`\sum_F \gamma_i g_ig_i' \prec I`, every point that keeps K and drops D costs at least

.. math:: \min_w\; \|w\|^2 + \sum_{i \in F} L(u_i; \gamma_i) + \rho\sum_{i \in K}(1-u_i)_+^2 + \rho\sum_{i \in D}(u_i-1)_+^2
    + \lambda\sum_{i \in D} s_i

with the conic loss L of :func:`svmcvx.losses.conic_loss` at the height :math:`\lambda s_i`, which is at most :math:`\lambda s_i 1[u_i < 1]`. Here its kink
at u = 1 is smoothed from below, so that it stays a lower bound. The sum is convex, and Newton's method minimises it.
Its curvature is at least :math:`2\mu`, :math:`\mu = 1 - \lambda_{\max}(\sum_F\gamma_i g_ig_i')`: at any w with
gradient g the minimum is at least the value less :math:`\|g\|^2/(4\mu)`.

γ of observations that are no longer free would bound nothing: that of the others is scaled up instead.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["DROPPED", "FREE", "KEPT", "expand", "relax"]

FREE, KEPT, DROPPED = 0, 1, 2

# λ_max(Σ γ g g') of a scaled γ, and the width of the rounded kink in units of (λs/γ)^½, where the loss reaches its height.
INTERIOR = 0.99
KINK = 1e-3
NEWTON_STEPS = 50
# The minimum is good enough when it is known up to this share.
ACCURATE = 1e-7
# Share of the decrease promised by the slope that a step must reach, and the shortest one that is tried.
ARMIJO, SHORTEST = 1e-4, 1e-10


@njit(cache=True, nogil=True)
def _scaled(H, gamma, state):
    """Return γ on the free observations at its largest feasible multiple, zero on the others."""
    n, r = H.shape
    found = np.where(state == FREE, gamma, 0.0)
    moment = np.zeros((r, r))
    for i in range(n):
        if found[i] > 0.0:
            for c in range(r):
                for e in range(c + 1):
                    moment[c, e] += found[i] * H[i, c] * H[i, e]
    for c in range(r):
        for e in range(c):
            moment[e, c] = moment[c, e]
    largest = np.linalg.eigvalsh(moment)[-1]
    return found * (INTERIOR / largest) if largest > 0.0 else found


@njit(cache=True, nogil=True)
def _piece(a, state, gamma, height, rho):
    """Value, slope and curvature in a = 1 − u of one observation's term."""
    if state == KEPT:
        return (rho * a * a, 2.0 * rho * a, 2.0 * rho) if a > 0.0 else (0.0, 0.0, 0.0)
    if state == DROPPED:
        return (height + rho * a * a, 2.0 * rho * a, 2.0 * rho) if a < 0.0 else (height, 0.0, 0.0)
    if a <= 0.0 or gamma == 0.0:
        return 0.0, 0.0, 0.0
    knee = math.sqrt(height / gamma)
    slope, width = 2.0 * math.sqrt(gamma * height), KINK * knee
    if a >= knee:
        return height - 0.5 * slope * width, 0.0, 0.0
    if a <= width:
        bend = slope / width - 2.0 * gamma
        return 0.5 * bend * a * a, bend * a, bend
    return slope * (a - 0.5 * width) - gamma * a * a, slope - 2.0 * gamma * a, -2.0 * gamma


@njit(cache=True, nogil=True)
def _value(H, state, gamma, weight, lam, rho, w):
    value = np.dot(w, w)
    for i in range(H.shape[0]):
        value += _piece(1.0 - np.dot(H[i], w), state[i], gamma[i], lam * weight[i], rho)[0]
    return value


@njit(cache=True, nogil=True)
def _minimise(H, weight, gamma, lam, rho, state, w, upper):
    """Newton's method on the relaxation for one γ; `w` becomes the minimiser. Returns the bound."""
    n, r = H.shape
    bound = -math.inf
    for _ in range(NEWTON_STEPS):
        value = np.dot(w, w)
        gradient = 2.0 * w
        hessian = 2.0 * np.eye(r)
        for i in range(n):
            term, slope, bend = _piece(1.0 - np.dot(H[i], w), state[i], gamma[i], lam * weight[i], rho)
            value += term
            for c in range(r):
                gradient[c] -= slope * H[i, c]
            if bend != 0.0:
                for c in range(r):
                    for e in range(c + 1):
                        hessian[c, e] += bend * H[i, c] * H[i, e]
        for c in range(r):
            for e in range(c):
                hessian[e, c] = hessian[c, e]
        bound = max(bound, value - np.dot(gradient, gradient) / (4.0 * (1.0 - INTERIOR)))
        if bound >= upper or value - bound <= ACCURATE * abs(value):
            break
        step = -np.linalg.solve(hessian, gradient)
        decrease, length = np.dot(gradient, step), 1.0
        while length > SHORTEST and _value(H, state, gamma, weight, lam, rho, w + length * step) > value + ARMIJO * (
            length * decrease
        ):
            length *= 0.5
        if length <= SHORTEST:
            break
        w += length * step
    return bound


@njit(cache=True, nogil=True)
def relax(H, weight, gamma, lam, rho, state, w, upper):
    """Bound what keeps and drops as `state` says; `w` is the start and becomes the minimiser.

    Returns the bound and the observation to branch on, −1 if none is free. It ends early once `upper` is reached.
    """
    scaled = _scaled(H, gamma, state)
    bound = _minimise(H, weight, scaled, lam, rho, state, w, upper)
    return bound, _undecided(H, weight, scaled, lam, state, w)


@njit(cache=True, nogil=True)
def _undecided(H, weight, gamma, lam, state, w):
    """The free observation whose relaxed indicator is the farthest from 0 and 1; of none such the nearest to its margin."""
    chosen, best, nearest = -1, 0.0, math.inf
    for i in range(H.shape[0]):
        if state[i] != FREE:
            continue
        a = 1.0 - np.dot(H[i], w)
        share = min(1.0, max(a, 0.0) * math.sqrt(gamma[i] / (lam * weight[i]))) if lam > 0.0 else 0.0
        doubt = min(share, 1.0 - share) * weight[i]
        if doubt > best:
            best, chosen = doubt, i
        elif best == 0.0 and abs(a) < nearest:
            nearest, chosen = abs(a), i
    return chosen


@njit(cache=True, nogil=True)
def expand(H, weight, gamma, lam, rho, states, starts, branch_on, upper, first, stride, bounds, minimisers, following):
    """Bound every `stride`-th of the children of several nodes: an observation kept, and dropped.

    Parameters
    ----------
    H : ndarray of shape (n, r)
    weight, gamma : ndarray of shape (n,)
    lam, rho : float
    states : ndarray of int8, shape (nodes, n)
    starts : ndarray of shape (nodes, r)
        Minimisers at the nodes.
    branch_on : ndarray of int, shape (nodes,)
    upper : float
    first, stride : int
        The share of the 2 × nodes children.
    bounds : ndarray of shape (nodes, 2)
        Output.
    minimisers : ndarray of shape (nodes, 2, r)
        Output.
    following : ndarray of int, shape (nodes, 2)
        Output: what to branch on in the children.
    """
    for both in range(first, 2 * starts.shape[0], stride):
        node, child = both // 2, both % 2
        state = states[node].copy()
        state[branch_on[node]] = KEPT + child
        w = starts[node].copy()
        bounds[node, child], following[node, child] = relax(H, weight, gamma, lam, rho, state, w, upper)
        minimisers[node, child] = w
