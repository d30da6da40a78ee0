"""Snapshots of rendered sections."""

import os
import re
from pathlib import Path

import pytest


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
