"""Guarantees of machines of two classes: the statement bound to the data again, and the theorem for
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import exact, roundings, sqrt, where
from svmcvx.data import (
    BinaryData,
    CodedLabels,
    Features,
    MulticlassData,
    binary_data,
    check_features,
    check_labels,
    parts,
)
from svmcvx.errors import DataError, NotCertified
from svmcvx.feature_space import FeatureSpace, LinearSpace, feature_space
from svmcvx.formulations.base import BinaryStatement, Formulation
from svmcvx.formulations.margin import PSVM, HardMargin, PenalisedPSVM
from svmcvx.formulations.margin_distribution import ODM, ODML
from svmcvx.guarantees.answers import CertifiedScores, Guarantee, Mask
from svmcvx.guarantees.theorem import (
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
from svmcvx.kernels.functions import restricted
from svmcvx.model import BinaryModel, OneVsModel, sums_by_class
from svmcvx.proofs.checker import NOTHING, label_codes, score_ends
from svmcvx.proofs.format import Proof, digest_of
from svmcvx.solution import REPEATED, Evidence, Solution, alone


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
        return math.sqrt(self.theorem.squared_radius) * (1.0 + 2.0**-50)

    def proof(self, T: Any) -> Proof:
        rows = self._checked(T)
        own = self.scores(rows)
        below = self.lower - REPEATED * abs(self.lower)
        above = self.upper + REPEATED * abs(self.upper)
        proof = replace(self.solution.proof(), lower=below, upper=above)
        low, high = score_ends(proof, self.features, self.labels, rows)
        low, high = np.minimum(low, own.lower), np.maximum(high, own.upper)
        with np.errstate(invalid="ignore"):
            # Coefficients of another checker are rounded in other ways: each side is wider by a
            # millionth of the width.
            room = np.nan_to_num(
                2.0**-20 * (high - low) + REPEATED * np.maximum(np.abs(low), np.abs(high))
            )
        low, high = np.maximum(low - room, -NOTHING), np.minimum(high + room, NOTHING)
        scores = {"lower": low, "upper": high, "label": label_codes(low, high)}
        return replace(proof, scores=scores, test={"rows": low.size, "digest": digest_of(rows)})

    def scores(self, T: Any) -> CertifiedScores:
        rows = self._checked(T)
        lower, upper = self.theorem.scores(rows)
        possible = np.column_stack([~(lower > 0.0), upper > 0.0])
        open_ = possible.all(axis=1) & self._disputed(rows)
        return CertifiedScores(lower, upper, possible, self.classes, open_)

    def _checked(self, T: Any) -> Features:
        X = self.space.data.X
        rows = check_features(T, name="T", n_features=int(X.shape[1]))
        if sp.issparse(X) and not sp.issparse(rows):
            return sp.csr_array(rows)
        return rows.toarray() if sp.issparse(rows) and not sp.issparse(X) else rows

    def _disputed(self, rows: Features) -> NDArray[np.bool_]:
        """Return which rows optimal intercepts predict differently, in floating point."""
        b, model = self.solution.optimal_intercepts, cast("BinaryModel", self.solution.model)
        if b is None or b.unique:
            return np.zeros(rows.shape[0], dtype=bool)
        f = model.scores(rows).value - model.intercept
        return np.asarray((f + b.lower <= 0.0) & (f + b.upper > 0.0))


def binary_guarantee(solution: Solution, X: Any, y: Any) -> BinaryGuarantee:
    """Return the guarantee of a solution of two classes; see :func:`svmcvx.guarantee`."""
    if solution.formulation not in _STATEMENTS:
        raise DataError(
            f"there are no guarantees of {solution.formulation}{_WHY.get(solution.formulation, '')}"
        )
    space, features = training_space(solution, X, y)
    return replace(guarantee_in(space, solution), features=features, labels=np.asarray(y))


def training_space(solution: Solution, X: Any, y: Any) -> tuple[FeatureSpace, Features]:
    """Return the feature space of a solution on its data, and these with rows of weight zero."""
    features, evidence = checked_rows(solution, X)
    data = binary_data(features, y, evidence.weight)
    require_data(solution, data)
    kernel = getattr(solution.model, "kernel", None)
    if kernel is not None and not kernel.definite:
        raise DataError(
            f"there are no guarantees for the kernel {kernel}: it has to be known to be positive"
            " semidefinite on new rows too, with a bound on its rounding; use Linear, a"
            " Polynomial with coef0 >= 0, or a kernel of a distance such as RBF"
        )
    return feature_space(data, kernel, intercept=evidence.intercept, keep_gram=False), features


def checked_rows(solution: Solution, X: Any) -> tuple[Features, Evidence]:
    """Return the rows of a solution's data, and what it knows of these, or raise an error."""
    evidence = solution.evidence
    if evidence is None or solution.data is None:
        raise DataError(
            f"there are no guarantees of this solution of {solution.formulation}: it is that of a"
            " problem with added constraints, for rows in blocks, or of a formulation outside the"
            " package"
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
    return features, evidence


def require_data(solution: Solution, data: BinaryData | MulticlassData) -> None:
    """Raise a :class:`~svmcvx.errors.DataError` unless these are the data of a solution."""
    known = cast("Evidence", solution.evidence).fingerprint
    if known and data.fingerprint != known:
        raise DataError(
            f"X and y are not the data of the solution (they are {data.fingerprint}, and it is"
            f" about {known}): pass those that it was solved for, in the same order"
        )
    if data.classes.tolist() != solution.model.classes.tolist():
        raise DataError(
            f"y holds the labels {data.classes.tolist()}, and the solution is about"
            f" {solution.model.classes.tolist()}: pass those that it was solved for"
        )


class Optimum(NamedTuple):
    """A dual point that is exactly feasible, and the interval of the optimum."""

    dual: Dual
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """At least the width."""
        return (exact(self.upper) - exact(self.lower)).upper_end


def optimum_of(solution: Any, statement: Formulation) -> Optimum:
    """Return the interval of the optimum from a solution's own points."""
    dual = solution.dual
    if not dual:
        raise NotCertified(
            f"the solution of {solution.formulation} has no dual point, and so no lower bound:"
            " there is nothing to guarantee from"
        )
    dual = dual if statement.dual_violation(dual) == 0 else statement.repair(dual)
    upper = statement.evaluate(solution.model).upper_end
    return Optimum(dual, statement.evaluate_dual(dual).lower_end, upper)


def guarantee_in(space: FeatureSpace, solution: Any) -> BinaryGuarantee:
    """Return the guarantee of a solution, or a point like one, in a space of its data."""
    kind, settings = _STATEMENTS[solution.formulation], solution.hyperparameters
    own = {each.name: settings[each.name] for each in fields(kind) if each.name in settings}
    statement: Any = kind(space=space, **own)
    found = optimum_of(solution, statement)
    model, v = solution.model, exact(statement.coefficients(found.dual))
    stripped = replace(model, intercept=0.0) if space.intercept == "free" else model
    moved = _moved(statement, model)
    kind_of_points: Any = LinearPoints.of_space if isinstance(space, LinearSpace) else KernelPoints
    points = kind_of_points(space, stripped, v, moved)
    theorem = Theorem(points, _multipliers(statement, found.dual), found.gap)
    feasible = replace(solution, dual={**solution.dual, **statement.export_dual(found.dual)})
    return BinaryGuarantee(space.data.classes, theorem, found.lower, found.upper, space, feasible)


def _moved(statement: BinaryStatement, model: Any) -> float:
    """Return how far the point that is evaluated is from a model: that of a hard margin is divided
    by its smallest margin, if that is below 1.
    """
    if isinstance(statement, HardMargin):
        lowest, violated = statement.lowest_margin(model)
        if 0.0 < lowest < 1.0 and not violated:
            stretch = 1.0 / exact(lowest) - 1.0
            return (sqrt(statement.penalty(model)) * stretch).upper_end
    return 0.0


def _multipliers(statement: Any, dual: Dual) -> Multipliers:
    """Return the multipliers of a feasible dual point, with their rooms and terms."""
    y = statement.y
    if isinstance(statement, ODM):
        theta = statement.entry(dual, "theta")
        # In the sizes of the multipliers, whose signs do not change: g(a) = (±1 − D)a − a²/(4Cc).
        side = np.where(theta < 0.0, -1.0, 1.0)
        cost = where(
            theta < 0.0, exact(np.full(y.size, statement.C2)), exact(np.full(y.size, statement.C1))
        )
        cost = cost * statement.bounded_share
        slopes = exact(side) - exact(statement.D) - exact(np.abs(theta)) / (2.0 * cost)
        quadratic = QuadraticTerms(slopes, 1.0 / (2.0 * cost))
        return Multipliers(np.abs(theta), y * side, np.full(y.size, np.inf), False, quadratic)
    alpha = statement.entry(dual, "alpha")
    terms: DualTerms = affine_terms(alpha.size)
    if isinstance(statement, PSVM) and statement.p > 1:
        cost = exact(statement.C) * exact(statement.weight)
        # For p = 2 the conjugate is α²/(4Cs).
        terms = (
            QuadraticTerms(1.0 - exact(alpha) / (2.0 * cost), 1.0 / (2.0 * cost))
            if statement.p == 2
            else PowerTerms(alpha, cost, statement.p)
        )
    free = statement.space.intercept == "free"
    return Multipliers(alpha, y, room_above(alpha, statement.upper_bound()), free, terms)


_STATEMENTS: Mapping[str, type[Any]] = {
    kind.name: kind for kind in (PSVM, PenalisedPSVM, HardMargin, ODM, ODML)
}
_FLAT = "has no modulus of convexity that a gap could be held against"
_REASONS = {
    ": its losses are not convex, so that machines far apart may be nearly as good; a small gap"
    " says nothing about their labels": ("zero_one", "ramp", "l0"),
    f": its objective {_FLAT}": ("conic", "conic_fixed_gamma"),
    f": the sum of absolute values {_FLAT}": ("l1_squared_hinge", "sparse_multinomial_lr"),
}
_WHY = {name: reason for reason, names in _REASONS.items() for name in names}


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
        return max(member.radius for member in self.members)

    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the members' scores, and the classes that they leave."""
        found = [member.scores(T) for member in self.members]
        lower = np.column_stack([scores.lower for scores in found])
        upper = np.column_stack([scores.upper for scores in found])
        if self.scheme == "ovr":
            keys = [(lower, upper)]
        else:
            earlier, later = np.stack([scores.possible for scores in found], axis=-1).swapaxes(0, 1)
            votes = sums_by_class(later & ~earlier, earlier & ~later), sums_by_class(later, earlier)
            keys = [votes, _summed_scores(lower, upper)] if self.by_sums else [votes]
        possible = ~beaten(keys)
        by_gap = np.any([scores.by_gap for scores in found], axis=0)
        open_ = np.any([scores.undecided & scores.by_formulation for scores in found], axis=0)
        return CertifiedScores(
            lower, upper, possible, self.classes, (possible.sum(axis=1) > 1) & ~by_gap & open_
        )

    _no_proof = (
        "it is about several machines; save one of each, as in"
        " guarantee.members[0].save_proof(path, T)"
    )


def _summed_scores(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return intervals of the sum of the scores for each class, negated for the earlier of two."""
    largest = np.maximum(np.abs(lower), np.abs(upper))
    with np.errstate(invalid="ignore"):
        low, high = sums_by_class(lower, -upper), sums_by_class(upper, -lower)
        # Sums of c − 1 numbers in any order.
        off = sums_by_class(largest, largest) * roundings(2 * low.shape[1])
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


def one_vs_guarantee(solution: Solution, X: Any, y: Any, *, by_sums: bool) -> OneVsGuarantee:
    """Return the guarantee of a solution of several binary problems."""
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
    members = []
    problems = parts(CodedLabels(codes, classes), model.scheme)
    for part, (rows, labels) in zip(solution.parts.values(), problems, strict=True):
        inside = restricted(features, rows, getattr(part.model, "kernel", None))
        members.append(binary_guarantee(alone(part), inside, replace(labels, features=inside)))
    return OneVsGuarantee(classes, model.scheme, tuple(members), by_sums)
