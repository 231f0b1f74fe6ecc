import copy
import dataclasses
import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svmcvx.certificate import (
    Certificate,
    Evaluation,
    SolverBound,
    Statement,
    certificate_of_sum,
    check,
    relative_gap,
)
from svmcvx.certificate.check import _MINT, status_of
from svmcvx.certificate.rows import inner_error
from svmcvx.errors import NotCertified


class SmallestSquare(Statement):
    """min ½x² subject to x ≤ 1; its dual is max −½z² − z over z ≥ 0, so the optimum is 0 at x = 0,
    z = 0. Other statements differ in what is passed.
    """

    kind = "convex"
    facts = {"answer": 42.0}  # noqa: RUF012

    def __init__(self, **changed):
        vars(self).update(changed)

    def evaluate(self, model):
        return Evaluation(0.5 * model**2 if model <= 1 else math.inf, 0.0)

    def repair(self, dual):
        return {"z": np.maximum(dual["z"], 0.0)}

    def dual_violation(self, dual):
        z = float(dual["z"][0])
        return math.inf if math.isnan(z) else max(0.0, -z)

    def evaluate_dual(self, dual):
        z = float(dual["z"][0])
        return Evaluation(-0.5 * z**2 - z, 0.0)


def multiplier(value):
    return {"z": np.array([value])}


def certified(statement, models, *multipliers, **how):
    return check(statement, models, [multiplier(z) for z in multipliers], **how).certificate


def always(value, error=0.0, terms=None):
    return lambda point: Evaluation(value, error, terms)


SMALLEST = SmallestSquare()


def test_the_classical_wrong_claim_is_not_certified():
    # x = 1 with multiplier −1: primal feasible, stationary, complementary, no gap between the
    # objectives. Only the sign of the multiplier is wrong.
    assert SMALLEST.evaluate(1.0).value == SMALLEST.evaluate_dual(multiplier(-1.0)).value
    repaired = certified(SMALLEST, [1.0], -1.0)
    assert not repaired.is_certified(0.4)
    assert (repaired.lower, repaired.upper) == (0.0, 0.5)
    assert repaired.residuals["dual_violation"] == 1.0
    strict = certified(SMALLEST, [1.0], -1.0, repair=False)
    assert (strict.lower, strict.gap) == (None, math.inf)
    assert not strict.is_certified(1e9)


def test_the_right_claim_is_certified():
    certificate = certified(SMALLEST, [0.0], 0.0)
    assert certificate.is_certified(0.0)
    assert certificate.require(0.0) is certificate
    assert certificate.residuals["answer"] == 42.0


def test_the_best_of_several_candidates_is_kept():
    points = [multiplier(0.5), multiplier(0.1), multiplier(math.nan)]
    checked = check(SMALLEST, [1.0, 0.5], points)
    assert checked.model == 0.5
    assert checked.dual["z"][0] == 0.1
    assert checked.certificate.lower == pytest.approx(-0.105)
    # They are ranked by what they are worth after rounding.
    noisy = SmallestSquare(
        evaluate_dual=lambda dual: Evaluation(
            SMALLEST.evaluate_dual(dual).value, 0.0 if dual["z"][0] else 1e21
        )
    )
    assert certified(noisy, [0.0], 0.0, 0.1).lower == pytest.approx(-0.105)


def test_the_preferred_candidate_is_kept_while_it_costs_little():
    shifted = SmallestSquare(
        evaluate=lambda model: Evaluation(1.0 + 0.5 * model**2, 0.0),
        evaluate_dual=lambda dual: Evaluation(1.0 + SMALLEST.evaluate_dual(dual).value, 0.0),
    )
    assert check(shifted, [1e-9, 0.0], [multiplier(0.0)]).model == 1e-9
    assert check(shifted, [0.5, 0.0], [multiplier(0.0)]).model == 0.0
    # Beside an optimum of 0 nothing costs little.
    assert check(SMALLEST, [1e-9, 0.0], [multiplier(0.0)]).model == 0.0
    # Of dual points the best one is kept, whatever their order.
    assert certified(shifted, [0.0], 1e-9, 0.0).lower == 1.0


def test_bounds_that_contradict_each_other_are_refused():
    with pytest.raises(NotCertified, match="exceeds the objective"):
        certified(SmallestSquare(evaluate_dual=always(1.0)), [0.0], 0.0)


def test_rounding_widens_the_interval_on_both_sides():
    rounded = SmallestSquare(evaluate=always(0.5, 0.25), evaluate_dual=always(0.0, 0.5))
    certificate = certified(rounded, [1.0], 0.0)
    # Each end is rounded outwards once more.
    assert certificate.lower == math.nextafter(-0.5, -math.inf)
    assert certificate.upper == math.nextafter(0.75, math.inf)
    assert certificate.residuals["rounding"] == 0.75
    assert inner_error(10000, 1.0) / inner_error(100, 1.0) == pytest.approx(100)


def test_without_a_dual_point_there_is_no_bound():
    certificate = certified(SMALLEST, [1.0])
    assert certificate.lower is None
    assert "no lower bound" in repr(certificate)
    with pytest.raises(NotCertified, match="exceeds"):
        certificate.require()
    both = certified(SMALLEST, [1.0], -1.0)
    with pytest.raises(NotCertified, match=re.escape(f"lies in [{both.lower}, {both.upper}]")):
        both.require(0.4)
    found = both.to_dict()
    assert (found["lower"], found["upper"]) == (both.lower, both.upper) == (0.0, 0.5)


def test_models_without_a_finite_objective():
    infeasible = certified(SMALLEST, [2.0], 0.0)
    assert infeasible.upper == infeasible.gap == math.inf
    with pytest.raises(NotCertified, match="no candidate model"):
        certified(SmallestSquare(evaluate=always(math.nan)), [0.0])


def test_only_the_checker_makes_certificates():
    with pytest.raises(NotCertified, match="made by"):
        Certificate(kind="convex", upper=1.0, lower=1.0, residuals={})
    with pytest.raises(TypeError):
        Certificate()
    certificate = certified(SMALLEST, [1.0], 0.0)
    with pytest.raises(AttributeError, match="cannot be changed"):
        certificate.lower = 0.5
    with pytest.raises(AttributeError):
        certificate._residuals = ()
    with pytest.raises(AttributeError):
        del certificate.upper
    with pytest.raises(TypeError):
        dataclasses.replace(certificate, lower=0.5)
    certificate.residuals["rounding"] = -1.0
    assert certificate.residuals["rounding"] == 0.0


def interval_of(lower, upper, **changes):
    """The certificate of a problem whose bounds have these values, and no rounding."""
    ends = {"evaluate": always(upper), "evaluate_dual": always(lower)}
    return certified(SmallestSquare(**ends, **changes), [1.0], 0.0)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e12, 1e12)] * 2).map(sorted), min_size=1, max_size=40))
def test_the_interval_of_a_sum_has_the_exact_sums_of_the_ends(ends):
    parts = {k: interval_of(*pair) for k, pair in enumerate(ends)}
    whole = certificate_of_sum(parts)
    low, high = (
        sum(map(Fraction, (getattr(one, end) for one in parts.values())))
        for end in ("lower", "upper")
    )
    assert whole.lower <= low <= high <= whole.upper
    for end, sum_of_ends in ((whole.lower, low), (whole.upper, high)):
        assert abs(Fraction(end) - sum_of_ends) < 3 * Fraction(math.ulp(end))
    assert whole.gap == relative_gap(whole.lower, whole.upper)
    assert whole.parts == parts
    assert whole.residuals["rounding"] == sum(one.residuals["rounding"] for one in parts.values())
    assert pickle.loads(pickle.dumps(whole)) == whole  # noqa: S301


def test_a_sum_is_not_better_known_than_its_parts():
    one, unknown = interval_of(1.0, 2.0), certified(SMALLEST, [1.0])
    whole = certificate_of_sum({"a": one, "b": unknown})
    assert (whole.lower, whole.gap) == (None, math.inf)
    assert whole.upper >= one.upper + unknown.upper
    assert repr(whole).startswith("Certificate(convex, sum of 2: ")
    infeasible = certified(SMALLEST, [2.0], 0.0)
    assert certificate_of_sum({"a": one, "b": infeasible}).upper == math.inf
    nothing = certificate_of_sum({"a": interval_of(0.0, 0.0), "b": interval_of(0.0, 0.0)})
    assert (nothing.lower, nothing.upper, nothing.gap) == (0.0, 0.0, 0.0)
    kinds = ["convex", "enumeration", "mixed-integer", "local"]
    for k, kind in enumerate(kinds):
        parts = {name: interval_of(0.0, 1.0, kind=name) for name in kinds[: k + 1]}
        assert certificate_of_sum(parts).kind == kind


def test_certificates_can_be_copied_and_pickled():
    certificate = certified(SMALLEST, [1.0], 0.0)
    for twin in (copy.deepcopy(certificate), pickle.loads(pickle.dumps(certificate))):  # noqa: S301
        assert twin == certificate
        assert hash(twin) == hash(certificate)
        assert twin.to_dict() == certificate.to_dict()


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("value", [-1.0, -0.5])
def test_what_a_repair_returns_is_tested_like_any_other_point(share, value):
    """A repair that repairs nothing, and one that returns another infeasible point; the dual
    objective of both is above the optimum.
    """
    sloppy = SmallestSquare(repair=lambda dual: {"z": share * dual["z"]})
    assert certified(sloppy, [1.0], value).lower is None


def test_a_feasible_point_is_repaired_only_where_that_may_improve_it():
    improving = SmallestSquare(repair=lambda dual: multiplier(0.0))
    settled = SmallestSquare(repair=improving.repair, repair_improves=False)
    assert certified(improving, [0.0], 0.5).lower == 0.0
    assert certified(improving, [0.0], 0.5, repair=False).lower == -0.625
    assert certified(settled, [0.0], 0.5).lower == -0.625
    assert certified(settled, [0.0], -0.5).lower == 0.0


@pytest.mark.parametrize("models", [(1.05, 1.0), (1.0, 1.05)])
def test_the_upper_end_is_that_of_the_model_returned(models):
    """The objective is the model itself; the dual bound is 0."""

    def evaluate(model):
        return Evaluation(model, 0.125, {"regulariser": 0.75 * model, "losses": 0.25 * model})

    flat, first = SmallestSquare(evaluate=evaluate, evaluate_dual=always(0.0)), models[0]
    # The first one is kept, as it costs little of the interval: its own value is certified, and its
    # own terms and rounding stand.
    checked = check(flat, models, [multiplier(0.0)])
    assert checked.model == first
    assert first + 0.125 <= checked.certificate.upper <= math.nextafter(first + 0.125, math.inf)
    assert checked.terms["losses"] == 0.25 * first
    assert checked.certificate.residuals["rounding"] == 0.125


def test_the_lower_end_is_that_of_the_dual_point_returned():
    checked = check(SMALLEST, [0.0], [multiplier(2.0), multiplier(-0.25), multiplier(3.0)])
    assert checked.dual["z"][0] == 0.0
    assert checked.certificate.residuals["dual_violation"] == 0.25


def test_the_bound_of_a_solver_counts_for_searched_problems_only():
    searched = SmallestSquare(kind="mixed-integer")
    with pytest.raises(NotCertified, match="proves nothing"):
        certified(SMALLEST, [1.0], solver_bound=SolverBound(0.25, 0.0))
    found = certified(searched, [1.0], solver_bound=SolverBound(0.25, 0.125))
    assert found.lower == 0.125
    assert found.residuals["solver_bound"] == 0.25
    assert found.residuals["solver_allowance"] == 0.125
    # A dual point that proves more counts, whatever the solver states, and one without a number
    # states nothing.
    assert certified(searched, [1.0], 0.0, solver_bound=SolverBound(-1.0, 0.0)).lower == 0.0
    assert certified(searched, [1.0], solver_bound=SolverBound(math.nan, 0.0)).lower is None
    with pytest.raises(NotCertified, match="it is wrong"):
        certified(searched, [1.0], solver_bound=SolverBound(0.75, 0.125))


def test_known_points_are_tried_unless_they_are_surpassed():
    known = SmallestSquare(trivial=lambda: ([0.0], [multiplier(0.0)]))
    surpassed = SmallestSquare(
        trivial=known.trivial,
        dominates_trivial_bounds=lambda upper, lower: upper < 1 and lower > -1,
    )
    assert certified(known, [1.0], 0.5).gap == 0.0
    assert certified(surpassed, [1.0], 0.5).upper == 0.5
    assert certified(surpassed, [1.0], 0.5).lower == -0.625
    # Too little is known: no bound, or none below the number.
    assert certified(surpassed, [1.0]).gap == 0.0
    assert certified(surpassed, [2.0], 0.5).gap == 0.0


@pytest.mark.parametrize(
    "name", ["trival", "residual", "repair_improve", "dominates_trivial_bound"]
)
def test_a_misspelt_part_of_a_statement_is_refused(name):
    with pytest.raises(TypeError, match=f"Wrong.{name} is no part of a statement; name it "):
        type("Wrong", (SmallestSquare,), {name: None})


@pytest.mark.parametrize("bound", [-math.inf, math.nan])
def test_a_point_whose_bound_is_no_number_gives_none(bound):
    found = check(SmallestSquare(evaluate_dual=always(bound)), [1.0], [multiplier(1.0)])
    assert found.certificate.lower is None
    assert not found.dual


@pytest.mark.parametrize(
    ("gap", "kind", "said", "status"),
    [
        (1e-9, "convex", "inaccurate", "optimal"),
        (1e-9, "convex", "time_limit", "optimal"),
        (0.9, "convex", "optimal", "inaccurate"),
        (0.9, "enumeration", "interrupted", "interrupted"),
        (None, "local", "optimal", "stationary"),
        (None, "convex", "optimal", "inaccurate"),
    ],
)
def test_the_certificate_decides_the_status(gap, kind, said, status):
    lower = None if gap is None else 1.0 - gap
    certificate = Certificate(_mint=_MINT, kind=kind, upper=1.0, lower=lower, residuals={})
    assert status_of(certificate, 1e-6, said) == status
