r"""More constraints on a built problem: the same objective on a smaller set.

**Upper end.** The objective at values of the problem's variables that meet the constraints up to
`tol`. Where ``w`` belongs to the columns of a factor and not to those of the data, the statement is
that of the factor's rows: a part of w that no observation sees costs its length, and may be what
the constraints ask for.

**Lower end.** If S' ⊂ S, then :math:`\min_S f \le \min_{S'} f`: every bound for the problem as
built holds for the smaller set. The multipliers m of the added constraints give a bound of their
own: where a point z meets them, the product of m with their rows is at most zero, so that

.. math:: \min_{z \in S'} f(z) \;\ge\; \min_{z \in S}\; f(z) + m'(Az + a).

For a statement :math:`\tfrac12\|w\|^2 + \sum_i \ell_i(u_i)` with multipliers α of its losses,
:math:`v_i = \alpha_i y_i` and :math:`m'(Az + a) = c_w'w + c_b b + k`, that is at least

.. math::
    \sum_i -\ell_i^*(-\alpha_i) - \tfrac12\|X'v - c_w\|^2 + k
    \quad\text{where}\quad \textstyle\sum_i v_i = c_b .

========== ============================================== ======================================
kind       constraint                                     multipliers m of its rows
========== ============================================== ======================================
equality   :math:`Az + a = 0`                             any
inequality :math:`Az + a \le 0`                           :math:`m \ge 0`
norm       :math:`\|Uz + u\|_q \le t(z)`, q = 1, 2        :math:`(-\kappa, \zeta)` with
                                                          :math:`\|\zeta\|_{q^*} \le \kappa`
========== ============================================== ======================================

Maxima, absolute values and maximum norms are inequalities of several pieces. Sums of squares and
quadratic forms are norms: with a constant limit, or as :math:`\|(2u, t - 1)\| \le t + 1`, which is
:math:`\|u\|^2 \le t`. Constraints of other forms, and on other variables than w and b, have no
multipliers here, and neither has :math:`z'Pz` of an ill-conditioned P. The coefficients are those
that cvxpy compiles from the expressions, and for a form :math:`z'Pz` those of the computed square
root of P; each is taken as known to a relative 8u.

Where the model violates a constraint by δ, the bound is less by the multiplier times δ: both ends
then are those of the constraints relaxed so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cvxpy as cp
import cvxpy.settings as cps
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.pnorm import Pnorm
from cvxpy.atoms.quad_form import QuadForm
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import GROW, Bounded, exact, roundings, total
from svmcvx.certificate.rows import Ball, inner_error, norm_above
from svmcvx.formulations.base import LinearTerm, LossStatement

# Relative error of a coefficient as cvxpy compiles it.
COEFFICIENT = roundings(8)
# Eigenvalues of a quadratic form, in units of the largest: those up to the first number are zero,
# and none is between the two. The computed form differs from a given one by some n u of the largest
# eigenvalue: a relative 1e-10 of the smallest.
SINGULAR, SMALLEST = 1e-12, 1e-6
# Relative tolerance for zero entries of a normed vector, and for ties of pieces.
NEARLY = 1e-4


class StandardForm(NamedTuple):
    """Kind and parts of a constraint, rows for each of its entries; multipliers times `factor`."""

    kind: str
    parts: tuple[cp.Expression, ...]
    order: float = 2.0
    factor: float = 1.0
    # Whether multipliers are times the limit, too.
    by_limit: bool = False


def standard_form(constraint: cp.Constraint) -> StandardForm | None:
    """Return a constraint in the form of the table; None if it has none."""
    if isinstance(constraint, cp.SOC):
        t, u = constraint.args
        return StandardForm("norm", (t, u)) if t.size == 1 and u.ndim == 1 else None
    if isinstance(constraint, (cp.constraints.Equality, cp.constraints.Zero)):
        return StandardForm("equality", (constraint.expr,)) if constraint.expr.is_affine() else None
    if isinstance(constraint, cp.constraints.NonNeg):
        expression = -constraint.expr
    elif isinstance(constraint, (cp.constraints.Inequality, cp.constraints.NonPos)):
        expression = constraint.expr
    else:
        return None
    if expression.is_affine():
        return StandardForm("inequality", (expression,))
    curved = [term for term in _terms(expression) if not term.is_affine()]
    if len(curved) != 1 or curved[0].size != expression.size:
        return None
    atom, factor = _unscaled(curved[0])
    if isinstance(atom, Sum) and isinstance(atom.args[0], cp.abs) and atom.size == 1:
        atom = cp.norm1(atom.args[0].args[0])
    if isinstance(atom, QuadForm) and atom.args[1].value is not None:
        root = _square_root(atom.args[1].value)
        if root is None:
            return None
        atom = cp.sum_squares(root @ atom.args[0])
    if not all(one.is_affine() for one in atom.args) or getattr(atom, "axis", None) is not None:
        return None
    limit = sum((-term for term in _terms(expression) if term.is_affine()), cp.Constant(0.0))
    limit = cp.vec(limit / factor + np.zeros(atom.shape), order="F")
    u = cp.vec(atom.args[0], order="F")
    if isinstance(atom, (cp.abs, cp.norm_inf)):
        return StandardForm("inequality", (u - limit, -u - limit), factor=factor)
    if isinstance(atom, (cp.maximum, cp.max)):
        pieces = [cp.vec(one + np.zeros(atom.shape), order="F") - limit for one in atom.args]
        return StandardForm("inequality", tuple(pieces), factor=factor)
    if isinstance(atom, cp.norm1) or (isinstance(atom, Pnorm) and atom.p == 2):
        order = 1.0 if isinstance(atom, cp.norm1) else 2.0
        return StandardForm("norm", (limit, u), order, factor)
    if isinstance(atom, cp.quad_over_lin) and atom.args[1].is_constant():
        if (divisor := float(atom.args[1].value)) <= 0.0:
            return None
        if limit.is_constant() and (most := float(limit.value[0])) > 0.0:
            length = cp.Constant([math.sqrt(most * divisor)])
            return StandardForm(
                "norm", (length, u), factor=2.0 * math.sqrt(most / divisor) * factor
            )
        parts = (divisor * limit + 1.0, cp.hstack([2.0 * u, divisor * limit - 1.0]))
        return StandardForm("norm", parts, factor=0.5 * factor / divisor, by_limit=True)
    return None


def _square_root(P: Any) -> Floats | None:
    """Return R of the form ‖Rz‖² = z'Pz, None if rounding hides small eigenvalues."""
    values, vectors = np.linalg.eigh(P.toarray() if sp.issparse(P) else P)
    used = values > SINGULAR * values[-1]
    root: Floats = np.sqrt(values[used])[:, None] * vectors[:, used].T
    known = used.any() and (values[used] >= SMALLEST * values[-1]).all()
    return root if known else None


def _terms(expression: cp.Expression) -> list[cp.Expression]:
    if isinstance(expression, AddExpression):
        return [part for term in expression.args for part in _terms(term)]
    return [expression]


def _unscaled(expression: cp.Expression) -> tuple[cp.Expression, float]:
    """Return an expression without its positive constant factors, and their product."""
    factor = 1.0
    while type(expression).__name__ in ("multiply", "MulExpression", "DivExpression"):
        constants = [part for part in expression.args if part.is_constant() and part.size == 1]
        others = [part for part in expression.args if not part.is_constant()]
        if len(constants) != 1 or len(others) != 1:
            break
        number = float(constants[0].value)
        if not number > 0:
            break
        factor *= 1.0 / number if type(expression).__name__ == "DivExpression" else number
        expression = others[0]
    return expression, factor


@dataclass(frozen=True)
class Group:
    """The rows of one constraint; `scale` times its multipliers are those of the rows."""

    kind: str
    rows: slice
    order: float
    constraint: int
    scale: Floats
    by_limit: bool


@dataclass(frozen=True)
class AddedRows:
    """The rows of all constraints that have the form of the table."""

    groups: tuple[Group, ...]
    matrices: Mapping[str, Any]
    offset: Floats
    left_out: frozenset[int]

    def on_b(self) -> Floats:
        """Return the coefficients of a free intercept: 0 and ±1."""
        matrix = self.matrices.get("b")
        return np.zeros(self.offset.size) if matrix is None else matrix.toarray()[:, 0]

    def repaired(self, m: Floats) -> Floats:
        """Return multipliers projected to their cones."""
        # Products of multipliers up to this size stay finite.
        largest = 2.0**200
        m = np.clip(np.nan_to_num(np.asarray(m, dtype=np.float64), nan=0.0), -largest, largest)
        for group in self.groups:
            part = m[group.rows]
            if group.kind == "inequality":
                np.maximum(part, 0.0, out=part)
            elif group.kind == "norm":
                dual_order = 2.0 if group.order == 2.0 else math.inf
                part[0] = -norm_of_order_above(part[1:], dual_order)
        return m

    def outside(self, m: Floats) -> float:
        """Return the distance of multipliers from their cones, 0 only if they are inside."""
        if m.shape != self.offset.shape or not np.isfinite(m).all():
            return math.inf
        return float(np.abs(self.repaired(m) - m).max(initial=0.0))

    def term(self, m: Floats, relaxation: float) -> LinearTerm:
        """Return the term of the objective by multipliers, less a relaxation of the constraints."""
        constant = _with_coefficient_error(exact(self.offset) * exact(m), np.abs(self.offset * m))
        b, normal = self.on_b(), None
        if "w" in self.matrices:
            normal = Ball.around(_product(self.matrices["w"].T, exact(m)))
        return LinearTerm(normal, (m * b)[b != 0.0], total(constant) - relaxation)

    def with_parts(self, m: Floats, on_b: Floats) -> Floats:
        """Return multipliers with given parts of the intercept's coefficient."""
        b = self.on_b()
        changed = m.copy()
        changed[b != 0.0] = on_b * b[b != 0.0]
        return self.repaired(changed)

    def values(self, at: Mapping[str, Bounded]) -> Bounded:
        found = _with_coefficient_error(exact(self.offset), np.abs(self.offset))
        for name, matrix in self.matrices.items():
            found = found + _product(matrix, at[name])
        return found

    def excess(self, at: Mapping[str, Bounded]) -> list[Floats]:
        """Return upper bounds on the violations per group."""
        values = self.values(at)
        found = []
        for group in self.groups:
            over = values[group.rows]
            if group.kind == "equality":
                over = abs(over)
            elif group.kind == "norm":
                length = norm_of_order_above(np.asarray(abs(over[1:]).upper), group.order)
                over = exact(np.array([length])) - over[:1]
            found.append(np.maximum(over.upper, 0.0))
        return found

    def relaxation(self, m: Floats, excess: Sequence[Floats]) -> float:
        """Return an upper bound on the loss of the sum in the constraints relaxed by `excess`."""
        lost = [exact(0.0)]
        for group, over in zip(self.groups, excess, strict=True):
            part = np.abs(m[group.rows])[: over.size]
            used = part > 0.0
            lost.append(total(exact(part[used]) * exact(over[used])))
        return total(lost).upper_end


def _with_coefficient_error(x: Bounded, size: Floats) -> Bounded:
    """Add the error of numbers of this size with relative error :data:`COEFFICIENT`."""
    return x + Bounded(np.zeros(size.size), COEFFICIENT * size)


def _product(matrix: Any, x: Bounded) -> Bounded:
    """Return the product of a sparse matrix of coefficients with a vector."""
    magnitude = np.asarray(abs(matrix) @ np.abs(x.value))
    rounding = np.where(magnitude > 0.0, inner_error(int(matrix.shape[1]), magnitude), 0.0)
    spread = np.asarray(abs(matrix) @ np.broadcast_to(x.error, x.shape))
    return _with_coefficient_error(
        Bounded(np.asarray(matrix @ x.value), (rounding + spread) * GROW), magnitude
    )


def norm_of_order_above(x: Floats, order: float) -> float:
    """Return an upper bound on the norm of order 1, 2 or infinity."""
    if order == 2.0:
        return norm_above(x)
    return total(exact(np.abs(x))).upper_end if order == 1.0 else float(np.abs(x).max(initial=0.0))


def read(
    constraints: Sequence[cp.Constraint], names: Mapping[int, str], known: frozenset[str]
) -> AddedRows:
    """Return the rows of the constraints that have the form of the table, in `known` variables."""
    forms = [
        standard_form(one) if all(v.id in names for v in one.variables()) else None
        for one in constraints
    ]
    compiled = iter(
        _compiled([part for form in forms if form is not None for part in form.parts], names)
    )
    groups: list[Group] = []
    parsed: list[tuple[dict[str, Any], Floats]] = []
    size = 0
    for number, form in enumerate(forms):
        if form is None:
            continue
        coefficients, offset = _stacked([next(compiled) for _ in form.parts])
        scale = np.full(offset.size, form.factor)
        if not set(coefficients) <= known:
            continue
        if "b" in coefficients:
            # The parts of the multipliers in the balance are exact: rows are divided by the
            # intercept's coefficient, which those of a cone do not allow.
            b: Floats = np.abs(coefficients["b"].toarray()[:, 0])
            if form.kind == "norm":
                if b[0] or not np.isin(b, (0.0, 1.0)).all():
                    continue
            else:
                b[b == 0.0] = 1.0
                inverse = sp.diags_array(1.0 / b)
                coefficients = {
                    name: sp.csr_array(inverse @ matrix) for name, matrix in coefficients.items()
                }
                coefficients["b"].data = np.sign(coefficients["b"].data)
                offset, scale = offset / b, scale * b
        rows = slice(size, size + offset.size)
        groups.append(Group(form.kind, rows, form.order, number, scale, form.by_limit))
        parsed.append((coefficients, offset))
        size += offset.size
    matrices, offsets = _stacked(parsed) if parsed else ({}, np.zeros(0))
    left_out = frozenset(range(len(constraints))) - {group.constraint for group in groups}
    return AddedRows(tuple(groups), matrices, offsets, left_out)


def _stacked(parts: Sequence[tuple[dict[str, Any], Floats]]) -> tuple[dict[str, Any], Floats]:
    widths = {
        name: matrix.shape[1] for coefficients, _ in parts for name, matrix in coefficients.items()
    }
    matrices = {
        name: sp.csr_array(
            sp.vstack(
                [part.get(name, sp.csr_array((offset.size, width))) for part, offset in parts],
                format="csr",
            )
        )
        for name, width in widths.items()
    }
    return matrices, np.concatenate([offset for _, offset in parts])


def _compiled(
    pieces: Sequence[cp.Expression], names: Mapping[int, str]
) -> list[tuple[dict[str, Any], Floats]]:
    """Return coefficients by the names of the variables, and constants, of affine expressions."""
    if not pieces:
        return []
    problem = cp.Problem(cp.Minimize(0.0), [cp.vec(piece, order="F") == 0.0 for piece in pieces])
    if not problem.variables():
        return [
            ({}, np.ravel(np.asarray(piece.value, dtype=np.float64), order="F")) for piece in pieces
        ]
    data, _, _ = problem.get_problem_data("CLARABEL")
    A, b = sp.csc_array(data[cps.A]), np.asarray(data[cps.B])
    first = data[cps.PARAM_PROB].var_id_to_col
    found, row = [], 0
    for piece in pieces:
        rows = slice(row, row + piece.size)
        row = rows.stop
        coefficients = {
            names[variable.id]: sp.csr_array(
                A[rows, first[variable.id] : first[variable.id] + variable.size]
            )
            for variable in piece.variables()
        }
        found.append((coefficients, -b[rows]))
    return found


# Multipliers near those of a solver; nothing here is trusted


def _subgradient(u: Floats, order: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a subgradient of the norm, and its entries that u does not determine."""
    size = np.abs(u)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return np.zeros(u.size), np.ones(u.size, dtype=bool)
    if order == 1.0:
        return np.sign(u), size <= NEARLY * largest
    return u / np.linalg.norm(u), np.zeros(u.size, dtype=bool)


def completed(
    rows: AddedRows,
    constraints: Sequence[cp.Constraint],
    at: Mapping[str, Bounded],
    losses: LossStatement,
    dual: Dual,
) -> Floats | None:
    r"""Return multipliers of the rows, from those of a solver and of the losses; None without any.

    A solver gives one number for a norm, and for an entry of several pieces. Subgradient and piece
    follow from the vector, and where this leaves them open, as at zero entries of a sum of absolute
    values, from the stationarity of w and b: :math:`w = X'v - c_w` and :math:`\sum_i v_i = c_b`.
    """
    m = np.zeros(rows.offset.size)
    undetermined = np.zeros(rows.offset.size, dtype=bool)
    values = rows.values(at).value
    sizes = np.abs(rows.offset)
    for name, matrix in rows.matrices.items():
        sizes = sizes + abs(matrix) @ np.abs(at[name].value)
    for group in rows.groups:
        solved = _solved(constraints[group.constraint])
        part, value, free = m[group.rows], values[group.rows], undetermined[group.rows]
        if solved is None:
            return None
        if group.kind != "norm":
            pieces = value.reshape(-1, solved.size)
            active = pieces.argmax(axis=0)
            chosen = np.arange(pieces.shape[0])[:, None] == active
            part[:] = (chosen * solved).ravel() * group.scale
            if len(pieces) > 1:
                largest = pieces.max(axis=0)
                size = sizes[group.rows].reshape(pieces.shape).max(axis=0)
                near = (pieces >= largest - NEARLY * size) & (solved > 0.0)
                free[:] = (near & (near.sum(axis=0) > 1)).ravel()
            continue
        kappa = float(solved[0] * group.scale[0] * (value[0] if group.by_limit else 1.0))
        slopes, still_open = _subgradient(value[1:], group.order)
        part[:] = np.concatenate([[-kappa], kappa * slopes])
        free[1:] = still_open & (kappa > 0.0)
    if "w" in rows.matrices and undetermined.any():
        wanted = {"w": losses.expansion(dual).value - at["w"].value}
        if "b" in rows.matrices:
            wanted["b"] = np.array([losses.coefficients(dual).sum()])
        _determine(rows, m, undetermined, wanted)
    return m


def _solved(constraint: cp.Constraint) -> Floats | None:
    """Return the solver's multipliers of a constraint, for a cone those of its limit."""
    found = constraint.dual_value
    found = found[0] if isinstance(found, (list, tuple)) else found
    if found is None or not np.isfinite(found).all():
        return None
    return np.ravel(np.asarray(found, dtype=np.float64), order="F")


def _determine(
    rows: AddedRows, m: Floats, undetermined: NDArray[np.bool_], slopes: Mapping[str, Floats]
) -> None:
    """Set the undetermined multipliers to those whose coefficients are the slopes, in place."""
    matrix = sp.csr_array(sp.hstack([rows.matrices[name] for name in slopes]))
    target = np.concatenate(list(slopes.values())) - matrix.T @ np.where(undetermined, 0.0, m)
    part = matrix[np.flatnonzero(undetermined)].toarray()
    try:
        solved, *_ = sl.lstsq(part.T, target, lapack_driver="gelsy")
    except (ValueError, sl.LinAlgError):
        return
    m[undetermined] = solved
    for group in rows.groups:
        if group.kind == "norm" and undetermined[group.rows].any():
            part, kappa = m[group.rows], -m[group.rows][0]
            if group.order == 1.0:
                np.clip(part[1:], -kappa, kappa, out=part[1:])
            elif (size := float(np.linalg.norm(part[1:]))) > kappa:
                part[1:] *= kappa / size
