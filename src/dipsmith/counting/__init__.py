"""Contingency tables of rows, in bounded memory."""

from dipsmith.counting.contingency import MAX_CELLS
from dipsmith.counting.count import BatchRows, Rows

__all__ = ["MAX_CELLS", "BatchRows", "Rows"]
