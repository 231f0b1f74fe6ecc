"""The command ``select``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svmcvx.arguments import what_was_meant
from svmcvx.cli import completion, consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column, number, yes_no
from svmcvx.cli.outputs import Outputs, check_writable, described
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.experiments.selection import Selection

# Number of settings that are printed, best first.
SHOWN = 25
# With a certified range each fit is solved at least to this gap.
CERTIFIED_TOL = 1e-8


@app.command()
def select(
    data: options.Data,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="Values of a hyper-parameter, as in C=0.1,1,10, or a range C=log:0.01:100:5 or p=linear:1:2:3 (first, last, number). "
            "May be repeated: all combinations are tried.",
            metavar="NAME=VALUES",
            autocompletion=completion.grids,
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    certified: Annotated[
        list[str] | None,
        typer.Option(
            help="In place of a grid: the best value of a whole range, proved, as in C=0.01:100 (psvm, odm: C1, C2 or both).",
            metavar="NAME=LOW:HIGH",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    eps: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="With --certified: the share of the rows by which its errors may exceed the fewest; 0 for the fewest themselves.",
            rich_help_panel=options.MODEL,
        ),
    ] = 0.01,
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
    keep: options.Keep = None,
    data_dir: options.DataDir = None,
    missing: options.Missing = "error",
    scale: options.Scale = "standard",
    cv: options.Cv = 5,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Shuffle before cutting into folds; by default they are not.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="A score of scikit-learn, the greater the better; accuracy by default.",
            rich_help_panel=options.MODEL,
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
    certify: options.Certify = "all",
    guarantee: options.Guarantee = False,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Choose hyper-parameters by cross-validation along warm-started paths, with a certificate for
    every fit or for those that decide.
    """
    outputs = Outputs(json, csv, latex, html, quiet)
    check_writable(store)
    preparing.check_words(model, data, data_dir)
    if (not grid) == (not certified):
        raise DataError("select needs either --grid C=0.1,1,10, or --certified C=0.01:100")
    if certified and scoring is not None:
        raise DataError("--certified counts errors: leave out --scoring")
    values = parse_grid(grid or [])
    ranges = parse_ranges(certified or [])
    settings = preparing.model_settings(kernel, C, gamma, solver, fit_time_limit, tol)
    loaded = preparing.load(data, data_dir, target, drop, keep)
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
        raise DataError(
            f"grid names {strange[0]!r}, which {label} does not have{what_was_meant(strange[0], sorted(known))}"
        )
    pipeline, prefix, used = preparing.pipeline(estimator, loaded, scale, missing)
    began = clock.now()
    if ranges:
        title = f"{label} on {used.name}: {used.X.shape[0]} × {used.X.shape[1]}, {cv} folds"
        arguments = {"eps": eps, "tol": min(tol, CERTIFIED_TOL), "time_limit": time_limit}
        where = {"backend": backend, "n_jobs": n_jobs, "store": store}
        complete = _certified(
            outputs, pipeline, used, ranges, title, cv, seed, arguments, where, described(loaded)
        )
        late = time_limit is not None and clock.now() - began >= time_limit
        return exit_code(complete=complete or not late, late=late, failed=not complete)
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
            certify=certify,
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
    solution = (
        None if fitted is None else getattr(fitted[-1] if prefix else fitted, "solution_", None)
    )
    best = None
    if found.best_params_ is not None:
        best = {
            "params": {
                name.removeprefix(prefix): value for name, value in found.best_params_.items()
            },
            "score": found.best_score_,
            "certificates": [] if solution is None else certificates(solution, tol),
        }
        _print_best(outputs, best)
    preparing.tell_reused(outputs, found.reused, "fit")
    frame = found.drop(columns="params").rename(
        columns=lambda name: name.replace(f"param_{prefix}", "param_")
    )
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
            "certify": certify,
            "guarantee": guarantee,
            "fit_time_limit": fit_time_limit,
            "time_limit": time_limit,
        },
        "reused": found.reused,
        "best": best,
        "rows": rows,
    }
    printed = [f"param_{name}" for name in values]
    printed += [
        "mean_test_score",
        "std_test_score",
        "worst_gap",
        "certified",
        "n_support",
        "seconds",
    ]
    outputs.write("select", frame, content, title=title, latex=lambda: _latex(frame[printed]))
    if not found.complete:
        advice = (
            "pass --store FILE to go on from there next time"
            if store is None
            else "the same command goes on with it"
        )
        why = "the time limit passed" if late else "interrupted"
        consoles.errors.print(
            f"svmcvx: {why}: the table is not complete; {advice}", style="yellow", soft_wrap=True
        )
    failed = any(row["note"] for row in rows)
    uncertified = strict and not all(row["certified"] or row.get("batched") for row in rows)
    return exit_code(complete=found.complete, late=late, failed=failed or uncertified)


def _certified(
    outputs: Outputs,
    pipeline: Any,
    used: Any,
    ranges: dict[str, Any],
    title: str,
    cv: int,
    seed: int | None,
    arguments: dict[str, Any],
    where: dict[str, Any],
    data: Any,
) -> bool:
    """Run a certified selection, print and write it; return whether it is complete."""
    from sklearn.model_selection import StratifiedKFold

    from svmcvx.experiments.ranges.selection import certified_select

    folds: Any = cv if seed is None else StratifiedKFold(cv, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message="the fewest errors are known")
        found = certified_select(pipeline, used.X, used.y, cv=folds, **arguments, **where, **ranges)
    best = found.candidates.head(SHOWN)
    columns = [
        Column("from", [_text(value) for value in best["low"]], text=True),
        Column("to", [_text(value) for value in best["high"]], text=True),
        Column(
            "least",
            [str(value) for value in best["least"]],
            meaning="errors of every optimal machine, at least",
        ),
        Column("most", [str(value) for value in best["most"]], meaning="and at most"),
    ]
    consoles.show(
        outputs.screen, f"{title}: where the best may be", columns, elsewhere=outputs.elsewhere
    )
    chosen = ", ".join(f"{name}={_text(value)}" for name, value in found.best_params.items())
    outputs.screen.print(
        f"best: {chosen}, at most {found.errors} errors of {found.observations}; no value in the range has fewer than {found.least} "
        f"({found.fits} fits)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    preparing.tell_reused(outputs, found.reused, "cut")
    content = {
        "complete": found.complete,
        "data": data,
        "split": {"folds": cv, "seed": seed},
        "settings": {"certified": ranges, **arguments},
        "reused": found.reused,
        "best": {"params": found.best_params, "errors": found.errors},
        "least": found.least,
        "observations": found.observations,
        "fits": found.fits,
        "rows": found.pieces.to_dict("records"),
    }
    outputs.write("select", found.pieces, content, title=title, latex=lambda: _latex(found.pieces))
    if not found.complete:
        consoles.errors.print(
            "svmcvx: the proof is not complete; allow more time, or a larger --eps",
            style="yellow",
            soft_wrap=True,
        )
    return found.complete


def parse_ranges(certified: list[str]) -> dict[str, tuple[float, float]]:
    """Return the ranges of hyper-parameters from ``NAME=LOW:HIGH``."""
    ranges = {}
    for entry in certified:
        name, _, text = (part.strip() for part in entry.partition("="))
        try:
            low, high = map(float, text.split(":"))
        except ValueError:
            raise DataError(
                f"certified must be of the form NAME=LOW:HIGH, as in C=0.01:100, got {entry!r}"
            ) from None
        ranges[name] = (low, high)
    return ranges


def parse_grid(grid: list[str]) -> dict[str, list[Any]]:
    """Return the values of each hyper-parameter from ``NAME=VALUES``, a list or a range."""
    from svmcvx.experiments.specifications import value_of

    values: dict[str, list[Any]] = {}
    for entry in grid:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not equals or not name or not text:
            raise DataError(
                f"grid must be of the form NAME=VALUES, as in C=0.1,1,10, got {entry!r}"
            )
        if name in values:
            raise DataError(
                f"grid names {name} twice; write all its values in one list, as in {name}=0.1,1,10"
            )
        spacing, *numbers = text.split(":")
        values[name] = (
            _range(entry, spacing, numbers)
            if numbers
            else [value_of(part.strip()) for part in text.split(",")]
        )
        if "" in values[name]:
            raise DataError(
                f"grid has an empty value in {entry!r}; write for example {name}=0.1,1,10"
            )
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
        raise DataError(
            f"grid cannot read the range {entry!r}; a range is SPACING:FIRST:LAST:NUMBER"
        )
    return values


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_table(
    outputs: Outputs, found: Selection, values: dict[str, list[Any]], prefix: str, title: str
) -> None:
    best = found.sort_values("rank_test_score", kind="stable").head(SHOWN)
    gaps = [None if gap != gap else gap for gap in best["worst_gap"]]
    columns = [
        *(
            Column(name, [_text(value) for value in best[f"param_{prefix}{name}"]], text=True)
            for name in values
        ),
        Column(
            "mean",
            [number(value, ".4f") for value in best["mean_test_score"]],
            meaning="score over the folds",
        ),
        Column(
            "sd",
            [number(value, ".4f") for value in best["std_test_score"]],
            rank=1,
            meaning="its standard deviation",
        ),
        *(_exact(best) if "may_be_best" in found else ()),
        Column("gap", [number(gap, ".1e") for gap in gaps], meaning="the largest of a fold"),
        Column("certified", [yes_no(value) for value in best["certified"]], rank=2),
        Column(
            "SVs",
            [number(value, ".1f") for value in best["n_support"]],
            rank=4,
            meaning="support vectors, mean",
        ),
        Column("solver", list(best["solver"]), rank=5),
        Column(
            "s",
            [number(value, ".2f") for value in best["seconds"]],
            rank=3,
            meaning="seconds of all folds",
        ),
    ]
    consoles.show(outputs.screen, title, columns, elsewhere=outputs.elsewhere)
    if len(found) > SHOWN:
        consoles.note(
            outputs.screen, f"the best {SHOWN} of {len(found)} settings; {outputs.elsewhere}"
        )
    for text in dict.fromkeys(note for note in found["note"] if note):
        consoles.note(outputs.screen, text)


def _exact(best: Selection) -> list[Column]:
    """Return the columns of the scores of every optimal machine."""
    from svmcvx.experiments.intervals import interval_text

    texts = [
        interval_text(*ends)
        for ends in zip(best["mean_score_lower"], best["mean_score_upper"], strict=True)
    ]
    shares = [number(share, ".4f") for share in best["undecided"]]
    return [
        Column("exact", texts, meaning="mean score of every optimal machine"),
        Column(
            "undecided",
            shares,
            rank=6,
            meaning="share of validation rows whose label is not proved",
        ),
        Column("may be best", [yes_no(value) for value in best["may_be_best"]], rank=1),
    ]


def _print_best(outputs: Outputs, best: dict[str, Any]) -> None:
    chosen = ", ".join(f"{name}={_text(value)}" for name, value in best["params"].items())
    outputs.screen.print(
        f"best: {chosen}, score {best['score']:.4f}", markup=False, highlight=False, soft_wrap=True
    )
    for record in best["certificates"]:
        lower = "no lower bound" if record["lower"] is None else f"lower {record['lower']:.9g}"
        classes = ", ".join(map(str, record["classes"]))
        consoles.note(
            outputs.screen,
            f"fitted to all rows ({classes}): {lower}, upper {record['upper']:.9g}, gap {record['gap']:.1e}",
        )


def _latex(frame: Any) -> str:
    from svmcvx.experiments.tables import latex_frame

    return latex_frame(frame)
