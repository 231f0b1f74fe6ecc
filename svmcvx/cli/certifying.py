"""The commands ``certify`` and ``verify``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svmcvx.cli import completion, consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column, number, yes_no
from svmcvx.cli.outputs import Outputs, described
from svmcvx.errors import DataError, missing_extra

if TYPE_CHECKING:
    from svmcvx.certificate import Certificate
    from svmcvx.datasets import Dataset

# Suffixes and first byte of pickle files.
PICKLES, PICKLED = (".pkl", ".pickle", ".joblib", ".sav"), b"\x80"
# Names of the row of a table that holds the intercept.
INTERCEPT = ("intercept", "bias", "b")
CSV_LAYOUT = "a .csv file has a line of headings, then a line for each column of the data (name,coefficient) and one for the intercept (intercept,value)"


@app.command()
def certify(
    model: Annotated[
        Path,
        typer.Argument(
            help="A fitted SVC, NuSVC, LinearSVC or LogisticRegression, or a pipeline that ends in one, in a .skops file; with --as "
            "coefficients (.npz with coef and intercept, or .csv) or a model that svmcvx has saved, or the model file of LIBSVM or LIBLINEAR.",
            metavar="MODEL",
        ),
    ],
    data: options.Data,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="The problem that coefficients are an answer to, as in psvm:p=1.5,C=10.",
            metavar="PROBLEM",
            autocompletion=completion.models,
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    target: options.Target = None,
    drop: options.Drop = None,
    keep: options.Keep = None,
    data_dir: options.DataDir = None,
    missing: options.Missing = "error",
    scale: Annotated[
        options.Scaling,
        typer.Option(
            help="Scaling of the columns that the model was trained on: none, standard or minmax; a pipeline scales by itself.",
            rich_help_panel=options.DATA,
        ),
    ] = "none",
    kernel: options.Kernel = "none",
    C: options.Weight = 1.0,
    gamma: options.Gamma = "scale",
    solver: options.Solver = "auto",
    tol: options.Tol = 1e-6,
    strict: options.Strict = False,
    fit_time_limit: options.FitTimeLimit = None,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Certify a model that scikit-learn, or anyone, has trained: its objective, a lower bound, and
    the gap between them.
    """
    outputs = Outputs(json, csv, latex, html, quiet)
    _check_file(model, as_)
    preparing.check_words(as_ or "psvm", data, data_dir)
    settings = preparing.model_settings(kernel, C, gamma, solver, fit_time_limit, tol)
    import pandas as pd

    loaded = preparing.load(data, data_dir, target, drop, keep)
    used = preparing.scaled(preparing.without_holes(loaded, missing), scale)
    if as_ is None:
        name, found = _of_scikit_learn(model, used)
    else:
        name, found = _of_coefficients(model, used, as_, settings)
    rows: list[dict[str, Any]] = [
        {
            "classes": classes,
            "lower": certificate.lower,
            "upper": certificate.upper,
            "gap": certificate.gap,
            "kind": certificate.kind,
            "certified": certificate.is_certified(tol),
            "rounding": certificate.residuals.get("rounding"),
        }
        for classes, certificate in found
    ]
    title = f"{name} in {model.name} on {used.name}: {used.X.shape[0]} × {used.X.shape[1]}"
    columns = [
        Column("classes", [", ".join(row["classes"]) for row in rows], text=True),
        Column(
            "lower", [number(row["lower"], ".10g") for row in rows], meaning="bound on the optimum"
        ),
        Column(
            "upper",
            [number(row["upper"], ".10g") for row in rows],
            meaning="objective at the model",
        ),
        Column("gap", [number(row["gap"], ".1e") for row in rows], meaning="relative"),
        Column("certified", [yes_no(row["certified"]) for row in rows]),
    ]
    consoles.show(outputs.screen, title, columns)
    content = {
        "complete": True,
        "data": described(loaded),
        "model": {"file": str(model), "type": name},
        "settings": {"as": as_, "scale": scale, "missing": missing, "tol": tol},
        "rows": rows,
    }
    frame = pd.DataFrame([{**row, "classes": ", ".join(row["classes"])} for row in rows])
    outputs.write("certify", frame, content, title=title)
    return exit_code(
        complete=True, late=False, failed=strict and not all(row["certified"] for row in rows)
    )


def _check_file(path: Path, problem: str | None) -> None:
    if not path.is_file():
        raise DataError(f"the file {path} does not exist; check the path")
    from svmcvx.model.text_files import is_text_model

    if problem is None and (path.suffix.lower() in (".npz", ".csv") or is_text_model(path)):
        raise DataError(
            f"{path} holds coefficients: pass --as PROBLEM, as in --as psvm:p=1,C=10, to say of which problem"
        )
    with path.open("rb") as stream:
        pickled = stream.read(1) == PICKLED
    if pickled or path.suffix.lower() in PICKLES:
        new = path.with_suffix(".skops")
        raise DataError(
            f"{path} is a pickle, which can run any code when it is read, and is not read here. Convert it where you trust it "
            "(pip install skops): "
            f"python -c \"import joblib, skops.io; skops.io.dump(joblib.load('{path}'), '{new}')\""
        )


def _of_scikit_learn(path: Path, data: Dataset) -> tuple[str, list[tuple[list[str], Certificate]]]:
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.pipeline import Pipeline

    from svmcvx.estimators import certify as certify_estimator

    estimator = _read_skops(path)
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        estimator = getattr(estimator, "best_estimator_", estimator)
    X: Any = data.X
    if isinstance(estimator, Pipeline):
        *before, (_, estimator) = estimator.steps
        for _, step in before:
            try:
                X = step.transform(_named(X, data, step))
            except (ValueError, TypeError, AttributeError) as error:
                raise DataError(f"the pipeline cannot transform these data: {error}") from None
    try:
        found = certify_estimator(estimator, _named(X, data, estimator), data.y)
    except DataError as error:
        if "X does not hold the support vectors" not in str(error):
            raise
        raise DataError(
            f"{error}. If their columns were scaled outside the model, say how by --scale"
        ) from None
    certificates: Mapping[Any, Certificate] = (
        found if isinstance(found, Mapping) else {tuple(estimator.classes_.tolist()): found}
    )
    return type(estimator).__name__, _rows_of(certificates)


def _rows_of(certificates: Mapping[Any, Certificate]) -> list[tuple[list[str], Certificate]]:
    """Return the classes and the certificate of each row of the table."""
    return [
        (list(map(str, key)) if isinstance(key, tuple) else [str(key), "rest"], one)
        for key, one in certificates.items()
    ]


def _named(X: Any, data: Dataset, step: Any) -> Any:
    """Return data with the names of their columns where the step was trained with names."""
    import pandas as pd
    import scipy.sparse as sp

    names = getattr(step, "feature_names_in_", None)
    own = list(data.feature_names) or None
    if names is None or sp.issparse(X) or isinstance(X, pd.DataFrame):
        return X
    return pd.DataFrame(X, columns=own if own and len(own) == X.shape[1] else list(names))


def _read_skops(path: Path) -> Any:
    try:
        import skops.io
    except ImportError:
        raise missing_extra("skops", "skops") from None
    try:
        strange = skops.io.get_untrusted_types(file=path)
        if strange:
            raise DataError(
                f"{path} holds {', '.join(strange)}, which could run code of their own and belong to none of what is certified: an SVC, NuSVC, LinearSVC "
                "or LogisticRegression, or a pipeline that ends in one; dump that alone, as in skops.io.dump(search.best_estimator_, …)"
            )
        return skops.io.load(path, trusted=[])
    except DataError:
        raise
    except Exception as error:  # it raises many kinds of errors for files of other formats
        raise DataError(
            f"{path} cannot be read as a .skops file ({type(error).__name__}: {error}); write it by skops.io.dump"
        ) from None


def _of_coefficients(
    path: Path, data: Dataset, problem: str, settings: Mapping[str, Any]
) -> tuple[str, list[tuple[list[str], Certificate]]]:
    import numpy as np

    from svmcvx.estimators import certify
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.model.text_files import is_text_model

    parsed = parse_models(problem, **settings)
    if len(parsed) > 1:
        raise DataError(f"--as must be one problem, got {problem!r}")
    name, estimator = parsed[0]
    model = path if is_text_model(path) else _model(path, data)
    found = certify(model, data.X, data.y, problem=estimator)
    certificates = (
        found if isinstance(found, Mapping) else {tuple(np.unique(data.y).tolist()): found}
    )
    return name, _rows_of(certificates)


def _model(path: Path, data: Dataset) -> Any:
    """Return the model of a file of coefficients, or one that was saved."""
    import numpy as np

    from svmcvx.model import LinearModel, MulticlassModel, load_model

    coef: Any
    intercept: Any
    if path.suffix.lower() == ".csv":
        coef, intercept = _from_csv(path, data)
    elif path.suffix.lower() == ".npz":
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except Exception as error:  # numpy and zipfile raise many kinds of errors for damaged files
            raise DataError(
                f"{path} cannot be read as .npz ({type(error).__name__}: {error})"
            ) from None
        if "header" in arrays:
            return load_model(path)
        coef, intercept = _from_arrays(path, arrays)
    else:
        raise DataError(
            f"{path} must be a .npz file with coef and intercept, a .csv file of names and coefficients, or a model file of LIBSVM or LIBLINEAR"
        )
    classes = np.unique(data.y)
    coef, intercept = (
        np.atleast_2d(np.asarray(coef, dtype=np.float64)),
        np.ravel(intercept).astype(np.float64),
    )
    several = classes.size > 2
    expected = (classes.size if several else 1, data.X.shape[1])
    if coef.shape != expected or intercept.size not in (1, expected[0]):
        if path.suffix.lower() == ".csv":
            raise DataError(
                f"{path} has {coef.size} coefficients, and {data.name} has {expected[1]} columns; {CSV_LAYOUT}"
            )
        raise DataError(
            f"{path} has coefficients of shape {coef.shape} and {intercept.size} intercepts; {data.name} needs {expected} and "
            f"{expected[0]}"
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise DataError(f"{path} has coefficients that are not finite")
    none = np.zeros(0, dtype=np.intp)
    if several:
        return MulticlassModel(
            coef=coef.T,
            intercept=np.broadcast_to(intercept, classes.shape),
            classes=classes,
            support=none,
        )
    return LinearModel(coef=coef[0], intercept=float(intercept[0]), classes=classes, support=none)


def _from_arrays(path: Path, arrays: Mapping[str, Any]) -> tuple[Any, Any]:
    coef = next((arrays[name] for name in ("coef", "coef_", "w") if name in arrays), None)
    intercept = next(
        (arrays[name] for name in ("intercept", "intercept_", "b") if name in arrays), None
    )
    if coef is None:
        raise DataError(
            f"{path} holds {', '.join(arrays) or 'nothing'}; coef (or w) and intercept (or b) are needed"
        )
    return coef, 0.0 if intercept is None else intercept


def _from_csv(path: Path, data: Dataset) -> tuple[Any, float]:
    """Return coefficients in the order of the data's columns, and the intercept."""
    import pandas as pd

    try:
        table = pd.read_csv(path)
        names, values = (
            [str(name) for name in table.iloc[:, 0]],
            table.iloc[:, 1].astype(float).to_list(),
        )
    except (ValueError, IndexError, TypeError, OSError) as error:
        raise DataError(f"{path} cannot be read ({error}); {CSV_LAYOUT}") from None
    weights = dict(zip(names, values, strict=True))
    if len(weights) < len(names):
        raise DataError(f"{path} names a feature twice")
    intercept = 0.0
    for name in INTERCEPT:
        if name in weights and name not in data.feature_names:
            intercept = weights.pop(name)
            break
    if data.feature_names and set(data.feature_names) == set(weights):
        return [weights[name] for name in data.feature_names], intercept
    if data.feature_names and set(data.feature_names) & set(weights):
        strange = sorted(set(data.feature_names) ^ set(weights))
        raise DataError(
            f"{path} and {data.name} differ in {', '.join(strange[:5])}; name every feature as the data do"
        )
    return list(weights.values()), intercept


@app.command()
def verify(
    proof: Annotated[
        Path,
        typer.Argument(
            help="A file that save_proof, or compare --proofs, has written.", metavar="PROOF"
        ),
    ],
    data: options.Data,
    test: Annotated[
        str | None,
        typer.Option(
            help="The test rows of a proof that claims scores, as data with the same columns.",
            metavar="DATA",
        ),
    ] = None,
    target: options.Target = None,
    drop: options.Drop = None,
    keep: options.Keep = None,
    data_dir: options.DataDir = None,
    precision: Annotated[int, typer.Option(help="Bits of the ball arithmetic.")] = 128,
    json: options.Json = None,
    quiet: options.Quiet = False,
) -> int:
    """Check an interval from the raw data (training.npz beside the proofs) by a second program;
    exit with 0 if it holds, 1 if not.
    """
    outputs = Outputs(json, quiet=quiet)
    import pandas as pd

    from svmcvx.proofs import ProofFile
    from svmcvx.proofs import verify as verify_proof

    loaded = preparing.load(data, data_dir, target, drop, keep)
    with ProofFile(proof) as file:
        classes = file.header.statement["classes"]
    if len(classes) == 2 < loaded.classes.size:
        # One pair of several classes, whose labels are stored with the proof.
        loaded = loaded.pair(*classes)
    rows = None if test is None else preparing.load(test, data_dir, target, drop, keep).X
    found = verify_proof(proof, loaded.X, loaded.y, test=rows, precision=precision)
    lower = "no lower bound" if found.lower is None else f"lower {found.lower:.17g}"
    upper = "no upper bound" if found.upper == math.inf else f"upper {found.upper:.17g}"
    verdict = "the proof holds" if found else "the proof does not hold"
    lines = (
        "the file is about other data"
        if found.statement is None
        else f"the problem: {found.statement}",
        f"proved: {lower}, {upper}",
        *(() if found.scores is None else (f"proved: {found.scores}",)),
        f"{verdict}{': ' + found.why if found.why else ''}",
    )
    for line in lines:
        outputs.screen.print(line, markup=False, highlight=False, soft_wrap=True)
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
        "precision": precision,
        "rows": [row],
    }
    outputs.write("verify", pd.DataFrame([row]), content, title="verify")
    return exit_code(complete=True, late=False, failed=not found.holds)
