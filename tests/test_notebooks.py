"""Two notebooks run in small, one of them in a kernel of Jupyter, and the index names all;
`make docs` runs all.
"""

import ast
import re
from importlib import import_module
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
import pytest
from nbclient import NotebookClient

from svmcvx.system.compilation import MESSAGE

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))
IN_JUPYTER = FOLDER / "04_odm.py"


@pytest.fixture
def small(monkeypatch):
    """Ask the notebooks for small sizes, and draw without a window."""
    monkeypatch.setenv("SVMCVX_SMALL", "1")
    with plt.rc_context():
        plt.switch_backend("Agg")
        yield
    plt.close("all")


def run(source, name, namespace):
    """Run a cell and make what Jupyter would show of its last expression."""
    tree, shown = ast.parse(source), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        shown = ast.Expression(tree.body.pop().value)
    exec(compile(tree, name, "exec"), namespace)  # noqa: S102 - our own notebooks
    if shown is not None:
        value = eval(compile(shown, name, "eval"), namespace)  # noqa: S307
        getattr(value, "_repr_html_", value.__repr__)()


@pytest.mark.slow
def test_a_notebook_runs(small, capsys):
    path = FOLDER / "01_tour.py"
    namespace = {"__name__": path.stem}
    cells = jupytext.read(path).cells
    for number, cell in enumerate(cells):
        if cell.cell_type == "code":
            run(cell.source, f"{path.name}, cell {number}", namespace)
            for figure in map(plt.figure, plt.get_fignums()):
                figure.canvas.draw()
            plt.close("all")
    assert "warning" not in capsys.readouterr().err.lower()


@pytest.mark.slow
def test_a_notebook_runs_in_jupyter(small, tmp_path):
    notebook = jupytext.read(IN_JUPYTER)
    # Long: only so that a defect does not wait for ever.
    long = {"timeout": None, "startup_timeout": 600}
    done = NotebookClient(
        notebook, **long, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    # Where nothing is compiled yet, a notebook says so once.
    assert {output["text"].strip() for output in outputs if output.get("name") == "stderr"} <= {
        MESSAGE
    }


def test_the_index_names_every_notebook_once():
    index = (FOLDER / "README.md").read_text()
    assert re.findall(r"\]\((\w+\.py)\)", index) == [path.name for path in NOTEBOOKS]
    assert [path.name[:2] for path in NOTEBOOKS] == [
        f"{number:02}" for number in range(1, len(NOTEBOOKS) + 1)
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_text_with_a_title(path):
    assert not path.with_suffix(".ipynb").exists(), (
        "notebooks are kept as text; outputs are not committed"
    )
    first, *_ = jupytext.read(path).cells
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("small", [True, False])
def test_the_site_shows_a_notebook_without_what_the_tests_need(path, small, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER.parent / "docs" / "_ext")
    read_cell = import_module("tutorial_cells").read_cell
    cells = [cell.source for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    pages = [read_cell(cell, small=small) for cell in cells]
    shown, unseen = ("\n".join(texts) for texts in zip(*pages, strict=True))
    assert "SMALL" not in shown + unseen
    assert {type(node) for node in ast.parse(unseen).body} <= {ast.Assert}
    # Every statement is there once, in order, with one of its sizes.
    whole = ast.parse("\n".join(cells))
    kept = [node for node in OneSize(small).visit(whole).body if not is_about_sizes(node)]
    plain = [ast.dump(node) for node in kept if not isinstance(node, ast.Assert)]
    if "import os\n" not in shown:
        plain.remove(ast.dump(ast.parse("import os").body[0]))
        assert "os." not in shown
    assert [ast.dump(node) for node in ast.parse(shown).body] == plain
    asserted = [ast.dump(node) for node in kept if isinstance(node, ast.Assert)]
    assert [ast.dump(node) for node in ast.parse(unseen).body] == asserted


class OneSize(ast.NodeTransformer):
    """Replace ``a if SMALL else b`` by one of them."""

    def __init__(self, small):
        self.small = small

    def visit_IfExp(self, node):
        self.generic_visit(node)
        if getattr(node.test, "id", "") == "SMALL":
            return node.body if self.small else node.orelse
        return node


def is_about_sizes(node):
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SMALL"
