"""What the library has: data sets, made by recipes that give the same numbers on every machine,
times problems. An instance has a number that depends on both alone.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import svmcvx as sx
from benchmarks.papers.synthetic import label_noise_data
from svmcvx.catalogue import CATALOGUE
from svmcvx.datasets import content_digest, load
from svmcvx.proofs import Statement
from svmcvx.synthetic import outlier_data

# Numbers that a recipe computes are multiples of this one: the last bits of a mean or of a sine
# differ from machine to machine.
STEP = 2.0**-20
RECORDS = Path(__file__).with_name("data_sets.csv")


class Recorded(NamedTuple):
    """What is recorded of a data set."""

    rows: int
    columns: int
    classes: int
    digest: str


@dataclass(frozen=True, eq=False)
class DataSet:
    """The arrays of a data set of the library."""

    name: str
    X: Any
    y: Any
    digest: str


def data_digest(X: Any, y: Any) -> str:
    """Return the SHA-256 of the numbers of a data set and of which rows share a label."""
    _, first, codes = np.unique(np.asarray(y).ravel(), return_index=True, return_inverse=True)
    return content_digest(X, np.argsort(np.argsort(first))[codes])


def _rounded(X: Any) -> Any:
    return np.asarray(np.round(np.asarray(X, dtype=np.float64) / STEP) * STEP + 0.0)


def _standard(X: Any) -> Any:
    """Return columns of mean 0 and variance 1, without constant ones."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    spread = dense.std(axis=0)
    kept = spread > STEP * np.abs(dense).max(axis=0)
    return _rounded((dense[:, kept] - dense[:, kept].mean(axis=0)) / spread[kept])


def _blobs(classes: int, n: int, p: int, seed: int) -> Any:
    """Draw Gaussian classes around centres of a Gaussian."""
    draw = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return 2.0 * draw.standard_normal((classes, p))[y] + draw.standard_normal((n, p)), y


GENERATED: dict[str, Callable[[], Any]] = {
    "gauss-60x2": partial(outlier_data, 60, 2, sigma=0.5, outliers="none", seed=1),
    "clustered-60x2": partial(outlier_data, 60, 2, sigma=0.5, outliers="clustered", seed=2),
    "spread-80x5": partial(outlier_data, 80, 5, sigma=0.5, outliers="spread", seed=3),
    "spread-150x3": partial(outlier_data, 150, 3, sigma=1.0, outliers="spread", seed=4),
    "noise-100x3": partial(label_noise_data, 100, 3, tau=0.1, seed=5),
    "noise-120x8": partial(label_noise_data, 120, 8, tau=0.2, seed=6),
    "wide-40x100": partial(outlier_data, 40, 100, sigma=0.3, outliers="none", seed=7),
    "blobs4-120x5": partial(_blobs, 4, 120, 5, 8),
    "blobs6-120x3": partial(_blobs, 6, 120, 3, 9),
}
# Of scikit-learn, by the names of svmcvx.datasets.load.
BUNDLED = (
    "breast_cancer/standard",
    "breast_cancer/raw",
    "iris:setosa-versicolor/standard",
    "iris:setosa-virginica/standard",
    "iris:versicolor-virginica/standard",
    "iris:versicolor-virginica/raw",
    "iris/standard",
    "wine:class_0-class_1/standard",
    "wine:class_0-class_2/standard",
    "wine:class_1-class_2/standard",
    "wine:class_1-class_2/raw",
    "wine/standard",
    "digits:0-6/standard",
    "digits:1-7/standard",
    "digits:3-8/standard",
    "digits:4-9/standard",
    "moons/rounded",
    "circles/rounded",
)
# Of the papers; they are on this machine, or in a folder, or are downloaded.
PAPERS = tuple(
    f"{name}/standard"
    for name in [
        "australian",
        "banknote",
        "colon-cancer",
        "diabetes",
        "fourclass",
        "german",
        "haberman",
        "heart-statlog",
        "ionosphere",
        "liver-disorders",
        "parkinsons",
        "sonar",
        "vehicle",
        "glass",
    ]
)


def known_data_sets(part: str = "core") -> tuple[str, ...]:
    """Return the names of the data sets of a part of the library."""
    return (*BUNDLED, *GENERATED) if part == "core" else PAPERS


@cache
def recorded() -> dict[str, Recorded]:
    """Return what is recorded of each data set, by its name."""
    with RECORDS.open(newline="", encoding="utf-8") as stream:
        return {
            row["name"]: Recorded(
                int(row["rows"]), int(row["columns"]), int(row["classes"]), row["digest"]
            )
            for row in csv.DictReader(stream)
        }


def make_data_set(name: str, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """Make a data set of the library by its recipe."""
    if name not in (*known_data_sets(), *known_data_sets("extended")):
        raise sx.DataError(f"the library has no data set {name!r}")
    if name in GENERATED:
        X, y = GENERATED[name]()
        X = _rounded(X)
    else:
        source, _, scaling = name.rpartition("/")
        loaded = load(source, data_dir).without_missing()
        X, y = (
            {"raw": lambda X: X, "rounded": _rounded, "standard": _standard}[scaling](loaded.X),
            loaded.y,
        )
    found = DataSet(name, X, y, data_digest(X, y))
    if name in recorded() and recorded()[name].digest != found.digest:
        raise sx.DataError(
            f"the data set {name} is another than that of the library: its digest is"
            f" {found.digest}, recorded is {recorded()[name].digest}"
        )
    return found


# Problems

# Hexadecimal digits of the number of an instance.
DIGITS = 16
KERNELS = {
    "rbf": sx.RBF,
    "exponential": sx.Exponential,
    "laplacian": sx.Laplacian,
    "polynomial": sx.Polynomial,
    "sigmoid": sx.Sigmoid,
}
# Losses of the classical machines, by the names of their formulations.
LOSSES = {
    "weston_watkins": "weston_watkins",
    "crammer_singer": "crammer_singer",
    "msvm": "msvm",
    "topk_svm": "topk",
    "multinomial_lr": "softmax",
    "sparse_multinomial_lr": "sparse_softmax",
}
# Formulations whose optimum is the end of a search; its rounds, so that a proof is the same on
# every machine.
SEARCHES, ROUNDS = ("zero_one", "ramp", "l0"), 40
WORD = re.compile(r"([A-Za-z_0-9]+)=([^ =]+)")


@dataclass(frozen=True)
class Problem:
    """A formulation, as proofs call it, with all that its optimum depends on, the data excepted:
    its text is its name, as in ``"psvm C=1 p=1.5 intercept=free kernel=rbf gamma=0.25"``.
    """

    formulation: str
    hyperparameters: Mapping[str, Any]
    kernel: Mapping[str, Any] | None
    intercept: str

    @classmethod
    def read(cls, text: str) -> Problem:
        """Return the problem of a text."""
        name, *words = text.split(" ")
        values: dict[str, Any] = {}
        for word in words:
            found = WORD.fullmatch(word)
            if found is None or found[1] in values:
                raise sx.DataError(f"{text!r} is no problem of the library: {word!r}")
            values[found[1]] = _number(found[2])
        intercept = str(values.pop("intercept", ""))
        names = list(values)
        at = names.index("kernel") if "kernel" in values else len(names)
        kernel = None
        if at < len(names):
            kernel = {"name": values["kernel"], **{key: values[key] for key in names[at + 1 :]}}
        hyper = {key: values[key] for key in names[:at]}
        problem = cls(name.replace("-", " "), hyper, kernel, intercept)
        if str(problem) != text:
            raise sx.DataError(
                f"{text!r} is no problem of the library; it would be written {str(problem)!r}"
            )
        return problem

    def __str__(self) -> str:
        words = [self.formulation.replace(" ", "-"), *_words(self.hyperparameters)]
        words.append(f"intercept={self.intercept}")
        if self.kernel is not None:
            rest = {name: value for name, value in self.kernel.items() if name != "name"}
            words += [f"kernel={self.kernel['name']}", *_words(rest)]
        return " ".join(words)

    @property
    def is_built(self) -> bool:
        """Whether it is a hard margin of another formulation, by builders alone."""
        return self.formulation in ("odml_hard_margin", "m3svm_hard_margin")

    @property
    def entry(self) -> Any:
        """The record in the catalogue."""
        if self.formulation in LOSSES:
            return CATALOGUE["multiclass"]
        name = self.formulation.removeprefix("penalised ")
        return CATALOGUE[name.removesuffix("_hard_margin") if self.is_built else name]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the builder and of the specialised solver."""
        found = {
            name: int(value) if name in ("k", "norm") else value
            for name, value in self.hyperparameters.items()
        }
        if self.formulation in LOSSES:
            found["loss"] = LOSSES[self.formulation]
        if self.formulation not in ("hard_margin", "ramp", "l0", "m3svm", "m3svm_hard_margin"):
            found["intercept"] = self.intercept
        if self.kernel is not None:
            given = {name: value for name, value in self.kernel.items() if name != "name"}
            if "degree" in given:
                given["degree"] = int(given["degree"])
            found["kernel"] = KERNELS[self.kernel["name"]](**given)
        return found

    def build(self, X: Any, y: Any, *, primal: bool = False) -> Any:
        """Return the problem on data as the builders make it; in weights in place of multipliers
        where there are builders of both.
        """
        name = self.formulation if self.is_built else self.entry.general
        if primal and f"{self.entry.name}_primal" in (one.name for one in self.entry.builders):
            name = f"{self.entry.name}_primal"
        return self.entry.builder(name).load()(X, y, **self.arguments())

    def solve(self, X: Any, y: Any, *, tol: float) -> sx.Solution:
        """Solve the problem on data: by the specialised solver, or the general one where there is
        none.
        """
        if self.is_built or self.entry.fast is None:
            return sx.solve(self.build(X, y), tol=tol)
        arguments = self.arguments()
        if self.formulation in SEARCHES:
            arguments["max_iter"] = ROUNDS
        if self.formulation == "l0":
            arguments["method"] = "search"
        arguments.pop("norm", None)
        found: sx.Solution = getattr(sx.fast, self.entry.fast.name)(X, y, tol=tol, **arguments)
        return found


def problem_of(statement: Statement) -> Problem:
    """Return the problem of a proof without its data."""
    kernel = statement.kernel
    if statement.arrays or (kernel is not None and kernel["name"] == "precomputed"):
        raise sx.DataError(
            "the library has no problems with weights of the observations, arrays of their own or"
            " precomputed kernels"
        )
    hyper = dict(statement.hyperparameters)
    return Problem(statement.formulation, hyper, kernel, statement.intercept)


def _words(values: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}={v if isinstance(v, str) else repr(float(v)).removesuffix('.0')}"
        for name, v in sorted(values.items())
    ]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


# Instances


@dataclass(frozen=True)
class Instance:
    """A data set and a problem; the number has sixteen hexadecimal digits."""

    id: str
    data_set: str
    problem: Problem
    part: str

    def __str__(self) -> str:
        return f"{self.problem} on {self.data_set}"


def instance_id(digest: str, problem: Problem) -> str:
    """Return the number of an instance: of the data's digest and the problem's text, nothing
    else.
    """
    return hashlib.sha256(f"{digest}\n{problem}".encode()).hexdigest()[:DIGITS]


PARTS = ("core", "extended")
# Seven decades of the weight of the losses.
WEIGHTS = tuple(10.0**k for k in range(-3, 4))
# Rows up to which there are problems that cost more: semidefinite ones with a kernel, searches.
FEW_ROWS = 150


def _rbf(columns: int, share: int) -> dict[str, Any]:
    """Return an RBF kernel with γ = 2^k near 2^share/d."""
    return {"name": "rbf", "gamma": 2.0 ** (share - (columns - 1).bit_length())}


def _two_classes(rows: int, columns: int, *, raw: bool) -> Iterator[Problem]:
    """Yield problems of two classes; raw columns are ill-conditioned, for linear machines alone."""
    kernels = [] if raw else [_rbf(columns, share) for share in (-3, 0, 3)]
    for C in WEIGHTS:
        for p in (1.0, 1.5, 2.0, 3.0):
            yield Problem("psvm", {"C": C, "p": p}, None, "free")
        for p in (1.0, 2.0):
            yield Problem("penalised psvm", {"C": C, "p": p}, None, "penalised")
            for kernel in kernels:
                yield Problem("psvm", {"C": C, "p": p}, kernel, "free")
        for one in (None, *kernels[1:2]):
            yield Problem("odm", {"C1": C, "C2": C, "D": 0.1}, one, "penalised")
            yield Problem("odml", {"lam1": 0.0625, "lam2": 0.0625, "C": C}, one, "penalised")
            if one is None or rows <= FEW_ROWS:
                yield Problem("conic", {"lam": C}, one, "penalised")
    for kernel in kernels[2:]:
        yield Problem("hard_margin", {}, kernel, "free")
    if raw or rows > FEW_ROWS:
        return
    for weight in (0.01, 1.0, 100.0):
        for one in (None, _rbf(columns, 0)):
            yield Problem("zero_one", {"lam": weight}, one, "penalised")
        yield Problem("ramp", {"C": weight}, None, "free")
        yield Problem("l0", {"C": weight}, None, "free")


def _several_classes() -> Iterator[Problem]:
    for lam in WEIGHTS:
        for name in LOSSES:
            if name != "topk_svm":
                yield Problem(name, {"lam": lam}, None, "free")
        yield Problem("topk_svm", {"lam": lam, "k": 2.0}, None, "free")
        for p, loss in ((1.0, "hinge"), (2.0, "hinge"), (4.0, "hinge"), (2.0, "softmax")):
            values = {"lam": lam, "p": p, "eps": 1e-6, "norm": 2.0, "loss": loss}
            yield Problem("m3svm", values, None, "penalised")


def problems_of(name: str) -> Iterator[Problem]:
    """Yield the problems of a data set, by its rows, columns and classes."""
    record = recorded()[name]
    if record.classes > 2:
        return _several_classes()
    return _two_classes(record.rows, record.columns, raw=name.endswith("/raw"))


@cache
def listed(part: str) -> tuple[Instance, ...]:
    """Return the instances of a part: the core is made of data that come with scikit-learn or are
    generated.
    """
    return tuple(
        Instance(instance_id(recorded()[name].digest, problem), name, problem, part)
        for name in known_data_sets(part)
        for problem in problems_of(name)
    )
