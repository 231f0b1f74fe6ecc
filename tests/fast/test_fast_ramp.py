"""The ramp loss by branch and bound."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import svmcvx as sx
from campaigns.exact_zero_one import judge
from svmcvx.estimators import indicator
from svmcvx.fast.indicator import ramp
from svmcvx.fast.search.node_passes import FREE, KEPT, minimise_relaxation
from svmcvx.fast.search.state import SearchSettings
from svmcvx.solution import Status
from svmcvx.synthetic import outlier_data


def test_a_large_price_leaves_a_bound_with_a_kernel():
    # C is 9e6, and the factor misses 1e-14 of the kernel.
    assert judge(23, problem="ramp", time_limit=None) == "certified"


def test_limits_warm_starts_and_settings():
    X, y = outlier_data(100, 5, sigma=1.0, seed=4)
    stopped = ramp(X, y, C=0.3, max_iter=2)
    assert stopped.status == Status.ITERATION_LIMIT
    assert 0 < stopped.certificate.lower < stopped.certificate.upper
    again = ramp(X, y, C=0.3, max_iter=1, warm_start=stopped)
    assert again.certificate.upper <= stopped.certificate.upper * (1 + 1e-9)
    X, y, few = X[:40], y[:40], SearchSettings(expansions=1, rounds=1)
    one, *others = ramp(X, y, C=0.3), ramp(X, y, C=0.3, settings=few), ramp(X + 100.0, y, C=0.3)
    for other in others:
        assert other.certificate.upper == pytest.approx(one.certificate.upper, rel=1e-6)


# --- minimising the relaxation


class StopsAfter:
    """A stop flag that is set once it has been read so many times."""

    def __init__(self, reads):
        self.left = reads

    def __getitem__(self, _):
        self.left -= 1
        return int(self.left < 0)


def minimised(stop, r=4, n=30, free=True):
    rng = np.random.default_rng(7)
    HT = rng.standard_normal((r, n)) / 4.0
    length = np.linalg.norm(HT[: r - free], axis=0) * (1 + 1e-12)
    state = rng.choice(np.array([FREE, KEPT], dtype=np.int8), n, p=[0.8, 0.2])
    height, reach = np.full(n, 0.7), rng.uniform(1.0, 5.0, n)
    cap = height / np.where(state == FREE, reach, 2.0)
    w, (a, slope, bend), (centre, base, step) = np.zeros(r), np.zeros((3, n)), np.zeros((3, r))
    limits = (-3.0, 3.0) if free else (0.0, 0.0)
    scratch = bend, base, step, np.zeros((r + 1, r))
    with np.errstate(all="raise"):
        found = minimise_relaxation(
            (HT, length), (state, cap, height, reach), (2.0, 50.0, free), 1e-6, *limits, 0.0, 1e9,
            w,
            (a, slope, centre, *scratch), stop,
        )  # fmt: skip
    return found, w, scratch[3]


@pytest.mark.parametrize("free", [False, True])
def test_a_minimisation_that_is_stopped_anywhere_has_a_bound_that_is_no_better(free):
    whole = StopsAfter(10**9)
    best = minimised(whole, free=free)[0][0]
    reads = 10**9 - whole.left
    assert reads > 2 * 4
    for after in range(reads + 1):
        below, error, longest, _ = minimised(StopsAfter(after), free=free)[0]
        assert below <= best + 1e-9 * abs(best)
        assert np.isfinite([error, longest]).all()


def test_a_classifier_without_a_limit_ends_after_counted_rounds(monkeypatch):
    monkeypatch.setattr(indicator, "MOST_ROUNDS", 3)
    X, y = outlier_data(60, 8, sigma=1.0, outliers="spread", seed=4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        fitted = sx.RampSVMClassifier(C=0.3).fit(X, y)
    assert fitted.solution_.status == Status.ITERATION_LIMIT
    assert fitted.solution_.attempts[0].iterations == 3
    assert 0.0 < fitted.certificate_.lower < fitted.certificate_.upper
