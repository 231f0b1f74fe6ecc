"""Claims of scores that do not follow: other test rows, intervals, labels, and points that do not
carry them.
"""

import numpy as np

from .corpus import both, claims, numbers, put, said, times, without
from .honest import honest

LARGEST = float(np.finfo(float).max)


def interval(change):
    """Other intervals, with the labels that are theirs."""

    def changed(file):
        low, high = change(file.arrays["scores.lower"], file.arrays["scores.upper"])
        label = np.where(low > 0, 1, np.where(high <= 0, 0, 2)).astype(np.uint8)
        file.arrays |= {"scores.lower": low, "scores.upper": high, "scores.label": label}

    return changed


def tested(change):
    """Other test rows."""

    def changed(file):
        file.T = change(file.T)

    return changed


def swapped(file):
    for name in ("lower", "upper", "label"):
        values = file.arrays[f"scores.{name}"]
        values[[0, 1]] = values[[1, 0]]


def other_label(file):
    file.arrays["scores.label"][0] = 1 - file.arrays["scores.label"][0]


def decided(file):
    """A label where the interval has both signs."""
    file.arrays["scores.lower"][0] = -file.arrays["scores.upper"][0]


def of_another(file):
    others = honest("scores odm").arrays
    file.arrays |= {key: v for key, v in others.items() if key.startswith("scores.")}


def header_alone(file):
    file.header["test"] = honest("scores").header["test"]


def labels_of_doubles(file):
    file.arrays["scores.label"] = file.arrays["scores.label"].astype(float)


def one_row_less(file):
    for name in ("lower", "upper", "label"):
        file.arrays[f"scores.{name}"] = file.arrays[f"scores.{name}"][:-1]


def constant(value):
    """Intervals with both ends there."""
    return interval(lambda a, b: (np.full_like(a, value), np.full_like(b, value)))


PROVED, DIGEST = "is proved to be", "not those of the proof: digest"
OWN, NAMES = "is not that of its interval", "must have the entries rows, digest"
MISSING, DEFINITE = "the scores of a proof of psvm has the arrays", "semidefinite on any rows"
RAISED = interval(lambda a, b: (a + 1e-4 * (b - a), b))
LOWERED = interval(lambda a, b: (a, b - 1e-4 * (b - a)))
NEGATED = interval(lambda a, b: (-b, -a))
LABEL, DUAL = "scores.label", "dual.alpha"
WIDE, NO_POINT = claims(lower=None, upper=1e6), both(without(DUAL), claims(lower=None))
LONGER = times("model.coef", 1.5, all_of_them=True)
SIGMOID = {"name": "sigmoid", "gamma": 0.5, "coef0": 0.0}
BELOW_0 = {"name": "polynomial", "degree": 2, "gamma": 0.5, "coef0": -1.0}

FORGERIES = [
    ("scores of other test rows", "scores", tested(lambda T: T + 1e-9), DIGEST),
    ("test rows in another order", "scores", tested(lambda T: T[::-1].copy()), DIGEST),
    ("one test row more", "scores", tested(lambda T: np.vstack([T, T[:1]])), "have the shape"),
    ("test rows of another width", "scores", tested(lambda T: T[:, :1]), "have the shape"),
    ("scores without test rows", "scores", tested(lambda T: None), "pass them as test"),
    ("test rows without scores", "psvm", tested(lambda T: honest("scores").T), "claims nothing"),
    ("another digest of the test rows", "scores", said("test.digest", "0" * 64), DIGEST),
    ("a digest of capitals", "scores", said("test.digest", "A" * 64), "64 hexadecimal digits"),
    ("no digest of the test rows", "scores", said("test.digest"), NAMES),
    ("test rows of another number", "scores", said("test.rows", 7), "shape"),
    ("no test rows", "scores", said("test.rows", 0), "the number of test rows"),
    ("test rows that are a list", "scores", said("test", []), NAMES),
    ("scores that the header does not name", "scores", said("test"), "has the arrays none"),
    ("a header of scores without arrays", "psvm", header_alone, MISSING),
    ("scores without labels", "scores", without(LABEL), MISSING),
    ("scores without upper ends", "scores", without("scores.upper"), MISSING),
    ("labels as doubles", "scores", labels_of_doubles, "dtype"),
    ("scores of one row less", "scores", one_row_less, "shape"),
    ("a score that is no number", "scores", put("scores.lower", 0, np.nan), "finite"),
    ("a score that is infinite", "scores", put("scores.upper", 0, np.inf), "finite"),
    ("intervals a little narrower", "scores", RAISED, f"{PROVED} at least"),
    ("upper ends a little lower", "scores", LOWERED, f"{PROVED} at most"),
    ("intervals that are moved", "scores", interval(lambda a, b: (b, 2 * b - a)), PROVED),
    ("intervals of another sign", "scores", NEGATED, PROVED),
    ("ends in the wrong order", "scores", interval(lambda a, b: (b, a)), OWN),
    ("a lower end above all", "scores", constant(LARGEST), "proved to be at least"),
    ("an upper end below all", "scores", constant(-LARGEST), "proved to be at most"),
    ("rows of the scores swapped", "scores", swapped, PROVED),
    ("a label of the other class", "scores", other_label, OWN),
    ("a label that the interval leaves open", "scores", decided, OWN),
    ("a label that there is not", "scores", put(LABEL, 0, 3), "the label 3 of test row 0 is not"),
    ("a decided row that is called undecided", "scores", put(LABEL, 0, 2), OWN),
    ("scores of another machine", "scores", of_another, PROVED),
    ("scores of another C", "scores", both(numbers(C=7.5), WIDE), PROVED),
    ("scores without a dual point", "scores", NO_POINT, "follow from both ends"),
    ("scores of a model that proves less", "scores", both(LONGER, claims(upper=1e6)), PROVED),
    ("scores of zero multipliers", "scores", both(put(DUAL, ..., 0.0), claims(lower=0.0)), PROVED),
    ("scores of an ODM of other signs", "scores odm", NEGATED, PROVED),
    ("narrower scores of an ODM", "scores odm", RAISED, f"{PROVED} at least"),
    ("narrower scores of a kernel", "scores rbf", LOWERED, f"{PROVED} at most"),
    ("scores of a conic machine", "conic", header_alone, "a proof of conic has no scores of"),
    ("scores of a search", "zero_one", header_alone, "a proof of zero_one has no scores of"),
    ("scores of a sigmoid", "scores rbf", said("statement.kernel", SIGMOID), DEFINITE),
    ("scores of a polynomial below 0", "scores rbf", said("statement.kernel", BELOW_0), DEFINITE),
]
