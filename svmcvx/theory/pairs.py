r"""Margins between pairs of classes, and the bound that the M3SVM's regulariser minimises.

With :math:`f_{kl}(x) = (w_k-w_l)'x + b_k - b_l` the margin between classes k and l is
:math:`2/\|w_k-w_l\|`. The guaranteed risk of [Guermeur] grows with a norm of the operator T that
maps a machine to its differences on the sample, and

.. math:: \|T(f)\|_{\ell_\infty,\ell_p} = \max_i\Big(\sum_{k<l}|(w_k-w_l)'x_i|^p\Big)^{1/p}
   \le \Lambda\Big(\sum_{k<l}\|w_k-w_l\|^p\Big)^{1/p}, \qquad \Lambda = \max\|x\|.

This is a bound on a norm with which the guaranteed risk grows, not a probability of error. The
biases b do not enter: they translate the set of functions without enlarging it.

**Source.** [NieHaoWang], Theorem 6, eq. (31).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_features, check_number
from svmcvx.errors import DataError, DataTypeError
from svmcvx.formulations.multiclass.statement import pair_differences
from svmcvx.kernels import row_norms
from svmcvx.model import LinearModel, MulticlassModel
from svmcvx.solution import Solution

__all__ = ["GuaranteedRisk", "guaranteed_risk", "pairwise_margins"]

Floats: TypeAlias = NDArray[np.float64]


def _weights(model: Any) -> Floats:
    """Return W of shape (d, c); two classes with one score have the weights −w/2 and w/2."""
    solution = getattr(model, "solution_", model)
    found = solution.model if isinstance(solution, Solution) else solution
    if isinstance(found, MulticlassModel):
        return found.coef
    if isinstance(found, LinearModel):
        return np.outer(found.coef, [-0.5, 0.5])
    raise DataTypeError(
        "model must be, or hold, a MulticlassModel or a LinearModel (one vector of weights a"
        f" class), got {type(found).__name__}"
    )


def pairwise_margins(model: Any) -> Floats:
    r"""Return the matrix of margins :math:`2/\|w_k-w_l\|` between classes.

    Parameters
    ----------
    model : Solution, MulticlassModel, LinearModel or fitted estimator of this package

    Returns
    -------
    ndarray of shape (c, c)
        Symmetric, in the order of the classes; NaN on the diagonal, infinity between classes of
        equal weights.

    Raises
    ------
    DataError
        If the model has not one vector of weights a class.

    Notes
    -----
    Source: [NieHaoWang], problem (4): as p → ∞, M3SVM maximises the smallest entry.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.theory.pairwise_margins(sx.M3SVMClassifier().fit(X, y)).shape
    (3, 3)
    """
    W = _weights(model)
    c = W.shape[1]
    first, second = np.triu_indices(c, 1)
    with np.errstate(divide="ignore"):
        values = 2.0 / np.linalg.norm(W @ pair_differences(c), axis=0)
    table = np.full((c, c), np.nan)
    table[first, second] = table[second, first] = values
    return table


@dataclass(frozen=True)
class GuaranteedRisk:
    r"""The bound of [NieHaoWang], Theorem 6, for one machine.

    Attributes
    ----------
    sample_norm : float
        :math:`\|T(f)\|_{\ell_\infty,\ell_p}` on the data given, at most ``total``.
    radius : float
        Λ, the radius of a ball about the origin that holds the data.
    pairs : float
        :math:`(\sum_{k<l}\|w_k-w_l\|^p)^{1/p}`, what the regulariser minimises; for p = ∞ the
        largest norm.
    p : float
    """

    sample_norm: float
    radius: float
    pairs: float
    p: float

    @property
    def total(self) -> float:
        """The bound, Λ times ``pairs``."""
        return self.radius * self.pairs


def guaranteed_risk(model: Any, X: Any, *, p: float, radius: float | None = None) -> GuaranteedRisk:
    r"""Evaluate the bound of [NieHaoWang], Theorem 6, on the norm that enters the guaranteed risk.

    Parameters
    ----------
    model : Solution, MulticlassModel, LinearModel or fitted estimator of this package
    X : array-like or sparse matrix of shape (n, d)
    p : float
        At least 1; ``math.inf`` is allowed.
    radius : float, optional
        Λ; by default the largest norm in the sample, which is an estimate of it.

    Returns
    -------
    GuaranteedRisk

    Raises
    ------
    DataError
        If the model has not one vector of weights a class, or the data leave the ball.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> found = sx.theory.guaranteed_risk(sx.M3SVMClassifier(p=2.0).fit(X, y), X, p=2.0)
    >>> found.sample_norm <= found.total
    True
    """
    W = _weights(model)
    X = check_features(X, n_features=W.shape[0])
    order = (
        math.inf
        if isinstance(p, (float, np.floating)) and p == math.inf
        else check_number(p, "p", low=1)
    )
    largest = float(row_norms(X).max())
    chosen = largest if radius is None else check_number(radius, "radius", low=0)
    if chosen < largest:
        raise DataError(
            f"radius={chosen:g} does not hold the data, whose largest norm is {largest:g}; pass at"
            " least that"
        )
    differences = W @ pair_differences(W.shape[1])
    return GuaranteedRisk(
        sample_norm=float(_norm(np.asarray(X @ differences), order).max()),
        radius=chosen,
        pairs=float(_norm(np.linalg.norm(differences, axis=0)[None, :], order)[0]),
        p=order,
    )


def _norm(rows: Floats, p: float) -> Floats:
    """Return the p-norm of each row, scaled by its largest entry: large p would overflow."""
    largest = np.abs(rows).max(axis=1)
    scaled = np.abs(rows) / np.where(largest > 0, largest, 1.0)[:, None]
    return np.asarray(largest * np.linalg.norm(scaled, ord=p, axis=1))
