"""What a race has come to: laps, times to gaps, performance profiles, and their report."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from svmcvx.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TARGETS", "Lap", "Note", "Race"]

# Gaps that the tables ask for.
TARGETS: Final = tuple(10.0**-k for k in range(2, 10))
# Gaps whose profiles a report shows.
PROFILES: Final = (1e-3, 1e-6, 1e-9)
# Tasks whose curves a report shows.
DRAWN: Final = 12


class Lap(NamedTuple):
    """A model that a solver has handed over.

    Attributes
    ----------
    task, solver : str
    repeat : int
    budget : str
        What the solver was called with; the number of the model for a generator.
    seconds : float
        On the solver's clock.
    gap : float
        Certified: of the objective and the proved lower bound.
    objective : float
        At the model, an upper bound of it.
    """

    task: str
    solver: str
    repeat: int
    budget: str
    seconds: float
    gap: float
    objective: float


class Note(NamedTuple):
    """Why a solver has no, or no further, models on a task."""

    task: str
    solver: str
    why: str


@dataclass(frozen=True)
class Race:
    """The outcome of :func:`svmcvx.race`.

    Attributes
    ----------
    laps : tuple of Lap
    notes : tuple of Note
    time : float
        Seconds of a solver on a task.
    repeats, threads : int
    clock : "wall" or "processor"
    complete : bool
        Whether every solver has had its time on every task.
    """

    laps: tuple[Lap, ...]
    notes: tuple[Note, ...]
    time: float
    repeats: int
    threads: int
    clock: str
    complete: bool

    def to_frame(self) -> pd.DataFrame:
        """Return all laps as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.laps, columns=Lap._fields)

    def times(self) -> pd.DataFrame:
        """Return the seconds to each gap from 1e-2 to 1e-9, medians over the repeats; infinite
        where a gap was not reached in most of them.

        Returns
        -------
        DataFrame
            One row a task and solver, one column a gap.
        """
        import pandas as pd

        best: dict[tuple[str, str], dict[int, list[float]]] = {}
        for lap in self.laps:
            reached = best.setdefault((lap.task, lap.solver), {}).setdefault(
                lap.repeat, [math.inf] * len(TARGETS)
            )
            for place, target in enumerate(TARGETS):
                if lap.gap <= target:
                    reached[place] = min(reached[place], lap.seconds)
        rows = {}
        for key, repeats in best.items():
            missing = [[math.inf] * len(TARGETS)] * (self.repeats - len(repeats))
            rows[key] = np.quantile([*repeats.values(), *missing], 0.5, axis=0, method="higher")
        keys = pd.MultiIndex.from_tuples(list(rows), names=["task", "solver"])
        return pd.DataFrame(
            list(rows.values()), index=keys, columns=[f"{target:.0e}" for target in TARGETS]
        )

    def profile(self, gap: float = 1e-6) -> pd.DataFrame:
        """Return the performance profile of the solvers: shares of the tasks that each has solved
        within multiples of the best time.

        Parameters
        ----------
        gap : float
            One of 1e-2, 1e-3, …, 1e-9: the certified gap at which a task counts as solved.

        Returns
        -------
        DataFrame
            Index: the multiples, from 1; columns: the solvers; values in [0, 1]. Tasks that no
            solver has solved count for none.

        Raises
        ------
        DataError
            If `gap` is not one of these.

        Notes
        -----
        Source: Dolan and Moré, Benchmarking optimization software with performance profiles, 2002.
        """
        import pandas as pd

        column = next(
            (f"{one:.0e}" for one in TARGETS if math.isclose(one, gap, rel_tol=1e-9)), None
        )
        if column is None:
            raise DataError(
                f"gap must be one of {', '.join(f'{one:.0e}' for one in TARGETS)}, got {gap!r}"
            )
        times = self.times().reset_index().pivot_table(column, "task", "solver").fillna(math.inf)
        solved = times[np.isfinite(times).any(axis=1)]
        ratios = solved.div(solved.T.min(), axis=0)
        finite = ratios.to_numpy()[np.isfinite(ratios.to_numpy())]
        steps = np.unique(np.concatenate([[1.0], finite]))
        shares = {
            name: [(ratios[name] <= step).sum() / max(len(times), 1) for step in steps]
            for name in times.columns
        }
        return pd.DataFrame(shares, index=pd.Index(steps, name="multiple of the best time"))

    def wins(self) -> pd.DataFrame:
        """Return on how many tasks each solver was the first at each gap."""
        times = self.times()
        best = times.groupby("task").transform("min")
        won = (times == best) & np.isfinite(times)
        counts: pd.DataFrame = won.groupby("solver").sum()
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "complete": self.complete,
            "time": self.time,
            "repeats": self.repeats,
            "threads": self.threads,
            "clock": self.clock,
            "laps": [lap._asdict() for lap in self.laps],
            "notes": [note._asdict() for note in self.notes],
        }

    def report(self, path: str | os.PathLike[str], title: str = "Race") -> None:
        """Write tables, curves and profiles to a page of HTML (extra ``study``).

        Parameters
        ----------
        path : path-like
        title : str

        Raises
        ------
        SolverUnavailable
            Without the extra ``study``.
        DataError
            If there are no laps.
        """
        import pandas as pd

        from svmcvx.experiments.studies.report import report

        if not self.laps:
            raise DataError("there is nothing to report: no solver has handed over a model")
        told = (
            f"{self.time:g} s a solver and task by the {self.clock} clock, repeats: {self.repeats},"
            f" threads of a process: {self.threads}"
        )
        tables: Mapping[str, pd.DataFrame] = {
            "Tasks on which each solver was first": self.wins().reset_index(),
            "Seconds to each certified gap": self.times().reset_index(),
            "Notes": pd.DataFrame(self.notes, columns=Note._fields),
        }
        for name, frame in tables.items():
            frame.attrs["note"] = (
                told if name != "Notes" else "Why a solver has no, or no further, models"
            )
        shown = {name: frame for name, frame in tables.items() if len(frame)}
        report(Path(path), None, shown, title=title, figures=self._figures())

    def _figures(self) -> list[tuple[str, str]]:
        from svmcvx.experiments.studies.figures import svg
        from svmcvx.plot import performance_profile, race_curves
        from svmcvx.plot.style import figure_of

        frame, figures = self.to_frame(), []
        for gap in PROFILES:
            profile = self.profile(gap)
            if len(profile) and (frame["gap"] <= gap).any():
                what = f"performance profile at a certified gap of {gap:.0e}"
                figures.append(
                    (svg(figure_of(performance_profile(profile)), what), what.capitalize())
                )
        for task, own in list(frame.groupby("task", sort=False))[:DRAWN]:
            what = f"certified gap over time: {task}"
            figures.append((svg(figure_of(race_curves(own)), what), what.capitalize()))
        return figures
