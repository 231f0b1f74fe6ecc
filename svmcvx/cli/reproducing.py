"""The command ``reproduce``."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svmcvx.cli import consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column
from svmcvx.cli.outputs import Outputs, check_writable
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.papers import Reproduction


def _tables(incomplete: str) -> list[str]:
    """Return the names of tables for the shell."""
    from svmcvx.papers import reproducible

    return [name for name in reproducible() if name.startswith(incomplete)]


# Columns of text.
TEXTS = ("dataset", "method", "outliers")
# Ends of the names of columns that are omitted first if there is no room.
RANKS = {"_difference": 4, "_within_noise": 3, "_C": 2, "_range": 1}


@app.command()
def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table of a paper; without one, those that can be computed.",
            metavar="TABLE",
            autocompletion=_tables,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A part of the table that takes little time.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Repetitions, where numbers are means over some; those of the paper by default."
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            help="Take every N-th value of each grid of hyper-parameters; all by default.",
            metavar="N",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="A data set, as the table prints it; may be repeated."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Folder for the figures that go with the table, as SVG (extra plot)."),
    ] = None,
    certify: options.Certify = "chosen",
    data_dir: options.DataDir = None,
    time_limit: options.TimeLimit = None,
    n_jobs: options.NJobs = None,
    backend: options.Backend = None,
    store: options.Store = None,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help=(
                "File for what the table was computed with, as JSON: options, versions, commit,"
                " data, solves."
            ),
            rich_help_panel="Output",
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> int:
    """Compute a table of a paper again, beside the printed numbers: as its text says, and as the
    released code does.
    """
    outputs = Outputs(json, csv, latex, html, quiet)
    check_writable(store)
    check_writable(record)
    from svmcvx.papers import reproduce as run_table
    from svmcvx.papers import reproducible, write_figures, write_report
    from svmcvx.system import clock

    known = reproducible()
    if table is None:
        _list(outputs, known)
        return exit_code(complete=True, late=False, failed=False)
    if table not in known:
        raise DataError(f"table must be one of {', '.join(known)}, got {table!r}")
    if figures is not None:
        from svmcvx.papers.figures import check_figures

        check_figures(table, figures)
    began = clock.now()
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message=".* tasks: the result holds these")
        found = run_table(
            table,
            quick=quick,
            repeats=repeats,
            every=every,
            sets=sets or None,
            certify=certify,
            data_dir=data_dir,
            store=store,
            backend=backend,
            n_jobs=n_jobs,
            progress=not quiet,
            time_limit=time_limit,
        )
    late = not found.complete and time_limit is not None and clock.now() - began >= time_limit
    _print(outputs, found)
    preparing.tell_reused(outputs, found.study.reused, "task")
    content = {
        "complete": found.complete,
        "table": table,
        "title": found.title,
        "quick": quick,
        "certify": certify,
        "notes": found.notes,
        "rows": found.frame.to_dict("records"),
        "study": found.study.contents(),
    }
    outputs.write(
        "reproduce", found.frame, content, title=found.title, html=partial(write_report, found)
    )
    for path in [] if figures is None else write_figures(found, figures):
        outputs.wrote(path)
    if record is not None:
        found.to_record(record)
        outputs.wrote(record)
    if not found.complete:
        advice = (
            "pass --store FILE to go on from there next time"
            if store is None
            else "the same command goes on with it"
        )
        consoles.errors.print(f"svmcvx: the table is not complete; {advice}", style="yellow")
    failed = len(found.study.failures()) > 0 or bool(found.study.left_out)
    return exit_code(complete=found.complete, late=late, failed=failed)


def _list(outputs: Outputs, known: dict[str, str]) -> None:
    import pandas as pd

    for name, title in known.items():
        outputs.screen.print(f"{name}: {title}", markup=False, highlight=False, soft_wrap=True)
    rows = [{"table": name, "title": title} for name, title in known.items()]
    outputs.write(
        "reproduce",
        pd.DataFrame(rows),
        {"complete": True, "rows": rows},
        title="Tables of the papers",
    )


def _print(outputs: Outputs, found: Reproduction) -> None:
    from svmcvx.experiments.intervals import with_intervals

    frame = with_intervals(found.frame)
    columns = []
    for name in (name for name in found.shown if name in frame):
        text = name.replace("as_", "").replace("_difference", " less published").replace("_", " ")
        rank = next((rank for end, rank in RANKS.items() if name.endswith(end)), 0)
        columns.append(Column(text, list(map(_cell, frame[name])), rank, text=name in TEXTS))
    consoles.show(outputs.screen, found.title, columns, elsewhere=outputs.elsewhere)
    for note in found.notes:
        consoles.note(outputs.screen, note)
    certified, solves = found.study.solves()
    seconds = found.study.frame["seconds"].sum()
    consoles.note(
        outputs.screen, f"{certified} of {solves} solves certified; {seconds:.1f} s of work"
    )
    for name, why in found.study.left_out.items():
        consoles.note(outputs.screen, f"{name} is left out: {why}")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        consoles.number(value, ".4g") if value is None or isinstance(value, float) else str(value)
    )
