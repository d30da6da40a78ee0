"""`dipsmith plan`: what a run will ask, cost and be worth, before anything is spent."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from math import hypot, isfinite
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.check_first import check_command
from dipsmith.cli.settings import method_of, public_of
from dipsmith.cli.terminal import emit, say, table, warn, warnings_as_notes
from dipsmith.errors import UnlistedValues, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dipsmith.methods.method import Method
    from dipsmith.planning.analysis_plan import AnalysisPlan
    from dipsmith.planning.plan import Plan
    from dipsmith.privacy.budget import Budget
    from dipsmith.schema import Schema
    from dipsmith.schema.analysis import PlannedAnalysis
    from dipsmith.sources import Source

COSTS = 8
ROWS_SHOWN = 6
"""Lines of each table on the screen, worst first; --json has all."""

EXAMPLES = options.examples(
    "dipsmith plan --schema people.yaml --suggest --epsilon 1 --rows 50000",
    "dipsmith plan --schema people.yaml --method mst --epsilon 1 --rows 50000",
    "dipsmith plan --schema people.yaml --method mst --target-width 0.05 --rows 50000        (how much ε?)",
    "dipsmith plan people.csv --schema people.yaml --method forest --epsilon 0.75        (label: reads public columns only)",
    "dipsmith plan people.csv --schema people.yaml --epsilon 0.75 --analysis 'log(pay) ~ sex + age | agency; width 0.05'",
)


def plan(
    schema: options.SchemaFile,
    data: Annotated[str | None, Argument(metavar="[FILE]", help="Under label: the public columns are read.")] = None,
    method: Annotated[str | None, Option("--method", help="The method to plan; suggested when omitted.")] = None,
    suggest: Annotated[bool, Option("--suggest", help="Say which method to use, and why.")] = False,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: options.Delta = None,
    target_width: Annotated[
        float | None,
        Option("--target-width", help="Instead of a budget: how wide the interval of a share may be; solves for ε."),
    ] = None,
    p0: Annotated[float, Option("--p0", help="Under label: the authentic share of a label that widths are for.")] = 0.5,
    level: Annotated[float, Option("--level", help="Probability that such an interval holds.")] = 0.9,
    rows: Annotated[int | None, Option("--rows", help="A number of rows to plan with: public, or a guess.")] = None,
    known_rows: options.KnownRows = None,
    sets: options.Sets = 1,
    each: options.Each = None,
    analysis: options.Analyses = None,
    public: options.Public = None,
    public_map: options.PublicMap = None,
    public_epsilon: options.PublicEpsilon = None,
    factors: options.Factors = None,
    settings: options.Settings = None,
    of_table: options.Table = None,
    json: options.Json = False,
) -> None:
    """Say what a run will ask and cost, and how precise the result can be; reads public facts only."""
    from dipsmith.planning.plan import plan as make
    from dipsmith.planning.suggest import suggest as propose
    from dipsmith.schema import Schema
    from dipsmith.schema.analysis import PlannedAnalysis
    from dipsmith.sources import source
    from dipsmith.sources.fingerprint import fingerprints
    from dipsmith.synthesis.planned import ready_method
    from dipsmith.synthesis.public import PublicInput, public_facts, require_apart, require_public

    declared = Schema.read(schema)
    if target_width is not None and (epsilon is not None or rho is not None):
        raise UsageError("--target-width solves for the budget; leave --epsilon and --rho out")
    options.require_width("--target-width", target_width)
    if not 0 <= p0 <= 1:
        raise UsageError(f"--p0 is {p0:g}, expected a share between 0 and 1")
    if not 0 < level < 1:
        raise UsageError(f"--level is {level:g}, expected a probability between 0 and 1, such as 0.9")
    budget = options.budget_of("1", None, delta) if target_width is not None else options.budget_of(epsilon, rho, delta)
    declared.check_known_rows(known_rows)
    given = None if data is None else source(data, table=of_table)
    require_apart(declared, [given], None)
    facts = public_facts(declared, given, rows if known_rows is None else known_rows)
    asked = tuple(PlannedAnalysis.of(a) for a in (*declared.analyses, *(analysis or ())))
    wanted = suggest or method is None
    suggestion = propose(declared, budget, facts.rows, analyses=bool(asked)) if wanted else None
    chosen = method_of(method or (suggestion.method if suggestion else ""), settings, declared)
    require_public([PublicInput(f, fingerprints(source(f))) for f in (public, factors) if f], [given], None)
    if factors and not public_map:
        raise UsageError("--factors goes with --public-map, which uses its columns")
    with warnings_as_notes(UnlistedValues):
        chosen = public_of(chosen, declared, budget, public, public_map, public_epsilon, factors)
    run: dict[str, Any] = {"public": facts, "sets": sets, "each": each, "p0": p0, "level": level}
    if target_width is not None:
        budget = _solve(declared, chosen, target_width, budget, run)
    chosen = ready_method(chosen, asked, declared, budget)
    forecast = _label_forecast(declared, asked, given, budget)
    planned = make(declared, chosen, budget, analyses=asked, forecast=forecast, **run)
    analyses = planned.analyses
    if json:
        found: dict[str, Any] = planned.to_dict()
        if target_width is not None:
            found["target_width"] = target_width
        if suggestion is not None:
            found["suggestion"] = {"method": suggestion.method, "reason": suggestion.reason}
        emit(found)
        return
    if suggestion is not None:
        say(f"Suggested: {suggestion.method} — {suggestion.reason}.")
    if target_width is not None:
        of = "a label's share in the leaf or cell of the median row" if planned.widths else "every share"
        say(f"{budget} makes the {level:.0%} interval of {of} at most {target_width:g} wide.")
    if analyses is not None and analyses.share:
        taken = f"planned analyses take {analyses.share:.0%} of it"
        say(f"Of {budget} {taken}; what follows is the plan of the rest.")
    _show(planned)
    if analyses is not None:
        _show_analyses(analyses)
    for text in dict.fromkeys(planned.warnings):
        warn(text)
    households = declared.members is not None
    if households:
        say(_who_pays(declared, budget))
    maps = [("--public-map", column) for column in public_map or ()]
    beside = [("--public", public), *maps, ("--public-epsilon", public_epsilon), ("--factors", factors)]
    command = _next_command(
        planned, budget, schema, data, of_table, settings, analysis, known_rows, beside, members=households
    )
    first = check_command(schema, data, of_table, members=households, ledger="budget.db")
    say(f"Cells that cannot be read count silently: before a run, count them once (CONFIDENTIAL, logged): {first}")
    say(f"Nothing private was read, nothing was spent. Next: {command}")


def _who_pays(schema: Schema, budget: Budget) -> str:
    """What a household or a person in one pays."""
    if schema.unit.protects == "person":
        return f"A person pays {budget} once, for its own row and for all that it changes in the row of its household."
    return f"A household pays {budget} once, for its own row and for all of its members together."


def _label_forecast(
    schema: Schema, analyses: tuple[PlannedAnalysis, ...], data: Source | None, budget: Budget
) -> AnalysisPlan | None:
    """What to expect of planned analyses under `label`, where the public columns are there to be read."""
    from dipsmith.synthesis.planned import forecast_labels

    if not analyses or schema.neighbours != "label":
        return None
    if data is None:
        warn("planned analyses are forecast from the public columns: give the file, dipsmith plan FILE --schema …")
        return None
    return forecast_labels(analyses, schema, data, budget)


def _show_analyses(analyses: AnalysisPlan) -> None:
    lines = [
        (
            e.name,
            *(f"± {_number(1.96 * sd)}" for sd in (e.sampling, e.noise)),
            _number(hypot(e.sampling, e.noise)),
            _number(e.width),
            "" if e.wanted is None else f"{e.wanted:g}",
        )
        if isfinite(e.width)
        else (e.name, "–", "–", "–", "–", "hopeless")
        for e in analyses.expectations
    ]
    columns = ("coefficient", "by the rows themselves", "by noise", "standard error", "interval's width", "wanted")
    if lines:
        table("What to expect of planned analyses (95 % intervals)", columns, lines[:COSTS], right=range(1, 6))
    if len(lines) > COSTS:
        say(f"… and {len(lines) - COSTS} more coefficients: --json has all.")
    for text in (*analyses.notes, *analyses.hopeless):
        warn(text)
    if analyses.enough is not None:
        say(f"The widths that are wanted need {analyses.enough}.")
    elif analyses.beyond_reach:
        warn("the widths that are wanted cannot be had from so many rows at any budget")


def _next_command(
    planned: Plan,
    budget: Budget,
    schema: Path,
    data: str | None,
    of_table: str | None,
    settings: list[str] | None,
    analyses: list[str] | None,
    known_rows: int | None,
    beside: Sequence[tuple[str, str | None]],
    *,
    members: bool,
) -> str:
    """The command that would do it, without the user and password of a database address."""
    amount, stated = f"{float(budget.exact):.12g}", getattr(budget, "stated", None)
    words = ["FILE" if data is None else re.sub(r"(?<=://)[^/@]*@", "", data)]
    words += [] if of_table is None else ["--table", of_table]
    words += ["--members", "FILE"] if members else []
    words += ["--schema", str(schema), "--method", planned.method]
    if budget.currency == "epsilon" or stated is None:
        words += [f"--{budget.currency}", amount]
    else:
        words += ["--epsilon", f"{stated[0]:.12g}", "--delta", f"{stated[1]:g}"]
    if known_rows is not None:
        words += ["--known-rows", str(known_rows)]
    if planned.sets > 1:
        words += ["--sets", str(planned.sets), "--each", str(planned.each)]
    for formula in analyses or ():
        words += ["--analysis", formula]
    for setting in settings or ():
        words += ["--set", setting]
    words += [word for option, value in beside if value is not None for word in (option, value)]
    return f"dipsmith synthesize {shlex.join(words)} --ledger budget.db --out release/"


def _solve(schema: Schema, method: Method, width: float, like: Budget, run: dict[str, Any]) -> Budget:
    """The least budget that makes intervals as narrow as was asked, in the currency of `like`."""
    from dipsmith.planning.plan import budget_for_width
    from dipsmith.privacy.budget import ZCDP, rho_to_approx

    found = budget_for_width(schema, method, width, currency=like.currency, **run)
    stated = getattr(like, "stated", None)
    if not isinstance(found, ZCDP) or stated is None:
        return found
    # Back to the (ε, δ) that the steward speaks of; ε is rounded up.
    return ZCDP.from_approx(f"{rho_to_approx(found, stated[1]) * 1.001:.6f}", stated[1])


def _show(planned: Plan) -> None:
    rows = "rows unknown" if planned.rows is None else f"{planned.rows:,} rows"
    under = f"unit {planned.unit}, neighbours {planned.neighbours}"
    say(f"{planned.method} on '{planned.dataset}': {planned.budget}, {under}, {rows}")
    lines = []
    for s in planned.stages:
        numbers = "–" if s.cells is None else f"{s.cells:,}", "–" if s.sd is None else _range(*s.sd)
        lines.append((s.name, s.questions, f"{float(s.budget.exact):.4g}", f"{s.share:.0%}", *numbers))
    _table("Questions", ("stage", "asked", planned.budget.symbol, "share", "noisy numbers", "noise sd"), lines)
    if planned.sets > 1:
        how = "the questions are asked once per set" if planned.each == "split" else "drawn from one model"
        say(f"{planned.sets} sets: {how}")
    if planned.life:
        say(planned.life)
    if planned.person_total is not None:
        say(planned.person_total.sentence)
    if planned.delta is not None:
        say(planned.delta.sentence)
    _show_trees(planned)
    for paths in planned.path_shares:
        say(f"\n{paths.sentence}")
    _show_effects(planned)
    _show_errors(planned)
    _show_widths(planned)
    if better := [p.line for p in planned.bins]:
        _table("Bins that would suit better", ("column", "written", "why", "bins now", "better"), better, words=3)
    took = (
        f"{planned.resources.memory / 1e6:,.0f} MB of memory and {_time(planned.resources.seconds)} of processor time"
    )
    say(f"\nAbout {took}, to within a factor of 1.5; a busy machine takes longer.")


def _show_trees(planned: Plan) -> None:
    """What each tree costs, and how deep its branches go."""
    if planned.trees is None:
        return
    lines: list[tuple[object, ...]] = []
    for c in planned.trees.costs[:COSTS]:
        each, total = (f"{float(budget.exact):.4g}" for budget in (c.each, c.total))
        lines.append((c.ensemble, c.question, each, c.times, c.strata, total))
    _table(
        f"What each question costs: {planned.budget.symbol} each × how often × strata that add up",
        ("labels", "question", "each", "times", "strata", "total"),
        lines,
        words=2,
    )
    if len(planned.trees.costs) > COSTS:
        say(f"… {len(planned.trees.costs) - COSTS} more: --json")
    if planned.trees.all_strata.units > planned.trees.total.units and planned.person_total is None:
        say(f"A person who is in every stratum pays {planned.trees.all_strata} in all.")
    shapes = [s for s in planned.trees.shapes if s.leaves][:2]
    if not shapes:
        return
    deepest = max(len(s.leaves_by_depth) for s in shapes)
    lines = []
    for shape in shapes:
        rows, leaves = (
            [*counts, *[0] * (deepest - len(counts))] for counts in (shape.rows_by_depth, shape.leaves_by_depth)
        )
        split = f"{shape.ensemble}, split from {shape.n_b:,.0f} rows"
        lines.append((f"{split}: rows", *(f"{r / max(sum(rows), 1):.0%}" for r in rows)))
        lines.append(("leaves", *(f"{n:,}" for n in leaves)))
    title = "Attributes asked on the way to a leaf: share of the rows, leaves that have rows"
    _table(title, ("", *map(str, range(deepest))), lines)


def _show_effects(planned: Plan) -> None:
    """Of a log-linear labeller: every table, and how precisely it tells effects."""
    known = [s for s in planned.steps if s.effect_error is not None and s.cells is not None]
    if not known:
        return
    worst = sorted(known, key=lambda s: -(s.effect_error or 0.0))
    lines = []
    for s in worst[:ROWS_SHOWN]:
        numbers = f"{float(s.budget.exact):.3g}", _number(s.sd or 0.0), _number(s.effect_error or 0.0, 2)
        lines.append((" × ".join(s.attributes), f"{s.cells:,}", *numbers))
    _table(
        "Effects on labels, least precise first; ± is the standard error of a log-odds in an average cell, before shrinkage, "
        "were labels equally frequent (rare ones are less precise)",
        ("table", "noisy numbers", planned.budget.symbol, "noise sd", "±"),
        lines,
    )
    if len(worst) > ROWS_SHOWN:
        say(f"… {len(worst) - ROWS_SHOWN} more, ± {_number(worst[-1].effect_error or 0.0, 2)} or more")


def _show_errors(planned: Plan) -> None:
    known = [e for e in planned.errors if e.tvd is not None and e.how != "public"]
    if not known:
        if planned.rows is None:
            say("Expected errors of shares need the number of rows: give --rows.")
        return
    lines: list[tuple[object, ...]] = []
    for ways in (1, 2):
        group = sorted((e for e in known if len(e.attributes) == ways), key=lambda e: -(e.tvd or 0.0))
        for e in group[:ROWS_SHOWN]:
            errors = (_number(100 * (error or 0.0), 2) for error in (e.share_sd, e.tvd))
            lines.append((" × ".join(e.attributes), f"{e.cells:,}", *errors, e.how))
        if len(group) > ROWS_SHOWN:
            least = group[-1].tvd or 0.0
            lines.append((f"… {len(group) - ROWS_SHOWN} more", "", "", f"{_number(100 * least, 2)} or more", ""))
    unknown = sum(e.how == "unknown" for e in planned.errors)
    more = f"; {unknown} marginal{'' if unknown == 1 else 's'} cannot be predicted" if unknown else ""
    say(f"\nExpected error from the noise alone, in percentage points of all rows, worst first{more}")
    table("", ("marginal", "cells", "sd of a share", "total variation", ""), lines, right=(1, 2, 3))


def _show_widths(planned: Plan) -> None:
    from dipsmith.methods.outlook import QUANTILES

    known = [(w, w.typical) for w in planned.widths if w.typical is not None and w.labels > 1]
    if not known:
        return
    share = f"{planned.level:.0%} interval of a label's share of {planned.p0:g}"
    if all(w.of_trees for w, _ in known):
        quantiles = range(1, 6)
        lines: list[tuple[object, ...]] = []
        for w, _ in known[:2]:
            leaves = f"{w.leaves:,} {'leaf' if w.leaves == 1 else 'leaves'}"
            lines.append((f"{w.what}: {leaves}, rows in a leaf", *(f"{w.rows[i]:,}" for i in quantiles)))
            lines.append(("width, a leaf on its own", *(f"{w.widths[i]:.2g}" for i in quantiles)))
            if w.shrunk is not None:
                lines.append(("width, leaves estimated together, about", "", "", f"{w.shrunk:.2g}", "", ""))
        title = f"Leaves, smallest first, by the share of rows that they label; widths are those of the {share}"
        _table(title, ("", *(f"{100 * QUANTILES[i]:.0f} %" for i in quantiles)), lines)
        return
    worst = sorted(known, key=lambda pair: -pair[1][1])
    _table(
        f"Where labels are made: width of the {share}, each cell on its own, worst first",
        ("labels", "cells", "λ = ε/Δ", "rows, smallest 5 %", "rows, median", "width there"),
        [
            (w.what, f"{w.leaves:,}", f"{w.lam:.3g}", f"{w.rows[1]:,}", f"{n:,}", f"{width:.2g}")
            for w, (n, width) in worst[:ROWS_SHOWN]
        ],
    )


def _table(title: str, columns: Sequence[str], lines: Sequence[Sequence[object]], words: int = 1) -> None:
    """A table under its title; the columns after the first `words` are numbers."""
    say(f"\n{title}")
    table("", columns, lines, right=range(words, len(columns)))


def _range(low: float, high: float) -> str:
    first, last = _number(low), _number(high)
    return first if first == last else f"{first} to {last}"


def _number(value: float, digits: int = 3) -> str:
    """A number as a person reads it, never as 1e+02.

    >>> _number(100.0, 2), _number(12345.6), _number(0.01234)
    ('100', '12,346', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:.{digits}g}"


def _time(seconds: float) -> str:
    long = f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
    return f"{seconds:.0f} seconds" if seconds < 90 else long
