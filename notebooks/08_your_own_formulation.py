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
# # Your own formulation
#
# A formulation that the package does not know gets `solve`, certificates, `compare` and `select`
# from a statement, a builder and an estimator, all of them outside the package. The example is the
# SVM with the Huber hinge, a hinge whose corner is rounded over a width $\delta$.
# `docs/add_formulation.md` does the same for the pinball loss, and says what changes inside the
# package.

# %%
import os
from dataclasses import dataclass

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import svmcvx as sx
from svmcvx.certificate.bounded import exact, positive_part, signed, square, total
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.problem import builder

SMALL = "SVMCVX_SMALL" in os.environ  # the tests run this page with less data

# %% [markdown]
# ## The mathematics
#
# With the shortfall $r = 1 - u$ the loss and its conjugate are
#
# $$L(r) = \begin{cases} 0 & r \le 0\\ r^2/2\delta & 0 \le r \le \delta\\ r - \delta/2 & r \ge
# \delta,\end{cases} \qquad C s\,L(r) = \max_{0 \le \alpha \le Cs}\ \alpha r -
# \frac{\delta\alpha^2}{2Cs},$$
#
# and exchanging the minimum over $w$ with the maximum over $\alpha$ gives, with a penalised
# intercept,
#
# $$\min_w\ \tfrac12\|w\|^2 + C\sum_i s_i L(1 - u_i) \;=\; \max_{0\le\alpha\le Cs}\ \sum_i\alpha_i
# - \frac{\delta}{2C}\sum_i\frac{\alpha_i^2}{s_i}
# - \tfrac12 v'Kv, \qquad v_i = \alpha_i y_i .$$
#
# As one formula for plain numbers and for those with an error bound, $L(r) = (r_+^2 -
# (r-\delta)_+^2)/2\delta$.
#
# A picture first, since a conjugate is where mistakes are made: the loss must be the upper envelope
# of its lines.


# %%
def huber(r, delta):
    return (square(positive_part(r)) - square(positive_part(r - delta))) / (2 * delta)


r, delta = np.linspace(-1, 2, 300), 0.8
lines = np.array([alpha * r - delta * alpha**2 / 2 for alpha in np.linspace(0, 1, 11)])

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(r, lines.T, color="0.75", linewidth=0.8)
ax.plot(r, huber(r, delta), color="#d1603d", linewidth=2.5, label=f"Huber hinge, δ = {delta:g}")
ax.plot(r, np.maximum(r, 0), color="#4c72b0", linestyle="--", label="hinge")
_ = ax.set(xlabel="shortfall r = 1 − u", ylabel="loss", ylim=(-0.3, 2))
_ = ax.legend()
fine = np.array([alpha * r - delta * alpha**2 / 2 for alpha in np.linspace(0, 1, 2001)])
assert np.abs(fine.max(axis=0) - huber(r, delta)).max() < 1e-6

# %% [markdown]
# ## The statement
#
# The statement is what the checker works with: the objective of any model, the dual objective of
# any point, and a
# *repair* that makes any point exactly feasible (here: clipping to the box). No solver appears in
# it. Scores and norms come with bounds on their rounding, and the operations of
# `svmcvx.certificate.bounded` carry these through each formula.


# %%
@dataclass(frozen=True, eq=False)
class HuberHinge(sx.BinaryStatement):
    C: float
    delta: float
    name = "huber_hinge"

    @property
    def hyperparameters(self):
        return {**super().hyperparameters, "C": self.C, "delta": self.delta}

    @property
    def price(self):
        return exact(self.C) * self.weight

    def evaluate(self, model):
        u = signed(self.y, self.space.scores(model))
        return 0.5 * self.space.squared_norm(model) + total(self.price * huber(1 - u, self.delta))

    def repair(self, dual):
        return {"alpha": np.clip(self.entry(dual, "alpha"), 0, self.price.lower)}

    def dual_violation(self, dual):
        return float(np.abs(self.entry(dual, "alpha") - self.repair(dual)["alpha"]).max())

    def evaluate_dual(self, dual):
        alpha = self.entry(dual, "alpha")
        cost = self.delta * square(exact(alpha)) / (2 * self.price)
        return total(alpha - cost) - 0.5 * self.space.point(alpha * self.y).squared_norm

    def model_of(self, variables):
        return None if variables["w"] is None else self.space.model_from_factor(variables["w"])

    def recover_from(self, variables, multipliers):
        return RecoveredPoints([self.model_of(variables)], [{"alpha": multipliers["shortfall"]}])


# %% [markdown]
# ## The builder
#
# The same problem for cvxpy. The Huber hinge is $\min_q\,q^2/2\delta + (r - q)_+$, so one
# constraint with a label is enough: its multipliers are $\alpha$. $C$ is a parameter, so that a
# path compiles once.


# %%
@builder
def huber_svm(X, y, *, C, delta, kernel=None, sample_weight=None, statement=HuberHinge):
    space = feature_space(binary_data(X, y, sample_weight), kernel, intercept="penalised")
    # K = LL'; without a kernel L is the data
    stated, L = statement(space, C=C, delta=delta), space.factor
    price = cp.Parameter(name="C", nonneg=True, value=C)
    w, xi, q = (
        cp.Variable(size, name=name)
        for size, name in zip((L.shape[1], *[L.shape[0]] * 2), "wxq", strict=True)
    )
    shortfall = (xi + q >= 1 - cp.multiply(stated.y, L @ w)).set_label("shortfall")
    loss = stated.weight @ xi + cp.sum_squares(cp.multiply(np.sqrt(stated.weight), q)) / (2 * delta)
    constraints = [shortfall, (xi >= 0).set_label("nonnegative")]
    return sx.FormulationProblem(
        cp.Minimize(0.5 * cp.sum_squares(w) + price * loss), constraints, stated, [price]
    )


# %% [markdown]
# ## It works
#
# `solve` chooses a solver, recovers models and dual points by the statement, and certifies the
# best.

# %%
X, y = sx.synthetic.outlier_data(60 if SMALL else 150, 2, sigma=0.5, seed=0)
problem = huber_svm(X, y, C=1.0, delta=0.5)
solution = sx.solve(problem)
assert solution.certificate.is_certified(1e-6)
solution.certificate

# %%
for problem.C.value in (0.1, 1.0, 10.0):
    print(f"C = {problem.C.value:g}:", sx.solve(problem).certificate)

# %% [markdown]
# ## Every dual point is a bound
#
# The cheapest test of a new statement: no random dual point may exceed the objective of any model.
# Random points, pulled towards the optimal one step by step; each becomes feasible by the repair.

# %%
stated = huber_svm(X, y, C=1.0, delta=0.5).formulation
rng = np.random.default_rng(0)
mix = np.linspace(0.6, 1, 60)
noise = rng.uniform(0, 1, (mix.size, y.size))
points = [
    stated.repair({"alpha": t * solution.dual["alpha"] + (1 - t) * e})
    for t, e in zip(mix, noise, strict=True)
]
bounds = np.array([stated.evaluate_dual(point).lower_end for point in points])
assert np.all(bounds <= solution.certificate.upper)

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(mix, bounds, "o", markersize=4, color="#4c72b0", label="dual objective of a repaired point")
ax.axhline(solution.certificate.upper, color="#d1603d", label="objective of the model")
_ = ax.set(
    xlabel="share of the optimal dual point",
    ylabel="value",
    ylim=(-5 * solution.certificate.upper, 2 * solution.certificate.upper),
)
_ = ax.legend()

# %% [markdown]
# ## A mistake is found out
#
# Suppose the derivation forgot the quadratic term of the conjugate, so that the dual is that of the
# plain hinge. The solver would not notice: it solves the primal problem. The checker does. A dual
# objective that is too large passes the objective of the model, and no certificate is made.


# %%
class Forgetful(HuberHinge):
    def evaluate_dual(self, dual):
        alpha = self.entry(dual, "alpha")
        return total(exact(alpha)) - 0.5 * self.space.point(alpha * self.y).squared_norm


try:
    sx.solve(huber_svm(X, y, C=1.0, delta=0.5, statement=Forgetful), solver="clarabel")
except sx.SvmcvxError as error:
    caught = error
assert isinstance(caught, sx.SvmcvxError)
print(type(caught).__name__, "-", caught)

# %% [markdown]
# ## An estimator
#
# Its `__init__` names the hyper-parameters and `_builder` the builder. Everything else is that of
# the package: several classes, class weights, sample weights, `compare`, `select`, pipelines.


# %%
class HuberClassifier(sx.estimators.BinaryClassifier):
    def __init__(self, *, C=1.0, delta=0.5, kernel=None, gamma="scale"):
        self.C, self.delta, self.kernel, self.gamma = C, delta, kernel, gamma

    def _builder(self):
        return huber_svm


models = {f"Huber, δ = {delta:g}": HuberClassifier(delta=delta) for delta in (0.1, 0.5, 2.0)}
table = sx.compare({"hinge": sx.PSVMClassifier(p=1.0), **models}, X, y, seed=0)
assert table["certified"].all()
table[["model", "upper", "gap", "accuracy"]]

# %% [markdown]
# What the width does is seen in the margins: the wider the round corner, the cheaper it is to stay
# below 1, and the smaller and closer together margins are.

# %%
fitted = {name: model.fit(X, y) for name, model in models.items()}
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
_ = sx.plot.margin_distribution(fitted, X, y, scale="none", ax=ax)
short = {
    name: float(np.mean(sx.theory.margins(model, X, y) < 1).round(2))
    for name, model in fitted.items()
}
assert list(short.values()) == sorted(short.values())
print("share of margins below 1:", short)

# %%
found = sx.select(HuberClassifier(kernel="rbf"), {"C": [0.1, 1.0], "delta": [0.1, 1.0]}, X, y, cv=3)
assert found["certified"].all()
found[["param_C", "param_delta", "mean_test_score", "gap", "certified"]]
