r"""The empirical Rademacher complexity of linear functions of bounded norm, and what it needs of
the data.

For :math:`\mathcal H = \{x \mapsto \langle w, \varphi(x)\rangle + b : \|w\| \le \Lambda\}` and
signs σ drawn at random

.. math:: \widehat{\mathfrak R}(\mathcal H) = \tfrac1m\,\mathbb E_\sigma \sup_{h\in\mathcal H}\sum_i\sigma_i h(x_i)
   = \tfrac{\Lambda}{m}\,\mathbb E\sqrt{\sigma'K\sigma} \le \tfrac{\Lambda}{m}\sqrt{\operatorname{tr}K}
   \le \sqrt{r^2\Lambda^2/m}, \qquad r = \max_i\|\varphi(x_i)\|.

**Erratum.** Claim 1 of [Sun] states this with a bias b, and its proof keeps b fixed while the signs
vary. With b in the class the supremum is infinite; with :math:`|b| \le B` it grows by
:math:`B\,\mathbb E|\sum_i\sigma_i|/m \le B/\sqrt m`, which is a separate term here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import Features, check_features, check_number, check_seed, check_whole
from svmcvx.errors import DataError
from svmcvx.kernels import Kernel, KernelLike, Precomputed, as_kernel, row_norms
from svmcvx.system import memory

__all__ = [
    "RademacherBound",
    "RademacherEstimate",
    "rademacher_bound",
    "rademacher_estimate",
    "radius",
    "row_lengths",
]

Floats: TypeAlias = NDArray[np.float64]

# Entries of the block of sign vectors that are drawn at a time.
BLOCK_ENTRIES = 2**20


def row_lengths(X: Features, kernel: Kernel | None) -> Floats:
    r"""Return :math:`\|\varphi(x_i)\|` for validated data and a kernel with its parameters as
    numbers.
    """
    if kernel is None:
        return np.asarray(row_norms(X))
    diagonal = kernel.diagonal(X)
    if (diagonal < 0).any():
        raise DataError(
            f"{kernel} has k(x, x) < 0 on these data: there is no feature space; use another kernel"
        )
    return np.sqrt(diagonal)


def _prepared(X: Any, kernel: KernelLike) -> tuple[Features, Kernel | None]:
    X = check_features(X)
    chosen = as_kernel(kernel)
    if isinstance(chosen, Precomputed) and X.shape[0] != X.shape[1]:
        raise DataError(
            "a precomputed kernel takes the square matrix of all observations as X, got shape"
            f" {X.shape}"
        )
    return X, None if chosen is None else chosen.resolve(X)


def radius(X: Any, *, kernel: KernelLike = None) -> float:
    r"""Return :math:`r = \max_i \|\varphi(x_i)\|`, the radius of a ball about the origin that holds
    the data.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (m, d)
    kernel : Kernel, str, callable or None
        None for the data themselves.

    Examples
    --------
    >>> from svmcvx.theory import radius
    >>> radius([[3.0, 4.0], [1.0, 0.0]])
    5.0
    """
    return float(row_lengths(*_prepared(X, kernel)).max())


@dataclass(frozen=True)
class RademacherBound:
    r"""Upper bounds of the empirical Rademacher complexity.

    Attributes
    ----------
    theorem : float
        :math:`\sqrt{r^2\Lambda^2/m}`, without bias.
    trace : float
        :math:`\Lambda\sqrt{\operatorname{tr}K}/m`, the sharper step before it, without bias.
    bias : float
        :math:`B/\sqrt m`.
    radius, norm : float
        r and Λ.
    m : int
        Number of observations.
    """

    theorem: float
    trace: float
    bias: float
    radius: float
    norm: float
    m: int

    @property
    def total(self) -> float:
        """The theorem with what the bias adds."""
        return self.theorem + self.bias

    @property
    def sharper(self) -> float:
        """The trace bound with what the bias adds; never above ``total``."""
        return self.trace + self.bias


def _class_size(norm: float, bias: float) -> tuple[float, float]:
    return check_number(norm, "norm", low=0), check_number(bias, "bias", low=0)


def rademacher_bound(
    X: Any, *, norm: float, bias: float = 0.0, kernel: KernelLike = None
) -> RademacherBound:
    r"""Bound the empirical Rademacher complexity of linear functions with :math:`\|w\|\le\Lambda`,
    :math:`|b|\le B`.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (m, d)
        For a precomputed kernel the Gram matrix.
    norm : float
        Λ, not negative.
    bias : float
        B, not negative; 0 (no bias) by default.
    kernel : Kernel, str, callable or None
        None for linear functions.

    Returns
    -------
    RademacherBound

    Raises
    ------
    DataError
        If an argument cannot be used.

    Notes
    -----
    Source: [Sun], Theorem 2, eq. (12), and the proof of Claim 1; on the bias see the module.

    Examples
    --------
    >>> from svmcvx.theory import rademacher_bound
    >>> bound = rademacher_bound([[3.0, 4.0], [0.0, 5.0]], norm=1.0)
    >>> round(bound.theorem, 6), round(bound.trace, 6)
    (3.535534, 3.535534)
    """
    norm, bias = _class_size(norm, bias)
    lengths = row_lengths(*_prepared(X, kernel))
    m, r = lengths.size, float(lengths.max())
    return RademacherBound(
        theorem=r * norm / math.sqrt(m),
        trace=norm * float(np.linalg.norm(lengths)) / m,
        bias=bias / math.sqrt(m),
        radius=r,
        norm=norm,
        m=m,
    )


class RademacherEstimate(NamedTuple):
    """A mean over random signs and its standard error."""

    value: float
    standard_error: float


def rademacher_estimate(
    X: Any,
    *,
    norm: float,
    bias: float = 0.0,
    kernel: KernelLike = None,
    draws: int = 1000,
    seed: int = 0,
) -> RademacherEstimate:
    r"""Estimate the empirical Rademacher complexity that :func:`rademacher_bound` bounds, by
    drawing the signs.

    For given signs the supremum is :math:`\Lambda\|\sum_i\sigma_i\varphi(x_i)\| +
    B|\sum_i\sigma_i|`.

    Parameters
    ----------
    X, norm, bias, kernel
        As for :func:`rademacher_bound`.
    draws : int
        Number of sign vectors, at least 2.
    seed : int
        Of the signs.

    Returns
    -------
    RademacherEstimate

    Raises
    ------
    DataError
        If an argument cannot be used.
    BuildError
        If the Gram matrix of a kernel does not fit into memory.

    Examples
    --------
    >>> from svmcvx.theory import rademacher_estimate
    >>> found = rademacher_estimate([[3.0, 4.0], [0.0, 5.0]], norm=1.0, seed=0)
    >>> found.value > 0
    True
    """
    norm, bias = _class_size(norm, bias)
    draws = check_whole(draws, "draws", 2)
    X, chosen = _prepared(X, kernel)
    m = X.shape[0]
    gram: Any = None
    if chosen is not None:
        memory.require(
            24.0 * m * m,
            f"the {m} × {m} kernel matrix",
            "use fewer observations or rademacher_bound",
        )
        gram = X if isinstance(chosen, Precomputed) else chosen(X)
    rng = check_seed(seed)
    suprema: list[Floats] = []
    step = max(1, BLOCK_ENTRIES // m)
    for start in range(0, draws, step):
        signs = rng.choice([-1.0, 1.0], size=(m, min(step, draws - start)))
        if gram is None:
            sums = np.asarray(X.T @ signs)
            squares = (sums**2).sum(axis=0)
        else:
            squares = (signs * np.asarray(gram @ signs)).sum(axis=0)
        suprema.append(norm * np.sqrt(np.maximum(squares, 0.0)) + bias * np.abs(signs.sum(axis=0)))
    values = np.concatenate(suprema) / m
    return RademacherEstimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(draws))
