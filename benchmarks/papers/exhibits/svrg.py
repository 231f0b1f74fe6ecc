r"""SVRG for ODM and ODML: Algorithm 2 of [ZhangZhou].

Newton's method and coordinate ascent (:func:`svmcvx.fast.odm`, :func:`svmcvx.fast.odml`) certify in
a fraction of its time; with the hinge of ODML the gradients do not converge to zero, and the gap
falls like one over the number of outer steps only.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.papers.exhibits import svrg_passes as passes
from svmcvx.data import Features, check_number, check_seed
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    earlier_solution,
    limited,
    monitored,
    solve_interruptible,
    solved_from,
)
from svmcvx.fast.linear.margins import Margins
from svmcvx.fast.linear.problem import ArrayBounds, BestPoint, LinearProblem
from svmcvx.fast.margin_distribution import odm, odml
from svmcvx.formulations.margin_distribution.odm import bound_odm, margin_space
from svmcvx.formulations.margin_distribution.odml import ODML, check_penalties
from svmcvx.kernels import KernelLike, row_norms
from svmcvx.solution import Solution, Status

__all__ = ["InnerLoop", "odm_by_svrg", "odml_by_svrg"]

Floats: TypeAlias = NDArray[np.float64]

# The step is this over the largest curvature of a single observation.
STEP = 0.2
# For the hinge, whose gradients do not converge to zero, the step falls as 1/(1 + k/DECAY).
DECAY = 5.0


@limited
def odm_by_svrg(
    X: Any,
    y: Any,
    *,
    C1: float = 1.0,
    C2: float = 1.0,
    D: float = 0.1,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 10_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    seed: int = 0,
    indefinite: str = "error",
) -> Solution:
    """Run SVRG for ODM, on the data or on a factor of the Gram matrix."""
    check_seed(seed)
    statement = bound_odm(X, y, C1, C2, D, kernel, intercept, sample_weight, indefinite, math.inf)
    w, theta = odm.start_from(
        statement, earlier_solution(warm_start, None if statement.space.is_linear else statement)
    )
    problem = odm.linear_problem(statement)
    if w is None and theta is not None:
        w = problem.primal_of(theta)

    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:

        def run(start: Floats | None) -> Found:
            w = np.zeros(problem.X.shape[1]) if start is None else start
            point, status = _descend_odm(problem, monitor, w, check_seed(seed))
            return (
                odm.points_of(statement, point),
                status,
                {"method": "svrg", "iterations": point.steps},
            )

        def solve(start: Floats | None) -> Found:
            return solve_interruptible(monitor, run, start)

        return solved_from(statement, monitor, solve, w, solver=lambda options: "papers.odm/svrg")


@limited
def odml_by_svrg(
    X: Any,
    y: Any,
    *,
    lam1: float = 0.0625,
    lam2: float = 0.0625,
    C: float = 10.0,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 10_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    seed: int = 0,
    indefinite: str = "error",
) -> Solution:
    """Run SVRG with two independent observations a step for ODML."""
    check_seed(seed)
    lam1, lam2 = check_penalties(lam1, lam2)
    C = check_number(C, "C", low=1e-300, why="a smaller weight of the losses underflows")
    space = margin_space(
        X,
        y,
        kernel=kernel,
        intercept=intercept,
        sample_weight=sample_weight,
        indefinite=indefinite,
        largest_gram=math.inf,
    )
    statement = ODML(space, lam1, lam2, C)
    alpha = odml.start_from(statement, earlier_solution(warm_start, statement))
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:

        def run(alpha: Floats | None) -> Found:
            problem = odml.whitened_problem(statement)
            point, status = _descend_odml(statement, problem, monitor, alpha, check_seed(seed))
            points = odml.points_of(statement, problem, point)
            return points, status, {"method": "svrg", "iterations": point.steps}

        def solve(alpha: Floats | None) -> Found:
            return solve_interruptible(monitor, run, alpha)

        return solved_from(
            statement, monitor, solve, alpha, solver=lambda options: "papers.odml/svrg"
        )


def _descend_odm(
    problem: LinearProblem, monitor: Monitor, w: Floats, rng: np.random.Generator
) -> tuple[BestPoint, Status]:
    """Run SVRG [ZhangZhou, Algorithm 2] for ODM from `w`; an iteration of the monitor is an outer
    step of n inner ones.
    """
    m = problem
    n = m.y.size
    w = w.copy()
    eta = STEP / (1.0 + 2.0 * max(m.loss.C1, m.loss.C2) * float(m.norms.max()) ** 2)
    loop = InnerLoop(m.X, m.y, C1=m.loss.C1, C2=m.loss.C2, D=m.loss.D)
    bounds = ArrayBounds(m, w, np.zeros(n))
    rows = Margins(m)
    steps = 0
    while True:
        rows.set_point(w)
        sums, expansion = rows.prox_step(0.0, 1.0, 0.0)
        primal = expansion if m.linear_term is None else expansion + m.linear_term
        lower, upper = bounds.update(w, 0.0, rows.alpha, primal, sums)
        status = monitor.report(steps, lower, upper)
        if status is not None:
            bounds.best.steps = steps
            return bounds.best, status
        # The full gradient is w − w(α), so that s = w̃ − μ = w(α).
        loop.run(w, primal, rows.f, rng.choice(n, size=n, p=m.c / m.c.sum()), None, eta)
        steps += 1


def _descend_odml(
    statement: ODML,
    problem: LinearProblem,
    monitor: Monitor,
    alpha: Floats | None,
    rng: np.random.Generator,
) -> tuple[BestPoint, Status]:
    """Run SVRG [ZhangZhou, Algorithm 2]; an iteration of the monitor is an outer step of n inner
    ones.
    """
    space, c, y, n = statement.space, statement.share, statement.y, statement.y.size
    triangle = statement.curvature.triangle
    L = space.X if odml.has_coordinates(statement) else space.factor
    steep = float(row_norms(L).max()) ** 2
    eta = STEP / (1.0 + (4.0 * statement.lam1 + statement.C) * steep)
    loop = InnerLoop(L, y, lam1=statement.lam1, C=statement.C)
    alpha = np.zeros(n) if alpha is None else alpha
    w = statement.normal(alpha)
    bounds = ArrayBounds(problem, problem.primal_of(alpha), alpha)
    steps, epoch = 0, 1
    while True:
        lower, upper = bounds.update_pair(triangle.T @ w, alpha)
        again = bounds.update_pair(problem.primal_of(alpha), alpha)
        status = monitor.report(steps, max(lower, again[0]), min(upper, again[1]))
        if status is not None:
            bounds.best.steps = steps
            return bounds.best, status
        f = np.asarray(L @ w)
        u = y * f
        force = (
            statement.C * c * (u < 1.0)
            + statement.lam2 * c
            - 2.0 * statement.lam1 * c * (u - float(c @ u))
        )
        picks, others = rng.choice(n, size=n, p=c), rng.choice(n, size=n, p=c)
        # The full gradient is w − L'(y force), so that s = w̃ − μ is its second term.
        loop.run(w, np.asarray(L.T @ (y * force)), f, picks, others, eta / (1.0 + steps / DECAY))
        steps += 1
        share = loop.hits / np.maximum(loop.visits, 1)
        alpha = statement.C * c * np.where(loop.visits > 0, share, u < 1.0)
        if steps >= 2 * epoch:
            epoch = steps
            loop.forget()


class InnerLoop:
    """The inner steps of SVRG on dense or sparse rows, and how often each observation was below the
    margin.
    """

    def __init__(
        self,
        X: Features,
        y: Floats,
        *,
        lam1: float = 0.0,
        C: float | None = None,
        C1: float = 0.0,
        C2: float = 0.0,
        D: float = 0.0,
    ) -> None:
        # Passes are compiled for one layout.
        self.X: Any = X if sp.issparse(X) else np.ascontiguousarray(X)
        self.y = y
        self.loss = (C is not None, lam1, C1 if C is None else C, C2, D)
        self.touched = np.zeros(X.shape[1], dtype=np.int64)
        self.forget()

    def forget(self) -> None:
        """Start the counts again."""
        self.visits, self.hits = (
            np.zeros(self.y.size, dtype=np.int64),
            np.zeros(self.y.size, dtype=np.int64),
        )

    def run(
        self,
        w: Floats,
        still: Floats,
        before: Floats,
        picks: NDArray[np.intp],
        others: NDArray[np.intp] | None,
        eta: float,
    ) -> None:
        """Move `w` in place by one step for each of `picks`."""
        arguments = (
            self.y,
            w,
            still,
            before,
            picks,
            picks if others is None else others,
            eta,
            *self.loss,
        )
        if sp.issparse(self.X):
            X = self.X
            passes.svrg_sparse(
                X.data, X.indices, X.indptr, *arguments, self.visits, self.hits, self.touched
            )
        else:
            passes.svrg_dense(self.X, *arguments, self.visits, self.hits)
