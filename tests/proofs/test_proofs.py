"""The second checker: proofs of every formulation, and proofs that were tampered with."""

import ast
import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.conic_loss.models import moment_of
from svmcvx.formulations.margin import PenalisedPSVM
from svmcvx.formulations.margin_problems import l1_svm
from svmcvx.proofs import Proof, Statement, fingerprint, read_proof, verify, write_proof
from tests.conftest import make_data

flint = pytest.importorskip("flint")

# What the bounds on rounding may add to an interval, relatively, on data of usual size.
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
FAR3 = X3 + 6.0 * np.eye(3, 4)[CODES]
GRAM = X @ X.T + 1.0


def spread(solution, space):
    """The second moment of a conic model as a proof states it."""
    moment = moment_of(solution.model)
    if moment is None or moment.V.shape[1] == 0:
        return {}
    if space.kernel is None and space.X.shape[1] <= space.X.shape[0]:
        return {"V": moment.V}
    rows = np.zeros((space.data.rows, moment.V.shape[1]))
    rows[space.data.index] = np.linalg.lstsq(space.factor.T, moment.V, rcond=None)[0]
    return {"V_coef": rows, "ridge": 0.0}


NOT_STATED = ("kernel", "intercept", "form", "bias")


def proof_of(solution, X, y, intercept, *, weight=None, gamma=None, spread=None):
    """The proof that a solution holds, made without the package's own way."""
    model, certificate = solution.model, solution.certificate
    names = (
        ("coef", "intercept") if hasattr(model, "coef") else ("support", "dual_coef", "intercept")
    )
    kernel = model.kernel.to_dict() if hasattr(model, "kernel") else None
    statement = Statement(
        formulation=solution.formulation,
        hyperparameters={k: v for k, v in solution.hyperparameters.items() if k not in NOT_STATED},
        kernel=None if kernel == {"name": "linear"} else kernel,
        intercept=intercept,
        rows=X.shape[0],
        columns=X.shape[1],
        classes=tuple(model.classes.tolist()),
        fingerprint=fingerprint(X, y),
        weight=weight,
        gamma=gamma,
    )
    searched = certificate.kind in ("mixed-integer", "enumeration")
    return Proof(
        statement=statement,
        model={name: getattr(model, name) for name in names} | (spread or {}),
        dual={} if certificate.kind == "local" else solution.dual,
        lower=None if searched else certificate.lower,
        upper=certificate.upper,
        kind=certificate.kind,
        stated=certificate.lower if searched else None,
    )


def changed(proof, **fields):
    """A proof with another statement."""
    return replace(proof, statement=replace(proof.statement, **fields))


def with_numbers(proof, **numbers):
    return changed(proof, hyperparameters={**proof.statement.hyperparameters, **numbers})


def solved(build, X, y, bias, /, *, weight=None, **arguments):
    if weight is not None:
        arguments["sample_weight"] = weight
    if build is sx.fast.conic:
        space = sx.conic_sdp(X, y, **arguments).formulation.space
        solution = build(X, y, **arguments)
    elif build.__module__.startswith("svmcvx.fast"):
        space, solution = None, build(X, y, **arguments)
    else:
        problem = build(X, y, **arguments)
        solution = sx.solve(problem)
        space = problem.formulation.space if build is sx.conic_sdp else None
    found = {} if space is None else spread(solution, space)
    return proof_of(solution, X, y, bias, weight=weight, spread=found), X, y


def fixed_gamma(kernel):
    gamma = sx.fast.conic(*FEW, lam=0.5, kernel=kernel).dual["gamma"]
    solution = sx.solve(sx.conic_fixed_gamma(*FEW, gamma=gamma, lam=0.5, kernel=kernel))
    return proof_of(solution, *FEW, "penalised", gamma=gamma), *FEW


def penalised(intercept):
    statement = PenalisedPSVM(feature_space(binary_data(X, Y), None, intercept=intercept), 2.0, 1.5)
    alpha = RNG.uniform(0.0, 0.2, Y.size)
    # Better than zero multipliers, which are a candidate of the checker's own.
    alpha *= float(alpha.sum()) / statement.space.point(alpha * statement.y).squared_norm.value
    model = statement.space.model(alpha * statement.y)
    certificate = statement.certify(model, {"alpha": alpha})
    proof = Proof(
        statement=statement.proof_statement(),
        model={"coef": model.coef, "intercept": model.intercept},
        dual={"alpha": alpha},
        lower=certificate.lower,
        upper=certificate.upper,
    )
    return proof, X, Y


ODM = {"C1": 20.0, "C2": 8.0, "D": 0.1}
ODML = {"lam1": 0.7, "lam2": 0.3, "C": 20.0}
CASES = {
    **{
        f"psvm-{p}-{kernel}": lambda p=p, kernel=kernel: solved(
            sx.psvm_dual, X, Y, "free", C=2.0, p=p, kernel=kernel
        )
        for p in (1, 1.5, 2, 3)
        for kernel in (None, sx.RBF())
    },
    **{
        f"psvm-{kernel}": lambda kernel=kernel: solved(
            sx.fast.psvm, X, Y, "free", C=2.0, p=1.5, kernel=kernel
        )
        for kernel in (sx.Linear(), sx.Exponential(), sx.Laplacian(), sx.Polynomial(coef0=1.0))
    },
    "psvm-precomputed": lambda: solved(
        sx.psvm_dual, GRAM, Y, "free", C=2.0, p=2, kernel=sx.Precomputed()
    ),
    "psvm-weights": lambda: solved(
        sx.fast.psvm, X, Y, "free", weight=WEIGHT, C=2.0, p=1, kernel=sx.RBF()
    ),
    "psvm-sparse": lambda: solved(
        sx.psvm_primal, sp.csr_array(X * (abs(X) > 0.3)), Y, "free", C=2.0, p=1.5
    ),
    "psvm-penalised": lambda: penalised("penalised"),
    "psvm-without": lambda: penalised("none"),
    "hard-linear": lambda: solved(sx.hard_margin_dual, FAR, Y, "free"),
    "hard-rbf": lambda: solved(sx.fast.hard_margin, X, Y, "free", kernel=sx.RBF(gamma=2.0)),
    "odm": lambda: solved(sx.odm_dual, X, Y, "none", **ODM),
    "odm-rbf": lambda: solved(
        sx.fast.odm, X, Y, "penalised", weight=WEIGHT, kernel=sx.RBF(), intercept=True, **ODM
    ),
    "odml": lambda: solved(sx.odml_dual, X, Y, "penalised", intercept=True, **ODML),
    "odml-rbf": lambda: solved(sx.fast.odml, X, Y, "none", weight=WEIGHT, kernel=sx.RBF(), **ODML),
    "odml-plain": lambda: solved(sx.odml_primal, X, Y, "none", lam1=0.0, lam2=0.0, C=5.0),
    "odml-hard": lambda: solved(sx.odml_hard_margin, FAR, Y, "none", lam1=0.7, lam2=0.3),
    "conic": lambda: solved(sx.conic_sdp, X, Y, "penalised", lam=0.5),
    "conic-weights": lambda: solved(
        sx.fast.conic, X, Y, "none", weight=WEIGHT, lam=4.0, intercept=False
    ),
    "conic-rbf": lambda: solved(sx.conic_sdp, *FEW, "penalised", lam=0.5, kernel=sx.RBF()),
    "conic-kappa": lambda: solved(sx.conic_sdp, X, Y, "penalised", kappa=0.2),
    "conic-fixed": lambda: fixed_gamma(None),
    "conic-fixed-rbf": lambda: fixed_gamma(sx.RBF()),
    **{
        f"m3svm-{loss}-{p}-{norm}": lambda loss=loss, p=p, norm=norm: solved(
            sx.m3svm, X3, NAMES, "penalised", lam=0.1, p=p, loss=loss, norm=norm
        )
        for loss, p, norm in (
            ("hinge", 1.0, 1),
            ("hinge", 1.0, 2),
            ("smoothed", 1.5, 2),
            ("logistic", 4.0, 1),
            ("softmax", 2.0, 2),
        )
    },
    "m3svm-fast": lambda: solved(
        sx.fast.m3svm,
        X3,
        NAMES,
        "penalised",
        weight=np.linspace(0.0, 2.0, 45),
        lam=0.1,
        p=4,
        loss="hinge",
    ),
    **{
        f"m3svm-hard-{p}-{norm}": lambda p=p, norm=norm: solved(
            sx.m3svm_hard_margin, FAR3, NAMES, "free", p=p, norm=norm
        )
        for p, norm in ((1.0, 2), (2.0, 1), (3.0, 2), (math.inf, 2))
    },
    **{
        f"{build.__name__}-{intercept}": lambda build=build, intercept=intercept: solved(
            build,
            X3,
            NAMES,
            intercept,
            lam=0.3,
            intercept=intercept == "free",
            weight=np.linspace(0.0, 2.0, 45),
        )
        for build in (
            sx.weston_watkins,
            sx.crammer_singer,
            sx.msvm,
            sx.topk_svm,
            sx.multinomial_lr,
            sx.sparse_multinomial_lr,
        )
        for intercept in ("free", "none")
    },
}
COUNTING = {
    "zero-one": lambda: solved(sx.fast.zero_one, X, Y, "penalised", lam=0.5),
    "l0": lambda: solved(sx.fast.l0, X, Y, "free", C=0.5, kernel=sx.RBF()),
}


@cache
def case(name):
    return {**CASES, **COUNTING}[name]()


@cache
def checked(name):
    """What is verified of a case, by ball arithmetic."""
    return verify(*case(name), method="balls")


def without_points(proof):
    return replace(proof, dual={})


@pytest.mark.parametrize("name", CASES)
def test_the_interval_of_a_solution_is_proved(name):
    proof, X, y = case(name)
    verified = checked(name)
    assert verified.holds, verified.why
    assert verified.why == ""
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
        entry: (
            values * (1.0 + 2.0**-46 * rng.uniform(-1, 1, values.shape))
            if entry in entries
            else values
        )
        for entry, values in proof.dual.items()
    }
    moved = verify(replace(proof, dual=dual, lower=verified.lower + step, upper=None), X, y)
    assert abs(moved.lower - verified.lower) <= 1e-10 * abs(verified.upper)
    assert moved.holds == (moved.lower >= verified.lower + step)
    high = verify(replace(proof, lower=verified.lower + step, upper=None), X, y)
    assert not high.holds
    assert "the dual objective is at least" in high.why
    assert high.lower == verified.lower


@pytest.mark.parametrize(
    "name", [name for name in CASES if name.startswith(("psvm", "odm")) and "odml" not in name]
)
def test_doubles_enclose_what_balls_prove(name):
    proof, X, y = case(name)
    balls, doubles = checked(name), verify(proof, X, y, method="a-priori")
    assert doubles.lower <= balls.lower <= balls.upper <= doubles.upper
    assert doubles.holds or "doubles do not tell" in doubles.why
    assert balls.lower - doubles.lower <= 1e-10 * abs(balls.upper)
    assert doubles.upper - balls.upper <= 1e-10 * abs(balls.upper)


@pytest.mark.parametrize("name", COUNTING)
def test_the_bound_of_a_search_is_no_part_of_a_proof_without_its_tree(name):
    proof, X, y = case(name)
    if proof.tree:
        assert verify(proof, X, y).checked == ("lower", "upper")
        proof = replace(proof, tree={}, lower=None, stated=proof.lower)
    verified = verify(proof, X, y)
    assert verified.holds, verified.why
    assert verified.upper <= proof.upper
    if proof.kind == "enumeration":
        assert verified.lower is None or verified.lower < proof.stated
        assert (
            f"the lower end {proof.stated!r} that a search states is not part of the proof"
            in verified.why
        )
        claimed = verify(replace(proof, lower=proof.stated, stated=None), X, y)
        assert not claimed.holds
        assert not claimed
        assert claimed.checked == ("upper",)
        assert "has no dual point that would prove it" in claimed.why
    else:
        assert "claims no lower end" in verified.why
    assert not verify(replace(proof, upper=proof.upper * (1 - 1e-7)), X, y).holds


def test_the_bound_of_a_mixed_integer_solver_is_no_part_of_the_proof():
    pytest.importorskip("pyscipopt")
    few = slice(0, 12)
    for build, intercept, price in (
        (sx.zero_one_mio, "penalised", {"lam": 0.5}),
        (sx.zero_one_mio, "penalised", {"k": 4.0}),
        (sx.ramp_mio, "free", {"C": 0.5}),
        (sx.l0_mio, "free", {"C": 0.5}),
    ):
        proof, data, y = solved(build, X[few], Y[few], intercept, **price)
        verified = verify(proof, data, y)
        assert verified.holds, verified.why
        assert verified.lower is None or verified.lower < proof.stated
        assert "that a solver states is not part of the proof" in verified.why
        assert not verify(replace(proof, lower=proof.stated), data, y).holds


TAMPERED = (
    "psvm-1-None",
    "psvm-1.5-RBF(gamma='scale')",
    "psvm-weights",
    "hard-linear",
    "odm-rbf",
    "odml",
    "conic",
    "conic-rbf",
    "weston_watkins-free",
    "multinomial_lr-none",
    "m3svm-hinge-1.0-2",
    "m3svm-softmax-2.0-2",
    "m3svm-hard-2.0-1",
)
SCALARS = ("C", "C1", "lam", "lam1", "eps")


def scaled(arrays, name, position, factor):
    """Arrays with one entry that is not zero, nor small beside the largest, times a factor."""
    values = np.array(arrays[name], dtype=np.float64)
    large = np.flatnonzero(np.abs(values.ravel()) > 0.05 * np.abs(values).max())
    values.ravel()[large[position % large.size]] *= factor
    return {**arrays, name: values}


@given(
    name=st.sampled_from(TAMPERED),
    where=st.sampled_from(
        ["multiplier", "coefficient", "data", "label", "kernel", "hyperparameter", "weight"]
    ),
    position=st.integers(0, 1000),
    factor=st.floats(0.01, 0.8) | st.floats(1.25, 100.0),
)
def test_what_was_tampered_with_is_refused(name, where, position, factor):
    proof, X, y = case(name)
    named = ""
    if where == "multiplier":
        entry = next(entry for entry in ("alpha", "theta", "gamma") if entry in proof.dual)
        proof = replace(proof, dual=scaled(proof.dual, entry, position, factor))
        named = "multiplier|dual objective|gradient|definite"
    elif where == "coefficient":
        entry = "coef" if "coef" in proof.model else "dual_coef"
        proof = replace(proof, model=scaled(proof.model, entry, position, factor))
        named = "objective|margin|difference"
    elif where == "data":
        X = X.copy()
        X[position % X.shape[0], position % X.shape[1]] *= factor
        named = "the data are not those of the proof: fingerprint"
    elif where == "label":
        y = np.array(y)
        row = position % y.size
        y[row] = next(label for label in proof.statement.classes if label != y[row])
        named = "the data are not those of the proof: fingerprint"
    elif where == "kernel" and proof.statement.kernel is not None:
        kernel = proof.statement.kernel
        proof = changed(proof, kernel={**kernel, "gamma": kernel["gamma"] * factor})
    elif where == "weight" and "odm" not in proof.statement.formulation:
        if "hard" in proof.statement.formulation:
            return
        proof = changed(proof, weight=proof.statement.weighted * factor)
    else:
        present = [key for key in SCALARS if key in proof.statement.hyperparameters]
        if not present:
            return
        key = present[position % len(present)]
        if key == "eps":
            factor = 1e6
        proof = with_numbers(proof, **{key: proof.statement.hyperparameters[key] * factor})
    verified = verify(proof, X, y)
    assert not verified.holds
    assert "\n" not in verified.why
    assert any(
        part in verified.why
        for part in (named or "objective|multiplier|flow|gradient|definite|data").split("|")
    )


@given(name=st.sampled_from(TAMPERED), low=st.floats(-1.0, 1.0), high=st.floats(-1.0, 1.0))
def test_a_wider_claim_holds_and_a_narrower_one_does_not(name, low, high):
    proof, X, y = case(name)
    plain = checked(name)
    if plain.lower - low > plain.upper + high:
        return
    claimed = replace(proof, lower=plain.lower - low, upper=plain.upper + high)
    verified = verify(claimed, X, y)
    assert (
        verified.holds
        == bool(verified)
        == (claimed.lower <= plain.lower and plain.upper <= claimed.upper)
    )
    assert (verified.lower, verified.upper) == (plain.lower, plain.upper)


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
    v = np.round(rng.uniform(0, 1, 6) * 2.0**20) * 2.0**-20 * C
    alpha = np.ravel(np.column_stack([v, v]))
    numbers = {"gamma": 1.0 / scale**2} | (
        {"degree": 3, "coef0": 1.0} if kernel == "polynomial" else {}
    )
    described = None if kernel is None else {"name": kernel, **numbers}
    proof = Proof(
        statement=Statement(
            "psvm", {"C": C, "p": p}, described, "free", 12, 3, (0, 1), fingerprint(X, y)
        ),
        model=(
            {"coef": rng.normal(size=3), "intercept": 0.3}
            if kernel is None
            else {"support": np.arange(12), "dual_coef": alpha * (2 * y - 1), "intercept": 0.3}
        ),
        dual={"alpha": alpha},
        lower=-1e300,
        upper=None,
    )
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
    from svmcvx.proofs import checker

    proof, X, y = case("psvm-1.5-RBF(gamma='scale')")
    balls, doubles = (verify(proof, X, y, method=method) for method in ("balls", "a-priori"))
    assert doubles.lower < balls.lower
    assert verify(proof, X, y) == balls
    monkeypatch.setattr(checker, "MOST_KERNEL_ROWS", 10)
    assert verify(proof, X, y) == doubles


def test_a_file_holds_the_proof(tmp_path):
    for name in ("psvm-weights", "conic", "m3svm-fast", "m3svm-hard-inf-2"):
        proof, X, y = case(name)
        path = tmp_path / f"{name}.npz"
        write_proof(path, proof)
        again = read_proof(path)
        assert again.statement == proof.statement
        assert verify(path, X, y) == verify(proof, X, y)
        assert verify(str(path), X, y).holds
    assert [file.suffix for file in tmp_path.iterdir()] == [".npz"] * 4


@given(position=st.floats(0, 1), bit=st.integers(0, 7), data=st.data())
def test_a_corrupted_file_is_refused_or_the_same(tmp_path_factory, position, bit, data):
    proof, X, y = case("psvm-1-None")
    path = tmp_path_factory.mktemp("proof") / "proof.npz"
    write_proof(path, proof)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content[min(int(position * len(content)), len(content) - 1)] ^= 1 << bit
    else:
        del content[int(position * len(content)) :]
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
    stored = [X, sp.csr_array(X), sp.csc_array(X), np.asfortranarray(X), X.astype(np.float64)[::1]]
    assert len({fingerprint(each, labels) for each in stored for labels in (y, names)}) == 1
    other = X.copy()
    other[7, 2] += 1e-15
    assert fingerprint(other, y) != fingerprint(X, y)
    assert fingerprint(X, 1 - y) != fingerprint(X, y)
    assert fingerprint(X.T.copy(), y) != fingerprint(X, y)


def test_without_flint(monkeypatch):
    y = np.where(Y > 0, 1, -1)
    proof = sx.fast.psvm(X, y, C=1.3, p=1.0).proof()
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(sx.SolverUnavailable, match=r"pip install 'svmcvx\[proofs\]'"):
        verify(proof, X, y)
    assert verify(proof, X, y, method="a-priori").holds


def test_the_second_checker_shares_nothing_with_the_package():
    for path in (Path(sx.__file__).parent / "proofs").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("svmcvx"):
                assert node.module == "svmcvx.errors" or node.module.startswith("svmcvx.proofs")
            packages = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("svmcvx") for name in packages)


@given(
    name=st.sampled_from(["hinge", "softmax", "largest", "topk"]),
    k=st.integers(1, 4),
    seed=st.integers(0, 2**16),
    off=st.sampled_from([0.0, 2.0**-45]),
)
def test_multipliers_are_put_into_the_domain_exactly(name, k, seed, off):
    from svmcvx.proofs.balls import fractions
    from svmcvx.proofs.families.multiclass import Loss

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
    assert all(
        abs(float(x.p) / float(x.q) - g) <= 1e-11 for x, g in zip(inside, given, strict=True)
    )


def test_reasons_are_one_sentence_with_the_row():
    proof, X, y = case("psvm-1-None")
    alpha = np.where(np.arange(Y.size) == 17, 3.5, proof.dual["alpha"])
    why = verify(replace(proof, dual={"alpha": alpha}), X, y).why
    assert why == "the multiplier of row 17 is 3.5, above its bound 2.0"
    assert "no dual point" in verify(without_points(proof), X, y).why
    assert verify(replace(without_points(proof), lower=None), X, y).holds
    # Constraints on margins that are written down belong to the problem.
    proof, X, y = case("zero-one")
    assert verify(changed(proof, M=np.full(y.size, 1e6)), X, y).upper == verify(proof, X, y).upper


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
    rng = np.random.default_rng(0)
    X = 1e6 + rng.standard_normal((5, 4))
    problem = sx.odml_hard_margin(
        X, [1, 1, 0, 0, 0], lam1=0.3, lam2=1e-5, kernel=sx.Polynomial(2, 0.5, 0.0)
    )
    solution = sx.solve(problem)
    proof = solution.proof()
    found = sx.verify(proof, X, [1, 1, 0, 0, 0])
    assert solution.certificate.upper == math.inf
    assert found.holds, found.why
    claimed = replace(proof, upper=1.0)
    assert not sx.verify(claimed, X, [1, 1, 0, 0, 0]).holds


# What was proved, and what was expected


def test_the_result_says_what_was_proved():
    proof, X, y = case("psvm-weights")
    verified = verify(proof, X, y)
    statement = verified.statement
    assert statement == proof.statement
    assert (
        str(statement)
        == f"psvm with C = 2.0, p = 1.0; kernel rbf (gamma = {statement.kernel['gamma']!r});"
        " intercept free; 40 rows and 3 columns; classes -1, 1; weights: 40 of 40 differ from"
        " 1, between 0.0 and 2.0"
    )
    assert verified.checked == ("lower", "upper")
    assert verified
    assert not verify(proof, X + 1.0, y)
    assert str(case("conic-fixed")[0].statement).endswith(
        f"gamma given, between 0.0 and {case('conic-fixed')[0].statement.gamma.max()}"
    )
    assert "no kernel; intercept none" in str(case("odm")[0].statement)
    assert "classes 'ash', 'birch', 'cedar'; weights: 44 of 45" in str(
        case("m3svm-fast")[0].statement
    )


EXPECTED = {
    "psvm": lambda **k: sx.psvm_dual(X, Y, **{"C": 2.0, "p": 1.5, "kernel": sx.RBF(0.4), **k}),
    "odm": lambda **k: sx.odm_dual(
        X, Y, **{"C1": 2.0, "C2": 1.0, "D": 0.1, "intercept": True, **k}
    ),
    "m3svm": lambda **k: sx.m3svm(X3, NAMES, **{"lam": 0.1, "p": 2.0, **k}),
}


@pytest.mark.parametrize(
    ("name", "other", "difference"),
    [
        ("psvm", {"C": 2.5}, "C is 2.0 where 2.5 is expected"),
        ("psvm", {"kernel": sx.RBF(0.5)}, "gamma of the kernel is 0.4 where 0.5 is expected"),
        (
            "psvm",
            {"kernel": sx.Laplacian(0.4)},
            "name of the kernel is 'rbf' where 'laplacian' is expected",
        ),
        (
            "psvm",
            {"kernel": None},
            "kernel is {'name': 'rbf', 'gamma': 0.4} where None is expected",
        ),
        (
            "psvm",
            {"sample_weight": WEIGHT},
            "weight is another than the one that is expected, first in row 0: 1.0 for 0.2",
        ),
        ("odm", {"intercept": False}, "intercept is 'penalised' where 'none' is expected"),
        ("m3svm", {"loss": "logistic"}, "loss is "),
        ("m3svm", {"eps": 1e-3}, "eps is 1e-06 where 0.001 is expected"),
    ],
)
def test_a_proof_of_another_problem_than_the_one_expected_is_refused(name, other, difference):
    problem = EXPECTED[name]()
    solution = sx.solve(problem)
    proof, (data, y) = solution.proof(), (X3, NAMES) if name == "m3svm" else (X, Y)
    for expect in (problem, solution, proof.statement, proof, verify(proof, data, y)):
        assert verify(proof, data, y, expect=expect)
    found = verify(proof, data, y, expect=EXPECTED[name](**other))
    assert not found.holds
    assert found.why.startswith(f"the proof is about another problem: {difference}")
    # The interval is still that of the problem that the file names.
    plain = verify(proof, data, y)
    assert (found.lower, found.upper, found.statement) == (
        plain.lower,
        plain.upper,
        proof.statement,
    )


def test_what_can_be_expected():
    proof, X, y = case("psvm-1-None")
    fitted = sx.PSVMClassifier(C=2.0, p=1, tol=1e-6).fit(X, y)
    assert verify(fitted.solution_.proof(), X, y, expect=fitted)
    assert "C is 2.0" in verify(proof, X, y, expect=sx.PSVMClassifier(C=1.0, p=1).fit(X, y)).why
    assert "formulation is 'psvm'" in verify(proof, X, y, expect=sx.odm_dual(X, y)).why
    assert "fingerprint is" in verify(proof, X, y, expect=sx.psvm_dual(X + 1.0, y, C=2.0, p=1)).why
    gamma = case("conic-fixed")[0]
    other = changed(gamma, gamma=gamma.statement.gamma * 2.0).statement
    assert "gamma is another than" in verify(gamma, *FEW, expect=other).why
    assert (
        "M is another than"
        in verify(
            case("zero-one")[0], X, y, expect=changed(case("zero-one")[0], M=np.ones(40)).statement
        ).why
    )
    for wrong in ("psvm", sx.PSVMClassifier, {"C": 2.0}, sx.verify(proof, X[:-1], y[:-1])):
        with pytest.raises(sx.DataError, match="expect must be"):
            verify(proof, X, y, expect=wrong)
    with pytest.raises(sx.DataError, match="one of several problems"):
        verify(proof, X, y, expect=sx.PSVMClassifier().fit(X3, NAMES))
    with pytest.raises(sx.DataError, match="no proofs of this problem"):
        verify(proof, X, y, expect=l1_svm(X, y, C=1.0))


# Kernels that may be indefinite


def precomputed(K, y, *, alpha=None, support=(), v=(), weight=None, intercept="none", p=2.0):
    """A proof about a precomputed kernel that claims little."""
    n = len(K)
    name = "psvm" if intercept == "free" else "penalised psvm"
    described = {"name": "precomputed"}
    statement = Statement(
        name, {"C": 1.0, "p": p}, described, intercept, n, n, (-1, 1), fingerprint(K, y), weight
    )
    model = {
        "support": np.array(support, dtype=int),
        "dual_coef": np.array(v, dtype=float),
        "intercept": 0.0,
    }
    return Proof(
        statement,
        model,
        {} if alpha is None else {"alpha": alpha},
        None if alpha is None else -1e300,
        1e300,
    )


SIGNS = np.tile([-1, 1], 20)
BOTH = pytest.mark.parametrize("method", ["balls", "a-priori"])


@BOTH
def test_rows_of_weight_zero_that_the_model_rests_on_are_tested(method):
    # Of the last row all that matters is how it meets the others, and that its own size is next to
    # nothing.
    rng = np.random.default_rng(0)
    K = np.zeros((21, 21))
    F = rng.normal(size=(20, 2))
    K[:20, :20], K[20, :20], K[:20, 20], K[20, 20] = (
        F @ F.T,
        1e-4 * SIGNS[:20],
        1e-4 * SIGNS[:20],
        1e-12,
    )
    weight = np.append(np.ones(20), 0.0)
    proof = precomputed(K, np.append(SIGNS[:20], 1), support=[20], v=[1e4], weight=weight)
    assert "indefinite" in verify(proof, K, np.append(SIGNS[:20], 1), method=method).why
    unused = precomputed(K, np.append(SIGNS[:20], 1), support=[3], v=[1.0], weight=weight)
    assert verify(unused, K, np.append(SIGNS[:20], 1), method=method)


@BOTH
def test_an_upper_end_alone_is_tested_too(method):
    K = np.eye(40)
    K[0, 1] = K[1, 0] = 3.0
    found = verify(precomputed(K, SIGNS, support=[2], v=[1.0]), K, SIGNS, method=method)
    assert not found.holds
    assert "indefinite" in found.why
    negative = np.eye(40)
    negative[3, 3] = -1e-12
    assert (
        "its diagonal entry of row 3"
        in verify(precomputed(negative, SIGNS), negative, SIGNS, method=method).why
    )
    zero = np.eye(40)
    zero[3, 3], zero[3, 4], zero[4, 3] = 0.0, 1e-12, 1e-12
    why = verify(precomputed(zero, SIGNS), zero, SIGNS, method=method).why
    assert "not symmetric" in why or "a diagonal entry is 0" in why


@BOTH
@pytest.mark.parametrize("n", [40, 530])
def test_an_indefinite_block_is_found_at_any_place(method, n):
    y = np.tile([-1, 1], n // 2)
    for place in (0, n // 2, n - 2):
        K = np.eye(n)
        K[place, place + 1] = K[place + 1, place] = 3.0
        assert "indefinite" in verify(precomputed(K, y), K, y, method=method).why
    K[place, place + 1] = K[place + 1, place] = 1.0
    assert verify(precomputed(K, y), K, y, method=method)
    # Sparse storage is the same matrix.
    assert verify(precomputed(K, y), sp.csr_array(K), y, method=method)


@BOTH
def test_the_limit_of_an_eigenvalue(method):
    def refused(share):
        K = np.eye(40)
        K[0, 1] = K[1, 0] = 1.0 + share * 1e-10 * 40
        found = verify(precomputed(K, SIGNS), K, SIGNS, method=method)
        return not found.holds

    assert [refused(share) for share in (0.0, 0.9, 0.999, 1.001, 2.0)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@BOTH
def test_a_negative_norm_is_refused(method):
    # What rounding may have done to the matrix is let through, but not a point of negative length.
    K = np.eye(40)
    K[0, 1] = K[1, 0] = 1.0 + 1e-9
    model = precomputed(K, SIGNS, support=[0, 1], v=[1.0, -1.0])
    assert "a squared norm is negative" in verify(model, K, SIGNS, method=method).why
    alpha = np.zeros(40)
    alpha[:2] = 1.0
    assert (
        "a squared norm is negative"
        in verify(precomputed(K, SIGNS, alpha=alpha), K, SIGNS, method=method).why
    )


@BOTH
def test_a_direction_that_only_rounding_made_negative_proves_nothing(method):
    # A matrix of rank 4, whose other eigenvalues are those of rounding.
    y = np.where(Y > 0, 1, -1)
    proof = solved(sx.psvm_dual, GRAM, y, "free", C=1.3, p=2, kernel=sx.Precomputed())[0]
    optimum = verify(proof, GRAM, y, method=method)
    assert optimum.holds, optimum.why
    values, vectors = np.linalg.eigh(GRAM)
    v = np.zeros(40)
    v[proof.model["support"]] = proof.model["dual_coef"]
    found = []
    for value, z in zip(values[:4], vectors.T, strict=False):
        # A share of the squared norm is lost.
        size = np.sqrt(0.3 * (v @ GRAM @ v) / -value)
        model = {
            "support": np.arange(40),
            "dual_coef": v + size * z,
            "intercept": proof.model["intercept"],
        }
        found.append(
            verify(
                replace(proof, model=model, dual={}, lower=None, upper=1e300),
                GRAM,
                y,
                method=method,
            )
        )
        assert found[-1].upper >= optimum.lower
    assert "rounding of the kernel decides" in found[0].why


@BOTH
def test_rounding_of_a_matrix_that_is_not_quite_symmetric(method):
    K = X @ X.T
    skew = K * (1.0 + 1e-13 * RNG.uniform(-1, 1, K.shape))
    y = np.where(Y > 0, 1, -1)
    proof = precomputed(skew, y, alpha=np.full(40, 1e-3), support=[0, 5], v=[0.1, -0.2])
    found, other = verify(proof, skew, y, method=method), verify(proof, skew, y, method="balls")
    assert found.holds, found.why
    assert found.lower <= other.lower <= other.upper <= found.upper
    assert found.upper - found.lower <= (other.upper - other.lower) * (1 + 1e-12)


def test_other_kernels_that_may_be_indefinite():
    for kernel, definite in (
        ({"name": "sigmoid", "gamma": 0.01, "coef0": 0.0}, False),
        ({"name": "polynomial", "degree": 2, "gamma": 1.0, "coef0": -1.0}, False),
        ({"name": "polynomial", "degree": 1, "gamma": 1.0, "coef0": -1e-30}, True),
    ):
        rows = np.zeros((40, 3)) + X
        statement = Statement("odm", ODM, kernel, "none", 40, 3, (-1, 1), fingerprint(rows, Y))
        model = {"support": [0], "dual_coef": [0.0], "intercept": 0.0}
        proof = Proof(statement, model, {"theta": np.zeros(40)}, 0.0, None)
        found = [verify(proof, rows, Y, method=method) for method in ("balls", "a-priori")]
        assert [one.lower is not None for one in found] == [definite] * 2
        assert definite or all("indefinite" in one.why for one in found)
