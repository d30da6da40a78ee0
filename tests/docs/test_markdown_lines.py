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
