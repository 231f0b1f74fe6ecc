# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # pSVM with certificates
#
# The soft-margin SVM with hinge loss to the power p, solved exactly, for several p. Every number below comes with an
# interval that contains the true optimum.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import scale

import svmcvx as sx

data = sx.datasets.load("moons")
X, y = scale(data.X), data.y

# %% [markdown]
# A builder returns a `cvxpy.Problem`: named variables, labelled constraints, the scalar C as a parameter.

# %%
problem = sx.psvm_dual(X, y, C=1.0, p=1.5, kernel=sx.RBF())
print(sorted(problem.var_dict), sorted(problem.constraint_dict), problem.cone)

# %% [markdown]
# `solve` chooses a solver, says what it tried, and certifies the answer.

# %%
solution = sx.solve(problem)
solution

# %% [markdown]
# A path over C re-solves the compiled problem.

# %%
path = []
for problem.C.value in np.logspace(-2, 2, 5):
    path.append(sx.solve(problem).to_dict())
[(round(row["C"], 2), row["n_support"], f"{row['gap']:.0e}") for row in path]

# %% [markdown]
# The exponent changes the machine: more support vectors as p grows, a smoother boundary.

# %%
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for ax, p in zip(axes, (1.0, 1.5, 3.0), strict=True):
    classifier = sx.PSVMClassifier(C=1.0, p=p, kernel="rbf").fit(X, y)
    sx.plot.decision_regions(classifier, X, y, ax=ax, title=f"p = {p}, gap {classifier.certificate_.gap:.0e}")

# %% [markdown]
# All of it in one table.

# %%
table = sx.compare({f"p = {p}": sx.PSVMClassifier(p=p, kernel="rbf") for p in (1.0, 1.5, 3.0)}, X, y)
assert table["certified"].all()
table
