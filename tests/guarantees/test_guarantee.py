"""What every optimal machine predicts: intervals against exact optima, and what is refused."""

import pickle
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate.bounded import exact
from svmcvx.guarantees import theorem as points_module
from svmcvx.guarantees.answers import CertifiedScores, Guarantee
from svmcvx.guarantees.binary import beaten
from svmcvx.guarantees.theorem import (
    KernelPoints,
    LinearPoints,
    PowerTerms,
    QuadraticTerms,
    on_grid,
    room_above,
)

HOSTILE = range(16)


def check(*arguments):
    """An instance of the campaign of predictions."""
    pytest.importorskip("flint")
    from campaigns import predictions

    return predictions.check(*arguments)


def consistent(one, other):
    """Intervals of the same numbers overlap."""
    assert (one.lower <= other.upper).all()
    assert (other.lower <= one.upper).all()


def problem(seed=0, n=60, d=3, m=40):
    rng = np.random.default_rng(seed)
    X, T = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    y, labels = (
        np.where(Z[:, 0] + 0.6 * rng.standard_normal(len(Z)) > 0, "b", "a") for Z in (X, T)
    )
    return X, y, T, labels


# Against exact optima


@pytest.mark.parametrize(
    ("seed", "largest"), [*((seed, 1000) for seed in HOSTILE), *((seed, 3) for seed in range(5))]
)
def test_intervals_contain_every_optimal_score(seed, largest, monkeypatch):
    monkeypatch.setattr(points_module, "LARGEST_SYSTEM", largest)
    _, outcome, counts, why = check(seed)
    assert outcome in ("held", "refused"), why
    assert outcome == "refused" or counts["intervals"]


def test_the_oracle_finds_intervals_of_half_the_radius_wrong():
    assert any(check(seed, 0.5)[1] == "MISS" for seed in HOSTILE)


@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)], ids=str)
@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
def test_intervals_shrink_with_the_gap_and_lie_in_each_other(kernel, p):
    X, y, T, _ = problem()
    found = [
        sx.guarantee(sx.fast.psvm(X, y, C=1.0, p=p, kernel=kernel, tol=tol), X, y).scores(T)
        for tol in (1e-2, 1e-5, 1e-9)
    ]
    for wide, narrow in pairwise(found):
        consistent(wide, narrow)
    widths = [np.median(scores.upper - scores.lower) for scores in found]
    assert widths[2] < 1e-3 * max(widths[0], 1e-6) or widths[2] < 1e-5
    assert found[2].decided.all()


def test_sparse_rows_and_dense_ones_have_intervals_of_the_same_optimum():
    X, y, T, labels = problem()
    X, T = X * (np.abs(X) > 0.8), T * (np.abs(T) > 0.8)
    dense = sx.guarantee(sx.fast.psvm(X, y, C=1.0, p=2.0), X, y)
    solution = sx.fast.psvm(sp.csr_array(X), y, C=1.0, p=2.0)
    sparse = sx.guarantee(solution, sp.csr_array(X), y)
    for rows in (T, sp.csr_array(T)):
        consistent(dense.scores(rows), sparse.scores(rows))
    assert sparse.accuracy(T, labels) == dense.accuracy(T, labels)


@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)], ids=str)
@pytest.mark.parametrize(
    ("solve", "parameters", "intercept"),
    [
        (sx.fast.odm, {"C1": 5.0, "C2": 1.0, "D": 0.1}, True),
        (sx.fast.odm, {"C1": 5.0, "C2": 1.0, "D": 0.1}, False),
        (sx.fast.odml, {"C": 3.0, "lam1": 0.5, "lam2": 0.25}, True),
        (sx.fast.odml, {"C": 3.0, "lam1": 0.0, "lam2": 2.0}, False),
        (sx.fast.odml, {"C": 30.0, "lam1": 20.0, "lam2": 0.0}, True),
    ],
)
def test_margin_distribution_machines(solve, parameters, kernel, intercept):
    X, y, T, _ = problem()
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], y.size)
    solve = partial(solve, kernel=kernel, intercept=intercept, sample_weight=weight, **parameters)

    def solved(tol):
        found = solve(X, y, tol=tol)
        return found, sx.guarantee(found, X, y).scores(T)

    fine, tight = solved(1e-11)
    f = fine.model.decision_function(T)
    # P is strongly convex: ½‖w − w*‖² ≤ U − L.
    reach = np.sqrt(2.0 * (fine.certificate.upper - fine.certificate.lower))
    lengths = np.ones(40) if isinstance(kernel, sx.RBF) else np.linalg.norm(T, axis=1)
    reach = reach * np.sqrt(lengths**2 + intercept) * 1.001 + 1e-12
    for scores in (tight, *(solved(tol)[1] for tol in (0.3, 1e-3))):
        assert (scores.lower <= f + reach).all()
        assert (f - reach <= scores.upper).all()
        consistent(scores, tight)
    assert tight.decided.mean() > 0.95


def test_undecided_by_the_formulation():
    # C so small that w is the same for all intercepts between two breaks: both observations are at
    # their bound.
    X, y = np.array([[-1.0], [1.0]]), [0, 1]
    solution = sx.fast.psvm(X, y, C=0.125, p=1.0)
    assert not solution.optimal_intercepts.unique
    scores = sx.guarantee(solution, X, y).scores([[0.0], [100.0], [-100.0]])
    assert scores.labels.tolist() == [None, 1, 0]
    assert scores.by_formulation.tolist() == [True, False, False]
    assert not scores.by_gap.any()
    assert "1 of them by the formulation" in repr(scores)
    b = solution.optimal_intercepts
    assert scores.lower[0] <= b.lower
    assert b.upper <= scores.upper[0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(0, 39))
def test_coefficients_on_the_grid_have_the_sum_one_exactly(values, taker):
    c = np.array(values)[:, None]
    c = c + (1.0 - c.sum()) / len(values)
    found = on_grid(c, taker % len(values))[:, 0]
    if np.isfinite(found).all():
        assert sum(map(Fraction, found.tolist())) == 1
        assert np.abs(found - c[:, 0]).max() <= 1e-9 * max(1.0, np.abs(c).max())
    else:
        assert np.abs(c).max() >= 2.0**40


def test_coefficients_that_no_grid_holds_are_refused():
    c = np.array([[1e30, np.nan, np.inf, 0.5], [1.0 - 1e30, 1.0, 1.0, 0.5]])
    assert np.isfinite(on_grid(c, 0)).all(axis=0).tolist() == [False, False, False, True]


@pytest.mark.parametrize("p", [1.02, 1.3, 1.5, 2.5, 3.0, 6.0])
def test_what_gains_fall_short_of_their_tangents_by_is_bounded(p):
    flint = pytest.importorskip("flint")
    rng = np.random.default_rng(int(100 * p))
    alpha = np.append(10.0 ** rng.uniform(-6, 2, 7), 0.0)
    cost = 10.0 ** rng.uniform(-2, 2, 8)
    terms = PowerTerms(alpha, exact(cost), p)
    slopes = terms.slopes
    flint.ctx.prec = 400
    power = flint.arb(p)

    def slack(a, c):
        return flint.arb(0) if a == 0 else (a / (c * power)) ** (1 / (power - 1))

    def gain(a, c):
        return a - a * slack(a, c) * (power - 1) / power

    for i in range(8):
        a, c = flint.arb(alpha[i]), flint.arb(cost[i])
        exactly = 1 - slack(a, c)
        assert flint.arb(float(slopes[i].lower)) <= exactly <= flint.arb(float(slopes[i].upper))
        for share in (-1.0, -0.5, -1e-4, 1e-4, 0.5, 3.0):
            step = 0.5
            d = share * (alpha[i] or (1.0 if share > 0 else 0.0)) / step
            found = terms.shortfall(np.array([i]), np.array([[d]]), np.array([step]))[0]
            delta = flint.arb(d) * flint.arb(step)
            true = (gain(a, c) + exactly * delta - gain(a + delta, c)) / flint.arb(step)
            assert flint.arb(found) >= true.lower()
            if abs(share) < 0.1 and alpha[i]:
                rounding = 1e-12 * abs(d) * (1.0 + float(slack(a, c))) + 1e-290
                assert found <= 1.1 * float(true) + rounding


def test_the_shortfall_of_quadratic_gains_is_exact_up_to_rounding():
    terms = QuadraticTerms(exact(np.array([0.5, 0.25])), exact(np.array([3.0, 1.0])))
    found = terms.shortfall(np.array([0, 1]), np.array([[1.0], [-2.0]]), np.array([0.5]))[0]
    assert Fraction(found) >= Fraction(1, 2) * Fraction(1, 2) * (3 + 4)
    assert found == pytest.approx(1.75, rel=1e-12)


def test_room_is_at_most_what_is_left():
    values, bound = np.array([0.1, 0.3, 0.0, 0.7]), np.array([0.3, 0.3, 1e-300, np.inf])
    room = room_above(values, bound)
    for left, value, end in zip(room[:3].tolist(), values.tolist(), bound.tolist(), strict=False):
        assert 0 <= Fraction(left) <= Fraction(end) - Fraction(value)
    assert room[3] == np.inf
    assert np.isinf(room_above(values, np.inf)).all()


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kernel", [None, sx.Linear(), sx.Polynomial(2, 0.5, 1.0)], ids=str)
def test_squared_distances_are_bounded_from_above(kernel, offset):
    X, y, T, _ = problem(n=12, m=5)
    X, T = np.round(8 * X) / 8 + offset, np.round(8 * T) / 8 + offset
    solution = sx.fast.psvm(X, y, C=1.0, p=2.0, kernel=kernel)
    points = sx.guarantee(solution, X, y).theorem.points
    # Columns far from the origin are solved on the data themselves.
    through_kernel = kernel is not None and (kernel != sx.Linear() or offset == 0.0)
    assert isinstance(points, KernelPoints if through_kernel else LinearPoints)
    rows = np.arange(12)
    c = on_grid(np.random.default_rng(0).dirichlet(np.ones(12), 5).T, 0)
    found = points.tested(T).squared_distances(rows, c)

    def k(a, b):
        inner = sum(Fraction(x) * Fraction(z) for x, z in zip(a.tolist(), b.tolist(), strict=True))
        return (Fraction(1, 2) * inner + 1) ** 2 if isinstance(kernel, sx.Polynomial) else inner

    for t, bound, weights in zip(T, found, c.T, strict=True):
        w = [Fraction(x) for x in weights.tolist()]
        true = k(t, t) - 2 * sum(a * k(t, x) for a, x in zip(w, X, strict=True))
        true += sum(a * b * k(x, z) for (a, x), (b, z) in product(zip(w, X, strict=True), repeat=2))
        assert Fraction(bound) >= true
        if kernel is None:
            assert bound == pytest.approx(float(true), rel=1e-6)


class Given(Guarantee):
    """A guarantee that returns given intervals."""

    radius = 0.0

    def __init__(self, scores):
        self.classes, self._scores = scores.classes, scores

    def scores(self, T):
        return self._scores


def binary(lower, upper):
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    possible = np.column_stack([~(lower > 0.0), upper > 0.0])
    return Given(
        CertifiedScores(lower, upper, possible, np.array([0, 1]), np.zeros(lower.size, dtype=bool))
    )


@pytest.mark.parametrize("seed", range(5))
def test_accuracies_are_those_of_the_worst_and_the_best_scores(seed):
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    rng = np.random.default_rng(seed)
    middle, half = rng.integers(-2, 3, 6), rng.choice([0.0, 0.0, 1.0], 6)
    y = np.array([0, 1, 0, 1, 1, int(rng.integers(2))])
    machine = binary(middle - half, middle + half)
    ends = [sorted({m - h, m + h}) for m, h in zip(middle, half, strict=True)]
    choices = [np.array(f) for f in product(*ends)]
    accuracies = [float(np.mean((f > 0) == y)) for f in choices]
    balanced = [balanced_accuracy_score(y, (f > 0).astype(int)) for f in choices]
    areas = [roc_auc_score(y, f) for f in choices]
    T = np.zeros((6, 1))
    assert machine.accuracy(T, y) == pytest.approx((min(accuracies), max(accuracies)))
    assert machine.error(T, y) == pytest.approx((1 - max(accuracies), 1 - min(accuracies)))
    assert machine.balanced_accuracy(T, y) == pytest.approx((min(balanced), max(balanced)))
    found = machine.auc(T, y)
    assert found.lower <= min(areas) + 1e-15
    assert found.upper >= max(areas) - 1e-15
    # No score of a choice has to be the same for two pairs: the ends are reached pair by pair.
    low, high = (middle - half)[y == 1][:, None], (middle + half)[y == 0]
    assert found.lower == pytest.approx(np.mean(0.5 * (low > high) + 0.5 * (low >= high)))


def test_the_difference_of_two_machines():
    y, T = [1, 1, 0, 0], np.zeros((4, 1))
    better, worse = binary([1, 1, -2, -1], [2, 2, -1, 1]), binary([-2, 1, -2, 1], [-1, 2, -1, 2])
    assert better.compare(worse, T, y) == (0.25, 0.5)
    assert worse.compare(better, T, y) == (-0.5, -0.25)


def test_an_interval_prints_one_number_where_both_ends_meet():
    found = sx.Interval(0.5, 0.5)
    assert (str(found), found.is_number, found.width, 0.5 in found) == ("0.5", True, 0.0, True)
    wide = sx.Interval(0.25, 0.5)
    assert (str(wide), wide.is_number) == ("[0.25, 0.5]", False)
    assert 0.3 in wide
    assert 0.6 not in wide


@pytest.mark.parametrize("seed", range(4))
def test_classes_that_are_beaten_are_those_that_no_choice_puts_first(seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 3, (50, 3)).astype(float)
    high = low + rng.choice([0.0, 0.0, 1.0], low.shape)
    second_low = rng.integers(0, 2, low.shape).astype(float)
    second_high = second_low + rng.choice([0.0, 1.0], low.shape)
    found = beaten([(low, high), (second_low, second_high)])
    for row, *ends in zip(found, low, high, second_low, second_high, strict=True):
        firsts, seconds = (
            list(product(*({*each} for each in zip(*pair, strict=True))))
            for pair in (ends[:2], ends[2:])
        )
        for a, b in product(firsts, seconds):
            assert not row[max(range(3), key=lambda k, a=a, b=b: (a[k], b[k], -k))]


@pytest.mark.parametrize(
    "estimator",
    [
        sx.PSVMClassifier(p=1.5),
        sx.PSVMClassifier(kernel="rbf", multiclass="ovr"),
        sx.PSVMClassifier(kernel="rbf", break_ties=False),
        sx.ODMClassifier(),
        sx.ODMLClassifier(kernel="rbf"),
        sx.MulticlassSVMClassifier(loss="crammer_singer", lam=0.1),
        sx.M3SVMClassifier(lam=0.05, p=4.0),
    ],
    ids=repr,
)
def test_estimators_of_several_classes(estimator):
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 2)) + 1.5 * np.stack([y == 1, y == 2], axis=1)
    T = rng.standard_normal((40, 2)) + 0.7
    fine = estimator.fit(X, y)
    labels = sx.guarantee(fine, X, y).predict(T)
    decided = labels != None  # noqa: E711 - element by element
    assert decided.mean() > 0.8
    assert (labels[decided] == fine.predict(T)[decided]).all()
    loose = sx.guarantee(type(estimator)(**estimator.get_params() | {"tol": 0.1}).fit(X, y), X, y)
    others = loose.predict(T)
    both = decided & (others != None)  # noqa: E711
    assert (labels[both] == others[both]).all()
    assert loose.accuracy(X, y).lower <= fine.score(X, y) <= loose.accuracy(X, y).upper


# Refusals


def test_what_cannot_be_guaranteed_is_refused_with_the_reason():
    X, y, T, labels = problem()
    K, solution = X @ X.T, sx.fast.psvm(X, y, C=1.0, p=2.0)
    added = sx.psvm_primal(X, y, C=1.0, p=2.0)
    constrained = sx.solve(added.with_constraints([added.var_dict["w"] >= 0]))
    blocks = replace(solution, evidence=None)
    bare = replace(solution, dual={})
    definite = "positive semidefinite on new rows"
    cases = [
        (solution, X[::-1], y, "not the data of the solution"),
        (solution, X, y[::-1], "not the data of the solution"),
        (solution, X[:-1], y[:-1], "60"),
        (solution, X, np.where(y == "a", "c", "d"), "'a', 'b'"),
        (sx.fast.psvm(K, y, kernel="precomputed"), K, y, definite),
        (sx.fast.psvm(X, y, kernel=lambda A, B: A @ B.T), X, y, definite),
        (sx.fast.conic(X, y, lam=0.1), X, y, "no modulus"),
        (sx.fast.zero_one(X[:9], y[:9], lam=0.1), X[:9], y[:9], "losses are not convex"),
        ("solution", X, y, "takes a Solution"),
        (constrained, X, y, "added constraints"),
        (blocks, X, y, "rows in blocks"),
        (bare, X, y, "no dual point"),
    ]
    for answer, rows, of, reason in cases:
        error = sx.NotCertified if answer is bare else sx.DataError
        with pytest.raises(error, match=reason):
            sx.guarantee(answer, rows, of)
    found = sx.guarantee(solution, X, y)
    for call, reason in (
        (lambda: found.scores(T[:, :2]), "3 features"),
        (lambda: found.accuracy(T, np.where(labels == "a", "c", labels)), "'c'"),
        (lambda: found.error(T, labels[:-1]), "one label for each of the 40 rows"),
        (lambda: found.auc(T, np.full(40, "a")), "one class only"),
    ):
        with pytest.raises(sx.DataError, match=reason):
            call()


def test_data_that_a_short_name_does_not_tell_apart():
    """The interval of the optimum is computed from those that are passed."""
    X, y, T, _ = problem()
    solution = sx.fast.psvm(X, y, C=1.0, p=2.0)
    blind = replace(solution, evidence=replace(solution.evidence, fingerprint=""))
    moved = sx.guarantee(blind, X + 0.5, y)
    optimum = sx.fast.psvm(X + 0.5, y, C=1.0, p=2.0, tol=1e-10)
    assert moved.lower <= optimum.certificate.upper
    consistent(moved.scores(T), sx.guarantee(optimum, X + 0.5, y).scores(T))


HOSTILE_ARRAYS = [
    *(None, "rows", 3.0, np.zeros((0, 3)), np.full((60, 3), np.nan), np.zeros(3)),
    *(np.array([["a"] * 3] * 60), [[1.0], [1.0, 2.0]]),
]


def test_hostile_arguments_are_refused_in_a_sentence():
    X, y, T, labels = problem()
    three = np.arange(60) % 3
    binary = sx.fast.psvm(X, y, p=2.0)
    several = sx.fast.multiclass(X, three, loss="softmax", lam=1.0)
    for (solution, of), hostile in product(((binary, y), (several, three)), HOSTILE_ARRAYS):
        found = sx.guarantee(solution, X, of)
        for call in (
            partial(sx.guarantee, solution, hostile, of),
            partial(sx.guarantee, solution, X, hostile),
            partial(found.scores, hostile),
            partial(found.accuracy, T, hostile),
        ):
            with pytest.raises(sx.SvmcvxError):
                call()
        with pytest.raises(sx.DataError):
            sx.guarantee(hostile, X, of)
        with pytest.raises(sx.DataError, match="compare takes a Guarantee"):
            found.compare(hostile, T, labels)


def test_a_solution_far_from_the_optimum_says_little_or_nothing():
    X, y, T, labels = problem()
    solution = sx.fast.psvm(X, y, C=1.0, p=1.0)
    found = sx.guarantee(replace(solution, dual={"alpha": np.zeros(60)}), X, y)
    assert found.accuracy(T, labels).width > 0.5
    assert found.radius > sx.guarantee(solution, X, y).radius
    # Nor does a model that violates a hard margin.
    X = X + 3.0 * (y == "b")[:, None]
    solution = sx.fast.hard_margin(X, y)
    shrunk = replace(solution, model=replace(solution.model, coef=0.5 * solution.model.coef))
    assert sx.guarantee(solution, X, y).decided(T).any()
    found = sx.guarantee(shrunk, X, y)
    assert found.upper == np.inf
    assert not found.decided(T).any()
    assert (found.scores(T).lower == -np.inf).all()


def test_an_estimator_keeps_a_guarantee_until_it_is_fitted_again():
    X, y, T, labels = problem()
    classifier = sx.PSVMClassifier(p=2.0, kernel="rbf").fit(X, y)
    with pytest.raises(sx.DataError, match=r"call guarantee\(X, y\)"):
        classifier.predict_guaranteed(T)
    found = classifier.guarantee(X, y)
    assert classifier.predict_guaranteed(T).tolist() == found.predict(T).tolist()
    assert classifier.score_interval(T, labels) == found.accuracy(T, labels)
    assert classifier.score_interval(T, labels, "auc") == found.auc(T, labels)
    assert classifier.score(T, labels) in classifier.score_interval(T, labels)
    copy = pickle.loads(pickle.dumps(classifier))  # noqa: S301
    assert copy.score_interval(T, labels) == found.accuracy(T, labels)
    with pytest.raises(sx.DataError, match="metric must be one of"):
        classifier.score_interval(T, labels, "f1")
    with pytest.raises(sx.DataError, match="not the data of the solution"):
        classifier.guarantee(X[::-1], y)
    classifier.fit(X, y)
    with pytest.raises(sx.DataError, match="call guarantee"):
        classifier.score_interval(T, labels)


def test_weights_of_observations_and_classes_are_those_of_the_fit():
    X, y, T, _ = problem()
    weight = np.random.default_rng(0).choice([0.0, 0.5, 2.0], y.size)
    for kernel in (None, "rbf"):
        machine = sx.PSVMClassifier(p=1.5, kernel=kernel, class_weight="balanced")
        loose, tight = (
            machine.set_params(tol=tol).fit(X, y, weight).guarantee(X, y).scores(T)
            for tol in (0.1, 1e-10)
        )
        consistent(loose, tight)
        assert tight.decided.all()


def test_frames_have_their_columns_checked():
    pd = pytest.importorskip("pandas")
    X, y, T, _ = problem()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    classifier = sx.PSVMClassifier(p=2.0).fit(frame, y)
    assert classifier.guarantee(frame, y).decided(T).all()
    assert classifier.predict_guaranteed(pd.DataFrame(T, columns=["a", "b", "c"])).size == 40
    with pytest.raises(sx.DataError, match="feature names"):
        classifier.guarantee(frame[["b", "a", "c"]], y)


# Proofs


def test_a_saved_proof_says_whose_scores_it_has(tmp_path):
    pytest.importorskip("flint")
    X, y, T, _ = problem(d=2)
    weight = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.0)
    machine = sx.PSVMClassifier(C=0.5, p=1.5, kernel="rbf", tol=1e-3).fit(
        sp.csr_array(X), y, sample_weight=weight
    )
    exact_machine = machine.guarantee(sp.csr_array(X), y)
    exact_machine.save_proof(tmp_path / "proof.npz", sp.csr_array(T))
    own = exact_machine.scores(T)
    # Sparse or dense, the rows are the same.
    for rows in (T, sp.csr_array(T)):
        found = sx.verify(tmp_path / "proof.npz", X, y, test=rows, expect=machine)
        assert found.holds
        assert found.scores.labels.tolist() == own.labels.tolist()
        widths = (found.scores.upper - found.scores.lower) / (own.upper - own.lower)
        assert np.median(widths) == pytest.approx(1, 0.01)
        assert f"{len(T)} test rows" in str(found.scores)
        assert "of every optimal machine" in str(found.scores)
    proof = sx.proofs.read_proof(tmp_path / "proof.npz")
    assert proof.test["digest"] == found.scores.digest
    assert found.scores.digest in str(found.scores)
    # A proof without test rows says nothing of them.
    assert "claims nothing of test rows" in sx.verify(machine.solution_.proof(), X, y, test=T).why


def test_proofs_of_several_classes_are_those_of_the_pairs():
    pytest.importorskip("flint")
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((45, 2)), np.repeat(["a", "b", "c"], 15)
    X += 2.0 * np.eye(3, 2)[np.repeat(np.arange(3), 15)]
    several = sx.PSVMClassifier(C=1.0).fit(X, y).guarantee(X, y)
    with pytest.raises(sx.DataError, match=r"of each, as in guarantee.members\[0\].save_proof"):
        several.proof(X)
    pair = np.flatnonzero(y != "c")
    found = sx.verify(several.members[0].proof(X), X[pair], y[pair], test=X)
    assert found.holds
    assert set(found.scores.labels) == {"a", "b"}
    joint = sx.guarantee(sx.solve(sx.weston_watkins(X, y, lam=0.5)), X, y)
    with pytest.raises(sx.DataError, match="knows the theorem for machines of two classes only"):
        joint.proof(X)


def test_a_row_of_which_nothing_is_known_claims_nothing():
    pytest.importorskip("flint")
    X, y, T, _ = problem(n=20, d=2, m=5)
    # Squares of the last rows are no doubles.
    T[3:] *= 1e200
    exact_machine = sx.guarantee(sx.fast.psvm(X, y, C=0.5, p=1.0), X, y)
    proof = exact_machine.proof(T)
    assert sx.verify(proof, X, y, test=T).holds
    nothing = ~np.isfinite(exact_machine.scores(T).lower)
    assert nothing.tolist() == [False, False, False, True, True]
    assert ((proof.scores["lower"] == -np.finfo(float).max) == nothing).all()
    assert (proof.scores["label"][nothing] == 2).all()
