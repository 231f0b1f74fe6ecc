"""Trees made by hand, which claim that no point is better than dropping every row."""

from __future__ import annotations

import numpy as np

from .archive import File
from .corpus import Forged, forged, forgery

LESS = "search proves"


def _tree(file: File, **arrays: list[float]) -> None:
    """Put a tree into a file, which then claims the objective of w = 0."""
    everything = float(len(file.y))
    file.arrays = {name: values for name, values in file.arrays.items() if not name.startswith(("tree.", "dual."))}
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
