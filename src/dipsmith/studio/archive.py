"""A release as one file to send: every byte as it lies in the folder, and nothing that tells when a file was written."""

from __future__ import annotations

import zipfile
from pathlib import Path

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: when a file was written tells how long the run took that wrote it."""


def files_of(folder: Path) -> list[str]:
    """Every file of a release, by its path within the folder; links are not followed."""
    found = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sorted(p.relative_to(folder).as_posix() for p in found if p.resolve().is_relative_to(folder))


def archive(folder: Path, store: Path) -> Path:
    """The release as a zip, made once and kept in a private folder."""
    target = store / f"{folder.name}.zip"
    if not target.exists():
        part = store / f".{folder.name}.partial"
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as made:
            for name in files_of(folder):
                entry = zipfile.ZipInfo(f"{folder.name}/{name}", LONG_AGO)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                with (folder / name).open("rb") as bytes_in, made.open(entry, "w", force_zip64=True) as out:
                    while chunk := bytes_in.read(1 << 20):
                        out.write(chunk)
        part.chmod(0o600)
        part.replace(target)
    return target
