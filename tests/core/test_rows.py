"""Sums of matrices whose rows are known up to a distance, in fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from svmcvx.core.rows import added_rows


@given(st.integers(0, 10_000))
def test_the_distance_of_added_rows_counts_what_the_sum_loses(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, 3, 2)) * 10.0 ** rng.integers(-8, 9, (2, 3, 2))
    distances = rng.choice([0.0, 1e-12, 1.0], (2, 3))
    value, distance = added_rows(first, second, distances)
    for row in range(3):
        lost = [
            Fraction(float(v)) - Fraction(float(a)) - Fraction(float(b))
            for v, a, b in zip(value[row], first[row], second[row], strict=True)
        ]
        least = Fraction(float(distance[row])) - sum(Fraction(float(d)) for d in distances[:, row])
        assert least >= 0
        assert least**2 >= sum(part**2 for part in lost)
