"""The floors of the house: who may import whom, and what importing costs."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import svmcvx

ROOT = Path(svmcvx.__file__).parent

# From the bottom up; a room imports only from floors below its own, or from its own room.
FLOORS = (
    ("arrays", "errors"),
    ("display", "numerical"),
    ("catalogue", "proofs"),
    ("system",),
    ("certificate",),
    ("data", "losses"),
    ("kernels", "row_blocks", "arguments", "synthetic"),
    ("model",),
    ("solution", "feature_space"),
    ("formulations",),
    ("theory",),
    ("plot", "torch"),
    ("solve", "fast"),
    ("guarantees",),
    ("estimators",),
    ("datasets",),
    ("experiments",),
    ("explorer",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def imported(path):
    """Dotted names of what a file imports, inside functions, for annotations and by name too."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = getattr(node.args[0], "value", None)
            if called == "import_module" and isinstance(name, str):
                found.add(name)
    return found


def rooms_imported(path):
    parts = [name.split(".") for name in imported(path)]
    return {others[0] for first, *others in parts if first == "svmcvx" and others}


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_a_room_imports_only_from_floors_below():
    for path in FILES:
        room = room_of(path)
        for other in rooms_imported(path) & FLOOR.keys():
            assert other == room or FLOOR[other] < FLOOR[room], (
                f"{path.relative_to(ROOT)} imports {other}"
            )
        # The second checker shares nothing with the package but errors, and imports little.
        if room == "proofs":
            assert rooms_imported(path) <= {"proofs", "errors"}, path.relative_to(ROOT)
            assert not any(name.startswith("sklearn") for name in imported(path))


def test_scikit_learn_is_imported_where_it_is_used_below_the_estimators():
    """Its import takes a second; builders and specialised solvers do without most of it."""
    for path in FILES:
        if FLOOR[room_of(path)] < FLOOR["estimators"]:
            for node in parsed(path).body:
                names = [alias.name for alias in getattr(node, "names", ()) if alias is not None]
                names.append(getattr(node, "module", None) or "")
                assert not any(str(name).split(".")[0] == "sklearn" for name in names), path


def module_of(path):
    return ".".join(("svmcvx", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def test_no_modules_import_each_other():
    modules = {module_of(path) for path in FILES}
    above = {
        module_of(path): {
            name if name in modules else name.rpartition(".")[0] for name in imported(path)
        }
        & modules
        for path in FILES
    }
    # Modules that import nothing of what is left are taken away; what remains stands in a circle,
    # or above one.
    while ready := {name for name, below in above.items() if not below & above.keys() - {name}}:
        above = {name: below for name, below in above.items() if name not in ready}
    assert not above


def test_solve_and_fast_do_not_know_each_other():
    for path in FILES:
        others = {"solve", "fast"} - {room_of(path)}
        assert len(others) == 2 or not others & rooms_imported(path)


FAMILIES = ("margin", "margin_distribution", "conic_loss", "indicator", "multiclass")
# fast.multiclass is a public function, so that the folder has another name; the exact search is the
# indicator family's.
NAMED_APART = {"fast": {"several_classes": "multiclass", "search": "indicator"}}
# What the families of a floor share, and may be imported by all of them.
SHARED = {
    "formulations": {"base", "constraints", "optimal_intercepts", "problem", "signed_rows"},
    "fast": {"core", "linear"},
}
# The indicator family bounds its programs by the conic relaxation, and by that of the big-M rows,
# which is a hinge machine.
EXCEPTIONS = {("indicator", "conic_loss"), ("indicator", "margin")}
# On top of the families of a floor: they import from all.
ON_TOP = {"__init__", "compile_ahead", "warm_path"}


# A family is a folder, or a module with others beside it.
BESIDE = ("_problems", "_blocks", "_pairs", "_passes")


def family_of(floor, name):
    """The family of a folder, or of a module."""
    for ending in BESIDE:
        name = name.removesuffix(ending)
    return NAMED_APART.get(floor, {}).get(name, name)


def test_a_family_imports_only_its_own_and_what_is_shared():
    for path in FILES:
        floor, *rest = path.relative_to(ROOT).parts
        if floor not in SHARED or rest[0].removesuffix(".py") in ON_TOP:
            continue
        own = family_of(floor, rest[0].removesuffix(".py"))
        for package, other, name, *_ in (f"{one}...".split(".") for one in imported(path)):
            if package != "svmcvx" or not name or name in SHARED.get(other, {name}):
                continue
            name = family_of(other, name)
            what = f"{floor}/{own} imports {other}.{name}"
            assert own in FAMILIES, f"{what} and is shared by all families"
            assert name == own or (own, name) in EXCEPTIONS, what


@pytest.mark.parametrize("floor", ["formulations", "fast"])
def test_every_floor_has_the_same_families(floor):
    found = {
        path.relative_to(ROOT / floor).parts[0].removesuffix(".py")
        for path in (ROOT / floor).rglob("*.py")
    }
    assert {family_of(floor, name) for name in found - SHARED[floor] - ON_TOP} == set(FAMILIES)


def test_rooms_keep_to_their_budgets():
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|.*\| (\d+) \|$", page, flags=re.MULTILINE)
    budgets = {tuple(re.findall(r"`(\w+)`", rooms)): int(most) for rooms, most in rows}
    listed = [room for rooms in budgets for room in rooms]
    assert len(listed) == len(set(listed))
    assert set(listed) == FLOOR.keys() - {"__main__"}
    lines = Counter()
    for path in FILES:
        lines[room_of(path)] += path.read_text().count("\n")
    for rooms, most in budgets.items():
        assert sum(lines[room] for room in rooms) <= most, rooms


def test_no_file_is_too_long():
    long = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in FILES}
    assert not {name: lines for name, lines in long.items() if lines > 1200}


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


HEAVY = ("sklearn", "pandas", "matplotlib", "numba", "typer", "rich", "torch", "dask")


def test_importing_the_package_leaves_heavy_modules_alone_and_solve_is_the_function():
    # cvxpy itself may bring some of them: only what svmcvx adds counts.
    printed = run_python(
        "import sys, cvxpy; before = set(sys.modules); import svmcvx; "
        f"print([name for name in {HEAVY!r} if name in set(sys.modules) - before]); "
        "from svmcvx.solve import policy; print(callable(svmcvx.solve))"
    )
    assert printed.split("\n") == ["[]", "True", ""]


# The extra, the modules that it brings, and a call that needs them.
EXTRAS = {
    "cli": (("typer",), "from svmcvx.__main__ import main; sys.stderr = sys.stdout; print(main())"),
    "plot": (
        ("matplotlib", "matplotlib.pyplot"),
        "from svmcvx.plot.style import drawing_axes; drawing_axes(None)",
    ),
    "torch": (("torch",), "import svmcvx as sx; sx.torch"),
}


def test_what_needs_an_extra_names_it():
    missing = [name for names, _ in EXTRAS.values() for name in names]
    code = f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
    for _, call in EXTRAS.values():
        code += f"try:\n    {call}\nexcept Exception as error:\n"
        code += "    print(type(error).__name__, error)\nprint('---')\n"
    printed = run_python(code).split("---\n")
    for extra, text in zip(EXTRAS, printed[:-1], strict=True):
        assert f"pip install 'svmcvx[{extra}]'" in text
        assert text.startswith("SolverUnavailable ") or text.strip().endswith("2")
