"""The pSVM of many pairs of classes, or of each class against the rest, as one problem.

Observations are sorted by class once; rows of the kernel matrix are computed when a problem first
needs them, and shared by all (:mod:`svmcvx.kernels.class_rows`); one compiled loop solves the
problems (:mod:`svmcvx.fast.margin.pairs_passes`), and one evaluation of arrays certifies all of
them (:mod:`svmcvx.formulations.margin_pairs`). What does not end with the wanted gap is left to
:func:`svmcvx.fast.psvm`. A :class:`~svmcvx.Solution` of one problem is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import combinations, pairwise
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import CheckedParts, certificate_of_sum, check_parts
from svmcvx.data import CodedLabels, binary_data, equal_rows, summed
from svmcvx.fast.margin.pairs_passes import COMPARED, DONE, STATE, STEPS, Answers, Problems, ascend
from svmcvx.fast.margin.smo_passes import near_best_bias
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin import PSVM, best_bias
from svmcvx.formulations.margin_pairs import PartsPoint, PSVMParts
from svmcvx.kernels import Kernel, Precomputed
from svmcvx.kernels.class_rows import TESTED, ClassRows, Layout, begins
from svmcvx.kernels.gram import shared_cache
from svmcvx.model import BinaryModel, LinearModel, Members, OneVsModel, frozen, joined
from svmcvx.solution import Attempt, LazySolution, OptimalIntercepts, Solution, Status, Timings
from svmcvx.system.deadline import Deadline, current, deferred_interrupt
from svmcvx.system.memory import columns_in
from svmcvx.system.threads import single_blas_thread

SOLVER = "fast.psvm/pairs"
# Numbers that are updated between two looks at the clock.
BUDGET = 1e8
# Share of the kernel's rows after whose computation all others follow at once if at least the
# second share of the observations has a multiplier or a loss: fewer of them are needed otherwise.
EARLY, MOST = 0.15, 0.95


@dataclass(frozen=True, eq=False)
class SolvedParts:
    """Answers on the distinct rows `X`, sorted by class: `order` has the first observation equal
    to each, `place` the row of each observation, and `share` its part of the row's weight.
    """

    X: Floats
    order: NDArray[np.intp]
    place: NDArray[np.intp]
    share: Floats | None
    labels: CodedLabels
    weight: Floats | None
    scheme: str
    layout: Layout
    y: Floats
    kernel: Kernel | None
    C: float
    p: float
    point: PartsPoint
    coef: Floats | None
    checked: CheckedParts
    steps: NDArray[np.int64]
    certified: NDArray[np.bool_]
    timings: Timings

    formulation: ClassVar[str] = PSVM.name
    solver: ClassVar[str] = SOLVER

    @property
    def hyperparameters(self) -> dict[str, Any]:
        kernel = "none" if self.kernel is None else str(self.kernel)
        return {"C": self.C, "p": self.p, "kernel": kernel}

    def _sides(self, part: int) -> tuple[int, NDArray[Any]]:
        """Return the code of a problem's positive class, and its two labels."""
        if self.scheme == "ovr":
            return part, np.arange(2)
        pair = _pairs(self.labels.classes.size)[part]
        return pair[1], self.labels.classes[pair]

    def members(self, others: dict[int, Any]) -> Members:
        """Return the models of all problems; `others` are those that were solved otherwise."""
        alpha, bias = self.point.alpha, self.point.bias.copy()
        sides = [self._sides(part)[1] for part in range(self.layout.parts)]
        place, chosen = self.order[self.layout.all_rows], np.flatnonzero(alpha)
        # numpy.split takes a multiple of the time of these.
        ends = pairwise(np.searchsorted(chosen, self.layout.offsets).tolist())
        cuts, rows = [slice(*pair) for pair in ends], place[chosen]
        supports = [rows[cut] for cut in cuts]
        linear = any(isinstance(model, LinearModel) for model in others.values())
        normals = self._normals() if self.coef is None and linear else self.coef
        for part, model in others.items():
            bias[part], supports[part] = model.intercept, model.support
        if normals is not None:
            coef = normals.copy()
            for part, model in others.items():
                plain = isinstance(model, LinearModel)
                coef[part] = model.coef if plain else model.vectors.T @ model.dual_coef
            supports = [np.sort(rows) for rows in supports]
            return Members(None, None, coef.T, bias, supports, sides, coef.shape[1])
        whole = alpha[chosen] * self.y[chosen]
        v = [whole[cut] for cut in cuts]
        for part, model in others.items():
            v[part] = model.dual_coef
        support, _, table = joined(supports, v)
        assert self.kernel is not None  # noqa: S101 - a linear machine has normals
        given = isinstance(self.kernel, Precomputed)
        vectors = None if given else self.X[self.place[support]]
        return Members(self.kernel, vectors, table, bias, [support], sides, self.X.shape[1])

    def _normals(self) -> Floats:
        v = self.point.alpha * self.y
        parts = range(self.layout.parts)
        return np.stack([v[self.layout.slices[k]] @ self.X[self.layout.rows(k)] for k in parts])

    def _rows(self, part: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return a problem's observations, and the place of each in its numbers."""
        at = np.full(self.order.size, -1, dtype=np.intp)
        at[self.layout.rows(part)] = np.arange(self.layout.sizes[part])
        original = np.flatnonzero(at[self.place] >= 0)
        return original, at[self.place[original]]

    def _dual(self, part: int, statement: Callable[[], PSVM]) -> dict[str, Floats]:
        """Return a problem's multipliers, those of equal rows by their weights."""
        original, at = self._rows(part)
        alpha = self.point.alpha[self.layout.slices[part]][at]
        if self.share is None:
            return {"alpha": alpha}
        return dict(statement().repair({"alpha": alpha * self.share[original]}))

    def _statement(self, part: int) -> PSVM:
        original, _ = self._rows(part)
        X, codes = taken(self.X, self.place[original], self.kernel), self.labels.codes[original]
        positive, sides = self._sides(part)
        labels = CodedLabels((codes == positive).astype(np.intp), sides, X)
        data = binary_data(X, labels, None if self.weight is None else self.weight[original])
        space = feature_space(data, self.kernel, intercept="free", keep_gram=False)
        return PSVM(space=space, C=self.C, p=self.p)

    def solution(self, part: int, model: Callable[[], BinaryModel]) -> Solution:
        """Return a problem's solution, with a lazy model whose support counts all rows."""
        checked, timings = self.checked, self.timings
        if self.steps.size > 1:
            share = int(self.steps[part]) / max(int(self.steps.sum()), 1)
            timings = Timings(
                *(share * getattr(self.timings, each.name) for each in fields(Timings))
            )
        statement = cache(lambda: self._statement(part))

        def intercepts() -> OptimalIntercepts | None:
            local: Any = model()
            support = np.searchsorted(self._rows(part)[0], local.support)
            return statement().optimal_intercepts(replace(local, support=support))

        computed = {
            "model": model,
            "attempts": lambda: (self.attempt(part),),
            "dual": lambda: self._dual(part, statement),
            "trace": lambda: [[self.timings.total, checked.lower[part], checked.upper[part]]],
            "hyperparameters": lambda: self.hyperparameters,
            "terms": lambda: {
                "regulariser": float(checked.regulariser[part]),
                "losses": float(checked.losses[part]),
            },
            "evidence": lambda: replace(
                cast(Any, statement().evidence()), rows=self._rows(part)[0]
            ),
            "data": lambda: statement().data_facts,
            "optimal_intercepts": intercepts,
        }
        return LazySolution.of(
            computed,
            certificate=checked.certificate(part),
            status=Status.OPTIMAL,
            solver=SOLVER,
            timings=timings,
            formulation=self.formulation,
        )

    def composite(self, others: Mapping[int, Solution]) -> Solution:
        """Return the solution of all problems, with `others`, by place, solved otherwise."""
        every = self.checked.gaps.copy()
        for place, solution in others.items():
            every[place] = solution.certificate.gap
        worst = max(range(len(every)), key=every.__getitem__)
        unfinished = [
            solution.status for solution in others.values() if solution.status is not Status.OPTIMAL
        ]
        models: Any = {place: solution.model for place, solution in others.items()}
        members = cache(lambda: self.members(models))
        names = self.labels.classes.tolist()
        keys = [*combinations(names, 2)] if self.scheme == "ovo" else names

        def parts() -> dict[Any, Solution]:
            return {
                key: others[k]
                if k in others
                else self.solution(k, partial(members().__getitem__, k))
                for k, key in enumerate(keys)
            }

        def attempts() -> tuple[Attempt, ...]:
            each = (
                others[k].attempts if k in others else (self.attempt(k),) for k in range(len(every))
            )
            return tuple(attempt for found in each for attempt in found)

        computed = {
            "model": lambda: OneVsModel(
                scheme=self.scheme, members=members(), classes=self.labels.classes
            ),
            "attempts": attempts,
            "parts": parts,
            "trace": lambda: np.zeros((0, 3)),
            "hyperparameters": lambda: {**self.hyperparameters, "multiclass": self.scheme},
        }
        return LazySolution.of(
            computed,
            certificate=certificate_of_sum(
                {
                    key: others[k].certificate if k in others else self.checked.certificate(k)
                    for k, key in enumerate(keys)
                }
            ),
            status=unfinished[0] if unfinished else Status.OPTIMAL,
            solver=others[worst].solver if worst in others else self.solver,
            timings=sum((solution.timings for solution in others.values()), self.timings),
            formulation=self.formulation,
        )

    def attempt(self, part: int) -> Attempt:
        steps = int(self.steps[part])
        share = steps / max(int(self.steps.sum()), 1)
        return Attempt(
            SOLVER,
            Status.OPTIMAL,
            seconds=share * self.timings.solve,
            gap=self.checked.gaps[part],
            options={"selection": "second-order", "pair_steps": steps},
            iterations=steps,
        )


def taken(X: Floats, rows: NDArray[np.intp], kernel: Kernel | None) -> Floats:
    """Return a copy of rows of the data, and of a kernel matrix the columns, too."""
    some = X[rows]
    return np.ascontiguousarray(some[:, rows]) if isinstance(kernel, Precomputed) else some


def _sorted(
    X: Any, codes: NDArray[np.intp], weight: Floats | None, kernel: Any, by_class: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats | None, Floats | None]:
    """Merge equal rows, if the sums of their weights are exact, and sort them; return `order`,
    `place` and `share` of :class:`SolvedParts`, and the weights of the rows.
    """
    first = place = np.arange(codes.size)
    share, whole = None, weight is None or (weight == np.rint(weight)).all()
    if whole and not isinstance(kernel, TESTED) and (found := equal_rows(X, codes)) is not None:
        first, place = found
        each = np.ones(codes.size) if weight is None else weight
        weight, share = summed(each, place)
    order = np.argsort(codes[first], kind="stable") if by_class else np.arange(first.size)
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size)
    return first[order], inverse[place], share, None if weight is None else weight[order]


def _layout(labels: CodedLabels, scheme: str) -> tuple[Layout, NDArray[np.intp]]:
    """Return the problems and the positive class of each: the later of a pair, or the one."""
    count = labels.classes.size
    pairs = _pairs(count)
    if scheme == "ovr" or count == 2:
        positive = np.arange(count) if scheme == "ovr" else pairs[:, 1]
        return Layout([0, len(labels)], [[0, -1]] * positive.size), positive
    return Layout(begins(np.bincount(labels.codes, minlength=count)), pairs), pairs[:, 1]


@cache
def _pairs(count: int) -> NDArray[np.int64]:
    return frozen(np.array(list(combinations(range(count), 2)), dtype=np.int64))


@single_blas_thread()
@np.errstate(all="ignore")
def solve_parts(
    X: Any,
    labels: CodedLabels,
    weight: Floats | None,
    *,
    scheme: str,
    C: Any,
    p: Any,
    kernel: Kernel | None,
    tol: float,
    cache_size: float,
) -> SolvedParts | None:
    """Solve the pSVM with a free intercept of all pairs; None if data or settings do not fit."""
    # Observations of one problem, of which a linear one has fewer unknowns than multipliers, and of
    # several: with more, the methods that take one problem need less time.
    alone = 600 if kernel is None else 4_000
    most = alone if labels.classes.size == 2 else 20_000
    # Others are refused by fast.psvm, with the same words on every route.
    known = {type(C), type(p)} <= {int, float, np.float64}
    # The scores of the loop are sums in double precision, which limits the tolerance.
    if not known or tol < 1e-10 or not isinstance(X, np.ndarray):
        return None
    if p != 1 and (labels.classes.size == 2 or not 1.1 <= p <= 10.0):
        return None
    C, p = float(C), float(p)
    least, largest = (1.0, 1.0) if weight is None else (weight.min(), weight.max())
    by_class = scheme == "ovo" and labels.classes.size > 2
    order, place, share, sorted_weight = _sorted(X, labels.codes, weight, kernel, by_class)
    codes = labels.codes[order]
    if order.size > most:
        return None
    layout, positive = _layout(CodedLabels(codes, labels.classes), scheme)
    deadline, room = current(), columns_in(cache_size, 1)
    # Between these the arithmetic of the loop neither over- nor underflows noticeably.
    if not (C * least >= 1e-50 and C * largest <= 1e50 and ClassRows.takes(kernel, X, room)):
        return None
    sorted_X = taken(X, order, kernel) if by_class or share is not None else X.copy()
    every = layout.all_rows
    centre = np.add.reduce(sorted_X) / len(order) if kernel is None else np.zeros(X.shape[1])
    shared = shared_cache()
    rows = (ClassRows if shared is None else shared.class_rows)(
        kernel, sorted_X - centre if kernel is None else sorted_X, layout.starts, room
    )
    if not rows.definite:
        return None
    equal = sorted_weight is None or (sorted_weight == 1.0).all()
    statement = PSVMParts(
        rows=rows,
        layout=layout,
        y=np.where(codes[every] == positive.repeat(layout.sizes), 1.0, -1.0),
        weight=1.0 if equal or sorted_weight is None else sorted_weight[every],
        C=C,
        p=p,
        centre=centre,
    )
    alpha, steps, built, ended = ascended(statement, tol, deadline)
    point = _point(statement, alpha)
    if point is None:
        return None
    # w = 0 costs at least this; where it is as good, the checker has to compare.
    trivial = statement.objective_without_normal() * (1.0 - 1e-9)
    checked = check_parts(statement, point)
    certified = (np.array(checked.gaps) <= tol) & (checked.lower >= 0.0) & (checked.upper < trivial)
    seconds = built, deadline.compile_seconds, ended - built, deadline.seconds - ended
    return SolvedParts(
        X=sorted_X,
        order=order,
        place=place,
        share=share,
        labels=CodedLabels(labels.codes, labels.classes),
        weight=None if weight is None else weight.copy(),
        scheme=scheme,
        layout=layout,
        y=statement.y,
        kernel=kernel,
        C=C,
        p=p,
        point=point,
        coef=statement.normals(alpha)[0] if kernel is None else None,
        checked=checked,
        steps=steps,
        certified=certified,
        timings=Timings(*seconds),
    )


def ascended(
    statement: PSVMParts, tol: float, deadline: Deadline
) -> tuple[Floats, NDArray[np.int64], float, float]:
    """Solve until the time limit or Ctrl-C; return the multipliers, the steps per problem, and the
    seconds at the begin and the end of these.
    """
    layout, rows, costs = statement.layout, statement.rows, statement.cost_below
    alpha, g = np.zeros(statement.y.size), statement.y.copy()
    status, state = np.zeros(layout.parts, dtype=np.int64), np.zeros((layout.parts, STATE))
    state[:, COMPARED] = np.inf
    work, p = np.empty((7, layout.largest)), statement.p
    # Steps after which a problem is left to another method.
    most = 400.0 * layout.sizes
    if statement.rows.kernel is None:
        d = rows.X.shape[1]
        # Beyond the cost of 3e6 numbers, or 20 exchanges of all columns, Newton's method is used.
        most = np.minimum(most, 3e6 / layout.sizes + 20.0 * d * (d + 10))
    problem = Problems(
        layout.groups,
        layout.offsets,
        statement.y,
        costs * p,
        costs if p == 1.0 else np.full(costs.size, np.inf),
        p,
        0.0 if p == 1.0 else 1.0 / (p - 1.0),
        rows.diagonal()[layout.all_rows],
    )
    answers, passed = Answers(alpha, g, status, state), rows.passed
    # Rows that several problems share are the same in whichever order these are solved.
    first, asked = 0, layout.parts == 1 and rows.by_product and shared_cache() is None
    budget = min(BUDGET, EARLY * rows.X.size * len(rows.X)) if asked else BUDGET
    built = deadline.seconds
    with deferred_interrupt(deadline.interrupt_requested):
        while first < layout.parts and not deadline.passed():
            first = ascend(first, problem, most, answers, work, tol, budget, passed)
            if asked and rows.computed >= 0.9 * EARLY:
                asked, budget = False, BUDGET
                slack = statement.y * (g - best_intercepts(statement, g))
                if np.mean((alpha > 0.0) | (slack > 0.0)) >= MOST:
                    rows.complete(deadline.passed)
    ended = deadline.seconds
    # Multipliers of an unsolved problem may be out of balance; another method takes it.
    alpha[(status != DONE).repeat(layout.sizes)] = 0.0
    return alpha, state[:, STEPS].astype(np.int64), built, ended


def _point(statement: PSVMParts, alpha: Floats) -> PartsPoint | None:
    """Return multipliers and models with the best intercepts; None if rows had no room."""
    if statement.rows.kernel is not None:
        scores = statement.scores(alpha)
        if scores is None:
            return None
        return PartsPoint(alpha, best_intercepts(statement, statement.y - scores.value))
    coef, _ = statement.normals(alpha)
    bias = best_intercepts(statement, statement.y - statement.linear_scores(coef))
    return PartsPoint(alpha, bias - coef @ statement.centre)


def best_intercepts(statement: PSVMParts, g: Floats) -> Floats:
    """Return the best intercept of each problem for its scores, from y minus these."""
    layout, y, weight = statement.layout, statement.y, statement.weight
    parts = layout.slices
    if statement.p != 1:
        f, p, s = y - g, statement.p, np.broadcast_to(weight, y.shape)
        return np.array([near_best_bias(f[own], y[own], s[own], p, 0.0) for own in parts])
    if not isinstance(weight, float):
        return np.array(
            [best_bias(y[own] - g[own], y[own], p=1, weight=weight[own]) for own in parts]
        )
    # As hinge_intercepts: between the break at the number of positives and the next one.
    breaks = np.full((layout.parts, layout.largest), np.inf)
    breaks[np.arange(layout.largest) < layout.sizes[:, None]] = g
    breaks.sort(axis=1)
    each = np.arange(layout.parts)
    behind = statement.positives
    return np.asarray((breaks[each, behind - 1] + breaks[each, behind]) / 2)
