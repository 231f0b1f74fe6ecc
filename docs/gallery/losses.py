"""Losses of the signed margin.

The conic loss for three γ, among the losses that it is compared with.
"""

import matplotlib.pyplot as plt
import numpy as np

import svmcvx as sx

u = np.linspace(-2, 2, 401)
figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for name in ("slack", "ramp", "psi", "normalised_sigmoid", "rescaled_hinge", "zero_one"):
    ax.plot(u, getattr(sx.losses, name)(u), "--", label=name.replace("_", " "))
for gamma in (0.25, 1.0, 4.0):
    ax.plot(u, sx.losses.conic_loss(u, gamma, 1.0), linewidth=2.4, label=f"conic, γ = {gamma:g}")
ax.set(xlabel="margin u", ylabel="loss")
figure.legend(loc="outside right upper")
