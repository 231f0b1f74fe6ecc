"""Kernels that are not positive semidefinite, where the theory says nothing and a squared norm may
be negative.
"""

import numpy as np
import scipy.sparse as sp

import svmcvx as sx

from .archive import File

INDEFINITE = "indefinite|negative|not symmetric|semidefinite"


def machine(K, kernel, support, v, *, weight=None, claim=(0.0, None), dual=True):
    """A proof of a machine on these rows, with this model and multipliers of zero or none."""

    def made(_):
        X = K() if callable(K) else K
        n = X.shape[0]
        y = np.where(np.arange(n) % 2 == 0, 1, -1)
        statement = {
            "formulation": "penalised psvm",
            "hyperparameters": {"C": 1.0, "p": 1.0},
            "kernel": kernel,
            "intercept": "none",
            "rows": n,
            "columns": X.shape[1],
            "classes": [-1, 1],
            "fingerprint": sx.proofs.fingerprint(X, y),
        }
        lower, upper = claim[0] if dual else None, float(n) if claim[1] is None else claim[1]
        header = {
            "format": "svmcvx-proof",
            "version": 2,
            "statement": statement,
            "claim": {"lower": lower, "upper": upper, "kind": "convex", "stated": None},
        }
        arrays = {
            "model.support": np.array(support, dtype=np.int64),
            "model.dual_coef": np.array(v, dtype=float),
            "model.intercept": np.array(0.0),
            **({"dual.alpha": np.zeros(n)} if dual else {}),
            **({} if weight is None else {"statement.weight": np.array(weight)}),
        }
        return File(header, arrays, X, y)

    return made


def large():
    K = sp.lil_array(sp.eye_array(1202))
    K[0, 1] = K[1, 0] = 3.0
    return sp.csr_array(K)


def without_weight():
    """A matrix that is indefinite by a row on which the model rests."""
    F = np.random.default_rng(3).normal(size=(6, 2))
    K = np.full((7, 7), 1e-12)
    K[:6, :6] = F @ F.T
    K[6, :6] = K[:6, 6] = 1e-4 * np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
    return K


def along_the_rounding(file):
    """A model that lowers its objective; the least eigenvalue is a rounding error of the machine's
    product, so that the squared norm may become negative, too.
    """
    _, vectors = np.linalg.eigh(file.X)
    v = np.zeros(len(file.y))
    v[file.arrays["model.support"]] = file.arrays["model.dual_coef"]
    file.arrays = {
        "model.support": np.arange(len(v)),
        "model.dual_coef": v + 1.5e8 * vectors[:, 0],
        "model.intercept": file.arrays["model.intercept"],
    }
    file.claim.update(lower=None, upper=16.0)
    return file.optimum


GIVEN, PAIR = {"name": "precomputed"}, np.array([[1.0, 3.0], [3.0, 1.0]])
ROUNDED = np.array([[1.0, 1.0 + 1e-11], [1.0 + 1e-11, 1.0]])
ROWS, SIGMOID = np.random.default_rng(0).normal(size=(8, 2)), {"name": "sigmoid", "gamma": 1.0}
POLYNOMIAL = {"name": "polynomial", "degree": 2, "gamma": 1.0, "coef0": 1.0}
SKEW, ZERO = np.array([[1.0, 0.5], [0.2, 1.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])
# The matrix, the support of the model and its coefficients, and the reason.
MATRICES = [
    ("an indefinite matrix", PAIR, [0], [0.1], INDEFINITE),
    ("an indefinite matrix of 1 202 rows", large, [0], [0.1], INDEFINITE),
    ("a matrix that is not symmetric", SKEW, [0], [0.1], "not symmetric"),
    ("a matrix with a negative square", np.diag([1.0, -1.0]), [1], [1.0], INDEFINITE),
    ("a matrix with a zero on its diagonal alone", ZERO, [0], [0.1], INDEFINITE),
    ("a squared norm below 0 by rounding", ROUNDED, [0, 1], [1e9, -1e9], INDEFINITE),
    ("a matrix that is not square", np.ones((3, 2)), [0], [0.1], "kernel is square|shape"),
]
NUMBERS = [
    *(
        (f"a kernel {name} of γ = {gamma}", {"name": name, "gamma": gamma}, f"gamma of .* {name}")
        for name, gamma in (("rbf", -0.01), ("laplacian", -0.01), ("rbf", 0.0), ("rbf", "scale"))
    ),
    ("an RBF kernel without γ", {"name": "rbf"}, "the parameters of the kernel rbf are"),
    *(
        (f"a polynomial of degree {n}", POLYNOMIAL | {"degree": n}, "degree of the kernel")
        for n in (2.5, 0, 10**6)
    ),
    ("a polynomial of γ = -1", POLYNOMIAL | {"gamma": -1.0}, "gamma of the kernel polynomial"),
    ("an indefinite polynomial", POLYNOMIAL | {"coef0": -5.0}, INDEFINITE),
    ("an indefinite sigmoid", SIGMOID | {"gamma": 2.0, "coef0": -3.0}, INDEFINITE),
]

FORGERIES = [
    *((what, "psvm", machine(K, GIVEN, rows, v), why) for what, K, rows, v, why in MATRICES),
    *(
        (what, "psvm", machine(ROWS, kernel, [0, 1], [0.1, 0.2]), why)
        for what, kernel, why in NUMBERS
    ),
    (
        "an indefinite matrix, and nothing claimed from below",
        "psvm",
        machine(PAIR, GIVEN, [0, 1], [1.0, -1.0], dual=False),
        INDEFINITE,
    ),
    (
        "a sigmoid on more rows than are tested",
        "psvm",
        machine(np.linspace(-1.0, 1.0, 4001)[:, None], SIGMOID | {"coef0": -1.0}, [0], [0.1]),
        "may be indefinite, which is tested on up to 4000 rows",
    ),
    (
        "an indefinite matrix on a row of weight zero, on which the model rests",
        "psvm",
        machine(without_weight, GIVEN, [6], [2e4], weight=[1.0] * 6 + [0.0], claim=(0.0, 1e-3)),
        INDEFINITE,
    ),
    (
        "a model along the rounding of a matrix",
        "psvm precomputed",
        along_the_rounding,
        "rounding of the kern|squared norm is negative",
    ),
]
