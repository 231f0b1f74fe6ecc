"""The cvxpy problems of the classical multi-class machines; the statement is
:mod:`svmcvx.formulations.multiclass.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import cvxpy as cp

from svmcvx.formulations.multiclass.baselines import bound_classical
from svmcvx.formulations.multiclass.statement import MulticlassStatement, require_problem_memory
from svmcvx.formulations.problem import FormulationProblem, builder
from svmcvx.model import MulticlassModel

__all__ = [
    "ClassicalProblem",
    "MulticlassProblem",
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


class MulticlassProblem(FormulationProblem):
    """What the cvxpy problems on score differences share."""

    @property
    def coefficients(self) -> int:
        """The data, twice for each class: a score difference has two vectors of weights."""
        return 2 * super().coefficients * int(self.formulation.scores.data.c)

    def model_at_variables(self) -> MulticlassModel | None:
        """Return the model of the present values of ``W`` and ``b``, exactly as they are; None
        where they have none.
        """
        statement: MulticlassStatement = self.formulation
        weights = statement.solved_weights(
            {name: variable.value for name, variable in self.var_dict.items()}
        )
        return None if weights is None else statement.model(*weights)


class ClassicalProblem(MulticlassProblem):
    """The problem of one of the classical machines."""

    lam: cp.Parameter


@builder
def multiclass(
    X: Any,
    y: Any,
    *,
    lam: float = 1.0,
    loss: str = "weston_watkins",
    k: int = DEFAULT_K,
    intercept: bool | str = True,
    sample_weight: Any = None,
) -> ClassicalProblem:
    r"""Build one of the classical multi-class machines, by the name of its loss, as a cvxpy
    problem.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\,\Omega(W)

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
        A ``cvxpy.Problem``. Variables ``W`` of shape (d, c) — (n, c) in the columns of a square
        factor of the data when d > n —, and ``b`` of shape (c,) if there is an intercept; parameter
        ``lam``; with an intercept the constraint ``gauge`` (:math:`\sum_k b_k = 0`, which does not
        change the optimum). The biases belong to centred data when `X` is dense. The hinges have
        slacks ``xi``, one a class and observation or one an observation, and constraints labelled
        ``margin`` (its multipliers are α) and ``slack``; ``"topk"`` the variables ``threshold``,
        ``above`` and ``own_above`` and constraints ``own``, ``above``, ``own_above`` and
        ``largest``, which state the sum of the largest. The model of ``"sparse_softmax"`` has exact
        zeros where the solver's weights are negligible and the certified gap allows it.

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
    statement = bound_classical(
        X, y, lam=lam, loss=loss, k=k, intercept=intercept, sample_weight=sample_weight
    )
    scores, data = statement.scores, statement.scores.data
    require_problem_memory(scores, statement.name)
    parameter = cp.Parameter(pos=True, name="lam", value=statement.lam)
    W = cp.Variable((scores.factor.shape[1], data.c), name="W")
    b = cp.Variable(data.c, name="b") if scores.intercept == "free" else None
    differences, constraints = scores.stated_differences(W, b)
    stated = statement.loss.cvxpy_statement(differences, data.weight)
    constraints += stated.constraints
    if b is not None:
        constraints.append((cp.sum(b) == 0).set_label("gauge"))
    objective = stated.value + parameter * statement.regulariser.cvxpy_statement(W, data.c)
    return ClassicalProblem(cp.Minimize(objective), constraints, statement, [parameter])


# The six machines by names of their own


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
        k: int = DEFAULT_K,
        intercept: bool | str = True,
        sample_weight: Any = None,
    ) -> ClassicalProblem:
        """Build the problem."""


_TEXT = r"""Build {title} as a cvxpy problem: :func:`multiclass` with ``loss="{loss}"``.

    .. math:: \min\; {formula}

    {remark}

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam : float
        Weight of the regulariser, positive; 1 by default. The cvxpy parameter ``problem.lam``.
    intercept : "free", "none" or bool
        Free biases (True, the default), or none (False).
{k}
    Returns
    -------
    ClassicalProblem
        See :func:`multiclass`.

    Raises
    ------
    DataError, BuildError
        As :func:`multiclass`.

    Notes
    -----
    Source: {source}.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> problem = sx.{name}(data.X[::5], data.y[::5], lam=1.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
_TEXT_OF_K = """    k : int
        How many of the largest are averaged, 2 by default; from 1 to the number of classes.
"""


def _named(
    name: str, loss: str, title: str, formula: str, remark: str, source: str, *, top: bool = False
) -> Any:
    """Return :func:`multiclass` at one loss, under another name."""
    build: Callable[..., ClassicalProblem] = cast(Any, multiclass).__wrapped__

    def machine(
        X: Any, y: Any, *, lam: float = 1.0, intercept: bool | str = True, sample_weight: Any = None
    ) -> ClassicalProblem:
        return build(X, y, lam=lam, loss=loss, intercept=intercept, sample_weight=sample_weight)

    def machine_of_k(
        X: Any,
        y: Any,
        *,
        lam: float = 1.0,
        k: int = DEFAULT_K,
        intercept: bool | str = True,
        sample_weight: Any = None,
    ) -> ClassicalProblem:
        return build(
            X, y, lam=lam, loss=loss, k=k, intercept=intercept, sample_weight=sample_weight
        )

    made: Any = machine_of_k if top else machine
    made.__name__ = made.__qualname__ = name
    made.__doc__ = _TEXT.format(
        title=title,
        loss=loss,
        formula=formula,
        remark=remark,
        source=source,
        name=name,
        k=_TEXT_OF_K if top else "",
    )
    return builder(made)


weston_watkins: ClassicalBuilder = _named(
    "weston_watkins",
    "weston_watkins",
    "the machine of [WestonWatkins]",
    r"\sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2",
    "Each class that is not the own one has a hinge.",
    "[WestonWatkins]; [NieHaoWang], related work",
)
crammer_singer: ClassicalBuilder = _named(
    "crammer_singer",
    "crammer_singer",
    "the machine of [CrammerSinger]",
    r"\sum_i s_i \max_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2",
    """With ``intercept=False`` it is scikit-learn's ``LinearSVC(multi_class="crammer_singer", fit_intercept=False)`` at
    :math:`C = 1/(2\\lambda)`.""",
    "[CrammerSinger]; [NieHaoWang], related work",
)
msvm: ClassicalBuilder = _named(
    "msvm",
    "msvm",
    "the M-SVM of [BredensteinerBennett]",
    r"\sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+ + \lambda\Big(\tfrac12\sum_{k<l}\|w_k-w_l\|^2 +"
    r" \tfrac12\sum_k\|w_k\|^2\Big)",
    r"""Because :math:`\sum_k w_k = 0` at the optimum it is :func:`weston_watkins` with λ(c + 1)/2. At λ = 1 (the default) it is
    the machine as published, and that of [XuLiuHuo].""",
    "[BredensteinerBennett]; [NieHaoWang], related work",
)
topk_svm: TopBuilder = _named(
    "topk_svm",
    "topk",
    "the top-k SVM",
    r"""\sum_i s_i \max\Big(0, \tfrac1k\sum_{j=1}^k \gamma_{i[j]}\Big) + \lambda\sum_k\|w_k\|^2, \qquad
        \gamma_{ij} = 1[j \ne y_i] + S_{ij} - S_{iy_i},""",
    r"""where :math:`\gamma_{i[1]} \ge \gamma_{i[2]} \ge \dots` are sorted, the zero of the own class among them. k = 1 is
    :func:`crammer_singer`.""",
    "[LapinHeinSchiele]; [NieHaoWang], related work",
    top=True,
)
multinomial_lr: ClassicalBuilder = _named(
    "multinomial_lr",
    "softmax",
    "multinomial logistic regression",
    r"\sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_k\|w_k\|^2",
    r"It is scikit-learn's ``LogisticRegression`` at :math:`C = 1/(2\lambda)`.",
    "[Boehning]",
)
sparse_multinomial_lr: ClassicalBuilder = _named(
    "sparse_multinomial_lr",
    "sparse_softmax",
    "sparse multinomial logistic regression",
    r"\sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_{jk}|W_{jk}|",
    "The model recovered has exact zeros where the solver's weights are negligible and the"
    " certified gap allows it.",
    "[Krishnapuram]",
)
