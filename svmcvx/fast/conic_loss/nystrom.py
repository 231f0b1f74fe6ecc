r"""Nyström approximation of a kernel, for more observations than a Gram matrix allows.

The landmarks are the pivots of an incomplete Cholesky factorisation of K with diagonal pivoting.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import BinaryData
from svmcvx.errors import DataError
from svmcvx.fast.core.pivoted_cholesky import on_pivots, partial_factor
from svmcvx.feature_space import KernelSpace
from svmcvx.kernels import KernelLike, as_kernel
from svmcvx.kernels.columns import is_definite
from svmcvx.model import KernelModel
from svmcvx.system import memory

__all__ = ["Landmarks", "NystromSpace", "nystrom_space"]

Floats: TypeAlias = NDArray[np.float64]

# The choice of landmarks ends when all diagonal entries of the residual are below this share of the
# largest one of K.
EXHAUSTED = 1e-8


class Landmarks(NamedTuple):
    """A partial Cholesky factor of K and its pivots."""

    chosen: NDArray[np.intp]
    F: Floats
    missing: float


@dataclass(frozen=True, eq=False)
class NystromSpace(KernelSpace):
    """The span of the feature vectors of the landmarks, instead of all observations."""

    rank: int = 1

    @property
    def exact(self) -> bool:
        """False: the lower bound is one for the approximation."""
        return False

    @cached_property
    def landmarks(self) -> Landmarks:
        """The landmarks and their factor."""
        n = self.data.n
        memory.require(
            16.0 * n * self.rank,
            f"the Nyström factor of {n} × {self.rank}",
            "use a smaller nystrom",
        )
        partial = partial_factor(self, EXHAUSTED)
        partial.grow(self.rank)
        return Landmarks(np.array(partial.pivots, dtype=np.intp), partial.factor, partial.missing)

    @property
    def factor(self) -> Floats:
        """The Nyström factor."""
        return self.landmarks.F

    @property
    def facts(self) -> dict[str, float]:
        """Number of landmarks, and the share of the trace of K that is missing in the
        approximation.
        """
        return {
            "nystrom_rank": float(self.landmarks.F.shape[1]),
            "nystrom_trace_error": self.landmarks.missing,
        }

    def model_from_factor(
        self, w: Floats, bias: float = 0.0, support: NDArray[np.bool_] | None = None
    ) -> KernelModel:
        """Return the expansion over the landmarks."""
        return self.model(on_pivots(self.landmarks.F, self.landmarks.chosen, w), bias)


def nystrom_space(
    data: BinaryData, kernel: KernelLike, *, rank: int, intercept: str
) -> NystromSpace:
    """Return the space of landmarks of a kernel that is positive semidefinite on any data."""
    if isinstance(rank, (bool, np.bool_)) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise DataError(
            f"nystrom must be a number of landmarks of at least 1, or None, got {rank!r}"
        )
    chosen = as_kernel(kernel)
    if chosen is None:
        raise DataError(
            "nystrom approximates a kernel, and kernel is None; pass a kernel, or leave nystrom out"
        )
    if not is_definite(chosen):
        raise DataError(
            f"nystrom needs a kernel that is positive semidefinite on any data, got {chosen}; leave"
            " nystrom out, or use RBF, Exponential, Laplacian, Linear or Polynomial with coef0"
            " >= 0"
        )
    return NystromSpace(
        data, chosen.resolve(data.X, data.weight), intercept, keep_gram=False, rank=int(rank)
    )
