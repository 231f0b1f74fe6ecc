"""The rows of a training and of a validation part, as a batch of fits sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.margin_distribution import margin_space
from svmcvx.kernels import Kernel
from svmcvx.kernels.gram_cache import GramCache

__all__ = ["Answers", "Rows"]

Floats: TypeAlias = NDArray[np.float64]


class Answers(NamedTuple):
    """What a batch has found, a row a setting."""

    scores: Floats
    objectives: Floats
    gaps: Floats
    supports: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of two classes."""

    X: Floats
    y: Floats
    weight: Floats
    T: Floats
    kernel: Kernel | None
    intercept: str
    cache: GramCache

    @cached_property
    def centred(self) -> tuple[Floats, Floats]:
        """Both parts of linear machines; with a free intercept, which takes it up, without the mean
        of the training part.
        """
        if self.intercept != "free":
            return self.X, self.T
        centre = self.X.mean(axis=0)
        return self.X - centre, self.T - centre

    @property
    def constant(self) -> float:
        """What a penalised intercept adds to all products."""
        return 1.0 if self.intercept == "penalised" else 0.0

    @cached_property
    def gram(self) -> Floats:
        """The kernel between training rows, or their products."""
        kernel = self.kernel
        if kernel is None:
            X = self.centred[0]
            return np.asarray(X @ X.T + self.constant)
        found = self.cache.gram(kernel, self.X, lambda: kernel(self.X))
        return np.asarray((kernel(self.X) if found is None else found.matrix) + self.constant)

    @cached_property
    def space(self) -> FeatureSpace:
        """The space of the training rows, without a free intercept, with its factor."""
        return margin_space(
            self.X,
            self.y,
            kernel=self.kernel,
            intercept=self.intercept,
            sample_weight=self.weight,
            indefinite="error",
        )

    @cached_property
    def cross(self) -> Floats:
        """The kernel between rows to be scored and training rows, or their products."""
        kernel = self.kernel
        if kernel is None:
            X, T = self.centred
            return np.asarray(T @ X.T + self.constant)
        found = self.cache.cross(kernel, self.T, self.X)
        return np.asarray((kernel(self.T, self.X) if found is None else found) + self.constant)

    @cached_property
    def coordinates(self) -> tuple[Floats, Floats]:
        """Both parts of linear machines in at most as many columns as there are rows, a penalised
        constant among them.
        """
        X, T = self.centred
        if self.intercept == "penalised":
            X, T = (np.column_stack([part, np.ones(len(part))]) for part in (X, T))
        if X.shape[1] > X.shape[0]:
            # In an orthonormal basis of the rows, to which a best normal belongs.
            basis, triangle = np.linalg.qr(X.T)
            X, T = triangle.T, T @ basis
        return np.ascontiguousarray(X), T
