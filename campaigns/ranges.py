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
    more = {"intercept": "none"} if odm else {}
    more |= own | {"kernel": kernel, "tol": common.FINE, "time_limit": 20.0}
    fine = solver(X[train], y[train], **more)
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
    """What became of one instance: a label, a word, how many covers and bands were checked, and
    what was missed.
    """
    design, X, y, halves, machine, varies, ends, rng = instance(seed)
    label = f"{varies} from {ends[0]:.3g} to {ends[1]:.3g} of {machine} on {design}"
    names = varies.split(" = ")
    spans, counts, missed = dict.fromkeys(names, ends), collections.Counter(), []
    trains = [halves == k for k in (0, 1)]
    eps = float(rng.choice([0.5, 0.1, 0.02]))
    tol = float(rng.choice([1e-2, 1e-5, 1e-9]))
    least = float(rng.choice([0.0, 0.2]))
    values = (
        np.exp(rng.uniform(*np.log(ends), VALUES)) if ends[0] else rng.uniform(*ends, VALUES)
    ).tolist()

    def found_or_refused(what, make, *data, **settings):
        try:
            return make(machine, *data, time_limit=10.0, **settings, **spans)
        except sx.SvmcvxError as error:
            counts[f"{what} refused ({type(error).__name__})"] += 1
            return None

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        paths = [
            found_or_refused("paths", sx.certified_path, X[train], y[train], eps=eps)
            for train in trains
        ]
        selection = None
        if names[0] in ("C", "C1"):
            folds = [(np.flatnonzero(train), np.flatnonzero(~train)) for train in trains]
            selection = found_or_refused(
                "selections", sx.certified_select, X, y, cv=folds, eps=least, tol=tol
            )
        for value in values:
            wrong, known = np.zeros(2, dtype=int), True
            for train, path in zip(trains, paths, strict=True):
                of, found = exact(X, y, train, machine, dict.fromkeys(names, value))
                if found is None:
                    counts["no oracle"] += 1
                    known = False
                    continue
                _, _, primal, dual, _ = found
                intervals = (
                    {}
                    if path is None
                    else {
                        "cover": tuple(float(end[0]) for end in path.bounds([value])),
                        "point": path.at(value)[1:],
                    }
                )
                for name, (lower, upper) in intervals.items():
                    if shrink is not None and np.isfinite(lower) and np.isfinite(upper):
                        lower, upper = narrowed(lower, upper, shrink)
                    counts[f"{name}s of {varies}"] += 1
                    if not (arb(lower) <= primal.upper() and arb(upper) >= dual.lower()):
                        place = f"{name} at {value!r}"
                        missed.append((place, lower, upper, float(dual), float(primal)))
                if selection is not None:
                    wrong += errors(of, found, int(train.sum()), y[~train] == 1)
            if selection is not None and known:
                pieces = selection.pieces
                pieces = pieces[(pieces["low"] <= value) & (pieces["high"] >= value)]
                counts["bands"] += len(pieces)
                bands = [
                    (selection.least, np.inf),
                    *zip(pieces["least"], pieces["most"], strict=True),
                ]
                missed += [
                    (f"band at {value!r}", *band, *wrong.tolist())
                    for band in bands
                    if band[0] > wrong[0] or band[1] < wrong[1]
                ]
    return label, "MISS" if missed else "held", counts, str(missed)


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
    options = common.options_of(__doc__, 1000, common.SHRINK)
    options.count = -(-options.count // VALUES)
    if options.shrink is not None:
        own = ranges.OverRange.squared_radius.func
        ranges.OverRange.squared_radius = property(lambda self: own(self) * options.shrink**2)
    return common.run(
        lambda seed: check(seed, options.shrink),
        options,
        instance,
        quiet=options.shrink is not None,
    )


if __name__ == "__main__":
    sys.exit(main())
