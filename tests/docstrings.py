"""``python -m tests.docstrings`` holds the docstrings of public names against numpydoc's rules.

The rules are those of ``[tool.numpydoc_validation]`` in ``pyproject.toml``. One sentence may say
all of a method, and the fields of a class stand in its section "Attributes".
"""

import inspect
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

from tests.generated import PUBLIC, names_of, ours

TABLES = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]
CHECKS = set(TABLES["numpydoc_validation"]["checks"])
OF_FUNCTIONS = {"PR01", "RT01", "EX01"}


def methods(cls):
    """Yield the methods that a class has from this package, with their names."""
    for base in ours(cls):
        for name, member in vars(base).items():
            plain = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(plain) and plain.__doc__:
                yield name, plain


def documented():
    """Yield each public function, class and method once: its name, itself, and its rules."""
    seen = set()
    for room in PUBLIC:
        for name in names_of(module := import_module(room)):
            value = getattr(module, name)
            if inspect.isfunction(value):
                found = [(name, value, CHECKS)]
            elif inspect.isclass(value):
                found = [(name, value, CHECKS - OF_FUNCTIONS)] + [
                    (f"{name}.{short}", member, CHECKS - OF_FUNCTIONS)
                    for short, member in methods(value)
                ]
            else:
                continue
            for full, one, checks in found:
                if id(one) not in seen:
                    seen.add(id(one))
                    yield f"{room}.{full}", one, checks


def faults(value, checks):
    """Return code and words of each rule that a docstring breaks."""
    errors = validate(get_doc_object(value))["errors"]
    return [f"{code} {words}" for code, words in errors if code in checks]


def main():
    """Print the faults, and return their number."""
    found = [(name, one) for name, value, checks in documented() for one in faults(value, checks)]
    sys.stdout.write("".join(f"{name}: {one}\n" for name, one in found))
    return len(found)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
