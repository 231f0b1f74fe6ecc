"""What commands print and write: tables and notes, and files as JSON, CSV, LaTeX and HTML.

Text of data and models is never taken for markup of rich.
"""

from __future__ import annotations

import json as json_text
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from svmcvx.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from svmcvx.datasets import Dataset

# Output to a file has a fixed width.
output = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)
# Takes the output that --quiet suppresses.
silent = Console(quiet=True)
# Version of the JSON files; a change of meaning raises it.
SCHEMA = 2
STANDARD_OUTPUT = Path("-")
# Headings of columns whose name says too little.
HEADINGS = {"compiling": "compiling, s", "running": "the rest, s"}


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line of plain text."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def sized(data: Dataset) -> str:
    """Return name, rows and columns of data."""
    return f"{data.name}: {data.X.shape[0]} × {data.X.shape[1]}"


def check_writable(*paths: Path | None) -> None:
    """Raise before any model is fitted, rather than when the results are written."""
    for path in paths:
        if path is None or path == STANDARD_OUTPUT:
            continue
        if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
            raise DataError(f"{path} cannot be written; name a file in an existing folder")


class Outputs:
    """The console and the files to which a command writes its results."""

    def __init__(self, command: str, given: Mapping[str, Any]) -> None:
        self.command, self.given = command, dict(given)
        self.json, self.csv, self.latex, self.html = (
            self.given.pop(kind) for kind in ("json", "csv", "latex", "html")
        )
        paths = (self.json, self.csv, self.latex)
        check_writable(*paths, self.html)
        if self.html == STANDARD_OUTPUT or paths.count(STANDARD_OUTPUT) > 1:
            raise DataError("only one of --json, --csv and --latex can go to the standard output")
        if self.html is not None:
            from svmcvx.experiments.reports import check_report

            check_report()
        quiet = self.given.pop("quiet") or STANDARD_OUTPUT in paths
        self.screen = silent if quiet else output

    def show(self, title: str | None, rows: Any, names: Sequence[str]) -> None:
        """Print columns of rows; texts are folded where the console is too narrow."""
        import pandas as pd

        from svmcvx.experiments.tables import is_words, texts

        frame = pd.DataFrame(rows, columns=list(names))
        shown = texts(frame).replace({"✓": "yes", "✗": "no"})
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for name in map(str, shown):
            words = name in frame and is_words(frame[name])
            heading = HEADINGS.get(name, name.removeprefix("param_").replace("_", "\n"))
            table.add_column(Text(heading), justify="left" if words else "right", no_wrap=not words)
        for cells in shown.to_numpy().tolist():
            table.add_row(*map(Text, cells))
        if title:
            say(self.screen, title, "italic")
        endless = self.screen.options.update(width=10 * self.screen.width)
        least = self.screen.measure(table, options=endless).minimum
        table.width = least if least > self.screen.width else None
        self.screen.print(table, crop=False)

    def note(self, text: str) -> None:
        """Print a line after a table."""
        say(self.screen, text, "dim")

    def write(
        self,
        title: str,
        frame: pd.DataFrame,
        content: Mapping[str, Any],
        *,
        complete: bool = True,
        data: Dataset | None = None,
    ) -> None:
        """Write the requested files, each atomically."""
        if reused := content.get("reused"):
            self.note(f"{reused} rows taken from the file of --store")
        if self.json is not None:
            from svmcvx.experiments.reports import versions
            from svmcvx.experiments.store import plain

            whole = {"schema": SCHEMA, "command": self.command, "versions": versions()}
            whole |= {"complete": complete, "settings": self.given, **content}
            if data is not None:
                whole["data"] = described(data)
            text = json_text.dumps(plain(whole), indent=1, ensure_ascii=False, default=str)
            self._text(self.json, f"{text}\n")
        if self.csv is not None:
            self._text(self.csv, frame.rename(columns=safe_cell).map(safe_cell).to_csv(index=False))
        if self.latex is not None:
            from svmcvx.experiments.tables import latex_frame

            self._text(self.latex, latex_frame(frame))
        if self.html is not None:
            from svmcvx.experiments.reports import report

            report(self.html, None, {title: frame}, title=title)
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
        say(self.screen, f"Wrote {path}")


def described(data: Dataset) -> dict[str, Any]:
    """Return name, size, classes and digest of data."""
    import numpy as np

    from svmcvx.datasets.registry import content_digest, label_text

    labels, counts = np.unique(label_text(data.y), return_counts=True)
    return {
        "name": data.name,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "classes": dict(zip(labels.tolist(), counts.tolist(), strict=True)),
        "sha256": content_digest(data.X, data.y),
    }


def safe_cell(value: Any) -> Any:
    """Return a cell of a CSV file so that no spreadsheet takes its text for a formula."""
    if not isinstance(value, str) or not re.match(r"[=@\t\r]|[+-](?![\w\s.,+-]*\Z)", value):
        return value
    return f"'{value}"
