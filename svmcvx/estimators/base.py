"""What all classifiers share: thin faces of a formulation, the two routes to its solution, and the model found."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from svmcvx.certificate import Certificate
from svmcvx.data import Features, check_features, check_labels, check_weights
from svmcvx.errors import DataError
from svmcvx.estimators.request import Request
from svmcvx.estimators.routes import Route
from svmcvx.formulations.base import FormulationProblem
from svmcvx.kernels import Precomputed
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.model import Model
from svmcvx.solution import Solution, Status

__all__ = ["CertifiedClassifier"]

Floats: TypeAlias = NDArray[np.float64]


class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """What all faces share.

    A subclass has the parameters ``class_weight``, ``solver``, ``tol``, ``time_limit`` and its hyper-parameters, and says
    by :meth:`_builder` and :meth:`_settings` which problem they make.
    """

    # Name of the formulation in svmcvx.estimators.routes.
    _formulation: ClassVar[str]

    class_weight: Mapping[Any, float] | str | None
    solver: str
    tol: float
    time_limit: float | None

    solution_: Solution
    classes_: NDArray[Any]
    n_features_in_: int
    solver_route_: str
    solver_reason_: str

    @abstractmethod
    def _builder(self) -> Callable[..., FormulationProblem]:
        """Return the builder."""

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Return the arguments of the builder, beside data and weights."""

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
            If the certified gap exceeds `tol`.
        """
        return self._fit(X, y, sample_weight, None)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, warm_start: Solution | None, cache: GramCache | None = None
    ) -> Self:
        """Fit, starting from an earlier ``solution_`` for the same data where the solver can; `cache` keeps kernel matrices."""
        checked = check_features(X)
        given = np.asarray(y)
        if given.ndim == 2 and given.shape[1] == 1:
            message = "A column-vector y was passed when a 1d array was expected; pass y.ravel()"
            warnings.warn(message, DataConversionWarning, stacklevel=3)
        self._check_columns(X, reset=True)
        codes, classes = check_labels(y, checked.shape[0])
        weight = None if sample_weight is None else check_weights(sample_weight, codes.size)
        if (shortfall := self._fit_checked(checked, codes, classes, weight, warm_start, cache)) is not None:
            warnings.warn(shortfall, ConvergenceWarning, stacklevel=3)
        return self

    def _fit_checked(
        self,
        X: Features,
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        sample_weight: Floats | None,
        warm_start: Solution | None,
        cache: GramCache | None = None,
    ) -> str | None:
        """Fit to validated data; return what is short of the tolerance."""
        request = self._request(X, sample_weight, cache)
        solution, route = self._solved(
            request, X, codes, classes, self._weighted(classes[codes], sample_weight), warm_start
        )
        self.solution_, self.classes_ = solution, classes
        self.solver_route_, self.solver_reason_ = route
        return self._shortfall(solution)

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Remember the names and the number of features of `X`, or hold it against them; its values have been checked."""
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            raise DataError(str(error)) from None

    def _request(self, X: Features, sample_weight: Floats | None, cache: GramCache | None) -> Request:
        """Return what is asked for; a kernel's scale is that of all classes together, whatever their weights."""
        settings = self._settings()
        if settings.get("kernel") is not None:
            # Weights that are all zero are refused by the formulation.
            scale = sample_weight if sample_weight is not None and sample_weight.any() else None
            resolved = settings["kernel"].resolve(X, scale)
            settings["kernel"] = (
                resolved if cache is None or isinstance(resolved, Precomputed) else cache.kernel(resolved)
            )
        return Request(self._formulation, self._builder(), settings, self.solver, self.tol, self.time_limit)

    def _weighted(self, labels: NDArray[Any], sample_weight: Floats | None) -> Floats | None:
        """Return the weights of observations times those of their classes."""
        if self.class_weight is None:
            return sample_weight
        try:
            weight = np.asarray(compute_sample_weight(self.class_weight, labels), dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise DataError(f"class_weight cannot be used: {error}") from None
        weight = check_weights(weight, labels.size, name="class_weight")
        if not weight.all():
            raise DataError(
                f"class_weight must be positive, got 0 for {labels[weight == 0].tolist()[0]!r}; leave the class out instead"
            )
        return weight if sample_weight is None else weight * sample_weight

    def _solved(
        self,
        request: Request,
        X: Features,
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        sample_weight: Floats | None,
        warm_start: Solution | None,
    ) -> tuple[Solution, Route]:
        """Solve for validated data."""
        route = request.route(codes.size, weighted=sample_weight is not None)
        return request.run(route, X, classes[codes], sample_weight, warm_start), route

    def _shortfall(self, solution: Solution) -> str | None:
        """Say how far the certificate is from what was asked for; None if it is not."""
        certificate = solution.certificate
        if certificate.kind == "local":
            # A local method proves no gap; what can be asked of it is that it ran to its end.
            return None if solution.status is Status.OPTIMAL else f"the local search stopped early: {solution.status}"
        if certificate.is_certified(self.tol):
            return None
        return (
            f"certified relative gap {certificate.gap:.2g} exceeds {self.tol:.2g}: the optimum lies in "
            f"[{certificate.lower}, {certificate.upper}]; raise time_limit, or see solution_.attempts"
        )

    @property
    def model_(self) -> Model:
        """The model, free of solvers; it can be saved without pickle."""
        check_is_fitted(self, "solution_")
        return self.solution_.model

    @property
    def certificate_(self) -> Certificate:
        """The checked interval around the optimum; of several binary problems the one with the largest gap."""
        check_is_fitted(self, "solution_")
        return self.solution_.certificate

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver, in its own unit; summed over binary problems."""
        check_is_fitted(self, "solution_")
        counts = [attempt.iterations for attempt in self.solution_.attempts]
        known = [count for count in counts if count is not None]
        if not known:
            raise AttributeError("n_iter_ exists for solvers that tell their iterations only")
        return sum(known)

    @property
    def support_(self) -> NDArray[np.intp]:
        """Rows of the training data with a non-zero multiplier."""
        return self.model_.support
