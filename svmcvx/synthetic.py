r"""Synthetic data of the experiments with the conic loss: Gaussian classes with outliers.

The features come without the constant feature: the formulations append it.

Source: [CepedaGomezHan], § 5.1.1 and Appendix B.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import check_choice, check_number, check_whole

__all__ = ["LinearRule", "outlier_data", "outlier_rule"]


OUTLIERS = ("none", "clustered", "spread")


class LinearRule(NamedTuple):
    """The rule ``sign(x'coef + intercept)``."""

    coef: Floats
    intercept: float

    def decision_function(self, X: Any) -> Floats:
        """Return the scores of the rows of `X`."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.coef + self.intercept)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the labels −1 or +1 of the rows of `X`."""
        return np.where(self.decision_function(X) > 0, 1, -1)


def random_stream(seed: int, *path: int) -> np.random.Generator:
    """One independent stream for the rule (path 0), and one for each sample (path 1, k)."""
    return np.random.default_rng([check_whole(seed, "seed", 0), *path])


def outlier_rule(p: int, *, seed: int) -> LinearRule:
    """Return the Bayes rule of :func:`outlier_data` with the same seed: a hyperplane through 0."""
    return LinearRule(random_stream(seed, 0).uniform(-1.0, 1.0, check_whole(p, "p", 1)), 0.0)


def outlier_data(
    n: int,
    p: int,
    *,
    sigma: float,
    outliers: str = "none",
    share: float = 0.1,
    seed: int,
    sample: int = 0,
) -> tuple[Floats, NDArray[np.intp]]:
    r"""Draw two Gaussian classes around :math:`\pm\chi`, :math:`\chi = 0.5\,d/\|d\|`, with
    outliers.
    """
    n, p = check_whole(n, "n", 1), check_whole(p, "p", 1)
    sigma = check_number(sigma, "sigma")
    check_choice(outliers, "outliers", OUTLIERS)
    share = check_number(share, "share", "[0, 1]")
    d = outlier_rule(p, seed=seed).coef
    centroid = 0.5 * d / np.linalg.norm(d)
    rng = random_stream(seed, 1, check_whole(sample, "sample", 0))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    outlier = rng.random(n) < (0.0 if outliers == "none" else share)
    place, spread = y.astype(np.float64), np.full(n, sigma)
    # How far out a cluster lies, in centroids, and variances in units of sigma².
    if outliers == "clustered":
        y = np.where(outlier, 1, y)
        place = np.where(outlier, -10.0, place)
        spread[outlier] *= np.sqrt(0.001)
    else:
        spread[outlier] *= np.sqrt(100.0)
    X = place[:, None] * centroid + spread[:, None] * rng.standard_normal((n, p))
    return X, y
