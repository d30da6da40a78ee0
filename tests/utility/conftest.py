"""Small tables with known properties, and snapshots."""

import os
import re
from pathlib import Path

import pytest

from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.schema.bins import singles


def lists(sizes, ordered=(), neighbours="replace", public=()):
    """A schema of columns x0, x1, … with so many levels each."""
    attributes = []
    for i, size in enumerate(sizes):
        role = "public" if i in public else "private"
        if i in ordered:
            attributes.append(Attribute(f"x{i}", "integer", singles("integer", 0, size - 1), role))
        else:
            labels = [f"l{j}" for j in range(size)]
            attributes.append(Attribute(f"x{i}", "string", Categories.of(labels, other=labels[0]), role))
    return Schema("t", tuple(attributes), Unit(), neighbours)


def uniform(schema, n, rng):
    return Codes.of(schema, {a.name: rng.integers(0, a.size, n) for a in schema}, n)


@pytest.fixture
def small():
    """The helpers above, for tests."""

    class Small:
        pass

    Small.lists, Small.uniform = staticmethod(lists), staticmethod(uniform)
    return Small


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
