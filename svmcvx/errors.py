"""Exceptions of svmcvx, one class a remedy.

Every exception raised on purpose derives from :class:`SvmcvxError`; its class says what to do:

================== ==============================================================================
class              what to do
================== ==============================================================================
DataError          correct the data or the argument named (a wrong type is a DataTypeError, too)
BuildError         change the requested formulation
SolverUnavailable  install or license the solver named
SolverFailed       try another solver or tolerance; the chain of attempts is attached
NotCertified       there is an answer, but no proof of the requested accuracy
================== ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

# Other words for values of arguments.
OTHER_WORDS: Final[Mapping[str, str]] = {
    "gaussian": "rbf",
    "polynomial": "poly",
    "l1_norm": "l1",
    "crammer": "crammer_singer",
    "logistic": "softmax",
    "one_vs_rest": "ovr",
    "one_vs_one": "ovo",
    "standardise": "standard",
    "standardize": "standard",
    "zscore": "standard",
    "min_max": "minmax",
    "penalized": "penalised",
}


class SvmcvxError(Exception):
    """Base class of all errors raised on purpose by svmcvx."""


class DataError(SvmcvxError, ValueError):
    """The data or an argument cannot be used; the message names it and says what to do."""


class DataTypeError(DataError, TypeError):
    """A value has a type that cannot be used."""


class BuildError(SvmcvxError, ValueError):
    """The problem cannot be built (too large, not convex, not of this package)."""


class SolverUnavailable(SvmcvxError, ImportError):
    """A solver or an optional dependency is not installed, or not licensed."""


class SolverFailed(SvmcvxError, RuntimeError):
    """No solver of the chain produced a usable point.

    Attributes
    ----------
    attempts : tuple of svmcvx.Attempt
        What was tried, in order, with the reason why each attempt failed.
    """

    def __init__(self, message: str, attempts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.attempts)


class NotCertified(SvmcvxError, ArithmeticError):
    """The checker does not confirm what was claimed about a point."""


def optional(module: str, extra: str) -> Any:
    """Import an optional dependency, or raise the error that names the extra with it."""
    try:
        return import_module(module)
    except ImportError:
        raise missing_extra(module.partition(".")[0], extra) from None


def missing_extra(module: str, extra: str) -> SolverUnavailable:
    """Return the error for an optional dependency that is not installed."""
    return SolverUnavailable(f"{module} is not installed; run: pip install 'svmcvx[{extra}]'")


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest word, or nothing."""
    known = list(words)
    if not isinstance(word, str):
        return ""
    plain = {name.lower().replace("-", "_"): name for name in known}
    typed = word.lower().replace("-", "_")
    if OTHER_WORDS.get(typed) in known:
        return f"; did you mean {OTHER_WORDS[typed]!r}?"
    near = get_close_matches(typed, plain, n=1, cutoff=0.7)
    return f"; did you mean {plain[near[0]]!r}?" if near else ""


def no_attribute(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module lacks, with the nearest that it has."""
    near = "" if name.startswith("_") else did_you_mean(name, names)
    return AttributeError(f"module {module!r} has no attribute {name!r}{near}", name=name)
