"""The cvxpy problems of the machines of several classes; the statements are in
:mod:`svmcvx.formulations.multiclass.machines`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Any, Protocol, cast

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from svmcvx.data import multiclass_data
from svmcvx.formulations.multiclass.losses import (
    HingeSum,
    LargestHinge,
    Margin,
    ScoreLoss,
    SmoothedHingeSum,
    Softmax,
    TopHinge,
)
from svmcvx.formulations.multiclass.machines import (
    MACHINES,
    HardMarginM3SVM,
    bound_classical,
    bound_m3svm,
    check_exponent,
    check_norm,
)
from svmcvx.formulations.multiclass.statement import Regulariser, ScoreSpace, pair_differences
from svmcvx.formulations.problem import FormulationProblem, builder, scalar
from svmcvx.system import memory


class MulticlassProblem(FormulationProblem):
    @property
    def coefficients(self) -> int:
        return 2 * super().coefficients * int(self.formulation.scores.data.c)


def _stated_losses(
    scores: ScoreSpace, loss: ScoreLoss, name: str
) -> tuple[cp.Variable, Any, cp.Expression, list[cp.Constraint], dict[str, cp.Parameter]]:
    """Return W, b, the weighted sum of losses of XW + 1b', its constraints and its parameters.

    The multipliers of ``margin`` are α. With penalised biases a change of variables centres dense
    data, for the scaling alone: :math:`S = (X - 1m')W + 1a'` with :math:`a = b + W'm`.
    """
    X, data, constraints = scores.factor, scores.data, []
    (n, d), c, codes = X.shape, data.c, data.codes
    # Bytes that compiling and solving need for each entry of the differences.
    memory.require(
        140.0 * 2.0 * n * (c - 1) * d,
        f"the {name} with {n} × {d} data and {c} classes",
        "use fewer observations or features, or a specialised solver of svmcvx.fast",
    )
    W = cp.Variable((d, c), name="W")
    b = None if scores.intercept == "none" else cp.Variable(c, name="b")
    biases = b
    if scores.intercept == "penalised" and not sp.issparse(X):
        mean = X.mean(axis=0)
        biases = cp.Variable(c, name="a")
        constraints.append((biases == b + W.T @ mean).set_label("shift"))
        X = X - mean
    S = X @ W
    if biases is not None:
        S = S + np.ones((n, 1)) @ cp.reshape(biases, (1, c), order="F")
    # From the columns of S, stacked, to those of f.
    rows = np.arange(n * (c - 1))
    own, other = rows % n + n * codes[rows % n], rows % n + n * scores.others.ravel(order="F")
    entries = np.repeat([1.0, -1.0], rows.size), (np.tile(rows, 2), np.r_[own, other])
    differences = sp.csr_array(entries, shape=(rows.size, n * c))
    f = cp.reshape(differences @ cp.vec(S, order="F"), (n, c - 1), order="F")
    value, stated, parameters = _weighted_loss(loss, f, data.weight)
    return W, b, value, constraints + stated, parameters


def _weighted_loss(
    loss: ScoreLoss, f: cp.Expression, weight: Any
) -> tuple[cp.Expression, list[cp.Constraint], dict[str, cp.Parameter]]:
    n, others = f.shape
    if isinstance(loss, Margin):
        return cp.Constant(0.0), [(f >= 1).set_label("margin")], {}
    if isinstance(loss, (HingeSum, LargestHinge)):
        xi = cp.Variable((n, others if isinstance(loss, HingeSum) else 1), name="xi")
        slack = xi if isinstance(loss, HingeSum) else xi @ np.ones((1, others))
        margin = (slack >= 1 - f).set_label("margin")
        return cp.sum(weight @ xi), [margin, (xi >= 0).set_label("slack")], {}
    if isinstance(loss, TopHinge):
        # The k largest are k thresholds plus the excess, minimised over the threshold.
        xi = cp.Variable(n, name="xi")
        threshold = cp.Variable((n, 1), name="threshold")
        above = cp.Variable(f.shape, name="above")
        own_above = cp.Variable((n, 1), name="own_above")
        excess = (cp.sum(above, axis=1) + cp.vec(own_above, order="F")) / loss.k
        constraints = [
            (above >= 1 - f - threshold @ np.ones((1, others))).set_label("margin"),
            (own_above >= -threshold).set_label("own"),
            (above >= 0).set_label("above"),
            (own_above >= 0).set_label("own_above"),
            (xi >= cp.vec(threshold, order="F") + excess).set_label("largest"),
            (xi >= 0).set_label("slack"),
        ]
        return weight @ xi, constraints, {}
    difference = cp.Variable(f.shape, name="f")
    margins, parameters = [(difference == f).set_label("margin")], dict[str, cp.Parameter]()
    if isinstance(loss, SmoothedHingeSum):
        parameters["delta"] = scalar("delta", loss.delta, pos=True)
        gamma = cp.vec(1 - difference, order="F")
        root = cp.norm(cp.vstack([gamma, parameters["delta"] * np.ones(gamma.shape)]), 2, axis=0)
        value = 0.5 * (np.tile(weight, others) @ (gamma + root))
    elif isinstance(loss, Softmax):
        padded = cp.hstack([np.zeros((n, 1)), -difference])
        value = weight @ cp.log_sum_exp(padded, axis=1)
    else:
        value = cp.sum(weight @ cp.logistic(-difference))
    return value, margins, parameters


def _stated_regulariser(regulariser: Regulariser, W: cp.Variable) -> cp.Expression:
    if regulariser is Regulariser.ABSOLUTE:
        return cp.sum(cp.abs(W))
    if regulariser is Regulariser.PAIRS:
        pairs = W @ pair_differences(W.shape[1])
        return 0.5 * cp.sum_squares(pairs) + 0.5 * cp.sum_squares(W)
    return cp.sum_squares(W)


def _stated_powers(
    W: cp.Variable, p: float, norm: int, *, root: bool
) -> tuple[cp.Expression, list[cp.Constraint], str]:
    """State the sum of the norms of the differences of classes to the power p, or where that takes
    the power cone its p-th root; for p = ∞ the largest norm.

    The last entry is the cone that states it.
    """
    P = pair_differences(W.shape[1])
    V = cp.Variable((W.shape[0], P.shape[1]), name="V")
    sizes = cp.norm(V, 2, axis=0) if norm == 2 else cp.sum(cp.abs(V), axis=0)
    constraints = [(V == W @ P).set_label("pairs")]
    cone = "second-order cones" if norm == 2 else "linear"
    if p == 1:
        return cp.sum(sizes), constraints, cone
    if p == 2 and norm == 2:
        return cp.sum_squares(V), constraints, "quadratic"
    u = cp.Variable(() if math.isinf(p) else P.shape[1], name="u")
    constraints.append((sizes <= u).set_label("length"))
    if math.isinf(p):
        return u, constraints, cone
    if p == 2:
        return cp.sum_squares(u), constraints, "quadratic"
    t = cp.Variable(P.shape[1], name="t")
    value: cp.Expression = cp.sum(t)
    whole: Any = np.ones(t.shape)
    if root:
        # t is the root times a pair's share.
        r = cp.Variable(name="r")
        constraints.append((value == r).set_label("root"))
        value, whole = r, r * whole
    constraints.append(cp.PowCone3D(t, whole, u, 1.0 / p).set_label("power"))
    return value, constraints, "power cone"


class ClassicalProblem(MulticlassProblem):
    lam: cp.Parameter


@builder
def multiclass(
    X: Any,
    y: Any,
    *,
    lam: float = 1.0,
    loss: str = "weston_watkins",
    k: int = 2,
    intercept: bool | str = True,
    sample_weight: Any = None,
) -> ClassicalProblem:
    r"""Build a classical multi-class machine, by the name of its loss, as a cvxpy problem.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\,\Omega(W)

    Source: [NieHaoWang], related work.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam : float
        Weight of the regulariser, positive; 1 by default. The cvxpy parameter ``problem.lam``.
    intercept : "free", "none" or bool
        Free biases (True, the default), or none (False).
    loss : str
        ``"weston_watkins"`` (the default), ``"crammer_singer"``, ``"msvm"``, ``"topk"``,
        ``"softmax"`` or ``"sparse_softmax"``: the machines of :func:`weston_watkins`,
        :func:`crammer_singer`, :func:`msvm`, :func:`topk_svm`, :func:`multinomial_lr` and
        :func:`sparse_multinomial_lr`.
    k : int
        For ``"topk"``: how many of the largest are averaged, 2 by default; from 1 to the number of
        classes.

    Returns
    -------
    ClassicalProblem
        A ``cvxpy.Problem``. ``W`` has the shape (d, c), or (n, c) in the columns of a square factor
        of the data when d > n. The multipliers of ``margin`` are α; ``gauge`` (:math:`\sum_k b_k =
        0`) does not change the optimum. The biases belong to centred data when `X` is dense. The
        model of ``"sparse_softmax"`` has exact zeros where the solver's weights are negligible and
        the certified gap allows it.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> problem = sx.multiclass(X, y, loss="crammer_singer", lam=1.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    statement = bound_classical(
        X, y, lam=lam, loss=loss, k=k, intercept=intercept, sample_weight=sample_weight
    )
    parameter = scalar("lam", statement.lam, pos=True)
    W, b, losses, constraints, _ = _stated_losses(statement.scores, statement.loss, statement.name)
    if b is not None:
        constraints.append((cp.sum(b) == 0).set_label("gauge"))
    objective = losses + parameter * _stated_regulariser(statement.regulariser, W)
    return ClassicalProblem(cp.Minimize(objective), constraints, statement, {"lam": parameter})


class ClassicalBuilder(Protocol):
    """:func:`multiclass` at one loss."""

    def __call__(
        self,
        X: Any,
        y: Any,
        *,
        lam: float = 1.0,
        intercept: bool | str = True,
        sample_weight: Any = None,
    ) -> ClassicalProblem:
        """Build the problem."""


class TopBuilder(Protocol):
    """:func:`multiclass` at the top-k loss."""

    def __call__(
        self,
        X: Any,
        y: Any,
        *,
        lam: float = 1.0,
        k: int = 2,
        intercept: bool | str = True,
        sample_weight: Any = None,
    ) -> ClassicalProblem:
        """Build the problem."""


_TEXT = r"""Build {title} as a cvxpy problem: :func:`multiclass` with ``loss="{loss}"``.

    .. math:: \min\; {formula}

    {remark}

    Source: {source}.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    {names}
        As for :func:`multiclass`.

    Returns
    -------
    ClassicalProblem
        See :func:`multiclass`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> problem = sx.{name}(data.X[::5], data.y[::5], lam=1.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """


def _named(loss: str, title: str, formula: str, remark: str, source: str) -> Any:
    """Return :func:`multiclass` at one loss, under the name of its machine."""
    name = MACHINES[loss].builder
    build: Callable[..., ClassicalProblem] = cast(Any, multiclass).__wrapped__

    def machine(X: Any, y: Any, **keywords: Any) -> ClassicalProblem:
        return build(X, y, loss=loss, **keywords)

    fixed = {"loss"} if loss == "topk" else {"loss", "k"}
    own = signature(build)
    kept = [each for each in own.parameters.values() if each.name not in fixed]
    made: Any = machine
    made.__signature__ = own.replace(parameters=kept)
    made.__name__ = made.__qualname__ = name
    made.__doc__ = _TEXT.format(
        title=title,
        loss=loss,
        formula=formula,
        remark=remark,
        source=source,
        name=name,
        names=", ".join(each.name for each in kept if each.name not in ("X", "y")),
    )
    return builder(made)


weston_watkins: ClassicalBuilder = _named(
    "weston_watkins",
    "the machine of [WestonWatkins]",
    r"\sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2",
    "Each class that is not the own one has a hinge.",
    "[WestonWatkins]; [NieHaoWang], related work",
)
crammer_singer: ClassicalBuilder = _named(
    "crammer_singer",
    "the machine of [CrammerSinger]",
    r"\sum_i s_i \max_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2",
    """With ``intercept=False`` it is scikit-learn's ``LinearSVC(multi_class="crammer_singer",
    fit_intercept=False)`` at :math:`C = 1/(2\\lambda)`.""",
    "[CrammerSinger]; [NieHaoWang], related work",
)
msvm: ClassicalBuilder = _named(
    "msvm",
    "the M-SVM of [BredensteinerBennett]",
    r"\sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+ + \lambda\Big(\tfrac12\sum_{k<l}\|w_k-w_l\|^2 +"
    r" \tfrac12\sum_k\|w_k\|^2\Big)",
    r"""Because :math:`\sum_k w_k = 0` at the optimum it is :func:`weston_watkins` with
    λ(c + 1)/2. At λ = 1 (the default) it is the machine as published, and that of [XuLiuHuo].""",
    "[BredensteinerBennett]; [NieHaoWang], related work",
)
topk_svm: TopBuilder = _named(
    "topk",
    "the top-k SVM",
    r"""\sum_i s_i \max\Big(0, \tfrac1k\sum_{j=1}^k \gamma_{i[j]}\Big) + \lambda\sum_k\|w_k\|^2,
        \qquad \gamma_{ij} = 1[j \ne y_i] + S_{ij} - S_{iy_i},""",
    r"""where :math:`\gamma_{i[1]} \ge \gamma_{i[2]} \ge \dots` are sorted, the zero of the own
    class among them. k = 1 is :func:`crammer_singer`.""",
    "[LapinHeinSchiele]; [NieHaoWang], related work",
)
multinomial_lr: ClassicalBuilder = _named(
    "softmax",
    "multinomial logistic regression",
    r"\sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_k\|w_k\|^2",
    r"It is scikit-learn's ``LogisticRegression`` at :math:`C = 1/(2\lambda)`.",
    "[Boehning]",
)
sparse_multinomial_lr: ClassicalBuilder = _named(
    "sparse_softmax",
    "sparse multinomial logistic regression",
    r"\sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_{jk}|W_{jk}|",
    "The model recovered has exact zeros where the solver's weights are negligible and the"
    " certified gap allows it.",
    "[Krishnapuram]",
)


class M3SVMProblem(MulticlassProblem):
    lam: cp.Parameter
    eps: cp.Parameter
    cone: str


@builder
def m3svm(
    X: Any,
    y: Any,
    *,
    lam: float = 0.001,
    p: float = 4.0,
    eps: float = 1e-6,
    loss: str = "hinge",
    norm: int = 2,
    delta: float = 1e-2,
    sample_weight: Any = None,
) -> M3SVMProblem:
    r"""Build M3SVM as a cvxpy problem.

    .. math::
        \min\; \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p
        + \varepsilon(\|W\|_F^2 + \|b\|^2)

    Source: [NieHaoWang], problem (14); problem (33) for ``"logistic"``.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Standardised features: the biases are penalised too, and ε is for features of order one.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam : float
        Weight λ of the pairwise norms, positive; 0.001 by default. The cvxpy parameter
        ``problem.lam``.
    p : float
        Exponent, any real number of at least 1, below which it is not convex; 4 by default, as
        [NieHaoWang] advises.
    eps : float
        Weight ε of the squares, positive; 1e-6 by default, as in [NieHaoWang]. The cvxpy parameter
        ``problem.eps``.
    loss : "hinge", "smoothed", "logistic" or "softmax"
        See :mod:`svmcvx.formulations.multiclass.machines`. ``"logistic"`` is ISM3.
    norm : 2 or 1
        Euclidean norms, or sums of absolute values.
    delta : float
        Smoothing δ of ``"smoothed"``, positive; 1e-2 by default ([NieHaoWang] gives no number). A
        cvxpy parameter.

    Returns
    -------
    M3SVMProblem
        A ``cvxpy.Problem``. ``W`` has the shape (d, c), or (n, c) in the columns of a square factor
        of the data when d > n and ``norm=2``; ``V`` holds the differences of its columns, one a
        pair k < l in lexicographic order, and for dense data ``a`` the scores at the mean
        observation. The multipliers of ``margin`` are α, minus those of ``pairs`` the flows.
        ``problem.cone`` says which cone states the powers.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> problem = sx.m3svm(X, y, lam=0.1, p=2.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    statement = bound_m3svm(
        X, y, lam=lam, p=p, eps=eps, loss=loss, norm=norm, delta=delta, sample_weight=sample_weight
    )
    lam_parameter = scalar("lam", statement.lam, pos=True)
    eps_parameter = scalar("eps", statement.eps, pos=True)
    W, b, losses, constraints, parameters = _stated_losses(
        statement.scores, statement.loss, "m3svm"
    )
    powers, pairs, cone = _stated_powers(W, statement.p, statement.norm, root=False)
    squares = cp.sum_squares(W) + cp.sum_squares(b)
    problem = M3SVMProblem(
        cp.Minimize(losses + lam_parameter * powers + eps_parameter * squares),
        [*constraints, *pairs],
        statement,
        {"lam": lam_parameter, "eps": eps_parameter, **parameters},
    )
    problem.cone = cone
    return problem


@builder
def m3svm_hard_margin(X: Any, y: Any, *, p: float = 4.0, norm: int = 2) -> MulticlassProblem:
    r"""Build the hard-margin M3SVM as a cvxpy problem.

    .. math::
        \min\; \sum_{k<l}\|w_k - w_l\|^p \quad\text{or, for } p = \infty, \quad
        \min\; \max_{k<l}\|w_k - w_l\|, \qquad\text{s.t.}\quad f_{ik} \ge 1.

    The biases are free. For p = ∞ the smallest margin between two classes, 2 over the objective, is
    maximised.

    Source: [NieHaoWang], problems (4) and (5), Theorem 1.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two or more classes, of any type; every two classes have to be separable.
    p : float
        Exponent of at least 1, or ``math.inf``; 4 by default.
    norm : 2 or 1
        Euclidean norms, or sums of absolute values.

    Returns
    -------
    MulticlassProblem
        A ``cvxpy.Problem``. For p other than 1, 2 and infinity its objective is the p-th root of
        the sum, which has the same minimisers and stays of order one for large p; the certificate
        is that of the sum. ``gauge`` and ``gauge_b`` (:math:`\sum_k w_k = 0`, :math:`\sum_k b_k =
        0`) do not change the optimum. The biases belong to centred data when `X` is dense.

    Examples
    --------
    >>> import svmcvx as sx
    >>> problem = sx.m3svm_hard_margin([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], [0, 1, 2], p=2.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    p, norm = check_exponent(p, infinite=True), check_norm(norm)
    scores = ScoreSpace(multiclass_data(X, y), "free", rotations=norm == 2)
    statement = HardMarginM3SVM(scores=scores, loss=Margin(), p=p, norm=norm)
    W, b, _, constraints, _ = _stated_losses(scores, statement.loss, "m3svm_hard_margin")
    value, pairs, _ = _stated_powers(W, p, norm, root=True)
    constraints += [
        *pairs,
        (cp.sum(W, axis=1) == 0).set_label("gauge"),
        (cp.sum(b) == 0).set_label("gauge_b"),
    ]
    return MulticlassProblem(cp.Minimize(value), constraints, statement)
