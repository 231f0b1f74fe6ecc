r"""Methods of the papers that the solvers of this package replace: they show what was published.

- Two rules for the intercept of a pSVM that are not optimal, that of [Sun] and that of the code
  published with it. Both take a mean over the support vectors, which the optimality conditions,
  :math:`b = y_k(1 - \xi_k) - f_k`, give with the slack: ``"paper"`` that of :math:`y_k - f_k`,
  which is right for p = 2 only, ``"released"`` that of :math:`y_k - \operatorname{sign} f_k`.
- pSMO with partners drawn at random, [Sun], Listing 1. Its stop, a small change of α, says little
  about the gap.
- SVRG for ODM and ODML, [ZhangZhou], Algorithm 2. Newton's method and coordinate ascent certify in
  a fraction of its time; with the hinge of ODML the gradients do not converge to zero.
- Adam for M3SVM, as in [NieHaoWang], in full batches on the smoothed loss; [KingmaBa].
- The ADMM of the l0-norm hinge SVM, [LinYaoLiu], Algorithm 4.1. It often cycles.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

import svmcvx as sx
from svmcvx.certificate import check
from svmcvx.fast.margin.smo_passes import move

Floats: TypeAlias = NDArray[np.float64]

RULES = ("paper", "released")
# Smallest multiplier of a support vector.
SUPPORT = 1e-5
# Step of SVRG in units of one over the largest curvature of a single observation; outer steps after
# which the step has halved, with the hinge.
STEP, DECAY = 0.2, 5.0
# Number of epochs of Adam, its decays and its smallest denominator [KingmaBa].
EPOCHS, MOMENTUM, SCALE, TINY = 500, 0.9, 0.999, 1e-8
# Epochs of Adam between two dual points.
BOUND_EVERY = 100
# Number of iterations of the ADMM between two checks of the deadline.
ADMM_CHUNK = 50


def bias_by_rule(rule: str, y: Floats, alpha: Floats, f: Floats) -> float:
    """Return the intercept by a rule of [Sun], 0 if there is no support vector."""
    if rule not in RULES:
        raise sx.DataError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    support = alpha > SUPPORT
    if not support.any():
        return 0.0
    scores = f if rule == "paper" else np.sign(f)
    return float(np.mean(y[support] - scores[support]))


def certificate_with_bias(solution: sx.Solution, X: Any, y: Any, rule: str) -> sx.Certificate:
    """Return the certificate of a solution of ``fast.psvm`` or of a builder of the pSVM with the
    intercept of a rule of [Sun] in place of its own.
    """
    model: Any = solution.model
    signs = np.where(np.asarray(y) == model.classes[1], 1.0, -1.0)
    scores = model.decision_function(X) - model.intercept
    by_rule = replace(
        model, intercept=bias_by_rule(rule, signs, np.asarray(solution.dual["alpha"]), scores)
    )
    values = solution.hyperparameters
    problem = sx.PSVMClassifier(
        C=values["C"], p=values["p"], kernel=getattr(model, "kernel", None), tol=1e-10
    )
    found: Any = sx.certify(by_rule, X, y, problem=problem)
    return found


@numba.njit(cache=True)
def _random_partners(  # type: ignore[no-untyped-def]
    K, g, alpha, y, c, upper_bound, r, tol, eps, first, steps
):
    """Take at most `steps` pair steps of Listing 1 of [Sun] in place, from the observation `first`
    on; return the observation of the last and the number of steps.

    The observation is −1 where none violates the optimality conditions by `tol`, −2 where a step
    has changed its multipliers by less than `eps`.
    """
    n = y.size
    xi = np.empty(n)
    for k in range(n):
        xi[k] = 0.0 if r == 0.0 else (alpha[k] / c[k]) ** r
    i = first
    for step in range(steps):
        top, bottom = -np.inf, np.inf
        for k in range(n):
            grows, shrinks = alpha[k] < upper_bound[k], alpha[k] > 0.0
            if grows if y[k] > 0.0 else shrinks:
                top = max(top, g[k])
            if shrinks if y[k] > 0.0 else grows:
                bottom = min(bottom, g[k])
        if top - bottom <= tol:
            return -1, step
        bias = 0.5 * (top + bottom)
        for _ in range(n):
            i = (i + 1) % n
            grows, shrinks = alpha[i] < upper_bound[i], alpha[i] > 0.0
            up, low = (grows, shrinks) if y[i] > 0.0 else (shrinks, grows)
            if (up and g[i] - bias > 0.25 * tol) or (low and bias - g[i] > 0.25 * tol):
                break
        j = np.random.randint(0, n)  # noqa: NPY002 - numba's generator is its own
        a, b = (i, j) if g[i] >= g[j] else (j, i)
        raises = alpha[a] < upper_bound[a] if y[a] > 0.0 else alpha[a] > 0.0
        lowers = alpha[b] > 0.0 if y[b] > 0.0 else alpha[b] < upper_bound[b]
        if a != b and raises and lowers:
            before = alpha[i]
            move(a, b, K, r, g, alpha, xi, y, c, upper_bound)
            if abs(alpha[i] - before) < eps:
                return -2, step + 1
    return i, steps


@numba.njit(cache=True)
def _seed(seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)  # noqa: NPY002 - numba's generator is its own


def psmo(
    K: Floats, y: Floats, *, C: float, p: float, eps: float = 0.0, tol: float = 1e-9, seed: int = 0
) -> Iterator[tuple[Floats, int, bool]]:
    r"""Run pSMO on a Gram matrix, y of ±1: after every n pair steps, and at the end, yield the
    multipliers α, the number of steps, and whether it has ended.

    The first observation of a pair is the next that violates the optimality conditions, its partner
    is drawn at random. It ends when a step changes α by less than `eps`, as in the paper, or when
    no violation is above `tol`.

    **Source.** [Sun], Algorithm 1 and Listing 1.
    """
    n = y.size
    alpha, g = np.zeros(n), y.copy()
    c, r = np.full(n, C * p), 0.0 if p == 1 else 1.0 / (p - 1.0)
    upper_bound = np.full(n, C if p == 1 else np.inf)
    _seed(seed)
    at, steps = 0, 0
    while at >= 0:
        at, taken = _random_partners(K, g, alpha, y, c, upper_bound, r, tol, eps, at, n)
        steps += taken
        yield alpha, steps, at < 0


def odm_by_svrg(
    X: Floats, y: Any, *, C1: float, C2: float, D: float, epochs: int = 100, seed: int = 0
) -> Floats:
    """Return the weights of an ODM without intercept after some outer steps of SVRG."""
    X, signs = np.ascontiguousarray(X, dtype=np.float64), _signs(y)
    steep = 2.0 * max(C1, C2) * float((X**2).sum(axis=1).max())

    def slopes(scores: Floats) -> Floats:
        return _forces(scores, signs, False, 0.0, C1, C2, D)

    def full(w: Floats, scores: Floats) -> Floats:
        return X.T @ slopes(scores) / signs.size

    loss = (False, 0.0, C1, C2, D)
    return _descend(X, signs, full, loss, STEP / (1.0 + steep), math.inf, epochs, seed)


def odml_by_svrg(
    X: Floats, y: Any, *, lam1: float, lam2: float, C: float, epochs: int = 100, seed: int = 0
) -> Floats:
    """Return the weights of an ODML without intercept after some outer steps of SVRG, two
    independent observations a step.
    """
    X, signs = np.ascontiguousarray(X, dtype=np.float64), _signs(y)
    steep = (4.0 * lam1 + C) * float((X**2).sum(axis=1).max())
    G = signs[:, None] * X
    mean = G.mean(axis=0)

    def full(w: Floats, scores: Floats) -> Floats:
        u = signs * scores
        hinge = -C * (u < 1.0)
        return G.T @ (2.0 * lam1 * (u - u.mean()) + hinge) / u.size - lam2 * mean

    loss = (True, lam1, C, 0.0, 0.0)
    return _descend(X, signs, full, loss, STEP / (1.0 + steep), DECAY, epochs, seed)


def _signs(y: Any) -> Floats:
    return np.where(np.unique(y, return_inverse=True)[1] > 0, 1.0, -1.0)


def _descend(
    X: Floats,
    y: Floats,
    full: Callable[[Floats, Floats], Floats],
    loss: tuple[bool, float, float, float, float],
    eta: float,
    decay: float,
    epochs: int,
    seed: int,
) -> Floats:
    """Run SVRG from zero: each outer step has the full gradient at a snapshot and n inner steps."""
    rng, n, w = np.random.default_rng(seed), y.size, np.zeros(X.shape[1])
    for epoch in range(epochs):
        scores = X @ w
        # The gradient at the snapshot is w̃ + full, so that s = w̃ − μ = −full.
        still = -full(w, scores)
        picks, others = rng.integers(n, size=n), rng.integers(n, size=n)
        _inner_steps(X, y, w, still, scores, picks, others, eta / (1.0 + epoch / decay), *loss)
    return w


@numba.njit(cache=True)
def _force(score, y, other, other_y, hinge, lam1, C1, C2, D):  # type: ignore[no-untyped-def]
    """Return the factor of x_i in the gradient at one observation (and, for ODML, a second one)."""
    u = y * score
    if hinge:
        return (-C1 * y if u < 1.0 else 0.0) + 2.0 * lam1 * (score - y * other_y * other)
    if u < 1.0 - D:
        return 2.0 * C1 * (u - 1.0 + D) * y
    return 2.0 * C2 * (u - 1.0 - D) * y if u > 1.0 + D else 0.0


@numba.njit(cache=True)
def _forces(scores, y, hinge, lam1, C1, C2, D):  # type: ignore[no-untyped-def]
    found = np.empty(y.size)
    for i in range(y.size):
        found[i] = _force(scores[i], y[i], 0.0, 1.0, hinge, lam1, C1, C2, D)
    return found


@numba.njit(cache=True)
def _inner_steps(X, y, w, still, before, picks, others, eta, hinge, lam1, C1, C2, D):  # type: ignore[no-untyped-def]
    """Move w in place: w ← (1 − η)w + ηs − η(g_i(w) − g_i(w̃))x_i; `before` are the scores of w̃."""
    for position in range(picks.size):
        i, k = picks[position], others[position]
        score, other = X[i] @ w, X[k] @ w
        now = _force(score, y[i], other, y[k], hinge, lam1, C1, C2, D)
        change = now - _force(before[i], y[i], before[k], y[k], hinge, lam1, C1, C2, D)
        for j in range(w.size):
            w[j] += eta * (still[j] - w[j] - change * X[i, j])


def m3svm_by_adam(
    X: Any,
    y: Any,
    *,
    lam: float = 0.001,
    p: float = 4.0,
    eps: float = 1e-6,
    loss: str = "hinge",
    delta: float = 1e-2,
    learning_rate: float = 1e-2,
    epochs: int = EPOCHS,
    tol: float = 1e-6,
    time_limit: float | None = None,
) -> sx.Solution:
    """Run the method of [NieHaoWang] for M3SVM from zero, in full batches; the answer has the
    interval of its best point, and of its dual points.
    """
    started = time.monotonic()
    smoothing = {"delta": delta} if loss == "smoothed" else {}
    problem = sx.m3svm(X, y, lam=lam, p=p, eps=eps, loss=loss, **smoothing)
    statement: Any = problem.formulation
    classes, codes = np.unique(y, return_inverse=True)
    X, c = np.asarray(X, dtype=np.float64), classes.size
    mean, rows = X.mean(axis=0), np.arange(codes.size)
    Z = np.hstack([X - mean, np.ones((codes.size, 1))])
    q = np.append(-mean, 1.0)  # b = q'U
    first, second = np.triu_indices(c, 1)

    def evaluated(U: Floats) -> tuple[float, Floats, Floats]:
        """Return the objective with the loss as it is, its smoothed gradient, and the slopes."""
        scores = Z @ U
        own = scores[rows, codes][:, None]
        if loss == "softmax":
            top = scores.max(axis=1, keepdims=True)
            shares = np.exp(scores - top)
            total = shares.sum(axis=1, keepdims=True)
            value = float((top + np.log(total) - own).sum())
            slopes = shares / total
        else:
            f = own - scores
            f[rows, codes] = np.inf  # its own class has no loss
            value, slopes = _pair_losses(f, loss, delta)
        slopes[rows, codes] = 0.0
        slopes[rows, codes] = -slopes.sum(axis=1)
        V = U[:-1, first] - U[:-1, second]
        size, b = np.sqrt((V**2).sum(axis=0)), q @ U
        value += lam * float((size**p).sum()) + eps * float((U[:-1] ** 2).sum() + (b**2).sum())
        flow = lam * p * np.hypot(size, 0.0 if p >= 2 else delta) ** (p - 2.0) * V
        gradient = Z.T @ slopes + 2.0 * eps * np.outer(q, b)
        gradient[:-1] += 2.0 * eps * U[:-1]
        for k in range(c):
            gradient[:-1, k] += flow[:, first == k].sum(axis=1) - flow[:, second == k].sum(axis=1)
        return value, gradient, slopes

    def raised(U: Floats, slopes: Floats, lower: float, dual: Any) -> tuple[float, Any]:
        """Return the largest lower bound so far with its dual point, those near the slopes of the
        other classes, which are multipliers, included.
        """
        others = np.ones(slopes.shape, dtype=bool)
        others[rows, codes] = False
        alpha = slopes[others].reshape(rows.size, c - 1)
        for point in statement.dual_points(U[:-1], q @ U, alpha):
            bound = statement.evaluate_dual(statement.repair(point)).value
            lower, dual = (bound, point) if bound > lower else (lower, dual)
        return lower, dual

    U = np.zeros((Z.shape[1], c))
    moment, square = np.zeros_like(U), np.zeros_like(U)
    best, best_U, status = math.inf, U, sx.Status.ITERATION_LIMIT
    lower, dual, trace = -math.inf, {}, []
    for epoch in range(1, epochs + 2):
        value, gradient, slopes = evaluated(U)
        if value < best:
            best, best_U = value, U
        late = time_limit is not None and time.monotonic() - started > time_limit
        bounded = (epoch - 1) % BOUND_EVERY == 0
        if bounded:
            lower, dual = raised(U, slopes, lower, dual)
        ended = late or epoch > epochs or best - lower <= tol * abs(best)
        if ended and not bounded:
            lower, dual = raised(U, slopes, lower, dual)
        trace.append((time.monotonic() - started, lower, best))
        if ended:
            if late or best - lower <= tol * abs(best):
                status = sx.Status.TIME_LIMIT if late else sx.Status.OPTIMAL
            break
        moment += (1.0 - MOMENTUM) * (gradient - moment)
        square += (1.0 - SCALE) * (gradient**2 - square)
        step = moment / (1.0 - MOMENTUM**epoch) / (np.sqrt(square / (1.0 - SCALE**epoch)) + TINY)
        U = U - learning_rate * (step - step.mean(axis=1, keepdims=True))
    model = statement.model(best_U[:-1], q @ best_U)
    checked = check(statement, [model], [dual])
    return sx.Solution(
        model=checked.model,
        certificate=checked.certificate,
        status=status,
        solver="papers.m3svm/adam",
        attempts=(),
        timings=sx.Timings(solve=time.monotonic() - started),
        dual=checked.dual,
        trace=np.array(trace),
        formulation=statement.name,
        hyperparameters={"lam": lam, "p": p, "eps": eps, "loss": loss},
        terms=checked.terms,
    )


def _pair_losses(f: Floats, loss: str, delta: float) -> tuple[float, Floats]:
    """Return the sum of the losses of differences of scores, and the negatives of their slopes, of
    the smoothed hinge in place of the hinge.
    """
    if loss == "logistic":
        return float(np.logaddexp(0.0, -f).sum()), np.exp(-np.logaddexp(0.0, f))
    gap = np.maximum(1.0 - f, -1e300)
    root = np.hypot(gap, delta)
    slopes = 0.5 * (1.0 + gap / root)
    if loss == "hinge":
        return float(np.maximum(gap, 0.0).sum()), slopes
    return float(0.5 * (gap + root).sum()), slopes


@numba.njit(cache=True)
def _sum_of_rows(rows, coefficients, out):  # type: ignore[no-untyped-def]
    """Sum of rows; for sizes at which threads of a BLAS would wait for each other longer than they
    work.
    """
    for j in range(out.size):
        out[j] = 0.0
    for i in range(coefficients.size):
        t = coefficients[i]
        for j in range(out.size):
            out[j] += t * rows[i, j]


@numba.njit(cache=True)
def _admm_steps(  # type: ignore[no-untyped-def]
    inverse, y, upper_bound, sigma, iota, tol, price, steps, c, f, u, lam, r, z, number, kept
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
        _sum_of_rows(inverse, r, c)
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


class AdmmIterate(NamedTuple):
    """The last and the best iterate of the ADMM."""

    c: Floats
    scores: Floats
    b: float
    u: Floats
    iterations: int
    residual: float
    kept: NDArray[np.bool_]


def _shifted_inverse(K: Floats, sigma: float) -> Floats:
    """Return the inverse of I + σK."""
    system = sigma * K
    system[np.diag_indices(K.shape[0])] += 1.0
    factor, _ = sl.lapack.dpotrf(system, lower=1, overwrite_a=1)
    inverse, _ = sl.lapack.dpotri(factor, lower=1, overwrite_c=1)
    lower = np.tril(inverse)
    return np.ascontiguousarray(lower + np.tril(lower, -1).T)


def l0_by_admm(
    K: Floats,
    y: Floats,
    price: Floats,
    *,
    sigma: float,
    iota: float,
    tol: float,
    max_iter: int,
    stop: Callable[[], bool],
) -> AdmmIterate:
    r"""Run the ADMM of [LinYaoLiu] with the penalty σ from c = 0, b = 0, λ = 0.

    With the slack :math:`u = 1 - \mathrm{diag}(y)(Kc + b)`, its multiplier λ and the penalty σ, one
    iteration is

    .. math::
        z &= 1 - \mathrm{diag}(y)(Kc + b) - \lambda/\sigma, \qquad
            \Gamma = \{i : 0 < z_i \le \sqrt{2Cs_i/\sigma}\},\\
        u &= z \text{ with } u_\Gamma = 0,\\
        (I + \sigma K)\,c &= -\sigma\,\mathrm{diag}(y)(u - 1 + yb + \lambda/\sigma) =: r,\\
        b &= y'(1 - u - \mathrm{diag}(y)Kc - \lambda/\sigma)/n,\\
        \lambda_\Gamma &= \lambda_\Gamma + \iota\sigma(u - 1 + \mathrm{diag}(y)(Kc + b))_\Gamma,
            \qquad \lambda_i = 0 \text{ elsewhere.}

    As :math:`\sigma Kc = r - c`, an iteration takes one product, with :math:`(I + \sigma K)^{-1}`.

    It stops when the residuals of proximal stationarity at the step 1/σ are small:

    .. math:: \max\Big\{\frac{\|c + \mathrm{diag}(y)\lambda\|}{1 + \|c\|},\;
        \frac{|y'\lambda|}{1 + \|\lambda\|},\;
        \frac{\|u - 1 + \mathrm{diag}(y)(Kc + b)\|}{\sqrt n},\;
        \frac{\|u - \mathrm{prox}(u - \lambda/\sigma)\|}{1 + \|u\|}\Big\} < \mathrm{tol}.

    **Source.** [LinYaoLiu], Algorithm 4.1 and eq. (5.3); the residuals are normed differently here.
    """
    n = y.size
    c, f, u, lam, r, z = (np.zeros(n) for _ in range(6))
    number, kept = np.array([0.0, math.inf, math.inf]), np.zeros(n, dtype=np.bool_)
    upper_bound, inverse = np.sqrt(2.0 * price / sigma), _shifted_inverse(K, sigma)
    done = 0
    while done < max_iter:
        steps = min(ADMM_CHUNK, max_iter - done)
        taken = _admm_steps(
            inverse,
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
            number,
            kept,
        )
        done += taken
        if taken < steps or number[1] < tol or stop():
            break
    return AdmmIterate(c, f, float(number[0]), u, done, float(number[1]), kept)
