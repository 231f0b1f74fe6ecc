"""Intervals are theorems: hostile instances, copies, units, and numbers out of range."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from campaigns import fuzz
from campaigns.extreme import check as extremes
from campaigns.hostile import check
from tests.conftest import make_data

X, Y = make_data(seed=3, n=40, d=3)


def test_both_checkers_agree_at_a_tiny_scale():
    """The dual objective is 5.5e-23, by fractions at least what the package claims."""
    label, outcome, _, why = check(44005901)
    assert (label, outcome) == ("fast.multiclass on scaled", "certified"), why


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(10_000, 10_000_000))
def test_any_hostile_instance_holds(seed):
    label, outcome, _, why = check(seed)
    assert outcome != "MISS", (seed, label, why)


def test_a_problem_with_more_constraints_has_no_proof(tmp_path):
    problem = sx.psvm_primal(X, Y, C=1.0, p=2.0)
    added = sx.solve(problem.with_constraints([problem.var_dict["w"] >= -10]))
    with pytest.raises(sx.DataError, match="added constraints"):
        added.save_proof(tmp_path / "proof.npz")
    assert not list(tmp_path.iterdir())


def test_changing_the_data_after_building_changes_nothing():
    data = X.copy()
    problem = sx.psvm_dual(data, Y, C=1.0, p=1.5, kernel="rbf")
    data *= 3.0
    kept = sx.solve(problem)
    fresh = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=1.5, kernel="rbf"))
    assert kept.certificate == fresh.certificate


def test_the_gap_is_the_same_in_any_units():
    one = sx.fast.psvm(X, Y, C=1.0, p=1.0).certificate
    # Powers of two, so that nothing is rounded differently.
    other = sx.fast.psvm(X * 2.0**13, Y, C=2.0**-26, p=1.0).certificate
    assert other.upper == pytest.approx(one.upper * 2.0**-26, rel=1e-5)
    assert other.is_certified(1e-6)
    assert other.gap == pytest.approx((other.upper - other.lower) / other.upper, rel=1e-12)
    json.dumps(other.to_dict())


OUT_OF_RANGE = {
    "C": (lambda: sx.fast.psvm(X, Y, C=10**400, p=1), "C is beyond the largest"),
    "objects": (
        lambda: sx.fast.psvm(np.array([[10**400], [1], [2]], dtype=object), [0, 1, 0], C=1.0, p=1),
        "not numeric",
    ),
    "rows": (
        lambda: sx.fast.psvm(X * 1e160, Y, C=1.0, p=1),
        "the rows of X reach a squared length",
    ),
    "rows, built": (
        lambda: sx.psvm_dual(X * 1e200, Y, C=1.0, p=1.5),
        "the rows of X reach a squared length",
    ),
    "costs": (lambda: sx.fast.psvm(X, Y, C=1.7e308, p=1), "the costs C times sample_weight"),
    "tiny costs": (
        lambda: sx.fast.psvm(
            X, Y, C=1.0, p=1.5, kernel="rbf", sample_weight=np.r_[1e-200, np.ones(39)]
        ),
        "the costs C times sample_weight",
    ),
    "kernel": (
        lambda: sx.fast.psvm(X * 1e3, Y, C=1.0, p=1, kernel=sx.Polynomial(60, 1.0)),
        "k\\(x, x\\) of the kernel",
    ),
    "matrix": (
        lambda: sx.fast.psvm(np.eye(40) * 1e300, Y, C=1.0, p=1, kernel="precomputed"),
        "entries of 1e\\+300",
    ),
    "one dimension": (
        lambda: sx.fast.psvm(sp.coo_array(np.arange(5.0)), Y, C=1.0, p=1),
        "two-dimensional",
    ),
    "ragged weights": (
        lambda: sx.fast.psvm(X, Y, C=1.0, p=1, sample_weight=[[1], [1, 2]]),
        "cannot be read as an array",
    ),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_numbers_out_of_range_are_refused_in_a_sentence(name):
    call, message = OUT_OF_RANGE[name]
    with pytest.raises(sx.DataError, match=message):
        call()


# Hostile calls; ``python -m campaigns.fuzz --count 20000`` makes more


# What once escaped: an overflow, an array where a word is due, a generator that is none, a sparse
# matrix for a dense model.
ESCAPED = [7595, 1672, 3797, 74, 52478, 54122, 65851, 66467, 80571, 89532, 92834, 98183, 98775]
ESCAPED += [109379, 280446]


def answered_or_refused(number):
    outcome = fuzz.made(number, slow=math.inf)
    assert outcome.ended in fuzz.GOOD, f"{outcome.call}: {outcome.ended}, {outcome.detail}"


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(0, 2**31))
def test_a_hostile_call_is_answered_or_refused_in_a_sentence(number):
    answered_or_refused(number)


@pytest.mark.slow
def test_what_once_escaped_is_answered_or_refused():
    for number in ESCAPED:
        answered_or_refused(number)


def test_calls_reach_everything_public():
    names = {"select", "compare", "fast.zero_one", "solve(conic_sdp)", "M3SVMClassifier"}
    assert names | {"plot.gap_trace"} <= {call.name for call in fuzz.catalogue()}


# Numbers at the ends of their range


@pytest.mark.parametrize("seed", [*range(30), 225, 683])
def test_extreme_numbers_end_in_an_interval_or_an_error_of_the_package(seed):
    call, end, _, why = extremes(seed)
    assert end not in ("FALSE", "MISS"), (call, why)


@pytest.mark.parametrize("build", [sx.odm_primal, sx.odml_dual, sx.fast.odm, sx.fast.odml])
def test_a_weight_whose_share_underflows_is_refused(build):
    weight = np.r_[1e-300, np.ones(11)]
    with pytest.raises(sx.DataError, match=r"the share 9\.09e-302 of the sum of weights"):
        build(X[:12], Y[:12], sample_weight=weight)
