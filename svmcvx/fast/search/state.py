"""State that the exact searches share: the scaled problem, its incumbent, and the proved bounds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import SolverBound
from svmcvx.certificate.bounded import Bounded, down, total, up
from svmcvx.certificate.exactly import balanced
from svmcvx.certificate.rows import norm_above, row_bytes, row_norms_above
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.search.exact_least_norm import ExactPoint, exact_least_norm
from svmcvx.fast.search.exchange_passes import ALMOST
from svmcvx.fast.search.record import Leaf, leaf_of
from svmcvx.formulations.indicator.statement import L0, IndicatorStatement, Ramp
from svmcvx.formulations.signed_rows import Incumbent, least_norm, ramp_descent, violated
from svmcvx.losses import ramp
from svmcvx.solution import Status

# Sets of rows that are decided exactly, at most; and the entries of data for which that is tried
# although there may be more sets.
DECIDED = 500
# Rows that a refit begins with, and that join at a time.
JOINING = 300


@dataclass(frozen=True)
class SearchSettings:
    """Parameters of the searches. Work is counted in rows times columns times (columns + 20) of
    each node.

    Attributes
    ----------
    rounds : int
        Maximum number of times that the M of a node are tightened; with 0 the values of the first
        node hold for all.
    expansions : int
        Number of nodes on which a thread branches before it returns its open nodes.
    round_work : float
        Work of one round of all threads, up to a factor of two.
    memory : float
        Bytes of open nodes above which the most recent nodes are searched first.
    record : float
        Bytes above which the record of the tree, and with it the proof, is discarded.
    easy : float
        Work of branch and bound after which the 0-1 loss gets better starting points and the conic
        relaxation, and ``l0(method="auto")`` ends.
    searched_rows, searched_entries : int
        Number of observations, and of entries of a linear machine, up to which
        ``l0(method="auto")`` searches.
    whole, rank : int
        Number of observations up to which a local search with a kernel has all columns of the
        factor, and the number of columns for more.
    joining : int
        Number of observations that join a working set in a round.
    columns : int
        Number of columns, the constant apart, up to which ``method="auto"`` searches directions, in
        turn with branch and bound.
    turn : float
        Work of the first turn, which is branch and bound's, unless directions are expected to end
        within four times `easy`: these begin, with a turn of the work that they are expected to
        take.
    """

    rounds: int = 2
    expansions: int = 64
    round_work: float = 2.5e8
    memory: float = 2.0**30
    record: float = 2.0**27
    easy: float = 4e9
    searched_rows: int = 60
    searched_entries: int = 500
    whole: int = 3000
    rank: int = 40
    joining: int = 300
    columns: int = 10
    turn: float = 1e8

    def ends_soon(self, statement: L0) -> bool:
        """Whether the size promises that a search ends."""
        n, space = statement.y.size, statement.space
        columns = space.X.shape[1] if space.is_linear else math.inf
        few = n <= self.searched_rows or n * columns <= self.searched_entries
        return few or (columns <= self.columns and work_of_directions(n, columns) <= self.easy)


def work_of_directions(n: int, columns: float) -> float:
    """Return a work within which most searches over directions end: 10·4^d cells of 100nd."""
    return float(1000.0 * 4.0**columns * n * columns)


class Support(NamedTuple):
    """Rows with positive multipliers, and a squared norm below which no point keeps them all."""

    rows: NDArray[np.intp]
    alpha: Floats
    norm: float

    @classmethod
    def of(cls, H: Floats, rows: NDArray[np.intp], alpha: Floats) -> Support:
        r"""Return the support with the norm :math:`(\sum\alpha)^2/\|H'\alpha\|^2`, from below."""
        rows, alpha = rows[alpha > 0], alpha[alpha > 0]
        terms = H[rows] * alpha[:, None]
        # Each product is rounded once, each sum of a column correctly.
        error = 2.0**-52 * np.abs(terms).sum(axis=0) * (1.0 + 2.0**-40)
        sums = np.abs([math.fsum(column) for column in terms.T.tolist()])
        size = norm_above(sums * (1.0 + 2.0**-52) + error)
        below = total(Bounded(alpha)).lower_end
        norm = down(down(below * below) / up(size * size)) if size > 0 else math.inf
        return cls(rows, alpha, norm if rows.size else 0.0)


@dataclass
class SearchState(ABC):
    """A problem with distinct rows of length at most 1, and the progress of a search."""

    statement: Any
    monitor: Monitor

    def __post_init__(self) -> None:
        statement: IndicatorStatement = self.statement
        geometry = statement.geometry
        # Slack above which the loss is constant.
        self.free, self.cut = geometry.free, statement.slack_allowed
        longest = float(row_norms_above(geometry.G).max(initial=0.0)) if geometry.G.any() else 1.0
        self.scale = 2.0 ** min(math.ceil(math.log2(longest)), 1023)
        self.unit = self.scale * self.scale / statement.half
        n, r = geometry.G.shape
        rows = np.empty((n, r + self.free))
        np.divide(geometry.G, self.scale, out=rows[:, :r])
        if self.free:
            rows[:, r] = geometry.y / self.scale
        # Which distinct row each observation is, and the first observation of each.
        names: dict[bytes, int] = {}
        self.copies = np.array([names.setdefault(key, len(names)) for key in self._keys(rows)])
        self.first = np.unique(self.copies, return_index=True)[1]
        self.rows = rows[self.first]
        self.H = np.ascontiguousarray(self.rows[:, :-1]) if self.free else self.rows
        weight = np.bincount(self.copies, weights=geometry.weight)
        # Sums of weights that are not whole numbers are rounded.
        whole = bool((geometry.weight == np.round(geometry.weight)).all())
        rounded = weight * (1.0 - 2.0**-52 * (1 + np.bincount(self.copies)))
        self.weight = weight if whole else rounded
        # The price of the largest loss, and the budget, in favour of the bound: what points really
        # drop is summed without rounding.
        self.lam = self.loss_price = max(self.cut, 1.0) * statement.price * self.unit
        k = getattr(statement, "k", None)
        self.k = math.inf if k is None else float(k)
        if k is not None and not whole:
            self.k += 1e-12 * (k + float(self.weight.sum()))
        most = self.unit + self.lam * float(self.weight.sum())
        # A smaller unit has few digits.
        if not (self.unit > 1e-290 and most < math.inf):
            raise DataError(
                f"the longest row of the features has the length {longest:.3g}: its square, or that"
                " times the price of all observations, is out of the range of double precision;"
                f" divide X by {longest:.0e}, or lower {'C' if statement.half < 1.0 else 'lam'}"
            )
        self.best: Incumbent | None = None
        self.best_value = math.inf
        self.objective_cap = math.inf
        self.proved = 0.0
        self.unresolved_bound = math.inf
        # The support of the last incumbent that was the least-norm point of a set.
        self.support: Support | None = None
        self._rounds = 0
        self._tried: set[bytes] = set()
        for point in statement.pool:
            self.update_incumbent(point)

    def _keys(self, rows: Floats) -> Iterator[bytes]:
        """Yield bytes for each observation, the same for equal ones with equal labels."""
        space = self.statement.space
        if space.factor_is_data and not space.centre.any():
            return (row.tobytes() for row in rows + 0.0)
        X, signs = space.data.X, space.data.y
        if space.is_linear and space.intercept == "none":
            # A row and its negative of the other class are the same signed row.
            X, signs = sp.diags_array(signs) @ X, np.ones_like(signs)
        return (row_bytes(X, i) + (b"+" if sign > 0 else b"-") for i, sign in enumerate(signs))

    def bias_interval(self, upper: float) -> tuple[float, float]:
        """Return the scaled free bias of points below `upper`, empty if none; 0 without one."""
        if not self.free:
            return 0.0, 0.0
        # Each class has a row whose shortfall is below the cut or, where losses are counted, 0.
        size = up(math.sqrt(up(upper)))
        longest = float(row_norms_above(self.H).max(initial=0.0))
        reach = up(self.scale * up(size * longest)) * (1.0 + 1e-14)
        reach = up(up(reach) + (self.cut - 1.0 + 1e-14) * self.scale)
        return -reach, reach

    @cached_property
    def _factor_error(self) -> float:
        """Possible deficit of the rows' squared lengths, in the search's units."""
        space = self.statement.space
        if space.factor_is_data:
            return 0.0
        error = float(self.statement.factor_error.missing.max(initial=0.0)) / self.scale**2
        return error if math.isfinite(error) else 0.0

    @property
    def wider(self) -> float:
        """The share by which balls are enlarged against rounding."""
        return min(max(2.0**-32, 4.0 * self._factor_error * self._size), 1e-4)

    @property
    def loose(self) -> float:
        """What is added to squared radii of balls."""
        # A square that overflows would raise; infinite is as good.
        return 2.0 * self._factor_error * self._size * self._size

    @property
    def is_repeatable(self) -> bool:
        """Whether a checker that evaluates the kernel itself proves about the same."""
        return self._factor_error * self._size <= 1e-7

    @property
    def _size(self) -> float:
        return self.cutoff if math.isfinite(self.cutoff) else 0.0

    @abstractmethod
    def try_point(self, w: Floats) -> None:
        """Update the incumbent with points near one of the relaxation, in the search's units."""

    @abstractmethod
    def close_leaf(self, kept: Bools, dropped: Bools, bound: float) -> Leaf | None:
        """Offer the best point that keeps and drops these rows, of value `bound` or more."""

    def update_incumbent(self, point: Incumbent) -> None:
        """Replace the incumbent by a feasible point if it is better."""
        # What is no better without rounding needs no bound on it.
        plain = self.statement.objective_value(point.norm, point.loss) * self.unit
        if self.best is not None and plain >= self.best_value:
            return
        value = self.statement.value_of(point) * self.unit
        if value < self.best_value:
            self.best, self.best_value = point, value

    @property
    def cutoff(self) -> float:
        """Only points below this value are searched for."""
        return min(self.best_value * ALMOST, self.objective_cap)

    def mark_unresolved(self, value: float) -> None:
        """Record that points of this value or more could neither be attained nor excluded."""
        self.unresolved_bound = min(self.unresolved_bound, value)

    def proved_with(self, left: float) -> float:
        """Return the bound of all points, given that of the open ones."""
        return min(left, self.cutoff, self.unresolved_bound)

    def report(self, left: float) -> Status | None:
        """Report a round's proved bound, given the open nodes' `left`; return a stop or None."""
        # Only points better than the incumbent by a little were looked for.
        self.proved = max(self.proved, self.proved_with(left))
        status = self.monitor.report(
            self._rounds, self.proved / self.unit, self.best_value / self.unit
        )
        self._rounds += 1
        if math.isinf(left) and status is not Status.OPTIMAL:
            # Everything has been searched: the remaining gap is final.
            if self.best is None:
                searched = math.isinf(min(self.cutoff, self.unresolved_bound))
                proved = searched and self.statement.rows_are_exact
                return Status.INFEASIBLE if proved else Status.NUMERICAL
            attained = self.unresolved_bound >= self.best_value * (1.0 - 1e-7)
            return Status.OPTIMAL if attained else Status.NUMERICAL
        return status

    @property
    def bound(self) -> SolverBound:
        """The proved lower bound of the data themselves, in the statement's units."""
        proved = self.statement.bound_of_search(self.proved / self.unit)
        # A second program with other rounding may lose 1e-10 of the bound.
        return SolverBound(proved, (1e-10 + self._factor_error * self._size) * abs(proved))


class CountingSearch(SearchState):
    """Losses that are counted, with the intercept among the features or free."""

    def try_point(self, w: Floats) -> None:
        """Try the sets of rows with margins of about 1 or more at a point."""
        u = self.rows @ w
        for margin in (1.0 - 1e-9, 0.9):
            self.try_set(u >= margin)

    def try_set(self, kept: Bools) -> None:
        """Offer the least-norm point that keeps a set of distinct rows, once per set."""
        key, dropped = np.packbits(kept).tobytes(), float(self.weight[~kept].sum())
        # A margin of 1 on a row no longer than 1 takes a norm of 1, unless the bias is free.
        least = (0.0 if self.free else 1.0) + self.lam * dropped
        if key in self._tried or dropped > self.k or not least < self.cutoff:
            return
        if self.H.size > 100_000 and self.monitor.out_of_time():
            return
        self._tried.add(key)
        self.refit(kept)

    def _labels(self, rows: Bools | NDArray[np.intp]) -> Floats | None:
        return self.statement.geometry.y[self.first[rows]] if self.free else None

    def refit(self, kept: Bools) -> Support | None:
        """Offer the least-norm point that keeps a set; return its support."""
        rows, geometry = np.flatnonzero(kept), self.statement.geometry
        H, labels = self.H[rows], self._labels(rows)
        # Few rows of many have a margin of 1: those that fall short of it join some.
        some = np.zeros(rows.size, dtype=np.bool_)
        some[:: rows.size // JOINING + 1] = True
        while True:
            found = least_norm(H[some], None if labels is None else labels[some])
            if found is None:
                return None
            u = H @ found.w + (0.0 if labels is None else labels * found.b)
            short = np.flatnonzero(~some & (u < 1.0 - 2.0**-40))
            if not short.size:
                break
            some[short[np.argsort(u[short], kind="stable")[:JOINING]]] = True
        point = geometry.incumbent(found.w / self.scale, found.b, violated)
        self.update_incumbent(point)
        alpha = found.alpha
        if labels is not None:
            alpha = balanced(alpha, labels[some], math.inf)
        support = Support.of(self.H, rows[some], alpha)
        if self.best is point:
            self.support = support
        return support

    def proof_of(self, supports: Sequence[Support]) -> dict[str, NDArray[Any]]:
        """Return the arrays of a proof that supports have."""
        found = {
            "support_count": np.array([one.rows.size for one in supports], dtype=np.int32),
            "support_row": np.concatenate([[], *(one.rows for one in supports)]).astype(np.int32),
            "support_alpha": np.concatenate([[], *(one.alpha for one in supports)]),
        }
        centre = {"centre": np.array(self.statement.space.centre)} if self.free else {}
        return found | centre

    def close_leaf(self, kept: Bools, dropped: Bools, bound: float) -> Leaf | None:
        """Offer a set's least-norm point, and exclude better points that drop the others."""
        price = 0.0
        if dropped.any() and self.lam > 0:
            price = down(self.lam * total(Bounded(self.weight[dropped])).lower_end)
        rows, support, leaf = np.flatnonzero(kept), self.refit(kept), None
        if support is not None:
            leaf = Leaf(support.rows, 2.0 * support.alpha)
            bound = max(bound, support.norm + price)
        if bound < self.cutoff:
            stop = self.monitor.out_of_time
            labels = self._labels(rows)
            exact = exact_least_norm(self.H[rows], labels, stop=stop)
            if exact is not None:
                if exact.feasible:
                    self._update_from_exact(kept, exact)
                tight = rows[exact.rows].tolist()
                labels = None if labels is None else labels[exact.rows]
                found = leaf_of(tight, exact.alpha, labels, feasible=exact.feasible)
                if found is not None:
                    norm = down(_double(exact.norm)) if exact.feasible else math.inf
                    leaf, bound = found, max(bound, down(norm + price) if norm < math.inf else norm)
        if bound < self.cutoff:
            self.mark_unresolved(bound)
        return leaf

    def _update_from_exact(self, kept: Bools, exact: ExactPoint) -> None:
        columns = self.H[kept][exact.rows].T.tolist()
        w = np.array([_double(sum(map(mul, exact.alpha, map(Fraction, c)))) for c in columns])
        if np.isfinite(w).all():
            point = self.statement.geometry.incumbent(w / self.scale, _double(exact.b), violated)
            self.update_incumbent(point)

    def price_of_budget(self, relaxed: float | None) -> None:
        """Set k's first multiplier by the conic relaxation, or by the norm per budget."""
        if math.isinf(self.k):
            return
        value = self.best_value if math.isfinite(self.best_value) else self.weight.size
        self.loss_price = (
            value / max(self.k, 1.0) if relaxed is None else max(relaxed, 0.0) * self.unit
        )

    def decide_feasibility(self) -> bool | None:
        """Decide exactly whether the rows without k of them are separable; offer a point."""
        stack: list[tuple[Bools, Bools]] = [(np.zeros(self.weight.size, dtype=bool),) * 2]
        # One of d + 1 rows is dropped at a time, until the budget is used up.
        steps = min(self.k / float(self.weight.min()), 100.0)
        if self.H.size > DECIDED and (self.H.shape[1] + 1.0) ** steps > DECIDED:
            return None
        for _ in range(DECIDED):
            if not stack:
                return False
            if self.monitor.out_of_time():
                return None
            dropped, fixed = stack.pop()
            exact = exact_least_norm(self.H[~dropped], stop=self.monitor.out_of_time)
            if exact is None:
                return None
            if exact.feasible:
                self._update_from_exact(~dropped, exact)
                return True if self.best is not None else None
            fixed = fixed.copy()
            for i in np.flatnonzero(~dropped)[exact.rows]:
                if not fixed[i] and self.weight[dropped].sum() + self.weight[i] <= self.k:
                    more = dropped.copy()
                    more[i] = True
                    stack.append((more, fixed.copy()))
                fixed[i] = True
        return None


class RampSearch(SearchState):
    statement: Ramp

    def try_point(self, w: Floats) -> None:
        """Offer a point, and the hinge solution of the rows that it does not drop."""
        geometry = self.statement.geometry
        found = geometry.incumbent(w[:-1] / self.scale, float(w[-1]) / self.scale, ramp)
        self.update_incumbent(found)
        self.descend(found.u < -1.0)

    def descend(self, dropped: Bools) -> None:
        """Update the incumbent with hinge solutions, from a set of dropped observations."""
        statement, key = self.statement, np.packbits(dropped).tobytes()
        if key not in self._tried:
            self._tried.add(key)
            stop = self.monitor.out_of_time
            point = ramp_descent(statement.geometry, statement.C, dropped, stop)
            self.update_incumbent(statement.geometry.incumbent(*point, ramp))

    def close_leaf(self, kept: Bools, dropped: Bools, bound: float) -> None:
        """Offer the hinge solution of the kept rows; rounding differences remain open."""
        self.descend(dropped[self.copies])
        if bound < self.cutoff:
            self.mark_unresolved(bound)


def _double(value: Fraction | int) -> float:
    """Return the double next to a fraction; infinite where that overflows."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
