"""What all builders do before and after they make their problem."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

import scipy.sparse as sp

from svmcvx.arguments import check_shared, documented, refuse_unknown
from svmcvx.containers import owned
from svmcvx.data import CodedLabels
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.system import clock, memory
from svmcvx.system.deadline import time_limited
from svmcvx.system.threads import single_blas_thread

__all__ = ["builder", "require_conic_memory"]

Arguments = ParamSpec("Arguments")
BuiltProblem = TypeVar("BuiltProblem", bound=FormulationProblem)
log = logging.getLogger(__name__)

# Bytes that compiling and solving with Clarabel need for each entry of the matrix in the problem,
# as measured for n = 1 000 to 20 000: a thin factor is written into sparse constraints, a whole
# Gram matrix into the objective.
FACTOR_BYTES = 300.0
GRAM_BYTES = 170.0
RAISES = {
    "DataError": "If the data or an argument cannot be used.",
    "BuildError": "If the problem would not fit into memory.",
}


def require_conic_memory(factor: Any, what: str) -> None:
    """Raise a :class:`~svmcvx.errors.BuildError` unless a conic problem with this factor fits into
    memory.
    """
    n, r = factor.shape
    entries = factor.nnz if sp.issparse(factor) else factor.size
    memory.require(
        (FACTOR_BYTES if 2 * r <= n else GRAM_BYTES) * float(entries),
        f"the {what} with a matrix of {n} × {r}",
        "use fewer observations or features, or a specialised solver of svmcvx.fast",
    )


def builder(build: Callable[Arguments, BuiltProblem]) -> Callable[Arguments, BuiltProblem]:
    """Give a builder copies of the arrays it is passed, and note what it takes, for
    ``Solution.timings.build``.

    The problem and its statement own their data: changes of the arrays afterwards change nothing
    that is solved or certified. The shared arguments, and the errors of a builder that names none,
    are documented by :mod:`svmcvx.arguments`.
    """
    known = tuple(signature(documented(build, raises=RAISES)).parameters)

    @wraps(build)
    def timed(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> BuiltProblem:
        started = clock.now()
        refuse_unknown(build.__name__, keywords, known)
        if not any(isinstance(value, CodedLabels) for value in (*arguments, *keywords.values())):
            # Coded labels come from an estimator, whose problem does not outlive its fit.
            arguments = tuple(owned(value) for value in arguments)  # type: ignore[assignment]
            keywords = {name: owned(value) for name, value in keywords.items()}  # type: ignore[assignment]
        check_shared(keywords)
        with time_limited(cast(float | None, keywords.get("time_limit"))), single_blas_thread():
            problem = build(*arguments, **keywords)
        problem.build_seconds = clock.now() - started
        log.info("%s: built in %.2f s", build.__name__, problem.build_seconds)
        return problem

    return timed
