"""The commands. Each reads its data and models, calls one public function, and prints and writes
the answer.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import svmcvx
from svmcvx.catalogue import KERNELS
from svmcvx.cli.application import Given, command, exit_code
from svmcvx.cli.screen import Outputs, check_writable, say, sized
from svmcvx.cli.signatures import Argument
from svmcvx.errors import DataError, optional

if TYPE_CHECKING:
    import pandas as pd

    from svmcvx.datasets import Dataset

COMPARE = "experiments.comparison:compare"
LOAD = {"datasets.loading:load": "target drop keep n_features data_dir"}
# Arguments that several commands share.
DATA_SET = (
    Argument(
        "data",
        text="A built-in data set (breast_cancer, digits, iris, wine, moons, circles, blobs), a set"
        " of the papers, a name in the data folder, or a file: .csv, .tsv, .txt, .parquet, .npz, or"
        " LIBSVM's under any name; text also packed (.gz, .bz2, .xz); :a-b behind it selects two"
        " classes, as in digits:3-8.",
    ),
)
CHOICES = ", ".join(f'"{name}"' for name in ("none", *KERNELS[:-1]))
MODEL = (
    Argument("kernel", "none", kind=CHOICES, text="Kernel of every model that takes one."),
    Argument("C", 1.0, "float", text="Weight of the losses of every model that has one."),
    Argument("gamma", "scale", text="Kernel parameter: scale, auto or a number."),
    Argument("solver", "auto", text="auto, fast, or one solver (see doctor)."),
)
STRICT = (Argument("strict", False, "bool", text="Exit with 1 if an answer is not certified."),)
OUTPUT = (
    Argument("json", None, "Path", text="File for all that is known; - for standard output."),
    Argument("csv", None, "Path", text="File for the table with all columns; - as above."),
    Argument("latex", None, "Path", text="File for the table as LaTeX; - as above."),
    Argument("html", None, "Path", text="File for a report as HTML (extra study)."),
    Argument("quiet", False, "bool", text="Print warnings and errors only."),
)


def load(given: Given, name: str | None = None) -> Dataset:
    """Load the data set that a command names."""
    from svmcvx.datasets import load as load_data_set

    columns: dict[str, Any] = {name: ",".join(given[name] or ()) for name in ("drop", "keep")}
    data = load_data_set(name or given.data, **columns, **given.of("data_dir target n_features"))
    return data.without_missing() if given.get("missing") == "drop" else data


def models_of(given: Given, text: str, *, single: str = "") -> list[tuple[str, Any]]:
    """Return labelled estimators with shared settings; one, if `single` names the argument."""
    from svmcvx.experiments.specifications import parse_models, value_of

    kernel = None if given.kernel == "none" else given.kernel
    shared = {"kernel": kernel, "gamma": value_of(given.gamma), **given.of("C solver tol")}
    parsed = parse_models(text, **shared)
    if single and len(parsed) > 1:
        raise DataError(f"{single} must be one model, got {text!r}")
    return parsed


@command(
    "compare",
    (*DATA_SET, *MODEL, *STRICT, *OUTPUT),
    LOAD
    | {COMPARE: "split seed cv scale missing metrics tol store proofs guarantee n_jobs time_limit"},
)
def compare(
    given: Given,
    models: str = "psvm:p=1,psvm:p=1.5,psvm:p=2",
    tune: list[str] | None = None,
    plot: Path | None = None,
) -> int:
    """Fit several models to a data set and tabulate certificates and accuracies.

    Parameters
    ----------
    models : str
        Models and their settings, as in psvm:p=1,psvm:p=1.5,C=10: psvm, conic, odm, odml, zero-one,
        ramp, l0, m3svm, multiclass, and scikit-learn's svc, linearsvc.
    tune : list
        Values of a hyper-parameter, as in C=0.1,1,10, of which each model that has it takes the
        best in the training part; ranges as for select. May be repeated.
    plot : path
        Picture to write: decision regions of two features, confusion matrices of several classes,
        else margin distributions.
    """
    out = Outputs("compare", given)
    check_writable(plot, given.store)
    if plot is not None and plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise DataError(f"the picture {plot} must be a .png, .pdf or .svg file")
    parsed, values = models_of(given, models), parse_grid(tune) if tune else None
    data = load(given)
    from svmcvx.experiments import compare as run_compare
    from svmcvx.system import clock

    began = clock.now()
    found = run_compare(
        parsed,
        data,
        tune=values,
        metrics=[word.strip() for word in given.metrics.split(",") if word.strip()],
        return_estimator=plot is not None,
        progress=not given.quiet,
        **given.of("split seed cv scale missing tol store proofs guarantee n_jobs"),
        time_limit=given.time_limit,
    )
    late = given.time_limit is not None and clock.now() - began >= given.time_limit
    rows = found.to_dict("records")
    failed = [row["note"] for row in rows if row["status"] == "failed"]
    if failed and len(set(failed)) == 1 and len(failed) == len(rows):
        raise DataError(failed[0])
    sizes = {"training": len(found.part.y), "test": len(found.part.y_test)}
    title = f"{sized(data)}, {sizes['training']} for training"
    out.show(title, found.shown(), [*found.shown()])
    for text in found.notes():
        out.note(text)
    certificates = [{"certificates": found.certificates[row["model"]]} for row in rows]
    records = [row | own for row, own in zip(rows, certificates, strict=True)]
    content = {"split": sizes, "reused": found.reused, "rows": records}
    out.write(title, found, content, data=data, complete=found.complete)
    if given.proofs is not None:
        out.wrote(given.proofs)
    if plot is not None and found.estimators:
        _draw(plot, found, data)
        out.wrote(plot)
    uncertified = given.strict and not all(row["certified"] for row in rows)
    return exit_code(complete=found.complete, late=late, failed=bool(failed) or uncertified)


def _draw(path: Path, found: Any, data: Dataset) -> None:
    import matplotlib
    import scipy.sparse as sp

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.metrics import ConfusionMatrixDisplay

    from svmcvx import plot

    models, part = found.estimators, found.part
    test = (part.X_test, part.y_test, "test part")
    *rows, where = test if part.y_test.size else (part.X, part.y, "training data")
    flat = data.X.shape[1] == 2 and not sp.issparse(data.X)
    if flat or data.classes.size > 2:
        size = (5.2 * len(models), 4.6)
        figure, axes = plt.subplots(1, len(models), figsize=size, squeeze=False, layout="tight")
        for ax, (name, model) in zip(axes[0], models.items(), strict=True):
            if flat:
                plot.decision_regions(model, part.X, part.y, ax=ax, title=name)
            else:
                look: Any = {"ax": ax, "cmap": "Blues", "colorbar": False}
                ConfusionMatrixDisplay.from_estimator(model, *rows, **look)
                ax.set_title(f"{name}: {where}")
    else:
        figure, ax = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
        plot.margin_distribution(models, *rows, ax=ax, title=f"{data.name}: margins on the {where}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


@command(
    "select",
    (*DATA_SET, *MODEL, *STRICT, *OUTPUT),
    LOAD
    | {
        COMPARE: "scale missing",
        "experiments.selection:select": "cv seed scoring tol guarantee store time_limit n_jobs",
    },
)
def select(given: Given, grid: list[str] | None = None, model: str = "psvm") -> int:
    """Choose hyper-parameters by cross-validation along warm-started paths, with a certificate for
    every fit.

    Parameters
    ----------
    grid : list
        Values of a hyper-parameter, as in C=0.1,1,10, or a range C=log:0.01:100:5 or p=linear:1:2:3
        (first, last, number); may be repeated: all combinations are tried.
    model : str
        One model and its settings, as in odm:kernel=rbf.
    """
    out = Outputs("select", given)
    check_writable(given.store)
    values = parse_grid(grid or [])
    ((label, estimator),) = models_of(given, model, single="model")
    data = load(given)
    from sklearn.pipeline import Pipeline

    from svmcvx.display import settings
    from svmcvx.experiments import select as run_select
    from svmcvx.experiments.fit import certificates, preparation
    from svmcvx.system import clock

    steps = preparation(given.scale, given.missing, data.X)
    began = clock.now()
    found = run_select(
        Pipeline([*steps, ("model", estimator)]),
        values,
        data.X,
        data.y,
        progress=not given.quiet,
        **given.of("cv scoring tol guarantee n_jobs store seed time_limit"),
    )
    late = given.time_limit is not None and clock.now() - began >= given.time_limit

    def plain(table: pd.DataFrame) -> pd.DataFrame:
        return table.rename(columns=lambda name: str(name).replace("param_model__", "param_"))

    frame = plain(found.drop(columns="params"))
    rows, shown = frame.to_dict("records"), plain(found.shown())
    title = f"{label} on {sized(data)}, {given.cv} folds"
    out.show(title, shown, [*shown])
    for text in found.notes():
        out.note(text)
    content = {"split": {"folds": given.cv, "seed": given.seed}, "reused": found.reused}
    content |= {"best": None, "rows": rows}
    if found.best_params_ is not None:
        best = {name.removeprefix("model__"): one for name, one in found.best_params_.items()}
        chosen: dict[str, Any] = {"params": best, "score": found.best_score_}
        content["best"] = chosen
        say(out.screen, f"best: {settings(best)}, score {found.best_score_:.4f}")
        if found.best_estimator_ is not None:
            solution = getattr(found.best_estimator_[-1], "solution_", None)
            records = certificates(solution, given.tol) if solution else []
            chosen["certificates"] = records
            if records:
                out.show("fitted to all rows", records, ["classes", "lower", "upper", "gap"])
    out.write(title, frame, content, data=data, complete=found.complete)
    failed = any(row["note"] for row in rows)
    uncertified = given.strict and not all(row["certified"] for row in rows)
    return exit_code(complete=found.complete, late=late, failed=failed or uncertified)


def parse_grid(grid: list[str]) -> dict[str, list[Any]]:
    """Return the values of each hyper-parameter from ``NAME=VALUES``, a list or a range."""
    import numpy as np

    from svmcvx.experiments.specifications import value_of

    spacings: dict[str, Any] = {"log": np.geomspace, "linear": np.linspace}
    values: dict[str, list[Any]] = {}
    for entry in grid:
        name, _, text = (part.strip() for part in entry.partition("="))
        try:
            if ":" in text:
                spacing, first, last, count = text.split(":")
                ends = float(first), float(last)
                found: list[Any] = spacings[spacing](*ends, int(count)).tolist()
            else:
                found = [value_of(word.strip()) for word in text.split(",")]
        except (ValueError, KeyError):
            found = []
        if not name or not found or "" in found or name in values:
            raise DataError(
                f"grid cannot read {entry!r}: write all values of a name once, as in C=0.1,1,10, or"
                " a range, C=log:0.01:100:5 or p=linear:1:2:3"
            )
        values[name] = found
    if not values:
        raise DataError("grid must name values, as in --grid C=0.1,1,10")
    return values


def _read_model(path: Path, *, coefficients: bool) -> Any:
    """Return a model for :func:`svmcvx.certify`, with a problem if the file has coefficients."""
    if not path.is_file():
        raise DataError(f"the file {path} does not exist; check the path")
    from svmcvx.estimators.model_files import is_text_model
    from svmcvx.model import load_model
    from svmcvx.system.files import read_archive

    text, numbers = is_text_model(path), path.suffix.lower() == ".npz"
    if coefficients != (text or numbers):
        raise DataError(
            f"{path}: pass --as PROBLEM, as in --as psvm:p=1,C=10, with a .npz file of coef and"
            " intercept or a model file of LIBSVM or LIBLINEAR, and with no other file"
        )
    if text:
        return path
    if not numbers:
        return _read_skops(path)
    with read_archive(path) as archive:
        if "header" not in archive.shapes:
            return {name: archive[name] for name in archive.shapes}
    return load_model(path)


def _read_skops(path: Path) -> Any:
    """Return the estimator in a file of skops, which loads known types only."""
    skops = optional("skops.io", "skops")
    try:
        strange = skops.get_untrusted_types(file=path)
        found = None if strange else skops.load(path, trusted=[])
    except Exception as error:  # it raises many kinds of errors for files of other formats
        raise DataError(
            f"{path} cannot be read as a .skops file ({type(error).__name__}: {error}). Pickles and"
            " joblib files can run any code when they are read, and are not read here: convert one"
            " that you trust by skops.io.dump(joblib.load(…), 'model.skops')"
        ) from None
    if strange:
        raise DataError(
            f"{path} holds {', '.join(strange)}, which could run code of their own; dump an SVC,"
            " NuSVC, LinearSVC or LogisticRegression, or a pipeline that ends in one, alone, as in"
            " skops.io.dump(search.best_estimator_, …)"
        )
    return found


@command("certify", (*DATA_SET, *MODEL, *STRICT, *OUTPUT), LOAD | {COMPARE: "missing tol"})
def certify(given: Given, model: Path, as_: str | None = None, scale: str = "none") -> int:
    """Certify a model that scikit-learn, or anyone, has trained: its objective, a lower bound, and
    the gap between them.

    Parameters
    ----------
    model : path
        A fitted SVC, NuSVC, LinearSVC or LogisticRegression, or a pipeline that ends in one, in a
        .skops file; with --as coefficients (.npz with coef and intercept) or a model that svmcvx
        has saved, or the model file of LIBSVM or LIBLINEAR.
    as_ : str
        The problem that coefficients are an answer to, as in psvm:p=1.5,C=10.
    scale : "none", "standard" or "minmax"
        Scaling of the columns that the model was trained on; a pipeline scales by itself.
    """
    out = Outputs("certify", given)
    trained = _read_model(model, coefficients=as_ is not None)
    name, problem = type(trained).__name__, None
    if as_ is not None:
        ((name, problem),) = models_of(given, as_, single="--as")
    data = load(given)
    import pandas as pd

    from svmcvx.experiments.fit import certificate_row, preparation

    X: Any = data.X
    for _, step in preparation(scale, given.missing, X):
        X = step.fit_transform(X)
    named = getattr(trained, "feature_names_in_", None) is not None
    if named and data.feature_names:
        X = pd.DataFrame(X, columns=list(data.feature_names))
    whole = svmcvx.certify(trained, X, data.y, problem=problem)
    rows = []
    for key, one in {**whole.parts, tuple(data.classes.tolist()): whole}.items():
        classes = list(map(str, key)) if isinstance(key, tuple) else [str(key), "rest"]
        facts = {"classes": classes, "kind": one.kind, "rounding": one.residuals.get("rounding")}
        rows.append(certificate_row(one, given.tol, **facts))
    title = f"{name} in {model.name} on {sized(data)}"
    out.show(title, rows, ["classes", "lower", "upper", "gap", "certified"])
    table = pd.DataFrame(rows).assign(classes=[", ".join(row["classes"]) for row in rows])
    out.write(title, table, {"rows": rows}, data=data)
    return exit_code(failed=given.strict and not all(row["certified"] for row in rows))


@command("verify", (*DATA_SET, *OUTPUT), LOAD | {"proofs.checker:verify": "precision"})
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
    out = Outputs("verify", given)
    import pandas as pd

    from svmcvx.proofs import ProofFile
    from svmcvx.proofs import verify as verify_proof

    data = load(given)
    with ProofFile(proof) as file:
        classes = file.statement.classes
    if len(classes) == 2 < data.classes.size:
        # One pair of several classes, whose labels are stored with the proof.
        data = data.pair(*classes)
    rows = None if test is None else load(given, test).X
    found = verify_proof(proof, data.X, data.y, test=rows, precision=given.precision)
    lower = "no lower bound" if found.lower is None else f"lower {found.lower:.17g}"
    upper = "no upper bound" if found.upper == math.inf else f"upper {found.upper:.17g}"
    stated = found.statement
    row: dict[str, Any] = {"statement": str(stated or "")}
    row |= {name: getattr(found, name) for name in ("holds", "lower", "upper", "why")}
    row["checked"] = " ".join(found.checked)
    say(out.screen, f"the problem: {stated}" if stated else "the file is about other data")
    say(out.screen, f"proved: {lower}, {upper}")
    if found.scores is not None:
        say(out.screen, f"proved: {found.scores}")
        labels = found.scores.labels.tolist()
        row |= {"test_rows": len(labels), "undecided": labels.count(None)}
        row["test_digest"] = found.scores.digest
    verdict = "the proof holds" if found else "the proof does not hold"
    say(out.screen, f"{verdict}{f': {found.why}' if found.why else ''}")
    out.write("verify", pd.DataFrame([row]), {"rows": [row]}, data=data)
    return exit_code(failed=not found.holds)


# Groups of first calls; calls of one group share most of the compiled functions. The slowest groups
# come first.
GROUPS = ("kernel", "linear", "branch", "active")


@command("compile", OUTPUT)
def compile_(given: Given) -> int:
    """Compile the specialised solvers ahead, so that no first call has to; later sessions on this
    machine load the result.
    """
    out = Outputs("compile", given)
    import joblib
    import pandas as pd

    from svmcvx.fast.compile_ahead import first_calls

    workers = min(joblib.cpu_count(), len(GROUPS))
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    listed = parallel(joblib.delayed(first_calls)(group) for group in GROUPS)
    calls = [call for found in listed for call in found]
    rows = [{**call._asdict(), "functions": len(call.functions)} for call in calls]
    numbers = ("compiling", "running", "functions")
    total = {name: sum(row[name] for row in rows) for name in numbers}
    out.show(None, [*rows, {"name": "all", **total}], ["name", *numbers])
    each = [function._asdict() for call in calls for function in call.functions]
    out.write("Compiled ahead", pd.DataFrame(rows), {"rows": rows, "functions": each})
    return exit_code()


@command("doctor", OUTPUT)
def doctor(given: Given) -> int:
    """Show which solvers are installed, licensed, and able to do what."""
    out = Outputs("doctor", given)
    import pandas as pd

    from svmcvx.solve import available_solvers

    found = available_solvers()
    rows = [{**vars(info), "classes": ", ".join(info.classes)} for info in found]
    title = f"svmcvx {svmcvx.__version__} on Python {sys.version.split()[0]}"
    out.show(title, rows, ["name", "version", "usable", "classes"])
    for info in found:
        if not info.usable:
            hint = f"{info.name}: {info.install}"
            out.note(f"{info.name} needs a licence: {info.licence}" if info.installed else hint)
    out.write(title, pd.DataFrame(rows), {"rows": rows})
    return exit_code()
