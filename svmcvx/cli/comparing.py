"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svmcvx.cli import completion, consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column, number, yes_no
from svmcvx.cli.outputs import Outputs, check_writable, described
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.datasets import Dataset
    from svmcvx.experiments.comparison import Comparison

# Columns of the scores of every optimal machine.
EXACT = ("accuracy_lower", "accuracy_upper", "undecided")


@app.command()
def compare(
    data: options.Data,
    models: Annotated[
        str,
        typer.Option(
            help="Models and their settings, as in psvm:p=1,psvm:p=1.5,C=10. Models are "
            f"{', '.join(completion.MODELS)}.",
            autocompletion=completion.models,
            rich_help_panel=options.MODEL,
        ),
    ] = "psvm:p=1,psvm:p=1.5,psvm:p=2",
    target: options.Target = None,
    drop: options.Drop = None,
    keep: options.Keep = None,
    data_dir: options.DataDir = None,
    missing: options.Missing = "error",
    scale: options.Scale = "standard",
    split: Annotated[
        float,
        typer.Option(
            "--split",
            "--test-size",
            min=0.0,
            max=1.0,
            help="Share of the observations held out.",
            rich_help_panel=options.DATA,
        ),
    ] = 0.3,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the stratified split.", rich_help_panel=options.DATA)
    ] = 0,
    kernel: options.Kernel = "none",
    C: options.Weight = 1.0,
    gamma: options.Gamma = "scale",
    solver: options.Solver = "auto",
    metrics: Annotated[
        str,
        typer.Option(
            help=(
                "Scores on the test part, by their names in scikit-learn, as in"
                " balanced_accuracy,roc_auc."
            ),
            metavar="NAMES",
            rich_help_panel=options.MODEL,
        ),
    ] = "accuracy",
    tol: options.Tol = 1e-6,
    strict: options.Strict = False,
    fit_time_limit: options.FitTimeLimit = None,
    time_limit: options.TimeLimit = None,
    n_jobs: options.NJobs = None,
    backend: options.Backend = None,
    store: options.Store = None,
    proofs: options.Proofs = None,
    guarantee: options.Guarantee = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Picture to write: decision regions for two features, else margin distributions.",
            metavar="FILE",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of the table as LaTeX, as in model,test_accuracy,gap.",
            metavar="NAMES",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    digits: options.Digits = 4,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Fit several models to a data set and tabulate certificates and accuracies."""
    outputs = Outputs(json, csv, latex, html, quiet)
    check_writable(plot, store)
    if plot is not None:
        _check_plot(plot)
    preparing.check_words(models, data, data_dir)
    settings = preparing.model_settings(kernel, C, gamma, solver, fit_time_limit, tol)
    loaded = preparing.load(data, data_dir, target, drop, keep)
    # Medians are those of the training part.
    used = loaded if missing == "median" else preparing.without_holes(loaded, missing)
    from svmcvx.data import check_time_limit
    from svmcvx.experiments.comparison import Comparison
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.system.deadline import time_limited

    parsed = parse_models(models, **settings)
    comparison = Comparison(
        parsed,
        used.X,
        used.y,
        split=split,
        seed=seed,
        scale=scale,
        missing=missing,
        metrics=_words(metrics),
        tol=tol,
        store=store,
        refit=plot is not None,
        proofs=proofs,
        guarantee=guarantee,
        backend=backend,
        n_jobs=n_jobs,
    )
    interrupted = False
    with time_limited(check_time_limit(time_limit)) as deadline:
        try:
            _run(comparison, quiet=quiet)
        except KeyboardInterrupt:
            interrupted = True
        late = deadline.passed() and not interrupted
    rows = comparison.rows
    failed = [row["note"] for row in rows if row["status"] == "failed"]
    if failed and len(set(failed)) == 1 and len(failed) == len(rows):
        raise DataError(failed[0])
    complete = not interrupted and not any(
        row["status"] == "time_limit" and row["primal"] is None for row in rows
    )
    sizes = {"training": comparison.X_train.shape[0], "test": comparison.X_test.shape[0]}
    title = f"{used.name}: {used.X.shape[0]} × {used.X.shape[1]}, {sizes['training']} for training"
    _print_table(outputs, comparison, title)
    preparing.tell_reused(outputs, comparison.reused, "model")
    content = {
        "complete": complete,
        "data": described(loaded),
        "split": {**sizes, "test_size": split, "seed": seed},
        "settings": {
            "models": models,
            "kernel": kernel,
            "C": C,
            "gamma": gamma,
            "solver": solver,
            "scale": scale,
            "missing": missing,
            "metrics": list(comparison.metrics),
            "tol": tol,
            "guarantee": guarantee,
            "fit_time_limit": fit_time_limit,
            "time_limit": time_limit,
        },
        "reused": comparison.reused,
        "rows": rows,
    }
    frame = comparison.frame()
    outputs.write(
        "compare",
        frame,
        content,
        title=title,
        latex=lambda: frame.latex(
            columns=None if columns is None else _words(columns), digits=digits
        ),
    )
    if proofs is not None:
        outputs.wrote(proofs)
    if plot is not None and comparison.fitted:
        _draw(plot, comparison, used)
        outputs.wrote(plot)
    if interrupted:
        consoles.errors.print(
            f"svmcvx: interrupted after {len(rows)} of {len(parsed)} models", style="yellow"
        )
    uncertified = strict and not all(row["certified"] for row in rows)
    return exit_code(complete=complete, late=late, failed=bool(failed) or uncertified)


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _check_plot(path: Path) -> None:
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        from svmcvx.errors import missing_extra

        raise missing_extra("matplotlib", "plot") from None
    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in kinds:
        raise DataError(
            f"the picture {path} has no known type; end its name in one of"
            f" {', '.join(sorted(kinds))}"
        )


def _run(comparison: Comparison, *, quiet: bool) -> None:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    names = [name for name, _ in comparison.named]
    with consoles.progress(*columns, quiet=quiet) as progress:
        task = progress.add_task(names[0], total=len(names))
        for done, _ in enumerate(comparison.run(), start=1):
            progress.update(task, completed=done, description=names[min(done, len(names) - 1)])


def _print_table(outputs: Outputs, comparison: Comparison, title: str) -> None:
    rows = comparison.rows
    if not rows:
        return
    columns = [
        Column("model", [row["model"] for row in rows], text=True),
        Column("solver", [row["solver"] or row["status"] for row in rows], rank=2),
        Column(
            "primal",
            [number(row["primal"], ".8g") for row in rows],
            meaning="objective at the model",
        ),
        Column("dual", [number(row["dual_bound"], ".8g") for row in rows], meaning="lower bound"),
        Column("gap", [number(row["gap"], ".1e") for row in rows], meaning="relative"),
        Column("certified", [yes_no(row["certified"]) for row in rows], rank=1),
        Column(
            "test",
            [number(row["test_accuracy"], ".4f") for row in rows],
            meaning="accuracy held out",
        ),
        *(
            Column(
                metric, [number(row[f"test_{metric}"], ".4f") for row in rows], meaning="held out"
            )
            for metric in comparison.metrics
            if metric != "accuracy"
        ),
        *(_exact(rows) if comparison.guarantee else ()),
        Column(
            "SVs",
            [number(row["n_support"], "d") for row in rows],
            rank=4,
            meaning="support vectors",
        ),
        Column("s", [number(row["seconds"], ".2f") for row in rows], rank=3, meaning="seconds"),
    ]
    consoles.show(outputs.screen, title, columns, elsewhere=outputs.elsewhere)
    notes: dict[str, list[str]] = {}
    for text, name in [
        (row[what], row["model"]) for what in ("note", "conventions") for row in rows if row[what]
    ]:
        notes.setdefault(text, []).append(name)
    for text, concerned in notes.items():
        who = "all models" if len(concerned) == len(rows) > 1 else ", ".join(concerned)
        consoles.note(outputs.screen, f"{who}: {text}")


def _exact(rows: list[dict[str, Any]]) -> list[Column]:
    """Return the columns of the scores of every optimal machine."""
    from svmcvx.experiments.intervals import interval_text

    texts = [interval_text(row["accuracy_lower"], row["accuracy_upper"]) for row in rows]
    shares = [number(row["undecided"], ".4f") for row in rows]
    return [
        Column("exact", texts, meaning="accuracy held out of every optimal machine"),
        Column("undecided", shares, rank=5, meaning="share of test rows whose label is not proved"),
    ]


def _draw(path: Path, comparison: Comparison, data: Dataset) -> None:
    import matplotlib
    import scipy.sparse as sp

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from svmcvx import plot

    fitted: dict[str, Any] = {
        name: comparison.fitted[name] for name, _ in comparison.named if name in comparison.fitted
    }
    if data.X.shape[1] == 2 and not sp.issparse(data.X):
        count = len(fitted)
        figure, axes = plt.subplots(
            1, count, figsize=(5.2 * count, 4.6), squeeze=False, layout="constrained"
        )
        for ax, (name, model) in zip(axes[0], fitted.items(), strict=True):
            plot.decision_regions(model, comparison.X_train, comparison.y_train, ax=ax, title=name)
    else:
        figure, ax = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
        held_out = comparison.X_test.shape[0] > 0
        X, y = (
            (comparison.X_test, comparison.y_test)
            if held_out
            else (comparison.X_train, comparison.y_train)
        )
        part = "test part" if held_out else "training data"
        plot.margin_distribution(fitted, X, y, ax=ax, title=f"{data.name}: margins on the {part}")
    figure.savefig(path, dpi=150)
    plt.close(figure)
