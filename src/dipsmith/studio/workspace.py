"""The workspace: one folder that everything the studio reads or writes lies in.

Data files, the ledger, releases and comparisons lie in the folder itself, where the command line finds them; uploads,
drafts and jobs in a hidden folder that only its owner can read. A path that a page names is taken relative to
the folder and refused if it leads out of it, through links too. Drafts carry a revision: of two tabs that edit one
draft, the second is told so instead of overwriting the first.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from filecmp import cmp
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import Any

from dipsmith.errors import InputError, UsageError
from dipsmith.privacy.ledger import Ledger

HIDDEN = ".dipsmith-studio"
UPLOADS = "uploads"
DATA_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".parquet", ".pq")
MOST_LISTED = 200
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


def name_files(text: str, folder: Path | str = "") -> str:
    """Text for a page, in which files of a workspace are named as people call them: uploads by their name alone.

    >>> name_files("/work/.dipsmith-studio/uploads/people.csv: no rows", "/work")
    'people.csv: no rows'
    """
    return text.replace(f"{folder}/" if folder else "", "").replace(f"{HIDDEN}/{UPLOADS}/", "")


def label_file(path: str) -> str:
    """A file to choose; an upload is told from a file of the folder that has the same name.

    >>> label_file("people.csv"), label_file(".dipsmith-studio/uploads/people.csv")
    ('people.csv', 'people.csv (uploaded)')
    """
    name = name_files(path)
    return name if name == path else f"{name} (uploaded)"


@dataclass(frozen=True)
class Project:
    """A dataset that is worked on: its file, the draft of its schema, and what was chosen so far.

    `id` is its name in addresses; `revision` grows with every change of the draft; `data` is the file with the rows,
    relative to the workspace, and `columns` its header; `document` is the schema as plain data, possibly unfinished;
    `ledger` is one of its own, where it does not use the workspace's.
    """

    id: str
    revision: int = 0
    data: str = ""
    columns: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, Any] = field(default_factory=dict)
    ledger: str = ""

    @property
    def name(self) -> str:
        """The dataset's name in the ledger."""
        return str(self.document.get("name") or self.id)

    @property
    def file(self) -> str:
        """The file with the rows, as people call it."""
        return name_files(self.data)


@dataclass(frozen=True)
class Workspace:
    """The folder of one studio: absolute, without links; the ledger inside it need not exist yet.

    `grace` is the seconds between confirming a run and reading the data, during which it can be cancelled; `most_upload` the
    bytes of the largest upload.
    """

    folder: Path
    ledger_file: Path
    grace: float = 5.0
    most_upload: int = 2 << 30

    @classmethod
    def of(cls, folder: Path, ledger: str = "budget.db", grace: float = 5.0, most_upload: int = 2 << 30) -> Workspace:
        """A workspace in an existing folder; nothing is written yet."""
        if not folder.is_dir():
            raise InputError(f"'{folder}' is not a folder; give an existing one with --folder")
        root = folder.resolve()
        made = cls(root, _inside(root, ledger), grace, most_upload)
        made.require_own()
        return made

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        return Ledger(self.ledger_file)

    def for_project(self, called: str) -> Workspace:
        """The same folder with the ledger that a project uses."""
        own = self.project(called).ledger
        return replace(self, ledger_file=self.inside(own)) if own else self

    @property
    def ledger_name(self) -> str:
        """The ledger's file as people and the command line write it."""
        return self.relative(self.ledger_file)

    def inside(self, path: str) -> Path:
        """A path that a page named; refused if it leads out of the workspace."""
        return _inside(self.folder, path)

    def public_file(self, path: str) -> Path:
        """A file that a page says is public; never one that a project holds to be confidential, nor a copy or link of it.

        Nor one that a ledger of the workspace was charged for, by whichever project or command, as a table or its members.
        One file by its name: a folder or a pattern could bring in others.
        """
        file = self.inside(path)
        if not file.is_file():
            raise InputError(
                f"there is no file '{path[:80]}' in the workspace; name one file, not a folder or a pattern"
            )
        projects, known = self.projects(), file.stat()
        for project in projects:
            confidential = self.inside(project.data)
            if confidential.is_file() and cmp(file, confidential, shallow=False):
                raise InputError(f"this is the confidential file of '{project.id}'; choose one that is public")
        digest = _digest(file, (known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns))
        for ledger in dict.fromkeys([self.ledger_file, *(self.inside(p.ledger) for p in projects if p.ledger)]):
            if charged := Ledger(ledger).charged_for([digest]):
                raise InputError(f"this is the confidential file of '{charged[0]}'; choose one that is public")
        return file

    def relative(self, path: Path) -> str:
        """A path as people and the command line write it, relative to the workspace."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)

    def private(self, *parts: str) -> Path:
        """A folder that only its owner can read, made when first needed."""
        path = self.folder / HIDDEN
        path.mkdir(mode=0o700, exist_ok=True)
        self.require_own()
        for part in parts:
            path = path / part
            path.mkdir(mode=0o700, exist_ok=True)
        return path

    def require_own(self) -> None:
        """Refuse a hidden folder that somebody else made or can change, or that a link stands for."""
        try:
            facts = (self.folder / HIDDEN).lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise InputError(
                f"'{HIDDEN}' in the workspace is not a folder of yours alone; remove it, or choose another --folder"
            )

    def data_files(self) -> list[str]:
        """Files of the workspace that may hold rows: uploads, then its own folder, not deeper."""
        found = []
        for folder in (self.folder / HIDDEN / UPLOADS, self.folder):
            if folder.is_dir():
                files = sorted(p for p in folder.iterdir() if p.name.lower().endswith(DATA_ENDINGS))
                inside = [p for p in files if p.is_file() and p.resolve().is_relative_to(self.folder)]
                found += [self.relative(p) for p in inside]
        return found[:MOST_LISTED]

    def projects(self) -> list[Project]:
        """Every project, the one that was changed last first."""
        folder = self.folder / HIDDEN / "projects"
        files = folder.glob("*.json") if folder.is_dir() else []
        return [self.project(f.stem) for f in sorted(files, key=lambda f: (-f.stat().st_mtime_ns, f.stem))]

    def project(self, called: str) -> Project:
        """One project."""
        file = self.folder / HIDDEN / "projects" / f"{called}.json"
        if not _ID.fullmatch(called) or not file.is_file():
            raise InputError("there is no such project; go back to the first page")
        facts = json.loads(file.read_text("utf-8"))
        return Project(**{**facts, "columns": tuple(facts["columns"])})

    def create(
        self, name: str, data: str, columns: tuple[str, ...], document: Mapping[str, Any], ledger: str = ""
    ) -> Project:
        """A new project with an id of its own."""
        stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "table"
        with self._lock():
            taken = {p.id for p in self.projects()}
            called = next(c for c in (stem, *(f"{stem}-{i}" for i in range(2, 10_000))) if c not in taken)
            made = Project(called, 1, data, columns, document, ledger=ledger)
            self._write(made)
        return made

    def save(self, called: str, revision: int, document: Mapping[str, Any]) -> Project:
        """Keep a changed draft; refused if another tab changed it meanwhile."""
        with self._lock():
            before = self.project(called)
            if before.revision != revision:
                raise UsageError("this draft was changed in another tab; reload the page to go on from there")
            made = replace(before, document=document, revision=revision + 1)
            self._write(made)
        return made

    def choose(self, called: str, choices: Mapping[str, Any]) -> None:
        """Keep what was chosen; of two tabs, the last one counts."""
        with self._lock():
            self._write(replace(self.project(called), choices=choices))

    def remove(self, called: str) -> None:
        """Forget a draft; ledger, data and releases stay."""
        self.project(called)
        (self.folder / HIDDEN / "projects" / f"{called}.json").unlink()

    def _write(self, project: Project) -> None:
        write_json(self.private("projects") / f"{project.id}.json", asdict(project))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with open_lock(self.private() / "lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


@contextmanager
def open_lock(path: Path) -> Iterator[int]:
    """A file to lock, made when first needed; never through a link, and nothing that it holds is lost."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    """Write a small file whole or not at all, readable by its owner only."""
    write_whole(path, json.dumps(facts, ensure_ascii=False).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only; a link in its place is replaced, not followed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).replace(path)


@lru_cache(maxsize=64)
def _digest(file: Path, stamp: tuple[int, ...]) -> str:
    """The fingerprint of a file, read again when its stamp changes: a draft is checked at every key."""
    with file.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def _inside(root: Path, path: str) -> Path:
    if not path or "\0" in path or len(path) > 4096:
        raise InputError("a path is missing or cannot be read; choose a file of the workspace")
    found = (root / path).resolve()
    if not found.is_relative_to(root) or found == root:
        raise InputError(f"'{path[:80]}' leads out of the workspace; move the file into its folder")
    return found
