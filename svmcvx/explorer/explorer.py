"""The function :func:`explore` and what it returns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from svmcvx.display import ShortRepr, interval, settings
from svmcvx.explorer.moving_model import SECONDS, MovingModel
from svmcvx.explorer.page import write_page
from svmcvx.explorer.picture import Picture
from svmcvx.explorer.widget import make_widget

__all__ = ["Explorer", "explore"]


class Explorer(MovingModel, ShortRepr):
    """A model with sliders for its hyper-parameters; see :func:`explore`.

    In a notebook it shows itself. Elsewhere :meth:`move` sets the sliders, :attr:`view` has what is
    shown, and :meth:`save` writes a page.

    Attributes
    ----------
    sliders : tuple of Slider
    plane : Plane
        What the picture shows of the space of the features.
    classes : ndarray of shape (c,)
    X : ndarray of shape (n, d)
        The training data.
    codes : ndarray of int, shape (n,)
        Positions of their labels among the classes.
    tested : tuple of (ndarray, ndarray)
        Rows and labels of the accuracies.
    has_test : bool
        Whether these are other rows than the training data.
    """

    @cached_property
    def picture(self) -> Picture:
        """The picture, which :meth:`move` does not change by itself: ``picture.update()`` returns
        it as PNG.
        """
        return Picture(self)

    @cached_property
    def widget(self) -> Any:
        """The widget of a notebook: sliders, the picture and the numbers below it.

        Raises
        ------
        SolverUnavailable
            If ipywidgets or matplotlib is not installed.
        """
        return make_widget(self, self.picture)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        values: Mapping[str, Sequence[Any]] | None = None,
        title: str | None = None,
    ) -> None:
        """Write a page that moves the same sliders: one HTML file, which needs no server and loads
        nothing.

        Every combination of values is solved now, each from its neighbour's solution; the page has
        the models and their intervals as JSON, and computes scores itself.

        Parameters
        ----------
        path : path-like
            An existing file is replaced as a whole.
        values : mapping from names of parameters to values, optional
            Those that the page has; by default at most 21 of the first slider and 5 of the second,
            and of the others the current one.
        title : str, optional

        Raises
        ------
        DataError
            If there are more than a thousand combinations, or the model is not one that a page can
            evaluate: linear machines, and kernel machines of two classes with the kernels
            ``"rbf"``, ``"exponential"`` and ``"poly"``.
        """
        write_page(self, path, values=values, title=title)

    def __repr__(self) -> str:
        lower, upper = interval(self.view.certificate.lower, self.view.certificate.upper)
        return (
            f"Explorer({type(self.model).__name__}: {settings(self.settings)}; optimum in [{lower},"
            f" {upper}])"
        )


def explore(
    X: Any,
    y: Any,
    model: Any = None,
    *,
    features: Any = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    test: Any = None,
    time_limit: float | None = SECONDS,
) -> Explorer:
    """Show how boundary, margins, support vectors, interval and accuracy change with the
    hyper-parameters of a model.

    The last expression of a notebook's cell is shown with sliders (extra ``explore``; Jupyter, VS
    Code, Colab). Each step fits from the solution of the step before.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, d)
        Training data; of more than two features a plane is shown.
    y : array-like of shape (n,)
    model : estimator of this package, or str, optional
        Its parameters are where the sliders begin. A text as on the command line (``"odm"``,
        ``"psvm:p=2"``), or a ``PSVMClassifier`` with an RBF kernel, the default.
    features : pair of columns, or "principal", optional
        Names or numbers of two features, the others being at their means; or the plane of two
        principal components, the default for more than two features.
    values : mapping from names of parameters to sequences, optional
        The values of a slider, of any parameter of the model; an empty sequence leaves the slider
        out. By default weights go from a hundredth of the model's value to a hundred times it.
    test : tuple of (X, y), optional
        Data that the accuracies are about; the training data by default.
    time_limit : float, optional
        Seconds of a fit, if the model has none; 2 by default, None for no limit.

    Returns
    -------
    Explorer
        With ``move(C=…)``, ``view``, ``guaranteed`` and ``save("page.html")``.

    Raises
    ------
    DataError
        If an argument cannot be used.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [3.0, 2.0], [4.0, 4.0]], ["a", "a", "b", "b"]
    >>> shown = sx.explore(X, y, "psvm", values={"C": [0.1, 1.0, 10.0]})
    >>> shown.move(C=10.0).certificate.is_certified(1e-6)
    True
    >>> shown.view.accuracy, str(shown.guaranteed[0])
    (1.0, '1')
    """
    return Explorer(X, y, model, features=features, values=values, test=test, time_limit=time_limit)
