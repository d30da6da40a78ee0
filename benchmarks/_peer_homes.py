"""Where the peers live: one virtual environment each, made on first use, because their pins exclude each other.

`<home>/peer-<name>` is used as it is when its interpreter can import the peer; else it is made with
``python -m venv`` and ``pip install``. A peer that cannot be installed is left out, loudly.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """A package to compare with.

    Attributes
    ----------
    package
        What pip is asked for; what it forgets to ask for itself stands beside it.
    module
        What can be imported once it is there.
    runs
        The methods that it brings (see ``_network_peers.py``).
    """

    package: str
    module: str
    runs: tuple[str, ...]


PEERS = {
    "smartnoise": Peer("smartnoise-synth==1.0.8", "snsynth", ("mst", "aim")),
    "dpmm": Peer("dpmm==0.1.9", "dpmm", ("mst", "privbayes", "aim")),
    "opendp": Peer("opendp[mbi]==0.16.0 pandas", "opendp.extras.mbi", ("mst", "aim")),
    "mbi": Peer("mbi==2.0.0", "mbi", ("mst",)),
}
"""DataSynthesizer's and synthcity's PrivBayes are left out: the first does not end within 800 s on this table, the
second adds noise about n times too small, so that its figures are not those of a private method."""

DEFAULT_HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dipsmith" / "peers"


def interpreter(name: str, home: Path) -> str | None:
    """The Python in which a peer can be imported, installing it if need be; None if that fails."""
    folder = home / f"peer-{name}"
    python = folder / "bin" / "python"
    peer = PEERS[name]
    if not _imports(python, peer.module):
        print(f"installing {peer.package} into {folder}", flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        steps = [
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *peer.package.split()],
        ]
        for step in steps:
            done = subprocess.run(step, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                print(f"LEFT OUT: {peer.package} cannot be installed here: {last}", flush=True)
                return None
        if not _imports(python, peer.module):
            print(f"LEFT OUT: {peer.package} is installed in {folder} but cannot be imported", flush=True)
            return None
    return str(python)


def _imports(python: Path, module: str) -> bool:
    if not python.exists():
        return False
    found = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([str(python), "-c", found], check=False).returncode == 0
