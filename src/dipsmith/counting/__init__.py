"""Contingency tables of rows, in bounded memory."""

from dipsmith.counting.contingency import MAX_CELLS, Contingency, SparseContingency
from dipsmith.counting.count import BatchRows, Rows

__all__ = ["MAX_CELLS", "BatchRows", "Contingency", "Rows", "SparseContingency"]
