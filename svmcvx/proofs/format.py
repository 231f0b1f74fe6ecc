"""The file of a proof, an ``.npz`` archive without pickle, and the name of the data that it is about.

The member ``header`` is a JSON text with everything that is not an array; its digest covers the arrays too. The digest
and the fingerprint guard against accidents: no bound rests on them.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError

__all__ = ["Proof", "fingerprint", "read_proof", "shown", "write_proof"]

Floats: TypeAlias = NDArray[np.float64]

FORMAT: Final = "svmcvx-proof"
FORMAT_VERSION: Final = 1
INTERCEPTS: Final = ("free", "penalised", "none")
# Fields that the header holds, and mappings of arrays.
PLAIN: Final = ("formulation", "hyperparameters", "kernel", "intercept", "lower", "upper", "kind", "fingerprint")
MAPPINGS: Final = ("model", "dual", "extra")
# Rows that a fingerprint looks at.
SAMPLE: Final = 32


@dataclass(frozen=True, eq=False, repr=False)
class Proof:
    """What is claimed, and the numbers from which it follows.

    Attributes
    ----------
    formulation : str
        Name of the formulation, as in ``Solution.formulation``.
    hyperparameters : dict
        Plain numbers and strings.
    kernel : dict or None
        ``name`` and numeric parameters; None for the linear formulation.
    intercept : "free", "penalised" or "none"
        What the formulation does with the bias.
    weight : ndarray of shape (rows,)
        Weights of the observations; those of weight zero take no part.
    classes : ndarray
        The labels, sorted; the second of two is the positive class.
    model : dict
        ``coef`` and ``intercept``, or ``support``, ``dual_coef`` and ``intercept``.
    dual : dict of ndarray
        The point behind the lower bound, indexed like the data.
    lower : float or None
        The end that is claimed; None if no bound is.
    upper : float
    kind : str
        "convex", "mixed-integer", "enumeration" or "local".
    fingerprint : str
        See :func:`fingerprint`.
    extra : dict of ndarray
        What a family needs besides: see ``docs/proofs.md``.
    """

    formulation: str
    hyperparameters: Mapping[str, Any]
    kernel: Mapping[str, Any] | None
    intercept: str
    weight: Floats
    classes: NDArray[Any]
    model: Mapping[str, Any]
    dual: Mapping[str, Floats]
    lower: float | None
    upper: float
    kind: str
    fingerprint: str
    extra: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.intercept not in INTERCEPTS:
            raise DataError(f"the intercept of a proof is one of {', '.join(INTERCEPTS)}, got {self.intercept!r}")
        for name in MAPPINGS:
            arrays = {key: np.array(values) for key, values in getattr(self, name).items()}
            for key, values in arrays.items():
                if values.dtype.kind not in "biuf":
                    raise DataError(f"the entry {key!r} of the {name} of a proof is not numeric")
            object.__setattr__(self, name, arrays)
        object.__setattr__(self, "weight", np.array(self.weight, dtype=np.float64))
        object.__setattr__(self, "classes", np.array(self.classes))

    def __repr__(self) -> str:
        lower = "none" if self.lower is None else f"{self.lower:.9g}"
        return (
            f"Proof({self.formulation}: {self.kind}, lower {lower}, upper {self.upper:.9g}, {self.weight.size} observations, "
            f"data {self.fingerprint})"
        )

    def _repr_html_(self) -> str:
        claims = {f"Claimed {name} bound": getattr(self, name) for name in ("lower", "upper")}
        about = {"Formulation": self.formulation, **self.hyperparameters, "Observations": self.weight.size}
        fields = {**about, "Data hash": self.fingerprint, "Kind": self.kind, **claims}
        return shown("Proof, to be checked by svmcvx.verify", fields)


def shown(title: str, fields: Mapping[str, Any]) -> str:
    """Return values by their names as a table of HTML, in the colours of the page."""
    cell = "text-align:left;background:none;color:inherit;padding:0.2em 0.7em;"
    label = "font-weight:normal;opacity:0.75;white-space:nowrap;"
    rows = "".join(
        f'<tr style="background:none;"><th scope="row" style="{cell}{label}">{html.escape(name)}</th>'
        f'<td style="{cell}">{html.escape(f"{value:.10g}" if isinstance(value, float) else str(value))}</td></tr>'
        for name, value in fields.items()
    )
    table = f'<table style="border-collapse:collapse;color:inherit;"><tbody>{rows}</tbody></table>'
    return f'<div class="svmcvx"><div style="font-weight:bold;">{html.escape(title)}</div>{table}</div>'


def write_proof(path: str | os.PathLike[str], proof: Proof) -> None:
    """Write a proof to a file, whole or not at all.

    Raises
    ------
    DataError
        If the labels are neither numbers nor strings, or the file cannot be written.
    """
    arrays = {f"{name}.{key}": values for name in MAPPINGS for key, values in getattr(proof, name).items()}
    arrays |= {"weight": proof.weight, "classes": _storable(proof.classes)}
    plain = {name: _plain(getattr(proof, name)) for name in PLAIN}
    try:
        text = json.dumps(plain, sort_keys=True)
    except (TypeError, ValueError):
        raise DataError("the hyperparameters of a proof must be plain numbers and strings") from None
    header = {"format": FORMAT, "version": FORMAT_VERSION, "proof": text, "digest": _digest(text, arrays)}
    target = Path(path)
    try:
        # Not by tempfile, whose files others may not read.
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with temporary.open("xb") as stream:
                np.savez(stream, header=np.array(json.dumps(header)), **arrays)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror}); name a file in an existing folder") from None


def read_proof(path: str | os.PathLike[str]) -> Proof:
    """Return the proof that :func:`write_proof` wrote.

    Raises
    ------
    DataError
        If the file does not exist, is not a proof, was written by a newer format, or is corrupted.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "header" not in archive:
                raise DataError(f"{path} is not the file of a proof: it has no header")
            header = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; pass the file of a proof") from None
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from None
    except (
        ValueError,
        EOFError,
        KeyError,
        AttributeError,
        TypeError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        raise DataError(f"{path} is not the file of a proof, or is corrupted") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{path} is not the file of a proof: its header does not say so")
    if header.get("version") != FORMAT_VERSION:
        raise DataError(
            f"{path} has proof format {header.get('version')!r}, this svmcvx reads {FORMAT_VERSION}; upgrade svmcvx"
        )
    text = header.get("proof")
    if not isinstance(text, str) or _digest(text, arrays) != header.get("digest"):
        raise DataError(f"{path} is corrupted: its contents do not match their digest")
    try:
        plain = json.loads(text)
        found: dict[str, Any] = {name: plain[name] for name in PLAIN} | {name: {} for name in MAPPINGS}
        for name, values in arrays.items():
            if "." in name:
                family, key = name.split(".", 1)
                found[family][key] = values
        return Proof(**found, weight=arrays["weight"], classes=arrays["classes"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} does not hold what a proof needs ({error})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _storable(classes: NDArray[Any]) -> NDArray[Any]:
    if classes.dtype.kind != "O":
        return classes
    labels = classes.tolist()
    for kind in (str, bool, int, float):
        if all(type(label) is kind for label in labels):
            stored = np.array(labels)
            if stored.dtype.kind in "biufU":
                return stored
    raise DataError("labels that are neither numbers nor strings cannot be stored; encode them before training")


def _digest(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def fingerprint(X: Any, y: Any, *, coded: bool = False) -> str:
    """Return a short name of the data: the same for dense and sparse storage of the same numbers.

    It covers the shape, which observations share a label, in the order of the labels, and the entries that are not zero of
    some :data:`SAMPLE` rows, evenly spaced. It names the cause where data were mixed up; a change that it misses shows in
    the numbers that are computed from all rows.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    coded : bool
        Whether `y` holds positions in the sorted labels already.
    """
    rows = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    n, d = rows.shape
    crc = zlib.crc32(f"{n}x{d}".encode())
    part: Any = rows[:: max(1, n // SAMPLE)]
    if sp.issparse(part):
        part = part.copy()
        part.sum_duplicates()
        part.eliminate_zeros()
        counts, columns, values = np.diff(part.indptr), part.indices, part.data
    else:
        filled = part != 0.0
        counts, columns, values = filled.sum(axis=1), np.nonzero(filled)[1], part[filled]
    for piece in (counts.astype(np.int64), columns.astype(np.int64), values):
        crc = zlib.crc32(piece.tobytes(), crc)
    codes = np.asarray(y).ravel() if coded else np.unique(np.asarray(y).ravel(), return_inverse=True)[1]
    return f"{crc:08x}-{zlib.crc32(codes.astype(np.int64).tobytes()):08x}"
