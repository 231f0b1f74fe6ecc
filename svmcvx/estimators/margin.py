"""The estimator of the pSVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.kernels import Kernel

__all__ = ["PSVMClassifier"]


class PSVMClassifier(BinaryClassifier):
    r"""Soft-margin SVM with p-norm hinge loss: :math:`\tfrac12\|w\|^2 + C\sum_i (1-u_i)_+^p`.

    Parameters
    ----------
    C : float
        Weight of the losses, 1 by default; the C of ``sklearn.svm.SVC``.
    p : float
        Exponent, at least 1; 1 (the default) is the usual SVM, 2 the squared hinge.
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
        the rest. Ties are decided by the summed scores, then by the order of the classes; see :class:`svmcvx.OneVsModel`.
    n_jobs : int, optional
        Processes for these machines, as in joblib; 1 by default. The result does not depend on it.
    solver : str
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.
    tol : float
        Certified relative gap that is asked for, 1e-6 by default. A conic solver is asked for a hundredth of it.
    time_limit : float, optional
        Seconds for the whole fit; several binary machines share it.
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
        One row a binary machine, positive for the later class of a pair, where they exist.
    support_ : ndarray of int
        Rows of the training data with a non-zero multiplier.
    solutions_, certificates_ : dict
        Of each binary machine, by its pair of labels (or label); ``certificate_`` is that of the largest gap.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : int
        Iterations of the solver, where it tells them.
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
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        bias: str = "exact",
        indefinite: str = "error",
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovo",
        n_jobs: int | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.p = p
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias
        self.indefinite = indefinite
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.n_jobs = n_jobs
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
