"""What all classifiers share: thin faces of a builder, ``solve``, and the model it returns."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from svmcvx.certificate import Certificate
from svmcvx.data import check_features, check_number
from svmcvx.formulations.base import FormulationProblem
from svmcvx.model import Model
from svmcvx.solution import Solution
from svmcvx.solve import solve

__all__ = ["CertifiedClassifier"]


class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """What all faces share.

    A subclass has the parameters ``solver``, ``tol``, ``time_limit`` and its hyper-parameters, and says by
    :meth:`_problem` which problem they make.
    """

    solver: str
    tol: float
    time_limit: float | None

    solution_: Solution
    classes_: NDArray[Any]
    n_features_in_: int

    @abstractmethod
    def _problem(self, X: Any, y: Any, sample_weight: Any) -> FormulationProblem:
        """Return the problem for validated data."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the formulation on training data.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), optional
            Weights of the losses.

        Returns
        -------
        self

        Raises
        ------
        svmcvx.DataError
            If the data or a parameter cannot be used.
        svmcvx.SolverFailed
            If no solver produced a point.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the certified gap exceeds what was asked for (100 times `tol`).
        """
        checked = check_features(X)
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            message = "A column-vector y was passed when a 1d array was expected; pass y.ravel()"
            warnings.warn(message, DataConversionWarning, stacklevel=2)
        # Only for feature names and the number of features: the values have been checked.
        validate_data(self, X, skip_check_array=True)
        solution = solve(
            self._problem(checked, y, sample_weight), solver=self.solver, tol=self.tol, time_limit=self.time_limit
        )
        self.solution_ = solution
        self.classes_ = np.asarray(solution.model.classes)
        accepted = 100 * check_number(self.tol, "tol")
        if not solution.certificate.is_certified(accepted):
            warnings.warn(
                f"certified relative gap {solution.certificate.gap:.2g} exceeds {accepted:.2g}: the optimum lies in "
                f"[{solution.certificate.lower}, {solution.certificate.upper}]; raise time_limit, or see solution_.attempts",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @property
    def model_(self) -> Model:
        """The model, free of solvers; it can be saved without pickle."""
        check_is_fitted(self, "solution_")
        return self.solution_.model

    @property
    def certificate_(self) -> Certificate:
        """The checked interval around the optimum."""
        check_is_fitted(self, "solution_")
        return self.solution_.certificate

    @property
    def support_(self) -> NDArray[np.intp]:
        """Rows of the training data with a non-zero multiplier."""
        return self.model_.support
