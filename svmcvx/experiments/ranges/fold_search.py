"""One split of a certified selection on one fold: what a process does by itself, from plain values
to plain values.

A *point* is a model and a dual point as lists of numbers. From the points at both ends of a piece a
fold finds one at a value between them, and which classes optimal machines may predict there and on
both halves. Everything that is proved is computed again from the points.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from svmcvx.data import binary_data, check_features
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.experiments.ranges.rules import mixed_dual, mixed_model
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.guarantees.binary import training_space
from svmcvx.guarantees.ranges import Node, Point, over_range, squared_radius
from svmcvx.kernels import kernel_from_dict
from svmcvx.model import KernelModel, LinearModel
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import until

__all__ = ["FoldSearch", "Row", "split"]

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
        """The values of all that varies."""
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
        """The space of the training rows: all solutions on a fold have the same kernel and weights."""
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
