"""Every reason that the second checker can give is given to some forgery, so that no refusal can go unnoticed."""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import svmcvx.proofs
from tests.proofs.forgeries.corpus import blocks_of, forgeries
from tests.proofs.test_refusals import PROVOKED, refused
from tests.proofs.test_search_proofs import EXAMPLE, WRONG, changed_tree, example, of_size

pytest.importorskip("flint")

FOLDER = Path(svmcvx.proofs.__file__).parent
# Functions whose texts refuse nothing.
WRITERS = ("__str__", "__repr__", "_repr_html_", "html_table", "_words", "_unproved")


def reasons() -> Iterator[tuple[str, range, str]]:
    """File, lines and text of each statement of the checker that raises an error or writes a reason."""
    for path in sorted(FOLDER.rglob("*.py")):
        functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
        for function in functions:
            for node in ast.walk(function) if function.name not in WRITERS else ():
                simple = isinstance(node, ast.Return | ast.Assign | ast.Expr)
                if isinstance(node, ast.Raise) or (
                    simple and any(isinstance(n, ast.JoinedStr) for n in ast.walk(node))
                ):
                    yield str(path), range(node.lineno, node.end_lineno + 1), ast.unparse(node)


@contextmanager
def recorded(lines):
    """Enter every line of the checker that is executed."""

    def follow(frame, event, _):
        if not frame.f_code.co_filename.startswith(str(FOLDER)):
            return None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        yield
    finally:
        sys.settrace(before)


def test_every_reason_is_given(tmp_path):
    lines, path = set(), tmp_path / "proof.npz"
    for forgery in forgeries():
        content, X, y, _, T = forgery.make()
        path.write_bytes(content)
        for rows, method in ((X, "auto"), (X, "a-priori"), (blocks_of(X, y), "auto")):
            with recorded(lines):
                refused(
                    lambda rows=rows, method=method, y=y, T=T: svmcvx.proofs.verify(
                        path, rows, y, test=T, method=method
                    )
                )
    for number, action in enumerate(PROVOKED.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        with recorded(lines):
            refused(lambda action=action, folder=folder: action(folder))
    trees = [(changed_tree(example(), **arrays), EXAMPLE) for arrays, _ in WRONG.values()]
    for proof, data in [*trees, of_size(2.0**500)]:
        with recorded(lines):
            refused(lambda proof=proof, data=data: svmcvx.proofs.verify(proof, *data))
    missing = [
        f"{Path(file).relative_to(FOLDER)}:{where.start}: {text}"
        for file, where, text in reasons()
        if not any((file, line) in lines for line in where)
    ]
    assert not missing, "\n".join(missing)
