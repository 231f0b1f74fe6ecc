"""Proofs of instances: found by a solver, or in a file of somebody, and checked from the raw data
by the second checker.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.referee.library.data_sets import DataSet, make_data_set, recorded
from benchmarks.referee.library.index import PROOF_DIGITS, Claim, rounded_down, rounded_up
from benchmarks.referee.library.instances import Instance, instance_id, problem_of
from svmcvx.errors import DataError, NotCertified
from svmcvx.estimators.given_models import as_model, require_kernel
from svmcvx.model import KernelModel
from svmcvx.proofs import Proof, ProofFile, Statement, Verified, fingerprint, verify, write_proof

__all__ = [
    "Checked",
    "checked_file",
    "claim_of",
    "data_of",
    "proof_files",
    "prove",
    "relabelled",
    "write_proof_of",
]

# The gap that a solver is asked for: a tenth of the smallest class.
ASKED: Final = 1e-10
# Classes up to which all their orders are tried.
FEW_CLASSES: Final = 6


class Checked(NamedTuple):
    """A proof that the second checker confirms."""

    proof: Proof
    verified: Verified
    digest: str


def write_proof_of(instance: Instance, data: DataSet, path: Path) -> None:
    """Solve an instance and write the proof of the answer."""
    instance.problem.solve(data.X, data.y, tol=ASKED).save_proof(path)


def prove(
    instance: Instance,
    model: Any,
    path: str | os.PathLike[str],
    *,
    dual: Mapping[str, Any] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Verified:
    """Write what a model of anybody proves of an instance to a file: an upper end, and with a dual
    point a lower one.

    Parameters
    ----------
    instance : Instance
        See :func:`benchmarks.referee.library.find`.
    model : tuple, mapping, estimator or Model
        In any form that :func:`svmcvx.certify` takes: ``(coef, intercept)``, a mapping with
        ``coef`` or ``dual_coef``, a fitted estimator. The later of two sorted labels is the
        positive class.
    path : path-like
        By convention ``*.npz``; :func:`benchmarks.referee.library.add` takes it.
    dual : mapping of str to array-like, optional
        A dual point, by the names and in the order of ``docs/proof_format.md``, such as ``{"alpha":
        …}`` for the pSVM. It has to be feasible but for rounding.
    data_dir : path-like, optional
        Folder of the data sets of the papers.

    Returns
    -------
    Verified
        ``lower`` and ``upper`` are the ends that the second checker has computed, which the file
        claims.

    Raises
    ------
    NotCertified
        If it proves nothing: the model has no finite objective, or the dual point is not feasible.
    DataError
        If the model or the dual point does not fit the instance, or the file cannot be written.

    Notes
    -----
    Source: ``docs/proof_format.md``.
    """
    data, problem = make_data_set(instance.data_set, data_dir), instance.problem
    if problem.formulation == "conic":
        raise DataError(
            "a conic model has a covariance beside its coefficients: solve problem.build(X, y) with"
            " any solver of cvxpy, and save the proof of what its recover() returns"
        )
    built = problem.build(data.X, data.y)
    own: Any = as_model(model, data.X, np.unique(data.y), None, problem.arguments().get("kernel"))
    require_kernel(own, built.formulation)
    if isinstance(own, KernelModel):
        arrays = {
            "support": _rows_of(own, data),
            "dual_coef": own.dual_coef,
            "intercept": own.intercept,
        }
    else:
        arrays = {"coef": own.coef, "intercept": own.intercept}
    kind = built.formulation.kind
    proof = Proof(
        statement=built.proof_statement(),
        model=arrays,
        dual=dual or {},
        lower=None,
        upper=sys.float_info.max,
        kind=kind if kind == "convex" else "local",
    )
    found = verify(proof, data.X, data.y)
    if not found.holds or (dual and found.lower is None):
        raise NotCertified(f"the model and the dual point prove nothing of {instance}: {found.why}")
    lower = found.lower if dual else None
    write_proof(path, replace(proof, lower=lower, upper=found.upper))
    return found


def _rows_of(model: KernelModel, data: DataSet) -> NDArray[np.intp]:
    """Return the rows of the data that the vectors of a model are."""
    if model.vectors is None or model.vectors.shape == data.X.shape:
        return np.arange(data.X.shape[0])
    rows = {row.tobytes(): number for number, row in enumerate(np.asarray(data.X))}
    found = [rows.get(np.asarray(vector).tobytes()) for vector in np.asarray(model.vectors)]
    if None in found:
        raise DataError(
            "the vectors of the model must be rows of the instance's data; pass dual_coef, one"
            " a row"
        )
    return np.asarray(found, dtype=np.intp)


def checked_file(path: str | os.PathLike[str], data: DataSet) -> Checked:
    """Read a proof and have it checked from the data, whatever their classes are called in it."""
    with ProofFile(path) as file:
        proof, digest = file.read(), file.digest
    labels = relabelled(data, proof.statement)
    if labels is None:
        raise DataError(f"{path} is a proof about other data than {data.name}")
    found = verify(proof, data.X, labels)
    if not found.holds:
        raise NotCertified(f"the proof {path} does not hold: {found.why}")
    if not math.isfinite(found.upper):
        raise NotCertified(f"the proof {path} claims no upper end")
    return Checked(proof, found, digest)


def claim_of(checked: Checked, data: DataSet, *, who: str, version: str, date: str) -> Claim:
    """Return what a checked proof says: the ends that the second checker has computed."""
    found, proof = checked.verified, checked.proof
    problem = problem_of(proof.statement)
    return Claim(
        id=instance_id(data.digest, problem),
        data_set=data.name,
        problem=str(problem),
        lower=None if found.lower is None else rounded_down(found.lower),
        upper=rounded_up(found.upper),
        stated=None if proof.stated is None else rounded_down(proof.stated),
        kind=proof.kind,
        who=who,
        version=version,
        date=date,
        proof=checked.digest[:PROOF_DIGITS],
    )


def relabelled(data: DataSet, statement: Statement) -> NDArray[Any] | None:
    """Return the labels of the data as a proof calls them; None if it is about other data."""
    classes = np.unique(data.y)
    if data.X.shape != (statement.rows, statement.columns) or classes.size != len(
        statement.classes
    ):
        return None
    codes = np.searchsorted(classes, data.y)
    orders = (
        permutations(range(classes.size))
        if classes.size <= FEW_CLASSES
        else [tuple(range(classes.size))]
    )
    for order in orders:
        turned = np.asarray(order)[codes]
        if fingerprint(data.X, turned, coded=True) == statement.fingerprint:
            labels = np.empty(turned.size, dtype=object)
            labels[:] = [statement.classes[code] for code in turned]
            return np.asarray(labels.tolist())
    return None


def data_of(statement: Statement, data_dir: str | os.PathLike[str] | None) -> DataSet:
    """Return the data set of the library that a proof is about."""
    wanted = (statement.rows, statement.columns, len(statement.classes))
    for name, record in recorded().items():
        if (record.rows, record.columns, record.classes) == wanted:
            data = make_data_set(name, data_dir)
            if relabelled(data, statement) is not None:
                return data
    raise DataError(
        f"the proof is about {statement.rows} rows and {statement.columns} columns that are no data"
        " set of the library; see benchmarks.referee.library.data_sets for those that are"
    )


def proof_files(folder: str | os.PathLike[str], number: str) -> list[Path]:
    """Return the proofs of an instance that a folder has."""
    return sorted(Path(folder).glob(f"{number}*.npz"))
