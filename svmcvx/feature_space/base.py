"""The interface of feature spaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from svmcvx.certificate.bounded import Bounded, exact, sqrt, square, total
from svmcvx.data import BinaryData, Features
from svmcvx.kernels import Kernel
from svmcvx.model import BinaryModel

__all__ = ["FeatureSpace", "Point", "RowBlock"]

Floats: TypeAlias = NDArray[np.float64]


# Points whose scores are kept: the candidates of one answer.
KEPT_POINTS = 2


class Point(NamedTuple):
    """A point given by its coefficients `v`: scores `Kv` and the squared norm `v'Kv`, with bounds
    on the rounding errors of both.
    """

    v: Floats
    scores: Bounded
    squared_norm: Bounded


class RowBlock(Protocol):
    """Evaluates rows of a Gram matrix: ``block(rows, out=None)``, written to `out` if that is
    given.
    """

    def __call__(self, rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the rows."""


class FeatureSpace(ABC):
    """Training data seen through a kernel."""

    data: BinaryData
    intercept: str

    @property
    @abstractmethod
    def factor(self) -> Features:
        """A matrix `L` of shape (n, r) with ``L L' = K``."""

    @property
    def factored(self) -> bool:
        """Whether :attr:`factor` has been computed or takes negligible time."""
        return True

    @property
    def factor_is_data(self) -> bool:
        """Whether :attr:`factor` is the data matrix itself, without rounding."""
        return False

    def point(self, v: Floats) -> Point:
        """Return the point with coefficients `v`, which is evaluated once: as a model, as its norm
        and as a dual point.
        """
        for known in self._points:
            if np.array_equal(known.v, v):
                return known
        found = self._evaluated_point(v.copy())
        self._points[:] = [found, *self._points[: KEPT_POINTS - 1]]
        return found

    @cached_property
    def _points(self) -> list[Point]:
        """The points that were evaluated last, the latest first."""
        return []

    @abstractmethod
    def _evaluated_point(self, v: Floats) -> Point:
        """Evaluate the point with coefficients `v`, which is kept."""

    @abstractmethod
    def scores_of(self, v: Floats) -> Floats:
        """Return `Kv` without bounds on its rounding errors."""

    def squared_norm_of(self, v: Bounded) -> Bounded:
        """Return the squared norm of a point whose coefficients are known up to errors δ."""
        _, f, found = self.point(v.value)
        if v.is_exact:
            return found
        off = exact(np.broadcast_to(v.error, v.shape))
        return found.widened(2.0 * total(off * abs(f)) + square(total(off * self.lengths)))

    @cached_property
    def lengths(self) -> Bounded:
        """At least the norms of the observations in feature space."""
        return sqrt(exact(self.diagonal_above()))

    @abstractmethod
    def model(self, v: Floats, bias: float = 0.0) -> BinaryModel:
        """Return the model of the point with coefficients `v`, and with `bias` if the intercept is
        free.
        """

    @abstractmethod
    def model_from_factor(
        self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None
    ) -> BinaryModel:
        """Return the model of the point with coordinates `w` in the columns of :attr:`factor`."""

    def squared_norm(self, model: BinaryModel) -> Bounded:
        r"""Return the penalty of a model: :math:`\|w\|^2`, and the square of a penalised intercept."""
        found = model.squared_norm(self.data)
        return found + square(exact(model.intercept)) if self.intercept == "penalised" else found

    def scores(self, model: BinaryModel) -> Bounded:
        """Return the scores of a model on the training data, with bounds on their rounding errors."""
        return model.scores(self.data.X)

    @property
    @abstractmethod
    def facts(self) -> dict[str, float]:
        """Numbers that are shown with a certificate."""

    @property
    @abstractmethod
    def kernel(self) -> Kernel | None:
        """The kernel with its parameters as numbers; None for a linear space."""

    @property
    def is_linear(self) -> bool:
        """Whether the features are the columns of the data, :attr:`X`."""
        return self.kernel is None

    @property
    def exact(self) -> bool:
        """Whether the space is exact, and not an approximation of the kernel."""
        return True

    @property
    @abstractmethod
    def X(self) -> Features:
        """The data of a linear space as the formulation sees them, shape (n, d)."""

    @property
    @abstractmethod
    def centre(self) -> Floats:
        """What was subtracted from the columns of :attr:`X`."""

    @property
    @abstractmethod
    def blockwise(self) -> bool:
        """Whether there is a kernel but no stored Gram matrix: products are evaluated block by
        block.
        """

    @property
    @abstractmethod
    def stored_gram(self) -> Floats | None:
        """The Gram matrix if it is in memory, read-only; None otherwise."""

    @abstractmethod
    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return the Gram matrix between some observations and others."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """Return the squared norms of the observations in feature space, shape (n,)."""

    @abstractmethod
    def diagonal_above(self) -> Floats:
        """Return tight upper bounds of the squared norms of the observations, shape (n,)."""

    @abstractmethod
    def row_block(self, dtype: DTypeLike) -> RowBlock:
        """Return a function that evaluates rows of the Gram matrix in this precision."""
