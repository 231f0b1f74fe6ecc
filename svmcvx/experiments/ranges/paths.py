r"""Solutions for all values of a hyper-parameter at once: a finite set whose intervals cover a range of it.

Where the objective of each model is an affine function of the parameter, :math:`f_w(C) = R(w) + C\,\ell(w)`, the optimum

.. math:: P^*(C) = \min_w\; R(w) + C\,\ell(w)

is a concave function of it, whether or not the problem is convex in w. Between two values :math:`C_0 < C_1`,
:math:`C = (1-t)C_0 + tC_1`, it is bounded by what is certified at these two alone:

.. math:: (1-t)L_0 + tL_1 \;\le\; P^*(C) \;\le\; \min_{j\in\{0,1\}}\; (1-t)U_j(C_0) + tU_j(C_1),

with the lower ends L of the two certificates, and the objectives U of each of the two models at both values. On either side of the place
where the two upper lines cross, the relative gap is linear-fractional in t and so largest at an end: its largest value on the piece is one
of four numbers. Pieces are bisected where the gap is largest until it is nowhere above the one that is asked for.

**Source.** Concavity: [GiesenJaggiLaue]. The chord in place of one fixed solution leaves :math:`O(1/\sqrt\varepsilon)` pieces instead of
:math:`O(1/\varepsilon)`.
"""

from __future__ import annotations

import heapq
import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from svmcvx.certificate import Certificate, relative_gap
from svmcvx.data import check_number, check_time_limit
from svmcvx.display import ShortRepr
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.pairs import CompositeSolution
from svmcvx.model import Model
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import time_limited

__all__ = ["AtValue", "CertifiedPath", "certified_path"]

Floats: TypeAlias = NDArray[np.float64]

# Hyper-parameters that the objective of a model is affine in, by formulation.
AFFINE: Final = {
    "psvm": ("C",),
    "odm": ("C1", "C2"),
    "m3svm": ("lam",),
    "multiclass": ("lam",),
    "zero_one": ("lam",),
    "ramp": ("C",),
    "l0": ("C",),
}
# Each problem is solved to this share of the gap that is asked for.
SHARE: Final = 0.05
# Neighbouring values are not brought nearer to each other than this.
NEAREST: Final = 1.0 + 1e-6
# A piece is bisected at least this far from its ends, on a logarithmic scale.
INSIDE: Final = 0.1


class AtValue(NamedTuple):
    """What a path says at one value of its parameter.

    Attributes
    ----------
    model : Model
        Of one of the neighbouring solutions.
    lower, upper : float
        The optimum at this value lies between them, and `upper` is at least the model's objective.
    """

    model: Model
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """Relative width of the interval."""
        return relative_gap(self.lower, self.upper)


@dataclass(frozen=True)
class _Piece:
    """Two neighbouring values, the lower ends there, and the upper ends of both models at both values.

    Attributes
    ----------
    ends : tuple of float
    lower : tuple of Fraction
    upper : tuple of tuples of Fraction
        Of the model of the first value, and of that of the second; a line with an infinite end is left out (None).
    """

    ends: tuple[float, float]
    lower: tuple[Fraction, Fraction]
    upper: tuple[tuple[Fraction, Fraction] | None, ...]

    def place(self, value: float) -> Fraction:
        """The t of a value."""
        first, last = map(Fraction, self.ends)
        return (Fraction(value) - first) / (last - first)

    def bounds(self, t: Fraction) -> tuple[Fraction, Fraction | None, int]:
        """Lower and upper end at t, and which of the two models has the latter."""
        ends = [(_line(line, t), j) for j, line in enumerate(self.upper) if line is not None]
        upper, best = min(ends) if ends else (None, 0)
        return _line(self.lower, t), upper, best

    def worst(self) -> tuple[float, float]:
        """The largest relative gap, rounded upwards, and a value where it may be split."""
        places = [Fraction(0), Fraction(1)]
        if all(line is not None for line in self.upper):
            (a, b), (c, d) = self.upper  # type: ignore[misc]
            # Where the lines cross, inside of the piece only if the order of the models changes there.
            if (a - c) * (b - d) < 0:
                places.append((a - c) / ((a - c) - (b - d)))
        gaps = [(_gap(*self.bounds(t)[:2]), t) for t in places]
        gap, at = max(gaps)
        if _of_both_signs(self):
            gap = max(gap, 2.0)
        first, last = self.ends
        width = math.log(last / first)
        inside = math.log1p(float(at) * (last - first) / first) / width if 0 < at < 1 else 0.5
        return gap, first * math.exp(min(max(inside, INSIDE), 1.0 - INSIDE) * width)


def _line(ends: tuple[Fraction, Fraction], t: Fraction) -> Fraction:
    return ends[0] + t * (ends[1] - ends[0])


def _of_both_signs(piece: _Piece) -> bool:
    """Whether not all ends have one sign: the relative gap, at most 2, is no monotone function of t then."""
    ends = [end for line in (piece.lower, *piece.upper) if line is not None for end in line]
    return min(ends) <= 0 <= max(ends)


def _gap(lower: Fraction, upper: Fraction | None) -> float:
    """The relative gap, rounded upwards."""
    if upper is None:
        return math.inf
    size = max(abs(lower), abs(upper))
    return math.nextafter(float((upper - lower) / size), math.inf) if size else 0.0


class CertifiedPath(ShortRepr, Sequence[Solution]):
    """Solutions at some values of a hyper-parameter, whose intervals hold for all values between them.

    Attributes
    ----------
    parameters : tuple of str
        What varies; several vary in proportion.
    values : ndarray of shape (m,)
        Of the first of them, increasing.
    solutions : list of Solution
        One for each value.
    gap : float
        The largest relative gap over the whole range; infinite where a solution has no interval.
    complete : bool
        Whether it is at most the one that was asked for.
    """

    def __init__(
        self, parameters: tuple[str, ...], ratios: tuple[float, ...], solutions: dict[float, Solution], pieces: list[_Piece],
        eps: float,
    ) -> None:  # fmt: skip
        self.parameters = parameters
        self.values = np.array(sorted(solutions))
        self.solutions = [solutions[value] for value in self.values.tolist()]
        self._ratios, self._eps = ratios, eps
        self._pieces = sorted(pieces, key=lambda piece: piece.ends)
        self.gap = max((piece.worst()[0] for piece in self._pieces), default=math.inf)
        self.complete = self.gap <= eps

    def __repr__(self) -> str:
        if not self.solutions:
            return f"CertifiedPath({', '.join(self.parameters)}: nothing was solved)"
        return (
            f"CertifiedPath({', '.join(self.parameters)} from {self.values[0]:.6g} to {self.values[-1]:.6g}: "
            f"{len(self)} solutions, gap {self.gap:.2g})"
        )

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, index: Any) -> Any:
        return self.solutions[index]

    def parameters_at(self, value: float) -> dict[str, float]:
        """Return the values of all that varies where the first parameter has this value."""
        return {name: value * ratio for name, ratio in zip(self.parameters, self._ratios, strict=True)}

    def _piece(self, value: Any) -> _Piece:
        value = check_number(value, self.parameters[0])
        if not self._pieces:
            raise DataError("the path has no two solutions with an interval; give it more time")
        first, last = self._pieces[0].ends[0], self._pieces[-1].ends[1]
        if not first <= value <= last:
            raise DataError(f"{self.parameters[0]} must be from {first:.6g} to {last:.6g} on this path, got {value!r}")
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
        lower, upper, best = piece.bounds(piece.place(float(value)))
        model = self.solutions[int(np.searchsorted(self.values, piece.ends[best]))].model
        return AtValue(model, _rounded(lower, -math.inf), math.inf if upper is None else _rounded(upper, math.inf))

    def bounds(self, values: Any) -> tuple[Floats, Floats]:
        """Return the ends of the intervals at several values.

        Parameters
        ----------
        values : array-like of shape (k,)

        Returns
        -------
        lower, upper : ndarray of shape (k,)
        """
        found = [self.at(value) for value in np.ravel(np.asarray(values, dtype=np.float64)).tolist()]
        return np.array([each.lower for each in found]), np.array([each.upper for each in found])

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


def _rounded(number: Fraction, direction: float) -> float:
    value = float(number)
    exact = Fraction(value)
    wrong = exact > number if direction < 0 else exact < number
    return math.nextafter(value, direction) if wrong else value


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
    r"""Solve a formulation for all values of a hyper-parameter in a range, up to a relative gap that holds everywhere.

    Parameters
    ----------
    estimator : CertifiedClassifier
        Not fitted, and not changed. Its other parameters hold throughout, but `tol`: each problem is solved to a twentieth of `eps`.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
    eps : float
        Relative gap, between 0 and 1.
    time_limit : float, optional
        Seconds; what is there by then is returned, as on Ctrl-C.
    **ranges : (low, high)
        The range of a hyper-parameter, positive: ``C`` (pSVM, ramp, l0), ``lam`` (M3SVM, the multi-class machines, 0-1), ``C1`` and ``C2``
        (ODM). Several with the same ratio of high to low vary in proportion.

    Returns
    -------
    CertifiedPath
        Its `gap` is above `eps` only if `complete` is false: where time ended, or a solver could not reach what was needed.

    Raises
    ------
    DataError
        If the objective is not an affine function of the parameter, the estimator makes one model of several problems, or a range
        cannot be used.

    Warns
    -----
    UserWarning
        If the path is not complete.

    Notes
    -----
    The number of solutions grows as :math:`1/\sqrt\varepsilon`. An interval is one of the optimum, not of a test error.

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
        raise DataError(f"estimator must be one of this package's classifiers, got {type(estimator).__name__}")
    low, high, ratios = _range(estimator, ranges)
    names = tuple(ranges)
    with time_limited(check_time_limit(time_limit)) as deadline:
        search = _Search(estimator, X, y, sample_weight, names, ratios, eps)
        pieces: list[tuple[float, float, _Piece]] = []
        closed: list[_Piece] = []
        search.solve(low)
        if high > low and search.usable(low):
            search.solve(high)
            if search.usable(high):
                _push(pieces, closed, search.piece(low, high), eps)
        while pieces and not search.stopped and not deadline.passed():
            _, _, piece = heapq.heappop(pieces)
            first, last = piece.ends
            middle = piece.worst()[1]
            search.solve(middle)
            if not search.usable(middle):
                closed.append(piece)
                continue
            _push(pieces, closed, search.piece(first, middle), eps)
            _push(pieces, closed, search.piece(middle, last), eps)
    found = CertifiedPath(names, ratios, search.solutions, [*closed, *(piece for *_, piece in pieces)], eps)
    if not found.complete:
        warnings.warn(
            f"the intervals are known up to a relative gap of {found.gap:.2g}, not {eps:.2g}; allow more time, or a larger eps",
            stacklevel=2,
        )
    return found


def _push(open_: list[tuple[float, float, _Piece]], closed: list[_Piece], piece: _Piece, eps: float) -> None:
    """Keep a piece: with those to split, the widest gap first, unless it is done or too short."""
    gap, _ = piece.worst()
    first, last = piece.ends
    if gap <= eps or last <= first * NEAREST:
        closed.append(piece)
    else:
        heapq.heappush(open_, (-gap, first, piece))


def _range(estimator: CertifiedClassifier, ranges: dict[str, Any]) -> tuple[float, float, tuple[float, ...]]:
    """Return the range of the first parameter, and what the others are in units of it."""
    affine = AFFINE.get(estimator._stated_as() or "", ())
    if not affine:
        raise DataError(
            f"{type(estimator).__name__} has no parameter in which the objective of a model is affine, so that its path cannot be certified"
        )
    unknown = [name for name in ranges if name not in affine]
    if unknown or not ranges:
        raise DataError(
            f"a certified path of {type(estimator).__name__} varies {' and '.join(affine)}: pass its range, as in {affine[0]}=(0.01, 100.0); "
            f"got {', '.join(unknown) or 'none'}"
        )
    ends = []
    for name, given in ranges.items():
        if not isinstance(given, (tuple, list, np.ndarray)) or len(given) != 2:
            raise DataError(f"{name} must be the two ends of a range, as in {name}=(0.01, 100.0), got {given!r}")
        low, high = (check_number(end, name, low=0, open_low=True) for end in given)
        if not low <= high:
            raise DataError(f"the range of {name} must be increasing, got {given!r}")
        ends.append((low, high))
    (low, high), *others = ends
    for name, (a, b) in zip(list(ranges)[1:], others, strict=True):
        if Fraction(b) * Fraction(low) != Fraction(a) * Fraction(high):
            raise DataError(
                f"parameters vary in proportion: {name} must have the same ratio of its ends as {next(iter(ranges))}"
            )
    ratios = tuple(a / low for a, _ in ends)
    if any(not math.frexp(ratio)[0] == 0.5 for ratio in ratios):
        raise DataError(
            "the first parameter times the ratio must be exact: pass ranges of which one is a power of two times the other"
        )
    return low, high, ratios


class _Search:
    """The solutions so far, and the statement that evaluates their models."""

    def __init__(
        self,
        estimator: CertifiedClassifier,
        X: Any,
        y: Any,
        sample_weight: Any,
        names: tuple[str, ...],
        ratios: tuple[float, ...],
        eps: float,
    ) -> None:
        self.estimator = clone(estimator).set_params(tol=SHARE * eps)
        self.names, self.ratios = names, ratios
        self.data = self.estimator._training_data(X, y, sample_weight)
        self.solutions: dict[float, Solution] = {}
        self.stopped = False
        self._statement: Any = None

    def solve(self, value: float) -> None:
        """Solve at a value, from the nearest solution."""
        settings = {name: value * ratio for name, ratio in zip(self.names, self.ratios, strict=True)}
        machine = clone(self.estimator).set_params(**settings)
        near = min(self.solutions, key=lambda other: abs(math.log(other / value)), default=None)
        with warnings.catch_warnings():
            # The path tells what gap is left.
            warnings.simplefilter("ignore")
            machine._check_columns(self.data.X, reset=True)
            machine._fit(self.data, None if near is None else self.solutions[near])
        solution = machine.solution_
        if isinstance(solution, CompositeSolution):
            raise DataError(
                f"{type(machine).__name__} makes one model of several problems here; follow the path of two classes"
            )
        if solution.certificate.kind == "local":
            raise DataError(
                "a local minimum has no lower bound, so that its path cannot be certified; choose a method that proves one"
            )
        self.stopped = solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
        self.solutions[value] = solution
        if self._statement is None:
            self._statement = self._stated(machine)

    def usable(self, value: float) -> bool:
        """Whether there is a lower end."""
        return self.solutions[value].certificate.lower is not None

    def _stated(self, machine: CertifiedClassifier) -> Any:
        data = self.data.weighted(machine.class_weight_ if machine.class_weight is not None else None)
        weights = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
        return machine._request(data, None).problem(data.X, data.labels, **weights).formulation

    def piece(self, first: float, last: float) -> _Piece:
        """Return the piece between two values that are solved."""
        certificates = [self.solutions[value].certificate for value in (first, last)]
        lower = [Fraction(certificate.lower or 0.0) for certificate in certificates]
        upper = [
            self._line(certificates[0].upper, self._upper(first, last)),
            self._line(self._upper(last, first), certificates[1].upper),
        ]
        return _Piece((first, last), (lower[0], lower[1]), tuple(upper))

    @staticmethod
    def _line(first: float, last: float) -> tuple[Fraction, Fraction] | None:
        return (Fraction(first), Fraction(last)) if math.isfinite(first) and math.isfinite(last) else None

    def _upper(self, of: float, at: float) -> float:
        """Return the objective of a solution's model at another value."""
        settings = {name: at * ratio for name, ratio in zip(self.names, self.ratios, strict=True)}
        found: Certificate = self._statement.at(**settings).certify(self.solutions[of].model)
        return found.upper
