"""Processor time of this package against another revision of it, in one run.

    git worktree add ../before REVISION
    python -m benchmarks.against ../before

Each case is run by two processes in turn, one per revision, with one thread of the BLAS; compiling
is outside of the clock. The least time of the rounds is compared. The column "certify" compares the
part of the time that the certificate takes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def cases():
    """Return the calls by name; only names that both revisions have."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
    from sklearn.preprocessing import scale

    import svmcvx as sx

    def clouds(n, d, seed=0, classes=2, overlap=1.0):
        import numpy as np

        rng = np.random.default_rng(seed)
        y = np.arange(n) % classes
        centres = rng.standard_normal((classes, d))
        return overlap * rng.standard_normal((n, d)) + centres[y], y

    iris, wine, digits, cancer = (
        (scale(data.data), data.target)
        for data in (load_iris(), load_wine(), load_digits(), load_breast_cancer())
    )
    some, many, few = clouds(2000, 10), clouds(20_000, 50), clouds(60, 3, overlap=1.5)
    three, apart = clouds(600, 8, classes=3), clouds(1000, 40, overlap=0.2)
    rbf = sx.RBF(0.1)
    machine = sx.PSVMClassifier
    return {
        "fit, iris, p = 1, RBF": lambda: machine(kernel="rbf").fit(*iris),
        "fit, wine, p = 1, linear": lambda: machine().fit(*wine),
        "fit, breast cancer, p = 1.5": lambda: machine(p=1.5).fit(*cancer),
        "fit, digits, p = 1, RBF": lambda: machine(kernel="rbf").fit(*digits),
        "psvm, p = 1, RBF": lambda: sx.fast.psvm(*some, C=1.0, p=1.0, kernel=rbf),
        "psvm, p = 2, RBF": lambda: sx.fast.psvm(*some, C=1.0, p=2.0, kernel=rbf),
        "psvm, p = 1, linear": lambda: sx.fast.psvm(*many, C=1.0, p=1.0),
        "psvm, p = 2, linear": lambda: sx.fast.psvm(*many, C=1.0, p=2.0),
        "hard margin, linear": lambda: sx.fast.hard_margin(*apart),
        "odm, RBF": lambda: sx.fast.odm(*some, C1=10.0, C2=10.0, D=0.1, kernel=rbf),
        "odm, linear": lambda: sx.fast.odm(*many, C1=10.0, C2=10.0, D=0.1),
        "odml, linear": lambda: sx.fast.odml(*some, lam1=0.1, lam2=0.1, C=10.0),
        "conic, linear": lambda: sx.fast.conic(*some, lam=1.0),
        "m3svm": lambda: sx.fast.m3svm(*three, lam=1e-3, p=4.0),
        "Crammer-Singer": lambda: sx.fast.multiclass(*three, lam=1e-2, loss="crammer_singer"),
        "softmax": lambda: sx.fast.multiclass(*three, lam=1e-2, loss="softmax"),
        "0-1, search": lambda: sx.fast.zero_one(*few, lam=1.0),
        "l0, search": lambda: sx.fast.l0(*few, C=1.0, method="search"),
        "ramp, search": lambda: sx.fast.ramp(*few, C=1.0),
        "builder and solve": lambda: sx.solve(sx.psvm_dual(*few, C=1.0, p=1.5, kernel=rbf)),
        "compare": lambda: sx.compare({"a": machine(), "b": sx.ODMClassifier()}, *few),
        "select": lambda: sx.select(machine(kernel="rbf"), {"C": [0.1, 1.0, 10.0]}, *few),
        "guarantee": lambda: (
            sx.fast.psvm(*some, C=1.0, p=2.0).guarantee(*some)
            if hasattr(sx.Solution, "guarantee")
            else sx.guarantee(sx.fast.psvm(*some, C=1.0, p=2.0), *some).accuracy(*some)
        ),
        "verify": lambda: sx.verify(sx.fast.psvm(*few, C=1.0, p=1.5).proof(), *few).holds,
    }


def work():
    """Answer names of cases on stdin by seconds: of the processor, and of the certificate."""
    import warnings

    warnings.simplefilter("ignore")
    calls, warm = cases(), set()
    for line in sys.stdin:
        name = json.loads(line)
        if name is None:
            print(json.dumps(list(calls)), flush=True)
            continue
        try:
            if name not in warm:
                calls[name]()
                warm.add(name)
            repeats, certify, began = 0, [], time.process_time()
            while repeats < 1 or time.process_time() - began < 0.2:
                answer = calls[name]()
                repeats += 1
                answer = getattr(answer, "solution_", answer)
                certify.append(getattr(getattr(answer, "timings", None), "certify", None))
            seconds = (time.process_time() - began) / repeats
            found = [seconds, None if None in certify else min(certify)]
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        print(json.dumps(found), flush=True)


def worker(tree):
    """Start the process of a revision."""
    environment = {**os.environ, **THREADS, "PYTHONPATH": str(tree)}
    return subprocess.Popen(  # noqa: S603 - our own file
        [sys.executable, Path(__file__).resolve(), "--work"],
        cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def asked(process, name):
    """Return a worker's answer."""
    process.stdin.write(json.dumps(name) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", nargs="?", help="folder of the other revision")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    here = Path(__file__).resolve().parents[1]
    both = [worker(Path(options.before).resolve()), worker(here)]
    names = [name for name in asked(both[1], None) if options.only in name]
    print(f"{'case':32s} {'before':>10s} {'here':>10s} {'ratio':>6s} {'certify':>8s}")
    for name in names:
        least = [[float("inf")] * 2, [float("inf")] * 2]
        wrong = ""
        for _ in range(options.rounds):
            for side, process in enumerate(both):
                found = asked(process, name)
                if isinstance(found, str):
                    wrong = f"{'before' if side == 0 else 'here'}: {found[:80]}"
                    continue
                for k, seconds in enumerate(found):
                    if seconds is not None:
                        least[side][k] = min(least[side][k], seconds)
        if wrong:
            print(f"{name:32s} {wrong}", flush=True)
            continue
        (before, old), (now, new) = least
        certify = f"{new / old:8.2f}" if 0 < old < float("inf") and new < float("inf") else ""
        print(
            f"{name:32s} {1e3 * before:8.1f}ms {1e3 * now:8.1f}ms {now / before:6.2f} {certify}",
            flush=True,
        )
    for process in both:
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
