"""The estimators of ODM and ODML."""

from __future__ import annotations

from typing import ClassVar

from svmcvx.estimators.base import estimator
from svmcvx.estimators.binary import BinaryClassifier


@estimator
class ODMClassifier(BinaryClassifier):
    r"""Optimal margin distribution machine, which pulls all margins into a band around 1.

    It minimises :math:`\tfrac12\|w\|^2 + \tfrac1n\sum_i C_1 (1-D-u_i)_+^2 + C_2 (u_i-1-D)_+^2`.

    Parameters
    ----------
    C1, C2 : float, optional
        Weights of the mean squared deviation of margins below and above the band, positive. By
        default the sum of the observations' weights (n without weights), by which the deviations
        are summed, as the losses of an SVM; [ZhangZhou] tries 1 to 1024. Far smaller ones leave
        machines that predict one class.
    D : float
        Half-width of the band, in [0, 1); 0.1 by default.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = sx.ODMClassifier(C1=4.0, C2=1.0, D=0.2).fit(scale(X), y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "odm"

    C1: float | None = None
    C2: float | None = None
    D: float = 0.1
    intercept: bool | str = True


@estimator
class ODMLClassifier(BinaryClassifier):
    r"""Soft-margin SVM that also makes the mean of the margins large and their variance small.

    It minimises :math:`\tfrac12\|w\|^2 + \lambda_1 \mathrm{var}(u) - \lambda_2 \mathrm{mean}(u) +
    \tfrac{C}{n}\sum_i (1-u_i)_+`.

    Parameters
    ----------
    lam1, lam2 : float
        Weights of the variance and the mean of the margins, not negative; 1/16 by default, the
        middle of the range that [ZhangZhou] searches.
    C : float, optional
        Weight of the mean hinge, at least 0. By default the sum of the observations' weights (n
        without weights), by which the losses are summed; [ZhangZhou] tries 10, 50 and 100.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sx.ODMLClassifier(C=10.0).fit(scale(X), y).certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "odml"
    _sharper: ClassVar[float] = 1e-2

    lam1: float = 0.0625
    lam2: float = 0.0625
    C: float | None = None
    intercept: bool | str = True
