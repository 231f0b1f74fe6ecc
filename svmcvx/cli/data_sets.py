"""The command ``datasets``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from svmcvx.cli import consoles
from svmcvx.cli.application import app
from svmcvx.datasets import BUILT_IN, Record, known_sets
from svmcvx.datasets.loading import location
from svmcvx.errors import DataError


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="One set, to be told everything of it.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz data sets; the variable SVMCVX_DATA by default.")
    ] = None,
) -> int:
    """List the data sets of the papers: size, source, and where they are."""
    records = known_sets()
    if name is not None:
        if name not in records:
            raise DataError(f"no set of the papers is called {name!r}; 'svmcvx datasets' lists them")
        _print_one(records[name], data_dir)
        return 0
    table = consoles.table(f"{len(records)} data sets of the papers")
    table.add_column("name", no_wrap=True)
    for heading in ("rows", "columns", "classes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("source", "tables", "here"):
        table.add_column(heading, overflow="fold")
    for record in records.values():
        sizes = (
            ("—",) * 3 if record.rows is None else (str(record.rows), str(record.features), str(len(record.classes)))
        )
        table.add_row(
            record.name,
            *sizes,
            record.source or "—",
            ", ".join(paper.table for paper in record.papers),
            _where(record, data_dir),
        )
    consoles.output.print(table)
    consoles.output.print(
        f"Built in besides: {', '.join(BUILT_IN)}. 'svmcvx datasets NAME' tells more of one.",
        style="dim",
        markup=False,
        soft_wrap=True,
    )
    return 0


def _where(record: Record, data_dir: Path | None) -> str:
    found = location(record.name, data_dir)
    if found is not None:
        return str(found.parent)
    if record.unavailable:
        return "cannot be had"
    return "to download" if record.download is not None else "no address known"


def _print_one(record: Record, data_dir: Path | None) -> None:
    lines = {
        "title": record.title,
        "size": record.size,
        "classes": ", ".join(f"{label}: {count}" for label, count in record.classes.items()),
        "missing values": str(record.missing) if record.missing else "",
        "source": record.source,
        "page": record.page,
        "licence": record.licence,
        "note": record.note,
        "cannot be had": record.unavailable,
        "content (SHA-256)": record.content or "",
        "here": _where(record, data_dir),
        **{f"table {paper.table}, as {paper.printed}": paper.preprocessing for paper in record.papers},
    }
    for what, text in lines.items():
        if text:
            consoles.output.print(f"{what}: {text}", markup=False, highlight=False, soft_wrap=True)
