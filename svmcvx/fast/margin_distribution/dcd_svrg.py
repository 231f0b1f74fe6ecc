r"""What :func:`svmcvx.fast.odm` and :func:`svmcvx.fast.odml` share: the loops around coordinate ascent and SVRG."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear import loss_passes as passes
from svmcvx.fast.linear.margins import Margins
from svmcvx.fast.linear.problem import ArrayBounds, LinearProblem, Point
from svmcvx.fast.margin_distribution import dcd_svrg_passes as descent
from svmcvx.solution import Status

__all__ = ["DECAY", "METHODS", "STEP", "InnerLoop", "ascend", "svrg"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "newton", "dcd", "svrg")

# Epochs over the active observations after each one over all.
SHORT_EPOCHS = 4
# Rounds after which w = w(θ), which is updated along the way, is computed afresh.
REFRESH = 10
# Rounds without a smaller gap after which it ends.
PATIENCE = 1000
# The step of SVRG is this over the largest curvature of a single observation.
STEP = 0.2
# For the hinge, whose gradients do not converge to zero, the step falls as 1/(1 + k/DECAY).
DECAY = 5.0


def ascend(
    problem: LinearProblem, monitor: Monitor, theta: Floats, rng: np.random.Generator, *, most: float = math.inf
) -> tuple[Point, Status]:
    """Run dual coordinate ascent [HsiehChang] from `theta`.

    An iteration of the monitor is a round of one full and some short epochs. After `most` rounds, or many without a smaller gap, the
    status is ``INACCURATE``.
    """
    m = problem
    n = theta.size
    if m.kind == passes.BAND:
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        a, b = 1.0 / (2.0 * m.C1 * m.c), 1.0 / (2.0 * m.C2 * m.c)
    else:
        low, high = np.zeros(n), m.c
        a = b = np.zeros(n)
    theta = np.clip(theta, low, high)
    diagonal = m.norms**2
    active = np.ones(n, dtype=np.bool_)
    w = m.primal_of(theta)
    bounds = ArrayBounds(m, w, theta)
    rounds, margin = 0, math.inf
    stalled, smallest = 0, math.inf
    while True:
        if rounds % REFRESH == 0:
            w = m.primal_of(theta)
        lower, upper = bounds.update_pair(w, theta)
        status = monitor.report(rounds, lower, upper)
        stalled = 0 if monitor.gap < 0.999 * smallest else stalled + 1
        smallest = min(smallest, monitor.gap)
        if status is None and (rounds >= most or stalled > PATIENCE or not math.isfinite(upper - lower)):
            status = Status.INACCURATE
        if status is not None:
            bounds.best.steps = rounds
            return bounds.best, status
        largest = 0.0
        for epoch in range(1 + SHORT_EPOCHS):
            order = rng.permutation(n if epoch == 0 else np.flatnonzero(active))
            arguments = (m.y, diagonal, theta, w, m.D, a, b, low, high, order, active, margin)
            if sp.issparse(m.X):
                largest = descent.ascend_sparse(m.X.data, m.X.indices, m.X.indptr, *arguments)
            else:
                largest = descent.ascend_dense(m.X, *arguments)
            if largest == 0.0 or monitor.out_of_time():
                break
        margin = largest
        rounds += 1


def svrg(problem: LinearProblem, monitor: Monitor, w: Floats, rng: np.random.Generator) -> tuple[Point, Status]:
    r"""Run SVRG [ZhangZhou, Algorithm 2] for ODM from `w`; an iteration of the monitor is an outer step of n inner ones.

    Observations are drawn with probabilities :math:`c_i`, so that weights count.
    """
    m = problem
    n = m.y.size
    w = w.copy()
    eta = STEP / (1.0 + 2.0 * max(m.C1, m.C2) * float(m.norms.max()) ** 2)
    loop = InnerLoop(m.X, m.y, C1=m.C1, C2=m.C2, D=m.D)
    bounds = ArrayBounds(m, w, np.zeros(n))
    rows = Margins(m)
    steps = 0
    while True:
        rows.place(w)
        sums, expansion = rows.respond(0.0, 1.0, 0.0)
        primal = expansion if m.linear_term is None else expansion + m.linear_term
        lower, upper = bounds.update(w, 0.0, rows.alpha, primal, sums)
        status = monitor.report(steps, lower, upper)
        if status is not None:
            bounds.best.steps = steps
            return bounds.best, status
        # The full gradient is w − w(α), so that s = w̃ − μ = w(α).
        loop.run(w, primal, rows.f, rng.choice(n, size=n, p=m.c / m.c.sum()), None, eta)
        steps += 1


class InnerLoop:
    """The inner steps of SVRG on dense or sparse rows, and how often each observation was below the margin.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        Labels ±1.
    lam1, C : float
        Weights of ODML; with `C` the loss is its hinge and variance.
    C1, C2, D : float
        Those of ODM, without `C`.
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
        self.visits, self.hits = np.zeros(self.y.size, dtype=np.int64), np.zeros(self.y.size, dtype=np.int64)

    def run(
        self,
        w: Floats,
        still: Floats,
        before: Floats,
        picks: NDArray[np.intp],
        others: NDArray[np.intp] | None,
        eta: float,
    ) -> None:
        """Move `w` in place by one step for each of `picks`.

        Parameters
        ----------
        w : ndarray of shape (d,)
        still : ndarray of shape (d,)
            The snapshot minus its full gradient.
        before : ndarray of shape (n,)
            Scores of the snapshot.
        picks : ndarray of int
            Observations, one a step.
        others : ndarray of int, optional
            The second observations of ODML.
        eta : float
            Length of the steps.
        """
        arguments = (self.y, w, still, before, picks, picks if others is None else others, eta, *self.loss)
        if sp.issparse(self.X):
            X = self.X
            descent.svrg_sparse(X.data, X.indices, X.indptr, *arguments, self.visits, self.hits, self.touched)
        else:
            descent.svrg_dense(self.X, *arguments, self.visits, self.hits)
