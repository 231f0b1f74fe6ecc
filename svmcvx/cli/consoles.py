"""Printing of the commands: consoles, tables, notes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

__all__ = ["Column", "errors", "note", "number", "output", "progress", "show", "silent", "yes_no"]

# Output to a file has a fixed width.
output = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)
# Takes what --quiet keeps from the screen.
silent = Console(quiet=True)

# Least width of a folded column of text before other columns are omitted, and afterwards.
FOLDED, NARROW = 24, 12
# Characters between two columns, and at the two edges together.
BETWEEN = 2


def number(value: Any, form: str) -> str:
    """Return a number as text, a dash for a missing number."""
    return (
        "—"
        if value is None or (isinstance(value, float) and math.isnan(value))
        else format(value, form)
    )


def yes_no(value: bool | None) -> str:
    """Return a coloured yes or no; a dash where there is neither."""
    if value is None:
        return "—"
    return "[green]yes[/]" if value else "[red]no[/]"


def note(console: Console, text: str) -> None:
    """Print a line after a table."""
    console.print(
        text, style="dim", markup=False, highlight=False, soft_wrap=not console.is_terminal
    )


@contextmanager
def progress(*columns: ProgressColumn, quiet: bool) -> Iterator[Progress]:
    """Show the progress of a command on a terminal, and nothing elsewhere."""
    from rich.progress import Progress

    shown = errors.is_terminal and not quiet
    found = Progress(*columns, console=errors, transient=True, disable=not shown)
    # A progress bar that is not shown is not started: rich before version 15 would print an empty
    # line at its end.
    with found if shown else nullcontext():
        yield found


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str
    cells: Sequence[str]
    rank: int = 0
    text: bool = False
    meaning: str = ""

    @property
    def width(self) -> int:
        """Characters that it takes unfolded."""
        return max(
            cell_len(self.heading),
            *(cell_len(Text.from_markup(cell).plain) for cell in self.cells),
            1,
        )


def show(
    console: Console, title: str | None, columns: Sequence[Column], *, elsewhere: str = ""
) -> None:
    """Print a table that fits the width of the console: long text is folded, then columns are
    omitted, the least important first.
    """
    room, shown = console.width, list(columns)
    while _width(shown, FOLDED) > room and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    if title:
        console.print(title, style="italic", markup=False, highlight=False)
    if _width(shown, NARROW) > room:
        _records(console, columns)
        _legend(console, columns)
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    spare = room - sum(BETWEEN if column.text else column.width + BETWEEN for column in shown)
    wanted = [column.width for column in shown if column.text]
    for column in shown:
        if not column.text:
            table.add_column(column.heading, justify="right", no_wrap=True, min_width=column.width)
            continue
        width = (
            column.width
            if sum(wanted) <= spare
            else max(min(column.width, spare // len(wanted)), NARROW)
        )
        table.add_column(column.heading, overflow="fold", min_width=min(width, column.width))
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*cells)
    console.print(table)
    _legend(console, shown)
    left_out = [column.heading for column in columns if column not in shown]
    if left_out:
        note(console, f"no room for {', '.join(left_out)}{elsewhere and f': {elsewhere}'}")


def _legend(console: Console, columns: Sequence[Column]) -> None:
    meanings = [f"{column.heading}: {column.meaning}" for column in columns if column.meaning]
    if meanings:
        note(console, "; ".join(meanings))


def _width(columns: Sequence[Column], folded: int) -> int:
    return sum(
        min(column.width, folded) if column.text else column.width for column in columns
    ) + BETWEEN * len(columns)


def _records(console: Console, columns: Sequence[Column]) -> None:
    """Print each row as lines of heading and value."""
    others = columns[1:]
    width = max(cell_len(column.heading) for column in others)
    for name, *cells in zip(*(column.cells for column in columns), strict=True):
        console.print(name, style="bold", highlight=False, soft_wrap=True)
        for column, cell in zip(others, cells, strict=True):
            console.print(f"  {column.heading:{width}}  {cell}", highlight=False, soft_wrap=True)
    console.print()
