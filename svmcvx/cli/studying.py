"""The command ``study``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from svmcvx.cli import consoles
from svmcvx.cli.application import INTERRUPTED, app, check_writable
from svmcvx.experiments.studies import Study
from svmcvx.experiments.studies import study as run_study
from svmcvx.experiments.studies.files import read_study
from svmcvx.experiments.studies.report import check_report


@app.command()
def study(
    file: Annotated[Path, typer.Argument(help="The study as a TOML file: models, data sets, splits, grids.")],
    store: Annotated[
        Path | None,
        typer.Option(help="File of finished tasks, FILE.sqlite by default: an interrupted study goes on there."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write (extra study).")] = None,
    csv: Annotated[Path | None, typer.Option(help="File for the rows of all tasks.")] = None,
    latex: Annotated[Path | None, typer.Option(help="File for the table of the first metric, as LaTeX.")] = None,
    proofs: Annotated[
        Path | None, typer.Option(help="Folder for training data and a proof of each final fit; see verify.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz data sets; the variable SVMCVX_DATA by default.")
    ] = None,
    n_jobs: Annotated[int | None, typer.Option(help="Tasks at a time; -1 for all cores.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="loky, threading, or the address of a Dask scheduler, as in tcp://10.0.0.1:8786.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for everything.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do failed tasks of the store again.")] = False,
) -> int:
    """Compare models over data sets and repeated splits, each tuned inside its training part."""
    check_writable(report, csv, latex, store)
    if report is not None:
        check_report()
    title, arguments = read_study(file)
    given: dict[str, Any] = {
        "store": store,
        "proofs": proofs,
        "data_dir": data_dir,
        "n_jobs": n_jobs,
        "backend": backend,
        "time_limit": time_limit,
    }
    arguments |= {name: value for name, value in given.items() if value is not None}
    arguments.setdefault("store", file.with_suffix(".sqlite"))
    found = run_study(**arguments, retry_failed=retry_failed, progress=True)
    _print(title, found)
    if csv is not None:
        found.to_csv(csv)
    if latex is not None:
        found.to_latex(latex)
    if report is not None:
        found.report(report, title=title)
    for path in (csv, latex, report):
        if path is not None:
            consoles.output.print(f"Wrote {path}", soft_wrap=True)
    if not found.complete:
        consoles.errors.print("svmcvx: the study is not complete; the same command goes on with it", style="yellow")
        return INTERRUPTED
    return 1 if len(found.failures()) or found.left_out else 0


def _print(title: str, found: Study) -> None:
    for metric in found.metrics:
        table = consoles.table(f"{title}: {metric}, mean ± standard deviation")
        table.add_column("data set", overflow="fold")
        for model in found.models:
            table.add_column(model, justify="right", overflow="fold")
        for name, *cells in found.table(metric).itertuples():
            table.add_row(str(name), *(cell.replace(" ", "") for cell in cells))
        consoles.output.print(table)
    frame = found.frame
    certified, solves = found.solves()
    consoles.output.print(
        f"{len(frame)} tasks, {len(found.failures())} failed; {certified} of {solves} solves certified; "
        f"{frame['seconds'].sum():.1f} s of work",
        style="dim",
        markup=False,
    )
    for name, why in found.left_out.items():
        consoles.output.print(f"{name} is left out: {why}", style="dim", markup=False, soft_wrap=True)
    for note, part in found.failures().groupby("note", sort=False):
        consoles.output.print(f"{len(part)} failed: {note}", style="dim", markup=False, soft_wrap=True)
