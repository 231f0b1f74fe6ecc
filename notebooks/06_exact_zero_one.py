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
# # The exact 0-1 loss: what the relaxation misses, and the proof
#
# Minimising the number of observations with a margin below 1 is a combinatorial problem: $2^n$ sets
# of observations to give up. For a few features it can still be solved to *proved* optimality. Then
# one can ask what a relaxation misses, and let a second program check the proof.

# %%
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import svmcvx as sx
from svmcvx.formulations.conic_loss.problems import relaxation
from svmcvx.proofs.format import read_proof

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with less data

# %% [markdown]
# ## The problem
#
# $$\min_{w}\ \|w\|^2 + \lambda\sum_i 1[u_i < 1], \qquad u_i = y_i x_i'w,$$
#
# with a constant feature for the intercept. It counts what lies inside the margin, not only what is
# misclassified: without the 1 the minimum would be at $w \to 0$. As a mixed-integer program, $u_i
# \ge 1 - M_i z_i$ with $z_i \in \{0, 1\}$, its value depends on the $M_i$: too small and they cut
# off the optimum, too large and the relaxation says nothing. The builder derives valid ones from an
# incumbent.

# %%
X, y = sx.synthetic.outlier_data(120, 2, sigma=0.2, outliers="clustered", seed=27)
LAM = 2.0
problem = sx.zero_one_mio(X, y, lam=LAM)
reach = problem.param_dict["M"].value
print(f"{len(y)} binary variables, M between {reach.min():.1f} and {reach.max():.1f}")

# %% [markdown]
# `sx.fast.zero_one` has searches of its own. One is branch and bound, in which every node tightens
# its $M_i$ to what the points that can still win may reach. Its picture is the usual one of a
# proof: models stop improving, and the rest of the time goes into the bound.

# %%
search = sx.synthetic.outlier_data(60 if SMALL else 150, 3, sigma=0.5, outliers="spread", seed=1)
exact = sx.fast.zero_one(*search, lam=LAM, method="tree")
assert exact.certificate.is_certified(1e-6)
seconds, lower, upper = exact.trace.T
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.step(
    seconds, np.fmin.accumulate(upper), where="post", color="#d1603d", label="best model so far"
)
ax.step(
    seconds, np.fmax.accumulate(lower), where="post", color="#4c72b0", label="bound proved so far"
)
ax.plot(seconds[-1], exact.certificate.upper, "o", color="black", label="certificate")
_ = ax.set(xlabel="seconds", ylabel="objective", ylim=(0, 1.3 * exact.certificate.upper))
_ = ax.legend(loc="lower right")

# %% [markdown]
# ## What the relaxation misses
#
# The conic relaxation bounds the same optimum from below, without a search, and a model rounded
# from it bounds it from above. How wide is that, and where in it does the truth lie? For each kind
# of outliers, the interval of the relaxation in units of the optimum:

# %%
cases = [
    (kind, seed) for kind in ("none", "clustered", "spread") for seed in range(2 if SMALL else 6)
]
rows = []
for kind, seed in cases:
    A, labels = sx.synthetic.outlier_data(
        40 if SMALL else 80, 2, sigma=0.3, outliers=kind, seed=seed
    )
    relaxed = sx.fast.conic(A, labels, lam=LAM, rounding=True)
    optimum = sx.fast.zero_one(A, labels, lam=LAM).certificate
    assert optimum.is_certified(1e-6)
    low, high = relaxation(relaxed).zero_one
    assert low <= optimum.upper * (1 + 1e-9)
    assert optimum.lower <= high * (1 + 1e-9)
    rows.append((kind, low / optimum.upper, high / optimum.upper))

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
colours = {"none": "#4c72b0", "clustered": "#d1603d", "spread": "#55a868"}
for k, (kind, low, high) in enumerate(rows):
    ax.plot([low, high], [k, k], color=colours[kind], linewidth=3, solid_capstyle="butt")
for kind, colour in colours.items():
    ax.plot([], [], color=colour, linewidth=3, label=f"outliers: {kind}")
ax.axvline(1, color="black", linewidth=1, label="the optimum")
_ = ax.set(xlabel="value in units of the 0-1 optimum", yticks=[], ylabel="data sets")
_ = ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
lows, highs = np.array([row[1:] for row in rows]).T
print(f"lower end: {lows.min():.2f} to {lows.max():.2f} of the optimum")
print(f"rounded models: {highs.min():.3f} to {highs.max():.3f}")
print(f"rounded model optimal in {np.sum(highs < 1 + 1e-6)} of {len(rows)} cases")

# %% [markdown]
# The rounded model is good where the bound is not: what the relaxation mostly lacks is the proof.
#
# ## The machines themselves
#
# The boundaries of three losses at the same weight. Crosses mark what the exact machine gives up:
# all of the cluster, and a few observations where the classes overlap.

# %%
best = sx.fast.zero_one(X, y, lam=LAM)
shown = {
    "exact 0-1 loss": (best, "black", "-"),
    "conic loss": (sx.fast.conic(X, y, lam=LAM), "#55a868", "--"),
    "hinge": (sx.fast.psvm(X, y, C=LAM / 2, p=1.0), "#8172b2", ":"),
}
given_up = sx.theory.margins(best, X, y) < 1 - 1e-9

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7.4, 4.8), layout="constrained")
for label, colour in ((-1, "#3b6fb6"), (1, "#d1603d")):
    ax.scatter(*X[y == label].T, s=22, color=colour, label=f"{label:+d}")
ax.scatter(*X[given_up].T, marker="x", color="black", s=45, linewidth=1, label="given up")
span = np.array([X[:, 0].min() - 0.5, X[:, 0].max() + 0.5])
for name, (solution, colour, style) in shown.items():
    w, b = solution.model.coef, solution.model.intercept
    wrong = np.sum(sx.theory.margins(solution, X, y) < 0)
    ax.plot(
        span,
        -(w[0] * span + b) / w[1],
        color=colour,
        linestyle=style,
        label=f"{name}: {wrong} wrong",
    )
_ = ax.set(xlim=span, ylim=(X[:, 1].min() - 0.5, X[:, 1].max() + 0.5), aspect="equal")
_ = figure.legend(loc="outside right center")
assert np.all(given_up[np.linalg.norm(X, axis=1) > 4])

# %% [markdown]
# ## The proof
#
# The certificate of a search could be a promise. It is not: for linear machines the record of the
# search can be saved, and `verify`, a program that shares no numerics with the search, goes through
# its nodes and computes every bound again, with bounds on its own rounding.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "proof.npz"
    exact.save_proof(path)
    verified = sx.verify(path, *search)
    proof, size = read_proof(path), path.stat().st_size
assert verified.holds
assert verified.lower <= exact.certificate.upper
print(
    f"{size / 1024:.0f} kB; holds: {verified.holds}; [{verified.lower:.9f}, {verified.upper:.9f}]"
)

# %% [markdown]
# The tree itself: a node decides of one observation whether it is kept or dropped. Each bar counts
# the nodes of a depth.

# %%
# each node before its children: the observation decided there, or -1 for a leaf
branch = proof.tree["branch"]
depth, waiting = [], [0]
for row in branch:
    depth.append(waiting.pop())
    if row >= 0:
        waiting += 2 * [depth[-1] + 1]
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.bar(*np.unique(depth, return_counts=True), color="#4c72b0")
_ = ax.set(
    xlabel="decisions made",
    ylabel="nodes",
    title=f"{len(depth):,} nodes instead of $2^{{{len(search[1])}}}$ sets",
)

# %% [markdown]
# A checker that accepts everything proves nothing. So change the file: claim a little more than was
# proved, or leave out the second half of the tree, and see what it says.

# %%
half = len(branch) // 2
forged = {
    "a better bound": replace(proof, lower=proof.upper * 1.01, upper=proof.upper * 1.02),
    "a worse model": replace(
        proof, model={**proof.model, "coef": 0.9 * np.asarray(proof.model["coef"])}
    ),
    "half a tree": replace(
        proof, tree={**proof.tree, "branch": branch[:half], "bounds": proof.tree["bounds"][:half]}
    ),
}
for what, file in forged.items():
    answer = sx.verify(file, *search)
    assert not answer.holds
    print(f"{what}: {answer.why}")
