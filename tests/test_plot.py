import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import svmcvx as sx

from .conftest import make_data

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
    assert legend == ["-1", "1", "support vectors"]
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
    model = sx.MulticlassModel(np.ones((2, 3)) * [1.0, 2.0, -1.0], np.zeros(3), np.arange(3), np.arange(40))
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
    return rng.standard_normal((45, 2)) + 1.5 * np.array([[0, 1], [1, -1], [-1, -1]])[y], np.array(["a", "b", "c"])[y]


def test_regions_of_several_classes():
    points, y = three_classes()
    solution = sx.solve(sx.m3svm(points, y, lam=0.1, p=4))
    ax = sx.plot.decision_regions(solution, points, y)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c", "support vectors"]
    assert len(ax.collections[-1].get_offsets()) == solution.model.n_support
    # Boundaries drawn by the lead of a class: on them two scores are equal.
    lines = [path for collection in ax.collections[1:4] for path in collection.get_paths()]
    scores = np.sort(solution.model.decision_function(np.vstack([path.vertices for path in lines if len(path)])))
    assert np.abs(scores[:, -1] - scores[:, -2]).max() < 0.1


def test_two_classes_with_a_score_each_are_drawn():
    points, y = three_classes()
    keep = y != "c"
    ax = sx.plot.decision_regions(sx.M3SVMClassifier(lam=0.1).fit(points[keep], y[keep]), points[keep], y[keep])
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["a", "b"]


def test_regions_need_the_training_data():
    model = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2)).model
    with pytest.raises(sx.DataError, match="pass the training data"):
        sx.plot.decision_regions(model, X[:5], Y[:5])


def test_a_rule_that_only_scores_is_drawn():
    rule = sx.synthetic.LinearRule(np.array([1.0, 1.0]), 0.0)
    ax = sx.plot.decision_regions(rule, X, Y)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["-1", "1"]


def test_margins_are_drawn_as_they_are_on_request():
    solution = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2))
    ax = sx.plot.margin_distribution({"p = 2": solution}, X, Y, scale="none", title="margins")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), np.sort(Y * solution.model.decision_function(X)))
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
    assert ax.lines[1].get_ydata()[0] == pytest.approx(max(solution.certificate.gap, np.finfo(float).eps))


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
    unknown = sx.Solution(**{**fields, "trace": np.array([[0.1, np.nan, 5.0], [0.2, 1.0, np.nan], [0.3, 0.5, 4.0]])})
    ax = sx.plot.gap_trace({"a": unknown})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [np.nan, 4 / 5, 3 / 4])


def test_gap_traces_are_of_solutions():
    with pytest.raises(sx.DataError, match="solutions must map names to Solutions"):
        sx.plot.gap_trace({"model": sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2)).model})
    with pytest.raises(sx.DataError, match="it is empty"):
        sx.plot.gap_trace({})


def test_accuracy_and_support_against_the_exponent():
    exponents = [2.0, 1.0, 4.0]
    models = [sx.PSVMClassifier(p=p).fit(X, Y) for p in exponents]
    ax = sx.plot.against_exponent(models, X, Y)
    accuracy, support = ax.lines[0], ax.figure.axes[1].lines[0]
    np.testing.assert_array_equal(accuracy.get_xdata(), [1, 2, 4])
    np.testing.assert_allclose(accuracy.get_ydata(), [models[k].score(X, Y) for k in (1, 0, 2)])
    np.testing.assert_array_equal(support.get_ydata(), [models[k].solution_.model.n_support for k in (1, 0, 2)])


def test_tables_are_drawn_against_the_exponent():
    exponents = [1.0, 1.5, 2.0]
    table = sx.compare({f"p = {p}": sx.PSVMClassifier(p=p) for p in exponents}, X, Y)
    ax = sx.plot.against_exponent(table, p=exponents)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), table["test_accuracy"])
    np.testing.assert_allclose(ax.figure.axes[1].lines[0].get_ydata(), table["n_support"])
    scores = pd.DataFrame({"param_p": [2, 1], "mean_test_score": [0.9, 0.8]})
    ax = sx.plot.against_exponent(scores)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.8, 0.9])
    assert len(ax.figure.axes) == 1


def test_what_is_missing_for_the_exponents_is_named():
    model = sx.PSVMClassifier(p=2).fit(X, Y)
    odm = sx.solve(sx.odm_dual(X, Y, C1=1.0, C2=1.0, D=0.1))
    with pytest.raises(sx.DataError, match="X and y are needed"):
        sx.plot.against_exponent([model])
    with pytest.raises(sx.DataError, match="a solution does not know its exponent; pass p"):
        sx.plot.against_exponent([odm], X, Y)
    with pytest.raises(sx.DataError, match="one exponent a result: 1 results, 2 exponents"):
        sx.plot.against_exponent([odm], X, Y, p=[1, 2])
    with pytest.raises(sx.DataError, match="no column of accuracies"):
        sx.plot.against_exponent(pd.DataFrame({"p": [1.0]}))
    with pytest.raises(sx.DataError, match="no column p or param_p"):
        sx.plot.against_exponent(pd.DataFrame({"test_accuracy": [1.0]}))
    with pytest.raises(sx.DataError, match="must be a table, or a sequence of Solutions"):
        sx.plot.against_exponent([object()], X, Y)


def test_pairwise_margins_frame_the_smallest():
    points, y = three_classes()
    solution = sx.solve(sx.m3svm(points, y, lam=0.1, p=4))
    table = sx.theory.pairwise_margins(solution)
    ax = sx.plot.pairwise_margins(solution, title="margins")
    np.testing.assert_allclose(ax.images[0].get_array().filled(np.nan), table)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    assert sorted(text.get_text() for text in ax.texts) == sorted(
        f"{value:.2g}" for value in table[~np.eye(3, dtype=bool)]
    )
    framed = {(round(line.get_ydata().mean() - 0.1), round(line.get_xdata().mean() - 0.1)) for line in ax.lines}
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
