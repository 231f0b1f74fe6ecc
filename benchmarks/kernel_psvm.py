"""Kernel pSVM: our pSMO beside LIBSVM (scikit-learn), Clarabel through our builder, and the paper's random rule.

    python benchmarks/kernel_psvm.py [--n 10000 30000] [--repeats 3] [--skip-clarabel]

Every ratio is ours ÷ peer, of medians measured alternately in one run after compilation. All are given the same
problem: a noisy quadratic boundary in 20 features, RBF kernel with gamma="scale", C = 1. Everyone's primal objective is
evaluated by our numpy objective and printed over our certified lower bound.
"""

import argparse
import statistics
import time

import numpy as np
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.formulations.psvm import PSVM
from svmcvx.space import feature_space

D, C = 20, 1.0


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, D)), rng.standard_normal(D)
    half = D // 2
    score = X[:, :half] @ w[:half] + X[:, half:] ** 2 @ w[half:] + rng.standard_normal(n)
    return X, np.where(score > 0, 1, -1)


def ours(X, y, p, tol, **keywords):
    return sx.fast.psvm(X, y, C=C, p=p, kernel="rbf", tol=tol, **keywords)


def libsvm(X, y):
    return SVC(C=C, gamma="scale").fit(X, y)


def excess(peer, X, y, lower):
    """LIBSVM's primal objective over a certified lower bound on the optimum, relative."""
    space = feature_space(binary_data(X, y), sx.RBF(), intercept="free", keep_gram=False)
    v = np.zeros(len(y))
    v[peer.support_] = peer.dual_coef_[0]
    value = PSVM(space=space, C=C, p=1.0).objective(space.model(v, float(peer.intercept_[0])))
    return (value - lower) / value


def medians(runs, repeats):
    """Medians of seconds, the competitors taking turns, and what each returned last."""
    seconds, results = {name: [] for name in runs}, {}
    for _ in range(repeats):
        for name, run in runs.items():
            started = time.perf_counter()
            results[name] = run()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}, results


def line(what, n, ratio, target, note):
    print(f"{what:44s} n={n:<6d} ratio {ratio:6.3f}  target {target:<7s} {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="*", default=[10_000, 30_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--skip-clarabel", action="store_true")
    arguments = parser.parse_args()
    for p in (1.0, 1.25, 1.5, 2.0, 3.0):  # compile: both precisions, all closed forms
        ours(*data(600), p, 1e-2)
        ours(*data(4500), p, 1e-1)
    ours(*data(300), 1.5, 1e-1, selection="random")

    for n in arguments.n:
        X, y = data(n)
        runs = {"libsvm": lambda X=X, y=y: libsvm(X, y)}
        runs |= {p: lambda X=X, y=y, p=p: ours(X, y, p, 1e-3) for p in (1.0, 1.5, 2.0)}
        seconds, results = medians(runs, arguments.repeats)
        off = excess(results["libsvm"], X, y, results[1.0].certificate.lower)
        for p in (1.0, 1.5, 2.0):
            target = ("1.0" if n <= 10_000 else "0.5") if p == 1 else "2.0"
            note = f"{seconds[p]:.2f} s, certified gap {results[p].certificate.gap:.1e}"
            note += f"; LIBSVM {seconds['libsvm']:.2f} s, {off:.1e} above our lower bound" if p == 1 else ""
            line(f"RBF p={p:g}, gap 1e-3, to LIBSVM at p=1", n, seconds[p] / seconds["libsvm"], target, note)

    X, y = data(2000)
    seconds, results = medians(
        {rule: lambda rule=rule: ours(X, y, 1.5, 1e-3, selection=rule) for rule in ("second-order", "random")},
        arguments.repeats,
    )
    steps = {rule: found.attempts[0].options["pair_steps"] for rule, found in results.items()}
    note = f"{steps['second-order']} pair steps against {steps['random']} draws"
    line(
        "RBF p=1.5, gap 1e-3, to the paper's random rule", 2000, seconds["second-order"] / seconds["random"], "-", note
    )

    for p in () if arguments.skip_clarabel else (1.25, 1.5, 2.0, 3.0):
        seconds, results = medians({"ours": lambda p=p: ours(X, y, p, 1e-6)}, arguments.repeats)
        peer, conic = medians(
            {"c": lambda p=p: sx.solve(sx.psvm_dual(X, y, C=C, p=p, kernel="rbf"), solver="clarabel")}, 1
        )
        a, b = results["ours"].certificate, conic["c"].certificate
        assert max(a.lower, b.lower) <= min(a.upper, b.upper)
        note = f"{seconds['ours']:.3f} s, gap {a.gap:.1e}; Clarabel {peer['c']:.1f} s (once), gap {b.gap:.1e}"
        line(f"RBF p={p:g}, gap 1e-6, to Clarabel", 2000, seconds["ours"] / peer["c"], "0.02", note)


if __name__ == "__main__":
    main()
