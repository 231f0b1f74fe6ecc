"""The numbers that the papers print, as they stand there."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from svmcvx.data import check_choice

FOLDER = Path(__file__).with_name("published")


def published_names() -> tuple[str, ...]:
    """Return the names of the tables that the package holds."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.csv")))


def published(name: str) -> pd.DataFrame:
    """Return a printed table; a cell that is empty there is NaN."""
    check_choice(name, "name", published_names())
    return pd.read_csv(FOLDER / f"{name}.csv")
