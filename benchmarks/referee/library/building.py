"""Building proofs of instances, and taking proofs of others into the index."""

from __future__ import annotations

import datetime
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.referee.library.data_sets import DataSet, make_data_set
from benchmarks.referee.library.index import Claim, Index
from benchmarks.referee.library.instances import Instance, problem_of
from benchmarks.referee.library.proving import (
    checked_file,
    claim_of,
    data_of,
    proof_files,
    write_proof_of,
)
from svmcvx.datasets.files import write_npz
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.experiments.workers import DIED, Call, results, workers
from svmcvx.proofs import ProofFile

__all__ = ["Added", "Built", "add", "build", "data_for", "fetch", "run_each", "version_of_package"]

# Seconds between two writings of the index while proofs are built.
PAUSE: Final = 20.0


class Built(NamedTuple):
    """What became of one instance.

    Attributes
    ----------
    id : str
    claim : Claim or None
        What its proof says; None where there is no proof.
    why : str
        Why there is none.
    new : bool
        Whether the claim narrows what the index said.
    """

    id: str
    claim: Claim | None
    why: str
    new: bool


class Added(NamedTuple):
    """What a proof has changed.

    Attributes
    ----------
    claim : Claim
        What it says.
    new : bool
        Whether this narrows what the index said.
    """

    claim: Claim
    new: bool


def build(
    instances: Iterable[Instance],
    proofs: str | os.PathLike[str],
    *,
    index: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    who: str = "svmcvx",
    date: str | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Built], object] | None = None,
) -> list[Built]:
    """Build the proofs of instances, check each from the raw data, and take what they say into an
    index.

    The folder of proofs is the store: an instance whose proof is there is checked and not solved
    again, so that a run that was ended by Ctrl-C, or in any other way, is resumed by the same call.
    The index is written now and then and at the end, also after Ctrl-C.

    Parameters
    ----------
    instances : iterable of Instance
        See :func:`benchmarks.referee.library.instances`.
    proofs : path-like
        Folder for the proofs, one file an instance; made if it does not exist.
    index : path-like, optional
        The index; that of the package by default.
    data_dir : path-like, optional
        Folder of the data sets of the papers.
    who : str
        Who is named in the index.
    date : str, optional
        As in ``"2026-11-23"``; today by default.
    n_jobs : int, optional
        Processes; 1 by default.
    progress : callable, optional
        Called with each :class:`Built`.

    Returns
    -------
    list of Built

    Raises
    ------
    DataError
        If the folder or the index cannot be used, or a data set cannot be had or is not the one
        that the package records.
    """
    folder = Path(proofs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"proofs cannot be used as a folder: {error}") from None
    known, written, found = Index(index), time.monotonic(), []
    said = {"who": who, "version": version_of_package(), "date": _date(date)}
    try:
        for number, result in run_each(
            _built, instances, str(folder), data_dir, said, n_jobs=n_jobs
        ):
            claim, why = (None, "its process ended") if result is DIED else result
            new = claim is not None and known.merge(claim)
            found.append(Built(number, claim, why, new))
            if progress is not None:
                progress(found[-1])
            if time.monotonic() - written > PAUSE:
                known.write()
                written = time.monotonic()
    finally:
        known.write()
    return found


def run_each(
    function: Callable[..., Any], instances: Iterable[Instance], *more: Any, n_jobs: int | None
) -> Iterator[Any]:
    """Yield the number and the result of a function for each instance, in any order; its process
    ended where that is :data:`DIED`.
    """
    work: dict[str, Call] = {one.id or str(one): (function, (one, *more)) for one in instances}
    with workers(None, n_jobs) as parallel:
        if parallel is not None:
            yield from results(work, parallel)
            return
        for number, (call, arguments) in work.items():
            yield number, call(*arguments)


@lru_cache(maxsize=2)
def data_for(name: str, data_dir: Any) -> DataSet:
    """Return a data set; instances of one set follow each other."""
    return make_data_set(name, data_dir)


def _built(
    instance: Instance, folder: str, data_dir: Any, said: dict[str, str]
) -> tuple[Claim | None, str]:
    data = data_for(instance.data_set, data_dir)
    path = Path(folder, f"{instance.bound_to(data).id}.npz")
    try:
        if not path.exists():
            write_proof_of(instance, data, path)
        claim = claim_of(checked_file(path, data), data, **said)
    except SvmcvxError as error:
        return None, str(error)
    if claim.id != path.stem:
        return (
            None,
            (
                f"{path} is the proof of another instance, {claim.problem} on {claim.data_set};"
                " remove it"
            ),
        )
    return claim, ""


def add(
    proof: str | os.PathLike[str],
    *,
    who: str,
    version: str = "",
    date: str | None = None,
    index: str | os.PathLike[str] | None = None,
    proofs: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Added:
    """Check a proof of anybody and take it into the index: the largest lower and the smallest upper
    bound stay.

    What the file says of its data and its problem decides the instance; nothing in it is believed.

    Parameters
    ----------
    proof : path-like
        A file in the format of ``docs/proof_format.md``.
    who : str
        Who found it.
    version : str
        With what.
    date : str, optional
        As in ``"2026-11-23"``; today by default.
    index : path-like, optional
        The index; that of the package by default.
    proofs : path-like, optional
        Folder of proofs to which a proof that narrows an interval is copied.
    data_dir : path-like, optional
        Folder of the data sets of the papers.

    Returns
    -------
    Added

    Raises
    ------
    NotCertified
        If the proof does not hold. The index is as before.
    DataError
        If the file is no proof, or not about a data set of the library, or contradicts what is
        known.
    """
    if (
        not isinstance(who, str)
        or not who.strip()
        or any(not text.isprintable() for text in (who, version))
    ):
        raise DataError(f"who must be a name, in one line, got {who!r}")
    with ProofFile(proof) as file:
        statement = file.read().statement
    problem_of(statement)
    data = data_of(statement, data_dir)
    claim = claim_of(checked_file(proof, data), data, who=who, version=version, date=_date(date))
    known = Index(index)
    new = known.merge(claim)
    if new:
        if proofs is not None:
            _keep(Path(proof), Path(proofs), claim)
        known.write()
    return Added(claim, new)


def fetch(
    instance: Instance, data: DataSet, folder: Path, *, proofs: str | os.PathLike[str] | None = None
) -> tuple[Path, Path]:
    """Write the data of an instance and a proof of it into a folder; return both files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / f"data-{instance.id}.npz"
        write_npz(written, data.X, np.asarray(data.y))
        proof = folder / f"{instance.id}.npz"
        there = [] if proofs is None else proof_files(proofs, instance.id)
        for path in there:
            if path.resolve() != (folder / path.name).resolve():
                shutil.copyfile(path, folder / path.name)
    except OSError as error:
        raise DataError(f"{folder} cannot be used as a folder: {error}") from None
    if not proof.exists():
        write_proof_of(instance, data, proof)
    return written, proof


def _keep(proof: Path, folder: Path, claim: Claim) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = (
            f"{claim.id}-{claim.proof[:12]}.npz"
            if proof_files(folder, claim.id)
            else f"{claim.id}.npz"
        )
        shutil.copyfile(proof, folder / name)
    except OSError as error:
        raise DataError(f"proofs cannot be used as a folder: {error}") from None


def _date(date: str | None) -> str:
    if date is None:
        return datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    try:
        return datetime.date.fromisoformat(date).isoformat()
    except (TypeError, ValueError):
        raise DataError(f"date must be one such as '2026-11-23', got {date!r}") from None


def version_of_package() -> str:
    """Return the name of this package with its version."""
    return f"svmcvx {import_module('svmcvx').__version__}"
