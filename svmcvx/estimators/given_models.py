"""Certificates of models that someone else has found: of any package, in arrays or files, or the
point of a solved problem.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from svmcvx.arguments import what_was_meant
from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import Certificate, SolverBound, check
from svmcvx.data import check_features, check_labels
from svmcvx.errors import BuildError, DataError, NotCertified, did_you_mean
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.pairs import CompositeSolution
from svmcvx.formulations.multiclass.baselines import MACHINES
from svmcvx.kernels import Linear, as_kernel
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel
from svmcvx.model.text_files import TextModel, read_text_model

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem

__all__ = [
    "as_model",
    "certify_any",
    "certify_problem",
    "is_problem",
    "problem_named",
    "require_kernel",
    "unsolved",
]

Floats: TypeAlias = NDArray[np.float64]

# A model with a larger gap is compared with its negative, its multiples, and the problem with
# averaged losses.
LOOSE = 0.01
# The warning names an alternative whose gap is smaller by this factor.
MUCH_LESS = 0.1
# The factor of a multiple is between the reciprocal of this number and the number.
LARGEST_FACTOR = 1e4
# Names of the weight of the losses, and of the penalty: averaging the losses only changes the
# weight.
LOSS_WEIGHTS, PENALTIES = ("C", "C1"), ("lam",)


class _Problem:
    """A problem whose optimum an estimator has bounded, for any models."""

    def __init__(self, estimator: CertifiedClassifier, X: Any, y: Any, sample_weight: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate has the gap
            fitted = estimator.fit(X, y, sample_weight)
        solution = fitted.solution_
        name = type(estimator).__name__
        if isinstance(solution, CompositeSolution):
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
        _tell_what_fits(checked.certificate.gap, gap, checked.model, [])
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
    """Return the certificate of a model; warn if its negative, a multiple, or another weight of the
    losses has a much smaller gap.
    """
    problem = _Problem(estimator, X, y, sample_weight)
    certificate = problem.certificate(model)
    if certificate.gap <= LOOSE:
        return certificate
    averaged = _averaged(estimator, model, X, y, sample_weight, np.shape(X)[0])
    _tell_what_fits(certificate.gap, problem.gap, model, averaged)
    return certificate


def _tell_what_fits(
    own: float, gap_of: Callable[[Model], float], model: Model, others: list[tuple[float, str]]
) -> None:
    """Warn if the negative of a model, a multiple, or one of the other readings has a much smaller
    gap, or zero coefficients a smaller one.
    """
    factor, scaled = _best_factor(gap_of, model)
    hints = [
        (gap_of(_times(model, -1.0)), "with the opposite sign"),
        (scaled, f"multiplied by {factor:.3g}"),
        *others,
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


def _averaged(
    estimator: CertifiedClassifier, model: Model, X: Any, y: Any, sample_weight: Any, n: int
) -> list[tuple[float, str]]:
    """Return the gaps of a model for the problem whose losses are averaged, and for the one whose
    losses are summed.
    """
    values = estimator.get_params()
    found = []
    for divided in (True, False):
        scale = 1.0 / n if divided else float(n)
        changed = {
            name: values[name] * scale for name in LOSS_WEIGHTS if values.get(name) is not None
        }
        changed |= {
            name: values[name] / scale for name in PENALTIES if values.get(name) is not None
        }
        if not changed:
            continue
        gap = _Problem(clone(estimator).set_params(**changed), X, y, sample_weight).gap(model)
        said = ", ".join(f"{name} = {value:.3g}" for name, value in changed.items())
        found.append(
            (gap, f"for {said} (the mean of the losses in place of their sum, or the reverse)")
        )
    return found
