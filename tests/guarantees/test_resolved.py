"""Scores of the conic relaxation by perturbed problems: every model that is as good as the solution
has scores inside the intervals.
"""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.formulations.conic_loss.recovery import moment_of
from svmcvx.formulations.conic_loss.statement import ConicLoss


def instance(seed):
    """Data, test rows, λ, arguments and the tolerance of the solution."""
    rng = np.random.default_rng([seed, 32])
    n, d = int(rng.integers(6, 16)), int(rng.integers(1, 4))
    y = np.where(rng.permutation(n) % 2 == 0, 1, -1)
    X = rng.standard_normal((n, d)) + rng.choice([0.3, 1.5, 3.0]) * y[:, None]
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-1, 1, d)
    arguments = {"intercept": bool(rng.random() < 0.7)}
    if rng.random() < 0.4:
        arguments["sample_weight"] = rng.choice([0.5, 1.0, 2.0], n)
    T = np.vstack([X[:1], X.mean(axis=0) + 2.0 * X.std(axis=0) * rng.standard_normal((2, d))])
    return (
        X,
        y,
        T,
        float(10.0 ** rng.uniform(-1, 1.5)),
        arguments,
        float(10.0 ** rng.uniform(-7, -1)),
    )


def as_good(statement, model, upper, directions):
    """Models (w, b) in the columns of the factor with an objective of at most `upper`, as far as
    they go from the model.
    """
    moment = moment_of(model)
    start = moment.w
    for direction in directions:
        low, high = 0.0, 1e3
        for _ in range(60):
            middle = 0.5 * (low + high)
            value = statement.evaluate(
                statement.model(start + middle * direction, moment.V)
            ).upper_end
            low, high = (middle, high) if value <= upper else (low, middle)
        if low > 0.0:
            yield start + low * direction


def check(seed, shrink=None):
    """What became of one instance: a word, intervals, misses, decided labels."""
    X, y, T, lam, arguments, loose = instance(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fine = sx.fast.conic(X, y, lam=lam, tol=1e-10, **arguments)
        found = sx.guarantee(fine, X, y, max_rows=10)
        # A solution with a larger gap: all that is better than U has to be inside.
        upper = found.upper * (1.0 + loose)
        object.__setattr__(
            found, "upper", upper if shrink is None else found.upper * (1.0 + shrink * loose)
        )
        scores = found.scores(T)
    statement = ConicLoss(space=found.space, lam=lam)
    rng = np.random.default_rng([seed, 33])
    constant = [1.0] if arguments["intercept"] else []
    rows = [np.append(row, constant) for row in T]
    directions = [s * row / np.linalg.norm(row) for row in rows for s in (1.0, -1.0)]
    directions += [v / np.linalg.norm(v) for v in rng.standard_normal((4, rows[0].size))]
    misses = 0
    for w in [moment_of(fine.model).w, *as_good(statement, fine.model, upper, directions)]:
        for t, row in enumerate(rows):
            exact = sum(
                (Fraction(a) * Fraction(b) for a, b in zip(w.tolist(), row.tolist(), strict=True)),
                Fraction(0),
            )
            misses += (
                not Fraction(max(scores.lower[t], -1e300))
                <= exact
                <= Fraction(min(scores.upper[t], 1e300))
            )
    return "MISS" if misses else "held", len(rows), misses, int(scores.decided.sum())


@pytest.mark.parametrize("seed", range(4))
def test_models_that_are_as_good_are_inside(seed):
    assert check(seed)[0] == "held"


def test_intervals_of_a_smaller_gap_are_found_wrong():
    assert any(check(seed, shrink=0.2)[0] == "MISS" for seed in range(4))


def test_the_conic_relaxation_is_asked_for():
    X, y = sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=1)
    solution = sx.fast.conic(X, y, lam=1.0, tol=1e-8)
    with pytest.raises(sx.DataError, match=r"no modulus of convexity .* pass max_rows"):
        sx.guarantee(solution, X, y)
    found = sx.guarantee(solution, sp.csr_array(X), y, max_rows=3)
    scores, own = found.scores(X[:3]), solution.model.decision_function(X[:3])
    assert scores.decided.all()
    assert ((scores.lower <= own) & (own <= scores.upper)).all()
    assert (scores.upper - scores.lower).max() < 0.1
    with pytest.raises(sx.DataError, match=r"T has 4 rows, .* pass max_rows=4"):
        found.scores(X[:4])
    with pytest.raises(sx.DataError, match="follows from a problem of its own"):
        found.proof(X[:1])
    assert found.radius == np.inf
    assert "3 rows a call" in repr(found)
    late = sx.guarantee(solution, X, y, max_rows=3, time_limit=1e-9).scores(X[:3])
    assert not late.decided.any()
    with pytest.raises(sx.DataError, match="with kappa"):
        sx.guarantee(sx.fast.conic(X, y, kappa=0.2), X, y, max_rows=3)
    with pytest.raises(sx.DataError, match="max_rows"):
        sx.guarantee(solution, X, y, max_rows=0)
    # A wrong dual point gives wide intervals.
    none = replace(solution, dual={name: 0.0 * values for name, values in solution.dual.items()})
    wide = sx.guarantee(none, X, y, max_rows=1).scores(X[:1])
    assert wide.lower[0] <= own[0] <= wide.upper[0]


def test_a_kernel():
    X, y = sx.synthetic.outlier_data(12, 2, sigma=0.5, outliers="spread", seed=2)
    solution = sx.fast.conic(X, y, lam=2.0, kernel=sx.RBF(0.5), tol=1e-9)
    scores, own = (
        sx.guarantee(solution, X, y, max_rows=2).scores(X[:2] + 0.1),
        solution.model.decision_function(X[:2] + 0.1),
    )
    assert ((scores.lower <= own) & (own <= scores.upper)).all()
    assert scores.decided.all()
