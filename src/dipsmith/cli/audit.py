"""`dipsmith audit`: attack a method on neighbouring tables and say what that proves about its ε."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import emit, progress, say, table
from dipsmith.errors import DamageError

if TYPE_CHECKING:
    from dipsmith.audit.trial import Finding

EXAMPLES = examples(
    "dipsmith audit flat --epsilon 4 --trials 1000",
    "dipsmith audit forest --relation label --epsilon 1 --trials 5000 --json",
)


def audit(
    method: Annotated[str, Argument(metavar="METHOD", help="flat, marginals, forest, mst, aim, …")],
    epsilon: Annotated[str, Option("--epsilon", help="The ε that is claimed.")] = "4",
    trials: Annotated[int, Option("--trials", help="Runs in each of the two worlds.")] = 1000,
    relation: Annotated[
        str | None, Option("--relation", help="add-remove, replace or label; all supported by default.")
    ] = None,
    seed: Annotated[int, Option("--seed", help="Of the simulated noise; nothing private is in it.")] = 0,
    json: Json = False,
) -> None:
    """Attack a method on simulated neighbouring tables: a lower bound on its ε, to hold against the claim.

    Makes runs of the method on two tables that differ in one row, lets attackers guess which table each run saw, and
    turns their success into a lower bound. Fails (exit 5) if a bound exceeds the claim at 1 − 10⁻⁶. Reads no file.
    """
    from dipsmith.audit.trial import audit as attack
    from dipsmith.audit.trial import default_method, supported_relations
    from dipsmith.audit.worlds import TARGETS

    relations = supported_relations(method) if relation is None else (relation,)
    subjects = [(each, default_method(method, each, TARGETS)) for each in relations]
    found = []
    with progress(json) as show:
        for each, subject in subjects:
            shown = None if show is None else partial(show, f"attacking under {each}")
            found.append(attack(subject, each, epsilon=epsilon, trials=trials, seed=seed, progress=shown))
    worst = max(found, key=lambda f: f.lower_bound)
    passed = all(f.passed for f in found)
    if json:
        emit({**worst.to_dict(), "passed": passed, "by_relation": [f.to_dict() for f in found]})
    else:
        _print(found)
    if not passed:
        raise DamageError(
            f"{method}: an attack proves more than ε = {worst.claimed:g} at 1 − 10⁻⁶; do not release with it, and report it"
        )


def _print(found: list[Finding]) -> None:
    rows = []
    for f in found:
        bounds = (f"{bound:.2f}" for bound in (f.lower_bound, f.black_box, f.optimal))
        verdict = "pass" if f.passed else "FAIL"
        rows.append((f.relation, f"{f.claimed:g}", *bounds, f"{f.tightness:.0%}", verdict))
    columns = ("neighbours", "claimed", "white box", "black box", "optimal attacker", "reached", "verdict at 1 − 10⁻⁶")
    title = f"{found[0].method}: lower bounds on ε (95 %), {found[0].trials:,} runs in each world"
    table(title, columns, rows, right=(1, 2, 3, 4, 5))
    say(
        "White box: sees every noisy answer. Black box: sees synthetic rows. Optimal: what the answers' prices would "
        "allow at most."
    )
