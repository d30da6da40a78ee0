"""The chain: an append-only, hash-chained file of rows that survives crashes and crowds.

Each row carries the SHA-256 of its content and of the row before it, so that editing, deleting or
reordering rows breaks the chain, and the last hash (the *head*) stands for the whole history: a head
written down elsewhere (on a release's card) that is missing from the chain proves a rollback.

It is an SQLite file. A writer holds the one write lock (``BEGIN IMMEDIATE``) from before it reads the
history until its rows are on the disk (``synchronous=EXTRA``: FULL, and the folder is synced too), so
two processes never decide on the same balance, and what was appended survives a power cut. Every
transaction opens the file anew: a fork, a thread, or a file that was moved away beneath us cannot
make it write elsewhere.

The chain shows tampering by anyone who does not recompute it; recomputing all of it is shown only by
heads kept outside. See ``docs/decisions/0002-ledger.md``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dipsmith.errors import DamageError, InputError, OutputError

APPLICATION = 0x64697073
VERSION = 3
"""Format 1 did not note which columns a charge under `label` was about; the first row that is added makes it 2."""
BEGINNING = "0" * 64
RESTORE = "restore a backup, then verify it with cards"

_SCHEMA = (
    """CREATE TABLE entry (
        seq INTEGER PRIMARY KEY,
        time TEXT NOT NULL,
        kind TEXT NOT NULL,
        payload TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE)""",
    """CREATE TRIGGER entry_is_never_updated BEFORE UPDATE ON entry
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    # INSERT OR REPLACE deletes without firing the delete trigger; a fixed next seq stops it.
    """CREATE TRIGGER entry_follows_the_last BEFORE INSERT ON entry
        WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entry)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)

_FAULTS = (
    (("BUSY", "LOCKED"), InputError, "was held by another process for over {patience:g} s: try again"),
    (("READONLY", "PERM"), OutputError, "is read-only: make the file and its folder writable"),
    (("FULL",), OutputError, "cannot grow, the disk is full: nothing was charged by this step"),
    (("IOERR",), OutputError, "cannot be read or written ({code}): check the disk; nothing was charged"),
    (("CANTOPEN",), InputError, "cannot be opened: {obstacle}"),
    (("",), DamageError, "is damaged or not a ledger ({code}): " + RESTORE),
)
"""By how SQLite's code of an error begins: what is raised, and what it says."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the chain: when, what, and the hashes that tie it to the row before."""

    seq: int
    time: str
    kind: str
    payload: str
    previous: str
    hash: str

    @classmethod
    def after(cls, last: Row | None, kind: str, content: Mapping[str, Any], time: str | None = None) -> Row:
        """The next row, stamped with a given or the present time (order is by seq: a clock may go back)."""
        seq, previous = (1, BEGINNING) if last is None else (last.seq + 1, last.hash)
        time = datetime.now(UTC).isoformat(timespec="microseconds") if time is None else time
        payload = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return cls(seq, time, kind, payload, previous, _digest(previous, seq, time, kind, payload))

    def follows(self, last: Row | None) -> bool:
        """Whether this row is intact and comes right after the given one."""
        seq, previous = (1, BEGINNING) if last is None else (last.seq + 1, last.hash)
        text = all(isinstance(part, str) for part in (self.time, self.kind, self.payload))
        return (
            text
            and self.seq == seq
            and self.previous == previous
            and self.hash == _digest(previous, seq, self.time, self.kind, self.payload)
        )


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode("ascii")).hexdigest()


class Chain:
    """The file of rows; parameters as for `Ledger`. Nothing is opened yet."""

    def __init__(self, path: str | os.PathLike[str], patience: float = 60.0) -> None:
        self.name = os.fspath(path)
        self.path = None if path == ":memory:" else Path(self.name).expanduser().absolute()
        self.patience = patience
        self._memory: sqlite3.Connection | None = None
        self._memory_lock = threading.RLock()

    def exists(self) -> bool:
        """Whether there is a file (or, in memory, rows) yet."""
        return self._memory is not None if self.path is None else is_taken(Path(os.path.realpath(self.path)))

    def reading(self) -> AbstractContextManager[Transaction]:
        """Read a consistent state of the chain."""
        return self._transaction(create=False, write=False)

    def writing(self, create: bool = False) -> AbstractContextManager[Transaction]:
        """Hold the write lock; what was appended is durable when the block ends, or gone if it raises."""
        return self._transaction(create=create, write=True)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Copy the chain into a new file, whole or not at all."""
        final = Path(target).expanduser().absolute()
        if is_taken(final):
            raise OutputError(f"backup '{target}' exists already: choose another name")
        if not final.parent.is_dir():
            raise OutputError(f"folder '{final.parent}' does not exist: create it first")
        partial = None
        try:
            # A name that nobody can foretell, made by O_EXCL and for its owner alone.
            descriptor, name = tempfile.mkstemp(".partial", f".{final.name[:100]}.", final.parent)
            os.close(descriptor)
            partial = Path(name)
            with self.reading() as whole:
                whole.check()
                _copy(whole.connection, partial)
            with Chain(partial).reading() as copied:
                copied.check()
            sync(partial)
            partial.replace(final)
            sync(final.parent)
        except OSError as error:
            raise OutputError(f"backup '{target}' cannot be written: {error}") from None
        finally:
            if partial is not None:
                partial.unlink(missing_ok=True)

    @contextmanager
    def _transaction(self, create: bool, write: bool) -> Iterator[Transaction]:
        with self._translate_errors(), self._connection(create) as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                self._recognise(connection, create)
                yield Transaction(connection, self.name)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self, create: bool) -> Iterator[sqlite3.Connection]:
        if self.path is None:
            with self._memory_lock:
                if self._memory is None:
                    self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                    weakref.finalize(self, self._memory.close)
                yield self._memory
            return
        address = f"file:{quote(os.fsencode(self.path))}?mode={'rwc' if create else 'rw'}"
        with closing(sqlite3.connect(address, uri=True, timeout=self.patience, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=EXTRA")
            yield connection

    def _recognise(self, connection: sqlite3.Connection, create: bool) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application == APPLICATION:
            if version > VERSION:
                raise InputError(
                    f"ledger '{self.name}' has format {version}, expected at most {VERSION}: upgrade dipsmith"
                )
            return
        (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or version or objects:
            raise InputError(f"'{self.name}' is an SQLite file but not a dipsmith ledger: give another path")
        if create:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # A damaged table definition is quoted in SQLite's message, which may not decode, or run over many lines.
            code = getattr(error, "sqlite_errorname", "") or "unreadable"
            short = code.removeprefix("SQLITE_")
            kind, what = next((kind, what) for starts, kind, what in _FAULTS if short.startswith(starts))
            what = what.format(patience=self.patience, code=code, obstacle=self._obstacle())
            raise kind(f"ledger '{self.name}' {what}") from error

    def _obstacle(self) -> str:
        if self.path is None or self.path.is_file():
            return "check the permissions of the file and its folder"
        if self.path.is_dir():
            return "it is a folder, expected a file"
        if not self.path.parent.is_dir():
            return f"folder '{self.path.parent}' does not exist"
        return "there is no such file; `dipsmith ledger grant` makes one"


class Transaction:
    """A consistent view of the rows, valid within `Chain.reading` or `Chain.writing`."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection = connection
        self._name = name

    def rows(self, known: Row | None = None) -> list[Row]:
        """The rows after a known one; refuses rows that were edited, deleted or reordered, or a known one that is gone."""
        if not self._is_initialised():
            if known is not None:
                raise DamageError(f"ledger '{self._name}' lost its rows while in use: restore it, never go back")
            return []
        since = 0 if known is None else known.seq
        found = self.connection.execute(
            "SELECT seq, time, kind, payload, previous, hash FROM entry WHERE seq >= ? ORDER BY seq", (since,)
        )
        rows = [Row(*fields) for fields in found]
        if known is not None:
            if not rows or rows[0] != known:
                raise DamageError(
                    f"ledger '{self._name}' was rolled back or replaced while in use: restore the newest copy"
                )
            rows = rows[1:]
        last = known
        for row in rows:
            if not row.follows(last):
                where = row.seq if isinstance(row.seq, int) else "?"
                raise DamageError(
                    f"ledger '{self._name}': row {where} does not follow from the row before it: "
                    f"rows were edited, deleted or reordered; {RESTORE}"
                )
            last = row
        return rows

    def check(self) -> list[Row]:
        """All rows, after checking the file's pages, its guards and every link of the chain."""
        if not self._is_initialised():
            raise DamageError(f"ledger '{self._name}' has no rows: {RESTORE}")
        if self.connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise DamageError(f"ledger '{self._name}' has damaged pages: {RESTORE}")
        guards = self.connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if {sql for (sql,) in guards} != set(_SCHEMA):
            raise DamageError(f"ledger '{self._name}': its table or append-only guards were altered")
        return self.rows()

    def append(
        self, last: Row | None, entries: Sequence[tuple[str, Mapping[str, Any]]], time: str | None = None
    ) -> list[Row]:
        """Append entries (kind, content) after the last row, stamped with `time`; only within `Chain.writing`."""
        rows: list[Row] = []
        for kind, content in entries:
            rows.append(Row.after(rows[-1] if rows else last, kind, content, time))
        if rows:
            self.connection.execute(f"PRAGMA user_version={VERSION}")
        self.connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", map(astuple, rows))
        return rows

    def _is_initialised(self) -> bool:
        (objects,) = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return bool(objects)


def _copy(source: sqlite3.Connection, target: Path) -> None:
    try:
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def is_taken(path: Path) -> bool:
    """Whether something lies at a path, a link that leads nowhere too; raises where the system does not say.

    `Path.exists` says no to a path that is too long or not to be looked at, from Python 3.14 on: a run would be charged
    before its output is refused.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
