"""What the estimators of binary formulations share, for two classes or more."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from svmcvx.catalogue import find
from svmcvx.certificate import Certificate
from svmcvx.data import CodedLabels, Features, check_choice, check_features
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier, estimator, read_only
from svmcvx.estimators.request import FAST, Request, Route, TrainingData
from svmcvx.kernels import Kernel, Linear, Precomputed, as_kernel
from svmcvx.kernels.gram_cache import CachedKernel
from svmcvx.model import BinaryModel, KernelModel, LinearModel, OneVsModel, class_scores, pair_votes
from svmcvx.row_blocks import in_blocks
from svmcvx.row_blocks.shards import ClassPartition, mapped_rows
from svmcvx.solution import Solution, composite
from svmcvx.system.deadline import time_limited

if TYPE_CHECKING:
    from svmcvx.fast.margin.pairs import SolvedParts

Floats: TypeAlias = NDArray[np.float64]

SCHEMES = ("ovo", "ovr")
# Megabytes of kernel rows where the estimator says nothing.
DEFAULT_CACHE = 500.0
# Number of binary problems that are solved before the total time is estimated, and the seconds
# above which a warning names it.
TIMED, LONG = 3, 30.0


@estimator
class BinaryClassifier(CertifiedClassifier):
    """Base class of the estimators of binary formulations; several classes are taken apart into
    binary problems.

    An estimator of a formulation outside this package derives from it: ``__init__`` sets the
    hyper-parameters, and ``_builder`` returns the function that builds the problem from ``X``,
    ``y`` and them (and ``sample_weight``, if weights are passed to ``fit``). A shared parameter
    that ``__init__`` does not list has the value below; the builder gets `kernel` as a
    :class:`svmcvx.Kernel`, if ``__init__`` lists it. ``docs/add_formulation.md`` shows an example,
    and :mod:`svmcvx.arguments` documents the parameters.
    """

    kernel: Kernel | str | Callable[[Any, Any], Any] | None = None
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    indefinite: str = "error"
    multiclass: str = "ovo"
    decision_function_shape: str = "ovr"
    break_ties: bool = True
    n_jobs: int | None = None

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__gamma`` and the like set those of a kernel object, by another
        one in its place.

        Parameters
        ----------
        **params
            Names and values, as in scikit-learn.

        Returns
        -------
        self
        """
        prefix = "kernel__"
        super().set_params(
            **{name: value for name, value in params.items() if not name.startswith(prefix)}
        )
        own = {
            name.removeprefix(prefix): value
            for name, value in params.items()
            if name.startswith(prefix)
        }
        if own:
            if not isinstance(self.kernel, Kernel):
                raise DataError(
                    f"{prefix}{next(iter(own))} needs a kernel object, such as kernel=svmcvx.RBF();"
                    f" kernel={self.kernel!r} has gamma, degree and coef0 beside it"
                )
            if unknown := own.keys() - self.kernel.get_params().keys():
                names = ", ".join(self.kernel.get_params()) or "none"
                raise DataError(
                    f"{self.kernel!r} has no parameter {min(unknown)!r}; it has {names}"
                )
            self.kernel = replace(self.kernel, **own)  # type: ignore[type-var]
        return self

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        return settings | {"kernel": self._kernel()} if "kernel" in settings else settings

    def _kernel(self) -> Kernel | None:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _check_several(self) -> None:
        """Check the parameters for several classes, for any number of classes."""
        settings = (self.multiclass, self.decision_function_shape, self.break_ties, self.n_jobs)
        if settings == ("ovo", "ovr", True, None) and self.break_ties is True:
            return
        check_choice(self.multiclass, "multiclass", SCHEMES)
        check_choice(self.decision_function_shape, "decision_function_shape", ("ovr", "ovo"))
        if not isinstance(self.break_ties, (bool, np.bool_)):
            raise DataError(f"break_ties must be True or False, got {self.break_ties!r}")
        if (self.multiclass, self.decision_function_shape) == ("ovr", "ovo"):
            raise DataError(
                "decision_function_shape='ovo' needs a machine for each pair of classes; leave it"
                " at 'ovr', or use multiclass='ovo'"
            )
        check_n_jobs(self.n_jobs)

    def _solve(
        self, request: Request, data: TrainingData, warm_start: Solution | None
    ) -> tuple[Solution, Route]:
        self._check_several()
        if data.labels.classes.size == 2:
            with time_limited(request.time_limit):
                route = request.route(
                    data.labels.codes.size, weighted=data.sample_weight is not None
                )
                solved = (
                    None if warm_start is not None else solved_together(request, route, data, "ovo")
                )
                if solved is not None and solved.certified[0]:
                    return solved.solution(0, lambda: solved.members({})[0]), route
                return request.run(route, data, warm_start), route
        return solve_parts(
            request, data, scheme=self.multiclass, n_jobs=self.n_jobs, warm_start=warm_start
        )

    def _solved(self) -> tuple[Solution, ...]:
        return tuple(self.solutions_.values())

    def _solve_blocks(
        self, request: Request, route: Route, X: Any, sides: ClassPartition, sample_weight: Any
    ) -> Solution:
        check_choice(self.multiclass, "multiclass", SCHEMES)
        if sides.classes.size == 2:
            return super()._solve_blocks(request, route, X, sides, sample_weight)
        return solve_parts_in_blocks(
            request, route, X, sides, sample_weight, scheme=self.multiclass
        )

    def _shortfall(self, solution: Solution) -> str | None:
        message = super()._shortfall(solution)
        if message is None or not solution.parts:
            return message
        short = [
            key
            for key, part in solution.parts.items()
            if super(BinaryClassifier, self)._shortfall(part)
        ]
        return (
            f"{len(short)} of {len(solution.parts)} binary problems are short of tol, the worst by:"
            f" {message}"
        )

    @property
    def solutions_(self) -> dict[Any, Solution]:
        """The solution of each binary problem, by the pair of its labels, or by the label against
        the rest.
        """
        check_is_fitted(self, "solution_")
        if self.solution_.parts:
            return dict(self.solution_.parts)
        return {tuple(self.classes_.tolist()): self.solution_}

    @property
    def certificates_(self) -> dict[Any, Certificate]:
        """The certificate of each binary problem, by the same keys as :attr:`solutions_`."""
        return {key: solution.certificate for key, solution in self.solutions_.items()}

    @property
    def _members(self) -> Sequence[BinaryModel]:
        model = self.model_
        return model.members if isinstance(model, OneVsModel) else (cast(BinaryModel, model),)

    @property
    def coef_(self) -> Floats:
        """The normals, one row a binary problem, shape (1, d) for two classes; of linear machines,
        also those with ``kernel="linear"``.
        """
        members = self._members
        if all(isinstance(member, LinearModel) for member in members):
            return read_only(np.stack([cast(LinearModel, member).coef for member in members]))
        if all(
            isinstance(member, KernelModel) and isinstance(member.kernel, Linear)
            for member in members
        ):
            expanded = [cast(KernelModel, member) for member in members]
            return read_only(
                np.stack([np.asarray(cast(Any, m.vectors).T @ m.dual_coef) for m in expanded])
            )
        raise AttributeError("coef_ exists for kernel=None and kernel='linear' only")

    @property
    def dual_coef_(self) -> Floats:
        """The signed multipliers of the rows :attr:`support_`, one row a binary problem.

        Those of a linear machine (kernel=None) are the dual point of its certificate, for which
        :attr:`coef_` is ``dual_coef_ @ X[support_]`` up to the gap. It exists for pSVM, hard margin
        and ODM in memory.
        """
        members = [member for member in self._members if isinstance(member, KernelModel)]
        found = [(member.support, member.dual_coef) for member in members]
        if len(found) < len(self._members):
            found = list(self._expansions())
        rows = self.support_
        order = np.argsort(rows)
        coefficients = np.zeros((len(found), rows.size))
        for row, (index, values) in zip(coefficients, found, strict=True):
            row[order[np.searchsorted(rows, index, sorter=order)]] = values
        return read_only(coefficients)

    def _expansions(self) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """Yield rows and signed multipliers of each binary problem, from the dual point of its
        certificate.
        """
        entry = find(self._stated_as())
        if self._codes is None:
            raise AttributeError(
                "dual_coef_ does not exist for rows in blocks, with which the multipliers stay"
            )
        labels = CodedLabels(self._codes.astype(np.intp), self.classes_)
        scheme = "ovr" if isinstance(self.model_, OneVsModel) and not self._in_pairs() else "ovo"
        for part, solution in zip(parts(labels, scheme), self._solved(), strict=True):
            found = (
                None
                if entry is None
                else entry.load_statement().expansion_multipliers(solution.dual)
            )
            if found is None:
                raise AttributeError(
                    "dual_coef_ exists for kernel machines, and for pSVM, hard margin and ODM"
                    " without one"
                )
            used = np.isin(part.rows, self.support_)
            signs = np.where(part.labels.codes[used] == 1, 1.0, -1.0)
            yield part.rows[used], found[used] * signs

    @property
    def support_vectors_(self) -> Any:
        """The rows :attr:`support_` of the training data, shape (s, d), of a kernel machine; empty
        for a precomputed kernel.
        """
        members = [member for member in self._members if isinstance(member, KernelModel)]
        if not members:
            raise AttributeError(
                "support_vectors_ exists for kernel machines; one with kernel=None keeps no rows of"
                " X: take X[support_]"
            )
        parts: list[Any] = [member.vectors for member in members]
        if any(vectors is None for vectors in parts):
            return np.empty((0, 0))
        rows, first = np.unique(
            np.concatenate([member.support for member in members]), return_index=True
        )
        chosen = first[np.searchsorted(rows, self.support_)]
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts))[chosen]
        return read_only(np.concatenate(parts)[chosen])

    @property
    def intercept_(self) -> Floats:
        """The biases, one a binary problem, shape (1,) for two classes."""
        return read_only(np.array([member.intercept for member in self._members]))

    def _in_pairs(self) -> bool:
        """Whether there are more than two classes, with a machine for each pair."""
        model = self.model_
        return isinstance(model, OneVsModel) and model.scheme == "ovo"

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row, positive for ``classes_[1]``, shape (m,).

        For several classes a score of each row for each class, shape (m, c); see
        :class:`svmcvx.OneVsModel`. With ``decision_function_shape="ovo"`` those of the pairs k < l
        in lexicographic order, positive for the later class, ``X @ coef_.T + intercept_`` of linear
        machines, shape (m, c(c−1)/2).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            For rows in blocks the result is an array (:class:`svmcvx.RowBlocks`) or a lazy Dask
            array, and so that of ``predict``.
        """
        model = self.model_
        if in_blocks(X):
            if not isinstance(model, OneVsModel):
                return cast(Floats, mapped_rows(model, "decision_function", X, np.float64))
            if self.decision_function_shape == "ovo" and self._in_pairs():
                return cast(
                    Floats,
                    mapped_rows(model, "member_scores", X, np.float64, columns=len(model.members)),
                )
            return cast(
                Floats,
                mapped_rows(model, "decision_function", X, np.float64, columns=len(self.classes_)),
            )
        checked = self._checked(X)
        if self.decision_function_shape == "ovo" and self._in_pairs():
            return cast(OneVsModel, model).member_scores(checked)
        return model.decision_function(checked)

    def _checked(self, X: Any) -> Features:
        checked = check_features(X)
        self._check_columns(X, reset=False)
        return checked

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        """
        model = self.model_
        if in_blocks(X):
            return cast(NDArray[Any], mapped_rows(model, "predict", X, self.classes_.dtype))
        checked = self._checked(X)
        if isinstance(model, OneVsModel):
            codes = self._decided(model.member_scores(checked), model.scheme)
        else:
            codes = (model.decision_function(checked) > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def _decided(self, scores: Floats, scheme: str) -> NDArray[np.intp]:
        """Return the positions of the classes that several binary models decide for, from their
        scores, shape (m, models).
        """
        votes = scheme == "ovo" and not self.break_ties
        return np.asarray(
            np.argmax(pair_votes(scores) if votes else class_scores(scores, scheme), axis=1)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed" or isinstance(
            self.kernel, Precomputed
        )
        return tags


class Part(NamedTuple):
    """One of the binary problems."""

    key: Any
    rows: NDArray[np.intp]
    labels: CodedLabels


def keys(labels: CodedLabels, scheme: str) -> list[Any]:
    """Return the keys of the binary problems in the order of :class:`svmcvx.OneVsModel`."""
    names = labels.classes.tolist()
    return (
        [*combinations(names, 2)] if check_choice(scheme, "multiclass", SCHEMES) == "ovo" else names
    )


def parts(labels: CodedLabels, scheme: str, places: Iterable[int] | None = None) -> Iterator[Part]:
    """Yield the binary problems in the order of :class:`svmcvx.OneVsModel`."""
    codes, classes = labels.codes, labels.classes
    every = keys(labels, scheme)
    chosen = range(len(every)) if places is None else places
    if scheme == "ovo":
        sides = [*combinations(range(classes.size), 2)]
        for place in chosen:
            k, other = sides[place]
            rows = np.flatnonzero((codes == k) | (codes == other))
            pair = CodedLabels((codes[rows] == other).astype(np.intp), classes[[k, other]])
            yield Part(every[place], rows, pair)
    else:
        rows = np.arange(codes.size)
        for k in chosen:
            yield Part(every[k], rows, CodedLabels((codes == k).astype(np.intp), np.arange(2)))


def check_n_jobs(n_jobs: Any) -> None:
    """Raise a :class:`~svmcvx.DataError` unless this is a number of processes as joblib counts
    them.
    """
    whole = n_jobs is None or (
        isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    )
    if not whole or n_jobs == 0:
        raise DataError(
            "n_jobs must be None or a whole number other than 0 (-1 for all processors), got"
            f" {n_jobs!r}"
        )


def _restricted(X: Features, rows: NDArray[np.intp], *, pairwise: bool) -> Features:
    if rows.size == X.shape[0]:
        return X
    return X[rows][:, rows] if pairwise else X[rows]


def _lifted(solution: Solution, rows: NDArray[np.intp], width: int) -> Solution:
    """Return a solution whose model counts the rows of all training data; `width` is the number of
    their columns.
    """
    model = cast(BinaryModel, solution.model)
    support = rows[model.support]
    if isinstance(model, KernelModel):
        return replace(solution, model=replace(model, support=support, n_features=width))
    return replace(solution, model=replace(model, support=support))  # type: ignore[type-var]


def _earlier(warm_start: Solution | None, keys: list[Any]) -> Mapping[Any, Solution | None]:
    if warm_start is None:
        return dict.fromkeys(keys)
    if list(warm_start.parts) != keys:
        raise DataError(
            "warm_start must be the solution_ of an earlier fit with the same classes and the same"
            " multiclass"
        )
    return warm_start.parts


def _warn_of_many(
    found: list[Solution], parts: int, *, classes: int, scheme: str, jobs: int
) -> None:
    """Warn where the first machines say that all of them take long."""
    seconds = min(solution.timings.total for solution in found) * parts / jobs
    if seconds > LONG:
        advice = (
            f"; multiclass='ovr' solves {classes}" if scheme == "ovo" and parts > classes else ""
        )
        warnings.warn(
            f"{classes} classes make {parts} binary problems, which take about {seconds:.0f} s by"
            f" the first of them; a time_limit is shared among all{advice}",
            stacklevel=6,
        )


def solve_parts(
    request: Request,
    data: TrainingData,
    *,
    scheme: str,
    n_jobs: int | None,
    warm_start: Solution | None = None,
) -> tuple[Solution, Route]:
    """Solve all binary problems, in parallel; the same result for any `n_jobs`."""
    X, labels, sample_weight = data
    route = request.route(_largest(labels, scheme), weighted=sample_weight is not None)
    pairwise = isinstance(request.settings.get("kernel"), Precomputed)
    check_n_jobs(n_jobs)

    def restricted(part: Part) -> TrainingData:
        weight = None if sample_weight is None else sample_weight[part.rows]
        return TrainingData(_restricted(X, part.rows, pairwise=pairwise), part.labels, weight)

    found: list[Solution] = []
    with time_limited(request.time_limit) as deadline:
        # Together they take less than warm starts one by one, so that these are for what is left.
        solved = solved_together(request, route, data, scheme)
        if solved is not None and solved.certified.all() and warm_start is None:
            return solved.composite({}), route
        every = keys(labels, scheme)
        earlier = _earlier(warm_start, every)
        left = [k for k in range(len(every)) if solved is None or not solved.certified[k]]
        problems = list(parts(labels, scheme, left))
        jobs = min(int(effective_n_jobs(n_jobs)), len(problems)) if problems else 1
        for done, part in enumerate(problems[:TIMED] if jobs > 1 else problems):
            # The share of the remaining time for one of the binary problems that are not yet
            # solved.
            limited = request.limited_to(deadline.remaining * jobs / (len(problems) - done))
            found.append(limited.run(route, restricted(part), earlier[part.key]))
            if done + 1 == TIMED:
                _warn_of_many(
                    found, len(problems), classes=labels.classes.size, scheme=scheme, jobs=jobs
                )
        if jobs > 1:
            rest = problems[TIMED:]
            limited = request.limited_to(deadline.remaining * jobs / max(len(rest), 1))
            found += Parallel(n_jobs=n_jobs)(
                delayed(limited.run)(route, restricted(part), earlier[part.key]) for part in rest
            )
    lifted = [
        _lifted(solution, part.rows, X.shape[1])
        for part, solution in zip(problems, found, strict=True)
    ]
    if solved is not None:
        return solved.composite(dict(zip(left, lifted, strict=True))), route
    return composite(dict(zip(every, lifted, strict=True)), scheme, labels.classes), route


def _largest(labels: CodedLabels, scheme: str) -> int:
    """Return the number of observations of the largest binary problem."""
    counts = np.sort(np.bincount(labels.codes, minlength=labels.classes.size))
    return int(counts[-2:].sum() if scheme == "ovo" else counts.sum())


def solved_together(
    request: Request, route: Route, data: TrainingData, scheme: str
) -> SolvedParts | None:
    """Solve the binary problems together; None where they cannot be, or where the iterations of
    each are printed or limited.
    """
    settings = dict(request.settings)
    kernel = settings.pop("kernel", None)
    usual = settings.pop("intercept", "free") == "free"
    usual = usual and settings.pop("indefinite", "error") in ("error", "clip")
    followed = request.verbose or request.max_iter is not None
    entry = find(request.formulation)
    if not usual or followed or route.name != FAST or settings.keys() != {"C", "p"}:
        return None
    solve = None if entry is None or entry.fast is None else entry.fast.load_parts()
    if solve is None:
        return None
    found: SolvedParts | None = solve(
        data.X,
        data.labels,
        data.sample_weight,
        scheme=scheme,
        kernel=kernel.kernel if isinstance(kernel, CachedKernel) else kernel,
        tol=request.tol,
        cache_size=DEFAULT_CACHE if request.cache_size is None else request.cache_size,
        cache=request.cache,
        **settings,
    )
    return found


def solve_parts_in_blocks(
    request: Request,
    route: Route,
    X: Any,
    sides: ClassPartition,
    sample_weight: Any,
    *,
    scheme: str,
) -> Solution:
    """Solve all binary problems of rows in blocks, one after another: each of them uses all
    processors, or the cluster.
    """
    names = sides.classes.tolist()
    count = len(names)
    problems: list[tuple[Any, ClassPartition]]
    if scheme == "ovo":
        pairs = combinations(range(count), 2)
        problems = [
            ((names[k], names[other]), replace(sides, pair=(k, other))) for k, other in pairs
        ]
    else:
        problems = [(name, replace(sides, against_rest=k)) for k, name in enumerate(names)]
    found: dict[Any, Solution] = {}
    with time_limited(request.time_limit) as deadline:
        for done, (key, part) in enumerate(problems):
            limited = request.limited_to(deadline.remaining / (len(problems) - done))
            found[key] = limited.run(route, cast(TrainingData, (X, part, sample_weight)), None)
            if done + 1 == TIMED < len(problems):
                _warn_of_many(
                    list(found.values()), len(problems), classes=count, scheme=scheme, jobs=1
                )
    return composite(found, scheme, sides.classes)
