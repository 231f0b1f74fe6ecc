r"""The feature space of a problem: scores and norms of the model and of dual points, in balls or in
intervals of doubles; and kernels that are not definite on every data set.

These have to be symmetric and positive semidefinite up to rounding on the rows that a proof uses.
A Cholesky factorisation, in doubles, of the matrix scaled to a diagonal of ones and enlarged there
proves that no eigenvalue is below minus what was added and what rounding may add: its product is
off by at most :math:`(n + 1)\,2^{-53}` in each entry, in any order of summation ([Rump],
verification of positive definiteness, 2006).

With the tolerance :math:`\tau` that this proves, :math:`K + \tau\,\mathrm{diag}(K)` is positive
semidefinite, and the squared norm of coefficients v is larger by :math:`\tau\sum K_{ii}v_i^2` in
it. A point for which that is not small relatively to the end that it proves is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from svmcvx.proofs.intervals import BLOCK, SLACK, Floats, Inexact, Interval, Rows, U
from svmcvx.proofs.problem import Problem, ProofRejected, bias_of, dense

if TYPE_CHECKING:
    from svmcvx.proofs.balls import Balls

N = TypeVar("N", Interval, "Balls")

# Entries of a kernel that are stored for the next product.
STORED: Final = 15 * BLOCK
# Relatively to the diagonal: how far a precomputed matrix may be from symmetric, and its
# eigenvalues, over their number, below zero.
INDEFINITE: Final = 1e-10
# Largest effect of the tolerance, relatively to the end that a point proves.
INFLUENCE: Final = 1e-6
# Rows up to which a kernel is computed for this test, where the data are not its matrix.
TESTED: Final = 4000


class Point(NamedTuple, Generic[N]):
    """Scores of the rows that take part, and a squared norm."""

    scores: N
    norm: N


class Space(Generic[N]):
    """The feature space of a problem, in one of the two arithmetics."""

    def __init__(self, problem: Problem, numbers: type[N]) -> None:
        self.problem, self.kernel = problem, problem.kernel
        self.numbers: type[N] = numbers
        self.influence, self.tolerance, self.diagonal = 0.0, 0.0, np.zeros(0)
        if is_precomputed(problem):
            require_symmetric(problem)
        if may_be_indefinite(problem):
            self.tolerance, self.diagonal = proved_definite(problem, self.floats)

    def floats(self, rows: Rows, columns: Rows) -> Inexact:
        """Return entries of a kernel, without a constant feature, and bounds on their errors."""
        given = is_precomputed(self.problem)
        numbers: Any = Interval if given else self.numbers
        found: Inexact = numbers.floats(numbers.kernel(self.kernel, *self._pair(rows, columns)))
        return found

    def gram(self, rows: Rows, columns: Rows) -> Any:
        """Return the matrix of the kernel between rows of the data, without a constant feature."""
        return self.numbers.kernel(self.kernel, *self._pair(rows, columns))

    def _pair(self, rows: Rows, columns: Rows) -> tuple[Floats, Floats]:
        """Both triangles of a matrix that is given; else the rows themselves."""
        X = self.problem.X
        if is_precomputed(self.problem):
            return dense(X[rows])[:, columns], dense(X[:, rows])[columns].T
        return dense(X[rows]), dense(X[columns])

    @cached_property
    def rows(self) -> Any:
        return self.problem.X[self.problem.index]

    @cached_property
    def model(self) -> Point[N]:
        """Scores with the bias, and squared norm with a penalised bias, of the model."""
        problem, model = self.problem, self.problem.proof.model
        bias = self.numbers.exactly(bias_of(problem.proof))
        if problem.linear_model:
            w = self.numbers.exactly(model["coef"])
            scores, norm = self.numbers.times(self.rows, w), (w * w).sum()
        else:
            v = self.numbers.exactly(model["dual_coef"])
            scores, norm = self.expansion(problem.support, v)
        return Point(scores + bias, norm + bias * bias if problem.penalised else norm)

    @cached_property
    def u(self) -> N:
        return self.model.scores * self.problem.signs

    def squared_norm(self, v: N) -> N:
        """Return the squared norm of the point with coefficients `v` on the rows that take part."""
        return self.expansion(self.problem.index, v, constant=self.problem.penalised).norm

    def expansion(self, rows: Rows, v: N, *, constant: bool = False) -> Point[N]:
        """Return the point Σ v_i φ(x_i) over rows of the data, with a constant feature or not."""
        used = v.nonzero
        rows, v = rows[used], v[used]
        if self.kernel is None:
            part = self.problem.X[rows]
            w = self.numbers.times(sp.csr_array(part.T) if sp.issparse(part) else part.T, v)
            scores, norm = self.numbers.times(self.rows, w), (w * w).sum()
        else:
            scores, own = self._kernel_scores(rows, v)
            norm = (v * own).sum()
            self.require_norm(norm)
            self.note(rows, v)
        norm = norm.nonneg()
        if constant:
            shift = v.sum()
            scores, norm = scores + shift, norm + (shift * shift).nonneg()
        return Point(scores, norm)

    def require_norm(self, norm: N) -> None:
        if norm.ends[1] < 0:
            raise ProofRejected(
                "the kernel is not positive semidefinite on these data: a squared norm is negative"
            )

    def note(self, rows: Rows, v: N) -> None:
        """Add the effect of the rounding of an indefinite kernel on the norm of coefficients."""
        if self.tolerance:
            self.influence += influence(self.tolerance, self.diagonal[rows], v.largest)

    def _kernel_scores(self, columns: Rows, v: N) -> tuple[N, N]:
        """Scores of the rows that take part, and of the columns themselves."""
        index = self.problem.index
        if not columns.size:
            return self.numbers.exactly(np.zeros(index.size)), v
        rows, used = np.union1d(index, self.columns), self.columns
        if rows.size * used.size <= STORED and np.isin(columns, used).all():
            blocks, v = self._stored, v.scatter(used.size, np.searchsorted(used, columns))
        else:
            rows = np.union1d(index, columns)
            blocks = self._blocks(rows, columns)
        found = self.numbers.concatenate([self.numbers.times(block, v) for block in blocks])
        return found[np.searchsorted(rows, index)], found[np.searchsorted(rows, columns)]

    @cached_property
    def columns(self) -> Rows:
        """Columns with products: the support of the model and that of the dual point."""
        problem: Problem = self.problem
        used = np.zeros(problem.codes.size, dtype=bool)
        if not problem.linear_model:
            used[problem.support] = True
        if problem.has("lam2"):
            used[problem.index] = True
        for values in (*problem.proof.dual.values(), *problem.proof.model.values()):
            if values.shape[:1] == used.shape:
                used |= (values.reshape(used.size, -1) != 0).any(axis=1)
        return np.flatnonzero(used)

    @cached_property
    def _stored(self) -> Any:
        return list(self._blocks(np.union1d(self.problem.index, self.columns), self.columns))

    def _blocks(self, rows: Rows, columns: Rows) -> Iterator[Any]:
        return (self.gram(rows[part], columns) for part in parts(rows.size, columns.size))


def parts(size: int, width: int) -> Iterator[slice]:
    """Return slices of rows that have as many entries as are computed at a time; one at least."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, start + step) for start in range(0, max(size, 1), step))


def influence(tolerance: float, diagonal: Floats, v: Floats) -> float:
    """Return the largest change of the squared norm of coefficients by a tolerance."""
    with np.errstate(over="ignore"):
        return float(tolerance * (diagonal * v * v).sum()) * SLACK


def require_small(influence: float, low: float, high: float) -> None:
    """Refuse coefficients whose end, between two numbers, rests on the rounding of a kernel."""
    if influence > INFLUENCE * max(abs(low), abs(high)):
        raise ProofRejected(
            "the coefficients are so large that the rounding of the kernel decides: it may change"
            f" the squared norm by {influence:.3g}"
        )


def is_precomputed(problem: Problem) -> bool:
    return problem.kernel is not None and problem.kernel["name"] == "precomputed"


def may_be_indefinite(problem: Problem) -> bool:
    kernel = problem.kernel or {"name": "linear"}
    below_0 = kernel["name"] == "polynomial" and kernel["coef0"] < 0
    return below_0 or kernel["name"] in ("precomputed", "sigmoid")


def require_symmetric(problem: Problem) -> None:
    """Refuse a precomputed kernel that is not symmetric to rounding on the rows that are used."""
    X, used = problem.X, problem.used
    size = np.sqrt(np.abs(X.diagonal()[used]))
    for part in parts(used.size, used.size):
        first, second = dense(X[used[part]])[:, used], dense(X[:, used[part]])[used].T
        for i, j in np.argwhere(np.abs(first - second) > INDEFINITE * np.outer(size[part], size)):
            i, j = used[part][i], used[j]
            raise ProofRejected(
                f"the precomputed kernel is not symmetric: see entries ({i}, {j}) and ({j}, {i})"
            )


def proved_definite(
    problem: Problem, entries: Callable[[Rows, Rows], Inexact]
) -> tuple[float, Floats]:
    """Return how far the kernel may be from definite, relatively to its diagonal, and this one."""
    kernel, used, n = problem.kernel, problem.used, problem.used.size
    if n > TESTED and kernel and kernel["name"] != "precomputed":
        raise ProofRejected(
            f"the kernel {kernel['name']} may be indefinite, which is tested on up to"
            f" {TESTED} rows; these are {n}: precompute its matrix"
        )
    blocks = [entries(used[part], used[part])[0] for part in parts(n, n)]
    diagonal = np.concatenate([np.diagonal(block) for block in blocks])
    if (diagonal < 0).any():
        raise ProofRejected(
            "the kernel is indefinite on these data: its diagonal entry of row"
            f" {used[np.argmin(diagonal)]} is negative"
        )
    zero, size = diagonal == 0, np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    A, off = np.empty((n, n)), 0.0
    for part in parts(n, n):
        values, errors = entries(used[part], used)
        if values[zero[part]].any() or values[:, zero].any():
            raise ProofRejected(
                "the kernel is indefinite on these data: a diagonal entry is 0 where others of its"
                " row are not"
            )
        A[part] = values / size[part, None] / size
        off = max(off, float((errors / size[part, None] / size).sum(axis=1).max()))
    allowed, rounding = INDEFINITE * n, n * (n + 8) * U
    if not (off + rounding < allowed and np.isfinite(A).all()):
        raise ProofRejected(
            "the entries of the kernel are too inexact to tell whether it is indefinite; take"
            " method='balls'"
        )
    for tolerance in (0.0, off + 2 * rounding, allowed):
        shifted = A.copy()
        shifted.flat[:: n + 1] += tolerance - off - rounding
        try:
            # The transpose of a symmetric matrix, which is overwritten.
            L = scipy.linalg.cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        if np.isfinite(L).all():
            full = np.zeros(problem.codes.size)
            full[used] = diagonal
            return min(tolerance, allowed), full
    raise ProofRejected(
        "the kernel is indefinite on these data: scaled to a diagonal of ones it is not proved to"
        f" have no eigenvalue below {-allowed:.3g}"
    )
