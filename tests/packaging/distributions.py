"""Building this tree as `make dist` does, from a copy that differs in all that must not matter."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
OFFLINE = ["--offline", "--no-cache", "--python", sys.executable]
FILES = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "constraints.txt"]
FOLDERS = ["src", "supply"]


def build(folder, umask):
    """A source distribution and the wheel made from it, by name; every file of the copy is as old as now."""
    tree, out = folder / "tree", folder / "dist"
    tree.mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(ROOT / name, tree / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, copy_function=shutil.copyfile)
    (tree / "notes.txt").write_text("a file that nobody listed")
    command = [UV, "build", "--quiet", "--no-build-isolation", *OFFLINE, "--out-dir", out]
    subprocess.run(command, cwd=tree, check=True, umask=umask)
    return {path.name: path for path in out.iterdir() if path.name != ".gitignore"}
