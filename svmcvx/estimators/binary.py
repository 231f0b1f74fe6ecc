"""Binary classifiers in scikit-learn's convention; thin: a builder, ``solve``, and the model it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from svmcvx.data import check_features
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.formulations.base import FormulationProblem
from svmcvx.formulations.psvm import psvm_dual
from svmcvx.kernels import Kernel, Precomputed, as_kernel
from svmcvx.model import KernelModel, LinearModel

__all__ = ["BinaryClassifier", "PSVMClassifier"]

Floats: TypeAlias = NDArray[np.float64]


class BinaryClassifier(CertifiedClassifier):
    """What all binary faces share.

    A subclass has the parameters ``kernel``, ``gamma``, ``degree``, ``coef0``, ``solver``, ``tol``, ``time_limit`` and
    its hyper-parameters, and says by :meth:`_problem` which problem they make.
    """

    kernel: Kernel | str | Callable[[Any, Any], Any] | None
    gamma: float | str
    degree: int
    coef0: float

    def _kernel(self) -> Kernel | None:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    @property
    def coef_(self) -> Floats:
        """The normal of a linear model, shape (1, d)."""
        model = self.model_
        if not isinstance(model, LinearModel):
            raise AttributeError("coef_ exists for the linear formulation (kernel=None) only")
        return np.array(model.coef[None, :])

    @property
    def dual_coef_(self) -> Floats:
        """The signed multipliers of the support vectors of a kernel model, shape (1, s)."""
        model = self.model_
        if not isinstance(model, KernelModel):
            raise AttributeError("dual_coef_ exists for kernel models only")
        return np.array(model.dual_coef[None, :])

    @property
    def intercept_(self) -> Floats:
        """The bias, shape (1,)."""
        model = self.model_
        if not isinstance(model, (LinearModel, KernelModel)):
            raise AttributeError("this model has no single intercept")
        return np.array([model.intercept])

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row; positive for ``classes_[1]``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        """
        model = self.model_
        checked = check_features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return model.decision_function(checked)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        positive = (self.decision_function(X) > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[positive]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)
        return tags


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
        Rule for the intercept; the others reproduce the paper's numbers.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.
    solver : str
        As in :func:`svmcvx.solve`.
    tol : float
        Relative tolerance asked of the solver.
    time_limit : float, optional
        Seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    solution_ : Solution
        Model, certificate, attempts, timings.
    certificate_ : Certificate
        The checked interval around the optimum.
    model_ : Model
    coef_, intercept_, dual_coef_, support_ : ndarray
        As in scikit-learn, where they exist.
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
        solver: str = "auto",
        tol: float = 1e-8,
        time_limit: float | None = None,
    ) -> None:
        self.C = C
        self.p = p
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias
        self.indefinite = indefinite
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> FormulationProblem:
        return psvm_dual(
            X,
            y,
            C=self.C,
            p=self.p,
            kernel=self._kernel(),
            sample_weight=sample_weight,
            bias=self.bias,
            indefinite=self.indefinite,
        )
