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

from svmcvx.certificate.exactly import balanced
from svmcvx.fast.search.covering_passes import cheap_sets
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.state import CountingSearch, Support
from svmcvx.fast.search.tree import RoundSearch
from svmcvx.solution import Status
from svmcvx.system.deadline import run_with_deadline

# Entries of the rows.
MOST = 200_000
# Number of searches for sets in a round, most sets of one search, and share of the last z in the
# mean z. A row costs its last or mean z in turn, a constant, which makes sets small, and at most a
# random amount, which makes them different.
SEARCHES, SETS, LAST = 8, 40, 0.2
EVEN, JITTER = (0.03, 0.005), ((1e-3, 0.15), (0.01, 0.03))
# The norm that sets should exclude, as a share of the best value.
SMALL_NORM = 0.05
# The cost below which a set on the way is tried, and the least violation of a new inequality.
GOOD, VIOLATED = 0.9, 1e-3
# The left side of an inequality beyond which it leaves the program.
NEAR = 1.3
# z up to which the local search keeps rows at first, and rounds between two such searches.
STARTS, EVERY = (1e-6, 0.5), 8
# The search ends where this many rounds raise the bound by a smaller share than this.
SLOW, RISE = 25, 2e-4
# Work of the program for each entry and set, in the unit of the tree's: about the same time.
LP_WORK = 1.5


class Covering(RoundSearch):
    """A linear program over sets of rows of which no point keeps all."""

    search: CountingSearch
    way, ends, tasks = "covering", False, SEARCHES

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        search, self.queue = self.search, [(0.0,)]
        self.exchange = self.exchange or Exchange(search, self.settings)
        self.labels = search.statement.geometry.y[search.first] if search.free else None
        self.sets: list[Support] = []
        # The solution: z, the squared norm over λ, and the multipliers over λ; and the mean z.
        self.z, self.norm, self.paid = np.zeros(search.weight.size), 0.0, np.zeros(0)
        self.mean, size = self.z, self.exchange.rows.shape[1] + 1
        self._written = np.empty((SETS, size), dtype=np.int64), np.empty((SETS, size))
        self.bounds = [0.0]
        self._rng = np.random.default_rng(0)

    @staticmethod
    def takes(search: CountingSearch) -> bool:
        """Whether losses have a price, and a set takes a fraction of a second."""
        return math.isinf(search.k) and search.H.size <= MOST

    def _round(self, pool: Executor) -> Status | None:
        """Add sets, solve the program, and search from its solution."""
        found: dict[bytes, Support] = {}
        for number in range(self.tasks):
            if not self.stop[0]:
                found |= self._violated(number)
        new = [*found.values()]
        self.sets += new
        self.nodes += len(new)
        self.bounds.append(self._solve() if new else self.bounds[-1])
        self.queue = [(self.bounds[-1],)]
        recent = self.bounds[-SLOW:]
        slow = len(self.bounds) > SLOW and recent[-1] <= recent[0] * (1.0 + RISE)
        if self.exchange is not None and len(self.bounds) % EVERY == 0:
            for level in STARTS:
                self.exchange.improve(self.z <= level, self.stop)
        status = self._end_round()
        return Status.NUMERICAL if status is None and slow else status

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
        self.mean = self.mean + (LAST if self.mean.any() else 1.0) * (self.z - self.mean)
        paid = np.maximum(-solved.ineqlin.marginals, 0.0)
        # The largest multiple within the limits, rounding included.
        most = max(float((covers.T @ paid / search.weight).max()), float(shares @ paid))
        if not most > 0.0:
            return self.bounds[-1]
        near = covers @ self.z + shares * self.norm < NEAR
        self.sets = [one for one, stays in zip(self.sets, near, strict=True) if stays]
        self.paid = paid[near] * ((1.0 - 2.0**-30) / most)
        return max(lam * math.fsum(self.paid.tolist()) * (1.0 - 2.0**-40), self.bounds[-1])

    def _violated(self, number: int) -> dict[bytes, Support]:
        """Return sets whose inequalities the solution violates, by their rows."""
        search, exchange, found = self.search, self.exchange, {}
        assert exchange is not None  # noqa: S101 - made at the beginning
        cost = EVEN[number // 4 % 2] + (self.mean if number % 2 else self.z)
        cost += self._rng.uniform(0.0, JITTER[number // 4 % 2][number % 2], cost.size)
        share = self.norm * search.lam
        wanted = max(2.0 * share, SMALL_NORM * search.cutoff)
        wanted = search.cutoff if number // 2 % 2 else wanted
        order, sizes = np.argsort(cost, kind="stable"), np.zeros(SETS, dtype=np.int64)
        (all_rows, multipliers), (_, active, space, _) = self._written, exchange.scratch
        sets, marks = (all_rows, multipliers, sizes), np.zeros((3, cost.size), dtype=np.bool_)
        limits, scratch = (wanted, share, GOOD), (active, space, self.stop)
        count, made = cheap_sets(
            exchange.rows, exchange.gram, cost, order, *limits, sets, marks, *scratch
        )
        self.work += 2.0 * exchange.rows.size * (made + 1.0)
        for rows, mu, size in zip(all_rows[:count], multipliers, sizes, strict=False):
            ordered = np.argsort(rows[:size])
            rows, mu = rows[ordered], mu[ordered]
            if self.labels is not None:
                mu = balanced(mu, self.labels[rows], math.inf)
            one = Support.of(search.H, rows, mu)
            violated = one.norm > 0.0 and self.z[one.rows].sum() + share / one.norm < 1.0 - VIOLATED
            if violated:
                found[one.rows.tobytes()] = one
        return found

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
