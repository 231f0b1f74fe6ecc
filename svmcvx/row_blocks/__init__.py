"""Data in blocks of rows that are never in memory together: sources, and work on all blocks by
Dask.
"""

from svmcvx.row_blocks.sources import BlockLabels, Piece, RowBlocks, in_blocks, refuse_in_blocks

__all__ = ["BlockLabels", "Piece", "RowBlocks", "in_blocks", "refuse_in_blocks"]
