"""Milliseconds of a slider step of ``sx.explore`` in a notebook: fit and grid, picture, guaranteed accuracy; wall and processor time.

``python benchmarks/explorer.py`` on a quiet machine. Steps are to neighbouring values of C and then of p, none of them visited before.
"""

import time

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import scale

import svmcvx as sx

ROWS, NOISE = 300, 0.25


def steps(explorer):
    """Return wall and processor milliseconds of the three parts of each step, shape (steps, 3, 2)."""
    found = []
    for slider in explorer.sliders[:2]:
        for value in slider.values:
            explorer.move(**{slider.name: slider.values[slider.start]})
            marks = [(time.perf_counter(), time.process_time())]
            explorer.move(**{slider.name: value})
            marks.append((time.perf_counter(), time.process_time()))
            explorer.picture.update()
            marks.append((time.perf_counter(), time.process_time()))
            explorer.guaranteed  # noqa: B018
            marks.append((time.perf_counter(), time.process_time()))
            if value != slider.values[slider.start]:
                found.append(np.diff(marks, axis=0))
    return 1e3 * np.array(found)


def main():
    X, y = make_moons(ROWS, noise=NOISE, random_state=0)
    for name in ("psvm:kernel=rbf", "psvm:p=1.5:kernel=rbf", "psvm", "odm:kernel=rbf", "conic"):
        explorer = sx.explore(scale(X), y, name)
        explorer.picture.update()
        found = steps(explorer)
        print(f"{name}, {ROWS} rows, {len(found)} steps: median (largest) ms, wall | processor")
        for part, (wall, processor) in zip(
            ("fit and grid", "picture", "guarantee"), np.moveaxis(found, 0, 2), strict=True
        ):
            print(
                f"  {part:13} {np.median(wall):6.0f} ({wall.max():.0f})   | {np.median(processor):6.0f} ({processor.max():.0f})"
            )
        shown = found[:, :2].sum(axis=1)
        print(
            f"  shown         {np.median(shown[:, 0]):6.0f} ({shown[:, 0].max():.0f})   | {np.median(shown[:, 1]):6.0f} ({shown[:, 1].max():.0f})"
        )


if __name__ == "__main__":
    main()
