r"""First-order solver of the hard-margin SVM, by pSMO without a loss.

The statement is that of :mod:`svmcvx.formulations.hard_margin`, and so is the certificate. The multipliers α of a point
enter both bounds by their direction only:

.. math::
    \frac{(\sum_i \alpha_i)^2}{2\, v'Kv} \;\le\; \text{optimum} \;\le\; \frac{v'Kv}{2 m^2}, \qquad
    m = \tfrac12\big(\min_{y_i = 1} f_i - \max_{y_i = -1} f_i\big) > 0.

:math:`2\sqrt{v'Kv}/\sum_i \alpha_i` is the distance of two points in the convex hulls of the classes: when it falls
to rounding, the hulls meet, and the data are not separable.
"""

from __future__ import annotations

import math
import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.fast.decomposition import CROSSOVER_SIZE, Bounds, Decomposition, working_set_size
from svmcvx.fast.driver import Callback, conclude, monitored
from svmcvx.fast.psvm import SELECTIONS, earlier_multipliers
from svmcvx.fast.rows import kernel_rows
from svmcvx.fast.threads import blas_held_to_one
from svmcvx.formulations.base import Candidates
from svmcvx.formulations.hard_margin import HardMargin
from svmcvx.kernels import KernelLike, row_norms
from svmcvx.solution import Solution
from svmcvx.space import FeatureSpace, LinearSpace, feature_space

__all__ = ["hard_margin"]

Floats: TypeAlias = NDArray[np.float64]

# Squared distance of the hulls, relative to the squared extent of the data in feature space, taken for zero.
TOUCHING = 1e-13


def hard_margin(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    selection: str = "second-order",
    cache_size: float = 500.0,
    float32_cache: bool = True,
    indefinite: str = "error",
    seed: int = 0,
) -> Solution:
    r"""Solve the hard-margin SVM by a first-order method, to a certified relative gap.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 \quad\text{s.t.}\quad y_i(\langle w, \varphi(x_i)\rangle + b) \ge 1

    Parameters
    ----------
    X, y, kernel, tol, time_limit, max_iter, verbose, callback, warm_start, selection, cache_size, float32_cache, \
indefinite, seed
        As for :func:`svmcvx.fast.psvm`. A linear kernel, too, takes rows of its Gram matrix from the cache.

    Returns
    -------
    Solution

    Raises
    ------
    SolverFailed
        If the classes are not separable in feature space, or no separating model was found within the limits.
    DataError
        If the data or an argument cannot be used.
    """
    started = time.perf_counter()
    check_choice(selection, "selection", SELECTIONS)
    cache_size = check_number(cache_size, "cache_size", low=0, open_low=True)
    data = binary_data(X, y)
    space = feature_space(data, kernel, intercept="free", indefinite=indefinite, keep_gram=False)
    statement = HardMargin(space=space)
    warm = earlier_multipliers(warm_start, statement)
    with monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        built = time.perf_counter() - started
        with blas_held_to_one(data.n) as workers:
            rows, size = kernel_rows(
                space,
                working_set=working_set_size(data.n),
                cache_size=cache_size,
                float32=float32_cache,
                workers=workers,
            )
            ascent = Decomposition(
                statement=statement,
                rows=rows,
                bounds=_bounds(statement),
                c=np.ones(data.n),
                r=0.0,
                ceiling=np.full(data.n, math.inf),
                size=size,
                selection=selection,
                seed=seed,
                alpha=np.zeros(data.n) if warm is None else warm,
                rescale=_best_multiple,
            )
            status = ascent.run(monitor)
            recover = statement.recover if data.n <= CROSSOVER_SIZE else statement.separator
            found = [recover(alpha) for alpha in ascent.points()]
            candidates = Candidates(
                [m for each in found for m in each.models], [d for each in found for d in each.duals]
            )
        return conclude(
            statement,
            candidates,
            monitor,
            status,
            solver="fast.hard_margin/smo",
            build_seconds=built,
            warm_start_used=warm is not None,
            options={
                "selection": selection,
                "working_set": size,
                "cache_mb": rows.store.nbytes / 2**20,
                "storage": str(rows.store.dtype),
                "pair_steps": ascent.pair_steps,
            },
        )


def _bounds(statement: HardMargin) -> Bounds:
    y = statement.y
    extent = _extent(statement.space)

    def bounds(alpha: Floats, f: Floats) -> tuple[float, float] | None:
        total, norm = float(alpha.sum()), float((alpha * y) @ f)
        if total == 0:
            return 0.0, math.inf
        if norm <= TOUCHING * extent * total**2:
            return None
        margin = (float(f[y > 0].min()) - float(f[y < 0].max())) / 2
        return total**2 / (2 * norm), norm / (2 * margin**2) if margin > 0 else math.inf

    return bounds


def _extent(space: FeatureSpace) -> float:
    """Largest squared norm of an observation in feature space."""
    if isinstance(space, LinearSpace):
        return float(row_norms(space.X).max()) ** 2
    return float(np.abs(space.kernel.diagonal(space.data.X)).max()) if space.kernel else 0.0


def _best_multiple(alpha: Floats, f: Floats, y: Floats) -> float:
    """Return the factor at which the dual is largest along a ray."""
    total, norm = float(alpha.sum()), float((alpha * y) @ f)
    return total / norm if total > 0 and norm > 0 else 1.0
