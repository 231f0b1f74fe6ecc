"""The cvxpy problems of the classical multi-class machines; the statement is :mod:`svmcvx.formulations.multiclass.baselines`."""

from __future__ import annotations

from typing import Any

import cvxpy as cp

from svmcvx.formulations.building import builder
from svmcvx.formulations.multiclass.baselines import bound_classical
from svmcvx.formulations.multiclass.statement import MulticlassProblem, require_problem_memory

__all__ = [
    "ClassicalProblem",
    "crammer_singer",
    "msvm",
    "multiclass",
    "multinomial_lr",
    "sparse_multinomial_lr",
    "topk_svm",
    "weston_watkins",
]


# How many of the largest the top-k loss averages.
DEFAULT_K = 2


class ClassicalProblem(MulticlassProblem):
    """The problem of one of the classical machines.

    Attributes
    ----------
    lam : cvxpy.Parameter
        Weight of the regulariser.
    """

    lam: cp.Parameter


def _build(
    loss: str, X: Any, y: Any, lam: float, intercept: bool, sample_weight: Any, k: Any = DEFAULT_K
) -> ClassicalProblem:
    statement = bound_classical(X, y, lam=lam, loss=loss, k=k, intercept=intercept, sample_weight=sample_weight)
    scores, data = statement.scores, statement.scores.data
    require_problem_memory(scores, statement.name)
    parameter = cp.Parameter(pos=True, name="lam", value=statement.lam)
    W = cp.Variable((scores.factor.shape[1], data.c), name="W")
    b = cp.Variable(data.c, name="b") if intercept else None
    differences, constraints = scores.stated_differences(W, b)
    stated = statement.loss.cvxpy_statement(differences, data.weight)
    constraints += stated.constraints
    if b is not None:
        constraints.append((cp.sum(b) == 0).set_label("gauge"))
    objective = stated.value + parameter * statement.regulariser.cvxpy_statement(W, data.c)
    return ClassicalProblem(cp.Minimize(objective), constraints, statement, [parameter])


@builder
def multiclass(
    X: Any,
    y: Any,
    *,
    lam: float = 1.0,
    loss: str = "weston_watkins",
    k: int = DEFAULT_K,
    intercept: bool = True,
    sample_weight: Any = None,
) -> ClassicalProblem:
    r"""Build one of the classical multi-class machines, by the name of its loss, as a cvxpy problem.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\,\Omega(W)

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.
    loss : str
        ``"weston_watkins"`` (the default), ``"crammer_singer"``, ``"msvm"``, ``"topk"``, ``"softmax"`` or
        ``"sparse_softmax"``: the machines of :func:`weston_watkins`, :func:`crammer_singer`, :func:`msvm`, :func:`topk_svm`,
        :func:`multinomial_lr` and :func:`sparse_multinomial_lr`.
    k : int
        For ``"topk"``: how many of the largest are averaged, 2 by default.

    Returns
    -------
    ClassicalProblem
        That of the machine's own builder.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`; also if `loss` is none of these names.

    Notes
    -----
    Source: [NieHaoWang], related work.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> problem = sx.multiclass(X, y, loss="crammer_singer", lam=1.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    return _build(loss, X, y, lam, intercept, sample_weight, k)


@builder
def weston_watkins(
    X: Any, y: Any, *, lam: float = 1.0, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build the machine of [WestonWatkins] as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam : float
        Weight of the regulariser, positive; 1 by default. The cvxpy parameter ``problem.lam``.
    intercept : bool
        Free biases (the default), or none.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.

    Returns
    -------
    ClassicalProblem
        A ``cvxpy.Problem``. Variables ``W`` of shape (d, c) — (n, c) in the columns of a square factor of the data when d > n —,
        ``b`` of shape (c,) if there is an intercept, and ``xi``; parameter ``lam``; constraints labelled ``margin``
        (its multipliers are α), ``slack`` and, with an intercept, ``gauge`` (:math:`\sum_k b_k = 0`, which does not change the optimum).
        The biases belong to centred data when `X` is dense.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: [WestonWatkins]; [NieHaoWang], related work.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.solve(sx.weston_watkins(X, y, lam=1.0)).certificate.is_certified(1e-6)
    True
    """
    return _build("weston_watkins", X, y, lam, intercept, sample_weight)


@builder
def crammer_singer(
    X: Any, y: Any, *, lam: float = 1.0, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build the machine of [CrammerSinger] as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \max_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2

    With ``intercept=False`` it is scikit-learn's ``LinearSVC(multi_class="crammer_singer", fit_intercept=False)`` at
    :math:`C = 1/(2\lambda)`.

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        As for :func:`weston_watkins`, with one slack ``xi`` an observation.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: [CrammerSinger]; [NieHaoWang], related work.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.solve(sx.crammer_singer(X, y, lam=1.0)).certificate.is_certified(1e-6)
    True
    """
    return _build("crammer_singer", X, y, lam, intercept, sample_weight)


@builder
def msvm(X: Any, y: Any, *, lam: float = 1.0, intercept: bool = True, sample_weight: Any = None) -> ClassicalProblem:
    r"""Build the M-SVM of [BredensteinerBennett] as a cvxpy problem.

    .. math::
        \min\; \sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+
        + \lambda\Big(\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2\Big)

    Because :math:`\sum_k w_k = 0` at the optimum it is :func:`weston_watkins` with λ(c + 1)/2. At λ = 1 (the default) it is
    the machine as published, and that of [XuLiuHuo].

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        As for :func:`weston_watkins`.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: [BredensteinerBennett]; [NieHaoWang], related work.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.solve(sx.msvm(X, y, lam=1.0)).certificate.is_certified(1e-6)
    True
    """
    return _build("msvm", X, y, lam, intercept, sample_weight)


@builder
def topk_svm(
    X: Any, y: Any, *, lam: float = 1.0, k: int = DEFAULT_K, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build the top-k SVM as a cvxpy problem.

    .. math::
        \min\; \sum_i s_i \max\Big(0, \tfrac1k\sum_{j=1}^k \gamma_{i[j]}\Big) + \lambda\sum_k\|w_k\|^2, \qquad
        \gamma_{ij} = 1[j \ne y_i] + S_{ij} - S_{iy_i},

    where :math:`\gamma_{i[1]} \ge \gamma_{i[2]} \ge \dots` are sorted, the zero of the own class among them. k = 1 is
    :func:`crammer_singer`.

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.
    k : int
        How many of the largest are averaged, 2 by default; from 1 to the number of classes.

    Returns
    -------
    ClassicalProblem
        As for :func:`weston_watkins`, with one slack ``xi`` an observation, and the variables ``threshold``, ``above`` and
        ``own_above`` and constraints ``own``, ``above``, ``own_above`` and ``largest`` that state the sum of the largest.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: [LapinHeinSchiele]; [NieHaoWang], related work.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.solve(sx.topk_svm(X, y, lam=1.0, k=2)).certificate.is_certified(1e-6)
    True
    """
    return _build("topk", X, y, lam, intercept, sample_weight, k)


@builder
def multinomial_lr(
    X: Any, y: Any, *, lam: float = 1.0, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build multinomial logistic regression as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_k\|w_k\|^2

    It is scikit-learn's ``LogisticRegression`` at :math:`C = 1/(2\lambda)`.

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        A ``cvxpy.Problem``. Variables ``W`` and, if there is an intercept, ``b``; parameter ``lam``; constraint ``gauge``
        as for :func:`weston_watkins`.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: [Boehning].

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.solve(sx.multinomial_lr(X, y, lam=1.0)).certificate.is_certified(1e-6)
    True
    """
    return _build("softmax", X, y, lam, intercept, sample_weight)


@builder
def sparse_multinomial_lr(
    X: Any, y: Any, *, lam: float = 1.0, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build sparse multinomial logistic regression as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_{jk}|W_{jk}|

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        As for :func:`multinomial_lr`. The model recovered has exact zeros where the solver's weights are negligible and
        the certified gap allows it.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: [Krishnapuram].

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> model = sx.solve(sx.sparse_multinomial_lr(X, y, lam=1.0)).model
    >>> bool((model.coef == 0).any())
    True
    """
    return _build("sparse_softmax", X, y, lam, intercept, sample_weight)
