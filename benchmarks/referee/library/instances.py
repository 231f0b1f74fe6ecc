"""Instances: a data set and a problem, known by a number that depends on both alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.referee.library.data_sets import DataSet
from svmcvx import fast
from svmcvx.catalogue import CATALOGUE
from svmcvx.errors import DataError
from svmcvx.formulations.multiclass.baselines import MACHINES
from svmcvx.kernels import RBF, Exponential, Kernel, Laplacian, Polynomial, Sigmoid
from svmcvx.proofs import Statement
from svmcvx.solution import Solution

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem

__all__ = ["Instance", "Problem", "instance_id", "problem_of"]

# Hexadecimal digits of a number of an instance.
DIGITS: Final = 16
KERNELS: Final = {
    "rbf": RBF,
    "exponential": Exponential,
    "laplacian": Laplacian,
    "polynomial": Polynomial,
    "sigmoid": Sigmoid,
}
# Formulations of proofs that are a hard margin of another one: by builders alone.
BUILT: Final = ("odml_hard_margin", "m3svm_hard_margin")
# Losses of the classical machines, by the names of their formulations.
LOSSES: Final = {machine.builder: loss for loss, machine in MACHINES.items()}
# Formulations whose optimum is the end of a search.
SEARCHES: Final = ("zero_one", "ramp", "l0")
# Rounds of a search: a number, not a time, so that a proof is the same on every machine.
ROUNDS: Final = 40
WORD: Final = re.compile(r"([A-Za-z_0-9]+)=([^ =]+)")


@dataclass(frozen=True)
class Problem:
    """A formulation with all that its optimum depends on, the data excepted; its text is its name.

    Attributes
    ----------
    formulation : str
        As proofs call it: ``"psvm"``, ``"penalised psvm"``, ``"odm"``, ``"crammer_singer"``, …
    hyperparameters : mapping
    kernel : mapping or None
        ``name`` and parameters.
    intercept : "free", "penalised" or "none"
    """

    formulation: str
    hyperparameters: Mapping[str, Any]
    kernel: Mapping[str, Any] | None
    intercept: str

    @classmethod
    def read(cls, text: str) -> Problem:
        """Return the problem of a text, as in ``"psvm C=1 p=1.5 intercept=free kernel=rbf
        gamma=0.25"``.

        Raises
        ------
        DataError
            If the text is none of a problem.
        """
        name, *words = text.split(" ")
        values: dict[str, str] = {}
        for word in words:
            found = WORD.fullmatch(word)
            if found is None or found[1] in values:
                raise DataError(
                    f"{text!r} is no problem of the library: {word!r} is not of the form name=value"
                )
            values[found[1]] = found[2]
        intercept = values.pop("intercept", "")
        names = list(values)
        at = names.index("kernel") if "kernel" in values else len(names)
        kernel = None
        if at < len(names):
            kernel = {
                "name": values["kernel"],
                **{key: _number(values[key]) for key in names[at + 1 :]},
            }
        hyper = {key: _number(values[key]) for key in names[:at]}
        problem = cls(name.replace("-", " "), hyper, kernel, intercept)
        if str(problem) != text:
            raise DataError(
                f"{text!r} is no problem of the library; it would be written {str(problem)!r}"
            )
        return problem

    def __str__(self) -> str:
        words = [self.formulation.replace(" ", "-")]
        words += [
            f"{name}={_text(self.hyperparameters[name])}" for name in sorted(self.hyperparameters)
        ]
        words.append(f"intercept={self.intercept}")
        if self.kernel is not None:
            rest = sorted(self.kernel.keys() - {"name"})
            words += [
                f"kernel={self.kernel['name']}",
                *(f"{name}={_text(self.kernel[name])}" for name in rest),
            ]
        return " ".join(words)

    def _kernel(self) -> Kernel | None:
        if self.kernel is None:
            return None
        parameters = {name: value for name, value in self.kernel.items() if name != "name"}
        if "degree" in parameters:
            parameters["degree"] = int(parameters["degree"])
        kernel: Kernel = KERNELS[self.kernel["name"]](**parameters)
        return kernel

    @property
    def entry(self) -> str:
        """The name of the record in the catalogue."""
        if self.formulation in LOSSES:
            return "multiclass"
        for name in ("penalised psvm", *BUILT):
            if self.formulation == name:
                return {"penalised psvm": "psvm"}.get(name, name.removesuffix("_hard_margin"))
        return self.formulation

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the builder and of the specialised solver."""
        found = {
            name: int(value) if name in ("k", "norm") else value
            for name, value in self.hyperparameters.items()
        }
        if self.formulation in LOSSES:
            found["loss"] = LOSSES[self.formulation]
        if self.formulation == "topk_svm":
            found["k"] = int(found["k"])
        if self.formulation not in ("hard_margin", "ramp", "l0", "m3svm", "m3svm_hard_margin"):
            found["intercept"] = self.intercept
        if self.kernel is not None:
            found["kernel"] = self._kernel()
        return found

    def build(self, X: Any, y: Any, *, primal: bool = False) -> FormulationProblem:
        """Return the problem on data, as the builders make it.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        primal : bool
            In weights in place of multipliers, where there are builders of both.

        Raises
        ------
        DataError
            If the data do not fit.
        """
        entry = CATALOGUE[self.entry]
        name = self.formulation if self.formulation in BUILT else entry.general
        if primal and f"{entry.name}_primal" in (one.name for one in entry.builders):
            name = f"{entry.name}_primal"
        builder = entry.builder(name)
        problem: FormulationProblem = builder.load()(X, y, **self.arguments())
        return problem

    def solve(self, X: Any, y: Any, *, tol: float) -> Solution:
        """Solve the problem on data: by the specialised solver, or the general one where there is
        none.

        Searches end after a number of rounds, so that every call has the same answer.
        """
        entry = CATALOGUE[self.entry]
        if self.formulation in BUILT or entry.fast is None:
            from svmcvx.solve import solve

            return solve(self.build(X, y), tol=tol)
        arguments = self.arguments()
        if self.formulation in SEARCHES:
            arguments["max_iter"] = ROUNDS
        if self.formulation == "l0":
            arguments["method"] = "search"
        if self.formulation == "m3svm":
            arguments.pop("norm")
        found: Solution = getattr(fast, entry.fast.name)(X, y, tol=tol, **arguments)
        return found


def problem_of(statement: Statement) -> Problem:
    """Return the problem of a proof without its data."""
    if statement.arrays or (
        statement.kernel is not None and statement.kernel["name"] == "precomputed"
    ):
        raise DataError(
            "the library has no problems with weights of the observations, arrays of their own or"
            " precomputed kernels"
        )
    return Problem(
        statement.formulation,
        dict(statement.hyperparameters),
        statement.kernel,
        statement.intercept,
    )


def instance_id(digest: str, problem: Problem) -> str:
    """Return the number of an instance: of the data's digest and the problem's text, nothing else."""
    return hashlib.sha256(f"{digest}\n{problem}".encode()).hexdigest()[:DIGITS]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Instance:
    """An instance of the library.

    Attributes
    ----------
    id : str
        Sixteen hexadecimal digits, of the numbers of the data and of the problem; empty where the
        data are not known yet.
    data_set : str
    problem : Problem
    part : "core" or "extended"
    """

    id: str
    data_set: str
    problem: Problem
    part: str

    def __str__(self) -> str:
        return f"{self.problem} on {self.data_set}"

    def bound_to(self, data: DataSet) -> Instance:
        """Return the same with the number that the data give it."""
        return Instance(
            instance_id(data.digest, self.problem), self.data_set, self.problem, self.part
        )
