"""A model whose parameters move: fits from neighbour to neighbour, on data of which a plane is
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from svmcvx.data import check_features, check_labels, check_time_limit
from svmcvx.errors import DataError, DataTypeError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.experiments.specifications import parse_models
from svmcvx.explorer.answers import View, guaranteed_accuracy, view_of
from svmcvx.explorer.plane import plane_of
from svmcvx.explorer.sliders import LINEAR, sliders_of, with_settings
from svmcvx.guarantees import Interval
from svmcvx.kernels import as_kernel
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.solution import Solution

__all__ = ["SECONDS", "MovingModel"]

Floats: TypeAlias = NDArray[np.float64]

# Columns and rows of the grid.
GRID = (96, 72)
# What makes a kernel.
KERNEL = ("kernel", "gamma", "degree", "coef0")
# Views that are kept; each takes some 100 KB.
KEPT = 500
# Seconds of a fit whose model has no limit.
SECONDS = 2.0


class MovingModel:
    """A model with sliders, without its picture: :class:`~svmcvx.explorer.explorer.Explorer` names
    its attributes.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        model: Any = None,
        *,
        features: Any = None,
        values: Mapping[str, Sequence[Any]] | None = None,
        test: Any = None,
        time_limit: float | None = SECONDS,
    ) -> None:
        check_time_limit(time_limit)
        self.model = _estimator(model)
        if self.model.time_limit is None:
            self.model.time_limit = time_limit
        names = [str(name) for name in getattr(X, "columns", ())]
        self.X = np.asarray(check_features(X, accept_sparse=False))
        self._data = self.model._training_data(self.X, y)
        self.codes, self.classes = check_labels(y, self.X.shape[0])
        self.has_test = test is not None
        self.tested = (
            (self.X, self.classes[self.codes]) if test is None else self._checked_test(test)
        )
        self.plane = plane_of(
            self.X, features, names or [f"feature {j}" for j in range(self.X.shape[1])]
        )
        self.limits = self.plane.limits(np.concatenate([self.X, self.tested[0]]))
        self.sliders = sliders_of(self.model, values, self.gamma())
        self._grams = GramCache()
        # The latest solution of each kernel.
        self._latest: dict[tuple[Any, ...], Solution] = {}
        self._views: dict[tuple[int, ...], View] = {}
        self._guaranteed: dict[tuple[int, ...], tuple[Interval | None, str]] = {}
        self._positions = tuple(slider.start for slider in self.sliders)

    def _checked_test(self, test: Any) -> tuple[Floats, NDArray[Any]]:
        if not isinstance(test, tuple) or len(test) != 2:
            raise DataTypeError(f"test must be a pair (X, y), got {type(test).__name__}")
        rows = np.asarray(
            check_features(test[0], name="test", n_features=self.X.shape[1], accept_sparse=False)
        )
        labels = np.asarray(test[1])
        if labels.shape != (rows.shape[0],):
            raise DataError(
                f"test must have one label for each of its {rows.shape[0]} rows, got shape"
                f" {labels.shape}"
            )
        if strange := [label for label in labels.tolist() if label not in self.classes.tolist()]:
            raise DataError(
                f"test has the label {strange[0]!r}, which the training data do not have"
            )
        return rows, labels

    def gamma(self) -> float:
        """Return the width of a kernel of the model as a number."""
        parameters = self.model.get_params(deep=False)
        if "gamma" not in parameters:
            return 1.0
        kernel = as_kernel("rbf", gamma=parameters["gamma"])
        return float(kernel.resolve(self.X).gamma)  # type: ignore[union-attr]

    @property
    def settings(self) -> dict[str, Any]:
        """The values of the sliders."""
        return self._settings_at(self._positions)

    def _settings_at(self, positions: tuple[int, ...]) -> dict[str, Any]:
        return {
            slider.name: slider.values[k] for slider, k in zip(self.sliders, positions, strict=True)
        }

    @property
    def view(self) -> View:
        """What is shown at these values; computed once for each."""
        return self._view_at(self._positions)

    def _view_at(self, positions: tuple[int, ...]) -> View:
        if positions not in self._views:
            if len(self._views) == KEPT:
                del self._views[next(iter(self._views))]
            self._views[positions] = self.fitted(self._settings_at(positions))
        return self._views[positions]

    @property
    def guaranteed(self) -> tuple[Interval | None, str]:
        """An interval of the accuracy of every optimal machine at these values; or None, and the
        reason.
        """
        if self._positions not in self._guaranteed:
            self._guaranteed[self._positions] = self.guaranteed_at(self.view)
        return self._guaranteed[self._positions]

    def guaranteed_at(self, view: View) -> tuple[Interval | None, str]:
        """Return the guaranteed accuracy of a view, or None and the reason."""
        return guaranteed_accuracy(view.solution, (self.X, self.classes[self.codes]), self.tested)

    def fitted(self, values: Mapping[str, Any]) -> View:
        """Fit with some parameters, from the latest solution with the same kernel, and evaluate the
        grid once.
        """
        estimator = with_settings(clone(self.model), values)
        space = _space(estimator)
        estimator._fit(self._data, self._latest.get(space), self._grams)
        estimator.n_features_in_ = self.X.shape[1]
        self._latest[space] = estimator.solution_
        return view_of(estimator, values, self._grid, (GRID[1], GRID[0]), self.tested)

    @cached_property
    def _grid(self) -> Floats:
        left, right, bottom, top = self.limits
        lines = np.meshgrid(np.linspace(left, right, GRID[0]), np.linspace(bottom, top, GRID[1]))
        return self.plane.points(np.stack([line.ravel() for line in lines], axis=1))

    def move(self, **values: Any) -> View:
        """Set sliders, and return what is shown then."""
        named = {slider.name: k for k, slider in enumerate(self.sliders)}
        if unknown := [name for name in values if name not in named]:
            raise DataError(f"there is no slider {unknown[0]!r}; there are {', '.join(named)}")
        positions = list(self._positions)
        for name, value in values.items():
            positions[named[name]] = self.sliders[named[name]].position(value)
        self._positions = tuple(positions)
        return self.view

    def ahead(self) -> Iterator[Callable[[], object]]:
        """Yield what is solved while the sliders rest, so that a step finds it: all other values of
        each slider, the nearest first.
        """
        steps = [
            (abs(k - self._positions[place]), place, k)
            for place, slider in enumerate(self.sliders)
            if slider.name not in KERNEL[1:] or not self._is_linear
            for k in range(len(slider.values))
        ]
        for _, place, k in sorted(steps):
            yield partial(
                self._view_at, (*self._positions[:place], k, *self._positions[place + 1 :])
            )

    @property
    def _is_linear(self) -> bool:
        """Whether the values are those of a machine without kernel, which has no width."""
        return self.settings.get("kernel", self.model.get_params(deep=False).get("kernel")) in (
            None,
            LINEAR,
        )


def _estimator(model: Any) -> CertifiedClassifier:
    if model is None:
        return PSVMClassifier(kernel="rbf")
    if isinstance(model, str):
        parsed = parse_models(model)
        if len(parsed) != 1:
            raise DataError(f"model must name one model, got {len(parsed)} in {model!r}")
        model = parsed[0][1]
    if isinstance(model, type) or not isinstance(model, CertifiedClassifier):
        raise DataTypeError(
            "model must be an estimator of this package, such as sx.PSVMClassifier(), or its name,"
            f" got {model!r}"
        )
    copied: CertifiedClassifier = clone(model)
    return copied


def _space(estimator: Any) -> tuple[Any, ...]:
    """Return what two fits share if one can begin at the solution of the other."""
    parameters = estimator.get_params(deep=False)
    return (estimator._stated_as(), *(parameters.get(name) for name in KERNEL))
