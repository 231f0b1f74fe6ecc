"""Several classes as one problem: each part against the checker on its own data."""

import pickle
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import svmcvx as sx
from svmcvx.certificate import PartsEvaluation, check, check_parts
from svmcvx.certificate.bounded import Bounded
from svmcvx.certificate.exactly import imbalance
from svmcvx.data import CodedLabels, binary_data
from svmcvx.errors import NotCertified
from svmcvx.fast.margin import pairs
from svmcvx.fast.margin.pairs import SOLVER, solve_parts
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin import PSVM
from svmcvx.formulations.margin_pairs import PartsPoint, PSVMParts
from svmcvx.kernels import Laplacian, Linear, Precomputed, as_kernel, class_rows
from svmcvx.kernels.class_rows import SOME_COLUMNS, ClassRows, Layout
from svmcvx.kernels.gram import GramCache
from svmcvx.solution import Status
from svmcvx.system.deadline import time_limited
from tests.balls import fractions


def clouds(c=4, per_class=15, d=3, seed=0):
    """Clouds that overlap, in no order."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(c), per_class))
    return 1.5 * rng.standard_normal((c, d))[codes] + rng.standard_normal((codes.size, d)), codes


X, CODES = clouds()
LABELS = CodedLabels(CODES, np.array(["a", "b", "c", "d"]))
WEIGHT = np.linspace(0.3, 2.0, CODES.size)
KERNELS = [None, sx.RBF(0.4), Linear(), as_kernel(Laplacian(0.3).block)]


def own_statement(X, labels, key, kernel, weight, C, p):
    """The statement of one part, from its rows alone, and these."""
    if isinstance(key, tuple):
        rows = np.flatnonzero(np.isin(labels, key))
        named = labels[rows]
    else:
        rows, named = np.arange(labels.size), labels == key
    data = binary_data(X[rows], named, None if weight is None else weight[rows])
    space = feature_space(data, kernel, intercept="free", keep_gram=False)
    return PSVM(space=space, C=C, p=p), rows


def tightly_solved(statement, kernel, tol, **limits):
    return sx.fast.psvm(
        *(statement.space.data.X, statement.y),
        C=statement.C,
        p=statement.p,
        kernel=kernel,
        tol=tol,
        sample_weight=statement.weight,
        **limits,
    ).certificate


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(
    ("scheme", "p", "tol", "weight"),
    [
        *(("ovo", 1.0, 1e-3, None), ("ovo", 2.0, 1e-6, WEIGHT)),
        *(("ovr", 1.0, 1e-8, WEIGHT), ("ovr", 1.5, 1e-6, WEIGHT)),
    ],
)
def test_each_interval_is_that_of_the_checker_on_the_rows_of_its_part(
    kernel, scheme, weight, p, tol
):
    holds_part_by_part(X, np.asarray(LABELS), weight, kernel, scheme, p, tol)


def holds_part_by_part(X, labels, weight, kernel, scheme, p, tol):
    machine = sx.PSVMClassifier(C=2.0, p=p, kernel=kernel, multiclass=scheme, tol=tol)
    fitted = machine.fit(X, labels, sample_weight=weight)
    assert {part.solver for part in fitted.solutions_.values()} == {SOLVER}
    for key, part in fitted.solutions_.items():
        statement, rows = own_statement(X, labels, key, kernel, weight, 2.0, p)
        local = replace(part.model, support=np.searchsorted(rows, part.model.support))
        own = check(statement, [local], [part.dual]).certificate
        assert own.residuals["dual_violation"] == 0.0
        width = part.certificate.residuals["rounding"] + own.residuals["rounding"]
        assert abs(own.upper - part.certificate.upper) <= width
        assert abs(own.lower - part.certificate.lower) <= width
        assert part.certificate.residuals["rounding"] <= 1e-10 * part.certificate.upper
        tight = tightly_solved(statement, kernel, 1e-10)
        assert part.certificate.lower <= tight.upper
        assert part.certificate.upper >= tight.lower
        assert part.certificate.is_certified(tol)
        # The intercept is the best one for the scores of the model.
        best = local.intercept + statement.exact_intercept(statement.space.scores(local).value)
        assert part.model.intercept == pytest.approx(best, abs=1e-9)
        assert sum(part.terms.values()) == pytest.approx(part.certificate.upper)


@pytest.mark.parametrize(("kernel", "p"), [(None, 1.0), (sx.RBF(0.4), 1.0), (sx.RBF(0.4), 1.5)])
@pytest.mark.parametrize(("scheme", "weighted"), [("ovo", False), ("ovr", True)])
def test_equal_rows_are_one_row_of_their_weight(kernel, p, scheme, weighted, monkeypatch):
    monkeypatch.setattr("svmcvx.data.FEW", 10)
    rng = np.random.default_rng(0)
    copies = rng.permutation(np.repeat(np.arange(CODES.size), rng.integers(1, 6, CODES.size)))
    weight = rng.integers(1, 3, copies.size).astype(float) if weighted else None
    labels = CodedLabels(CODES[copies], LABELS.classes)
    given = {"scheme": scheme, "kernel": kernel, "p": p, "tol": 1e-5}
    found = solved(X[copies], labels, weight, **given)
    assert found.order.size == CODES.size
    # Sums of these weights are rounded.
    assert solved(X[copies], labels, np.full(copies.size, 0.1), **given).share is None
    in_weights = solved(X, LABELS, np.bincount(copies, weight).astype(float), **given)
    assert (found.checked.lower <= in_weights.checked.upper).all()
    assert (in_weights.checked.lower <= found.checked.upper).all()
    holds_part_by_part(X[copies], np.asarray(labels), weight, kernel, scheme, p, 1e-5)
    machine = sx.PSVMClassifier(kernel=kernel, p=p, multiclass=scheme)
    for part in machine.fit(X[copies], np.asarray(labels), weight).solutions_.values():
        rows = np.isin(np.asarray(labels), part.model.classes) if scheme == "ovo" else slice(None)
        assert part.dual["alpha"].shape == copies[rows].shape
        assert (part.model.support < copies.size).all()


@pytest.mark.parametrize(("scheme", "merged"), [("ovo", True), ("ovo", False), ("ovr", True)])
def test_parts_have_proofs_for_their_rows_merged_or_not(scheme, merged, monkeypatch, tmp_path):
    pytest.importorskip("flint")
    monkeypatch.setattr("svmcvx.data.FEW", 10 if merged else 1000)
    codes = CODES[CODES < 3]
    copies = np.random.default_rng(0).permutation(np.repeat(np.arange(codes.size), 3))
    rows, labels = X[CODES < 3][copies], codes[copies]
    coded = CodedLabels(labels, np.arange(3))
    distinct = solved(rows, coded, scheme=scheme).order.size
    assert distinct == (codes if merged else copies).size
    fitted = sx.PSVMClassifier(kernel=sx.RBF(0.4), multiclass=scheme).fit(rows, labels)
    for key, part in fitted.solutions_.items():
        own = np.isin(labels, key) if scheme == "ovo" else np.ones(labels.size, dtype=bool)
        sides = labels[own] if scheme == "ovo" else (labels == key).astype(int)
        part.save_proof(path := tmp_path / "part.npz")
        found = sx.verify(path, rows[own], sides, expect=part)
        assert found.holds, found.why
        assert found.lower <= part.certificate.upper
        assert part.certificate.lower <= found.upper
        assert found.upper - found.lower <= 1e-5 * found.upper


def test_rare_coefficients_are_sparse_rows_of_the_same_models(monkeypatch, tmp_path):
    found = []
    for share, sparse in ((0.0, False), (1.0, True)):
        monkeypatch.setattr("svmcvx.model.RARE", share)
        model = sx.PSVMClassifier(kernel=sx.RBF(0.4)).fit(X, CODES).model_
        assert sp.issparse(model.members.table) == sparse
        model.save(tmp_path / "m.npz")
        scores = model.member_scores(X)
        assert np.array_equal(scores, sx.load_model(tmp_path / "m.npz").member_scores(X))
        assert np.allclose(scores[:, 2], model.members[2].decision_function(X), rtol=1e-12)
        found.append((model, scores))
    (one, scores), (other, again) = found
    assert np.allclose(scores, again, rtol=1e-12, atol=1e-12)
    for member, same in zip(one.members, other.members, strict=True):
        assert np.array_equal(member.dual_coef, same.dual_coef)
        assert np.array_equal(member.support, same.support)


def solved(data=X, labels=LABELS, weight=None, **changes):
    given = {"scheme": "ovo", "kernel": KERNELS[1], "tol": 1e-6, "C": 3.0, "p": 1.0}
    return solve_parts(data, labels, weight, cache_size=100.0, **{**given, **changes})


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=str)
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_neither_slices_nor_shared_rows_change_a_bit(kernel, scheme, monkeypatch):
    first = solved(scheme=scheme, kernel=kernel)
    cache = GramCache()
    with cache.shared():
        solved(scheme=scheme, kernel=kernel, C=0.1)
    for budget, shared in (
        (pairs.BUDGET, cache.shared()),
        (1.0, nullcontext()),
        (5e2, nullcontext()),
    ):
        monkeypatch.setattr(pairs, "BUDGET", budget)
        with shared:
            again = solved(scheme=scheme, kernel=kernel)
        assert np.array_equal(first.steps, again.steps)
        for name in ("alpha", "bias"):
            assert np.array_equal(getattr(first.point, name), getattr(again.point, name))
        for name in ("upper", "lower", "rounding"):
            assert np.array_equal(getattr(first.checked, name), getattr(again.checked, name))


@pytest.mark.parametrize(("noisy", "completed"), [(True, 1), (False, 0)])
def test_rows_follow_by_one_product_where_most_are_needed(noisy, completed, monkeypatch):
    rng = np.random.default_rng(0)
    data, signs = rng.standard_normal((200, SOME_COLUMNS)), rng.permutation(np.arange(200) % 2)
    data[:, 0] += 0.0 if noisy else 20.0 * signs
    calls, complete = [], ClassRows.complete
    monkeypatch.setattr(
        ClassRows, "complete", lambda rows, stop: calls.append(rows) or complete(rows, stop)
    )
    kernel = sx.RBF(0.5 / SOME_COLUMNS if noisy else 0.01)
    together = solved(data, CodedLabels(signs, np.arange(2)), kernel=kernel)
    assert len(calls) == completed
    alone = sx.fast.psvm(data, signs, C=3.0, kernel=kernel, tol=1e-9).certificate
    assert together.certified.all()
    assert together.checked.lower[0] <= alone.upper <= together.checked.upper[0] * (1 + 1e-9)


def test_names_of_classes_change_nothing():
    first = solved()
    again = solved(labels=CodedLabels(CODES, np.array([2, 5, 7, 11])))
    assert np.array_equal(first.point.alpha, again.point.alpha)
    rows = np.random.default_rng(0).permutation(CODES.size)
    moved = solved(data=X[rows], labels=CodedLabels(CODES[rows], LABELS.classes))
    assert (moved.checked.lower <= first.checked.upper).all()
    assert (moved.checked.upper >= first.checked.lower).all()


def test_a_matrix_is_tested_once_and_taken_as_it_is(monkeypatch):
    K = KERNELS[1](X)
    first, tested = solved(), []
    test = class_rows.is_definite
    monkeypatch.setattr(class_rows, "is_definite", lambda K: tested.append(0) or test(K))
    given = {"kernel": Precomputed()}
    with GramCache().shared():
        again = [solved(K, **given) for _ in range(2)]
    assert len(tested) == 1
    for found in again:
        assert found.certified.all()
        assert (found.checked.lower <= first.checked.upper).all()
        assert (found.checked.upper >= first.checked.lower).all()
    # Of two classes alone, or one pair of several, the answer is the same problem's.
    two = np.flatnonzero(CODES < 2)
    fitted = sx.PSVMClassifier(C=3.0, kernel="precomputed")
    fitted.fit(K[np.ix_(two, two)], CODES[two])
    model = again[0].members({})[0]
    assert fitted.solution_.solver == SOLVER
    assert np.isin(two[fitted.support_], model.support).all()
    assert fitted.intercept_ == pytest.approx(model.intercept, abs=1e-4)


def test_pairs_of_an_indefinite_matrix_are_solved_alone():
    # Of three observations any two have a definite matrix.
    K, three = np.eye(CODES.size), [np.flatnonzero(code == CODES)[0] for code in range(3)]
    K[np.ix_(three, three)] -= 0.6 * (1.0 - np.eye(3))
    assert solved(K, kernel=Precomputed()) is None
    fitted = sx.PSVMClassifier(kernel="precomputed").fit(K, CODES)
    assert fitted.certificate_.is_certified(1e-6)
    # One triangle is no symmetric matrix.
    assert solved(np.tril(KERNELS[1](X)), kernel=Precomputed()) is None


HOSTILE = ["offset", "large", "small", "outlier", "twins", "lonely", "constant"]


@settings(max_examples=20)
@given(
    st.sampled_from(HOSTILE),
    st.sampled_from([None, sx.RBF(0.5), sx.RBF(1e-12), sx.RBF(1e12)]),
    st.sampled_from([1e-8, 1e-2, 1.0, 1e4, 1e8]),
    st.sampled_from([1.0, 1.5, 2.0]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_intervals_hold_for_hostile_data(hostile, kernel, C, p, weighted, seed):
    data, codes = clouds(c=3, per_class=6, d=2, seed=seed)
    rng = np.random.default_rng(seed)
    weight = 10.0 ** rng.uniform(-8, 2, codes.size) if weighted else None
    if hostile == "offset":
        data = data + 1e6
    elif hostile in ("large", "small"):
        data = data * (1e30 if hostile == "large" else 1e-30)
    elif hostile == "outlier":
        data[3] *= 1e9
    elif hostile == "twins":
        data[codes == 1] = data[codes == 0]
    elif hostile == "lonely":
        chosen = np.concatenate([[np.argmax(codes == 0)], np.flatnonzero(codes > 0)])
        data, codes = data[chosen], codes[chosen]
        weight = None if weight is None else weight[chosen]
    else:
        data[:] = 1.0
    labels = CodedLabels(codes, np.arange(3))
    found = solved(np.ascontiguousarray(data), labels, weight, kernel=kernel, C=C, p=p, tol=1e-4)
    if found is None:
        return
    assert (found.checked.violation == 0.0).all()
    for part, key in enumerate([(0, 1), (0, 2), (1, 2)]):
        own = found.point.alpha[found.layout.slices[part]]
        y = found.y[found.layout.slices[part]]
        assert imbalance(own, y) == 0.0
        assert (own >= 0.0).all()
        statement, _ = own_statement(data, codes, key, kernel, weight, C, p)
        tight = tightly_solved(statement, kernel, 1e-9, max_iter=100)
        assert found.checked.lower[part] <= tight.upper
        assert found.checked.upper[part] >= tight.lower
        if found.certified[part]:
            assert found.checked.gaps[part] <= 1e-4
            assert found.checked.certificate(part).is_certified(1e-4)


def test_bounds_that_contradict_each_other_are_refused():
    class Wrong:
        def evaluate(self, point):
            return PartsEvaluation(
                Bounded(np.ones(2), 0.0),
                Bounded(np.zeros(2), 0.0),
                Bounded(np.full(2, 2.0), np.zeros(2)),
                np.array([1.0, point]),
            )

    # A point that is not feasible bounds nothing.
    assert check_parts(Wrong(), 1.0).lower.tolist() == [-np.inf, -np.inf]
    assert check_parts(Wrong(), 1.0).certificate(0).lower is None
    with pytest.raises(NotCertified, match="exceeds the objective"):
        check_parts(Wrong(), 0.0)


def test_parts_are_made_once_and_pickled_whole():
    fitted = sx.PSVMClassifier(kernel="rbf").fit(X, np.asarray(LABELS))
    parts = fitted.solution_.parts
    assert parts["a", "b"] is parts["a", "b"]
    assert parts["a", "b"].model is fitted.model_.members[0]
    restored = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert type(restored.solution_.parts) is dict
    assert restored.certificates_ == fitted.certificates_


def test_what_neither_steps_nor_active_sets_close_is_solved_alone():
    data, codes = np.random.default_rng(0).standard_normal((150, 2)), np.arange(150) % 3
    labels = CodedLabels(codes, np.arange(3))
    # Costs so large that pair steps alone take 30 000 for each pair, and do not end.
    together = solved(data, labels, kernel=None, C=1e5)
    assert together.certified.all()
    assert together.steps.max() <= 10 * 100
    # They are large for columns of very different sizes.
    data *= [1.0, 1e4]
    together = solved(data, labels, kernel=None, C=1e5)
    assert not together.certified.all()
    fitted = sx.PSVMClassifier(C=1e5).fit(data, codes)
    assert fitted.certificate_.is_certified(1e-6)
    solvers = {part.solver for part in fitted.solutions_.values()}
    assert solvers > {SOLVER} or not together.certified.any()


def test_an_expired_limit_and_ctrl_c_leave_intervals():
    fitted = sx.PSVMClassifier(kernel="rbf", time_limit=1e-9)
    with pytest.warns(ConvergenceWarning, match="short of tol"):
        fitted.fit(X, np.asarray(LABELS))
    assert fitted.solution_.status is Status.TIME_LIMIT
    assert all(certificate.lower >= 0.0 for certificate in fitted.certificates_.values())
    with time_limited(None) as deadline:
        deadline.interrupt_requested.set()
        assert not solved().certified.any()


@pytest.mark.parametrize(
    "changed",
    [
        *({"p": 1.05}, {"C": 1e80}, {"tol": 1e-12}, {"kernel": sx.Sigmoid(1.0)}),
        {"weight": np.r_[0.0, np.ones(CODES.size - 1)]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_settings_that_are_left_to_the_other_way(changed):
    assert solved(**changed) is None


# Intervals of many pSVM together, held against fractions


SIZES = [4, 3, 5]
LAYOUT = Layout(np.concatenate([[0], np.cumsum(SIZES)]), [[0, 1], [0, 2], [1, 2]])
ROWS = LAYOUT.all_rows
SIGNS = np.where(np.concatenate([np.arange(7) < 4, np.arange(9) < 4, np.arange(8) < 3]), -1.0, 1.0)


def numbers(rng, *shape, spread):
    """Numbers of sizes that differ by so many powers of ten."""
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(-spread, spread, shape)


def terms(f, b, y, alpha, weight, C, p, square):
    """Regulariser, losses and dual objective of one problem."""
    losses = C * (weight @ np.maximum(1 - y * (f + b), 0) ** p)
    conjugate = alpha @ (alpha / (4 * C * weight)) if p == 2 else 0
    return square / 2, losses, sum(alpha) - conjugate - square / 2


def held(found, part, exact):
    for term, number in zip(found[:3], exact, strict=True):
        off = term.error[part]
        assert not np.isfinite(off) or abs(Fraction(float(term.value[part])) - number) <= Fraction(
            float(off)
        )


class WithScores(PSVMParts):
    """Problems with a kernel, whose scores and errors are given."""

    given = None

    def scores(self, alpha):
        return self.given


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 2.0, 40.0]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1e-9, 1.0, 3e7]),
)
def test_terms_contain_the_exact_ones(seed, spread, p, weighted, linear, C):
    rng = np.random.default_rng(seed)
    total = SIGNS.size
    alpha = np.abs(numbers(rng, total, spread=spread)) * (rng.random(total) < 0.7)
    bias = numbers(rng, 3, spread=spread)
    weight = np.abs(numbers(rng, total, spread=3.0)) if weighted else 1.0
    f, error = numbers(rng, total, spread=spread), np.abs(numbers(rng, total, spread=1.0)) * 1e-9
    X = numbers(rng, 12, 2, spread=spread)
    centre = X.mean(axis=0) if rng.random() < 0.5 else np.zeros(2)
    kernel = None if linear else sx.RBF(1.0)
    statement = (PSVMParts if linear else WithScores)(
        ClassRows(kernel, X - centre, LAYOUT.starts, 144), LAYOUT, SIGNS, weight, C, p, centre
    )
    if linear:
        W = statement.normals(alpha)[0]
    else:
        object.__setattr__(statement, "given", Bounded(f, error))
    found = statement.evaluate(PartsPoint(alpha, bias))
    if spread < 40.0:
        assert all(np.isfinite([*term.value, *term.error]).all() for term in found[:3])
    for part in range(3):
        own = LAYOUT.slices[part]
        a, labels, b = fractions(alpha[own]), fractions(SIGNS[own]), Fraction(float(bias[part]))
        s, cost = fractions(np.broadcast_to(weight, total)[own]), Fraction(C)
        if linear:
            rows, w = fractions(X[ROWS[own]]) - fractions(centre), fractions(W[part])
            point = rows @ w, b + w @ fractions(centre), labels, a, s, cost, p
            normal = (a * labels) @ rows
            lower = terms(*point, normal @ normal)[2]
            held(found, part, (*terms(*point, w @ w)[:2], lower))
        else:
            ends = error[own] * rng.choice([-1.0, 0.0, 1.0], a.size)
            scores = fractions(f[own]) + fractions(ends)
            square = (a * labels) @ scores
            # A square is not negative.
            if square >= 0:
                held(found, part, terms(scores, b, labels, a, s, cost, p, square))


@pytest.mark.parametrize("kind", ["balanced", "any", "far", "tiny", "nan", "above", "negative"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_violations_are_exact(kind, p):
    rng = np.random.default_rng(3)
    alpha = rng.random(SIGNS.size)
    if kind in ("balanced", "above"):
        alpha = np.round(alpha * 4) / 4
    elif kind in ("far", "tiny"):
        alpha *= 2.0 ** rng.integers(-1060 if kind == "tiny" else -200, 0, alpha.size)
    elif kind != "any":
        alpha[0] = np.nan if kind == "nan" else -1e-300
    upper = 0.5 if kind == "above" else 1.0
    X = rng.standard_normal((12, 2))
    statement = PSVMParts(
        ClassRows(None, X, LAYOUT.starts, 144), LAYOUT, SIGNS, 1.0, upper, p, np.zeros(2)
    )
    found = statement.evaluate(PartsPoint(alpha, np.zeros(3))).violation
    for part in range(3):
        own = alpha[LAYOUT.slices[part]]
        if not np.isfinite(own).all():
            assert found[part] == np.inf
            continue
        outside = max(float(-own.min()), float((own - upper).max()) if p == 1 else 0.0, 0.0)
        assert found[part] == max(outside, abs(imbalance(own, SIGNS[LAYOUT.slices[part]])))
