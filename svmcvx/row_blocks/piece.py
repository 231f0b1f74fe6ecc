"""The rows of one block, and numbers by which they are recognised."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.digests import digest

__all__ = ["Piece", "PieceDigests"]


class Piece(NamedTuple):
    """The rows of one block.

    Attributes
    ----------
    X : ndarray or csr_array of shape (m, d)
        In the type of its source; float32 numbers stay what they are until they are used.
    y : ndarray of shape (m,) or None
        Labels, where the source has them.
    weight : ndarray of shape (m,) or None
    """

    X: Features
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None


class PieceDigests(NamedTuple):
    """Numbers by which the parts of a block are recognised when it is read again; 0 for a part that does not come with it."""

    rows: int
    labels: int
    weights: int

    @classmethod
    def of(cls, piece: Piece) -> PieceDigests:
        """Return those of a block as it was loaded."""
        return cls(*(0 if part is None else digest(part) for part in piece))
