"""The common promise of all statements: above ≥ exact ≥ below at any model and any dual point, and
no infeasible point is feasible.

Each class of statement has one maker of hostile cases with its exact objective and dual objective,
written in balls or fractions apart from the package; a class without one fails a test. Sharper
tests of single families stand in the files beside this one.
"""

import importlib
import inspect
import itertools
import math
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import svmcvx as sx
import svmcvx.formulations
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import Formulation, divided
from svmcvx.formulations.conic_loss.statement import ConicFixedGamma, ConicLoss
from svmcvx.formulations.indicator.statement import (
    L0,
    BigMRelaxation,
    PenalisedBigMRelaxation,
    Ramp,
    ZeroOne,
)
from svmcvx.formulations.margin import (
    PSVM,
    AbsoluteNormSVM,
    HardMargin,
    HardMarginInBlocks,
    PenalisedPSVM,
)
from svmcvx.formulations.margin_distribution import ODM, ODML, ODMLHardMargin
from svmcvx.model import LinearModel
from tests.balls import (
    ZERO,
    Exact,
    ExactMargins,
    ball,
    fractions,
    hostile,
    least,
    positive,
    power,
    precision,
    size,
    some_models,
    total,
)
from tests.formulations import test_conic_rounding as conic
from tests.formulations import test_multiclass_rounding as several
from tests.formulations import test_rounding_indicator as indicator
from tests.row_blocks.test_row_blocks import split

precise = precision(1500)
SEEDS = range(8)


class Case(NamedTuple):
    """A statement with points, and what is exactly true of them: the objective of a model (`upper`,
    None where it is infeasible; or `holds`, whether an upper end is attained), the dual objective
    of a repaired point, which `lower` holds to be feasible, and points that violate a constraint.
    """

    statement: Any
    models: list
    duals: list
    upper: Callable | None
    lower: Callable
    wrong: list
    holds: Callable | None = None
    # Whether an objective is bounded from above only.
    one_sided: bool = False


def changed(values, k, value):
    found = np.array(values, dtype=float)
    found[k] = value
    return found


def spaces(rng, intercepts, blocks):
    """Hostile data with their space, and the same rows in blocks if asked for."""
    X, y, kernel, weight = hostile(rng, kernels=not blocks)
    intercept = str(rng.choice(intercepts))
    whole = feature_space(binary_data(X, y, weight), kernel, intercept=intercept)
    return whole, in_blocks(rng, whole) if blocks else whole


def in_blocks(rng, whole):
    data = whole.data
    ends = sorted(rng.choice(np.arange(1, data.n), size=2, replace=False).tolist())
    rows = split(data.X, data.y, ends, data.weight)
    return block_space(rows, None, None, intercept=whole.intercept)


# Soft and hard margins


def alpha_points(rng, n, top):
    return [
        {"alpha": scale * top * rng.random(n) * (rng.random(n) < 0.8)}
        for scale in (1e-3, 1.0, 10.0)
    ]


def feasible_alpha(alpha, y, *, free, most=None):
    alpha = fractions(alpha)
    assert alpha.min() >= 0
    assert not free or alpha @ fractions(y) == 0
    assert most is None or (alpha <= most).all()


def wrong_alpha(y, *, free, most=math.inf):
    zero = np.zeros(y.size)
    i, j = int(np.flatnonzero(y > 0)[0]), int(np.flatnonzero(y < 0)[0])
    top = np.broadcast_to(most, y.size)
    small = min(1e-3, float(top.min()))
    balanced = changed(changed(zero, i, small), j, small)
    points = [changed(balanced, i, math.nan), -balanced]
    if free:
        points += [changed(balanced, i, math.nextafter(small, 0.0)), changed(zero, i, small)]
    if np.isfinite(top).all():
        # Balanced, and above the bound of one of the two.
        above = 1.01 * min(top[i], top[j])
        points.append(changed(changed(zero, i, above), j, above))
    return [{"alpha": alpha} for alpha in points]


def soft(rng, cls=PSVM, blocks=False):
    free = cls is PSVM
    whole, space = spaces(rng, ["free"] if free else ["penalised", "none"], blocks)
    y, s, truth = whole.data.y, whole.data.weight, ExactMargins(whole)
    C, p = size(rng), float(rng.choice([1.0, 1.0, 1.001, 1.5, 2.0, 7.3]))

    def upper(model):
        u, norm = truth.point(model)
        losses = (ball(w) * power(1 - m, p) for w, m in zip(s, u, strict=True))
        return norm / 2 + ball(C) * total(losses)

    def lower(point):
        alpha = np.asarray(point["alpha"])
        feasible_alpha(alpha, y, free=free, most=Fraction(C) * fractions(s) if p == 1 else None)
        value = total(map(ball, alpha)) - truth.squared_norm(alpha * y).x / 2
        if p > 1:
            q = ball(p)
            costs = [ball(C) * ball(w) for w in s]
            value -= total(
                cost * (q - 1) * (ball(a) / (cost * q)) ** (q / (q - 1))
                for a, cost in zip(alpha, costs, strict=True)
                if a > 0
            )
        return value

    wrong = wrong_alpha(y, free=free, most=C * s if p == 1 else math.inf)
    models, duals = list(some_models(rng, whole)), alpha_points(rng, y.size, C * s)
    return Case(cls(space, C, p), models, duals, upper, lower, wrong)


def separable(rng, n=8):
    y = np.resize([1, -1], n)
    X = rng.standard_normal((n, 2)) + 5.0 * y[:, None]
    return X * 10.0 ** rng.uniform(-3, 3) + rng.choice([0.0, 1.0]) * 10.0 ** rng.uniform(0, 8), y


def hard_truth(space):
    """The exact objective of the multiple of a model that has every margin, or of the model itself
    where all margins are 1 or more; and the exact dual objective of a feasible point.
    """
    truth = ExactMargins(space)

    def upper(model):
        u, norm = truth.point(model)
        lowest = least(u).min(ball(1.0))
        return norm / 2 / lowest**2 if lowest > 0 else None

    def lower(point):
        alpha = np.asarray(point["alpha"])
        feasible_alpha(alpha, truth.y, free=True)
        return total(map(ball, alpha)) - truth.squared_norm(alpha * space.data.y).x / 2

    return upper, lower


def hard(rng, blocks=False):
    X, y = separable(rng)
    whole = feature_space(binary_data(X, y), None, intercept="free")
    statement, dual_space = HardMargin(whole), whole
    if blocks:
        # The multipliers are those of six of the eight rows.
        dual_space = feature_space(binary_data(X[:6], y[:6]), None, intercept="free")
        statement = HardMarginInBlocks(in_blocks(rng, whole), HardMargin(dual_space))
    labels = dual_space.data.y
    models = [*some_models(rng, whole), sx.fast.hard_margin(X, y).model]
    return Case(
        statement,
        models,
        alpha_points(rng, labels.size, size(rng)),
        hard_truth(whole)[0],
        hard_truth(dual_space)[1],
        wrong_alpha(labels, free=True),
        one_sided=True,
    )


def absolute(rng):
    X, y, _, weight = hostile(rng, kernels=False)
    intercept = str(rng.choice(["penalised", "none"]))
    space = feature_space(binary_data(X, y, weight), None, intercept=intercept)
    statement = AbsoluteNormSVM(space, C=size(rng))
    truth, s = ExactMargins(statement.space), np.ones(y.size) if weight is None else weight
    penalised, C = statement.space.intercept == "penalised", ball(statement.C)

    def upper(model):
        u, _ = truth.point(model)
        sizes = total(
            abs(ball(c)) for c in [*model.coef, *([model.intercept] if penalised else [])]
        )
        return sizes + total(C * ball(w) * power(1 - m, 2.0) for w, m in zip(s, u, strict=True))

    def lower(point):
        alpha = np.asarray(point["alpha"])
        feasible_alpha(alpha, y, free=False)
        rows = np.column_stack([X, np.ones(y.size)]) if penalised else X
        assert (abs(fractions(rows).T @ (fractions(alpha) * fractions(y))) <= 1).all()
        return total(
            ball(a) - ball(a) ** 2 / (4 * C * ball(w)) for a, w in zip(alpha, s, strict=True)
        )

    wrong = [{"alpha": np.full(y.size, math.nan)}, {"alpha": changed(np.zeros(y.size), 0, -1e-300)}]
    far = int(np.argmax(np.abs(X).max(axis=1)))
    wrong.append({"alpha": changed(np.zeros(y.size), far, 1.001 / np.abs(X[far]).max())})
    return Case(
        statement,
        list(some_models(rng, statement.space)),
        alpha_points(rng, y.size, size(rng)),
        upper,
        lower,
        wrong,
    )


# Margin distributions


def odm(rng, blocks=False):
    whole, space = spaces(rng, ["penalised", "none"], blocks)
    band, n = (size(rng), size(rng), float(rng.choice([0.0, 0.1, rng.random()]))), whole.data.n
    exact = Exact(ODM(whole, *band))
    wrong = [{"theta": changed(np.zeros(n), 1, value)} for value in (math.nan, math.inf)]
    duals = [
        {"theta": scale * rng.standard_normal(n) * (rng.random(n) < 0.8)} for scale in (1e-3, 10.0)
    ]
    models = list(some_models(rng, whole))
    return Case(ODM(space, *band), models, duals, exact.primal, exact.dual, wrong)


def odml_points(rng, n):
    return [
        {"alpha": scale * rng.random(n), "tau": scale * rng.standard_normal(n)}
        for scale in (1e-3, 1.0, 1e3)
    ]


def wrong_odml(n, most, lam1):
    zero = np.zeros(n)
    points = [
        (changed(zero, 0, -1e-300), zero),
        (changed(zero, 0, math.nan), zero),
        (zero, changed(zero, 0, 1e-300)),
        (zero, changed(changed(zero, 0, 1.0), 1, -1.0 + 2.0**-53)),
    ]
    if math.isfinite(most):
        points.append((changed(zero, 0, most * (1 + 1e-12)), zero))
    if lam1 == 0:
        points.append((zero, changed(changed(zero, 0, 1e-3), 1, -1e-3)))
    return [{"alpha": alpha, "tau": tau} for alpha, tau in points]


def odml(rng, blocks=False):
    whole, space = spaces(rng, ["penalised", "none"], blocks)
    weight = whole.data.weight
    lam1, lam2 = size(rng) * rng.integers(0, 2), size(rng) * rng.integers(0, 2)
    C = size(rng)
    exact = Exact(ODML(whole, lam1, lam2, C))
    # The variance is that around the mean as it was computed: an upper end.
    return Case(
        ODML(space, lam1, lam2, C),
        list(some_models(rng, whole)),
        odml_points(rng, weight.size),
        exact.primal,
        exact.dual,
        wrong_odml(weight.size, C * float(weight[0] / weight.sum()), lam1),
        one_sided=True,
    )


def odml_hard(rng):
    X, y = separable(rng)
    space = feature_space(binary_data(X, y), None, intercept=str(rng.choice(["penalised", "none"])))
    lam1, lam2 = size(rng) * rng.integers(0, 2), size(rng) * rng.integers(0, 2)
    statement = ODMLHardMargin(space, lam1, lam2)
    exact = Exact(statement)
    w = np.linalg.lstsq(X, y, rcond=None)[0]
    lowest = float((y * (X @ w)).min())
    models = list(some_models(rng, space))
    if lowest > 0:
        # Margins of 1 as far as can be seen; 0.9, which is infeasible; and those of one row only.
        models += [
            LinearModel(w / m, 0.0, space.data.classes, np.arange(2))
            for m in (lowest, lowest / 0.9, lowest / 3.0)
        ]
    return Case(
        statement,
        models,
        odml_points(rng, y.size),
        exact.scaled,
        exact.dual,
        wrong_odml(y.size, math.inf, lam1),
        one_sided=True,
    )


# The conic loss


def conic_points(rng, statement):
    n, norms = statement.y.size, np.maximum(statement.geometry.norms, 1e-150)
    for scale in (0.1, 10.0):
        gamma = scale * rng.exponential(size=n) / norms**2 / n * (rng.random(n) < 0.8)
        yield {
            "gamma": gamma,
            "alpha": 2.0 * gamma + np.sqrt(gamma) * rng.standard_normal(n),
            "lam": np.array(size(rng)),
        }


def wrong_conic(statement, most=None):
    n, norms = statement.y.size, statement.geometry.norms
    zero, far = np.zeros(n), int(np.argmax(statement.geometry.norms))
    lam = {"lam": np.array(1.0)}
    few = changed(zero, far, 0.1 / norms[far] ** 2)
    points = [
        (changed(few, far - 1, -1e-300), zero),
        (changed(few, far, math.nan), zero),
        (few, changed(zero, far - 1, 1e-3)),
        (few, changed(zero, far, math.inf)),
        (changed(zero, far, 1.001 / norms[far] ** 2), zero),
        (changed(zero, far, 1e6 / norms[far] ** 2), zero),
    ]
    if most is not None:
        points.append((changed(zero, far, most[far] * (1 + 1e-12)), zero))
    return [{"gamma": gamma, "alpha": alpha, **lam} for gamma, alpha in points]


def conic_models(rng, statement):
    r = statement.factor.shape[1]
    reach = max(float(statement.geometry.norms.max()), 1e-150)
    for scale in (0.0, 1e-3, 1.0):
        w = scale * rng.standard_normal(r) / reach
        yield statement.model(w, scale * rng.standard_normal((r, 1 if scale else 0)) / reach)


def conic_data(rng):
    X, y, kernel, weight = hostile(rng)
    return binary_data(X, y, weight), kernel, str(rng.choice(["penalised", "none"]))


def relaxed(rng):
    data, kernel, intercept = conic_data(rng)
    given = (
        {"lam": size(rng)} if rng.random() < 0.6 else {"kappa": float(rng.choice([0.1, 0.3, 0.5]))}
    )
    statement = ConicLoss(space=feature_space(data, kernel, intercept=intercept), **given)

    def upper(model):
        value, missed = conic.exact_objective(statement, model)
        return None if statement.kappa is not None and missed > ball(statement.allowance) else value

    duals = list(conic_points(rng, statement))
    return Case(
        statement,
        list(conic_models(rng, statement)),
        duals,
        upper,
        partial(conic.exact_dual, statement),
        wrong_conic(statement),
        one_sided=True,
    )


def fixed(rng):
    data, kernel, intercept = conic_data(rng)
    space = feature_space(binary_data(data.X, data.y), kernel, intercept=intercept)
    norms = ConicLoss(space=space, lam=1.0).geometry.norms
    gamma = rng.exponential(size=data.n) / np.maximum(norms, 1e-150) ** 2 / (2.0 * data.n)
    statement = ConicFixedGamma(space=space, gamma=gamma, lam=size(rng))
    lam = ball(statement.lam)

    def upper(model):
        u, value = ExactMargins(space).point(model)
        for margin, g in zip(u, map(ball, gamma), strict=True):
            xi = 1 - margin
            if xi > 0:
                value += lam if xi * xi * g > lam else xi * (2 * (g * lam).sqrt() - g * xi)
        return value

    reach = max(float(norms.max()), 1e-150)
    models = [
        statement.model_at(scale * rng.standard_normal(statement.factor.shape[1]) / reach)
        for scale in (0.0, 1e-3, 1.0)
    ]
    duals = [
        {"gamma": point["gamma"], "alpha": point["alpha"]} for point in conic_points(rng, statement)
    ]
    return Case(
        statement,
        models,
        duals,
        upper,
        partial(conic.exact_dual, statement),
        wrong_conic(statement, gamma),
        one_sided=True,
    )


# Counted losses and the ramp loss


def indicators(rng, cls):
    X, y, _, weight = hostile(rng, kernels=False)
    kernel = [None, sx.Polynomial(2, 1.0, 1.0)][int(rng.integers(0, 2))]
    made = indicator.statements(X, y, size(rng), weight, kernel)
    statement = [each for each in made if isinstance(each, cls)][
        int(rng.integers(0, 2)) if cls is ZeroOne else 0
    ]
    models = list(indicator.candidates(statement, rng))
    zero = np.zeros(y.size)
    conic_like = isinstance(statement, ZeroOne)
    duals, wrong = [{}], [{"alpha": zero}]
    if conic_like:
        duals += conic_points(rng, statement.relaxed)
        wrong = wrong_conic(statement.relaxed)

    def lower(point):
        return conic.exact_dual(statement.relaxed, point) if point else ZERO

    def holds(model, above):
        return indicator.attained(statement, model, above)

    return Case(statement, models, duals, None, lower, wrong, holds=holds, one_sided=True)


# Several classes


def class_case(rng, statement, wrong):
    models = list(several.hostile_models(rng, statement))
    duals = list(several.hostile_duals(rng, statement))
    if statement.name == "m3svm":
        size = statement.lam * 10.0 ** rng.uniform(-6, 1)
        duals += [
            {
                **dual,
                "flow": size
                * rng.standard_normal((statement.scores.X.shape[1], statement.P.shape[1])),
            }
            for dual in duals[:2]
        ]

    def lower(point):
        several.assert_feasible(statement, point)
        return several.exact_dual_objective(statement, point)

    return Case(statement, models, duals, partial(several.exact_objective, statement), lower, wrong)


def wrong_classes(statement, rng):
    """Of a feasible point: a negative multiplier, one that is no number, one above its bound, and
    sums that do not balance.
    """
    data = statement.scores.data
    point = statement.repair({"alpha": 0.1 * data.weight[:, None] * rng.random((data.n, data.c))})
    i, own = 0, int(data.codes[0])
    k = next(k for k in range(data.c) if k != own)
    values = [-1e-300, math.nan, 1.01 * float(data.weight[0])]
    if statement.scores.intercept == "free" and point["alpha"][i, k] > 0:
        values.append(math.nextafter(point["alpha"][i, k], 0.0))
    return [{**point, "alpha": changed(point["alpha"], (i, k), value)} for value in values]


def classical(rng):
    c = int(rng.integers(2, 5))
    X, y, weight = several.hostile_data(
        rng, int(rng.integers(c + 1, 9)), int(rng.integers(1, 4)), c
    )
    name = str(rng.choice(list(several.CLASSICAL)))
    options = {"k": int(rng.integers(1, c + 1))} if name == "topk_svm" else {}
    statement = getattr(sx, name)(
        X,
        y,
        lam=several.number(rng, False),
        intercept=bool(rng.random() < 0.7),
        sample_weight=weight,
        **options,
    ).formulation
    return class_case(rng, statement, wrong_classes(statement, rng))


def pairwise(rng):
    X, y, weight = several.hostile_data(
        rng, int(rng.integers(4, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    )
    p = float(rng.choice([1.0, 1.0, 1.001, 1.3, 2.0, 4.5, 40.0]))
    lam, eps = several.number(rng, False), several.number(rng, False)
    loss = str(rng.choice(["hinge", "smoothed", "logistic", "softmax"]))
    norm, delta = int(rng.choice([1, 2])), float(10.0 ** rng.uniform(-9, 3))
    statement = sx.m3svm(
        X, y, lam=lam, p=p, eps=eps, sample_weight=weight, loss=loss, norm=norm, delta=delta
    ).formulation
    wrong = wrong_classes(statement, rng)
    if p == 1:
        point = statement.repair(
            {"alpha": np.zeros((statement.scores.data.n, statement.scores.data.c))}
        )
        wrong.append({**point, "flow": changed(point["flow"], (0, 0), 1.001 * statement.lam)})
    return class_case(rng, statement, wrong)


def pairwise_hard(rng):
    n, c = 8, 3
    y = np.arange(n) % c
    X = (rng.standard_normal((n, 3)) + 12.0 * np.eye(3)[y]) * 10.0 ** rng.uniform(-3, 3)
    statement = sx.m3svm_hard_margin(
        X, y, p=float(rng.choice([1.0, 1.5, 2.0, 8.0, math.inf])), norm=int(rng.choice([1, 2]))
    ).formulation
    W = np.linalg.lstsq(statement.scores.X, np.eye(c)[y] - 1.0 / c, rcond=None)[0]
    lowest = float(statement.differences(W, np.zeros(c)).min())
    models = [
        statement.scores.model(W * factor, np.zeros(c), np.arange(n) < 1)
        for factor in (1.0, 2.0 / max(lowest, 1e-9), 0.5 / max(lowest, 1e-9))
    ]

    def upper(model):
        rows = several.exact_differences(X, y, model.coef, model.intercept)
        lowest = least(itertools.chain(*rows)).min(ball(1.0))
        return (
            several.exact_objective(statement, model)
            / lowest ** (1 if math.isinf(statement.p) else ball(statement.p))
            if lowest > 0
            else None
        )

    def lower(point):
        several.assert_feasible(statement, point)
        # Weak duality is held against all models; the value by itself in the family's own file.
        return

    point = statement.repair({"alpha": rng.random((n, c))})
    k = 1 if y[0] == 0 else 0
    wrong = [
        {**point, "alpha": changed(point["alpha"], (0, k), value)} for value in (-1e-3, math.nan)
    ]
    wrong.append({**point, "alpha": 1.5 * point["alpha"]})
    duals = [{"alpha": rng.random((n, c))}, {"alpha": 10.0 ** rng.uniform(-12, 3, (n, c))}]
    return Case(statement, models, duals, upper, lower, wrong, one_sided=True)


def big_m(rng, free=True):
    X, y, kernel, weight = hostile(rng)
    intercept = "free" if free else str(rng.choice(["penalised", "none"]))
    space = feature_space(binary_data(X, y, weight), kernel, intercept=intercept)
    s, truth, price = space.data.weight, ExactMargins(space), size(rng)
    M = 10.0 ** rng.uniform(-1, 3, y.size) * (rng.random(y.size) < 0.9)
    kind = (Ramp if rng.random() < 0.5 else L0) if free else ZeroOne
    # The price of a dropped row, twice C for the ramp, whose M below 2 are of no use.
    if kind is ZeroOne:
        program, dropped, norms = ZeroOne(space=space, lam=price, explicit=M), ball(price), ball(1)
    else:
        program = kind(space=space, C=price, explicit=M)
        dropped, norms = ball(price) * (2 if kind is Ramp else 1), ball(1) / 2
    # A known incumbent may prove smaller ones.
    wide = BigMRelaxation.of(program)
    M = np.maximum(program.M, 2.0) if kind is Ramp else program.M

    def upper(model):
        u, norm = truth.point(model)
        value = norms * norm
        for margin, most, w in zip(u, map(ball, M), map(ball, s), strict=True):
            if margin < 1:
                if 1 - margin > most:
                    return None
                value += dropped * w * (1 - margin) / most
        return value

    def lower(point):
        alpha = np.asarray(point["alpha"])
        feasible_alpha(alpha, y, free=free)
        # The Lagrangian of the program itself at multipliers of 2·norms·α, z in [0, 1].
        spent = (
            positive(2 * norms * ball(m) * ball(a) - dropped * ball(w))
            for a, m, w in zip(alpha, M, s, strict=True)
        )
        quadratic = truth.squared_norm(alpha * y).x
        return 2 * norms * total(map(ball, alpha)) - total(spent) - norms * quadratic

    # Most models violate a bound on their margins; their multiples within all bounds do not.
    models = [*some_models(rng, space)]
    divisors = [wide.divisor(model) or 1.0 for model in models]
    models += [divided(m, by, m.intercept / by) for m, by in zip(models, divisors, strict=True)]
    duals = alpha_points(rng, y.size, price * s / np.maximum(M, 0.1))
    assert type(wide) is (BigMRelaxation if free else PenalisedBigMRelaxation)
    wrong = wrong_alpha(y, free=free)
    return Case(wide, models, duals, upper, lower, wrong, one_sided=True)


MAKERS = {
    "BigMRelaxation": big_m,
    "PenalisedBigMRelaxation": partial(big_m, free=False),
    "PSVM": soft,
    "PenalisedPSVM": partial(soft, cls=PenalisedPSVM),
    "HardMargin": hard,
    "AbsoluteNormSVM": absolute,
    "ODM": odm,
    "ODML": odml,
    "ODMLHardMargin": odml_hard,
    "ConicLoss": relaxed,
    "ConicFixedGamma": fixed,
    **{cls.__name__: partial(indicators, cls=cls) for cls in (ZeroOne, L0, Ramp)},
    "ClassicalStatement": classical,
    "M3SVM": pairwise,
    "HardMarginM3SVM": pairwise_hard,
    "PSVM in blocks": partial(soft, blocks=True),
    "PenalisedPSVM in blocks": partial(soft, cls=PenalisedPSVM, blocks=True),
    "HardMarginInBlocks": partial(hard, blocks=True),
    "ODM in blocks": partial(odm, blocks=True),
    "ODML in blocks": partial(odml, blocks=True),
}
# Wraps any of the others.
ELSEWHERE = {"ConstrainedStatement"}

every_statement = pytest.mark.parametrize("name", MAKERS)
every_seed = pytest.mark.parametrize("seed", SEEDS)


def statements():
    for found in pkgutil.walk_packages(svmcvx.formulations.__path__, "svmcvx.formulations."):
        module = importlib.import_module(found.name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(cls, Formulation)
                and cls.__module__ == found.name
                and not inspect.isabstract(cls)
            ):
                yield cls


def test_no_statement_is_left_out():
    known = {name.removesuffix(" in blocks") for name in MAKERS}
    assert {cls.__name__ for cls in statements()} == known | ELSEWHERE


@every_seed
@every_statement
def test_above_exact_below(name, seed):
    case = MAKERS[name](np.random.default_rng(seed))
    statement = case.statement
    known_models, known_duals = statement.trivial()
    uppers = []
    for model in [*case.models, *known_models]:
        found = statement.evaluate(model)
        if math.isnan(found.upper_end):
            continue
        if case.holds is not None:
            assert found.upper_end == math.inf or case.holds(model, found.upper_end)
            continue
        exact = case.upper(model)
        if exact is None:
            # A row may be met to a rounding that is below what decides it exactly, never by more.
            assert found.upper_end == math.inf
            continue
        assert not exact > ball(found.upper_end), (exact, found)
        if not case.one_sided:
            assert not exact < ball(found.lower_end), (exact, found)
        if math.isfinite(found.upper_end):
            # Its terms make up the value.
            assert math.isclose(
                sum(found.terms.values()),
                found.value,
                rel_tol=1e-9,
                abs_tol=2 * found.error + 1e-300,
            )
            uppers.append(exact)
    for dual in [*case.duals, *known_duals]:
        point = statement.repair(dual)
        assert statement.dual_violation(point) == 0
        # What is feasible stays as it is; of columns that were scaled to 1 the last digits may fall
        # once more.
        again, rough = statement.repair(point), name == "AbsoluteNormSVM"
        same = partial(np.allclose, rtol=1e-13, atol=0.0) if rough else np.array_equal
        assert all(same(again[entry], point[entry]) for entry in point)
        found, exact = statement.evaluate_dual(point), case.lower(point)
        assert exact is None or not exact < ball(found.lower_end), (exact, found)
        for upper in uppers:
            assert not upper < ball(found.lower_end)


@every_seed
@every_statement
def test_infeasible_points_have_a_violation(name, seed):
    case = MAKERS[name](np.random.default_rng(seed))
    for wrong in case.wrong:
        assert case.statement.dual_violation(wrong) > 0, wrong
