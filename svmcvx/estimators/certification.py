"""Certificates of any program's models: their objective, a lower bound and the gap."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from svmcvx import fast
from svmcvx.arrays import Floats
from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import Certificate, Dual, SolverBound, certificate_of_sum, check
from svmcvx.data import (
    BinaryData,
    CodedLabels,
    Features,
    binary_data,
    check_choice,
    check_features,
    check_labels,
    check_weights,
    multiclass_data,
    parts,
)
from svmcvx.errors import BuildError, DataError, NotCertified
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.binary import BinaryClassifier, keys
from svmcvx.estimators.model_files import NO_ROWS, as_numbers, of_arrays, read_text_model
from svmcvx.estimators.request import weighed
from svmcvx.feature_space import LinearSpace, feature_space
from svmcvx.formulations.margin import PSVM, AbsoluteNormSVM, PenalisedPSVM
from svmcvx.formulations.multiclass.losses import Softmax
from svmcvx.formulations.multiclass.machines import MACHINES, ClassicalStatement
from svmcvx.formulations.multiclass.statement import Regulariser, ScoreSpace
from svmcvx.kernels import Kernel, Linear, Precomputed, as_kernel
from svmcvx.kernels.functions import restricted
from svmcvx.model import KernelModel, LinearModel, Model, OneVsModel
from svmcvx.solution import Solution

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem


# Estimators of scikit-learn whose problem follows from their parameters.
CERTIFIABLE = (SVC, NuSVC, LinearSVC, LogisticRegression)
# Coefficients of a logistic regression up to which its problem is solved for the lower bound.
SOLVED = 600


def certify(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    problem: str | CertifiedClassifier | None = None,
    classes: Any = None,
    **hyperparameters: Any,
) -> Certificate:
    r"""Return the certificate of a model that any program has trained.

    With `problem` any model is an answer to the problem that is named: its objective is the upper
    bound, and a solver of this package finds the lower one. The search does so for the problems
    that are not convex (0-1, ramp and l0).

    Without it the problem is that of the estimator's parameters. The lower bound is that of its own
    multipliers (estimators of this package, ``SVC``, ``NuSVC``, which solves the problem of ``SVC``
    at the C of its largest multiplier, of each pair of classes its own), of a solver of this
    package (``LinearSVC``, and its own estimators whose multipliers leave a gap above `tol`), or of
    the slopes of the losses at the model or after some Newton steps (``penalty="l1"``,
    ``LogisticRegression``). For multipliers of your own:
    ``problem.formulation.certify(model, {"alpha": ...})`` with the problem of a builder.

    Parameters
    ----------
    estimator : estimator of this package, SVC, NuSVC, LinearSVC, LogisticRegression, or any model
        Fitted, or a fitted pipeline that ends in one, with the data that the pipeline was fitted
        to. With `problem` any estimator with ``coef_`` or ``dual_coef_``, a pair ``(coef,
        intercept)``, a mapping with ``coef`` or signed ``dual_coef`` (one a row of `X`, or of
        ``vectors``) and ``intercept``, a linear layer of PyTorch, the path of a model file of
        LIBSVM or LIBLINEAR, or a model of this package. Or a problem of a builder that was solved,
        with no other argument. ``SVC`` with any kernel that is positive semidefinite on the data,
        precomputed and callable ones included. Numbers that the fitted estimator holds
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
    Certificate
        For more than two classes that of the sum of the binary problems' objectives, whose
        ``parts`` are by pairs of labels (``SVC``) or by the label against the rest
        (``LinearSVC``). ``LogisticRegression`` has one problem for any number of classes.

    Raises
    ------
    DataError
        If the estimator is none of these or not fitted, these are not the data it was trained on,
        or its problem is not convex.

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
    if X is None and y is None and hasattr(estimator, "model_at_variables"):
        return _certify_problem(estimator)
    if X is None or y is None:
        raise DataError(
            "certify needs the data: pass X and y; only the problem of a builder is certified"
            " without"
        )
    if isinstance(estimator, Pipeline):
        estimator, X = _last_step(estimator, X)
    itself = problem is None and isinstance(estimator, CertifiedClassifier)
    if itself:
        # The model has the kernel, with its numbers.
        bare = {"kernel": None} if hasattr(estimator, "kernel") else {}
        problem = cast(CertifiedClassifier, clone(estimator)).set_params(**bare)
    if problem is not None:
        stated = _problem_named(problem, hyperparameters)
        return _certify_any(estimator, X, y, sample_weight, stated, classes, itself)
    if hyperparameters or classes is not None:
        named = ", ".join([*hyperparameters, *(["classes"] if classes is not None else [])])
        raise DataError(f"{named} belong to a problem; name it, as in problem='psvm'")
    _refuse_others(estimator)
    # An SVC with a callable kernel does not store its number of features.
    features = check_features(X, n_features=getattr(estimator, "n_features_in_", None))
    codes, classes = check_labels(y, features.shape[0])
    if not np.array_equal(classes, estimator.classes_):
        raise DataError(
            f"y has the classes {classes.tolist()}, but the estimator was trained on"
            f" {list(estimator.classes_)}"
        )
    labels, weight = CodedLabels(codes, classes), check_weights(sample_weight, codes.size)
    by_class = _class_weights(estimator, labels, weight)
    if isinstance(estimator, LogisticRegression):
        return _certify_logistic(estimator, features, labels, weight * by_class[codes])
    if isinstance(estimator, LinearSVC):
        found = _certify_linear_svc(estimator, features, labels, weight, by_class)
    else:
        found = _certify_svc(estimator, features, labels, weight * by_class[codes])
    return found[tuple(classes.tolist())] if classes.size == 2 else certificate_of_sum(found)


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


def _refuse_others(estimator: Any) -> None:
    name = type(estimator).__name__
    if not isinstance(estimator, CERTIFIABLE) or isinstance(estimator, LogisticRegressionCV):
        raise DataError(
            "estimator must be a fitted SVC, NuSVC, LinearSVC or LogisticRegression of"
            f" scikit-learn, such as the best_estimator_ of a search, got {name}; any other model"
            " needs the problem that it answers, as in problem='psvm', C=1.0"
        )
    if not hasattr(estimator, "classes_"):
        raise DataError(f"this {name} is not fitted; call its fit(X, y) first")
    if isinstance(estimator, NuSVC) and estimator.class_weight is not None:
        raise DataError(
            "this NuSVC has a class_weight, which its problem has no place for; pass sample_weight"
            " instead"
        )


def _class_weights(estimator: Any, labels: CodedLabels, weight: Floats) -> Floats:
    """Return the weight of each class: that of the training, or computed as the estimator does."""
    if isinstance(estimator, (SVC, NuSVC)):
        return np.asarray(estimator.class_weight_, dtype=np.float64)
    # "balanced" counts the weights of observations where this version of scikit-learn can do so.
    weighted = "sample_weight" in signature(compute_class_weight).parameters
    found = compute_class_weight(
        estimator.class_weight,
        classes=labels.classes,
        y=np.asarray(labels),
        **({"sample_weight": weight} if weighted else {}),
    )
    return np.asarray(found)


def _certify_svc(
    svc: SVC | NuSVC, X: Features, labels: CodedLabels, weight: Floats
) -> dict[Any, Certificate]:
    """Certify each pair of classes, by the model and the multipliers of libsvm."""
    n, codes = X.shape[0], labels.codes
    if n != svc.shape_fit_[0]:
        raise DataError(f"X has {n} rows, but the estimator was trained on {svc.shape_fit_[0]}")
    support = np.asarray(svc.support_, dtype=np.intp)
    # libsvm counts only rows with a weight.
    counted = np.flatnonzero(weight > 0)
    if support.size and support.max() < counted.size:
        support = counted[support]
    stored = as_numbers(svc.support_vectors_)
    if stored.shape[0] and not np.array_equal(as_numbers(X[support]), stored):
        raise DataError(
            "X does not hold the support vectors of the estimator: pass the data that it was"
            " trained on, with the same sample_weight; of a pipeline's last step, the transformed"
            " data"
        )
    kernel, dual, inner = _svc_kernel(svc), as_numbers(svc.dual_coef_), codes[support]
    # libsvm keeps, for a support vector of class k, its multipliers against the other classes in
    # order; with two classes scikit-learn has turned the sign.
    sign = 1.0 if labels.classes.size == 2 else -1.0
    normals = sign * as_numbers(svc.coef_) if svc.kernel == "linear" else None
    sides = combinations(range(labels.classes.size), 2)
    found = []
    for place, ((k, other), (rows, part)) in enumerate(
        zip(sides, parts(labels, "ovo"), strict=True)
    ):
        v = np.zeros(n)
        own = np.where(inner == k, dual[other - 1], np.where(inner == other, dual[k], 0.0))
        v[support] = sign * own
        data = binary_data(restricted(X, rows, kernel), part, weight[rows])
        coef = None if normals is None else normals[place]
        bias = sign * float(svc.intercept_[place])
        found.append(_certify_pair(svc, data, kernel, v[rows], coef, bias))
    return dict(zip(keys(labels.classes.tolist(), "ovo"), found, strict=True))


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
            " a positive one (scikit-learn's variance of sparse data loses its digits where the"
            " mean is large beside the spread); train it with a positive number as gamma"
        )
    return as_kernel(svc.kernel, gamma=gamma, degree=svc.degree, coef0=svc.coef0)


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
    sizes = np.abs(coefficients)
    # The largest multiplier of a NuSVC is at its bound 1/ρ, or any larger bound is equivalent.
    C = float(svc.C) if isinstance(svc, SVC) else float((sizes / data.weight).max())
    wrong = (coefficients * data.y < 0) | (sizes > C * data.weight * (1.0 + 1e-6))
    if wrong.any() or np.count_nonzero(coefficients) < np.count_nonzero(v):
        raise DataError(
            "the estimator's multipliers do not belong to these labels and weights: pass the y and"
            " the sample_weight that it was trained with (a NuSVC with too small a nu for its data"
            " has such multipliers as well)"
        )
    model: Any = replace(space.model(coefficients), intercept=intercept)  # type: ignore[type-var]
    if coef is not None:
        model = LinearModel(coef, intercept, data.classes, np.flatnonzero(v))
    return PSVM(space=space, C=C, p=1.0).certify(model, {"alpha": sizes})


def _certify_linear_svc(
    svc: LinearSVC, X: Features, labels: CodedLabels, weight: Floats, by_class: Floats
) -> dict[Any, Certificate]:
    """Certify each class against the rest, with the intercept as the coefficient of a constant."""
    if svc.multi_class != "ovr":
        raise DataError(
            f"this LinearSVC has multi_class={svc.multi_class!r}; those with multi_class='ovr' can"
            " be certified"
        )
    value = float(svc.intercept_scaling) if svc.fit_intercept else 0.0
    constant = np.full((X.shape[0], 1), value)
    extended: Any = sp.hstack if sp.issparse(X) else np.hstack
    extended = check_features(extended([X, constant]))
    biases = np.broadcast_to(np.asarray(svc.intercept_, dtype=np.float64), (svc.coef_.shape[0],))
    several = labels.classes.size > 2
    scheme = "ovr" if several else "ovo"
    found = []
    for k, (_, part) in enumerate(parts(labels, scheme)):
        # LIBLINEAR gives the other classes together the weight 1, for any weights of its classes.
        of_rows = np.where(labels.codes == k, by_class[k], 1.0) if several else by_class[part.codes]
        s = weight * of_rows
        data = binary_data(extended, part, s)
        w = np.append(svc.coef_[k], biases[k] / value if value else 0.0).astype(np.float64)
        model, space = LinearModel(w, 0.0, data.classes, NO_ROWS), LinearSpace(data, "none")
        if svc.penalty == "l1":
            absolute = AbsoluteNormSVM(space=space, C=float(svc.C))
            near = [model]
            if (polished := absolute.polished(w)) is not None:
                near.append(replace(model, coef=polished))
            duals = [{"alpha": absolute.multipliers(point)} for point in near]
            found.append(check(absolute, [model], duals, own_models=False).certificate)
            continue
        # Its multipliers are not stored: the problem is solved again.
        how: Any = {"C": float(svc.C), "p": 1.0 if svc.loss == "hinge" else 2.0}
        solved = fast.psvm(extended, part, sample_weight=s, intercept="none", tol=1e-10, **how)
        alpha = solved.dual["alpha"][data.index]
        found.append(PenalisedPSVM(space=space, **how).certify(model, {"alpha": alpha}))
    return dict(zip(keys(labels.classes.tolist(), scheme), found, strict=True))


def _certify_logistic(
    fitted: LogisticRegression, X: Features, labels: CodedLabels, weight: Floats
) -> Certificate:
    absolute = fitted.penalty == "l1" or (
        fitted.penalty in ("deprecated", "elasticnet") and fitted.l1_ratio == 1
    )
    squares = fitted.penalty in ("l2", "deprecated") and not fitted.l1_ratio
    penalised = (absolute or squares) and np.isfinite(fitted.C)
    halved = labels.classes.size == 2
    multinomial = getattr(fitted, "multi_class", "auto") != "ovr" or halved
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
    data = multiclass_data(X, labels, float(fitted.C) * weight)
    scores = ScoreSpace(data, "free" if fitted.fit_intercept else "none")
    lam = 1.0 if halved or absolute else 0.5
    name, penalty = "multinomial_lr", Regulariser.ABSOLUTE if absolute else Regulariser.SQUARES
    name = f"sparse_{name}" if absolute else name
    statement = ClassicalStatement(scores, Softmax(), name, penalty, lam)
    W = np.asarray(fitted.coef_, dtype=np.float64).T
    b = np.broadcast_to(np.asarray(fitted.intercept_, dtype=np.float64), (W.shape[1],))
    if halved:
        W, b = np.hstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    b = b + scores.centre @ W
    slopes = statement.loss.multipliers(statement.differences(W, b))
    duals: list[Dual] = [{"alpha": scores.expand(data.weight[:, None] * slopes)}]
    if W.size <= SOLVED and not absolute:
        how: Any = {"loss": "softmax", "lam": lam, "intercept": bool(fitted.fit_intercept)}
        solved = fast.multiclass(X, labels, sample_weight=float(fitted.C) * weight, tol=1e-9, **how)
        duals.append(dict(solved.dual))
    own = scores.model(W, b, np.ones(data.n, dtype=np.bool_))
    return check(statement, [own], duals, own_models=False).certificate


# Any model as an answer to a problem


def _certify_problem(problem: FormulationProblem) -> Certificate:
    """Return the certificate of the values of a solved problem's variables."""
    if any(variable.value is None for variable in problem.variables()):
        raise DataError(
            "the variables of the problem have no values; solve it first, as in"
            " problem.solve(solver='OSQP')"
        )
    points = problem.recover()
    models = points.models
    # The model of a problem in multipliers is computed from them.
    with suppress(BuildError):
        models = [problem.model_at_variables()]
    try:
        return check(problem.formulation, models, points.duals, own_models=False).certificate
    except NotCertified as error:
        raise DataError(f"the point cannot be certified: {error}") from None


def _problem_named(
    problem: str | CertifiedClassifier, hyperparameters: Mapping[str, Any]
) -> CertifiedClassifier:
    if isinstance(problem, CertifiedClassifier):
        return cast(CertifiedClassifier, clone(problem).set_params(**hyperparameters))
    faces = {name: one.estimator for name, one in CATALOGUE.items() if one.estimator is not None}
    several = faces.pop("multiclass")
    name = str(problem).replace("-", "_").lower()
    check_choice(name, "problem", sorted({*faces, *MACHINES}))
    made = faces[name].load()() if name in faces else several.load()(loss=name)
    return cast(CertifiedClassifier, made.set_params(**hyperparameters))


def _has_multipliers(fitted: CertifiedClassifier, X: Features, codes: NDArray[np.intp]) -> bool:
    """Whether a fitted estimator holds multipliers for rows with labels like these."""
    check_is_fitted(fitted, "solution_")
    kept: Any = fitted._codes
    if getattr(fitted, "shape_fit_", None) != X.shape or not np.array_equal(kept, codes):
        return False
    each = fitted.solution_.parts.values() or (fitted.solution_,)
    return all(one.dual and one.certificate.kind == "convex" for one in each)


def _certify_any(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    estimator: CertifiedClassifier,
    classes: Any,
    itself: bool,
) -> Certificate:
    """Return the certificate of a model in any form; of the binary machines of a file their sum."""
    features = check_features(X)
    codes, known = check_labels(y, features.shape[0])
    if not isinstance(model, str | os.PathLike):
        kernel = getattr(estimator, "kernel", None)
        of = _as_model(model, features, known, classes, kernel), X, y, sample_weight
        if itself and _has_multipliers(model, features, codes):
            bounded = _certify_for(clone(estimator), *of, model.solution_)
            if bounded.is_certified(estimator.tol):
                return bounded
        return _certify_for(estimator, *of)
    labels, weight = known[codes], check_weights(sample_weight, codes.size)
    certificates: dict[Any, Certificate] = {}
    found = read_text_model(Path(model), features)
    several = len(found) > 1
    for one in found:
        pair = isinstance(one.key, tuple)
        rows = np.isin(labels, one.key) if pair and several else np.ones(labels.size, dtype=bool)
        own = labels[rows] if pair else labels == one.key
        stated = _with_bias(clone(estimator), one.bias)
        certificates[one.key] = _certify_for(stated, one.model, features[rows], own, weight[rows])
    return certificate_of_sum(certificates) if several else certificates.popitem()[1]


def _with_bias(estimator: CertifiedClassifier, bias: float | None) -> CertifiedClassifier:
    """Return the problem with a file's intercept, LIBLINEAR's as a constant feature."""
    if bias is None or "intercept" not in estimator.get_params():
        return estimator
    if bias not in (0.0, 1.0):
        raise DataError(
            f"the model has the bias {bias:g}, the value of its constant feature; those with a bias"
            " of 1 or none (-1) can be certified"
        )
    return estimator.set_params(intercept="penalised" if bias else False)


def _certify_for(
    estimator: CertifiedClassifier,
    model: Model,
    X: Any,
    y: Any,
    sample_weight: Any,
    solved: Solution | None = None,
) -> Certificate:
    """Return a model's certificate for a problem, bounded by a solution of it or the fit."""
    members: Sequence[Any] = model.members if isinstance(model, OneVsModel) else (model,)
    several, kernelled = isinstance(model, OneVsModel), isinstance(members[0], KernelModel)
    if kernelled and getattr(estimator, "kernel", None) is None:
        estimator.set_params(kernel=members[0].kernel)
    width = members[0].n_features if kernelled else members[0].coef.shape[0]
    X = check_features(X, n_features=width)
    plain, name = estimator._training_data(X, y, sample_weight), type(estimator).__name__
    labels = plain.labels
    if model.classes.tolist() != labels.classes.tolist():
        raise DataError(
            f"the model has the classes {model.classes.tolist()}, the data"
            f" {labels.classes.tolist()}; they must agree"
        )
    if several != (isinstance(estimator, BinaryClassifier) and labels.classes.size > 2):
        raise DataError(
            f"{name} and the model do not divide the classes alike; certify the model of two"
            " classes"
        )
    # A model with another kernel is a point of another space, and its objective bounds nothing.
    request = estimator._request(plain)
    wanted = request.settings.get("kernel") or Linear()
    if (kernel := getattr(members[0], "kernel", None) or Linear()) != wanted:
        raise DataError(
            f"the model has the kernel {kernel}, the problem {wanted}; leave out the kernel to"
            " certify the model of a file or of this package for its own"
        )
    problems = [(np.arange(len(labels)), labels)]
    if isinstance(model, OneVsModel):
        estimator.set_params(multiclass=model.scheme)
        problems = list(parts(labels, model.scheme))
    solved = estimator._fit(plain).solution_ if solved is None else solved
    counts = np.bincount(labels.codes, plain.sample_weight, labels.classes.size)
    of_class = estimator._weights_of_classes(labels.classes, counts)
    whole = weighed(plain, np.ones(counts.size) if of_class is None else of_class)
    weights = cast(Floats, whole.sample_weight)
    found = {}
    for (key, bounded), member, (rows, part) in zip(
        (solved.parts or {None: solved}).items(), members, problems, strict=True
    ):
        lower, kind = bounded.certificate.lower, bounded.certificate.kind
        if lower is None or kind == "local":
            raise DataError(
                f"{name} has found no lower bound of this problem, which is not convex; its search"
                " proves one on fewer rows, or with a larger time_limit"
            )
        if several and isinstance(wanted, Precomputed):
            here = np.searchsorted(rows, member.support)
            member = replace(member, support=here, n_features=rows.size)
        weight = weights[rows]
        own = {} if np.all(weight == 1.0) else {"sample_weight": weight}
        X = restricted(plain.X, rows, wanted)
        statement: Any = request.problem(X, part, **own).formulation
        bound = None
        if kind != "convex":
            statement, bound = replace(statement, kind=kind), SolverBound(lower, 0.0)
        duals = [bounded.dual] if bounded.dual else []
        try:
            checked = check(statement, [member], duals, solver_bound=bound, own_models=False)
        except NotCertified as error:
            raise DataError(f"the model cannot be certified on these data: {error}") from None
        found[key] = checked.certificate
    return certificate_of_sum(found) if several else found[None]


def _as_model(model: Any, X: Any, labels: NDArray[Any], classes: Any, kernel: Any) -> Model:
    """Return a model from a fitted estimator, arrays or a layer of a network."""
    if isinstance(model, Model):
        return model
    if isinstance(model, CertifiedClassifier):
        return model.model_
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
    else:
        # The fields of an estimator, by its attributes; a layer of a network has weight and bias.
        fields = {"coef": "coef_", "intercept": "intercept_"}
        if hasattr(model, "weight") and hasattr(model, "bias"):
            fields = {"coef": "weight", "intercept": "bias"}
        elif hasattr(model, "support_vectors_") or not hasattr(model, "coef_"):
            fields = {"dual_coef": "dual_coef_", "intercept": "intercept_"}
            fields["vectors"] = "support_vectors_"
        parts = {name: getattr(model, field, None) for name, field in fields.items()}
        parts = {name: value for name, value in parts.items() if value is not None}
        if not parts:
            raise DataError(
                "model must be a fitted estimator with coef_ or dual_coef_, (coef, intercept), a"
                " mapping with coef or dual_coef, a linear layer, a model file of LIBSVM or"
                f" LIBLINEAR, or a model of this package, got {type(model).__name__}"
            )
    return of_arrays(parts, X, order, kernel)
