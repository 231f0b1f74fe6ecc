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
# # Relaxations of the 0-1 loss, beside the proved optimum
#
# A branch and bound is as good as its bound at the root. Papers on exact formulations print a table
# of root gaps; here every number of it is the end of a certificate, the optimum included.

# %%
import os

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import scale

import svmcvx as sx

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with less data

# %% [markdown]
# ## The relaxation is one argument
#
# The program $\min \|w\|^2 + \lambda\sum_i z_i$ with $u_i \ge 1 - M_i z_i$ and $z_i \in \{0, 1\}$
# is relaxed to $z_i \in [0, 1]$. Then the best $z_i$ is $(1 - u_i)_+/M_i$: a hinge loss of its own
# cost for each observation. The builder's problem is one of cvxpy; `sx.solve` adds the interval.

# %%
X, y = sx.synthetic.outlier_data(40, 2, sigma=0.3, outliers="spread", seed=1)
LAM = 2.0
problem = sx.zero_one_mio(X, y, lam=LAM, relax=True)
relaxed = sx.solve(problem).certificate
w, b = cp.Variable(2), cp.Variable()
losses = cp.multiply(1 / problem.M, cp.pos(1 - cp.multiply(y, X @ w + b)))
by_hand = cp.Problem(cp.Minimize(cp.sum_squares(w) + b**2 + LAM * cp.sum(losses)))
print(f"weighted hinge, by hand: {by_hand.solve(solver='CLARABEL'):.6f}")
print(f"relaxation: [{relaxed.lower:.6f}, {relaxed.upper:.6f}]")
assert relaxed.gap < 1e-6

# %% [markdown]
# Bounds with the M that the builder proves, with multiples of them, and in the perspective form,
# which needs none, at $\gamma_i \propto 1/\|x_i\|^2$ and at the γ of the conic relaxation.

# %%
exact = sx.fast.zero_one(X, y, lam=LAM).certificate
forms = {f"M × {factor}": {"M": factor * problem.M} for factor in (1, 2, 10, 100)}
forms |= {
    f"perspective, γ: {name}": {"form": "perspective", "gamma": name} for name in ("norms", "best")
}
roots = {
    name: sx.solve(sx.zero_one_mio(X, y, lam=LAM, relax=True, **form)).certificate
    for name, form in forms.items()
}
for name, certificate in roots.items():
    assert certificate.lower <= exact.upper
    print(
        f"{name:22} {certificate.lower:8.4f}  {certificate.lower / exact.upper:6.1%} of the optimum"
    )

# %% [markdown]
# ## The table
#
# Five sets of two to five columns, so few that the search proves the optimum.


# %%
def two_classes(name, columns, keep=lambda label: label < 2):
    data = sx.datasets.load(name)
    codes = np.searchsorted(data.classes, data.y)
    rows = np.flatnonzero(keep(codes))[: 60 if SMALL else 200]
    return scale(np.asarray(data.X)[rows][:, columns]), codes[rows]


clustered = sx.synthetic.outlier_data(60, 2, sigma=0.3, outliers="clustered", seed=1)
sets = {
    "clustered outliers": clustered,
    "moons": two_classes("moons", slice(2)),
    "iris": two_classes("iris", slice(4), keep=lambda label: label > 0),
    "wine": two_classes("wine", [1, 2, 9, 10]),
    "breast cancer": two_classes("breast_cancer", slice(5)),
}
tables = {name: sx.relaxation_gaps(*data, lam=[1.0, 4.0]) for name, data in sets.items()}
table = pd.concat(tables, names=["data"])
assert np.allclose(table["at_least"], table["optimum"], rtol=1e-5)
table.round(2)

# %% [markdown]
# Gaps are those of [CepedaGomezHan]: $100\,(\zeta - \zeta_{\text{relaxed}})/\zeta$ percent. One M
# for all observations is far behind, since the farthest outlier sets it. The conic relaxation is
# the best perspective one; which of big-M and perspective is ahead at
# $\gamma_i \propto 1/\|x_i\|^2$ depends on the data. Partitions are no convex relaxation: each of B
# blocks of the observations has its own machine, at the price Bλ, and the mean of their optima,
# which smaller searches prove, is below that of one machine for all.

# %% tags=["hide-input"]
kinds = ["hinge", "big_m", "perspective", "conic", "partition"]
gaps = table.xs(1.0, level="lam")[[f"{kind}_gap" for kind in kinds]]
assert (gaps["conic_gap"] <= gaps["perspective_gap"] + 1e-3).all()
assert (gaps["big_m_gap"] <= gaps["hinge_gap"] + 1e-3).all()
assert gaps["partition_gap"].dropna().between(0, 50).all()
figure, ax = plt.subplots(figsize=(7.4, 3.6), layout="constrained")
gaps.rename(columns=lambda name: name.removesuffix("_gap").replace("_", "-")).plot.bar(
    ax=ax, rot=0, color=["0.7", "#dd8452", "#55a868", "#4c72b0", "#8172b3"]
)
_ = ax.set(xlabel="", ylabel="gap at the root, percent", ylim=(0, 100))
_ = ax.legend(ncols=5, fontsize="small")
