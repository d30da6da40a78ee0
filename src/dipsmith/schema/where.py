"""Which rows a question is about: ``age in [30, 71) and sex = F``.

::

    where      condition { "and" condition }
    condition  column "in" "[" value "," value ")"       from the first value up to, not including, the second
             | column ("<" | ">=" | "<=" | ">") value    "<=" and ">" on whole scales only
             | column ("=" | "!=") value
             | column "in" "{" value { "," value } "}"
    column     a name, or `any name`
    value      a word, or 'any text'

Nothing is evaluated. Each condition becomes a column of its own that is read from the same values as the one it names
and has few labels: one of them is "inside". So bounds need not be edges of the schema's bins, and the schema's own
columns, rules and domains stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from dipsmith.errors import SchemaError, UsageError
from dipsmith.schema import bins
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.domain import Bins, Categories, Domain

INSIDE: Final = "inside"
MOST_CHARACTERS: Final = 2_000
MOST_SHOWN: Final = 12
"""Labels of a column that a message lists."""

_WORD: Final = r"""[^\s=<>!\[\](){},`'"]++"""
_VALUE: Final = rf"""(?:'[^']*'|"[^"]*"|{_WORD})"""
_CONDITION: Final = re.compile(
    rf"""
    \s* (?P<column> `[^`]+` | {_WORD} ) \s*
    (?: in \s* \[ \s* (?P<low> {_VALUE} ) \s* , \s* (?P<high> {_VALUE} ) \s* (?P<end> [\])] )
      | in \s* \{{ \s* (?P<labels> {_VALUE} (?: \s* , \s* {_VALUE} )* ) \s* \}}
      | (?P<sign> != | == | <= | >= | [=<>] ) \s* (?P<value> {_VALUE} ) )
    """,
    re.VERBOSE,
)
_AND: Final = re.compile(rf"\s*and(?!{_WORD})", re.IGNORECASE)


@dataclass(frozen=True)
class RowCondition:
    """A column that lies in a half-open interval, or has one of some labels (with `other`, none of them)."""

    column: str
    low: str | None = None
    high: str | None = None
    above: bool = False  # whether the low bound itself is outside
    through: bool = False  # whether the high bound itself is inside
    labels: tuple[str, ...] = ()
    others: bool = False

    def asked_of(self, attribute: Attribute, name: str) -> tuple[Attribute, int]:
        """The column that tells whether the condition holds, and the code that says so."""
        domain = attribute.domain
        made: Domain
        if isinstance(domain, Bins):
            made, code = self._interval(domain)
        else:
            made, code = self._labels(domain, attribute.type == "boolean")
        return replace(attribute, name=name, domain=made, levels=()), code

    def _interval(self, domain: Bins) -> tuple[Bins, int]:
        scale, whole = domain.scale, domain.scale != "number"
        if self.labels:
            if self.others or len(self.labels) > 1:
                self._refuse(f"ask for an interval, such as {self.column} in [30, 71)")
            return replace(self, low=self.labels[0], high=self.labels[0], through=True, labels=())._interval(domain)
        if not whole and (self.above or self.through):
            self._refuse("numbers are counted from a bound on and below another: use >= and <, or in [30, 71)")
        step = 1.0 if whole else 0.0
        least, top = float(domain.minimum), float(domain.maximum)
        end = top + step
        try:
            low = least if self.low is None else bins.point(scale, self.low) + (step if self.above else 0.0)
            high = end if self.high is None else bins.point(scale, self.high) + (step if self.through else 0.0)
        except SchemaError as error:
            self._refuse(str(error))
        if low >= high or low >= end or high <= least:
            self._refuse("no value of the column lies there")
        if not whole and high == top and self.high is not None:
            self._refuse(f"values above {top:g} are counted as {top:g}; leave the upper bound out, or lower it")
        cuts = [least, *(cut for cut in (low, high) if least < cut < end), end]
        return bins.by_edges(scale, cuts, maximum=top, missing=domain.missing), cuts.index(max(low, least))

    def _labels(self, domain: Categories, truths: bool) -> tuple[Categories, int]:
        if not self.labels:
            self._refuse("its values have no order; ask for some of them, such as = A, or in {A, B}")
        named = dict(zip(domain.values, (domain.labels[code] for code in domain.codes), strict=True))
        for label in self.labels:
            if label not in named and label not in domain.labels:
                shown = ", ".join([*domain.labels[:MOST_SHOWN], *(["…"] if len(domain.labels) > MOST_SHOWN else [])])
                self._refuse(f"'{label}' is no value of it; it has: {shown}")
        wanted = {v for v, label in named.items() if (v in self.labels or label in self.labels) != self.others}
        if not wanted:
            self._refuse("no value of the column is left")
        if truths:  # booleans are read by their own rules: the domain stays, and is asked for one of its codes
            if len(wanted) == len(named):
                self._refuse("every value of the column is asked for")
            return domain, domain.values.index(next(iter(wanted)))
        grouped = {value: INSIDE if value in wanted else "outside" for value in domain.values}
        other = None if domain.other is None else domain.values[domain.codes.index(domain.other)]
        made = Categories.of(domain.values, grouped, other=other, missing=domain.missing)
        return made, made.labels.index(INSIDE)

    def _refuse(self, why: str) -> NoReturn:
        raise UsageError(f"--where, column '{self.column}': {why}")


def parse_where(text: str) -> tuple[RowCondition, ...]:
    """Read conditions; UsageError, in one line, where they depart from the grammar.

    >>> parse_where("age in [30, 71) and sex = F")[0].high
    '71'
    """
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"--where has {len(text):,} characters, at most {MOST_CHARACTERS:,} are read")
    found, place = list[RowCondition](), 0
    while condition := _CONDITION.match(text, place):
        found.append(_read_condition(condition.groupdict()))
        place = condition.end()
        if not text[place:].strip():
            return tuple(found)
        if (joined := _AND.match(text, place)) is None:
            break
        place = joined.end()
    rest = text[place:].strip()[:40]
    raise UsageError(
        f"--where cannot be read at {repr(rest) if rest else 'its end'}; expected conditions such as: age in [30, 71) and "
        "sex = F and grade in {A, B}"
    )


def _read_condition(parts: dict[str, str | None]) -> RowCondition:
    column, sign = str(parts["column"]).strip("`"), parts["sign"]
    low, high, value = (parts[name] and _unquote(str(parts[name])) for name in ("low", "high", "value"))
    if sign is None and parts["labels"] is None:
        return RowCondition(column, low, high, through=parts["end"] == "]")
    if sign is None or value is None:
        return RowCondition(column, labels=tuple(map(_unquote, re.findall(_VALUE, str(parts["labels"])))))
    if sign in ("=", "==", "!="):
        return RowCondition(column, labels=(value,), others=sign == "!=")
    if sign in ("<", "<="):
        return RowCondition(column, high=value, through=sign == "<=")
    return RowCondition(column, low=value, above=sign == ">")


def _unquote(value: str) -> str:
    return value[1:-1] if value[0] in "'\"" else value


def one_line(text: str) -> str:
    """Conditions with single spaces between their words; a text in quotes is a value, and stays as it is.

    >>> one_line("age  <  30 and office = 'A  1'")
    "age < 30 and office = 'A  1'"
    """
    return re.sub(r"""(`[^`]*`|'[^']*'|"[^"]*")|\s+""", lambda found: found[1] or " ", text.strip())
