r"""What two certified points say of the optimum between two values of a hyper-parameter, by the way
in which it enters the objective.

Each rule returns lines below and above the optimum :math:`P^*(v)` on :math:`v = (1-t)v_0 + tv_1`,
from a model :math:`w_j` and a dual point :math:`a_j` at both ends.

**Affine** (C of pSVM, ramp and l0, λ of most others): the objective of a model is affine in v, so
that :math:`P^*`, a minimum of affine functions, is concave [GiesenJaggiLaue]. It is above the chord
of the lower ends and below the objectives of either model.

**Convex** (D of ODM): P is convex in (w, v) together, so that :math:`P^*` is convex and at most the
chord of the upper ends, which :math:`(1-t)w_0 + tw_1` attains. The dual objective is affine in v at
a fixed dual point: two lines below.

**Exponent** (p of pSVM): at a fixed model :math:`\xi^p = e^{p\log\xi}` is convex in p, so that P is
at most its chord. At a fixed dual point the conjugate of :math:`k\xi^p` (k = Cs) at a has, with
:math:`\xi = (a/kp)^{1/(p-1)}` and :math:`z = \log\xi`,

.. math:: \frac{d^2}{dp^2}\,\mathrm{conj} = \frac{k\xi^p}{p-1}\Big[(z+1)^2 - 1 + \tfrac1p\Big] \;\ge\; -k\,m(p), \qquad
    m(p) = \frac{2e^{r-p-1}}{p(1+r)}, \quad r = \sqrt{1+p(p-1)}

(the minimum over z). As m decreases in p, the dual objective is at least its chord less
:math:`\tfrac12t(1-t)(p_1-p_0)^2\,m(p_0)\sum_{a_i>0}Cs_i`: an error of the second order.

**Width** (γ of the kernels :math:`e^{-\gamma\delta}` of a distance δ, pSVM): each entry is convex
in γ, with a second derivative from :math:`\delta^2e^{-\gamma_1\delta}` to
:math:`\delta^2e^{-\gamma_0\delta}`. At fixed coefficients v the scores and :math:`v'Kv` are sums of
such entries, so that sums of these two numbers by the signs of the coefficients bound how far each
is from its chord. The dual objective has :math:`-\tfrac12v'Kv`; the objective of a model has
:math:`+\tfrac12v'Kv` and losses, which are convex and do not increase in the margins: they are at
most the chord of losses at margins that are smaller by what their chords may be above them.
Guaranteed paths of kernel widths: [GiesenLaueWieschollek].

**Rounding.** Values at the ends are those of the statements, with bounds; values between them are
in exact fractions (:mod:`svmcvx.experiments.ranges.pieces`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Certificate, Dual
from svmcvx.certificate.bounded import Bounded, exact, exp, log, sqrt, square, total
from svmcvx.certificate.rows import inner_error
from svmcvx.data import Features
from svmcvx.errors import DataError
from svmcvx.experiments.ranges.pieces import Piece, line
from svmcvx.formulations.margin import PSVM, objective
from svmcvx.kernels import RBF, Exponential, Kernel, Laplacian
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel

__all__ = ["RULES", "Node", "Rule", "mixed_dual", "mixed_model"]

Floats: TypeAlias = NDArray[np.float64]
StatementAt: TypeAlias = Callable[[float], Any]

# Entries of a block of the kernel matrix.
BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class Node:
    """A model and a dual point at a value of a parameter, and the interval that they have there."""

    value: float
    model: Model
    dual: Dual
    certificate: Certificate


class Rule(ABC):
    """How a hyper-parameter enters the objective."""

    # The least value, and whether it is allowed.
    least: ClassVar[float] = 0.0
    closed: ClassVar[bool] = False

    def check(self, estimator: Any) -> None:  # noqa: B027 - most rules do not depend on the other settings
        """Raise a :class:`DataError` if the rule does not hold for the other settings of an
        estimator.
        """

    def settings(self, estimator: Any, name: str, value: float) -> dict[str, Any]:
        """Return the arguments of ``set_params``."""
        return {name: value}

    def stated(self, statement: Any, settings: Mapping[str, float]) -> Any:
        """Return the statement at other values."""
        return statement.at(**settings)

    @abstractmethod
    def piece(self, stated: StatementAt, first: Node, last: Node) -> Piece:
        """Return what two nodes say."""


def _above(statement: Any, model: Model) -> float:
    """The objective of a model, from above."""
    found: float = statement.certify(model).upper
    return found


def _below(statement: Any, dual: Dual) -> float:
    """The dual objective at a point, from below; −∞ where it is not feasible."""
    if not dual or statement.dual_violation(dual) != 0:
        return -np.inf
    found: float = statement.evaluate_dual(dual).lower_end
    return found


def _lower_end(node: Node) -> float:
    return -np.inf if node.certificate.lower is None else node.certificate.lower


class Affine(Rule):
    """The objective of a model is affine."""

    def piece(self, stated: StatementAt, first: Node, last: Node) -> Piece:
        """The chord of the lower ends, and the lines of both models."""
        at_first, at_last = stated(first.value), stated(last.value)
        upper = (
            line(first.certificate.upper, _above(at_last, first.model)),
            line(_above(at_first, last.model), last.certificate.upper),
        )
        return Piece((first.value, last.value), (line(_lower_end(first), _lower_end(last)),), upper)


class ConicWeight(Affine):
    """λ of the conic relaxation, where that is stated with it."""

    def check(self, estimator: Any) -> None:
        """Only without κ."""
        if estimator.kappa is not None:
            raise DataError(
                "lam is ignored where kappa is given; set kappa=None for a certified path of lam"
            )


class Convex(Rule):
    """The objective is convex in model and parameter together, the dual objective affine in the
    parameter.
    """

    closed = True

    def piece(self, stated: StatementAt, first: Node, last: Node) -> Piece:
        """The chord of the upper ends, and the lines of both dual points."""
        lower = _dual_lines(stated, first, last, (0.0, 0.0))
        return Piece(
            (first.value, last.value),
            lower,
            (line(first.certificate.upper, last.certificate.upper),),
        )


class Exponent(Rule):
    """p of the pSVM."""

    least = 1.0
    closed = True

    def piece(self, stated: StatementAt, first: Node, last: Node) -> Piece:
        """The chords of both models, and those of both dual points less what the conjugates may
        bend.
        """
        at_first, at_last = stated(first.value), stated(last.value)
        upper = (
            line(first.certificate.upper, _above(at_last, first.model)),
            line(_above(at_first, last.model), last.certificate.upper),
        )
        shifts = [
            -self._sagitta(at_first, node.dual, first.value, last.value) for node in (first, last)
        ]
        return Piece(
            (first.value, last.value),
            _dual_lines(stated, first, last, (shifts[0], shifts[1])),
            upper,
        )

    @staticmethod
    def _sagitta(statement: PSVM, dual: Dual, first: float, last: float) -> float:
        if not dual:
            return np.inf
        p = exact(first)
        r = sqrt(1.0 + p * (p - 1.0))
        bend = 2.0 * exp(r - p - 1.0) / (p * (1.0 + r))
        used = statement.alpha(dual) > 0.0
        cost = exact(statement.C) * total(exact(statement.weight[used]))
        return float((0.125 * square(exact(last) - p) * bend * cost).upper)


def _dual_lines(
    stated: StatementAt, first: Node, last: Node, shifts: tuple[float, float]
) -> tuple[Any, ...]:
    """Return the chords of the dual objectives of both points, moved."""
    statements = stated(first.value), stated(last.value)
    return tuple(
        line(_below(statements[0], node.dual), _below(statements[1], node.dual), shift)
        for node, shift in zip((first, last), shifts, strict=True)
    )


class Width(Rule):
    """γ of a kernel that is an exponential of minus γ times a distance."""

    kernels: ClassVar = (RBF, Laplacian, Exponential)

    def check(self, estimator: Any) -> None:
        """The kernel has to be one of these."""
        kernel = estimator._kernel()
        if not isinstance(kernel, self.kernels):
            raise DataError(
                "a certified path of gamma is for the kernels 'rbf', 'laplacian' and"
                f" 'exponential', whose entries are convex in it; got kernel={estimator.kernel!r}"
            )

    def settings(self, estimator: Any, name: str, value: float) -> dict[str, Any]:
        """Of the kernel object, if the estimator has one."""
        return {f"kernel__{name}" if isinstance(estimator.kernel, Kernel) else name: value}

    def stated(self, statement: Any, settings: Mapping[str, float]) -> Any:
        """On the same rows, with another kernel, whose matrix needs no factor."""
        kernel = replace(statement.space.resolved, gamma=settings["gamma"])
        return replace(
            statement, space=replace(statement.space, resolved=kernel, cache=None, keep_gram=False)
        )

    def piece(self, stated: StatementAt, first: Node, last: Node) -> Piece:
        """The chords of both models and both dual points, moved by the distance between them and
        the curves.
        """
        statements = stated(first.value), stated(last.value)
        data, nodes = statements[0].space.data, (first, last)
        duals = [
            statements[0].coefficients(node.dual) if node.dual else np.zeros(data.n)
            for node in nodes
        ]
        models: list[Any] = [node.model for node in nodes]
        expansions = [np.zeros(data.n), np.zeros(data.n)]
        for v, model in zip(expansions, models, strict=True):
            v[np.searchsorted(data.index, model.support)] = model.dual_coef
        v = np.column_stack([*duals, *expansions])
        low, high = _sagittae(
            (statements[0].space.resolved, statements[1].space.resolved), data.X, v
        )
        norms = [_norm_sagitta(v[:, k], low[:, k], high[:, k]) for k in range(4)]
        upper = []
        for k, model in enumerate(models, start=2):
            reduced = exact(np.maximum(_times_signs(data.y, low[:, k], high[:, k])[1], 0.0))
            ends = [self._objective(statement, model, reduced) for statement in statements]
            upper.append(line(ends[0], ends[1], 0.5 * norms[k]))
        lower = _dual_lines(stated, first, last, (-0.5 * norms[0], -0.5 * norms[1]))
        return Piece((first.value, last.value), lower, tuple(upper))

    @staticmethod
    def _objective(statement: Any, model: Any, reduced: Bounded) -> float:
        """The objective of coefficients in the space of a statement at smaller margins, from above."""
        moved = replace(model, kernel=statement.space.resolved)
        found = objective(
            statement.penalty(moved),
            statement.margins_of(moved) - reduced,
            weight=statement.loss_weight,
            C=exact(statement.C),
            p=exact(statement.p),
        )
        return float(found.upper_end)


def _times_signs(y: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the ends of intervals times the signs of y."""
    return np.where(y > 0, low, -high), np.where(y > 0, high, -low)


def _norm_sagitta(v: Floats, low: Floats, high: Floats) -> float:
    """Return at least how far v'Kv may be above its chord, from how far the scores may be below
    theirs; not negative.
    """
    least, _ = _times_signs(v, low, high)
    return max(float((-total(exact(np.abs(v)) * exact(least))).upper_end), 0.0)


def _sagittae(kernels: tuple[Kernel, Kernel], X: Features, v: Floats) -> tuple[Floats, Floats]:
    r"""Return ends of
    :math:`\tfrac18(\gamma_1-\gamma_0)^2\sum_jv_j\delta_{ij}^2e^{-\gamma\delta_{ij}}` for all γ
    between those of two kernels.
    """
    gammas: Any = [exact(kernel.gamma) for kernel in kernels]  # type: ignore[attr-defined]
    scale = 0.125 * square((gammas[1] - gammas[0]) / gammas[0])
    used = np.flatnonzero(v.any(axis=1))
    low, high = np.zeros(v.shape), np.zeros(v.shape)
    plus, minus = np.maximum(v[used], 0.0), np.maximum(-v[used], 0.0)
    rows = max(1, BLOCK // max(used.size, 1))
    for start in range(0, v.shape[0] if used.size else 0, rows):
        part = slice(start, start + rows)
        near, far = _curvatures(kernels, X[part], X[used])
        low[part] = (scale * (_product(far, plus) - _product(near, minus))).lower
        high[part] = (scale * (_product(near, plus) - _product(far, minus))).upper
    return low, high


def _curvatures(kernels: tuple[Kernel, Kernel], A: Features, B: Any) -> tuple[Floats, Floats]:
    r"""Return :math:`(\gamma_0\delta)^2e^{-\gamma\delta}` of all pairs at its largest, from above,
    and at its least, from below.
    """
    found = []
    for kernel in kernels:
        values, error = kernel.bounded_block(A, B)
        found.append(Bounded(values, error.matrix(values)))
    first, last = found
    top = np.minimum(first.upper, 1.0)
    least = np.maximum((-log(exact(top))).lower, 0.0)
    with np.errstate(all="ignore"):
        largest = (-log(exact(np.maximum(first.lower, 0.0)))).upper
    if not (largest[least < 2.0] < np.inf).all():
        raise DataError(
            "an entry of the kernel matrix is not known to any digit, so that gamma has no"
            " certified path"
        )
    near = np.where(
        least >= 2.0,
        (square(exact(least)) * exp(-exact(least))).upper,
        (square(exact(largest)) * exact(top)).upper,
    )
    far = np.maximum((square(exact(least)) * exact(np.maximum(last.lower, 0.0))).lower, 0.0)
    return np.nan_to_num(near, nan=np.inf), far


def _product(W: Floats, v: Floats) -> Bounded:
    """Return products of matrices of numbers that are not negative."""
    found = W @ v
    return Bounded(found, np.asarray(inner_error(v.shape[0] + 2, found)))


def mixed_model(first: Any, last: Any, t: float) -> Any:
    """Return (1 − t) times a model plus t times another one; None for models that are not added
    here.
    """
    if type(first) is not type(last) or type(first) not in (
        LinearModel,
        KernelModel,
        MulticlassModel,
    ):
        return None
    support = np.union1d(first.support, last.support)
    intercept = ((1.0 - t) * np.asarray(first.intercept) + t * np.asarray(last.intercept))[()]
    if not isinstance(first, KernelModel):
        return replace(
            first, coef=(1.0 - t) * first.coef + t * last.coef, intercept=intercept, support=support
        )
    if not (isinstance(first.vectors, np.ndarray) and isinstance(last.vectors, np.ndarray)):
        return None
    v, vectors = np.zeros(support.size), np.zeros((support.size, first.n_features))
    for model, share in ((first, 1.0 - t), (last, t)):
        places = np.searchsorted(support, model.support)
        v[places] += share * model.dual_coef
        vectors[places] = model.vectors
    return replace(first, vectors=vectors, dual_coef=v, intercept=float(intercept), support=support)


def mixed_dual(first: Dual, last: Dual, t: float) -> Dual | None:
    """Return the same of two dual points; None where they have not the same entries."""
    if (
        not first
        or first.keys() != last.keys()
        or any(first[k].shape != last[k].shape for k in first)
    ):
        return None
    return {name: (1.0 - t) * first[name] + t * last[name] for name in first}


_LAM: Final = {"lam": Affine()}
RULES: Final[Mapping[str, Mapping[str, Rule]]] = {
    "psvm": {"C": Affine(), "p": Exponent(), "gamma": Width()},
    "l1_squared_hinge": {"C": Affine()},
    "odm": {"C1": Affine(), "C2": Affine(), "D": Convex()},
    "odml": {"lam1": Affine(), "lam2": Affine(), "C": Affine()},
    "conic": {"lam": ConicWeight()},
    "m3svm": _LAM,
    "multiclass": _LAM,
    "zero_one": _LAM,
    "ramp": {"C": Affine()},
    "l0": {"C": Affine()},
}
