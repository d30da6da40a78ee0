"""Practice: a project on invented people, ready to be planned and run, with a ledger of its own.

Everything lies in a new folder of the workspace: the table, its schema and the ledger. No grant of a real dataset is
touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dipsmith.examples import personnel
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema.markup import parse
from dipsmith.sources import source
from dipsmith.studio.views import Visit
from dipsmith.studio.workspace import Workspace

FOLDER = "invented-people"
ROWS_A_YEAR = 2_500
GRANTED = PureDP("3")


def begin(visit: Visit) -> Mapping[str, Any]:
    """Make the project; one that is there already is opened instead."""
    workspace = visit.workspace
    there = next((p for p in workspace.projects() if p.ledger.startswith(FOLDER)), None)
    if there is not None:
        return {"project": there.id}
    folder = _new_folder(workspace)
    personnel.write(folder, ROWS_A_YEAR, seed=7)
    (folder / "personnel.parquet").unlink()
    data, book = folder / "personnel.csv", folder / "budget.db"
    document = parse((folder / "personnel.yaml").read_text("utf-8"))
    assert isinstance(document, dict)
    Ledger(book).grant(str(document["name"]), GRANTED, by="dipsmith", why="practice on invented people")
    files = workspace.relative(data), source(data).columns
    made = workspace.create(FOLDER, *files, document, ledger=workspace.relative(book))
    return {"project": made.id}


def _new_folder(workspace: Workspace) -> Path:
    """A folder that was not there before, so that no file of anybody is taken for an invented one."""
    names = (FOLDER, *(f"{FOLDER}-{i}" for i in range(2, 1000)))
    made = next(workspace.folder / name for name in names if not (workspace.folder / name).exists())
    made.mkdir(mode=0o700)
    return made
