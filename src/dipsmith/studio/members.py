"""Households: their members are a table with a project of its own, which the draft of the households names.

So both tables are described on the same page, one project each. In a draft `members` is `{project: persons}`; a schema file
that describes the members too brings `document`, and the project then gives their table alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dipsmith.errors import InputError, SchemaError
from dipsmith.schema.files import OF_HOUSEHOLDS
from dipsmith.studio.workspace import Project, Workspace

CHOOSE = (
    "households have their members in a table of its own: begin with that file on the first page as well, describe it, "
    "then choose it here"
)


def with_members(workspace: Workspace, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A draft with its members described in place; as it is where it has none."""
    if document.get("members") is None:
        return document
    people, described = _people(workspace, document), _members_of(document).get("document")
    inner = described if isinstance(described, Mapping) else people.document
    own = {name: value for name, value in inner.items() if name not in (*OF_HOUSEHOLDS, "analyses")}
    fields = own.get("fields")
    if isinstance(fields, list):
        own["fields"] = [f for f in fields if not (isinstance(f, Mapping) and f.get("name") == document.get("key"))]
    return {**document, "members": own}


def members_file(workspace: Workspace, document: Mapping[str, Any]) -> str:
    """The file with the members' rows, relative to the workspace; empty where a draft has none."""
    return "" if document.get("members") is None else _people(workspace, document).data


def named_members(workspace: Workspace, project: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A schema file's draft as the studio keeps it: members by the project whose header has all of their columns."""
    described, made = document["members"], {**document, "members": dict[str, Any]()}
    if isinstance(described, Mapping):
        made["members"]["document"] = dict(described)
        fields = described.get("fields")
        needed = {str(f.get("name")) for f in fields if isinstance(f, Mapping)} if isinstance(fields, list) else set()
        needed.add(str(document.get("key")))
        for other in workspace.projects():
            if other.id != project and needed <= set(other.columns):
                made["members"]["project"] = other.id
                break
    return made


def _members_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    named = document["members"]
    return named if isinstance(named, Mapping) else {}


def _people(workspace: Workspace, document: Mapping[str, Any]) -> Project:
    called = _members_of(document).get("project")
    if not isinstance(called, str) or not called:
        raise SchemaError(CHOOSE)
    try:
        return workspace.project(called)
    except InputError:
        raise SchemaError(f"the project of the members is gone; {CHOOSE}") from None
