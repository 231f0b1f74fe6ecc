"""Where the commands print, and in which form."""

from __future__ import annotations

import math
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["errors", "number", "output", "table"]

# Output that goes to a file has a fixed width.
output = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)


def number(value: Any, form: str) -> str:
    """Return a number as text, a dash for one that is missing."""
    return "—" if value is None or (isinstance(value, float) and math.isnan(value)) else format(value, form)


def table(title: str | None = None) -> Table:
    """Return an empty table in the style of all commands."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
