"""What commands print and write: tables and notes, and files as JSON, CSV, LaTeX and HTML.

Text of data and models is never taken for markup of rich.
"""

from __future__ import annotations

import json as json_text
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from svmcvx.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

# Output to a file has a fixed width.
output = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)
# Takes what --quiet keeps from the screen.
silent = Console(quiet=True)
# Least width of a folded column of text before other columns are omitted, and afterwards;
# characters between two columns, and at the two edges together.
FOLDED, NARROW, BETWEEN = 24, 12, 2
MARKS = {True: Text("yes", "green"), False: Text("no", "red"), None: Text("—")}
# Of the JSON files; a change of meaning raises it.
SCHEMA = 1
STANDARD_OUTPUT = Path("-")


def number(value: Any, form: str) -> str:
    """Return a number as text, a dash for a missing number."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "—" if missing else format(value, form)


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line of plain text."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def note(console: Console, text: str) -> None:
    """Print a line after a table."""
    wrap = not console.is_terminal
    console.print(text, style="dim", markup=False, highlight=False, soft_wrap=wrap)


@dataclass(frozen=True)
class Column:
    """A column of a table: texts, or True, False and None, which are printed as yes and no."""

    heading: str
    cells: Sequence[Any]
    rank: int = 0
    text: bool = False
    meaning: str = ""

    @property
    def shown(self) -> list[Text]:
        """The cells as they are printed."""
        return [Text(cell) if isinstance(cell, str) else MARKS[cell] for cell in self.cells]

    @property
    def width(self) -> int:
        """Characters that it takes unfolded."""
        return max(cell_len(self.heading), *(cell_len(cell.plain) for cell in self.shown), 1)


# Heading, format, importance (the greatest number is omitted first) and meaning of columns by their
# names; a format "text" is text, "mark" yes and no.
COLUMNS = """
model | model | text | 0
solver | solver | text | 2
gap | gap | .1e | 0 | relative
certified | certified | mark | 1
test | test | .4f | 0 | accuracy held out
exact | exact | text | 0 | score of every optimal machine
undecided | undecided | .4f | 6 | share of rows whose label is not proved
n_support | SVs | .4g | 4 | support vectors
seconds | s | .2f | 3 | seconds
mean_test_score | mean | .4f | 0 | score over the folds
std_test_score | sd | .4f | 1 | its standard deviation
may_be_best | may be best | mark | 1
low | from | text | 0
high | to | text | 0
least | least | d | 0 | errors of every optimal machine, at least
most | most | d | 0 | and at most
classes | classes | text | 0
lower | lower | .10g | 0 | bound on the optimum
upper | upper | .10g | 0 | objective at the model
call | first call of | text | 0
compiling_seconds | compiling, s | .2f | 0
other_seconds | the rest, s | .2f | 0
functions | functions | d | 0
name | function | text | 0
version | version | text | 2
usable | usable | mark | 0
licence | licence | text | 1
solves | solves | text | 0
accuracy | gap to expect | .0e | 3
"""
_KNOWN = {line.split(" | ")[0]: line.split(" | ")[1:] for line in COLUMNS.strip().splitlines()}


def columns_of(rows: Iterable[Mapping[str, Any]], names: str | Iterable[str]) -> list[Column]:
    """Return columns of rows by their names; one that is not listed is a score, or text."""
    listed, found = list(rows), []
    for name in names.split() if isinstance(names, str) else names:
        cells = [row[name] for row in listed]
        text = name.startswith("param_")
        other = [name.removeprefix("param_"), "text" if text else ".4f", "0"]
        heading, form, rank, *meaning = _KNOWN.get(name, other)
        if form == "text":
            cells = [short(cell) for cell in cells]
        elif form == "mark":
            cells = [None if cell is None or cell != cell else bool(cell) for cell in cells]
        else:
            cells = [number(cell, form) for cell in cells]
        found.append(Column(heading, cells, int(rank), form == "text", *meaning))
    return found


def short(value: Any) -> str:
    """Return a value as text, numbers with six digits."""
    return "—" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


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
        heading = escape(column.heading)
        if not column.text:
            table.add_column(heading, justify="right", no_wrap=True, min_width=column.width)
            continue
        width = column.width
        if sum(wanted) > spare:
            width = max(min(width, spare // len(wanted)), NARROW)
        table.add_column(heading, overflow="fold", min_width=min(width, column.width))
    for cells in zip(*(column.shown for column in shown), strict=True):
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
    widths = [min(column.width, folded) if column.text else column.width for column in columns]
    return sum(widths) + BETWEEN * len(columns)


def _records(console: Console, columns: Sequence[Column]) -> None:
    """Print each row as lines of heading and value."""
    others = columns[1:]
    width = max(cell_len(column.heading) for column in others)
    for name, *cells in zip(*(column.shown for column in columns), strict=True):
        console.print(name, style="bold", highlight=False, soft_wrap=True)
        for column, cell in zip(others, cells, strict=True):
            line = Text.assemble(f"  {column.heading:{width}}  ", cell)
            console.print(line, highlight=False, soft_wrap=True)
    console.print()


# Files


def check_writable(*paths: Path | None) -> None:
    """Raise before any model is fitted, rather than when the results are written."""
    for path in paths:
        if path is None or path == STANDARD_OUTPUT:
            continue
        if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
            raise DataError(f"{path} cannot be written; name a file in an existing folder")


@dataclass(frozen=True)
class Outputs:
    """Files to which a command writes its results."""

    json: Path | None = None
    csv: Path | None = None
    latex: Path | None = None
    html: Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        paths = (self.json, self.csv, self.latex)
        check_writable(*paths, self.html)
        if self.html == STANDARD_OUTPUT:
            raise DataError("--html must name a file, got -")
        if sum(path == STANDARD_OUTPUT for path in paths) > 1:
            raise DataError("only one of --json, --csv and --latex can go to the standard output")
        if self.html is not None:
            from svmcvx.experiments.reports import check_report

            check_report()

    @property
    def screen(self) -> Console:
        """Where tables go: nowhere with --quiet, or if a file is written to the standard output."""
        taken = STANDARD_OUTPUT in (self.json, self.csv, self.latex)
        return silent if self.quiet or taken else output

    @property
    def elsewhere(self) -> str:
        """Where columns can be found for which a table has no room."""
        return "--csv FILE has all columns" if self.csv is None else f"{self.csv} has all columns"

    def write(
        self,
        command: str,
        frame: pd.DataFrame,
        content: Mapping[str, Any],
        *,
        title: str,
        latex: Callable[[], str] | None = None,
        html: Callable[[Path], object] | None = None,
    ) -> None:
        """Write the requested files, each atomically."""
        if self.json is not None:
            from svmcvx.experiments.reports import versions
            from svmcvx.experiments.store import plain

            whole = {"schema": SCHEMA, "command": command, "versions": versions(), **content}
            text = json_text.dumps(plain(whole), indent=1, ensure_ascii=False)
            self._text(self.json, f"{text}\n")
        if self.csv is not None:
            self._text(self.csv, frame.rename(columns=safe_cell).map(safe_cell).to_csv(index=False))
        if self.latex is not None:
            from svmcvx.experiments.tables import latex_frame

            self._text(self.latex, latex_frame(frame) if latex is None else latex())
        if self.html is not None:
            if html is None:
                from svmcvx.experiments.reports import report

                report(self.html, None, {title: frame}, title=title)
            else:
                html(self.html)
            self.wrote(self.html)

    def _text(self, path: Path, text: str) -> None:
        from svmcvx.system.files import atomic_write

        if path == STANDARD_OUTPUT:
            sys.stdout.write(text)
            return
        with atomic_write(path) as stream:
            stream.write(text.encode())
        self.wrote(path)

    def wrote(self, path: Path) -> None:
        """Print that a file was written."""
        say(self.screen, f"Wrote {path}")

    def tell_reused(self, reused: int, what: str) -> None:
        """Print how much of the work was found in the file of ``--store``."""
        if reused:
            what = f"{what}{'s' if reused > 1 else ''}"
            note(self.screen, f"{reused} {what} taken from the file of --store")


def safe_cell(value: Any) -> Any:
    """Return a cell of a CSV file so that no spreadsheet takes its text for a formula."""
    if not isinstance(value, str) or not re.match(r"[=@\t\r]|[+-](?![\w\s.,+-]*\Z)", value):
        return value
    return f"'{value}"
