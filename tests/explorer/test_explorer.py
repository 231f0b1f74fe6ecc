"""Explorers: what they show is what a fit gives, and the page has the same in its JSON."""

import base64
import itertools
import json

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.explorer import GRID, STEPS, TALLEST, plane_of

rng = np.random.default_rng(5)
X = rng.normal(size=(40, 2))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.4 * rng.normal(size=40) > 0.3, "yes", "no")
THREE = np.array(["a", "b", "c"])[(X[:, 0] > 0.2).astype(int) + (X[:, 1] > 0.3)]
WIDE = np.column_stack([X, rng.normal(size=(40, 2))])


def data_of(page):
    start = page.index("const D = ") + len("const D = ")
    return json.JSONDecoder().raw_decode(page[start:])[0]


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


@pytest.mark.parametrize(
    ("rows", "labels", "model", "values"),
    [
        (X, Y, sx.PSVMClassifier(kernel="laplacian"), {"C": [0.1, 10.0], "p": [1.0, 2.0]}),
        (WIDE, Y, sx.ODMClassifier(), {"D": [0.0, 0.5]}),
        (X, THREE, sx.PSVMClassifier(), {"C": [1.0, 5.0]}),
        (X, THREE, sx.M3SVMClassifier(), {"p": [2.0, 4.0], "loss": ["hinge", "softmax"]}),
    ],
    ids=["kernel", "plane", "pairs", "classes"],
)
def test_a_page_shows_what_a_fit_gives(rows, labels, model, values):
    explorer = sx.explore(rows, labels, model, values=values)
    data = data_of(explorer.page())
    left, right, bottom, top = data["limits"]
    lines = np.meshgrid(np.linspace(left, right, GRID[0]), np.linspace(bottom, top, GRID[1]))
    grid = explorer.plane.points(np.stack([line.ravel() for line in lines], axis=1))
    settings = [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]
    assert len(data["answers"]) == len(settings)
    for setting, answer in zip(settings, data["answers"], strict=True):
        fitted = type(model)(**{**model.get_params(), **setting}).fit(rows, labels)
        scores = fitted.decision_function(grid)
        if scores.ndim == 2:
            best = np.sort(scores, axis=1)
            assert (numbers(answer["c"], np.uint8) == np.argmax(scores, axis=1)).mean() > 0.99
            scores = best[:, -1] - best[:, -2]
        shown = numbers(answer["f"], "<i2") / STEPS
        np.testing.assert_allclose(shown, np.clip(scores, -TALLEST, TALLEST), atol=2e-2)
        certificate = fitted.certificate_
        assert float(answer["lower"]) <= certificate.upper * (1 + 1e-5)
        assert float(answer["upper"]) >= certificate.lower * (1 - 1e-5)
        assert float(answer["accuracy"]) == pytest.approx(fitted.score(rows, labels), abs=1e-3)
        if answer["proved"]:
            assert answer["proved"] == str(fitted.guarantee(rows, labels).accuracy(rows, labels))
        else:
            assert data["reasons"][answer["reason"]]


def test_a_weight_that_is_the_number_of_rows_has_a_slider_around_it():
    explorer = sx.explore(X, Y, sx.ODMClassifier())
    assert explorer.settings == {"C1": len(X), "C2": len(X)}
    own = sx.ODMClassifier().fit(X, Y).solution_
    assert explorer.view.solution.hyperparameters == own.hyperparameters


def test_no_label_ends_the_script_of_a_page(tmp_path):
    label = "</script><b> <!--<script> ]]> \u2028"
    labels = np.where(Y == "yes", label, "no")
    explorer = sx.explore(X, labels, "psvm", values={"C": [0.1, 1.0]})
    explorer.save(tmp_path / "x.html", title=label)
    with pytest.raises(sx.DataError, match=r"cannot be written .*existing folder"):
        explorer.save(tmp_path / "no folder" / "x.html")
    text = (tmp_path / "x.html").read_text()
    assert [outside for outside in ("http", "import", "src=", "<!--") if outside in text] == []
    assert text.count("</script>") == text.count("<script>") == 1
    data = data_of(text)
    assert sorted(data["classes"]) == sorted([label, "no"])
    assert data["title"] == label
    shown = explorer._repr_html_()
    assert shown.startswith("<iframe")
    assert shown.count("<") == 2, "the page is escaped"


def test_sliders_begin_at_the_model_and_move_to_any_value():
    explorer = sx.explore(X[:30], Y[:30], sx.PSVMClassifier(C=3.0), test=(X[30:], Y[30:]))
    assert [(one.name, one.values[one.start]) for one in explorer.sliders] == [("C", 3.0), ("p", 1)]
    fitted = sx.PSVMClassifier(C=1.2345).fit(X[:30], Y[:30])
    view = explorer.move(C=1.2345)
    assert view is explorer.view
    assert view.accuracy == fitted.score(X[30:], Y[30:])
    assert explorer.guaranteed[0] == fitted.guarantee(X[:30], Y[:30]).accuracy(X[30:], Y[30:])
    assert "Explorer(PSVMClassifier: C=1.2345, p=1; optimum in [" in repr(explorer)
    assert [s.name for s in sx.explore(X, Y).sliders] == ["C", "gamma"]
    assert sx.explore(X, Y, "psvm", p=2.0, C=0.5).settings == {"C": 0.5, "p": 2.0}
    assert "search" in sx.explore(X[:20], Y[:20], "zero-one").guaranteed[1]
    for model in ("conic", "odm", "odml", "ramp", "l0", "m3svm", "multiclass"):
        sliders = sx.explore(X[:20], Y[:20], model).sliders
        assert 1 <= np.prod([len(slider.values) for slider in sliders]) <= 60


@pytest.mark.parametrize("features", [None, "principal", (2, 0)])
def test_a_plane_projects(features):
    plane = plane_of(WIDE, features, list("abcd"))
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(plane.axes @ plane.origin, 0.0, atol=1e-12)
    t = plane.coordinates(WIDE)
    np.testing.assert_allclose(plane.coordinates(plane.points(t)), t, atol=1e-12)
    # What is left of an observation is orthogonal to the plane.
    np.testing.assert_allclose((WIDE - plane.points(t)) @ plane.axes.T, 0.0, atol=1e-12)
    if features == (2, 0):
        np.testing.assert_allclose(t, WIDE[:, [2, 0]], atol=1e-12)
        assert plane.names == ("c", "a")


WRONG = {
    "a class": ({"model": sx.PSVMClassifier}, "model must be an estimator"),
    "two models": ({"model": "psvm,odm"}, "must name one model"),
    "an unknown name": ({"model": "psvn"}, "did you mean 'psvm'"),
    "no such feature": ({"features": (0, 9)}, "columns 0 to 1"),
    "an unknown plane": ({"features": "pca"}, "principal"),
    "no such parameter": ({"values": {"c": [1.0]}}, "did you mean 'C'"),
    "a number for values": ({"values": {"C": 1.0}}, "must be a sequence"),
    "no slider": ({"values": {}}, "no parameter"),
    "nan among values": ({"values": {"C": [1.0, np.nan]}}, "finite numbers"),
    "too many": ({"values": {"C": range(1, 41), "p": range(1, 41)}}, "at most 1000"),
    "no pair for a test": ({"test": X}, "pair"),
    "a new label": ({"test": (X[:1], ["maybe"])}, "'maybe'"),
    "no time": ({"time_limit": -1}, "time_limit"),
    "no such setting": ({"q": 2}, "a parameter of the model must be one of .* got 'q'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(case):
    arguments, message = WRONG[case]
    with pytest.raises(sx.SvmcvxError, match=message):
        sx.explore(X, Y, **arguments)


def test_a_single_feature_and_a_wrong_slider_are_refused():
    with pytest.raises(sx.DataError, match="1 feature"):
        sx.explore(X[:, :1], Y)
    with pytest.raises(sx.DataError, match=r"a slider must be one of 'C', .*got 'c'"):
        sx.explore(X, Y).move(c=1.0)
