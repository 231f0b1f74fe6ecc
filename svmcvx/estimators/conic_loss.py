"""The estimator of the conic loss."""

from __future__ import annotations

from typing import Any, ClassVar

from svmcvx.data import check_number
from svmcvx.estimators.base import estimator
from svmcvx.estimators.binary import BinaryClassifier


@estimator
class ConicSVMClassifier(BinaryClassifier):
    r"""SVM with the conic loss: the 0-1 loss relaxed to a semidefinite program, robust to outliers.

    It minimises the relaxation of :math:`\|w\|^2 + \lambda\sum_i 1[u_i < 1]`, or with `kappa` that
    of :math:`\|w\|^2` with at most :math:`\kappa n` margins below 1. The residuals
    ``"zero_one_lower"`` and ``"zero_one_upper"`` of the certificate enclose the optimum of the 0-1
    problem itself.

    Parameters
    ----------
    lam : float
        Weight of the losses, positive, 1 by default; there is no ½ on the norm. Ignored if `kappa`
        is given.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5].

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 3, sigma=0.2, outliers="clustered", seed=0)
    >>> classifier = sx.ConicSVMClassifier(kappa=0.15).fit(X, y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "conic"

    lam: float = 1.0
    kappa: float | None = None
    intercept: bool | str = True

    def _settings(self) -> dict[str, Any]:
        lam = check_number(self.lam, "lam")
        return super()._settings() | {"lam": lam if self.kappa is None else None}
