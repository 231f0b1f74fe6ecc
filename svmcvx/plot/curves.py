"""Curves: losses, gaps against time, accuracy against the exponent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx import losses as functions
from svmcvx.certificate import EPS
from svmcvx.data import check_choice, check_number
from svmcvx.errors import DataError, DataTypeError
from svmcvx.plot.style import NEGATIVE, POSITIVE, by_name, class_colours, drawing_axes, entitle
from svmcvx.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["against_exponent", "gap_trace", "losses"]

Floats: TypeAlias = NDArray[np.float64]

POINTS = 1201
# A step between neighbours on the grid of margins that is a jump of the loss.
JUMP = 0.1
SHOWN = ("gap", "interval")
# Columns that hold accuracies, exponents and numbers of support vectors in the tables of this package.
ACCURACY = ("mean_test_score", "test_accuracy", "train_accuracy")
EXPONENT = ("p", "param_p")
SUPPORT = ("n_support", "mean_n_support")


def losses(
    gamma: Sequence[float] | float = (0.25, 1.0, 4.0), *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    r"""Draw the conic loss for some γ, with the losses that it is compared with, as functions of the margin u.

    The conic loss has λ = 1; the others are those of :mod:`svmcvx.losses`: 0-1, hinge, ramp, ψ, normalised sigmoid and
    rescaled hinge.

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
    given = gamma if isinstance(gamma, (Sequence, np.ndarray)) and not isinstance(gamma, str) else [gamma]
    values = [check_number(value, "gamma", low=0, open_low=True) for value in given]
    ax = drawing_axes(ax)
    u = np.linspace(-2.0, 2.0, POINTS)
    others = {
        "ramp": (functions.ramp, "#9ec9e2", "-", 3.2),
        "hinge": (functions.slack, "#3b6fb6", "-", 1.2),
        "ψ": (functions.psi, "#1b3a5c", (0, (2, 2)), 1.4),
        "normalised sigmoid": (functions.normalised_sigmoid, "#4f8a5b", "-", 1.4),
        "rescaled hinge": (functions.rescaled_hinge, "#8e6bb0", "-", 1.4),
    }
    for name, (loss, colour, style, width) in others.items():
        drawn = loss(u)
        # No line where a loss jumps.
        drawn[1:][np.abs(np.diff(drawn)) > JUMP] = np.nan
        ax.plot(u, drawn, linestyle=style, color=colour, linewidth=width, label=name)
    for depth, value in zip(np.linspace(0.0, 1.0, len(values)), values, strict=True):
        warm = tuple((1 - depth) * np.array([0.95, 0.68, 0.45]) + depth * np.array([0.70, 0.16, 0.10]))
        ax.plot(u, functions.conic_loss(u, value, 1.0), color=warm, linewidth=2.6, label=f"conic, γ = {value:g}")
    ax.plot(u[u < 1], functions.zero_one(u[u < 1]), color="black", linewidth=1.1, label="0-1")
    ax.plot(u[u >= 1], functions.zero_one(u[u >= 1]), color="black", linewidth=1.1)
    ax.set_xlabel("signed margin u")
    ax.set_ylabel("loss")
    ax.set_xlim(-2, 2)
    ax.set_ylim(-0.08, 2.6)
    ax.legend(loc="upper right", fontsize="small", framealpha=0.9)
    return entitle(ax, title)


def gap_trace(
    solutions: Mapping[str, Any] | Any, *, show: str = "gap", ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw how the interval around the optimum closed over time, for one or several solutions.

    Both bounds of a trace stay valid, so the best so far is drawn. A filled dot is the certificate, recomputed by the
    checker at the end.

    Parameters
    ----------
    solutions : mapping from str to Solution or fitted estimator
        Or one of these, named by its type. Those without a trace are drawn as their dot alone.
    show : "gap" or "interval"
        The relative gap on a logarithmic axis, or the interval itself as a band; its axis shows the values since the
        gap is ≤ ½.
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
        raise DataError(f"solutions must map names to Solutions or fitted estimators; not so: {wrong or 'it is empty'}")
    ax = drawing_axes(ax)
    narrow: list[float] = []
    for colour, (name, solution) in zip(class_colours(len(named)), named.items(), strict=True):
        seconds, lower, upper = _best_so_far(solution)
        gaps = (upper - lower) / np.maximum(1.0, np.abs(upper))
        if show == "gap":
            ax.plot(seconds, np.maximum(gaps, EPS), color=colour, linewidth=1.5, label=name, drawstyle="steps-post")
            if solution.certificate.lower is not None:
                ax.plot(seconds[-1], max(solution.certificate.gap, EPS), "o", color=colour, markersize=5)
            continue
        ax.fill_between(seconds, lower, upper, step="post", color=colour, alpha=0.25, linewidth=0)
        ax.plot(seconds, upper, color=colour, linewidth=1.4, label=name, drawstyle="steps-post")
        ax.plot(seconds, lower, color=colour, linewidth=1.4, drawstyle="steps-post")
        bounds = [solution.certificate.upper, solution.certificate.lower]
        known = [bound for bound in bounds if bound is not None]
        ax.plot([seconds[-1]] * len(known), known, "o", color=colour, markersize=4)
        narrow += [*known, *lower[gaps <= 0.5], *upper[gaps <= 0.5]]
    ax.set_xlabel("seconds")
    if show == "gap":
        ax.set_yscale("log")
        ax.set_ylabel("relative gap")
    else:
        ax.set_ylabel("interval that holds the optimum")
        # The first bounds of a solver can be off by orders of magnitude.
        low, high = min(narrow), max(narrow)
        pad = 0.05 * max(high - low, 1e-3 * max(abs(high), 1.0))
        ax.set_ylim(low - pad, high + pad)
    ax.legend(loc="upper right", fontsize="small", framealpha=0.9)
    return entitle(ax, title)


def _best_so_far(solution: Solution) -> tuple[Floats, Floats, Floats]:
    """Return seconds, the largest lower and the smallest upper bound so far; the end alone without a trace."""
    seconds, lower, upper = solution.trace.T
    if not seconds.size:
        low = solution.certificate.lower
        return (
            np.array([solution.timings.solve]),
            np.array([np.nan if low is None else low]),
            np.array([solution.certificate.upper]),
        )
    return seconds, np.fmax.accumulate(lower), np.fmin.accumulate(upper)


def against_exponent(
    results: Any,
    X: Any = None,
    y: Any = None,
    *,
    p: Any = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw accuracy and number of support vectors of pSVMs against the exponent p.

    Parameters
    ----------
    results : DataFrame, or sequence of Solutions or fitted estimators
        A table of :func:`svmcvx.compare` or ``svmcvx.select``, or any with such columns: an accuracy
        (``mean_test_score``, ``test_accuracy`` or ``train_accuracy``, the first found), ``n_support`` if there is one,
        and ``p`` or ``param_p``.
    X, y : array-like, optional
        Data for the accuracy of a sequence of models.
    p : sequence of float, optional
        The exponents, where the table or the models do not hold them.
    ax : Axes, optional
        The axis of the accuracy, a new figure by default; the number of support vectors has an axis of its own on the
        right.
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
    if hasattr(results, "columns") and (X is not None or y is not None):
        raise DataError("X and y are for models, whose accuracies they give; a table holds its own")
    exponents, accuracy, support, name = (
        _table(results, p) if hasattr(results, "columns") else _models(results, X, y, p)
    )
    if exponents.shape != accuracy.shape or not exponents.size:
        raise DataError(f"p must hold one exponent a result: {accuracy.size} results, {exponents.size} exponents")
    order = np.argsort(exponents, kind="stable")
    ax = drawing_axes(ax)
    lines = ax.plot(exponents[order], accuracy[order], "o-", color=NEGATIVE, linewidth=1.5, markersize=4, label=name)
    ax.set_xlabel("exponent p of the hinge")
    ax.set_ylabel(name, color=NEGATIVE)
    ax.tick_params(axis="y", colors=NEGATIVE)
    if support is not None:
        right = ax.twinx()
        lines += right.plot(
            exponents[order],
            support[order],
            "s--",
            color=POSITIVE,
            linewidth=1.3,
            markersize=4,
            label="support vectors",
        )
        right.set_ylabel("support vectors", color=POSITIVE)
        right.tick_params(axis="y", colors=POSITIVE)
        right.set_ylim(bottom=0)
    ax.legend(handles=lines, loc="best", fontsize="small", framealpha=0.9)
    return entitle(ax, title)


def _column(table: Any, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in table.columns), None)


def _table(table: Any, p: Any) -> tuple[Floats, Floats, Floats | None, str]:
    accuracy, support = _column(table, ACCURACY), _column(table, SUPPORT)
    exponent = _column(table, EXPONENT)
    if accuracy is None:
        raise DataError(f"the table has no column of accuracies; one of {', '.join(ACCURACY)} is needed")
    if exponent is None and p is None:
        raise DataError(f"the table has no column {' or '.join(EXPONENT)}; pass p, one exponent a row")
    return (
        np.asarray(table[exponent] if p is None else p, dtype=np.float64),
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
        raise DataError("results must be a table, or a sequence of Solutions or fitted estimators of this package")
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
