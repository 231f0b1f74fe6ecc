"""A bar for what takes longer than a few seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from svmcvx.errors import missing_extra

__all__ = ["progress_bar"]


def _silent() -> None:
    """Show nothing."""


@contextmanager
def progress_bar(wanted: bool, what: str, total: int, done: int = 0) -> Iterator[Callable[[], None]]:
    """Show a bar with an estimate of the time left inside the block, on the standard error, if it is wanted; yield what advances it.

    Raises
    ------
    SolverUnavailable
        If it is wanted and rich is not installed.
    """
    if not wanted:
        yield _silent
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        raise missing_extra("rich", "cli") from None
    # The estimate uses all finished work: a piece may take longer than rich's default of half a minute.
    console = Console(stderr=True)
    # Where nothing can be drawn, rich leaves an empty line.
    hidden = not (console.is_terminal or console.is_jupyter)
    with Progress(console=console, transient=True, speed_estimate_period=math.inf, disable=hidden) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda: bar.advance(task)
