"""The library of proved optima: numbers by content, an index that only proofs change, and checks
that can fail.
"""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

import svmcvx as sx
from benchmarks.referee import library
from benchmarks.referee.__main__ import main
from benchmarks.referee.index import INDEX, Claim, Index, rounded_down, rounded_up
from benchmarks.referee.instances import (
    GENERATED,
    Problem,
    data_digest,
    instance_id,
    known_data_sets,
    listed,
    make_data_set,
    problem_of,
    recorded,
)
from svmcvx import DataError, NotCertified
from svmcvx.proofs import read_proof, write_proof

SMALL = "gauss-60x2"


def of(name, text):
    return next(one for one in listed("core") if one.data_set == name and str(one.problem) == text)


HINGE = of(SMALL, "psvm C=1 p=1 intercept=free")


# Data sets and numbers


@pytest.mark.parametrize(
    "name", ["breast_cancer/standard", "iris/standard", "digits:3-8/standard", *GENERATED]
)
def test_recipes_make_the_recorded_numbers(name):
    data, record = make_data_set(name), recorded()[name]
    assert (*data.X.shape, np.unique(data.y).size, data.digest) == tuple(record)


def test_other_numbers_than_the_recorded_are_refused(monkeypatch):
    X, y = GENERATED[SMALL]()
    monkeypatch.setitem(GENERATED, SMALL, lambda: (X + 2.0**-19, y))
    with pytest.raises(DataError, match="another than that of the library"):
        make_data_set(SMALL)


@given(st.permutations([0, 1, 2]), st.integers(0, 2**32 - 1))
def test_the_digest_does_not_depend_on_what_classes_are_called(order, seed):
    draw = np.random.default_rng(seed)
    X, y = draw.standard_normal((12, 2)), draw.permutation(np.arange(12) % 3)
    names = np.array(["b", "a", "c"])[order]
    assert data_digest(X, y) == data_digest(X, names[y])
    other = y.copy()
    other[0] = (other[0] + 1) % 3
    assert data_digest(X, y) != data_digest(X, other)
    assert data_digest(X, y) != data_digest(X + 1.0, y)


def test_every_problem_is_read_from_its_text_and_every_number_occurs_once():
    found = [one for part in ("core", "extended") for one in listed(part)]
    assert len({one.id for one in found}) == len(found)
    assert all(Problem.read(str(one.problem)) == one.problem for one in found)
    assert all(instance_id(recorded()[one.data_set].digest, one.problem) == one.id for one in found)
    assert {one.data_set for one in listed("core")} == set(known_data_sets())


@pytest.mark.parametrize(
    "text", ["psvm C", "psvm C=1 C=2 intercept=free", "psvm C=1.0 p=1 intercept=free"]
)
def test_texts_that_are_no_problems_are_refused(text):
    with pytest.raises(DataError, match="no problem of the library"):
        Problem.read(text)


@pytest.mark.parametrize("entry", sorted({one.problem.formulation for one in listed("core")}))
def test_problem_and_solver_state_the_same_instance(entry):
    """Builder, specialised solver and listing agree on formulation, hyper-parameters and
    intercept.
    """
    instance = min(
        (one for one in listed("core") if one.problem.formulation == entry),
        key=lambda one: recorded()[one.data_set].rows,
    )
    rows = np.arange(30)
    data = make_data_set(instance.data_set)
    built = instance.problem.build(data.X[rows], data.y[rows]).proof_statement()
    assert str(problem_of(built)) == str(instance.problem)


# The index of the package


def test_the_index_has_both_parts_at_its_tolerance_and_stays_small():
    known = Index()
    parts = {part: {one.id: one for one in listed(part)} for part in ("core", "extended")}
    both = parts["core"] | parts["extended"]
    assert INDEX.stat().st_size < 1_000_000
    assert {one.id for one in known} <= both.keys()
    assert all(
        (one.data_set, one.problem) == (both[one.id].data_set, str(both[one.id].problem))
        for one in known
    )
    for part, least in (("core", 2900), ("extended", 1500)):
        convex = [one for one in known if one.id in parts[part] and one.claims[0].kind == "convex"]
        assert len(convex) >= least
        assert all(one.gap <= 1e-6 for one in convex)
        assert sum(one.tolerance == "1e-9" for one in convex) >= 0.99 * len(convex)


def test_ends_are_rounded_outwards():
    for value in (0.1, -0.1, 26.525454848482240, 1e-300, 9.999999999999999e22, 3.0):
        assert rounded_down(value) <= value <= rounded_up(value)
        assert rounded_up(value) - rounded_down(value) <= 2.1e-12 * abs(value)


def claim(lower, upper, proof="a" * 64):
    return Claim("0" * 16, "d", "p", lower, upper, None, "convex", "me", "1", "2026-01-01", proof)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1, 2)), min_size=1, max_size=6))
def test_merging_keeps_the_largest_lower_and_the_smallest_upper_end(tmp_path_factory, ends):
    index = Index(tmp_path_factory.mktemp("index") / "i.csv")
    for number, (lower, upper) in enumerate(ends):
        index.merge(claim(lower, upper, str(number)))
    (found,) = index
    assert (found.lower, found.upper) == (
        max(low for low, _ in ends),
        min(high for _, high in ends),
    )
    assert len(found.claims) <= 2
    index.write()
    assert Index(index.path)["0" * 16] == found


def test_a_contradiction_is_an_alarm_and_changes_nothing(tmp_path):
    index = Index(tmp_path / "i.csv")
    assert index.merge(claim(1.0, 2.0))
    for lower, upper in ((2.5, 3.0), (0.1, 0.5)):
        with pytest.raises(DataError, match="contradict each other"):
            index.merge(claim(lower, upper, "b"))
    assert not index.merge(claim(0.5, 3.0, "b"))
    assert [one.claims[0].proof for one in index] == ["a" * 64]


@pytest.mark.parametrize(
    ("text", "why"), [("id,lower\n", "is no index"), (None, "is no number of an instance")]
)
def test_files_that_are_no_index_are_refused(tmp_path, text, why):
    path = tmp_path / "i.csv"
    if text is None:
        index = Index(path)
        index.merge(replace(claim(1.0, 2.0), id="xyz"))
        index.write()
    else:
        path.write_text(text)
    with pytest.raises(DataError, match=why):
        Index(path)


# Building, checking, adding


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proofs")
    found = library.build([HINGE], folder, index=folder / "index.csv", date="2026-01-01")
    assert [one.why for one in found] == [""]
    return folder


def test_what_is_built_is_not_built_again(built, monkeypatch):
    monkeypatch.setattr(Problem, "solve", lambda *_, **__: pytest.fail("it was solved again"))
    library.build([HINGE], built, index=built / "index.csv", date="2026-01-02")
    assert Index(built / "index.csv")[HINGE.id].claims[0].date == "2026-01-01"


def test_ctrl_c_leaves_an_index_of_what_is_done(tmp_path, monkeypatch):
    others = [one for one in listed("core") if one.data_set == SMALL][:3]

    def stop(one):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.build(others, tmp_path, index=tmp_path / "index.csv", progress=stop)
    assert len(Index(tmp_path / "index.csv")) == 1


def test_the_check_fails_where_the_index_lies(built, tmp_path):
    known = Index(built / "index.csv")
    true = known[HINGE.id]
    lying = Index(tmp_path / "index.csv")
    lying.merge(replace(true.claims[0], lower=true.upper * 1.001, upper=true.upper * 1.002))
    lying.write()
    found = library.check([HINGE], built, index=tmp_path / "index.csv")
    assert not found
    assert "the index says" in found.rows[0].why
    optimistic = Index(tmp_path / "other.csv")
    optimistic.merge(replace(true.claims[0], lower=true.upper, upper=true.upper))
    optimistic.write()
    assert library.check([HINGE], built, index=tmp_path / "other.csv").rows[0].verdict == "agrees"


def test_a_check_that_is_ended_tells_what_it_has(built, monkeypatch):
    others = [HINGE, *(one for one in listed("core") if one.data_set == SMALL and one != HINGE)][:2]
    whole = library._checked

    def ended(instance, **given):
        if instance is not HINGE:
            raise KeyboardInterrupt
        return whole(instance, **given)

    monkeypatch.setattr(library, "_checked", ended)
    found = library.check(others, built)
    assert not found
    assert (len(found.rows), found.count("failed"), found.complete) == (1, 0, False)


def forged(built, tmp_path, **changes):
    proof = read_proof(built / f"{HINGE.id}.npz")
    path = tmp_path / "forged.npz"
    write_proof(path, replace(proof, **changes))
    return path


def test_a_forged_proof_is_refused_and_the_index_is_as_before(built, tmp_path):
    before = (built / "index.csv").read_bytes()
    proof = read_proof(built / f"{HINGE.id}.npz")
    path = forged(built, tmp_path, lower=proof.upper, upper=proof.upper)
    with pytest.raises(NotCertified, match="does not hold"):
        library.add(path, who="forger", index=built / "index.csv")
    assert (built / "index.csv").read_bytes() == before
    assert main(["add", str(path), "--who", "forger", "--index", str(built / "index.csv")]) == 1
    (tmp_path / f"{HINGE.id}.npz").write_bytes(path.read_bytes())
    assert not library.check([HINGE], tmp_path)


def test_an_improved_bound_is_merged_by_end(tmp_path):
    """A coarse interval is narrowed at both ends; a proof in which classes have other names and
    signs counts too.
    """
    data, problem = library.get(HINGE.id)
    index, folder = tmp_path / "index.csv", tmp_path / "proofs"
    coarse = sx.fast.psvm(data.X, data.y, C=1.0, p=1.0, tol=0.2)
    coarse.save_proof(tmp_path / "coarse.npz")
    first = library.add(tmp_path / "coarse.npz", who="a", index=index, proofs=folder)
    assert first.new
    assert first.claim.id == HINGE.id
    names = np.where(data.y == data.y.max(), "no", "yes")
    problem.solve(data.X, names, tol=1e-10).save_proof(tmp_path / "fine.npz")
    second = library.add(tmp_path / "fine.npz", who="b", index=index, proofs=folder)
    assert second.new
    found = Index(index)[HINGE.id]
    assert found.lower >= first.claim.lower
    assert found.upper <= first.claim.upper
    assert found.gap < 1e-9
    assert {one.who for one in found.claims} <= {"a", "b"}
    assert not library.add(tmp_path / "coarse.npz", who="c", index=index).new
    assert library.check([HINGE], folder, index=index).count("confirmed") == 1


def test_proofs_of_strange_data_and_of_weighted_problems_are_refused(tmp_path):
    X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    sx.fast.psvm(X, y).save_proof(tmp_path / "p.npz")
    with pytest.raises(DataError, match="no data set of the library"):
        library.add(tmp_path / "p.npz", who="me", index=tmp_path / "i.csv")
    data, _ = library.get(HINGE.id)
    weights = np.ones(data.y.size)
    weights[0] = 2.0
    sx.fast.psvm(data.X, data.y, sample_weight=weights).save_proof(tmp_path / "p.npz")
    with pytest.raises(DataError, match="no problems with weights"):
        library.add(tmp_path / "p.npz", who="me", index=tmp_path / "i.csv")
    for who in ("\n", "", '=HYPERLINK("http://x";"open")', "+1", "@me"):
        with pytest.raises(DataError, match="who must be"):
            library.add(tmp_path / "p.npz", who=who, index=tmp_path / "i.csv")


def separator(X, signs, steps):
    """Ten lines that somebody wrote: averaged subgradients of the squared length and the hinge
    loss.
    """
    rows = signs[:, None] * np.column_stack([X, np.ones(len(signs))])
    w = mean = np.zeros(rows.shape[1])
    for step in range(1, steps):
        w = w - (w - rows[rows @ w < 1].sum(axis=0)) / step
        mean = mean + (w - mean) * 2 / (step + 1)
    return mean[:-1], mean[-1]


def test_the_model_of_anybody_narrows_a_record(tmp_path):
    instance = of(SMALL, "zero_one lam=1 intercept=penalised")
    data, _ = library.get(instance.id)
    index, proof = tmp_path / "i.csv", tmp_path / "mine.npz"
    signs = np.where(data.y == data.y.max(), 1.0, -1.0)
    uppers = []
    for steps in (3, 300):
        found = library.prove(instance, separator(data.X, signs, steps), proof)
        assert library.add(proof, who="me", index=index).new
        uppers.append(Index(index)[instance.id].upper)
        assert found.upper <= uppers[-1] <= found.upper * (1 + 1e-12)
    assert library.Index()[instance.id].upper <= uppers[1] < uppers[0]
    assert Index(index)[instance.id].status == "open"


def test_a_dual_point_of_anybody_proves_the_lower_end(tmp_path):
    data, _ = library.get(HINGE.id)
    fitted = SVC(kernel="linear", C=1.0, tol=1e-8).fit(data.X, data.y)
    alpha = np.zeros(data.y.size)
    alpha[fitted.support_] = np.abs(fitted.dual_coef_[0])
    model = (fitted.coef_, fitted.intercept_[0])
    found = library.prove(HINGE, model, tmp_path / "mine.npz", dual={"alpha": alpha})
    assert 0 < found.upper - found.lower < 1e-6 * found.upper
    # The index agrees with another package.
    assert library.Index()[HINGE.id].contains(found.upper, tol=1e-6)
    assert library.Index()[HINGE.id].lower <= found.upper
    assert library.add(
        tmp_path / "mine.npz", who="LIBSVM", index=tmp_path / "i.csv"
    ).claim.lower == rounded_down(found.lower)
    with pytest.raises(NotCertified, match="prove nothing"):
        library.prove(HINGE, model, tmp_path / "bad.npz", dual={"alpha": 2 * alpha})
    assert not (tmp_path / "bad.npz").exists()
    rbf = of("moons/rounded", "psvm C=1 p=1 intercept=free kernel=rbf gamma=0.5")
    data, _ = library.get(rbf.id)
    fitted = SVC(C=1.0, gamma=0.5).fit(data.X, data.y)
    expansion = np.zeros(data.y.size)
    expansion[fitted.support_] = fitted.dual_coef_[0]
    model = {"dual_coef": expansion, "intercept": fitted.intercept_[0]}
    assert library.prove(rbf, model, tmp_path / "rbf.npz").upper >= library.Index()[rbf.id].lower
    with pytest.raises(DataError, match="one entry per row"):
        library.prove(rbf, {**model, "dual_coef": expansion[1:]}, tmp_path / "rbf.npz")
    with pytest.raises(DataError, match="covariance"):
        library.prove(
            of(SMALL, "conic lam=1 intercept=penalised"), ([0.0, 0.0], 0.0), tmp_path / "c.npz"
        )


# Looking up


def test_lookup_answers_by_content_without_solving(monkeypatch):
    data, _ = library.get(HINGE.id)
    monkeypatch.setattr(sx.fast, "psvm", lambda *_, **__: pytest.fail("it was solved"))
    known = library.lookup(data.X, -data.y, "psvm C=1 p=1 intercept=free")
    assert known.id == HINGE.id
    for problem in (sx.psvm_dual(data.X, data.y, C=1.0, p=1.0), HINGE.problem):
        assert library.lookup(data.X, data.y, problem) == known
    assert library.lookup(data.X + 1.0, data.y, HINGE.problem) is None
    assert library.lookup(data.X, data.y, "psvm C=1.5 p=1 intercept=free") is None
    with pytest.raises(DataError, match="problem must be"):
        library.lookup(data.X, data.y, 3)


def test_lookup_of_bundled_data():
    X, y = load_breast_cancer(return_X_y=True)
    known = library.lookup(X, y, "psvm C=1 p=2 intercept=free")
    assert known.data_set == "breast_cancer/raw"
    assert known.contains(sx.fast.psvm(X, y, C=1.0, p=2.0, tol=1e-9).certificate.upper, tol=1e-8)


# The command line


def test_commands(built, tmp_path, capsys):
    index = str(built / "index.csv")
    assert main(["list", HINGE.id, "--index", index, "--json", "-"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["status"], row["tolerance"], row["date"]) == ("proved", "1e-9", "2026-01-01")
    assert (
        main(
            [
                "check",
                HINGE.id,
                "--index",
                index,
                "--proofs",
                str(built),
                "--csv",
                str(tmp_path / "c.csv"),
            ]
        )
        == 0
    )
    with (tmp_path / "c.csv").open() as stream:
        assert [one["verdict"] for one in csv.DictReader(stream)] == ["confirmed"]
    assert main(["check", HINGE.id, "--kind", "search", "--proofs", str(built)]) == 2
    assert main(["get", HINGE.id[:10], "--out", str(tmp_path / "got"), "--proofs", str(built)]) == 0
    data = sx.datasets.load(tmp_path / "got" / f"data-{HINGE.id}.npz")
    assert sx.verify(tmp_path / "got" / f"{HINGE.id}.npz", data.X, data.y)
    assert main(["build", HINGE.id, "--proofs", str(tmp_path / "new")]) == 0
    assert HINGE.id in Index(tmp_path / "new" / "index.csv")
    assert main(["write", HINGE.id, str(tmp_path / "x.lp")]) == 0
    assert "w_1" in (tmp_path / "x.lp").read_text()
    assert main(["write", HINGE.id, str(tmp_path / "x.cbf")]) == 2
    assert main(["list", "no such words"]) == 2
    assert main(["get", "zz"]) == 2
