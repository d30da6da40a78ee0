"""Lines of Markdown fit a screen; tables, code and links may be longer."""

import subprocess
from pathlib import Path

import pytest

from assurance.markdown import wrap

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_under_120_characters(page):
    text = page.read_text("utf-8")
    assert text == wrap(text), "wrap it: assurance.markdown.wrap"


DRAWINGS = sorted((ROOT / "docs").rglob("*.svg"))


def test_drawings_follow_the_readers_dark_mode():
    """Colours by custom properties that change with the scheme, and nothing light painted behind."""
    assert len(DRAWINGS) > 50
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in DRAWINGS}
    assert [name for name, text in texts.items() if "prefers-color-scheme" not in text] == []
    light = ("background: #f", "#ffffff", 'fill="white"', "fill: white")
    drawn = {name: text.split("</style>", 1)[1] for name, text in texts.items()}
    assert [name for name, text in drawn.items() if any(colour in text for colour in light)] == []
