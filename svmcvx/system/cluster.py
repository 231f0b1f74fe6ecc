"""Access to a running Dask cluster."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["default_client"]


def default_client() -> Any:
    """Return the client of a running cluster that is the default of this process.

    None without one, and inside a task of a cluster, whose task is already one part of the work.
    """
    if "distributed" not in sys.modules:
        return None
    import distributed

    try:
        distributed.get_worker()
    except ValueError:
        pass
    else:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
