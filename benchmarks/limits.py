"""Is a time limit kept, and Ctrl-C obeyed: seconds asked for and taken, for every call that may
take long.

    python benchmarks/limits.py [--limit 1] [--interrupt] [--longer 3] [--processor] [--only
    PATTERN] [--data breast_cancer,digits,cloud] [--csv FILE]

Every specialised solver, every builder through the solve layer, every estimator, ``select`` and
``compare``, on breast_cancer (569 x 30), digits against the odd ones (1 797 x 64), a cloud of 3 000
points in 20 dimensions and ones of 20 000 in 50, 100 000 in 20 and 200 000 in 20. A call keeps its
limit if it returns within 1.1 times the limit plus half a second. Each call has been made once
before on 40 of the rows, and what is compiled or loaded later is not counted, as by the limits.
With ``--interrupt`` no limit is set, and Ctrl-C is sent after that time instead. With ``--longer``
a call that its limit has ended is made again with so many times the limit: told are the share of
the limit that was used, the gap at the end, and the gap of the longer run at that moment. With
``--processor`` all seconds are those of the processor, for a machine that others use; set the
threads of BLAS to one.
"""

import os
import re
import signal
import threading
import time
import warnings

import numpy as np
import pandas as pd
from command import parser_of
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale

import svmcvx as sx
from svmcvx import fast
from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import relative_gap
from svmcvx.system import clock

GRACE, FACTOR = 0.5, 1.1
# Values for the hyper-parameters of specialised solvers and estimators that prolong the work.
HARD = {
    "psvm": [{"C": 100.0, "p": 1.0}, {"C": 100.0, "p": 1.5}],
    "hard_margin": [{}],
    "conic": [{"lam": 10.0}, {"kappa": 0.1}],
    "odm": [{"C1": 1e3, "C2": 1e3, "D": 0.1}],
    "odml": [{"lam1": 1.0, "lam2": 1.0, "C": 1e3}],
    "l0": [{"C": 1.0}],
    "ramp": [{"C": 1.0}],
    "zero_one": [{"lam": 1.0}, {"k": 3}],
    "m3svm": [{"lam": 1e-5, "p": 4.0}],
    "multiclass": [
        {"loss": "weston_watkins", "lam": 1e-4},
        {"loss": "sparse_softmax", "lam": 1e-2},
    ],
}


def data_sets():
    """Name, rows and labels of two and of several classes."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast_cancer", scale(X), y, y + 2 * (X[:, 0] > np.median(X[:, 0]))
    X, y = load_digits(return_X_y=True)
    yield "digits", scale(X), y % 2, y
    for name, n, d in (
        ("cloud", 3000, 20),
        ("large", 20_000, 50),
        ("larger", 100_000, 20),
        ("largest", 200_000, 20),
    ):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        score = X[:, :3].sum(axis=1) + rng.standard_normal(n)
        yield name, X, (score > 0).astype(int), np.digitize(score, (-1.0, 0.0, 1.0))


def calls():
    """Name of a call, and the call itself with rows, labels, labels of several classes and a
    limit.
    """
    for entry in CATALOGUE.values():
        many = entry.takes.several_classes
        kernels = (None, "rbf") if entry.takes.kernel else (None,)
        if entry.fast is not None:
            solver = getattr(fast, entry.fast.name)
            for settings in HARD[entry.fast.name]:
                for kernel in kernels:
                    extra = settings | ({} if kernel is None else {"kernel": kernel})

                    def call(X, y, several, limit, solver=solver, extra=extra, many=many):
                        return solver(X, several if many else y, time_limit=limit, **extra)

                    yield f"fast.{entry.fast.name} {told(extra)}", call
        for builder in entry.builders:
            build = builder.load()
            for kernel in kernels:
                extra = dict(builder.example) | ({} if kernel is None else {"kernel": kernel})

                if entry.mixed_integer:

                    def call(X, y, several, limit, build=build, extra=extra):
                        return build(X, y, time_limit=limit, **extra)

                    yield f"{builder.name} {told(extra)}", call

                def call(
                    X,
                    y,
                    several,
                    limit,
                    build=build,
                    extra=extra,
                    many=many,
                    mixed=entry.mixed_integer,
                ):
                    problem = build(
                        X, several if many else y, **extra, **({"time_limit": 0.1} if mixed else {})
                    )
                    return lambda: sx.solve(problem, time_limit=limit)

                yield f"solve({builder.name} {told(extra)})", call
        if entry.estimator is not None:
            kind = entry.estimator.load()

            def call(X, y, several, limit, kind=kind):
                return kind(time_limit=limit).fit(X, several).solution_

            yield f"{entry.estimator.name}, several classes", call

    def selected(X, y, several, limit):
        return sx.select(
            sx.PSVMClassifier(kernel="rbf"),
            {"C": np.logspace(-2, 4, 30), "p": [1, 1.5, 2]},
            X,
            y,
            time_limit=limit,
        )

    yield "select PSVM, rbf, 90 settings", selected

    def compared(X, y, several, limit):
        models = [
            sx.ZeroOneSVMClassifier(),
            sx.RampSVMClassifier(),
            sx.PSVMClassifier(kernel="rbf", C=1e3),
        ]
        return sx.compare(models, X, y, time_limit=limit)

    yield "compare of three models", compared


def told(settings):
    """Settings in one word."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


def interrupted(after):
    """Send Ctrl-C to this process after some seconds; return the timer."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def measured(call, arguments, limit, interrupt):
    """Seconds, how the call ended, its interval, and the solution if there is one."""
    timer, found = None, None
    started = clock.now()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            timer = interrupted(limit) if interrupt else None
            found = call(*arguments, None if interrupt else limit)
            if callable(found):
                # A problem without heuristics was built, which no limit counts; now it is solved.
                if timer is not None:
                    timer.cancel()
                started = clock.now()
                timer = interrupted(limit) if interrupt else None
                found = found()
        ended = str(getattr(found, "status", "a table"))
        interval = getattr(found, "certificate", "")
    except KeyboardInterrupt:
        ended, interval = "KeyboardInterrupt", ""
    except sx.SvmcvxError as error:
        ended, interval = type(error).__name__, " ".join(str(error).split())[:90]
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
    return clock.now() - started, ended, str(interval), found


def gap_then(solution, seconds):
    """The smallest gap that a run had after some seconds; infinite before its first bounds."""
    trace = np.asarray(getattr(solution, "trace", np.zeros((0, 3))))
    # The last row is the certificate.
    lower, upper = (
        fold.accumulate(np.nan_to_num(trace[:-1, k], nan=worst))
        for k, fold, worst in ((1, np.fmax, -np.inf), (2, np.fmin, np.inf))
    )
    last = np.searchsorted(trace[:-1, 0], seconds, side="right") - 1
    return np.inf if last < 0 else relative_gap(float(lower[last]), float(upper[last]))


def main():
    parser = parser_of(
        __doc__,
        limit=1.0,
        interrupt=False,
        processor=False,
        only="",
        data="breast_cancer,digits,cloud",
        csv=None,
    )
    parser.add_argument("--longer", type=float)
    options = parser.parse_args()
    with clock.substituted(time.process_time if options.processor else time.perf_counter):
        measure(options)


def measure(options):
    """Make the calls and print how each ended."""
    wanted, rows = options.data.split(","), []
    for data, X, y, several in data_sets():
        if data not in wanted:
            continue
        for name, call in calls():
            if not re.search(options.only, name):
                continue
            few = np.r_[np.flatnonzero(y == 0)[:20], np.flatnonzero(y == 1)[:20]]
            measured(call, (X[few], y[few], y[few]), 1.0, False)
            arguments = X, y, several
            taken, ended, interval, found = measured(
                call, arguments, options.limit, options.interrupt
            )
            kept = taken <= FACTOR * options.limit + GRACE
            gap = then = np.nan
            if options.longer and ended == "time_limit" and hasattr(found, "trace"):
                gap = found.certificate.gap
                then = gap_then(
                    measured(call, arguments, options.longer * options.limit, False)[-1],
                    options.limit,
                )
                interval = (
                    f"used {taken / options.limit:.3f}  gap {gap:.2e}, longer {then:.2e}, ratio"
                    f" {gap / then:.2f}"
                )
            rows.append((data, name, options.limit, taken, kept, ended, interval, gap, then))
            print(
                f"{data:14s} {name:55s} {taken:7.2f} s  {'' if kept else 'LATE':4s}  {ended} "
                f" {interval}",
                flush=True,
            )
    table = pd.DataFrame(
        rows,
        columns=[
            "data",
            "call",
            "asked",
            "taken",
            "kept",
            "ended",
            "interval",
            "gap",
            "gap_of_longer",
        ],
    )
    print(
        f"{int(table.kept.sum())} of {len(table)} within {FACTOR} x the limit + {GRACE} s; longest"
        f" {table.taken.max():.2f} s"
    )
    if options.csv:
        table.to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
