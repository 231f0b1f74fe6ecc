"""Forgeries: changes of honest files, and the list of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .archive import File
from .honest import honest

ROOMS = (
    *("containers", "headers", "arrays", "points", "trees", "cells", "sets", "blocks"),
    *("kernels", "scores"),
)


class Forged(NamedTuple):
    """A file, the data that it is about, the optimum of the problem that it states, which is then
    outside what is claimed, and test rows that are passed.
    """

    content: bytes
    X: Any
    y: np.ndarray
    optimum: float | None = None
    T: Any = None


# Changes a file, and returns nothing, the bytes or the file in its place, or the true optimum.
Change = Callable[[File], Any]


class Forgery(NamedTuple):
    """The name of an honest file, what changes it, and a pattern of the reason of its refusal."""

    name: str
    base: str
    change: Change
    reason: str

    def make(self) -> Forged:
        file = honest(self.base)
        found = self.change(file)
        file = found if isinstance(found, File) else file
        content = found if isinstance(found, bytes) else file.content()
        return Forged(content, file.X, file.y, found if isinstance(found, float) else None, file.T)


def forgeries() -> Iterator[Forgery]:
    for room in ROOMS:
        for entry in import_module(f"{__package__}.{room}").FORGERIES:
            yield Forgery(*entry)


def put(name: str, place: Any, value: Any) -> Change:
    """Change entries of an array."""

    def change(file: File) -> None:
        file.arrays[name][place] = value

    return change


def times(name: str, factor: float, *, all_of_them: bool = False) -> Change:
    """Multiply the largest entry of an array, or all."""

    def change(file: File) -> None:
        values = file.arrays[name]
        largest = np.unravel_index(np.abs(values).argmax(), values.shape)
        values[... if all_of_them else largest] *= factor

    return change


def arrays(**values: Any) -> Change:
    """Add or replace arrays, whose names have two underscores for the point."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    return lambda file: file.arrays.update({k: np.asarray(v) for k, v in named.items()})


def without(*names: str) -> Change:
    """Take arrays away."""
    return lambda file: [file.arrays.pop(name) for name in names][:0] or None


def said(path: str, value: Any = ...) -> Change:
    """Put a value at a path into the header, or take away what is there."""

    def change(file: File) -> None:
        place, *keys = file.header, *path.split(".")
        for key in keys[:-1]:
            place = place[key]
        place.pop(keys[-1]) if value is ... else place.update({keys[-1]: value})

    return change


def numbers(**values: Any) -> Change:
    """Change hyper-parameters."""
    return lambda file: file.statement["hyperparameters"].update(values)


def claims(**values: Any) -> Change:
    """Change what is claimed."""
    return lambda file: file.claim.update(values)


def both(*changes: Change) -> Change:
    def change(file: File) -> None:
        for one in changes:
            one(file)

    return change
