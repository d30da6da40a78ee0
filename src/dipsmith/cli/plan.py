"""`dipsmith plan`: what a run will ask and cost, before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer

from dipsmith.cli.terminal import (
    Delta,
    Epsilon,
    Json,
    Rho,
    SchemaFile,
    Settings,
    budget_of,
    emit,
    method_of,
    say,
    table,
    warn,
)

EXAMPLES = """Examples:

  dipsmith plan --schema people.yaml --suggest --epsilon 1 --rows 50000

  dipsmith plan --schema people.yaml --method mst --epsilon 1 --rows 50000

  dipsmith plan people.csv --schema people.yaml --method forest --epsilon 0.75      (label: reads public columns only)
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(plan)


def plan(
    schema: SchemaFile,
    data: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Under label: the public columns are read.")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", help="The method to plan; suggested when omitted.")
    ] = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Say which method to use, and why.")] = False,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    rows: Annotated[int | None, typer.Option("--rows", help="The number of rows, when it is public.")] = None,
    sets: Annotated[int, typer.Option("--sets", help="How many synthetic sets.")] = 1,
    each: Annotated[str | None, typer.Option("--each", help="split or draw.")] = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Say what a run will ask, what each question costs and how large the noise will be."""
    from dipsmith.planning.plan import plan as make
    from dipsmith.planning.suggest import suggest as propose
    from dipsmith.schema import Schema
    from dipsmith.synthesis.public import public_facts

    declared = Schema.read(schema)
    budget = budget_of(epsilon, rho, delta)
    facts = public_facts(declared, data, rows)
    suggestion = propose(declared, budget, facts.rows) if suggest or method is None else None
    chosen = method_of(method or (suggestion.method if suggestion else ""), settings, declared)
    planned = make(declared, chosen, budget, public=facts, sets=sets, each=each)
    if json:
        advice = (
            {}
            if suggestion is None
            else {"suggestion": {"method": suggestion.method, "reason": suggestion.reason}}
        )
        emit({**planned.to_dict(), **advice})
        return
    if suggestion is not None:
        say(f"Suggested: {suggestion.method} — {suggestion.reason}.")
    say(
        f"{planned.method} on '{planned.dataset}': {planned.budget}, unit {planned.unit}, neighbours {planned.neighbours}"
    )
    symbol = budget.symbol
    table(
        "Questions, in order",
        ("stage", "what", symbol, "cells", "noise sd"),
        [
            (
                s.stage,
                s.what,
                f"{float(s.budget.exact):.6g}",
                "–" if s.cells is None else f"{s.cells:,}",
                "–" if s.sd is None else f"{s.sd:.3g}",
            )
            for s in planned.steps
        ],
        right=(2, 3, 4),
    )
    if sets > 1:
        say(
            f"{sets} sets: "
            + ("the questions are asked once per set" if each == "split" else "drawn from one model")
        )
    for text in planned.warnings:
        warn(text)
    say(f"{planned.cells:,} noisy numbers, about {planned.memory / 1e6:,.0f} MB. Nothing was read or spent.")
