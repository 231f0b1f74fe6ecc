"""Every reason that the second checker can give is given to some forgery, so that no refusal can go
unnoticed.
"""

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from coverage import Coverage

import svmcvx.proofs
from tests.proofs.forgeries.corpus import blocks_of, forgeries
from tests.proofs.test_refusals import PROVOKED, refused
from tests.proofs.test_search_proofs import EXAMPLE, WRONG, changed_tree, example, of_size

pytest.importorskip("flint")

FOLDER = Path(svmcvx.proofs.__file__).parent
# Functions whose texts refuse nothing.
WRITERS = ("__str__", "__repr__", "_repr_html_", "html_table", "_words", "_unproved")


def reasons() -> Iterator[tuple[str, range, str]]:
    """File, lines and text of each statement of the checker that raises an error or writes a
    reason.
    """
    for path in sorted(FOLDER.rglob("*.py")):
        functions = (
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
        )
        for function in functions:
            for node in ast.walk(function) if function.name not in WRITERS else ():
                simple = isinstance(node, ast.Return | ast.Assign | ast.Expr)
                if isinstance(node, ast.Raise) or (
                    simple and any(isinstance(n, ast.JoinedStr) for n in ast.walk(node))
                ):
                    yield str(path), range(node.lineno, node.end_lineno + 1), ast.unparse(node)


@pytest.mark.slow
def test_every_reason_is_given(tmp_path):
    path, followed = (
        tmp_path / "proof.npz",
        Coverage(data_file=None, config_file=False, source=[str(FOLDER)]),
    )
    trees = [(changed_tree(example(), **arrays), EXAMPLE) for arrays, _ in WRONG.values()]
    files = [forgery.make() for forgery in forgeries()]
    followed.start()
    try:
        for content, X, y, _, T in files:
            path.write_bytes(content)
            for rows, method in ((X, "auto"), (X, "a-priori"), (blocks_of(X, y), "auto")):
                refused(partial(svmcvx.proofs.verify, path, rows, y, test=T, method=method))
        for number, action in enumerate(PROVOKED.values()):
            folder = tmp_path / str(number)
            folder.mkdir()
            refused(partial(action, folder))
        for proof, data in [*trees, of_size(2.0**500)]:
            refused(partial(svmcvx.proofs.verify, proof, *data))
    finally:
        followed.stop()
    lines = {
        (file, line)
        for file in followed.get_data().measured_files()
        for line in followed.get_data().lines(file)
    }
    missing = [
        f"{Path(file).relative_to(FOLDER)}:{where.start}: {text}"
        for file, where, text in reasons()
        if not any((file, line) in lines for line in where)
    ]
    assert not missing, "\n".join(missing)
