"""Paths over a hyper-parameter on hostile data: no step from the solution before is worse than the
same step from nothing.

``python -m campaigns.warm_paths --count 1000`` draws that many paths and prints the steps whose gap
is above the tolerance and above that of a cold solve. Any of them can be repeated by ``--seed``.
The tests run a small sample.
"""

import warnings

import numpy as np

import svmcvx as sx
from campaigns import common, hostile

TOL = 1e-6
# What varies, for each solver.
VARIED = (
    ("psvm", "C"),
    ("psvm", "p"),
    ("multiclass", "lam"),
    ("m3svm", "lam"),
    ("m3svm", "p"),
    ("odm", "C1"),
    ("odml", "C"),
    ("conic", "lam"),
    ("conic", "kappa"),
)


def case(seed):
    """A solver, what varies, its data and arguments."""
    rng = np.random.default_rng(seed)
    name, varied = VARIED[int(rng.integers(len(VARIED)))]
    design = str(rng.choice(hostile.DESIGNS))
    classes = 3 if name in hostile.SEVERAL else 2
    X, y = hostile.data(rng, design, classes=classes)
    if rng.random() < 0.4:
        # More rows than the designs have.
        n, d = int(rng.integers(30, 150)), int(rng.integers(1, 6))
        y = rng.permutation(np.arange(n) % classes)
        X = (
            rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2)
            + rng.uniform(0, 2) * y[:, None]
        )
        if rng.random() < 0.3:
            X = X + 10.0 ** rng.uniform(0, 6)
    steps = int(rng.integers(3, 7))
    arguments = hostile.FAST[name](rng)
    if name == "conic":
        arguments = {}
    if name == "m3svm":
        arguments["eps"] = float(10.0 ** rng.uniform(-12, 0))
    if varied == "p":
        values = rng.choice([1.0, 1.001, 1.01, 1.1, 1.5, 2.0, 2.5, 3.0, 4.0, 8.0, 30.0], steps)
    elif varied == "kappa":
        values = rng.uniform(0.01, 0.5, steps)
    else:
        # Jumps by many decades, or a usual path.
        values = 10.0 ** (
            rng.uniform(-9, 9, steps) if rng.random() < 0.5 else np.sort(rng.uniform(-6, 6, steps))
        )
    arguments[varied] = values.tolist()
    if name not in hostile.SEVERAL and rng.random() < 0.4:
        arguments["kernel"] = hostile.kernel(rng, X)
    if rng.random() < 0.3:
        spread = rng.random() < 0.5
        arguments["sample_weight"] = (
            10.0 ** rng.uniform(-3, 3, y.size) if spread else rng.choice([0.5, 2.0], y.size)
        )
    return name, varied, design, X, y, arguments


def worse(seed):
    """Return the number of steps of a path, and those that are worse than cold ones, in words."""
    name, varied, design, X, y, arguments = case(seed)
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            warm = sx.fast.path(name, X, y, tol=TOL, **arguments)
            cold = [
                getattr(sx.fast, name)(X, y, tol=TOL, **{**arguments, varied: value})
                for value in arguments[varied]
            ]
        except (sx.SolverFailed, sx.DataError, sx.BuildError):
            return 0, []
    for value, one, other in zip(arguments[varied], warm, cold, strict=True):
        mine, reference = one.certificate, other.certificate
        where = f"seed {seed}: {name} on {design}, {varied}={value:.6g}"
        if mine.gap > max(TOL, reference.gap):
            found.append(
                f"{where}: {one.status} {mine.gap:.2e}, cold {other.status} {reference.gap:.2e}"
            )
        if mine.lower > reference.upper or reference.lower > mine.upper:
            found.append(f"{where}: disjoint intervals {mine} and {reference}")
    return len(warm), found


def check(seed):
    """Return how a path ended, and its number of steps."""
    steps, found = worse(seed)
    return "path", "MISS" if found else "good", {"steps": steps}, "; ".join(found)


if __name__ == "__main__":
    raise SystemExit(common.run(check, common.options_of(__doc__, 160)))
