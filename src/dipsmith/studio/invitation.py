"""The invitation: a file that only its owner can read and that leads the owner's browser in.

Every user of a machine sees the arguments of every process, so a browser that is given an address with a token tells
the token to all. It is given this file's path instead; the token is in the file, as the part of an address that browsers
keep to themselves.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

NAME = "open-the-studio.html"


@contextmanager
def invitation(address: str, token: str) -> Iterator[Path]:
    """Write the file, and take it away in the end; the token in it is used up by then, or dead."""
    folder = Path(tempfile.mkdtemp(prefix="dipsmith-studio-", dir=_own_folder()))
    try:
        file = folder / NAME
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        target = escape(f"{address}#{token}")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(
                '<!doctype html><html lang="en"><meta charset="utf-8"><title>dipsmith studio</title>'
                '<meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0; url={target}"><p><a href="{target}">Open the studio</a></p></html>\n'
            )
        yield file
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own_folder() -> Path | None:
    """The user's folder for things of this login, if it is theirs alone; None for the usual temporary one."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if not named or not Path(named).is_dir():
        return None
    facts = Path(named).stat()
    return Path(named) if facts.st_uid == os.getuid() and not facts.st_mode & 0o077 else None
