"""Run tasks in parallel, in this process, in others or on a cluster; each is stored as soon as it
is finished.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import joblib
import numpy as np

from svmcvx.experiments.progress import progress_bar, progress_lines
from svmcvx.experiments.store import Store
from svmcvx.experiments.workers import DIED, results, workers
from svmcvx.system.deadline import Deadline

__all__ = ["FAILED", "Row", "Running", "failed"]

log = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]

# The status of a task that failed.
FAILED = "failed"


def failed(error: BaseException | str) -> Row:
    """Return the text of a row about a failed task."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return {"status": FAILED, "note": " ".join(text.split())[:500]}


class Work(Protocol):
    """What can be run: a row of a table."""

    @property
    def key(self) -> str: ...

    @property
    def repeat(self) -> int: ...

    @property
    def group(self) -> str: ...

    def run(self, *data: Any) -> Row | None:
        """Return the row; None if the time ran out before it was done."""

    def empty_row(self) -> Row:
        """Return the row before anything is known."""


T = TypeVar("T", bound=Work)


class Running(Generic[T]):
    """Tasks, and the rows that are there."""

    def __init__(
        self,
        work: Sequence[T],
        data: Callable[[T], tuple[Any, ...]],
        store: Path | None,
        kind: str,
        *,
        done: Callable[[Row], bool],
        again: bool = False,
    ) -> None:
        self.work, self.data, self.kind, self.again = work, data, kind, again
        self.store = None if store is None else Store(store)
        found = {} if self.store is None else self.store.found(task.key for task in work)
        self.rows = {key: row for key, row in found.items() if done(row)}
        self.reused = len(self.rows)

    def do(
        self, backend: str | None, n_jobs: int | None, progress: bool, deadline: Deadline
    ) -> bool:
        """Run all tasks that are not stored; return whether they were done to the end."""
        complete = self._do(backend, n_jobs, progress)
        if not complete:
            why = "the time limit passed" if deadline.passed() else "interrupted"
            advice = (
                ""
                if self.store is not None
                else "; pass a file as store to go on from there next time"
            )
            warnings.warn(
                f"{why} after {len(self.rows)} of {len(self.work)} tasks: the result holds"
                f" these{advice}",
                stacklevel=3,
            )
        return complete

    def _do(self, backend: str | None, n_jobs: int | None, progress: bool) -> bool:
        keys = {task.key for task in self.work}
        todo = list({task.key: task for task in self.work if task.key not in self.rows}.values())
        if self.store is not None:
            # Each process shuffles the tasks of a repeat differently: several processes on one
            # store then seldom run the same task.
            order = np.random.default_rng(os.getpid()).permutation(len(todo))
            todo = [todo[k] for k in sorted(order, key=lambda k: todo[k].repeat)]
        with (
            workers(backend, n_jobs) as parallel,
            progress_bar(progress, "tasks", len(keys), len(self.rows)) as advance,
        ):
            try:
                finished = progress_lines(progress, (task.group for task in todo), len(self.rows))
                for task, row in self._results(todo, parallel):
                    if row is not None:
                        self._keep(task, row)
                        advance()
                        finished(task.group)
            except KeyboardInterrupt:
                pass
            finally:
                if self.store is not None:
                    self.store.close()
        return len(self.rows) == len(keys)

    def _keep(self, task: T, row: Row) -> None:
        if self.store is not None:
            self.store.add(task.key, row, self.kind, again=self.again)
        self.rows[task.key] = row
        log.info("%s: %s %s", task, row["status"], row["note"] or "")

    def _results(
        self, todo: list[T], parallel: joblib.Parallel | None
    ) -> Iterator[tuple[T, Row | None]]:
        if parallel is None:
            for task in todo:
                yield task, task.run(*self.data(task))
            return
        tasks = {task.key: task for task in todo}
        for key, row in results(
            {key: (_do, (task, *self.data(task))) for key, task in tasks.items()}, parallel
        ):
            task = tasks[key]
            if row is DIED:
                row = {
                    **task.empty_row(),
                    **failed("its process died, killed or out of memory"),
                    "seconds": None,
                }
            yield task, row


def _do(task: Work, *data: Any) -> Row | None:
    """Do a task in another process or thread."""
    return task.run(*data)
