"""Running the command line inside the test process: exit code, standard output, standard error."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


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
        return Ran(int(stopped.value.code or 0), captured.out, captured.err)

    return run
