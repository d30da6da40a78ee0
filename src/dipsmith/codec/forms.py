"""What form a value has: blank, a number, a date, a text. A fixed way to sort every possible value, known before any row.

It is how `dipsmith schema learn` finds the type of a column: by noisy counts of forms. Of numbers and times of which nothing
is known yet there are public cells by magnitude, by year, and finer ones between bounds.

Numbers: 0 to 1, 1 to 2, 2 to 5, 5 to 10, and so on by sign up to 10¹⁵ and beyond; 0 and the usual codes for "none" or
"more" (−9, 99, 999, 9999, …) are cells of their own. Dates and moments: by year from 1850 to 2100. The cells are the
same for every table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.codec import spelled_forms
from dipsmith.codec.parse import days, microseconds, moments, numbers, texts
from dipsmith.codec.spelled import plain_numbers
from dipsmith.schema.domain import LARGEST, Scale
from dipsmith.schema.spelling import Spelling

FORMS: Final = (
    "blank", "missing word", "boolean", "integer", "1 decimal", "2 decimals", "more decimals", "code",
    "date", "minute", "second", "fraction", "text", "1.234", *spelled_forms.FORMS,
)  # fmt: skip
"""Plain ones, then those that have to be spelled (`spelled_forms`). `1.234` is three decimals, or a thousand and more. `code` is digits with a leading zero; a moment has the form of its finest part that is not 0."""
MISSING_WORDS: Final = ("na", "n/a", "nan", "null", "none", "missing", ".", "?", "-", "--")
"""In any case: what people write in a column of numbers where there is none."""

_PATTERNS = (
    ("more decimals", r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"),
    ("2 decimals", r"^[+-]?[0-9]*\.[0-9][0-9]0*$"),
    ("1 decimal", r"^[+-]?[0-9]*\.[0-9]0*$"),
    ("integer", r"^[+-]?[0-9]+(\.0*)?$"),
    ("code", r"^0[0-9]+$"),
    ("1.234", r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"),
)
"""The later ones are narrower."""


@dataclass(frozen=True)
class Forms:
    """The values of a column by their form; those that a spelling reads by the form of the plain number."""

    column: str
    spelling: Spelling | None = None
    size: int = len(FORMS)

    def place(self, values: pa.Array) -> Ints:
        """The form of each value."""
        encoded = pc.dictionary_encode(texts(values))
        distinct = encoded.dictionary
        if self.spelling is not None:
            distinct = pc.coalesce(plain_numbers(distinct, self.spelling), distinct)
        distinct = np.append(_forms(distinct), FORMS.index("blank"))
        return np.asarray(distinct[encoded.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)])


def _forms(text: pa.Array) -> Ints:
    spelled, is_spelled = spelled_forms.find_forms(text)
    found = np.where(is_spelled, FORMS.index(spelled_forms.FORMS[0]) + spelled, FORMS.index("text"))
    for form, pattern in _PATTERNS:
        found[_where(pc.match_substring_regex(text, pattern))] = FORMS.index(form)
    at_times, known = moments(text)
    at = np.ones(len(text), dtype=bool) if known is None else known
    for form, step in (("fraction", 1), ("second", 1_000_000), ("minute", 60_000_000), ("date", 86_400_000_000)):
        found[at & (at_times % step == 0)] = FORMS.index(form)
    lower = pc.ascii_lower(text)
    for form, words in (("missing word", MISSING_WORDS), ("boolean", ("true", "false"))):
        found[_where(pc.is_in(lower, value_set=pa.array(words, lower.type)))] = FORMS.index(form)
    return found


def _where(mask: pa.Array) -> Bools:
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


SPIKES: Final = (-999.0, -99.0, -9.0, -1.0, 0.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0, 9999999.0)
"""Values that a column may have oddly often: nothing, and codes for "not applicable" or "this or more"."""
FIRST_YEAR: Final = 1850
LAST_YEAR: Final = 2100

_FURTHEST = 1e18


@dataclass(frozen=True)
class Magnitudes:
    """The numbers of a column by magnitude; the cells from the most negative on, then `SPIKES`."""

    column: str
    whole: bool
    spelling: Spelling | None = None

    @cached_property
    def steps(self) -> Floats:
        """Where the cells of positive numbers begin, after the first."""
        powers = range(0 if self.whole else -6, 16)
        return np.array([float(f"{m}e{e}") for e in powers for m in (1, 2, 5)])

    @cached_property
    def edges(self) -> Floats:
        """The ends of the cells in rising order; those of negative numbers include their lower end."""
        furthest = LARGEST if self.whole else _FURTHEST  # as far as a schema's bounds may go
        return np.concatenate([[-furthest], -self.steps[::-1], [0.0], self.steps, [furthest]])

    @property
    def ranges(self) -> int:
        """The number of cells that are ranges."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """All cells."""
        return self.ranges + len(SPIKES)

    def place(self, values: pa.Array) -> Ints:
        """The cell of each number; none for what is no number."""
        found, known = numbers(values, self.spelling)
        number = np.clip(np.nan_to_num(found.astype(np.float64)), -_FURTHEST / 2, _FURTHEST / 2)
        half = self.ranges // 2
        size = np.searchsorted(self.steps, np.abs(number), side="right")
        cell = np.where(number < 0, half - 1 - size, half + size)
        for i, spike in enumerate(SPIKES):
            cell[number == spike] = self.ranges + i
        return cell if known is None else np.where(known, cell, -1)


@dataclass(frozen=True)
class Years:
    """The dates or moments of a column by year; the first and the last cell hold everything before and after."""

    column: str
    scale: Scale
    spelling: Spelling | None = None

    @property
    def size(self) -> int:
        """One cell per year."""
        return LAST_YEAR - FIRST_YEAR + 1

    def place(self, values: pa.Array) -> Ints:
        """The year of each date."""
        found, known = _days(values, self.scale, self.spelling)
        cell = (
            np.clip(found.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970, FIRST_YEAR, LAST_YEAR) - FIRST_YEAR
        )
        return cell if known is None else np.where(known, cell, -1)


@dataclass(frozen=True)
class Grid:
    """The values of a column between public edges (days for dates and moments); values outside are in no cell."""

    column: str
    scale: Scale
    edges: tuple[float, ...]
    spelling: Spelling | None = None

    @property
    def size(self) -> int:
        """One cell between two edges."""
        return len(self.edges) - 1

    def place(self, values: pa.Array) -> Ints:
        """The cell of each value."""
        timed = self.scale not in ("integer", "number")
        found, known = _days(values, self.scale, self.spelling) if timed else numbers(values, self.spelling)
        cell = np.searchsorted(np.asarray(self.edges), np.nan_to_num(found.astype(np.float64)), side="right") - 1
        inside = (cell >= 0) & (cell < self.size)
        return np.where(inside if known is None else inside & known, cell, -1)


def _days(values: pa.Array, scale: Scale, spelling: Spelling | None) -> tuple[Ints, Bools | None]:
    """Days since 1970 within the years that have cells, and which are known."""
    low, high = (int(np.datetime64(f"{year}-01-01", "D").astype(np.int64)) for year in (FIRST_YEAR, LAST_YEAR + 1))
    if scale == "date":
        found, known = days(values, spelling)
        return np.clip(found, low, high - 1), known
    moments, known = microseconds(values, low * 86_400_000_000, high * 86_400_000_000 - 1, spelling)
    return np.clip(moments // 86_400_000_000, low, high - 1), known
