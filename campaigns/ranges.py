"""Paths and selections over whole ranges against optima in ball arithmetic, at random values
between their solutions, with zero slack.

    python -m campaigns.ranges [--count 1000] [--first 0] [--seed 17] [--shrink 0.5]

An instance is a small hostile set that is cut in two, with a range of C, p or γ of the pSVM, or of
C1, C1 = C2 or D of ODM: both halves are training parts whose paths are certified, and over ranges
of C a selection is certified whose validation parts are the other halves. At random values of the
range the optimum of each half is enclosed by the oracle of :mod:`campaigns.predictions`, to 1e-40
of the objective. A cover is wrong if the optimum is outside of its interval, and a band of errors
if some optimal machine makes fewer or more.

The control is the same test with narrower intervals, and bands of a smaller radius: it has to fail.
"""

import collections
import sys
import warnings

import numpy as np
from flint import arb, ctx

import svmcvx as sx
from campaigns import common
from campaigns.predictions import DESIGNS, EVALUATE, Machine, data, gram, optimum, scores_of
from svmcvx.guarantees import ranges

# Random values of each instance.
VALUES = 4


def instance(seed):
    """Data with two halves, an estimator, its range, and what is asked for."""
    rng = np.random.default_rng([seed, 280])
    design = DESIGNS[seed % len(DESIGNS)]
    while True:
        X, y = data(rng, design)
        halves = rng.permutation(len(y)) % 2
        if all(np.unique(y[halves == k]).size == 2 for k in (0, 1)):
            break
        y = rng.permutation(np.arange(len(y)) % 2)
    spread = float(np.var(X)) or 1.0
    gamma = float(10.0 ** rng.uniform(-1.5, 1.5) / (X.shape[1] * spread))
    kernel = [None, sx.RBF(gamma), sx.RBF(gamma), sx.Laplacian(float(np.sqrt(gamma)))][
        int(rng.integers(0, 4))
    ]
    varies = str(rng.choice(["C", "C", "p"]))
    if rng.random() < 0.2:
        varies = str(rng.choice(["C1", "C1 = C2", "D"]))
        machine = sx.ODMClassifier(
            C2=float(10.0 ** rng.uniform(-1, 2)),
            D=float(rng.choice([0.0, 0.2])),
            kernel=kernel,
            intercept="none",
        )
        low = 10.0 ** rng.uniform(-1, 2)
        ends = (
            (0.0, float(rng.uniform(0.1, 0.9)))
            if varies == "D"
            else (float(low), float(low * 10.0 ** rng.uniform(0.3, 2.0)))
        )
        return design, X, y, halves, machine, varies, ends, rng
    p = float(rng.choice([1.0, 1.0, 2.0, 2.0, 1.5, 3.0, rng.uniform(1.05, 4.0)]))
    machine = sx.PSVMClassifier(p=p, C=float(10.0 ** rng.uniform(-2, 2)), kernel=kernel)
    low = {"C": 10.0 ** rng.uniform(-3, 2), "p": rng.choice([1.0, rng.uniform(1.0, 2.0)])}[varies]
    high = low * 10.0 ** rng.uniform(0.3, 2.0) if varies == "C" else low * rng.uniform(1.2, 3.0)
    return design, X, y, halves, machine, varies, (float(low), float(high)), rng


def narrowed(lower, upper, share):
    """The middle part of an interval."""
    middle = 0.5 * lower + 0.5 * upper
    return middle - share * (middle - lower), middle + share * (upper - middle)


def exact(X, y, train, machine, settings):
    """What the oracle encloses of the machine of one half, and the machine that it rests on."""
    kernel, signs = machine.kernel, np.where(y[train] == 1, 1, -1)
    odm = isinstance(machine, sx.ODMClassifier)
    names = ("C1", "C2", "D") if odm else ("C", "p")
    own = {name: settings.get(name, getattr(machine, name)) for name in names}
    solver = sx.fast.odm if odm else sx.fast.psvm
    own_settings = own | ({"intercept": "none"} if odm else {})
    fine = solver(X[train], y[train], kernel=kernel, tol=1e-12, time_limit=20.0, **own_settings)
    ctx.prec = 1500
    K = gram(np.vstack([X[train], X[~train]]), kernel, False)
    of = Machine(
        "odm" if odm else "psvm", K, signs, np.ones(train.sum()), own, "none" if odm else "free"
    )
    found = optimum(
        of, fine.dual["theta" if odm else "alpha"] * signs, 0.0 if odm else fine.model.intercept
    )
    ctx.prec = EVALUATE
    return of, found


def check(seed, shrink=None):
    """What was checked of one instance: a label, how many covers and bands, how many without an
    oracle, and misses.
    """
    design, X, y, halves, machine, varies, ends, rng = instance(seed)
    label = f"{varies} from {ends[0]:.3g} to {ends[1]:.3g} of {machine} on {design}"
    names = varies.split(" = ")
    counts, missed = collections.Counter(), []
    trains = [halves == k for k in (0, 1)]
    eps = float(rng.choice([0.5, 0.1, 0.02]))
    tol = float(rng.choice([1e-2, 1e-5, 1e-9]))
    least = float(rng.choice([0.0, 0.2]))
    values = (
        np.exp(rng.uniform(*np.log(ends), VALUES)) if ends[0] else rng.uniform(*ends, VALUES)
    ).tolist()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        paths = []
        for train in trains:
            try:
                paths.append(
                    sx.certified_path(
                        machine,
                        X[train],
                        y[train],
                        eps=eps,
                        time_limit=10.0,
                        **dict.fromkeys(names, ends),
                    )
                )
            except sx.SvmcvxError as error:
                counts[f"paths refused ({type(error).__name__})"] += 1
                paths.append(None)
        selection = None
        if names[0] in ("C", "C1"):
            folds = [(np.flatnonzero(train), np.flatnonzero(~train)) for train in trains]
            try:
                selection = sx.certified_select(
                    machine,
                    X,
                    y,
                    cv=folds,
                    eps=least,
                    tol=tol,
                    time_limit=10.0,
                    **dict.fromkeys(names, ends),
                )
            except sx.SvmcvxError as error:
                counts[f"selections refused ({type(error).__name__})"] += 1
        for value in values:
            wrong, known = np.zeros(2, dtype=int), True
            for train, path in zip(trains, paths, strict=True):
                of, found = exact(X, y, train, machine, dict.fromkeys(names, value))
                if found is None:
                    counts["no oracle"] += 1
                    known = False
                    continue
                _, _, primal, dual, _ = found
                if path is not None:
                    intervals = {
                        "cover": tuple(float(end[0]) for end in path.bounds([value])),
                        "point": path.at(value)[1:],
                    }
                    for name, (lower, upper) in intervals.items():
                        if shrink is not None and np.isfinite(lower) and np.isfinite(upper):
                            lower, upper = narrowed(lower, upper, shrink)
                        counts[f"{name}s of {varies}"] += 1
                        if not (arb(lower) <= primal.upper() and arb(upper) >= dual.lower()):
                            missed.append(
                                (f"{name} at {value!r}", lower, upper, float(dual), float(primal))
                            )
                if selection is not None:
                    wrong += errors(of, found, int(train.sum()), y[~train] == 1)
            if selection is not None and known:
                pieces = selection.pieces
                for _, row in pieces[
                    (pieces["low"] <= value) & (pieces["high"] >= value)
                ].iterrows():
                    counts["bands"] += 1
                    if row["least"] > wrong[0] or row["most"] < wrong[1]:
                        missed.append(
                            (f"band at {value!r}", row["least"], row["most"], *wrong.tolist())
                        )
                if selection.least > wrong[0]:
                    missed.append((f"fewest at {value!r}", selection.least, *wrong.tolist()))
    return label, counts, missed


def errors(of, found, n, positive):
    """Rows that every optimal machine has wrong, and rows that some may have, as far as the
    enclosures tell.
    """
    sure = may = 0
    for (low, high), side in zip(scores_of(of, found, n), positive, strict=True):
        above, below = bool(low > 0), bool(high <= 0)
        sure += (above and not side) or (below and side)
        may += not ((above and side) or (below and not side))
    return np.array([sure, may])


def main():
    options = common.options_of(
        __doc__,
        1000,
        ("--shrink", {"type": float, "help": "the control: intervals and the radius times this"}),
    )
    if options.shrink is not None:
        own = ranges.OverRange.squared_radius.func
        ranges.OverRange.squared_radius = property(lambda self: own(self) * options.shrink**2)
    if options.seed is not None:
        print(*instance(options.seed), sep="\n")
        print(*check(options.seed, options.shrink), sep="; ")
        return 0
    total, wrong, seeds = collections.Counter(), 0, []
    for seed in range(options.first, options.first + -(-options.count // VALUES)):
        try:
            label, counts, missed = check(seed, options.shrink)
        except Exception as error:
            label, counts, missed = "?", {}, [("RAW ERROR", type(error).__name__, str(error))]
        total.update(counts)
        wrong += len(missed)
        if missed:
            seeds.append(seed)
            if options.shrink is None:
                print(f"seed {seed}: {label}: {str(missed)[:400]}", flush=True)
        if seed % 250 == 249:
            print(f"instances to {seed}: {dict(total)}, {wrong} wrong", flush=True)
    print(f"{options.count} values: {dict(total)}; {wrong} wrong; seeds {seeds[:50]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
