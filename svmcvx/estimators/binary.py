"""Faces of binary formulations in scikit-learn's convention, for two classes or more; and that of the pSVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svmcvx.certificate import Certificate
from svmcvx.data import Features, check_choice, check_features
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.pairs import SCHEMES, CompositeSolution, solve_parts
from svmcvx.estimators.request import Request
from svmcvx.estimators.routes import Route
from svmcvx.formulations.base import FormulationProblem
from svmcvx.formulations.margin.psvm_problems import psvm_dual
from svmcvx.kernels import Kernel, Precomputed, as_kernel
from svmcvx.model import BinaryModel, KernelModel, LinearModel, OneVsModel
from svmcvx.solution import Solution

__all__ = ["BinaryClassifier", "PSVMClassifier"]

Floats: TypeAlias = NDArray[np.float64]


class BinaryClassifier(CertifiedClassifier):
    """What all faces of binary formulations share; several classes are taken apart into binary problems.

    A subclass has the parameters ``kernel``, ``gamma``, ``degree``, ``coef0``, ``multiclass``, ``n_jobs``, those of
    :class:`CertifiedClassifier` and its hyper-parameters.
    """

    kernel: Kernel | str | Callable[[Any, Any], Any] | None
    gamma: float | str
    degree: int
    coef0: float
    multiclass: str
    n_jobs: int | None

    def _kernel(self) -> Kernel | None:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _solved(
        self,
        request: Request,
        X: Features,
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        sample_weight: Floats | None,
        warm_start: Solution | None,
    ) -> tuple[Solution, Route]:
        check_choice(self.multiclass, "multiclass", SCHEMES)
        if classes.size == 2:
            return super()._solved(request, X, codes, classes, sample_weight, warm_start)
        return solve_parts(
            request, X, codes, classes, sample_weight, scheme=self.multiclass, n_jobs=self.n_jobs, warm_start=warm_start
        )

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
        """
        model = self.model_
        checked = check_features(X)
        self._check_columns(X, reset=False)
        return model.decision_function(checked)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        scores = self.decision_function(X)
        codes = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
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
    class_weight : None, "balanced" or dict
        Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by default.
    multiclass : "ovo" or "ovr"
        With more than two classes: one binary machine for each pair of classes (the default), or for each class against
        the rest. Ties are decided by the summed scores, then by the order of the classes; see :class:`svmcvx.OneVsModel`.
    n_jobs : int, optional
        Processes for these machines, as in joblib; 1 by default. The result does not depend on it.
    solver : str
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        solver of its own in :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.
    tol : float
        Certified relative gap that is asked for, 1e-6 by default. A conic solver is asked for a hundredth of it.
    time_limit : float, optional
        Seconds; of each binary machine if there are several.

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
        ``"conic"`` or ``"fast"``, and why.
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

    def _builder(self) -> Callable[..., FormulationProblem]:
        return psvm_dual

    def _settings(self) -> dict[str, Any]:
        return {
            "C": self.C,
            "p": self.p,
            "kernel": self._kernel(),
            "bias": self.bias,
            "indefinite": self.indefinite,
        }
