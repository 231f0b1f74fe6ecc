"""Certified scores against optima in hundreds of digits, with zero slack.

    python -m campaigns.predictions [--count 1000] [--first 0] [--seed 17] [--proofs]

An instance is a small hostile problem, solved loosely or well, sometimes with a model or
multipliers that were spoilt afterwards. The oracle (:func:`optimum`) knows the optimum of
the same data as exact numbers: multipliers are solved for in ball arithmetic, and accepted only if
the duality gap, evaluated in balls, is below 1e-40 of the objective; what that leaves of the
optimal w and the exact set of optimal intercepts is added to its answer. A miss is a certified
interval that does not contain every optimal score.

The control is the same test with half the radius, or a twentieth: it has to fail, or the test has
no teeth. ``--proofs`` hands the intervals on in proofs, and takes those that the second checker
finds.
"""

import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations_with_replacement
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
from tests.balls import ball, exact_kernel, total

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
    return [ball(value) for value in np.ravel(values)]


def dot(one, other):
    """The inner product, as far as both go."""
    return total(a * b for a, b in zip(one, other, strict=False))


# Machines: K between all rows, training first, in balls; costs; what the optimum is.


def gram(X, kernel, constant):
    """The kernel matrix in balls; with a constant feature if asked for."""
    K = [[arb(0)] * len(X) for _ in X]
    for i, j in combinations_with_replacement(range(len(X)), 2):
        K[i][j] = K[j][i] = exact_kernel(kernel, X[i], X[j]) + int(constant)
    return K


class Machine:
    """A problem of the tests in exact numbers: min ½‖w‖² + Σ losses, with the multipliers as signed
    coefficients v of φ(x).
    """

    def __init__(self, formulation, K, y, weight, settings, intercept):
        self.formulation, self.K, self.intercept = formulation, K, intercept
        self.y, self.n, self.s = [int(v) for v in y], len(y), balls(weight)
        self.free = intercept == "free"
        if formulation == "psvm":
            self.p = ball(settings["p"])
            self.cost = [ball(settings["C"]) * s for s in self.s]
        elif formulation == "odm":
            whole = total(self.s)
            self.share = [s / whole for s in self.s]
            self.C1, self.C2, self.D = (ball(settings[name]) for name in ("C1", "C2", "D"))

    @property
    def smooth(self):
        return self.formulation == "odm" or (self.formulation == "psvm" and self.p > 1)

    def scores(self, v):
        return [dot(row, v) for row in self.K[: self.n]]

    def margins(self, v, b):
        return [y * (f + b) for y, f in zip(self.y, self.scores(v), strict=True)]

    def lengths(self):
        return [self.K[i][i].upper().sqrt() for i in range(self.n)]

    def losses(self, u):
        if self.formulation == "psvm":
            slacks = [positive(1 - m) for m in u]
            return dot(self.cost, slacks if self.p == 1 else [power(xi, self.p) for xi in slacks])
        if self.formulation == "hard_margin":
            return arb(0) if all(m >= 1 for m in u) else arb("inf")
        short, long = ([positive(x) ** 2 for x in side] for side in self.deviations(u))
        return self.C1 * dot(self.share, short) + self.C2 * dot(self.share, long)

    def deviations(self, u):
        return [1 - self.D - m for m in u], [m - 1 - self.D for m in u]

    def gains(self, v):
        alpha = [y * c for y, c in zip(self.y, v, strict=True)]
        if self.formulation == "odm":
            return total(
                t - self.D * abs(t) - t * t / (4 * (self.C1 if t > 0 else self.C2) * c)
                for t, c in zip(alpha, self.share, strict=True)
            )
        if not all(a >= 0 for a in alpha):
            return arb("-inf")
        if self.formulation == "hard_margin":
            return total(alpha)
        if self.p == 1:
            inside = all(a <= c for a, c in zip(alpha, self.cost, strict=True))
            return total(alpha) if inside else arb("-inf")
        gamma = self.p / (self.p - 1)
        return total(
            a - c * (self.p - 1) * power(a / (c * self.p), gamma)
            for a, c in zip(alpha, self.cost, strict=True)
        )

    def squared_norm(self, v):
        return dot(v, self.scores(v))

    def derivatives(self, i, u):
        """Minus the first, and the second derivative of a loss at a margin."""
        if self.formulation == "odm":
            (short,), (long,) = self.deviations([u])
            if short > 0:
                return 2 * self.C1 * self.share[i] * short, 2 * self.C1 * self.share[i]
            if long > 0:
                return -2 * self.C2 * self.share[i] * long, 2 * self.C2 * self.share[i]
            return arb(0), arb(0)
        xi = 1 - u
        if not xi > 0:
            return arb(0), arb(0)
        p, c = self.p, self.cost[i]
        return c * p * xi ** (p - 1), c * p * (p - 1) * xi ** (p - 2)


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
    return [found[i, 0].mid() for i in range(len(right))]


def by_partition(machine, v0):
    """Candidates (v, b) of a machine whose conditions are linear once it is known which multipliers
    are at their bounds.
    """
    n, y = machine.n, machine.y
    hard = machine.formulation == "hard_margin"
    top = np.full(n, np.inf) if hard else np.array([float(c) for c in machine.cost])
    alpha0 = np.abs(v0)
    for near in (1e-9, 1e-7, 1e-5, 1e-3, 1e-12):
        reach = near * (np.full(n, alpha0.max()) if hard else top)
        bound = ~(alpha0 < top - reach)
        inside = np.flatnonzero((alpha0 > reach) & ~bound)
        for rank in (1e-10, 1e-7, 1e-13, 1e-4):
            chosen = independent(machine, inside, rank)
            fixed = [arb(0)] * n
            for i in np.flatnonzero(bound):
                fixed[i] = (y[i] * machine.cost[i]).mid()
            for i in set(inside.tolist()) - set(chosen):
                fixed[i] = ball(v0[i])
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
    if not chosen:
        return fixed, arb(0)
    one = [arb(1)] if machine.free else []
    rows = [[machine.K[i][j].mid() for j in chosen] + one for i in chosen]
    right = [(machine.y[i] - dot(machine.K[i], fixed)).mid() for i in chosen]
    if machine.free:
        rows.append([arb(1)] * len(chosen) + [arb(0)])
        right.append((-total(fixed)).mid())
    found = solve(rows, right)
    if found is None:
        return None
    v = list(fixed)
    for i, value in zip(chosen, found, strict=False):
        v[i] = value
    return v, found[-1] if machine.free else arb(0)


def by_newton(machine, v0, b0):
    """One candidate (v, b) of a machine with smooth losses: Newton's method on the primal, in the
    coefficients of the rows.
    """
    n, y, K = machine.n, machine.y, machine.K
    v, b = balls(v0), ball(b0)
    for step in range(NEWTON_STEPS):
        u = [m.mid() for m in machine.margins(v, b)]
        slope, bend = zip(*map(machine.derivatives, range(n), u), strict=True)
        active = [i for i in range(n) if bend[i] > 0]
        if not active:
            return None
        rows = [
            [(y[i] * K[i][j] * y[j] + (1 / bend[i] if i == j else 0)).mid() for j in active]
            + ([arb(y[i])] if machine.free else [])
            for i in active
        ]
        right = [(slope[i] / bend[i] + u[i]).mid() for i in active]
        if machine.free:
            rows.append([arb(y[j]) for j in active] + [arb(0)])
            right.append(arb(0))
        found = solve(rows, right)
        if found is None:
            return None
        new = [arb(0)] * n
        for i, value in zip(active, found, strict=False):
            new[i] = y[i] * value
        new.append(found[-1] if machine.free else arb(0))
        moved = max(abs(float(a - c)) for a, c in zip(new, [*v, b], strict=True))
        size = max(abs(float(a)) for a in new)
        # Half steps for a start, where the set of active rows is not settled.
        share = arb(1) if step > 5 or machine.formulation == "odm" or machine.p >= 2 else arb(1) / 2
        *v, b = ((c + share * (a - c)).mid() for a, c in zip(new, [*v, b], strict=True))
        if moved <= 1e-150 * max(size, 1e-300):
            break
    u = [m.mid() for m in machine.margins(v, b)]
    return [(y[i] * machine.derivatives(i, m)[0]).mid() for i, m in enumerate(u)], b


def balanced(machine, v):
    """The same with a sum of exactly 0, where that is a condition, and multipliers of the right
    signs.
    """
    v, boxed = [x.mid() for x in v], machine.formulation == "psvm" and machine.p == 1
    if machine.formulation != "odm":
        v = [x if x * y > 0 else arb(0) for x, y in zip(v, machine.y, strict=True)]
    if boxed:
        v = [
            y * c.mid() if x * y > c else x
            for x, y, c in zip(v, machine.y, machine.cost, strict=True)
        ]
    if machine.free:
        off = total(v)
        room = [float(abs(x)) for x in v]
        if boxed:
            left = [float(c - abs(x)) for x, c in zip(v, machine.cost, strict=True)]
            room = np.minimum(room, left)
        k = int(np.argmax(room))
        v[k] = v[k] - off
        assert off.is_exact()
        assert v[k].is_exact()
    return v


def scores_of(machine, found, first):
    """Enclosures (low, high) of the sets of optimal scores of the rows from `first` on in K, by
    what :func:`optimum` has found.
    """
    v, b, _, _, moved = found
    # A point whose gap is exactly 0 is optimal, and so is no point around it.
    radius = arb(0) if moved.is_zero() else moved.upper() * 2 + arb("1e-300")
    ends = optimal_intercepts(machine, v, b, radius)
    if ends is None:
        return None
    scores = []
    for t in range(first, len(machine.K)):
        f, reach = dot(machine.K[t], v), radius * machine.K[t][t].upper().sqrt()
        scores.append(((f - reach + ends[0]).lower(), (f + reach + ends[1]).upper()))
    return scores


def optimum(machine, v0, b0):
    """Multipliers and an intercept, objective and dual objective there, and how far the optimal w
    may be; None if the gap is not below 1e-40.
    """
    hard = machine.formulation == "hard_margin"
    ctx.prec = SOLVE
    candidates = [by_newton(machine, v0, b0)] if machine.smooth else by_partition(machine, v0)
    for candidate in candidates:
        if candidate is None:
            continue
        v, b = candidate
        ctx.prec = EVALUATE
        v = balanced(machine, v)
        norm, scale = machine.squared_norm(v), arb(1)
        dual = machine.gains(v) - norm / 2
        if hard:
            lowest = min((m.lower() for m in machine.margins(v, b)), key=Key)
            scale = lowest if lowest < 1 else arb(1)
        elif machine.free and not machine.smooth:
            ends = hinge_set(machine, v, arb(0))
            b = ((ends[0] + ends[1]) / 2).mid()
        if scale > 0:
            primal = norm / 2 / scale**2
            primal += arb(0) if hard else machine.losses(machine.margins(v, b))
            gap = primal - dual
            if gap.is_finite() and gap.upper() <= ENOUGH * abs(primal).lower():
                # ½‖w − w*‖² ≤ gap for the feasible point, which is w/scale.
                radius = (2 * gap.upper()).sqrt().upper() if gap.upper() > 0 else arb(0)
                return v, b, primal, dual, radius + norm.upper().sqrt() * (1 / scale - 1)
        ctx.prec = SOLVE
    return None


class Key:
    """Orders exact numbers."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return bool(self.value < other.value)


def optimal_intercepts(machine, v, b, radius):
    """Ends of a set with the optimal intercepts of every w within a radius; None if not found."""
    if not machine.free:
        return arb(0), arb(0)
    if machine.formulation == "hard_margin":
        # u ≥ 1 at the optimum: 1 − f ≤ b for positive rows, b ≤ −1 − f for negative ones.
        rows = list(zip(machine.y, machine.scores(v), machine.lengths(), strict=True))
        low = max(((1 - f - radius * q).lower() for y, f, q in rows if y > 0), key=Key)
        return low, min(((-1 - f + radius * q).upper() for y, f, q in rows if y < 0), key=Key)
    return smooth_set(machine, v, b, radius) if machine.smooth else hinge_set(machine, v, radius)


def hinge_set(machine, v, radius):
    """The set at p = 1: where the slope of the losses may change its sign."""
    breaks = [
        ((y - f - radius * q).lower(), (y - f + radius * q).upper())
        for y, f, q in zip(machine.y, machine.scores(v), machine.lengths(), strict=True)
    ]

    def rising(t, *, before):
        # The slope just before (after) t, from above (below): rows count if they may, others if
        # they must.
        slope = arb(0)
        for y, s, (first, last) in zip(machine.y, machine.s, breaks, strict=True):
            passed = (first < t) if before else (last <= t)
            slope += s if y < 0 and passed else -s if y > 0 and not passed else arb(0)
        return slope

    low = max((t for t, _ in breaks if rising(t, before=True) < 0), key=Key)
    return low, min((t for _, t in breaks if rising(t, before=False) > 0), key=Key)


def smooth_set(machine, v, b, radius):
    """The set for p > 1, around b."""
    rows = list(zip(machine.y, machine.s, machine.scores(v), machine.lengths(), strict=True))

    def slope(t, sign):
        return -total(
            y * s * power(positive(1 - y * (f + sign * radius * q + t)), machine.p - 1)
            for y, s, f, q in rows
        )

    found = []
    for sign in (1, -1):
        steps = (arb(f"1e-{digits}") * max(1, abs(float(b))) for digits in range(60, 10, -2))
        ends = (b - sign * step for step in steps)
        found.append(next((t for t in ends if sign * slope(t, sign) < 0), None))
    return None if any(t is None for t in found) else found


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


class Ended(Exception):
    """An instance that ends without scores: the word for it, and why."""


def certified(solve, spoilt, X, y, T, shrink, proofs=False):
    """A fine solution, and the scores of rows that are certified from one that may be spoilt."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            fine, found = solve(common.FINE), guarantee(spoilt(), X, y)
        except sx.SvmcvxError as error:
            raise Ended("refused", f"{type(error).__name__}: {error}") from None
        if shrink is not None and not proofs:
            for theorem in getattr(found, "theorems", None) or [found.theorem]:
                # A cached property.
                theorem.__dict__["squared_radius"] = theorem.squared_radius * shrink**2
        try:
            return fine, proved(found, X, y, T, shrink) if proofs else found.scores(T)
        except sx.NotCertified as error:
            raise Ended("MISS", str(error)) from None


def judge(scores, exact):
    """How an instance ended, how many intervals were held against enclosures, and misses."""
    if exact is None:
        raise Ended("no oracle", "")
    misses = [
        (float(low), float(high), float(a), float(b))
        for low, high, (a, b) in zip(scores.lower.flat, scores.upper.flat, exact, strict=True)
        if not (ball(low) <= a and ball(high) >= b)
    ]
    return "MISS" if misses else "held", {"intervals": len(exact), "misses": len(misses)}, misses


def exact_scores(X, y, T, formulation, arguments, fine):
    """Enclosures of the sets of optimal scores of the rows of T, from a fine solution on; None if
    the optimum was not found.
    """
    weight = arguments.get("sample_weight", np.ones(len(y)))
    kept, intercept = np.flatnonzero(weight > 0), arguments.get("intercept", "free")
    intercept = {True: "penalised", False: "none"}.get(intercept, intercept)
    signs = np.where(y[kept] == 1, 1, -1)
    ctx.prec = 1500
    K = gram(np.vstack([X[kept], T]), arguments["kernel"], intercept == "penalised")
    machine = Machine(formulation, K, signs, weight[kept], arguments, intercept)
    v0 = fine.dual["theta" if formulation == "odm" else "alpha"][kept] * signs
    found = optimum(machine, v0, fine.model.intercept if machine.free else 0.0)
    return None if found is None else scores_of(machine, found, kept.size)


def check(seed, shrink=None, proofs=False):
    """What became of one instance: a label, a word, numbers of intervals and of misses, and why."""
    design, X, y, T, formulation, arguments, tol, spoilt = instance(seed)
    rng = np.random.default_rng([seed, 29])
    given, tested = (sp.csr_array(X), sp.csr_array(T)) if rng.random() < 0.15 else (X, T)
    label = f"{formulation} on {design}"

    def solve(tol):
        return getattr(sx.fast, formulation)(given, y, tol=tol, time_limit=20.0, **arguments)

    try:
        fine, scores = certified(
            solve, lambda: spoil(solve(tol), spoilt, rng), given, y, tested, shrink, proofs
        )
        exact = exact_scores(X, y, T, formulation, arguments, fine)
        ctx.prec = EVALUATE
        word, counts, misses = judge(scores, exact)
    except Ended as ended:
        return label, ended.args[0], {"misses": int(ended.args[0] == "MISS")}, ended.args[1]
    # A decided label is that of every optimal machine.
    wrong = [
        i
        for i, (a, b) in enumerate(exact)
        if (not scores.possible[i, 1] and b > 0) or (not scores.possible[i, 0] and a <= 0)
    ]
    return label, "MISS" if wrong else word, counts, f"{misses[:2]}, labels {wrong}"


def main():
    proofs = {"action": "store_true", "help": "the intervals that the second checker finds"}
    options = common.options_of(__doc__, 1000, ("--proofs", proofs), common.SHRINK)
    return common.run(
        lambda seed: check(seed, options.shrink, options.proofs),
        options,
        instance,
        quiet=options.shrink is not None,
    )


if __name__ == "__main__":
    sys.exit(main())
