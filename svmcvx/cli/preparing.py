"""What commands do with their shared options before they compute."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svmcvx.cli import consoles
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.cli.outputs import Outputs
    from svmcvx.datasets import Dataset

__all__ = [
    "check_words",
    "load",
    "model_settings",
    "pipeline",
    "scaled",
    "tell_reused",
    "without_holes",
]


def check_words(models: str, data: str, data_dir: Path | None) -> None:
    """Raise for names that are not known, before numpy and all that follows is imported."""
    from svmcvx.datasets.names import check_path
    from svmcvx.experiments.specifications import read_models

    read_models(models)
    if data_dir is None and not os.environ.get("SVMCVX_DATA") and not Path(data).exists():
        check_path(data.partition(":")[0])


def load(
    data: str,
    data_dir: Path | None,
    target: str | None,
    drop: list[str] | None,
    keep: list[str] | None = None,
) -> Dataset:
    """Load the data set that a command names."""
    from svmcvx.datasets import load as load_data_set

    return load_data_set(data, data_dir, target=target, drop=drop or (), keep=keep or ())


def without_holes(data: Dataset, missing: str) -> Dataset:
    """Return data without missing values, by what ``--missing`` says."""
    import numpy as np

    from svmcvx.data import check_choice
    from svmcvx.datasets import Dataset
    from svmcvx.datasets.content import missing_counts
    from svmcvx.datasets.tables import LISTED
    from svmcvx.experiments.preparation import MISSING, imputer

    check_choice(missing, "missing", MISSING)
    holes = data.missing_values
    if holes == 0:
        return data
    if missing == "drop":
        return data.without_missing()
    filled = imputer(missing)
    if filled is None:
        missed = f"{holes} missing value{'s' * (holes > 1)}"
        columns = np.flatnonzero(missing_counts(data.X)[1])
        if data.feature_names:
            missed += (
                f", in {', '.join(data.feature_names[j] for j in columns[:LISTED])}"
                + ", …" * (columns.size > LISTED)
            )
        raise DataError(f"{data.name} has {missed}; pass --missing drop or --missing median")
    return Dataset(data.name, filled.fit_transform(data.X), data.y, data.feature_names)


def scaled(data: Dataset, scale: str) -> Dataset:
    """Return data with columns scaled by all of its rows."""
    import scipy.sparse as sp

    from svmcvx.data import check_choice
    from svmcvx.datasets import Dataset
    from svmcvx.experiments.preparation import SCALES, scaler

    columns = scaler(check_choice(scale, "scale", SCALES), sparse=bool(sp.issparse(data.X)))
    return (
        data
        if columns is None
        else Dataset(data.name, columns.fit_transform(data.X), data.y, data.feature_names)
    )


def pipeline(estimator: Any, data: Dataset, scale: str, missing: str) -> tuple[Any, str, Dataset]:
    """Return an estimator behind scaling and imputation, what its parameters then begin with, and
    the data for it.
    """
    import scipy.sparse as sp
    from sklearn.pipeline import Pipeline

    from svmcvx.data import check_choice
    from svmcvx.experiments.preparation import MISSING, SCALES, imputer, scaler

    check_choice(scale, "scale", SCALES)
    check_choice(missing, "missing", MISSING)
    if missing != "median":
        data = without_holes(data, missing)
    steps = [
        ("impute", imputer(missing) if data.missing_values else None),
        ("scale", scaler(scale, sparse=bool(sp.issparse(data.X)))),
    ]
    steps = [(name, step) for name, step in steps if step is not None]
    return (
        (Pipeline([*steps, ("model", estimator)]), "model__", data)
        if steps
        else (estimator, "", data)
    )


def model_settings(
    kernel: str, C: float, gamma: str, solver: str, fit_time_limit: float | None, tol: float
) -> dict[str, Any]:
    """Return the settings that every model of a command has unless it says otherwise."""
    from svmcvx.data import check_number

    if fit_time_limit is not None:
        check_number(fit_time_limit, "fit_time_limit", low=0, open_low=True)
    return {
        "C": C,
        "kernel": None if kernel == "none" else kernel,
        "gamma": _gamma(gamma),
        "solver": solver,
        "time_limit": fit_time_limit,
        "tol": check_number(tol, "tol", low=0, high=1, open_low=True, open_high=True),
    }


def _gamma(text: str) -> float | str:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise DataError(f"gamma must be a number, 'scale' or 'auto', got {text!r}") from None


def tell_reused(outputs: Outputs, reused: int, what: str) -> None:
    """Say how much of the work was found in the file of ``--store``."""
    if reused:
        consoles.note(
            outputs.screen,
            f"{reused} {what}{'s' if reused > 1 else ''} taken from the file of --store",
        )
