"""Paths that hold between their solutions: no interval excludes an optimum, the gap is the largest,
and bad input is refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import svmcvx as sx
from svmcvx.experiments.paths import RULES, Piece

X, Y = sx.synthetic.outlier_data(24, 2, sigma=0.7, outliers="spread", seed=3)
MACHINES = {
    "psvm p=1": (sx.PSVMClassifier(p=1.0), {"C": (0.01, 100.0)}),
    "psvm rbf": (
        sx.PSVMClassifier(p=1.5, kernel="rbf", class_weight="balanced"),
        {"C": (0.1, 10.0)},
    ),
    "psvm exponent": (sx.PSVMClassifier(C=0.5), {"p": (1.0, 3.0)}),
    "l1": (sx.PSVMClassifier(penalty="l1", p=2.0, intercept="none"), {"C": (0.1, 1.0)}),
    "odm D": (sx.ODMClassifier(C1=10.0, C2=10.0), {"D": (0.0, 0.5)}),
    "odml": (sx.ODMLClassifier(), {"lam1": (0.1, 1.0)}),
    "odml mean": (sx.ODMLClassifier(), {"lam2": (0.01, 0.1)}),
    "odml C": (sx.ODMLClassifier(), {"C": (1.0, 10.0)}),
    "conic": (sx.ConicSVMClassifier(), {"lam": (0.1, 0.4)}),
    "odm C1": (sx.ODMClassifier(C2=0.5), {"C1": (0.1, 10.0)}),
    "odm ray": (sx.ODMClassifier(), {"C1": (0.1, 10.0), "C2": (0.2, 20.0)}),
    "m3svm": (sx.M3SVMClassifier(), {"lam": (0.01, 1.0)}),
    "softmax": (sx.MulticlassSVMClassifier(loss="softmax"), {"lam": (0.1, 10.0)}),
    "0-1": (sx.ZeroOneSVMClassifier(), {"lam": (0.5, 2.0)}),
    "l0": (sx.L0SVMClassifier(method="search"), {"C": (0.5, 2.0)}),
}


@pytest.fixture(scope="module", params=MACHINES)
def solved(request):
    machine, ranges = MACHINES[request.param]
    return machine, sx.certified_path(machine, X, Y, eps=0.03, **ranges)


def test_the_interval_at_any_value_contains_the_optimum(solved):
    machine, path = solved
    assert path.complete
    assert path.gap <= 0.03
    rng = np.random.default_rng(0)
    low, high = path.values[[0, -1]]
    inside = (
        np.exp(rng.uniform(math.log(low), math.log(high), 4)) if low else rng.uniform(low, high, 4)
    )
    for value in inside.tolist():
        found = path.at(value)
        other = clone(machine).set_params(tol=1e-7, **path.parameters_at(value)).fit(X, Y)
        exact = other.solution_.certificate
        assert exact.lower <= found.upper
        assert found.lower <= exact.upper
        assert found.gap <= path.gap + 1e-15


def test_the_gap_is_the_largest_on_a_fine_grid(solved):
    _, path = solved
    values = path.values
    grid = np.r_[values, np.linspace(values[0], values[-1], 200)]
    if values[0]:
        grid = np.r_[grid, np.clip(np.geomspace(values[0], values[-1], 500), values[0], values[-1])]
    lower, upper = path.bounds(grid)
    gaps = (upper - lower) / np.maximum(np.abs(upper), np.abs(lower))
    # Ends are rounded outwards to doubles.
    assert gaps.max() <= path.gap + 1e-15
    assert gaps.max() >= 0.5 * path.gap


def test_a_smaller_gap_takes_more_solutions():
    few, many = (
        sx.certified_path(sx.PSVMClassifier(kernel="rbf"), X, Y, C=(0.1, 10.0), eps=eps)
        for eps in (0.1, 1e-3)
    )
    assert len(few) < len(many)
    assert many.gap <= 1e-3
    assert len(many) == len(many.to_frame()) == len(many.solutions)


def test_one_value_is_a_path_of_one_solution_without_an_interval_elsewhere():
    with pytest.warns(UserWarning, match="are known up to"):
        path = sx.certified_path(sx.PSVMClassifier(), X, Y, C=(1.0, 1.0))
    assert len(path) == 1
    with pytest.raises(sx.DataError, match="no two solutions"):
        path.at(1.0)


def test_no_time_leaves_what_there_is():
    with pytest.warns(UserWarning, match="are known up to"):
        path = sx.certified_path(
            sx.PSVMClassifier(p=1.5), X, Y, C=(1e-3, 1e3), eps=1e-6, time_limit=1e-9
        )
    assert not path.complete
    assert len(path) <= 2


fractions = st.fractions(min_value=Fraction(1, 100), max_value=100)


@given(
    lower=st.tuples(fractions, fractions),
    rise=st.tuples(fractions, fractions, fractions, fractions),
    t=st.fractions(0, 1),
)
def test_the_largest_gap_of_a_piece_is_that_of_a_few_places(lower, rise, t):
    a, b, c, d = rise
    lines = ((lower[0] + a, lower[1] + b), (lower[0] + c, lower[1] + d))
    piece = Piece((1.0, 4.0), (lower,), lines)
    low, high = piece.bounds(t)
    assert (high - low) / high <= Fraction(piece.worst()[0])


@given(ends=st.tuples(*[st.fractions(-3, 3)] * 4), t=st.fractions(0, 1))
def test_where_ends_have_both_signs_the_gap_counts_as_two(ends, t):
    a, b, c, d = ends
    lower = (min(a, c), min(b, d))
    piece = Piece((1.0, 2.0), (lower,), ((max(a, c), max(b, d)), None))
    low, high = piece.bounds(t)
    size = max(abs(low), abs(high))
    assert size == 0 or (high - low) / size <= Fraction(piece.worst()[0])


BAD = {
    "a range of another parameter": (sx.PSVMClassifier(), {"D": (1.0, 2.0)}, "varies C or p"),
    "an exponent below 1": (sx.PSVMClassifier(), {"p": (0.5, 2.0)}, "p must"),
    "two parameters of which one varies alone": (
        sx.PSVMClassifier(),
        {"C": (1.0, 2.0), "p": (1.0, 2.0)},
        "p varies alone",
    ),
    "no range": (sx.PSVMClassifier(), {}, "got none"),
    "one number": (sx.PSVMClassifier(), {"C": 1.0}, "two ends"),
    "a decreasing range": (sx.PSVMClassifier(), {"C": (2.0, 1.0)}, "increasing"),
    "zero": (sx.PSVMClassifier(), {"C": (0.0, 1.0)}, "C must"),
    "a weight that is ignored": (sx.ConicSVMClassifier(kappa=0.1), {"lam": (0.1, 1.0)}, "ignored"),
    "a share of the rows": (sx.ConicSVMClassifier(kappa=0.1), {"kappa": (0.1, 0.2)}, "varies lam"),
    "the hard margin": (sx.PSVMClassifier(C=math.inf), {"p": (1.0, 2.0)}, "no parameter"),
    "another estimator": (object(), {"C": (0.1, 1.0)}, "classifiers"),
    "a gap of one": (sx.PSVMClassifier(), {"C": (0.1, 1.0), "eps": 1.0}, "eps"),
    "other ratios": (sx.ODMClassifier(), {"C1": (0.1, 1.0), "C2": (0.1, 2.0)}, "same ratio"),
    "a ratio that is rounded": (
        sx.ODMClassifier(),
        {"C1": (1.0, 2.0), "C2": (3.0, 6.0)},
        "power of two",
    ),
    "a local minimum": (sx.L0SVMClassifier(method="local"), {"C": (0.1, 1.0)}, "local"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_covered_is_refused(what):
    machine, arguments, reason = BAD[what]
    with pytest.raises(sx.DataError, match=reason):
        sx.certified_path(machine, X, Y, **arguments)


def test_several_binary_problems_are_refused():
    Z, labels = np.vstack([X, X + 5.0]), np.r_[Y, np.full(len(Y), 7)]
    with pytest.raises(sx.DataError, match="several problems"):
        sx.certified_path(sx.PSVMClassifier(), Z, labels, C=(0.1, 1.0))


def test_values_outside_of_the_range_are_refused():
    path = sx.certified_path(sx.PSVMClassifier(), X, Y, C=(0.1, 1.0), eps=0.5)
    with pytest.raises(sx.DataError, match=r"from 0\.1 to 1"):
        path.at(2.0)


def test_every_parameter_of_the_table_makes_an_affine_objective():
    covered = {
        (machine._stated_as(), name) for machine, ranges in MACHINES.values() for name in ranges
    }
    stated = {(formulation, name) for formulation, names in RULES.items() for name in names}
    assert stated - covered <= {("ramp", "C")}
