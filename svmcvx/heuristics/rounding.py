r"""Rounding of the conic relaxation: a good solution of the 0-1 problem from a solution of the semidefinite program.

.. math:: \min_w\; \|w\|^2 + \lambda \sum_i s_i\, 1[u_i < 1], \qquad\text{or}\qquad
    \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\, 1[u_i < 1] \le k.

A point is told by the observations that it keeps: the best one is the point of least norm with their margins at least 1,
found by least-distance programming.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls

from svmcvx.certificate import EPS, accumulated_rounding
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.kernels import row_norms

__all__ = ["ON_MARGIN", "least_norm", "round_relaxation"]

Floats: TypeAlias = NDArray[np.float64]

# Of a rounding: keep-sets that are refitted along one ordering of the observations, sweeps until nothing improves, and
# exchanges that are tried in one sweep.
KEPT_SIZES = 40
ROUNDING_SWEEPS = 10
EXCHANGES = 100
# Parts in which the worst violators are peeled off, and the weight of the squared hinge that finds them.
PEELINGS = 100
PEELING_WEIGHT = 100.0
# Newton's steps of the squared hinge; it is piecewise quadratic, so that they end by themselves.
NEWTON_STEPS = 30
# A margin up to this far above 1 counts as on it.
ON_MARGIN = 1e-7


@dataclass
class _Rounding:
    """Search for a good solution of the 0-1 problem with rows ``A = y L`` (scaled) and weights `s`."""

    A: Floats
    s: Floats
    lam: float | None
    k: float
    scale: float
    w: Floats
    value: float

    def dropped(self, u: Floats) -> float:
        """Weight of the observations with a margin below 1."""
        return float(self.s[u < 1.0].sum())

    def worth(self, norm: Any, missed: Any) -> Any:
        """Objective of points of squared norm `norm` with observations of weight `missed` below the margin."""
        if self.lam is not None:
            return norm + self.lam * missed
        return np.where(missed <= self.k * (1.0 + accumulated_rounding(self.s.size)), norm, np.inf)

    def offer(self, w: Floats) -> None:
        """Keep `w` if it is the best point so far."""
        missed = self.dropped(self.A @ w)
        norm = float(w @ w) / self.scale**2
        value = float(self.worth(norm, missed))
        if value < self.value:
            self.w, self.value = w, value

    def stretch(self, w: Floats) -> None:
        """Offer the best multiple of a direction: one of those that put a margin on 1."""
        u = self.A @ w
        positive = u[u > 0]
        if positive.size == 0:
            return
        order = np.sort(positive)[::-1]
        weight = self.s[u > 0][np.argsort(-positive, kind="stable")]
        missed = float(self.s.sum()) - np.cumsum(weight)
        with np.errstate(divide="ignore", over="ignore"):
            norm = (float(np.linalg.norm(w)) / self.scale / order) ** 2
        values = self.worth(norm, missed)
        best = int(np.argmin(values))
        if math.isfinite(values[best]):
            self.offer(_lift(self.A, w / order[best]))

    def refit(self, kept: NDArray[np.intp]) -> bool:
        """Offer the least-norm point with margins of at least 1 on the observations kept; False if there is none."""
        w = least_norm(self.A[kept])
        if w is None:
            return False
        self.offer(_lift(self.A, w / min(1.0, float((self.A[kept] @ w).min(initial=1.0)))))
        return True

    def peel(self) -> None:
        """Drop the worst violators of an SVM with squared hinge in turn, and offer what is on the way."""
        kept = np.arange(self.A.shape[0])
        chunk = max(1, kept.size // PEELINGS)
        w = np.zeros(self.A.shape[1])
        while kept.size > chunk:
            w = _squared_hinge(self.A[kept], self.s[kept], w)
            self.stretch(w)
            u = self.A[kept] @ w
            order = np.argsort(u, kind="stable")
            left = np.sort(kept[order[chunk:]])
            over = self.lam is None and float(self.s.sum() - self.s[left].sum()) > self.k
            if (over or u[order[0]] > 0) and (self.refit(kept) or over):
                break
            kept = left

    def exchange(self) -> None:
        """Drop an observation on the margin, take in one below it, or both, for as long as that improves the best point."""
        for _ in range(ROUNDING_SWEEPS):
            before = self.value
            u = self.A @ self.w
            kept, missed = np.flatnonzero(u >= 1.0), np.flatnonzero(u < 1.0)
            tight = kept[u[kept] <= 1.0 + ON_MARGIN]
            near = missed[np.argsort(-u[missed], kind="stable")]
            neighbours = itertools.chain(
                (kept[kept != row] for row in tight),
                (np.append(kept, row) for row in near),
                (np.append(kept[kept != out], row) for row, out in itertools.product(near, tight)),
            )
            for neighbour in itertools.islice(neighbours, EXCHANGES):
                self.refit(neighbour)
            if not self.value < before:
                break


def _squared_hinge(A: Floats, s: Floats, w: Floats) -> Floats:
    """Minimise ‖w‖² + C Σ s (1 − Aw)₊² for a large C, by Newton's method from `w`; s counts up to its scale."""
    identity, s = np.eye(A.shape[1]), s / s.max()
    for _ in range(NEWTON_STEPS):
        inside = A @ w < 1.0
        weighted = PEELING_WEIGHT * s[inside, None] * A[inside]
        try:
            new = sl.solve(identity + A[inside].T @ weighted, weighted.sum(axis=0), assume_a="pos")
        except sl.LinAlgError:
            break
        if np.array_equal(A @ new < 1.0, inside):
            return np.asarray(new)
        w = new
    return w


def _lift(A: Floats, w: Floats) -> Floats:
    """Lift margins of 1 beyond the rounding of their products."""
    size = max(1.0, float(np.linalg.norm(w)))
    return w * (1.0 + 4.0 * accumulated_rounding(w.size) * float(row_norms(A).max()) * size)


def least_norm(A: Floats) -> Floats | None:
    """Return the point of least norm with ``A w >= 1``, by least-distance programming; None if there is none.

    With the residual ρ of the non-negative least squares problem ``min |[A'; 1'] v - e|``, e the last unit vector, it is
    ``-ρ[:-1] / ρ[-1]`` (Lawson and Hanson, Solving Least Squares Problems, chapter 23).
    """
    if A.shape[0] == 0:
        return np.zeros(A.shape[1])
    stacked = np.vstack([A.T, np.ones(A.shape[0])])
    target = np.zeros(stacked.shape[0])
    target[-1] = 1.0
    try:
        v, _ = nnls(stacked, target)
    except RuntimeError:  # too many iterations
        return None
    residual = stacked @ v - target
    if not residual[-1] < -(EPS**0.75):
        return None
    w = -residual[:-1] / residual[-1]
    return w if float((A @ w).min()) > 0.5 else None


def round_relaxation(
    space: FeatureSpace, w: Floats, z: Floats, *, lam: float | None = None, k: float | None = None
) -> tuple[Floats, float]:
    r"""Round a solution of the relaxation to one of the 0-1 problem.

    Observations are kept in the order of their relaxed indicators, and in that of their margins; each prefix of an
    ordering is refitted by the least-norm program :math:`\min \|w\|^2` s.t. :math:`u_i \ge 1` on the observations kept.
    The direction of w itself is scaled best, and so are those of a squared-hinge SVM whose worst violators are dropped in
    turn. The winner's own margins then give a new ordering, and single observations on its margin are dropped, until
    nothing improves.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    w : ndarray of shape (r,)
        In the columns of ``space.factor``.
    z : ndarray of shape (n,)
        Relaxed indicators of a margin below 1.
    lam : float, optional
        Minimise :math:`\|w\|^2 + \lambda\sum_i s_i 1[u_i<1]`.
    k : float, optional
        Minimise :math:`\|w\|^2` with :math:`\sum_i s_i 1[u_i<1] \le k`. Exactly one of the two.

    Returns
    -------
    w_best : ndarray of shape (r,)
        In the columns of ``space.factor``; margins that are meant to be 1 exceed it by more than rounding.
    value : float
        The objective at it, by the numbers ``y * (space.factor @ w_best)``; ``inf`` if no point with at most `k` was found.

    Raises
    ------
    DataError
        If not exactly one of `lam` and `k` is given.
    """
    if (lam is None) == (k is None):
        raise DataError("round_relaxation takes exactly one of lam and k; pass lam for the penalised form, else k")
    data = space.data
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    norms = row_norms(L)
    scale = float(np.sqrt(np.mean(norms**2))) or 1.0
    A = L * (data.y / scale)[:, None]
    start = np.zeros(L.shape[1])
    search = _Rounding(A, data.weight, lam, math.inf if k is None else k, scale, start, math.inf)
    search.offer(start)
    direction = np.asarray(w, dtype=np.float64) * scale
    search.stretch(direction)
    u = A @ direction
    for order in (np.lexsort((-u, z)), np.argsort(-u, kind="stable")):
        _refit_prefixes(search, order)
    search.peel()
    for _ in range(ROUNDING_SWEEPS):
        before = search.value
        search.stretch(search.w)
        _refit_prefixes(search, np.argsort(-(A @ search.w), kind="stable"))
        if not search.value < before:
            break
    search.exchange()
    return search.w / scale, search.value


def _refit_prefixes(search: _Rounding, order: NDArray[np.intp]) -> None:
    """Refit prefixes of an ordering: those that drop no more than k, or a grid of sizes around the best one."""
    n = order.size
    total = np.cumsum(search.s[order])
    if search.lam is None:
        smallest = int(np.searchsorted(total, (total[-1] - search.k) * (1.0 - EPS * n))) + 1
        search.refit(order[: min(max(smallest, 1), n)])
        return
    sizes = np.unique(np.linspace(1, n, min(n, KEPT_SIZES)).round().astype(int))
    best_size, best_value = 0, search.value
    for size in sizes:
        if not search.refit(order[:size]):
            break
        if search.value < best_value:
            best_size, best_value = int(size), search.value
    if best_size:
        # Between the neighbours of the best size on the grid.
        step = max(1, n // KEPT_SIZES)
        for size in range(max(1, best_size - step + 1), min(n, best_size + step)):
            if size not in sizes and not search.refit(order[:size]):
                break
