r"""Specialised solver of the kernel SVM with l0-norm hinge: ADMM proposes sets, an active-set
method polishes and improves them.

The statement is that of :mod:`svmcvx.formulations.indicator.l0`, and so is the certificate: of kind
"local", with the residuals of proximal stationarity.

1. The ADMM of [LinYaoLiu] (:mod:`svmcvx.fast.indicator.l0_admm`) is run for each penalty σ from
   zero. It often cycles; its last iterate and its best one propose sets of satisfied observations:
   those with split slack at most 0, and those on the right side.
2. **Polish**: the hard-margin machine of a set is a local minimiser (Theorems 3.13 and 3.14). It is
   computed to rounding by :mod:`svmcvx.fast.core.active_set`. If the set is not separable, it is
   built up anew, leaving out what costs more than its price.
3. **Local search** (:mod:`svmcvx.fast.indicator.l0_exchange`): drop a support vector or take an
   observation in, while that lowers the objective; then force random single observations to the
   other side and descend again, `n_restarts` times.

The result has the best polished objective, which is never above the objectives of the models at the
end of the ADMM.

**Large data.** With more than a few thousand observations the ADMM works on a factor of K of given
rank (Cholesky with pivots, that is, the Nyström factor on the pivots), and the machines on a
working set that grows until no observation outside violates its margin. The factor is used for
proposals only: model, objective and residuals are those of K itself.

**Global minimum.** With ``method="search"`` this set is the start of a branch and bound
(:mod:`svmcvx.fast.indicator.l0_search`), which proves the optimum: the certificate is of kind
"enumeration".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import check_choice, check_number, check_seed, check_whole
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Monitor,
    checked_settings,
    conclude,
    earlier_solution,
    limited,
    monitored,
)
from svmcvx.fast.indicator.l0_admm import Iterate, PenalisedSystem, admm, low_rank
from svmcvx.fast.indicator.l0_polish import LocalMinimum, PolishSettings, SetPolisher
from svmcvx.fast.indicator.l0_search import GlobalSearch
from svmcvx.fast.indicator.search.branch_and_bound import BranchSettings
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.indicator.l0 import L0, l0_objective, l0_statement
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution, Status

__all__ = ["L0Settings", "l0"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

METHODS = ("local", "search", "auto")
# Observations up to which "auto" searches, and their product with the columns of a linear machine
# up to which it does.
SEARCHED, SEARCHED_ENTRIES = 60, 500
# Restarts of the local method, and its share of a limit, if a search follows.
FEW_RESTARTS, LOCAL_SHARE = 2, 0.2
# Rounds of a search, at most.
SEARCH_ROUNDS = 10**9
LARGEST_IOTA = (1 + math.sqrt(5)) / 2
# A penalty of the ADMM, at least.
SMALLEST_PENALTY = 1e-200
# The default penalties are σ = 2C/t² for these t: slacks in (0, t] are set to zero in the first
# iteration if t ≥ 1.
THRESHOLDS = (1.2, 4.0)
# Columns of the factor of K with which the ADMM works on more observations than
# ``L0Settings.whole``.
ADMM_RANK = 300
# A factor takes the place of the Gram matrix if it has at most this share of n columns.
LARGEST_RANK_SHARE = 0.4
# Up to this many observations each of the :math:`2^n` sets is a start, so that the answer is the
# global minimum.
EVERY_SET = 8


@dataclass(frozen=True)
class L0Settings:
    """Parameters of the algorithms of :func:`l0`.

    Attributes
    ----------
    admm_tol : float
        Residual of proximal stationarity at which a run of the ADMM stops, as in [LinYaoLiu];
        margins of its points that are below 1 by no more count as 1.
    whole : int
        Up to this many observations there is a Gram matrix, and all are in the working set.
    polish : PolishSettings
    branch : BranchSettings
        Of the search.
    """

    admm_tol: float = 1e-3
    whole: int = 3000
    polish: PolishSettings = field(default_factory=PolishSettings)
    branch: BranchSettings = field(default_factory=BranchSettings)


@limited
def l0(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    sigma: float | Sequence[float] | None = None,
    iota: float = 1.0,
    rank: int | None = None,
    n_restarts: int = 20,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 300,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "local",
    indefinite: str = "error",
    seed: int = 0,
    settings: L0Settings | None = None,
) -> Solution:
    r"""Find a minimum of the SVM with l0-norm hinge: a local one, polished to proximal
    stationarity, or the global one.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1], \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b)

    Parameters
    ----------
    C : float
        Price of a margin below 1, positive; 1 by default.
    sigma : float or sequence of float, optional
        Penalties of the ADMM, one run each; :math:`2C/t^2` for t = 1.2 and 4 by default. From σ =
        2C on the ADMM stays at zero.
    iota : float
        Dual step of the ADMM in units of σ, in (0, (1 + √5)/2); 1 by default.
    rank : int, optional
        Largest number of columns of the factor of K on which the ADMM runs for more than 3 000
        observations; 300 by default. If given, that holds for fewer observations too.
    n_restarts : int
        Observations that are forced to the other side at random after the local search; 20 by
        default.
    tol : float
        Of a search the certified relative gap at which to stop. Of a local minimum the residual of
        proximal stationarity, as the checker computes it (``residuals["stationarity"]``), up to
        which the answer counts as certified locally; there is no gap. The answer is polished to
        rounding for any value; an answer with a larger residual has the status "inaccurate".
    max_iter : int
        Iterations of the ADMM for each σ, 300 by default; a search has no such limit. The 2 000 of
        [LinYaoLiu] seldom propose anything better, since the ADMM cycles.
    warm_start : Solution, optional
        An earlier solution on the same data, of any formulation with two classes; proposes sets
        like an iterate. One that does not fit the data is refused.
    method : "local", "search" or "auto"
        "local", the default, ends at a local minimum. "search" continues with branch and bound
        until the optimum is proved, or to a limit. "auto" searches among up to 60 observations, and
        up to 500 entries of a linear machine: that takes seconds.

    Returns
    -------
    Solution
        After a search the certificate is of kind "enumeration", with a lower bound. Else it is of
        kind "local": no lower bound, but ``residuals["stationarity"]`` and its parts. The attempt's
        ``options`` hold, one entry a σ: ``sigma``, ``admm_iterations``, ``admm_residual``, and
        ``admm_objective``, that of the unpolished model, scaled until margins above 1 −
        ``settings.admm_tol`` are at least 1; and the ``origin`` of the answer. The status is
        "optimal" when all runs and restarts were made.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the kernel has to be tested and its Gram matrix does not fit into memory.

    Notes
    -----
    Source: [LinYaoLiu], Algorithm 4.1; polish, local search and branch and bound are added here.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> certificate = sx.fast.l0(X, y, C=1.0).certificate
    >>> certificate.kind, certificate.lower  # a local minimum, without a lower bound
    ('local', None)
    >>> certificate = sx.fast.l0(X, y, C=1.0, method="search").certificate
    >>> certificate.kind, certificate.is_certified(1e-6)
    ('enumeration', True)
    """
    check_choice(method, "method", METHODS)
    settings = checked_settings(settings, L0Settings)
    statement = l0_statement(
        X,
        y,
        C=C,
        kernel=kernel,
        sample_weight=sample_weight,
        indefinite=indefinite,
        keep_gram=False,
    )
    sigmas = _penalties(sigma, statement.C, THRESHOLDS)
    iota = check_number(iota, "iota", low=0, high=LARGEST_IOTA, open_low=True, open_high=True)
    n_restarts = check_whole(n_restarts, "n_restarts", 0)
    rank = None if rank is None else check_whole(rank, "rank", 1)
    rng = check_seed(seed)
    earlier = _earlier(warm_start, statement)
    searched = method == "search" or (method == "auto" and _promises_an_end(statement))
    # Iterations of the local method count runs and restarts.
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        iterations, monitor.max_iter = monitor.max_iter, len(sigmas) + n_restarts + 2

        def local(monitor: Monitor, n_restarts: int) -> tuple[_LocalRun, Status]:
            price = statement.C * statement.weight
            polisher = SetPolisher(statement.space, price, monitor, settings.whole, settings.polish)
            run = _LocalRun(statement, monitor, polisher, settings)
            return run, run.all(sigmas, earlier, iota, iterations, rank, n_restarts, rng)

        if searched:
            monitor.max_iter = SEARCH_ROUNDS
            part = Monitor(tol, SEARCH_ROUNDS, deadline=monitor.deadline.share(LOCAL_SHARE))
            search = GlobalSearch(statement, monitor, settings.branch)
            found, status, options = search.run(
                lambda: local(part, min(n_restarts, FEW_RESTARTS))[0].best.kept
            )
            return conclude(
                search.statement,
                found,
                monitor,
                status,
                solver="fast.l0/search",
                warm_start_used=warm_start is not None,
                options=options,
                search_bound=search.bound,
                proof=search.proof,
            )
        run, status = local(monitor, n_restarts)
        best = run.best
        solution = conclude(
            statement,
            statement.restricted_points(best.v * statement.y, best.b, best.kept),
            monitor,
            status,
            solver="fast.l0/admm",
            warm_start_used=warm_start is not None,
            options=run.record,
        )
    if (
        solution.status is Status.OPTIMAL
        and not solution.certificate.residuals["stationarity"] <= tol
    ):
        return replace(solution, status=Status.INACCURATE)
    return solution


def _promises_an_end(statement: L0) -> bool:
    """Whether a search takes seconds."""
    n, space = statement.y.size, statement.space
    return n <= SEARCHED or (space.is_linear and n * space.X.shape[1] <= SEARCHED_ENTRIES)


def _penalties(
    sigma: float | Sequence[float] | None, C: float, thresholds: tuple[float, ...]
) -> list[float]:
    if sigma is None:
        # A penalty that underflows would be a division by zero.
        return [max(2 * C / t**2, SMALLEST_PENALTY) for t in thresholds]
    if np.ndim(sigma) > 1:
        raise DataError(
            "sigma must be a number or a sequence of numbers, got an array of"
            f" {np.ndim(sigma)} dimensions"
        )
    values = [sigma] if np.ndim(sigma) == 0 else list(np.ravel(np.asarray(sigma)))
    if not values:
        raise DataError("sigma is empty; pass at least one penalty, or None for the default ones")
    return [check_number(value, "sigma", low=0, open_low=True) for value in values]


def _earlier(warm_start: Any, statement: L0) -> Floats | None:
    """Return the signed margins of an earlier solution's model on the same data."""
    warm_start = earlier_solution(warm_start, statement)
    if warm_start is None:
        return None
    if not isinstance(warm_start.model, BinaryModel):
        raise DataError(
            "warm_start must be a Solution of the same data, got one with a"
            f" {type(warm_start.model).__name__}"
        )
    for name in warm_start.dual.keys() & {"mu", "alpha"}:
        statement.entry(warm_start.dual, name)
    margins = statement.y * warm_start.model.scores(statement.space.data.X).value
    if not np.isfinite(margins).all():
        raise DataError("warm_start must be a Solution whose model has finite scores on these data")
    return np.asarray(margins)


@dataclass
class _LocalRun:
    """The best set so far, and the record for the answer."""

    statement: L0
    monitor: Monitor
    polisher: SetPolisher
    settings: L0Settings
    record: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    status: Status | None = None

    def __post_init__(self) -> None:
        self.best: LocalMinimum = self.polisher.trivial()
        self.record |= {
            "sigma": [],
            "admm_iterations": [],
            "admm_residual": [],
            "admm_objective": [],
            "origin": "constant",
        }

    def update_incumbent(self, found: LocalMinimum | None, origin: str) -> None:
        if found is not None and found.value < self.best.value:
            self.best = found
            self.record["origin"] = origin

    def should_stop(self) -> bool:
        """Report the best objective; return whether the monitor asks to stop."""
        self.steps += 1
        status = self.monitor.report(self.steps, -math.inf, self.best.value)
        if status not in (None, Status.ITERATION_LIMIT):
            self.status = status
        return self.status is not None

    def all(
        self,
        sigmas: list[float],
        earlier: Floats | None,
        iota: float,
        iterations: int,
        rank: int | None,
        n_restarts: int,
        rng: np.random.Generator,
    ) -> Status:
        """Run the ADMM for each σ, polish and improve its sets, then restart from the best set."""
        everything = np.ones(self.statement.y.size, dtype=bool)
        if self.polisher.small:
            self.update_incumbent(self.polisher.improve(everything, None), "all")
        if earlier is not None:
            for kept in (earlier >= 1.0 - self.settings.admm_tol, earlier >= 0.0):
                self.update_incumbent(self.polisher.improve(kept, earlier), "warm start")
        n = everything.size
        if n <= EVERY_SET:
            for kept in ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool):
                self.update_incumbent(self.polisher.improve(kept, None), "every set")
        if self.should_stop():
            return self.status or Status.OPTIMAL
        for sigma, iterate in self._iterates(sigmas, iota, iterations, rank):
            u = self.statement.y * (iterate.scores + iterate.b)
            for kept in (iterate.u <= 0, iterate.kept, u >= 0):
                self.update_incumbent(self.polisher.improve(kept, u), f"sigma={sigma:g}")
            if self.should_stop():
                return self.status or Status.OPTIMAL
        for number in range(n_restarts):
            self.update_incumbent(
                self.polisher.restart(self.best, rng.random(1)), f"restart {number + 1}"
            )
            if self.should_stop():
                return self.status or Status.OPTIMAL
        return Status.OPTIMAL

    def _iterates(
        self, sigmas: list[float], iota: float, iterations: int, rank: int | None
    ) -> Iterator[tuple[float, Iterate]]:
        statement = self.statement
        price = statement.C * statement.weight
        K, F = _matrices(statement.space, self.polisher, rank, self.settings)
        if F is not None:
            self.record["rank"] = int(F.shape[1])
        for sigma in sigmas:
            iterate = admm(
                PenalisedSystem.of(sigma, K=K, F=F),
                statement.y,
                price,
                iota=iota,
                tol=self.settings.admm_tol,
                max_iter=iterations,
                stop=self.monitor.out_of_time,
            )
            # Of the model itself, which a factor of K only approximates.
            point = statement.space.point(iterate.c)
            u = statement.y * (point.scores.value + iterate.b)
            # Scaled until the margins that are 1 up to the tolerance are so.
            scale = float(np.minimum(u[u >= 1.0 - self.settings.admm_tol], 1.0).min(initial=1.0))
            self.record["sigma"].append(sigma)
            self.record["admm_iterations"].append(iterate.iterations)
            self.record["admm_residual"].append(iterate.residual)
            self.record["admm_objective"].append(
                l0_objective(
                    float(point.squared_norm.value) / scale**2,
                    u / scale,
                    C=statement.C,
                    weight=statement.weight,
                )
            )
            yield sigma, iterate


def _matrices(
    space: FeatureSpace, polisher: SetPolisher, rank: int | None, settings: L0Settings
) -> tuple[Floats | None, Floats | None]:
    """Return the Gram matrix or a factor of it for the ADMM, the other being None."""
    n = space.data.n
    large = n > settings.whole or rank is not None
    if space.is_linear and space.X.shape[1] <= (LARGEST_RANK_SHARE * n if rank is None else rank):
        return None, np.ascontiguousarray(space.X.toarray() if sp.issparse(space.X) else space.X)
    if large:
        everything = np.arange(n)

        def column(j: int) -> Floats:
            return space.block(everything, np.array([j]))[:, 0]

        return None, low_rank(
            space.diagonal(), column, min(n, ADMM_RANK if rank is None else rank), math.inf
        )
    K = polisher.gram
    F = low_rank(np.diagonal(K).copy(), lambda j: np.asarray(K[j]), int(LARGEST_RANK_SHARE * n))
    return (K, None) if F is None else (None, F)
