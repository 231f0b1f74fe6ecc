"""One validation for all formulations: of arrays, labels, weights and hyper-parameters. Messages
name the argument, what was wrong and what to do.
"""

from __future__ import annotations

import math
import numbers
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, correctly_rounded
from svmcvx.errors import DataError, DataTypeError, did_you_mean
from svmcvx.proofs.format import fingerprint

# A float64 ndarray or csr_array; SciPy carries no types that mypy could tell apart.
Features: TypeAlias = Any


def _columns(bad: NDArray[np.bool_], X: Any) -> str:
    """Return the names of the first columns, those of a frame where X is one."""
    where, names = np.flatnonzero(bad), getattr(X, "columns", None)
    shown = ", ".join(str(j if names is None else names[j]) for j in where[:5])
    return f"column{'s' if where.size > 1 else ''} {shown}{', …' if where.size > 5 else ''}"


def check_features(
    X: Any, *, name: str = "X", accept_sparse: bool = True, n_features: int | None = None
) -> Features:
    """Return `X` as a finite float64 matrix, one observation per row."""
    sparse = sp.issparse(X)
    if sparse and not accept_sparse:
        raise DataError(
            f"{name} is sparse and this formulation needs a dense array; pass {name}.toarray()"
        )
    array = X if sparse else as_array(X, name)
    if array.ndim == 1:
        raise DataError(
            f"{name} must be two-dimensional, got a one-dimensional array of length {array.size};"
            " Reshape your data with X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one"
            " observation"
        )
    if array.ndim != 2:
        raise DataError(
            f"{name} must be two-dimensional (observations × features), got shape {array.shape}"
        )
    if array.dtype.kind == "c":
        raise DataError(f"{name} must be real and numeric. Complex data not supported")
    if array.dtype.kind == "O" and not sparse:
        array = _numbers(array, name, X)
    if array.dtype.kind not in "biuf":
        raise DataTypeError(
            f"{name} must be numeric, got dtype {array.dtype}; encode its values as numbers first"
        )
    n, d = array.shape
    if n == 0 or d == 0:
        what = "sample" if n == 0 else "feature"
        raise DataError(
            f"{name} is empty: 0 {what}(s) (shape=({n}, {d})) while a minimum of 1 is required;"
            " pass some data"
        )
    checked: Features
    if sparse:
        checked = sp.csr_array(array, dtype=np.float64)
        if not checked.has_canonical_format:
            checked = checked.copy()
            checked.sum_duplicates()
    else:
        checked = np.ascontiguousarray(array, dtype=np.float64)
    values = checked.data if sparse else checked
    finite = np.isfinite(values)
    if not finite.all():
        bad = np.zeros(d, dtype=bool)
        bad[checked.indices[~finite] if sparse else ~finite.all(axis=0)] = True
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise DataError(
            f"{name} contains {kind} in {_columns(bad, X)}; impute or drop these values first"
        )
    if n_features is not None and d != n_features:
        raise DataError(
            f"{name} has {d} features, but the model expects {n_features} features as input"
        )
    return checked


def _numbers(array: NDArray[Any], name: str, X: Any) -> Floats:
    """Return an array of Python objects that are numbers."""
    converted, bad = np.empty(array.shape), np.zeros(array.shape[1], dtype=bool)
    for j, column in enumerate(array.T):
        try:
            if any(
                isinstance(value, (str, bytes, complex, np.complexfloating)) for value in column
            ):
                raise TypeError
            converted[:, j] = column.astype(np.float64)
        except (ValueError, TypeError, OverflowError):
            bad[j] = True
    if bad.any():
        raise DataTypeError(
            f"{name} is not numeric in {_columns(bad, X)}: every argument must be numeric, not a"
            " string, a missing value or another object; drop these columns or encode them as"
            " numbers, as datasets.load does"
        )
    return converted


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Validated labels, as an array-like that :func:`check_labels` takes as it is."""

    codes: NDArray[np.intp]
    classes: NDArray[Any]
    features: Features = None

    def __len__(self) -> int:
        return int(self.codes.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.classes[self.codes], dtype=dtype)


def parts(labels: CodedLabels, scheme: str) -> Iterator[tuple[NDArray[np.intp], CodedLabels]]:
    """Yield rows and labels of the binary problems in the order of :class:`svmcvx.OneVsModel`."""
    codes, classes = labels.codes, labels.classes
    if scheme == "ovo":
        for k, other in combinations(range(classes.size), 2):
            rows = np.flatnonzero((codes == k) | (codes == other))
            later = (codes[rows] == other).astype(np.intp)
            yield rows, CodedLabels(later, classes[[k, other]])
    else:
        for k in range(classes.size):
            own = (codes == k).astype(np.intp)
            yield np.arange(codes.size), CodedLabels(own, np.arange(2), labels.features)


def check_labels(y: Any, n: int, *, binary: bool = False) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return class indices and the sorted classes."""
    if y is None:
        raise DataError(
            "a classifier requires y to be passed, but the target y is None; pass one label a row"
        )
    codes, classes = (y.codes, y.classes) if isinstance(y, CodedLabels) else coded_labels(y, n, "y")
    if codes.size != n:
        raise DataError(_lengths(codes.size, n, "y"))
    if classes.size < 2:
        raise DataError(
            f"y holds one class only ({classes[:1].tolist()[0]!r}); the number of classes has to be"
            " greater than one"
        )
    if binary and classes.size > 2:
        raise DataError(
            f"y holds {classes.size} classes. Only binary classification is supported. "
            "Select two classes, or use a multi-class formulation"
        )
    return codes, classes


def coded_labels(y: Any, n: int, name: str) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return class indices and sorted classes of labels of any sortable type."""
    labels = as_array(y, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, a label a row, got shape {labels.shape}")
    if labels.shape[0] != n:
        raise DataError(_lengths(labels.shape[0], n, name))
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise DataError(
                f"{name} contains NaN or infinity; drop the observations without a label"
            )
        if not np.equal(labels, np.round(labels)).all() and np.unique(labels).size > 2:
            raise DataError(
                f"Unknown label type: {name} is continuous; classification needs discrete labels"
            )
    if labels.dtype.kind == "c":
        raise DataError(f"{name} must be real. Complex data not supported")
    if labels.dtype.kind == "O" and any(map(_missing, labels)):
        raise DataError(f"{name} contains missing labels; drop the observations without a label")
    if labels.dtype.kind in "biu" and n:
        # Two classes are found without sorting.
        first, last = labels.min(), labels.max()
        upper = labels == last
        if first < last and (upper | (labels == first)).all():
            return upper.astype(np.intp), np.array([first, last])
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise DataError(
            f"{name} mixes labels that cannot be sorted ({kinds}); use one type for all labels"
        ) from None
    return codes.astype(np.intp).reshape(n), classes


def _lengths(labels: int, rows: int, name: str) -> str:
    return (
        f"{name} has {labels} labels but X has {rows} rows: inconsistent numbers of samples; pass"
        " one label a row"
    )


def _missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:
        # The truth of pandas' NA is ambiguous.
        return True


def check_weights(sample_weight: Any, n: int, *, name: str = "sample_weight") -> Floats:
    """Return non-negative finite weights of length `n` (ones for None)."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_array(sample_weight, name)
    if weights.dtype.kind not in "biuf":
        raise DataTypeError(f"{name} must be numeric, got dtype {weights.dtype}")
    weights = weights.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise DataError(
            f"{name} must hold one number per observation: expected shape ({n},), got"
            f" {weights.shape}"
        )
    with np.errstate(over="ignore"):
        whole = float(weights.sum())
    # Products and sums of weights are finite.
    if not whole < 2.0**1000 or (weights < 0).any():
        raise DataError(
            f"{name} must be finite and non-negative, with a sum below 2^1000; the values are from"
            f" {weights.min()} to {weights.max()}"
        )
    return weights


# Intervals of hyper-parameters that mean the same everywhere.
CONSTRAINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("C", "C1", "C2", "lam", "gamma", "delta", "sigma", "rho", "r"), "(0, inf)"),
    **dict.fromkeys(("time_limit", "fit_time_limit", "cache_size"), "(0, inf)"),
    **dict.fromkeys(("lam1", "lam2"), "[0, inf)"),
    "p": "[1, inf)",
    "D": "[0, 1)",
    "tol": "(0, 1)",
}
_WHY: Final[Mapping[str, str]] = {
    "p": "p < 1 is not convex",
    "D": "a band of half-width 1 would make w = 0 optimal",
    "lam1": "a negative weight of the variance is not convex",
}


@cache
def _ends(interval: str) -> tuple[float, float]:
    low, high = map(float, interval[1:-1].split(","))
    return low, high


def check_number(value: Any, name: str, interval: str = "", *, why: str = "") -> float:
    """Return a finite float in an interval such as ``"[0, 1)"``, by default that of CONSTRAINTS."""
    if not interval:
        interval, why = CONSTRAINTS.get(name, "(-inf, inf)"), _WHY.get(name, "")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise DataError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise DataError(
            f"{name} is beyond the largest floating-point number, 1.8e308; pass a smaller one"
        ) from None
    low, high = _ends(interval)
    closed = (number == low and interval[0] == "[") or (number == high and interval[-1] == "]")
    if not (math.isfinite(number) and (low < number < high or closed)):
        reason = f"; {why}" if why else ""
        raise DataError(f"{name} must be a finite number in {interval}, got {value!r}{reason}")
    return number


def check_numbers(**values: Any) -> tuple[float, ...]:
    """Return hyper-parameters as numbers; see :func:`check_number`."""
    return tuple(check_number(value, name) for name, value in values.items())


def check_costs(C: float, weight: Floats) -> None:
    """Raise a :class:`DataError` unless all costs :math:`C s_i` and their products are numbers."""
    with np.errstate(over="ignore", under="ignore"):
        costs = C * weight
    smallest, largest = float(costs.min(initial=1.0)), float(costs.max(initial=1.0))
    if not (smallest >= 1e-150 and largest <= 1e150):
        raise DataError(
            f"the costs C times sample_weight range from {smallest:.3g} to {largest:.3g}, beyond"
            " 1e-150 to 1e150, where arithmetic overflows; change C or the weights, or leave out"
            " observations that do not count"
        )


def check_time_limit(time_limit: float | None) -> float | None:
    """Return a positive time limit in seconds, or None for none."""
    return None if time_limit is None else check_number(time_limit, "time_limit")


def check_whole(value: Any, name: str, low: int, why: str = "") -> int:
    """Return `value` as a whole number of at least `low`, or raise a :class:`DataError`."""
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not number or value < low:
        raise DataError(f"{name} must be a whole number of at least {low}, got {value!r}{why}")
    return int(value)


def check_seed(seed: Any) -> np.random.Generator:
    """Return the random generator of a whole number, or raise a :class:`DataError`."""
    return np.random.default_rng(check_whole(seed, "seed", 0))


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`, or raise a :class:`DataError` that lists them."""
    if not isinstance(value, str) or value not in choices:
        raise DataError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got"
            f" {value!r}{did_you_mean(value, choices)}"
        )
    return value


# The first of equal observations, and the place of each observation there.
EqualRows: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class BinaryData:
    """Validated data of a binary formulation."""

    X: Features
    y: Floats
    weight: Floats
    index: NDArray[np.intp]
    classes: NDArray[Any]
    rows: int
    fingerprint: str = ""

    @cached_property
    def n(self) -> int:
        return int(self.y.size)

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights, rounded once."""
        return math.fsum(self.weight.tolist())

    @cached_property
    def equal_rows(self) -> EqualRows | None:
        return equal_rows(self.X, self.y)

    @property
    def bounded_weight(self) -> Bounded:
        """Sum of the weights with its rounding."""
        return correctly_rounded(self.total_weight)


def binary_data(X: ArrayLike | Any, y: Any, sample_weight: Any = None) -> BinaryData:
    """Validate the data of a binary formulation."""
    features, codes, *others = _validated(X, y, sample_weight, binary=True)
    return BinaryData(features, np.where(codes == 1, 1.0, -1.0), *others)


@dataclass(frozen=True, eq=False)
class MulticlassData:
    """Validated data of a multi-class formulation."""

    X: Features
    codes: NDArray[np.intp]
    weight: Floats
    index: NDArray[np.intp]
    classes: NDArray[Any]
    rows: int
    fingerprint: str = ""

    @property
    def n(self) -> int:
        return int(self.codes.size)

    @property
    def c(self) -> int:
        return int(self.classes.size)

    @cached_property
    def equal_rows(self) -> EqualRows | None:
        return equal_rows(self.X, self.codes)


def multiclass_data(X: Any, y: Any, sample_weight: Any = None) -> MulticlassData:
    """Validate the data of a formulation for two or more classes."""
    return MulticlassData(*_validated(X, y, sample_weight, binary=False))


def _validated(X: Any, y: Any, sample_weight: Any, *, binary: bool) -> tuple[Any, ...]:
    """Return the fields of validated data, for the rows of positive weight."""
    # Features that were validated with their labels are not looked at again.
    same = isinstance(y, CodedLabels) and y.features is X
    features = X if same else check_features(X)
    codes, classes = check_labels(y, features.shape[0], binary=binary)
    weight = check_weights(sample_weight, features.shape[0])
    name = fingerprint(features, codes, coded=True)
    index = np.flatnonzero(weight > 0).astype(np.intp)
    if np.count_nonzero(np.bincount(codes[index])) < classes.size:
        raise DataError(
            "sample_weight is zero for every observation of a class; each class needs positive"
            " weight"
        )
    if index.size < weight.size:
        rows = features[index]
        features = sp.csr_array(rows) if sp.issparse(rows) else np.ascontiguousarray(rows)
    return features, codes[index], weight[index], index, classes, weight.size, name


# Equal rows

# Observations up to which a stored kernel matrix costs less time than a second evaluation, and
# equal rows are not looked for.
FEW = 1000
Data = TypeVar("Data", BinaryData, MulticlassData)


def equal_rows(X: Any, y: NDArray[Any]) -> EqualRows | None:
    """Return the first of equal observations, labels included, and the place of each one's there;
    None of sparse or few rows, and where most are different.
    """
    n = y.size
    if n <= FEW or sp.issparse(X):
        return None
    # One number for each row shows it without a copy of the data.
    if 2 * np.unique(X @ np.sqrt(np.arange(2.0, X.shape[1] + 2.0))).size > n:
        return None
    rows = np.column_stack([X, y])
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return (first, place) if 2 * first.size <= n else None


def summed(weight: Floats, place: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return the weight at each place, and the share of each observation in that of its place."""
    whole = np.asarray(np.bincount(place, weight), dtype=np.float64)
    return whole, weight / whole[place]


def merged(data: Data) -> tuple[Data, NDArray[np.intp], Floats] | None:
    """Return the data with equal rows in one, of their weight, the place of each there and its
    share of the weight; None as :func:`equal_rows`.
    """
    if data.equal_rows is None:
        return None
    first, place = data.equal_rows
    weight, share = summed(data.weight, place)
    label = "y" if isinstance(data, BinaryData) else "codes"
    rows = {name: getattr(data, name)[first] for name in ("X", label, "index")}
    return replace(data, weight=weight, **rows), place, share


# Containers of arrays: reading, copying, recognising


def as_array(value: Any, name: str) -> NDArray[Any]:
    """Return a dense container as an array; the data type does not change."""
    if np.ma.is_masked(value):
        raise DataError(
            f"{name} is a masked array with {np.count_nonzero(np.ma.getmask(value))} masked"
            " entries, whose values would count; drop these observations, or impute values with"
            f" {name}.filled(...)"
        )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"{name} cannot be read as an array ({error}); pass an array, with rows of equal length"
        ) from None
    if array.ndim == 0 and array.dtype == object and hasattr(value, "collect"):
        raise DataError(
            f"{name} is a {type(value).__name__}, which holds no rows yet; pass {name}.collect()"
        )
    return array


def owned(value: Any) -> Any:
    """Return a copy of an array, a sparse matrix, a frame or a tensor; anything else as it is."""
    if sp.issparse(value) or hasattr(value, "to_numpy") or hasattr(value, "__array__"):
        for name in ("copy", "clone"):
            if hasattr(value, name):
                return getattr(value, name)()
    return value


def checksum(values: Any) -> int:
    """Return the CRC-32 of an array or a sparse matrix, which shows whether it has changed.

    A cryptographic digest of the data takes longer than a pass over them.
    """
    parts = [np.asarray(values)]
    if sp.issparse(values):
        rows = sp.csr_array(values)
        parts = [rows.data, rows.indices, rows.indptr]
    crc = zlib.crc32(f"{values.shape}".encode())
    for part in parts:
        # Numbers longer than double precision have bytes without a meaning.
        array = np.ascontiguousarray(part, dtype=np.float64 if part.dtype.char == "g" else None)
        text = repr(part.tolist()).encode() if part.dtype.hasobject else None
        crc = zlib.crc32(array.reshape(-1).view(np.uint8).data if text is None else text, crc)
    return crc
