"""The best C over a range: bands of errors that no optimal machine leaves, what is proved of the
fewest, and bad input.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import svmcvx as sx
from svmcvx.experiments import certified_selection as fold_search


def data(seed, n=30, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    if seed % 3 == 0:
        X = X + 1e3
    if seed % 4 == 0:
        X, y = np.r_[X, X[: n // 3]], np.r_[y, y[: n // 3]]
    return X, y


def errors_at(settings, X, y, machine, folds):
    """Errors of machines that are solved to the last digits."""
    count = 0
    for train, test in folds:
        fitted = clone(machine).set_params(tol=1e-10, **settings).fit(X[train], y[train])
        count += int((fitted.predict(X[test]) != y[test]).sum())
    return count


MACHINES = {
    "p=1, rbf": (sx.PSVMClassifier(p=1.0, kernel="rbf"), ("C",)),
    "p=2, rbf": (sx.PSVMClassifier(p=2.0, kernel="rbf"), ("C",)),
    "p=1.4, rbf": (sx.PSVMClassifier(p=1.4, kernel="rbf", class_weight="balanced"), ("C",)),
    "p=3": (sx.PSVMClassifier(p=3.0, intercept="penalised"), ("C",)),
    "odm": (sx.ODMClassifier(kernel="rbf"), ("C1", "C2")),
    "odm, one weight": (sx.ODMClassifier(C2=0.5, intercept="penalised"), ("C1",)),
}


@pytest.mark.parametrize("what", MACHINES)
def test_no_c_has_fewer_or_more_errors_than_its_band(what):
    X, y = data(seed := list(MACHINES).index(what) % 4)
    machine, names = MACHINES[what]
    found = sx.certified_select(machine, X, y, cv=3, eps=0.2, **dict.fromkeys(names, (0.01, 100.0)))
    folds = list(StratifiedKFold(3).split(X, y))
    assert found.complete
    assert found.errors - found.least <= 0.2 * len(y)
    assert found.observations == len(y)
    ends = np.r_[found.pieces["low"], found.pieces["high"].iloc[-1]]
    assert (ends[0], ends[-1]) == (0.01, 100.0)
    assert (found.pieces["high"].to_numpy()[:-1] == ends[1:-1]).all()
    rng = np.random.default_rng(seed)
    for C in np.exp(rng.uniform(np.log(0.01), np.log(100.0), 3)).tolist():
        row = found.pieces[(found.pieces["low"] <= C) & (found.pieces["high"] >= C)].iloc[0]
        assert (
            row["least"] <= errors_at(dict.fromkeys(names, C), X, y, machine, folds) <= row["most"]
        )
    assert errors_at(found.best_params, X, y, machine, folds) <= found.errors


@pytest.mark.parametrize("seed", [3, 14])
def test_ranges_hold_against_optima_in_ball_arithmetic(seed):
    pytest.importorskip("flint")
    from campaigns.ranges import check

    label, end, counts, why = check(seed)
    assert end == "held", (label, why)
    assert sum(counts.values()) > 4


def test_ctrl_c_leaves_what_is_proved(monkeypatch):
    X, y = data(1)
    machine = make_pipeline(StandardScaler(), sx.PSVMClassifier(p=2.0))
    calls, own = [], fold_search._Fold.split

    def interrupted(self, values):
        calls.append(values)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return own(self, values)

    monkeypatch.setattr(fold_search._Fold, "split", interrupted)
    with pytest.warns(UserWarning, match="wider than asked for"):
        found = sx.certified_select(machine, X, y, C=(0.01, 10.0), cv=2, eps=0.0)
    assert not found.complete
    assert len(found.pieces) == 2
    assert 0 <= found.least <= found.errors <= found.observations


def test_a_pipeline_fills_in_missing_values_in_each_training_part():
    X, y = data(1)
    X[::7, 0] = np.nan
    how = {"C": (0.01, 10.0), "cv": 3, "eps": 0.05}
    found = sx.certified_select(
        make_pipeline(SimpleImputer(), StandardScaler(), sx.PSVMClassifier(p=2.0)), X, y, **how
    )
    assert found.complete
    count = 0
    for train, test in StratifiedKFold(3).split(X, y):
        steps = make_pipeline(SimpleImputer(), StandardScaler()).fit(X[train])
        machine = sx.PSVMClassifier(p=2.0, C=found.C, tol=1e-10)
        machine.fit(steps.transform(X[train]), y[train])
        count += int((machine.predict(steps.transform(X[test])) != y[test]).sum())
    assert found.least <= count <= found.errors
    with pytest.raises(sx.DataError, match="X contains NaN"):
        sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, **how)


def test_the_fewest_errors_of_all_are_proved():
    X, y = data(2, n=25, d=2)
    found = sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, C=(0.01, 100.0), cv=3, eps=0.0)
    assert found.complete
    assert found.errors == found.least
    folds = list(StratifiedKFold(3).split(X, y))
    grid = [
        errors_at({"C": C}, X, y, sx.PSVMClassifier(p=2.0), folds)
        for C in np.geomspace(0.01, 100.0, 10).tolist()
    ]
    assert min(grid) >= found.least
    best = found.candidates
    assert ((best["low"] <= found.C) & (best["high"] >= found.C)).any()


def test_labels_may_be_of_any_type_and_folds_given():
    X, y = data(1)
    folds = list(StratifiedKFold(3).split(X, y))
    one = sx.certified_select(sx.PSVMClassifier(), X, y, C=(0.1, 1.0), cv=folds, eps=0.2)
    other = sx.certified_select(
        sx.PSVMClassifier(), X, np.array(["no", "yes"])[y], C=(0.1, 1.0), cv=3, eps=0.2
    )
    assert (one.C, one.errors, one.least) == (other.C, other.errors, other.least)


def test_no_time_leaves_what_is_proved():
    asked = {"C": (0.01, 100.0), "cv": 3, "eps": 0.0, "time_limit": 1e-9}
    with pytest.warns(UserWarning, match="wider than asked for"):
        found = sx.certified_select(sx.PSVMClassifier(), *data(1), **asked)
    assert not found.complete
    assert 0 <= found.least <= found.errors <= found.observations


BAD = {
    "another estimator": (lambda: sx.M3SVMClassifier(), {}, "PSVMClassifier or an ODMClassifier"),
    "absolute values": (
        lambda: sx.PSVMClassifier(penalty="l1", p=2.0, intercept="none"),
        {},
        "penalty",
    ),
    "another parameter": (lambda: sx.ODMClassifier(), {}, "varies C1 and C2"),
    "one value": (lambda: sx.PSVMClassifier(), {"C": 1.0}, "two ends"),
    "a decreasing range": (lambda: sx.PSVMClassifier(), {"C": (2.0, 1.0)}, "increasing"),
    "a share of one": (lambda: sx.PSVMClassifier(), {"eps": 1.0}, "eps"),
    "no tolerance": (lambda: sx.PSVMClassifier(), {"tol": 0.0}, "tol"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_selected_is_refused(what):
    make, changes, reason = BAD[what]
    X, y = data(1)
    with pytest.raises(sx.DataError, match=reason):
        sx.certified_select(make(), X, y, **{"C": (0.1, 1.0), **changes})


def test_several_classes_and_kernel_matrices_are_refused():
    X, y = data(1)
    three, K = np.where(X[:, 1] > 0.5, 2, y), sx.RBF(0.5)(X)
    precomputed = sx.PSVMClassifier(kernel="precomputed")
    for machine, rows, labels, reason in (
        (sx.PSVMClassifier(), X, three, "two classes"),
        # Split on both sides.
        (precomputed, K, y, "no guarantees for the kernel Precomputed"),
    ):
        with pytest.raises(sx.DataError, match=reason):
            sx.certified_select(machine, rows, labels, C=(0.1, 1.0), cv=2)
