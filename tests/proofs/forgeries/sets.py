"""Sets of rows that were changed, and claim more than they prove."""

from .corpus import both, claims, numbers, put, said, times

LESS = "search proves"
FORGERIES = [
    ("a set that nothing is paid for", "sets", put("tree.paid", 0, 0.0), "no price"),
    ("a set with a negative price", "sets", put("tree.paid", 0, -1.0), "no price"),
    ("a set paid more than others", "sets", times("tree.paid", 3.0), LESS),
    ("sets of other sizes", "sets", put("tree.support_count", ..., 1), "counts of the"),
    ("a set of no size", "sets", put("tree.support_count", 0, 0), "counts of the"),
    ("a set that an intercept keeps", "sets", times("tree.support_alpha", 1.5), "about norm zero"),
    ("a set of a row that there is not", "sets", put("tree.support_row", 0, 99), "names a row"),
    ("a multiplier below zero", "sets", put("tree.support_alpha", 0, -1.0), "names a row"),
    ("sets at a lower price", "sets", both(numbers(C=0.1), claims(upper=None)), LESS),
    (
        "sets of the ramp loss",
        "sets",
        both(said("statement.formulation", "ramp"), claims(upper=None)),
        "sets are about",
    ),
]
