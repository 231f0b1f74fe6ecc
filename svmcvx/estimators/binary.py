"""What the estimators of binary formulations share, for two classes or more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svmcvx.certificate import Certificate
from svmcvx.data import check_choice, check_features
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.pairs import SCHEMES, CompositeSolution, solve_parts, solve_parts_in_blocks
from svmcvx.estimators.request import Request, TrainingData
from svmcvx.estimators.routes import Route
from svmcvx.kernels import Kernel, Precomputed, as_kernel
from svmcvx.model import BinaryModel, KernelModel, LinearModel, OneVsModel
from svmcvx.row_blocks import in_blocks
from svmcvx.row_blocks.labels import Sides
from svmcvx.row_blocks.mapped import mapped_rows
from svmcvx.solution import Solution

__all__ = ["BinaryClassifier"]

Floats: TypeAlias = NDArray[np.float64]


class BinaryClassifier(CertifiedClassifier):
    """Base class of the estimators of binary formulations; several classes are taken apart into binary problems.

    An estimator of a formulation outside this package derives from it: ``__init__`` sets the hyper-parameters, and
    ``_builder`` returns the function that builds the problem from ``X``, ``y`` and them (and ``sample_weight``, if weights
    are passed to ``fit``). Parameters that ``__init__`` does not list have the values below. ``docs/add_formulation.md`` shows
    an example.

    Attributes
    ----------
    kernel : None, str, Kernel or callable
        None for the linear formulation. The builder gets it as a :class:`svmcvx.Kernel`, if ``__init__`` lists it.
    gamma, degree, coef0
        Of a kernel given by name.
    multiclass : "ovo" or "ovr"
        With more than two classes: one binary machine for each pair of classes, or for each class against the rest.
    n_jobs : int or None
        Processes for these machines.
    class_weight, solver, tol, time_limit, verbose
        As for all estimators.
    """

    kernel: Kernel | str | Callable[[Any, Any], Any] | None = None
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    multiclass: str = "ovo"
    n_jobs: int | None = None

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        return settings | {"kernel": self._kernel()} if "kernel" in settings else settings

    def _kernel(self) -> Kernel | None:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _solve(self, request: Request, data: TrainingData, warm_start: Solution | None) -> tuple[Solution, Route]:
        check_choice(self.multiclass, "multiclass", SCHEMES)
        if data.labels.classes.size == 2:
            return super()._solve(request, data, warm_start)
        return solve_parts(request, data, scheme=self.multiclass, n_jobs=self.n_jobs, warm_start=warm_start)

    def _solve_blocks(self, request: Request, route: Route, X: Any, sides: Sides, sample_weight: Any) -> Solution:
        check_choice(self.multiclass, "multiclass", SCHEMES)
        if sides.classes.size == 2:
            return super()._solve_blocks(request, route, X, sides, sample_weight)
        return solve_parts_in_blocks(request, route, X, sides, sample_weight, scheme=self.multiclass)

    def _shortfall(self, solution: Solution) -> str | None:
        message = super()._shortfall(solution)
        if message is None or not isinstance(solution, CompositeSolution):
            return message
        short = [key for key, part in solution.parts.items() if super(BinaryClassifier, self)._shortfall(part)]
        return f"{len(short)} of {len(solution.parts)} binary problems are short of tol, the worst by: {message}"

    @property
    def solutions_(self) -> dict[Any, Solution]:
        """The solution of each binary problem, by the pair of its labels, or by the label against the rest."""
        check_is_fitted(self, "solution_")
        if isinstance(self.solution_, CompositeSolution):
            return dict(self.solution_.parts)
        return {tuple(self.classes_.tolist()): self.solution_}

    @property
    def certificates_(self) -> dict[Any, Certificate]:
        """The certificate of each binary problem, by the same keys as :attr:`solutions_`."""
        return {key: solution.certificate for key, solution in self.solutions_.items()}

    @property
    def _members(self) -> tuple[BinaryModel, ...]:
        model = self.model_
        return model.members if isinstance(model, OneVsModel) else (cast(BinaryModel, model),)

    @property
    def coef_(self) -> Floats:
        """The normals of linear models, one row a binary problem, shape (1, d) for two classes."""
        members = [member for member in self._members if isinstance(member, LinearModel)]
        if not members:
            raise AttributeError("coef_ exists for the linear formulation (kernel=None) only")
        return np.stack([member.coef for member in members])

    @property
    def dual_coef_(self) -> Floats:
        """The signed multipliers of the rows :attr:`support_`, one row a binary problem; for kernel models."""
        members = [member for member in self._members if isinstance(member, KernelModel)]
        if not members:
            raise AttributeError("dual_coef_ exists for kernel models only")
        coefficients = np.zeros((len(members), self.support_.size))
        for row, member in zip(coefficients, members, strict=True):
            row[np.searchsorted(self.support_, member.support)] = member.dual_coef
        return coefficients

    @property
    def intercept_(self) -> Floats:
        """The biases, one a binary problem, shape (1,) for two classes."""
        return np.array([member.intercept for member in self._members])

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row, positive for ``classes_[1]``, shape (m,).

        For several classes a score of each row for each class, shape (m, c); see :class:`svmcvx.OneVsModel`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            For rows in blocks the result is an array (:class:`svmcvx.RowBlocks`) or a lazy Dask array, and so that of ``predict``.
        """
        model = self.model_
        if in_blocks(X):
            columns = len(self.classes_) if isinstance(model, OneVsModel) else None
            return cast(Floats, mapped_rows(model, "decision_function", X, np.float64, columns=columns))
        checked = check_features(X)
        self._check_columns(X, reset=False)
        return model.decision_function(checked)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        if in_blocks(X):
            return cast(NDArray[Any], mapped_rows(self.model_, "predict", X, self.classes_.dtype))
        scores = self.decision_function(X)
        codes = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)
        return tags
