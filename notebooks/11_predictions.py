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
# # What the exact machine predicts
#
# A certificate is an interval around the optimal *value*. What people publish are accuracies. This
# page asks what the optimal machine itself predicts, whether that says more than a solver's model,
# which of two machines is the better one, and which C is the best of all.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import scale
from sklearn.svm import SVC

import svmcvx as sx

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with less data

cancer = sx.datasets.load("breast_cancer")
rows = slice(0, 160 if SMALL else None)
X, y = scale(cancer.X[rows]), cancer.y[rows]
train, test = slice(None, None, 2), slice(1, None, 2)

# %% [markdown]
# ## Scores of every optimal machine
#
# `guarantee` returns intervals that contain the scores of *all* optimal machines, also where the
# optimal intercept is not unique. Where an interval has one sign the label is decided. The smaller
# the gap, the narrower they are.

# %%
tols = (1e-1, 1e-2, 1e-3, 1e-5, 1e-8)
guarantees = {}
for tol in tols:
    solution = sx.fast.psvm(X[train], y[train], C=10.0, p=1.0, kernel=sx.RBF("scale"), tol=tol)
    guarantees[tol] = sx.guarantee(solution, X[train], y[train])
    found = guarantees[tol].scores(X[test])
    accuracy = guarantees[tol].accuracy(X[test], y[test])
    print(f"tol {tol:g}: {found.undecided.sum():3d} undecided, accuracy {accuracy}")

# %%
order = np.argsort(guarantees[tols[-1]].scores(X[test]).lower)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, tol in zip(axes, (tols[1], tols[2]), strict=True):
    found = guarantees[tol].scores(X[test])
    ends = found.lower[order], found.upper[order]
    ax.fill_between(
        np.arange(order.size), *ends, step="mid", color="#3b6fb6", alpha=0.5, linewidth=0
    )
    ax.axhline(0.0, color="black", linewidth=0.8)
    _ = ax.set(
        title=f"tol {tol:g}: {found.undecided.sum()} undecided", xlabel="test rows", ylim=(-3, 3)
    )
_ = axes[0].set_ylabel("scores of all optimal machines")

# %% [markdown]
# The guarantee at the smallest gap is the reference: no interval of the others may exclude its
# scores.

# %%
reference = guarantees[tols[-1]].scores(X[test])
for tol in tols:
    found = guarantees[tol].scores(X[test])
    assert np.all(found.lower <= reference.upper)
    assert np.all(reference.lower <= found.upper)

# %% [markdown]
# ## Which machine is the better one?
#
# The difference of two accuracies on the same rows is an interval too. If it does not contain 0, no
# better solver will turn it around; it says nothing about other rows.


# %%
def exact(p):
    """The guarantee of a pSVM."""
    solution = sx.fast.psvm(X[train], y[train], C=10.0, p=p, kernel=sx.RBF("scale"), tol=1e-8)
    return sx.guarantee(solution, X[train], y[train])


machines = {p: exact(p) for p in (1.0, 1.5, 2.0)}
for p, machine in machines.items():
    difference = machine.compare(machines[1.0], X[test], y[test])
    print(
        f"p = {p}: accuracy {machine.accuracy(X[test], y[test])}, difference to p = 1: {difference}"
    )

# %% [markdown]
# ## In a table
#
# `compare` asks the same of each of its models. The model with a loose tolerance is scored as it
# is; beside it is what the optimum of the same problem scores. A problem whose gap leaves rows
# undecided is solved to a gap of 1e-12.

# %%
table = sx.compare(
    {
        "hinge": sx.PSVMClassifier(C=10.0, kernel="rbf"),
        "loose": sx.PSVMClassifier(C=10.0, tol=0.1),
        "odm": sx.ODMClassifier(kernel="rbf"),
        "conic": sx.ConicSVMClassifier(),
    },
    X,
    y,
    scale="none",
    guarantee=True,
)
assert (table["undecided"].dropna() == 0.0).all()
assert table["accuracy_lower"].notna().tolist() == [True, True, True, False]
table[["model", "gap", "accuracy", "accuracy_lower", "accuracy_upper", "undecided", "note"]]

# %% [markdown]
# The same holds of a choice. With `guarantee=True`, `select` says which settings may be the best by
# cross-validation: those with equal errors are tied, and which of them is taken is a rule, not a
# result.

# %%
found = sx.select(
    sx.PSVMClassifier(kernel="rbf"),
    {"C": [0.1, 1.0, 5.0, 10.0, 50.0]},
    X[train],
    y[train],
    cv=3,
    guarantee=True,
)
assert found.loc[found.best_index_, "may_be_best"]
found[
    ["param_C", "mean_test_score", "mean_test_score_lower", "mean_test_score_upper", "may_be_best"]
]

# %% [markdown]
# ## All C at once
#
# The optimum is a concave function of C. Between two solutions it lies above the chord of their
# lower bounds and below the lines of their models, so that finitely many solutions cover a whole
# range.

# %%
path = sx.certified_path(
    sx.PSVMClassifier(p=1.0, kernel="rbf"), X[train], y[train], C=(0.01, 100.0), eps=0.05
)
assert path.complete
print(path)
at = path.at(0.37)
print(f"at C = 0.37 the optimum is between {at.lower:.3f} and {at.upper:.3f}")
_ = path.plot()

# %% [markdown]
# ## The best C, proved
#
# Between two solutions each validation row is surely right, surely wrong or undecided for all C at
# once. The band below contains the number of cross-validation errors of the exact machine for
# *every* C; where it cannot reach below the best value found, nothing has to be solved any more.

# %%
best = sx.certified_select(
    sx.PSVMClassifier(p=1.0), X[train], y[train], C=(0.001, 10.0), cv=3 if SMALL else 5, eps=0.004
)
assert best.complete
print(best)
_ = best.plot()

# %% [markdown]
# ## A model that somebody else trained
#
# What `SVC` predicts at its default tolerance is nearly always what the exact machine predicts. A
# guarantee says where that is not known: rows on which its label is not the one that every optimal
# machine has.

# %%
svc = SVC(C=10.0, gamma=1.0 / (X[train].shape[1] * X[train].var()), tol=0.1).fit(X[train], y[train])
labels = guarantees[tols[-1]].scores(X[test]).labels
other = int(np.sum(svc.predict(X[test]) != labels))
print(f"SVC at tol 0.1: {other} of {len(labels)} labels are not those of the exact machine")
