"""Archives that are damaged, ambiguous, or made to fill the memory."""

import io
import struct
import zipfile

import numpy as np

from .archive import DIGEST, HEADER, File, described, npy, packed

ONES = np.ones(24)
CORRUPTED = "not the file of a proof, or is corrupted|damaged"
TWICE, OTHERS = "two members of one name", "do not belong together"
SIZE = "the size of dual.alpha is not that of its shape"
ALPHA = "dual.alpha.npy"


def cut(change):
    """Bytes taken from an archive, or put between them."""
    return lambda file: change(file.content())


def members(change):
    """Other members than those of the honest file, the last of which is the digest."""
    return lambda file: packed(change(file, file.members()))


def clothed(array):
    """Multipliers in another array file."""
    return lambda file: file.content(**{"dual.alpha": array})


def changed_byte(file):
    content = bytearray(file.content())
    content[content.index(file.arrays["dual.alpha"].tobytes()) + 3] ^= 1
    return bytes(content)


def version_1(_):
    stream = io.BytesIO()
    np.savez(stream, header=np.array('{"format": "svmcvx-proof", "version": 1}'), weight=ONES)
    return stream.getvalue()


def by_lzma(file):
    return packed(file.members(), zipfile.ZIP_LZMA)


def encrypted(file):
    content = bytearray(file.content())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    return bytes(content)


def in_the_comment(file):
    arrays = file.arrays | {"dual.alpha": 2.0 * file.arrays["dual.alpha"]}
    other = File(file.header, arrays, file.X, file.y).content()
    return file.content()[:-2] + struct.pack("<H", len(other)) + other


LARGE = 8_000_000


def deflated(name, start=None, told=False):
    """An archive with a member of megabytes of zeros, in place of the one that it has."""

    def change(file):
        if told:
            file.told["dual.alpha"] = {"shape": [LARGE // 8]}
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in file.members():
                if member != name:
                    archive.writestr(member, content)
            with archive.open(zipfile.ZipInfo(name), "w") as member:
                member.write(described("<f8", (LARGE // 8,)) if start is None else start)
                for _ in range(LARGE // 1_000_000):
                    member.write(bytes(1_000_000))
        return stream.getvalue()

    return change


def ten_trillion(file):
    file.told["dual.alpha"] = {"shape": [10**13]}
    return file.content(**{"dual.alpha": described("<f8", (10**13,))})


def no_room(file):
    file.statement["rows"] = 2**18
    file.arrays["dual.alpha"] = np.zeros(2**18)
    return packed(file.members(), zipfile.ZIP_DEFLATED)


def large_tree(file):
    file.told = {name: {"shape": [2**27]} for name in file.arrays if name.startswith("tree.")}


def digest(content):
    return lambda _, own: [*own[:-1], (DIGEST, content)]


def other_header_first(file, own):
    return [(HEADER, file.text().replace('"C": 1.3', '"C": 7.5').encode()), *own]


HONEST = described("<f8", (24,))
CLOTHES = {
    "of npy version 2": npy(np.zeros(24), (2, 0)),
    "in Fortran's order": described("<f8", (24,), fortran=True) + bytes(192),
    "of objects": described("|O", (24,)) + bytes(192),
    "of big-endian numbers": npy(np.zeros(24, dtype=">f8")),
    "of strings": npy(np.full(24, "1")),
    "of two columns": npy(np.zeros((12, 2))),
    "cut short": npy(np.zeros(24))[:-8],
    "with bytes behind": npy(np.zeros(24)) + bytes(8),
    "without a header": bytes(320),
    "without a byte": b"",
    "with code in its header": HONEST.replace(b"'shape'", b"exit(1)", 1) + bytes(192),
    "of a negative size": described("<f8", (-24,)) + bytes(192),
}
CUTS = {
    "an empty file": lambda content: b"",
    "ten bytes of an archive": lambda content: content[:10],
    "an archive cut in half": lambda content: content[: len(content) // 2],
    "an archive without its last byte": lambda content: content[:-1],
    "the directory of the archive alone": lambda content: content[content.index(b"PK\x01\x02") :],
    "the mark of an archive of more than four gigabytes": lambda content: (
        content[:-22] + b"PK\x06\x07" + bytes(16) + content[-22:]
    ),
}
MEMBERS = [
    ("the multipliers twice", lambda _, own: [(ALPHA, npy(3.0 * ONES)), *own], TWICE),
    ("the header twice, with another C first", other_header_first, TWICE),
    ("a strange member", lambda _, own: [*own, ("dual.theta.npy", npy(ONES))], OTHERS),
    ("a member outside the folder", lambda _, own: [*own, ("../../e.npy", npy(ONES))], OTHERS),
    ("an array that is missing", lambda _, own: [m for m in own if m[0] != ALPHA], OTHERS),
    ("no digest", lambda _, own: own[:-1], OTHERS),
    ("the digest of another file", digest(b"0" * 64), "do not match their digest"),
    ("a digest that is none", digest(b"\xff" * 64), CORRUPTED),
    ("a digest of another length", digest(b"0" * 63), "digest is not one of 64 digits"),
    ("65 members", lambda _, own: [*own, *((f"{k}.npy", b"") for k in range(65))], "or more than"),
]

FORGERIES = [
    ("no archive", "psvm", lambda _: b"not an archive", CORRUPTED),
    *((what, "psvm", cut(change), CORRUPTED) for what, change in CUTS.items()),
    ("a byte of an array changed", "psvm", changed_byte, CORRUPTED),
    ("a file of version 1", "psvm", version_1, "proof format 1, which is not read any more"),
    ("an archive of arrays", "psvm", lambda _: packed([("a.npy", npy(ONES))]), "it has no header"),
    *((what, "psvm", members(change), reason) for what, change, reason in MEMBERS),
    ("members packed by another method", "psvm", by_lzma, "neither stored nor deflated"),
    ("a member that is said to be encrypted", "psvm", encrypted, "neither stored nor deflated"),
    ("an archive in the comment of another", "psvm", in_the_comment, f"above|{CORRUPTED}"),
    ("megabytes of zeros that nobody asked for", "psvm", deflated("junk.npy"), OTHERS),
    ("megabytes of zeros as multipliers", "psvm", deflated(ALPHA), SIZE),
    ("megabytes of zeros that are announced", "psvm", deflated(ALPHA, told=True), "shape"),
    ("a long header", "psvm", deflated(HEADER, b'{"format": "'), "its header has|corrupted"),
    ("an array of ten trillion entries", "psvm", ten_trillion, "shape"),
    ("ten trillion", "psvm", clothed(described("<f8", (10**13,)) + bytes(192)), "not an array of"),
    *((f"multipliers {k}", "psvm", clothed(v), "dual.alpha|corr") for k, v in CLOTHES.items()),
    ("zeros that take no room", "psvm", no_room, "dual.alpha is deflated to less than a 64th"),
    ("a tree of half a gigabyte", "zero_one", large_tree, "the tree of a proof has at most"),
]
