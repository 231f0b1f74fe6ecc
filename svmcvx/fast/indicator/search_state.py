"""What the exact searches for the 0-1 loss share: the scaled problem, its incumbent, and what is proved so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import SolverBound
from svmcvx.fast.core.monitor import Monitor
from svmcvx.formulations.indicator.pool import RelaxedPoint
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.heuristics.least_norm import LeastNorm
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, violated
from svmcvx.solution import Status

__all__ = ["TIE", "SearchState"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Points that are better than the incumbent by a smaller share of its value are not looked for.
IMPROVEMENT = 1e-9
# Tolerance of margins in a search, and the margins of the sets that are tried where a point is at one of them.
TIE = ON_MARGIN
TRIED_TIES = (10.0 * TIE, 2.0 * TIE, 0.0)
# A value is attained if the point of least norm that keeps the same set costs no more than this share above it.
ATTAINED = 1e-7
# Rounding of sums of weights, and of merging them, that a weight of at most k may have.
WEIGHT_ROUNDING = 1e-12


@dataclass
class SearchState:
    """A 0-1 problem with distinct rows of length at most 1, and the progress of a search.

    The search has units of its own: all objective values, bounds and prices here are ``scale²`` times those of the
    statement. Only points (:attr:`best`, what :meth:`offer` takes) and what goes to the monitor and to :attr:`bound` are in the
    statement's units.

    Parameters
    ----------
    statement : ZeroOne
        With the points to start from in its pool.
    monitor : Monitor
    root_bound : float
        Lower bound that is known at the start, in the statement's units.
    relaxation : RelaxedPoint or None
        In the statement's units.

    Attributes
    ----------
    scale : float
        Length of the longest signed row.
    H : ndarray of shape (m, r)
        Distinct signed rows, divided by it.
    weight : ndarray of shape (m,)
        Sums of the weights of their duplicates.
    lam, k : float
        λ and the weight that may be dropped; 0 or infinite in the form that does not have it.
    best : Incumbent or None
        The best point, in the statement's units.
    best_value : float
        Its objective; inf without one.
    gamma : ndarray of shape (m,) or None
        Multipliers of the conic relaxation, if it was solved.
    loss_price : float
        λ, or the multiplier of k in the conic relaxation.
    proved : float
        Lower bound so far; at first the one that was passed.
    unattained : float
        Smallest value of a point that counts ties as satisfied and turned out not to be attained; inf if there is none.
    """

    statement: ZeroOne
    monitor: Monitor
    root_bound: float
    relaxation: RelaxedPoint | None

    def __post_init__(self) -> None:
        G, weight = self.statement.geometry.G, self.statement.weight
        self.scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G)))) or 1.0
        self._unit = self.scale**2
        self.H, copies = np.unique(G / self.scale, axis=0, return_inverse=True)
        self._copies = copies.ravel()
        self.weight = np.bincount(self._copies, weights=weight)
        lam, k = self.statement.lam, self.statement.k
        self.lam = 0.0 if lam is None else lam * self._unit
        self.k = math.inf if k is None else k * (1.0 + WEIGHT_ROUNDING) + WEIGHT_ROUNDING
        self.gamma: Floats | None = None
        self.loss_price = self.lam
        if self.relaxation is not None:
            self.gamma = np.bincount(self._copies, weights=self.relaxation.gamma) * np.float64(self._unit)
            self.loss_price = max(self.relaxation.lam, 0.0) * self._unit
        self.best: Incumbent | None = None
        self.best_value = math.inf
        self.proved = self.root_bound * self._unit
        self.unattained = math.inf
        self._rounds = 0
        self._refitted: set[bytes] = set()
        for point in self.statement.pool:
            self.offer(point)

    def offer(self, point: Incumbent) -> float:
        """Take a feasible point if it is the best so far; return its value."""
        value = self.statement.objective_value(point.norm, point.loss) * self._unit
        if value < self.best_value:
            self.best, self.best_value = point, value
        return value

    @property
    def cutoff(self) -> float:
        """Only points below this value are looked for."""
        return self.best_value * (1.0 - IMPROVEMENT)

    def attain(self, w: Floats, value: float) -> None:
        """Find out whether the point `w` of the scaled rows, which counts as `value` if ties are satisfied, is attained."""
        geometry = self.statement.geometry
        w = w / self.scale
        u = geometry.G @ w
        # The point itself, where the point of least norm that keeps its set is hard to compute.
        lowest = float(u[u >= 1.0 - TRIED_TIES[0]].min(initial=1.0))
        reached = self.offer(geometry.incumbent(w / lowest, 0.0, violated))
        for tie in TRIED_TIES:
            found = geometry.refit(u >= 1.0 - tie)
            if found is not None:
                reached = min(reached, self.offer(geometry.incumbent(found.w, 0.0, violated)))
        if not reached <= value * (1.0 + ATTAINED):
            self.unattained = min(self.unattained, value)

    def try_set(self, kept: Bools) -> None:
        """Offer the point of least norm that keeps a set of the distinct rows, once."""
        key = np.packbits(kept).tobytes()
        if key not in self._refitted:
            self._refitted.add(key)
            self._refit(kept)

    def close_leaf(self, kept: Bools, bound: float) -> None:
        r"""Offer the best point that keeps this set and no more, whose value is at least `bound`.

        Multipliers prove :math:`\|w\|^2 \ge (\sum\alpha)^2/\|G'\alpha\|^2`: if the point found is not as good as
        that, it is not known to be the best.
        """
        found = self._refit(kept)
        if found is not None and found.alpha.any():
            alpha = found.alpha
            norm = float(alpha.sum()) ** 2 / float(np.sum((self.statement.geometry.G.T @ alpha) ** 2))
            bound = max(bound, norm * self._unit + self.lam * float(self.weight[~kept].sum()))
        if bound < self.cutoff:
            self.unattained = min(self.unattained, bound)

    def _refit(self, kept: Bools) -> LeastNorm | None:
        geometry = self.statement.geometry
        found = geometry.refit(kept[self._copies])
        if found is not None:
            self.offer(geometry.incumbent(found.w, 0.0, violated))
        return found

    def report(self, left: float) -> Status | None:
        """Tell the monitor what is proved after a round if nothing left is below `left`; return why to stop, or None."""
        # Only points better than the incumbent by a little were looked for.
        self.proved = max(self.proved, min(left, self.cutoff, self.unattained))
        status = self.monitor.report(self._rounds, self.proved / self._unit, self.best_value / self._unit)
        self._rounds += 1
        if math.isinf(left) and status is not Status.OPTIMAL:
            # Everything has been searched: what gap there is remains.
            if self.best is None:
                return Status.INFEASIBLE
            return Status.NUMERICAL if self.unattained < self.best_value else Status.OPTIMAL
        return status

    @property
    def bound(self) -> SolverBound:
        """The lower bound that the search has proved, and an allowance for rounding, in the statement's units."""
        proved = self.proved / self._unit
        return SolverBound(proved, IMPROVEMENT * abs(proved))
