"""Which tier a test is of, snapshots of rendered sections, and a Python with somebody else's package."""

import os
import re
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # no test asserts a time: others may be using the machine

PLUGIN = Path(__file__).parent / "plugin" / "package"
SERVERS = {"postgresql", "spark", "opened", "studio", "shared"}
BROWSERS = {"browser", "visit"}
SLOW = {"plugged", "install_package"}
AUDIT = Path(__file__).parent / "audit"
DRAWING = {"docs", "experiments", "packaging", "report", "studies", "studio", "utility"}
"""Folders whose tests draw figures; elsewhere a release that is saved has tables only, unless a test is marked."""


def pytest_collection_modifyitems(items):
    """Mark tests by the fixtures that they ask for, and by their folder."""
    for item in items:
        asked = {*getattr(item, "fixturenames", ())}
        if asked & SERVERS:
            item.add_marker("server")
        if asked & SLOW:
            item.add_marker("slow")
        if asked & BROWSERS:
            item.add_marker("browser")
        if item.path.is_relative_to(AUDIT):
            item.add_marker("audit")
    # Of two processes that share the tests the first begins here and the other takes from the end: one cluster is started.
    items.sort(key=lambda item: "spark" not in (*getattr(item, "fixturenames", ()), *item.keywords))


@pytest.fixture(autouse=True)
def _without_figures(request, monkeypatch):
    """Figures take most of the time of a release: they are drawn where they are looked at."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    if folder not in DRAWING and request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("dipsmith.report.figures.available", lambda: False)


@pytest.fixture
def snapshot(request):
    """Compare text with a file beside the test; DIPSMITH_SNAPSHOTS=write makes the file."""
    folder = Path(request.path).parent / "snapshots"

    def check(name, text):
        plain = re.sub(r"<svg .*?</svg>", "<svg/>", text, flags=re.DOTALL)
        # the last digits of what tables are sorted by depend on the linear algebra library
        plain = re.sub(r'(?<=data-v=")[^"]*', lambda found: f"{float(found[0]):.4g}", plain)
        lines = re.sub(r"(</(?:tr|h2|h3|p|dl|figure|table|section|pre|nav)>)", "\\1\n", plain)
        path = folder / f"{name}.html"
        if os.environ.get("DIPSMITH_SNAPSHOTS") == "write":
            folder.mkdir(exist_ok=True)
            path.write_text(lines, "utf-8")
        assert path.is_file(), f"no snapshot {path.name}; run once with DIPSMITH_SNAPSHOTS=write and read it"
        assert lines == path.read_text("utf-8")

    return check


@pytest.fixture(scope="session")
def plugged(install_package) -> str:
    """The interpreter of an environment that sees ours, and has the plug-in installed."""
    return install_package(PLUGIN)


@pytest.fixture(scope="session")
def install_package(tmp_path_factory):
    """Install a package into a fresh environment that sees ours; gives its interpreter."""
    return lambda package: _install(package, tmp_path_factory.mktemp("plugged"))


def _install(package: Path, place: Path) -> str:
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/python*/site-packages")
    ours = next(p for p in site.getsitepackages() if p.endswith("site-packages"))
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    copy = shutil.copytree(package, place / "package")  # what is built must not leave files in the checkout
    uv = Path(sys.executable).with_name("uv")
    assert uv.exists(), "uv is missing: run the tests by make test"
    installed = subprocess.run(
        [
            uv,
            "pip",
            "install",
            "--offline",
            "--no-cache",
            "--no-deps",
            "--no-build-isolation",
            "--python",
            python,
            copy,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    return str(python)
