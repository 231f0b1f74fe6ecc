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
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from svmcvx.errors import DataError, DataTypeError, did_you_mean

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

# Default of the certified relative gap of specialised solvers, estimators and the command line.
TOL: Final = 1e-6
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
    "maxiter": "max_iter",
    "n_iter": "max_iter",
    "max_epochs": "max_iter",
    "tolerance": "tol",
    "eps_abs": "tol",
    "weights": "sample_weight",
    "weight": "sample_weight",
    "theta": "D",
}


# Arguments of scikit-learn's machines that have no counterpart.
ABSENT: Final[Mapping[str, str]] = {
    "probability": "class probabilities are those of sklearn.calibration.CalibratedClassifierCV",
    "random_state": "nothing is drawn at random: leave it out",
    "shrinking": "leave it out: it changes no answer",
    "dual": "leave it out: it changes no answer",
    "multi_class": "it is called multiclass",
}


@dataclass(frozen=True)
class Argument:
    """An argument that several functions or classes share."""

    kind: str
    text: str


# In the order in which estimators list them after their own.
ARGUMENTS: Final[Mapping[str, Argument]] = {
    "X": Argument(
        "array-like or sparse matrix of shape (n, d)", "The Gram matrix for a precomputed kernel."
    ),
    "y": Argument("array-like of shape (n,)", "Two labels of any type."),
    "intercept": Argument(
        '"penalised", "none" or bool',
        """The coefficient of a constant feature (with a kernel: 1 is added to it), penalised like the others (``"penalised"``, which
        is True), or none (``"none"``, which is False); {default} by default.""",
    ),
    "kernel": Argument(
        "None, str, Kernel or callable",
        """None (the default) for the linear formulation; ``"rbf"``, ``"exponential"``, ``"laplacian"``, ``"poly"``,
        ``"sigmoid"``, ``"linear"``, ``"precomputed"``, or an object of :mod:`svmcvx.kernels`.""",
    ),
    "gamma": Argument('float, "scale" or "auto"', "For kernels given by name."),
    "degree": Argument("int", 'For ``"poly"``.'),
    "coef0": Argument("float", 'For ``"poly"`` and ``"sigmoid"``.'),
    "sample_weight": Argument(
        "array-like of shape (n,), optional", r"Weights :math:`s_i \ge 0` of the losses."
    ),
    "indefinite": Argument(
        '"error" or "clip"', "What to do with a kernel that is indefinite on the data."
    ),
    "class_weight": Argument(
        'None, "balanced" or dict',
        "Weights of the classes, which multiply those of the losses, as in scikit-learn; 1 each by"
        " default.",
    ),
    "multiclass": Argument(
        '"ovo" or "ovr"',
        """With more than two classes: one binary machine for each pair of classes (the default), or for each class against
        the rest; see :class:`svmcvx.OneVsModel`. They share `time_limit`.""",
    ),
    "decision_function_shape": Argument(
        '"ovr" or "ovo"',
        """With more than two classes: what ``decision_function`` returns of machines of pairs, a score of each class (the default)
        or those of the pairs. ``predict`` is the same for both.""",
    ),
    "break_ties": Argument(
        "bool",
        """Ties of votes are decided by the summed scores (the default), and where these are equal too by the order of the
        classes; or by that order alone, as ``SVC`` does by default.""",
    ),
    "n_jobs": Argument(
        "int, optional",
        """Processes for machines that are solved one by one, as in joblib; 1 by default. All machines of the pSVM with p = 1 or 2 and a free
        intercept are solved by one loop in one thread, which shares the rows of their kernel matrix. The result does not depend on it.""",
    ),
    "solver": Argument(
        "str",
        """``"auto"`` (the default) chooses by the size; see :mod:`svmcvx.estimators.request` for the rule. ``"fast"`` is the
        specialised one of :mod:`svmcvx.fast`; ``"clarabel"``, ``"scs"``, ``"mosek"``, … are those of :func:`svmcvx.solve`.""",
    ),
    "tol": Argument(
        "float", "Certified relative gap at which to stop, in (0, 1); {default:g} by default."
    ),
    "time_limit": Argument(
        "float, optional",
        """Seconds for the whole call, without limit by default; the best point until then is returned with its interval, as
        on Ctrl-C.""",
    ),
    "max_iter": Argument(
        "int, optional",
        """Iterations of the solver, in its own unit and of each binary machine; as many as it needs by default. A fit that
        they end warns, as at `time_limit`, and gets no second opinion.""",
    ),
    "cache_size": Argument(
        "float", "Megabytes of kernel rows that are kept, {default:g} by default."
    ),
    "verbose": Argument("bool", "Print the bounds as they close."),
    "callback": Argument(
        "callable, optional",
        "Called with a :class:`~svmcvx.fast.core.monitor.Progress` at every iteration; returning"
        " True stops.",
    ),
    "warm_start": Argument(
        "Solution, optional",
        "An earlier solution of the same data, for any hyper-parameters; one of other data is"
        " refused. Linear ``psvm`` with a free intercept and linear ``odm`` also take ``(coef,"
        " intercept)`` of any solver.",
    ),
    "seed": Argument("int", "Of what is drawn at random; the same seed gives the same numbers."),
    "settings": Argument("optional", "Parameters of the method; None for the defaults."),
}


# Documentation

_ENTRY = re.compile(r"^    (?=[\w*])", flags=re.MULTILINE)
_AFTER_RAISES = re.compile(r"\n    (?:See Also|Notes|References|Examples)\n    -{5,}\n|\s*\Z")


def documented(described: T, *, raises: Mapping[str, str] | None = None) -> T:
    """Write the arguments that a docstring leaves out into its section "Parameters", and return the
    function or class.
    """
    text = described.__doc__
    if not text or "\n    Parameters\n    ----------\n" not in text:
        return described
    head, body = text.split("\n    Parameters\n    ----------\n", 1)
    entries, *rest = re.split(r"(?=\n    [A-Z]\w+\n    -{3,}\n)", body, maxsplit=1)
    parameters = inspect.signature(described).parameters  # type: ignore[arg-type]
    places = {name: place for place, name in enumerate(parameters)}
    found: list[tuple[int, str]] = []
    known: set[str] = set()
    for entry in _ENTRY.split(entries.strip("\n"))[1:]:
        names = [
            name.strip(" *") for name in entry.partition("\n")[0].partition(" : ")[0].split(",")
        ]
        known |= set(names)
        found.append((places.get(names[0], len(places)), f"    {entry.rstrip()}\n"))
    for name, parameter in parameters.items():
        if name in ARGUMENTS and name not in known:
            argument = ARGUMENTS[name]
            words = (
                argument.text.format(default=parameter.default)
                if "{default" in argument.text
                else argument.text
            )
            # Of data alone there is more to say where a kernel may be a matrix.
            words = "" if name == "X" and "kernel" not in parameters else f"        {words}\n"
            found.append((places[name], f"    {name} : {argument.kind}\n{words}"))
    found.sort(key=lambda entry: entry[0])
    sections = "".join(rest)
    if raises and "\n    Raises\n" not in sections:
        lines = "".join(f"    {error}\n        {when}\n" for error, when in raises.items())
        place = _AFTER_RAISES.search(sections).start()  # type: ignore[union-attr]
        sections = f"{sections[:place]}\n    Raises\n    ------\n{lines}{sections[place:]}"
    described.__doc__ = (
        f"{head}\n    Parameters\n    ----------\n{''.join(entry for _, entry in found)}{sections}"
    )
    return described


# Checks


def check_shared(given: Mapping[str, Any]) -> None:
    """Check the shared arguments among those given that are numbers or functions; None is no limit."""
    # The command line reads the table without numpy.
    from svmcvx.data import check_number, check_time_limit, check_whole

    for name, value in given.items():
        if name == "time_limit":
            check_time_limit(value)
        elif name == "tol":
            check_number(value, name)
        elif name == "seed":
            check_whole(value, name, 0)
        elif name == "max_iter" and value is not None:
            if value == -1:
                raise DataError(
                    "max_iter must be at least 1, got -1; None, the default, is no limit"
                )
            check_whole(value, name, 1)
        elif name == "cache_size" and value is not None:
            check_number(value, name)
        elif name == "callback" and value is not None and not callable(value):
            raise DataError(f"callback must be a function of a Progress, got {value!r}")


def intercept_kind(intercept: Any, *, own: str, kinds: Iterable[str] = ()) -> str:
    """Return what a formulation does with its intercept: ``"free"``, ``"penalised"`` or ``"none"``."""
    # One of numpy's, which the command line does not import for a typo.
    is_bool = str(getattr(intercept, "dtype", "")) == "bool" and getattr(intercept, "ndim", 1) == 0
    if isinstance(intercept, bool) or is_bool:
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
    raise DataError(
        f"intercept must be {words}, True (that is {own!r}) or False ('none'), got"
        f" {intercept!r}{why}"
    )


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first name that is no argument, with what may have been meant."""
    names = list(known)
    unknown = next((name for name in given if name not in names), None)
    if unknown is None:
        return
    raise DataTypeError(
        f"{who} got an unexpected keyword argument {unknown!r}{what_was_meant(unknown, names)}"
    )


def what_was_meant(unknown: str, known: list[str]) -> str:
    """Return what a name that is no argument may have meant, as the end of a message; the names
    that there are if nothing is near.
    """
    weights = [name for name in known if name in WEIGHTS]
    if (
        unknown in WEIGHTS or unknown.lower() in ("c", "lambda_", "lamda", "alpha", "reg")
    ) and weights:
        if len(weights) == 1:
            return f": the weight is called {weights[0]}"
        return f": the weights are called {', '.join(weights[:-1])} and {weights[-1]}"
    if SYNONYMS.get(unknown) in known:
        return f": it is called {SYNONYMS[unknown]}"
    if unknown in ("gamma", "degree", "coef0") and "kernel" in known:
        return (
            ": it belongs to the kernel, as in"
            f" kernel=svmcvx.{'RBF(gamma=0.1)' if unknown == 'gamma' else 'Polynomial(degree=3)'}"
        )
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
