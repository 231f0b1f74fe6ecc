"""The parameters of estimators: each is stated once, with its default and its documentation."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar, dataclass_transform

__all__ = ["estimator"]

T = TypeVar("T")

# Documentation of the parameters that several estimators share, in the order of their appearance.
PARAMETERS: Final = {
    "kernel : None, str, Kernel or callable": """
        None (the default) for the linear formulation; ``"rbf"``, ``"exponential"``, ``"laplacian"``, ``"poly"``,
        ``"sigmoid"``, ``"linear"``, ``"precomputed"``, or an object of :mod:`svmcvx.kernels`.""",
    'gamma : float, "scale" or "auto"': """
        For kernels given by name.""",
    "degree : int": """
        For ``"poly"``.""",
    "coef0 : float": """
        For ``"poly"`` and ``"sigmoid"``.""",
    'indefinite : "error" or "clip"': """
        What to do with a kernel that is indefinite on the data.""",
    'class_weight : None, "balanced" or dict': """
        Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by default.""",
    'multiclass : "ovo" or "ovr"': """
        With more than two classes: one binary machine for each pair of classes (the default), or for each class against
        the rest; see :class:`svmcvx.OneVsModel`.""",
    'decision_function_shape : "ovr" or "ovo"': """
        With more than two classes: what ``decision_function`` returns of machines of pairs, a score of each class (the default)
        or those of the pairs. ``predict`` is the same for both.""",
    "break_ties : bool": """
        Ties of votes are decided by the summed scores (the default), and where these are equal too by the order of the
        classes; or by that order alone, as ``SVC`` does by default.""",
    "n_jobs : int, optional": """
        Processes for these machines, as in joblib; 1 by default. The result does not depend on it.""",
    "solver : str": """
        ``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.routes` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.""",
    "tol : float": """
        Certified relative gap that is asked for, {tol} by default. A conic solver is asked for a hundredth of it.""",
    "time_limit : float or None": """
        Seconds for the whole fit, {time_limit} by default; several binary machines share it.""",
    "max_iter : int, optional": """
        Iterations of the solver, in its own unit and of each binary machine; as many as it needs by default. A fit that
        they end warns, as at `time_limit`, and gets no second opinion.""",
    "cache_size : float": """
        Megabytes of kernel rows that the specialised solver keeps, {cache_size:g} by default.""",
    "verbose : bool": """
        Print the solver's progress.""",
}

# Attributes of fitted estimators: those of all, with the two readings of the model in place of {model}.
ATTRIBUTES: Final = """classes_ : ndarray of shape (c,)
    solution_ : Solution
        Model, certificate, attempts, timings.
    certificate_ : Certificate
        The checked interval around the optimum.
    model_ : Model
{model}
    class_weight_ : ndarray of shape (c,)
        The weights of the classes.
    shape_fit_ : tuple of int
        Shape of the training data.
    fit_status_ : int
        0 if the gap asked for was certified, else 1.
    solver_route_, solver_reason_ : str
        ``"general"`` or ``"fast"``, and why.
    n_iter_ : ndarray of int
        Iterations of the solver, a number a binary machine, where it reports them.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If `X` had string column names."""
ONE_SCORE: Final = """    coef_, intercept_, dual_coef_ : ndarray
        One row a binary machine, positive for the later class of a pair, where they exist; read-only.
    support_, n_support_, support_vectors_ : ndarray
        Rows of the training data with a non-zero multiplier, class by class; their numbers; the rows, for a kernel.
    solutions_, certificates_ : dict
        Of each binary machine, by its pair of labels (or label); ``certificate_`` is that of the largest gap."""
SCORE_OF_EACH_CLASS: Final = """    coef_, intercept_, support_, n_support_ : ndarray
        As in scikit-learn; read-only."""


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make the annotated attributes of a class its keyword-only parameters, its own before those that estimators share.

    The docstring gets the entries of the inherited parameters that it does not have, and the attributes of a fitted estimator.

    Parameters
    ----------
    cls : type
        A dataclass in all but the decorator; scikit-learn reads its parameters from the signature.
    """
    shared = [title.split(" : ")[0] for title in PARAMETERS]
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    signature = inspect.signature(made.__init__)
    itself, *parameters = signature.parameters.values()
    parameters.sort(key=lambda parameter: shared.index(parameter.name) if parameter.name in shared else -1)
    made.__init__.__signature__ = signature.replace(parameters=[itself, *parameters])
    if made.__doc__ and "\n    Parameters\n" in made.__doc__:
        made.__doc__ = _documented(made)
    return made  # type: ignore[no-any-return]


def _documented(cls: Any) -> str:
    head, examples = cls.__doc__.rstrip().split("\n\n    Examples\n")
    values = {field.name: getattr(cls, field.name) for field in fields(cls)}
    described = set(re.findall(r"^    (\w+(?:, \w+)*) : ", head, flags=re.MULTILINE))
    described = {name for names in described for name in names.split(", ")}
    for title, text in PARAMETERS.items():
        name = title.split(" : ")[0]
        if name in values and name not in described:
            head += f"\n    {title}{text.format(**{name: values[name]}) if '{' in text else text}"
    attributes = ATTRIBUTES.format(model=ONE_SCORE if "kernel" in values else SCORE_OF_EACH_CLASS)
    return f"{head}\n\n    Attributes\n    ----------\n    {attributes}\n\n    Examples\n{examples}\n    "
