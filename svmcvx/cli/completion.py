"""Completions for the tabulator key of the shell; nothing here imports more than the catalogue."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from svmcvx.catalogue import CATALOGUE, Entry
from svmcvx.datasets.names import BUILT_IN, known_names

MODELS = tuple(
    entry.estimator.command for entry in CATALOGUE.values() if entry.estimator is not None
)


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str) -> Iterator[str]:
    folder, start = os.path.split(incomplete)
    try:
        found = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            yield os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")


def _in_folder() -> list[str]:
    folder = os.environ.get("SVMCVX_DATA")
    return sorted(path.stem for path in Path(folder).glob("*.npz")) if folder else []


def sets(incomplete: str) -> list[str]:
    """Return the names of the papers' data sets."""
    return _starting(known_names(), incomplete)


def data(incomplete: str) -> list[str]:
    """Return names of data sets, and files."""
    names = dict.fromkeys([*BUILT_IN, *known_names(), *_in_folder()])
    return [*_starting(names, incomplete), *_files(incomplete)]


def _settings(model: str) -> list[str]:
    entry: Entry | None = next(
        (
            one
            for one in CATALOGUE.values()
            if one.estimator is not None and one.estimator.command == model
        ),
        None,
    )
    return (
        []
        if entry is None
        else list(dict.fromkeys(name for builder in entry.builders for name in builder.example))
    )


def models(incomplete: str) -> list[str]:
    """Return names of models for the last part of ``psvm:p=1,od``, and settings for that of
    ``psvm:``.
    """
    before, comma, last = incomplete.rpartition(",")
    model, colon, key = last.partition(":")
    if colon:
        return [
            f"{before}{comma}{model}:{name}=" for name in _settings(model) if name.startswith(key)
        ]
    return [f"{before}{comma}{name}" for name in _starting(MODELS, last)]


def grids(incomplete: str) -> list[str]:
    """Return the names of hyper-parameters, as in ``C=``."""
    names = dict.fromkeys(name for model in MODELS for name in _settings(model))
    return _starting((f"{name}=" for name in [*names, "gamma"]), incomplete)


def in_bash(complete: Callable[[], object]) -> None:
    """Complete a word as a whole that bash has split: it takes the signs : and = for ends of words."""
    given, place = (
        os.environ.get("COMP_WORDS", "").split("\n"),
        int(os.environ.get("COMP_CWORD", "0")),
    )
    words: list[str] = []
    for word in [*given, ""][: place + 1]:
        if words and (word[:1] in (":", "=") or words[-1].endswith((":", "="))):
            words[-1] += word
        else:
            words.append(word)
    last = words[-1] if words else ""
    # bash replaces the text after the last of the two characters.
    prefix = last[: max(last.rfind(":"), last.rfind("=")) + 1]
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        complete()
    for line in printed.getvalue().splitlines():
        print(line.removeprefix(prefix))  # noqa: T201 - for the shell
