"""The plane that a picture shows: two features, or two principal components of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, DataTypeError, did_you_mean

__all__ = ["PRINCIPAL", "Plane", "plane_of"]

Floats: TypeAlias = NDArray[np.float64]

# The name of the plane of two principal components.
PRINCIPAL = "principal"
# Share of the range of the data that the picture shows beyond it.
PADDING = 0.06


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane in the space of the features: the points ``origin + t @ axes``."""

    origin: Floats
    axes: Floats
    names: tuple[str, str]
    caption: str

    def coordinates(self, X: Floats) -> Floats:
        """Return the coordinates in the plane of the projections of some rows, shape (m, 2)."""
        return X @ self.axes.T

    def points(self, coordinates: Floats) -> Floats:
        """Return the points of the plane with some coordinates, shape (m, d)."""
        return self.origin + coordinates @ self.axes

    def limits(self, X: Floats) -> tuple[float, float, float, float]:
        """Return left, right, bottom and top of a picture of some rows."""
        shown = self.coordinates(X)
        low, high = shown.min(axis=0), shown.max(axis=0)
        pad = PADDING * np.where(high > low, high - low, 1.0)
        ends = np.stack([low - pad, high + pad], axis=1)
        left, right, bottom, top = ends.ravel().tolist()
        return left, right, bottom, top


def plane_of(X: Floats, features: Any, names: list[str]) -> Plane:
    """Return the plane of two features, or of two principal components."""
    d = X.shape[1]
    if d < 2:
        raise DataError(f"X has {d} feature, and the picture shows two; add a column")
    if features is None:
        features = (0, 1) if d == 2 else PRINCIPAL
    if isinstance(features, str):
        if features != PRINCIPAL:
            raise DataError(
                f"features must be {PRINCIPAL!r} or a pair of columns, got {features!r}"
            )
        return _principal(X)
    if np.ndim(features) != 1 or len(features) != 2:
        raise DataTypeError(
            f"features must be {PRINCIPAL!r} or a pair of columns, got {features!r}"
        )
    first, second = (_column(feature, names) for feature in features)
    if first == second:
        raise DataError(f"features must be two different columns, got {names[first]!r} twice")
    axes = np.zeros((2, d))
    axes[0, first] = axes[1, second] = 1.0
    origin = X.mean(axis=0)
    origin[[first, second]] = 0.0
    caption = (
        ""
        if d == 2
        else (
            f"a slice at the means of the other {d - 2} features; observations are projected"
            " onto it"
        )
    )
    return Plane(origin, axes, (names[first], names[second]), caption)


def _column(feature: Any, names: list[str]) -> int:
    if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool):
        if not 0 <= feature < len(names):
            raise DataError(f"features has column {feature}; X has columns 0 to {len(names) - 1}")
        return int(feature)
    if feature not in names:
        raise DataError(
            f"features has {feature!r}, which X does not have{did_you_mean(feature, names)}"
        )
    return names.index(feature)


def _principal(X: Floats) -> Plane:
    mean = X.mean(axis=0)
    _, sizes, rows = np.linalg.svd(X - mean, full_matrices=False)
    if rows.shape[0] < 2:
        raise DataError(f"X has {X.shape[0]} row; two principal components need two at least")
    axes = rows[:2]
    total = float(sizes @ sizes)
    share = float(sizes[:2] @ sizes[:2]) / total if total > 0 else 1.0
    caption = (
        f"a slice through the mean, along two principal components ({share:.0%} of the variance);"
        " observations are projected onto it"
    )
    return Plane(
        mean - axes.T @ (axes @ mean),
        axes,
        ("principal component 1", "principal component 2"),
        caption,
    )
