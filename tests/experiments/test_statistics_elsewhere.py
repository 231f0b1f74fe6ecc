"""Tests that compare models, beside what statsmodels 0.15.0, scipy and
scikit-posthocs 0.17.1 print of the same numbers.
"""

import math

import numpy as np
import pytest
from scipy import stats

from svmcvx.experiments.statistics import friedman, holm, mcnemar


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
