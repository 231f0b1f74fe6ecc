"""From a proposed set of satisfied observations to a local minimum of the l0-norm hinge SVM near
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.active_set import State, reset, value
from svmcvx.fast.core.active_set_passes import MORE, SOLVED
from svmcvx.fast.core.growing_working_set import GrowingWorkingSet
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.indicator.l0_exchange import allocate_like, descend, explore, solve_or_evict
from svmcvx.feature_space import FeatureSpace

__all__ = ["LocalMinimum", "PolishSettings", "SetPolisher"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Margins below 1 by less than this, relative to the largest score, are satisfied outside the
# working set.
SATISFIED = 1e-11
# Observations taken in, and trials of the local search, between two looks at the clock.
ACTIVE_SET_STEPS = 100
TRIALS = 100
# Size at which a working set stops growing.
LARGEST = 4000
# Rounds in which a working set grows, at most.
ROUNDS = 60


@dataclass(frozen=True)
class PolishSettings:
    """Parameters of the polishing of sets.

    Attributes
    ----------
    nearest, dropped : int
        Large data: satisfied observations of each class and dropped ones in the first working set.
    joining : int
        Observations that join it in a round.
    """

    nearest: int = 300
    dropped: int = 1000
    joining: int = 300


class LocalMinimum(NamedTuple):
    """A local minimum: objective, coefficients, bias, and the set that its machine keeps."""

    value: float
    v: Floats
    b: float
    kept: Bools


class SetPolisher:
    """Local minima near proposed sets."""

    def __init__(
        self,
        space: FeatureSpace,
        price: Floats,
        monitor: Monitor,
        whole: int,
        settings: PolishSettings,
    ) -> None:
        self.space, self.price, self.monitor, self.settings = space, price, monitor, settings
        self.n = space.data.n
        self.small = self.n <= whole
        self._seen: set[bytes] = set()
        self._trivial_value = self.trivial().value
        self._spare: tuple[State, State] | None = None
        if self.small:
            self._whole = GrowingWorkingSet(space, np.arange(self.n))

    @property
    def gram(self) -> Floats:
        """The Gram matrix, if all observations are in the working set."""
        return self._whole.state.K

    def trivial(self) -> LocalMinimum:
        """Return the better of the two constant scores ±1."""
        y = self.space.data.y
        sign = 1.0 if float(self.price[y > 0].sum()) >= float(self.price[y < 0].sum()) else -1.0
        return LocalMinimum(float(self.price[y != sign].sum()), np.zeros(self.n), sign, y == sign)

    def improve(
        self, kept: Bools, margins: Floats | None, picks: Floats | None = None
    ) -> LocalMinimum | None:
        """Return a local minimum near the restricted solution of a set; None if time runs out
        before there is a point.
        """
        if picks is None:
            key = np.packbits(kept).tobytes()
            if key in self._seen:
                return None
            self._seen.add(key)
        kept, y = np.array(kept), self.space.data.y
        work = self._work(kept, margins)
        for left in range(ROUNDS, 0, -1):
            members, state = work.members, work.state
            inside, price = kept[members], self.price[members]
            if not self._solve(state, inside, price):
                return None
            self._search(state, inside, price, picks)
            picks = None
            kept[members] = inside
            v, b = work.coefficients(), float(state.number[0])
            if self.small:
                break
            u = y * (self.space.point(v).scores.value + b)
            outside = np.ones(self.n, dtype=bool)
            outside[members] = False
            short = u < 1.0 - SATISFIED * max(1.0, float(np.abs(u).max()))
            kept |= outside & ~short
            wanted = np.flatnonzero(outside & kept & short)
            if wanted.size and left > 1 and work.n < LARGEST and not self.monitor.out_of_time():
                joining = min(self.settings.joining, wanted.size)
                work.grow(wanted[np.argpartition(u[wanted], joining - 1)[:joining]])
                continue
            # Observations that are still violated when the working set may not grow are dropped;
            # the restricted solution is the one of the others.
            kept[wanted] = False
            break
        return LocalMinimum(value(state) + float(self.price[~kept].sum()), v, b, kept)

    def restart(self, best: LocalMinimum, picks: Floats) -> LocalMinimum | None:
        """Force observations to the other side at random and descend again."""
        margins = (
            None
            if self.small
            else self.space.data.y * (self.space.point(best.v).scores.value + best.b)
        )
        return self.improve(best.kept, margins, picks)

    def _work(self, kept: Bools, margins: Floats | None) -> GrowingWorkingSet:
        """All observations, or those nearest to being on the margin."""
        if self.small:
            reset(self._whole.state)
            return self._whole
        distance = np.zeros(self.n) if margins is None else np.abs(margins - 1.0)
        sides = [
            (kept & (self.space.data.y > 0), self.settings.nearest),
            (kept & (self.space.data.y < 0), self.settings.nearest),
            (~kept, self.settings.dropped),
        ]
        chosen = []
        for side, most in sides:
            rows = np.flatnonzero(side)
            chosen.append(rows[np.argsort(distance[rows], kind="stable")[:most]])
        return GrowingWorkingSet(self.space, np.sort(np.concatenate(chosen)).astype(np.intp))

    def _solve(self, state: State, kept: Bools, price: Floats) -> bool:
        """Polish a set, without what keeps it from being separable or at all competitive; return
        whether there was time for it.
        """
        code = MORE
        while code == MORE:
            code = solve_or_evict(state, kept, price, self._trivial_value, ACTIVE_SET_STEPS)
            if code == MORE and self.monitor.out_of_time():
                return False
        return bool(code == SOLVED)

    def _search(self, state: State, kept: Bools, price: Floats, picks: Floats | None) -> None:
        if self._spare is None or self._spare[0].y.size != state.y.size:
            self._spare = allocate_like(state), allocate_like(state)
        if picks is not None:
            objective = value(state) + float(price[~kept].sum())
            explore(state, *self._spare, kept, price, objective, picks, 10 * TRIALS)
            return
        everything, trials = np.ones(price.size, dtype=np.bool_), TRIALS
        while trials >= TRIALS and not self.monitor.out_of_time():
            _, trials = descend(state, self._spare[0], kept, price, everything, TRIALS)
