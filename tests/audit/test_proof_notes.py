"""Every proof note names tests, and every test that a note, or the assurance page, names exists."""

import ast
import re
from pathlib import Path

import pytest

from dipsmith.methods.catalogue import METHODS

ROOT = Path(__file__).parents[2]
NOTES = sorted((ROOT / "docs" / "proofs").glob("*.md"))


def functions_by_file():
    return {
        str(path.relative_to(ROOT)): set(re.findall(r"^ *def (\w+)", path.read_text("utf-8"), re.MULTILINE))
        for path in (ROOT / "tests").rglob("*.py")
    }


FILES = functions_by_file()
ALL = set().union(*FILES.values())


def named(text):
    """The files and functions that a text names."""
    # A name may be broken over two lines of a table or a paragraph only at its `::`.
    files = set(re.findall(r"(?:[\w-]+/)*test_\w+\.py", text))
    functions = set(re.findall(r"(?<![\w/])test_\w+(?!\.py|\w)", text))
    return files, functions


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_note_names_tests_that_exist(note):
    files, functions = named(note.read_text("utf-8"))
    assert files or functions, "a proof note names the test that would catch a mistake"
    for file in files:
        assert any(known.endswith(f"/{file}") or known == file for known in FILES), file
    for function in functions - {Path(f).stem for f in FILES}:
        # A name that ends with an underscore (test_wide_…) stands for several.
        assert function in ALL or (function.endswith("_") and begins(function)), function


def begins(start):
    return any(known.startswith(start) for known in ALL)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_proof_note(name):
    assert any(re.search(rf"\b{name}\b", note.read_text("utf-8"), re.IGNORECASE) for note in NOTES), name


@pytest.mark.parametrize("page", ["assurance.md", "threat-model.md"])
def test_pages_name_what_exists(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    files, functions = named(text)
    for file in files:
        assert any(known.endswith(file) for known in FILES), file
    for function in functions - {Path(f).stem for f in FILES}:
        assert function in ALL, function
    for link in re.findall(r"\]\(([\w/.-]+\.md)\)", text):
        assert (ROOT / "docs" / link).is_file(), link


def test_the_threat_model_links_every_proof_note():
    text = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
    for note in NOTES:
        assert f"proofs/{note.name}" in text, note.name


def test_every_crowd_has_its_small_twin_in_the_contributing_guide():
    """What `make test` leaves to `make audit` is listed, beside the test that shows the same on a smaller scale."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    files, functions = named(text)
    assert files | functions <= ALL
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    for text in (text for text in texts if "crowd" in text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and any(
                "crowd" in ast.unparse(decorator) for decorator in node.decorator_list
            ):
                assert node.name in functions, node.name
