r"""Machines of several classes, in balls; ``docs/proof_format.md`` has the losses of differences of
scores, their functions q with their domains, and the penalties.

Free biases need :math:`B'1 = 0`: an imbalance of rounding is mixed away with multipliers that are
equal within a class, and α is scaled down to :math:`|G_{jk}| \le \lambda` where Ω is the sum of
absolute values, both in exact terms, as the domains contain 0 and some (u, …, u).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from flint import arb, fmpq

from svmcvx.proofs.balls import Balls, Fractions, fractions
from svmcvx.proofs.intervals import Bools, Rows
from svmcvx.proofs.margin import ROUNDING, SHORTEST
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.space import Space

Balled: TypeAlias = Space[Balls]

# A multiplier may be above its bound by this share; more is no rounding.
EXCESS = 1 + fractions(ROUNDING).item()
BOXES = ("hinge", "smoothed", "logistic")
# The norm of flows by that of weights.
DUAL = {1.0: math.inf, 2.0: 2.0}
# The losses of machines that have no choice.
LOSSES = {
    **dict.fromkeys(("weston_watkins", "msvm"), "hinge"),
    **dict.fromkeys(("crammer_singer", "topk_svm"), "largest"),
    **dict.fromkeys(("multinomial_lr", "sparse_multinomial_lr"), "softmax"),
    "m3svm_hard_margin": "margin",
}


class Loss:
    """The loss of a problem; arrays have a row per observation and a column per other class."""

    def __init__(self, problem: Problem) -> None:
        numbers = problem.statement.hyperparameters
        self.name = str(numbers.get("loss", LOSSES.get(problem.formulation)))
        self.delta: float = numbers.get("delta", 0.0)
        self.k: int = numbers.get("k", 1)

    def value(self, f: Balls) -> Balls:
        slack = 1.0 - f
        if self.name == "hinge":
            return slack.nonneg().sum(axis=1)
        if self.name == "smoothed":
            square = Balls.exactly(self.delta) * self.delta
            root = (slack * slack + square).root()
            return (slack.by_sign(slack + root, square / (root - slack)) * 0.5).sum(axis=1)
        if self.name == "logistic":
            return (-f).exp().log1p().sum(axis=1)
        if self.name == "softmax":
            return (-f).exp().sum(axis=1).log1p()
        # The mean of the k largest of these and 0 grows with every slack.
        slack = Balls(np.pad(slack.values, ((0, 0), (0, 1)), constant_values=arb(0)))
        low, high = (
            (Balls(np.sort(end(slack.values), axis=1)[:, -self.k :]).sum(axis=1) / self.k).nonneg()
            for end in (np.frompyfunc(arb.lower, 1, 1), np.frompyfunc(arb.upper, 1, 1))
        )
        return Balls(np.frompyfunc(arb.union, 2, 1)(low.values, high.values))

    def gain(self, a: Balls) -> Balls:
        """Return g at multipliers inside the domain."""
        if self.name == "smoothed":
            return (a + (a * (1.0 - a)).nonneg().root() * self.delta).sum(axis=1)
        if self.name == "logistic":
            return (a.entropy() + _rest_entropy(a)).sum(axis=1)
        if self.name == "softmax":
            return a.entropy().sum(axis=1) + _rest_entropy(a.sum(axis=1))
        return a.sum(axis=1)

    def uniform(self, others: int) -> Any:
        """Return the largest u, at most 1, for which (u, …, u) is inside the domain."""
        return fmpq(1) if self.name in (*BOXES, "margin") else fmpq(1, max(self.k, others))

    def inside(self, alpha: Fractions, s: Fractions, rows: Rows) -> Fractions:
        """Return multipliers of weights s, moved into the domain; refuse those clearly outside."""

        def cut(bound: Fractions, why: str) -> Fractions:
            for i, k in np.argwhere(alpha > bound * EXCESS)[:1]:
                value, most = _float(alpha[i, k]), _float(bound[i, 0])
                raise ProofRejected(
                    f"a multiplier of row {rows[i]} is {value!r}, above {why.format(repr(most))}"
                )
            return np.asarray(np.minimum(alpha, bound))

        for i, k in np.argwhere(alpha < 0)[:1]:
            raise ProofRejected(
                f"a multiplier of row {rows[i]} is {_float(alpha[i, k])!r}, below 0"
            )
        if self.name == "margin":
            return alpha
        alpha = cut((s if self.name in BOXES else s / fmpq(self.k))[:, None], "its bound {}")
        if self.name in BOXES:
            return alpha
        whole = _sum(alpha, axis=1)
        for i in np.flatnonzero(whole > s):
            if whole[i] > s[i] * EXCESS:
                raise ProofRejected(
                    f"a multiplier of row {rows[i]} and the others of this row sum to"
                    f" {_float(whole[i])!r}, above {_float(s[i])!r}"
                )
            alpha[i] = alpha[i] * (s[i] / whole[i])
        if self.k > 1:
            ceiling = np.array([[self._ceiling(row)] for row in alpha], dtype=object)
            alpha = cut(ceiling, f"{{}}, the share that the top-{self.k} loss allows")
        return alpha

    def _ceiling(self, alpha: Fractions) -> Any:
        """The largest τ for which multipliers cut to τ have (k − 1)τ ≤ their sum."""
        ordered = sorted(alpha)
        cuts = range(min(self.k - 1, len(ordered) + 1))
        return min(sum(ordered[: len(ordered) - m], fmpq(0)) / fmpq(self.k - 1 - m) for m in cuts)


def _rest_entropy(x: Balls) -> Balls:
    """Return the entropy of 1 - x, about x where x is small: 1 - x alone would lose its digits."""
    small = np.array([bool(y < 0.5) for y in x.entries], dtype=bool).reshape(x.values.shape)
    found = (1.0 - x).entropy()
    found.values[small] = ((x - 1.0) * (-x).log1p()).values[small]
    return found


def _float(value: Any) -> float:
    return float(arb(value).mid())


def _sum(values: Fractions, axis: int | None = None) -> Any:
    return np.add.reduce(values, axis=axis, initial=fmpq(0))


def _squared(values: Balls) -> Balls:
    return (values * values).sum()


def _columns(X: Any, W: Balls) -> Balls:
    found = [Balls.times(X, W[:, k]).values for k in range(W.values.shape[1])]
    return Balls(np.stack(found, axis=1))


def _own(problem: Problem) -> Bools:
    classes = np.arange(len(problem.statement.classes))
    return np.asarray(problem.codes[problem.index][:, None] == classes)


# The model.


def _weights(problem: Problem) -> tuple[Balls, Balls]:
    W, b = problem.proof.model["coef"], problem.proof.model["intercept"]
    if problem.statement.intercept == "none" and np.ptp(b) > 0:
        raise ProofRejected("the biases of the model differ, the formulation has none")
    return Balls.exactly(W), Balls.exactly(b)


def _differences(space: Balled) -> Balls:
    (W, b), own = _weights(space.problem), _own(space.problem)
    scores = (_columns(space.rows, W) + b).values
    return Balls(scores[own][:, None] - scores[~own].reshape(space.problem.n, -1))


def _losses(space: Balled) -> Balls:
    return (Loss(space.problem).value(_differences(space)) * space.problem.weight).sum()


def _pairs(columns: Balls) -> Balls:
    """The differences of two columns, k < l."""
    k, other = np.triu_indices(columns.values.shape[1], 1)
    return columns[:, k] - columns[:, other]


def _lengths(v: Balls, norm: float) -> Balls:
    """The lengths of columns; the largest sizes for the dual of the 1-norm."""
    if norm == math.inf:
        return Balls([v[:, j].size().greatest().ball for j in range(v.values.shape[1])])
    return v.size().sum(axis=0) if norm == 1 else (v * v).sum(axis=0).root()


# Multipliers.


class Point(NamedTuple):
    """Multipliers inside the domain of a loss, without those of the own class, and G and g."""

    alpha: Balls
    G: Balls
    g: Balls


def _point(space: Balled) -> Point:
    """Return a proof's multipliers inside the domain, balanced for free biases, or refuse them."""
    problem, own = space.problem, _own(space.problem)
    given, s = problem.dual("alpha"), fractions(problem.weight)
    for i in np.flatnonzero(given[own])[:1]:
        raise ProofRejected(
            f"the multiplier of row {problem.index[i]} and its own class is"
            f" {float(given[own][i])!r}, not 0"
        )
    others = fractions(given[~own]).reshape(problem.n, -1)
    alpha = Loss(problem).inside(others, s, problem.index)
    if problem.free:
        alpha = _balanced(problem, alpha, s)
    B = Balls.exactly(_coefficients(alpha, own))
    X = space.rows.T if not hasattr(space.rows, "tocsr") else space.rows.T.tocsr()
    return Point(Balls.exactly(alpha), _columns(X, B), B.sum(axis=0))


def _coefficients(alpha: Fractions, own: Bools) -> Fractions:
    B = np.empty(own.shape, dtype=object)
    B[~own], B[own] = -alpha.ravel(), _sum(alpha, axis=1)
    return B


def _balanced(problem: Problem, alpha: Fractions, s: Fractions) -> Fractions:
    """Mix in multipliers that are equal within a class until B'1 = 0."""
    own, loss = _own(problem), Loss(problem)
    excess, c = _sum(_coefficients(alpha, own), axis=0), own.shape[1]
    if not excess.any():
        return alpha
    worst = int(np.argmax(np.abs(excess)))
    if abs(excess[worst]) > (EXCESS - 1) * _sum(alpha):
        raise ProofRejected(
            f"the multipliers of class {problem.statement.classes[worst]} do not balance: B'1"
            f" = 0 is off by {_float(excess[worst]):.6g}"
        )
    whole = np.array([_sum(s[own[:, k]]) for k in range(c)], dtype=object)
    if (whole == 0).any():
        raise ProofRejected(
            "a class has no observation of positive weight, so that its bias is not bounded"
        )
    u = loss.uniform(c - 1)
    wanted = (max(excess) - excess) / (whole * u * c)
    share = fmpq(1) if loss.name == "margin" else 1 / (1 + max(wanted))
    codes = problem.codes[problem.index]
    return np.asarray((alpha + (s * u * wanted[codes])[:, None]) * share)


def _gain(space: Balled, alpha: Balls) -> Balls:
    """Return Σ s q(α/s)."""
    s = Balls.exactly(space.problem.weight)
    return (s * Loss(space.problem).gain(alpha / s[:, None])).sum()


def _flows(space: Balled, G: Balls) -> Balls:
    """The flows S between the classes of each pair, by default those of divergence G."""
    given = space.problem.proof.dual.get("flow")
    return _pairs(G) / arb(G.values.shape[1]) if given is None else Balls.exactly(given)


def _rest(G: Balls, flows: Balls) -> Balls:
    """The gradient without the flows, R."""
    R = G.values.copy()
    for j, (k, other) in enumerate(zip(*np.triu_indices(R.shape[1], 1), strict=True)):
        R[:, k], R[:, other] = R[:, k] - flows.values[:, j], R[:, other] + flows.values[:, j]
    return Balls(R)


def _conjugates(sizes: Balls, lam: float, p: float) -> Balls:
    """Σ (p − 1) λ (size/(λp))^{p/(p−1)}."""
    exact, price = Balls.exactly(p), Balls.exactly(lam)
    return (exact - 1.0) * price * (sizes / (price * p)).power(exact / (exact - 1.0)).sum()


def fitting(bound: float, sizes: Balls) -> Balls:
    """Return numbers of at most 1 that bring sizes below a bound."""
    b = arb(bound)
    return Balls([(arb(1) if x <= b else (b / x.upper()).lower()) for x in sizes.entries])


# The formulations.


def _classical_upper(space: Balled) -> Balls:
    problem, name = space.problem, space.problem.formulation
    W, _ = _weights(problem)
    penalty = W.size().sum() if name == "sparse_multinomial_lr" else _squared(W)
    if name == "msvm":
        penalty = (penalty + _squared(_pairs(W))) * 0.5
    return _losses(space) + penalty * problem.number("lam")


def _classical_lower(space: Balled) -> Balls:
    problem, lam, name = space.problem, space.problem.number("lam"), space.problem.formulation
    alpha, G, _ = _point(space)
    if name == "sparse_multinomial_lr":
        # Constraints |G| ≤ λ in place of a conjugate.
        j, k = np.unravel_index(np.argmax(np.abs(G.middle)), G.values.shape)
        if abs(G.values[j, k]) > arb(lam) * (1 + arb(ROUNDING)):
            raise ProofRejected(
                f"the gradient of feature {j} and class {problem.statement.classes[k]} is"
                f" {float(G.middle[j, k])!r}, above lam in size"
            )
        factor = fitting(lam, G.size()).least()
        return _gain(space, alpha if factor.ball == 1 else alpha * factor)
    curvature = (G.values.shape[1] + 1) / 2 if name == "msvm" else 1.0
    return _gain(space, alpha) - _squared(G) / (Balls.exactly(lam) * (4.0 * curvature))


def _m3svm_upper(space: Balled) -> Balls:
    problem, (W, b) = space.problem, _weights(space.problem)
    lengths = _lengths(_pairs(W), problem.number("norm")).power(problem.number("p")).sum()
    ridge = (_squared(W) + _squared(b)) * problem.number("eps")
    return _losses(space) + lengths * problem.number("lam") + ridge


def _m3svm_lower(space: Balled) -> Balls:
    problem, classes = space.problem, space.problem.statement.classes
    lam, p, eps = (problem.number(name) for name in ("lam", "p", "eps"))
    alpha, G, g = _point(space)
    flows, value = _flows(space, G), _gain(space, alpha)
    sizes = _lengths(flows, DUAL[problem.number("norm")])
    if p > 1:
        value = value - _conjugates(sizes, lam, p)
    else:
        long = sizes.above(arb(lam) * (1 + arb(ROUNDING)))
        for j in np.flatnonzero(long)[:1] if "flow" in problem.proof.dual else ():
            k, other = (int(ends[j]) for ends in np.triu_indices(len(classes), 1))
            raise ProofRejected(
                f"the flow between the classes {classes[k]} and {classes[other]} is"
                f" {float(sizes.middle[j])!r} long, above lam"
            )
        flows = flows * fitting(lam, sizes)
    left = _squared(_rest(G, flows)) + _squared(g)
    return value - left / (Balls.exactly(eps) * 4.0)


def _hard_upper(space: Balled) -> Balls:
    p, norm = space.problem.number("p"), space.problem.number("norm")
    smallest = Balls([arb(1), *_differences(space).entries]).least()
    if not smallest.ends[0] >= SHORTEST:
        raise ProofRejected(
            f"a difference of scores is {float(smallest.middle):.6g} at the model, below 1"
        )
    lengths = _lengths(_pairs(_weights(space.problem)[0]) / smallest, norm)
    return lengths.greatest() if math.isinf(p) else lengths.power(p).sum()


def _hard_lower(space: Balled) -> Balls:
    p, norm = space.problem.number("p"), DUAL[space.problem.number("norm")]
    alpha, G, _ = _point(space)
    flows, value = _flows(space, G), alpha.sum()
    # The rest has columns that sum to 0: flows (R_k − R_l)/c carry it away.
    more = _pairs(_rest(G, flows)) / arb(G.values.shape[1])
    given, sizes = _lengths(flows, norm), _lengths(flows + more, norm)
    if 1 < p < math.inf:
        return value - _conjugates(sizes, 1.0, p)
    longest = given.greatest() if p == 1 else given.sum()
    if longest.above(1 + arb(ROUNDING)):
        raise ProofRejected(f"the flows are {float(longest.middle)!r} long, above 1")
    # A rest of large rows, which is their rounding, may lengthen them by more than the flows
    # themselves may be too long.
    return value * fitting(1.0, sizes if p == 1 else sizes.sum()).least()


FAMILY: dict[str, Any] = {
    **dict.fromkeys(LOSSES, (_classical_upper, _classical_lower)),
    "m3svm": (_m3svm_upper, _m3svm_lower),
    "m3svm_hard_margin": (_hard_upper, _hard_lower),
}
