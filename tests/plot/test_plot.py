import warnings
from dataclasses import replace
from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import svmcvx as sx
from svmcvx.plot import style
from tests.conftest import make_data

mpl.use("Agg")
import matplotlib.pyplot as plt

X, Y = make_data(n=40, d=2)
THREE = np.array(["a", "b", "c"])[np.arange(45) % 3]
POINTS = np.random.default_rng(0).standard_normal((45, 2))
POINTS += 1.5 * np.array([[0, 1], [1, -1], [-1, -1]])[np.arange(45) % 3]
SOLVED = sx.fast.psvm(X, Y, C=1.0, p=1.5, kernel="rbf")
LINEAR = sx.fast.psvm(X, Y, C=1.0, p=2)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def traced(*rows):
    return replace(SOLVED, trace=np.array(rows))


def test_a_machine_draws_itself():
    _, (left, right) = plt.subplots(1, 2)
    machine = sx.PSVMClassifier(p=1.5, kernel="rbf").fit(X, Y)
    assert machine.plot(X, Y, ax=left) is left
    assert left.get_title() == sx.plot.decision_regions(machine, X, Y).get_title()
    wide = np.column_stack([X, X[:, 0] ** 2])
    assert sx.PSVMClassifier().fit(wide, Y).plot(wide, Y, right) is right
    assert right.get_xlabel() == sx.plot.margin_distribution(machine, X, Y).get_xlabel()


# Regions


def test_decision_regions_draw_data_support_and_boundary():
    classifier = sx.PSVMClassifier(kernel="rbf").fit(X, Y)
    ax = sx.plot.decision_regions(classifier, X, Y, title="regions")
    assert legend(ax) == ["-1", "1", "support vectors", "boundary", "score ±1"]
    assert len(ax.collections[-1].get_offsets()) == classifier.support_.size
    assert ax.get_title() == "regions"
    # A rule that only scores has no classes of its own.
    rule = sx.synthetic.LinearRule(np.array([1.0, 1.0]), 0.0)
    assert legend(sx.plot.decision_regions(rule, X, Y))[:2] == ["-1", "1"]


def test_regions_of_several_classes():
    solution = sx.solve(sx.m3svm(POINTS, THREE, lam=0.1, p=4))
    ax = sx.plot.decision_regions(solution, POINTS, THREE)
    assert legend(ax)[:4] == ["a", "b", "c", "support vectors"]
    assert len(ax.collections[-1].get_offsets()) == solution.model.n_support
    # Boundaries drawn by the lead of a class: on them two scores are equal.
    lines = [path for collection in ax.collections[1:4] for path in collection.get_paths()]
    places = np.vstack([path.vertices for path in lines if len(path)])
    scores = np.sort(solution.model.decision_function(places))
    assert np.abs(scores[:, -1] - scores[:, -2]).max() < 0.1
    # Two classes with a score each.
    two = THREE != "c"
    fitted = sx.M3SVMClassifier(lam=0.1).fit(POINTS[two], THREE[two])
    assert legend(sx.plot.decision_regions(fitted, POINTS[two], THREE[two]))[:2] == ["a", "b"]


def test_features_are_named_by_the_table_the_estimator_or_the_user():
    table = pd.DataFrame((X - X.mean(axis=0)) / X.std(axis=0), columns=["length", "width"])
    classifier = sx.PSVMClassifier().fit(table, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = sx.plot.decision_regions(classifier, table, Y)
        assert (ax.get_xlabel(), ax.get_ylabel()) == (
            "length (standardised)",
            "width (standardised)",
        )
        warnings.simplefilter("ignore")  # scikit-learn's, of data without names
        ax = sx.plot.decision_regions(classifier, table.to_numpy(), Y)
    assert ax.get_xlabel() == "length (standardised)"
    assert sx.plot.decision_regions(LINEAR.model, X, Y).get_ylabel() == "feature 1"


def test_regions_are_titled_by_the_formulation_and_scaled_by_a_bar():
    ax = sx.plot.decision_regions(LINEAR, X, Y)
    assert ax.get_title() == "psvm: C=1, p=2, kernel=none"
    assert "score" in ax.figure.axes[1].get_ylabel()
    assert sx.plot.decision_regions(LINEAR, X, Y, title="").get_title() == ""


# Margins


def test_margin_distributions_are_cumulative():
    rows = sx.MulticlassModel(
        np.ones((2, 3)) * [1.0, 2.0, -1.0], np.zeros(3), np.arange(3), np.arange(40)
    )
    for model, labels in ((LINEAR.model, Y), (rows, np.arange(40) % 3)):
        margins, shares = sx.plot.margin_distribution({"it": model}, X, labels).lines[0].get_data()
        assert (np.diff(margins) >= 0).all()
        assert shares[-1] == 1.0
        assert np.mean(margins < 0) == pytest.approx(np.mean(model.predict(X) != labels))
    ax = sx.plot.margin_distribution({"p": LINEAR}, X, Y, scale="none", title="margins")
    exact = np.sort(Y * LINEAR.model.decision_function(X))
    np.testing.assert_allclose(ax.lines[0].get_xdata(), exact)
    assert ax.get_title() == "margins"


# Bounds over time


def test_gap_traces_show_the_best_so_far_and_the_certificate():
    ax = sx.plot.gap_trace({"pSMO": SOLVED, "conic": sx.PSVMClassifier().fit(X, Y)})
    assert ax.get_yscale() == "log"
    assert legend(ax) == ["pSMO", "conic"]
    *gaps, last = ax.lines[0].get_ydata()
    gaps = np.array(gaps)
    assert (np.diff(gaps[np.isfinite(gaps)]) <= 0).all()
    smallest = max(SOLVED.certificate.gap, np.finfo(float).eps)
    assert last == pytest.approx(smallest)
    assert ax.lines[0].get_markevery() == [-1]
    # Unknown bounds are left out.
    unknown = traced([0.1, np.nan, 5.0], [0.2, 1.0, np.nan], [0.3, 0.5, 4.0])
    ax = sx.plot.gap_trace({"a": unknown})
    ends = [np.nan, 4 / 5, 3 / 4, unknown.certificate.gap]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), ends)


def test_gaps_are_drawn_over_the_logarithm_of_time():
    long = traced([0.01, 1.0, 5.0], [3.0, 2.0, 4.0], [40.0, 3.0, 4.0])
    ax = sx.plot.gap_trace({"a": long})
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels() if text.get_text()]
    shown = [box for box in boxes if ax.bbox.x0 <= box.x1 and box.x0 <= ax.bbox.x1]
    assert len(shown) >= 2
    assert all(one.x1 < two.x0 for one, two in pairwise(sorted(shown, key=lambda box: box.x0)))
    short = traced([1.0, 1.0, 5.0], [2.0, 2.0, 4.0])
    assert sx.plot.gap_trace({"a": short}).get_xscale() == "linear"


# What all pictures share

REFUSED = {
    "three features": (lambda: sx.plot.decision_regions(LINEAR, np.c_[X, X], Y), "two features"),
    "other rows": (lambda: sx.plot.decision_regions(SOLVED, X[:2], Y[:2]), "pass the training"),
    "scale": (
        lambda: sx.plot.margin_distribution({"a": LINEAR}, X, Y, scale="mean"),
        "scale must be one of",
    ),
    "a model": (lambda: sx.plot.gap_trace({"model": LINEAR.model}), "solutions must map names to"),
    "a list": (lambda: sx.plot.gap_trace([SOLVED, SOLVED]), "must map names"),
    "nothing": (lambda: sx.plot.gap_trace({}), "it is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_named(case):
    draw, message = REFUSED[case]
    with pytest.raises(sx.DataError, match=message):
        draw()


PICTURES = {
    "regions": lambda **keywords: sx.plot.decision_regions(SOLVED, X, Y, **keywords),
    "gaps": lambda **keywords: sx.plot.gap_trace({"a": SOLVED, "b": SOLVED}, **keywords),
    "margins": lambda **keywords: sx.plot.margin_distribution(SOLVED, X, Y, **keywords),
}


@pytest.mark.parametrize("name", PICTURES)
def test_legends_stand_beside_what_is_drawn(name):
    # The width of a column in print.
    _, own = plt.subplots(figsize=(3.3, 2.6), layout="constrained")
    ax = PICTURES[name](ax=own)
    assert ax is own
    ax.figure.canvas.draw()
    place = ax.get_legend().get_window_extent()
    assert not place.overlaps(ax.get_window_extent())
    assert not place.overlaps(ax.xaxis.label.get_window_extent())
    low, _, high, _ = place.transformed(ax.figure.transFigure.inverted()).extents
    assert 0 <= low < high <= 1


def test_a_single_model_needs_no_mapping():
    fitted = sx.PSVMClassifier(p=1.5, solver="fast").fit(X, Y)
    for ax in (sx.plot.margin_distribution(fitted, X, Y), sx.plot.gap_trace(fitted)):
        assert legend(ax) == ["PSVMClassifier"]


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def linear(colour):
    values = np.array(mpl.colors.to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


# Linear RGB as seen without one of the three cones; Machado, Oliveira and Fernandes (2009),
# severity 1.
SEEN = {
    "all": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


def lab(rgb):
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_colours_read_on_white_and_black_and_stay_apart_for_all_readers():
    hues = style.class_colours(8)
    for hue in hues:
        assert 1.05 / (luminance(hue) + 0.05) >= 3
        assert (luminance(hue) + 0.05) / 0.05 >= 3
    for matrix in SEEN.values():
        seen = [lab(np.array(matrix) @ linear(hue)) for hue in hues]
        assert min(np.linalg.norm(one - two) for one, two in combinations(seen, 2)) >= 15


def test_lines_without_a_colour_of_their_own_take_that_of_the_style():
    with plt.style.context("dark_background"):
        ax = sx.plot.decision_regions(sx.fast.psvm(X, Y), X, Y)
        assert mpl.colors.same_color(style.ink(), "white")
        assert mpl.colors.same_color(style.paper(ax), "black")
        handle = ax.get_legend().legend_handles[-2]
        assert mpl.colors.same_color(handle.get_color(), "white")


def test_a_figure_without_a_layout_keeps_its_legend_inside():
    _, ax = plt.subplots()
    sx.plot.gap_trace({"a": SOLVED}, ax=ax)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().contains(*ax.get_legend().get_window_extent().p0)
