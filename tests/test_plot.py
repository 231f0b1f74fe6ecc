import matplotlib as mpl
import numpy as np
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
