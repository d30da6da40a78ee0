"""Text → numbers and points in time inside any warehouse, as steps of expressions of ibis.

A step makes columns from columns. A warehouse computes one step after the other, so that what a step has made is
not computed again wherever the next one mentions it.

Guarantee: what `codec.parse` reads from the same text, and nothing else. Only digits, and numbers that a double can
hold, are ever cast: warehouses fail on others, each in its own way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from dipsmith.sources.ibis_terms import Column, case, constant
from dipsmith.sources.kinds import DAY, NUMBER, TIMED, USUAL

Columns = dict[str, Column]
Step = Callable[[Columns], Columns]

_MOST = sys.float_info.max


def trim(columns: Columns) -> Columns:
    """Text without the spaces around it; null when nothing is left, or where other white space would go too."""
    x = columns["v"]
    return {"v": case((only_spaces(x) & (x.strip() != ""), x.strip()), other=constant(None, "string"))}


def only_spaces(x: Column) -> Column:
    """Whether spaces are all that stripping takes away: some engines strip every white space."""
    return x.replace(" ", "") == x.strip().replace(" ", "")


@dataclass(frozen=True)
class Readings:
    """The steps that read text; `can` tells whether the warehouse has an operation of ibis."""

    can: Callable[[str], bool]

    @property
    def number(self) -> list[Step]:
        """Text as y, a double, null where it is no number; the trimmed text stays as v."""
        return [trim, self._with_sizes, self._number]

    @property
    def moment(self) -> list[Step]:
        """ISO 8601 text as v, microseconds since 1970 in UTC, null where it is no possible date and time."""
        return [trim, self._clock, self._moment]

    def _with_sizes(self, columns: Columns) -> Columns:
        """Whether a text is a number, and its size: the decimal exponent of its first digit that is not 0."""
        text = columns["v"]
        whole = text.re_extract("^[+-]?0*([0-9]*)", 1).fill_null("").length()
        zeros = text.re_extract("^[+-]?[0-9]*[.](0*)", 1).fill_null("").length()
        tens = text.re_extract("[eE][+-]?0*([0-9]*)$", 1).fill_null("")
        shift = case((tens.length() > 6, constant(999_999)), other=self._digits(tens.substr(0, 6)))
        back = case((text.re_search("[eE]-"), constant(-1)), other=constant(1))
        return {
            "v": text,
            # some engines let $ match before a line's end
            "number": text.re_search(NUMBER) & ~text.contains("\n"),
            "size": case((whole > 0, whole - 1), other=-1 - zeros) + shift * back,
            "sign": case((text.startswith("-"), constant(-1.0)), other=constant(1.0)),
        }

    def _number(self, columns: Columns) -> Columns:
        text, size, sign = columns["v"], columns["size"], columns["sign"]
        read = text.try_cast("float64") if self.can("TryCast") else text.cast("float64")
        value = case(
            (~columns["number"], constant(None, "float64")),
            (text.re_search(USUAL), read),
            (text.re_search("[iI]"), sign * constant(_MOST)),
            (~text.re_search("^[^eE]*[1-9]"), constant(0.0)),
            (size > 307, sign * constant(_MOST)),
            (size < -324, constant(0.0)),
            (size < -307, sign * constant(1e-307)),
            other=read,
        )
        return {"v": text, "y": value}

    def _clock(self, columns: Columns) -> Columns:
        """The parts of a date and a time, those that are not there as 0."""
        text = columns["v"]
        rest = text.substr(16, 40)
        zone = rest.re_extract("([+-][0-9:]+)$", 1).fill_null("").replace(":", "")
        west = case((zone.startswith("-"), constant(-1)), other=constant(1))
        fraction = rest.re_extract("[.]([0-9]+)", 1).fill_null("") + "000000"
        return {
            # apart, because DataFusion finds no match where the first group of a pattern is left out
            "matched": (text.re_search(DAY) | text.re_search(TIMED)) & ~text.contains("\n"),
            "year": self._digits(text.substr(0, 4)),
            "month": self._digits(text.substr(5, 2)),
            "day": self._digits(text.substr(8, 2)),
            "hour": self._digits(text.substr(11, 2)),
            "minute": self._digits(text.substr(14, 2)),
            "second": self._digits(rest.re_extract("^:([0-9]{2})", 1)),
            "fraction": self._digits(fraction.substr(0, 6)),
            "east": self._digits(zone.substr(1, 2)),
            "along": self._digits(zone.substr(3, 2)),
            "west": west,
        }

    def _moment(self, columns: Columns) -> Columns:
        """Days are counted by arithmetic on year, month and day: engines fail on impossible dates."""
        year, month, day = (columns[n] for n in ("year", "month", "day"))
        hour, minute, second = (columns[n] for n in ("hour", "minute", "second"))
        east, along = columns["east"], columns["along"]
        leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        length = case(
            (month.isin([4, 6, 9, 11]), constant(30)),
            (month != 2, constant(31)),
            (leap, constant(29)),
            other=constant(28),
        )
        possible = (month >= 1) & (month <= 12) & (day >= 1) & (day <= length) & (hour <= 23) & (minute <= 59)
        possible &= (second <= 59) & (east <= 23) & (along <= 59)
        # the year begins in March, four centuries early: every term below is then positive (Hinnant 2013)
        early = year + 400 - case((month <= 2, constant(1)), other=constant(0))
        months = month + case((month > 2, constant(-3)), other=constant(9))
        days = early * 365 + early // 4 - early // 100 + early // 400 + (months * 153 + 2) // 5 + day - 865_566
        minutes = days * 1440 + hour * 60 + minute - columns["west"] * (east * 60 + along)
        total = (minutes * 60 + second) * 1_000_000 + columns["fraction"]
        known = columns["matched"] & possible
        return {"v": case((known, total.cast("int64")), other=constant(None, "int64"))}

    def _digits(self, x: Column) -> Column:
        """Digits as a whole number, 0 where there are none or something else."""
        only = case((x.re_search("^[0-9]+$") & ~x.contains("\n"), x), other=constant(None, "string"))
        return (only.try_cast("int64") if self.can("TryCast") else only.cast("int64")).fill_null(0)
