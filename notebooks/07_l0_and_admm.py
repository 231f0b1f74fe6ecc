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
# # l0 and ADMM: what is left when a method cycles
#
# The l0-norm hinge counts violated margins, with a kernel and a free intercept. It is not convex, and [LinYaoLiu]
# solve it by an ADMM whose fixed points are local minima. With label noise the ADMM often does not get there: it
# cycles. This page writes it down, watches it, and takes from its iterates what they are good for.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import scale

import svmcvx as sx

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with less data


def noisy_moons(n, r, seed=0):
    """Two moons of which a share r has the wrong label."""
    X, y = make_moons(n, noise=0.1, random_state=seed)
    flipped = np.random.default_rng(seed).random(n) < r
    return scale(X), np.where(flipped, 1 - y, y) * 2 - 1


# %% [markdown]
# ## The problem and its stationary points
#
# $$\min_{c,\,b}\ \tfrac12 c'Kc + C\,\#\{i : 1 - y_i((Kc)_i + b) > 0\}$$
#
# With the slack $u = 1 - \operatorname{diag}(y)(Kc + b)$ and its multiplier $\lambda$, a point is *proximal
# stationary* if $c = -\operatorname{diag}(y)\lambda$, $y'\lambda = 0$ and $u = \operatorname{prox}(u - s\lambda)$,
# where prox sets entries in $(0, \sqrt{2sC}]$ to zero. Such points are exactly the local minima, and
# $\lambda_i \ne 0$ only where $u_i = 0$: support vectors lie on the hyperplanes $f = \pm 1$.
#
# ## The ADMM
#
# One iteration with penalty $\sigma$, as printed:


# %%
def admm(K, y, C, sigma, steps):
    """Return the residual of feasibility and the satisfied set of every iteration, and the last iterate."""
    n = len(y)
    c, b, multiplier = np.zeros(n), 0.0, np.zeros(n)
    inverse = np.linalg.inv(np.eye(n) + sigma * K)
    residuals, satisfied = [], []
    for _ in range(steps):
        z = 1 - y * (K @ c + b) - multiplier / sigma
        group = (z > 0) & (z <= np.sqrt(2 * C / sigma))
        u = np.where(group, 0.0, z)
        c = -sigma * inverse @ (y * (u - 1 + y * b + multiplier / sigma))
        b = y @ (1 - u - y * (K @ c) - multiplier / sigma) / n
        short = u - 1 + y * (K @ c + b)
        multiplier = np.where(group, multiplier + sigma * short, 0.0)
        residuals.append(np.linalg.norm(short) / np.sqrt(n))
        satisfied.append(u <= 0)
    return np.array(residuals), np.array(satisfied), (c, b)


N, C, STEPS = (80, 10.0, 600) if SMALL else (200, 10.0, 2000)
kernel = sx.RBF(gamma=0.5)
SIGMAS = [2 * C / t**2 for t in (1.2, 4.0)]

# %% [markdown]
# Without noise and with a tenth of the labels flipped, for the two penalties that `fast.l0` takes by default:

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharey=True)
runs = {}
for ax, r in zip(axes, (0.0, 0.1), strict=True):
    X, y = noisy_moons(N, r)
    for sigma in SIGMAS:
        runs[r, sigma] = admm(kernel(X, X), y, C, sigma, STEPS)
        ax.plot(runs[r, sigma][0], linewidth=0.9, label=rf"$\sigma = {sigma:.2f}$")
    ax.axhline(1e-3, color="black", linewidth=0.8, linestyle="--", label="tolerance of the paper")
    _ = ax.set(title=f"share of flipped labels r = {r:g}", xlabel="iteration", yscale="log")
_ = axes[0].set(ylabel="residual")
_ = axes[0].legend()
for (r, sigma), (residuals, *_) in runs.items():
    print(f"r = {r:g}, sigma = {sigma:.2f}: residual {residuals[-1]:.1e} after {STEPS} iterations")

# %% [markdown]
# ## It is a cycle
#
# The iteration depends on the satisfied set in jumps. If the sets of the last iterations repeat with a period, no
# further iteration helps.


# %%
def period(satisfied, window=200):
    """Return the shortest period of the last sets, or None."""
    tail = satisfied[-window:]
    return next((k for k in range(1, window // 2) if np.array_equal(tail[k:], tail[:-k])), None)


periods = {key: period(run[1]) for key, run in runs.items()}
for (r, sigma), found in periods.items():
    print(
        f"r = {r:g}, sigma = {sigma:.2f}: " + ("the set is settled" if found == 1 else f"period of the sets: {found}")
    )

# %% [markdown]
# ## Polish: a local minimum is one hard-margin solve away
#
# Take the satisfied set $T$ of *any* iterate and solve the hard-margin SVM on $T$. Its solution meets the conditions
# of stationarity exactly: its multipliers are $-\lambda$. So the iterates need not converge, they only have to
# propose sets. Grey: the objective of the iterates themselves, where a margin may be short by the tolerance. Dots:
# the polished objective of some of their sets.

# %%
X, y = noisy_moons(N, 0.1)
K = kernel(X, X)
sigma = SIGMAS[1]
chosen = np.unique(np.logspace(0, np.log10(STEPS), 6 if SMALL else 30).astype(int)) - 1
polished = []
for k in chosen:
    kept = runs[0.1, sigma][1][k]
    if len(set(y[kept])) < 2:
        polished.append(C * min(np.sum(y > 0), np.sum(y < 0)))  # a constant is right for one class
        continue
    try:
        machine = sx.fast.hard_margin(X[kept], y[kept], kernel=kernel, tol=1e-8)
    except sx.SolverFailed:
        polished.append(np.nan)
        continue
    violated = np.sum(y * machine.model.decision_function(X) < 1 - 1e-6)
    polished.append(machine.certificate.upper + C * violated)
polished = np.array(polished)

# %%
answer = sx.fast.l0(X, y, C=C, kernel=kernel)
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.plot(chosen + 1, polished, "o", color="#4c72b0", label="sets of the iterates, polished")
ax.axhline(answer.certificate.upper, color="#d1603d", label="fast.l0: polish and local search")
record = answer.attempts[0].options
for value in record["admm_objective"]:
    ax.axhline(
        value,
        color="0.6",
        linestyle="--",
        linewidth=0.9,
        label="ADMM without polish" if value == record["admm_objective"][0] else None,
    )
_ = ax.set(xscale="log", xlabel="iteration that proposed the set", ylabel="objective")
_ = ax.legend()
assert answer.certificate.upper <= np.nanmin(polished) + 1e-6

# %% [markdown]
# `fast.l0` keeps the best polished set, searches its neighbours, and says what it can prove: the residuals of
# stationarity, and no lower bound. The certificate is *local*.

# %%
residuals = answer.certificate.residuals
assert answer.certificate.kind == "local"
assert answer.certificate.lower is None
assert residuals["stationarity"] < 1e-6
print(answer.certificate, f"stationarity {residuals['stationarity']:.1e}")

# %% [markdown]
# ## What it looks like
#
# Support vectors lie on the dashed lines, and only there; the flipped observations beyond them have the same price
# wherever they are, and no influence. With the hinge every violated observation is a support vector.

# %%
hinge = sx.fast.psvm(X, y, C=C, p=1.0, kernel=kernel)
figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
for ax, (name, solution) in zip(axes, {"l0-norm hinge": answer, "hinge": hinge}.items(), strict=True):
    sx.plot.decision_regions(solution, X, y, ax=ax, title=f"{name}: {solution.model.n_support} support vectors")
scores = answer.model.decision_function(X[answer.model.support])
assert np.allclose(np.abs(scores), 1, atol=1e-6)
assert answer.model.n_support < hinge.model.n_support

# %% [markdown]
# ## How good is a local minimum?
#
# For few observations the mixed-integer program gives the global optimum to compare with.

# %%
few = noisy_moons(16 if SMALL else 24, 0.1, seed=1)
local = sx.fast.l0(*few, C=1.0, kernel=kernel)
world = sx.solve(sx.l0_mio(*few, C=1.0, kernel=kernel), time_limit=60)
print("local:  ", local.certificate)
print("global: ", world.certificate)
assert world.certificate.lower <= local.certificate.upper * (1 + 1e-6)
