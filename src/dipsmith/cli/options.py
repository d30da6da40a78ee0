"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from dipsmith.errors import UsageError

if TYPE_CHECKING:
    from dipsmith.privacy.budget import Budget

Json = Annotated[bool, Option("--json", help="Print the result as JSON on standard output.")]
SchemaFile = Annotated[Path, Option("--schema", help="The schema file (YAML).")]
LedgerFile = Annotated[Path, Option("--ledger", help="The budget ledger (an SQLite file).")]
NewFolder = Annotated[Path, Option("--out", help="The folder to write; must not exist.")]
NewTable = Annotated[Path, Option("--out", help="The file to write, .csv, .parquet, .dta or .sav; must not exist.")]
Release = Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")]
DrawSeed = Annotated[int | None, Option("--seed", help="Draws the same again; says nothing of the noise.")]
WhichModel = Annotated[int, Option("--model", help="Which model, where sets were sanitised separately.")]
Escape = Annotated[bool, Option("--escape-formulas", help="CSV: quote text that starts like a formula.")]
Encoding = Annotated[str | None, Option("--encoding", help="CSV that is not UTF-8, e.g. latin-1.")]
Delimiter = Annotated[str | None, Option("--delimiter", help="CSV: , ; tab or | (found when omitted).")]
Table = Annotated[str | None, Option("--table", help="The table, when FILE is a database address.")]
MembersTable = Annotated[
    str | None, Option("--members-table", help="The table of members, when --members is a database address.")
]
Epsilon = Annotated[str | None, Option("--epsilon", help="Pure ε; with --delta the ε of (ε, δ).")]
Rho = Annotated[str | None, Option("--rho", help="ρ of zero-concentrated differential privacy.")]
Delta = Annotated[str | None, Option("--delta", help="With --epsilon: run in ρ, converted from (ε, δ).")]
Sets = Annotated[int, Option("--sets", help="How many synthetic sets.")]
Each = Annotated[str | None, Option("--each", help="split: m sanitisations; draw: m draws from one.")]
KnownRows = Annotated[
    int | None,
    Option("--known-rows", help="Under add-remove: how many rows FILE has, where everybody knows that; costs nothing."),
]
AnotherGrant = Annotated[
    bool, Option("--another-grant", help="Confirm that these rows were charged under another name before.")
]
Settings = Annotated[list[str] | None, Option("--set", help="A parameter of the method, NAME=VALUE; may be repeated.")]

LEAST_WIDTH = 1e-9
"""The narrowest interval of a share that may be asked for: no table has rows enough for less."""


def examples(*commands: str) -> str:
    """What stands under a command's help."""
    return "Examples:\n\n" + "\n\n".join(f"  {command}" for command in commands) + "\n"


def budget_of(epsilon: str | None, rho: str | None, delta: str | None) -> Budget:
    """The budget that the options name."""
    from dipsmith.privacy.budget import ZCDP, PureDP

    if (epsilon is None) == (rho is None):
        raise UsageError("give either --epsilon (with --delta for (ε, δ)) or --rho")
    if rho is not None:
        if delta is not None:
            raise UsageError("--delta goes with --epsilon; --rho needs none")
        return ZCDP(rho)
    assert epsilon is not None
    return PureDP(epsilon) if delta is None else ZCDP.from_approx(epsilon, delta)


def cost_of(epsilon: str, budget: Budget) -> Budget:
    """What something cost that was released under pure ε, in the currency of a budget."""
    from dipsmith.privacy.accountant import convert
    from dipsmith.privacy.budget import PureDP, of_units

    return of_units(budget.currency, convert(PureDP(epsilon), budget.currency))


def require_width(option: str, width: float | None) -> None:
    """Refuse a width that no table can reach."""
    if width is not None and 0 < width < LEAST_WIDTH:
        raise UsageError(f"{option} is {width:g}, expected at least {LEAST_WIDTH:g}")


Public = Annotated[
    str | None,
    Option(
        "--public",
        "--prior",
        help="A public file of such rows: trees grow on it (forest), tables start from it (aim, mst).",
    ),
]
PublicMap = Annotated[
    list[str] | None, Option("--public-map", metavar="NAME=…", help="Where it has a column: pay=basic_pay*1.08.")
]
Factors = Annotated[
    str | None, Option("--factors", help="A public table of numbers by group, for the maps to use as columns.")
]
PublicEpsilon = Annotated[
    str | None, Option("--public-epsilon", help="The ε that it cost, if it was made from the private rows; charged.")
]

Analyses = Annotated[
    list[str] | None,
    Option(
        "--analysis",
        metavar="FORMULA",
        help="A planned analysis, e.g. 'log(pay) ~ sex + age | agency; width 0.05'; may be repeated.",
    ),
]

References = Annotated[
    list[str] | None,
    Option("--reference", help="COLUMN=LEVEL that other levels are compared with; may be repeated."),
]


def references_of(given: list[str] | None) -> dict[str, str]:
    """The levels that --reference options name."""
    found = {}
    for entry in given or ():
        column, _, level = (part.strip() for part in entry.partition("="))
        if not column or not level:
            raise UsageError(f"--reference {entry}: expected COLUMN=LEVEL, such as sex=M")
        found[column] = level
    return found
