"""Processes that we start: none imports a module from the folder that it works in, or from beside the data.

Python puts the current folder before everything else when it is started with ``-m`` or ``-c``, as `multiprocessing` does
too: a file ``pyarrow.py`` or ``json.py`` beside the data would be run. So a process of ours is started with a safe path
(``PYTHONSAFEPATH``, ``-P``), and without entries of ``PYTHONPATH`` that lead into such a folder, and without empty and
relative ones, which are the current folder wherever that is; the folder that this package itself was imported from stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def safe_environment(*folders: Path) -> dict[str, str]:
    """The environment for a process that imports nothing from these folders."""
    return {**os.environ, **_safe(folders)}


@contextmanager
def safe_children(more: Mapping[str, str]) -> Iterator[None]:
    """Let the processes that `multiprocessing` starts meanwhile import nothing from the current folder.

    `more` are further variables of their environment.
    """
    chosen = {**_safe((Path(),)), **more}
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _safe(folders: tuple[Path, ...]) -> dict[str, str]:
    held = {"PYTHONSAFEPATH": "1"}
    if "PYTHONPATH" in os.environ:
        barred = [folder.resolve() for folder in folders]
        kept = []
        for entry in map(Path, os.environ["PYTHONPATH"].split(os.pathsep)):
            path = entry.resolve()
            foreign = entry.is_absolute() and not any(path.is_relative_to(folder) for folder in barred)
            if foreign or path == PACKAGE:
                kept.append(str(path))
        held["PYTHONPATH"] = os.pathsep.join(kept)
    return held
