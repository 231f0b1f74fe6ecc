"""Hostile calls; ``python -m campaigns.fuzz --count 20000`` makes more."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from campaigns import fuzz


@pytest.mark.slow
@settings(max_examples=250)
@given(st.integers(0, 2**31))
# What once escaped: an overflow, an array where a word is due, a generator that is none, a sparse
# matrix for a dense model.
@example(7595)
@example(1672)
@example(3797)
@example(74)
@example(52478)
@example(54122)
@example(65851)
@example(66467)
@example(80571)
@example(89532)
@example(92834)
@example(98183)
@example(98775)
@example(109379)
@example(280446)
def test_a_hostile_call_is_answered_or_refused_in_a_sentence(number):
    outcome = fuzz.made(number, slow=math.inf)
    assert outcome.ended in fuzz.GOOD, f"{outcome.call}: {outcome.ended}, {outcome.detail}"


def test_calls_reach_everything_public():
    reached = {call.name for call in fuzz.catalogue()}
    for name in (
        "select",
        "compare",
        "fast.zero_one",
        "solve(conic_sdp)",
        "M3SVMClassifier",
        "plot.losses",
    ):
        assert name in reached
