"""The page of all elements holds what it says: what can be run is run, what is named exists.

Commands and Python of the third column run in one folder, in the order of the page, after its set-up.
"""

import ast
import re
import shlex
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dipsmith.cli.main import commands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "elements.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| ([ABPS]\d+) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
STUDY = re.compile(r"\]\((studies/[\w-]+\.md)\)")


@dataclass(frozen=True)
class Element:
    """A row of the page."""

    key: str
    what: str
    shown_by: str

    @property
    def code(self):
        """What stands in code, without the escapes of a table."""
        return [text.replace("\\|", "|") for text in CODE.findall(self.shown_by)]

    @property
    def tests(self):
        return [text for text in self.code if text.startswith("tests/")]

    @property
    def studies(self):
        return STUDY.findall(self.shown_by)

    @property
    def commands(self):
        return [text for text in self.code if text.startswith("dipsmith ")]

    @property
    def python(self):
        """What is neither a command nor a test."""
        return [text for text in self.code if text not in {*self.tests, *self.commands}]


@cache
def elements():
    return [Element(*found[:3]) for found in ROW.findall(PAGE.read_text("utf-8"))]


@cache
def functions_in(path):
    """The functions of a test file that every run of the tests runs: `crowd` is left to `make audit`."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {f.name for f in found if not any("crowd" in ast.unparse(mark) for mark in f.decorator_list)}


def test_the_page_counts_its_elements():
    text = PAGE.read_text("utf-8")
    keys = [e.key for e in elements()]
    assert len(keys) == len(re.findall(r"^\| [ABPS]\d", text, re.MULTILINE)), "a row that cannot be read"
    assert f"{len(keys)} elements" in " ".join(text.split())
    for letter in "ABPS":
        own = [k for k in keys if k[0] == letter]
        assert own == [f"{letter}{i}" for i in range(1, len(own) + 1)]
        assert f"{len(own)} of {letter}" in " ".join(text.split())


def test_every_element_is_shown_by_something_that_exists():
    index = (PAGE.parent / "studies" / "index.md").read_text("utf-8")
    wrong = [e.key for e in elements() if not (e.code or e.studies)]
    for element in elements():
        tests = [test.partition("::") for test in element.tests]
        wrong += [f"{element.key}: {name}" for path, _, name in tests if name not in functions_in(path)]
        wrong += [f"{element.key}: {s}" for s in element.studies if not (PAGE.parent / s).exists()]
        wrong += [f"{element.key}: {s}" for s in element.studies if f"]({Path(s).name})" not in index]
    assert wrong == []


def test_python_of_the_page_holds_or_fails():
    """A call that may return anything shows nothing."""
    assert [f"{e.key}: {line}" for e in elements() for line in e.python if "assert " not in line] == []


def test_every_command_and_every_line_of_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "elements"}
    monkeypatch.setitem(sys.modules, "elements", type(sys)("elements"))
    for kind, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)
        for line in text.splitlines() if kind == "console" else ():
            assert not commands()(shlex.split(line.removeprefix("$ "))[1:], standalone_mode=False), line
    for element in elements():
        for command in element.commands:
            assert not commands()(shlex.split(command)[1:], standalone_mode=False), (element.key, command)
        for line in element.python:
            try:
                exec(compile(line, element.key, "exec"), names)
            except Exception as error:
                raise AssertionError(f"{element.key}: {line}") from error
    assert len(list(tmp_path.glob("*/card.json"))) >= 10
