"""Rows in blocks that change between passes: every answer is about the rows of the first pass, or
is refused.

``python -m campaigns.changing_sources --count 2000`` draws that many sources, changes, places and
solvers, and prints the seeds whose interval excludes the optimum for the rows that the first pass
has read, and those of errors that name no block. Any of them can be repeated by ``--seed``. The
tests run a small sample.
"""

import itertools
import re
import shutil
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp

import svmcvx as sx
from campaigns import common
from svmcvx.feature_space import blocks

SOLVERS = {
    "psvm p=1": partial(sx.fast.psvm, C=0.3, p=1.0),
    "psvm p=1.5, penalised": partial(sx.fast.psvm, C=0.3, p=1.5, intercept="penalised"),
    "psvm p=2": partial(sx.fast.psvm, C=0.3, p=2.0),
    "psvm p=3, none": partial(sx.fast.psvm, C=0.3, p=3.0, intercept="none"),
    "hard_margin": sx.fast.hard_margin,
    "odm": partial(sx.fast.odm, C1=5.0, C2=2.0, D=0.1),
    "odml": partial(sx.fast.odml, lam1=1.0, lam2=0.5, C=5.0, intercept=True),
}
CHANGES = (
    "values",
    "one value",
    "order",
    "two rows swapped",
    "labels",
    "one label",
    "weights",
    "NaN",
    "infinity",
    "dtype",
    "growth",
    "shrinkage",
    "columns",
    "nothing there",
)
FORMS = ("function", "sparse", "npy", "dask")


class Changing:
    """A loader of one block whose rows are others from one load on, for one load, or at each
    load.
    """

    def __init__(self, parts, change, first, stays):
        self.parts, self.change, self.first, self.stays = parts, change, first, stays
        self.loads, self.given = 0, []

    def __call__(self):
        self.loads += 1
        due = self.loads - self.first
        found = self.parts
        if due == 0 or (due > 0 and self.stays != "once"):
            found = self.change(self.parts, due if self.stays == "anew" else 0)
        self.given.append(found)
        return found

    def late(self, j):
        """Whether one of the three parts has changed for good after the first pass."""
        last, before = self.given[-1][j], self.parts[j]
        same = last is before or (
            last is not None and last.dtype == before.dtype and np.array_equal(last, before)
        )
        return self.first > 2 and self.stays != "once" and not same


class Replaced(Changing):
    """The same, by files that are written again before they are read."""

    def __init__(self, load, write, parts, change, first, stays):
        super().__init__(parts, change, first, stays)
        self.load, self.write = load, write

    def __call__(self):
        self.write(super().__call__())
        # Rows appended to a file belong to no block.
        self.given[-1] = tuple(self.load())
        return self.given[-1]


def changed(kind, seed, parts, due):
    """The rows, labels and weights of a block after a change."""
    rng = np.random.default_rng((seed, due))
    X, y, weight = (np.array(part) for part in parts)
    m, d = X.shape
    if kind == "values":
        X = X + rng.standard_normal(X.shape)
    elif kind == "one value":
        X[rng.integers(m), rng.integers(d)] += 10.0 ** rng.uniform(-3, 3)
    elif kind == "order":
        X = X[rng.permutation(m)]
    elif kind == "two rows swapped":
        a, b = rng.choice(m, 2, replace=False)
        X[[a, b]] = X[[b, a]]
    elif kind == "labels":
        y = rng.permutation(y)
    elif kind == "one label":
        k = rng.integers(m)
        y[k] = 1 - y[k]
    elif kind == "weights":
        weight = weight * rng.uniform(0.5, 2.0, m)
    elif kind in ("NaN", "infinity"):
        X[rng.integers(m), rng.integers(d)] = np.nan if kind == "NaN" else np.inf
    elif kind == "dtype":
        X = X.astype(np.float32)
    elif kind == "growth":
        X, y, weight = np.vstack([X, X[:1]]), np.append(y, y[:1]), np.append(weight, weight[:1])
    elif kind == "shrinkage":
        X, y, weight = X[:-1], y[:-1], weight[:-1]
    elif kind == "columns":
        X = np.hstack([X, X[:, :1]])
    else:
        return None, y, weight
    return X, y, weight


def case(seed, folder):
    """A solver with its source, the loaders of the blocks, and what changes where."""
    rng = np.random.default_rng(seed)
    solver, kind, form = (str(rng.choice(list(names))) for names in (SOLVERS, CHANGES, FORMS))
    n, d, count = int(rng.integers(24, 90)), int(rng.integers(2, 5)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d))
    y = (X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(np.int64)
    if solver == "hard_margin":
        y = (X[:, 0] > 0).astype(np.int64)
        X[:, 0] += y - 0.5
    weight = rng.choice([0.5, 1.0, 2.0], n)
    if form == "sparse":
        X[rng.random(X.shape) < 0.4] = 0.0
    edges = np.linspace(0, n, count + 1).astype(int)
    place, first, stays = (
        int(rng.integers(count)),
        int(rng.integers(1, 24)),
        str(rng.choice(["stays", "once", "anew"])),
    )
    loaders = []
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        parts = X[a:b], y[a:b], weight[a:b]
        change = partial(changed, kind, seed)
        when = first if k == place else 10**9
        if form == "npy" and kind != "nothing there":
            paths = [folder / f"{name}{k}.npy" for name in ("X", "y", "weight")]
            write = partial(_write, paths)
            write(parts)
            load = sx.RowBlocks.from_npy(paths[0], paths[1], sample_weight=paths[2]).loaders[0]
            loaders.append(Replaced(load, write, parts, change, when, stays))
        elif form == "sparse" and kind != "nothing there":
            loaders.append(Changing(parts, lambda *given, make=change: make(*given), when, stays))
        elif form == "dask":
            # Three collections, each loaded by itself.
            loaders.append([Changing(parts, change, when, stays) for _ in range(3)])
        else:
            loaders.append(Changing(parts, change, when, stays))
    if form == "dask":
        import dask
        import dask.array as da

        lengths = np.diff(edges).tolist()
        source, labels, weights = (
            da.concatenate(
                [
                    da.from_delayed(
                        dask.delayed(partial(_part, load[j], j), pure=False)(), (m, *shape), dtype
                    )
                    for load, m in zip(loaders, lengths, strict=True)
                ]
            )
            for j, (shape, dtype) in enumerate((((d,), X.dtype), ((), y.dtype), ((), weight.dtype)))
        )
        arguments = source, labels, {"sample_weight": weights}
    else:
        calls = [partial(_sparse, load) if form == "sparse" else load for load in loaders]
        source = sx.RowBlocks(calls, labelled=True)
        arguments = source, source.y, {}
    return solver, kind, form, arguments, loaders, f"block {place}, load {first}, {stays}"


def _part(load, j):
    return load()[j]


def _write(paths, parts):
    for path, part in zip(paths, parts, strict=True):
        np.save(path, part)


def _sparse(load):
    X, *beside = load()
    return (X if X is None else sp.csr_array(X), *beside)


def check(seed):
    """Solve one case; return what was found, and the reason where it must not be."""
    folder = Path(tempfile.mkdtemp(prefix="svmcvx-changing-"))
    try:
        solver, kind, form, (source, y, beside), loaders, place = case(seed, folder)
        label = f"{solver}, {kind}, {form}, {place}"
        solve = SOLVERS[solver]
        # So few rows are loaded, unless that is left out: one case in four leaves it in.
        small = mock.patch.object(
            blocks, "SMALL_ENTRIES", blocks.SMALL_ENTRIES if seed % 4 == 3 else 0
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"), small:
            warnings.simplefilter("ignore")
            try:
                found = solve(source, y, **beside, tol=1e-7, time_limit=60.0)
            except sx.DataError as error:
                named = re.search(r"block \d", str(error))
                return label, "refused", "" if named else f"names no block: {error}"
            except sx.SolverFailed as error:
                found = error
            # What the first pass has read of each block: the first one was looked at before.
            each = [load if isinstance(load, list) else [load] * 3 for load in loaders]
            if any(part.late(j) for load in each for j, part in enumerate(load)):
                return label, "UNNOTICED", str(found)
            parts = [
                np.concatenate(
                    [
                        load[j].given[min(int(k == 0), load[j].loads - 1)][j]
                        for k, load in enumerate(each)
                    ]
                )
                for j in range(3)
            ]
            try:
                truth = solve(parts[0], parts[1], sample_weight=parts[2], tol=1e-9)
            except sx.SolverFailed as error:
                truth = error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(found, sx.SolverFailed) or isinstance(truth, sx.SolverFailed):
        return (
            label,
            "no solution",
            "" if str(found) == str(truth) else f"{found}, and in memory: {truth}",
        )
    mine, exact = found.certificate, truth.certificate
    if mine.lower > exact.upper or exact.lower > mine.upper:
        return (
            label,
            "FALSE",
            f"[{mine.lower:.9g}, {mine.upper:.9g}] for [{exact.lower:.9g}, {exact.upper:.9g}]",
        )
    return label, "holds" if mine.is_certified(1e-6) else "wide", ""


def main():
    options = common.options_of(__doc__, 200)

    def judge(seed):
        label, end, why = check(seed)
        return label, "FALSE" if why else end, {}, f"{end}: {why}"

    return common.run(judge, options)


if __name__ == "__main__":
    sys.exit(main())
