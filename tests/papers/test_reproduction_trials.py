"""Tables whose protocol is not that of a study: the conic loss and the l0-norm hinge."""

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

import svmcvx as sx
from benchmarks.papers import conic, l0, reproduce, write_figures
from svmcvx.datasets.files import write_npz
from svmcvx.experiments.store import Store
from svmcvx.synthetic import outlier_data, outlier_rule


@pytest.fixture
def small(monkeypatch):
    """The quick tables, smaller still."""
    sizes = {
        "QUICK_ROWS": (100,),
        "QUICK_COLUMNS": (3,),
        "VALUES": 3,
        "KNOTS": 2,
        "TESTED": 400,
        "CHECKED_COLUMNS": 0,
    }
    kinds = {"SIGMAS": (0.2,), "OUTLIERS": ("clustered",), "TAUS": (0.1,), "REAL_TAUS": (0.0, 0.1)}
    for name, value in (sizes | kinds).items():
        monkeypatch.setattr(conic, name, value)
    drawn = l0.shape
    monkeypatch.setattr(l0, "shape", lambda name, m, noise, seed: drawn(name, 60, noise, seed))


def test_the_hinge_is_that_of_liblinear(monkeypatch):
    monkeypatch.setattr(conic, "VALUES", 3)
    X, y = outlier_data(60, 3, sigma=0.5, seed=3)
    part, other = conic._Part(X, y), conic._Part(*outlier_data(200, 3, sigma=0.5, seed=3, sample=1))
    tuning = conic._hinge_tuning(part, other)
    for place, lam in enumerate(tuning.settings):
        solution = tuning.solve(place)
        theirs = LinearSVC(loss="hinge", C=lam / 2, tol=1e-9, max_iter=100_000).fit(X, y)
        models = [
            (solution.model.coef, solution.model.intercept),
            (theirs.coef_[0], theirs.intercept_[0]),
        ]
        ours, value = (
            w @ w + b * b + lam * np.maximum(0.0, 1.0 - y * (X @ w + b)).sum() for w, b in models
        )
        assert ours == pytest.approx(value, rel=1e-5)
        assert solution.certificate.upper == pytest.approx(ours / 2)
        assert solution.certificate.is_certified(1e-6)
        assert tuning.wrong[place] == pytest.approx(1.0 - theirs.score(*other))


@pytest.mark.slow
def test_a_trial_by_hand(small, monkeypatch):
    monkeypatch.setattr(conic, "CHECKED_COLUMNS", 3)
    row = conic.synthetic(
        n=100, p=3, sigma=0.5, outliers="clustered", tested=400, values=3, repeat=0
    )
    seed = conic._seed(100, 3, 0)
    parts = [
        outlier_data(100, 3, sigma=0.5, outliers="clustered", seed=seed, sample=k) for k in (0, 1)
    ]
    X, y = outlier_data(400, 3, sigma=0.5, seed=seed, sample=2)
    # Classes that are not separable have no point at κ = 0; the other κ are met by λ.
    _, errors, solve = tuning = conic._conic_tuning(*(conic._Part(*part) for part in parts))
    kappas, path = tuning.settings, [solve(place) for place in range(2)]
    assert len(kappas) == 2
    assert np.abs(kappas - np.linspace(0.0, 0.5, 3)[1:]).max() == row["kappa_off"] < 1e-4
    for solution, kappa in zip(path, kappas, strict=True):
        alone = sx.fast.conic(*parts[0], kappa=min(kappa, 0.5))
        np.testing.assert_allclose(solution.model.coef, alone.model.coef, atol=1e-3)
    assert errors.tolist() == [
        np.mean(solution.model.predict(parts[1][0]) != parts[1][1]) for solution in path
    ]
    best = int(np.argmin(errors))
    assert row["conic_chosen"] == kappas[best]
    assert row["conic_error"] == pytest.approx(np.mean(path[best].model.predict(X) != y))
    assert row["bayes_error"] == np.mean(outlier_rule(3, seed=seed).predict(X) != y)
    assert row["tuning"] == 5
    assert (
        row["solves"]
        == row["certified"]
        == row["confirmed"]
        == row["conic_solves"] + row["hinge_solves"]
        >= 2
    )
    assert row["clarabel_overlaps"]
    assert abs(row["clarabel_difference"]) < 1e-5
    again = conic.synthetic(
        n=100, p=3, sigma=0.5, outliers="clustered", tested=400, values=3, repeat=1
    )
    assert again["bayes_error"] != row["bayes_error"]
    assert "clarabel_gap" not in again


def test_errors_of_several_rules_at_once():
    part = conic._Part(np.array([[1.0], [2.0], [-1.0]]), np.array([1, -1, -1]))
    assert part.error(np.array([[1.0], [0.0]]), np.array([0.0, -1.0])).tolist() == [1 / 3, 1 / 3]


@pytest.mark.slow
def test_a_table_of_trials_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    store = tmp_path / "s.sqlite"
    compute, calls = conic.synthetic, []

    def interrupted(**cell):
        calls.append(cell)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compute(**cell)

    monkeypatch.setattr(conic, "synthetic", interrupted)
    with pytest.warns(UserWarning, match="interrupted after 1 of 4 tasks"):
        begun = reproduce("conic-table1", quick=True, store=store)
    assert not begun.complete
    monkeypatch.setattr(conic, "synthetic", compute)
    found = reproduce("conic-table1", quick=True, store=store)
    assert found.complete
    assert len(found.study.frame) == 4
    assert len(Store(store)) == 4
    # What Table 2 shows are the same trials.
    monkeypatch.setattr(conic, "PATHS", {})
    seconds = reproduce("conic-table2", quick=True, store=store).frame.set_index("method")
    assert seconds.loc["conic", "published"] == 2.8
    paper = found.study.frame.query("outliers == 'clustered'")
    assert seconds.loc["conic", "as_written"] == round(paper["conic_cpu"].mean(), 3)
    frame = found.frame.set_index(["sigma", "outliers", "method"])
    errors = found.study.frame.query("outliers == 'clustered'")["hinge_error"] * 100
    hinge = frame.loc[(0.2, "clustered", "hinge")]
    assert (hinge["published"], hinge["published_sd"]) == (3.9, 10.9)
    assert hinge["as_written"] == round(errors.mean(), 2)
    assert hinge["as_written_noise"] == round(
        2 * np.sqrt(10.9**2 / 320 + errors.var() / 2) + 0.05, 2
    )
    solves = found.study.frame.query("outliers == 'clustered'")["hinge_solves"].sum()
    assert hinge["as_written_certified"] == f"{solves}/{solves}"
    bayes = 100 * found.study.frame.query("outliers == 'clustered'")["bayes_error"]
    assert frame.loc[(0.2, "clustered", "bayes"), "as_written"] == round(bayes.mean(), 2)
    half = frame.loc[(0.2, conic.HALF, "hinge")]
    assert half["published"] == 3.9
    assert half["as_written"] != hinge["as_written"]
    # What is not of the paper has fewer repetitions.
    monkeypatch.setattr(conic, "HALF_REPEATS", 1)
    fewer = reproduce("conic-table1", quick=True, store=store).frame.query(
        "sigma == 0.2 and method == 'hinge'"
    )
    assert fewer.set_index("outliers")["repetitions"][["clustered", conic.HALF]].tolist() == [2, 1]
    assert frame.loc[(0.5, "clustered", "conic"), "as_written_note"] == "missing"
    assert [file.name for file in write_figures(found, tmp_path)] == ["conic-table1-breakdowns.svg"]


def test_a_trial_that_fails_is_a_row_and_is_done_again(small, tmp_path, monkeypatch):
    paths = conic.PATHS
    monkeypatch.setattr(conic, "PATHS", {"hinge": lambda train, validation: 1 / 0})
    options = {"quick": True, "repeats": 1, "store": tmp_path / "s.sqlite"}
    found = reproduce("conic-table4", **options)
    assert found.complete
    assert len(found.study.failures()) == 1
    assert found.study.solves() == (0, 0)
    assert found.frame["as_written"].isna().all()
    assert found.study.failures()["note"].iloc[0] == "ZeroDivisionError: division by zero"
    monkeypatch.setattr(conic, "PATHS", paths)
    found = reproduce("conic-table4", **options)
    assert found.frame["as_written"].notna().sum() == 2
    assert found.study.solves()[0] > 0


@pytest.mark.slow
def test_flipped_labels_of_real_sets(small, tmp_path, monkeypatch):
    X, y = outlier_data(60, 2, sigma=0.4, seed=1)
    write_npz(tmp_path / "immunotherapy.npz", X, y)
    monkeypatch.setenv("SVMCVX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SVMCVX_DATA", raising=False)
    monkeypatch.setattr("svmcvx.datasets.loading.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="is not the set immunotherapy"):
        found = reproduce("conic-table3", quick=True, repeats=1, data_dir=tmp_path)
    rows = found.frame.set_index(["dataset", "tau", "method"])
    assert rows.loc[("Immunotherapy", 0.0, "hinge"), "published"] == 20.5
    assert rows["as_written"].notna().sum() == 4
    assert (rows["as_written_cpu"].dropna() > 0).sum() == 4
    assert rows.loc[("Immunotherapy", 0.0, "conic"), "published_seconds"] == 2.5
    assert "not on this machine" in rows.loc[("Breast cancer", 0.0, "conic"), "as_written_note"]
    row = conic.real(X, y, dataset="", tau=0.0, values=3, repeat=0)
    order = np.random.default_rng(0).permutation(60)
    train, test = order[:21], order[42:]
    machine = LinearSVC(loss="hinge", C=row["hinge_chosen"] / 2, tol=1e-9, max_iter=100_000).fit(
        X[train], y[train]
    )
    assert row["hinge_error"] == pytest.approx(np.mean(machine.predict(X[test]) != y[test]))
    line = rows.loc[("Immunotherapy", 0.0, "hinge")]
    assert line["as_written"] == round(100 * row["hinge_error"], 2)
    assert line["as_written_exact_lower"] <= line["as_written"] <= line["as_written_exact_upper"]
    assert np.isnan(rows.loc[("Immunotherapy", 0.0, "conic"), "as_written_exact_lower"])


def test_shapes_and_their_flipped_labels():
    X, clean = l0.shape("circles", 100, 0.0, 4)
    noisy = l0.shape("circles", 100, 0.05, 4)[1]
    assert [(noisy[clean == label] != label).sum() for label in (-1, 1)] == [5, 5]
    np.testing.assert_allclose(X.std(axis=0), 1.0)
    part = l0.split(X, clean, 0)
    assert (part.y.size, part.y_test.size) == (60, 40)


def test_the_machines_of_a_split():
    settings = l0.SETTINGS
    part = l0.split(*l0.shape("moons", 60, 0.05, 1), 1)
    row = l0.machines(part, settings)
    iterate = l0.steps(part, settings, l0.CAP)
    assert (row["l0 iterations"], row["l0 residual"]) == (iterate.iterations, iterate.residual)
    assert row["l0 converged"] == (iterate.residual < l0.TOLERANCE)
    # The objective of the iterate, scaled, by its definition.
    K = l0.kernel(part.X)(part.X, part.X)
    u = part.y * (K @ iterate.c + iterate.b)
    factor = min(1.0, u[u >= 1 - l0.TOLERANCE].min(initial=1.0))
    missed = np.sum(u / factor < 1 - 1e-9)
    value = 0.5 * iterate.c @ K @ iterate.c / factor**2 + settings.C * missed
    assert row["l0 objective"] == pytest.approx(value, rel=1e-6)
    assert row["l0 polished objective"] <= row["l0 objective"] * (1 + 1e-9)
    hinge = SVC(C=settings.C, gamma=0.5, tol=1e-8).fit(part.X, part.y)
    assert row["l1 test"] == hinge.score(part.X_test, part.y_test)
    assert row["l1 train"] == hinge.score(part.X, part.y)
    assert row["l1 nsv"] == hinge.n_support_.sum()
    assert (row["solves"], row["certified"]) == (3, 3)


@pytest.mark.slow
def test_a_table_of_shapes_and_its_figures(small, tmp_path, monkeypatch):
    monkeypatch.setattr(l0, "QUICK_SIZES", ((500, 0.01),))
    found = reproduce("l0-table52", quick=True, repeats=2, store=tmp_path / "s.sqlite")
    rows = found.frame.set_index(["label_noise", "method"])
    assert rows.loc[(0.01, "l0"), ["published", "published_train", "published_nsv"]].tolist() == [
        97.5,
        98.33,
        23,
    ]
    assert rows.loc[(0.01, "l0 polished"), "published"] == 97.5
    assert rows["as_written_certified"].dropna().tolist() == ["2/2"] * 3
    part = found.study.frame
    assert rows.loc[(0.01, "l2"), "as_written"] == round(100 * part["l2 test"].mean(), 2)
    ours = rows.loc[[(0.01, "l1"), (0.01, "l2")]]
    assert (ours["as_written_exact_lower"] <= ours["as_written"]).all()
    assert (ours["as_written"] <= ours["as_written_exact_upper"]).all()
    assert (part["admm runs"] == 12).all()
    assert any("Of 24 runs of the ADMM" in note for note in found.notes)
    assert rows.loc[(0.01, "l0"), "as_written_converged"] == f"{part['l0 converged'].sum()}/2"
    monkeypatch.setattr("benchmarks.papers.drawings.l0.shape", l0.shape)
    monkeypatch.setattr("benchmarks.papers.drawings.l0.MOMENTS", 3)
    monkeypatch.setattr("svmcvx.plot.models.GRID", 20)
    files = write_figures(found, tmp_path)
    assert [file.name for file in files] == [
        "l0-table52-boundaries.svg",
        "l0-table52-convergence.svg",
    ]
    assert "Decision boundaries on Double Moons" in files[0].read_text()
