"""The exponent of the pSVM.

With a larger p more observations are support vectors, and the margins (dashed) reach further out.
"""

import matplotlib.pyplot as plt

import svmcvx as sx

moons = sx.datasets.load("moons")
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
for ax, p in zip(axes, (1.0, 1.5, 3.0), strict=True):
    machine = sx.PSVMClassifier(C=1.0, p=p, kernel="rbf").fit(moons.X, moons.y)
    title = f"p = {p:g}: {machine.model_.n_support} support vectors"
    sx.plot.decision_regions(machine, moons.X, moons.y, ax=ax, title=title)
