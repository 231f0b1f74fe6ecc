"""Explorers: what they show is what a fit from nothing gives, and a page computes the same from its
JSON.
"""

import asyncio
import io
import json
import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import svmcvx as sx
from svmcvx.explorer import rest
from svmcvx.explorer.page import page_data
from svmcvx.explorer.plane import plane_of

rng = np.random.default_rng(5)
X = rng.normal(size=(40, 2))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.4 * rng.normal(size=40) > 0.3, "yes", "no")
WIDE = np.column_stack([X, rng.normal(size=(40, 2)) + X]) + np.array([1.0, -2.0, 3.0, 0.5])
THREE = np.digitize(X[:, 0] + 0.3 * rng.normal(size=40), [-0.5, 0.5])

CASES = {
    "rbf": (
        X,
        Y,
        sx.PSVMClassifier(kernel="rbf", p=1.5),
        None,
        {"C": [0.3, 3.0], "gamma": [0.2, 1.0]},
    ),
    "kernels": (
        X,
        Y,
        sx.PSVMClassifier(coef0=1.0),
        None,
        {"kernel": ["linear", "poly", "exponential"], "gamma": [0.5]},
    ),
    "poly in a plane": (
        WIDE,
        Y,
        sx.PSVMClassifier(kernel="poly", degree=2, p=2.0),
        "principal",
        {"C": [0.01, 0.1]},
    ),
    "rbf in a plane": (WIDE, Y, sx.ODMClassifier(kernel="rbf"), "principal", {"C1": [1.0, 10.0]}),
    "two of four": (WIDE, Y, sx.ODMClassifier(), (3, 0), {"C1": [1.0, 10.0], "D": [0.0, 0.4]}),
    "a constant in the kernel": (
        X,
        Y,
        sx.ConicSVMClassifier(kernel="rbf"),
        None,
        {"lam": [0.5, 2.0]},
    ),
    "three classes": (WIDE, THREE, sx.MulticlassSVMClassifier(), "principal", {"lam": [0.1, 1.0]}),
    "two classes at once": (X, Y, sx.M3SVMClassifier(), None, {"lam": [0.1, 1.0], "p": [2.0]}),
}


def scores_of_page(data, answer, t):
    """The scores of a page's model at coordinates of its plane, from the formulas of the kernels."""
    if "w" in answer:
        found = np.column_stack([t @ np.array(w[:2]) + w[2] for w in answer["w"]])
        return found[:, 0] if found.shape[1] == 1 else found
    kernel = data["kernels"][answer["k"]]
    u = np.array([point[:2] for point in data["points"]])[answer["s"]]
    away, origin = np.array(data["extra"] or np.zeros((len(data["points"]), 2)))[answer["s"]].T
    square = away + ((t[:, None, :] - u) ** 2).sum(axis=2)
    if kernel["name"] == "poly":
        K = (kernel["gamma"] * (origin + t @ u.T) + kernel["c"]) ** kernel["degree"]
    else:
        K = np.exp(-kernel["gamma"] * (square if kernel["name"] == "rbf" else np.sqrt(square)))
    return K @ np.array(answer["v"]) + answer["b"]


@pytest.mark.parametrize("case", CASES)
def test_a_page_computes_the_scores_of_a_fit_from_nothing(case):
    rows, y, model, features, values = CASES[case]
    explorer = sx.explore(rows, y, model, features=features)
    data = json.loads(json.dumps(page_data(explorer, values), allow_nan=False))
    left, right, bottom, top = data["limits"]
    t = np.random.default_rng(0).uniform([left, bottom], [right, top], size=(50, 2))
    names = list(explorer.model.get_params())
    # Sliders in the order of the page, the last one innermost.
    shown = {"λ": "lam", "γ": "gamma", "C₁": "C1"}
    order = [shown.get(slider["name"], slider["name"]) for slider in data["sliders"]]
    assert set(order) == set(values) <= set(names)
    combinations = np.stack(
        np.meshgrid(*[np.arange(len(values[name])) for name in order], indexing="ij"), -1
    )
    combinations = combinations.reshape(-1, len(order))
    assert len(combinations) == len(data["answers"])
    for chosen, answer in zip(combinations, data["answers"], strict=True):
        settings = {name: values[name][k] for name, k in zip(order, chosen, strict=True)}
        if settings.get("kernel") == "linear":
            settings["kernel"] = None
        cold = type(model)(**{**model.get_params(), **settings}).fit(rows, y)
        expected = cold.decision_function(explorer.plane.points(t))
        found = scores_of_page(data, answer, t)
        if expected.ndim == 2:  # scores of classes have a common constant
            expected, found = expected - expected[:, :1], found - found[:, :1]
        np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())
        optimum = cold.certificate_
        assert float(answer["lower"]) <= optimum.upper * (1 + 1e-5)
        assert float(answer["upper"]) >= optimum.lower * (1 - 1e-5)
        assert ("proved" in answer) != ("reason" in answer)
        if "proved" in answer:
            assert answer["proved"] == str(cold.guarantee(rows, y).accuracy(rows, y))


def test_a_page_needs_nothing_but_itself(tmp_path):
    labels = np.where(Y == "yes", "</script><b>", "no")
    explorer = sx.explore(X, labels, "psvm", values={"C": [0.1, 1.0], "p": [1.0, 2.0]})
    explorer.save(tmp_path / "x.html", title="A & B")
    text = (tmp_path / "x.html").read_text()
    assert "http" not in text
    assert "import" not in text
    assert text.count("</script>") == 1
    assert "src=" not in text
    start = text.index("const D = ") + len("const D = ")
    data, _ = json.JSONDecoder().raw_decode(text[start:])
    assert data["classes"] == ["</script><b>", "no"]
    assert len(data["answers"]) == 4
    assert [(slider["name"], slider["start"]) for slider in data["sliders"]][:2] == [
        ("C", 1),
        ("p", 0),
    ]


def test_a_page_refuses_what_it_cannot_show(tmp_path):
    path = tmp_path / "x.html"
    with pytest.raises(sx.DataError, match="at most 1000"):
        sx.explore(X, Y).save(path, values={"C": np.linspace(1, 2, 40), "p": np.linspace(1, 2, 40)})
    with pytest.raises(sx.DataError, match="use two classes"):
        sx.explore(X, THREE, "psvm").save(path, values={"C": [1.0]})
    with pytest.raises(sx.DataError, match="cannot evaluate"):
        sx.explore(X, Y, sx.PSVMClassifier(kernel="laplacian")).save(path, values={"C": [1.0]})
    assert not path.exists()


def test_a_model_is_evaluated_once(monkeypatch):
    explorer = sx.explore(X, Y)
    calls = {"fit": 0, "grid": 0}
    fit, score = sx.PSVMClassifier._fit, sx.PSVMClassifier.decision_function

    def counted_fit(self, *arguments):
        calls["fit"] += 1
        return fit(self, *arguments)

    def counted_score(self, rows):
        calls["grid"] += len(rows) == 96 * 72
        return score(self, rows)

    monkeypatch.setattr(sx.PSVMClassifier, "_fit", counted_fit)
    monkeypatch.setattr(sx.PSVMClassifier, "decision_function", counted_score)
    explorer.move(C=10.0)
    explorer.picture.update()
    explorer.guaranteed  # noqa: B018
    assert calls == {"fit": 1, "grid": 1}
    explorer.move(C=1.0)
    explorer.move(C=10.0)
    explorer.picture.update()
    assert calls == {"fit": 2, "grid": 2}
    assert explorer.view.solution.warm_start_used or explorer.move(C=1.0).solution.warm_start_used


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


@pytest.mark.parametrize("labels", [Y, THREE], ids=["two", "three"])
def test_a_picture_is_updated_and_not_drawn_anew(labels, monkeypatch):
    drawn = []
    whole = FigureCanvasAgg.draw
    monkeypatch.setattr(FigureCanvasAgg, "draw", lambda self: (drawn.append(1), whole(self))[1])
    explorer = sx.explore(X, labels, "psvm" if labels is Y else "multiclass")
    weight = explorer.sliders[0]
    first = pixels(explorer.picture.update())
    explorer.move(**{weight.name: weight.values[-1 if labels is Y else 0]})
    second = pixels(explorer.picture.update())
    assert len(drawn) == 1
    assert (first != second).any()
    explorer.move(**{weight.name: weight.values[weight.start]})
    assert (pixels(explorer.picture.update()) == first).all()
    # The region under each corner of the grid has the colour of its class.
    columns, rows = explorer.picture._columns, explorer.picture._rows
    left_below = first[rows.stop - 4, columns.start + 4]
    code = explorer.view.predicted[0, 0]
    own = 255 * np.asarray(explorer.picture._colours[code])
    assert np.abs(left_below - own).sum() < np.abs(255 - own).sum()


def test_the_widget_follows_its_sliders():
    explorer = sx.explore(
        X, Y, sx.PSVMClassifier(kernel="rbf"), values={"C": [0.1, 1.0, 10.0], "p": []}
    )
    *controls, image, text = explorer.widget.children
    named = {control.description: control for control in controls}
    assert list(named) == ["C", "kernel", "γ"]
    before, words = image.value, text.value
    named["C"].value = 10.0
    assert explorer.settings["C"] == 10.0
    assert image.value != before
    assert text.value != words
    exact = sx.guarantee(explorer.view.solution, X, Y).accuracy(X, Y)
    assert str(exact) in text.value
    assert not named["γ"].disabled
    named["kernel"].value = "linear"
    assert named["γ"].disabled
    cold = sx.PSVMClassifier(C=10.0).fit(X, Y)
    assert explorer.view.certificate.upper == pytest.approx(cold.certificate_.upper, rel=1e-5)


def test_what_takes_longer_waits_until_the_sliders_rest(monkeypatch):
    monkeypatch.setattr(rest, "REST", 0.0)
    explorer = sx.explore(
        X, Y, sx.PSVMClassifier(kernel="rbf"), values={"C": [0.1, 1.0, 10.0], "p": [], "gamma": []}
    )
    weights, text = explorer.widget.children[0], explorer.widget.children[-1]
    explorer._guaranteed.clear()

    async def moved():
        for value in (0.1, 10.0, 0.1, 10.0):
            weights.value = value
            assert "…" in text.value
        while (
            "…" in text.value
            or len([v for v in explorer._views.values() if v.settings["C"] == 10.0]) < 3
        ):
            await asyncio.sleep(0)

    asyncio.run(moved())
    # Of the values that were passed over there is no guaranteed accuracy, and there are no other
    # kernels.
    assert len(explorer._guaranteed) == 1
    assert [v.settings["kernel"] for v in explorer._views.values() if v.settings["C"] == 0.1] == [
        "rbf"
    ]
    kept = explorer.view.solution
    explorer.move(kernel="linear")
    assert explorer.move(kernel="rbf").solution is kept


def test_accuracies_are_of_the_test_rows():
    explorer = sx.explore(X[:30], Y[:30], "psvm", test=(X[30:], Y[30:]))
    fitted = sx.PSVMClassifier().fit(X[:30], Y[:30])
    assert explorer.view.accuracy == fitted.score(X[30:], Y[30:])
    assert explorer.guaranteed[0] == fitted.guarantee(X[:30], Y[:30]).accuracy(X[30:], Y[30:])
    assert "Explorer(PSVMClassifier: C=1, p=1" in repr(explorer)


def test_where_nothing_is_proved_the_reason_is_given():
    explorer = sx.explore(X[:20], Y[:20], sx.ZeroOneSVMClassifier(time_limit=5))
    assert explorer.guaranteed[0] is None
    assert "not convex" in explorer.guaranteed[1]
    assert "no guarantees of conic" in sx.explore(X, Y, "conic").guaranteed[1]


@pytest.mark.parametrize("features", [None, "principal", (2, 0)])
def test_a_plane_projects(features):
    plane = plane_of(WIDE, features, list("abcd"))
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(plane.axes @ plane.origin, 0.0, atol=1e-12)
    t = plane.coordinates(WIDE)
    np.testing.assert_allclose(plane.coordinates(plane.points(t)), t, atol=1e-12)
    # What is left of an observation is orthogonal to the plane.
    np.testing.assert_allclose((WIDE - plane.points(t)) @ plane.axes.T, 0.0, atol=1e-12)
    left, right, bottom, top = plane.limits(WIDE)
    assert np.all((t > [left, bottom]) & (t < [right, top]))
    if features == (2, 0):
        np.testing.assert_allclose(t, WIDE[:, [2, 0]], atol=1e-12)
        assert plane.names == ("c", "a")


WRONG = {
    "no model": ({"model": 3}, "model must be an estimator"),
    "a class": ({"model": sx.PSVMClassifier}, "model must be an estimator"),
    "two models": ({"model": "psvm,odm"}, "must name one model"),
    "an unknown name": ({"model": "psvn"}, "did you mean 'psvm'"),
    "no such feature": ({"features": (0, 9)}, "columns 0 to 1"),
    "a feature twice": ({"features": (1, 1)}, "two different columns"),
    "an unknown plane": ({"features": "pca"}, "principal"),
    "three features": ({"features": (0, 1, 1)}, "pair of columns"),
    "no such parameter": ({"values": {"c": [1.0]}}, "did you mean 'C'"),
    "a number for values": ({"values": {"C": 1.0}}, "must be a sequence"),
    "nan among values": ({"values": {"C": [1.0, np.nan]}}, "finite numbers"),
    "nothing to vary": (
        {"model": "ramp", "values": {"C": [], "kernel": [], "gamma": []}},
        "no parameter",
    ),
    "no pair for a test": ({"test": X}, "pair"),
    "too few labels": ({"test": (X, Y[:3])}, "one label for each"),
    "a new label": ({"test": (X[:1], ["maybe"])}, "'maybe'"),
    "no time": ({"time_limit": -1}, "time_limit"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(case):
    arguments, message = WRONG[case]
    with pytest.raises(sx.SvmcvxError, match=message):
        sx.explore(X, Y, **arguments)


def test_a_single_feature_and_a_wrong_slider_are_refused():
    with pytest.raises(sx.DataError, match="1 feature"):
        sx.explore(X[:, :1], Y)
    explorer = sx.explore(X, Y)
    with pytest.raises(sx.DataError, match="no slider 'c'"):
        explorer.move(c=1.0)
    with pytest.raises(sx.DataError, match=r"the nearest is 1.26.*values={'C': "):
        explorer.move(C=1.2345)
    assert explorer.move(C=1.26).settings["C"] == pytest.approx(1.2589254)


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(sx.SolverUnavailable, match=r"svmcvx\[explore\]"):
        sx.explore(X, Y).widget  # noqa: B018
