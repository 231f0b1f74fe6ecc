"""Trees of searches that were made by hand or changed, and claim more than they prove."""

import numpy as np

import svmcvx as sx

from .corpus import both, claims, put, said, times, without
from .honest import honest

LESS, RANGE = "search proves", "too large or too small"
DOUBLES = ("upper", "beta", "price", "at")


def tree(file, **arrays):
    """Put a tree into a file."""
    for name, values in arrays.items():
        dtype = np.float64 if name in DOUBLES else np.int32
        file.arrays[f"tree.{name}"] = np.array(values, dtype=dtype)


def everything_dropped(file, **arrays):
    """A tree in a file that claims the objective of w = 0."""
    everything, old = float(len(file.y)), file.arrays
    file.arrays = {name: 0.0 * old[name] for name in ("model.coef", "model.intercept")}
    tree(file, **arrays)
    file.claim.update(lower=everything, upper=everything)
    return file.optimum


def chain(beta=1.0, upper=None):
    """A chain of nodes, each of which keeps a row in a leaf with this multiplier, or drops it."""

    def change(file):
        rows = range(len(np.unique(file.X * file.y[:, None], axis=0)))
        bounds = len(rows) + 1
        return everything_dropped(
            file,
            branch=[node for row in rows for node in (row, -1)] + [-1],
            bounds=[1, *(count for _ in rows for count in (1, 0))],
            upper=[float(len(file.y)) if upper is None else upper] * bounds,
            flip_count=[0] * bounds,
            flip_row=[],
            beta_count=[0] + [1] * len(rows),
            beta_row=[*rows],
            beta=[beta] * len(rows),
        )

    return change


NONE = {name: [] for name in ("flip_row", "beta_row", "beta")}


def a_leaf_alone(file):
    leaf = {"branch": [-1], "bounds": [1], "upper": [1e9], "flip_count": [0], "beta_count": [0]}
    return everything_dropped(file, **leaf, **NONE)


def first_node_alone(file):
    """It claims that no intercept is left."""
    two = {"side": [0, 0], "at": [0.0, 0.0], "flip_count": [0, 0], "beta_count": [0, 0]}
    tree(file, branch=[-1], bounds=[2], upper=[1e6, 1e6], **two, **NONE)


def more(file):
    """Claim a lower end above the optimum, and nothing else."""
    file.claim.update(lower=file.claim["upper"] * (1.0 + 1e-6), upper=None)


def both_keep(file):
    # A reader takes the second child for the one that drops the row.
    branch = file.arrays["tree.branch"]
    branch[np.flatnonzero(branch >= 0)[-1]] = branch[0]


def another_order(file):
    for name in ("tree.branch", "tree.flip_row", "tree.beta_row"):
        rows = file.arrays[name]
        rows[rows >= 0] = 23 - rows[rows >= 0]
    for marks in np.split(file.arrays["tree.flip_row"], np.cumsum(file.arrays["tree.flip_count"])):
        marks.sort()


def alternating(file):
    """Cuts that empty the interval."""
    side = np.arange(file.arrays["tree.side"].size, dtype=np.int32) % 2 * 2 - 1
    file.arrays |= {"tree.side": side, "tree.at": -1e6 * side}


def far_centre(file):
    file.arrays["tree.centre"] += 1e3


def tree_of(name):
    """The tree of another search."""
    return lambda file: file.arrays.update(
        {k: v for k, v in honest(name).arrays.items() if k.startswith("tree.")}
    )


def rounded_kernel(file):
    # Two rows of one place up to rounding, with labels that are not the same: what it costs to keep
    # both is a matter of rounding.
    file.X = np.array([[1.0, 1.0 + 2.0**-52], [1.0 + 2.0**-52, 1.0]])
    file.y = np.array([1, -1])
    file.statement.update(
        rows=2,
        columns=2,
        intercept="none",
        hyperparameters={"lam": 1e30},
        fingerprint=sx.proofs.fingerprint(file.X, file.y),
    )
    file.arrays = {
        "model.support": np.array([0]),
        "model.dual_coef": np.array([0.0]),
        "model.intercept": np.array(0.0),
    }
    branch, bounds, counts = [0, 1, -1, -1, -1], [1, 0, 1, 0, 0], {"flip_count": [0, 0]}
    counts |= {"flip_row": [], "beta_count": [0, 2], "beta_row": [0, 1], "beta": [1e15, 1e15]}
    tree(file, branch=branch, bounds=bounds, upper=[1e16, 1e16], **counts)
    file.claim.update(lower=1e9, upper=None)


def overflowing(file):
    """Twice the price overflows, and would not in units of the rows; all pairs of rows conflict."""
    file.X, file.y = np.array([[1.0], [1.0], [2.0], [2.0]]) * 2.0**-300, np.array([1, -1, 1, -1])
    price, weight = 1.7e308, np.full(4, 1e-300)
    file.statement.update(
        rows=4,
        columns=1,
        hyperparameters={"C": price},
        fingerprint=sx.proofs.fingerprint(file.X, file.y),
    )
    file.arrays = {"model.coef": np.array([1e95]), "model.intercept": np.array(1.0)}
    file.arrays |= {"statement.weight": weight}
    bounds = {"bounds": [1, 0, 1, 0, 0], "upper": [1e180] * 2, "side": [0, 0], "at": [0.0, 0.0]}
    counts = {"flip_count": [0, 0], "flip_row": [], "beta_count": [0, 2], "beta_row": [0, 1]}
    tree(file, branch=[0, 1, -1, -1, -1], **bounds, **counts, beta=[1.0, 1.0])
    file.arrays["tree.centre"] = np.zeros(1)
    file.claim.update(lower=1e9, upper=None)
    return 2.0 * weight[0] * price


HUGE = {"name": "polynomial", "degree": 1000, "gamma": 50.0, "coef0": 10.0}
LARGE = both(said("statement.kernel", HUGE), claims(upper=None))
PRICES = both(times("tree.price", 1e6, all_of_them=True), more)
LARGER = both(times("tree.upper", 1.5, all_of_them=True), more)
KERNEL = both(said("statement.kernel", {"name": "rbf", "gamma": 50.0}), more)
# Free intercepts: the interval and the parts that are cut off; kernels.
CHANGES = {
    "every cut of the interval in its middle": put("tree.at", ..., 0.0),
    "cuts on the other side": times("tree.side", -1, all_of_them=True),
    "cuts that empty the interval": alternating,
    "multipliers a hundred times as large": times("tree.beta", 100.0, all_of_them=True),
    "values near zero, whose interval is empty or small": put("tree.upper", ..., 1e-9),
    "no tree but its first node": first_node_alone,
}

FORGERIES = [
    *(
        (f"a chain of leaves with multipliers {beta!r}", "zero_one", chain(beta), LESS)
        for beta in (0.0, -1.0, 5e-324, 1e-160, 1e154, 1e308, -1e308)
    ),
    *(
        (f"a chain of leaves below the value {upper!r}", "zero_one", chain(upper=upper), LESS)
        for upper in (0.0, 5e-324, 1e300)
    ),
    ("a leaf alone", "zero_one", a_leaf_alone, LESS),
    ("a price that overflows, of a tree", "l0", overflowing, LESS),
    ("a negative price", "zero_one k", put("tree.price", -1, -1.0), "must not be negative"),
    ("a price of the budget for each loss", "zero_one k", PRICES, f"{LESS}|objective"),
    ("both children keep", "zero_one", both(both_keep, more), f"{LESS}|ends before|behind"),
    ("values of the tree that are larger", "zero_one", LARGER, LESS),
    ("rows in another order", "zero_one", both(another_order, more), f"{LESS}|behind|ends before"),
    ("a part on no side", "ramp", put("tree.side", 0, 2), "a side of the tree's bounds is none of"),
    *(
        (f"{base}: {what}", base, both(change, more), LESS)
        for base in ("ramp", "l0 rbf")
        for what, change in CHANGES.items()
    ),
    ("rows far from their centre", "l0", both(far_centre, more), LESS),
    ("a centre out of the range of doubles", "ramp", put("tree.centre", 0, 1e300), RANGE),
    ("a tree without its centre", "l0", without("tree.centre"), "the tree of a proof of"),
    ("the tree of the ramp loss for counted losses", "l0", both(tree_of("ramp"), more), LESS),
    ("the tree of counted losses for the ramp loss", "ramp", both(tree_of("l0"), more), LESS),
    ("the tree of another kernel", "zero_one rbf", KERNEL, f"{LESS}|objective"),
    ("a kernel that is too large for a tree", "zero_one rbf", LARGE, RANGE),
    ("rounding of a kernel in a tree", "zero_one precomputed", rounded_kernel, "kernel decides"),
]
