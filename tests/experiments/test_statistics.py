"""Tests that compare models, beside scipy, published examples, values worked by hand, and what
statsmodels 0.15.0 and scikit-posthocs 0.17.1 print of the same numbers.
"""

import math

import numpy as np
import pytest
from scipy import stats

from svmcvx.experiments.statistics import (
    corrected_t,
    critical_difference,
    friedman,
    holm,
    median_interval,
    wilcoxon,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(0.8, 0.05, 12), RNG.normal(0.82, 0.05, 12)


def test_t_tests():
    # Mean 0.02, standard deviation 0.01, m = 3: t² = 4 / (1/3 + 1/2) = 4.8; two degrees of freedom
    # have p = 1 − t/√(2 + t²).
    found = corrected_t([0.01, 0.02, 0.03], 0.5)
    assert found.p == pytest.approx(1.0 - math.sqrt(4.8 / 6.8), rel=1e-12)
    assert corrected_t(A - B, 0.0).p == pytest.approx(stats.ttest_rel(A, B).pvalue)
    # The same distribution: t at 0.975 and two degrees of freedom.
    half = 4.30265272991 * 0.01 * math.sqrt(5 / 6)
    assert found[:3] == pytest.approx((0.02, 0.02 - half, 0.02 + half))


@pytest.mark.parametrize("difference", [[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [0.1], []])
def test_without_a_variance_there_is_no_p_value_but_a_reason(difference):
    for found in (corrected_t(difference, 0.0), corrected_t(difference, 0.5)):
        assert all(map(math.isnan, (found.low, found.high, found.p, wilcoxon(difference))))
        assert found.reason
        assert math.isnan(found.mean) == (not difference)


def test_the_signed_rank_test():
    # All of six differences positive: two of 2⁶ signs are as extreme; five cannot be significant.
    assert wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == pytest.approx(2 / 64)
    assert math.isnan(wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert wilcoxon(A - B) == pytest.approx(stats.wilcoxon(A, B).pvalue)
    # [Demsar] splits the ranks of zeros between the signs: 1 and 2 to each side, which shifts the
    # other ranks by two. The negative difference then has rank 3 of 8: as extreme are sums of ranks
    # of at most 3 out of 3 ... 8, two of 2⁶ a side.
    assert wilcoxon([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0, 0.0]) == pytest.approx(4 / 64)
    # Table 2 of [Demsar]: C4.5 and C4.5+m on fourteen data sets, significant at 0.05.
    plain = "763 599 954 628 882 936 661 583 775 1000 940 619 972 957"
    tuned = "768 591 971 661 888 931 668 583 838 1000 962 666 981 978"
    difference = np.array(tuned.split(), dtype=float) - np.array(plain.split(), dtype=float)
    assert stats.wilcoxon(difference, zero_method="zsplit").statistic == 12.0
    assert wilcoxon(difference) < 0.05


def test_the_interval_of_a_median():
    # Six differences: all on one side of the median with probability 2/2⁶; nine: at most one on a
    # side with probability 2·(1 + 9)/2⁹ < 0.05.
    assert median_interval([6, 1, 5, 2, 4, 3]) == (1, 6)
    assert median_interval(range(1, 10)) == (2, 8)
    assert all(map(math.isnan, median_interval([1, 2, 3, 4, 5])))


def test_holm():
    # Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, and never falling.
    by_hand = [0.06, 0.5, 0.04, math.nan, 0.06]
    np.testing.assert_allclose(holm([0.03, 0.5, 0.01, math.nan, 0.02]), by_hand)
    statsmodels = [0.12, 0.5, 0.06, 0.10, 0.12, 0.12]
    np.testing.assert_allclose(holm([0.03, 0.5, 0.01, 0.02, 0.04, 0.04]), statsmodels)
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).size == 0


def test_friedman_by_hand():
    # Ranks 1, 2, 3 three times and 2, 1, 3 once: means 1.25, 1.75, 3; chi² = 12·4/(3·4)·(1.5625 +
    # 3.0625 + 9 − 12) = 6.5, with two degrees of freedom; F = 3·6.5/(4·2 − 6.5) = 13.
    found = friedman([[3, 2, 1], [3, 2, 1], [3, 2, 1], [2, 3, 1]])
    assert found.ranks.tolist() == [1.25, 1.75, 3.0]
    assert (found.chi2, found.chi2_p) == (pytest.approx(6.5), pytest.approx(math.exp(-6.5 / 2)))
    assert (found.F, found.F_p) == (pytest.approx(13.0), pytest.approx(stats.f.sf(13.0, 2, 6)))
    assert found.critical_difference == critical_difference(3, 4, found.alpha)
    same = friedman([[3, 2, 1]] * 3)
    assert (same.chi2, same.F, same.F_p) == (pytest.approx(6.0), math.inf, 0.0)
    level = friedman([[1.0, 1.0, 1.0]] * 4)
    assert (level.chi2, level.chi2_p, level.F_p) == (0.0, 1.0, 1.0)
    for few in ([[1.0, 2.0]] * 5, [[1.0, 2.0, 3.0]], [[1.0, 2.0, math.nan], [1.0, 2.0, 3.0]]):
        assert friedman(few) is None
    assert friedman([[3, 2, 1], [1, 2, math.nan], [3, 2, 1]]).blocks == 2


def test_friedman_with_ties_and_nemenyi_beside_scikit_posthocs():
    rows = "78 70 71 72|71 78 78 75|70 70 73 74|76 74 72 71|76 77 70 71|74 73 78 75|74 74 76 75"
    scores = np.array([row.split() for row in f"{rows}|71 77 77 79|77 72 73 76".split("|")], float)
    found, other = friedman(scores), stats.friedmanchisquare(*scores.T)
    assert (found.chi2, found.chi2_p) == pytest.approx((other.statistic, other.pvalue))
    assert (found.chi2, found.chi2_p) == pytest.approx((1.46511627908, 0.69034455632))
    # The p-value that scikit-posthocs prints for the largest difference of mean ranks.
    quantile = stats.studentized_range.ppf(1 - 0.6923327754563378, 4, np.inf)
    distance = quantile / math.sqrt(2) * math.sqrt(20 / 54)
    assert np.ptp(found.ranks) == pytest.approx(distance, rel=1e-3)
    assert np.ptp(found.ranks) < found.critical_difference


def test_critical_differences_are_those_of_demsar():
    # q at 0.05 for two to ten models: Table 5; and the example of the paper.
    table = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
    for models, q in enumerate(table, start=2):
        expected = q * math.sqrt(models * (models + 1) / (6 * 30))
        assert critical_difference(models, 30) == pytest.approx(expected, rel=5e-4)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
