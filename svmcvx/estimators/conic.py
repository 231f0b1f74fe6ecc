"""The face of the conic loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.formulations.base import FormulationProblem
from svmcvx.formulations.conic import conic_sdp
from svmcvx.kernels import Kernel

__all__ = ["ConicSVMClassifier"]


class ConicSVMClassifier(BinaryClassifier):
    r"""SVM with the conic loss: the 0-1 loss relaxed to a semidefinite program, robust to outliers.

    It minimises the relaxation of :math:`\|w\|^2 + \lambda\sum_i 1[u_i < 1]`, or with `kappa` that of :math:`\|w\|^2` with
    at most :math:`\kappa n` margins below 1. The residuals ``"zero_one_lower"`` and ``"zero_one_upper"`` of the certificate
    enclose the optimum of the 0-1 problem itself.

    Parameters
    ----------
    lam : float
        Weight of the losses, positive, 1 by default; there is no ½ on the norm. Ignored if `kappa` is given.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5].
    kernel : None, str, Kernel or callable
        None (the default) for the linear formulation; ``"rbf"``, ``"exponential"``, ``"laplacian"``, ``"poly"``,
        ``"sigmoid"``, ``"linear"``, ``"precomputed"``, or an object of :mod:`svmcvx.kernels`. The semidefinite program
        then has a block of the order n: use few observations, and ``solver="scs"`` beyond some sixty.
    gamma : float, "scale" or "auto"
        For kernels given by name.
    degree : int
        For ``"poly"``.
    coef0 : float
        For ``"poly"`` and ``"sigmoid"``.
    intercept : bool
        Append a constant feature, whose coefficient is penalised like the others; True by default.
    form : "reduced" or "paper"
        Statement of the semidefinite program; the optimum is the same.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.
    solver : str
        As in :func:`svmcvx.solve`.
    tol : float
        Relative tolerance asked of the solver.
    time_limit : float, optional
        Seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    solution_ : Solution
        Model, certificate, attempts, timings; see also :func:`svmcvx.formulations.conic.relaxation`.
    certificate_ : Certificate
        The checked interval around the optimum.
    model_ : Model
    coef_, intercept_, dual_coef_, support_ : ndarray
        As in scikit-learn, where they exist.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If `X` had string column names.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 3, sigma=0.2, outliers="clustered", seed=0)
    >>> classifier = sx.ConicSVMClassifier(kappa=0.15).fit(X, y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    def __init__(
        self,
        *,
        lam: float = 1.0,
        kappa: float | None = None,
        kernel: Kernel | str | Callable[[Any, Any], Any] | None = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        intercept: bool = True,
        form: str = "reduced",
        indefinite: str = "error",
        solver: str = "auto",
        tol: float = 1e-8,
        time_limit: float | None = None,
    ) -> None:
        self.lam = lam
        self.kappa = kappa
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.intercept = intercept
        self.form = form
        self.indefinite = indefinite
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> FormulationProblem:
        return conic_sdp(
            X,
            y,
            lam=self.lam if self.kappa is None else None,
            kappa=self.kappa,
            kernel=self._kernel(),
            form=self.form,
            intercept=self.intercept,
            sample_weight=sample_weight,
            indefinite=self.indefinite,
        )
