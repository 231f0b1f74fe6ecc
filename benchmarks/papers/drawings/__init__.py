"""The figures that go with the papers' tables, one module a paper; :mod:`benchmarks.papers.figures`
lists them.
"""

from typing import Any

from matplotlib.figure import Figure

from svmcvx.plot.style import drawing_axes


def drawing_panels(
    rows: int,
    columns: int,
    *,
    size: tuple[float, float],
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, Any]:
    """Return a new figure and `rows` × `columns` axes, each of a size in inches."""
    figure: Any = drawing_axes(None).figure
    figure.clear()
    figure.set_size_inches(columns * size[0], rows * size[1])
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
