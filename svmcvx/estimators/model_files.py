r"""Models of coefficients, and those in the text files of LIBSVM and LIBLINEAR.

LIBSVM stores, for classes :math:`c_0, c_1, …` in the order of its line ``label``, one machine a
pair :math:`i < j`, with the score :math:`\sum_s v_s k(x, x_s) - \rho`, positive for :math:`c_i`.
LIBLINEAR stores the columns of one matrix: for two classes one column, positive for the first
label, and for more one a class, against the rest or jointly. Support vectors have eight digits in
such a file: what is read is the model of the file, which may differ from the model that was
trained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from svmcvx.arrays import Floats
from svmcvx.data import Features, check_choice, check_features
from svmcvx.errors import DataError
from svmcvx.kernels import Kernel, Linear, as_kernel
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


# Kernels of LIBSVM that can be read, by the names here.
KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid"}


class TextModel(NamedTuple):
    """A model of a file, the classes of its problem (a pair, one against the rest, or none: all),
    and the value of its constant feature.
    """

    model: Model
    key: Any
    bias: float | None


def as_numbers(values: Any) -> Floats:
    """Return an array of doubles of an array, a sparse matrix or a tensor."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)


def of_arrays(parts: Mapping[str, Any], X: Any, classes: NDArray[Any], kernel: Any) -> Model:
    """Return the model of (dual) coefficients; `classes` is in the order of the model."""
    unknown = parts.keys() - {"coef", "dual_coef", "intercept", "vectors"}
    if unknown or ("coef" in parts) == ("dual_coef" in parts):
        raise DataError(
            "model must have coef or dual_coef, intercept, and perhaps vectors, got"
            f" {', '.join(map(str, parts))}"
        )
    linear = "coef" in parts
    coef = np.atleast_2d(as_numbers(parts["coef" if linear else "dual_coef"]))
    intercept = np.ravel(as_numbers(parts.get("intercept", 0.0)))
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise DataError("the coefficients and the intercept of the model must be finite numbers")
    d, several = X.shape[1], classes.size > 2
    vectors = X if "vectors" not in parts else check_features(parts["vectors"], n_features=d)
    expected = (classes.size if several else 1, d if linear else vectors.shape[0])
    if coef.shape != expected or intercept.size not in (1, expected[0]):
        raise DataError(
            f"the model has coefficients of shape {coef.shape} and {intercept.size} intercepts;"
            f" these data need {expected} and {expected[0]}"
        )
    order = np.argsort(classes)
    if several:
        if not linear:
            raise DataError(
                "dual coefficients of more than two classes are those of several problems; certify"
                " them pair by pair"
            )
        biases = np.broadcast_to(intercept, classes.shape)[order]
        return MulticlassModel(coef[order].T, biases, classes[order], NO_ROWS)
    # The score is positive for the class that sorts last.
    sign = 1.0 if order[1] == 1 else -1.0
    classes, b = classes[order], sign * float(intercept[0])
    if linear:
        return LinearModel(sign * coef[0], b, classes, NO_ROWS)
    return KernelModel(
        kernel=(as_kernel(kernel) or Linear()).resolve(X),
        vectors=vectors,
        dual_coef=sign * coef[0],
        intercept=b,
        classes=classes,
        support=np.arange(coef.shape[1]),
        n_features=d,
    )


def is_text_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a model file of LIBSVM or LIBLINEAR does."""
    with Path(path).open("rb") as stream:
        return stream.read(16).split(b" ")[0].decode("ascii", "replace") in FIRST_WORDS


def read_text_model(path: str | os.PathLike[str], X: Features) -> list[TextModel]:
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
            return list(_libsvm(header, list(lines), X))
        if "solver_type" in header:
            return list(_liblinear(header, list(lines), X))
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


def _libsvm(header: dict[str, list[str]], lines: list[str], X: Features) -> Iterator[TextModel]:
    check_choice(header["svm_type"][0], "svm_type", ("c_svc", "nu_svc"))
    labels, rho = np.array(header["label"], dtype=int), np.array(header["rho"], dtype=float)
    first = np.cumsum([0, *map(int, header["nr_sv"])])
    if len(lines) != first[-1]:
        raise DataError(f"the file has {len(lines)} support vectors, and its head says {first[-1]}")
    width = labels.size - 1
    words = [line.split() for line in lines]
    coefficients = np.array([row[:width] for row in words], dtype=float).reshape(-1, width)
    text = "\n".join(" ".join(["0", *row[width:]]) for row in words)
    file = BytesIO(text.encode())
    vectors, _ = load_svmlight_file(file, n_features=X.shape[1], zero_based=False)
    kernel = _kernel(header)
    for pair, (i, j) in enumerate(combinations(range(labels.size), 2)):
        of_i, of_j = np.arange(first[i], first[i + 1]), np.arange(first[j], first[j + 1])
        rows = np.concatenate([of_i, of_j])
        v = np.concatenate([coefficients[of_i, j - 1], coefficients[of_j, i]])
        own: dict[str, Any] = {"dual_coef": v, "vectors": vectors[rows].toarray()}
        if isinstance(kernel, Linear):
            own = {"coef": vectors[rows].T @ v}
        model = of_arrays({**own, "intercept": -rho[pair]}, X, labels[[j, i]], kernel)
        yield TextModel(model, tuple(model.classes.tolist()), None)


def _kernel(header: dict[str, list[str]]) -> Kernel:
    kind = check_choice(header["kernel_type"][0], "kernel_type", tuple(KERNELS))
    number = {name: float(header[name][0]) for name in ("gamma", "coef0") if name in header}
    degree = int(header.get("degree", ["3"])[0])
    return as_kernel(KERNELS[kind], degree=degree, **number) or Linear()


def _liblinear(header: dict[str, list[str]], lines: list[str], X: Features) -> Iterator[TextModel]:
    """Yield the machine of two classes, each class's against the rest, or one of all classes."""
    kind = check_choice(header["solver_type"][0], "solver_type", CLASSIFIERS)
    bias = float(header["bias"][0])
    W, d = np.array([line.split() for line in lines], dtype=float), int(header["nr_feature"][0])
    if W.shape[0] != d + (bias >= 0):
        raise DataError(
            f"the file has {W.shape[0]} rows of coefficients, and its head says {d + (bias >= 0)}"
        )
    if d > X.shape[1]:
        raise DataError(
            f"the model has {d} features, and X has {X.shape[1]} columns; pass the data it was"
            " trained on"
        )
    coef = np.zeros((W.shape[1], X.shape[1]))
    coef[:, :d] = W[:d].T
    intercepts = W[d] * bias if bias >= 0 else np.zeros(W.shape[1])
    labels, bias = np.array(header["label"], dtype=int), max(bias, 0.0)
    if kind == "MCSVM_CS":
        order = np.argsort(labels)
        joint = MulticlassModel(coef[order].T, intercepts[order], labels[order], NO_ROWS)
        yield TextModel(joint, (), bias)
        return
    if labels.size == 2:
        # The one column is positive for the first class.
        model = of_arrays({"coef": coef, "intercept": intercepts}, X, labels[::-1], None)
        yield TextModel(model, tuple(model.classes.tolist()), bias)
        return
    for w, b, label in zip(coef, intercepts, labels.tolist(), strict=True):
        model = of_arrays({"coef": w, "intercept": b}, X, np.array([False, True]), None)
        yield TextModel(model, label, bias)
