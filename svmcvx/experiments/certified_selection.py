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
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split

from svmcvx.arrays import Bools
from svmcvx.data import as_array, check_features, check_number, check_time_limit
from svmcvx.display import ShortRepr
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.estimators.margin_distribution import ODMClassifier
from svmcvx.experiments.paths import Ray, check_names, mixed_dual, mixed_model, proportional
from svmcvx.experiments.selection import Fold, folds_of
from svmcvx.feature_space import FeatureSpace
from svmcvx.guarantees.binary import training_space
from svmcvx.guarantees.ranges import Node, Point, over_range, squared_radius
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import current, time_limited

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
    time_limit: float | None = None,
    **ranges: tuple[float, float],
) -> CertifiedSelection:
    r"""Find a C with errors of cross-validation proved to be within `eps` of the range's fewest.

    A kernel's scale and the transformers of a pipeline are those of each training part, as in
    :func:`svmcvx.select`; what transformers compute is taken as it is. The bounds hold for these
    splits, not for other data.

    Parameters
    ----------
    estimator : PSVMClassifier or ODMClassifier, or a pipeline that ends in one
        Linear or with a kernel; not fitted, and not changed.
    X, y : of the same types
        As for ``fit`` of the estimator; two classes.
    cv : int, cross-validation splitter or iterable of (train, test)
        As in scikit-learn; shuffled splits are drawn once.
    eps : float
        Share of the validation rows by which the errors at the C found may exceed the fewest; 0
        asks for the fewest themselves.
    tol : float
        Certified relative gap of each fit.
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

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(40, 2, sigma=0.5, seed=0)
    >>> found = sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 10.0), eps=0.05)
    >>> found.complete, found.errors - found.least <= 0.05 * 40
    (True, True)
    """
    machine = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    ray = _ray(machine, ranges)
    eps = check_number(eps, "eps", "[0, 1)")
    check_number(tol, "tol")
    # A pipeline may fill in missing values, and encode text.
    features = X if isinstance(estimator, Pipeline) else check_features(X)
    labels = as_array(y, "y").ravel()
    splits = folds_of(machine, features, labels, None, cv)
    with time_limited(check_time_limit(time_limit)) as deadline:
        search = _Search(
            [_fold(estimator, features, labels, train, test, ray, tol) for train, test in splits],
            [labels[test] == np.unique(labels)[-1] for _, test in splits],
        )
        whole = _Piece(0, search.observations, ray.low, ray.high)
        open_, closed = search.split((ray.low, ray.high)) or [whole], list[_Piece]()
        while open_ and not search.stopped and not deadline.passed():
            # The piece with the least lower bound.
            piece = heapq.heappop(open_)
            halves = None
            short = piece.high - piece.low <= 1e-7 * piece.low
            if piece.least + eps * search.observations < search.best and not short:
                middle = math.sqrt(piece.low) * math.sqrt(piece.high)
                halves = search.split((piece.low, middle, piece.high))
            for half in halves or ():
                heapq.heappush(open_, half)
            if halves is None:
                closed.append(piece)
                if not short:
                    break
    pieces = pd.DataFrame([*open_, *closed]).sort_values("low", ignore_index=True)
    values, errors, least = sorted(search.errors), search.best, int(pieces["least"].min())
    complete = errors - least <= eps * search.observations
    if not complete:
        warnings.warn(
            f"the fewest errors are known to be from {least} to {errors} of {search.observations},"
            " which is wider than asked for; allow more time, or a larger eps",
            stacklevel=2,
        )
    best = next((value for value in values if search.errors[value][1] == errors), ray.low)
    solved = [sum(value in fold.solved for fold in search.folds) for value in values]
    table = [(v, *search.errors[v], count) for v, count in zip(values, solved, strict=True)]
    return CertifiedSelection(
        parameters=ray.names,
        best_params=ray.settings(best),
        errors=errors,
        least=least,
        observations=search.observations,
        pieces=pieces[["low", "high", "least", "most"]],
        values=pd.DataFrame(table, columns=[ray.names[0], "least", "most", "solved"]),
        fits=sum(solved),
        complete=complete,
    )


def _ray(machine: Any, ranges: dict[str, Any]) -> Ray:
    kind = type(machine).__name__
    names = next((names for cls, names in VARIES.items() if isinstance(machine, cls)), None)
    if names is None:
        raise DataError(
            f"certified_select takes a PSVMClassifier or an ODMClassifier, got {kind}: of other"
            " machines there are no bounds of the scores for a whole range"
        )
    if getattr(machine, "penalty", "l2") != "l2":
        raise DataError(
            "certified_select needs penalty='l2': the sum of absolute values has no modulus of"
            " convexity"
        )
    check_names(ranges, names, f"certified_select of {kind} varies {' and '.join(names)}")
    ray = proportional(ranges)
    if not ray.low < ray.high:
        raise DataError(f"the range of {ray.names[0]} must be increasing, got {ranges}")
    return ray


@dataclass
class _Fold:
    """A training part with what is known of it by values, and its validation rows."""

    estimator: CertifiedClassifier
    ray: Ray
    X: Any
    y: NDArray[Any]
    rows: Any
    space: FeatureSpace | None = None
    known: dict[float, Node] = field(default_factory=dict)
    # The values of solutions; the other points are means of two.
    solved: set[float] = field(default_factory=set)

    def split(self, values: tuple[float, ...]) -> tuple[list[float], list[Bools]] | None:
        """Return new points at values, and the classes possible between neighbours, or None."""
        new = [value for value in values if value not in self.known]
        ends = (values[0], values[-1])
        if all(end in self.known for end in ends):
            # A mean whose gap limits what is known on the piece, as a share of the squared radius
            # between its ends, is solved for.
            limit = 0.3 * squared_radius(*(self.known[end] for end in ends))
            means = [end for end in ends if end not in self.solved]
            new = [*(end for end in means if self.known[end].gap > limit), *new]
        for value in new:
            taken = value not in ends and self._take_mean(*ends, value)
            if not taken and not self._solve(value):
                return None
        nodes = [self.known[value] for value in values]
        return new, [over_range(one, other) for one, other in pairwise(nodes)]

    def _solve(self, value: float) -> bool:
        machine = clone(self.estimator).set_params(**self.ray.settings(value))
        with warnings.catch_warnings():
            # What a wide gap leaves open is counted as undecided.
            warnings.simplefilter("ignore")
            machine.fit(self.X, self.y)
        solution: Solution = machine.solution_
        if machine.classes_.size != 2:
            raise DataError(
                "certified_select is for two classes, both of them in each training part"
            )
        if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            return False
        if self.space is None:
            # Solutions on a fold share kernel and weights.
            self.space, _ = training_space(solution, self.X, self.y)
        model: Any = solution.model
        point = Point(solution.formulation, solution.hyperparameters, model, solution.dual)
        self.known[value] = self._node(point)
        self.solved.add(value)
        return True

    def _node(self, point: Point) -> Node:
        assert self.space is not None  # noqa: S101 - made by the first solution
        return Node.of(point, self.ray.names, self.space, self.rows)

    def _take_mean(self, first: float, last: float, value: float) -> bool:
        """Take the mean of both ends where its gap is small beside the gap between them."""
        one, other = self.known[first], self.known[last]
        t = (value - first) / (last - first)
        first_point, last_point = one.found.solution, other.found.solution
        model = mixed_model(first_point.model, last_point.model, t)
        dual = mixed_dual(first_point.dual, last_point.dual, t)
        if model is None or dual is None:
            return False
        settings = {**first_point.hyperparameters, **self.ray.settings(value)}
        node = self._node(Point(first_point.formulation, settings, model, dual))
        # A mean with a small gap takes the place of a solution.
        if node.gap > 0.1 * squared_radius(one, other):
            return False
        self.known[value] = node
        return True


def _fold(
    estimator: Any, X: Any, y: NDArray[Any], train: Any, test: Any, ray: Ray, tol: float
) -> _Fold:
    machine = clone(estimator)
    rows, _ = _safe_split(machine, X, y, train)
    tested, _ = _safe_split(machine, X, y, test, train)
    if isinstance(machine, Pipeline):
        before, machine = machine[:-1], machine[-1]
        rows = check_features(before.fit_transform(rows, y[train]))
        tested = check_features(before.transform(tested))
    return _Fold(machine.set_params(tol=tol), ray, rows, y[train], tested)


class _Search:
    """The points of all folds at the values so far, and what they prove."""

    def __init__(self, folds: list[_Fold], positive: list[Bools]) -> None:
        self.folds, self.positive = folds, positive
        self.observations = sum(labels.size for labels in positive)
        self.errors: dict[float, tuple[int, int]] = {}
        self.stopped = False

    @property
    def best(self) -> int:
        """The fewest errors that are proved at a value."""
        return min((most for _, most in self.errors.values()), default=self.observations)

    def split(self, values: tuple[float, ...]) -> list[_Piece] | None:
        """Cut a piece: bound the errors at a new value, and between neighbours; None if ended."""
        found = []
        try:
            for fold in self.folds:
                if current().passed() or (one := fold.split(values)) is None:
                    break
                found.append(one)
        except KeyboardInterrupt:
            pass
        if len(found) < len(self.folds):
            self.stopped = True
            return None
        for value in {value for new, _ in found for value in new}:
            possible = [fold.known[value].possible for fold in self.folds]
            self.errors[value] = self._count(possible)
        return [
            _Piece(*self._count([between[k] for _, between in found]), *ends)
            for k, ends in enumerate(pairwise(values))
        ]

    def _count(self, possible: list[Bools]) -> tuple[int, int]:
        """Return the least and the most errors of classes that are possible in each fold."""
        least = most = 0
        for positive, (below, above) in zip(self.positive, (p.T for p in possible), strict=True):
            most += int(np.where(positive, below, above).sum())
            least += int((~np.where(positive, above, below)).sum())
        return least, most
