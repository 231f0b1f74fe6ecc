"""Points and multipliers of problems with added constraints, from what a solver has left near them.

Nothing here is trusted: models are measured, and multipliers repaired, before they count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.core.bounded import Bounded
from svmcvx.formulations.added_rows import AddedRows, Group
from svmcvx.formulations.linear_dual import LinearDual

__all__ = ["STEPS", "completed", "moved_inside"]

Floats: TypeAlias = NDArray[np.float64]

# Steps towards the added constraints, and how far inside of them a step aims, in violations.
STEPS, INSIDE = 4, 3.0
# Entries of a normed vector up to this share of the largest count as zero, or within this share of
# it as the largest, where its subgradient is sought.
NEARLY = 1e-4


def moved_inside(
    rows: AddedRows, at: Mapping[str, Bounded], excess: Sequence[Floats], moving: Sequence[str]
) -> dict[str, Floats] | None:
    """Return values of the variables near those given that meet the constraints better; None if
    these meet them all.

    A solver's point violates constraints by its tolerance. Rows that are violated are moved to
    their other side by the smallest step; a norm counts as its tangent.
    """
    moved = {name: rows.matrices[name] for name in moving if name in rows.matrices}
    if not moving:
        return None
    wanted, targets = [], []
    value = rows.values(at).value
    for group, over in zip(rows.groups, excess, strict=True):
        for tangent in _tangents(group, value[group.rows], over):
            line = {name: np.zeros(at[name].size) for name in moving}
            for name, matrix in moved.items():
                line[name] = np.asarray(tangent.weights @ matrix[group.rows.start + tangent.rows])
            if group.kind == "ball":
                line["w"] = 2.0 * at["w"].value
            whole = np.concatenate(list(line.values()))
            if whole.any():
                wanted.append(whole)
                targets.append(tangent.change)
    if not wanted:
        return None
    try:
        step, *_ = sl.lstsq(np.array(wanted), np.array(targets), lapack_driver="gelsy")
    except (ValueError, sl.LinAlgError):
        return None
    sizes = np.cumsum([at[name].size for name in moving])[:-1]
    return {
        name: at[name].value + part
        for name, part in zip(moving, np.split(step, sizes), strict=True)
    }


class _Tangent(NamedTuple):
    """A combination of rows of a group, and what it is to change by."""

    rows: NDArray[np.intp]
    weights: Floats
    change: float


def _tangents(group: Group, value: Floats, over: Floats) -> list[_Tangent]:
    """Combinations of the rows of a group that are violated."""
    found: list[_Tangent] = []
    for j in np.flatnonzero(over > 0.0):
        inside = -INSIDE * float(over[j])
        if group.kind == "equality":
            found.append(_Tangent(np.array([j]), np.ones(1), -float(value[j])))
        elif group.kind in ("inequality", "ball"):
            found.append(_Tangent(np.array([j]), np.ones(1), inside))
        elif group.kind == "entries":
            k = group.limits + j
            found.append(
                _Tangent(np.array([j, k]), np.array([-1.0, math.copysign(1.0, value[k])]), inside)
            )
        else:
            found += _tangents_of_norm(group, value, inside)
    return found


def _tangents_of_norm(group: Group, value: Floats, inside: float) -> list[_Tangent]:
    """The same for the norm of a vector, or its square."""
    vector, every = value[1:], np.arange(value.size)
    if group.kind == "square":
        return [_Tangent(every, np.concatenate([[-1.0], 2.0 * vector]), inside)]
    near = np.flatnonzero(_open(vector, group.order)) + 1
    if math.isinf(group.order):
        return [
            _Tangent(np.array([0, k]), np.array([-1.0, math.copysign(1.0, value[k])]), inside)
            for k in near
        ]
    # Entries at the kink of an absolute value go there.
    kinks = [_Tangent(np.array([k]), np.ones(1), -float(value[k])) for k in near]
    return [
        *kinks,
        _Tangent(every, np.concatenate([[-1.0], _subgradient(vector, group.order)]), inside),
    ]


def _subgradient(u: Floats, q: float) -> Floats:
    """Return a subgradient of the q-norm."""
    size = np.abs(u)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return np.zeros(u.size)
    if math.isinf(q):
        near = size >= (1.0 - NEARLY) * largest
        return np.asarray(np.sign(u) * near / near.sum())
    if q == 1.0:
        return np.asarray(np.sign(u) * (size > NEARLY * largest))
    powers = (size / largest) ** (q - 1.0)
    return np.asarray(np.sign(u) * powers / float(((size / largest) ** q).sum()) ** (1.0 - 1.0 / q))


def _open(u: Floats, q: float) -> NDArray[np.bool_]:
    """Entries of the q-norm's subgradient that u does not determine."""
    size = np.abs(u)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return np.ones(u.size, dtype=bool)
    if math.isinf(q):
        return size >= (1.0 - NEARLY) * largest
    return size <= NEARLY * largest if q == 1.0 else np.zeros(u.size, dtype=bool)


def completed(
    rows: AddedRows,
    constraints: Sequence[cp.Constraint],
    at: Mapping[str, Bounded],
    linear: LinearDual,
    dual: Dual,
) -> Floats | None:
    r"""Return multipliers of the rows, from those of a solver and of the losses; None if the solver
    has left none.

    A solver gives one number for a norm. Its subgradient follows from the vector, and where this
    leaves it open, as at zero entries of a sum of absolute values, from the stationarity of w and
    b: :math:`(1 + 2\kappa)w = X'v - c_w` and :math:`\sum_i v_i = c_b`.
    """
    m = np.zeros(rows.offset.size)
    undetermined = np.zeros(rows.offset.size, dtype=bool)
    value = rows.values(at).value
    for group in rows.groups:
        solved = _solved(constraints[group.constraint])
        if solved is None or solved.size < group.scale.size:
            return None
        solved = solved[: group.scale.size] * group.scale
        part, vector = m[group.rows], value[group.rows][group.limits :]
        if not group.limits:
            part[:] = solved
        elif group.kind == "entries":
            part[:] = np.concatenate([-solved, solved * np.sign(vector)])
        elif group.kind == "square":
            part[:] = np.concatenate([[-solved[0]], 2.0 * solved[0] * vector])
        else:
            part[:] = np.concatenate([[-solved[0]], solved[0] * _subgradient(vector, group.order)])
            undetermined[group.rows][1:] = _open(vector, group.order) & (solved[0] > 0.0)
    if "w" in rows.matrices and undetermined.any():
        curvature = 1.0 + 2.0 * sum(
            float(m[group.rows][0]) for group in rows.groups if group.kind == "ball"
        )
        slopes = {"w": linear.expansion(dual).value - curvature * at["w"].value}
        if "b" in rows.matrices:
            slopes["b"] = np.array([linear.statement.coefficients(dual).sum()])
        _determine(rows, m, undetermined, slopes)
    return m


def _solved(constraint: cp.Constraint) -> Floats | None:
    """The multipliers that a solver has left for a constraint, those of its limit where it is a
    cone.
    """
    found = constraint.dual_value
    found = found[0] if isinstance(found, (list, tuple)) else found
    if found is None or not np.isfinite(found).all():
        return None
    return np.ravel(np.asarray(found, dtype=np.float64), order="F")


def _determine(
    rows: AddedRows, m: Floats, undetermined: NDArray[np.bool_], slopes: Mapping[str, Floats]
) -> None:
    """Set the undetermined multipliers to those whose coefficients are the slopes, inside their
    norms, in place.
    """
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
            elif (
                size := float(np.linalg.norm(part[1:], 1 if math.isinf(group.order) else 2))
            ) > kappa:
                part[1:] *= kappa / size
