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
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file

from svmcvx.errors import DataError
from svmcvx.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel

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
    """A model of a file, the classes of its problem, and the value of its constant feature."""

    model: Model
    key: tuple[Any, ...]
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


def _libsvm(header: dict[str, list[str]], lines: list[str], n_features: int) -> Iterator[TextModel]:
    if header["svm_type"] not in (["c_svc"], ["nu_svc"]):
        raise DataError(
            f"the file has a model of type {header['svm_type'][0]}; those of c_svc and nu_svc"
            " classify"
        )
    labels, rho = np.array(header["label"], dtype=int), np.array(header["rho"], dtype=float)
    first = np.cumsum([0, *map(int, header["nr_sv"])])
    if len(lines) != first[-1]:
        raise DataError(f"the file has {len(lines)} support vectors, and its head says {first[-1]}")
    width = labels.size - 1
    words = [line.split() for line in lines]
    coefficients = np.array([row[:width] for row in words], dtype=float).reshape(-1, width)
    text = "\n".join(" ".join(["0", *row[width:]]) for row in words)
    vectors, _ = load_svmlight_file(BytesIO(text.encode()), n_features=n_features, zero_based=False)
    kernel = _kernel(header)
    for pair, (i, j) in enumerate(combinations(range(labels.size), 2)):
        of_i, of_j = np.arange(first[i], first[i + 1]), np.arange(first[j], first[j + 1])
        rows = np.concatenate([of_i, of_j])
        # Models have positive scores for the class that sorts last.
        sign = 1.0 if labels[i] > labels[j] else -1.0
        v = sign * np.concatenate([coefficients[of_i, j - 1], coefficients[of_j, i]])
        classes, b = np.sort(labels[[i, j]]), -sign * float(rho[pair])
        if isinstance(kernel, Linear):
            model: Model = LinearModel(vectors[rows].T @ v, b, classes, NO_ROWS)
        else:
            model = KernelModel(
                kernel=kernel,
                vectors=vectors[rows].toarray(),
                dual_coef=v,
                intercept=b,
                classes=classes,
                support=rows,
                n_features=n_features,
            )
        yield TextModel(model, tuple(classes.tolist()), None)


def _kernel(header: dict[str, list[str]]) -> Kernel:
    kind = header["kernel_type"][0]
    number = {name: float(header[name][0]) for name in ("gamma", "coef0") if name in header}
    if kind == "linear":
        return Linear()
    if kind == "rbf":
        return RBF(number["gamma"])
    if kind == "polynomial":
        return Polynomial(degree=int(header["degree"][0]), **number)
    if kind == "sigmoid":
        return Sigmoid(**number)
    raise DataError(
        f"the file has a {kind} kernel; those that can be read are linear, polynomial, rbf and"
        " sigmoid"
    )


def _liblinear(
    header: dict[str, list[str]], lines: list[str], n_features: int
) -> Iterator[TextModel]:
    """Yield the machine of two classes, each class's against the rest, or one of all classes."""
    kind, bias = header["solver_type"][0], float(header["bias"][0])
    if kind not in CLASSIFIERS:
        raise DataError(
            f"the file has a model of type {kind}; those that can be read are"
            f" {', '.join(CLASSIFIERS)}"
        )
    W, d = np.array([line.split() for line in lines], dtype=float), int(header["nr_feature"][0])
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
    labels, bias = np.array(header["label"], dtype=int), max(bias, 0.0)
    order = np.argsort(labels)
    classes = labels[order]
    if kind == "MCSVM_CS":
        several = MulticlassModel(coef[:, order], intercepts[order], classes, NO_ROWS)
        yield TextModel(several, (), bias)
    elif labels.size == 2:
        sign = 1.0 if labels[0] > labels[1] else -1.0
        model = LinearModel(sign * coef[:, 0], sign * float(intercepts[0]), classes, NO_ROWS)
        yield TextModel(model, tuple(classes.tolist()), bias)
    else:
        for w, b, label in zip(coef.T, intercepts.tolist(), labels.tolist(), strict=True):
            one = LinearModel(w, b, np.array([False, True]), NO_ROWS)
            yield TextModel(one, (label,), bias)
