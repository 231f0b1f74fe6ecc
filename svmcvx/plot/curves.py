"""Curves: losses, gaps against time, accuracy against the exponent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx import losses as functions
from svmcvx.certificate import EPS, relative_gap
from svmcvx.data import check_choice, check_number
from svmcvx.display import number
from svmcvx.errors import DataError, DataTypeError
from svmcvx.plot.style import (
    DASHES,
    MARKERS,
    NEGATIVE,
    POSITIVE,
    by_name,
    class_colours,
    drawing_axes,
    entitle,
    ink,
    legend_below,
    paper,
)
from svmcvx.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["against_exponent", "certified_path", "certified_selection", "gap_trace", "losses"]

Floats: TypeAlias = NDArray[np.float64]

POINTS = 1201
# Ratio of the last to the first time from which on the axis of time is logarithmic.
LONG_TRACE = 8.0
SHOWN = ("gap", "interval")
# Parameters of certified paths that are no weights.
NOT_WEIGHTS = ("p", "gamma", "D")
# Values at which a band over a parameter is drawn.
SHOWN_VALUES = 400
# Columns that hold accuracies, exponents and numbers of support vectors in the tables of this
# package.
ACCURACY = ("mean_test_score", "accuracy", "train_accuracy")
EXPONENT = ("p", "param_p")
SUPPORT = ("n_support", "mean_n_support")


def losses(
    gamma: Sequence[float] | float = (0.25, 1.0, 4.0),
    *,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    r"""Draw the conic loss for some γ, with the losses that it is compared with, as functions of
    the margin u.

    The conic loss has λ = 1; the others are those of :mod:`svmcvx.losses`: 0-1, hinge, ramp, ψ,
    normalised sigmoid and rescaled hinge.

    Parameters
    ----------
    gamma : sequence of float, or float
        Positive parameters of the conic loss.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Notes
    -----
    Source: [CepedaGomezHan], Figure 1, in one picture.
    """
    given = (
        gamma
        if isinstance(gamma, (Sequence, np.ndarray)) and not isinstance(gamma, str)
        else [gamma]
    )
    values = [check_number(value, "gamma") for value in given]
    ax = drawing_axes(ax)
    from matplotlib.colors import to_rgb

    u = np.linspace(-2.0, 2.0, POINTS)
    hues = class_colours(6)
    others = {
        "hinge": (functions.slack, hues[0], DASHES[0], 1.4),
        "ramp": (functions.ramp, hues[0], DASHES[1], 2.2),
        "ψ": (functions.psi, hues[2], DASHES[2], 1.6),
        "normalised sigmoid": (functions.normalised_sigmoid, hues[4], DASHES[3], 1.4),
        "rescaled hinge": (functions.rescaled_hinge, hues[5], DASHES[4], 1.4),
    }
    for name, (loss, colour, style, width) in others.items():
        ax.plot(u, loss(u), linestyle=style, color=colour, linewidth=width, label=name)
    for depth, value in zip(np.linspace(0.6, 1.0, len(values)), values, strict=True):
        shade = (1 - depth) * np.array(to_rgb(paper(ax))) + depth * np.array(to_rgb(POSITIVE))
        ax.plot(
            u,
            functions.conic_loss(u, value, 1.0),
            color=shade,
            linewidth=2.4,
            label=f"conic, γ = {value:g}",
        )
    ax.plot(u, functions.zero_one(u), color=ink(), linewidth=1.1, label="0-1")
    ax.set_xlabel("margin u")
    ax.set_ylabel("loss")
    ax.set_xlim(-2, 2)
    ax.set_ylim(-0.08, 3.1)
    legend_below(ax)
    return entitle(ax, title)


def gap_trace(
    solutions: Mapping[str, Any] | Any,
    *,
    show: str = "gap",
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw how the interval around the optimum closed over time, for one or several solutions.

    Both bounds of a trace stay valid, so the best so far is drawn. A filled dot is the certificate,
    recomputed by the checker at the end.

    Parameters
    ----------
    solutions : mapping from str to Solution or fitted estimator
        Or one of these, named by its type. Those without a trace are drawn as their dot alone.
    show : "gap" or "interval"
        The relative gap on a logarithmic axis, or the interval itself as a band; its axis shows the
        values since the gap is ≤ ½.
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
    """
    check_choice(show, "show", SHOWN)
    named = {name: getattr(given, "solution_", given) for name, given in by_name(solutions).items()}
    wrong = [name for name, solution in named.items() if not isinstance(solution, Solution)]
    if wrong or not named:
        raise DataError(
            "solutions must map names to Solutions or fitted estimators; not so:"
            f" {wrong or 'it is empty'}"
        )
    ax = drawing_axes(ax)
    from matplotlib.lines import Line2D

    narrow: list[float] = []
    times: list[float] = []
    handles: list[Any] = []
    for place, (colour, (name, solution)) in enumerate(
        zip(class_colours(len(named)), named.items(), strict=True)
    ):
        seconds, lower, upper = _best_so_far(solution)
        gaps = np.array([relative_gap(*ends) for ends in zip(lower, upper, strict=True)])
        gaps[np.isinf(gaps)] = np.nan
        times += [float(seconds[seconds > 0].min(initial=np.inf)), float(seconds[-1])]
        look: dict[str, Any] = {
            "color": colour,
            "linestyle": DASHES[place % len(DASHES)],
            "drawstyle": "steps-post",
        }
        dot: dict[str, Any] = {
            "color": colour,
            "linestyle": "none",
            "marker": MARKERS[place % len(MARKERS)],
        }
        ends: dict[str, Any] = (
            {} if solution.certificate.lower is None else {"marker": dot["marker"], "markersize": 4}
        )
        handles.append(
            Line2D([], [], color=colour, linestyle=look["linestyle"], label=name, **ends)
        )
        if show == "gap":
            ax.plot(seconds, np.maximum(gaps, EPS), linewidth=1.5, label=name, **look)
            if solution.certificate.lower is not None:
                ax.plot(seconds[-1:], [max(solution.certificate.gap, EPS)], markersize=5, **dot)
            continue
        ax.fill_between(seconds, lower, upper, step="post", color=colour, alpha=0.25, linewidth=0)
        ax.plot(seconds, upper, linewidth=1.4, label=name, **look)
        ax.plot(seconds, lower, linewidth=1.4, **look)
        bounds = [solution.certificate.upper, solution.certificate.lower]
        known = [bound for bound in bounds if bound is not None]
        ax.plot([seconds[-1]] * len(known), known, markersize=4, **dot)
        narrow += [*known, *lower[gaps <= 0.5], *upper[gaps <= 0.5]]
    _time_axis(ax, min(times), max(times))
    if show == "gap":
        ax.set_yscale("log")
        ax.set_ylabel("relative gap")
    else:
        ax.set_ylabel("interval of the optimum")
        # The first bounds of a solver can be off by orders of magnitude.
        low, high = min(narrow), max(narrow)
        pad = 0.05 * max(high - low, 1e-3 * max(abs(high), 1.0))
        ax.set_ylim(low - pad, high + pad)
    legend_below(ax, handles)
    return entitle(ax, title)


def _time_axis(ax: Axes, first: float, last: float) -> None:
    """Label the seconds, on a logarithmic axis where they span some."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    ax.set_xlabel("seconds")
    if not 0.0 < first < last / LONG_TRACE:
        ax.xaxis.set_major_locator(MaxNLocator(4))
        return
    ax.set_xscale("log")
    # Several labels for each decade if there are few decades.
    steps = (1.0, 3.0) if last / first < 1e3 else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=steps, numticks=6))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))


def _best_so_far(solution: Solution) -> tuple[Floats, Floats, Floats]:
    """Return seconds, the largest lower and the smallest upper bound so far; the end alone without
    a trace.
    """
    seconds, lower, upper = solution.trace.T
    if not seconds.size:
        low = solution.certificate.lower
        return (
            np.array([solution.timings.solve]),
            np.array([np.nan if low is None else low]),
            np.array([solution.certificate.upper]),
        )
    return seconds, np.fmax.accumulate(lower), np.fmin.accumulate(upper)


def certified_path(path: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the interval of the optimum over the range of a certified path, with a dot at each
    solution.

    Where the parameter is a weight the vertical axis shows the optimum divided by it, so that
    several decades can be read in one picture.

    Parameters
    ----------
    path : CertifiedPath
        See :func:`svmcvx.certified_path`.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Raises
    ------
    DataError
        If the path has no two solutions with an interval.
    """
    values, name = path.values, path.parameters[0]
    weight = name not in NOT_WEIGHTS
    spaced = np.geomspace if weight or name == "gamma" else np.linspace
    places = np.clip(spaced(values[0], values[-1], SHOWN_VALUES), values[0], values[-1])
    lower, upper = path.bounds(places)
    ends = np.array([solution.certificate.upper for solution in path])
    ax = drawing_axes(ax)
    (colour,) = class_colours(1)
    ax.fill_between(
        places,
        *(end / places if weight else end for end in (lower, upper)),
        color=colour,
        alpha=0.35,
        linewidth=0,
    )
    ax.plot(
        values,
        ends / values if weight else ends,
        color=colour,
        linestyle="none",
        marker="o",
        markersize=4,
    )
    ax.set(
        xlabel=" = ".join(path.parameters),
        ylabel=f"optimum / {name}" if weight else "optimum",
        yscale="log",
    )
    ax.set_xscale("log" if spaced is np.geomspace else "linear")
    return entitle(ax, title)


def certified_selection(found: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the band of errors of cross-validation that is proved over a range of C, and the values
    that were solved.

    Parameters
    ----------
    found : CertifiedSelection
        See :func:`svmcvx.certified_select`.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes
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
    ax.plot(
        values[name],
        values["most"],
        color=other,
        linestyle="none",
        marker=".",
        markersize=4,
        label="solved",
    )
    ax.axhline(found.least, color=ink(), linewidth=0.8, linestyle=":", label="no C has fewer")
    ax.set(
        xscale="log", xlabel=" = ".join(found.parameters), ylabel=f"errors of {found.observations}"
    )
    legend_below(ax)
    return entitle(ax, title)


def against_exponent(
    results: Any,
    X: Any = None,
    y: Any = None,
    *,
    p: Any = None,
    by: str | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw accuracy and number of support vectors of pSVMs against the exponent p.

    Parameters
    ----------
    results : DataFrame, or sequence of Solutions or fitted estimators
        A table of :func:`svmcvx.compare` or ``svmcvx.select``, or any with such columns: an
        accuracy (``mean_test_score``, ``accuracy`` or ``train_accuracy``, the first found),
        ``n_support`` if there is one, and ``p`` or ``param_p``. A table of ``compare`` knows the
        exponents of its pSVMs; other models are left out.
    X, y : array-like, optional
        Data for the accuracy of a sequence of models.
    p : sequence of float, optional
        The exponents, where the table or the models do not hold them.
    by : str, optional
        A column, or another hyper-parameter of a search such as ``"C"``: a line for each of its
        values. By default there is one line. Of several results with the same p that of the highest
        accuracy counts, of equal ones the first.
    ax : Axes, optional
        The axis of the accuracy, a new figure by default; the number of support vectors has a
        second axis on the right.
    title : str, optional

    Returns
    -------
    Axes
        That of the accuracy.

    Raises
    ------
    DataError
        If exponents or accuracies cannot be found.
    """
    if p is not None:
        try:
            p = np.asarray(p, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataTypeError(f"p must be numbers, one exponent a result, got {p!r}") from None
    if by is not None and not isinstance(by, str):
        raise DataTypeError(f"by must be the name of a column or of a hyper-parameter, got {by!r}")
    is_table = hasattr(results, "columns")
    if is_table and (X is not None or y is not None):
        raise DataError("X and y are for models, whose accuracies they give; a table holds its own")
    exponents, accuracy, support, name = (
        _table(results, p) if is_table else _models(results, X, y, p)
    )
    if exponents.shape != accuracy.shape or not exponents.size:
        raise DataError(
            f"p must hold one exponent a result: {accuracy.size} results,"
            f" {exponents.size} exponents"
        )
    groups = _groups(results, by, exponents.size, is_table=is_table)
    ax = drawing_axes(ax)
    right = None if support is None else ax.twinx()
    colours = class_colours(len(groups)) if by is not None else [NEGATIVE]
    best_note = False
    for place, (colour, (label, rows)) in enumerate(zip(colours, groups.items(), strict=True)):
        chosen = _best_of_each(exponents, accuracy, rows)
        best_note = best_note or chosen.size < np.isfinite(exponents[rows] + accuracy[rows]).sum()
        marker = MARKERS[place % len(MARKERS)]
        ax.plot(
            exponents[chosen],
            accuracy[chosen],
            linestyle="-",
            marker=marker,
            color=colour,
            linewidth=1.5,
            markersize=4,
            label=name if by is None else f"{by.removeprefix('param_')} = {label}",
        )
        if right is not None and support is not None:
            right.plot(
                exponents[chosen],
                support[chosen],
                linestyle=(0, (3, 2)),
                marker=marker,
                markerfacecolor="none",
                color=POSITIVE if by is None else colour,
                linewidth=1.2,
                markersize=4,
                label="support vectors" if by is None else "_",
            )
    ax.set_xlabel("exponent p of the hinge")
    several = by is not None and right is not None
    ax.set_ylabel(
        f"{name}{', the best of each p' if best_note else ''}{' (solid)' if several else ''}"
    )
    handles = list(ax.lines)
    if right is not None:
        right.set_ylabel(f"support vectors{' (dashed)' if several else ''}")
        right.set_ylim(bottom=0)
        handles += [line for line in right.lines if not str(line.get_label()).startswith("_")]
    if by is None:
        ax.yaxis.label.set_color(NEGATIVE)
        ax.tick_params(axis="y", colors=NEGATIVE)
        if right is not None:
            right.yaxis.label.set_color(POSITIVE)
            right.tick_params(axis="y", colors=POSITIVE)
    legend_below(ax, handles)
    return entitle(ax, title)


def _groups(
    results: Any, by: str | None, size: int, *, is_table: bool
) -> dict[str, NDArray[np.intp]]:
    """Return the rows of each value of a column, or all of them."""
    if by is None:
        return {"": np.arange(size)}
    names = [name for name in (by, f"param_{by}") if is_table and name in results.columns]
    if not names:
        raise DataError(
            f"by must be a column of the table or a hyper-parameter of the search, got {by!r}"
        )
    values = [number(value) for value in results[names[0]]]
    return {
        value: np.array([i for i, other in enumerate(values) if other == value])
        for value in dict.fromkeys(values)
    }


def _best_of_each(exponents: Floats, accuracy: Floats, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return, in the order of the exponents, the row of the highest accuracy for each."""
    best: dict[float, int] = {}
    for row in rows[np.isfinite(exponents[rows]) & np.isfinite(accuracy[rows])].tolist():
        held = best.get(float(exponents[row]))
        if held is None or accuracy[row] > accuracy[held]:
            best[float(exponents[row])] = row
    return np.array([best[exponent] for exponent in sorted(best)], dtype=np.intp)


def _column(table: Any, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in table.columns), None)


def _exponents(table: Any) -> Any:
    """Return the exponents of a table's rows, NaN for models that have none."""
    exponent = _column(table, EXPONENT)
    if exponent is not None:
        return table[exponent]
    known = table.attrs.get("exponents", {})
    if "model" not in table.columns or not any(name in known for name in table["model"]):
        raise DataError(
            f"the table has no column {' or '.join(EXPONENT)}; pass p, one exponent a row"
        )
    return [known.get(name, np.nan) for name in table["model"]]


def _table(table: Any, p: Any) -> tuple[Floats, Floats, Floats | None, str]:
    accuracy, support = _column(table, ACCURACY), _column(table, SUPPORT)
    if accuracy is None:
        raise DataError(
            f"the table has no column of accuracies; one of {', '.join(ACCURACY)} is needed"
        )
    return (
        np.asarray(_exponents(table) if p is None else p, dtype=np.float64),
        np.asarray(table[accuracy], dtype=np.float64),
        None if support is None else np.asarray(table[support], dtype=np.float64),
        accuracy.replace("_", " "),
    )


def _models(models: Any, X: Any, y: Any, p: Any) -> tuple[Floats, Floats, Floats, str]:
    if X is None or y is None:
        raise DataError("X and y are needed for the accuracy of models; pass the data")
    if not isinstance(models, Iterable) or isinstance(models, (str, bytes, type)):
        raise DataTypeError(f"results must be a table or a sequence of models, got {models!r}")
    solutions: list[Any] = [getattr(model, "solution_", model) for model in models]
    if not all(isinstance(solution, Solution) for solution in solutions):
        raise DataError(
            "results must be a table, or a sequence of Solutions or fitted estimators of this"
            " package"
        )
    known = [solution.hyperparameters.get("p") for solution in solutions] if p is None else p
    if any(value is None for value in known):
        raise DataError("a solution does not know its exponent; pass p, one exponent a model")
    labels = np.asarray(y)
    accuracy = [float(np.mean(solution.model.predict(X) == labels)) for solution in solutions]
    return (
        np.array(known, dtype=np.float64),
        np.array(accuracy),
        np.array([solution.model.n_support for solution in solutions], dtype=np.float64),
        "accuracy",
    )
