"""The notebooks run from top to bottom, hold no output, and say the same as their text twins."""

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    done = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
    code = [cell for cell in done.cells if cell.cell_type == "code" and cell.source]
    assert all(cell.execution_count is not None for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_output_and_has_a_text_twin(path):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    twin = jupytext.read(path.with_suffix(".py"))
    assert [cell.source for cell in twin.cells] == [cell.source for cell in notebook.cells]
