"""Fitted models in files, for the command ``certify``: of scikit-learn, and as coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svmcvx.errors import DataError, missing_extra

if TYPE_CHECKING:
    from svmcvx.certificate import Certificate
    from svmcvx.datasets import Dataset

# Suffixes and first byte of pickle files.
PICKLES, PICKLED = (".pkl", ".pickle", ".joblib", ".sav"), b"\x80"
# Names of the intercept, in any case.
INTERCEPT = ("intercept", "(intercept)", "intercept_", "bias", "b", "const")
CSV_LAYOUT = (
    "a .csv file has a line (name,coefficient) for each column of the data and one for the"
    " intercept (intercept,value), separated by commas, semicolons or tabs"
)


def check_file(path: Path, problem: str | None) -> None:
    """Raise for a file that is not there, a pickle, and coefficients without a problem."""
    if not path.is_file():
        raise DataError(f"the file {path} does not exist; check the path")
    from svmcvx.estimators.model_files import is_text_model

    if problem is None and (path.suffix.lower() in (".npz", ".csv") or is_text_model(path)):
        raise DataError(
            f"{path} holds coefficients: pass --as PROBLEM, as in --as psvm:p=1,C=10, to say of"
            " which problem"
        )
    with path.open("rb") as stream:
        pickled = stream.read(1) == PICKLED
    if pickled or path.suffix.lower() in PICKLES:
        new = path.with_suffix(".skops")
        raise DataError(
            f"{path} is a pickle, which can run any code when it is read, and is not read here."
            ' Convert it where you trust it (pip install skops): python -c "import joblib,'
            f" skops.io; skops.io.dump(joblib.load('{path}'), '{new}')\""
        )


def certificates_of(found: Any, classes: Sequence[Any]) -> list[tuple[list[str], Certificate]]:
    """Return the classes and the certificate of each machine."""
    certificates = found if isinstance(found, Mapping) else {tuple(classes): found}
    return [
        (list(map(str, key)) if isinstance(key, tuple) else [str(key), "rest"], one)
        for key, one in certificates.items()
    ]


def of_scikit_learn(path: Path, data: Dataset) -> tuple[str, list[tuple[list[str], Certificate]]]:
    """Certify a model in a file of skops, or the last step of a pipeline."""
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.pipeline import Pipeline

    from svmcvx.estimators import certify

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
        found = certify(estimator, _named(X, data, estimator), data.y)
    except DataError as error:
        if "X does not hold the support vectors" not in str(error):
            raise
        raise DataError(
            f"{error}. If their columns were scaled outside the model, say how by --scale"
        ) from None
    return type(estimator).__name__, certificates_of(found, estimator.classes_.tolist())


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
                f"{path} holds {', '.join(strange)}, which could run code of their own and belong"
                " to none of what is certified: an SVC, NuSVC, LinearSVC or LogisticRegression, or"
                " a pipeline that ends in one; dump that alone, as in"
                " skops.io.dump(search.best_estimator_, …)"
            )
        return skops.io.load(path, trusted=[])
    except DataError:
        raise
    except Exception as error:  # it raises many kinds of errors for files of other formats
        raise DataError(
            f"{path} cannot be read as a .skops file ({type(error).__name__}: {error}); write it by"
            " skops.io.dump"
        ) from None


def of_coefficients(
    path: Path, data: Dataset, name: str, estimator: Any
) -> tuple[str, list[tuple[list[str], Certificate]]]:
    """Certify a file of coefficients, or of a model, as an answer to a problem."""
    import numpy as np

    from svmcvx.estimators import certify
    from svmcvx.estimators.model_files import is_text_model

    model = path if is_text_model(path) else _model(path, data, estimator)
    found = certify(model, data.X, data.y, problem=estimator)
    return name, certificates_of(found, np.unique(data.y).tolist())


def _model(path: Path, data: Dataset, estimator: Any) -> Any:
    """Return the model of a file of coefficients, or one that was saved."""
    import numpy as np

    from svmcvx.model import LinearModel, MulticlassModel, load_model
    from svmcvx.system.files import read_archive

    coef: Any
    intercept: Any
    if path.suffix.lower() == ".csv":
        coef, intercept = _from_csv(path, data)
    elif path.suffix.lower() == ".npz":
        with read_archive(path) as archive:
            if "header" in archive.shapes:
                return load_model(path)
            listed = ("coef", "coef_", "w", *INTERCEPT)
            arrays = {name: archive[name] for name in listed if name in archive.shapes}
            coef = next((arrays[name] for name in listed[:3] if name in arrays), None)
            intercept = next((arrays[name] for name in INTERCEPT if name in arrays), None)
            if coef is None:
                raise DataError(
                    f"{path} holds {', '.join(archive.shapes) or 'nothing'}; coef (or w) and"
                    " intercept (or b) are needed"
                )
    else:
        raise DataError(
            f"{path} must be a .npz file with coef and intercept, a .csv file of names and"
            " coefficients, or a model file of LIBSVM or LIBLINEAR"
        )
    if intercept is None and getattr(estimator, "intercept", True) in (True, "free", "penalised"):
        raise DataError(
            f"{path} has no intercept, but the problem has one; add it (0 where the model has none)"
        )
    classes = np.unique(data.y)
    try:
        coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        intercept = np.ravel(0.0 if intercept is None else intercept).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{path} has coefficients that are no numbers") from None
    several = classes.size > 2
    expected = (classes.size if several else 1, data.X.shape[1])
    if coef.shape != expected or intercept.size not in (1, expected[0]):
        if path.suffix.lower() == ".csv":
            raise DataError(
                f"{path} has {coef.size} coefficients, and {data.name} has {expected[1]} columns;"
                f" {CSV_LAYOUT}"
            )
        raise DataError(
            f"{path} has coefficients of shape {coef.shape} and {intercept.size} intercepts;"
            f" {data.name} needs {expected} and {expected[0]}"
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise DataError(f"{path} has coefficients that are not finite")
    none = np.zeros(0, dtype=np.intp)
    if several:
        bias = np.broadcast_to(intercept, classes.shape)
        return MulticlassModel(coef=coef.T, intercept=bias, classes=classes, support=none)
    return LinearModel(coef=coef[0], intercept=float(intercept[0]), classes=classes, support=none)


def _from_csv(path: Path, data: Dataset) -> tuple[list[float], float | None]:
    """Return coefficients in the order of the data's columns, and the intercept if there is one.

    The first line may be a line of headings; numbers may have decimal commas where commas do not
    separate.
    """
    import csv

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}); {CSV_LAYOUT}") from None
    separator = max((";", "\t", ","), key=lambda one: (text.count(one) > 0, one != ","))
    lines = [
        [cell.strip() for cell in line]
        for line in csv.reader(text.splitlines(), delimiter=separator, skipinitialspace=True)
        if any(cell.strip() for cell in line)
    ]
    rows: list[tuple[str, float]] = []
    for place, line in enumerate(lines):
        try:
            name, value = line
            rows.append((name, float(value if separator == "," else value.replace(",", "."))))
        except ValueError:
            if place:
                shown = separator.join(line)
                raise DataError(
                    f"{path}: {shown!r} is not a name and a number; {CSV_LAYOUT}"
                ) from None
    weights = dict(rows)
    if len(weights) < len(rows):
        raise DataError(f"{path} names a feature twice")
    own = data.feature_names
    called = [name for name in weights if name.lower() in INTERCEPT and name not in own]
    intercept = weights.pop(called[0]) if called else None
    strange = sorted(set(own) ^ set(weights))
    if own and strange:
        raise DataError(
            f"{path} and {data.name} differ in {', '.join(strange[:5])}; name every feature as the"
            " data do"
        )
    return [weights[name] for name in own] if own else list(weights.values()), intercept
