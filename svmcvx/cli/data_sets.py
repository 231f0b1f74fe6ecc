"""The command ``datasets``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svmcvx.cli import completion, consoles, options
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column
from svmcvx.cli.outputs import Outputs
from svmcvx.datasets.names import BUILT_IN
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.datasets import Record


@app.command()
def datasets(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One set, to be told everything of it.",
            metavar="NAME",
            autocompletion=completion.sets,
        ),
    ] = None,
    data_dir: options.DataDir = None,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """List the data sets of the papers: size, source, and where they are."""
    outputs = Outputs(json, csv, latex, html, quiet)
    import pandas as pd

    from svmcvx.datasets import known_sets

    records = known_sets()
    if name is not None:
        if name not in records:
            raise DataError(
                f"no set of the papers is called {name!r}; 'svmcvx datasets' lists them"
            )
        _print_one(outputs, records[name], data_dir)
        records = {name: records[name]}
    else:
        _print_all(outputs, list(records.values()), data_dir)
    rows = [_row(record, data_dir) for record in records.values()]
    content = {"complete": True, "built_in": BUILT_IN, "rows": rows}
    outputs.write("datasets", pd.DataFrame(rows), content, title="Data sets of the papers")
    return exit_code(complete=True, late=False, failed=False)


def _row(record: Record, data_dir: Path | None) -> dict[str, Any]:
    return {
        "name": record.name,
        "title": record.title,
        "rows": record.rows,
        "features": record.features,
        "classes": len(record.classes) or None,
        "missing": record.missing,
        "source": record.source,
        "tables": ", ".join(paper.table for paper in record.papers),
        "sha256": record.content,
        "here": _where(record, data_dir),
    }


def _print_all(outputs: Outputs, records: list[Record], data_dir: Path | None) -> None:
    def size(value: int | None) -> str:
        return consoles.number(value, "d")

    columns = [
        Column("name", [record.name for record in records], text=True),
        Column("rows", [size(record.rows) for record in records]),
        Column("columns", [size(record.features) for record in records]),
        Column("classes", [size(len(record.classes) or None) for record in records], rank=2),
        Column("source", [record.source or "—" for record in records], rank=3, text=True),
        Column(
            "tables",
            [", ".join(paper.table for paper in record.papers) for record in records],
            rank=1,
            text=True,
        ),
        Column("here", [_where(record, data_dir) for record in records], text=True),
    ]
    consoles.show(
        outputs.screen,
        f"{len(records)} data sets of the papers",
        columns,
        elsewhere=outputs.elsewhere,
    )
    consoles.note(
        outputs.screen,
        f"Built in besides: {', '.join(BUILT_IN)}. 'svmcvx datasets NAME' describes one.",
    )


def _where(record: Record, data_dir: Path | None) -> str:
    from svmcvx.datasets.loading import location

    found = location(record.name, data_dir)
    if found is not None:
        return str(found.parent)
    if record.unavailable:
        return "cannot be had"
    return "to download" if record.download is not None else "no address known"


def _print_one(outputs: Outputs, record: Record, data_dir: Path | None) -> None:
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
        **{
            f"table {paper.table}, as {paper.printed}": paper.preprocessing
            for paper in record.papers
        },
    }
    for what, text in lines.items():
        if text:
            outputs.screen.print(f"{what}: {text}", markup=False, highlight=False, soft_wrap=True)
