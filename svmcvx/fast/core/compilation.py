"""How passes are compiled: by numba, once a machine, outside every clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from svmcvx.system import clock

__all__ = ["compiled"]


class _StopsTheClock(event.Listener):
    """Tells the package's clock when numba compiles; loading what was compiled before is work like any other."""

    def on_start(self, event: Any) -> None:
        """Stop it."""
        clock.compiling_begins()

    def on_end(self, event: Any) -> None:
        """Let it go on."""
        clock.compiling_ends()


event.register("numba:compile", _StopsTheClock())


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call; the machine code is kept between sessions.

    Parameters
    ----------
    **options
        Of ``numba.njit``, such as ``nogil`` and ``fastmath``.
    """
    return numba.njit(cache=True, **options)  # type: ignore[no-any-return]
