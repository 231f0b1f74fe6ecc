"""A library of proved optima: instances known by their content, an index of what is proved of each,
and the second checker as its referee.

>>> from benchmarks.referee import library
>>> instance = library.instances("core")[0]
>>> print(instance)
psvm C=0.001 p=1 intercept=free on breast_cancer/standard
>>> bounds = library.Index()[instance.id]
>>> bounds.status, bounds.tolerance
('proved', '1e-9')
"""

from __future__ import annotations

import datetime
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd

import svmcvx as sx
from benchmarks.referee.index import PROOF_DIGITS, Bounds, Claim, Index, rounded_down, rounded_up
from benchmarks.referee.instances import (
    PARTS,
    SEARCHES,
    DataSet,
    Instance,
    Problem,
    data_digest,
    instance_id,
    listed,
    make_data_set,
    problem_of,
    recorded,
)
from svmcvx.proofs import Proof, ProofFile, Statement, Verified, fingerprint, verify, write_proof

# The gap that a solver is asked for: a tenth of the smallest class.
ASKED = 1e-10
# Classes up to which all their orders are tried.
FEW_CLASSES = 6
# Seconds between two writings of the index while proofs are built.
PAUSE = 20.0


# What there is


def instances(
    part: str = "core",
    *,
    kind: str = "all",
    hard: bool = False,
    index: str | os.PathLike[str] | None = None,
) -> list[Instance]:
    """Return the instances of a part: the core is on data that come with scikit-learn or are
    generated, the extended part on data sets of the papers, the open part has those of both whose
    interval is wider than 1e-3. `kind` is "convex" or "search"; hard ones are wider than 1e-9.
    """
    if part not in (*PARTS, "open", "all"):
        raise sx.DataError(f"part must be 'core', 'extended', 'open' or 'all', got {part!r}")
    if kind not in ("all", "convex", "search"):
        raise sx.DataError(f"kind must be 'all', 'convex' or 'search', got {kind!r}")
    names = PARTS if part in ("open", "all") else (part,)
    found = [one for name in names for one in listed(name)]
    if kind != "all":
        found = [
            one for one in found if (one.problem.formulation in SEARCHES) == (kind == "search")
        ]
    if part != "open" and not hard:
        return found
    known = Index(index)
    tolerances = {one.id: known[one.id].tolerance for one in found if one.id in known}
    return [
        one
        for one in found
        if one.id in tolerances
        and (part != "open" or tolerances[one.id] == "open")
        and (not hard or tolerances[one.id] != "1e-9")
    ]


def find(number: str) -> Instance:
    """Return the instance of a number, or of its first digits if no other begins with them."""
    wanted = str(number).lower()
    found = [one for part in PARTS for one in listed(part) if wanted and one.id.startswith(wanted)]
    if len(found) != 1:
        raise sx.DataError(
            f"{'no instance' if not found else f'{len(found)} instances'} of the library begins"
            f" with {number!r}; 'python -m benchmarks.referee list' shows them"
        )
    return found[0]


def get(number: str, *, data_dir: str | os.PathLike[str] | None = None) -> tuple[DataSet, Problem]:
    """Return the data and the problem of an instance: ``problem.build(data.X, data.y)`` is a
    problem of cvxpy, ``problem.solve(data.X, data.y, tol=1e-9)`` solves it.
    """
    instance = find(number)
    return make_data_set(instance.data_set, data_dir), instance.problem


def lookup(
    X: Any, y: Any, problem: Any, *, index: str | os.PathLike[str] | None = None
) -> Bounds | None:
    """Return what the library knows of the optimum of a problem on data, or None; nothing is
    solved. The problem is a text such as ``"psvm C=1 p=2 intercept=free"``, a problem of a builder,
    or that of an instance. The names of the classes make no difference.

    >>> import svmcvx as sx
    >>> data, _ = get(instances()[0].id)
    >>> known = lookup(data.X, data.y, sx.psvm_dual(data.X, data.y, C=1.0, p=1.0))
    >>> known.tolerance, round(known.upper, 6)
    ('1e-9', 26.525455)
    >>> lookup(data.X, data.y, "psvm C=1.234 p=1 intercept=free") is None
    True
    """
    if isinstance(problem, str):
        problem = Problem.read(problem)
    elif callable(getattr(problem, "proof_statement", None)):
        problem = problem_of(problem.proof_statement())
    elif not isinstance(problem, Problem):
        raise sx.DataError(
            f"problem must be a text, a problem or that of a builder, got {type(problem).__name__}"
        )
    return Index(index).get(instance_id(data_digest(X, y), problem))


# Proofs


class Checked(NamedTuple):
    """A proof that the second checker confirms."""

    proof: Proof
    verified: Verified
    digest: str


def checked_file(path: str | os.PathLike[str], data: DataSet) -> Checked:
    """Read a proof and have it checked from the data, whatever their classes are called in it."""
    with ProofFile(path) as file:
        proof, digest = file.read(), file.digest
    labels = relabelled(data, proof.statement)
    if labels is None:
        raise sx.DataError(f"{path} is a proof about other data than {data.name}")
    found = verify(proof, data.X, labels)
    if not found.holds:
        raise sx.NotCertified(f"the proof {path} does not hold: {found.why}")
    if not math.isfinite(found.upper):
        raise sx.NotCertified(f"the proof {path} claims no upper end")
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


def relabelled(data: DataSet, statement: Statement) -> Any:
    """Return the labels of the data as a proof calls them; None if it is about other data."""
    classes, codes = np.unique(data.y, return_inverse=True)
    if (*data.X.shape, classes.size) != (statement.rows, statement.columns, len(statement.classes)):
        return None
    own = tuple(range(classes.size))
    for order in permutations(own) if classes.size <= FEW_CLASSES else [own]:
        turned = np.asarray(order)[codes]
        if fingerprint(data.X, turned, coded=True) == statement.fingerprint:
            return np.asarray([statement.classes[code] for code in turned])
    return None


def data_of(statement: Statement, data_dir: str | os.PathLike[str] | None) -> DataSet:
    """Return the data set of the library that a proof is about."""
    wanted = (statement.rows, statement.columns, len(statement.classes))
    for name, record in recorded().items():
        if record[:3] == wanted:
            data = make_data_set(name, data_dir)
            if relabelled(data, statement) is not None:
                return data
    raise sx.DataError(
        f"the proof is about {statement.rows} rows and {statement.columns} columns that are no data"
        " set of the library"
    )


def proof_files(folder: str | os.PathLike[str], number: str) -> list[Path]:
    """Return the proofs of an instance that a folder has."""
    return sorted(Path(folder).glob(f"{number}*.npz"))


def prove(
    instance: Instance,
    model: Any,
    path: str | os.PathLike[str],
    *,
    dual: Mapping[str, Any] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Verified:
    """Write what a model of anybody proves of an instance to a file: an upper end, and with a dual
    point, named as in ``docs/proof_format.md`` and feasible but for rounding, a lower one. The
    model is ``(coef, intercept)``, or a mapping with ``dual_coef``, one per row, and ``intercept``.
    """
    data, problem = make_data_set(instance.data_set, data_dir), instance.problem
    if problem.formulation == "conic":
        raise sx.DataError("a conic model has a covariance beside its coefficients; solve build()")
    if isinstance(model, Mapping):
        expansion = np.asarray(model["dual_coef"], dtype=np.float64)
        if expansion.shape != data.y.shape:
            raise sx.DataError(f"dual_coef must have one entry per row, {data.y.size}")
        arrays = {"support": np.arange(data.y.size), "dual_coef": expansion}
        arrays["intercept"] = np.float64(model["intercept"])
    else:
        coef, intercept = model
        arrays = {"coef": np.ravel(coef).astype(np.float64), "intercept": np.float64(intercept)}
    built = problem.build(data.X, data.y)
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
        raise sx.NotCertified(
            f"the model and the dual point prove nothing of {instance}: {found.why}"
        )
    write_proof(path, replace(proof, lower=found.lower if dual else None, upper=found.upper))
    return found


class Added(NamedTuple):
    """What a proof says, and whether this narrows what the index said."""

    claim: Claim
    new: bool


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
    bound stay. What the file says of its data and its problem decides the instance; nothing in it
    is believed. A proof that narrows an interval is copied to the folder `proofs`.
    """
    for name, text in (("who", who), ("version", version)):
        # The index is opened by programs that compute cells that begin with these.
        if not isinstance(text, str) or not text.isprintable() or text[:1] in tuple("=+-@"):
            raise sx.DataError(
                f"{name} must be a text in one line, not of =, +, -, @, got {text!r}"
            )
    if not who.strip():
        raise sx.DataError(f"who must be a name, got {who!r}")
    with ProofFile(proof) as file:
        statement = file.read().statement
    problem_of(statement)
    data = data_of(statement, data_dir)
    claim = claim_of(checked_file(proof, data), data, who=who, version=version, date=_day(date))
    known = Index(index)
    new = known.merge(claim)
    if new:
        if proofs is not None:
            there = proof_files(proofs, claim.id)
            name = f"{claim.id}-{claim.proof[:12]}.npz" if there else f"{claim.id}.npz"
            _copied(proof, Path(proofs) / name)
        known.write()
    return Added(claim, new)


def _day(date: str | None) -> str:
    if date is None:
        return datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    try:
        return datetime.date.fromisoformat(date).isoformat()
    except (TypeError, ValueError):
        raise sx.DataError(f"date must be one such as '2026-11-23', got {date!r}") from None


def _copied(source: str | os.PathLike[str], target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    except OSError as error:
        raise sx.DataError(f"{target.parent} cannot be used as a folder: {error}") from None


# Many instances


@lru_cache(maxsize=2)
def _data_for(name: str, data_dir: Any) -> DataSet:
    """Return a data set; instances of one set follow each other."""
    return make_data_set(name, data_dir)


def _each(
    function: Callable[[Instance], Any], chosen: Iterable[Instance], n_jobs: int | None
) -> Iterator[Any]:
    """Yield the results of a function for each instance, in any order."""
    if n_jobs in (None, 1):
        yield from map(function, chosen)
        return
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from parallel(joblib.delayed(function)(one) for one in chosen)


class Built(NamedTuple):
    """What became of one instance: the claim of its proof, or why there is none."""

    id: str
    claim: Claim | None
    why: str


def _built(instance: Instance, folder: str, data_dir: Any, said: dict[str, str]) -> Built:
    data = _data_for(instance.data_set, data_dir)
    path = Path(folder, f"{instance.id}.npz")
    try:
        if not path.exists():
            instance.problem.solve(data.X, data.y, tol=ASKED).save_proof(path)
        claim = claim_of(checked_file(path, data), data, **said)
    except sx.SvmcvxError as error:
        return Built(instance.id, None, str(error))
    if claim.id != instance.id:
        return Built(instance.id, None, f"{path} is the proof of another instance; remove it")
    return Built(instance.id, claim, "")


def build(
    chosen: Iterable[Instance],
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
    again, so that the same call goes on after Ctrl-C. The index is written now and then and at the
    end, also after Ctrl-C.
    """
    Path(proofs).mkdir(parents=True, exist_ok=True)
    said = {"who": who, "version": f"svmcvx {sx.__version__}", "date": _day(date)}
    known, found, written = Index(index), [], time.monotonic()
    work = partial(_built, folder=str(proofs), data_dir=data_dir, said=said)
    try:
        for one in _each(work, chosen, n_jobs):
            if one.claim is not None:
                known.merge(one.claim)
            found.append(one)
            if progress is not None:
                progress(one)
            if time.monotonic() - written > PAUSE:
                known.write()
                written = time.monotonic()
    finally:
        known.write()
    return found


def fetch(
    instance: Instance, data: DataSet, folder: Path, *, proofs: str | os.PathLike[str] | None = None
) -> tuple[Path, Path]:
    """Write the data of an instance and a proof of it into a folder; return both files."""
    for path in [] if proofs is None else proof_files(proofs, instance.id):
        if path.resolve() != (folder / path.name).resolve():
            _copied(path, folder / path.name)
    folder.mkdir(parents=True, exist_ok=True)
    written, proof = folder / f"data-{instance.id}.npz", folder / f"{instance.id}.npz"
    np.savez_compressed(written, X=data.X, y=np.asarray(data.y))
    if not proof.exists():
        instance.problem.solve(data.X, data.y, tol=ASKED).save_proof(proof)
    return written, proof


class CheckedInstance(NamedTuple):
    """What the check of an instance has found: ``"confirmed"`` if the proofs prove the interval of
    the index, ``"agrees"`` if they hold and prove another that meets it, as one that was built on
    another machine may, ``"failed"`` otherwise; with the number, bytes and processor seconds of the
    proofs.
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
    """

    rows: tuple[CheckedInstance, ...]
    complete: bool = True

    def __bool__(self) -> bool:
        return self.complete and self.count("failed") == 0

    def count(self, verdict: str) -> int:
        """Return the number of instances with a verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a data frame."""
        return pd.DataFrame(self.rows, columns=CheckedInstance._fields)

    def __str__(self) -> str:
        frame = self.to_frame()
        counts = ", ".join(f"{self.count(v)} {v}" for v in ("confirmed", "agrees", "failed"))
        return (
            f"{len(frame)} instances: {counts}; {frame['n_proofs'].sum()} proofs of"
            f" {frame['n_bytes'].sum()} bytes checked in {frame['seconds'].sum():.1f} processor"
            " seconds"
        )


def check(
    chosen: Iterable[Instance],
    proofs: str | os.PathLike[str] | None = None,
    *,
    index: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> LibraryCheck:
    """Check what the index says of instances, from the raw data: the second checker computes both
    ends of each proof, of a folder or built anew, and they are compared with the index. Instances
    that the index does not have are passed over; Ctrl-C ends the check.
    """
    known, rows = Index(index), []
    with tempfile.TemporaryDirectory() as temporary:
        work = partial(
            _checked,
            bounds={one.id: one for one in known},
            folder=None if proofs is None else str(proofs),
            temporary=temporary,
            data_dir=data_dir,
        )
        try:
            rows.extend(_each(work, (one for one in chosen if one.id in known), n_jobs))
        except KeyboardInterrupt:
            return LibraryCheck(tuple(rows), complete=False)
    return LibraryCheck(tuple(rows))


def _checked(
    instance: Instance,
    bounds: Mapping[str, Bounds],
    folder: str | None,
    temporary: str,
    data_dir: Any,
) -> CheckedInstance:
    known, data = bounds[instance.id], _data_for(instance.data_set, data_dir)
    files = [] if folder is None else proof_files(folder, instance.id)
    lower, upper, n_bytes, held, why = None, None, 0, 0, ""
    started = time.process_time()
    try:
        if not files:
            files = [Path(temporary, f"{instance.id}.npz")]
            instance.problem.solve(data.X, data.y, tol=ASKED).save_proof(files[0])
            started = time.process_time()
        for file in files:
            claim = claim_of(checked_file(file, data), data, who="", version="", date="")
            if claim.id != instance.id:
                why = f"{file} is the proof of another instance, {claim.problem}"
                break
            lower = max((end for end in (lower, claim.lower) if end is not None), default=None)
            upper = claim.upper if upper is None else min(upper, claim.upper)
            n_bytes, held = n_bytes + file.stat().st_size, held + 1
    except sx.SvmcvxError as error:
        why = str(error)
    seconds = time.process_time() - started
    verdict, why = _verdict(known, lower, upper, why)
    found = (lower, upper, held, n_bytes, seconds)
    return CheckedInstance(known.id, known.data_set, known.problem, verdict, why, *found)


def _verdict(known: Bounds, lower: float | None, upper: float | None, why: str) -> tuple[str, str]:
    if why or upper is None:
        return "failed", why
    for low, high in ((lower, known.upper), (known.lower, upper)):
        if low is not None and low > high:
            return (
                "failed",
                f"proved [{lower!r}, {upper!r}], the index says [{known.lower!r}, {known.upper!r}]",
            )
    proved_lower = known.lower is None or (lower is not None and lower >= known.lower)
    return ("confirmed" if proved_lower and upper <= known.upper else "agrees"), ""
