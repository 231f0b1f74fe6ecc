"""Checking the index: proofs are fetched from a folder or built, and each is gone through by the
second checker.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.referee.library.building import data_for, run_each, version_of_package
from benchmarks.referee.library.index import Bounds, Index
from benchmarks.referee.library.instances import Instance
from benchmarks.referee.library.proving import checked_file, claim_of, proof_files, write_proof_of
from svmcvx.errors import SvmcvxError
from svmcvx.experiments.store import Store, fingerprint
from svmcvx.experiments.workers import DIED

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AGREES", "CONFIRMED", "FAILED", "CheckedInstance", "LibraryCheck", "check"]

# The proofs that were checked prove what the index says; they prove an interval that meets that of
# the index; neither.
CONFIRMED: Final = "confirmed"
AGREES: Final = "agrees"
FAILED: Final = "failed"


class CheckedInstance(NamedTuple):
    """What the check of an instance has found.

    Attributes
    ----------
    id : str
    data_set, problem : str
    verdict : "confirmed", "agrees" or "failed"
        Whether the proofs prove the interval of the index; or hold and prove another that meets it,
        as one that was built on another machine may; or neither.
    why : str
        What fails.
    lower, upper : float or None
        What was proved.
    n_proofs : int
        Proofs that hold.
    n_bytes : int
        Their size.
    seconds : float
        Of processor time, for reading and checking, not for building.
    """

    id: str
    data_set: str
    problem: str
    verdict: str
    why: str
    lower: float | None
    upper: float | None
    n_proofs: int
    n_bytes: int
    seconds: float


@dataclass(frozen=True)
class LibraryCheck:
    """The result of :func:`check`; true in a condition if all was checked, every proof holds and
    none contradicts the index.

    Attributes
    ----------
    rows : tuple of CheckedInstance
    complete : bool
        Whether all was checked; false after Ctrl-C.
    """

    rows: tuple[CheckedInstance, ...]
    complete: bool = True

    def __bool__(self) -> bool:
        return self.complete and self.count(FAILED) == 0

    def count(self, verdict: str) -> int:
        """Return the number of instances with a verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=CheckedInstance._fields)

    def __str__(self) -> str:
        n_bytes, seconds = (
            sum(row.n_bytes for row in self.rows),
            sum(row.seconds for row in self.rows),
        )
        return (
            f"{len(self.rows)} instances: {self.count(CONFIRMED)} confirmed,"
            f" {self.count(AGREES)} agree, {self.count(FAILED)} failed;"
            f" {sum(row.n_proofs for row in self.rows)} proofs of {n_bytes} bytes checked in"
            f" {seconds:.1f} processor seconds"
        )


def check(
    instances: Iterable[Instance],
    proofs: str | os.PathLike[str] | None = None,
    *,
    index: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: Callable[[CheckedInstance], object] | None = None,
) -> LibraryCheck:
    """Check what the index says of instances, from the raw data.

    A proof that is not in the folder is built, in a temporary folder. Nothing of the index is
    believed: the second checker computes both ends of each proof, and they are compared with the
    index.

    Parameters
    ----------
    instances : iterable of Instance
        Those that the index does not have are passed over.
    proofs : path-like, optional
        Folder of proofs, as :func:`build` fills it.
    index : path-like, optional
        The index; that of the package by default.
    data_dir : path-like, optional
        Folder of the data sets of the papers.
    store : path-like, optional
        File (``.sqlite``) in which each verdict is kept as soon as it is there: the same call goes
        on with it. An instance is checked again where the index says something else of it, its
        proofs are other files, or the package has another version.
    n_jobs : int, optional
        Processes; 1 by default.
    progress : callable, optional
        Called with each :class:`CheckedInstance`, those of the store included.

    Returns
    -------
    LibraryCheck
        Of what was checked, also after Ctrl-C, which ends the check; ``complete`` tells.

    Raises
    ------
    DataError
        If the index cannot be read, or a data set cannot be had or is not the one that the package
        records, or the store cannot be used.
    """
    known = Index(index)
    wanted = {one.id: one for one in instances if one.id in known}
    rows: list[CheckedInstance] = []
    folder = None if proofs is None else str(proofs)

    def take(row: CheckedInstance) -> None:
        rows.append(row)
        if progress is not None:
            progress(row)

    kept = None if store is None else Store(store)
    try:
        with tempfile.TemporaryDirectory() as temporary, nullcontext() if kept is None else kept:
            keys = (
                {} if kept is None else {number: _key(known[number], folder) for number in wanted}
            )
            there = {} if kept is None else kept.found(keys.values())
            for number, key in keys.items():
                if key in there:
                    take(CheckedInstance(**there[key]))
                    del wanted[number]
            work = _Check({number: known[number] for number in wanted}, folder, temporary, data_dir)
            for number, result in run_each(work, wanted.values(), n_jobs=n_jobs):
                if kept is not None and result is not DIED:
                    kept.add(keys[number], result._asdict(), "library check")
                take(_died(known[number]) if result is DIED else result)
    except KeyboardInterrupt:
        return LibraryCheck(tuple(rows), complete=False)
    return LibraryCheck(tuple(rows))


def _key(known: Bounds, folder: str | None) -> str:
    """Return what a verdict depends on: what the index says, the bytes of the proofs, and the
    version where they are built.
    """
    files = [] if folder is None else proof_files(folder, known.id)
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return fingerprint("library check", version_of_package(), repr(known), digests)


@dataclass(frozen=True)
class _Check:
    """The check of one instance, which processes can load."""

    bounds: dict[str, Bounds]
    folder: str | None
    temporary: str
    data_dir: Any

    def __call__(self, instance: Instance) -> CheckedInstance:
        """Check one instance."""
        known = self.bounds[instance.id]
        data = data_for(instance.data_set, self.data_dir)
        files = [] if self.folder is None else proof_files(self.folder, instance.id)
        lower, upper, n_bytes, held, why = None, None, 0, 0, ""
        started = time.process_time()
        try:
            if not files:
                files = [Path(self.temporary, f"{instance.id}.npz")]
                write_proof_of(instance, data, files[0])
                started = time.process_time()
            for file in files:
                claim = claim_of(checked_file(file, data), data, who="", version="", date="")
                if claim.id != instance.id:
                    why = (
                        f"{file} is the proof of another instance, {claim.problem} on"
                        f" {claim.data_set}"
                    )
                    break
                lower = max((end for end in (lower, claim.lower) if end is not None), default=None)
                upper = claim.upper if upper is None else min(upper, claim.upper)
                n_bytes, held = n_bytes + file.stat().st_size, held + 1
        except SvmcvxError as error:
            why = str(error)
        seconds = time.process_time() - started
        verdict, why = _verdict(known, lower, upper, why)
        return CheckedInstance(
            known.id,
            known.data_set,
            known.problem,
            verdict,
            why,
            lower,
            upper,
            held,
            n_bytes,
            seconds,
        )


def _verdict(known: Bounds, lower: float | None, upper: float | None, why: str) -> tuple[str, str]:
    if why or upper is None:
        return FAILED, why
    for low, high in ((lower, known.upper), (known.lower, upper)):
        if low is not None and low > high:
            return (
                FAILED,
                f"proved [{lower!r}, {upper!r}], the index says [{known.lower!r}, {known.upper!r}]",
            )
    proved_lower = known.lower is None or (lower is not None and lower >= known.lower)
    return (CONFIRMED if proved_lower and upper <= known.upper else AGREES), ""


def _died(known: Bounds) -> CheckedInstance:
    return CheckedInstance(
        known.id, known.data_set, known.problem, FAILED, "its process ended", None, None, 0, 0, 0.0
    )
