"""Contingency tables of rows, in bounded memory."""

from dipsmith.counting.count import BatchRows, Rows
from dipsmith.counting.tally import MAX_CELLS

__all__ = ["MAX_CELLS", "BatchRows", "Rows"]
