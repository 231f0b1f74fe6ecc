"""The application that the commands belong to, and how it ends."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Annotated, Any

import typer

import svmcvx
from svmcvx.cli import completion, screen, signatures
from svmcvx.cli.screen import Outputs
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
    if os.environ.get("_SVMCVX_COMPLETE") == "complete_bash":
        completion.in_bash(lambda: app(list(arguments), prog_name="svmcvx"))
        return ExitCode.DONE
    with _warnings_as_lines(arguments):
        try:
            outcome = app(list(arguments), prog_name="svmcvx", standalone_mode=False)
        except SvmcvxError as error:
            _complain(_spelled(" ".join(str(error).split()), _options(arguments)))
            return ExitCode.UNUSABLE
        except (KeyboardInterrupt, typer.Abort):
            # As versions of typer that do not end with the code of Ctrl-C have it.
            outcome = int(ExitCode.INTERRUPTED)
        except BrokenPipeError:
            # The reader of the output, such as head, has closed the pipe.
            _close_output()
            return ExitCode.DONE
        except Exception as error:
            # Typer's usage errors are printed on one line instead of a panel; any other exception
            # is a defect and keeps its traceback.
            message = getattr(error, "format_message", None)
            if message is None:
                raise
            if text := " ".join(message().replace("Value error, ", "").split()):
                if "extra argument" in text:
                    text += "; the values of one option are separated by commas, without blanks"
                _complain(f"{text} (see --help)")
            return int(getattr(error, "exit_code", ExitCode.UNUSABLE))
    if outcome == ExitCode.INTERRUPTED and not isinstance(outcome, ExitCode):
        # Typer raises this for a command that ended early.
        screen.say(screen.errors, "svmcvx: interrupted", "yellow")
    return outcome if isinstance(outcome, int) else ExitCode.DONE


def exit_code(*, complete: bool = True, late: bool = False, failed: bool = False) -> ExitCode:
    """Return the exit code of a command that has come to its end."""
    if not complete:
        return ExitCode.TIME_OVER if late else ExitCode.INTERRUPTED
    return ExitCode.FAILED if failed else ExitCode.DONE


class Given(dict[str, Any]):
    """The arguments of a command by name, also as attributes; `out` has its files."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def of(self, names: str) -> dict[str, Any]:
        """Return some of the arguments."""
        return {name: self[name] for name in names.split()}


def command(
    name: str, *groups: Callable[..., Any], like: Mapping[tuple[str, str], str] | None = None
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register a command with its own arguments, those of groups, and some of those of public
    functions: names by (module, function).
    """

    def register(run: Callable[..., int]) -> Callable[..., int]:
        own = list(signatures.own_arguments(run))
        found = {one.name: one for group in groups for one in signatures.own_arguments(group)}
        for (module, function), names in (like or {}).items():
            _, known = signatures.arguments_of(module, function)
            found |= {name: known[name] for name in names.split()}
        found |= {one.name: one for one in own}
        # Its own arguments come first, those without a name among them.
        order = [*(one.name for one in own), *found]
        parameters = [signatures.parameter(found[name]) for name in dict.fromkeys(order)]
        parameters.sort(key=lambda one: one.default is not inspect.Parameter.empty)

        def call(**given: Any) -> int:
            files = ("json", "csv", "latex", "html", "quiet")
            out = Outputs(**{file: given[file] for file in files if file in given})
            return run(Given(given, out=out), **{one.name: given[one.name] for one in own})

        call.__doc__ = (inspect.getdoc(run) or "").partition("\nParameters\n---")[0]
        call.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": int}
        app.command(name)(call)
        return run

    return register


def _complain(text: str) -> None:
    screen.say(screen.errors, f"svmcvx: {text}", "red")


def _close_output() -> None:
    """Redirect the standard output to the null device, so that Python does not fail when it flushes
    it at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_as_lines(arguments: Sequence[str]) -> Iterator[None]:
    """Print warnings that are meant for users as lines, without the place in our source."""

    def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _spelled(" ".join(str(message).split()), _options(arguments))
        screen.say(screen.errors, f"svmcvx: {text}", "yellow")

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


def _options(arguments: Sequence[str]) -> Mapping[str, str]:
    """Return the options of the command that was called, by the names of the arguments in Python."""
    commands: Mapping[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    command = next((commands[word] for word in arguments if word in commands), None)
    return {} if command is None else {param.name: param.opts[0] for param in command.params}


def _spelled(message: str, options: Mapping[str, str]) -> str:
    """Return a message with arguments spelled as they are on the command line: data_dir as
    --data-dir.
    """
    # What follows may be parameters of an estimator.
    message, has, rest = message.partition("; it has ")
    for name, option in options.items():
        if not option.startswith("--"):
            continue
        message = re.sub(rf"(?<![\w.-]){name}=\[([^\]]*)\]", partial(_repeated, option), message)
        if len(name) > 1:  # one letter may be a hyper-parameter in the text of a model
            message = re.sub(rf"(?<![\w.:,-]){name}=(['\"]?)([\w.+-]+)\1", rf"{option} \2", message)
        if "_" in name:
            message = re.sub(rf"(?<![\w./-]){name}(?![\w=/-])", option, message)
        else:
            # Most names are words of the language too.
            message = re.sub(
                rf"^{name}(?= (must|cannot|has|is|names|needs|sets)\b)", option, message
            )
            message = re.sub(
                rf"(?<=\b(?:pass|with) ){name}(?=$|[,;])|(?<=\bby ){name}(?=$|[,;])",
                option,
                message,
            )
    return message + has + rest


def _repeated(option: str, found: re.Match[str]) -> str:
    """Return an option for each of several quoted values."""
    return " ".join(
        f"{option} {shlex.quote(value)}" for _, value in re.findall(r"(['\"])(.*?)\1", found[1])
    )


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
