"""Models: what a solver returns and a user predicts with.

A model is immutable, knows the labels it was trained on, and is stored without pickle: one ``.npz``
file whose member ``header`` is a JSON text (format, version, type, scalars, kernel, digest of the
arrays).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, exact, positive_part, sum_of_squares, total
from svmcvx.certificate.rows import UNDERFLOW, Ball, Rows, inner_error
from svmcvx.data import BinaryData, Features, check_choice, check_features
from svmcvx.display import ShortRepr, html_block, html_fields, listed, quantity, rounded
from svmcvx.errors import DataError
from svmcvx.kernels import CallableKernel, Kernel, Precomputed, kernel_from_dict
from svmcvx.kernels.columns import KernelColumns
from svmcvx.kernels.functions import dense
from svmcvx.system.files import atomic_write, read_archive
from svmcvx.system.memory import SMALL_ENTRIES

# Share of non-zero coefficients up to which products with sparse rows take less time and memory.
RARE = 0.1


def frozen(array: Any) -> NDArray[Any]:
    """Return a read-only contiguous copy."""
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy


class Model(ShortRepr, ABC):
    """A trained classifier.

    Attributes
    ----------
    classes : ndarray
        Sorted labels.
    support : ndarray of int
        Rows of the training data that the model rests on.
    """

    classes: NDArray[Any]
    support: NDArray[np.intp]
    # Of linear models (coef) and of those with one score or one a class (intercept), so that
    # editors complete them.
    coef: Floats
    intercept: Any

    # Fields that hold arrays, which become read-only copies.
    _arrays: ClassVar[tuple[str, ...]] = ("coef", "classes", "support")

    def __post_init__(self) -> None:
        for name in self._arrays:
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __repr__(self) -> str:
        classes = f"classes {listed(map(repr, self.classes.tolist()))}"
        return f"{type(self).__name__}({', '.join([*self._described().values(), classes])})"

    def _repr_html_(self) -> str:
        classes = listed(self.classes.tolist(), most=20)
        fields = [*self._described().items(), ("Classes", classes)]
        return html_block(type(self).__name__, html_fields(fields))

    def _described(self) -> dict[str, str]:
        """Fields that are shown in addition to the classes, by their labels."""
        return {"Support": quantity(self.n_support, "support vector")}

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            For a precomputed kernel the matrix ``k(x_i, x_j)`` of shape (m, n) between the new
            observations and *all* training observations.

        Returns
        -------
        ndarray of shape (m,) or (m, c)
            Scores; c of them a row where a model has one a class.
        """

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score (``classes[1]`` if > 0), or the first of equals."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
        labels: NDArray[Any] = self.classes[chosen]
        return labels

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return scalars (for JSON) and arrays of the model, without classes and support."""

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Inverse of :meth:`_state`, of arrays with classes and support."""
        return cls(**scalars, **arrays)

    @property
    def n_support(self) -> int:
        """Number of training observations that the model rests on."""
        return int(self.support.size)

    def without_support(self) -> Self:
        """Return what predicts the same, for other processes: a linear model without its rows."""
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; :func:`load_model` reads it.

        Parameters
        ----------
        path : path-like
            File to write, by convention ``*.npz``; the name is taken as it is.

        Raises
        ------
        DataError
            If the model holds what cannot be stored without pickle (a callable kernel, labels that
            are neither numbers nor strings), or the file cannot be written.
        """
        scalars, arrays = self._state()
        arrays |= {"classes": _storable_labels(self.classes), "support": np.asarray(self.support)}
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "type": type(self).__name__,
            "object_labels": self.classes.dtype.kind == "O",
            "scalars": scalars,
            "digest": _digest(arrays, scalars),
        }
        with atomic_write(path) as stream:
            np.savez(stream, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]


FORMAT = "svmcvx-model"
FORMAT_VERSION = 1


def _storable_labels(classes: NDArray[Any]) -> NDArray[Any]:
    if classes.dtype.kind != "O":
        return classes
    # A column of a table comes as objects of one type.
    for kind, stored in ((str, str), ((bool, np.bool_), bool), ((int, np.integer), np.int64)):
        if all(isinstance(label, kind) for label in classes):
            with suppress(OverflowError):
                return classes.astype(stored)
    raise DataError("only labels that are numbers or strings can be stored; encode them first")


def _digest(arrays: dict[str, NDArray[Any]], scalars: Any) -> str:
    sha = hashlib.sha256(json.dumps(scalars, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


class LinearScores(Model):
    """A model with the scores ``X coef + intercept``."""

    def _described(self) -> dict[str, str]:
        return {"Input": quantity(self.coef.shape[0], "feature"), **super()._described()}

    def decision_function(self, X: Any) -> Floats:
        X = check_features(X, n_features=self.coef.shape[0])
        scores: Floats = np.asarray(X @ self.coef) + self.intercept
        return scores

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        if isinstance(self.intercept, float):
            return {"intercept": self.intercept}, {"coef": self.coef}
        return {}, {"coef": self.coef, "intercept": self.intercept}


class BinaryModel(Model):
    """A model of two classes with one score an observation."""

    intercept: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "intercept", float(self.intercept))

    def _described(self) -> dict[str, str]:
        return {"Bias": f"intercept {self.intercept:.6g}", **super()._described()}

    @abstractmethod
    def squared_norm(self, data: BinaryData) -> Bounded:
        r"""Return :math:`\|w\|^2` in feature space."""

    def scores(self, X: Features) -> Bounded:
        """Return the scores of validated rows with bounds on their rounding errors."""
        if is_constant(self):
            return exact(np.full(X.shape[0], self.intercept))
        return self._products(X) + self.intercept

    @abstractmethod
    def _products(self, X: Features) -> Bounded:
        """Return the scores less the intercept, with error bounds."""


@dataclass(frozen=True, eq=False)
class LinearModel(LinearScores, BinaryModel):
    """The linear score ``x'w + b``.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The normal `w`.
    intercept : float
        The bias `b`.
    classes : ndarray of shape (2,)
    support : ndarray of int
        Rows of the training data with a non-zero multiplier.
    """

    coef: Floats
    intercept: float
    classes: NDArray[Any]
    support: NDArray[np.intp]

    def without_support(self) -> Self:
        """Return the model without the rows it rests on, of which there may be millions."""
        return replace(self, support=np.zeros(0, dtype=np.intp))

    def squared_norm(self, data: BinaryData) -> Bounded:
        return sum_of_squares(exact(self.coef))

    def _products(self, X: Features) -> Bounded:
        if X.shape[1] != self.coef.size:
            X = check_features(X, n_features=self.coef.size)
        return Rows(X) @ Ball(self.coef)


def kernel_blocks(
    kernel: Kernel, vectors: Features | None, support: NDArray[np.intp], X: Features
) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of a kernel matrix that is precomputed, or whose kernel is a function."""
    step = max(1, SMALL_ENTRIES // max(1, support.size))
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        yield rows, X[rows][:, support] if vectors is None else kernel(X[rows], vectors)


def kernel_columns(kernel: Kernel, vectors: Features | None, X: Features) -> KernelColumns | None:
    """Return the kernel matrix between rows and support vectors, None if it comes in blocks."""
    blocks = vectors is None or isinstance(kernel, CallableKernel)
    return None if blocks else KernelColumns(kernel, X, vectors)


def kernel_sums(
    kernel: Kernel, vectors: Features | None, support: NDArray[np.intp], v: Floats, X: Features
) -> Floats:
    """Return K v for rows and support vectors; `v` may have a column per model."""
    sums = np.zeros((X.shape[0], *v.shape[1:]))
    if (columns := kernel_columns(kernel, vectors, X)) is not None:
        columns.add_product(sums, v)
        return sums
    for rows, block in kernel_blocks(kernel, vectors, support, X):
        sums[rows] = block @ v
    return sums


@dataclass(frozen=True, eq=False)
class KernelModel(BinaryModel):
    r"""The score :math:`\sum_j v_j k(x, x_j) + b`.

    Attributes
    ----------
    kernel : Kernel
        With its parameters as numbers.
    vectors : ndarray or csr_array of shape (s, d), or None
        The support vectors :math:`x_j`; None for a precomputed kernel.
    dual_coef : ndarray of shape (s,)
        The signed multipliers :math:`v_j = \alpha_j y_j`.
    intercept : float
    classes : ndarray of shape (2,)
    support : ndarray of int, shape (s,)
        Rows of the training data that the support vectors are.
    n_features : int
        Columns that new data must have: d, or the number of training observations for a precomputed
        kernel.
    """

    kernel: Kernel
    vectors: Features | None
    dual_coef: Floats
    intercept: float
    classes: NDArray[Any]
    support: NDArray[np.intp]
    n_features: int

    _arrays: ClassVar[tuple[str, ...]] = ("dual_coef", "classes", "support")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors is not None:
            copied = self.vectors.copy() if sp.issparse(self.vectors) else frozen(self.vectors)
            object.__setattr__(self, "vectors", copied)
        elif not isinstance(self.kernel, Precomputed):
            raise DataError("vectors is None without a precomputed kernel; pass them")

    def _described(self) -> dict[str, str]:
        matrix = self.vectors is None
        size = quantity(self.n_features, "observation" if matrix else "feature")
        return {
            "Kernel": rounded(str(self.kernel)),
            "Input": f"Gram matrix of {size}" if matrix else size,
            **super()._described(),
        }

    def squared_norm(self, data: BinaryData) -> Bounded:
        r"""Return :math:`\|w\|^2 = v'Kv`."""
        if is_constant(self):
            return exact(0.0)
        rows = (
            data.X[np.searchsorted(data.index, self.support)]
            if self.vectors is None
            else self.vectors
        )
        return positive_part(total(exact(self.dual_coef) * self._products(rows)))

    def decision_function(self, X: Any) -> Floats:
        X = check_features(X, n_features=self.n_features)
        sums = kernel_sums(self.kernel, self.vectors, self.support, self.dual_coef, X)
        return sums + self.intercept

    def _products(self, X: Features) -> Bounded:
        v = self.dual_coef
        if (columns := kernel_columns(self.kernel, self.vectors, X)) is not None:
            found = columns.product(v)
            return Bounded(found.scores, inner_error(v.size + 2, found.magnitude) + found.entries)
        sums, magnitude = np.zeros(X.shape[0]), np.zeros(X.shape[0])
        # The values of such a kernel are exact by definition.
        for rows, block in kernel_blocks(self.kernel, self.vectors, self.support, X):
            sums[rows], magnitude[rows] = block @ v, abs(block) @ np.abs(v)
        return Bounded(sums, inner_error(v.size + 2, magnitude) + UNDERFLOW)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        scalars = {
            "intercept": self.intercept,
            "kernel": self.kernel.to_dict(),
            "n_features": int(self.n_features),
        }
        arrays = {"dual_coef": self.dual_coef}
        if self.vectors is None:
            return scalars | {"vectors": "none"}, arrays
        if sp.issparse(self.vectors):
            parts = {name: getattr(self.vectors, name) for name in ("data", "indices", "indptr")}
            return scalars | {"vectors": "csr"}, arrays | parts
        return scalars | {"vectors": "dense"}, arrays | {"vectors": np.asarray(self.vectors)}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        kind, kernel = scalars.pop("vectors"), kernel_from_dict(scalars.pop("kernel"))
        vectors: Features | None = arrays.pop("vectors") if kind == "dense" else None
        if kind == "csr":
            parts = tuple(arrays.pop(name) for name in ("data", "indices", "indptr"))
            vectors = sp.csr_array(parts, shape=(parts[-1].size - 1, scalars["n_features"]))
        others: dict[str, Any] = scalars | arrays
        return cls(kernel=kernel, vectors=vectors, **others)


def is_constant(model: BinaryModel) -> bool:
    """Whether all coefficients are exactly 0, so that every score is the intercept."""
    coefficients = model.dual_coef if isinstance(model, KernelModel) else model.coef
    return not coefficients.any()


@dataclass(frozen=True, eq=False)
class Members(Sequence[BinaryModel]):
    """Binary models in one array: `table` has a column per model, of the coefficients of the common
    support vectors, or w; `supports` has the rows of each linear model, or those of the vectors.
    A table of coefficients that are mostly zero is stored as sparse rows.
    """

    kernel: Kernel | None
    vectors: Features | None
    table: Any
    intercepts: Floats
    supports: Sequence[NDArray[np.intp]]
    classes: Sequence[Any]
    n_features: int
    _made: dict[int, BinaryModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table: Any = self.table
        if self.kernel is not None:
            stored = table.nnz if sp.issparse(table) else np.count_nonzero(table)
            rare = stored <= RARE * math.prod(table.shape)
            table = sp.csr_array(table) if rare else dense(table)
        object.__setattr__(self, "table", table if sp.issparse(table) else frozen(table))
        object.__setattr__(self, "intercepts", frozen(self.intercepts))

    @cached_property
    def _columns(self) -> Any:
        return sp.csc_array(self.table)

    def __len__(self) -> int:
        return int(self.intercepts.size)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(len(self))))
        place = range(len(self))[index]
        if place not in self._made:
            self._made[place] = self._model(place)
        return self._made[place]

    @property
    def support(self) -> NDArray[np.intp]:
        """Rows of the training data that any of the models rests on."""
        return np.unique(np.concatenate(list(self.supports)))

    def _model(self, place: int) -> BinaryModel:
        intercept, classes = self.intercepts[place], self.classes[place]
        if self.kernel is None:
            return LinearModel(self.table[:, place], intercept, classes, self.supports[place])
        own = slice(*self._columns.indptr[place : place + 2])
        rows, column = self._columns.indices[own], self._columns.data[own]
        if not rows.size:
            rows, column = np.zeros(1, dtype=np.intp), np.zeros(1)
        vectors = None if self.vectors is None else self.vectors[rows]
        support = self.supports[0][rows]
        return KernelModel(
            self.kernel, vectors, column, intercept, classes, support, self.n_features
        )

    def scores(self, X: Any) -> Floats:
        """Return the score of each row by each model, shape (m, models): the kernel is evaluated
        once for all.
        """
        X = check_features(X, n_features=self.n_features)
        sums = (
            np.asarray(X @ self.table)
            if self.kernel is None
            else kernel_sums(self.kernel, self.vectors, self.supports[0], self.table, X)
        )
        return sums + self.intercepts


def joined(supports: Sequence[Any], coefficients: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Return the common support of models, the places there of all their rows, and their table."""
    support, at = np.unique(np.concatenate(supports), return_inverse=True)
    model_of = np.repeat(np.arange(len(supports)), [rows.size for rows in supports])
    entries = np.concatenate(coefficients), (at, model_of)
    return support, at, sp.coo_array(entries, shape=(support.size, len(supports)))


def packed(members: Sequence[Any]) -> Members | None:
    """Return models in one array, None if they do not share a kernel or the rows behind them."""
    if isinstance(members, Members):
        return members
    intercepts = np.array([member.intercept for member in members])
    classes = [member.classes for member in members]
    supports = [member.support for member in members]
    first = members[0]
    if all(isinstance(member, LinearModel) for member in members):
        if len({member.coef.size for member in members}) > 1:
            return None
        coef = np.stack([member.coef for member in members], axis=1)
        return Members(None, None, coef, intercepts, supports, classes, coef.shape[0])
    alike = all(
        isinstance(member, KernelModel)
        and member.kernel == first.kernel
        and member.n_features == first.n_features
        and not sp.issparse(member.vectors)
        and np.unique(member.support).size == member.support.size
        for member in members
    )
    if not alike:
        return None
    support, at, table = joined(supports, [member.dual_coef for member in members])
    vectors: Any = None
    if first.vectors is not None:
        every = np.concatenate([member.vectors for member in members])
        vectors = np.empty((support.size, every.shape[1]))
        vectors[at] = every
        if not np.array_equal(vectors[at], every):
            return None
    return Members(first.kernel, vectors, table, intercepts, [support], classes, first.n_features)


def sums_by_class(later: NDArray[Any], earlier: NDArray[Any]) -> Floats:
    """Return sums over pairs k < l of `later` for l and `earlier` for k, per class."""
    pairs = later.shape[1]
    c = (1 + math.isqrt(1 + 8 * pairs)) // 2
    sums = np.zeros((c, later.shape[0]))
    later, earlier = np.ascontiguousarray(later.T), np.ascontiguousarray(earlier.T)
    for row, (k, other) in enumerate(combinations(range(c), 2)):
        sums[other] += later[row]
        sums[k] += earlier[row]
    return sums.T


def pair_votes(scores: Floats) -> Floats:
    """Return the votes for each class, shape (m, c), from scores of shape (m, c(c−1)/2)."""
    later = scores > 0
    return sums_by_class(later, ~later)


def class_scores(scores: Floats, scheme: str) -> Floats:
    """Return what :meth:`OneVsModel.decision_function` does, from the scores of the members."""
    if scheme == "ovr":
        return scores
    sums = sums_by_class(scores, -scores)
    return pair_votes(scores) + sums / (3.0 * (np.abs(sums) + 1.0))


@dataclass(frozen=True, eq=False)
class MulticlassModel(LinearScores):
    """A linear score ``w_k'x + b_k`` for each class; the class with the largest is predicted.

    Attributes
    ----------
    coef : ndarray of shape (d, c)
        Column k is :math:`w_k`.
    intercept : ndarray of shape (c,)
        The biases.
    classes : ndarray of shape (c,)
    support : ndarray of int
        Rows of the training data with a non-zero multiplier.
    """

    coef: Floats
    intercept: Floats
    classes: NDArray[Any]
    support: NDArray[np.intp]

    _arrays: ClassVar[tuple[str, ...]] = ("coef", "intercept", "classes", "support")


@dataclass(frozen=True, eq=False)
class OneVsModel(Model):
    r"""Binary models that decide among several classes together.

    One against one (``"ovo"``): a model for each pair k < l of classes, in lexicographic order,
    whose score :math:`f_{kl}` is positive for class l. Each model gives a vote; a tie is decided by
    the sum :math:`s_k` of a class's scores, and if these are equal too, by the order of the
    classes. One against the rest (``"ovr"``): a model for each class, whose score is positive for
    that class; the largest score decides, of equal ones the first.

    Attributes
    ----------
    scheme : "ovo" or "ovr"
    members : sequence of LinearModel or KernelModel
        Their ``support`` counts rows of all training data.
    classes : ndarray of shape (c,)
    support : ndarray of int
        Rows of the training data that any of the members rests on.
    """

    scheme: str
    members: Sequence[BinaryModel]
    classes: NDArray[Any]
    support: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        check_choice(self.scheme, "scheme", ("ovo", "ovr"))
        c = len(self.classes)
        expected = c * (c - 1) // 2 if self.scheme == "ovo" else c
        if c < 2 or len(self.members) != expected:
            raise DataError(f"members must hold {expected} models, got {len(self.members)}")
        object.__setattr__(self, "classes", frozen(self.classes))
        if isinstance(self.members, Members):
            union = self.members.support
        else:
            object.__setattr__(self, "members", tuple(self.members))
            union = np.unique(np.concatenate([member.support for member in self.members]))
        object.__setattr__(self, "support", frozen(union))

    @cached_property
    def _together(self) -> Members | None:
        """The members in arrays, where they can be."""
        return packed(self.members)

    def _described(self) -> dict[str, str]:
        kinds = dict.fromkeys(type(member).__name__ for member in self.members)
        scheme = "one against one" if self.scheme == "ovo" else "one against the rest"
        members = f"{len(self.members)} × {listed(kinds)}"
        return {"Scheme": scheme, "Members": members, **super()._described()}

    def without_support(self) -> Self:
        """Return the models without the rows they rest on."""
        return replace(self, members=tuple(member.without_support() for member in self.members))

    def member_scores(self, X: Any) -> Floats:
        """Return the score of each row by each member, shape (m, c(c−1)/2) or (m, c).

        Members with the same kernel evaluate it once, between the rows and the support vectors of
        all of them.
        """
        X = check_features(X)
        if self._together is not None:
            return self._together.scores(X)
        return np.stack([member.decision_function(X) for member in self.members], axis=1)

    def decision_function(self, X: Any) -> Floats:
        r"""Return a score of each row for each class; the largest decides.

        One against one, it is the number of votes plus :math:`s_k/(3(|s_k|+1))`, which is less than
        a third of a vote and grows with :math:`s_k`, as in scikit-learn.
        """
        return class_scores(self.member_scores(X), self.scheme)

    def votes(self, X: Any) -> Floats:
        """Return the votes of each row for each class, shape (m, c), of a model of pairs."""
        if self.scheme != "ovo":
            raise DataError("votes are those of pairs of classes; this model has one score a class")
        return pair_votes(self.member_scores(X))

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        described: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for index, member in enumerate(self.members):
            scalars, own = member._state()
            kind = type(member).__name__
            described.append({"type": kind, "scalars": scalars, "arrays": sorted(own)})
            own["support"] = member.support
            arrays |= {f"member{index}_{name}": array for name, array in own.items()}
        return {"scheme": self.scheme, "members": described}, arrays

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        classes, scheme = arrays["classes"], scalars["scheme"]
        # What the members decide between follows from the scheme.
        sides = [*combinations(classes, 2)] if scheme == "ovo" else [(0, 1)] * len(classes)
        members: list[Any] = []
        for index, (member, side) in enumerate(zip(scalars["members"], sides, strict=True)):
            own = {name: arrays[f"member{index}_{name}"] for name in [*member["arrays"], "support"]}
            own["classes"] = np.array(side, dtype=classes.dtype if scheme == "ovo" else np.intp)
            members.append(_TYPES[member["type"]]._from_state(member["scalars"], own))
        return cls(scheme=scheme, members=tuple(members), classes=classes)


_TYPES: dict[str, type[Model]] = {
    cls.__name__: cls for cls in (LinearModel, KernelModel, MulticlassModel, OneVsModel)
}


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model written by :meth:`Model.save`.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Model
        Predicts the same numbers as the model that was saved, to the last bit.

    Raises
    ------
    DataError
        If the file does not exist, is not a model file, was written by a newer format, or is
        corrupted.

    Examples
    --------
    >>> import svmcvx as sx
    >>> sx.PSVMClassifier().fit([[0.0], [1.0]], ["a", "b"]).model_.save("machine.npz")
    >>> sx.load_model("machine.npz").predict([[0.2]]).item()
    'a'
    """
    what = "a svmcvx model file"
    with read_archive(path, what) as archive:
        if "header" not in archive.shapes:
            raise DataError(f"{path} is not {what}: it has no header")
        arrays = {name: archive[name] for name in archive.shapes}
        header = json.loads(str(arrays.pop("header")))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{path} is not {what}: its header does not say so")
    if (version := header.get("version")) != FORMAT_VERSION:
        raise DataError(f"{path} has the format {version!r}, not {FORMAT_VERSION}; upgrade svmcvx")
    scalars: Any = header.get("scalars")
    if _digest(arrays, scalars) != header.get("digest"):
        raise DataError(f"{path} is corrupted: contents do not match their digest; save it again")
    try:
        if header["object_labels"]:
            arrays["classes"] = arrays["classes"].astype(object)
        return _TYPES[header["type"]]._from_state(scalars, arrays)
    except (KeyError, TypeError, ValueError, IndexError):
        raise DataError(f"{path} does not describe a model of this svmcvx; upgrade it") from None
