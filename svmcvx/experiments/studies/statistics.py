"""Tests that compare models: on one data set over its splits, and over data sets."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = [
    "Friedman",
    "corrected_t",
    "critical_difference",
    "friedman",
    "holm",
    "paired_t",
    "ranks_by_block",
    "wilcoxon",
]

Floats: TypeAlias = NDArray[np.float64]


def paired_t(difference: Any) -> float:
    """Return the p-value of Student's paired t-test, two-sided; NaN for fewer than two differences.

    Parameters
    ----------
    difference : array-like of shape (m,)
        Of the scores of two models on the same splits.
    """
    return _t(np.asarray(difference, dtype=np.float64), 0.0)


def corrected_t(difference: Any, ratio: float) -> float:
    r"""Return the p-value of the corrected resampled t-test [Nadeau], two-sided; NaN for fewer than two differences.

    Training parts that overlap make the scores of repeated splits dependent, and the usual test finds differences that are not there.
    The variance of the mean is taken as :math:`(1/m + \text{ratio})\, s^2` in place of :math:`s^2/m`, with m − 1 degrees of freedom.

    Parameters
    ----------
    difference : array-like of shape (m,)
    ratio : float
        Observations in the test part for one in the training part.
    """
    return _t(np.asarray(difference, dtype=np.float64), ratio)


def _t(difference: Floats, ratio: float) -> float:
    m = difference.size
    if m < 2:
        return math.nan
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    # The rounding error of equal differences is not a variance.
    if spread <= 1e-14 * float(np.abs(difference).max()):
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / (spread * math.sqrt(1.0 / m + ratio)), m - 1))


def wilcoxon(difference: Any) -> float:
    """Return the p-value of the signed-rank test, two-sided, zero differences left out; 1 if all are zero, NaN for none."""
    difference = np.asarray(difference, dtype=np.float64)
    if difference.size == 0:
        return math.nan
    if not difference.any():
        return 1.0
    return float(stats.wilcoxon(difference, zero_method="wilcox").pvalue)


def holm(p: Any) -> Floats:
    """Return p-values adjusted for their number by Holm's step-down rule; NaN stays, and does not count."""
    p = np.asarray(p, dtype=np.float64)
    adjusted = np.full(p.shape, math.nan)
    there = np.flatnonzero(~np.isnan(p))
    order = there[np.argsort(p[there], kind="stable")]
    steps = (order.size - np.arange(order.size)) * p[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def ranks_by_block(scores: Any) -> Floats:
    """Return the rank of each model on each data set, 1 for the highest score; equal scores share the mean of their ranks.

    Parameters
    ----------
    scores : array-like of shape (data sets, models)
    """
    return np.asarray(stats.rankdata(-np.asarray(scores, dtype=np.float64), axis=1))


class Friedman(NamedTuple):
    """Friedman's test over data sets, and what follows from it [Demsar].

    Attributes
    ----------
    blocks, models : int
        Data sets and models that it compares.
    ranks : ndarray of shape (models,)
        Mean ranks, 1 the best.
    chi2, chi2_p : float
        The statistic, corrected for ties, and its p-value by the chi-square distribution.
    F, F_p : float
        Iman and Davenport's form, less conservative, and its p-value.
    critical_difference : float
        By which two mean ranks have to differ for Nemenyi's test to tell the models apart.
    alpha : float
        Level of the critical difference.
    """

    blocks: int
    models: int
    ranks: Floats
    chi2: float
    chi2_p: float
    F: float
    F_p: float
    critical_difference: float
    alpha: float


def critical_difference(models: int, blocks: int, alpha: float = 0.05) -> float:
    r"""Return Nemenyi's critical difference of mean ranks, :math:`q_\alpha \sqrt{k(k+1)/(6N)}`.

    Parameters
    ----------
    models, blocks : int
        k and N.
    alpha : float
    """
    q = float(stats.studentized_range.ppf(1.0 - alpha, models, math.inf)) / math.sqrt(2.0)
    return q * math.sqrt(models * (models + 1) / (6.0 * blocks))


def friedman(scores: Any, alpha: float = 0.05) -> Friedman | None:
    """Return Friedman's test; None for fewer than three models or two data sets, which it cannot compare.

    Parameters
    ----------
    scores : array-like of shape (data sets, models)
        Rows with a missing score are left out.
    alpha : float
        Level of the critical difference, 0.05 by default.
    """
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores[~np.isnan(scores).any(axis=1)]
    N, k = scores.shape
    if N < 2 or k < 3:
        return None
    ranks = ranks_by_block(scores)
    if (ranks == ranks[0, 0]).all():
        chi2, chi2_p = 0.0, 1.0
    else:
        chi2, chi2_p = map(float, stats.friedmanchisquare(*scores.T))
    room = N * (k - 1) - chi2
    # All data sets agree on the order: no variance is left within them.
    F = math.inf if room <= 1e-9 * N * k else (N - 1) * chi2 / room
    F_p = float(stats.f.sf(F, k - 1, (k - 1) * (N - 1)))
    difference = critical_difference(k, N, alpha)
    return Friedman(N, k, ranks.mean(axis=0), chi2, chi2_p, F, F_p, difference, alpha)
