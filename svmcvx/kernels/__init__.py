"""Kernels: the functions, and the Gram matrices that they make."""

from typing import TYPE_CHECKING, NoReturn

from svmcvx.errors import no_attribute
from svmcvx.kernels.functions import (
    RBF,
    CallableKernel,
    EntryError,
    Exponential,
    Kernel,
    KernelLike,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    as_kernel,
    kernel_from_dict,
    row_norms,
    squared_distances,
)

__all__ = [
    "RBF",
    "CallableKernel",
    "EntryError",
    "Exponential",
    "Kernel",
    "KernelLike",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "as_kernel",
    "kernel_from_dict",
    "row_norms",
    "squared_distances",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
