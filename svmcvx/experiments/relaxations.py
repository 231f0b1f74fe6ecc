"""Root bounds of relaxations beside the proved optimum of the 0-1 loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from svmcvx import fast
from svmcvx.arguments import check_shared, documented, intercept_kind, known_arguments
from svmcvx.catalogue import TOL
from svmcvx.errors import DataError
from svmcvx.formulations.indicator.problems import zero_one_mio
from svmcvx.kernels import KernelLike
from svmcvx.solve import solve
from svmcvx.system.deadline import time_limited

# Partitions whose blocks bound the optimum.
ROUNDS = 5


@known_arguments
@documented
def relaxation_gaps(
    X: Any,
    y: Any,
    *,
    lam: float | Sequence[float] = 1.0,
    kernel: KernelLike = None,
    intercept: bool | str = True,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
) -> pd.DataFrame:
    r"""Bound the exact 0-1 loss from below by its relaxations, and compare them with its optimum.

    All numbers are values of one problem, in its own scale; a machine with ½‖w‖² and costs C has C
    = λ/2, and half the value.

    .. math:: \min_w\; \|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1]

    Source of the relaxations and of the gap: [CepedaGomezHan], § 2 and 3.

    Parameters
    ----------
    lam : float or sequence of float
        Price λ of a margin below 1; 1 by default. Each has a row and a like share of the time, of
        which the search may take half.

    Returns
    -------
    DataFrame
        Indexed by λ. ``optimum`` and ``at_least`` are the ends of :func:`svmcvx.fast.zero_one`, the
        others lower ends: ``hinge`` is twice that of the pSVM (p = 1, penalised intercept) with C =
        λ/(2M), for the largest M of the next column; ``big_m`` that of
        ``zero_one_mio(relax=True)``, with an M for each observation; ``perspective`` of the same
        with ``form="perspective", gamma="norms"``; ``conic`` of :func:`svmcvx.fast.conic`, the
        perspective relaxation at the best γ; ``partition`` the mean of the optima of blocks of the
        observations at their price, the best of five partitions
        (``zero_one(method="partition")``), NaN for kernels, more than 3 000 observations, or a
        class of one. ``hinge_gap``, … are :math:`100\,(\text{optimum} -
        \text{bound})/\text{optimum}`, in percent.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="spread", seed=0)
    >>> row = sx.relaxation_gaps(X, y, lam=2.0).iloc[0]
    >>> bool(row["hinge"] < row["perspective"] < row["conic"] < row["optimum"])
    True
    """
    check_shared({"tol": tol, "time_limit": time_limit})
    prices: list[Any] = np.ravel(np.asarray(lam)).tolist()
    data = {"kernel": kernel, "sample_weight": sample_weight}
    kind, rows = intercept_kind(intercept, own="penalised"), []
    for price in prices:
        shared: dict[str, Any] = {**data, "lam": price, "intercept": intercept}
        part = None if time_limit is None else time_limit / len(prices)
        with time_limited(part):
            half = None if part is None else part / 2.0
            exact = fast.zero_one(X, y, tol=tol, time_limit=half, **shared)
            rule: dict[str, Any] = {**shared, "incumbent": exact, "relax": True}
            big_m = zero_one_mio(X, y, **rule)
            norms = zero_one_mio(X, y, form="perspective", gamma="norms", **rule)
            found = {"big_m": solve(big_m, tol=tol), "perspective": solve(norms, tol=tol)}
            found["conic"] = fast.conic(X, y, tol=tol, **shared)
            # The data are valid here: an error says that the method does not take them.
            with suppress(DataError):
                rounds: dict[str, Any] = {"method": "partition", "max_iter": ROUNDS - 1}
                found["partition"] = fast.zero_one(X, y, tol=tol, **rounds, **shared)
            # No objective is negative.
            bounds = {name: one.certificate.lower or 0.0 for name, one in found.items()}
            row = {"hinge": bounds["big_m"], **bounds}
            row.setdefault("partition", math.nan)
            M: Any = big_m.M
            if largest := float(M.max()):
                # No larger than the quotient.
                C = math.nextafter(price / (2.0 * largest), 0.0)
                hinge = fast.psvm(X, y, C=C, p=1.0, intercept=kind, tol=tol, **data)
                row["hinge"] = 2.0 * (hinge.certificate.lower or 0.0)
        optimum = exact.certificate.upper
        gaps = {f"{name}_gap": 100.0 * (1.0 - bound / optimum) for name, bound in row.items()}
        rows.append({"optimum": optimum, "at_least": exact.certificate.lower, **row, **gaps})
    return pd.DataFrame(rows, index=pd.Index(prices, name="lam", dtype=float), dtype=float)
