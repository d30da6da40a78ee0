"""How large contingency tables may be: refused, in words that help, before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence

from dipsmith.errors import UsageError
from dipsmith.schema import Cells, Marginal

MAX_CELLS = 1 << 27
"""The most cells that are held at once: a gigabyte of counts."""

MAX_INDEX = 1 << 62
"""The most cells that a partition can number in 64-bit integers with room for arithmetic."""


def check_size(cells: Sequence[Cells], limit: int = MAX_CELLS) -> None:
    """Refuse, before anything is allocated, tables that would not fit; say what makes them big.

    Examples
    --------
    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> letters = Categories.of("abcdefgh")
    >>> s = Schema("t", tuple(Attribute(n, "string", letters) for n in "xyz"), Unit(), "replace")
    >>> check_size([Marginal.of(s, "xyz")], limit=100)
    Traceback (most recent call last):
    dipsmith.errors.UsageError: table x × y × z has 512 cells, the limit is 100; it crosses x (8), \
y (8), z (8): use coarser bins, collapse labels or leave an attribute out
    """
    if sum(table.size for table in cells) <= limit:
        return
    largest = max(cells, key=lambda table: table.size)
    if largest.size <= limit:
        whole = sum(table.size for table in cells)
        raise UsageError(
            f"{len(cells)} tables have {whole:,} cells in all, the limit is {limit:,}; the largest is "
            f"{largest.key} ({largest.size:,}): ask for fewer at a time, use coarser bins or collapse labels"
        )
    sizes = sorted(
        ((largest.schema[name].size, name) for name in largest.attributes), key=lambda pair: -pair[0]
    )
    crossed = ", ".join(f"{name} ({size:,})" for size, name in sizes)
    what = "crosses" if isinstance(largest, Marginal) else "reads"
    raise UsageError(
        f"table {largest.key} has {largest.size:,} cells, the limit is {limit:,}; it {what} {crossed}: "
        "use coarser bins, collapse labels or leave an attribute out"
    )
