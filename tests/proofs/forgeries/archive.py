"""Files of proofs as a forger writes them: any header, any arrays, any members, with a digest that
fits.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HEADER, DIGEST = "header.json", "digest.txt"


@dataclass
class File:
    """The contents of the file of a proof, free to be changed, with the data and the test rows that
    it is about and, where it is known, the optimum; the header's ``arrays`` are made from these.
    """

    header: dict[str, Any]
    arrays: dict[str, Any]
    X: np.ndarray
    y: np.ndarray
    optimum: float | None = None
    told: dict[str, Any] = field(default_factory=dict)
    T: Any = None

    @property
    def statement(self) -> dict[str, Any]:
        return self.header["statement"]

    @property
    def claim(self) -> dict[str, Any]:
        return self.header["claim"]

    def text(self) -> str:
        """The header as JSON; what is in ``told`` replaces what arrays are."""
        arrays = {
            name: {"dtype": values.dtype.str, "shape": list(values.shape)} | self.told.get(name, {})
            for name, values in self.arrays.items()
        }
        return json.dumps(self.header | {"arrays": arrays})

    def members(self, text: str | None = None, **others: bytes) -> list[tuple[str, bytes]]:
        """Names and contents of the members of the archive, with another text of the header or of
        an array.
        """
        header = (self.text() if text is None else text).encode()
        arrays = {
            name: others.get(name, npy(values)) for name, values in sorted(self.arrays.items())
        }
        digest = hashlib.sha256(b"".join((header, *arrays.values()))).hexdigest().encode()
        return [
            (HEADER, header),
            *((f"{name}.npy", content) for name, content in arrays.items()),
            (DIGEST, digest),
        ]

    def content(self, text: str | None = None, **others: bytes) -> bytes:
        return packed(self.members(text, **others))


def npy(values: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    """The file of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(values), version=version, allow_pickle=False)
    return stream.getvalue()


def described(dtype: str, shape: tuple[int, ...], fortran: bool = False) -> bytes:
    """The header of the file of an array without the array."""
    text = repr({"descr": dtype, "fortran_order": fortran, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def packed(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of members, which may have the same name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            # Two members of the same name are a forgery, not an accident.
            archive.NameToInfo.pop(name, None)
            archive.writestr(info, content)
    return stream.getvalue()


def unpacked(path: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header, without its arrays' shapes, and arrays of a file."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read(HEADER))
        arrays = {
            name: np.load(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
            for name in header.pop("arrays")
        }
    return header, arrays
