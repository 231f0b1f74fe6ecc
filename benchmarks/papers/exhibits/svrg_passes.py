r"""The inner loop of SVRG [ZhangZhou, Algorithm 2] for the ODM family, compiled.

An outer step takes the full gradient μ at a snapshot :math:`\tilde w`; each of its inner steps
moves along the gradient at one observation (ODML: at two), minus that at the snapshot, plus μ. With
:math:`s = \tilde w - \mu` the step is

.. math:: w \leftarrow (1 - \eta) w + \eta s - \eta\,(g_i(w) - g_i(\tilde w))\,x_i.

For sparse rows coordinates that no observation has touched are brought up to date when they are
needed: k steps without a change multiply :math:`w - s` by :math:`(1 - \eta)^k`.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.system.compilation import compiled

__all__ = ["svrg_dense", "svrg_sparse"]


@compiled(inner=True)
def _force(score, y, other, other_y, hinge, lam1, C1, C2, D):
    """Return the factor of x_i in the gradient at one observation (and, for ODML, a second one),
    without constants.
    """
    u = y * score
    if hinge:
        force = -C1 * y if u < 1.0 else 0.0
        return force + 2.0 * lam1 * (score - y * other_y * other)
    if u < 1.0 - D:
        return 2.0 * C1 * (u - 1.0 + D) * y
    if u > 1.0 + D:
        return 2.0 * C2 * (u - 1.0 - D) * y
    return 0.0


@compiled()
def svrg_dense(X, y, w, still, before, picks, others, eta, hinge, lam1, C1, C2, D, visits, hits):
    """Run the inner loop of SVRG; `before` are the snapshot's scores and `still` is s."""
    keep = 1.0 - eta
    for position in range(picks.size):
        i, k = picks[position], others[position]
        score = other = 0.0
        for j in range(w.size):
            score += X[i, j] * w[j]
        if hinge and lam1 > 0.0:
            for j in range(w.size):
                other += X[k, j] * w[j]
        visits[i] += 1
        hits[i] += y[i] * score < 1.0
        now = _force(score, y[i], other, y[k], hinge, lam1, C1, C2, D)
        change = eta * (now - _force(before[i], y[i], before[k], y[k], hinge, lam1, C1, C2, D))
        for j in range(w.size):
            w[j] = keep * w[j] + eta * still[j] - change * X[i, j]


@compiled(inner=True)
def _current_score(data, indices, indptr, i, w, still, rate, position, touched):
    """Return the score of a sparse row, after bringing its coordinates up to date."""
    score = 0.0
    for j in range(indptr[i], indptr[i + 1]):
        column = indices[j]
        behind = position - touched[column]
        if behind > 0:
            w[column] = still[column] + math.exp(rate * behind) * (w[column] - still[column])
            touched[column] = position
        score += data[j] * w[column]
    return score


@compiled()
def svrg_sparse(
    data,
    indices,
    indptr,
    y,
    w,
    still,
    before,
    picks,
    others,
    eta,
    hinge,
    lam1,
    C1,
    C2,
    D,
    visits,
    hits,
    touched,
):
    """Do the same with lazy updates; `touched` holds the step up to which each coordinate is
    current.
    """
    rate = math.log1p(-eta)
    touched[:] = 0
    for position in range(picks.size):
        i, k = picks[position], others[position]
        other = 0.0
        if hinge and lam1 > 0.0:
            other = _current_score(data, indices, indptr, k, w, still, rate, position, touched)
        score = _current_score(data, indices, indptr, i, w, still, rate, position, touched)
        visits[i] += 1
        hits[i] += y[i] * score < 1.0
        now = _force(score, y[i], other, y[k], hinge, lam1, C1, C2, D)
        change = eta * (now - _force(before[i], y[i], before[k], y[k], hinge, lam1, C1, C2, D))
        for j in range(indptr[i], indptr[i + 1]):
            column = indices[j]
            w[column] = still[column] + (1.0 - eta) * (w[column] - still[column]) - change * data[j]
            touched[column] = position + 1
    for column in range(w.size):
        behind = picks.size - touched[column]
        if behind > 0:
            w[column] = still[column] + math.exp(rate * behind) * (w[column] - still[column])
