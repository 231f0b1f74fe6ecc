"""The command ``compare``."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import svmcvx
from svmcvx import datasets
from svmcvx.cli import consoles
from svmcvx.cli.application import INTERRUPTED, app, check_writable
from svmcvx.data import check_choice, check_time_limit
from svmcvx.errors import DataError
from svmcvx.experiments.comparison import Comparison
from svmcvx.experiments.specifications import MODELS, parse_models
from svmcvx.experiments.store import plain
from svmcvx.experiments.studies.report import check_report
from svmcvx.experiments.studies.report import report as write_report
from svmcvx.system.deadline import allowed
from svmcvx.system.files import written_whole


@app.command()
def compare(
    dataset: Annotated[
        str,
        typer.Argument(
            help=f"A built-in data set ({', '.join(datasets.BUILT_IN)}), a set of the papers (see datasets), a name in the data folder, "
            "or a .csv, .parquet, .npz or LIBSVM file. Append :a-b to select two classes, as in digits:3-8."
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
    report: Annotated[Path | None, typer.Option(help="HTML report to write (extra study).")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A file of finished models (.sqlite): an interrupted comparison goes on there.")
    ] = None,
    proofs: Annotated[
        Path | None, typer.Option(help="Folder for the training data and a proof of each solution; see verify.")
    ] = None,
) -> int:
    """Fit several models to a data set and tabulate certificates and accuracies."""
    parsed = parse_models(
        models, C=C, kernel=_kernel(kernel), gamma=_gamma(gamma), solver=solver, time_limit=time_limit
    )
    check_writable(plot, json_file, report, resume)
    if report is not None:
        check_report()
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
        consoles.output.print(f"Wrote {json_file}", soft_wrap=True)
    if report is not None:
        write_report(report, None, {f"{data.name}, {comparison.X_train.shape[0]} for training": comparison.frame()})
        consoles.output.print(f"Wrote {report}", soft_wrap=True)
    if plot is not None and comparison.fitted:
        _draw(plot, comparison, data)
        consoles.output.print(f"Wrote {plot}", soft_wrap=True)
    if interrupted:
        consoles.errors.print(
            f"svmcvx: interrupted after {len(comparison.rows)} of {len(parsed)} models", style="yellow"
        )
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
    with Progress(*columns, console=consoles.errors, transient=True) as progress:
        task = progress.add_task(names[0], total=len(names))
        for done, _ in enumerate(comparison.run(), start=1):
            progress.update(task, completed=done, description=names[min(done, len(names) - 1)])


def _print_table(comparison: Comparison, data: datasets.Dataset) -> None:
    n, d = data.X.shape
    title = f"{data.name}: {n} × {d}, {comparison.X_train.shape[0]} for training"
    table = consoles.table(title)
    table.add_column("model", overflow="fold", min_width=10)
    table.add_column("solver", no_wrap=True)
    for heading in ("primal", "dual", "gap", "certified", "test", "SVs", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in comparison.rows:
        certified = "[green]yes[/]" if row["certified"] else "[red]no[/]"
        table.add_row(
            row["model"],
            row["solver"] or row["status"],
            consoles.number(row["primal"], ".8g"),
            consoles.number(row["dual_bound"], ".8g"),
            consoles.number(row["gap"], ".1e"),
            certified,
            consoles.number(row["test_accuracy"], ".4f"),
            consoles.number(row["n_support"], "d"),
            consoles.number(row["seconds"], ".2f"),
        )
    consoles.output.print(table)
    legend = "primal: objective at the model; dual: lower bound; gap: relative; test: accuracy held out; SVs: support vectors; s: seconds"
    consoles.output.print(legend, style="dim", markup=False, highlight=False)
    notes: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row["note"]:
            notes.setdefault(row["note"], []).append(row["model"])
    for note, concerned in notes.items():
        who = "all models" if len(concerned) == len(comparison.rows) > 1 else ", ".join(concerned)
        consoles.output.print(f"{who}: {note}", style="dim", markup=False, soft_wrap=True)


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
