r"""Margins of models, and the bounds of the papers term by term, with what replaces printed
statements that do not hold.

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
from svmcvx.data import (
    as_array,
    binary_data,
    check_choice,
    check_features,
    check_number,
    check_weights,
)
from svmcvx.errors import DataError, DataTypeError
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.margin_distribution import ODM, ODML
from svmcvx.kernels import row_norms
from svmcvx.losses import hinge_power
from svmcvx.model import BinaryModel, KernelModel, LinearModel, Model, MulticlassModel
from svmcvx.solution import Solution

__all__ = ["GeneralisationBound", "LeaveOneOutBound", "MarginDistribution", "generalisation_bound"]
__all__ += ["leave_one_out_bound", "margin_distribution", "margin_loss", "margins"]
__all__ += ["pairwise_margins"]


def classifier_of(model: Any) -> Any:
    """Return what scores observations: the model of a solution, anything else as it is."""
    found = model.model if isinstance(model, Solution) else model
    if not hasattr(found, "decision_function"):
        raise DataTypeError(
            "model must be a Solution, a Model or a fitted classifier with decision_function, got"
            f" {type(model).__name__}"
        )
    return found


def model_behind(model: Any) -> Any:
    """Return the model of a solution or of a fitted estimator of this package."""
    solution = getattr(model, "solution_", model)
    return solution.model if isinstance(solution, Solution) else solution


def label_codes(model: Any, y: Any, n: int) -> NDArray[np.intp]:
    """Return the index of each label among the classes of a model."""
    given = model.classes if isinstance(model, Model) else getattr(model, "classes_", ())
    classes, labels = np.asarray(given), as_array(y, "y")
    if labels.shape != (n,):
        raise DataError(
            f"y must hold one label per observation: expected shape ({n},), got {labels.shape}"
        )
    if classes.size < 2:
        raise DataError(
            f"{type(model).__name__} has no classes; pass a fitted classifier with classes_"
        )
    place = {label: k for k, label in enumerate(classes.tolist())}
    codes = [place.get(label, -1) for label in labels.tolist()]
    if -1 in codes:
        raise DataError(
            f"y holds {labels.tolist()[codes.index(-1)]!r}, which the model was not trained on; its"
            f" classes are {classes.tolist()}"
        )
    return np.asarray(codes, dtype=np.intp)


def margins(model: Any, X: Any, y: Any) -> Floats:
    r"""Return the margin of every observation; it is misclassified where this is negative.

    For two classes :math:`u_i = y_i f(x_i)` with the labels as ±1; for more, the score of the own
    class less the largest of the others.

    Parameters
    ----------
    model : Solution, Model or fitted classifier
        With ``decision_function`` and its classes.
    X : array-like or sparse matrix of shape (n, d)
        As ``decision_function`` takes it.
    y : array-like of shape (n,)
        Labels among the classes of the model.

    Returns
    -------
    ndarray of shape (n,)
        One margin an observation.

    Raises
    ------
    DataError
        If `model` has no scores, or `y` holds a label that it was not trained on.

    Examples
    --------
    >>> import svmcvx as sx
    >>> machine = sx.PSVMClassifier().fit([[-1.0], [1.0]], ["a", "b"])
    >>> [round(float(u), 6) for u in sx.theory.margins(machine, [[-1.0], [0.5]], ["a", "b"])]
    [1.0, 0.5]
    """
    classifier = classifier_of(model)
    # The classifier checks X itself: not all columns have to be numbers.
    shape: tuple[int, ...] = getattr(X, "shape", ())
    codes = label_codes(classifier, y, shape[0] if len(shape) == 2 else check_features(X).shape[0])
    scores = np.asarray(classifier.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    rows, others = np.arange(codes.size), scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class MarginDistribution:
    r"""The distribution of margins :math:`u_i` with shares :math:`c_i` (1/n without weights).

    Attributes
    ----------
    margins : ndarray of shape (n,)
        Sorted.
    share : ndarray of shape (n,)
        Shares :math:`c_i`, in the same order, of sum 1.
    """

    margins: Floats
    share: Floats

    def __repr__(self) -> str:
        return (
            f"MarginDistribution({self.margins.size} margins: mean {self.mean:.6g}, variance"
            f" {self.variance:.6g}, minimum {self.minimum:.6g})"
        )

    @property
    def mean(self) -> float:
        r"""Margin mean :math:`\bar u = \sum_i c_i u_i`, as in ODML."""
        return float(self.share @ self.margins)

    @property
    def variance(self) -> float:
        r"""Margin variance :math:`\sum_i c_i (u_i - \bar u)^2`, as in ODML."""
        return float(self.share @ (self.margins - self.mean) ** 2)

    @property
    def minimum(self) -> float:
        """The smallest margin."""
        return float(self.margins[0])

    def cumulative(self, thresholds: ArrayLike) -> Floats:
        """Return the share of observations with a margin at or below each threshold."""
        sums = np.concatenate([[0.0], np.cumsum(self.share)])
        places = np.searchsorted(self.margins, np.asarray(thresholds, dtype=float), side="right")
        return np.asarray(np.minimum(sums[places], 1.0))


def margin_distribution(
    model: Any, X: Any, y: Any, *, sample_weight: Any = None
) -> MarginDistribution:
    """Return the distribution of the margins of a model.

    Parameters
    ----------
    model, X, y : of the same types
        As for :func:`margins`.
    sample_weight : array-like of shape (n,), optional
        Weight k counts as k copies.

    Returns
    -------
    MarginDistribution
        With ``mean``, ``variance``, ``minimum`` and ``cumulative``.

    Raises
    ------
    DataError
        As :func:`margins`, or if no weight is positive.

    Examples
    --------
    >>> import svmcvx as sx
    >>> machine = sx.PSVMClassifier().fit([[-1.0], [1.0]], ["a", "b"])
    >>> found = sx.theory.margin_distribution(machine, [[-1.0], [0.5]], ["a", "b"])
    >>> round(found.mean, 6), round(found.minimum, 6)
    (0.75, 0.5)
    """
    u = margins(model, X, y)
    weight = check_weights(sample_weight, u.size)
    if not weight.any():
        raise DataError("sample_weight is zero for every observation; give one a positive weight")
    order = np.argsort(u, kind="stable")
    return MarginDistribution(u[order], weight[order] / weight.sum())


def pairwise_margins(model: Any) -> Floats:
    r"""Return the matrix of margins :math:`2/\|w_k-w_l\|` between classes.

    As p → ∞, M3SVM maximises the smallest entry ([NieHaoWang], problem (4)).

    Parameters
    ----------
    model : Solution, MulticlassModel, LinearModel or fitted estimator of this package
        With one vector of weights per class.

    Returns
    -------
    ndarray of shape (c, c)
        Symmetric, in the order of the classes; NaN on the diagonal, infinity between classes of
        equal weights.

    Raises
    ------
    DataError
        If the model has not one vector of weights per class.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.theory.pairwise_margins(sx.M3SVMClassifier().fit(X, y)).shape
    (3, 3)
    """
    found = model_behind(model)
    if isinstance(found, MulticlassModel):
        W = found.coef
    elif isinstance(found, LinearModel):
        # Two classes with one score.
        W = np.outer(found.coef, [-0.5, 0.5])
    else:
        raise DataTypeError(
            "model must be, or hold, a MulticlassModel or a LinearModel (one vector of weights per"
            f" class), got {type(found).__name__}"
        )
    with np.errstate(divide="ignore"):
        table = np.asarray(2.0 / np.linalg.norm(W[:, :, None] - W[:, None, :], axis=0))
    np.fill_diagonal(table, np.nan)
    return table


def margin_loss(u: ArrayLike, *, p: float, rho: float = 1.0) -> Floats:
    r"""Return the margin loss :math:`\Phi_{p,\rho}(u) = \min(1, (1-u/\rho)_+^p)`.

    It is 1 for an error, p/ρ-Lipschitz, and at most the p-norm hinge loss of u/ρ. Source: [Sun],
    Definition 1, eq. (5), and Lemma 1.

    Parameters
    ----------
    u : array-like
        Margins.
    p : float
        At least 1.
    rho : float
        Positive.

    Returns
    -------
    ndarray
        One loss a margin.

    Examples
    --------
    >>> from svmcvx.theory import margin_loss
    >>> margin_loss([-1.0, 0.5, 2.0], p=2).tolist()
    [1.0, 0.25, 0.0]
    """
    p = check_number(p, "p")
    rho = check_number(rho, "rho")
    try:
        scaled = np.asarray(u, dtype=np.float64) / rho
    except (TypeError, ValueError):
        raise DataTypeError(f"u must be numbers, the margins, got {u!r}") from None
    # Beyond an error the power is not needed, and could overflow.
    return np.asarray(hinge_power(np.maximum(scaled, 0.0), p))


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
    r"""Evaluate the bound of [Sun], Theorem 3, eq. (13), and Corollary 1, eq. (14), for a pSVM.

    Parameters
    ----------
    model : Solution, LinearModel, KernelModel or fitted estimator of this package
        Of two classes.
    X : array-like or sparse matrix of shape (m, d)
        The training data; for a precomputed kernel the Gram matrix.
    y : array-like of shape (m,)
        Their labels.
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
        Its ``total`` and the terms of which it is the sum.

    Raises
    ------
    DataError
        If an argument cannot be used, the data leave the ball of radius `r`, or `rho` is too large.

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
    delta = check_number(delta, "delta", "(0, 1)")
    check_choice(loss, "loss", ("hinge", "margin"))
    check_choice(bias, "bias", ("counted", "paper"))
    data = binary_data(X, y)
    u = (2.0 * label_codes(found, y, data.n) - 1.0) * found.scores(data.X).value
    if isinstance(found, KernelModel):
        squares = found.kernel.diagonal(data.X)
        if (squares < 0).any():
            raise DataError(
                f"{found.kernel} has k(x, x) < 0 on these data: there is no feature space; use"
                " another kernel"
            )
        largest = math.sqrt(float(squares.max()))
    else:
        largest = float(row_norms(data.X).max())
    r = largest if r is None else check_number(r, "r")
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
    rho = widest if rho is None else check_number(rho, "rho")
    if rho > widest * (1.0 + 1e-12):
        raise DataError(f"rho={rho:g} is larger than min(1/‖w‖, r) = {widest:g}; pass at most that")
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

    The module :mod:`svmcvx.theory` defines the left-out problem and lists the errors of the
    printed theorems. Source: [ZhangZhou], Theorems 2 and 3.

    Parameters
    ----------
    solution : Solution or fitted estimator
        Of ``odm`` or ``odml``, of two classes, by any solver. Any dual point gives a valid bound, a
        better one a smaller bound.
    X : array-like or sparse matrix of shape (n, d)
        The training data.
    y : array-like of shape (n,)
        Their labels.
    sample_weight : array-like of shape (n,), optional
        The weights that it was trained with. Every observation counts once in the error.

    Returns
    -------
    LeaveOneOutBound
        Its ``total`` is a share of the observations.

    Raises
    ------
    DataError
        If the solution is of another formulation, or does not belong to these data.

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
    space = bound_space(X, y, kernel, given["intercept"], sample_weight, "clip")
    if solution.formulation == "odm":
        odm = ODM(space, given["C1"], given["C2"], given["D"])
        slack, smallest, terms = _odm(odm, odm.entry(solution.dual, "theta"))
    else:
        odml = ODML(space=space, lam1=given["lam1"], lam2=given["lam2"], C=given["C"])
        slack, smallest, terms = _odml(odml, odml.entry(solution.dual, "alpha"))
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


def _odm(statement: ODM, theta: Floats) -> tuple[float, Floats, dict[str, float]]:
    """Return the duality gap, the smallest margins, and the terms of Theorem 3."""
    squares, n = statement.space.diagonal(), theta.size
    slack = _gap(statement, theta * statement.y, {"theta": theta})
    u = signed(statement.y, statement.space.point(theta * statement.y).scores).lower
    short, long = theta > 0, theta < 0
    ceilings = 2.0 * np.where(short, statement.C1, statement.C2) * statement.share
    weighed = np.abs(theta) * (squares + 1.0 / ceilings)
    smallest = u - 0.5 * theta * squares - np.sqrt(squares * (0.25 * theta**2 * squares + slack))
    terms = {"below": float(weighed[short].sum()) / n, "above": float(weighed[long].sum()) / n}
    return slack, smallest, {**terms, "band": statement.D * float(short.sum() - long.sum()) / n}


def _odml(statement: ODML, multipliers: Floats) -> tuple[float, Floats, dict[str, float]]:
    """Return the duality gap, the smallest margins, and the terms of Theorem 2."""
    dual = statement.repair({"alpha": multipliers})
    alpha, c, n = dual["alpha"], statement.share, multipliers.size
    slack = _gap(statement, statement.expansion(alpha, dual["tau"]), dual)
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
        radius = np.sqrt(product(z, z) * (0.25 * product(g, g) + slack))
        smallest = u + 0.5 * product(z, g) - radius
    at_ceiling = alpha >= statement.C * c * (1.0 - 1e-9)
    free = float((alpha * dot(z, z))[~at_ceiling].sum()) / n
    # Where less of R remains in the direction of an observation, digits are lost.
    smallest = np.where(remaining > 1e-8, smallest, -np.inf)
    return slack, smallest, {"free": free, "ceiling": float(at_ceiling.sum()) / n}
