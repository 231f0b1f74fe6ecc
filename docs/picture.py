"""Draw the picture of the README: ``python docs/picture.py`` writes ``docs/picture.png``; the
site's home shows its left half, and three losses beside each other.

``make demo`` gives the name of another file, and prints the intervals.
"""

import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import SVC

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
COSTS = np.logspace(-2, 3, 11)
TRAINED_ON = {"digits, 3 and 8": "digits:3-8", "breast cancer": "breast_cancer"}


def draw(name, ax):
    """Draw one machine, with the interval around its optimum."""
    bounds = MACHINES[name].fit(X, y).certificate_
    title = f"{name}\noptimum {bounds.upper:.4f}, proved to {bounds.upper - bounds.lower:.0e}"
    sx.plot.decision_regions(MACHINES[name], X, y, ax=ax, title=title)


def gaps_of(C, rows, labels):
    """Return the certified gaps of scikit-learn's and of our own linear machine; a warning of
    either is an error, since the picture says that there is none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        svc = SVC(kernel="linear", C=C).fit(rows, labels)
        ours = sx.PSVMClassifier(kernel="linear", C=C).fit(rows, labels)
    return sx.certify(svc, rows, labels).gap, ours.certificate_.gap


def draw_gaps(ax):
    """Draw the certified gap of SVC at its default tolerance against C, and that of the package's
    own machine.
    """
    for colour, (label, name) in zip(("#dd5500", "#2277cc"), TRAINED_ON.items(), strict=True):
        data = sx.datasets.load(name)
        rows = scale(data.X)
        theirs, ours = zip(*(gaps_of(C, rows, data.y) for C in COSTS), strict=True)
        ax.loglog(COSTS, theirs, "o-", color=colour, ms=4, label=f"SVC: {label}")
        ax.loglog(COSTS, ours, "s--", color=colour, ms=4, label=f"svmcvx: {label}")
    tol = SVC().tol
    ax.axhline(tol, color="0.4", linestyle=":")
    ax.annotate(f"tol of SVC, {tol:g}", (COSTS[0], tol), xytext=(2, 3), textcoords="offset points")
    ax.set(xlabel="C", ylabel="proved relative gap", ylim=(1e-13, 3))
    ax.set_title('SVC(kernel="linear"), default tol, scaled columns:\nno warning at any C')
    ax.legend(fontsize="small", loc="lower right", frameon=False)


def draw_boundaries(ax):
    """Draw the boundaries of the hinge and of the exact 0-1 loss over each other."""
    for colour, marker, label in (("#2277cc", "o", "left"), ("#dd5500", "s", "right")):
        ax.scatter(*X[y == label].T, c=colour, marker=marker, s=14, label=label)
    grid = np.stack(np.meshgrid(np.linspace(-5, 2.5, 60), np.linspace(-2.2, 3, 60)), axis=-1)
    for colour, name in (("0.6", "hinge (pSVM, p = 1)"), ("k", "exact 0-1 loss")):
        bounds = MACHINES[name].fit(X, y).certificate_
        scores = MACHINES[name].decision_function(grid.reshape(-1, 2)).reshape(60, 60)
        ax.contour(grid[..., 0], grid[..., 1], scores, levels=[0], colors=colour, linewidths=2)
        error = f"{bounds.upper - bounds.lower:.0e}"
        ax.plot([], [], color=colour, lw=2, label=f"{name}, optimum proved to {error}")
    ax.set(xlabel="feature 0", ylabel="feature 1", ylim=(-4.6, 3))
    ax.set_title("five wrong labels turn the hinge loss,\nnot the 0-1 loss, solved exactly")
    ax.legend(fontsize="small", loc="lower left", frameon=False)


def draw_panels(folder):
    """Write each machine's panel, and the gaps of SVC, as pictures of their own."""
    for k, name in enumerate(MACHINES, start=1):
        figure = Figure(figsize=(3.6, 4.6), layout="constrained")
        draw(name, figure.subplots())
        figure.savefig(folder / f"home_{k}.png", dpi=110, metadata={"Software": None})
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    draw_gaps(figure.subplots())
    figure.savefig(folder / "gaps.png", dpi=110, metadata={"Software": None})


def main(target):
    """Write the picture of the README, and print the intervals that it begins with."""
    rows, labels = load_breast_cancer(return_X_y=True)
    svc = SVC(kernel="linear").fit(rows, labels)
    ours = sx.PSVMClassifier(kernel="linear").fit(rows, labels)
    print('SVC(kernel="linear") on breast_cancer, no warning. The optimum lies in')
    print("  scikit-learn:", sx.certify(svc, rows, labels))
    print("  svmcvx:      ", ours.certificate_)
    with mpl.rc_context({"font.size": 11}):
        figure = Figure(figsize=(10.5, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        draw_gaps(left)
        draw_boundaries(right)
        figure.savefig(target, dpi=110, metadata={"Software": None})
    print(f"written: {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"))
