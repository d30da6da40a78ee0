"""The look that comes before a run: how many cells of the file the schema does not hold."""

from __future__ import annotations

import re
from pathlib import Path

from dipsmith.report.commands import command


def check_command(schema: Path, data: str | None, table: str | None, *, members: bool, ledger: str | Path) -> str:
    """The command that counts them, without the user and password of a database address.

    >>> check_command(Path("p.yaml"), "p.csv", None, members=False, ledger="budget.db")
    'dipsmith schema check p.yaml --source p.csv --ledger budget.db'
    """
    words: list[str | Path] = [schema, "--source", "FILE" if data is None else re.sub(r"(?<=://)[^/@]*@", "", data)]
    words += [] if table is None else ["--table", table]
    words += ["--members", "FILE"] if members else []
    return command("schema", "check", *words, "--ledger", ledger)
