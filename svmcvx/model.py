"""Models: what a solver returns and a user predicts with.

A model is immutable, knows the labels it was trained on, and is stored without pickle: one ``.npz`` file whose
member ``header`` is a JSON text (format, version, type, scalars, kernel, digest of the arrays).
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import accumulated_rounding
from svmcvx.data import BinaryData, Features, check_choice, check_features
from svmcvx.errors import DataError
from svmcvx.kernels import Kernel, Precomputed, kernel_from_dict, row_norms
from svmcvx.system.files import written_whole

__all__ = ["BinaryModel", "KernelModel", "LinearModel", "Model", "MulticlassModel", "OneVsModel", "load_model"]

Floats: TypeAlias = NDArray[np.float64]

FORMAT = "svmcvx-model"
FORMAT_VERSION = 1
BLOCK_ENTRIES = 2**24  # entries of one kernel block: 128 MiB in float64


def frozen(array: Any) -> NDArray[Any]:
    """Return a read-only contiguous copy."""
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy


class Model(ABC):
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

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of the rows of `X`."""

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row of `X`."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return scalars (for JSON) and arrays that describe the model."""

    @classmethod
    @abstractmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Inverse of :meth:`_state`."""

    @property
    def n_support(self) -> int:
        """Number of training observations that the model rests on."""
        return int(self.support.size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; :func:`load_model` reads it.

        Parameters
        ----------
        path : path-like
            File to write, by convention ``*.npz``; the name is taken as it is.

        Raises
        ------
        DataError
            If the model holds what cannot be stored without pickle (a callable kernel, labels that are neither
            numbers nor strings), or the file cannot be written.
        """
        scalars, arrays = self._state()
        arrays = {**arrays, "classes": _storable_labels(self.classes), "support": np.asarray(self.support)}
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "type": type(self).__name__,
            "object_labels": bool(self.classes.dtype.kind == "O"),
            "scalars": scalars,
            "digest": _digest(arrays, scalars),
        }
        try:
            with written_whole(path) as stream:
                np.savez(stream, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise DataError(f"{path} cannot be written ({error.strerror}); name a file in an existing folder") from None


def _storable_labels(classes: NDArray[Any]) -> NDArray[Any]:
    if classes.dtype.kind != "O":
        return classes
    # A column of a table comes as objects of one type.
    for kind, stored in ((str, str), ((bool, np.bool_), bool), ((int, np.integer), np.int64)):
        if all(isinstance(label, kind) for label in classes):
            try:
                return classes.astype(stored)
            except OverflowError:
                break
    raise DataError("labels that are neither numbers nor strings cannot be stored; encode them before training")


def _digest(arrays: dict[str, NDArray[Any]], scalars: dict[str, Any]) -> str:
    sha = hashlib.sha256(json.dumps(scalars, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


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
        If the file does not exist, is not a model file, was written by a newer format, or is corrupted.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "header" not in archive:
                raise DataError(f"{path} is not a svmcvx model file: it has no header")
            header = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; pass the path that save() was given") from None
    except DataError:
        raise
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}); pass the path that save() was given"
        ) from None
    except (ValueError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile):
        raise DataError(f"{path} is not a svmcvx model file or is corrupted; save the model again") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{path} is not a svmcvx model file: its header does not say so")
    if header.get("version") != FORMAT_VERSION:
        raise DataError(
            f"{path} has model format {header.get('version')!r}, this svmcvx reads {FORMAT_VERSION}; upgrade svmcvx"
        )
    scalars = header.get("scalars")
    cls = _TYPES.get(header.get("type", ""))
    if cls is None or not isinstance(scalars, dict) or not {"classes", "support"} <= arrays.keys():
        raise DataError(
            f"{path} does not describe a model that this svmcvx knows; upgrade svmcvx or save the model again"
        )
    if _digest(arrays, scalars) != header.get("digest"):
        raise DataError(f"{path} is corrupted: its contents do not match their digest; save the model again")
    if header.get("object_labels"):
        arrays["classes"] = arrays["classes"].astype(object)
    return cls._from_state(scalars, arrays)


class BinaryModel(Model):
    """A model of two classes with one score an observation."""

    intercept: float

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``classes[1]`` where the score is positive, else ``classes[0]``."""
        labels: NDArray[Any] = self.classes[(self.decision_function(X) > 0).astype(np.intp)]
        return labels

    @abstractmethod
    def squared_norm(self, data: BinaryData) -> tuple[float, float]:
        r"""Return :math:`\|w\|^2` in feature space and an estimate of its rounding error.

        Parameters
        ----------
        data : BinaryData
            The training data; used by precomputed kernels only, which cannot be evaluated without it.
        """

    @abstractmethod
    def scores(self, X: Features) -> tuple[Floats, Floats]:
        """Return the scores of validated rows and estimates of their rounding errors."""


@dataclass(frozen=True, eq=False)
class LinearModel(BinaryModel):
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

    def __post_init__(self) -> None:
        for name in ("coef", "classes", "support"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "intercept", float(self.intercept))

    def squared_norm(self, data: BinaryData) -> tuple[float, float]:
        r"""Return :math:`\|w\|^2` and an estimate of its rounding error."""
        value = float(self.coef @ self.coef)
        return value, accumulated_rounding(self.coef.size) * value

    def decision_function(self, X: Any) -> Floats:
        """Return ``X w + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m,)
        """
        X = check_features(X, n_features=self.coef.size)
        return np.asarray(X @ self.coef) + self.intercept

    def scores(self, X: Features) -> tuple[Floats, Floats]:
        """Return the scores and estimates of their rounding errors."""
        magnitude = row_norms(X) * float(np.linalg.norm(self.coef)) + abs(self.intercept)
        return self.decision_function(X), accumulated_rounding(self.coef.size) * magnitude

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"intercept": self.intercept}, {"coef": self.coef}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(
            coef=arrays["coef"], intercept=scalars["intercept"], classes=arrays["classes"], support=arrays["support"]
        )


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
        Columns that new data must have: d, or the number of training observations for a precomputed kernel.
    """

    kernel: Kernel
    vectors: Features | None
    dual_coef: Floats
    intercept: float
    classes: NDArray[Any]
    support: NDArray[np.intp]
    n_features: int

    def __post_init__(self) -> None:
        for name in ("dual_coef", "classes", "support"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "intercept", float(self.intercept))
        if self.vectors is not None:
            kept = self.vectors.copy() if sp.issparse(self.vectors) else frozen(self.vectors)
            object.__setattr__(self, "vectors", kept)
        elif not isinstance(self.kernel, Precomputed):
            raise DataError("vectors is None, which only a precomputed kernel allows; pass the support vectors")

    def squared_norm(self, data: BinaryData) -> tuple[float, float]:
        r"""Return :math:`\|w\|^2 = v'Kv` and an estimate of its rounding error."""
        if self.vectors is None:
            sums, magnitudes = self._combine(data.X[np.searchsorted(data.index, self.support)])
        else:
            sums, magnitudes = self._combine(self.vectors)
        error = accumulated_rounding(self.support.size) * float(np.abs(self.dual_coef) @ magnitudes)
        return max(float(self.dual_coef @ sums), 0.0), error

    def decision_function(self, X: Any) -> Floats:
        """Return the scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            For a precomputed kernel the matrix ``k(x_i, x_j)`` of shape (m, n) between the new observations and
            *all* training observations.

        Returns
        -------
        ndarray of shape (m,)
        """
        X = check_features(X, n_features=self.n_features)
        return self._combine(X, magnitudes=False)[0] + self.intercept

    def scores(self, X: Features) -> tuple[Floats, Floats]:
        """Return the scores and estimates of their rounding errors."""
        sums, magnitudes = self._combine(X)
        return sums + self.intercept, accumulated_rounding(self.support.size) * (magnitudes + abs(self.intercept))

    def _combine(self, X: Features, *, magnitudes: bool = True) -> tuple[Floats, Floats]:
        """Return K v and, if asked for, |K||v|, with K between `X` and the support vectors, block by block."""
        v = self.dual_coef
        sums, absolute = np.zeros(X.shape[0]), np.zeros(X.shape[0])
        rows = max(1, BLOCK_ENTRIES // max(1, v.size))
        for start in range(0, X.shape[0], rows):
            part = slice(start, start + rows)
            block = X[part][:, self.support] if self.vectors is None else self.kernel(X[part], self.vectors)
            sums[part] = block @ v
            if magnitudes:
                absolute[part] = abs(block) @ np.abs(v)
        return sums, absolute

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        scalars = {
            "intercept": self.intercept,
            "kernel": self.kernel.to_dict(),
            "n_features": int(self.n_features),
            "vectors": "none" if self.vectors is None else "csr" if sp.issparse(self.vectors) else "dense",
        }
        arrays: dict[str, NDArray[Any]] = {"dual_coef": self.dual_coef}
        if self.vectors is None:
            return scalars, arrays
        if sp.issparse(self.vectors):
            return scalars, arrays | {name: getattr(self.vectors, name) for name in ("data", "indices", "indptr")}
        return scalars, arrays | {"vectors": np.asarray(self.vectors)}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        vectors: Features | None = None
        if scalars["vectors"] == "csr":
            shape = (arrays["indptr"].size - 1, scalars["n_features"])
            vectors = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        elif scalars["vectors"] == "dense":
            vectors = arrays["vectors"]
        return cls(
            kernel=kernel_from_dict(scalars["kernel"]),
            vectors=vectors,
            dual_coef=arrays["dual_coef"],
            intercept=scalars["intercept"],
            classes=arrays["classes"],
            support=arrays["support"],
            n_features=scalars["n_features"],
        )


@dataclass(frozen=True, eq=False)
class MulticlassModel(Model):
    """One linear score a class, ``w_k'x + b_k``; the largest decides.

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

    def __post_init__(self) -> None:
        for name in ("coef", "intercept", "classes", "support"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def decision_function(self, X: Any) -> Floats:
        """Return the scores ``X W + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m, c)
        """
        X = check_features(X, n_features=self.coef.shape[0])
        return np.asarray(X @ self.coef) + self.intercept

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score; of equal scores the first."""
        labels: NDArray[Any] = self.classes[np.argmax(self.decision_function(X), axis=1)]
        return labels

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"coef": self.coef, "intercept": self.intercept}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(
            coef=arrays["coef"], intercept=arrays["intercept"], classes=arrays["classes"], support=arrays["support"]
        )


@dataclass(frozen=True, eq=False)
class OneVsModel(Model):
    r"""Binary models that decide among several classes together.

    One against one (``"ovo"``): a model for each pair k < l of classes, in lexicographic order, whose score
    :math:`f_{kl}` is positive for class l. Each model gives a vote; a tie is decided by the sum :math:`s_k` of a class's
    scores, and if these are equal too, by the order of the classes. One against the rest (``"ovr"``): a model for each
    class, whose score is positive for that class; the largest score decides, of equal ones the first.

    Attributes
    ----------
    scheme : "ovo" or "ovr"
    members : tuple of LinearModel or KernelModel
        Their ``support`` counts rows of all training data.
    classes : ndarray of shape (c,)
    support : ndarray of int
        Rows of the training data that any of the members rests on.
    """

    scheme: str
    members: tuple[BinaryModel, ...]
    classes: NDArray[Any]
    support: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        check_choice(self.scheme, "scheme", ("ovo", "ovr"))
        c = len(self.classes)
        expected = c * (c - 1) // 2 if self.scheme == "ovo" else c
        if c < 2 or len(self.members) != expected:
            raise DataError(f"members must hold {expected} models for {c} classes, got {len(self.members)}")
        object.__setattr__(self, "classes", frozen(self.classes))
        object.__setattr__(self, "members", tuple(self.members))
        union = np.unique(np.concatenate([member.support for member in self.members]))
        object.__setattr__(self, "support", frozen(union))

    def member_scores(self, X: Any) -> Floats:
        """Return the score of each row by each member, shape (m, c(c−1)/2) or (m, c)."""
        X = check_features(X)
        return np.stack([member.decision_function(X) for member in self.members], axis=1)

    def decision_function(self, X: Any) -> Floats:
        r"""Return a score of each row for each class; the largest decides.

        One against one, it is the number of votes plus :math:`s_k/(3(|s_k|+1))`, which is less than a third of a vote and
        grows with :math:`s_k`, as in scikit-learn.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m, c)
        """
        scores = self.member_scores(X)
        if self.scheme == "ovr":
            return scores
        votes, sums = np.zeros((2, scores.shape[0], len(self.classes)))
        for (k, other), score in zip(combinations(range(len(self.classes)), 2), scores.T, strict=True):
            votes[:, other] += score > 0
            votes[:, k] += score <= 0
            sums[:, other] += score
            sums[:, k] -= score
        return votes + sums / (3.0 * (np.abs(sums) + 1.0))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score; of equal scores the first."""
        labels: NDArray[Any] = self.classes[np.argmax(self.decision_function(X), axis=1)]
        return labels

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        described: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for index, member in enumerate(self.members):
            scalars, own = member._state()
            described.append({"type": type(member).__name__, "scalars": scalars, "arrays": sorted(own)})
            own = own | {"support": member.support}
            arrays |= {f"member{index}_{name}": array for name, array in own.items()}
        return {"scheme": self.scheme, "members": described}, arrays

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        classes, scheme = arrays["classes"], scalars["scheme"]
        # What the members decide between follows from the scheme.
        sides = [*combinations(classes, 2)] if scheme == "ovo" else [(0, 1)] * len(classes)
        members = []
        for index, (member, side) in enumerate(zip(scalars["members"], sides, strict=True)):
            own = {name: arrays[f"member{index}_{name}"] for name in [*member["arrays"], "support"]}
            own["classes"] = np.array(side, dtype=classes.dtype if scheme == "ovo" else np.intp)
            members.append(_TYPES[member["type"]]._from_state(member["scalars"], own))
        return cls(scheme=scheme, members=tuple(members), classes=classes)  # type: ignore[arg-type]


_TYPES: dict[str, type[Model]] = {cls.__name__: cls for cls in (LinearModel, KernelModel, MulticlassModel, OneVsModel)}
