"""The honest files that forgeries start from, each with the optimum of its problem."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import svmcvx as sx

from .archive import File, unpacked

X, Y = sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=0)
# A data set that no model separates, and one of three classes.
CODES = np.arange(24) % 3
X3 = np.random.default_rng(1).normal(size=(24, 3)) + np.eye(3)[CODES]
FEW, FEW_Y = X[:14], Y[:14]
FAR = X + 4.0 * Y[:, None]
FAR3 = X3 + 6.0 * np.eye(3)[CODES]
GRAM = X @ X.T + 1.0
WEIGHT = np.linspace(0.2, 2.0, Y.size)

SOLUTIONS: dict[str, tuple[Callable[[], Any], np.ndarray, np.ndarray]] = {
    "psvm": (lambda: sx.fast.psvm(X, Y, C=1.3, p=1.0), X, Y),
    "psvm 7.5": (lambda: sx.fast.psvm(X, Y, C=7.5, p=1.0), X, Y),
    "psvm weights": (lambda: sx.fast.psvm(X, Y, C=1.3, p=1.0, sample_weight=WEIGHT), X, Y),
    "psvm 2": (lambda: sx.fast.psvm(X, Y, C=1.3, p=2.0), X, Y),
    "psvm rbf": (lambda: sx.fast.psvm(X, Y, C=1.3, p=2.0, kernel=sx.RBF(0.5)), X, Y),
    "psvm precomputed": (
        lambda: sx.fast.psvm(GRAM, Y, C=1.3, p=2.0, kernel=sx.Precomputed()),
        GRAM,
        Y,
    ),
    "hard margin": (lambda: sx.fast.hard_margin(FAR, Y), FAR, Y),
    "odm": (lambda: sx.fast.odm(X, Y), X, Y),
    "odml": (lambda: sx.fast.odml(X, Y), X, Y),
    "conic": (lambda: sx.fast.conic(X, Y, lam=1.0), X, Y),
    "conic 4": (lambda: sx.fast.conic(X, Y, lam=4.0), X, Y),
    "conic kappa": (lambda: sx.fast.conic(X, Y, kappa=0.2), X, Y),
    "conic rbf": (lambda: sx.fast.conic(X, Y, lam=1.0, kernel=sx.RBF(0.5)), X, Y),
    "conic with γ": (lambda: _with_gamma(), X, Y),
    "zero_one": (lambda: sx.fast.zero_one(X, Y, lam=1.0), X, Y),
    "zero_one 0.3": (lambda: sx.fast.zero_one(X, Y, lam=0.3), X, Y),
    "zero_one k": (lambda: sx.fast.zero_one(X, Y, k=4.0), X, Y),
    "zero_one weights": (lambda: sx.fast.zero_one(X, Y, lam=1.0, sample_weight=WEIGHT), X, Y),
    "zero_one rbf": (lambda: sx.fast.zero_one(X, Y, lam=1.0, kernel=sx.RBF(0.5)), X, Y),
    "zero_one precomputed": (
        lambda: sx.fast.zero_one(GRAM, Y, lam=1.0, kernel=sx.Precomputed()),
        GRAM,
        Y,
    ),
    "ramp": (lambda: sx.fast.ramp(FEW, FEW_Y, C=1.0), FEW, FEW_Y),
    "ramp rbf": (lambda: sx.fast.ramp(FEW, FEW_Y, C=1.0, kernel=sx.RBF(0.5)), FEW, FEW_Y),
    "l0": (lambda: sx.fast.l0(FEW, FEW_Y, C=1.0, method="search"), FEW, FEW_Y),
    "l0 rbf": (
        lambda: sx.fast.l0(FEW, FEW_Y, C=2.0, method="search", kernel=sx.RBF(0.5)),
        FEW,
        FEW_Y,
    ),
    "m3svm": (lambda: sx.fast.m3svm(X3, CODES, lam=0.1, p=2.0, loss="hinge"), X3, CODES),
    "m3svm 1": (lambda: sx.fast.m3svm(X3, CODES, lam=0.1, p=1.0, loss="hinge"), X3, CODES),
    "m3svm logistic": (
        lambda: sx.fast.m3svm(X3, CODES, lam=0.1, p=2.0, loss="logistic"),
        X3,
        CODES,
    ),
    "weston_watkins": (lambda: sx.solve(sx.weston_watkins(X3, CODES, lam=0.3)), X3, CODES),
    "weston_watkins without": (
        lambda: sx.solve(sx.weston_watkins(X3, CODES, lam=0.3, intercept=False)),
        X3,
        CODES,
    ),
    "sparse_multinomial_lr": (
        lambda: sx.solve(sx.sparse_multinomial_lr(X3, CODES, lam=0.3)),
        X3,
        CODES,
    ),
    "m3svm hard": (lambda: sx.solve(sx.m3svm_hard_margin(FAR3, CODES, p=1.0, norm=2)), FAR3, CODES),
    "topk": (lambda: sx.solve(sx.topk_svm(X3, CODES, lam=0.3, k=2)), X3, CODES),
}

TEST = np.array([[0.5, 1.0], [-1.5, -0.5], [2.0, 2.0], [-0.25, -2.0], [3.0, 0.0], [0.0, 0.0]])
# Solved loosely, so that intervals of scores have a width.
SCORES: dict[str, Callable[[], Any]] = {
    "scores": lambda: sx.fast.psvm(X, Y, C=1.3, p=2.0, tol=1e-2, max_iter=2),
    "scores odm": lambda: _loose(sx.fast.odm(X, Y), "theta"),
    "scores rbf": lambda: sx.fast.psvm(X, Y, C=1.3, p=1.0, kernel=sx.RBF(0.5), tol=1e-3),
}


def _loose(solution: Any, name: str) -> Any:
    """A solution of shorter multipliers, whose interval is wider."""
    return replace(solution, dual={name: 0.9 * solution.dual[name]})


def _with_gamma() -> Any:
    gamma = sx.solve(sx.conic_sdp(X, Y, lam=1.0)).dual["gamma"]
    return sx.solve(sx.conic_fixed_gamma(X, Y, gamma=gamma, lam=1.0))


@cache
def _solved(name: str) -> File:
    if name in SCORES:
        return _with_scores(name)
    solve, X, y = SOLUTIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.npz"
        solution = solve()
        solution.save_proof(path)
        header, arrays = unpacked(path)
    return File(header, arrays, X, y, solution.certificate.upper)


def _with_scores(name: str) -> File:
    """An honest proof of scores."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.npz"
        sx.guarantee(SCORES[name](), X, Y).save_proof(path, TEST)
        header, arrays = unpacked(path)
    return File(header, arrays, X, Y, T=TEST)


def honest(name: str) -> File:
    """A copy of the file of an honest proof; "coded" is that of ``psvm`` with a byte a row."""
    return deepcopy(_coded() if name == "coded" else _solved(name))


@cache
def _coded() -> File:
    file = deepcopy(_solved("psvm"))
    alpha = file.arrays.pop("dual.alpha")
    code = np.where(alpha == 0.0, 0, np.where(alpha == 1.3, 1, 2))
    file.arrays |= {"dual.code": code.astype(np.uint8), "dual.between": alpha[code == 2]}
    file.claim["lower"] -= 1e-9
    return file
