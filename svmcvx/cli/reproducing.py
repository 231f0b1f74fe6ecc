"""The command ``reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from svmcvx.cli import consoles
from svmcvx.cli.application import INTERRUPTED, app, check_writable
from svmcvx.errors import DataError
from svmcvx.experiments.reproduction import Reproduction, reproducible
from svmcvx.experiments.reproduction import reproduce as run_table
from svmcvx.experiments.reproduction.figures import check_figures
from svmcvx.experiments.studies.report import check_report

# Columns of text.
TEXTS = ("dataset", "method", "outliers")


@app.command()
def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="A table of a paper; without one, those that can be computed.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A part of the table that takes little time.")] = False,
    repeats: Annotated[
        int | None, typer.Option(help="Repetitions, where numbers are means over some; those of the paper by default.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(help="Take every so manieth value of each grid of hyper-parameters; all by default.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="A data set, as the table prints it; may be repeated.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="File of finished fits (.sqlite): an interrupted run goes on there.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="File for the table.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write (extra study).")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures that go with the table, as SVG (extra plot).")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz data sets; the variable SVMCVX_DATA by default.")
    ] = None,
    n_jobs: Annotated[int | None, typer.Option(help="Fits at a time; -1 for all cores.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="loky, threading, or the address of a Dask scheduler, as in tcp://10.0.0.1:8786.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for everything.")] = None,
) -> int:
    """Compute a table of a paper again, beside the printed numbers: as its text says, and as the released code does."""
    if table is None:
        for name, title in reproducible().items():
            consoles.output.print(f"{name}: {title}", markup=False, highlight=False)
        return 0
    if table not in reproducible():
        raise DataError(f"table must be one of {', '.join(reproducible())}, got {table!r}")
    check_writable(csv, report, store)
    if report is not None:
        check_report()
    if figures is not None:
        check_figures(table, figures)
    found = run_table(
        table,
        quick=quick,
        repeats=repeats,
        every=every,
        sets=sets or None,
        data_dir=data_dir,
        store=store,
        backend=backend,
        n_jobs=n_jobs,
        progress=True,
        time_limit=time_limit,
    )
    _print(found)
    if csv is not None:
        found.to_csv(csv)
    if report is not None:
        found.report(report)
    drawn = [] if figures is None else found.figures(figures)
    for path in (csv, report, *drawn):
        if path is not None:
            consoles.output.print(f"Wrote {path}", soft_wrap=True)
    if not found.complete:
        advice = "pass --store to go on from there next time" if store is None else "the same command goes on with it"
        consoles.errors.print(f"svmcvx: the table is not complete; {advice}", style="yellow")
        return INTERRUPTED
    return 1 if len(found.study.failures()) or found.study.left_out else 0


def _print(found: Reproduction) -> None:
    frame = found.frame
    columns = [name for name in found.shown if name in frame]
    table = consoles.table(found.title)
    for name in columns:
        text = name.replace("as_", "").replace("_difference", " less published").replace("_", " ")
        table.add_column(text, justify="left" if name in TEXTS else "right")
    for values in frame[columns].itertuples(index=False):
        table.add_row(*map(_cell, values))
    consoles.output.print(table)
    for note in found.notes:
        consoles.output.print(note, style="dim", markup=False, highlight=False, soft_wrap=True)
    certified, solves = found.study.solves()
    seconds = found.study.frame["seconds"].sum()
    consoles.output.print(
        f"{certified} of {solves} solves certified; {seconds:.1f} s of work", style="dim", markup=False
    )
    for name, why in found.study.left_out.items():
        consoles.output.print(f"{name} is left out: {why}", style="dim", markup=False, soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return consoles.number(value, ".4g") if isinstance(value, float) else str(value)
