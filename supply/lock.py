"""The lock: every package that may be installed, at one version, with the hashes of its files.

`constraints.txt` holds all of them with their hashes; `runtime.txt` names those that dipsmith and its extras need when
they run, and which package wants which. Both are written by `make lock` and are read here as values.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
INSTALLER = ROOT / "supply" / "installer.txt"
RUNTIME = ROOT / "supply" / "runtime.txt"
PROJECT = "dipsmith"
_HASH = re.compile(r"--hash=(\S+)")


@dataclass(frozen=True)
class Pin:
    """One package at one version.

    Attributes
    ----------
    name, version
        The package; its name as registries normalise it.
    marker
        Where it is installed, as an environment marker; empty means everywhere.
    hashes
        `sha256:…` of each file that may be installed.
    parents
        The packages that require it, where the file says so on the same line; `dipsmith` for a direct dependency.
    """

    name: str
    version: str
    marker: str = ""
    hashes: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()


def read_pins(path: Path) -> list[Pin]:
    """The pins of a file that `uv pip compile` wrote, in its order."""
    lines = path.read_text("utf-8").replace("\\\n", " ").splitlines()
    return [_read_pin(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _read_pin(line: str) -> Pin:
    """One line of the file as a pin.

    Examples
    --------
    >>> _read_pin("Six==1.17 ; python_version < '4'  --hash=sha256:ab  # via attrs, -c constraints.txt")
    Pin(name='six', version='1.17', marker='python_version < "4"', hashes=('sha256:ab',), parents=('attrs',))
    """
    text, _, note = line.partition("  # via ")
    requirement = Requirement(_HASH.sub("", text).strip())
    (specifier,) = requirement.specifier
    if specifier.operator != "==":
        raise ValueError(f"{requirement.name} is not pinned to one version: run `make lock`")
    parents = [parent.split(" ")[0] for parent in note.split(", ") if parent and not parent.startswith("-c ")]
    return Pin(
        name=canonicalize_name(requirement.name),
        version=specifier.version,
        marker=str(requirement.marker or ""),
        hashes=tuple(_HASH.findall(text)),
        parents=tuple(parents),
    )
