"""The files that a command writes: its table as CSV, LaTeX and HTML, and everything as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from svmcvx.cli import consoles
from svmcvx.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from svmcvx.datasets import Dataset

__all__ = ["SCHEMA", "Outputs", "check_writable", "described"]

# Of the JSON files; a change of meaning raises it.
SCHEMA = 1
STANDARD_OUTPUT = Path("-")


def check_writable(*paths: Path | None) -> None:
    """Raise before any model is fitted, rather than when the results are written."""
    for path in paths:
        if path is None or path == STANDARD_OUTPUT:
            continue
        if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
            raise DataError(f"{path} cannot be written; name a file in an existing folder")


def described(data: Dataset) -> dict[str, Any]:
    """Return name, size, classes and digest of the data that were loaded."""
    import numpy as np

    from svmcvx.datasets.content import content_digest, label_text

    labels, counts = np.unique(label_text(data.y), return_counts=True)
    return {
        "name": data.name,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "classes": dict(zip(labels.tolist(), counts.tolist(), strict=True)),
        "sha256": content_digest(data.X, data.y),
    }


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
            raise DataError(
                "only one of --json, --csv and --latex can go to the standard output, -"
            )
        if self.html is not None:
            from svmcvx.experiments.studies.report import check_report

            check_report()

    @property
    def screen(self) -> Console:
        """Where tables go: nowhere with --quiet, or if a file is written to the standard output."""
        taken = STANDARD_OUTPUT in (self.json, self.csv, self.latex)
        return consoles.silent if self.quiet or taken else consoles.output

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
            self._text(self.json, _json(command, content))
        if self.csv is not None:
            self._text(self.csv, frame.to_csv(index=False))
        if self.latex is not None:
            from svmcvx.experiments.tables import latex_frame

            self._text(self.latex, latex_frame(frame) if latex is None else latex())
        if self.html is not None:
            if html is None:
                from svmcvx.experiments.studies.report import report

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
        self.screen.print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _json(command: str, content: Mapping[str, Any]) -> str:
    from svmcvx.experiments.store import plain
    from svmcvx.experiments.studies.environment import versions

    whole = {"schema": SCHEMA, "command": command, "versions": versions(), **content}
    return json.dumps(plain(whole), indent=1, ensure_ascii=False) + "\n"
