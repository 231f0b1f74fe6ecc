"""The estimators of the 0-1, ramp and l0 losses: optima by search or programs, or local ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

from svmcvx.data import check_number
from svmcvx.estimators.base import estimator
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.request import FAST, Request, TrainingData
from svmcvx.system.deadline import current

# Rounds after which a search without a limit ends, with a warning: some seconds. Rounds are counted
# work, so that a fit does not depend on the clock.
MOST_ROUNDS = 30


@estimator
class _Searched(BinaryClassifier):
    """What the estimators whose optimum is searched for share."""

    def _request(self, data: TrainingData) -> Request:
        request = super()._request(data)
        limited = math.isfinite(current().end) or self.time_limit is not None
        if request.route != FAST or limited or self.max_iter is not None:
            return request
        return replace(request, max_iter=MOST_ROUNDS)


@estimator
class ZeroOneSVMClassifier(_Searched):
    r"""SVM with 0-1 loss: :math:`\|w\|^2 + \lambda\sum_i 1[u_i < 1]`; or with at most `k` losses.

    It is solved by the search of ``fast.zero_one`` (at any size with ``solver="auto"``), or, with
    the settings `form` and `M` or ``solver="scip"``, as a mixed-integer program, which needs a
    solver for it (``pip install 'svmcvx[mip]'``). Optimality is proved in seconds for thousands of
    observations of up to four features, for hundreds of five, and for tens of more. A search
    without `time_limit` and `max_iter` ends after 30 rounds, some seconds: with the interval proved
    by then and a ``ConvergenceWarning``.

    Parameters
    ----------
    lam : float
        Price of a margin below 1, 1 by default; not used if `k` is given.
    k : float, optional
        Largest number of margins below 1.
    form : "big-m" or "perspective"
        Of the mixed-integer program.
    M : "auto", float or array-like
        As in :func:`svmcvx.zero_one_mio`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.ZeroOneSVMClassifier(lam=10.0).fit(X, y).certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "zero_one"

    lam: float = 1.0
    k: float | None = None
    form: str = "big-m"
    M: Any = "auto"
    intercept: bool | str = True

    def _settings(self) -> dict[str, Any]:
        lam = check_number(self.lam, "lam")
        return super()._settings() | {"lam": lam if self.k is None else None}


@estimator
class _FreeIntercept(_Searched):
    C: float = 1.0
    M: Any = "auto"


@estimator
class RampSVMClassifier(_FreeIntercept):
    r"""SVM with ramp loss: :math:`\tfrac12\|w\|^2 + C\sum_i \min(2, (1-u_i)_+)`; free intercept.

    It is solved by the search of ``fast.ramp`` (at any size with ``solver="auto"``), or, with the
    setting `M` or ``solver="scip"``, as a mixed-integer program, which needs a solver for it (``pip
    install 'svmcvx[mip]'``); see :class:`ZeroOneSVMClassifier` on sizes.

    Parameters
    ----------
    C : float
        Weight of the losses, 1 by default.
    M : "auto", float or array-like
        As in :func:`svmcvx.zero_one_mio`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.RampSVMClassifier(C=1.0).fit(X, y).certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "ramp"


@estimator
class L0SVMClassifier(_FreeIntercept):
    r"""SVM with l0-norm hinge: :math:`\tfrac12\|w\|^2 + C\sum_i 1[u_i < 1]`, with a free intercept.

    The optimum is proved by the search of ``fast.l0`` among up to 60 observations, up to 500
    entries of a linear machine, and thousands of observations of up to four features, hundreds of
    five; beyond, its local search ends with a certificate that is
    ``"local"``: an objective, residuals of stationarity, and the lower bound 0. With the setting
    `M` or ``solver="scip"`` it is a mixed-integer program, which needs a solver for it (``pip
    install 'svmcvx[mip]'``).

    Parameters
    ----------
    C : float
        Price of a margin below 1, 1 by default.
    method : "auto", "search" or "local"
        Of ``fast.l0``: whether the optimum is to be proved, or by the size as above.
    M : "auto", float or array-like
        As in :func:`svmcvx.zero_one_mio`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.L0SVMClassifier(C=1.0).fit(X, y).certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "l0"

    method: str = "auto"
