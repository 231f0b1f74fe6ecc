"""Refusals of the second checker that no file provokes: of arguments, data, and objects made by
hand; and that each reason which it can give is given to some forgery or here.
"""

import ast
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from coverage import Coverage

import svmcvx as sx
from svmcvx.proofs import Proof, checker, fingerprint, margin, read_proof, verify, write_proof
from svmcvx.proofs.checker import score_ends
from svmcvx.proofs.indicator import LARGEST
from tests.proofs.forgeries.corpus import forgeries
from tests.proofs.forgeries.honest import SOLUTIONS, TEST, X, Y
from tests.proofs.test_search_proofs import EXAMPLE, WRONG, changed_tree, example, of_size

pytest.importorskip("flint")


def proof(name="psvm"):
    return SOLUTIONS[name][0]().proof()


def statement(**changes):
    return replace(proof().statement, **changes)


def of_kernel(rows, formulation, numbers, kernel, **ends):
    """A check of a machine with a kernel, whose model has no coefficients."""
    n, y = len(rows), np.arange(len(rows)) % 2
    about = sx.proofs.Statement(
        formulation, numbers, kernel, "none", n, rows.shape[1], (0, 1), fingerprint(rows, y)
    )
    model = {"support": np.arange(n), "dual_coef": np.zeros(n), "intercept": 0.0}
    method = ends.pop("method", "auto")
    return verify(Proof(about, model, **{"dual": {}, **ends}), rows, y, method=method)


def inexact():
    """A polynomial whose entries have lost all digits to cancellation."""
    kernel = {"name": "polynomial", "degree": 1, "gamma": 1.0, "coef0": -(1e16 - 1e9)}
    rows, numbers = np.array([[1e8], [1e8 + 1.0]]), {"C": 1.0, "p": 1.0}
    ends = {"lower": None, "upper": 100.0, "method": "a-priori"}
    return of_kernel(rows, "penalised psvm", numbers, kernel, **ends)


def many_rows():
    """A conic machine with a kernel on more rows than a matrix of balls may have."""
    n = LARGEST + 1
    ends = {"dual": {"gamma": np.ones(n)}, "lower": 0.0, "upper": None}
    kernel = {"name": "rbf", "gamma": 1.0}
    return of_kernel(np.arange(n)[:, None] / n, "conic", {"lam": 1.0}, kernel, **ends)


def long_labels(folder):
    names = np.array(["a" * 2**20, "b" * 2**20])
    about = statement(classes=tuple(names.tolist()))
    write_proof(folder / "proof.npz", replace(proof(), statement=about))


def without_flint(_):
    hidden = {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.partition(".")[0] == "flint"
    }
    try:
        sys.modules["flint"] = None
        return verify(proof(), X, Y)
    finally:
        del sys.modules["flint"]
        sys.modules.update(hidden)


def in_doubles(name):
    solve, rows, labels = SOLUTIONS[name]
    return verify(solve().proof(), rows, labels, method="a-priori")


def changed(**model):
    return replace(proof(), model=proof().model | model)


def ends_that_cross():
    """A check whose lower end is wrong: neither end is believed."""
    upper, lower = margin.FAMILY["psvm"]
    with patch.dict(
        margin.FAMILY, {"psvm": (upper, lambda space: lower(space) + space.numbers.exactly(1.0))}
    ):
        found = verify(proof(), X, Y, method="balls")
    assert (found.lower, found.upper, found.checked) == (None, np.inf, ())
    return found


def scored():
    return sx.guarantee(SOLUTIONS["psvm"][0](), X, Y).proof(TEST)


def scores_that_cross():
    """A check of scores that is wrong: they are not believed."""
    honest, ends = scored(), (np.ones(len(TEST)), np.zeros(len(TEST)))
    with patch.object(checker, "_score_ends", lambda *_: ends):
        found = verify(honest, X, Y, test=TEST)
    assert found.scores is None
    return found


def unhashable():
    labels = np.empty(Y.size, dtype=object)
    labels[:] = [[label] for label in Y]
    return labels


# The reason, and a call that provokes it; the argument is an empty folder.
PROVOKED = {
    "method must be one of": lambda _: verify(proof(), X, Y, method="quick"),
    "precision must be a whole number of bits": lambda _: verify(proof(), X, Y, precision=10),
    "expect must be a statement of a proof": lambda _: verify(proof(), X, Y, expect=3.0),
    "is about another problem: C is 1.3 where 2.0": lambda _: verify(
        proof(), X, Y, expect=statement(hyperparameters={"C": 2.0, "p": 1.0})
    ),
    "formulation is 'psvm' where 'penalised psvm' is expected": lambda _: verify(
        proof(), X, Y, expect=statement(formulation="penalised psvm", intercept="none")
    ),
    "weight is another than the one that is expected, first in row 0: 1.0 for 2.0": lambda _: (
        verify(proof(), X, Y, expect=statement(weight=np.full(Y.size, 2.0)))
    ),
    "gamma is another than the one that is expected": lambda _: verify(
        proof("conic with γ"),
        X,
        Y,
        expect=replace(proof("conic with γ").statement, gamma=2 * np.ones(Y.size)),
    ),
    "the ends cross": lambda _: ends_that_cross(),
    "there is no check of scores in doubles": lambda _: verify(
        scored(), X, Y, test=TEST, method="a-priori"
    ),
    "test must be a real matrix": lambda _: verify(scored(), X, Y, test=TEST[0]),
    "test contains NaN or infinity": lambda _: verify(scored(), X, Y, test=TEST * np.nan),
    "the ends of the score of test row 0 cross": lambda _: scores_that_cross(),
    "proves nothing of these scores: the multiplier of row 0 is -1.0": lambda _: score_ends(
        replace(proof(), dual={"alpha": -np.ones(Y.size)}), X, Y, TEST
    ),
    "X must be a real matrix in memory": lambda _: verify(
        proof(), sx.RowBlocks([lambda: (X, Y)], labelled=True), Y
    ),
    "as a matrix of balls, of at most": lambda _: many_rows(),
    "flint is not installed": without_flint,
    "no check of 'hard_margin' in doubles": lambda _: in_doubles("hard margin"),
    "does not exist; pass the file of a proof": lambda folder: read_proof(folder / "missing.npz"),
    "cannot be read": lambda folder: read_proof(folder),
    "cannot be written": lambda folder: write_proof(folder, proof()),
    "the labels take more than a megabyte": long_labels,
    "the statement of a proof must be a Statement, got dict": lambda _: replace(
        proof(), statement={}
    ),
    "X must be a real matrix in memory, one observation a row$": lambda _: verify(proof(), X[0], Y),
    "y has 23 labels but X has 24 rows": lambda _: verify(proof(), X, Y[:-1]),
    "X contains NaN or infinity": lambda _: verify(proof(), np.where(X.max() == X, np.nan, X), Y),
    "y must hold one label a row": lambda _: verify(proof(), X, unhashable()),
    "the entries of the kernel are too inexact": lambda _: inexact(),
    "the array model.coef of a proof is not numeric$": lambda _: changed(coef=[[1.0], [1.0, 2.0]]),
    "array model.coef of a proof is not numeric": lambda _: changed(coef=np.array(["1", "2"])),
    "holds numbers that are not of the dtype <f8": lambda _: changed(coef=np.array([2**60 + 1, 1])),
}


def refused(action):
    """The reason that is given, raised or told."""
    try:
        found = action()
    except (sx.DataError, sx.SolverUnavailable, sx.NotCertified) as error:
        return str(error)
    return "" if found is None or found.holds else found.why


@pytest.mark.parametrize("reason", PROVOKED)
def test_a_refusal_names_its_reason(reason, tmp_path):
    assert re.search(reason, refused(lambda: PROVOKED[reason](tmp_path)))


# Every reason.

FOLDER = Path(sx.proofs.__file__).parent
# Functions whose texts refuse nothing.
WRITERS = ("__str__", "named", "between", "__repr__", "_unproved")


def reasons():
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
    path = tmp_path / "proof.npz"
    followed = Coverage(data_file=None, config_file=False, source=[str(FOLDER)])
    trees = [(changed_tree(example(), **arrays), EXAMPLE) for arrays, _ in WRONG.values()]
    files = [forgery.make() for forgery in forgeries()]
    followed.start()
    try:
        for content, data, y, _, T in files:
            path.write_bytes(content)
            for method in ("auto", "a-priori"):
                refused(partial(verify, path, data, y, test=T, method=method))
        for number, action in enumerate(PROVOKED.values()):
            folder = tmp_path / str(number)
            folder.mkdir()
            refused(partial(action, folder))
        for tree, data in [*trees, of_size(2.0**500)]:
            refused(partial(verify, tree, *data))
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
