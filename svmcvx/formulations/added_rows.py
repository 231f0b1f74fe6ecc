r"""Added constraints as rows in cones, and the multipliers that these allow.

========== ============================================== ==============================================================
kind       constraint                                     multipliers m of its rows
========== ============================================== ==============================================================
equality   :math:`Az + a = 0`                             any
inequality :math:`Az + a \le 0`                           :math:`m \ge 0`
norm       :math:`\|Uz + u\|_q \le t(z)`                  :math:`m = (-\kappa, \zeta)` with
:math:`\|\zeta\|_{q^*} \le \kappa` entries    :math:`|Uz + u| \le t(z)`, entry by entry      each
entry as a norm of one number square     :math:`\|Uz + u\|^2 \le t(z)`                  :math:`m =
(-\kappa, \zeta)` with κ > 0, or zero ball       :math:`\|w\|^2 \le R`
:math:`m = \kappa \ge 0` ========== ==============================================
==============================================================

Where z meets the constraint, the product of m with its rows — (t(z), Uz + u) for a norm and a
square, less :math:`\|\zeta\|^2/4\kappa` for the square; :math:`\|w\|^2 - R` for the ball — is at
most zero. Added to an objective it lowers it: the optimum of what results is a lower bound,
:mod:`svmcvx.formulations.linear_dual`.

The coefficients are those that cvxpy compiles from the expressions; each is taken as known to a
relative 8u.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import cvxpy as cp
import cvxpy.settings as cps
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.pnorm import Pnorm
from numpy.typing import NDArray

from svmcvx.core.bounded import GROW, Bounded, exact, exp, log, roundings, square, total
from svmcvx.core.rows import Ball, inner_error, norm_above
from svmcvx.formulations.linear_dual import LinearTerm

__all__ = ["AddedRows", "Group", "StandardForm", "dual_norm_above", "read", "standard_form"]

Floats: TypeAlias = NDArray[np.float64]

# Multipliers are cut here, so that their products still are numbers.
LARGEST = 2.0**200
# Relative error of a coefficient as cvxpy compiles it.
COEFFICIENT = roundings(8)


class StandardForm(NamedTuple):
    """A constraint in the form of the table: its kind, the affine expressions of its rows, and the
    order of its norm.

    `factor` divides the constraint's multiplier as cvxpy gives it by that of the form here.
    """

    kind: str
    parts: tuple[cp.Expression, ...]
    order: float = 2.0
    factor: float = 1.0


def standard_form(constraint: cp.Constraint) -> StandardForm | None:
    """Return a constraint in the form of the table, None where it has none."""
    if isinstance(constraint, cp.SOC):
        t, u = constraint.args
        return StandardForm("norm", (t, u)) if t.size == 1 and u.ndim == 1 else None
    if isinstance(constraint, (cp.constraints.Equality, cp.constraints.Zero)):
        return StandardForm("equality", (constraint.expr,)) if constraint.expr.is_affine() else None
    if isinstance(constraint, cp.constraints.NonNeg):
        return (
            StandardForm("inequality", (-constraint.expr,)) if constraint.expr.is_affine() else None
        )
    if not isinstance(constraint, (cp.constraints.Inequality, cp.constraints.NonPos)):
        return None
    if constraint.expr.is_affine():
        return StandardForm("inequality", (constraint.expr,))
    curved = [term for term in _terms(constraint.expr) if not term.is_affine()]
    if len(curved) != 1 or curved[0].size != constraint.expr.size:
        return None
    atom, factor = _unscaled(curved[0])
    limit = (
        sum((-term for term in _terms(constraint.expr) if term.is_affine()), cp.Constant(0.0))
        / factor
    )
    limit = cp.vec(limit + np.zeros(atom.shape), order="F")
    if isinstance(atom, cp.abs) and atom.args[0].is_affine():
        return StandardForm("entries", (limit, cp.vec(atom.args[0], order="F")), factor=factor)
    if atom.size != 1:
        return None
    if isinstance(atom, Sum) and isinstance(atom.args[0], cp.abs):
        return _normed(atom.args[0].args[0], limit, 1.0, factor)
    if isinstance(atom, (Pnorm, cp.norm1, cp.norm_inf)) and atom.axis is None:
        order = (
            1.0
            if isinstance(atom, cp.norm1)
            else math.inf
            if isinstance(atom, cp.norm_inf)
            else float(atom.p)
        )
        return _normed(atom.args[0], limit, order, factor)
    if (
        isinstance(atom, cp.quad_over_lin)
        and atom.args[0].is_affine()
        and atom.args[1].is_constant()
    ):
        divisor = float(atom.args[1].value)
        vector = cp.vec(atom.args[0], order="F")
        return (
            StandardForm("square", (limit * divisor, vector), factor=factor / divisor)
            if divisor > 0
            else None
        )
    return None


def _normed(
    vector: cp.Expression, limit: cp.Expression, order: float, factor: float
) -> StandardForm | None:
    usable = vector.is_affine() and order >= 1.0
    return (
        StandardForm("norm", (limit, cp.vec(vector, order="F")), order, factor) if usable else None
    )


def _terms(expression: cp.Expression) -> list[cp.Expression]:
    """The terms of a sum."""
    if isinstance(expression, AddExpression):
        return [part for term in expression.args for part in _terms(term)]
    return [expression]


def _unscaled(expression: cp.Expression) -> tuple[cp.Expression, float]:
    """An expression without its positive constant factors, and their product."""
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
    """The rows of one constraint."""

    kind: str
    rows: slice
    limits: int
    order: float
    constraint: int
    scale: Floats


@dataclass(frozen=True)
class AddedRows:
    """The rows of all constraints that have the form of the table."""

    groups: tuple[Group, ...]
    matrices: Mapping[str, Any]
    offset: Floats
    left_out: frozenset[int]

    def on_b(self) -> Floats:
        """Coefficients of a free intercept: 0 and ±1."""
        matrix = self.matrices.get("b")
        return np.zeros(self.offset.size) if matrix is None else matrix.toarray()[:, 0]

    def repaired(self, m: Floats) -> Floats:
        """Return multipliers in their cones."""
        m = np.clip(np.nan_to_num(np.asarray(m, dtype=np.float64), nan=0.0), -LARGEST, LARGEST)
        for group in self.groups:
            part = m[group.rows]
            if group.kind in ("inequality", "ball"):
                np.maximum(part, 0.0, out=part)
            elif group.kind == "entries":
                part[: group.limits] = -np.abs(part[group.limits :])
            elif group.kind == "norm":
                part[0] = -dual_norm_above(part[1:], group.order)
            elif group.kind == "square" and not part[0] < 0.0:
                part[:] = 0.0
        return m

    def outside(self, m: Floats) -> float:
        """Return how far multipliers are from their cones, 0 only if they are in them."""
        if m.shape != self.offset.shape or not np.isfinite(m).all():
            return math.inf
        return float(np.abs(self.repaired(m) - m).max(initial=0.0))

    def term(self, m: Floats, relaxation: float) -> LinearTerm:
        """Return what multipliers in their cones add to the objective, less a relaxation of the
        constraints.
        """
        parts = {
            name: _product(matrix.T, exact(m))
            for name, matrix in self.matrices.items()
            if name != "b"
        }
        conjugates = [
            _square_conjugate(m[group.rows]) for group in self.groups if group.kind == "square"
        ]
        constant = _with_coefficient_error(exact(self.offset) * exact(m), np.abs(self.offset * m))
        b, normal = self.on_b(), parts.get("w")
        return LinearTerm(
            w=None if normal is None else Ball(normal.value, norm_above(normal.error)),
            on_b=(m * b)[b != 0.0],
            xi=parts.get("xi"),
            curvature=total(
                [exact(float(m[group.rows][0])) for group in self.groups if group.kind == "ball"]
                or [exact(0.0)]
            ),
            constant=total(
                [total(constant), *(-value for value in conjugates), exact(-relaxation)]
            ),
        )

    def with_parts(self, m: Floats, on_b: Floats) -> Floats:
        """Return multipliers whose parts of the intercept's coefficient are those given."""
        b = self.on_b()
        changed = m.copy()
        changed[b != 0.0] = on_b * b[b != 0.0]
        return self.repaired(changed)

    def values(self, at: Mapping[str, Bounded]) -> Bounded:
        """Return the rows at values of the variables."""
        found = _with_coefficient_error(exact(self.offset), np.abs(self.offset))
        for name, matrix in self.matrices.items():
            found = found + _product(matrix, at[name])
        return Bounded(found.value, np.where(self._plain(at), 0.0, found.error))

    def _plain(self, at: Mapping[str, Bounded]) -> NDArray[np.bool_]:
        """Rows ±z_j of one exact variable without offset, which are evaluated without any error."""
        count, plain = np.zeros(self.offset.size), self.offset == 0.0
        for name, matrix in self.matrices.items():
            entries = abs(matrix)
            number = np.diff(matrix.indptr)
            count += number
            errors = entries @ np.broadcast_to(at[name].error, at[name].shape)
            plain &= (np.asarray(entries.sum(axis=1)).ravel() == number) & (errors == 0.0)
        return np.asarray(plain & (count <= 1))

    def excess(self, at: Mapping[str, Bounded], squared_norm: Bounded) -> list[Floats]:
        """Return for each group numbers that are at least its violations."""
        values = self.values(at)
        found = []
        for group in self.groups:
            rows = values[group.rows]
            limit, vector = rows[: group.limits], np.asarray(abs(rows[group.limits :]).upper)
            if group.kind == "equality":
                over = abs(rows)
            elif group.kind == "inequality":
                over = rows
            elif group.kind == "ball":
                over = rows + squared_norm
            elif group.kind == "entries":
                over = exact(vector) - limit
            elif group.kind == "norm":
                over = exact(np.array([norms_above(vector, group.order)])) - limit
            else:
                over = square(exact(np.array([norm_above(vector)]))) - limit
            found.append(np.maximum(over.upper, 0.0))
        return found

    def relaxation(self, m: Floats, excess: Sequence[Floats]) -> float:
        """Return at least what the sum loses where the constraints are relaxed so far."""
        lost = [exact(0.0)]
        for group, over in zip(self.groups, excess, strict=True):
            part = np.abs(m[group.rows])
            part = (
                part if group.kind in ("equality", "inequality", "ball") else part[: group.limits]
            )
            used = part > 0.0
            lost.append(total(exact(part[used]) * exact(over[used])))
        return total(lost).upper_end


def _with_coefficient_error(x: Bounded, size: Floats) -> Bounded:
    """Add the error of numbers of this size whose coefficients have relative error
    :data:`COEFFICIENT`.
    """
    return x + Bounded(np.zeros(size.size), COEFFICIENT * size)


def _product(matrix: Any, x: Bounded) -> Bounded:
    """The product of a sparse matrix of coefficients with a vector."""
    magnitude = np.asarray(abs(matrix) @ np.abs(x.value))
    rounding = np.where(magnitude > 0.0, inner_error(int(matrix.shape[1]), magnitude), 0.0)
    spread = np.asarray(abs(matrix) @ np.broadcast_to(x.error, x.shape))
    return _with_coefficient_error(
        Bounded(np.asarray(matrix @ x.value), (rounding + spread) * GROW), magnitude
    )


def read(
    constraints: Sequence[cp.Constraint], names: Mapping[int, str], known: frozenset[str]
) -> AddedRows:
    """Return the rows of those constraints that have the form of the table, in variables that are
    `known`.

    A bound on ‖w‖ has it in every case.
    """
    forms = [standard_form(constraint) for constraint in constraints]
    usable = {number: form for number, form in enumerate(forms) if form is not None}
    pieces = [part for form in usable.values() for part in form.parts]
    groups: list[Group] = []
    parsed: list[tuple[dict[str, Any], Floats]] = []
    size = 0
    compiled = iter(_compiled(pieces, names))
    for number, form in usable.items():
        parts = [next(compiled) for _ in form.parts]
        found = _grouped(form, parts, known)
        if found is None:
            continue
        kind, limits, coefficients, offset, scale = found
        rows = slice(size, size + offset.size)
        groups.append(Group(kind, rows, limits, form.order, number, scale))
        parsed.append((coefficients, offset))
        size = rows.stop
    variables = {
        name: matrix.shape[1] for coefficients, _ in parsed for name, matrix in coefficients.items()
    }
    matrices = {
        name: sp.csr_array(
            sp.vstack(
                [part.get(name, sp.csr_array((offset.size, width))) for part, offset in parsed],
                format="csr",
            )
        )
        for name, width in variables.items()
    }
    offsets = np.concatenate([offset for _, offset in parsed]) if parsed else np.zeros(0)
    left_out = frozenset(range(len(constraints))) - {group.constraint for group in groups}
    return AddedRows(tuple(groups), matrices, offsets, left_out)


def _compiled(
    pieces: Sequence[cp.Expression], names: Mapping[int, str]
) -> list[tuple[dict[str, Any], Floats]]:
    """Return the coefficients of affine expressions by the names of the variables, and their
    constants.
    """
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


def _grouped(
    form: StandardForm, parts: list[tuple[dict[str, Any], Floats]], known: frozenset[str]
) -> tuple[str, int, dict[str, Any], Floats, Floats] | None:
    """Return kind, number of limits, coefficients, constants and scale of one constraint; None if
    its variables are not known.
    """
    if (
        form.kind in ("norm", "square")
        and form.order == 2.0
        and (radius := _radius(form.kind, parts)) is not None
    ):
        # The multiplier of ‖w‖ ≤ r is 2r times that of ‖w‖² ≤ r².
        inside = (
            form.factor
            if form.kind == "square"
            else form.factor / (2.0 * math.sqrt(radius))
            if radius
            else 0.0
        )
        return (
            "ball",
            0,
            {},
            np.array([-(exact(radius) * Bounded(1.0, roundings(4))).upper]),
            np.array([inside]),
        )
    if not all(set(coefficients) <= known for coefficients, _ in parts):
        return None
    names = {
        name: matrix.shape[1] for coefficients, _ in parts for name, matrix in coefficients.items()
    }
    offset = np.concatenate([constant for _, constant in parts])
    coefficients = {
        name: sp.csr_array(
            sp.vstack(
                [part.get(name, sp.csr_array((constant.size, width))) for part, constant in parts],
                format="csr",
            )
        )
        for name, width in names.items()
    }
    limits = 0 if form.kind in ("equality", "inequality") else int(parts[0][1].size)
    scale: Floats = np.full(limits if limits else offset.size, form.factor)
    if "b" in coefficients:
        size: Floats = np.abs(coefficients["b"].toarray()[:, 0])
        if limits:
            if size[:limits].any() or not np.isin(size, (0.0, 1.0)).all():
                return None
        else:
            # The parts of the multipliers in the balance are to be exact: rows are divided by the
            # intercept's coefficient.
            size[size == 0.0] = 1.0
            inverse = sp.diags_array(1.0 / size)
            coefficients = {
                name: sp.csr_array(inverse @ matrix) for name, matrix in coefficients.items()
            }
            coefficients["b"].data = np.sign(coefficients["b"].data)
            offset, scale = offset / size, size
    return form.kind, limits, coefficients, offset, scale


def _radius(kind: str, parts: list[tuple[dict[str, Any], Floats]]) -> float | None:
    """Return R of ‖w‖² ≤ R, None if the constraint is not that."""
    (limit, constant), (vector, offset) = parts
    if (
        any(matrix.nnz for matrix in limit.values())
        or set(vector) != {"w"}
        or offset.any()
        or constant[0] < 0.0
    ):
        return None
    matrix = vector["w"]
    square = (
        abs(matrix.T @ matrix - sp.eye_array(matrix.shape[1])).sum()
        if matrix.shape[0] == matrix.shape[1]
        else 1.0
    )
    if square != 0.0 or not (np.abs(matrix.data) == 1.0).all():
        return None
    return float(constant[0] if kind == "square" else constant[0] * constant[0])


def _square_conjugate(part: Floats) -> Bounded:
    r"""Return at least :math:`\|\zeta\|^2/4\kappa`."""
    kappa = -float(part[0])
    return exact(0.0) if kappa == 0.0 else square(exact(norm_above(part[1:]))) / (4.0 * kappa)


def norms_above(x: Floats, q: float) -> float:
    r"""Return a number that is at least :math:`\|x\|_q`, q ≥ 1."""
    size = np.abs(x)
    largest = float(size.max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest) or math.isinf(q):
        return largest
    if q == 1.0:
        return total(exact(size)).upper_end
    # Divided by the largest: squares and other powers of tiny numbers underflow.
    power: Any = total((exact(size) / largest) ** q)
    return float((largest * exp(log(power) / q)).upper_end)


def dual_norm_above(x: Floats, q: float) -> float:
    r"""Return a number that is at least :math:`\|x\|_{q^*}` with 1/q + 1/q* = 1."""
    if q == 1.0:
        return norms_above(x, math.inf)
    if math.isinf(q):
        return norms_above(x, 1.0)
    if q == 2.0:
        return norms_above(x, 2.0)
    # A smaller exponent has a larger norm.
    return norms_above(x, (exact(q) / (exact(q) - 1.0)).lower_end)
