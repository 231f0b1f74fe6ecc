"""Work on rows that is shared out among the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["on_cluster"]

log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

# Parts for each thread of the cluster, so that a slow worker is not waited for.
PARTS = 2


def on_cluster(
    client: Any, call: Callable[[S, R], T], shared: S, rows: int, part: Callable[[slice], R]
) -> list[tuple[slice, T]] | None:
    """Call a function for all parts of some rows, on the workers."""
    height = -(-rows // (PARTS * max(1, sum(client.nthreads().values()))))
    slices = [slice(start, start + height) for start in range(0, rows, height)]
    try:
        everywhere = client.scatter(shared, broadcast=True, hash=False)
        parts = client.scatter([part(one) for one in slices], hash=False)
        found = client.gather([client.submit(call, everywhere, one, pure=False) for one in parts])
    except Exception as error:  # when a cluster fails in any way, the work is done here
        log.warning(
            "the cluster could not multiply with the kernel matrix (%s); this process does", error
        )
        return None
    return list(zip(slices, found, strict=True))
