"""Fetching a data set from its source into the user's cache."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.datasets.content import Dataset, label_text
from svmcvx.datasets.files import read_libsvm, read_npz, write_npz
from svmcvx.datasets.registry import Record
from svmcvx.errors import DataError, missing_extra

__all__ = ["CACHE_VARIABLE", "cache_folder", "fetch"]

CACHE_VARIABLE = "SVMCVX_CACHE"
# Seconds without an answer after which a download fails.
PATIENCE = 60


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
                f" {_first_line(error)})"
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


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]


def _files(recipe: Mapping[str, Any], scratch: Path) -> list[Path]:
    """Download the files of a recipe. Their content is compared with the record's digest after it
    is read.
    """
    import pooch

    quiet = pooch.get_logger()
    level = quiet.level
    quiet.setLevel("ERROR")
    try:
        return [
            Path(
                pooch.retrieve(
                    url,
                    known_hash=None,
                    path=scratch,
                    fname=f"{number}-{os.path.basename(url)}",
                    downloader=pooch.HTTPDownloader(timeout=PATIENCE),
                )
            )
            for number, url in enumerate(recipe["urls"])
        ]
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
