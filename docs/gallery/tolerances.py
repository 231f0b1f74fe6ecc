"""What a tolerance achieves.

The certified gap of scikit-learn's SVC against the tolerance that it was given.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

import svmcvx as sx

moons = sx.datasets.load("moons")
tolerances = np.logspace(0, -8, 17)
models = [SVC(C=10.0, tol=tol).fit(moons.X, moons.y) for tol in tolerances]
gaps = [sx.certify(model, moons.X, moons.y).gap for model in models]
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.loglog(tolerances, gaps, marker="o")
ax.loglog(tolerances, tolerances, color="0.6", linestyle=":", label="gap = tolerance")
ax.set(xlabel="tol of SVC", ylabel="certified relative gap")
ax.legend()
