"""What the library has: data sets times formulations times hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from benchmarks.referee.library.data_sets import known_data_sets, recorded
from benchmarks.referee.library.instances import Instance, Problem, instance_id

__all__ = ["PARTS", "listed", "problems_of"]

PARTS: Final = ("core", "extended")
# Seven decades of the weight of the losses.
WEIGHTS: Final = tuple(10.0**k for k in range(-3, 4))
# Widths of the RBF kernel: γ = 2^k, where 2^k is near a share of 1/d.
SHARES: Final = (-3, 0, 3)
# Rows up to which there are problems that cost more: semidefinite ones with a kernel, searches.
FEW_ROWS: Final = 150
# Columns of raw numbers are of very different sizes: ill-conditioned, for linear machines alone.
RAW: Final = "/raw"


def _rbf(columns: int, share: int) -> dict[str, Any]:
    return {"name": "rbf", "gamma": 2.0 ** (share - (columns - 1).bit_length())}


def _two_classes(rows: int, columns: int, *, raw: bool) -> Iterator[Problem]:
    kernels = [] if raw else [_rbf(columns, share) for share in SHARES]
    for C in WEIGHTS:
        for p in (1.0, 1.5, 2.0, 3.0):
            yield Problem("psvm", {"C": C, "p": p}, None, "free")
        for p in (1.0, 2.0):
            yield Problem("penalised psvm", {"C": C, "p": p}, None, "penalised")
            for kernel in kernels:
                yield Problem("psvm", {"C": C, "p": p}, kernel, "free")
        for one in (None, *kernels[1:2]):
            yield Problem("odm", {"C1": C, "C2": C, "D": 0.1}, one, "penalised")
            yield Problem("odml", {"lam1": 0.0625, "lam2": 0.0625, "C": C}, one, "penalised")
            if one is None or rows <= FEW_ROWS:
                yield Problem("conic", {"lam": C}, one, "penalised")
    for kernel in kernels[2:]:
        yield Problem("hard_margin", {}, kernel, "free")
    if raw or rows > FEW_ROWS:
        return
    for weight in (0.01, 1.0, 100.0):
        for one in (None, _rbf(columns, 0)):
            yield Problem("zero_one", {"lam": weight}, one, "penalised")
        yield Problem("ramp", {"C": weight}, None, "free")
        yield Problem("l0", {"C": weight}, None, "free")


def _several_classes() -> Iterator[Problem]:
    for lam in WEIGHTS:
        for name in (
            "weston_watkins",
            "crammer_singer",
            "msvm",
            "multinomial_lr",
            "sparse_multinomial_lr",
        ):
            yield Problem(name, {"lam": lam}, None, "free")
        yield Problem("topk_svm", {"lam": lam, "k": 2.0}, None, "free")
        for p in (1.0, 2.0, 4.0):
            yield Problem(
                "m3svm",
                {"lam": lam, "p": p, "eps": 1e-6, "norm": 2.0, "loss": "hinge"},
                None,
                "penalised",
            )
        yield Problem(
            "m3svm",
            {"lam": lam, "p": 2.0, "eps": 1e-6, "norm": 2.0, "loss": "softmax"},
            None,
            "penalised",
        )


def problems_of(name: str) -> Iterator[Problem]:
    """Yield the problems of a data set, by its rows, columns and classes."""
    record = recorded()[name]
    if record.classes > 2:
        return _several_classes()
    return _two_classes(record.rows, record.columns, raw=name.endswith(RAW))


@cache
def listed(part: str) -> tuple[Instance, ...]:
    """Return the instances of a part: the core is made of data that come with scikit-learn or are
    generated.
    """
    records = recorded()
    return tuple(
        Instance(instance_id(records[name].digest, problem), name, problem, part)
        for name in known_data_sets(part)
        for problem in problems_of(name)
    )
