"""The command ``select``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svmcvx.cli import completion, consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column, number, yes_no
from svmcvx.cli.outputs import Outputs, check_writable, described
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.experiments.selection import Selection

# Number of settings that are printed, best first.
SHOWN = 25


@app.command()
def select(
    data: options.Data,
    grid: Annotated[
        list[str],
        typer.Option(
            help="Values of a hyper-parameter, as in C=0.1,1,10, or a range C=log:0.01:100:5 or p=linear:1:2:3 (first, last, number). "
            "May be repeated: all combinations are tried.",
            metavar="NAME=VALUES",
            autocompletion=completion.grids,
            rich_help_panel=options.MODEL,
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            help=f"One model and its settings, as in odm:kernel=rbf; one of {', '.join(completion.MODELS)}.",
            autocompletion=completion.models,
            rich_help_panel=options.MODEL,
        ),
    ] = "psvm",
    target: options.Target = None,
    drop: options.Drop = None,
    data_dir: options.DataDir = None,
    missing: options.Missing = "error",
    scale: options.Scale = "standard",
    cv: options.Cv = 5,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Shuffle before cutting into folds; by default they are not.", rich_help_panel=options.DATA
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="A score of scikit-learn, the greater the better; accuracy by default.", rich_help_panel=options.MODEL
        ),
    ] = None,
    kernel: options.Kernel = "none",
    C: options.Weight = 1.0,
    gamma: options.Gamma = "scale",
    solver: options.Solver = "auto",
    tol: options.Tol = 1e-6,
    strict: options.Strict = False,
    fit_time_limit: options.FitTimeLimit = None,
    time_limit: options.TimeLimit = None,
    n_jobs: options.NJobs = None,
    backend: options.Backend = None,
    store: options.Store = None,
    guarantee: options.Guarantee = False,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Choose hyper-parameters by cross-validation along warm-started paths, with a certificate for every fit."""
    outputs = Outputs(json, csv, latex, html, quiet)
    check_writable(store)
    preparing.check_words(model, data, data_dir)
    values = parse_grid(grid)
    settings = preparing.model_settings(kernel, C, gamma, solver, fit_time_limit, tol)
    loaded = preparing.load(data, data_dir, target, drop)
    from svmcvx.experiments.fits import certificates
    from svmcvx.experiments.selection import select as run_select
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.system import clock

    parsed = parse_models(model, **settings)
    if len(parsed) > 1:
        raise DataError(f"model must be one model, got {model!r}; compare tabulates several")
    label, estimator = parsed[0]
    known = estimator.get_params()
    if strange := [name for name in values if name not in known]:
        raise DataError(f"grid names {strange[0]!r}, which {label} has not; it has {', '.join(sorted(known))}")
    pipeline, prefix, used = preparing.pipeline(estimator, loaded, scale, missing)
    began = clock.now()
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message=".* fits: the table holds these")
        found = run_select(
            pipeline,
            {f"{prefix}{name}": several for name, several in values.items()},
            used.X,
            used.y,
            cv=cv,
            scoring=scoring,
            tol=tol,
            guarantee=guarantee,
            backend=backend,
            n_jobs=n_jobs,
            store=store,
            progress=not quiet,
            seed=seed,
            time_limit=time_limit,
        )
    late = time_limit is not None and clock.now() - began >= time_limit
    title = f"{label} on {used.name}: {used.X.shape[0]} × {used.X.shape[1]}, {cv} folds"
    _print_table(outputs, found, values, prefix, title)
    fitted = found.best_estimator_
    solution = None if fitted is None else getattr(fitted[-1] if prefix else fitted, "solution_", None)
    best = None
    if found.best_params_ is not None:
        best = {
            "params": {name.removeprefix(prefix): value for name, value in found.best_params_.items()},
            "score": found.best_score_,
            "certificates": [] if solution is None else certificates(solution, tol),
        }
        _print_best(outputs, best)
    preparing.tell_reused(outputs, found.reused, "fit")
    frame = found.drop(columns="params").rename(columns=lambda name: name.replace(f"param_{prefix}", "param_"))
    rows = frame.to_dict("records")
    content = {
        "complete": found.complete,
        "data": described(loaded),
        "split": {"folds": cv, "seed": seed},
        "settings": {
            "model": model,
            "grid": values,
            "kernel": kernel,
            "C": C,
            "gamma": gamma,
            "solver": solver,
            "scoring": scoring,
            "scale": scale,
            "missing": missing,
            "tol": tol,
            "guarantee": guarantee,
            "fit_time_limit": fit_time_limit,
            "time_limit": time_limit,
        },
        "reused": found.reused,
        "best": best,
        "rows": rows,
    }
    printed = [f"param_{name}" for name in values]
    printed += ["mean_test_score", "std_test_score", "worst_gap", "certified", "n_support", "seconds"]
    outputs.write("select", frame, content, title=title, latex=lambda: _latex(frame[printed]))
    if not found.complete:
        advice = (
            "pass --store FILE to go on from there next time" if store is None else "the same command goes on with it"
        )
        why = "the time limit passed" if late else "interrupted"
        consoles.errors.print(f"svmcvx: {why}: the table is not complete; {advice}", style="yellow", soft_wrap=True)
    failed = any(row["note"] for row in rows)
    uncertified = strict and not all(row["certified"] for row in rows)
    return exit_code(complete=found.complete, late=late, failed=failed or uncertified)


def parse_grid(grid: list[str]) -> dict[str, list[Any]]:
    """Return the values of each hyper-parameter from ``NAME=VALUES``, a list or a range.

    Raises
    ------
    DataError
        If an entry is not of this form, or a name comes twice.
    """
    from svmcvx.experiments.specifications import value_of

    values: dict[str, list[Any]] = {}
    for entry in grid:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not equals or not name or not text:
            raise DataError(f"grid must be of the form NAME=VALUES, as in C=0.1,1,10, got {entry!r}")
        if name in values:
            raise DataError(f"grid names {name} twice; write all its values in one list, as in {name}=0.1,1,10")
        spacing, *numbers = text.split(":")
        values[name] = (
            _range(entry, spacing, numbers) if numbers else [value_of(part.strip()) for part in text.split(",")]
        )
        if "" in values[name]:
            raise DataError(f"grid has an empty value in {entry!r}; write for example {name}=0.1,1,10")
    return values


def _range(entry: str, spacing: str, numbers: list[str]) -> list[Any]:
    import numpy as np

    spacings: dict[str, Any] = {"log": np.geomspace, "linear": np.linspace}
    try:
        first, last, count = float(numbers[0]), float(numbers[1]), int(numbers[2])
        values: list[Any] = spacings[spacing](first, last, count).tolist()
    except (ValueError, KeyError, IndexError):
        raise DataError(
            f"grid cannot read the range {entry!r}; write for example C=log:0.01:100:5 or p=linear:1:2:3"
        ) from None
    if len(numbers) > 3 or not values:
        raise DataError(f"grid cannot read the range {entry!r}; a range is SPACING:FIRST:LAST:NUMBER")
    return values


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_table(outputs: Outputs, found: Selection, values: dict[str, list[Any]], prefix: str, title: str) -> None:
    best = found.sort_values("rank_test_score", kind="stable").head(SHOWN)
    gaps = [None if gap != gap else gap for gap in best["worst_gap"]]
    columns = [
        *(Column(name, [_text(value) for value in best[f"param_{prefix}{name}"]], text=True) for name in values),
        Column("mean", [number(value, ".4f") for value in best["mean_test_score"]], meaning="score over the folds"),
        Column(
            "sd", [number(value, ".4f") for value in best["std_test_score"]], rank=1, meaning="its standard deviation"
        ),
        *(_exact(best) if "may_be_best" in found else ()),
        Column("gap", [number(gap, ".1e") for gap in gaps], meaning="the largest of a fold"),
        Column("certified", [yes_no(value) for value in best["certified"]], rank=2),
        Column("SVs", [number(value, ".1f") for value in best["n_support"]], rank=4, meaning="support vectors, mean"),
        Column("solver", list(best["solver"]), rank=5),
        Column("s", [number(value, ".2f") for value in best["seconds"]], rank=3, meaning="seconds of all folds"),
    ]
    consoles.show(outputs.screen, title, columns, elsewhere=outputs.elsewhere)
    if len(found) > SHOWN:
        consoles.note(outputs.screen, f"the best {SHOWN} of {len(found)} settings; {outputs.elsewhere}")
    for text in dict.fromkeys(note for note in found["note"] if note):
        consoles.note(outputs.screen, text)


def _exact(best: Selection) -> list[Column]:
    """Return the columns of the scores of every optimal machine."""
    from svmcvx.experiments.intervals import interval_text

    texts = [interval_text(*ends) for ends in zip(best["mean_score_lower"], best["mean_score_upper"], strict=True)]
    shares = [number(share, ".4f") for share in best["undecided"]]
    return [
        Column("exact", texts, meaning="mean score of every optimal machine"),
        Column("undecided", shares, rank=6, meaning="share of validation rows whose label is not proved"),
        Column("may be best", [yes_no(value) for value in best["may_be_best"]], rank=1),
    ]


def _print_best(outputs: Outputs, best: dict[str, Any]) -> None:
    chosen = ", ".join(f"{name}={_text(value)}" for name, value in best["params"].items())
    outputs.screen.print(f"best: {chosen}, score {best['score']:.4f}", markup=False, highlight=False, soft_wrap=True)
    for record in best["certificates"]:
        lower = "no lower bound" if record["lower"] is None else f"lower {record['lower']:.9g}"
        classes = ", ".join(map(str, record["classes"]))
        consoles.note(
            outputs.screen,
            f"fitted to all rows ({classes}): {lower}, upper {record['upper']:.9g}, gap {record['gap']:.1e}",
        )


def _latex(frame: Any) -> str:
    from svmcvx.experiments.studies.latex import latex_frame

    return latex_frame(frame)
