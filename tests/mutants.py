"""Faults put into the package by machine, one at a time, and whether a test notices each.

    python -m pytest -q --cov --cov-context=test        # once: which test executes which line (.coverage)
    python -m tests.mutants --count 300 --seed 1        # then: faults by a seeded draw, over all strata
    python -m tests.mutants --stratum proofs --count 40 --results mutants.jsonl

Each fault is made in a copy of the repository. The tests that execute its line run there, quickest first, until one fails. Results are appended to a
file of JSON lines, so that a run that was interrupted goes on with the same seed; a fault that survives is printed with its place and change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
STRATA = {
    "core": ("svmcvx/core", "svmcvx/certificate.py", "svmcvx/kernels", "svmcvx/feature_space"),
    "statements": ("svmcvx/formulations",),
    "proofs": ("svmcvx/proofs",),
    "search": ("svmcvx/fast/indicator",),
    "statistics": ("svmcvx/experiments/studies", "svmcvx/experiments/store.py"),
}
# Compiled at import: a fault there costs a compilation, and numba's cache has to be emptied.
LEFT_OUT = "_passes.py"
# Tests of a fault, and seconds after which it counts as not decided.
MOST_TESTS, SECONDS = 60, 300

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATIONS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "lower": "upper",
    "upper": "lower",
    "any": "all",
    "all": "any",
}


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the faults that a node of the syntax tree allows, each with a word for it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            changed = copy.deepcopy(node)
            changed.ops = [other()]
            yield f"{type(node.ops[0]).__name__} -> {other.__name__}", changed
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            rest = [copy.deepcopy(value) for i, value in enumerate(node.values) if i != k]
            yield f"clause {k} dropped", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Constant | ast.JoinedStr):
        if type(node.op) in OPERATIONS:
            changed = copy.deepcopy(node)
            changed.op = OPERATIONS[type(node.op)]()
            yield f"{type(node.op).__name__} -> {OPERATIONS[type(node.op)].__name__}", changed
        yield "right operand dropped", copy.deepcopy(node.left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield f"{type(node.op).__name__} dropped", copy.deepcopy(node.operand)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield f"{node.value} -> {node.value + 1}", ast.Constant(node.value + 1)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        changed = copy.deepcopy(node)
        changed.attr = NAMES[node.attr]
        yield f"{node.attr} -> {NAMES[node.attr]}", changed
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield f"{node.id} -> {NAMES[node.id]}", ast.Name(NAMES[node.id], ast.Load())
    elif isinstance(node, ast.Raise):
        yield "raise -> pass", ast.Pass()


class Replacement(ast.NodeTransformer):
    """Puts another node in the place of the one with this number, in the order of a walk."""

    def __init__(self, number: int, other: ast.AST) -> None:
        self.number, self.other, self.seen = number, other, -1

    def visit(self, node: ast.AST) -> ast.AST:
        self.seen += 1
        return self.other if self.seen == self.number else self.generic_visit(node)


def numbered(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in the order in which a transformer visits them."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from numbered(child)


def sites(path: Path) -> list[tuple[int, int, str, ast.AST]]:
    """Return the faults of a file: line, number of the node, word, node in its place."""
    found = []
    for number, node in enumerate(numbered(ast.parse(path.read_text()))):
        if hasattr(node, "lineno"):
            found += [(node.lineno, number, word, other) for word, other in changes(node)]
    return found


def covering(data: CoverageData, path: Path, line: int) -> list[str]:
    """Return tests that execute a line: those of the folder that mirrors its own, then a case of each other function, then a second one."""
    name = next((file for file in data.measured_files() if file.endswith(str(path))), None)
    lines = {} if name is None else data.contexts_by_lineno(name)
    contexts = lines.get(line, [])
    if not any("::" in context for context in contexts) and contexts:
        # Executed when the module is imported, as a constant is: any test of the module may notice.
        contexts = [context for found in lines.values() for context in found]
    tests = sorted({context.split("|")[0] for context in contexts if "::" in context})
    own = f"tests/{path.parts[1]}/"
    cases: dict[str, list[str]] = {}
    for test in tests:
        cases.setdefault(test.split("[")[0], []).append(test)
    mirrored = [case for test, listed in cases.items() if test.startswith(own) for case in listed]
    rounds = itertools.zip_longest(*(listed for test, listed in cases.items() if not test.startswith(own)))
    others = [test for found in rounds for test in found if test is not None]
    return [*mirrored, *others][: max(MOST_TESTS, len(mirrored))]


def preloaded() -> None:
    """Import what the package and its tests import from elsewhere, so that a fault costs no start of an interpreter."""
    for name in (
        "cvxpy",
        "flint",
        "hypothesis.strategies",
        "numba",
        "pandas",
        "pytest",
        "scipy.stats",
        "sklearn.svm",
        "threadpoolctl",
    ):
        importlib.import_module(name)
    if "svmcvx" in sys.modules:
        raise RuntimeError("the package was imported before a fault was made")


def noticed(folder: Path, tests: list[str]) -> bool | None:
    """Run tests in a copy, in a process of their own; None where they take too long."""
    process = os.fork()
    if process == 0:
        os.setsid()
        os.chdir(folder)
        sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        os.environ["PYTHONPATH"] = str(folder)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            # An import that fails, or a fault that ends the process, is noticed too.
            return status != 0
        time.sleep(0.2)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def main() -> None:
    """Draw faults, and try each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stratum", choices=STRATA, action="append")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage")
    parser.add_argument("--results", type=Path, default=ROOT / "mutants.jsonl")
    given = parser.parse_args()
    os.environ |= {"CI": "true", "OMP_NUM_THREADS": "1"}
    preloaded()
    data = CoverageData(str(given.coverage))
    data.read()
    draw = random.Random(given.seed)  # noqa: S311 - a seeded draw
    strata = given.stratum or list(STRATA)
    files = {
        stratum: [
            path
            for place in STRATA[stratum]
            for path in ([ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py")))
            if path.exists() and not path.name.endswith(LEFT_OUT) and path.name != "__init__.py"
        ]
        for stratum in strata
    }
    known = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    done = {(row["seed"], row["draw"]): row for row in known}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", "demo", "dist", "_build", "*.sqlite")
        shutil.copytree(ROOT, folder, ignore=ignored)
        for number in range(given.count):
            stratum = strata[number % len(strata)]
            path = draw.choice(files[stratum])
            options = sites(path)
            if not options:
                continue
            line, node, word, other = draw.choice(options)
            if (given.seed, number) in done:
                continue
            place = path.relative_to(ROOT)
            tests = covering(data, place, line)
            result = None
            if tests:
                text = path.read_text()
                target = folder / place
                tree = ast.fix_missing_locations(Replacement(node, other).visit(ast.parse(text)))
                target.write_text(ast.unparse(tree))
                result = noticed(folder, tests)
                target.write_text(text)
            verdict = {True: "noticed", False: "SURVIVED", None: "not decided" if tests else "NOT COVERED"}[result]
            row = {
                "seed": given.seed,
                "draw": number,
                "stratum": stratum,
                "file": str(place),
                "line": line,
                "change": word,
                "tests": len(tests),
                "verdict": verdict,
            }
            done[given.seed, number] = row
            with given.results.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            print(f"{number:4} {verdict:12} {place}:{line} {word} ({len(tests)} tests)", flush=True)
    for stratum in strata:
        rows = [row for row in done.values() if row["stratum"] == stratum]
        print(f"{stratum}: {sum(row['verdict'] == 'noticed' for row in rows)} of {len(rows)} noticed")


if __name__ == "__main__":
    main()
