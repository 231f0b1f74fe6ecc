"""Solution: a model, its certificate, and how it was found."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import SEARCHED, Certificate
from svmcvx.display import listed, quantity, settings
from svmcvx.errors import DataError
from svmcvx.model import Model, frozen
from svmcvx.proofs.blocks import described, enclosures
from svmcvx.proofs.format import Proof, write_proof
from svmcvx.proofs.statement import Statement, dual_of
from svmcvx.solution.record import (
    Attempt,
    DataFacts,
    Evidence,
    OptimalIntercepts,
    Status,
    Timings,
    Undecided,
)
from svmcvx.solution.summary import Summary, summary_html

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attempt", "DataFacts", "Evidence", "OptimalIntercepts", "Solution", "Status", "Timings"]

Floats: TypeAlias = NDArray[np.float64]

# A relative difference of objectives that is no other problem.
SAME: Final = 1e-9
# Share by which the claims of a proof are wider than the certificate: a checker in doubles that
# sums in other ways has another rounding.
REPEATED: Final = 2.0**-46
# Widths of an enclosure that a proof for rows in blocks leaves to other sums, of other blocks or on
# another machine.
ROOM: Final = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The answer of any solver to a problem. Immutable and picklable.

    Attributes
    ----------
    model : Model
        Predicts; see :class:`svmcvx.Model`.
    certificate : Certificate
        The checked interval around the true optimum.
    status : Status
        Why the solver stopped.
    solver : str
        The solver whose point was chosen.
    attempts : tuple of Attempt
        Every solver that was tried, in order.
    timings : Timings
        Seconds for ``build``, ``compile``, ``solve`` and ``certify``.
    dual : dict of ndarray
        The dual point behind the lower bound, repaired to exact feasibility; indexed like the
        training data.
    trace : ndarray of shape (k, 3)
        Rows (seconds, lower, upper), NaN for a bound that was not known yet.
    formulation : str
        Name of the formulation.
    hyperparameters : dict
        The values that the problem was solved for.
    details : dict of ndarray
        Additional arrays of the answer, such as the per-observation ``"M"`` of a mixed-integer
        formulation; indexed like the training data.
    evidence : Evidence or None
        Further data for :meth:`save_proof`; None if there is no proof.
    data : DataFacts or None
        Sizes, classes and a short name of the data that the problem was solved for.
    terms : dict of float
        ``"regulariser"`` and ``"losses"``, whose sum is the objective at the model; empty where
        they are not known.
    parts : dict of Solution
        Of several binary problems, by their labels; empty for one problem.
    optimal_intercepts : OptimalIntercepts or None
        The intercepts that are optimal with the weights of the model, of which the model has the
        middle; None where no intercept is free (penalised or absent), for several problems, and for
        problems with added constraints.
    undecided : Undecided or None
        What :func:`svmcvx.guarantees.refine` has left undecided of the rows that it was given;
        None for other solutions.
    """

    model: Model
    certificate: Certificate
    status: Status
    solver: str
    attempts: tuple[Attempt, ...]
    timings: Timings
    dual: Mapping[str, Floats]
    trace: Floats
    formulation: str
    hyperparameters: Mapping[str, Any]
    details: Mapping[str, Floats] = field(default_factory=dict)
    evidence: Evidence | None = None
    data: DataFacts | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[Any, Solution] = field(default_factory=dict)
    optimal_intercepts: OptimalIntercepts | None = None
    undecided: Undecided | None = None

    def __post_init__(self) -> None:
        for name in ("dual", "details", "trace", "hyperparameters"):
            object.__setattr__(self, name, self._kept(name, getattr(self, name)))

    @staticmethod
    def _kept(name: str, value: Any) -> Any:
        """Return the value of a field as a solution keeps it: arrays that nobody writes to, and
        dictionaries of its own.
        """
        if name in ("dual", "details"):
            return {key: frozen(values) for key, values in value.items()}
        if name == "trace":
            return frozen(np.reshape(np.asarray(value, dtype=np.float64), (-1, 3)))
        return dict(value) if name == "hyperparameters" else value

    @property
    def warm_start_used(self) -> bool:
        """Whether the solver of the chosen point used the warm start."""
        return any(
            attempt.warm_start_used for attempt in self.attempts if attempt.solver == self.solver
        )

    def save_proof(self, path: str | os.PathLike[str], X: Any = None, y: Any = None) -> None:
        """Write what the interval follows from to a file, which :func:`svmcvx.verify` checks from
        the raw data.

        The file holds the problem (its name and numbers, the kernel with its γ, the weights, a
        short name of the data), the model, the dual point and the ends that are claimed. There is
        no pickle in it. A lower end that a solver or a search states without a proof is stored
        separately; the claim is then about the upper end only.

        Parameters
        ----------
        path : path-like
            By convention ``*.npz``; an existing file is replaced as a whole.
        X, y : RowBlocks and labels, optional
            Rows in blocks are read twice, for their short name and for what the file can claim:
            pass them, and ``blocks.y``.

        Raises
        ------
        DataError
            If there is no proof to hand on (added constraints, a kernel given by a function, one
            that was clipped; rows in blocks of other formulations than linear psvm and ODM), or the
            file cannot be written.
        """
        write_proof(path, self.proof(X, y))

    def proof(self, X: Any = None, y: Any = None) -> Proof:
        """Return what :meth:`save_proof` writes.

        Raises
        ------
        DataError
            If there is no proof to hand on.
        """
        if self.evidence is not None and self.evidence.weight is None:
            return self._proof_of_blocks(X, y)
        evidence, certificate, statement = self.evidence, self.certificate, self.proof_statement()
        if evidence is None or "clipped_mass" in certificate.residuals:
            raise DataError(
                "the kernel was indefinite and has been clipped: the interval is about its positive"
                " part, which a proof from the raw data cannot state; use a positive semidefinite"
                " kernel"
            )
        model: Any = self.model
        names = (
            ("support", "dual_coef", "intercept")
            if hasattr(model, "kernel")
            else ("coef", "intercept")
        )
        dual = dual_of(statement.formulation, statement.hyperparameters, self.dual)
        lower, by, residuals = (
            certificate.lower,
            SEARCHED.get(certificate.kind),
            certificate.residuals,
        )
        if lower == -math.inf:
            lower = None
        found = (
            residuals[f"{by}_bound"] - residuals[f"{by}_allowance"]
            if f"{by}_bound" in residuals
            else math.nan
        )
        searched = lower == found and not evidence.tree
        return Proof(
            statement=statement,
            model={name: getattr(model, name) for name in names} | dict(evidence.spread),
            dual=dual,
            lower=None if searched or lower is None else lower - REPEATED * abs(lower),
            upper=(
                certificate.upper + REPEATED * abs(certificate.upper)
                if certificate.upper < math.inf
                else None
            ),
            kind=certificate.kind,
            stated=lower if searched else None,
            tree=evidence.tree,
        )

    def proof_statement(self) -> Statement:
        """Return the problem that a proof of this solution is about; :func:`svmcvx.verify` can be
        told to expect it.

        Raises
        ------
        DataError
            If there is no proof to hand on.
        """
        if self.evidence is None or self.data is None:
            raise DataError(
                f"there is no proof of this solution of {self.formulation} to hand on: it is one of"
                " several problems, of a problem with added constraints, or of a formulation"
                " outside the package"
            )
        if self.evidence.weight is None:
            raise DataError(
                "a solution for rows in blocks does not know its weights; pass"
                " expect=solution.proof(blocks, blocks.y)"
            )
        kernel = getattr(self.model, "kernel", None)
        return self.evidence.statement(self.formulation, self.hyperparameters, kernel, self.data)

    def _proof_of_blocks(self, X: Any, y: Any) -> Proof:
        """Return a proof for rows in blocks, which claims what one pass over them confirms."""
        if X is None or self.evidence is None or self.data is None:
            raise DataError(
                "rows in blocks are read again for a proof: pass them, as in"
                " solution.save_proof(path, blocks, blocks.y)"
            )
        facts = described(X, y, self.data.n, self.data.classes)
        evidence = replace(self.evidence, weight=facts.weight, fingerprint=facts.fingerprint)
        model: Any = self.model
        certificate = self.certificate
        proof = Proof(
            statement=evidence.statement(self.formulation, self.hyperparameters, None, self.data),
            model={name: getattr(model, name) for name in ("coef", "intercept")},
            dual=self.dual,
            lower=certificate.lower,
            upper=certificate.upper,
            kind=certificate.kind,
        )
        found = enclosures(proof, X, y)
        if not found.upper[0] <= certificate.upper * (1 + SAME) <= found.upper[1] * (1 + SAME) ** 2:
            raise DataError(
                f"the model's objective on these data is {found.upper[1]!r}, the solution's is"
                f" {certificate.upper!r}: data or weights are not those that were solved for (those"
                " of class_weight are no part of the data)"
            )
        lower = None
        if found.lower is not None and certificate.lower is not None:
            lower = min(
                certificate.lower, found.lower[0] - ROOM * (found.lower[1] - found.lower[0])
            )
        upper = found.upper[1] + ROOM * (found.upper[1] - found.upper[0])
        return replace(proof, lower=lower, upper=max(certificate.upper, upper))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a flat dictionary of plain values."""
        return {
            "formulation": self.formulation,
            **self.hyperparameters,
            "solver": self.solver,
            "status": str(self.status),
            "lower": self.certificate.lower,
            "upper": self.certificate.upper,
            "gap": self.certificate.gap,
            "kind": self.certificate.kind,
            "n_support": self.model.n_support,
            "seconds": self.timings.total,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`to_dict` as a data frame of one row."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])

    def summary(self) -> Summary:
        """Return a summary as text of fixed width, which a notebook shows as a table.

        Formulation, hyper-parameters and data; solver, status and seconds; the certificate with its
        residuals; terms of the objective; each binary problem of several; every solver that was
        tried; notes on what the interval does not say.

        Returns
        -------
        Summary
            A ``str``; ``print(solution.summary())`` shows it.
        """
        return Summary.of(self)

    def __repr__(self) -> str:
        hyper = settings(self.hyperparameters)
        others = [attempt.solver for attempt in self.attempts if attempt.solver != self.solver]
        tried = (
            ""
            if len(self.attempts) < 2 or not others
            else f" after {listed(dict.fromkeys(others))}"
        )
        return (
            f"Solution({self.formulation}({hyper}) by {self.solver}{tried}: {self.status},"
            f" {self.certificate!r}, {quantity(self.model.n_support, 'support vector')},"
            f" {self.timings.total:.3g} s)"
        )

    def _repr_html_(self) -> str:
        return summary_html(self)
