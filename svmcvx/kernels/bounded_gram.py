"""A kernel matrix in memory, with a bound on the error of each of its entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, U
from svmcvx.certificate.rows import UNDERFLOW, inner_error
from svmcvx.kernels.entry_error import EntryError

Floats: TypeAlias = NDArray[np.float64]

# Terms of one part of a product, so that its error grows with their number and that of the parts.
COLUMNS = 256


@dataclass(frozen=True, eq=False)
class BoundedGram:
    """A symmetric matrix of inner products of feature vectors."""

    K: Floats
    error: EntryError

    @cached_property
    def _sizes(self) -> Floats:
        """|K|; K itself where no entry is negative."""
        return self.K if self.K.min(initial=0.0) >= 0.0 else np.abs(self.K)

    @property
    def diagonal(self) -> Bounded:
        """The squared norms of the feature vectors."""
        found = np.array(np.diagonal(self.K))
        return Bounded(found, self.error.of_diagonal(found))

    @property
    def row_errors(self) -> Floats:
        ones = np.ones(self.K.shape[0])
        return self.error.of_products(*self._magnitudes(ones), ones)

    def block(self, rows: NDArray[np.intp]) -> BoundedGram:
        """Return that of some of the feature vectors."""
        if rows.size == self.K.shape[0]:
            return self
        return BoundedGram(self.K[np.ix_(rows, rows)], self.error.block(rows, rows))

    def product(self, v: Floats) -> Bounded:
        """Return Kv, summed in parts; `v` may have several columns."""
        n = self.K.shape[0]
        f = np.zeros((n, *v.shape[1:]))
        for start in range(0, n, COLUMNS):
            f += self.K[:, start : start + COLUMNS] @ v[start : start + COLUMNS]
        magnitude, weighted = self._magnitudes(v)
        terms = min(COLUMNS, n) + n // COLUMNS + 3
        lost = inner_error(terms, magnitude) + self.error.of_products(magnitude, weighted, v)
        return Bounded(f, np.asarray(lost * (1.0 + 8 * U)))

    def _magnitudes(self, v: Floats) -> tuple[Floats, Floats]:
        """Return numbers that are at least |K||v| and |K|(c ∘ |v|)."""
        size = np.abs(v)
        both = np.stack([size, (self.error.columns * size.T).T], axis=-1).reshape(v.shape[0], -1)
        found = ((self._sizes @ both) * (1.0 + (v.shape[0] + 8) * 2.0 * U) + UNDERFLOW).reshape(
            *v.shape, 2
        )
        return found[..., 0], found[..., 1]

    def scaled(self, c: Floats) -> tuple[Floats, float]:
        r"""Return :math:`C^{1/2}KC^{1/2}` for c ≥ 0, and a bound on the norm of its error: the
        largest sum of a row of errors.
        """
        root = np.sqrt(c)
        M = (root[:, None] * self.K) * root
        M = (M + M.T) / 2.0
        size = M if self._sizes is self.K else np.abs(M)
        magnitude, weighted = self._magnitudes(root)
        entries = root * self.error.of_products(magnitude, weighted, root) * (1.0 + 16 * U)
        sums = 8 * U * size.sum(axis=1) + entries
        return M, float(sums.max(initial=0.0)) * (1.0 + 4 * c.size * U) + c.size * UNDERFLOW
