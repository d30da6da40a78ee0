"""The distributions of this tree, built once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
SOURCES = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "constraints.txt", "src", "supply"]


def build(folder, umask):
    """A source distribution and the wheel made from it, as `make dist` makes them, from a copy of the tree."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        # copies get the time of now: two trees differ in every modification time
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, tree / name, **({"copy_function": shutil.copyfile} if source.is_dir() else {}))
    (tree / "notes.txt").write_text("a file that nobody listed")
    out = folder / "dist"
    command = [UV, "build", "--quiet", "--offline", "--no-cache", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*command, "--out-dir", out], cwd=tree, check=True, umask=umask)
    return {path.name: path for path in out.iterdir() if path.name != ".gitignore"}


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    return build(tmp_path_factory.mktemp("first"), 0o022)


@pytest.fixture(scope="session")
def wheel(distributions):
    return next(path for name, path in distributions.items() if name.endswith(".whl"))
