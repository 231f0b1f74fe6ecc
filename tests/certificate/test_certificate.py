import copy
import dataclasses
import math
import pickle
import re

import numpy as np
import pytest

from svmcvx.certificate import Certificate, Evaluation, SolverBound, check
from svmcvx.certificate.check import _MINT, status_of
from svmcvx.certificate.rows import inner_error
from svmcvx.errors import NotCertified


class SmallestSquare:
    """min ½x² subject to x ≤ 1; its dual is max −½z² − z over z ≥ 0, so the optimum is 0 at x = 0,
    z = 0.
    """

    kind = "convex"
    facts = {"answer": 42.0}  # noqa: RUF012

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


def test_the_classical_wrong_claim_is_not_certified():
    # x = 1 with multiplier −1: primal feasible, stationary, complementary, no gap between the
    # objectives. Only the sign of the multiplier is wrong.
    statement = SmallestSquare()
    assert statement.evaluate(1.0).value == statement.evaluate_dual(multiplier(-1.0)).value
    repaired = check(statement, [1.0], [multiplier(-1.0)]).certificate
    assert not repaired.is_certified(0.4)
    assert (repaired.lower, repaired.upper) == (0.0, 0.5)
    assert repaired.residuals["dual_violation"] == 1.0
    strict = check(statement, [1.0], [multiplier(-1.0)], repair=False).certificate
    assert strict.lower is None
    assert strict.gap == math.inf
    assert not strict.is_certified(1e9)


def test_the_right_claim_is_certified():
    certificate = check(SmallestSquare(), [0.0], [multiplier(0.0)]).certificate
    assert certificate.is_certified(0.0)
    assert certificate.require(0.0) is certificate
    assert certificate.residuals["answer"] == 42.0


def test_the_best_of_several_candidates_is_kept():
    checked = check(
        SmallestSquare(), [1.0, 0.5], [multiplier(0.5), multiplier(0.1), multiplier(math.nan)]
    )
    assert checked.model == 0.5
    assert checked.dual["z"][0] == 0.1
    assert checked.certificate.lower == pytest.approx(-0.105)


def test_the_preferred_candidate_is_kept_while_it_costs_little():
    class Shifted(SmallestSquare):
        def evaluate(self, model):
            return Evaluation(1.0 + 0.5 * model**2, 0.0)

        def evaluate_dual(self, dual):
            found = super().evaluate_dual(dual)
            return Evaluation(1.0 + found.value, found.error)

    assert check(Shifted(), [1e-9, 0.0], [multiplier(0.0)]).model == 1e-9
    assert check(Shifted(), [0.5, 0.0], [multiplier(0.0)]).model == 0.0
    # Beside an optimum of 0 nothing costs little.
    assert check(SmallestSquare(), [1e-9, 0.0], [multiplier(0.0)]).model == 0.0
    # Of dual points the best one is kept, whatever their order.
    assert check(Shifted(), [0.0], [multiplier(1e-9), multiplier(0.0)]).certificate.lower == 1.0


def test_a_repair_that_does_not_repair_gives_no_bound():
    class Sloppy(SmallestSquare):
        def repair(self, dual):
            return dual

    certificate = check(Sloppy(), [1.0], [multiplier(-1.0)]).certificate
    assert certificate.lower is None


def test_bounds_that_contradict_each_other_are_refused():
    class Wrong(SmallestSquare):
        def evaluate_dual(self, dual):
            return Evaluation(1.0, 0.0)

    with pytest.raises(NotCertified, match="exceeds the objective"):
        check(Wrong(), [0.0], [multiplier(0.0)])


def test_rounding_widens_the_interval_on_both_sides():
    class Rounded(SmallestSquare):
        def evaluate(self, model):
            return Evaluation(0.5 * model**2, 0.25)

        def evaluate_dual(self, dual):
            return Evaluation(0.0, 0.5)

    certificate = check(Rounded(), [1.0], [multiplier(0.0)]).certificate
    # Each end is rounded outwards once more.
    assert certificate.lower == math.nextafter(-0.5, -math.inf)
    assert certificate.upper == math.nextafter(0.75, math.inf)
    assert certificate.residuals["rounding"] == 0.75


def test_without_a_dual_point_there_is_no_bound():
    certificate = check(SmallestSquare(), [1.0], []).certificate
    assert certificate.lower is None
    assert "no lower bound" in repr(certificate)
    with pytest.raises(NotCertified, match="exceeds"):
        certificate.require()
    both = check(SmallestSquare(), [1.0], [multiplier(-1.0)]).certificate
    with pytest.raises(NotCertified, match=re.escape(f"lies in [{both.lower}, {both.upper}]")):
        both.require(0.4)
    assert (
        (both.to_dict()["lower"], both.to_dict()["upper"]) == (both.lower, both.upper) == (0.0, 0.5)
    )


def test_an_infeasible_model_has_an_infinite_gap():
    certificate = check(SmallestSquare(), [2.0], [multiplier(0.0)]).certificate
    assert certificate.upper == math.inf
    assert certificate.gap == math.inf


def test_a_model_without_a_value_is_refused():
    class Undefined(SmallestSquare):
        def evaluate(self, model):
            return Evaluation(math.nan, 0.0)

    with pytest.raises(NotCertified, match="no candidate model"):
        check(Undefined(), [0.0], [])


def test_only_the_checker_makes_certificates():
    with pytest.raises(NotCertified, match="made by"):
        Certificate(kind="convex", upper=1.0, lower=1.0, residuals={})
    with pytest.raises(TypeError):
        Certificate()
    certificate = check(SmallestSquare(), [1.0], [multiplier(0.0)]).certificate
    with pytest.raises(AttributeError, match="cannot be changed"):
        certificate.lower = 0.5
    with pytest.raises(AttributeError):
        certificate._lower = 0.5
    with pytest.raises(AttributeError):
        del certificate._upper
    with pytest.raises(TypeError):
        dataclasses.replace(certificate, lower=0.5)
    certificate.residuals["rounding"] = -1.0
    assert certificate.residuals["rounding"] == 0.0


def test_certificates_can_be_copied_and_pickled():
    certificate = check(SmallestSquare(), [1.0], [multiplier(0.0)]).certificate
    for twin in (copy.deepcopy(certificate), pickle.loads(pickle.dumps(certificate))):  # noqa: S301
        assert twin == certificate
        assert hash(twin) == hash(certificate)
        assert twin.to_dict() == certificate.to_dict()


def test_rounding_is_bounded_and_grows_with_the_number_of_terms():
    assert inner_error(10000, 1.0) / inner_error(100, 1.0) == pytest.approx(100)


def test_candidates_are_ranked_by_what_they_are_worth_after_rounding():
    class Noisy(SmallestSquare):
        def evaluate_dual(self, dual):
            z = float(dual["z"][0])
            return Evaluation(-0.5 * z**2 - z, 1e21 if z == 0 else 0.0)

    certificate = check(Noisy(), [0.0], [multiplier(0.0), multiplier(0.1)]).certificate
    assert certificate.lower == pytest.approx(-0.105)


def test_what_a_repair_returns_is_tested_like_any_other_point():
    class Moved(SmallestSquare):
        """Its repair returns another point, which is infeasible too, and whose dual objective is
        above the optimum.
        """

        def repair(self, dual):
            return {"z": dual["z"] * 0.5}

    for value in (-1.0, -0.5):
        assert check(Moved(), [1.0], [multiplier(value)]).certificate.lower is None


def test_a_feasible_point_is_repaired_only_where_that_may_improve_it():
    class Improving(SmallestSquare):
        def repair(self, dual):
            return multiplier(0.0)

    class Settled(Improving):
        repair_improves = False

    assert check(Improving(), [0.0], [multiplier(0.5)]).certificate.lower == 0.0
    assert check(Improving(), [0.0], [multiplier(0.5)], repair=False).certificate.lower == -0.625
    assert check(Settled(), [0.0], [multiplier(0.5)]).certificate.lower == -0.625
    assert check(Settled(), [0.0], [multiplier(-0.5)]).certificate.lower == 0.0


def test_the_upper_end_is_that_of_the_model_returned():
    class Flat(SmallestSquare):
        """The objective is the model itself; the dual bound is 0."""

        def evaluate(self, model):
            terms = {"regulariser": 0.75 * model, "losses": 0.25 * model}
            return Evaluation(model, 0.125, terms)

        def evaluate_dual(self, dual):
            return Evaluation(0.0, 0.0)

    # The first one is kept, as it costs little of the interval: its own value is certified, and its
    # own terms and rounding stand.
    for models in ([1.05, 1.0], [1.0, 1.05]):
        checked = check(Flat(), models, [multiplier(0.0)])
        assert checked.model == models[0]
        assert (
            models[0] + 0.125
            <= checked.certificate.upper
            <= math.nextafter(models[0] + 0.125, math.inf)
        )
        assert checked.terms["losses"] == 0.25 * models[0]
        assert checked.certificate.residuals["rounding"] == 0.125
    # The dual point returned is the one that gives the lower end, and its violation is stated.
    checked = check(SmallestSquare(), [0.0], [multiplier(2.0), multiplier(-0.25), multiplier(3.0)])
    assert checked.dual["z"][0] == 0.0
    assert checked.certificate.residuals["dual_violation"] == 0.25


def test_the_bound_of_a_solver_counts_for_searched_problems_only():
    class Searched(SmallestSquare):
        kind = "mixed-integer"

    with pytest.raises(NotCertified, match="proves nothing"):
        check(SmallestSquare(), [1.0], [], solver_bound=SolverBound(0.25, 0.0))
    found = check(Searched(), [1.0], [], solver_bound=SolverBound(0.25, 0.125)).certificate
    assert (found.lower, found.residuals["solver_bound"], found.residuals["solver_allowance"]) == (
        0.125,
        0.25,
        0.125,
    )
    # A dual point that proves more counts, whatever the solver states, and one without a number
    # states nothing.
    assert (
        check(
            Searched(), [1.0], [multiplier(0.0)], solver_bound=SolverBound(-1.0, 0.0)
        ).certificate.lower
        == 0.0
    )
    assert (
        check(Searched(), [1.0], [], solver_bound=SolverBound(math.nan, 0.0)).certificate.lower
        is None
    )
    with pytest.raises(NotCertified, match="it is wrong"):
        check(Searched(), [1.0], [], solver_bound=SolverBound(0.75, 0.125))


def test_known_points_are_tried_unless_they_are_surpassed():
    class Known(SmallestSquare):
        def trivial(self):
            return [0.0], [multiplier(0.0)]

    class Surpassed(Known):
        def dominates_trivial_bounds(self, upper, lower):
            return upper < 1.0 and lower > -1.0

    assert check(Known(), [1.0], [multiplier(0.5)]).certificate.gap == 0.0
    assert check(Surpassed(), [1.0], [multiplier(0.5)]).certificate.upper == 0.5
    assert check(Surpassed(), [1.0], [multiplier(0.5)]).certificate.lower == -0.625
    # Too little is known: no bound, or none below the number.
    assert check(Surpassed(), [1.0], []).certificate.gap == 0.0
    assert check(Surpassed(), [2.0], [multiplier(0.5)]).certificate.gap == 0.0


def test_a_point_whose_bound_is_no_number_gives_none():
    class Endless(SmallestSquare):
        def evaluate_dual(self, dual):
            return Evaluation(-math.inf if dual["z"][0] else math.nan, 0.0)

    for value in (0.0, 1.0):
        found = check(Endless(), [1.0], [multiplier(value)])
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
    certificate = Certificate(
        _mint=_MINT, kind=kind, upper=1.0, lower=None if gap is None else 1.0 - gap, residuals={}
    )
    assert status_of(certificate, 1e-6, said) == status
