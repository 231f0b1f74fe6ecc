"""Curves: gaps against time, and what is certified over a range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from svmcvx.arguments import documented
from svmcvx.certificate import EPS, relative_gap
from svmcvx.errors import DataError
from svmcvx.plot.style import (
    DASHES,
    MARKERS,
    by_name,
    class_colours,
    drawing_axes,
    entitle,
    ink,
    legend_below,
)
from svmcvx.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Parameters of certified paths that are no weights.
NOT_WEIGHTS = ("p", "gamma", "D")


@documented
def gap_trace(
    solutions: Mapping[str, Any] | Any, *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw how the interval around the optimum closed over time, for one or several solutions.

    Both bounds of a trace stay valid, so the best so far is drawn. A filled dot is the certificate,
    recomputed by the checker at the end.

    Parameters
    ----------
    solutions : mapping from str to Solution or fitted estimator
        Or one of these, named by its type. Those without a trace are drawn as their dot alone.

    Raises
    ------
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> import svmcvx as sx
    >>> sx.plot.gap_trace(sx.fast.psvm([[0.0], [1.0]], [0, 1])).get_ylabel()
    'relative gap'
    """
    named = {name: getattr(given, "solution_", given) for name, given in by_name(solutions).items()}
    wrong = [name for name, solution in named.items() if not isinstance(solution, Solution)]
    if wrong or not named:
        raise DataError(
            "solutions must map names to Solutions or fitted estimators; not so:"
            f" {wrong or 'it is empty'}"
        )
    ax = drawing_axes(ax)
    times: list[float] = []
    for place, (colour, (name, solution)) in enumerate(
        zip(class_colours(len(named)), named.items(), strict=True)
    ):
        seconds, lower, upper = solution.trace.T
        best = zip(np.fmax.accumulate(lower), np.fmin.accumulate(upper), strict=True)
        gaps = np.array([*(relative_gap(*ends) for ends in best), solution.certificate.gap])
        gaps[np.isinf(gaps)] = np.nan
        seconds = np.append(seconds, seconds[-1:] if seconds.size else solution.timings.solve)
        times += [float(seconds[seconds > 0].min(initial=np.inf)), float(seconds[-1])]
        look: dict[str, Any] = {"color": colour, "linestyle": DASHES[place % len(DASHES)]}
        look |= {"marker": MARKERS[place % len(MARKERS)], "markevery": [-1], "markersize": 5}
        look |= {"drawstyle": "steps-post", "linewidth": 1.5, "label": name}
        ax.plot(seconds, np.maximum(gaps, EPS), **look)
    spans = 0.0 < min(times) < max(times) / 8.0
    ax.set(xscale="log" if spans else "linear", xlabel="seconds")
    ax.set(yscale="log", ylabel="relative gap")
    legend_below(ax)
    return entitle(ax, title)


@documented
def certified_path(path: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the interval of the optimum over a certified path, with a dot at each solution.

    Where the parameter is a weight the vertical axis shows the optimum divided by it, so that
    several decades can be read in one picture.

    Parameters
    ----------
    path : CertifiedPath
        See :func:`svmcvx.certified_path`.

    Raises
    ------
    DataError
        If the path has no two solutions with an interval.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 2, sigma=0.5, seed=0)
    >>> path = sx.certified_path(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 1.0), eps=0.5)
    >>> sx.plot.certified_path(path).get_ylabel()
    'optimum / C'
    """
    values, name = path.values, path.parameters[0]
    weight = name not in NOT_WEIGHTS
    spaced = np.geomspace if weight or name == "gamma" else np.linspace
    places = np.clip(spaced(values[0], values[-1], 400), values[0], values[-1])
    lower, upper = path.bounds(places)
    ends = np.array([solution.certificate.upper for solution in path])
    ax = drawing_axes(ax)
    (colour,) = class_colours(1)
    if weight:
        lower, upper, ends = lower / places, upper / places, ends / values
    ax.fill_between(places, lower, upper, color=colour, alpha=0.35, linewidth=0)
    ax.plot(values, ends, color=colour, linestyle="none", marker="o", markersize=4)
    label = f"optimum / {name}" if weight else "optimum"
    ax.set(xlabel=" = ".join(path.parameters), ylabel=label, yscale="log")
    ax.set_xscale("log" if spaced is np.geomspace else "linear")
    return entitle(ax, title)


@documented
def certified_selection(found: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the proved band of errors of cross-validation over a range of C, and the values solved.

    Parameters
    ----------
    found : CertifiedSelection
        See :func:`svmcvx.certified_select`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(40, 2, sigma=0.5, seed=0)
    >>> found = sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 1.0), eps=0.5)
    >>> sx.plot.certified_selection(found).get_ylabel()
    'errors of 40'
    """
    pieces, values = found.pieces, found.values
    ends = np.append(pieces["low"].to_numpy(), pieces["high"].iloc[-1])
    least, most = (
        np.append(pieces[name].to_numpy(), pieces[name].iloc[-1]) for name in ("least", "most")
    )
    ax = drawing_axes(ax)
    colour, other = class_colours(2)
    ax.fill_between(
        ends, least, most, step="post", color=colour, alpha=0.35, linewidth=0, label="every C"
    )
    ax.step(ends, least, where="post", color=colour, linewidth=0.8)
    ax.step(ends, most, where="post", color=colour, linewidth=0.8)
    name = found.parameters[0]
    dots: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 4}
    ax.plot(values[name], values["most"], color=other, label="solved", **dots)
    ax.axhline(found.least, color=ink(), linewidth=0.8, linestyle=":", label="no C has fewer")
    ax.set(
        xscale="log", xlabel=" = ".join(found.parameters), ylabel=f"errors of {found.observations}"
    )
    legend_below(ax)
    return entitle(ax, title)
