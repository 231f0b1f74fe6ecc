r"""The intercepts that are optimal for given scores, where the losses are piecewise linear in them.

**Two classes.** The loss :math:`\varphi(b) = \sum_i s_i(1 - y_i(f_i + b))_+` has its breaks at
:math:`y_i - f_i` and the slope

.. math::
    \varphi'(b) = \sum_{y_i = -1,\; y_i - f_i < b} s_i \;-\; \sum_{y_i = 1,\; y_i - f_i > b} s_i.

Where both sums are equal all intercepts between two neighbouring breaks are optimal. Weights are
rounded, those of ``class_weight="balanced"`` and 1/n among them, and so are their sums: both count
as equal if they differ by at most the share τ of :func:`equal_share`. They are compared with each
other, not their difference with zero, so that neither the unit of the weights nor the order of the
observations decides. The loss at the middle of such an interval is at most 1 + 2τ times the least
one, since both sums have half of the interval as their slack there.

**Several classes.** The losses are :math:`\sum_i s_i \max_{a \in A} \sum_k a_k\gamma_{ik}`, with
:math:`\gamma_{ik} = 1 - f_{ik}` the slack towards the class k and :math:`A = \{0 \le a_k \le t,
\sum_k a_k \le T\}`: t = 1 without a bound on the sum for the sum of hinges, t = T = 1 for the
largest hinge, t = 1/2 and T = 1 for the mean of the two largest. The minimisation over b alone is a
linear program. With any of its optimal multipliers :math:`s_ia_i` the set of all optimal b is that
of the b at which all these are optimal: γ is not below 0 where :math:`a_{ik} > 0`, not above 0
where :math:`a_{ik}` has room to grow, and where a share of :math:`a_{ij}` could go to
:math:`a_{il}`, :math:`\gamma_{ij} \ge \gamma_{il}`. All of these are bounds on differences of two
intercepts,

.. math:: \{b : b_k - b_l \le d_{kl} \text{ for all } k, l\},

made tight by shortest paths. Among the b of sum 0 the k-th intercept ranges from
:math:`-\tfrac1c\sum_ld_{lk}` to :math:`\tfrac1c\sum_ld_{kl}`; both ends are attained. The middles
of these intervals are optimal together: :math:`2c(b_k - b_m)` is the sum over l of :math:`(d_{kl} -
d_{ml}) + (d_{lm} - d_{lk})`, where neither bracket is above :math:`d_{km}`. For two classes it is
the middle above. It changes with the order of the classes as the classes do, and neither with the
unit of the weights nor with the order of the observations.

With multipliers :math:`\alpha_i \in s_iA` that are balanced and nearly optimal the linear program
often is not needed. At an optimal b the losses are at most g above :math:`\sum\alpha\gamma`, where
g is what they are above it at the given b. Where :math:`\alpha_{ij}` and :math:`\alpha_{il}` can
exchange δ both ways, observation i alone is :math:`\delta|\gamma_{ij} - \gamma_{il}|` above it, the
own class with slack 0 among them. So all optimal b have :math:`b_j - b_l` in an interval of length
2g/δ; where these are short and join all classes, b is as good as unique.

Where the best multipliers at a given b are balanced, with sums compared as above, they are optimal.
Otherwise the linear program has the observations alone that are near a change of their multipliers,
with a bound on the step of b; where the bound is met, it is stated again around the new b.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import roundings
from svmcvx.system.deadline import current

# Observations of the first linear program for each class; each further one has twice as many. With
# ten classes fewer take a second program.
WINDOW = 20
# Multipliers of a linear program above which it takes longer than the machine itself.
MOST_MULTIPLIERS = 20_000
# Multipliers this near to a bound, relative to t, are at it; the accuracy asked of the linear
# program.
AT_BOUND, LP_ACCURACY = 1e-9, 1e-10
# Intervals of intercepts up to this length, in units of the margin, count as one intercept where no
# linear program is solved.
SHORT = 1e-5


def equal_share(n: int) -> float:
    """Return the relative difference of equal sums of at most `n` weights."""
    # More than a few roundings, and far less than a tolerance.
    return 2.0**-40 + roundings(2 * n)


def hinge_intercepts(f: Floats, y: Floats, weight: Floats) -> tuple[float, float]:
    r"""Return the ends of all b that minimise :math:`\sum_i s_i(1 - y_i(f_i + b))_+`."""
    breaks = y - f
    if (weight == weight[0]).all():
        # As many weights rise below a break as fall above it where it has as many breaks below it
        # as there are positive observations.
        behind = np.count_nonzero(y > 0)
        found = np.partition(breaks, (behind - 1, behind))
        return float(found[behind - 1]), float(found[behind])
    order = np.argsort(breaks)
    s, negative = weight[order], y[order] < 0
    # Just above each break: the weights of the negative observations with a loss, and of the
    # positive ones.
    rising = np.cumsum(np.where(negative, s, 0.0))
    falling = np.append(np.cumsum(np.where(negative, 0.0, s)[:0:-1])[::-1], 0.0)
    share = equal_share(f.size)
    lower = order[np.argmax(rising >= falling * (1.0 - share))]
    upper = order[np.argmax(rising > falling * (1.0 + share))]
    return float(breaks[lower]), float(breaks[upper])


class SumOfBounded(NamedTuple):
    """The multipliers of an observation: each at most `largest`, their sum at most `total`."""

    largest: float
    total: float = math.inf

    @property
    def coupled(self) -> bool:
        return math.isfinite(self.total)

    def best(self, gamma: Floats) -> Floats:
        """Return the multipliers of the largest positive slacks."""
        chosen = gamma > 0
        if self.coupled:
            top = np.argsort(-gamma, axis=1, kind="stable")[:, : round(self.total / self.largest)]
            among = np.zeros(gamma.shape, dtype=bool)
            np.put_along_axis(among, top, True, axis=1)
            chosen &= among
        return np.where(chosen, self.largest, 0.0)

    def distance(self, gamma: Floats) -> Floats:
        """Return the distance of each row's slacks from a change of the best multipliers."""
        if not self.coupled:
            return np.asarray(np.abs(gamma).min(axis=1))
        count = round(self.total / self.largest)
        ordered = -np.sort(-gamma, axis=1)
        found = np.abs(ordered[:, :count]).min(axis=1)
        if gamma.shape[1] > count:
            last, following = ordered[:, count - 1], ordered[:, count]
            found = np.where(last > 0, np.minimum(found, last - following), found)
        return np.asarray(found)


def _along_paths(d: Floats) -> Floats:
    for k in range(d.shape[0]):
        d = np.minimum(d, d[:, k, None] + d[k])
    return d


class ClassSlacks(NamedTuple):
    """The slacks γ of observations towards the other classes, without intercepts."""

    gamma: Floats
    codes: NDArray[np.intp]
    others: NDArray[np.intp]
    weight: Floats
    domain: SumOfBounded

    def at(self, b: Floats) -> Floats:
        """Return the slacks with intercepts."""
        return np.asarray(self.gamma - (b[self.codes][:, None] - b[self.others]))

    def loss(self, b: Floats) -> float:
        here = self.at(b)
        losses = (self.domain.best(here) * np.where(here > 0, here, 0.0)).sum(axis=1)
        return float(self.weight @ losses)

    def are_unique(self, alpha: Floats, b: Floats) -> bool:
        """Return whether multipliers prove optimal b of sum 0 at most :data:`SHORT` apart."""
        domain, codes, weight = self.domain, self.codes, self.weight
        c, s, here = self.gamma.shape[1] + 1, self.weight[:, None], self.at(b)
        above = self.loss(b) - float((alpha * here).sum())
        room = np.zeros((codes.size, c))
        np.put_along_axis(room, self.others, np.minimum(alpha, domain.largest * s - alpha), axis=1)
        room[np.arange(codes.size), codes] = (
            domain.total * weight - alpha.sum(axis=1) if domain.coupled else math.inf
        )
        apart = np.full((c, c), math.inf)
        for k in range(c):
            for j in range(k):
                rows = slice(None) if domain.coupled else (codes == k) | (codes == j)
                exchanged = float(np.minimum(room[rows, k], room[rows, j]).max())
                if exchanged > 0.0:
                    apart[k, j] = apart[j, k] = 2.0 * max(above, 0.0) / exchanged
            apart[k, k] = 0.0
        return bool(_along_paths(apart).max() <= SHORT)

    def ranges(self, b: Floats) -> tuple[Floats, Floats] | None:
        """Return the range of each intercept of sum 0; None if the linear program has no answer, or
        is too large.
        """
        if not np.isfinite(self.gamma).all():
            return None
        scaled, start = self._replace(weight=self.weight / self.weight.max()), b
        size = WINDOW * b.size
        step: Floats | None = np.zeros(b.size)
        while step is not None:
            b = b + step
            moved = scaled._replace(gamma=self.at(b))
            a = self.domain.best(moved.gamma)
            received, taken = moved.flows(a)
            if (np.abs(received - taken) <= equal_share(self.codes.size) * received).all():
                break
            distance = self.domain.distance(moved.gamma)
            reach = _reach(distance, size)
            window = np.flatnonzero(distance <= 2.0 * reach)
            late = current().passed() or window.size * b.size > MOST_MULTIPLIERS
            found = None if late else moved.solve_window(a, window, reach)
            if found is None:
                return None
            a[window], step = found
            size *= 2
        lower, upper = self.tight_ranges(a)
        # Among weights of more decades than the program's accuracy it overlooks the small ones.
        most = scaled.loss(start) * (1.0 + LP_ACCURACY)
        better = np.isfinite([lower, upper]).all() and scaled.loss((lower + upper) / 2) <= most
        return (lower, upper) if better else None

    def flows(self, a: Floats) -> tuple[Floats, Floats]:
        """Return the sums of multipliers by own class and by other class, equal at an optimum."""
        alpha, c = self.weight[:, None] * a, a.shape[1] + 1
        received = np.bincount(self.codes, weights=alpha.sum(axis=1), minlength=c)
        taken = np.bincount(self.others.ravel(), weights=alpha.ravel(), minlength=c)
        return np.asarray(received, dtype=np.float64), np.asarray(taken, dtype=np.float64)

    def solve_window(
        self, a: Floats, window: NDArray[np.intp], reach: float
    ) -> tuple[Floats, Floats | None] | None:
        """Return the multipliers of a window, others held, and the step of b at its bound."""
        m, width = window.size, self.gamma.shape[1]
        c, s, domain = width + 1, self.weight[window], self.domain
        columns = np.arange(m * width)
        # Rows of the balance: inflow minus outflow of each class.
        own, other = np.repeat(self.codes[window], width), self.others[window].ravel()
        entries = np.r_[np.repeat(s, width), -np.repeat(s, width)]
        places = np.r_[own, other], np.r_[columns, columns]
        balance = sp.csr_array((entries, places), shape=(c, m * width))
        held = a.copy()
        held[window] = 0.0
        received, taken = self.flows(held)
        costs = -(s[:, None] * self.gamma[window]).ravel()
        bounds = np.array([[0.0, domain.largest]] * (m * width))
        bounded = math.isfinite(reach)
        if bounded:
            balance = sp.csr_array(sp.hstack([balance, sp.eye_array(c), -sp.eye_array(c)]))
            costs = np.r_[costs, np.full(2 * c, reach)]
            bounds = np.vstack([bounds, np.array([[0.0, math.inf]] * (2 * c))])
        sums = None
        if domain.coupled:
            places = np.repeat(np.arange(m), width), columns
            sums = sp.csr_array((np.ones(m * width), places), shape=(m, costs.size))
        accuracy = dict.fromkeys(
            ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), LP_ACCURACY
        )
        solved = linprog(
            costs,
            A_ub=sums,
            b_ub=None if sums is None else np.full(m, domain.total),
            A_eq=balance,
            b_eq=taken - received,
            bounds=bounds,
            method="highs-ds",
            options=accuracy,
        )
        if solved.status != 0:
            return None
        found = solved.x[: m * width].reshape(m, width)
        at_bound = bounded and float(solved.x[m * width :].max()) > AT_BOUND
        return found, -np.asarray(solved.eqlin.marginals) if at_bound else None

    def tight_ranges(self, a: Floats) -> tuple[Floats, Floats]:
        """Return the range of each intercept of sum 0 at which the multipliers `a` are optimal."""
        domain, codes = self.domain, self.codes
        n, c = codes.size, self.gamma.shape[1] + 1
        near = AT_BOUND * domain.largest if math.isfinite(domain.largest) else 0.0
        # For all classes; the own class has slack 0 and the rest of the sum.
        slack = np.zeros((n, c))
        gives, takes = np.ones((n, c), dtype=bool), np.ones((n, c), dtype=bool)
        np.put_along_axis(slack, self.others, self.gamma, axis=1)
        np.put_along_axis(gives, self.others, a > near, axis=1)
        np.put_along_axis(takes, self.others, a < domain.largest - near, axis=1)
        if domain.coupled:
            gives[np.arange(n), codes] = a.sum(axis=1) < domain.total - near
        d = np.zeros((c, c))
        for k in range(c):
            for j in range(c):
                if j != k:
                    exchange = gives[:, j] & takes[:, k]
                    if not domain.coupled:
                        exchange &= (codes == j) | (codes == k)
                    d[k, j] = (slack[:, j] - slack[:, k])[exchange].min(initial=math.inf)
        d = _along_paths(d)
        lower, upper = -d.mean(axis=0), d.mean(axis=1)
        # Where rounding takes the ends of a single intercept past each other, their middle is it.
        crossed = lower > upper
        lower[crossed] = upper[crossed] = (lower[crossed] + upper[crossed]) / 2
        return lower, upper


def _reach(distance: Floats, size: int) -> float:
    """Return the largest step of an intercept in which about `size` observations change."""
    if distance.size <= size:
        return math.inf
    reach = float(np.partition(distance, size)[size])
    if reach == 0.0:
        reach = float(distance[distance > 0].min(initial=math.inf))
    return 0.5 * reach
