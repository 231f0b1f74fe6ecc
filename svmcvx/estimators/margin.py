"""The estimator of the pSVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from svmcvx.data import check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.formulations.base import FormulationProblem
from svmcvx.formulations.margin.absolute_norm import AbsoluteNormSVM
from svmcvx.formulations.margin.absolute_norm_problems import l1_svm
from svmcvx.formulations.margin.liblinear import check_intercept
from svmcvx.formulations.margin.psvm import BIAS_RULES
from svmcvx.kernels import Kernel

__all__ = ["PSVMClassifier"]


class PSVMClassifier(BinaryClassifier):
    r"""Soft-margin SVM with p-norm hinge loss: :math:`\tfrac12\|w\|^2 + C\sum_i (1-u_i)_+^p`.

    Parameters
    ----------
    C : float
        Weight of the losses, 1 by default; the C of ``sklearn.svm.SVC``. Infinity is the hard margin, ½‖w‖² subject to
        :math:`u_i \ge 1`, whatever `p` and positive weights are; data that are not separable are refused.
    p : float
        Exponent, at least 1; 1 (the default) is the usual SVM, 2 the squared hinge.
    fit_intercept : True, False or "penalised"
        A free intercept (the default), none, or that of a constant feature, which is penalised like the others: at p = 1 and 2
        the problem of ``LinearSVC`` with ``intercept_scaling=1``. A hard margin has a free one.
    penalty : "l2" or "l1"
        ``"l1"`` has :math:`\|w\|_1` in place of :math:`\tfrac12\|w\|^2`, as in ``LinearSVC(penalty="l1")``: for p = 2, ``kernel=None`` and an
        intercept that is penalised or none, by the general route.
    kernel : None, str, Kernel or callable
        None (the default) for the linear formulation; ``"rbf"``, ``"exponential"``, ``"laplacian"``, ``"poly"``,
        ``"sigmoid"``, ``"linear"``, ``"precomputed"``, or an object of :mod:`svmcvx.kernels`.
    gamma : float, "scale" or "auto"
        For kernels given by name.
    degree : int
        For ``"poly"``.
    coef0 : float
        For ``"poly"`` and ``"sigmoid"``.
    bias : "exact", "paper" or "released"
        Rule for the intercept; ``"paper"`` and ``"released"`` reproduce the numbers of [Sun].
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.
    class_weight : None, "balanced" or dict
        Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by default.
    multiclass : "ovo" or "ovr"
        With more than two classes: one binary machine for each pair of classes (the default), or for each class against
        the rest; see :class:`svmcvx.OneVsModel`.
    decision_function_shape : "ovr" or "ovo"
        With more than two classes: what ``decision_function`` returns of machines of pairs, a score of each class (the default)
        or those of the pairs. ``predict`` is the same for both.
    break_ties : bool
        Ties of votes are decided by the summed scores (the default), and where these are equal too by the order of the
        classes; or by that order alone, as ``SVC`` does by default.
    n_jobs : int, optional
        Processes for these machines, as in joblib; 1 by default. The result does not depend on it.
    solver : str
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.
    tol : float
        Certified relative gap that is asked for, 1e-6 by default. A conic solver is asked for a hundredth of it.
    time_limit : float, optional
        Seconds for the whole fit; several binary machines share it.
    max_iter : int, optional
        Iterations of the solver, in its own unit and of each binary machine; as many as it needs by default. A fit that
        they end warns, as at `time_limit`, and gets no second opinion.
    cache_size : float
        Megabytes of kernel rows that the specialised solver keeps, 500 by default.
    verbose : bool
        Print the solver's progress.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    solution_ : Solution
        Model, certificate, attempts, timings.
    certificate_ : Certificate
        The checked interval around the optimum.
    model_ : Model
    coef_, intercept_, dual_coef_ : ndarray
        One row a binary machine, positive for the later class of a pair, where they exist; read-only.
    support_, n_support_, support_vectors_ : ndarray
        Rows of the training data with a non-zero multiplier, class by class; their numbers; the rows, for a kernel.
    class_weight_ : ndarray of shape (c,)
        The weights of the classes.
    shape_fit_ : tuple of int
        Shape of the training data.
    fit_status_ : int
        0 if the gap asked for was certified, else 1.
    solutions_, certificates_ : dict
        Of each binary machine, by its pair of labels (or label); ``certificate_`` is that of the largest gap.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : ndarray of int
        Iterations of the solver for each binary machine, where it tells them.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If `X` had string column names.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = sx.PSVMClassifier(C=1.0, p=1.5).fit(scale(X), y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "psvm"

    def __init__(
        self,
        *,
        C: float = 1.0,
        p: float = 1.0,
        fit_intercept: bool | str = True,
        penalty: str = "l2",
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        bias: str = "exact",
        indefinite: str = "error",
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = True,
        n_jobs: int | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        time_limit: float | None = None,
        max_iter: int | None = None,
        cache_size: float = 500.0,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.p = p
        self.fit_intercept = fit_intercept
        self.penalty = penalty
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias
        self.indefinite = indefinite
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.n_jobs = n_jobs
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.verbose = verbose

    def _stated_as(self) -> str | None:
        if self.penalty == "l1":
            return AbsoluteNormSVM.name
        return "hard_margin" if self._hard() else self._formulation

    def _builder(self) -> Callable[..., FormulationProblem]:
        return l1_svm if self.penalty == "l1" else super()._builder()

    def _hard(self) -> bool:
        return isinstance(self.C, (int, float, np.floating)) and float(self.C) == math.inf

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        intercept, penalty = settings.pop("fit_intercept"), settings.pop("penalty")
        check_choice(penalty, "penalty", ("l2", "l1"))
        if isinstance(intercept, (bool, np.bool_)):
            intercept = "free" if intercept else "none"
        elif intercept != "penalised":
            raise DataError(f"fit_intercept must be True, False or 'penalised', got {intercept!r}")
        check_intercept(intercept, check_choice(self.bias, "bias", BIAS_RULES))
        if penalty == "l1":
            if self.p != 2 or settings["kernel"] is not None or intercept == "free" or self.bias != "exact":
                raise DataError(
                    "penalty='l1' is stated for p=2, kernel=None and fit_intercept='penalised' or False, as in "
                    "LinearSVC(penalty='l1'); set these, or leave penalty at 'l2'"
                )
            return {"C": self.C, "intercept": intercept}
        if not self._hard():
            return settings | {"intercept": intercept}
        check_number(self.p, "p", low=1, why="p < 1 is not convex")
        if intercept != "free" or self.bias != "exact":
            raise DataError(
                "C=inf is the hard margin, which is stated with a free intercept and its exact rule; leave out fit_intercept and "
                "bias, or pass a finite C"
            )
        return {name: settings[name] for name in ("kernel", "indefinite")}
