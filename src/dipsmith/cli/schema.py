"""`dipsmith schema`: draft a schema from a header, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from dipsmith.cli.options import Json, Table
from dipsmith.cli.terminal import answer, emit, say, table, warn
from dipsmith.errors import UsageError
from dipsmith.report.commands import command

app = typer.Typer(no_args_is_help=True, help="Draft a schema from a file's header, and check one.")


@app.command(epilog="Example:\n\n  dipsmith schema init people.csv > people.yaml")
def init(
    data: Annotated[str, Argument(metavar="FILE", help="The file whose header is read.")],
    out: Annotated[Path | None, Option("--out", help="Write here instead of to standard output.")] = None,
    peek: Annotated[
        bool, Option("--peek", help="Fill in levels and bounds from the rows; marked data-derived.")
    ] = False,
    name: Annotated[str | None, Option("--name", help="The dataset's name (default: the file's).")] = None,
    of_table: Table = None,
    json: Json = False,
) -> None:
    """Draft a schema from the header only; with --peek from the rows, which every release then says."""
    from dipsmith.schema.drafts import draft
    from dipsmith.schema.drafts import peek as draft_from_rows
    from dipsmith.schema.naming import check_name, plain_name
    from dipsmith.sources import source
    from dipsmith.synthesis.writing import require_outside_releases, whole_file

    found = source(data, table=of_table)
    called = name or plain_name(of_table or Path(data).stem.split(".")[0])
    check_name(called)
    if peek:
        found.check(found.columns)
        text = draft_from_rows(found.batches(found.columns), called)
        warn(
            "levels and bounds were read from the rows: the schema says provenance: data-derived, and so will every card"
        )
    else:
        text = draft(found.columns, called)
    line = text
    if out is not None:
        require_outside_releases(out)
        with whole_file(out) as work:
            work.write_text(text, "utf-8")
        check_it = command("schema", "check", out)
        line = f"Drafted {out}: fill in types, domains, unit and neighbours, then: {check_it}"
    answer(json, {"schema": text, "out": None if out is None else str(out), "peek": peek}, line)


@app.command(epilog="Example:\n\n  dipsmith schema check people.yaml --source people.csv --ledger budget.db")
def check(
    schema: Annotated[Path, Argument(metavar="SCHEMA", help="The schema file (YAML).")],
    source: Annotated[
        str | None, Option("--source", help="CONFIDENTIAL: count values outside the schema in this file.")
    ] = None,
    ledger: Annotated[Path | None, Option("--ledger", help="Where the look at the file is logged.")] = None,
    of_table: Annotated[str | None, Option("--table", help="The table, when --source is a database address.")] = None,
    json: Json = False,
) -> None:
    """Check a schema; with --source, show exact counts of what it would reject (confidential, logged)."""
    from dipsmith.schema import Schema

    declared = Schema.read(schema)
    facts: dict[str, Any] = {
        "name": declared.name,
        "neighbours": declared.neighbours,
        "unit": str(declared.unit),
        "provenance": declared.provenance,
        "columns": [{"name": a.name, "type": a.type, "role": a.role, "levels": a.size} for a in declared],
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
        from dipsmith.utility.authentic import conformity

        found = open_source(source, table=of_table)
        found.check(declared.columns)
        Ledger(ledger).look(declared.name, f"schema check of {found.describe()}")
        facts["CONFIDENTIAL"] = conformity(found, declared)
    if json:
        emit(facts)
        return
    columns, rules = len(declared.attributes), len(declared.rules)
    say(f"{declared.name}: {columns} columns, {declared.size():,} cells, {rules} rules")
    say(f"neighbours {declared.neighbours}, unit {declared.unit}, domains {declared.provenance}")
    lines = [(a.name, a.type, a.role, f"{a.size:,}") for a in declared]
    table("Columns", ("name", "type", "role", "levels"), lines, right=(3,))
    if "CONFIDENTIAL" in facts:
        counts = [(what, f"{rows:,}") for what, rows in facts["CONFIDENTIAL"].items()]
        table("CONFIDENTIAL — exact counts, not for release", ("what", "rows"), counts, right=(1,))
