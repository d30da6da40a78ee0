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
from typing import Any, Final, NoReturn

from dipsmith.errors import SchemaError, UsageError
from dipsmith.schema import bins
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.domain import Bins, Categories, Domain

INSIDE: Final = "inside"
MOST_CHARACTERS: Final = 2_000
MOST_SHOWN: Final = 12
"""Labels of a column that a message lists."""

_WORD: Final = re.compile(
    r"""\s*(?:(?P<column>`[^`]+`)|(?P<text>'[^']*'|"[^"]*")|(?P<sign>!=|==|<=|>=|[=<>\[\](){},])|(?P<word>[^\s=<>!\[\](){},`'"]+))""",
    re.VERBOSE,
)


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
    return _Reader(text).conditions()


def one_line(text: str) -> str:
    """Conditions with single spaces between their words; a text in quotes is a value, and stays as it is.

    >>> one_line("age  <  30 and office = 'A  1'")
    "age < 30 and office = 'A  1'"
    """
    return re.sub(r"""(`[^`]*`|'[^']*'|"[^"]*")|\s+""", lambda found: found[1] or " ", text.strip())


class _Reader:
    """A place in a row of words."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.words: list[tuple[str, str]] = []
        place, stripped = 0, text.rstrip()
        while place < len(stripped):
            found = _WORD.match(stripped, place)
            if found is None or found.lastgroup is None:
                self._refuse(stripped[place:].strip()[:1])
            value = found[found.lastgroup]
            self.words.append((found.lastgroup, value[1:-1] if found.lastgroup in ("column", "text") else value))
            place = found.end()

    def conditions(self) -> tuple[RowCondition, ...]:
        found = [self.condition()]
        while self.at < len(self.words):
            if self._take(("word",)).lower() != "and":
                self._refuse(self.words[self.at - 1][1])
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> RowCondition:
        column = self._take(("word", "column"))
        verb = self._take(("word", "sign"))
        if verb == "in" and self._is("["):
            low, high = self._listed("[", ")]")
            closed = self.words[self.at - 1][1] == "]"
            return RowCondition(column, low, high, through=closed)
        if verb == "in" and self._is("{"):
            return RowCondition(column, labels=tuple(self._listed("{", "}", several=True)))
        value = self._take(("word", "text"))
        made: dict[str, dict[str, Any]] = {
            "<": {"high": value},
            "<=": {"high": value, "through": True},
            ">": {"low": value, "above": True},
            ">=": {"low": value},
            "=": {"labels": (value,)},
            "==": {"labels": (value,)},
            "!=": {"labels": (value,), "others": True},
        }
        if verb not in made:
            self._refuse(verb)
        return RowCondition(column, **made[verb])

    def _listed(self, opens: str, closes: str, *, several: bool = False) -> list[str]:
        self._sign(opens)
        found = [self._take(("word", "text"))]
        while self._is(","):
            self._sign(",")
            found.append(self._take(("word", "text")))
        self._sign(closes)
        if not several and len(found) != 2:
            self._refuse(closes)
        return found

    def _is(self, sign: str) -> bool:
        return self.at < len(self.words) and self.words[self.at] == ("sign", sign)

    def _sign(self, signs: str) -> None:
        found = self._take(("sign",))
        if found not in signs:
            self._refuse(found)

    def _take(self, kinds: tuple[str, ...]) -> str:
        if self.at >= len(self.words):
            self._refuse("its end")
        kind, value = self.words[self.at]
        if kind not in kinds:
            self._refuse(value)
        self.at += 1
        return value

    def _refuse(self, where: str) -> NoReturn:
        raise UsageError(
            f"--where cannot be read at '{where}'; expected conditions such as: age in [30, 71) and sex = F and grade in {{A, B}}"
        )
