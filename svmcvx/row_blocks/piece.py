"""The rows of one block, and digests with which they are compared."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.digests import sums_of

__all__ = ["Piece", "PieceDigests"]


class Piece(NamedTuple):
    """The rows of one block."""

    X: Features
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None


class PieceDigests(NamedTuple):
    """Digests of the parts of a block, which are compared when it is read again; 0 for a missing
    part.
    """

    rows: int
    labels: int
    weights: int

    @classmethod
    def of(cls, piece: Piece) -> PieceDigests:
        """Return the digests of a block as it was loaded."""
        return cls(*(0 if part is None else sums_of(part) for part in piece))
