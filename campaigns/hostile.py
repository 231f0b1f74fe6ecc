"""Hostile instances of every convex formulation, checked by the second checker.

``python -m campaigns.hostile --count 10000`` runs that many and prints the seeds whose interval
does not hold; any of them can be repeated by ``--seed``. The tests run a small sample.
"""

import warnings

import numpy as np
import scipy.sparse as sp

import svmcvx as sx
from campaigns import common

DESIGNS = (
    *("gaussian", "integers", "far clusters", "offset", "kink", "duplicates"),
    *("constant column", "one point", "outlier", "collinear", "scaled", "sparse"),
)
# Of every seventh seed, so that the others stay what they were.
WIDE = ("wide", "wide sparse")


def data(rng, design, classes=2):
    """A small training set of one of the designs."""
    n, d = int(rng.integers(4, 22)), int(rng.integers(1, 5))
    y = rng.permutation(np.arange(n) % classes)
    X = rng.standard_normal((n, d)) + 0.8 * y[:, None]
    if design == "integers":
        X = np.round(2 * X)
    elif design == "far clusters":
        X = X * 10.0 ** rng.uniform(-8, 3) + 1e6 * rng.choice([-1.0, 1.0], (n, 1))
    elif design == "offset":
        X = X + 10.0 ** rng.uniform(2, 12)
    elif design == "kink":
        # Margins of the optimum lie on 1: two parallel rows of points, on data with an offset.
        X[:, 0] = np.where(y == 0, -1.0, 1.0) + np.round(rng.standard_normal(n)) * (
            rng.random(n) < 0.2
        )
        X = X + rng.choice([0.0, 1e4, 1e6])
    elif design == "duplicates":
        X = X[rng.integers(0, max(2, n // 2), n)]
    elif design == "constant column":
        X[:, 0] = rng.choice([0.0, 1.0, 1e8])
    elif design == "one point":
        X[y == 0] = X[0]
    elif design == "outlier":
        X[: max(1, n // 6)] *= 10.0 ** rng.uniform(1, 5)
    elif design == "collinear":
        X = X[:, :1] * rng.standard_normal((1, d))
    elif design == "scaled":
        X = X * 10.0 ** rng.uniform(-12, 12)
    elif design.startswith("wide"):
        X = np.hstack([X, rng.standard_normal((n, int(rng.integers(20, 200))))])
        if design == "wide sparse":
            # Few entries a row, some rows without any, and columns of other scales.
            kept = rng.random(X.shape) < rng.choice([0.0, 0.02, 0.1, 0.3], (n, 1))
            return sp.csr_array(X * kept * 10.0 ** rng.integers(-1, 2, X.shape[1])), y
    elif design == "sparse":
        return sp.csr_array(X * (rng.random(X.shape) < 0.5)), y
    return X, y


def kernel(rng, X):
    """A kernel whose parameters fit the data, more or less."""
    dense = X.toarray() if sp.issparse(X) else X
    spread = float(np.var(dense)) or 1.0
    gamma = 10.0 ** rng.uniform(-2, 2) / spread
    if rng.random() < 0.1:
        # Inverse square of a distance between neighbours.
        gaps = np.diff(np.sort(dense[:, 0]))
        gamma = 1.0 / max(float(gaps[gaps > 0].min(initial=1.0)) ** 2, 1e-200)
    return [
        lambda: sx.RBF(gamma),
        lambda: sx.Laplacian(float(np.sqrt(gamma))),
        lambda: sx.Exponential(float(np.sqrt(gamma))),
        lambda: sx.Polynomial(int(rng.integers(1, 6)), gamma, float(rng.choice([0.0, 1.0]))),
        lambda: sx.Linear(),
    ][int(rng.integers(0, 5))]()


def number(rng):
    """A hyper-parameter: usual, or from 1e-12 to 1e12."""
    return float(10.0 ** (rng.uniform(-2, 2) if rng.random() < 0.6 else rng.uniform(-12, 12)))


def exponent(rng):
    return float(rng.choice([1.0, 1.0, 1.5, 2.0, 2.0, 3.0, round(rng.uniform(1.05, 6.0), 3)]))


def psvm(rng):
    return {"C": number(rng), "p": exponent(rng)}


def odm(rng):
    return {"C1": number(rng), "C2": number(rng), "D": float(rng.choice([0.0, 0.1, 0.5]))}


def odml(rng):
    lam1, lam2 = (number(rng) * rng.integers(0, 2) for _ in range(2))
    return {"lam1": lam1, "lam2": lam2, "C": number(rng)}


def odml_hard(rng):
    return {name: value for name, value in odml(rng).items() if name != "C"}


def conic(rng):
    return {"lam": number(rng)} if rng.random() < 0.7 else {"kappa": float(rng.uniform(0, 0.5))}


def m3svm(rng):
    loss = str(rng.choice(["hinge", "logistic", "softmax", "smoothed"]))
    return {"lam": number(rng), "p": exponent(rng), "loss": loss}


def penalised(rng):
    return {"lam": number(rng)}


LOSSES = ["weston_watkins", "crammer_singer", "msvm", "topk", "softmax", "sparse_softmax"]


def classical(rng):
    loss = str(rng.choice(LOSSES))
    settings = {"lam": number(rng), "loss": loss, "k": int(rng.integers(1, 4))}
    return settings | {"intercept": bool(rng.random() < 0.7)}


def nothing(rng):
    return {}


# Settings of the specialised solvers, and of what is built.
FAST = {
    "psvm": psvm,
    "hard_margin": nothing,
    "odm": odm,
    "odml": odml,
    "conic": conic,
    "m3svm": m3svm,
    "multiclass": classical,
}
BUILT = {
    "psvm_dual": psvm,
    "psvm_primal": psvm,
    "hard_margin_dual": nothing,
    "odm_primal": odm,
    "odm_dual": odm,
    "odml_primal": odml,
    "odml_dual": odml,
    "odml_hard_margin": odml_hard,
    "conic_sdp": conic,
    "m3svm": m3svm,
    "m3svm_hard_margin": lambda rng: {"p": exponent(rng)},
    "weston_watkins": penalised,
    "crammer_singer": penalised,
    "msvm": nothing,
    "topk_svm": lambda rng: {"lam": number(rng), "k": 2},
    "multinomial_lr": penalised,
    "sparse_multinomial_lr": penalised,
}
# Of several classes, without a kernel; and without weights.
SEVERAL = ("multiclass", "m3svm", *list(BUILT)[-7:])
UNWEIGHTED = ("hard_margin", "hard_margin_dual", "m3svm_hard_margin")
# More of these solves take minutes than any other.
SMALL = ("conic_sdp",)


def instance(seed):
    """One problem: route, name, design, data and arguments."""
    rng = np.random.default_rng(seed)
    fast = rng.random() < 0.7
    table = FAST if fast else BUILT
    name = str(rng.choice(list(table)))
    solver = getattr(sx.fast if fast else sx, name)
    design = str(rng.choice(DESIGNS))
    design = design if seed % 7 else WIDE[seed // 7 % 2]
    X, y = data(rng, design, classes=3 if name in SEVERAL else 2)
    arguments = table[name](rng)
    if name not in SEVERAL and rng.random() < 0.5:
        arguments["kernel"] = kernel(rng, X)
        if name in SMALL and X.shape[0] > 12:
            rows = np.r_[np.flatnonzero(y == 0)[:6], np.flatnonzero(y == 1)[:6]]
            X, y = X[rows], y[rows]
    if name not in UNWEIGHTED and rng.random() < 0.3:
        arguments["sample_weight"] = rng.choice([0.5, 1.0, 2.0, 1e-3, 1e3], y.size)
    return fast, name, design, solver, X, y, arguments


def check(seed):
    """Solve one instance and check its interval; return what was found, and why it does not hold if
    it does not.
    """
    fast, name, design, solver, X, y, arguments = instance(seed)
    label = f"{'fast.' if fast else ''}{name} on {design}"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if fast:
                solution = solver(X, y, time_limit=5.0, **arguments)
            else:
                problem = solver(X, y, **arguments)
                if not sp.issparse(X):
                    # A problem owns its data.
                    X, kept = X.copy(), X
                    kept *= 7.0
                solution = sx.solve(problem, time_limit=10.0)
            proof = solution.proof()
        except sx.SvmcvxError as error:
            return label, "refused", {}, f"{type(error).__name__}: {error}"
        found = sx.verify(proof, X, y, method="balls")
    if not found.holds:
        return label, "MISS", {}, found.why
    kind = "certified" if solution.certificate.is_certified(1e-6) else "wide"
    return label, kind, {}, ""


if __name__ == "__main__":
    raise SystemExit(common.run(check, common.options_of(__doc__, 1000), instance))
