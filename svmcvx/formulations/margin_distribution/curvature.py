r"""The second derivative of mean and variance of the margins, for ODML: factored, or solved by
products with the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace
from svmcvx.losses import variance_multipliers
from svmcvx.numerical import conjugate_gradients
from svmcvx.system import memory
from svmcvx.system.cancellation import checkpoint, cholesky, run_with_deadline, triangle

__all__ = ["MarginHessian"]

Floats: TypeAlias = NDArray[np.float64]

# To repair a dual point, R is factored up to this number of features and observations, and for
# sparse data up to this number of entries if they were dense.
LARGEST_FACTORED = 2500
LARGEST_WHITENED = 1e8
# Largest trace of L'AL, and with it condition of R, at which R is formed: four digits are lost at
# most.
WELL_CONDITIONED = 1e4
# Rows that are whitened together.
ROWS = 512
# Otherwise conjugate gradients: their relative residual, and products at most.
ACCURACY = 1e-10
PRODUCTS = 1000


@dataclass(frozen=True, eq=False)
class MarginHessian:
    """The matrix :math:`R = I + L'AL` of the quadratic part of P in the columns of the factor L."""

    space: FeatureSpace
    share: Floats
    lam1: float

    @cached_property
    def triangle(self) -> Floats:
        """The lower triangular T with ``T T' = R``."""
        L = self.space.factor
        n, r = L.shape
        if sp.issparse(L):
            self._require(3.0 * r * r)
            mean = np.asarray(L.T @ (self.space.data.y * self.share))
            R = (
                2.0
                * self.lam1
                * ((L.T @ sp.diags_array(self.share) @ L).toarray() - np.outer(mean, mean))
            )
            R[np.diag_indices(r)] += 1.0
            try:
                return np.asarray(sl.cholesky(R, lower=True, overwrite_a=True, check_finite=False))
            except sl.LinAlgError:
                # The mean is so large that the difference has lost its digits: form the centred
                # margins instead.
                L = L.toarray()
        self._require(3.0 * (n + r) * r)
        margins = self.space.data.y[:, None] * L
        centred = np.sqrt(2.0 * self.lam1 * self.share)[:, None] * (margins - self.share @ margins)
        if float(np.vdot(centred, centred)) <= WELL_CONDITIONED:
            R = run_with_deadline(np.matmul, centred.T, centred)
            R[np.diag_indices(r)] += 1.0
            return cholesky(R)
        # R is the Gram matrix of the identity stacked on the centred margins, so T is the triangle
        # of their QR factor.
        upper = triangle(np.vstack([np.eye(r), centred]))
        return np.ascontiguousarray(upper.T)

    def _require(self, entries: float) -> None:
        memory.require(
            8.0 * entries,
            f"the matrix of the margin variance in {self.space.factor.shape[1]} dimensions",
            "use fewer observations or features, or a specialised solver",
        )

    def solve(self, g: Floats) -> Floats:
        """Return ``w`` with ``R w = g``."""
        return np.asarray(sl.cho_solve((self.triangle, True), g, check_finite=False))

    @property
    def by_products(self) -> bool:
        """Whether R of a linear space is too large to be factored only to repair a dual point.

        It is then solved by products with the data, see :meth:`solve_by_products`. Only the size of
        the data decides.
        """
        if not self.space.is_linear:
            return False
        X = self.space.X
        n, d = X.shape
        return bool(
            min(n, d) > LARGEST_FACTORED or (sp.issparse(X) and (d > n or n * d > LARGEST_WHITENED))
        )

    def solve_by_products(self, v: Floats) -> Floats:
        """Return ``w`` in the columns of the data X with ``R w = X'v``, by conjugate gradients."""
        X, y, c = self.space.X, self.space.data.y, self.share

        def product(w: Floats) -> Floats:
            u = y * np.asarray(X @ w)
            return np.asarray(w + X.T @ (y * variance_multipliers(u, self.lam1, c)))

        squares = X.multiply(X) if sp.issparse(X) else X**2
        mean = np.asarray(X.T @ (y * c))
        diagonal = 1.0 + 2.0 * self.lam1 * np.maximum(np.asarray(squares.T @ c) - mean**2, 0.0)
        right = np.asarray(X.T @ v)
        return conjugate_gradients(
            product, right, lambda r: r / diagonal, accuracy=ACCURACY, limit=PRODUCTS
        ).x

    def whitened(self, rows: Any = slice(None)) -> Floats:
        """Return the rows of N with ``N N' = H``, that is ``N = Z T^{-T}``."""
        part = self.space.factor[rows]
        found = self.space.data.y[rows, None] * (part.toarray() if sp.issparse(part) else part)
        for start in range(0, found.shape[0], ROWS):
            checkpoint()
            some = slice(start, start + ROWS)
            found[some] = sl.solve_triangular(
                self.triangle, found[some].T, lower=True, check_finite=False
            ).T
        return np.asarray(found)
