"""The command ``race``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from svmcvx.cli import consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column
from svmcvx.cli.outputs import Outputs, check_writable
from svmcvx.cli.referee.library import Part, chosen_instances
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.racing import Race

__all__ = ["race"]


@app.command()
def race(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "Words that the number, the problem or the data set of an instance of the library"
                " contains, as in psvm p=1 iris."
            ),
            metavar="[WORD]...",
            show_default=False,
        ),
    ] = None,
    solvers: Annotated[
        str,
        typer.Option(
            help=(
                "Entries, separated by commas (those that are installed by default), and functions"
                " of files, as in mine.py:solve."
            ),
            metavar="NAMES",
        ),
    ] = "",
    time: Annotated[
        float, typer.Option(min=0.0, help="Seconds of a solver on a task.", metavar="SECONDS")
    ] = 10.0,
    repeats: Annotated[int, typer.Option(min=1, help="The table has medians.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Of each solver.")] = 1,
    clock: Annotated[
        Literal["wall", "processor"],
        typer.Option(help="Processor time hardly depends on other work on the machine."),
    ] = "wall",
    part: Part = "core",
    instances: Annotated[
        Path | None,
        typer.Option(
            help="File of numbers of instances, one a line; what follows a number is not read.",
            metavar="FILE",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Race on this many instances, drawn at random.", metavar="N"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    on: Annotated[
        str | None,
        typer.Option("--on", help="Data in place of instances; see datasets.", metavar="DATA"),
    ] = None,
    as_: Annotated[
        str,
        typer.Option(
            "--as", help="The problem on these data, as in psvm:p=1,C=10.", metavar="PROBLEM"
        ),
    ] = "psvm:p=1,C=1",
    target: options.Target = None,
    data_dir: options.DataDir = None,
    store: options.Store = None,
    json: options.Json = None,
    csv: options.Csv = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Let solvers race: every model is judged by its certified gap, outside the solver's clock."""
    outputs = Outputs(json, csv, html=html, quiet=quiet)
    check_writable(store)
    if on is not None:
        tasks = _of_data(on, as_, target, data_dir)
    else:
        found = chosen_instances(words, part) if instances is None else _of_file(instances, words)
        tasks = _sample_of(found, sample, seed)
    from svmcvx.racing import entries
    from svmcvx.racing import race as let_race

    names = [name.strip() for name in solvers.split(",") if name.strip()] or list(entries())
    fields = {_name(name): _function(name) if ".py:" in name else name for name in names}

    def say(task: str, solver: str) -> None:
        if not quiet:
            consoles.errors.print(
                f"{task}: {solver}", markup=False, highlight=False, soft_wrap=True
            )

    outcome = let_race(
        tasks,
        fields,
        time=time,
        repeats=repeats,
        threads=threads,
        clock=clock,
        store=store,
        data_dir=data_dir,
        progress=say,
    )
    times = outcome.times().reset_index()
    _show(outputs, outcome, times)
    title = f"Race on {len(set(times['task']))} tasks"
    outputs.write(
        "race", times, outcome.to_dict(), title=title, html=lambda path: outcome.report(path, title)
    )
    return exit_code(complete=outcome.complete, late=False, failed=not outcome.laps)


def _show(outputs: Outputs, outcome: Race, times: Any) -> None:
    """Print seconds by tasks, first places, and why solvers have no models."""
    for task, own in times.groupby("task", sort=False):
        columns = [Column("seconds to a gap of", list(own["solver"]), text=True)]
        columns += [_seconds(name, own[name]) for name in own.columns[2:]]
        consoles.show(outputs.screen, str(task), columns, elsewhere=outputs.elsewhere)
    if len(times):
        wins = outcome.wins().reset_index()
        columns = [Column("tasks", list(wins["solver"]), text=True)]
        columns += [Column(name, [str(count) for count in wins[name]]) for name in wins.columns[1:]]
        consoles.show(
            outputs.screen,
            "How often each was first to a gap",
            columns,
            elsewhere=outputs.elsewhere,
        )
    grouped: dict[tuple[str, str], list[str]] = {}
    for note in outcome.notes:
        grouped.setdefault((note.solver, note.why), []).append(note.task)
    for (solver, why), tasks in grouped.items():
        where = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
        text = ": ".join(part for part in (solver, where, why) if part)
        outputs.screen.print(text, markup=False, highlight=False, soft_wrap=True)


def _seconds(name: str, values: Any) -> Column:
    return Column(name, [f"{value:.2g}" if value < float("inf") else "—" for value in values])


def _of_file(path: Path, words: list[str] | None) -> list[Any]:
    from svmcvx.library import find

    if words:
        raise DataError(f"--instances names the instances; leave out {' '.join(words)!r}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--instances {path} cannot be read ({error})") from None
    numbers = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    if not numbers:
        raise DataError(f"--instances {path} has no number of an instance")
    return [find(number) for number in numbers]


def _sample_of(found: list[Any], sample: int | None, seed: int) -> list[Any]:
    import numpy as np

    if sample is None or sample >= len(found):
        return found
    drawn = np.sort(np.random.default_rng(seed).choice(len(found), sample, replace=False))
    return [found[place] for place in drawn]


def _of_data(data: str, problem: str, target: str | None, data_dir: Path | None) -> list[Any]:
    preparing.check_words(problem, data, data_dir)
    from svmcvx.experiments.specifications import parse_models

    parsed = parse_models(problem)
    if len(parsed) > 1:
        raise DataError(f"--as must be one problem, got {problem!r}")
    loaded = preparing.load(data, data_dir, target, None)
    return [(loaded.X, loaded.y, parsed[0][1])]


def _name(text: str) -> str:
    return text.rpartition(":")[2] if ".py:" in text else text


def _function(text: str) -> Any:
    """Return the function of a file."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise DataError(f"solvers names the file {file}, which does not exist; check the path")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise DataError(f"{file} has no function {name!r}")
    return getattr(module, name)
