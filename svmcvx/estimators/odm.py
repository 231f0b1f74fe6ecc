"""The faces of ODM and ODML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.formulations.base import FormulationProblem
from svmcvx.formulations.odm import odm_dual
from svmcvx.formulations.odml import odml_dual
from svmcvx.kernels import Kernel

__all__ = ["ODMClassifier", "ODMLClassifier"]


class ODMClassifier(BinaryClassifier):
    r"""Optimal margin distribution machine: margins are held in a band around 1.

    It minimises :math:`\tfrac12\|w\|^2 + \tfrac1n\sum_i C_1 (1-D-u_i)_+^2 + C_2 (u_i-1-D)_+^2`.

    Parameters
    ----------
    C1, C2 : float
        Weights of the mean squared deviation of margins below and above the band, positive; 1 by default.
    D : float
        Half-width of the band, in [0, 1); 0.1 by default.
    intercept : bool
        Append a constant feature, whose coefficient is penalised like the others; not by default.
    kernel : None, str, Kernel or callable
        None (the default) for the linear formulation; ``"rbf"``, ``"exponential"``, ``"laplacian"``, ``"poly"``,
        ``"sigmoid"``, ``"linear"``, ``"precomputed"``, or an object of :mod:`svmcvx.kernels`.
    gamma : float, "scale" or "auto"
        For kernels given by name.
    degree : int
        For ``"poly"``.
    coef0 : float
        For ``"poly"`` and ``"sigmoid"``.
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
    >>> classifier = sx.ODMClassifier(C1=4.0, C2=1.0, D=0.2).fit(scale(X), y)
    >>> classifier.certificate_.is_certified(1e-9)
    True
    """

    def __init__(
        self,
        *,
        C1: float = 1.0,
        C2: float = 1.0,
        D: float = 0.1,
        intercept: bool = False,
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        indefinite: str = "error",
        solver: str = "auto",
        tol: float = 1e-8,
        time_limit: float | None = None,
    ) -> None:
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.intercept = intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.indefinite = indefinite
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> FormulationProblem:
        return odm_dual(
            X,
            y,
            C1=self.C1,
            C2=self.C2,
            D=self.D,
            intercept=self.intercept,
            kernel=self._kernel(),
            sample_weight=sample_weight,
            indefinite=self.indefinite,
        )


class ODMLClassifier(BinaryClassifier):
    r"""Soft-margin SVM that also makes the mean of the margins large and their variance small.

    It minimises :math:`\tfrac12\|w\|^2 + \lambda_1 \mathrm{var}(u) - \lambda_2 \mathrm{mean}(u) + \tfrac{C}{n}\sum_i (1-u_i)_+`.

    Parameters
    ----------
    lam1, lam2 : float
        Weights of the variance and the mean of the margins, not negative; 1/16 by default, the middle of the range that
        the paper searches.
    C : float
        Weight of the mean hinge loss, positive; 10 by default (the paper tries 10, 50 and 100).
    intercept, kernel, gamma, degree, coef0, indefinite, solver, tol, time_limit
        As for :class:`ODMClassifier`.

    Attributes
    ----------
    classes_, solution_, certificate_, model_, coef_, intercept_, dual_coef_, support_, n_features_in_, feature_names_in_
        As for :class:`ODMClassifier`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sx.ODMLClassifier(C=10.0).fit(scale(X), y).certificate_.is_certified(1e-9)
    True
    """

    def __init__(
        self,
        *,
        lam1: float = 0.0625,
        lam2: float = 0.0625,
        C: float = 10.0,
        intercept: bool = False,
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        indefinite: str = "error",
        solver: str = "auto",
        tol: float = 1e-8,
        time_limit: float | None = None,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.C = C
        self.intercept = intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.indefinite = indefinite
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> FormulationProblem:
        return odml_dual(
            X,
            y,
            lam1=self.lam1,
            lam2=self.lam2,
            C=self.C,
            intercept=self.intercept,
            kernel=self._kernel(),
            sample_weight=sample_weight,
            indefinite=self.indefinite,
        )
