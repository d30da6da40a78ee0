"""Everything that `make` installs has one version and known hashes, and is what pyproject.toml asks for."""

import re
import shlex
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from supply.lock import CONSTRAINTS, INSTALLER, ROOT, RUNTIME, read_pins

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS = PYPROJECT["dependency-groups"]
RUN_TIME = [
    *PYPROJECT["project"]["dependencies"],
    *(
        line
        for extra, lines in PYPROJECT["project"]["optional-dependencies"].items()
        if extra != "all"
        for line in lines
    ),
]
LOCKED = [
    *RUN_TIME,
    *PYPROJECT["build-system"]["requires"],
    *GROUPS["build"],
    *(line for line in GROUPS["dev"] if isinstance(line, str)),
]
TABLE = re.compile(r"^\| `(?P<name>[^`]+)` \| (?P<bound>\S+) \| (?P<passed>[^|]+) \|", re.MULTILINE)


def versions(path, name):
    return [pin.version for pin in read_pins(path) if pin.name == canonicalize_name(name)]


@pytest.mark.parametrize("path", [CONSTRAINTS, INSTALLER], ids=lambda path: path.name)
def test_every_pin_has_hashes(path):
    pins = read_pins(path)
    assert pins
    for pin in pins:
        assert pin.hashes, f"{pin.name} has no hashes"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in pin.hashes)


@pytest.mark.parametrize("path", [CONSTRAINTS, INSTALLER, RUNTIME], ids=lambda path: path.name)
def test_the_lock_names_no_registry(path):
    assert "//" not in path.read_text("utf-8")


@pytest.mark.parametrize("line", LOCKED)
def test_the_lock_holds_what_is_asked_for(line):
    wanted = Requirement(line)
    locked = versions(CONSTRAINTS, wanted.name)
    assert locked, f"{wanted.name} is not locked: run `make lock`"
    assert all(wanted.specifier.contains(version) for version in locked)


def test_the_installer_is_locked():
    (line,) = GROUPS["installer"]
    (version,) = versions(INSTALLER, "uv")
    assert Requirement(line).specifier.contains(version)


def test_what_runs_is_a_part_of_the_lock():
    locked = {(pin.name, pin.version) for pin in read_pins(CONSTRAINTS)}
    assert {(pin.name, pin.version) for pin in read_pins(RUNTIME)} < locked


def test_what_runs_is_complete():
    """Walk the requirements of the packages installed here, as importlib knows them: all of them are listed."""
    listed = {pin.name for pin in read_pins(RUNTIME)}
    waiting, seen = [Requirement(line) for line in RUN_TIME], set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        assert name in listed, f"{name} is needed but not listed: run `make lock`"
        if (name, tuple(sorted(wanted.extras))) in seen:
            continue
        seen.add((name, tuple(sorted(wanted.extras))))
        try:
            found = requires(name) or []
        except PackageNotFoundError:
            continue
        for line in found:
            child = Requirement(line)
            extras = ["", *wanted.extras]
            if child.marker is None or any(child.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(child)
    assert len(seen) > len(RUN_TIME)


@pytest.mark.parametrize("target", [".core", ".dev"])
def test_make_installs_nothing_without_hashes(target, tmp_path):
    shown = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/{target}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    commands = [shlex.split(line) for line in shown.splitlines() if "pip install" in line]
    assert len(commands) >= 3
    for words in commands:
        itself = words[-2:] == ["--editable", "."] and "--no-deps" in words
        assert itself or "--require-hashes" in words, " ".join(words)
        # no tool of a build comes from outside the lock, and pip, which has the installer only, builds nothing
        assert "--no-build-isolation" in words or "--only-binary" in words, " ".join(words)


@pytest.mark.parametrize("line", RUN_TIME)
def test_every_lower_bound_is_explained(line):
    page = (ROOT / "docs" / "how-to" / "supply-chain.md").read_text("utf-8")
    rows = {row["name"]: row for row in TABLE.finditer(page)}
    wanted = Requirement(line)
    (bound,) = [part.version for part in wanted.specifier if part.operator == ">="]
    assert rows[wanted.name]["bound"] == bound
    assert re.search(r"CVE-\d{4}-\d{4,}|GHSA(-\w{4}){3}|none known", rows[wanted.name]["passed"])
