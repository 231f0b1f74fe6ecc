"""The application that the commands belong to, and how it ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import svmcvx
from svmcvx.cli import consoles
from svmcvx.errors import DataError, SvmcvxError

__all__ = ["INTERRUPTED", "app", "check_writable", "run"]

INTERRUPTED = 130

app = typer.Typer(
    name="svmcvx",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Support vector machine formulations with a checked interval around every optimum.",
)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return 0, 1 if a model failed, 2 for bad arguments or data, 130 after Ctrl-C."""
    try:
        outcome = app(list(arguments), prog_name="svmcvx", standalone_mode=False)
    except SvmcvxError as error:
        consoles.errors.print(f"svmcvx: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        consoles.errors.print("svmcvx: interrupted", style="yellow")
        return INTERRUPTED
    except Exception as error:
        # Typer's usage errors: one line instead of a panel; anything else is a defect and keeps its traceback.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = message()
        if text:
            consoles.errors.print(
                f"svmcvx: {' '.join(text.split())} (see --help)", style="red", markup=False, soft_wrap=True
            )
        return int(getattr(error, "exit_code", 2))
    return outcome if isinstance(outcome, int) else 0


def _version(value: bool) -> None:
    if value:
        consoles.output.print(f"svmcvx {svmcvx.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Support vector machine formulations with a checked interval around every optimum."""


def check_writable(*paths: Path | None) -> None:
    """Raise before any model is fitted, rather than when the results are written."""
    for path in paths:
        if path is not None and (path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK))):
            raise DataError(f"{path} cannot be written; name a file in an existing folder")
