"""Rows → codes inside any warehouse: the decisions of `codec.encode` as expressions of ibis.

Guarantee. The code of a row is a function of that row alone, whatever the warehouse (no row is grouped with others
before it has its codes), so neighbouring tables have neighbouring counts. That the code is the one which `Encoder`
gives is tried on the warehouse itself before anything is charged (`codec.trials`, `counting.ibis`).

Constants are compared in the column's own type, so nothing is formatted or rounded by the warehouse.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dipsmith.codec.encode import places
from dipsmith.codec.parse import FALSE, TRUE
from dipsmith.codec.points import first_reaching, native
from dipsmith.codec.readings import Columns, Readings, Step, only_spaces
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Bins, Categories
from dipsmith.sources.ibis_terms import Column, case, constant, kind_of

_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_FAR = ("datafusion", "duckdb", "postgres")
"""Warehouses that have dates before the year 1 and after 9999."""
_FEW = 32
"""Lists of at most so many texts are compared one by one; longer ones by their beginnings first."""


def steps(attribute: Attribute, dtype: Any, can: Callable[[str], bool]) -> list[Step]:
    """How an attribute is encoded from a column v of some type, step by step; the last one makes the code, also as v.

    `dtype` is the column's type, as ibis says it; `can` tells whether the warehouse has an operation of ibis.
    """
    domain, text = attribute.domain, kind_of(dtype) == "text"
    numbers = Readings(can).number if text else []
    if isinstance(domain, Bins):
        if domain.scale in ("date", "datetime"):
            return [*(Readings(can).moment if text else []), lambda c: {"v": _bin_time(domain, c["v"], text)}]
        return [*numbers, lambda c: {"v": _bin_number(domain, c, can)}]
    if attribute.type in ("boolean", "integer"):
        make = _truth if attribute.type == "boolean" else _whole
        return [*numbers, lambda c: {"v": make(domain, c, can)}]
    return [lambda c: {"v": _look_up(domain, c["v"], can)}]


def unit_text(name: str, column: Column, can: Callable[[str], bool], warehouse: str) -> Column:
    """The unit's value as `counting.units.unit_text` spells it; missing is empty text.

    Dates that Python does not have are missing: where they can be, formatting fails on them.
    """
    kind = kind_of(column.type())
    if kind == "text":
        # the other branch is for those engines alone that strip more than spaces
        rest = column.re_extract("^ *([^ ]([^ ]| +[^ ])*) *$", 1) if can("RegexExtract") else column
        return case((only_spaces(column), column.strip()), other=rest).fill_null("")
    if kind == "date":
        spelled = column.strftime("%Y-%m-%d")
        if warehouse in _FAR:
            far = (column < date(dt.date.min)) | (column > date(dt.date.max))
            spelled = case((far, constant("")), other=spelled)
        return spelled.fill_null("")
    if kind in ("whole", "wide"):
        return column.cast("string").fill_null("")
    if kind == "decimal" and column.type().scale == 0:
        return case((_is_decimal(column), column.cast("string")), other=constant("")).fill_null("")
    raise SourceError(
        f"unit column '{name}' holds fractions, truth values or points in time, which warehouses spell differently; give "
        "a view in which it is text or a whole number"
    )


# Numbers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Number:
    """A value as a number, where it `is_known`: compared with doubles as if it were the nearest double itself."""

    is_known: Column
    reaches: Callable[[float], Column]

    def equals(self, value: float) -> Column:
        return self.reaches(value) & ~self.reaches(math.nextafter(value, math.inf))


def _number(columns: Columns, can: Callable[[str], bool]) -> _Number:
    if "y" in columns:
        y = columns["y"]
        return _Number(y.notnull(), lambda edge: _reaches(y, edge))
    x = columns["v"]
    kind = kind_of(x.type())
    if kind in ("whole", "wide"):
        return _Number(x.notnull(), lambda edge: _whole_reaches(x, edge))
    if kind == "boolean":
        one = case((x, constant(1)), other=constant(0))
        return _Number(x.notnull(), lambda edge: one >= constant(math.ceil(min(max(edge, -1.0), 2.0))))
    if kind == "decimal":
        return _Number(_is_decimal(x), lambda edge: _decimal_reaches(x, edge))
    if kind == "real":
        wide = x.cast("float64")
        known = wide.notnull() & ~wide.isnan() if can("IsNan") else wide.notnull()
        return _Number(known, lambda edge: _reaches(wide, edge))
    return _Number(constant(False), lambda edge: constant(False))


def _reaches(y: Column, edge: float) -> Column:
    # -0.0 reaches 0, also where numbers are ordered by their bits
    return y > constant(-5e-324) if edge == 0 else y >= constant(edge)


def _whole_reaches(x: Column, edge: float) -> Column:
    least, wide = first_reaching(edge), kind_of(x.type()) == "wide"
    low, high = (0, 2**64) if wide else (-(2**63), 2**63)
    if least <= low or least >= high:
        return constant(least <= low)
    return x >= constant(least, "uint64") if wide else x.cast("int64") >= constant(least, "int64")


def _is_decimal(x: Column) -> Column:
    """Whether there is a number: PostgreSQL's decimals may be NaN, which is above all that a column can hold."""
    dtype = x.type()
    return x.notnull() & (x <= constant(exact(10**dtype.precision - 1, dtype.scale), dtype))


def _decimal_reaches(x: Column, edge: float) -> Column:
    """Compare with the least decimal of the column whose nearest double is at least the edge."""
    dtype = x.type()
    least = first_reaching(edge, dtype.scale)
    if abs(least) >= 10**dtype.precision:
        return constant(least < 0)
    return x >= constant(exact(least, dtype.scale), dtype)


def exact(units: int, scale: int) -> Decimal:
    """So many units of the last place as a decimal, whatever the precision of Python's arithmetic."""
    return Decimal((int(units < 0), tuple(int(d) for d in str(abs(units))), -scale))


def _bin_number(domain: Bins, columns: Columns, can: Callable[[str], bool]) -> Column:
    number = _number(columns, can)
    within = _tree([number.reaches(float(e)) for e in domain.edges[1:-1]])
    return case((number.is_known, within), other=constant(domain.missing_code or 0))


def _tree(reached: Sequence[Column], first: int = 0) -> Column:
    """How many of the increasing edges are reached, by halves."""
    if not reached:
        return constant(first)
    middle = len(reached) // 2
    more = _tree(reached[middle + 1 :], first + middle + 1)
    return case((reached[middle], more), other=_tree(reached[:middle], first))


# Dates and times -----------------------------------------------------------------------------------------


def _bin_time(domain: Bins, x: Column, counted: bool) -> Column:
    """The bin of a point in time, `counted` where text was read as microseconds since 1970."""
    absent = constant(domain.missing_code or 0)
    kind = kind_of(x.type())
    step = _DAY if domain.scale == "date" else 1
    moments = [int(e) * step for e in domain.edges[1:-1]]
    if counted:
        reached = [x >= constant(m, "int64") for m in moments]
    elif kind == "date":
        reached = [x >= date((_EPOCH + dt.timedelta(days=-(-m // _DAY))).date()) for m in moments]
    elif kind in ("timestamp", "timestamptz"):
        zone = dt.UTC if kind == "timestamptz" else None
        points = [(_EPOCH + dt.timedelta(microseconds=m)).replace(tzinfo=zone) for m in moments]
        reached = [x >= constant(point, x.type()) for point in points]
    else:
        return absent
    return case((x.notnull(), _tree(reached)), other=absent)


def date(day: dt.date) -> Column:
    """A date; not as a constant of that type, which some engines take for nanoseconds."""
    return constant(day.isoformat()).cast("date")


# Categories ----------------------------------------------------------------------------------------------


def _whole(domain: Categories, columns: Columns, can: Callable[[str], bool]) -> Column:
    outside, absent = places(domain)
    number = _number(columns, can)
    pairs = zip(domain.values, domain.codes, strict=True)
    found = case(*[(number.equals(float(int(v))), constant(c)) for v, c in pairs], other=constant(outside))
    return case((number.is_known, found), other=constant(absent))


def _truth(domain: Categories, columns: Columns, can: Callable[[str], bool]) -> Column:
    outside, absent = places(domain)
    unknown = constant(absent if domain.missing else outside)
    number = _number(columns, can)
    branches = [
        (number.is_known & number.equals(1.0), constant(1)),
        (number.is_known & number.equals(0.0), constant(0)),
    ]
    if "y" in columns:
        text = columns["v"]
        # ASCII letters only: no engine's own idea of lower case
        words = [
            (text.re_search("^(" + "|".join(map(_any_case, listed)) + ")$") & ~text.contains("\n"), constant(truth))
            for listed, truth in ((TRUE, 1), (FALSE, 0))
        ]
        branches = [*words, *branches]
    return case(*branches, other=unknown)


def _any_case(word: str) -> str:
    return "".join(f"[{c.upper()}{c}]" if c.isalpha() else c for c in word)


def _look_up(domain: Categories, x: Column, can: Callable[[str], bool]) -> Column:
    outside, absent = places(domain)
    kind = kind_of(x.type())
    if kind == "text":
        return _texts(domain, x)
    if kind == "wide" or (kind == "decimal" and x.type().scale == 0):
        limit = 2**64 if kind == "wide" else 10 ** x.type().precision
        least = 0 if kind == "wide" else 1 - limit
        pairs = [(int(v), c) for v, c in zip(domain.values, domain.codes, strict=True) if _is_whole(v)]
        typed = int if kind == "wide" else Decimal
        wanted = [(x == constant(typed(v), x.type()), c) for v, c in pairs if least <= v < limit]
        known = x.notnull() if kind == "wide" else _is_decimal(x)
    elif kind in ("real", "decimal"):
        number = _number({"v": x}, can)
        wanted = [(number.equals(float(str(v))), c) for v, c in native(domain, "real")]
        known = number.is_known
    else:
        assert kind is not None
        wanted = [(x == _point(point, x), c) for point, c in native(domain, kind)]
        known = x.notnull()
    found = case(*[(hit, constant(c)) for hit, c in wanted], other=constant(outside))
    return case((known, found), other=constant(absent))


def _point(point: object, x: Column) -> Column:
    if type(point) is dt.date:
        return date(point)
    return constant(point, x.type()) if isinstance(point, dt.datetime) else constant(point)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.lstrip("-").isdecimal() and str(int(text)) == text


def _texts(domain: Categories, x: Column) -> Column:
    outside, absent = places(domain)
    pairs = [(v, c) for v, c in zip(domain.values, domain.codes, strict=True) if v.strip(" ") == v != ""]
    if any(v.strip() != v for v, _ in pairs):
        raise SourceError(
            "a listed value begins or ends with white space that is no space, which warehouses strip; list it without"
        )
    spaced = case(
        (x.isnull(), constant(absent)),
        (~only_spaces(x), constant(outside)),
        (x.strip() == "", constant(absent)),
        other=_among(x.strip(), pairs, constant(outside)),
    )
    # most texts stand there as they are listed: only the others are trimmed
    return _among(x, pairs, spaced)


def _among(x: Column, pairs: Sequence[tuple[str, int]], other: Column) -> Column:
    """The code of a listed text: by its beginning first where the list is long."""
    if not pairs:
        return other
    length = next((k for k in range(1, 8) if len({v[:k] for v, _ in pairs}) ** 2 >= len(pairs)), 8)
    if len(pairs) <= _FEW:
        return x.cases(*[(v, constant(c)) for v, c in pairs], else_=other)
    begins: dict[str, list[tuple[str, int]]] = {}
    for v, c in pairs:
        begins.setdefault(v[:length], []).append((v, c))
    none = constant(None, "int64")
    branches = [(begin, x.cases(*[(v, constant(c)) for v, c in held], else_=none)) for begin, held in begins.items()]
    return x.substr(0, length).cases(*branches, else_=none).coalesce(other)
