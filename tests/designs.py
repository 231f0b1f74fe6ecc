"""Small data of two classes that are hard on solvers, each by its name."""

import numpy as np

import svmcvx as sx

DESIGNS = (
    *(
        "plain",
        "offset",
        "duplicates",
        "constant column",
        "one-point class",
        "wide",
        "collinear",
        "separable",
        "tiny",
    ),
    *("repeat", "large", "integer", "mixed scales"),
)


def clouds(n, d, seed=0):
    """Return two Gaussian clouds that overlap, off the origin."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.3
    return X, np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0.2, 1, -1)


def design(name, seed, n=24, d=3, wide=(8, 20)):
    """Return data of a kind; `wide` are the sizes of those with more columns than rows."""
    rng = np.random.default_rng(seed)
    if name == "wide":
        n, d = wide
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    half = n - n // 2
    if name == "offset":
        X += 1e4
    elif name in ("duplicates", "repeat"):
        X[n // 2 :], y[n // 2 :] = X[:half], y[:half] * (-1 if name == "duplicates" else 1)
    elif name == "constant column":
        X[:, 1] = 5.0
    elif name == "one-point class":
        y[:] = 1
        y[0] = -1
    elif name == "collinear":
        X[:, 2] = X[:, 0] - 2 * X[:, 1]
    elif name == "separable":
        X[:, 0] = y * (1 + np.abs(X[:, 0]))
    elif name in ("tiny", "large"):
        X *= 1e-6 if name == "tiny" else 1e4
    elif name == "integer":
        X = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif name == "mixed scales":
        X *= np.array([1e-4, 1.0, 1e4])
    return X, y


def polynomial_outliers(degree, ratio):
    """Two outliers whose direction the factor of a polynomial kernel drops, and the kernel."""
    X = np.array(
        [[(1 if i % 2 == 0 else -1) * (2 + 0.1 * (i // 2)), 0.0] for i in range(12)]
        + [[0.0, ratio]] * 2
    )
    return X, np.r_[np.tile([1, -1], 6), 1, 1], sx.Polynomial(degree=degree, gamma=1.0)
