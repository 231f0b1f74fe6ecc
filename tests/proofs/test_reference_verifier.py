"""The reference verifier beside the checker: the same verdicts on small proofs of each problem that
it knows, honest and changed.
"""

import ast
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import svmcvx as sx
from tests.proofs import reference_verifier

pytest.importorskip("flint")

FILE = Path(reference_verifier.__file__)
# Between what exact fractions prove and what balls or doubles with bounds on their rounding do.
WIDTH = 1e-9


def solved(solver, **arguments):
    return lambda X, y, weight: solver(X, y, sample_weight=weight, **arguments).proof()


def coded(X, y, weight):
    """A machine whose multipliers are a byte a row."""
    proof = sx.fast.psvm(X, y, C=0.5, p=1, sample_weight=weight).proof()
    alpha, cap = proof.dual["alpha"], 0.5 * proof.statement.weighted
    code = np.where(alpha == 0.0, 0, np.where(alpha >= cap, 1, 2))
    return replace(
        proof, dual={"code": code, "between": alpha[code == 2]}, lower=proof.lower - 1e-9
    )


def of_the_model(solver, **arguments):
    """A machine whose multipliers follow from the model."""

    def proof_of(X, y, weight):
        proof = solver(X, y, sample_weight=weight, **arguments).proof()
        return replace(proof, dual={}, lower=proof.lower - 1e-6 * proof.upper)

    return proof_of


def with_scores(solver, **arguments):
    """A proof of the scores of the rows moved a little."""

    def proof_of(X, y, weight):
        solution = solver(X, y, sample_weight=weight, **arguments, tol=1e-4)
        return sx.guarantee(solution, X, y).proof(moved(X))

    return proof_of


def moved(X):
    return X + 0.25


def m3svm(X, y, **arguments):
    return sx.solve(sx.m3svm(X, y, lam=0.1, p=2.0, loss="hinge", **arguments))


SOLVERS = {
    "psvm 1": solved(sx.fast.psvm, C=2.0, p=1),
    "psvm 2": solved(sx.fast.psvm, C=0.3, p=2),
    "psvm 1 penalised": solved(sx.fast.psvm, C=2.0, p=1, intercept="penalised"),
    "psvm 2 without": solved(sx.fast.psvm, C=0.3, p=2, intercept="none"),
    "psvm 1 in bytes": coded,
    "psvm 2 of the model": of_the_model(sx.fast.psvm, C=0.7, p=2),
    "scores of psvm 1": with_scores(sx.fast.psvm, C=2.0, p=1),
    "scores of psvm 2": with_scores(sx.fast.psvm, C=0.3, p=2, intercept="penalised"),
    "scores of odm": with_scores(sx.fast.odm, C1=20.0, C2=8.0, D=0.1),
    "odm": solved(sx.fast.odm, C1=20.0, C2=8.0, D=0.1),
    "odm of the model": of_the_model(sx.fast.odm, D=0.2, intercept=True),
    "conic": solved(sx.fast.conic, lam=0.5),
    "conic without": solved(sx.fast.conic, lam=4.0, intercept=False),
    "conic kappa": solved(sx.fast.conic, kappa=0.2),
    "zero_one": solved(sx.fast.zero_one, lam=0.5),
    "zero_one without": solved(sx.fast.zero_one, lam=2.0, intercept=False),
    "zero_one k": solved(sx.fast.zero_one, k=9.0),
    "zero_one rbf": solved(sx.fast.zero_one, lam=0.5, kernel=sx.RBF(0.5)),
    "zero_one polynomial k": solved(sx.fast.zero_one, k=2.0, kernel=sx.Polynomial(2, 0.5, 1.0)),
    "ramp": solved(sx.fast.ramp, C=0.7),
    "ramp rbf": solved(sx.fast.ramp, C=2.0, kernel=sx.RBF(0.5)),
    "l0": solved(sx.fast.l0, C=1.0, method="search"),
    "l0 laplacian": solved(sx.fast.l0, C=2.0, kernel=sx.Laplacian(0.5), method="search"),
    "m3svm 1": solved(m3svm, norm=1),
    "m3svm 2": solved(m3svm, norm=2),
}


def made(seed):
    """An honest proof of a small problem, one of a few with weights and repeated rows, and its
    data.
    """
    rng = np.random.default_rng(seed)
    name = list(SOLVERS)[seed % len(SOLVERS)]
    n, d, c = int(rng.integers(8, 22)), int(rng.integers(1, 4)), 3 if "m3svm" in name else 2
    codes = np.arange(n) % c
    X = np.round(rng.normal(size=(n, d)) + np.eye(c, d)[codes], int(rng.integers(1, 9)))
    X[n // 2] = X[n // 2 - c]
    weight = np.round(rng.uniform(0.1, 2.0, n), 2) if seed % 3 == 0 else None
    if weight is not None and seed % 2:
        weight[-1] = 0.0
    y = codes if seed % 4 else np.array(["ash", "birch", "cedar"])[codes]
    return SOLVERS[name](X, y, weight), X, y


def changed(proof, seed):
    """The proof with an array scaled a little or a lot, or with another claim."""
    rng = np.random.default_rng([seed, 1])
    families = {
        "model": proof.model,
        "dual": proof.dual,
        "tree": proof.tree,
        "scores": proof.scores,
    }
    family = str(rng.choice([name for name, arrays in families.items() if arrays]))
    key = str(
        rng.choice([name for name, values in families[family].items() if values.dtype.kind == "f"])
    )
    values = families[family][key] * rng.choice([1.0 + 1e-12, 1.01, 0.5, -1.0, 0.0])
    proof = replace(proof, **{family: families[family] | {key: values}})
    return (
        proof
        if rng.uniform() < 0.5
        else replace(proof, lower=None if proof.lower is None else 0.0, upper=1e6)
    )


def verdicts(proof, X, y, folder):
    """What the checker and the reference verifier say of a proof's file."""
    path, data = folder / "proof.npz", folder / "data.npz"
    sx.proofs.write_proof(path, proof)
    test = None if proof.test is None else moved(X)
    np.savez(data, X=X, y=y, **({} if test is None else {"T": test}))
    return sx.verify(path, X, y, test=test, method="balls"), reference_verifier.verify(path, data)


def compare(seed, folder):
    """Whether an honest proof and one that was changed hold, after the two verdicts on each were
    found to be the same.
    """
    proof, X, y = made(seed)
    found = []
    for one in (proof, changed(proof, seed)):
        checked, (lower, upper, why) = verdicts(one, X, y, folder)
        assert checked.holds == (why == ""), (seed, checked.why, why)
        if checked.holds:
            for mine, exact in ((checked.lower, lower), (checked.upper, upper)):
                assert mine is None or abs(Fraction(mine) - exact) <= WIDTH * max(1.0, abs(mine)), (
                    seed
                )
            # Multipliers that the model gives may be rounded in any way.
            assert (
                not (one.dual or one.tree)
                or checked.lower is None
                or Fraction(checked.lower) <= lower
            )
            assert upper <= checked.upper
        found.append(checked.holds)
    return found


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_verdicts_are_the_same(first, tmp_path):
    found = [compare(seed, tmp_path) for seed in range(first, first + 8)]
    assert all(honest for honest, _ in found)
    assert not all(other for _, other in found)


def test_it_runs_alone(tmp_path):
    proof, X, y = made(0)
    verdicts(proof, X, y, tmp_path)
    files = [tmp_path / "proof.npz", tmp_path / "data.npz"]
    run = subprocess.run([sys.executable, "-I", FILE, *files], capture_output=True, text=True)
    assert run.returncode == 0
    assert run.stdout.startswith("holds: ")
    np.savez(files[1], X=X + 1.0, y=y)
    run = subprocess.run([sys.executable, "-I", FILE, *files], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stdout == "refused: ValueError: these are other data\n"


def test_it_is_short_and_needs_nothing_but_numpy():
    text = FILE.read_text()
    assert len(text.splitlines()) <= 840
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name not in sys.stdlib_module_names} == {"numpy"}
