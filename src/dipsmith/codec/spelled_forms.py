"""Forms of numbers and dates that are not written plainly, and which spelling reads most of a column.

Each form is named by an example of it; which spellings read a form is found by reading its example. Some are read by
several: `1,234` has a comma that divides thousands or one that begins a fraction, `1/2/1970` is in January or in February.
The other values of the column decide, and among spellings that read as many the first does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.arrays import Bools, Ints
from dipsmith.codec.parse import days, numbers
from dipsmith.schema.spelling import Spelling

_SPACE = r"[ \x{00A0}\x{2009}\x{202F}]"
_NUMBERS = {
    "1,234": r"[0-9]{1,3},[0-9]{3}",
    "1,234,567": r"[0-9]{1,3}(?:,[0-9]{2,3})+,[0-9]{3}",
    "1,234.5": r"[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}\.[0-9]+",
    "1.234.567": r"[0-9]{1,3}(?:\.[0-9]{2,3})+\.[0-9]{3}",
    "1.234,5": r"[0-9]{1,3}(?:\.[0-9]{2,3})*\.[0-9]{3},[0-9]+",
    "1 234": rf"[0-9]{{1,3}}(?:{_SPACE}[0-9]{{3}})+",
    "1 234,5": rf"[0-9]{{1,3}}(?:{_SPACE}[0-9]{{3}})+,[0-9]+",
    "1 234.5": rf"[0-9]{{1,3}}(?:{_SPACE}[0-9]{{3}})+\.[0-9]+",
    "1'234": r"[0-9]{1,3}(?:['’][0-9]{3})+",
    "1'234.5": r"[0-9]{1,3}(?:['’][0-9]{3})+\.[0-9]+",
}
_COMMA = {"1234,5": r"[0-9]*,[0-9]+"}
_PLAIN = {"1": "[0-9]+", "1.5": r"[0-9]*\.[0-9]+", "1.234": r"[0-9]{1,3}\.[0-9]{3}"}
_UNIT = r"(?:[A-Z]{0,3}\p{Sc}|EUR|USD|GBP|CHF|CAD|AUD|JPY|SEK|NOK|DKK|PLN|CZK|Fr\.?|kr\.?)"
"""Words and signs that drafts take for units: currencies. Other words may belong to codes (A12, Room 5)."""
_DATES = {
    "1/2/1970": "(?:0?[1-9]|1[0-2])S(?:0?[1-9]|1[0-2])S[12][0-9]{3}",
    "31/12/1970": "(?:1[3-9]|2[0-9]|3[01])S(?:0?[1-9]|1[0-2])S[12][0-9]{3}",
    "12/31/1970": "(?:0?[1-9]|1[0-2])S(?:1[3-9]|2[0-9]|3[01])S[12][0-9]{3}",
}


def _patterns() -> dict[str, str]:
    """The forms by their examples; the later ones are narrower."""
    found = {}
    for name, pattern in (_COMMA | _NUMBERS).items():
        found[name] = f"^[+-]?(?:{pattern})$"
    for name, pattern in (_PLAIN | _COMMA | _NUMBERS).items():
        found[f"${name}"] = f"^[+-]?{_UNIT}{_SPACE}?[+-]?(?:{pattern})$|^[+-]?(?:{pattern}){_SPACE}?(?:{_UNIT}|%)$"
    for mark in "/.-":
        for name, pattern in _DATES.items():
            found[name.replace("/", mark)] = f"^{pattern.replace('S', f'[{mark}]')}$"
    for mark in ("", "-"):
        month = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
        found[f"31{mark}DEC{mark}1970"] = f"^[0-9]{{1,2}}{mark}{month}{mark}[12][0-9]{{3}}$"
    return found


PATTERNS: Final = _patterns()
FORMS: Final = tuple(PATTERNS)
_IS_DATE = np.array(["1970" in name for name in FORMS])
_OF_PLAIN = {"integer": "1", "1 decimal": "1.5", "2 decimals": "1.25", "more decimals": "1.2345", "1.234": "1.234"}
"""Examples of the forms of plain numbers."""
_MARKS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " "), (".", "'"))
_FORMATS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m.%d.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d%b%Y", "%d-%b-%Y")
OF_NUMBERS: Final = tuple(Spelling(d, g, bare) for bare in (True, False) for d, g in _MARKS)
OF_DATES: Final = tuple(Spelling(format=text) for text in _FORMATS)


def find_forms(text: pa.Array) -> tuple[Ints, Bools]:
    """The form of each text by its number in `FORMS`, and which have one."""
    found, has = np.zeros(len(text), np.int64), np.zeros(len(text), dtype=bool)
    for i, pattern in enumerate(PATTERNS.values()):
        matched = pc.fill_null(pc.match_substring_regex(text, pattern), False).to_numpy(zero_copy_only=False)
        found[matched], has = i, has | matched
    return found, has


def choose_spelling(counts: Mapping[str, int]) -> tuple[Spelling, int, int]:
    """The spelling that reads most rows, how many it reads, and how many of these are no whole numbers or dates.

    >>> choose_spelling({"1,234": 5, "1234,5": 3, "integer": 2})[0].keys
    {'decimalChar': ','}
    """
    best = max(
        (*OF_NUMBERS, *OF_DATES), key=lambda s: sum(n for form, n in counts.items() if _value(s, form) is not None)
    )
    values = [(_value(best, form), n) for form, n in counts.items()]
    read = sum(n for value, n in values if value is not None)
    return best, read, sum(n for value, n in values if value is not None and value % 1)


@cache
def _value(spelling: Spelling, form: str) -> float | None:
    """What a spelling reads in the example of a form; None where it reads nothing."""
    if bool(spelling.format) != (form in FORMS and bool(_IS_DATE[FORMS.index(form)])):
        return None
    if form not in FORMS and form not in _OF_PLAIN:
        return None
    example = pa.array([_OF_PLAIN.get(form, form)])
    values, known = days(example, spelling) if spelling.format else numbers(example, spelling)
    return float(values[0]) if known is None or known[0] else None
