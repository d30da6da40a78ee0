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
