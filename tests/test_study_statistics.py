"""Tests that compare models, against scipy, published values, and values computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from svmcvx.experiments.studies.statistics import (
    corrected_t,
    critical_difference,
    friedman,
    holm,
    paired_t,
    ranks_by_block,
    wilcoxon,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(0.8, 0.05, 12), RNG.normal(0.82, 0.05, 12)


def test_the_paired_t_test_is_that_of_scipy():
    assert paired_t(A - B) == pytest.approx(stats.ttest_rel(A, B).pvalue, rel=1e-12)
    assert corrected_t(A - B, 0.0) == pytest.approx(stats.ttest_rel(A, B).pvalue, rel=1e-12)


def test_the_corrected_test_by_hand():
    # Mean 0.02, standard deviation 0.01, m = 3: t² = 4 / (1/3 + 1/2) = 4.8; two degrees of freedom have p = 1 − t/√(2 + t²).
    expected = 1.0 - math.sqrt(4.8 / 6.8)
    assert corrected_t([0.01, 0.02, 0.03], 0.5) == pytest.approx(expected, rel=1e-12)
    assert corrected_t([0.01, 0.02, 0.03], 0.5) > paired_t([0.01, 0.02, 0.03])


@given(arrays(float, st.integers(2, 8), elements=st.floats(-1, 1, width=16)), st.floats(0, 3), st.floats(0, 3))
def test_more_overlap_makes_the_test_more_careful(difference, low, high):
    low, high = sorted((low, high))
    p, q = corrected_t(difference, low), corrected_t(difference, high)
    assert 0 <= p <= q + 1e-12 <= 1 + 1e-9
    assert corrected_t(-difference, low) == p


def test_equal_differences():
    assert paired_t([0.0, 0.0, 0.0]) == corrected_t([0.0] * 3, 0.5) == wilcoxon([0.0] * 3) == 1.0
    assert paired_t([0.1] * 3) == corrected_t([0.1] * 3, 0.5) == 0.0
    assert all(map(math.isnan, (paired_t([0.1]), corrected_t([], 0.5), wilcoxon([]))))


def test_the_signed_rank_test_by_hand():
    # All of five differences positive: two of 2⁵ signs are as extreme.
    assert wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5]) == pytest.approx(2 / 32)
    assert wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5, 0.0]) == pytest.approx(2 / 32, rel=0.5), "zeros are left out"
    assert wilcoxon(A - B) == pytest.approx(stats.wilcoxon(A, B).pvalue)


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, and never falling.
    np.testing.assert_allclose(holm([0.03, 0.5, 0.01, math.nan, 0.02]), [0.06, 0.5, 0.04, math.nan, 0.06])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).size == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_value_and_bonferronis(p):
    adjusted = holm(p)
    assert (adjusted >= np.asarray(p) - 1e-15).all()
    assert (adjusted <= np.minimum(len(p) * np.asarray(p), 1.0) + 1e-15).all()


def test_friedman_by_hand():
    # Ranks 1, 2, 3 three times and 2, 1, 3 once: means 1.25, 1.75, 3; chi² = 12·4/(3·4)·(1.5625 + 3.0625 + 9 − 12) = 6.5.
    scores = [[3, 2, 1], [3, 2, 1], [3, 2, 1], [2, 3, 1]]
    found = friedman(scores)
    assert found.ranks.tolist() == [1.25, 1.75, 3.0]
    assert found.chi2 == pytest.approx(6.5)
    assert found.chi2_p == pytest.approx(math.exp(-6.5 / 2)), "two degrees of freedom"
    # F = 3·6.5/(4·2 − 6.5) = 13.
    assert pytest.approx(13.0) == found.F
    assert found.F_p == pytest.approx(stats.f.sf(13.0, 2, 6))


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


def test_equal_scores_share_their_ranks():
    assert ranks_by_block([[0.9, 0.8, 0.9]]).tolist() == [[1.5, 3.0, 1.5]]
