"""Classifiers of several classes with one linear score a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from svmcvx.data import check_choice, check_features, check_whole
from svmcvx.estimators.base import CertifiedClassifier, read_only
from svmcvx.formulations.multiclass.baselines import MACHINES
from svmcvx.model import MulticlassModel

__all__ = ["M3SVMClassifier", "MulticlassClassifier", "MulticlassSVMClassifier"]

Floats: TypeAlias = NDArray[np.float64]


class MulticlassClassifier(CertifiedClassifier):
    """What the estimators with one linear score a class share."""

    def _model(self) -> MulticlassModel:
        return cast(MulticlassModel, self.model_)

    @property
    def coef_(self) -> Floats:
        """One row of weights a class, shape (c, d); for two classes their difference, shape (1, d)."""
        rows = self._model().coef.T
        return read_only(np.array(rows[1:] - rows[:1] if rows.shape[0] == 2 else rows))

    @property
    def intercept_(self) -> Floats:
        """The biases, shape (c,); for two classes their difference, shape (1,)."""
        biases = self._model().intercept
        return read_only(np.array(biases[1:] - biases[:1] if biases.size == 2 else biases))

    def _scores(self, X: Any) -> Floats:
        model = self._model()
        checked = check_features(X)
        self._check_columns(X, reset=False)
        return model.decision_function(checked)

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row for each class, shape (m, c).

        For two classes, as in scikit-learn, the difference of the two scores, positive for ``classes_[1]``, shape (m,).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score of each row."""
        largest = np.argmax(self._scores(X), axis=1)
        labels: NDArray[Any] = self.classes_[largest]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class M3SVMClassifier(MulticlassClassifier):
    r"""M3SVM: :math:`\sum_i\ell(f_i) + \lambda\sum_{k<l}\|w_k-w_l\|^p + \varepsilon(\|W\|^2+\|b\|^2)`.

    Parameters
    ----------
    lam : float
        Weight λ of the pairwise norms, 1e-3 by default.
    p : float
        Their exponent, at least 1; 4 by default.
    eps : float
        Weight ε of the squares, 1e-6 by default.
    loss : "hinge", "smoothed", "logistic" or "softmax"
        See :func:`svmcvx.m3svm`.
    norm : 2 or 1
        Euclidean norms (the default), or sums of absolute values.
    delta : float
        Smoothing of ``loss="smoothed"``, 1e-2 by default.
    class_weight : None, "balanced" or dict
        Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by default.
    solver : str
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.
    tol : float
        Certified relative gap that is asked for, 1e-8 by default. A conic solver is asked for a hundredth of it.
    time_limit : float, optional
        Seconds.
    max_iter : int, optional
        Iterations of the solver, in its own unit; as many as it needs by default. A fit that they end warns, as at
        `time_limit`, and gets no second opinion.
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
    coef_, intercept_, support_, n_support_ : ndarray
        As in scikit-learn; read-only.
    class_weight_, shape_fit_, fit_status_
        As for :class:`PSVMClassifier`.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : ndarray of int, shape (1,)
        Iterations of the solver, where it tells them.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If `X` had string column names.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = sx.M3SVMClassifier(lam=1e-3, p=4).fit(scale(X), y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "m3svm"

    def __init__(
        self,
        *,
        lam: float = 1e-3,
        p: float = 4.0,
        eps: float = 1e-6,
        loss: str = "hinge",
        norm: int = 2,
        delta: float = 1e-2,
        class_weight: Mapping[Any, float] | str | None = None,
        solver: str = "auto",
        tol: float = 1e-8,
        time_limit: float | None = None,
        max_iter: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.p = p
        self.eps = eps
        self.loss = loss
        self.norm = norm
        self.delta = delta
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.verbose = verbose


class MulticlassSVMClassifier(MulticlassClassifier):
    r"""The classical multi-class machines: :math:`\sum_i\ell(f_i) + \lambda\,\Omega(W)`.

    Parameters
    ----------
    loss : str
        ``"weston_watkins"`` (the default), ``"crammer_singer"``, ``"msvm"``, ``"topk"``, ``"softmax"`` (multinomial logistic
        regression) or ``"sparse_softmax"``; see :mod:`svmcvx.formulations.multiclass.baselines`.
    lam : float
        Weight of the regulariser, 1 by default.
    k : int
        For ``"topk"``: how many of the largest violations are averaged, 2 by default.
    intercept : bool
        Free biases (the default), or none.
    class_weight : None, "balanced" or dict
        Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by default.
    solver : str
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.
    tol : float
        Certified relative gap that is asked for, 1e-8 by default. A conic solver is asked for a hundredth of it.
    time_limit : float, optional
        Seconds.
    max_iter : int, optional
        Iterations of the solver, in its own unit; as many as it needs by default. A fit that they end warns, as at
        `time_limit`, and gets no second opinion.
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
    coef_, intercept_, support_, n_support_ : ndarray
        As in scikit-learn; read-only.
    class_weight_, shape_fit_, fit_status_
        As for :class:`PSVMClassifier`.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : ndarray of int, shape (1,)
        Iterations of the solver, where it tells them.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If `X` had string column names.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = sx.MulticlassSVMClassifier(loss="crammer_singer").fit(scale(X), y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "multiclass"

    def __init__(
        self,
        *,
        loss: str = "weston_watkins",
        lam: float = 1.0,
        k: int = 2,
        intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        solver: str = "auto",
        tol: float = 1e-8,
        time_limit: float | None = None,
        max_iter: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.k = k
        self.intercept = intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.verbose = verbose

    def _settings(self) -> dict[str, Any]:
        settings = {
            "lam": self.lam,
            "loss": check_choice(self.loss, "loss", tuple(MACHINES)),
            "intercept": self.intercept,
        }
        k = check_whole(self.k, "k", 1)
        return settings | ({"k": k} if self.loss == "topk" else {})
