"""Proofs of instances: found by a solver, or in a file of somebody, and checked from the raw data by the second checker."""

from __future__ import annotations

import math
import os
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, NotCertified
from svmcvx.library.data_sets import DataSet, make_data_set, recorded
from svmcvx.library.index import Claim, rounded_down, rounded_up
from svmcvx.library.instances import Instance, instance_id, problem_of
from svmcvx.proofs import Proof, ProofFile, Statement, Verified, fingerprint, verify

__all__ = ["Checked", "checked_file", "claim_of", "data_of", "proof_files", "relabelled", "write_proof_of"]

# The gap that a solver is asked for: a tenth of the smallest class.
ASKED: Final = 1e-10
# Classes up to which all their orders are tried.
FEW_CLASSES: Final = 6


class Checked(NamedTuple):
    """A proof that the second checker confirms.

    Attributes
    ----------
    proof : Proof
    verified : Verified
    digest : str
    """

    proof: Proof
    verified: Verified
    digest: str


def write_proof_of(instance: Instance, data: DataSet, path: Path) -> None:
    """Solve an instance and write the proof of the answer.

    Raises
    ------
    SvmcvxError
        If there is no answer, or no proof of it.
    """
    instance.problem.solve(data.X, data.y, tol=ASKED).save_proof(path)


def checked_file(path: str | os.PathLike[str], data: DataSet) -> Checked:
    """Read a proof and have it checked from the data, whatever their classes are called in it.

    Raises
    ------
    NotCertified
        If it does not hold, or claims no upper end.
    DataError
        If the file is no proof, or about other data.
    """
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
        proof=checked.digest,
    )


def relabelled(data: DataSet, statement: Statement) -> NDArray[Any] | None:
    """Return the labels of the data as a proof calls them; None if it is about other data."""
    classes = np.unique(data.y)
    if data.X.shape != (statement.rows, statement.columns) or classes.size != len(statement.classes):
        return None
    codes = np.searchsorted(classes, data.y)
    orders = permutations(range(classes.size)) if classes.size <= FEW_CLASSES else [tuple(range(classes.size))]
    for order in orders:
        turned = np.asarray(order)[codes]
        if fingerprint(data.X, turned, coded=True) == statement.fingerprint:
            labels = np.empty(turned.size, dtype=object)
            labels[:] = [statement.classes[code] for code in turned]
            return np.asarray(labels.tolist())
    return None


def data_of(statement: Statement, data_dir: str | os.PathLike[str] | None) -> DataSet:
    """Return the data set of the library that a proof is about.

    Raises
    ------
    DataError
        If it is about none of them.
    """
    wanted = (statement.rows, statement.columns, len(statement.classes))
    for name, record in recorded().items():
        if (record.rows, record.columns, record.classes) == wanted:
            data = make_data_set(name, data_dir)
            if relabelled(data, statement) is not None:
                return data
    raise DataError(
        f"the proof is about {statement.rows} rows and {statement.columns} columns that are no data set of the library; "
        "see svmcvx.library.data_sets for those that are"
    )


def proof_files(folder: str | os.PathLike[str], number: str) -> list[Path]:
    """Return the proofs of an instance that a folder has."""
    return sorted(Path(folder).glob(f"{number}*.npz"))
