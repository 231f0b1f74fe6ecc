"""The problem that a proof is about, in numbers and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise, product
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.errors import DataError

# Sizes by their letters: n, d, c, r, p are those of the statement, others are free.
Shape: TypeAlias = tuple[str, ...]
Arrays: TypeAlias = dict[str, Shape]

# Integers beyond are not all doubles.
LARGEST: Final = 2**53
# Entries of the spread of a model that there may be on any data.
FREE_ENTRIES: Final = 2**24
# Bytes of the tree of a search.
TREE_BYTES: Final = 2**28


class Number(NamedTuple):
    """A range of finite numbers."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False
    # Whether positive infinity belongs to it.
    unbounded: bool = False

    def checked(self, name: str, value: Any) -> float | int:
        """Return a number of this range, a float where it need not be whole."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise DataError(f"{name} of a proof must be {self}, got {_short(value)}")
        inside = self.low < value if self.open_low else self.low <= value
        inside = inside and (value < self.high if self.open_high else value <= self.high)
        finite = abs(value) <= LARGEST if isinstance(value, int) else math.isfinite(value)
        if not (inside and (finite or (self.unbounded and value == math.inf))):
            raise DataError(f"{name} of a proof must be {self}, got {_short(value)}")
        return value if self.whole else float(value)

    def __str__(self) -> str:
        what = "an integer" if self.whole else "a finite number"
        ends = (
            [f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"]
            if self.low > -math.inf
            else []
        )
        if self.high < math.inf:
            ends.append(f"below {self.high:g}" if self.open_high else f"at most {self.high:g}")
        return " ".join(
            [what, *(["or infinite"] if self.unbounded else []), " and ".join(ends)]
        ).strip()


class Choice(NamedTuple):
    """One of some names."""

    names: tuple[str, ...]

    def checked(self, name: str, value: Any) -> str:
        """Return one of the names."""
        if not isinstance(value, str) or value not in self.names:
            raise DataError(
                f"{name} of a proof must be one of {', '.join(self.names)}, got {_short(value)}"
            )
        return value


Rules: TypeAlias = Mapping[str, "Number | Choice"]


class Form(NamedTuple):
    """Hyper-parameters of a formulation, and the arrays that its dual point then has."""

    hyperparameters: Rules
    dual: Mapping[str, Shape] = MappingProxyType({})
    optional: Mapping[str, Shape] = MappingProxyType({})


class Formulation(NamedTuple):
    """What a proof of one formulation may hold; which of its forms it has, the names of the
    hyper-parameters tell.
    """

    intercepts: tuple[str, ...]
    forms: tuple[Form, ...]
    several: bool = False
    counting: bool = False


N: Final = ("n",)
POSITIVE: Final = Number(low=0.0, open_low=True)
NONNEGATIVE: Final = Number(low=0.0)
EXPONENT: Final = Number(low=1.0)
NORM: Final = Number(low=1, high=2, whole=True)
COSTS: Final[Rules] = {"C": POSITIVE, "p": EXPONENT}
ODML: Final[Rules] = {"lam1": NONNEGATIVE, "lam2": NONNEGATIVE}
M3SVM: Final[Rules] = {"lam": POSITIVE, "p": EXPONENT, "eps": POSITIVE, "norm": NORM}
ALPHA: Final[Arrays] = {"alpha": N}
GAMMA: Final[Arrays] = {"gamma": N}
ALPHA_OF_CLASSES: Final[Arrays] = {"alpha": ("n", "c")}
# Multipliers of p = 1, a byte a row: 0, at the bound, or the next of those between.
CODED: Final[Arrays] = {"code": N, "between": ("between",)}
FLOW: Final[Arrays] = {"flow": ("d", "p")}
CONSTANT: Final = ("penalised", "none")

CLASSICAL: Final = Formulation(
    ("free", "none"), (Form({"lam": POSITIVE}, ALPHA_OF_CLASSES),), several=True
)
DROPPING: Final = Formulation(("free",), (Form({"C": POSITIVE}),), counting=True)

FORMULATIONS: Final[Mapping[str, Formulation]] = {
    "psvm": Formulation(("free",), (Form(COSTS, ALPHA),)),
    "penalised psvm": Formulation(CONSTANT, (Form(COSTS, ALPHA),)),
    "hard_margin": Formulation(("free",), (Form({}, ALPHA),)),
    "odm": Formulation(
        CONSTANT,
        (
            Form(
                {"C1": POSITIVE, "C2": POSITIVE, "D": Number(low=0.0, high=1.0, open_high=True)},
                {"theta": N},
            ),
        ),
    ),
    "odml": Formulation(CONSTANT, (Form({**ODML, "C": POSITIVE}, ALPHA, {"tau": N}),)),
    "odml_hard_margin": Formulation(CONSTANT, (Form(ODML, ALPHA, {"tau": N}),)),
    "conic": Formulation(
        CONSTANT,
        (
            Form({"lam": POSITIVE}, GAMMA, ALPHA),
            Form({"kappa": Number(low=0.0, high=1.0)}, {**GAMMA, "lam": ()}, ALPHA),
        ),
    ),
    "conic_fixed_gamma": Formulation(CONSTANT, (Form({"lam": POSITIVE}, GAMMA, ALPHA),)),
    "zero_one": Formulation(
        CONSTANT,
        (
            Form({"lam": POSITIVE}, GAMMA, ALPHA),
            Form({"k": NONNEGATIVE}, {**GAMMA, "lam": ()}, ALPHA),
        ),
        counting=True,
    ),
    "ramp": DROPPING,
    "l0": DROPPING,
    "m3svm": Formulation(
        ("penalised",),
        (
            Form(
                {**M3SVM, "loss": Choice(("hinge", "logistic", "softmax"))}, ALPHA_OF_CLASSES, FLOW
            ),
            Form(
                {**M3SVM, "loss": Choice(("smoothed",)), "delta": POSITIVE}, ALPHA_OF_CLASSES, FLOW
            ),
        ),
        several=True,
    ),
    "m3svm_hard_margin": Formulation(
        ("free",),
        (Form({"p": Number(low=1.0, unbounded=True), "norm": NORM}, ALPHA_OF_CLASSES, FLOW),),
        several=True,
    ),
    **dict.fromkeys(("weston_watkins", "crammer_singer", "msvm"), CLASSICAL),
    **dict.fromkeys(("multinomial_lr", "sparse_multinomial_lr"), CLASSICAL),
    "topk_svm": CLASSICAL._replace(
        forms=(Form({"lam": POSITIVE, "k": Number(low=1, whole=True)}, ALPHA_OF_CLASSES),)
    ),
}

WIDTH: Final[Rules] = {"gamma": POSITIVE}
KERNELS: Final[Mapping[str, Rules]] = {
    "rbf": WIDTH,
    "exponential": WIDTH,
    "laplacian": WIDTH,
    "polynomial": {
        "degree": Number(low=1, high=1000, whole=True),
        "gamma": POSITIVE,
        "coef0": Number(),
    },
    "sigmoid": {"gamma": POSITIVE, "coef0": Number()},
    "precomputed": {},
}

# The tree of a search: dtype and shape of its arrays, of the prices of a budget, and of what a free
# intercept needs.
TREE: Final[Mapping[str, tuple[str, Shape]]] = {
    "branch": ("<i4", ("tree nodes",)),
    "bounds": ("<i4", ("tree nodes",)),
    "upper": ("<f8", ("tree bounds",)),
    "flip_count": ("<i4", ("tree bounds",)),
    "flip_row": ("<i4", ("tree flips",)),
    "beta_count": ("<i4", ("tree bounds",)),
    "beta_row": ("<i4", ("tree multipliers",)),
    "beta": ("<f8", ("tree multipliers",)),
    "price": ("<f8", ("tree bounds",)),
    "side": ("<i4", ("tree bounds",)),
    "at": ("<f8", ("tree bounds",)),
    "centre": ("<f8", ("d",)),
}

# Intervals of scores of test rows, and the formulations and kernels of which they can be checked.
SCORES: Final[Mapping[str, Shape]] = {
    "lower": ("test rows",),
    "upper": ("test rows",),
    "label": ("test rows",),
}
SCORED: Final = ("psvm", "penalised psvm", "hard_margin", "odm", "odml")
SCORED_KERNELS: Final = ("rbf", "exponential", "laplacian", "polynomial")

FAMILIES: Final = ("statement", "model", "dual", "tree", "scores")
# Kinds of problems that are not convex, and who may state a lower end of them.
SEARCHED: Final[Mapping[str, str]] = {"mixed-integer": "a solver", "enumeration": "a search"}
KINDS: Final = (*SEARCHED, "local")
FIELDS: Final = (
    "formulation",
    "hyperparameters",
    "kernel",
    "intercept",
    "rows",
    "columns",
    "classes",
    "fingerprint",
)
SIZE: Final = Number(low=1, whole=True)


def dtype_of(name: str) -> str:
    """Return the dtype of an array by its full name."""
    family, _, entry = name.partition(".")
    if family == "tree" and entry in TREE:
        return TREE[entry][0]
    return {"model.support": "<i8", "dual.code": "|u1", "scores.label": "|u1"}.get(name, "<f8")


def checked_statement(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a statement other than arrays, as plain Python values."""
    name = fields["formulation"]
    if not isinstance(name, str) or name not in FORMULATIONS:
        raise DataError(
            f"there is no check for the formulation {_short(name)}; those known are"
            f" {', '.join(FORMULATIONS)}"
        )
    known = FORMULATIONS[name]
    intercept = Choice(known.intercepts).checked(f"the intercept of {name}", fields["intercept"])
    given = _mapping(fields["hyperparameters"], f"the hyper-parameters of {name}")
    form = _form(name, given)
    hyperparameters = {
        key: form.hyperparameters[key].checked(f"{key} of {name}", given[key]) for key in form[0]
    }
    kernel = _checked_kernel(fields["kernel"])
    if kernel is not None and known.several:
        raise DataError(f"a proof of {name} has no kernel, got {kernel['name']}")
    rows, columns = (
        int(SIZE.checked(f"the number of {what}", fields[what])) for what in ("rows", "columns")
    )
    if kernel is not None and kernel["name"] == "precomputed" and rows != columns:
        raise DataError(
            f"a precomputed kernel is a square matrix, the proof says {rows} rows and"
            f" {columns} columns"
        )
    classes = _checked_classes(fields["classes"], None if known.several else 2)
    if name == "topk_svm" and given["k"] > len(classes):
        raise DataError(
            f"k of topk_svm is at most the number of classes, {len(classes)}, got {given['k']}"
        )
    fingerprint = fields["fingerprint"]
    if not isinstance(fingerprint, str) or not re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{8}", fingerprint
    ):
        raise DataError(
            "the fingerprint of a proof is two times eight hexadecimal digits, got"
            f" {_short(fingerprint)}"
        )
    values = (name, hyperparameters, kernel, intercept, rows, columns, classes, fingerprint)
    return dict(zip(FIELDS, values, strict=True))


def _form(name: str, given: Mapping[str, Any]) -> Form:
    """The form that has hyper-parameters of these names; a choice distinguishes forms of the same
    names.
    """
    forms = FORMULATIONS[name].forms
    form = next((form for form in forms if form.hyperparameters.keys() == given.keys()), None)
    if form is None:
        wanted = " or ".join(_listed(form.hyperparameters) for form in forms)
        raise DataError(
            f"the hyper-parameters of {name} are {wanted}; the proof has {_listed(given)}"
        )
    return form


def _checked_kernel(kernel: Any) -> dict[str, Any] | None:
    if kernel is None:
        return None
    given = _mapping(kernel, "the kernel")
    name = given.get("name")
    if not isinstance(name, str) or name not in KERNELS:
        raise DataError(
            f"the proof has the kernel {_short(name)}; those that can be checked are"
            f" {', '.join(KERNELS)}, and null for the linear machine"
        )
    rules = KERNELS[name]
    if given.keys() != {"name", *rules}:
        raise DataError(
            f"the parameters of the kernel {name} are {_listed(rules)}; the proof has"
            f" {_listed(given.keys() - {'name'})}"
        )
    return {
        "name": name,
        **{key: rules[key].checked(f"{key} of the kernel {name}", given[key]) for key in rules},
    }


def _checked_classes(classes: Any, count: int | None) -> tuple[Any, ...]:
    if not isinstance(classes, (list, tuple)):
        raise DataError(f"the classes of a proof must be a list of labels, got {_short(classes)}")
    kinds = {type(label) for label in classes}
    if kinds not in ({str}, {bool}, {int}, {float}, {int, float}):
        raise DataError(
            "the classes of a proof must be labels that are all strings, all booleans or all"
            " numbers; encode others before training"
        )
    if not all(
        math.isfinite(x) if type(x) is float else type(x) is not int or -(2**63) <= x < 2**64
        for x in classes
    ):
        raise DataError("a class of a proof is not a finite number, or no integer of 64 bits")
    if not all(first < second for first, second in pairwise(classes)):
        raise DataError("the classes of a proof must be different labels in increasing order")
    if len(classes) < 2 or (count is not None and len(classes) != count):
        raise DataError(
            f"the formulation has {'at least two' if count is None else 'two'} classes, the proof"
            f" {len(classes)}"
        )
    return tuple(classes)


def checked_claim(
    formulation: str, lower: Any, upper: Any, kind: Any, stated: Any
) -> dict[str, Any]:
    """Return the claims as plain Python values."""
    kinds = KINDS if FORMULATIONS[formulation].counting else ("convex",)
    kind = Choice(kinds).checked(f"the kind of {formulation}", kind)
    named = (
        ("the lower end", lower),
        ("the upper end", upper),
        ("the lower end that is stated", stated),
    )
    lower, upper, stated = (
        None if value is None else float(Number().checked(name, value)) for name, value in named
    )
    if lower is None and upper is None:
        raise DataError("a proof claims at least one end; this one claims neither")
    if lower is not None and upper is not None and lower > upper:
        raise DataError(
            f"the lower end {lower!r} that a proof claims is above its upper end {upper!r}"
        )
    if stated is not None and kind not in SEARCHED:
        raise DataError(f"a lower end is stated by searches only, not with the kind {kind!r}")
    return {"lower": lower, "upper": upper, "kind": kind, "stated": stated}


def checked_test(statement: Mapping[str, Any], test: Any) -> dict[str, Any]:
    """Return how many test rows there are and their digest, as plain Python values."""
    name, kernel = statement["formulation"], statement["kernel"]
    if name not in SCORED:
        raise DataError(
            f"a proof of {name} has no scores of test rows, only one of {', '.join(SCORED)}"
        )
    definite = kernel is None or (
        kernel["name"] in SCORED_KERNELS and kernel.get("coef0", 0.0) >= 0.0
    )
    if not definite:
        raise DataError(
            f"a proof with the kernel {kernel['name']} has no scores of test rows: it has to be"
            " positive semidefinite on any rows"
        )
    given = _mapping(test, "the test rows")
    if given.keys() != {"rows", "digest"}:
        raise DataError(
            f"the test rows of a proof have the entries digest, rows; this one has {_listed(given)}"
        )
    rows, digest = int(SIZE.checked("the number of test rows", given["rows"])), given["digest"]
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise DataError(
            f"the digest of the test rows of a proof is 64 hexadecimal digits, got {_short(digest)}"
        )
    return {"rows": rows, "digest": digest}


def _alternatives(
    statement: Mapping[str, Any], kind: str | None, tested: int | None
) -> dict[str, tuple[Arrays, ...]]:
    """The sets of arrays that each family may have."""
    name = statement["formulation"]
    known, form = FORMULATIONS[name], _form(name, statement["hyperparameters"])
    linear = statement["kernel"] is None
    given: Arrays = {"gamma": N} if name == "conic_fixed_gamma" else {}
    if known.several:
        models: tuple[Arrays, ...] = ({"coef": ("d", "c"), "intercept": ("c",)},)
    else:
        expansion: Arrays = {"support": ("s",), "dual_coef": ("s",), "intercept": ()}
        models = ({"coef": ("d",), "intercept": ()}, expansion) if linear else (expansion,)
    if name == "conic":
        spreads: list[Arrays] = [{}, {"V_coef": ("n", "q"), "ridge": ()}]
        if linear:
            spreads.append({"V": ("r", "q")})
        models = tuple(model | spread for model, spread in product(models, spreads))
    found: dict[str, tuple[Arrays, ...]] = {
        "statement": _with(given, {"weight": N, **({"M": N} if known.counting else {})}),
        "model": models,
        "dual": ({}, *_with(form.dual, form.optional)) if form.dual else ({},),
        "tree": ({},),
        "scores": ({},) if tested is None else (dict(SCORES),),
    }
    if linear and form.hyperparameters is COSTS and statement["hyperparameters"]["p"] == 1:
        found["dual"] += (CODED,)
    if known.counting and kind == "enumeration":
        without = set() if "k" in statement["hyperparameters"] else {"price"}
        if statement["intercept"] != "free":
            without |= {"side", "at", "centre"}
        elif not linear:
            without |= {"centre"}
        found["tree"] = (
            {},
            {entry: shape for entry, (_, shape) in TREE.items() if entry not in without},
        )
    return found


def dual_of(
    name: str, hyperparameters: Mapping[str, Any], dual: Mapping[str, Any]
) -> dict[str, Any]:
    """Return those entries of a dual point that a proof has; none of a point that lacks one which
    is needed.
    """
    form = _form(name, hyperparameters)
    if not form.dual.keys() <= dual.keys():
        return {}
    return {entry: dual[entry] for entry in (*form.dual, *form.optional) if entry in dual}


def _with(needed: Mapping[str, Shape], optional: Mapping[str, Shape]) -> tuple[Arrays, ...]:
    found: tuple[Arrays, ...] = (dict(needed),)
    for name, shape in optional.items():
        found += tuple(arrays | {name: shape} for arrays in found)
    return found


def check_arrays(
    statement: Mapping[str, Any],
    kind: str | None,
    arrays: Mapping[str, Sequence[int]],
    families: Sequence[str] = FAMILIES,
    tested: int | None = None,
) -> None:
    """Refuse arrays, by their full names and shapes, that a proof of a statement does not have."""
    strange = [name for name in arrays if name.partition(".")[0] not in families]
    if strange:
        raise DataError(f"a proof has no array {strange[0]!r}")
    allowed = _alternatives(statement, kind, tested)
    n, d, c = statement["rows"], statement["columns"], len(statement["classes"])
    sizes = {
        "n": n,
        "d": d,
        "c": c,
        "r": d + (statement["intercept"] == "penalised"),
        "p": c * (c - 1) // 2,
    }
    sizes |= {} if tested is None else {"test rows": tested}
    for family in families:
        found = {
            name.partition(".")[2]: tuple(shape)
            for name, shape in arrays.items()
            if name.startswith(f"{family}.")
        }
        wanted = next((wanted for wanted in allowed[family] if wanted.keys() == found.keys()), None)
        if wanted is None:
            choices = " or ".join(_listed(choice) for choice in allowed[family])
            raise DataError(
                f"the {family} of a proof of {statement['formulation']} has the arrays {choices};"
                f" this one has {_listed(found)}"
            )
        for entry, shape in wanted.items():
            _bind(f"{family}.{entry}", shape, found[entry], sizes)
    if sizes.get("s", 0) > n:
        raise DataError(f"the model of a proof names {sizes['s']} rows, the data have {n}")
    spread = sizes.get("q", 0)
    entries = spread * (n if "model.V_coef" in arrays else sizes["r"])
    if spread > max(n, sizes["r"]) or entries > max(FREE_ENTRIES, 4 * n * d):
        raise DataError(f"the spread of the model of a proof has too many columns: {spread}")
    held = sum(
        math.prod(shape) * int(dtype_of(name)[-1])
        for name, shape in arrays.items()
        if name.startswith("tree.")
    )
    if held > TREE_BYTES:
        raise DataError(f"the tree of a proof has at most {TREE_BYTES} bytes, this one {held}")


def _bind(name: str, shape: Shape, found: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Compare a shape with its letters; one that is free takes the size that it has first."""
    same = len(found) == len(shape) and all(
        size == sizes.setdefault(letter, size) for letter, size in zip(shape, found, strict=True)
    )
    if not same:
        wanted = ", ".join(str(sizes.get(letter, letter)) for letter in shape)
        raise DataError(
            f"the array {name} of the proof has the shape {found} where ({wanted}) is needed"
        )


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise DataError(f"{what} of a proof must be values by their names, got {_short(value)}")
    return value


def _listed(names: Any) -> str:
    # A name of a file may hold anything, also what moves the cursor.
    return (
        ", ".join(sorted(name if name.isprintable() else repr(name) for name in names))[:200]
        or "none"
    )


def _short(value: Any) -> str:
    """The value, in a length that fits a message; integers of any size."""
    if isinstance(value, int) and abs(value) > 10**30:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


Floats: TypeAlias = NDArray[np.float64]

# The fields that are arrays.
ARRAYS: Final = ("weight", "gamma", "M")
# Labels that are shown.
SHOWN: Final = 5


class Weights(NamedTuple):
    """How many weights of the observations differ from 1, and the ends of all of them."""

    differing: int
    lowest: float
    highest: float


@dataclass(frozen=True, eq=False, repr=False)
class Statement:
    """A problem: everything that its optimum depends on except the data, and a digest of the data."""

    formulation: str
    hyperparameters: Mapping[str, Any]
    kernel: Mapping[str, Any] | None
    intercept: str
    rows: int
    columns: int
    classes: tuple[Any, ...]
    fingerprint: str
    weight: Floats | None = None
    gamma: Floats | None = None
    M: Floats | None = None

    def __post_init__(self) -> None:
        plain = checked_statement(
            {
                one.name: _plain(getattr(self, one.name))
                for one in fields(self)
                if one.name not in ARRAYS
            }
        )
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        given = {name: getattr(self, name) for name in ARRAYS}
        given = {
            name: exactly(f"statement.{name}", values, "<f8")
            for name, values in given.items()
            if values is not None
        }
        check_arrays(
            plain,
            None,
            {f"statement.{name}": values.shape for name, values in given.items()},
            ("statement",),
        )
        for name, values in given.items():
            if name != "M" and (values < 0).any():
                raise DataError(f"the array statement.{name} of a proof must not be negative")
            object.__setattr__(self, name, values)
        if self.weight is not None and not self.weight.any():
            raise DataError("some weight of a proof must be positive")

    @property
    def arrays(self) -> dict[str, Floats]:
        """The arrays that there are, by their names."""
        return {name: getattr(self, name) for name in ARRAYS if getattr(self, name) is not None}

    @property
    def plain(self) -> dict[str, Any]:
        """All the rest, as plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ARRAYS}

    @property
    def weights(self) -> Weights:
        """How many weights differ from 1, and between what all of them are."""
        if self.weight is None:
            return Weights(0, 1.0, 1.0)
        return Weights(
            int(np.count_nonzero(self.weight != 1.0)),
            float(self.weight.min()),
            float(self.weight.max()),
        )

    def difference(self, expected: Statement) -> str:
        """Return what differs from the statement that is expected, in words; empty if nothing does."""
        for name, value in expected.plain.items():
            mine = getattr(self, name)
            if (
                isinstance(value, Mapping)
                and isinstance(mine, Mapping)
                and value.keys() == mine.keys()
            ):
                key = next((key for key in value if value[key] != mine[key]), None)
                if key is not None:
                    what = key if name == "hyperparameters" else f"{key} of the {name}"
                    return f"{what} is {mine[key]!r} where {value[key]!r} is expected"
            elif value != mine:
                return f"{name} is {mine!r} where {value!r} is expected"
        for name in ARRAYS:
            mine, other = (
                one.weighted if name == "weight" else getattr(one, name) for one in (self, expected)
            )
            if (mine is None) != (other is None) or (mine is not None and (mine != other).any()):
                row = (
                    None if mine is None or other is None else int(np.flatnonzero(mine != other)[0])
                )
                where = (
                    ""
                    if row is None
                    else f", first in row {row}: {float(mine[row])!r} for {float(other[row])!r}"
                )
                return f"{name} is another than the one that is expected{where}"
        return ""

    @property
    def weighted(self) -> Floats:
        """The weights of all rows."""
        return np.ones(self.rows) if self.weight is None else self.weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and not self.difference(other)

    def __hash__(self) -> int:
        return hash((self.formulation, self.fingerprint))

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} = {value}" for name, value in self.hyperparameters.items())
        if self.kernel is None:
            kernel = "no kernel"
        else:
            parameters = ", ".join(
                f"{name} = {value}" for name, value in self.kernel.items() if name != "name"
            )
            kernel = f"kernel {self.kernel['name']}{f' ({parameters})' if parameters else ''}"
        shown = [repr(label) for label in self.classes[:SHOWN]]
        more = f" and {len(self.classes) - SHOWN} more" if len(self.classes) > SHOWN else ""
        parts = [
            f"{self.formulation}{f' with {numbers}' if numbers else ''}",
            kernel,
            f"intercept {self.intercept}",
            f"{self.rows} rows and {self.columns} columns",
            f"classes {', '.join(shown)}{more}",
            _words(self.weights, self.rows),
        ]
        for name, values in self.arrays.items():
            if name != "weight":
                parts.append(
                    f"{name} given, between {float(values.min())} and {float(values.max())}"
                )
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"Statement({self})"


def _words(weights: Weights, rows: int) -> str:
    if not weights.differing:
        return "all weights 1"
    return (
        f"weights: {weights.differing} of {rows} differ from 1, between {weights.lowest} and"
        f" {weights.highest}"
    )


def _plain(value: Any) -> Any:
    """Numpy's scalars and arrays as Python's."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def exactly(name: str, values: ArrayLike, dtype: str) -> NDArray[Any]:
    """Return values as a read-only array of a dtype, each of them unchanged."""
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        raise DataError(f"the array {name} of a proof is not numeric") from None
    if given.dtype.kind not in "biuf":
        raise DataError(f"the array {name} of a proof is not numeric")
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.array(
            given, dtype=dtype, order="C", copy=True if given.flags.writeable else None
        )
        if given.dtype.str != dtype:
            same = (found == given) | ~np.isfinite(given)
            if found.dtype.kind != given.dtype.kind:
                same &= (given >= -(2**53)) & (given <= 2**53)
            if not same.all():
                raise DataError(
                    f"the array {name} of a proof holds numbers that are not of the dtype {dtype}"
                )
    if not np.isfinite(found).all():
        raise DataError(
            f"the array {name} of a proof is not finite: see its entry"
            f" {int(np.argmin(np.isfinite(found)))}"
        )
    found.flags.writeable = False
    return found
