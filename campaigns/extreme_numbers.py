"""Data and hyper-parameters at the ends of the numbers: every call ends in an interval with an
honest status, or in an error of the package.

    python -m campaigns.extreme_numbers --count 5000

"optimal" beside a gap above the tolerance counts as false, any other exception as a raw error.
"""

import sys
import warnings

import numpy as np

import svmcvx as sx
from campaigns.common import judged, options_of

SIZES = 10.0 ** np.array([-300, -160, -100, -30, -12, -3, 0, 3, 12, 30, 100, 160, 300])
TOL = 1e-6


def drawn(rng):
    """Return the name of a solver, data and keywords."""
    n, d = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d)) * rng.choice([1, 1, 1e-300, 1e-160, 1e-30, 1e12, 1e100, 1e120])
    X = np.round(X) if rng.random() < 0.3 else X
    X = X + 1e15 if rng.random() < 0.2 else X
    if rng.random() < 0.2:
        X[:] = X[0]

    def size(or_else=None):
        return or_else if or_else is not None and rng.random() < 0.2 else float(rng.choice(SIZES))

    name = str(rng.choice(["odm", "odml", "psvm", "hard_margin"]))
    keywords = {
        "odm": lambda: {
            "C1": size(),
            "C2": size(),
            "D": float(rng.choice([0.0, 0.1, 1 - 2.0**-53, 1e-300])),
        },
        "odml": lambda: {"C": size(), "lam1": size(0.0), "lam2": size(0.0)},
        "psvm": lambda: {
            "C": size(),
            "p": float(rng.choice([1, 1 + 2.0**-52, 1.5, 2, 3, 50, 1e3, 1e12])),
            "intercept": str(rng.choice(["free", "penalised", "none"])),
        },
        "hard_margin": dict,
    }[name]()
    if name.startswith("od"):
        keywords["intercept"] = bool(rng.integers(2))
    if rng.random() < 0.4:
        kernels = [sx.RBF(size()), sx.Polynomial(int(rng.choice([2, 25])), 1.0, 1.0)]
        keywords["kernel"] = kernels[rng.integers(2)]
    if name != "hard_margin" and rng.random() < 0.3:
        weight = rng.choice([0, 1e-300, 1, 1e300, 1e-20], n)
        weight[:2] = np.maximum(weight[:2], 1e-300)
        keywords["sample_weight"] = weight
    return name, X, np.arange(n) % 2, keywords


def check(seed):
    """Return a call, how it ended, and why."""
    name, X, y, keywords = drawn(np.random.default_rng([46, seed]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = getattr(sx.fast, name)(X, y, tol=TOL, time_limit=5.0, **keywords)
        except sx.SvmcvxError as error:
            return name, type(error).__name__, {}, ""
    honest = (found.status == "optimal") == found.certificate.is_certified(TOL)
    return f"{name}({keywords})", str(found.status) if honest else "FALSE", {}, str(found)


def main():
    """Run the campaign; 1 if a call ended badly."""
    options = options_of(__doc__, 5000)
    if options.seed is not None:
        print(check(options.seed))
        return 0
    ends, _, seeds = judged(check, options)
    print(f"{options.count} calls: {ends}; bad seeds {seeds[:50]}")
    return 1 if seeds else 0


if __name__ == "__main__":
    sys.exit(main())
