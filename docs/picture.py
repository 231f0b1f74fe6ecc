"""Draw the picture of the README: ``python docs/picture.py`` writes ``docs/picture.png``."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import svmcvx as sx

rng = np.random.default_rng(0)
centres = np.array([[-1.0, 0.0]] * 25 + [[1.0, 0.0]] * 25 + [[-4.0, 2.0]] * 5)  # the last five are mislabelled
X = centres + rng.normal(scale=[0.45, 0.8], size=(55, 2)) * np.repeat([1.0, 0.4], [50, 5])[:, None]
y = np.repeat(["left", "right", "right"], [25, 25, 5])
machines = {
    "hinge (pSVM, p = 1)": sx.PSVMClassifier(C=1.0),
    "conic loss": sx.ConicSVMClassifier(lam=2.0),
    "exact 0-1 loss": sx.ZeroOneSVMClassifier(lam=2.0),
}

with mpl.rc_context({"font.size": 11}):
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.6), layout="constrained", sharex=True, sharey=True)
    for ax, (name, machine) in zip(axes, machines.items(), strict=True):
        bounds = machine.fit(X, y).certificate_
        title = f"{name}\noptimum {bounds.upper:.4f}, proved to {bounds.upper - bounds.lower:.0e}"
        sx.plot.decision_regions(machine, X, y, ax=ax, title=title)
    handles = axes[-1].get_legend().legend_handles
    for ax in axes:
        ax.get_legend().remove()
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize="small", frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, metadata={"Software": None})
