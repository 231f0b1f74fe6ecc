r"""The margin loss and the generalisation bound of the pSVM.

With probability at least 1 − δ over samples of size m, for all w, b with :math:`\|w\| \le 1/\rho`
and all ρ in (0, r] at once, r being the radius of a ball about the origin that holds all data,

.. math:: R \le \underbrace{\tfrac1m\sum_i(1-u_i)_+^p}_{\text{empirical}}
   + \underbrace{4p\sqrt{\tfrac{r^2/\rho^2}{m}}}_{\text{complexity}}
   + \underbrace{\sqrt{\tfrac{\log\log_2(2r/\rho)}{m}}}_{\text{all ρ at once}}
   + \underbrace{\sqrt{\tfrac{\log(2/\delta)}{2m}}}_{\text{confidence}}, \qquad u_i = y_i(\langle w, x_i\rangle + b).

R is the expected margin loss :math:`\Phi_{p,1}(u)`, and so at least the probability of an error.

**Erratum.** The proof in [Sun] keeps b fixed while it bounds the complexity, so that the printed
bound is proved for machines without bias only: with a free b the complexity is infinite (see
:mod:`svmcvx.theory.complexity`). Here b counts by default as the coefficient of a constant feature
r: r becomes :math:`\sqrt2\,r` and :math:`\|w\|^2` becomes :math:`\|w\|^2 + b^2/r^2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.data import binary_data, check_choice, check_features, check_number
from svmcvx.errors import DataError, DataTypeError
from svmcvx.losses import hinge_power
from svmcvx.model import KernelModel, LinearModel
from svmcvx.solution import Solution
from svmcvx.theory.complexity import row_lengths
from svmcvx.theory.distribution import binary_model, label_codes

__all__ = ["GeneralisationBound", "generalisation_bound", "margin_loss"]

Floats: TypeAlias = NDArray[np.float64]

LOSSES = ("hinge", "margin")
BIASES = ("counted", "paper")
# Relative rounding up to which a radius or margin passed is taken for the number it was copied
# from.
COPIED = 1e-12


def margin_loss(u: ArrayLike, *, p: float, rho: float = 1.0) -> Floats:
    r"""Return the margin loss :math:`\Phi_{p,\rho}(u) = \min(1, (1-u/\rho)_+^p)`.

    It is 1 for an error, p/ρ-Lipschitz, and at most the p-norm hinge loss of u/ρ.

    Parameters
    ----------
    u : array-like
        Margins.
    p : float
        At least 1.
    rho : float
        Positive.

    Notes
    -----
    Source: [Sun], Definition 1, eq. (5), and Lemma 1.

    Examples
    --------
    >>> from svmcvx.theory import margin_loss
    >>> margin_loss([-1.0, 0.5, 2.0], p=2).tolist()
    [1.0, 0.25, 0.0]
    """
    p = check_number(p, "p", low=1)
    rho = check_number(rho, "rho", low=0, open_low=True)
    try:
        margins = np.asarray(u, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataTypeError(f"u must be numbers, the margins, got {u!r}") from None
    # Beyond an error the power is not needed, and could overflow.
    return np.asarray(hinge_power(np.maximum(margins / rho, 0.0), p))


@dataclass(frozen=True)
class GeneralisationBound:
    r"""The generalisation bound of the pSVM, term by term.

    Attributes
    ----------
    empirical : float
        Mean loss on the sample.
    complexity : float
        :math:`4p\sqrt{(r^2/\rho^2)/m}`.
    uniform : float
        :math:`\sqrt{\log\log_2(2r/\rho)/m}`, the price of choosing ρ by the data.
    confidence : float
        :math:`\sqrt{\log(2/\delta)/(2m)}`.
    r, rho : float
        The radius and the margin that went in, with the bias if it is counted.
    p, delta : float
    m : int
        Number of observations.
    """

    empirical: float
    complexity: float
    uniform: float
    confidence: float
    r: float
    rho: float
    p: float
    delta: float
    m: int

    @property
    def total(self) -> float:
        """Sum of the four terms; says nothing where it is 1 or more."""
        return self.empirical + self.complexity + self.uniform + self.confidence


def generalisation_bound(
    model: Any,
    X: Any,
    y: Any,
    *,
    p: float | None = None,
    delta: float = 0.05,
    r: float | None = None,
    rho: float | None = None,
    loss: str = "hinge",
    bias: str = "counted",
) -> GeneralisationBound:
    r"""Evaluate the generalisation bound of the pSVM for a model of two classes on its training
    data.

    Parameters
    ----------
    model : Solution, LinearModel, KernelModel or fitted estimator of this package
    X : array-like or sparse matrix of shape (m, d)
        The training data; for a precomputed kernel the Gram matrix.
    y : array-like of shape (m,)
    p : float, optional
        Exponent of the hinge, at least 1; that of the pSVM solution by default.
    delta : float
        Probability with which the bound may fail, in (0, 1).
    r : float, optional
        Radius of a ball about the origin that holds all possible data. By default the largest norm
        in the sample, a plug-in value: the theorem wants it fixed before the data are seen.
    rho : float, optional
        Margin, at most :math:`\min(1/\|w\|, r)`, which is the default. The theorem allows to choose
        it by the data.
    loss : "hinge" or "margin"
        The averaged quantity: :math:`(1-u)_+^p` (Corollary 1), or the smaller :math:`\Phi_{p,1}(u)`
        (Theorem 3).
    bias : "counted" or "paper"
        Count b as the coefficient of a constant feature r, or leave it out as printed, which is
        proved for b = 0 only.

    Returns
    -------
    GeneralisationBound

    Raises
    ------
    DataError
        If an argument cannot be used, the data leave the ball of radius `r`, or `rho` is too large.

    Notes
    -----
    Source: [Sun], Theorem 3, eq. (13), and Corollary 1, eq. (14).

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> bound = sx.theory.generalisation_bound(sx.fast.psvm(X, y, C=1.0, p=2.0), X, y, p=2.0)
    >>> bound.total > bound.empirical
    True
    """
    found = binary_model(model)
    p = check_number(_exponent(model) if p is None else p, "p", low=1)
    delta = check_number(delta, "delta", low=0, high=1, open_low=True, open_high=True)
    check_choice(loss, "loss", LOSSES)
    check_choice(bias, "bias", BIASES)
    width = found.coef.size if isinstance(found, LinearModel) else None
    width = found.n_features if isinstance(found, KernelModel) else width
    data = binary_data(check_features(X, n_features=width), y)
    signs = 2.0 * label_codes(found, y, data.n) - 1.0
    largest = float(
        row_lengths(data.X, found.kernel if isinstance(found, KernelModel) else None).max()
    )
    r = largest if r is None else check_number(r, "r", low=0, open_low=True)
    if r < largest * (1.0 - COPIED):
        raise DataError(
            f"r={r:g} does not hold the data, whose largest norm is {largest:g}; pass at least that"
        )
    if r == 0:
        raise DataError("X is zero in every observation, so that its ball has no radius; pass r")
    squared_norm = float(found.squared_norm(data).value)
    if bias == "counted" and found.intercept != 0:
        squared_norm += (found.intercept / r) ** 2
        r *= math.sqrt(2.0)
    widest = min(r, 1.0 / math.sqrt(squared_norm)) if squared_norm > 0 else r
    rho = widest if rho is None else check_number(rho, "rho", low=0, open_low=True)
    if rho > widest * (1.0 + COPIED):
        raise DataError(f"rho={rho:g} is larger than min(1/‖w‖, r) = {widest:g}; pass at most that")
    u = signs * found.scores(data.X).value
    with np.errstate(over="ignore"):
        values = hinge_power(u, p) if loss == "hinge" else margin_loss(u, p=p)
    m = data.n
    return GeneralisationBound(
        empirical=float(values.mean()),
        complexity=4.0 * p * (r / rho) / math.sqrt(m),
        uniform=math.sqrt(math.log(max(math.log2(2.0 * r / rho), 1.0)) / m),
        confidence=math.sqrt(math.log(2.0 / delta) / (2.0 * m)),
        r=r,
        rho=rho,
        p=p,
        delta=delta,
        m=m,
    )


def _exponent(model: Any) -> float:
    solution = getattr(model, "solution_", model)
    p = solution.hyperparameters.get("p") if isinstance(solution, Solution) else None
    if p is None:
        raise DataError("p is not known from the model; pass p, or the Solution of a pSVM")
    return float(p)
