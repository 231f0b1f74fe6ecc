"""Models as fitted estimators of scikit-learn with the same predictions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC, LinearSVC

from svmcvx.errors import DataError
from svmcvx.kernels import RBF, Linear, Polynomial, Sigmoid
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel, OneVsModel

__all__ = ["as_scikit_learn"]

# The scores of both models at the support vectors agree to this share of the largest one.
ROUNDING: Final = 1e-9
NAMES: Final[dict[Any, str]] = {
    RBF: "rbf",
    Polynomial: "poly",
    Sigmoid: "sigmoid",
    Linear: "linear",
}


def as_scikit_learn(model: Model) -> SVC | LinearSVC:
    """Return an ``SVC`` or a ``LinearSVC`` with the scores of a model."""
    if isinstance(model, LinearModel):
        return _linear(model.coef[None, :], np.array([model.intercept]), model.classes)
    if isinstance(model, MulticlassModel):
        return _linear(model.coef.T, np.asarray(model.intercept), model.classes)
    if (
        isinstance(model, OneVsModel)
        and model.scheme == "ovr"
        and all(isinstance(m, LinearModel) for m in model.members)
    ):
        members: list[Any] = list(model.members)
        return _linear(
            np.stack([m.coef for m in members]),
            np.array([m.intercept for m in members]),
            model.classes,
        )
    if isinstance(model, KernelModel) and type(model.kernel) in NAMES and model.vectors is not None:
        return _with_kernel(model)
    what = (
        f"the kernel {model.kernel}"
        if isinstance(model, KernelModel)
        else "a model for each pair of classes"
    )
    raise DataError(
        f"SVC and LinearSVC cannot hold {what}; those of two classes with a linear, RBF, polynomial"
        " or sigmoid kernel, and linear ones with one score a class can be converted. to_onnx"
        " takes more"
    )


def _linear(
    coef: NDArray[np.float64], intercept: NDArray[np.float64], classes: NDArray[Any]
) -> LinearSVC:
    # A fit to a point of each class makes what else a fitted estimator has.
    rows = np.arange(classes.size, dtype=np.float64)[:, None] * np.ones((1, coef.shape[1]))
    made = LinearSVC(max_iter=100_000).fit(rows, np.asarray(classes))
    made.coef_, made.intercept_ = coef.copy(), intercept.copy()
    return made


def _with_kernel(model: KernelModel) -> SVC:
    kernel: Any = model.kernel
    settings = {
        name: getattr(kernel, name)
        for name in ("gamma", "degree", "coef0")
        if hasattr(kernel, name)
    }
    vectors: Any = model.vectors
    vectors = vectors.toarray() if sp.issparse(vectors) else np.asarray(vectors)
    # libsvm holds the support vectors class by class, and counts the first class as the positive
    # one.
    order = np.argsort(model.dual_coef > 0, kind="stable")
    vectors, v = np.ascontiguousarray(vectors[order], dtype=np.float64), model.dual_coef[order]
    d = model.n_features
    made = SVC(kernel=NAMES[type(kernel)], **settings).fit(
        np.stack([np.zeros(d), np.ones(d)]), np.asarray(model.classes)
    )
    made.support_, made.support_vectors_ = model.support[order].astype(np.int32), vectors
    made._n_support = np.array([np.sum(v <= 0), np.sum(v > 0)], dtype=np.int32)
    made.dual_coef_, made.intercept_ = v[None, :].copy(), np.array([model.intercept])
    made._dual_coef_, made._intercept_ = -made.dual_coef_, -made.intercept_
    if vectors.shape[0]:
        own, theirs = model.decision_function(vectors), made.decision_function(vectors)
        if not np.allclose(
            own, theirs, rtol=0.0, atol=ROUNDING * max(1.0, float(np.abs(own).max()))
        ):
            raise DataError(
                "this version of scikit-learn computes other scores from the same support vectors;"
                " please report it"
            )
    return made
