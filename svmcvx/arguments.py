"""The arguments that builders, specialised solvers, estimators and the command line share.

Each is stated once: its type and text in docstrings, and where it has one its default.
:func:`documented` writes into the docstring of a function or class what its own text leaves out, in
the order of the signature; signatures themselves are those in the code, which editors read.
:func:`refuse_unknown` says what a name that is no argument may have meant.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from svmcvx.catalogue import KERNELS
from svmcvx.data import check_number, check_whole
from svmcvx.errors import DataError, DataTypeError, did_you_mean

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

# What a formulation may do with its intercept.
INTERCEPTS: Final = ("free", "penalised", "none")
# Arguments that weigh the losses against the norm, in one formulation or another.
WEIGHTS: Final = ("C", "lam", "C1", "C2", "lam1", "lam2")
# Names that scikit-learn, LIBSVM or the mathematics have for an argument.
SYNONYMS: Final[Mapping[str, str]] = {
    "fit_intercept": "intercept",
    "bias": "intercept",
    "random_state": "seed",
    "timeout": "time_limit",
    "tolerance": "tol",
    "weights": "sample_weight",
}
# Arguments of scikit-learn's machines that have no counterpart, and of the reader of files.
ABSENT: Final[Mapping[str, str]] = {
    "probability": "class probabilities are those of sklearn.calibration.CalibratedClassifierCV",
    "random_state": "nothing is drawn at random: leave it out",
    "dual": "the solver is chosen by the data: leave it out",
    "loss": "the estimator names it, and p of the pSVM: 1 for the hinge, 2 for its square",
    "shrinking": "no answer depends on such a choice: leave it out",
    "multi_class": "it is called multiclass",
    **dict.fromkeys(
        ("target", "drop", "keep", "n_features"),
        "it belongs to svmcvx.datasets.load: pass the data set that this returns",
    ),
}
# Type and text of the arguments that several functions or classes share, in the order in which
# estimators list them after their own.
ARGUMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "X": (
        "array-like or sparse matrix of shape (n, d)",
        "The Gram matrix for a precomputed kernel.",
    ),
    "y": ("array-like of shape (n,)", "Two labels of any type."),
    "intercept": (
        '"penalised", "none" or bool',
        """The coefficient of a constant feature (with a kernel: 1 is added to it), penalised like
        the others (``"penalised"``, which is True), or none (``"none"``, which is False); {default}
        by default.""",
    ),
    "kernel": (
        "None, str, Kernel or callable",
        "None (the default) for the linear formulation; "
        + ", ".join(f'``"{name}"``' for name in KERNELS)
        + ", or an object of :mod:`svmcvx.kernels`.",
    ),
    "gamma": ('float, "scale" or "auto"', "For kernels given by name."),
    "degree": ("int", 'For ``"poly"``.'),
    "coef0": ("float", 'For ``"poly"`` and ``"sigmoid"``.'),
    "sample_weight": (
        "array-like of shape (n,), optional",
        r"Weights :math:`s_i \ge 0` of the losses.",
    ),
    "indefinite": ('"error" or "clip"', "Treatment of a kernel that is indefinite on the data."),
    "class_weight": (
        'None, "balanced" or dict',
        """Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by
        default.""",
    ),
    "multiclass": (
        '"auto", "ovo" or "ovr"',
        """With more than two classes: one binary machine for each pair of classes (``"ovo"``), or
        for each class against the rest (``"ovr"``); see :class:`svmcvx.OneVsModel`. ``"auto"``, the
        default, is ``"ovr"`` for linear machines of more than ten classes on sparse data in memory,
        unless scores of pairs are asked for, and else ``"ovo"``; the model's ``scheme`` names what
        was solved. All machines share `time_limit`.""",
    ),
    "decision_function_shape": (
        '"ovr" or "ovo"',
        """With more than two classes: ``decision_function`` returns, of machines of pairs, a score
        of each class (the default) or those of the pairs. ``predict`` is the same for both.""",
    ),
    "break_ties": (
        "bool",
        """Ties of votes are decided by the summed scores (the default), and where these are equal
        too by the order of the classes; or by that order alone, as ``SVC`` does by default.""",
    ),
    "n_jobs": (
        "int, optional",
        """Processes for machines that are solved one by one, as in joblib; 1 by default. All
        machines of the pSVM with a free intercept are solved by one loop in one thread, which
        shares the rows of their kernel matrix. The result does not depend on it.""",
    ),
    "solver": (
        "str",
        """``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.request` for
        the rule. ``"fast"`` is the specialised one of :mod:`svmcvx.fast`; ``"clarabel"``,
        ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.""",
    ),
    "tol": ("float", "Certified relative gap at which to stop, in (0, 1); {default:g} by default."),
    "time_limit": (
        "float, optional",
        """Seconds for the whole call, without limit by default; the best point until then is
        returned with its interval, as on Ctrl-C.""",
    ),
    "max_iter": (
        "int, optional",
        """Iterations of the solver, in its own unit and of each binary machine; as many as it needs
        by default. If the limit is reached, the fit warns and the general route is not tried.""",
    ),
    "cache_size": ("float", "Megabytes of kernel rows that are stored, {default:g} by default."),
    "verbose": ("bool", "Print the bounds as they close."),
    "callback": (
        "callable, optional",
        """Called with a :class:`~svmcvx.fast.core.monitor.Progress` at every iteration; returning
        True stops.""",
    ),
    "warm_start": (
        "Solution, optional",
        """An earlier solution of the same data, for any hyper-parameters; one of other data is
        refused. Linear ``psvm`` with a free intercept and linear ``odm`` also take ``(coef,
        intercept)`` of any solver.""",
    ),
    "seed": ("int", "Seed of the random number generator."),
    "settings": ("optional", "Parameters of the method; None for the defaults."),
    "ax": ("Axes, optional", "A new figure by default."),
    "title": ("str, optional", "None by default."),
}


# Text of what documented functions return, by its type.
_RETURNED: Final[Mapping[Any, str]] = {
    "Solution": "The model, its certificate, and every solver that was tried.",
    "Axes": "The axes with the picture.",
}
_ENTRY = re.compile(r"^    (?=[\w*])", flags=re.MULTILINE)
_AFTER_RAISES = re.compile(r"\n    (?:See Also|Notes|References|Examples)\n    -{5,}\n|\s*\Z")
_PARAMETERS = "\n    Parameters\n    ----------\n"


def documented(described: T, *, raises: Mapping[str, str] | None = None) -> T:
    """Write what a docstring leaves out into its sections "Parameters", "Returns" and "Raises"."""
    head, found, body = (described.__doc__ or "").partition(_PARAMETERS)
    if not found:
        return described
    entries, *rest = re.split(r"(?=\n    [A-Z]\w+\n    -{3,}\n)", body, maxsplit=1)
    signature = inspect.signature(described)  # type: ignore[arg-type]
    parameters, returned = signature.parameters, signature.return_annotation
    places = list(parameters)

    def position(name: str) -> int:
        return places.index(bare) if (bare := name.strip("*")) in places else len(places)

    texts: dict[str, str] = {}
    for entry in _ENTRY.split(entries.strip("\n"))[1:]:
        heading, _, words = entry.rstrip().partition("\n")
        names, _, kind = heading.partition(" : ")
        # Names that are not beside each other in the signature have an entry each.
        runs: list[list[str]] = []
        for name in names.split(", "):
            if runs and position(name) - position(runs[-1][-1]) in (0, 1):
                runs[-1].append(name)
            else:
                runs.append([name])
        for run in runs:
            typed = f"    {', '.join(run)} : {kind or 'of the same types'}\n{words}".rstrip()
            texts |= dict.fromkeys((name.strip("*") for name in run), "")
            texts[run[0].strip("*")] = f"{typed}\n"
    for name, parameter in parameters.items():
        if name in ARGUMENTS and name not in texts:
            kind, words = ARGUMENTS[name]
            if "{default" in words:
                words = words.format(default=parameter.default)
            if name == "X" and "kernel" not in parameters:  # never a Gram matrix
                words = "Data, an observation a row."
            texts[name] = f"    {name} : {kind}\n        {words}\n"
    order = sorted(texts, key=position)
    sections = "".join(rest)
    if returned in _RETURNED and "\n    Returns\n" not in sections:
        lines = f"    {returned}\n        {_RETURNED[returned]}\n"
        sections = f"\n    Returns\n    -------\n{lines}{sections}"
    if raises and "\n    Raises\n" not in sections:
        lines = "".join(f"    {error}\n        {when}\n" for error, when in raises.items())
        place = _AFTER_RAISES.search(sections).start()  # type: ignore[union-attr]
        sections = f"{sections[:place]}\n    Raises\n    ------\n{lines}{sections[place:]}"
    described.__doc__ = f"{head}{_PARAMETERS}{''.join(texts[name] for name in order)}{sections}"
    return described


# Checks


def check_shared(given: Mapping[str, Any]) -> None:
    """Check the shared arguments among those given; None is no limit."""
    for name, value in given.items():
        if name == "tol" or (name in ("cache_size", "time_limit") and value is not None):
            check_number(value, name)
        elif name == "seed":
            check_whole(value, name, 0)
        elif name == "max_iter" and value is not None:
            check_whole(value, name, 1, "; None is no limit")
        elif name == "callback" and value is not None and not callable(value):
            raise DataError(f"callback must be a function of a Progress, got {value!r}")


def intercept_kind(intercept: Any, *, own: str, kinds: Iterable[str] = ()) -> str:
    """Return the kind of an intercept: ``"free"``, ``"penalised"`` or ``"none"``."""
    if isinstance(intercept, (bool, np.bool_)):
        return own if intercept else "none"
    allowed = tuple(kinds) or (own, "none")
    if isinstance(intercept, str) and intercept in allowed:
        return intercept
    why = ""
    if isinstance(intercept, str):
        why = did_you_mean(intercept, allowed)
        if intercept in INTERCEPTS:
            why = f"; this formulation has no {intercept} intercept"
    words = ", ".join(map(repr, allowed))
    raise DataError(f"intercept must be {words}, True ({own!r}) or False, got {intercept!r}{why}")


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first name that is no argument, with what may have been meant."""
    names = list(known)
    for unknown in given:
        if unknown not in names:
            meant = what_was_meant(unknown, names)
            raise DataTypeError(f"{who} got an unexpected keyword argument {unknown!r}{meant}")


def what_was_meant(unknown: str, known: list[str]) -> str:
    """Return what an unknown name may have meant, or the names that there are."""
    weights = [name for name in known if name in WEIGHTS]
    others = ("c", "lambda_", "lamda", "alpha", "reg")
    if weights and (unknown in WEIGHTS or unknown.lower() in others):
        if len(weights) == 1:
            return f": the weight is called {weights[0]}"
        return f": the weights are called {', '.join(weights[:-1])} and {weights[-1]}"
    if SYNONYMS.get(unknown) in known:
        return f": it is called {SYNONYMS[unknown]}"
    if unknown in ("gamma", "degree", "coef0") and "kernel" in known:
        made = "RBF(gamma=0.1)" if unknown == "gamma" else "Polynomial(degree=3)"
        return f": it belongs to the kernel, as in kernel=svmcvx.{made}"
    if unknown in ABSENT:
        return f"; {ABSENT[unknown]}"
    if "solver_options" in known:
        return f"; options of a solver are passed as solver_options={{{unknown!r}: …}}"
    return did_you_mean(unknown, known) or f"; there are {', '.join(known)}"


def known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse names that are no arguments with what may have been meant."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        refuse_unknown(function.__name__, keywords, names)
        return function(*arguments, **keywords)

    return checked
