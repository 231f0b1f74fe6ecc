"""Completions for the tabulator key of the shell; nothing here imports more than the catalogue."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from svmcvx.catalogue import CATALOGUE
from svmcvx.datasets.names import BUILT_IN, known_names

# Names of the models, with the hyper-parameters of each.
MODELS: dict[str, list[str]] = {
    entry.estimator.command: list(
        dict.fromkeys(name for builder in entry.builders for name in builder.example)
    )
    for entry in CATALOGUE.values()
    if entry.estimator is not None
}


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def data(incomplete: str) -> list[str]:
    """Return names of data sets, and files."""
    folder, start = os.path.split(incomplete)
    own = os.environ.get("SVMCVX_DATA")
    names = [*BUILT_IN, *known_names(), *(path.stem for path in Path(own or ".").glob("*.npz"))]
    files = (
        os.path.join(folder, path.name) + "/" * path.is_dir()
        for path in sorted(Path(folder or ".").glob(f"{start}*"))
    )
    return [*_starting(dict.fromkeys(names), incomplete), *files]


def models(incomplete: str) -> list[str]:
    """Return names of models for the last part of ``psvm:p=1,od``, and settings for that of
    ``psvm:``.
    """
    before, comma, last = incomplete.rpartition(",")
    model, colon, key = last.partition(":")
    found = _starting(MODELS, last)
    if colon:
        found = [f"{model}:{name}=" for name in MODELS.get(model, []) if name.startswith(key)]
    return [f"{before}{comma}{name}" for name in found]


def grids(incomplete: str) -> list[str]:
    """Return the names of hyper-parameters, as in ``C=``."""
    names = dict.fromkeys([*(name for own in MODELS.values() for name in own), "gamma"])
    return _starting((f"{name}=" for name in names), incomplete)


def in_bash(complete: Callable[[], object]) -> None:
    """Complete a word as a whole that bash has split: it takes the signs : and = for ends of words."""
    given = [*os.environ.get("COMP_WORDS", "").split("\n"), ""]
    words: list[str] = []
    for word in given[: int(os.environ.get("COMP_CWORD", "0")) + 1]:
        if words and (word[:1] in (":", "=") or words[-1].endswith((":", "="))):
            words[-1] += word
        else:
            words.append(word)
    # bash replaces the text after the last of the two characters.
    kept = re.match(r"(?:.*[:=])?", words[-1])
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        complete()
    for line in printed.getvalue().splitlines():
        print(line.removeprefix(kept[0] if kept else ""))  # noqa: T201 - for the shell
