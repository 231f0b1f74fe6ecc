r"""Leave-one-out errors of ODM and ODML: bounds from one dual solution, and the exact count.

**Leaving out** observation i removes all its terms, its loss and its part of the margin mean and
variance. The shares of the others stay as they are, 1/m and not 1/(m − 1): to the machine of all m
observations belongs that of m − 1 with :math:`C_1(m-1)/m`, :math:`C_2(m-1)/m` (ODM) or
:math:`\lambda_1(m-1)/m`, :math:`\lambda_2(m-1)/m`, :math:`C(m-1)/m` (ODML).

**The inequality.** Let P be the primal objective, :math:`P_i` the one without i, whose quadratic
part has the matrix :math:`R_i`, and :math:`w^i` its minimiser. A dual point defines a w at which P
has an ε-subgradient 0, where ε is the duality gap; so :math:`P_i` has there the ε-subgradient −g,
with g the part of i. By strong convexity :math:`v = w^i - w` obeys :math:`\|v\|^2 \le \langle g,
v\rangle + \varepsilon` in the norm of :math:`R_i`. That is a ball, and the smallest margin of i in
it is

.. math:: u_i + \tfrac12\langle z_i, g\rangle_* - \|z_i\|_*\sqrt{\tfrac14\|g\|_*^2 + \varepsilon}, \qquad
   \langle a, b\rangle_* = a'R_i^{-1}b,\quad z_i = y_i\varphi(x_i).

Where this is positive, i is classified rightly by the machine trained without it; the others are
*suspects*. It holds for any dual point; at the optimum ε = 0.

**ODM**: :math:`R_i = I`, :math:`g = -\theta_iz_i`. At the optimum the suspects are those with
:math:`\zeta_i(k(x_i,x_i) + m/2C_1) \ge 1-D`, which is the inequality of Theorem 3, without its
terms in β.

**Erratum.** Theorem 3 adds :math:`\beta_i(k(x_i,x_i)+m/2C_2) - D` for every observation above the
band and so needs this to be at least 0, which it is not for small β: the printed sum can lie below
the error, and below 0. Its Lemma 2 does not apply above the band, nor is it needed: without its
loss the margin of such an observation only grows.

**ODML**, with shares c, :math:`d = z_i - \bar z_{-i}` the difference to the mean of the others, and
:math:`\kappa = 2\lambda_1c_i(1-c_i)`: :math:`R_i = R - \kappa dd'` and :math:`g = \kappa(d'w)\,d -
(\alpha_i + \lambda_2c_i)z_i`.

**Erratum.** Theorem 2 leaves out the hinge loss of i alone, while its margin stays in the mean and
the variance, and H stays what it was. It bounds the error of that procedure, not of leaving i out:
there the printed sum can lie below the error. The bound above is proved for leaving i out; it is
not that of [ZhangZhou].

**Source.** [ZhangZhou], Lemma 2, Theorems 2 and 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import signed
from svmcvx.data import BinaryData, check_features, check_labels
from svmcvx.errors import DataError, DataTypeError
from svmcvx.formulations.margin_distribution import ODM, ODML, bound_odm, margin_space
from svmcvx.kernels import KernelLike
from svmcvx.model import KernelModel, frozen
from svmcvx.solution import Solution
from svmcvx.theory.distribution import binary_model

__all__ = [
    "LeaveOneOut",
    "LeaveOneOutBound",
    "ODMLLeaveOneOutBound",
    "ODMLeaveOneOutBound",
    "leave_one_out",
    "leave_one_out_bound",
]

Floats: TypeAlias = NDArray[np.float64]

# A multiplier that is this close to its ceiling, relatively, is at it.
AT_CEILING = 1e-9
# Of the matrix R in the direction of an observation; when less of it remains without that
# observation, digits are lost.
LEAST_REMAINING = 1e-8


@dataclass(frozen=True, eq=False)
class LeaveOneOutBound:
    """Upper bound of a leave-one-out error.

    Attributes
    ----------
    suspects : ndarray of int
        Observations that the inequality does not clear; the others are classified rightly when they
        are left out.
    n : int
        Number of observations.
    slack : float
        The duality gap ε of the dual point.
    """

    suspects: NDArray[np.intp]
    n: int
    slack: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "suspects", frozen(self.suspects))

    @property
    def total(self) -> float:
        """Share of the suspects, at least the leave-one-out error."""
        return float(self.suspects.size / self.n)


@dataclass(frozen=True, eq=False)
class ODMLeaveOneOutBound(LeaveOneOutBound):
    r"""Bound of the leave-one-out error of ODM, with the terms of Theorem 3 of [ZhangZhou].

    Attributes
    ----------
    below : float
        :math:`\tfrac1m\sum_{\zeta_i>0}\zeta_i(k(x_i,x_i)+m/2C_1)`.
    above : float
        :math:`\tfrac1m\sum_{\beta_i>0}\beta_i(k(x_i,x_i)+m/2C_2)`.
    band : float
        :math:`\tfrac Dm(\#\{\zeta>0\}-\#\{\beta>0\})`.
    """

    below: float
    above: float
    band: float

    @property
    def printed(self) -> float:
        """The sum that Theorem 3 prints, which need not bound the error; see the module."""
        return self.below + self.above + self.band


@dataclass(frozen=True, eq=False)
class ODMLLeaveOneOutBound(LeaveOneOutBound):
    r"""Bound of the leave-one-out error of ODML, with the terms of Theorem 2 of [ZhangZhou].

    Attributes
    ----------
    free : float
        :math:`\tfrac1m\sum_{0<\alpha_i<C/m}\alpha_ih_{ii}`.
    ceiling : float
        :math:`\tfrac1m\#\{\alpha_i=C/m\}`.
    """

    free: float
    ceiling: float

    @property
    def printed(self) -> float:
        """The sum that Theorem 2 prints, which bounds another error; see the module."""
        return self.free + self.ceiling


def leave_one_out_bound(
    solution: Any, X: Any, y: Any, *, sample_weight: Any = None
) -> ODMLeaveOneOutBound | ODMLLeaveOneOutBound:
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
    ODMLeaveOneOutBound or ODMLLeaveOneOutBound

    Raises
    ------
    DataError
        If the solution is of another formulation, or does not belong to these data.

    Notes
    -----
    The module :mod:`svmcvx.theory.loo` defines the left-out problem and lists the errors of the
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
        raise DataError(
            f"solution must be a Solution of odm or odml, got {kind}; other machines have no such"
            " bound here"
        )
    bound = _odm if solution.formulation == "odm" else _odml
    return bound(solution, X, y, sample_weight)


def _kernel_of(solution: Solution) -> KernelLike:
    model = binary_model(solution)
    return model.kernel if isinstance(model, KernelModel) else None


def _gap(statement: ODM | ODML, v: Floats, dual: Dual) -> float:
    """Return the duality gap of a dual point and of the model that it expands to."""
    upper = statement.evaluate(statement.space.model(v)).upper_end
    return max(upper - statement.evaluate_dual(dual).lower_end, 0.0)


def _smallest_margins(u: Floats, zz: Floats, zg: Floats, gg: Floats, slack: float) -> Floats:
    """Return the smallest margins in the balls, from the products of z and g in the inverse of the
    matrices.
    """
    return u + 0.5 * zg - np.sqrt(zz * (0.25 * gg + slack))


def _suspects(data: BinaryData, cleared: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the rows that are not cleared; without the only one of its class there is nothing to
    train.
    """
    alone = ((data.y > 0) & (np.sum(data.y > 0) == 1)) | ((data.y < 0) & (np.sum(data.y < 0) == 1))
    return np.asarray(data.index[~cleared | alone])


def _odm(solution: Solution, X: Any, y: Any, sample_weight: Any) -> ODMLeaveOneOutBound:
    given = solution.hyperparameters
    hyper = (given["C1"], given["C2"], given["D"])
    statement = bound_odm(
        X, y, *hyper, _kernel_of(solution), given["intercept"], sample_weight, indefinite="clip"
    )
    space = statement.space
    theta = statement.entry(solution.dual, "theta")
    v = theta * statement.y
    slack = _gap(statement, v, {"theta": theta})
    squares = space.diagonal()
    u = signed(statement.y, space.point(v).scores).lower
    smallest = _smallest_margins(u, squares, -theta * squares, theta**2 * squares, slack)
    short, long = theta > 0, theta < 0
    weighed = np.abs(theta) * (
        squares + 1.0 / (2.0 * np.where(short, statement.C1, statement.C2) * statement.share)
    )
    n = theta.size
    return ODMLeaveOneOutBound(
        suspects=_suspects(space.data, smallest > 0),
        n=n,
        slack=slack,
        below=float(weighed[short].sum()) / n,
        above=float(weighed[long].sum()) / n,
        band=statement.D * float(short.sum() - long.sum()) / n,
    )


def _odml(solution: Solution, X: Any, y: Any, sample_weight: Any) -> ODMLLeaveOneOutBound:
    given = solution.hyperparameters
    space = margin_space(
        X,
        y,
        kernel=_kernel_of(solution),
        intercept=given["intercept"],
        sample_weight=sample_weight,
        indefinite="clip",
    )
    statement = ODML(space=space, lam1=given["lam1"], lam2=given["lam2"], C=given["C"])
    dual = statement.repair({"alpha": statement.entry(solution.dual, "alpha")})
    alpha, c = dual["alpha"], statement.share
    slack = _gap(statement, statement.expansion(alpha, dual["tau"]), dual)
    # In the coordinates of the whitened rows R is the identity, and R_i differs from it by κdd'.
    z = statement.curvature.whitened()
    u = statement.margins(alpha)
    d = (z - c @ z) / (1.0 - c)[:, None]
    kappa = 2.0 * statement.lam1 * c * (1.0 - c)
    remaining = 1.0 - kappa * _dot(d, d)

    def product(a: Floats, b: Floats) -> Floats:
        return _dot(a, b) + kappa * _dot(a, d) * _dot(b, d) / remaining

    g = (kappa * (u - c @ u) / (1.0 - c))[:, None] * d - (alpha + statement.lam2 * c)[:, None] * z
    with np.errstate(divide="ignore", invalid="ignore"):
        smallest = _smallest_margins(u, product(z, z), product(z, g), product(g, g), slack)
    cleared = (smallest > 0) & (remaining > LEAST_REMAINING)
    h = _dot(z, z)
    at_ceiling = alpha >= statement.C * c * (1.0 - AT_CEILING)
    n = alpha.size
    return ODMLLeaveOneOutBound(
        suspects=_suspects(space.data, cleared),
        n=n,
        slack=slack,
        free=float((alpha * h)[~at_ceiling].sum()) / n,
        ceiling=float(at_ceiling.sum()) / n,
    )


def _dot(a: Floats, b: Floats) -> Floats:
    """Return the inner products of rows."""
    return np.asarray(np.einsum("ij,ij->i", a, b))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The exact leave-one-out error.

    Attributes
    ----------
    wrong : ndarray of int
        Observations that are misclassified by the machine trained without them.
    n : int
        Number of observations.
    """

    wrong: NDArray[np.intp]
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrong", frozen(self.wrong))

    @property
    def error(self) -> float:
        """Share of misclassified observations."""
        return float(self.wrong.size / self.n)


def leave_one_out(
    fit: Callable[[Any, Any], Any] | Any, X: Any, y: Any, *, rows: ArrayLike | None = None
) -> LeaveOneOut:
    """Train once without each observation and count those that are misclassified.

    Parameters
    ----------
    fit : callable or estimator
        ``fit(X, y)`` returns a Solution, a Model or a fitted classifier with ``predict``. Of an
        estimator, whose method ``fit`` this is, a copy is trained.
    X : array-like or sparse matrix of shape (n, d)
        Not a precomputed kernel matrix: its columns would have to be left out too.
    y : array-like of shape (n,)
    rows : array-like of int, optional
        Observations to leave out, all by default; the others count as classified rightly. The
        ``suspects`` of a bound are enough.

    Returns
    -------
    LeaveOneOut
        An observation that is the only one of its class is always misclassified.

    Raises
    ------
    DataError
        If the data or `rows` cannot be used.

    Examples
    --------
    The bounds are about machines in which the others keep their shares:

    >>> import numpy as np, svmcvx as sx
    >>> X, y = np.array([[-2.0], [-1.0], [0.5], [1.0], [2.0]]), [0, 0, 0, 1, 1]
    >>> kept = len(y) / (len(y) - 1)
    >>> bound = sx.theory.leave_one_out_bound(sx.fast.odm(X, y, C1=4.0, C2=4.0, D=0.2), X, y)
    >>> exact = sx.theory.leave_one_out(lambda X, y: sx.fast.odm(X, y, C1=4 / kept, C2=4 / kept, D=0.2), X, y)
    >>> exact.error <= bound.total
    True
    """
    X = check_features(X)
    n = X.shape[0]
    codes, classes = check_labels(y, n)
    labels = classes[codes]
    try:
        chosen = np.arange(n) if rows is None else np.unique(np.asarray(rows, dtype=np.intp))
    except (TypeError, ValueError, OverflowError):
        raise DataTypeError(f"rows must be indices of the observations, got {rows!r}") from None
    if chosen.size and (chosen[0] < 0 or chosen[-1] >= n):
        raise DataError(
            f"rows must be indices of the {n} observations, got {chosen[0]} to {chosen[-1]}"
        )
    train = copy.deepcopy(fit).fit if hasattr(fit, "fit") else fit
    if not callable(train):
        raise DataError(
            f"fit must be a function of X and y that trains, or an estimator, got {fit!r}"
        )
    counts = np.bincount(codes)
    wrong: list[int] = []
    for i in chosen:
        if counts[codes[i]] == 1:
            wrong.append(int(i))
            continue
        others = np.flatnonzero(np.arange(n) != i)
        part = sp.csr_array(X[others]) if sp.issparse(X) else X[others]
        try:
            fitted = train(part, labels[others])
            machine = fitted.model if isinstance(fitted, Solution) else fitted
            predicted = machine.predict(X[[i]])[0]
        except (TypeError, AttributeError) as error:
            raise DataError(
                f"fit must train on X and y and return what predicts; it failed: {error}"
            ) from error
        if predicted != labels[i]:
            wrong.append(int(i))
    return LeaveOneOut(np.array(wrong, dtype=np.intp), n)
