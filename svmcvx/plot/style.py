"""What the pictures share: axes, colours, titles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svmcvx.errors import DataTypeError, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["NEGATIVE", "POSITIVE", "by_name", "class_colours", "drawing_axes", "drawing_panels", "entitle"]

NEGATIVE, POSITIVE = "#3b6fb6", "#d1603d"
# After the two of binary machines, hues that stay apart in print and for colour-blind readers.
HUES = (NEGATIVE, POSITIVE, "#4f8a5b", "#8e6bb0", "#c9a227", "#3fa7a3", "#b0567b", "#7a6a58", "#7f8c9b", "#5b5b5b")


def drawing_axes(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    return plt.subplots(figsize=(6.4, 4.8), layout="constrained")[1] if ax is None else ax


def drawing_panels(
    rows: int, columns: int, *, size: tuple[float, float], sharex: bool = False, sharey: bool = False
) -> tuple[Figure, Any]:
    """Return a new figure and its axes, an array of `rows` × `columns`, each of a width and height in inches."""
    figure: Any = drawing_axes(None).figure
    figure.clear()
    figure.set_size_inches(columns * size[0], rows * size[1])
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def by_name(given: Any) -> Mapping[str, Any]:
    """Return a mapping from names as it is, and anything else under the name of its type."""
    return given if isinstance(given, Mapping) else {type(given).__name__: given}


def class_colours(count: int) -> list[str]:
    """Return a colour a class; they repeat after ten."""
    return [HUES[k % len(HUES)] for k in range(count)]


def entitle(ax: Axes, title: str | None) -> Axes:
    """Set the title, if there is one, and return the axes."""
    if title is not None and not isinstance(title, str):
        raise DataTypeError(f"title must be a string, got {title!r}")
    if title:
        ax.set_title(title)
    return ax
