# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Larger than memory
#
# A linear machine sees its rows through sums: of losses, gradients, second derivatives. Sums can be
# taken block by block, from a file, by threads or by the workers of a cluster. And so can a
# certificate. This page trains on rows that are never in memory together, and gets the same
# interval.

# %%
import os
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import svmcvx as sx

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with fewer rows

store = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
folder = Path(store.name)
ROWS, COLUMNS = (75_000, 30) if SMALL else (500_000, 120)

# %% [markdown]
# ## Rows in a file
#
# The file is written in pieces too, through a memory map. The classes overlap, so that every row
# near the boundary matters.

# %%
rng = np.random.default_rng(0)
direction = rng.standard_normal(COLUMNS) / np.sqrt(COLUMNS)
X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(ROWS, COLUMNS))
y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.int8, shape=(ROWS,))
for start in range(0, ROWS, 100_000):
    part = rng.standard_normal((min(100_000, ROWS - start), COLUMNS))
    noise = 0.5 * rng.standard_normal(len(part))
    X[start : start + len(part)] = part
    y[start : start + len(part)] = np.where(part @ direction + noise > 0.2, 1, -1)
del X, y
print(f"{(folder / 'X.npy').stat().st_size / 2**20:.0f} MiB in the file")

# %% [markdown]
# ## The same call, other rows
#
# `RowBlocks` takes the place of `X`. The solver solves a sample in memory and then takes Newton
# steps over all rows; each step needs three passes over the file, and the certificate two. What
# stays in memory are labels, scores and multipliers, some 90 bytes a row, a block for each thread,
# and the sample.

# %%
blocks = sx.RowBlocks.from_npy(folder / "X.npy", folder / "y.npy")
C = 100.0 / ROWS
tracemalloc.start()
solution = sx.fast.psvm(blocks, blocks.y, C=C, p=2.0, tol=1e-6)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
assert solution.certificate.is_certified(1e-6)

print(solution.certificate)
passes = solution.certificate.residuals["row_passes"]
print(f"{passes:.0f} passes over the rows")
print(f"at most {peak / 2**20:.0f} MiB of arrays at a time")
print(f"the rows in double precision have {ROWS * COLUMNS / 2**17:.0f} MiB")

# %% [markdown]
# The gap over time: from the solution of the sample a few Newton steps are enough.

# %%
figure, ax = plt.subplots(figsize=(6.8, 3.6), layout="constrained")
_ = sx.plot.gap_trace({f"{ROWS:,} rows in blocks": solution}, ax=ax)

# %% [markdown]
# ## The same answer as in memory
#
# On rows that do fit, both routes can be compared. They are different programs, and each has its
# own certificate.

# %%
part = min(ROWS, 100_000)
head = np.array(np.load(folder / "X.npy", mmap_mode="r")[:part], dtype=float)
labels = np.load(folder / "y.npy", mmap_mode="r")[:part]
inside = sx.fast.psvm(head, labels, C=C, p=2.0, tol=1e-8)
np.save(folder / "head.npy", head)
np.save(folder / "head_y.npy", labels)
pieces = sx.RowBlocks.from_npy(folder / "head.npy", folder / "head_y.npy", rows=part // 7)
outside = sx.fast.psvm(pieces, pieces.y, C=C, p=2.0, tol=1e-8)
print("in memory:", inside.certificate)
print("in blocks:", outside.certificate)
assert max(inside.certificate.lower, outside.certificate.lower) <= min(
    inside.certificate.upper, outside.certificate.upper
)

# %% [markdown]
# ## Is a sample enough?
#
# The certificate of all rows answers it. Train on the first $n$ rows, evaluate the objective of
# *all* rows at the result, and hold it against the lower bound.

# %%
rows, truth = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def objective(model, size=200_000):
    """Return the objective over all rows and the share of wrong labels, in one pass."""
    loss, wrong = 0.0, 0
    for start in range(0, ROWS, size):
        u = truth[start : start + size] * model.decision_function(rows[start : start + size])
        loss += np.sum(np.maximum(1 - u, 0) ** 2)
        wrong += np.sum(u <= 0)
    return 0.5 * model.coef @ model.coef + C * loss, wrong / ROWS


sizes = np.unique(np.geomspace(1000, ROWS / 4, 4 if SMALL else 6).astype(int))
excess, errors = [], []
for n in sizes:
    sample = sx.fast.psvm(np.array(rows[:n], dtype=float), truth[:n], C=C * ROWS / n, p=2.0)
    value, wrong = objective(sample.model)
    excess.append(value / solution.certificate.lower - 1)
    errors.append(wrong)
best_value, best_wrong = objective(solution.model)
assert abs(best_value / solution.certificate.upper - 1) < 1e-6
assert min(excess) >= 0
slope = np.polyfit(np.log(sizes[-3:]), np.log(excess[-3:]), 1)[0]
print(f"the excess of the last three samples falls as n to the power {slope:.2f}")
assert -2 < slope < -0.5

# %% tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
left.plot(sizes, excess, marker="o", color="#4c72b0", label="excess of the sample's model")
left.plot(
    sizes,
    excess[-1] * sizes[-1] / sizes,
    color="0.5",
    linestyle="--",
    linewidth=0.9,
    label="proportional to 1/n",
)
_ = left.set(
    xscale="log",
    yscale="log",
    xlabel="rows of the sample",
    ylabel="objective above the optimum, relative",
)
_ = left.legend()
right.plot(sizes, errors, marker="o", color="#4c72b0", label="sample")
right.axhline(best_wrong, color="#d1603d", label="all rows")
_ = right.set(
    xscale="log", xlabel="rows of the sample", ylabel="share of wrong labels among all rows"
)
_ = right.legend()

# %% [markdown]
# The excess falls about as $1/n$: for the error rate alone a sample is soon enough, and the
# certificate of all rows says so with a number. What the other rows buy is the last digits, which a
# comparison of formulations needs.
#
# ## Rows that are nowhere
#
# A block is anything that returns its rows: a file, a query, or a function that computes them. It
# has to return the same rows each time; one that does not is refused.

# %%
BLOCK = 5_000 if SMALL else 20_000


def computed(k):
    """Return block k: rows and labels, from a generator with a seed of its own."""
    rng = np.random.default_rng([7, k])
    rows = rng.standard_normal((BLOCK, COLUMNS))
    return rows, np.where(rows @ direction + 0.5 * rng.standard_normal(BLOCK) > 0.2, 1, -1)


stream = sx.RowBlocks([lambda k=k: computed(k) for k in range(8)], labelled=True)
machine = sx.ODMClassifier(C1=10.0, C2=10.0, D=0.1, intercept=True).fit(stream, stream.y)
assert machine.certificate_.is_certified(1e-6)
print(machine.certificate_)

# %%
store.cleanup()
