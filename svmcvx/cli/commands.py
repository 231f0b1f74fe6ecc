"""The commands. Each reads its data and models, calls one public function, and prints and writes
the answer.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import svmcvx
from svmcvx.cli import files, screen
from svmcvx.cli.application import Given, app, command, exit_code
from svmcvx.cli.screen import Column, check_writable, columns_of, note, say, short, show
from svmcvx.datasets.names import check_path
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.datasets import Dataset
    from svmcvx.fast.compile_ahead import FirstCall

# Number of settings of a grid that are printed, best first.
SHOWN = 25
# With a certified range each fit is solved at least to this gap.
CERTIFIED_TOL = 1e-8
LOAD, COMPARE = ("svmcvx.datasets", "load"), ("svmcvx.experiments", "compare")
DATA = {LOAD: "target drop keep n_features data_dir"}
SETTINGS = "kernel C gamma solver fit_time_limit"


# What several commands share


def data_set(given: Given, data: str) -> None:
    """Arguments about the data.

    Parameters
    ----------
    data : str
        A built-in data set (breast_cancer, digits, iris, wine, moons, circles, blobs), a set of the
        papers, a name in the data folder, or a file: .csv, .tsv, .txt, .parquet, .npz, or LIBSVM's
        under any name; text also packed (.gz, .bz2, .xz); :a-b behind it selects two classes, as in
        digits:3-8.
    """


def model_settings(
    given: Given,
    kernel: str = "none",
    C: float = 1.0,
    gamma: str = "scale",
    solver: str = "auto",
    fit_time_limit: float | None = None,
    strict: bool = False,
) -> None:
    """Arguments of every model of a command, unless its own settings say otherwise.

    Parameters
    ----------
    kernel : "none", "linear", "rbf", "exponential", "laplacian", "poly" or "sigmoid"
        Kernel of every model that takes one.
    C : float
        Weight of the losses of every model that has one.
    gamma : str
        Kernel parameter: scale, auto or a number.
    solver : str
        auto, fast, or one solver (see doctor).
    fit_time_limit : float
        Seconds for each fit.
    strict : bool
        Exit with 1 if an answer is not certified.
    """


def json_file(given: Given, json: Path | None = None, quiet: bool = False) -> None:
    """Arguments about the output.

    Parameters
    ----------
    json : path
        File for everything that is known, as JSON; - for the standard output.
    quiet : bool
        Print warnings and errors only.
    """


def output_files(
    given: Given,
    json: Path | None = None,
    csv: Path | None = None,
    latex: Path | None = None,
    html: Path | None = None,
    quiet: bool = False,
) -> None:
    """Arguments about the output.

    Parameters
    ----------
    json : path
        File for everything that is known, as JSON; - for the standard output.
    csv : path
        File for the table with all columns; - as above.
    latex : path
        File for the table as LaTeX; - as above.
    html : path
        File for a report as HTML (extra study).
    quiet : bool
        Print warnings and errors only.
    """


def check_words(models: str, given: Given) -> None:
    """Raise for names that are not known, before numpy and all that follows is imported."""
    from svmcvx.experiments.specifications import read_models

    read_models(models)
    folder = given.data_dir is None and not os.environ.get("SVMCVX_DATA")
    if folder and not Path(given.data).exists():
        check_path(given.data.partition(":")[0])


def load(given: Given, name: str | None = None) -> Dataset:
    """Load the data set that a command names."""
    from svmcvx.datasets import load as load_data_set

    columns: dict[str, Any] = {"drop": given.drop or (), "keep": given.keep or ()}
    return load_data_set(name or given.data, **columns, **given.of("data_dir target n_features"))


def described(data: Dataset) -> dict[str, Any]:
    """Return name, size, classes and digest of the data that were loaded."""
    import numpy as np

    from svmcvx.datasets.registry import content_digest, label_text

    labels, counts = np.unique(label_text(data.y), return_counts=True)
    return {
        "name": data.name,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "classes": dict(zip(labels.tolist(), counts.tolist(), strict=True)),
        "sha256": content_digest(data.X, data.y),
    }


def transformed(data: Dataset, transformer: Any) -> Dataset:
    """Return data with columns changed by a transformer, unless it is None."""
    from svmcvx.datasets import Dataset

    if transformer is None:
        return data
    return Dataset(data.name, transformer.fit_transform(data.X), data.y, data.feature_names)


def without_holes(data: Dataset, missing: str) -> Dataset:
    """Return data without missing values, by what ``--missing`` says."""
    import numpy as np

    from svmcvx.datasets.registry import missing_counts
    from svmcvx.display import listed
    from svmcvx.experiments.fit import imputer

    holes = data.missing_values
    if holes == 0:
        return data
    if missing == "drop":
        return data.without_missing()
    if missing == "median":
        return transformed(data, imputer(missing))
    where = ""
    if data.feature_names:
        names = [data.feature_names[j] for j in np.flatnonzero(missing_counts(data.X)[1])]
        where = f", in {listed(names, 20)}"
    raise DataError(
        f"{data.name} has {holes} missing value{'s' * (holes > 1)}{where}; pass --missing drop or"
        " --missing median"
    )


def settings(given: Given) -> dict[str, Any]:
    """Return the settings that every model of a command has unless it says otherwise."""
    from svmcvx.data import check_number, check_time_limit

    gamma: Any = given.gamma
    if gamma not in ("scale", "auto"):
        try:
            gamma = float(gamma)
        except ValueError:
            raise DataError(f"gamma must be a number, 'scale' or 'auto', got {gamma!r}") from None
    check_number(given.tol, "tol")
    if given.fit_time_limit is not None:
        check_number(given.fit_time_limit, "fit_time_limit")
    if "time_limit" in given:
        check_time_limit(given.time_limit)
    return {
        "C": check_number(given.C, "C"),
        "kernel": None if given.kernel == "none" else given.kernel,
        "gamma": gamma,
        "solver": given.solver,
        "time_limit": given.fit_time_limit,
        "tol": given.tol,
    }


def words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def sized(data: Dataset) -> str:
    """Return name, rows and columns of data."""
    return f"{data.name}: {data.X.shape[0]} × {data.X.shape[1]}"


def with_exact(rows: list[dict[str, Any]], lower: str, upper: str) -> list[dict[str, Any]]:
    """Return rows with the interval of the score of every optimal machine as text."""
    from svmcvx.experiments.tables import interval_text

    return [{**row, "exact": interval_text(row[lower], row[upper])} for row in rows]


# The commands


@command(
    "compare",
    data_set,
    model_settings,
    output_files,
    like={
        **DATA,
        COMPARE: "split seed scale missing metrics tol store proofs guarantee backend n_jobs"
        " time_limit",
    },
)
def compare(
    given: Given,
    models: str = "psvm:p=1,psvm:p=1.5,psvm:p=2",
    plot: Path | None = None,
    columns: str | None = None,
    digits: int = 4,
) -> int:
    """Fit several models to a data set and tabulate certificates and accuracies.

    Parameters
    ----------
    models : str
        Models and their settings, as in psvm:p=1,psvm:p=1.5,C=10. Models are psvm, conic, odm,
        odml, zero-one, ramp, l0, m3svm, multiclass.
    plot : path
        Picture to write: decision regions for two features, else margin distributions.
    columns : str
        Columns of the table as LaTeX, as in model,accuracy,gap.
    digits : int
        Decimals of scores in LaTeX.
    """
    check_writable(plot, given.store)
    if plot is not None:
        _check_plot(plot)
    check_words(models, given)
    common = settings(given)
    loaded = load(given)
    # Medians are those of the training part.
    used = loaded if given.missing == "median" else without_holes(loaded, given.missing)
    from svmcvx.experiments.comparison import Comparison
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.experiments.store import progress_bar
    from svmcvx.system.deadline import time_limited

    parsed = parse_models(models, **common)
    comparison = Comparison(
        parsed,
        used.X,
        used.y,
        metrics=words(given.metrics),
        refit=plot is not None,
        **given.of("split seed scale missing tol store proofs guarantee backend n_jobs"),
    )
    interrupted = False
    with (
        time_limited(given.time_limit) as deadline,
        progress_bar(not given.quiet, "models", len(parsed)) as advance,
    ):
        try:
            for _ in comparison.run():
                advance()
        except KeyboardInterrupt:
            interrupted = True
        late = deadline.passed() and not interrupted
    rows = comparison.rows
    failed = [row["note"] for row in rows if row["status"] == "failed"]
    if failed and len(set(failed)) == 1 and len(failed) == len(rows):
        raise DataError(failed[0])
    unsolved = (row["status"] == "time_limit" and row["upper"] is None for row in rows)
    complete = not interrupted and not any(unsolved)
    sizes = {"training": comparison.X_train.shape[0], "test": comparison.X_test.shape[0]}
    title = f"{sized(used)}, {sizes['training']} for training"
    if rows:
        _print_comparison(given, comparison, title)
    given.out.tell_reused(comparison.reused, "model")
    content = {
        "complete": complete,
        "data": described(loaded),
        "split": {**sizes, "test_size": given.split, "seed": given.seed},
        "settings": {
            **given.of(f"models {SETTINGS} scale missing tol guarantee time_limit"),
            "metrics": list(comparison.metrics),
        },
        "reused": comparison.reused,
        "rows": rows,
    }
    frame = comparison.frame()
    chosen = None if columns is None else words(columns)
    given.out.write(
        "compare",
        frame,
        content,
        title=title,
        latex=lambda: frame.latex(columns=chosen, digits=digits),
    )
    if given.proofs is not None:
        given.out.wrote(given.proofs)
    if plot is not None and comparison.fitted:
        _draw(plot, comparison, used)
        given.out.wrote(plot)
    if interrupted:
        ended = f"svmcvx: interrupted after {len(rows)} of {len(parsed)} models"
        say(screen.errors, ended, "yellow")
    uncertified = given.strict and not all(row["certified"] for row in rows)
    return exit_code(complete=complete, late=late, failed=bool(failed) or uncertified)


def _print_comparison(given: Given, comparison: Any, title: str) -> None:
    rows = [
        {**row, "solver": row["solver"] or row["status"], "test": row["accuracy"]}
        for row in comparison.rows
    ]
    rows = with_exact(rows, "accuracy_lower", "accuracy_upper") if comparison.guarantee else rows
    names = ["lower", "upper", "gap", "certified", "test", *comparison.metrics[1:]]
    names = ["model", "solver", *names, *(("exact", "undecided") if comparison.guarantee else ())]
    columns = columns_of(rows, [*names, "n_support", "seconds"])
    show(given.out.screen, title, columns, elsewhere=given.out.elsewhere)
    notes: dict[str, list[str]] = {}
    for what in ("note", "conventions"):
        for row in rows:
            if row[what]:
                notes.setdefault(row[what], []).append(row["model"])
    for text, concerned in notes.items():
        who = "all models" if len(concerned) == len(rows) > 1 else ", ".join(concerned)
        note(given.out.screen, f"{who}: {text}")


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


def _draw(path: Path, comparison: Any, data: Dataset) -> None:
    import matplotlib
    import scipy.sparse as sp

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from svmcvx import plot

    fitted = comparison.fitted
    X, y = comparison.X_train, comparison.y_train
    if data.X.shape[1] == 2 and not sp.issparse(data.X):
        size = (5.2 * len(fitted), 4.6)
        figure, axes = plt.subplots(1, len(fitted), figsize=size, squeeze=False, layout="tight")
        for ax, (name, model) in zip(axes[0], fitted.items(), strict=True):
            plot.decision_regions(model, X, y, ax=ax, title=name)
    else:
        figure, ax = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
        part = "training data"
        if comparison.X_test.shape[0]:
            X, y, part = comparison.X_test, comparison.y_test, "test part"
        plot.margin_distribution(fitted, X, y, ax=ax, title=f"{data.name}: margins on the {part}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


@command(
    "select",
    data_set,
    model_settings,
    output_files,
    like={
        **DATA,
        ("svmcvx.experiments", "certified_select"): "eps",
        COMPARE: "scale missing",
        ("svmcvx.experiments", "select"): "cv seed scoring tol guarantee store time_limit"
        " backend n_jobs",
    },
)
def select(
    given: Given,
    grid: list[str] | None = None,
    certified: list[str] | None = None,
    model: str = "psvm",
) -> int:
    """Choose hyper-parameters by cross-validation along warm-started paths, with a certificate for
    every fit or for those that decide.

    Parameters
    ----------
    grid : list
        Values of a hyper-parameter, as in C=0.1,1,10, or a range C=log:0.01:100:5 or p=linear:1:2:3
        (first, last, number); may be repeated: all combinations are tried.
    certified : list
        In place of a grid: the best value of a whole range, proved, as in C=0.01:100 (psvm, odm:
        C1, C2 or both).
    model : str
        One model and its settings, as in odm:kernel=rbf.
    """
    check_writable(given.store)
    check_words(model, given)
    if (not grid) == (not certified):
        raise DataError("select needs either --grid C=0.1,1,10, or --certified C=0.01:100")
    if certified and given.scoring is not None:
        raise DataError("--certified counts errors: leave out --scoring")
    values, ranges = parse_grid(grid or []), parse_ranges(certified or [])
    common = settings(given)
    loaded = load(given)
    import scipy.sparse as sp
    from sklearn.pipeline import Pipeline

    from svmcvx.arguments import what_was_meant
    from svmcvx.experiments.fit import imputer, scaler
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.system import clock

    parsed = parse_models(model, **common)
    if len(parsed) > 1:
        raise DataError(f"model must be one model, got {model!r}; compare tabulates several")
    label, estimator = parsed[0]
    known = estimator.get_params()
    if strange := [name for name in values if name not in known]:
        raise DataError(
            f"grid names {strange[0]!r}, which {label} does not"
            f" have{what_was_meant(strange[0], sorted(known))}"
        )
    used = loaded if given.missing == "median" else without_holes(loaded, given.missing)
    holes = given.missing == "median" and used.missing_values
    steps = [
        ("impute", imputer(given.missing) if holes else None),
        ("scale", scaler(given.scale, sparse=bool(sp.issparse(used.X)))),
    ]
    steps = [step for step in steps if step[1] is not None]
    pipeline = Pipeline([*steps, ("model", estimator)]) if steps else estimator
    prefix = "model__" if steps else ""
    title = f"{label} on {sized(used)}, {given.cv} folds"
    began = clock.now()
    run = _select_in_ranges if ranges else _select_in_grid
    complete, failed = run(given, pipeline, prefix, used, ranges or values, title, loaded)
    late = given.time_limit is not None and clock.now() - began >= given.time_limit
    if ranges:
        return exit_code(complete=complete or not late, late=late, failed=not complete)
    if not complete:
        advice = "the same command goes on with it"
        if given.store is None:
            advice = "pass --store FILE to go on from there next time"
        why = "the time limit passed" if late else "interrupted"
        say(screen.errors, f"svmcvx: {why}: the table is not complete; {advice}", "yellow")
    return exit_code(complete=complete, late=late, failed=failed)


def _select_in_grid(
    given: Given,
    pipeline: Any,
    prefix: str,
    used: Dataset,
    values: dict[str, Any],
    title: str,
    loaded: Dataset,
) -> tuple[bool, bool]:
    """Run, print and write a selection; return whether it is complete, and whether fits failed."""
    from svmcvx.experiments import select as run_select
    from svmcvx.experiments.fit import certificates
    from svmcvx.experiments.tables import latex_frame

    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message=".* fits: the table holds these")
        found = run_select(
            pipeline,
            {f"{prefix}{name}": several for name, several in values.items()},
            used.X,
            used.y,
            progress=not given.quiet,
            **given.of("cv scoring tol guarantee backend n_jobs store seed time_limit"),
        )
    out = given.out
    frame = found.drop(columns="params").rename(
        columns=lambda name: str(name).replace(f"param_{prefix}", "param_")
    )
    rows = frame.to_dict("records")
    best: Any = frame.sort_values("rank_test_score", kind="stable").head(SHOWN).to_dict("records")
    params = [f"param_{name}" for name in values]
    names = [*params, "mean_test_score", "std_test_score"]
    if "may_be_best" in found:
        best = with_exact(best, "mean_test_score_lower", "mean_test_score_upper")
        names += ["exact", "undecided", "may_be_best"]
    columns = columns_of(best, [*names, "gap", "certified", "n_support", "solver", "seconds"])
    show(out.screen, title, columns, elsewhere=out.elsewhere)
    if len(found) > SHOWN:
        note(out.screen, f"the best {SHOWN} of {len(found)} settings; {out.elsewhere}")
    for text in dict.fromkeys(row["note"] for row in rows if row["note"]):
        note(out.screen, text)
    chosen: dict[str, Any] | None = None
    if found.best_params_ is not None:
        fitted = found.best_estimator_
        last = fitted[-1] if prefix and fitted is not None else fitted
        solution = getattr(last, "solution_", None)
        setting = {name.removeprefix(prefix): one for name, one in found.best_params_.items()}
        records = [] if solution is None else certificates(solution, given.tol)
        chosen = {"params": setting, "score": found.best_score_, "certificates": records}
        text = ", ".join(f"{name}={short(value)}" for name, value in setting.items())
        say(out.screen, f"best: {text}, score {found.best_score_:.4f}")
        for record in records:
            lower = "no lower bound" if record["lower"] is None else f"lower {record['lower']:.9g}"
            classes = ", ".join(map(str, record["classes"]))
            note(
                out.screen,
                f"fitted to all rows ({classes}): {lower}, upper {record['upper']:.9g}, gap"
                f" {record['gap']:.1e}",
            )
    out.tell_reused(found.reused, "fit")
    asked = f"model {SETTINGS} scoring scale missing tol guarantee time_limit"
    content = {
        "complete": found.complete,
        "data": described(loaded),
        "split": {"folds": given.cv, "seed": given.seed},
        "settings": {**given.of(asked), "grid": values},
        "reused": found.reused,
        "best": chosen,
        "rows": rows,
    }
    shown = "mean_test_score std_test_score gap certified n_support seconds"
    printed = frame[[*params, *shown.split()]]
    out.write("select", frame, content, title=title, latex=lambda: latex_frame(printed))
    failed = any(row["note"] for row in rows)
    uncertified = not all(row["certified"] for row in rows)
    return found.complete, failed or (given.strict and uncertified)


def _select_in_ranges(
    given: Given,
    pipeline: Any,
    prefix: str,
    used: Dataset,
    ranges: dict[str, Any],
    title: str,
    loaded: Dataset,
) -> tuple[bool, bool]:
    """Run, print and write a certified selection; return whether it is complete."""
    from sklearn.model_selection import StratifiedKFold

    from svmcvx.experiments import certified_select
    from svmcvx.experiments.tables import latex_frame

    folds: Any = given.cv
    if given.seed is not None:
        folds = StratifiedKFold(given.cv, shuffle=True, random_state=given.seed)
    asked = {**given.of("eps time_limit"), "tol": min(given.tol, CERTIFIED_TOL)}
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message="the fewest errors are known")
        where = given.of("backend n_jobs store")
        found = certified_select(pipeline, used.X, used.y, cv=folds, **asked, **where, **ranges)
    out = given.out
    best: Any = found.candidates.head(SHOWN).to_dict("records")
    columns = columns_of(best, "low high least most")
    show(out.screen, f"{title}: where the best may be", columns, elsewhere=out.elsewhere)
    chosen = ", ".join(f"{name}={short(value)}" for name, value in found.best_params.items())
    say(
        out.screen,
        f"best: {chosen}, at most {found.errors} errors of {found.observations}; no value in the"
        f" range has fewer than {found.least} ({found.fits} fits)",
    )
    out.tell_reused(found.reused, "cut")
    content = {
        "complete": found.complete,
        "data": described(loaded),
        "split": {"folds": given.cv, "seed": given.seed},
        "settings": {"certified": ranges, **asked},
        "reused": found.reused,
        "best": {"params": found.best_params, "errors": found.errors},
        "least": found.least,
        "observations": found.observations,
        "fits": found.fits,
        "rows": found.pieces.to_dict("records"),
    }
    pieces = found.pieces
    out.write("select", pieces, content, title=title, latex=lambda: latex_frame(pieces))
    if not found.complete:
        why = "svmcvx: the proof is not complete; allow more time, or a larger --eps"
        say(screen.errors, why, "yellow")
    return found.complete, False


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
        found = (
            _range(entry, text) if ":" in text else [value_of(w.strip()) for w in text.split(",")]
        )
        if "" in found:
            raise DataError(
                f"grid has an empty value in {entry!r}; write for example {name}=0.1,1,10"
            )
        values[name] = found
    return values


def _range(entry: str, text: str) -> list[Any]:
    import numpy as np

    spacings: dict[str, Any] = {"log": np.geomspace, "linear": np.linspace}
    try:
        spacing, first, last, count = text.split(":")
        values: list[Any] = spacings[spacing](float(first), float(last), int(count)).tolist()
    except (ValueError, KeyError):
        values = []
    if not values:
        raise DataError(
            f"grid cannot read the range {entry!r}; a range is SPACING:FIRST:LAST:NUMBER, as in"
            " C=log:0.01:100:5 or p=linear:1:2:3"
        )
    return values


@command("certify", data_set, model_settings, output_files, like={**DATA, COMPARE: "missing tol"})
def certify(given: Given, model: Path, as_: str | None = None, scale: str = "none") -> int:
    """Certify a model that scikit-learn, or anyone, has trained: its objective, a lower bound, and
    the gap between them.

    Parameters
    ----------
    model : path
        A fitted SVC, NuSVC, LinearSVC or LogisticRegression, or a pipeline that ends in one, in a
        .skops file; with --as coefficients (.npz with coef and intercept, or .csv) or a model that
        svmcvx has saved, or the model file of LIBSVM or LIBLINEAR.
    as_ : str
        The problem that coefficients are an answer to, as in psvm:p=1.5,C=10.
    scale : "none", "standard" or "minmax"
        Scaling of the columns that the model was trained on; a pipeline scales by itself.
    """
    files.check_file(model, as_)
    check_words(as_ or "psvm", given)
    common = settings(given)
    import pandas as pd
    import scipy.sparse as sp

    from svmcvx.experiments.fit import scaler
    from svmcvx.experiments.specifications import parse_models

    loaded = load(given)
    used = without_holes(loaded, given.missing)
    used = transformed(used, scaler(scale, sparse=bool(sp.issparse(used.X))))
    if as_ is None:
        name, found = files.of_scikit_learn(model, used)
    else:
        parsed = parse_models(as_, **common)
        if len(parsed) > 1:
            raise DataError(f"--as must be one problem, got {as_!r}")
        name, found = files.of_coefficients(model, used, *parsed[0])
    rows: list[dict[str, Any]] = [
        {
            "classes": classes,
            "lower": certificate.lower,
            "upper": certificate.upper,
            "gap": certificate.gap,
            "kind": certificate.kind,
            "certified": certificate.is_certified(given.tol),
            "rounding": certificate.residuals.get("rounding"),
        }
        for classes, certificate in found
    ]
    title = f"{name} in {model.name} on {sized(used)}"
    table = [{**row, "classes": ", ".join(row["classes"])} for row in rows]
    show(given.out.screen, title, columns_of(table, "classes lower upper gap certified"))
    content = {
        "complete": True,
        "data": described(loaded),
        "model": {"file": str(model), "type": name},
        "settings": {"as": as_, "scale": scale, **given.of("missing tol")},
        "rows": rows,
    }
    given.out.write("certify", pd.DataFrame(table), content, title=title)
    return exit_code(failed=given.strict and not all(row["certified"] for row in rows))


@command(
    "study",
    output_files,
    like={
        ("svmcvx.experiments", "study"): "data_dir time_limit n_jobs backend store retry_failed"
        " proofs"
    },
)
def study(
    given: Given, file: Path, guarantee: bool = False, strict: bool = False, digits: int = 3
) -> int:
    """Compare models over data sets and repeated splits, each tuned inside its training part.

    What is finished is kept in the file of --store, by default the study's own name with .sqlite.

    Parameters
    ----------
    file : path
        The study as a TOML file: models, data sets, splits, grids.
    guarantee : bool
        Compute what every optimal machine scores on the test part; it may take ten times as long
        as the fits.
    strict : bool
        Exit with 1 if an answer is not certified.
    digits : int
        Decimals of scores in LaTeX.
    """
    check_writable(given.store)
    from svmcvx.experiments import study as run_study
    from svmcvx.experiments.study_files import read_study
    from svmcvx.system import clock

    title, arguments = read_study(file)
    asked = given.of("store proofs data_dir n_jobs backend time_limit")
    arguments |= {name: value for name, value in asked.items() if value is not None}
    # The file may request more.
    arguments["guarantee"] = arguments.get("guarantee") or guarantee
    arguments.setdefault("store", file.with_suffix(".sqlite"))
    began = clock.now()
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message=".* tasks: the result holds these")
        how = {"retry_failed": given.retry_failed, "progress": not given.quiet}
        found = run_study(**arguments, **how)
    limit = arguments.get("time_limit")
    late = not found.complete and limit is not None and clock.now() - began >= limit
    out = given.out
    tables = [
        (f"{metric}, mean ± standard deviation", found.table(metric)) for metric in found.metrics
    ]
    tables += [
        (f"{metric} of every optimal machine, mean of the intervals", found.exact(metric))
        for metric in found.with_exact()
    ]
    for what, table in tables:
        columns = [Column("data set", list(map(str, table.index)), text=True)]
        columns += [
            Column(model, [cell.replace(" ± ", "±") for cell in table[model]])
            for model in found.models
        ]
        show(out.screen, f"{title}: {what}", columns)
    certified, solves = found.solves()
    failures = found.failures()
    note(
        out.screen,
        f"{len(found.frame)} tasks, {len(failures)} failed; {certified} of {solves} solves"
        f" certified; {found.frame['seconds'].sum():.1f} s of work",
    )
    texts = [
        *found.notes(),
        *(f"{name} is left out: {why}" for name, why in found.left_out.items()),
        *(f"{model}: {why}" for model, why in found.without_exact().items()),
        *(f"{len(part)} failed: {why}" for why, part in failures.groupby("note", sort=False)),
    ]
    for text in texts:
        note(out.screen, text)
    out.tell_reused(found.reused, "task")
    out.write(
        "study",
        found.frame,
        {"title": title, **found.contents()},
        title=title,
        latex=lambda: found.to_latex(digits=digits),
        html=lambda path: found.report(path, title=title),
    )
    if not found.complete:
        why = "svmcvx: the study is not complete; the same command goes on with it"
        say(screen.errors, why, "yellow")
    failed = len(failures) > 0 or bool(found.left_out) or (strict and certified < solves)
    return exit_code(complete=found.complete, late=late, failed=failed)


@command("verify", data_set, json_file, like={**DATA, ("svmcvx.proofs", "verify"): "precision"})
def verify(given: Given, proof: Path, test: str | None = None) -> int:
    """Check an interval from the raw data (training.npz beside the proofs) by a second program;
    exit with 0 if it holds, 1 if not.

    Parameters
    ----------
    proof : path
        A file that save_proof, or compare --proofs, has written.
    test : str
        The test rows of a proof that claims scores, as data with the same columns.
    """
    import pandas as pd

    from svmcvx.proofs import ProofFile
    from svmcvx.proofs import verify as verify_proof

    loaded = load(given)
    with ProofFile(proof) as file:
        classes = file.header.statement["classes"]
    if len(classes) == 2 < loaded.classes.size:
        # One pair of several classes, whose labels are stored with the proof.
        loaded = loaded.pair(*classes)
    rows = None if test is None else load(given, test).X
    found = verify_proof(proof, loaded.X, loaded.y, test=rows, precision=given.precision)
    lower = "no lower bound" if found.lower is None else f"lower {found.lower:.17g}"
    upper = "no upper bound" if found.upper == math.inf else f"upper {found.upper:.17g}"
    about = "the file is about other data"
    if found.statement is not None:
        about = f"the problem: {found.statement}"
    verdict = "the proof holds" if found else "the proof does not hold"
    lines = [
        about,
        f"proved: {lower}, {upper}",
        f"{verdict}{': ' + found.why if found.why else ''}",
    ]
    if found.scores is not None:
        lines.insert(2, f"proved: {found.scores}")
    for line in lines:
        say(given.out.screen, line)
    row = {
        "statement": str(found.statement or ""),
        "holds": found.holds,
        "lower": found.lower,
        "upper": found.upper,
        "checked": " ".join(found.checked),
        "why": found.why,
    }
    if found.scores is not None:
        labels = found.scores.labels.tolist()
        row |= {
            "test_rows": len(labels),
            "undecided": labels.count(None),
            "test_digest": found.scores.digest,
        }
    content = {
        "complete": True,
        "data": described(loaded),
        "proof": str(proof),
        "precision": given.precision,
        "rows": [row],
    }
    given.out.write("verify", pd.DataFrame([row]), content, title="verify")
    return exit_code(failed=not found.holds)


# Groups of first calls; calls of one group share most of the compiled functions. The slowest groups
# come first.
GROUPS = ("kernel", "linear", "branch", "active")


def _first_calls(group: str) -> list[FirstCall]:
    from svmcvx.fast.compile_ahead import first_calls

    return first_calls(group)


@command("compile", output_files)
def compile_(given: Given, functions: bool = False) -> int:
    """Compile the specialised solvers ahead, so that no first call has to; later sessions on this
    machine load the result.

    Parameters
    ----------
    functions : bool
        Print the seconds of each function.
    """
    import joblib
    import pandas as pd

    # The processes are started before this one imports the solvers.
    workers = min(joblib.cpu_count(), len(GROUPS))
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    listed = parallel(joblib.delayed(_first_calls)(group) for group in GROUPS)
    calls = [call for found in listed for call in found]
    rows = [
        {
            "call": call.name,
            "compiling_seconds": call.compiling,
            "other_seconds": call.running,
            "functions": len(call.functions),
        }
        for call in calls
    ]
    each = [
        {"module": module, "name": name, "seconds": seconds}
        for call in calls
        for module, name, seconds in call.functions
    ]
    each.sort(key=lambda one: -one["seconds"])
    total = {name: sum(row[name] for row in rows) for name in list(rows[0])[1:]}
    names = "call compiling_seconds other_seconds functions"
    show(given.out.screen, None, columns_of([*rows, {"call": "all", **total}], names))
    if functions and each:
        named = [{**one, "name": f"{one['module']}.{one['name']}"} for one in each]
        show(given.out.screen, None, columns_of(named, "name seconds"))
    content = {"complete": True, "rows": rows, "functions": each}
    given.out.write("compile", pd.DataFrame(rows), content, title="Compiled ahead")
    return exit_code()


@command("doctor", output_files)
def doctor(given: Given) -> int:
    """Show which solvers are installed, licensed, and able to do what."""
    import pandas as pd

    from svmcvx.solve import available_solvers

    found = available_solvers()
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
    simple = ("not needed", "valid", "size-limited", "not tested")
    printed = [
        {
            **row,
            "version": row["version"] or "not installed",
            "licence": row["licence"] if row["licence"] in simple else "not valid",
            "solves": row["classes"],
        }
        for row in rows
    ]
    columns = columns_of(printed, "solver version usable licence solves accuracy")
    title = f"svmcvx {svmcvx.__version__} on Python {sys.version.split()[0]}"
    show(given.out.screen, title, columns, elsewhere=given.out.elsewhere)
    for info in found:
        if not info.usable:
            hint = f"{info.name}: {info.install}"
            if info.installed:
                hint = f"{info.name} needs a licence: {info.licence}"
            note(given.out.screen, hint)
    given.out.write("doctor", pd.DataFrame(rows), {"complete": True, "rows": rows}, title=title)
    return exit_code()


# As they are listed in the help.
ORDER = ("compare", "select", "certify", "study", "verify", "compile", "doctor")
app.registered_commands.sort(key=lambda one: ORDER.index(str(one.name)))
