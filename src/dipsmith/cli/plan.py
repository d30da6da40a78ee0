"""`dipsmith plan`: what a run will ask, cost and be worth, before anything is spent."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dipsmith.cli.terminal import (
    LEAST_WIDTH,
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
from dipsmith.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dipsmith.methods.method import Method, PublicFacts
    from dipsmith.planning.expected_error import ExpectedError
    from dipsmith.planning.plan import Plan
    from dipsmith.privacy.budget import Budget
    from dipsmith.schema import Schema

COSTS = 8
SHOWN = 6
"""Lines of each table on the screen, worst first; --json has all."""

EXAMPLES = """Examples:

  dipsmith plan --schema people.yaml --suggest --epsilon 1 --rows 50000

  dipsmith plan --schema people.yaml --method mst --epsilon 1 --rows 50000

  dipsmith plan --schema people.yaml --method mst --target-width 0.05 --rows 50000        (how much ε?)

  dipsmith plan people.csv --schema people.yaml --method forest --epsilon 0.75        (label: reads public columns only)
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
    target_width: Annotated[
        float | None,
        typer.Option(
            "--target-width",
            help="Instead of a budget: how wide the interval of a share may be; solves for ε.",
        ),
    ] = None,
    p0: Annotated[
        float, typer.Option("--p0", help="Under label: the authentic share of a label that widths are for.")
    ] = 0.5,
    level: Annotated[float, typer.Option("--level", help="Probability that such an interval holds.")] = 0.9,
    rows: Annotated[int | None, typer.Option("--rows", help="The number of rows, when it is public.")] = None,
    sets: Annotated[int, typer.Option("--sets", help="How many synthetic sets.")] = 1,
    each: Annotated[str | None, typer.Option("--each", help="split or draw.")] = None,
    settings: Settings = None,
    of_table: Annotated[
        str | None, typer.Option("--table", help="The table, when FILE is a database address.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what a run will ask and cost, and how precise the result can be; reads public facts only."""
    from dipsmith.planning.plan import plan as make
    from dipsmith.planning.suggest import suggest as propose
    from dipsmith.schema import Schema
    from dipsmith.sources import source
    from dipsmith.synthesis.public import public_facts

    declared = Schema.read(schema)
    if target_width is not None and (epsilon is not None or rho is not None):
        raise UsageError("--target-width solves for the budget; leave --epsilon and --rho out")
    if target_width is not None and 0 < target_width < LEAST_WIDTH:
        raise UsageError(f"--target-width is {target_width:g}, expected at least {LEAST_WIDTH:g}")
    if not 0 <= p0 <= 1:
        raise UsageError(f"--p0 is {p0:g}, expected a share between 0 and 1")
    if not 0 < level < 1:
        raise UsageError(f"--level is {level:g}, expected a probability between 0 and 1, such as 0.9")
    guess = budget_of("1", None, delta) if target_width is not None else budget_of(epsilon, rho, delta)
    given = None if data is None else source(data, table=of_table)
    facts = public_facts(declared, given, rows)
    suggestion = propose(declared, guess, facts.rows) if suggest or method is None else None
    chosen = method_of(method or (suggestion.method if suggestion else ""), settings, declared)
    budget = guess
    if target_width is not None:
        budget = _solved(declared, chosen, target_width, guess, facts, sets, each, p0, level)
    planned = make(declared, chosen, budget, public=facts, sets=sets, each=each, p0=p0, level=level)
    if json:
        said: dict[str, Any] = planned.to_dict()
        if target_width is not None:
            said["target_width"] = target_width
        if suggestion is not None:
            said["suggestion"] = {"method": suggestion.method, "reason": suggestion.reason}
        emit(said)
        return
    if suggestion is not None:
        say(f"Suggested: {suggestion.method} — {suggestion.reason}.")
    if target_width is not None:
        said_of = "a label's share in the leaf or cell of the median row" if planned.widths else "every share"
        say(f"{budget} makes the {level:.0%} interval of {said_of} at most {target_width:g} wide.")
    _show(planned)
    for text in dict.fromkeys(planned.warnings):
        warn(text)
    say(
        f"Nothing private was read, nothing was spent. Next: {_next(planned, schema, data, of_table, settings)}"
    )


def _next(
    planned: Plan, schema: Path, data: str | None, of_table: str | None, settings: list[str] | None
) -> str:
    """The command that would do it, without the user and password of a database address."""
    where = "FILE" if data is None else shlex.quote(re.sub(r"(?<=://)[^/@]*@", "", data))
    where += "" if of_table is None else f" --table {shlex.quote(of_table)}"
    budget = planned.budget
    stated = getattr(budget, "stated", None)
    if budget.currency == "epsilon":
        spend = f"--epsilon {float(budget.exact):.12g}"
    else:
        spend = (
            f"--rho {float(budget.exact):.12g}"
            if stated is None
            else f"--epsilon {stated[0]:.12g} --delta {stated[1]:g}"
        )
    chosen = "".join(f" --set {shlex.quote(s)}" for s in settings or ())
    sets = f" --sets {planned.sets} --each {planned.each}" if planned.sets > 1 else ""
    rows = (
        f" --rows {planned.rows}" if planned.neighbours == "add-remove" and planned.rows is not None else ""
    )
    return (
        f"dipsmith synthesize {where} --schema {shlex.quote(str(schema))} "
        f"--method {planned.method} {spend}{rows}{sets}{chosen} --ledger budget.db --out release/"
    )


def _solved(
    schema: Schema,
    method: Method,
    width: float,
    like: Budget,
    facts: PublicFacts,
    sets: int,
    each: str | None,
    p0: float,
    level: float,
) -> Budget:
    from dipsmith.planning.plan import budget_for_width
    from dipsmith.privacy.budget import ZCDP, zcdp_to_approx

    found = budget_for_width(
        schema, method, width, currency=like.currency, public=facts, sets=sets, each=each, p0=p0, level=level
    )
    stated = getattr(like, "stated", None)
    if not isinstance(found, ZCDP) or stated is None:
        return found
    # Back to the (ε, δ) that the steward speaks of; ε is rounded up.
    return ZCDP.from_approx(f"{zcdp_to_approx(found, stated[1]) * 1.001:.6f}", stated[1])


def _show(planned: Plan) -> None:
    rows = "rows unknown" if planned.rows is None else f"{planned.rows:,} rows"
    say(
        f"{planned.method} on '{planned.dataset}': {planned.budget}, unit {planned.unit}, neighbours {planned.neighbours}, {rows}"
    )
    _heading("Questions")
    table(
        "",
        ("stage", "asked", planned.budget.symbol, "share", "noisy numbers", "noise sd"),
        [
            (
                s.name,
                s.questions,
                f"{float(s.budget.exact):.4g}",
                f"{s.share:.0%}",
                "–" if s.cells is None else f"{s.cells:,}",
                "–" if s.sd is None else _range(*s.sd),
            )
            for s in planned.stages
        ],
        right=(1, 2, 3, 4, 5),
    )
    if planned.sets > 1:
        split = planned.each == "split"
        say(
            f"{planned.sets} sets: "
            + ("the questions are asked once per set" if split else "drawn from one model")
        )
    _show_trees(planned)
    _show_effects(planned)
    _show_errors(planned)
    _show_widths(planned)
    took = planned.resources
    _heading(
        f"About {took.memory / 1e6:,.0f} MB of memory and {_time(took.seconds)}, to within a factor of two."
    )


def _show_trees(planned: Plan) -> None:
    """What each tree costs, and how deep its branches go."""
    if planned.trees is None:
        return
    _heading(f"What each question costs: {planned.budget.symbol} each × how often × strata that add up")
    table(
        "",
        ("labels", "question", "each", "times", "strata", "total"),
        [
            (
                c.ensemble,
                c.question,
                f"{float(c.each.exact):.4g}",
                c.times,
                c.strata,
                f"{float(c.total.exact):.4g}",
            )
            for c in planned.trees.costs[:COSTS]
        ],
        right=(2, 3, 4, 5),
    )
    if len(planned.trees.costs) > COSTS:
        say(f"… {len(planned.trees.costs) - COSTS} more: --json")
    if planned.trees.all_strata.units > planned.trees.total.units:
        say(f"A person who is in every stratum pays {planned.trees.all_strata} in all.")
    shapes = [s for s in planned.trees.shapes if s.leaves][:2]
    if not shapes:
        return
    _heading("Attributes asked on the way to a leaf: share of the rows, leaves that have rows")
    deepest = max(len(s.leaves_by_depth) for s in shapes)
    lines: list[tuple[object, ...]] = []
    for shape in shapes:
        rows = [*shape.rows_by_depth, *[0] * (deepest - len(shape.rows_by_depth))]
        leaves = [*shape.leaves_by_depth, *[0] * (deepest - len(shape.leaves_by_depth))]
        split = f"{shape.ensemble}, split from {shape.n_b:,.0f} rows"
        lines.append((f"{split}: rows", *(f"{r / max(sum(rows), 1):.0%}" for r in rows)))
        lines.append(("leaves", *(f"{n:,}" for n in leaves)))
    table("", ("", *(str(d) for d in range(deepest))), lines, right=tuple(range(1, deepest + 1)))


def _show_effects(planned: Plan) -> None:
    """Of a log-linear labeller: every table, and how precisely it tells effects."""
    known = [s for s in planned.steps if s.effect_error is not None and s.cells is not None]
    if not known:
        return
    worst = sorted(known, key=lambda s: -(s.effect_error or 0.0))
    _heading(
        "Effects on labels, least precise first; ± is the standard error of a log-odds in an average cell, before shrinkage, "
        "were labels equally frequent (rare ones are less precise)"
    )
    table(
        "",
        ("table", "noisy numbers", planned.budget.symbol, "noise sd", "±"),
        [
            (
                " × ".join(s.attributes),
                f"{s.cells:,}",
                f"{float(s.budget.exact):.3g}",
                f"{s.sd:.3g}",
                f"{s.effect_error:.2g}",
            )
            for s in worst[:SHOWN]
        ],
        right=(1, 2, 3, 4),
    )
    if len(worst) > SHOWN:
        say(f"… {len(worst) - SHOWN} more, ± {worst[-1].effect_error:.2g} or more")


def _show_errors(planned: Plan) -> None:
    known = [e for e in planned.errors if e.tvd is not None and e.how != "public"]
    if not known:
        if planned.rows is None:
            say("Expected errors of shares need the number of rows: give --rows.")
        return
    lines: list[tuple[object, ...]] = []
    for ways in (1, 2):
        group = sorted((e for e in known if len(e.attributes) == ways), key=lambda e: -(e.tvd or 0.0))
        lines += [_error_line(e) for e in group[:SHOWN]]
        if len(group) > SHOWN:
            least = group[-1].tvd or 0.0
            lines.append((f"… {len(group) - SHOWN} more", "", "", f"{100 * least:.2g} or more", ""))
    unknown = sum(e.how == "unknown" for e in planned.errors)
    more = f"; {unknown} marginals cannot be foreseen" if unknown else ""
    _heading(f"Expected error from the noise alone, in percentage points of all rows, worst first{more}")
    table(
        "",
        ("marginal", "cells", "sd of a share", "total variation", ""),
        lines,
        right=(1, 2, 3),
    )


def _error_line(error: ExpectedError) -> tuple[object, ...]:
    assert error.share_sd is not None
    assert error.tvd is not None
    name = " × ".join(error.attributes)
    return name, f"{error.cells:,}", f"{100 * error.share_sd:.2g}", f"{100 * error.tvd:.2g}", error.how


def _show_widths(planned: Plan) -> None:
    from dipsmith.methods.outlook import QUANTILES

    known = [(w, w.typical) for w in planned.widths if w.typical is not None and w.labels > 1]
    if not known:
        return
    share = f"{planned.level:.0%} interval of a label's share of {planned.p0:g}"
    if all(w.of_trees for w, _ in known):
        _heading(
            f"Leaves, smallest first, by the share of rows that they label; widths are those of the {share}"
        )
        quantiles = [1, 2, 3, 4, 5]
        lines: list[tuple[object, ...]] = []
        for w, _ in known[:2]:
            lines.append(
                (
                    f"{w.what}: {w.leaves:,} {'leaf' if w.leaves == 1 else 'leaves'}, rows in a leaf",
                    *(f"{w.rows[i]:,}" for i in quantiles),
                )
            )
            lines.append(("width, a leaf on its own", *(f"{w.widths[i]:.2g}" for i in quantiles)))
            if w.shrunk is not None:
                lines.append(("width, leaves estimated together, about", "", "", f"{w.shrunk:.2g}", "", ""))
        columns = ("", *(f"{100 * QUANTILES[i]:.0f} %" for i in quantiles))
        table("", columns, lines, right=(1, 2, 3, 4, 5))
        return
    _heading(f"Where labels are made: width of the {share}, each cell on its own, worst first")
    worst = sorted(known, key=lambda pair: -(pair[1] or (0, 0.0))[1])
    table(
        "",
        ("labels", "cells", "λ = ε/Δ", "rows, smallest 5 %", "rows, median", "width there"),
        [
            (w.what, f"{w.leaves:,}", f"{w.lam:.3g}", f"{w.rows[1]:,}", f"{t[0]:,}", f"{t[1]:.2g}")
            for w, t in worst[:SHOWN]
            if t is not None
        ],
        right=(1, 2, 3, 4, 5),
    )


def _heading(text: str) -> None:
    say("")
    say(text)


def _range(low: float, high: float) -> str:
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
