"""The file of a model: an ``.npz`` archive without pickle, whose member ``header`` is a JSON text."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.system.files import atomic_write, read_archive

__all__ = ["read_model_file", "write_model_file"]

FORMAT = "svmcvx-model"
FORMAT_VERSION = 1


def write_model_file(
    path: str | os.PathLike[str],
    kind: str,
    classes: NDArray[Any],
    support: NDArray[Any],
    scalars: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
) -> None:
    """Write what describes a model to one file, whole or not at all."""
    arrays = {**arrays, "classes": _storable_labels(classes), "support": support}
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "type": kind,
        "object_labels": bool(classes.dtype.kind == "O"),
        "scalars": scalars,
        "digest": _digest(arrays, scalars),
    }
    try:
        with atomic_write(path) as stream:
            np.savez(stream, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror}); name a file in an existing folder"
        ) from None


def _storable_labels(classes: NDArray[Any]) -> NDArray[Any]:
    if classes.dtype.kind != "O":
        return classes
    # A column of a table comes as objects of one type.
    for kind, stored in ((str, str), ((bool, np.bool_), bool), ((int, np.integer), np.int64)):
        if all(isinstance(label, kind) for label in classes):
            try:
                return classes.astype(stored)
            except OverflowError:
                break
    raise DataError(
        "labels that are neither numbers nor strings cannot be stored; encode them before training"
    )


def _digest(arrays: dict[str, NDArray[Any]], scalars: dict[str, Any]) -> str:
    sha = hashlib.sha256(json.dumps(scalars, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def read_model_file(
    path: str | os.PathLike[str],
) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the kind, the scalars and the arrays that :func:`write_model_file` wrote."""
    what = "a svmcvx model file"
    with read_archive(path, what) as archive:
        if "header" not in archive.shapes:
            raise DataError(f"{path} is not {what}: it has no header")
        header = json.loads(str(archive["header"]))
        arrays = {name: archive[name] for name in archive.shapes if name != "header"}
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{path} is not a svmcvx model file: its header does not say so")
    if header.get("version") != FORMAT_VERSION:
        raise DataError(
            f"{path} has model format {header.get('version')!r}, this svmcvx reads"
            f" {FORMAT_VERSION}; upgrade svmcvx"
        )
    scalars = header.get("scalars")
    if not isinstance(scalars, dict) or not {"classes", "support"} <= arrays.keys():
        raise DataError(
            f"{path} does not describe a model that this svmcvx knows; upgrade svmcvx or save the"
            " model again"
        )
    if _digest(arrays, scalars) != header.get("digest"):
        raise DataError(
            f"{path} is corrupted: its contents do not match their digest; save the model again"
        )
    if header.get("object_labels"):
        arrays["classes"] = arrays["classes"].astype(object)
    return str(header.get("type", "")), scalars, arrays
