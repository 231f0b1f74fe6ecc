"""Calls with hostile arguments of everything public: an answer that holds, or a sentence that says
what is wrong.

``python -m campaigns.fuzz --count 20000`` makes that many calls in processes of their own and
prints what came of them; a call is known by its number and can be repeated by ``--seed``. The tests
make some of them.

A call is one of a valid one with up to three of its arguments replaced. It ends well if it returns
(solutions: with an interval in order), or raises a :class:`svmcvx.SvmcvxError` with a sentence. It
ends badly if any other exception escapes, if it takes longer than its limit by far, if the process
dies, or if a value that can mean nothing for its argument is accepted.
"""

import collections
import contextlib
import functools
import inspect
import io
import math
import multiprocessing
import pickle
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

import svmcvx as sx
from campaigns.common import options_of
from svmcvx import datasets, fast, plot, synthetic, theory
from svmcvx.catalogue import CATALOGUE

# Seconds that a call may take: its own limits are two.
SLOW = 20.0
LIMIT = 2.0


class Nonsense(NamedTuple):
    """A value that no argument of its kind can take."""

    value: object


class Outcome(NamedTuple):
    """What came of a call: ``"answer"``, ``"refused"``, or what is wrong with it."""

    number: int
    call: str
    ended: str
    detail: str


@functools.cache
def training():
    """A few rows with two and with three classes, weights, and classes far apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((14, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(14) > 0, 1, 0)
    y[:4] = 0, 1, 0, 1
    return X, y, np.arange(14) % 3, X + 6.0 * np.where(y == 1, 1.0, -1.0)[:, None]


@functools.cache
def fitted():
    """Models, solutions and proofs that other functions take."""
    X, y, several, _ = training()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(tempfile.mkdtemp())
        solution = fast.psvm(X, y, C=1.0, p=1.5)
        solution.save_proof(folder / "proof.npz")
        solution.model.save(folder / "model.npz")
        return {
            "linear": sx.PSVMClassifier().fit(X, y),
            "kernel": sx.PSVMClassifier(kernel="rbf", p=2.0).fit(X, y),
            "several": sx.PSVMClassifier().fit(X, several),
            "m3svm": sx.M3SVMClassifier().fit(X, several),
            "odm": sx.ODMClassifier(kernel="rbf").fit(X, y),
            "solution": solution,
            "proof": folder / "proof.npz",
            "model": folder / "model.npz",
        }


def data_values(rng, X):
    """Replacements for data."""
    n = len(X)
    holes = X.copy()
    holes[0, 0] = rng.choice([np.nan, np.inf, -np.inf])
    return [
        X * 10.0 ** rng.uniform(-320, 300),
        X + 10.0 ** rng.uniform(0, 200),
        np.zeros_like(X),
        X[:, :1],
        np.repeat(X[:1], n, axis=0),
        np.asfortranarray(X),
        X.astype(np.float32),
        np.round(X).astype(int),
        X > 0,
        sp.csr_array(X),
        sp.coo_matrix(X),
        sp.csr_array((n, 2)),
        pd.DataFrame(X, columns=["a", "b"]),
        X.tolist(),
        np.hstack([X, np.full((n, 1), 1e308)]),
        np.hstack([X] * 20),
        Nonsense(None),
        Nonsense("rows"),
        Nonsense(holes),
        Nonsense(X + 1j),
        Nonsense(X[:, :, None]),
        Nonsense(X[:0]),
        Nonsense(X[:, :0]),
        Nonsense([[1.0], [1.0, 2.0]]),
        Nonsense(np.array([["a", "b"]] * n)),
        Nonsense({"a": 1}),
        Nonsense(object()),
        Nonsense(3.0),
    ]


def label_values(rng, y):
    """Replacements for labels."""
    return [
        np.array(["yes", "no"])[y % 2],
        y.astype(float) * 1e300,
        np.where(y == 1, 1, -1),
        y == 1,
        y[:, None],
        y.tolist(),
        pd.Series(y, index=rng.permutation(len(y))),
        np.array([3, 1, 2])[np.arange(len(y)) % 3],
        np.arange(len(y)),
        np.array([b"a", b"b"])[y % 2],
        Nonsense(np.ones(len(y))),
        Nonsense(y[:-1]),
        Nonsense(None),
        Nonsense("labels"),
        Nonsense(np.full(len(y), np.nan)),
        Nonsense(np.array([None] * len(y))),
        Nonsense(object()),
        Nonsense(np.empty(0)),
    ]


def weight_values(rng, n):
    """Replacements for weights."""
    return [
        None,
        np.ones(n),
        rng.random(n) * 10.0 ** rng.uniform(-300, 300),
        0.5 ** (np.arange(n) * 4.0),
        np.where(np.arange(n) < 4, 1.0, 0.0),
        [1] * n,
        Nonsense(np.zeros(n)),
        Nonsense(-np.ones(n)),
        Nonsense(np.full(n, np.nan)),
        Nonsense(np.ones(n + 1)),
        Nonsense("heavy"),
        Nonsense(np.ones((n, 2))),
        Nonsense(np.full(n, 1j)),
    ]


def kernel_values(rng, n):
    """Replacements for kernels."""
    A = rng.standard_normal((n, n))
    return [
        None,
        "linear",
        "rbf",
        "poly",
        "laplacian",
        "exponential",
        "sigmoid",
        sx.RBF(10.0 ** rng.uniform(-200, 200)),
        sx.Laplacian(10.0 ** rng.uniform(-20, 20)),
        sx.Polynomial(int(rng.integers(1, 80)), 10.0 ** rng.uniform(-3, 3), 1.0),
        sx.Sigmoid(1.0, 0.5),
        lambda a, b: np.asarray(a) @ np.asarray(b).T,
        Nonsense(lambda a, b: None),
        Nonsense(lambda a, b: np.full((len(a), len(b)), np.nan)),
        Nonsense(lambda a: a),
        Nonsense("cosine of something"),
        Nonsense(3.0),
        Nonsense(A),
        Nonsense(object()),
        Nonsense(sx.RBF),
    ]


NUMBERS = (
    *(0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, 1.7e308, 1e10, 1e-12, 0.5, 3, True, 1e-6, 40),
    np.float32(0.3),
    np.int64(2),
    np.array(1.0),
    "scale",
    None,
    math.inf,
    -math.inf,
)
NO_NUMBERS = (
    "a lot",
    math.nan,
    1j,
    [],
    {},
    [1.0, 2.0],
    np.array([1.0, 2.0]),
    object(),
    b"1",
    np.array([[1.0]]),
    dict,
)
WORDS = (
    *("auto", "abc", "", "exact", "none", "free", "hinge"),
    *("error", "clip", "rbf", "fast", "clarabel", "scs"),
)
NO_WORDS = (3, 2.5, [], {}, object(), math.nan, b"auto", np.array(["auto", "b"]))
ANYTHING = (None, 0, "abc", [], {}, object(), math.nan, 1e300, np.zeros(3), print, int)
NO_SEEDS = ({"a": 1}, "x", 1.5, -1, math.nan, object(), [1, 2], None)


def replacements(rng, name, annotation, base):
    """Values for an argument by its name and annotation."""
    n = 14
    if name == "X":
        return data_values(rng, training()[0] if base is None else np.asarray(base))
    if name == "y":
        return label_values(rng, training()[1] if base is None else np.asarray(base))
    if name in ("sample_weight", "weight"):
        return weight_values(rng, n)
    if name == "kernel":
        return kernel_values(rng, n)
    if name == "seed":
        return [0, 7, 2**31, *map(Nonsense, NO_SEEDS[:-1] if "None" in annotation else NO_SEEDS)]
    if "bool" in annotation and "float" not in annotation:
        return [True, False, np.bool_(True)]
    if annotation.startswith(("'float", "float", "'int", "int")):
        words, several = "str" in annotation, "Sequence" in annotation
        wrong = [
            value
            for value in NO_NUMBERS
            if not (words and isinstance(value, str)) and not (several and np.ndim(value) == 1)
        ]
        return [*NUMBERS, *map(Nonsense, wrong)]
    if annotation.startswith(("'str'", "str")):
        return [*WORDS, *map(Nonsense, NO_WORDS)]
    return list(ANYTHING)


# Arguments that are left alone: what they do is not for a fuzzer, or belongs to other tests.
LEFT_ALONE = (
    *("self", "callback", "verbose", "progress", "n_jobs"),
    *("store", "proofs", "max_iter", "settings", "ax"),
)


class Call(NamedTuple):
    """A valid call."""

    name: str
    function: object
    arguments: dict
    finish: object = None


def builders():
    """Every builder, and what it builds through ``solve``."""
    X, y, several, apart = training()
    for entry in CATALOGUE.values():
        for builder in entry.builders:
            many = entry.takes.several_classes
            rows = X
            if "hard" in builder.name:
                rows = several[:, None] * 6.0 + X if many else apart
            arguments = {"X": rows, "y": several if many else y, **builder.example}
            if entry.family == "indicator":
                arguments["time_limit"] = 0.2
            limit = 0.5 if entry.family == "indicator" else LIMIT
            yield Call(
                f"solve({builder.name})",
                builder.load(),
                arguments,
                lambda problem, limit=limit: sx.solve(problem, time_limit=limit),
            )


def solvers():
    """Every specialised solver, ``solve`` and paths."""
    X, y, several, apart = training()
    for entry in CATALOGUE.values():
        if entry.fast is not None:
            name = entry.fast.name
            rows = apart if name == "hard_margin" else X
            labels = several if entry.takes.several_classes else y
            arguments = {"X": rows, "y": labels, **entry.builder().example, "time_limit": LIMIT}
            yield Call(f"fast.{name}", getattr(fast, name), arguments)
    yield Call(
        "fast.path",
        fast.path,
        {"formulation": "psvm", "X": X, "y": y, "C": [0.1, 1.0], "p": 2.0, "time_limit": LIMIT},
    )
    yield Call(
        "solve", sx.solve, {"problem": sx.psvm_dual(X, y, C=1.0, p=1.5), "time_limit": LIMIT}
    )


def estimator_call(kind, several):
    """Fit, predict and score by one call."""

    def call(X, y, sample_weight=None, **parameters):
        estimator = kind(**parameters).fit(X, y, sample_weight)
        estimator.predict(X)
        estimator.decision_function(X)
        estimator.score(X, y)
        repr(estimator)
        return estimator.solution_

    signature = inspect.signature(kind)
    own = [p for p in signature.parameters.values() if p.name not in ("n_jobs", "verbose")]
    first = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation="Any")
        for name in ("X", "y", "sample_weight")
    ]
    call.__signature__ = inspect.Signature([*first, *own])
    X, y, classes, _ = training()
    return Call(kind.__name__, call, {"X": X, "y": classes if several else y, "time_limit": 0.5})


def estimators():
    """Every estimator, with two classes or more."""
    for entry in CATALOGUE.values():
        if entry.estimator is not None:
            kind = entry.estimator.load()
            yield estimator_call(kind, several=entry.takes.several_classes)
    yield estimator_call(sx.PSVMClassifier, several=True)


def machines_of_scikit_learn():
    """Fitted ones that :func:`svmcvx.certify` takes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC, LinearSVC, NuSVC

    for machine in (SVC(), LinearSVC(dual="auto"), LogisticRegression(), NuSVC(nu=0.3)):
        yield machine.fit(*training()[:2])


def others():
    """Model selection, comparison, certificates of others' models, theory, pictures, files."""
    X, y, *_ = training()
    known, data = fitted(), {"X": X, "y": y}
    grid = {"estimator": sx.PSVMClassifier(), "grid": {"C": [0.1, 1.0]}, "cv": 2}
    yield Call("select", sx.select, {**grid, **data})
    models = [sx.PSVMClassifier(), sx.ODMClassifier()]
    yield Call("compare", sx.compare, {"models": models, **data})
    for machine in machines_of_scikit_learn():
        name = f"certify({type(machine).__name__})"
        yield Call(name, sx.certify, {"estimator": machine, **data})
    for room, name, arguments in (
        (theory, "generalisation_bound", {"model": known["kernel"], **data, "p": 2.0}),
        (theory, "leave_one_out_bound", {"solution": known["odm"].solution_, **data}),
        (theory, "margin_distribution", {"model": known["kernel"], **data}),
        (theory, "margin_loss", {"u": X[:, 0], "p": 2.0}),
        (theory, "margins", {"model": known["linear"], **data}),
        (theory, "pairwise_margins", {"model": known["m3svm"]}),
        (plot, "decision_regions", {"model": known["kernel"], **data}),
        (plot, "decision_regions", {"model": known["linear"], **data}),
        (plot, "gap_trace", {"solutions": known["solution"]}),
        (plot, "gap_trace", {"solutions": {"one": known["solution"]}}),
        (plot, "margin_distribution", {"models": known["kernel"], **data}),
        (plot, "margin_distribution", {"models": {"one": known["linear"]}, **data}),
        (synthetic, "outlier_data", {"n": 10, "p": 2, "seed": 0, "sigma": 1.0}),
        (datasets, "load", {"name": "wine"}),
    ):
        called = f"{room.__name__.rpartition('.')[2]}.{name}"
        yield Call(called, getattr(room, name), arguments)
    yield Call("load_model", sx.load_model, {"path": known["model"]})
    yield Call("verify", sx.verify, {"proof": known["proof"], **data})
    for kind in ("linear", "kernel", "several", "m3svm"):
        for method in ("predict", "decision_function"):
            yield Call(f"{kind}.{method}", getattr(known[kind], method), {"X": X})


@functools.cache
def catalogue():
    """All valid calls."""
    return (*builders(), *solvers(), *estimators(), *others())


def mutated(number):
    """A call, its arguments with some of them replaced, and the names of those that cannot mean
    anything.
    """
    rng = np.random.default_rng([20_261_122, number])
    calls = catalogue()
    call = calls[int(rng.integers(len(calls)))]
    parameters = [
        parameter
        for parameter in inspect.signature(call.function).parameters.values()
        if parameter.name not in LEFT_ALONE and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    arguments, wrong, told = dict(call.arguments), [], []
    for index in rng.permutation(len(parameters))[: rng.choice([0, 1, 1, 1, 2, 3])]:
        parameter = parameters[index]
        base = arguments.get(parameter.name)
        values = replacements(rng, parameter.name, str(parameter.annotation), base)
        value = values[int(rng.integers(len(values)))]
        if isinstance(value, Nonsense):
            value = value.value
            # One class is a test set like any other for a model, and a default is never wrong.
            of_a_model = not {"model", "models", "solution", "results"}.isdisjoint(call.arguments)
            if value is not parameter.default and not (parameter.name == "y" and of_a_model):
                wrong.append(parameter.name)
        arguments[parameter.name] = value
        told.append(f"{parameter.name}={' '.join(repr(value).split())[:60]}")
    return call, arguments, wrong, f"{call.name}({', '.join(told)})"


def in_order(found):
    """Whether a solution's interval is one."""
    certificate = getattr(found, "certificate", found)
    upper, lower = getattr(certificate, "upper", None), getattr(certificate, "lower", None)
    if upper is None or not isinstance(upper, float):
        return True
    return not math.isnan(upper) and (
        lower is None or (not math.isnan(lower) and lower <= upper + 1e-9 * abs(upper) + 1e-300)
    )


def made(number, slow=SLOW):
    """Make a call and tell what came of it."""
    call, arguments, wrong, told = mutated(number)
    started = time.perf_counter()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            found = call.function(**arguments)
            if call.finish is not None:
                found = call.finish(found)
    except sx.SvmcvxError as error:
        sentence = str(error)
        ended = "refused" if len(sentence.split()) >= 3 else "refused without a sentence"
        detail = sentence[:200]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in where if "svmcvx" in frame.filename]
        last = own[-1] if own else where[-1]
        ended = "raw error"
        detail = (
            f"{type(error).__name__}: {str(error)[:120]} at"
            f" {Path(last.filename).name}:{last.lineno}"
        )
    else:
        ended, detail = "answer", ""
        if isinstance(found, sx.Verified) and not found.holds:
            ended, wrong = "refused", []
        if not in_order(found):
            ended, detail = "interval out of order", str(getattr(found, "certificate", found))
        elif wrong:
            ended, detail = "nonsense accepted", ", ".join(wrong)
    if call.name.startswith("plot"):
        import matplotlib.pyplot as plt

        plt.close("all")
    if time.perf_counter() - started > slow:
        ended, detail = "slow", f"{time.perf_counter() - started:.1f} s; {ended} {detail}"
    return Outcome(number, told, ended, detail)


def many(numbers):
    """Make calls one after the other."""
    import matplotlib

    matplotlib.use("agg")
    return [made(number) for number in numbers]


GOOD = ("answer", "refused")


def main():
    jobs, chunk = ({"type": int, "default": default} for default in (2, 50))
    options = options_of(__doc__, 1000, ("--jobs", jobs), ("--chunk", chunk))
    if options.seed is not None:
        options.first, options.count = options.seed, 1
    numbers = range(options.first, options.first + options.count)
    chunks = [list(numbers[k : k + options.chunk]) for k in range(0, len(numbers), options.chunk)]
    outcomes = []
    context = multiprocessing.get_context("spawn")
    while chunks:
        with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            futures = [(chunk, pool.submit(many, chunk)) for chunk in chunks]
            broken = []
            for chunk, future in futures:
                try:
                    outcomes += future.result()
                except (BrokenProcessPool, pickle.PicklingError):
                    broken.append(chunk)
        # A chunk whose process died is halved until the call is known.
        chunks = []
        for chunk in broken:
            if len(chunk) == 1:
                call = mutated(chunk[0])[3]
                outcomes.append(Outcome(chunk[0], call, "crash", "the process died"))
            else:
                chunks += [chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
    counts = collections.Counter(outcome.ended for outcome in outcomes)
    print(", ".join(f"{ended}: {count}" for ended, count in counts.most_common()))
    bad = sorted(outcome for outcome in outcomes if outcome.ended not in GOOD)
    for number, call, ended, detail in bad:
        print(f"{number:7d} {ended}: {call}\n        {detail}")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
