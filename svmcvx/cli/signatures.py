"""Options of commands, made from signatures and docstrings: of the commands themselves, and of the
functions that they call, whose source is parsed and not imported, so that help and errors appear
without numpy.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

import svmcvx
from svmcvx.cli import completion

# Headings of the help, by the names of options; all others are about models.
PANELS = {
    "Data": "target drop keep n_features data_dir missing scale split seed cv test",
    "Limits and workers": "store time_limit backend n_jobs retry_failed fit_time_limit",
    "Output": "proofs plot columns digits functions json csv latex html quiet",
}
METAVARS = {"drop": "COLUMN", "keep": "COLUMN", "target": "COLUMN", "data_dir": "FOLDER"}
METAVARS |= {"proofs": "FOLDER", "backend": "ADDRESS", "grid": "NAME=VALUES", "as_": "PROBLEM"}
METAVARS |= {"certified": "NAME=LOW:HIGH", "time_limit": "SECONDS", "fit_time_limit": "SECONDS"}
FLAGS = {"quiet": ("--quiet", "-q")}
WORDS = {"data": completion.data, "models": completion.models, "model": completion.models}
WORDS |= {"as_": completion.models, "grid": completion.grids}
# Types as text, where the annotation of a function is Any or a container.
KINDS = {"cv": "int", "scoring": "str | None", "metrics": "str"}


class Argument(NamedTuple):
    """An argument of a function; `kind` is its type in the docstring."""

    name: str
    default: Any
    annotation: str
    kind: str
    text: str


@cache
def arguments_of(module: str, function: str) -> tuple[str, dict[str, Argument]]:
    """Return the summary and the arguments of a function in a package that is not imported."""
    folder = Path(svmcvx.__file__).parent.joinpath(*module.split(".")[1:])
    head = f"\ndef {function}("
    sources = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    source = next(text for text in sources if head in text)
    # The function ends before the next line that is not indented.
    body = source[source.index(head) + 1 :]
    end = re.search(r"\n(?=[^\s)])", body)
    node: Any = ast.parse(body[: end.start()] if end else body).body[0]
    summary, texts = _documented(ast.get_docstring(node) or "")
    plain, named = node.args.args, node.args.kwonlyargs
    defaults = [None] * (len(plain) - len(node.args.defaults)) + node.args.defaults
    found = {}
    for one, default in zip([*plain, *named], [*defaults, *node.args.kw_defaults], strict=True):
        value = ... if default is None else ast.literal_eval(default)
        annotation = "Any" if one.annotation is None else ast.unparse(one.annotation)
        found[one.arg] = Argument(one.arg, value, annotation, *texts.get(one.arg, ("", "")))
    return summary, found


def own_arguments(function: Callable[..., Any]) -> Iterator[Argument]:
    """Yield the arguments of a command after its first one."""
    _, texts = _documented(inspect.getdoc(function) or "")
    for one in list(inspect.signature(function).parameters.values())[1:]:
        value = ... if one.default is inspect.Parameter.empty else one.default
        yield Argument(one.name, value, one.annotation, *texts.get(one.name, ("", "")))


def _documented(text: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """Return the summary of a docstring, and type and first sentence of each parameter."""
    section = text.partition("\nParameters\n----------\n")[2]
    section = re.split(r"\n\n[A-Z]\w+\n-{3,}\n", section)[0]
    found: dict[str, tuple[str, str]] = {}
    for entry in re.split(r"^(?=\w)", section, flags=re.MULTILINE):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        words = _plain(" ".join(body.split()))
        first = re.split(r"(?<=[a-z0-9)])\. (?=[A-Z])", words)[0].rstrip(".")
        found |= dict.fromkeys(names.split(", "), (kind, f"{first}." if first else ""))
    return _plain(" ".join(text.partition("\n\n")[0].split())), found


def _plain(text: str) -> str:
    """Return text without the marks of reStructuredText and rich."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text)
    return text.replace("``", "").replace("`", "").replace('"', "").replace("[", r"\[")


def parameter(one: Argument) -> inspect.Parameter:
    """Return the parameter of a command: an argument if it has no default, else an option."""
    name, default = one.name, one.default
    annotation = KINDS.get(name, one.annotation)
    choices = re.findall(r'"([\w-]+)"', one.kind)
    kind: Any = str
    if annotation == "bool" or isinstance(default, bool):
        kind = bool
    elif choices:
        kind = Literal[tuple(choices)]
    elif annotation.startswith(("Sequence", "list")):
        kind, default = list[str] | None, None
    elif "Path" in annotation:
        kind = Path
    elif annotation.split(" ")[0] in ("int", "float"):
        kind = {"int": int, "float": float}[annotation.split(" ")[0]]
    if default is None:
        kind = kind | None
    elif isinstance(default, tuple):
        default = ",".join(default)
    metavar = METAVARS.get(name, "FILE" if kind in (Path, Path | None) else None)
    more: dict[str, Any] = {"help": one.text, "autocompletion": WORDS.get(name)}
    about: Any
    if default is ...:
        about = typer.Argument(metavar=name.upper(), **more)
    else:
        panel = next((head for head, names in PANELS.items() if name in names.split()), "Model")
        flags = FLAGS.get(name, (f"--{name.rstrip('_').replace('_', '-')}",))
        about = typer.Option(*flags, metavar=metavar, rich_help_panel=panel, **more)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=Annotated[kind, about],
    )
