"""How much of what the exact machine predicts is decided: test rows left undecided, by the gap that
was asked for.

    python benchmarks/predictions.py [--data-dir DIR] [--sets NAME ...] [--quick]

Two classes: pSVM with p = 1, 1.5, 2 and C = 0.01, 1, 100, and ODM with C1 = C2 = 1, 100, linear and
with an RBF kernel (gamma="scale"), on standardised features, trained on 60 % of the rows (one
split). Several classes: WW, CS, softmax and M3SVM (p = 4) with λ = 0.01, 1. A row of the table is a
machine over all sets and hyper-parameters. breast_cancer of scikit-learn by default; with
--data-dir (or SVMCVX_DATA) ten sets of two classes and three of several.

    python benchmarks/predictions.py --cost [--data-dir DIR] [--sets NAME ...] [--quick]

Processor time of a guarantee with the scores of the test rows, divided by that of `predict` on them
and by that of the fit at the default tolerance, each the least of several measurements; medians and
the largest over the sets and hyper-parameters.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import time  # noqa: E402 - threads are counted when numpy is first imported
import warnings  # noqa: E402

import numpy as np  # noqa: E402
from command import DATA, parser_of  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_iris, load_wine  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

import svmcvx as sx  # noqa: E402

TWO = (
    "heart-statlog",
    "sonar",
    "ionosphere",
    "diabetes",
    "australian",
    "liver-disorders",
    "haberman",
    "parkinsons",
    "wdbc",
    "german",
)
SEVERAL = ("glass", "vehicle", "dermatology")
TOLERANCES = (1e-4, 1e-6, 1e-8)
# Measurements of which the least counts.
MEASURED = 3


def load(name, data_dir):
    own = {"breast_cancer": load_breast_cancer, "iris": load_iris, "wine": load_wine}
    if name in own:
        return own[name](return_X_y=True)
    data = sx.datasets.load(name, data_dir).without_missing()
    return data.X, data.y


def split(name, data_dir):
    X, y = load(name, data_dir)
    X, T, y, labels = train_test_split(
        np.asarray(X, dtype=float), y, test_size=0.4, random_state=0, stratify=y
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(T), labels


def of_two_classes(quick):
    for kernel in (None, sx.RBF("scale")):
        kind = "linear" if kernel is None else "RBF"
        for p in (1.0, 1.5, 2.0):
            for C in (1.0,) if quick else (0.01, 1.0, 100.0):
                yield f"pSVM p = {p:g}, {kind}", sx.fast.psvm, {"C": C, "p": p, "kernel": kernel}
        for C in (100.0,) if quick else (1.0, 100.0):
            yield f"ODM, {kind}", sx.fast.odm, {"C1": C, "C2": C, "D": 0.1, "kernel": kernel}


def of_several_classes(quick):
    for lam in (1.0,) if quick else (0.01, 1.0):
        for loss in ("weston_watkins", "crammer_singer", "softmax"):
            yield loss.replace("_", "-"), sx.fast.multiclass, {"loss": loss, "lam": lam}
        yield "M3SVM p = 4", sx.fast.m3svm, {"lam": lam, "p": 4.0}


def count(machines, sets, data_dir):
    """Undecided rows, rows, cases and cases with more than a hundredth undecided, by machine and
    tolerance.
    """
    found = {}
    for name in sets:
        X, y, T, labels = split(name, data_dir)
        for machine, solver, arguments in machines():
            for tol in TOLERANCES:
                solution = solver(X, y, tol=tol, **arguments)
                exact = sx.guarantee(solution, X, y)
                scores = exact.scores(T)
                undecided, formulation = (
                    int(scores.undecided.sum()),
                    int((scores.undecided & ~scores.by_gap).sum()),
                )
                of = found.setdefault((machine, tol), np.zeros(6))
                one_number = exact.accuracy(T, labels).is_number
                of += [
                    undecided,
                    formulation,
                    T.shape[0],
                    1,
                    undecided > 0.01 * T.shape[0],
                    one_number,
                ]
    return found


def least(work):
    """The least processor time of several calls, and what the last one returned."""
    seconds = []
    for _ in range(MEASURED):
        started = time.process_time()
        found = work()
        seconds.append(time.process_time() - started)
    return min(seconds), found


def costs(machines, sets, data_dir):
    """Processor times of fit, guarantee with scores, and prediction, by machine."""
    found = {}
    for name in sets:
        X, y, T, _ = split(name, data_dir)
        for machine, solver, arguments in machines():
            fit, solution = least(lambda: solver(X, y, **arguments))  # noqa: B023 - called at once
            exact, _ = least(lambda: sx.guarantee(solution, X, y).scores(T))  # noqa: B023
            # A single prediction of a linear machine is too short for the clock.
            predict, _ = least(lambda: [solution.model.predict(T) for _ in range(100)])  # noqa: B023
            found.setdefault(machine, []).append((fit, exact, predict / 100))
    return found


def print_costs(machines, sets, data_dir):
    for machine, each in costs(machines, sets, data_dir).items():
        fit, exact, predict = np.array(each).T
        cells = [
            f"{np.median(ratio):.3g} | {ratio.max():.3g}"
            for ratio in (exact / predict, exact / fit)
        ]
        print(
            f"| {machine} | {len(each)} | {1e3 * np.median(exact):.2g} ms | {' | '.join(cells)} |",
            flush=True,
        )


def main():
    parser = parser_of(__doc__, data_dir=DATA)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument(
        "--quick", action="store_true", help="one value of C or λ, and four sets at most"
    )
    parser.add_argument("--cost", action="store_true", help="processor time beside that of predict")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    two, several = (TWO, SEVERAL) if options.data_dir else (("breast_cancer",), ("iris", "wine"))
    if options.quick:
        two, several = two[:4], several[:2]
    if options.sets:
        two, several = (
            tuple(name for name in options.sets if name in two),
            tuple(n for n in options.sets if n in several),
        )
    if options.cost:
        print(
            "| machine | cases | guarantee with scores, median | times predict, median | largest |"
            " times the fit, median | largest |"
        )
        print("|---|---|---|---|---|---|---|")
        print_costs(lambda: of_two_classes(options.quick), two, options.data_dir)
        print_costs(lambda: of_several_classes(options.quick), several, options.data_dir)
        return
    heads = [f"undecided at {tol:.0e}" for tol in TOLERANCES]
    print(
        "| machine | rows | "
        + " | ".join(heads)
        + " | cases with over 1 % undecided | accuracies that are one number |"
    )
    print("|---|---|" + "---|" * (len(TOLERANCES) + 2))
    for machines, sets in ((of_two_classes, two), (of_several_classes, several)):
        found = count(lambda machines=machines: machines(options.quick), sets, options.data_dir)
        for machine in dict.fromkeys(machine for machine, _ in found):
            each = [found[machine, tol] for tol in TOLERANCES]
            cells = [
                f"{of[0]:.0f}" + (f" ({of[1]:.0f} by the formulation)" if of[1] else "")
                for of in each
            ]
            wide = ", ".join(f"{of[4]:.0f}" for of in each) + f" of {each[0][3]:.0f}"
            numbers = ", ".join(f"{of[5]:.0f}" for of in each) + f" of {each[0][3]:.0f}"
            print(
                f"| {machine} | {each[0][2]:.0f} | {' | '.join(cells)} | {wide} | {numbers} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
