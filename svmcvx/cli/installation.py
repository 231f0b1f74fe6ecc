"""The commands about this installation: ``compile`` and ``doctor``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

import svmcvx
from svmcvx.cli import consoles, options
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column, yes_no
from svmcvx.cli.outputs import Outputs

if TYPE_CHECKING:
    from svmcvx.fast.compile_ahead import FirstCall

# Groups of first calls; calls of one group share most of the compiled functions. The slowest groups
# come first.
GROUPS = ("kernel", "linear", "branch", "sweep", "active")


def _first_calls(group: str) -> list[FirstCall]:
    from svmcvx.fast.compile_ahead import first_calls

    return first_calls(group)


def _compile_ahead() -> Iterator[FirstCall]:
    """Yield the first calls of all solvers, made in as many processes as there are cores."""
    import joblib

    workers = min(joblib.cpu_count(), len(GROUPS))
    # The processes are started before this one imports the solvers.
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    for found in parallel(joblib.delayed(_first_calls)(group) for group in GROUPS):
        yield from found


@app.command("compile")
def compile_(
    functions: Annotated[
        bool, typer.Option("--functions", help="Also tell the seconds of each compiled function.")
    ] = False,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Compile the specialised solvers ahead, so that no first call has to; later sessions on this
    machine load the result.
    """
    outputs = Outputs(json, csv, latex, html, quiet)
    import pandas as pd
    from rich.progress import SpinnerColumn, TextColumn

    calls = []
    with consoles.progress(
        SpinnerColumn(), TextColumn("{task.description}"), quiet=quiet
    ) as progress:
        task = progress.add_task("compiling", total=None)
        for call in _compile_ahead():
            calls.append(call)
            progress.update(task, description=call.name)
    compiling, running = (
        [getattr(call, name) for call in calls] for name in ("compiling", "running")
    )
    columns = [
        Column("first call of", [*(call.name for call in calls), "all"], text=True),
        Column("compiling, s", [f"{seconds:.2f}" for seconds in (*compiling, sum(compiling))]),
        Column("the rest, s", [f"{seconds:.2f}" for seconds in (*running, sum(running))]),
        Column("functions", [*(str(len(call.functions)) for call in calls), ""]),
    ]
    consoles.show(outputs.screen, None, columns)
    found = sorted(
        (function for call in calls for function in call.functions),
        key=lambda function: -function.seconds,
    )
    if functions and found:
        columns = [
            Column("function", [f"{module}.{name}" for module, name, _ in found], text=True),
            Column("s", [f"{seconds:.2f}" for _, _, seconds in found]),
        ]
        consoles.show(outputs.screen, None, columns)
    rows = [
        {
            "call": call.name,
            "compiling_seconds": call.compiling,
            "other_seconds": call.running,
            "functions": len(call.functions),
        }
        for call in calls
    ]
    content = {
        "complete": True,
        "rows": rows,
        "functions": [
            {"module": module, "name": name, "seconds": seconds} for module, name, seconds in found
        ],
    }
    outputs.write("compile", pd.DataFrame(rows), content, title="Compiled ahead")
    return exit_code(complete=True, late=False, failed=False)


@app.command()
def doctor(
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Show which solvers are installed, licensed, and able to do what."""
    outputs = Outputs(json, csv, latex, html, quiet)
    import pandas as pd

    from svmcvx.solve import available_solvers

    found = available_solvers()
    simple = ("not needed", "valid", "size-limited", "not tested")
    columns = [
        Column("solver", [info.name for info in found], text=True),
        Column("version", [info.version or "not installed" for info in found], rank=2),
        Column("usable", [yes_no(info.usable) for info in found]),
        Column(
            "licence",
            [info.licence if info.licence in simple else "not valid" for info in found],
            rank=1,
        ),
        Column("solves", [", ".join(info.classes) for info in found], text=True),
        Column("gap to expect", [f"{info.accuracy:.0e}" for info in found], rank=3),
    ]
    title = f"svmcvx {svmcvx.__version__} on Python {sys.version.split()[0]}"
    consoles.show(outputs.screen, title, columns, elsewhere=outputs.elsewhere)
    for info in found:
        if not info.usable:
            hint = (
                f"{info.name} needs a licence: {info.licence}"
                if info.installed
                else f"{info.name}: {info.install}"
            )
            consoles.note(outputs.screen, hint)
    rows = [
        {
            "solver": info.name,
            "installed": info.installed,
            "usable": info.usable,
            "version": info.version,
            "licence": info.licence,
            "classes": ", ".join(info.classes),
            "accuracy": info.accuracy,
            "install": info.install,
        }
        for info in found
    ]
    outputs.write("doctor", pd.DataFrame(rows), {"complete": True, "rows": rows}, title=title)
    return exit_code(complete=True, late=False, failed=False)
