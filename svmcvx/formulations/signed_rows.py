r"""Feasible points of problems with a 0-1, ramp or l0 loss, in signed rows.

With a factor `L` of the Gram matrix the signed rows are :math:`g_i = y_i L_i`, so that :math:`u_i =
g_i'w + y_i b`, with a bias `b` that is free or absent. A point is described by the set of
observations that it drops: the best such point is the point of least norm with :math:`u_i \ge 1` on
the others. Sets come from scores, those of observations with low scores being dropped first, and
from a local search. The rounding of the conic relaxation [CepedaGomezHan] is such a search, from
the scores and the indicators of its point.

Machines from which searches start are the hinge machine with some hard rows, a quadratic program
solved by Clarabel,

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + \sum_i c_i (t_i - u_i)_+,

where :math:`c_i = \infty` makes the row hard: :math:`u_i \ge t_i`; and the machine with squared
hinge losses, by Newton's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

import clarabel
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import EPS
from svmcvx.certificate.rows import row_norms_above
from svmcvx.feature_space import FeatureSpace
from svmcvx.kernels import row_norms
from svmcvx.kernels.functions import distances_above
from svmcvx.numerical import (
    MarginOperator,
    estimated_rounding,
    line_search,
    solve_support_equations,
)
from svmcvx.system import memory
from svmcvx.system.deadline import OutOfTime, current, run_with_deadline


class LeastNorm(NamedTuple):
    """The point of least norm with u_i ≥ 1 on some rows: w = Σ α_i g_i, and the bias."""

    w: Floats
    b: float
    alpha: Floats


def least_norm(G: Floats, y: Floats | None) -> LeastNorm | None:
    r"""Return the point of least norm with :math:`g_i'w + y_i b \ge 1`, or None (to rounding)."""
    m, r = G.shape
    if m == 0 or (y is not None and (y == y[0]).all()):
        return LeastNorm(np.zeros(r), 0.0 if m == 0 or y is None else float(y[0]), np.zeros(m))
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G))))
    if scale == 0:
        return None
    H = G / scale
    mu = nearest_combination(H, y)
    if mu is None:
        return None
    # 1 − Σμ = 1/(1 + ‖w‖²): below rounding the set counts as infeasible.
    rest = 1.0 - float(mu.sum())
    if not rest > 500 * EPS:
        return None
    alpha = mu / rest
    found = _to_margin(H, y, H.T @ alpha, alpha)
    # Polishing takes twice as long as the least squares.
    if y is not None or found is None or float((H[mu > 0.0] @ found.w).max()) > 1.0 + 1e-12:
        polished = _polish(H, y, alpha)
        found = (None if polished is None else _to_margin(H, y, H.T @ polished, polished)) or found
    if found is None:
        return None
    found = _on_margin(H, y, found)
    return LeastNorm(found.w / scale, found.b, found.alpha / scale**2)


def nearest_combination(H: Floats, y: Floats | None) -> Floats | None:
    """Return the μ ≥ 0 with the least ‖H'μ‖² + (1 − Σμ)², with a free bias to rounding: (1 − Σμ)
    times the multipliers of the point of least norm. None where the iteration does not end.
    """
    m, r = H.shape
    if m == 0:
        return np.zeros(0)
    # A long constant feature stands for a free bias, before polishing.
    bias = np.zeros((0, m)) if y is None else 1e3 * y[None, :]
    columns = np.vstack([H.T, bias, np.ones((1, m))])
    try:
        return np.asarray(nnls(columns, np.append(np.zeros(r + len(bias)), 1.0))[0])
    except RuntimeError:
        return None


def _to_margin(H: Floats, y: Floats | None, w: Floats, alpha: Floats) -> LeastNorm | None:
    """Scale w and its multipliers, with the best bias, to a smallest margin of 1."""
    u = H @ w
    if y is None:
        margin, b = float(u.min()), 0.0
    else:
        lowest, highest = float(u[y > 0].min()), float((-u)[y < 0].max())
        margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
    return LeastNorm(w / margin, b / margin, alpha / margin) if margin > 0 else None


def _on_margin(H: Floats, y: Floats | None, found: LeastNorm) -> LeastNorm:
    """Move a point to margins of 1 on its support: sums H'α of nearly inseparable rows cancel."""
    support = found.alpha > 0.0
    rows, point = H[support], found.w
    if y is not None:
        rows, point = np.column_stack([rows, y[support]]), np.append(point, found.b)
    short = 1.0 - rows @ point
    if not (short < -ON_MARGIN).any():
        return found
    step = sl.lstsq(rows, short, check_finite=False)[0][: found.w.size]
    moved = _to_margin(H, y, found.w + step, found.alpha)
    return moved if moved is not None and moved.w @ moved.w < found.w @ found.w else found


def _polish(H: Floats, y: Floats | None, alpha: Floats) -> Floats | None:
    """Solve u = 1 on the support exactly, changing it where signs or margins ask for it."""
    free = alpha > 1e-10 * float(alpha.max())
    signed = MarginOperator(
        lambda alpha: np.asarray(H @ (H.T @ alpha)), lambda rows: H[rows] @ H[rows].T, y
    )
    return solve_support_equations(
        signed,
        np.where(free, alpha, 0.0),
        free=free,
        upper_bound=np.full(alpha.size, np.inf),
        bias=0.0,
        slack=None,
    )


# Rounding error of margins after a refit, whose point is scaled so that the smallest margin of the
# set is 1.
ON_MARGIN = 1e-9


class Incumbent(NamedTuple):
    """A feasible point: normal in the columns of the factor, bias, ‖w‖², margins, and losses."""

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
class SignedRows:
    """Signed rows of the factor, labels, weights, and whether the bias is free."""

    G: Floats
    y: Floats
    weight: Floats
    free: bool

    @classmethod
    def of(cls, space: FeatureSpace) -> SignedRows:
        """Return the signed rows of a feature space; raise an error if memory is too small."""
        L = space.factor
        n, r = L.shape
        memory.require(80.0 * n * r, f"{n} observations of {r} columns", "use fewer observations")
        dense = L.toarray() if sp.issparse(L) else L
        return cls(
            space.data.y[:, None] * dense,
            space.data.y,
            space.data.weight,
            space.intercept == "free",
        )

    def margins(self, w: Floats, b: float) -> Floats:
        """Return u at (w, b)."""
        return np.asarray(self.G @ w + (self.y * b if self.free else 0.0))

    def incumbent(self, w: Floats, b: float, loss: Callable[[Floats], Floats]) -> Incumbent:
        """Return the point (w, b) with its costs; `loss` maps margins to losses."""
        u = self.margins(w, b)
        return Incumbent(w, b, float(w @ w), u, float(self.weight @ loss(u)))

    def refit(self, kept: Bools) -> LeastNorm | None:
        """Return the hard-margin solution of a set, with multipliers for all observations."""
        found = least_norm(self.G[kept], self.y[kept] if self.free else None)
        if found is None:
            return None
        alpha = np.zeros(kept.size)
        alpha[kept] = found.alpha
        return LeastNorm(found.w, found.b, alpha)


def violated(u: Floats) -> Floats:
    """Return 1 for each observation whose margin is below 1 by more than rounding, else 0."""
    return (u < 1.0 - ON_MARGIN).astype(np.float64)


def never() -> bool:
    """Return False: the `stop` of a heuristic without a limit."""
    return False


# Relative amount by which bounds computed in floating point are enlarged.
WIDENING = 1e-9


def big_m_bound(
    geometry: SignedRows,
    norm_left: Callable[[Floats], Floats],
    *,
    lowest: float,
    all_dropped: float,
) -> Floats:
    """Return valid values of M: for each observation the largest 1 − u at an optimum."""
    n = geometry.y.size
    memory.require(
        32.0 * n * n,
        f"a mixed-integer program on {n} observations",
        "use fewer observations; mixed-integer programs of this size are out of reach anyway",
    )
    M, length = np.zeros(geometry.y.size), row_norms_above(geometry.G)
    for label in np.unique(geometry.y) if geometry.free else (0.0,):
        members = np.flatnonzero(geometry.y == label) if geometry.free else np.arange(M.size)
        apart = distances_above(geometry.G[members], geometry.G[members])
        # An observation comes first among observations at distance 0.
        np.fill_diagonal(apart, -1.0)
        order = np.argsort(apart, axis=1, kind="stable")
        for m, near, distance in zip(members, order, apart, strict=True):
            left = norm_left(np.cumsum(geometry.weight[members[near]]))
            radius = np.sqrt(np.maximum(left[:-1], 0.0))
            depth = lowest + radius * distance[near[1:]]
            if not geometry.free:
                depth = np.minimum(depth, 1.0 + radius * length[m])
            depth = np.where(left[:-1] >= 0, depth, 0.0)
            M[m] = max(float(depth.max(initial=0.0)), all_dropped if left[-1] >= 0 else 0.0)
    return np.where(M > 0, M * (1 + WIDENING) + WIDENING, 0.0)


# Machines from which searches start


def hinge_machine(
    G: Floats, y: Floats | None, threshold: Floats, cost: Floats
) -> tuple[Floats, float] | None:
    """Return (w, b), or None without convergence, for example for infeasible hard rows."""
    m, r = G.shape
    if m == 0:
        return np.zeros(r), 0.0
    if y is not None and (y == y[0]).all():
        # The bias alone satisfies the rows of one class.
        return np.zeros(r), float(y[0] * threshold.max())
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G)))) or 1.0
    # In units in which the longest row has length 1: w is multiplied by the scale, costs by its
    # square. The variables are w, b if there is one, and the slacks of the rows that are not hard.
    rows = G / scale if y is None else np.column_stack([G / scale, y])
    columns, soft = rows.shape[1], np.flatnonzero(np.isfinite(cost))
    k = soft.size
    norm, price = np.zeros(columns + k), np.zeros(columns + k)
    norm[:r], price[columns:] = 1.0, cost[soft] * scale * scale
    # Columns of the rows, and those of the slacks, which have an entry in their row and in their
    # bound.
    places = np.stack([soft, m + np.arange(k)], axis=1).ravel()
    places = np.concatenate([np.tile(np.arange(m), columns), places])
    ends = np.concatenate([m * np.arange(columns + 1), m * columns + 2 * np.arange(1, k + 1)])
    entries = np.concatenate([rows.ravel(order="F"), np.ones(2 * k)])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.time_limit = current().remaining
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 100 * EPS
    found = clarabel.DefaultSolver(
        sp.csc_matrix((norm, np.arange(columns + k), np.arange(columns + k + 1))),
        price,
        sp.csc_matrix((-entries, places, ends), shape=(m + k, columns + k)),
        np.concatenate([-threshold, np.zeros(k)]),
        [clarabel.NonnegativeConeT(m + k)],
        settings,
    ).solve()
    point = np.array(found.x)
    if "Solved" not in str(found.status) or not np.isfinite(point).all():
        return None
    return point[:r] / scale, 0.0 if y is None else float(point[r])


def restricted_point(
    geometry: SignedRows, kept: Bools, M: Floats, C: float | None
) -> tuple[Floats, float] | None:
    """Return the best (w, b) that drops a set with u ≥ 1 − M on it, feasible beyond rounding."""
    limited = ~kept & np.isfinite(M)
    allowed = np.where(limited, M, 0.0)
    threshold = 1.0 - allowed + np.sqrt(EPS) * (1.0 + allowed)
    hard = np.full(kept.size, np.inf)
    chosen = np.flatnonzero(kept | limited)
    cost = hard
    if C is not None:
        # A loss of at most 2 is a margin of at least −1: a hard row in addition to the hinge.
        chosen = np.concatenate([chosen, np.flatnonzero(kept)])
        cost = np.where(kept, C * geometry.weight, np.inf)
    twice = np.arange(chosen.size) >= np.count_nonzero(kept | limited)
    return hinge_machine(
        geometry.G[chosen],
        geometry.y[chosen] if geometry.free else None,
        np.where(twice, np.sqrt(EPS) - 1.0, threshold[chosen]),
        np.where(twice, np.inf, cost[chosen]),
    )


def ramp_descent(
    geometry: SignedRows, C: float, dropped: Bools, stop: Callable[[], bool] = never
) -> tuple[Floats, float]:
    """Solve the hinge problem, drop observations with u < −1, and repeat until none changes."""
    point, seen = (np.zeros(geometry.G.shape[1]), 0.0), set()
    while (key := dropped.tobytes()) not in seen and not stop():
        seen.add(key)
        kept = ~dropped
        y = geometry.y[kept] if geometry.free else None
        found = hinge_machine(geometry.G[kept], y, np.ones(kept.sum()), C * geometry.weight[kept])
        if found is None:
            break
        point = found
        dropped = geometry.margins(*point) < -1.0
    return point


def soft_margin_scores(
    geometry: SignedRows, cost: float, stop: Callable[[], bool] = never
) -> Floats:
    r"""Return u of :math:`\min \|w\|^2 + \mathrm{cost} \sum s_i (1-u_i)_+^2` for scaled rows."""
    return squared_hinge(*_scaled(geometry), geometry.weight, cost, None, stop)[0]


# Of an elastic filter: slacks tried in a step, the least of these, and floating-point operations.
TRIED, LEAST_SLACK, FILTER_WORK = 5, 1e-3, 3e9


def elastic_filter(geometry: SignedRows, stop: Callable[[], bool] = never) -> Floats:
    """Return a score that drops few rows, in each step the most helpful of the largest slacks."""
    # A price larger than any slope of the losses of other rows: none of them is given up.
    price = 1e6
    n = geometry.y.size
    score, kept = np.full(n, np.inf), np.ones(n, dtype=bool)
    rows, norm = _scaled(geometry)
    u, _, w = squared_hinge(rows, norm, geometry.weight, price, None, stop)
    most = int(min(n - 1, max(FILTER_WORK / (TRIED * 20.0 * n * rows.shape[1] ** 2), 1)))
    for rank in range(most):
        short = np.where(kept, 1.0 - u, -np.inf)
        candidates = [i for i in np.argsort(short)[::-1][:TRIED] if short[i] > LEAST_SLACK]
        if not candidates or stop():
            break
        trials = []
        for i in candidates:
            weight = np.where(kept, geometry.weight, 0.0)
            weight[i] = 0.0
            trials.append((*squared_hinge(rows, norm, weight, price, w, stop), i))
        u, _, w, chosen = min(trials, key=lambda trial: trial[1])
        score[chosen], kept[chosen] = rank, False
    return score


def _scaled(geometry: SignedRows) -> tuple[Floats, Floats]:
    """Return the scaled rows, with the signed constant of a free bias, and the columns' prices."""
    G = geometry.G
    rows = G / (float(np.abs(G).max(initial=0.0)) or 1.0)
    norm = np.ones(rows.shape[1])
    if not geometry.free:
        return rows, norm
    # A price of the squared bias makes the system definite.
    return np.column_stack([rows, geometry.y]), np.append(norm, np.sqrt(EPS))


def squared_hinge(
    rows: Floats,
    norm: Floats,
    weight: Floats,
    cost: float,
    start: Floats | None,
    stop: Callable[[], bool],
) -> tuple[Floats, float, Floats]:
    r"""Minimise :math:`\sum_j n_j w_j^2 + c\sum_i s_i (1-u_i)_+^2`; return u = Gw, the loss, w."""
    w = np.zeros(norm.size) if start is None else start
    u, price = rows @ w, cost * weight
    for _ in range(100):
        if stop():
            break
        short = u < 1.0
        lost = np.flatnonzero(short & (price > 0.0))
        some, slope = rows[lost], price[lost] * (1.0 - u[lost])
        gradient = norm * w - some.T @ slope
        try:
            step = -run_with_deadline(_newton_step, some, norm, price[lost], gradient)
        except (np.linalg.LinAlgError, OutOfTime):
            break
        promised = -float(gradient @ step)
        if not promised > 50 * EPS * (float(norm @ w**2) + float(slope @ (1.0 - u[lost]))):
            break
        change = rows @ step
        norm_terms = float((norm * w) @ step), float((norm * step) @ step)
        t = line_search(partial(_derivative, *norm_terms, price, 1.0 - u, change), -promised)
        w, u = w + t * step, u + t * change
        if t == 0.0 or (t == 1.0 and np.array_equal(u < 1.0, short)):
            break
    return u, float(weight @ np.maximum(1.0 - u, 0.0) ** 2), w


def _derivative(
    linear: float, square: float, price: Floats, short: Floats, change: Floats, t: float
) -> float:
    return linear + t * square - float((price * np.maximum(short - t * change, 0.0)) @ change)


def _newton_step(some: Floats, norm: Floats, price: Floats, gradient: Floats) -> Floats:
    hessian = np.diag(norm) + (some * price[:, None]).T @ some
    factor = np.linalg.cholesky(hessian), True
    return np.asarray(sl.cho_solve(factor, gradient, check_finite=False))


# Local search over the sets that are kept

# Objective of a point with a squared norm and a weight of dropped observations; infinite where it
# is not feasible.
ObjectiveValue: TypeAlias = Callable[[float, float], float]


def local_search(
    geometry: SignedRows,
    objective_value: ObjectiveValue,
    *,
    scores: Iterable[Floats],
    stop: Callable[[], bool] = never,
    refits: int = 600,
) -> Incumbent | None:
    """Return a point of few violated margins and small norm, by some refits per score, or None."""
    n, r = geometry.G.shape
    refits = int(min(max(4e8 / (n * max(r, 1) ** 2), 20), refits))
    searches = []
    for score in scores:
        searches.append(_Search(geometry, objective_value, stop, refits))
        searches[-1].drop_in_order(np.argsort(score, kind="stable"))
    for search in searches:
        while search.improve():
            pass
    found = [search.best for search in searches if search.best is not None]
    return min(found, key=lambda point: objective_value(point.norm, point.loss), default=None)


@dataclass
class _Search:
    """The best point so far, and the number of refits left."""

    geometry: SignedRows
    objective_value: ObjectiveValue
    stop: Callable[[], bool]
    refits: int
    best: Incumbent | None = None
    value: float = math.inf
    supports: dict[bytes, Bools] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for b in (0.0, 1.0, -1.0) if self.geometry.free else (0.0,):
            self.update_incumbent(np.zeros(self.geometry.G.shape[1]), b)

    @property
    def exhausted(self) -> bool:
        return self.refits <= 0 or self.stop()

    def update_incumbent(self, w: Floats, b: float) -> None:
        point = self.geometry.incumbent(w, b, violated)
        value = self.objective_value(point.norm, point.loss)
        if value < self.value * (1.0 - ON_MARGIN):
            self.best, self.value = point, value

    def refit(self, kept: Bools) -> Bools:
        """Try the point of least norm that keeps a set; return its support, all if inseparable."""
        key = np.packbits(kept).tobytes()
        if key in self.supports or self.exhausted:
            return self.supports.get(key, np.zeros_like(kept))
        self.refits -= 1
        found = self.geometry.refit(kept)
        if found is not None:
            self.update_incumbent(found.w, found.b)
        self.supports[key] = kept if found is None else found.alpha > 0
        return self.supports[key]

    def drop_in_order(self, order: NDArray[np.intp]) -> None:
        """Drop the first observations of an order: 40 numbers, and those around the best."""
        lost = np.concatenate([[0.0], np.cumsum(self.geometry.weight[order])[:-1]]).tolist()
        most = sum(self.objective_value(0.0, loss) < self.value for loss in lost)
        step, best = max(1, -(-most // 40)), most - 1
        for around in (False, True):
            first = range(best - step + 1, best + step) if around else range(best, -1, -step)
            for count in first:
                before = self.value
                if 0 <= count < most and self.objective_value(0.0, lost[count]) < before:
                    kept = np.ones(order.size, dtype=bool)
                    kept[order[:count]] = False
                    self.refit(kept)
                    best = count if self.value < before else best

    def improve(self) -> bool:
        """Try all moves from the best point; return whether one improved it."""
        if self.best is None:
            return False
        before, kept = self.value, ~self.best.dropped
        for tried in self._moves(kept):
            if self.value < before or self.exhausted:
                break
            self._drop_each(tried)
        return self.value < before

    def _moves(self, kept: Bools) -> Iterator[Bools]:
        """Yield sets with one observation less, or one more."""
        yield from self._drop_each(kept)
        for j in np.flatnonzero(~kept):
            yield kept | (np.arange(kept.size) == j)

    def _drop_each(self, kept: Bools) -> list[Bools]:
        """Drop each support vector of a set (each observation if inseparable); return the sets."""
        sets = [kept & (np.arange(kept.size) != i) for i in np.flatnonzero(self.refit(kept))]
        for smaller in sets:
            self.refit(smaller)
        return sets


def round_relaxation(
    space: FeatureSpace,
    w: Floats,
    z: Floats,
    *,
    lam: float | None = None,
    k: float | None = None,
    stop: Callable[[], bool] = never,
) -> tuple[Floats, float]:
    """Round a solution of the relaxation; return the point in factor columns, and its objective."""
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    geometry = SignedRows(space.data.y[:, None] * L, space.data.y, space.data.weight, False)

    def objective(norm: float, missed: float) -> float:
        if lam is not None:
            return norm + lam * missed
        return norm if missed <= (k or 0.0) * (1.0 + estimated_rounding(z.size)) else math.inf

    u = geometry.margins(np.asarray(w, dtype=np.float64), 0.0)
    by_indicators = np.empty(u.size)
    by_indicators[np.lexsort((u, -z))] = np.arange(u.size)
    scores = [by_indicators, u, soft_margin_scores(geometry, 100.0, stop)]
    found = local_search(geometry, objective, scores=scores, stop=stop, refits=180)
    if found is None:
        return np.zeros(L.shape[1]), math.inf
    # Margins of 1 exceed 1 by more than the rounding error of the products.
    longest = float(row_norms(geometry.G).max(initial=0.0))
    size = longest * float(np.linalg.norm(found.w))
    point = found.w * (1.0 + 4.0 * estimated_rounding(found.w.size) * max(1.0, size))
    missed = math.fsum(geometry.weight[geometry.margins(point, 0.0) < 1.0].tolist())
    return point, objective(float(point @ point), missed)
