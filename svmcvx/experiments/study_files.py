"""Studies written down as TOML files."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.discovery import all_estimators

from svmcvx.data import check_choice
from svmcvx.datasets import load
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.experiments.specifications import MODELS
from svmcvx.experiments.studies import Split, as_split

# Arguments of study that a file sets as they are, by their types.
PLAIN: Final = {
    **dict.fromkeys(("repeats", "seed", "n_jobs"), int),
    **dict.fromkeys(("tol", "time_limit"), float),
    **dict.fromkeys(("scoring", "scale", "scale_by", "missing", "backend"), str),
    **dict.fromkeys(("data_dir", "store", "proofs"), str),
}
OTHERS: Final = ("title", "guarantee", "split", "cv", "metrics", "datasets", "models", "tune")
SPACINGS: Final[dict[str, Any]] = {"log": np.geomspace, "linear": np.linspace}


def read_study(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Read a study from a file; return its title and the arguments of :func:`svmcvx.study`."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"the file {path} does not exist; check the path")
    try:
        with path.open("rb") as stream:
            content = tomllib.load(stream)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} cannot be read as TOML ({error})") from None
    known = sorted([*PLAIN, *OTHERS])
    strange = sorted(set(content) - set(known))
    if strange:
        names = ", ".join(map(repr, strange))
        raise DataError(f"{path} has {names}; known are {', '.join(known)}")
    for name in ("models", "datasets"):
        if not content.get(name):
            raise DataError(f"{path} has no {name}; a study needs some")
    arguments = {name: content[name] for name in (*PLAIN, "guarantee") if name in content}
    for name, value in arguments.items():
        kind = PLAIN.get(name, object)
        right = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not right or (kind is not object and isinstance(value, bool)):
            raise DataError(f"{path}: {name} must be a {kind.__name__}, got {value!r}")
        if name in ("data_dir", "store", "proofs"):
            arguments[name] = path.parent / value
    if "metrics" in content:
        arguments["metrics"] = _strings(content["metrics"], "metrics", path)
    if "cv" in content:
        arguments["cv"] = _folds(content["cv"], path)
    arguments |= _datasets(content["datasets"], content.get("split"), path)
    models, tuned = _models(content["models"], path)
    common = _grid(content.get("tune", {}), f"{path}: tune")
    for model in models.values():
        _check_values(model, common)
    if common and tuned:
        raise DataError(
            f"{path} has both a grid for all models and grids of single models; write one or the"
            " other"
        )
    arguments |= {"models": models, "tune": common or tuned or None}
    return str(content.get("title", path.stem)), arguments


def _strings(value: Any, what: str, path: Path) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise DataError(f"{path}: {what} must be a list of strings, got {value!r}")
    return tuple(value)


def _folds(value: Any, path: Path) -> Any:
    """Return the inner folds: a number, or a table with folds, stratify, shuffle and seed."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    known = {"folds", "stratify", "shuffle", "seed"}
    if not isinstance(value, dict) or set(value) - known or "folds" not in value:
        names = ", ".join(sorted(known))
        raise DataError(f"{path}: cv must be a number, or a table of {names}, got {value!r}")
    shuffle = value.get("shuffle", True)
    kind = StratifiedKFold if value.get("stratify", True) else KFold
    try:
        seed = value.get("seed", 0) if shuffle else None
        return kind(value["folds"], shuffle=shuffle, random_state=seed)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: cv cannot be used ({error})") from None


def _datasets(value: Any, split: Any, path: Path) -> dict[str, Any]:
    """Return the arguments ``datasets`` and ``split``; a set is a name, or a table with more."""
    common = Split() if split is None else as_split(split)
    sets: dict[str, Any] = {}
    splits: dict[str, Split] = {}
    if not isinstance(value, list):
        raise DataError(f"{path}: datasets must be a list, got {value!r}")
    for entry in value:
        one = {"name": entry} if isinstance(entry, str) else entry
        known = {"name", "file", "target", "drop", "split"}
        table = isinstance(one, dict) and not set(one) - known
        if not table or not isinstance(one.get("name"), str):
            raise DataError(
                f"{path}: a data set is a name or a table of name, file, target, drop and split,"
                f" got {entry!r}"
            )
        name = one["name"]
        if name in sets:
            raise DataError(f"{path} names the data set {name!r} twice")
        if "file" in one:
            drop = _strings(one.get("drop", []), f"drop of the data set {name!r}", path)
            file = path.parent / str(one["file"])
            sets[name] = load(file, target=one.get("target"), drop=drop)
        else:
            sets[name] = name
        if "split" in one:
            splits[name] = as_split(one["split"])
    return {"datasets": sets, "split": {"default": common, **splits} if splits else common}


def _models(value: Any, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the models, and the grids of those that have one."""
    if not isinstance(value, dict):
        raise DataError(f"{path}: models must be tables, as in [models.hinge], got {value!r}")
    models, tuned = {}, {}
    for name, entry in value.items():
        settings = dict(entry) if isinstance(entry, dict) else {"model": entry}
        kind, grid = settings.pop("model", name), settings.pop("tune", None)
        cls = _class(kind)
        for key, given in settings.items():
            _check_value(cls, key, given)
        try:
            models[name] = cls(**settings)
            strange = sorted(set(grid or ()) - set(models[name].get_params()))
        except TypeError as error:
            raise DataError(f"{path}: the model {name} cannot be made ({error})") from None
        if strange:
            raise DataError(f"{path}: {name} has no parameter {', '.join(strange)} to tune")
        if grid:
            tuned[name] = _grid(grid, f"{path}: {name}.tune")
            _check_values(models[name], tuned[name])
    return models, tuned


def _class(kind: Any) -> Any:
    """Return an estimator's class: one of ours by its name on the command line, or a classifier of
    scikit-learn by its full name.
    """
    if kind in MODELS:
        return MODELS[kind].load()
    for name, found in all_estimators(type_filter="classifier"):
        if kind == f"{found.__module__.partition('._')[0]}.{name}":
            return found
    raise DataError(
        f"model {kind!r} is not known; use {', '.join(MODELS)}, or a classifier of scikit-learn"
        " such as sklearn.svm.SVC"
    )


def _check_values(model: Any, grid: Mapping[str, list[Any]]) -> None:
    for name in grid.keys() & model.get_params().keys():
        for value in grid[name]:
            _check_value(type(model), name, value)


def _check_value(cls: Any, name: str, value: Any) -> None:
    """Raise unless a value is plain: a file of settings must not run or load anything else."""
    if isinstance(value, list) and all(isinstance(part, (int, float)) for part in value):
        return
    words = {
        word
        for constraint in getattr(cls, "_parameter_constraints", {}).get(name, ())
        for word in getattr(constraint, "options", ())
    }
    word = isinstance(value, str) and (issubclass(cls, CertifiedClassifier) or value in words)
    if name == "memory" or not (value is None or word or isinstance(value, (bool, int, float))):
        listed = f" ({', '.join(sorted(map(str, words)))})" if words else ""
        raise DataError(
            f"{name} of {cls.__name__} must be a number, true, false, a list of numbers, or one of"
            f" its words{listed} in a file, got {value!r}"
        )


def _grid(value: Any, what: str) -> dict[str, list[Any]]:
    """Return the values of each parameter: a list, or a range of low, high and number."""
    if not isinstance(value, dict):
        raise DataError(f"{what} must be a table of parameters, got {value!r}")
    grid = {}
    for name, values in value.items():
        if isinstance(values, dict):
            if set(values) - {"spacing"} != {"low", "high", "number"}:
                raise DataError(f"{what}.{name} must have low, high and number, got {values!r}")
            spacing = check_choice(
                values.get("spacing", "log"), f"{what}.{name}.spacing", tuple(SPACINGS)
            )
            try:
                values = SPACINGS[spacing](values["low"], values["high"], values["number"]).tolist()
            except (ValueError, TypeError) as error:
                raise DataError(f"{what}.{name} cannot be used ({error})") from None
        if not isinstance(values, list) or not values:
            raise DataError(f"{what}.{name} must be a list of values, got {values!r}")
        grid[name] = values
    return grid
