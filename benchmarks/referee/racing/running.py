"""The race: every solver on every task, in processes of their own, before a referee."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.referee.library.building import version_of_package
from benchmarks.referee.library.data_sets import data_digest
from benchmarks.referee.racing.contest import CLOCKS, contest
from benchmarks.referee.racing.entries import READY, version_of
from benchmarks.referee.racing.entry import Entry, entries_of
from benchmarks.referee.racing.outcome import Lap, Note, Race
from benchmarks.referee.racing.tasks import Referee, Task, library_ends, tasks_of
from svmcvx.data import check_choice, check_number, check_whole
from svmcvx.experiments.store import Store, fingerprint

__all__ = ["race"]


def race(
    problem: Any,
    solvers: Any = "svmcvx",
    *,
    time: float = 10.0,
    repeats: int = 1,
    threads: int = 1,
    clock: str = "wall",
    store: str | os.PathLike[str] | None = None,
    index: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[str, str], object] | None = None,
) -> Race:
    """Run several solvers on the same problems and judge every model that they return by its
    certified gap.

    Each solver runs in its own process, one after the other. A first call is not timed, as
    libraries load and compile then. The gap of a model is that of its objective, which this package
    evaluates with bounds on all rounding, and the proved lower bound on the optimum; it is computed
    after the solver's process has ended. What the solver says of the accuracy does not count.

    Parameters
    ----------
    problem : instance, str, (X, y, problem), Task, or several of them
        An instance of :mod:`benchmarks.referee.library` or its number; data with a problem in any form of
        :func:`svmcvx.lookup`; a list of these; or a mapping from names to them.
    solvers : mapping, sequence, callable or str
        Functions, :class:`benchmarks.referee.racing.Entry` objects, or names of :func:`benchmarks.referee.racing.entries`.
        A function ``solve(task, budget)`` is called with 1, 2, 4, … and has a fresh clock each
        time; a generator function ``solve(task)`` yields models, and its clock runs between them.
        ``task`` has ``X``, ``y``, ``signs`` (−1 or +1), ``hyperparameters``, ``kernel`` and
        ``intercept``.
    time : float
        Seconds of a solver on a task, in each repeat.
    repeats : int
        The tables have medians.
    threads : int
        That libraries may use in each process.
    clock : "wall" or "processor"
        The second counts the time that processors work for a solver, with all its threads and the
        programs that it starts; other work on the machine then changes little. A solver on another
        device, or that waits, is measured by the first alone.
    store : path-like, optional
        File (``.sqlite``) in which the models of each solver on each task are kept, judged, as soon
        as they are there: the same call goes on with it. A solver whose file or package has changed
        runs again.
    index : path-like, optional
        Index of the library with further lower bounds; that of the package by default.
    data_dir : path-like, optional
        Folder of the data sets of the papers.
    progress : callable, optional
        Called with the names of the task and of the solver that comes next.

    Returns
    -------
    Race
        With what has been run, also after Ctrl-C, which ends the race; ``complete`` tells.

    Raises
    ------
    DataError
        If an argument cannot be used, or a task has no lower bound.

    Examples
    --------
    >>> import numpy as np
    >>> import svmcvx as sx
    >>> def subgradients(task):
    ...     w, C = np.zeros(task.X.shape[1] + 1), task.hyperparameters["C"]
    ...     rows = task.signs[:, None] * np.column_stack([task.X, np.ones(len(task.signs))])
    ...     for step in range(1, 100):
    ...         w = w - (w - C * rows[rows @ w < 1].sum(axis=0)) / step
    ...         yield w[:-1], w[-1]
    >>> X, y = sx.synthetic.outlier_data(40, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.PSVMClassifier(C=1.0, p=1.0, intercept="penalised")
    >>> outcome = sx.race((X, y, problem), subgradients, time=1.0)
    >>> bool(outcome.to_frame()["gap"].min() < 0.1)
    True
    """
    time = check_number(time, "time", low=0, open_low=True)
    repeats, threads = check_whole(repeats, "repeats", 1), check_whole(threads, "threads", 1)
    clock = check_choice(clock, "clock", tuple(CLOCKS))
    tasks, entries = tasks_of(problem, data_dir), entries_of(solvers, READY)
    rules: dict[str, Any] = {
        "seconds": time,
        "repeats": repeats,
        "threads": threads,
        "clock": clock,
    }
    laps: list[Lap] = []
    notes: list[Note] = []
    complete = False
    kept = None if store is None else Store(store)
    try:
        with nullcontext() if kept is None else kept:
            for task in tasks:
                referee = None
                known = [] if kept is None else library_ends(task, index)
                for name, entry in entries.items():
                    if why := entry.refusal(task):
                        notes.append(Note(task.name, name, why))
                        continue
                    key = "" if kept is None else _key(task, known, name, entry, rules)
                    if kept is not None and key in kept:
                        row = kept[key]
                        laps += [_lap(**one) for one in row["laps"]]
                        notes += [Note(**one) for one in row["notes"]]
                        continue
                    if progress is not None:
                        progress(task.name, name)
                    if referee is None:
                        referee = Referee(task, index)
                    # Judged when the process has ended, whose clock the referee would slow down.
                    handed = list(contest(entry, task, **rules))
                    own = [Note(task.name, name, one.error) for one in handed if one.error]
                    judged = list(
                        _judged(task.name, name, referee, [one for one in handed if not one.error])
                    )
                    if kept is not None:
                        row = {
                            "laps": [lap._asdict() for lap in judged],
                            "notes": [note._asdict() for note in own],
                        }
                        kept.add(key, row, "race")
                    laps += judged
                    notes += own
        complete = True
    except KeyboardInterrupt:
        notes.append(Note("", "", "Ctrl-C ended the race"))
    return Race(tuple(laps), tuple(notes), time, repeats, threads, clock, complete)


def _judged(task: str, name: str, referee: Referee, handed: list[Any]) -> Iterator[Lap]:
    for one in handed:
        objective = referee.objective(one.model)
        yield Lap(
            task,
            name,
            one.repeat,
            str(one.budget),
            one.seconds,
            referee.gap_of(objective),
            objective,
        )


def _lap(*, gap: float | None, objective: float | None, **rest: Any) -> Lap:
    """Return a lap of the store, in which infinite numbers are null."""
    return Lap(
        **rest,
        gap=math.inf if gap is None else gap,
        objective=math.inf if objective is None else objective,
    )


def _key(
    task: Task, known: list[float | None], name: str, entry: Entry, rules: dict[str, Any]
) -> str:
    """Return what the laps of a solver depend on: the task, what is known of it, the rules, and the
    file and the package of the solver.
    """
    try:
        source = hashlib.sha256(
            Path(inspect.getfile(inspect.unwrap(entry.solve))).read_bytes()
        ).hexdigest()
    except (TypeError, OSError):  # a function of a session, or an object that is called
        source = getattr(getattr(entry.solve, "__code__", None), "co_code", repr(entry.solve))
    packages = (version_of_package(), version_of(entry.package))
    solver = (name, source, packages, repr(entry.budgets))
    return fingerprint(
        "race", task.name, data_digest(task.X, task.y), str(task.problem), known, solver, rules
    )
