"""Milliseconds of a slider step of ``sx.explore`` in a notebook, and of what is computed while the
sliders rest.

``python benchmarks/explorer.py``: processor time of the whole process with one thread for linear
algebra, so that it does not depend on what else runs. A step goes to the neighbouring value of a
slider and shows its picture. While the sliders rest, guaranteed accuracy and the other values of
each slider are computed, one at a time, so that a step from there takes the picture only; a step
that comes before takes the fit, too. The first step of each slider loads compiled code, and is not
counted.
"""

import time

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import svmcvx as sx

ROWS, NOISE = 300, 0.25
MODELS = (
    "psvm:kernel=rbf",
    "psvm:p=1.5:kernel=rbf",
    "psvm",
    "odm:kernel=rbf",
    "conic",
    "conic:kernel=rbf",
)


def milliseconds(work):
    """Return the processor time that something takes."""
    began = time.process_time()
    work()
    return 1e3 * (time.process_time() - began)


def steps(explorer):
    """Yield name of the slider and milliseconds of fit, picture and guaranteed accuracy of each
    step.
    """
    for slider in explorer.sliders:
        if slider.is_choice:
            continue
        start, values = slider.start, slider.values
        for way in (values[start + 1 :], values[:start][::-1]):
            explorer.move(**{slider.name: values[start]})
            for number, value in enumerate(way):
                fit = milliseconds(
                    lambda name=slider.name, value=value: explorer.move(**{name: value})
                )
                if number:
                    yield (
                        slider.name,
                        fit,
                        milliseconds(explorer.picture.update),
                        milliseconds(lambda: explorer.guaranteed),
                    )
        explorer.move(**{slider.name: values[start]})


def main():
    X, y = make_moons(ROWS, noise=NOISE, random_state=0)
    print(f"{ROWS} rows, processor milliseconds: median (largest) of the steps of each slider")
    print(
        f"{'model':24} slider  steps  {'after a rest':>12} {'before':>12} |"
        f" {'fit and grid':>12} {'guarantee':>12}"
    )
    for name in MODELS:
        explorer = sx.explore(scale(X), y, name)
        explorer.picture.update()
        found = {}
        for slider, *parts in steps(explorer):
            found.setdefault(slider, []).append(parts)
        for slider, parts in found.items():
            fit, picture, guarantee = np.array(parts).T
            columns = [
                f"{np.median(part):.0f} ({part.max():.0f})"
                for part in (picture, fit + picture, fit, guarantee)
            ]
            print(
                f"{name:24} {slider:7} {len(parts):5}  {columns[0]:>12} {columns[1]:>12} |"
                f" {columns[2]:>12} {columns[3]:>12}",
                flush=True,
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
