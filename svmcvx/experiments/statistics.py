"""Tests that compare models: on one data set over its splits, and over data sets.

Differences are first less second. A p-value that does not exist is NaN.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from svmcvx.arrays import Floats
from svmcvx.errors import DataError

# Fewer differences have no signed-rank test at the level 0.05: 2/2⁵ > 0.05.
LEAST_RANKED = 6
# Level of intervals and of the smallest detectable difference.
LEVEL = 0.05


def _mean_and_scale(difference: Floats, ratio: float) -> tuple[float, float]:
    """Return mean and standard error [Nadeau]; `ratio` is the number of test per training rows."""
    m = difference.size
    if m < 2:
        return float(difference.mean()) if m else math.nan, math.nan
    spread = float(difference.std(ddof=1))
    # The rounding error of equal differences is not a variance.
    equal = spread <= 1e-14 * float(np.abs(difference).max())
    return float(difference.mean()), 0.0 if equal else spread * math.sqrt(1.0 / m + ratio)


def corrected_t(difference: Any, ratio: float) -> float:
    """Return the p-value of the corrected resampled t-test [Nadeau]; a ratio of 0 is Student's."""
    difference = np.asarray(difference, dtype=np.float64)
    mean, scale = _mean_and_scale(difference, ratio)
    if not scale > 0.0:
        return math.nan
    return float(2.0 * stats.t.sf(abs(mean) / scale, difference.size - 1))


def wilcoxon(difference: Any) -> float:
    """Return the two-sided p-value of the signed-rank test, ranks of zeros split [Demsar]."""
    difference = np.asarray(difference, dtype=np.float64)
    if difference.size < LEAST_RANKED or not difference.any():
        return math.nan
    return float(stats.wilcoxon(difference, zero_method="zsplit").pvalue)


def right_alone(y: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> tuple[int, int]:
    """Return the numbers of rows on which only the first classifier is right, and the second."""
    return int(((first == y) & (second != y)).sum()), int(((first != y) & (second == y)).sum())


def mcnemar(y: Any, first: Any, second: Any) -> float:
    """Return the p-value of McNemar's exact test that two classifiers err equally often on one test
    part, two-sided.

    It counts the observations on which exactly one of them is right; under the hypothesis each side
    is as probable.

    Parameters
    ----------
    y, first, second : array-like of shape (m,)
        Labels and the two predictions.

    Returns
    -------
    float
        NaN if the two are right on the same observations.

    Raises
    ------
    DataError
        If the three have not the same length.

    Examples
    --------
    >>> from svmcvx.experiments import mcnemar
    >>> mcnemar([1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 1])
    0.375
    """
    y, first, second = (np.asarray(part).ravel() for part in (y, first, second))
    if not y.size == first.size == second.size:
        raise DataError(
            f"y and both predictions need one length, got {y.size}, {first.size} and {second.size}"
        )
    better, worse = right_alone(y, first, second)
    if better + worse == 0:
        return math.nan
    return float(stats.binomtest(better, better + worse, 0.5).pvalue)


class Effect(NamedTuple):
    """Mean and median difference, interval of the mean, share of wins (ties count half), smallest
    difference that the corrected test finds with a probability of 0.8, and why some are NaN.
    """

    mean: float
    median: float
    low: float
    high: float
    win: float
    detectable: float
    reason: str


def effect(difference: Any, ratio: float) -> Effect:
    """Return the sizes of paired differences."""
    difference = np.asarray(difference, dtype=np.float64)
    m, nan = difference.size, math.nan
    if m == 0:
        return Effect(nan, nan, nan, nan, nan, nan, "no split on which both have a score")
    mean, scale = _mean_and_scale(difference, ratio)
    median = float(np.median(difference))
    win = float((difference > 0).mean() + 0.5 * (difference == 0).mean())
    if not scale > 0.0:
        reason = "a single split" if m < 2 else "equal differences have no variance"
        return Effect(mean, median, math.nan, math.nan, win, math.nan, reason)
    quantile, power = (float(stats.t.ppf(share, m - 1)) for share in (1.0 - LEVEL / 2, 0.8))
    half = quantile * scale
    return Effect(mean, median, mean - half, mean + half, win, half + power * scale, "")


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
