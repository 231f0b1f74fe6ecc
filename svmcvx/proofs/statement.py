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

Floats: TypeAlias = NDArray[np.float64]
# Sizes by their letters: n, d, c, r, p are those of the statement, others are free.
Shape: TypeAlias = tuple[str, ...]
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
    """Hyper-parameters of a formulation, and the arrays that its dual point then has."""

    hyperparameters: Rules
    dual: Arrays


class Formulation(NamedTuple):
    """Contents of a proof of one formulation; the names of the hyper-parameters distinguish the
    forms.
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
DROPPING: Final = Formulation(("free",), (Form({"C": POSITIVE}, {}),), counting=True)
CONIC: Final = Form(LAM, GAMMA)

FORMULATIONS: Final[Mapping[str, Formulation]] = {
    "psvm": Formulation(("free",), (Form(COSTS, {"alpha": N}),)),
    "penalised psvm": Formulation(CONSTANT, (Form(COSTS, {"alpha": N}),)),
    "hard_margin": Formulation(("free",), (Form({}, {"alpha": N}),)),
    "odm": Formulation(CONSTANT, (Form(ODM, {"theta": N}),)),
    "odml": Formulation(CONSTANT, (Form({**ODML, "C": POSITIVE}, TAU),)),
    "odml_hard_margin": Formulation(CONSTANT, (Form(ODML, TAU),)),
    "conic": Formulation(CONSTANT, (CONIC, Form({"kappa": SHARE}, {**GAMMA, "lam": ()}))),
    "conic_fixed_gamma": Formulation(CONSTANT, (CONIC,)),
    "zero_one": Formulation(
        CONSTANT, (CONIC, Form({"k": NONNEGATIVE}, {**GAMMA, "lam": ()})), counting=True
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

# The tree of a search; there are prices with a budget, and sides of a free intercept.
TREE: Final[Arrays] = {
    **dict.fromkeys(("branch", "bounds"), ("tree nodes",)),
    **dict.fromkeys(("upper", "flip_count", "beta_count"), ("tree bounds",)),
    "flip_row": ("tree flips",),
    **dict.fromkeys(("beta_row", "beta"), ("tree multipliers",)),
    **dict.fromkeys(("price", "side", "at"), ("tree bounds",)),
    "centre": ("d",),
}
DOUBLES_OF_TREES: Final = ("upper", "beta", "price", "at", "centre")

# Intervals of scores of test rows, and the formulations and kernels of which they can be checked.
SCORES: Final[Arrays] = dict.fromkeys(("lower", "upper", "label"), ("test rows",))
SCORED: Final = ("psvm", "penalised psvm", "hard_margin", "odm", "odml")
SCORED_KERNELS: Final = ("rbf", "exponential", "laplacian", "polynomial")

FAMILIES: Final = ("statement", "model", "dual", "tree", "scores")
# Kinds of problems that are not convex, and who may state a lower end of them.
SEARCHED: Final[Mapping[str, str]] = {"mixed-integer": "a solver", "enumeration": "a search"}
KINDS: Final = (*SEARCHED, "local")
SIZE: Final = Number(low=1, whole=True)


def dtype_of(name: str) -> str:
    family, _, entry = name.partition(".")
    if family == "tree" and entry in TREE and entry not in DOUBLES_OF_TREES:
        return "<i4"
    return {"model.support": "<i8", "dual.code": "|u1", "scores.label": "|u1"}.get(name, "<f8")


def checked_statement(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a statement other than arrays, as plain Python values."""
    name = given["formulation"]
    if not isinstance(name, str) or name not in FORMULATIONS:
        raise DataError(
            f"there is no check for the formulation {_short(name)}; those known are"
            f" {', '.join(FORMULATIONS)}"
        )
    known, found = FORMULATIONS[name], dict(given)
    Choice(known.intercepts).checked(f"the intercept of {name}", given["intercept"])
    numbers = _mapping(given["hyperparameters"], f"the hyper-parameters of {name}")
    found["hyperparameters"] = _numbers(_form(name, numbers).hyperparameters, name, numbers)
    found["kernel"] = kernel = _checked_kernel(given["kernel"])
    if kernel is not None and known.several:
        raise DataError(f"a proof of {name} has no kernel, got {kernel['name']}")
    for what in ("rows", "columns"):
        found[what] = int(SIZE.checked(f"the number of {what}", given[what]))
    square = found["rows"] == found["columns"]
    if kernel is not None and kernel["name"] == "precomputed" and not square:
        raise DataError(
            f"a precomputed kernel is a square matrix, the proof says {found['rows']} rows and"
            f" {found['columns']} columns"
        )
    found["classes"] = classes = _checked_classes(given["classes"], known.several)
    if name == "topk_svm" and numbers["k"] > len(classes):
        raise DataError(
            f"k of topk_svm is at most the number of classes, {len(classes)}, got {numbers['k']}"
        )
    what = "the fingerprint of a proof is two times eight hexadecimal digits"
    _require_text(given["fingerprint"], r"[0-9a-f]{8}-[0-9a-f]{8}", what)
    return {field: found[field] for field in FIELDS}


def _form(name: str, given: Mapping[str, Any]) -> Form:
    for form in FORMULATIONS[name].forms:
        if form.hyperparameters.keys() == given.keys():
            return form
    wanted = " or ".join(_listed(form.hyperparameters) for form in FORMULATIONS[name].forms)
    raise DataError(f"the hyper-parameters of {name} are {wanted}; the proof has {_listed(given)}")


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
    return {"name": name, **_numbers(rules, f"the kernel {name}", given)}


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
        raise DataError(
            f"the formulation has {'at least two' if several else 'two'} classes, the proof"
            f" {len(classes)}"
        )
    return tuple(classes)


def checked_claim(
    formulation: str, lower: Any, upper: Any, kind: Any, stated: Any
) -> dict[str, Any]:
    kinds = KINDS if FORMULATIONS[formulation].counting else ("convex",)
    kind = Choice(kinds).checked(f"the kind of {formulation}", kind)
    ends = {"lower end": lower, "upper end": upper, "lower end that is stated": stated}
    lower, upper, stated = (
        None if value is None else float(Number().checked(f"the {name}", value))
        for name, value in ends.items()
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
    name, kernel = statement["formulation"], statement["kernel"] or {"name": "rbf"}
    if name not in SCORED:
        raise DataError(
            f"a proof of {name} has no scores of test rows, only one of {', '.join(SCORED)}"
        )
    if kernel["name"] not in SCORED_KERNELS or kernel.get("coef0", 0.0) < 0.0:
        raise DataError(
            f"a proof with the kernel {kernel['name']} has no scores of test rows: it has to be"
            " positive semidefinite on any rows"
        )
    given = _mapping(test, "the test rows")
    if given.keys() != {"rows", "digest"}:
        raise DataError(
            f"the test rows of a proof have the entries digest, rows; this one has {_listed(given)}"
        )
    what = "the digest of the test rows of a proof is 64 hexadecimal digits"
    _require_text(given["digest"], r"[0-9a-f]{64}", what)
    rows = int(SIZE.checked("the number of test rows", given["rows"]))
    return {"rows": rows, "digest": given["digest"]}


def _layouts(
    statement: Mapping[str, Any], kind: str | None, tested: int | None
) -> dict[str, list[Arrays]]:
    """The sets of arrays that each family may have."""
    name, numbers = statement["formulation"], statement["hyperparameters"]
    linear = statement["kernel"] is None
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
    given = {"weight?": N, "M?": N} if known.counting else {"weight?": N}
    duals: list[Arrays] = [{}, form.dual] if form.dual else [{}]
    if linear and form.hyperparameters is COSTS and numbers["p"] == 1:
        duals.append(CODED)
    trees: list[Arrays] = [{}]
    if known.counting and kind == "enumeration":
        without = set() if "k" in numbers else {"price"}
        if statement["intercept"] != "free":
            without |= {"side", "at", "centre"}
        elif not linear:
            without |= {"centre"}
        trees.append({entry: shape for entry, shape in TREE.items() if entry not in without})
    return {
        "statement": [given | ({"gamma": N} if name == "conic_fixed_gamma" else {})],
        "model": models,
        "dual": duals,
        "tree": trees,
        "scores": [{} if tested is None else SCORES],
    }


def _matched(layout: Arrays, names: Any) -> dict[str, Shape] | None:
    """The shapes of these names, if they are those of the layout."""
    shapes = {name.rstrip("?"): shape for name, shape in layout.items()}
    needed = {name for name in layout if not name.endswith("?")}
    return {k: shapes[k] for k in names} if needed <= set(names) <= shapes.keys() else None


def dual_of(
    name: str, hyperparameters: Mapping[str, Any], dual: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries of a dual point that a proof has; none if a needed one is missing."""
    layout = _form(name, hyperparameters).dual
    found = {entry: dual[entry] for entry in (k.rstrip("?") for k in layout) if entry in dual}
    return found if _matched(layout, found) is not None else {}


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
    layouts = _layouts(statement, kind, tested)
    n, d, c = statement["rows"], statement["columns"], len(statement["classes"])
    r = d + (statement["intercept"] == "penalised")
    sizes = {"n": n, "d": d, "c": c, "r": r, "p": c * (c - 1) // 2}
    sizes |= {} if tested is None else {"test rows": tested}
    for family in families:
        found = {
            name.partition(".")[2]: tuple(shape)
            for name, shape in arrays.items()
            if name.startswith(f"{family}.")
        }
        matches = [_matched(layout, found) for layout in layouts[family]]
        wanted = next((match for match in matches if match is not None), None)
        if wanted is None:
            choices = " or ".join(_listed(layout) for layout in layouts[family])
            raise DataError(
                f"the {family} of a proof of {statement['formulation']} has the arrays {choices};"
                f" this one has {_listed(found)}"
            )
        for entry, letters in wanted.items():
            # A letter that is free takes the size that it has first.
            shape = found[entry]
            same = len(shape) == len(letters) and all(
                size == sizes.setdefault(letter, size)
                for letter, size in zip(letters, shape, strict=True)
            )
            if not same:
                needed = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
                raise DataError(
                    f"the array {family}.{entry} of the proof has the shape {shape} where"
                    f" ({needed}) is needed"
                )
    if sizes.get("s", 0) > n:
        raise DataError(f"the model of a proof names {sizes['s']} rows, the data have {n}")
    q = sizes.get("q", 0)
    entries = q * (n if "model.V_coef" in arrays else r)
    if q > max(n, r) or entries > max(FREE_ENTRIES, 4 * n * d):
        raise DataError(f"the spread of the model of a proof has too many columns: {q}")
    held = sum(bytes_of(name, arrays[name]) for name in arrays if name.startswith("tree."))
    if held > TREE_BYTES:
        raise DataError(f"the tree of a proof has at most {TREE_BYTES} bytes, this one {held}")


def bytes_of(name: str, shape: Sequence[int]) -> int:
    return math.prod(shape) * int(dtype_of(name)[-1])


def _require_text(value: Any, pattern: str, what: str) -> None:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise DataError(f"{what}, got {_short(value)}")


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


# The fields that are arrays.
ARRAYS: Final = ("weight", "gamma", "M")


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
        plain = checked_statement({name: _plain(value) for name, value in self.plain.items()})
        given = {
            name: exactly(f"statement.{name}", values, "<f8")
            for name, values in self.arrays.items()
        }
        shapes = {f"statement.{name}": values.shape for name, values in given.items()}
        check_arrays(plain, None, shapes, ("statement",))
        for name, values in given.items():
            if name != "M" and (values < 0).any():
                raise DataError(f"the array statement.{name} of a proof must not be negative")
        for name, value in (plain | given).items():
            object.__setattr__(self, name, value)
        if self.weight is not None and not self.weight.any():
            raise DataError("some weight of a proof must be positive")

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
        numbers = ", ".join(f"{name} = {value}" for name, value in self.hyperparameters.items())
        kernel = "no kernel"
        if self.kernel is not None:
            values = [f"{name} = {v}" for name, v in self.kernel.items() if name != "name"]
            kernel = f"kernel {self.kernel['name']}" + (f" ({', '.join(values)})" if values else "")
        shown = ", ".join(map(repr, self.classes[:5]))
        more = f" and {len(self.classes) - 5} more" if len(self.classes) > 5 else ""
        weights, other = "all weights 1", int(np.count_nonzero(self.weighted != 1.0))
        if other:
            between = f"{float(self.weighted.min())} and {float(self.weighted.max())}"
            weights = f"weights: {other} of {self.rows} differ from 1, between {between}"
        given = [
            f"{name} given, between {float(values.min())} and {float(values.max())}"
            for name, values in self.arrays.items()
            if name != "weight"
        ]
        return "; ".join(
            [
                f"{self.formulation}{f' with {numbers}' if numbers else ''}",
                kernel,
                f"intercept {self.intercept}",
                f"{self.rows} rows and {self.columns} columns",
                f"classes {shown}{more}",
                weights,
                *given,
            ]
        )

    def __repr__(self) -> str:
        return f"Statement({self})"


FIELDS: Final = tuple(one.name for one in fields(Statement) if one.name not in ARRAYS)


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
        given = np.zeros(0, dtype=object)
    if given.dtype.kind not in "biuf":
        raise DataError(f"the array {name} of a proof is not numeric")
    with np.errstate(over="ignore", invalid="ignore"):
        copy = True if given.flags.writeable else None
        found = np.array(given, dtype=dtype, order="C", copy=copy)
        same = (found == given) | ~np.isfinite(given)
        if found.dtype.kind != given.dtype.kind:
            same &= (given >= -LARGEST) & (given <= LARGEST)
    if given.dtype.str != dtype and not same.all():
        raise DataError(
            f"the array {name} of a proof holds numbers that are not of the dtype {dtype}"
        )
    for place in np.flatnonzero(~np.isfinite(found))[:1]:
        raise DataError(f"the array {name} of a proof is not finite: see its entry {place}")
    found.flags.writeable = False
    return found
