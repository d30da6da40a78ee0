"""How the cells of a column are written where they are not plain numbers or ISO dates: public, declared, never guessed.

`22.842,69 €` is 22842.69 under ``{decimalChar: ",", groupChar: ".", bareNumber: false}``, and `31/12/1970` the last day of
1970 under ``{format: "%d/%m/%Y"}``: the words of Frictionless table schemas. A spelling says which texts are read and as
what; every other text of the column is not read. Values that are numbers or dates already are not touched by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dipsmith.errors import SchemaError

if TYPE_CHECKING:
    from dipsmith.schema.domain import Scale

APOSTROPHES = "'’"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
"""%b: English, in any case."""

_PARTS = {"Y": ("y", 4), "y": ("yy", 2), "m": ("m", 2), "d": ("d", 2), "b": ("b", 3), "H": ("H", 2), "M": ("M", 2), "S": ("S", 2)}  # fmt: skip
_SPACE = r"[ \x{00A0}\x{2009}\x{202F}]"
"""What a groupChar of one space stands for: the narrow and the unbreakable ones too."""
_BEFORE = rf"(?:\p{{L}}+\.{_SPACE}+|(?:\p{{L}}+\p{{Sc}}?|\p{{Sc}}\p{{L}}*){_SPACE}*)"
_AFTER = rf"(?:{_SPACE}*(?:\p{{Sc}}|[%‰°])|{_SPACE}+\p{{L}}+\.?)"


@dataclass(frozen=True)
class Spelling:
    """The marks of a number, or the format of a date.

    >>> Spelling(decimal=",", group=".").words
    'such as 1.234,5'
    """

    decimal: str = "."
    group: str = ""
    bare: bool = True
    format: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise SchemaError(f"decimalChar is '{self.decimal}', expected a point or a comma")
        if self.group not in ("", ".", ",", " ", "'", "_"):
            raise SchemaError(
                f"groupChar is '{self.group}', expected one of: comma, point, space, apostrophe, underscore"
            )
        if self.decimal == self.group:
            raise SchemaError(f"groupChar is '{self.group}', and so is decimalChar; nobody could tell them apart")
        if self.format:
            _ = self.date_pattern

    @cached_property
    def group_marks(self) -> str:
        """What divides thousands, as a class of a pattern."""
        return {" ": _SPACE, "'": f"[{APOSTROPHES}]"}.get(self.group, f"[{re.escape(self.group)}]")

    @cached_property
    def number_pattern(self) -> str:
        """The texts that are read as numbers (RE2).

        The last group has three digits, those before it two or three: of `22,5` a comma that divides thousands is not read
        as 225. One word or sign may stand before and after the digits unless they are bare; what stands in brackets is not read.
        """
        whole, point = "[0-9]+", re.escape(self.decimal)
        if self.group:
            whole = f"(?:[0-9]{{1,3}}(?:{self.group_marks}[0-9]{{2,3}})*{self.group_marks}[0-9]{{3}}|[0-9]+)"
        number = f"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)"
        if self.bare:
            return f"^[+-]?{number}(?:[eE][+-]?[0-9]+)?$"
        return f"^(?:[+-] ?{_BEFORE}?|{_BEFORE}?[+-]?){number}{_AFTER}?$"

    @cached_property
    def idle_pattern(self) -> str:
        """What such a text has besides sign, digits and decimal mark, and is not read."""
        if self.bare:
            return self.group_marks if self.group else ""
        return rf"{_SPACE}*\p{{L}}+\.(?:{_SPACE}|$)|[^0-9+\-{self.decimal}]+"

    @cached_property
    def date_pattern(self) -> str:
        """The texts that are read as dates (RE2), their parts by name."""
        pieces = re.split(r"%(.)", self.format)
        literals, directives = pieces[::2], pieces[1::2]
        known = [_PARTS.get(d) for d in directives]
        if None in known or "%" in "".join(literals):
            listed = ", ".join(f"%{d}" for d in _PARTS)
            raise SchemaError(f"format '{self.format}' is not one that is read; it is put together of {listed}")
        names = [name for name, _ in known if known]  # type: ignore[misc]
        has = [{"yy": "y", "b": "m"}.get(n, n) for n in names]
        if len(set(has)) < len(has) or not {"y", "m", "d"} <= set(has):
            raise SchemaError(f"format '{self.format}' needs one year, one month and one day, such as %d/%m/%Y")
        found = re.escape(literals[0])
        for i, (name, width) in enumerate(known):  # type: ignore[misc]
            kind = "[A-Za-z]" if name == "b" else "[0-9]"
            # a single digit is read where something divides it from the next
            beside = [literals[j] or names[k] == "b" for j, k in ((i, i - 1), (i + 1, i + 1)) if 0 <= k < len(names)]
            fewest = 1 if all(beside) and width == 2 and name != "yy" else width
            many = f"{{{fewest},{width}}}" if fewest < width else f"{{{width}}}"
            found += f"(?P<{name}>{kind}{many}){re.escape(literals[i + 1])}"
        return f"^{found}$"

    @property
    def words(self) -> str:
        """An example, for people."""
        if self.format:
            return f"as {self.format}"
        number = f"1{self.group}234{self.decimal}5"
        return f"such as {number}" if self.bare else f"such as {number}, with a word or sign before or after"

    @property
    def keys(self) -> dict[str, object]:
        """The keys of a schema file that say so."""
        return {
            key: value
            for key, value, usual in (
                ("decimalChar", self.decimal, "."),
                ("groupChar", self.group, ""),
                ("bareNumber", self.bare, True),
                ("format", self.format, ""),
            )
            if value != usual
        }


def read_spelling(
    scale: Scale, decimal: str | None, group: str | None, bare: bool | None, format_: str | None
) -> Spelling | None:
    """The spelling that a field declares; None where cells are plain.

    >>> read_spelling("number", None, ",", None, None)
    Spelling(decimal='.', group=',', bare=True, format='')
    """
    timed = scale in ("date", "datetime")
    marks = {"decimalChar": decimal, "groupChar": group, "bareNumber": bare}
    if timed and (wrong := next((key for key, value in marks.items() if value is not None), None)):
        raise SchemaError(f"{wrong} goes with numbers; of dates say format, such as '%d/%m/%Y'")
    if not timed and format_ is not None:
        raise SchemaError("format goes with dates and datetimes; of numbers say decimalChar, groupChar or bareNumber")
    if scale == "date" and any(part in (format_ or "") for part in ("%H", "%M", "%S")):
        raise SchemaError(f"format '{format_}' has a time of day, which a date has not; say type: datetime")
    made = Spelling(decimal or ".", group or "", bare is not False, "" if format_ in (None, "default") else format_)
    return made if made.keys else None
