"""Guarantees of machines of two classes: the statement bound to the data again, and the theorem for
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import exact, roundings, sqrt, where
from svmcvx.data import CodedLabels, Features, binary_data, check_features, check_labels
from svmcvx.errors import DataError, NotCertified
from svmcvx.feature_space import FeatureSpace, KernelSpace, LinearSpace, feature_space
from svmcvx.formulations.base import BinaryStatement
from svmcvx.formulations.margin import PSVM, HardMargin, PenalisedPSVM
from svmcvx.formulations.margin_distribution import ODM, ODML
from svmcvx.guarantees.answers import CertifiedScores, Guarantee
from svmcvx.guarantees.theorem import (
    BLOCK,
    DualTerms,
    KernelPoints,
    LinearPoints,
    Multipliers,
    PowerTerms,
    QuadraticTerms,
    Theorem,
    affine_terms,
    room_above,
)
from svmcvx.kernels import Precomputed
from svmcvx.kernels.functions import is_definite
from svmcvx.model import BinaryModel, OneVsModel
from svmcvx.proofs.checker import NOTHING, label_codes, score_ends
from svmcvx.proofs.format import Proof, digest_of
from svmcvx.solution import REPEATED, OptimalIntercepts, Solution

# Share of its width by which an interval in a proof is wider on either side: coefficients of
# another checker are rounded in other ways.
SCORE_ROOM: Final = 2.0**-20


@dataclass(frozen=True, eq=False, repr=False)
class BinaryGuarantee(Guarantee):
    """Guarantees on every optimal machine of two classes; see :func:`svmcvx.guarantee`."""

    classes: NDArray[Any]
    theorem: Theorem
    lower: float
    upper: float
    space: FeatureSpace
    solution: Solution
    features: Features = None
    labels: Any = None

    def __repr__(self) -> str:
        return (
            f"BinaryGuarantee(optimum in [{self.lower:.9g}, {self.upper:.9g}], radius"
            f" {self.radius:.2g})"
        )

    @property
    def radius(self) -> float:
        r"""At least the distance of the optimal w from the mean m of model and dual point."""
        return math.sqrt(self.theorem.squared_radius) * (1.0 + 2.0**-50)

    @property
    def model(self) -> BinaryModel:
        """That of the solution."""
        return cast("BinaryModel", self.solution.model)

    @property
    def optimal_intercepts(self) -> OptimalIntercepts | None:
        """Those of the solution."""
        return self.solution.optimal_intercepts

    def proof(self, T: Any) -> Proof:
        """Return what :meth:`save_proof` writes."""
        rows = self._checked(T)
        own = self.scores(rows)
        below, above = (
            self.lower - REPEATED * abs(self.lower),
            self.upper + REPEATED * abs(self.upper),
        )
        proof = replace(self.solution.proof(), lower=below, upper=above)
        low, high = score_ends(proof, self.features, self.labels, rows)
        low, high = np.minimum(low, own.lower), np.maximum(high, own.upper)
        with np.errstate(invalid="ignore"):
            room = np.nan_to_num(
                SCORE_ROOM * (high - low) + REPEATED * np.maximum(np.abs(low), np.abs(high))
            )
        low, high = np.maximum(low - room, -NOTHING), np.minimum(high + room, NOTHING)
        scores = {"lower": low, "upper": high, "label": label_codes(low, high)}
        return replace(proof, scores=scores, test={"rows": low.size, "digest": digest_of(rows)})

    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the score f*(x) of some rows."""
        rows = self._checked(T)
        m = rows.shape[0]
        lower, upper = np.empty(m), np.empty(m)
        width = max(1, BLOCK // max(self.space.data.n, rows.shape[1]))
        for start in range(0, m, width):
            part = slice(start, start + width)
            tested = self.theorem.points.tested(rows[part])
            lower[part], upper[part] = self.theorem.bounds(tested, rows[part].shape[0])
        if (lower > upper).any():
            raise NotCertified(
                "the ends of an interval of a score contradict each other; please report this as a"
                " defect"
            )
        possible = np.column_stack([~(lower > 0.0), upper > 0.0])
        return CertifiedScores(
            lower, upper, possible, self.classes, possible.all(axis=1) & self._disputed(rows)
        )

    def _checked(self, T: Any) -> Features:
        X = self.space.data.X
        rows = check_features(T, name="T", n_features=int(X.shape[1]))
        if sp.issparse(X) and not sp.issparse(rows):
            return sp.csr_array(rows)
        return rows.toarray() if sp.issparse(rows) and not sp.issparse(X) else rows

    def _disputed(self, rows: Features) -> NDArray[np.bool_]:
        """Return which rows optimal intercepts predict differently, in floating point."""
        b = self.optimal_intercepts
        if b is None or b.unique:
            return np.zeros(rows.shape[0], dtype=bool)
        f = self.model.scores(rows).value - self.model.intercept
        return np.asarray((f + b.lower <= 0.0) & (f + b.upper > 0.0))


def binary_guarantee(solution: Solution, X: Any, y: Any) -> BinaryGuarantee:
    """Return the guarantee of a solution of two classes; see :func:`svmcvx.guarantee`."""
    if solution.formulation not in _STATEMENTS:
        raise DataError(
            f"there are no guarantees of {solution.formulation}{_WHY.get(solution.formulation, '')}"
        )
    space, features = training_space(solution, X, y)
    return replace(guarantee_in(space, solution), features=features, labels=np.asarray(y))


def guarantee_in(space: FeatureSpace, point: Any) -> BinaryGuarantee:
    """Return the guarantee of a solution, or a point like one, in a space of its data."""
    found: BinaryGuarantee = _STATEMENTS[point.formulation](point, space)
    return found


def training_space(solution: Solution, X: Any, y: Any) -> tuple[FeatureSpace, Features]:
    """Return the feature space of a solution on its data, and these with rows of weight zero."""
    evidence = solution.evidence
    if evidence is None or solution.data is None:
        raise DataError(
            f"there are no guarantees of this solution of {solution.formulation}: it is that of a"
            " problem with added constraints, or of a formulation outside the package"
        )
    if evidence.weight is None:
        raise DataError(
            "there are no guarantees for rows in blocks; load the data, or use a sample of them"
        )
    if "clipped_mass" in solution.certificate.residuals:
        raise DataError(
            "the kernel was indefinite and has been clipped: no new row has a place in that feature"
            " space"
        )
    features = check_features(X)
    if features.shape[0] != evidence.weight.size:
        raise DataError(
            f"X has {features.shape[0]} rows, and the solution is one for {evidence.weight.size}:"
            " pass the data that it was solved for"
        )
    data = binary_data(features, y, evidence.weight)
    if evidence.fingerprint and data.fingerprint != evidence.fingerprint:
        raise DataError(
            f"X and y are not the data of the solution (they are {data.fingerprint}, and it is"
            f" about {evidence.fingerprint}): pass those that it was solved for, in the same order"
        )
    require_classes(solution, data.classes)
    kernel = getattr(solution.model, "kernel", None)
    if kernel is not None and not is_definite(kernel):
        raise DataError(
            f"there are no guarantees for the kernel {kernel}: it has to be known to be positive"
            " semidefinite on new rows too, with a bound on its rounding; use RBF, Exponential,"
            " Laplacian, Polynomial with coef0 >= 0, or Linear"
        )
    return feature_space(data, kernel, intercept=evidence.intercept, keep_gram=False), features


def require_classes(solution: Solution, classes: NDArray[Any]) -> None:
    """Raise a :class:`~svmcvx.errors.DataError` unless labels are those of the model."""
    if classes.tolist() != solution.model.classes.tolist():
        raise DataError(
            f"y holds the labels {classes.tolist()}, and the solution is about"
            f" {solution.model.classes.tolist()}: pass those that it was solved for"
        )


def _feasible_dual(solution: Solution, statement: BinaryStatement) -> Dual:
    """Return the dual point of a solution, exactly feasible."""
    dual = solution.dual
    if not dual:
        raise NotCertified(
            f"the solution of {solution.formulation} has no dual point, and so no lower bound:"
            " there is nothing to guarantee from"
        )
    return dual if statement.dual_violation(dual) == 0 else statement.repair(dual)


def _guarantee(
    solution: Solution,
    statement: BinaryStatement,
    dual: Dual,
    multipliers: Multipliers,
    v: Any,
    moved: float = 0.0,
) -> BinaryGuarantee:
    """Return the guarantee from the interval on these data at the solution's own points."""
    model: Any = solution.model
    space = statement.space
    upper, lower = statement.evaluate(model).upper_end, statement.evaluate_dual(dual).lower_end
    stripped = replace(model, intercept=0.0) if space.intercept == "free" else model
    points: LinearPoints | KernelPoints
    if isinstance(space, LinearSpace):
        points = LinearPoints.of_space(space, stripped, v, moved)
    elif isinstance(space, KernelSpace):
        points = KernelPoints(space, stripped, v, moved)
    else:
        raise TypeError(f"no guarantees in a {type(space).__name__}")
    gap = (exact(upper) - exact(lower)).upper_end
    feasible = replace(solution, dual={**solution.dual, **statement.export_dual(dual)})
    return BinaryGuarantee(
        space.data.classes, Theorem(points, multipliers, gap), lower, upper, space, feasible
    )


def _psvm(solution: Solution, space: FeatureSpace) -> BinaryGuarantee:
    kind = PSVM if space.intercept == "free" else PenalisedPSVM
    statement = kind(space=space, C=solution.hyperparameters["C"], p=solution.hyperparameters["p"])
    dual = _feasible_dual(solution, statement)
    alpha = statement.alpha(dual)
    cost = exact(statement.C) * exact(statement.weight)
    terms: DualTerms
    if statement.p == 1:
        terms = affine_terms(alpha.size)
    elif statement.p == 2:
        # The conjugate is α²/(4Cs).
        terms = QuadraticTerms(1.0 - exact(alpha) / (2.0 * cost), 1.0 / (2.0 * cost))
    else:
        terms = PowerTerms(alpha, cost, statement.p)
    above = room_above(alpha, statement.upper_bound())
    multipliers = Multipliers(alpha, statement.y, above, space.intercept == "free", terms)
    return _guarantee(solution, statement, dual, multipliers, alpha * statement.y)


def _hard_margin(solution: Solution, space: FeatureSpace) -> BinaryGuarantee:
    statement = HardMargin(space=space)
    dual = _feasible_dual(solution, statement)
    alpha = statement.alpha(dual)
    multipliers = Multipliers(
        alpha, statement.y, np.full(alpha.size, np.inf), True, affine_terms(alpha.size)
    )
    # The objective is that of the model divided by its smallest margin, if that is below 1.
    moved = 0.0
    model: Any = solution.model
    lowest, violated = statement.lowest_margin(model)
    if lowest < 1.0 and lowest > 0.0 and not violated:
        stretch = 1.0 / exact(lowest) - 1.0
        moved = (sqrt(statement.penalty(model)) * stretch).upper_end
    return _guarantee(solution, statement, dual, multipliers, alpha * statement.y, moved)


def _odm(solution: Solution, space: FeatureSpace) -> BinaryGuarantee:
    settings = solution.hyperparameters
    statement = ODM(space=space, C1=settings["C1"], C2=settings["C2"], D=settings["D"])
    dual = _feasible_dual(solution, statement)
    theta, y = statement.entry(dual, "theta"), statement.y
    # In the sizes of the multipliers, whose signs do not change: g(a) = (±1 − D)a − a²/(4Cc).
    side = np.where(theta < 0.0, -1.0, 1.0)
    cost = where(
        theta < 0.0, exact(np.full(y.size, statement.C2)), exact(np.full(y.size, statement.C1))
    )
    cost = cost * statement.bounded_share
    slopes = exact(side) - exact(statement.D) - exact(np.abs(theta)) / (2.0 * cost)
    multipliers = Multipliers(
        np.abs(theta),
        y * side,
        np.full(y.size, np.inf),
        False,
        QuadraticTerms(slopes, 1.0 / (2.0 * cost)),
    )
    return _guarantee(solution, statement, dual, multipliers, theta * y)


def _odml(solution: Solution, space: FeatureSpace) -> BinaryGuarantee:
    settings = solution.hyperparameters
    statement = ODML(space=space, lam1=settings["lam1"], lam2=settings["lam2"], C=settings["C"])
    dual = _feasible_dual(solution, statement)
    alpha = statement.entry(dual, "alpha")
    above = room_above(alpha, statement.upper_bound())
    multipliers = Multipliers(alpha, statement.y, above, False, affine_terms(alpha.size))
    return _guarantee(solution, statement, dual, multipliers, statement.coefficients(dual))


_STATEMENTS: Mapping[str, Any] = {
    "psvm": _psvm,
    "penalised psvm": _psvm,
    "hard_margin": _hard_margin,
    "odm": _odm,
    "odml": _odml,
}
_COUNTED = (
    ": its losses are not convex, so that machines far apart may be nearly as good; a small gap"
    " says nothing about their labels"
)
_ABSOLUTE = (
    ": the sum of absolute values has no modulus of convexity that a gap could be held against"
)
_WHY: Mapping[str, str] = {
    **dict.fromkeys(("zero_one", "ramp", "l0"), _COUNTED),
    **dict.fromkeys(
        ("conic", "conic_fixed_gamma"),
        ": its objective has no modulus of convexity that a gap could be held against",
    ),
    **dict.fromkeys(("l1_squared_hinge", "sparse_multinomial_lr"), _ABSOLUTE),
}


Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class OneVsGuarantee(Guarantee):
    """Guarantees on every combination of optimal binary machines; see :func:`svmcvx.guarantee`."""

    classes: NDArray[Any]
    scheme: str
    members: tuple[BinaryGuarantee, ...]
    by_sums: bool = True

    def __repr__(self) -> str:
        return (
            f"OneVsGuarantee({self.scheme!r}, {len(self.members)} machines, radius"
            f" {self.radius:.2g})"
        )

    @property
    def radius(self) -> float:
        """The largest of the members'."""
        return max(member.radius for member in self.members)

    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the members' scores, and the classes that they leave."""
        found = [member.scores(T) for member in self.members]
        lower = np.column_stack([scores.lower for scores in found])
        upper = np.column_stack([scores.upper for scores in found])
        if self.scheme == "ovr":
            keys = [(lower, upper)]
        else:
            wins = np.stack([scores.possible for scores in found])
            keys = [self._votes(wins)]
            if self.by_sums:
                keys.append(self._sums(lower, upper))
        possible = ~beaten(keys)
        by_gap = np.any([scores.by_gap for scores in found], axis=0)
        return CertifiedScores(
            lower,
            upper,
            possible,
            self.classes,
            (possible.sum(axis=1) > 1) & ~by_gap & self._open(found),
        )

    @property
    def _no_proof(self) -> str:
        return (
            "it is about several machines; save one of each, as in"
            " guarantee.members[0].save_proof(path, T)"
        )

    @staticmethod
    def _open(found: list[CertifiedScores]) -> Mask:
        """Rows of which a member is undecided by the formulation."""
        return np.asarray(
            np.any([scores.undecided & scores.by_formulation for scores in found], axis=0)
        )

    def _votes(self, wins: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """The least and the largest number of votes of each class."""
        m = wins.shape[1]
        low, high = np.zeros((m, self.classes.size)), np.zeros((m, self.classes.size))
        for pair, (k, other) in zip(wins, combinations(range(self.classes.size), 2), strict=True):
            for column, own in ((k, 0), (other, 1)):
                high[:, column] += pair[:, own]
                low[:, column] += pair[:, own] & ~pair[:, 1 - own]
        return low, high

    def _sums(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Intervals of the sum of the scores for each class, negated for the earlier of a pair."""
        m, c = lower.shape[0], self.classes.size
        low, high, size = np.zeros((m, c)), np.zeros((m, c)), np.zeros((m, c))
        for pair, (k, other) in enumerate(combinations(range(c), 2)):
            a, b = lower[:, pair], upper[:, pair]
            low[:, other], high[:, other] = low[:, other] + a, high[:, other] + b
            low[:, k], high[:, k] = low[:, k] - b, high[:, k] - a
            largest = np.maximum(np.abs(a), np.abs(b))
            size[:, other] += largest
            size[:, k] += largest
        # Sums of c − 1 numbers in any order.
        off = size * roundings(2 * c)
        with np.errstate(invalid="ignore"):
            low, high = low - off, high + off
        return np.nan_to_num(low, nan=-np.inf, posinf=np.inf, neginf=-np.inf), np.nan_to_num(
            high, nan=np.inf, posinf=np.inf, neginf=-np.inf
        )


def beaten(keys: list[tuple[Floats, Floats]]) -> Mask:
    """Return which classes another one surely beats: by the first key, the next, their order."""
    m, c = keys[0][0].shape
    found = np.zeros((m, c), dtype=bool)
    for k, other in ((k, other) for k in range(c) for other in range(c) if k != other):
        before = np.full(m, other < k)
        for low, high in reversed(keys):
            ahead, level = low[:, other] > high[:, k], low[:, other] == high[:, k]
            before = ahead | (level & before)
        found[:, k] |= before
    return found


class MemberProblem(NamedTuple):
    """One of the binary problems of a solution."""

    solution: Solution
    rows: NDArray[np.intp]
    X: Any
    y: CodedLabels


def member_problems(solution: Solution, X: Any, y: Any) -> dict[Any, MemberProblem]:
    """Return the binary problems of a solution of several, by the keys of its parts."""
    model = solution.model
    if not isinstance(model, OneVsModel):
        raise DataError(f"there are no guarantees of several problems of {solution.formulation}")
    features = check_features(X)
    codes, classes = check_labels(y, features.shape[0])
    if not np.array_equal(classes, model.classes):
        raise DataError(
            f"y holds the classes {classes.tolist()}, and the solution is about"
            f" {model.classes.tolist()}"
        )
    every = np.arange(codes.size)
    sides: list[tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[Any]]]
    if model.scheme == "ovo":
        pairs = combinations(range(classes.size), 2)
        sides = [
            (np.flatnonzero((codes == k) | (codes == q)), codes == q, classes[[k, q]])
            for k, q in pairs
        ]
    else:
        sides = [(every, codes == k, np.arange(2)) for k in range(classes.size)]
    found = {}
    for (key, part), (rows, positive, labels) in zip(solution.parts.items(), sides, strict=True):
        own: Any = part.model
        inside = features if rows.size == codes.size else features[rows]
        if isinstance(getattr(own, "kernel", None), Precomputed) and rows.size < codes.size:
            inside = inside[:, rows]
        coded = CodedLabels(positive[rows].astype(np.intp), labels, inside)
        # Models of parts count rows of all data.
        counted = replace(part, model=replace(own, support=np.searchsorted(rows, own.support)))
        found[key] = MemberProblem(counted, rows, inside, coded)
    return found


def one_vs_guarantee(solution: Solution, X: Any, y: Any, *, by_sums: bool) -> OneVsGuarantee:
    """Return the guarantee of a solution of several binary problems."""
    problems = member_problems(solution, X, y)
    model: Any = solution.model
    members = tuple(binary_guarantee(one.solution, one.X, one.y) for one in problems.values())
    return OneVsGuarantee(
        classes=model.classes, scheme=model.scheme, members=members, by_sums=by_sums
    )
