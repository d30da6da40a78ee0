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
    return " ".join(["dipsmith", *(shlex.quote(_word(word)) for word in words)])


def _word(word: str | Path | int) -> str:
    text = str(word)
    return f"./{text}" if isinstance(word, Path) and text.startswith("-") else text
