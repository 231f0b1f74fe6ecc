"""Points that are not what they claim: multipliers outside their domains, models that violate
constraints, false ends, and parts of the proofs of other problems.
"""

import numpy as np

from .corpus import arrays, both, claims, numbers, put, said, times, without
from .honest import honest


def first_of(code):
    """The first row of a class."""
    return lambda file: int(np.flatnonzero(file.y == code)[0])


def multiplier(other, value):
    """A multiplier of the first row of class 0 and another class."""
    return lambda file: put("dual.alpha", (first_of(0)(file), other), value)(file)


def unweighted(file):
    """Multipliers that balance but for rounding, in a problem without the last class."""
    file.arrays["statement.weight"] = np.where(file.y == 2, 0.0, 1.0)
    alpha = np.zeros((file.y.size, 3))
    for own, other in ((0, 1), (1, 0)):
        alpha[np.flatnonzero(file.y == own)[:3], other] = 0.3 * (1.0 + own * 2.0**-50)
    file.arrays["dual.alpha"] = alpha


def another_byte(file):
    file.arrays["dual.code"][np.flatnonzero(file.arrays["dual.code"] == 0)[0]] = 2


def byte_without_weight(file):
    row = int(np.flatnonzero(file.arrays["dual.code"])[0])
    file.arrays["statement.weight"] = np.where(np.arange(24) == row, 0.0, 1.0)


def another_number_between(file):
    file.arrays["dual.between"] = np.append(file.arrays["dual.between"], 0.0)


def one_class(file):
    file.arrays["dual.alpha"][file.y < 0] = 0.0


def without_tree(file):
    file.arrays = {k: values for k, values in file.arrays.items() if not k.startswith("tree.")}


def claimed(name, *, change=None, weight=False):
    """The header of one problem, with its weights or not, over the points and the claim of another;
    the optimum that its header states is outside what it claims.
    """

    def changed(file):
        other, own = honest(name), file.arrays.get("statement.weight")
        file.arrays, file.header["claim"] = other.arrays, other.claim
        file.arrays.pop("statement.weight", None)
        if weight:
            file.arrays["statement.weight"] = own
        if change is not None:
            change(file)
        return file.optimum

    return changed


def searched(kind=None, change=None, source="zero_one"):
    """The model, the tree and the claim of a search in the proof of another problem."""

    def changed(file):
        other = honest(source)
        own = {name: v for name, v in file.arrays.items() if name.startswith("statement.")}
        file.arrays = other.arrays | own
        file.header["claim"] = other.claim | {"kind": kind or file.claim["kind"]}
        if change is not None:
            change(file)
        return file.optimum

    return changed


def weights_left_out(file):
    del file.arrays["statement.weight"]
    return honest("zero_one").optimum


def moved_data(file):
    file.X = file.X.copy()
    file.X[0, 0] += 1.0


def exchanged_labels(file):
    file.y = -file.y


ALPHA, BOUND = "dual.alpha", "above its bound"
PROVES, BALANCE = "dual objective", "y'α = 0|dual objective"
BELONGS = "the tree of a proof of .* has the arrays none|the model of a proof|the kind of"
LESS = "search proves|above its bound|multiplier|exceeds|objective|ends cross"
CODES, DATA = "from 0 to 2, with an entry", "not those of the proof: fingerprint"
OF_SEVERAL, BIASED = "sparse_multinomial_lr", "weston_watkins without"
SHORT, LONG = (times(k, f, all_of_them=True) for k, f in (("model.coef", 0.1), ("dual.flow", 3.0)))
TOP = both(put(ALPHA, ..., 0.0), numbers(k=3), put(ALPHA, 0, [0.0, 0.3, 0.0]))
NO_SPREAD = both(without("model.V"), put("model.coef", ..., 0.0))
HUGE = both(put("dual.gamma", ..., 1e308), put(ALPHA, ..., 0.0))
OF_THE_MODEL = both(without(ALPHA), times("model.coef", 1.01, all_of_them=True))
AT_BOUND = arrays(dual__code=np.ones(24, dtype=np.uint8), dual__between=np.zeros(0))
WITHOUT_GAMMA = both(put("dual.gamma", 0, 0.0), put(ALPHA, 0, 1.0))
NO_INTERCEPT = both(said("statement.intercept", "none"), arrays(model__intercept=0.0))
RBF = said("statement.kernel", {"name": "rbf", "gamma": 0.5})

FORGERIES = [
    ("a multiplier of another sign", "psvm", times(ALPHA, -1.0), "below 0"),
    ("a multiplier just below 0", "psvm", put(ALPHA, 0, -5e-324), "below 0"),
    ("a multiplier above C", "psvm", put(ALPHA, 0, 1.3 * 1.01), BOUND),
    ("a multiplier above C by more than rounding", "psvm", put(ALPHA, 0, 1.3 + 2.0**-38), BOUND),
    ("multipliers of 1e308", "psvm 2", put(ALPHA, ..., 1e308), BALANCE),
    ("a class that is too heavy", "psvm 2", times(ALPHA, 1.01), BALANCE),
    ("multipliers of one class alone", "psvm 2", one_class, BALANCE),
    ("multipliers below 0", "psvm 2", times(ALPHA, -1.0, all_of_them=True), "below 0"),
    ("a hard margin of multipliers below 0", "hard margin", times(ALPHA, -1.0), "below 0"),
    ("a hard margin that is violated", "hard margin", arrays(model__intercept=1e3), "below 1"),
    ("a θ that proves less", "odm", times("dual.theta", -1.0), PROVES),
    ("an ODML multiplier of another sign", "odml", put(ALPHA, 0, -1e-3), "below 0"),
    ("an ODML multiplier above its share", "odml", put(ALPHA, 0, 10.0), BOUND),
    ("a negative γ", "conic", put("dual.gamma", 0, -1e-3), "gamma of row 0 is -0.001, below 0"),
    ("γ that leave Q indefinite", "conic", put("dual.gamma", ..., 10.0), "positive definite"),
    ("γ beyond all doubles", "conic", HUGE, "out of the range of doubles|positive definite"),
    ("an α where γ is 0", "conic", WITHOUT_GAMMA, "where its gamma is 0"),
    ("a γ above that of the problem", "conic with γ", times("dual.gamma", 1.01), BOUND),
    ("a negative λ", "conic kappa", arrays(dual__lam=-1.0), "must not be negative"),
    ("a ridge below 0", "conic rbf", arrays(model__ridge=-1.0), "must not be negative"),
    ("too much weight inside", "conic kappa", put("model.coef", ..., 0.0), "inside the margin"),
    ("too much inside, no spread", "conic kappa", NO_SPREAD, "inside the margin"),
    ("more rows inside than k", "zero_one k", put("model.coef", ..., 0.0), "inside the margin"),
    ("a margin below 1 − M", "zero_one", arrays(statement__M=np.zeros(24)), "below the 1 − M"),
    ("a multiplier of the own class", "m3svm", multiplier(0, 1.0), "its own class is 1.0, not 0"),
    ("a negative multiplier of a class", "m3svm", multiplier(1, -1e-6), "below 0"),
    ("a multiplier of a class above 1", "m3svm", multiplier(1, 1.001), BOUND),
    ("a sum above its weight", OF_SEVERAL, put(ALPHA, 0, [0.0, 0.8, 0.8]), "sum to 1.6, above 1.0"),
    ("a share above that of the top k", "topk", TOP, "above 0.0, the share that the top-3 loss"),
    ("a gradient above λ", OF_SEVERAL, numbers(lam=0.2), "above lam in size"),
    ("a flow longer than λ", "m3svm 1", times("dual.flow", 2.0), "long, above lam"),
    ("classes that do not balance", "weston_watkins", times(ALPHA, 0.5), "do not balance"),
    ("a class without weight", "weston_watkins", unweighted, "no observation of positive weight"),
    (
        "biases where there are none",
        BIASED,
        put("model.intercept", 0, 1.0),
        "the biases of the model",
    ),
    ("an intercept where there is none", "odm", arrays(model__intercept=0.5), "ation has none"),
    ("differences of scores below 1", "m3svm hard", SHORT, "a difference of scores"),
    ("flows of a hard margin above 1", "m3svm hard", LONG, "long, above 1"),
    ("a byte above 2", "coded", put("dual.code", 0, 3), CODES),
    ("a byte too many for the numbers", "coded", another_byte, CODES),
    ("a number too many for the bytes", "coded", another_number_between, CODES),
    ("a number between that is below 0", "coded", put("dual.between", 0, -1e-3), "below 0"),
    ("a number between that is above C", "coded", put("dual.between", 0, 1.4), BOUND),
    ("a byte without weight", "coded", byte_without_weight, "weight zero has a multiplier"),
    ("bytes where p is 2", "coded", numbers(p=2.0), "has the arrays"),
    ("all rows at their bound", "coded", AT_BOUND, BALANCE),
    ("a model whose multipliers prove less", "psvm 2", OF_THE_MODEL, "objective"),
    ("an upper end that is too low", "psvm", claims(lower=None, upper=14.0), "at most"),
    ("a lower end that is too high", "psvm", claims(upper=None, lower=15.0), "at least"),
    ("a lower end without a point", "psvm", without(ALPHA), "no dual point"),
    ("a lower end without a tree", "zero_one", without_tree, "no dual point"),
    ("other data under the same header", "psvm", moved_data, DATA),
    ("labels exchanged", "psvm", exchanged_labels, DATA),
    # The optimum of another problem.
    ("points and claim of another C", "psvm", claimed("psvm 7.5"), BOUND),
    ("points and claim of another λ", "conic", claimed("conic 4"), PROVES),
    ("points of other weights", "psvm weights", claimed("psvm", weight=True), f"{PROVES}|{BOUND}"),
    ("weights left out", "psvm", claimed("psvm weights"), f"objective|{BOUND}"),
    ("points and claim of another exponent", "psvm", claimed("psvm 2"), f"{BOUND}|{PROVES}"),
    ("points of a hinge loss for a logistic one", "m3svm logistic", claimed("m3svm"), "objective"),
    *((f"the tree of a search in {name}", name, searched(), BELONGS) for name in ("conic", "psvm")),
    *(
        (f"tree and kind of a search in {name}", name, searched("enumeration"), BELONGS)
        for name in ("conic", "odm")
    ),
    ("the tree of a search in a minimum", "zero_one", claims(kind="local"), "tree of a proof"),
    ("the tree of a linear machine in that of a kernel", "zero_one", RBF, "the model of a proof"),
    ("the tree of another λ", "zero_one 0.3", searched(), LESS),
    ("the tree of equal weights", "zero_one weights", searched(), LESS),
    ("a tree whose weights were left out", "zero_one weights", weights_left_out, LESS),
    ("the tree of a budget", "zero_one", searched(source="zero_one k"), f"tree of a proof|{LESS}"),
    ("the tree with an intercept of one without", "zero_one", NO_INTERCEPT, f"{LESS}|do not fit"),
]
