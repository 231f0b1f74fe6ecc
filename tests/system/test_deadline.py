"""One clock and one deadline: what a limit gives does not depend on how fast the machine is."""

import contextlib
import itertools
import math
import threading

import numba
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import svmcvx as sx
from svmcvx import fast
from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import relative_gap
from svmcvx.fast.margin.decomposition import DecompositionSettings
from svmcvx.fast.margin.psvm import PSVMSettings
from svmcvx.kernels.columns import KernelColumns
from svmcvx.system import clock
from svmcvx.system.compilation import compiled
from svmcvx.system.deadline import Deadline, current, epoch_end, stop_flag, time_limited, until
from tests.conftest import make_data

HOUR = 3600.0


class Ticking:
    """A source of seconds that stands still for some readings, and then is an hour on."""

    def __init__(self, readings):
        self.left, self.asked = readings, 0

    def __call__(self):
        self.asked += 1
        return 0.0 if self.asked <= self.left else HOUR


class Hand:
    """A source of seconds that is set by hand."""

    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at


def test_the_clock_stands_still_while_code_is_compiled():
    hand = Hand()
    with clock.substituted(hand):
        start, before = clock.now(), clock.compile_seconds()
        hand.at += 1.0
        clock.compiling_begins()
        hand.at += 20.0
        clock.compiling_begins()
        hand.at += 5.0
        assert clock.now() - start == pytest.approx(1.0)
        clock.compiling_ends()
        hand.at += 5.0
        assert clock.now() - start == pytest.approx(1.0)
        clock.compiling_ends()
        hand.at += 2.0
        assert clock.now() - start == pytest.approx(3.0)
        assert clock.compile_seconds() - before == pytest.approx(30.0)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_the_clock_stands_still_while_machine_code_is_loaded_and_kept(monkeypatch):
    hand = Hand()
    dispatcher = type(numba.njit(lambda x: x))
    prepare = dispatcher._compile_for_args

    def slow(self, *arguments):
        hand.at += 7.0
        return prepare(self, *arguments)

    monkeypatch.setattr(dispatcher, "_compile_for_args", slow)

    @compiled()
    def doubled(x):
        return 2.0 * x

    with clock.substituted(hand):
        start, before = clock.now(), clock.compile_seconds()
        assert [doubled(1.5), doubled(2.5)] == [3.0, 5.0]
        assert clock.now() == pytest.approx(start)
        assert clock.compile_seconds() - before == pytest.approx(7.0)
        # Another type is prepared as well.
        assert doubled(np.float32(0.5)) == 1.0
        assert clock.now() == pytest.approx(start)
        assert clock.compile_seconds() - before == pytest.approx(14.0)


def test_a_deadline_ends_no_later_than_those_around_it():
    hand = Hand()
    with clock.substituted(hand):
        assert current().remaining == math.inf
        with time_limited(10.0) as outer:
            hand.at += 4.0
            assert outer.remaining == pytest.approx(6.0)
            with time_limited(100.0) as inner:
                assert current() is inner
                assert inner.remaining == pytest.approx(6.0)
                assert inner.seconds == 0.0
                half = inner.share(0.5)
                hand.at += 3.0
                assert half.passed()
                assert not inner.passed()
                outer.interrupt_requested.set()
                assert inner.passed()
            assert current() is outer
        assert current().remaining == math.inf


def test_a_deadline_can_be_sent_to_another_process():
    with time_limited(HOUR) as deadline:
        sent = epoch_end(deadline)
    with until(sent) as received:
        assert 0.9 * HOUR < received.remaining <= HOUR
    with until(epoch_end(Deadline())) as received:
        assert received.remaining == math.inf


def test_a_flag_is_set_for_compiled_code():
    with stop_flag(Deadline()) as flag:
        assert flag[0] == 0
    deadline = Deadline(end=-math.inf)
    with stop_flag(deadline) as flag:
        # It is set, or this test does not end.
        while not flag[0]:
            threading.Event().wait(0.01)
        assert flag[0] == 1


FAST = [entry for entry in CATALOGUE.values() if entry.fast is not None]


@pytest.mark.parametrize(
    ("entry", "kernel"),
    [
        pytest.param(entry, kernel, id=f"{entry.name}-{kernel}")
        for entry in FAST
        for kernel in ((None, sx.RBF(0.5)) if entry.takes.kernel else (None,))
    ],
)
def test_whenever_the_time_is_up_the_interval_holds(entry, kernel):
    solver, (X, y) = entry.fast.load(), make_data(n=40, d=3)
    keywords = {**entry.builder().example, **({} if kernel is None else {"kernel": kernel})}
    failing = contextlib.nullcontext()
    if entry.name == "hard_margin":
        X = X + 6.0 * np.where(y == y.max(), 1.0, -1.0)[:, None]
        # A machine with hard margins is known to exist only once one is found.
        failing = contextlib.suppress(sx.SolverFailed)
    reference = solver(X, y, **keywords).certificate
    for readings in (1, 10, 100):
        ticking, found = Ticking(readings), None
        with clock.substituted(ticking), failing:
            found = solver(X, y, **keywords, time_limit=60.0)
        if found is None:
            continue
        certificate = found.certificate
        assert certificate.upper >= (reference.lower or 0.0) * (1 - 1e-9)
        if certificate.lower is not None:
            assert certificate.lower <= reference.upper * (1 + 1e-9)
        if ticking.asked > readings and entry.name != "l0":
            assert found.status == "time_limit" or certificate.is_certified(1e-5)


@pytest.mark.parametrize("name", ["zero_one_mio", "ramp_mio", "l0_mio"])
def test_builders_keep_a_limit_and_their_M_stays_valid(name):
    X, y = make_data(n=8, d=2)
    build = getattr(sx, name)
    keywords = {"lam": 1.0} if name == "zero_one_mio" else {"C": 1.0}
    reference = sx.solve(build(X, y, **keywords)).certificate
    for readings in (1, 20):
        with clock.substituted(Ticking(readings)):
            problem = build(X, y, **keywords, time_limit=60.0)
        assert np.all(problem.M >= 0)
        found = sx.solve(problem).certificate
        assert found.upper == pytest.approx(reference.upper, rel=1e-5)


def test_an_estimator_shares_its_limit_among_its_machines():
    X, _ = make_data(n=60, d=3)
    fast_one = sx.PSVMClassifier(p=1.5, kernel="rbf", solver="fast", time_limit=60.0, tol=1e-12)
    with clock.substituted(Ticking(2)), pytest.warns(ConvergenceWarning):
        found = fast_one.fit(X, np.arange(60) % 3).solutions_.values()
    assert all(math.isfinite(solution.certificate.upper) for solution in found)
    assert "time_limit" in {str(solution.status) for solution in found}


def selected(**keywords):
    X, y = make_data(n=60, d=3)
    return sx.select(sx.PSVMClassifier(), {"C": [0.1, 1.0, 10.0]}, X, y, cv=3, **keywords)


def test_select_ends_at_its_limit_with_what_is_finished():
    counting = Ticking(math.inf)
    with clock.substituted(counting):
        whole = selected(time_limit=60.0)
    assert whole.complete
    for readings in (1, counting.asked // 3, counting.asked // 2):
        with (
            clock.substituted(Ticking(readings)),
            pytest.warns(UserWarning, match="time limit passed"),
        ):
            table = selected(time_limit=60.0)
        assert (table.complete, table.best_estimator_) == (False, None)
        for k, end in itertools.product(range(3), ("lower", "upper")):
            column = f"split{k}_{end}"
            there = table[column].notna()
            np.testing.assert_allclose(table[column][there], whole[column][there], rtol=1e-6)


def test_select_goes_on_from_its_store_after_a_limit(tmp_path):
    store, whole = tmp_path / "s.sqlite", Ticking(math.inf)
    with clock.substituted(whole):
        selected()
    half = Ticking(whole.asked // 2)
    with clock.substituted(half), pytest.warns(UserWarning, match="time limit passed"):
        selected(time_limit=60.0, store=store)
    table = selected(store=store)
    assert table.complete
    np.testing.assert_allclose(table["mean_test_score"], selected()["mean_test_score"])


def test_compare_tells_which_models_had_no_time(tmp_path):
    X, y = make_data(n=60, d=3)
    models = {
        "one": sx.PSVMClassifier(),
        "two": sx.ODMClassifier(),
        "three": sx.PSVMClassifier(p=2.0),
    }
    store = tmp_path / "rows.sqlite"
    with clock.substituted(Ticking(1)):
        table = sx.compare(models, X, y, time_limit=60.0, store=store)
    assert list(table["model"]) == list(models)
    assert set(table["status"]) == {"time_limit"}
    assert not table["certified"].any()
    # Nothing that the limit has cut short is kept.
    assert sx.compare(models, X, y, store=store)["certified"].all()


def test_what_goes_on_is_logged(caplog):
    X, y = make_data(n=30)
    with caplog.at_level("INFO", logger="svmcvx"):
        sx.compare({"mine": sx.PSVMClassifier(solver="clarabel")}, X, y)
    told = " ".join(caplog.messages)
    assert "psvm_dual: built in" in told
    assert "CLARABEL: optimal" in told
    assert "mine: optimal" in told
    caplog.clear()
    with caplog.at_level("DEBUG", logger="svmcvx"):
        fast.psvm(X, y, C=1.0, p=2.0)
    assert any("gap" in message for message in caplog.messages)


def test_verbose_and_progress_show_something(capsys):
    X, y = make_data(n=30)
    sx.PSVMClassifier(p=2.0, verbose=True).fit(X, y)
    assert "gap" in capsys.readouterr().out
    sx.PSVMClassifier(p=2.0).fit(X, y)
    assert capsys.readouterr().out == ""
    table = sx.compare([sx.PSVMClassifier(), sx.PSVMClassifier(p=2.0)], X, y, progress=True)
    assert len(table) == 2


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_a_stall_ends_by_itself(p):
    X, y = make_data(n=60, d=3)
    weight = 0.5 ** (np.arange(60) / 2.0)
    for rows, keywords in (
        (1e8 * X, {"kernel": "linear"}),
        (X + 1e8, {"kernel": "linear"}),
        (X, {"kernel": "rbf", "sample_weight": weight}),
        (X, {"kernel": "rbf", "C": 1e10}),
    ):
        found = fast.psvm(rows, y, **{"C": 1.0, "p": p, **keywords})
        assert found.status in ("optimal", "inaccurate", "numerical")
        assert 0 <= found.certificate.lower <= found.certificate.upper


class Counting:
    """A source of seconds that a kernel's entries move on: one each in single precision, three each
    in double.
    """

    def __init__(self, monkeypatch):
        self.at = 0.0

        def counted(name, seconds):
            whole = getattr(KernelColumns, name)

            def run(columns, *arguments):
                self.at += seconds * columns.shape[0] * columns.shape[1]
                return whole(columns, *arguments)

            monkeypatch.setattr(KernelColumns, name, run)

        counted("add_product", 1e-6)
        counted("product", 3e-6)

    def __call__(self):
        return self.at


def test_a_limit_is_used_up_to_the_certificate(monkeypatch):
    """The certificate takes the time reserved for it, by the entries of the kernel matrix."""
    counting = Counting(monkeypatch)
    X, y = make_data(n=1500, d=20, overlap=2.0)
    settings = PSVMSettings(decomposition=DecompositionSettings(tiled_working_set=20))
    problem = {"kernel": "rbf", "tol": 1e-3, "cache_size": 0.1, "settings": settings}
    with clock.substituted(counting):
        whole = fast.psvm(X, y, **problem)
        assert whole.status == "optimal"
        rounds = whole.trace[:-2]
        for share in (0.6, 0.8):
            limit, began = share * whole.trace[-1, 0], counting.at
            found = fast.psvm(X, y, time_limit=limit, **problem)
            assert found.status == "time_limit"
            assert 0.9 * limit <= counting.at - began <= limit
            # The gap is that of the whole run when it had come as far.
            left = found.trace[-2, 0]
            assert found.certificate.gap <= 1.5 * relative_gap(
                *rounds[rounds[:, 0] <= left][-1, 1:]
            )


def test_no_product_is_begun_that_would_end_after_the_limit(monkeypatch):
    counting = Counting(monkeypatch)
    X, y = make_data(n=1100, d=20, overlap=2.0)
    # A product with the whole matrix takes 3.63 seconds.
    for limit, proved in ((2.0, False), (12.0, True)):
        with clock.substituted(counting):
            began = counting.at
            found = fast.odm(X, y, kernel="rbf", method="blocks", tol=1e-12, time_limit=limit)
            assert counting.at - began <= limit
        assert found.status == "time_limit"
        assert ((found.certificate.lower or 0.0) > 0) == proved
        assert math.isfinite(found.certificate.upper)
