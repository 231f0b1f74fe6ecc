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
)
from svmcvx.kernels.functions import kernel_from_dict as kernel_from_dict
from svmcvx.kernels.functions import row_norms as row_norms
from svmcvx.kernels.functions import squared_distances as squared_distances

__all__ = ["RBF", "CallableKernel", "EntryError", "Exponential", "Kernel", "KernelLike"]
__all__ += ["Laplacian", "Linear", "Polynomial", "Precomputed", "Sigmoid", "as_kernel"]
