"""What all estimators share: validation, the two routes to a solution, and the model found."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import PackageNotFoundError, metadata
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, cast, dataclass_transform

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted, validate_data

import svmcvx
from svmcvx.arguments import ARGUMENTS, check_shared, documented, refuse_unknown, what_was_meant
from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL, Entry, find
from svmcvx.certificate import Certificate
from svmcvx.data import (
    CodedLabels,
    Features,
    as_array,
    check_choice,
    check_features,
    check_labels,
    check_time_limit,
    check_weights,
)
from svmcvx.errors import DataError, DataTypeError
from svmcvx.estimators.request import Request, TrainingData, choose, unsupported_settings, weighed
from svmcvx.feature_space import check_square
from svmcvx.guarantees import Guarantee, Interval, guarantee
from svmcvx.kernels import RBF, Linear, Polynomial, Precomputed, Sigmoid
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel, OneVsModel, frozen
from svmcvx.proofs import Statement
from svmcvx.row_blocks import (
    ClassPartition,
    Piece,
    in_blocks,
    label_counts,
    labelled_pieces,
    refuse_in_blocks,
)
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import current, time_limited

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from svmcvx.formulations.problem import FormulationProblem

T = TypeVar("T")

# Parameters of estimators that are not arguments of a builder.
SHARED: Final = (
    "gamma degree coef0 class_weight multiclass decision_function_shape break_ties n_jobs solver"
    " tol time_limit max_iter cache_size verbose"
)


@cache
def site() -> str:
    """Return the address of this version's pages, empty if the distribution was built without."""
    with suppress(PackageNotFoundError):
        for url in metadata("svmcvx").get_all("Project-URL") or ():
            if url.startswith("Documentation, "):
                return f"{url.removeprefix('Documentation, ')}/{svmcvx.__version__}"
    return ""


@cache
def _own_parameters(cls: Any) -> list[str]:
    """Return the parameters of an estimator that are arguments of its builder."""
    return [name for name in cls._get_param_names() if name not in SHARED.split()]


# Attributes of fitted estimators: the shared ones, with two readings of the model for {model}.
ATTRIBUTES = """classes_ : ndarray of shape (c,)
    solution_ : Solution
        Model, certificate, attempts, timings.
    certificate_ : Certificate
        The checked interval around the optimum.
    model_ : Model
{model}
    class_weight_ : ndarray of shape (c,)
        The weights of the classes.
    shape_fit_ : tuple of int
        Shape of the training data.
    fit_status_ : int
        0 if the gap asked for was certified, else 1.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : ndarray of int
        Iterations of the solver, a number a binary machine, where it reports them.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If `X` had string column names."""
ONE_SCORE = """    coef_, intercept_, dual_coef_ : ndarray
        One row a binary machine, positive for the later class of a pair, where they exist;
        read-only.
    support_, n_support_, support_vectors_ : ndarray
        Rows of the training data with a non-zero multiplier, class by class; their numbers; the
        rows, for a kernel.
    solutions_, certificates_ : dict
        Of each binary machine, by its pair of labels (or label); ``certificate_`` is the interval
        of the sum of their objectives."""
SCORE_OF_EACH_CLASS = """    coef_, intercept_, support_, n_support_ : ndarray
        As in scikit-learn; read-only."""


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make a class's annotations its keyword-only parameters, before the shared ones."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    initialise = made.__init__
    signature = inspect.signature(initialise)
    itself, *parameters = signature.parameters.values()
    shared = list(ARGUMENTS)
    parameters.sort(
        key=lambda parameter: shared.index(parameter.name) if parameter.name in shared else -1
    )
    known = {parameter.name for parameter in parameters}

    @wraps(initialise)
    def checked(self: Any, *unnamed: Any, **given: Any) -> None:
        if unnamed:
            raise DataTypeError(
                f"parameters of {made.__name__} have names: write"
                f" {made.__name__}({parameters[0].name}={unnamed[0]!r})"
            )
        if not known.issuperset(given):
            refuse_unknown(made.__name__, given, [parameter.name for parameter in parameters])
        initialise(self, **given)

    checked.__signature__ = signature.replace(parameters=[itself, *parameters])  # type: ignore[attr-defined]
    made.__init__ = checked
    documented(made)
    if made.__doc__ and "\n    Parameters\n" in made.__doc__:
        head, examples = made.__doc__.rstrip().split("\n\n    Examples\n")
        attributes = ATTRIBUTES.format(
            model=ONE_SCORE if "kernel" in known else SCORE_OF_EACH_CLASS
        )
        made.__doc__ = (
            f"{head}\n\n    Attributes\n    ----------\n    {attributes}\n\n   "
            f" Examples\n{examples}\n    "
        )
    return made  # type: ignore[no-any-return]


class _Fitted(ClassifierMixin, BaseEstimator):
    """Attributes that a fit sets, and class attributes that are not parameters of all."""

    # Name of the formulation in svmcvx.catalogue; None for one that is not there.
    _formulation: ClassVar[str | None] = None

    # Share of tol that the specialised solver is asked for on small data, where the last steps of
    # Newton's method cost nothing and scores agree to 1e-7 for any order or copies of the rows.
    _sharper: ClassVar[float] = 1.0

    # Of the cache of kernel rows, for estimators that have it as a parameter.
    cache_size: float | None = None

    solution_: Solution
    classes_: NDArray[Any]
    class_weight_: Floats
    n_features_in_: int
    shape_fit_: tuple[int, int]
    fit_status_: int
    # Description of a certificate that misses the tolerance; None otherwise.
    _warning: str | None
    # Positions of the labels of the training data among the classes; None for rows in blocks.
    _codes: NDArray[np.unsignedinteger[Any]] | None
    solver_route_: str
    solver_reason_: str
    guarantee_: Guarantee


@estimator
class CertifiedClassifier(_Fitted):
    """What all estimators share: validation, the two routes to a solution, and the model found."""

    class_weight: Mapping[Any, float] | str | None = None
    solver: str = "auto"
    tol: float = TOL
    time_limit: float | None = None
    max_iter: int | None = None
    verbose: bool = False

    def set_params(self, **params: Any) -> Self:
        known = self.get_params()
        if unknown := [name for name in params if "__" not in name and name not in known]:
            raise DataError(
                f"{type(self).__name__} has no parameter"
                f" {unknown[0]!r}{what_was_meant(unknown[0], list(known))}"
            )
        return cast(Self, super().set_params(**params))

    def _stated_as(self) -> str | None:
        """Return the name in :mod:`svmcvx.catalogue` of the formulation that is solved."""
        return self._formulation

    def _builder(self) -> Callable[..., FormulationProblem]:
        """Return the builder, the catalogue's unless an external estimator overrides it."""
        entry = find(self._stated_as())
        if entry is None:
            raise TypeError(
                f"{type(self).__name__} must return by _builder() the function that builds its"
                " problem"
            )
        build: Callable[..., FormulationProblem] = entry.builder().load()
        return build

    def _settings(self) -> dict[str, Any]:
        """Return the builder's arguments besides data and weights, the estimator's by default."""
        cls: Any = type(self)
        return {name: getattr(self, name) for name in _own_parameters(cls)}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the formulation; Ctrl-C raises, and the best point stays in ``solution_``."""
        data = None
        with time_limited(check_time_limit(self.time_limit)) as deadline:
            if not isinstance(X, np.ndarray) and in_blocks(X):
                self._fit_blocks(X, y, sample_weight)
            else:
                data = self._training_data(X, y, sample_weight)
                self._fit(data)
            if deadline.interrupt_requested.is_set():
                raise KeyboardInterrupt
            label = None if data is None or self._warning else self._only_class(data)
        if self._warning is not None:
            warnings.warn(self._warning, ConvergenceWarning, stacklevel=2)
        elif label is not None:
            warnings.warn(
                f"{type(self).__name__} predicts one class only, {label!r}, on its training data:"
                " give the losses more weight, scale the columns, or pass class_weight='balanced'",
                stacklevel=2,
            )
        return self

    def _only_class(self, data: TrainingData) -> Any:
        """Return the label that all predictions for the training data name; None if there are two
        (most often already for the first rows of ten classes), or no time is left.
        """
        codes: Any = self._codes
        found: set[Any] = set()
        blocks = (slice(k, k + 1000) for k in range(0, codes.size, 1000))
        for rows in (np.unique(codes, return_index=True)[1][:10], *blocks):
            found.update(self.model_.predict(data.X[rows]).tolist())
            if len(found) > 1 or current().passed():
                return None
        return found.pop()

    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any) -> None:
        entry = find(self._stated_as())
        if entry is None or entry.fast is None or not entry.takes.row_blocks:
            raise DataError(
                f"{type(self).__name__} does not take rows in blocks; load the data, or use a"
                " sample of them"
            )
        settings = self._settings()
        refuse_in_blocks(solver=self.solver not in ("auto", "fast"))
        refuse_in_blocks(kernel=settings.get("kernel") is not None)
        if unknown := unsupported_settings(entry.fast, settings):
            raise DataError(
                f"{unknown[0]} cannot be changed for rows in blocks; leave it out, or load the data"
            )
        request = self._make_request(entry, settings, ("fast", "rows in blocks", False))
        with time_limited(self.time_limit):
            balanced = self.class_weight == "balanced"
            classes, counts = label_counts(X, y, sample_weight, weighted=balanced)
            weights = self._weights_of_classes(classes, counts)
            sides = ClassPartition(y, classes, weights)
            self.solution_ = self._solve_blocks(request, X, sides, sample_weight)
        if hasattr(self, "shape_fit_"):
            # Of an earlier fit; the number of rows is not stored.
            del self.shape_fit_
        self._conclude(request, self.solution_.model.classes, weights)
        self._codes = None
        model = self.solution_.model
        first = model.members[0] if isinstance(model, OneVsModel) else model
        self.n_features_in_ = cast(LinearModel, first).coef.size
        if (names := getattr(X, "columns", None)) is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _solve_blocks(
        self, request: Request, X: Any, sides: ClassPartition, sample_weight: Any
    ) -> Solution:
        y = sides.given if sides.factors is None and sides.classes.size == 2 else sides
        return request.run(X, y, sample_weight, None)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on data, weighted if weights are passed."""
        pieces: Iterable[Piece] = [Piece(X, y, sample_weight)]
        if not isinstance(X, np.ndarray) and in_blocks(X):
            pieces = (piece for piece in labelled_pieces(X, y, sample_weight) if piece.X.shape[0])
        hit = total = 0.0
        for rows, given, weights in pieces:
            predicted = np.asarray(self.predict(rows))
            labels = as_array(given, "y")
            labels = labels.ravel() if labels.shape == (predicted.size, 1) else labels
            if labels.shape != predicted.shape:
                raise DataError(
                    f"y must hold one label for each of the {predicted.size} rows of X, got shape"
                    f" {labels.shape}"
                )
            weight = check_weights(weights, predicted.size)
            hit, total = hit + float(weight[predicted == labels].sum()), total + float(weight.sum())
        if not total:
            raise DataError("sample_weight must not be zero everywhere")
        return hit / total

    def guarantee(self, X: Any, y: Any) -> Guarantee:
        """Compute the ``guarantee_`` of every optimal machine, for the next two methods."""
        check_is_fitted(self, "solution_")
        self._check_columns(X, reset=False)
        self.guarantee_ = guarantee(self, X, y)
        self._guaranteed = self.solution_
        return self.guarantee_

    def _current_guarantee(self) -> Guarantee:
        check_is_fitted(self, "solution_")
        if getattr(self, "_guaranteed", None) is not self.solution_:
            raise DataError(
                f"this {type(self).__name__} does not keep its training data: call guarantee(X, y)"
                " with them after the fit"
            )
        return self.guarantee_

    def predict_guaranteed(self, T: Any) -> NDArray[Any]:
        """Return the label of each row by *every* optimal machine, None if undecided."""
        return self._current_guarantee().predict(self._checked(T))

    def score_interval(self, T: Any, y: Any, metric: str = "accuracy") -> Interval:
        """Return an interval of the optimal machine's score; one number if all is decided."""
        check_choice(metric, "metric", ("accuracy", "balanced_accuracy", "error", "auc"))
        found: Interval = getattr(self._current_guarantee(), metric)(T, y)
        return found

    def _training_data(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        """Validate training data, and remember their columns."""
        checked = check_features(X)
        labels = CodedLabels(*check_labels(y, checked.shape[0]), checked)
        if as_array(y, "y").ndim == 2:
            message = "A column-vector y was passed when a 1d array was expected; pass y.ravel()"
            warnings.warn(message, DataConversionWarning, stacklevel=3)
        kernel = getattr(self, "kernel", None)
        if isinstance(kernel, Precomputed) or kernel == "precomputed":
            check_square(checked.shape)
        self._check_columns(X, reset=True)
        weight = None if sample_weight is None else check_weights(sample_weight, len(labels))
        return TrainingData(checked, labels, weight)

    def _fit(self, data: TrainingData, warm_start: Solution | None = None) -> Self:
        """Fit to validated data, from an earlier ``solution_`` of these where it is useful."""
        classes, given = data.labels.classes, data.sample_weight
        counts = np.bincount(data.labels.codes, weights=given, minlength=classes.size)
        of_class = self._weights_of_classes(classes, counts)
        chosen = np.flatnonzero(counts)
        if 1 < chosen.size < classes.size:
            of_class = None if of_class is None else of_class[chosen]
            data = self._without_other_classes(data, chosen)
        labels, request = data.labels, self._request(data)
        self.solution_ = self._solve(request, weighed(data, of_class), warm_start)
        self._codes = labels.codes.astype(np.min_scalar_type(labels.classes.size - 1))
        self.shape_fit_ = data.X.shape
        self._conclude(request, labels.classes, of_class)
        return self

    def _conclude(
        self, request: Request, classes: NDArray[Any], class_weight: Floats | None
    ) -> None:
        self.solver_route_, self.solver_reason_ = request.route, request.reason
        self.classes_ = classes
        self.class_weight_ = np.ones(classes.size) if class_weight is None else class_weight
        self._warning = self._shortfall(self.solution_)
        self.fit_status_ = int(self._warning is not None)

    def _without_other_classes(self, data: TrainingData, chosen: NDArray[np.intp]) -> TrainingData:
        """Warn about classes without weight, and merge them into the first of the others."""
        codes, classes, features = data.labels.codes, data.labels.classes, data.labels.features
        left_out = ", ".join(map(repr, np.delete(classes, chosen).tolist()))
        warnings.warn(
            f"sample_weight is zero for every observation of {left_out}, which is left out; it is"
            " never predicted",
            stacklevel=4,
        )
        places = np.where(np.isin(codes, chosen), np.searchsorted(chosen, codes), 0)
        return data._replace(labels=CodedLabels(places, classes[chosen], features))

    def _solve(self, request: Request, data: TrainingData, warm_start: Solution | None) -> Solution:
        return request.run(*data, warm_start)

    def _largest(self, data: TrainingData) -> int:
        """Return the number of observations of the largest problem that is solved."""
        return len(data.labels)

    def _checked(self, X: Any) -> Features:
        """Return validated rows with the columns of the training data."""
        checked = check_features(X)
        self._check_columns(X, reset=False)
        return checked

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Set or compare the names and the number of features of validated `X`."""
        if reset and isinstance(X, np.ndarray) and not hasattr(self, "feature_names_in_"):
            # An array has no names.
            self.n_features_in_ = X.shape[1]
            return
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except TypeError as error:
            raise DataTypeError(f"the columns of X: {error}") from None
        except ValueError as error:
            raise DataError(str(error)) from None

    def _request(self, data: TrainingData) -> Request:
        """Return the problem and its route, with one kernel scale for all classes and weights."""
        stated, n = self._stated_as(), self._largest(data)
        settings, weight = self._settings(), data.sample_weight
        if settings.get("kernel") is not None:
            # Weights that are all zero are refused by the formulation.
            counted = weight if weight is not None and weight.any() else None
            settings["kernel"] = settings["kernel"].resolve(data.X, counted)
        weighted = weight is not None or self.class_weight is not None
        given = settings | ({"sample_weight": True} if weighted else {})
        entry, name = find(stated), stated or type(self).__name__
        route = choose(self.solver, entry, name, n, given)
        return self._make_request(entry, settings, route)

    def _make_request(
        self, entry: Entry | None, settings: dict[str, Any], route: tuple[str, str, bool]
    ) -> Request:
        names = ("tol", "time_limit", "max_iter", "cache_size")
        limits = {name: getattr(self, name) for name in names}
        check_shared(limits)
        return Request(
            entry,
            self._builder,
            settings,
            self.solver,
            *route,
            verbose=self.verbose,
            sharper=self._sharper,
            **limits,
        )

    def _weights_of_classes(self, classes: NDArray[Any], counts: NDArray[Any]) -> Floats | None:
        """Return the class weights, given the sums of sample weights; None without any."""
        if self.class_weight is None:
            return None
        if not isinstance(self.class_weight, (str, Mapping)):
            raise DataError(
                "class_weight must be None, 'balanced' or a dict of label to weight, got"
                f" {self.class_weight!r}"
            )
        if self.class_weight == "balanced":
            # scikit-learn's definition; an observation of weight k counts like k copies, and a
            # class without weight like one without observations.
            total = np.where(counts > 0, counts, 1.0)
            weight = counts.sum() / (max(np.count_nonzero(counts), 1) * total)
            weight[counts == 0] = 1.0
        else:
            try:
                found = compute_class_weight(self.class_weight, classes=classes, y=classes)
                weight = np.asarray(found, dtype=np.float64)
            except (ValueError, TypeError) as error:
                raise DataError(f"class_weight cannot be used: {error}") from None
        weight = check_weights(weight, classes.size, name="class_weight")
        if not weight.all():
            raise DataError(
                f"class_weight must be positive, got 0 for {classes[weight == 0].tolist()[0]!r};"
                " leave the class out instead"
            )
        return weight

    def _shortfall(self, solution: Solution) -> str | None:
        """Describe a certificate that misses the tolerance; None if it is not."""
        certificate, status = solution.certificate, Status(solution.status)
        if certificate.kind == "local":
            # A local method proves no gap; the only requirement is that it ran to its end.
            ended = status in (Status.OPTIMAL, Status.STATIONARY)
            return None if ended else f"the local search stopped early: {status}"
        if certificate.is_certified(self.tol):
            return None
        limits = {Status.ITERATION_LIMIT: "raise max_iter", Status.TIME_LIMIT: "raise time_limit"}
        return (
            f"certified relative gap {certificate.gap:.2g} exceeds {self.tol:.2g}: the optimum lies"
            f" in [{certificate.lower}, {certificate.upper}];"
            f" {limits.get(status, 'scale the data or raise tol')}, or see solution_.attempts"
        )

    @property
    def model_(self) -> Model:
        """The model, free of solvers; it can be saved without pickle."""
        check_is_fitted(self, "solution_")
        return self.solution_.model

    @property
    def certificate_(self) -> Certificate:
        """The checked interval around the optimum; of several binary problems, of their sum."""
        check_is_fitted(self, "solution_")
        return self.solution_.certificate

    @property
    def predict_proba(self) -> Any:
        """There are no probabilities: it raises AttributeError."""
        raise AttributeError(
            f"{type(self).__name__} has no probabilities; those of"
            " sklearn.calibration.CalibratedClassifierCV around it follow from its scores"
        )

    def plot(self, X: Any, y: Any, ax: Axes | None = None) -> Axes:
        """Draw the decision over two features, or the margins of more (:mod:`svmcvx.plot`)."""
        from svmcvx import plot

        flat = check_features(X).shape[1] == 2
        return (plot.decision_regions if flat else plot.margin_distribution)(self, X, y, ax=ax)

    def _get_doc_link(self) -> str:
        """Return the page of the class, for the HTML of scikit-learn."""
        own = type(self).__module__.startswith("svmcvx.")
        return f"{site()}/_api/svmcvx.{type(self).__name__}.html" if own and site() else ""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_svmcvx_version": svmcvx.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = dict(state)
        if (version := own.pop("_svmcvx_version", "0.3")) != svmcvx.__version__:
            warnings.warn(
                f"this {type(self).__name__} was stored by svmcvx {version} and is read by"
                f" {svmcvx.__version__}: fit it again, or keep its model_ with save(path)",
                stacklevel=2,
            )
        super().__setstate__(own)

    def to_sklearn(self) -> Any:
        """Return an ``SVC`` or ``LinearSVC`` of scikit-learn with the same scores and labels."""
        made = as_scikit_learn(self.model_)
        if hasattr(self, "feature_names_in_"):
            made.feature_names_in_ = self.feature_names_in_
        return made

    def proof_statement(self) -> Statement:
        """Return the solved problem as a proof states it, for :func:`svmcvx.verify`."""
        check_is_fitted(self, "solution_")
        return self.solution_.proof_statement()

    @property
    def n_iter_(self) -> NDArray[np.intp]:
        """Iterations in the solver's own unit, at least 1, one number per binary problem."""
        check_is_fitted(self, "solution_")
        counts = []
        for solution in self._solved():
            known = [a.iterations for a in solution.attempts if a.iterations is not None]
            if solution.attempts and not known:
                raise AttributeError("n_iter_ exists for solvers that report their iterations only")
            counts.append(max(sum(known), 1))
        return frozen(np.array(counts, dtype=np.intp))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solved(self) -> tuple[Solution, ...]:
        return (self.solution_,)

    @property
    def support_(self) -> NDArray[np.intp]:
        """Training rows with a non-zero multiplier, class by class, each class in order."""
        support = self.model_.support
        if self._codes is None:
            return support
        return frozen(support[np.argsort(self._codes[support], kind="stable")])

    @property
    def n_support_(self) -> NDArray[np.intp]:
        """Number of the rows :attr:`support_` of each class, shape (c,)."""
        support = self.model_.support
        if self._codes is None:
            raise AttributeError(
                "n_support_ does not exist for rows in blocks, whose labels are not kept"
            )
        return frozen(np.bincount(self._codes[support], minlength=self.classes_.size))


NAMES: dict[Any, str] = {RBF: "rbf", Polynomial: "poly", Sigmoid: "sigmoid", Linear: "linear"}


def as_scikit_learn(model: Model) -> SVC | LinearSVC:
    """Return an ``SVC`` or a ``LinearSVC`` with the scores of a model."""
    if isinstance(model, LinearModel):
        return _linear([model.coef], [model.intercept], model.classes)
    if isinstance(model, MulticlassModel):
        return _linear(model.coef.T, model.intercept, model.classes)
    members: list[Any] = list(getattr(model, "members", ()))
    pairs = isinstance(model, OneVsModel) and model.scheme == "ovo"
    if members and not pairs and all(isinstance(member, LinearModel) for member in members):
        coef, intercept = zip(*((m.coef, m.intercept) for m in members), strict=True)
        return _linear(coef, intercept, model.classes)
    if isinstance(model, KernelModel) or pairs:
        each = members or [model]
        named = all(type(getattr(one, "kernel", None)) in NAMES for one in each)
        if named and all(one.vectors is not None for one in each):
            return _svc(model, each)
    kernel = getattr(members[0] if members else model, "kernel", None)
    what = "a linear model for each pair of classes" if kernel is None else f"the kernel {kernel}"
    raise DataError(
        f"SVC and LinearSVC cannot hold {what}; those with kernel='linear' or an RBF, polynomial or"
        " sigmoid kernel, one against one, and linear ones with one score a class can be converted"
    )


def _linear(coef: Any, intercept: Any, classes: NDArray[Any]) -> LinearSVC:
    coef, intercept = np.array(coef), np.array(intercept)
    # A fit to one number per class sets the other attributes of a fitted estimator.
    made = LinearSVC(max_iter=100_000).fit(np.arange(classes.size)[:, None], np.asarray(classes))
    made.coef_, made.intercept_, made.n_features_in_ = coef, intercept, coef.shape[1]
    return made


def _svc(model: Any, members: Sequence[KernelModel]) -> SVC:
    """Return an ``SVC`` from the model, or the models of all pairs of classes."""
    c, d = model.classes.size, members[0].n_features
    pairs = [*zip(combinations(range(c), 2), members, strict=True)]
    # libsvm orders support vectors by class, and its scores are positive for the first of a pair.
    every = [np.where(one.dual_coef > 0, pair[1], pair[0]) for pair, one in pairs]
    found, first = np.unique(np.concatenate([one.support for one in members]), return_index=True)
    order = np.argsort(np.concatenate(every)[first], kind="stable")
    codes, support = np.concatenate(every)[first][order], found[order]
    stack: Any = sp.vstack if sp.issparse(members[0].vectors) else np.vstack
    stacked = stack([one.vectors for one in members])[first[order]]
    vectors = np.ascontiguousarray(stacked.toarray() if sp.issparse(stacked) else stacked, float)
    dual = np.zeros((c - 1, support.size))
    for (k, later), one in pairs:
        at = order.argsort()[np.searchsorted(found, one.support)]
        dual[np.where(codes[at] == k, later - 1, k), at] = -one.dual_coef
    kernel: Any = members[0].kernel
    made = SVC(kernel=NAMES[type(kernel)], break_ties=c > 2, **kernel.get_params())
    made.fit(np.repeat(np.arange(c)[:, None], d, axis=1), model.classes)
    made.support_, made.support_vectors_ = support.astype(np.int32), vectors
    made._n_support = np.bincount(codes, minlength=c).astype(np.int32)
    made._dual_coef_, made._intercept_ = dual, -np.array([one.intercept for one in members])
    sign = -1.0 if c == 2 else 1.0
    made.dual_coef_, made.intercept_ = sign * made._dual_coef_, sign * made._intercept_
    if vectors.shape[0]:
        own, theirs = model.decision_function(vectors), made.decision_function(vectors)
        # The scores agree but for rounding.
        if np.abs(own - theirs).max() > 1e-9 * max(1.0, float(np.abs(own).max())):
            raise DataError(
                "this version of scikit-learn computes other scores from the same support vectors;"
                " please report it"
            )
    return made
