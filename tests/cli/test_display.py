"""How objects show themselves: summaries, short reprs, HTML."""

import html.parser
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx import display
from svmcvx.experiments.tables import CertifiedTable, table_html
from svmcvx.solve import policy
from tests.conftest import make_data

X, Y = make_data(n=40, d=3)
LABELS = np.where(Y > 0, "<b>yes</b>", "no & never")
VOID = {"br", "hr", "img"}


class Parsed(html.parser.HTMLParser):
    """Text, tags and styles of HTML; a tag that is not closed raises."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.styles, self.text = [], set(), [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.styles += [value for name, value in attributes if name == "style"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def solution():
    return sx.fast.psvm(X, LABELS, C=2.0, p=1.5, kernel=sx.RBF(0.5))


@pytest.fixture(scope="module")
def several():
    points = np.vstack([X[:30] + shift for shift in (0.0, 4.0, 8.0)])
    return sx.PSVMClassifier(p=2.0).fit(points, np.repeat(["a", "b", "c"], 30))


# Numbers


@example(-0.0, 0.0)
@example(-1.050062511402655e16, 1.0)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(min_value=0, max_value=1e300))
def test_the_ends_of_an_interval_differ_as_texts_where_they_differ_as_numbers(lower, width):
    upper = lower + width
    low, high = display.interval(lower, upper)
    assert (low == high) == (lower == upper)


def test_numbers_are_short_and_missing_ones_a_dash():
    assert display.number(0.1 + 0.2) == "0.3"
    assert display.number(None) == display.number(float("nan")) == display.MISSING
    assert display.number(np.int64(7)) == "7"
    assert display.rounded("RBF(gamma=0.033333333333333326)") == "RBF(gamma=0.0333333)"
    assert display.interval(None, 2.5) == (display.MISSING, "2.5")


@given(st.lists(st.tuples(st.text("ab ", max_size=20), st.text("xyz ", max_size=90)), max_size=4))
def test_no_line_of_two_columns_is_too_wide_and_no_text_is_lost(fields):
    lines = display.columns(fields, fields[::-1])
    assert all(len(line) <= display.WIDTH for line in lines)
    letters = "".join(lines)
    for letter in "xyz":
        assert letters.count(letter) == 2 * sum(value.count(letter) for _, value in fields)


# Summaries


def test_a_summary_tells_formulation_data_answer_certificate_and_terms(solution):
    text = solution.summary()
    certificate = solution.certificate
    assert isinstance(text, str)
    assert repr(text) == str(text)
    for expected in (
        "psvm",
        "RBF(gamma=0.5)",
        "Observations:",
        solution.data.fingerprint,
        "fast.psvm/smo",
        "optimal",
        *display.interval(certificate.lower, certificate.upper),
        f"{solution.model.n_support} ({solution.model.n_support / 40:.0%})",
        "Rounding",
        "Tried",
    ):
        assert expected in text
    assert max(map(len, text.splitlines())) <= display.WIDTH
    assert "<pre" in text._repr_html_()


def test_the_terms_of_a_builders_objective_add_up_to_it():
    found = sx.solve(sx.psvm_dual(X, Y))
    half = 0.5 * float(found.model.coef @ found.model.coef)
    assert found.terms["regulariser"] == pytest.approx(half)
    assert sum(found.terms.values()) == pytest.approx(found.certificate.upper, rel=1e-6)


def test_the_facts_of_the_data(solution):
    facts = solution.data
    assert (facts.n, facts.d) == X.shape
    assert dict(zip(facts.classes, facts.counts, strict=True)) == {
        label: int((label == LABELS).sum()) for label in np.unique(LABELS)
    }
    assert not facts.weighted
    weight = np.r_[0.0, np.ones(39)]
    assert sx.fast.psvm(X, Y, sample_weight=weight).data.weighted
    assert pickle.loads(pickle.dumps(solution)).data == facts  # noqa: S301 - our own


def test_the_summary_of_several_binary_problems_lists_them_worst_first(several):
    text = several.solution_.summary()
    rows = [line for line in text.splitlines() if " / " in line]
    gaps = [float(line.split()[5]) for line in rows]
    assert len(rows) == 3
    assert gaps == sorted(gaps, reverse=True)
    assert all(words in text for words in ("3 binary problems", "Observations:", "90"))


def test_a_summary_says_what_is_not_proved():
    local = sx.fast.l0(X, Y, method="local")
    assert "the lower bound is the trivial one" in local.summary().replace("\n    ", " ")
    assert "a local minimum" in local.summary()
    stopped = sx.fast.psvm(X, Y, p=1.5, callback=lambda progress: True, tol=1e-12)
    assert "stopped before it was done (interrupted)" in stopped.summary().replace("\n    ", " ")


def test_a_missing_licence_is_one_word_in_the_summary(monkeypatch):
    monkeypatch.setattr(
        policy, "licence_problem", lambda name: "no file in /a/path" if name == "MOSEK" else None
    )
    monkeypatch.setattr(policy, "installed", lambda card: True)
    found = sx.solve(sx.psvm_dual(X, Y))
    assert "not licensed" in found.summary()
    assert "/a/path" not in found.summary()
    table = sx.compare({"a": sx.PSVMClassifier(solver="auto", tol=1e-15)}, X[:20], Y[:20])
    assert "licensed" not in "".join(table["note"])
    with pytest.raises(sx.SolverFailed, match="no file in /a/path"):
        sx.solve(sx.psvm_dual(X, Y), solver="mosek")


# Warm starts


SOLVERS = {name: getattr(sx.fast, name) for name in ("psvm", "hard_margin", "odml", "l0", "ramp")}
SOLVERS |= {name: getattr(sx.fast, name) for name in ("m3svm", "multiclass")}
SOLVERS |= {name: partial(getattr(sx.fast, name), lam=1.0) for name in ("conic", "zero_one")}
SOLVERS["odm"] = partial(sx.fast.odm, kernel="rbf")


@pytest.mark.parametrize("name", SOLVERS)
def test_terms_add_up_and_a_warm_start_of_other_data_of_the_same_size_is_refused(name):
    solve = SOLVERS[name]
    first, y = X[:12] + 5.0 * Y[:12, None], Y[:12]
    earlier = solve(first, y)
    assert set(earlier.terms) == {"regulariser", "losses"}
    assert sum(earlier.terms.values()) == pytest.approx(earlier.certificate.upper, rel=1e-6)
    assert solve(first, y, warm_start=earlier).warm_start_used
    for other in ((first + 1.0, y), (first, np.r_[-y[:2], y[2:]])):
        with pytest.raises(sx.DataError, match="other numbers or labels"):
            solve(*other, warm_start=earlier)


def test_a_linear_odm_and_another_gram_matrix_take_one_of_other_numbers():
    earlier = sx.fast.odm(X, Y)
    assert sx.fast.odm(X + 1.0, Y, warm_start=earlier).certificate.is_certified(1e-6)
    near, far = (sx.RBF(gamma)(X, X) for gamma in (0.5, 0.6))
    first = sx.fast.psvm(near, Y, kernel="precomputed")
    assert sx.fast.psvm(far, Y, kernel="precomputed", warm_start=first).warm_start_used


# Representations


def test_models_are_shown_in_one_line(solution, several):
    linear = sx.LinearModel(np.arange(500.0), 1.0, np.array([0, 1]), np.arange(400))
    for model, words in (
        (linear, ("500 features", "400 support vectors", "classes 0, 1")),
        (solution.model, ("RBF(gamma=0.5)", "3 features")),
        (several.model_, ("one against one", "3 × LinearModel")),
    ):
        assert "\n" not in repr(model)
        assert len(repr(model)) < 160
        assert all(word in repr(model) for word in words)


def test_statements_proofs_and_margins_are_shown_without_their_arrays(solution, tmp_path):
    shown = repr(sx.odm_dual(X, Y, C1=1.0, C2=1.0, kernel="rbf").formulation)
    assert shown.startswith("ODM(C1=1, C2=1, D=0.1, ")
    assert "40 × 3" in shown
    assert "array" not in shown
    margins = sx.theory.margin_distribution(solution, X, LABELS)
    for thing in (solution.proof(), solution.evidence, margins):
        assert "array" not in repr(thing)
        assert len(repr(thing)) < 200
    path = tmp_path / "proof.npz"
    solution.save_proof(path)
    (tmp_path / "other").write_text("")
    # Others may read what others may read.
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def shown(solution, several):
    both = {"<i>psvm</i>": sx.PSVMClassifier(), "odm": sx.ODMClassifier()}
    return [
        *(solution, solution.certificate, solution.model),
        *(several.solution_, several.model_),
        sx.fast.l0(X, Y).certificate,
        sx.fast.m3svm(X, LABELS).model,
        sx.compare(both, X, LABELS),
        sx.select(sx.PSVMClassifier(), {"C": [0.1, 1.0]}, X, LABELS, cv=2),
        sx.study(both, {"<u>a</u>": (X, LABELS)}, repeats=1),
    ]


def test_html_is_whole_escaped_and_leaves_colours_to_the_page(solution, several):
    for thing in shown(solution, several):
        parsed = Parsed(thing._repr_html_())
        known = {"div", "pre", "table", "thead", "tbody", "tr", "th", "td"}
        assert parsed.tags <= known, type(thing)
        for style in parsed.styles:
            for rule in filter(None, style.split(";")):
                name, _, value = rule.partition(":")
                if name in ("background", "background-color", "color"):
                    assert value in ("none", "inherit")
                assert "url" not in value


def test_tables_have_whole_numbers_and_marks():
    table = CertifiedTable(
        {
            "model": ["a", "b"],
            "upper": [1.23456789123, 2.0],
            "lower": [1.23456789, None],
            "gap": [1e-9, float("inf")],
            "certified": [True, False],
            "accuracy": [1 / 3, 0.5],
            "corrected_t": [1e-6, 0.25],
            "n_support": [3.0, 2.5],
            "note": [None, None],
        }
    )
    text = Parsed(table._repr_html_()).text
    numbers = {
        "< 0.0001",
        "0.2500",
        "1.0e-09",
        "0.3333",
        "0.5000",
        "3",
        "2.5",
        "1.234567891",
        "1.23456789",
    }
    assert {"✓", "✗"} | numbers <= set(text)
    assert "40 more rows" in Parsed(table_html(pd.DataFrame({"x": range(100)}))).text[-1]
    assert "note" not in text
    assert isinstance(table[["model", "gap"]], CertifiedTable)
    assert isinstance(table.sort_values("gap"), CertifiedTable)


def test_added_constraints_are_noted():
    problem = sx.psvm_primal(X, Y)
    found = sx.solve(problem.with_constraints([problem.var_dict["w"] >= 0]), solver="clarabel")
    assert "Constraints were added" in found.summary()
