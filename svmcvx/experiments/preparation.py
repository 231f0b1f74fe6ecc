"""Preparation of features before a fit: scaling and missing values."""

from __future__ import annotations

from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

__all__ = ["MISSING", "SCALES", "imputer", "scaler"]

SCALES = ("none", "standard", "minmax")
MISSING = ("error", "drop", "median")


def scaler(scale: str, *, sparse: bool) -> Any:
    """Return the transformer of a scaling, None for ``"none"``; of sparse columns zeros stay zeros."""
    if scale == "none":
        return None
    if scale == "minmax":
        return MaxAbsScaler() if sparse else MinMaxScaler()
    return StandardScaler(with_mean=not sparse)


def imputer(missing: str) -> Any:
    """Return what fills in missing values, None where nothing does; a column without any value becomes 0."""
    return SimpleImputer(strategy="median", keep_empty_features=True) if missing == "median" else None
