r"""The conic loss: the SVM with 0-1 loss, relaxed to a semidefinite program.

**What is relaxed**, with weights :math:`s_i > 0` (1 by default) and :math:`u_i = y_i\langle w, x_i\rangle`:

.. math:: \min_w\; \|w\|^2 + \lambda \sum_i s_i\, 1[u_i < 1].

**Relaxation** (Theorem 2 of the paper, ``form="paper"``), with :math:`t_i = \langle x_i x_i', W\rangle - 2u_i + 1`:

.. math::
    \min_{w, W, z}\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad
    t_i \ge \frac{(1-u_i)_+^2}{z_i} + \frac{(1-u_i)_-^2}{1-z_i},\quad 0 \le z \le 1,\quad
    \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0.

**Reduced form** (``form="reduced"``, the default, same optimum): :math:`t_i \ge (1-u_i)^2` follows from the last
constraint, and the best :math:`z_i` is :math:`(1-u_i)_+^2/t_i`, so one cone an observation is enough. With
:math:`W = ww' + VV'` and :math:`v_i = \|V'x_i\|^2`

.. math:: P(w, V) = \|w\|^2 + \|V\|_F^2 + \lambda \sum_i s_i z_i, \qquad z_i = \frac{(1-u_i)_+^2}{v_i + (1-u_i)_+^2}.

*A reading.* :math:`z_i` is Cantelli's bound: the smallest probability, over all random hyperplanes with mean w and
covariance :math:`VV'`, of a margin below 1. The relaxation replaces one hyperplane by the most favourable random one.

**Cardinality form** (Appendix C): no λ, but :math:`\sum s_i z_i \le \kappa \sum s_i`; λ is then the multiplier of this row.

**Dual.** With multipliers :math:`\gamma_i \ge 0` of the definition of :math:`t_i` and :math:`\alpha_i` of
:math:`m_i \ge 1 - u_i`, and :math:`Q = I - \sum_i \gamma_i x_i x_i' \succ 0`:

.. math::
    D(\gamma, \alpha) = \sum_i (\alpha_i - \gamma_i) - \sum_i h_i^*(\alpha_i) - \tfrac14 c'Q^{-1}c, \qquad
    c = \sum_i (\alpha_i - 2\gamma_i)\, y_i x_i,

.. math:: h_i^*(\alpha) = \Big(\frac{(\alpha)_+^2}{4\gamma_i} - \lambda s_i\Big)_+ + \frac{(\alpha)_-^2}{4\gamma_i}.

For fixed γ the best α gives :math:`\min_w q(w)`, :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)` with the *conic loss*
L of :func:`svmcvx.losses.conic_loss`; for any w with subgradient g, α taken from the slopes at w gives at least the
page's :math:`q(w) - \|g\|^2/(4\mu)` with :math:`\mu = \lambda_{\min}(Q)`. At the optimum
:math:`\gamma_i = \lambda s_i (1-u_i)_+^2/t_i^2` and :math:`\alpha_i = 2\lambda s_i (1-u_i)_+/t_i`. In the cardinality form λ is a
multiplier too, and :math:`-\lambda\kappa\sum s_i` is added to D.

**Two intervals.** D is a lower bound of the 0-1 problem as well (in the cardinality form: of
:math:`\min \|w\|^2` with observations of total weight at most :math:`\kappa\sum s_i` dropped). The certificate's
``lower`` and ``upper`` enclose the optimum of the semidefinite program; its residuals ``"zero_one_lower"`` and
``"zero_one_upper"`` enclose that of the 0-1 problem, the upper end attained by a rounding
(:func:`svmcvx.heuristics.rounding.round_relaxation`).

============== ====================================================== ==========
symbol         meaning                                                shape
============== ====================================================== ==========
X, y           data, labels ±1                                        (n, d), (n,)
L              data with the constant feature, or a factor of K       (n, r)
w, W           mean and second moment, in the columns of L            (r,), (r, r)
V              factor of the covariance W − ww'                       (r, k)
z              relaxed indicator of a margin below 1                  (n,)
gamma, alpha   multipliers                                            (n,), (n,)
============== ====================================================== ==========

**Scaling.** There is no ½ on the norm: with a hinge in place of the 0-1 loss this would be the SVM with C = λ/2. The
intercept is the coefficient of a constant feature and is penalised with the rest (LIBLINEAR's ``-B 1``).

**Source.** Robust support vector machines via conic optimization, Theorem 2, eqs. (10), (19), (21), Appendices A and C.
The factor γ that the proof of Proposition 1 drops and the stray −1 in eq. (14) are corrected.

P is coded in :mod:`~svmcvx.formulations.conic_loss.primal`, D in :mod:`~svmcvx.formulations.conic_loss.dual`, models in
:mod:`~svmcvx.formulations.conic_loss.recovery`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, accumulated_rounding, check
from svmcvx.data import BinaryData, binary_data, check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.formulations.base import FormulationProblem, RecoveredPoints, usable
from svmcvx.formulations.conic_loss.dual import ConicDual
from svmcvx.formulations.conic_loss.primal import relaxed_indicator
from svmcvx.formulations.conic_loss.recovery import covariance_factor, moment_of, recover, relaxed_model
from svmcvx.heuristics.rounding import least_norm
from svmcvx.kernels import KernelLike, row_norms
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution
from svmcvx.system import memory

__all__ = [
    "ConicLoss",
    "ConicSDP",
    "Relaxation",
    "check_lam_or_kappa",
    "conic_sdp",
    "conic_space",
    "hard_margin_point",
    "relaxation",
    "scaled_factor",
    "square_over",
]

Floats: TypeAlias = NDArray[np.float64]

FORMS = ("reduced", "paper")
KAPPA_HIGHEST = 0.5
# Bytes for each entry of the dense part of an interior-point method's matrix, its factor and the constraints; measured.
SDP_BYTES = 120.0


@dataclass(frozen=True, eq=False)
class ConicLoss(ConicDual):
    """The statement of the relaxation bound to data.

    A model without a :class:`~svmcvx.formulations.conic_loss.recovery.SecondMoment` is evaluated at :math:`W = ww'`, where the objective is that of the 0-1
    problem. Dual points hold ``"gamma"``, optionally ``"alpha"``, and ``"lam"`` in the cardinality form.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    lam : float or None
        Weight of the losses, positive.
    kappa : float or None
        Share of the observations that may have a margin below 1; one of the two is None.
    """

    name: ClassVar[str] = "conic"
    lam: float | None = None
    kappa: float | None = None

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ or κ, and the kernel."""
        kernel = self.space.kernel
        own = {"lam": self.lam} if self.kappa is None else {"kappa": self.kappa}
        return {**own, "kernel": "none" if kernel is None else str(kernel)}

    @property
    def allowance(self) -> float:
        """κ Σ s_i, the weight that may have a margin below 1 in the cardinality form."""
        return math.inf if self.kappa is None else self.kappa * float(self.weight.sum())

    def _lam(self, dual: Dual) -> float:
        if self.lam is not None:
            return self.lam
        if "lam" not in dual:
            raise DataError(
                f"the dual point of the cardinality form needs the entry 'lam', got {', '.join(dual) or 'nothing'}"
            )
        lam = float(np.asarray(dual["lam"]).item())
        return max(lam, 0.0) if math.isfinite(lam) else 0.0

    def _constant(self, lam: float) -> float:
        return 0.0 if self.kappa is None else -lam * self.allowance

    def _worst_indicators(self, model: BinaryModel) -> tuple[Floats, Floats]:
        """Indicators without and with the spread of a model, for margins and variances lowered by their rounding.

        Where both vanish the indicator jumps from 0 to 1, so the error of its argument cannot be bounded otherwise.
        """
        data = self.space.data
        f, f_rounding = model.scores(data.X)
        u = self.y * f - f_rounding
        moment = moment_of(model)
        if moment is None or moment.V.shape[1] == 0:
            z = zero_one(u)
            return z, z
        L = self.factor
        if moment.V.shape[0] != L.shape[1]:
            raise DataError(
                f"the second moment of the model has {moment.V.shape[0]} rows, these data need {L.shape[1]}; "
                "certify a model with the data that it was trained on"
            )
        deviation = np.linalg.norm(L @ moment.V, axis=1)
        error = accumulated_rounding(L.shape[1]) * row_norms(L) * float(np.linalg.norm(moment.V))
        return zero_one(u), relaxed_indicator(u, np.maximum(deviation - error, 0.0) ** 2)

    def _value(self, model: BinaryModel, z: Floats, spread: float) -> Evaluation:
        """‖w‖² + spread + λ Σ s z, or in the cardinality form the first two if Σ s z is small enough."""
        norm, norm_rounding = self.space.squared_norm(model)
        total = float(self.weight @ z)
        rounding = norm_rounding + accumulated_rounding(self.factor.shape[1]) * spread
        if self.lam is not None:
            value = norm + spread + self.lam * total
            return Evaluation(value, rounding + accumulated_rounding(z.size) * value)
        if total > self.allowance * (1.0 + accumulated_rounding(z.size)):
            return Evaluation(math.inf, 0.0)
        return Evaluation(norm + spread, rounding)

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model and its second moment; ``inf`` where more than κ of the observations is below the margin."""
        moment = moment_of(model)
        spread = 0.0 if moment is None else float(np.sum(moment.V**2))
        return self._value(model, self._worst_indicators(model)[1], spread)

    def zero_one(self, model: BinaryModel) -> Evaluation:
        """The objective of the 0-1 problem at a model; ``inf`` where too many observations are below the margin."""
        return self._value(model, self._worst_indicators(model)[0], 0.0)

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """The interval around the optimum of the 0-1 problem: the same bound, and the better of model and rounding."""
        moment = moment_of(model)
        points = [model, *([] if moment is None or moment.rounded is None else [moment.rounded])]
        found = {"zero_one_upper": min(sum(self.zero_one(point)) for point in points)}
        if dual:
            bound = self.evaluate_dual(dual)
            found["zero_one_lower"] = bound.value - bound.rounding
        return found

    def repair(self, dual: Dual) -> Dual:
        """As in the base; in the cardinality form with λ as passed or the best for γ and α."""
        if self.kappa is None:
            return super().repair(dual)
        zeros = np.zeros(self.y.size)
        # These bound by 0.
        best: Dual = {"lam": np.zeros(()), "gamma": zeros, "alpha": zeros}
        best_value = 0.0
        for lam in (self._lam(dual), self._best_lam(dual)):
            point = {**super().repair({**dual, "lam": np.array(lam)}), "lam": np.array(lam)}
            value = self.evaluate_dual(point).value
            if value > best_value:
                best, best_value = point, value
        return best

    def _best_lam(self, dual: Dual) -> float:
        """The λ ≥ 0 that maximises D − λκΣs for given γ and α: a quantile of α²/(4γs), weighted by s."""
        gamma, alpha = self._gamma(dual), self._entry(dual, "alpha")
        if alpha is None:
            return self._lam(dual)
        charged = (gamma > 0) & (alpha > 0)
        breaks = np.zeros(gamma.size)
        with np.errstate(over="ignore"):
            breaks[charged] = alpha[charged] ** 2 / (4.0 * gamma[charged] * self.weight[charged])
        order = np.argsort(-breaks)
        beyond = np.cumsum(self.weight[order]) > self.allowance
        lam = float(breaks[order[np.argmax(beyond)]]) if beyond.any() else 0.0
        return lam if math.isfinite(lam) else 0.0

    def export_dual(self, dual: Dual) -> Dual:
        """γ and α with a zero for each observation of weight zero, and λ."""
        data = self.space.data
        exported = {}
        for name, values in dual.items():
            full = np.asarray(values, dtype=np.float64)
            if name != "lam":
                full = np.zeros(data.rows)
                full[data.index] = values
            exported[name] = full
        return exported

    def explain(self, status: str) -> str:
        """Infeasible can be a cardinality form only."""
        if status == "infeasible":
            return (
                f"no hyperplane keeps all but a share of {self.kappa:g} of the observations outside the margin, even in "
                "the relaxation; raise kappa, or allow an intercept"
            )
        return super().explain(status)

    def model(self, w: Floats, V: Floats, rounded: BinaryModel | None = None) -> BinaryModel:
        """Return the model of mean `w` and covariance ``VV'``, both in the columns of ``space.factor``."""
        return relaxed_model(self.space, w, V, rounded)

    def recover(self, w: Floats, V: Floats, duals: Sequence[Dual] = (), lam: float | None = None) -> RecoveredPoints:
        """Return models and dual points from an approximate solution of the relaxation, whoever found it.

        Parameters
        ----------
        w : ndarray of shape (r,)
        V : ndarray of shape (r, k)
            In the columns of ``space.factor``.
        duals : sequence of dict of ndarray
            Multipliers that the solver found.
        lam : float, optional
            Multiplier of the cardinality row, if there is one.

        Returns
        -------
        RecoveredPoints
            The rounding first (it is optimal where the relaxation is tight), then the point polished and as passed. The
            dual points that follow from these two, and those passed.
        """
        return recover(self.space, w, V, duals, lam=self.lam, allowance=self.allowance, multiplier=lam)


@dataclass(frozen=True, eq=False)
class Relaxation:
    r"""What the relaxation says beside its model.

    Attributes
    ----------
    w : ndarray of shape (r,)
        Mean, in the columns of ``space.factor`` (for dense linear data with d + 1 ≤ n: the data and the constant).
    W : ndarray of shape (r, r)
        Second moment.
    spectrum : ndarray
        Eigenvalues of W in descending order, without the zeros that are there by construction. One of them says that the
        relaxation is tight: the random hyperplane is a fixed one.
    z : ndarray of shape (rows,)
        Relaxed indicators; NaN for observations of weight zero.
    gamma : ndarray of shape (rows,)
        Repaired multipliers, the parameters of the conic losses; empty without a dual point.
    lam : float
        Weight of the losses, in the cardinality form the multiplier of its row (NaN without a dual point).
    zero_one : tuple of float
        The interval that encloses the optimum of the 0-1 problem.
    """

    w: Floats
    W: Floats
    spectrum: Floats
    z: Floats
    gamma: Floats
    lam: float
    zero_one: tuple[float, float]


def relaxation(answer: Solution | ConicSDP) -> Relaxation:
    """Return γ, the relaxed z and the spectrum of W behind a solution, or behind the present values of a solved problem.

    Parameters
    ----------
    answer : Solution or ConicSDP
        A solution of :func:`conic_sdp`, by whatever solver, or the problem itself after a ``solve()``.

    Raises
    ------
    DataError
        If the solution is not one of the conic relaxation, or the problem has not been solved.
    """
    if isinstance(answer, ConicSDP):
        candidates = answer.recover()
        if not candidates.models:
            raise DataError("the problem has no values yet; call its solve() or svmcvx.solve first")
        statement = answer.formulation
        checked = check(statement, candidates.models, candidates.duals)
        model, dual, certificate = checked.model, statement.export_dual(checked.dual), checked.certificate
        lam = statement.lam
    else:
        model, dual, certificate = answer.model, answer.dual, answer.certificate
        lam = answer.hyperparameters.get("lam")
    moment = moment_of(model)
    if moment is None:
        raise DataError(
            f"relaxation takes a solution of the conic relaxation, got one of {getattr(answer, 'formulation', answer)!r} "
            "without a second moment"
        )
    if lam is None:
        lam = float(np.asarray(dual.get("lam", math.nan)).item())
    interval = (certificate.residuals.get("zero_one_lower", -math.inf), certificate.residuals["zero_one_upper"])
    return Relaxation(
        w=moment.w,
        W=moment.W,
        spectrum=moment.spectrum,
        z=moment.z,
        gamma=dual.get("gamma", np.zeros(0)),
        lam=float(lam),
        zero_one=interval,
    )


class ConicSDP(FormulationProblem):
    """The semidefinite program; see :func:`conic_sdp`.

    Attributes
    ----------
    w, W : cvxpy.Expression
        Mean and second moment in the columns of ``formulation.space.factor``.
    lam, kappa : cvxpy.Parameter or None
    """

    lam: cp.Parameter | None
    kappa: cp.Parameter | None
    w: cp.Expression
    W: cp.Expression
    _space: FeatureSpace

    @property
    def formulation(self) -> ConicLoss:
        """The statement at the present value of λ or κ."""
        if self.lam is not None:
            return ConicLoss(space=self._space, lam=float(self.lam.value))
        return ConicLoss(space=self._space, kappa=float(self.kappa.value))  # type: ignore[union-attr]

    def recover(self) -> RecoveredPoints:
        """Models with their second moments, and the multipliers."""
        if not (usable(self.w.value) and usable(self.W.value)):
            return RecoveredPoints([], [])
        w, W = np.asarray(self.w.value, dtype=np.float64), np.asarray(self.W.value, dtype=np.float64)
        V = covariance_factor(w, W)
        labelled = self.constraint_dict
        gamma, alpha = labelled["moment"].dual_value, labelled["margin"].dual_value
        lam: Any = None if self.kappa is None else labelled["cardinality"].dual_value
        duals: list[Dual] = []
        if usable(gamma) and usable(alpha) and (self.kappa is None or usable(lam)):
            point = {"gamma": np.asarray(gamma), "alpha": np.asarray(alpha)}
            duals.append(point if self.kappa is None else {**point, "lam": np.array(lam, dtype=np.float64)})
        return self.formulation.recover(w, V, duals, float(lam) if usable(lam) else None)


def conic_space(
    X: Any, y: Any, kernel: KernelLike, intercept: bool, sample_weight: Any, indefinite: str
) -> tuple[BinaryData, FeatureSpace]:
    """Return the data and their geometry with a penalised intercept, or without one."""
    if not isinstance(intercept, (bool, np.bool_)):
        raise DataError(f"intercept must be True (a penalised constant feature) or False, got {intercept!r}")
    data = binary_data(X, y, sample_weight)
    return data, feature_space(data, kernel, intercept="penalised" if intercept else "none", indefinite=indefinite)


def check_lam_or_kappa(lam: Any, kappa: Any, caller: str) -> tuple[float | None, float | None]:
    """Return λ and κ as numbers, one of them None, or raise a :class:`DataError` in the name of `caller`."""
    if (lam is None) == (kappa is None):
        given = "neither" if lam is None else "both"
        raise DataError(f"{caller} takes exactly one of lam and kappa, got {given}; pass lam=1.0, say, or kappa=0.1")
    if lam is not None:
        lam = check_number(lam, "lam", low=0, open_low=True)
    if kappa is not None:
        kappa = check_number(kappa, "kappa", low=0, high=KAPPA_HIGHEST)
    return lam, kappa


def hard_margin_point(A: Floats) -> Floats:
    """Return the point of least norm with margins of at least 1 on all signed rows, or raise a :class:`DataError`."""
    w = least_norm(A)
    if w is None:
        raise DataError(
            "kappa = 0 allows no margin below 1, and the two classes are not separable in this feature space; "
            "pass a positive kappa, or a richer kernel"
        )
    return w


def scaled_factor(space: FeatureSpace) -> tuple[Floats, float]:
    """Return the factor as a dense matrix of root mean square row norm 1, and what it was divided by."""
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    scale = float(np.sqrt(np.mean(row_norms(L) ** 2))) or 1.0
    return L / scale, scale


def square_over(size: cp.Variable, bound: cp.Variable, over: cp.Expression) -> cp.Constraint:
    """State one rotated second-order cone an entry: ``size² <= bound * over``, both factors non-negative."""
    return cp.SOC(bound + over, cp.vstack([2 * size, bound - over]))


def conic_sdp(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    kappa: float | None = None,
    kernel: KernelLike = None,
    form: str = "reduced",
    intercept: bool = True,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ConicSDP:
    r"""Build the semidefinite relaxation of the SVM with 0-1 loss as a cvxpy problem.

    .. math::
        \min\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad
        t_i \le \langle L_i L_i', W\rangle - 2 y_i L_i w + 1,\; m_i \ge 1 - y_i L_i w,\; m \ge 0,\; m_i^2 \le z_i t_i,\;
        \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0,

    where the rows of `L` are the data with a constant feature, or those of a factor of the Gram matrix; with `kappa` the
    second term is replaced by the row :math:`\sum s_i z_i \le \kappa\sum s_i`.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature.
    y : array-like of shape (n,)
        Two labels of any type.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm. The cvxpy parameter ``problem.lam``.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5], in place of `lam`; exactly one of the two.
        The cvxpy parameter ``problem.kappa``. 0 is the hard margin and needs separable classes.
    kernel : Kernel, str, callable or None
        None for the linear formulation.
    form : "reduced" or "paper"
        One second-order cone an observation, or the two of Theorem 2 with z ≤ 1; the optimum is the same.
    intercept : bool
        Append a constant feature (with a kernel: add 1 to it), whose coefficient is penalised with the rest.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.

    Returns
    -------
    ConicSDP
        A ``cvxpy.Problem``. Variables ``w_scaled`` and ``W_scaled`` (of the data divided by their root mean square row
        norm; ``problem.w`` and ``problem.W`` are expressions in the data's own scale), ``z``, ``t``, ``m`` and for the
        paper's form ``n``, ``a``, ``b``; parameter ``lam`` or ``kappa``; constraints labelled ``moment`` (its multipliers
        are γ), ``margin`` (α), ``slack``, ``semidefinite``, ``cone``, with `kappa` ``cardinality`` (λ), and for the
        paper's form ``box_low``, ``box_high``, ``beyond``, ``excess``, ``split`` and ``cone_beyond``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    With a kernel the semidefinite block has the order n + 1. An interior-point solver then needs seconds for n = 60 and
    minutes for n = 100, where SCS (``solver="scs"`` of :func:`svmcvx.solve`) is sooner: the recovery polishes its point.

    Source: conic paper, Theorem 2 (eq. 21), Appendix A (kernels) and Appendix C (cardinality).
    """
    started = time.perf_counter()
    check_choice(form, "form", FORMS)
    lam, kappa = check_lam_or_kappa(lam, kappa, "conic_sdp")
    data, space = conic_space(X, y, kernel, intercept, sample_weight, indefinite)
    _require_sdp_memory(space.factor.shape)
    L, scale = scaled_factor(space)
    if kappa == 0:
        hard_margin_point(L * data.y[:, None])
    n, r = L.shape
    s = data.weight
    w = cp.Variable(r, name="w_scaled")
    W = cp.Variable((r, r), symmetric=True, name="W_scaled")
    z, t, m = (cp.Variable(n, name=name) for name in ("z", "t", "m"))
    u = cp.multiply(data.y, L @ w)
    column = cp.reshape(w, (r, 1), order="F")
    constraints = [
        (t <= cp.sum(cp.multiply(L @ W, L), axis=1) - 2 * u + 1).set_label("moment"),
        (m >= 1 - u).set_label("margin"),
        (m >= 0).set_label("slack"),
        (cp.bmat([[np.ones((1, 1)), column.T], [column, W]]) >> 0).set_label("semidefinite"),
    ]
    if form == "reduced":
        constraints.append(square_over(m, t, z).set_label("cone"))
    else:
        beyond, a, b = (cp.Variable(n, name=name) for name in ("n", "a", "b"))
        constraints += [
            (z >= 0).set_label("box_low"),
            (z <= 1).set_label("box_high"),
            (beyond >= u - 1).set_label("beyond"),
            (beyond >= 0).set_label("excess"),
            (a + b <= t).set_label("split"),
            square_over(m, a, z).set_label("cone"),
            square_over(beyond, b, 1 - z).set_label("cone_beyond"),
        ]
    norm = cp.trace(W) / scale**2
    lam_parameter = kappa_parameter = None
    if lam is not None:
        lam_parameter = cp.Parameter(pos=True, name="lam", value=lam)
        objective_expression = norm + lam_parameter * (s @ z)
    else:
        kappa_parameter = cp.Parameter(nonneg=True, name="kappa", value=kappa)
        objective_expression = norm
        constraints.append((s @ z <= kappa_parameter * float(s.sum())).set_label("cardinality"))
    problem = ConicSDP(cp.Minimize(objective_expression), constraints)
    problem.lam, problem.kappa, problem._space = lam_parameter, kappa_parameter, space
    problem.w, problem.W = w / scale, W / scale**2
    problem.build_seconds = time.perf_counter() - started
    return problem


def _require_sdp_memory(shape: tuple[int, int]) -> None:
    n, r = shape
    triangle = 0.5 * (r + 1) * (r + 2)
    memory.require(
        SDP_BYTES * (0.5 * triangle**2 + n * float(r) ** 2),
        f"the semidefinite program with a block of order {r + 1} and {n} observations",
        "select features, use fewer observations, or a first-order solver",
    )
