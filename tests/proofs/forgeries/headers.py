"""Headers that say what no header may say."""

import json

import numpy as np

from .archive import packed
from .corpus import claims, said

# Another text of the header: what stands there, and what stands there instead.
C, N, SIZE, DTYPE = '"C": 1.3', '"rows": 24', '"shape": [24]', '"dtype": "<f8"'
TEXTS = [
    ("C twice", C, '"C": 7.5, "C": 1.3', "says the same name twice"),
    ("the claim twice", '"claim"', '"claim": {}, "claim"', "says the same name twice"),
    ("C of four hundred digits", C, f'"C": 1{"0" * 400}', "C of psvm of a proof must be"),
    ("C of five thousand digits", C, f'"C": 1{"0" * 5000}', "corrupted|C of psvm"),
    ("C beyond all doubles", C, '"C": 1e999', "C of psvm"),
    ("C as NaN", C, '"C": NaN', "NaN, which is not a number of JSON"),
    ("an integer that is no double", C, '"C": 9007199254740993', "C of psvm"),
    ("a comma too much", C, '"C": 1.3,,', "corrupted"),
    ("brackets to the depth of a million", C, f'"C": {"[" * 500_000}', "corrupted"),
    ("rows with a point", N, '"rows": 24.0', "the number of rows"),
    ("rows of ten digits", N, '"rows": 2400000000', "rows|shape"),
    ("a shape that is a name", SIZE, '"shape": "n"', "must be sizes"),
    ("a shape with a point", SIZE, '"shape": [24.0]', "must be sizes"),
    ("a negative shape", SIZE, '"shape": [-24]', "must be sizes"),
    ("a shape that is true", SIZE, '"shape": [true]', "must be sizes"),
    ("a shape of four hundred digits", SIZE, f'"shape": [1{"0" * 400}]', "must be sizes"),
    ("a dtype that is a list", DTYPE, '"dtype": ["<f8"]', "the dtype of the array"),
    ("an array of single precision", DTYPE, '"dtype": "<f4"', "the dtype of the array .* be <f8"),
]


def text(old, new):
    def change(file):
        assert old in file.text()
        return file.content(file.text().replace(old, new, 1))

    return change


def no_utf8(file):
    (name, first), *others = file.members()
    return packed([(name, b"\xff\xfe" + first), *others])


def unnamed_arrays(file):
    return file.content(json.dumps(file.header | {"arrays": [[], []]}))


# Names and labels that would write a verdict of their own where they are printed.
SPEAKING = "\n\x1b[32mthe proof holds\x1b[0m"


def speaking_array(file):
    file.arrays[f"dual.{SPEAKING}"] = file.arrays["dual.alpha"]


def labelled(label, told):
    """A label of the data, and what the header says in its place."""

    def change(file):
        file.y = np.array(["a", "b", label])[file.y]
        file.statement["classes"] = ["a", "b", told]

    return change


S, G, KERNEL = "statement", "statement.hyperparameters", "statement.kernel"
RBF, FEW_CLASSES = {"name": "rbf", "gamma": 1.0}, "has two classes, the proof "
HEADER, STATEMENT, NUMBERS = (
    "the header of a proof must have the entries",
    "the statement of a proof must have",
    "the hyper-parameters of psvm",
)
KINDS_OF_LABELS = "all strings, all booleans or all numbers"
VALUES = {"a string": "1.3", "true": True, "a list": [1.3]}
# Changes of the header of a pSVM.
CHANGES = [
    ("another format", said("format", "vipr"), "its header does not say so"),
    ("version 3", said("version", 3), "another proof format"),
    ("version 2.0", said("version", 2.0), "another proof format"),
    ("version true", said("version", True), "another proof format"),
    ("an entry more", said("comment", "honest"), HEADER),
    ("no claim", said("claim"), HEADER),
    ("a statement that is none", said(S, None), STATEMENT),
    ("a statement with an entry more", said(f"{S}.optimum", 0), STATEMENT),
    ("a statement without an intercept", said(f"{S}.intercept"), STATEMENT),
    ("a claim that is none", said("claim", []), "the claim of a proof must have the entries"),
    ("a claim with an entry more", said("claim.gap", 0.0), "the claim of a proof must have"),
    ("an unknown formulation", said(f"{S}.formulation", "guess"), "no check for the .* 'guess'"),
    ("a list of formulations", said(f"{S}.formulation", []), "no check for the formulation"),
    ("hyper-parameters in a list", said(G, []), f"{NUMBERS} of a proof must be"),
    ("a hyper-parameter more", said(f"{G}.lam", 1.3), f"{NUMBERS} are C, p"),
    ("a hyper-parameter less", said(f"{G}.C"), f"{NUMBERS} are C, p"),
    ("a hyper-parameter whose name speaks", said(f"{G}.{SPEAKING}", 1.0), f"{NUMBERS} are C, p"),
    ("C of 0", said(f"{G}.C", 0.0), "C of psvm"),
    ("a negative C", said(f"{G}.C", -1.3), "C of psvm"),
    ("p below 1", said(f"{G}.p", 0.5), "p of psvm"),
    ("p without an end", said(f"{G}.p", "inf"), "p of psvm"),
    ("C without an end", said(f"{G}.C", "inf"), "must be a finite number above 0, got inf"),
    *((f"C as {what}", said(f"{G}.C", value), "C of psvm") for what, value in VALUES.items()),
    ("a kernel that is a name", said(KERNEL, "rbf"), "the kernel of a proof must be"),
    ("a kernel without a name", said(KERNEL, {}), "the kernel None"),
    ("a kernel of an unknown name", said(KERNEL, {"name": "mystery"}), "the kernel 'mystery'"),
    ("a kernel with a list as its name", said(KERNEL, {"name": []}), r"the kernel \[\]"),
    ("the linear machine as a kernel", said(KERNEL, {"name": "linear"}), "for the linear machine"),
    ("a kernel over coefficients", said(KERNEL, RBF), "the model of a proof of psvm"),
    (
        "a kernel with a number more",
        said(KERNEL, RBF | {"coef0": 1.0}),
        "rbf are gamma; .* has coef0",
    ),
    ("another intercept", said(f"{S}.intercept", "penalised"), "the intercept of psvm"),
    ("rows of 0", said(f"{S}.rows", 0), "the number of rows"),
    ("a row more", said(f"{S}.rows", 25), "they have 24 rows|shape"),
    ("a column more", said(f"{S}.columns", 3), "they have 2 columns|shape"),
    ("columns as true", said(f"{S}.columns", True), "the number of columns"),
    ("classes that are no list", said(f"{S}.classes", "ab"), "must be a list of labels"),
    ("one class", said(f"{S}.classes", [1]), f"{FEW_CLASSES}1"),
    ("three classes", said(f"{S}.classes", [-1, 0, 1]), f"{FEW_CLASSES}3"),
    ("classes in the wrong order", said(f"{S}.classes", [1, -1]), "in increasing order"),
    ("one class twice", said(f"{S}.classes", [1, 1]), "in increasing order"),
    ("classes of two kinds", said(f"{S}.classes", [-1, "1"]), KINDS_OF_LABELS),
    ("classes in lists", said(f"{S}.classes", [[-1], [1]]), KINDS_OF_LABELS),
    ("classes that the data have not", said(f"{S}.classes", [0, 1]), "the label of row 0, -1"),
    ("a fingerprint that is none", said(f"{S}.fingerprint", "honest"), "two times eight"),
    ("a fingerprint of capitals", said(f"{S}.fingerprint", "FE204F0C-c1035b2f"), "two times eight"),
    ("a fingerprint that is a number", said(f"{S}.fingerprint", 7), "two times eight"),
    (
        "the fingerprint of other data",
        said(f"{S}.fingerprint", "00000000-00000000"),
        "not those of",
    ),
    ("no end claimed", claims(lower=None, upper=None), "this one claims neither"),
    ("crossed ends", claims(lower=20.0, upper=14.6), "is above its upper end"),
    *(
        (f"{name} end that is {what}", said(f"claim.{end}", value), f"the {end} end")
        for name, end in (("a lower", "lower"), ("an upper", "upper"))
        for what, value in VALUES.items()
    ),
    ("a lower end of four hundred digits", claims(lower=-(10**400)), "the lower end of a proof"),
    ("an upper end of four hundred digits", claims(upper=10**400), "the upper end of a proof"),
    ("an unknown kind", claims(kind="guess"), "the kind of psvm"),
    ("a list of kinds", claims(kind=[]), "the kind of psvm"),
    ("the kind of a search", claims(kind="enumeration"), "the kind of psvm"),
    ("an end that a search states", claims(stated=14.0), "stated|states"),
]
CUBIC = {"name": "polynomial", "degree": 3.0, "gamma": 1.0, "coef0": 0.0}
LONG = said(f"{S}.classes", [-1, 2**64])

FORGERIES = [
    *((f"a header with {what}", "psvm", text(old, new), why) for what, old, new, why in TEXTS),
    *((f"a header with {what}", "psvm", change, reason) for what, change, reason in CHANGES),
    ("a header that is no object", "psvm", lambda file: file.content("[1, 2, 3]"), "not say so"),
    ("a header without a letter", "psvm", lambda file: file.content(""), "corrupted"),
    ("a header whose arrays have no names", "psvm", unnamed_arrays, "must be given by their names"),
    ("a header that is no UTF-8", "psvm", no_utf8, "corrupted"),
    ("an array whose name is a verdict", "psvm", speaking_array, "no array|has the arrays"),
    ("a kernel whose name speaks", "psvm rbf", said(f"{KERNEL}.name", SPEAKING), "the kernel"),
    ("a top-k loss with k = 1.9", "topk", said(f"{G}.k", 1.9), "k of topk_svm"),
    ("a top-k loss with more than all classes", "topk", said(f"{G}.k", 4), "at most the number of"),
    ("a degree with a point", "psvm rbf", said(KERNEL, CUBIC), "degree of the kernel polynomial"),
    ("a loss that there is not", "m3svm", said(f"{G}.loss", "ramp"), "loss of m3svm"),
    ("a norm of 2.0", "m3svm", said(f"{G}.norm", 2.0), "norm of m3svm"),
    ("a kernel for several classes", "m3svm", said(KERNEL, RBF), "has no kernel"),
    ("a label of 65 bits", "psvm", LONG, "no integer of 64 bits"),
    ("a machine with λ", "psvm", said(f"{G}.lam", 1.0), "the hyper-parameters of"),
    ("a label that speaks", "weston_watkins", labelled("c", f"c{SPEAKING}"), "among its labels"),
    ("a label of the data that speaks", "weston_watkins", labelled(SPEAKING, "c"), "its labels"),
    ("a label that is no text", "weston_watkins", labelled("c", "\ud800"), "among its labels"),
]
