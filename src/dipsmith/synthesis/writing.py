"""Writing a folder whole or not at all: into a hidden sibling, synced, then renamed into place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path

from dipsmith.errors import DamageError, OutputError
from dipsmith.privacy.chain import is_taken, sync

LEAST_FREE = 64 << 20
"""A run is refused before it starts when less than this many bytes are free for its output."""


def require_absent(target: Path) -> None:
    """Refuse to overwrite, and refuse a place that cannot be written to, before anything is spent."""
    if is_taken(target):
        raise OutputError(f"'{target}' exists already; choose another --out or move it away")
    parent = target.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"'{target}': the folder '{parent}' does not exist; create it first")
    require_outside_releases(target)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"'{target}': the folder '{parent}' cannot be written to; choose another --out")
    if shutil.disk_usage(parent).free < LEAST_FREE:
        raise OutputError(f"'{target}': less than 64 MB are free there; make room or choose another --out")


def require_outside_releases(target: Path) -> None:
    """Refuse to write into a release: its card lists every file, and all of it is published."""
    parent = target.absolute().parent.resolve()
    for folder in (parent, *parent.parents):
        if os.access(folder, os.X_OK) and all((folder / f).is_file() for f in ("card.json", "schema.yaml")):
            raise OutputError(
                f"'{target}' is inside the release '{folder.name}', whose card lists every file; write it somewhere else"
            )


@contextmanager
def whole_folder(target: Path, mode: int = 0o755) -> Iterator[Path]:
    """A temporary folder beside `target`, its owner's alone, that becomes it when the block ends without an error."""
    require_absent(target)
    parent = target.absolute().parent
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=parent))
    try:
        yield work
        for path in sorted(work.rglob("*")):
            sync(path)
        sync(work)
        require_absent(target)
        work.chmod(mode)
        work.rename(target)
        sync(parent)
    except OSError as error:
        raise OutputError(f"'{target}' cannot be written: {error.strerror or error}; nothing was left behind") from None
    finally:
        if work.exists():
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A temporary file beside `target` that becomes it when the block ends without an error; refuses to overwrite."""
    if is_taken(target):
        raise OutputError(f"'{target}' exists already; choose another --out or move it away")
    with replaced_file(target) as work:
        yield work


@contextmanager
def replaced_file(target: Path) -> Iterator[Path]:
    """As `whole_file`, in the place of what lies there; a link is replaced, not followed."""
    try:
        # A name that nobody can foresee, made by us alone: nothing is written through a link that lies there.
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name[:100]}.", suffix=".partial", dir=target.absolute().parent
        )
    except OSError as error:
        raise OutputError(f"'{target}' cannot be written: {error.strerror or error}") from None
    os.close(handle)
    work = Path(name)
    try:
        yield work
        work.chmod(0o666 & ~_umask())
        work.rename(target)
    except OSError as error:
        raise OutputError(f"'{target}' cannot be written: {error.strerror or error}; nothing was left behind") from None
    finally:
        work.unlink(missing_ok=True)


def _umask() -> int:
    """What this process keeps from others; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def damage(what: str) -> DamageError:
    """The error of a release, or a part of it, that is not what was written."""
    return DamageError(f"{what}; get the release again")


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
