r"""The problem that a proof is about, and the definiteness of its kernel.

The problem that a proof is about: raw data, weights, hyper-parameters, and the points of the
proof as plain arrays.

Kernels that are not definite on every data set: symmetric and positive semidefinite, up to
rounding, on the rows that a proof uses.

The matrix is scaled to a diagonal of ones, so that no entry hides another. A Cholesky factorisation
of it plus a multiple of the identity that ends in doubles proves that no eigenvalue is below minus
that multiple and what rounding may add: in any order of summation the factor's product differs from
the matrix by at most :math:`(n + 1)\,2^{-53}` in each entry, relatively to the diagonal ([Rump],
verification of positive definiteness, 2006).

With the tolerance :math:`\tau` that this proves, :math:`K + \tau\,\mathrm{diag}(K)` is positive
semidefinite, and the squared norm of coefficients v in it is larger by :math:`\tau\sum
K_{ii}v_i^2`. A point for which that is not small relative to the end that it proves is refused: it
would prove what the rounding of the matrix says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.format import Proof, fingerprint
from svmcvx.proofs.intervals import SLACK, TINY, U
from svmcvx.proofs.statement import Statement

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]


# The bytes of `dual.code`: at the bound, and the next number of `dual.between`.
AT_BOUND: Final = 1
BETWEEN: Final = 2


class ProofRejected(Exception):
    """A point of the proof does not prove anything; the message says what fails."""


def matrix_of(X: Any, name: str) -> Any:
    """Return a matrix of finite doubles, dense or by rows."""
    try:
        matrix: Any = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biufO":
            raise TypeError
        matrix = matrix.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a real matrix, one observation a row") from None
    if sp.issparse(matrix):
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not np.isfinite(matrix.data if sp.issparse(matrix) else matrix).all():
        raise DataError(f"{name} contains NaN or infinity")
    return matrix


def multipliers_of(statement: Statement, u: Floats, weight: Floats, whole: float) -> Floats:
    """Return the multipliers that margins give, for p > 1 or ODM; any are valid within their
    bounds, so that their rounding does not matter.
    """
    numbers = statement.hyperparameters
    with np.errstate(over="ignore", invalid="ignore"):
        if statement.formulation == "odm":
            C1, C2, D = (numbers[name] for name in ("C1", "C2", "D"))
            slopes = C1 * np.maximum(1.0 - D - u, 0.0) - C2 * np.maximum(u - 1.0 - D, 0.0)
            value = 2.0 * weight / whole * slopes
        else:
            C, p = numbers["C"], numbers["p"]
            value = C * weight * p * np.maximum(1.0 - u, 0.0) ** (p - 1.0)
    return np.where(np.isfinite(value), value, 0.0)


@dataclass(frozen=True, eq=False)
class Data:
    """The data that a proof is checked on."""

    X: Any
    labels: list[Any]

    @classmethod
    def of(cls, X: Any, y: Any) -> Data:
        """Return data that have been looked at."""
        matrix, labels = matrix_of(X, "X"), np.asarray(y).ravel()
        if labels.size != matrix.shape[0]:
            raise DataError(f"y has {labels.size} labels but X has {matrix.shape[0]} rows")
        return cls(matrix, labels.tolist())

    def codes(self, statement: Mapping[str, Any]) -> Rows:
        """Return the positions of the labels among the classes of a statement."""
        for what, held, said in zip(
            ("rows", "columns"),
            self.X.shape,
            (statement["rows"], statement["columns"]),
            strict=True,
        ):
            if held != said:
                raise ProofRejected(
                    f"the data are not those of the proof: they have {held} {what}, the proof is"
                    f" about {said}"
                )
        known = {label: code for code, label in enumerate(statement["classes"])}
        try:
            codes = np.array([known.get(label, -1) for label in self.labels], dtype=np.intp)
        except TypeError:
            raise DataError("y must hold one label a row, a number or a string") from None
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise ProofRejected(
                f"the data are not those of the proof: the label of row {row},"
                f" {self.labels[row]!r}, is not among its labels"
            )
        missing = set(range(len(known))) - set(np.unique(codes).tolist())
        if missing:
            label = statement["classes"][min(missing)]
            raise ProofRejected(
                f"the data are not those of the proof: no row has its label {label!r}"
            )
        return codes


@dataclass(frozen=True, eq=False)
class Problem:
    """A proof bound to data.

    Attributes
    ----------
    proof : Proof
    X : ndarray or csr_array of shape (rows, d)
    codes : ndarray of int, shape (rows,)
        Positions of the labels in the sorted labels.
    """

    proof: Proof
    X: Any
    codes: Rows

    @property
    def formulation(self) -> str:
        """Its name."""
        return self.proof.statement.formulation

    @cached_property
    def fingerprint(self) -> str:
        """The short name of the data."""
        return fingerprint(self.X, self.codes, coded=True)

    @cached_property
    def index(self) -> Rows:
        """The rows that take part: those of positive weight."""
        return np.flatnonzero(self.proof.statement.weighted > 0)

    @cached_property
    def used(self) -> Rows:
        """The rows whose kernel entries matter: those that take part, and those that the model
        rests on.
        """
        used = self.proof.statement.weighted > 0
        if "support" in self.proof.model:
            used[self.support] = True
        if "V_coef" in self.proof.model:
            used |= (self.proof.model["V_coef"] != 0).any(axis=1)
        return np.flatnonzero(used)

    @property
    def n(self) -> int:
        """Number of rows that take part."""
        return int(self.index.size)

    @cached_property
    def weight(self) -> Floats:
        """Their weights."""
        return np.asarray(self.proof.statement.weighted[self.index])

    @property
    def signs(self) -> Floats:
        """Their labels as ±1."""
        return np.where(self.codes[self.index] == 1, 1.0, -1.0)

    @property
    def penalised(self) -> bool:
        """Whether a constant feature is penalised with the rest."""
        return self.proof.statement.intercept == "penalised"

    @property
    def kernel(self) -> Mapping[str, Any] | None:
        """Name and numbers of the kernel; None where the machine is linear."""
        return self.proof.statement.kernel

    def has(self, name: str) -> bool:
        """Whether the problem has this hyper-parameter."""
        return name in self.proof.statement.hyperparameters

    def number(self, name: str) -> float:
        """Return a hyper-parameter."""
        return float(self.proof.statement.hyperparameters[name])

    def has_dual(self, *names: str) -> bool:
        """Whether the proof has these entries of a dual point."""
        return all(name in self.proof.dual for name in names)

    def dual(self, name: str) -> Floats:
        """Return an entry of the dual point for the rows that take part."""
        return np.asarray(self.proof.dual[name][self.index])

    @property
    def linear_model(self) -> bool:
        """Whether the model is a vector of coefficients."""
        return "coef" in self.proof.model

    @cached_property
    def support(self) -> Rows:
        """The rows of the data that a model with dual coefficients rests on."""
        support, rows = self.proof.model["support"], self.codes.size
        if support.size and not (support.min() >= 0 and support.max() < rows):
            raise ProofRejected(
                f"the support of the model must be rows of the data, from 0 to {rows - 1}"
            )
        if np.unique(support).size < support.size:
            raise ProofRejected("the support of the model names a row twice")
        return np.asarray(support, dtype=np.intp)

    def with_multipliers(self) -> Problem:
        """Return the problem with its multipliers written out, where the file codes them or leaves
        them to the model.
        """
        dual = self.proof.dual
        if "code" in dual:
            values = {"alpha": self._decoded(dual["code"], dual["between"])}
        elif (
            not dual and self.proof.lower is not None and self.linear_model and self.kernel is None
        ):
            if self.formulation == "odm":
                values = {"theta": self._of_the_model()}
            elif self.formulation in ("psvm", "penalised psvm") and self.number("p") > 1:
                values = {"alpha": self._of_the_model()}
            else:
                return self
        else:
            return self
        return replace(self, proof=replace(self.proof, dual=values))

    def _decoded(self, code: NDArray[np.uint8], between: Floats) -> Floats:
        weight = self.proof.statement.weighted
        if (code > BETWEEN).any() or int((code == BETWEEN).sum()) != between.size:
            raise ProofRejected(
                f"dual.code holds bytes from 0 to {BETWEEN}, with an entry of dual.between for each"
                f" {BETWEEN}"
            )
        if code[weight == 0].any():
            raise ProofRejected("a row of weight zero has a multiplier")
        # At most C times the weight.
        alpha = np.where(
            code == AT_BOUND, np.maximum(np.nextafter(self.number("C") * weight, -np.inf), 0.0), 0.0
        )
        alpha[code == BETWEEN] = between
        return alpha

    def _of_the_model(self) -> Floats:
        """Multipliers that the model gives."""
        rows, weight = self.X[self.index], self.weight
        with np.errstate(over="ignore", invalid="ignore"):
            u = self.signs * (rows @ self.proof.model["coef"] + self.bias)
            part = multipliers_of(self.proof.statement, u, weight, float(weight.sum()))
            sums = {sign: float(part[self.signs == sign].sum()) for sign in (-1.0, 1.0)}
            least = min(sums.values())
            if self.proof.statement.intercept == "free" and least > 0:
                part *= np.where(self.signs > 0, least / sums[1.0], least / sums[-1.0])
        values = np.zeros(self.codes.size)
        values[self.index] = part
        return values

    @property
    def bias(self) -> float:
        """The intercept of a model of two classes."""
        bias = float(self.proof.model["intercept"])
        if self.proof.statement.intercept == "none" and bias != 0:
            raise ProofRejected(f"the model has the intercept {bias!r}, the formulation has none")
        return bias


# Entries of a kernel between rows of the data, and bounds on their errors.
Block: TypeAlias = Callable[[Rows, Rows], tuple[Floats, Floats]]

# Relatively to the diagonal: how far a precomputed matrix may be from symmetric, and its
# eigenvalues, over their number, below zero.
ASYMMETRY: Final = 1e-10
INDEFINITE: Final = 1e-10
# What that may change, relatively to the end that a point proves.
INFLUENCE: Final = 1e-6
# Rows up to which a kernel is computed for this test, where the data are not its matrix; and of one
# block.
TESTED: Final = 4000
BLOCK: Final = 500


def dense(part: Any) -> Floats:
    """Return rows of the data as a dense matrix."""
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def is_symmetric(problem: Problem) -> bool:
    """Return whether a precomputed kernel is exactly symmetric on the rows that are used; refuse
    one that is not to rounding.
    """
    X, used, exact = problem.X, problem.used, True
    size = np.sqrt(np.abs(X.diagonal()[used]))
    for part in _parts(used.size):
        first, second = dense(X[used[part]])[:, used], dense(X[:, used[part]])[used].T
        off = np.abs(first - second)
        exact = exact and not off.any()
        bad = off > ASYMMETRY * np.outer(size[part], size)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            i, j = used[part][i], used[j]
            raise ProofRejected(
                f"the precomputed kernel is not symmetric: see its entries ({i}, {j}) and ({j},"
                f" {i})"
            )
    return exact


def precomputed_block(
    X: Any, rows: Rows, columns: Rows, *, symmetric: bool
) -> tuple[Floats, Floats]:
    """Return a block of a precomputed kernel, the mean of the matrix and its transpose, and bounds
    on the errors.
    """
    first = dense(X[rows])[:, columns]
    if symmetric:
        return first, np.zeros_like(first)
    mean = 0.5 * first + 0.5 * dense(X[:, rows])[columns].T
    return mean, 2 * U * np.abs(mean) + TINY


def is_tested(kernel: Mapping[str, Any] | None) -> bool:
    """Return whether a kernel is indefinite on some data."""
    name = "linear" if kernel is None else kernel["name"]
    return name in ("precomputed", "sigmoid") or (
        name == "polynomial" and kernel is not None and kernel["coef0"] < 0
    )


class Indefiniteness(NamedTuple):
    """How far a kernel may be from positive semidefinite, relatively to its diagonal, and this
    diagonal, one entry a row of the data.
    """

    tolerance: float
    diagonal: Floats

    def influence(self, rows: Rows, v: Floats) -> float:
        """Return what the tolerance may change the squared norm of coefficients by, of which sizes
        are given.
        """
        with np.errstate(over="ignore"):
            return (
                float(self.tolerance * (self.diagonal[rows] * v * v).sum()) * SLACK
                if self.tolerance
                else 0.0
            )


DEFINITE: Final = Indefiniteness(0.0, np.zeros(0))


def require_small(influence: float, low: float, high: float) -> None:
    """Refuse coefficients with which an end between two numbers rests on how a kernel that may be
    indefinite was rounded.
    """
    if influence > INFLUENCE * max(abs(low), abs(high)):
        raise ProofRejected(
            "the coefficients are so large that the rounding of the kernel decides: it may change"
            f" the squared norm by {influence:.3g}"
        )


def proved_definite(problem: Problem, block: Block) -> Indefiniteness:
    """Return how far the kernel may be from semidefinite on the rows that the proof uses; refuse
    one that is clearly not.
    """
    kernel, used = problem.kernel, problem.used
    if kernel is None or not is_tested(kernel):
        return DEFINITE
    n = used.size
    if n > TESTED and kernel["name"] != "precomputed":
        raise ProofRejected(
            f"the kernel {kernel['name']} may be indefinite, which is tested on up to"
            f" {TESTED} rows; these are {n}: precompute its matrix"
        )
    diagonal = np.concatenate([np.diagonal(block(used[part], used[part])[0]) for part in _parts(n)])
    if (diagonal < 0).any():
        raise ProofRejected(
            "the kernel is indefinite on these data: its diagonal entry of row"
            f" {used[np.argmin(diagonal)]} is negative"
        )
    size = np.where(diagonal > 0, np.sqrt(diagonal), 1.0)
    A, error = np.empty((n, n)), 0.0
    for part in _parts(n):
        values, errors = block(used[part], used)
        if values[(diagonal == 0)[part]].any() or values[:, diagonal == 0].any():
            raise ProofRejected(
                "the kernel is indefinite on these data: a diagonal entry is 0 where others of its"
                " row are not"
            )
        A[part] = values / size[part, None] / size
        error = max(error, float((errors / size[part, None] / size).sum(axis=1).max()))
    allowed, rounding = INDEFINITE * n, n * (n + 8) * U
    if not (error + rounding < allowed and np.isfinite(A).all()):
        raise ProofRejected(
            "the entries of the kernel are too inexact to tell whether it is indefinite; take"
            " method='balls'"
        )
    for tolerance in (0.0, error + 2 * rounding, allowed):
        shifted = A.copy()
        shifted.flat[:: n + 1] += tolerance - error - rounding
        if _has_factor(shifted):
            full = np.zeros(problem.codes.size)
            full[used] = diagonal
            return Indefiniteness(min(tolerance, allowed), full)
    raise ProofRejected(
        "the kernel is indefinite on these data: scaled to a diagonal of ones it is not proved to"
        f" have no eigenvalue below {-allowed:.3g}"
    )


def _has_factor(A: Floats) -> bool:
    """Whether the Cholesky factorisation of a symmetric matrix ends, in blocks of columns; the
    lower half is overwritten.
    """
    for start in range(0, len(A), BLOCK):
        stop = min(start + BLOCK, len(A))
        try:
            L = np.linalg.cholesky(A[start:stop, start:stop])
        except np.linalg.LinAlgError:
            return False
        if not np.isfinite(L).all():
            return False
        below = A[stop:, start:stop]
        below[:] = scipy.linalg.solve_triangular(L, below.T, lower=True, check_finite=False).T
        for place in range(stop, len(A), BLOCK):
            end = min(place + BLOCK, len(A))
            A[place:, place:end] -= A[place:, start:stop] @ A[place:end, start:stop].T
    return True


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))
