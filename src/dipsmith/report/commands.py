"""A `dipsmith` command as text to copy into a shell: every word quoted, so that no file's name can become a command."""

from __future__ import annotations

import shlex
from pathlib import Path


def command(*words: str | Path | int) -> str:
    """The words of a command as a shell takes them; paths that look like options are written as paths.

    >>> command("verify", Path("a release"), "--ledger", "$(reboot).db")
    "dipsmith verify 'a release' --ledger '$(reboot).db'"
    >>> command("verify", Path("--help"))
    'dipsmith verify ./--help'
    """
    texts = (f"./{w}" if isinstance(w, Path) and str(w).startswith("-") else str(w) for w in words)
    return shlex.join(["dipsmith", *texts])
