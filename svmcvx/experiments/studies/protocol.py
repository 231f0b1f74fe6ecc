"""How a study splits its data, prepares them, tunes its models and scores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline

from svmcvx.data import check_choice, check_number, check_whole
from svmcvx.errors import DataError, DataTypeError, did_you_mean
from svmcvx.experiments.fits import check_metrics
from svmcvx.experiments.intervals import check_interval
from svmcvx.experiments.preparation import (
    MISSING,
    SCALES,
    imputer,
    is_pairwise,
    prepares_itself,
    scaler,
)
from svmcvx.experiments.search_paths import parameter_of

__all__ = ["Protocol", "Split", "as_split", "grids", "piped"]

Rows: TypeAlias = NDArray[np.intp]

FITTED_ON = ("training", "all")
GUARANTEES = (False, True, "tuning")


@dataclass(frozen=True)
class Split:
    """How the observations of a data set are parted into training and test parts.

    Parameters
    ----------
    test_size : float
        Share of the test part, 0.3 by default; without effect if there are folds.
    folds : int, optional
        Parts of a cross-validation, each of which is the test part once.
    stratify : bool
        Keep the shares of the classes; True by default.
    """

    test_size: float = 0.3
    folds: int | None = None
    stratify: bool = True

    def __post_init__(self) -> None:
        check_number(self.test_size, "test_size", low=0, high=1, open_low=True, open_high=True)
        if self.folds is not None:
            check_whole(self.folds, "folds", 2)

    def parts(self, y: NDArray[Any], seed: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of the training and the test part, once or once a fold.

        Raises
        ------
        DataError
            If a class has too few observations.
        """
        rows = np.arange(y.size)
        try:
            if self.folds is not None:
                kind = StratifiedKFold if self.stratify else KFold
                _, counts = np.unique(y, return_counts=True)
                if self.stratify and counts.min() < self.folds:
                    # scikit-learn warns only, and leaves folds without the class.
                    raise ValueError(
                        f"a class has {counts.min()} observations for {self.folds} folds"
                    )
                yield from kind(self.folds, shuffle=True, random_state=seed).split(rows, y)
                return
            train, test = train_test_split(
                rows,
                test_size=self.test_size,
                random_state=seed,
                stratify=y if self.stratify else None,
            )
        except ValueError as error:
            raise DataError(
                f"the split cannot be made ({error}); change it, or set stratify to False"
            ) from None
        yield train, test

    def __str__(self) -> str:
        kind = f"{self.folds} folds" if self.folds is not None else f"test share {self.test_size:g}"
        return f"{kind}, {'stratified' if self.stratify else 'not stratified'}"


def as_split(value: Any) -> Split:
    """Return a split, from a split, a test share, a number of folds, or the fields of a split."""
    if isinstance(value, Split):
        return value
    if isinstance(value, Mapping):
        strange = sorted(set(map(str, value)) - {"test_size", "folds", "stratify"})
        if strange:
            raise DataError(
                f"split has no setting {', '.join(strange)}; it has test_size, folds and stratify"
            )
        return Split(**value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataTypeError(
            f"split must be a test share, a number of folds or a Split, got {value!r}"
        )
    return Split(folds=value) if isinstance(value, int) else Split(test_size=value)


@dataclass(frozen=True)
class Protocol:
    """Settings that all tasks of a study share; see :func:`svmcvx.study` for the parameters."""

    repeats: int = 10
    cv: Any = 5
    scoring: Any = None
    metrics: tuple[str, ...] = ("accuracy",)
    scale: str = "standard"
    scale_by: str = "training"
    missing: str = "error"
    tol: float = 1e-6
    seed: int = 0
    guarantee: bool | str = False
    certify: str = "chosen"

    def __post_init__(self) -> None:
        check_whole(self.repeats, "repeats", 1)
        check_whole(self.seed, "seed", 0)
        check_number(self.tol, "tol", low=0, open_low=True)
        check_choice(self.scale, "scale", SCALES)
        check_choice(self.certify, "certify", ("all", "chosen"))
        if self.guarantee not in GUARANTEES:
            raise DataError(f"guarantee must be False, True or 'tuning', got {self.guarantee!r}")
        if self.guarantee == "tuning":
            check_interval(self.scoring)
        check_choice(self.scale_by, "scale_by", FITTED_ON)
        check_choice(self.missing, "missing", MISSING)
        check_metrics(self.metrics)

    def described(self) -> dict[str, str]:
        """Return the settings as text."""
        return {
            name: " ".join(str(value).split())
            for name, value in asdict(self).items()
            if value is not None
        }


def piped(model: Any, protocol: Protocol, *, sparse: bool) -> tuple[Any, str]:
    """Return a model behind what prepares its features by the training part, and what its
    parameters then begin with.
    """
    if protocol.scale_by == "all" or prepares_itself(model) or is_pairwise(model):
        return clone(model), ""
    before = [
        ("impute", imputer(protocol.missing)),
        ("scale", scaler(protocol.scale, sparse=sparse)),
    ]
    steps = [
        (name, step)
        for name, step in before
        if step is not None and not (name == "impute" and sparse)
    ]
    if not steps:
        return clone(model), ""
    return Pipeline([*steps, ("model", clone(model))]), "model__"


def grids(models: Sequence[tuple[str, Any]], tune: Any) -> dict[str, Any]:
    """Return the grid of each model that is to be tuned."""
    if tune is None:
        return {}
    if not isinstance(tune, Mapping):
        raise DataTypeError(
            f"tune must be a mapping, such as {{'C': [0.1, 1.0, 10.0]}}, got {tune!r}"
        )
    names = [name for name, _ in models]
    if tune and all(_is_grid(value) for value in tune.values()):
        strange = sorted(set(tune) - set(names))
        if strange:
            raise DataError(
                f"tune names {', '.join(map(repr, strange))}; the models are {', '.join(names)}"
            )
        return {name: grid for name, grid in tune.items() if grid}
    found: dict[str, Any] = {}
    used = set()
    for name, model in models:
        known = {parameter_of(model, key): key for key in tune if parameter_of(model, key)}
        if known:
            found[name] = {parameter: tune[key] for parameter, key in known.items()}
            used |= set(known.values())
    unused = sorted(set(tune) - used)
    if unused:
        there = sorted({name for _, model in models for name in model.get_params()})
        last = {name.rpartition("__")[2]: name for name in there}
        meant = (
            f"; did you mean {last[unused[0]]!r}?"
            if unused[0] in last
            else did_you_mean(unused[0], there)
        )
        raise DataError(
            f"tune has {', '.join(map(repr, unused))}, which no model has as a parameter{meant}"
        )
    return found


def _is_grid(value: Any) -> bool:
    several = (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(part, Mapping) for part in value)
    )
    return value is None or isinstance(value, Mapping) or several
