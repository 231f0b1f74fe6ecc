"""Tests that compare models, against scipy, published values, and values computed by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from svmcvx.errors import DataError
from svmcvx.experiments.statistics import (
    corrected_t,
    critical_difference,
    effect,
    friedman,
    holm,
    mcnemar,
    median_interval,
    wilcoxon,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(0.8, 0.05, 12), RNG.normal(0.82, 0.05, 12)


def test_the_corrected_test_by_hand():
    # Mean 0.02, standard deviation 0.01, m = 3: t² = 4 / (1/3 + 1/2) = 4.8; two degrees of freedom
    # have p = 1 − t/√(2 + t²).
    expected = 1.0 - math.sqrt(4.8 / 6.8)
    assert corrected_t([0.01, 0.02, 0.03], 0.5) == pytest.approx(expected, rel=1e-12)
    assert corrected_t([0.01, 0.02, 0.03], 0.5) > corrected_t([0.01, 0.02, 0.03], 0.0)


@pytest.mark.parametrize("difference", [[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [0.1], []])
def test_without_a_variance_there_is_no_p_value_but_a_reason(difference):
    values = (corrected_t(difference, 0.0), corrected_t(difference, 0.5), wilcoxon(difference))
    assert all(map(math.isnan, values))
    size = effect(difference, 0.5)
    assert size.reason
    assert math.isnan(size.low)
    assert math.isnan(size.detectable)


def test_without_a_split_there_are_no_numbers():
    assert math.isnan(corrected_t([], 0.5))
    none = effect([], 0.5)
    assert all(math.isnan(value) for value in none[:-1])
    assert none.reason == "no split on which both have a score"
    one = effect([0.1], 0.5)
    assert (one.mean, one.median, one.win) == (0.1, 0.1, 1.0)
    assert math.isnan(one.low)


def test_the_signed_rank_test_by_hand():
    # All of six differences positive: two of 2⁶ signs are as extreme; five cannot be significant.
    assert wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == pytest.approx(2 / 64)
    assert math.isnan(wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert wilcoxon(A - B) == pytest.approx(stats.wilcoxon(A, B).pvalue)
    # Demsar (2006) splits the ranks of zeros between the signs: 1 and 2 to each side, which shifts
    # the other ranks by two. The negative difference then has rank 3 of 8: as extreme are sums of
    # ranks of at most 3 out of 3 ... 8, two of 2⁶ a side.
    assert wilcoxon([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0, 0.0]) == pytest.approx(4 / 64)
    assert wilcoxon([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0, 0.0]) == pytest.approx(
        wilcoxon([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    )
    assert wilcoxon([-0.3, 0.1, 0.2, 0.4, 0.5, 0.6, 0.0, 0.0]) != pytest.approx(
        wilcoxon([-0.3, 0.1, 0.2, 0.4, 0.5, 0.6])
    )


def test_wilcoxon_on_the_example_of_demsar():
    # Table 2 of [Demsar]: C4.5 and C4.5+m on fourteen data sets; the smaller sum of ranks is 12,
    # below the critical 21 at 0.05.
    plain = [
        0.763,
        0.599,
        0.954,
        0.628,
        0.882,
        0.936,
        0.661,
        0.583,
        0.775,
        1.000,
        0.940,
        0.619,
        0.972,
        0.957,
    ]
    tuned = [
        0.768,
        0.591,
        0.971,
        0.661,
        0.888,
        0.931,
        0.668,
        0.583,
        0.838,
        1.000,
        0.962,
        0.666,
        0.981,
        0.978,
    ]
    difference = np.round(np.array(tuned) - plain, 3)
    assert stats.wilcoxon(difference, zero_method="zsplit").statistic == 12.0
    assert wilcoxon(difference) < 0.05


def test_the_interval_of_a_median_by_hand():
    # Six differences: all on one side of the median with probability 2/2⁶; nine: at most one on a
    # side with probability 2·(1 + 9)/2⁹ < 0.05.
    assert median_interval([6, 1, 5, 2, 4, 3]) == (1, 6)
    assert median_interval(range(1, 10)) == (2, 8)
    assert median_interval([0.0] * 6 + [1.0]) == (0.0, 1.0)
    assert all(map(math.isnan, median_interval([1, 2, 3, 4, 5])))


def test_mcnemar_by_hand():
    # Eight observations on which one is right: seven against one have p = 2·(1 + 8)/2⁸.
    y = np.ones(20)
    first, second = y.copy(), y.copy()
    first[0] = second[1:8] = -1
    assert mcnemar(y, first, second) == pytest.approx(2 * 9 / 256)
    assert mcnemar(y, second, first) == mcnemar(y, first, second)
    # The counts of a published comparison: 221 against 158.
    y = np.zeros(379)
    assert mcnemar(
        y, np.r_[np.zeros(221), np.ones(158)], np.r_[np.ones(221), np.zeros(158)]
    ) == pytest.approx(2 * stats.binom.cdf(158, 379, 0.5))
    assert math.isnan(mcnemar(y, y, y))
    with pytest.raises(DataError, match="one length"):
        mcnemar(y, y, y[:3])


def test_effect_sizes_by_hand():
    # Mean 0.02, standard deviation 0.01, m = 3, ratio 1/2: the standard error is 0.01·√(5/6).
    size = effect([0.01, 0.02, 0.03], 0.5)
    # t at 0.975 and two degrees of freedom
    scale, quantile = 0.01 * math.sqrt(5 / 6), 4.302652729911275
    assert (size.mean, size.median, size.win) == (pytest.approx(0.02), 0.02, 1.0)
    assert (size.low, size.high) == (
        pytest.approx(0.02 - quantile * scale),
        pytest.approx(0.02 + quantile * scale),
    )
    assert size.detectable == pytest.approx((quantile + stats.t.ppf(0.8, 2)) * scale)
    assert effect([0.1, -0.1, 0.0, 0.0], 0.0).win == 0.5


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, and never falling.
    np.testing.assert_allclose(
        holm([0.03, 0.5, 0.01, math.nan, 0.02]), [0.06, 0.5, 0.04, math.nan, 0.06]
    )
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).size == 0


def test_friedman_by_hand():
    # Ranks 1, 2, 3 three times and 2, 1, 3 once: means 1.25, 1.75, 3; chi² = 12·4/(3·4)·(1.5625 +
    # 3.0625 + 9 − 12) = 6.5.
    scores = [[3, 2, 1], [3, 2, 1], [3, 2, 1], [2, 3, 1]]
    found = friedman(scores)
    assert found.ranks.tolist() == [1.25, 1.75, 3.0]
    assert found.chi2 == pytest.approx(6.5)
    assert found.chi2_p == pytest.approx(math.exp(-6.5 / 2)), "two degrees of freedom"
    # F = 3·6.5/(4·2 − 6.5) = 13.
    assert pytest.approx(13.0) == found.F
    assert found.F_p == pytest.approx(stats.f.sf(13.0, 2, 6))
    assert (found.alpha, found.critical_difference) == (0.05, critical_difference(3, 4, 0.05))


def test_friedman_where_all_agree_and_where_none_differs():
    same = friedman([[3, 2, 1]] * 3)
    assert (same.chi2, same.F, same.F_p) == (pytest.approx(6.0), math.inf, 0.0)
    level = friedman([[1.0, 1.0, 1.0]] * 4)
    assert (level.chi2, level.chi2_p, level.F_p) == (0.0, 1.0, 1.0)
    assert level.ranks.tolist() == [2.0, 2.0, 2.0]


def test_friedman_needs_enough_and_leaves_out_what_is_missing():
    assert friedman([[1.0, 2.0]] * 5) is None
    assert friedman([[1.0, 2.0, 3.0]]) is None
    assert friedman([[1.0, 2.0, math.nan], [1.0, 2.0, 3.0]]) is None
    assert friedman([[3, 2, 1], [1, 2, math.nan], [3, 2, 1]]).blocks == 2


# q at 0.05 for two to ten models: Table 5 of [Demsar].
Q = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)


def test_critical_differences_are_those_of_demsar():
    for models, q in enumerate(Q, start=2):
        expected = q * math.sqrt(models * (models + 1) / (6 * 30))
        assert critical_difference(models, 30) == pytest.approx(expected, rel=5e-4)
    # The example of the paper.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
