"""Kernels that are not positive semidefinite, where the theory says nothing and a squared norm may be negative."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import svmcvx as sx

from .archive import File
from .corpus import Forged, forged, forgery

INDEFINITE = "indefinite|negative|not symmetric|semidefinite"


def _psvm(K: Any, kernel: dict[str, Any] | None, support: list[int], v: list[float], **other: Any) -> File:
    """A proof of a machine on these rows, with this model and no multipliers."""
    n = K.shape[0]
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    statement = {
        "formulation": "penalised psvm",
        "hyperparameters": {"C": 1.0, "p": 1.0},
        "kernel": kernel,
        "intercept": "none",
        "rows": n,
        "columns": K.shape[1],
        "classes": [-1, 1],
        "fingerprint": sx.proofs.fingerprint(K, y),
    } | other
    header = {
        "format": "svmcvx-proof",
        "version": 2,
        "statement": statement,
        "claim": {"lower": 0.0, "upper": float(n), "kind": "convex", "stated": None},
    }
    arrays = {
        "model.support": np.array(support, dtype=np.int64),
        "model.dual_coef": np.array(v, dtype=float),
        "model.intercept": np.array(0.0),
        "dual.alpha": np.zeros(n),
    }
    return File(header, arrays, K, y)


PRECOMPUTED = {"name": "precomputed"}


@forgery("an indefinite matrix", INDEFINITE)
def _(_: File) -> Forged:
    return forged(_psvm(np.array([[1.0, 3.0], [3.0, 1.0]]), PRECOMPUTED, [0], [0.1]))


@forgery("an indefinite matrix, and nothing claimed from below", INDEFINITE)
def _(_: File) -> Forged:
    file = _psvm(np.array([[1.0, 3.0], [3.0, 1.0]]), PRECOMPUTED, [0, 1], [1.0, -1.0])
    del file.arrays["dual.alpha"]
    file.claim["lower"] = None
    return forged(file)


@forgery("an indefinite matrix on a row of weight zero, on which the model rests", INDEFINITE)
def _(_: File) -> Forged:
    rng = np.random.default_rng(3)
    F = rng.normal(size=(6, 2))
    y = np.where(np.arange(7) % 2 == 0, 1.0, -1.0)
    K = np.full((7, 7), 1e-12)
    K[:6, :6] = F @ F.T
    K[6, :6] = K[:6, 6] = 1e-4 * y[:6]
    file = _psvm(K, PRECOMPUTED, [6], [2e4])
    file.arrays["statement.weight"] = np.array([1.0] * 6 + [0.0])
    file.claim["upper"] = 1e-3
    return forged(file)


@forgery("an indefinite matrix of 4 002 rows", INDEFINITE)
def _(_: File) -> Forged:
    n = 4002
    K = sp.lil_array(sp.eye_array(n))
    K[0, 1] = K[1, 0] = 3.0
    return forged(_psvm(sp.csr_array(K), PRECOMPUTED, [0], [0.1]))


@forgery("a matrix that is not symmetric", "not symmetric")
def _(_: File) -> Forged:
    return forged(_psvm(np.array([[1.0, 0.5], [0.2, 1.0]]), PRECOMPUTED, [0], [0.1]))


@forgery("a matrix with a negative square", INDEFINITE)
def _(_: File) -> Forged:
    return forged(_psvm(np.diag([1.0, -1.0]), PRECOMPUTED, [1], [1.0]))


@forgery("a matrix with a zero on its diagonal alone", INDEFINITE)
def _(_: File) -> Forged:
    return forged(_psvm(np.array([[0.0, 1.0], [1.0, 1.0]]), PRECOMPUTED, [0], [0.1]))


@forgery("a model whose squared norm is negative by the rounding of a matrix", INDEFINITE)
def _(_: File) -> Forged:
    K = np.array([[1.0, 1.0 + 1e-11], [1.0 + 1e-11, 1.0]])
    return forged(_psvm(K, PRECOMPUTED, [0, 1], [1e9, -1e9]))


# The least eigenvalue is a rounding error of the machine's product, so that the squared norm may become negative, too.
@forgery(
    "a model along the rounding of a matrix, which lowers its objective",
    "rounding of the kern|squared norm is negative",
    "psvm precomputed",
)
def _(file: File) -> Forged:
    _, vectors = np.linalg.eigh(file.X)
    v = np.zeros(len(file.y))
    v[file.arrays["model.support"]] = file.arrays["model.dual_coef"]
    file.arrays = {
        "model.support": np.arange(len(v)),
        "model.dual_coef": v + 1.5e8 * vectors[:, 0],
        "model.intercept": file.arrays["model.intercept"],
    }
    file.claim.update(lower=None, upper=16.0)
    return forged(file, optimum=file.optimum)


@forgery("a sigmoid on more rows than are tested", "may be indefinite, which is tested on up to 4000 rows")
def _(_: File) -> Forged:
    X = np.linspace(-1.0, 1.0, 4001)[:, None]
    return forged(_psvm(X, {"name": "sigmoid", "gamma": 1.0, "coef0": -1.0}, [0], [0.1]))


@forgery("a matrix that is not square", "square matrix|shape")
def _(_: File) -> Forged:
    return forged(_psvm(np.ones((3, 2)), PRECOMPUTED, [0], [0.1]))


ROWS = np.random.default_rng(0).normal(size=(8, 2))
NUMBERS = {
    "an RBF kernel of negative γ": ({"name": "rbf", "gamma": -0.01}, "gamma of the kernel rbf"),
    "a Laplacian kernel of negative γ": ({"name": "laplacian", "gamma": -0.01}, "gamma of the kernel laplacian"),
    "an exponential kernel of negative γ": ({"name": "exponential", "gamma": -0.5}, "gamma of the kernel exponential"),
    "an RBF kernel of γ = 0": ({"name": "rbf", "gamma": 0.0}, "gamma of the kernel rbf"),
    "an RBF kernel without γ": ({"name": "rbf"}, "the parameters of the kernel rbf are"),
    "an RBF kernel of γ = scale": ({"name": "rbf", "gamma": "scale"}, "gamma of the kernel rbf"),
    "a polynomial of negative γ": (
        {"name": "polynomial", "degree": 1, "gamma": -1.0, "coef0": 100.0},
        "gamma of the kernel polynomial",
    ),
    "a cubic polynomial of negative γ": (
        {"name": "polynomial", "degree": 3, "gamma": -0.1, "coef0": 3.0},
        "gamma of the kernel polynomial",
    ),
    "a polynomial of degree 2.5": (
        {"name": "polynomial", "degree": 2.5, "gamma": 1.0, "coef0": 1.0},
        "degree of the kernel polynomial",
    ),
    "a polynomial of degree 0": (
        {"name": "polynomial", "degree": 0, "gamma": 1.0, "coef0": 1.0},
        "degree of the kernel polynomial",
    ),
    "a polynomial of degree 10⁶": (
        {"name": "polynomial", "degree": 10**6, "gamma": 1.0, "coef0": 1.0},
        "degree of the kernel polynomial",
    ),
    "a polynomial that is indefinite": ({"name": "polynomial", "degree": 2, "gamma": 1.0, "coef0": -5.0}, INDEFINITE),
    "a sigmoid that is indefinite": ({"name": "sigmoid", "gamma": 2.0, "coef0": -3.0}, INDEFINITE),
}
for what, (kernel, reason) in NUMBERS.items():

    @forgery(what, reason)
    def _(_: File, kernel: dict[str, Any] = kernel) -> Forged:
        return forged(_psvm(ROWS, kernel, [0, 1], [0.1, 0.2]))


@forgery("a kernel for several classes", "has no kernel", "m3svm")
def _(file: File) -> None:
    file.statement["kernel"] = {"name": "rbf", "gamma": 1.0}
