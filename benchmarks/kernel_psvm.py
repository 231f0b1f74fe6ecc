"""Kernel pSVM: our pSMO beside LIBSVM (scikit-learn), Intel's extension, Clarabel and SCS through
our builder, and the paper's own pSMO.

    python benchmarks/kernel_psvm.py [--n 10000 30000] [--repeats 3] [--only
    libsvm,paper,conic,memory,prediction] [--quick] python benchmarks/kernel_psvm.py --scale 100000
    200000 1000000 [--gaps 1e-2 1e-3] [--exponents 1 1.5]

Every ratio is ours ÷ peer, of medians measured alternately in one run after compilation. All are
given the same problem: a noisy quadratic boundary in 20 features, RBF kernel with gamma="scale", C
= 1. Everyone's primal objective is evaluated by our numpy objective and printed over our certified
lower bound. Peers that are not installed are left out. The machines of LIBSVM and of Intel's
extension get a certificate of ours for the point that they return: each is compared at the gap at
which it stops. Memory is the peak of a fresh process, data and libraries included. --scale takes
large n alone, each in a fresh process: seconds, processor seconds of all threads, certified gap,
peak memory. --quick: n = 4000, once, conic solvers at n = 300.
"""

import argparse
import subprocess
import sys
import time

import numpy as np
from command import parser_of
from peers import medians, own_peak, paper_psmo, peak_memory, peer, versions
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.certificate import check
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin import PSVM

D, C = 20, 1.0
PARTS = ("libsvm", "paper", "conic", "memory", "prediction")


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, D)), rng.standard_normal(D)
    half = D // 2
    score = X[:, :half] @ w[:half] + X[:, half:] ** 2 @ w[half:] + rng.standard_normal(n)
    return X, np.where(score > 0, 1, -1)


def ours(X, y, p, tol, **keywords):
    return sx.fast.psvm(X, y, C=C, p=p, kernel="rbf", tol=tol, **keywords)


def certificate(machine, X, y):
    """Our certificate of the point that a machine of the SVC kind returns."""
    space = feature_space(binary_data(X, y), sx.RBF(), intercept="free", keep_gram=False)
    v = np.zeros(len(y))
    v[machine.support_] = np.ravel(machine.dual_coef_)
    model = space.model(v, float(machine.intercept_[0]))
    return check(PSVM(space=space, C=C, p=1.0), [model], [{"alpha": np.abs(v)}]).certificate


def line(what, n, ratio, target, note):
    print(f"{what:48s} n={n:<6d} ratio {ratio:7.4f}  target {target:<7s} {note}", flush=True)


def beside_libsvm(n, repeats, intel):
    X, y = data(n)
    runs = {"LIBSVM": lambda: SVC(C=C, gamma="scale").fit(X, y)}
    if intel is not None:
        runs["Intel"] = lambda: intel(C=C, gamma="scale").fit(X, y)
    runs |= {p: lambda p=p: ours(X, y, p, 1e-3) for p in (1.0, 1.5, 2.0)}
    seconds, results = medians(runs, repeats)
    for p in (1.0, 1.5, 2.0):
        target = ("1.0" if n <= 10_000 else "0.5") if p == 1 else "2.0"
        note = (
            f"{seconds[p]:.2f} s, certified gap {results[p].certificate.gap:.1e}; LIBSVM"
            f" {seconds['LIBSVM']:.2f} s"
        )
        line(
            f"RBF p={p:g}, gap 1e-3, to LIBSVM at p=1",
            n,
            seconds[p] / seconds["LIBSVM"],
            target,
            note,
        )
    for name in ("LIBSVM", "Intel"):
        if name in results:
            print(
                f"    {name} stops at a certified gap of {certificate(results[name], X, y).gap:.1e}"
            )
    if intel is not None:
        beside_intel(X, y, repeats, intel)


def beside_intel(X, y, repeats, intel):
    """Intel's extension at some of its tolerances, and ours asked for the gap at which it stops."""
    for tol in (1e-3, 1e-2, 1e-1):
        gap = certificate(intel(C=C, gamma="scale", tol=tol).fit(X, y), X, y).gap
        runs = {
            "ours": lambda gap=gap: ours(X, y, 1.0, gap),
            "Intel": lambda tol=tol: intel(C=C, gamma="scale", tol=tol).fit(X, y),
        }
        seconds, results = medians(runs, repeats, clock=time.process_time)
        note = f"processor seconds {seconds['ours']:.2f} to {seconds['Intel']:.2f}, "
        note += f"certified {results['ours'].certificate.gap:.1e} to {gap:.1e}"
        line(
            f"RBF p=1, to Intel's extension with tol={tol:g}",
            len(y),
            seconds["ours"] / seconds["Intel"],
            "0.8",
            note,
        )


def prediction(n, repeats):
    """Scores of 20 000 new observations from a machine of n, beside LIBSVM with the same support
    vectors.
    """
    X, y = data(n)
    new = data(20_000, seed=1)[0]
    machine, model = SVC(C=C, gamma="scale").fit(X, y), ours(X, y, 1.0, 1e-3).model
    runs = {
        "ours": lambda: model.decision_function(new),
        "bounded": lambda: model.scores(new),
        "LIBSVM": lambda: machine.decision_function(new),
    }
    seconds, _ = medians(runs, repeats)
    entries = {
        "ours": model.dual_coef.size,
        "bounded": model.dual_coef.size,
        "LIBSVM": machine.support_.size,
    }
    for name in runs:
        rate = len(new) * entries[name] / seconds[name]
        print(
            f"prediction, {len(new)} × {entries[name]}: {name:8s} {seconds[name]:.2f} s,"
            f" {rate:.1e} entries a second"
        )


def scale(sizes, gaps, exponents):
    for n in sizes:
        for p in exponents:
            for tol in gaps:
                command = [sys.executable, __file__, "--peak", "scale", "--n", str(n)]
                command += ["--gaps", str(tol), "--exponents", str(p)]
                subprocess.run(command, check=True)  # noqa: S603 - ourselves


def at_scale(n, p, tol):
    """What a process of :func:`scale` does."""
    ours(*data(600), p, 1e-2)
    ours(*data(4500), p, 1e-1)
    X, y = data(n)
    started, processor = time.perf_counter(), time.process_time()
    found = ours(X, y, p, tol)
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    print(
        f"RBF p={p:g}, n={n}, gap {tol:g}: {seconds:.0f} s ({processor:.0f} processor seconds), "
        f"{found.status}, certified gap {found.certificate.gap:.1e}, "
        f"{found.model.dual_coef.size} support vectors, peak memory {own_peak():.0f} MiB",
        flush=True,
    )


def beside_the_paper(n, repeats):
    X, y = data(n)
    K = sx.RBF().resolve(X)(X)
    paper_psmo(K[:300, :300].copy(), y[:300], C=C, p=1.5, gap=0.1)
    for p in (1.5, 2.0):
        runs = {
            "ours": lambda p=p: ours(X, y, p, 1e-3),
            "paper": lambda p=p: paper_psmo(K, y, C=C, p=p, gap=1e-3, limit=120.0),
        }
        seconds, results = medians(runs, repeats)
        steps = results["ours"].attempts[0].options["pair_steps"]
        lower, upper, pairs = results["paper"]
        note = (
            f"{seconds['paper']:.2f} s to gap {(upper - lower) / upper:.1e}, {pairs} pairs against"
            f" {steps}"
        )
        line(
            f"RBF p={p:g}, gap 1e-3, to the paper's pSMO",
            n,
            seconds["ours"] / seconds["paper"],
            "-",
            note,
        )
        a = results["ours"].certificate
        assert max(a.lower, lower) <= min(a.upper, upper)


def beside_conic(
    n, repeats, solvers=("clarabel", "scs"), exponents=(1.25, 1.5, 2.0, 3.0), limit=120.0
):
    X, y = data(n)
    for p in exponents:
        seconds, results = medians({"ours": lambda p=p: ours(X, y, p, 1e-6)}, repeats)
        a = results["ours"].certificate
        for solver in solvers:
            started = time.perf_counter()
            try:
                problem = sx.psvm_dual(X, y, C=C, p=p, kernel="rbf")
                b = sx.solve(problem, solver=solver, tol=1e-6, time_limit=limit).certificate
            except sx.SvmcvxError as error:
                print(
                    f"RBF p={p:g}: no answer from {solver} in {limit:g} s ({str(error)[:60]})",
                    flush=True,
                )
                continue
            peer_seconds = time.perf_counter() - started
            assert max(a.lower, b.lower) <= min(a.upper, b.upper)
            note = (
                f"{seconds['ours']:.3f} s, gap {a.gap:.1e}; {solver} {peer_seconds:.1f} s (once),"
                f" gap {b.gap:.1e}"
            )
            line(
                f"RBF p={p:g}, gap 1e-6, to {solver}",
                n,
                seconds["ours"] / peer_seconds,
                "0.02",
                note,
            )


def memory(n, intel):
    peers = ["LIBSVM", *(["Intel"] if intel is not None else [])]
    for who in ("nothing", "p=1", "p=1.5", "p=2", *peers):
        print(
            f"peak memory n={n}:"
            f" {who:8s} {peak_memory(__file__, '--peak', who, '--n', n):7.0f} MiB",
            flush=True,
        )


def peak(who, n):
    """What the process of :func:`memory` does."""
    X, y = data(n)
    if who.startswith("p="):
        ours(X, y, float(who[2:]), 1e-3)
    elif who == "LIBSVM":
        SVC(C=C, gamma="scale").fit(X, y)
    elif who == "Intel":
        peer("Intel")(C=C, gamma="scale").fit(X, y)
    print(own_peak())


def main() -> None:
    parser = parser_of(__doc__, repeats=3, quick=False)
    parser.add_argument("--n", type=int, nargs="*", default=[10_000, 30_000])
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, separated by commas")
    parser.add_argument(
        "--scale",
        type=int,
        nargs="*",
        default=[],
        help="sizes to run alone, in place of the other parts",
    )
    parser.add_argument("--gaps", type=float, nargs="*", default=[1e-3], help="for --scale")
    parser.add_argument(
        "--exponents", type=float, nargs="*", default=[1.0, 1.5], help="for --scale"
    )
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak == "scale":
        at_scale(arguments.n[0], arguments.exponents[0], arguments.gaps[0])
        return
    if arguments.peak:
        peak(arguments.peak, arguments.n[0])
        return
    sizes, repeats, small = arguments.n, arguments.repeats, 2000
    if arguments.quick:
        sizes, repeats, small = [4000], 1, 300
    parts = arguments.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--only takes {', '.join(PARTS)}")
    print(versions(), flush=True)
    if arguments.scale:
        scale(arguments.scale, arguments.gaps, arguments.exponents)
        return
    intel = peer("Intel")
    for p in (1.0, 1.25, 1.5, 2.0, 3.0):  # compile: both precisions, all closed forms
        ours(*data(600), p, 1e-2)
        ours(*data(4500), p, 1e-1)
    if "libsvm" in parts:
        for n in sizes:
            beside_libsvm(n, repeats, intel)
    if "paper" in parts:
        beside_the_paper(small, repeats)
    if "conic" in parts:
        beside_conic(small, repeats)
    if "memory" in parts:
        memory(max(sizes), intel)
    if "prediction" in parts:
        prediction(max(sizes), repeats)


if __name__ == "__main__":
    main()
