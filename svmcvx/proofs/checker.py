"""The second checker: a separate program that computes an interval from the raw data and the points of a proof."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from svmcvx.errors import DataError, missing_extra
from svmcvx.proofs.blocks import enclosures, is_in_blocks
from svmcvx.proofs.format import Proof, ProofFile, html_table, read_proof
from svmcvx.proofs.problem import Data, Problem, ProofRejected
from svmcvx.proofs.statement import Statement
from svmcvx.proofs.tables import SEARCHED

__all__ = ["Verified", "verify"]

FAMILIES: Final = ("margin", "margin_distribution", "conic_loss", "indicator", "multiclass")
METHODS: Final = ("auto", "balls", "a-priori")
# What "auto" leaves to ball arithmetic: a second or a few.
MOST_ENTRIES: Final = 4_000_000
MOST_KERNEL_ROWS: Final = 1500
# Pairs of rows up to which balls settle what doubles do not.
MOST_BALLS: Final = 40_000_000


@dataclass(frozen=True)
class Verified:
    """What was proved; true in a condition if the proof holds.

    Attributes
    ----------
    lower : float or None
        A number that the optimum is not below; None if the proof has no dual point, or none that proves anything.
    upper : float
        A number that the optimum is not above; infinite if the model proves nothing.
    holds : bool
        Whether the proof is about these data and what was expected, and each end that it claims was computed and is confirmed.
    why : str
        What fails, in one line; for a proof that holds, what it does not claim, or nothing.
    statement : Statement or None
        The problem whose optimum this is, in words and in numbers; None if the file is about data of another shape.
    checked : tuple of str
        Those of the ends "lower" and "upper" that were computed from the data.
    """

    lower: float | None
    upper: float
    holds: bool
    why: str
    statement: Statement | None = None
    checked: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    def _repr_html_(self) -> str:
        about = {} if self.statement is None else {"Problem": self.statement}
        ends = {"Lower bound": self.lower, "Upper bound": self.upper, "Ends checked": ", ".join(self.checked) or "none"}
        claims = {"Claimed ends": "confirmed" if self.holds else "not confirmed"}
        why = {"Not claimed" if self.holds else "Fails": self.why} if self.why else {}
        return html_table(
            "✓ Proof holds" if self.holds else "✗ Proof does not hold", {**about, **ends, **claims, **why}
        )


class End(NamedTuple):
    """One end of the interval: the floats around it, and what fails."""

    low: float
    high: float
    why: str


class States(Protocol):
    """What knows the problem that a proof of it is about: problems, solutions and fitted estimators."""

    def proof_statement(self) -> Statement:
        """Return it."""


def verify(
    proof: Proof | str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    expect: Statement | States | None = None,
    precision: int = 128,
    method: str = "auto",
) -> Verified:
    """Check a proof from the raw data.

    Parameters
    ----------
    proof : Proof or path
    X : ndarray, sparse matrix or rows in blocks, of shape (rows, d)
        As they were passed to the solver; the Gram matrix for a precomputed kernel. A :class:`svmcvx.RowBlocks` is read once, block by
        block: linear psvm and ODM.
    y : array-like of shape (rows,)
        Labels; ``blocks.y`` for rows in blocks.
    expect : Statement, problem, solution or fitted estimator, optional
        The problem that the proof should be about: a proof of another one (other hyper-parameters, kernel, weights, …) does not hold.
        By default any problem that the file states, which ``statement`` of the result shows.
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
        If the file is no proof or is damaged, the data are no finite matrix with labels, or an argument is wrong.
    SolverUnavailable
        If python-flint is needed and not installed.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> proof = sx.fast.psvm(X, y, C=1.0, p=1.5).proof()
    >>> sx.verify(proof, X, y).holds
    True
    >>> print(sx.verify(proof, X, y).statement)
    psvm with C = 1.0, p = 1.5; no kernel; intercept free; 30 rows and 2 columns; classes -1, 1; all weights 1
    """
    if not isinstance(method, str) or method not in METHODS:
        raise DataError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if not isinstance(precision, int) or isinstance(precision, bool) or not 64 <= precision <= 100_000:
        raise DataError(f"precision must be a whole number of bits, at least 64, got {precision!r}")
    expected = _expected(expect)
    if is_in_blocks(X):
        return _verified_in_blocks(proof, X, y, expected, method)
    data = Data.of(X, y)
    try:
        problem = _bound(proof, data)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, str(refusal))
    statement, claim = problem.proof.statement, problem.proof
    other = _other(statement, problem.fingerprint, expected)
    try:
        in_doubles = method == "a-priori" or (method == "auto" and _in_doubles(problem))
        upper, lower = _ends(problem, precision, in_doubles)
        near = _is_near(claim, upper, lower)
        if in_doubles and near and method == "auto" and problem.n * problem.n <= MOST_BALLS:
            in_doubles = False
            upper, lower = _ends(problem, precision, in_doubles)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, other or str(refusal), statement)
    reasons, found = _verdict(claim, upper, lower, other)
    if reasons and in_doubles and near:
        return replace(found, why=f"{found.why}; doubles do not tell, take method='balls'")
    return found


def _other(statement: Statement, fingerprint: str, expected: Statement | None) -> str:
    """Why a proof is not about these data, or not about the problem that is expected; empty if it is."""
    if fingerprint != statement.fingerprint:
        return f"the data are not those of the proof: fingerprint {fingerprint}, the proof is about {statement.fingerprint}"
    difference = "" if expected is None else statement.difference(expected)
    return f"the proof is about another problem: {difference}" if difference else ""


def _verified_in_blocks(
    proof: Proof | str | os.PathLike[str], X: Any, y: Any, expected: Statement | None, method: str
) -> Verified:
    """Check a proof on rows in blocks, in one pass in doubles."""
    if method == "balls":
        raise DataError("rows in blocks are checked in doubles; leave out method='balls', or load the data")
    claim = replace(proof, statement=replace(proof.statement)) if isinstance(proof, Proof) else read_proof(proof)
    try:
        found = enclosures(claim, X, y)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, str(refusal), claim.statement)
    lower = None if found.lower is None else End(*found.lower, "")
    return _verdict(claim, End(*found.upper, ""), lower, _other(claim.statement, found.fingerprint, expected))[1]


def _verdict(claim: Proof, upper: End, lower: End | None, other: str) -> tuple[list[str], Verified]:
    """Hold the ends that were found against the claim; return why it fails, and the result."""
    statement = claim.statement
    if lower is not None and not lower.why and not upper.why and lower.low > upper.high:
        crossed = f"the ends cross: the optimum is at least {lower.low!r} and at most {upper.high!r}, so that one of the checks is wrong"
        return [crossed], Verified(None, math.inf, False, crossed, statement)
    reasons = [reason for reason in (other, *_failures(claim, upper, lower)) if reason]
    why = reasons[0] if reasons else _unproved(claim)
    proved = None if lower is None or lower.low == -math.inf else lower.low
    checked = (*(["lower"] if proved is not None else []), *(["upper"] if upper.high < math.inf else []))
    return reasons, Verified(proved, upper.high, not reasons, why, statement, checked)


def _expected(expect: Any) -> Statement | None:
    if expect is None or isinstance(expect, Statement):
        return expect
    if isinstance(expect, (Proof, Verified)) and expect.statement is not None:
        return expect.statement
    state = None if isinstance(expect, type) else getattr(expect, "proof_statement", None)
    found = state() if callable(state) else None
    if not isinstance(found, Statement):
        raise DataError(
            f"expect must be a statement of a proof, a problem, a solution or a fitted estimator, got {type(expect).__name__}"
        )
    return found


def _bound(proof: Proof | str | os.PathLike[str], data: Data) -> Problem:
    """A proof with the data that it is about; of a file, arrays are read only if their sizes are those of the data."""
    if isinstance(proof, Proof):
        # Whose dictionaries may have been changed since it was made.
        proof = replace(proof, statement=replace(proof.statement))
        return Problem(proof, data.X, data.codes(proof.statement.plain)).with_multipliers()
    with ProofFile(proof) as file:
        codes = data.codes(file.header.statement)
        return Problem(file.read(), data.X, codes).with_multipliers()


def _failures(claim: Proof, upper: End, lower: End | None) -> list[str]:
    """What is claimed and not confirmed, the cause first."""
    found = [lower.why if lower is not None else "", upper.why if claim.upper is not None else ""]
    if claim.upper is not None and not upper.why and not upper.high <= claim.upper:
        found.append(
            f"the model's objective is at most {upper.high!r} but at least {upper.low!r}, the proof claims {claim.upper!r}"
        )
    if claim.lower is None:
        return found
    if lower is None:
        found.append(f"the proof claims the lower end {claim.lower!r} and has no dual point that would prove it")
    elif not lower.why and not lower.low >= claim.lower:
        what = "the record of the search proves" if claim.tree else "the dual objective is at least"
        most = "" if claim.tree else f" but at most {lower.high!r}"
        found.append(f"{what} {lower.low!r}{most}, the proof claims {claim.lower!r}")
    return found


def _unproved(claim: Proof) -> str:
    """What a proof that holds does not claim."""
    if claim.stated is not None:
        return f"the lower end {claim.stated!r} that {SEARCHED[claim.kind]} states is not part of the proof"
    if claim.lower is None or claim.upper is None:
        return f"the proof claims no {'lower' if claim.lower is None else 'upper'} end"
    return ""


@lru_cache(maxsize=1)
def _families() -> dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]]:
    known: dict[str, Any] = {}
    for family in FAMILIES:
        known |= import_module(f"svmcvx.proofs.families.{family}").FAMILY
    return known


def _ends(problem: Problem, precision: int, in_doubles: bool) -> tuple[End, End | None]:
    """The upper end, and the lower one of the dual point or of the tree, if the proof has one."""
    upper, lower = _in_double_precision(problem) if in_doubles else _in_balls(problem, precision)
    return upper, _with_the_search(problem, upper, lower)


def _in_double_precision(problem: Problem) -> tuple[End, End | None]:
    large: Any = import_module("svmcvx.proofs.large")
    large.require_check(problem)
    return _both(large.upper, large.lower if problem.proof.dual else None, large.Space(problem), tuple)


def _in_balls(problem: Problem, precision: int) -> tuple[End, End | None]:
    try:
        flint: Any = import_module("flint")
    except ImportError:
        raise missing_extra("python-flint", "proofs") from None
    balls: Any = import_module("svmcvx.proofs.arithmetic.balls")
    space: Any = import_module("svmcvx.proofs.space")
    upper, lower = _families()[problem.formulation]
    if not problem.proof.dual:
        lower = None
    with flint.ctx.workprec(precision):
        return _both(upper, lower, space.Space(problem), lambda ball: (balls.below(ball), balls.above(ball)))


def _with_the_search(problem: Problem, upper: End, lower: End | None) -> End | None:
    """The lower end with what the record of a search proves, if the proof has one."""
    if not problem.proof.tree:
        return lower
    tree: Any = import_module("svmcvx.proofs.search_tree")
    try:
        found = float(tree.tree_bound(problem))
    except ProofRejected as refusal:
        return End(-math.inf, math.inf, str(refusal))
    if lower is not None and not lower.why:
        found = max(found, lower.low)
    return End(found, max(found, upper.high), "")


def _both(
    upper: Callable[..., Any], lower: Callable[..., Any] | None, space: Any, enclose: Callable[[Any], Any]
) -> tuple[End, End | None]:
    return _end(upper, space, enclose), None if lower is None else _end(lower, space, enclose)


def _end(evaluate: Callable[..., Any], space: Any, enclose: Callable[[Any], Any]) -> End:
    definiteness: Any = import_module("svmcvx.proofs.definiteness")
    space.influence = 0.0
    try:
        low, high = enclose(evaluate(space))
        definiteness.require_small(space.influence, low, high)
        return End(low, high, "")
    except ProofRejected as refusal:
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


def _is_near(claim: Proof, upper: End, lower: End | None) -> bool:
    """Whether an end that is claimed lies between the doubles around the end that was found."""
    ends = ((upper, claim.upper), (lower, claim.lower))
    return any(
        end is not None and claimed is not None and not end.why and end.low < claimed < end.high
        for end, claimed in ends
    )
