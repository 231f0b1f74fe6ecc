"""The binary models of several classes in arrays: each is made when it is asked for, and all of
them predict by one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features, check_features
from svmcvx.kernels import CallableKernel, Kernel
from svmcvx.kernels.columns import TILE_ENTRIES, KernelColumns
from svmcvx.model.base import frozen
from svmcvx.model.binary import BLOCK_ENTRIES, BinaryModel, KernelModel, LinearModel

__all__ = ["KernelMembers", "LinearMembers", "Members", "packed"]

Floats: TypeAlias = NDArray[np.float64]
# Entries of a block between new rows and the support vectors of all models.
ROWS_OF_BLOCK = 8 * TILE_ENTRIES


class _Packed(Sequence[Any]):
    """A sequence of models that keeps those that were asked for."""

    intercepts: Floats

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def __len__(self) -> int:
        return int(self.intercepts.size)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(len(self))))
        place = range(len(self))[index]
        if place not in self._made:
            self._made[place] = self._model(place)
        return self._made[place]

    def _model(self, place: int) -> Any:
        raise NotImplementedError


class LinearMembers(_Packed):
    """Linear models."""

    def __init__(
        self,
        coef: Floats,
        intercepts: Floats,
        classes: Sequence[Any],
        supports: Sequence[NDArray[np.intp]],
    ) -> None:
        super().__init__()
        self.coef, self.intercepts = frozen(coef), frozen(intercepts)
        self.classes, self.supports = classes, supports

    @property
    def support(self) -> NDArray[np.intp]:
        """Rows of the training data that any of the models rests on."""
        return np.unique(np.concatenate(list(self.supports)))

    def _model(self, place: int) -> LinearModel:
        return LinearModel(
            self.coef[place], self.intercepts[place], self.classes[place], self.supports[place]
        )

    def scores(self, X: Any) -> Floats:
        """Return the score of each row by each model, shape (m, models)."""
        X = check_features(X, n_features=self.coef.shape[1])
        return np.asarray(X @ self.coef.T) + self.intercepts


class KernelMembers(_Packed):
    """Expansions over support vectors with the same kernel."""

    def __init__(
        self,
        kernel: Kernel,
        vectors: Features | None,
        support: NDArray[np.intp],
        table: Floats,
        intercepts: Floats,
        classes: Sequence[Any],
        n_features: int,
    ) -> None:
        super().__init__()
        self.kernel, self.vectors, self.n_features = kernel, vectors, n_features
        self.support, self.table, self.intercepts = (
            frozen(support),
            frozen(table),
            frozen(intercepts),
        )
        self.classes = classes

    def _model(self, place: int) -> KernelModel:
        column = self.table[:, place]
        rows = np.flatnonzero(column)
        rows = rows if rows.size else np.array([0], dtype=np.intp)
        return KernelModel(
            kernel=self.kernel,
            vectors=None if self.vectors is None else self.vectors[rows],
            dual_coef=column[rows],
            intercept=self.intercepts[place],
            classes=self.classes[place],
            support=self.support[rows],
            n_features=self.n_features,
        )

    def scores(self, X: Any) -> Floats:
        """Return the score of each row by each model, shape (m, models): the kernel is evaluated
        once for all.
        """
        X = check_features(X, n_features=self.n_features)
        m, s = X.shape[0], self.support.size
        found = np.empty((m, len(self)))
        blocks = not (self.vectors is None or isinstance(self.kernel, CallableKernel))
        columns = (
            KernelColumns(self.kernel, X, self.vectors, tile_entries=TILE_ENTRIES)
            if blocks
            else None
        )
        step = max(1, (ROWS_OF_BLOCK if blocks else BLOCK_ENTRIES) // max(1, s))
        for start in range(0, m, step):
            part = slice(start, start + step)
            if columns is not None:
                block: Any = columns(part)
            else:
                block = (
                    X[part][:, self.support]
                    if self.vectors is None
                    else self.kernel(X[part], self.vectors)
                )
            found[part] = block @ self.table
        return found + self.intercepts


Members: TypeAlias = LinearMembers | KernelMembers


def packed(members: Sequence[BinaryModel]) -> Members | None:
    """Return models in arrays, None if they do not share a kernel or the rows behind them."""
    if isinstance(members, (LinearMembers, KernelMembers)):
        return members
    intercepts, classes = (
        np.array([member.intercept for member in members]),
        [member.classes for member in members],
    )
    supports = [member.support for member in members]
    linear = [member for member in members if isinstance(member, LinearModel)]
    if len(linear) == len(members):
        if len({member.coef.size for member in linear}) > 1:
            return None
        return LinearMembers(
            np.stack([member.coef for member in linear]), intercepts, classes, supports
        )
    first = members[0]
    kernels = [member for member in members if isinstance(member, KernelModel)]
    if len(kernels) < len(members) or not isinstance(first, KernelModel):
        return None
    alike = all(
        member.kernel == first.kernel and member.n_features == first.n_features
        for member in kernels
    )
    if not alike or any(sp.issparse(member.vectors) for member in kernels):
        return None
    if any(np.unique(rows).size < rows.size for rows in supports):
        return None
    support, where = np.unique(np.concatenate(supports), return_index=True)
    vectors: Any = None
    if first.vectors is not None:
        every = np.concatenate([member.vectors for member in kernels])
        vectors = every[where]
    table = np.zeros((support.size, len(members)))
    for k, member in enumerate(kernels):
        rows = np.searchsorted(support, member.support)
        own: Any = member.vectors
        if vectors is not None and not np.array_equal(vectors[rows], own):
            return None
        table[rows, k] = member.dual_coef
    return KernelMembers(
        first.kernel, vectors, support, table, intercepts, classes, first.n_features
    )
