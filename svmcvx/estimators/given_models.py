"""Certificates of models that someone else has found: coefficients in a file, a model saved earlier."""

from __future__ import annotations

from typing import Any

from svmcvx.certificate import Certificate
from svmcvx.errors import DataError, NotCertified
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.pairs import CompositeSolution
from svmcvx.model import Model

__all__ = ["certify_model"]


def certify_model(estimator: CertifiedClassifier, model: Model, X: Any, y: Any) -> Certificate:
    """Return the certificate of a model as an answer to the problem that an estimator states.

    The upper bound is the objective at the model; the lower one is that of the dual point which the estimator finds itself. The
    gap tells how far the model is from the optimum.

    Parameters
    ----------
    estimator : CertifiedClassifier
        Its settings are those of the problem; cloned by the caller if it is to stay as it is.
    model : Model
        With the classes of `y`.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)

    Returns
    -------
    Certificate

    Raises
    ------
    DataError
        If the problem is not convex or one of several, or the model does not fit the data.
    """
    fitted = estimator.fit(X, y)
    solution = fitted.solution_
    name = type(estimator).__name__
    if isinstance(solution, CompositeSolution):
        raise DataError(f"{name} makes one model of several binary problems; certify the model of two classes")
    if solution.certificate.kind != "convex":
        raise DataError(f"{name} states a problem that is not convex; models of convex problems can be certified")
    data = fitted._training_data(X, y)
    request = fitted._request(data, None)
    statement = request.problem(data.X, data.labels).formulation
    if model.classes.tolist() != data.labels.classes.tolist():
        raise DataError(
            f"the model has the classes {model.classes.tolist()}, the data {data.labels.classes.tolist()}; they must agree"
        )
    try:
        certificate: Certificate = statement.certify(model, solution.dual)
    except NotCertified as error:
        raise DataError(f"the model cannot be certified on these data: {error}") from None
    return certificate
