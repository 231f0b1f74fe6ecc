"""A formulation bound to data, the base of all statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, wraps
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from svmcvx import certificate
from svmcvx.arguments import intercept_kind
from svmcvx.arrays import Floats
from svmcvx.certificate import Certificate, Dual, Evaluation, Kind, check
from svmcvx.certificate.bounded import Bounded, by_rows, exact, signed
from svmcvx.certificate.rows import Ball
from svmcvx.data import BinaryData, MulticlassData, binary_data, check_number
from svmcvx.display import ShortRepr, settings
from svmcvx.errors import BuildError, DataError
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.kernels import Kernel, KernelLike, Precomputed
from svmcvx.model import BinaryModel, KernelModel, Model
from svmcvx.proofs import Statement
from svmcvx.solution import DataFacts, Evidence, OptimalIntercepts, Status

Argument = TypeVar("Argument", bound=Any)
Result = TypeVar("Result")

# Complementarity makes one of two factors zero, such as a multiplier and the slack of its
# constraint. In the point of an interior-point solver both are positive: the one below this share
# of the other is taken for zero.
CLEARLY_ZERO = 1e-3
# Margins above 1 by no more than this are on the margin, where models list their support.
ON_SUPPORT = 1e-7
# Relative amounts by which a point is moved to the inside of its bounds, in turn, until rounding
# leaves it there.
SHRINKS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3)


def latest(method: Callable[[Any, Argument], Result]) -> Callable[[Any, Argument], Result]:
    """Let a method of one array or model keep its last value, as it is asked for several times."""
    name = f"_latest_{method.__name__}"

    @wraps(method)
    def call(self: Any, argument: Argument) -> Result:
        known = vars(self).get(name)
        if known is None or not np.array_equal(known[0], argument):
            # Models have arrays that cannot change.
            kept = argument.copy() if isinstance(argument, np.ndarray) else argument
            known = vars(self)[name] = kept, method(self, argument)
        found: Result = known[1]
        return found

    return call


def dual_entry(dual: Dual, name: str, owner: str) -> Any:
    if name not in dual:
        raise DataError(
            f"the dual point of {owner} needs the entry {name!r}, got"
            f" {', '.join(dual) or 'nothing'}"
        )
    return dual[name]


def usable(values: Any) -> bool:
    """Return whether a solver has left finite numbers."""
    if isinstance(values, (list, tuple)):
        return all(map(usable, values))
    return values is not None and bool(np.isfinite(values).all())


def bound_space(
    X: Any,
    y: Any,
    kernel: KernelLike,
    intercept: bool | str,
    sample_weight: Any,
    indefinite: str,
    *,
    own: str = "penalised",
    kinds: tuple[str, ...] = (),
    keep_gram: bool = True,
) -> FeatureSpace:
    """Return the space of validated data, with an intercept of a kind, for True the `own` one."""
    rule = intercept_kind(intercept, own=own, kinds=kinds)
    data = binary_data(X, y, sample_weight)
    return feature_space(data, kernel, intercept=rule, indefinite=indefinite, keep_gram=keep_gram)


def check_price_or_limit(
    caller: str, lam: Any, limit: Any, name: str, interval: str
) -> tuple[float | None, float | None]:
    """Return the price λ of losses or the limit on them as numbers; exactly one is not None."""
    if (lam is None) == (limit is None):
        raise DataError(
            f"{caller} takes exactly one of lam and {name}, got"
            f" {'neither' if lam is None else 'both'}; pass lam=1.0 for a penalty, or {name} for a"
            " limit"
        )
    return (
        None if lam is None else check_number(lam, "lam"),
        None if limit is None else check_number(limit, name, interval),
    )


def full_entry(values: Floats, data: BinaryData | MulticlassData, fill: float = 0.0) -> Floats:
    """Return numbers indexed like the passed data, with `fill` at observations of weight zero."""
    full = np.full(data.rows, fill)
    full[data.index] = values
    return full


def divided(model: BinaryModel, divisor: float, intercept: float) -> BinaryModel:
    """Return a model with its coefficients divided by a number, and another intercept."""
    name = "dual_coef" if isinstance(model, KernelModel) else "coef"
    changed: Any = model
    found: BinaryModel = replace(
        changed, **{name: getattr(model, name) / divisor, "intercept": intercept}
    )
    return found


class RecoveredPoints(NamedTuple):
    """Models and dual points recovered from a solver, for the checker to choose from."""

    models: list[Any]
    duals: list[Dual]


class Formulation(ShortRepr, certificate.Statement):
    """A statement bound to data and hyper-parameters: its mathematics in plain numpy.

    The checker can mint a certificate from any model and any dual point, whoever made them. A
    formulation outside this package derives from it, or from :class:`BinaryStatement` where it has
    one score and a kernel; ``docs/add_formulation.md`` shows one.

    Attributes
    ----------
    name : str
        Of the formulation, for messages and :attr:`svmcvx.Solution.formulation`.
    kind : "convex", "mixed-integer", "enumeration" or "local"
        What a certificate proves.
    """

    name: ClassVar[str]
    kind: Kind = "convex"

    def __repr__(self) -> str:
        of = "" if self.data_facts is None else f" on {self.data_facts}"
        return f"{type(self).__name__}({settings(self.hyperparameters)}){of}"

    @property
    @abstractmethod
    def hyperparameters(self) -> dict[str, Any]:
        """The values that define the problem, together with the data."""

    def at(self, **values: float) -> Self:
        """Return the same statement at other values of scalar hyper-parameters.

        The default replaces the fields of a dataclass.
        """
        if not is_dataclass(self):
            raise TypeError(
                f"{type(self).__name__} is no dataclass: it has to say by at() what its parameters"
                " change"
            )
        return replace(self, **values)

    # Whether the weights of a problem belong to the columns of the data even where these are many.
    _weights_of_columns: ClassVar[bool] = False

    def with_added_constraints(self) -> Self:
        """Return the statement without the parts that rest on an optimum; the same by default."""
        return self

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        """Return models and dual points computed from the values of the solved variables.

        :meth:`FormulationProblem.recover` calls it, unless the problem overrides that method.

        Parameters
        ----------
        variables : mapping of str to ndarray or None
            Values of the variables of the problem, by their names.
        multipliers : mapping of str to ndarray or None
            Those of the constraints, by their labels, with the signs of cvxpy.
        """
        raise TypeError(f"{type(self).__name__} has to say how a model is recovered")

    def model_of(self, variables: Mapping[str, Any]) -> Model | None:
        """Return the model at values of a primal problem's variables; None where they have none.

        :meth:`FormulationProblem.model_at_variables` calls it, unless the problem overrides that
        method.
        """
        raise BuildError(
            f"the statement {self.name} does not say by model_of() which model the variables are"
        )

    def export_dual(self, dual: Dual) -> Dual:
        """Return a dual point indexed like the data that were passed in."""
        return dual

    @property
    def kernel(self) -> Kernel | None:
        """The kernel with its parameters as numbers; None for a linear formulation."""
        return None

    def evidence(self, model: Any = None) -> Evidence | None:
        """Return the rest of a proof of `model`; None if the second checker lacks the statement."""
        return None

    def proof_statement(self) -> Statement:
        """Return the problem as a proof states it.

        Raises
        ------
        DataError
            If the second checker does not know the formulation, or the kernel is given by a
            function.
        """
        evidence, facts = self.evidence(), self.data_facts
        if evidence is None or facts is None:
            raise DataError(
                f"there are no proofs of this problem of {self.name} that could be expected"
            )
        return evidence.statement(self.name, self.hyperparameters, self.kernel, facts)

    def optimal_intercepts(self, model: Any) -> OptimalIntercepts | None:
        """Return the optimal intercepts for the weights of `model`; None where none is free."""
        return None

    @property
    def data_facts(self) -> DataFacts | None:
        """The facts of :attr:`svmcvx.Solution.data`; None for a formulation without them."""
        return None

    def explain(self, status: str) -> str:
        """Explain a status such as ``"infeasible"`` for these data, if there is no point."""
        if status in (Status.TIME_LIMIT, Status.INTERRUPTED):
            return "no feasible point was found before the solver was stopped; raise time_limit"
        return f"the problem is {status}"

    @property
    def details(self) -> Mapping[str, Floats]:
        """Arrays of an answer, indexed like the data that were passed in; none by default."""
        return {}

    def objective(self, model: Model) -> float:
        """Return the objective at `model`."""
        return float(self.evaluate(model).value)

    def dual_objective(self, dual: Dual) -> float:
        """Return the dual objective at `dual`, without repair."""
        return float(self.evaluate_dual(dual).value)

    def certify(
        self, model: Model, dual: Dual | None = None, *, repair: bool = True
    ) -> Certificate:
        """Mint the certificate of any model with any dual point.

        Parameters
        ----------
        model : Model
            A feasible answer; gives the upper bound.
        dual : dict of ndarray, optional
            A guess of the optimal multipliers; gives the lower bound. Without one there is no lower
            bound.
        repair : bool
            Make the dual point exactly feasible first; otherwise an infeasible one gives no bound.
        """
        return check(
            self, [model], [] if dual is None else [dual], repair=repair, own_models=False
        ).certificate


@dataclass(frozen=True, eq=False)
class BinaryStatement(Formulation):
    """Base class of statements with labels, weights, a feature space and a multiplier a row.

    Parameters
    ----------
    space : FeatureSpace
        Scores, norms and models; see :func:`svmcvx.feature_space.feature_space`.
    """

    # Names of the hyper-parameters that are numbers, and of the multipliers of y_i φ(x_i) in w.
    _scalars: ClassVar[tuple[str, ...]] = ()
    _multiplier: ClassVar[str] = ""

    space: FeatureSpace

    @cached_property
    def y(self) -> Floats:
        """Labels ±1 of the observations of positive weight."""
        return self.space.data.y

    @cached_property
    def weight(self) -> Floats:
        return self.space.data.weight

    @cached_property
    def loss_weight(self) -> Floats | float:
        """Weights of the losses; the number 1 where all are 1, which rounds nothing."""
        return 1.0 if (self.weight == 1.0).all() else self.weight

    def margins_of(self, model: BinaryModel) -> Bounded:
        """Return the signed margins of a model."""
        return signed(self.y, self.space.scores(model))

    def penalty(self, model: BinaryModel) -> Bounded:
        """Return the penalised size of a model."""
        return self.space.squared_norm(model)

    @property
    def facts(self) -> Mapping[str, float]:
        return self.space.facts

    @property
    def kernel(self) -> Kernel | None:
        return self.space.kernel

    @property
    def kernel_name(self) -> str:
        """The kernel with its parameters as numbers; ``"none"`` for the linear formulation."""
        return "none" if self.space.kernel is None else str(self.space.kernel)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self._scalars}
        given = {name: value for name, value in values.items() if value is not None}
        return {**given, "kernel": self.kernel_name}

    @property
    def data_facts(self) -> DataFacts:
        """Sizes, classes and the short name of the data."""
        return DataFacts.of(self.space.data, precomputed=isinstance(self.space.kernel, Precomputed))

    def evidence(self, model: Any = None) -> Evidence | None:
        """Return intercept, weights, the data's name, and the arrays of problem and model."""
        data = self.space.data
        if self.space.is_linear and self.space.blockwise:
            return None
        weight = full_entry(self.weight, data)
        return Evidence(
            self.space.intercept, weight, data.fingerprint, self.extra_arrays(), self.spread(model)
        )

    def extra_arrays(self) -> Mapping[str, Floats]:
        """Return arrays that are no hyper-parameters, by name; none by default."""
        return {}

    def spread(self, model: Any) -> Mapping[str, Floats]:
        """Return the arrays of a model that a proof needs beside its coefficients, if any."""
        return {}

    def entry(self, dual: Dual, name: str) -> Floats:
        """Return an entry of a dual point for the kept observations, for either indexing."""
        data = self.space.data
        values = np.asarray(dual_entry(dual, name, self.name), dtype=np.float64)
        if values.shape == (data.rows,):
            return values[data.index]
        if values.shape == (data.n,):
            return values
        raise DataError(
            f"{name} must have one multiplier an observation: expected shape ({data.rows},), got"
            f" {values.shape}"
        )

    def model_of(self, variables: Mapping[str, Any]) -> Model | None:
        """Return the model of ``w`` and ``b``, where the problem has these variables."""
        if "w" not in variables:
            return super().model_of(variables)
        w, b = variables["w"], variables.get("b", 0.0)
        return None if w is None or b is None else self.model_at(w, float(b))

    def model_at(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of w, in the columns of the factor, and b."""
        return self.space.model_from_factor(w, b)

    @classmethod
    def expansion_multipliers(cls, dual: Dual) -> Floats | None:
        r"""Return the multipliers of :math:`y_i\varphi(x_i)` in w; None if there are none."""
        return dual.get(cls._multiplier)

    def export_dual(self, dual: Dual) -> Dual:
        """Return the entries with a zero for observations of weight zero; numbers as they are."""
        return {
            name: (
                np.asarray(values, dtype=np.float64)
                if np.ndim(values) == 0
                else full_entry(self.entry(dual, name), self.space.data)
            )
            for name, values in dual.items()
        }


@dataclass(frozen=True)
class LinearTerm:
    r"""A term :math:`c_w'w + c_b b + k` of an objective."""

    w: Ball | None
    on_b: Floats
    constant: Bounded


@dataclass(frozen=True, eq=False)
class LossStatement(BinaryStatement):
    """A statement with ½‖w‖² and weighted losses of the margins, which have one multiplier each."""

    @property
    def priced(self) -> Any:
        """Weights of the losses with their rounding: a number where all are the same."""
        return self.loss_weight

    @abstractmethod
    def losses_at(self, u: Bounded, weight: Any) -> Bounded:
        """Return the losses at margins."""

    @abstractmethod
    def minus_conjugates_at(self, multipliers: Bounded, weight: Any) -> Bounded:
        """Return the dual objective at multipliers, without the norm."""

    @cached_property
    def exact_scalars(self) -> dict[str, Any]:
        return {name: exact(getattr(self, name)) for name in self._scalars}

    def coefficients(self, dual: Dual) -> Floats:
        r"""Return v of :math:`w = \sum_i v_i\varphi(x_i)`."""
        return self.entry(dual, self._multiplier) * self.y

    def losses(self, model: BinaryModel) -> Bounded:
        weight, u = self.priced, self.margins_of(model)
        found: Bounded = by_rows(self.losses_at, u, weight)
        return found

    def evaluate(self, model: BinaryModel) -> Evaluation:
        return Evaluation.of(regulariser=0.5 * self.penalty(model), losses=self.losses(model))

    def minus_conjugate(self, dual: Dual) -> Bounded:
        values, weight = self.entry(dual, self._multiplier), self.priced
        support = np.flatnonzero(values)
        if support.size < values.size:
            same = isinstance(weight, float) or weight.shape == ()
            values, weight = values[support], weight if same else weight[support]
        found: Bounded = by_rows(self.minus_conjugates_at, exact(values), weight)
        return found

    def evaluate_dual(self, dual: Dual) -> Bounded:
        norm = self.space.squared_norm_of(exact(self.coefficients(dual)))
        return self.minus_conjugate(dual) - 0.5 * norm

    # Beside a linear term, such as added constraints bring with their multipliers

    @property
    def linear_variables(self) -> frozenset[str]:
        """Variables of the primal problem that a linear term may have."""
        return frozenset(("w",)) if self.space.factor_is_data else frozenset()

    def linear_values(self, model: BinaryModel) -> dict[str, Bounded]:
        """Return these variables at a model."""
        if not self.space.factor_is_data:
            return {}
        w = np.asarray(model.coef)
        w = np.append(w, model.intercept) if self.space.intercept == "penalised" else w
        return {"w": exact(w)}

    @abstractmethod
    def multipliers_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> Dual:
        """Return the multipliers of the losses from the values of a primal problem."""

    def expansion(self, dual: Dual) -> Ball:
        """Return X'v."""
        found: Ball = self.space.expansion(self.coefficients(dual))  # type: ignore[attr-defined]
        return found

    def repair_beside(self, dual: Dual, term: LinearTerm) -> tuple[Dual, Floats]:
        """Return feasible multipliers of the losses, and their parts of c_b."""
        return self.repair(dual), term.on_b

    def violation_beside(self, dual: Dual, term: LinearTerm) -> float:
        return self.dual_violation(dual)

    def bound_beside(self, dual: Dual, term: LinearTerm) -> Bounded:
        """Return the dual objective with the term, a lower bound at feasible multipliers."""
        if term.w is None:
            norm = self.space.point(self.coefficients(dual)).squared_norm
        else:
            norm = (self.expansion(dual) - term.w).squared_norm()
        return self.minus_conjugate(dual) - 0.5 * norm + term.constant
