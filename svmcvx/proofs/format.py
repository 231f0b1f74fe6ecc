"""The file of a proof, a zip archive of a JSON header and numpy arrays, and the name of the data
that it is about.

``docs/proof_format.md`` is the normative description. Everything that the header says is held
against the tables of the format, and every array against the header, before an array is read. The
digest and the fingerprint guard against accidents: no bound rests on them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.statement import (
    CLAIM,
    FIELDS,
    Sizes,
    Statement,
    bytes_of,
    checked_claim,
    checked_test,
    dtype_of,
    exactly,
    plain,
    require_arrays,
    require_keys,
)

PathLike: TypeAlias = str | os.PathLike[str]

FORMAT: Final = "svmcvx-proof"
# The versions of files with the cells of a search over directions, sets that no point keeps, or
# blocks of the rows; all other proofs are of version 2.
VERSIONS: Final = {"tree.cut": 3, "tree.paid": 3, "tree.block": 4}
HEADER: Final = "header.json"
DIGEST: Final = "digest.txt"
MAPPINGS: Final = ("model", "dual", "tree", "scores")
# Limits of the archive: members, bytes of the header, and of what may be deflated to less than a
# share of its size.
MEMBERS: Final = 64
SMALL: Final = 2**20
SHRINKING: Final = 64
# The end of a zip archive without a comment, and the mark of one beyond four gigabytes.
END: Final = struct.Struct("<4s4H2LH")
ZIP64: Final = b"PK\x06\x07"
MAGIC: Final = b"\x93NUMPY\x01\x00"
ARRAY_HEADER: Final = re.compile(
    rb"\{\s*'descr'\s*:\s*'([^']{1,8})'\s*,\s*'fortran_order'\s*:\s*False\s*,\s*'shape'\s*:\s*\(([0-9,"
    rb" ]{0,99})\)\s*,?\s*\}\s*"
)
# Rows that a fingerprint looks at.
SAMPLE: Final = 32


@dataclass(frozen=True, eq=False, repr=False)
class Proof:
    """Claims about a problem, and the numbers from which they follow."""

    statement: Statement
    model: Mapping[str, Any]
    dual: Mapping[str, Any]
    lower: float | None
    upper: float | None
    kind: str = "convex"
    stated: float | None = None
    tree: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    test: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.statement, Statement):
            raise DataError(
                f"the statement of a proof must be a Statement, got {type(self.statement).__name__}"
            )
        given = plain({name: getattr(self, name) for name in CLAIM})
        found: dict[str, Any] = checked_claim(self.statement.formulation, given)
        for name in MAPPINGS:
            arrays = getattr(self, name).items()
            found[name] = {key: exactly(f"{name}.{key}", values) for key, values in arrays}
        if self.test is not None:
            found["test"] = checked_test(self.statement, self.test)
        for name, value in found.items():
            object.__setattr__(self, name, value)
        shapes = {name: values.shape for name, values in self.arrays.items()}
        require_arrays(self.statement, self.kind, shapes, self.test)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        families = {name: getattr(self, name) for name in MAPPINGS}
        return {
            f"{family}.{key}": values
            for family, arrays in {"statement": self.statement.arrays, **families}.items()
            for key, values in arrays.items()
        }

    def __repr__(self) -> str:
        lower, upper = ("none" if end is None else f"{end:.9g}" for end in (self.lower, self.upper))
        about = self.statement
        return (
            f"Proof({about.formulation}: {self.kind}, lower {lower}, upper {upper},"
            f" {about.rows} observations, data {about.fingerprint})"
        )


@contextmanager
def atomic_write(path: PathLike) -> Iterator[IO[bytes]]:
    """Yield a stream to a temporary file that replaces `path` if the block succeeds; raise a
    DataError where no file can be written.
    """
    target = Path(path)
    # Not by tempfile, whose files others may not read.
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as stream:
            yield stream
        temporary.replace(target)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror}); name a file in an existing folder"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_proof(path: PathLike, proof: Proof) -> None:
    """Write a proof to a file, whole or not at all."""
    arrays, statement = proof.arrays, proof.statement.plain
    numbers = statement["hyperparameters"].items()
    statement["hyperparameters"] = {name: "inf" if x == math.inf else x for name, x in numbers}
    header = {
        "format": FORMAT,
        "version": _version_of(arrays),
        "statement": statement,
        "claim": {name: getattr(proof, name) for name in CLAIM},
        "arrays": {name: {"dtype": v.dtype.str, "shape": v.shape} for name, v in arrays.items()},
        **({} if proof.test is None else {"test": proof.test}),
    }
    members = {HEADER: json.dumps(header, allow_nan=False).encode()}
    if len(members[HEADER]) > SMALL:
        raise DataError(
            "the labels take more than a megabyte; encode them as integers before training"
        )
    for name, values in sorted(arrays.items()):
        stream = io.BytesIO()
        np.lib.format.write_array(stream, values, version=(1, 0), allow_pickle=False)
        members[f"{name}.npy"] = stream.getvalue()
    members[DIGEST] = hashlib.sha256(b"".join(members.values())).hexdigest().encode()
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, _compression(name, content))


def _version_of(arrays: Mapping[str, Any]) -> int:
    return max([2, *(VERSIONS[name] for name in VERSIONS if name in arrays)])


def _compression(name: str, content: bytes) -> int:
    """Deflate small arrays, and large ones of integers and of trees unless they shrink too much."""
    deflated = name.endswith(".npy")
    if len(content) > SMALL:
        shrinks = name.startswith("tree.") or dtype_of(name.removesuffix(".npy")) != "<f8"
        deflated = shrinks and len(zlib.compress(content)) * SHRINKING >= len(content)
    return zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED


class ProofFile(AbstractContextManager["ProofFile"]):
    """An open proof, whose header has been checked; arrays are read by :meth:`read`."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        try:
            self._stream = Path(path).open("rb")  # noqa: SIM115 - closed with this
        except FileNotFoundError:
            raise DataError(f"{path} does not exist; pass the file of a proof") from None
        except (OSError, TypeError, ValueError) as error:
            raise DataError(
                f"{path!r} cannot be read ({getattr(error, 'strerror', None) or error})"
            ) from None
        try:
            with _damage_of(path):
                self._archive, self._members = _archive(path, self._stream)
                text = self._archive.read(HEADER)
                self._sha = hashlib.sha256(text)
                self.statement, self.claim, self.shapes, self.test = _header(path, text.decode())
                self._require_members()
        except BaseException:
            self._stream.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _require_members(self) -> None:
        """Refuse members that the header does not name, and sizes that differ from its arrays."""
        wanted = {f"{name}.npy": name for name in self.shapes}
        for strange in sorted(self._members.keys() ^ {HEADER, DIGEST, *wanted})[:1]:
            raise DataError(
                f"{self.path} is damaged: header and member {strange!r} do not belong together"
            )
        if self._members[DIGEST].file_size != 64:
            raise DataError(f"{self.path} is damaged: its digest is not one of 64 digits")
        for member, name in wanted.items():
            info, size = self._members[member], bytes_of(name, self.shapes[name])
            if not size < info.file_size <= size + SMALL:
                raise DataError(
                    f"{self.path} is damaged: the size of {name} is not that of its shape"
                )
            if info.file_size > max(SMALL, SHRINKING * info.compress_size):
                raise DataError(
                    f"{self.path} is refused: {name} is deflated to less than a {SHRINKING}th of"
                    " its size"
                )

    @property
    def digest(self) -> str:
        """The digest that the file states; :meth:`read` compares it with that of the content."""
        return self._archive.read(DIGEST).decode()

    def read(self) -> Proof:
        found: dict[str, Any] = {name: {} for name in ("statement", *MAPPINGS)}
        with _damage_of(self.path):
            for name in sorted(self.shapes):
                family, _, key = name.partition(".")
                found[family][key] = self._array(name)
            if self.digest != self._sha.hexdigest():
                raise DataError(f"{self.path} is corrupted: its contents do not match their digest")
        statement = replace(self.statement, **found.pop("statement"))
        return Proof(statement=statement, **found, **self.claim, test=self.test)

    def _array(self, name: str) -> NDArray[Any]:
        shape, dtype = self.shapes[name], dtype_of(name)
        # As long as its shape says, see above.
        content = self._archive.read(f"{name}.npy")
        self._sha.update(content)
        first = len(MAGIC) + 2
        start = first + int.from_bytes(content[len(MAGIC) : first], "little")
        said = ARRAY_HEADER.fullmatch(content[first:start])
        same = (
            content.startswith(MAGIC)
            and said is not None
            and said[1].decode() == dtype
            and tuple(int(size) for size in said[2].split(b",") if size.strip()) == shape
            and start + bytes_of(name, shape) == len(content)
        )
        if not same:
            raise DataError(
                f"{self.path} is damaged: {name} is not an array of dtype {dtype} and shape {shape}"
            )
        return np.ndarray(shape, dtype=dtype, buffer=content, offset=start)


def read_proof(path: PathLike) -> Proof:
    with ProofFile(path) as file:
        return file.read()


@contextmanager
def _damage_of(path: PathLike) -> Iterator[None]:
    """Report any error of the readers of archives, texts and arrays as a damaged file."""
    damage = (EOFError, RuntimeError, ValueError, KeyError, OverflowError, MemoryError)
    try:
        yield
    except DataError:
        raise
    except (OSError, zipfile.BadZipFile, zlib.error, struct.error, *damage) as error:
        reason = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        raise DataError(f"{path} is not the file of a proof, or is corrupted{reason}") from None


def _archive(
    path: PathLike, stream: IO[bytes]
) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    """Return an archive and its members by their names, once the directory is known to be small."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - END.size - 20))
    tail = stream.read()
    mark, *_, directory, _, comment = END.unpack(tail[-END.size :])
    ordinary = mark == b"PK\x05\x06" and comment == 0 and directory <= SMALL
    if not ordinary or (tail[: len(ZIP64)] == ZIP64 and size < 2**31 - SMALL):
        raise DataError(f"{path} is not the file of a proof, or is corrupted")
    archive = zipfile.ZipFile(stream)
    members = archive.infolist()
    names = {member.filename: member for member in members}
    if "header.npy" in names:
        raise DataError(f"{path} has proof format 1, which is not read any more; save a new proof")
    if HEADER not in names:
        raise DataError(f"{path} is not the file of a proof: it has no header")
    why = ""
    if len(names) < len(members) or len(members) > MEMBERS:
        why = f"it has two members of one name, or more than {MEMBERS} members"
    elif any(member.flag_bits & 1 or member.compress_type not in (0, 8) for member in members):
        why = "a member is neither stored nor deflated"
    elif names[HEADER].file_size > SMALL:
        why = f"its header has more than {SMALL} bytes"
    if why:
        raise DataError(f"{path} is damaged: {why}")
    return archive, names


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DataError("the header of a proof says the same name twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise DataError(f"the header of a proof holds {text}, which is not a number of JSON")


def _header(
    path: PathLike, text: str
) -> tuple[Statement, dict[str, Any], dict[str, Sizes], dict[str, Any] | None]:
    """Return what a header says: the statement, the claim, the shapes of arrays, and test rows."""
    content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path} is not the file of a proof: its header does not say so")
    version = content.get("version")
    arrays = content.get("arrays")
    expected = _version_of(arrays if isinstance(arrays, dict) else {})
    if type(version) is not int or version != expected:
        raise DataError(f"{path} has another proof format than {expected}; upgrade svmcvx")
    tested = ("test",) if "test" in content else ()
    require_keys(content, "header", ("format", "version", "statement", "claim", "arrays", *tested))
    said = dict(require_keys(content["statement"], "statement", FIELDS))
    if isinstance(said["hyperparameters"], dict):
        numbers = said["hyperparameters"].items()
        said["hyperparameters"] = {name: math.inf if x == "inf" else x for name, x in numbers}
    statement = Statement(**said)
    claim = checked_claim(said["formulation"], require_keys(content["claim"], "claim", CLAIM))
    if not isinstance(content["arrays"], dict):
        raise DataError("the arrays of the header of a proof must be given by their names")
    shapes = {}
    for name, described in content["arrays"].items():
        what = f"array {name[:40]!r}"
        shape = require_keys(described, what, ("dtype", "shape"))["shape"]
        sizes = shape if isinstance(shape, list) else [None]
        if not all(type(size) is int and 0 <= size < 2**48 for size in sizes):
            raise DataError(
                f"the shape of the {what} of a proof must be sizes, got {str(shape)[:60]}"
            )
        if described["dtype"] != dtype_of(name):
            raise DataError(f"the dtype of the {what} of a proof must be {dtype_of(name)}")
        shapes[name] = tuple(sizes)
    test = checked_test(statement, content["test"]) if tested else None
    require_arrays(statement, claim["kind"], shapes, test)
    return statement, claim, shapes, test


def fingerprint(X: Any, y: Any, *, coded: bool = False) -> str:
    """Return a short name of the data, the same for dense and sparse storage."""
    rows = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    labels = np.asarray(y).ravel()
    codes = labels if coded else np.unique(labels, return_inverse=True)[1]
    n, d = rows.shape
    part: Any = rows[:: max(1, n // SAMPLE)]
    if sp.issparse(part):
        part.sum_duplicates()
        part.eliminate_zeros()
        pieces = np.diff(part.indptr), part.indices, part.data
    else:
        filled = part != 0.0
        pieces = filled.sum(axis=1), np.nonzero(filled)[1], part[filled]
    crc = zlib.crc32(f"{n}x{d}".encode())
    for piece, dtype in zip(pieces, (int, int, float), strict=True):
        crc = zlib.crc32(piece.astype(dtype).tobytes(), crc)
    return f"{crc:08x}-{zlib.crc32(codes.astype(np.int64).tobytes()):08x}"


def digest_of(T: Any) -> str:
    """Return the SHA-256 of the text ``NxD`` and all entries by row, little endian and 0 for −0."""
    sha = hashlib.sha256(f"{T.shape[0]}x{T.shape[1]}".encode())
    step = max(1, SMALL // (8 * max(1, T.shape[1])))
    for start in range(0, T.shape[0], step):
        part = T[start : start + step]
        rows = part.toarray() if sp.issparse(part) else np.asarray(part)
        sha.update((rows.astype("<f8") + 0.0).tobytes())
    return sha.hexdigest()
