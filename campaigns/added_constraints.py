"""Random constraints on the variables of built problems, held against another solver's optimum.

    python -m campaigns.added_constraints --count 2000

Every primal builder, data with few and with many columns, kernels, duplicate rows, all intercepts;
linear, box, norm, absolute-value and sum constraints. A false interval is one that the optimum of
the same problem by Clarabel, HiGHS or SCIP, to their tolerance, does not lie in.
"""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np

import svmcvx as sx
from campaigns.common import options_of, run

# Builder, settings, several classes, whether there is a kernel, number of rows, values of
# intercept.
FREE = ("free", "penalised", "none")
BUILDERS: list[tuple[str, dict[str, Any], bool, bool, int, tuple[Any, ...]]] = [
    ("psvm_primal", {"p": 1.0}, False, True, 12, FREE),
    ("psvm_primal", {"p": 1.5}, False, True, 12, FREE),
    ("psvm_primal", {"p": 2.0}, False, True, 12, FREE),
    ("odm_primal", {"C1": 2.0, "D": 0.2}, False, True, 12, (False, True)),
    ("odml_primal", {"lam1": 0.5, "lam2": 0.5, "C": 1.0}, False, True, 12, (False, True)),
    ("conic_sdp", {"lam": 0.7}, False, True, 8, (True, False)),
    ("l0_mio", {"C": 1.0}, False, True, 6, ()),
    ("ramp_mio", {"C": 1.0}, False, True, 6, ()),
    ("zero_one_mio", {"lam": 1.0}, False, True, 6, (True, False)),
    ("weston_watkins", {"lam": 0.1}, True, False, 12, (True, False)),
    ("crammer_singer", {"lam": 0.1}, True, False, 12, (True, False)),
    ("multinomial_lr", {"lam": 0.1}, True, False, 12, (True, False)),
    ("m3svm", {"lam": 0.1, "p": 1.0}, True, False, 12, ()),
]
# Relative tolerance of the other solver's optimum: of convex problems, of mixed-integer ones.
TOLERANCE, MIXED = 1e-5, 1e-4


def drawn_problem(rng: np.random.Generator) -> tuple[Any, str]:
    """Return a built problem, and its description."""
    name, settings, several, kernels, n, intercepts = BUILDERS[rng.integers(len(BUILDERS))]
    d = int(rng.choice([2, 3, n + 8 if n + 8 > 10 else 12]))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.4:
        X[1 : n // 2] = X[0]
    y = np.arange(n) % (3 if several else 2)
    settings = dict(settings)
    if kernels and rng.random() < 0.4:
        settings["kernel"] = [sx.RBF(0.5), sx.Polynomial(2, 0.5, 1.0)][rng.integers(2)]
    if intercepts:
        settings["intercept"] = intercepts[rng.integers(len(intercepts))]
    problem = getattr(sx, name)(X, y, **settings)
    return problem, f"{name}({settings}) on {n} x {d}"


def drawn_constraints(rng: np.random.Generator, problem: Any) -> tuple[list[Any], str]:
    """Return constraints on the weights, and on b and the slacks at times, and their
    description.
    """
    variables = problem.var_dict
    w = next(variables[k] for k in ("w", "W", "w_scaled") if k in variables)
    w = cp.vec(w, order="F")
    at = rng.standard_normal(w.size) * 0.3
    g = rng.standard_normal(w.size)
    size = float(np.linalg.norm(at))
    root = rng.standard_normal((int(rng.integers(1, w.size + 1)), w.size))
    P, most = root.T @ root, 0.5 * float(np.sum(np.square(root @ at)))
    b = variables["b"] if variables.get("b") is not None and variables["b"].ndim == 0 else None
    k = int(rng.integers(w.size))
    kinds = {
        "linear": lambda: [g @ w <= g @ at],
        "equality": lambda: [w[k] == at[k]],
        "at least": lambda: [w[k] >= 0.3],
        "box": lambda: [w <= at + 0.2, w >= at - 0.2],
        "2-norm": lambda: [cp.norm(w) <= 0.7 * size],
        "1-norm": lambda: [cp.norm1(w) <= 0.7 * np.abs(at).sum()],
        "maximum norm": lambda: [cp.norm_inf(w) <= 0.7 * np.abs(at).max()],
        "shifted norm": lambda: [cp.norm(w - at) <= 0.5 * size],
        "form": lambda: [cp.quad_form(w, P, True) <= most],
        "form and linear": lambda: [cp.quad_form(w - at, P, True) / 3 + g @ w <= g @ at],
        "squares": lambda: [cp.sum_squares(w) <= 0.5 * size**2],
        "sum": lambda: [cp.sum(w) == at.sum()],
        "absolute value": lambda: [cp.abs(g @ w + (0.0 if b is None else 2.5 * b)) <= 0.1],
        "intercept": lambda: [w[k] >= 0.2] if b is None else [b + g @ w >= 0.3],
    }
    name = list(kinds)[rng.integers(len(kinds))]
    added = kinds[name]()
    if "xi" in variables and rng.random() < 0.2:
        added.append(cp.sum(variables["xi"]) <= 0.7 * variables["xi"].size)
        name += " and slacks"
    return added, name


def falsehood(rng: np.random.Generator) -> tuple[str | None, str]:
    """Return what is false about one interval, None if nothing is, and how the case ended."""
    problem, described = drawn_problem(rng)
    added, kind = drawn_constraints(rng, problem)
    mixed = problem.is_mixed_integer()
    constrained = problem.with_constraints(added)
    other = cp.Problem(constrained.objective, list(constrained.constraints))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = other.solve(solver="SCIP" if mixed else "CLARABEL")
        except cp.SolverError:
            return None, "the other solver fails"
    if other.status != "optimal":
        return None, f"the other solver: {other.status}"
    try:
        certificate = sx.solve(constrained).certificate
    except sx.SolverFailed:
        return None, "no point"
    room = (MIXED if mixed else TOLERANCE) * max(1e-3, abs(value))
    low = certificate.lower is not None and certificate.lower > value + room
    if low or certificate.upper < value - room:
        return f"{described}, {kind}: {certificate} does not hold {value!r}", "false"
    return None, "closed" if certificate.gap <= 1e-5 else "wide"


def check(seed: int) -> tuple[str, str, dict[str, int], str]:
    """Return one case, how it ended, and why."""
    wrong, end = falsehood(np.random.default_rng([45, seed]))
    return "", "FALSE" if wrong else end, {}, wrong or ""


if __name__ == "__main__":
    raise SystemExit(run(check, options_of(__doc__, 2000)))
