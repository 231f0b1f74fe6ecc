"""Trees of blocks of the rows that were changed, and claim more than they prove."""

import numpy as np

from .corpus import arrays, both, claims, numbers, put, said, times, without

LESS, SHARES = "search proves", "shares of the blocks, 256 at most, must be positive"
COUNTS = "counts of the tree's"
ALONE = claims(upper=None)


def exchanged(file):
    """Each block has the tree of the other one."""
    file.arrays["tree.block"] = (1 - file.arrays["tree.block"]).astype(np.uint8)


def a_node_moved(file):
    """A block takes a node of the next one."""
    file.arrays["tree.nodes"] += np.array([1, -1], dtype=np.int32)


def cut_short(name, less=1):
    """Take the last entries of an array away."""

    def change(file):
        file.arrays[name] = file.arrays[name][:-less]

    return change


def twice(file):
    """The trees of both blocks, and these once more: each row is counted twice."""
    for name in file.arrays:
        if name.startswith("tree.") and name not in ("tree.block", "tree.share"):
            file.arrays[name] = np.concatenate([file.arrays[name]] * 2)
    file.arrays["tree.share"] = np.full(4, 0.25)
    file.claim.update(upper=None)


def too_many(file):
    """More blocks than a byte names, most of them without nodes."""
    file.arrays["tree.nodes"] = np.append(file.arrays["tree.nodes"], np.zeros(255, np.int32))
    file.arrays["tree.centre"] = np.resize(file.arrays["tree.centre"], (257, 2))
    file.arrays["tree.share"] = np.full(257, 2.0**-9)


def no_blocks(file):
    for name in file.arrays:
        if name.startswith("tree.") and name != "tree.block":
            file.arrays[name] = file.arrays[name][:0]


FORGERIES = [
    ("shares of more than the whole", "blocks", put("tree.share", 0, 0.5 + 2.0**-52), SHARES),
    ("a share of twice its size", "blocks", times("tree.share", 2.0), SHARES),
    ("a share of nothing", "blocks", put("tree.share", 0, 0.0), SHARES),
    ("a negative share", "blocks", put("tree.share", 0, -0.5), SHARES),
    ("blocks that no byte names", "blocks", too_many, SHARES),
    ("no blocks", "blocks", no_blocks, SHARES),
    ("blocks at a higher price", "blocks", both(put("tree.share", 0, 1e-9), ALONE), LESS),
    ("a price of a block that overflows", "blocks", put("tree.share", ..., 5e-324), LESS),
    ("blocks of another price", "blocks", both(numbers(C=0.5), ALONE), LESS),
    ("a row in a block that there is not", "blocks", put("tree.block", 3, 2), "names a block that"),
    ("blocks that exchange their trees", "blocks", exchanged, f"{LESS}|name rows|branches on no"),
    ("all rows in one block", "blocks", put("tree.block", ..., 0), f"{LESS}|crosses"),
    ("a tree of no rows", "blocks 0-1", put("tree.block", ..., 1), f"{LESS}|crosses"),
    ("blocks that are counted twice", "blocks", twice, LESS),
    ("a node in another block", "blocks", a_node_moved, "ends before its last|behind its last"),
    ("nodes of no block", "blocks", put("tree.nodes", 0, 1), f"{COUNTS} nodes"),
    ("bounds that end too soon", "blocks 0-1", put("tree.bounds", 0, 0), f"{COUNTS} bounds"),
    ("marks that end too soon", "blocks", cut_short("tree.flip_row"), f"{COUNTS} marks"),
    ("a block of one row less", "blocks", cut_short("tree.block"), "shape"),
    ("a centre for all blocks", "blocks", arrays(tree__centre=np.zeros(2)), "shape"),
    ("blocks without shares", "blocks", without("tree.share"), "the tree of a proof of"),
    ("blocks within blocks", "blocks", arrays(tree__cut=np.zeros(4, np.uint8)), "the tree of a"),
    ("blocks as version 3", "blocks", said("version", 3), "another proof format"),
    (
        "blocks of the ramp loss",
        "blocks",
        both(said("statement.formulation", "ramp"), ALONE),
        "blocks are about",
    ),
    (
        "blocks with a budget",
        "blocks 0-1",
        both(said("statement.hyperparameters", {"k": 3.0}), ALONE),
        "blocks are about",
    ),
]
