r"""Mixed-integer programs that drop observations, as cvxpy problems that know their statement.

Values of M follow from feasible points. Some of these are proposed by the machine with the conic
loss at :math:`\gamma_i \propto s_i/\|x_i\|^2`, whose dual point bounds the 0-1 problem too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, cast

import cvxpy as cp
import numpy as np

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import Dual
from svmcvx.data import check_choice, check_number, check_weights
from svmcvx.errors import BuildError, DataError, DataTypeError
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import RecoveredPoints, bound_space, usable
from svmcvx.formulations.conic_loss.problems import conic_sdp, perspective
from svmcvx.formulations.conic_loss.statement import ConicFixedGamma, smoothed
from svmcvx.formulations.indicator.statement import (
    L0,
    BigMRelaxation,
    CountingStatement,
    IndicatorStatement,
    Ramp,
    ZeroOne,
    l0_statement,
    zero_one_statement,
)
from svmcvx.formulations.problem import FormulationProblem, builder, following, scalar
from svmcvx.formulations.signed_rows import (
    ON_MARGIN,
    Incumbent,
    SignedRows,
    elastic_filter,
    local_search,
    never,
    ramp_descent,
    soft_margin_scores,
)
from svmcvx.kernels import KernelLike
from svmcvx.losses import ramp, zero_one
from svmcvx.model import BinaryModel, Model
from svmcvx.system.deadline import current, interruptible

# Feasible points to start from


def norms_gamma(G: Floats, weight: Floats) -> Floats:
    r"""Return the largest multiple of :math:`s_i / \|g_i\|^2` with a definite quadratic."""
    squares = np.einsum("ij,ij->i", G, G)
    found = weight / np.maximum(squares, 1e-9 * (float(squares.max()) or 1.0))
    largest = float(np.linalg.eigvalsh((G * found[:, None]).T @ G)[-1])
    return np.asarray(found * ((1.0 - 1e-6) / (largest or 1.0)))


def robust_margins(
    geometry: SignedRows, *, lam: float | None, k: float | None, stop: Callable[[], bool] = never
) -> dict[float, Floats]:
    """Return the margins without bias of machines with the conic loss at the γ of the norms, by
    their λ; for k of a few. None if the data are too large, or all or nothing may be dropped.

    The losses are bounded: far outliers do not move these machines.
    """
    G, weight = geometry.G, geometry.weight
    # Floating-point operations of a step.
    if G.size * G.shape[1] > 1e8 or (k is not None and not 0 < k < float(weight.sum())):
        return {}
    prices = [lam or 0.0]
    if k is not None:
        size = k * float(np.mean(np.einsum("ij,ij->i", G, G)))
        prices = (np.geomspace(0.4, 40.0, 5) / size).tolist()
    found = {}
    # Prices beyond the range of floating point: there are other heuristics.
    with (
        np.errstate(over="ignore", invalid="ignore", divide="ignore"),
        suppress(np.linalg.LinAlgError, ArithmeticError),
    ):
        gamma = norms_gamma(G, weight)
        for price in prices:
            *_, machine = smoothed(G, gamma, price * weight, stop)
            found[price] = G @ machine.w
    return found


def counting_pool(
    statement: CountingStatement, earlier: Floats | None, *, lam: float | None, k: float | None
) -> tuple[tuple[Incumbent, ...], list[float]]:
    """Return points of all heuristics, and the λ of robust machines; `lam` or `k` is None."""
    deadline = current()
    began = deadline.seconds
    geometry = statement.geometry
    # Writing the program takes about as long as the factor.
    deadline = deadline.earlier(deadline.seconds - began)
    stop = deadline.passed
    relaxed = geometry
    if geometry.free:
        # For a score only: the free bias as the coefficient of a large constant feature.
        size = 10.0 * max(1.0, float(np.sqrt(np.mean(geometry.G**2))))
        relaxed = replace(
            geometry, G=np.hstack([geometry.G, size * geometry.y[:, None]]), free=False
        )
    with interruptible(deadline):
        robust = robust_margins(relaxed, lam=lam, k=k, stop=stop)
        scores = [] if earlier is None else [np.where(earlier < 1.0 - ON_MARGIN, earlier, np.inf)]
        scores += [soft_margin_scores(geometry, 1.0, stop), elastic_filter(geometry, stop)]
        # By margins, and by indicators of the relaxation up to a factor.
        lengths = np.maximum(np.linalg.norm(relaxed.G, axis=1), 1e-150)
        scores += [score for u in robust.values() for score in (u, (u - 1.0) / lengths)]
        best = local_search(geometry, statement.objective_value, scores=scores, stop=stop)
    zeros = np.zeros(geometry.G.shape[1])
    biases = (0.0, 1.0, -1.0) if geometry.free else (0.0,)
    constants = [geometry.incumbent(zeros, b, zero_one) for b in biases]
    return tuple(([] if best is None else [best]) + constants), list(robust)


def incumbent_margins(incumbent: Any, statement: CountingStatement) -> Floats | None:
    """Return the margins of a user's incumbent, a model or a solution; None for None."""
    if incumbent is None:
        return None
    model = getattr(incumbent, "model", incumbent)
    if not isinstance(model, BinaryModel):
        raise DataTypeError(
            "incumbent must be a model of two classes or a Solution, got"
            f" {type(incumbent).__name__}"
        )
    return np.asarray(statement.y * model.scores(statement.space.data.X).value)


def ramp_pool(counting: L0, earlier: Floats | None) -> tuple[Incumbent, ...]:
    """Return constant scores, hinge machines without what these give up, and the counting pool."""
    geometry, deadline = counting.geometry, current()
    starts, _ = counting_pool(counting, earlier, lam=2 * counting.C, k=None)
    sets = [np.zeros(counting.y.size, dtype=bool), starts[0].u < -1.0]
    if earlier is not None:
        sets.append(earlier < -1.0)
    points = [(point.w, point.b) for point in starts]
    points += [(np.zeros(geometry.G.shape[1]), b) for b in (1.0, -1.0)]
    with interruptible(deadline):
        points += [ramp_descent(geometry, counting.C, dropped, deadline.passed) for dropped in sets]
    return tuple(geometry.incumbent(w, b, ramp) for w, b in points)


# The programs


GAMMAS = ("norms", "best")


def perspective_gamma(
    statement: ZeroOne, gamma: Any, build: Callable[[], FormulationProblem], *, relax: bool
) -> Floats:
    """Return γ of a user, of the norms, or of the relaxation; positive for integer z."""
    if not isinstance(gamma, str):
        given = per_observation(gamma, statement.space, "gamma")
        if not (relax or given.all()):
            raise DataError("gamma must be positive where z is integer; pass relax=True, or more")
        return given
    norms = norms_gamma(statement.geometry.G, statement.weight)
    if check_choice(gamma, "gamma", GAMMAS) == "norms":
        return norms
    (relaxation := build()).solve()
    best = relaxation.constraint_dict["moment"].dual_value
    if not usable(best):
        raise BuildError("Clarabel did not solve the conic relaxation; use gamma='norms'")
    fixed = ConicFixedGamma(statement.space, np.maximum(best, 0.0), 1.0)
    found = fixed.gamma * ((1.0 - 1e-9) / max(float(fixed.spectrum[0][-1]), 1.0))
    return found if relax else 0.95 * found + 0.05 * norms


def explicit_M(M: Any, space: FeatureSpace, *, optional: bool) -> Floats | None:
    """Return the user's M per observation of positive weight; None for "auto" or allowed None."""
    if (isinstance(M, str) and M == "auto") or (M is None and optional):
        return None
    if isinstance(M, str) or M is None:
        raise DataError(f"M must be 'auto', a positive number or one an observation, got {M!r}")
    if np.ndim(M) == 0:
        return np.full(space.data.n, check_number(M, "M", "(0, inf)"))
    return per_observation(M, space, "M")


def per_observation(values: Any, space: FeatureSpace, name: str) -> Floats:
    """Return numbers ≥ 0 of the observations of positive weight, for either indexing."""
    data = space.data
    whole = np.shape(values) != (data.n,)
    found = check_weights(values, data.rows if whole else data.n, name=name)
    return found[data.index] if whole else found


class DroppingProblem(FormulationProblem):
    """A mixed-integer program that drops observations, or its relaxation with z in [0, 1]."""

    @property
    def M(self) -> Floats | None:
        """Values of M of observations of positive weight; None in a perspective form without."""
        found: Floats | None = getattr(self.formulation, "M", None)
        return found

    @property
    def incumbent(self) -> Incumbent | None:
        """The best feasible point of the program with integers that the builder knows."""
        stated = getattr(self.formulation, "program", self.formulation)
        found: Incumbent | None = getattr(stated, "incumbent", None)
        return found

    def model_at_variables(self) -> BinaryModel | None:
        """Return the model of ``w``, ``b``, both scaled to the margins that a statement demands."""
        statement: Any = self.formulation
        model: Any = super().model_at_variables()
        if model is None or not isinstance(statement, (CountingStatement, BigMRelaxation)):
            return cast("BinaryModel | None", model)
        found = self.var_dict
        for attempt in range(3):
            divisor = statement.divisor(model, np.asarray(found["z"].value) < 0.5, attempt)
            if divisor is None:
                break
            for name in found.keys() & {"w", "b"}:
                found[name].value = found[name].value / divisor
            model = super().model_at_variables()
        return cast("BinaryModel | None", model)

    @property
    def complete_below(self) -> float:
        rows = "margin" in self.constraint_dict
        return float(self.formulation.complete_below) if rows else math.inf

    def proved_bound(self, value: float) -> float:
        found: float = self.formulation.bound_of_search(value)
        return found

    def solver_point(self) -> tuple[Floats | None, float, Bools]:
        """Return w, b and the kept set of a solver, or None, 0 and the incumbent's set."""
        statement = self.formulation
        w, z = self.var_dict["w"].value, self.var_dict["z"].value
        b = self.var_dict["b"].value if "b" in self.var_dict else 0.0
        if not usable((w, z, b)):
            kept = np.zeros(statement.y.size, dtype=bool)
            return None, 0.0, kept if statement.incumbent is None else ~statement.incumbent.dropped
        return np.asarray(w), float(b), np.asarray(z) < 0.5

    def start(self) -> Mapping[str, Any] | None:
        point = self.incumbent
        if point is None:
            return None
        values = {"w": point.w} | ({"b": point.b} if "b" in self.var_dict else {})
        return values | self.start_of(point)

    def start_of(self, point: Incumbent) -> dict[str, Any]:
        """Return the values of the other variables at a feasible point."""
        raise NotImplementedError


class CountingProblem(DroppingProblem):
    """A problem that counts violated margins."""

    gamma: Floats | None = None
    relaxed_duals: tuple[Dual, ...] = ()

    def recover(self) -> RecoveredPoints:
        """Return the kept set's machine, the solver's point, the incumbent; γ of the relaxation."""
        if not self.is_mixed_integer():
            return super().recover()
        w, b, kept = self.solver_point()
        models = [
            *self.formulation.recovered_models(kept, w, b),
            *self.formulation.incumbent_models(),
        ]
        return RecoveredPoints(models, list(self.relaxed_duals))

    def start_of(self, point: Incumbent) -> dict[str, Any]:
        dropped = point.dropped
        if self.gamma is None:
            return {"z": dropped.astype(float)}
        shortfall = np.where(dropped, 1.0 - point.u, 0.0)
        excess = np.where(dropped, 0.0, np.maximum(point.u - 1.0, 0.0))
        return {
            "z": dropped.astype(float),
            "shortfall": shortfall,
            "excess": excess,
            "shortfall_cost": shortfall**2,
            "excess_cost": excess**2,
        }


def margin_parameter(
    statement: IndicatorStatement, name: str, parameter: cp.Parameter
) -> cp.Expression:
    """Return M, as a parameter that follows the hyper-parameter unless it is explicit."""
    if statement.explicit is not None:
        return cp.Constant(statement.explicit)
    values = partial(_M_at, statement, name)
    values(float(parameter.value))
    return following(values, parameter, name="M", shape=(statement.y.size,))


# cvxpy reads a parameter often.
@lru_cache(maxsize=4)
def _M_at(statement: IndicatorStatement, name: str, value: float) -> Floats:
    """Return M at a value of the hyper-parameter."""
    M = statement.at(**{name: value}).M
    if M is None:
        raise BuildError(
            "no feasible point is known at this k, so M='auto' has nothing to start from; raise k,"
            " pass an incumbent or a number M, or use form='perspective' with M=None"
        )
    return M


def _indicators(statement: IndicatorStatement, relax: bool) -> tuple[cp.Variable, Any]:
    """Return z, and the constraints that it is in [0, 1] where it has no integers."""
    z = cp.Variable(statement.y.size, boolean=not relax, name="z")
    return z, [(z >= 0).set_label("box_low"), (z <= 1).set_label("box_high")] if relax else []


def _with_free_intercept(statement: L0 | Ramp, relax: bool) -> tuple[Any, ...]:
    """Return C, z with its bounds, ½‖w‖², the margins, 1 − Mz below them, and the statement."""
    L, C = statement.space.factor, scalar("C", statement.C, nonneg=True)
    w, b = cp.Variable(L.shape[1], name="w"), cp.Variable(name="b")
    z, box = _indicators(statement, relax)
    u = cp.multiply(statement.y, L @ w + b)
    right = 1 - cp.multiply(margin_parameter(statement, "C", C), z)
    stated = BigMRelaxation.of(statement) if relax else statement
    return C, z, box, 0.5 * cp.sum_squares(w), u, right, stated


FORMS = ("big-m", "perspective")


@builder
def zero_one_mio(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    k: float | None = None,
    M: Any = "auto",
    form: str = "big-m",
    gamma: Any = "norms",
    relax: bool = False,
    kernel: KernelLike = None,
    intercept: bool | str = True,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    time_limit: float | None = None,
) -> CountingProblem:
    r"""Build the SVM with the exact 0-1 loss as a mixed-integer program.

    .. math::
        \min\; \|w\|^2 + \lambda \sum_i s_i z_i
        \quad\text{s.t.}\quad y_i L_i w \ge 1 - M_i z_i,\; z \in \{0,1\}^n,

    or with :math:`\sum_i s_i z_i \le k` in place of the penalty, or in the perspective form (see
    the module).

    Source: [CepedaGomezHan], § 2 (big-M, after [Brooks]) and eq. (14) with integer z.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Parameters
    ----------
    lam : float
        Price of a margin below 1, positive. The cvxpy parameter ``problem.param_dict["lam"]``.
        Exactly one of `lam`, `k`.
    k : float
        Largest weight of observations with a margin below 1 (their number, without weights). A
        cvxpy parameter. A BuildError is raised if ``M="auto"`` finds no feasible point for it.
    M : "auto", float, array-like of shape (n,), or None
        ``"auto"`` (the default) is valid by construction. Numbers that are smaller than these are
        not known to be valid: then the problem solved is the one with :math:`u_i \ge 1 - M_i`
        added, the certificate's interval is about *that* problem, and its residuals say so:
        ``"unproved_M"`` counts such values, ``"binding_M"`` those that bind at the model. If one
        binds the answer is not exact; if none does it still need not be, since an optimum elsewhere
        may have been cut off. None: the perspective form without big-M rows.
    form : "big-m" or "perspective"
        The latter has the stronger relaxation.
    gamma : "norms", "best" or array-like of shape (n,)
        γ of the perspective form, with :math:`\sum_i\gamma_i x_i x_i' \preceq I`. "norms" (the
        default) is the largest multiple of :math:`s_i/\|x_i\|^2`; "best", with `lam`, that of
        :func:`svmcvx.conic_sdp`, which is solved for it.
    relax : bool
        State the relaxation with :math:`z \in [0, 1]^n`, with `lam`: a convex problem, of which
        each lower bound is one of the program. The big-M form is a hinge machine of the prices
        :math:`\lambda s_i/M_i`; the perspective form, without big-M rows, the problem of
        :func:`svmcvx.conic_fixed_gamma`.
    incumbent : Model or Solution, optional
        A classifier to start the search for an incumbent from, besides the builder's own
        heuristics.
    time_limit : float, optional
        Seconds for building; the heuristics that look for an incumbent take some on hundreds of
        observations, and end there.

    Returns
    -------
    CountingProblem
        A ``cvxpy.Problem``. In the perspective form ``shortfall`` is :math:`(1-u)_+` and ``excess``
        :math:`(1-u)_-`. ``problem.M``, ``problem.incumbent`` and ``problem.gamma`` hold what was
        derived; a solution has M in ``details``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.zero_one_mio(X, y, lam=2.0))  # the last observation is dropped
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (3.0, 'mixed-integer')
    """
    check_choice(form, "form", FORMS)
    numbers = not (M is None or isinstance(M, str))
    if relax and (lam is None or (form == "perspective" and numbers)):
        raise DataError("relax=True takes lam in place of k, and numbers M in the big-M form only")
    of_the_space = {"kernel": kernel, "intercept": intercept, "sample_weight": sample_weight}
    of_the_space |= {"indefinite": indefinite}
    space = bound_space(X, y, **of_the_space)
    statement = zero_one_statement(space, lam, k, "zero_one_mio")
    data, lam, k = space.data, statement.lam, statement.k
    explicit = explicit_M(M, space, optional=form == "perspective")
    statement = replace(statement, explicit=explicit, form=form)
    pool, prices = counting_pool(statement, incumbent_margins(incumbent, statement), lam=lam, k=k)
    statement = replace(statement, pool=pool)

    name, value = ("k", k) if lam is None else ("lam", lam)
    parameter = scalar(name, value, nonneg=True)
    G, weight = statement.geometry.G, data.weight
    w, (z, constraints) = cp.Variable(G.shape[1], name="w"), _indicators(statement, relax)
    u = cp.multiply(data.y, space.factor @ w)
    # Without a known feasible point there is no valid M; the perspective form can do without.
    if form == "big-m" or not (relax or M is None or statement.M is None):
        constraints.append(
            (u >= 1 - cp.multiply(margin_parameter(statement, name, parameter), z)).set_label(
                "margin"
            )
        )
    values: Floats | None = None
    objective: cp.Expression = cp.sum_squares(w)
    stated: Any = statement
    if form == "perspective":
        values = perspective_gamma(
            statement, gamma, partial(conic_sdp, X, y, lam=lam, **of_the_space), relax=relax
        )
        fixed = ConicFixedGamma(space, values, statement.price or 1.0)
        # A solver's tolerance ε lets through margins that are short by √ε, so that the valid big-M
        # rows are added by default.
        objective, rows = perspective(fixed, w, z)
        constraints += rows
        stated = fixed if relax else statement
    elif relax:
        stated = BigMRelaxation.of(statement)
    if k is not None:
        constraints.append((weight @ z <= parameter).set_label("budget"))
    else:
        objective = objective + parameter * (weight @ z)
    problem = CountingProblem(cp.Minimize(objective), constraints, stated, {name: parameter})
    problem.gamma = values
    if prices:
        point = norms_gamma(G, weight) if values is None else values
        problem.relaxed_duals = tuple({"gamma": point, "lam": np.array(lam)} for lam in prices)
    return problem


class RampProblem(DroppingProblem):
    def recover(self) -> RecoveredPoints:
        """Return the hinge machine of the kept set, the solver's point, and the incumbent."""
        if not self.is_mixed_integer():
            return super().recover()
        statement = self.formulation
        w, b, kept = self.solver_point()
        points = []
        if w is not None:
            points = [
                ramp_descent(statement.geometry, statement.C, ~kept, current().passed),
                (w, b),
            ]
        models = [
            statement.model_in_the_middle(*point) for point in points
        ] + statement.restricted_models(kept, statement.C)
        return RecoveredPoints([*models, *statement.incumbent_models()], [])

    def start_of(self, point: Incumbent) -> dict[str, Any]:
        dropped = point.u < -1.0
        xi = np.where(dropped, 0.0, ramp(point.u)) * max(1.0, self.formulation.C)
        return {"z": dropped.astype(float), "xi": xi}


@builder
def ramp_mio(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    M: Any = "auto",
    relax: bool = False,
    kernel: KernelLike = None,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    time_limit: float | None = None,
) -> RampProblem:
    r"""Build the SVM with ramp loss as a mixed-integer program.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i (\xi_i + 2 z_i) \quad\text{s.t.}\quad
        y_i (L_i w + b) \ge 1 - \xi_i - M_i z_i,\; 0 \le \xi_i \le 2(1 - z_i),\; z \in \{0,1\}^n.

    Source: [Brooks], in the scaling of [CepedaGomezHan], § 2, with ½‖w‖². An observation that is
    dropped needs no slack: the upper bound 2(1 − z_i) in place of 2 cuts off no optimum and gives
    the stronger relaxation. Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Parameters
    ----------
    X, y, M, relax, incumbent
        As for :func:`svmcvx.zero_one_mio`.
    C : float
        Weight of the losses, positive; 1 by default. The cvxpy parameter
        ``problem.param_dict["C"]``.

    Returns
    -------
    RampProblem
        A ``cvxpy.Problem``. The variable ``xi`` is :math:`\max(1, C)\,\xi`, and ``b`` belongs to
        centred data when `X` is dense and linear.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.ramp_mio(X, y, C=1.0))  # the last observation costs 2
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (2.5, 'mixed-integer')
    """
    space = bound_space(X, y, kernel, "free", sample_weight, indefinite, own="free")
    counting = l0_statement(space, C)
    statement = Ramp(space, explicit=explicit_M(M, space, optional=False), C=counting.C)
    statement = replace(statement, pool=ramp_pool(counting, incumbent_margins(incumbent, counting)))
    parameter, z, box, half, u, right, stated = _with_free_intercept(statement, relax)
    # A solver lets ξ be below 0 by its tolerance, at a price of C: for large C the variable is Cξ
    # instead, and its unit 1/C.
    unit = following(_unit, parameter, name="unit")
    price = following(partial(min, 1.0), parameter, name="price")
    xi = cp.Variable(z.size, name="xi")
    loss = parameter * (2 * (statement.weight @ z)) + price * (statement.weight @ xi)
    constraints = [
        (u >= right - unit * xi).set_label("margin"),
        (xi >= 0).set_label("slack"),
        (unit * xi <= 2 * (1 - z)).set_label("ceiling"),
        *box,
    ]
    return RampProblem(cp.Minimize(half + loss), constraints, stated, {"C": parameter})


def _unit(C: float) -> float:
    return 1.0 / max(1.0, C)


@builder
def l0_mio(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    M: Any = "auto",
    relax: bool = False,
    kernel: KernelLike = None,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    time_limit: float | None = None,
) -> CountingProblem:
    r"""Build the SVM with l0-norm hinge loss as a mixed-integer program.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i z_i
        \quad\text{s.t.}\quad y_i (L_i w + b) \ge 1 - M_i z_i,\; z \in \{0,1\}^n.

    Source: [LinYaoLiu], eq. (2.4), solved globally.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Parameters
    ----------
    X, y, M, relax, incumbent
        As for :func:`svmcvx.zero_one_mio`.
    C : float
        Price of a margin below 1, positive; 1 by default. The cvxpy parameter
        ``problem.param_dict["C"]``.

    Returns
    -------
    CountingProblem
        A ``cvxpy.Problem``. ``b`` belongs to centred data when `X` is dense and linear.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.l0_mio(X, y, C=1.0))  # the last observation costs 1
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (1.5, 'mixed-integer')
    """
    space = bound_space(X, y, kernel, "free", sample_weight, indefinite, own="free")
    explicit = explicit_M(M, space, optional=False)
    statement = replace(l0_statement(space, C), kind="mixed-integer", explicit=explicit)
    earlier = incumbent_margins(incumbent, statement)
    pool, _ = counting_pool(statement, earlier, lam=2 * statement.C, k=None)
    statement = replace(statement, pool=pool)
    parameter, z, box, half, u, right, stated = _with_free_intercept(statement, relax)
    value = cp.Minimize(half + parameter * (statement.weight @ z))
    constraints = [(u >= right).set_label("margin"), *box]
    return CountingProblem(value, constraints, stated, {"C": parameter})
