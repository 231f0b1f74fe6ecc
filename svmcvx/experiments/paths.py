r"""Solutions for all values of a hyper-parameter at once: a finite set whose intervals cover a
range of it.

Two neighbouring values with a model and a dual point each bound the optimum in between by lines
(derivations in ``docs/predictions.md``). Where the relative gap is largest, the mean of both models
and of both dual points is tried first: it costs no solve, and the checker makes its interval as of
any other point. Only where that is too wide the problem is solved. Pieces are split until the gap
is nowhere above the one that is asked for.

**Source.** [GiesenJaggiLaue] for paths in C by single solutions. Two solutions instead of one leave
:math:`O(1/\sqrt\varepsilon)` pieces instead of :math:`O(1/\varepsilon)`.
"""

from __future__ import annotations

import heapq
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import clone

from svmcvx.arrays import Floats
from svmcvx.certificate import Certificate, Dual, check, relative_gap
from svmcvx.certificate.bounded import exact, exp, sqrt, square, total
from svmcvx.data import check_number, check_time_limit
from svmcvx.display import ShortRepr
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.request import TrainingData, weighed
from svmcvx.formulations.margin import PSVM
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import time_limited


class AtValue(NamedTuple):
    """A model and an interval of the optimum at one value of the parameter."""

    model: Model
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        return relative_gap(self.lower, self.upper)


class CertifiedPath(ShortRepr, Sequence[Solution]):
    """Solutions at some values of a hyper-parameter, with intervals for all values between them.

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
        self.parameters = search.ray.names
        self.values = np.array(sorted(search.solutions))
        self.solutions = [search.solutions[value] for value in self.values.tolist()]
        self._search = search
        self._pieces = sorted(pieces, key=lambda piece: piece.ends)
        self.means = len(search.nodes) - len(self.solutions)
        self.gap = max((piece.worst()[0] for piece in self._pieces), default=math.inf)
        self.complete = self.gap <= eps

    def __repr__(self) -> str:
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
        return self._search.ray.settings(value)

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
        return self._pieces[bisect_right(self._pieces, value, key=lambda one: one.ends[0]) - 1]

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
        piece, value = self._piece(value), float(value)
        model, lower, upper = self._search.evaluated(piece, value)
        return AtValue(model, max(piece.rounded(value)[0], lower), upper)

    def bounds(self, values: Any) -> tuple[Floats, Floats]:
        """Return ends of the optimum at several values; :meth:`at` evaluates, and is narrower.

        Parameters
        ----------
        values : array-like of shape (k,)
            Of the hyper-parameter.

        Returns
        -------
        tuple of two ndarrays of shape (k,)
            Lower and upper ends.
        """
        values = np.asarray(values, dtype=np.float64).ravel().tolist()
        ends = np.array([self._piece(value).rounded(value) for value in values]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the solutions: value, interval, gap."""
        rows = []
        for value, solution in zip(self.values.tolist(), self.solutions, strict=True):
            one = solution.certificate
            ends = {"lower": one.lower, "upper": one.upper, "gap": one.gap}
            rows.append({**self.parameters_at(value), **ends, "status": str(solution.status)})
        return pd.DataFrame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the interval over the range; see :func:`svmcvx.plot.certified_path`."""
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
    r"""Solve for all values of a hyper-parameter in a range, up to a gap that holds everywhere.

    The number of solutions grows as :math:`1/\sqrt\varepsilon`. An interval is one of the optimum,
    not of a test error.

    Parameters
    ----------
    estimator : CertifiedClassifier
        Not fitted, and not changed. Its other parameters hold throughout, but `tol`: each problem
        is solved to a twentieth of `eps`.
    X, y, sample_weight : of the same types
        As for ``fit`` of the estimator.
    eps : float
        Relative gap, between 0 and 1.
    time_limit : float, optional
        Seconds; what is there by then is returned, as on Ctrl-C.
    **ranges : (low, high)
        The range of a hyper-parameter: ``C`` (pSVM, also with ``penalty="l1"``, ODML, ramp, l0),
        ``lam`` (M3SVM, the multi-class machines, the conic relaxation, 0-1), ``C1`` and ``C2``
        (ODM), ``lam1`` and ``lam2`` (ODML), all of them positive; ``p`` (pSVM, from 1) or ``D``
        (ODM, from 0). Several of the first kind with the same ratio of high to low vary in
        proportion.

    Returns
    -------
    CertifiedPath
        Its `gap` is above `eps` only if `complete` is false: where time ended, or a solver could
        not reach what was needed. Then a warning says so.

    Raises
    ------
    DataError
        If nothing is known of the optimum between two values of the parameter, the estimator makes
        one model of several problems, or a range cannot be used.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 2, sigma=0.5, seed=0)
    >>> path = sx.certified_path(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 10.0), eps=0.02)
    >>> path.complete, path.at(0.7315).gap <= 0.02
    (True, True)
    """
    eps = check_number(eps, "eps", "(0, 1)")
    if not isinstance(estimator, CertifiedClassifier):
        raise DataError(
            f"estimator must be one of this package's classifiers, got {type(estimator).__name__}"
        )
    rule, ray = _rule(estimator, ranges)
    # Each problem is solved to a twentieth of the gap that is asked for between them.
    machine = clone(estimator).set_params(tol=0.05 * eps)
    open_: list[tuple[float, float, Piece]] = []
    closed: list[Piece] = []
    with time_limited(check_time_limit(time_limit)) as deadline:
        search = _Search(machine, machine._training_data(X, y, sample_weight), rule, ray, eps)

        def add(first: float, last: float) -> None:
            """Keep a piece: with those to split, the widest gap first, or as narrow or short."""
            piece = search.piece(first, last)
            gap = piece.worst()[0]
            if gap <= eps or last - first <= 1e-6 * first:
                closed.append(piece)
            else:
                heapq.heappush(open_, (-gap, first, piece))

        search.solve(ray.low)
        if ray.high > ray.low and search.usable(ray.low):
            search.solve(ray.high)
            if search.usable(ray.high):
                add(ray.low, ray.high)
        while open_ and not search.stopped and not deadline.passed():
            _, _, piece = heapq.heappop(open_)
            (first, last), middle = piece.ends, piece.worst()[1]
            if not search.take_mean(first, last, middle):
                search.solve(middle)
            if search.usable(middle):
                add(first, middle)
                add(middle, last)
            else:
                closed.append(piece)
    found = CertifiedPath(search, [*closed, *(piece for *_, piece in open_)], eps)
    if not found.complete:
        warnings.warn(
            f"the intervals are known up to a relative gap of {found.gap:.2g}, not {eps:.2g}; allow"
            " more time, or a larger eps",
            stacklevel=2,
        )
    return found


class Ray(NamedTuple):
    """Parameters that vary in proportion: the range of the first one, and the ratios to it."""

    names: tuple[str, ...]
    ratios: tuple[float, ...]
    low: float
    high: float

    def settings(self, value: float) -> dict[str, float]:
        """Return the values of all where the first has this value."""
        return {name: value * ratio for name, ratio in zip(self.names, self.ratios, strict=True)}


def check_names(ranges: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    unknown = [name for name in ranges if name not in names]
    if unknown or not ranges:
        raise DataError(
            f"{what}: pass its range, as in {names[0]}=(0.01, 100.0); got"
            f" {', '.join(unknown) or 'none'}"
        )


def _rule(estimator: CertifiedClassifier, ranges: dict[str, Any]) -> tuple[str, Ray]:
    kind, rules = type(estimator).__name__, RULES.get(estimator._stated_as() or "", {})
    if not rules:
        raise DataError(
            f"{kind} has no parameter of which it is known what lies between two solutions, so that"
            " its path cannot be certified"
        )
    check_names(ranges, list(rules), f"a certified path of {kind} varies {' or '.join(rules)}")
    alone = [name for name in ranges if rules[name] != "weight"]
    if len(ranges) > 1 and alone:
        raise DataError(f"{alone[0]} varies alone on a certified path: pass one range")
    if getattr(estimator, "kappa", None) is not None:
        raise DataError(
            "lam is ignored where kappa is given; set kappa=None for a certified path of lam"
        )
    rule = rules[next(iter(ranges))]
    least, closed = 1.0 if rule == "exponent" else 0.0, rule in ("band", "exponent")
    return rule, proportional(ranges, least=least, closed=closed)


def proportional(ranges: dict[str, Any], *, least: float = 0.0, closed: bool = False) -> Ray:
    ends = []
    for name, given in ranges.items():
        if not isinstance(given, (tuple, list, np.ndarray)) or len(given) != 2:
            raise DataError(
                f"{name} must be the two ends of a range, as in {name}=(0.01, 100.0), got {given!r}"
            )
        interval = f"{'[' if closed else '('}{least:g}, inf)"
        low, high = (check_number(end, name, interval) for end in given)
        if not low <= high:
            raise DataError(f"the range of {name} must be increasing, got {given!r}")
        ends.append((low, high))
    low, high = ends[0]
    for name, (a, b) in zip(ranges, ends, strict=True):
        if Fraction(b) * Fraction(low) != Fraction(a) * Fraction(high):
            raise DataError(
                f"parameters vary in proportion: {name} must have the same ratio of its ends as"
                f" {next(iter(ranges))}"
            )
    ratios = (1.0, *(a / low for a, _ in ends[1:]))
    if any(math.frexp(ratio)[0] != 0.5 for ratio in ratios):
        raise DataError(
            "the first parameter times the ratio must be exact: pass ranges of which one is a power"
            " of two times the other"
        )
    return Ray(tuple(ranges), ratios, low, high)


# The search


@dataclass(frozen=True, eq=False)
class Node:
    """A model and a dual point at a value of a parameter, and the interval that they have there."""

    value: float
    model: Any
    dual: Dual
    certificate: Certificate


@dataclass(eq=False)
class _Search:
    """The solutions so far, and the statement that evaluates their models."""

    estimator: CertifiedClassifier
    data: TrainingData
    rule: str
    ray: Ray
    eps: float
    solutions: dict[float, Solution] = field(default_factory=dict)
    nodes: dict[float, Node] = field(default_factory=dict)
    stopped: bool = False
    _statement: Any = None

    def solve(self, value: float) -> None:
        """Solve at a value, from the nearest solution."""
        machine = clone(self.estimator).set_params(**self.ray.settings(value))
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
            of_class = machine.class_weight_ if machine.class_weight is not None else None
            data = weighed(self.data, of_class)
            weights = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
            # A kernel's scale is that of the rows without the weights of classes, as in a fit.
            problem = machine._request(self.data).problem(data.X, data.labels, **weights)
            self._statement = problem.formulation

    def stated(self, value: float) -> Any:
        return self._statement.at(**self.ray.settings(value))

    def take_mean(self, first: float, last: float, value: float) -> bool:
        """Take the mean of two neighbours if its interval is narrow; return whether it is."""
        one, other = self.nodes[first], self.nodes[last]
        if one.certificate.kind != "convex":
            return False
        models, duals = self._between(one, other, value)
        if len(models) < 3 or not duals:
            return False
        statement = self.stated(value)
        found = check(statement, models, duals)
        # It leaves room for the gaps of the pieces on both sides.
        if not found.certificate.gap <= 0.6 * self.eps:
            return False
        dual = statement.export_dual(found.dual)
        self.nodes[value] = Node(value, found.model, dual, found.certificate)
        return True

    def _between(self, one: Node, other: Node, value: float) -> tuple[list[Any], list[Any]]:
        """Return the models and the dual points of two nodes and of their mean at a value."""
        t = (value - one.value) / (other.value - one.value)
        models = [mixed_model(one.model, other.model, t), one.model, other.model]
        duals = [mixed_dual(one.dual, other.dual, t), one.dual, other.dual]
        return [model for model in models if model is not None], [dual for dual in duals if dual]

    def evaluated(self, piece: Piece, value: float) -> tuple[Model, float, float]:
        """Return the best model of the neighbours and their mean at a value, and its interval."""
        one, other = (self.nodes[end] for end in piece.ends)
        statement = self.stated(value)
        models, duals = self._between(one, other, value)
        upper, k = min((_above(statement, model), k) for k, model in enumerate(models))
        lower = check(statement, models, duals).certificate.lower
        return models[k], -math.inf if lower is None else lower, upper

    def usable(self, value: float) -> bool:
        return self.nodes[value].certificate.lower is not None

    def piece(self, first: float, last: float) -> Piece:
        lines = PIECES[self.rule]
        return Piece((first, last), *lines(self.stated, self.nodes[first], self.nodes[last]))


def mixed_model(first: Any, last: Any, t: float) -> Any:
    """Return (1 − t) times a model plus t times another one; None for other types of models."""
    if type(first) is not type(last) or type(first) not in (
        LinearModel,
        KernelModel,
        MulticlassModel,
    ):
        return None
    support = np.union1d(first.support, last.support)
    intercept = ((1.0 - t) * np.asarray(first.intercept) + t * np.asarray(last.intercept))[()]
    if not isinstance(first, KernelModel):
        coef = (1.0 - t) * first.coef + t * last.coef
        return replace(first, coef=coef, intercept=intercept, support=support)
    if not (isinstance(first.vectors, np.ndarray) and isinstance(last.vectors, np.ndarray)):
        return None
    v, vectors = np.zeros(support.size), np.zeros((support.size, first.n_features))
    for model, share in ((first, 1.0 - t), (last, t)):
        places = np.searchsorted(support, model.support)
        v[places] += share * model.dual_coef
        vectors[places] = model.vectors
    return replace(first, vectors=vectors, dual_coef=v, intercept=float(intercept), support=support)


def mixed_dual(first: Dual, last: Dual, t: float) -> Dual | None:
    """Return the same of two dual points; None where they have not the same entries."""
    if not first or {k: first[k].shape for k in first} != {k: last[k].shape for k in last}:
        return None
    return {name: (1.0 - t) * first[name] + t * last[name] for name in first}


Line: TypeAlias = tuple[Fraction, Fraction]
Lines: TypeAlias = tuple["Line | None", ...]


def line(first: float, last: float, shift: float = 0.0) -> Line | None:
    """Return the line through two numbers, moved by a third one; None unless they are finite."""
    if not (math.isfinite(first) and math.isfinite(last) and math.isfinite(shift)):
        return None
    return Fraction(first) + Fraction(shift), Fraction(last) + Fraction(shift)


@dataclass(frozen=True)
class Piece:
    """Two neighbouring values of a parameter, and lines between which the optimum is."""

    ends: tuple[float, float]
    lower: Lines
    upper: Lines

    def bounds(self, t: Fraction) -> tuple[Fraction | None, Fraction | None]:
        """Return the lower and the upper end at t in [0, 1]; None where nothing is known."""
        lower, upper = (
            [a + t * (b - a) for a, b in filter(None, lines)] for lines in (self.lower, self.upper)
        )
        return max(lower, default=None), min(upper, default=None)

    def rounded(self, value: float) -> tuple[float, float]:
        """Return both ends at a value, rounded outwards to doubles."""
        first, last = map(Fraction, self.ends)
        lower, upper = self.bounds((Fraction(value) - first) / (last - first))
        return _rounded(lower, -math.inf), _rounded(upper, math.inf)

    def worst(self) -> tuple[float, float]:
        """Return the largest relative gap, rounded upwards, and a value to split the piece at."""
        places = [Fraction(0), Fraction(1), *_crossings(self.lower), *_crossings(self.upper)]
        ends = [self.bounds(t) for t in places]
        gap, place = max((_gap(*pair), t) for pair, t in zip(ends, places, strict=True))
        known = [end for pair in ends for end in pair if end is not None]
        if known and min(known) <= 0 <= max(known):
            # The relative gap, at most 2, is no monotone function of t here.
            gap = max(gap, 2.0)
        return gap, self._split(float(place))

    def _split(self, t: float) -> float:
        """Return a value near t, a tenth of the piece from its ends; the middle for an end."""
        first, last = self.ends
        width = math.log(last / first) if first else 1.0
        inside = 0.5
        if 0.0 < t < 1.0:
            inside = math.log1p(t * (last - first) / first) / width if first else t
        inside = min(max(inside, 0.1), 0.9)
        return first * math.exp(inside * width) if first else last * inside


def _crossings(lines: Lines) -> list[Fraction]:
    """Return the places inside of the piece where the order of two lines changes."""
    found = []
    for one, other in combinations(filter(None, lines), 2):
        first, last = one[0] - other[0], one[1] - other[1]
        if first * last < 0:
            found.append(first / (first - last))
    return found


def _gap(lower: Fraction | None, upper: Fraction | None) -> float:
    if lower is None or upper is None:
        return math.inf
    size = max(abs(lower), abs(upper))
    return math.nextafter(float((upper - lower) / size), math.inf) if size else 0.0


def _rounded(number: Fraction | None, direction: float) -> float:
    """Return the next double in a direction; that infinity for None."""
    if number is None:
        return direction
    value = float(number)
    wrong = value > number if direction < 0 else value < number
    return math.nextafter(value, direction) if wrong else value


# Lines that two nodes give: below the optimum, and above it


StatementAt: TypeAlias = Callable[[float], Any]


def _above(statement: Any, model: Model) -> float:
    """The objective of a model, from above."""
    return float(statement.certify(model).upper)


def _below(statement: Any, dual: Dual) -> float:
    """The dual objective at a point, from below; −∞ where it is not feasible."""
    if not dual or statement.dual_violation(dual) != 0:
        return -math.inf
    return float(statement.evaluate_dual(dual).lower_end)


def _model_lines(stated: StatementAt, first: Node, last: Node) -> Lines:
    """Return the chords of the objectives of both models."""
    return (
        line(first.certificate.upper, _above(stated(last.value), first.model)),
        line(_above(stated(first.value), last.model), last.certificate.upper),
    )


def _dual_lines(
    stated: StatementAt, first: Node, last: Node, shifts: Sequence[float] = (0.0, 0.0)
) -> Lines:
    """Return the chords of the dual objectives of both points, moved."""
    ends = stated(first.value), stated(last.value)
    return tuple(
        line(_below(ends[0], node.dual), _below(ends[1], node.dual), shift)
        for node, shift in zip((first, last), shifts, strict=True)
    )


def _weight(stated: StatementAt, first: Node, last: Node) -> tuple[Lines, Lines]:
    """A weight of a term: objectives of models are affine, so the optimum is concave."""
    ends = [
        -math.inf if n.certificate.lower is None else n.certificate.lower for n in (first, last)
    ]
    return (line(*ends),), _model_lines(stated, first, last)


def _band(stated: StatementAt, first: Node, last: Node) -> tuple[Lines, Lines]:
    """D of ODM: the objective is convex in model and D together, the dual objective affine in D."""
    upper = line(first.certificate.upper, last.certificate.upper)
    return _dual_lines(stated, first, last), (upper,)


def _exponent(stated: StatementAt, first: Node, last: Node) -> tuple[Lines, Lines]:
    """P of the pSVM: the objective of a model is convex in p, a dual objective bends by little."""
    statement: PSVM = stated(first.value)
    p = exact(first.value)
    r = sqrt(1.0 + p * (p - 1.0))
    bend = 0.125 * square(exact(last.value) - p) * 2.0 * exp(r - p - 1.0) / (p * (1.0 + r))
    shifts = []
    for node in (first, last):
        # Without a dual point there is no line.
        alpha = statement.alpha(node.dual) if node.dual else np.zeros(statement.weight.size)
        used = alpha > 0.0
        cost = exact(statement.C) * total(exact(statement.weight[used]))
        shifts.append(-float((bend * cost).upper))
    return _dual_lines(stated, first, last, shifts), _model_lines(stated, first, last)


PIECES: Final[Mapping[str, Callable[[StatementAt, Node, Node], tuple[Lines, Lines]]]] = {
    "weight": _weight,
    "band": _band,
    "exponent": _exponent,
}
_LAM: Final = {"lam": "weight"}
# The parameters that may vary, by formulation.
RULES: Final[Mapping[str, Mapping[str, str]]] = {
    "psvm": {"C": "weight", "p": "exponent"},
    "l1_squared_hinge": {"C": "weight"},
    "odm": {"C1": "weight", "C2": "weight", "D": "band"},
    "odml": {"lam1": "weight", "lam2": "weight", "C": "weight"},
    "conic": _LAM,
    "m3svm": _LAM,
    "multiclass": _LAM,
    "zero_one": _LAM,
    "ramp": {"C": "weight"},
    "l0": {"C": "weight"},
}
