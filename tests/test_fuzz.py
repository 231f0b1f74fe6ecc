"""Hostile calls; ``python -m campaigns.fuzz --count 20000`` makes more."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns import fuzz

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
    assert names | {"plot.losses"} <= {call.name for call in fuzz.catalogue()}
