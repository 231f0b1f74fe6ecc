"""The picture of an explorer: drawn once, then updated."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import missing_extra
from svmcvx.plot.style import MARKERS, class_colours

if TYPE_CHECKING:
    from svmcvx.explorer.answers import View
    from svmcvx.explorer.moving_model import MovingModel

__all__ = ["Picture"]

Floats: TypeAlias = NDArray[np.float64]

SIZE, RESOLUTION = (6.4, 4.8), 100
# Share of a class's colour at the ends of the scale of scores, and the score there; of a region of
# several classes.
DEEPEST, DEEP_SCORE, TINT = 0.55, 2.0, 0.3
# Few shades are quick to compress.
SHADES = 25
COMPRESSION = 1


class Picture:
    """Regions, boundary, margins, points and rings in a figure of matplotlib."""

    def __init__(self, explorer: MovingModel) -> None:
        try:
            import contourpy
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.collections import LineCollection
            from matplotlib.colors import to_rgb
            from matplotlib.figure import Figure
        except ImportError:
            raise missing_extra("matplotlib", "explore") from None
        self.explorer = explorer
        self._lines = contourpy.contour_generator
        self.figure = Figure(figsize=SIZE, dpi=RESOLUTION, layout="constrained")
        self.canvas = cast(Any, FigureCanvasAgg(self.figure))
        left, right, bottom, top = explorer.limits
        self.ax = self.figure.add_subplot(xlim=(left, right), ylim=(bottom, top))
        self.ax.set_xlabel(explorer.plane.names[0])
        self.ax.set_ylabel(explorer.plane.names[1])
        count = explorer.classes.size
        self._colours = np.array([to_rgb(colour) for colour in class_colours(count)])
        self._shades = _shades(self._colours)
        self.boundary: Any = self.ax.add_collection(
            LineCollection([], colors="black", linewidths=1.5)
        )
        self.margins: Any = self.ax.add_collection(
            LineCollection([], colors="black", linewidths=0.9, linestyles="--")
        )
        shown = explorer.plane.coordinates(explorer.X)
        self._points = shown
        self.rings = self.ax.scatter(
            [], [], s=70, facecolor="none", edgecolor="black", linewidth=0.8
        )
        self.dots = [
            self.ax.scatter(
                shown[explorer.codes == code, 0],
                shown[explorer.codes == code, 1],
                s=22,
                marker=MARKERS[code % len(MARKERS)],
                color=self._colours[code],
                edgecolor="white",
                linewidth=0.4,
                label=str(explorer.classes[code]),
            )
            for code in range(count)
        ]
        self.figure.legend(
            handles=self.dots,
            loc="outside upper center",
            ncols=count,
            fontsize="small",
            frameon=False,
        )
        self._moving: tuple[Any, ...] = (self.margins, self.boundary, self.rings, *self.dots)
        for artist in self._moving:
            artist.set_animated(True)
        self.canvas.draw()
        self._background = self.canvas.copy_from_bbox(self.figure.bbox)
        # Pixels of the axes, from the left and from the top.
        box, height = self.ax.bbox, self.figure.bbox.height
        self._columns = slice(round(box.x0), round(box.x1))
        self._rows = slice(round(height - box.y1), round(height - box.y0))

    def update(self) -> bytes:
        """Show what the sliders say now, and return the picture as PNG."""
        from PIL import Image

        view = self.explorer.view
        left, right, bottom, top = self.explorer.limits
        rows, columns = view.scores.shape
        x, y = np.linspace(left, right, columns), np.linspace(bottom, top, rows)
        boundary, margins = contours(view, len(self._colours))
        self.boundary.set_segments(
            [line for values in boundary for line in self._lines(x, y, values).lines(0.0)]
        )
        self.margins.set_segments(
            [line for values in margins for line in self._lines(x, y, values).lines(0.0)]
        )
        self.rings.set_offsets(self._points[view.support])
        self.canvas.restore_region(self._background)
        pixels = np.asarray(self.canvas.buffer_rgba())
        pixels[self._rows, self._columns, :3] = self._shaded(boundary)
        for artist in self._moving:
            self.ax.draw_artist(artist)
        written = io.BytesIO()
        Image.fromarray(pixels).convert("RGB").save(
            written, format="png", compress_level=COMPRESSION
        )
        return written.getvalue()

    def _shaded(self, functions: list[Floats]) -> NDArray[np.uint8]:
        """Return the colours of the pixels: of the score of two classes, or of the class whose
        function is the largest.
        """
        from PIL import Image

        size = (self._columns.stop - self._columns.start, self._rows.stop - self._rows.start)
        smooth = [
            np.asarray(
                Image.fromarray(values[::-1].astype(np.float32)).resize(
                    size, Image.Resampling.BILINEAR
                )
            )
            for values in functions
        ]
        half = len(self._shades) // 2
        if len(smooth) > 1:
            return np.asarray(self._shades[np.argmax(smooth, axis=0)])
        return np.asarray(
            self._shades[
                np.rint(np.clip(smooth[0] * (half / DEEP_SCORE), -half, half)).astype(np.intp)
                + half
            ]
        )


def contours(view: View, classes: int) -> tuple[list[Floats], list[Floats]]:
    """Return the functions whose zeros are the boundaries, and those whose zeros are the margins."""
    if classes == 2:
        return [view.scores], [view.scores - 1.0, view.scores + 1.0]
    # The lead with the sign of a region crosses zero on its boundary.
    signed = [
        np.where(view.predicted == code, view.scores, -view.scores) for code in range(classes)
    ]
    return signed, [view.scores - 1.0]


def _shades(colours: Floats) -> NDArray[np.uint8]:
    """Return the colours of the scores of two classes, from the lowest to the highest; or those of
    the regions of several.
    """
    if len(colours) > 2:
        return np.asarray(255.0 * (1.0 - TINT * (1.0 - colours))).round().astype(np.uint8)
    place = np.linspace(-1.0, 1.0, SHADES)
    own = np.where(place[:, None] > 0, colours[1], colours[0])
    return (
        np.asarray(255.0 * (1.0 - DEEPEST * np.abs(place)[:, None] * (1.0 - own)))
        .round()
        .astype(np.uint8)
    )
