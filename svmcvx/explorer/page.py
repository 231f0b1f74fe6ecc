"""The page of an explorer: every combination of values solved beforehand, in one HTML file that
loads nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.catalogue import find
from svmcvx.display import interval
from svmcvx.errors import DataError
from svmcvx.explorer.sliders import Slider, sliders_of
from svmcvx.kernels import RBF, Exponential, Kernel, Linear, Polynomial
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel
from svmcvx.plot.style import class_colours
from svmcvx.system.files import atomic_write

if TYPE_CHECKING:
    from svmcvx.explorer.moving_model import MovingModel

__all__ = ["page_data", "write_page"]

Floats: TypeAlias = NDArray[np.float64]

# Values of the first two sliders by default, and the most combinations.
FIRST, SECOND, MOST = 21, 5, 1000
# Significant digits of coordinates and coefficients.
DIGITS = 6
MARK = "/*DATA*/"


def write_page(
    explorer: MovingModel,
    path: str | os.PathLike[str],
    *,
    values: Mapping[str, Sequence[Any]] | None = None,
    title: str | None = None,
) -> None:
    """Write the page; see :meth:`svmcvx.explorer.Explorer.save`."""
    data = json.dumps(
        page_data(explorer, values, title),
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
    )
    head, _, tail = (
        files("svmcvx.explorer").joinpath("page.html").read_text(encoding="utf-8").partition(MARK)
    )
    with atomic_write(path) as stream:
        # A text with "</script>" would end the script.
        stream.write((head + data.replace("</", "<\\/") + tail).encode())


def page_data(
    explorer: MovingModel,
    values: Mapping[str, Sequence[Any]] | None = None,
    title: str | None = None,
) -> dict[str, Any]:
    """Return what the page computes from: points, sliders, and for each combination of values a
    model with its numbers.
    """
    sliders = _sliders(explorer, values)
    plane = explorer.plane
    places = plane.coordinates(explorer.X)
    beside = explorer.X - plane.points(places)
    extra = np.stack([np.einsum("ij,ij->i", beside, beside), explorer.X @ plane.origin], axis=1)
    kernels: list[dict[str, Any]] = []
    reasons: list[str] = []
    answers = list(_answers(explorer, sliders, kernels, reasons))
    entry = find(explorer.model._stated_as())
    return {
        "title": title or (entry.title if entry else type(explorer.model).__name__),
        "names": plane.names,
        "caption": plane.caption,
        "classes": [str(label) for label in explorer.classes],
        "colours": class_colours(explorer.classes.size),
        "limits": _rounded(explorer.limits),
        "points": [
            [*_rounded(place), int(code)]
            for place, code in zip(places, explorer.codes, strict=True)
        ],
        "extra": [_rounded(row) for row in extra] if extra.any() and kernels else [],
        "test": (
            [
                [*_rounded(place), int(np.flatnonzero(explorer.classes == label)[0])]
                for place, label in zip(
                    plane.coordinates(explorer.tested[0]), explorer.tested[1], strict=True
                )
            ]
            if explorer.has_test
            else []
        ),
        "sliders": [
            {"name": s.symbol, "labels": s.labels, "start": s.start, "choice": s.is_choice}
            for s in sliders
        ],
        "kernels": kernels,
        "reasons": reasons,
        "answers": answers,
    }


def _sliders(
    explorer: MovingModel, values: Mapping[str, Sequence[Any]] | None
) -> tuple[Slider, ...]:
    """Return the sliders of the page."""
    if values is None:
        counts = [FIRST, SECOND] + [1] * len(explorer.sliders)
        values = {
            slider.name: _few_values(slider, explorer.settings[slider.name], count)
            for slider, count in zip(explorer.sliders, counts, strict=False)
        }
    sliders = tuple(
        s for s in sliders_of(explorer.model, values, explorer.gamma()) if s.name in values
    )
    count = prod(len(slider.values) for slider in sliders)
    if count > MOST:
        raise DataError(
            f"values has {count} combinations, and a page has at most {MOST}; pass fewer"
        )
    return sliders


def _few_values(slider: Slider, current: Any, count: int) -> tuple[Any, ...]:
    """Return at most so many values, at equal steps, among them the current one."""
    if count == 1 or slider.is_choice:
        return (current,)
    step = -(-len(slider.values) // count)
    return slider.values[slider.position(current) % step :: step]


def _answers(
    explorer: MovingModel,
    sliders: tuple[Slider, ...],
    kernels: list[dict[str, Any]],
    reasons: list[str],
) -> Iterator[dict[str, Any]]:
    """Yield the answer of each combination, the last slider's values innermost; solved along the
    first, from neighbour to neighbour.
    """
    sizes = [len(slider.values) for slider in sliders]
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    for outer in product(*map(range, sizes[1:])):
        for first in range(sizes[0]):
            positions = (first, *outer)
            found[positions] = _answer(explorer, sliders, positions, kernels, reasons)
    for positions in product(*map(range, sizes)):
        yield found[positions]


def _answer(
    explorer: MovingModel,
    sliders: tuple[Slider, ...],
    positions: tuple[int, ...],
    kernels: list[dict[str, Any]],
    reasons: list[str],
) -> dict[str, Any]:
    settings = {slider.name: slider.values[k] for slider, k in zip(sliders, positions, strict=True)}
    view = explorer.fitted({**explorer.settings, **settings})
    certificate = view.certificate
    lower, upper = interval(certificate.lower, certificate.upper)
    answer = {
        **_scores(explorer, view.solution.model, kernels),
        "s": view.support.tolist(),
        "lower": lower,
        "upper": upper,
        "gap": f"{certificate.gap:.1e}" if np.isfinite(certificate.gap) else "∞",
        "accuracy": f"{view.accuracy:.4g}",
    }
    proved, reason = explorer.guaranteed_at(view)
    if proved is not None:
        return answer | {"proved": str(proved)}
    reason = reason.partition(":")[0]
    if reason not in reasons:
        reasons.append(reason)
    return answer | {"reason": reasons.index(reason)}


def _scores(explorer: MovingModel, model: Model, kernels: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of a model on the plane: ``w`` (two coefficients and a constant for each),
    or kernel, rows, ``v`` and ``b``.
    """
    plane = explorer.plane
    if isinstance(model, LinearModel):
        return {
            "w": [_affine(plane.axes @ model.coef, plane.origin @ model.coef + model.intercept)]
        }
    if isinstance(model, MulticlassModel):
        coef, constant = plane.axes @ model.coef, plane.origin @ model.coef + model.intercept
        if len(model.classes) == 2:
            return {"w": [_affine(coef[:, 1] - coef[:, 0], constant[1] - constant[0])]}
        return {"w": [_affine(coef[:, k], constant[k]) for k in range(len(model.classes))]}
    if isinstance(model, KernelModel):
        described = _kernel(model.kernel)
        if described not in kernels:
            kernels.append(described)
        return {
            "k": kernels.index(described),
            "v": _rounded(model.dual_coef),
            "b": _rounded([model.intercept])[0],
        }
    raise DataError(
        f"a page shows one problem, and {type(explorer.model).__name__} states"
        f" {explorer.classes.size} classes as several; use two classes"
    )


def _affine(coef: Floats, constant: Any) -> list[float]:
    return _rounded([*coef, constant])


def _kernel(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as the page knows it."""
    if isinstance(kernel, (RBF, Exponential)):
        return {"name": kernel.name, "gamma": float(kernel.gamma)}
    if isinstance(kernel, Polynomial):
        return {
            "name": "poly",
            "gamma": float(kernel.gamma),
            "c": float(kernel.coef0),
            "degree": int(kernel.degree),
        }
    if isinstance(kernel, Linear):
        return {"name": "poly", "gamma": 1.0, "c": 0.0, "degree": 1}
    raise DataError(
        f"a page cannot evaluate {kernel!r}; use kernel=None, 'rbf', 'exponential' or 'poly'"
    )


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
