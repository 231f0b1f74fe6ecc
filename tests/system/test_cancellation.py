"""Work that nothing interrupts is left behind at a deadline, and what is known without it is
certified.
"""

import contextlib
import math
import signal
import threading
from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import svmcvx as sx
from svmcvx import fast
from svmcvx.fast.core.monitor import Monitor
from svmcvx.system import clock, deadline
from svmcvx.system.deadline import (
    Deadline,
    OutOfTime,
    check_cancelled,
    checkpoint,
    deferred_interrupt,
    interruptible,
    run_with_deadline,
    uninterruptible,
)
from tests.conftest import make_data
from tests.system.test_deadline import Ticking

LARGE = np.zeros(deadline.SMALL + 1)


class Stuck:
    """Work that ends only when it is let go; it tells the deadline that Ctrl-C was pressed."""

    def __init__(self, deadline):
        self.deadline, self.let_go = deadline, threading.Event()

    def __call__(self, array):
        self.deadline.interrupt_requested.set()
        self.let_go.wait()
        return array


def working():
    # Threads of others come and go.
    return sum(thread.name == deadline.WORKER for thread in threading.enumerate())


def test_work_is_left_behind_when_its_deadline_passes():
    limit = Deadline()
    stuck = Stuck(limit)
    before = working()
    with interruptible(limit), pytest.raises(OutOfTime):
        run_with_deadline(stuck, LARGE)
    assert working() == before + 1
    # The next work waits for its end.
    results = []

    def another():
        with interruptible():
            results.append(run_with_deadline(np.sum, LARGE))

    waiting = threading.Thread(target=another)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    stuck.let_go.set()
    waiting.join(600)
    assert results == [0.0]
    # They end, or this test does not.
    while working() > before:
        threading.Event().wait(0.01)


def worker(array):
    checkpoint()
    return threading.current_thread().name


def test_work_that_ends_in_time_returns_or_raises_as_ever():
    with interruptible():
        assert run_with_deadline(np.sum, LARGE + 1.0) == LARGE.size
        with pytest.raises(np.linalg.LinAlgError):
            run_with_deadline(np.linalg.cholesky, -np.eye(600))
        # Work inside of a worker starts no other one, and has the caller's settings of numpy.
        assert (
            run_with_deadline(lambda array: run_with_deadline(worker, array), LARGE)
            == "svmcvx-worker"
        )
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            run_with_deadline(lambda array: 1.0 / array, LARGE)


def test_work_is_done_to_its_end_where_nobody_expects_less():
    passed = Deadline(end=-math.inf)
    assert run_with_deadline(np.sum, LARGE) == 0.0
    checkpoint()
    with interruptible(passed):
        with pytest.raises(OutOfTime):
            checkpoint()
        with pytest.raises(OutOfTime):
            run_with_deadline(np.sum, LARGE)
        # A few entries are no work.
        assert run_with_deadline(np.sum, np.ones(3)) == 3.0
        with uninterruptible():
            checkpoint()
            assert run_with_deadline(np.sum, LARGE) == 0.0


def test_work_in_steps_ends_once_nobody_waits_for_it():
    limit, ended = Deadline(), threading.Event()

    def in_steps(array):
        limit.interrupt_requested.set()
        try:
            while True:
                check_cancelled()
                threading.Event().wait(0.001)
        finally:
            ended.set()

    with interruptible(limit), pytest.raises(OutOfTime):
        run_with_deadline(in_steps, LARGE)
    assert ended.wait(600)
    # Elsewhere nothing is left behind.
    with interruptible(Deadline(end=-math.inf)):
        check_cancelled()


SOLVERS = {
    "conic, lam": (fast.conic, {"lam": 1.0}),
    "conic, kappa": (fast.conic, {"kappa": 0.2}),
    "odm": (fast.odm, {"C1": 1.0, "C2": 1.0, "D": 0.1}),
    "odml": (fast.odml, {"C": 1.0, "lam1": 0.5, "lam2": 0.5}),
    "odml without variance": (fast.odml, {"C": 1.0, "lam1": 0.0, "lam2": 0.0}),
    "zero_one, lam": (fast.zero_one, {"lam": 1.0}),
    "ramp": (fast.ramp, {"C": 1.0}),
}


@cache
def without_a_limit(name):
    X, y = make_data(n=40, d=3)
    solver, settings = SOLVERS[name]
    return solver(X, y, kernel="rbf", **settings).certificate


@pytest.mark.parametrize("readings", [3, 100])
@pytest.mark.parametrize("name", SOLVERS)
def test_without_a_factor_what_is_trivially_known_is_certified(monkeypatch, name, readings):
    reference = without_a_limit(name)
    monkeypatch.setattr(deadline, "SMALL", 0)
    X, y = make_data(n=40, d=3)
    solver, settings = SOLVERS[name]
    found = None
    failing = (
        contextlib.suppress(sx.SolverFailed) if "kappa" in settings else contextlib.nullcontext()
    )
    with clock.substituted(Ticking(readings)), failing:
        found = solver(X, y, kernel="rbf", time_limit=60.0, **settings)
    if found is None:
        return
    certificate = found.certificate
    assert found.status == "time_limit" or certificate.is_certified(1e-5)
    assert certificate.lower is not None
    assert certificate.lower <= reference.upper * (1 + 1e-9)
    assert reference.lower * (1 - 1e-9) <= certificate.upper
    # A covariance with enough variance is known only in the columns of a factor.
    assert certificate.upper < math.inf or "kappa" in settings
    # The answer is a model like any other.
    assert found.model.predict(X).shape == y.shape


def test_a_cardinality_without_a_factor_has_no_point(monkeypatch):
    monkeypatch.setattr(deadline, "SMALL", 0)
    X, y = make_data(n=40, d=3)
    with clock.substituted(Ticking(3)), pytest.raises(sx.SolverFailed, match="no point"):
        fast.zero_one(X, y, k=2, kernel="rbf", time_limit=60.0)


@pytest.mark.parametrize("builder", ["odml_primal", "odml_dual"])
def test_a_bound_does_not_wait_for_a_factor(monkeypatch, builder):
    monkeypatch.setattr(deadline, "SMALL", 0)
    X, y = make_data(n=30, d=3)
    settings = {"C": 1.0, "lam1": 0.5, "lam2": 0.5, "kernel": "rbf"}
    problem = getattr(sx, builder)(X, y, **settings)
    with clock.substituted(Ticking(2)):
        found = sx.solve(problem, time_limit=60.0).certificate
    reference = fast.odml(X, y, **settings).certificate
    assert found.lower <= reference.upper
    assert reference.lower <= found.upper


# Ctrl-C


@contextmanager
def handled_by(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it():
    X, y = make_data(n=60)
    with handled_by(signal.SIG_IGN):
        with deferred_interrupt() as requested:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
        assert not requested.is_set()
        machine = sx.PSVMClassifier(kernel="rbf", tol=1e-8)
        plain = machine.fit(X, y).certificate_

        class Interrupting(sx.RBF):
            def __call__(self, A, B=None):
                signal.raise_signal(signal.SIGINT)
                return super().__call__(A, B)

        assert machine.set_params(kernel=Interrupting("scale")).fit(X, y).certificate_.gap <= 1e-8
        assert plain.gap <= 1e-8


def test_a_handler_of_the_host_is_called_too_and_put_back():
    calls = []

    def handler(number, _):
        calls.append(number)

    with handled_by(handler):
        with deferred_interrupt() as outer, deferred_interrupt() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner.is_set()
            assert outer.is_set()
        assert signal.getsignal(signal.SIGINT) is handler
    assert calls == [signal.SIGINT]


def test_ctrl_c_sets_the_event_and_raises_outside_of_the_block():
    with handled_by(signal.default_int_handler):
        with deferred_interrupt() as requested:
            signal.raise_signal(signal.SIGINT)
            assert requested.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


class Fits:
    """The values of C that were fitted, and Ctrl-C at one report of one of the fits."""

    def __init__(self, last):
        self.last, self.at, self.fitted, self.times = last, 2, [], 0

    def report(self, original, monitor, *arguments, **keywords):
        found = original(monitor, *arguments, **keywords)
        if len(self.fitted) == self.at and not self.times and (found is not None or not self.last):
            self.times += 1
            signal.raise_signal(signal.SIGINT)
        return found

    def fit(self, original, machine, *arguments, **keywords):
        self.fitted.append(machine.C)
        return original(machine, *arguments, **keywords)


@pytest.fixture(params=[False, True], ids=["first report", "last report"])
def fits(monkeypatch, request):
    made, report, fit = Fits(request.param), Monitor.report, sx.PSVMClassifier.fit
    monkeypatch.setattr(Monitor, "report", lambda *given, **how: made.report(report, *given, **how))
    monkeypatch.setattr(
        sx.PSVMClassifier, "fit", lambda *given, **how: made.fit(fit, *given, **how)
    )
    return made


def looped(machine, X, y):
    for C in (1.0, 2.0, 4.0, 8.0):
        sx.PSVMClassifier(**{**machine.get_params(), "C": C}).fit(X, y)


ENDED = {
    "grid search": lambda *given: GridSearchCV(given[0], {"C": [1.0, 2.0]}, cv=3).fit(*given[1:]),
    "cross-validation": partial(cross_val_score, cv=3),
    "loop": looped,
}


@pytest.mark.parametrize("how", ENDED)
def test_one_ctrl_c_ends_everything_that_fits(fits, how):
    X, y = make_data(n=60)
    with handled_by(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        ENDED[how](sx.PSVMClassifier(p=1.5), X, y)
    assert len(fits.fitted) == 2


def test_a_host_hears_of_it_too_and_one_that_ignores_it_hears_nothing(fits):
    X, y = make_data(n=60)
    machine, heard = sx.PSVMClassifier(p=1.5), []
    with handled_by(lambda *given: heard.append(given[0])), pytest.raises(KeyboardInterrupt):
        looped(machine, X, y)
    assert (heard, fits.times, fits.fitted) == ([signal.SIGINT], 1, [1.0, 2.0])
    fits.times, fits.fitted = 0, []
    with handled_by(signal.SIG_IGN):
        looped(machine, X, y)
    assert (fits.times, fits.fitted) == (1, [1.0, 2.0, 4.0, 8.0])


def test_an_interrupted_estimator_has_the_best_point_and_a_search_its_table(fits):
    X, y = make_data(n=60)
    machine = sx.PSVMClassifier(p=1.5, tol=1e-9)
    with handled_by(signal.default_int_handler):
        with pytest.raises(KeyboardInterrupt):
            machine.fit(X, y).fit(X, y)
        assert machine.solution_.status in ("interrupted", "optimal")
        assert machine.certificate_.lower <= machine.certificate_.upper
        # The last fit is to all rows.
        fits.at, fits.times, fits.fitted = 7, 0, []
        with pytest.warns(UserWarning, match="interrupted after 6 fits: best_estimator_ is None"):
            table = sx.select(machine, {"C": [1.0, 2.0]}, X, y, cv=3)
    assert not table.complete
    assert table.best_estimator_ is None
    assert np.isfinite(table["mean_test_score"]).all()
