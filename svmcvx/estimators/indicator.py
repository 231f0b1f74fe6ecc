"""The estimators of the 0-1, ramp and l0 losses: optima by search or by mixed-integer programs, or local ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from svmcvx.data import check_number
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.kernels import Kernel

__all__ = ["L0SVMClassifier", "RampSVMClassifier", "ZeroOneSVMClassifier"]

# Seconds after which a fit returns the best model so far, with the interval proved by then.
TIME_LIMIT = 10.0


class ZeroOneSVMClassifier(BinaryClassifier):
    r"""SVM with the exact 0-1 loss: :math:`\|w\|^2 + \lambda\sum_i 1[u_i < 1]`, or at most `k` margins below 1.

    It is solved by the search of ``fast.zero_one`` (at any size with ``solver="auto"``), or, with the settings `form` and
    `M` or ``solver="scip"``, as a mixed-integer program, which needs a solver for it (``pip install 'svmcvx[mip]'``).
    Optimality is proved for tens of observations of a few features in seconds. On larger data the time limit ends the
    search, with the interval proved by then and a ``ConvergenceWarning``.

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
    intercept : bool
        Append a constant feature, penalised with the rest; True by default.
    kernel, gamma, degree, coef0, indefinite, class_weight, multiclass, decision_function_shape, break_ties, n_jobs, solver, \
tol, max_iter, verbose
        As for :class:`PSVMClassifier`.
    time_limit : float or None
        Seconds, 10 by default.

    Attributes
    ----------
    classes_, solution_, certificate_, model_, coef_, intercept_, dual_coef_, support_, n_support_, support_vectors_, class_weight_, \
shape_fit_, fit_status_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`PSVMClassifier`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.ZeroOneSVMClassifier(lam=1.0).fit(X, y).certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "zero_one"

    def __init__(
        self,
        *,
        lam: float = 1.0,
        k: float | None = None,
        form: str = "big-m",
        M: Any = "auto",
        intercept: bool = True,
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        indefinite: str = "error",
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = True,
        n_jobs: int | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        time_limit: float | None = TIME_LIMIT,
        max_iter: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.k = k
        self.form = form
        self.M = M
        self.intercept = intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.indefinite = indefinite
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.n_jobs = n_jobs
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.verbose = verbose

    def _settings(self) -> dict[str, Any]:
        lam = check_number(self.lam, "lam", low=0, open_low=True)
        return super()._settings() | {"lam": lam if self.k is None else None}


class _FreeIntercept(BinaryClassifier):
    def __init__(
        self,
        *,
        C: float = 1.0,
        M: Any = "auto",
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        indefinite: str = "error",
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = True,
        n_jobs: int | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        time_limit: float | None = TIME_LIMIT,
        max_iter: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.M = M
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.indefinite = indefinite
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.n_jobs = n_jobs
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.verbose = verbose


class RampSVMClassifier(_FreeIntercept):
    r"""SVM with ramp loss: :math:`\tfrac12\|w\|^2 + C\sum_i \min(2, (1-u_i)_+)`, with a free intercept.

    It is solved by the search of ``fast.ramp`` (at any size with ``solver="auto"``), or, with the setting `M` or ``solver="scip"``, as a
    mixed-integer program, which needs a solver for it (``pip install 'svmcvx[mip]'``); see :class:`ZeroOneSVMClassifier` on sizes.

    Parameters
    ----------
    C : float
        Weight of the losses, 1 by default.
    M : "auto", float or array-like
        As in :func:`svmcvx.zero_one_mio`.
    kernel, gamma, degree, coef0, indefinite, class_weight, multiclass, decision_function_shape, break_ties, n_jobs, solver, \
tol, max_iter, verbose
        As for :class:`PSVMClassifier`.
    time_limit : float or None
        Seconds, 10 by default.

    Attributes
    ----------
    classes_, solution_, certificate_, model_, coef_, intercept_, dual_coef_, support_, n_support_, support_vectors_, class_weight_, \
shape_fit_, fit_status_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`PSVMClassifier`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.RampSVMClassifier(C=1.0).fit(X, y).certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "ramp"


class L0SVMClassifier(_FreeIntercept):
    r"""SVM with l0-norm hinge: :math:`\tfrac12\|w\|^2 + C\sum_i 1[u_i < 1]`, with a free intercept.

    Up to 50 observations it is a mixed-integer program, if there is a solver for it (``pip install 'svmcvx[mip]'``), and the
    optimum is proved; beyond, the local search of ``fast.l0``, whose certificate is ``"local"``: an objective, residuals
    of stationarity, and no lower bound.

    Parameters
    ----------
    C : float
        Price of a margin below 1, 1 by default.
    M : "auto", float or array-like
        As in :func:`svmcvx.zero_one_mio`.
    kernel, gamma, degree, coef0, indefinite, class_weight, multiclass, decision_function_shape, break_ties, n_jobs, solver, \
tol, max_iter, verbose
        As for :class:`PSVMClassifier`.
    time_limit : float or None
        Seconds, 10 by default.

    Attributes
    ----------
    classes_, solution_, certificate_, model_, coef_, intercept_, dual_coef_, support_, n_support_, support_vectors_, class_weight_, \
shape_fit_, fit_status_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`PSVMClassifier`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.L0SVMClassifier(C=1.0, solver="fast").fit(X, y).certificate_.kind
    'local'
    """

    _formulation: ClassVar[str] = "l0"
