"""Kernels that are not positive semidefinite, where the theory says nothing and a squared norm may
be negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import svmcvx as sx

from .archive import File
from .corpus import Forged, forged, forgery

INDEFINITE = "indefinite|negative|not symmetric|semidefinite"


def _psvm(
    K: Any, kernel: dict[str, Any] | None, support: list[int], v: list[float], **other: Any
) -> File:
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


def _large() -> Any:
    K = sp.lil_array(sp.eye_array(4002))
    K[0, 1] = K[1, 0] = 3.0
    return sp.csr_array(K)


PAIR = np.array([[1.0, 3.0], [3.0, 1.0]])
ROUNDED = np.array([[1.0, 1.0 + 1e-11], [1.0 + 1e-11, 1.0]])
# The data, the support of the model and its coefficients, and the reason; of a precomputed kernel
# where there is no other.
MATRICES: dict[str, tuple[Callable[[], Any], list[int], list[float], str]] = {
    "an indefinite matrix": (lambda: PAIR, [0], [0.1], INDEFINITE),
    "an indefinite matrix of 4 002 rows": (_large, [0], [0.1], INDEFINITE),
    "a matrix that is not symmetric": (
        lambda: np.array([[1.0, 0.5], [0.2, 1.0]]),
        [0],
        [0.1],
        "not symmetric",
    ),
    "a matrix with a negative square": (lambda: np.diag([1.0, -1.0]), [1], [1.0], INDEFINITE),
    "a matrix with a zero on its diagonal alone": (
        lambda: np.array([[0.0, 1.0], [1.0, 1.0]]),
        [0],
        [0.1],
        INDEFINITE,
    ),
    "a model whose squared norm is negative by rounding": (
        lambda: ROUNDED,
        [0, 1],
        [1e9, -1e9],
        INDEFINITE,
    ),
    "a matrix that is not square": (lambda: np.ones((3, 2)), [0], [0.1], "square matrix|shape"),
}
for what, (matrix, support, v, reason) in MATRICES.items():

    @forgery(what, reason)
    def _(
        _: File,
        matrix: Callable[[], Any] = matrix,
        support: list[int] = support,
        v: list[float] = v,
    ) -> Forged:
        return forged(_psvm(matrix(), PRECOMPUTED, support, v))


@forgery("an indefinite matrix, and nothing claimed from below", INDEFINITE)
def _(_: File) -> Forged:
    file = _psvm(PAIR, PRECOMPUTED, [0, 1], [1.0, -1.0])
    del file.arrays["dual.alpha"]
    file.claim["lower"] = None
    return forged(file)


@forgery(
    "a sigmoid on more rows than are tested",
    "may be indefinite, which is tested on up to 4000 rows",
)
def _(_: File) -> Forged:
    X = np.linspace(-1.0, 1.0, 4001)[:, None]
    return forged(_psvm(X, {"name": "sigmoid", "gamma": 1.0, "coef0": -1.0}, [0], [0.1]))


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


# The least eigenvalue is a rounding error of the machine's product, so that the squared norm may
# become negative, too.
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


ROWS = np.random.default_rng(0).normal(size=(8, 2))
POLYNOMIAL = {"name": "polynomial", "degree": 2, "gamma": 1.0, "coef0": 1.0}
NUMBERS = {
    **{
        f"a kernel {name} of γ = {gamma}": (
            {"name": name, "gamma": gamma},
            f"gamma of the kernel {name}",
        )
        for name, gamma in (
            *(("rbf", -0.01), ("laplacian", -0.01), ("exponential", -0.5)),
            *(("rbf", 0.0), ("rbf", "scale")),
        )
    },
    "an RBF kernel without γ": ({"name": "rbf"}, "the parameters of the kernel rbf are"),
    **{
        f"a polynomial of {change}": (
            POLYNOMIAL | change,
            f"{next(reversed(change))} of the kernel polynomial",
        )
        for change in (
            {"degree": 1, "coef0": 100.0, "gamma": -1.0},
            {"degree": 3, "coef0": 3.0, "gamma": -0.1},
            *({"degree": degree} for degree in (2.5, 0, 10**6)),
        )
    },
    "a polynomial that is indefinite": (POLYNOMIAL | {"coef0": -5.0}, INDEFINITE),
    "a sigmoid that is indefinite": ({"name": "sigmoid", "gamma": 2.0, "coef0": -3.0}, INDEFINITE),
}
for what, (kernel, reason) in NUMBERS.items():

    @forgery(what, reason)
    def _(_: File, kernel: dict[str, Any] = kernel) -> Forged:
        return forged(_psvm(ROWS, kernel, [0, 1], [0.1, 0.2]))


@forgery("a kernel for several classes", "has no kernel", "m3svm")
def _(file: File) -> None:
    file.statement["kernel"] = {"name": "rbf", "gamma": 1.0}
