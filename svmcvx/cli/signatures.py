"""Options of commands, made from signatures and docstrings: of the commands themselves, and of the
functions that they call, whose source is parsed and not imported, so that help and errors appear
without numpy.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

import svmcvx
from svmcvx import catalogue

# Headings of the help, by the names of options; all others are about models.
PANELS = {
    "Data": "target drop keep n_features data_dir missing scale split seed cv test",
    "Limits and workers": "store time_limit n_jobs",
    "Output": "proofs plot json csv latex html quiet",
}
# Types as text, where the annotation of a function is Any or a container.
KINDS = {"cv": "int", "scoring": "str | None", "metrics": "str"}


class Argument(NamedTuple):
    """An argument of a function; `kind` is its type in the docstring."""

    name: str
    default: Any = ...
    annotation: str = "str"
    kind: str = ""
    text: str = ""


@cache
def arguments_of(function: str) -> dict[str, Argument]:
    """Return the arguments of a function, ``"module:name"``, in a module that is not imported."""
    module, _, name = function.partition(":")
    path = Path(svmcvx.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    node: Any = next(one for one in body if getattr(one, "name", "") == name)
    texts = _documented(ast.get_docstring(node) or "")
    plain, named = node.args.args, node.args.kwonlyargs
    defaults = [None] * (len(plain) - len(node.args.defaults)) + node.args.defaults
    found = {}
    for one, default in zip([*plain, *named], [*defaults, *node.args.kw_defaults], strict=True):
        value = ... if default is None else _evaluated(default)
        annotation = "Any" if one.annotation is None else ast.unparse(one.annotation)
        found[one.arg] = Argument(one.arg, value, annotation, *texts.get(one.arg, ("", "")))
    return found


def _evaluated(default: ast.expr) -> Any:
    """Return the value of a literal, or of a constant of the catalogue."""
    if isinstance(default, ast.Name):
        return getattr(catalogue, default.id)
    return ast.literal_eval(default)


def own_arguments(function: Callable[..., Any]) -> dict[str, Argument]:
    """Return the arguments of a command after its first one."""
    texts = _documented(inspect.getdoc(function) or "")
    found = {}
    for one in list(inspect.signature(function).parameters.values())[1:]:
        value = ... if one.default is inspect.Parameter.empty else one.default
        found[one.name] = Argument(one.name, value, one.annotation, *texts.get(one.name, ("", "")))
    return found


def _documented(text: str) -> dict[str, tuple[str, str]]:
    """Return type and first sentence of each parameter of a docstring."""
    section = text.partition("\nParameters\n----------\n")[2]
    section = re.split(r"\n\n[A-Z]\w+\n-{3,}\n", section)[0]
    found: dict[str, tuple[str, str]] = {}
    for entry in re.split(r"^(?=\w)", section, flags=re.MULTILINE):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        # Without the marks of reStructuredText, and of rich.
        words = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(body.split()))
        words = re.sub(r'[`"]', "", words).replace("[", r"\[")
        first = re.split(r"(?<=[a-z0-9)])\. (?=[A-Z])", words)[0].rstrip(".")
        found |= dict.fromkeys(names.split(", "), (kind, f"{first}." if first else ""))
    return found


def parameter(one: Argument) -> inspect.Parameter:
    """Return the parameter of a command: an argument if it has no default, else an option."""
    name, default = one.name, one.default
    annotation = KINDS.get(name, one.annotation)
    choices = re.findall(r'"([\w-]+)"', one.kind)
    kind: Any = str
    if annotation == "bool":
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
    about: Any
    if default is ...:
        about = typer.Argument(metavar=name.upper(), help=one.text)
        default = inspect.Parameter.empty
    else:
        panel = next((head for head, names in PANELS.items() if name in names.split()), "Model")
        flags = [f"--{name.rstrip('_').replace('_', '-')}", *(["-q"] if name == "quiet" else [])]
        about = typer.Option(*flags, rich_help_panel=panel, help=one.text)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about]
    )
