"""Schema: from a file's header to a complete schema, column by column, checked at every key.

The page edits a draft as plain data; every change is checked here by the same reader that reads schema files, one
column at a time, so that each complaint stands in the row it is about. No row of the data is ever read for it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dipsmith.errors import InputError, SchemaError, UsageError
from dipsmith.report.commands import command
from dipsmith.schema import Schema
from dipsmith.schema.bins import point
from dipsmith.schema.dictionary import propose_bins
from dipsmith.schema.files import from_dict
from dipsmith.schema.markup import Line, parse, render
from dipsmith.schema.show import describe
from dipsmith.studio.members import named_members, with_members
from dipsmith.studio.views import Download, Screen, Visit
from dipsmith.studio.wording import in_page_words
from dipsmith.studio.workspace import Project, Workspace

MOST_COLUMNS = 5000
_ALONE = {"name": "draft", "unit": "row", "neighbours": "add-remove"}
"""What a schema of one column or one rule needs besides, to be checked by itself."""


def show(visit: Visit) -> Screen:
    """The page."""
    project = visit.project
    state = {
        "project": project.id,
        "revision": project.revision,
        "document": dict(project.document),
        "columns": list(project.columns),
        "others": [
            {"id": p.id, "data": p.data, "columns": list(p.columns)}
            for p in visit.workspace.projects()
            if p.id != project.id
        ],
        "report": report(visit.workspace, project.document),
    }
    file = Path(schema_file(project))
    shown = command("schema", "check", file)
    return Screen("schema.html", {"project": project, "step": "schema", "state": state, "command": shown})


def schema_file(project: Project) -> str:
    """What the exported schema is called."""
    return f"{project.id}.yaml"


def export(visit: Visit) -> Download:
    """The draft as YAML: canonical once it is complete."""
    project = visit.project
    try:
        document: Mapping[str, Any] = schema_of(visit.workspace, project).to_dict()
    except SchemaError:
        fields = [Line(f) for f in project.document.get("fields", []) if isinstance(f, dict)]
        document = {**project.document, "fields": fields}
    return Download(schema_file(project), "application/yaml", render(document))


def save(visit: Visit) -> Mapping[str, Any]:
    """Keep the draft and say what is missing."""
    document = visit.body.get("document")
    if not isinstance(document, dict) or not isinstance(document.get("fields"), list):
        raise UsageError("the draft is not a schema; reload the page")
    if len(document["fields"]) > MOST_COLUMNS:
        raise UsageError(f"more than {MOST_COLUMNS:,} columns; use the command line")
    revision = visit.body.get("revision")
    if not isinstance(revision, int):
        raise UsageError("the draft has no revision; reload the page")
    draft = visit.workspace.save(visit.path["project"], revision, document)
    return {"revision": draft.revision, "report": report(visit.workspace, document)}


def cut(visit: Visit) -> Mapping[str, Any]:
    """Give a column of the draft other bins, such as those that a plan proposes."""
    column, bins, project = visit.text("column"), visit.body.get("bins"), visit.project
    fields = [dict(f) for f in _entries(project.document.get("fields"))]
    if not isinstance(bins, dict) or column not in [f.get("name") for f in fields]:
        raise UsageError("the draft has no such column; reload the page")
    for field in fields:
        if field["name"] == column:
            field["bins"] = bins
    visit.workspace.save(project.id, project.revision, {**project.document, "fields": fields})
    return {"column": column}


def read_yaml(visit: Visit) -> Mapping[str, Any]:
    """A schema file's text as a draft."""
    text = visit.body.get("text")
    if not isinstance(text, str):
        raise UsageError("give the text of a schema file")
    document = parse(text)
    if not isinstance(document, dict) or not isinstance(document.get("fields"), list):
        raise SchemaError("this is not a schema file: it has no list 'fields'")
    project = visit.project
    names = [str(f.get("name")) for f in _entries(document["fields"])]
    foreign = [name for name in names if project.columns and name not in project.columns]
    if foreign and len(foreign) == len(names):
        raise SchemaError(f"none of its columns is in {project.file}; is it the schema of another table?")
    if document.get("members") is not None:
        document = named_members(visit.workspace, visit.path["project"], document)
    return {"document": document, "report": report(visit.workspace, document), "foreign": foreign}


def codes(visit: Visit) -> Mapping[str, Any]:
    """A pasted code list: one code per line, or a table with code and label."""
    text = visit.body.get("text")
    if not isinstance(text, str):
        raise UsageError("paste one code per line, or two columns: code and label")
    lines = [line for line in text.splitlines() if line.strip()]
    delimiter = max("\t;,", key=lambda d: lines[0].count(d)) if lines else ","
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter)]
    if lines and all(delimiter not in line and re.search(r"[^<>!=\s]\s*=\s*\S", line) for line in lines):
        rows = [[part.strip() for part in line.split("=", 1)] for line in lines]
    # one line is a list of codes: a code and its label alone are no list
    if len(rows) == 1 and len(rows[0]) > 1:
        rows = [[code] for code in rows[0]]
    if rows and rows[0][0].lower() in ("code", "value", "level"):
        rows = rows[1:]
    found = [row[0] for row in rows if row and row[0]]
    if not found:
        raise SchemaError("no code was found; paste one per line")
    twice = next((c for i, c in enumerate(found) if c in found[:i]), None) if len(found) <= 5000 else None
    if twice is not None:
        raise SchemaError(f"'{twice}' is listed twice; keep one of them")
    labels = {row[0]: row[1] for row in rows if len(row) > 1 and row[1] and row[1] != row[0]}
    return {"enum": found, "labels": labels}


def schema_of(workspace: Workspace, project: Project) -> Schema:
    """The project's schema, if it is complete."""
    return _read(workspace, project.document)


def _read(workspace: Workspace, document: Mapping[str, Any]) -> Schema:
    """A schema from a draft; whatever file it names, such as a code list, has to be a public one of the workspace."""
    document = with_members(workspace, document)
    both = [document, *_entries([document.get("members")])]
    files = [path for part in both for path in _named_files(part) if isinstance(path, str) and path]
    for path in files:
        workspace.public_file(path)
    try:
        return from_dict(document, base=workspace.folder)
    except SchemaError as error:
        if not files:
            raise SchemaError(in_page_words(str(error))) from None
        said = in_page_words(str(error)).replace(f"{workspace.folder}/", "")
        raise SchemaError(_hide_values(said, {"code", "count", *_texts(document)})) from None


def _hide_values(said: str, written: Collection[str]) -> str:
    """A message that quotes only what is written in the draft: a file that it names may not be the public one it should be."""
    at = said.find("'")
    while at >= 0:
        # All that starts here and is written; of the rest nobody knows where a value of a file ends.
        ends = [at + len(text) + 1 for text in written if said.startswith(f"'{text}'", at)]
        if not ends:
            last = said.rfind("'")
            return f"{said[:at]}'…'{said[last + 1 :] if last > at else ''}"
        at = said.find("'", max(ends) + 1)
    return said


def _texts(entry: object) -> Iterator[str]:
    """All names and values of a draft."""
    if isinstance(entry, Mapping):
        yield from _texts([*entry, *entry.values()])
    elif isinstance(entry, list):
        for one in entry:
            yield from _texts(one)
    elif entry != "":
        yield str(entry)


def _named_files(document: Mapping[str, Any]) -> Iterator[object]:
    """What may be the name of a file: code lists, groups of codes, public counts and totals, maps of dependent columns."""
    for field in _entries(document.get("fields")):
        collapse, totals = field.get("collapse"), field.get("totals")
        yield field.get("enum")
        yield from (collapse.get("file"), collapse.get("counts")) if isinstance(collapse, dict) else ()
        yield from totals.values() if isinstance(totals, dict) else ()
    yield from (rule.get("map") for rule in _entries(document.get("rules")))


def _entries(given: object) -> list[Mapping[str, Any]]:
    """The entries of a list in a draft that are names with values, as they have to be."""
    return [entry for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []


def report(workspace: Workspace, document: Mapping[str, Any]) -> dict[str, Any]:
    """What each column is, what is missing, and how far the draft is."""
    fields = _entries(document.get("fields"))
    relation = document.get("neighbours")
    columns = [_column(workspace, field, relation) for field in fields]
    rules = [_rule(workspace, rule, fields) for rule in document.get("rules") or []]
    complete = sum(not c["error"] for c in columns)
    problem, cells = "", None
    try:
        schema = _read(workspace, document)
        cells = f"{schema.size():,}" if schema.size() < 10**12 else f"about 10^{len(str(schema.size())) - 1}"
    except InputError as error:
        problem = str(error)
    share = (complete + bool(document.get("unit")) + bool(relation)) / (len(fields) + 2)
    found = {"columns": columns, "rules": rules, "complete": complete, "share": share}
    return {**found, "problem": problem, "cells": cells, "ready": not problem}


def _column(workspace: Workspace, field: Mapping[str, Any], relation: object) -> dict[str, Any]:
    name = str(field.get("name") or "")
    try:
        if not field.get("type") and set(field) <= {"name", "role", "title", "type"}:
            raise SchemaError("choose its type")
        # whether a column may be fixed or a weight depends on the unit and the others: the whole schema says it
        alone = {k: v for k, v in field.items() if k != "fixed" and (k, v) != ("role", "weight")}
        attribute = _read(workspace, {**_ALONE, "fields": [alone]}).attributes[0]
        if not attribute.domain.total and relation != "add-remove":
            raise SchemaError("say where a value outside the list goes: other, or missing")
        says, labels = describe(attribute), list(attribute.labels[:200])
        told = {"error": "", "levels": attribute.size, "says": says, "labels": labels}
    except InputError as error:
        text = str(error).removeprefix(f"column '{name}': ")
        told = {"error": text, "levels": None, "says": "", "labels": []}
    return {"name": name, **told, "proposal": _proposal(field)}


def _proposal(field: Mapping[str, Any]) -> dict[str, Any] | None:
    """Bins for a range that nobody has cut, and why; nothing where one bin for each value serves."""
    scale, ends = field.get("type"), [field.get("minimum"), field.get("maximum")]
    if scale not in ("integer", "number") or field.get("bins") or field.get("enum") or None in ends:
        return None
    try:
        low, high = (point(scale, end) for end in ends)
        keys, reason = propose_bins(scale, low, high) if low < high else ({}, "")
    except SchemaError:
        return None
    return {"keys": keys, "reason": reason} if keys else None


def _rule(workspace: Workspace, rule: object, fields: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    named = (rule.get("never") or rule.get("determines")) if isinstance(rule, dict) else None
    columns = {*named, *map(str, named.values())} if isinstance(named, dict) else set()
    concerned = [f for f in fields if f.get("name") in columns]
    try:
        if not concerned:
            raise SchemaError("the rule names no column of this schema")
        made = _read(workspace, {**_ALONE, "fields": concerned, "rules": [rule]})
        if isinstance(rule, dict) and rule.get("determines"):
            return {"text": "; ".join(f"{a} determines {b}" for a, b in rule["determines"].items()), "error": ""}
        return {"text": made.rules[0].text if made.rules else "; ".join(made.notes), "error": ""}
    except InputError as error:
        return {"text": "", "error": str(error)}
