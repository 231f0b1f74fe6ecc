"""The honest files that forgeries start from, each with the optimum of its problem."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import svmcvx as sx
from svmcvx.fast import indicator
from svmcvx.fast.search.state import SearchSettings

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

FAST, RBF, GIVEN = sx.fast, sx.RBF(0.5), sx.Precomputed()


def _with_gamma() -> Any:
    gamma = sx.solve(sx.conic_sdp(X, Y, lam=1.0)).dual["gamma"]
    return sx.solve(sx.conic_fixed_gamma(X, Y, gamma=gamma, lam=1.0))


def _weston_watkins(**arguments: Any) -> Any:
    return sx.solve(sx.weston_watkins(X3, CODES, lam=0.3, **arguments))


def _l0(C: float, **arguments: Any) -> Any:
    return FAST.l0(FEW, FEW_Y, C=C, method="tree", **arguments)


def _sets() -> Any:
    """An answer of sets alone: branch and bound does not begin."""
    settings = SearchSettings(turn=1.0, columns=0, expansions=1)
    with patch.object(indicator, "LONG", 0.0):
        return FAST.l0(X3, Y, C=1.0, method="search", max_iter=2, settings=settings)


# How each is solved, and on which data.
TWO, SMALL, THREE = (X, Y), (FEW, FEW_Y), (X3, CODES)
SOLUTIONS: dict[str, tuple[Callable[[], Any], np.ndarray, np.ndarray]] = {
    "psvm": (lambda: FAST.psvm(X, Y, C=1.3, p=1.0), *TWO),
    "psvm 7.5": (lambda: FAST.psvm(X, Y, C=7.5, p=1.0), *TWO),
    "psvm weights": (lambda: FAST.psvm(X, Y, C=1.3, p=1.0, sample_weight=WEIGHT), *TWO),
    "psvm 2": (lambda: FAST.psvm(X, Y, C=1.3, p=2.0), *TWO),
    "psvm rbf": (lambda: FAST.psvm(X, Y, C=1.3, p=2.0, kernel=RBF), *TWO),
    "psvm precomputed": (lambda: FAST.psvm(GRAM, Y, C=1.3, p=2.0, kernel=GIVEN), GRAM, Y),
    "hard margin": (lambda: FAST.hard_margin(FAR, Y), FAR, Y),
    "odm": (lambda: FAST.odm(X, Y), *TWO),
    "odml": (lambda: FAST.odml(X, Y), *TWO),
    "conic": (lambda: FAST.conic(X, Y, lam=1.0), *TWO),
    "conic 4": (lambda: FAST.conic(X, Y, lam=4.0), *TWO),
    "conic kappa": (lambda: FAST.conic(X, Y, kappa=0.2), *TWO),
    "conic rbf": (lambda: FAST.conic(X, Y, lam=1.0, kernel=RBF), *TWO),
    "conic with γ": (_with_gamma, *TWO),
    "zero_one": (lambda: FAST.zero_one(X, Y, lam=1.0, method="tree"), *TWO),
    "zero_one 0.3": (lambda: FAST.zero_one(X, Y, lam=0.3, method="tree"), *TWO),
    "zero_one k": (lambda: FAST.zero_one(X, Y, k=4.0, method="tree"), *TWO),
    "zero_one weights": (
        lambda: FAST.zero_one(X, Y, lam=1.0, sample_weight=WEIGHT, method="tree"),
        *TWO,
    ),
    "zero_one rbf": (lambda: FAST.zero_one(X, Y, lam=1.0, kernel=RBF), *TWO),
    "zero_one precomputed": (lambda: FAST.zero_one(GRAM, Y, lam=1.0, kernel=GIVEN), GRAM, Y),
    "ramp": (lambda: FAST.ramp(FEW, FEW_Y, C=1.0), *SMALL),
    "ramp rbf": (lambda: FAST.ramp(FEW, FEW_Y, C=1.0, kernel=RBF), *SMALL),
    "l0": (lambda: _l0(1.0), *SMALL),
    "l0 rbf": (lambda: _l0(2.0, kernel=RBF), *SMALL),
    "cells": (lambda: FAST.l0(FEW, FEW_Y, C=5.0, method="directions"), *SMALL),
    "blocks": (lambda: FAST.l0(X, Y, C=1.0, method="partition", max_iter=2), *TWO),
    "blocks 0-1": (lambda: FAST.zero_one(X, Y, lam=1.0, method="partition", max_iter=2), *TWO),
    "cells k": (lambda: FAST.zero_one(X, Y, k=4.0, method="directions"), *TWO),
    "sets": (_sets, X3, Y),
    "m3svm": (lambda: FAST.m3svm(*THREE, lam=0.1, p=2.0, loss="hinge"), *THREE),
    "m3svm 1": (lambda: FAST.m3svm(*THREE, lam=0.1, p=1.0, loss="hinge"), *THREE),
    "m3svm logistic": (lambda: FAST.m3svm(*THREE, lam=0.1, p=2.0, loss="logistic"), *THREE),
    "m3svm hard": (lambda: sx.solve(sx.m3svm_hard_margin(FAR3, CODES, p=1.0, norm=2)), FAR3, CODES),
    "weston_watkins": (_weston_watkins, *THREE),
    "weston_watkins without": (lambda: _weston_watkins(intercept=False), *THREE),
    "sparse_multinomial_lr": (lambda: sx.solve(sx.sparse_multinomial_lr(*THREE, lam=0.3)), *THREE),
    "topk": (lambda: sx.solve(sx.topk_svm(*THREE, lam=0.3, k=2)), *THREE),
}


def _loose() -> Any:
    """A solution of shorter multipliers, whose interval is wider."""
    solution = FAST.odm(X, Y, C1=1.0, C2=1.0)
    return replace(solution, dual={"theta": 0.9 * solution.dual["theta"]})


TEST = np.array([[0.5, 1.0], [-1.5, -0.5], [2.0, 2.0], [-0.25, -2.0], [3.0, 0.0], [0.0, 0.0]])
# Solved loosely, so that intervals of scores have a width.
SCORES: dict[str, Callable[[], Any]] = {
    "scores": lambda: FAST.psvm(X, Y, C=1.3, p=2.0, tol=1e-2, max_iter=2),
    "scores odm": _loose,
    "scores rbf": lambda: FAST.psvm(X, Y, C=1.3, p=1.0, kernel=RBF, tol=1e-3),
}


@cache
def _solved(name: str) -> File:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.npz"
        if name in SCORES:
            sx.guarantee(SCORES[name](), X, Y).save_proof(path, TEST)
            return File(*unpacked(path), X, Y, T=TEST)
        solve, rows, labels = SOLUTIONS[name]
        solution = solve()
        solution.save_proof(path)
        return File(*unpacked(path), rows, labels, solution.certificate.upper)


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
