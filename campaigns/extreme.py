"""Calls with extreme numbers: hyper-parameters, features and weights from 1e-300 to 1e300, tiny and
huge kernels, duplicates, offsets; a few rows of two or three classes.

``python -m campaigns.extreme --count 2000`` counts how the calls end. A call ends badly with an
exception that is none of the package's, with the status "optimal" above the tolerance, with a proof
whose check raises or that the second checker does not confirm, or beyond its limit of time by far.
"""

import time
import warnings

import numpy as np

import svmcvx as sx
from campaigns import common

LIMIT = 3.0
TOL = 1e-6
# Processor seconds beyond the limit: builders and proofs are not limited.
SLACK = 20.0
MACHINES = (
    *("psvm", "odm", "odml", "conic", "hard_margin"),
    *("zero_one", "ramp", "l0", "m3svm", "multiclass"),
)


def number(rng, low=-300.0, high=300.0):
    """A number of any size, half of them ordinary."""
    extreme = rng.random() < 0.5
    return float(10.0 ** (rng.uniform(low, high) if extreme else rng.uniform(-3, 3)))


def data(rng, classes):
    """A few rows, and weights or none."""
    n, d = int(rng.integers(max(2, classes), 9)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d))
    kind = rng.integers(7)
    if kind == 0:
        X = X * 10.0 ** rng.uniform(-300, 300)
    elif kind == 1:
        X = X * 10.0 ** rng.uniform(-150, 150, d)
    elif kind == 2:
        X = np.round(X)
    elif kind == 3:
        X = X + 1e15
    elif kind == 4:
        X = np.repeat(X[:1], n, axis=0)
    elif kind == 5:
        X = X * 5e-324
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    weight = None
    if rng.random() < 0.3:
        weight = 10.0 ** rng.uniform(-300, 300, n) * (rng.random(n) < 0.8)
    return X, y, weight


def settings(rng, name):
    """Arguments of a solver."""
    found = {}
    if name not in ("m3svm", "multiclass"):
        kind = rng.integers(5)
        if kind == 0:
            found["kernel"] = sx.RBF(number(rng))
        elif kind == 1:
            found["kernel"] = sx.Polynomial(int(rng.integers(1, 40)), number(rng, -3, 3), 1.0)
    if name == "psvm":
        p = float(rng.choice([1.0, 1.5, 2.0, 1.0 + 2.0**-52, 1e6]))
        intercept = str(rng.choice(["free", "penalised", "none"]))
        return {**found, "C": number(rng), "p": p, "intercept": intercept}
    if name == "odm":
        costs = {"C1": number(rng), "C2": number(rng)}
        return {**found, **costs, "D": float(rng.choice([0, 0.1, 0.9]))}
    if name == "odml":
        return {**found, "C": number(rng), "lam1": number(rng), "lam2": number(rng)}
    if name in ("conic", "zero_one"):
        return {**found, "lam": number(rng)}
    if name in ("ramp", "l0"):
        return {**found, "C": number(rng)}
    if name == "m3svm":
        return {"lam": number(rng), "p": float(rng.choice([1.0, 2.0, 4.0, 50.0]))}
    if name == "multiclass":
        losses = ["weston_watkins", "crammer_singer", "msvm", "softmax", "sparse_softmax"]
        return {"lam": number(rng), "loss": str(rng.choice(losses))}
    return found


def check(seed):
    """Solve one problem, and check its proof."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(MACHINES))
    X, y, weight = data(rng, 3 if name in ("m3svm", "multiclass") else 2)
    given = settings(rng, name)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = getattr(sx.fast, name)(X, y, sample_weight=weight, time_limit=LIMIT, **given)
        except sx.SvmcvxError as refusal:
            return name, "refused", {}, str(refusal)
        took = time.process_time() - began
        if took > LIMIT + SLACK:
            return name, "MISS", {}, f"{took:.1f} s for a limit of {LIMIT}"
        gap, status = found.certificate.gap, found.status.value
        if status == "optimal" and not gap <= TOL:
            return name, "MISS", {}, f"optimal with a gap of {gap}"
        try:
            verified = sx.verify(found.proof(), X, y)
        except sx.SvmcvxError as refusal:
            return name, f"{status}, not to be verified", {}, str(refusal)
    ends = verified.why and not verified.holds
    if ends and "the proof claims" in verified.why:
        return name, "FALSE", {}, verified.why
    return name, f"{status}, {'holds' if verified.holds else 'not confirmed'}", {}, verified.why


if __name__ == "__main__":
    raise SystemExit(common.run(check, common.options_of(__doc__, 2000)))
