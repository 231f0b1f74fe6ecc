"""What the pictures share: axes, colours, legends, titles.

Colours that carry a meaning have a contrast of at least 3 with white and with black, and stay apart
for readers with any of the three colour deficiencies; markers and dashes tell them apart too.
Everything else takes the colours of matplotlib's style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from svmcvx.errors import DataTypeError, optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEGATIVE, POSITIVE = "#2277cc", "#dd5500"
# In an order in which the first few are the furthest apart.
HUES = (NEGATIVE, POSITIVE, "#8811ff", "#bb8888", "#666688", "#995533", "#ff11ee", "#33aa33")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (8, 2, 1, 2, 1, 2)))


def drawing_axes(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    pyplot = optional("matplotlib.pyplot", "plot")
    return pyplot.subplots(figsize=(6.4, 4.8), layout="constrained")[1] if ax is None else ax


def by_name(given: Any) -> Mapping[str, Any]:
    """Return a mapping from names as it is, and anything else under the name of its type."""
    return given if isinstance(given, Mapping) else {type(given).__name__: given}


def class_colours(count: int) -> list[str]:
    """Return a colour a class; they repeat after eight."""
    return [HUES[k % len(HUES)] for k in range(count)]


def ink() -> Any:
    """The colour of lines without a meaning of their own: that of matplotlib's axes."""
    from matplotlib import rcParams

    return rcParams["axes.edgecolor"]


def paper(ax: Axes) -> Any:
    """The background colour; that of matplotlib's style where the axes are transparent."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgba

    colour = to_rgba(ax.get_facecolor())
    return colour if colour[3] > 0 else to_rgba(rcParams["axes.facecolor"])


def mixed(colour: Any, background: Any, share: float) -> Any:
    """Return a colour of which a share stands before the background's."""
    from matplotlib.colors import to_rgb

    return tuple(share * np.array(to_rgb(colour)) + (1.0 - share) * np.array(to_rgb(background)))


def figure_of(ax: Axes) -> Any:
    """Return the figure, or the part of one, that the axes stand in."""
    return ax.get_figure()


def width_of(ax: Axes) -> float:
    """Return the width in inches of the axes' part of the figure, labels included."""
    figure, place = figure_of(ax), ax.get_subplotspec()
    whole = float(figure.bbox.width / figure.dpi)
    return whole * (
        ax.get_position().width
        if place is None
        else len(place.colspan) / place.get_gridspec().ncols
    )


def legend_below(ax: Axes, handles: Sequence[Any] | None = None) -> None:
    """Put the legend below the axes, in as many columns as fit their width."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from matplotlib.transforms import ScaledTranslation

    handles = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not handles:
        return
    size = FontProperties(size="small").get_size_in_points()
    longest = max(len(str(handle.get_label())) for handle in handles)
    figure = figure_of(ax)
    if figure.get_layout_engine() is None:
        # Nothing makes room below.
        ax.legend(handles=handles, loc="best", fontsize="small", framealpha=0.8)
        return
    # At a size of 10 points a character takes 0.085 inches, a handle and the space around it half
    # an inch; tick labels and axis label together have the height of 3.6 lines of text.
    fitting = int(width_of(ax) / ((longest * 0.085 + 0.5) * size / 10.0))
    drop = 3.6 * float(rcParams["font.size"]) / 72.0
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + ScaledTranslation(0.0, -drop, figure.dpi_scale_trans),
        ncols=max(1, min(len(handles), fitting)),
        fontsize="small",
        frameon=False,
        borderaxespad=0.0,
        columnspacing=1.2,
        handlelength=1.8,
    )


def entitle(ax: Axes, title: str | None) -> Axes:
    """Set the title, if there is one, and return the axes."""
    if title is not None and not isinstance(title, str):
        raise DataTypeError(f"title must be a string, got {title!r}")
    if title:
        ax.set_title(title, fontsize="medium", wrap=True)
    return ax
