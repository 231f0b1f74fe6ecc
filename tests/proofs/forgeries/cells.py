"""Cells of searches over directions that were changed, and claim more than they prove."""

import numpy as np

import svmcvx as sx

from .corpus import arrays, numbers, put, said


def cut(change):
    """Change which cells are cut."""

    def changed(file):
        file.arrays["tree.cut"] = change(file.arrays["tree.cut"]).astype(np.uint8)

    return changed


def higher(file):
    """Cells are about values a little above the optimum."""
    file.arrays["tree.below"] = 1.02 * file.arrays["tree.below"]


def rescaled(size):
    """Take the cells, none of them cut, for weights of this size."""

    def change(file):
        weight = np.where(np.arange(file.y.size) % 2, 1.0, 0.7)
        price = file.statement["hyperparameters"]["C"]
        file.arrays |= {"model.coef": np.zeros(2), "statement.weight": weight * size}
        file.arrays["tree.cut"] = np.full(4, 255, dtype=np.uint8)
        for name in ("support_count", "support_row", "support_alpha"):
            file.arrays[f"tree.{name}"] = file.arrays[f"tree.{name}"][:0]
        numbers(C=price / size)(file)
        file.claim.update(upper=None)
        return float(sx.fast.l0(file.X, file.y, C=price, sample_weight=weight).certificate.upper)

    return change


def short_rows(file):
    """Double the price, so that it overflows, of rows in whose units it would not."""
    file.X = file.X * 2.0**-200
    file.statement.update(fingerprint=sx.proofs.fingerprint(file.X, file.y))
    optimum = rescaled(3e-308)(file)
    file.arrays |= {"tree.centre": np.zeros(2), "tree.below": np.array(1e6)}
    file.claim.update(lower=4e5)
    return optimum


def turned(file):
    """Turn the axes of cells about a higher value."""
    higher(file)
    file.arrays["tree.axes"] = file.arrays["tree.axes"] @ np.array([[0.6, -0.8], [0.8, 0.6]])


def kernel_machine(file):
    """Cells of a kernel."""
    said("statement.kernel", {"name": "rbf", "gamma": 0.5})(file)
    del file.arrays["model.coef"]
    support = {"model.support": np.array([0]), "model.dual_coef": np.array([0.0])}
    file.arrays |= support | {"model.intercept": np.array(0.0)}
    file.claim.update(upper=None)


FORGERIES = [
    ("cells below a higher value", "cells", higher, "no better point"),
    ("cells below no value", "cells", arrays(tree__below=0.0), "value that the cells are about"),
    ("weights whose sum overflows", "cells", rescaled(1.7e308), "sum above 0 and below 2.1000"),
    ("a price that overflows", "cells", rescaled(3e-308), "keep no row of a class"),
    ("a price that overflows, of short rows", "cells", short_rows, "keep no row of a class"),
    ("a cell less", "cells", cut(lambda cuts: cuts[:-1]), "ends before its last cell"),
    ("a cell more", "cells", cut(lambda cuts: np.append(cuts, 255)), "cells behind its last one"),
    (
        "a cut in a coordinate that there is not",
        "cells",
        cut(lambda cuts: np.append(9, cuts[1:])),
        "cut in no coordinate",
    ),
    ("scales out of range", "cells", put("tree.exponent", ..., 5000), "scales of the cells"),
    ("axes that are almost parallel", "cells", put("tree.axes", ..., 0.7), "axes of the cells"),
    ("axes of any length", "cells", put("tree.axes", ..., 1e200), "axes of the cells"),
    ("fewer axes than columns", "cells", arrays(tree__axes=np.eye(1)), "axes of the cells"),
    ("other axes", "cells", turned, "no better point"),
    ("a support of too many rows", "cells", put("tree.support_count", 0, 99), "counts of the"),
    (
        "a support of a row that there is not",
        "cells",
        put("tree.support_row", 0, 99),
        "names a row",
    ),
    ("a budget that has room for a class", "cells k", numbers(k=1e3), "keep no row of a class"),
    ("cells of a kernel", "cells k", kernel_machine, "cells are about linear"),
    (
        "cells without an intercept",
        "cells k",
        said("statement.intercept", "none"),
        "the formulation has none",
    ),
]
