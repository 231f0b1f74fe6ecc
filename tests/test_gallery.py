"""The scripts of the gallery are short; `make docs` draws them."""

import ast
import runpy
from pathlib import Path

import pytest

from svmcvx.catalogue import CATALOGUE

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_of_the_gallery_has_a_title_and_is_short(script):
    text = script.read_text()
    assert ast.get_docstring(ast.parse(text)).partition("\n")[0].endswith(".")
    assert text.count("\n") <= 30


def test_every_formulation_begins_with_its_picture_on_its_page():
    names = runpy.run_path(str(DOCS / "formulation_pictures.py"), run_name="formulation_pictures")[
        "HEADS"
    ]
    assert set(names) == set(CATALOGUE)
    pages = [path.read_text() for path in (DOCS / "formulations").glob("*.md")]
    for name, head in names.items():
        ((before, _, after),) = [
            page.partition(f"```{{picture}} {name}\n```\n")
            for page in pages
            if f"```{{picture}} {name}\n" in page
        ]
        # A page has one or more formulations, each under its heading.
        assert before.rpartition("\n#")[2].count("\n") <= 6
        assert (f"```{{explorer}} {name}\n```" in after) == (head.values is not None)
        assert (
            after.index("```python")
            < after.index("**When to use it.**")
            < after.index("**When not.**")
        )
        assert after.index("**When not.**") < after.index("## Statement")
