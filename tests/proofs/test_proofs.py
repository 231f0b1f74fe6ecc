"""The second checker: proofs of every formulation, and proofs that were tampered with."""

import math
import re
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.formulations.margin_problems import l1_svm
from svmcvx.proofs import Proof, Statement, checker, fingerprint, read_proof, verify, write_proof
from tests.conftest import make_data

flint = pytest.importorskip("flint")

# Relative width that bounds on rounding may add to an interval, on data of usual size.
WIDTH = 3e-9

X, Y = make_data(n=40, d=3, seed=2)
X = X / X.std(axis=0)
FEW = X[:20], Y[:20]
WEIGHT = np.linspace(0.2, 2.0, Y.size)
WEIGHT[4] = 0.0
FAR = X + 8.0 * np.where(np.unique(Y)[1] == Y, 1.0, -1.0)[:, None]
RNG = np.random.default_rng(5)
CODES = RNG.integers(0, 3, 45)
X3 = RNG.normal(size=(45, 4)) + 1.5 * np.eye(3, 4)[CODES]
X3 = (X3 - X3.mean(axis=0)) / X3.std(axis=0)
NAMES = np.array(["ash", "birch", "cedar"])[CODES]
WEIGHT3 = np.linspace(0.0, 2.0, 45)
# Not quite symmetric, as a product of the machine may be.
GRAM = (X @ X.T + 1.0) * (1.0 + 1e-13 * np.random.default_rng(0).uniform(-1, 1, (40, 40)))
SPARSE = sp.csr_array(X * (abs(X) > 0.3))


def changed(proof, **fields):
    """A proof with another statement."""
    return replace(proof, statement=replace(proof.statement, **fields))


def solved(build, X=X, y=Y, **arguments):
    """A proof of what a builder or a solver gives, and its data."""
    found = build(X, y, **arguments)
    return (found if build.__module__.startswith("svmcvx.fast") else sx.solve(found)).proof(), X, y


def fixed_gamma(kernel):
    gamma = sx.fast.conic(*FEW, lam=0.5, kernel=kernel).dual["gamma"]
    return solved(sx.conic_fixed_gamma, *FEW, gamma=gamma, lam=0.5, kernel=kernel)


FAST, RBF = sx.fast, sx.RBF()
ODM = {"C1": 20.0, "C2": 8.0, "D": 0.1}
ODML = {"lam1": 0.7, "lam2": 0.3, "C": 20.0}
HARD_ODML = {"lam1": 0.7, "lam2": 0.3}
OTHER_KERNELS = (sx.Linear(), sx.Exponential(), sx.Laplacian(), sx.Polynomial(coef0=1.0))
# It may be indefinite, and is not on these rows.
OTHER_KERNELS += (sx.Polynomial(1, gamma=1.0, coef0=-1e-30),)
LOSSES = (
    ("hinge", 1.0, 1),
    ("hinge", 1.0, 2),
    ("smoothed", 1.5, 2),
    ("logistic", 4.0, 1),
    ("softmax", 2.0, 2),
)
CLASSICAL = (
    sx.weston_watkins,
    sx.crammer_singer,
    sx.msvm,
    sx.topk_svm,
    sx.multinomial_lr,
    sx.sparse_multinomial_lr,
)
# Builder or solver, what is not X and Y, and its arguments.
TABLE = {
    **{
        f"psvm-{p}-{kernel}": (sx.psvm_dual, (), {"C": 2.0, "p": p, "kernel": kernel})
        for p in (1, 1.5, 2, 3)
        for kernel in (None, RBF)
    },
    **{
        f"psvm-{kernel}": (FAST.psvm, (), {"C": 2.0, "p": 1.5, "kernel": kernel})
        for kernel in OTHER_KERNELS
    },
    "psvm-precomputed": (sx.psvm_dual, (GRAM,), {"C": 2.0, "p": 2, "kernel": sx.Precomputed()}),
    "psvm-weights": (FAST.psvm, (), {"C": 2.0, "p": 1, "kernel": RBF, "sample_weight": WEIGHT}),
    "psvm-sparse": (sx.psvm_primal, (SPARSE,), {"C": 2.0, "p": 1.5}),
    "psvm-penalised": (FAST.psvm, (), {"C": 2.0, "p": 1.5, "intercept": "penalised"}),
    "psvm-without": (FAST.psvm, (), {"C": 2.0, "p": 1.5, "intercept": "none"}),
    "hard-linear": (sx.hard_margin_dual, (FAR,), {}),
    "hard-rbf": (FAST.hard_margin, (), {"kernel": sx.RBF(gamma=2.0)}),
    "odm": (sx.odm_dual, (), ODM),
    "odm-rbf": (FAST.odm, (), {**ODM, "kernel": RBF, "intercept": True, "sample_weight": WEIGHT}),
    "odml": (sx.odml_dual, (), {**ODML, "intercept": True}),
    "odml-rbf": (FAST.odml, (), {**ODML, "kernel": RBF, "sample_weight": WEIGHT}),
    "odml-plain": (sx.odml_primal, (), {"lam1": 0.0, "lam2": 0.0, "C": 5.0}),
    "odml-hard": (sx.odml_hard_margin, (FAR,), HARD_ODML),
    "conic": (sx.conic_sdp, (), {"lam": 0.5}),
    "conic-weights": (FAST.conic, (), {"lam": 4.0, "intercept": False, "sample_weight": WEIGHT}),
    "conic-rbf": (sx.conic_sdp, FEW, {"lam": 0.5, "kernel": RBF}),
    "conic-kappa": (sx.conic_sdp, (), {"kappa": 0.2}),
    **{
        f"m3svm-{loss}-{p}-{norm}": (
            sx.m3svm,
            (X3, NAMES),
            {"lam": 0.1, "p": p, "loss": loss, "norm": norm},
        )
        for loss, p, norm in LOSSES
    },
    "m3svm-fast": (
        FAST.m3svm,
        (X3, NAMES),
        {"lam": 0.1, "p": 4, "loss": "hinge", "sample_weight": WEIGHT3},
    ),
    **{
        f"m3svm-hard-{p}-{norm}": (
            sx.m3svm_hard_margin,
            (X3 + 6.0 * np.eye(3, 4)[CODES], NAMES),
            {"p": p, "norm": norm},
        )
        for p, norm in ((1.0, 2), (2.0, 1), (3.0, 2), (math.inf, 2))
    },
    **{
        f"{build.__name__}-{intercept}": (
            build,
            (X3, NAMES),
            {"lam": 0.3, "intercept": intercept == "free", "sample_weight": WEIGHT3},
        )
        for build in CLASSICAL
        for intercept in ("free", "none")
    },
}
CASES = {
    **{name: lambda row=row: solved(row[0], *row[1], **row[2]) for name, row in TABLE.items()},
    "conic-fixed": lambda: fixed_gamma(None),
    "conic-fixed-rbf": lambda: fixed_gamma(RBF),
}
COUNTING = {
    "zero-one": lambda: solved(FAST.zero_one, lam=0.5),
    "l0": lambda: solved(FAST.l0, C=0.5, kernel=RBF, method="local"),
}


@cache
def case(name):
    return {**CASES, **COUNTING}[name]()


@cache
def checked(name):
    """The verdict on a case, by ball arithmetic."""
    return verify(*case(name), method="balls")


def without_points(proof):
    return replace(proof, dual={})


@pytest.mark.parametrize("name", CASES)
def test_the_interval_of_a_solution_is_proved(name, tmp_path):
    proof, X, y = case(name)
    write_proof(tmp_path / "proof.npz", proof)
    again = read_proof(tmp_path / "proof.npz")
    assert again.statement == proof.statement
    np.testing.assert_equal(again.arrays, proof.arrays)
    verified = checked(name)
    assert verified.holds, verified.why
    assert verified.why == ""
    assert verified.checked == ("lower", "upper")
    assert proof.lower <= verified.lower <= verified.upper <= proof.upper
    # The second checker is exact: what it proves is inside what was claimed, by no more than
    # rounding and the slack.
    assert verified.lower - proof.lower <= WIDTH * abs(proof.upper)
    assert proof.upper - verified.upper <= WIDTH * abs(proof.upper)
    # Either end a little further is refused, and the dual point is repaired where rounding has
    # moved it.
    step, rng = 1e-12 * abs(proof.upper), np.random.default_rng(3)
    low = verify(replace(without_points(proof), lower=None, upper=verified.upper - step), X, y)
    assert not low.holds
    assert "the model's objective is at most" in low.why
    assert low.upper == verified.upper
    entries = ("alpha", "theta", "tau") if "conic" not in name else ("alpha",)
    dual = {
        entry: values * (1.0 + 2.0**-46 * rng.uniform(-1, 1, values.shape) * (entry in entries))
        for entry, values in proof.dual.items()
    }
    moved = verify(replace(proof, dual=dual, lower=verified.lower + step, upper=None), X, y)
    assert abs(moved.lower - verified.lower) <= 1e-10 * abs(verified.upper)
    assert moved.holds == (moved.lower >= verified.lower + step)
    high = verify(replace(proof, lower=verified.lower + step, upper=None), X, y)
    assert not high.holds
    assert "the dual objective is at least" in high.why
    assert high.lower == verified.lower


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("psvm", "odm-"))])
def test_doubles_enclose_what_balls_prove(name):
    proof, X, y = case(name)
    balls, doubles = checked(name), verify(proof, X, y, method="a-priori")
    assert doubles.lower <= balls.lower <= balls.upper <= doubles.upper
    assert doubles.holds or "doubles do not tell" in doubles.why
    assert balls.lower - doubles.lower <= 1e-10 * abs(balls.upper)
    assert doubles.upper - balls.upper <= 1e-10 * abs(balls.upper)


def test_a_local_minimum_claims_no_lower_end():
    proof, X, y = case("l0")
    found = verify(proof, X, y)
    assert found.holds
    assert "claims no lower end" in found.why


def test_constraints_on_margins_that_are_written_down_belong_to_the_problem():
    proof, X, y = case("zero-one")
    other = replace(changed(proof, M=np.full(y.size, 1e6)), tree={}, lower=None, stated=proof.lower)
    found = verify(other, X, y)
    assert found.upper == verify(proof, X, y).upper
    assert f"end {proof.lower!r} that a search states is not part of" in found.why


def test_the_bound_of_a_mixed_integer_solver_is_no_part_of_the_proof():
    pytest.importorskip("pyscipopt")
    few = X[:10], Y[:10]
    for build, price in (
        (sx.zero_one_mio, {"k": 4.0}),
        (sx.ramp_mio, {"C": 0.5}),
        (sx.l0_mio, {"C": 0.5}),
    ):
        proof, data, y = solved(build, *few, **price)
        verified = verify(proof, data, y)
        assert verified.holds, verified.why
        assert verified.lower is None or verified.lower < proof.stated
        assert "that a solver states is not part of the proof" in verified.why
        assert not verify(replace(proof, lower=proof.stated), data, y).holds


@given(
    offset=st.sampled_from([0.0, 1e3, 1e6, 1e10]),
    scale=st.sampled_from([1e-6, 1.0, 1e5]),
    C=st.sampled_from([1e-10, 1e-3, 1.0, 1e8]),
    p=st.sampled_from([1.0, 1.1, 2.0, 5.0]),
    kernel=st.sampled_from([None, "rbf", "exponential", "laplacian", "polynomial"]),
    seed=st.integers(0, 2**16),
)
def test_doubles_enclose_balls_on_hostile_data(offset, scale, C, p, kernel, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 3)) * scale + offset
    X[3] = X[2] + 1e-9 * scale
    y = np.arange(12) % 2
    alpha = np.repeat(np.round(rng.uniform(0, 1, 6) * 2.0**20) * 2.0**-20 * C, 2)
    described, model = None, {"coef": rng.normal(size=3), "intercept": 0.3}
    if kernel is not None:
        more = {"degree": 3, "coef0": 1.0} if kernel == "polynomial" else {}
        described = {"name": kernel, "gamma": 1.0 / scale**2, **more}
        model = {"support": np.arange(12), "dual_coef": alpha * (2 * y - 1), "intercept": 0.3}
    statement = Statement(
        "psvm", {"C": C, "p": p}, described, "free", 12, 3, (0, 1), fingerprint(X, y)
    )
    proof = Proof(statement, model, {"alpha": alpha}, lower=-1e300, upper=None)
    doubles, balls, more = (
        verify(proof, X, y, method=method, precision=precision)
        for method, precision in (("a-priori", 128), ("balls", 128), ("balls", 700))
    )
    assert doubles.lower is None or doubles.lower <= balls.lower
    assert balls.upper <= doubles.upper
    assert balls.lower <= more.lower
    assert more.upper <= balls.upper
    # Powers of data far from the origin cancel.
    if kernel != "polynomial":
        assert abs(more.lower - balls.lower) <= 1e-15 * abs(more.lower)
        assert abs(more.upper - balls.upper) <= 1e-15 * abs(more.upper)


def test_large_data_take_doubles_and_small_ones_balls(monkeypatch):
    proof, X, y = case("psvm-1.5-RBF(gamma='scale')")
    balls, doubles = (verify(proof, X, y, method=method) for method in ("balls", "a-priori"))
    assert doubles.lower < balls.lower
    assert verify(proof, X, y) == balls
    monkeypatch.setattr(checker, "MOST_ENTRIES", 100)
    assert verify(proof, X, y) == doubles


@given(position=st.floats(0, 1), bit=st.integers(0, 7), flip=st.booleans())
def test_a_corrupted_file_is_refused_or_the_same(tmp_path_factory, position, bit, flip):
    proof, X, y = case("psvm-1-None")
    path = tmp_path_factory.mktemp("proof") / "proof.npz"
    write_proof(path, proof)
    content = bytearray(path.read_bytes())
    place = min(int(position * len(content)), len(content) - 1)
    if flip:
        content[place] ^= 1 << bit
    else:
        del content[place:]
    path.write_bytes(bytes(content))
    try:
        again = read_proof(path)
    except sx.DataError:
        return
    # Bits of the archive that are not looked at, such as dates.
    assert verify(again, X, y) == verify(proof, X, y)


def test_the_fingerprint_does_not_depend_on_storage():
    X = RNG.normal(size=(30, 4)) * (RNG.uniform(size=(30, 4)) > 0.5)
    y = RNG.integers(0, 2, 30)
    names = np.array(["no", "yes"])[y]
    stored = [X, sp.csr_array(X), sp.csc_array(X), np.asfortranarray(X)]
    assert len({fingerprint(each, labels) for each in stored for labels in (y, names)}) == 1
    other = X.copy()
    other[7, 2] += 1e-15
    for rows, labels in ((other, y), (X, 1 - y), (X.T.copy(), y)):
        assert fingerprint(rows, labels) != fingerprint(X, y)


@given(
    name=st.sampled_from(["hinge", "softmax", "largest", "topk"]),
    k=st.integers(1, 4),
    seed=st.integers(0, 2**16),
    off=st.sampled_from([0.0, 2.0**-45]),
)
def test_multipliers_are_put_into_the_domain_exactly(name, k, seed, off):
    from svmcvx.proofs.balls import fractions
    from svmcvx.proofs.multiclass import Loss

    rng = np.random.default_rng(seed)
    loss = Loss.__new__(Loss)
    loss.name, loss.k = name, k if name == "topk" else 1
    weight = fractions(rng.uniform(0.1, 3.0, 1))
    (s,) = weight
    others = int(rng.integers(max(1, k - 1), 6))
    top = k if name == "topk" else 1
    if name == "hinge":
        a = rng.choice([0.0, 1.0, rng.uniform()], others)
    else:
        # The corner of the domain that the largest differences give.
        a = np.zeros(others)
        a[rng.permutation(others)[:top]] = 1.0 / top
    given = np.abs(a * float(s.p) / float(s.q) * (1.0 + off * rng.uniform(-1, 1, others)))
    (inside,) = loss.inside(fractions(given)[None, :], weight, np.zeros(1, dtype=int))
    whole = sum(inside)
    assert all(0 <= x <= (s / top if name != "hinge" else s) for x in inside)
    assert name == "hinge" or whole <= s
    assert all((top - 1) * x <= whole for x in inside)
    for x, g in zip(inside, given, strict=True):
        assert abs(float(x.p) / float(x.q) - g) <= 1e-11


def test_functions_of_balls_that_touch_their_limits():
    from flint import arb

    from svmcvx.proofs.balls import Balls

    near = Balls(arb(1e-30, 1e-29))
    assert near.nonneg().ends[0] >= -1e-25
    for value, most in (
        (near.power(0.5), 1e-14),
        (near.entropy(), 1e-26),
        (Balls(arb(0.4, 0.5)).entropy(), 0.7),
    ):
        low, high = value.ends
        assert low <= 0 <= high <= most
    assert Balls(arb(0)).entropy().ends == (0, 0)
    assert not Balls([arb(1), arb("nan")]).least().ball.is_finite()
    assert Balls(arb("nan")).ends == (-math.inf, math.inf)
    low, high = Balls(arb(1) / 3).ends
    assert low <= 1 / 3 <= high <= low + 2e-16
    assert Balls(arb(10) ** 400).ends == (sys.float_info.max, math.inf)


def test_an_infinite_upper_end_claims_nothing_of_the_model():
    # Margins of a kernel of degree 2 far from the origin have lost all digits: no point is known to
    # be feasible.
    X, y = 1e6 + np.random.default_rng(0).standard_normal((5, 4)), [1, 1, 0, 0, 0]
    kernel = sx.Polynomial(2, 0.5, 0.0)
    solution = sx.solve(sx.odml_hard_margin(X, y, lam1=0.3, lam2=1e-5, kernel=kernel))
    found = verify(solution.proof(), X, y)
    assert solution.certificate.upper == math.inf
    assert found.holds, found.why
    assert not verify(replace(solution.proof(), upper=1.0), X, y).holds


@pytest.mark.parametrize("weight", [None, np.arange(X.shape[0]) % 3 * 0.7])
def test_the_model_gives_the_multipliers_of_smooth_losses(weight):
    for solve, settings in (
        (FAST.psvm, {"C": 0.5, "p": 1.5}),
        (FAST.psvm, {"C": 0.5, "p": 2.0, "intercept": "penalised"}),
        (FAST.odm, ODM),
    ):
        honest = solve(X, Y, sample_weight=weight, tol=1e-11, **settings).proof()
        proof = replace(honest, dual={}, lower=honest.lower * (1.0 - 1e-7))
        for method in ("balls", "a-priori"):
            found = verify(proof, X, Y, method=method)
            assert found, found.why
            assert found.checked == ("lower", "upper")
            assert not verify(replace(proof, lower=proof.upper), X, Y, method=method)


# Statements that were proved and expected


def test_the_result_says_what_was_proved():
    proof, X, y = case("psvm-weights")
    statement = verify(proof, X, y).statement
    assert statement == proof.statement
    assert str(statement) == (
        f"psvm with C = 2.0, p = 1.0; kernel rbf (gamma = {statement.kernel['gamma']!r});"
        " intercept free; 40 rows and 3 columns; classes -1, 1; weights: 40 of 40 differ from"
        " 1, between 0.0 and 2.0"
    )
    assert not verify(proof, X + 1.0, y)
    fixed = case("conic-fixed")[0].statement
    assert str(fixed).endswith(f"gamma given, between 0.0 and {fixed.gamma.max()}")
    assert "no kernel; intercept none" in str(case("odm")[0].statement)
    several = str(case("m3svm-fast")[0].statement)
    assert "classes 'ash', 'birch', 'cedar'; weights: 44 of 45" in several


EXPECTED = {
    "psvm": lambda **k: sx.psvm_dual(X, Y, **{"C": 2.0, "p": 1.5, "kernel": sx.RBF(0.4), **k}),
    "odm": lambda **k: sx.odm_dual(X, Y, **{**ODM, "intercept": True, **k}),
    "m3svm": lambda **k: sx.m3svm(X3, NAMES, **{"lam": 0.1, "p": 2.0, **k}),
}


@pytest.mark.parametrize(
    ("name", "other", "difference"),
    [
        ("psvm", {"kernel": sx.RBF(0.5)}, "gamma of the kernel is 0.4 where 0.5 is expected"),
        ("psvm", {"kernel": sx.Laplacian(0.4)}, "name of the kernel is 'rbf' where 'laplacian' is"),
        ("psvm", {"kernel": None}, "kernel is {'name': 'rbf', 'gamma': 0.4} where None is"),
        ("odm", {"intercept": False}, "intercept is 'penalised' where 'none' is expected"),
        ("m3svm", {"loss": "logistic"}, "loss is "),
    ],
)
def test_a_proof_of_another_problem_than_the_one_expected_is_refused(name, other, difference):
    problem = EXPECTED[name]()
    solution = sx.solve(problem)
    proof, (data, y) = solution.proof(), (X3, NAMES) if name == "m3svm" else (X, Y)
    plain = verify(proof, data, y)
    for expect in (problem, solution, proof.statement, proof, plain):
        assert verify(proof, data, y, expect=expect)
    found = verify(proof, data, y, expect=EXPECTED[name](**other))
    assert not found.holds
    assert re.match(f"the proof is about another problem: {difference}", found.why)
    # The interval is still that of the problem that the file names.
    assert replace(found, holds=True, why="") == plain


def test_what_can_be_expected():
    proof, X, y = case("psvm-1-None")
    fitted = sx.PSVMClassifier(C=2.0, p=1, tol=1e-6).fit(X, y)
    assert verify(fitted.solution_.proof(), X, y, expect=fitted)
    for expect, why in (
        (sx.PSVMClassifier(C=1.0, p=1).fit(X, y), "C is 2.0"),
        (sx.psvm_dual(X + 1.0, y, C=2.0, p=1), "fingerprint is"),
    ):
        assert why in verify(proof, X, y, expect=expect).why
    for wrong, why in (
        ("psvm", "expect must be"),
        (sx.PSVMClassifier, "expect must be"),
        (verify(proof, X[:-1], y[:-1]), "expect must be"),
        (sx.PSVMClassifier().fit(X3, NAMES), "one of several problems"),
        (l1_svm(X, y, C=1.0), "no proofs of this problem"),
    ):
        with pytest.raises(sx.DataError, match=why):
            verify(proof, X, y, expect=wrong)


# Kernels that may be indefinite

SIGNS = np.tile([-1, 1], 20)
BOTH = pytest.mark.parametrize("method", ["balls", "a-priori"])


def precomputed(K, y, *, alpha=None, support=(), v=()):
    """A proof about a precomputed kernel that claims little."""
    n, numbers, kernel = len(K), {"C": 1.0, "p": 2.0}, {"name": "precomputed"}
    statement = Statement(
        "penalised psvm", numbers, kernel, "none", n, n, (-1, 1), fingerprint(K, y)
    )
    model = {"support": np.array(support, dtype=int), "dual_coef": np.array(v, dtype=float)}
    dual, lower = ({}, None) if alpha is None else ({"alpha": alpha}, -1e300)
    return Proof(statement, model | {"intercept": 0.0}, dual, lower, 1e300)


@BOTH
def test_the_limit_of_an_eigenvalue(method):
    for place in (0, 20, 38):
        K = np.eye(40)
        for share, holds in ((0.0, True), (0.999, True), (1.001, False), (2.0, False)):
            K[place, place + 1] = K[place + 1, place] = 1.0 + share * 1e-10 * 40
            found = verify(precomputed(K, SIGNS), K, SIGNS, method=method)
            assert found.holds == holds
            assert holds or "indefinite" in found.why
    # Sparse storage is the same matrix.
    K[place, place + 1] = K[place + 1, place] = 1.0
    assert verify(precomputed(K, SIGNS), sp.csr_array(K), SIGNS, method=method)


@BOTH
def test_a_negative_norm_is_refused(method):
    # A matrix off by rounding is let through, but not a point of negative length.
    K = np.eye(40)
    K[0, 1] = K[1, 0] = 1.0 + 1e-9
    for points in ({"support": [0, 1], "v": [1.0, -1.0]}, {"alpha": np.eye(40)[:2].sum(axis=0)}):
        found = verify(precomputed(K, SIGNS, **points), K, SIGNS, method=method)
        assert "a squared norm is negative" in found.why
