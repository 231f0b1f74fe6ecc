r"""Compiled steps of an interior-point method for hinges of several classes, on few observations.

The multipliers of the difference f of an observation of weight s are the a with :math:`0 \le a_k
\le ts`, :math:`\sum_k a_k \le Ts`; t or T may be infinite. With multipliers z of these bounds,
slacks r of them and :math:`\gamma = 1 - f` the conditions of optimality are

.. math:: \nabla\Omega(U) = Z'B(a), \qquad \gamma = -z^0 + z^t + z^T 1, \qquad r\,z = 0,

which Newton's method solves with :math:`rz = \mu` for decreasing μ: a step without μ tells how far
it can fall, and gives the second-order term of the step that is taken [Mehrotra]. With a and z
eliminated, where the sum of squares of :math:`z/r` is diagonal plus a matrix of ones, a step needs
the Laplacian of the classes of :mod:`svmcvx.fast.several_classes.systems`, of (c − 1)
r rows.

The penalty is :math:`\lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|^2 + \|b\|^2)`, p ≥ 2. On
weights that sum to zero :math:`\|W\|^2 = \tfrac1c\sum_{k<l}\|w_k - w_l\|^2`.

Source: [Mehrotra].
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from svmcvx.fast.core.active_set_passes import backward, forward
from svmcvx.system.compilation import compiled


@compiled(inner=True, error_model="numpy")
def _loss(gamma, largest, total):
    """Return the largest inner product of the slacks and multipliers of weight 1, T ≤ 2t."""
    value, first, second = 0.0, 0.0, 0.0
    for j in range(gamma.size):
        value += largest * max(gamma[j], 0.0)
        if gamma[j] > first:
            first, second = gamma[j], first
        elif gamma[j] > second:
            second = gamma[j]
    if total == np.inf:
        return value
    share = min(largest, total)
    return share * first + (total - share) * second


@compiled(inner=True, error_model="numpy")
def _coefficients(alpha, own, row):
    """Write the coefficients of one observation's scores in its inner product with `alpha`."""
    row[own] = 0.0
    for j in range(alpha.size):
        row[j + (j >= own)] = -alpha[j]
        row[own] += alpha[j]


@compiled(inner=True, error_model="numpy")
def _penalise(U, d, q, lam, p, eps, gradient, H):
    """Write the penalty's gradient, add its Hessian; return value and a short pair's curvature."""
    r, c = U.shape
    value, least, most = 0.0, np.inf, 0.0
    gradient[:] = 0.0
    for k in range(c):
        b = 0.0
        for i in range(r):
            b += q[i] * U[i, k]
        for i in range(r):
            gradient[i, k] += 2.0 * eps * q[i] * b
        for i in range(d):
            gradient[i, k] += 2.0 * eps * U[i, k]
            value += eps * U[i, k] ** 2
        value += eps * b * b
    for k in range(c):
        for other in range(k + 1, c):
            size = 0.0
            for i in range(d):
                size += (U[i, k] - U[i, other]) ** 2
            stiff = lam * p * size ** (0.5 * p - 1.0)
            value += lam * size ** (0.5 * p)
            least, most = min(least, stiff), max(most, stiff)
            radial = stiff * (p - 2.0) / size if size > 0.0 and p > 2.0 else 0.0
            for i in range(d):
                change = stiff * (U[i, k] - U[i, other])
                gradient[i, k] += change
                gradient[i, other] -= change
            for i in range(r):
                for j in range(i + 1):
                    entry = 2.0 * eps / c * q[i] * q[j]
                    if i < d:
                        entry += radial * (U[i, k] - U[i, other]) * (U[j, k] - U[j, other])
                        if i == j:
                            entry += stiff + 2.0 * eps / c
                    H[k, i, k, j] += entry
                    if other < c - 1:
                        H[other, i, other, j] += entry
                        H[other, i, k, j] -= entry
                        if i != j:
                            H[other, j, k, i] -= entry
    # Pairs of equal weights have no second derivatives: the estimate of the gap needs some.
    return value, c * max(least, 1e-3 * most) + 2.0 * eps


@compiled(inner=True, error_model="numpy")
def _inverse(D, rest, share, x, out):
    """Write (diag(D) + ω 11')⁻¹x without cancellation; `rest` is 1/ω + Σ 1/D, `share` 1/ω of it."""
    for j in range(D.size):
        out[j] = share * x[j]
        for k in range(D.size):
            out[j] += (x[j] - x[k]) / D[k] / rest
        out[j] /= D[j]


@compiled(inner=True, error_model="numpy")
def _factorise(H):
    """Overwrite the lower triangle of a matrix by its Cholesky factor, if it has one."""
    n = H.shape[0]
    for i in range(n):
        # A ridge of the size of rounding.
        H[i, i] *= 1.0 + 1e-14
        for j in range(i + 1):
            entry = H[i, j]
            for k in range(j):
                entry -= H[i, k] * H[j, k]
            if i > j:
                H[i, j] = entry / H[j, j]
            elif entry > 0.0:
                H[i, i] = np.sqrt(entry)
            else:
                return False
    return True


@compiled(inner=True, error_model="numpy", allocates=True)
def _add_losses(Z, codes, D, rest, share, H):
    n, r = Z.shape
    m = D.shape[1]
    M = np.empty((m + 1, m + 1))
    for i in range(n):
        # A Laplacian: the diagonal is minus the sum of the rest of a row.
        own = codes[i]
        M[own, own] = 0.0
        for j in range(m):
            at = j + (j >= own)
            M[at, own] = M[own, at] = -share[i] / D[i, j]
            M[own, own] -= M[at, own]
            M[at, at] = -M[at, own]
            for k in range(j):
                to = k + (k >= own)
                M[at, to] = M[to, at] = -1.0 / D[i, j] / D[i, k] / rest[i]
                M[at, at] -= M[at, to]
                M[to, to] -= M[at, to]
        for k in range(m):
            for t in range(k + 1):
                for a in range(r):
                    factor = M[k, t] * Z[i, a]
                    for b in range(a + 1 if k == t else r):
                        H[k, a, t, b] += factor * Z[i, b]


@compiled(inner=True, error_model="numpy", allocates=True)
def _direction(Z, codes, D, rest, share, L, gradient, T, dU, df, dA):
    """Write the changes of U, the differences and the multipliers for the right-hand side T."""
    n, r = Z.shape
    m = T.shape[1]
    x, row, score = np.empty(m * r), np.empty(m + 1), np.empty(m + 1)
    for k in range(m):
        for a in range(r):
            x[k * r + a] = -gradient[a, k]
    for i in range(n):
        _inverse(D[i], rest[i], share[i], T[i], dA[i])
        _coefficients(dA[i], codes[i], row)
        for k in range(m):
            for a in range(r):
                x[k * r + a] += row[k] * Z[i, a]
    forward(L, x.size, x)
    backward(L, x.size, x)
    for a in range(r):
        mean = 0.0
        for k in range(m):
            mean += x[k * r + a] / (m + 1)
        for k in range(m):
            dU[a, k] = x[k * r + a] - mean
        dU[a, m] = -mean
    for i in range(n):
        for k in range(m + 1):
            score[k] = 0.0
            for a in range(r):
                score[k] += Z[i, a] * dU[a, k]
        own = codes[i]
        for j in range(m):
            df[i, j] = score[own] - score[j + (j >= own)]
            row[j] = T[i, j] - df[i, j]
        _inverse(D[i], rest[i], share[i], row[:m], dA[i])


@compiled(inner=True, error_model="numpy")
def _changes(slack, z, product, dslack, dz):
    """Write the changes of the bounds' multipliers; return the longest step, at most 1."""
    nearest = np.inf
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            dz[i, j] = (product[i, j] - z[i, j] * dslack[i, j]) / slack[i, j] - z[i, j]
            if dslack[i, j] < 0.0:
                nearest = min(nearest, -slack[i, j] / dslack[i, j])
            if dz[i, j] < 0.0:
                nearest = min(nearest, -z[i, j] / dz[i, j])
    # Not the whole way to the nearest bound, so that all numbers stay positive.
    return min(1.0, 0.995 * nearest)


@compiled(nogil=True, error_model="numpy", allocates=True)
def interior_step(Z, d, q, codes, s, largest, total, lam, p, eps, U, slack, z, target):
    """Take an interior step; return its objective, the estimated gap, and whether it succeeded."""
    n, r = Z.shape
    m = U.shape[1] - 1
    gradient, H = np.empty(U.shape), np.zeros((m, r, m, r))
    value, curvature = _penalise(U, d, q, lam, p, eps, gradient, H)
    gamma, T, D = np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    rest, share = np.empty(n), np.empty(n)
    dslack, dz, product = np.empty(z.shape), np.empty(z.shape), np.zeros(z.shape)
    row, score = np.empty(m + 1), np.empty(m + 1)
    gap, mu = 0.0, 0.0
    for i in range(n):
        own = codes[i]
        for k in range(m + 1):
            score[k] = 0.0
            for a in range(r):
                score[k] += Z[i, a] * U[a, k]
        _coefficients(slack[i, :m], own, row)
        for a in range(r):
            for k in range(m + 1):
                gradient[a, k] -= Z[i, a] * row[k]
        for j in range(z.shape[1]):
            mu += slack[i, j] * z[i, j] / z.size
        free = slack[i, -1] / z[i, -1] if total < np.inf else np.inf
        rest[i] = free
        along = 0.0
        for j in range(m):
            gamma[i, j] = T[i, j] = 1.0 - (score[own] - score[j + (j >= own)])
            along += slack[i, j] * gamma[i, j]
            D[i, j] = z[i, j] / slack[i, j]
            if largest < np.inf:
                D[i, j] += z[i, m + j] / slack[i, m + j]
            rest[i] += 1.0 / D[i, j]
        share[i] = free / rest[i] if total < np.inf else 1.0
        loss = s[i] * _loss(gamma[i], largest, total)
        value += loss
        gap += max(loss - along, 0.0)
    _add_losses(Z, codes, D, rest, share, H)
    # What the gradient costs: for biases by their second derivatives, as nothing is known of their
    # size.
    for a in range(d):
        for k in range(m + 1):
            gap += 0.5 * gradient[a, k] ** 2 / curvature
    for a in range(d, r):
        for k in range(m):
            gap += 0.5 * gradient[a, k] ** 2 / H[k, a, k, a]
    if not target * value < gap < np.inf:
        return value, gap, False
    L = H.reshape(m * r, m * r)
    if not _factorise(L):
        return value, gap, False
    dU, df, dA = np.empty(U.shape), np.empty((n, m)), np.empty((n, m))
    length = 0.0
    for corrected in range(2):
        _direction(Z, codes, D, rest, share, L, gradient, T, dU, df, dA)
        for i in range(n):
            change = 0.0
            for j in range(m):
                dslack[i, j] = dA[i, j]
                change += dA[i, j]
                if largest < np.inf:
                    dslack[i, m + j] = -dA[i, j]
            if total < np.inf:
                dslack[i, -1] = -change
        length = _changes(slack, z, product, dslack, dz)
        if corrected:
            break
        left = 0.0
        for i in range(n):
            for j in range(z.shape[1]):
                left += (
                    (slack[i, j] + length * dslack[i, j]) * (z[i, j] + length * dz[i, j]) / z.size
                )
        centre = mu * (left / mu) ** 3
        for i in range(n):
            for j in range(z.shape[1]):
                product[i, j] = centre - dslack[i, j] * dz[i, j]
            for j in range(m):
                T[i, j] = gamma[i, j] + product[i, j] / slack[i, j]
                if largest < np.inf:
                    T[i, j] -= product[i, m + j] / slack[i, m + j]
                if total < np.inf:
                    T[i, j] -= product[i, -1] / slack[i, -1]
    for a in range(r):
        for k in range(m + 1):
            U[a, k] += length * dU[a, k]
    for i in range(n):
        for j in range(z.shape[1]):
            slack[i, j] += length * dslack[i, j]
            z[i, j] += length * dz[i, j]
    return value, gap, True
