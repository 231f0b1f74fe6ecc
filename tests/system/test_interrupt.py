import signal
from contextlib import contextmanager

import pytest

import svmcvx as sx
from svmcvx.system.deadline import deferred_interrupt
from tests.conftest import make_data


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
