"""The application that the commands belong to, and how it ends."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any

import typer

import svmcvx
from svmcvx.cli import screen
from svmcvx.cli.signatures import Argument, arguments_of, own_arguments, parameter
from svmcvx.errors import SvmcvxError


class ExitCode(IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    UNUSABLE = 2
    TIME_OVER = 3
    INTERRUPTED = 130


app = typer.Typer(
    name="svmcvx",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Support vector machine formulations with a checked interval around every optimum.",
    epilog=(
        "Exit codes: 0 all was done; 1 something failed or does not hold; 2 arguments or data"
        " cannot be used; 3 a time limit ended it; 130 Ctrl-C ended it."
    ),
)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    with warnings.catch_warnings():
        # Warnings are printed as lines, without the place in the source.
        warnings.showwarning = lambda message, *_, **__: _complain(str(message), "yellow")
        try:
            outcome = app(list(arguments), prog_name="svmcvx", standalone_mode=False)
        except SvmcvxError as error:
            _complain(str(error))
            return ExitCode.UNUSABLE
        except (KeyboardInterrupt, typer.Abort):
            # Some versions of typer return the code of Ctrl-C instead.
            outcome = int(ExitCode.INTERRUPTED)
        except BrokenPipeError:
            # The reader of the output, such as head, has closed the pipe; Python flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.DONE
        except Exception as error:
            # Usage errors of typer are printed on one line; any other exception is a defect.
            if not hasattr(error, "format_message"):
                raise
            if text := " ".join(error.format_message().split()):
                _complain(f"{text} (see --help)")
            return int(getattr(error, "exit_code", ExitCode.UNUSABLE))
    if outcome == ExitCode.INTERRUPTED and not isinstance(outcome, ExitCode):
        _complain("interrupted", "yellow")
    return outcome if isinstance(outcome, int) else ExitCode.DONE


def exit_code(*, complete: bool = True, late: bool = False, failed: bool = False) -> ExitCode:
    """Return the exit code of a command that has come to its end."""
    if not complete:
        return ExitCode.TIME_OVER if late else ExitCode.INTERRUPTED
    return ExitCode.FAILED if failed else ExitCode.DONE


class Given(dict[str, Any]):
    """The arguments of a command by name, also as attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def of(self, names: str) -> dict[str, Any]:
        return {name: self[name] for name in names.split()}


def command(
    name: str, shared: Sequence[Argument], like: Mapping[str, str] | None = None
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register a command with its own, shared, and functions' arguments (``"module:function"``)."""

    def register(run: Callable[..., int]) -> Callable[..., int]:
        own = own_arguments(run)
        found = {**own, **{one.name: one for one in shared}}
        for function, names in (like or {}).items():
            known = arguments_of(function)
            found |= {one: known[one] for one in names.split()}
        parameters = [parameter(one) for one in (found | own).values()]
        parameters.sort(key=lambda one: one.default is not inspect.Parameter.empty)

        def call(**given: Any) -> int:
            return run(Given(given), **{one: given[one] for one in own})

        call.__doc__ = (inspect.getdoc(run) or "").partition("\nParameters\n---")[0]
        call.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": int}
        app.command(name)(call)
        return run

    return register


def _complain(text: str, style: str = "red") -> None:
    """Print an error or a warning on one line, with names of arguments spelled as options."""
    commands: Mapping[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    spelled = [(p.name, p.opts[0]) for one in commands.values() for p in one.params]
    options = {name: option for name, option in spelled if option.startswith("--")}
    names = "|".join(options)
    lists = re.compile(r"(?<==)\['([^]]*)'\]")
    text = lists.sub(lambda found: repr(found[1].replace("', '", ",")), " ".join(text.split()))
    for pattern in (
        rf"(?<![\w.:,(-])({names})='([^']*)'",
        rf"^({names})(?= (?:must|cannot|has|names|needs|sets)\b)()",
        rf"(?:(?<=neither )|(?<=path or ))({names})()",
    ):
        text = re.sub(pattern, lambda found: f"{options[found[1]]} {found[2]}".rstrip(), text)
    screen.say(screen.errors, f"svmcvx: {text}", style)


def _version(value: bool) -> None:
    if value:
        screen.say(screen.output, f"svmcvx {svmcvx.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Support vector machine formulations with a checked interval around every optimum."""
