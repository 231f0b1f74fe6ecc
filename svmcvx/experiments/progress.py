"""A bar for what takes longer than a few seconds; lines where nobody watches a terminal."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from svmcvx.errors import missing_extra

__all__ = ["progress_bar", "progress_lines"]


def _silent() -> None:
    """Show nothing."""


@contextmanager
def progress_bar(
    wanted: bool, what: str, total: int, done: int = 0
) -> Iterator[Callable[[], None]]:
    """Show a bar with an estimate of the time left inside the block, on the standard error, if it
    is wanted; yield what advances it.
    """
    if not wanted:
        yield _silent
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        raise missing_extra("rich", "cli") from None
    # The estimate uses all finished work: a piece may take longer than rich's default of half a
    # minute.
    console = Console(stderr=True)
    # Where nothing can be drawn, rich leaves an empty line.
    hidden = not (console.is_terminal or console.is_jupyter)
    with Progress(
        console=console, transient=True, speed_estimate_period=math.inf, disable=hidden
    ) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda: bar.advance(task)


def progress_lines(wanted: bool, left: Iterable[str], done: int) -> Callable[[str], None]:
    """Return what is to be called with the group of each finished task; it writes a line when a
    group is finished.
    """
    counts = Counter(left)
    whole, total, finished = Counter(counts), counts.total() + done, done
    silent = (
        not wanted
        or sys.stderr is None
        or sys.stderr.isatty()
        or type(sys.stderr).__module__.startswith("ipykernel")
    )

    def advance(group: str) -> None:
        nonlocal finished
        finished += 1
        counts[group] -= 1
        if counts[group] == 0 and not silent:
            sys.stderr.write(
                f"svmcvx: {group}: {whole[group]} tasks done; {finished} of {total} in all\n"
            )
            sys.stderr.flush()

    return advance
