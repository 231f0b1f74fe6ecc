"""Command line (extra ``cli``): ``svmcvx compare``, ``svmcvx verify`` and ``svmcvx doctor``."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import svmcvx
from svmcvx import datasets
from svmcvx.data import check_choice, check_time_limit
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.experiments.comparison import Comparison
from svmcvx.experiments.specifications import MODELS, parse_models
from svmcvx.experiments.store import plain
from svmcvx.solve import available_solvers
from svmcvx.system.deadline import allowed
from svmcvx.system.files import written_whole

__all__ = ["app", "run"]

INTERRUPTED = 130

app = typer.Typer(
    name="svmcvx",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Support vector machine formulations with a checked interval around every optimum.",
)
# Output that goes to a file has a fixed width.
output = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return 0, 1 if a model failed, 2 for bad arguments or data, 130 after Ctrl-C."""
    try:
        outcome = app(list(arguments), prog_name="svmcvx", standalone_mode=False)
    except SvmcvxError as error:
        errors.print(f"svmcvx: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        errors.print("svmcvx: interrupted", style="yellow")
        return INTERRUPTED
    except Exception as error:
        # Typer's usage errors: one line instead of a panel; anything else is a defect and keeps its traceback.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = message()
        if text:
            errors.print(f"svmcvx: {' '.join(text.split())} (see --help)", style="red", markup=False, soft_wrap=True)
        return int(getattr(error, "exit_code", 2))
    return outcome if isinstance(outcome, int) else 0


def _version(value: bool) -> None:
    if value:
        output.print(f"svmcvx {svmcvx.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Support vector machine formulations with a checked interval around every optimum."""


@app.command()
def compare(
    dataset: Annotated[
        str,
        typer.Argument(
            help=f"A built-in data set ({', '.join(datasets.BUILT_IN)}), a name in the data folder, or a .csv, .parquet, .npz "
            "or LIBSVM file. Append :a-b to select two classes, as in digits:3-8."
        ),
    ],
    models: Annotated[
        str,
        typer.Option(
            help=f"Models and their settings, as in psvm:p=1,psvm:p=1.5,C=10. Models are {', '.join(MODELS)}."
        ),
    ] = "psvm:p=1,psvm:p=1.5,psvm:p=2",
    kernel: Annotated[str, typer.Option(help="none, linear, rbf, exponential, laplacian, poly or sigmoid.")] = "none",
    C: Annotated[float, typer.Option("--C", help="Weight of the losses of every model that has one.")] = 1.0,
    gamma: Annotated[str, typer.Option(help="Kernel parameter: scale, auto or a number.")] = "scale",
    scale: Annotated[
        str, typer.Option(help="Scaling of the columns by the training part: standard, minmax or none.")
    ] = "standard",
    missing: Annotated[
        str, typer.Option(help="Missing values: error, drop (rows) or median (of the column).")
    ] = "error",
    target: Annotated[str | None, typer.Option(help="Column of the labels in a CSV or Parquet file.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz data sets; the variable SVMCVX_DATA by default.")
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of the observations held out.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Seed of the stratified split.")] = 0,
    solver: Annotated[str, typer.Option(help="auto, or one solver (see doctor).")] = "auto",
    tol: Annotated[float, typer.Option(help="Relative gap up to which an answer counts as certified.")] = 1e-6,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for each model.")] = None,
    total_time_limit: Annotated[float | None, typer.Option(help="Seconds for all models together.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Picture to write: decision regions for two features, else margin distributions."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File to write the table to, as JSON.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A .jsonl file of finished models: an interrupted comparison goes on there.")
    ] = None,
    proofs: Annotated[
        Path | None, typer.Option(help="Folder for the training data and a proof of each solution; see verify.")
    ] = None,
) -> int:
    """Fit several models to a data set and tabulate certificates and accuracies."""
    parsed = parse_models(
        models, C=C, kernel=_kernel(kernel), gamma=_gamma(gamma), solver=solver, time_limit=time_limit
    )
    _check_writable(plot, json_file, resume)
    if plot is not None:
        _check_plot(plot)
    data = _prepare(datasets.load(dataset, data_dir, target=target), missing)
    comparison = Comparison(
        parsed,
        data.X,
        data.y,
        test_size=test_size,
        seed=seed,
        scale=scale,
        tol=tol,
        store=resume,
        refit=plot is not None,
        proofs=proofs,
    )
    interrupted = False
    try:
        with allowed(check_time_limit(total_time_limit)):
            _run(comparison)
    except KeyboardInterrupt:
        interrupted = True
    failed = [row["note"] for row in comparison.rows if row["status"] == "failed"]
    if failed and len(set(failed)) == 1 and len(failed) == len(comparison.rows):
        raise DataError(failed[0])
    _print_table(comparison, data)
    if json_file is not None:
        settings = {
            "models": models,
            "kernel": kernel,
            "C": C,
            "gamma": gamma,
            "scale": scale,
            "test_size": test_size,
            "seed": seed,
            "tol": tol,
        }
        content = {
            "svmcvx": svmcvx.__version__,
            "dataset": data.name,
            "settings": settings,
            "complete": not interrupted,
        }
        _write_json(json_file, {**content, "rows": [plain(row) for row in comparison.rows]})
        output.print(f"Wrote {json_file}", soft_wrap=True)
    if plot is not None and comparison.fitted:
        _draw(plot, comparison, data)
        output.print(f"Wrote {plot}", soft_wrap=True)
    if interrupted:
        errors.print(f"svmcvx: interrupted after {len(comparison.rows)} of {len(parsed)} models", style="yellow")
        return INTERRUPTED
    return 1 if failed else 0


def _kernel(name: str) -> str | None:
    return None if name == "none" else name


def _gamma(text: str) -> float | str:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise DataError(f"gamma must be a number, 'scale' or 'auto', got {text!r}") from None


def _check_writable(*paths: Path | None) -> None:
    """Raise before any model is fitted, rather than when the results are written."""
    for path in paths:
        if path is not None and (path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK))):
            raise DataError(f"{path} cannot be written; name a file in an existing folder")


def _check_plot(path: Path) -> None:
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        from svmcvx.errors import missing_extra

        raise missing_extra("matplotlib", "plot") from None
    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in kinds:
        raise DataError(f"the picture {path} has no known type; end its name in one of {', '.join(sorted(kinds))}")


def _prepare(data: datasets.Dataset, missing: str) -> datasets.Dataset:
    check_choice(missing, "missing", ("error", "drop", "median"))
    holes = 0 if sp.issparse(data.X) else int(np.isnan(data.X).sum())
    if holes == 0:
        return data
    if missing == "drop":
        return data.without_missing()
    if missing == "median":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            medians = np.nan_to_num(np.nanmedian(data.X, axis=0))
        return datasets.Dataset(data.name, np.where(np.isnan(data.X), medians, data.X), data.y, data.feature_names)
    raise DataError(f"{data.name} has {holes} missing values; pass --missing drop or --missing median")


def _run(comparison: Comparison) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    names = [name for name, _ in comparison.named]
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task(names[0], total=len(names))
        for done, _ in enumerate(comparison.run(), start=1):
            progress.update(task, completed=done, description=names[min(done, len(names) - 1)])


def _number(value: Any, form: str) -> str:
    return "—" if value is None or (isinstance(value, float) and math.isnan(value)) else format(value, form)


def _print_table(comparison: Comparison, data: datasets.Dataset) -> None:
    n, d = data.X.shape
    title = f"{data.name}: {n} × {d}, {comparison.X_train.shape[0]} for training"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("model", overflow="fold", min_width=10)
    table.add_column("solver", no_wrap=True)
    for heading in ("primal", "dual", "gap", "certified", "test", "SVs", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in comparison.rows:
        certified = "[green]yes[/]" if row["certified"] else "[red]no[/]"
        table.add_row(
            row["model"],
            row["solver"] or row["status"],
            _number(row["primal"], ".8g"),
            _number(row["dual_bound"], ".8g"),
            _number(row["gap"], ".1e"),
            certified,
            _number(row["test_accuracy"], ".4f"),
            _number(row["n_support"], "d"),
            _number(row["seconds"], ".2f"),
        )
    output.print(table)
    legend = "primal: objective at the model; dual: lower bound; gap: relative; test: accuracy held out; SVs: support vectors; s: seconds"
    output.print(legend, style="dim", markup=False, highlight=False)
    notes: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row["note"]:
            notes.setdefault(row["note"], []).append(row["model"])
    for note, concerned in notes.items():
        who = "all models" if len(concerned) == len(comparison.rows) > 1 else ", ".join(concerned)
        output.print(f"{who}: {note}", style="dim", markup=False, soft_wrap=True)


def _draw(path: Path, comparison: Comparison, data: datasets.Dataset) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from svmcvx import plot

    count = len(comparison.fitted)
    if data.X.shape[1] == 2 and not sp.issparse(data.X):
        figure, axes = plt.subplots(1, count, figsize=(5.2 * count, 4.6), squeeze=False, layout="constrained")
        for ax, (name, model) in zip(axes[0], comparison.fitted.items(), strict=True):
            plot.decision_regions(model, comparison.X_train, comparison.y_train, ax=ax, title=name)
    else:
        figure, ax = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
        held_out = comparison.X_test.shape[0] > 0
        X, y = (comparison.X_test, comparison.y_test) if held_out else (comparison.X_train, comparison.y_train)
        part = "test part" if held_out else "training data"
        plot.margin_distribution(comparison.fitted, X, y, ax=ax, title=f"{data.name}: margins on the {part}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with written_whole(path) as stream:
        stream.write(json.dumps(content, indent=1).encode() + b"\n")


@app.command()
def verify(
    proof: Annotated[Path, typer.Argument(help="A file that save_proof, or compare --proofs, has written.")],
    dataset: Annotated[
        str,
        typer.Argument(
            help="The data that it is about, as for compare: training.npz beside the proofs of a comparison."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="Column of the labels in a CSV or Parquet file.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz data sets; the variable SVMCVX_DATA by default.")
    ] = None,
    precision: Annotated[int, typer.Option(help="Bits of the ball arithmetic.")] = 128,
) -> int:
    """Check an interval from the raw data by a second program; exit with 0 if it holds, 1 if not."""
    data = datasets.load(dataset, data_dir, target=target)
    found = svmcvx.verify(proof, data.X, data.y, precision=precision)
    lower = "no lower bound" if found.lower is None else f"lower {found.lower:.17g}"
    output.print(f"proved: {lower}, upper {found.upper:.17g}", markup=False, highlight=False, soft_wrap=True)
    verdict = "the proof holds" if found.holds else "the proof does not hold"
    output.print(f"{verdict}{': ' + found.why if found.why else ''}", markup=False, highlight=False, soft_wrap=True)
    return 0 if found.holds else 1


@app.command("compile")
def compile_(
    functions: Annotated[
        bool, typer.Option("--functions", help="Also tell the seconds of each compiled function.")
    ] = False,
) -> int:
    """Compile the specialised solvers ahead, so that no first call has to; later sessions on this machine load the result."""
    from svmcvx.fast.compile_ahead import compile_ahead

    calls = []
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=errors, transient=True) as progress:
        task = progress.add_task("compiling", total=None)
        for call in compile_ahead():
            calls.append(call)
            progress.update(task, description=call.name)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("first call of")
    for heading in ("compiling, s", "the rest, s", "functions"):
        table.add_column(heading, justify="right")
    for call in calls:
        table.add_row(call.name, f"{call.compiling:.2f}", f"{call.running:.2f}", str(len(call.functions)))
    table.add_row(
        "all", f"{sum(call.compiling for call in calls):.2f}", f"{sum(call.running for call in calls):.2f}", ""
    )
    output.print(table)
    if functions:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("function", overflow="fold")
        table.add_column("s", justify="right")
        found = [function for call in calls for function in call.functions]
        for module, name, seconds in sorted(found, key=lambda function: -function.seconds):
            table.add_row(f"{module}.{name}", f"{seconds:.2f}")
        output.print(table)
    return 0


@app.command()
def doctor() -> int:
    """Show which solvers are installed, licensed, and able to do what."""
    title = f"svmcvx {svmcvx.__version__} on Python {sys.version.split()[0]}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
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
    output.print(table)
    for hint in hints:
        output.print(hint, style="dim", markup=False, soft_wrap=True)
    return 0
