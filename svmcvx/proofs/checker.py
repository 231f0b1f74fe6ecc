"""The second checker: a separate program that computes an interval from the raw data and the points
of a proof.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, NotCertified, missing_extra
from svmcvx.proofs.blocks import enclosures, is_in_blocks
from svmcvx.proofs.format import Proof, ProofFile, digest_of, html_table, read_proof
from svmcvx.proofs.problem import Data, Problem, ProofRejected, matrix_of, require_small
from svmcvx.proofs.statement import SEARCHED, Statement

FAMILIES: Final = ("margin", "indicator", "multiclass")
METHODS: Final = ("auto", "balls", "a-priori")
# What "auto" leaves to ball arithmetic: a second or a few.
MOST_ENTRIES: Final = 4_000_000
MOST_KERNEL_ROWS: Final = 1500
# Pairs of rows up to which balls settle what doubles do not.
MOST_BALLS: Final = 40_000_000
# An end of a score of this size claims nothing, and the label of a row that is not decided.
NOTHING: Final = float(np.finfo(np.float64).max)
UNDECIDED: Final = 2


class CheckedScores(NamedTuple):
    """What was proved of the scores of every optimal machine on test rows."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    labels: NDArray[Any]
    digest: str

    def __str__(self) -> str:
        left = sum(label is None for label in self.labels)
        return (
            f"scores of every optimal machine on {self.labels.size} test rows, {left} undecided;"
            f" digest {self.digest}"
        )


@dataclass(frozen=True)
class Verified:
    """What a proof proves; true as a condition if the proof holds.

    Attributes
    ----------
    lower : float or None
        A number that the optimum is not below; None if the proof has no dual point, or none that
        proves anything.
    upper : float
        A number that the optimum is not above; infinite if the model proves nothing.
    holds : bool
        Whether the proof is about these data and what was expected, and each end that it claims was
        computed and is confirmed.
    why : str
        What fails, in one line; for a proof that holds, what it does not claim, or nothing.
    statement : Statement or None
        The problem whose optimum this is, in words and in numbers; None if the file is about data
        of another shape.
    checked : tuple of str
        Those of the ends "lower" and "upper" that were computed from the data.
    scores : CheckedScores or None
        Of the test rows of a proof that claims scores; None where none were computed.
    """

    lower: float | None
    upper: float
    holds: bool
    why: str
    statement: Statement | None = None
    checked: tuple[str, ...] = ()
    scores: CheckedScores | None = None

    def __bool__(self) -> bool:
        return self.holds

    def _repr_html_(self) -> str:
        about = {} if self.statement is None else {"Problem": self.statement}
        ends = {
            "Lower bound": self.lower,
            "Upper bound": self.upper,
            "Ends checked": ", ".join(self.checked) or "none",
        }
        claims = {"Claimed ends": "confirmed" if self.holds else "not confirmed"}
        if self.scores is not None:
            ends["Scores"] = str(self.scores)
        why = {"Not claimed" if self.holds else "Fails": self.why} if self.why else {}
        return html_table(
            "✓ Proof holds" if self.holds else "✗ Proof does not hold",
            {**about, **ends, **claims, **why},
        )


class End(NamedTuple):
    """One end of the interval: the floats around it, and what fails."""

    low: float
    high: float
    why: str


class States(Protocol):
    """What knows the problem that a proof of it is about: problems, solutions and fitted
    estimators.
    """

    def proof_statement(self) -> Statement:
        """Return it."""


def verify(
    proof: Proof | str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    test: Any = None,
    expect: Statement | States | None = None,
    precision: int = 128,
    method: str = "auto",
) -> Verified:
    """Check a proof from the raw data.

    Parameters
    ----------
    proof : Proof or path
    X : ndarray, sparse matrix or rows in blocks, of shape (rows, d)
        As they were passed to the solver; the Gram matrix for a precomputed kernel. A
        :class:`svmcvx.RowBlocks` is read once, block by block: linear psvm and ODM.
    y : array-like of shape (rows,)
        Labels; ``blocks.y`` for rows in blocks.
    test : ndarray or sparse matrix of shape (m, d), optional
        The test rows of a proof that claims scores of every optimal machine
        (``guarantee(...).save_proof(path, T)``). Scores are checked in ball arithmetic.
    expect : Statement, problem, solution or fitted estimator, optional
        The problem that the proof should be about: a proof of another one (other hyper-parameters,
        kernel, weights, …) does not hold. By default any problem that the file states, which
        ``statement`` of the result shows.
    precision : int
        Bits of the ball arithmetic.
    method : "auto", "balls" or "a-priori"
        Ball arithmetic, or double precision with bounds on its rounding, for linear and kernel psvm
        and ODM. "auto" takes the latter where the former would take long.

    Returns
    -------
    Verified

    Raises
    ------
    DataError
        If the file is no proof or is damaged, the data are no finite matrix with labels, or an
        argument is wrong.
    SolverUnavailable
        If python-flint is needed and not installed.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> proof = sx.fast.psvm(X, y, C=1.0, p=1.5).proof()
    >>> sx.verify(proof, X, y).holds
    True
    >>> print(str(sx.verify(proof, X, y).statement).partition(";")[0])
    psvm with C = 1.0, p = 1.5
    """
    if not isinstance(method, str) or method not in METHODS:
        raise DataError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if (
        not isinstance(precision, int)
        or isinstance(precision, bool)
        or not 64 <= precision <= 100_000
    ):
        raise DataError(f"precision must be a whole number of bits, at least 64, got {precision!r}")
    expected = _expected(expect)
    if is_in_blocks(X):
        return _verified_in_blocks(proof, X, y, expected, method, tested=test is not None)
    data, T = Data.of(X, y), None if test is None else matrix_of(test, "test")
    try:
        problem = _bound(proof, data, T)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, str(refusal))
    if problem.proof.test is not None and method == "a-priori":
        raise DataError("there is no check of scores in doubles; use method='balls'")
    statement, claim = problem.proof.statement, problem.proof
    other = _other(statement, problem.fingerprint, expected)
    try:
        in_doubles = method == "a-priori" or (
            method == "auto" and claim.test is None and _in_doubles(problem)
        )
        upper, lower = _ends(problem, precision, in_doubles)
        near = _is_near(claim, upper, lower)
        if in_doubles and near and method == "auto" and problem.n * problem.n <= MOST_BALLS:
            in_doubles = False
            upper, lower = _ends(problem, precision, in_doubles)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, other or str(refusal), statement)
    reasons, found = _verdict(claim, upper, lower, other)
    if claim.test is not None and not other:
        return _with_scores(found, problem, T, precision)
    if reasons and in_doubles and near:
        return replace(found, why=f"{found.why}; doubles do not tell, take method='balls'")
    return found


def _with_scores(found: Verified, problem: Problem, T: Any, precision: int) -> Verified:
    """The result with the scores of the test rows, which follow from both ends."""
    claim = problem.proof
    assert claim.test is not None  # noqa: S101 - only called with test rows
    if set(found.checked) != {"lower", "upper"}:
        why = "the scores follow from both ends of the optimum, of which one is not proved"
        return replace(found, holds=False, why=found.why if not found.holds else why)
    low, high = _score_ends(problem, T, precision)
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        why = (
            f"the ends of the score of test row {crossed[0]} cross, so that one of the checks is"
            " wrong"
        )
        return replace(found, holds=False, why=why)
    codes, labels = label_codes(low, high), np.empty(low.size, dtype=object)
    for k, label in enumerate(claim.statement.classes):
        labels[codes == k] = label
    found = replace(found, scores=CheckedScores(low, high, labels, claim.test["digest"]))
    why = _unconfirmed(claim, low, high)
    return replace(found, holds=False, why=why) if found.holds and why else found


def _unconfirmed(claim: Proof, low: NDArray[np.float64], high: NDArray[np.float64]) -> str:
    """What a proof claims of scores and the ends that were found do not confirm; empty if they do."""
    lower, upper = claim.scores["lower"], claim.scores["upper"]
    for what, rows, mine, other in (
        ("at least", ~(low >= lower) & (lower > -NOTHING), low, lower),
        ("at most", ~(high <= upper) & (upper < NOTHING), high, upper),
    ):
        if rows.any():
            t = int(np.flatnonzero(rows)[0])
            ends = f"{float(mine[t])!r}, the proof claims {float(other[t])!r}"
            return f"the score of test row {t} is proved to be {what} {ends}"
    return ""


def label_codes(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the positions of the classes that intervals of scores decide, and :data:`UNDECIDED`."""
    return np.where(lower > 0, 1, np.where(upper <= 0, 0, UNDECIDED)).astype(np.uint8)


def score_ends(
    proof: Proof, X: Any, y: Any, T: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both ends of the scores of every optimal machine on test rows, as :func:`verify` finds
    them.
    """
    data = Data.of(X, y)
    try:
        problem = Problem(proof, data.X, data.codes(proof.statement.plain)).with_multipliers()
        return _score_ends(problem, matrix_of(T, "test"), 128)
    except ProofRejected as refusal:
        raise NotCertified(
            f"the second checker proves nothing of these scores: {refusal}"
        ) from None


def _score_ends(
    problem: Problem, T: Any, precision: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    _require_flint()
    predictions: Any = import_module("svmcvx.proofs.predictions")
    ends: tuple[NDArray[np.float64], NDArray[np.float64]] = predictions.score_ends(
        problem, T, precision
    )
    return ends


def _other(statement: Statement, fingerprint: str, expected: Statement | None) -> str:
    """Why a proof is not about these data, or not about the problem that is expected; empty if it
    is.
    """
    if fingerprint != statement.fingerprint:
        return (
            f"the data are not those of the proof: fingerprint {fingerprint}, the proof is about"
            f" {statement.fingerprint}"
        )
    difference = "" if expected is None else statement.difference(expected)
    return f"the proof is about another problem: {difference}" if difference else ""


def _verified_in_blocks(
    proof: Proof | str | os.PathLike[str],
    X: Any,
    y: Any,
    expected: Statement | None,
    method: str,
    *,
    tested: bool,
) -> Verified:
    """Check a proof on rows in blocks, in one pass in doubles."""
    if method == "balls":
        raise DataError(
            "rows in blocks are checked in doubles; leave out method='balls', or load the data"
        )
    claim = (
        replace(proof, statement=replace(proof.statement))
        if isinstance(proof, Proof)
        else read_proof(proof)
    )
    try:
        found = enclosures(claim, X, y)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, str(refusal), claim.statement)
    if claim.test is not None or tested:
        why = (
            "rows in blocks are checked for both ends alone, not for scores of test rows; load the"
            " data"
        )
        return Verified(None, math.inf, False, why, claim.statement)
    lower = None if found.lower is None else End(*found.lower, "")
    return _verdict(
        claim, End(*found.upper, ""), lower, _other(claim.statement, found.fingerprint, expected)
    )[1]


def _verdict(claim: Proof, upper: End, lower: End | None, other: str) -> tuple[list[str], Verified]:
    """Hold the ends that were found against the claim; return why it fails, and the result."""
    statement = claim.statement
    if lower is not None and not lower.why and not upper.why and lower.low > upper.high:
        crossed = (
            f"the ends cross: the optimum is at least {lower.low!r} and at most {upper.high!r}, so"
            " that one of the checks is wrong"
        )
        return [crossed], Verified(None, math.inf, False, crossed, statement)
    reasons = [reason for reason in (other, *_failures(claim, upper, lower)) if reason]
    why = reasons[0] if reasons else _unproved(claim)
    proved = None if lower is None or lower.low == -math.inf else lower.low
    checked = (
        *(["lower"] if proved is not None else []),
        *(["upper"] if upper.high < math.inf else []),
    )
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
            "expect must be a statement of a proof, a problem, a solution or a fitted estimator,"
            f" got {type(expect).__name__}"
        )
    return found


def _bound(proof: Proof | str | os.PathLike[str], data: Data, T: Any) -> Problem:
    """A proof with the data that it is about; of a file, arrays are read only if their sizes are
    those of the data.
    """
    if isinstance(proof, Proof):
        # Whose dictionaries may have been changed since it was made.
        proof = replace(proof, statement=replace(proof.statement))
        codes = data.codes(proof.statement.plain)
        _require_test(proof.test, proof.statement.columns, T)
    else:
        with ProofFile(proof) as file:
            codes = data.codes(file.header.statement)
            _require_test(file.header.test, file.header.statement["columns"], T)
            proof = file.read()
    if proof.test is not None:
        given = proof.scores["label"]
        wrong = np.flatnonzero(given != label_codes(proof.scores["lower"], proof.scores["upper"]))
        wrong = np.union1d(wrong, np.flatnonzero(proof.scores["lower"] > proof.scores["upper"]))
        if wrong.size:
            t = int(wrong[0])
            ends = f"{float(proof.scores['lower'][t])!r} to {float(proof.scores['upper'][t])!r}"
            raise ProofRejected(
                f"the label {int(given[t])} of test row {t} is not that of its interval, {ends}"
            )
    return Problem(proof, data.X, codes).with_multipliers()


def _require_test(said: Mapping[str, Any] | None, columns: int, T: Any) -> None:
    """Refuse test rows that are not those of the proof, before its arrays are read."""
    if said is None:
        if T is not None:
            raise ProofRejected("the proof claims nothing of test rows; leave out test")
        return
    if T is None:
        raise ProofRejected(
            f"the proof claims scores of {said['rows']} test rows; pass them as test"
        )
    if T.shape != (said["rows"], columns):
        wanted = f"{said['rows']} rows and {columns} columns"
        raise ProofRejected(
            f"the test rows are not those of the proof: they have the shape {T.shape}, the proof is"
            f" about {wanted}"
        )
    digest = digest_of(T)
    if digest != said["digest"]:
        raise ProofRejected(
            f"the test rows are not those of the proof: digest {digest}, the proof is about"
            f" {said['digest']}"
        )


def _failures(claim: Proof, upper: End, lower: End | None) -> list[str]:
    """The claims that were not confirmed, the cause first."""
    found = [lower.why if lower is not None else "", upper.why if claim.upper is not None else ""]
    if claim.upper is not None and not upper.why and not upper.high <= claim.upper:
        found.append(
            f"the model's objective is at most {upper.high!r} but at least {upper.low!r}, the proof"
            f" claims {claim.upper!r}"
        )
    if claim.lower is None:
        return found
    if lower is None:
        found.append(
            f"the proof claims the lower end {claim.lower!r} and has no dual point that would"
            " prove it"
        )
    elif not lower.why and not lower.low >= claim.lower:
        what = "the record of the search proves" if claim.tree else "the dual objective is at least"
        most = "" if claim.tree else f" but at most {lower.high!r}"
        found.append(f"{what} {lower.low!r}{most}, the proof claims {claim.lower!r}")
    return found


def _unproved(claim: Proof) -> str:
    """What a proof that holds does not claim."""
    if claim.stated is not None:
        return (
            f"the lower end {claim.stated!r} that {SEARCHED[claim.kind]} states is not part of the"
            " proof"
        )
    if claim.lower is None or claim.upper is None:
        return f"the proof claims no {'lower' if claim.lower is None else 'upper'} end"
    return ""


def _ends_of(formulation: str) -> tuple[Callable[..., Any], Any]:
    # The families of balls need python-flint, and are imported if they are needed.
    modules = (import_module(f"svmcvx.proofs.families.{family}") for family in FAMILIES)
    found: tuple[Any, Any] = next(
        module.FAMILY[formulation] for module in modules if formulation in module.FAMILY
    )
    return found


def _ends(problem: Problem, precision: int, in_doubles: bool) -> tuple[End, End | None]:
    """The upper end, and the lower one of the dual point or of the tree, if the proof has one."""
    upper, lower = _in_double_precision(problem) if in_doubles else _in_balls(problem, precision)
    return upper, _with_the_search(problem, precision, upper, lower)


def _in_double_precision(problem: Problem) -> tuple[End, End | None]:
    large: Any = import_module("svmcvx.proofs.large")
    large.require_check(problem)
    upper, lower = (partial(large.ends_of, evaluate) for evaluate in _ends_of(problem.formulation))
    return _both(upper, lower if problem.proof.dual else None, large.Space(problem), tuple)


def _in_balls(problem: Problem, precision: int) -> tuple[End, End | None]:
    flint = _require_flint()
    balls: Any = import_module("svmcvx.proofs.balls")
    space: Any = import_module("svmcvx.proofs.space")
    upper, lower = _ends_of(problem.formulation)
    if not problem.proof.dual:
        lower = None
    with flint.ctx.workprec(precision):
        return _both(upper, lower, space.Space(problem), lambda found: balls.Balls(found).ends)


def _require_flint() -> Any:
    try:
        return import_module("flint")
    except ImportError:
        raise missing_extra("python-flint", "proofs") from None


def _with_the_search(problem: Problem, precision: int, upper: End, lower: End | None) -> End | None:
    """The lower end with what the record of a search proves, if the proof has one."""
    if not problem.proof.tree:
        return lower
    tree: Any = import_module("svmcvx.proofs.search_tree")
    try:
        if problem.kernel is None:
            found = float(tree.tree_bound(problem))
        else:
            space: Any = import_module("svmcvx.proofs.space")
            with _require_flint().ctx.workprec(precision):
                found = float(tree.tree_bound(problem, space.Space(problem)))
    except ProofRejected as refusal:
        return End(-math.inf, math.inf, str(refusal))
    if lower is not None and not lower.why:
        found = max(found, lower.low)
    return End(found, max(found, upper.high), "")


def _both(
    upper: Callable[..., Any],
    lower: Callable[..., Any] | None,
    space: Any,
    enclose: Callable[[Any], Any],
) -> tuple[End, End | None]:
    return _end(upper, space, enclose), None if lower is None else _end(lower, space, enclose)


def _end(evaluate: Callable[..., Any], space: Any, enclose: Callable[[Any], Any]) -> End:
    space.influence = 0.0
    try:
        low, high = enclose(evaluate(space))
        require_small(space.influence, low, high)
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
