r"""The bounds of the papers, term by term, and what replaces printed statements that do not hold.

**Generalisation** [Sun, Theorem 3]. With probability at least 1 − δ, for all w with :math:`\|w\|
\le 1/\rho` and all ρ in (0, r] at once, the expected margin loss, and so the probability of an
error, is at most

.. math:: \tfrac1m\sum_i(1-u_i)_+^p + 4p\sqrt{\tfrac{r^2/\rho^2}{m}}
   + \sqrt{\tfrac{\log\log_2(2r/\rho)}{m}} + \sqrt{\tfrac{\log(2/\delta)}{2m}}.

*Erratum*: the proof bounds the Rademacher complexity with b fixed while the signs vary; with b in
the class it is infinite. Here b counts by default as the coefficient of a constant feature r: r
becomes :math:`\sqrt2\,r` and :math:`\|w\|^2` becomes :math:`\|w\|^2 + b^2/r^2`.

**Leaving out** an observation i [ZhangZhou, Lemma 2, Theorems 2 and 3] removes all its terms, its
loss and its part of the margin mean and variance; the shares of the others stay 1/m. Let P be the
primal objective and :math:`P_i` the one without i, whose quadratic part has the matrix :math:`R_i`,
and :math:`w^i` its minimiser. A dual point defines a w at which P has an ε-subgradient 0, where ε
is the duality gap; so :math:`P_i` has there the ε-subgradient −g, with g the part of i. By strong
convexity :math:`v = w^i - w` obeys :math:`\|v\|^2 \le \langle g, v\rangle + \varepsilon` in the
norm of :math:`R_i`. That is a ball, and the smallest margin of i in it is

.. math:: u_i + \tfrac12\langle z_i, g\rangle_*
    - \|z_i\|_*\sqrt{\tfrac14\|g\|_*^2 + \varepsilon}, \qquad
   \langle a, b\rangle_* = a'R_i^{-1}b,\quad z_i = y_i\varphi(x_i).

Where this is positive, the machine trained without i classifies i correctly; the others are
*suspects*. ODM: :math:`R_i = I`, :math:`g = -\theta_iz_i`. ODML, with shares c, :math:`d = z_i -
\bar z_{-i}` and :math:`\kappa = 2\lambda_1c_i(1-c_i)`: :math:`R_i = R - \kappa dd'` and :math:`g =
\kappa(d'w)\,d - (\alpha_i + \lambda_2c_i)z_i`. *Errata*: Theorem 3 adds
:math:`\beta_i(k(x_i,x_i)+m/2C_2) - D` for each observation above the band, which is negative for
small β: the printed sum can lie below the error. Theorem 2 leaves out the hinge loss of i alone,
while its margin stays in the mean and the variance, and bounds the error of that procedure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import signed
from svmcvx.data import binary_data, check_choice, check_features, check_number
from svmcvx.errors import DataError, DataTypeError
from svmcvx.formulations.base import penalised_space
from svmcvx.formulations.margin_distribution import ODM, ODML
from svmcvx.kernels import row_norms
from svmcvx.losses import hinge_power
from svmcvx.model import BinaryModel, KernelModel, LinearModel
from svmcvx.solution import Solution
from svmcvx.theory.margins import label_codes, model_behind


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
    p = check_number(p, "p")
    rho = check_number(rho, "rho", low=0, open_low=True)
    try:
        margins = np.asarray(u, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataTypeError(f"u must be numbers, the margins, got {u!r}") from None
    # Beyond an error the power is not needed, and could overflow.
    return np.asarray(hinge_power(np.maximum(margins / rho, 0.0), p))


def _lengths(X: Any, kernel: Any) -> Floats:
    """Return the norms of the observations in feature space."""
    if kernel is None:
        return np.asarray(row_norms(X))
    diagonal = kernel.diagonal(X)
    if (diagonal < 0).any():
        raise DataError(
            f"{kernel} has k(x, x) < 0 on these data: there is no feature space; use another kernel"
        )
    return np.asarray(np.sqrt(diagonal))


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
    """

    empirical: float
    complexity: float
    uniform: float
    confidence: float
    r: float
    rho: float

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
    found = model_behind(model)
    if not isinstance(found, BinaryModel):
        raise DataTypeError(
            "model must be, or hold, a LinearModel or KernelModel of two classes, got"
            f" {type(found).__name__}"
        )
    if p is None:
        solution = getattr(model, "solution_", model)
        p = solution.hyperparameters.get("p") if isinstance(solution, Solution) else None
        if p is None:
            raise DataError("p is not known from the model; pass p, or the Solution of a pSVM")
    p = check_number(p, "p")
    delta = check_number(delta, "delta", low=0, high=1, open_low=True, open_high=True)
    check_choice(loss, "loss", ("hinge", "margin"))
    check_choice(bias, "bias", ("counted", "paper"))
    width = found.coef.size if isinstance(found, LinearModel) else None
    kernel = None
    if isinstance(found, KernelModel):
        width, kernel = found.n_features, found.kernel
    data = binary_data(check_features(X, n_features=width), y)
    signs = 2.0 * label_codes(found, y, data.n) - 1.0
    largest = float(_lengths(data.X, kernel).max())
    r = largest if r is None else check_number(r, "r", low=0, open_low=True)
    # The radius or margin may be a printed number of the sample's own.
    if r < largest * (1.0 - 1e-12):
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
    if rho > widest * (1.0 + 1e-12):
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
    )


@dataclass(frozen=True, eq=False)
class LeaveOneOutBound:
    r"""Upper bound of the leave-one-out error of ODM or ODML.

    Attributes
    ----------
    suspects : ndarray of int
        Observations that the inequality does not clear; the others are classified correctly when
        they are left out.
    n : int
        Number of observations.
    slack : float
        The duality gap ε of the dual point.
    terms : dict of float
        Those of the printed theorem. Theorem 3 of [ZhangZhou], ODM: ``below``, :math:`\tfrac1m
        \sum_{\zeta_i>0}\zeta_i(k(x_i,x_i)+m/2C_1)`, ``above``, the same with β and C2, ``band``,
        :math:`\tfrac Dm(\#\{\zeta>0\}-\#\{\beta>0\})`. Theorem 2, ODML: ``free``, :math:`\tfrac1m
        \sum_{0<\alpha_i<C/m}\alpha_ih_{ii}`, ``ceiling``, :math:`\tfrac1m\#\{\alpha_i=C/m\}`.
    """

    suspects: NDArray[np.intp]
    n: int
    slack: float
    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """Share of the suspects, at least the leave-one-out error."""
        return float(self.suspects.size / self.n)

    @property
    def printed(self) -> float:
        """The sum that the theorem prints, which need not bound the error; see the module."""
        return sum(self.terms.values())


def leave_one_out_bound(
    solution: Any, X: Any, y: Any, *, sample_weight: Any = None
) -> LeaveOneOutBound:
    """Bound the leave-one-out error of ODM or ODML from one solution, without training again.

    Parameters
    ----------
    solution : Solution or fitted estimator
        Of ``odm`` or ``odml``, of two classes, by any solver. Any dual point gives a valid bound, a
        better one a smaller bound.
    X : array-like or sparse matrix of shape (n, d)
        The training data.
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
        The weights that it was trained with. Every observation counts once in the error.

    Returns
    -------
    LeaveOneOutBound

    Raises
    ------
    DataError
        If the solution is of another formulation, or does not belong to these data.

    Notes
    -----
    The module :mod:`svmcvx.theory.bounds` defines the left-out problem and lists the errors of the
    printed theorems. Source: [ZhangZhou], Theorems 2 and 3.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.fast.odm(X, y, C1=10.0, C2=10.0, D=0.2)
    >>> bound = sx.theory.leave_one_out_bound(solution, X, y)
    >>> 0 <= bound.total <= 1, len(bound.suspects) == round(30 * bound.total)
    (True, True)
    """
    solution = getattr(solution, "solution_", solution)
    if not isinstance(solution, Solution) or solution.formulation not in ("odm", "odml"):
        kind = solution.formulation if isinstance(solution, Solution) else type(solution).__name__
        raise DataError(f"solution must be a Solution of odm or odml, got {kind}")
    given, kernel = solution.hyperparameters, getattr(solution.model, "kernel", None)
    if solution.formulation == "odm":
        hyper = (given["C1"], given["C2"], given["D"])
        space = penalised_space(X, y, kernel, given["intercept"], sample_weight, "clip")
        statement = ODM(space, *hyper)
        theta = statement.entry(solution.dual, "theta")
        slack = _gap(statement, theta * statement.y, {"theta": theta})
        smallest, terms = _odm(statement, theta, slack)
        data = statement.space.data
    else:
        space = penalised_space(X, y, kernel, given["intercept"], sample_weight, "clip")
        machine = ODML(space=space, lam1=given["lam1"], lam2=given["lam2"], C=given["C"])
        dual = machine.repair({"alpha": machine.entry(solution.dual, "alpha")})
        slack = _gap(machine, machine.expansion(dual["alpha"], dual["tau"]), dual)
        smallest, terms = _odml(machine, dual["alpha"], slack)
        data = space.data
    # Without the only one of its class there is nothing to train.
    alone = np.zeros(data.y.size, dtype=bool)
    for side in (data.y > 0, data.y < 0):
        alone |= side & (side.sum() == 1)
    return LeaveOneOutBound(data.index[~(smallest > 0) | alone], data.y.size, slack, terms)


def _gap(statement: ODM | ODML, v: Floats, dual: Any) -> float:
    """Return the duality gap of a dual point and of the model that it expands to."""
    upper = statement.evaluate(statement.space.model(v)).upper_end
    return max(upper - statement.evaluate_dual(dual).lower_end, 0.0)


def _smallest(u: Floats, zz: Floats, zg: Floats, gg: Floats, slack: float) -> Floats:
    """Return the smallest margins in the balls."""
    return u + 0.5 * zg - np.sqrt(zz * (0.25 * gg + slack))


def _odm(statement: ODM, theta: Floats, slack: float) -> tuple[Floats, dict[str, float]]:
    squares, n = statement.space.diagonal(), theta.size
    u = signed(statement.y, statement.space.point(theta * statement.y).scores).lower
    short, long = theta > 0, theta < 0
    ceilings = 2.0 * np.where(short, statement.C1, statement.C2) * statement.share
    weighed = np.abs(theta) * (squares + 1.0 / ceilings)
    return _smallest(u, squares, -theta * squares, theta**2 * squares, slack), {
        "below": float(weighed[short].sum()) / n,
        "above": float(weighed[long].sum()) / n,
        "band": statement.D * float(short.sum() - long.sum()) / n,
    }


def _odml(statement: ODML, alpha: Floats, slack: float) -> tuple[Floats, dict[str, float]]:
    c, n = statement.share, alpha.size
    # In the coordinates of the whitened rows R is the identity, and R_i differs from it by κdd'.
    z, u = statement.curvature.whitened(), statement.margins(alpha)
    d = (z - c @ z) / (1.0 - c)[:, None]
    kappa = 2.0 * statement.lam1 * c * (1.0 - c)

    def dot(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", a, b))

    remaining = 1.0 - kappa * dot(d, d)

    def product(a: Floats, b: Floats) -> Floats:
        return dot(a, b) + kappa * dot(a, d) * dot(b, d) / remaining

    g = (kappa * (u - c @ u) / (1.0 - c))[:, None] * d - (alpha + statement.lam2 * c)[:, None] * z
    with np.errstate(divide="ignore", invalid="ignore"):
        smallest = _smallest(u, product(z, z), product(z, g), product(g, g), slack)
    at_ceiling = alpha >= statement.C * c * (1.0 - 1e-9)
    # Where less of R remains in the direction of an observation, digits are lost.
    return np.where(remaining > 1e-8, smallest, -np.inf), {
        "free": float((alpha * dot(z, z))[~at_ceiling].sum()) / n,
        "ceiling": float(at_ceiling.sum()) / n,
    }
