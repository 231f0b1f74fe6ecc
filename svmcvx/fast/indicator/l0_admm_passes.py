"""Iterations of the ADMM of :mod:`svmcvx.fast.indicator.l0_admm`, compiled."""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.system.compilation import compiled

__all__ = ["iterate"]


@compiled(inner=True)
def _sum_of_rows(rows, coefficients, out):
    """Sum of rows; for sizes at which threads of a BLAS would wait for each other longer than they
    work.
    """
    for j in range(out.size):
        out[j] = 0.0
    for i in range(coefficients.size):
        t = coefficients[i]
        for j in range(out.size):
            out[j] += t * rows[i, j]


@compiled()
def iterate(
    thin,
    matrix,
    turned,
    y,
    upper_bound,
    sigma,
    iota,
    tol,
    price,
    steps,
    c,
    f,
    u,
    lam,
    r,
    z,
    inner,
    number,
    kept,
):
    """Run at most `steps` iterations; `number` holds b, the residual, and the lowest penalised
    objective so far.
    """
    n = y.size
    b = number[0]
    done = 0
    for step in range(steps):
        for i in range(n):
            z[i] = 1.0 - y[i] * (f[i] + b) - lam[i] / sigma
            u[i] = 0.0 if 0.0 < z[i] <= upper_bound[i] else z[i]
            r[i] = -sigma * y[i] * (u[i] - 1.0 + y[i] * b + lam[i] / sigma)
        if thin:
            _sum_of_rows(turned, r, inner)
            _sum_of_rows(matrix, inner, f)
            for i in range(n):
                c[i] = r[i] - sigma * f[i]
        else:
            _sum_of_rows(matrix, r, c)
            for i in range(n):
                f[i] = (r[i] - c[i]) / sigma
        b = 0.0
        for i in range(n):
            b += y[i] * (1.0 - u[i] - y[i] * f[i] - lam[i] / sigma)
        b /= n
        expansion = size_c = balance = size_l = primal = proximal = size_u = norm = lost = 0.0
        for i in range(n):
            off = u[i] - 1.0 + y[i] * (f[i] + b)
            lam[i] = lam[i] + iota * sigma * off if 0.0 < z[i] <= upper_bound[i] else 0.0
            expansion += (c[i] + y[i] * lam[i]) ** 2
            size_c += c[i] ** 2
            balance += y[i] * lam[i]
            size_l += lam[i] ** 2
            primal += off * off
            moved = u[i] - lam[i] / sigma
            if 0.0 < moved <= upper_bound[i]:
                moved = 0.0
            proximal += (u[i] - moved) ** 2
            size_u += u[i] ** 2
            norm += c[i] * f[i]
            if u[i] > 0.0:
                lost += price[i]
        worst = math.sqrt(expansion) / (1.0 + math.sqrt(size_c))
        for other in (
            abs(balance) / (1.0 + math.sqrt(size_l)),
            math.sqrt(primal / n),
            math.sqrt(proximal) / (1.0 + math.sqrt(size_u)),
        ):
            # A residual that is not a number ends the iterations.
            if not other <= worst:
                worst = other
        number[1] = worst
        done = step + 1
        total = 0.5 * norm + lost + 0.5 * sigma * primal
        if total < number[2]:
            number[2] = total
            for i in range(n):
                kept[i] = u[i] <= 0.0
        if number[1] < tol or not math.isfinite(number[1]):
            break
    number[0] = b
    return done
