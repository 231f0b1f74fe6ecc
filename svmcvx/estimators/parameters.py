"""Classes whose annotated attributes are the parameters of an estimator; :mod:`svmcvx.arguments`
documents those that are shared.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar, dataclass_transform

from svmcvx.arguments import ARGUMENTS, documented, refuse_unknown, renamed

__all__ = ["estimator"]

T = TypeVar("T")

# Attributes of fitted estimators: those of all, with the two readings of the model in place of
# {model}.
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
    """Make the annotated attributes of a class its keyword-only parameters, its own before those
    that estimators share.
    """
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    initialise = made.__init__
    signature = inspect.signature(initialise)
    itself, *parameters = signature.parameters.values()
    shared = list(ARGUMENTS)
    parameters.sort(
        key=lambda parameter: shared.index(parameter.name) if parameter.name in shared else -1
    )
    known = {parameter.name for parameter in parameters}

    @wraps(initialise)
    def checked(self: Any, **given: Any) -> None:
        if not known.issuperset(given):
            given = renamed(made.__name__, given, self._renamed)
            refuse_unknown(made.__name__, given, [parameter.name for parameter in parameters])
        initialise(self, **given)

    checked.__signature__ = signature.replace(parameters=[itself, *parameters])  # type: ignore[attr-defined]
    made.__init__ = checked
    documented(made)
    if made.__doc__ and "\n    Parameters\n" in made.__doc__:
        head, examples = made.__doc__.rstrip().split("\n\n    Examples\n")
        attributes = ATTRIBUTES.format(
            model=ONE_SCORE if "kernel" in known else SCORE_OF_EACH_CLASS
        )
        made.__doc__ = (
            f"{head}\n\n    Attributes\n    ----------\n    {attributes}\n\n   "
            f" Examples\n{examples}\n    "
        )
    return made  # type: ignore[no-any-return]
