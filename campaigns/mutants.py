"""Faults put into the package by machine, one at a time, and whether a test notices each.

    python -m campaigns.mutants --count 40 --seed 1 --modules svmcvx/certificate
    python -m pytest -q --cov --cov-context=test
    python -m campaigns.mutants --count 300 --coverage .coverage

Each fault is made in a copy of the repository, where tests run until one fails: those of the files
that mirror the module, or with `--coverage` those that execute its line. A fault that survives is
printed with its change; those of `equivalent_mutants.toml` change nothing that is promised.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
MODULES = (
    "svmcvx/certificate",
    "svmcvx/formulations",
    "svmcvx/proofs",
    "svmcvx/fast/indicator.py",
    "svmcvx/fast/search",
    "svmcvx/experiments",
)
# Compiled at import: a fault there costs a compilation, and numba's cache has to be emptied.
LEFT_OUT = "_passes.py"
# Tests of a line, and seconds of the processor after which a fault counts as endless.
MOST_TESTS, SECONDS = 20, 300
SEARCH = [
    "tests/fast/test_fast_zero_one.py",
    "tests/fast/test_exchange.py",
    "tests/proofs/test_search_proofs.py",
]
# The tests of modules that more than the folder of their name tests, or less; the longest place
# that fits holds.
TESTS = {
    "svmcvx/proofs": [
        *(f"tests/proofs/test_{name}.py" for name in ("proofs", "search_proofs", "forgeries")),
        "tests/proofs",
    ],
    "svmcvx/certificate/check.py": [
        "tests/certificate/test_certificate.py",
        "tests/test_soundness.py",
        "tests/formulations/test_every_statement.py",
    ],
    "svmcvx/fast/indicator.py": SEARCH,
    "svmcvx/fast/search": SEARCH,
}
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
OPERATIONS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
}
NAMES = {"min": "max", "minimum": "maximum", "lower": "upper", "any": "all"}
NAMES |= {other: name for name, other in NAMES.items()}


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the faults that a node of the syntax tree allows, each with a word for it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield (
                f"{type(node.ops[0]).__name__} -> {other.__name__}",
                with_field(node, "ops", [other()]),
            )
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            rest = [value for i, value in enumerate(node.values) if i != k]
            yield f"clause {k} dropped", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Constant | ast.JoinedStr):
        if type(node.op) in OPERATIONS:
            other = OPERATIONS[type(node.op)]
            yield f"{type(node.op).__name__} -> {other.__name__}", with_field(node, "op", other())
        yield "right operand dropped", node.left
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield f"{type(node.op).__name__} dropped", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield f"{node.value} -> {node.value + 1}", ast.Constant(node.value + 1)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield f"{node.attr} -> {NAMES[node.attr]}", with_field(node, "attr", NAMES[node.attr])
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield f"{node.id} -> {NAMES[node.id]}", ast.Name(NAMES[node.id], ast.Load())
    elif isinstance(node, ast.Raise):
        yield "raise -> pass", ast.Pass()


def with_field(node: ast.AST, name: str, value: object) -> ast.AST:
    """Return a copy of a node with another value of one field."""
    changed = copy.copy(node)
    setattr(changed, name, value)
    return changed


class Replacement(ast.NodeTransformer):
    """Puts another node in the place of the one with this number, in the order of a walk."""

    def __init__(self, number: int, other: ast.AST) -> None:
        self.number, self.other, self.seen = number, other, -1

    def visit(self, node: ast.AST) -> ast.AST:
        self.seen += 1
        return copy.deepcopy(self.other) if self.seen == self.number else self.generic_visit(node)


def numbered(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in the order in which a transformer visits them."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from numbered(child)


def sites(path: Path) -> list[tuple[int, int, str, ast.AST]]:
    """Return the faults of a file, but for those of annotations: line, number of the node, word,
    node in its place.
    """
    tree = ast.parse(path.read_text())
    types = [
        getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")
    ]
    skipped = {part for kind in types if kind is not None for part in ast.walk(kind)}
    nodes = [
        (n, node)
        for n, node in enumerate(numbered(tree))
        if hasattr(node, "lineno") and node not in skipped
    ]
    return [
        (node.lineno, number, word, other)
        for number, node in nodes
        for word, other in changes(node)
    ]


def mirrored(path: Path) -> list[str]:
    """Return the test files of a module: those of the written map, in its order, or of the folder
    of its name; first those that name it.
    """
    place = max((place for place in TESTS if str(path).startswith(place)), key=len, default=None)
    files = []
    for entry in TESTS[place] if place else [str(Path("tests", *path.parts[1:2]))]:
        files += (
            [ROOT / entry] if entry.endswith(".py") else sorted((ROOT / entry).rglob("test_*.py"))
        )
    named = [
        file
        for file in files
        if path.stem in file.stem or ".".join(path.with_suffix("").parts) in file.read_text()
    ]
    return list(dict.fromkeys(str(file.relative_to(ROOT)) for file in [*named, *files]))


def tests_by_line(measured: Path) -> Callable[[Path, int], list[str]]:
    """Return a function that names tests of a line, first those that execute the fewest lines in
    all: they are quick, and about this one.
    """
    data = CoverageData(str(measured))
    data.read()
    lines: dict[str, dict[int, set[str]]] = {}
    sizes: Counter[str] = Counter()
    for name in data.measured_files():
        contexts = data.contexts_by_lineno(name)
        lines[name] = {
            n: {found.split("|")[0] for found in tests if "::" in found}
            for n, tests in contexts.items()
        }
        sizes.update(test for tests in lines[name].values() for test in tests)

    def covering(path: Path, line: int) -> list[str]:
        name = next((file for file in lines if file.endswith(str(path))), "")
        found = sorted(lines.get(name, {}).get(line, ()), key=lambda test: (sizes[test], test))
        # One case of each test before the second of any.
        cases: Counter[str] = Counter()
        turns = []
        for test in found:
            function = test.partition("[")[0]
            cases[function] += 1
            turns.append((cases[function], len(turns), test))
        return [test for *_, test in sorted(turns)][:MOST_TESTS]

    return covering


def verdict_of(folder: Path, tests: list[str]) -> str:
    """Run tests in a copy, in a process of their own that has imported what others wrote, until one
    fails.
    """
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        # Work that only waits ends as well.
        signal.alarm(20 * SECONDS)
        # Ctrl-C is ignored where a shell has started this in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "svmcvx")]:
            del sys.modules[name]
        os.environ["PYTHONPATH"] = str(folder)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    status = os.waitpid(process, 0)[1]
    endless = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (
        signal.SIGXCPU,
        signal.SIGKILL,
        signal.SIGALRM,
    )
    return "endless" if endless else "noticed" if status else "SURVIVED"


def equivalent_faults() -> set[tuple[str, str, str]]:
    """Return file, line and change of the faults that change nothing; each must be possible."""
    listed = tomllib.loads((ROOT / "tests/equivalent_mutants.toml").read_text())["mutant"]
    found = {(row["file"], row["code"], row["change"]) for row in listed}
    possible = set()
    for place in {file for file, _, _ in found}:
        lines = (ROOT / place).read_text().splitlines()
        possible |= {
            (place, lines[line - 1].strip(), word) for line, _, word, _ in sites(ROOT / place)
        }
    if gone := found - possible:
        raise SystemExit(f"equivalent_mutants.toml lists faults of lines that are gone: {gone}")
    return found


def main() -> None:
    """Draw faults, and try each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modules", nargs="+", default=MODULES, metavar="PLACE")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", type=Path)
    given = parser.parse_args()
    os.environ |= {"CI": "true", "OMP_NUM_THREADS": "1"}
    for name in (
        "cvxpy",
        "flint",
        "hypothesis.strategies",
        "numba",
        "pandas",
        "scipy.stats",
        "sklearn.svm",
        "threadpoolctl",
    ):
        importlib.import_module(name)
    chosen = tests_by_line(given.coverage) if given.coverage else lambda place, _: mirrored(place)
    equivalent = equivalent_faults()
    files = [ROOT / place for place in given.modules if place.endswith(".py")]
    files += [path for place in given.modules for path in sorted((ROOT / place).rglob("*.py"))]
    options = [
        (path.relative_to(ROOT), *site)
        for path in files
        if not path.name.endswith(LEFT_OUT)
        for site in sites(path)
    ]
    drawn = random.Random(given.seed).sample(options, min(given.count, len(options)))  # noqa: S311 - a seeded draw
    verdicts: Counter[str] = Counter()
    sound: set[str] = set()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        shutil.copytree(
            ROOT,
            folder,
            ignore=shutil.ignore_patterns(".git", ".venv", "demo", "dist", "_build", "*.sqlite"),
        )
        for place, line, node, word, other in drawn:
            text = (folder / place).read_text()
            code = text.splitlines()[line - 1].strip()
            tests = chosen(place, line)
            unknown = [test for test in tests if test not in sound]
            if unknown and verdict_of(folder, unknown) != "SURVIVED":
                raise SystemExit(
                    f"without a fault, a test of {place} fails or there is none:"
                    f" {' '.join(unknown)}"
                )
            sound |= set(tests)
            verdict = "equivalent" if (str(place), code, word) in equivalent else "SURVIVED"
            if verdict != "equivalent" and tests:
                tree = ast.fix_missing_locations(Replacement(node, other).visit(ast.parse(text)))
                (folder / place).write_text(ast.unparse(tree))
                verdict = verdict_of(folder, tests)
                (folder / place).write_text(text)
            verdicts[verdict] += 1
            print(f"{verdict:10} {place}:{line} {word} | {code}", flush=True)
    print(f"{dict(verdicts)} of {len(options)} possible faults")


if __name__ == "__main__":
    main()
