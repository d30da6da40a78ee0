"""`dipsmith audit`: attack a method on neighbouring tables and say what that proves about its ε."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dipsmith.cli.terminal import Json, emit, progress, say, table
from dipsmith.errors import DamageError

if TYPE_CHECKING:
    from dipsmith.audit.trial import Finding

EXAMPLES = """Examples:

  dipsmith audit flat --epsilon 4 --trials 1000

  dipsmith audit forest --relation label --epsilon 1 --trials 5000 --json
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(audit)


def audit(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="flat, marginals, forest, mst, aim, …")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="The ε that is claimed.")] = "4",
    trials: Annotated[int, typer.Option("--trials", help="Runs in each of the two worlds.")] = 1000,
    relation: Annotated[
        str | None, typer.Option("--relation", help="add-remove, replace or label; all supported by default.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="Of the simulated noise; nothing private is in it.")
    ] = 0,
    json: Json = False,
) -> None:
    """Attack a method on simulated neighbouring tables: a lower bound on its ε, to hold against the claim.

    Makes runs of the method on two tables that differ in one row, lets attackers guess which table each run saw, and
    turns their success into a lower bound. Fails (exit 5) if a bound exceeds the claim at 1 − 10⁻⁶. Reads no file.
    """
    from dipsmith.audit.subjects import make_method, supported_relations
    from dipsmith.audit.trial import audit as attack
    from dipsmith.audit.worlds import TARGETS

    relations = supported_relations(method) if relation is None else (relation,)
    subjects = [(each, make_method(method, each, TARGETS)) for each in relations]
    found = []
    with progress(json) as show:
        for each, subject in subjects:
            shown = None if show is None else partial(show, f"attacking under {each}")
            found.append(attack(subject, each, epsilon=epsilon, trials=trials, seed=seed, progress=shown))
    worst = max(found, key=lambda f: f.lower_bound)
    if json:
        emit(
            {
                **worst.to_dict(),
                "passed": all(f.passed for f in found),
                "by_relation": [f.to_dict() for f in found],
            }
        )
    else:
        _print(found)
    if not all(f.passed for f in found):
        raise DamageError(
            f"{method}: an attack proves more than ε = {worst.claimed:g} at 1 − 10⁻⁶; do not release with it, and report it"
        )


def _print(found: list[Finding]) -> None:
    rows = [
        (
            f.relation,
            f"{f.claimed:g}",
            f"{f.lower_bound:.2f}",
            f"{f.black_box:.2f}",
            f"{f.optimal:.2f}",
            f"{f.tightness:.0%}",
            "pass" if f.passed else "FAIL",
        )
        for f in found
    ]
    table(
        f"{found[0].method}: lower bounds on ε (95 %), {found[0].trials:,} runs in each world",
        (
            "neighbours",
            "claimed",
            "white box",
            "black box",
            "optimal attacker",
            "reached",
            "verdict at 1 − 10⁻⁶",
        ),
        rows,
        right=(1, 2, 3, 4, 5),
    )
    say(
        "White box: sees every noisy answer. Black box: sees synthetic rows. Optimal: what the answers' prices would "
        "allow at most."
    )
