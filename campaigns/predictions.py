"""Certified scores against optima in hundreds of digits, with zero slack.

    python -m campaigns.predictions [--count 1000] [--first 0] [--seed 17] [--proofs]

An instance is a small hostile problem, solved loosely or well, sometimes with a model or
multipliers that were spoilt afterwards. The oracle (:func:`optimal_scores`) knows the optimum of
the same data as exact numbers: multipliers are solved for in ball arithmetic, and accepted only if
the duality gap, evaluated in balls, is below 1e-40 of the objective; what that leaves of the
optimal w and the exact set of optimal intercepts is added to its answer. A miss is a certified
interval that does not contain every optimal score.

The control is the same test with half the radius, or a twentieth: it has to fail, or the test has
no teeth. ``--proofs`` hands the intervals on in proofs, and takes those that the second checker
finds.
"""

import itertools
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from flint import arb, arb_mat, ctx

import svmcvx as sx
from campaigns import common
from svmcvx.guarantees import guarantee
from svmcvx.proofs import predictions

# Bits of the solves, and of the evaluations, in which sums of solved numbers are exact.
SOLVE, EVALUATE = 700, 6000
ENOUGH = arb("1e-40")
NEWTON_STEPS = 200
DESIGNS = (
    "gaussian",
    "integers",
    "offset",
    "scaled columns",
    "duplicates",
    "far clusters",
    "constant column",
    "unbalanced",
    "tiny",
    "outlier",
)
TOLERANCES = (0.3, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
FORMULATIONS = ("psvm", "psvm", "psvm", "psvm", "hard_margin", "odm")


def balls(values):
    return [arb(float(value)) for value in np.ravel(values)]


def mid(x):
    return x.mid()


# Machines: K between all rows, training first, in balls; costs; what the optimum is.


def gram(X, kernel, constant):
    """The kernel matrix in balls; with a constant feature if asked for."""
    rows = [balls(row) for row in X]
    n = len(rows)
    K = [[arb(0)] * n for _ in range(n)]
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        if kernel is None or isinstance(kernel, sx.Linear):
            value = sum((a * b for a, b in zip(rows[i], rows[j], strict=True)), arb(0))
        elif isinstance(kernel, sx.Polynomial):
            inner = sum((a * b for a, b in zip(rows[i], rows[j], strict=True)), arb(0))
            value = (arb(float(kernel.gamma)) * inner + arb(float(kernel.coef0))) ** int(
                kernel.degree
            )
        else:
            gamma = arb(float(kernel.gamma))
            differences = [a - b for a, b in zip(rows[i], rows[j], strict=True)]
            if isinstance(kernel, sx.RBF):
                distance = sum((a * a for a in differences), arb(0))
            elif isinstance(kernel, sx.Exponential):
                square = sum((a * a for a in differences), arb(0))
                distance = arb(0) if i == j or square == 0 else square.sqrt()
            else:
                distance = sum((abs(a) for a in differences), arb(0))
            value = (-gamma * distance).exp()
        K[i][j] = K[j][i] = value + 1 if constant else value
    return K


class Machine:
    """A problem of the tests in exact numbers: min ½‖w‖² + Σ losses, with the multipliers as signed
    coefficients v of φ(x).
    """

    def __init__(self, formulation, K, y, weight, settings, intercept):
        self.formulation, self.K, self.y, self.intercept = (
            formulation,
            K,
            [int(v) for v in y],
            intercept,
        )
        self.n = len(self.y)
        self.s = balls(weight)
        self.settings = settings
        if formulation == "psvm":
            self.p = arb(float(settings["p"]))
            self.cost = [arb(float(settings["C"])) * s for s in self.s]
        elif formulation == "odm":
            total = sum(self.s, arb(0))
            self.share = [s / total for s in self.s]
            self.C1, self.C2, self.D = (arb(float(settings[name])) for name in ("C1", "C2", "D"))

    @property
    def free(self):
        return self.intercept == "free"

    def margins(self, v, b):
        return [
            y * (sum((k * w for k, w in zip(row, v, strict=False)), arb(0)) + b)
            for y, row in zip(self.y, self.K, strict=False)
        ]

    def losses(self, u):
        if self.formulation == "psvm":
            slacks = [positive(1 - m) for m in u]
            powers = slacks if self.p == 1 else [power(xi, self.p) for xi in slacks]
            return sum((c * q for c, q in zip(self.cost, powers, strict=True)), arb(0))
        if self.formulation == "hard_margin":
            return arb(0) if all(m >= 1 for m in u) else arb("inf")
        return sum(
            (
                c
                * (
                    self.C1 * positive(1 - self.D - m) ** 2
                    + self.C2 * positive(m - 1 - self.D) ** 2
                )
                for c, m in zip(self.share, u, strict=True)
            ),
            arb(0),
        )

    def gains(self, v):
        if self.formulation == "odm":
            theta = [y * c for y, c in zip(self.y, v, strict=True)]
            return sum(
                (
                    t - self.D * abs(t) - t * t / (4 * (self.C1 if t > 0 else self.C2) * c)
                    for t, c in zip(theta, self.share, strict=True)
                ),
                arb(0),
            )
        alpha = [y * c for y, c in zip(self.y, v, strict=True)]
        if not all(a >= 0 for a in alpha):
            return arb("-inf")
        if self.formulation == "hard_margin":
            return sum(alpha, arb(0))
        if self.p == 1:
            return (
                sum(alpha, arb(0))
                if all(a <= c for a, c in zip(alpha, self.cost, strict=True))
                else arb("-inf")
            )
        gamma = self.p / (self.p - 1)
        return sum(
            (
                a - c * (self.p - 1) * power(a / (c * self.p), gamma)
                for a, c in zip(alpha, self.cost, strict=True)
            ),
            arb(0),
        )

    def squared_norm(self, v):
        return sum(
            (
                a * sum((k * w for k, w in zip(row, v, strict=False)), arb(0))
                for a, row in zip(v, self.K, strict=False)
            ),
            arb(0),
        )


def positive(x):
    """max(x, 0) of a ball, as a ball."""
    if x > 0:
        return x
    if x <= 0:
        return arb(0)
    return arb(0).union(x.upper() if x.upper() > 0 else arb(0))


def power(x, exponent):
    if x == 0:
        return arb(0)
    if not x > 0:
        high = x.upper() ** exponent
        return arb(0).union(high)
    return x**exponent


def solve(rows, right):
    """Solve a square system at its midpoints; None if it is singular."""
    try:
        found = arb_mat(rows).solve(arb_mat([[x] for x in right]), nonstop=False)
    except ZeroDivisionError:
        return None
    return [mid(found[i, 0]) for i in range(len(right))]


def by_partition(machine, v0):
    """Candidates (v, b) of a machine whose conditions are linear once it is known which multipliers
    are at their bounds.
    """
    n, y = machine.n, machine.y
    hard = machine.formulation == "hard_margin"
    cost = [None] * n if hard else machine.cost
    top = np.full(n, np.inf) if hard else np.array([float(c) for c in cost])
    alpha0 = np.abs(v0)
    for near in (1e-9, 1e-7, 1e-5, 1e-3, 1e-12):
        reach = near * (np.full(n, alpha0.max()) if hard else top)
        bound = ~(alpha0 < top - reach)
        inside = np.flatnonzero((alpha0 > reach) & ~bound)
        for rank in (1e-10, 1e-7, 1e-13, 1e-4):
            chosen = independent(machine, inside, rank)
            fixed = [arb(0)] * n
            for i in range(n):
                if bound[i]:
                    fixed[i] = y[i] * cost[i]
                elif i in inside and i not in chosen:
                    fixed[i] = arb(float(v0[i]))
            fixed = [mid(x) for x in fixed]
            yield solved_partition(machine, fixed, chosen)


def independent(machine, inside, tolerance):
    """Rows whose points, with a constant feature where the intercept is free, are clearly
    independent.
    """
    if not inside.size:
        return []
    K = np.array([[float(machine.K[i][j]) for j in inside] for i in inside])
    if machine.free:
        mean = K.mean(axis=0)
        K = K - mean[:, None] - mean[None, :] + K.mean()
        scale = max(float(np.abs(np.diag(K)).max()), 1e-300)
        K = K + scale
    _, triangle, order = sl.qr(K, pivoting=True)
    size = np.abs(np.diag(triangle))
    return sorted(int(inside[k]) for k in order[: int((size > tolerance * size[0]).sum())])


def solved_partition(machine, fixed, chosen):
    """Multipliers with margins 1 on the rows chosen and given values elsewhere."""
    y, K = machine.y, machine.K
    size = len(chosen)
    others = [j for j in range(machine.n) if fixed[j] != 0]
    rows, right = [], []
    for i in chosen:
        rows.append([mid(K[i][j]) for j in chosen] + ([arb(1)] if machine.free else []))
        right.append(mid(arb(y[i]) - sum((K[i][j] * fixed[j] for j in others), arb(0))))
    if machine.free:
        rows.append([arb(1)] * size + [arb(0)])
        right.append(mid(-sum((fixed[j] for j in others), arb(0))))
    v = list(fixed)
    b = arb(0)
    if size:
        found = solve(rows, right)
        if found is None:
            return None
        for k, i in enumerate(chosen):
            v[i] = found[k]
        b = found[size] if machine.free else b
    return v, b


def by_newton(machine, v0, b0):
    """One candidate (v, b) of a machine with smooth losses: Newton's method on the primal, in the
    coefficients of the rows.
    """
    n, y, K = machine.n, machine.y, machine.K
    v, b = balls(v0), arb(float(b0))
    for step in range(NEWTON_STEPS):
        u = [mid(m) for m in machine.margins(v, b)]
        slope, bend = zip(*(derivatives(machine, i, m) for i, m in enumerate(u)), strict=True)
        active = [i for i in range(n) if bend[i] > 0]
        if not active:
            return None
        rows, right = [], []
        for i in active:
            rows.append(
                [mid(y[i] * K[i][j] * y[j] + (1 / bend[i] if i == j else 0)) for j in active]
                + ([arb(y[i])] if machine.free else [])
            )
            right.append(mid(slope[i] / bend[i] + u[i]))
        if machine.free:
            rows.append([arb(y[j]) for j in active] + [arb(0)])
            right.append(arb(0))
        found = solve(rows, right)
        if found is None:
            return None
        new = [arb(0)] * n
        for k, i in enumerate(active):
            new[i] = y[i] * found[k]
        other = found[len(active)] if machine.free else arb(0)
        moved = max(abs(float(a - c)) for a, c in zip([*new, other], [*v, b], strict=True))
        size = max(abs(float(a)) for a in [*new, other])
        # Half steps for a start, where the set of active rows is not settled.
        share = arb(1) if step > 5 or machine.formulation == "odm" or machine.p >= 2 else arb(1) / 2
        v = [mid(c + share * (a - c)) for a, c in zip(new, v, strict=True)]
        b = mid(b + share * (other - b))
        if moved <= 1e-150 * max(size, 1e-300):
            break
    u = [mid(m) for m in machine.margins(v, b)]
    return [mid(y[i] * derivatives(machine, i, m)[0]) for i, m in enumerate(u)], b


def derivatives(machine, i, u):
    """Minus the first, and the second derivative of a loss at a margin."""
    if machine.formulation == "odm":
        short, long = 1 - machine.D - u, u - 1 - machine.D
        if short > 0:
            return 2 * machine.C1 * machine.share[i] * short, 2 * machine.C1 * machine.share[i]
        if long > 0:
            return -2 * machine.C2 * machine.share[i] * long, 2 * machine.C2 * machine.share[i]
        return arb(0), arb(0)
    xi = 1 - u
    if not xi > 0:
        return arb(0), arb(0)
    p, c = machine.p, machine.cost[i]
    return c * p * xi ** (p - 1), c * p * (p - 1) * xi ** (p - 2)


def balanced(machine, v):
    """The same with a sum of exactly 0, where that is a condition, and multipliers of the right
    signs.
    """
    v = [mid(x) for x in v]
    if machine.formulation != "odm":
        v = [x if x * y > 0 else arb(0) for x, y in zip(v, machine.y, strict=True)]
    if machine.formulation == "psvm" and machine.p == 1:
        v = [
            y * mid(c) if x * y > c else x
            for x, y, c in zip(v, machine.y, machine.cost, strict=True)
        ]
    if machine.free:
        off = sum(v, arb(0))
        room = [
            min(
                float(abs(x)),
                float("inf")
                if machine.formulation == "hard_margin" or machine.p != 1
                else float(c - abs(x)),
            )
            for x, c in zip(v, machine.cost if machine.formulation == "psvm" else v, strict=True)
        ]
        k = int(np.argmax(room))
        v[k] = v[k] - off
        assert off.is_exact()
        assert v[k].is_exact()
    return v


def optimal_scores(machine, v0, b0, T):
    """Enclosures (low, high) of the sets of optimal scores of the rows from T on in K; None if the
    optimum was not found.
    """
    found = optimum(machine, v0, b0)
    return None if found is None else scores_of(machine, found, T)


def scores_of(machine, found, T):
    """Enclosures of the scores by what :func:`optimum` has found."""
    v, b, _, _, moved = found
    # A point whose gap is exactly 0 is optimal, and so is no point around it.
    reach = arb(0) if moved.is_zero() else moved.upper() * 2 + arb("1e-300")
    return enclosures(machine, v, b, reach, T)


def optimum(machine, v0, b0):
    """Multipliers and an intercept, objective and dual objective there, and how far the optimal w
    may be; None if the gap is not below 1e-40.
    """
    smooth = machine.formulation == "odm" or (machine.formulation == "psvm" and machine.p > 1)
    ctx.prec = SOLVE
    candidates = [by_newton(machine, v0, b0)] if smooth else by_partition(machine, v0)
    for candidate in candidates:
        if candidate is None:
            continue
        v, b = candidate
        ctx.prec = EVALUATE
        v = balanced(machine, v)
        norm = machine.squared_norm(v)
        dual = machine.gains(v) - norm / 2
        scale = arb(1)
        if machine.formulation == "hard_margin":
            lowest = min((m.lower() for m in machine.margins(v, b)), key=float)
            if not lowest > 0:
                ctx.prec = SOLVE
                continue
            scale = lowest if lowest < 1 else arb(1)
        else:
            b = (
                b
                if not machine.free or machine.formulation != "psvm" or machine.p > 1
                else middle(machine, v)
            )
        primal = norm / 2 / scale**2 + (
            arb(0)
            if machine.formulation == "hard_margin"
            else machine.losses(machine.margins(v, b))
        )
        gap = primal - dual
        if gap.is_finite() and gap.upper() <= ENOUGH * abs(primal).lower():
            # ½‖w − w*‖² ≤ gap for the feasible point, which is w/scale.
            radius = (2 * gap.upper()).sqrt().upper() if gap.upper() > 0 else arb(0)
            return v, b, primal, dual, radius + norm.upper().sqrt() * (1 / scale - 1)
        ctx.prec = SOLVE
    return None


def middle(machine, v):
    ends = hinge_set(machine, v, arb(0))
    return mid((ends[0] + ends[1]) / 2)


def hinge_set(machine, v, radius):
    """A set that contains every optimal intercept of w within a radius of that of v, at p = 1."""
    f = [y * m for y, m in zip(machine.y, machine.margins(v, arb(0)), strict=True)]
    lengths = [machine.K[i][i].upper().sqrt() for i in range(machine.n)]
    breaks = [arb(y) - x for y, x in zip(machine.y, f, strict=True)]
    low = max(
        (
            t
            for t in ((z - radius * q).lower() for z, q in zip(breaks, lengths, strict=True))
            if rising(machine, breaks, lengths, radius, t, before=True) < 0
        ),
        key=Key,
    )
    high = min(
        (
            t
            for t in ((z + radius * q).upper() for z, q in zip(breaks, lengths, strict=True))
            if rising(machine, breaks, lengths, radius, t, before=False) > 0
        ),
        key=Key,
    )
    return low, high


class Key:
    """Orders exact numbers."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return bool(self.value < other.value)


def rising(machine, breaks, lengths, radius, t, *, before):
    """The slope of the losses just before (after) t, from above (below)."""
    total = arb(0)
    for y, s, z, q in zip(machine.y, machine.s, breaks, lengths, strict=True):
        if before:
            # From above: negative rows count if they may, positive ones if they must.
            first = (z - radius * q).lower()
            total += s if y < 0 and first < t else -s if y > 0 and first >= t else arb(0)
        else:
            last = (z + radius * q).upper()
            total += s if y < 0 and last <= t else -s if y > 0 and last > t else arb(0)
    return total


def smooth_set(machine, v, b, radius):
    """The same for p > 1, around b."""
    f = [y * m for y, m in zip(machine.y, machine.margins(v, arb(0)), strict=True)]
    lengths = [machine.K[i][i].upper().sqrt() for i in range(machine.n)]

    def slope(t, sign):
        total = arb(0)
        for y, s, x, q in zip(machine.y, machine.s, f, lengths, strict=True):
            xi = positive(1 - y * (x + sign * radius * q + t))
            total -= y * s * power(xi, machine.p - 1)
        return total

    found = []
    for sign in (1, -1):
        for digits in range(60, 10, -2):
            t = b - sign * arb(f"1e-{digits}") * max(1, abs(float(b)))
            if sign * slope(t, sign) < 0:
                found.append(t)
                break
        else:
            return None
    return found


def enclosures(machine, v, b, radius, first):
    """Enclosures of the optimal scores of rows."""
    ends = (arb(0), arb(0))
    if machine.free and machine.formulation == "hard_margin":
        f = [y * m for y, m in zip(machine.y, machine.margins(v, arb(0)), strict=True)]
        reach = [radius * machine.K[i][i].upper().sqrt() for i in range(machine.n)]
        # u ≥ 1 at the optimum: 1 − f ≤ b for positive rows, b ≤ −1 − f for negative ones.
        low = max(
            ((1 - x - r).lower() for x, r, y in zip(f, reach, machine.y, strict=True) if y > 0),
            key=Key,
        )
        high = min(
            ((-1 - x + r).upper() for x, r, y in zip(f, reach, machine.y, strict=True) if y < 0),
            key=Key,
        )
        ends = (low, high)
    elif machine.free:
        ends = (
            hinge_set(machine, v, radius) if machine.p == 1 else smooth_set(machine, v, b, radius)
        )
        if ends is None:
            return None
    found = []
    for t in range(first, len(machine.K)):
        f = sum((k * w for k, w in zip(machine.K[t], v, strict=False)), arb(0))
        reach = radius * machine.K[t][t].upper().sqrt()
        found.append(((f - reach + ends[0]).lower(), (f + reach + ends[1]).upper()))
    return found


# Instances.


def data(rng, design):
    n, d = int(rng.integers(4, 15)), int(rng.integers(1, 4))
    y = rng.permutation(np.arange(n) % 2)
    if design == "unbalanced":
        y = np.zeros(n, dtype=int)
        y[: int(rng.integers(1, 3))] = 1
    X = rng.standard_normal((n, d)) + rng.choice([0.3, 1.5, 4.0]) * y[:, None]
    if design == "integers":
        X = np.round(2 * X)
    elif design == "offset":
        X = X + 10.0 ** rng.uniform(2, 8) * rng.choice([-1.0, 1.0])
    elif design == "scaled columns":
        X = X * 10.0 ** rng.uniform(-3, 3, d)
    elif design == "duplicates":
        X = X[rng.integers(0, max(2, n // 2), n)]
    elif design == "far clusters":
        X = X + 10.0 ** rng.uniform(1, 5) * rng.choice([-1.0, 1.0], (n, 1))
    elif design == "constant column":
        X[:, 0] = rng.choice([0.0, 1.0, 1e6])
    elif design == "tiny":
        X = X * 10.0 ** rng.uniform(-8, -2)
    elif design == "outlier":
        X[0] *= 10.0 ** rng.uniform(1, 3)
    return X, y


def instance(seed):
    """Data, test rows, formulation, arguments, tolerance, and how the solution is spoilt."""
    rng = np.random.default_rng([seed, 28])
    design = DESIGNS[seed % len(DESIGNS)]
    X, y = data(rng, design)
    n, d = X.shape
    formulation = str(rng.choice(FORMULATIONS))
    arguments = {}
    if formulation == "psvm":
        p = float(rng.choice([1.0, 1.0, 1.0, 1.25, 1.5, 2.0, 2.0, 3.0, rng.uniform(1.02, 6.0)]))
        arguments = {
            "C": float(rng.choice([1.0, 0.25, 10.0 ** rng.uniform(-3, 3)])),
            "p": p,
            "intercept": str(rng.choice(["free", "free", "free", "none", "penalised"])),
        }
    elif formulation == "odm":
        arguments = {
            "C1": float(10.0 ** rng.uniform(-2, 3)),
            "C2": float(10.0 ** rng.uniform(-2, 3)),
            "D": float(rng.choice([0.0, 0.1, 0.5])),
            "intercept": bool(rng.random() < 0.5),
        }
    spread = float(np.var(X)) or 1.0
    gamma = 10.0 ** rng.uniform(-1.5, 1.5) / (d * spread)
    kernel = [
        lambda: None,
        lambda: None,
        lambda: sx.RBF(gamma),
        lambda: sx.RBF(gamma),
        lambda: sx.Laplacian(float(np.sqrt(gamma))),
        lambda: sx.Exponential(float(np.sqrt(gamma))),
        lambda: sx.Polynomial(2, gamma, 1.0),
        lambda: sx.Linear(),
    ][int(rng.integers(0, 8))]()
    arguments["kernel"] = kernel
    if formulation != "hard_margin" and rng.random() < 0.4:
        arguments["sample_weight"] = rng.choice([0.5, 1.0, 2.0, 3.0, 1e-2, 50.0, 0.0], n)
        if any(not (arguments["sample_weight"][y == k] > 0).any() for k in (0, 1)):
            arguments["sample_weight"] = rng.choice([0.5, 1.0, 2.0], n)
    scale = X.std(axis=0) + 1e-3 * np.abs(X).max()
    new = X.mean(axis=0) + 2.0 * scale * rng.standard_normal((5, d))
    T = np.vstack(
        [
            new,
            X[rng.integers(0, n, 3)],
            0.5 * (X[:1] + X[-1:]),
            X.mean(axis=0)[None, :] + 50.0 * scale,
        ]
    )
    tol = float(rng.choice(TOLERANCES))
    spoilt = str(rng.choice(["", "", "", "", "model", "dual", "both"]))
    return design, X, y, T, formulation, arguments, tol, spoilt


def solved(formulation, X, y, arguments, tol):
    return getattr(sx.fast, formulation)(X, y, tol=tol, time_limit=20.0, **arguments)


def spoil(solution, spoilt, rng):
    """The solution with another model, or with other feasible multipliers."""
    if spoilt in ("model", "both"):
        model = solution.model
        share = 10.0 ** rng.uniform(-6, -0.5)
        name = "coef" if hasattr(model, "coef") else "dual_coef"
        values = getattr(model, name)
        size = share * float(np.abs(values).max(initial=1e-3))
        changed = {name: values + size * rng.standard_normal(values.shape)}
        if solution.formulation != "odm":
            changed["intercept"] = model.intercept * (1.0 + share * rng.standard_normal())
        if solution.formulation == "odm" and hasattr(model, "coef"):
            changed[name] = values * (1.0 + share * rng.standard_normal(values.shape))
        if solution.formulation == "hard_margin":
            changed = {name: values * (1.0 + share), "intercept": model.intercept * (1.0 + share)}
        solution = replace(solution, model=replace(model, **changed))
    if spoilt in ("dual", "both"):
        share = 10.0 ** rng.uniform(-6, -0.5)
        dual = {
            name: values * (1.0 - share * rng.random(values.shape))
            for name, values in solution.dual.items()
        }
        solution = replace(solution, dual=dual)
    return solution


@contextmanager
def shrunk(factor):
    """Let the second checker take the radius for smaller than it is."""

    def made(machine, problem):
        before(machine, problem)
        machine.base = machine.base * factor**2

    before = predictions.Machine.__init__
    with patch.object(predictions.Machine, "__init__", made):
        yield


def proved(found, X, y, T, shrink):
    """The scores as the second checker finds them, with the possible classes that they leave."""
    proof = found.proof(T)
    with shrunk(1.0 if shrink is None else shrink):
        verified = sx.verify(proof, X, y, test=T)
    if not verified.holds:
        raise sx.NotCertified(f"a proof is refused: {verified.why}")
    low, high, labels, _ = verified.scores
    assert list(labels) == [
        found.classes[1] if a > 0 else found.classes[0] if b <= 0 else None
        for a, b in zip(low, high, strict=True)
    ]
    return SimpleNamespace(
        lower=low, upper=high, possible=np.column_stack([~(low > 0.0), high > 0.0])
    )


def exact_scores(X, y, T, formulation, arguments, fine):
    """Enclosures of the sets of optimal scores of the rows of T, from a fine solution on; None if
    the optimum was not found.
    """
    kept = np.flatnonzero(arguments.get("sample_weight", np.ones(len(y))) > 0)
    weight = arguments.get("sample_weight", np.ones(len(y)))[kept]
    signs = np.where(y[kept] == 1, 1, -1)
    name = "theta" if formulation == "odm" else "alpha"
    ctx.prec = EVALUATE if formulation == "psvm" else SOLVE
    intercept = arguments.get("intercept", "free")
    intercept = {True: "penalised", False: "none"}.get(intercept, intercept)
    ctx.prec = 1500
    K = gram(np.vstack([X[kept], T]), arguments["kernel"], intercept == "penalised")
    machine = Machine(formulation, K, signs, weight, arguments, intercept)
    return optimal_scores(
        machine,
        fine.dual[name][kept] * signs,
        fine.model.intercept if intercept == "free" else 0.0,
        kept.size,
    )


def check(seed, shrink=None, proofs=False):
    """What became of one instance: a word, the number of intervals, misses, and of what is tight a
    measure.
    """
    design, X, y, T, formulation, arguments, tol, spoilt = instance(seed)
    label = f"{formulation} on {design}"
    rng = np.random.default_rng([seed, 29])
    given, tested = (sp.csr_array(X), sp.csr_array(T)) if rng.random() < 0.15 else (X, T)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            fine = solved(formulation, given, y, arguments, 1e-12)
            solution = spoil(solved(formulation, given, y, arguments, tol), spoilt, rng)
            found = guarantee(solution, given, y)
        except sx.SvmcvxError as error:
            return label, "refused", 0, 0, f"{type(error).__name__}: {error}"
        if shrink is not None and not proofs:
            # A cached property.
            found.theorem.__dict__["squared_radius"] = found.theorem.squared_radius * shrink**2
        try:
            scores = proved(found, given, y, tested, shrink) if proofs else found.scores(tested)
        except sx.NotCertified as error:
            return label, "MISS", 0, 1, str(error)
    exact = exact_scores(X, y, T, formulation, arguments, fine)
    ctx.prec = EVALUATE
    if exact is None:
        return label, "no oracle", 0, 0, f"{arguments} gap {fine.certificate.gap:.1e}"
    misses = [
        (float(low), float(high), float(a), float(b))
        for low, high, (a, b) in zip(scores.lower, scores.upper, exact, strict=True)
        if not (arb(float(low)) <= a and arb(float(high)) >= b)
    ]
    # A decided label is that of every optimal machine.
    wrong = [
        i
        for i, (a, b) in enumerate(exact)
        if (not scores.possible[i, 1] and b > 0) or (not scores.possible[i, 0] and a <= 0)
    ]
    word = "MISS" if misses or wrong else "held"
    return label, word, len(exact), len(misses) + len(wrong), str(misses[:2])


def main():
    options = common.options_of(
        __doc__,
        1000,
        (
            "--proofs",
            {"action": "store_true", "help": "the intervals that the second checker finds"},
        ),
        ("--shrink", {"type": float, "help": "the control: the radius times this"}),
    )
    return common.predictions(
        lambda seed: check(seed, options.shrink, options.proofs), instance, options
    )


if __name__ == "__main__":
    sys.exit(main())
