"""Classifiers of several classes with one linear score a class."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import check_choice, check_whole
from svmcvx.estimators.base import CertifiedClassifier, estimator
from svmcvx.formulations.multiclass.machines import MACHINES
from svmcvx.model import MulticlassModel, frozen


class MulticlassClassifier(CertifiedClassifier):
    """What the estimators with one linear score a class share."""

    _sharper: ClassVar[float] = 1e-2

    def _model(self) -> MulticlassModel:
        return cast(MulticlassModel, self.model_)

    @property
    def coef_(self) -> Floats:
        """One row of weights a class, shape (c, d); for two classes their difference, (1, d)."""
        return _by_class(self._model().coef.T)

    @property
    def intercept_(self) -> Floats:
        """The biases, shape (c,); for two classes their difference, shape (1,)."""
        return _by_class(self._model().intercept)

    def _scores(self, X: Any) -> Floats:
        return self._model().decision_function(self._checked(X))

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row for each class, shape (m, c)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score of each row."""
        largest = np.argmax(self._scores(X), axis=1)
        labels: NDArray[Any] = self.classes_[largest]
        return labels


def _by_class(values: Floats) -> Floats:
    """Return what a model has for each class; for two classes the difference."""
    return frozen(values[1:] - values[:1] if len(values) == 2 else values)


@estimator
class M3SVMClassifier(MulticlassClassifier):
    r"""M3SVM: :math:`\sum\ell(f_i)+\lambda\sum_{k<l}\|w_k-w_l\|^p+\varepsilon(\|W\|^2+\|b\|^2)`.

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

    lam: float = 1e-3
    p: float = 4.0
    eps: float = 1e-6
    loss: str = "hinge"
    norm: int = 2
    delta: float = 1e-2


@estimator
class MulticlassSVMClassifier(MulticlassClassifier):
    r"""The classical multi-class machines: :math:`\sum_i\ell(f_i) + \lambda\,\Omega(W)`.

    Parameters
    ----------
    loss : str
        ``"weston_watkins"`` (the default), ``"crammer_singer"``, ``"msvm"``, ``"topk"``,
        ``"softmax"`` (multinomial logistic regression) or ``"sparse_softmax"``; see
        :mod:`svmcvx.formulations.multiclass.machines`.
    lam : float
        Weight of the regulariser, 1 by default.
    k : int
        For ``"topk"``: how many of the largest violations are averaged, 2 by default.
    intercept : "free", "none" or bool
        Free biases (True, the default), or none (False).

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

    loss: str = "weston_watkins"
    lam: float = 1.0
    k: int = 2
    intercept: bool | str = True

    def _settings(self) -> dict[str, Any]:
        settings = {
            "lam": self.lam,
            "loss": check_choice(self.loss, "loss", tuple(MACHINES)),
            "intercept": self.intercept,
        }
        k = check_whole(self.k, "k", 1)
        return settings | ({"k": k} if self.loss == "topk" else {})
