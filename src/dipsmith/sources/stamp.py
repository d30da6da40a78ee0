"""What a file looked like when it was first opened, so that a later pass notices that it changed.

Counting may read a file several times, after the syntax pass and after the budget was reserved. A file
that changes in between gives an error, and the charge stays. The stamp is size, time of change and
inode: it catches rewriting and replacing, not an adversary who restores the times.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import BadGzipFile
from pathlib import Path

from dipsmith.errors import SourceError
from dipsmith.sources.retelling import retell


@dataclass(frozen=True)
class Stamp:
    """Size, modification time and inode of a file."""

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Look at a file; refuse what is not one."""
        try:
            status = path.stat()
        except OSError as error:
            retell(unreadable(path, error))
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise SourceError(f"{path}: not a regular file, it cannot be read twice; save it to a file first")
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@contextmanager
def reading(path: Path, stamp: Stamp) -> Iterator[None]:
    """Turn failures to read into one-line errors, and notice a file that is not the one stamped."""
    _same(path, stamp)
    try:
        yield
    except EOFError:
        _same(path, stamp)
        retell(SourceError(f"{path}: the gzip file ends too early; copy or pack it again"))
    except (OSError, zlib.error) as error:
        retell(unreadable(path, error))
    _same(path, stamp)


def unreadable(path: Path, error: OSError | zlib.error) -> SourceError:
    """Why a file cannot be opened or read, without a traceback."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{path}: no such file; check the path")
    if isinstance(error, PermissionError):
        return SourceError(f"{path}: permission denied; ask for the right to read it")
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{path}: is a folder; give a file, or a folder that holds CSV or Parquet files")
    if isinstance(error, BadGzipFile | zlib.error):
        return SourceError(f"{path}: the gzip file is damaged; copy or pack it again")
    return SourceError(f"{path}: cannot be read ({error.strerror or 'input/output error'}); check the file")


def _same(path: Path, stamp: Stamp) -> None:
    if Stamp.of(path) != stamp:
        raise SourceError(f"{path}: the file changed while it was being read; try again when it stays as it is")
