"""The problem that a proof is about, in numbers and in words; and the tables of what the proof of
each formulation may hold, from which the writer, the reader and all checks of a file follow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.intervals import Floats

# Sizes by their letters: n, d, c, r, p are those of the statement, others are free.
Shape: TypeAlias = tuple[str, ...]
Sizes: TypeAlias = tuple[int, ...]
# Shapes by names; a name with "?" is optional.
Arrays: TypeAlias = Mapping[str, Shape]

# Integers beyond are not all doubles.
LARGEST: Final = 2**53
# Entries of the spread of a model that there may be on any data.
FREE_ENTRIES: Final = 2**24
# Bytes of the tree of a search.
TREE_BYTES: Final = 2**28


class Number(NamedTuple):
    """A range of finite numbers; infinity belongs to it if it is unbounded."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False
    unbounded: bool = False

    def checked(self, name: str, value: Any) -> float | int:
        """Return a number of this range, a float where it need not be whole."""
        kinds = int if self.whole else (int, float)
        if not isinstance(value, bool) and isinstance(value, kinds):
            finite = abs(value) <= LARGEST if isinstance(value, int) else math.isfinite(value)
            above = self.low < value if self.open_low else self.low <= value
            below = value < self.high if self.open_high else value <= self.high
            if above and below and (finite or (self.unbounded and value == math.inf)):
                return value if self.whole else float(value)
        raise DataError(f"{name} of a proof must be {self}, got {_short(value)}")

    def __str__(self) -> str:
        what = ("an integer" if self.whole else "a finite number") + " or infinite" * self.unbounded
        ends = [
            f"{'above' if self.open_low else 'at least'} {self.low:g}" * (self.low > -math.inf),
            f"{'below' if self.open_high else 'at most'} {self.high:g}" * (self.high < math.inf),
        ]
        return f"{what} {' and '.join(filter(None, ends))}".strip()


class Choice(NamedTuple):
    names: tuple[str, ...]

    def checked(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.names:
            raise DataError(
                f"{name} of a proof must be one of {', '.join(self.names)}, got {_short(value)}"
            )
        return value


Rules: TypeAlias = Mapping[str, "Number | Choice"]


class Form(NamedTuple):
    """Hyper-parameters, whose names tell the forms of a formulation apart, and the dual point."""

    hyperparameters: Rules
    dual: Arrays


class Formulation(NamedTuple):
    intercepts: tuple[str, ...]
    forms: tuple[Form, ...]
    several: bool = False
    counting: bool = False
    # Arrays of the statement.
    own: Arrays = {"weight?": ("n",)}  # noqa: RUF012


N: Final = ("n",)
POSITIVE: Final = Number(low=0.0, open_low=True)
NONNEGATIVE: Final = Number(low=0.0)
EXPONENT: Final = Number(low=1.0)
NORM: Final = Number(low=1, high=2, whole=True)
SHARE: Final = Number(low=0.0, high=1.0)
CONSTANT: Final = ("penalised", "none")
LAM: Final[Rules] = {"lam": POSITIVE}
COSTS: Final[Rules] = {"C": POSITIVE, "p": EXPONENT}
ODM: Final[Rules] = {"C1": POSITIVE, "C2": POSITIVE, "D": SHARE._replace(open_high=True)}
ODML: Final[Rules] = {"lam1": NONNEGATIVE, "lam2": NONNEGATIVE}
M3SVM: Final[Rules] = {**LAM, "p": EXPONENT, "eps": POSITIVE, "norm": NORM}
SMOOTHED: Final[Rules] = {"loss": Choice(("smoothed",)), "delta": POSITIVE}
TAU: Final[Arrays] = {"alpha": N, "tau?": N}
GAMMA: Final[Arrays] = {"gamma": N, "alpha?": N}
SEVERAL: Final[Arrays] = {"alpha": ("n", "c")}
FLOWS: Final[Arrays] = {**SEVERAL, "flow?": ("d", "p")}
# Multipliers of p = 1, a byte a row: 0, at the bound, or the next of those between.
CODED: Final[Arrays] = {"code": N, "between": ("between",)}

CLASSICAL: Final = Formulation(("free", "none"), (Form(LAM, SEVERAL),), several=True)
MARGINS: Final[Arrays] = {"weight?": N, "M?": N}
DROPPING: Final = Formulation(("free",), (Form({"C": POSITIVE}, {}),), counting=True, own=MARGINS)
CONIC: Final = Form(LAM, GAMMA)

FORMULATIONS: Final[Mapping[str, Formulation]] = {
    "psvm": Formulation(("free",), (Form(COSTS, {"alpha": N}),)),
    "penalised psvm": Formulation(CONSTANT, (Form(COSTS, {"alpha": N}),)),
    "hard_margin": Formulation(("free",), (Form({}, {"alpha": N}),)),
    "odm": Formulation(CONSTANT, (Form(ODM, {"theta": N}),)),
    "odml": Formulation(CONSTANT, (Form({**ODML, "C": NONNEGATIVE}, TAU),)),
    "odml_hard_margin": Formulation(CONSTANT, (Form(ODML, TAU),)),
    "conic": Formulation(CONSTANT, (CONIC, Form({"kappa": SHARE}, {**GAMMA, "lam": ()}))),
    "conic_fixed_gamma": Formulation(CONSTANT, (CONIC,), own={"weight?": N, "gamma": N}),
    "zero_one": DROPPING._replace(
        intercepts=CONSTANT, forms=(CONIC, Form({"k": NONNEGATIVE}, {**GAMMA, "lam": ()}))
    ),
    "ramp": DROPPING,
    "l0": DROPPING,
    "m3svm": Formulation(
        ("penalised",),
        (
            Form({**M3SVM, "loss": Choice(("hinge", "logistic", "softmax"))}, FLOWS),
            Form({**M3SVM, **SMOOTHED}, FLOWS),
        ),
        several=True,
    ),
    "m3svm_hard_margin": Formulation(
        ("free",), (Form({"p": EXPONENT._replace(unbounded=True), "norm": NORM}, FLOWS),), True
    ),
    **dict.fromkeys(("weston_watkins", "crammer_singer", "msvm"), CLASSICAL),
    **dict.fromkeys(("multinomial_lr", "sparse_multinomial_lr"), CLASSICAL),
    "topk_svm": CLASSICAL._replace(forms=(Form({**LAM, "k": Number(low=1, whole=True)}, SEVERAL),)),
}

WIDTH: Final[Rules] = {"gamma": POSITIVE}
KERNELS: Final[Mapping[str, Rules]] = {
    "rbf": WIDTH,
    "exponential": WIDTH,
    "laplacian": WIDTH,
    "polynomial": {"degree": Number(low=1, high=1000, whole=True), **WIDTH, "coef0": Number()},
    "sigmoid": {**WIDTH, "coef0": Number()},
    "precomputed": {},
}

# The records of the searches; and what a problem has where it has an array that others have not.
TREE: Final[Arrays] = {
    **dict.fromkeys(("branch", "bounds"), ("tree nodes",)),
    **dict.fromkeys(("upper", "flip_count", "beta_count"), ("tree bounds",)),
    "flip_row": ("tree flips",),
    **dict.fromkeys(("beta_row", "beta"), ("tree multipliers",)),
    **dict.fromkeys(("price", "side", "at"), ("tree bounds",)),
    "centre": ("d",),
}
CELLS: Final[Arrays] = {
    "cut": ("tree cells",),
    "exponent": ("d",),
    "axes?": ("tree axes", "tree axes"),
    "below": (),
    "support_count": ("tree supports",),
    **dict.fromkeys(("support_row", "support_alpha"), ("tree members",)),
    "centre": ("d",),
}
SETS: Final[Arrays] = {
    "paid": ("tree supports",),
    **{name: CELLS[name] for name in ("support_count", "support_row", "support_alpha", "centre")},
}
# Trees of blocks of the rows, one after the other.
BLOCKS: Final[Arrays] = {
    **{name: shape for name, shape in TREE.items() if name != "price"},
    "centre": ("tree blocks", "d"),
    **dict.fromkeys(("nodes", "share"), ("tree blocks",)),
    "block": ("n",),
}
ONLY_WITH: Final[Mapping[str, set[str]]] = {
    "price": {"budget"},
    "side": {"free"},
    "at": {"free"},
    "centre": {"free", "linear"},
}
# Arrays of records that hold integers.
WHOLE: Final = (
    *("branch", "bounds", "flip_count", "flip_row", "beta_count", "beta_row", "side"),
    *("nodes", "exponent", "support_count", "support_row"),
)
DTYPES: Final[Mapping[str, str]] = {
    "model.support": "<i8",
    **dict.fromkeys(("dual.code", "scores.label", "tree.cut", "tree.block"), "|u1"),
    **{f"tree.{name}": "<i4" for name in WHOLE},
}

# Intervals of scores of test rows, and the formulations and kernels of which they can be checked.
SCORES: Final[Arrays] = dict.fromkeys(("lower", "upper", "label"), ("test rows",))
SCORED: Final = ("psvm", "penalised psvm", "hard_margin", "odm", "odml")
SCORED_KERNELS: Final = ("rbf", "exponential", "laplacian", "polynomial")

# Kinds of problems that are not convex, and who may state a lower end of them.
SEARCHED: Final[Mapping[str, str]] = {"mixed-integer": "a solver", "enumeration": "a search"}
KINDS: Final = (*SEARCHED, "local")
SIZE: Final = Number(low=1, whole=True)
CLAIM: Final = ("lower", "upper", "kind", "stated")
# The fields of a statement that are arrays.
ARRAYS: Final = ("weight", "gamma", "M")


def dtype_of(name: str) -> str:
    return DTYPES.get(name, "<f8")


def bytes_of(name: str, shape: Sequence[int]) -> int:
    return math.prod(shape) * int(dtype_of(name)[-1])


@dataclass(frozen=True, eq=False, repr=False)
class Statement:
    """A problem: everything that its optimum depends on, but for a digest in place of the data."""

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
        for name, value in _checked_fields(plain(self.plain)).items():
            object.__setattr__(self, name, value)
        for name, values in self.arrays.items():
            given = exactly(f"statement.{name}", values)
            if name != "M" and (given < 0).any():
                raise DataError(f"the array statement.{name} of a proof must not be negative")
            object.__setattr__(self, name, given)
        optional = {f"{name.rstrip('?')}?": N for name in FORMULATIONS[self.formulation].own}
        shapes = {name: values.shape for name, values in self.arrays.items()}
        _require_layout(self, "statement", [optional], shapes, {"n": self.rows})
        if self.weight is not None:
            with np.errstate(over="ignore"):
                whole = float(self.weight.sum())
            # Sums of weights are finite everywhere in the checker.
            if not 0.0 < whole < 2.0**1000:
                raise DataError(
                    f"the weights of a proof must have a sum above 0 and below 2^1000, not {whole}"
                )

    @property
    def arrays(self) -> dict[str, Floats]:
        return {name: getattr(self, name) for name in ARRAYS if getattr(self, name) is not None}

    @property
    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}

    @cached_property
    def weighted(self) -> Floats:
        return np.ones(self.rows) if self.weight is None else self.weight

    def difference(self, expected: Statement) -> str:
        """Return what differs from the statement that is expected, in words."""
        for name, value in expected.plain.items():
            mine = getattr(self, name)
            if isinstance(value, Mapping) and isinstance(mine, Mapping):
                for key in value if value.keys() == mine.keys() else ():
                    if value[key] != mine[key]:
                        what = key if name == "hyperparameters" else f"{key} of the {name}"
                        return f"{what} is {mine[key]!r} where {value[key]!r} is expected"
            if value != mine:
                return f"{name} is {mine!r} where {value!r} is expected"
        for name in ARRAYS:
            field = "weighted" if name == "weight" else name
            mine, other = getattr(self, field), getattr(expected, field)
            if mine is not None or other is not None:
                rows = [0] if mine is None or other is None else np.flatnonzero(mine != other)
                for row in rows[:1]:
                    values = ["none" if v is None else repr(float(v[row])) for v in (mine, other)]
                    return (
                        f"{name} is another than the one that is expected, first in row {row}:"
                        f" {values[0]} for {values[1]}"
                    )
        return ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and not self.difference(other)

    def __hash__(self) -> int:
        return hash((self.formulation, self.fingerprint))

    def __str__(self) -> str:
        def named(values: Mapping[str, Any]) -> str:
            return ", ".join(f"{name} = {value}" for name, value in values.items())

        def between(values: Floats) -> str:
            return f"between {float(values.min())} and {float(values.max())}"

        kernel, classes = "no kernel", ", ".join(map(repr, self.classes[:5]))
        if self.kernel is not None:
            numbers = named({name: v for name, v in self.kernel.items() if name != "name"})
            kernel = f"kernel {self.kernel['name']}" + f" ({numbers})" * bool(numbers)
        more, weights = len(self.classes) - 5, "all weights 1"
        if other := int(np.count_nonzero(self.weighted != 1.0)):
            between_them = between(self.weighted)
            weights = f"weights: {other} of {self.rows} differ from 1, {between_them}"
        numbers = named(self.hyperparameters)
        given = [f"{name} given, {between(v)}" for name, v in self.arrays.items()]
        parts = [
            self.formulation + f" with {numbers}" * bool(numbers),
            f"{kernel}; intercept {self.intercept}",
            f"{self.rows} rows and {self.columns} columns",
            f"classes {classes}" + f" and {more} more" * (more > 0),
            weights,
            *given[self.weight is not None :],
        ]
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"Statement({self})"


FIELDS: Final = tuple(one.name for one in fields(Statement) if one.name not in ARRAYS)


# Values.


def plain(value: Any) -> Any:
    """Numpy's scalars and arrays as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def _checked_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a statement other than arrays, if all are those of its formulation."""
    name, kernel = given["formulation"], given["kernel"]
    if not isinstance(name, str) or name not in FORMULATIONS:
        raise DataError(
            f"there is no check for the formulation {_short(name)}; those known are"
            f" {', '.join(FORMULATIONS)}"
        )
    known = FORMULATIONS[name]
    Choice(known.intercepts).checked(f"the intercept of {name}", given["intercept"])
    numbers = _mapping(given["hyperparameters"], f"the hyper-parameters of {name}")
    numbers = _numbers(_form(name, numbers).hyperparameters, name, numbers)
    if kernel is not None:
        kernel = _checked_kernel(_mapping(kernel, "the kernel"))
        if known.several:
            raise DataError(f"a proof of {name} has no kernel, got {kernel['name']}")
    rows, columns = (
        SIZE.checked(f"the number of {what}", given[what]) for what in ("rows", "columns")
    )
    if kernel is not None and kernel["name"] == "precomputed" and rows != columns:
        raise DataError(
            f"a precomputed kernel is square, the proof says {rows} rows and {columns} columns"
        )
    classes = _checked_classes(given["classes"], known.several)
    if name == "topk_svm" and numbers["k"] > len(classes):
        raise DataError(
            f"k of topk_svm is at most the number of classes, {len(classes)}, got {numbers['k']}"
        )
    what = "the fingerprint of a proof is two times eight hexadecimal digits"
    _require_text(given["fingerprint"], r"[0-9a-f]{8}-[0-9a-f]{8}", what)
    return {**given, "hyperparameters": numbers, "kernel": kernel, "classes": classes}


def _form(name: str, given: Mapping[str, Any]) -> Form:
    forms = FORMULATIONS[name].forms
    for form in forms:
        if form.hyperparameters.keys() == given.keys():
            return form
    wanted = " or ".join(_listed(form.hyperparameters) for form in forms)
    raise DataError(f"the hyper-parameters of {name} are {wanted}; the proof has {_listed(given)}")


def _checked_kernel(given: Mapping[str, Any]) -> dict[str, Any]:
    name = given.get("name")
    if not isinstance(name, str) or name not in KERNELS:
        raise DataError(
            f"the proof has the kernel {_short(name)}; those that can be checked are"
            f" {', '.join(KERNELS)}, and null for the linear machine"
        )
    if given.keys() != {"name", *KERNELS[name]}:
        raise DataError(
            f"the parameters of the kernel {name} are {_listed(KERNELS[name])}; the proof has"
            f" {_listed(given.keys() - {'name'})}"
        )
    return {"name": name, **_numbers(KERNELS[name], f"the kernel {name}", given)}


def _numbers(rules: Rules, of: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: rule.checked(f"{key} of {of}", given[key]) for key, rule in rules.items()}


def _checked_classes(classes: Any, several: bool) -> tuple[Any, ...]:
    if not isinstance(classes, (list, tuple)):
        raise DataError(f"the classes of a proof must be a list of labels, got {_short(classes)}")
    if {type(x) for x in classes} not in ({str}, {bool}, {int}, {float}, {int, float}):
        raise DataError(
            "the classes of a proof must be labels that are all strings, all booleans or all"
            " numbers; encode others before training"
        )
    for x in classes:
        if not (math.isfinite(x) if type(x) is float else type(x) is str or -(2**63) <= x < 2**64):
            raise DataError("a class of a proof is not a finite number, or no integer of 64 bits")
    if not all(first < second for first, second in pairwise(classes)):
        raise DataError("the classes of a proof must be different labels in increasing order")
    if len(classes) < 2 or (len(classes) > 2 and not several):
        needed = "at least two" if several else "two"
        raise DataError(f"the formulation has {needed} classes, the proof {len(classes)}")
    return tuple(classes)


def checked_claim(formulation: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    kinds = KINDS if FORMULATIONS[formulation].counting else ("convex",)
    kind = Choice(kinds).checked(f"the kind of {formulation}", claim["kind"])
    ends = {"lower": "lower end", "upper": "upper end", "stated": "lower end that is stated"}
    lower, upper, stated = (
        None if claim[key] is None else float(Number().checked(f"the {what}", claim[key]))
        for key, what in ends.items()
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


def checked_test(statement: Statement, test: Any) -> dict[str, Any]:
    """Return how many test rows there are and their digest, as plain Python values."""
    name, kernel = statement.formulation, statement.kernel or {"name": "rbf"}
    if name not in SCORED:
        raise DataError(
            f"a proof of {name} has no scores of test rows, only one of {', '.join(SCORED)}"
        )
    if kernel["name"] not in SCORED_KERNELS or kernel.get("coef0", 0.0) < 0.0:
        raise DataError(
            f"a proof with the kernel {kernel['name']} has no scores of test rows: it has to be"
            " positive semidefinite on any rows"
        )
    given = require_keys(test, "test rows", ("rows", "digest"))
    what = "the digest of the test rows of a proof is 64 hexadecimal digits"
    _require_text(given["digest"], r"[0-9a-f]{64}", what)
    rows = SIZE.checked("the number of test rows", given["rows"])
    return {"rows": rows, "digest": given["digest"]}


def _require_text(value: Any, pattern: str, what: str) -> None:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise DataError(f"{what}, got {_short(value)}")


def require_keys(content: Any, what: str, names: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(content, Mapping) or content.keys() != {*names}:
        raise DataError(
            f"the {what} of a proof must have the entries {', '.join(names)}, and no others"
        )
    return content


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise DataError(f"{what} of a proof must be values by their names, got {_short(value)}")
    return value


def _listed(names: Any) -> str:
    # A name of a file may hold anything, also what moves the cursor.
    shown = sorted(name if name.isprintable() else repr(name) for name in names)
    return ", ".join(shown)[:200] or "none"


def _short(value: Any) -> str:
    """The value, in a length that fits a message; integers of any size."""
    if isinstance(value, int) and abs(value) > 10**30:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Arrays.


def exactly(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return values as a read-only array of the dtype of this name, each of them unchanged."""
    dtype = dtype_of(name)
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        given = np.zeros(0, dtype=object)
    if given.dtype.kind not in "biuf":
        raise DataError(f"the array {name} of a proof is not numeric")
    with np.errstate(over="ignore", invalid="ignore"):
        copy = True if given.flags.writeable else None
        found = np.array(given, dtype=dtype, order="C", copy=copy)
        same = (found.astype(given.dtype) == given) | np.isnan(given)
    if not same.all():
        raise DataError(
            f"the array {name} of a proof holds numbers that are not of the dtype {dtype}"
        )
    for place in np.flatnonzero(~np.isfinite(found))[:1]:
        raise DataError(f"the array {name} of a proof is not finite: see its entry {place}")
    found.flags.writeable = False
    return found


def dual_of(
    name: str, hyperparameters: Mapping[str, Any], dual: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries of a dual point that a proof has; none if a needed one is missing."""
    layout = _form(name, hyperparameters).dual
    found = {entry: dual[entry] for entry in (k.rstrip("?") for k in layout) if entry in dual}
    return found if _matched(layout, found) is not None else {}


def require_arrays(
    statement: Statement, kind: str, arrays: Mapping[str, Sizes], test: Mapping[str, Any] | None
) -> None:
    """Refuse arrays, by their full names and shapes, that a proof of a statement does not have."""
    name, numbers, linear = statement.formulation, statement.hyperparameters, not statement.kernel
    known, form = FORMULATIONS[name], _form(name, numbers)
    models: list[Arrays] = [{"support": ("s",), "dual_coef": ("s",), "intercept": ()}]
    if known.several:
        models = [{"coef": ("d", "c"), "intercept": ("c",)}]
    elif linear:
        models.append({"coef": ("d",), "intercept": ()})
    if name == "conic":
        spreads: list[Arrays] = [{}, {"V_coef": ("n", "q"), "ridge": ()}]
        spreads += [{"V": ("r", "q")}] if linear else []
        models = [{**model, **spread} for model in models for spread in spreads]
    coded = linear and form.hyperparameters is COSTS and numbers["p"] == 1
    has = {statement.intercept, "linear" if linear else "", "budget" if "k" in numbers else ""}
    searched = (TREE, CELLS, SETS, BLOCKS) if known.counting and kind == "enumeration" else ()
    trees = [
        {entry: letters for entry, letters in record.items() if ONLY_WITH.get(entry, set()) <= has}
        for record in searched
    ]
    layouts: dict[str, list[Arrays]] = {
        "statement": [known.own],
        "model": models,
        "dual": [{}, *([form.dual] if form.dual else []), *([CODED] if coded else [])],
        "tree": [{}, *trees],
        "scores": [{} if test is None else SCORES],
    }
    for strange in arrays:
        if strange.partition(".")[0] not in layouts:
            raise DataError(f"a proof has no array {strange!r}")
    n, d, c = statement.rows, statement.columns, len(statement.classes)
    r = d + (statement.intercept == "penalised")
    sizes = {"n": n, "d": d, "c": c, "r": r, "p": c * (c - 1) // 2}
    sizes |= {} if test is None else {"test rows": test["rows"]}
    for family, choices in layouts.items():
        own = {name: arrays[name] for name in arrays if name.startswith(f"{family}.")}
        found = {name.partition(".")[2]: shape for name, shape in own.items()}
        _require_layout(statement, family, choices, found, sizes)
    if sizes.get("s", 0) > n:
        raise DataError(f"the model of a proof names {sizes['s']} rows, the data have {n}")
    q = sizes.get("q", 0)
    entries = q * (n if "model.V_coef" in arrays else r)
    if q > max(n, r) or entries > max(FREE_ENTRIES, 4 * n * d):
        raise DataError(f"the spread of the model of a proof has too many columns: {q}")
    held = sum(bytes_of(name, arrays[name]) for name in arrays if name.startswith("tree."))
    if held > TREE_BYTES:
        raise DataError(f"the tree of a proof has at most {TREE_BYTES} bytes, this one {held}")


def _matched(layout: Arrays, names: Any) -> Arrays | None:
    """The shapes of these names, if they are those of the layout."""
    shapes = {name.rstrip("?"): shape for name, shape in layout.items()}
    needed = {name for name in layout if not name.endswith("?")}
    return {k: shapes[k] for k in names} if needed <= set(names) <= shapes.keys() else None


def _require_layout(
    statement: Statement,
    family: str,
    layouts: Sequence[Arrays],
    shapes: Mapping[str, Sizes],
    sizes: dict[str, int],
) -> None:
    """Refuse arrays of a family that have no layout, or other sizes; free ones are set."""
    matches = (_matched(layout, shapes) for layout in layouts)
    wanted = next((match for match in matches if match is not None), None)
    if wanted is None:
        choices = " or ".join(map(_listed, layouts))
        raise DataError(
            f"the {family} of a proof of {statement.formulation} has the arrays {choices}; this one"
            f" has {_listed(shapes)}"
        )
    for entry, letters in wanted.items():
        shape = shapes[entry]
        same = len(shape) == len(letters) and all(
            size == sizes.setdefault(letter, size)
            for letter, size in zip(letters, shape, strict=True)
        )
        if not same:
            needed = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
            raise DataError(
                f"the array {family}.{entry} of the proof has the shape {shape} where ({needed}) is"
                " needed"
            )
