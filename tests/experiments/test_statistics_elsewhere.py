"""Tests that compare models, beside what baycomp 1.0.3, statsmodels 0.15.0, scipy and
scikit-posthocs 0.17.1 print of the same numbers.
"""

import math

import numpy as np
import pytest
from scipy import stats

from svmcvx.experiments.statistics import (
    bayesian_signed_rank,
    correlated_t,
    friedman,
    holm,
    mcnemar,
)

# Differences, and the probabilities of "first worse", "practically equal" and "first better" that
# baycomp prints at a region of 0.008: CorrelatedTTest.probs for one run of cross-validation, and
# SignedRankTest.probs with 200 000 draws.
BAYCOMP = {
    "three": ([0.01, 0.02, 0.03], (0.04593931243236889, 0.1136494240551259), (0.0, 0.03692)),
    "ten": (
        [0.02, -0.01, 0.03, 0.00, 0.01, 0.01, -0.02, 0.04, 0.02, 0.01],
        (0.023207248053062464, 0.3387919705395237),
        (0.00479, 0.146285),
    ),
    "mostly ties": (
        [0.0, 0.0, 0.01, 0.0, -0.01, 0.0],
        (0.0455116209255353, 0.9089767581489294),
        (0.00123, 0.997595),
    ),
    "one observation apart": (
        [1 / 106, 1 / 106, 2 / 106, 1 / 106, 1 / 106, 1 / 106],
        (0.00022590887185280445, 0.12666760528593812),
        (0.0, 0.02845),
    ),
    "both signs": (
        [0.3, -0.3, 0.1, -0.1, 0.2, -0.2, 0.05],
        (0.45210724627241167, 0.05061193814788312),
        (0.45179, 0.000505),
    ),
}
# Half the width of the region. Where a mean of two differences lies on its edge, baycomp counts one
# half, and we count it within.
ROPE = 0.008


@pytest.mark.parametrize("case", BAYCOMP)
def test_bayesian_tests_beside_baycomp(case):
    difference, (worse, equal), (rank_worse, rank_equal) = BAYCOMP[case]
    # Folds of one run: a test part has 1/(folds - 1) of the observations of its training part.
    found = correlated_t(difference, 1.0 / (len(difference) - 1), ROPE)
    assert (found.second, found.equal) == (
        pytest.approx(worse, rel=1e-9),
        pytest.approx(equal, rel=1e-9),
    )
    ranked = bayesian_signed_rank(difference, ROPE)
    # Four standard errors of 10 000 draws.
    assert ranked.second == pytest.approx(rank_worse, abs=0.02)
    assert ranked.equal == pytest.approx(rank_equal, abs=0.02)


@pytest.mark.parametrize("difference", [[0.05] * 4, [0.0] * 4])
def test_equal_differences_have_no_posterior_where_baycomp_is_certain(difference):
    # baycomp prints (0, 0, 1) and (0, 1, 0): a certainty from splits that share their training
    # parts.
    assert all(map(math.isnan, correlated_t(difference, 1 / 3, 0.01)))


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [
        (7, 1, 0.0703125),
        (0, 6, 0.03125),
        (221, 158, 0.0014168806890123586),
        (190, 144, 0.01368527489943534),
    ],
)
def test_mcnemar_beside_statsmodels(better, worse, p):
    y = np.zeros(better + worse)
    first = np.r_[np.zeros(better), np.ones(worse)]
    assert mcnemar(y, first, 1.0 - first) == pytest.approx(p, rel=1e-9)


def test_holm_beside_statsmodels():
    np.testing.assert_allclose(
        holm([0.03, 0.5, 0.01, 0.02, 0.04, 0.04]), [0.12, 0.5, 0.06, 0.10, 0.12, 0.12]
    )


# Accuracies of four models on nine data sets, with ties; a row a data set.
SCORES = np.array(
    [
        [0.78, 0.70, 0.71, 0.72],
        [0.71, 0.78, 0.78, 0.75],
        [0.70, 0.70, 0.73, 0.74],
        [0.76, 0.74, 0.72, 0.71],
        [0.76, 0.77, 0.70, 0.71],
        [0.74, 0.73, 0.78, 0.75],
        [0.74, 0.74, 0.76, 0.75],
        [0.71, 0.77, 0.77, 0.79],
        [0.77, 0.72, 0.73, 0.76],
    ]
)


def test_friedman_beside_scipy():
    found, other = friedman(SCORES), stats.friedmanchisquare(*SCORES.T)
    assert (found.chi2, found.chi2_p) == (
        pytest.approx(other.statistic),
        pytest.approx(other.pvalue),
    )
    assert (found.chi2, found.chi2_p) == (
        pytest.approx(1.4651162790697734),
        pytest.approx(0.6903445563182691),
    )


def test_nemenyi_and_the_critical_difference_say_the_same():
    # scikit-posthocs prints 0.6923 for the largest difference of mean ranks: far from the critical
    # difference.
    found = friedman(SCORES)
    assert np.ptp(found.ranks) < found.critical_difference
    distance = (
        stats.studentized_range.ppf(1 - 0.6923327754563378, 4, np.inf)
        / math.sqrt(2)
        * math.sqrt(20 / 54)
    )
    assert np.ptp(found.ranks) == pytest.approx(distance, rel=1e-3)
