"""Sliders: which parameters of a model vary, and over which values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.catalogue import find
from svmcvx.display import number
from svmcvx.errors import DataError, DataTypeError, did_you_mean

__all__ = ["LINEAR", "SYMBOLS", "Slider", "sliders_of", "with_settings"]

Floats: TypeAlias = NDArray[np.float64]

# How parameters are written beside their slider.
SYMBOLS = {
    "lam": "λ",
    "lam1": "λ₁",
    "lam2": "λ₂",
    "kappa": "κ",
    "gamma": "γ",
    "C1": "C₁",
    "C2": "C₂",
    "kernel": "kernel",
}
# Weights go from a hundredth of the model's value to a hundred times it, ten values a decade.
DECADES, PER_DECADE = 2, 10
# Widths of kernels: from 1/32 to 32 times the model's, two values an octave.
OCTAVES, PER_OCTAVE = 5, 2
# Kernels that are offered, and the name for the formulation without one.
LINEAR, KERNELS = "linear", ("linear", "rbf", "poly")
WITH_GAMMA = ("rbf", "poly", "exponential", "laplacian", "sigmoid")


@dataclass(frozen=True)
class Slider:
    """A parameter of a model and the values that it may take."""

    name: str
    values: tuple[Any, ...]
    start: int

    @property
    def symbol(self) -> str:
        """How the parameter is written."""
        return SYMBOLS.get(self.name, self.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text."""
        return tuple(number(value, 3) for value in self.values)

    @property
    def is_choice(self) -> bool:
        """Whether the values are names."""
        return any(isinstance(value, str) for value in self.values)

    def position(self, value: Any) -> int:
        """Return the position of a value."""
        if isinstance(value, str) or self.is_choice:
            if value in self.values:
                return self.values.index(value)
        else:
            near = int(np.argmin(np.abs(np.array(self.values) - float(value))))
            # Labels have three digits, and a value may be given as its label shows it.
            if math.isclose(self.values[near], float(value), rel_tol=5e-3, abs_tol=1e-12):
                return near
            raise DataError(
                f"{self.name} has no value {value!r} here; the nearest is {self.labels[near]}, "
                f"and explore(…, values={{{self.name!r}: […]}}) chooses the values"
            )
        raise DataError(f"{self.name} has no value {value!r} here; it has {', '.join(self.labels)}")


def sliders_of(
    model: Any, values: Mapping[str, Sequence[Any]] | None, gamma: float
) -> tuple[Slider, ...]:
    """Return the sliders of a model."""
    parameters = model.get_params(deep=False)
    given = dict(values or {})
    if unknown := [name for name in given if name not in parameters]:
        near = did_you_mean(unknown[0], parameters)
        raise DataError(
            f"values has {unknown[0]!r}, which {type(model).__name__} does not have{near}"
        )
    found: list[Slider] = []
    for name in [*_varied(model, parameters), *given]:
        if name in {slider.name for slider in found}:
            continue
        own = _own_value(name, parameters, gamma)
        chosen = _checked(name, given[name]) if name in given else _default(name, own, parameters)
        if len(chosen) == 0:
            continue
        found.append(Slider(name, chosen, _nearest(chosen, own)))
    if not found:
        raise DataError(f"values leaves no parameter of {type(model).__name__} to vary; name one")
    return tuple(found)


def with_settings(model: Any, settings: Mapping[str, Any]) -> Any:
    """Set parameters of an estimator in place, and return it; the kernel ``"linear"`` is the
    formulation without one.
    """
    own = {
        name: None if name == "kernel" and value == LINEAR else value
        for name, value in settings.items()
    }
    return model.set_params(**own)


def _varied(model: Any, parameters: Mapping[str, Any]) -> list[str]:
    """Return the parameters that vary by default: those that a path of the formulation may follow,
    and the kernel's.
    """
    entry = find(model._stated_as())
    path = entry.fast.path if entry is not None and entry.fast is not None else ()
    # One of two ways to weigh the losses.
    names = [
        name
        for name in path
        if name in parameters and parameters[name] is not None and name != "eps"
    ]
    if "kappa" in names or "k" in names:
        names = [name for name in names if name != "lam"]
    if "kernel" in parameters and (
        parameters["kernel"] is None or isinstance(parameters["kernel"], str)
    ):
        names += ["kernel", "gamma"]
    return names


def _own_value(name: str, parameters: Mapping[str, Any], gamma: float) -> Any:
    if name == "gamma":
        return gamma
    return LINEAR if name == "kernel" and parameters[name] is None else parameters[name]


def _default(name: str, own: Any, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    if name == "kernel":
        return KERNELS if own in KERNELS else (*KERNELS, own)
    if name == "gamma":
        return tuple(
            (
                own
                * 2.0 ** (np.arange(-OCTAVES * PER_OCTAVE, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
            ).tolist()
        )
    if name == "p":
        return tuple(
            np.unique(np.append(np.linspace(1.0, max(4.0, 2.0 * own), 31).round(2), own)).tolist()
        )
    if name == "D":
        return tuple(np.unique(np.append(np.linspace(0.0, 0.95, 20).round(2), own)).tolist())
    if name == "k":
        return tuple(range(2 * max(int(own), 5) + 1))
    if not (math.isfinite(own) and own > 0):
        return ()
    steps = DECADES * PER_DECADE
    return tuple((own * 10.0 ** (np.arange(-steps, steps + 1) / PER_DECADE)).tolist())


def _checked(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or np.ndim(values) != 1:
        raise DataTypeError(f"values[{name!r}] must be a sequence, got {values!r}")
    listed = np.asarray(values).tolist()
    if all(isinstance(value, str) for value in listed):
        return tuple(dict.fromkeys(listed))
    if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in listed):
        raise DataTypeError(f"values[{name!r}] must be finite numbers or names, got {listed!r}")
    return tuple(sorted(set(listed)))


def _nearest(values: tuple[Any, ...], own: Any) -> int:
    """Return the position of the model's value, or of the nearest; of a name that is not there the
    first.
    """
    if isinstance(values[0], str):
        return values.index(own) if own in values else 0
    known = isinstance(own, (int, float)) and math.isfinite(own)
    return int(np.argmin(np.abs(np.array(values) - own))) if known else len(values) // 2
