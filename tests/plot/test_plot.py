import warnings
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


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_decision_regions_draw_data_support_and_boundary():
    classifier = sx.PSVMClassifier(kernel="rbf").fit(X, Y)
    ax = sx.plot.decision_regions(classifier, X, Y, title="regions")
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["-1", "1", "support vectors", "boundary", "score ±1"]
    ringed = ax.collections[-1].get_offsets()
    assert len(ringed) == classifier.support_.size
    assert ax.get_title() == "regions"


def test_axes_are_taken_and_returned():
    _, own = plt.subplots()
    model = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2)).model
    assert sx.plot.decision_regions(model, X, Y, ax=own) is own
    assert sx.plot.margin_distribution({"a": model}, X, Y, ax=own) is own


def test_margin_distributions_are_cumulative():
    model = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2)).model
    ax = sx.plot.margin_distribution({"p = 2": model}, X, Y)
    margins, shares = ax.lines[0].get_data()
    assert (np.diff(margins) >= 0).all()
    assert shares[-1] == 1.0
    wrong = np.mean(model.predict(X) != Y)
    assert np.mean(margins < 0) == pytest.approx(wrong)


def test_margins_of_several_classes():
    codes = np.arange(40) % 3
    model = sx.MulticlassModel(
        np.ones((2, 3)) * [1.0, 2.0, -1.0], np.zeros(3), np.arange(3), np.arange(40)
    )
    ax = sx.plot.margin_distribution({"three": model}, X, codes)
    margins, _ = ax.lines[0].get_data()
    assert np.mean(margins < 0) == pytest.approx(np.mean(model.predict(X) != codes))


def test_regions_need_two_features():
    model = sx.solve(sx.psvm_dual(np.c_[X, X], Y, C=1.0, p=2)).model
    with pytest.raises(sx.DataError, match="two features"):
        sx.plot.decision_regions(model, np.c_[X, X], Y)


def three_classes():
    rng = np.random.default_rng(0)
    y = np.arange(45) % 3
    return rng.standard_normal((45, 2)) + 1.5 * np.array([[0, 1], [1, -1], [-1, -1]])[y], np.array(
        ["a", "b", "c"]
    )[y]


def test_regions_of_several_classes():
    points, y = three_classes()
    solution = sx.solve(sx.m3svm(points, y, lam=0.1, p=4))
    ax = sx.plot.decision_regions(solution, points, y)
    assert [text.get_text() for text in ax.get_legend().get_texts()][:4] == [
        "a",
        "b",
        "c",
        "support vectors",
    ]
    assert len(ax.collections[-1].get_offsets()) == solution.model.n_support
    # Boundaries drawn by the lead of a class: on them two scores are equal.
    lines = [path for collection in ax.collections[1:4] for path in collection.get_paths()]
    scores = np.sort(
        solution.model.decision_function(np.vstack([path.vertices for path in lines if len(path)]))
    )
    assert np.abs(scores[:, -1] - scores[:, -2]).max() < 0.1


def test_two_classes_with_a_score_each_are_drawn():
    points, y = three_classes()
    keep = y != "c"
    ax = sx.plot.decision_regions(
        sx.M3SVMClassifier(lam=0.1).fit(points[keep], y[keep]), points[keep], y[keep]
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["a", "b"]


def test_regions_need_the_training_data():
    model = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2)).model
    with pytest.raises(sx.DataError, match="pass the training data"):
        sx.plot.decision_regions(model, X[:5], Y[:5])


def test_a_rule_that_only_scores_is_drawn():
    rule = sx.synthetic.LinearRule(np.array([1.0, 1.0]), 0.0)
    ax = sx.plot.decision_regions(rule, X, Y)
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["-1", "1"]


def test_margins_are_drawn_as_they_are_on_request():
    solution = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2))
    ax = sx.plot.margin_distribution({"p = 2": solution}, X, Y, scale="none", title="margins")
    np.testing.assert_allclose(
        ax.lines[0].get_xdata(), np.sort(Y * solution.model.decision_function(X))
    )
    assert ax.get_title() == "margins"
    with pytest.raises(sx.DataError, match="scale must be one of"):
        sx.plot.margin_distribution({"p = 2": solution}, X, Y, scale="mean")


def test_gap_traces_show_the_best_so_far_and_the_certificate():
    solution = sx.fast.psvm(X, Y, C=1.0, p=1.5, kernel="rbf")
    conic = sx.PSVMClassifier().fit(X, Y)
    ax = sx.plot.gap_trace({"pSMO": solution, "conic": conic})
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["pSMO", "conic"]
    gaps = ax.lines[0].get_ydata()
    assert (np.diff(gaps[np.isfinite(gaps)]) <= 0).all()
    assert ax.lines[1].get_ydata()[0] == pytest.approx(
        max(solution.certificate.gap, np.finfo(float).eps)
    )


def test_a_band_holds_the_optimum():
    solution = sx.fast.psvm(X, Y, C=1.0, p=1.5, kernel="rbf")
    ax = sx.plot.gap_trace({"pSMO": solution}, show="interval")
    upper, lower = (line.get_ydata() for line in ax.lines[:2])
    certificate = solution.certificate
    assert np.nanmin(upper) >= certificate.lower * (1 - 1e-9)
    assert np.nanmax(lower) <= certificate.upper * (1 + 1e-9)
    low, high = ax.get_ylim()
    assert low < certificate.lower <= certificate.upper < high


def test_unknown_lower_bounds_are_left_out():
    solution = sx.fast.psvm(X, Y, C=1.0, p=1.5, kernel="rbf")
    fields = {name: getattr(solution, name) for name in solution.__dataclass_fields__}
    unknown = sx.Solution(
        **{**fields, "trace": np.array([[0.1, np.nan, 5.0], [0.2, 1.0, np.nan], [0.3, 0.5, 4.0]])}
    )
    ax = sx.plot.gap_trace({"a": unknown})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [np.nan, 4 / 5, 3 / 4])


def test_gap_traces_are_of_solutions():
    with pytest.raises(sx.DataError, match="solutions must map names to Solutions"):
        sx.plot.gap_trace({"model": sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2)).model})
    with pytest.raises(sx.DataError, match="it is empty"):
        sx.plot.gap_trace({})


def test_tables_are_drawn_against_the_exponent():
    exponents = [1.0, 1.5, 2.0]
    table = sx.compare({f"p = {p}": sx.PSVMClassifier(p=p) for p in exponents}, X, Y)
    ax = sx.plot.against_exponent(table, p=exponents)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), table["accuracy"])
    np.testing.assert_allclose(ax.figure.axes[1].lines[0].get_ydata(), table["n_support"])
    scores = pd.DataFrame({"param_p": [2, 1], "mean_test_score": [0.9, 0.8]})
    ax = sx.plot.against_exponent(scores)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.8, 0.9])
    assert len(ax.figure.axes) == 1


def test_what_is_missing_for_the_exponents_is_named():
    table = pd.DataFrame({"accuracy": [1.0]})
    for arguments, words in (
        ({"table": [1.0]}, "must be a data frame"),
        ({"table": table, "p": [1, 2]}, "one exponent per row: 1 rows, 2 given"),
        ({"table": table, "p": ["x"]}, "p must be numbers"),
        ({"table": pd.DataFrame({"p": [1.0]})}, "no column of accuracies"),
        ({"table": table}, "no column p or param_p"),
    ):
        with pytest.raises(sx.DataError, match=words):
            sx.plot.against_exponent(**arguments)


def test_pairwise_margins_frame_the_smallest():
    points, y = three_classes()
    solution = sx.solve(sx.m3svm(points, y, lam=0.1, p=4))
    table = sx.theory.pairwise_margins(solution)
    ax = sx.plot.pairwise_margins(solution, title="margins")
    np.testing.assert_allclose(ax.images[0].get_array().filled(np.nan), table)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    written = [text.get_text() for text in ax.texts]
    assert len({len(text.partition(".")[2]) for text in written}) == 1, "even decimals"
    np.testing.assert_allclose(
        sorted(map(float, written)), np.sort(table[~np.eye(3, dtype=bool)]), rtol=0.05
    )
    framed = {
        (round(line.get_ydata().mean() - 0.1), round(line.get_xdata().mean() - 0.1))
        for line in ax.lines
    }
    assert framed == {tuple(place) for place in np.argwhere(table == np.nanmin(table))}


def test_equal_classes_have_no_finite_margin_to_draw():
    equal = sx.MulticlassModel(np.ones((2, 3)), np.zeros(3), np.arange(3), np.arange(2))
    ax = sx.plot.pairwise_margins(equal, names=["x", "y", "z"])
    assert {text.get_text() for text in ax.texts} == {"inf"}
    assert not ax.lines
    ax.figure.canvas.draw()


def test_losses_are_those_of_the_package():
    ax = sx.plot.losses(gamma=[2.0])
    drawn = {line.get_label(): line for line in ax.lines}
    u = drawn["conic, γ = 2"].get_xdata()
    np.testing.assert_allclose(drawn["conic, γ = 2"].get_ydata(), sx.losses.conic_loss(u, 2.0, 1.0))
    np.testing.assert_allclose(drawn["hinge"].get_ydata(), sx.losses.slack(u))
    assert {"ramp", "ψ", "normalised sigmoid", "rescaled hinge", "0-1"} <= drawn.keys()


def test_a_single_model_needs_no_mapping():
    fitted = sx.PSVMClassifier(p=1.5, solver="fast").fit(X, Y)
    for ax in (sx.plot.margin_distribution(fitted, X, Y), sx.plot.gap_trace(fitted)):
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["PSVMClassifier"]
    with pytest.raises(sx.DataError, match="must map names"):
        sx.plot.gap_trace([fitted, fitted])
    assert len(sx.plot.losses(0.5).lines) == len(sx.plot.losses([0.5]).lines)


def test_regions_of_an_estimator_that_knows_its_columns():
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sx.plot.decision_regions(sx.PSVMClassifier(kernel="rbf").fit(table, Y), table, Y)


def test_features_are_named_by_the_table_the_estimator_or_the_user():
    table = pd.DataFrame((X - X.mean(axis=0)) / X.std(axis=0), columns=["length", "width"])
    classifier = sx.PSVMClassifier().fit(table, Y)
    ax = sx.plot.decision_regions(classifier, table, Y)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length (standardised)", "width (standardised)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of data without names
        assert (
            sx.plot.decision_regions(classifier, table.to_numpy(), Y).get_xlabel()
            == "length (standardised)"
        )
    model = sx.fast.psvm(X, Y).model
    assert sx.plot.decision_regions(model, X, Y).get_ylabel() == "feature 1"
    assert sx.plot.decision_regions(model, X, Y, feature_names=["u", "v"]).get_ylabel() == "v"
    with pytest.raises(sx.DataError, match="sequence of two strings"):
        sx.plot.decision_regions(model, X, Y, feature_names="ab")


def test_regions_are_titled_by_the_formulation_and_scaled_by_a_bar():
    solution = sx.fast.psvm(X, Y, p=1.5)
    ax = sx.plot.decision_regions(solution, X, Y)
    assert ax.get_title() == "psvm: C=1, p=1.5, kernel=none"
    assert "score" in ax.figure.axes[1].get_ylabel()
    assert sx.plot.decision_regions(solution, X, Y, title="").get_title() == ""


def overlaps(ax):
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    return legend.overlaps(ax.get_window_extent()) or legend.overlaps(
        ax.xaxis.label.get_window_extent()
    )


def test_legends_stand_beside_what_is_drawn():
    # The width of a column in print.
    table = pd.DataFrame({"p": [1.0, 2.0], "accuracy": [0.8, 0.9], "n_support": [9, 7]})
    solution = sx.fast.psvm(X, Y, C=1.0, p=1.5, kernel="rbf")
    for draw in (
        lambda ax: sx.plot.decision_regions(solution, X, Y, ax=ax),
        lambda ax: sx.plot.gap_trace({"a": solution, "b": solution}, ax=ax),
        lambda ax: sx.plot.losses(ax=ax),
        lambda ax: sx.plot.margin_distribution({"a": solution}, X, Y, ax=ax),
        lambda ax: sx.plot.against_exponent(table, ax=ax),
    ):
        _, ax = plt.subplots(figsize=(3.3, 2.6), layout="constrained")
        assert not overlaps(draw(ax))
        low, _, high, _ = (
            ax.get_legend()
            .get_window_extent()
            .transformed(ax.figure.transFigure.inverted())
            .extents
        )
        assert low >= 0
        assert high <= 1


def test_gaps_are_drawn_over_the_logarithm_of_time():
    solution = sx.fast.psvm(X, Y, C=1.0, p=1.5, kernel="rbf")
    fields = {name: getattr(solution, name) for name in solution.__dataclass_fields__}
    long = sx.Solution(
        **{**fields, "trace": np.array([[0.01, 1.0, 5.0], [3.0, 2.0, 4.0], [40.0, 3.0, 4.0]])}
    )
    ax = sx.plot.gap_trace({"a": long})
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels() if text.get_text()]
    boxes = sorted(
        (box for box in boxes if ax.bbox.x0 <= box.x1 and box.x0 <= ax.bbox.x1),
        key=lambda box: box.x0,
    )
    assert len(boxes) >= 2
    assert all(one.x1 < two.x0 for one, two in pairwise(boxes))
    short = sx.Solution(**{**fields, "trace": np.array([[1.0, 1.0, 5.0], [2.0, 2.0, 4.0]])})
    assert sx.plot.gap_trace({"a": short}).get_xscale() == "linear"


def test_a_search_over_two_parameters_is_drawn_by_its_best_or_by_lines():
    table = pd.DataFrame(
        {
            "param_C": [1.0, 1.0, 10.0, 10.0],
            "param_p": [1.0, 2.0, 1.0, 2.0],
            "mean_test_score": [0.7, 0.9, 0.8, 0.6],
            "n_support": [7.0, 9.0, 8.0, 6.0],
        }
    )
    ax = sx.plot.against_exponent(table)
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 0.8], [2, 0.9]])
    np.testing.assert_array_equal(ax.figure.axes[1].lines[0].get_ydata(), [8, 9])
    assert "the best of each p" in ax.get_ylabel()
    ax = sx.plot.against_exponent(table, by="C")
    assert [line.get_label() for line in ax.lines] == ["C = 1", "C = 10"]
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[1, 0.8], [2, 0.6]])
    with pytest.raises(sx.DataError, match="by must be a column"):
        sx.plot.against_exponent(table, by="gamma")


def test_a_comparison_knows_the_exponents_of_its_psvms():
    table = sx.compare([sx.PSVMClassifier(), sx.ODMClassifier(), sx.PSVMClassifier(p=2.0)], X, Y)
    ax = sx.plot.against_exponent(table)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 2])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["accuracy"].iloc[[0, 2]])


def test_the_zero_one_loss_drops_at_one():
    line = next(line for line in sx.plot.losses().lines if line.get_label() == "0-1")
    u, loss = line.get_data()
    assert np.isfinite(loss).all()
    before = u < 1
    assert (loss[before] == 1).all()
    assert (loss[~before] == 0).all()


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
    sx.plot.losses(ax=ax)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().contains(*ax.get_legend().get_window_extent().p0)
