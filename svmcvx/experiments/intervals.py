"""Intervals of the scores of every optimal machine on a test part: intervals as cells of tables,
and their text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from svmcvx.data import check_features
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.guarantees import CertifiedScores, Guarantee, Interval
from svmcvx.guarantees.dispatch import refine, scores_in_pieces
from svmcvx.solution import Status
from svmcvx.system.deadline import OutOfTime

__all__ = [
    "INTERVALS",
    "ExactScores",
    "as_seen",
    "check_interval",
    "ends",
    "exact_scores",
    "hull",
    "interval_text",
    "with_intervals",
]

# The scores of scikit-learn of which there are intervals, by the methods of a guarantee.
INTERVALS: Final[Mapping[str, str]] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "roc_auc": "auc",
}
# Heading of an interval in a table, by the prefix of the columns of its two ends.
HEADINGS: Final = {
    **{name: f"exact_{name}" for name in INTERVALS},
    **{f"{name}_tied": f"tied_{name}" for name in INTERVALS},
    "mean_score": "exact_score",
}
DECIMALS: Final = 4


class ExactScores(NamedTuple):
    """Intervals of the scores of every optimal machine."""

    intervals: dict[str, Interval]
    undecided: float | None
    note: str


@dataclass(frozen=True, eq=False, repr=False)
class _Scored(Guarantee):
    """A guarantee with the scores of some rows, so that several questions about them cost one
    evaluation.
    """

    classes: NDArray[Any]
    found: CertifiedScores
    radius: float = math.nan

    def scores(self, T: Any) -> CertifiedScores:
        """Return the scores of these rows."""
        return self.found


def exact_scores(
    last: Any,
    X: Any,
    y: NDArray[Any],
    T: Any,
    labels: NDArray[Any],
    scores: Sequence[str] = ("accuracy",),
) -> ExactScores:
    """Return intervals of the scores of every optimal machine on a test part."""
    if not isinstance(last, CertifiedClassifier):
        return ExactScores({}, None, "")
    try:
        rows = check_features(T)
        found = scores_in_pieces(last.guarantee(X, y), rows)
        if found.by_gap.any():
            found = _refined(last, X, y, rows)
    except OutOfTime:
        return ExactScores({}, None, "no guarantee: the time limit left no time for it")
    except SvmcvxError as error:
        return ExactScores({}, None, f"no guarantee: {error}")
    scored = _Scored(found.classes, found)
    intervals, notes = {}, []
    for name in scores:
        if name in INTERVALS:
            try:
                intervals[name] = getattr(scored, INTERVALS[name])(rows, labels)
            except SvmcvxError as error:
                notes.append(f"no interval of {name}: {error}")
    return ExactScores(intervals, float(found.undecided.mean()), "; ".join(notes))


def _refined(last: CertifiedClassifier, X: Any, y: NDArray[Any], rows: Any) -> CertifiedScores:
    """Return the scores of rows at a gap that decides their labels, if such a gap can be reached."""
    solution = refine(last.solution_, X, y, rows, time_limit=last.time_limit)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    refined = copy(last)
    refined.solution_ = solution
    return scores_in_pieces(refined.guarantee(X, y), rows)


def check_interval(scoring: Any) -> str:
    """Return the name of a score of which there are intervals; None is the accuracy."""
    if scoring is not None and scoring not in INTERVALS:
        raise DataError(
            f"guarantee needs scoring among {', '.join(map(repr, INTERVALS))}, of which there are"
            f" intervals, got {scoring!r}"
        )
    return scoring or "accuracy"


def as_seen(fitted: Any, X: Any) -> Any:
    """Return rows as the last step of a fitted pipeline sees them; as they are for any other
    estimator.
    """
    return fitted[:-1].transform(X) if isinstance(fitted, Pipeline) and len(fitted.steps) > 1 else X


def ends(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Return the ends as cells: ``accuracy_lower``, ``accuracy_upper`` and so on."""
    return {
        f"{name}_{end}": getattr(interval, end)
        for name, interval in intervals.items()
        for end in ("lower", "upper")
    }


def hull(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the cells of the least intervals that contain those of several machines; without those
    that one of them lacks.
    """
    found = {}
    for name in set.intersection(*(set(cells) for cells in each)):
        stem, _, end = name.rpartition("_")
        found[f"{stem}_tied_{end}"] = (min if end == "lower" else max)(
            cells[name] for cells in each
        )
    return found


def interval_text(lower: Any, upper: Any, decimals: int = DECIMALS, missing: str = "") -> str:
    """Return one number if both ends agree, otherwise both ends, rounded outward."""
    if any(end is None or math.isnan(end) for end in (lower, upper)):
        return missing
    low, high = outward(lower, upper, decimals)
    return f"{low:.{decimals}f}" if lower == upper else f"[{low:.{decimals}f}, {high:.{decimals}f}]"


def outward(lower: float, upper: float, decimals: int) -> tuple[float, float]:
    """Return both ends with a number of decimals, rounded outward; a number that both are is
    rounded to the nearest.
    """
    if lower == upper:
        return round(lower, decimals), round(upper, decimals)
    unit = 10.0**decimals
    # A product that rounding puts above or below a whole number is that number.
    return math.floor(lower * unit + 1e-6) / unit, math.ceil(upper * unit - 1e-6) / unit


def with_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one column of text, such as ``exact_accuracy``, instead of the two ends
    of each interval.
    """
    shown = pd.DataFrame(frame)
    stems = [
        str(name).removesuffix("_lower")
        for name in shown.columns
        if str(name).endswith(("_exact_lower", "_range_lower"))
    ]
    for name, heading in {**HEADINGS, **{stem: stem for stem in stems}}.items():
        pair = [f"{name}_lower", f"{name}_upper"]
        if set(pair) <= set(shown.columns):
            text = _as_they_are if name in stems else interval_text
            texts = [text(*row) or None for row in shown[pair].itertuples(index=False)]
            place = int(np.flatnonzero(shown.columns == pair[0])[0])
            shown = shown.drop(columns=pair)
            shown.insert(place, heading, texts)
    return shown


def _as_they_are(lower: Any, upper: Any) -> str:
    """Return one number if both ends agree, otherwise both, with all their digits."""
    if any(end is None or math.isnan(end) for end in (lower, upper)):
        return ""
    return f"{lower:g}" if lower == upper else f"[{lower:g}, {upper:g}]"
