"""The second checker: an interval from the raw data and the points of a proof, by a program of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from svmcvx.errors import DataError, missing_extra
from svmcvx.proofs.format import Proof, fingerprint, read_proof, shown
from svmcvx.proofs.problem import Problem, Refused

__all__ = ["Verified", "verify"]

FAMILIES: Final = ("margin", "margin_distribution", "conic_loss", "indicator", "multiclass")
METHODS: Final = ("auto", "balls", "a-priori")
# What "auto" leaves to ball arithmetic: a second or a few.
MOST_ENTRIES: Final = 4_000_000
MOST_KERNEL_ROWS: Final = 1500
# Pairs of rows up to which balls settle what doubles do not.
MOST_BALLS: Final = 40_000_000
# Formulations of these kinds.
COUNTING: Final = ("zero_one", "ramp", "l0")
# What the record of a search is known by.
SEARCH: Final = "tree_points"
# Kinds whose lower bound may be one that a search states.
SEARCHED: Final = {"mixed-integer": "the solver's", "enumeration": "the search's"}


@dataclass(frozen=True)
class Verified:
    """What was proved.

    Attributes
    ----------
    lower : float or None
        A number that the optimum is not below; None if the proof has no dual point, or none that proves anything.
    upper : float
        A number that the optimum is not above; infinite if the model proves nothing.
    holds : bool
        Whether the proof is about these data, its dual point is feasible, and both ends that it claims are confirmed.
    why : str
        What fails, in one line; for a proof that holds, what was not part of the check, or nothing.
    """

    lower: float | None
    upper: float
    holds: bool
    why: str

    def _repr_html_(self) -> str:
        ends = {"Lower bound": self.lower, "Upper bound": self.upper}
        claims = {"Claimed ends": "confirmed" if self.holds else "not confirmed"}
        why = {"Not checked" if self.holds else "Fails": self.why} if self.why else {}
        return shown("✓ Proof holds" if self.holds else "✗ Proof does not hold", {**ends, **claims, **why})


class End(NamedTuple):
    """One end of the interval: the floats around it, and what fails."""

    low: float
    high: float
    why: str


def verify(
    proof: Proof | str | os.PathLike[str], X: Any, y: Any, *, precision: int = 128, method: str = "auto"
) -> Verified:
    """Check a proof from the raw data.

    Parameters
    ----------
    proof : Proof or path
    X : ndarray or sparse matrix of shape (rows, d)
        As they were passed to the solver; the Gram matrix for a precomputed kernel.
    y : array-like of shape (rows,)
        Labels.
    precision : int
        Bits of the ball arithmetic.
    method : "auto", "balls" or "a-priori"
        Ball arithmetic, or double precision with bounds on its rounding, for linear and kernel psvm and ODM. "auto" takes
        the latter where the former would take long.

    Returns
    -------
    Verified

    Raises
    ------
    DataError
        If the file is corrupted, the data are no finite matrix with labels, or an argument is wrong.
    SolverUnavailable
        If python-flint is needed and not installed.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> proof = sx.fast.psvm(X, y, C=1.0, p=1.5).proof()
    >>> sx.verify(proof, X, y).holds
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise DataError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if not isinstance(precision, int) or isinstance(precision, bool) or not 64 <= precision <= 100_000:
        raise DataError(f"precision must be a whole number of bits, at least 64, got {precision!r}")
    if not isinstance(proof, Proof):
        proof = read_proof(proof)
    try:
        problem = Problem.of(proof, X, y)
        _require_consistent(proof)
        in_doubles = method == "a-priori" or (method == "auto" and _in_doubles(problem))
        upper, lower = _in_double_precision(problem) if in_doubles else _in_balls(problem, precision)
        lower = _with_the_search(problem, upper, lower)
        near = _is_near(proof, upper, lower)
        if in_doubles and near and method == "auto" and problem.n * problem.n <= MOST_BALLS:
            in_doubles = False
            upper, lower = _in_balls(problem, precision)
            lower = _with_the_search(problem, upper, lower)
    except Refused as refusal:
        return Verified(None, math.inf, False, str(refusal))
    known = fingerprint(problem.X, problem.codes)
    other = (
        ""
        if known == proof.fingerprint
        else (f"the data are not those of the proof: fingerprint {known}, the proof is about {proof.fingerprint}")
    )
    reasons = [reason for reason in (other, *_failures(proof, upper, lower)) if reason]
    why = reasons[0] if reasons else _unproved(proof, lower)
    if reasons and in_doubles and near:
        why += "; doubles do not tell, take method='balls'"
    proved = None if lower is None or lower.low == -math.inf else lower.low
    return Verified(proved, upper.high, not reasons, why)


def _failures(proof: Proof, upper: End, lower: End | None) -> list[str]:
    """What is claimed and not confirmed, the cause first."""
    # An infinite upper end claims nothing of the model, which may violate a constraint.
    found = [lower.why if lower is not None else "", upper.why if proof.upper < math.inf else ""]
    if math.isnan(proof.upper) or (proof.lower is not None and math.isnan(proof.lower)):
        return [*found, "the proof claims an end that is not a number"]
    if not upper.why and not upper.high <= proof.upper:
        found.append(
            f"the model's objective is at most {upper.high!r} but at least {upper.low!r}, the proof claims {proof.upper!r}"
        )
    if proof.lower is None:
        return found
    if lower is not None and not lower.why and not lower.low >= proof.lower and proof.kind not in SEARCHED:
        found.append(
            f"the dual objective is at least {lower.low!r} but at most {lower.high!r}, the proof claims {proof.lower!r}"
        )
    if SEARCH in proof.extra and lower is not None and not lower.why and not lower.low >= proof.lower:
        found.append(f"the record of the search proves {lower.low!r}, the proof claims {proof.lower!r}")
    if lower is None and proof.kind not in SEARCHED:
        found.append(f"the proof claims the lower end {proof.lower!r} and has no dual point that would prove it")
    if proof.lower > upper.high:
        found.append(f"the lower end {proof.lower!r} that is claimed exceeds the objective {upper.high!r} of the model")
    return found


def _unproved(proof: Proof, lower: End | None) -> str:
    """What a proof that holds leaves to others."""
    if proof.lower is None or (lower is not None and lower.low >= proof.lower):
        return ""
    return f"the lower end {proof.lower!r} is {SEARCHED[proof.kind]} statement and was not checked"


@lru_cache(maxsize=1)
def _families() -> dict[str, tuple[tuple[str, ...], Callable[..., Any], Callable[..., Any] | None, tuple[str, ...]]]:
    known: dict[str, Any] = {}
    for family in FAMILIES:
        known |= import_module(f"svmcvx.proofs.{family}").FAMILY
    return known


def _require_consistent(proof: Proof) -> None:
    """Refuse a kind or an intercept that the formulation cannot have."""
    if proof.kind in SEARCHED and proof.formulation not in COUNTING:
        raise Refused(f"{proof.formulation} is convex: the kind of its proof cannot be {proof.kind!r}")
    intercept = proof.hyperparameters.get("intercept")
    if isinstance(intercept, bool) and intercept != (proof.intercept != "none"):
        raise Refused(f"the proof is of a problem with intercept={intercept}, and says that it is {proof.intercept!r}")


def _in_double_precision(problem: Problem) -> tuple[End, End | None]:
    large: Any = import_module("svmcvx.proofs.large")
    return _both(large.upper, large.lower if problem.has_dual(*large.entries(problem)) else None, problem, tuple)


def _in_balls(problem: Problem, precision: int) -> tuple[End, End | None]:
    try:
        flint: Any = import_module("flint")
    except ImportError:
        raise missing_extra("python-flint", "proofs") from None
    balls: Any = import_module("svmcvx.proofs.arithmetic.balls")
    space: Any = import_module("svmcvx.proofs.space")
    known = _families()
    name = problem.proof.formulation
    if name not in known:
        raise DataError(f"there is no check for the formulation {name!r}; those known are {', '.join(sorted(known))}")
    intercepts, upper, lower, entries = known[name]
    if problem.proof.intercept not in intercepts:
        raise Refused(
            f"{name} has an intercept that is {' or '.join(intercepts)}, the proof says {problem.proof.intercept}"
        )
    with flint.ctx.workprec(precision):
        if lower is not None and not problem.has_dual(*entries):
            lower = None
        return _both(upper, lower, space.Space(problem), lambda ball: (balls.below(ball), balls.above(ball)))


def _with_the_search(problem: Problem, upper: End, lower: End | None) -> End | None:
    """The lower end with what the record of a search proves, if the proof has one."""
    if SEARCH not in problem.proof.extra:
        return lower
    tree: Any = import_module("svmcvx.proofs.search_tree")
    try:
        found = float(tree.tree_bound(problem))
    except Refused as refusal:
        return End(-math.inf, math.inf, str(refusal))
    if lower is not None and not lower.why:
        found = max(found, lower.low)
    return End(found, max(found, upper.high), "")


def _both(
    upper: Callable[..., Any], lower: Callable[..., Any] | None, argument: Any, enclose: Callable[[Any], Any]
) -> tuple[End, End | None]:
    return _end(upper, argument, enclose), None if lower is None else _end(lower, argument, enclose)


def _end(evaluate: Callable[..., Any], argument: Any, enclose: Callable[[Any], Any]) -> End:
    try:
        low, high = enclose(evaluate(argument))
        return End(low, high, "")
    except Refused as refusal:
        return End(-math.inf, math.inf, str(refusal))


def _in_doubles(problem: Problem) -> bool:
    """Whether ball arithmetic would take long, and there is a check in doubles."""
    rows, d = problem.X.shape
    if problem.kernel is None:
        entries = problem.X.nnz if hasattr(problem.X, "nnz") else rows * d
        large = entries > MOST_ENTRIES
    else:
        large = problem.n > MOST_KERNEL_ROWS
    return bool(large and import_module("svmcvx.proofs.large").can_check(problem))


def _is_near(proof: Proof, upper: End, lower: End | None) -> bool:
    """Whether an end that is claimed lies between the doubles around the end that was found."""
    ends = [(upper, proof.upper), *([] if lower is None or proof.lower is None else [(lower, proof.lower)])]
    return any(not end.why and end.low < claimed < end.high for end, claimed in ends)
