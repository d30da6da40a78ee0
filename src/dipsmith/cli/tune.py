"""`dipsmith tune`: which settings of a method are best, by a public stand-in (free) or by the private rows (charged)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.settings import method_of
from dipsmith.cli.terminal import answer, emit, say, warnings_as_notes
from dipsmith.cli.terminal import table as show_table
from dipsmith.errors import HopelessNoise, LostKey, UsageError
from dipsmith.report.commands import command

if TYPE_CHECKING:
    from dipsmith.methods.method import Method
    from dipsmith.privacy.budget import Budget
    from dipsmith.schema import Schema

EXAMPLES = options.examples(
    "dipsmith tune --on older.csv --schema people.yaml --method forest --vary n_b=25,500 --vary trees=1,3 --epsilon 0.75",
    "dipsmith tune people.csv --schema people.yaml --method forest --vary n_b=25,500 --epsilon 3 --ledger budget.db --out release/",
)
MOST_SETTINGS = 200
"""More than anyone compares in one command."""


def tune(
    schema: options.SchemaFile,
    method: Annotated[str, Option("--method", help="The method whose settings are compared.")],
    vary: Annotated[list[str], Option("--vary", metavar="NAME=A,B,…", help="Values of a setting to try; repeatable.")],
    data: Annotated[str | None, Argument(metavar="[FILE]", help="The private rows: choose by them, charged.")] = None,
    on: Annotated[str | None, Option("--on", help="A public stand-in of the same shape: compare on it, free.")] = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: options.Delta = None,
    settings: options.Settings = None,
    repeats: Annotated[int, Option("--repeats", help="With --on: how often each setting is run.")] = 3,
    rows: Annotated[int | None, Option("--rows", help="With --on: how many rows the private table has.")] = None,
    seed: Annotated[int, Option("--seed", help="With --on: makes the comparison repeatable.")] = 0,
    ledger: Annotated[Path | None, Option("--ledger", help="With FILE: the budget ledger.")] = None,
    out: Annotated[Path | None, Option("--out", help="With FILE: the folder to write; must not exist.")] = None,
    request: Annotated[str | None, Option("--request", help="With FILE: id of this run; it never draws twice.")] = None,
    json: options.Json = False,
) -> None:
    """Compare settings on a public stand-in, free; or choose privately by the rows themselves, and release the best."""
    from dipsmith.schema import Schema

    if (data is None) == (on is None):
        raise UsageError("give either FILE (the private rows; charged) or --on (a public stand-in; free)")
    budget = options.budget_of(epsilon, rho, delta)
    declared = Schema.read(schema)
    trials = [(words, _method(method, settings or [], words, declared)) for words in _combinations(vary)]
    if on is not None:
        if ledger is not None or out is not None or request is not None:
            raise UsageError("--ledger, --out and --request go with FILE: a comparison on a stand-in releases nothing")
        _compare(on, declared, trials, budget, repeats, rows, seed, json)
        return
    if ledger is None or out is None or data is None:
        raise UsageError("choosing by the private rows is charged and makes a release: give --ledger and --out")
    _choose(data, declared, trials, budget, ledger, out, request, json)


def _method(name: str, settings: list[str], words: list[str], schema: Schema) -> Method:
    """The method with one combination; what is wrong with it is told as --vary, which the user wrote."""
    method_of(name, settings, schema)
    try:
        return method_of(name, [*settings, *words], schema)
    except UsageError as error:
        raise UsageError(str(error).replace("--set ", "--vary ", 1)) from None


def _compare(
    on: str,
    schema: Schema,
    trials: list[tuple[list[str], Method]],
    budget: Budget,
    repeats: int,
    rows: int | None,
    seed: int,
    json: bool,
) -> None:
    from dipsmith.tuning.public_tuning import tune as compare

    names = [word.partition("=")[0].strip() for word in trials[0][0]]
    grid = [{name: getattr(made, name) for name in names} for _, made in trials]
    found = compare(trials[0][1], grid, tune_on=on, schema=schema, budget=budget, repeats=repeats, rows=rows, seed=seed)
    if json:
        emit(found.to_dict())
        return
    content = found.content()
    say(content.caption)
    show_table("", content.columns, content.rows, right=(1, 2))
    best = found.trials[0]
    again = " ".join(f"--set {word}" for words, made in trials if made == best.method for word in words)
    say(f"Best: {best}. Use it with: dipsmith synthesize … --method {best.method.name} {again}")


def _choose(
    data: str,
    schema: Schema,
    trials: list[tuple[list[str], Method]],
    budget: Budget,
    ledger: Path,
    out: Path,
    request: str | None,
    json: bool,
) -> None:
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.synthesize import synthesize
    from dipsmith.synthesis.writing import require_absent
    from dipsmith.tuning.private_selection import Selected
    from dipsmith.tuning.scores import LogLoss, MarginalFit

    selected = Selected([made for _, made in trials], LogLoss() if schema.neighbours == "label" else MarginalFit())
    require_absent(out)
    with warnings_as_notes(HopelessNoise, LostKey):
        release = synthesize(data, schema, selected, budget=budget, ledger=Ledger(ledger), request=request)
    where, verb = release.folder, "Released before, nothing was drawn or charged: it is in"
    if where is None:
        where, verb = release.save(out), "Written to"
    card = release.card
    chosen = card.parameters["chosen"][0]
    named = {repr(made): words for words, made in trials}
    answer(
        json,
        {"out": str(where), "chosen": card.parameters["chosen"], "guarantee": card.guarantee, "request": card.request},
        str(card),
        f"Chosen: {', '.join(named.get(chosen, [chosen]))}",
        f"{verb} {where}/ — read card.html first; check it with: {command('verify', where)}",
    )


def _combinations(vary: list[str]) -> list[list[str]]:
    """Every combination of the values to try, as --set says them."""
    each = []
    for entry in vary:
        name, equals, text = entry.partition("=")
        values = [value for value in _values(text) if value]
        if not equals or not name.strip() or not values:
            raise UsageError(f"--vary {entry}: expected NAME=A,B,…, such as n_b=25,500")
        each.append([f"{name.strip()}={value}" for value in values])
    found = [list(words) for words in product(*each)]
    if len(found) > MOST_SETTINGS:
        raise UsageError(f"--vary makes {len(found):,} settings, at most {MOST_SETTINGS} are compared; vary fewer")
    return found


def _values(text: str) -> list[str]:
    """Values between commas, but not within brackets.

    >>> _values("[a, b], auto")
    ['[a, b]', 'auto']
    """
    found, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [value.strip() for value in found]
