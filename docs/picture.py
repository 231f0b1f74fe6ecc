"""Draw the picture of the README: ``python docs/picture.py`` writes ``docs/picture.png``; the
site's home shows its three panels.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import svmcvx as sx

rng = np.random.default_rng(0)
# the last five are mislabelled
centres = np.array([[-1.0, 0.0]] * 25 + [[1.0, 0.0]] * 25 + [[-4.0, 2.0]] * 5)
X = centres + rng.normal(scale=[0.45, 0.8], size=(55, 2)) * np.repeat([1.0, 0.4], [50, 5])[:, None]
y = np.repeat(["left", "right", "right"], [25, 25, 5])
MACHINES = {
    "hinge (pSVM, p = 1)": sx.PSVMClassifier(C=1.0),
    "conic loss": sx.ConicSVMClassifier(lam=2.0),
    "exact 0-1 loss": sx.ZeroOneSVMClassifier(lam=2.0),
}


def draw(name, ax):
    """Draw one machine, with the interval around its optimum."""
    bounds = MACHINES[name].fit(X, y).certificate_
    title = f"{name}\noptimum {bounds.upper:.4f}, proved to {bounds.upper - bounds.lower:.0e}"
    sx.plot.decision_regions(MACHINES[name], X, y, ax=ax, title=title)


def draw_panels(folder):
    """Write each machine's panel as a picture of its own."""
    for k, name in enumerate(MACHINES, start=1):
        figure = Figure(figsize=(3.6, 4.6), layout="constrained")
        draw(name, figure.subplots())
        figure.savefig(folder / f"home_{k}.png", dpi=110, metadata={"Software": None})


def main():
    """Write the picture of the README: all panels with one legend."""
    with mpl.rc_context({"font.size": 11}):
        figure, axes = plt.subplots(
            1, 3, figsize=(10.5, 4.6), layout="constrained", sharex=True, sharey=True
        )
        for ax, name in zip(axes, MACHINES, strict=True):
            draw(name, ax)
        handles = axes[-1].get_legend().legend_handles
        for ax in axes:
            ax.get_legend().remove()
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(handles),
            fontsize="small",
            frameon=False,
        )
        figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())
