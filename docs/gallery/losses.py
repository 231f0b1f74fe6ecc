"""Losses of the signed margin.

The conic loss for three γ, among the losses that it is compared with.
"""

import matplotlib.pyplot as plt
import numpy as np

import svmcvx as sx

u = np.linspace(-2, 2, 401)
figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
hinge = sx.losses.slack(u)
compared = {
    "slack": hinge,
    "ramp": sx.losses.ramp(u),
    "psi": np.where(u < 0, 2.0, hinge),
    "normalised sigmoid": 1.0 - np.tanh(u),
    "rescaled hinge": np.expm1(-0.5 * hinge) / np.expm1(-0.5),
    "zero one": sx.losses.zero_one(u),
}
for name, values in compared.items():
    ax.plot(u, values, "--", label=name)
for gamma in (0.25, 1.0, 4.0):
    ax.plot(u, sx.losses.conic_loss(u, gamma, 1.0), linewidth=2.4, label=f"conic, γ = {gamma:g}")
ax.set(xlabel="margin u", ylabel="loss")
figure.legend(loc="outside right upper")
