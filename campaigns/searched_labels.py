"""Labels that a search proves against all optimal machines of small problems, enumerated in
fractions.

    python -m campaigns.searched_labels [--count 300] [--first 0] [--seed 17]

The optimum of a loss that counts, or of the ramp loss, is that of a convex problem for some set of
rows that count or are given up, and its solution is that of a system of equations on rows with
margins of exactly 1. All such systems of a few rows are solved in fractions, with and without the
constraint that the score of a test row has the other sign or is 0, and the objective is evaluated
at each solution. A label is *wrong* if a machine with the other one is no worse than the optimum,
and *missed* if all such machines are worse by more than a thousandth and the search did not say so.
"""

import collections
import sys
from fractions import Fraction
from itertools import combinations, product

import numpy as np

import svmcvx as sx
from campaigns import common

ONE, ZERO = Fraction(1), Fraction(0)
KINDS = ("zero_one", "zero_one k", "zero_one kernel", "l0", "l0 kernel", "ramp")
# Relatively: machines that are nearer to the optimum than this may be left undecided.
CLEAR = Fraction(1, 1000)


def dot(a, b):
    return sum((x * z for x, z in zip(a, b, strict=True)), ZERO)


def solved(matrix, right):
    """The solution of a square system in fractions; None if it is singular."""
    A = [[*row, x] for row, x in zip(matrix, right, strict=True)]
    for k in range(len(A)):
        pivot = next((i for i in range(k, len(A)) if A[i][k]), None)
        if pivot is None:
            return None
        A[k], A[pivot] = A[pivot], A[k]
        A[k] = [x / A[k][k] for x in A[k]]
        for i in range(len(A)):
            if i != k and A[i][k]:
                A[i] = [x - A[i][k] * z for x, z in zip(A[i], A[k], strict=True)]
    return [row[-1] for row in A]


class Enumerated:
    """A problem in fractions: rows, labels, prices, and whether the intercept is free."""

    def __init__(self, kind, X, y, weight, number):
        self.kind, self.y = kind.split()[0], y
        self.free, self.budget = self.kind != "zero_one", number if kind == "zero_one k" else None
        constant = [] if self.free else [ONE]
        self.rows = [[Fraction(x) for x in row] + constant for row in X.tolist()]
        self.s, self.number = [Fraction(x) for x in weight.tolist()], Fraction(number)

    def objective(self, w, b):
        u = [y * (dot(w, row) + b) for y, row in zip(self.y, self.rows, strict=True)]
        if self.kind == "ramp":
            losses = sum(
                (s * min(Fraction(2), max(ZERO, 1 - m)) for s, m in zip(self.s, u, strict=True)),
                ZERO,
            )
            return dot(w, w) / 2 + self.number * losses
        count = sum((s for s, m in zip(self.s, u, strict=True) if m < 1), ZERO)
        if self.budget is not None:
            return dot(w, w) if count <= self.number else None
        return dot(w, w) / (2 if self.free else 1) + self.number * count

    def candidates(self, t=None):
        """Points (w, b) of which one is optimal; with a test row, of those whose score there is 0."""
        n, r = len(self.rows), len(self.rows[0])
        most = r + self.free
        zero = [ZERO] * r
        for b in (ONE, -ONE, ZERO) if self.free else (ZERO,):
            yield zero, b
        for bound in product((0, 1), repeat=n) if self.kind == "ramp" else [(0,) * n]:
            fixed = [i for i in range(n) if bound[i]]
            others = [i for i in range(n) if not bound[i]]
            w0 = [
                sum((self.number * self.s[i] * self.y[i] * self.rows[i][c] for i in fixed), ZERO)
                for c in range(r)
            ]
            balance = sum((self.number * self.s[i] * self.y[i] for i in fixed), ZERO)
            for size in range(most + 1):
                for chosen in combinations(others, size):
                    active = [(self.rows[i], self.y[i]) for i in chosen] + (
                        [] if t is None else [(t, 0)]
                    )
                    if not active or len(active) > most:
                        continue
                    matrix = [[dot(a, c) for c, _ in active] + [ONE] * self.free for a, _ in active]
                    right = [label - dot(a, w0) for a, label in active]
                    if self.free:
                        matrix.append([ONE] * len(active) + [ZERO])
                        right.append(-balance)
                    found = solved(matrix, right)
                    if found is not None:
                        w = [
                            x
                            + sum(
                                (v * a[c] for v, (a, _) in zip(found, active, strict=False)), ZERO
                            )
                            for c, x in enumerate(w0)
                        ]
                        yield w, found[-1] if self.free else ZERO

    def least(self, t=None, sign=1):
        """The least objective; with a test row, of the machines whose score there is 0 or has not
        this sign.
        """
        values = []
        points = self.candidates() if t is None else (*self.candidates(), *self.candidates(t))
        for w, b in points:
            if t is None or sign * (dot(w, t) + b) <= 0:
                value = self.objective(w, b)
                values += [] if value is None else [value]
        return min(values, default=None)


def instance(seed):
    """Kind, data, weights, test rows and the price or budget."""
    rng = np.random.default_rng([seed, 31])
    kind = KINDS[seed % len(KINDS)]
    n, d = (
        (int(rng.integers(4, 6)), 1 + seed // len(KINDS) % 2)
        if kind == "ramp"
        else (int(rng.integers(5, 11)), int(rng.integers(1, 3)))
    )
    y = rng.permutation(np.where(np.arange(n) % 2 == 0, 1, -1))
    X = rng.standard_normal((n, d)) + rng.choice([0.3, 1.5, 4.0]) * y[:, None]
    if rng.random() < 0.3:
        X = np.round(2 * X)
    if rng.random() < 0.2:
        X = X * 10.0 ** rng.uniform(-1, 2)
    weight = rng.choice([0.5, 1.0, 2.0], n) if rng.random() < 0.3 else np.ones(n)
    number = (
        float(rng.choice([0.0, 1.0, 2.0, 3.0]))
        if kind == "zero_one k"
        else float(10.0 ** rng.uniform(-1, 2))
    )
    T = np.vstack(
        [
            X[:1],
            0.5 * (X[:1] + X[-1:]),
            X.mean(axis=0) + 2.0 * X.std(axis=0) * rng.standard_normal((3, d)),
        ]
    )
    return kind, X, y, weight, T, number


def check(seed, shrink=None):
    """What became of one instance: a word, how many labels are decided, wrong and missed."""
    kind, X, y, weight, T, number = instance(seed)
    solver, given = getattr(sx.fast, kind.split()[0]), {"sample_weight": weight}
    given |= {
        "k" if kind == "zero_one k" else "lam" if kind.startswith("zero_one") else "C": number
    }
    given |= {"kernel": sx.Linear()} if "kernel" in kind else {}
    given |= {"method": "search"} if kind.startswith("l0") else {}
    try:
        solution = solver(X, y, **given)
    except sx.SolverFailed:
        return kind, "no solution", 0, 0, 0
    found = sx.guarantee(solution, X, y)
    if shrink is not None:
        # The control: machines that are worse than this only are looked for.
        object.__setattr__(found, "upper", found.upper * shrink)
    scores = found.scores(T)
    exact = Enumerated(kind, X, [int(v) for v in y], weight, number)
    optimum, wrong, missed = exact.least(), 0, 0
    for t, row in enumerate(T.tolist()):
        sign = 1 if solution.model.decision_function(T[t : t + 1])[0] > 0 else -1
        row = [Fraction(x) for x in row] + ([] if exact.free else [ONE])
        other = exact.least(row, sign)
        label = scores.labels[t]
        wrong += label is not None and (label != sign or (other is not None and other <= optimum))
        missed += label is None and (other is None or other > optimum * (1 + CLEAR))
    return kind, "WRONG" if wrong else "held", int(scores.decided.sum()), wrong, missed


def main():
    options = common.options_of(
        __doc__,
        300,
        ("--shrink", {"type": float, "help": "the control: the objective of the model times this"}),
    )
    first, count = (options.first, options.count) if options.seed is None else (options.seed, 1)
    words, totals = collections.defaultdict(collections.Counter), collections.Counter()
    for seed in range(first, first + count):
        try:
            kind, word, decided, wrong, missed = check(seed, options.shrink)
        except Exception as error:
            kind, word, decided, wrong, missed = (
                "?",
                f"RAW ERROR {type(error).__name__}: {error}",
                0,
                0,
                0,
            )
        words[kind][word] += 1
        totals += collections.Counter(decided=decided, wrong=wrong, missed=missed)
        if missed or (word not in ("held", "no solution") and options.shrink is None):
            print(f"seed {seed}: {kind}: {word}, {missed} missed", flush=True)
    print(
        f"{count} instances: { {kind: dict(found) for kind, found in words.items()} }; labels:"
        f" {dict(totals)}"
    )
    return 1 if totals["wrong"] or "?" in words else 0


if __name__ == "__main__":
    sys.exit(main())
