r"""What the mixed-integer programs of the 0-1 loss, the ramp loss and the l0-norm hinge share: dropping and big-M.

With :math:`u_i = y_i(\langle w, \varphi(x_i)\rangle + b)` and weights :math:`s_i > 0` (1 by default):

================ ==================================================================================== =============
formulation      objective                                                                            intercept
================ ==================================================================================== =============
0-1 loss         :math:`\|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1]`                                      penalised
0-1, cardinality :math:`\|w\|^2` subject to :math:`\sum_i s_i\,1[u_i < 1] \le k`                      penalised
ramp loss        :math:`\tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)`                             free
l0-norm hinge    :math:`\tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1]`                                    free
================ ==================================================================================== =============

They are stated in :mod:`~svmcvx.formulations.indicator.zero_one`, :mod:`~svmcvx.formulations.indicator.ramp` and :mod:`~svmcvx.formulations.indicator.l0`.
All count observations inside the margin, not only misclassified ones. An indicator :math:`z_i \in \{0, 1\}` drops
observation i.

**Big-M.** :math:`u_i \ge 1 - M_i z_i`. With ``M="auto"`` the values are valid by construction. An incumbent of value U is
found first (from the conic relaxation, a soft margin, rounding and a local search). In the 0-1 problem, say, a point that
is as good and drops weight W has :math:`\|w\|^2 \le U - \lambda W`; and the margin of a dropped observation is no further
below that of a kept one than the norm times their distance. :func:`svmcvx.heuristics.signed_rows.reach` turns this into
numbers. With a free intercept, observations of one class are compared, so that b cancels and needs no bound; if a whole
class is dropped, then w = 0, b = ±1 is as good, and M = 2 covers it.

**Upper bound.** It is the objective of the model returned. Where margins are counted, this is after the hard-margin
machine of the kept observations has been solved exactly, and includes the cost of scaling it until each kept margin is 1.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data, labels ±1                          (n, d), (n,)
L              data, or a factor of the Gram matrix     (n, r)
w, b           normal in the columns of L, bias         (r,), ()
z              1 for observations that are dropped      (n,)
M              how far a dropped margin may be below 1  (n,)
============== ======================================== =========

**Source.** Brooks (2011) as restated in Robust support vector machines via conic optimization, § 2; M is bounded here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, Kind, accumulated_rounding
from svmcvx.data import check_number
from svmcvx.errors import BuildError, DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import Formulation, FormulationProblem, RecoveredPoints
from svmcvx.heuristics import signed_rows as incumbents
from svmcvx.heuristics.rounding import round_relaxation
from svmcvx.heuristics.signed_rows import Geometry, Incumbent
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel, KernelModel, LinearModel

__all__ = [
    "Counting",
    "CountingProblem",
    "Dropping",
    "DroppingProblem",
    "counting_pool",
    "explicit_M",
    "free_intercept",
    "margin_parameter",
]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
# Of C, z and the right-hand side 1 − Mz of the margins: the loss, the final right-hand side, and further constraints.
Terms: TypeAlias = Callable[
    [cp.Parameter, cp.Variable, cp.Expression], tuple[cp.Expression, cp.Expression, list[cp.Constraint]]
]

# A kept observation's margin may be below 1 by rounding, and never by more than this.
LARGEST_SHORTFALL = 1e-3
# An explicit M_i binds where the margin is as low as it allows, up to this share of M_i.
BINDING = 1e-6


@dataclass(frozen=True, eq=False)
class Dropping(Formulation):
    r"""What the three share: a pool of feasible points, and what it says about M.

    Parameters
    ----------
    space : FeatureSpace
    pool : tuple of Incumbent
        Feasible points, whatever the hyper-parameters.
    explicit : ndarray of shape (n,), optional
        Values of M that the user chose. Where they are not known to be valid, the statement includes the constraint
        :math:`u_i \ge 1 - M_i`.
    """

    # What an observation that is not dropped may be below margin 1.
    slack_allowed: ClassVar[float] = 0.0
    space: FeatureSpace
    kind: Kind = "mixed-integer"
    pool: tuple[Incumbent, ...] = ()
    explicit: Floats | None = None

    @cached_property
    def geometry(self) -> Geometry:
        """Signed rows of the factor."""
        return Geometry.of(self.space)

    @abstractmethod
    def price(self, norm: float, loss: float) -> float:
        """Objective of a point with a squared norm and a loss (in weight); ``inf`` where it is infeasible."""

    def least(self, loss: float) -> float:
        """Lower bound on the objective of points with at least this loss."""
        return self.price(0.0, loss)

    @abstractmethod
    def _reach(self, value: float) -> Floats:
        """Valid values of M for points no worse than `value`."""

    @property
    def y(self) -> Floats:
        """Labels ±1."""
        return self.space.data.y

    @property
    def weight(self) -> Floats:
        """Weights of the losses."""
        return self.space.data.weight

    def _best(self, pool: Iterable[Incumbent]) -> Incumbent | None:
        best = min(pool, key=lambda point: self.price(point.norm, point.loss), default=None)
        return best if best is not None and math.isfinite(self.price(best.norm, best.loss)) else None

    @cached_property
    def valid_M(self) -> Floats | None:
        """Values of M that cut off no optimum, by the best point of the pool; None without one."""
        best = self._best(self.pool)
        return None if best is None else self._reach(self.price(best.norm, best.loss))

    @cached_property
    def incumbent(self) -> Incumbent | None:
        """The best point of the pool at these hyper-parameters that the statement allows."""
        return self._best(point for point in self.pool if not self._too_low(point.u, np.zeros(self.y.size)))

    @property
    def incumbent_value(self) -> float:
        """Objective of the incumbent; ``inf`` without one."""
        return math.inf if self.incumbent is None else self.price(self.incumbent.norm, self.incumbent.loss)

    @property
    def M(self) -> Floats | None:
        """The values of M in use; None if there are none, as where no mixed-integer program is solved."""
        if self.kind != "mixed-integer":
            return None
        return self.valid_M if self.explicit is None else self.explicit

    @cached_property
    def unproved(self) -> Bools:
        """Observations whose M is not known to be valid."""
        if self.explicit is None:
            return np.zeros(self.y.size, dtype=bool)
        return np.ones(self.y.size, dtype=bool) if self.valid_M is None else self.explicit < self.valid_M

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts of the kernel, the incumbent's value, the range of M, and how many M are not known to be valid."""
        facts = dict(self.space.facts)
        if self.incumbent is not None:
            facts["incumbent"] = self.incumbent_value
        if self.M is not None:
            facts |= {"smallest_M": float(self.M.min()), "largest_M": float(self.M.max())}
        if self.unproved.any():
            facts["unproved_M"] = float(self.unproved.sum())
        return facts

    @property
    def details(self) -> Mapping[str, Floats]:
        """``M`` and the incumbent's margins ``incumbent_u``; NaN for observations of weight zero."""
        found = {"M": self.M, "incumbent_u": None if self.incumbent is None else self.incumbent.u}
        return {name: self._export(values) for name, values in found.items() if values is not None}

    def _export(self, values: Floats) -> Floats:
        data = self.space.data
        full = np.full(data.rows, np.nan)
        full[data.index] = values
        return full

    def _kernel_name(self) -> str:
        return "none" if self.space.kernel is None else str(self.space.kernel)

    def _too_low(self, u: Floats, rounding: Floats) -> bool:
        """Whether a margin violates an explicit M that belongs to the statement."""
        if not self.unproved.any():
            return False
        assert self.explicit is not None  # noqa: S101 - only explicit values are unproved
        low = 1.0 - self.explicit - 2 * rounding - accumulated_rounding(1) * (1.0 + self.explicit)
        return bool((u < np.minimum(low, 1.0 - self.slack_allowed))[self.unproved].any())

    def residuals(self, model: BinaryModel, dual: Dual) -> Mapping[str, float]:
        """With explicit M not known to be valid: ``"binding_M"``, the number of them that bind at the model."""
        if not self.unproved.any():
            return {}
        assert self.explicit is not None  # noqa: S101
        u = self.y * model.scores(self.space.data.X)[0]
        binding = self.unproved & (u < 1.0 - self.slack_allowed) & (u <= 1.0 - self.explicit * (1.0 - BINDING))
        return {"binding_M": float(binding.sum())}

    def repair(self, dual: Dual) -> Dual:
        """There is no dual to repair."""
        return dual

    def dual_violation(self, dual: Dual) -> float:
        """No dual point bounds the problem."""
        return math.inf

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """No bound."""
        return Evaluation(-math.inf, 0.0)

    def explain(self, status: str) -> str:
        """Infeasible: too small an M, or too small a k."""
        if status == "infeasible" and self.unproved.any():
            return "no point satisfies all constraints; raise M, or use M='auto'"
        return super().explain(status)

    def models_of(self, kept: Bools, w: Any, b: float) -> list[BinaryModel]:
        """Return the hard-margin machine of a kept set, (w, b) scaled until the kept margins are 1, and the incumbent's."""
        models: list[BinaryModel] = []
        found = self.geometry.refit(kept)
        if found is not None:
            models.append(self._scaled(found.alpha * self.y, found.b, kept))
        if w is not None and np.isfinite(w).all():
            # The margins of the model itself: with fewer rows than features its coefficients have an error of their own.
            model = self.model_at(w, b)
            u = self.y * model.scores(self.space.data.X)[0]
            lowest = float(u[kept].min(initial=1.0))
            models.append(_shrunk(model, lowest) if 1.0 - LARGEST_SHORTFALL < lowest < 1.0 else model)
        return [*models, *self.restricted_models(kept, None), *self.incumbent_models()]

    def incumbent_models(self) -> list[BinaryModel]:
        """Return the model of the incumbent, if there is one."""
        if self.incumbent is None:
            return []
        return [self.model_at(self.incumbent.w, self.incumbent.b)]

    def restricted_models(self, kept: Bools, C: float | None) -> list[BinaryModel]:
        """Return the best model that drops a set under explicit rows u ≥ 1 − M, if these belong to the statement."""
        if not self.unproved.any():
            return []
        assert self.explicit is not None  # noqa: S101
        point = incumbents.restricted_point(self.geometry, kept, np.where(self.unproved, self.explicit, np.inf), C)
        return [] if point is None else [self.model_at(*point)]

    def model_at(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of (w, b); its support are the observations on or inside the margin."""
        u = self.geometry.incumbent(w, b, zero_one).u
        return self.space.model_from_factor(w, b, u <= 1.0 + LARGEST_SHORTFALL)

    def _scaled(self, v: Floats, b: float, kept: Bools) -> BinaryModel:
        """The model with coefficients `v`, scaled until the smallest kept margin is 1 to rounding."""
        f = self.space.product(v).scores
        y = self.y
        free = self.space.intercept == "free"
        if not v.any():
            return self.space.model(v, b)
        if free:
            lowest, highest = float(f[kept & (y > 0)].min()), float(f[kept & (y < 0)].max())
            margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
        else:
            margin = float((y * f)[kept].min())
        scale = margin if margin > 1.0 - LARGEST_SHORTFALL else 1.0
        return self.space.model(v / scale, b / scale if free else 0.0)


@dataclass(frozen=True, eq=False)
class Counting(Dropping):
    """Violated margins are counted: 0-1 loss and l0-norm hinge."""

    half: ClassVar[float]

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """The objective at a model.

        A margin that is below 1 by no more than its rounding is counted as satisfied; the cost of scaling the model
        until it is satisfied is part of the rounding.
        """
        f, f_rounding = model.scores(self.space.data.X)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        if not np.isfinite(u).all():
            return Evaluation(math.nan, 0.0)
        kept = u >= 1.0 - np.minimum(2 * f_rounding, LARGEST_SHORTFALL)
        loss = float(self.weight @ ~kept)
        if self._too_low(u, f_rounding):
            return Evaluation(math.inf, 0.0)
        short = 1.0 - float(np.minimum(u[kept], 1.0).min(initial=1.0))
        growth = norm * ((1.0 - short) ** -2 - 1.0)
        value = self.price(norm, loss)
        return Evaluation(
            value,
            self.half * (norm_rounding + growth) + (accumulated_rounding(u.size) * value if value < math.inf else 0.0),
        )


def _shrunk(model: BinaryModel, divisor: float) -> BinaryModel:
    """Return the model with its score divided by a number."""
    bias = model.intercept / divisor
    if isinstance(model, KernelModel):
        return replace(model, dual_coef=model.dual_coef / divisor, intercept=bias)
    assert isinstance(model, LinearModel)  # noqa: S101 - there is no third kind
    return replace(model, coef=model.coef / divisor, intercept=bias)


class DroppingProblem(FormulationProblem):
    """A mixed-integer program that drops observations.

    Attributes
    ----------
    M : ndarray of shape (n,) or None
    incumbent : Incumbent or None
    """

    _statement: Callable[[], Any]

    @property
    def formulation(self) -> Any:
        """The statement at the present values of the parameters."""
        return self._statement()

    @property
    def M(self) -> Floats | None:
        """Values of M, indexed like the kept observations; None in a perspective form without them."""
        found: Floats | None = self.formulation.M
        return found

    @property
    def incumbent(self) -> Incumbent | None:
        """The feasible point behind them."""
        found: Incumbent | None = self.formulation.incumbent
        return found

    def _point(self) -> tuple[Any, float, Bools]:
        """w, b and the kept set that a solver has left; without a point None, 0 and the incumbent's set."""
        statement = self.formulation
        w, z = self.var_dict["w"].value, self.var_dict["z"].value
        b = self.var_dict["b"].value if "b" in self.var_dict else 0.0
        if w is None or z is None or b is None:
            kept = np.zeros(statement.y.size, dtype=bool)
            return None, 0.0, kept if statement.incumbent is None else ~statement.incumbent.dropped
        return np.asarray(w), float(b), np.asarray(z) < 0.5

    def _start(self) -> dict[str, Any] | None:
        point = self.incumbent
        if point is None:
            return None
        return {"w": point.w} | ({"b": point.b} if "b" in self.var_dict else {})


class CountingProblem(DroppingProblem):
    """A problem that counts violated margins; see :func:`svmcvx.zero_one_mio` and :func:`svmcvx.l0_mio`.

    Attributes
    ----------
    M : ndarray of shape (n,) or None
    incumbent : Incumbent or None
    gamma : ndarray of shape (n,) or None
        Weights of the perspective form.
    """

    gamma: Floats | None = None
    _duals: tuple[Dual, ...] = ()

    def recover(self) -> RecoveredPoints:
        """The hard-margin machine of the kept observations, the solver's own point, the incumbent; γ of the relaxation."""
        w, b, kept = self._point()
        return RecoveredPoints(self.formulation.models_of(kept, w, b), list(self._duals))

    def start(self) -> Mapping[str, Any] | None:
        """The incumbent."""
        values = self._start()
        point = self.incumbent
        if values is None or point is None:
            return None
        values["z"] = z = point.dropped.astype(float)
        if self.gamma is not None:
            values["shortfall"] = np.where(z > 0, 1.0 - point.u, 0.0)
            values["excess"] = np.where(z > 0, 0.0, np.maximum(point.u - 1.0, 0.0))
            values["shortfall_cost"], values["excess_cost"] = values["shortfall"] ** 2, values["excess"] ** 2
        return values


def explicit_M(M: Any, space: FeatureSpace, *, optional: bool) -> Floats | None:
    """Return the M that the user chose, one an observation kept; None for "auto" (and for None where that is allowed)."""
    if (isinstance(M, str) and M == "auto") or (M is None and optional):
        return None
    data = space.data
    if isinstance(M, str) or M is None or np.ndim(M) == 0:
        words = "'auto', a positive number or one an observation"
        if isinstance(M, str) or M is None:
            raise DataError(f"M must be {words}, got {M!r}")
        return np.full(data.n, check_number(M, "M", low=0, open_low=True))
    values = np.asarray(M)
    if values.dtype.kind not in "iuf" or values.shape not in ((data.rows,), (data.n,)):
        raise DataError(f"M must hold one number an observation: expected shape ({data.rows},), got {values.shape}")
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError("M must be finite and non-negative; use M='auto' for values that are valid by construction")
    return values[data.index] if values.shape == (data.rows,) else values


def _model_margins(incumbent: Any, statement: Dropping) -> list[Floats]:
    """Margins of a model that the user passes as incumbent."""
    if incumbent is None:
        return []
    model = getattr(incumbent, "model", incumbent)
    if not isinstance(model, BinaryModel):
        raise DataError(f"incumbent must be a model of two classes or a Solution, got {type(incumbent).__name__}")
    return [statement.y * model.scores(statement.space.data.X)[0]]


def counting_pool(
    statement: Counting, incumbent: Any, *, lam: float | None, k: float | None
) -> tuple[tuple[Incumbent, ...], incumbents.Relaxation | None]:
    """Return feasible points from all heuristics, and the conic relaxation if it was solved.

    `lam` and `k` are those of the 0-1 problem that counts alike, one of them None.
    """
    geometry = statement.geometry
    relaxed, relaxation = geometry, None
    if geometry.free:
        # For a score only: the free bias as the coefficient of a large constant feature.
        size = max(1.0, float(np.sqrt(np.mean(geometry.G**2))))
        relaxed = replace(geometry, G=np.hstack([geometry.G, 10 * size * geometry.y[:, None]]), free=False)
    relaxation = incumbents.conic_relaxation(relaxed, lam=lam, k=k)
    scores = [np.where(u < 1.0 - incumbents.ON_MARGIN, u, np.inf) for u in _model_margins(incumbent, statement)]
    scores += [incumbents.soft_margin_scores(geometry, 1.0), incumbents.elastic_filter(geometry)]
    points = []
    if relaxation is not None:
        scores += [-relaxation.z, relaxed.G @ relaxation.w]
        if not geometry.free:
            w, _ = round_relaxation(statement.space, relaxation.w, relaxation.z, lam=lam, k=k)
            points.append((w, 0.0))
    best = incumbents.local_search(geometry, statement.price, least=statement.least, scores=scores, points=points)
    zeros = np.zeros(geometry.G.shape[1])
    biases = (0.0, 1.0, -1.0) if geometry.free else (0.0,)
    pool = [geometry.incumbent(zeros, b, zero_one) for b in biases]
    return tuple(([] if best is None else [best]) + pool), relaxation


def margin_parameter(statement: Callable[[], Dropping], n: int) -> cp.Expression:
    """Return M as an expression: constant if explicit, else a parameter that follows the hyper-parameters."""
    explicit = statement().explicit
    if explicit is not None:
        return cp.Constant(explicit)

    def values() -> Floats:
        M = statement().M
        if M is None:
            raise BuildError(
                "no feasible point is known at this k, so M='auto' has nothing to start from; raise k, pass an incumbent or "
                "a number M, or use form='perspective' with M=None"
            )
        return M

    values()
    return cp.CallbackParam(callback=values, shape=(n,), nonneg=True, name="M")


P = TypeVar("P", bound=DroppingProblem)


def free_intercept(fixed: Any, cls: type[P], terms: Terms) -> P:
    r"""State a problem with the parameter C and a free intercept: the l0 or the ramp problem.

    .. math:: \min\; \tfrac12\|w\|^2 + \mathrm{loss} \quad\text{s.t.}\quad y_i (L_i w + b) \ge \mathrm{right}_i.

    Parameters
    ----------
    fixed : Dropping
        The statement, with a field ``C``.
    cls : subclass of DroppingProblem
    terms : callable
        What is particular to the loss; see :data:`Terms`.
    """
    C = cp.Parameter(nonneg=True, name="C", value=fixed.C)

    def statement() -> Any:
        return replace(fixed, C=float(C.value))

    space, n = fixed.space, fixed.y.size
    w, b = cp.Variable(space.factor.shape[1], name="w"), cp.Variable(name="b")
    z = cp.Variable(n, boolean=True, name="z")
    loss, right, constraints = terms(C, z, 1 - cp.multiply(margin_parameter(statement, n), z))
    margin = (cp.multiply(fixed.y, space.factor @ w + b) >= right).set_label("margin")
    problem = cls(cp.Minimize(0.5 * cp.sum_squares(w) + loss), [margin, *constraints])
    problem._statement = statement
    return problem
