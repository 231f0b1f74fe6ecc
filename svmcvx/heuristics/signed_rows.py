r"""Good feasible points of problems that count violated margins, and what they prove about an optimum.

All work in the signed rows :math:`g_i = y_i L_i` of a factor `L`, so that :math:`u_i = g_i'w + y_i b`, with a bias `b`
that is free or absent. A point is told by the set `R` of observations that it drops: the best point that keeps the
others is their hard-margin machine, found by :func:`least_norm`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from svmcvx.feature_space import FeatureSpace
from svmcvx.system import memory

__all__ = [
    "Geometry",
    "Incumbent",
    "LeastNorm",
    "Relaxation",
    "conic_relaxation",
    "elastic_filter",
    "feasible_gamma",
    "least_norm",
    "local_search",
    "ramp_descent",
    "reach",
    "restricted_point",
    "soft_margin_scores",
    "violated",
]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
# Objective of a point with a squared norm and a weight of dropped observations; infinite where it is not feasible.
Price: TypeAlias = Callable[[float, float], float]

# A kept observation has u ≥ 1 up to this after a refit, whose point is scaled to have its smallest margin at 1.
ON_MARGIN = 1e-9
# 1 − Σμ = 1/(1 + ‖w‖²) in the scaled least-distance problem: below this the set cannot be told from an infeasible one.
INFEASIBLE = 1e-13
# Weight of a free bias against the normal in the least-distance problem, before it is polished.
FREE_BIAS = 1e3
POLISH_ROUNDS = 25
POLISHED = 1e-10
# Hard-margin machines solved by a local search from one start, at most.
REFITS = 600
# Sizes up to which a builder solves the conic relaxation.
RELAXATION_ROWS, RELAXATION_COLUMNS = 200, 50
# The elastic filter: price of slack, slacks that count as none, and observations tried in each step.
HARD, SEPARATED, TRIED = 1e6, 1e-3, 5
# By how much rows are tightened for a solver that satisfies them up to its tolerance only.
CLEAR = 3e-8
# Steps of the convex-concave procedure, at most.
DESCENT_STEPS = 20
# Bounds derived in floating point are widened by this share.
WIDENING = 1e-9
# Share of a uniform γ that is mixed into that of the relaxation, so that none is zero.
UNIFORM_SHARE = 0.05
SMALLEST_SPECTRUM = 1e-6


class LeastNorm(NamedTuple):
    r"""The point of least norm with :math:`u_i \ge 1` on some rows: :math:`w = \sum \alpha_i g_i`, and the bias."""

    w: Floats
    b: float
    alpha: Floats


class Incumbent(NamedTuple):
    """A feasible point: normal in the columns of the factor, bias, ‖w‖², margins, and what it costs."""

    w: Floats
    b: float
    norm: float
    u: Floats
    loss: float

    @property
    def dropped(self) -> Bools:
        """Observations with a margin below 1."""
        return self.u < 1.0 - ON_MARGIN


@dataclass(frozen=True)
class Geometry:
    """Signed rows of the factor, labels, weights, and whether the bias is free.

    Attributes
    ----------
    G : ndarray of shape (n, r)
    y, weight : ndarray of shape (n,)
    free : bool
    """

    G: Floats
    y: Floats
    weight: Floats
    free: bool

    @classmethod
    def of(cls, space: FeatureSpace) -> Geometry:
        """Return the geometry of a feature space; refuse what does not fit into memory."""
        L = space.factor
        n, r = L.shape
        memory.require(
            8.0 * (3.0 * n * r + 4.0 * n * n),
            f"a mixed-integer program on {n} observations and {r} columns",
            "use fewer observations; mixed-integer programs of this size are out of reach anyway",
        )
        dense = L.toarray() if sp.issparse(L) else L
        return cls(space.data.y[:, None] * dense, space.data.y, space.data.weight, space.intercept == "free")

    def incumbent(self, w: Floats, b: float, loss: Callable[[Floats], Floats]) -> Incumbent:
        """Return the point (w, b) with its costs; `loss` maps margins to losses."""
        u = self.G @ w + (self.y * b if self.free else 0.0)
        return Incumbent(w, b, float(w @ w), u, float(self.weight @ loss(u)))

    def refit(self, kept: Bools) -> LeastNorm | None:
        """Return the hard-margin machine of the observations kept, its multipliers for all observations."""
        found = least_norm(self.G[kept], self.y[kept] if self.free else None)
        if found is None:
            return None
        alpha = np.zeros(kept.size)
        alpha[kept] = found.alpha
        return LeastNorm(found.w, found.b, alpha)


def least_norm(G: Floats, y: Floats | None) -> LeastNorm | None:
    r"""Return the point of least norm with :math:`g_i'w + y_i b \ge 1`, or None if there is none (to rounding).

    Least-distance programming: the residual of the non-negative least squares problem
    :math:`\min_{\mu \ge 0} \|G'\mu\|^2 + (1 - \sum\mu)^2` is a multiple of the answer. The support that it finds is then
    solved to rounding as equations.

    Parameters
    ----------
    G : ndarray of shape (m, r)
    y : ndarray of shape (m,) or None
        Labels, for a free bias; None for no bias.

    Notes
    -----
    Source: Lawson and Hanson, Solving Least Squares Problems, chapter 23.
    """
    m, r = G.shape
    if m == 0 or (y is not None and (y == y[0]).all()):
        return LeastNorm(np.zeros(r), 0.0 if m == 0 or y is None else float(y[0]), np.zeros(m))
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G))))
    if scale == 0:
        return None
    H = G / scale
    bias = np.zeros((0, m)) if y is None else FREE_BIAS * y[None, :]
    try:
        mu, _ = nnls(np.vstack([H.T, bias, np.ones((1, m))]), np.append(np.zeros(r + len(bias)), 1.0))
    except RuntimeError:
        return None
    rest = 1.0 - float(mu.sum())
    if not rest > INFEASIBLE:
        return None
    alpha = mu / rest
    polished = _polish(H, y, alpha)
    for candidate in (polished, alpha):
        if candidate is not None and (found := _to_margin(H, y, candidate)) is not None:
            return LeastNorm(found.w / scale, found.b, found.alpha / scale**2)
    return None


def _to_margin(H: Floats, y: Floats | None, alpha: Floats) -> LeastNorm | None:
    """Scale w = H'α, with the best bias, to a smallest margin of 1."""
    w = H.T @ alpha
    u = H @ w
    if y is None:
        margin, b = float(u.min()), 0.0
    else:
        lowest, highest = float(u[y > 0].min()), float((-u)[y < 0].max())
        margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
    return LeastNorm(w / margin, b / margin, alpha / margin) if margin > 0 else None


def _polish(H: Floats, y: Floats | None, alpha: Floats) -> Floats | None:
    """Solve u = 1 on the support exactly, changing the support where signs or margins ask for it."""
    support = alpha > POLISHED * float(alpha.max())
    for _ in range(POLISH_ROUNDS):
        rows = np.flatnonzero(support)
        if rows.size == 0:
            return None
        k = rows.size
        system = H[rows] @ H[rows].T
        right = np.ones(k)
        if y is not None:
            system = np.block([[system, y[rows, None]], [y[None, rows], np.zeros((1, 1))]])
            right = np.append(right, 0.0)
        try:
            solved, *_ = sl.lstsq(system, right, lapack_driver="gelsy")
        except (ValueError, sl.LinAlgError):
            return None
        values = solved[:k]
        if float(values.min()) < -POLISHED * float(np.abs(values).max()):
            support[rows[values <= 0]] = False
            continue
        full = np.zeros(alpha.size)
        full[rows] = np.maximum(values, 0.0)
        u = H @ (H.T @ full) + (0.0 if y is None else y * float(solved[k]))
        worst = int(np.argmin(u))
        if u[worst] >= 1.0 - POLISHED * max(1.0, float(np.abs(u).max())):
            return full
        if support[worst]:
            return None
        support[worst] = True
    return None


def violated(u: Floats) -> Floats:
    """Return 1 for each observation with a margin below 1 (by more than the rounding of a refit), else 0."""
    return (u < 1.0 - ON_MARGIN).astype(np.float64)


def local_search(
    geometry: Geometry,
    price: Price,
    *,
    least: Callable[[float], float],
    scores: Iterable[Floats],
    points: Iterable[tuple[Floats, float]] = (),
) -> Incumbent | None:
    """Return a point that counts few violated margins at a small norm, or None if none was found.

    Each score proposes to drop observations in the order of increasing score, any number of them. From the best of
    these sets, and from each point passed, a search drops one or two support vectors, takes back a dropped
    observation, or takes back one and drops one, while that improves.

    Parameters
    ----------
    geometry : Geometry
    price : callable
        Objective of (‖w‖², weight dropped).
    least : callable
        Lower bound on the objective of a point that drops a given weight, to pass over hopeless sets.
    scores : iterable of ndarray of shape (n,)
        The smaller, the sooner dropped; such as margins of some classifier.
    points : iterable of (w, b)
    """
    n, r = geometry.G.shape
    constants = [(np.zeros(r), b) for b in ((0.0, 1.0, -1.0) if geometry.free else (0.0,))]
    searches = [_Search(geometry, price, [point]) for point in points]
    for score in scores:
        search = _Search(geometry, price, constants)
        searches.append(search)
        order = np.argsort(score, kind="stable")
        for count in range(n):
            kept = np.ones(n, dtype=bool)
            kept[order[:count]] = False
            if least(float(geometry.weight[~kept].sum())) >= search.value or search.exhausted:
                break
            search.refit(kept)
    for search in searches:
        while search.improve():
            pass
    found = [search.best for search in searches if search.best is not None]
    return min(found, key=lambda point: price(point.norm, point.loss), default=None)


class _Search:
    """The best point so far, and the number of refits left."""

    def __init__(self, geometry: Geometry, price: Price, points: Iterable[tuple[Floats, float]]) -> None:
        self.geometry, self.price = geometry, price
        self.best: Incumbent | None = None
        self.value = math.inf
        self.refits = REFITS
        self.seen: set[bytes] = set()
        for w, b in points:
            self.offer(w, b)

    @property
    def exhausted(self) -> bool:
        return self.refits <= 0

    def offer(self, w: Floats, b: float) -> Incumbent:
        point = self.geometry.incumbent(w, b, violated)
        value = self.price(point.norm, point.loss)
        if value < self.value - ON_MARGIN * max(1.0, abs(value)) or (self.best is None and math.isfinite(value)):
            self.best, self.value = point, value
        return point

    def refit(self, kept: Bools) -> tuple[Incumbent, LeastNorm] | None:
        key = np.packbits(kept).tobytes()
        if self.exhausted or key in self.seen:
            return None
        self.seen.add(key)
        self.refits -= 1
        found = self.geometry.refit(kept)
        return None if found is None else (self.offer(found.w, found.b), found)

    def improve(self) -> bool:
        """Try all moves from the best point; tell whether one improved."""
        if self.best is None or self.exhausted:
            return False
        before = self.value
        kept = ~self.best.dropped
        for smaller in self._drop_each(kept):
            if self.value < before:
                return True
            self._drop_each(smaller)
        if self.value < before:
            return True
        for j in np.flatnonzero(~kept):
            taken_back = kept.copy()
            taken_back[j] = True
            self.refit(taken_back)
            self._drop_each(taken_back)
            if self.value < before:
                return True
        return False

    def _drop_each(self, kept: Bools) -> list[Bools]:
        """Drop each support vector of the machine of a set (of an inseparable set each observation); return the sets."""
        found = self.geometry.refit(kept)
        self.refits -= 1
        sets = []
        for i in np.flatnonzero(kept if found is None else found.alpha > 0):
            smaller = kept.copy()
            smaller[i] = False
            self.refit(smaller)
            sets.append(smaller)
        return sets


def reach(geometry: Geometry, norm_left: Callable[[Floats], Floats], *, lowest: float, all_dropped: float) -> Floats:
    r"""Return for each observation how far its margin can be below `1` at an optimum: valid values of M.

    Let m be dropped at an optimum. Order the others (of its class, if the bias is free: then :math:`u_m - u_i` does
    not depend on it) by their distance to m in signed feature space. Let the t-th be the first that is not dropped.
    Then the weight dropped is at least that of m and of the t − 1 nearer ones, which leaves :math:`\|w\|^2 \le N_t`, and

    .. math:: u_m \;\ge\; u_t - \|g_m - g_t\|\sqrt{N_t}, \qquad\text{without bias also } u_m \ge -\|g_m\|\sqrt{N_t}.

    The largest of these over all t that are possible is valid. If all of them are dropped, a constant score is as
    good, and there is an optimum with :math:`u_m` = 1 − `all_dropped`.

    Parameters
    ----------
    geometry : Geometry
    norm_left : callable
        Upper bounds on :math:`\|w\|^2` at any point that drops at least these weights and is as good as the
        incumbent; negative where there is no such point.
    lowest : float
        What an observation that is not dropped may be below margin 1: 0, or 2 for the ramp loss.
    all_dropped : float
        1 − u at the constant score: 1 without a bias (score 0), 2 with one (score ±1).
    """
    n = geometry.y.size
    M = np.zeros(n)
    for m in range(n):
        others = np.flatnonzero((geometry.y == geometry.y[m]) if geometry.free else np.ones(n, dtype=bool))
        others = others[others != m]
        distance = cdist(geometry.G[m : m + 1], geometry.G[others])[0]
        order = np.argsort(distance, kind="stable")
        weight = geometry.weight[m] + np.append(0.0, np.cumsum(geometry.weight[others[order]]))
        left = norm_left(weight)
        radius = np.sqrt(np.maximum(left[:-1], 0.0))
        depth = lowest + radius * distance[order]
        if not geometry.free:
            depth = np.minimum(depth, 1.0 + radius * float(np.linalg.norm(geometry.G[m])))
        depth = np.where(left[:-1] >= 0, depth, 0.0)
        M[m] = max(float(depth.max(initial=0.0)), all_dropped if left[-1] >= 0 else 0.0)
    return np.where(M > 0, M * (1 + WIDENING) + WIDENING, 0.0)


def _solved(problem: cp.Problem) -> bool:
    """Solve a heuristic's problem: any point is welcome, however inaccurate; tell whether the solver ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return False
    return True


class Relaxation(NamedTuple):
    """Solved conic relaxation: normal, relaxed indicators, multipliers γ (not made feasible), and λ."""

    w: Floats
    z: Floats
    gamma: Floats
    price: float


def conic_relaxation(geometry: Geometry, *, lam: float | None, k: float | None) -> Relaxation | None:
    r"""Solve the conic relaxation of the 0-1 problem without bias; None if it is too large or the solver fails.

    .. math:: \min\; \mathrm{Tr}\,W + \lambda\, s'z \quad\text{s.t.}\quad
        z_i\,(g_i'W g_i - 2 g_i'w + 1) \ge (1 - g_i'w)_+^2,\; \begin{bmatrix}1 & w'\\ w & W\end{bmatrix} \succeq 0,

    or with :math:`s'z \le k` in place of the penalty, whose multiplier is then λ;
    :math:`\gamma_i = \lambda s_i (1-u_i)_+^2/t_i^2` with :math:`t_i` the bracket.
    """
    G, weight = geometry.G, geometry.weight
    n, r = G.shape
    if n > RELAXATION_ROWS or r > RELAXATION_COLUMNS:
        return None
    Y = cp.Variable((r + 1, r + 1), PSD=True)
    W, w = Y[1:, 1:], Y[0, 1:]
    z, a = cp.Variable(n), cp.Variable(n)
    u = G @ w
    t = cp.sum(cp.multiply(G @ W, G), axis=1) - 2 * u + 1
    constraints = [Y[0, 0] == 1, a >= 1 - u, a >= 0, cp.SOC(z + t, cp.vstack([z - t, 2 * a]), axis=0)]
    if k is not None:
        constraints.append(weight @ z <= k)
    penalty = 0 if lam is None else lam * (weight @ z)
    problem = cp.Problem(cp.Minimize(cp.trace(W) + penalty), constraints)
    if not _solved(problem) or w.value is None or not np.isfinite(w.value).all():
        return None
    price = lam if lam is not None else float(constraints[-1].dual_value)
    bracket = np.maximum(np.asarray(t.value), np.finfo(float).tiny)
    shortfall = np.maximum(1.0 - np.asarray(u.value), 0.0)
    gamma = price * weight * np.minimum(shortfall**2 / bracket, 1.0) / bracket
    return Relaxation(np.asarray(w.value), np.clip(z.value, 0.0, 1.0), gamma, price)


def feasible_gamma(G: Floats, gamma: Floats | None) -> Floats:
    r"""Return γ > 0 with :math:`I - \sum_i \gamma_i g_i g_i' \succ 0`: the one passed, scaled, with a uniform one mixed in."""
    uniform = np.ones(G.shape[0])
    parts = [(uniform, 1.0)] if gamma is None else [(gamma, 1.0 - UNIFORM_SHARE), (uniform, UNIFORM_SHARE)]
    mixed = np.zeros(G.shape[0])
    for part, share in parts:
        largest = float(np.linalg.eigvalsh((G * part[:, None]).T @ G)[-1])
        mixed += share * part / max(largest, 1.0 if part is gamma else SMALLEST_SPECTRUM)
    return mixed * (1.0 - 1e-6)


def soft_margin_scores(geometry: Geometry, cost: float) -> Floats:
    r"""Return the margins u of :math:`\min \|w\|^2 + \mathrm{cost} \sum s_i (1-u_i)_+^2`."""
    return _soft_margin(geometry, cost, np.ones(geometry.y.size, dtype=bool))[0]


def elastic_filter(geometry: Geometry) -> Floats:
    """Return a score that drops few observations before the others are separable.

    Of the observations with the largest slacks, that one is dropped first whose loss lets the total slack fall the most,
    and so on (Chinneck's heuristic for the largest feasible subsystem).
    """
    n = geometry.y.size
    score, kept = np.full(n, np.inf), np.ones(n, dtype=bool)
    u, _ = _soft_margin(geometry, HARD, kept)
    for rank in range(n - 1):
        slack = np.where(kept, 1.0 - u, -np.inf)
        candidates = [i for i in np.argsort(slack)[::-1][:TRIED] if slack[i] > SEPARATED]
        if not candidates:
            break
        trials = []
        for i in candidates:
            smaller = kept.copy()
            smaller[i] = False
            trials.append((*_soft_margin(geometry, HARD, smaller), i))
        u, _, chosen = min(trials, key=lambda trial: trial[1])
        score[chosen], kept[chosen] = rank, False
    return score


def _soft_margin(geometry: Geometry, cost: float, kept: Bools) -> tuple[Floats, float]:
    """Margins of the squared-hinge machine of the observations kept, and their weighted sum of squared slacks.

    Least-distance programming in (w, ξ): the elastic version of :func:`least_norm`.
    """
    G, y, weight = geometry.G, geometry.y, geometry.weight
    scale = max(float(np.abs(G).max(initial=0.0)), np.finfo(float).tiny)
    columns = np.hstack([G, scale * FREE_BIAS * y[:, None]]) if geometry.free else G
    # In units of the largest entry of G, so that `cost` has a meaning whatever the scale of the data.
    columns = columns / scale
    elastic = np.diag(1.0 / np.sqrt(cost * weight[kept]))
    system = np.vstack([columns[kept].T, elastic, np.ones((1, int(kept.sum())))])
    try:
        mu, _ = nnls(system, np.append(np.zeros(system.shape[0] - 1), 1.0))
    except RuntimeError:
        return np.asarray(G.sum(axis=1)), math.inf
    rest = max(1.0 - float(mu.sum()), np.finfo(float).tiny)
    u = np.asarray(columns @ (columns[kept].T @ mu)) / rest
    return u, float(weight[kept] @ np.maximum(1.0 - u[kept], 0.0) ** 2)


def restricted_point(geometry: Geometry, kept: Bools, M: Floats, C: float | None) -> tuple[Floats, float] | None:
    """Return the best (w, b) that drops a set while u ≥ 1 − M on it, feasible by a little more than a solver's tolerance.

    With `C` the observations kept have hinge losses up to 2 at this price, without it margins of at least 1.
    """
    n, r = geometry.G.shape
    w, b = cp.Variable(r), cp.Variable()
    xi = cp.Variable(n) if C is not None else np.zeros(n)
    u = geometry.G @ w + (geometry.y * b if geometry.free else 0)
    limited = ~kept & np.isfinite(M)
    rows = [u[kept] >= 1.0 + CLEAR - xi[kept]] if kept.any() else []
    if limited.any():
        rows.append(u[limited] >= 1.0 - M[limited] + CLEAR * (1.0 + M[limited]))
    loss: cp.Expression | float = 0.0
    if C is not None:
        rows += [xi >= 0, xi <= 2]
        loss = C * (np.where(kept, geometry.weight, 0.0) @ xi)
    if not _solved(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss), rows)):
        return None
    if w.value is None or not np.isfinite(w.value).all():
        return None
    return np.asarray(w.value), float(b.value) if geometry.free else 0.0


def ramp_descent(geometry: Geometry, C: float, dropped: Bools) -> tuple[Floats, float]:
    """Solve the hinge problem without the observations dropped, drop those with u < −1 instead, until nothing changes.

    Each step lowers the ramp objective (the convex-concave procedure). Returns (w, b).
    """
    n, r = geometry.G.shape
    w, b, xi = cp.Variable(r), cp.Variable(), cp.Variable(n)
    counted = cp.Parameter(n, nonneg=True)
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(w) + C * (counted @ xi)),
        [geometry.G @ w + geometry.y * b >= 1 - xi, xi >= 0],
    )
    point = (np.zeros(r), 0.0)
    for _ in range(DESCENT_STEPS):
        counted.value = np.where(dropped, 0.0, geometry.weight)
        if not _solved(problem) or w.value is None or not np.isfinite(w.value).all() or not np.isfinite(b.value):
            break
        point = np.asarray(w.value), float(b.value)
        now = geometry.G @ point[0] + geometry.y * point[1] < -1.0
        if (now == dropped).all():
            break
        dropped = now
    return point
