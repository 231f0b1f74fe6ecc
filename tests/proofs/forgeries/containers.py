"""Archives that are damaged, ambiguous, or made to fill the memory."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

import numpy as np

from .archive import DIGEST, HEADER, File, described, npy, packed
from .corpus import forgery

ONES = np.ones(24)
CORRUPTED = "not the file of a proof, or is corrupted|damaged"


@forgery("no archive", CORRUPTED)
def _(file: File) -> bytes:
    return b"not an archive"


# What is left of the bytes of an archive, or comes between them.
CUTS: dict[str, Callable[[bytes], bytes]] = {
    "an empty file": lambda content: b"",
    "ten bytes of an archive": lambda content: content[:10],
    "an archive cut in half": lambda content: content[: len(content) // 2],
    "an archive without its last byte": lambda content: content[:-1],
    "the directory of the archive alone": lambda content: content[content.index(b"PK\x01\x02") :],
    "the mark of an archive of more than four gigabytes": lambda content: (
        content[:-22] + b"PK\x06\x07" + bytes(16) + content[-22:]
    ),
}
for what, cut in CUTS.items():

    @forgery(what, CORRUPTED)
    def _(file: File, cut: Callable[[bytes], bytes] = cut) -> bytes:
        return cut(file.content())


@forgery("a byte of an array changed", CORRUPTED)
def _(file: File) -> bytes:
    content = bytearray(file.content())
    content[content.index(file.arrays["dual.alpha"].tobytes()) + 3] ^= 1
    return bytes(content)


@forgery("a file of version 1", "proof format 1, which is not read any more")
def _(file: File) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, header=np.array('{"format": "svmcvx-proof", "version": 1}'), weight=ONES)
    return stream.getvalue()


@forgery("another archive of arrays", "it has no header")
def _(file: File) -> bytes:
    return packed([("a.npy", npy(ONES))])


Members = list[tuple[str, bytes]]
OTHERS, DIGESTS = (
    "do not belong together",
    ("do not match their digest", CORRUPTED, "digest is not one of 64 digits"),
)
ALPHA = "dual.alpha.npy"
# Other members than those of the honest file, the last of which is the digest.
MEMBERS: dict[str, tuple[Callable[[File, Members], Members], str]] = {
    "the multipliers twice, other ones first": (
        lambda file, members: [(ALPHA, npy(3.0 * file.arrays["dual.alpha"])), *members],
        "two members of one name",
    ),
    "the header twice, with another C first": (
        lambda file, members: [
            (HEADER, file.text().replace('"C": 1.3', '"C": 7.5').encode()),
            *members,
        ],
        "two members of one name",
    ),
    "a member that the header does not name": (
        lambda _, members: [*members, ("dual.theta.npy", npy(ONES))],
        OTHERS,
    ),
    "an array in place of an entry of the header": (
        lambda _, members: [*members, ("hyperparameters.C.npy", npy(np.array(7.5)))],
        OTHERS,
    ),
    "a member outside the folder": (
        lambda _, members: [*members, ("../../elsewhere.npy", npy(ONES))],
        OTHERS,
    ),
    "an array that is missing": (lambda _, members: [m for m in members if m[0] != ALPHA], OTHERS),
    "no digest": (lambda _, members: members[:-1], OTHERS),
    "the digest of another file": (
        lambda _, members: [*members[:-1], (DIGEST, b"0" * 64)],
        DIGESTS[0],
    ),
    "a digest that is none": (
        lambda _, members: [*members[:-1], (DIGEST, b"\xff" * 64)],
        DIGESTS[1],
    ),
    "a digest of another length": (
        lambda _, members: [*members[:-1], (DIGEST, b"0" * 63)],
        DIGESTS[2],
    ),
    "a hundred members more": (
        lambda _, members: [*members, *((f"{k}.npy", b"") for k in range(100))],
        "or more than .* members",
    ),
}
for what, (change, reason) in MEMBERS.items():

    @forgery(what, reason)
    def _(file: File, change: Callable[[File, Members], Members] = change) -> bytes:
        return packed(change(file, file.members()))


for compression in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):

    @forgery(f"members packed by method {compression}", "neither stored nor deflated")
    def _(file: File, compression: int = compression) -> bytes:
        return packed(file.members(), compression)


@forgery("a member that is said to be encrypted", "neither stored nor deflated")
def _(file: File) -> bytes:
    content = bytearray(file.content())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    return bytes(content)


@forgery("an archive in the comment of another", "above its bound|" + CORRUPTED)
def _(file: File) -> bytes:
    other = File(
        file.header, file.arrays | {"dual.alpha": 2.0 * file.arrays["dual.alpha"]}, file.X, file.y
    ).content()
    content = file.content()
    return content[:-2] + struct.pack("<H", len(other)) + other


# Sizes.

LARGE = 32_000_000


def deflated(members: list[tuple[str, bytes]], name: str, start: bytes, size: int) -> bytes:
    """An archive with one more member, of zeros behind its start."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members:
            archive.writestr(member, content)
        with archive.open(zipfile.ZipInfo(name), "w") as member:
            member.write(start)
            for _ in range(size // 1_000_000):
                member.write(bytes(1_000_000))
    return stream.getvalue()


@forgery("thirty-two megabytes of zeros that nobody asked for", "do not belong together")
def _(file: File) -> bytes:
    return deflated(file.members(), "junk.npy", described("<f8", (LARGE // 8,)), LARGE)


@forgery(
    "thirty-two megabytes of zeros as multipliers",
    "the size of dual.alpha is not that of its shape",
)
def _(file: File) -> bytes:
    members = [member for member in file.members() if member[0] != "dual.alpha.npy"]
    return deflated(members, "dual.alpha.npy", described("<f8", (LARGE // 8,)), LARGE)


@forgery("thirty-two megabytes of zeros that the header tells of", "shape")
def _(file: File) -> bytes:
    file.told["dual.alpha"] = {"shape": [LARGE // 8]}
    members = [member for member in file.members() if member[0] != "dual.alpha.npy"]
    return deflated(members, "dual.alpha.npy", described("<f8", (LARGE // 8,)), LARGE)


@forgery("a header of thirty-two megabytes", "its header has more than|corrupted")
def _(file: File) -> bytes:
    return deflated(file.members()[1:], HEADER, b'{"format": "', LARGE)


@forgery("an array that is said to have ten trillion entries", "shape")
def _(file: File) -> bytes:
    file.told["dual.alpha"] = {"shape": [10**13]}
    return file.content(**{"dual.alpha": described("<f8", (10**13,))})


@forgery(
    "ten trillion entries where the header says 24",
    "the size of dual.alpha is not that of its shape|not an array of",
)
def _(file: File) -> bytes:
    return file.content(**{"dual.alpha": described("<f8", (10**13,)) + bytes(192)})


# Arrays in other clothes.

CLOTHES = {
    "of npy version 2": npy(np.zeros(24), (2, 0)),
    "in Fortran's order": described("<f8", (24,), fortran=True) + bytes(192),
    "of objects": described("|O", (24,)) + bytes(192),
    "of big-endian numbers": npy(np.zeros(24, dtype=">f8")),
    "of complex numbers": npy(np.zeros(24, dtype=complex)),
    "of single precision": npy(np.zeros(24, dtype=np.float32)),
    "of integers": npy(np.zeros(24, dtype=np.int64)),
    "of strings": npy(np.full(24, "1")),
    "of two columns": npy(np.zeros((12, 2))),
    "cut short": npy(np.zeros(24))[:-8],
    "with bytes behind": npy(np.zeros(24)) + bytes(8),
    "without a header": bytes(320),
    "without a byte": b"",
    "with code in its header": described("<f8", (24,)).replace(b"'shape'", b"exit(1)", 1)
    + bytes(192),
    "of a negative size": described("<f8", (-24,)) + bytes(192),
}
for what, array in CLOTHES.items():

    @forgery(f"multipliers {what}", "dual.alpha|corrupted")
    def _(file: File, array: bytes = array) -> bytes:
        return file.content(**{"dual.alpha": array})


@forgery(
    "multipliers of zeros that take no room in the file",
    "dual.alpha is deflated to less than a 64th",
)
def _(file: File) -> bytes:
    file.statement["rows"] = 2**18
    file.arrays["dual.alpha"] = np.zeros(2**18)
    return packed(file.members(), zipfile.ZIP_DEFLATED)


@forgery(
    "a tree that takes more than a quarter of a gigabyte",
    "the tree of a proof has at most",
    "zero_one",
)
def _(file: File) -> None:
    file.told = {name: {"shape": [2**27]} for name in file.arrays if name.startswith("tree.")}
