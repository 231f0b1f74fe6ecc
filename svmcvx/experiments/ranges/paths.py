r"""Solutions for all values of a hyper-parameter at once: a finite set whose intervals cover a
range of it.

Two neighbouring values with a model and a dual point each bound the optimum in between
(:mod:`svmcvx.experiments.ranges.rules`). Where the relative gap is largest, the mean of both models
and of both dual points is tried first: it costs no solve, and the checker makes its interval as of
any other point. Only where that is too wide the problem is solved. Pieces are split until the gap
is nowhere above the one that is asked for.

**Source.** [GiesenJaggiLaue] for paths in C by single solutions, [GiesenLaueWieschollek] for kernel
widths. Two solutions instead of one leave :math:`O(1/\sqrt\varepsilon)` pieces instead of
:math:`O(1/\varepsilon)`.
"""

from __future__ import annotations

import heapq
import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from svmcvx.certificate import check, relative_gap
from svmcvx.data import check_number, check_time_limit
from svmcvx.display import ShortRepr
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.request import weighed
from svmcvx.experiments.ranges.pieces import Piece, proportional, rounded
from svmcvx.experiments.ranges.rules import RULES, Affine, Node, Rule, mixed_dual, mixed_model
from svmcvx.model import KernelModel, Model
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import time_limited

__all__ = ["AtValue", "CertifiedPath", "certified_path"]

Floats: TypeAlias = NDArray[np.float64]

# Each problem is solved to this share of the gap that is asked for; a mean of two solutions is
# taken up to that one.
SHARE: Final = 0.05
MEAN_SHARE: Final = 0.6
# Neighbouring values are not brought nearer to each other than this.
NEAREST: Final = 1.0 + 1e-6
# Number of cached statements, each with its kernel matrix on a path of gamma.
STATEMENTS: Final = 8


class AtValue(NamedTuple):
    """What a path says at one value of its parameter."""

    model: Model
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """Relative width of the interval."""
        return relative_gap(self.lower, self.upper)


class CertifiedPath(ShortRepr, Sequence[Solution]):
    """Solutions at some values of a hyper-parameter, whose intervals hold for all values between
    them.

    Attributes
    ----------
    parameters : tuple of str
        What varies; several vary in proportion.
    values : ndarray of shape (m,)
        Of the first of them, increasing.
    solutions : list of Solution
        One for each value.
    means : int
        Values between them that were covered by a mean of two neighbours, without a solve.
    gap : float
        The largest relative gap over the whole range; infinite where a solution has no interval.
    complete : bool
        Whether it is at most the wanted gap.
    """

    def __init__(self, search: _Search, pieces: list[Piece], eps: float) -> None:
        self.parameters = search.names
        self.values = np.array(sorted(search.solutions))
        self.solutions = [search.solutions[value] for value in self.values.tolist()]
        self._search = search
        self._pieces = sorted(pieces, key=lambda piece: piece.ends)
        self.means = len(search.nodes) - len(self.solutions)
        self.gap = max((piece.worst()[0] for piece in self._pieces), default=math.inf)
        self.complete = self.gap <= eps

    def __repr__(self) -> str:
        if not self.solutions:
            return f"CertifiedPath({', '.join(self.parameters)}: nothing was solved)"
        return (
            f"CertifiedPath({', '.join(self.parameters)} from {self.values[0]:.6g} to"
            f" {self.values[-1]:.6g}: {len(self)} solutions, gap {self.gap:.2g})"
        )

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, index: Any) -> Any:
        return self.solutions[index]

    def parameters_at(self, value: float) -> dict[str, float]:
        """Return the values of all that varies where the first parameter has this value."""
        return self._search.settings(value)

    def _piece(self, value: Any) -> Piece:
        value = check_number(value, self.parameters[0])
        if not self._pieces:
            raise DataError("the path has no two solutions with an interval; give it more time")
        first, last = self._pieces[0].ends[0], self._pieces[-1].ends[1]
        if not first <= value <= last:
            raise DataError(
                f"{self.parameters[0]} must be from {first:.6g} to {last:.6g} on this path, got"
                f" {value!r}"
            )
        place = bisect_right([piece.ends[0] for piece in self._pieces], value) - 1
        return self._pieces[max(place, 0)]

    def at(self, value: float) -> AtValue:
        """Return a model and an interval of the optimum at any value in the range.

        Parameters
        ----------
        value : float
            Of the first parameter.

        Raises
        ------
        DataError
            If it is outside of the range.
        """
        piece = self._piece(value)
        lower, _ = piece.bounds(piece.place(float(value)))
        model, own_lower, own_upper = self._search.evaluated(piece, float(value))
        return AtValue(model, max(rounded(lower, -math.inf), own_lower), own_upper)

    def bounds(self, values: Any) -> tuple[Floats, Floats]:
        """Return ends of the optimum at several values, by what holds on the whole piece:
        :meth:`at` evaluates its neighbours, and is narrower.

        Parameters
        ----------
        values : array-like of shape (k,)

        Returns
        -------
        lower, upper : ndarray of shape (k,)
        """
        found = []
        for value in np.ravel(np.asarray(values, dtype=np.float64)).tolist():
            piece = self._piece(value)
            found.append(piece.bounds(piece.place(value)))
        return (
            np.array([rounded(lower, -math.inf) for lower, _ in found]),
            np.array([rounded(upper, math.inf) for _, upper in found]),
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the solutions: value, interval, gap."""
        rows = [
            {
                **self.parameters_at(value),
                "lower": solution.certificate.lower,
                "upper": solution.certificate.upper,
                "gap": solution.certificate.gap,
                "status": str(solution.status.value),
            }
            for value, solution in zip(self.values.tolist(), self.solutions, strict=True)
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the interval of the optimum over the range; see :func:`svmcvx.plot.certified_path`."""
        from svmcvx.plot import certified_path as draw

        return draw(self, ax=ax)


def certified_path(
    estimator: CertifiedClassifier,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    eps: float = 1e-2,
    time_limit: float | None = None,
    **ranges: tuple[float, float],
) -> CertifiedPath:
    r"""Solve a formulation for all values of a hyper-parameter in a range, up to a relative gap
    that holds everywhere.

    Parameters
    ----------
    estimator : CertifiedClassifier
        Not fitted, and not changed. Its other parameters hold throughout, but `tol`: each problem
        is solved to a twentieth of `eps`.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
    eps : float
        Relative gap, between 0 and 1.
    time_limit : float, optional
        Seconds; what is there by then is returned, as on Ctrl-C.
    **ranges : (low, high)
        The range of a hyper-parameter: ``C`` (pSVM, also with ``penalty="l1"``, ODML, ramp, l0),
        ``lam`` (M3SVM, the multi-class machines, the conic relaxation, 0-1), ``C1`` and ``C2``
        (ODM), ``lam1`` and ``lam2`` (ODML), all of them positive; ``p`` (pSVM, from 1), ``gamma``
        (pSVM with an RBF, Laplacian or exponential kernel, positive) or ``D`` (ODM, from 0).
        Several of the first kind with the same ratio of high to low vary in proportion.

    Returns
    -------
    CertifiedPath
        Its `gap` is above `eps` only if `complete` is false: where time ended, or a solver could
        not reach what was needed.

    Raises
    ------
    DataError
        If nothing is known of the optimum between two values of the parameter, the estimator makes
        one model of several problems, or a range cannot be used.

    Warns
    -----
    UserWarning
        If the path is not complete.

    Notes
    -----
    The number of solutions grows as :math:`1/\sqrt\varepsilon`. An interval is one of the optimum,
    not of a test error.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 2, sigma=0.5, seed=0)
    >>> path = sx.certified_path(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 10.0), eps=0.02)
    >>> path.complete, path.at(0.7315).gap <= 0.02
    (True, True)
    """
    eps = check_number(eps, "eps", low=0, high=1, open_low=True, open_high=True)
    if not isinstance(estimator, CertifiedClassifier):
        raise DataError(
            f"estimator must be one of this package's classifiers, got {type(estimator).__name__}"
        )
    rule, low, high, ratios = _range(estimator, ranges)
    with time_limited(check_time_limit(time_limit)) as deadline:
        search = _Search(estimator, X, y, sample_weight, rule, tuple(ranges), ratios, eps)
        open_: list[tuple[float, float, Piece]] = []
        closed: list[Piece] = []
        search.solve(low)
        if high > low and search.usable(low):
            search.solve(high)
            if search.usable(high):
                _push(open_, closed, search.piece(low, high), eps)
        while open_ and not search.stopped and not deadline.passed():
            _, _, piece = heapq.heappop(open_)
            first, last = piece.ends
            middle = piece.worst()[1]
            if not search.take_mean(first, last, middle):
                search.solve(middle)
            if not search.usable(middle):
                closed.append(piece)
                continue
            _push(open_, closed, search.piece(first, middle), eps)
            _push(open_, closed, search.piece(middle, last), eps)
    found = CertifiedPath(search, [*closed, *(piece for *_, piece in open_)], eps)
    if not found.complete:
        warnings.warn(
            f"the intervals are known up to a relative gap of {found.gap:.2g}, not {eps:.2g}; allow"
            " more time, or a larger eps",
            stacklevel=2,
        )
    return found


def _push(
    open_: list[tuple[float, float, Piece]], closed: list[Piece], piece: Piece, eps: float
) -> None:
    """Keep a piece: with those to split, the widest gap first, unless it is done or too short."""
    gap, _ = piece.worst()
    first, last = piece.ends
    if gap <= eps or last <= first * NEAREST:
        closed.append(piece)
    else:
        heapq.heappush(open_, (-gap, first, piece))


def _range(
    estimator: CertifiedClassifier, ranges: dict[str, Any]
) -> tuple[Rule, float, float, tuple[float, ...]]:
    """Return the rule of the parameters, the range of the first, and what the others are in units
    of it.
    """
    rules = RULES.get(estimator._stated_as() or "", {})
    if not rules:
        raise DataError(
            f"{type(estimator).__name__} has no parameter of which it is known what lies between"
            " two solutions, so that its path cannot be certified"
        )
    unknown = [name for name in ranges if name not in rules]
    if unknown or not ranges:
        raise DataError(
            f"a certified path of {type(estimator).__name__} varies {' or '.join(rules)}: pass its"
            f" range, as in {next(iter(rules))}=(0.01, 100.0); got {', '.join(unknown) or 'none'}"
        )
    rule = rules[next(iter(ranges))]
    if len(ranges) > 1 and not all(isinstance(rules[name], Affine) for name in ranges):
        alone = next(name for name in ranges if not isinstance(rules[name], Affine))
        raise DataError(f"{alone} varies alone on a certified path: pass one range")
    rule.check(estimator)
    low, high, ratios = proportional(ranges, least=rule.least, closed=rule.closed)
    return rule, low, high, ratios


class _Search:
    """The solutions so far, and the statement that evaluates their models."""

    def __init__(
        self,
        estimator: CertifiedClassifier,
        X: Any,
        y: Any,
        sample_weight: Any,
        rule: Rule,
        names: tuple[str, ...],
        ratios: tuple[float, ...],
        eps: float,
    ) -> None:
        self.estimator = clone(estimator).set_params(tol=SHARE * eps)
        self.rule, self.names, self.ratios, self.eps = rule, names, ratios, eps
        self.data = self.estimator._training_data(X, y, sample_weight)
        self.solutions: dict[float, Solution] = {}
        self.nodes: dict[float, Node] = {}
        self.stopped = False
        self._statement: Any = None
        self.stated = lru_cache(STATEMENTS)(self._stated_at)

    def settings(self, value: float) -> dict[str, float]:
        """The values of all that varies."""
        return {name: value * ratio for name, ratio in zip(self.names, self.ratios, strict=True)}

    def solve(self, value: float) -> None:
        """Solve at a value, from the nearest solution."""
        machine = clone(self.estimator)
        for name, number in self.settings(value).items():
            machine.set_params(**self.rule.settings(self.estimator, name, number))
        near = min(self.solutions, key=lambda other: abs(other - value), default=None)
        with warnings.catch_warnings():
            # The path reports the gap that is left.
            warnings.simplefilter("ignore")
            machine._check_columns(self.data.X, reset=True)
            machine._fit(self.data, None if near is None else self.solutions[near])
        solution = machine.solution_
        if solution.parts:
            raise DataError(
                f"{type(machine).__name__} makes one model of several problems here; follow the"
                " path of two classes"
            )
        if solution.certificate.kind == "local":
            raise DataError(
                "a local minimum has no lower bound, so that its path cannot be certified; choose a"
                " method that proves one"
            )
        self.stopped = solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
        self.solutions[value] = solution
        self.nodes[value] = Node(value, solution.model, solution.dual, solution.certificate)
        if self._statement is None:
            self._statement = self._stated(machine)

    def take_mean(self, first: float, last: float, value: float) -> bool:
        """Take the mean of two neighbours for a value between them, if it has a narrow interval
        there; return whether it has.
        """
        one, other = self.nodes[first], self.nodes[last]
        if one.certificate.kind != "convex":
            return False
        models, duals = self._between(one, other, value)
        if len(models) < 3 or not duals:
            return False
        statement = self.stated(value)
        found = check(statement, models, duals)
        if not found.certificate.gap <= MEAN_SHARE * self.eps:
            return False
        self.nodes[value] = Node(
            value, found.model, statement.export_dual(found.dual), found.certificate
        )
        return True

    def _between(self, one: Node, other: Node, value: float) -> tuple[list[Any], list[Any]]:
        """Return what two nodes offer for a value between them: models, and dual points."""
        t = (value - one.value) / (other.value - one.value)
        models = [mixed_model(one.model, other.model, t), one.model, other.model]
        kernel = getattr(getattr(self.stated(value), "space", None), "resolved", None)
        if kernel is not None:
            # Whose parameter may be the one that varies.
            models = [
                replace(model, kernel=kernel) if isinstance(model, KernelModel) else model
                for model in models
            ]
        duals = [mixed_dual(one.dual, other.dual, t), one.dual, other.dual]
        return [model for model in models if model is not None], [dual for dual in duals if dual]

    def evaluated(self, piece: Piece, value: float) -> tuple[Model, float, float]:
        """Return the best model of the neighbours and of their mean at a value, and an interval by
        these alone.
        """
        one, other = (self.nodes[end] for end in piece.ends)
        statement = self.stated(value)
        models, duals = self._between(one, other, value)
        upper, k = min((statement.certify(model).upper, k) for k, model in enumerate(models))
        lower = check(statement, models, duals).certificate.lower
        return models[k], -math.inf if lower is None else lower, upper

    def usable(self, value: float) -> bool:
        """Whether there is a lower end."""
        return self.nodes[value].certificate.lower is not None

    def _stated(self, machine: CertifiedClassifier) -> Any:
        of_class = machine.class_weight_ if machine.class_weight is not None else None
        data = weighed(self.data, of_class)
        weights = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
        # A kernel's scale is that of the rows without the weights of classes, as in a fit.
        return machine._request(self.data, None).problem(data.X, data.labels, **weights).formulation

    def _stated_at(self, value: float) -> Any:
        return self.rule.stated(self._statement, self.settings(value))

    def piece(self, first: float, last: float) -> Piece:
        """Return the piece between two nodes."""
        return self.rule.piece(self.stated, self.nodes[first], self.nodes[last])
