"""Certificates of models that scikit-learn trained: their objective, a lower bound on the optimum,
and the gap.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from inspect import signature
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from svmcvx.arguments import what_was_meant
from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import Certificate, SolverBound, check
from svmcvx.data import (
    BinaryData,
    CodedLabels,
    Features,
    binary_data,
    check_features,
    check_labels,
    check_weights,
    multiclass_data,
)
from svmcvx.errors import BuildError, DataError, NotCertified, did_you_mean
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.binary import parts
from svmcvx.estimators.model_files import TextModel, read_text_model
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import LinearProblem, minimise
from svmcvx.feature_space import LinearSpace, feature_space
from svmcvx.formulations.margin import PSVM, AbsoluteNormSVM, PenalisedPSVM
from svmcvx.formulations.multiclass.losses import Softmax
from svmcvx.formulations.multiclass.machines import MACHINES, ClassicalStatement
from svmcvx.formulations.multiclass.statement import AbsoluteSum, ScoreSpace, SquaredNorms
from svmcvx.kernels import Kernel, Linear, Precomputed, as_kernel
from svmcvx.model import BinaryModel, KernelModel, LinearModel, Model, MulticlassModel

Floats: TypeAlias = NDArray[np.float64]

# Estimators of scikit-learn whose problem follows from their parameters.
CERTIFIABLE = (SVC, NuSVC, LinearSVC, LogisticRegression)
# A multiplier of libsvm exceeds its upper_bound by no more than this share of it.
ABOVE_UPPER_BOUND = 1e-6
# The dual point of a LinearSVC is found by solving its problem again, to this gap or to rounding.
DUAL_TOL = 1e-10
DUAL_STEPS = 10_000
# A model whose gap exceeds this, and that gets no more labels right than chance and this share (or
# two standard deviations, if that is less), was probably trained with other labels.
LOOSE = 0.01
ABOVE_CHANCE = 0.05
COMPUTED_GAMMA = (
    " (scikit-learn's variance of sparse data loses its digits where the mean is large beside the"
    " spread)"
)


@overload
def certify(estimator: FormulationProblem) -> Certificate: ...
@overload
def certify(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    problem: str | CertifiedClassifier | None = None,
    classes: Any = None,
    **hyperparameters: Any,
) -> Any: ...
def certify(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    problem: str | CertifiedClassifier | None = None,
    classes: Any = None,
    **hyperparameters: Any,
) -> Any:
    r"""Return the certificate of a model that any program has trained.

    With `problem` any model is an answer to the problem that is named: its objective is the upper
    bound, and a solver of this package finds the lower one. The search does so for the problems
    that are not convex (0-1, ramp and l0).

    Without it the model is one that scikit-learn has trained, whose problem follows from its
    parameters.

    ``SVC`` minimises :math:`\tfrac12\|w\|^2 + C\sum_i s_i(1-u_i)_+` with a free intercept: its (w,
    b) give the upper bound, its multipliers, repaired to exact feasibility, the lower one.
    ``LinearSVC`` has the intercept as the coefficient of a constant feature with the value
    ``intercept_scaling``, penalised with the rest, and the loss :math:`(1-u_i)_+` or
    :math:`(1-u_i)_+^2`; it keeps no multipliers. The lower bound then comes from a solver of this
    package, started from the model's coefficients, so that the gap shows how far the model is from
    the optimum. With ``penalty="l1"`` it minimises :math:`\|w\|_1 + C\sum_i s_i(1-u_i)_+^2`, whose
    lower bound is that of the slopes of the losses at the model, or at the stationary point with
    the same signs. ``NuSVC`` divides its solution by a number ρ and so solves the problem of
    ``SVC`` at C = 1/ρ, which is its largest multiplier; the interval is that of this problem, for
    each pair of classes at its own C. ``LogisticRegression`` minimises :math:`\tfrac12\|w\|^2 +
    C\sum_i s_i\log(1+e^{-u_i})` for two classes and :math:`\tfrac12\|W\|^2 + C\sum_i s_i\log\sum_k
    e^{f_k(x_i)-f_{y_i}(x_i)}` for more, with free intercepts: the lower bound is that of the
    probabilities of its model, or of the model after some Newton steps.

    Parameters
    ----------
    estimator : SVC, NuSVC, LinearSVC or LogisticRegression, or any model
        Fitted, or a fitted pipeline that ends in one, with the data that the pipeline was fitted
        to. With `problem` any estimator with ``coef_`` or ``dual_coef_``, a pair ``(coef,
        intercept)``, a mapping with ``coef`` or ``dual_coef`` (one a row of `X`, or of ``vectors``)
        and ``intercept``, a linear layer of PyTorch, the path of a model file of LIBSVM or
        LIBLINEAR, or a model of this package. Or a problem of a builder that was solved, with no
        other argument. Of scikit-learn with any kernel of ``SVC`` that is positive semidefinite on
        the data, precomputed and callable ones included. Numbers that the fitted estimator holds
        count as it holds them: ``gamma="scale"`` and the class weights of ``SVC`` and ``NuSVC`` are
        not computed again.
    X : array-like or sparse matrix of shape (n, d)
        The data that it was trained on; a pipeline transforms them itself.
    y : array-like of shape (n,)
        The labels that it was trained on.
    sample_weight : array-like of shape (n,), optional
        The weights that it was trained with.
    problem : str or estimator of this package, optional
        ``"psvm"``, ``"odm"``, ``"odml"``, ``"conic"``, ``"m3svm"``, ``"zero-one"``, ``"ramp"``,
        ``"l0"``, or the loss of a machine of several classes, such as ``"weston_watkins"``; an
        estimator of this package states a problem with its hyper-parameters.
    classes : array-like, optional
        The classes in the order of the model, that of negative scores first; sorted by default.
    **hyperparameters
        Of the problem, by the names of its estimator: ``C=1.0, p=1.0, kernel="rbf"``. The kernel
        and the intercept of a model file are used unless they are given here.

    Returns
    -------
    Certificate, or dict of Certificate
        For more than two classes one for each binary problem: by pairs of labels (``SVC``) or by
        the label against the rest (``LinearSVC``). ``LogisticRegression`` has one problem for any
        number of classes.

    Raises
    ------
    DataError
        If the estimator is none of these or not fitted, these are not the data it was trained on,
        or its problem is not convex.

    Warns
    -----
    UserWarning
        If the gap is wide and the negative of the model or a multiple of it has one that is less
        than a tenth of it. Without `problem`, if the gap is wide and
        the model gets no more of these labels right than chance: they are probably not those that
        it was trained with, or stand in another order.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn.svm import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> loose, strict = (sx.certify(SVC(tol=tol).fit(X, y), X, y) for tol in (1e-1, 1e-6))
    >>> strict.gap < 1e-6 < loose.gap
    True
    """
    if X is None and y is None and is_problem(estimator):
        return certify_problem(estimator)
    if X is None or y is None:
        raise DataError(
            "certify needs the data: pass X and y; only the problem of a builder is certified"
            " without"
        )
    if isinstance(estimator, Pipeline):
        estimator, X = _last_step(estimator, X)
    if problem is not None:
        return certify_any(
            estimator,
            X,
            y,
            sample_weight,
            problem=problem,
            classes=classes,
            hyperparameters=hyperparameters,
        )
    if hyperparameters or classes is not None:
        named = ", ".join([*hyperparameters, *(["classes"] if classes is not None else [])])
        raise DataError(f"{named} belong to a problem; name it, as in problem='psvm'")
    _refuse_others(estimator)
    if not hasattr(estimator, "classes_"):
        raise DataError(f"this {type(estimator).__name__} is not fitted; call its fit(X, y) first")
    check_is_fitted(estimator)
    # An SVC with a callable kernel does not store its number of features.
    features = check_features(X, n_features=getattr(estimator, "n_features_in_", None))
    codes, classes = check_labels(y, features.shape[0])
    if not np.array_equal(classes, estimator.classes_):
        raise DataError(
            f"y has the classes {classes.tolist()}, but the estimator was trained on"
            f" {list(estimator.classes_)}"
        )
    weight = check_weights(sample_weight, codes.size)
    by_class = _class_weights(estimator, codes, classes, weight)
    if isinstance(estimator, LogisticRegression):
        certificate = _certify_logistic(
            estimator, features, codes, classes, weight * by_class[codes]
        )
        _warn_of_other_labels(estimator, X, codes, weight, certificate.gap)
        return certificate
    certify_one = _certify_svc if isinstance(estimator, (SVC, NuSVC)) else _certify_linear_svc
    certificates = certify_one(estimator, features, codes, classes, weight, by_class)
    _warn_of_other_labels(
        estimator, X, codes, weight, max(certificate.gap for certificate in certificates.values())
    )
    return certificates[tuple(classes.tolist())] if classes.size == 2 else certificates


def _last_step(pipeline: Pipeline, X: Any) -> tuple[Any, Any]:
    """Return the last step of a fitted pipeline, and the data as this step has seen them."""
    if len(pipeline.steps) > 1:
        try:
            X = pipeline[:-1].transform(X)
        except NotFittedError:
            raise DataError("this Pipeline is not fitted; call its fit(X, y) first") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"X cannot be transformed by the pipeline: {error}") from None
    return pipeline[-1], X


def _warn_of_other_labels(
    estimator: Any, X: Any, codes: NDArray[np.intp], weight: Floats, gap: float
) -> None:
    """Warn if a model far from the optimum gets no more labels right than chance."""
    if gap <= LOOSE:
        return
    counted = weight > 0
    try:
        predicted = estimator.predict(X)
    except ValueError as error:
        raise DataError(
            f"these are not data of the kind the model was trained on: {error}"
        ) from None
    found = np.searchsorted(estimator.classes_, predicted)[counted]
    codes = codes[counted]
    accuracy = float(np.mean(found == codes))
    size = estimator.classes_.size
    # What the same predictions get right of labels in a random order.
    chance = (
        float(np.bincount(codes, minlength=size) @ np.bincount(found, minlength=size))
        / codes.size**2
    )
    noise = 2.0 * math.sqrt(chance * (1.0 - chance) / codes.size)
    if accuracy <= chance + min(noise, ABOVE_CHANCE):
        warnings.warn(
            f"the gap is {gap:.2g}, and the {type(estimator).__name__} gets {accuracy:.1%} of these"
            f" labels right, where chance gives {chance:.1%}: are they those that it was trained"
            " with, in the same order?",
            UserWarning,
            stacklevel=3,
        )


def _refuse_others(estimator: Any) -> None:
    name = type(estimator).__name__
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        raise DataError(
            f"estimator is a {name}; pass its best_estimator_, which was trained on all of X"
        )
    if isinstance(estimator, CertifiedClassifier):
        raise DataError(f"{name} has its certificate already: see its certificate_")
    if isinstance(estimator, SGDClassifier):
        raise DataError(
            "SGDClassifier stops by its own rule far from the optimum and keeps no multipliers;"
            " train PSVMClassifier, or certify a LinearSVC"
        )
    if not isinstance(estimator, CERTIFIABLE) or isinstance(estimator, LogisticRegressionCV):
        raise DataError(
            "estimator must be a fitted SVC, NuSVC, LinearSVC or LogisticRegression of"
            f" scikit-learn, got {name}; any other model needs the problem that it answers, as in"
            " problem='psvm', C=1.0"
        )
    if isinstance(estimator, NuSVC) and estimator.class_weight is not None:
        raise DataError(
            "this NuSVC has a class_weight, which its problem has no place for; pass sample_weight"
            " instead"
        )


def _class_weights(
    estimator: Any, codes: NDArray[np.intp], classes: NDArray[Any], weight: Floats
) -> Floats:
    """Return the weight of each class: what the estimator was trained with, or computed as the
    estimator does.
    """
    if isinstance(estimator, (SVC, NuSVC)):
        return np.asarray(estimator.class_weight_, dtype=np.float64)
    # "balanced" counts the weights of observations where this version of scikit-learn can do so.
    weighted = "sample_weight" in signature(compute_class_weight).parameters
    keywords = {"sample_weight": weight} if weighted else {}
    return np.asarray(
        compute_class_weight(estimator.class_weight, classes=classes, y=classes[codes], **keywords)
    )


def _support_rows(svc: SVC | NuSVC, X: Features, weight: Floats) -> NDArray[np.intp]:
    """Return the rows of the support vectors; libsvm counts only those with a weight."""
    counted = np.flatnonzero(weight > 0)
    rows = np.asarray(svc.support_, dtype=np.intp)
    if rows.size and rows.max() < counted.size:
        rows = counted[rows]
    stored = svc.support_vectors_
    if stored.shape[0] and not _same_rows(X[rows], stored):
        raise DataError(
            "X does not hold the support vectors of the estimator: pass the data that it was"
            " trained on, with the same sample_weight; of a pipeline's last step, the transformed"
            " data"
        )
    return rows


def _same_rows(A: Any, B: Any) -> bool:
    A, B = (M.toarray() if sp.issparse(M) else np.asarray(M) for M in (A, B))
    return A.shape == B.shape and bool(np.array_equal(A, B))


def _svc_kernel(svc: SVC | NuSVC) -> Kernel | None:
    """Return the kernel with its parameters as numbers; None for the linear one."""
    if svc.kernel == "linear":
        return None
    if callable(svc.kernel) or svc.kernel == "precomputed":
        return as_kernel(svc.kernel)
    gamma = float(svc._gamma)
    if not gamma > 0:
        raise DataError(
            f"this {type(svc).__name__} was trained with gamma = {gamma:.6g}, and kernels here need"
            f" a positive one{COMPUTED_GAMMA if isinstance(svc.gamma, str) else ''}; train it with"
            " a positive number as gamma"
        )
    return as_kernel(svc.kernel, gamma=gamma, degree=svc.degree, coef0=svc.coef0)


def _pair_multipliers(svc: SVC | NuSVC, codes: NDArray[np.intp]) -> Iterator[Floats]:
    """Yield for each pair of classes the signed multipliers of all support vectors, positive for
    the later class.
    """
    c = svc.classes_.size
    if c == 2:
        yield np.asarray(
            svc.dual_coef_.toarray() if sp.issparse(svc.dual_coef_) else svc.dual_coef_
        )[0]
        return
    coefficients = svc.dual_coef_.toarray() if sp.issparse(svc.dual_coef_) else svc.dual_coef_
    # libsvm keeps, for a support vector of class k, its multipliers against the other classes in
    # order; with two classes scikit-learn has turned the sign.
    for k, other in combinations(range(c), 2):
        v = np.zeros(codes.size)
        v[codes == k] = -coefficients[other - 1, codes == k]
        v[codes == other] = -coefficients[k, codes == other]
        yield v


def _certify_svc(
    svc: SVC | NuSVC,
    X: Features,
    codes: NDArray[np.intp],
    classes: NDArray[Any],
    weight: Floats,
    by_class: Floats,
) -> dict[Any, Certificate]:
    if X.shape[0] != svc.shape_fit_[0]:
        raise DataError(
            f"X has {X.shape[0]} rows, but the estimator was trained on {svc.shape_fit_[0]}"
        )
    support = _support_rows(svc, X, weight)
    kernel = _svc_kernel(svc)
    pairwise = isinstance(kernel, Precomputed)
    sign = 1.0 if classes.size == 2 else -1.0
    certificates = {}
    pairs = zip(
        parts(CodedLabels(codes, classes), "ovo"),
        _pair_multipliers(svc, codes[support]),
        _pair_coefficients(svc),
        svc.intercept_,
        strict=True,
    )
    for part, multipliers, coef, intercept in pairs:
        v = np.zeros(codes.size)
        v[support] = multipliers
        rows = part.rows
        inside = X if rows.size == X.shape[0] else X[rows][:, rows] if pairwise else X[rows]
        data = binary_data(inside, part.labels, (weight * by_class[codes])[rows])
        coef = None if coef is None else sign * coef
        certificates[part.key] = _certify_pair(
            svc, data, kernel, v[rows], coef, sign * float(intercept)
        )
    return certificates


def _pair_coefficients(svc: SVC | NuSVC) -> list[Floats | None]:
    """Return for each pair of classes the coefficients of a linear machine as the estimator holds
    them; None with a kernel.
    """
    if svc.kernel != "linear":
        return [None] * len(svc.intercept_)
    coefficients = svc.coef_.toarray() if sp.issparse(svc.coef_) else np.asarray(svc.coef_)
    return list(np.asarray(coefficients, dtype=np.float64))


def _certify_pair(
    svc: SVC | NuSVC,
    data: BinaryData,
    kernel: Kernel | None,
    v: Floats,
    coef: Floats | None,
    intercept: float,
) -> Certificate:
    space = feature_space(data, kernel, intercept="free", indefinite="clip", keep_gram=False)
    if "clipped_mass" in space.facts:
        raise DataError(
            f"the kernel {kernel} is indefinite on these data: the problem that SVC has worked on"
            " is not convex, and no dual point bounds its optimum; use a positive semidefinite"
            " kernel"
        )
    coefficients = v[data.index]
    # The largest multiplier of a NuSVC is at its bound 1/ρ, or there is no loss, and any larger
    # bound has the same solution.
    C = float(svc.C) if isinstance(svc, SVC) else float((np.abs(coefficients) / data.weight).max())
    statement = PSVM(space=space, C=C, p=1.0)
    upper_bound = C * data.weight * (1.0 + ABOVE_UPPER_BOUND)
    if (
        (coefficients * data.y < 0).any()
        or (np.abs(coefficients) > upper_bound).any()
        or np.count_nonzero(coefficients) < np.count_nonzero(v)
    ):
        degenerate = (
            ""
            if isinstance(svc, SVC)
            else " (a NuSVC with too small a nu for its data has such multipliers as well)"
        )
        raise DataError(
            "the estimator's multipliers do not belong to these labels and weights: pass the y and"
            f" the sample_weight that it was trained with{degenerate}"
        )
    model: BinaryModel
    if coef is not None:
        model = LinearModel(
            coef=coef, intercept=intercept, classes=data.classes, support=np.flatnonzero(v)
        )
    else:
        model = replace(space.model(coefficients), intercept=intercept)  # type: ignore[type-var]
    return statement.certify(model, {"alpha": np.abs(coefficients)})


def _certify_linear_svc(
    svc: LinearSVC,
    X: Features,
    codes: NDArray[np.intp],
    classes: NDArray[Any],
    weight: Floats,
    by_class: Floats,
) -> dict[Any, Certificate]:
    if svc.multi_class != "ovr":
        raise DataError(
            f"this LinearSVC has multi_class={svc.multi_class!r}; those with multi_class='ovr' can"
            " be certified"
        )
    value = float(svc.intercept_scaling) if svc.fit_intercept else 0.0
    constant = np.full((X.shape[0], 1), value)
    extended = (
        sp.csr_array(sp.hstack([X, constant])) if sp.issparse(X) else np.hstack([X, constant])
    )
    biases = np.broadcast_to(np.asarray(svc.intercept_, dtype=np.float64), (svc.coef_.shape[0],))
    p = 1.0 if svc.loss == "hinge" else 2.0
    certificates = {}
    several = classes.size > 2
    for k, part in enumerate(parts(CodedLabels(codes, classes), "ovr" if several else "ovo")):
        # LIBLINEAR gives the other classes together the weight 1, for any weights of its classes.
        own = weight * (np.where(codes == k, by_class[k], 1.0) if several else by_class[codes])
        data = binary_data(extended, part.labels, own)
        w = np.append(svc.coef_[k], biases[k] / value if value else 0.0).astype(np.float64)
        model = LinearModel(
            coef=w, intercept=0.0, classes=data.classes, support=np.zeros(0, dtype=np.intp)
        )
        space = LinearSpace(data, "none")
        if svc.penalty == "l1":
            absolute = AbsoluteNormSVM(space=space, C=float(svc.C))
            near = [model]
            if (polished := absolute.polished(w)) is not None:
                near.append(replace(model, coef=polished))
            duals = [{"alpha": absolute.multipliers(point)} for point in near]
            certificates[part.key] = check(absolute, [model], duals, own_models=False).certificate
            continue
        statement = PenalisedPSVM(space=space, C=float(svc.C), p=p)
        certificates[part.key] = statement.certify(model, {"alpha": _multipliers(statement, w)})
    return certificates


def _multipliers(statement: PenalisedPSVM, w: Floats) -> Floats:
    """Return multipliers that bound the optimum, found from coefficients near it."""
    data = statement.space.data
    problem = LinearProblem(data.X, data.y, statement.C * data.weight, hinge_power(statement.p))
    with monitored(tol=DUAL_TOL, max_iter=DUAL_STEPS, verbose=False, callback=None) as monitor:
        point, _ = minimise(problem, monitor, w=w)
    return point.alpha


def _certify_logistic(
    fitted: LogisticRegression,
    X: Features,
    codes: NDArray[np.intp],
    classes: NDArray[Any],
    weight: Floats,
) -> Certificate:
    absolute = fitted.penalty == "l1" or (
        fitted.penalty in ("deprecated", "elasticnet") and fitted.l1_ratio == 1
    )
    squares = fitted.penalty in ("l2", "deprecated") and not fitted.l1_ratio
    penalised = (absolute or squares) and np.isfinite(fitted.C)
    multinomial = getattr(fitted, "multi_class", "auto") != "ovr" or classes.size == 2
    if fitted.solver == "liblinear" or not penalised or not multinomial:
        raise DataError(
            f"this LogisticRegression has solver={fitted.solver!r}, penalty={fitted.penalty!r},"
            f" l1_ratio={fitted.l1_ratio!r} and C={fitted.C}; those with squared or absolute norms,"
            " a finite C and one problem for all classes can be certified, by any solver but"
            " 'liblinear', which penalises the intercept; without a penalty a dual bound needs"
            " multipliers that no rounding leaves feasible"
        )
    # With the weights times C, the problem of svmcvx.multinomial_lr is scikit-learn's own at λ = ½;
    # for two classes W = (−w/2, w/2), whose squares sum to half of those of w, and whose absolute
    # values to those of w.
    halved = classes.size == 2
    data = multiclass_data(X, CodedLabels(codes, classes), float(fitted.C) * weight)
    scores = ScoreSpace(data, "free" if fitted.fit_intercept else "none")
    if absolute:
        statement = ClassicalStatement(
            scores, Softmax(), "sparse_multinomial_lr", AbsoluteSum(), 1.0
        )
    else:
        lam = 1.0 if halved else 0.5
        statement = ClassicalStatement(scores, Softmax(), "multinomial_lr", SquaredNorms(), lam)
    W = np.asarray(fitted.coef_, dtype=np.float64).T
    b = np.broadcast_to(np.asarray(fitted.intercept_, dtype=np.float64), (W.shape[1],))
    if halved:
        W, b = np.hstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    own = scores.model(W, b + scores.centre @ W, np.ones(data.n, dtype=np.bool_))
    points = [(W, b + scores.centre @ W)]
    if (polished := statement.polished(*points[0])) is not None:
        points.append(polished)
    duals = []
    for weights, biases in points:
        slopes = statement.loss.multipliers(scores.differences(scores.X @ weights + biases))
        duals.append({"alpha": scores.expand(data.weight[:, None] * slopes)})
    return check(statement, [own], duals, own_models=False).certificate


if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem


# A model with a larger gap is compared with its negative and its multiples.
# The warning names an alternative whose gap is smaller by this factor.
MUCH_LESS = 0.1
# The factor of a multiple is between the reciprocal of this number and the number.
LARGEST_FACTOR = 1e4


class _Problem:
    """A problem whose optimum an estimator has bounded, for any models."""

    def __init__(self, estimator: CertifiedClassifier, X: Any, y: Any, sample_weight: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate has the gap
            fitted = estimator.fit(X, y, sample_weight)
        solution = fitted.solution_
        name = type(estimator).__name__
        if solution.parts:
            raise DataError(
                f"{name} makes one model of several binary problems; certify the model of two"
                " classes"
            )
        kind, lower = solution.certificate.kind, solution.certificate.lower
        if kind == "local" or lower is None:
            raise DataError(
                f"{name} has found no lower bound of this problem, which is not convex; its search"
                " proves one on fewer rows, or with a larger time_limit"
            )
        data = fitted._training_data(X, y, sample_weight)
        weight = fitted.class_weight_[data.labels.codes]
        if data.sample_weight is not None:
            weight = weight * data.sample_weight
        own = {} if np.all(weight == 1.0) else {"sample_weight": weight}
        statement = fitted._request(data, None).problem(data.X, data.labels, **own).formulation
        self._bound: SolverBound | None = None
        if kind != "convex":
            statement = replace(statement, kind=kind)
            self._bound = SolverBound(lower, 0.0)
        self._statement, self._classes = statement, data.labels.classes
        self._duals = [solution.dual] if solution.dual else []

    def certificate(self, model: Model) -> Certificate:
        """Return the certificate of a model."""
        if model.classes.tolist() != self._classes.tolist():
            raise DataError(
                f"the model has the classes {model.classes.tolist()}, the data"
                f" {self._classes.tolist()}; they must agree"
            )
        require_kernel(model, self._statement)
        try:
            return check(
                self._statement, [model], self._duals, solver_bound=self._bound, own_models=False
            ).certificate
        except NotCertified as error:
            raise DataError(f"the model cannot be certified on these data: {error}") from None

    def gap(self, model: Model) -> float:
        """Return the gap of a model; infinite where it has none."""
        try:
            return self.certificate(model).gap
        except DataError:
            return np.inf


def require_kernel(model: Model, statement: Any) -> None:
    """Require that a model has the kernel of a problem: with another one it is a point of another
    space, and its objective bounds nothing.
    """
    own, wanted = (getattr(one, "kernel", None) or Linear() for one in (model, statement))
    if own != wanted:
        raise DataError(
            f"the model has the kernel {own}, the problem {wanted}; leave out the kernel to certify"
            " the model of a file or of this package for its own"
        )


def is_problem(model: Any) -> bool:
    """Return whether a model is the problem of a builder."""
    from svmcvx.formulations.problem import FormulationProblem

    return isinstance(model, FormulationProblem)


def certify_problem(problem: FormulationProblem) -> Certificate:
    """Return the certificate of the point that the variables of a solved problem have, whoever
    solved it.
    """
    if any(variable.value is None for variable in problem.variables()):
        raise DataError(
            "the variables of the problem have no values; solve it first, as in"
            " problem.solve(solver='OSQP')"
        )
    points = problem.recover()
    try:
        own = problem.model_at_variables()
    except BuildError:  # a problem in multipliers, from which the model is computed
        own = None
    models = points.models if own is None else [own]
    statement = problem.formulation
    try:
        checked = check(statement, models, points.duals, own_models=False)
    except NotCertified as error:
        raise DataError(f"the point cannot be certified: {error}") from None

    def gap(model: Model) -> float:
        try:
            return check(statement, [model], points.duals, own_models=False).certificate.gap
        except NotCertified:
            return np.inf

    if checked.certificate.gap > LOOSE and isinstance(
        checked.model, (LinearModel, KernelModel, MulticlassModel)
    ):
        _tell_what_fits(checked.certificate.gap, gap, checked.model)
    return checked.certificate


def problem_named(
    problem: str | CertifiedClassifier, hyperparameters: Mapping[str, Any]
) -> CertifiedClassifier:
    """Return the estimator that states a problem."""
    if isinstance(problem, CertifiedClassifier):
        stated: CertifiedClassifier = clone(problem).set_params(**hyperparameters)
        return stated
    classes = {
        name: entry.estimator.load()
        for name, entry in CATALOGUE.items()
        if entry.estimator is not None
    }
    name = str(problem).replace("-", "_").lower()
    if name in classes and name != "multiclass":
        made = classes[name]()
    else:
        if name not in MACHINES:
            known = ", ".join(map(repr, sorted({*classes, *MACHINES} - {"multiclass"})))
            hint = did_you_mean(name, [*classes, *MACHINES])
            if name == "multiclass":
                hint = "; name its loss, such as 'weston_watkins'"
            raise DataError(
                f"problem must be one of {known}, or an estimator of this package, got"
                f" {problem!r}{hint}"
            )
        made = classes["multiclass"](loss=name)
    parameters = sorted(made.get_params())
    wrong = [key for key in hyperparameters if key not in parameters]
    if wrong:
        raise DataError(
            f"the problem {name!r} has no hyper-parameter"
            f" {', '.join(map(repr, wrong))}{what_was_meant(wrong[0], parameters)}"
        )
    estimator: CertifiedClassifier = made.set_params(**hyperparameters)
    return estimator


def unsolved(estimator: CertifiedClassifier, X: Any, y: Any) -> FormulationProblem:
    """Return the problem that an estimator would solve for data, without solving it."""
    if getattr(estimator, "class_weight", None) is not None:
        raise DataError("class_weight must be None: a problem with weights is another problem")
    stated: CertifiedClassifier = clone(estimator)
    data = stated._training_data(X, y, None)
    return stated._request(data, None).problem(data.X, data.labels)


def certify_any(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    problem: str | CertifiedClassifier,
    classes: Any,
    hyperparameters: Mapping[str, Any],
) -> Certificate | dict[Any, Certificate]:
    """Return the certificate of a model in any form; see :func:`svmcvx.certify`."""
    estimator = problem_named(problem, hyperparameters)
    features = check_features(X)
    codes, labels = check_labels(y, features.shape[0])
    if isinstance(model, str | os.PathLike):
        found = read_text_model(Path(model), features.shape[1])
        if len(found) > 1 or not found[0].key:
            return _of_all_pairs(estimator, found, X, labels[codes], sample_weight)
        model = found[0].model
        estimator = _with_bias(_with_kernel(estimator, model), found[0].bias)
    else:
        model = as_model(model, features, labels, classes, getattr(estimator, "kernel", None))
        estimator = _with_kernel(estimator, model)
    return _checked_alternatives(estimator, model, X, y, sample_weight)


def _of_all_pairs(
    estimator: CertifiedClassifier,
    found: list[TextModel],
    X: Any,
    y: NDArray[Any],
    sample_weight: Any,
) -> Certificate | dict[Any, Certificate]:
    """Return the certificates of the machines of several classes, by their keys."""
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    rows = np.asarray(X) if not hasattr(X, "tocsr") else X.tocsr()
    certificates: dict[Any, Certificate] = {}
    for one in found:
        stated = _with_bias(_with_kernel(clone(estimator), one.model), one.bias)
        if not one.key:
            return _checked_alternatives(stated, one.model, X, y, sample_weight)
        if len(one.key) == 1:
            own = weight
            certificates[one.key[0]] = _checked_alternatives(
                stated, one.model, rows, y == one.key[0], own
            )
        else:
            pair = np.isin(y, one.key)
            own = None if weight is None else weight[pair]
            certificates[one.key] = _checked_alternatives(
                stated, one.model, rows[pair], y[pair], own
            )
    return certificates


def _with_kernel(estimator: CertifiedClassifier, model: Model) -> CertifiedClassifier:
    """Return the problem with the kernel of the model, where it names none."""
    if isinstance(model, KernelModel) and getattr(estimator, "kernel", None) is None:
        return estimator.set_params(kernel=model.kernel)
    return estimator


def _with_bias(estimator: CertifiedClassifier, bias: float | None) -> CertifiedClassifier:
    """Return the problem with the intercept of a file: the coefficient of a constant feature in
    LIBLINEAR.
    """
    if bias is None or "intercept" not in estimator.get_params():
        return estimator
    if bias not in (0.0, 1.0):
        raise DataError(
            f"the model has the bias {bias:g}, the value of its constant feature; those with a bias"
            " of 1 or none (-1) can be certified"
        )
    return estimator.set_params(intercept="penalised" if bias else False)


def as_model(model: Any, X: Any, labels: NDArray[Any], classes: Any, kernel: Any) -> Model:
    """Return a model from a fitted estimator, arrays or a layer of a network."""
    if isinstance(model, Model):
        return model
    if isinstance(model, str | os.PathLike):
        found = read_text_model(Path(model), X.shape[1])
        if len(found) > 1:
            raise DataError(
                f"{model} holds {len(found)} models, of pairs of classes or of one against the rest"
            )
        return found[0].model
    if isinstance(model, CertifiedClassifier):
        own: Model = model.solution_.model
        return own
    order = labels if classes is None else np.asarray(classes)
    if sorted(order.tolist()) != labels.tolist():
        raise DataError(
            f"classes must be the classes of y in the order of the model, got {order.tolist()} for"
            f" {labels.tolist()}"
        )
    if isinstance(model, Mapping):
        parts = dict(model)
    elif isinstance(model, tuple | list) and len(model) == 2:
        parts = {"coef": model[0], "intercept": model[1]}
    elif hasattr(model, "dual_coef_") and (
        hasattr(model, "support_vectors_") or not hasattr(model, "coef_")
    ):
        parts = {
            "dual_coef": model.dual_coef_,
            "intercept": getattr(model, "intercept_", 0.0),
            "vectors": getattr(model, "support_vectors_", None),
        }
    elif hasattr(model, "coef_"):
        parts = {"coef": model.coef_, "intercept": getattr(model, "intercept_", 0.0)}
    elif hasattr(model, "weight") and hasattr(model, "bias"):
        parts = {
            "coef": _plain(model.weight),
            "intercept": 0.0 if model.bias is None else _plain(model.bias),
        }
    else:
        raise DataError(
            "model must be a fitted estimator with coef_ or dual_coef_, (coef, intercept), a"
            " mapping with coef or dual_coef, a linear layer, a model file of LIBSVM or LIBLINEAR,"
            f" or a model of this package, got {type(model).__name__}"
        )
    return _of_arrays(parts, X, order, kernel)


def _plain(values: Any) -> Floats:
    """Return the numbers of a tensor or an array."""
    return np.asarray(
        values.detach().cpu().numpy() if hasattr(values, "detach") else values, dtype=np.float64
    )


def _of_arrays(parts: Mapping[str, Any], X: Any, classes: NDArray[Any], kernel: Any) -> Model:
    """Return the model of coefficients or dual coefficients; `classes` is in the order of the
    model.
    """
    unknown = parts.keys() - {"coef", "dual_coef", "intercept", "vectors"}
    if unknown or ("coef" in parts) == ("dual_coef" in parts):
        raise DataError(
            "model must have coef or dual_coef, intercept, and perhaps vectors, got"
            f" {', '.join(map(str, parts))}"
        )
    coef = np.atleast_2d(_plain(parts["coef" if "coef" in parts else "dual_coef"]))
    intercept = np.ravel(_plain(parts.get("intercept", 0.0)))
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise DataError("the coefficients and the intercept of the model must be finite numbers")
    n, d = X.shape
    none = np.zeros(0, dtype=np.intp)
    order, several = np.argsort(classes), classes.size > 2
    rows = classes.size if several else 1
    width = (
        d
        if "coef" in parts
        else n
        if parts.get("vectors") is None
        else np.shape(parts["vectors"])[0]
    )
    if coef.shape != (rows, width) or intercept.size not in (1, rows):
        raise DataError(
            f"the model has coefficients of shape {coef.shape} and {intercept.size} intercepts;"
            f" these data need {(rows, width)} and {rows}"
        )
    if several:
        if "coef" not in parts:
            raise DataError(
                "dual coefficients of more than two classes are those of several problems; certify"
                " them pair by pair"
            )
        biases = np.broadcast_to(intercept, classes.shape)[order]
        return MulticlassModel(
            coef=coef[order].T, intercept=biases, classes=classes[order], support=none
        )
    # The score is positive for the class that sorts last.
    sign = 1.0 if order[1] == 1 else -1.0
    classes, b = classes[order], sign * float(intercept[0])
    if "coef" in parts:
        return LinearModel(coef=sign * coef[0], intercept=b, classes=classes, support=none)
    resolved = as_kernel(kernel) or Linear()
    vectors = X if parts.get("vectors") is None else check_features(parts["vectors"], n_features=d)
    return KernelModel(
        kernel=resolved.resolve(X),
        vectors=vectors,
        dual_coef=sign * coef[0],
        intercept=b,
        classes=classes,
        support=np.arange(coef.shape[1]),
        n_features=d,
    )


def _checked_alternatives(
    estimator: CertifiedClassifier, model: Model, X: Any, y: Any, sample_weight: Any
) -> Certificate:
    """Return the certificate of a model; warn if its negative or a multiple has a much smaller gap."""
    problem = _Problem(estimator, X, y, sample_weight)
    certificate = problem.certificate(model)
    if certificate.gap > LOOSE:
        _tell_what_fits(certificate.gap, problem.gap, model)
    return certificate


def _tell_what_fits(own: float, gap_of: Callable[[Model], float], model: Model) -> None:
    """Warn if the negative of a model or a multiple has a much smaller gap, or zero coefficients a
    smaller one.
    """
    factor, scaled = _best_factor(gap_of, model)
    hints = [
        (gap_of(_times(model, -1.0)), "with the opposite sign"),
        (scaled, f"multiplied by {factor:.3g}"),
    ]
    gap, words = min(hints, key=lambda hint: hint[0])
    if gap <= MUCH_LESS * own:
        warnings.warn(
            f"the gap of this model is {own:.2g}; {words} it is {gap:.2g}: is that what the model"
            " was trained for?",
            UserWarning,
            stacklevel=5,
        )
    elif gap_of(_times(model, 0.0)) < own:
        warnings.warn(
            f"the gap of this model is {own:.2g}: its objective is larger than that of coefficients"
            " of zero; are these the data, the scaling and the labels that it was trained with?",
            UserWarning,
            stacklevel=5,
        )


def _times(model: Any, factor: float) -> Model:
    """Return a multiple of a model."""
    name = "dual_coef" if isinstance(model, KernelModel) else "coef"
    changed: Model = replace(
        model, intercept=factor * model.intercept, **{name: factor * getattr(model, name)}
    )
    return changed


def _best_factor(gap_of: Callable[[Model], float], model: Model) -> tuple[float, float]:
    """Return the positive multiple of a model with the smallest gap, and this gap."""
    bounds = (-np.log(LARGEST_FACTOR), np.log(LARGEST_FACTOR))
    found = minimize_scalar(
        lambda t: gap_of(_times(model, float(np.exp(t)))), bounds=bounds, method="bounded"
    )
    return float(np.exp(found.x)), float(found.fun)
