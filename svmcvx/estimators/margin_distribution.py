"""The estimators of ODM and ODML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.kernels import Kernel

__all__ = ["ODMClassifier", "ODMLClassifier"]


class ODMClassifier(BinaryClassifier):
    r"""Optimal margin distribution machine: margins are held in a band around 1.

    It minimises :math:`\tfrac12\|w\|^2 + \tfrac1n\sum_i C_1 (1-D-u_i)_+^2 + C_2 (u_i-1-D)_+^2`.

    Parameters
    ----------
    C1, C2 : float
        Weights of the mean squared deviation of margins below and above the band, positive; 1 by default.
    D : float
        Half-width of the band, in [0, 1); 0.1 by default.
    intercept : bool
        Append a constant feature, whose coefficient is penalised like the others; not by default.
    kernel : None, str, Kernel or callable
        None (the default) for the linear formulation; ``"rbf"``, ``"exponential"``, ``"laplacian"``, ``"poly"``,
        ``"sigmoid"``, ``"linear"``, ``"precomputed"``, or an object of :mod:`svmcvx.kernels`.
    gamma : float, "scale" or "auto"
        For kernels given by name.
    degree : int
        For ``"poly"``.
    coef0 : float
        For ``"poly"`` and ``"sigmoid"``.
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
        Model, certificate, attempts, timings.
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
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = sx.ODMClassifier(C1=4.0, C2=1.0, D=0.2).fit(scale(X), y)
    >>> classifier.certificate_.is_certified(1e-6)
    True
    """

    _formulation: ClassVar[str] = "odm"

    def __init__(
        self,
        *,
        C1: float = 1.0,
        C2: float = 1.0,
        D: float = 0.1,
        intercept: bool = False,
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
        time_limit: float | None = None,
        max_iter: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.C1 = C1
        self.C2 = C2
        self.D = D
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


class ODMLClassifier(BinaryClassifier):
    r"""Soft-margin SVM that also makes the mean of the margins large and their variance small.

    It minimises :math:`\tfrac12\|w\|^2 + \lambda_1 \mathrm{var}(u) - \lambda_2 \mathrm{mean}(u) + \tfrac{C}{n}\sum_i (1-u_i)_+`.

    Parameters
    ----------
    lam1, lam2 : float
        Weights of the variance and the mean of the margins, not negative; 1/16 by default, the middle of the range that
        [ZhangZhou] searches.
    C : float
        Weight of the mean hinge loss, positive; 10 by default ([ZhangZhou] tries 10, 50 and 100).
    intercept, kernel, gamma, degree, coef0, indefinite, class_weight, multiclass, decision_function_shape, break_ties, n_jobs, \
solver, tol, time_limit, max_iter, verbose
        As for :class:`ODMClassifier`.

    Attributes
    ----------
    classes_, solution_, certificate_, model_, coef_, intercept_, dual_coef_, support_, n_support_, support_vectors_, class_weight_, \
shape_fit_, fit_status_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ODMClassifier`.

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

    def __init__(
        self,
        *,
        lam1: float = 0.0625,
        lam2: float = 0.0625,
        C: float = 10.0,
        intercept: bool = False,
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
        time_limit: float | None = None,
        max_iter: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.C = C
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
