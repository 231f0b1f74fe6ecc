"""Finding a data set: by path, by name in a folder, in the cache, at its source."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import check_whole
from svmcvx.datasets import files
from svmcvx.datasets.files import read_libsvm, read_npz, write_npz
from svmcvx.datasets.registry import Dataset, Record, known_sets, label_text
from svmcvx.errors import DataError, DataTypeError, SvmcvxError, did_you_mean, missing_extra

if TYPE_CHECKING:
    import pandas as pd

BUILT_IN = ("breast_cancer", "digits", "iris", "wine", "moons", "circles", "blobs")
# Environment variables: the user's folder of sets, and the cache of downloaded ones.
ENVIRONMENT_VARIABLE, CACHE_VARIABLE = "SVMCVX_DATA", "SVMCVX_CACHE"


def cache_folder() -> Path | None:
    """Return the user's folder of downloaded sets."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("svmcvx")) / "datasets"


def fetch(record: Record) -> Dataset:
    """Download a set, compare it with its record, and keep it in the cache."""
    recipe = record.download
    if recipe is None:
        raise DataError(
            f"no address is known that serves it in this form (source: {record.source})"
        )
    folder = cache_folder()
    if folder is None or find_spec("pooch") is None:
        raise missing_extra("pooch", "data")
    # The parts stand in a separate folder, which is always removed.
    with tempfile.TemporaryDirectory(prefix="svmcvx-") as scratch:
        try:
            X, y = READERS[recipe["kind"]](recipe, record, Path(scratch))
        except (OSError, ValueError, KeyError, LookupError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"the download from {_origin(recipe)} failed ({type(error).__name__}:"
                f" {str(error).partition(chr(10))[0][:300]})"
            ) from None
    data = Dataset(record.name, X, label_text(np.asarray(y)))
    if (difference := record.difference(data)) is not None:
        raise DataError(
            f"what {_origin(recipe)} serves is not the set of the record: {difference}; it is not"
            " kept. The source may have changed its file or the order of its rows"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_npz(folder / f"{record.name}.npz", data.X, data.y)
    except OSError as error:
        raise DataError(f"the cache {folder} cannot be written ({error})") from None
    return data


def _origin(recipe: Mapping[str, Any]) -> str:
    return f"OpenML {recipe['data_id']}" if recipe["kind"] == "openml" else str(recipe["urls"][0])


def _files(recipe: Mapping[str, Any], scratch: Path) -> list[Path]:
    """Download the files of a recipe, whose content is compared after it is read."""
    import pooch

    quiet = pooch.get_logger()
    level = quiet.level
    how: dict[str, Any] = {"known_hash": None, "path": scratch}
    how["downloader"] = pooch.HTTPDownloader(timeout=60)
    names = ((url, f"{place}-{os.path.basename(url)}") for place, url in enumerate(recipe["urls"]))
    quiet.setLevel("ERROR")
    try:
        return [Path(pooch.retrieve(url, fname=name, **how)) for url, name in names]
    finally:
        quiet.setLevel(level)


def _npz(recipe: Mapping[str, Any], record: Record, scratch: Path) -> tuple[Any, NDArray[Any]]:
    (path,) = _files(recipe, scratch)
    data = read_npz(path)
    return data.X, data.y


def _libsvm(recipe: Mapping[str, Any], record: Record, scratch: Path) -> tuple[Any, NDArray[Any]]:
    parts = [read_libsvm(path, record.features) for path in _files(recipe, scratch)]
    X = sp.csr_array(sp.vstack([rows for rows, _ in parts]))
    y = np.concatenate([labels for _, labels in parts])
    return (X.toarray() if recipe.get("dense", False) else X), y


def _table(recipe: Mapping[str, Any], record: Record, scratch: Path) -> tuple[Any, NDArray[Any]]:
    """Read delimited text; columns are counted as in the file."""
    import pandas as pd

    separator = recipe["separator"]
    parts = [
        pd.read_csv(
            path,
            sep=r"\s+" if separator == "whitespace" else separator,
            header=0 if recipe.get("header", False) else None,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
        )
        for path in _files(recipe, scratch)
    ]
    table = pd.concat(parts, ignore_index=True)
    # Some files end their lines with a separator.
    table = table.loc[:, [column for column in table.columns if not (table[column] == "").all()]]
    columns = list(table.columns)
    label = columns[recipe["label"]]
    y = table[label].str.strip().to_numpy(dtype=str)
    if "labels" in recipe:
        y = _translated(y, recipe["labels"])
    dropped = {label, *(columns[place] for place in recipe.get("drop", ()))}
    features = table.drop(columns=list(dropped))
    if "values" in recipe:
        features = features.replace({key: str(value) for key, value in recipe["values"].items()})
    if "missing" in recipe:
        features = features.replace(recipe["missing"], "nan")
    return features.to_numpy(dtype=np.float64), y


def _openml(recipe: Mapping[str, Any], record: Record, scratch: Path) -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it tries again
        bunch = fetch_openml(
            data_id=recipe["data_id"],
            as_frame=False,
            parser="liac-arff",
            data_home=str(scratch),
            n_retries=1,
        )
    X = (
        sp.csr_array(bunch.data)
        if sp.issparse(bunch.data)
        else np.asarray(bunch.data, dtype=np.float64)
    )
    y = np.asarray(bunch.target).astype(str)
    return X, _translated(y, recipe["labels"]) if "labels" in recipe else y


def _translated(y: NDArray[Any], labels: Mapping[str, str]) -> NDArray[Any]:
    strange = sorted(set(y.tolist()) - labels.keys())
    if strange:
        raise ValueError(f"labels {', '.join(strange[:5])} are not among {', '.join(labels)}")
    return np.array([labels[label] for label in y])


READERS = {"npz": _npz, "libsvm": _libsvm, "table": _table, "openml": _openml}


def load(
    name: str | os.PathLike[str] | pd.DataFrame,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    target: str | None = None,
    drop: Sequence[str] | str = (),
    keep: Sequence[str] | str = (),
    n_features: int | None = None,
) -> Dataset:
    """Load a data set by name or path, or from a data frame.

    A name is looked for as ``NAME.npz`` in `data_dir`, in the folder that the environment variable
    ``SVMCVX_DATA`` names, and in the user's cache. A set of the papers (:func:`known_sets`) that is
    in none of them is downloaded from its source, compared with its record in size and content, and
    stored in the cache.

    Parameters
    ----------
    name : str, path-like or DataFrame
        One of scikit-learn's (``"breast_cancer"``, ``"digits"``, ``"iris"``, ``"wine"``, and the
        generated ``"moons"``, ``"circles"``, ``"blobs"``); the name of a set of the papers, as in
        ``"ionosphere"``, or of a ``.npz`` file in a folder; or a path to a ``.csv`` (separated by
        commas, semicolons, tabs or bars), ``.tsv``, ``.txt``, ``.parquet``, ``.npz`` or LIBSVM file
        (``.svm``, ``.libsvm``, ``.svmlight``, ``.t``, or any other name, as they are distributed;
        write ``./iris`` for a file that has the name of a set). Text may be packed (``.gz``,
        ``.bz2``, ``.xz``). A name followed by ``:a-b`` selects the classes a and b, as in
        ``"digits:3-8"``.
    data_dir : path-like, optional
        Folder of ``.npz`` files, searched first.
    target : str, optional
        Column of the labels in a table; needed for CSV and Parquet files.
    drop : sequence of str, or str
        Columns of a table that are omitted; commas separate them in a str.
    keep : sequence of str, or str
        Columns of a table that seem to number or name the rows, or hold dates or many texts, but
        are features: text is one-hot encoded.
    n_features : int, optional
        Number of columns of a LIBSVM file, where its last ones are empty: a test file such as
        ``a9a.t`` has 122 columns, the training file 123.

    Returns
    -------
    Dataset
        With ``X``, ``y``, ``name`` and ``feature_names``.

    Raises
    ------
    DataError
        If nothing of that name exists, the set cannot be had, the file cannot be read, a class is
        not there, or a column of a table seems to number or name the rows, holds dates, or has a
        text of its own for every five rows or fewer, and is neither in `drop` nor in `keep`. For a
        set of the papers the message names the folders that were searched, and what to do.

    Warns
    -----
    UserWarning
        If a file in one of the two folders has the name of a set of the papers, but not its
        content; if columns of a table are text, which is one-hot encoded: missing text is NaN in
        all columns of its values.

    Examples
    --------
    >>> import svmcvx as sx
    >>> sx.datasets.load("digits:3-8").X.shape
    (357, 64)
    """
    frame: Any = name if hasattr(name, "iloc") else None
    if frame is None and not isinstance(name, (str, os.PathLike)):
        raise DataTypeError(
            f"name must be a string, a path or a pandas DataFrame, got {type(name).__name__}"
        )
    if not isinstance(data_dir, str | os.PathLike | None):
        raise DataTypeError(f"data_dir must be a string or a path, got {type(data_dir).__name__}")
    columns: dict[str, Any] = {
        "target": target,
        "drop": _columns("drop", drop),
        "keep": _columns("keep", keep),
    }
    if frame is not None:
        return files.read_table(frame, "table", "the data frame", **columns)
    text = os.fspath(cast("str", name))
    read: Callable[..., Dataset] = partial(files.read_file, **columns)
    base, _, classes = text.partition(":") if not Path(text).exists() else (text, "", "")
    if n_features is not None:
        check_whole(n_features, "n_features", 1)
        if not Path(base).is_file():
            raise DataError(f"n_features is for files of LIBSVM, which {base} is not; leave it out")
        found = read(Path(base), n_features=n_features)
    else:
        found = _load(base, data_dir, read)
        if not Path(base).is_file():
            files.without_columns(found, base, **columns)
    if not classes:
        return found
    # A label may begin with a minus sign.
    rest, dash, second = classes[1:].partition("-")
    if not dash:
        raise DataError(f"{text!r} selects one class only; write two, as in {base}:0-1")
    return found.pair(classes[0] + rest, second)


def _columns(argument: str, given: Any) -> list[str]:
    """Return names of columns from a list, or from a text with commas."""
    given = [one.strip() for one in given.split(",")] if isinstance(given, str) else given
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else [None]
    if not all(isinstance(name, str) for name in names):
        raise DataTypeError(
            f"{argument} must be names of columns, as in ['id'] or 'id,date', got {given!r}"
        )
    return list(filter(None, names))


def _load(name: str, data_dir: Any, read: Callable[[Path], Dataset]) -> Dataset:
    path = Path(name)
    # A name without a folder is first looked up among the known sets.
    if path.is_file() and (path.suffix or os.sep in name):
        return read(path)
    record = known_sets().get(name)
    own = os.environ.get(ENVIRONMENT_VARIABLE)
    folders: dict[str, Any] = {"data_dir": data_dir, ENVIRONMENT_VARIABLE: own}
    for folder in filter(None, folders.values()):
        if (there := Path(folder) / f"{name}.npz").is_file():
            return _from_folder(there, record)
    if name in BUILT_IN:
        return _built_in(name)
    if record is not None:
        return _of_papers(record, folders)
    cached = cache_folder()
    if cached is not None and (cached / f"{name}.npz").is_file():
        return read_npz(cached / f"{name}.npz")
    if path.is_file():
        return read(path)
    if path.is_dir():
        raise DataError(f"{name} is a folder; name a file in it, or pass it as data_dir")
    if path.suffix or os.sep in name:
        raise DataError(f"the file {name} does not exist; check the path")
    where = f"and neither data_dir nor {ENVIRONMENT_VARIABLE} is set"
    if given := [str(folder) for folder in folders.values() if folder]:
        where = f"no {name}.npz in {' or '.join(given)}"
    raise DataError(
        f"no data set is called {name!r}{did_you_mean(name, (*BUILT_IN, *known_sets()))}; built in"
        f" are {', '.join(BUILT_IN)}, those of the papers are listed by"
        f" svmcvx.datasets.known_sets(), {where}; pass a path or data_dir"
    )


def _from_folder(path: Path, record: Record | None) -> Dataset:
    """Read a file of the user's own, which may have the name of a set of the papers."""
    data = read_npz(path)
    known = record is not None and record.content is not None
    if record is not None and known and (difference := record.difference(data)) is not None:
        warnings.warn(
            f"{path} is not the set {record.name} of the papers: {difference}", stacklevel=4
        )
    return data


def _of_papers(record: Record, folders: Mapping[str, Any]) -> Dataset:
    """Return a set from the cache or its source."""
    cached = cache_folder()
    places = [f"{what} ({folder or 'not set'})" for what, folder in folders.items()]
    places.append("the cache (needs the extra data)" if cached is None else f"the cache ({cached})")
    looked = f"{record.name}.npz was looked for in {', '.join(places)}"
    if record.unavailable:
        raise DataError(
            f"{record.name} ({record.title}) cannot be had: {record.unavailable}; {looked}. "
            "Put arrays X and y in such a file to use data of your own"
        )
    if cached is not None and (cached / f"{record.name}.npz").is_file():
        try:
            data = read_npz(cached / f"{record.name}.npz")
            if record.difference(data) is None:
                return data
        except DataError:
            pass  # a file that is damaged is fetched again
    try:
        return fetch(record)
    except SvmcvxError as error:
        elsewhere = f"call datasets.load({record.name!r}) with a network and copy its file, or "
        elsewhere = "" if record.download is None else elsewhere
        raise type(error)(
            f"{record.name} ({record.title}, {record.size}) is not on this machine: {looked}, then"
            f" at its source: {error}. To have it here, {elsewhere}put {record.name}.npz into a"
            f" folder and pass it as data_dir or {ENVIRONMENT_VARIABLE}"
            + (f"; the set is described at {record.page}" if record.page else "")
        ) from None


def _built_in(name: str) -> Dataset:
    from sklearn import datasets

    if name in ("moons", "circles", "blobs"):
        shape: dict[str, Any] = {
            "moons": {"noise": 0.25},
            "circles": {"noise": 0.1, "factor": 0.5},
            "blobs": {"centers": 2, "cluster_std": 2.5},
        }[name]
        X, y = getattr(datasets, f"make_{name}")(300, random_state=0, **shape)
        return Dataset(name, X, y, ("x1", "x2"))
    bunch = getattr(datasets, f"load_{name}")()
    labels = np.asarray(bunch.target)
    if name != "digits":
        labels = np.asarray(bunch.target_names)[labels]
    return Dataset(
        name, np.asarray(bunch.data, dtype=np.float64), labels, tuple(map(str, bunch.feature_names))
    )
