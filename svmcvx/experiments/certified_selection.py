r"""The best C over a whole range, proved: how many errors of cross-validation optimal machines make
for every C at once.

The range is cut into pieces between values with a model and a dual point on each fold. On each
piece every validation row is surely right, surely wrong or undecided for *all* C in it
(:mod:`svmcvx.guarantees.ranges`); sums over folds are a lower and an upper bound of the number of
errors on the piece. The piece with the least lower bound is cut in two until no piece may have
fewer errors than the best value found, less what was allowed. At the cut the mean of both ends is
taken where its gap is small beside what is not known between them, and solved for otherwise.

**Source.** [ShibagakiEtAl] bound validation errors in this way for machines without a free
intercept; [NdiayeLeFercoq] cover paths.
"""

from __future__ import annotations

import heapq
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split

import svmcvx
from svmcvx.containers import as_array
from svmcvx.data import binary_data, check_features, check_number, check_time_limit
from svmcvx.display import ShortRepr
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.estimators.margin_distribution import ODMClassifier
from svmcvx.experiments.paths import mixed_dual, mixed_model, proportional
from svmcvx.experiments.store import DIED, Store, fingerprint, results, workers
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.guarantees.binary import training_space
from svmcvx.guarantees.ranges import Node, Point, over_range, squared_radius
from svmcvx.kernels import kernel_from_dict
from svmcvx.model import KernelModel, LinearModel
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import epoch_end, time_limited, until

Floats: TypeAlias = NDArray[np.float64]
Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

# Neighbouring values are not brought nearer to each other than this: scores cross 0 there.
NEAREST = 1.0 + 1e-7
# Parameters that may vary: the objective is affine in them, and the dual objective concave in them
# and the multipliers together.
VARIES = {PSVMClassifier: ("C",), ODMClassifier: ("C1", "C2")}


class _Piece(NamedTuple):
    """Least and most errors for values between two; pieces are ordered by the former."""

    least: int
    most: int
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class CertifiedSelection(ShortRepr):
    """Proved bounds of the errors of cross-validation over a range of C.

    Attributes
    ----------
    parameters : tuple of str
        What varies; several vary in proportion.
    best_params : dict
        With the fewest errors that are proved; of several such values the smallest.
    errors : int
        Largest number of errors that an optimal machine with these makes on the validation rows of
        all folds, or more.
    least : int
        No value in the range has fewer.
    observations : int
        Validation rows of all folds.
    pieces : DataFrame
        Columns ``low``, ``high`` of the first parameter, and ``least``, ``most`` errors of optimal
        machines for all values between them.
    values : DataFrame
        Values at which folds have a model and a dual point, with ``least`` and ``most`` errors, and
        ``solved``: on how many folds that is a solution, and not a mean of two neighbours.
    fits : int
        Problems solved.
    reused : int
        Cuts of a piece on a fold that were found in the store.
    complete : bool
        Whether the difference of `errors` and `least` is within the tolerance.
    """

    parameters: tuple[str, ...]
    best_params: dict[str, float]
    errors: int
    least: int
    observations: int
    pieces: pd.DataFrame = field(repr=False)
    values: pd.DataFrame = field(repr=False)
    fits: int
    reused: int
    complete: bool

    @property
    def C(self) -> float:
        """The best C of a pSVM."""
        return self.best_params["C"]

    def __repr__(self) -> str:
        between = (
            f"{self.errors}" if self.errors == self.least else f"{self.least} to {self.errors}"
        )
        best = ", ".join(f"{name}={value:.6g}" for name, value in self.best_params.items())
        return (
            f"CertifiedSelection({best}: {self.errors} errors of {self.observations}; the least"
            f" over the range is {between}, {len(self.values)} values, {self.fits} fits)"
        )

    @property
    def candidates(self) -> pd.DataFrame:
        """The pieces in which a best value may lie: where as few errors as `errors` have not been
        excluded.
        """
        return self.pieces[self.pieces["least"] <= self.errors].reset_index(drop=True)

    def plot(self, ax: Any = None) -> Any:
        """Draw the band of errors over the range; see :func:`svmcvx.plot.certified_selection`."""
        from svmcvx.plot import certified_selection as draw

        return draw(self, ax=ax)


def certified_select(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: int | Iterable[Fold] | Any = 5,
    eps: float = 0.01,
    tol: float = 1e-8,
    backend: str | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    **ranges: tuple[float, float],
) -> CertifiedSelection:
    r"""Find a C in a range whose errors of cross-validation are proved to be within `eps` of the
    fewest over the whole range.

    Parameters
    ----------
    estimator : PSVMClassifier or ODMClassifier, or a pipeline that ends in one
        Linear or with a kernel; not fitted, and not changed.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
        Two classes.
    cv : int, cross-validation splitter or iterable of (train, test)
        As in scikit-learn; shuffled splits are drawn once.
    eps : float
        Share of the validation rows by which the errors at the C found may exceed the fewest; 0
        asks for the fewest themselves.
    tol : float
        Certified relative gap of each fit.
    backend : str, optional
        As for :func:`svmcvx.select`: ``"loky"``, ``"threading"``, ``"dask"``, or the address of a
        Dask scheduler.
    n_jobs : int, optional
        Folds at a time; 1 by default, all workers with Dask. What is proved does not depend on it.
    store : path-like, optional
        A file for what is finished (SQLite; made if it is not there), which other searches,
        comparisons and studies may share. A later call with the same arguments continues where the
        first one stopped, also after a kill.
    time_limit : float, optional
        Seconds; then the bounds proved so far are returned, as after Ctrl-C.
    **ranges : (low, high)
        The range of ``C`` (pSVM), of ``C1``, of ``C2``, or of both with the same ratio of high to
        low (ODM), positive.

    Returns
    -------
    CertifiedSelection
        Its `least` and `errors` hold also where `complete` is false.

    Raises
    ------
    DataError
        If the estimator is another one, or an argument cannot be used.

    Warns
    -----
    UserWarning
        If the selection is not complete: time ended, or errors change within a part of 10⁻⁷ of C.

    Notes
    -----
    A kernel's scale and the transformers of a pipeline are those of each training part, as in
    :func:`svmcvx.select`; what transformers compute is taken as it is. The bounds hold for these
    splits, not for other data.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(40, 2, sigma=0.5, seed=0)
    >>> found = sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 10.0), eps=0.05)
    >>> found.complete, found.errors - found.least <= 0.05 * 40
    (True, True)
    """
    machine = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    low, high, ratios = _range(machine, ranges)
    eps = check_number(eps, "eps", low=0, high=1, open_high=True)
    check_number(tol, "tol")
    features, labels = check_features(X), as_array(y, "y").ravel()
    folds = [
        (np.asarray(a), np.asarray(b))
        for a, b in check_cv(cv, labels, classifier=True).split(features, labels)
    ]
    with (
        time_limited(check_time_limit(time_limit)) as deadline,
        workers(backend, n_jobs) as parallel,
    ):
        search = _Search(
            estimator, features, labels, folds, tuple(ranges), ratios, tol, parallel, store
        )
        search.end = epoch_end(deadline)
        open_ = [search.whole(low, high)]
        closed: list[_Piece] = []
        while open_ and not search.stopped and not deadline.passed():
            piece = heapq.heappop(open_)
            if piece.least + eps * search.observations >= search.best:
                # The least of all: no other is better.
                heapq.heappush(open_, piece)
                break
            if piece.high <= piece.low * NEAREST:
                closed.append(piece)
                continue
            halves = search.split(
                (piece.low, math.sqrt(piece.low) * math.sqrt(piece.high), piece.high)
            )
            if halves is None:
                closed.append(piece)
                break
            for half in halves:
                heapq.heappush(open_, half)
    return search.result([*open_, *closed], eps)


def _range(machine: Any, ranges: dict[str, Any]) -> tuple[float, float, tuple[float, ...]]:
    """Return the range of the first parameter, and what the others are in units of it."""
    names = next((names for kind, names in VARIES.items() if isinstance(machine, kind)), None)
    if names is None:
        raise DataError(
            "certified_select takes a PSVMClassifier or an ODMClassifier, got"
            f" {type(machine).__name__}: of other machines there are no bounds of the scores for a"
            " whole range"
        )
    if getattr(machine, "penalty", "l2") != "l2":
        raise DataError(
            "certified_select needs penalty='l2': the sum of absolute values has no modulus of"
            " convexity"
        )
    unknown = [name for name in ranges if name not in names]
    if unknown or not ranges:
        raise DataError(
            f"certified_select of {type(machine).__name__} varies {' and '.join(names)}: pass its"
            f" range, as in {names[0]}=(0.01, 100.0); got {', '.join(unknown) or 'none'}"
        )
    low, high, ratios = proportional(ranges)
    if not low < high:
        raise DataError(
            f"the range of {next(iter(ranges))} must be increasing, got"
            f" {ranges[next(iter(ranges))]!r}"
        )
    return low, high, ratios


class _Search:
    """The points of all folds at the values so far, and what they prove."""

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: NDArray[Any],
        folds: list[Fold],
        names: tuple[str, ...],
        ratios: tuple[float, ...],
        tol: float,
        parallel: joblib.Parallel | None,
        store: str | os.PathLike[str] | None,
    ) -> None:
        self.y, self.folds, self.names, self.ratios = y, folds, names, ratios
        self.parallel, self.store = parallel, None if store is None else Store(store)
        self.classes = np.unique(y)
        self.observations = sum(test.size for _, test in folds)
        self.searches = [self._fold(estimator, X, y, fold, tol) for fold in folds]
        self.keys = [
            fingerprint(
                svmcvx.__version__, each.estimator, names, ratios, each.X, each.y, each.rows
            )
            for each in (self.searches if self.store is not None else [])
        ]
        self.errors: dict[float, tuple[int, int]] = {}
        self.possible: dict[float, list[str]] = {}
        self.reused = 0
        self.stopped = False
        self.end = math.inf

    def _fold(self, estimator: Any, X: Any, y: NDArray[Any], fold: Fold, tol: float) -> FoldSearch:
        train, test = fold
        machine = clone(estimator)
        rows, _ = _safe_split(machine, X, y, train)
        tested, _ = _safe_split(machine, X, y, test, train)
        if isinstance(machine, Pipeline):
            before, machine = machine[:-1], machine[-1]
            rows = check_features(before.fit_transform(rows, y[train]))
            tested = check_features(before.transform(tested))
        return FoldSearch(
            machine.set_params(tol=tol), self.names, self.ratios, rows, y[train], tested
        )

    @property
    def best(self) -> int:
        """The fewest errors that are proved at a value."""
        return min((most for _, most in self.errors.values()), default=self.observations)

    def whole(self, low: float, high: float) -> _Piece:
        """The range as one piece; without any knowledge if time ended."""
        pieces = self.split((low, high))
        return pieces[0] if pieces else _Piece(0, self.observations, low, high)

    def split(self, values: tuple[float, ...]) -> list[_Piece] | None:
        """Cut a piece: bound the errors at a new value, and between neighbours; None if that was
        ended.
        """
        try:
            found = self._results(values)
        except KeyboardInterrupt:
            found = [None]
        if any(row is None for row in found):
            self.stopped = True
            return None
        rows: list[Row] = [row for row in found if row is not None]
        for k, (search, row) in enumerate(zip(self.searches, rows, strict=True)):
            search.take({float(value): point for value, point in row["points"].items()})
            for value, possible in row["possible"].items():
                self.possible.setdefault(float(value), [""] * len(self.folds))[k] = possible
        for value in {float(value) for row in rows for value in row["possible"]}:
            self.errors[value] = self._count(self.possible[value])
        return [
            _Piece(*self._count([row["between"][k] for row in rows]), *values[k : k + 2])
            for k in range(len(values) - 1)
        ]

    def _results(self, values: tuple[float, ...]) -> list[Row | None]:
        found: dict[int, Row | None] = {}
        keys = [f"{key} {values!r}" for key in self.keys]
        if self.store is not None:
            rows = self.store.found(keys)
            found = {k: rows[key] for k, key in enumerate(keys) if key in rows}
            self.reused += len(found)
        left = [k for k in range(len(self.searches)) if k not in found]
        calls = {k: (split, (self._sent(k, values), values, self.end)) for k in left}
        for k, row in results(calls, self.parallel):
            if row is DIED:
                raise DataError(
                    f"the process that worked on fold {k} died, killed or out of memory; use fewer"
                    " n_jobs"
                )
            if row is not None and self.store is not None:
                self.store.add(keys[k], row, "certified_select")
            found[k] = row
        return [found[k] for k in range(len(self.searches))]

    def _sent(self, k: int, values: tuple[float, ...]) -> FoldSearch:
        """Return a fold as another process needs it for a piece."""
        return self.searches[k] if self.parallel is None else self.searches[k].sent(values)

    def _count(self, possible: list[str]) -> tuple[int, int]:
        """The least and the most errors of classes that are possible in each fold."""
        least = most = 0
        for (_, test), of_fold in zip(self.folds, possible, strict=True):
            above = np.frombuffer(of_fold.encode(), dtype=np.uint8) - ord("0")
            positive = (self.y[test] == self.classes[-1]).astype(np.uint8)
            most += int((above != positive).sum())
            least += int((above == 1 - positive).sum())
        return least, most

    def result(self, pieces: list[_Piece], eps: float) -> CertifiedSelection:
        if self.store is not None:
            self.store.close()
        values = sorted(self.errors)
        solved = {
            value: sum(bool(search.points[value]["solved"]) for search in self.searches)
            for value in values
        }
        errors = self.best
        least = min(piece.least for piece in pieces)
        complete = errors - least <= eps * self.observations
        if not complete:
            warnings.warn(
                f"the fewest errors are known to be from {least} to {errors} of"
                f" {self.observations}, which is wider than asked for; allow more time, or a"
                " larger eps",
                stacklevel=3,
            )
        best = next(
            (value for value in values if self.errors[value][1] == errors),
            min(piece.low for piece in pieces),
        )
        return CertifiedSelection(
            parameters=self.names,
            best_params=self.searches[0].settings(best),
            errors=errors,
            least=least,
            observations=self.observations,
            pieces=pd.DataFrame(
                [
                    (p.low, p.high, p.least, p.most)
                    for p in sorted(pieces, key=lambda piece: piece.low)
                ],
                columns=["low", "high", "least", "most"],
            ),
            values=pd.DataFrame(
                [(value, *self.errors[value], solved[value]) for value in values],
                columns=[self.names[0], "least", "most", "solved"],
            ),
            fits=sum(solved.values()),
            reused=self.reused,
            complete=complete,
        )


Row: TypeAlias = dict[str, Any]

# A mean of two points is taken for a value if its gap is at most this share of the squared radius
# that holds between them; it is solved for as soon as its gap is more than that share of the
# squared radius of a piece that is cut.
MEAN_SHARE, LIMITING_SHARE = 0.1, 0.3


@dataclass
class FoldSearch:
    """A fold with the points that are known of it."""

    estimator: CertifiedClassifier
    names: tuple[str, ...]
    ratios: tuple[float, ...]
    X: Any
    y: NDArray[Any]
    rows: Any
    points: dict[float, Row] = field(default_factory=dict)
    _space: FeatureSpace | None = field(default=None, repr=False)
    _nodes: dict[float, Node] = field(default_factory=dict, repr=False)

    def sent(self, values: tuple[float, ...]) -> FoldSearch:
        """Return what another process needs for a piece: the points at its ends."""
        return replace(
            self,
            points={v: self.points[v] for v in values if v in self.points},
            _space=None,
            _nodes={},
        )

    def split(self, values: tuple[float, ...]) -> Row | None:
        """Find points at those of the values that have none, and the classes that are possible
        there and between neighbours; None if a limit ended a fit.
        """
        new = [value for value in values if value not in self.points]
        if len(values) - len(new) > 1:
            radius = squared_radius(self._node(values[0]), self._node(values[-1]))
            limiting = [
                end
                for end in (values[0], values[-1])
                if self._node(end).gap > LIMITING_SHARE * radius
            ]
            limiting = [end for end in limiting if not self.points[end]["solved"]]
            for value in limiting:
                if not self._solve(value):
                    return None
            new += limiting
        for value in new:
            if (
                value not in self.points
                and not self._take_mean(values[0], value, values[-1])
                and not self._solve(value)
            ):
                return None
        possible = {repr(value): _packed(self._node(value).possible) for value in new}
        between = [_packed(over_range(self._node(a), self._node(b))) for a, b in pairwise(values)]
        return {
            "points": {repr(value): self.points[value] for value in new},
            "possible": possible,
            "between": between,
        }

    def settings(self, value: float) -> dict[str, float]:
        return {name: value * ratio for name, ratio in zip(self.names, self.ratios, strict=True)}

    def _solve(self, value: float) -> bool:
        machine = clone(self.estimator).set_params(**self.settings(value))
        with warnings.catch_warnings():
            # What a wide gap leaves open is counted as undecided.
            warnings.simplefilter("ignore")
            machine.fit(self.X, self.y)
        solution = machine.solution_
        if machine.classes_.size != 2:
            raise DataError(
                "certified_select is for two classes, both of them in each training part"
            )
        if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            return False
        if self._space is None:
            self._space, _ = training_space(solution, self.X, self.y)
        self.take({value: _row(solution, self._space)})
        return True

    def take(self, points: Mapping[float, Row]) -> None:
        """Take in points that were found here or by another process."""
        for value, point in points.items():
            if self.points.get(value) is not point:
                self.points[value] = point
                self._nodes.pop(value, None)

    def _take_mean(self, first: float, value: float, last: float) -> bool:
        """Take the mean of the points at both ends, where its gap is small beside what is not known
        between them.
        """
        if not (first in self.points and last in self.points and first < value < last):
            return False
        one, other = self._node(first), self._node(last)
        points = self._point(first), self._point(last)
        t = (value - first) / (last - first)
        model = mixed_model(points[0].model, points[1].model, t)
        dual = mixed_dual(points[0].dual, points[1].dual, t)
        if model is None or dual is None:
            return False
        row = self.points[first]
        mean = replace(
            points[0], hyperparameters=self._hyperparameters(row, value), model=model, dual=dual
        )
        node = Node.of(mean, self.names, self._bound_space(row), self.rows)
        if not node.gap <= MEAN_SHARE * squared_radius(one, other):
            return False
        self._nodes[value] = node
        self.points[value] = {**row, **_plain(model, dual), "solved": False}
        return True

    def _node(self, value: float) -> Node:
        if value not in self._nodes:
            space = self._bound_space(self.points[value])
            self._nodes[value] = Node.of(self._point(value), self.names, space, self.rows)
        return self._nodes[value]

    def _hyperparameters(self, row: Row, value: float) -> dict[str, Any]:
        return {**row["hyperparameters"], **self.settings(value)}

    def _point(self, value: float) -> Point:
        """Return a point as the theorem takes it."""
        row = self.points[value]
        space = self._bound_space(row)
        classes, intercept = space.data.classes, row["intercept"]
        dual = {name: np.array(values) for name, values in row["dual"].items()}
        model: Any
        if space.kernel is None:
            model = LinearModel(
                np.array(row["coef"]), intercept, classes, np.zeros(0, dtype=np.intp)
            )
        else:
            support = np.array(row["support"], dtype=np.intp)
            features = check_features(self.X)
            coef = np.array(row["coef"], dtype=np.float64)
            model = KernelModel(
                space.kernel,
                features[support],
                coef,
                intercept,
                classes,
                support,
                int(features.shape[1]),
            )
        return Point(row["formulation"], self._hyperparameters(row, value), model, dual)

    def _bound_space(self, row: Row) -> FeatureSpace:
        """Return the space of the training rows: solutions on a fold share kernel and weights."""
        if self._space is None:
            kernel = None if row["kernel"] is None else kernel_from_dict(row["kernel"])
            data = binary_data(
                self.X, self.y, None if row["weight"] is None else np.array(row["weight"])
            )
            self._space = feature_space(data, kernel, intercept=row["kind"], keep_gram=False)
        return self._space


def _row(solution: Solution, space: FeatureSpace) -> Row:
    """Return a solution as a point."""
    assert solution.evidence is not None  # noqa: S101 - asked for by training_space
    weight: Any = solution.evidence.weight
    hyperparameters = {
        name: value
        for name, value in solution.hyperparameters.items()
        if isinstance(value, (int, float))
    }
    return {
        **_plain(solution.model, solution.dual),
        "formulation": solution.formulation,
        "hyperparameters": hyperparameters,
        "kernel": None if space.kernel is None else space.kernel.to_dict(),
        "kind": space.intercept,
        "weight": None if (weight == 1.0).all() else weight.tolist(),
        "solved": True,
    }


def _plain(model: Any, dual: Mapping[str, Any]) -> Row:
    kernel = isinstance(model, KernelModel)
    return {
        "coef": (model.dual_coef if kernel else model.coef).tolist(),
        "support": model.support.tolist() if kernel else None,
        "intercept": float(model.intercept),
        "dual": {name: values.tolist() for name, values in dual.items()},
    }


def _packed(possible: NDArray[np.bool_]) -> str:
    """Return which classes are possible as text: of each row 0 or 1, or 2 where both are."""
    codes = np.where(possible[:, 0] & possible[:, 1], 2, possible[:, 1])
    return "".join(map(str, codes.tolist()))


def split(search: FoldSearch, values: tuple[float, ...], end: float) -> Row | None:
    """Do :meth:`FoldSearch.split` in another process, until a moment in seconds since the epoch."""
    with until(end) as deadline:
        return None if deadline.passed() else search.split(values)
