"""Tests that compare models: on one data set over its splits, and over data sets."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from svmcvx.errors import DataError

Floats: TypeAlias = NDArray[np.float64]

# Fewer differences have no signed-rank test at the level 0.05: 2/2⁵ > 0.05.
LEAST_RANKED = 6
# Level and power of intervals and of the smallest detectable difference.
LEVEL, POWER = 0.05, 0.8
# Draws of the Bayesian signed-rank test; a probability has a standard error of at most 0.5 percent.
DRAWS = 10_000


def paired_t(difference: Any) -> float:
    """Return the p-value of Student's paired t-test, two-sided; NaN for fewer than two differences,
    or equal ones.
    """
    return _t(np.asarray(difference, dtype=np.float64), 0.0)


def corrected_t(difference: Any, ratio: float) -> float:
    """Return the p-value of the corrected resampled t-test [Nadeau], two-sided; NaN for fewer than
    two differences, or equal ones.
    """
    return _t(np.asarray(difference, dtype=np.float64), ratio)


def _t(difference: Floats, ratio: float) -> float:
    mean, scale = _mean_and_scale(difference, ratio)
    if not scale > 0.0:
        return math.nan
    return float(2.0 * stats.t.sf(abs(mean) / scale, difference.size - 1))


def _mean_and_scale(difference: Floats, ratio: float) -> tuple[float, float]:
    """Return the mean and its standard error with the correction; NaN for fewer than two
    differences, 0 for equal ones.
    """
    m = difference.size
    if m == 0:
        return math.nan, math.nan
    mean = float(difference.mean())
    if m < 2:
        return mean, math.nan
    spread = float(difference.std(ddof=1))
    # The rounding error of equal differences is not a variance.
    if spread <= 1e-14 * float(np.abs(difference).max()):
        return mean, 0.0
    return mean, spread * math.sqrt(1.0 / m + ratio)


def wilcoxon(difference: Any) -> float:
    """Return the p-value of the signed-rank test, two-sided; the ranks of zero differences are
    split between the signs [Demsar].
    """
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
    """How large a difference is, and how well it is known."""

    mean: float
    median: float
    low: float
    high: float
    win: float
    detectable: float
    reason: str


def effect(difference: Any, ratio: float) -> Effect:
    """Return mean, interval and effect sizes of paired differences; see :func:`corrected_t` for
    `ratio`.
    """
    difference = np.asarray(difference, dtype=np.float64)
    m, nan = difference.size, math.nan
    if m == 0:
        return Effect(nan, nan, nan, nan, nan, nan, "no split on which both have a score")
    mean, scale = _mean_and_scale(difference, ratio)
    median = float(np.median(difference))
    win = float((difference > 0).mean() + 0.5 * (difference == 0).mean())
    if not scale > 0.0:
        reason = "a single split" if m < 2 else "equal differences have no variance"
        return Effect(mean, median, nan, nan, win, nan, reason)
    quantile = float(stats.t.ppf(1.0 - LEVEL / 2, m - 1))
    half, detectable = quantile * scale, (quantile + float(stats.t.ppf(POWER, m - 1))) * scale
    return Effect(mean, median, mean - half, mean + half, win, detectable, "")


def median_interval(difference: Any) -> tuple[float, float]:
    """Return two order statistics that enclose the median with a probability of at least 0.95, by
    the sign test; NaN below six differences.
    """
    difference = np.asarray(difference, dtype=np.float64)
    if difference.size < LEAST_RANKED:
        return math.nan, math.nan
    found = stats.quantile_test(difference, p=0.5).confidence_interval(1.0 - LEVEL)
    return float(found.low), float(found.high)


class Posterior(NamedTuple):
    """Probabilities that the first model is better, that both are practically equal, and that the
    second is better.
    """

    first: float
    equal: float
    second: float


def correlated_t(difference: Any, ratio: float, rope: float) -> Posterior:
    """Return the posterior of the Bayesian correlated t-test [Benavoli] over the splits of one data
    set.
    """
    difference = np.asarray(difference, dtype=np.float64)
    mean, scale = _mean_and_scale(difference, ratio)
    if not scale > 0.0:
        return Posterior(math.nan, math.nan, math.nan)
    first = float(stats.t.sf((rope - mean) / scale, difference.size - 1))
    second = float(stats.t.cdf((-rope - mean) / scale, difference.size - 1))
    return Posterior(first, max(0.0, 1.0 - first - second), second)


def bayesian_signed_rank(difference: Any, rope: float, seed: int = 0) -> Posterior:
    """Return the posterior of the Bayesian signed-rank test [Benavoli] over data sets, by 10 000
    draws.
    """
    difference = np.asarray(difference, dtype=np.float64)
    if difference.size < 2:
        return Posterior(math.nan, math.nan, math.nan)
    values = np.append(difference, 0.0)
    walsh = 0.5 * (values[:, None] + values)
    concentration = np.append(np.ones(difference.size), 0.5)
    weights = np.random.default_rng(seed).dirichlet(concentration, DRAWS)
    shares = [
        np.einsum("ti,ij,tj->t", weights, part.astype(float), weights)
        for part in (walsh > rope, walsh < -rope)
    ]
    votes = np.stack([shares[0], 1.0 - shares[0] - shares[1], shares[1]])
    winners = np.isclose(votes, votes.max(axis=0), rtol=0.0, atol=1e-12)
    return Posterior(*(float(x) for x in (winners / winners.sum(axis=0)).mean(axis=1)))


def holm(p: Any) -> Floats:
    """Return p-values adjusted for their number by Holm's step-down rule; NaN stays, and does not
    count.
    """
    p = np.asarray(p, dtype=np.float64)
    adjusted = np.full(p.shape, math.nan)
    there = np.flatnonzero(~np.isnan(p))
    order = there[np.argsort(p[there], kind="stable")]
    steps = (order.size - np.arange(order.size)) * p[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def ranks_by_block(scores: Any) -> Floats:
    """Return the rank of each model on each data set, 1 for the highest score; equal scores share
    the mean of their ranks.
    """
    return np.asarray(stats.rankdata(-np.asarray(scores, dtype=np.float64), axis=1))


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


def critical_difference(models: int, blocks: int, alpha: float = 0.05) -> float:
    r"""Return Nemenyi's critical difference of mean ranks, :math:`q_\alpha \sqrt{k(k+1)/(6N)}`."""
    q = float(stats.studentized_range.ppf(1.0 - alpha, models, math.inf)) / math.sqrt(2.0)
    return q * math.sqrt(models * (models + 1) / (6.0 * blocks))


def friedman(scores: Any, alpha: float = 0.05) -> Friedman | None:
    """Return Friedman's test; None for fewer than three models or two data sets, which it cannot
    compare.
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
    # All data sets have the same order, so that there is no variance within them.
    F = math.inf if room <= 1e-9 * N * k else (N - 1) * chi2 / room
    F_p = float(stats.f.sf(F, k - 1, (k - 1) * (N - 1)))
    difference = critical_difference(k, N, alpha)
    return Friedman(N, k, ranks.mean(axis=0), chi2, chi2_p, F, F_p, difference, alpha)
