"""The best C over a range: bands of errors that no optimal machine leaves, what is proved of the fewest, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

import svmcvx as sx
from svmcvx.guarantees.ranges import Node, over_range

pytest.importorskip("matplotlib")


def data(seed, n=30, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    if seed % 3 == 0:
        X = X + 1e3
    if seed % 4 == 0:
        X, y = np.r_[X, X[: n // 3]], np.r_[y, y[: n // 3]]
    return X, y


def errors_at(C, X, y, machine, folds):
    """Errors of machines that are solved to the last digits."""
    count = 0
    for train, test in folds:
        fitted = type(machine)(**{**machine.get_params(), "C": C, "tol": 1e-10}).fit(X[train], y[train])
        count += int((fitted.predict(X[test]) != y[test]).sum())
    return count


@pytest.mark.parametrize(
    ("seed", "p", "kernel"), [(0, 1.0, None), (1, 1.0, "rbf"), (2, 2.0, "rbf"), (3, 2.0, None), (4, 1.0, "rbf")]
)
def test_no_c_has_fewer_or_more_errors_than_its_band(seed, p, kernel):
    X, y = data(seed)
    machine = sx.PSVMClassifier(p=p, kernel=kernel)
    found = sx.certified_select(machine, X, y, C=(0.01, 100.0), cv=3, eps=0.1)
    folds = list(StratifiedKFold(3).split(X, y))
    assert found.complete
    assert found.errors - found.least <= 0.1 * len(y)
    assert found.observations == len(y)
    ends = np.r_[found.pieces["low"], found.pieces["high"].iloc[-1]]
    assert (ends[0], ends[-1]) == (0.01, 100.0)
    assert (found.pieces["high"].to_numpy()[:-1] == ends[1:-1]).all()
    rng = np.random.default_rng(seed)
    for C in np.exp(rng.uniform(np.log(0.01), np.log(100.0), 5)).tolist():
        row = found.pieces[(found.pieces["low"] <= C) & (found.pieces["high"] >= C)].iloc[0]
        assert row["least"] <= errors_at(C, X, y, machine, folds) <= row["most"]
    assert errors_at(found.C, X, y, machine, folds) <= found.errors


def test_the_fewest_errors_of_all_are_proved():
    X, y = data(2, n=25, d=2)
    found = sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, C=(0.01, 100.0), cv=3, eps=0.0)
    assert found.complete
    assert found.errors == found.least
    folds = list(StratifiedKFold(3).split(X, y))
    grid = [errors_at(C, X, y, sx.PSVMClassifier(p=2.0), folds) for C in np.geomspace(0.01, 100.0, 10).tolist()]
    assert min(grid) >= found.least
    best = found.candidates
    assert ((best["low"] <= found.C) & (best["high"] >= found.C)).any()


def test_a_smaller_radius_would_exclude_machines(monkeypatch):
    # The bands are not wide for nothing: without their radius some optimal machine leaves them.
    from svmcvx.guarantees import ranges

    radius = ranges._OverRange.squared_radius.func
    monkeypatch.setattr(ranges._OverRange, "squared_radius", property(lambda self: 1e-8 * radius(self)))
    wrong = 0
    for seed in range(8):
        X, y = data(seed)
        for p in (1.0, 2.0):
            C = (0.01, 100.0)
            one, other = (Node.of(sx.fast.psvm(X[:20], y[:20], C=end, p=p, tol=1e-10), X[:20], y[:20], X) for end in C)
            possible = over_range(one, other)
            for value in np.geomspace(*C, 12).tolist():
                exact = sx.fast.psvm(X[:20], y[:20], C=value, p=p, tol=1e-11).model.predict(X)
                wrong += int((~possible[np.arange(len(X)), np.searchsorted([0, 1], exact)]).sum())
    assert wrong > 0


def test_splits_are_those_that_are_asked_for():
    X, y = data(1)
    folds = list(KFold(4, shuffle=True, random_state=3).split(X))
    one = sx.certified_select(sx.PSVMClassifier(), X, y, C=(0.1, 1.0), cv=folds, eps=0.2)
    other = sx.certified_select(
        sx.PSVMClassifier(), X, y, C=(0.1, 1.0), cv=KFold(4, shuffle=True, random_state=3), eps=0.2
    )
    assert (one.C, one.errors, one.least) == (other.C, other.errors, other.least)


def test_labels_may_be_of_any_type():
    X, y = data(1)
    one = sx.certified_select(sx.PSVMClassifier(), X, y, C=(0.1, 1.0), cv=3, eps=0.2)
    other = sx.certified_select(sx.PSVMClassifier(), X, np.array(["no", "yes"])[y], C=(0.1, 1.0), cv=3, eps=0.2)
    assert (one.C, one.errors, one.least) == (other.C, other.errors, other.least)


def test_no_time_leaves_what_is_proved():
    X, y = data(1)
    with pytest.warns(UserWarning, match="wider than asked for"):
        found = sx.certified_select(sx.PSVMClassifier(), X, y, C=(0.01, 100.0), cv=3, eps=0.0, time_limit=1e-9)
    assert not found.complete
    assert 0 <= found.least <= found.errors <= found.observations


def test_a_picture_shows_the_band():
    X, y = data(1)
    found = sx.certified_select(sx.PSVMClassifier(), X, y, C=(0.1, 10.0), cv=3, eps=0.2)
    ax = found.plot()
    assert ax.get_xscale() == "log"
    assert len(ax.collections) == 1


BAD = {
    "another estimator": (lambda: sx.ODMClassifier(), {}, "PSVMClassifier"),
    "another p": (lambda: sx.PSVMClassifier(p=1.5), {}, "p=1 or p=2"),
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


def test_several_classes_are_refused():
    X, y = data(1)
    y = np.where(X[:, 1] > 0.5, 2, y)
    with pytest.raises(sx.DataError, match="two classes"):
        sx.certified_select(sx.PSVMClassifier(), X, y, C=(0.1, 1.0), cv=2)
