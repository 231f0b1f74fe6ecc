"""Claims of scores that do not follow: other test rows, intervals, labels, and points that do not
carry them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .archive import File
from .corpus import enter_table
from .honest import honest

LARGEST = float(np.finfo(float).max)


def _consistent(file: File) -> None:
    """Labels that are those of the intervals."""
    low, high = file.arrays["scores.lower"], file.arrays["scores.upper"]
    file.arrays["scores.label"] = np.where(low > 0, 1, np.where(high <= 0, 0, 2)).astype(np.uint8)


def _interval(
    change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> Callable[[File], None]:
    def changed(file: File) -> None:
        low, high = change(file.arrays["scores.lower"], file.arrays["scores.upper"])
        file.arrays |= {"scores.lower": low, "scores.upper": high}
        _consistent(file)

    return changed


def _entry(name: str, place: Any, value: float) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.arrays[f"scores.{name}"][place] = value

    return change


def _test(**values: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.header["test"] = {
            name: v for name, v in (file.header["test"] | values).items() if v is not None
        }

    return change


def _tested(change: Callable[[np.ndarray], Any]) -> Callable[[File], None]:
    def changed(file: File) -> None:
        file.T = change(file.T)

    return changed


def _swapped(file: File) -> None:
    for name in ("lower", "upper", "label"):
        values = file.arrays[f"scores.{name}"]
        values[[0, 1]] = values[[1, 0]]


def _label(file: File) -> None:
    file.arrays["scores.label"][0] = 1 - file.arrays["scores.label"][0]


def _decided(file: File) -> None:
    """A label where the interval has both signs."""
    file.arrays["scores.lower"][0] = -file.arrays["scores.upper"][0]


def _of_another(name: str) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.arrays |= {
            key: v for key, v in honest(name).arrays.items() if key.startswith("scores.")
        }

    return change


def _moved_claim(file: File) -> None:
    """The scores of another C, whose problem the header names."""
    file.statement["hyperparameters"]["C"] = 7.5
    file.claim.update(lower=None, upper=1e6)


def _without(*names: str) -> Callable[[File], None]:
    def change(file: File) -> None:
        for name in names:
            del file.arrays[name]

    return change


def _no_dual(file: File) -> None:
    del file.arrays["dual.alpha"]
    file.claim["lower"] = None


def _loose_model(file: File) -> None:
    """Another model, of which the interval is claimed honestly."""
    file.arrays["model.coef"] *= 1.5
    file.claim["upper"] = 1e6


def _zero_dual(file: File) -> None:
    """A dual point of zeros, which is feasible: intervals that follow are wide."""
    file.arrays["dual.alpha"][:] = 0.0
    file.claim["lower"] = 0.0


def _header_alone(file: File) -> None:
    file.header["test"] = honest("scores").header["test"]


def _kernel(**kernel: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        file.statement["kernel"] = kernel

    return change


CHANGES: dict[str, tuple[str, Callable[[File], None], str]] = {
    "scores of other test rows": (
        "scores",
        _tested(lambda T: T + 1e-9),
        "test rows are not those of the proof: digest",
    ),
    "scores of test rows in another order": (
        "scores",
        _tested(lambda T: T[::-1].copy()),
        "not those of the proof: digest",
    ),
    "scores of one test row more": (
        "scores",
        _tested(lambda T: np.vstack([T, T[:1]])),
        "they have the shape",
    ),
    "scores of test rows of another width": (
        "scores",
        _tested(lambda T: T[:, :1]),
        "they have the shape",
    ),
    "scores without test rows": ("scores", _tested(lambda T: None), "pass them as test"),
    "test rows without scores": (
        "psvm",
        _tested(lambda T: honest("scores").T),
        "claims nothing of test rows",
    ),
    "another digest of the test rows": (
        "scores",
        _test(digest="0" * 64),
        "not those of the proof: digest",
    ),
    "a digest of capitals": ("scores", _test(digest="A" * 64), "64 hexadecimal digits"),
    "a digest that is a number": ("scores", _test(digest=7), "64 hexadecimal digits"),
    "no digest of the test rows": (
        "scores",
        _test(digest=None),
        "the test rows of a proof have the entries",
    ),
    "test rows of another number": ("scores", _test(rows=7), "shape"),
    "no test rows": ("scores", _test(rows=0), "the number of test rows"),
    "test rows with a point": ("scores", _test(rows=6.0), "the number of test rows"),
    "test rows that are true": ("scores", _test(rows=True), "the number of test rows"),
    "test rows that are a list": (
        "scores",
        lambda file: file.header.update(test=[]),
        "must be values by their names",
    ),
    "test rows that are null": (
        "scores",
        lambda file: file.header.update(test=None),
        "must be values by their names",
    ),
    "scores that the header does not name": (
        "scores",
        lambda file: file.header.pop("test"),
        "has the arrays none",
    ),
    "a header of scores without arrays": (
        "psvm",
        _header_alone,
        "the scores of a proof of psvm has the arrays",
    ),
    "scores without labels": (
        "scores",
        _without("scores.label"),
        "the scores of a proof of psvm has the arrays",
    ),
    "scores without upper ends": (
        "scores",
        _without("scores.upper"),
        "the scores of a proof of psvm has the arrays",
    ),
    "intervals half as wide": (
        "scores",
        _interval(lambda a, b: (0.75 * a + 0.25 * b, 0.25 * a + 0.75 * b)),
        "is proved to be",
    ),
    "intervals a little narrower": (
        "scores",
        _interval(lambda a, b: (a + 1e-4 * (b - a), b)),
        "is proved to be at least",
    ),
    "intervals of no width": (
        "scores",
        _interval(lambda a, b: (0.5 * (a + b),) * 2),
        "is proved to be",
    ),
    "upper ends a little lower": (
        "scores",
        _interval(lambda a, b: (a, b - 1e-4 * (b - a))),
        "is proved to be at most",
    ),
    "intervals that are moved": (
        "scores",
        _interval(lambda a, b: (a + (b - a), b + (b - a))),
        "is proved to be at least",
    ),
    "intervals of another sign": ("scores", _interval(lambda a, b: (-b, -a)), "is proved to be"),
    "ends in the wrong order": (
        "scores",
        _interval(lambda a, b: (b, a)),
        "is not that of its interval",
    ),
    "a lower end above all": (
        "scores",
        _interval(lambda a, b: (np.full_like(a, LARGEST), np.full_like(b, LARGEST))),
        "proved to be at least",
    ),
    "an upper end below all": (
        "scores",
        _interval(lambda a, b: (np.full_like(a, -LARGEST), np.full_like(b, -LARGEST))),
        "proved to be at most",
    ),
    "lower ends near the largest double": (
        "scores",
        _interval(lambda a, b: (np.nextafter(np.full_like(a, LARGEST), 0), b * 0 + LARGEST)),
        "proved to be at least",
    ),
    "a score that is no number": ("scores", _entry("lower", 0, np.nan), "finite"),
    "a score that is infinite": ("scores", _entry("upper", 0, np.inf), "finite"),
    "rows of the scores swapped": ("scores", _swapped, "is proved to be"),
    "a label of the other class": ("scores", _label, "is not that of its interval"),
    "a label that the interval leaves open": ("scores", _decided, "is not that of its interval"),
    "a label that there is not": (
        "scores",
        _entry("label", 0, 3),
        "the label 3 of test row 0 is not that",
    ),
    "a label of 255": (
        "scores",
        _entry("label", 1, 255),
        "the label 255 of test row 1 is not that",
    ),
    "a decided row that is called undecided": (
        "scores",
        _entry("label", 0, 2),
        "is not that of its interval",
    ),
    "labels as doubles": ("scores", lambda file: _floats(file), "dtype"),
    "scores of one row less": ("scores", lambda file: _shorter(file), "shape"),
    "scores of another machine": ("scores", _of_another("scores odm"), "is proved to be"),
    "scores of another C": ("scores", _moved_claim, "is proved to be|above its bound|not finite"),
    "scores without a dual point": ("scores", _no_dual, "follow from both ends"),
    "scores of a model that proves less": ("scores", _loose_model, "is proved to be"),
    "scores of multipliers of zero": ("scores", _zero_dual, "is proved to be"),
    "scores of an ODM of other signs": (
        "scores odm",
        _interval(lambda a, b: (-b, -a)),
        "is proved to be",
    ),
    "narrower scores of an ODM": (
        "scores odm",
        _interval(lambda a, b: (a + 1e-4 * (b - a), b)),
        "is proved to be at least",
    ),
    "narrower scores of a kernel": (
        "scores rbf",
        _interval(lambda a, b: (a, b - 1e-4 * (b - a))),
        "is proved to be at most",
    ),
    "scores of a conic machine": (
        "conic",
        _header_alone,
        "a proof of conic has no scores of test rows",
    ),
    "scores of a search": (
        "zero_one",
        _header_alone,
        "a proof of zero_one has no scores of test rows",
    ),
    "scores of a sigmoid": (
        "scores rbf",
        _kernel(name="sigmoid", gamma=0.5, coef0=0.0),
        "positive semidefinite on any rows",
    ),
    "scores of a polynomial below 0": (
        "scores rbf",
        _kernel(name="polynomial", degree=2, gamma=0.5, coef0=-1.0),
        "positive semidefinite on any rows",
    ),
}


def _floats(file: File) -> None:
    file.arrays["scores.label"] = file.arrays["scores.label"].astype(float)


def _shorter(file: File) -> None:
    for name in ("lower", "upper", "label"):
        file.arrays[f"scores.{name}"] = file.arrays[f"scores.{name}"][:-1]


enter_table(CHANGES)
