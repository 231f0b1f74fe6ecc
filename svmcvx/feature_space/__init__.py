r"""Feature spaces: what a formulation needs of a kernel on given training data.

A point of feature space is written :math:`w = \sum_i v_i \varphi(x_i)`. A space turns the
coefficients `v` into scores :math:`Kv`, into :math:`\|w\|^2 = v'Kv` and into a model, and gives the
builders a factor `L` with :math:`K = LL'`. Linear spaces never form `K`.
"""

from __future__ import annotations

import numpy as np

from svmcvx.data import BinaryData, check_choice
from svmcvx.errors import DataError
from svmcvx.feature_space.kernel import KernelSpace
from svmcvx.feature_space.linear import FeatureSpace, LinearSpace, Point, RowBlock, with_constant
from svmcvx.kernels import CallableKernel, KernelLike, Precomputed, as_kernel
from svmcvx.kernels.factor import LARGEST_ENTRY
from svmcvx.kernels.gram import shared_cache

__all__ = ["FeatureSpace", "KernelSpace", "LinearSpace", "Point", "RowBlock", "feature_space"]
__all__ += ["with_constant"]


def check_square(shape: tuple[int, ...]) -> None:
    """Raise a :class:`~svmcvx.DataError` unless this is the shape of a Gram matrix."""
    if shape[0] != shape[1]:
        raise DataError(
            "a precomputed kernel takes as X the square matrix k(x_i, x_j) of all training"
            f" observations, got {shape[0]} rows and {shape[1]} columns; pass K[rows][:, rows] for"
            " a part of the observations"
        )


def feature_space(
    data: BinaryData,
    kernel: KernelLike,
    *,
    intercept: str,
    indefinite: str = "error",
    keep_gram: bool = True,
) -> FeatureSpace:
    """Return the space of a kernel on training data."""
    check_choice(indefinite, "indefinite", ("error", "clip"))
    chosen = as_kernel(kernel)
    if chosen is None:
        return _in_range(LinearSpace(data, intercept))
    if isinstance(chosen, Precomputed):
        check_square((data.rows, data.X.shape[1]))
    resolved = chosen.resolve(data.X, data.weight)
    space = KernelSpace(data, resolved, intercept, indefinite, keep_gram, shared_cache())
    # The whole Gram matrix of these kernels is tested.
    return space if isinstance(chosen, (CallableKernel, Precomputed)) else _in_range(space)


def _in_range(space: LinearSpace | KernelSpace) -> FeatureSpace:
    """Raise an error for observations whose squared lengths would overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(space, LinearSpace):
            squares = space.squares
        else:
            squares = space.resolved.diagonal(space.data.X)
        largest = float(np.max(squares))
    if not largest <= LARGEST_ENTRY:
        what = "rows of X" if space.is_linear else f"k(x, x) of the kernel {space.kernel}"
        raise DataError(
            f"the {what} reach a squared length of {largest:.3g} in feature space, beyond"
            f" {LARGEST_ENTRY:g}, where arithmetic overflows; scale the data, or use a smaller"
            " gamma or degree"
        )
    return space
