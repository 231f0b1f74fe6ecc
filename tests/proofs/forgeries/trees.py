"""Trees made by hand, which claim that no point is better than dropping every row."""

from __future__ import annotations

import numpy as np

import svmcvx as sx

from .archive import File
from .corpus import Forged, forged, forgery
from .honest import honest

LESS = "search proves"


def _tree(file: File, **arrays: list[float]) -> None:
    """Put a tree into a file, which then claims the objective of w = 0."""
    everything = float(len(file.y))
    file.arrays = {
        name: values
        for name, values in file.arrays.items()
        if not name.startswith(("tree.", "dual."))
    }
    for name in ("model.coef", "model.intercept"):
        file.arrays[name] = np.zeros_like(file.arrays[name])
    for name, values in arrays.items():
        dtype = np.float64 if name in ("upper", "beta", "price") else np.int32
        file.arrays[f"tree.{name}"] = np.array(values, dtype=dtype)
    file.claim.update(lower=everything, upper=everything)


def _chain(file: File, beta: float, upper: float | None = None) -> Forged:
    """A chain of nodes, each of which keeps a row in a leaf with this multiplier, or drops it."""
    optimum, rows = file.optimum, range(len(np.unique(file.X * file.y[:, None], axis=0)))
    upper = float(len(file.y)) if upper is None else upper
    _tree(
        file,
        branch=[node for row in rows for node in (row, -1)] + [-1],
        bounds=[1, *(count for _ in rows for count in (1, 0))],
        upper=[upper] * (len(rows) + 1),
        flip_count=[0] * (len(rows) + 1),
        flip_row=[],
        beta_count=[0] + [1] * len(rows),
        beta_row=[*rows],
        beta=[beta] * len(rows),
    )
    return forged(file, optimum=optimum)


for multiplier in (0.0, -0.0, -1.0, 5e-324, 1e-320, 1e-170, 1e-160, 1e154, 1e170, 1e308, -1e308):

    @forgery(f"a chain of leaves with multipliers {multiplier!r}", LESS, "zero_one")
    def _(file: File, beta: float = multiplier) -> Forged:
        return _chain(file, beta)


for value in (0.0, 5e-324, 1e-300, 1e300, 1e308):

    @forgery(f"a chain of leaves below the value {value!r}", LESS, "zero_one")
    def _(file: File, upper: float = value) -> Forged:
        return _chain(file, 1.0, upper)


@forgery("a negative price of the budget", "must not be negative", "zero_one k")
def _(file: File) -> None:
    file.arrays["tree.price"][-1] = -1.0


@forgery("a price of the budget for each loss", LESS + "|objective", "zero_one k")
def _(file: File) -> None:
    file.arrays["tree.price"] *= 1e6
    file.claim["lower"] = file.claim["upper"]
    file.claim["lower"] *= 2.0
    file.claim["upper"] = None


@forgery("a leaf alone", LESS, "zero_one")
def _(file: File) -> Forged:
    optimum = file.optimum
    none: dict[str, list[float]] = {name: [] for name in ("flip_row", "beta_row", "beta")}
    _tree(file, branch=[-1], bounds=[1], upper=[1e9], flip_count=[0], beta_count=[0], **none)
    return forged(file, optimum=optimum)


@forgery("both children keep", "search proves|ends before|behind", "zero_one")
def _(file: File) -> None:
    # What a reader takes for the second child drops the row.
    branch = file.arrays["tree.branch"]
    last = int(np.flatnonzero(branch >= 0)[-1])
    branch[last] = branch[0]
    file.claim["lower"] *= 1.0 + 1e-6
    file.claim["upper"] = None


@forgery("values of the tree that are larger", LESS, "zero_one")
def _(file: File) -> None:
    file.arrays["tree.upper"] *= 1.5
    file.claim["lower"] *= 1.4
    file.claim["upper"] = None


@forgery("rows in another order", LESS + "|behind|ends before", "zero_one")
def _(file: File) -> None:
    for name in ("tree.branch", "tree.flip_row", "tree.beta_row"):
        rows = file.arrays[name]
        rows[rows >= 0] = 23 - rows[rows >= 0]
    counts = file.arrays["tree.flip_count"]
    ends = np.cumsum(counts)
    for begin, end in zip(ends - counts, ends, strict=True):
        file.arrays["tree.flip_row"][begin:end].sort()
    file.claim["lower"] = file.claim["upper"]
    file.claim["upper"] = None


# A free intercept: its interval and the parts that are cut off; kernels, for which a tree of
# another kernel proves what it happens to.


def _claims_more(file: File) -> None:
    """Claim a lower end above the optimum, and nothing else."""
    file.claim["lower"] = file.claim["upper"] * (1.0 + 1e-6)
    file.claim["upper"] = None


@forgery(
    "a part of the interval that is on no side", "a side of the tree's bounds is none of", "ramp"
)
def _(file: File) -> None:
    file.arrays["tree.side"][0] = 2


for base in ("ramp", "l0", "ramp rbf", "l0 rbf"):

    @forgery(f"{base}: every cut of the interval in its middle", LESS, base)
    def _(file: File) -> None:
        file.arrays["tree.at"][:] = 0.0
        _claims_more(file)

    @forgery(f"{base}: cuts on the other side", LESS, base)
    def _(file: File) -> None:
        file.arrays["tree.side"] *= -1
        _claims_more(file)

    @forgery(f"{base}: cuts that empty the interval", LESS, base)
    def _(file: File) -> None:
        file.arrays["tree.side"][:] = np.arange(file.arrays["tree.side"].size) % 2 * 2 - 1
        file.arrays["tree.at"][:] = 1e6 * file.arrays["tree.side"] * -1
        _claims_more(file)

    @forgery(f"{base}: multipliers a hundred times as large", LESS, base)
    def _(file: File) -> None:
        file.arrays["tree.beta"] *= 100.0
        _claims_more(file)

    @forgery(f"{base}: values near zero, whose interval is empty or small", LESS, base)
    def _(file: File) -> None:
        file.arrays["tree.upper"][:] = 1e-9
        _claims_more(file)

    @forgery(
        f"{base}: no tree but its first node, which claims that no intercept is left", LESS, base
    )
    def _(file: File) -> None:
        file.arrays["tree.side"] = np.array([0, 0], dtype=np.int32)
        file.arrays["tree.at"] = np.zeros(2)
        file.arrays["tree.branch"], file.arrays["tree.bounds"] = (
            np.array([x], dtype=np.int32) for x in (-1, 2)
        )
        file.arrays["tree.upper"] = np.full(2, 1e6)
        for name in ("flip_count", "beta_count"):
            file.arrays[f"tree.{name}"] = np.zeros(2, dtype=np.int32)
        for name in ("flip_row", "beta_row", "beta"):
            file.arrays[f"tree.{name}"] = file.arrays[f"tree.{name}"][:0]
        _claims_more(file)


for base in ("ramp", "l0"):

    @forgery(f"{base}: rows far from their centre", LESS, base)
    def _(file: File) -> None:
        file.arrays["tree.centre"] += 1e3
        _claims_more(file)

    @forgery(
        f"{base}: a centre that is out of the range of doubles", "too large or too small", base
    )
    def _(file: File) -> None:
        file.arrays["tree.centre"][0] = 1e300

    @forgery(
        f"{base}: the interval of the intercept without its centre", "the tree of a proof of", base
    )
    def _(file: File) -> None:
        del file.arrays["tree.centre"]


@forgery("the tree of the ramp loss for counted losses", LESS, "l0")
def _(file: File) -> Forged:
    other = honest("ramp").arrays
    file.arrays |= {name: values for name, values in other.items() if name.startswith("tree.")}
    _claims_more(file)
    return forged(file)


@forgery("the tree of counted losses for the ramp loss", LESS, "ramp")
def _(file: File) -> Forged:
    other = honest("l0").arrays
    file.arrays |= {name: values for name, values in other.items() if name.startswith("tree.")}
    _claims_more(file)
    return forged(file)


@forgery("the tree of another kernel", LESS + "|objective", "zero_one rbf")
def _(file: File) -> None:
    file.statement["kernel"] = {"name": "rbf", "gamma": 50.0}
    _claims_more(file)


@forgery(
    "a kernel that is too large for the check of a tree", "too large or too small", "zero_one rbf"
)
def _(file: File) -> None:
    file.statement["kernel"] = {"name": "polynomial", "degree": 1000, "gamma": 50.0, "coef0": 10.0}
    file.claim["upper"] = None


@forgery(
    "multipliers with which the rounding of a kernel decides",
    "rounding of the kernel decides",
    "zero_one precomputed",
)
def _(file: File) -> Forged:
    # Two rows of one place up to rounding, with labels that are not the same: what it costs to keep
    # both is a matter of rounding.
    K = np.array([[1.0, 1.0 + 2.0**-52], [1.0 + 2.0**-52, 1.0]])
    y = np.array([1, -1])
    file.X, file.y = K, y
    file.statement.update(
        rows=2, columns=2, intercept="none", fingerprint=sx.proofs.fingerprint(K, y)
    )
    file.statement["hyperparameters"] = {"lam": 1e30}
    file.arrays = {
        "model.support": np.array([0]),
        "model.dual_coef": np.array([0.0]),
        "model.intercept": np.array(0.0),
    }
    tree = {
        "branch": [0, 1, -1, -1, -1], "bounds": [1, 0, 1, 0, 0], "upper": [1e16, 1e16], "flip_count": [0, 0], "flip_row": [],
        "beta_count": [0, 2], "beta_row": [0, 1], "beta": [1e15, 1e15],
    }  # fmt: skip
    for name, values in tree.items():
        dtype = np.float64 if name in ("upper", "beta") else np.int32
        file.arrays[f"tree.{name}"] = np.array(values, dtype=dtype)
    file.claim.update(lower=1e9, upper=None)
    return forged(file)
