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
# # A tour: one problem, one interval
#
# A solver says "optimal". svmcvx says *between which two numbers the true optimum lies*, and
# computes both of them from the data, for any solver. This page shows the whole package once: a
# problem, its interval, four formulations side by side, a comparison, a search, and a model of
# scikit-learn held to the same standard.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import scale
from sklearn.svm import SVC

import svmcvx as sx

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with fewer observations

moons = sx.datasets.load("moons")
X, y = scale(moons.X), moons.y
X.shape, moons.classes

# %% [markdown]
# ## A problem
#
# The pSVM raises the hinge loss to a power $p \ge 1$:
#
# $$\min_{w,\,b,\,\xi \ge 0}\ \tfrac12\|w\|^2 + C\sum_i \xi_i^p \quad\text{subject to}\quad
# y_i\bigl(\langle w, \varphi(x_i)\rangle + b\bigr) \ge 1 - \xi_i .$$
#
# A *builder* returns a formulation as a `cvxpy.Problem`: its variables and constraints have names,
# and $C$ is a parameter that may change without compiling again. This is the dual, which takes a
# kernel.

# %%
problem = sx.psvm_dual(X, y, C=1.0, p=1.5, kernel=sx.RBF())
list(problem.var_dict), list(problem.constraint_dict), list(problem.param_dict)

# %% [markdown]
# ## Its interval
#
# `solve` chooses a solver and checks what it returns. The upper end is the objective at the model,
# the lower end the dual objective at a dual point that was repaired until it is exactly feasible;
# weak duality puts the optimum between them.

# %%
solution = sx.solve(problem)
assert solution.certificate.lower <= solution.certificate.upper
assert solution.certificate.is_certified(1e-6)
solution.certificate

# %% [markdown]
# The interval does not depend on the solver being right. The specialised solver `sx.fast.psvm`
# closes its interval around the same optimum, and reports both ends as it works: if it is stopped
# early, its interval is wider, but still correct. The picture shows that on a harder problem, ODML
# on 1797 images of digits (odd against even): the relative gap for three values of C. A filled
# marker is the certificate: it may be wider than the last report, since it contains a bound on the
# rounding of the check.

# %%
fast = sx.fast.psvm(X, y, C=1.0, p=1.5, kernel=sx.RBF(), tol=1e-9)
assert abs(fast.certificate.upper - solution.certificate.upper) <= 1e-6 * solution.certificate.upper

digits = sx.datasets.load("digits")
odd = digits.y % 2
sx.fast.odml(scale(digits.X[:50]), odd[:50])  # compiles
hard = {
    f"C = {C:g}": sx.fast.odml(scale(digits.X), odd, C=C, tol=1e-9) for C in (1.0, 100.0, 10_000.0)
}
assert all(len(np.unique(solution.trace[:, 1])) > 3 for solution in hard.values())
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
_ = sx.plot.gap_trace(hard, ax=ax)

# %% [markdown]
# ## Four formulations of one question
#
# Most formulations here differ in how they price an observation on the wrong side. Below, one
# observation in ten is labelled +1 and lies in a cluster far on the side of the class −1. The hinge
# loss pays for the distance, and turns its boundary for the sake of the cluster. The 0-1 loss
# counts, and does not care how far; its conic relaxation comes close and can be solved at any size.
# The optimal margin distribution machine (ODM) asks all margins to be near 1, those of the outliers
# too.

# %%
A, labels = sx.synthetic.outlier_data(120, 2, sigma=0.2, outliers="clustered", seed=27)
models = {
    "pSVM, p = 1 (hinge)": sx.PSVMClassifier(C=1.0, p=1.0),
    "conic loss": sx.ConicSVMClassifier(lam=2.0),
    "exact 0-1 loss": sx.ZeroOneSVMClassifier(lam=2.0, time_limit=10),
    "ODM": sx.ODMClassifier(C1=10.0, C2=10.0, D=0.2, intercept=True),
}
figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained", sharex=True, sharey=True)
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    sx.plot.decision_regions(model.fit(A, labels), A, labels, ax=ax, title=name).set_aspect("equal")

# %% [markdown]
# The data are synthetic, so the best rule is known. The angle between each model and that rule says
# the same as the picture.

# %%
best = sx.synthetic.outlier_rule(2, seed=27).coef


def angle(coef):
    cosine = coef @ best / (np.linalg.norm(coef) * np.linalg.norm(best))
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


angles = {name: round(float(angle(np.ravel(model.coef_))), 1) for name, model in models.items()}
assert max(angles["exact 0-1 loss"], angles["conic loss"]) < 15 < angles["pSVM, p = 1 (hinge)"]
angles

# %% [markdown]
# ## A comparison that can be trusted
#
# `compare` fits any number of models on one split and puts the interval beside the accuracy: a row
# that is not certified was not solved, and its accuracy is that of another machine.

# %%
table = sx.compare(
    {f"p = {p:g}": sx.PSVMClassifier(p=p, kernel="rbf") for p in (1, 1.5, 3)} | {"LIBSVM": SVC()},
    X,
    y,
    seed=0,
)
assert table["certified"][:3].all()
table[["model", "lower", "upper", "gap", "certified", "accuracy", "n_support"]]

# %% [markdown]
# ## A search along a path
#
# `select` takes what `GridSearchCV` takes. Along $C$ each fit starts from the one before, and every
# fold of every candidate has its own interval.

# %%
found = sx.select(
    sx.PSVMClassifier(p=1.5, kernel="rbf"),
    {"C": np.logspace(-2, 2, 5 if SMALL else 15)},
    X,
    y,
    cv=5,
)
assert found["certified"].all()
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.errorbar(
    found["param_C"], found["mean_test_score"], found["std_test_score"], marker="o", capsize=3
)
ax.axvline(found.best_params_["C"], color="0.6", linestyle=":")
_ = ax.set(
    xscale="log",
    xlabel="C",
    ylabel="accuracy in cross-validation",
    title=f"best C = {found.best_params_['C']:.3g}",
)

# %% [markdown]
# ## Other people's models
#
# `certify` computes the interval of a machine that scikit-learn trained, from its own coefficients.
# A tolerance is a setting of a solver; the gap is what it achieved.

# %%
for tol in (1e-1, 1e-3, 1e-6):
    print(f"SVC(tol={tol:g}):", sx.certify(SVC(tol=tol).fit(X, y), X, y))

# %% [markdown]
# ## Where to go from here
#
# | page | question |
# | --- | --- |
# | [pSVM](02_psvm.py) | What does the exponent do? Which bias is the right one? |
# | [Conic loss](03_conic_loss.py) | What does a relaxation of the 0-1 loss mean? |
# | [ODM](04_odm.py) | What is gained by looking at all margins? |
# | [Several classes](05_several_classes.py) | How are several classes kept apart? |
# | [Exact 0-1 loss](06_exact_zero_one.py) | What the relaxation misses, and a checked proof |
# | [l0 and ADMM](07_l0_and_admm.py) | What is left when a method cycles? |
# | [Your own formulation](08_your_own_formulation.py) | How does a new loss get an interval? |
# | [Certify scikit-learn](09_certify_scikit_learn.py) | The gap of a trained model |
# | [Larger than memory](10_larger_than_memory.py) | And with rows that do not fit? |
