"""A model with sliders for its hyper-parameters, and one HTML page of all settings."""

from __future__ import annotations

import html
import json
import math
import os
import warnings
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from svmcvx.arrays import Floats
from svmcvx.catalogue import find
from svmcvx.certificate import Certificate
from svmcvx.data import check_choice, check_features, check_labels, check_time_limit, coded_labels
from svmcvx.display import ShortRepr, interval, number, settings
from svmcvx.errors import DataError, DataTypeError, NotCertified
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.experiments.fit import ONE_CLASS
from svmcvx.experiments.specifications import parse_models
from svmcvx.guarantees import Interval, guarantee
from svmcvx.kernels import as_kernel
from svmcvx.plot.style import class_colours
from svmcvx.solution import Solution
from svmcvx.system.files import atomic_write

# The name of the plane of two principal components.
PRINCIPAL = "principal"
SYMBOLS = {"lam": "λ", "lam1": "λ₁", "lam2": "λ₂", "kappa": "κ", "gamma": "γ", "C1": "C₁"}
SYMBOLS["C2"] = "C₂"
# Columns and rows of the grid of scores; largest score that is stored, and steps per unit.
GRID, TALLEST, STEPS = (64, 48), 4.0, 8000


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane in the space of the features: the points ``origin + t @ axes``."""

    origin: Floats
    axes: Floats
    names: tuple[str, str]
    caption: str

    def coordinates(self, X: Floats) -> Floats:
        return X @ self.axes.T

    def points(self, coordinates: Floats) -> Floats:
        return self.origin + coordinates @ self.axes


def plane_of(X: Floats, features: Any, names: list[str]) -> Plane:
    """Return the plane of two features, or of two principal components."""
    d = X.shape[1]
    if d < 2:
        raise DataError(f"X has {d} feature, and the picture shows two; add a column")
    if features is None:
        features = (0, 1) if d == 2 else PRINCIPAL
    mean = X.mean(axis=0)
    if isinstance(features, str) and features == PRINCIPAL:
        if X.shape[0] < 2:
            raise DataError("X has 1 row; two principal components need two at least")
        _, sizes, rows = np.linalg.svd(X - mean, full_matrices=False)
        axes, total = rows[:2], float(sizes @ sizes)
        share = float(sizes[:2] @ sizes[:2]) / total if total > 0 else 1.0
        caption = (
            f"a slice through the mean, along two principal components ({share:.0%} of the"
            " variance); observations are projected onto it"
        )
        names_of_axes = ("principal component 1", "principal component 2")
        return Plane(mean - axes.T @ (axes @ mean), axes, names_of_axes, caption)
    if isinstance(features, str) or np.ndim(features) != 1 or len(features) != 2:
        raise DataTypeError(
            f"features must be {PRINCIPAL!r} or a pair of columns, got {features!r}"
        )
    first, second = (_column(feature, names) for feature in features)
    if first == second:
        raise DataError(f"features must be two different columns, got {names[first]!r} twice")
    axes = np.zeros((2, d))
    axes[0, first] = axes[1, second] = 1.0
    mean[[first, second]] = 0.0
    others = "" if d == 2 else f"a slice at the means of the other {d - 2} features; observations"
    caption = others and f"{others} are projected onto it"
    return Plane(mean, axes, (names[first], names[second]), caption)


def _column(feature: Any, names: list[str]) -> int:
    if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool):
        if not 0 <= feature < len(names):
            raise DataError(f"features has column {feature}; X has columns 0 to {len(names) - 1}")
        return int(feature)
    return names.index(check_choice(feature, "features", names))


@dataclass(frozen=True)
class Slider:
    """A parameter of a model and the values that it may take."""

    name: str
    values: tuple[Any, ...]
    start: int


def sliders_of(
    own: Mapping[str, Any], model: Any, values: Mapping[str, Sequence[Any]] | None
) -> tuple[Slider, ...]:
    """Return the sliders of the given values, or of two parameters of the formulation's paths."""
    if values is None:
        names, few = _varied(model, own)[:2], _searches(model)
        values = {name: _default(name, own[name], few=few or name != names[0]) for name in names}
    found = []
    for name, chosen in values.items():
        check_choice(name, "a parameter in values", tuple(own))
        listed = _checked(name, chosen)
        near = [abs(v - own[name]) if _numbers(v, own[name]) else v != own[name] for v in listed]
        found.append(Slider(name, listed, int(np.argmin(near))))
    if not found:
        raise DataError(f"values leaves no parameter of {type(model).__name__} to vary; name one")
    count = math.prod(len(slider.values) for slider in found)
    if count > 1000:
        raise DataError(f"values has {count} combinations, at most 1000 are shown; pass fewer")
    return tuple(found)


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) and math.isfinite(v) for v in values)


def _searches(model: Any) -> bool:
    entry = find(model._stated_as())
    return entry is not None and entry.family == "indicator"


def _varied(model: Any, own: Mapping[str, Any]) -> list[str]:
    entry = find(model._stated_as())
    path = entry.fast.path if entry is not None and entry.fast is not None else ()
    names = [name for name in path if own.get(name) is not None and name != "eps"]
    if "kappa" in names or "k" in names:  # one of two ways to weigh the losses
        names = [name for name in names if name != "lam"]
    if own.get("kernel") is not None:
        names.insert(1, "gamma")
    return [name for name in names if len(_default(name, own[name], few=True))]


def _default(name: str, own: Any, *, few: bool) -> list[Any]:
    """Return the values of a slider around the model's own one."""
    fixed = {"p": (1.0, 1.5, 2.0, 3.0, 4.0), "D": (0.0, 0.1, 0.2, 0.4, 0.8), "k": range(6)}
    if name in fixed:
        return sorted({*fixed[name], own})
    if not _numbers(own) or own <= 0:
        return []
    if name == "gamma":
        return [own * 4.0**k for k in (-2, -1, 0, 1, 2)]
    return [own * 10.0 ** (k / 5) for k in range(-10, 11, 5 if few else 2)]


def _checked(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or np.ndim(values) != 1 or not len(values):
        raise DataTypeError(f"values[{name!r}] must be a sequence, got {values!r}")
    listed = np.asarray(values).tolist()
    if all(isinstance(value, str) for value in listed):
        return tuple(dict.fromkeys(listed))
    if not _numbers(*listed):
        raise DataTypeError(f"values[{name!r}] must be finite numbers or names, got {listed!r}")
    return tuple(sorted(set(listed)))


@dataclass(frozen=True, eq=False)
class View:
    """What is shown at one setting."""

    settings: Mapping[str, Any]
    solution: Solution
    scores: Floats
    predicted: NDArray[np.intp]
    support: NDArray[np.intp]
    accuracy: float

    @property
    def certificate(self) -> Certificate:
        """The interval of the optimum."""
        return self.solution.certificate


class Explorer(ShortRepr):
    """A model with sliders for its hyper-parameters; see :func:`explore`.

    In a notebook it shows itself. Elsewhere :meth:`move` sets the sliders, :attr:`view` has what is
    shown, and :meth:`save` writes a page.

    Attributes
    ----------
    sliders : tuple of Slider
        Names and values.
    settings : dict
        The present values.
    plane : Plane
        What the picture shows of the space of the features.
    classes : ndarray of shape (c,)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        model: Any = None,
        *,
        features: Any = None,
        values: Mapping[str, Sequence[Any]] | None = None,
        test: Any = None,
        time_limit: float | None = 2.0,
    ) -> None:
        check_time_limit(time_limit)
        self.model = _estimator(model)
        if self.model.time_limit is None:
            self.model.time_limit = time_limit
        names = [str(name) for name in getattr(X, "columns", ())]
        self.X = np.asarray(check_features(X, accept_sparse=False))
        self.codes, self.classes = check_labels(y, self.X.shape[0])
        self._y = self.classes[self.codes]
        self.has_test = test is not None
        self.tested = (self.X, self._y) if test is None else self._checked_test(test)
        names = names or [f"feature {j}" for j in range(self.X.shape[1])]
        self.plane = plane_of(self.X, features, names)
        shown = self.plane.coordinates(np.concatenate([self.X, self.tested[0]]))
        low, high = shown.min(axis=0), shown.max(axis=0)
        pad = 0.06 * np.where(high > low, high - low, 1.0)
        self.limits = np.stack([low - pad, high + pad], axis=1).ravel().tolist()
        left, right, bottom, top = self.limits
        lines = np.meshgrid(np.linspace(left, right, GRID[0]), np.linspace(bottom, top, GRID[1]))
        self._grid = self.plane.points(np.stack([line.ravel() for line in lines], axis=1))
        own = self.model.get_params(deep=False)
        if "gamma" in own:
            kernel: Any = as_kernel("rbf", gamma=own["gamma"])
            own["gamma"] = float(kernel.resolve(self.X).gamma)
        # The weight of a mean loss that is None is the number of rows.
        n = float(self.X.shape[0])
        own |= {name: n for name in ("C", "C1", "C2") if own.get(name, n) is None}
        self.sliders = sliders_of(own, self.model, values)
        self.settings = {s.name: s.values[s.start] for s in self.sliders}
        self._views: dict[tuple[Any, ...], View] = {}

    def _checked_test(self, test: Any) -> tuple[Floats, NDArray[Any]]:
        if not isinstance(test, tuple) or len(test) != 2:
            raise DataTypeError(f"test must be a pair (X, y), got {type(test).__name__}")
        d = self.X.shape[1]
        rows = check_features(test[0], name="test", n_features=d, accept_sparse=False)
        codes, classes = coded_labels(test[1], rows.shape[0], "test")
        if strange := set(classes.tolist()) - set(self.classes.tolist()):
            raise DataError(f"test has labels that the training data do not have: {strange}")
        return np.asarray(rows), classes[codes]

    @property
    def view(self) -> View:
        """What is shown at the present settings; computed once for each."""
        return self._view(self.settings)

    def _view(self, values: Mapping[str, Any]) -> View:
        key = tuple(values.items())
        if key not in self._views:
            fitted: Any = clone(self.model).set_params(**values)
            with warnings.catch_warnings():
                # The picture shows it.
                warnings.filterwarnings("ignore", message=f".* {ONE_CLASS}")
                fitted.fit(self.X, self._y)
            scores = np.asarray(fitted.decision_function(self._grid))
            if scores.ndim == 1:
                predicted = (scores > 0).astype(np.intp)
            else:
                predicted = np.argmax(scores, axis=1)
                best = np.partition(scores, -2, axis=1)
                scores = best[:, -1] - best[:, -2]
            support = np.unique(getattr(fitted, "support_", ())).astype(np.intp)
            accuracy = float(np.mean(fitted.predict(self.tested[0]) == self.tested[1]))
            shown = (scores, predicted, support, accuracy)
            self._views[key] = View(dict(values), fitted.solution_, *shown)
        return self._views[key]

    @property
    def guaranteed(self) -> tuple[Interval | None, str]:
        """An interval of the accuracy of every optimal machine; or None, and the reason."""
        return self._guaranteed(self.view)

    def _guaranteed(self, view: View) -> tuple[Interval | None, str]:
        if _searches(self.model):
            return None, "the optimum of this loss is the end of a search"
        try:
            return guarantee(view.solution, self.X, self._y).accuracy(*self.tested), ""
        except (DataError, NotCertified) as error:
            return None, str(error)

    def move(self, **values: Any) -> View:
        """Set sliders to any values, and return what is shown then."""
        for name in values:
            check_choice(name, "a slider", tuple(self.settings))
        self.settings = {**self.settings, **values}
        return self.view

    def page(self, title: str | None = None) -> str:
        """Return the HTML page, for which every combination of values is solved."""
        data = json.dumps(
            self._contents(title), ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
        page = files("svmcvx").joinpath("explorer.html").read_text(encoding="utf-8")
        # No text of the data can end the script, or begin a comment in it.
        return page.replace("/*DATA*/", data.replace("<", "\\u003c"), 1)

    def _contents(self, title: str | None) -> dict[str, Any]:
        entry = find(self.model._stated_as())
        reasons: list[str] = []
        tested = np.searchsorted(self.classes, self.tested[1])
        return {
            "title": title or (entry.title if entry else type(self.model).__name__),
            "names": self.plane.names,
            "caption": self.plane.caption,
            "classes": [str(label) for label in self.classes],
            "colours": class_colours(self.classes.size),
            "limits": self.limits,
            "grid": GRID,
            "steps": STEPS,
            "points": self._placed(self.X, self.codes),
            "test": self._placed(self.tested[0], tested) if self.has_test else [],
            "sliders": [
                {
                    "name": SYMBOLS.get(s.name, s.name),
                    "labels": [number(value, 3) for value in s.values],
                    "start": s.start,
                    "choice": isinstance(s.values[0], str),
                }
                for s in self.sliders
            ],
            "answers": list(self._answers(reasons)),
            "reasons": reasons,
        }

    def _placed(self, X: Floats, codes: NDArray[Any]) -> list[list[float]]:
        return [
            [float(f"{u:.5g}"), float(f"{v:.5g}"), int(code)]
            for (u, v), code in zip(self.plane.coordinates(X), codes, strict=True)
        ]

    def _answers(self, reasons: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the answer of each combination, the last slider's values innermost."""
        names = [slider.name for slider in self.sliders]
        for values in product(*(slider.values for slider in self.sliders)):
            view = self._view(dict(zip(names, values, strict=True)))
            proved, reason = self._guaranteed(view)
            reason = reason.partition(":")[0]
            if proved is None and reason not in reasons:
                reasons.append(reason)
            lower, upper = interval(view.certificate.lower, view.certificate.upper)
            gap, scores = view.certificate.gap, np.clip(view.scores, -TALLEST, TALLEST)
            yield {
                "f": b64encode(np.rint(STEPS * scores).astype("<i2").tobytes()).decode(),
                "c": b64encode(view.predicted.astype(np.uint8).tobytes()).decode()
                if self.classes.size > 2
                else "",
                "s": view.support.tolist(),
                "lower": lower,
                "upper": upper,
                "gap": f"{gap:.1e}" if math.isfinite(gap) else "∞",
                "accuracy": f"{view.accuracy:.4g}",
                "proved": None if proved is None else str(proved),
                "reason": None if proved is not None else reasons.index(reason),
            }

    def save(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write the page: one HTML file, which needs no server and loads nothing."""
        with atomic_write(path) as stream:
            stream.write(self.page(title).encode())

    def _repr_html_(self) -> str:
        return (
            '<iframe style="width:100%;height:36rem;border:0" title="Sliders that move the'
            f' boundary" srcdoc="{html.escape(self.page())}"></iframe>'
        )

    def __repr__(self) -> str:
        lower, upper = interval(self.view.certificate.lower, self.view.certificate.upper)
        return (
            f"Explorer({type(self.model).__name__}: {settings(self.settings)}; optimum in [{lower},"
            f" {upper}])"
        )


def _estimator(model: Any) -> CertifiedClassifier:
    if model is None:
        return PSVMClassifier(kernel="rbf")
    if isinstance(model, str):
        parsed = parse_models(model)
        if len(parsed) != 1:
            raise DataError(f"model must name one model, got {len(parsed)} in {model!r}")
        model = parsed[0][1]
    if isinstance(model, type) or not isinstance(model, CertifiedClassifier):
        raise DataTypeError(
            "model must be an estimator of this package, such as sx.PSVMClassifier(), or its name,"
            f" got {model!r}"
        )
    copied: CertifiedClassifier = clone(model)
    return copied


def explore(
    X: Any,
    y: Any,
    model: Any = None,
    *,
    features: Any = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    test: Any = None,
    time_limit: float | None = 2.0,
    **settings: Any,
) -> Explorer:
    """Show how a model's boundary, interval and accuracy change with its hyper-parameters.

    The last expression of a notebook's cell is shown with sliders (Jupyter, VS Code, Colab), which
    need no running kernel: all combinations of values are solved first.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, d)
        Training data; of more than two features a plane is shown.
    y : array-like of shape (n,)
        Labels of two or more classes.
    model : estimator of this package, or str, optional
        Its parameters are where the sliders begin. A text as on the command line (``"odm"``,
        ``"psvm:p=2"``), or a ``PSVMClassifier`` with an RBF kernel, the default.
    features : pair of columns, or "principal", optional
        Names or numbers of two features, the others being at their means; or the plane of two
        principal components, the default for more than two features.
    values : mapping from names of parameters to sequences, optional
        The sliders and their values, at most a thousand combinations. By default two parameters:
        the weight of the losses from a hundredth of the model's value to a hundred times it, and
        one more.
    test : tuple of (X, y), optional
        Data that the accuracies are about; the training data by default.
    time_limit : float, optional
        Seconds of a fit, if the model has none; 2 by default, None for no limit.
    **settings
        Parameters of the model, as in ``p=2``.

    Returns
    -------
    Explorer
        With ``move(C=…)``, ``view``, ``guaranteed`` and ``save("page.html")``.

    Raises
    ------
    DataError
        If an argument cannot be used.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [3.0, 2.0], [4.0, 4.0]], ["a", "a", "b", "b"]
    >>> shown = sx.explore(X, y, "psvm", values={"C": [0.1, 1.0, 10.0]})
    >>> shown.move(C=10.0).certificate.is_certified(1e-6)
    True
    >>> shown.view.accuracy, str(shown.guaranteed[0])
    (1.0, '1')
    """
    model = _estimator(model)
    for name in settings:
        check_choice(name, "a parameter of the model", tuple(model.get_params()))
    how: dict[str, Any] = {"features": features, "values": values, "test": test}
    return Explorer(X, y, model.set_params(**settings), time_limit=time_limit, **how)
