"""Running the command line inside the test process: exit code, standard output, standard error."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

UNCHECKED = "dipsmith: note: nobody has counted the cells of this file that the schema does not hold"


@dataclass(frozen=True)
class Ran:
    """What a command said; `unchecked` is the note with which every run of a file that nobody has checked begins."""

    code: int
    out: str
    err: str
    unchecked: str = ""


@pytest.fixture
def dipsmith(capsys, monkeypatch, tmp_path) -> Callable[..., Ran]:
    from dipsmith.cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["dipsmith", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        lines = captured.err.splitlines(keepends=True)
        apart, others = ([x for x in lines if x.startswith(UNCHECKED) == noted] for noted in (True, False))
        return Ran(int(stopped.value.code or 0), captured.out, "".join(others), "".join(apart))

    return run


@pytest.fixture
def office(dipsmith, tmp_path):
    """A folder with a table, its schema and a grant; a column whose name a terminal might take for a picture."""
    schema = """
name: people
unit: row
neighbours: add-remove
fields:
  - {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
  - {name: "a:cat:", type: string, enum: [ä, M]}
"""
    (tmp_path / "people.yaml").write_text(schema, "utf-8")
    (tmp_path / "people.csv").write_text("age,a:cat:\n34,M\n51,M\n", "utf-8")
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", "5").code == 0
    return tmp_path
