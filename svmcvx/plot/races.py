"""Pictures of races: certified gaps over time, performance profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from svmcvx.certificate import EPS
from svmcvx.errors import DataError
from svmcvx.plot.style import DASHES, MARKERS, class_colours, drawing_axes, entitle, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["performance_profile", "race_curves"]

LAPS = ("solver", "seconds", "gap")


def _look(place: int) -> dict[str, Any]:
    return {"linestyle": DASHES[place % len(DASHES)], "drawstyle": "steps-post", "linewidth": 1.5}


def race_curves(laps: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the smallest certified gap that each solver has reached, over its time.

    Parameters
    ----------
    laps : DataFrame or Race
        Of one task, with the columns ``solver``, ``seconds`` and ``gap``, as
        :meth:`svmcvx.racing.Race.to_frame` has them.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Raises
    ------
    DataError
        If columns are missing, or there are several tasks.
    """
    frame = laps.to_frame() if hasattr(laps, "laps") else laps
    missing = [name for name in LAPS if name not in getattr(frame, "columns", ())]
    if missing or not len(frame):
        raise DataError(
            "laps must have rows with the columns solver, seconds and gap; missing:"
            f" {missing or 'all rows'}"
        )
    if "task" in frame.columns and frame["task"].nunique() > 1:
        raise DataError("laps must be those of one task, as in frame[frame['task'] == name]")
    ax = drawing_axes(ax)
    solvers = list(dict.fromkeys(frame["solver"]))
    for place, (colour, name) in enumerate(zip(class_colours(len(solvers)), solvers, strict=True)):
        own = frame[(frame["solver"] == name) & np.isfinite(frame["gap"])].sort_values("seconds")
        gaps = np.maximum(np.minimum.accumulate(own["gap"].to_numpy()), EPS)
        marker: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "markersize": 4}
        ax.plot(own["seconds"], gaps, color=colour, label=name, **marker, **_look(place))
    ax.set(xscale="log", yscale="log", xlabel="seconds", ylabel="certified gap")
    legend_below(ax)
    return entitle(ax, title)


def performance_profile(profile: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the shares of the tasks that solvers have solved within multiples of the best time.

    Parameters
    ----------
    profile : DataFrame
        See :meth:`svmcvx.racing.Race.profile`.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Raises
    ------
    DataError
        If there is nothing to draw.

    Notes
    -----
    Source: Dolan and Moré, Benchmarking optimization software with performance profiles, 2002.
    """
    if not len(getattr(profile, "columns", ())) or not len(profile):
        raise DataError(
            "profile must be a data frame with a column for each solver, as Race.profile(1e-6)"
            " returns"
        )
    ax = drawing_axes(ax)
    steps = profile.index.to_numpy()
    end = max(float(steps[-1]) * 1.5, 2.0)
    for place, (colour, name) in enumerate(
        zip(class_colours(profile.shape[1]), profile.columns, strict=True)
    ):
        shares = profile[name].to_numpy()
        ax.plot([*steps, end], [*shares, shares[-1]], color=colour, label=str(name), **_look(place))
    ax.set(
        xscale="log",
        xlim=(1.0, end),
        ylim=(-0.02, 1.02),
        xlabel=profile.index.name,
        ylabel="share of the tasks",
    )
    legend_below(ax)
    return entitle(ax, title)
