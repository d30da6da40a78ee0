# ruff: noqa: S608  # statements are put together from quoted names, integers and quoted constants of the schema
"""Counting inside PostgreSQL: one statement that encodes, truncates, filters and groups.

The statement is built from the inside out: the table's columns as values (`codec.postgresql`), their codes, the
rows of crowded units left out, rules, and one GROUP BY over the mixed-radix keys of all sets of attributes
(GROUPING SETS where there are several). Rows are dropped in the order that `counting.count` states.

Unit truncation ranks a unit's rows by SHA-256 of the same text as `counting.units.hashed_text`, so that
the server keeps exactly the rows that the batch path keeps. It is hashed in the database's own encoding, because a text
need not have another one; where that is not UTF-8, others of a crowded unit's rows may be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.codec.postgresql import CodedSql, encode_in_sql, unit_text
from dipsmith.codec.spelled import refuse_spellings
from dipsmith.counting.count import View
from dipsmith.counting.pushed import FixedCodes, Keys, by_set, deciding_columns, radix_words, rules_of, runs
from dipsmith.counting.units import hashed_columns
from dipsmith.errors import SourceError
from dipsmith.schema import Schema
from dipsmith.sources.kinds import Kind, quote
from dipsmith.sources.postgresql import PostgresTable, short_text

MOST_SETS = 1000
"""Sets of one statement; a server takes 4096, and the statement grows by sets times columns."""


@dataclass(frozen=True, eq=False)
class PostgresGrouping:
    """The rows of a table, grouped by its server; `key` chooses among those of a crowded unit, None for the one of the connection."""

    source: PostgresTable
    schema: Schema
    key: bytes | None = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what the server cannot count for any rows, such as labels that its encoding lacks, while nothing is charged.

        Cells that only a file is read by too, and units that engines spell differently.
        """
        refuse_spellings(self.schema, self.source.kinds)
        if self.schema.unit.column is not None:
            self._units()
        self.source.plan(self.statement([self.schema.names], (), "lawful"))

    def count_groups(
        self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View
    ) -> list[tuple[Keys, Ints]]:
        """For each set of attributes the combinations that occur and how often, in one scan unless they are very many."""
        answers: list[tuple[Keys, Ints]] = []
        for start in range(0, len(sets), MOST_SETS):
            some = sets[start : start + MOST_SETS]
            widths = [len(radix_words(self.schema, names)) for names in some]
            found = self.source.integers(self.statement(some, fixed_codes, view))
            answers += by_set(found or [np.zeros(0, dtype=np.int64)] * (max(widths) + 2), widths)
        return answers

    def statement(self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View) -> str:
        """The statement: columns tag, words of the key, number of rows; all whole numbers."""
        schema = self.schema
        needed = deciding_columns(schema, fixed_codes, view)
        wanted = {name for names in sets for name in names} | needed
        units = [] if schema.unit.column is None else self._units()
        names = [n for n in schema.names if n in wanted or units]
        columns = {
            schema.names.index(n): encode_in_sql(schema[n], f"t.{quote(n)}", self._kind(n), self.source.literal)
            for n in names
        }
        read = [f"{c.read} AS r{i}" for i, c in columns.items()] + [f"{x} AS {u}" for u, x in units]
        rows = f"SELECT {', '.join(read) or '1 AS one'} FROM {self._table(names)} AS t"
        early = [f"{c.early(f'r{i}')} AS r{i}" for i, c in columns.items()] + [u for u, _ in units]
        rows = f"SELECT {', '.join(early) or '1 AS one'} FROM ({rows}) AS t0"
        keys = [self._keys(n) for n in sets]
        where = [f"{self._code(n)} = {int(code)}" for n, code in fixed_codes] + self._lawful(view)
        known = [f"c{i} >= 0" for i in columns if not schema.attributes[i].domain.total]
        if not units and all(needed <= set(s) for s in sets):
            physical = [[f"r{i}" for i in columns if schema.names[i] in s] for s in sets]
            rows = _select_codes(_group_first(rows, physical), columns, ["tag", "n"])
            return _sum_groups(rows, known + where, keys)
        rows = _select_codes(rows, columns, [u for u, _ in units])
        rows = f"SELECT * FROM ({rows}) AS t3" + (f" WHERE {' AND '.join(known)}" if known else "")
        if units:
            rows = self._truncate_units(rows, [u for u, _ in units])
        rows = f"SELECT * FROM ({rows}) AS held" + (f" WHERE {' AND '.join(where)}" if where else "")
        return _sum_groups(_group_first(rows, [[self._code(n) for n in s] for s in sets]), [], keys)

    def _table(self, names: Sequence[str]) -> str:
        """The table, its texts short enough for every function of the server."""
        unit = self.schema.unit
        read = dict.fromkeys(n for n in (*names, unit.column, unit.per) if n is not None)
        texts = [f"{short_text(quote(n))} AS {quote(n)}" for n in read if self._kind(n) == "text"]
        others = [quote(n) for n in read if self._kind(n) != "text"]
        return f"(SELECT {', '.join(texts + others)} FROM {self.source.table})" if texts else self.source.table

    def _code(self, name: str) -> str:
        return f"c{self.schema.names.index(name)}"

    def _truncate_units(self, rows: str, units: Sequence[str]) -> str:
        """At most `max_rows` rows of every unit, by the keyed hash; none of those without a unit."""
        unit = ", ".join(units)
        hashed = [self._code(n) for n in hashed_columns(self.schema)]
        ties = [self._code(n) for n in self.schema.names if self._code(n) not in hashed]
        order = f" ORDER BY {', '.join(ties)}" if ties else ""
        codes = " || ',' || ".join(f"{c}::text" for c in hashed) or "''"
        spelled = " || '|' || ".join([self.source.key(self.key), *units, codes, "same::text"])
        limit = self.schema.unit.max_rows
        return (
            f"SELECT * FROM (SELECT *, CASE WHEN crowd <= {limit} THEN 1 ELSE row_number() OVER (PARTITION BY {unit} "
            f"ORDER BY CASE WHEN crowd > {limit} THEN sha256(convert_to({spelled}, getdatabaseencoding())) END) END AS place FROM (SELECT *, "
            f"row_number() OVER (PARTITION BY {', '.join([*units, *hashed])}{order}) - 1 AS same, "
            f"count(*) OVER (PARTITION BY {unit}) AS crowd FROM ({rows}) AS e WHERE {units[0]} <> '') AS h) AS p "
            f"WHERE place <= {limit}"
        )

    def _units(self) -> list[tuple[str, str]]:
        unit = self.schema.unit
        named = [("u", unit.column), ("p", unit.per)]
        return [
            (short, unit_text(name, f"t.{quote(name)}", self._kind(name))) for short, name in named if name is not None
        ]

    def _kind(self, name: str) -> Kind:
        kind = self.source.kinds[name]
        if kind is None:
            raise SourceError(f"{self.source.describe()}: column '{name}' cannot be read; give a view of it")
        return kind

    def _lawful(self, view: View) -> list[str]:
        """What a row must fulfil to be in a view."""
        conditions = []
        for rule in rules_of(self.schema, view):
            parts = [f"({_among(self._code(name), codes)})" for name, codes in rule.never]
            conditions.append(f"NOT ({' AND '.join(parts) or 'TRUE'})")
        return conditions

    def _keys(self, names: tuple[str, ...]) -> list[str]:
        """The words of the mixed-radix key of some attributes."""
        words = radix_words(self.schema, names)
        terms = [[f"CAST({self._code(name)} AS bigint) * {factor}" for name, factor in word] for word in words]
        return [" + ".join(word) or "CAST(0 AS bigint)" for word in terms]


def _select_codes(rows: str, columns: Mapping[int, CodedSql], others: Sequence[str]) -> str:
    """Look up what was read, row by row or group by group; columns by their places in the schema."""
    values = [f"{c.value(f'r{i}')} AS v{i}" for i, c in columns.items()] + list(others)
    codes = [f"{c.code(f't2.v{i}', f'd{i}.c')} AS c{i}" for i, c in columns.items()] + [
        f"t2.{x} AS {x}" for x in others
    ]
    joins = [f"LEFT JOIN {c.join} AS d{i} ON d{i}.v = t2.v{i}" for i, c in columns.items() if c.join is not None]
    return (
        f"SELECT {', '.join(codes) or '1 AS one'} FROM (SELECT {', '.join(values) or '1 AS one'} "
        f"FROM ({rows}) AS t1) AS t2 {' '.join(joins)}"
    )


def _group_first(rows: str, sets: Sequence[list[str]]) -> str:
    """Group by some columns, such as what was read before anything is looked up: few groups instead of many rows."""
    columns = sorted({c for s in sets for c in s}, key=lambda c: int(c[1:]))
    listed = "".join(f"{c}, " for c in columns)
    if len(sets) == 1:
        by = f" GROUP BY {', '.join(columns)}" if columns else ""
        return f"SELECT {listed}CAST(0 AS bigint) AS tag, count(*) AS n FROM ({rows}) AS t4{by}"
    cases = [
        " AND ".join(f"GROUPING({c}) = {int(c not in s)}" for c in columns) + f" THEN {i}" for i, s in enumerate(sets)
    ]
    tag = f"CAST(CASE WHEN {' WHEN '.join(cases)} END AS bigint) AS tag"
    by = ", ".join(f"({', '.join(s)})" for s in sets)
    return f"SELECT {listed}{tag}, count(*) AS n FROM ({rows}) AS t4 GROUP BY GROUPING SETS ({by})"


def _sum_groups(rows: str, where: Sequence[str], keys: Sequence[list[str]]) -> str:
    """Sum groups by their codes; the tag says which key a group belongs to."""
    width = max(map(len, keys))
    made = []
    for j in range(width):
        cases = " ".join(f"WHEN {i} THEN {words[j]}" for i, words in enumerate(keys) if len(words) > j)
        made.append(f"CASE tag {cases} ELSE 0 END AS w{j}" if len(keys) > 1 else f"{keys[0][j]} AS w{j}")
    inner = f"SELECT tag, {', '.join(made)}, n FROM ({rows}) AS t5" + (f" WHERE {' AND '.join(where)}" if where else "")
    listed = ", ".join(f"w{j}" for j in range(width))
    tag, by = ("tag", f"tag, {listed}") if len(keys) > 1 else ("CAST(0 AS bigint) AS tag", listed)
    return f"SELECT {tag}, {listed}, {total('n')} AS n FROM ({inner}) AS t6 GROUP BY {by}"


def total(n: str) -> str:
    """The sum of 64-bit counts as one; by halves, because their sum is a decimal here, which costs three times as much."""
    return f"((sum(({n} >> 30)::int4) << 30) + sum(({n} & 1073741823)::int4))"


def _among(column: str, codes: Sequence[int]) -> str:
    """Whether a code is one of some."""
    return " OR ".join(f"{column} BETWEEN {a} AND {b}" for a, b in runs(codes)) or "FALSE"
