"""Sources of blocks of rows: files, Dask collections, and functions that load rows."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import re
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features, as_array, check_features, check_whole, sums_of
from svmcvx.errors import DataError, missing_extra
from svmcvx.system.files import atomic_write, opened, packing


class Piece(NamedTuple):
    """The rows of one block."""

    X: Features
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None


class PieceDigests(NamedTuple):
    """Digests of a block's parts for comparison in later passes; 0 for a missing part."""

    rows: int
    labels: int
    weights: int

    @classmethod
    def of(cls, piece: Piece) -> PieceDigests:
        """Return the digests of a block as it was loaded."""
        return cls(*(0 if part is None else sums_of(part) for part in piece))


Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# Loads one block; it is sent to other processes, and may be called any number of times.
Rows: TypeAlias = Callable[[], Any]

# Entries of a block of a file, 16 MiB in float64.
BLOCK_ENTRIES: Final = 2**21


@dataclass(frozen=True)
class BlockLabels:
    """The labels in the blocks of a :class:`RowBlocks`: the value of ``blocks.y``."""

    blocks: RowBlocks


class RowBlocks:
    """Data in blocks of rows, which are read again in each pass.

    Linear models take such a source as `X`, with ``blocks.y`` as `y`; see ``docs/scale.md``. Every
    product with the data, and both ends of the certificate, are sums over the blocks.

    Parameters
    ----------
    loaders : sequence of callable
        ``load()`` returns the rows of a block: ``X`` of shape (m, d), or a tuple ``(X, y)`` or
        ``(X, y, sample_weight)``. It returns the same rows each time. With a cluster the loaders
        are sent to other processes.
    labelled : bool
        Whether the blocks come with their labels.
    lengths : sequence of int, optional
        Numbers of rows, if known; needed for labels in a separate array.
    name : str
        For messages.

    Examples
    --------
    >>> import numpy as np
    >>> from svmcvx import RowBlocks
    >>> blocks = RowBlocks([lambda: (np.eye(2), np.array([0, 1]))], labelled=True)
    >>> len(blocks)
    1
    """

    def __init__(
        self,
        loaders: Sequence[Callable[[], Any]],
        *,
        labelled: bool,
        lengths: Sequence[int] | None = None,
        name: str = "the source",
    ) -> None:
        self.loaders = list(loaders)
        if not self.loaders or not all(callable(load) for load in self.loaders):
            raise DataError(
                "loaders must be a sequence of functions without arguments, one per block, at"
                " least one"
            )
        if lengths is not None and len(lengths) != len(self.loaders):
            raise DataError(
                f"lengths must hold one number per block: {len(self.loaders)} blocks, got"
                f" {len(lengths)}"
            )
        self.labelled, self.name = labelled, name
        self.lengths = (
            None if lengths is None else [check_whole(length, "lengths", 0) for length in lengths]
        )

    def __len__(self) -> int:
        return len(self.loaders)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise DataError(
            "rows in blocks are for linear machines of svmcvx.fast and their estimators; load the"
            " data"
        )

    def __repr__(self) -> str:
        rows = "" if self.lengths is None else f", {sum(self.lengths)} rows"
        return f"RowBlocks({self.name}: {len(self)} blocks{rows})"

    @property
    def y(self) -> BlockLabels:
        """The labels, to be passed as `y`.

        Raises
        ------
        DataError
            If the source has none.
        """
        if not self.labelled:
            raise DataError(f"{self.name} has no labels; pass them as y, one per row")
        return BlockLabels(self)

    @classmethod
    def from_npy(
        cls,
        X: Paths,
        y: Paths | None = None,
        *,
        sample_weight: Paths | None = None,
        rows: int | None = None,
    ) -> RowBlocks:
        """Read dense rows from ``.npy`` files.

        Parameters
        ----------
        X : path or sequence of paths
            Two-dimensional arrays in the order of C, with the same number of columns; a pattern
            such as ``"part-*.npy"`` stands for the files in sorting order.
        y, sample_weight : path or sequence of paths, optional
            One-dimensional arrays, one file for each of `X`.
        rows : int, optional
            Rows of a block; by default some two million entries.

        Raises
        ------
        DataError
            If a file cannot be read, or lengths differ.
        """
        found = files(X, "X")
        beside: list[list[str | None]] = []
        for paths, name in ((y, "y"), (sample_weight, "sample_weight")):
            listed: list[str | None] = [*files(paths, name)] if paths is not None else []
            if listed and len(listed) != len(found):
                raise DataError(
                    f"{name} must be one file for each of X: {len(found)} files, got {len(listed)}"
                )
            beside.append(listed or [None] * len(found))
        loaders: list[Rows] = []
        lengths = []
        for path, *others in zip(found, *beside, strict=True):
            own, *parts = (None if one is None else _NpyFile.of(one) for one in (path, *others))
            assert own is not None  # noqa: S101 - X has files
            shapes = [part.shape for part in (own, *parts) if part is not None]
            if len(own.shape) != 2 or any(shape != own.shape[:1] for shape in shapes[1:]):
                raise DataError(
                    f"{path} must be two-dimensional, with one label and weight per row; the shapes"
                    f" are {shapes}"
                )
            n, d = own.shape
            step = (
                max(1, BLOCK_ENTRIES // max(d, 1)) if rows is None else check_whole(rows, "rows", 1)
            )
            for first in range(0, n, step):
                last = min(first + step, n)
                loaders.append(_NpyRows((own, *parts), first, last))
                lengths.append(last - first)
        return cls._of_files(found, loaders, lengths, y is not None)

    @classmethod
    def _of_files(
        cls, found: list[str], loaders: list[Rows], lengths: list[int] | None, labelled: bool
    ) -> RowBlocks:
        title = os.path.basename(found[0])
        title += f" and {len(found) - 1} more" if len(found) > 1 else ""
        if lengths is not None and not sum(lengths):
            raise DataError(f"{title} has no rows")
        return cls(loaders, labelled=labelled, lengths=lengths, name=title)

    @classmethod
    def from_parquet(
        cls,
        paths: Paths,
        *,
        target: str | None = None,
        sample_weight: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> RowBlocks:
        """Read rows from Parquet files, one row group per block.

        Parameters
        ----------
        paths : path or sequence of paths
            Files, or a pattern such as ``"part-*.parquet"``.
        target, sample_weight : str, optional
            Columns of the labels and of the weights.
        columns : sequence of str, optional
            Columns of the features; all others by default.

        Raises
        ------
        DataError
            If a file cannot be read, or a column is missing.
        SolverUnavailable
            If pyarrow is not installed.
        """
        parquet = _pyarrow_parquet()
        loaders: list[Rows] = []
        lengths, chosen = [], ()
        found = files(paths, "paths")
        special = [name for name in (target, sample_weight) if name is not None]
        for path in found:
            try:
                reader = parquet.ParquetFile(path)
            except Exception as error:
                raise DataError(f"{path} cannot be read as a Parquet file: {error}") from None
            names = reader.schema_arrow.names
            # The index of a frame is stored as a column, but is no feature.
            index = (reader.schema_arrow.pandas_metadata or {}).get("index_columns", [])
            others = [name for name in names if name not in special and name not in index]
            wanted = tuple(others if columns is None else columns)
            if missing := [name for name in (*wanted, *special) if name not in names]:
                raise DataError(
                    f"{path} has no column {missing[0]!r}; its columns are {', '.join(names[:20])}"
                )
            if chosen and wanted != chosen:
                raise DataError(
                    f"{path} has other columns than {found[0]}; name those of the features by"
                    " columns="
                )
            chosen = wanted
            for group in range(reader.num_row_groups):
                lengths.append(int(reader.metadata.row_group(group).num_rows))
                loaders.append(_ParquetRows(path, group, wanted, target, sample_weight))
        return cls._of_files(found, loaders, lengths, target is not None)

    @classmethod
    def from_libsvm(
        cls,
        paths: Paths,
        *,
        n_features: int,
        zero_based: bool = False,
        block_bytes: int = 2**26,
        cache: str | os.PathLike[str] | None = None,
    ) -> RowBlocks:
        """Read sparse rows from files in LIBSVM's text format (``label column:value …``).

        The text, which may be packed (``.gz``, ``.bz2``, ``.xz``), is parsed once; every block is
        then stored in binary form in the folder `cache`, under a name made from its content.

        Parameters
        ----------
        paths : path or sequence of paths
        n_features : int
            Number of columns, which a single block does not show.
        zero_based : bool
            Whether the first column is number 0; in the format numbers begin with 1.
        block_bytes : int
            Bytes of text of a block.
        cache : path, optional
            Folder for the binary form, which stays there; by default a temporary one that is
            removed with the source.

        Raises
        ------
        DataError
            If a file cannot be read.
        """
        found = files(paths, "paths")
        check_whole(n_features, "n_features", 1)
        check_whole(block_bytes, "block_bytes", 1)
        keeper = tempfile.TemporaryDirectory(prefix="svmcvx-libsvm-") if cache is None else None
        folder = Path(keeper.name if keeper is not None else cache or ".")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cache: the folder {folder} cannot be made: {error}") from None
        loaders: list[Rows] = []
        for path in found:
            own = list(_text_rows(path, block_bytes, n_features, bool(zero_based), str(folder)))
            if not own:
                raise DataError(f"{path} has no rows: each line is blank or a comment")
            loaders += own
        blocks = cls._of_files(found, loaders, None, True)
        # A temporary folder is removed with its last user.
        blocks._keeper = keeper  # type: ignore[attr-defined]
        return blocks


@dataclass(frozen=True)
class DaskRows:
    """The partitions of Dask collections, aligned: delayed rows, labels and weights per block."""

    X: tuple[Any, ...]
    y: tuple[Any, ...]
    weight: tuple[Any, ...]
    lengths: tuple[int, ...] | None


def in_blocks(X: Any) -> bool:
    """Whether `X` is a source of blocks: a :class:`RowBlocks` or a Dask collection."""
    return isinstance(X, RowBlocks) or is_dask(X)


def refuse_in_blocks(**given: bool) -> None:
    """Raise a DataError that names the argument unusable with rows in blocks."""
    for name, unusual in given.items():
        if unusual:
            raise DataError(
                f"X comes in blocks of rows, where {name} keeps its default: only linear machines"
                f" with it can be solved block by block; leave {name} out, or load the data"
            )


def is_dask(values: Any) -> bool:
    """Whether a value is a Dask collection."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed")


def dask_rows(X: Any, y: Any, sample_weight: Any) -> DaskRows:
    """Split Dask collections into partitions; labels and weights in memory are not changed."""
    lengths: tuple[int, ...] | None = None
    if hasattr(X, "chunks"):
        if X.ndim != 2:
            raise DataError(
                f"X must be two-dimensional (observations × features), got shape {X.shape}"
            )
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        lengths = None if np.isnan(X.chunks[0]).any() else tuple(X.chunks[0])
    parts = tuple(np.ravel(X.to_delayed()))
    beside = []
    for values, name in ((y, "y"), (sample_weight, "sample_weight")):
        if not is_dask(values):
            beside.append(())
            continue
        if hasattr(values, "chunks"):
            if values.ndim != 1:
                raise DataError(
                    f"{name} must be one-dimensional with one number per row, got shape"
                    f" {values.shape}"
                )
            if lengths is not None and not np.isnan(values.chunks[0]).any():
                if sum(values.chunks[0]) != sum(lengths):
                    raise DataError(
                        f"{name} has {sum(values.chunks[0])} labels but X has {sum(lengths)} rows:"
                        " inconsistent numbers of samples; pass one label per row"
                    )
                values = values.rechunk((lengths,))
        found = tuple(np.ravel(values.to_delayed()))
        if len(found) != len(parts):
            raise DataError(
                f"{name} must have the partitions of X: {len(parts)}, got {len(found)};"
                " repartition it"
            )
        beside.append(found)
    return DaskRows(parts, beside[0], beside[1], lengths)


@dataclass(frozen=True)
class _NpyFile:
    """A ``.npy`` file: the bytes before its numbers, and what they say."""

    path: str
    head: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, path: str) -> _NpyFile:
        """Read the header; once and not in each thread, since Python's parser is not safe there."""
        try:
            with open(path, "rb") as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0
                read = read if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(stream)
                size = stream.tell()
                stream.seek(0)
                head = stream.read(size)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as a .npy file: {error}") from None
        if dtype.hasobject:
            raise DataError(f"{path} holds Python objects; save numbers or text")
        if fortran and len(shape) > 1:
            raise DataError(
                f"{path} is stored by columns; save np.ascontiguousarray(X), whose rows can be"
                " read in blocks"
            )
        return cls(path, head, shape, dtype)

    def rows(self, first: int, last: int) -> NDArray[Any]:
        """Read some rows, not by a memory map: a file that shrinks would end the process."""
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        count = (last - first) * width
        try:
            with open(self.path, "rb") as stream:
                same = stream.read(len(self.head)) == self.head
                stream.seek(first * width * self.dtype.itemsize, os.SEEK_CUR)
                values = np.fromfile(stream, dtype=self.dtype, count=count if same else 0)
        except (OSError, ValueError) as error:
            raise DataError(
                f"rows {first} to {last - 1} of {self.path} cannot be read: {error}"
            ) from None
        if values.size != count:
            raise DataError(
                f"{self.path} has no row {last - 1} of the first shape; it has been changed or cut"
                " off"
            )
        return values.reshape(-1, *self.shape[1:])


@dataclass(frozen=True)
class _NpyRows:
    """Some rows of the files of features, labels and weights."""

    files: tuple[_NpyFile | None, ...]
    first: int
    last: int

    def __call__(self) -> Piece:
        return Piece(*map(self._read, self.files))

    def labels(self) -> NDArray[Any] | None:
        return self._read(self.files[1])

    def _read(self, file: _NpyFile | None) -> NDArray[Any] | None:
        return None if file is None else file.rows(self.first, self.last)


@dataclass(frozen=True)
class _ParquetRows:
    """A row group of a Parquet file."""

    path: str
    group: int
    columns: tuple[str, ...]
    target: str | None
    weight: str | None

    def __call__(self) -> Piece:
        beside = [name for name in (self.target, self.weight) if name is not None]
        frame = self._read([*self.columns, *beside])
        y, weight = (
            None if name is None else frame[name].to_numpy() for name in (self.target, self.weight)
        )
        return Piece(frame[list(self.columns)].to_numpy(), y, weight)

    def labels(self) -> NDArray[Any] | None:
        return None if self.target is None else np.asarray(self._read([self.target])[self.target])

    def _read(self, columns: list[str]) -> Any:
        try:
            with _pyarrow_parquet().ParquetFile(self.path) as reader:
                return reader.read_row_group(
                    self.group, columns=columns, use_threads=False
                ).to_pandas(ignore_metadata=True)
        except Exception as error:
            raise DataError(
                f"row group {self.group} of {self.path} cannot be read: {error}"
            ) from None


def piece_of(loaded: Any) -> Piece:
    """Return a loader's result as a :class:`Piece` with vectors of labels and weights."""
    parts = loaded if isinstance(loaded, tuple) else (loaded,)
    if not 1 <= len(parts) <= 3:
        raise DataError(
            f"a loader must return X, (X, y) or (X, y, sample_weight), got a tuple of {len(parts)}"
        )
    X, y, weight = (*parts, None, None)[:3]
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    if getattr(X, "ndim", None) != 2:
        raise DataError(
            f"a loader must return rows as an array of shape (m, d), got {type(X).__name__}"
        )
    return Piece(
        X,
        None if y is None else as_array(y, "y"),
        None if weight is None else as_array(weight, "sample_weight"),
    )


def checked_piece(piece: Piece, number: int, columns: int | None) -> Piece:
    """Validate the rows of a block; messages name the block."""
    with named_block(number):
        checked = check_features(piece.X, n_features=columns)
        for values, name in ((piece.y, "labels"), (piece.weight, "weights")):
            if values is not None and values.shape != (checked.shape[0],):
                raise DataError(f"{checked.shape[0]} rows, but {name} of shape {values.shape}")
    return Piece(checked, piece.y, piece.weight)


@contextmanager
def named_block(number: int) -> Iterator[None]:
    """Prefix messages of :class:`~svmcvx.errors.DataError` with the number of a block."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"block {number}: {error}") from None


def files(paths: Paths, name: str) -> list[str]:
    """Return the files that match paths or patterns."""
    found: list[str] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        text = os.fspath(path)
        pattern = glob.has_magic(text) and not os.path.exists(text)
        matches = sorted(glob.glob(text)) if pattern else [text]
        if not matches or not all(os.path.isfile(match) for match in matches):
            raise DataError(f"{name}: there is no file {text}")
        found.extend(os.path.abspath(match) for match in matches)
    if not found:
        raise DataError(f"{name} names no file")
    return found


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("pyarrow", "parquet") from None
    return pyarrow.parquet


LINE: Final = re.compile(r"[^\s:#]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)*\s*(#.*)?")
BOM: Final = b"\xef\xbb\xbf"
# A line that is neither blank nor a comment.
ROW: Final = re.compile(rb"^[ \t\r\f\v]*[^\s#]", re.MULTILINE)
# The largest index of the parser.
LARGEST: Final = np.iinfo(np.int32).max


def parse_libsvm(
    stream: IO[bytes], where: str, n_features: int | None = None, zero_based: bool | str = "auto"
) -> tuple[Any, Any]:
    """Return the rows, with canonical indices of one type, and the labels of LIBSVM text."""
    from sklearn.datasets import load_svmlight_file

    try:
        if stream.read(len(BOM)) != BOM:
            stream.seek(0)
        X, y = load_svmlight_file(stream, n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError, OSError, EOFError) as error:
        raise DataError(
            f"{where} is not LIBSVM text ({_first_fault(stream) or ' '.join(str(error).split())})"
        ) from None
    if y.size == 0:
        raise DataError(f"{where} has no rows: each line is blank or a comment")
    rows = sp.csr_array(X)
    rows.sum_duplicates()
    # Indices of one type, or scipy copies them each time; 32 bits if that is enough.
    index = np.int32 if max(rows.nnz, rows.shape[1]) <= LARGEST else np.int64
    return _canonical(
        rows.data, rows.indices.astype(index), rows.indptr.astype(index), rows.shape
    ), y


def _canonical(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> Any:
    rows = sp.csr_array((data, indices, indptr), shape=shape)
    rows.has_canonical_format = True
    return rows


def _first_fault(stream: IO[bytes]) -> str | None:
    """Describe the first line of a text that is not LIBSVM's."""
    with suppress(OSError, EOFError):
        stream.seek(0)
        for number, line in enumerate(stream, start=1):
            text = line.removeprefix(BOM).decode("utf-8", errors="replace").strip()
            if not text or text.startswith("#"):
                continue
            shown = repr(text if len(text) <= 60 else f"{text[:60]}…")
            if not LINE.fullmatch(text):
                return f"line {number} is not 'LABEL INDEX:VALUE …': {shown}"
            indices = [int(index) for index in re.findall(r"\s(\d+):", text)]
            if any(index > LARGEST for index in indices):
                return f"line {number} has an index above {LARGEST}: {shown}"
            if any(later <= earlier for earlier, later in pairwise(indices)):
                return f"the indices of line {number} do not ascend: {shown}"
    return None


def _text_rows(
    path: str, block_bytes: int, n_features: int, zero_based: bool, folder: str
) -> Iterator[_TextRows]:
    """Yield a loader for each block of whole lines that has rows."""
    first = 0
    try:
        with opened(path) as stream:
            packed = packing(path) is not None
            while text := stream.read(block_bytes) + stream.readline():
                if ROW.search(text.removeprefix(BOM)):
                    digest = hashlib.sha256(text).hexdigest()
                    rows = _TextRows(path, first, len(text), digest, n_features, zero_based, folder)
                    # To reach a block of a packed file all text before it is unpacked.
                    if packed and not rows.binary.exists():
                        rows.parse(text)
                    yield rows
                first += len(text)
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read as LIBSVM text: {error}") from None


# Of the binary form: a checksum, numbers of entries and rows, bytes of an index.
HEADER: Final = struct.Struct("<4q")


@dataclass(frozen=True)
class _TextRows:
    """Whole lines of a file from a byte of its text; their digest names the binary form."""

    path: str
    first: int
    length: int
    digest: str
    n_features: int
    zero_based: bool
    folder: str

    @property
    def binary(self) -> Path:
        """File of the binary form."""
        return Path(self.folder) / f"{self.digest}-{self.n_features:x}-{self.zero_based:d}.bin"

    def __call__(self) -> Piece:
        """Load the binary form, or parse the text and write it, also on another computer."""
        with suppress(OSError, ValueError, struct.error):
            return self._read_binary()
        try:
            with opened(self.path) as stream:
                stream.seek(self.first)
                text = stream.read(self.length)
        except (OSError, EOFError) as error:
            raise DataError(f"{self.path} cannot be read as LIBSVM text: {error}") from None
        if hashlib.sha256(text).hexdigest() != self.digest:
            raise DataError(
                f"{self.path} has changed near byte {self.first}; make the blocks again"
            )
        return self.parse(text)

    def parse(self, text: bytes) -> Piece:
        """Parse the text, and write the binary form unless the disk is full."""
        place = f"{self.path}, from byte {self.first} on,"
        X, y = parse_libsvm(io.BytesIO(text), place, self.n_features, self.zero_based)
        arrays = (X.data, y, X.indices, X.indptr)
        content = np.concatenate([array.view(np.uint8) for array in arrays])
        with suppress(OSError), atomic_write(self.binary) as stream:
            stream.write(HEADER.pack(sums_of(content), X.nnz, y.size, X.indices.itemsize))
            stream.write(content.data)
        return Piece(X, y)

    def _read_binary(self) -> Piece:
        """Read the binary form, without a header: Python's parser is not safe in threads."""
        with open(self.binary, "rb") as stream:
            checksum, entries, m, width = HEADER.unpack(stream.read(HEADER.size))
            content = np.fromfile(stream, np.uint8)
        sizes = [8 * entries, 8 * m, width * entries, width * (m + 1)]
        if content.size != sum(sizes) or sums_of(content) != checksum:
            raise ValueError("the binary form is damaged")
        data, y, indices, indptr = np.split(content, np.cumsum(sizes[:-1]))
        index = f"i{width}"
        X = _canonical(
            data.view("f8"), indices.view(index), indptr.view(index), (m, self.n_features)
        )
        return Piece(X, y.view("f8"))
