r"""Models in the text files of LIBSVM and LIBLINEAR.

LIBSVM stores, for classes :math:`c_0, c_1, …` in the order of its line ``label``, one machine a
pair :math:`i < j`, with the score :math:`\sum_s v_s k(x, x_s) - \rho`, positive for :math:`c_i`.
LIBLINEAR stores the columns of one matrix: for two classes one column, positive for the first
label, and for more one a class, against the rest or jointly. Support vectors have eight digits in
such a file: what is read is the model of the file, which may differ from the model that was
trained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel

__all__ = ["TextModel", "is_text_model", "read_text_model"]

Floats: TypeAlias = NDArray[np.float64]

FIRST_WORDS = ("svm_type", "solver_type")
NO_ROWS = np.zeros(0, dtype=np.intp)
CLASSIFIERS = (
    "L2R_L2LOSS_SVC_DUAL",
    "L2R_L2LOSS_SVC",
    "L2R_L1LOSS_SVC_DUAL",
    "MCSVM_CS",
    "L1R_L2LOSS_SVC",
)


class TextModel(NamedTuple):
    """A model of a file, and what the file says of the data of its problem."""

    model: Model
    key: tuple[Any, ...]
    classes: NDArray[Any]
    bias: float | None


def is_text_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a model file of LIBSVM or LIBLINEAR does."""
    with Path(path).open("rb") as stream:
        return stream.read(16).split(b" ")[0].decode("ascii", "replace") in FIRST_WORDS


def read_text_model(path: str | os.PathLike[str], n_features: int) -> list[TextModel]:
    """Return the models of a file that LIBSVM or LIBLINEAR wrote."""
    path = Path(path)
    try:
        lines = iter(path.read_text(encoding="ascii").splitlines())
        header: dict[str, list[str]] = {}
        for line in lines:
            name, *values = line.split()
            if name in ("SV", "w"):
                break
            header[name] = values
        if "svm_type" in header:
            return list(_libsvm(header, list(lines), n_features))
        if "solver_type" in header:
            return list(_liblinear(header, list(lines), n_features))
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (ValueError, KeyError, IndexError, UnicodeError) as error:
        raise DataError(
            f"{path} is not a complete model file of LIBSVM or LIBLINEAR ({type(error).__name__}:"
            f" {error})"
        ) from None
    raise DataError(
        f"{path} is no model file of LIBSVM or LIBLINEAR: these begin with svm_type or solver_type"
    )


def _labels(header: dict[str, list[str]]) -> NDArray[Any]:
    """Return the labels in the order of the file."""
    return np.array([int(label) for label in header["label"]])


def _libsvm(header: dict[str, list[str]], lines: list[str], n_features: int) -> Iterator[TextModel]:
    """Yield the machines of pairs of classes."""
    if header["svm_type"] not in (["c_svc"], ["nu_svc"]):
        raise DataError(
            f"the file has a model of type {header['svm_type'][0]}; those of c_svc and nu_svc"
            " classify"
        )
    labels, rho = _labels(header), np.array(header["rho"], dtype=float)
    kernel = _kernel(header)
    counts = np.array(header["nr_sv"], dtype=int)
    first = np.concatenate([[0], np.cumsum(counts)])
    if len(lines) != first[-1]:
        raise DataError(f"the file has {len(lines)} support vectors, and its head says {first[-1]}")
    coefficients = np.array(
        [line.split()[: labels.size - 1] for line in lines], dtype=float
    ).reshape(len(lines), -1)
    vectors = _rows([line.split()[labels.size - 1 :] for line in lines], n_features)
    pair = 0
    for i in range(labels.size):
        for j in range(i + 1, labels.size):
            of_i, of_j = np.arange(first[i], first[i + 1]), np.arange(first[j], first[j + 1])
            rows = np.concatenate([of_i, of_j])
            v = np.concatenate([coefficients[of_i, j - 1], coefficients[of_j, i]])
            # Models have positive scores for the class that sorts last.
            sign = 1.0 if labels[i] > labels[j] else -1.0
            classes = np.sort(labels[[i, j]])
            model: Model
            if isinstance(kernel, Linear):
                w = np.asarray(v @ vectors[rows]).ravel()
                model = LinearModel(
                    coef=sign * w,
                    intercept=-sign * float(rho[pair]),
                    classes=classes,
                    support=NO_ROWS,
                )
            else:
                model = KernelModel(
                    kernel=kernel,
                    vectors=vectors[rows].toarray(),
                    dual_coef=sign * v,
                    intercept=-sign * float(rho[pair]),
                    classes=classes,
                    support=rows,
                    n_features=n_features,
                )
            yield TextModel(model, tuple(classes.tolist()), np.sort(labels), None)
            pair += 1


def _kernel(header: dict[str, list[str]]) -> Kernel:
    """Return the kernel of a file of LIBSVM."""
    kind = header["kernel_type"][0]
    gamma = float(header.get("gamma", ["nan"])[0])
    coef0 = float(header.get("coef0", ["nan"])[0])
    if kind == "linear":
        return Linear()
    if kind == "rbf":
        return RBF(gamma)
    if kind == "polynomial":
        return Polynomial(degree=int(header["degree"][0]), gamma=gamma, coef0=coef0)
    if kind == "sigmoid":
        return Sigmoid(gamma=gamma, coef0=coef0)
    raise DataError(
        f"the file has a {kind} kernel; those that can be read are linear, polynomial, rbf and"
        " sigmoid"
    )


def _rows(entries: list[list[str]], n_features: int) -> sp.csr_array:
    """Return rows of ``index:value``, whose indices begin at 1."""
    pairs = [[entry.split(":") for entry in row] for row in entries]
    columns = [int(column) - 1 for row in pairs for column, _ in row]
    if columns and not 0 <= min(columns) <= max(columns) < n_features:
        raise DataError(
            f"the model has a feature {max(columns) + 1}, and X has {n_features} columns; pass the"
            " data it was trained on"
        )
    values = [float(value) for row in pairs for _, value in row]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in pairs])])
    return sp.csr_array((values, columns, ends), shape=(len(pairs), n_features))


def _liblinear(
    header: dict[str, list[str]], lines: list[str], n_features: int
) -> Iterator[TextModel]:
    """Yield the one machine of two classes, those of each class against the rest, or the one of all
    classes.
    """
    kind = header["solver_type"][0]
    if kind not in CLASSIFIERS:
        raise DataError(
            f"the file has a model of type {kind}; those that can be read are"
            f" {', '.join(CLASSIFIERS)}"
        )
    labels, bias = _labels(header), float(header["bias"][0])
    W = np.array([line.split() for line in lines], dtype=float)
    d = int(header["nr_feature"][0])
    if W.shape[0] != d + (bias >= 0):
        raise DataError(
            f"the file has {W.shape[0]} rows of coefficients, and its head says {d + (bias >= 0)}"
        )
    if d > n_features:
        raise DataError(
            f"the model has {d} features, and X has {n_features} columns; pass the data it was"
            " trained on"
        )
    coef = np.zeros((n_features, W.shape[1]))
    coef[:d] = W[:d]
    intercepts = W[d] * bias if bias >= 0 else np.zeros(W.shape[1])
    bias, order = max(bias, 0.0), np.argsort(labels)
    classes = labels[order]
    if kind == "MCSVM_CS":
        several = MulticlassModel(
            coef=coef[:, order], intercept=intercepts[order], classes=classes, support=NO_ROWS
        )
        yield TextModel(several, (), classes, bias)
        return
    if labels.size == 2:
        sign = 1.0 if labels[0] > labels[1] else -1.0
        model = LinearModel(
            coef=sign * coef[:, 0],
            intercept=sign * float(intercepts[0]),
            classes=classes,
            support=NO_ROWS,
        )
        yield TextModel(model, tuple(classes.tolist()), classes, bias)
        return
    for k, label in enumerate(labels.tolist()):
        one = LinearModel(
            coef=coef[:, k],
            intercept=float(intercepts[k]),
            classes=np.array([False, True]),
            support=NO_ROWS,
        )
        yield TextModel(one, (label,), classes, bias)
