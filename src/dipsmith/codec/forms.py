"""What form a value has: blank, a number, a date, a text. A fixed way to sort every possible value, known before any row.

It is how `dipsmith schema learn` finds the type of a column: by noisy counts of forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.arrays import Bools, Ints
from dipsmith.codec.parse import moments, texts

FORMS: Final = (
    "blank", "missing word", "boolean", "integer", "1 decimal", "2 decimals", "more decimals", "code",
    "date", "minute", "second", "fraction", "text",
)  # fmt: skip
"""`code` is digits with a leading zero; a moment has the form of its finest part that is not 0."""
MISSING_WORDS: Final = ("na", "n/a", "nan", "null", "none", "missing", ".", "?", "-", "--")
"""In any case: what people write in a column of numbers where there is none."""

_PATTERNS = (
    ("more decimals", r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"),
    ("2 decimals", r"^[+-]?[0-9]*\.[0-9][0-9]0*$"),
    ("1 decimal", r"^[+-]?[0-9]*\.[0-9]0*$"),
    ("integer", r"^[+-]?[0-9]+(\.0*)?$"),
    ("code", r"^0[0-9]+$"),
)
"""The later ones are narrower."""


@dataclass(frozen=True)
class Forms:
    """The values of a column by their form."""

    column: str
    size: int = len(FORMS)

    def place(self, values: pa.Array) -> Ints:
        """The form of each value."""
        encoded = pc.dictionary_encode(texts(values))
        distinct = np.append(_forms(encoded.dictionary), FORMS.index("blank"))
        return np.asarray(distinct[encoded.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)])


def _forms(text: pa.Array) -> Ints:
    found = np.full(len(text), FORMS.index("text"), np.int64)
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
