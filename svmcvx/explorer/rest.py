"""Work that waits until the sliders rest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

__all__ = ["AtRest"]

# Seconds without a step after which the sliders are said to rest.
REST = 0.2


class AtRest:
    """Pieces of work that begin once the sliders rest, one at a time, so that a step waits for one
    piece at most.
    """

    def __init__(self) -> None:
        self._next: asyncio.TimerHandle | None = None

    def begin(self, pieces: Iterable[Callable[[], object]]) -> None:
        """Do these pieces once the sliders rest, in place of those that are left of earlier ones."""
        if self._next is not None:
            self._next.cancel()
        left = deque(pieces)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            for piece in left:
                piece()
            return

        def one() -> None:
            left.popleft()()
            # Through the loop, which hears of a step in between.
            self._next = loop.call_later(0.0, one) if left else None

        self._next = loop.call_later(REST, one)
