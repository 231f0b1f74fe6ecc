r"""Set-covering bound for losses that count, by cutting planes, and starting points from it.

A point that keeps a set S of rows has :math:`\|w\|^2 \ge \nu_S = (\sum\alpha)^2/\|\sum\alpha
g\|^2` for any multipliers α ≥ 0 of these rows, of :math:`\sum y\alpha = 0` if the intercept is
free; any other drops one of them. So with z = 1 for dropped rows each point has

.. math:: \sum_{i\in S} z_i + \|w\|^2/\nu_S \ge 1,

a combinatorial Benders cut if S is not separable [SantanaSerranoSchifferVidal]. The linear program
of the least :math:`\|w\|^2 + \lambda\sum s_iz_i` under such inequalities bounds all points from
below, and the rows with small z at its solution contain the next sets. Its multipliers π prove the
bound: :math:`\sum_{S\ni i}\pi_S \le \lambda s_i` and :math:`\sum\pi_S/\nu_S \le 1` make it
:math:`\sum\pi_S`.

It serves where branch and bound does not end, above all for many columns. The rows that the
solution does not drop are good starts of the local search.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from svmcvx.arrays import Floats
from svmcvx.certificate.exactly import balanced
from svmcvx.fast.search.state import CountingSearch, Support
from svmcvx.fast.search.tree import RoundSearch
from svmcvx.formulations.signed_rows import nearest_combination
from svmcvx.solution import Status
from svmcvx.system.deadline import run_with_deadline

Rows = NDArray[np.intp]

# Entries of the rows.
MOST = 200_000
# Sets that a round looks for, and the changes of z that make them different, in turn.
SETS, JITTER = 20, (1e-3, 0.15)
# The norm that sets should exclude, as a share of the best value.
SMALL_NORM = 0.05
# A removed row is worth this violation of the inequality; the least one of a new inequality.
SHORTER, VIOLATED = 1e-3, 1e-3
# The left side of an inequality beyond which it leaves the program.
NEAR = 1.3
# z up to which the local search keeps rows at first.
STARTS = 1e-6, 0.5
# The search ends where this many rounds raise the bound by a smaller share than this.
SLOW, RISE = 10, 2e-4
# Work of a call of least squares, and that of the program for each entry and set, in the unit of
# the tree's: about the same time.
CALL, LP_WORK = 3e4, 7.0
# 1 − Σμ below which a set counts as inseparable.
SEPARABLE = 1e-10


class Covering(RoundSearch):
    """A linear program over sets of rows of which no point keeps all."""

    search: CountingSearch
    way, ends, tasks = "covering", False, SETS

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        search, self.queue = self.search, [(0.0,)]
        self.labels = search.statement.geometry.y[search.first] if search.free else None
        self.sets: list[Support] = []
        # The solution: z, the squared norm over λ, and the multipliers over λ.
        self.z, self.norm, self.paid = np.zeros(search.weight.size), 0.0, np.zeros(0)
        self.bounds = [0.0]
        self._rng = np.random.default_rng(0)

    @staticmethod
    def takes(search: CountingSearch) -> bool:
        """Whether losses have a price, and a set takes a fraction of a second."""
        return math.isinf(search.k) and search.H.size <= MOST

    def _round(self, pool: Executor) -> Status | None:
        """Add sets, solve the program, and search from its solution."""
        found = [self._violated(number) for number in range(self.tasks) if not self.stop[0]]
        new = [one for one in found if one is not None]
        self.sets += new
        self.nodes += len(new)
        self.bounds.append(self._solve() if new else self.bounds[-1])
        self.queue = [(self.bounds[-1],)]
        recent = self.bounds[-SLOW:]
        slow = len(self.bounds) > SLOW and recent[-1] <= recent[0] * (1.0 + RISE)
        if self.exchange is not None:
            for level in STARTS:
                self.exchange.improve(self.z <= level, self.stop)
        status = self._end_round()
        return Status.NUMERICAL if status is None and (slow or not new) else status

    def _solve(self) -> float:
        """Solve the program; return the bound that its multipliers prove."""
        search, lam = self.search, self.search.lam
        members = np.concatenate([one.rows for one in self.sets])
        sizes = [one.rows.size for one in self.sets]
        of = np.repeat(np.arange(len(sizes)), sizes)
        shares = np.array([lam / one.norm for one in self.sets])
        covers = sp.csr_array(
            (np.ones(of.size), (of, members)), shape=(len(sizes), search.weight.size)
        )
        self.work += LP_WORK * of.size * len(sizes)
        program = partial(linprog, b_ub=-np.ones(len(sizes)), method="highs-ds")
        solved = run_with_deadline(
            program, np.append(search.weight, 1.0), -sp.hstack([covers, shares[:, None]])
        )
        if solved.status != 0:
            return self.bounds[-1]
        self.z, self.norm = solved.x[:-1], float(solved.x[-1])
        paid = np.maximum(-solved.ineqlin.marginals, 0.0)
        # The largest multiple within the limits, rounding included.
        most = max(float((covers.T @ paid / search.weight).max()), float(shares @ paid))
        if not most > 0.0:
            return self.bounds[-1]
        near = covers @ self.z + shares * self.norm < NEAR
        self.sets = [one for one, stays in zip(self.sets, near, strict=True) if stays]
        self.paid = paid[near] * ((1.0 - 2.0**-30) / most)
        return max(lam * math.fsum(self.paid.tolist()) * (1.0 - 2.0**-40), self.bounds[-1])

    def _violated(self, number: int) -> Support | None:
        """Return a set whose inequality the solution violates, if one is found."""
        z, search = self.z, self.search
        order = np.argsort(z + self._rng.uniform(0.0, JITTER[number % 2], z.size), kind="stable")
        wanted = max(2.0 * self.norm * search.lam, SMALL_NORM * search.cutoff)
        wanted = search.cutoff if number // 2 % 2 else wanted
        # The shortest part of the order that no point of this norm keeps.
        low, high = 1, z.size
        while high - low > 1:
            middle = (low + high) // 2
            if self._norm(order[:middle])[0] >= wanted:
                high = middle
            else:
                low = middle
        norm, rows = self._norm(order[:high])
        value = self._value(norm, rows)
        # Rows with large z leave as long as the inequality remains violated about as much.
        for row in rows[np.argsort(-z[rows], kind="stable")]:
            if row in rows:
                norm, fewer = self._norm(rows[rows != row])
                after = self._value(norm, fewer)
                if after <= value + SHORTER * (rows.size - fewer.size):
                    rows, value = fewer, after
        if not value < 1.0 - VIOLATED:
            return None
        mu = self._combination(rows)
        if self.labels is not None:
            mu = balanced(mu, self.labels[rows], math.inf)
        found = Support.of(search.H, rows, mu)
        return found if self._value(found.norm, found.rows) < 1.0 else None

    def _value(self, norm: float, rows: Rows) -> float:
        """The left side of an inequality at the solution."""
        if norm <= 0.0:
            return math.inf
        return float(self.z[rows].sum()) + self.norm * self.search.lam / norm

    def _combination(self, rows: Rows) -> Floats:
        labels, mu = None if self.labels is None else self.labels[rows], None
        if not self.stop[0]:
            mu = nearest_combination(self.search.H[rows], labels)
        mu = np.zeros(rows.size) if mu is None else mu
        size = rows.size * (self.search.H.shape[1] + 2)
        self.work += CALL + 0.6 * size * (np.count_nonzero(mu) + 1)
        return mu

    def _norm(self, rows: Rows) -> tuple[float, Rows]:
        """Return the least squared norm of points that keep rows, and its support, to rounding."""
        mu = self._combination(rows)
        used, whole = rows[mu > 0], float(mu.sum())
        both = self.labels is None or np.ptp(self.labels[used]) > 0 if used.size else False
        rest = max(1.0 - whole, 0.0)
        return (whole / rest if rest > SEPARABLE else math.inf) if both else 0.0, used

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """Arrays that prove the bound."""
        search = self.search
        sets = [(one, paid) for one, paid in zip(self.sets, self.paid, strict=False) if paid > 0]
        space = search.statement.space
        if not (sets and space.factor_is_data):
            return {}
        prices = np.array([paid for _, paid in sets]) * (search.lam / search.scale**2)
        return {"paid": prices} | search.proof_of([one for one, _ in sets])
