"""The estimator of the conic loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from svmcvx.data import check_number
from svmcvx.estimators.binary import BinaryClassifier
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
        of the general route then has a block of the order n, which is for some sixty observations at most.
    gamma : float, "scale" or "auto"
        For kernels given by name.
    degree : int
        For ``"poly"``.
    coef0 : float
        For ``"poly"`` and ``"sigmoid"``.
    intercept : bool
        Append a constant feature, whose coefficient is penalised like the others; True by default.
    form : "reduced" or "paper"
        Statement of the semidefinite program; the optimum is the same. ``"paper"`` is always solved by the general
        route.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.
    class_weight : None, "balanced" or dict
        Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by default.
    multiclass : "ovo" or "ovr"
        With more than two classes: one binary machine for each pair of classes (the default), or for each class against
        the rest; see :class:`svmcvx.OneVsModel`.
    decision_function_shape : "ovr" or "ovo"
        With more than two classes: what ``decision_function`` returns of machines of pairs, a score of each class (the default)
        or those of the pairs. ``predict`` is the same for both.
    break_ties : bool
        Ties of votes are decided by the summed scores (the default), and where these are equal too by the order of the
        classes; or by that order alone, as ``SVC`` does by default.
    n_jobs : int, optional
        Processes for these machines, as in joblib; 1 by default. The result does not depend on it.
    solver : str
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.
    tol : float
        Certified relative gap that is asked for, 1e-6 by default. A conic solver is asked for a hundredth of it.
    time_limit : float, optional
        Seconds for the whole fit; several binary machines share it.
    max_iter : int, optional
        Iterations of the solver, in its own unit and of each binary machine; as many as it needs by default. A fit that
        they end warns, as at `time_limit`, and gets no second opinion.
    verbose : bool
        Print the solver's progress.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    solution_ : Solution
        Model, certificate, attempts, timings; see also :func:`svmcvx.formulations.conic_loss.relaxation.relaxation`.
    certificate_ : Certificate
        The checked interval around the optimum.
    model_ : Model
    coef_, intercept_, dual_coef_ : ndarray
        One row a binary machine, positive for the later class of a pair, where they exist; read-only.
    support_, n_support_, support_vectors_ : ndarray
        Rows of the training data with a non-zero multiplier, class by class; their numbers; the rows, for a kernel.
    class_weight_ : ndarray of shape (c,)
        The weights of the classes.
    shape_fit_ : tuple of int
        Shape of the training data.
    fit_status_ : int
        0 if the gap asked for was certified, else 1.
    solutions_, certificates_ : dict
        Of each binary machine, by its pair of labels (or label); ``certificate_`` is that of the largest gap.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : ndarray of int
        Iterations of the solver for each binary machine, where it tells them.
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

    _formulation: ClassVar[str] = "conic"

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
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = True,
        n_jobs: int | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        time_limit: float | None = None,
        max_iter: int | None = None,
        verbose: bool = False,
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
        return super()._settings() | {"lam": lam if self.kappa is None else None}
