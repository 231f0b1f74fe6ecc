"""Headers that say what no header may say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from .archive import File, packed
from .corpus import enter_table, forgery

# Another text of the header: what stands there, and what stands there instead.
TEXTS = {
    "C twice": ('"C": 1.3', '"C": 7.5, "C": 1.3', "says the same name twice"),
    "the claim twice": ('"claim"', '"claim": {}, "claim"', "says the same name twice"),
    "C of four hundred digits": ('"C": 1.3', f'"C": 1{"0" * 400}', "C of psvm of a proof must be"),
    "C of five thousand digits": ('"C": 1.3', f'"C": 1{"0" * 5000}', "corrupted|C of psvm"),
    "C beyond all doubles": ('"C": 1.3', '"C": 1e999', "C of psvm"),
    "C as NaN": ('"C": 1.3', '"C": NaN', "NaN, which is not a number of JSON"),
    "C as Infinity": ('"C": 1.3', '"C": Infinity', "Infinity, which is not a number of JSON"),
    "an integer that is no double": ('"C": 1.3', '"C": 9007199254740993', "C of psvm"),
    "a comma too much": ('"C": 1.3', '"C": 1.3,,', "corrupted"),
    "brackets to the depth of a million": ('"C": 1.3', f'"C": {"[" * 500_000}', "corrupted"),
    "rows with a point": ('"rows": 24', '"rows": 24.0', "the number of rows"),
    "a shape that is a name": ('"shape": [24]', '"shape": "n"', "must be sizes"),
    "a shape with a point": ('"shape": [24]', '"shape": [24.0]', "must be sizes"),
    "a negative shape": ('"shape": [24]', '"shape": [-24]', "must be sizes"),
    "a dtype that is a list": ('"dtype": "<f8"', '"dtype": ["<f8"]', "the dtype of the array"),
    "a shape that is true": ('"shape": [24]', '"shape": [true]', "must be sizes"),
    "a shape of four hundred digits": (
        '"shape": [24]',
        f'"shape": [1{"0" * 400}]',
        "must be sizes",
    ),
    "an array of single precision": (
        '"dtype": "<f8"',
        '"dtype": "<f4"',
        "the dtype of the array .* must be <f8",
    ),
    "an array of complex numbers": (
        '"dtype": "<f8"',
        '"dtype": "<c16"',
        "the dtype of the array .* must be <f8",
    ),
    "rows of ten digits": ('"rows": 24', '"rows": 2400000000', "rows|shape"),
}
for what, (old, new, reason) in TEXTS.items():

    @forgery(f"a header with {what}", reason)
    def _(file: File, old: str = old, new: str = new) -> bytes:
        text = file.text()
        assert old in text
        return file.content(text.replace(old, new, 1))


@forgery("a header that is no object", "its header does not say so")
def _(file: File) -> bytes:
    return file.content("[1, 2, 3]")


@forgery("a header without a letter", "corrupted")
def _(file: File) -> bytes:
    return file.content("")


@forgery("a header whose arrays have no names", "must be given by their names")
def _(file: File) -> bytes:
    return file.content(json.dumps(file.header | {"arrays": [[], []]}))


@forgery("a header that is no UTF-8", "corrupted")
def _(file: File) -> bytes:
    members = file.members()
    return packed([(members[0][0], b"\xff\xfe" + members[0][1]), *members[1:]])


def _set(*path: str, value: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        place = file.header
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def _without(*path: str) -> Callable[[File], None]:
    def change(file: File) -> None:
        place = file.header
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


C, LOWER, UPPER, KIND = (
    ("statement", "hyperparameters", "C"),
    ("claim", "lower"),
    ("claim", "upper"),
    ("claim", "kind"),
)
GIVEN, KERNEL = ("statement", "hyperparameters"), ("statement", "kernel")
NUMBERS = {"a string": "1.3", "true": True, "null": None, "a list": [1.3], "an object": {}}
CHANGES: dict[str, tuple[Callable[[File], None], str]] = {
    "another format": (_set("format", value="vipr"), "its header does not say so"),
    "version 3": (_set("version", value=3), "another proof format"),
    "version 2.0": (_set("version", value=2.0), "another proof format"),
    "version true": (_set("version", value=True), "another proof format"),
    "an entry more": (
        _set("comment", value="honest"),
        "the header of a proof must have the entries",
    ),
    "no claim": (_without("claim"), "the header of a proof must have the entries"),
    "a statement that is none": (
        _set("statement", value=None),
        "the statement of a proof must have the entries",
    ),
    "a statement with an entry more": (
        _set("statement", "optimum", value=0),
        "the statement of a proof must have",
    ),
    "a statement without an intercept": (
        _without("statement", "intercept"),
        "the statement of a proof must have",
    ),
    "a claim that is none": (_set("claim", value=[]), "the claim of a proof must have the entries"),
    "an unknown formulation": (
        _set("statement", "formulation", value="guess"),
        "no check for the formulation 'guess'",
    ),
    "a list of formulations": (
        _set("statement", "formulation", value=[]),
        "no check for the formulation",
    ),
    "hyper-parameters in a list": (
        _set(*GIVEN, value=[]),
        "the hyper-parameters of psvm of a proof must be",
    ),
    "no hyper-parameters": (
        _set(*GIVEN, value=None),
        "the hyper-parameters of psvm of a proof must be",
    ),
    "a hyper-parameter more": (
        _set(*GIVEN, "lam", value=1.3),
        "the hyper-parameters of psvm are C, p",
    ),
    "a hyper-parameter less": (_without(*C), "the hyper-parameters of psvm are C, p"),
    "C of 0": (_set(*C, value=0.0), "C of psvm"),
    "a negative C": (_set(*C, value=-1.3), "C of psvm"),
    "p below 1": (_set(*GIVEN, "p", value=0.5), "p of psvm"),
    "p without an end": (_set(*GIVEN, "p", value="inf"), "p of psvm"),
    "C without an end": (
        _set(*GIVEN, "C", value="inf"),
        "must be a finite number above 0, got inf",
    ),
    **{f"C as {what}": (_set(*C, value=value), "C of psvm") for what, value in NUMBERS.items()},
    "a kernel that is a name": (_set(*KERNEL, value="rbf"), "the kernel of a proof must be"),
    "a kernel without a name": (_set(*KERNEL, value={}), "the kernel None"),
    "a kernel of an unknown name": (
        _set(*KERNEL, value={"name": "mystery"}),
        "the kernel 'mystery'",
    ),
    "a kernel with a list as its name": (_set(*KERNEL, value={"name": []}), r"the kernel \[\]"),
    "the linear machine as a kernel": (
        _set(*KERNEL, value={"name": "linear"}),
        "null for the linear machine",
    ),
    "a kernel over coefficients": (
        _set(*KERNEL, value={"name": "rbf", "gamma": 1.0}),
        "the model of a proof of psvm",
    ),
    "a kernel with a number more": (
        _set(*KERNEL, value={"name": "rbf", "gamma": 1.0, "coef0": 1.0}),
        "the parameters of the kernel rbf are gamma; the proof has coef0, gamma",
    ),
    "another intercept": (
        _set("statement", "intercept", value="penalised"),
        "the intercept of psvm",
    ),
    "an intercept that is a number": (
        _set("statement", "intercept", value=0),
        "the intercept of psvm",
    ),
    "rows of 0": (_set("statement", "rows", value=0), "the number of rows"),
    "a row more": (_set("statement", "rows", value=25), "they have 24 rows|shape"),
    "a column more": (_set("statement", "columns", value=3), "they have 2 columns|shape"),
    "columns as true": (_set("statement", "columns", value=True), "the number of columns"),
    "classes that are no list": (
        _set("statement", "classes", value="ab"),
        "must be a list of labels",
    ),
    "one class": (_set("statement", "classes", value=[1]), "has two classes, the proof 1"),
    "three classes": (
        _set("statement", "classes", value=[-1, 0, 1]),
        "has two classes, the proof 3",
    ),
    "classes in the wrong order": (
        _set("statement", "classes", value=[1, -1]),
        "in increasing order",
    ),
    "one class twice": (_set("statement", "classes", value=[1, 1]), "in increasing order"),
    "classes of two kinds": (
        _set("statement", "classes", value=[-1, "1"]),
        "all strings, all booleans or all numbers",
    ),
    "classes in lists": (
        _set("statement", "classes", value=[[-1], [1]]),
        "all strings, all booleans or all numbers",
    ),
    "classes that the data have not": (
        _set("statement", "classes", value=[0, 1]),
        "the label of row 0, -1",
    ),
    "a fingerprint that is none": (
        _set("statement", "fingerprint", value="honest"),
        "two times eight",
    ),
    "a fingerprint of capitals": (
        _set("statement", "fingerprint", value="FE204F0C-c1035b2f"),
        "two times eight",
    ),
    "a fingerprint that is a number": (
        _set("statement", "fingerprint", value=7),
        "two times eight",
    ),
    "the fingerprint of other data": (
        _set("statement", "fingerprint", value=f"{0:08x}-{0:08x}"),
        "not those of the proof",
    ),
    "no end claimed": (
        lambda file: file.claim.update(lower=None, upper=None),
        "this one claims neither",
    ),
    "crossed ends": (
        lambda file: file.claim.update(lower=20.0, upper=14.6),
        "is above its upper end",
    ),
    **{
        f"a lower end that is {w}": (_set(*LOWER, value=v), "the lower end")
        for w, v in NUMBERS.items()
        if v is not None
    },
    **{
        f"an upper end that is {w}": (_set(*UPPER, value=v), "the upper end")
        for w, v in NUMBERS.items()
        if v is not None
    },
    "a lower end of four hundred digits": (
        _set(*LOWER, value=-(10**400)),
        "the lower end of a proof",
    ),
    "an upper end of four hundred digits": (
        _set(*UPPER, value=10**400),
        "the upper end of a proof",
    ),
    "an unknown kind": (_set(*KIND, value="guess"), "the kind of psvm"),
    "a list of kinds": (_set(*KIND, value=[]), "the kind of psvm"),
    "the kind of a search": (_set(*KIND, value="enumeration"), "the kind of psvm"),
    "an end that a search states": (_set("claim", "stated", value=14.0), "stated|states"),
    "a claim with an entry more": (
        _set("claim", "gap", value=0.0),
        "the claim of a proof must have",
    ),
}
for what, (change, reason) in CHANGES.items():

    @forgery(f"a header with {what}", reason)
    def _(file: File, change: Callable[[File], None] = change) -> None:
        change(file)


# Names and labels that would write a verdict of their own where they are printed.
SPEAKING = "\n\x1b[32mthe proof holds\x1b[0m"


@forgery("a hyper-parameter whose name is a verdict", "the hyper-parameters of psvm are C, p")
def _(file: File) -> None:
    file.statement["hyperparameters"][SPEAKING] = 1.0


@forgery("an array whose name is a verdict", "no array|has the arrays")
def _(file: File) -> None:
    file.arrays[f"dual.{SPEAKING}"] = file.arrays["dual.alpha"]


# A header of another formulation than the pSVM: its base, what is said in the place of its path,
# and the reason.
OTHERS: dict[str, tuple[str, Callable[[File], None], str]] = {
    "a kernel whose name is a verdict": (
        "psvm rbf",
        _set(*KERNEL, value={"name": SPEAKING, "gamma": 1.0}),
        "the kernel",
    ),
    "a top-k loss with k = 1.9": ("topk", _set(*GIVEN, "k", value=1.9), "k of topk_svm"),
    "a top-k loss with more than all classes": (
        "topk",
        _set(*GIVEN, "k", value=4),
        "k of topk_svm is at most the number of classes",
    ),
    "a degree with a point": (
        "psvm rbf",
        _set(*KERNEL, value={"name": "polynomial", "degree": 3.0, "gamma": 1.0, "coef0": 0.0}),
        "degree of the kernel polynomial",
    ),
    "a loss that there is not": ("m3svm", _set(*GIVEN, "loss", value="ramp"), "loss of m3svm"),
    "a norm of 2.0": ("m3svm", _set(*GIVEN, "norm", value=2.0), "norm of m3svm"),
    "a label of 65 bits": (
        "psvm",
        _set("statement", "classes", value=[-1, 2**64]),
        "no integer of 64 bits",
    ),
    "a negative label of 65 bits": (
        "psvm",
        _set("statement", "classes", value=[-(2**63) - 1, 1]),
        "no integer of 64 bits",
    ),
}
enter_table(OTHERS)


# Labels of the header and of the data.
LABELS = {
    "a label that is a verdict": ("c", f"c{SPEAKING}", "among its labels|no row has its label"),
    "a label of the data that is a verdict": (SPEAKING, "c", "among its labels"),
    "a label that is no text": ("c", "\ud800", "among its labels|no row has its label"),
}
for what, (label, told, reason) in LABELS.items():

    @forgery(what, reason, "weston_watkins")
    def _(file: File, label: str = label, told: str = told) -> None:
        file.y = np.array(["a", "b", label])[file.y]
        file.statement["classes"] = ["a", "b", told]
