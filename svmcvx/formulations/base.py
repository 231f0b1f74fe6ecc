"""What all formulations share: a statement bound to data, and a cvxpy problem that knows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx import memory
from svmcvx.certificate import Certificate, Dual, Evaluation, Kind, check
from svmcvx.data import BinaryData
from svmcvx.errors import DataError
from svmcvx.model import Model

__all__ = ["Candidates", "Formulation", "FormulationProblem", "require_conic_memory", "usable"]

Floats: TypeAlias = NDArray[np.float64]


# Bytes that compiling and solving with Clarabel need for each entry of the matrix in the problem, as measured for
# n = 1 000 to 20 000: a thin factor stands in sparse constraints, a whole Gram matrix in the objective.
FACTOR_BYTES = 300.0
GRAM_BYTES = 170.0


def require_conic_memory(factor: Any, what: str) -> None:
    """Raise a :class:`~svmcvx.errors.BuildError` unless a conic problem with this factor fits into memory."""
    n, r = factor.shape
    entries = factor.nnz if sp.issparse(factor) else factor.size
    memory.require(
        (FACTOR_BYTES if 2 * r <= n else GRAM_BYTES) * float(entries),
        f"the {what} with a matrix of {n} × {r}",
        "use fewer observations or features, or a first-order solver",
    )


def usable(values: Any) -> bool:
    """Whether a solver has left finite numbers."""
    return values is not None and bool(np.isfinite(values).all())


def kept_entry(dual: Dual, name: str, data: BinaryData, formulation: str) -> Floats:
    """Return one entry of a dual point for the observations that are kept, whichever way it is indexed.

    Raises
    ------
    DataError
        If there is no such entry, or it has not one multiplier an observation.
    """
    if name not in dual:
        raise DataError(f"the dual point of {formulation} needs the entry {name!r}, got {', '.join(dual) or 'nothing'}")
    values = np.asarray(dual[name], dtype=np.float64)
    if values.shape == (data.rows,):
        return values[data.index]
    if values.shape == (data.n,):
        return values
    raise DataError(
        f"{name} must have one multiplier an observation: expected shape ({data.rows},), got {values.shape}"
    )


def full_entry(values: Floats, data: BinaryData) -> Floats:
    """Return multipliers indexed like the data that were passed in, with zeros for observations of weight zero."""
    full = np.zeros(data.rows)
    full[data.index] = values
    return full


class Candidates(NamedTuple):
    """Models and dual points recovered from a solver, for the checker to choose from."""

    models: list[Any]
    duals: list[Dual]


class Formulation(ABC):
    """A statement bound to data and hyper-parameters: its mathematics in plain numpy.

    It satisfies :class:`svmcvx.certificate.Statement`, so that the checker can mint a certificate from any model
    and any dual point, whoever made them.
    """

    name: ClassVar[str]
    kind: Kind = "convex"

    @property
    @abstractmethod
    def hyperparameters(self) -> dict[str, Any]:
        """The values that define the problem, beside the data."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, float]:
        """Numbers that belong beside a certificate."""

    @abstractmethod
    def evaluate(self, model: Any) -> Evaluation:
        """Objective at a model, with its rounding; ``inf`` where the model is infeasible."""

    @abstractmethod
    def repair(self, dual: Dual) -> Dual:
        """Return a dual point that is exactly feasible."""

    @abstractmethod
    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of a dual constraint beyond rounding."""

    @abstractmethod
    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """Dual objective at a feasible dual point, with its rounding."""

    def export_dual(self, dual: Dual) -> Dual:
        """Return a dual point indexed like the data that were passed in."""
        return dual

    def explain(self, status: str) -> str:
        """Say what the solver status ``"infeasible"`` or ``"unbounded"`` means for these data."""
        return f"the problem is {status}"

    @property
    def details(self) -> Mapping[str, Floats]:
        """Arrays that belong beside an answer, indexed like the data that were passed in; none by default."""
        return {}

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """Numbers for the certificate of a model and the dual point kept with it; none by default."""
        return {}

    def objective(self, model: Model) -> float:
        """Return the objective at `model`."""
        return self.evaluate(model).value

    def dual_objective(self, dual: Dual) -> float:
        """Return the dual objective at `dual`, without repair."""
        return self.evaluate_dual(dual).value

    def certify(self, model: Model, dual: Dual | None = None, *, repair: bool = True) -> Certificate:
        """Mint the certificate of any model with any dual point.

        Parameters
        ----------
        model : Model
            A feasible answer; gives the upper bound.
        dual : dict of ndarray, optional
            A guess of the optimal multipliers; gives the lower bound. Without one there is no lower bound.
        repair : bool
            Make the dual point exactly feasible first; otherwise an infeasible one gives no bound.
        """
        return check(self, [model], [] if dual is None else [dual], repair=repair).certificate


class FormulationProblem(cp.Problem):
    """A cvxpy problem that knows the formulation it states.

    It can be solved by plain ``.solve()`` like any other problem, and passed to :func:`svmcvx.solve`. Scalar
    hyper-parameters are cvxpy parameters, found by name in ``param_dict``; set their ``value`` and solve again,
    nothing is compiled a second time.

    Attributes
    ----------
    build_seconds : float
        What the construction took.
    last_solver : str or None
        The solver that was called last, whose state a warm start can use.
    """

    build_seconds: float = 0.0
    last_solver: str | None = None

    @property
    def formulation(self) -> Formulation:
        """The statement at the present values of the parameters."""
        raise TypeError("a FormulationProblem has to say what it states")

    def recover(self) -> Candidates:
        """Models and dual points from the present values of the variables and multipliers."""
        raise TypeError("a FormulationProblem has to say how a model is recovered")

    def start(self) -> Mapping[str, Any] | None:
        """Values of all variables, by their names, at a feasible point that the builder knows; None if there is none.

        A mixed-integer solver that can take it starts from there.
        """
        return None

    def proved_bound(self, value: float) -> float | None:
        """Lower bound on the statement's optimum that follows from a solver's proved bound on this problem's value.

        By default the statement's objective is that of the problem, negated if the problem maximises. None means
        that nothing follows.
        """
        return value if isinstance(self.objective, cp.Minimize) else -value

    @property
    def constraint_dict(self) -> dict[str, cp.Constraint]:
        """The constraints by their labels."""
        return {str(constraint.label): constraint for constraint in self.constraints if constraint.label}
