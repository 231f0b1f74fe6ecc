"""Kernels: the functions, and the Gram matrices that they make."""

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
