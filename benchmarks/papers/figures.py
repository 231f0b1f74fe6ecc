"""The figures that go with the papers' tables (extra ``plot``): which there are, and their files.

A figure is drawn by a function of a module in ``drawings/``, which takes the :class:`Reproduction`
and returns a matplotlib figure, or None where the table lacks what it would show. What a table's
rows do not hold (models, traces) it computes again from the reproduction's ``run``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.papers.result import Reproduction
from svmcvx.errors import DataError, missing_extra
from svmcvx.experiments.reports import svg
from svmcvx.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PACKAGE = "benchmarks.papers.drawings"


class _Figure(NamedTuple):
    """A figure: what it shows, the module in ``drawings/`` and the function that draws it."""

    caption: str
    module: str
    function: str

    def load(self) -> Callable[[Reproduction], Figure | None]:
        found: Callable[[Reproduction], Figure | None] = getattr(
            import_module(f"{_PACKAGE}.{self.module}"), self.function
        )
        return found


# By table the figures, by the names of their files. Captions are of letters, digits and simple
# punctuation: they also describe a figure to those who do not see it.
_FIGURES: Mapping[str, Mapping[str, _Figure]] = {
    "psvm-table1": {
        "exponents": _Figure(
            "Accuracy and share of support vectors against the exponent p", "psvm", "exponents"
        ),
        "losses": _Figure("The margin loss for several exponents (Figure 1)", "psvm", "losses"),
    },
    "psvm-table3": {
        "steps": _Figure(
            "Distance of pSMO to the certified optimum against its steps (Figure 3)",
            "psvm",
            "pair_steps",
        )
    },
    "odm-table2": {
        "margins": _Figure("Cumulative margins of SVM, ODML and ODM, linear", "odm", "margins")
    },
    "odm-table3": {
        "margins": _Figure(
            "Cumulative margins of SVM, ODML and ODM, Gaussian kernel", "odm", "margins"
        )
    },
    "m3svm-table1": {
        "convergence": _Figure(
            "Certified gap of the released problem against time", "m3svm", "convergence"
        ),
        "iris": _Figure(
            "Iris by LDA and PCA with the lines between the classes (Figure 1)", "m3svm", "iris"
        ),
    },
    "m3svm-figure3": {
        "exponents": _Figure("Accuracy of M3SVM against the exponent p", "m3svm", "exponents")
    },
    "m3svm-figure4": {
        "weights": _Figure(
            "Accuracy of M3SVM against the weight of its margins", "m3svm", "weights"
        )
    },
    "psvm-figure2": {
        "training": _Figure(
            "Accuracy and share of support vectors against the number of training rows",
            "psvm",
            "training",
        )
    },
    "conic-table1": {
        "breakdowns": _Figure(
            "Distribution of the misclassification with clustered outliers and the least spread"
            " (Figure 2)",
            "conic",
            "breakdowns",
        )
    },
    "conic-table2": {"seconds": _Figure("Seconds for 100 problems against n", "conic", "seconds")},
    "conic-table3": {
        "noise": _Figure("Misclassification against the rate of flipped labels", "conic", "noise")
    },
    "conic-table4": {
        "noise": _Figure("Misclassification against the rate of flipped labels", "conic", "noise")
    },
    **{
        table: {
            "boundaries": _Figure(
                f"Decision boundaries on {name}, without and with flipped labels (Figure {number})",
                "l0",
                "boundaries",
            ),
            "convergence": _Figure(
                "Residual of the ADMM against its iterations", "l0", "convergence"
            ),
        }
        for table, name, number in (
            ("l0-table51", "Double Circles", "5.1"),
            ("l0-table52", "Double Moons", "5.2"),
        )
    },
}


class Drawn(NamedTuple):
    """A figure as text: its name, its caption, the SVG."""

    name: str
    caption: str
    svg: str


def figure_names(table: str) -> tuple[str, ...]:
    """Return the names of the figures that go with a table."""
    return tuple(_FIGURES.get(table, {}))


def check_figures(table: str, folder: Path) -> None:
    """Raise if the figures of a table cannot be drawn here; to be asked before anything is
    computed.
    """
    if table not in _FIGURES:
        raise DataError(f"no figure goes with {table}; there are some of {', '.join(_FIGURES)}")
    if find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "plot")
    _made(folder)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the folder {folder} cannot be made ({error.strerror}); pass another one"
        ) from None
    return folder


def draw_figures(found: Reproduction) -> Iterator[Drawn]:
    """Draw the figures of a table, one after the other; those for which it lacks the numbers are
    left out.
    """
    for name, entry in _FIGURES.get(found.name, {}).items():
        figure = entry.load()(found)
        if figure is not None:
            yield Drawn(name, entry.caption, svg(figure, entry.caption))


def write_figures(found: Reproduction, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the figures of a table as ``TABLE-FIGURE.svg`` into a folder, which is made if it is
    not there; return the files.
    """
    target, files = _made(Path(folder)), []
    for one in draw_figures(found):
        path = target / f"{found.name}-{one.name}.svg"
        with atomic_write(path) as stream:
            stream.write(one.svg.encode())
        files.append(path)
    return files


def write_report(found: Reproduction, path: str | os.PathLike[str]) -> None:
    """Write table, figures and study into one HTML file (extra ``study``)."""
    pictures = [(one.svg, one.caption) for one in draw_figures(found)]
    noted = found.frame.copy()
    noted.attrs["note"] = " ".join(found.notes)
    found.study.report(
        path, {found.title: noted}, title=f"{found.title}, reproduced", figures=pictures
    )
