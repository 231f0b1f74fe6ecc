"""Two notebooks run in small, one of them in a kernel of Jupyter, and the index names all;
`make docs` runs all.
"""

import ast
import re
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
