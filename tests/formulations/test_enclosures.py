"""What every statement says of a number and its error, term by term, against ball arithmetic from
the data as they were passed.
"""

import os

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.certificate.bounded import Bounded, exact
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations import margin as psvm
from svmcvx.formulations import margin_distribution as odm
from svmcvx.formulations import margin_distribution as odml
from svmcvx.formulations.margin import PSVM, AbsoluteNormSVM, HardMargin, PenalisedPSVM
from svmcvx.formulations.margin_distribution import ODM, ODML, ODMLHardMargin
from svmcvx.model import LinearModel
from tests.balls import Ball, ExactMargins, balls, encloses, power, precision

precise = precision(700)
PROBLEMS = 500 if os.environ.get("SVMCVX_THOROUGH") else 15


def size(rng):
    return float(10.0 ** (rng.uniform(-2, 2) if rng.random() < 0.6 else rng.uniform(-8, 8)))


def hostile(rng, kernels=True):
    """Data with offsets, far clusters, copies, an outlier or margins on a grid; a kernel or none;
    weights or none.
    """
    n, d = int(rng.integers(4, 10)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.uniform(-6, 6)
    X, y = rng.standard_normal((n, d)) * scale, np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    kind = int(rng.integers(0, 6))
    if kind == 1:
        X += 10.0 ** rng.uniform(0, 8) * scale
    elif kind == 2:
        X += rng.choice([-1.0, 1.0], (n, 1)) * 10.0 ** rng.uniform(0, 8) * scale
    elif kind == 3:
        X[n // 2 :] = X[: n - n // 2]
    elif kind == 4:
        X[-2:] = 0.0
        X[-2:, -1] = 1e3 * scale
    elif kind == 5:
        X = (np.round(2 * X / scale) / 2 + y[:, None]) * scale
    choice = int(rng.integers(0, 4)) if kernels else 0
    kernel = [
        None,
        None,
        sx.RBF(10.0 ** rng.uniform(-3, 3) / scale**2),
        sx.Polynomial(3, 1 / scale**2, 1.0),
    ][choice]
    weight = 10.0 ** rng.uniform(-6, 6, n) if rng.random() < 0.4 else None
    if weight is not None:
        weight[0] = 1.0
    return X, y, kernel, weight


def some_models(rng, space):
    """Models of different sizes: at random, and one whose margins are all but 1."""
    n, y, free = space.data.n, space.data.y, space.intercept == "free"
    for fitted in (False, True):
        bias = (
            float(rng.standard_normal() * 10.0 ** rng.uniform(-3, 1))
            if space.intercept != "none"
            else 0.0
        )
        if space.kernel is None:
            X = space.data.X
            w = rng.standard_normal(X.shape[1])
            w *= 10.0 ** rng.uniform(-2, 2) / (float(np.abs(X @ w).max()) or 1.0)
            if fitted:
                w, *_ = np.linalg.lstsq(X, y, rcond=None)
            yield LinearModel(
                coef=w, intercept=bias, classes=np.array([-1, 1]), support=np.arange(n)
            )
            continue
        v = rng.standard_normal(n) * (rng.random(n) < 0.7)
        v = np.linalg.lstsq(space.gram, y, rcond=None)[0] if fitted or not v.any() else v
        v *= (1.0 if fitted else 10.0 ** rng.uniform(-2, 2)) / (
            float(np.abs(space.point(v).scores.value).max()) or 1.0
        )
        yield space.model(v, bias if free else 0.0)


def statement_of(name, rng):
    X, y, kernel, weight = hostile(rng, kernels=name != "absolute norm")
    intercept = str(
        rng.choice(
            {"psvm": ["free", "penalised", "none"], "hard margin": ["free"]}.get(
                name, ["penalised", "none"]
            )
        )
    )
    space = feature_space(binary_data(X, y, weight), kernel, intercept=intercept)
    if name == "psvm":
        p = float(
            rng.choice(
                [
                    1.0,
                    1.0,
                    2.0,
                    1.001,
                    1.5,
                    3.0,
                    1.0 + 10.0 ** rng.uniform(-9, 0),
                    rng.uniform(1.05, 9.5),
                ]
            )
        )
        return (PSVM if intercept == "free" else PenalisedPSVM)(space=space, C=size(rng), p=p)
    return (
        HardMargin(space=space)
        if name == "hard margin"
        else AbsoluteNormSVM(space=space, C=size(rng))
    )


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_psvm(seed):
    rng = np.random.default_rng(seed)
    statement = statement_of("psvm", rng)
    truth = ExactMargins(statement.space)
    numbers = {"C": Ball(statement.C), "p": Ball(statement.p), "weight": balls(statement.weight)}
    for model in [*some_models(rng, statement.space), *statement.trivial()[0]]:
        u, norm = truth.margins(model)
        encloses(statement.margins_of(model), u)
        encloses(statement.penalty(model), norm)
        encloses(statement.losses(model), psvm.objective(0.0, u, **numbers))
        encloses(statement.evaluate(model), psvm.objective(norm, u, **numbers))
    for scale in (1e-3, 1.0, 10.0):
        dual = statement.repair(
            {"alpha": scale * statement.C * statement.weight * rng.random(statement.y.size)}
        )
        alpha = dual["alpha"]
        norm = truth.squared_norm(alpha * statement.y)
        encloses(statement.space.point(alpha * statement.y).squared_norm, norm)
        encloses(statement.minus_conjugate(dual), psvm.dual_objective(balls(alpha), 0.0, **numbers))
        encloses(statement.evaluate_dual(dual), psvm.dual_objective(balls(alpha), norm, **numbers))


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_absolute_norms(seed):
    rng = np.random.default_rng(seed)
    statement = statement_of("absolute norm", rng)
    truth, C, s = ExactMargins(statement.space), Ball(statement.C), balls(statement.weight)
    for model in some_models(rng, statement.space):
        u, _ = truth.margins(model)
        sizes = sum(abs(Ball(c)) for c in [*model.coef, model.intercept])
        losses = sum(
            C * weight * Ball(power((1 - margin).x, 2.0))
            for weight, margin in zip(s, u, strict=True)
        )
        encloses(statement.evaluate(model), sizes + losses)
        assert statement.evaluate(model).terms["losses"] == pytest.approx(
            float(losses.x.mid()), rel=1e-6, abs=1e-300
        )
    dual = statement.repair({"alpha": rng.random(statement.y.size)})
    alpha = balls(dual["alpha"])
    encloses(
        statement.evaluate_dual(dual),
        sum(a - a * a / (4 * C * weight) for a, weight in zip(alpha, s, strict=True)),
    )


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_hard_margins(seed):
    rng = np.random.default_rng(seed)
    statement = statement_of("hard margin", rng)
    truth = ExactMargins(statement.space)
    for model in some_models(rng, statement.space):
        u, norm = truth.margins(model)
        low = statement.margins_of(model).least
        found = statement.value_at(model, low, violated=False)
        assert min(margin.x.mid() for margin in u) >= low
        if low > 0:
            # The objective of the multiple that has every margin for certain.
            encloses(found, norm / 2 / Ball(min(low, 1.0)) ** 2)
    dual = statement.repair({"alpha": size(rng) * rng.random(statement.y.size)})
    alpha = dual["alpha"]
    norm = truth.squared_norm(alpha * statement.y)
    encloses(statement.evaluate_dual(dual), sum(balls(alpha)) - norm / 2)


def exact_shares(statement):
    whole = sum(balls(statement.weight))
    return balls([s / whole for s in balls(statement.weight)])


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_margin_distributions(seed):
    rng = np.random.default_rng(seed)
    X, y, kernel, weight = hostile(rng)
    space = feature_space(
        binary_data(X, y, weight), kernel, intercept=str(rng.choice(["penalised", "none"]))
    )
    statement = ODM(
        space=space, C1=size(rng), C2=size(rng), D=float(rng.choice([0.0, 0.1, rng.random()]))
    )
    truth, c = ExactMargins(space), exact_shares(statement)
    encloses(
        Bounded(
            np.broadcast_to(statement.bounded_share.value, y.size), statement.bounded_share.error
        ),
        c,
    )
    numbers = {name: Ball(getattr(statement, name)) for name in ("C1", "C2", "D")} | {"share": c}
    for model in [*some_models(rng, space), *statement.trivial()[0]]:
        u, norm = truth.margins(model)
        encloses(statement.margins_of(model), u)
        encloses(statement.losses(model), odm.objective(0.0, u, **numbers))
        encloses(statement.evaluate(model), odm.objective(norm, u, **numbers))
    for scale in (1e-3, 10.0):
        theta = scale * rng.standard_normal(y.size) * (rng.random(y.size) < 0.8)
        norm = truth.squared_norm(theta * space.data.y)
        encloses(
            statement.minus_conjugate({"theta": theta}),
            odm.dual_objective(balls(theta), 0.0, **numbers),
        )
        encloses(
            statement.evaluate_dual({"theta": theta}),
            odm.dual_objective(balls(theta), norm, **numbers),
        )


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_means_and_variances_of_margins(seed, hard):
    rng = np.random.default_rng(seed)
    X, y, kernel, weight = hostile(rng)
    space = feature_space(
        binary_data(X, y, weight), kernel, intercept=str(rng.choice(["penalised", "none"]))
    )
    lam1, lam2 = size(rng) * rng.integers(0, 2), size(rng) * rng.integers(0, 2)
    statement = ODMLHardMargin(space, lam1, lam2) if hard else ODML(space, lam1, lam2, C=size(rng))
    truth, c, C = ExactMargins(space), exact_shares(statement), 0.0 if hard else statement.C
    numbers = {"lam1": Ball(lam1), "lam2": Ball(lam2), "C": Ball(C), "share": c}
    for model in some_models(rng, space):
        u, norm = truth.margins(model)
        m = float(rng.standard_normal())
        found = statement.losses_around(statement.margins_of(model), C, m)
        encloses(found, odml.odml_objective(0.0, u, around=Ball(m), **numbers))
        mean = float(statement.share @ statement.margins_of(model).value)
        wanted = odml.odml_objective(norm, u, around=Ball(mean), **numbers)
        encloses(
            statement.value_at(statement.margins_of(model), statement.penalty(model), C), wanted
        )
        # Around any number the variance is at least itself.
        assert not odml.odml_objective(norm, u, **numbers).x > wanted.x
    for scale in (1e-3, 1e3):
        dual = statement.repair({"alpha": scale * rng.random(y.size)})
        alpha, tau = balls(dual["alpha"]), balls(dual["tau"])
        v = truth.y * (alpha + Ball(lam2) * c - tau)
        encloses(statement.coefficients(dual), v)
        norm = truth.squared_norm_of_balls(v)
        encloses(space.squared_norm_of(statement.coefficients(dual)), norm)
        encloses(
            statement.minus_conjugate(dual),
            odml.odml_dual_objective(alpha, tau, 0.0, lam1=Ball(lam1), share=c),
        )
        encloses(
            statement.evaluate_dual(dual),
            odml.odml_dual_objective(alpha, tau, norm, lam1=Ball(lam1), share=c),
        )


# Formulas, apart from statements: a plain number between bounded ones would lose its rounding


def parameters(rng, *names):
    """Hyper-parameters without an error, and as balls."""
    given = {name: float(rng.uniform(1.1, 7.0)) for name in names}
    return {name: exact(x) for name, x in given.items()}, {
        name: Ball(x) for name, x in given.items()
    }


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_formulas_of_the_margin_family(seed):
    rng = np.random.default_rng(seed)
    ours, theirs = parameters(rng, "C", "p")
    u, alpha, s = 2.0 * rng.standard_normal(9), rng.random(9), rng.uniform(0.1, 3.0, 9)
    norm = float(rng.random())
    for formula, x in ((psvm.objective, u), (psvm.dual_objective, alpha)):
        for weight, same in ((s, balls(s)), (1.0, 1.0)):
            args = (x, norm) if formula is psvm.dual_objective else (norm, x)
            exact_args = tuple(balls(a) if np.ndim(a) else Ball(a) for a in args)
            wanted = formula(*exact_args, weight=same, **theirs)
            found = formula(*(exact(a) for a in args), weight=weight, **ours)
            encloses(found, wanted)
            assert formula(
                *args, weight=weight, **{k: v.value for k, v in ours.items()}
            ) == pytest.approx(found.value, rel=1e-12)


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_formulas_of_the_margin_distribution_family(seed):
    rng = np.random.default_rng(seed)
    u, theta, alpha, c = (
        2.0 * rng.standard_normal(9),
        rng.standard_normal(9),
        rng.random(9),
        rng.dirichlet(np.ones(9)),
    )
    norm = float(rng.random())
    band, band_balls = parameters(rng, "C1", "C2")
    D = float(rng.random())
    band, band_balls = band | {"D": exact(D)}, band_balls | {"D": Ball(D)}
    blend, blend_balls = parameters(rng, "lam1", "lam2", "C")
    for formula, arguments, ours, theirs in (
        (odm.objective, (norm, u), band, band_balls),
        (odm.dual_objective, (theta, norm), band, band_balls),
        (odml.odml_objective, (norm, u), blend, blend_balls),
        (
            odml.odml_objective,
            (norm, u),
            blend | {"around": 0.3},
            blend_balls | {"around": Ball(0.3)},
        ),
        (
            odml.odml_dual_objective,
            (alpha, theta, norm),
            {"lam1": blend["lam1"]},
            {"lam1": blend_balls["lam1"]},
        ),
    ):
        for share, same in ((c, balls(c)), (0.125, 0.125)):
            wanted = formula(
                *(balls(a) if np.ndim(a) else Ball(a) for a in arguments), share=same, **theirs
            )
            found = formula(*(exact(a) for a in arguments), share=share, **ours)
            encloses(found, wanted)
            plain = {k: v.value if isinstance(v, Bounded) else v for k, v in ours.items()}
            assert formula(*arguments, share=share, **plain) == pytest.approx(
                found.value, rel=1e-12
            )
            assert found.error <= 1e-13 * (1.0 + abs(found.value))
