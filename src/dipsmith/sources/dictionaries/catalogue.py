"""Databases: types, CHECK constraints, enumerations and the code tables that foreign keys point to. No row of the table is read.

PostgreSQL and DuckDB keep all of it in their catalogues, SQLite in the text that made the table. A code table that a foreign key names is a public list by its use; its
keys are read, the table's own rows are not.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from dipsmith.errors import MissingExtraError, SourceError, UsageError
from dipsmith.schema.attribute import Type
from dipsmith.schema.dictionary import ColumnFacts
from dipsmith.sources.kinds import parts_of, quote, sqlite_file

SCHEMES = ("postgresql", "postgres", "duckdb", "sqlite")
MOST_CODES = 100_000
Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


def read_catalogue(address: str, table: str) -> list[ColumnFacts]:
    """The facts of a table in a PostgreSQL, DuckDB or SQLite database."""
    scheme, _, place = address.partition("://")
    *above, name = parts_of(table)
    if scheme.lower() == "duckdb":
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError.of("Reading DuckDB databases", "tables") from None
        try:
            with closing(duckdb.connect(place, read_only=True)) as link:
                schema = above[-1] if above else "main"
                return _facts(lambda sql, values: link.execute(sql, list(values)).fetchall(), "?", schema, name)
        except duckdb.Error:
            raise SourceError("the DuckDB catalogue cannot be read; check the path and the table") from None
    if scheme.lower() in ("postgresql", "postgres"):
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError.of("Reading PostgreSQL databases", "tables") from None
        try:
            with psycopg.connect(address) as link, link.cursor() as cursor:
                schema = above[-1] if above else "public"
                return _facts(lambda sql, values: cursor.execute(sql, values).fetchall(), "%s", schema, name)
        except psycopg.Error:
            raise SourceError("the PostgreSQL catalogue cannot be read; check the address and the table") from None
    if scheme.lower() == "sqlite":
        try:
            with closing(sqlite3.connect(f"{sqlite_file(address).as_uri()}?mode=ro", uri=True)) as link:
                return _sqlite_facts(lambda sql, values: link.execute(sql, values).fetchall(), name)
        except sqlite3.Error:
            raise SourceError("the SQLite catalogue cannot be read; check the file and the table") from None
    known = " and ".join(f"{s}://" for s in SCHEMES if s != "postgres")
    raise UsageError(f"a {scheme.lower()}:// catalogue cannot be read; {known} can")


def _facts(ask: Ask, mark: str, schema: str, table: str) -> list[ColumnFacts]:
    own = "udt_name" if mark == "%s" else "data_type"
    columns = ask(
        f"SELECT column_name, data_type, {own}, is_nullable, numeric_scale FROM information_schema.columns "  # noqa: S608 - constants
        f"WHERE table_schema = {mark} AND table_name = {mark} ORDER BY ordinal_position",
        (schema, table),
    )
    if not columns:
        raise SourceError(f"the database has no table '{schema}.{table}'; check --table")
    checks, codes = _constraints(ask, mark, schema, table)
    found = []
    for name, kind, own, nullable, scale in columns:
        type_ = _type(str(kind), scale)
        limits = _limits(checks, str(name))
        values = codes.get(str(name)) or _enumeration(ask, mark, str(kind), str(own)) or _in_list(checks, str(name))
        if values and type_ is None:
            type_ = "string"
        missing = str(nullable).upper() == "YES"
        found.append(ColumnFacts(str(name), type_, "", tuple(values or ()), *limits, missing=missing))
    return found


def _sqlite_facts(ask: Ask, table: str) -> list[ColumnFacts]:
    columns = ask(f"PRAGMA table_info({quote(table)})", ())
    if not columns:
        raise SourceError(f"the database has no table '{table}'; check --table")
    made = "".join(str(row[0]) for row in ask("SELECT sql FROM sqlite_master WHERE name = ?", (table,)))
    checks = re.findall(r"CHECK\s*(\((?:[^()']|'[^']*'|\((?:[^()']|'[^']*')*\))*\))", made, re.IGNORECASE)
    keys = ask(f"PRAGMA foreign_key_list({quote(table)})", ())
    ids = [key[0] for key in keys]
    alone = [(str(key[3]), quote(str(key[2])), str(key[4])) for key in keys if ids.count(key[0]) == 1 and key[4]]
    codes = _codes(ask, alone)
    found = []
    for _, name, kind, required, _, key in columns:
        scale = 0 if re.search(r"\(\d+\)|\(\d+,\s*0\)", kind) else None
        values = tuple(codes.get(name) or _in_list(checks, name) or ())
        limits = _limits(checks, name)
        found.append(ColumnFacts(name, _type(kind, scale), "", values, *limits, missing=not (required or key)))
    return found


def _constraints(ask: Ask, mark: str, schema: str, table: str) -> tuple[list[str], dict[str, list[tuple[str, str]]]]:
    """The texts of CHECK constraints, and for columns with a foreign key the keys of the table it points to."""
    if mark == "%s":
        rows = ask(
            "SELECT c.contype::text, pg_get_constraintdef(c.oid), a.attname, fn.nspname, f.relname, fa.attname FROM pg_constraint c "
            "JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace "
            "LEFT JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1] "
            "LEFT JOIN pg_class f ON f.oid = c.confrelid LEFT JOIN pg_namespace fn ON fn.oid = f.relnamespace "
            "LEFT JOIN pg_attribute fa ON fa.attrelid = c.confrelid AND fa.attnum = c.confkey[1] "
            "WHERE n.nspname = %s AND t.relname = %s AND coalesce(array_length(c.conkey, 1), 1) = 1",
            (schema, table),
        )
        checks = [str(row[1]) for row in rows if row[0] == "c"]
        keys = [(str(r[2]), f"{quote(str(r[3]))}.{quote(str(r[4]))}", str(r[5])) for r in rows if r[0] == "f"]
    else:
        rows = ask(
            "SELECT constraint_type, constraint_text, constraint_column_names FROM duckdb_constraints() "
            "WHERE schema_name = ? AND table_name = ?",
            (schema, table),
        )
        checks = [str(row[1]) for row in rows if row[0] == "CHECK"]
        keys = []
        for kind, text, names in rows:
            points = re.search(r'REFERENCES\s+("?[\w ]+"?)\s*\(("?[\w ]+"?)\)', str(text))
            if kind == "FOREIGN KEY" and len(names) == 1 and points:
                other, key = (points[i].strip('"') for i in (1, 2))
                keys.append((str(names[0]), f"{quote(schema)}.{quote(other)}", key))
    return checks, _codes(ask, keys)


def _codes(ask: Ask, keys: Sequence[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The keys of the tables that foreign keys point to: (column, table, key)."""
    codes = {}
    for column, other, key in keys:
        listed = ask(f"SELECT DISTINCT {quote(key)} FROM {other} ORDER BY 1 LIMIT {MOST_CODES + 1}", ())  # noqa: S608
        if len(listed) <= MOST_CODES:
            codes[column] = [(str(row[0]), "") for row in listed if row[0] is not None]
    return codes


def _enumeration(ask: Ask, mark: str, kind: str, own: str) -> list[tuple[str, str]] | None:
    """The labels of an ENUM type."""
    if kind.upper().startswith("ENUM("):
        return [(label.replace("''", "'"), "") for label in re.findall(r"'((?:[^']|'')*)'", kind)]
    if mark == "%s" and kind == "USER-DEFINED":
        rows = ask(
            "SELECT e.enumlabel FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid WHERE t.typname = %s ORDER BY e.enumsortorder",
            (own,),
        )
        return [(str(row[0]), "") for row in rows]
    return None


def _limits(checks: Sequence[str], name: str) -> tuple[str | None, str | None]:
    """Bounds of a column in CHECK constraints: ``age >= 0 AND age <= 120``, ``age BETWEEN 0 AND 120``."""
    column, number = rf'\(*"?\b{re.escape(name)}\b"?\)*', r"\(*'?(-?[0-9][0-9.:T -]*[0-9]|-?[0-9])'?"
    text = " ; ".join(re.sub(r"::[a-z ]+|CAST\(|\bAS [A-Z]+\)", "", check) for check in checks)
    between = re.search(rf"{column}\s+BETWEEN\s+{number}\)*\s+AND\s+{number}", text, re.IGNORECASE)
    if between:
        return between[1], between[2]
    low, high = (re.search(rf"{column}\s*{sign}\s*{number}", text) for sign in (">=", "<="))
    return (None if low is None else low[1]), (None if high is None else high[1])


_LISTED = re.compile(
    r"'(?P<text>(?:[^']|'')*)'(::[a-z ]+(\(\d+(,\s*\d+)?\))?)?|(?<![\w.])(?P<number>-?\d+(\.\d+)?)|(?P<end>[)\]])",
    re.IGNORECASE,
)
"""Texts, perhaps with a cast (PostgreSQL has '-9'::integer), numbers, and what ends a list."""


def _in_list(checks: Sequence[str], name: str) -> list[tuple[str, str]] | None:
    """The values of ``sex IN ('F', 'M')`` or ``sex IN (1, 2)``, and of what PostgreSQL makes of it, ``sex = ANY (ARRAY['F', 'M'])``."""
    for check in checks:
        begin = re.search(rf'\b{re.escape(name)}\b"?\)*(::\w+)?\s*(IN\b|= ANY)', check, re.IGNORECASE)
        if begin:
            found = []
            for token in _LISTED.finditer(check, begin.end()):
                if token["end"]:
                    break
                found.append((token["number"] or token["text"].replace("''", "'"), ""))
            return found or None
    return None


def _type(kind: str, scale: object) -> Type | None:
    text = kind.lower()
    for pattern, found in (
        ("timestamp|datetime", "datetime"),
        ("^date", "date"),
        ("bool", "boolean"),
        ("int|serial", "integer"),
        ("numeric|decimal", "integer" if scale == 0 else "number"),
        ("double|real|float|money", "number"),
        ("char|text|enum|uuid", "string"),
    ):
        if re.search(pattern, text):
            return found  # type: ignore[return-value]
    return None
