"""The common promises of all builders: the same problem in other words has the same optimum, and
what is no problem is refused.

One record a builder, or a form of it, with small data. A builder of the catalogue without a record
fails a test. What is particular to a formulation stands in its own file beside this one.
"""

import copy
import inspect
import math
import pickle
from functools import cache
from types import MappingProxyType

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.catalogue import CATALOGUE
from tests.conftest import make_data
from tests.intervals import overlap

ENTRY_OF = {builder.name: entry for entry in CATALOGUE.values() for builder in entry.builders}
RBF = sx.RBF(0.5)


def single(X):
    """Numbers that single precision holds too."""
    return X.astype(np.float32).astype(float)


def clouds(n, d, seed=0, apart=0.0):
    X, y = make_data(seed=seed, n=n, d=d)
    return single(X + apart * y[:, None]), y


def four(apart=0.0):
    rng, y = np.random.default_rng(0), np.arange(20) % 4
    centres = apart * np.vstack([np.eye(3), -np.ones(3)]) if apart else rng.standard_normal((4, 3))
    return single(rng.standard_normal((20, 3)) + centres[y]), y


class Case:
    """A builder with hyper-parameters and data, and what all builders of its group promise.

    `scaling` and `unit` are the powers of t by which hyper-parameters, and the optimum, grow if
    features and weights are t times as large. Models that are scaled to the margin (`hard`) need a
    test for added constraints. `gap` is promised of usual problems, `extreme` of hyper-parameters
    at 1e-8 and 1e8 times their size.
    """

    offset, scaling, unit, hard, gap, extreme = False, None, MappingProxyType({}), False, 1e-6, 1e-6

    def __init__(self, builder, settings, names, **group):
        self.builder, self.settings = builder, settings
        self.variables, self.constraints, self.parameters = (
            set(part.split()) for part in names.split("/")
        )
        for name, value in group.items():
            setattr(self, name, value)
        self.entry = ENTRY_OF[builder]
        self.takes = self.entry.takes
        self.mixed = self.entry.family == "indicator" and "relax" not in settings
        self.multipliers = "dual" in builder
        several = self.takes.several_classes
        self.intercept = settings.get(
            "intercept", not several and self.entry.name in ("conic", "zero_one")
        )
        self.weights = builder not in ("conic_fixed_gamma", "m3svm_hard_margin")
        self.id = " ".join(
            [
                builder,
                *(f"{k}={v}" for k, v in settings.items() if k not in ("C", "C1", "C2", "lam2")),
            ]
        )

    def build(self, X=None, y=None, **changes):
        X, y = (self.data[0] if X is None else X), (self.data[1] if y is None else y)
        return getattr(sx, self.builder)(X, y, **{**self.settings, **changes})

    def solve(self, X=None, y=None, *, gap=None, **changes):
        return self.solved(self.build(X, y, **changes), gap)

    def solved(self, problem, gap=None):
        """Solve by the free solver, which has to reach the gap that is promised."""
        solution = sx.solve(
            problem, **({} if self.mixed else {"solver": "clarabel", "tol": self.gap})
        )
        found = solution.certificate
        assert found.gap <= (gap or self.gap), solution
        if not self.mixed:
            # The expressions of cvxpy, at the solver's point, and the statement's numpy are written
            # apart from each other.
            value = problem.objective.value
            near = 10.0 * max(gap or 0.0, self.gap) * max(1.0, abs(value))
            assert found.lower - near <= value <= found.upper + near, (value, solution)
        return solution

    @cache  # noqa: B019
    def answer(self):
        return self.solve()


HINGE = {
    "data": clouds(20, 3),
    "offset": True,
    "scaling": {"C": -2, "optimum": -2},
    "unit": {"C": -1},
    "extreme": 1e-4,
}
PENALISED = {**HINGE, "offset": False, "scaling": None}
BAND = {"data": clouds(20, 3), "scaling": {"C1": -2, "C2": -2, "optimum": -2}}
BLEND = {"data": clouds(20, 3), "scaling": {"lam1": -2, "lam2": -2, "C": -2, "optimum": -2}}
APART = clouds(20, 3, apart=4.0)
CONIC = {"data": clouds(10, 2, seed=3), "unit": {"lam": -1}}
COUNTED = {"data": clouds(7, 2, seed=2), "gap": 2e-6}
RELAXED = {"data": clouds(12, 2, seed=2), "extreme": 1e-4}
LAM = {"data": four(), "offset": True, "scaling": {"lam": 2, "optimum": 0}, "unit": None}
PAIRS = {"data": four(), "unit": None, "gap": 1e-5, "extreme": 1e-4}

# fmt: off
CASES = [
    Case("psvm_primal", {"C": 2.0, "p": 1.0}, "w b xi / margin slack / C", **HINGE),
    Case("psvm_primal", {"C": 2.0, "p": 2.0, "kernel": RBF}, "w b xi / margin slack / C",
         **HINGE | {"scaling": None}),
    Case("psvm_primal", {"C": 2.0, "p": 1.5}, "w b xi t / margin slack power / C", **HINGE),
    Case("psvm_primal", {"C": 2.0, "p": 1.25, "intercept": "penalised"},
         "w xi t / margin slack power / C", **PENALISED),
    Case("psvm_dual", {"C": 2.0, "p": 1.0}, "beta / nonnegative balance box / C", **HINGE),
    Case("psvm_dual", {"C": 2.0, "p": 2.0}, "beta / nonnegative balance / C", **HINGE),
    Case("psvm_dual", {"C": 2.0, "p": 3.0, "kernel": RBF},
         "beta t / nonnegative balance power / C C_squared", **HINGE | {"scaling": None}),
    Case("psvm_dual", {"C": 2.0, "p": 1.0, "intercept": "penalised"}, "beta / nonnegative box / C",
         **PENALISED),
    Case("psvm_dual", {"C": 2.0, "p": 2.0, "intercept": "none"}, "beta / nonnegative / C",
         **HINGE | {"offset": False}),
    Case("hard_margin_dual", {}, "alpha / nonnegative balance /", data=APART, offset=True,
         scaling={"optimum": -2}),
    Case("hard_margin_dual", {"kernel": RBF}, "alpha / nonnegative balance /", data=APART,
         offset=True),
    Case("odm_primal", {"C1": 2.0, "C2": 0.5, "D": 0.2},
         "w u xi epsilon / margins lower upper / C1 C2 D", **BAND),
    Case("odm_primal", {"C1": 2.0, "C2": 0.5, "D": 0.2, "kernel": RBF, "intercept": True},
         "w u xi epsilon / margins lower upper / C1 C2 D", **BAND | {"scaling": None}),
    Case("odm_dual", {"C1": 2.0, "C2": 0.5, "D": 0.2}, "eta / / C1 C2 D C1_D C1_squared_over_C2",
         **BAND),
    Case("odm_dual", {"C1": 2.0, "C2": 0.5, "D": 0.2, "kernel": RBF},
         "eta / / C1 C2 D C1_D C1_squared_over_C2 C1_squared", **BAND | {"scaling": None}),
    Case("odm_dual", {"C1": 2.0, "C2": 0.5, "D": 0.2, "form": "paper", "intercept": True},
         "zeta_scaled beta_scaled / zeta_nonnegative beta_nonnegative / "
         "C1 C2 D C1_D C1_squared_over_C2",
         **BAND | {"scaling": None}),
    Case("odml_primal", {"lam1": 0.8, "lam2": 0.3, "C": 4.0},
         "w u mean xi / margins mean margin slack / lam1 lam2 C", **BLEND),
    Case("odml_primal", {"lam1": 0.8, "lam2": 0.3, "C": 4.0, "kernel": RBF, "intercept": True},
         "w u mean xi / margins mean margin slack / lam1 lam2 C", **BLEND | {"scaling": None}),
    Case("odml_dual", {"lam1": 0.8, "lam2": 0.3, "C": 4.0},
         "beta g / nonnegative box combination / lam2 C", **BLEND),
    Case("odml_dual", {"lam1": 0.8, "lam2": 0.3, "C": 4.0, "kernel": RBF},
         "beta / nonnegative box / lam2 C C_squared C_lam2 lam2_squared",
         **BLEND | {"scaling": None}),
    Case("odml_hard_margin", {"lam1": 0.1, "lam2": 0.1},
         "w u mean / margins mean margin / lam1 lam2", data=APART, hard=True,
         scaling={"lam1": -2, "lam2": -2, "optimum": -2}),
    Case("conic_sdp", {"lam": 0.7},
         "w_scaled W_scaled z t m / moment margin slack semidefinite cone / lam", **CONIC),
    Case("conic_sdp", {"lam": 0.7, "intercept": False},
         "w_scaled W_scaled z t m / moment margin slack semidefinite cone / lam", **CONIC,
         scaling={"lam": -2, "optimum": -2}),
    Case("conic_sdp", {"lam": 0.7, "kernel": RBF},
         "w_scaled W_scaled z t m / moment margin slack semidefinite cone / lam", **CONIC),
    Case("conic_sdp", {"kappa": 0.15},
         "w_scaled W_scaled z t m / moment margin slack semidefinite cone cardinality / kappa",
         **CONIC | {"unit": {}}),
    Case("conic_sdp", {"lam": 0.7, "form": "paper"},
         "w_scaled W_scaled z t m n a b / moment margin slack semidefinite cone "
         "box_low box_high beyond excess split cone_beyond / lam",
         **CONIC),
    Case("conic_fixed_gamma", {"gamma": 1e-3, "lam": 0.7},
         "w z shortfall excess shortfall_cost excess_cost / split nonnegative_shortfall "
         "nonnegative_excess shortfall_cone excess_cone / lam", **CONIC),
    Case("conic_fixed_gamma", {"gamma": 1e-2, "lam": 0.7, "kernel": RBF},
         "w z shortfall excess shortfall_cost excess_cost / split nonnegative_shortfall "
         "nonnegative_excess shortfall_cone excess_cone / lam", **CONIC),
    Case("zero_one_mio", {"lam": 1.0}, "w z / margin / lam M", **COUNTED, unit={"lam": -1}),
    Case("zero_one_mio", {"k": 3}, "w z / margin budget / k M", **COUNTED, unit={"k": 1}),
    Case("zero_one_mio", {"lam": 1.0, "form": "perspective", "M": None},
         "w z shortfall excess shortfall_cost excess_cost / split "
         "nonnegative_shortfall nonnegative_excess shortfall_cone excess_cone / lam",
         **COUNTED | {"gap": 1e-3}, unit={"lam": -1}),
    Case("zero_one_mio", {"lam": 1.0, "M": 80.0, "intercept": False}, "w z / margin / lam",
         **COUNTED, unit={"lam": -1}),
    Case("zero_one_mio", {"lam": 1.0, "relax": True, "M": 6.0},
         "w z / margin box_low box_high / lam", **RELAXED, unit={"lam": -1}),
    Case("zero_one_mio",
         {"lam": 1.0, "relax": True, "form": "perspective", "gamma": "norms", "kernel": RBF},
         "w z shortfall excess shortfall_cost excess_cost / split nonnegative_shortfall "
         "nonnegative_excess shortfall_cone excess_cone box_low box_high / lam",
         **RELAXED, unit={"lam": -1}),
    Case("l0_mio", {"C": 1.0, "relax": True, "M": 1.5}, "w b z / margin box_low box_high / C",
         **RELAXED, unit={"C": -1}, offset=True),
    Case("ramp_mio", {"C": 1.0, "relax": True, "M": 6.0},
         "w b z xi / margin slack ceiling box_low box_high / C unit price",
         **RELAXED, unit={"C": -1}, offset=True),
    Case("l0_mio", {"C": 1.0}, "w b z / margin / C M", **COUNTED, unit={"C": -1}, offset=True),
    Case("ramp_mio", {"C": 1.0}, "w b z xi / margin slack ceiling / C M unit price", **COUNTED,
         unit={"C": -1}, offset=True),
    Case("multiclass", {"lam": 0.5, "loss": "weston_watkins"}, "W b xi / margin slack gauge / lam",
         **LAM),
    Case("multiclass", {"lam": 0.5, "loss": "crammer_singer", "intercept": False},
         "W xi / margin slack / lam", **LAM | {"offset": False}),
    Case("multiclass", {"lam": 0.5, "loss": "msvm"}, "W b xi / margin slack gauge / lam", **LAM),
    Case("multiclass", {"lam": 0.5, "loss": "topk", "k": 2},
         "W b xi threshold above own_above / margin own above own_above largest slack gauge / lam",
         **LAM),
    Case("multiclass", {"lam": 0.5, "loss": "softmax"}, "W b f / margin gauge / lam", **LAM),
    Case("multiclass", {"lam": 0.5, "loss": "sparse_softmax"}, "W b f / margin gauge / lam",
         **LAM | {"scaling": {"lam": 1, "optimum": 0}, "extreme": math.inf}),
    Case("m3svm", {"lam": 0.1, "p": 1.0}, "W b V xi a / margin slack pairs shift / lam eps",
         **PAIRS),
    Case("m3svm", {"lam": 0.1, "p": 2.0, "norm": 1},
         "W b V xi u a / margin slack pairs length shift / lam eps", **PAIRS),
    Case("m3svm", {"lam": 0.1, "p": 4.0},
         "W b V xi u t a / margin slack pairs length power shift / lam eps", **PAIRS),
    Case("m3svm", {"lam": 0.1, "p": 2.0, "loss": "smoothed", "delta": 0.1},
         "W b V f a / margin pairs shift / lam eps delta", **PAIRS),
    Case("m3svm", {"lam": 0.1, "p": 1.5, "loss": "logistic"},
         "W b V f u t a / margin pairs length power shift / lam eps", **PAIRS),
    Case("m3svm", {"lam": 0.1, "p": 2.0, "loss": "softmax"},
         "W b V f a / margin pairs shift / lam eps", **PAIRS),
    Case("m3svm_hard_margin", {"p": 2.0}, "W b V / margin pairs gauge gauge_b /", data=four(12.0),
         hard=True, offset=True, scaling={"optimum": -2}),
    Case("m3svm_hard_margin", {"p": math.inf, "norm": 1},
         "W b V u / margin pairs length gauge gauge_b /", data=four(12.0), hard=True, offset=True,
         scaling={"optimum": -1}),
]
# fmt: on
# Names of one builder at one of its losses.
CLASSICAL = {
    "weston_watkins": "weston_watkins",
    "crammer_singer": "crammer_singer",
    "msvm": "msvm",
    "topk_svm": "topk",
    "multinomial_lr": "softmax",
    "sparse_multinomial_lr": "sparse_softmax",
}


def of(*kept):
    """Parametrise by the cases for which all of `kept` are true."""
    chosen = [case for case in CASES if all(rule(case) for rule in kept)]
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.id, marks=pytest.mark.slow if case.mixed else ())
            for case in chosen
        ],
    )


def has_weights(case):
    return case.weights


def is_soft(case):
    return "hard_margin" not in case.builder


def is_plain(case):
    """SCIP takes seconds: of the mixed-integer programs one form each."""
    return not case.mixed or set(case.settings) <= {"lam", "C"}


def in_a_model(case):
    return not case.multipliers


def has_parameters_of_its_own(case):
    """Whether it is the first of its builder with these parameters."""
    alike = ((each.builder, each.parameters) for each in CASES)
    return case is CASES[list(alike).index((case.builder, case.parameters))]


def test_no_builder_is_left_out():
    assert set(ENTRY_OF) == {case.builder for case in CASES} | set(CLASSICAL)


@pytest.mark.parametrize("name", CLASSICAL)
def test_the_classical_machines_are_one_builder(name):
    X, y = four()
    loss = CLASSICAL[name]
    one, other = getattr(sx, name)(X, y, lam=0.5), sx.multiclass(X, y, lam=0.5, loss=loss)
    assert (
        sx.solve(one, solver="clarabel").certificate
        == sx.solve(other, solver="clarabel").certificate
    )
    assert one.formulation.name == other.formulation.name == name


# The same problem in other words


@of()
def test_the_same_problem_in_other_words(case):
    X, y = case.data
    base, n = case.answer(), y.size
    order = np.random.default_rng(0).permutation(n)
    changes = {
        "other numbers for the classes": case.solve(y=-y),
        "order, sparse, in single precision": case.solve(
            sp.csr_array(X[order].astype(np.float32)), y[order]
        ),
    }
    if not case.mixed:
        wide, names = np.column_stack([X, np.zeros(n)]), [f"class {(3 * label) % 5}" for label in y]
        changes["names of classes, lists, a feature of zeros"] = case.solve(wide.tolist(), names)
    if case.offset:
        changes["offset"] = case.solve(X + 64.0)
    if case.takes.kernel and "kernel" not in case.settings:
        changes["Gram matrix"] = case.solve(X @ X.T, kernel="precomputed")
    elif case.takes.kernel:
        changes["Gram matrix"] = case.solve(RBF(X), kernel="precomputed")
    if case.weights and case.unit is not None:
        unit = {name: case.settings[name] * 2.0**power for name, power in case.unit.items()}
        changes["unit of the weights"] = case.solve(sample_weight=np.full(n, 2.0), **unit)
    fast = case.entry.fast
    if case.entry.name in ("psvm", "odm", "odml") and is_soft(case) and "form" not in case.settings:
        for twin in case.entry.builders:
            if twin.name != case.builder and "hard_margin" not in twin.name:
                changes[twin.name] = case.solved(twin.load()(X, y, **case.settings))
    if "kernel" not in case.settings and case.intercept in (True, "penalised"):
        none = "none" if case.intercept == "penalised" else False
        changes["constant feature"] = case.solve(np.column_stack([X, np.ones(n)]), intercept=none)
    if (
        is_soft(case)
        and case.builder not in ("conic_fixed_gamma", "l0_mio")
        and set(case.settings) <= set(fast.settings)
    ):
        changes["specialised solver"] = fast.load()(X, y, **case.settings)
    for name, found in changes.items():
        assert found.formulation == base.formulation
        overlap(base, found, name, gap=max(case.gap, 1e-6))


@of(has_weights)
def test_weights_are_copies_and_zero_leaves_out(case):
    X, y = case.data
    copies = np.arange(y.size) % 3
    settings = {"k": 2} if "k" in case.settings and case.builder == "zero_one_mio" else {}
    weighted = case.solve(sample_weight=copies, **settings)
    overlap(
        weighted,
        case.solve(np.repeat(X, copies, axis=0), np.repeat(y, copies), **settings),
        gap=case.gap,
    )
    assert not set(np.flatnonzero(copies == 0)) & set(weighted.model.support.tolist())
    for name in weighted.dual.keys() & {"alpha", "gamma", "theta", "tau", "mu"}:
        assert weighted.dual[name].shape[0] == y.size
        assert not weighted.dual[name][copies == 0].any()
    if weighted.dual and not case.mixed:
        # The dual point is one of the data as they were passed.
        again = case.build(sample_weight=copies).formulation.certify(
            weighted.model, weighted.dual, repair=False
        )
        assert again.gap == pytest.approx(weighted.certificate.gap, abs=1e-9)


@of(lambda case: case.scaling is not None)
def test_scaled_features_scale_the_hyper_parameters(case):
    t, base = 4.0, case.answer().certificate
    settings = {
        name: case.settings[name] * t**power
        for name, power in case.scaling.items()
        if name != "optimum"
    }
    found = case.solve(t * case.data[0], gap=1e-4, **settings).certificate
    factor = t ** -case.scaling["optimum"]
    assert base.lower <= factor * found.upper + 1e-9 * abs(base.lower)
    assert factor * found.lower <= base.upper + 1e-9 * abs(base.lower)


@of(lambda case: "kernel" not in case.settings, is_soft, is_plain)
def test_more_columns_than_rows(case):
    rng = np.random.default_rng(4)
    n = 8 if not case.takes.several_classes else 12
    X, y = rng.standard_normal((n, 20)), np.arange(n) % (4 if case.takes.several_classes else 2)
    wide, thin = case.solve(X, y), case.solve(sp.csr_array(X), y)
    overlap(wide, thin, gap=case.gap)
    if case.takes.kernel:
        overlap(wide, case.solve(X, y, kernel="linear"), gap=case.gap)
    coef = wide.model.coef
    assert coef.shape[0] == 20


# Data and settings at the ends of what is allowed

TWO = np.where(np.arange(12) % 2, 1, -1)
CLOUD = np.random.default_rng(9).standard_normal((12, 2)) + 0.5 * TWO[:, None]
ROWS = {
    "copies": np.repeat(CLOUD[:4], 3, axis=0),
    "equal rows": np.ones((12, 2)),
    "zeros": np.zeros((12, 2)),
    "constant column": np.column_stack([CLOUD, np.full(12, 7.0)]),
    "offset": CLOUD + 1e5,
    "tiny": CLOUD * 1e-6,
    "huge": CLOUD * 1e4,
    "columns of unlike size": CLOUD * np.array([1e-4, 1e2]),
    "separable": CLOUD + 6.0 * TWO[:, None],
}


@of(is_soft, is_plain)
def test_degenerate_data_are_certified(case):
    several, n = case.takes.several_classes, 8 if case.mixed else 12
    y = np.arange(n) % 3 if several else TWO[:n]
    kinds = {name: (X[:n], y) for name, X in ROWS.items()}
    kinds["one of a class"] = (
        CLOUD[:n],
        np.where(np.arange(n) == 0, 3 if several else 1, y if several else -1),
    )
    kinds["two observations"] = CLOUD[:2], y[:2]
    if not case.mixed and not case.settings.get("kappa"):
        kinds["contradictions"] = np.vstack([CLOUD, CLOUD]), np.r_[y, np.roll(y, 1)]
    change = {"gamma": 1e-12} if "gamma" in case.settings else {}
    if case.entry.name == "conic" and not case.settings.get("intercept", True):
        # Clarabel takes a semidefinite program of such numbers for infeasible.
        del kinds["tiny"]
    # Of a builder's further forms each takes a third of the kinds.
    place, first = CASES.index(case), [each.builder for each in CASES].index(case.builder)
    for number, (name, (X, labels)) in enumerate(kinds.items()):
        if place > first and (number - place) % 3:
            continue
        certificate = sx.solve(case.build(X, labels, **change)).certificate
        # Solvers' tolerances are absolute where an optimum is below 1, and the gap is relative.
        width = certificate.upper - certificate.lower
        assert width <= max(case.gap, 1e-5) * max(
            abs(certificate.upper), 1.0 if case.mixed else 0.0
        ), (name, certificate)


@of(lambda case: case.takes.kernel and "kernel" not in case.settings and not case.mixed, is_soft)
@pytest.mark.parametrize("kernel", [sx.RBF(1e-9), sx.RBF(1e6)], ids=["all alike", "all apart"])
def test_degenerate_kernels_are_certified(case, kernel):
    case.solve(kernel=kernel, gap=1e-5, **({"gamma": 1e-3} if "gamma" in case.settings else {}))


@of(
    is_soft,
    lambda case: not case.mixed and "gamma" not in case.settings and "kappa" not in case.settings,
)
def test_extreme_hyper_parameters_end_in_an_honest_interval(case):
    for factor in (1e-8, 1e8):
        names = case.settings.keys() & {"C", "C1", "C2", "lam", "lam1", "lam2"}
        certificate = sx.solve(
            case.build(**{name: factor * case.settings[name] for name in names})
        ).certificate
        assert certificate.lower <= certificate.upper
        assert certificate.gap <= case.extreme, (factor, certificate)


# Problems of cvxpy with fixed names, parameters, added constraints


@of()
def test_a_printed_problem_is_its_formula(case):
    problem = case.build()
    shown = str(problem)
    head, *formula = shown.splitlines()
    assert len(formula) <= len(problem.constraints) + 2
    assert max(map(len, shown.splitlines())) < 400
    assert "[1. " not in shown
    assert all(name in head for name in case.variables)
    assert all(f"    {label}: " in shown for label in case.constraints)
    assert "Promote" not in shown
    assert "<pre" in problem._repr_html_()


@of()
def test_names_are_fixed(case):
    problem = case.build()
    assert isinstance(problem, cp.Problem)
    assert problem.is_dcp(dpp=True)
    assert problem.build_seconds > 0
    assert set(problem.var_dict) == case.variables
    assert set(problem.constraint_dict) == case.constraints
    assert len(problem.constraints) == len(case.constraints)
    assert set(problem.param_dict) == case.parameters
    assert problem.is_mixed_integer() == case.mixed
    for variable in problem.variables():
        assert case.mixed or not {k for k, on in variable.attributes.items() if on is True} - {
            "symmetric",
            "PSD",
        }, "multipliers of attributes cannot be read"
    # Mixed-integer problems have an incumbent from the start.
    assert case.mixed or problem.recover() == ([], [])
    assert case.multipliers or case.hard or problem.model_at_variables() is None


def is_quick(case):
    """The perspective form takes SCIP a second for each optimum, and has the parameters of its
    relaxation.
    """
    return not case.mixed or case.settings.get("form") != "perspective"


@of(lambda case: case.parameters, is_quick)
def test_parameters_follow_without_a_second_compilation(case, monkeypatch):
    problem = case.build()
    case.solved(problem)
    new = {
        name: {"D": 0.5, "k": 4, "kappa": 0.25}.get(name, 3.0 * case.settings[name])
        for name in case.settings.keys() & case.parameters
    }
    for name, value in new.items():
        problem.param_dict[name].value = value

    def refuse(*args, **named):
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        if not case.mixed:
            patch.setattr(cp.Problem, "_construct_chain", refuse)
            patch.setattr("cvxpy.reductions.solvers.solving_chain.SolvingChain.apply", refuse)
        changed = case.solved(problem)
    assert {name: changed.hyperparameters[name] for name in new} == new
    overlap(changed, case.solve(**new), gap=case.gap)


# Of hyper-parameters that may be zero.
SIGNS = dict.fromkeys(("D", "k", "kappa", "lam1", "lam2"), "nonneg")


@of(has_parameters_of_its_own)
def test_parameters_of_the_caller_are_those_of_the_problem(case):
    passed = {
        name: cp.Parameter(value=case.settings[name], **{SIGNS.get(name, "pos"): True})
        for name in case.settings.keys() & case.parameters
    }
    problem = case.build(**passed)
    assert problem.is_dcp(dpp=True)
    for name, parameter in passed.items():
        assert getattr(problem, name) is problem.param_dict[name] is parameter
        assert problem.formulation.hyperparameters[name] == case.settings[name]
        # A number of observations stays one.
        parameter.value = case.settings[name] + (1 if name == "k" else 0.25 * case.settings[name])
    found = problem.formulation.hyperparameters
    assert all(found[name] == parameter.value for name, parameter in passed.items())
    with_more = problem
    if not case.multipliers and not case.hard:
        with_more = problem.with_constraints([problem.variables()[0] >= -10.0])
    assert all(with_more.param_dict[name] is parameter for name, parameter in passed.items())


def test_one_parameter_for_two_weights():
    X, y = clouds(20, 3)
    C = cp.Parameter(pos=True, value=1.0)
    problem = sx.odm_primal(X, y, C1=C, C2=C)
    assert problem.C1 is problem.C2 is C
    assert "C1 * ‖[20] * xi‖² + C1 * ‖" in str(problem)
    assert C.name() not in str(problem)
    C.value = 3.0
    overlap(sx.solve(problem), sx.solve(sx.odm_primal(X, y, C1=3.0, C2=3.0)), gap=1e-7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"p": cp.Parameter(pos=True, value=2.0)}, "p cannot be a parameter .* that can: C"),
        ({"C": cp.Parameter(value=2.0)}, "C must be a number, or .* with a sign and a value"),
        ({"C": cp.Parameter(pos=True)}, "C must be a number, or .* with a sign and a value"),
        ({"C": cp.Parameter(2, nonneg=True, value=[1.0, 1.0])}, "or a scalar parameter"),
        ({"C": cp.Parameter(nonneg=True, value=0.0)}, r"C must be a finite number in \(0, inf\)"),
        ({"C": cp.Parameter(nonneg=True, value=1.0)}, "C must be positive: pass .*pos=True"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(given, message):
    with pytest.raises(sx.DataError, match=message):
        sx.psvm_primal(*clouds(20, 3), **given)


@of(has_parameters_of_its_own, is_quick)
def test_copies_of_a_solved_problem_are_problems_of_their_own(case):
    problem = case.build()
    plain = case.solved(problem).certificate
    wide = max(1e-5, case.extreme)
    names = [name for name in case.settings if name in case.parameters - {"k", "kappa"}]
    changed = case.solve(**{name: 1.5 * case.settings[name] for name in names}, gap=wide)
    restored = pickle.loads(pickle.dumps(problem))  # noqa: S301
    copied = copy.deepcopy(restored)
    for name in names:
        copied.param_dict[name].value *= 1.5
    overlap(case.solved(copied, gap=wide), changed, gap=wide)
    overlap(case.solved(restored), plain, gap=case.gap)


def weights_of(W):
    """The weights of a model of two classes, or the differences of those of the first two of
    several.
    """
    return W if W.ndim == 1 else W[:, 0] - W[:, 1]


@of(in_a_model, is_plain)
def test_added_constraints_narrow_the_set(case):
    problem, plain = case.build(), case.answer().certificate
    case.solved(problem)
    w = weights_of(
        problem.w
        if case.entry.name == "conic"
        else problem.var_dict.get("w", problem.var_dict.get("W"))
    )
    at = np.array(w.value)
    k = int(np.argmax(np.abs(at)))
    part, size = np.sign(at[k]) * w[k], 0.9 * abs(at[k])
    if case.hard:
        with pytest.raises(sx.BuildError, match="pass holds="):
            problem.with_constraints([part <= size])

    def within(limit):
        """A test for models whose variables are their coefficients."""
        return (
            {"holds": lambda model: np.sign(at[k]) * weights_of(model.coef)[k] <= limit + 1e-6}
            if case.hard
            else {}
        )

    idle = sx.solve(problem.with_constraints([part <= 1e3], **within(1e3))).certificate
    overlap(idle, plain, gap=math.inf)
    most = max(1e-6, 0.02 * case.gap)
    assert idle.residuals["added_violation"] <= most
    assert idle.upper == pytest.approx(plain.upper, rel=2e-5)
    narrowed = problem.with_constraints([part <= size], **within(size))
    solution = sx.solve(narrowed)
    certificate = solution.certificate
    assert certificate.residuals["added_violation"] <= most
    assert solution.hyperparameters["added_constraints"] == 1
    assert certificate.lower is None or certificate.lower <= certificate.upper
    assert certificate.upper >= plain.lower
    assert certificate.upper < math.inf
    if not case.mixed:
        assert plain.lower - 1e-7 * abs(plain.lower) <= certificate.lower
        # The largest of several lengths may stay what it is.
        assert certificate.upper > plain.upper or case.settings.get("p") == math.inf
        # What a solver says of the smaller set lies in the interval.
        value = cp.Problem(problem.objective, list(narrowed.constraints)).solve(solver="CLARABEL")
        assert certificate.lower <= value + 1e-5 * abs(value)
        assert certificate.upper == pytest.approx(value, rel=1e-5)
        assert part.value <= size + 1e-6
    if not case.hard:
        at_variables = problem.formulation.objective(problem.model_at_variables())
        assert at_variables == pytest.approx(certificate.upper, rel=1e-5)


@of()
def test_constraints_that_cannot_be_added_are_refused(case):
    problem = case.build()
    added = problem.variables()[0] >= 0
    if case.multipliers:
        with pytest.raises(sx.BuildError, match="problem in multipliers"):
            problem.with_constraints([added])
    problem._constraints = [*problem._constraints, added]
    with pytest.raises(sx.BuildError, match=r"were changed after it was built"):
        sx.solve(problem)


# Solutions


@of()
def test_solutions_are_stored_and_their_dual_points_certify_again(case, tmp_path):
    solution = case.answer()
    again = pickle.loads(pickle.dumps(solution))  # noqa: S301
    assert again.certificate == solution.certificate
    solution.model.save(tmp_path / "model.npz")
    X = case.data[0]
    np.testing.assert_array_equal(
        sx.load_model(tmp_path / "model.npz").decision_function(X),
        solution.model.decision_function(X),
    )
    statement = case.build().formulation
    assert statement.objective(solution.model) <= solution.certificate.upper
    if case.mixed:
        return
    assert statement.certify(solution.model, solution.dual, repair=False).is_certified(case.gap)
    known = statement.certify(solution.model, repair=False).lower
    for wrong in (math.nan, math.inf):
        spoilt = {name: np.full(np.shape(values), wrong) for name, values in solution.dual.items()}
        assert statement.dual_violation(spoilt) > 0
        assert statement.certify(solution.model, spoilt, repair=False).lower == known
    if "gamma" not in case.settings:
        with pytest.raises(sx.DataError, match="needs the entry"):
            statement.certify(solution.model, {"nothing": np.zeros(3)})
        for name in (name for name, values in solution.dual.items() if np.ndim(values)):
            with pytest.raises(sx.DataError, match="expected shape"):
                statement.certify(solution.model, {**solution.dual, name: np.zeros(3)})


@of(lambda case: not case.mixed)
def test_a_rough_answer_has_a_true_interval(case):
    rough = sx.solve(case.build(), solver="clarabel", solver_options={"max_iter": 5})
    overlap(rough, case.answer(), gap=math.inf)


# What is refused


@of()
def test_bad_arguments_are_named(case):
    def refused(match, **changes):
        with pytest.raises(sx.DataError, match=match):
            case.build(**changes)

    for name in case.settings.keys() & {"C", "C1", "C2", "lam"}:
        # Without its hinge the ODML is a linear system.
        least = -1e-300 if "lam2" in case.settings else 0.0
        for value in (least, -1.0, math.inf, math.nan):
            refused(rf"{name} must be", **{name: value})
        refused(rf"{name} must be a number", **{name: "1"})
    if case.weights:
        refused("one number per observation", sample_weight=[1.0])
    if case.takes.kernel:
        refused("kernel must be one of", kernel="gauss")
        refused("square matrix", X=case.data[0], kernel="precomputed")
        refused("indefinite must be one of", kernel=RBF, indefinite="ignore")
        with pytest.raises(sx.DataError, match="indefinite='clip'"):
            case.build(*clouds(20, 3), kernel=sx.Sigmoid(1.0, -1.0))
    if "intercept" in case.settings:
        refused("intercept must be", intercept="yes")
    if "form" in inspect.signature(getattr(sx, case.builder)).parameters:
        refused("form must be one of", form="half")
    refused("one class only", y=np.zeros(case.data[1].size))


@of(lambda case: case.takes.kernel and "kernel" not in case.settings and not case.mixed, is_soft)
def test_an_indefinite_kernel_is_clipped_on_request(case):
    clipped = case.solve(kernel=sx.Sigmoid(1.0, -1.0), indefinite="clip")
    assert clipped.certificate.residuals["clipped_mass"] > 0


@of(lambda case: case.builder != "conic_fixed_gamma")
def test_too_large_a_problem_is_refused_with_a_number(case, monkeypatch):
    monkeypatch.setattr("svmcvx.system.memory.available", lambda: 1000)
    monkeypatch.setattr("svmcvx.system.memory.SMALL", 0.0)
    with pytest.raises(sx.BuildError, match="GiB"):
        case.build()
