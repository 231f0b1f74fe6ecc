"""What every specialised solver and every method of one promises, whatever it solves."""

import os
import pickle
import signal
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx import fast
from svmcvx.fast.margin.decomposition import DecompositionSettings
from svmcvx.fast.margin.psvm import PSVMSettings
from svmcvx.formulations.multiclass.machines import MACHINES as CLASSICAL
from tests.designs import design
from tests.fast.test_fast_multiclass import design as classes
from tests.intervals import overlap

RBF = {"kernel": sx.RBF(0.5)}
BAND, BLEND = {"C1": 30.0, "C2": 20.0, "D": 0.2}, {"lam1": 3.0, "lam2": 1.0, "C": 20.0}
MACHINES = {
    **{f"psvm {p}": partial(fast.psvm, C=1.0, p=p) for p in (1.0, 1.5, 2.0)},
    **{f"psvm {p} rbf": partial(fast.psvm, C=2.0, p=p, **RBF) for p in (1.0, 1.5, 3.0)},
    "psvm 1.0 newton": partial(fast.psvm, C=2.0, p=1.0, intercept="penalised"),
    "psvm in parts": partial(
        fast.psvm,
        C=10.0,
        p=1.0,
        kernel=sx.RBF(2.0),
        settings=PSVMSettings(decomposition=DecompositionSettings(whole=10, working_set=8)),
    ),
    "hard_margin": fast.hard_margin,
    "hard_margin rbf": partial(fast.hard_margin, kernel=sx.RBF(2.0)),
    **{f"odm {method}": partial(fast.odm, **BAND, method=method) for method in ("newton", "dcd")},
    "odm blocks": partial(fast.odm, **BAND, **RBF, method="blocks"),
    **{
        f"odml {method}": partial(fast.odml, **BLEND, method=method)
        for method in ("newton", "dcd", "unwhitened")
    },
    "odml rbf": partial(fast.odml, **BLEND, **RBF),
    "conic": partial(fast.conic, lam=1.0),
    "conic kappa": partial(fast.conic, kappa=0.2),
    "conic rbf": partial(fast.conic, lam=1.0, **RBF),
    "zero_one": partial(fast.zero_one, lam=1.0),
    "ramp": partial(fast.ramp, C=0.5),
    "l0 search": partial(fast.l0, C=0.5, method="search"),
    **{
        f"m3svm {p} {loss}": partial(fast.m3svm, lam=0.1, p=p, loss=loss)
        for p, loss in ((1.0, "hinge"), (2.5, "softmax"))
    },
    **{loss: partial(fast.multiclass, lam=0.1, loss=loss, k=2) for loss in CLASSICAL},
}
SEVERAL = {
    name
    for name, solve in MACHINES.items()
    if getattr(solve, "func", solve) in (fast.m3svm, fast.multiclass)
}
SEARCHES = {name for name in MACHINES if name.startswith(("zero_one", "ramp", "l0"))}
# Their starts are coefficients, which fit other rows too.
COEFFICIENTS = {
    name
    for name in MACHINES
    if name.startswith(("odm", "ramp", "l0")) and not name.endswith(("blocks", "rbf"))
}
# So few rows are solved before there is anything to report.
QUICK = {"hard_margin", "hard_margin rbf", *(f"psvm {p} rbf" for p in (1.0, 1.5, 3.0))}
EVERY = pytest.mark.parametrize("name", MACHINES)


def data_of(name, n=24, d=3):
    if name in SEVERAL:
        return classes("plain", 7, n=n, d=d)
    return design("separable" if "hard" in name else "plain", 3, n=n, d=d)


@cache
def answer(name):
    return MACHINES[name](*data_of(name, n=60))


@EVERY
def test_weights_count_like_copies_and_zero_leaves_out(name):
    X, y = data_of(name)
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    weight[:4] = 1
    if "hard" in name:
        weight = np.minimum(weight, 1)
    rows = np.repeat(np.arange(y.size), weight)
    weighted = MACHINES[name](X, y, sample_weight=weight)
    overlap(weighted, MACHINES[name](X[rows], y[rows]), gap=1e-5)
    for entry in weighted.dual.values():
        if np.ndim(entry) and len(entry) == y.size:
            assert not np.asarray(entry)[weight == 0].any()


@EVERY
def test_order_storage_and_names_of_the_classes_change_nothing(name):
    X, y = data_of(name)
    X[np.abs(X) < 0.3] = 0.0
    order = np.random.default_rng(0).permutation(y.size)
    names = np.array(["d", "b", "a", "c"])
    found = MACHINES[name](X, y)
    others = [MACHINES[name](X[order], names[np.unique(y, return_inverse=True)[1]][order])]
    if "kernel" not in getattr(MACHINES[name], "keywords", {}):
        others.append(MACHINES[name](sp.csr_array(X), y))
    for other in others:
        overlap(found, other, gap=1e-5)
    assert (
        names[np.searchsorted(found.model.classes, found.model.predict(X))]
        == others[0].model.predict(X)
    ).mean() > 0.95


@EVERY
def test_limits_and_ctrl_c_give_the_best_point_with_its_interval(name):
    X, y = data_of(name, n=60)
    best = answer(name).certificate
    seen, pressed = [], []

    def press(progress):
        pressed.append(progress)
        if len(pressed) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    tol = 1e-6 if name in SEARCHES else 1e-13
    for status, limit in (
        ("interrupted", {"callback": lambda progress: seen.append(progress) or True}),
        ("interrupted", {"callback": press, "tol": 1e-12}),
        ("iteration_limit", {"max_iter": 1}),
        ("time_limit", {"time_limit": 1e-9}),
    ):
        try:
            cut = MACHINES[name](X, y, **{"tol": tol} | limit)
        except sx.SolverFailed:
            # A machine with hard margins is known to exist only once one is found.
            assert "hard" in name
            continue
        # Their first round may be the last.
        early = name in ("zero_one", "l0 search", "odml dcd", "psvm 1.0 newton")
        ended = name in QUICK or (early and "max_iter" in limit)
        assert cut.status in (status, *(("optimal", "inaccurate") if ended else ()))
        assert cut.certificate.lower <= best.upper
        assert best.lower <= cut.certificate.upper
        # Bounds on the way enclose the optimum too, and never become worse.
        assert (np.diff(cut.trace[:, 0]) >= 0).all()
        assert not np.nanmax(cut.trace[:, 1]) > best.upper
        assert not np.nanmin(cut.trace[:, 2]) < best.lower
        assert (np.diff(cut.trace[:-1, 1]) >= 0).all()
        assert (np.diff(cut.trace[:-1, 2]) <= 0).all()
    assert len(seen) == (name not in QUICK)
    # One report may be under way when the signal comes.
    assert (name not in QUICK) <= len(pressed) <= 2


@EVERY
def test_a_warm_start_takes_no_more_steps_and_ends_at_the_same_optimum(name, capsys):
    X, y = data_of(name, n=60)
    first = answer(name)
    again = MACHINES[name](X, y, warm_start=pickle.loads(pickle.dumps(first)), verbose=True)  # noqa: S301 - our own bytes
    assert "gap" in capsys.readouterr().out
    assert again.warm_start_used
    assert not first.warm_start_used
    overlap(first, again, gap=1e-5)
    # What is left of an interval may take one more report.
    assert len(again.trace) <= len(first.trace) + 1
    with pytest.raises(sx.DataError, match="must be a Solution of the same data, got str"):
        MACHINES[name](X, y, warm_start="earlier")
    if name in COEFFICIENTS:
        other = MACHINES[name](X[:50], y[:50], warm_start=first)
        assert other.warm_start_used
        overlap(other, MACHINES[name](X[:50], y[:50]), gap=1e-5)
        return
    with pytest.raises(sx.DataError, match=r"warm_start|same data|one multiplier an observation"):
        MACHINES[name](X[:50], y[:50], warm_start=first)


@EVERY
def test_shared_arguments_are_checked(name):
    X, y = data_of(name)
    for argument, message in (
        ({"tol": 0.0}, "tol must be a finite number"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"callback": 3}, "callback must be a function"),
        ({"time_limit": -1.0}, "time_limit must be"),
        ({"method": "dual"}, "method must be one of 'auto', ")
        if name in SEVERAL
        else ({"settings": {}}, "settings must be of .*Settings or None, got dict"),
        ({"sample_weight": -np.ones(y.size)}, "sample_weight must not be negative|negative"),
        ({"y": np.zeros(y.size)}, "one class only"),
    ):
        with pytest.raises(sx.DataError, match=message):
            MACHINES[name](**{"X": X, "y": y} | argument)


@pytest.mark.parametrize(
    ("solver", "given", "message"),
    [
        ("psvm", {"p": 0.5}, "p < 1 is not convex"),
        ("psvm", {"C": 0.0}, "C must be"),
        ("psvm", {"cache_size": 0.0, **RBF}, "cache_size"),
        ("psvm", {"method": "newton", **RBF}, "method must be one of 'auto', 'smo'"),
        ("psvm", {"method": "smo"}, "method must be one of 'auto', 'newton'"),
        ("hard_margin", {"method": "simplex"}, "method must be one of"),
        ("hard_margin", {"method": "active-set", **RBF}, "linear machine; pass kernel=None"),
        ("odm", {"method": "simplex"}, "method must be one of 'auto', 'newton', 'dcd', 'blocks'"),
        ("odm", {"D": 1.0}, "D must be a finite number"),
        ("odml", {"seed": -1}, "seed must be a whole number of at least 0"),
        ("conic", {}, "fast.conic takes exactly one of lam and kappa, got neither"),
        ("conic", {"lam": 1.0, "kappa": 0.1}, "exactly one of lam and kappa, got both"),
        ("conic", {"lam": 0.0}, "lam"),
        ("conic", {"kappa": 0.6}, "kappa"),
        ("conic", {"lam": 1.0, "method": "lbfgs"}, "one of 'auto', 'direct', 'conjugate'"),
        ("conic", {"lam": 1.0, "rounding": 1}, "rounding must be True or False, got 1"),
        ("conic", {"lam": 1.0, "intercept": "free"}, "intercept must be 'penalised'"),
    ],
)
def test_own_arguments_are_checked(solver, given, message):
    with pytest.raises(sx.DataError, match=message):
        getattr(fast, solver)(*data_of("psvm 1.0"), **given)
