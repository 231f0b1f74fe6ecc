"""What a forgery is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import svmcvx as sx

from .archive import File
from .honest import honest

ROOMS = ("containers", "headers", "arrays", "points", "merged", "trees", "kernels", "scores")


class Forged(NamedTuple):
    """A file, and the data that it is about.

    Attributes
    ----------
    content : bytes
    X, y : ndarray or sparse matrix
    optimum : float or None
        The optimum of the problem that the file states; it is outside what is claimed.
    T : ndarray or None
        Test rows that are passed.
    """

    content: bytes
    X: Any
    y: np.ndarray
    optimum: float | None = None
    T: Any = None


class Forgery(NamedTuple):
    """How a file is made, and a pattern of the reason for which it must be refused."""

    name: str
    reason: str
    make: Callable[[], Forged]


FOUND: list[Forgery] = []


def forged(file: File, content: bytes | None = None, optimum: float | None = None) -> Forged:
    """The file of changed contents, or these bytes in its place."""
    return Forged(file.content() if content is None else content, file.X, file.y, optimum, file.T)


def forgery(name: str, reason: str, base: str = "psvm") -> Callable[[Callable[[File], Any]], Any]:
    """Enter a function that takes an honest file, and changes it or returns what is there in its
    place.
    """

    def enter(change: Callable[[File], Any]) -> Callable[[File], Any]:
        def make() -> Forged:
            file = honest(base)
            found = change(file)
            return found if isinstance(found, Forged) else forged(file, found)

        FOUND.append(Forgery(name, reason, make))
        return change

    return enter


def enter_table(changes: dict[str, tuple[str, Callable[[File], Any], str]]) -> None:
    """Enter forgeries by their names, each with the honest file, what changes it, and the reason."""
    for what, (base, change, reason) in changes.items():

        def changed(file: File, change: Callable[[File], Any] = change) -> None:
            change(file)

        forgery(what, reason, base)(changed)


def with_entry(name: str, place: tuple[int, ...] | int, value: float) -> Callable[[File], None]:
    """Return a change of one entry of an array."""

    def change(file: File) -> None:
        file.arrays[name][place] = value

    return change


def blocks_of(X: Any, y: np.ndarray) -> sx.RowBlocks:
    """The same data as two blocks of rows."""
    half = len(y) // 2
    return sx.RowBlocks([lambda: (X[:half], y[:half]), lambda: (X[half:], y[half:])], labelled=True)


def forgeries() -> Iterator[Forgery]:
    """All of them."""
    for room in ROOMS:
        import_module(f"{__package__}.{room}")
    yield from FOUND
