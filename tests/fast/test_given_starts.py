"""Starts by coefficients and an intercept, of whatever solver."""

import numpy as np
import pytest
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx import DataError, fast

X, Y = sx.synthetic.outlier_data(120, 3, sigma=0.5, outliers="spread", seed=3)


@pytest.mark.parametrize(
    ("solver", "settings"),
    [
        (fast.psvm, {"C": 1.0, "p": 2.0}),
        (fast.psvm, {"C": 1.0, "p": 1.0}),
        (fast.odm, {"C1": 2.0}),
        (fast.odm, {"C1": 2.0, "intercept": True}),
    ],
)
def test_a_start_at_the_optimum_takes_fewer_iterations_and_any_start_has_the_same_answer(
    solver, settings
):
    cold = solver(X, Y, tol=1e-9, **settings)
    warm = solver(X, Y, tol=1e-9, warm_start=(cold.model.coef, cold.model.intercept), **settings)
    bad = solver(X, Y, tol=1e-9, warm_start=(-5.0 * cold.model.coef, 3.0), **settings)
    assert warm.warm_start_used
    for other in (warm, bad):
        assert other.certificate.is_certified(1e-9)
        assert other.certificate.lower <= cold.certificate.upper
        assert other.certificate.upper >= cold.certificate.lower
    if settings.get("p") != 1.0:  # whose answer comes from another method without a start
        assert warm.attempts[0].iterations < cold.attempts[0].iterations


def test_the_model_of_another_package_is_a_start():
    fitted = SVC(kernel="linear", C=1.0).fit(X, Y)
    found = fast.psvm(X, Y, C=1.0, p=1.5, warm_start=(fitted.coef_, fitted.intercept_))
    assert found.warm_start_used
    assert found.certificate.is_certified(1e-6)


@pytest.mark.parametrize(
    ("start", "settings", "why"),
    [
        ((np.ones(2), 0.0), {}, "2 coefficients and 1 intercepts, these data need 3 and 1"),
        ((np.ones(3), [0.0, 1.0]), {}, "3 coefficients and 2 intercepts"),
        ((np.array([1.0, np.nan, 0.0]), 0.0), {}, "finite numbers"),
        (("abc", 0.0), {}, "must be numbers"),
        ((np.ones(3), 0.0), {"kernel": "rbf"}, "linear machines"),
        ((np.ones(3), 0.0), {"intercept": "penalised"}, "free intercept"),
        (3.0, {}, "must be a Solution"),
    ],
)
def test_other_starts_are_refused(start, settings, why):
    with pytest.raises((DataError, TypeError), match=why):
        fast.psvm(X, Y, warm_start=start, **settings)
