"""A Dask cluster that runs beside this process."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["default_client", "inside_worker"]


def inside_worker() -> bool:
    """Whether this is a task of a cluster, which has its share of the work already."""
    if "distributed" not in sys.modules:
        return False
    import distributed

    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def default_client() -> Any:
    """Return the client of a running cluster that is the default of this process; None without one, and inside its tasks."""
    if "distributed" not in sys.modules or inside_worker():
        return None
    import distributed

    try:
        return distributed.default_client()
    except ValueError:
        return None
