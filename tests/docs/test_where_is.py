"""The page "Where is …?" and ARCHITECTURE.md name what exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("src/dipsmith", "", "src", "src/dipsmith/methods", "src/dipsmith/schema")


@pytest.mark.parametrize("page", ["docs/where-is.md", "ARCHITECTURE.md"])
def test_every_place_exists(page):
    named = re.findall(r"`([\w./-]+(?:\.py|/|\.md|\.toml))`", (ROOT / page).read_text("utf-8"))
    assert len(named) > 20
    lost = [place for place in named if not any((ROOT / root / place).exists() for root in PLACES)]
    assert lost == []


def test_the_architecture_is_one_page_and_names_every_room():
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rooms = [path.parent.name for path in (ROOT / "src/dipsmith").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in page] == []
    assert len(page.splitlines()) <= 80


def test_no_file_is_longer_than_400_lines():
    files = (ROOT / "src").rglob("*.py")
    assert [path.name for path in files if len(path.read_text("utf-8").splitlines()) > 400] == []
