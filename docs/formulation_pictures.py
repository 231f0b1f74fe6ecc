"""The pictures at the head of the formulations' pages: the loss, the boundary, and a page whose
sliders move it.

``python docs/formulation_pictures.py FOLDER`` writes them; the build of the site does so by itself.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs, make_moons
from sklearn.preprocessing import scale

import svmcvx as sx
from svmcvx import losses
from svmcvx.formulations.multiclass.losses import LogisticSum
from svmcvx.plot.style import DASHES, NEGATIVE, POSITIVE

U = np.linspace(-2.0, 3.0, 1001)


def moons(n, noise):
    X, y = make_moons(n, noise=noise, random_state=3)
    return scale(X), np.where(y == 1, "right", "left")


def mislabelled():
    """Two groups, and five observations with the wrong label far on the left."""
    rng = np.random.default_rng(0)
    centres = np.array([[-1.0, 0.0]] * 25 + [[1.0, 0.0]] * 25 + [[-4.0, 2.0]] * 5)
    spread = rng.normal(scale=[0.45, 0.8], size=(55, 2)) * np.repeat([1.0, 0.4], [50, 5])[:, None]
    return centres + spread, np.repeat(["left", "right", "right"], [25, 25, 5])


def separate(n):
    X, y = make_blobs(n, centers=[[-1.5, 0], [1.5, 0.5]], cluster_std=0.7, random_state=2)
    return scale(X), np.where(y == 1, "right", "left")


def three(n):
    X, y = make_blobs(n, centers=[[0, 2], [-2, -1], [2, -1]], cluster_std=1.0, random_state=4)
    return scale(X), np.array(["top", "left", "right"])[y]


def odm(u, D=0.2):
    return np.maximum(1 - D - u, 0) ** 2 + np.maximum(u - 1 - D, 0) ** 2


def odml(u):
    return losses.slack(u) + 0.25 * (u - 1) ** 2 - 0.25 * (u - 1)


class Head(NamedTuple):
    """What a page begins with."""

    model: Any
    data: tuple[Any, Any]
    losses: dict[str, Callable[[Any], Any]]
    # Of the sliders; None for no page.
    values: dict[str, Any] | None
    margin: str = "margin u"


def weights(low, high, count=16):
    return np.logspace(low, high, count).round(6)


HEADS = {
    "psvm": Head(
        sx.PSVMClassifier(C=1.0, p=1.5, kernel="rbf"),
        moons(80, 0.25),
        {f"p = {p:g}": lambda u, p=p: losses.hinge_power(u, p) for p in (1, 1.5, 2, 3)},
        {
            "C": weights(-2, 3, 21),
            "p": [1.0, 1.25, 1.5, 2.0, 3.0],
            "kernel": ["linear", "rbf"],
            "gamma": [0.5],
        },
    ),
    "hard_margin": Head(
        sx.PSVMClassifier(C=np.inf, kernel="rbf"),
        separate(50),
        {"hard margin: u ≥ 1": lambda u: np.where(u < 1, np.nan, 0.0)},
        {"gamma": np.logspace(-2, 1, 16).round(4), "kernel": ["rbf"]},
    ),
    "conic": Head(
        sx.ConicSVMClassifier(lam=2.0),
        mislabelled(),
        {f"conic, γ = {g:g}": lambda u, g=g: losses.conic_loss(u, g, 1.0) for g in (0.25, 1, 4)}
        | {"0-1": losses.zero_one},
        {"lam": weights(-1, 2), "kernel": ["linear"]},
    ),
    "odm": Head(
        sx.ODMClassifier(C1=100.0, C2=100.0, D=0.2, kernel="rbf"),
        moons(80, 0.25),
        {"ODM, D = 0.2": odm, "hinge": losses.slack},
        {
            "C1": weights(0, 4, 9),
            "C2": weights(0, 4, 5),
            "D": [0.0, 0.2, 0.5, 0.8],
            "kernel": ["rbf"],
            "gamma": [0.5],
        },
    ),
    "odml": Head(
        sx.ODMLClassifier(C=100.0, lam1=0.25, lam2=0.25, kernel="rbf"),
        moons(80, 0.25),
        {"ODML, λ₁ = λ₂ = ¼, mean margin 1": odml, "hinge": losses.slack},
        {
            "C": weights(0, 3, 9),
            "lam1": [0.0, 0.25, 1.0, 4.0],
            "lam2": [0.0, 0.25, 1.0],
            "kernel": ["rbf"],
            "gamma": [0.5],
        },
    ),
    "zero_one": Head(
        sx.ZeroOneSVMClassifier(lam=2.0, time_limit=10),
        mislabelled(),
        {"0-1": losses.zero_one, "hinge": losses.slack},
        {"lam": weights(-1, 2, 13), "kernel": ["linear"]},
    ),
    "ramp": Head(
        sx.RampSVMClassifier(C=1.0, time_limit=10),
        mislabelled(),
        {"ramp": losses.ramp, "hinge": losses.slack},
        {"C": weights(-2, 1, 13), "kernel": ["linear"]},
    ),
    "l0": Head(
        sx.L0SVMClassifier(C=1.0, kernel="rbf", method="local"),
        moons(60, 0.25),
        {"l0-norm hinge": losses.zero_one, "hinge": losses.slack},
        None,
    ),
    "m3svm": Head(
        sx.M3SVMClassifier(lam=0.1, p=4.0),
        three(75),
        {
            "hinge": losses.slack,
            "smoothed, δ = 0.5": lambda u: 0.5 * (1 - u + np.hypot(1 - u, 0.5)),
            "logistic": lambda u: LogisticSum().value(u[:, None]),
        },
        {"lam": weights(-4, 1, 16), "p": [1.5, 2.0, 4.0, 8.0]},
        "difference of two scores",
    ),
    "multiclass": Head(
        sx.MulticlassSVMClassifier(loss="crammer_singer", lam=1.0),
        three(75),
        {"hinges": losses.slack, "logistic regression": lambda u: LogisticSum().value(u[:, None])},
        {
            "lam": weights(-2, 2, 13),
            "loss": ["weston_watkins", "crammer_singer", "msvm", "softmax"],
        },
        "difference of two scores",
    ),
}


def save(figure, path):
    figure.savefig(path, dpi=110, metadata={"Software": None})


def draw(name, folder):
    """Write the pictures of a formulation, its loss and its boundary, and its page with sliders."""
    head = HEADS[name]
    figure = Figure(figsize=(4.0, 3.9), layout="constrained")
    ax = figure.subplots()
    for k, (label, loss) in enumerate(head.losses.items()):
        colour = (POSITIVE, NEGATIVE, "#8811ff", "#666688")[k]
        ax.plot(U, loss(U), color=colour, linestyle=DASHES[k], label=label, linewidth=1.8)
    if name == "hard_margin":
        ax.axvspan(U[0], 1, color="0.85", label="not allowed")
    ax.set(xlabel=head.margin, ylabel="loss", xlim=(-2, 3), ylim=(-0.1, 3.2))
    ax.legend(fontsize="small", loc="upper right")
    save(figure, folder / f"{name}_1.png")
    figure = Figure(figsize=(5.4, 3.9), layout="constrained")
    sx.plot.decision_regions(head.model.fit(*head.data), *head.data, ax=figure.subplots())
    save(figure, folder / f"{name}_2.png")
    if head.values is not None:
        shown = sx.explore(*head.data, head.model, values=head.values)
        shown.save(folder / f"{name}.html")


if __name__ == "__main__":
    for name in HEADS:
        draw(name, Path(sys.argv[1]))
