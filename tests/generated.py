"""What is written from the catalogue and the code: ``python -m tests.generated`` writes it, the
tests compare.

The stub of the package and the tables of the documentation come from :mod:`svmcvx.catalogue`;
``tests/public_names.json`` holds every public name with its signature.
"""

import inspect
import json
import re
import subprocess
import sys
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

import svmcvx
from svmcvx.catalogue import CATALOGUE
from tests.proofs.proof_schema import header_schema

ROOT = Path(__file__).parents[1]
SNAPSHOT = Path(__file__).parent / "public_names.json"
ROOMS = "catalogue datasets estimators experiments fast guarantees kernels plot theory"
PUBLIC = ("svmcvx", *(f"svmcvx.{room}" for room in ROOMS.split()))


# Tables


def table(heads, rows):
    return "".join(
        "| " + " | ".join(cells) + " |\n" for cells in (heads, ["---"] * len(heads), *rows)
    )


def code(*names):
    return ", ".join(f"`{name}`" for name in names)


# The page or section of each formulation.
SECTIONS = {
    "psvm": "psvm.md",
    "hard_margin": "psvm.md#hard-margin",
    "conic": "conic.md",
    "odm": "odm.md",
    "odml": "odm.md#odml",
    "zero_one": "zero_one.md",
    "ramp": "zero_one.md#ramp-loss",
    "l0": "zero_one.md#l0-norm-hinge",
    "m3svm": "multiclass.md#m3svm",
    "multiclass": "multiclass.md#classical-multi-class-machines",
}


def formulation_table():
    """The formulations with their pages, estimators and spelling on the command line."""
    rows = []
    for entry in CATALOGUE.values():
        face = entry.estimator
        names = (code(face.name), code(face.example)) if face else ("", "")
        rows.append((f"[{entry.title}](formulations/{SECTIONS[entry.name]})", *names))
    return table(("formulation", "estimator", "on the command line"), rows)


def scaling_table():
    """How each formulation scales its objective, beside scikit-learn."""
    rows = [
        (code(entry.name), entry.regulariser, entry.losses, entry.intercept)
        for entry in CATALOGUE.values()
    ]
    rows.append(("scikit-learn `SVC`", "½‖w‖²", "C Σ ξ_i", "free: `psvm` at p = 1"))
    rows.append(
        (
            "scikit-learn `LinearSVC`",
            "½‖w‖²",
            "C Σ ξ_i² (default)",
            'penalised: `psvm` with `intercept="penalised"` at p = 2',
        )
    )
    return table(("formulation", "regulariser", "loss weight", "intercept"), rows)


def fast_table():
    """The specialised solvers, with their methods and what may vary along a path."""
    solvers = [entry.fast for entry in CATALOGUE.values() if entry.fast is not None]
    rows = [(code(f"fast.{solver.name}"), solver.methods, code(*solver.path)) for solver in solvers]
    return table(("solver", "methods", "`fast.path` over"), rows)


def capability_table():
    """What data each formulation takes, its paper, and up to which size there is a second
    opinion.
    """
    rows = []
    for entry in CATALOGUE.values():
        takes, fast = entry.takes, entry.fast if entry.estimator else None
        having = (takes.kernel, takes.several_classes)
        marks = ["yes" if one else "" for one in having]
        sizes = ""
        if fast is not None:
            sizes = " / ".join(map(str, fast.second_opinion_up_to[: 1 + takes.kernel]))
        rows.append((code(entry.name), *marks, sizes, f"[{entry.source}]"))
    heads = (
        "formulation",
        "kernels",
        "several classes",
        "second opinion up to n (linear / kernel)",
        "source",
    )
    return table(heads, rows)


def builder_table():
    """The variables, parameters and constraints of every problem, as it is built at the example of
    its record.
    """
    y = np.array([-1, 1] * 6)
    X = 0.3 * np.stack([np.cos(np.arange(12)), np.sin(2 * np.arange(12))], axis=1) + y[:, None]
    three = np.arange(12) % 3
    spread = X + 4.0 * np.stack([three == 1, three == 2], axis=1)
    rows = []
    for entry in CATALOGUE.values():
        data = (spread, three) if entry.takes.several_classes else (X, y)
        for builder in entry.builders:
            problem = builder.load()(*data, **builder.example)
            settings = (f"{name}={value}" for name, value in builder.example.items())
            names = (problem.var_dict, problem.param_dict, problem.constraint_dict)
            call = code(", ".join([builder.name, *settings]))
            rows.append((call, *(code(*sorted(group)) for group in names)))
    return table(("builder, settings", "variables", "parameters", "constraints"), rows)


# Tasks in the order of the API page, with the modules that serve them; of several the longest name
# counts.
TASKS = {
    "Fit a classifier": ("svmcvx.estimators",),
    "Look at an answer": ("svmcvx.solution", "svmcvx.certificate", "svmcvx.model"),
    "Certify, prove, guarantee": (
        "svmcvx.estimators.certification",
        "svmcvx.proofs",
        "svmcvx.guarantees",
    ),
    "Compare, select, study": ("svmcvx.experiments",),
    "Draw": ("svmcvx.plot", "svmcvx.explorer"),
    "State a problem in cvxpy and solve it": ("svmcvx.formulations", "svmcvx.solve"),
    "Solve by a specialised solver": ("svmcvx.fast",),
    "Choose a kernel": ("svmcvx.kernels",),
    "Load data": ("svmcvx.datasets", "svmcvx.synthetic", "svmcvx.row_blocks"),
    "Compute bounds of learning theory": ("svmcvx.theory",),
    "Add a formulation": (
        "svmcvx.formulations.base",
        "svmcvx.formulations.problem",
        "svmcvx.catalogue",
    ),
    "Catch an error": ("svmcvx.errors",),
}


def task_of(value):
    """Return the task that a name serves, by the module that defines it."""
    module = f"{value.__module__}."
    serving = {
        name: task
        for task, names in TASKS.items()
        for name in names
        if module.startswith(f"{name}.")
    }
    assert serving, f"add {value.__module__} to a task of the API page"
    return serving[max(serving, key=len)]


def in_a_line(value):
    """Return the first paragraph of a docstring as Markdown."""
    text = " ".join(inspect.getdoc(value).partition("\n\n")[0].split())
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")


def api_lists():
    """Every public name once, by task, with the first sentence of its docstring."""
    found = {task: [] for task in TASKS}
    seen = set()
    for room in PUBLIC:
        module = import_module(room)
        for name in names_of(module):
            value = getattr(module, name)
            if id(value) in seen or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            seen.add(id(value))
            public = f"sx{room.removeprefix('svmcvx')}.{name}"
            found[task_of(value)].append(f"- `{public}`: {in_a_line(value)}\n")
    return "\n" + "".join(f"### {task}\n\n{''.join(lines)}\n" for task, lines in found.items())


TABLES = {
    "docs/api.md": {"api": api_lists},
    "docs/formulations.md": {
        "formulations": formulation_table,
        "builders": builder_table,
        "scaling": scaling_table,
    },
    "docs/choosing.md": {"fast": fast_table},
    "docs/estimators.md": {"capabilities": capability_table},
}


def with_tables(text, tables):
    """Replace what stands between the marks ``<!-- table: NAME -->`` and ``<!-- end -->``."""
    for name, make in tables.items():
        mark = f"<!-- table: {name} -->"
        head, found, rest = text.partition(mark)
        assert found, f"{mark} is missing"
        _, end, tail = rest.partition("<!-- end -->")
        assert end
        text = f"{head}{mark}\n{make()}{end}{tail}"
    return text


# Names


def kind(name):
    """Constants, classes and functions, in the order in which the linter wants them."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def names_of(module):
    """Public names of a module; of the package also those that are not in its ``__all__``."""
    return sorted({*module.__all__, *(svmcvx._LAZY if module is svmcvx else ())})


def package_stub(text):
    """The stub of the package, by which type checkers and editors find the names that it imports
    when they are asked for.
    """
    pairs = [
        *(("svmcvx", name) for name in sorted(svmcvx._SUBPACKAGES)),
        *((module, name) for name, module in svmcvx._LAZY.items()),
    ]
    ordered = sorted(pairs, key=lambda pair: (pair[0], kind(pair[1]), pair[1]))
    lines = "".join(f"from {module} import {name} as {name}\n" for module, name in ordered)
    return f"{lines}\n__version__: str\n"


WRITTEN = {
    "svmcvx/__init__.pyi": package_stub,
    "docs/proof_header.schema.json": header_schema,
    **{file: partial(with_tables, tables=tables) for file, tables in TABLES.items()},
}


# Signatures


def described(value):
    """Signature of a function; of a class its bases, its own signature, and those of its public
    methods.
    """
    if inspect.isclass(value):
        try:
            # The signature of an enumeration is that of its base, which changes with Python's
            # version.
            whole = "(value)" if issubclass(value, Enum) else str(inspect.signature(value))
            found = {"class": whole}
        except ValueError:
            found = {"class": ""}
        for name, member in inspect.getmembers_static(value):
            if name.startswith("_") or not any(name in vars(base) for base in ours(value)):
                continue
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            found[name] = (
                str(inspect.signature(member)) if inspect.isfunction(member) else "attribute"
            )
        return found
    if callable(value):
        return str(inspect.signature(value))
    return "module" if inspect.ismodule(value) else type(value).__name__


def ours(cls):
    return [base for base in cls.__mro__ if base.__module__.startswith("svmcvx")]


def public_names():
    names = {}
    for room in PUBLIC:
        module = import_module(room)
        for name in names_of(module):
            names[f"{room}.{name}"] = described(getattr(module, name))
    return names


def snapshot():
    return json.dumps(public_names(), indent=1, ensure_ascii=False) + "\n"


def main():
    for file, make in WRITTEN.items():
        path = ROOT / file
        path.write_text(make(path.read_text()))
    # In a process that imports the names just written.
    subprocess.run([sys.executable, "-m", "tests.generated", "names"], cwd=ROOT, check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["names"]:
        SNAPSHOT.write_text(snapshot())
    else:
        main()
