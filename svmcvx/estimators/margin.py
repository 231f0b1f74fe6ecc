"""The estimator of the pSVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from svmcvx.data import check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.estimators.base import estimator
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.request import TrainingData
from svmcvx.formulations.margin import AbsoluteNormSVM, check_intercept

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem


@estimator
class PSVMClassifier(BinaryClassifier):
    r"""Soft-margin SVM with p-norm hinge loss: :math:`\tfrac12\|w\|^2 + C\sum_i (1-u_i)_+^p`.

    Parameters
    ----------
    C : float
        Weight of the losses, 1 by default; the C of ``sklearn.svm.SVC``. Infinity is the hard
        margin, ½‖w‖² subject to :math:`u_i \ge 1`, for any `p` and any positive weights; data that
        are not separable are refused.
    p : float
        Exponent, at least 1; 1 (the default) is the usual SVM, 2 the squared hinge.
    intercept : "free", "penalised", "none" or bool
        A free intercept (True, the default), that of a constant feature, which is penalised like
        the others: at p = 1 and 2 the problem of ``LinearSVC`` with ``intercept_scaling=1``; or
        none (False). A hard margin has a free one.
    penalty : "l2" or "l1"
        ``"l1"`` has :math:`\|w\|_1` instead of :math:`\tfrac12\|w\|^2`, as in
        ``LinearSVC(penalty="l1")``: for p = 2, ``kernel=None`` and an intercept that is penalised
        or none, by the general route.

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

    C: float = 1.0
    p: float = 1.0
    intercept: bool | str = True
    penalty: str = "l2"
    cache_size: float = 500.0

    def _stated_as(self) -> str | None:
        if self.penalty == "l1":
            return AbsoluteNormSVM.name
        return "hard_margin" if self._hard() else self._formulation

    def _builder(self) -> Callable[..., FormulationProblem]:
        if self.penalty != "l1":
            return super()._builder()
        from svmcvx.formulations.margin_problems import l1_svm

        return l1_svm

    def _only_class(self, data: TrainingData) -> Any:
        # Each row of a class that is never predicted has a loss of at least C times its weight.
        codes: Any = self._codes
        least = self.C * (self.class_weight_ * np.bincount(codes, data.sample_weight)).min()
        few = self.solution_.terms.get("losses", math.inf) < least * (1.0 - 1e-9)
        return None if few else super()._only_class(data)

    def _hard(self) -> bool:
        return isinstance(self.C, (int, float, np.floating)) and float(self.C) == math.inf

    def _settings(self) -> dict[str, Any]:
        hard, settings = self._hard(), super()._settings()
        intercept, penalty = settings.pop("intercept"), settings.pop("penalty")
        check_choice(penalty, "penalty", ("l2", "l1"))
        intercept = "free" if intercept is True else check_intercept(intercept)
        if penalty == "l1":
            if self.p != 2 or settings["kernel"] is not None or intercept == "free":
                raise DataError(
                    "penalty='l1' is stated for p=2, kernel=None and intercept='penalised' or"
                    " 'none', as in LinearSVC(penalty='l1'); set these, or leave penalty at 'l2'"
                )
            return {"C": self.C, "intercept": intercept}
        if not hard:
            return settings | {"intercept": intercept}
        check_number(self.p, "p")
        if intercept != "free":
            raise DataError(
                "C=inf is the hard margin, which has a free intercept: remove `intercept`, or pass"
                " a finite C"
            )
        return {name: settings[name] for name in ("kernel", "indefinite")}
