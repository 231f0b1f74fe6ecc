"""Tests that compare models: on one data set over its splits, and over data sets.

Differences are first less second. A p-value that does not exist is NaN.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from svmcvx.arrays import Floats

# Fewer differences have no signed-rank test at the level 0.05: 2/2⁵ > 0.05.
LEAST_RANKED = 6
# Level of tests and of their intervals.
LEVEL = 0.05


class Difference(NamedTuple):
    """Mean difference over splits, its interval and p-value, and why some of these are NaN."""

    mean: float
    low: float
    high: float
    p: float
    reason: str


def corrected_t(difference: Any, ratio: float) -> Difference:
    """Return the corrected resampled t-test [Nadeau]; `ratio` is the number of test rows per
    training row, and 0 gives Student's test.
    """
    difference = np.asarray(difference, dtype=np.float64)
    m, nan = difference.size, math.nan
    mean = float(difference.mean()) if m else nan
    if m < 2:
        reason = "a single split" if m else "no split on which both have a score"
        return Difference(mean, nan, nan, nan, reason)
    spread = float(difference.std(ddof=1))
    # The rounding error of equal differences is not a variance.
    if spread <= 1e-14 * float(np.abs(difference).max()):
        return Difference(mean, nan, nan, nan, "equal differences have no variance")
    scale = spread * math.sqrt(1.0 / m + ratio)
    half = float(stats.t.ppf(1.0 - LEVEL / 2, m - 1)) * scale
    p = float(2.0 * stats.t.sf(abs(mean) / scale, m - 1))
    return Difference(mean, mean - half, mean + half, p, "")


def wilcoxon(difference: Any) -> float:
    """Return the two-sided p-value of the signed-rank test, ranks of zeros split [Demsar]."""
    difference = np.asarray(difference, dtype=np.float64)
    if difference.size < LEAST_RANKED or not difference.any():
        return math.nan
    return float(stats.wilcoxon(difference, zero_method="zsplit").pvalue)


def median_interval(difference: Any) -> tuple[float, float]:
    """Return two order statistics that enclose the median with a probability of at least 0.95."""
    difference = np.asarray(difference, dtype=np.float64)
    if difference.size < LEAST_RANKED:
        return math.nan, math.nan
    found = stats.quantile_test(difference, p=0.5).confidence_interval(1.0 - LEVEL)
    return float(found.low), float(found.high)


def holm(p: Any) -> Floats:
    """Return p-values adjusted by Holm's step-down rule; NaN stays, and does not count."""
    p = np.asarray(p, dtype=np.float64)
    adjusted = np.full(p.shape, math.nan)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]
    steps = (order.size - np.arange(order.size)) * p[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


class Friedman(NamedTuple):
    """Friedman's test over data sets, and what follows from it [Demsar]."""

    blocks: int
    models: int
    ranks: Floats
    chi2: float
    chi2_p: float
    F: float
    F_p: float
    critical_difference: float
    alpha: float


def critical_difference(models: int, blocks: int, alpha: float = LEVEL) -> float:
    r"""Return Nemenyi's critical difference of mean ranks, :math:`q_\alpha \sqrt{k(k+1)/(6N)}`."""
    q = float(stats.studentized_range.ppf(1.0 - alpha, models, math.inf)) / math.sqrt(2.0)
    return q * math.sqrt(models * (models + 1) / (6.0 * blocks))


def friedman(scores: Any, alpha: float = LEVEL) -> Friedman | None:
    """Return Friedman's test; None for fewer than three models or two data sets."""
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores[~np.isnan(scores).any(axis=1)]
    N, k = scores.shape
    if N < 2 or k < 3:
        return None
    ranks = stats.rankdata(-scores, axis=1)
    chi2, chi2_p = 0.0, 1.0
    if np.ptp(ranks) > 0.0:
        chi2, chi2_p = map(float, stats.friedmanchisquare(*scores.T))
    room = N * (k - 1) - chi2
    # If all data sets have the same order, there is no variance within them.
    F = math.inf if room <= 1e-9 * N * k else (N - 1) * chi2 / room
    F_p = float(stats.f.sf(F, k - 1, (k - 1) * (N - 1)))
    difference = critical_difference(k, N, alpha)
    return Friedman(N, k, ranks.mean(axis=0), chi2, chi2_p, F, F_p, difference, alpha)
