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
# # Certify what scikit-learn trained
#
# `sx.certify` takes a fitted `SVC`, `NuSVC`, `LinearSVC` or `LogisticRegression` and the data that
# it saw, and says between which two numbers the optimum of *its own problem* lies. The upper end is
# the objective of the fitted model, so the gap is what its solver left on the table. This page asks
# when that is much, and when it matters.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

import svmcvx as sx

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with less data

cancer = sx.datasets.load("breast_cancer")
rows = slice(0, 200 if SMALL else None)
X_train, X_test, y_train, y_test = train_test_split(
    cancer.X[rows], cancer.y[rows], test_size=0.4, random_state=0
)
scaler = StandardScaler().fit(X_train)
Z_train, Z_test = scaler.transform(X_train), scaler.transform(X_test)

# %% [markdown]
# ## A tolerance is not a gap
#
# `tol` of `SVC` is a threshold on the violation of the optimality conditions, in units of the
# scores. The gap is relative to the objective. One says when the solver stopped, the other what it
# achieved. Below some tolerance nothing more is gained: LIBSVM keeps rows of the kernel in single
# precision. Grey bars: the share of test observations whose label differs from the one that the
# optimal machine predicts.

# %%
tolerances = np.logspace(0, -8, 5 if SMALL else 17)
reference = SVC(C=10.0, tol=1e-10).fit(Z_train, y_train)
gaps, different = [], []
for tol in tolerances:
    machine = SVC(C=10.0, tol=tol).fit(Z_train, y_train)
    gaps.append(sx.certify(machine, Z_train, y_train).gap)
    different.append(np.mean(machine.predict(Z_test) != reference.predict(Z_test)))

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(6.8, 3.8), layout="constrained")
ax.plot(tolerances, np.maximum(gaps, 1e-16), marker="o", color="#4c72b0", label="certified gap")
ax.plot(tolerances, tolerances, color="0.5", linewidth=0.8, linestyle="--", label="gap = tol")
_ = ax.set(xscale="log", yscale="log", xlabel="tol of SVC", ylabel="relative gap")
ax.axvline(1e-3, color="0.8", zorder=0)
_ = ax.annotate(
    "default", (1e-3, ax.get_ylim()[0]), rotation=90, va="bottom", ha="right", color="0.4"
)
share = ax.twinx()  # bars of the second axis
share.bar(tolerances, different, width=0.5 * tolerances, color="0.7", alpha=0.6)
_ = share.set(ylabel="share of labels that differ", ylim=(0, max(0.05, 2 * max(different))))
_ = ax.legend(loc="upper left")
assert sx.certify(reference, Z_train, y_train).is_certified(1e-6)

# %% [markdown]
# ## Where it goes wrong: unscaled columns
#
# The standard deviations of the columns differ by orders of magnitude. Solvers then stop far from
# the optimum. Most of them warn, but the warning is easily silenced or overlooked, and what it
# costs is not part of it.

# %%
deviations = X_train.std(axis=0)
print(f"standard deviations of the columns: {deviations.min():.1g} to {deviations.max():.1g}")
machines = {
    "LinearSVC": lambda: LinearSVC(max_iter=1000, random_state=0),
    "LinearSVC, hinge": lambda: LinearSVC(loss="hinge", max_iter=1000, random_state=0),
    "LogisticRegression": lambda: LogisticRegression(max_iter=100),
    "SVC, linear": lambda: SVC(kernel="linear", max_iter=100_000),
}
results = []
for name, make in machines.items():
    for scaled, (A, B) in {
        "raw columns": (X_train, X_test),
        "standardised": (Z_train, Z_test),
    }.items():
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            machine = make().fit(A, y_train)
        warned = any(issubclass(w.category, ConvergenceWarning) for w in raised)
        results.append(
            (name, scaled, sx.certify(machine, A, y_train).gap, warned, machine.score(B, y_test))
        )

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
for scaled, colour, shift in (("raw columns", "#d1603d", -0.18), ("standardised", "#4c72b0", 0.18)):
    part = [row for row in results if row[1] == scaled]
    places = np.arange(len(part)) + shift
    ax.barh(
        places,
        [max(row[2], 1e-9) for row in part],
        height=0.34,
        left=1e-10,
        color=colour,
        label=scaled,
    )
    for place, row in zip(places, part, strict=True):
        note = f" test accuracy {row[4]:.3f}" + (", warned" if row[3] else "")
        ax.text(max(row[2], 1e-9), place, note, va="center", fontsize="small")
_ = ax.set(
    xscale="log",
    xlim=(1e-10, 1e4),
    yticks=range(len(machines)),
    yticklabels=list(machines),
    xlabel="certified gap",
)
_ = figure.legend(loc="outside upper center", ncols=2)
ax.invert_yaxis()

# %% [markdown]
# Long bars without "warned" are what `certify` is for: the estimator said nothing. And the accuracy
# says little about the gap: a model far from its optimum can still classify well. It is the
# *comparison* of formulations that suffers: differences of a percent may be those of two solvers.
# Silent ones, with a gap above one in a thousand:

# %%
silent = [
    (name, scaled, f"{gap:.1e}")
    for name, scaled, gap, warned, _ in results
    if gap > 1e-3 and not warned
]
print(silent)

# %% [markdown]
# ## In a pipeline
#
# `certify` takes the data that the model itself saw: of a pipeline, the transformed data.

# %%
pipeline = make_pipeline(StandardScaler(), NuSVC(nu=0.1, tol=1e-8)).fit(X_train, y_train)
certificate = sx.certify(pipeline[-1], pipeline[:-1].transform(X_train), y_train)
assert certificate.is_certified(1e-6)
certificate

# %% [markdown]
# ## Several classes
#
# `SVC` trains a machine for each pair of classes, `LinearSVC` one for each class against the rest.
# Each has its part of the certificate; the widest shows where to look.

# %%
digits = sx.datasets.load("digits")
D, d = digits.X[: 300 if SMALL else None] / 16, digits.y[: 300 if SMALL else None]
pairs = sx.certify(SVC(C=10.0).fit(D, d), D, d).parts
table = np.full((10, 10), np.nan)
for (first, second), certificate in pairs.items():
    table[first, second] = table[second, first] = certificate.gap
figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
image = ax.imshow(np.log10(table), cmap="viridis")
figure.colorbar(image, ax=ax, label=r"$\log_{10}$ of the gap")
_ = ax.set(
    xticks=range(10),
    yticks=range(10),
    xlabel="class",
    ylabel="class",
    title="SVC at its default tolerance",
)
worst = max(pairs, key=lambda pair: pairs[pair].gap)
print(f"{len(pairs)} pairs; widest: {worst} with {pairs[worst]}")

# %% [markdown]
# ## The wrong labels
#
# A certificate is about a problem, and the problem has labels. If they are in another order, the
# multipliers of an `SVC` give it away. A model without multipliers has a wide gap although its
# solver was right.

# %%
mixed = np.sort(y_train)  # labels that were sorted, unlike their rows
try:
    sx.certify(SVC().fit(Z_train, y_train), Z_train, mixed)
except sx.DataError as error:
    refusal = error
print("SVC:", refusal)
certificate = sx.certify(LogisticRegression().fit(Z_train, y_train), Z_train, mixed)
print(f"LogisticRegression: gap {certificate.gap:.2g}.")
