"""Points that are not what they claim: multipliers outside their domains, models that violate
constraints, false ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .archive import File
from .corpus import Forged, enter_table, forged, forgery, with_entry
from .honest import honest


def _largest(values: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(np.abs(values).argmax(), values.shape))


def _times(name: str, factor: float) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.arrays[name][_largest(file.arrays[name])] *= factor

    return change


def _all_times(name: str, factor: float) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.arrays[name] *= factor

    return change


def _number(name: str, value: float) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.arrays[name] = np.array(value)

    return change


def _own_class(file: File) -> None:
    row = int(np.flatnonzero(file.y == 0)[0])
    file.arrays["dual.alpha"][row, 0] = 1.0


CHANGES: dict[str, tuple[str, Callable[[File], None], str]] = {
    "a multiplier of another sign": ("psvm", _times("dual.alpha", -1.0), "below 0"),
    "a multiplier just below 0": ("psvm", with_entry("dual.alpha", 0, -5e-324), "below 0"),
    "a multiplier above C": ("psvm", with_entry("dual.alpha", 0, 1.3 * 1.01), "above its bound"),
    "a multiplier above C by more than rounding": (
        "psvm",
        with_entry("dual.alpha", 0, 1.3 * (1 + 2.0**-39)),
        "above its",
    ),
    "multipliers of 1e308": (
        "psvm 2",
        with_entry("dual.alpha", ..., 1e308),
        "y'α = 0|dual objective",
    ),
    "a class that is too heavy": ("psvm 2", _times("dual.alpha", 1.01), "y'α = 0|dual objective"),
    "multipliers of one class alone": (
        "psvm 2",
        lambda file: _one_class(file),
        "y'α = 0|dual objective",
    ),
    "all multipliers of another sign": ("psvm 2", lambda file: _negated(file), "below 0"),
    "a hard margin of multipliers below 0": ("hard margin", _times("dual.alpha", -1.0), "below 0"),
    "a hard margin that is violated": ("hard margin", _number("model.intercept", 1e3), "below 1"),
    "a θ that proves less": ("odm", _times("dual.theta", -1.0), "dual objective"),
    "an ODML multiplier of another sign": ("odml", lambda file: _negative(file), "below 0"),
    "an ODML multiplier above its share": (
        "odml",
        with_entry("dual.alpha", 0, 10.0),
        "above its bound",
    ),
    "a negative γ": (
        "conic",
        with_entry("dual.gamma", 0, -1e-3),
        "gamma of row 0 is -0.001, below 0",
    ),
    "γ that leave Q indefinite": (
        "conic",
        with_entry("dual.gamma", ..., 10.0),
        "positive definite",
    ),
    "an α where γ is 0": ("conic", lambda file: _without_gamma(file), "where its gamma is 0"),
    "a negative λ": ("conic kappa", _number("dual.lam", -1.0), "must not be negative"),
    "a λ that is no number": (
        "conic kappa",
        _number("dual.lam", np.nan),
        "finite|must not be negative",
    ),
    "a weight inside the margin above κ": (
        "conic kappa",
        with_entry("model.coef", ..., 0.0),
        "inside the margin",
    ),
    "more rows inside the margin than k": (
        "zero_one k",
        with_entry("model.coef", ..., 0.0),
        "inside the margin",
    ),
    "a multiplier of a row's own class": ("m3svm", _own_class, "its own class is 1.0, not 0"),
    "a negative multiplier of a class": (
        "m3svm",
        lambda file: _other_class(file, -1e-6),
        "below 0",
    ),
    "a multiplier of a class above 1": (
        "m3svm",
        lambda file: _other_class(file, 1.001),
        "above its bound",
    ),
    "multipliers of a row whose sum is above its weight": (
        "sparse_multinomial_lr",
        lambda file: _row(file, [0.0, 0.8, 0.8]),
        "and the others of this row sum to 1.6, above 1.0",
    ),
    "a multiplier above the share of the top k": (
        "topk",
        lambda file: _top3(file),
        "above 0.0, the share that the top-3 loss allows",
    ),
    "a flow longer than λ": ("m3svm 1", _times("dual.flow", 2.0), "long, above lam"),
    "multipliers of classes that do not balance": (
        "weston_watkins",
        _times("dual.alpha", 0.5),
        "do not balance",
    ),
    "an intercept where there is none": (
        "odm",
        _number("model.intercept", 0.5),
        "the formulation has none",
    ),
    "biases where there are none": (
        "weston_watkins without",
        with_entry("model.intercept", 0, 1.0),
        "the biases of the model differ",
    ),
    "a ridge below 0": ("conic rbf", _number("model.ridge", -1.0), "must not be negative"),
    "no spread, and a weight inside the margin above κ": (
        "conic kappa",
        lambda file: (file.arrays.pop("model.V"), file.arrays["model.coef"].fill(0.0))[0],
        "inside the margin",
    ),
    "a γ above that of the problem": (
        "conic with γ",
        _times("dual.gamma", 1.01),
        "above its bound",
    ),
    "a margin below 1 − M": (
        "zero_one",
        lambda file: file.arrays.update({"statement.M": np.zeros(24)}),
        "below the 1 − M",
    ),
    "a gradient above λ": (
        "sparse_multinomial_lr",
        lambda file: file.statement["hyperparameters"].update(lam=0.2),
        "above lam in size",
    ),
    "differences of scores below 1": (
        "m3svm hard",
        _all_times("model.coef", 0.1),
        "a difference of scores",
    ),
    "flows of a hard margin above 1": ("m3svm hard", _all_times("dual.flow", 3.0), "long, above 1"),
    "multipliers of a class without weight": (
        "weston_watkins",
        lambda file: _unweighted(file),
        "no observation of positive weight",
    ),
    "γ beyond all doubles": (
        "conic",
        lambda file: _overflowing(file),
        "out of the range of doubles|positive definite",
    ),
    "a byte above 2": ("coded", with_entry("dual.code", 0, 3), "above 2|from 0 to 2"),
    "a byte too many for the numbers": (
        "coded",
        lambda file: _another_byte(file),
        "from 0 to 2, with an entry|fewer entries",
    ),
    "a number too many for the bytes": (
        "coded",
        lambda file: file.arrays.update(
            {"dual.between": np.append(file.arrays["dual.between"], 0.0)}
        ),
        "from 0 to 2, with an entry|more entries",
    ),
    "a number between that is below 0": ("coded", with_entry("dual.between", 0, -1e-3), "below 0"),
    "a number between that is above C": (
        "coded",
        with_entry("dual.between", 0, 1.4),
        "above its bound",
    ),
    "a byte of a row of weight zero": (
        "coded",
        lambda file: _byte_without_weight(file),
        "a row of weight zero has a multiplier",
    ),
    "bytes and multipliers": (
        "coded",
        lambda file: file.arrays.update({"dual.alpha": np.zeros(24)}),
        "has the arrays",
    ),
    "bytes where p is 2": (
        "coded",
        lambda file: file.statement["hyperparameters"].update(p=2.0),
        "has the arrays",
    ),
    "all rows at their bound": ("coded", lambda file: _at_bound(file), "y'α = 0|dual objective"),
    "a model whose multipliers prove less": (
        "psvm 2",
        lambda file: (file.arrays.pop("dual.alpha"), file.arrays["model.coef"].__imul__(1.01))[0],
        "dual objective|model's objective",
    ),
    "an upper end below the model's objective": (
        "psvm",
        lambda file: file.claim.update(lower=None, upper=14.0),
        "at most",
    ),
    "a lower end above the dual objective": (
        "psvm",
        lambda file: file.claim.update(upper=None, lower=15.0),
        "at least",
    ),
    "a lower end without a point": (
        "psvm",
        lambda file: file.arrays.pop("dual.alpha"),
        "no dual point",
    ),
    "a lower end without a tree": ("zero_one", lambda file: _without_tree(file), "no dual point"),
    "ends of a search without a tree": (
        "zero_one",
        lambda file: _without_tree(file, 20.0),
        "no dual point",
    ),
}


def _unweighted(file: File) -> None:
    """Multipliers that balance but for rounding, in a problem without the last class."""
    file.arrays["statement.weight"] = np.where(file.y == 2, 0.0, 1.0)
    alpha = np.zeros((file.y.size, 3))
    for own, other in ((0, 1), (1, 0)):
        alpha[np.flatnonzero(file.y == own)[:3], other] = 0.3 * (1.0 + own * 2.0**-50)
    file.arrays["dual.alpha"] = alpha


def _another_byte(file: File) -> None:
    file.arrays["dual.code"][np.flatnonzero(file.arrays["dual.code"] == 0)[0]] = 2


def _byte_without_weight(file: File) -> None:
    row = int(np.flatnonzero(file.arrays["dual.code"])[0])
    file.arrays["statement.weight"] = np.where(np.arange(24) == row, 0.0, 1.0)


def _at_bound(file: File) -> None:
    file.arrays |= {"dual.code": np.ones(24, dtype=np.uint8), "dual.between": np.zeros(0)}


def _overflowing(file: File) -> None:
    file.arrays["dual.gamma"][:] = 1e308
    file.arrays["dual.alpha"][:] = 0.0


def _one_class(file: File) -> None:
    file.arrays["dual.alpha"][file.y < 0] = 0.0


def _negated(file: File) -> None:
    file.arrays["dual.alpha"] *= -1.0


def _negative(file: File) -> None:
    file.arrays["dual.alpha"][0] = -1e-3


def _without_gamma(file: File) -> None:
    file.arrays["dual.gamma"][0] = 0.0
    file.arrays["dual.alpha"][0] = 1.0


def _other_class(file: File, value: float) -> None:
    row = int(np.flatnonzero(file.y == 0)[0])
    file.arrays["dual.alpha"][row, 1] = value


def _row(file: File, values: list[float]) -> None:
    file.arrays["dual.alpha"][0] = values


def _top3(file: File) -> None:
    file.arrays["dual.alpha"][:] = 0.0
    file.statement["hyperparameters"].update(k=3)
    _row(file, [0.0, 0.3, 0.0])


def _without_tree(file: File, claim: float | None = None) -> None:
    file.arrays = {
        name: values for name, values in file.arrays.items() if not name.startswith("tree.")
    }
    if claim is not None:
        file.claim.update(lower=claim, upper=claim)


enter_table(CHANGES)


@forgery("other data under the same header", "not those of the proof: fingerprint")
def _(file: File) -> None:
    file.X = file.X.copy()
    file.X[0, 0] += 1.0


@forgery("labels exchanged", "not those of the proof: fingerprint")
def _(file: File) -> None:
    file.y = -file.y


# The optimum of another problem.


def _claimed(file: File, other: File) -> Forged:
    """The header of one problem over the points and the claim of another."""
    file.arrays, file.header["claim"] = other.arrays, other.claim
    return forged(file, optimum=file.optimum)


@forgery("points and claim of another C", "above its bound")
def _(file: File) -> Forged:
    return _claimed(file, honest("psvm 7.5"))


@forgery("points and claim of another λ", "dual objective", "conic")
def _(file: File) -> Forged:
    return _claimed(file, honest("conic 4"))


@forgery("points and claim of other weights", "dual objective|above its bound", "psvm weights")
def _(file: File) -> Forged:
    weight = file.arrays["statement.weight"]
    forgery = _claimed(file, honest("psvm"))
    assert "statement.weight" not in file.arrays
    file.arrays["statement.weight"] = weight
    return forged(file, optimum=forgery.optimum)


@forgery("weights left out", "dual objective|model's objective|above its bound")
def _(file: File) -> Forged:
    other = honest("psvm weights")
    del other.arrays["statement.weight"]
    return _claimed(file, other)


@forgery("points and claim of another exponent", "above its bound|dual objective")
def _(file: File) -> Forged:
    return _claimed(file, honest("psvm 2"))


@forgery(
    "points of a hinge loss for a logistic one",
    "dual objective|model's objective",
    "m3svm logistic",
)
def _(file: File) -> Forged:
    return _claimed(file, honest("m3svm"))
