"""Reading and writing the files of data sets."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.datasets.registry import Dataset
from svmcvx.display import listed
from svmcvx.errors import DataError, missing_extra
from svmcvx.system.files import atomic_write, opened, read_archive, unpacked

LIBSVM_SUFFIXES = (".svm", ".libsvm", ".svmlight", ".t")


def read_npz(path: str | os.PathLike[str]) -> Dataset:
    """Read a ``.npz`` file of ``X`` or parts of a CSR matrix, ``y``, and ``labels`` of indices."""
    path = Path(path)
    with read_archive(path) as archive:
        shapes = archive.shapes
        there = ", ".join(shapes) or "nothing"
        if "y" not in shapes:
            raise DataError(f"{path} holds {there}; an array y of labels is needed")
        sparse = {"data", "indices", "indptr", "shape"} <= shapes.keys()
        if "X" not in shapes and not sparse:
            raise DataError(
                f"{path} holds {there}; a dense array X, or data, indices, indptr and shape, is"
                " needed"
            )
        y = archive["y"]
        n = archive["shape"].tolist()[0] if "X" not in shapes else (*shapes["X"][0], 0)[0]
        if y.shape != (n,):
            raise DataError(f"{path}: y has the shape {y.shape}, but X has {n} rows")
        if "labels" in shapes:
            y = archive["labels"][y]
        X: Features
        if "X" in shapes:
            X = np.asarray(archive["X"], dtype=np.float64)
        else:
            parts = (archive["data"], archive["indices"], archive["indptr"])
            X = sp.csr_array(parts, shape=tuple(archive["shape"].tolist()))
            X.check_format()
    return Dataset(path.stem, X, y)


def write_npz(path: str | os.PathLike[str], X: Any, y: NDArray[Any]) -> None:
    """Write data for :func:`read_npz`, whole or not at all, labels apart and without pickle."""
    labels, codes = np.unique(y, return_inverse=True)
    arrays: dict[str, Any] = {
        "y": codes.astype(np.int64),
        "labels": labels.astype(str) if labels.dtype.kind == "O" else labels,
    }
    if sp.issparse(X):
        matrix = sp.csr_array(X)
        arrays |= {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": np.array(matrix.shape),
        }
    else:
        arrays["X"] = np.asarray(X, dtype=np.float64)
    with atomic_write(path) as stream:
        np.savez(stream, **arrays)


LINE = re.compile(r"[^\s:#]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)*\s*(#.*)?")
BOM = b"\xef\xbb\xbf"
# The largest index of the parser.
LARGEST = np.iinfo(np.int32).max


def read_libsvm(
    path: str | os.PathLike[str], n_features: int | None = None
) -> tuple[Any, NDArray[Any]]:
    """Read a LIBSVM file, which may be packed by gzip, bzip2 or xz."""
    from sklearn.datasets import load_svmlight_file

    with opened(path) as stream:
        try:
            if stream.read(len(BOM)) != BOM:
                stream.seek(0)
            X, y = load_svmlight_file(stream, n_features=n_features)
        except (ValueError, OverflowError, OSError, EOFError) as error:
            why = _first_fault(stream) or " ".join(str(error).split())
            raise DataError(f"{path} is not LIBSVM text ({why})") from None
        stream.seek(0)
        numbered = any(re.search(rb"\s0:1[\s.]", line) for line in islice(stream, 20))
    if y.size == 0:
        raise DataError(f"{path} has no rows: each line is blank or a comment")
    X, n = sp.csr_array(X), y.size
    X.sum_duplicates()
    # Indices of one type, or scipy copies them each time; 32 bits if that is enough.
    index = np.int32 if max(X.nnz, X.shape[1]) <= LARGEST else np.int64
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    if numbered and np.array_equal(X[:, [0]].toarray().ravel(), np.arange(1.0, n + 1.0)):
        raise DataError(
            f"{path} is LIBSVM's file of a precomputed kernel: its column 0 numbers the rows; pass"
            " the matrix of the other columns as X with kernel='precomputed'"
        )
    return X, y


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


def _is_libsvm(path: Path) -> bool:
    """Whether the first lines of a file are LIBSVM's."""
    try:
        with opened(path) as stream:
            lines = [line.removeprefix(BOM).decode("ascii").strip() for line in islice(stream, 20)]
    except (OSError, EOFError, UnicodeDecodeError):
        return False
    lines = [line for line in lines if line and not line.startswith("#")]
    # If most lines are numeric, the reader names the line that is not.
    alike = sum(LINE.fullmatch(line) is not None for line in lines)
    return any(":" in line for line in lines) and 2 * alike > len(lines)


def read_file(path: Path, n_features: int | None = None, **columns: Any) -> Dataset:
    """Read a file by its suffix, or as LIBSVM's, which often lack one, if it looks so; `columns`
    are those of :func:`read_table`.
    """
    plain = unpacked(path)
    suffix = plain.suffix.lower()
    named = suffix in LIBSVM_SUFFIXES
    tables = (".csv", ".tsv", ".tab", ".parquet", ".npz")
    if named or (suffix not in tables and _is_libsvm(path)):
        name = plain.stem if named else plain.name
        found = Dataset(name, *read_libsvm(path, n_features))
        return without_columns(found, path, **columns)
    if n_features is not None:
        raise DataError(f"n_features is for files of LIBSVM, which {path} is not; leave it out")
    if suffix == ".npz" or (suffix == ".parquet" and plain != path):
        if plain != path:
            raise DataError(f"{path} is packed twice; unpack it to {plain.name}")
        return without_columns(read_npz(path), path, **columns)
    if suffix in (*tables, ".txt", ".data", ".dat"):
        return read_table(_table(path), plain.stem, path.name, **columns)
    raise DataError(
        f"{path} is of no known type: end its name in .csv, .tsv, .txt, .parquet or .npz (text may"
        " be packed: .gz, .bz2, .xz); LIBSVM files are known by their lines, 'LABEL INDEX:VALUE …'"
    )


def without_columns(found: Dataset, what: Any, **columns: Any) -> Dataset:
    """Return data that are no table; raise if columns of one are named."""
    for argument in filter(columns.get, columns):
        raise DataError(f"{argument} is for tables, which {what} is not; leave it out")
    return found


if TYPE_CHECKING:
    import pandas as pd


SEPARATORS = (",", ";", "\t", "|")
# Text of a missing value; the files of the UCI repository have the question mark.
MISSING = ("", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>")
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp][Mm])?(?:Z|\s?[+-]\d{2}:?\d{2})?"
DATE = re.compile(
    r"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\.?|\d{1,2}\.?[- ][A-Za-z]{3,9}\.?[- ,]+\d{2,4}"
    rf"|[A-Za-z]{{3,9}}\.? \d{{1,2}},? \d{{4}})(?:[T ,]\s?{_CLOCK})?|{_CLOCK}"
)
# Text that is numbers with signs of currencies, percent, or separators of thousands.
MARKED = re.compile(r"[-+$€£¥=%.,\s]*\d[-+$€£¥=%.,\s\d]*(?:[eEdD][-+]?\d+)?")
# Number of values of a column of text from which it may name the rows, or be numbers.
FEW_ROWS = 20
ROW_NAMES = re.compile(r"(?:.*[\W_])?(?:id|index|no|nr|row)|rowid|unnamed: 0")


def read_table(
    table: pd.DataFrame,
    name: str,
    what: str,
    target: str | None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Dataset:
    """Return the data of a table; columns of text are one-hot encoded, and a warning names them."""
    table = _cleaned(table, what)
    columns = list(table.columns)
    if target is None:
        shown = listed(columns, 20)
        raise DataError(f"target must name the column of the labels in {what}; it has {shown}")
    for argument, wanted in (("target", [target]), ("drop", drop), ("keep", keep)):
        strange = [column for column in wanted if column not in columns]
        if strange:
            raise DataError(
                f"{argument} must be among the columns of {what}, got {strange[0]!r}; it has"
                f" {listed(columns, 20)}"
            )
    if target in drop:
        raise DataError(
            f"drop names {target!r}, which target names as the column of the labels; leave it out"
            " of one"
        )
    labels = table[target]
    if labels.isna().any():
        raise DataError(
            f"column {target!r} of {what} has {int(labels.isna().sum())} missing labels; drop"
            " these rows"
        )
    features = table.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise DataError(f"{what} has no column beside {target!r}; a table needs some features")
    _refuse(features, what, keep)
    encoded = _encoded(features, what)
    X = encoded.to_numpy(dtype=np.float64, na_value=np.nan)
    return Dataset(name, X, labels.to_numpy(), tuple(map(str, encoded.columns)))


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        if path.suffix.lower() == ".parquet":
            table = pd.read_parquet(path)
        else:
            separator = _separator(path)
            table = _read_text(path, separator, ".")
            # Numbers may have decimal commas where commas do not separate.
            if separator != "," and _text_columns(table):
                table = min((table, _read_text(path, separator, ",")), key=_text_columns)
    except ImportError:
        raise missing_extra("pyarrow", "parquet") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path} cannot be read as a table: its text is not UTF-8; save it again in that"
            " encoding"
        ) from None
    except (ValueError, OSError, EOFError, pd.errors.ParserError) as error:
        raise DataError(f"{path} cannot be read as a table ({error})") from None
    return table


def _cleaned(table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return a table without blanks around names and text, text of numbers being numbers."""
    import pandas as pd

    table = table.copy(deep=False)

    if len(table) == 0:
        raise DataError(f"{what} has no rows below its header")
    table.columns = [str(column).strip() for column in table.columns]
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"{what} has two columns {twice!r}; give each a name of its own")
    for column in table.columns:
        if _is_text(table[column]) and not isinstance(table[column].dtype, pd.CategoricalDtype):
            text = table[column].map(lambda one: one.strip() if isinstance(one, str) else one)
            text = text.mask(text.isin(MISSING))
            numbers = pd.to_numeric(text, errors="coerce")
            table[column] = text if (numbers.isna() & text.notna()).any() else numbers
    return table


def _read_text(path: Path, separator: str, decimal: str) -> pd.DataFrame:
    import pandas as pd

    with opened(path) as stream:
        return pd.read_csv(stream, sep=separator, decimal=decimal, skipinitialspace=True)


def _text_columns(table: pd.DataFrame) -> int:
    return sum(_is_text(table[column]) for column in table)


def _separator(path: Path) -> str:
    """Return the separator, by the first line."""
    if path.name.lower().split(".")[1:2] in (["tsv"], ["tab"]):
        return "\t"
    with opened(path) as stream:
        head = stream.readline(65_536).decode("utf-8", errors="replace").strip()
    head = re.sub(r'"[^"]*"', "", head)
    separator = max(SEPARATORS, key=head.count)
    # Columns of text files are often set off by blanks.
    return separator if separator in head else r"\s+" if re.search(r"\S\s+\S", head) else ","


def _refuse(features: pd.DataFrame, name: str, keep: Sequence[str]) -> None:
    """Raise for columns of dates, of numbers but for some values, or of names, unless kept."""
    reasons = {str(column): _oddity(features[column]) for column in features if column not in keep}
    if refused := [column for column, reason in reasons.items() if reason]:
        them = "them" if len(refused) > 1 else "it"
        said = listed(f"column {column!r} {reasons[column]}" for column in refused)
        raise DataError(
            f"{name}: {said}; load it without {them}, by drop={refused!r}, make numbers of {them},"
            f" or use {them} as features, text as categories, by keep={refused!r}"
        )


def _oddity(column: pd.Series) -> str:
    """Return why a column is not a plain feature; empty for one that is."""
    there = column.dropna()
    text = there.astype(str) if _is_text(there) else None
    if text is not None and len(text):
        if text.str.fullmatch(DATE).all():
            return f"holds dates or times such as {text.iloc[0]!r}"
        marked = text.str.fullmatch(MARKED).all()
        if marked or (text.nunique() >= FEW_ROWS and _mostly_numbers(text)):
            strange = text[~_numbers(text)]
            return f"holds numbers but for {len(strange)} values such as {strange.iloc[0]!r}"
    if _names_rows(column):
        return "seems to number or name the rows"
    if text is not None and text.nunique() >= max(FEW_ROWS, len(text) / 5):
        return f"holds {text.nunique()} texts in {len(text)} rows"
    return ""


def _encoded(features: pd.DataFrame, name: str) -> pd.DataFrame:
    import pandas as pd

    text = [column for column in features if _is_text(features[column])]
    others = features.drop(columns=text).select_dtypes(exclude=["number", "bool"])
    if others.shape[1]:
        column = str(others.columns[0])
        raise DataError(
            f"column {column!r} of {name} holds {others[column].dtype}, neither numbers nor text;"
            " leave it out by drop, or make numbers of it"
        )
    if not text:
        return features
    described = "; ".join(_described(features[column]) for column in text)
    warnings.warn(f"{name}: columns of text are one-hot encoded: {described}", stacklevel=6)
    encoded = pd.get_dummies(features, columns=text, dtype=float, prefix_sep="\x00")
    for column in map(str, text):
        own = [one for one in encoded.columns if str(one).startswith(f"{column}\x00")]
        encoded.loc[features[column].isna(), own] = np.nan
    return encoded.rename(columns=lambda one: str(one).replace("\x00", "_"))


def _is_text(column: pd.Series) -> bool:
    import pandas as pd
    from pandas.api import types

    return bool(
        types.is_string_dtype(column)
        or types.is_object_dtype(column)
        or isinstance(column.dtype, pd.CategoricalDtype)
    )


def _described(column: pd.Series) -> str:
    """Describe a column of text: how many values, and the exceptions among numbers."""
    there = column.dropna()
    facts = [f"{there.nunique()} values"]
    if _mostly_numbers(column):
        strange = there[~_numbers(there)]
        facts.append(f"numbers but for {len(strange)} such as {str(strange.iloc[0])!r}")
    if len(there) < len(column):
        facts.append(f"{len(column) - len(there)} missing")
    return f"{column.name} ({', '.join(facts)})"


def _numbers(column: pd.Series) -> pd.Series:
    """Say which values of a column of text are numbers."""
    import pandas as pd

    return pd.to_numeric(column, errors="coerce").notna()


def _mostly_numbers(column: pd.Series) -> bool:
    there = column.dropna()
    return bool(2 * _numbers(there).sum() > len(there))


def _names_rows(column: pd.Series) -> bool:
    n = len(column)
    if _is_text(column):
        return n >= FEW_ROWS and column.nunique() >= 0.95 * n and not _mostly_numbers(column)
    if column.dtype.kind not in "iu" or not column.is_unique:
        return False
    steps = np.diff(column.to_numpy())
    return ROW_NAMES.fullmatch(str(column.name).lower()) is not None or (
        n >= FEW_ROWS and bool((steps == 1).all())
    )
