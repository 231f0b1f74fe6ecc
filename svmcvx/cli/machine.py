"""The commands about this installation: ``compile`` and ``doctor``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

import svmcvx
from svmcvx.cli import consoles
from svmcvx.cli.application import app
from svmcvx.solve import available_solvers


@app.command("compile")
def compile_(
    functions: Annotated[
        bool, typer.Option("--functions", help="Also tell the seconds of each compiled function.")
    ] = False,
) -> int:
    """Compile the specialised solvers ahead, so that no first call has to; later sessions on this machine load the result."""
    from svmcvx.fast.compile_ahead import compile_ahead

    calls = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), console=consoles.errors, transient=True
    ) as progress:
        task = progress.add_task("compiling", total=None)
        for call in compile_ahead():
            calls.append(call)
            progress.update(task, description=call.name)
    table = consoles.table()
    table.add_column("first call of")
    for heading in ("compiling, s", "the rest, s", "functions"):
        table.add_column(heading, justify="right")
    for call in calls:
        table.add_row(call.name, f"{call.compiling:.2f}", f"{call.running:.2f}", str(len(call.functions)))
    table.add_row(
        "all", f"{sum(call.compiling for call in calls):.2f}", f"{sum(call.running for call in calls):.2f}", ""
    )
    consoles.output.print(table)
    if functions:
        table = consoles.table()
        table.add_column("function", overflow="fold")
        table.add_column("s", justify="right")
        found = [function for call in calls for function in call.functions]
        for module, name, seconds in sorted(found, key=lambda function: -function.seconds):
            table.add_row(f"{module}.{name}", f"{seconds:.2f}")
        consoles.output.print(table)
    return 0


@app.command()
def doctor() -> int:
    """Show which solvers are installed, licensed, and able to do what."""
    title = f"svmcvx {svmcvx.__version__} on Python {sys.version.split()[0]}"
    table = consoles.table(title)
    for heading in ("solver", "version", "usable", "licence", "solves", "gap to expect"):
        table.add_column(heading, overflow="fold")
    hints = []
    for info in available_solvers():
        usable = "[green]yes[/]" if info.usable else "[red]no[/]"
        licence = info.licence if info.licence in ("not needed", "valid", "not tested") else "not valid"
        table.add_row(
            info.name, info.version or "not installed", usable, licence, ", ".join(info.classes), f"{info.accuracy:.0e}"
        )
        if not info.usable:
            hints.append(
                f"{info.name}: {info.install}" if not info.installed else f"{info.name} needs a licence: {info.licence}"
            )
    consoles.output.print(table)
    for hint in hints:
        consoles.output.print(hint, style="dim", markup=False, soft_wrap=True)
    return 0
