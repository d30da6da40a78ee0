"""`dipsmith schema`: draft a schema from a header, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.options import Json, Table
from dipsmith.cli.terminal import answer, emit, say, table, warn, warnings_as_notes
from dipsmith.errors import LostKey, SchemaError, UsageError
from dipsmith.report.commands import command

if TYPE_CHECKING:
    from dipsmith.schema.attribute import Attribute
    from dipsmith.schema.schema import Neighbours, Unit
    from dipsmith.sources import Source

ACROSS, CELL = 120, 16
"""Characters of a line, and of a value where rows stand side by side."""
MANY = 10**12
"""Cells beyond which their number is told by its power of ten."""

app = typer.Typer(no_args_is_help=True, help="Draft a schema from a file's header, and check one.")


@app.command(
    epilog=options.examples(
        "dipsmith schema init people.csv > people.yaml",
        "dipsmith schema init people.csv --from survey.sav --out people.yaml",
        "dipsmith schema init people.csv --public-file people-2019-public.csv --out people.yaml",
        "dipsmith schema init homes.csv --members people.csv --key hid --out homes.yaml",
    )
)
def init(
    data: Annotated[str | None, Argument(metavar="FILE", help="The file whose header is read.")] = None,
    dictionary: Annotated[
        str | None,
        Option(
            "--from", help="What describes it: .dta .sav, Frictionless, CSVW, DDI, .csv or .xlsx, database address."
        ),
    ] = None,
    public_file: Annotated[
        str | None, Option("--public-file", help="A PUBLIC file of the same layout, whose rows are read.")
    ] = None,
    out: Annotated[Path | None, Option("--out", help="Write here instead of to standard output.")] = None,
    peek: Annotated[
        bool, Option("--peek", help="Fill in levels and bounds from the rows; marked data-derived.")
    ] = False,
    name: Annotated[str | None, Option("--name", help="The dataset's name (default: the file's).")] = None,
    members: Annotated[
        str | None, Option("--members", metavar="FILE", help="Where FILE has households: the file of their members.")
    ] = None,
    key: Annotated[str | None, Option("--key", help="With --members: the column that both files have.")] = None,
    of_table: Table = None,
    json: Json = False,
) -> None:
    """Draft a schema from the header only, or from a description; with --peek from the rows, which every release then says."""
    from dipsmith.schema.drafts import draft
    from dipsmith.schema.naming import check_name, plain_name
    from dipsmith.sources import source
    from dipsmith.sources.dictionaries.catalogue import SCHEMES
    from dipsmith.sources.fingerprint import fingerprints
    from dipsmith.sources.header import declared_types
    from dipsmith.synthesis.drafting import draft_schema
    from dipsmith.synthesis.public import PublicInput, require_public
    from dipsmith.synthesis.writing import require_outside_releases, whole_file

    if sum((dictionary is not None, public_file is not None, peek)) > 1:
        raise UsageError("--from, --public-file and --peek are three ways to fill a draft; choose one")
    if (members is None) != (key is None) or (
        members and (out is None or data is None or dictionary or public_file or peek)
    ):
        raise UsageError(
            "households and members are drafted from the headers of FILE and --members, with --key and --out"
        )
    found = None if data is None else source(data, table=of_table if dictionary is None else None)
    if found is None and dictionary is None and public_file is None:
        raise UsageError("give the FILE whose header is read, or what describes it: --from, --public-file")
    called = name or plain_name(of_table or Path(data or dictionary or public_file or "").stem.split(".")[0])
    check_name(called)
    header = None if found is None else found.columns
    if dictionary is not None:
        text = draft_schema(dictionary, name=called, header=header, table=of_table)
    elif public_file is not None:
        public = source(public_file)
        require_public([PublicInput("--public-file", fingerprints(public))], [found], None)
        text = draft_schema(public, name=called, header=header, public_rows=True)
    elif peek:
        text = draft_schema(found, name=called, private_rows=True)
        warn(
            "levels and bounds were read from the rows: the schema says provenance: data-derived, and so will every card"
        )
    elif data is not None and data.partition("://")[0].lower() in SCHEMES:
        text = draft_schema(data, name=called, header=header, table=of_table)
    elif members is not None and key is not None and found is not None:
        text = _draft_households(found, members, called, key, out)
    else:
        text = draft(header or (), called, None if found is None else declared_types(found))
    line = text
    if out is not None:
        require_outside_releases(out)
        with whole_file(out) as work:
            work.write_text(text, "utf-8")
        check_it = command("schema", "check", out)
        both = "" if members is None else f" and, beside it, {plain_name(Path(members).stem.split('.')[0])}.yaml"
        left = text.count("\n# - {name: ")
        beside = f" (and {left} column{'s' * (left > 1)} left open)" if left else ""
        todo = f"unit and neighbours{beside}" if peek or public_file else "types, domains, unit and neighbours"
        line = f"Drafted {out}{both}: fill in {todo}, then: {check_it}"
    answer(json, {"schema": text, "out": None if out is None else str(out), "peek": peek}, line)


def _draft_households(homes: Source, members: str, name: str, key: str, out: Path | None) -> str:
    """The draft of households; that of their members is written beside it."""
    from dipsmith.schema.drafts import draft_households
    from dipsmith.schema.naming import plain_name
    from dipsmith.sources import source
    from dipsmith.sources.header import declared_types
    from dipsmith.synthesis.writing import require_outside_releases, whole_file

    people, called = source(members), plain_name(Path(members).stem.split(".")[0])
    types = [declared_types(homes), declared_types(people)]
    first, second = draft_households(homes.columns, people.columns, (name, called), key, types)
    assert out is not None
    beside = out.with_name(f"{called}.yaml")
    if beside == out:
        raise UsageError(f"{out} is the name of the members' file too; choose another --out")
    require_outside_releases(beside)
    with whole_file(beside) as work:
        work.write_text(second, "utf-8")
    return first


@app.command(
    epilog=options.examples(
        "dipsmith schema learn people.csv --epsilon 0.1 --delta 1e-9 --neighbours add-remove --unit row --ledger budget.db "
        "--out people.yaml",
        "dipsmith schema learn spells.parquet --epsilon 0.2 --neighbours replace --unit person_id:5 --ledger budget.db",
    )
)
def learn(
    data: Annotated[str, Argument(metavar="FILE", help="CSV, Parquet, folder or glob.")],
    epsilon: Annotated[str, Option("--epsilon", help="What it costs, charged to the grant.")],
    ledger: options.LedgerFile,
    neighbours: Annotated[
        str | None, Option("--neighbours", help="What ε protects: add-remove, replace or label. No default.")
    ] = None,
    unit: Annotated[
        str | None, Option("--unit", help="Whose presence: row, or COLUMN:MAX_ROWS such as person_id:3. No default.")
    ] = None,
    delta: Annotated[
        str | None, Option("--delta", help="Learn levels of text too; the chance that a rare one is released.")
    ] = None,
    name: Annotated[
        str | None, Option("--name", help="The dataset's name, whose grant pays (default: the file's).")
    ] = None,
    out: Annotated[Path | None, Option("--out", help="The draft to write (default: NAME.yaml).")] = None,
    private: Annotated[
        list[str] | None, Option("--private", help="Under label: a private column; may be repeated.")
    ] = None,
    skip: Annotated[
        list[str] | None, Option("--skip", help="Leave a column out (identifiers); may be repeated.")
    ] = None,
    request: Annotated[str | None, Option("--request", help="Id of this run; it never draws twice.")] = None,
    another_grant: options.AnotherGrant = False,
    of_table: Table = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    json: Json = False,
) -> None:
    """Learn types, bounds, bins and levels privately, charge the ledger, and write a draft to edit."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.sources import source
    from dipsmith.synthesis.learn import advise_rho, blank_schema, divide_delta, learn_schema, name_of
    from dipsmith.synthesis.learn_noise import foresee_noise

    if neighbours is None or unit is None:
        raise UsageError(
            "say what ε protects: --unit row (or COLUMN:MAX_ROWS such as person_id:3) and --neighbours add-remove (or "
            "replace, or label); neither has a default, and the first charge fixes both"
        )
    if (_relation(neighbours) == "label") != bool(private):
        raise UsageError(
            "under --neighbours label say which columns are private: --private sex --private race"
            if neighbours == "label"
            else f"--private goes with --neighbours label; under {neighbours} all columns are private: leave it out"
        )
    rows = source(data, table=of_table, encoding=encoding, delimiter=delimiter)
    called, book = name_of(rows, name), Ledger(ledger)
    target = Path(f"{called}.yaml") if out is None else out
    budget, chance = divide_delta(book, called, epsilon, delta)
    blank = blank_schema(rows, called, _unit(unit), _relation(neighbours), private, skip or ())
    warn(foresee_noise(blank, budget))
    if advice := advise_rho(len(blank.names), budget, delta):
        warn(f"{advice}: ledger grant {called} --epsilon … --delta …")
    with warnings_as_notes(LostKey):
        found = learn_schema(
            rows,
            budget=budget,
            delta=chance,
            neighbours=_relation(neighbours),
            unit=_unit(unit),
            name=called,
            private=private,
            skip=skip or (),
            ledger=book,
            out=target,
            request=request,
            another_grant=another_grant,
        )
    facts = {
        "schema": found.text,
        "out": str(target),
        "guarantee": found.guarantee,
        "unsaid": list(found.unsaid),
        "request": found.request,
    }
    next_step = f"Learned {target}: look it over, then: {command('schema', 'check', target)}"
    answer(json, facts, str(found), next_step)


def _show_rows(rows: Any) -> None:
    """A few rows as lines of values; one line for each column where a row does not fit on one."""
    values = [["" if value is None else str(value) for value in row.values()] for row in rows.to_pylist()]
    lines = [", ".join(row) for row in (rows.column_names, *values)]
    if max(map(len, lines)) <= ACROSS:
        say("\n".join(lines))
        return
    across = [[v if len(v) <= CELL else f"{v[: CELL - 1]}…" for v in row] for row in values]
    table("", ("", *(f"row {i + 1}" for i in range(len(values)))), [*zip(rows.column_names, *across, strict=True)])


def _relation(text: str) -> Neighbours:
    from dipsmith.privacy.neighbours import RELATIONS
    from dipsmith.schema.entries import NEIGHBOURS_HELP

    if text in RELATIONS:
        return cast("Neighbours", text)
    raise UsageError(f"--neighbours is '{text}'; {NEIGHBOURS_HELP}")


def _unit(text: str) -> Unit:
    from dipsmith.schema.schema import Unit

    column, colon, most = text.rpartition(":")
    if text == "row":
        return Unit()
    if not colon or not column or not most.isdigit():
        raise UsageError(f"--unit is '{text}'; expected row, or COLUMN:MAX_ROWS such as person_id:3")
    return Unit(column, int(most))


@app.command(epilog="Example:\n\n  dipsmith schema convert people.yaml --out people.json")
def convert(
    schema: Annotated[Path, Argument(metavar="SCHEMA", help="A schema (YAML), or a CSVW-EO table (.json).")],
    out: Annotated[Path, Option("--out", help="The file to write, .json (CSVW-EO) or .yaml; must not exist.")],
    name: Annotated[str | None, Option("--name", help="The dataset's name, where the file does not say it.")] = None,
    neighbours: Annotated[
        str | None, Option("--neighbours", help="add-remove, replace or label, where the file does not say it.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a schema as CSVW-EO, or make one of a CSVW-EO table; what is written reads back the same."""
    from json import dumps, loads

    from dipsmith.schema import Schema
    from dipsmith.schema.csvw_eo import from_csvw_eo, to_csvw_eo
    from dipsmith.schema.writing import to_yaml
    from dipsmith.synthesis.writing import require_outside_releases, whole_file

    if out.suffix not in (".json", ".yaml"):
        raise UsageError(f"--out is '{out}', expected a name that ends in .json or .yaml")
    if schema.suffix == ".json":
        try:
            declared = from_csvw_eo(loads(schema.read_text("utf-8")), name=name, neighbours=neighbours)
        except ValueError:
            raise SchemaError(f"'{schema}' is not JSON; give a CSVW-EO table, or a schema in YAML") from None
    else:
        declared = Schema.read(schema)
        if declared.members is not None and out.suffix == ".json":
            raise UsageError(
                "CSVW-EO describes one table, and the schema has households with members; convert each alone"
            )
    as_json = out.suffix == ".json"
    text = dumps(to_csvw_eo(declared), ensure_ascii=False, indent=1) + "\n" if as_json else to_yaml(declared)
    require_outside_releases(out)
    with whole_file(out) as work:
        work.write_text(text, "utf-8")
    answer(json, {"out": str(out), "name": declared.name, "digest": declared.digest}, f"Written to {out}")


@app.command(epilog="Example:\n\n  dipsmith schema check people.yaml --source people.csv --ledger budget.db")
def check(
    schema: Annotated[Path, Argument(metavar="SCHEMA", help="The schema file (YAML).")],
    source: Annotated[
        str | None, Option("--source", help="CONFIDENTIAL: count values outside the schema in this file.")
    ] = None,
    ledger: Annotated[Path | None, Option("--ledger", help="Where the look at the file is logged.")] = None,
    of_table: Annotated[str | None, Option("--table", help="The table, when --source is a database address.")] = None,
    members: Annotated[
        str | None, Option("--members", metavar="FILE", help="With --source, where it has households: their members.")
    ] = None,
    json: Json = False,
) -> None:
    """Check a schema; with --source, show exact counts of what it would reject (confidential, logged)."""
    from dipsmith.planning.smears import bin_warnings
    from dipsmith.schema import Schema
    from dipsmith.schema.show import describe
    from dipsmith.synthesis.invented_rows import invent_rows

    declared = Schema.read(schema)
    facts: dict[str, Any] = {
        "name": declared.name,
        "neighbours": declared.neighbours,
        "unit": str(declared.unit),
        "provenance": declared.provenance,
        "columns": [_column(a) for a in declared],
        **({} if declared.members is None else {"members": [_column(a) for a in declared.members.schema]}),
        "cells": declared.size(),
        "rules": len(declared.rules),
    }
    for column, label in declared.formula_like()[:3]:
        warn(f"column '{column}' has the label {label!r}, which a spreadsheet reads as a formula")
    if source is not None:
        if ledger is None:
            raise UsageError("--source shows exact counts of private rows: give --ledger, where the look is logged")
        from dipsmith.privacy.ledger import Ledger
        from dipsmith.sources import source as open_source
        from dipsmith.utility.authentic import check_rows

        found = open_source(source, table=of_table)
        found.check(declared.columns)
        people = None if members is None else open_source(members)
        if (people is None) != (declared.members is None):
            raise UsageError("--members is the file of the members of households: give it where the schema has members")
        if people is not None and declared.members is not None:
            people.check(declared.members.schema.columns)
        facts["CONFIDENTIAL"] = check_rows(found, declared, Ledger(ledger), people)
    invented = invent_rows(declared)
    facts["invented_rows"] = [{name: str(value) for name, value in row.items()} for row in invented.to_pylist()]
    for text in bin_warnings(declared):
        warn(text)
    if json:
        emit(facts)
        return
    columns, rules = len(declared.attributes), len(declared.rules)
    cells = f"{declared.size():,}" if declared.size() < MANY else f"about 10^{len(str(declared.size())) - 1}"
    counted = ", ".join(
        f"{n} {word}{'' if str(n) == '1' else 's'}"
        for n, word in ((columns, "column"), (cells, "cell"), (rules, "rule"))
    )
    say(f"{declared.name}: {counted}")
    say(f"neighbours {declared.neighbours}, unit {declared.unit}, domains {declared.provenance}")
    lines = [(a.name, a.type, a.role, f"{a.size:,}", describe(a)) for one in declared.tables for a in one]
    table("Columns", ("name", "type", "role", "levels", "values"), lines, right=(3,))
    say("What a release will look like (5 invented rows, from the schema alone):")
    _show_rows(invented)
    if declared.members is not None:
        say(f"and {declared.members.schema.name}, beside the key '{declared.unit.column}' of both:")
        _show_rows(invent_rows(declared.members.schema))
    if "CONFIDENTIAL" in facts:
        counts = [(what, f"{rows:,}") for what, rows in facts["CONFIDENTIAL"].items()]
        table("CONFIDENTIAL — exact counts, not for release", ("what", "rows"), counts, right=(1,))


def _column(attribute: Attribute) -> dict[str, Any]:
    return {"name": attribute.name, "type": attribute.type, "role": attribute.role, "levels": attribute.size}
