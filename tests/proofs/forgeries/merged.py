"""Honest files put together: the tree of a search in the proof of another problem."""

from __future__ import annotations

from .archive import File
from .corpus import Forged, forged, forgery
from .honest import honest

BELONGS = "the tree of a proof of .* has the arrays none|the model of a proof|the kind of"


def _searched(file: File, source: str = "zero_one") -> File:
    """A file with the model, the tree and the claim of a search, and what the header says of the
    problem.
    """
    other = honest(source)
    file.arrays = other.arrays | {
        name: v for name, v in file.arrays.items() if name.startswith("statement.")
    }
    file.header["claim"] = other.claim | {"kind": file.claim["kind"]}
    return file


for name, base in (("conic", "conic"), ("psvm", "psvm"), ("odm", "odm")):

    @forgery(f"the problem {name} with the tree of a search", BELONGS, base)
    def _(file: File) -> Forged:
        return forged(_searched(file), optimum=file.optimum)

    @forgery(f"the problem {name} with the tree and the kind of a search", BELONGS, base)
    def _(file: File) -> Forged:
        _searched(file).claim["kind"] = "enumeration"
        return forged(file, optimum=file.optimum)


@forgery(
    "a machine with λ among its hyper-parameters and the tree of a search",
    "the hyper-parameters of",
)
def _(file: File) -> Forged:
    _searched(file).statement["hyperparameters"]["lam"] = 1.0
    return forged(file, optimum=file.optimum)


@forgery("the tree of a search in a local minimum", "the tree of a proof of", "zero_one")
def _(file: File) -> None:
    file.claim["kind"] = "local"


@forgery("the tree of a linear machine in that of a kernel", "the model of a proof", "zero_one")
def _(file: File) -> None:
    file.statement["kernel"] = {"name": "rbf", "gamma": 0.5}


# A tree bounds the problem of the header, whatever it was made for: what it then proves is less
# than what it claims.
LESS = "search proves|above its bound|multiplier|exceeds|objective|ends cross"


@forgery("the tree of another λ", LESS, "zero_one 0.3")
def _(file: File) -> Forged:
    return forged(_searched(file), optimum=file.optimum)


@forgery("the tree of equal weights", LESS, "zero_one weights")
def _(file: File) -> Forged:
    return forged(_searched(file), optimum=file.optimum)


@forgery("a tree whose weights were left out", LESS, "zero_one weights")
def _(file: File) -> Forged:
    del file.arrays["statement.weight"]
    return forged(file, optimum=honest("zero_one").optimum)


@forgery("the tree of a number of rows", "the tree of a proof|" + LESS, "zero_one")
def _(file: File) -> Forged:
    return forged(_searched(file, "zero_one k"), optimum=file.optimum)


@forgery(
    "the tree without an intercept of one with an intercept",
    LESS + "|do not fit each other",
    "zero_one",
)
def _(file: File) -> None:
    file.statement["intercept"] = "none"
    file.arrays["model.intercept"][...] = 0.0
