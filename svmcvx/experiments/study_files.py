"""Studies written down as TOML files."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.discovery import all_estimators

from svmcvx.data import check_choice
from svmcvx.datasets import load
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.experiments.comparison import Split, grids
from svmcvx.experiments.specifications import MODELS, spaced
from svmcvx.experiments.studies import as_split

# Arguments of study that a file sets as they are, by their types.
PLAIN: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("repeats", "seed", "n_jobs"), (int,)),
    **dict.fromkeys(("tol", "time_limit"), (int, float)),
    **dict.fromkeys(("scoring", "scale", "scale_by", "missing", "backend"), (str,)),
    **dict.fromkeys(("data_dir", "store", "proofs"), (str,)),
    "guarantee": (bool,),
}
OTHERS: Final = ("title", "split", "cv", "metrics", "datasets", "models", "tune")


def read_study(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Read a study from a file; return its title and the arguments of :func:`svmcvx.study`."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"the file {path} does not exist; check the path") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as TOML ({error})") from None
    try:
        return str(content.get("title", path.stem)), _arguments(content, path.parent)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _arguments(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    _known(content, sorted([*PLAIN, *OTHERS]), "the file")
    for name in ("models", "datasets"):
        if not content.get(name):
            raise DataError(f"{name} are missing; a study needs some")
    arguments = {name: content[name] for name in PLAIN if name in content}
    for name, value in arguments.items():
        if type(value) not in PLAIN[name]:
            kinds = " or ".join(kind.__name__ for kind in PLAIN[name])
            raise DataError(f"{name} must be a {kinds}, got {value!r}")
        if name in ("data_dir", "store", "proofs"):
            arguments[name] = folder / value
    if "metrics" in content:
        arguments["metrics"] = _strings(content["metrics"], "metrics")
    if "cv" in content:
        arguments["cv"] = _folds(content["cv"])
    arguments |= _datasets(content["datasets"], content.get("split", Split()), folder)
    models, tuned = _models(content["models"])
    common = _grid(content.get("tune", {}), "tune")
    for model in models.values():
        _check_values(model, common)
    # A model's own grid takes the place of the common one.
    shared = grids([*models.items()], common or None)
    return arguments | {"models": models, "tune": shared | tuned or None}


def _known(table: Any, names: Sequence[str], what: str) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{what} must be a table, got {table!r}")
    for name in table:
        check_choice(name, f"a key of {what}", names)


def _strings(value: Any, what: str) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise DataError(f"{what} must be a list of strings, got {value!r}")
    return tuple(value)


def _folds(value: Any) -> Any:
    """Return the inner folds: a number, or a table."""

    def splitter(folds: int, stratify: bool = True, shuffle: bool = True, seed: int = 0) -> Any:
        kind = StratifiedKFold if stratify else KFold
        return kind(folds, shuffle=shuffle, random_state=seed if shuffle else None)

    try:
        return value if type(value) is int else splitter(**value)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"cv must be a number, or a table of folds, stratify, shuffle and seed, got {value!r}"
            f" ({error})"
        ) from None


def _datasets(value: Any, split: Any, folder: Path) -> dict[str, Any]:
    """Return the arguments ``datasets`` and ``split``; a set is a name, or a table with more."""
    if not isinstance(value, list):
        raise DataError(f"datasets must be a list, got {value!r}")
    sets: dict[str, Any] = {}
    splits = {"default": as_split(split)}
    for entry in value:
        one = {"name": entry} if isinstance(entry, str) else entry
        _known(one, ("name", "file", "target", "drop", "split"), "a data set")
        name = one.get("name")
        if not isinstance(name, str) or name in sets:
            raise DataError(f"a data set must have a name of its own, got {name!r}")
        sets[name] = name
        if "file" in one:
            drop = _strings(one.get("drop", []), f"drop of the data set {name!r}")
            sets[name] = load(folder / str(one["file"]), target=one.get("target"), drop=drop)
        if "split" in one:
            splits[name] = as_split(one["split"])
    return {"datasets": sets, "split": splits}


def _models(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the models, and the grids of those that have one."""
    if not isinstance(value, dict):
        raise DataError(f"models must be tables, as in [models.hinge], got {value!r}")
    models, tuned = {}, {}
    for name, entry in value.items():
        settings = dict(entry) if isinstance(entry, dict) else {"model": entry}
        kind, grid = settings.pop("model", name), settings.pop("tune", None)
        cls = _class(kind)
        for key, given in settings.items():
            _check_value(cls, key, given)
        try:
            models[name] = cls(**settings)
        except TypeError as error:
            raise DataError(f"the model {name} cannot be made ({error})") from None
        if grid:
            tuned[name] = _grid(grid, f"{name}.tune")
            for key in tuned[name]:
                check_choice(key, f"a parameter of {name}", tuple(models[name].get_params()))
            _check_values(models[name], tuned[name])
    return models, tuned


def _class(kind: Any) -> Any:
    """Return a class of ours by its short name, or one of scikit-learn by its full name."""
    if isinstance(kind, str) and kind in MODELS:
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
            try:
                values = spaced(**values)
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"{what}.{name} must have low, high and number, and may have spacing ({error})"
                ) from None
        if not isinstance(values, list) or not values:
            raise DataError(f"{what}.{name} must be a list of values, got {values!r}")
        grid[name] = values
    return grid
